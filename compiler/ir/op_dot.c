// op_dot.c - Dot: the product of two operands summed over the axes they share, an einsum of two.
//
// Every axis carries a label, the batch axis label 0. An axis whose label is in both operands and
// not in the result is contracted. An operand's label must appear in the other operand or in the
// result (else it is a plain sum, which Sum does), and at most once per operand: so the gradients
// are Dots again.
#include "op.h"

typedef struct DotAxes {
    uint32_t n[3]; // axes of a, b and the result
    uint8_t label[3][MAX_RANK];
} DotAxes;

static bool read_axes(const Attr *attr, DotAxes *out) {
    uint32_t at = 0;
    for (uint32_t s = 0; s < 3; s++) {
        if (at >= attr->n || attr->i[at] < 0 || attr->i[at] > MAX_RANK)
            return false;
        out->n[s] = (uint32_t)attr->i[at++];
        for (uint32_t i = 0; i < out->n[s]; i++, at++) {
            if (at >= attr->n || attr->i[at] < 1 || attr->i[at] > UINT8_MAX)
                return false;
            out->label[s][i] = (uint8_t)attr->i[at];
        }
    }
    return at == attr->n;
}

static uint32_t find(const DotAxes *x, uint32_t s, uint8_t label) {
    uint32_t i = 0;
    while (i < x->n[s] && x->label[s][i] != label)
        i++;
    return i;
}

static bool has(const DotAxes *x, uint32_t s, uint8_t label) {
    return find(x, s, label) < x->n[s];
}

// Labels of operand s: known elsewhere, once each, equal extents.
static bool labels_fit(Infer *q, const DotAxes *x, uint32_t s) {
    const Type *t = infer_in(q, s), *other = infer_in(q, 1 - s);
    if (x->n[s] != t->rank)
        return infer_fail(q, "%u labels for the %u axes of %s", x->n[s], t->rank, type_name(t).s);
    for (uint32_t i = 0; i < t->rank; i++) {
        uint8_t label = x->label[s][i];
        uint32_t j = find(x, 1 - s, label);
        if (find(x, s, label) != i)
            return infer_fail(q, "a label appears twice on %s: a diagonal is not supported",
                              type_name(t).s);
        if (j == x->n[1 - s] && !has(x, 2, label))
            return infer_fail(q, "axis %u of %s is in neither the other operand nor the result", i,
                              type_name(t).s);
        if (j < x->n[1 - s] && j < other->rank && other->dim[j] != t->dim[i])
            return infer_fail(q, "extents clash: axis %u of %s is %lld, axis %u of %s is %lld", i,
                              type_name(t).s, (long long)t->dim[i], j, type_name(other).s,
                              (long long)other->dim[j]);
    }
    return true;
}

bool infer_Dot(Infer *q) {
    DotAxes x;
    const Type *a = infer_in(q, 0), *b = infer_in(q, 1);
    if (!read_axes(q->attr, &x))
        return infer_fail(q, "dot: the labels are not three lists");
    if (!infer_dtypes(q, 0, 2) || !labels_fit(q, &x, 0) || !labels_fit(q, &x, 1))
        return false;
    bool batched = q->out.rank == TYPE_UNSTATED ? a->batched || b->batched : q->out.batched;
    if (batched && !a->batched && !b->batched)
        return infer_fail(q, "%s and %s are shared, their product is too", type_name(a).s,
                          type_name(b).s);
    if (!batched && a->batched != b->batched)
        return infer_fail(q, "only one of %s and %s has a batch to contract", type_name(a).s,
                          type_name(b).s);
    Type out = {.dtype = infer_product(q, a->dtype), .rank = (uint8_t)x.n[2], .batched = batched};
    for (uint32_t i = 0; i < x.n[2]; i++) {
        uint8_t label = x.label[2][i];
        if (find(&x, 2, label) != i)
            return infer_fail(q, "a label appears twice in the result");
        uint32_t s = has(&x, 0, label) ? 0 : 1;
        if (!has(&x, s, label))
            return infer_fail(q, "axis %u of the result is in neither operand", i);
        out.dim[i] = infer_in(q, s)->dim[find(&x, s, label)];
    }
    q->out = out;
    return true;
}

Val grad_Dot(Val y, Val g, uint32_t k) {
    DotAxes x;
    Attr attr = val_attr(y);
    if (!read_axes(&attr, &x))
        bug("dot %u has no labels", y.id);
    Val to = val_in(y, k), other = val_in(y, 1 - k);
    return Dot(g, x.label[2], other, x.label[1 - k], x.label[k], x.n[k], val_type(to).batched);
}
