// as_samples.c - what all samples share is laid out as samples are, where a loop over samples reads
// it element by element.
//
// In: a function for this rank's samples, in its final precision. Out: the same values. A shared
// value of several axes, such as the gain of a layer norm, an embedding of positions or a mask,
// lies as weights do, so a loop over samples in the order of memory strides through it, once for
// every sample. Behind an axis of one element its axes lie as those of samples do (type_layout): it
// is stored once in that form, behind a Pin, which fusion stores (units.c). Not for cards, whose
// threads load both sides of a transpose in whole sectors (gen/team_pack.c).
#include "pass.h"

#include <string.h>

enum {
    FewReads = 1 << 16, // elements a loop reads: below, a launch more costs as much as strides
    FewSamples = 4      // the copy strides, too
};

typedef struct Copies {
    const uint8_t *stored; // [node] whether it is computed from something in memory
    uint32_t *copy;        // [node] the last one made of it; 0: none
    bool small;            // PassOptions.small_products
} Copies;

static const uint8_t *find_stored(Arena *perm, const Graph *g) {
    uint8_t *stored = arena_array(perm, uint8_t, g->node.n);
    for (uint32_t id = 1; id < g->node.n; id++) {
        OpClass c = op_info[graph_node(g, id)->op].cls;
        stored[id] = c != ClassLEAF && c != ClassEW && c != ClassMOVE;
        for (uint32_t k = 0; k < graph_node(g, id)->nin; k++)
            stored[id] |= stored[node_in(g, id, k)];
    }
    return stored;
}

// As the samples of `by` do, as far as that is asked for: where they do not lie by type_strides'
// rule, a copy would have to be of another type.
static bool lies_as_samples(const Type *shared, const Type *by) {
    Type sample = *shared;
    sample.batched = true;
    if (by->inner && by->rank == shared->rank)
        return true;
    int64_t a[MAX_RANK + 1], b[MAX_RANK + 1];
    type_strides(shared, a);
    type_strides(&sample, b);
    return !memcmp(a + 1, b + 1, shared->rank * sizeof *a);
}

static bool copy_pays(const Graph *g, const Copies *c, uint32_t id, uint32_t operand) {
    const Type *t = node_type(g, operand);
    bool large = g->batch >= FewSamples && type_elements(g, t) * g->batch >= FewReads;
    return op_info[graph_node(g, id)->op].cls == ClassEW && node_type(g, id)->batched &&
           !t->batched && t->rank < MAX_RANK && c->stored[operand] && (large || c->small) &&
           !lies_as_samples(t, node_type(g, id));
}

static bool some_pays(const Graph *g, const Copies *c) {
    bool some = false;
    for (uint32_t id = 1; id < g->node.n; id++)
        for (uint32_t k = 0; k < graph_node(g, id)->nin && !some; k++)
            some = copy_pays(g, c, id, node_in(g, id, k));
    return some;
}

static Val copied(Rewriter *r, uint32_t operand) {
    Copies *c = r->user;
    Val x = rewritten(r, operand), copy = {&r->to, c->copy[operand]};
    const Type *t = node_type(r->from, operand);
    int64_t dim[MAX_RANK] = {1};
    memcpy(dim + 1, t->dim, t->rank * sizeof *dim);
    if (!copy.id || graph_node(r->to.g, copy.id)->block != r->to.block) // blocks may be skipped
        copy = Pin(Reshape(x, t->rank + 1u, dim));
    c->copy[operand] = copy.id;
    return Reshape(copy, t->rank, t->dim);
}

static uint32_t rewrite(Rewriter *r, uint32_t id) {
    const Graph *g = r->from;
    const Node *n = graph_node(g, id);
    uint32_t in[MAX_IN];
    bool some = false;
    for (uint32_t k = 0; k < n->nin; k++) {
        uint32_t operand = node_in(g, id, k);
        bool copy = copy_pays(g, r->user, id, operand);
        in[k] = copy ? copied(r, operand).id : rewritten(r, operand).id;
        some |= copy;
    }
    return some ? builder_add(&r->to, (Op)n->op, in, n->nin, node_attr(g, id), node_type(g, id))
                : node_copy(r, id);
}

void pass_as_samples(Arena *perm, const Module *m, Func *f, const PassOptions *o) {
    (void)m;
    Copies c = {find_stored(perm, &f->g), arena_array(perm, uint32_t, f->g.node.n),
                o->small_products};
    bool chunks = f->block_first != NULL; // equal work of two must not be merged
    if (!o->few_launches && !o->no_fuse && !chunks && some_pays(&f->g, &c))
        func_rewrite(perm, f, f->g.batch, rewrite, &c);
}
