// roles.c - what a node is to kernels: a view, arithmetic, or the end of a loop; the space it is
// computed over; whose memory holds it.
//
// Asked by passes, fusion and kernel generation, so that they agree.
#include "index.h"

enum { ShortTerms = 8 }; // a sum of this many terms is written out

bool node_is_view(const Graph *g, uint32_t id) {
    Op op = (Op)g->node.at[id].op;
    return op_info[op].cls == ClassMOVE && !op_is(op, TraitIndexed);
}

int64_t node_terms(const Graph *g, uint32_t id) {
    const Type *t = node_type(g, node_in(g, id, 0));
    uint32_t axes = node_axes(g, id);
    int64_t n = axes & 1 && t->batched ? g->batch : 1;
    for (uint32_t i = 0; i < t->rank; i++)
        n *= axes >> (1 + i) & 1 ? t->dim[i] : 1;
    return n;
}

bool node_is_short(const Graph *g, uint32_t id) {
    Op op = (Op)g->node.at[id].op;
    return (op == OpSum || op == OpMaxOf) && node_terms(g, id) <= ShortTerms;
}

bool node_ends_loop(const Graph *g, uint32_t id) {
    return node_class(g, id) == ClassREDUCE && !node_is_short(g, id);
}

const Type *node_space(const Graph *g, uint32_t id) {
    bool of_operand = node_ends_loop(g, id) || g->node.at[id].op == OpWrite;
    return node_type(g, of_operand ? node_in(g, id, 0) : id);
}

// The axes of a loop over its operand that a reduction does not keep.
static uint32_t summed_axes(const Graph *g, uint32_t id) {
    Op op = (Op)g->node.at[id].op;
    if (op == OpGroupSum)
        return 1;
    if (op != OpScatter)
        return node_axes(g, id);
    uint32_t places = node_type(g, node_in(g, id, 1))->rank;
    return ((1u << places) - 1) << 1 | !node_type(g, id)->batched;
}

uint32_t node_reduced(const Graph *g, uint32_t id) {
    const Type *t = node_space(g, id);
    uint32_t axes = summed_axes(g, id);
    uint32_t present = t->batched && g->batch > 1;
    for (uint32_t i = 0; i < t->rank; i++)
        present |= (uint32_t)(t->dim[i] > 1) << (1 + i);
    return axes & present;
}

uint32_t node_operand(const Graph *g, uint32_t id, uint32_t k) {
    if (!op_is((Op)g->node.at[id].op, TraitCommutes))
        return node_in(g, id, k);
    uint32_t a = node_in(g, id, 0), b = node_in(g, id, 1);
    bool swap = type_elements(g, node_type(g, b)) > type_elements(g, node_type(g, a));
    return k == (uint32_t)swap ? a : b;
}

uint32_t node_storage(const Graph *g, uint32_t id, Arena scratch) {
    while (g->node.at[id].op == OpReshape || g->node.at[id].op == OpExpand) {
        uint32_t from = node_in(g, id, 0);
        const Type *t = node_type(g, id), *s = node_type(g, from);
        Indices ix;
        Coords at, source;
        Bounds none = {0};
        indices_init(&ix, &scratch);
        coords_identity(&ix, g, t, &at);
        coords_move(&ix, g, id, 0, &at, &source, &none);
        if (type_elements(g, t) != type_elements(g, s) || g->node.at[from].op == OpConst ||
            coords_address(&ix, t, &at) != coords_address(&ix, s, &source))
            break;
        id = from;
    }
    return id;
}
