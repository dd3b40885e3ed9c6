// op_reduce.c - shape rules and gradients of the reductions: Sum, GroupSum, Squares, MaxOf,
// ArgMax.
//
// Axes are a mask: bit 0 the batch, bit 1 + i sample axis i. Reduced axes keep extent 1; a type
// whose batch was summed is shared. Summing an axis that is not there (the batch of a shared value)
// is nothing, so that a mask may be computed from a broadcast result.
#include "op.h"

static bool infer_axes(Infer *q, const char *name, bool batch) {
    const Type *x = infer_in(q, 0);
    int64_t mask = q->attr->n == 1 ? q->attr->i[0] : -1;
    q->out = *x;
    if (mask < 0 || mask >> (x->rank + 1))
        return infer_fail(q, "%s over an axis that %s does not have", name, type_name(x).s);
    if (mask & 1) {
        if (!batch)
            return infer_fail(q, "%s cannot go over the batch", name);
        q->out.batched = false;
    }
    for (uint32_t i = 0; i < x->rank; i++)
        if (mask >> (1 + i) & 1)
            q->out.dim[i] = 1;
    return true;
}

bool infer_Sum(Infer *q) {
    return infer_axes(q, "a sum", true);
}

Val grad_Sum(Val y, Val g, uint32_t k) {
    return Expand(g, val_type(val_in(y, k)));
}

bool infer_GroupSum(Infer *q) {
    const Type *x = infer_in(q, 0);
    long long group = q->attr->n == 1 ? (long long)q->attr->i[0] : 0;
    q->out = *x;
    if (!x->batched)
        return infer_fail(q, "%s is shared, it has no groups of samples", type_name(x).s);
    if (group < 1 || q->g->batch % group)
        return infer_fail(q, "groups of %lld samples do not divide a batch of %lld", group,
                          (long long)q->g->batch);
    return true;
}

Val grad_GroupSum(Val y, Val g, uint32_t k) {
    (void)k;
    return GroupSum(g, val_attr(y).i[0]);
}

bool infer_Squares(Infer *q) {
    return infer_axes(q, "a sum of squares", true);
}

// 2 (x - m): that the mean moves too changes nothing, for squares are least about it.
Val grad_Squares(Val y, Val g, uint32_t k) {
    Val x = val_in(y, k);
    Type all = val_type(x), one = val_type(y);
    double n = (double)type_elements(x.b->g, &all) / (double)type_elements(x.b->g, &one);
    Val sum = Sum(x, (uint32_t)val_attr(y).i[0]), mean = Mul(sum, Num(sum, 1 / n));
    return Mul(Mul(g, Num(g, 2)), Sub(x, mean));
}

bool infer_MaxOf(Infer *q) {
    return infer_axes(q, "a maximum", false) && // its gradient takes the index
           infer_counts(q, "a maximum", infer_in(q, 0), q->attr->i[0]);
}

// All of it goes to the first greatest element.
Val grad_MaxOf(Val y, Val g, uint32_t k) {
    Val x = val_in(y, k);
    uint32_t axes = (uint32_t)val_attr(y).i[0];
    Val first = Eq(Iota(x.b, axes, val_type(x)), ArgMax(x, axes));
    return Where(first, g, Num(g, 0));
}

bool infer_ArgMax(Infer *q) {
    return infer_axes(q, "arg_max", false) &&
           infer_counts(q, "arg_max", infer_in(q, 0), q->attr->i[0]);
}

Val grad_ArgMax(Val y, Val g, uint32_t k) {
    (void)y, (void)g, (void)k;
    return (Val){0};
}
