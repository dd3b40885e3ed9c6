// split_sums.c - removes needless dependences between sums over the batch.
//
// In: a function for the global batch, without Grad nodes, before it is divided among ranks. A sum
// that depends on another sum costs one more synchronization of all ranks, and on a card one more
// launch that reads the activations again. The dependence is needless where the other sum only
// supplies a factor or a term common to all samples: sum(a + x w) is sum(a) + sum(x) w, and w can
// be applied after both. The backward pass of batch norm then synchronizes once per layer, not
// twice. (Squared deviations from a mean need not wait either: moments.c.)
#include "shard.h"

enum { SpreadDepth = 6 }; // nested additions and factors that a sum is split through, at most

typedef struct Early {
    const Graph *g;
    uint32_t *depth; // [node] sums over the batch on the longest path to it
    uint8_t *parts;  // [node] a sum to split
} Early;

bool same_along(const Type *t, uint32_t mask) {
    bool same = !(t->batched && mask & 1);
    for (uint32_t i = 0; i < t->rank; i++)
        same &= t->dim[i] == 1 || !(mask >> (1 + i) & 1);
    return same;
}

// The operand of a product or quotient that can be factored out of a sum over these axes; 0: none.
static uint32_t factor_of(const Graph *g, uint32_t id, uint32_t mask) {
    Op op = (Op)graph_node(g, id)->op;
    if (op != OpMul && op != OpDiv)
        return 0;
    for (uint32_t k = 2; k-- > (op == OpDiv ? 1u : 0u);)
        if (same_along(node_type(g, node_in(g, id, k)), mask))
            return node_in(g, id, k);
    return 0;
}

static uint32_t other_than(const Graph *g, uint32_t id, uint32_t operand) {
    return node_in(g, id, node_in(g, id, 0) == operand);
}

// The depth of the deepest sum over the batch that the sum of `id` depends on when it is split.
static uint32_t earliest(const Early *e, uint32_t id, uint32_t mask, uint32_t most) {
    const Graph *g = e->g;
    Op op = (Op)graph_node(g, id)->op;
    uint32_t factor = factor_of(g, id, mask);
    if (!node_type(g, id)->batched)
        return 0;
    if (!most)
        return e->depth[id];
    if (factor)
        return earliest(e, other_than(g, id, factor), mask, most - 1);
    if (op == OpNeg)
        return earliest(e, node_in(g, id, 0), mask, most - 1);
    if (op != OpAdd && op != OpSub)
        return e->depth[id];
    uint32_t a = earliest(e, node_in(g, id, 0), mask, most - 1),
             b = earliest(e, node_in(g, id, 1), mask, most - 1);
    return a > b ? a : b;
}

typedef struct Spread { // a sum that is split
    const Early *e;
    Rewriter *r;
    Type type; // of its operand
    uint32_t mask;
} Spread;

// The sum of `id`, broadcast to the type, in the new graph: split as far as that removes
// dependences.
static Val spread(const Spread *s, uint32_t id, uint32_t most) {
    const Graph *g = s->e->g;
    Op op = (Op)graph_node(g, id)->op;
    uint32_t factor = factor_of(g, id, s->mask);
    if (earliest(s->e, id, s->mask, most) == s->e->depth[id] || !node_type(g, id)->batched)
        return Sum(Expand(rewritten(s->r, id), s->type), s->mask);
    if (factor) {
        Val rest = spread(s, other_than(g, id, factor), most - 1), by = rewritten(s->r, factor);
        return op == OpMul ? Mul(rest, by) : Div(rest, by);
    }
    Val a = spread(s, node_in(g, id, 0), most - 1);
    if (op == OpNeg)
        return Neg(a);
    Val b = spread(s, node_in(g, id, 1), most - 1);
    if (op == OpSub && a.id == b.id) // deviations from the terms' own mean: 0 (lang/rules.def)
        return Expand(Num(a, 0), val_type(a));
    return op == OpAdd ? Add(a, b) : Sub(a, b);
}

static bool is_batch_sum(const Graph *g, uint32_t id) {
    return graph_node(g, id)->op == OpSum && node_axes(g, id) & 1;
}

// A gradient of an update is reduced in a bucket, which nothing waits for at once: it stays one
// sum.
static void keep_gradients(Early *e, const Func *f) {
    for (uint32_t u = 0; u < f->update.n; u++) {
        for (uint32_t k = 0; k < f->update.at[u].grad.n; k++) {
            uint32_t id = f->update.at[u].grad.at[k].node;
            while (graph_node(e->g, id)->op == OpReshape || graph_node(e->g, id)->op == OpNeg)
                id = node_in(e->g, id, 0);
            e->parts[id] = 0;
        }
    }
}

static uint32_t split_one(Rewriter *r, uint32_t id) {
    const Early *e = r->user;
    if (!e->parts[id])
        return node_copy(r, id);
    uint32_t x = node_in(e->g, id, 0);
    Spread s = {e, r, *node_type(e->g, x), node_axes(e->g, id)};
    return spread(&s, x, SpreadDepth).id;
}

// On a card it spares a launch that reads the activations again.
static bool is_wanted(const PassOptions *o) {
    return o->few_launches || o->parallel.ranks > 1 || parallel_chunked(&o->parallel);
}

void pass_split_sums(Arena *perm, const Module *m, Func *f, const PassOptions *o) {
    const Graph *g = &f->g;
    (void)m;
    if (!is_wanted(o))
        return;
    Early e = {g, arena_array(perm, uint32_t, g->node.n), arena_array(perm, uint8_t, g->node.n)};
    for (uint32_t id = 1; id < g->node.n; id++) {
        for (uint32_t k = 0; k < graph_node(g, id)->nin; k++) {
            uint32_t before = e.depth[node_in(g, id, k)];
            e.depth[id] = before > e.depth[id] ? before : e.depth[id];
        }
        uint32_t x = is_batch_sum(g, id) ? node_in(g, id, 0) : 0;
        e.parts[id] = x && earliest(&e, x, node_axes(g, id), SpreadDepth) < e.depth[x];
        e.depth[id] += partial_begins(g, id);
    }
    keep_gradients(&e, f);
    func_rewrite(perm, f, g->batch, split_one, &e);
    if (!o->keep_grads)
        grads_drop_unread(perm, f);
}
