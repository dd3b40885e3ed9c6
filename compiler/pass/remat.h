// remat.h - regions that run more than once: what remat.c decides and remat_write.c makes a plan
// of.
#ifndef GAN_REMAT_H
#define GAN_REMAT_H

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

// The plan of these runs, *out, over a copy of base->func with a graph of its own, *func, which is
// the module's: launches in their order, each value placed anew. A region that runs again runs the
// same kernel over the same numbers, so that it makes the same bits.
void runs_plan(Arena *perm, const PassOptions *o, const Plan *base, const Lives *lives,
               const Runs *runs, Func *func, Plan *out);

#endif
