// drop_zero_stores.c - drops writes of zero from `init`, the function that gives slots their
// initial values.
//
// In: any function; only `init` changes. Out: the same without those writes: slot memory is zero
// before `init` runs (exec.c ensures it), and pages never written cost nothing until a step writes.
#include "pass.h"

#include <math.h>

static bool writes_zero(const Graph *g, uint32_t write) {
    double x;
    return node_is_const(g, node_in(g, write, 0), &x) && x == 0 && !signbit(x);
}

void pass_drop_zero_stores(Arena *perm, const Module *m, Func *f, const PassOptions *o) {
    (void)o;
    if (f != &m->init)
        return;
    uint32_t kept = 0;
    for (uint32_t i = 0; i < f->effect.n; i++)
        if (!writes_zero(&f->g, f->effect.at[i]))
            f->effect.at[kept++] = f->effect.at[i];
    f->effect.n = kept;
    func_rewrite(perm, f, f->g.batch, node_copy, NULL); // what only they needed goes too
}
