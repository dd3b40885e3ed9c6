// op_move.c - shape rules and gradients of data movement: Reshape, Expand, Permute, Slice, Pad,
// Flip, Concat, Gather, Scatter. No arithmetic but Scatter's adding; each has its adjoint in this
// file.
#include "op.h"

// --- Reshape, Expand -----------------------------------------------------------------------------

bool infer_Reshape(Infer *q) {
    const Type *x = infer_in(q, 0);
    if (!infer_wants(q, "reshape"))
        return false;
    q->out.batched = x->batched;
    q->out.dtype = x->dtype;
    if (type_sample(x) != type_sample(&q->out))
        return infer_fail(q, "cannot reshape %s to %s: %lld elements and %lld", type_name(x).s,
                          type_name(&q->out).s, (long long)type_sample(x),
                          (long long)type_sample(&q->out));
    return true;
}

Val grad_Reshape(Val y, Val g, uint32_t k) {
    Type x = val_type(val_in(y, k));
    return Reshape(g, x.rank, x.dim);
}

bool infer_Expand(Infer *q) {
    const Type *x = infer_in(q, 0);
    if (!infer_wants(q, "expand"))
        return false;
    bool fits = x->rank <= q->out.rank && (q->out.batched || !x->batched);
    for (uint32_t i = 0; fits && i < x->rank; i++)
        fits = x->dim[i] == 1 || x->dim[i] == q->out.dim[i];
    if (!fits)
        return infer_fail(q, "cannot expand %s to %s", type_name(x).s, type_name(&q->out).s);
    q->out.dtype = x->dtype;
    return true;
}

Val grad_Expand(Val y, Val g, uint32_t k) {
    return SumTo(g, val_type(val_in(y, k)));
}

// --- Permute, Flip -------------------------------------------------------------------------------

bool infer_Permute(Infer *q) {
    const Type *x = infer_in(q, 0);
    const Attr *at = q->attr;
    uint32_t seen = 0;
    if (at->n != 1u + x->rank || at->i[0] != x->rank)
        return infer_fail(q, "a permutation of %s needs %u axes", type_name(x).s, x->rank);
    q->out = *x;
    for (uint32_t i = 0; i < x->rank; i++) {
        int64_t axis = at->i[1 + i];
        if (axis < 0 || axis >= x->rank || seen >> axis & 1)
            return infer_fail(q, "not a permutation of the %u axes of %s", x->rank, type_name(x).s);
        seen |= 1u << axis;
        q->out.dim[i] = x->dim[axis];
    }
    return true;
}

Val grad_Permute(Val y, Val g, uint32_t k) {
    Attr at = val_attr(y);
    uint32_t inverse[MAX_RANK] = {0};
    (void)k;
    for (uint32_t i = 0; i < (uint32_t)at.i[0]; i++)
        inverse[at.i[1 + i]] = i;
    return Permute(g, inverse);
}

bool infer_Flip(Infer *q) {
    const Type *x = infer_in(q, 0);
    int64_t mask = q->attr->n == 1 ? q->attr->i[0] : -1;
    q->out = *x;
    if (mask < 0 || mask & 1 || mask >> (x->rank + 1))
        return infer_fail(q, "a flip of an axis that %s does not have", type_name(x).s);
    return true;
}

Val grad_Flip(Val y, Val g, uint32_t k) {
    (void)k;
    return Flip(g, (uint32_t)val_attr(y).i[0]);
}

// --- Slice, Pad: each other's adjoints -----------------------------------------------------------

// `part` lies in `whole` at from[] with step[]; the attribute is "n from* step*".
static bool lies_in(Infer *q, const Type *part, const Type *whole, const char *verb) {
    const Attr *at = q->attr;
    uint32_t n = whole->rank;
    if (part->rank != n)
        return infer_fail(q, "cannot %s %s to %s", verb, type_name(infer_in(q, 0)).s,
                          type_name(&q->out).s);
    if (at->n != 1 + 2 * n || at->i[0] != n)
        return infer_fail(q, "%s needs a start and a step for each of %u axes", verb, n);
    for (uint32_t i = 0; i < n; i++) {
        int64_t from = at->i[1 + i], step = at->i[1 + n + i], count = part->dim[i],
                extent = whole->dim[i];
        if (step < 1 || step > extent) // longer ones would overflow strides
            return infer_fail(q, "%s with a step of %lld", verb, (long long)step);
        if (from < 0 || count < 1 || from >= extent || count - 1 > (extent - 1 - from) / step)
            return infer_fail(
                q, "%s of %s: %lld elements from %lld by %lld do not lie in %lld (axis %u)", verb,
                type_name(infer_in(q, 0)).s, (long long)count, (long long)from, (long long)step,
                (long long)extent, i);
    }
    q->out.batched = infer_in(q, 0)->batched;
    q->out.dtype = infer_in(q, 0)->dtype;
    return true;
}

bool infer_Slice(Infer *q) {
    return infer_wants(q, "slice") && lies_in(q, &q->out, infer_in(q, 0), "slice");
}

Val grad_Slice(Val y, Val g, uint32_t k) {
    Attr at = val_attr(y);
    Type x = val_type(val_in(y, k));
    return Pad(g, at.i + 1, at.i + 1 + x.rank, x.dim);
}

bool infer_Pad(Infer *q) {
    return infer_wants(q, "pad") && lies_in(q, infer_in(q, 0), &q->out, "pad");
}

Val grad_Pad(Val y, Val g, uint32_t k) {
    Attr at = val_attr(y);
    Type x = val_type(val_in(y, k));
    return Slice(g, at.i + 1, x.dim, at.i + 1 + x.rank);
}

// --- Concat --------------------------------------------------------------------------------------

bool infer_Concat(Infer *q) {
    const Type *x = infer_in(q, 0);
    int64_t axis = q->attr->n == 1 ? q->attr->i[0] : -1;
    if (axis < 0 || axis >= x->rank)
        return infer_fail(q, "cannot join along axis %lld of %s", (long long)axis, type_name(x).s);
    if (!infer_dtypes(q, 0, q->nin))
        return false;
    q->out = *x;
    for (uint32_t k = 1; k < q->nin; k++) {
        const Type *t = infer_in(q, k);
        Type alike = *t;
        if (t->rank == x->rank)
            alike.dim[axis] = x->dim[axis];
        if (!type_same_shape(&alike, x))
            return infer_fail(q, "cannot join %s and %s along axis %lld", type_name(x).s,
                              type_name(t).s, (long long)axis);
        q->out.dim[axis] += t->dim[axis];
    }
    return true;
}

Val grad_Concat(Val y, Val g, uint32_t k) {
    uint32_t axis = (uint32_t)val_attr(y).i[0];
    int64_t from[MAX_RANK] = {0};
    for (uint32_t i = 0; i < k; i++)
        from[axis] += val_type(val_in(y, i)).dim[axis];
    return Slice(g, from, val_type(val_in(y, k)).dim, NULL);
}

// --- Gather, Scatter: each other's adjoints in the first operand ---------------------------------
//
// A table [n, r...], indices [k...] and rows [k..., r...]. Rows are per-sample where the table or
// the indices are, so each is the other's adjoint; rows of all samples are added into a shared
// table. An index is a whole number in a floating-point type, so a table has at most as many rows
// as f32 can count.

// The rows of a table that indices select.
static bool rows_of(Infer *q, const Type *table, const Type *index, Type *rows) {
    uint32_t rank = index->rank + table->rank - 1u;
    if (table->rank < 1)
        return infer_fail(q, "the table %s should have rows", type_name(table).s);
    if (table->dim[0] > MOST_COUNTED)
        return infer_fail(q, "the table %s has more rows than an index can count: %d",
                          type_name(table).s, MOST_COUNTED);
    if (rank > MAX_RANK)
        return infer_fail(q, "rows of %s at indices %s would have %u axes, more than %d",
                          type_name(table).s, type_name(index).s, rank, MAX_RANK);
    *rows = *index;
    rows->dtype = table->dtype;
    rows->batched = table->batched || index->batched;
    for (uint32_t i = 1; i < table->rank; i++)
        rows->dim[rows->rank++] = table->dim[i];
    return true;
}

bool infer_Gather(Infer *q) {
    return rows_of(q, infer_in(q, 0), infer_in(q, 1), &q->out);
}

Val grad_Gather(Val y, Val g, uint32_t k) {
    return k == 0 ? Scatter(g, val_in(y, 1), val_type(val_in(y, 0))) : (Val){0};
}

bool infer_Scatter(Infer *q) {
    const Type *rows = infer_in(q, 0), *index = infer_in(q, 1);
    Type fit;
    if (!infer_wants(q, "scatter"))
        return false;
    q->out.dtype = rows->dtype;
    if (!rows_of(q, &q->out, index, &fit))
        return false;
    return type_same_shape(rows, &fit) ||
           infer_fail(q, "rows %s with indices %s do not fit the table %s", type_name(rows).s,
                      type_name(index).s, type_name(&q->out).s);
}

Val grad_Scatter(Val y, Val g, uint32_t k) {
    return k == 0 ? Gather(g, val_in(y, 1)) : (Val){0};
}
