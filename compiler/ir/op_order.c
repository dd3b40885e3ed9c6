// op_order.c - ArgSort and Arrange: the indices that sort each row, and rows in that order.
//
// Operands are [n] or [l, n], per-sample or shared: rows (lines), each sorted on its own. The
// indices are a value, so a row is sorted once for all that is put in its order, gradients
// included. They are whole numbers and locally constant. Of a row's order the last k may be all
// that is wanted (topk): then there are k indices, and what Arrange moves back leaves zeros
// elsewhere.
#include "op.h"

OrderLines order_lines(const Graph *g, uint32_t id) {
    bool back = graph_node(g, id)->op == OpArrange && node_attr(g, id)->i[0];
    const Type *in = node_type(g, node_in(g, id, 0)), *out = node_type(g, id);
    const Type *t = back ? out : in, *part = back ? in : out;
    int64_t n = t->dim[t->rank - 1];
    // Of three axes, the batch counted, the second is the innermost (type_strides).
    int64_t step = t->batched && t->rank == 2 ? t->dim[0] : 1;
    return (OrderLines){n, part->dim[t->rank - 1], n ? type_elements(g, t) / n : 0, step};
}

// Rows of type x: may they be sorted?
static bool infer_lines(Infer *q, const char *what, const Type *x) {
    if (x->rank < 1 || x->rank > 2)
        return infer_fail(q, "%s is along rows [n] or [l, n], not of %s", what, type_name(x).s);
    if (dtype_is_half((Dtype)x->dtype))
        return infer_fail(q, "%s is of f32 or f64, not %s", what, dtype_name[x->dtype]);
    if (x->dim[x->rank - 1] > MOST_COUNTED)
        return infer_fail(q, "%s takes up to %d numbers a row, not %s", what, MOST_COUNTED,
                          type_name(x).s);
    return true;
}

// Is `part` of the shape of `whole`, with as many numbers a row or fewer?
static bool is_part(const Type *whole, const Type *part) {
    Type cut = *whole;
    if (!part->rank || part->rank != whole->rank)
        return false;
    cut.dim[cut.rank - 1] = part->dim[part->rank - 1];
    return type_same_shape(&cut, part) && cut.dim[cut.rank - 1] <= whole->dim[whole->rank - 1];
}

bool infer_ArgSort(Infer *q) {
    const Type *x = infer_in(q, 0);
    if (!infer_lines(q, "a sort", x))
        return false;
    if (q->out.rank == TYPE_UNSTATED)
        q->out = *x;
    q->out.batched = x->batched;
    q->out.dtype = x->dtype;
    int64_t n = x->dim[x->rank - 1], last = q->out.dim[x->rank - 1];
    if (last > n || (last < 1 && n > 0))
        return infer_fail(q, "a row of %s has %lld numbers: its last %lld cannot be sorted",
                          type_name(x).s, (long long)n, (long long)last);
    return is_part(x, &q->out) ||
           infer_fail(q, "the order of %s is not %s", type_name(x).s, type_name(&q->out).s);
}

Val grad_ArgSort(Val y, Val g, uint32_t k) {
    (void)y, (void)g, (void)k;
    return (Val){0};
}

bool infer_Arrange(Infer *q) {
    const Type *x = infer_in(q, 0), *index = infer_in(q, 1);
    if (q->attr->n != 1 || q->attr->i[0] < 0 || q->attr->i[0] > 1)
        return infer_fail(q, "arrange: `back` is 0 or 1");
    bool back = q->attr->i[0];
    if (!back || q->out.rank == TYPE_UNSTATED)
        q->out = *index;
    q->out.batched = x->batched;
    q->out.dtype = x->dtype;
    if (back ? !type_same_shape(x, index) : !is_part(x, index) || x->batched != index->batched)
        return infer_fail(q, "%s cannot be arranged by %s: their shapes differ", type_name(x).s,
                          type_name(index).s);
    if (back && !is_part(&q->out, index))
        return infer_fail(q, "%s cannot be arranged back to %s", type_name(x).s,
                          type_name(&q->out).s);
    return infer_lines(q, "a sort", back ? &q->out : x);
}

Val grad_Arrange(Val y, Val g, uint32_t k) {
    if (k)
        return (Val){0};
    Val index = val_in(y, 1);
    return val_attr(y).i[0] ? Arrange(g, index, false)
                            : ArrangeBack(g, index, val_type(val_in(y, 0)));
}
