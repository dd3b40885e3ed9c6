// passes.c - the passes over a function's graph, and the stages that make a plan of it: this screen
// is the whole order.
#include "plan.h"

typedef struct Pass {
    const char *name;
    void (*run)(Arena *perm, const Module *m, Func *f, const PassOptions *o);
} Pass;

// Simplification and sharing are no pass: every graph_add does them (lang/rules.def).
static const Pass passes[] = {
    // needs an elaborated graph and loss_scale_slots, else does nothing; leaves no Commit
    {"loss_scale", pass_loss_scale},
    // needs an elaborated graph; leaves no Grad nodes
    {"grad", pass_grad},
    // needs to be `init`, else does nothing; leaves it without writes of zero
    {"fresh", pass_fresh},
    // needs no Grad nodes; leaves no Pin, Stop or Commit, so that more is shared, and only what an
    // effect or a root needs; breaks later differentiation, and node numbers, as all below do
    {"unpin", pass_unpin},
    // needs no Grad, Pin, Stop; keeps every value's bits, if y stays wide; leaves fewer values
    // live until the backward pass
    {"mask", pass_mask},
    // needs no Grad, Pin, Stop; leaves storage types with casts between; breaks equality of types
    {"dtype", pass_dtype},
    // needs the final precision and Module.share; leaves a graph for this rank's samples, with
    // collectives; breaks what is said of the global batch
    {"shard", pass_shard},
    // needs the final precision and this rank's samples; keeps values but for rounding; breaks what
    // looks for squares about a mean by their pattern (centre_of)
    {"moments", pass_moments},
};

static void check(const Module *m, const Func *f, const char *after) {
    Arena scratch;
    Str error;
    arena_need(&scratch);
    if (!func_verify(m, f, scratch, &error))
        bug("after %s: %.*s", after, SARG(error));
    arena_release(&scratch);
}

void passes_run(Arena *perm, const Module *m, Func *f, const PassOptions *o,
                const char *stop_after) {
    for (size_t i = 0; i < sizeof passes / sizeof *passes; i++) {
        passes[i].run(perm, m, f, o);
        if (o->verify_each)
            check(m, f, passes[i].name);
        if (stop_after && str_eq(str_c(stop_after), str_c(passes[i].name)))
            return;
    }
}

void plan_make(Arena *perm, const Module *m, const Func *f, const PassOptions *o, Plan *out) {
    *out = (Plan){.module = m, .func = f, .real = o->real, .unfused = o->no_fuse};
    fuse(perm, o, out);
    collectives_find(perm, out);
    schedule(perm, o, out);
    memory_plan(o, out);
    collectives_place(perm, out);
    out->gflop = func_gflop(f);
    out->gflop_model = out->gflop + func_gflop_again(f);
}
