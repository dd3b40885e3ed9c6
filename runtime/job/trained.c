// trained.c - opens a run for reading: its model on a device, the weights of a checkpoint, and its
// data or other data.
#include "checkpoint.h"
#include "trained.h"
#include "weights.h"

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
    TRY(job_set_weights(perm, job, o));
    return job_set_data(perm, job, o);
}

// Whether an entry reads a pretrained net: else its file may be far away.
static bool samples_ask(const Module *m) {
    for (uint32_t i = 0; i < m->slot.n; i++)
        for (uint32_t k = 0; k < m->entry.n && net_pretrained(m, m->slot.at[i].net); k++)
            if (func_reads(&m->entry.at[k], i))
                return true;
    return false;
}

// The run's own text, whose weights mean nothing to an edited one; or with --model another, which
// finds them by their names.
static GanStatus set_model(Arena *perm, const Host *h, const Options *o, Trained *t) {
    Str hash;
    t->other = o->at[OptModel].given;
    if (!t->other)
        return job_unchanged(&t->job, &h->console, perm);
    TRY(path_absolute(perm, o->at[OptModel].text, &t->job.model));
    t->job.origin = t->job.model; // files of pretrained nets are beside it
    return job_hash(&t->job, &h->console, perm, &hash);
}

static bool has_field(const Module *m, Str name) {
    for (uint32_t i = 0; i < m->stream.n; i++)
        for (uint32_t k = 0; k < m->stream.at[i].field.n; k++)
            if (str_eq(m->stream.at[i].field.at[k].name, name))
                return true;
    return false;
}

// The run's data that another text has no field for: only what --data names must be in it.
static void drop_data(Job *job, const Module *m, const Options *o) {
    uint32_t kept = 0;
    for (uint32_t i = 0; i < job->data.n; i++)
        if (job_names_data(o, job->data.at[i].key) || has_field(m, job->data.at[i].key))
            job->data.at[kept++] = job->data.at[i];
    job->data.n = kept;
}

typedef struct Opening {
    Arena *perm;
    const Options *options;
    const TrainedOptions *how;
    Trained *run;
} Opening;

static GanStatus check(void *user) {
    const Opening *w = user;
    Job *job = &w->run->job;
    const Module *m = &w->run->session.compiled.module;
    if (w->run->other)
        drop_data(job, m, w->options);
    TRY(feed_names_known(*w->perm, m, job));
    TRY(weights_names_known(m, job));
    return w->how->check ? w->how->check(w->how->user) : GAN_OK;
}

GanStatus trained_open(Arena *perm, const Host *h, const Options *o, const TrainedOptions *how,
                       Trained *out) {
    Opening opening = {perm, o, how, out};
    *out = (Trained){.dir = o->file.at[0]};
    TRY(run_want(*perm, out->dir));
    TRY(run_read(perm, out->dir, &out->job));
    TRY(set_job(perm, o, &out->job));
    uint32_t step = (uint32_t)option_number(o, OptStep, NONE), of = step; // NONE: the newest
    TRY(set_model(perm, h, o, out));
    if (step == NONE && out->job.stage.n > 1)
        TRY(checkpoint_newest(perm, out->dir, &of));
    TRY(job_stage(&out->job, perm, of == NONE ? 0 : of, false));
    if (out->job.stage.n > 1)
        weights_forget(&out->job);
    SessionOptions so = job_session(&out->job, &h->device, NULL);
    so.compile.feed_entries = how->fed;
    so.compile.memory = 0; // of a rank of the training
    so.check = check;
    so.user = &opening;
    GanStatus st = session_open(&out->session, &so);
    // Warnings of the run's own text were shown as it began.
    if (out->other || (st != GAN_OK && diag_errors(&out->session.front)))
        show_diagnostics(perm, &out->session.front, &h->console);
    TRY(st);
    TRY(trained_load(perm, h, out, step));
    return samples_ask(&out->session.compiled.module)
               ? weights_pretrained(perm, &out->job, out->session.exec, false)
               : GAN_OK;
}

static GanStatus not_there(Arena scratch, Str dir, uint32_t step) {
    CheckpointSteps there = {0};
    Text t = {.arena = &scratch};
    TRY(checkpoint_steps(&scratch, dir, &there));
    if (!there.n)
        return fail(GAN_ERR_INPUT, "%.*s has no checkpoint yet", SARG(dir));
    for (uint32_t i = 0; i < there.n; i++)
        text_fmt(&t, "%s%u", i ? ", " : "", there.at[i]);
    return fail(GAN_ERR_INPUT,
                "%.*s has no checkpoint of step %u; there are %.*s (--keep N of training keeps "
                "more)",
                SARG(dir), step, SARG(text_str(&t)));
}

GanStatus trained_load(Arena *perm, const Host *h, Trained *t, uint32_t step) {
    Checkpoint at,
        want = {.step = step, .seed = job_seed(&t->job), .real = t->job.real, .job = &t->job};
    bool found;
    if (!t->other)
        want.model = t->job.now_hash;
    TRY(checkpoint_load(perm, t->dir, t->session.exec, &want, &h->console, &at, &found));
    if (!found)
        return not_there(*perm, t->dir, step);
    t->step = at.step;
    uint32_t steps = at.step - job_now(&t->job)->first; // of the stage, which counts its own
    exec_set_progress(t->session.exec,
                      &(Counters){.step = steps,
                                  .epoch = (double)at.epoch,
                                  .kimg = (double)steps * (double)job_batch(&t->job) / 1000});
    return GAN_OK;
}

GanStatus trained_reads(const Func *entry, const Options *o) {
    if (entry->data.n || !o->at[OptPaths].pair.n)
        return GAN_OK;
    return fail(GAN_ERR_USAGE, "--data %.*s: sample %.*s reads no data",
                SARG(o->at[OptPaths].pair.at[0].key), SARG(entry->name));
}

GanStatus trained_feed(Arena *perm, const Host *h, Trained *t) {
    FeedOptions o = {.job = &t->job,
                     .in_order = t->in_order,
                     .only = t->only,
                     .notice = notice,
                     .user = (void *)(uintptr_t)h};
    return feed_open(perm, &t->session.compiled.module, &o, &t->feed);
}

void trained_close(Trained *t) {
    feed_close(t->feed);
    session_release(&t->session);
    *t = (Trained){0};
}
