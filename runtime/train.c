// train.c - training: steps, what is logged of them, and saves.
//
// In: a job and a folder. Out: a run (runs.h). A step is a function of the weights before it, the
// seed, its number and the batches taken, so a run that is killed anywhere and goes on from its
// last checkpoint repeats the same bits. A save is ordered so that whenever its checkpoint exists,
// its pictures and log do too. On many ranks every one of them runs this file; rank 0 alone touches
// the folder, and the others hold the same weights.
#include "events.h"
#include "ranks.h"
#include "sampler.h"
#include "watch.h"

#include <math.h>
#include <string.h>

// Samples of the data that pictures are compared with at a save: fewer when they are large.
enum { REAL_MOST = 256, REAL_NUMBERS = 12 << 20 };

typedef struct Train {
    Arena *perm;
    const Host *host;
    Comm *comm; // borrowed from the host; NULL: one rank
    const Job *job;
    Str dir;
    FileLock *lock; // owned, with what follows
    Session session;
    Feed *feed;
    Meter meter;
    RunLog log;
    Events events; // the same for TensorBoard
    Progress progress;
    Sampler sampler;
    size_t pictures;            // of a grid; 0: the model shows none
    float *picture;             // [pictures, c, h, w]
    size_t reals;               // samples of the data they are compared with; 0: none
    float *real;                // [reals, c, h, w]
    uint32_t step;              // steps given to the device
    uint32_t taken;             // steps whose numbers are in: the later ones may still be at work
    StepLine line[METER_STEPS]; // of those, by number
    double began[METER_STEPS], ended; // clock: when a step began; when the last one taken was in
    LinkModel link;                   // between the ranks
    Trace *trace;                     // NULL: none
    double block;                     // when the present block began
    float stop;                       // 1: some rank was asked to stop as this step began
    Watch *watch;                     // borrowed; NULL but while steps are repeated
} Train;

// --- hooks of the executor -----------------------------------------------------------------------

static GanStatus before_block(void *user, Exec *e, uint32_t block, uint32_t round) {
    (void)round;
    Train *t = user;
    TRY(feed_block(t->feed, e, block));
    t->block = time_now();
    return GAN_OK;
}

static GanStatus after_block(void *user, Exec *e, uint32_t block, uint32_t round) {
    Train *t = user;
    trace_part(t->trace, t->step + 1, "block", block, t->block);
    return meter_block(&t->meter, e, block, round);
}

static GanStatus at_launch(void *user, Exec *e, uint32_t launch, bool done, const Counters *c) {
    (void)e;
    Train *t = user;
    return watch_launch(t->watch, launch, done, c);
}

// --- pictures ------------------------------------------------------------------------------------

static GanStatus prepare_pictures(Train *t) {
    const Module *m = &t->session.compiled.module;
    if (!m->entry.n || sampler_find(m, (Str){0}, &t->sampler) != GAN_OK || !t->sampler.show) {
        say(&t->host->console, "no `sample` of the model can be looked at: no pictures");
        return GAN_OK;
    }
    if (t->session.compiled.entry[t->sampler.entry].collective.n) {
        say(&t->host->console,
            "the model's `sample` sums over the batch, which is on %d ranks: "
            "no pictures will be drawn",
            comm_size(t->comm));
        return GAN_OK;
    }
    size_t one = sampler_elements(&t->sampler);
    t->pictures = sampler_fill(&t->sampler);
    t->picture = arena_array(t->perm, float, t->pictures *one);
    bool compared = t->sampler.show == ShowPicture && t->sampler.real_slot != NONE &&
                    !t->sampler.mapped; // other units, other shapes: `ganrun eval` measures them
    if (!compared)
        return GAN_OK;
    size_t n = REAL_NUMBERS / one;
    n = n > REAL_MOST ? REAL_MOST : n < 1 ? 1 : n;
    t->real = arena_array(t->perm, float, n *one);
    return feed_samples(t->feed, t->sampler.real_slot, 0, n, t->real, &t->reals);
}

// Draws the grid and measures how far its pictures are from the data.
static GanStatus draw_pictures(Train *t, Distance *out) {
    *out = (Distance){NAN, NAN};
    if (!t->pictures)
        return GAN_OK;
    const Plan *plan = &t->session.compiled.entry[t->sampler.entry];
    TRY(sampler_draw(&t->sampler, t->session.exec, plan, t->feed, t->job->seed, 0, t->pictures,
                     *t->perm, t->picture));
    TRY(sampler_grid(&t->sampler, t->picture, t->pictures,
                     run_file(t->perm, t->dir, "samples", t->step, "png")));
    if (!t->reals)
        return GAN_OK;
    SwdOptions o = {.seed = t->job->seed, .patches = 16}; // a save must not cost many steps
    SwdResult r;
    TRY(swd_measure(t->picture, t->pictures, t->real, t->reals, t->sampler.chw, &o, &r));
    *out = (Distance){r.pixels, r.levels ? r.mean : NAN};
    return GAN_OK;
}

static GanStatus not_finite(Train *t, uint32_t last, Str why);

// --- saving --------------------------------------------------------------------------------------

static Checkpoint checkpoint_of(const Train *t) {
    Checkpoint c = {.step = t->step,
                    .seed = t->job->seed,
                    .model = t->job->hash,
                    .real = t->job->real,
                    .keep = (uint32_t)t->job->keep};
    const uint64_t *position;
    c.streams = feed_positions(t->feed, &position);
    for (uint32_t i = 0; i < c.streams; i++)
        c.position[i] = position[i];
    return c;
}

static GanStatus show_page(Train *t) {
    Page p = {.dir = t->dir,
              .job = t->job,
              .module = &t->session.compiled.module,
              .log = &t->log,
              .step = t->step};
    return page_write(*t->perm, &p);
}

static GanStatus save(Train *t) {
    double began = time_now();
    Distance distance;
    TRY(exec_finish(t->session.exec));
    comm_forget(t->comm);
    TRY(checkpoint_compare(t->session.exec, t->comm));
    if (!ranks_first(t->comm))
        return GAN_OK;
    TRY(draw_pictures(t, &distance));
    Arena scratch = *t->perm;
    TRY(runlog_save(&t->log, scratch, t->step, distance));
    TRY(events_save(&t->events, scratch));
    if (t->step || t->job->from.len) { // else step 0 follows from the seed
        Checkpoint c = checkpoint_of(t);
        GanStatus st = checkpoint_save(scratch, t->dir, t->session.exec, &c);
        if (st == GAN_ERR_INPUT)
            return not_finite(t, t->step, str_format(t->perm, "step %u: %s", t->step, gan_error()));
        TRY(st);
    }
    TRY(show_page(t));
    t->progress.save += time_now() - began;
    return GAN_OK;
}

// Why a save failed, and what is left.
static GanStatus save_or_explain(Train *t) {
    GanStatus st = save(t);
    if (st == GAN_OK)
        return st;
    return fail_in(st, "saving after step %u failed; earlier checkpoints are as they were",
                   t->step);
}

// --- steps ---------------------------------------------------------------------------------------

static GanStatus log_step(Train *t, const StepLine *line) {
    if (!ranks_first(t->comm))
        return GAN_OK;
    GanStatus st = runlog_step(&t->log, *t->perm, line);
    return st == GAN_OK
               ? st
               : fail_in(st, "logging step %u failed; checkpoints are as they were", line->step);
}

// All ranks stop after the same step: whether one was asked to is reduced beside the step itself.
static GanStatus ask_to_stop(Train *t, uint32_t id) {
    t->stop = t->host->stop_asked();
    CommJob job = {.id = id,
                   .kind = CommMax,
                   .dtype = DtF32,
                   .wire = DtF32,
                   .data = &t->stop,
                   .n = 1,
                   .step = t->step,
                   .what = "the question whether to stop"};
    return comm_start(t->comm, &job);
}

static GanStatus run_step(Train *t, const Counters *c) {
    ExecHooks hooks = {.before = before_block, .after = after_block, .user = t};
    hooks.launch = t->watch ? at_launch : NULL;
    hooks.whole = t->watch; // what it finds is the step's
    uint32_t question = exec_step_plan(t->session.exec)->collective.n; // behind the plan's numbers
    TRY(ask_to_stop(t, question));
    TRY(feed_begin(t->feed, t->session.exec));
    TRY(exec_step(t->session.exec, c, &hooks));
    return comm_wait(t->comm, question);
}

static Counters counters_of(const Train *t) {
    return (Counters){.seed = t->job->seed,
                      .step = t->step,
                      .epoch = feed_epoch(t->feed),
                      .kimg = (double)t->step * (double)t->job->batch / 1000};
}

// The state to begin with, the same on every rank: the newest checkpoint's, else what the seed
// gives.
static GanStatus restore(Train *t, bool resume, Checkpoint *at) {
    Checkpoint want = {.seed = t->job->seed, .model = t->job->hash, .real = t->job->real};
    bool found = false;
    if (resume && ranks_first(t->comm))
        TRY(checkpoint_load(t->perm, t->dir, t->session.exec, &want, &t->host->console, at,
                            &found));
    TRY(comm_any(t->comm, found, &found));
    if (!found)
        *at = want;
    if (!found && resume && t->job->from.len)
        return fail(GAN_ERR_INPUT,
                    "%.*s was stopped before it had kept the weights it begins with, those of "
                    "%.*s: begin it again, with another --out",
                    SARG(t->dir), SARG(t->job->from));
    if (!found && resume) // else they were drawn as the session was opened
        TRY(exec_init(t->session.exec, t->job->seed));
    if (!resume && t->job->from.len && ranks_first(t->comm))
        TRY(checkpoint_begin(t->perm, t->job->from, t->session.exec, &t->host->console));
    TRY(comm_bcast(t->comm, at, sizeof *at, 0));
    at->model = want.model; // rank 0's address is of no use here
    TRY(checkpoint_share(t->session.exec, t->comm));
    if (found && at->streams != t->session.compiled.module.stream.n)
        return fail(GAN_ERR_INPUT, "the checkpoint of step %u has %u data streams, the model %u",
                    at->step, at->streams, t->session.compiled.module.stream.n);
    t->step = at->step;
    return GAN_OK;
}

// --- numbers that are not finite -----------------------------------------------------------------

// Runs the steps up to `last` once more, launch by launch, until one leaves what is not finite.
static GanStatus repeat_steps(Train *t, uint32_t last, Watch *w) {
    bool finite = true;
    while (t->step < last && finite && !t->host->stop_asked()) {
        Counters c = counters_of(t);
        meter_begin(&t->meter, t->step);
        GanStatus st = run_step(t, &c);
        if (st != GAN_OK)
            return t->meter.broken ? GAN_OK : st;
        TRY(watch_left(w, &finite));
        t->step++;
    }
    return GAN_OK;
}

static GanStatus repeat(Train *t, uint32_t last, Str why, Watch *w) {
    Checkpoint at = {0};
    TRY(restore(t, true, &at));
    TRY(feed_seek(t->feed, at.position));
    say(&t->host->console, "%.*s; repeating from step %u to see where it comes from", SARG(why),
        at.step);
    TRY(watch_init(w, t->session.exec));
    t->meter.ahead = 0; // each loss is looked at before anything behind it runs
    t->watch = w;
    GanStatus st = repeat_steps(t, last, w);
    t->watch = NULL;
    TRY(st);
    TRY(watch_keep(w, *t->perm, &t->session.front, t->feed, t->dir, why, at.step));
    Text text = {.arena = t->perm};
    if (w->found)
        watch_tell(w, &t->session.front, &text);
    else
        text_put(&text, STR("no operation gave such a number this time: that points at the machine "
                            "(memory, overheating), not at the model"));
    say(&t->host->console, "%.*s", SARG(text_str(&text)));
    return GAN_OK;
}

// A loss or weight that is not finite ends the run where everything before it is still there to be
// looked at, with the operation it began with named. `last`: the step it was met in.
static GanStatus not_finite(Train *t, uint32_t last, Str why) {
    const char *named = "nonfinite.json has all that is known";
    Watch w = {0};
    GanStatus st = GAN_OK;
    if (t->comm)
        named = "run it on one rank to have the operation named";
    else if (!exec_launches(t->session.exec))
        named = "--device cpu can name the operation";
    else
        st = repeat(t, last, why, &w);
    watch_release(&w);
    if (st != GAN_OK)
        return fail_in(st, "%.*s; repeating the steps failed", SARG(why));
    return fail(
        GAN_ERR_INPUT,
        "%.*s. Nothing was saved since; %s, log.jsonl the losses, ckpt/ the weights before. "
        "`ganrun train %.*s` comes to the same place again",
        SARG(why), named, SARG(t->dir));
}

// A step that did not do: its line is written with what there is, and the run ends there.
static GanStatus step_failed(Train *t, const StepLine *line, GanStatus st) {
    if (!t->meter.broken)
        return st;
    Str why = str_format(t->perm, "step %u: %s", line->step, gan_error());
    TRY(log_step(t, line));
    return not_finite(t, line->step, why);
}

// Waits for the numbers of the oldest step that is still out, and logs them.
static GanStatus take_step(Train *t) {
    uint32_t at = t->taken % METER_STEPS;
    StepLine *line = &t->line[at];
    GanStatus st = meter_take(&t->meter, t->session.exec, t->taken);
    double now = time_now();
    line->step_ms = (now - (t->ended > t->began[at] ? t->ended : t->began[at])) * 1000;
    t->ended = now;
    if (st != GAN_OK)
        return step_failed(t, line, st);
    t->taken++;
    trace_step(t->trace, t->taken, t->began[at]);
    return log_step(t, line);
}

static GanStatus take_all(Train *t) {
    while (t->taken < t->step)
        TRY(take_step(t));
    return GAN_OK;
}

static GanStatus step(Train *t) {
    uint32_t at = t->step % METER_STEPS;
    double data = feed_seconds(t->feed);
    Counters c = counters_of(t);
    StepLine *line = &t->line[at];
    t->began[at] = time_now();
    meter_begin(&t->meter, t->step);
    GanStatus st = run_step(t, &c);
    data = feed_seconds(t->feed) - data;
    t->progress.data += data;
    *line = (StepLine){.step = t->step + 1,
                       .images = (int64_t)(t->step + 1) * t->job->batch,
                       .step_ms = (time_now() - t->began[at]) * 1000,
                       .data_ms = data * 1000};
    if (st != GAN_OK)
        return step_failed(t, line, st);
    t->step++;
    while (t->step - t->taken > t->meter.ahead)
        TRY(take_step(t));
    return GAN_OK;
}

static GanStatus stop_here(Train *t, bool saved) {
    TRY(take_all(t));
    if (!saved)
        TRY(save_or_explain(t));
    TRY(comm_barrier(t->comm)); // leaving has less patience than rank 0's save may need
    return fail(GAN_STOPPED, "stopped after step %u, which is saved; `ganrun train %.*s` goes on",
                t->step, SARG(t->dir));
}

static void tell_comm(const Train *t) {
    CommStats s = comm_stats(t->comm);
    double steps = t->step - t->progress.first;
    if (t->comm)
        say(&t->host->console,
            "collectives: %.3g MB and %.3g ms a step, of which this rank waited %.3g ms",
            (double)s.bytes / 1e6 / steps, s.busy * 1000 / steps, s.exposed * 1000 / steps);
}

static GanStatus steps(Train *t) {
    uint32_t last = (uint32_t)t->job->steps;
    bool saved = true; // at the present step
    if (t->step == 0)
        TRY(save_or_explain(t));
    progress_begin(&t->progress);
    while (t->step < last) {
        if (t->comm ? t->stop > 0 : t->host->stop_asked())
            return stop_here(t, saved);
        TRY(step(t));
        saved = t->step % (uint32_t)t->job->save_every == 0 || t->step == last;
        if (saved) {
            TRY(take_all(t));
            TRY(save_or_explain(t));
        }
        progress_step(&t->progress, *t->perm, t->taken);
    }
    progress_end(&t->progress, *t->perm, t->step);
    tell_comm(t);
    return GAN_OK;
}

// --- a run ---------------------------------------------------------------------------------------

static void notice(void *user, const char *text) {
    const Host *h = user;
    say(&h->console, "%s", text);
}

static GanStatus open_feed(Train *t, const Checkpoint *at) {
    FeedOptions o = {.job = t->job,
                     .position = at->streams ? at->position : NULL,
                     .notice = notice,
                     .user = (void *)(uintptr_t)t->host};
    TRY(feed_open(t->perm, &t->session.compiled.module, &o, &t->feed));
    return t->comm ? ranks_agree(*t->perm, t->comm, "data", '\n', feed_identity(t->feed, t->perm))
                   : GAN_OK;
}

// Rank 0's alone, as all that writes. The others have agreed to everything before.
static GanStatus prepare_folder(Train *t, bool resume) {
    if (!ranks_first(t->comm))
        return GAN_OK;
    if (resume) {
        TRY(run_write_job(t->perm, t->dir, t->job));
    } else {
        Str resolved;
        TRY(job_resolved(t->job, t->perm, &resolved));
        TRY(run_lock(t->perm, t->dir, &t->lock));
        TRY(run_create(t->perm, t->dir, t->job, resolved));
    }
    return t->comm ? link_keep(*t->perm, t->dir, t->link) : GAN_OK;
}

static GanStatus open_log(Train *t) {
    meter_init(t->perm, &t->session.compiled.module, &t->meter);
    if (!t->trace) // a time line is of steps one by one
        meter_ahead(&t->meter, t->session.exec);
    t->taken = t->step;
    t->progress = (Progress){.console = &t->host->console,
                             .meter = &t->meter,
                             .batch = t->job->batch,
                             .first = t->step,
                             .last = (uint32_t)t->job->steps};
    if (!ranks_first(t->comm))
        return GAN_OK;
    if (t->step == 0)
        TRY(file_remove(path_join(t->perm, t->dir, STR("log.jsonl"))));
    TRY(runlog_open(t->perm, t->dir, t->step, &t->meter, &t->log));
    TRY(events_open(t->perm, t->dir, t->step, &t->events));
    return prepare_pictures(t);
}

// Whatever the bits of a run follow from is the same on every rank, or is named.
static GanStatus agree_on_job(Train *t) {
    if (!t->comm)
        return GAN_OK;
    Text text = {.arena = t->perm};
    Str model;
    Job job = *t->job;
    job.origin = (Str){0}; // wherever a rank has it: what it says is compared
    job.data.n = 0;        // by open_feed
    TRY(job_resolved(t->job, t->perm, &model));
    TRY(ranks_agree(*t->perm, t->comm, "model", '\n', model));
    job_write(&text, &job);
    return ranks_agree(*t->perm, t->comm, "job", ',', text_str(&text));
}

// A run that goes on must be the same model, whoever has edited resolved.gan since.
static GanStatus check_hash(Train *t, Job *job, bool resume) {
    Str hash;
    TRY(job_hash(job, t->perm, &hash));
    if (resume && !str_eq(hash, job->hash))
        return fail(
            GAN_ERR_INPUT,
            "%.*s is no longer the model this run began with: its hash is %.*s, options.json "
            "says %.*s",
            SARG(job->model), SARG(hash), SARG(job->hash));
    job->hash = hash;
    return GAN_OK;
}

static GanStatus open_session(Train *t, const TrainOptions *o) {
    Parallel p;
    TRY(ranks_parallel(t->comm, t->job->batch, &t->job->split, t->link, &p));
    SessionOptions so = job_session(t->job, &t->host->device, &p);
    so.api = o->api ? o->api : so.api;
    so.seed = o->resume ? NULL : &t->job->seed;
    so.steps = true;
    TRY(session_start(&t->session, &so, &t->host->console));
    progress_title(*t->perm, &t->host->console, &t->session, t->job);
    return t->comm ? ranks_agree(*t->perm, t->comm, "plan", '\n',
                                 plan_collectives(t->perm, &t->session.compiled.step))
                   : GAN_OK;
}

static GanStatus open_run(Train *t, Job *job, const TrainOptions *o) {
    bool resume = o->resume;
    Checkpoint at = {0};
    TRY(agree_on_job(t));
    if (resume && ranks_first(t->comm))
        TRY(run_lock(t->perm, t->dir, &t->lock));
    TRY(open_session(t, o));
    TRY(check_hash(t, job, resume));
    if (!resume) { // mistakes in --data and --from come before a folder is made
        TRY(open_feed(t, &at));
        TRY(restore(t, false, &at));
        TRY(prepare_folder(t, resume));
    } else {
        TRY(prepare_folder(t, resume));
        TRY(restore(t, true, &at));
        say(&t->host->console, "resumed from step %u", t->step);
        TRY(open_feed(t, &at));
    }
    return open_log(t);
}

static GanStatus show_done(Train *t) {
    say(&t->host->console,
        "this run has done its %lld steps; `ganrun train %.*s --steps N` goes further",
        (long long)t->job->steps, SARG(t->dir));
    return ranks_first(t->comm) ? show_page(t) : GAN_OK;
}

GanStatus train_run(Arena *perm, const Host *h, Job *job, const TrainOptions *o) {
    GanStatus st = GAN_OK;
    Train *t =
        arena_new(perm, Train); // collectives under way may write to it until the rank leaves
    *t = (Train){.perm = perm, .host = h, .comm = h->device.comm, .job = job, .dir = o->dir};
    TRY_OUT(link_find(*perm, t->comm, o->resume && !o->replan ? o->dir : (Str){0}, &t->link));
    comm_narrow(t->comm, job->compress ? COMPRESS_LEAST : 0);
    TRY_OUT(trace_open(perm, t->comm, o->dir, o->trace, &t->trace));
    TRY_OUT(open_run(t, job, o));
    TRY_OUT(t->step >= job->steps ? show_done(t) : steps(t));
    TRY_OUT(comm_barrier(t->comm)); // leaving has less patience than rank 0's save may need
    TRY_OUT(trace_close(t->trace));
    say(&h->console, "open %.*s/index.html", SARG(o->dir));
out:
    feed_close(t->feed);
    if (st == GAN_OK || st == GAN_STOPPED || !t->comm) // else sums may still arrive in its memory
        session_release(&t->session);
    file_unlock(t->lock);
    return st;
}

// --- the command ---------------------------------------------------------------------------------

static GanStatus resume_run(Arena *perm, const Host *h, const Options *o, TrainOptions *t) {
    Job job;
    if (!run_is(*perm, t->dir))
        return fail(GAN_ERR_INPUT, "%.*s is a folder, but not of a run: it has no options.json",
                    SARG(t->dir));
    TRY(run_read(perm, t->dir, &job));
    TRY(job_resume(perm, &job, o));
    t->resume = true;
    return train_run(perm, h, &job, t);
}

static GanStatus rejoin_run(Arena *perm, const Host *h, const Options *o, Job *asked,
                            TrainOptions *t) {
    Job job;
    TRY(run_read(perm, t->dir, &job));
    TRY(job_hash(asked, perm, &asked->hash));
    TRY(job_rejoin(perm, &job, asked, o));
    t->resume = true;
    return train_run(perm, h, &job, t);
}

// The folder a run begins in without --out: rank 0's choice.
static GanStatus choose_folder(Arena *perm, Comm *c, Str model, Str *out) {
    char name[1024] = "";
    snprintf(name, sizeof name, "%.*s", SARG(run_free_name(perm, model)));
    TRY(comm_bcast(c, name, sizeof name, 0));
    *out = str_copy(perm, str_c(name));
    return GAN_OK;
}

GanStatus cmd_train(Arena *perm, const Host *h, const Options *o) {
    Str what = o->file.at[0];
    bool rejoin = o->at[OptResume].given;
    TrainOptions t = {
        .dir = what, .replan = o->at[OptReplan].given, .trace = option_text(o, OptTrace, (Str){0})};
    if (file_is_dir(what))
        return resume_run(perm, h, o, &t);
    if (rejoin && !o->at[OptOut].given)
        return fail(GAN_ERR_USAGE,
                    "--resume auto wants --out DIR: the run to go on with, or to begin");
    Job job;
    TRY(job_from_options(perm, o, &job));
    t.dir = o->at[OptOut].text;
    if (!o->at[OptOut].given)
        TRY(choose_folder(perm, h->device.comm, what, &t.dir));
    if (!run_is(*perm, t.dir))
        return train_run(perm, h, &job, &t);
    if (rejoin)
        return rejoin_run(perm, h, o, &job, &t);
    return fail(
        GAN_ERR_INPUT,
        "%.*s is a run already: `ganrun train %.*s` goes on with it; another --out begins anew",
        SARG(t.dir), SARG(t.dir));
}
