// op_order.c - ArgSort and Arrange: the indices that sort each row, and rows in that order.
//
// Operands are [n] or [l, n], per-sample or shared: rows (lines), each sorted on its own. The
// indices are a value, so a row is sorted once for all that is put in its order, gradients
// included. They are whole numbers and locally constant.
#include "op.h"

OrderLines order_lines(const Graph *g, const Type *t) {
    int64_t n = t->dim[t->rank - 1];
    // Of three axes, the batch counted, the second is the innermost (type_strides).
    int64_t step = t->batched && t->rank == 2 ? t->dim[0] : 1;
    return (OrderLines){n, n ? type_elements(g, t) / n : 0, step};
}

static bool infer_lines(Infer *q, const char *what) {
    const Type *x = infer_in(q, 0);
    if (x->rank < 1 || x->rank > 2)
        return infer_fail(q, "%s is along rows [n] or [l, n], not of %s", what, type_name(x).s);
    if (dtype_is_half((Dtype)x->dtype))
        return infer_fail(q, "%s is of f32 or f64, not %s", what, dtype_name[x->dtype]);
    if (x->dim[x->rank - 1] > MOST_COUNTED)
        return infer_fail(q, "%s takes up to %d numbers a row, not %s", what, MOST_COUNTED,
                          type_name(x).s);
    q->out = *x;
    return true;
}

bool infer_ArgSort(Infer *q) {
    return infer_lines(q, "a sort");
}

Val grad_ArgSort(Val y, Val g, uint32_t k) {
    (void)y, (void)g, (void)k;
    return (Val){0};
}

bool infer_Arrange(Infer *q) {
    const Type *x = infer_in(q, 0), *index = infer_in(q, 1);
    if (q->attr->n != 1 || q->attr->i[0] < 0 || q->attr->i[0] > 1)
        return infer_fail(q, "arrange: `back` is 0 or 1");
    if (!type_same_shape(x, index))
        return infer_fail(q, "%s cannot be arranged by indices %s: their shapes differ",
                          type_name(x).s, type_name(index).s);
    return infer_lines(q, "a sort");
}

Val grad_Arrange(Val y, Val g, uint32_t k) {
    return k ? (Val){0} : Arrange(g, val_in(y, 1), !val_attr(y).i[0]);
}
