// plan.h - the stages of plan_make in the order they run, and what each leaves to the next.
#ifndef GAN_PLAN_H
#define GAN_PLAN_H

#include "pass.h"

// fuse.c. Fills region[] (node, in, out, kind, block), region_of[], why[], and of place[]: `space` SpaceInline for values
// that kernels compute where they use them (constants, iota), and `owner` of every node: itself, or, of a view (a move
// whose elements are its source's, in the same order of bytes), the source's owner. Region.in and .out hold owners only.
void fuse(Arena *perm, const PassOptions *o, Plan *p);

// schedule.c. Fills launch[], merge[], block[], Region.merged and copied[] (with one region added per copy).
void schedule(Arena *perm, const PassOptions *o, Plan *p);

// memory.c. Fills the rest of place[], work_bytes, work_bound and bytes_moved.
void memory_plan(Arena *perm, const PassOptions *o, Plan *p);

// The nodes whose values the executor reads: losses, reports, results, conditions of the tape, with keep_grads also the
// gradients of updates. block: the last block whose end they must live to; `whole` ones live to the function's end.
typedef struct Kept { uint32_t node, block; bool whole; } Kept;
typedef VEC(Kept) KeptVec;
void plan_kept(Arena *a, const PassOptions *o, const Plan *p, KeptVec *out);

#endif
