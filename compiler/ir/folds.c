// folds.c - the FOLD rows of lang/rules.def: simplifications that no pattern can express, because
// they depend on extents or compute attributes.
//
// Each takes a Draft and returns the replacement, or 0 if it does not apply. Operands' nodes are
// inspected only through op_seen and const_seen.
#include "op.h"

#include <string.h>

#define FOLD(Name, op, accuracy) uint32_t fold_##Name(Builder *b, const Draft *d);
#include "rules.def"

static Val operand(Builder *b, const Draft *d, uint32_t k) {
    return (Val){b, d->in[k]};
}

// Operand k of the draft's first operand.
static Val inner(Builder *b, const Draft *d, uint32_t k) {
    return (Val){b, node_in(b->g, d->in[0], k)};
}

static bool same_shape_as(const Graph *g, uint32_t id, const Draft *d) {
    return type_same_shape(node_type(g, id), &d->type);
}

// --- constants and broadcasting ------------------------------------------------------------------

uint32_t fold_constants(Builder *b, const Draft *d) {
    double x[3] = {0};
    if (!op_info[d->op].fold)
        return 0;
    for (uint32_t k = 0; k < d->nin; k++)
        if (!const_seen(b, d->in[k], &x[k]))
            return 0;
    return Filled(b, op_info[d->op].fold(x[0], x[1], x[2]), d->type).id;
}

uint32_t fold_narrow_operands(Builder *b, const Draft *d) {
    uint32_t in[MAX_IN];
    bool narrower = false;
    if (!op_info[d->op].fold)
        return 0;
    for (uint32_t k = 0; k < d->nin; k++) {
        bool expanded = op_seen(b, d->in[k]) == OpExpand;
        in[k] = expanded ? node_in(b->g, d->in[k], 0) : d->in[k];
        narrower |= expanded;
    }
    return narrower ? builder_add(b, d->op, in, d->nin, &d->attr, &d->type) : 0;
}

uint32_t fold_moved_constant(Builder *b, const Draft *d) {
    double first, x;
    if (op_info[d->op].cls != ClassMOVE || d->op == OpExpand || d->op == OpPad)
        return 0;
    if (!const_seen(b, d->in[0], &first) || (d->op == OpReshape && op_seen(b, d->in[0]) == OpConst))
        return 0;
    for (uint32_t k = 1; d->op == OpConcat && k < d->nin; k++)
        if (!const_seen(b, d->in[k], &x) || x != first)
            return 0;
    return Filled(b, first, d->type).id;
}

uint32_t fold_cast_same(Builder *b, const Draft *d) {
    return node_type(b->g, d->in[0])->dtype == d->type.dtype ? d->in[0] : 0;
}

// --- products ------------------------------------------------------------------------------------

// The result stays per-sample by its other factor. What a sum over the batch is made of stays, too.
uint32_t fold_shared_factor(Builder *b, const Draft *d) {
    if (op_info[d->op].cls != ClassANCHOR || d->nin != 2 || !d->type.batched)
        return 0;
    for (uint32_t k = 0; k < 2 && op_is(d->op, TraitBilinear); k++) {
        if (op_seen(b, d->in[k]) != OpExpand || !node_type(b->g, d->in[1 - k])->batched)
            continue;
        Val from = {b, node_in(b->g, d->in[k], 0)};
        Type to = *node_type(b->g, d->in[k]);
        if (!to.batched || val_type(from).batched)
            continue;
        to.batched = false;
        uint32_t in[2] = {d->in[0], d->in[1]};
        in[k] = Expand(from, to).id;
        return builder_add(b, d->op, in, 2, &d->attr, &d->type);
    }
    return 0;
}

// --- reductions ----------------------------------------------------------------------------------

// Those of the masked axes along which `t` has more than one element.
static uint32_t axes_of(const Type *t, uint32_t mask) {
    uint32_t axes = t->batched ? mask & 1 : 0;
    for (uint32_t i = 0; i < t->rank; i++)
        if (t->dim[i] > 1)
            axes |= mask & 2u << i;
    return axes;
}

static uint32_t mask_of(const Draft *d) {
    return (uint32_t)d->attr.i[0];
}

uint32_t fold_sum_of_nothing(Builder *b, const Draft *d) {
    uint32_t mask = mask_of(d), axes = axes_of(node_type(b->g, d->in[0]), mask);
    if (axes == mask)
        return 0;
    return axes ? Sum(operand(b, d, 0), axes).id : d->in[0];
}

uint32_t fold_sum_of_expand(Builder *b, const Draft *d) {
    if (op_seen(b, d->in[0]) != OpExpand)
        return 0;
    Val z = inner(b, d, 0);
    Type from = val_type(z), to = *node_type(b->g, d->in[0]);
    uint32_t mask = mask_of(d), kept = axes_of(&from, mask), equal = mask & ~kept;
    if (!equal)
        return 0;
    double n = equal & 1 ? (double)b->g->batch : 1;
    to.batched = to.batched && !(equal & 1);
    for (uint32_t i = 0; i < to.rank; i++) {
        if (!(equal >> (1 + i) & 1))
            continue;
        n *= (double)to.dim[i];
        to.dim[i] = 1;
    }
    Val sum = Expand(z, to);
    if (kept)
        sum = Sum(sum, kept);
    return Mul(sum, Num(sum, n)).id;
}

uint32_t fold_sum_of_sum(Builder *b, const Draft *d) {
    if (op_seen(b, d->in[0]) != OpSum)
        return 0;
    return Sum(inner(b, d, 0), node_axes(b->g, d->in[0]) | mask_of(d)).id;
}

uint32_t fold_sum_of_scaled(Builder *b, const Draft *d) {
    Op op = op_seen(b, d->in[0]);
    uint32_t mask = mask_of(d);
    if (op != OpMul && op != OpDiv)
        return 0;
    Val x = inner(b, d, 0), by = inner(b, d, 1);
    if (!axes_of(node_type(b->g, by.id), mask))
        return op == OpMul ? Mul(Sum(x, mask), by).id : Div(Sum(x, mask), by).id;
    if (op == OpMul && !axes_of(node_type(b->g, x.id), mask))
        return Mul(x, Sum(by, mask)).id;
    return 0;
}

uint32_t fold_group_of_one(Builder *b, const Draft *d) {
    (void)b;
    return d->attr.i[0] == 1 ? d->in[0] : 0;
}

uint32_t fold_max_of_nothing(Builder *b, const Draft *d) {
    return axes_of(node_type(b->g, d->in[0]), mask_of(d)) ? 0 : d->in[0];
}

// --- movement ------------------------------------------------------------------------------------

uint32_t fold_reshape_same(Builder *b, const Draft *d) {
    return same_shape_as(b->g, d->in[0], d) ? d->in[0] : 0;
}

uint32_t fold_reshape_of_ones(Builder *b, const Draft *d) {
    if (op_seen(b, d->in[0]) != OpExpand)
        return 0;
    Val z = inner(b, d, 0);
    Type from = val_type(z);
    if (from.batched != d->type.batched || type_sample(&from) != type_sample(&d->type))
        return 0;
    return Reshape(z, d->type.rank, d->type.dim).id;
}

uint32_t fold_reshape_adds_ones(Builder *b, const Draft *d) {
    Type from = *node_type(b->g, d->in[0]);
    if (from.rank >= d->type.rank)
        return 0;
    for (uint32_t i = 0; i < from.rank; i++)
        if (from.dim[i] != d->type.dim[i])
            return 0;
    return Expand(operand(b, d, 0), d->type).id;
}

uint32_t fold_expand_same(Builder *b, const Draft *d) {
    return same_shape_as(b->g, d->in[0], d) ? d->in[0] : 0;
}

uint32_t fold_permute_permute(Builder *b, const Draft *d) {
    if (op_seen(b, d->in[0]) != OpPermute)
        return 0;
    Attr before = *node_attr(b->g, d->in[0]);
    uint32_t axis[MAX_RANK];
    for (uint32_t i = 0; i < d->type.rank; i++)
        axis[i] = (uint32_t)before.i[1 + d->attr.i[1 + i]];
    return Permute(inner(b, d, 0), axis).id;
}

uint32_t fold_permute_same(Builder *b, const Draft *d) {
    (void)b;
    for (uint32_t i = 0; i < d->type.rank; i++)
        if (d->attr.i[1 + i] != i)
            return 0;
    return d->in[0];
}

uint32_t fold_flip_flip(Builder *b, const Draft *d) {
    if (op_seen(b, d->in[0]) != OpFlip)
        return 0;
    return Flip(inner(b, d, 0), node_axes(b->g, d->in[0]) ^ mask_of(d)).id;
}

uint32_t fold_flip_same(Builder *b, const Draft *d) {
    uint32_t axes = axes_of(node_type(b->g, d->in[0]), mask_of(d));
    if (axes == mask_of(d) && axes)
        return 0;
    return axes ? Flip(operand(b, d, 0), axes).id : d->in[0];
}

uint32_t fold_slice_same(Builder *b, const Draft *d) {
    return same_shape_as(b->g, d->in[0], d) ? d->in[0] : 0;
}

uint32_t fold_slice_of_concat(Builder *b, const Draft *d) {
    if (op_seen(b, d->in[0]) != OpConcat)
        return 0;
    uint32_t axis = (uint32_t)node_attr(b->g, d->in[0])->i[0], n = d->type.rank,
             parts = graph_node(b->g, d->in[0])->nin;
    int64_t from[MAX_RANK], step[MAX_RANK];
    for (uint32_t i = 0; i < n; i++) {
        from[i] = d->attr.i[1 + i];
        step[i] = d->attr.i[1 + n + i];
    }
    for (uint32_t k = 0; k < parts; k++) {
        Val part = inner(b, d, k);
        int64_t extent = val_type(part).dim[axis];
        if (from[axis] < extent) {
            int64_t last = from[axis] + (d->type.dim[axis] - 1) * step[axis];
            return last < extent ? Slice(part, from, d->type.dim, step).id : 0;
        }
        from[axis] -= extent;
    }
    return 0;
}

uint32_t fold_pad_same(Builder *b, const Draft *d) {
    return same_shape_as(b->g, d->in[0], d) ? d->in[0] : 0;
}

uint32_t fold_concat_one(Builder *b, const Draft *d) {
    (void)b;
    return d->nin == 1 ? d->in[0] : 0;
}

// --- permuted operands ---------------------------------------------------------------------------

// A type as it is in front of permutation `p`.
static Type type_before(const Attr *p, Type t) {
    Type before = t;
    for (uint32_t i = 0; i < t.rank; i++)
        before.dim[p->i[1 + i]] = t.dim[i];
    return before;
}

// An operand as it is in front of permutation `p`; 0: it is no such thing.
static uint32_t operand_before(Builder *b, const Attr *p, uint32_t id) {
    const Type *t = node_type(b->g, id);
    double x;
    if (op_seen(b, id) == OpPermute &&
        memcmp(node_attr(b->g, id)->i, p->i, p->n * sizeof *p->i) == 0)
        return node_in(b->g, id, 0);
    if (type_sample(t) == 1)
        return id;
    return const_seen(b, id, &x) ? Filled(b, x, type_before(p, *t)).id : 0;
}

// The attribute of a move of the axes in front of permutation `p`.
static Attr attr_before(const Attr *p, const Draft *d) {
    Attr at = d->attr;
    uint32_t n = d->type.rank;
    if (d->op == OpConcat)
        at.i[0] = p->i[1 + d->attr.i[0]];
    if (d->op == OpFlip)
        at.i[0] = 0;
    for (uint32_t i = 0; i < n; i++) {
        if (d->op == OpFlip)
            at.i[0] |= (d->attr.i[0] >> (1 + i) & 1) << (1 + p->i[1 + i]);
        for (uint32_t k = 0; k < 2 && (d->op == OpSlice || d->op == OpPad); k++)
            at.i[1 + k * n + p->i[1 + i]] = d->attr.i[1 + k * n + i];
    }
    return at;
}

uint32_t fold_permuted_operands(Builder *b, const Draft *d) {
    bool moves = d->op == OpSlice || d->op == OpPad || d->op == OpConcat || d->op == OpFlip;
    uint32_t in[MAX_IN], axis[MAX_RANK], first = 0;
    if (!moves && !op_info[d->op].fold)
        return 0;
    while (first < d->nin && op_seen(b, d->in[first]) != OpPermute)
        first++;
    if (first == d->nin)
        return 0;
    Attr p = *node_attr(b->g, d->in[first]);
    if (d->type.rank != p.i[0]) // another operand has more axes
        return 0;
    for (uint32_t k = 0; k < d->nin; k++)
        if (!(in[k] = operand_before(b, &p, d->in[k])))
            return 0;
    for (uint32_t i = 0; i < d->type.rank; i++)
        axis[i] = (uint32_t)p.i[1 + i];
    Attr at = attr_before(&p, d);
    Type type = type_before(&p, d->type);
    return Permute((Val){b, builder_add(b, d->op, in, d->nin, &at, &type)}, axis).id;
}
