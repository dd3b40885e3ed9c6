// partial.c - which values of a step are partial sums over this rank's samples, and which of them
// are reduced over the ranks.
//
// In: a function for the global batch, without Grad nodes. Out: Partials. A sum stays partial
// through linear operations, so that a gradient of several terms is reduced once, over its terms
// and the ranks together. A value that something needs globally is reduced where it is computed,
// and is whole to all its readers. An operation that enlarges a partial (a sum times a tensor)
// propagates it only if its own result need not be reduced: small sums are communicated, not the
// tensors they scale. The answer is a fixed point: the sets of whole values and of operations that
// must not propagate only grow.
#include "shard.h"

typedef struct Finder {
    Partials *p;
    const Graph *g;
    uint8_t *stuck;   // [node] enlarges its operand and must not propagate it
    ObservedVec seen; // what the executor reads
} Finder;

bool partial_begins(const Graph *g, uint32_t id) {
    bool batched = false;
    for (uint32_t k = 0; k < graph_node(g, id)->nin; k++)
        batched |= node_type(g, node_in(g, id, k))->batched;
    return batched && !node_type(g, id)->batched;
}

static bool open_sum(const Finder *s, uint32_t id) {
    return s->p->is[id] && !s->p->whole[id];
}

// Operand k is a partial that may stay one: computed in the same block, so that it is reduced as
// often as it is read.
static bool partial(const Finder *s, uint32_t id, uint32_t k) {
    uint32_t in = node_in(s->g, id, k);
    return open_sum(s, in) && graph_node(s->g, in)->block == graph_node(s->g, id)->block;
}

static bool plain(const Finder *s, uint32_t id, uint32_t k) {
    uint32_t in = node_in(s->g, id, k);
    return !node_type(s->g, in)->batched && !open_sum(s, in);
}

static bool zero(const Finder *s, uint32_t id, uint32_t k) {
    double x;
    return node_is_const(s->g, node_in(s->g, id, k), &x) && x == 0;
}

static bool all_partial(const Finder *s, uint32_t id) {
    bool any = false;
    for (uint32_t k = 0; k < graph_node(s->g, id)->nin; k++) {
        if (!partial(s, id, k) && !zero(s, id, k))
            return false;
        any |= partial(s, id, k);
    }
    return any;
}

static bool widens(const Graph *g, uint32_t id) {
    return dtype_size[node_type(g, id)->dtype] > dtype_size[node_type(g, node_in(g, id, 0))->dtype];
}

// Is the result linear in its partial operands?
static bool linear(const Finder *s, uint32_t id) {
    Op op = (Op)graph_node(s->g, id)->op;
    bool rounds = op == OpCast && !widens(s->g, id);
    if (node_type(s->g, id)->batched || rounds)
        return false;
    if (op_is(op, TraitLinear))
        return all_partial(s, id);
    bool in_each = op_is(op, TraitBilinear), in_first = in_each || op_is(op, TraitLinearFirst);
    return (in_first && partial(s, id, 0) && plain(s, id, 1)) ||
           (in_each && plain(s, id, 0) && partial(s, id, 1));
}

// Is it larger than each of its partial operands?
static bool grows(const Finder *s, uint32_t id) {
    int64_t most = 0;
    for (uint32_t k = 0; k < graph_node(s->g, id)->nin; k++) {
        int64_t n = type_sample(node_type(s->g, node_in(s->g, id, k)));
        most = partial(s, id, k) && n > most ? n : most;
    }
    return type_sample(node_type(s->g, id)) > most;
}

static void mark_sums(Finder *s) {
    for (uint32_t id = 1; id < s->g->node.n; id++)
        s->p->is[id] =
            s->p->live[id] && (partial_begins(s->g, id) || (!s->stuck[id] && linear(s, id)));
}

static bool need(Finder *s, uint32_t id) {
    bool news = open_sum(s, id);
    s->p->whole[id] |= news;
    return news;
}

static bool mark_needs(Finder *s) {
    bool news = false;
    for (uint32_t id = 1; id < s->g->node.n; id++) {
        bool hands_on = s->p->is[id] && !partial_begins(s->g, id);
        for (uint32_t k = 0; s->p->live[id] && !hands_on && k < graph_node(s->g, id)->nin; k++)
            news |= need(s, node_in(s->g, id, k));
    }
    return news;
}

// What the executor reads is needed whole.
static bool mark_observed(Finder *s) {
    bool news = false;
    for (uint32_t i = 0; i < s->seen.n; i++)
        news |= need(s, s->seen.at[i].node);
    return news;
}

static bool mark_stuck(Finder *s) {
    bool news = false;
    for (uint32_t id = 1; id < s->g->node.n; id++) {
        if (s->p->is[id] && s->p->whole[id] && !partial_begins(s->g, id) && grows(s, id)) {
            s->stuck[id] = 1;
            s->p->whole[id] = 0;
            news = true;
        }
    }
    return news;
}

void partials_find(Arena *a, const Func *f, const About *about, Partials *out) {
    uint32_t n = f->g.node.n;
    *out = (Partials){f, func_live(a, f), arena_array(a, uint8_t, n), arena_array(a, uint8_t, n)};
    Finder s = {.p = out, .g = &f->g, .stuck = arena_array(a, uint8_t, n)};
    func_observed(a, f, true, &s.seen);
    for (uint32_t id = 1; about && id < n; id++)
        if (out->live[id] && about[id].centre)
            out->whole[id] = out->whole[about[id].centre] = 1;
    bool news;
    do {
        mark_sums(&s);
        news = mark_observed(&s);
        news |= mark_needs(&s);
        news |= mark_stuck(&s);
    } while (news);
}
