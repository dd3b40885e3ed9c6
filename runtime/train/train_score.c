// train_score.c - evaluates samples every so many steps (monitor.h).
//
// A step is evaluated after its save: a run that is stopped meanwhile has its checkpoint, and
// evaluates it when it is resumed. Results are in the log only; the best step, and whether the run
// ends for lack of a better one, follow from it.
#include "train.h"

static bool due(const Train *t) {
    const Job *job = t->job;
    int64_t every = job->monitor.every ? job->monitor.every : job->save_every;
    return t->monitor.in && t->step && (t->step % every == 0 || t->step == job_now(job)->last);
}

static GanStatus keep(Train *t, const MetricValues *r, double seconds) {
    Arena scratch = *t->perm;
    if (!ranks_first(t->comm))
        return GAN_OK;
    TRY(runlog_score(&t->log, scratch, t->step, r, seconds));
    TRY(events_save(&t->events, scratch));
    Text text = {.arena = &scratch};
    text_fmt(&text, "step %u: %.*s %.6g", t->step, SARG(t->monitor.name), r->value[0]);
    if (t->log.best == t->step)
        text_put(&text, STR(", the best so far"));
    else if (t->log.best)
        text_fmt(&text, "; the best is %.6g at step %u", t->log.best_value, t->log.best);
    say(&t->host->console, "%.*s", SARG(text_str(&text)));
    return train_page(t);
}

static GanStatus measure(Train *t) {
    MetricValues r;
    double began = time_now();
    GanStatus st = monitor_measure(&t->monitor, &r);
    if (st == GAN_STOPPED)
        return fail(GAN_STOPPED,
                    "stopped after step %u, which is saved, before it was measured; `ganrun train "
                    "%.*s` goes on with that",
                    t->step, SARG(t->dir));
    TRY(st);
    double seconds = time_now() - began;
    t->progress.save += seconds;
    return keep(t, &r, seconds);
}

// Early stopping: of a run that is resumed after it, too.
static GanStatus look_back(Train *t) {
    int64_t patience = t->job->monitor.patience;
    return patience ? comm_any(t->comm, ranks_first(t->comm) && t->log.since_best >= patience,
                               &t->out_of_patience)
                    : GAN_OK;
}

GanStatus train_score(Train *t) {
    bool want = false;
    if (due(t))
        TRY(comm_any(t->comm, ranks_first(t->comm) && t->log.scored != t->step, &want));
    if (want)
        TRY(measure(t));
    return look_back(t);
}

void train_tell_patience(const Train *t) {
    Text text = {.arena = t->perm};
    text_fmt(&text, "step %u: %u evaluations in a row without a better %.*s end the run", t->step,
             t->log.since_best, SARG(t->monitor.name));
    if (t->log.best)
        text_fmt(&text, "; the best is %.6g at step %u, whose checkpoint is kept",
                 t->log.best_value, t->log.best);
    say(&t->host->console, "%.*s. `ganrun train %.*s --patience 0` goes on", SARG(text_str(&text)),
        SARG(t->dir));
}
