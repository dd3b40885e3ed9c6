// unpin.c - removes the identities that only earlier passes need: Pin (what a grad named), Stop and
// Commit.
// In: a function without Grad nodes. Out: the same values; equal work that pins kept apart is now
// shared.
#include "pass.h"

static uint32_t unpin(void *user, Graph *to, const Graph *from, uint32_t id, const uint32_t *map) {
    Op op = (Op)graph_node(from, id)->op;
    return op == OpPin || op == OpStop || op == OpCommit ? map[node_in(from, id, 0)]
                                                         : node_copy(user, to, from, id, map);
}

void pass_unpin(Arena *perm, const Module *m, Func *f, const PassOptions *o) {
    (void)m, (void)o;
    func_rewrite(perm, f, f->g.batch, unpin, NULL);
}
