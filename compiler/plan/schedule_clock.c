// schedule_clock.c - simulates an order of regions on an estimated link and core.
//
// In: orders of blocks. Out: when each sum arrives, how long a block takes, how long a whole step
// takes. Whether a block's end is late is judged by the clock of a fast core: see schedule_tail.c.
#include "schedule.h"

#include <string.h>

enum { RoundsPlayed = 4 }; // of a repeat: they show how one follows another

// --- a block with collectives --------------------------------------------------------------------

bool sched_is_tail(const Sched *s, uint32_t region) {
    return region >= s->p->region.n;
}

// A tail that is.
static bool is_pending(const Sched *s, uint32_t region) {
    return sched_is_tail(s, region) && s->pending[region - s->p->region.n];
}

const SchedTail *sched_tail_of(const Sched *s, uint32_t region) {
    return &s->tail.at[region - s->p->region.n];
}

static bool starts_gradients(const Sched *s, uint32_t region) {
    const Plan *p = s->p;
    return !sched_is_tail(s, region) && p->region.at[region].kind == RegionStart &&
           p->collective.at[p->region.at[region].call].update != NONE;
}

// As long as a time takes that a tail knows: on a slower core more is done later.
static double tail_seconds(const Sched *s, double seconds) {
    return seconds * s->clock.core / FastCore;
}

// The sums of a tail are on their way.
static void clock_begin(Sched *s, const SchedTail *tail) {
    Clock *c = &s->clock;
    for (int i = 0; i < 2; i++) {
        double free = tail_seconds(s, tail->free[i]);
        c->free[i] = free > c->free[i] ? free : c->free[i];
    }
    for (uint32_t i = 0; i < tail->region.n; i++) {
        const Region *r = &s->p->region.at[tail->region.at[i]];
        if (r->kind == RegionWait)
            c->arrives[r->call] = tail_seconds(s, tail->arrives[r->call]);
    }
}

void sched_clock_reset(Sched *s, const RegionVec *regions, double core) {
    Clock *c = &s->clock;
    c->straggler = StragglerDelay;
    c->core = core;
    c->now = c->free[0] = c->free[1] = 0;
    for (uint32_t i = regions->n; i-- > 0;) { // in a valid order, the tail first
        uint32_t region = regions->at[i], first = NONE;
        c->weights[region] = s->next[region].n > 0;
        for (uint32_t k = 0; k < s->next[region].n; k++) {
            uint32_t after = s->next[region].at[k];
            first = c->leads[after] < first ? c->leads[after] : first;
            c->weights[region] &= c->weights[after] || starts_gradients(s, after);
        }
        if (is_pending(s, region))
            clock_begin(s, sched_tail_of(s, region));
        else if (!sched_is_tail(s, region) && s->p->region.at[region].kind == RegionStart)
            first = s->p->region.at[region].call;
        c->leads[region] = first;
    }
}

void sched_clock_pass(Sched *s, uint32_t region) {
    Clock *c = &s->clock;
    if (sched_is_tail(s, region)) {
        for (uint32_t i = 0; is_pending(s, region) && i < sched_tail_of(s, region)->region.n; i++)
            sched_clock_pass(s, sched_tail_of(s, region)->region.at[i]);
        return;
    }
    const Region *r = &s->p->region.at[region];
    if (r->kind == RegionStart) {
        size_t bytes = s->p->collective.at[r->call].bytes;
        double *free = &c->free[bytes <= COMM_SMALL];
        *free = (c->now > *free ? c->now : *free) + call_seconds(c->link, bytes);
        c->arrives[r->call] = *free + c->straggler;
    } else if (r->kind == RegionWait) {
        c->now = c->arrives[r->call] > c->now ? c->arrives[r->call] : c->now;
    } else {
        c->now += region_seconds(s->p, r) * c->core;
    }
}

double sched_due(const Sched *s, uint32_t region) {
    if (sched_is_tail(s, region))
        return is_pending(s, region) ? tail_seconds(s, sched_tail_of(s, region)->due) : 0;
    const Region *r = &s->p->region.at[region];
    return r->kind == RegionWait ? s->clock.arrives[r->call] : 0;
}

// --- a step --------------------------------------------------------------------------------------

static void play_block(Sched *s, const RegionVec *order) {
    for (uint32_t i = 0; i < order->n; i++) {
        sched_clock_pass(s, order->at[i]);
        if (sched_is_tail(s, order->at[i]))
            s->pending[order->at[i] - s->p->region.n] = 0;
    }
}

// Plays the tape from `pc` to the end of its scope, which is returned: both branches, some rounds.
static uint32_t play(Sched *s, const RegionVec *order, uint32_t pc) {
    const Func *f = s->p->func;
    for (; pc < f->tape.n && f->tape.at[pc].kind != CtlEnd; pc++) {
        Ctl c = f->tape.at[pc];
        uint32_t rounds = c.kind == CtlRepeat && c.arg > 1 ? c.arg : 1, begin = pc + 1;
        if (c.kind == CtlElse)
            continue;
        if (c.kind != CtlBlock) {
            for (uint32_t r = 0; r < rounds && r < RoundsPlayed; r++)
                pc = play(s, order, begin);
            continue;
        }
        play_block(s, &order[c.arg]);
        for (uint32_t t = 0; t < s->tail.n; t++)
            s->pending[t] |= s->tail.at[t].block == c.arg;
    }
    return pc;
}

double sched_step_seconds(Sched *s, const RegionVec *order) {
    double began = 0;
    sched_clock_reset(s, &(RegionVec){0}, FastCore);
    s->clock.straggler = 0;
    memset(s->pending, 0, s->tail.n);
    for (int step = 0; step < 2; step++) {
        began = s->clock.now;
        (void)play(s, order, 0);
    }
    return s->clock.now - began;
}
