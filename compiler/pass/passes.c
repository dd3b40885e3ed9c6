// passes.c - the passes over a function's graph, and the stages that make a plan of it. This screen is the whole order.
#include "plan.h"

typedef struct Pass {
    const char *name;
    void (*run)(Arena *perm, Module *m, Func *f, const PassOptions *o);
} Pass;

static const Pass passes[] = {
    //                       needs                     leaves                             breaks
    {"grad", pass_grad},     // elaborated graph       no Grad nodes                      -
    {"dce", pass_dce},       // -                      only what an effect or root needs  node numbers
    {"unpin", pass_unpin},   // no Grad nodes          no Pin or Stop; more is shared     later differentiation
    {"dtype", pass_dtype},   // no Grad, Pin, Stop     storage types, casts between them  type equality of operands
};
// Simplification and sharing are no pass: every graph_add does them (lang/rules.def).

static void check(const Module *m, const char *after) {
    Arena scratch;
    Str error;
    if (arena_init(&scratch, 0) != GAN_OK)
        bug("%s", gan_error());
    if (!module_verify(m, scratch, &error))
        bug("after %s: %.*s", after, SARG(error));
    arena_release(&scratch);
}

void passes_run(Arena *perm, Module *m, Func *f, const PassOptions *o, const char *stop_after) {
    for (size_t i = 0; i < sizeof passes / sizeof *passes; i++) {
        passes[i].run(perm, m, f, o);
        if (o->verify_each)
            check(m, passes[i].name);
        if (stop_after && str_eq(str_c(stop_after), str_c(passes[i].name)))
            return;
    }
}

void plan_make(Arena *perm, const Module *m, const Func *f, const PassOptions *o, Plan *out) {
    *out = (Plan){.module = m, .func = f, .real = o->real};
    fuse(perm, o, out);
    schedule(perm, o, out);
    memory_plan(o, out);
    out->gflop = out->gflop_model = func_gflop(f);
}
