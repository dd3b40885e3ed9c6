// pass.h - Module to Plan: the passes, in the order of one table (passes.c), each with what it needs, keeps and breaks.
#ifndef GAN_PASS_H
#define GAN_PASS_H

#include "program.h"

typedef struct PassOptions {
    Dtype real;              // F64, F32, BF16
    bool keep_grads;         // verify: gradients of updates stay readable until their block ends
    bool verify_each;        // check the graph after every pass (debug builds)
    bool no_fuse;            // every node its own region: what `ref` runs
    bool channels_pack;      // the backend wants packed weights (cpu)
} PassOptions;

// --- passes.c: the table and its runner ------------------------------------------------------------------------------

// Graph passes over one function (grad, dce, simplify, dtype). Slots' types may change dtype. bug() on a verifier
// complaint. `stop_after`: a pass name to stop behind (ganc emit --stage grad), or NULL.
void passes_run(Arena *perm, Module *m, Func *f, const PassOptions *o, const char *stop_after);
// Gives every slot its offset in the slot memory: per net flat arenas, weights in order of gradient finality, with
// equal layouts for weights, gradients and each optimizer state; then the rest. Returns its size in bytes.
size_t slots_place(Module *m, Dtype real);
// Regions, schedule and memory of a function whose graph passes are done.
void plan_make(Arena *perm, const Module *m, const Func *f, const PassOptions *o, Plan *out);

// --- grad.c, rewrite.c, dce.c, dtype.c, fuse.c, schedule.c, memory.c, arena.c, count.c -------------------------------

void pass_grad(Arena *perm, Module *m, Func *f, const PassOptions *o);    // expands Grad nodes, innermost first
void pass_dce(Arena *perm, Module *m, Func *f, const PassOptions *o);
void pass_unpin(Arena *perm, Module *m, Func *f, const PassOptions *o);   // Pin and Stop disappear; more becomes equal
void pass_dtype(Arena *perm, Module *m, Func *f, const PassOptions *o);

// Rebuilds a function's graph: `map` is called for every live node in order and returns the new node (graph_add with
// mapped operands when it has nothing to say); effects, updates, reports, results and the tape are renumbered.
typedef uint32_t (*RewriteFn)(void *user, Graph *to, const Graph *from, uint32_t id, const uint32_t *map);
void func_rewrite(Arena *perm, Func *f, RewriteFn map, void *user);

double graph_gflop(const Graph *g);                                       // Dot, Conv*: 2 per multiply-add, nominal
void plan_print(Text *t, const Plan *p);                                  // text form; `ganc emit --stage plan`
void explain_fusion(Text *t, const Plan *p);                              // per region: members, bytes saved; per edge left: why

#endif
