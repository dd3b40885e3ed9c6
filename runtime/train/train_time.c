// train_time.c - profiles a step launch by launch, every so many steps.
//
// Only synchronous devices, which return when a launch is complete, are profiled so. Launching one
// by one costs next to nothing there and changes no bit.
#include "train.h"

bool train_timed(const Train *t) {
    const Exec *e = t->session.exec;
    return exec_launches(e) && !exec_fetches(e) && !t->watch &&
           t->step % TIMED_EVERY == TIMED_FIRST;
}

GanStatus train_time_launch(Train *t, uint32_t launch, bool done, const Counters *c) {
    Timing *y = &t->timing;
    if (c->step != t->step)
        return GAN_OK; // the tail that the step before has left: this one runs its own
    if (done)
        shares_add(&y->shares, exec_step_plan(t->session.exec), launch, time_now() - y->began);
    else
        y->began = time_now();
    return GAN_OK;
}

const Parts *train_time_end(Train *t) {
    Timing *y = &t->timing;
    Spent now = progress_spent(&t->progress);
    parts_find(t->perm, &y->shares, spent_since(now, y->spent), &y->parts);
    y->spent = now;
    return &y->parts;
}
