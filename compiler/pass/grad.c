// grad.c - expands Grad(y, x): reverse mode, source to source, over the gradient columns of the
// operations.
//
// In: a function with Grad nodes. Out: the same function without; a gradient's nodes are ordinary
// nodes in the block of the Grad, carrying the span of the forward node they belong to.
// Grads inside another's y are expanded first because the graph is rebuilt in index order, so any
// order of derivative is only this pass.
// - One reverse sweep serves all Grads of one y in one block; it visits nodes between y and the
//   wanted x and no others.
// - The gradient is of the sum of y over its elements and samples: the seed is ones.
// - Contributions are summed where the sweep meets their node, in order of arrival: users from last
//   to first.
// - Rows ignore broadcasting: what comes back in the result's type is summed to the operand's here.
#include "plan.h"

#include <string.h>

typedef struct Part { // one user's contribution to a node's gradient
    uint32_t node, next;
} Part;

typedef struct Sweep {
    Arena *perm;
    Graph *g;               // the new graph
    uint32_t old_y, block;  // what it serves: Grads of this old node in this block
    uint32_t y;             // new node
    uint8_t *wanted;        // [y + 1] 1: its gradient is requested
    uint8_t *on_path;       // [y + 1] 1: y needs it and it needs a wanted node
    uint32_t *first, *last; // [y + 1] its contributions in part[], 0 none
    uint32_t *result;       // [y + 1] gradients of wanted nodes, 0 none
    uint32_t made, end;     // new nodes [made, end) came with it
    VEC(Part) part;         // [0] is none
} Sweep;

static void contribute(Sweep *s, uint32_t to, uint32_t node) {
    vec_push(s->perm, &s->part, ((Part){node, 0}));
    uint32_t at = s->part.n - 1;
    if (s->last[to])
        s->part.at[s->last[to]].next = at;
    else
        s->first[to] = at;
    s->last[to] = at;
}

static Val sum_parts(const Sweep *s, uint32_t id) {
    Val sum = {0};
    for (uint32_t at = s->first[id]; at; at = s->part.at[at].next) {
        Val part = {s->g, s->part.at[at].node};
        sum = sum.id ? Add(sum, part) : part;
    }
    return sum;
}

// A row's answer, in the broadcast type of its result, as a gradient of the operand.
static Val fit(Val g, Val operand) {
    Type to = *node_type(g.g, operand.id);
    if (node_type(g.g, g.id)->dtype != to.dtype)
        g = CastTo(g, operand);
    return Expand(SumTo(g, to), to);
}

static bool passes_gradients(Op op) {
    return op != OpStop && op != OpCommit && op_info[op].grad != NULL;
}

// Of the nodes y needs, keeps those that need a wanted one through operations that have gradients.
static void sweep_mark(Sweep *s) {
    for (uint32_t id = 1; id <= s->y; id++) {
        bool needs = s->wanted[id];
        const Node *n = graph_node(s->g, id);
        for (uint32_t k = 0; k < n->nin && passes_gradients((Op)n->op); k++)
            needs |= s->on_path[node_in(s->g, id, k)];
        s->on_path[id] = s->on_path[id] && needs;
    }
}

static void sweep_node(Sweep *s, uint32_t id) {
    Val y = {s->g, id}, g = sum_parts(s, id);
    if (s->wanted[id])
        s->result[id] = g.id;
    if (!passes_gradients((Op)graph_node(s->g, id)->op))
        return;
    for (uint32_t k = 0; k < graph_node(s->g, id)->nin; k++) {
        uint32_t in = node_in(s->g, id, k);
        if (s->on_path[in]) {
            Val to_in = op_info[graph_node(s->g, id)->op].grad(y, g, k);
            if (to_in.id)
                contribute(s, in, fit(to_in, (Val){s->g, in}).id);
        }
    }
}

static Span first_span(const Graph *g, uint32_t id) {
    return g->span.at[graph_node(g, id)->span].span;
}

static void sweep_run(Sweep *s) {
    sweep_mark(s);
    if (s->on_path[s->y])
        contribute(s, s->y, Filled(s->g, 1, *node_type(s->g, s->y)).id);
    for (uint32_t id = s->y; id > 0; id--) {
        if (s->first[id]) {
            s->g->here = first_span(s->g, id);
            sweep_node(s, id);
        }
    }
    s->g->here = (Span){0};
}

// --- the pass ------------------------------------------------------------------------------------

typedef struct Sweeps {
    Arena *perm;
    const Func *f;
    uint8_t **inner; // [update][old node] 1: a Grad inside its loss
    NodeList *found; // [update] Update.inner to be
    VEC(Sweep) done;
} Sweeps;

// Every Grad of the same y and block is served, if its x is built: an x that is not comes after y.
static void want_all(Sweep *s, const Graph *from, uint32_t first, const uint32_t *map) {
    for (uint32_t id = first; id < from->node.n; id++) {
        const Node *n = graph_node(from, id);
        if (n->op == OpGrad && n->block == s->block && node_in(from, id, 0) == s->old_y) {
            uint32_t x = map[node_in(from, id, 1)];
            s->wanted[x <= s->y ? x : 0] = 1;
        }
    }
}

static Sweep *sweep_of(Sweeps *all, Graph *to, const Graph *from, uint32_t id,
                       const uint32_t *map) {
    uint32_t y = node_in(from, id, 0), block = graph_node(from, id)->block;
    for (uint32_t i = 0; i < all->done.n; i++)
        if (all->done.at[i].old_y == y && all->done.at[i].block == block)
            return &all->done.at[i];
    Arena *a = all->perm;
    Sweep s = {.perm = a, .g = to, .old_y = y, .block = block, .y = map[y]};
    s.wanted = arena_array(a, uint8_t, s.y + 1);
    s.first = arena_array(a, uint32_t, s.y + 1);
    s.last = arena_array(a, uint32_t, s.y + 1);
    s.result = arena_array(a, uint32_t, s.y + 1);
    s.on_path = graph_reach(to, a, &s.y, 1);
    (void)vec_add(a, &s.part);
    want_all(&s, from, id, map);
    s.made = to->node.n;
    sweep_run(&s);
    s.end = to->node.n;
    vec_push(a, &all->done, s);
    return &all->done.at[all->done.n - 1];
}

// --- gradients inside losses ---------------------------------------------------------------------

enum { Seen = 1, Own = 2 };

// Marks the Grads that make up a weight's gradient: an update's own.
static void mark_own(const Graph *g, uint32_t id, uint8_t *mark) {
    const Node *n = graph_node(g, id);
    if (mark[id])
        return;
    mark[id] = n->op == OpGrad ? Own : Seen;
    for (uint32_t k = 0; op_info[n->op].cls == ClassEW && k < n->nin; k++)
        mark_own(g, node_in(g, id, k), mark);
}

// Grads that a loss needs, but for those of updates before it, whose new weights it may be made
// with.
static void find_inner(Sweeps *all) {
    const Func *f = all->f;
    const Graph *g = &f->g;
    uint8_t *mark = arena_array(all->perm, uint8_t, g->node.n);
    all->inner = arena_array(all->perm, uint8_t *, f->update.n);
    all->found = arena_array(all->perm, NodeList, f->update.n);
    for (uint32_t i = 0; i < f->update.n; i++)
        for (uint32_t k = 0; k < f->update.at[i].grad.n; k++)
            mark_own(g, f->update.at[i].grad.at[k].node, mark);
    for (uint32_t i = 0; i < f->update.n; i++) {
        uint8_t *in = all->inner[i] = arena_array(all->perm, uint8_t, g->node.n);
        in[f->update.at[i].loss] = 1;
        for (uint32_t id = f->update.at[i].loss; id > 0; id--)
            for (uint32_t k = 0; in[id] && mark[id] != Own && k < graph_node(g, id)->nin; k++)
                in[node_in(g, id, k)] = 1;
        for (uint32_t id = 1; id < g->node.n; id++)
            in[id] = in[id] && graph_node(g, id)->op == OpGrad && mark[id] != Own;
    }
}

// Of the nodes that a Grad inside a loss became, the convolutions and products: no simplification
// replaces them.
static void note_inner(Sweeps *all, const Graph *to, uint32_t id, const Sweep *s) {
    for (uint32_t i = 0; i < all->f->update.n; i++) {
        NodeList *found = &all->found[i];
        bool wanted = all->inner[i][id];
        for (uint32_t k = 0; k < found->n; k++) // another Grad of the same sweep may have come
            wanted = wanted && !(found->at[k] >= s->made && found->at[k] < s->end);
        for (uint32_t k = s->made; wanted && k < s->end; k++)
            if (op_info[graph_node(to, k)->op].cls == ClassANCHOR)
                vec_push(all->perm, found, k);
    }
}

static uint32_t expand(void *user, Graph *to, const Graph *from, uint32_t id, const uint32_t *map) {
    if (graph_node(from, id)->op != OpGrad)
        return node_copy(NULL, to, from, id, map);
    Sweep *s = sweep_of(user, to, from, id, map);
    note_inner(user, to, id, s);
    uint32_t x = map[node_in(from, id, 1)], found = x <= s->y ? s->result[x] : 0;
    return found ? found : Filled(to, 0, *node_type(to, x)).id;
}

void pass_grad(Arena *perm, const Module *m, Func *f, const PassOptions *o) {
    (void)m, (void)o;
    Func was = *f;
    Sweeps all = {.perm = perm, .f = &was};
    find_inner(&all);
    func_rewrite(perm, f, f->g.batch, expand, &all);
    for (uint32_t i = 0; i < f->update.n; i++)
        for (uint32_t k = 0; k < all.found[i].n; k++)
            vec_push(perm, &f->update.at[i].inner, all.found[i].at[k]);
}
