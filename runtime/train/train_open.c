// train_open.c - starts or resumes a run: agrees on options, opens folder, data and weights; and
// the command.
#include "commands.h"
#include "train.h"
#include "weights.h"

#include <math.h>
#include <string.h>

GanStatus train_restore(Train *t, bool resume, Checkpoint *at) {
    Checkpoint want = {
        .step = NONE, .seed = job_seed(t->job), .model = t->job->now_hash, .real = t->job->real};
    bool found = false;
    if (resume && stage_begins(t))
        return stage_begin(t, &want, at);
    if (resume && ranks_first(t->comm))
        TRY(checkpoint_load(t->perm, t->dir, t->session.exec, &want, &t->host->console, at,
                            &found));
    TRY(comm_any(t->comm, found, &found));
    if (!found) {
        *at = want;
        at->step = 0;
    }
    if (!found && resume && t->job->from.len)
        return fail(GAN_ERR_INPUT,
                    "%.*s was stopped before it had saved its initial weights, those of "
                    "%.*s: start it again with another --out",
                    SARG(t->dir), SARG(t->job->from));
    if (!found && resume) // else they were drawn as the session was opened
        TRY(exec_init(t->session.exec, job_seed(t->job)));
    if (ranks_first(t->comm))
        TRY(weights_pretrained(t->perm, t->job, t->session.exec, !found));
    if (!resume && t->job->from.len && ranks_first(t->comm))
        TRY(weights_from(t->perm, t->job->from, t->job->from_optimizer, t->session.exec,
                         &t->host->console));
    TRY(comm_bcast(t->comm, at, sizeof *at, 0));
    at->model = want.model; // rank 0's addresses are of no use here
    at->data = ranks_first(t->comm) ? at->data : (Str){0};
    TRY(checkpoint_share(t->session.exec, t->comm));
    if (found && at->streams != t->session.compiled.module.stream.n)
        return fail(GAN_ERR_INPUT, "the checkpoint of step %u has %u data streams, the model %u",
                    at->step, at->streams, t->session.compiled.module.stream.n);
    t->step = at->step;
    return GAN_OK;
}

// --- a run ---------------------------------------------------------------------------------------

static void notice(void *user, const char *text) {
    const Host *h = user;
    say(&h->console, "%s", text);
}

static Str next_line(Str *text) {
    size_t n = str_find(*text, '\n');
    Str line = str_sub(*text, 0, n);
    *text = str_sub(*text, n + 1, text->len);
    return line;
}

// Other data than the checkpoint's are the user's to choose, but nobody is to take the run for one
// that was never interrupted.
static void tell_other_data(const Train *t, const Checkpoint *at) {
    Str was = at->data, is = feed_identity(t->feed, t->perm);
    while (was.len && is.len) {
        Str before = next_line(&was), now = next_line(&is);
        if (!str_eq(before, now))
            say(&t->host->console,
                "the data have changed since step %u: %.*s; before that %.*s. The run goes on with "
                "what is there, not as it would have without the change",
                at->step, SARG(now), SARG(before));
    }
}

static FieldFacts *facts_of(Train *t, Str field) {
    Job *job = t->job;
    for (uint32_t i = 0; i < job->fact.n; i++)
        if (str_eq(job->fact.at[i].field, field))
            return &job->fact.at[i];
    vec_push(t->perm, &job->fact, (FieldFacts){.field = str_copy(t->perm, field)});
    return &job->fact.at[job->fact.n - 1];
}

static void note_field(Train *t, uint32_t slot) {
    const Module *m = &t->session.compiled.module;
    const Slot *s = &m->slot.at[slot];
    const Str *names;
    uint32_t n = feed_classes(t->feed, slot, &names), rate = feed_rate(t->feed, slot);
    FieldFacts now = {.rate = rate};
    bool scaled = false, ranged = feed_range(t->feed, slot, &now.lo, &now.hi);
    if (s->kind != SlotData)
        return;
    const Field *f = &m->stream.at[s->stream].field.at[s->site];
    for (uint32_t i = 0; i < f->xform.n; i++)
        scaled |= f->xform.at[i].kind == XformScale;
    now.ranged = ranged && scaled;
    if (!n && !rate && !now.ranged)
        return;
    for (uint32_t i = 0; i < n; i++) // those that were known first
        vec_push(t->perm, &now.name, str_copy(t->perm, names[i]));
    FieldFacts *was = facts_of(t, f->name);
    now.field = was->field;
    *was = now;
}

// What the data say of themselves and samples are asked for or written by.
static void note_data(Train *t) {
    Job *job = t->job;
    job->rate = 0;
    for (uint32_t i = 0; i < t->session.compiled.module.slot.n; i++) {
        note_field(t, i);
        job->rate = job->rate ? job->rate : feed_rate(t->feed, i);
    }
    for (uint32_t i = 0; i < job->fact.n; i++) // an older version's, by now with its field
        if (!job->fact.at[i].field.len)
            job->fact.at[i] = job->fact.at[--job->fact.n];
}

static GanStatus open_feed(void *user) {
    Train *t = user;
    FeedOptions o = {.job = t->job, .notice = notice, .user = (void *)(uintptr_t)t->host};
    TRY(feed_open(t->perm, &t->session.compiled.module, &o, &t->feed));
    note_data(t);
    return t->comm ? ranks_agree(*t->perm, t->comm, "data", '\n', feed_identity(t->feed, t->perm))
                   : GAN_OK;
}

static GanStatus open_first(void *user) {
    Train *t = user;
    TRY(weights_from_facts(t->perm, t->comm, t->job));
    TRY(open_feed(user));
    return stages_check(user);
}

// A new one where none was named.
static GanStatus claim_folder(Train *t) {
    char name[1024] = "";
    if (ranks_first(t->comm)) {
        TRY(run_claim(t->perm, t->job->origin, &t->dir));
        snprintf(name, sizeof name, "%.*s", SARG(t->dir));
    }
    TRY(comm_bcast(t->comm, name, sizeof name, 0));
    t->dir = str_copy(t->perm, str_c(name));
    return GAN_OK;
}

// A run that goes on is whole until its folder is prepared: who is asked to stop need not wait for
// the compiler. Before a run begins there is none, which is what main.c says.
static void stop_at_once(Arena *perm, const Host *h, Str dir) {
    Str words = str_format(perm,
                           "stopped before another step, the run is as it was; `ganrun train %.*s` "
                           "resumes",
                           SARG(dir));
    if (h->stop_ends)
        h->stop_ends(ranks_first(h->device.comm) ? words.ptr : "", gan_exit_code(GAN_STOPPED));
}

static void stop_on_request(const Host *h) {
    if (h->stop_ends)
        h->stop_ends(NULL, 0);
}

// Rank 0's alone, as all that writes. The others have agreed to everything before.
static GanStatus prepare_folder(Train *t, bool resume) {
    stop_on_request(t->host);
    if (ranks_first(t->comm))
        TRY(job_writable(t->job));
    if (!t->dir.len)
        TRY(claim_folder(t));
    if (!ranks_first(t->comm))
        return GAN_OK;
    if (resume) {
        TRY(t->past ? GAN_OK : run_rewrite(t->perm, t->dir, t->job));
    } else {
        Str resolved;
        TRY(job_resolved(t->job, t->perm, &resolved));
        TRY(run_lock(t->perm, t->dir, &t->lock));
        if (run_is(*t->perm, t->dir)) // begun, and ended, since the command looked
            return fail(GAN_ERR_INPUT,
                        "%.*s has become a run in the meantime: `ganrun train %.*s` goes on with "
                        "it; another --out begins anew",
                        SARG(t->dir), SARG(t->dir));
        TRY(run_create(t->perm, t->dir, t->job, resolved));
    }
    return t->comm ? link_keep(*t->perm, t->dir, t->link) : GAN_OK;
}

static GanStatus open_log(Train *t) {
    meter_init(t->perm, &t->session.compiled.module, &t->meter);
    shares_init(t->perm, exec_step_plan(t->session.exec), &t->timing.shares);
    if (!t->trace) // a time line is of steps one by one
        meter_ahead(&t->meter, t->session.exec);
    t->taken = t->step;
    t->progress =
        (Progress){.console = &t->host->console,
                   .meter = &t->meter,
                   .shares = &t->timing.shares,
                   .health = &t->log.health,
                   .comm = t->comm,
                   .job = t->job,
                   .device_bytes = exec_fetches(t->session.exec) ? exec_bytes(t->session.exec) : 0,
                   .first = t->step,
                   .last = job_now(t->job)->last};
    if (!ranks_first(t->comm))
        return GAN_OK;
    if (t->step == 0)
        TRY(file_remove(path_join(t->perm, t->dir, STR("log.jsonl"))));
    TRY(runlog_open(t->perm, t->dir, job_now(t->job)->first, t->step, &t->meter, &t->monitor,
                    &t->log));
    uint32_t of;
    t->said = health_word(&t->log.health, &of);
    TRY(events_open(t->perm, t->dir, t->step, &t->events));
    return train_images(t);
}

// Whatever the bits of a run follow from is the same on every rank, or is named.
static GanStatus agree_on_job(Train *t) {
    if (!t->comm)
        return GAN_OK;
    Text text = {.arena = t->perm};
    Str model;
    Job job = *t->job;
    job.origin = (Str){0}; // wherever a rank has it: what it says is compared
    job.hash = (Str){0};   // follows from the model and what the job says
    job.data.n = 0;        // by open_feed
    job.weights.n = 0;     // rank 0's alone are read
    TRY(job_resolved(t->job, t->perm, &model));
    TRY(ranks_agree(*t->perm, t->comm, "model", '\n', model));
    job_write(&text, &job);
    return ranks_agree(*t->perm, t->comm, "job", ',', text_str(&text));
}

static GanStatus open_session(Train *t, const TrainOptions *o) {
    Parallel p;
    TRY(ranks_parallel(t->comm, job_batch(t->job), &t->job->split, t->link, &p));
    SessionOptions so = job_session(t->job, &t->host->device, &p);
    so.api = o->api ? o->api : so.api;
    uint64_t seed = job_seed(t->job);
    so.seed = o->resume ? NULL : &seed;
    so.steps = true;
    so.check = o->resume ? open_feed : open_first; // compilers may take minutes
    so.user = t;
    TRY(session_start(&t->session, &so, &t->host->console));
    return t->comm ? ranks_agree(*t->perm, t->comm, "plan", '\n',
                                 plan_collectives(t->perm, &t->session.compiled.step))
                   : GAN_OK;
}

// Once, of the first sample there is one for.
static void warn_of_ranges(const Train *t) {
    const Module *m = &t->session.compiled.module;
    for (uint32_t i = 0; i < m->entry.n; i++) {
        Arena scratch = *t->perm;
        Str words = m->entry.at[i].result.n ? sampler_unreachable(&scratch, m, i) : (Str){0};
        if (!words.len)
            continue;
        say(&t->host->console, "%.*s", SARG(words));
        return;
    }
}

// Steps of the stage before a schedule ends.
static uint32_t steps_rated(const Train *t, const Update *u) {
    double steps = u->until ? u->until : u->epochs ? feed_steps(t->feed, u->epochs) : INFINITY;
    uint32_t all = job_now(t->job)->last - job_now(t->job)->first;
    return steps < all ? (uint32_t)steps : all;
}

// A schedule that ends before the run: what is left of it changes nothing, or undoes what was
// learned.
static void warn_of_rates(const Train *t) {
    const Module *m = &t->session.compiled.module;
    const JobStage *now = job_now(t->job);
    for (uint32_t i = 0; i < m->step.update.n; i++) {
        const Update *u = &m->step.update.at[i];
        uint32_t end = now->first + steps_rated(t, u);
        Arena scratch = *t->perm;
        if (end >= now->last || t->step >= now->last)
            continue;
        bool stages = t->job->stage.n > 1;
        Str fewer = stages ? (Str){0} : str_format(&scratch, ", or train with --steps %u", end);
        say(&t->host->console,
            "warning: the learning rate of %.*s is %s from step %u on, and %s ends with step %u: "
            "make the schedule longer%.*s",
            SARG(update_name(&scratch, m, u)), u->below ? "below 0, uphill," : "0", end + 1,
            stages ? "the stage" : "the run", now->last, SARG(fewer));
    }
}

static GanStatus open_run(Train *t, Job *job, const TrainOptions *o) {
    bool resume = o->resume, first = !t->step; // of the stages this process trains
    const Console *c = &t->host->console;
    Checkpoint at = {0};
    TRY(resume ? job_unchanged(job, c, t->perm) : job_hash(job, c, t->perm, &job->hash));
    TRY(agree_on_job(t));
    if (resume && ranks_first(t->comm))
        TRY(run_lock(t->perm, t->dir, &t->lock));
    TRY(stage_choose(t, resume));
    stage_tell(t);
    TRY(open_session(t, o));
    if (resume) {
        bool begins = stage_begins(t);
        TRY(train_restore(t, true, &at));
        if (!begins)
            say(c, "resumed from step %u", t->step);
    }
    if (at.streams)
        TRY(feed_seek(t->feed, at.position));
    tell_other_data(t, &at);
    train_tell(t);
    TRY(monitor_open(t->perm, t->host, job, &t->session, t->feed, &t->monitor));
    if (!resume)
        TRY(train_restore(t, false, &at));
    if (first)
        TRY(trace_within(t->trace, t->step, job->steps));
    progress_title(*t->perm, &t->host->console, &t->session, t->job);
    warn_of_ranges(t);
    warn_of_rates(t);
    TRY(prepare_folder(t, resume)); // behind all that may be a mistake in what was asked
    return open_log(t);
}

static GanStatus show_done(Train *t) {
    if (t->past) {
        say(&t->host->console,
            "this run has done %u steps, more than were asked for, and stays as it is", t->step);
        return GAN_OK;
    }
    TRY(train_score(t)); // it was ended while its last step was measured
    say(&t->host->console,
        "this run has done its %u steps; `ganrun train %.*s --steps N` goes further", t->step,
        SARG(t->dir));
    return ranks_first(t->comm) ? train_page(t) : GAN_OK;
}

// What is left of the stage at hand. *step: steps done; before, 0 but for a later stage. *more: the
// run goes on behind it. o->dir is its folder behind that, whoever named it.
static GanStatus train_stage(Arena *perm, const Host *h, Job *job, TrainOptions *o, Trace *trace,
                             uint32_t *step, bool *more) {
    GanStatus st = GAN_OK;
    Train *t =
        arena_new(perm, Train); // collectives under way may write to it until the rank leaves
    *t = (Train){.perm = perm,
                 .host = h,
                 .comm = h->device.comm,
                 .job = job,
                 .dir = o->dir,
                 .trace = trace,
                 .step = *step};
    if (o->resume)
        stop_at_once(perm, h, o->dir);
    TRY_OUT(link_find(*perm, t->comm, o->resume && !o->replan ? o->dir : (Str){0}, &t->link));
    comm_compress(t->comm, job->compress ? COMPRESS_LEAST : 0);
    TRY_OUT(open_run(t, job, o));
    TRY_OUT(t->step >= job->steps ? show_done(t) : train_steps(t));
    TRY_OUT(comm_barrier(t->comm));      // leaving has less patience than rank 0's save may need
    TRY_OUT(trace_write(trace, t->dir)); // whatever becomes of later stages
    o->dir = t->dir;
    *step = t->step;
    *more = t->step < job->steps && !t->out_of_patience;
out:
    monitor_close(&t->monitor);
    feed_close(t->feed);
    if (st == GAN_OK || st == GAN_STOPPED || !t->comm) // else sums may still arrive in its memory
        session_release(&t->session);
    file_unlock(t->lock);
    return st;
}

// The end of a stage is a stop, and its beginning a run that goes on: so what one is killed in, or
// between, makes no difference.
GanStatus train_run(Arena *perm, const Host *h, Job *job, const TrainOptions *o) {
    TrainOptions next = *o;
    Trace *trace;
    if (!ganx_is(job->model))
        TRY(compile_read(perm, job->model, &job->text)); // later stages are of the same text
    TRY(trace_open(perm, h->device.comm, o->trace, &trace));
    uint32_t step = 0;
    for (bool more = true; more; next.resume = true)
        TRY(train_stage(perm, h, job, &next, trace, &step, &more));
    say(&h->console, "open %.*s/index.html", SARG(next.dir));
    return GAN_OK;
}

// --- the command ---------------------------------------------------------------------------------

static GanStatus resume_run(Arena *perm, const Host *h, const Options *o, TrainOptions *t) {
    Job job;
    TRY(run_want(*perm, t->dir));
    TRY(run_read(perm, t->dir, &job));
    TRY(job_resume(perm, t->dir, &job, o));
    t->resume = true;
    return train_run(perm, h, &job, t);
}

static GanStatus rejoin_run(Arena *perm, const Host *h, const Options *o, Job *asked,
                            TrainOptions *t) {
    Job job;
    TRY(run_read(perm, t->dir, &job));
    TRY(job_hash(asked, &h->console, perm, &asked->hash));
    TRY(job_rejoin(perm, &job, asked, o));
    t->resume = true;
    return train_run(perm, h, &job, t);
}

GanStatus cmd_train(Arena *perm, const Host *h, const Options *o) {
    Str what = o->file.at[0];
    bool rejoin = o->at[OptResume].given;
    TrainOptions t = {
        .dir = what, .replan = o->at[OptReplan].given, .trace = option_text(o, OptTrace, (Str){0})};
    if (file_is_dir(what))
        return resume_run(perm, h, o, &t);
    if (rejoin && !o->at[OptOut].given)
        return fail(GAN_ERR_USAGE, "--resume auto needs --out DIR: the run to resume, or to begin");
    Job job;
    TRY(job_from_options(perm, o, &job));
    t.dir = o->at[OptOut].text;
    if (!t.dir.len || !run_is(*perm, t.dir))
        return train_run(perm, h, &job, &t);
    if (rejoin)
        return rejoin_run(perm, h, o, &job, &t);
    return fail(
        GAN_ERR_INPUT,
        "%.*s is a run already: `ganrun train %.*s` goes on with it; another --out begins anew",
        SARG(t.dir), SARG(t.dir));
}
