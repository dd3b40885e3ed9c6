// trained.c - a run opened to be looked at: its model on a device with the weights of the newest
// checkpoint, and its data or other data in their place.
#include "runs.h"

static void notice(void *user, const char *text) {
    const Host *h = user;
    say(&h->console, "%s", text);
}

static GanStatus set_job(Arena *perm, const Options *o, Job *job) {
    const DeviceApi *api;
    Dtype real;
    TRY(device_of(o, &api, &real));
    if (o->at[OptDevice].given)
        job->device = str_c(api->name);
    job->threads = (int)option_number(o, OptThreads, job->threads);
    return o->at[OptPaths].given ? job_set_data(perm, job, o) : GAN_OK;
}

static GanStatus open_run(Arena *perm, const Host *h, const Options *o, bool fed, Trained *out) {
    *out = (Trained){.dir = o->file.at[0]};
    if (!run_is(*perm, out->dir))
        return fail(GAN_ERR_INPUT, "%.*s is not the folder of a run: it has no options.json",
                    SARG(out->dir));
    TRY(run_read(perm, out->dir, &out->job));
    TRY(set_job(perm, o, &out->job));
    SessionOptions so = job_session(&out->job, &h->device, NULL);
    so.compile.feed_entries = fed;
    TRY(session_start(&out->session, &so, &h->console));
    return trained_load(perm, h, out, 0);
}

GanStatus trained_load(Arena *perm, const Host *h, Trained *t, uint32_t step) {
    Checkpoint at,
        want = {.step = step, .seed = t->job.seed, .model = t->job.hash, .real = t->job.real};
    bool found;
    TRY(checkpoint_load(perm, t->dir, t->session.exec, &want, &h->console, &at, &found));
    t->step = at.step;
    return found ? GAN_OK : fail(GAN_ERR_INPUT, "%.*s has no checkpoint yet", SARG(t->dir));
}

GanStatus trained_open(Arena *perm, const Host *h, const Options *o, Trained *out) {
    return open_run(perm, h, o, false, out);
}

GanStatus trained_open_fed(Arena *perm, const Host *h, const Options *o, Trained *out) {
    return open_run(perm, h, o, true, out);
}

GanStatus trained_feed(Arena *perm, const Host *h, Trained *t) {
    FeedOptions o = {.job = &t->job, .notice = notice, .user = (void *)(uintptr_t)h};
    return feed_open(perm, &t->session.compiled.module, &o, &t->feed);
}

void trained_close(Trained *t) {
    feed_close(t->feed);
    session_release(&t->session);
    *t = (Trained){0};
}
