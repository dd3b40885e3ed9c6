// schedule_tail.c - decides which blocks defer their end to later blocks (software pipelining).
//
// In: blocks in order, what of each may be deferred (tail.c). Out: the deferred ends, and orders of
// the blocks that run them.
//
// Where a block ends with waits that no work overlaps, that end may become a tail (program.h,
// Tail): one more region of the blocks that follow, scheduled there when its sums have arrived.
// Estimates of a core's work are off by a third, and a core that is faster than estimated waits
// longest: what is late, and what a tail gains, is judged by a fast core (FastCore). A block has
// one order, whatever was deferred before it: work of D that overlaps with G's sums competes with
// work of G that would overlap with D's. So orders are tried, and the tape is simulated with each:
// a tail is kept where the step takes less time with it.
#include "schedule.h"

#include <math.h>
#include <string.h>

void sched_regions_of(Sched *s, uint32_t block, RegionVec *out) {
    const Plan *p = s->p;
    *out = (RegionVec){0};
    for (uint32_t t = 0; t < s->tail.n; t++)
        if (s->tail.at[t].ways.within[block])
            vec_push(s->a, out, p->region.n + t);
    uint32_t tails = out->n;
    for (uint32_t t = 0; t < tails; t++)
        s->next[out->at[t]].n = 0;
    for (uint32_t i = 0; i < s->of_block[block].n; i++) {
        uint32_t r = s->of_block[block].at[i];
        if (s->deferred[r])
            continue;
        vec_push(s->a, out, r);
        for (uint32_t t = 0; t < tails; t++)
            if (sched_tail_of(s, out->at[t])->ways.meets[r])
                vec_push(s->a, &s->next[out->at[t]], r);
    }
}

// Puts last, of the regions that may be deferred at the end of an order, those that wait for what
// has not come and what must follow them. Where these begin, the order's length when there are
// none. The clock then stands there.
static uint32_t part_end(Sched *s, RegionVec *order) {
    uint32_t may = order->n;
    RegionVec stays = {0}, waits = {0};
    while (may && !sched_is_tail(s, order->at[may - 1]) && s->deferrable[order->at[may - 1]])
        may--;
    uint8_t *follows = arena_array(s->a, uint8_t, s->p->region.n);
    sched_clock_reset(s, order, FastCore);
    for (uint32_t i = 0; i < order->n; i++) {
        uint32_t region = order->at[i];
        if (i >= may && (follows[region] || sched_due(s, region) > s->clock.now)) {
            vec_push(s->a, &waits, region);
            for (uint32_t k = 0; k < s->next[region].n; k++)
                follows[s->next[region].at[k]] = 1;
        } else {
            vec_push(s->a, &stays, region);
            sched_clock_pass(s, region);
        }
    }
    uint32_t cut = stays.n;
    for (uint32_t i = 0; i < waits.n; i++)
        vec_push(s->a, &stays, waits.at[i]);
    *order = stays;
    return cut;
}

// The end of a block becomes a tail; its times are from where that block now ends. False: it is
// open what runs it.
static bool leave(Sched *s, uint32_t block, const RegionVec *order, uint32_t cut) {
    const Clock *c = &s->clock;
    SchedTail tail = {.block = block, .free = {c->free[0] - c->now, c->free[1] - c->now}};
    tail.arrives = arena_array(s->a, double, s->p->collective.n);
    for (uint32_t i = cut; i < order->n; i++) {
        const Region *r = &s->p->region.at[order->at[i]];
        s->deferred[order->at[i]] = 1;
        vec_push(s->a, &tail.region, order->at[i]);
        if (r->kind != RegionWait)
            continue;
        tail.arrives[r->call] = c->arrives[r->call] - c->now;
        tail.due = tail.arrives[r->call] > tail.due ? tail.arrives[r->call] : tail.due;
        tail.bytes += s->p->collective.at[r->call].bytes;
    }
    bool known = tail_place(s->a, s->p, tail.region.at, tail.region.n, &tail.ways);
    vec_push(s->a, &s->tail, tail);
    return known;
}

// Orders a block that runs tails anew: as if all of them were under way, or one alone, for they may
// be of blocks of which one comes before it at a time. What makes the shortest step stays.
static void order_anew(Sched *s, const PassOptions *o, uint32_t block, RegionVec *order) {
    RegionVec regions, best = {0};
    double least = INFINITY;
    sched_regions_of(s, block, &regions);
    for (uint32_t alone = 0; alone <= s->tail.n; alone++) { // the last: all
        for (uint32_t t = 0; t < s->tail.n; t++)
            s->pending[t] = alone == s->tail.n || alone == t;
        sched_order_block(s, &regions, o, &order[block]);
        double seconds = sched_step_seconds(s, order);
        best = seconds < least ? order[block] : best;
        least = fmin(seconds, least);
    }
    order[block] = best;
}

static double take_in(Sched *s, const PassOptions *o, RegionVec *order) {
    const SchedTail *tail = &s->tail.at[s->tail.n - 1];
    order[tail->block].n -= tail->region.n;
    for (uint32_t b = 0; b < s->p->func->blocks; b++)
        if (tail->ways.within[b])
            order_anew(s, o, b, order);
    return sched_step_seconds(s, order);
}

void sched_order_tail(Sched *s, const PassOptions *o, uint32_t block, RegionVec *order) {
    uint32_t blocks = s->p->func->blocks;
    RegionVec regions, *was = arena_array(s->a, RegionVec, blocks);
    double seconds = sched_step_seconds(s, order);
    memcpy(was, order, blocks * sizeof *was);
    sched_regions_of(s, block, &regions); // whom the tails in its order must precede
    uint32_t cut = part_end(s, &order[block]);
    if (cut == order[block].n ||
        (leave(s, block, &order[block], cut) && take_in(s, o, order) < seconds))
        return;
    const SchedTail *tail = &s->tail.at[--s->tail.n];
    for (uint32_t i = 0; i < tail->region.n; i++)
        s->deferred[tail->region.at[i]] = 0;
    memcpy(order, was, blocks * sizeof *was);
}
