// schedule.h - inside scheduling: a list scheduler over a function's regions, driven by live bytes
// and, where there are collectives, by a simulated clock of the core and the link.
#ifndef GAN_SCHEDULE_H
#define GAN_SCHEDULE_H

#include "stages.h"

static const double FastCore = 2. / 3;     // time of a fast core, as a part of the estimate
static const double StragglerDelay = 1e-3; // seconds by which a straggler may be late

typedef struct Value {   // a value stored by the current block
    uint32_t readers;    // regions of the block that have not read it yet
    uint64_t reader_sum; // of their numbers: which the last is, without a list of all
    size_t bytes;        // freed by the last of them; 0: in slot memory, or outlives the block
} Value;

// The simulated clock of a block with collectives, in seconds.
typedef struct Clock {
    const Parallel *link;
    uint32_t *leads;  // [region] the first collective that depends on it, NONE
    uint8_t *weights; // [region] only gradient collectives depend on it
    double *arrives;  // [call] when its sum has arrived
    double straggler; // delay of the straggler
    double core;      // time of this core, as a part of the estimate: 1, or FastCore
    double now;
    double free[2]; // when the link is idle again: large collectives, small ones
} Clock;

typedef VEC(uint32_t) RegionVec;

// A tail. A block that runs it sees it as one region, numbered Plan.region.n + the tail.
typedef struct SchedTail {
    uint32_t block;   // the block it ends
    RegionVec region; // in order
    TailWays ways;
    // From the end of that block, on a fast core:
    double *arrives; // [call] when the sum of a deferred collective has arrived
    double due;      // when all have
    double free[2];  // Clock.free
    size_t bytes;    // of work memory live until it has run
} SchedTail;

typedef struct Sched {
    Arena *perm;
    Arena *a; // scratch
    Plan *p;
    RegionVec *of_block;  // [block] its regions
    OrderVec order;       // sorted by after
    VEC(uint32_t) * next; // [region] its successors
    uint32_t *waits;      // [region] predecessors not scheduled yet
    uint32_t *behind;     // [region] 1 + the last launch with a predecessor of it
    uint32_t *since;      // [region] how many ran before it became ready
    size_t *made;         // [region] bytes it stores in work memory
    size_t *frees;        // [region] bytes it would free now, as the last that reads them
    uint8_t *shares;      // [region] may share a launch with others
    uint32_t open; // how many ran before the launch that others may join; NONE: there is none
    uint8_t *low;  // [region] lowest priority: scheduled when nothing else is ready
    uint8_t *here; // [region] is of the current block
    bool few_launches, side_by_side; // PassOptions
    bool low_now;                    // the last region was one: with few_launches, others follow
    uint8_t *outlives;               // [node] read by another block or by the executor
    Value *value;                    // [node]
    Clock clock;                     // of blocks with collectives
    uint8_t *deferrable;             // [region] may be deferred
    uint8_t *deferred;               // [region] is deferred
    VEC(SchedTail) tail;
    uint8_t *pending; // [tail] deferred and not run yet
} Sched;

// --- schedule.c ----------------------------------------------------------------------------------

// The best order of a block's regions, tails among them, taken alone.
void sched_order_block(Sched *s, const RegionVec *regions, const PassOptions *o, RegionVec *out);

// --- schedule_clock.c ----------------------------------------------------------------------------

bool sched_is_tail(const Sched *s, uint32_t region);
const SchedTail *sched_tail_of(const Sched *s, uint32_t region);
// Resets the clock for a block of these regions, in a valid order, with pending tails in flight;
// `core`: Clock.core.
void sched_clock_reset(Sched *s, const RegionVec *regions, double core);
void sched_clock_pass(Sched *s, uint32_t region); // executes it
// When the sums that a region waits for have arrived; 0: it waits for none.
double sched_due(const Sched *s, uint32_t region);
// Seconds of a step in steady state, each block in its order, on fast cores without stragglers.
double sched_step_seconds(Sched *s, const RegionVec *order);

// --- schedule_chain.c ----------------------------------------------------------------------------

// Seconds of a block without collectives, its regions in this order, on a card with so many bytes
// for its values: no fewer than the order's peak.
double sched_card_seconds(const Sched *s, const RegionVec *regions, const RegionVec *order,
                          size_t bytes);

// --- schedule_tail.c -----------------------------------------------------------------------------

// The regions of a block, with the tails it runs as predecessors of those that conflict with them.
void sched_regions_of(Sched *s, uint32_t block, RegionVec *out);
// Defers the late end of a block, where that shortens the step.
void sched_order_tail(Sched *s, const PassOptions *o, uint32_t block, RegionVec *order);

#endif
