// train_repeat.c - finds the origin of a non-finite number: repeats the steps since the last
// checkpoint, launch by launch.
#include "train.h"

// Runs the steps up to `last` once more, launch by launch, until one leaves what is not finite.
static GanStatus repeat_steps(Train *t, uint32_t last, Watch *w) {
    bool finite = true;
    while (t->step < last && finite && !t->host->stop_asked()) {
        Counters c = counters_of(t);
        meter_begin(&t->meter, t->step);
        GanStatus st = train_run_step(t, &c);
        if (st != GAN_OK && !t->meter.broken)
            return st;
        if (st != GAN_OK) {
            watch_blame(w);
            return GAN_OK;
        }
        TRY(watch_left(w, &finite));
        t->step++;
    }
    return GAN_OK;
}

static GanStatus repeat(Train *t, uint32_t last, Str why, Watch *w) {
    Checkpoint at = {0};
    TRY(stage_choose(t, true)); // the stage's own beginning, where it has saved nothing yet
    TRY(train_restore(t, true, &at));
    TRY(feed_seek(t->feed, at.position));
    say(&t->host->console, "%.*s; repeating from step %u to see where it comes from", SARG(why),
        at.step);
    TRY(watch_init(w, t->session.exec));
    t->meter.ahead = 0; // each loss is looked at before anything behind it runs
    t->watch = w;
    GanStatus st = repeat_steps(t, last, w);
    t->watch = NULL;
    TRY(st);
    if (w->found) // it has counted the stage's
        w->at.step += job_now(t->job)->first;
    TRY(watch_keep(w, *t->perm, &t->session.front, t->feed, t->dir, why, at.step));
    Text text = {.arena = t->perm};
    if (w->found)
        watch_tell(w, &t->session.front, &text);
    else
        text_put(&text,
                 STR("no operation gave a non-finite number this time, which points at the machine "
                     "(memory, overheating), not at the model"));
    say(&t->host->console, "%.*s", SARG(text_str(&text)));
    return GAN_OK;
}

GanStatus train_not_finite(Train *t, uint32_t last, Str why) {
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
        "`ganrun train %.*s` reaches the same step again",
        SARG(why), named, SARG(t->dir));
}
