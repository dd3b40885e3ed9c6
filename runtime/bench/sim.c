// sim.c - simulates steps on many ranks from a measured timeline.
//
// In: a running model, or recorded times of one. Out: the order of launches, starts and waits with
// the time of each launch; and the time of that order on a given link.
#define _GNU_SOURCE
#include "sim.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>

// --- measured ------------------------------------------------------------------------------------

typedef struct Profile {
    Arena *perm;
    const Plan *plan;
    const LaunchClock *clock; // NULL: the host's
    double began;
    Timeline line; // of all profiled steps of one kind, one after the other
} Profile;

// Launches that run by themselves do not overlap, nor do the kernels of one.
static GanStatus seconds_on(const LaunchClock *k, Arena *a, uint32_t launch, double *seconds) {
    DeviceWorkVec all;
    DeviceWorkVec *ran = &k->ran[launch];
    TRY(k->api->work(k->device, a, &all));
    ran->n = 0;
    *seconds = 0;
    for (uint32_t i = 0; i < all.n; i++) {
        if (all.at[i].host) // its arguments, and marks
            continue;
        vec_push(a, ran, all.at[i]);
        *seconds += all.at[i].ended - all.at[i].began;
    }
    return GAN_OK;
}

static GanStatus on_launch(void *user, Exec *e, uint32_t launch, bool done, const Counters *c) {
    (void)e, (void)c;
    Profile *p = user;
    double seconds;
    if (!done) {
        p->began = time_now();
        return GAN_OK;
    }
    if (p->clock)
        TRY(seconds_on(p->clock, p->perm, launch, &seconds));
    else
        seconds = time_now() - p->began;
    const Region *r = &p->plan->region.at[p->plan->merge.at[p->plan->launch.at[launch].first]];
    TimedLaunch m = {.kind = r->kind, .launch = launch, .call = r->call, .seconds = seconds};
    if (r->kind == RegionStart)
        m.bytes = p->plan->collective.at[r->call].bytes;
    vec_push(p->perm, &p->line, m);
    return GAN_OK;
}

// Of `times` steps of one kind, one after the other, those of step `step` of the period.
static void medians(Arena *perm, const Timeline *all, uint32_t times, uint32_t step,
                    Timeline *out) {
    uint32_t one = all->n / times;
    bool alike = all->n % times == 0;
    double *seconds = arena_array(perm, double, times);
    for (uint32_t i = 0; i < one; i++) {
        TimedLaunch m = all->at[all->n - one + i];
        for (uint32_t k = 0; alike && k < times; k++) {
            alike = all->at[k * one + i].launch == m.launch;
            seconds[k] = all->at[k * one + i].seconds;
        }
        if (alike) {
            qsort(seconds, times, sizeof *seconds, by_double);
            m.seconds = seconds[times / 2];
        }
        m.step = step;
        vec_push(perm, out, m);
    }
}

uint32_t sim_period(const Func *f) {
    uint32_t period = 1;
    for (uint32_t i = 0; i < f->tape.n; i++) {
        uint32_t every = f->tape.at[i].kind == CtlEvery ? f->tape.at[i].arg : 1, least = period;
        while (least % every && least <= PERIOD_MOST)
            least += period;
        period = least <= PERIOD_MOST ? least : period;
    }
    return period;
}

bool sim_same_launches(const Func *f, uint32_t step, uint32_t other) {
    uint32_t period = sim_period(f);
    for (uint32_t i = 0; i < f->tape.n; i++) {
        Ctl c = f->tape.at[i];
        if (c.kind == CtlEvery && period % c.arg == 0 && !(step % c.arg) != !(other % c.arg))
            return false;
    }
    return true;
}

// The launches of an earlier step of the period that is of the same kind; false: it is the first.
static bool take_earlier(Arena *perm, const Func *f, uint32_t step, Timeline *out) {
    uint32_t first = 0, n = out->n;
    while (first < step && !sim_same_launches(f, first, step))
        first++;
    for (uint32_t i = 0; first < step && i < n; i++) {
        TimedLaunch m = out->at[i];
        if (m.step != first)
            continue;
        m.step = step;
        vec_push(perm, out, m);
    }
    return first < step;
}

// The numbers begin after a period: nothing that happens less often than once a period is at one.
static GanStatus profile_step(Profile *p, Exec *e, uint32_t number, uint32_t times) {
    ExecHooks hooks = {.launch = on_launch, .user = p};
    Counters at = {.step = number};
    for (uint32_t i = 0; i <= times; i++) { // the first warms up
        p->line.n = i == 1 ? 0 : p->line.n;
        TRY(exec_step(e, &at, &hooks));
    }
    return GAN_OK;
}

GanStatus sim_profile(Arena *perm, Exec *e, Comm *c, const LaunchClock *clock, uint32_t times,
                      Timeline *out) {
    Profile p = {.perm = perm, .plan = exec_step_plan(e), .clock = clock};
    const Func *f = p.plan->func;
    *out = (Timeline){.steps = sim_period(f)};
    if (!exec_launches(e))
        return fail(GAN_ERR_USAGE, "this device does not run launches one by one: use cpu");
    TRY(exec_ready(e));
    comm_mute(c, true);
    GanStatus st = GAN_OK;
    for (uint32_t s = 0; st == GAN_OK && s < out->steps; s++) {
        if (take_earlier(perm, f, s, out))
            continue;
        st = profile_step(&p, e, out->steps + s, times);
        if (st == GAN_OK)
            medians(perm, &p.line, times, s, out);
    }
    if (st == GAN_OK)
        st = exec_finish(e);
    comm_mute(c, false);
    return st;
}

GanStatus sim_gather(Arena *perm, Comm *c, const Timeline *mine, const Timeline **out) {
    int ranks = comm_size(c);
    Timeline *all = arena_array(perm, Timeline, ranks);
    uint32_t *n = arena_array(perm, uint32_t, ranks), most = 0;
    TRY(comm_gather(c, &mine->n, sizeof mine->n, n));
    for (int r = 0; r < ranks; r++)
        most = n[r] > most ? n[r] : most;
    TimedLaunch *own = arena_array(perm, TimedLaunch, most),
                *at = arena_array(perm, TimedLaunch, (size_t)ranks * most);
    for (uint32_t i = 0; i < mine->n; i++)
        own[i] = mine->at[i];
    TRY(comm_gather(c, own, most * sizeof *own, at));
    for (int r = 0; r < ranks; r++)
        all[r] = (Timeline){.at = at + (size_t)r * most, .n = n[r], .steps = mine->steps};
    *out = all;
    return GAN_OK;
}

GanStatus sim_average(Arena *perm, Comm *c, Timeline *m) {
    const Timeline *all;
    int ranks = comm_size(c);
    TRY(sim_gather(perm, c, m, &all));
    for (int r = 0; r < ranks; r++) {
        bool alike = all[r].n == m->n;
        for (uint32_t i = 0; alike && i < m->n; i++)
            alike = all[r].at[i].launch == m->at[i].launch;
        if (!alike)
            return GAN_OK;
    }
    for (uint32_t i = 0; i < m->n; i++) {
        m->at[i].seconds = 0;
        for (int r = 0; r < ranks; r++)
            m->at[i].seconds += all[r].at[i].seconds / ranks;
    }
    return GAN_OK;
}

// --- replayed ------------------------------------------------------------------------------------

static void sleep_until(double t) {
    struct timespec at = {.tv_sec = (time_t)t, .tv_nsec = (long)((t - (double)(time_t)t) * 1e9)};
    while (time_now() < t)
        clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL);
}

static GanStatus replay(Exec *e, const Timeline *m, const Counters *c) {
    double due = time_now(); // what has been slept too long is taken from the next
    for (uint32_t i = 0; i < m->n; i++) {
        const TimedLaunch *x = &m->at[i];
        if (x->step != c->step % m->steps)
            continue;
        if (x->kind != RegionStart && x->kind != RegionWait) {
            due += x->seconds;
            continue;
        }
        sleep_until(due);
        double came = time_now();
        TRY(exec_launch(e, x->launch, c));
        due = x->kind == RegionStart ? due + x->seconds : fmax(due, due + time_now() - came);
    }
    sleep_until(due);
    return GAN_OK;
}

GanStatus sim_replay(Exec *e, const Timeline *m, const Counters *c) {
    int slack = prctl(PR_GET_TIMERSLACK);
    prctl(PR_SET_TIMERSLACK, 1UL);
    GanStatus st = replay(e, m, c);
    prctl(PR_SET_TIMERSLACK, (unsigned long)slack);
    return st;
}

GanStatus sim_drain(Exec *e) {
    const Plan *p = exec_step_plan(e);
    for (uint32_t t = 0; t < p->tail.n; t++) {
        const Section *s = &p->section.at[p->tail.at[t].section];
        for (uint32_t l = s->first; l < s->first + s->n; l++)
            if (p->region.at[p->launch.at[l].region].kind == RegionWait)
                TRY(exec_launch(e, l, &(Counters){0}));
    }
    return GAN_OK;
}

// --- simulated -----------------------------------------------------------------------------------

static double model_seconds(LinkModel m, double latencies, size_t bytes) {
    double latency = bytes <= COMM_SMALL ? m.small : m.latency;
    return m.bandwidth > 0 ? latencies * latency + (double)bytes / m.bandwidth : 0;
}

double sim_sum_seconds(const SimLink *link, size_t bytes) {
    double r = (double)link->ranks, often = 2 * (r - 1) / r; // a byte travels
    if (link->ranks == 1)
        return 0;
    LinkModel scaled = link->scaled;
    scaled.bandwidth /= often;
    return fmax(model_seconds(link->each, 1, bytes), model_seconds(scaled, ceil(log2(r)), bytes));
}

// What the thread that carries a large sum takes from those that compute, where they fill the
// cores.
static double core_seconds(const SimLink *link, size_t bytes) {
    return bytes <= COMM_SMALL ? 0 : link->each.core + (double)bytes * link->each.byte;
}

enum { PERIODS = 4 }; // simulated: the last is like the next: a tail waits for the step before

typedef struct SimRank { // one rank
    const Timeline *m;
    uint32_t next;              // launch, counted through all periods
    double now, began, exposed; // the last two: of the last period
    double owed; // to the communicator's thread: taken from what is computed, or waited, next
} SimRank;

static void rank_wait(SimRank *p, double until) {
    double waits = fmax(until - p->now, 0);
    p->exposed += waits;
    p->now += waits;
    p->owed = fmax(p->owed - waits, 0);
}

// Goes on to the next start, which it has then come to; false at the end of the last period.
// `done`: [call] when the last call of this number was there.
static bool rank_to_start(SimRank *p, const double *done, const TimedLaunch **start) {
    for (; p->next < PERIODS * p->m->n; p->next++) {
        const TimedLaunch *x = &p->m->at[p->next % p->m->n];
        if (p->next == (PERIODS - 1) * p->m->n) {
            p->began = p->now;
            p->exposed = 0;
        }
        if (x->kind == RegionWait) {
            rank_wait(p, done[x->call]);
            continue;
        }
        p->now += x->seconds; // of a start: parts that are not in place are copied
        if (x->kind != RegionStart) {
            p->now += p->owed;
            p->owed = 0;
        }
        if (x->kind == RegionStart) {
            p->next++;
            *start = x;
            return true;
        }
    }
    return false;
}

static uint32_t calls_of(const Timeline *m) {
    uint32_t calls = 0;
    for (uint32_t i = 0; i < m->n; i++)
        if (m->at[i].kind == RegionStart && m->at[i].call >= calls)
            calls = m->at[i].call + 1;
    return calls;
}

SimTimes sim_run(Arena scratch, const Timeline *m, uint32_t n, const SimLink *link) {
    SimTimes out = {0};
    double steps = m->steps, free[2] = {0}; // when the link is: for large calls, for small ones
    SimRank *p = arena_array(&scratch, SimRank, n);
    double *done = arena_array(&scratch, double, calls_of(&m[0]));
    for (uint32_t r = 0; r < n; r++)
        p[r] = (SimRank){.m = &m[r]};
    for (bool more = true; more;) {
        const TimedLaunch *start = NULL;
        double ready = 0;
        for (uint32_t r = 0; r < n; r++) { // every rank has the same starts in the same order
            more = rank_to_start(&p[r], done, &start);
            ready = fmax(ready, p[r].now);
        }
        if (more) {
            double takes = sim_sum_seconds(link, start->bytes);
            int small = start->bytes <= COMM_SMALL;
            free[small] = fmax(free[small], ready) + takes;
            for (uint32_t r = 0; r < n; r++)
                p[r].owed += core_seconds(link, start->bytes);
            done[start->call] = free[small];
            for (uint32_t r = 0; r < n && link->waits; r++)
                rank_wait(&p[r], free[small]);
            out.comm += takes / (PERIODS * steps);
        }
    }
    for (uint32_t r = 0; r < n; r++) {
        out.step += (p[r].now - p[r].began) / (n * steps);
        out.exposed += p[r].exposed / (n * steps);
    }
    return out;
}
