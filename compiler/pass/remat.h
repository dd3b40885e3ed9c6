// remat.h - regions that run more than once: what lives then (remat_live.c), which do (remat.c),
// and the plan of that (remat_write.c).
#ifndef GAN_REMAT_H
#define GAN_REMAT_H

#include "buffer.h"
#include "plan.h"

// A region run once: as the base plan has it, or again in front of one of its launches.
typedef struct Run {
    uint32_t region; // of the base plan
    uint32_t launch; // its number in time; of one made again: that it comes in front of
    bool again;
    uint32_t *from; // [Region.in.n] the run that made what is read, NONE: not from work memory
} Run;
typedef VEC(uint32_t) RunList;

typedef struct Runs {
    VEC(Run) run;    // [region] as in the base plan, then those made again
    RunList *before; // [launch] runs in front of it, in order
    uint32_t *out;   // [node] 1 + its place in Region.out of the region that stores it, 0: none
} Runs;

// --- remat_live.c --------------------------------------------------------------------------------

typedef struct Value {    // an output of a run
    uint32_t first, last; // moments
    int64_t bytes;        // 0: lies in a slot
    RunList use;          // runs that read it, in order
} Value;

typedef struct Remat {
    Arena *a;
    const Plan *p;
    Lives lives;
    Runs runs;
    VEC(Value *) value; // [run] of its outputs
    VEC(uint32_t) at;   // [run] its moment: a place in `order`
    RunList order;      // all runs
    RunList *beside;    // [launch] the regions it runs
    RunList *copies;    // [region] its runs
    int64_t *apart;     // [launch] bytes that live beside values; less than 0: some share a buffer
    uint8_t *fixed;     // [node] held from end to end: another block reads it, or the executor
    uint8_t *pure;      // [region] may run again
    uint8_t *barred;    // [node] was tried, and spared nothing
    uint32_t *until;    // [region] the launch that writes a slot it reads
    double *seconds;    // [region]
    int64_t target;     // bytes that may live at once
    VEC(int64_t) live;  // [moment]
    VEC(uint32_t) over; // [moment] moments up to it, not itself, at which too much lives
    double excess;      // bytes above the target, of all moments
} Remat;

void remat_init(Remat *z, const PassOptions *o, Plan *p); // the plan's own runs, measured
const Region *remat_region(const Remat *z, uint32_t run);
RunList remat_runs_at(const Remat *z, uint32_t moment); // one that was added, or all of a launch
// The run before moment `at` whose value of `node` lives longest.
uint32_t remat_longest(const Remat *z, uint32_t node, uint32_t at);
// Moments from..to, both included, at which too much lives.
uint32_t remat_over(const Remat *z, uint32_t from, uint32_t to);

// Among the runs in front of its launch: behind them where it is the launch's own.
uint32_t remat_place(const Remat *z, uint32_t run);
// A region once more, at that place; the caller says what it reads (Run.from). Where all that are
// wanted are there, remat_order() gives moments and remat_use_inputs() makes each a reader.
uint32_t remat_add(Remat *z, uint32_t region, uint32_t launch, uint32_t place);
void remat_order(Remat *z);
void remat_use_inputs(Remat *z, uint32_t run);
// Readers of run `old` from moment `at` on read `now` instead.
void remat_redirect(Remat *z, uint32_t old, uint32_t now, uint32_t at);
void remat_drop(Remat *z, uint32_t run); // one that was added and nobody reads
bool remat_left_out(const Remat *z, uint32_t run);
// Finds when values live and how much lives at each moment.
void remat_measure(Remat *z);

// --- remat_write.c -------------------------------------------------------------------------------

// The plan of these runs, *out, over a copy of base->func with a graph of its own, *func, which is
// the module's: launches in their order, each value placed anew. A region that runs again runs the
// same kernel over the same numbers, so that it makes the same bits.
void runs_plan(Arena *perm, const PassOptions *o, const Plan *base, const Lives *lives,
               const Runs *runs, Func *func, Plan *out);

#endif
