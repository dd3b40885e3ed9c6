// drop_identities.c - removes the identities that only earlier passes need: Pin (a value a grad
// names), Stop and Commit.
//
// In: a function without Grad nodes. Out: the same values; equal nodes that pins kept apart are now
// shared. Gradients that no live value depends on are dropped, unless keep_grads is set.
#include "pass.h"

static uint32_t without(Rewriter *r, uint32_t id) {
    Op op = (Op)graph_node(r->from, id)->op;
    return op == OpPin || op == OpStop || op == OpCommit ? rewritten_in(r, id, 0).id
                                                         : node_copy(r, id);
}

void grads_drop_unread(Arena *perm, Func *f) {
    Func without = *f;
    without.update.at = arena_array(perm, Update, f->update.n);
    for (uint32_t i = 0; i < f->update.n; i++)
        without.update.at[i] = (Update){.loss = f->update.at[i].loss};
    const uint8_t *read = func_live(perm, &without);
    for (uint32_t i = 0; i < f->update.n; i++) {
        Update *u = &f->update.at[i];
        uint32_t kept = 0;
        for (uint32_t k = 0; k < u->grad.n; k++)
            if (read[u->grad.at[k].node])
                u->grad.at[kept++] = u->grad.at[k];
        u->grad.n = kept;
    }
}

void pass_drop_identities(Arena *perm, const Module *m, Func *f, const PassOptions *o) {
    (void)m;
    func_rewrite(perm, f, f->g.batch, without, NULL);
    if (!o->keep_grads)
        grads_drop_unread(perm, f);
}
