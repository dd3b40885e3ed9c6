// mask.c - lets gradients read the sign of an activation's output instead of its input, so that
// the input need not stay live until the backward pass.
//
// In: a function without Grad, Pin or Stop. Out: the same values. It applies where
//     y = where(x > 0, x, slope*x or 0), slope >= 0, or where(x <= 0, ..., x)
// and x is the result of a convolution or product, with no other user, to which only shared values
// were added or multiplied. Users of the sign of x other than y then read the sign of y. The two
// are equal, NaN included; but where y is stored as a 16-bit float (pass/dtype.c), an x too small
// for it, of (0, 2^-25] in f16, has the mask of the stored value, 0. The live range of x now ends
// where y is computed: this halves what a net without norms stores for its backward pass, and the
// library may fuse the activation into the convolution (ir/epilogue.c). After a norm, x can be
// recomputed from values that are stored anyway, and y would be one more value to read.
#include "pass.h"

// How often live nodes read each node.
static uint32_t *reads_of(Arena *a, const Func *f) {
    const Graph *g = &f->g;
    const uint8_t *live = func_live(a, f);
    uint32_t *reads = arena_array(a, uint32_t, g->node.n);
    for (uint32_t id = 1; id < g->node.n; id++)
        for (uint32_t k = 0; live[id] && k < graph_node(g, id)->nin; k++)
            reads[node_in(g, id, k)]++;
    return reads;
}

// Is `id` slope*x with a slope that keeps the sign, or a number that is not positive?
static bool keeps_sign(const Graph *g, uint32_t id, uint32_t x) {
    double c;
    if (node_is_const(g, id, &c))
        return c <= 0;
    for (uint32_t k = 0; graph_node(g, id)->op == OpMul && k < 2; k++)
        if (node_in(g, id, k) == x && node_is_const(g, node_in(g, id, 1 - k), &c))
            return c >= 0;
    return false;
}

// From x down to the result of a convolution or product, each value on the way read once.
static bool ends_with(const Graph *g, const uint32_t *reads, uint32_t x) {
    while (op_info[graph_node(g, x)->op].cls != ClassANCHOR) {
        uint32_t next = 0, nin = graph_node(g, x)->nin;
        if (op_info[graph_node(g, x)->op].cls != ClassEW)
            return false;
        for (uint32_t k = 0; k < nin; k++) {
            uint32_t in = node_in(g, x, k);
            if (!node_type(g, in)->batched)
                continue;
            if (next || reads[in] != 1)
                return false;
            next = in;
        }
        if (!next)
            return false;
        x = next;
    }
    return true;
}

static bool is_activation(const Graph *g, const uint32_t *reads, uint32_t y) {
    SignSelect s;
    if (!node_type(g, y)->batched || !node_selects_by_sign(g, y, &s))
        return false;
    bool scaled = graph_node(g, s.below)->op == OpMul;
    return reads[s.compare] > 1 && keeps_sign(g, s.below, s.x) && reads[s.x] == (scaled ? 3 : 2) &&
           ends_with(g, reads, s.x);
}

// The comparison `old` of an activation's input, made with its output y instead.
static uint32_t compare_output(Rewriter *r, uint32_t old, Val y) {
    bool above = graph_node(r->from, old)->op == OpGt;
    Val zero = rewritten_in(r, old, above);
    return above ? Gt(y, zero).id : Ge(zero, y).id;
}

static uint32_t read_output(Rewriter *r, uint32_t id) {
    const uint32_t *output =
        r->user; // [old node] of a comparison of x with 0: the y it selects; else 0
    const Graph *from = r->from;
    const Node *n = graph_node(from, id);
    uint32_t in[MAX_IN];
    bool changes = false;
    for (uint32_t k = 0; k < n->nin; k++) {
        uint32_t old = node_in(from, id, k), y = output[old];
        bool known = y && y < id &&
                     block_dominates(r->to.scope_end, graph_node(from, y)->block, r->to.block);
        in[k] = known ? compare_output(r, old, rewritten(r, y)) : r->map[old];
        changes |= known;
    }
    if (!changes)
        return node_copy(r, id);
    return builder_add(&r->to, (Op)n->op, in, n->nin, node_attr(from, id), node_type(from, id));
}

void pass_mask(Arena *perm, const Module *m, Func *f, const PassOptions *o) {
    (void)m, (void)o;
    const uint32_t *reads = reads_of(perm, f);
    uint32_t *output = arena_array(perm, uint32_t, f->g.node.n);
    bool any = false;
    for (uint32_t id = 1; id < f->g.node.n; id++)
        if (reads[id] && is_activation(&f->g, reads, id)) {
            output[node_in(&f->g, id, 0)] = id;
            any = true;
        }
    if (any)
        func_rewrite(perm, f, f->g.batch, read_output, output);
}
