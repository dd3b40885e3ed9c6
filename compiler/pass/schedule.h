// schedule.h - inside scheduling: a function's regions while their order is sought.
#ifndef GAN_SCHEDULE_H
#define GAN_SCHEDULE_H

#include "plan.h"

static const double FastCore = 2. / 3; // of the time estimated takes a core that is fast
static const double LateRank = 1e-3; // another rank comes so much later than this one, now and then

typedef struct Value { // a stored value made in the block at hand
    uint32_t readers;  // regions of the block still to read it
    size_t bytes;      // 0: lies in the slot memory, or outlives the block
} Value;

// Estimated times, in seconds, of a block with collectives.
typedef struct Clock {
    const Parallel *link;
    uint32_t *leads;  // [region] the first call that cannot start before it, NONE
    uint8_t *weights; // [region] nothing needs it but calls of gradients
    double *arrives;  // [call] when its sum is there
    double late;      // of the rank that is waited for
    double core;      // of the times estimated takes a core: 1, or FastCore
    double now;
    double free[2]; // when the link has carried what was started: large calls, small ones
} Clock;

typedef VEC(uint32_t) RegionVec;

// A tail. Among the regions of a block that runs it it is one, whose number is Plan.region.n and
// its own.
typedef struct Late {
    uint32_t block;   // whose end it is
    RegionVec region; // in order
    TailWays ways;
    // From that end, on a fast core:
    double *arrives; // [call] when the sum of a call that is left is there
    double due;      // when all are
    double free[2];  // Clock.free
    size_t bytes;    // of work memory held until it has run
} Late;

typedef struct Sched {
    Arena *perm;
    Arena *a; // scratch
    Plan *p;
    OrderVec order;       // sorted by after
    VEC(uint32_t) * next; // [region] regions that must follow
    uint32_t *waits;      // [region] regions it still waits for
    size_t *made;         // [region] bytes it stores in work memory
    uint8_t *late;        // [region] waits until there is nothing else to do
    uint8_t *here;        // [region] is of the block at hand
    bool few_launches;    // PassOptions
    bool late_now;        // the last region was late: with few_launches, others follow
    uint8_t *outlives;    // [node] read by another block or by the executor
    Value *value;         // [node]
    Clock clock;          // blocks with collectives
    uint8_t *may;         // [region] may be left
    uint8_t *left;        // [region] is
    VEC(Late) tail;
    uint8_t
        *pending; // [tail] left and not run: a block's estimates begin with it, then it runs once
} Sched;

// --- schedule.c ----------------------------------------------------------------------------------

// Regions of a block, tails among them, in the order that is best by itself.
void sched_order_block(Sched *s, const RegionVec *regions, const PassOptions *o, RegionVec *out);

// --- schedule_clock.c ----------------------------------------------------------------------------

bool sched_is_tail(const Sched *s, uint32_t region);
const Late *sched_tail_of(const Sched *s, uint32_t region);
// Begins a block of these regions, in a valid order, with the tails that are pending under way;
// `core`: Clock.core.
void sched_clock_reset(Sched *s, const RegionVec *regions, double core);
void sched_clock_pass(Sched *s, uint32_t region); // it runs next
// When the sums are there that a region waits for; 0: it waits for none.
double sched_due(const Sched *s, uint32_t region);
// What a step takes among its like, each block in its order, on fast cores of which none is late.
double sched_step_seconds(Sched *s, const RegionVec *order);

// --- schedule_tail.c -----------------------------------------------------------------------------

// The regions of a block, the tails it runs before those that they must precede.
void sched_regions_of(Sched *s, uint32_t block, RegionVec *out);
// Leaves what comes late at the end of a block, where that makes the step shorter.
void sched_order_tail(Sched *s, const PassOptions *o, uint32_t block, RegionVec *order);

#endif
