// train.c - the training loop: runs steps and logs them.
//
// In: a job and a folder. Out: a run (job.h). A step is a function of the weights before it, the
// seed, its number and its batches, so a run that is killed anywhere and resumed from its last
// checkpoint repeats the same bits. Every rank runs this file. All hold the same weights; rank 0
// alone writes to the folder.
#include "train.h"

#include <math.h>

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
    return t->watch ? watch_launch(t->watch, launch, done, c)
                    : train_time_launch(t, launch, done, c);
}

// --- steps ---------------------------------------------------------------------------------------

// Once, when the word becomes a bad one.
static void tell_health(Train *t, uint32_t step) {
    uint32_t of;
    HealthWord w = health_word(&t->log.health, &of);
    Arena scratch = *t->perm;
    if (w != t->said && w > HealthOk)
        say(&t->host->console, "step %u: %.*s. %s", step, SARG(runlog_health(&t->log, &scratch)),
            health_why(w));
    t->said = w;
}

// A loss that is not finite ends a run; a report does not, but is said once. In f16 that is what
// skipped updates report.
static void tell_reports(Train *t, uint32_t step) {
    const Series *first = NULL;
    uint32_t others = 0;
    for (uint32_t i = 0; i < t->meter.series.n && !t->meter.scaled; i++) {
        Series *s = &t->meter.series.at[i];
        if (!s->report || s->told || !series_ran(s) || isfinite(series_mean(s)))
            continue;
        s->told = true;
        others += first != NULL;
        first = first ? first : s;
    }
    if (!first)
        return;
    Arena scratch = *t->perm;
    Str more = others ? str_format(&scratch, ", %u more not finite", others) : (Str){0};
    say(&t->host->console, "step %u: report %.*s is %s%.*s; losses are finite", step,
        SARG(first->name), isnan(series_mean(first)) ? "not a number" : "infinite", SARG(more));
}

static GanStatus log_step(Train *t, const StepLine *line) {
    if (!ranks_first(t->comm))
        return GAN_OK;
    tell_reports(t, line->step);
    GanStatus st = runlog_step(&t->log, *t->perm, line);
    tell_health(t, line->step);
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
                   .what = "the vote on stopping"};
    return comm_start(t->comm, &job);
}

GanStatus train_run_step(Train *t, const Counters *c) {
    ExecHooks hooks = {.before = before_block, .after = after_block, .user = t};
    hooks.whole = t->watch || train_timed(t); // what is found, or measured, is the step's
    hooks.launch = hooks.whole ? at_launch : NULL;
    uint32_t question = exec_step_plan(t->session.exec)->collective.n; // behind the plan's numbers
    TRY(ask_to_stop(t, question));
    TRY(feed_begin(t->feed, t->session.exec));
    TRY(exec_step(t->session.exec, c, &hooks));
    return comm_wait(t->comm, question);
}

Counters counters_of(const Train *t) {
    uint32_t step = t->step - job_now(t->job)->first; // a stage counts its own
    return (Counters){.seed = job_seed(t->job),
                      .step = step,
                      .epoch = feed_epoch(t->feed),
                      .kimg = (double)step * (double)job_batch(t->job) / 1000};
}

void train_tell(const Train *t) {
    Counters c = counters_of(t);
    exec_set_progress(t->session.exec, &c);
}

// A step that did not do: its line is written with what there is, and the run ends there.
static GanStatus step_failed(Train *t, const StepLine *line, GanStatus st) {
    if (!t->meter.broken)
        return st;
    Str why = str_format(t->perm, "step %u: %s", line->step, gan_error());
    TRY(log_step(t, line));
    return train_not_finite(t, line->step, why);
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
    bool timed = train_timed(t);
    GanStatus st = train_run_step(t, &c);
    data = feed_seconds(t->feed) - data;
    t->progress.data += data;
    *line = (StepLine){.step = t->step + 1,
                       .images = job_samples(t->job, t->step + 1),
                       .step_ms = (time_now() - t->began[at]) * 1000,
                       .data_ms = data * 1000};
    if (st != GAN_OK)
        return step_failed(t, line, st);
    if (timed)
        line->parts = train_time_end(t);
    t->step++;
    train_tell(t);
    while (t->step - t->taken > t->meter.ahead)
        TRY(take_step(t));
    return GAN_OK;
}

static GanStatus save_here(Train *t) {
    TRY(take_all(t));
    TRY(train_save(t));
    tell_health(t, t->step);
    return train_score(t);
}

static GanStatus stop_here(Train *t, bool saved) {
    GanStatus st = saved ? GAN_OK : save_here(t);
    if (st != GAN_OK && st != GAN_STOPPED)
        return st;
    TRY(comm_barrier(t->comm)); // leaving has less patience than rank 0's save may need
    TRY(trace_write(t->trace, t->dir));
    return fail(GAN_STOPPED, "stopped after step %u, which is saved; `ganrun train %.*s` resumes",
                t->step, SARG(t->dir));
}

static void tell_comm(const Train *t) {
    CommStats s = comm_stats(t->comm);
    double steps = t->step - t->progress.first;
    if (t->comm && steps > 0)
        say(&t->host->console,
            "collectives: %.3g MB and %.3g ms a step, of which this rank waited %.3g ms",
            (double)s.bytes / 1e6 / steps, s.busy * 1000 / steps, s.exposed * 1000 / steps);
}

GanStatus train_steps(Train *t) {
    uint32_t last = job_now(t->job)->last;
    bool saved = true; // at the present step
    TRY(t->step ? train_score(t) : save_here(t));
    progress_begin(&t->progress);
    while (t->step < last && !t->out_of_patience) {
        if (t->comm ? t->stop > 0 : t->host->stop_asked())
            return stop_here(t, saved);
        TRY(step(t));
        saved = t->step % (uint32_t)t->job->save_every == 0 || t->step == last;
        GanStatus st = saved ? save_here(t) : GAN_OK;
        if (st == GAN_STOPPED)
            return stop_here(t, true);
        TRY(st);
        progress_step(&t->progress, *t->perm, t->taken);
    }
    progress_end(&t->progress, *t->perm, t->step);
    tell_comm(t);
    if (t->out_of_patience)
        train_tell_patience(t);
    return GAN_OK;
}
