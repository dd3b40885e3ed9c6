// plan.h - from a function's graph to its Plan, within a memory limit; the text form of plans, and
// what is said of them. stages.h is the inside of it.
#ifndef GAN_PLAN_H
#define GAN_PLAN_H

#include "fuse.h"

// --- plan.c, slots.c, remat.c --------------------------------------------------------------------

// Regions, schedule and memory of a function whose graph passes are done.
void plan_make(Arena *perm, const Module *m, const Func *f, const PassOptions *o, Plan *out);
// Sets the precision of slots and sites, and every slot's offset in the slot memory: flat arenas
// per net, weights in the order in which their gradients become final, with equal layouts for
// weights, gradients and each kind of optimizer state; then the rest. Returns the size in bytes.
size_t slots_place(Module *m, Dtype real);

// What rematerialization (remat.c) did to fit a plan into a memory limit.
typedef struct Remade {
    size_t most;       // limit of work memory, in bytes
    size_t held;       // bytes without rematerialization
    uint32_t launches; // recomputed
    double gflop;      // of recomputed launches; included in Plan.gflop
    double bytes;      // they read and write
} Remade;

// Where the plan of `f` takes more than o->work_most bytes of work memory: recomputes
// launches just before late consumers instead of keeping their results live, best bytes per second
// first, until the plan fits or nothing more can be gained. Replaces f's graph and *p; fills
// p->remade.
void remat(Arena *perm, const PassOptions *o, Func *f, Plan *p);

// --- plan_text.c, plan_read.c: the text form of plans, which follows that of their module --------

typedef enum PlanLevel { PlanFused, PlanScheduled, PlanPlaced } PlanLevel; // a stage's result
// The module and the plans of its functions (init, step, entries): plans_read(print(p)) prints the
// same bytes.
void plans_print(Text *t, const Plan *const *plan, uint32_t n, PlanLevel level);
typedef struct PlansRead {
    Dtype real;      // precision they were made for
    bool unfused;    // a region a node, for the reference device: there are no kernels of them
    PlanLevel level; // of the text
    Plan *plan;      // [2 + entry.n], of `module`, complete; without kernels
} PlansRead;
// Reads the text form and runs the stages behind its level. On a mistake false and "line N: ..." in
// *error. Never trusts the text. `module` must stay where it is.
bool plans_read(Arena *perm, Str text, Module *module, PlansRead *out, Str *error);

// --- explain.c, collective_text.c: what is said of a plan ----------------------------------------

// Source lines of a region's members, each once, in order of the members.
void region_lines(Arena *a, const Plan *p, const Region *r, SourceLineVec *out);
// A short name of a collective ("gradients of D"); the source lines where its
// last part is ready and where its sum is first read, if known.
void collective_name(Text *t, const Plan *p, uint32_t call);
bool collective_ready_line(const Plan *p, uint32_t call, SourceLine *out);
bool collective_use_line(const Plan *p, uint32_t call, SourceLine *out);
// A line per collective, the same on every rank.
void collectives_print(Text *t, const Plan *p);
void explain_fusion(Text *t, const Plan *p); // per region: members, bytes saved; per edge left: why

#endif
