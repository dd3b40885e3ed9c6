// remat.h - rematerialization: regions that run more than once. remat_live.c tracks live ranges and
// live bytes under such runs, remat.c chooses them, remat_write.c writes the resulting plan.
//
// Time is counted in *moments*: a moment is a launch of the base plan or a recomputed run inserted
// before one.
#ifndef GAN_REMAT_H
#define GAN_REMAT_H

#include "buffer.h"
#include "stages.h"

// One execution of a region: that of the base plan, or a recomputation before one of its launches.
typedef struct Run {
    uint32_t region; // of the base plan
    uint32_t launch; // its launch; of a recomputation the one it is inserted before
    bool again;      // recomputation
    uint32_t *from;  // [Region.in.n] the run that produced each input, NONE: not in work memory
} Run;
typedef VEC(uint32_t) RunList;

typedef struct Runs {
    VEC(Run) run;    // [region] those of the base plan, then recomputations
    RunList *before; // [launch] recomputations before it, in order
    uint32_t *out;   // [node] 1 + its index in Region.out of the region that stores it, 0: none
} Runs;

// --- remat_live.c --------------------------------------------------------------------------------

typedef struct Value { // an output of a run
    int64_t bytes;     // 0: in slot memory
    RunList use;       // runs that read it, in order
    uint32_t last;     // the run that leads the last moment of its live range,
    uint32_t end;      // or would without readers
} Value;

typedef struct Change {  // of live bytes at a moment
    int64_t made, freed; // of values whose live range begins, and ends, there
    int64_t apart;       // live there beside those values
} Change;

typedef struct Remat {
    Arena *a;
    const Plan *p;
    Lives lives;
    Runs runs;
    VEC(Value *) value; // [run] of its outputs
    VEC(uint32_t) at;   // [run] its moment
    RunList order;      // [moment] the run that leads it, the first of a launch; room for all runs
    uint32_t moments;
    VEC(Change) change; // [run] at the moment it leads
    RunList *beside;    // [launch] the regions it runs
    RunList *copies;    // [region] its runs
    int64_t *apart;     // [launch] live bytes of fixed values, and what others take less because
                        // they share a buffer
    uint8_t *fixed;  // [node] lives as in the base plan, or longer: another block or the executor
                     // reads it
    uint8_t *pure;   // [region] may be recomputed
    uint8_t *barred; // [node] was tried, and saved nothing
    uint32_t *until; // [region] the launch that overwrites a slot it reads
    double *seconds; // [region] estimated
    int64_t target;  // limit of live bytes
    bool others;     // what a chain saves of values that it is not for counts in full
    VEC(uint32_t) over; // [moment] number of earlier moments above the target
    double excess;      // bytes above the target, summed over all moments
} Remat;

void remat_init(Remat *z, const PassOptions *o, Plan *p); // the base plan's runs, measured
const Region *remat_region(const Remat *z, uint32_t run);
RunList remat_runs_at(const Remat *z, uint32_t moment); // a recomputation, or all of a launch
// Of the runs before moment `at`, the one whose value of `node` has the longest live range.
uint32_t remat_longest(const Remat *z, uint32_t node, uint32_t at);
// Of the runs of a region before moment `at`, the last: what later readers of its values read.
uint32_t remat_latest(const Remat *z, uint32_t region, uint32_t at);
// The number of moments in from..to, inclusive, above the target.
uint32_t remat_over(const Remat *z, uint32_t from, uint32_t to);

// Its index among the recomputations before its launch; after them for the launch's own run.
uint32_t remat_place(const Remat *z, uint32_t run);
// Inserts a recomputation there; the caller sets its inputs (Run.from). When all are inserted,
// remat_order() numbers the moments and remat_use_inputs() adds each to its inputs' readers.
uint32_t remat_add(Remat *z, uint32_t region, uint32_t launch, uint32_t place);
void remat_order(Remat *z);
void remat_use_inputs(Remat *z, uint32_t run);
// Readers of run `old` from moment `at` on read `now` instead.
void remat_redirect(Remat *z, uint32_t old, uint32_t now, uint32_t at);
void remat_drop(Remat *z, uint32_t run); // removes a recomputation; then remat_order()
bool remat_left_out(const Remat *z, uint32_t run);
bool remat_unread(const Remat *z, uint32_t run); // Has it no readers?
// Sums up live bytes at each moment: `over` and `excess`.
void remat_measure(Remat *z);

// --- remat_write.c -------------------------------------------------------------------------------

// The plan of these runs, *out, over *func, a copy of base->func with its own graph: launches in
// order, memory planned again. A recomputed region runs the same kernel on the same inputs, so it
// gives the same bits.
void runs_plan(Arena *perm, const PassOptions *o, const Plan *base, const Lives *lives,
               const Runs *runs, Func *func, Plan *out);

#endif
