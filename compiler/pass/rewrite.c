// rewrite.c - a function's graph built anew, node by node. In: a function and what becomes of each
// node. Out: the same function over a new graph in which everything is simplified and shared and
// nothing is dead. Order, blocks and spans are kept; so a pass is only its function of one node.
// What is copied as it was, with all that it depends on, is in simplest form and is not simplified
// again.
#include "pass.h"

void func_renumber(Func *f, const uint32_t *map) {
    for (uint32_t i = 0; i < f->tape.n; i++)
        f->tape.at[i].cond = map[f->tape.at[i].cond];
    for (uint32_t i = 0; i < f->effect.n; i++)
        f->effect.at[i] = map[f->effect.at[i]];
    for (uint32_t i = 0; i < f->update.n; i++) {
        Update *u = &f->update.at[i];
        u->loss = map[u->loss];
        for (uint32_t k = 0; k < u->grad.n; k++)
            u->grad.at[k].node = map[u->grad.at[k].node];
        uint32_t kept = 0;
        for (uint32_t k = 0; k < u->inner.n; k++)
            if (map[u->inner.at[k]])
                u->inner.at[kept++] = map[u->inner.at[k]];
        u->inner.n = kept;
    }
    for (uint32_t i = 0; i < f->report.n; i++)
        f->report.at[i].node = map[f->report.at[i].node];
    for (uint32_t i = 0; i < f->result.n; i++)
        f->result.at[i].node = map[f->result.at[i].node];
}

uint32_t node_copy(Rewriter *r, uint32_t id) {
    const Graph *from = r->from;
    const Node *n = graph_node(from, id);
    uint32_t in[MAX_IN], before = r->to.g->node.n;
    bool same = r->same != NULL;
    for (uint32_t k = 0; k < n->nin; k++) {
        in[k] = r->map[node_in(from, id, k)];
        same = same && r->same[node_in(from, id, k)];
    }
    if (!same)
        return builder_add(&r->to, (Op)n->op, in, n->nin, node_attr(from, id), node_type(from, id));
    uint32_t made = builder_copy(&r->to, from, id, in);
    r->same[id] = made == before; // another that became equal to it may bring more rules about
    return made;
}

void func_rewrite(Arena *perm, Func *f, int64_t batch, RewriteFn rewrite, void *user) {
    const Graph *from = &f->g;
    const uint8_t *live = func_live(perm, f);
    uint32_t *map = arena_array(perm, uint32_t, from->node.n);
    Graph to;
    graph_init(&to, perm, batch);
    to.next_unique = from->next_unique;
    to.literal = from->literal;
    Rewriter r = {.to = {.g = &to, .scope_end = blocks_scope_end(perm, f, false)},
                  .from = from,
                  .map = map,
                  .user = user};
    if (from->simple && !from->literal && batch == from->batch)
        r.same = arena_array(perm, uint8_t, from->node.n);
    for (uint32_t id = 1; id < from->node.n; id++) {
        if (!live[id])
            continue;
        r.to.block = graph_node(from, id)->block;
        r.to.span = from->span.at[graph_node(from, id)->span]
                        .span; // all that one node becomes names its line
        uint32_t before = to.node.n;
        map[id] = rewrite(&r, id);
        if (r.same && to.node.n != before + 1) // more was made of it
            r.same[id] = 0;
        for (uint32_t at = graph_node(from, id)->span; at; at = from->span.at[at].next)
            node_add_span(&to, map[id], from->span.at[at].span);
    }
    func_renumber(f, map);
    to.simple = true;
    f->g = to;
}
