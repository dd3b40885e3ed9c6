// dtype.c - mixed precision: decides the dtype of every value and inserts casts.
//
// In: a function in one precision, without Grad, Pin or Stop. Out: the same function in the
// requested precision, which slots have already (plan/slots.c).
//
//   f64, f32   every value has it.
//   bf16, f16  arithmetic stays in f32, and four rules decide what is stored in 16 bits:
//              1. Large products (Conv, ConvDx, ConvDw, Dot with a per-sample operand) read 16-bit
//                 operands. Their per-sample results are stored in 16 bits; weight gradients, which
//                 they sum over the batch, in f32. (With half_grads those are rounded as well.)
//              2. A per-sample value of two axes or more that such a product reads is stored in 16
//                 bits for all its readers, so that it is stored once. (Their casts back fuse.)
//              3. Everything else stays f32: weights, data, random draws, shared values,
//                 reductions, losses, optimizers, and products with few elements per sample, where
//                 rounding would show and no time is gained.
//              4. Indices (TraitIndexed), and what they are computed from, stay f32: bf16 has exact
//                 integers up to 256 only.
//              Where no library multiplies f16 (wide_f16), products read and return f32 values that
//              were rounded to f16.
#include "pass.h"

enum { SMALL_PRODUCT = 64 }; // elements per sample below which a product stays f32 (Policy.least)

typedef struct Policy {
    uint8_t half; // BF16 or F16; 0: no product is narrowed
    bool half_grads, wide;
    uint8_t real;  // F64 or F32
    int64_t least; // elements per sample of a narrowed product and of its operands, at least
    uint8_t *kept; // [old nodes] rule 2
} Policy;

static bool is_large(const Policy *p, const Type *t) {
    return type_sample(t) >= p->least;
}

// Rule 1. Is node `id` one of the products whose operands are narrowed?
static bool is_narrow(const Policy *p, const Graph *g, uint32_t id) {
    if (node_family(g, id) != FamilyProduct)
        return false;
    const Type *a = node_type(g, node_in(g, id, 0)), *b = node_type(g, node_in(g, id, 1));
    return (a->batched || b->batched) && is_large(p, a) && is_large(p, b) &&
           is_large(p, node_type(g, id));
}

static void mark_kept(const Policy *p, const Graph *g) {
    for (uint32_t id = 1; id < g->node.n; id++) {
        for (uint32_t k = 0; k < graph_node(g, id)->nin && is_narrow(p, g, id); k++) {
            uint32_t in = node_in(g, id, k);
            const Type *t = node_type(g, in);
            OpClass cls = (OpClass)op_info[graph_node(g, in)->op].cls;
            p->kept[in] = t->batched && t->rank >= 2 && (cls == ClassEW || cls == ClassMOVE);
        }
    }
}

// Rule 4: indices, and what they are computed from by elementwise operations and moves, of which
// those by an index are of other classes, too.
static void mark_places(Arena scratch, const Graph *g, uint8_t *kept) {
    uint8_t *place = arena_array(&scratch, uint8_t, g->node.n);
    for (uint32_t id = g->node.n; id-- > 1;) { // users come first
        const Node *n = graph_node(g, id);
        OpClass cls = (OpClass)op_info[n->op].cls;
        bool moves = cls == ClassEW || cls == ClassMOVE || op_is((Op)n->op, TraitIndexed);
        for (uint32_t k = 0; k < n->nin && place[id] && moves; k++)
            place[node_in(g, id, k)] = 1;
        if (op_is((Op)n->op, TraitIndexed))
            place[node_in(g, id, 1)] = 1;
        if (place[id])
            kept[id] = 0;
    }
}

static uint32_t cast(Builder *to, uint32_t id, uint8_t dtype);

// Is it a stack of values of a lower rank (join_dots.c), which other products read as well?
static bool is_stack(const Graph *g, uint32_t id) {
    bool stack = graph_node(g, id)->op == OpConcat;
    for (uint32_t k = 0; k < graph_node(g, id)->nin && stack; k++)
        stack = graph_node(g, node_in(g, id, k))->op == OpExpand;
    return stack;
}

static uint32_t concat_of_casts(Builder *to, uint32_t id, uint8_t dtype) {
    uint32_t in[MAX_IN], n = graph_node(to->g, id)->nin;
    for (uint32_t k = 0; k < n; k++)
        in[k] = cast(to, node_in(to->g, id, k), dtype);
    Attr at = *node_attr(to->g, id);
    return builder_add(to, OpConcat, in, n, &at, NULL);
}

// `id` in another precision. Widening and narrowing again changes nothing, so a cast that did the
// one is looked through.
static uint32_t cast(Builder *to, uint32_t id, uint8_t dtype) {
    const Graph *g = to->g;
    Type want = *node_type(g, id);
    if (want.dtype == dtype)
        return id;
    Op op = (Op)graph_node(g, id)->op;
    if (op == OpCast && node_type(g, node_in(g, id, 0))->dtype == dtype)
        return node_in(g, id, 0);
    if (op == OpExpand) // casts are kept below it
        return Expand((Val){to, cast(to, node_in(g, id, 0), dtype)}, want).id;
    if (is_stack(g, id) && dtype_is_half((Dtype)dtype))
        return concat_of_casts(to, id, dtype);
    want.dtype = dtype;
    return builder_add(to, OpCast, &id, 1, NULL, &want);
}

static uint32_t rounded(Builder *to, uint32_t id, uint8_t dtype) {
    Type wide = *node_type(to->g, id);
    uint32_t half = cast(to, id, dtype);
    return builder_add(to, OpCast, &half, 1, NULL, &wide);
}

static uint32_t narrow_product(const Policy *p, Rewriter *r, uint32_t id) {
    Builder *to = &r->to;
    const Graph *from = r->from;
    uint32_t in[2];
    Type want = *node_type(from, id);
    for (uint32_t k = 0; k < 2; k++) {
        uint32_t operand = rewritten_in(r, id, k).id;
        in[k] = p->wide ? rounded(to, operand, p->half) : cast(to, operand, p->half);
    }
    bool narrow = want.batched || p->half_grads;
    want.dtype = narrow && !p->wide ? p->half : DtF32;
    uint32_t made =
        builder_add(to, (Op)graph_node(from, id)->op, in, 2, node_attr(from, id), &want);
    return narrow && p->wide ? rounded(to, made, p->half) : cast(to, made, DtF32);
}

static uint32_t in_precision(Rewriter *r, uint32_t id) {
    const Policy *p = r->user;
    const Graph *from = r->from;
    const Node *n = graph_node(from, id);
    if (n->op == OpCast) // of another policy
        return rewritten_in(r, id, 0).id;
    if (p->half && is_narrow(p, from, id))
        return narrow_product(p, r, id);
    uint32_t in[MAX_IN];
    for (uint32_t k = 0; k < n->nin; k++)
        in[k] = rewritten_in(r, id, k).id;
    Type want = *node_type(from, id);
    want.dtype = p->real;
    uint32_t made = builder_add(&r->to, (Op)n->op, in, n->nin, node_attr(from, id), &want);
    return p->kept[id] ? rounded(&r->to, made, p->half) : made;
}

// Does every value have the precision already? Models are elaborated in f32.
static bool has_precision(const Policy *p, const Graph *g) {
    bool same = !p->half;
    for (uint32_t id = 1; id < g->node.n && same; id++)
        same = node_type(g, id)->dtype == p->real && graph_node(g, id)->op != OpCast;
    return same;
}

void pass_dtype(Arena *perm, const Module *m, Func *f, const PassOptions *o) {
    (void)m;
    Policy p = {.half = dtype_is_half(o->real) ? (uint8_t)o->real : 0,
                .half_grads = o->half_grads,
                .wide = o->real == DtF16 && o->wide_f16,
                .real = o->real == DtF64 ? DtF64 : DtF32,
                .least = o->small_products ? 1 : SMALL_PRODUCT};
    if (has_precision(&p, &f->g))
        return;
    p.kept = arena_array(perm, uint8_t, f->g.node.n);
    if (p.half) {
        mark_kept(&p, &f->g);
        mark_places(*perm, &f->g, p.kept);
    }
    func_rewrite(perm, f, f->g.batch, in_precision, &p);
}
