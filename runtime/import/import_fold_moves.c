// import_fold_moves.c - elements of constants in other places.
#include "import_fold.h"

// Elements of operand 0 by their index along each axis.
static size_t index_of(const Shape *s, const int64_t *at) {
    size_t i = 0;
    for (uint32_t k = 0; k < s->rank; k++)
        i = i * (size_t)s->dim[k] + (size_t)at[k];
    return i;
}

void next_index(const Shape *s, int64_t *at) {
    for (uint32_t k = s->rank; k-- > 0;) {
        if (++at[k] < s->dim[k])
            return;
        at[k] = 0;
    }
}

static bool same_elements(Import *m, uint32_t rank, const int64_t *dim) {
    const Value *v = import_operand(m, 0);
    Cells c;
    if (!make_cells(m, rank, dim, &c))
        return false;
    if (c.count != v->count)
        return import_refuse(m, "its shape has another number of elements than its operand");
    for (size_t i = 0; i < c.count; i++)
        copy_cell(&c, i, v, i);
    return give_cells(m, &c, v->whole);
}

bool fold_same(Import *m) {
    return same_elements(m, import_operand(m, 0)->shape.rank, import_operand(m, 0)->shape.dim);
}

bool fold_cast(Import *m) {
    OnnxElement to = (OnnxElement)attr_int(m, "to", OnnxFloat);
    const Value *v = import_operand(m, 0);
    Cells c;
    if (!make_cells(m, v->shape.rank, v->shape.dim, &c))
        return false;
    for (size_t i = 0; i < c.count; i++) {
        copy_cell(&c, i, v, i);
        c.x[i] = to == OnnxBool ? c.x[i] != 0 : onnx_is_real(to) ? c.x[i] : trunc(c.x[i]);
    }
    return give_cells(m, &c, !onnx_is_real(to));
}

bool fold_reshape(Import *m) {
    const Value *v = import_operand(m, 0);
    int64_t dim[ONNX_RANK];
    uint32_t rank;
    int open = -1;
    bool keeps = !attr_int(m, "allowzero", 0); // an extent of 0 is the operand's
    if (!dims_of(m, 1, &rank, dim))
        return false;
    for (uint32_t i = 0; i < rank; i++) {
        dim[i] = dim[i] == 0 && keeps && i < v->shape.rank ? v->shape.dim[i] : dim[i];
        open = dim[i] == -1 ? (int)i : open;
    }
    if (open >= 0)
        dim[open] = rest_of(dim, rank, (uint32_t)open, (int64_t)v->count);
    return same_elements(m, rank, dim);
}

bool fold_squeeze(Import *m) {
    const Shape *s = &import_operand(m, 0)->shape;
    int64_t dim[ONNX_RANK];
    uint32_t rank = 0, mask = 0, axis;
    Ints axes;
    if (!ints_of(m, "axes", 1, &axes))
        return false;
    for (uint32_t i = 0; i < axes.n; i++) {
        if (!axis_in(m, axes.at[i], s->rank, &axis))
            return false;
        mask |= 1u << axis;
    }
    for (uint32_t i = 0; i < s->rank; i++)
        if (!(axes.n ? mask >> i & 1 : s->dim[i] == 1))
            dim[rank++] = s->dim[i];
    return same_elements(m, rank, dim);
}

bool fold_unsqueeze(Import *m) {
    const Shape *s = &import_operand(m, 0)->shape;
    int64_t dim[ONNX_RANK];
    uint32_t mask = 0, axis, from = 0;
    Ints axes;
    if (!ints_of(m, "axes", 1, &axes))
        return false;
    uint32_t rank = s->rank + axes.n;
    if (rank > ONNX_RANK)
        return import_refuse(m, "a constant has more than %d axes", ONNX_RANK);
    for (uint32_t i = 0; i < axes.n; i++) {
        if (!axis_in(m, axes.at[i], rank, &axis))
            return false;
        mask |= 1u << axis;
    }
    for (uint32_t i = 0; i < rank; i++)
        dim[i] = mask >> i & 1 || from == s->rank ? 1 : s->dim[from++];
    return same_elements(m, rank, dim);
}

bool fold_transpose(Import *m) {
    const Value *v = import_operand(m, 0);
    Ints perm;
    int64_t dim[ONNX_RANK], at[ONNX_RANK] = {0}, from[ONNX_RANK];
    uint32_t axis[ONNX_RANK], rank = v->shape.rank;
    Cells c;
    if (!ints_of(m, "perm", -1, &perm))
        return false;
    for (uint32_t i = 0; i < rank; i++) {
        if (!axis_in(m, perm.n == rank ? perm.at[i] : rank - 1 - i, rank, &axis[i]))
            return false;
        dim[i] = v->shape.dim[axis[i]];
    }
    if (!make_cells(m, rank, dim, &c))
        return false;
    for (size_t i = 0; i < c.count; i++, next_index(&c.shape, at)) {
        for (uint32_t k = 0; k < rank; k++)
            from[axis[k]] = at[k];
        copy_cell(&c, i, v, index_of(&v->shape, from));
    }
    return give_cells(m, &c, v->whole);
}

bool fold_gather(Import *m) {
    const Value *v = import_operand(m, 0), *index = import_operand(m, 1);
    int64_t dim[2 * ONNX_RANK], at[ONNX_RANK] = {0}, from[ONNX_RANK];
    uint32_t axis, rank = 0;
    Cells c;
    if (!axis_in(m, attr_int(m, "axis", 0), v->shape.rank, &axis))
        return false;
    for (uint32_t i = 0; i < v->shape.rank; i++) {
        for (uint32_t k = 0; i == axis && k < index->shape.rank; k++)
            dim[rank++] = index->shape.dim[k];
        if (i != axis)
            dim[rank++] = v->shape.dim[i];
    }
    if (rank > ONNX_RANK)
        return import_refuse(m, "a constant has more than %d axes", ONNX_RANK);
    if (!make_cells(m, rank, dim, &c))
        return false;
    for (size_t i = 0; i < c.count; i++, next_index(&c.shape, at)) {
        double row = cell(index, index_of(&index->shape, at + axis));
        row = row < 0 ? row + (double)v->shape.dim[axis] : row;
        if (!(row >= 0 && row < (double)v->shape.dim[axis]))
            return import_refuse(m, "an index is outside its axis");
        for (uint32_t k = 0; k < v->shape.rank; k++)
            from[k] = k < axis ? at[k] : k > axis ? at[k + index->shape.rank - 1] : (int64_t)row;
        copy_cell(&c, i, v, index_of(&v->shape, from));
    }
    return give_cells(m, &c, v->whole);
}

// Rows of operand 0 replaced: an index is of its first axes.
bool fold_scatter_nd(Import *m) {
    const Value *v = import_operand(m, 0), *index = import_operand(m, 1),
                *rows = import_operand(m, 2);
    const Shape *to = &v->shape;
    int64_t axes = index->shape.rank ? index->shape.dim[index->shape.rank - 1] : 0;
    size_t size = 1; // of a row
    Cells c;
    if (!str_eq(attr_word(m, "reduction", "none"), STR("none")) || axes < 1 || axes > to->rank)
        return import_refuse(m, "it combines rows with what is there, or its indices have no axes");
    for (uint32_t k = (uint32_t)axes; k < to->rank; k++)
        size *= (size_t)to->dim[k];
    if (!make_cells(m, to->rank, to->dim, &c))
        return false;
    if (index->count / (size_t)axes * size != cells_of(rows))
        return import_refuse(m, "it has another number of rows than of indices");
    for (size_t i = 0; i < c.count; i++)
        copy_cell(&c, i, v, i);
    for (size_t i = 0; i < cells_of(rows); i++) {
        size_t place = 0;
        for (uint32_t k = 0; k < axes; k++) {
            double at = cell(index, i / size * (size_t)axes + k), n = (double)to->dim[k];
            at += at < 0 ? n : 0;
            if (!(at >= 0 && at < n))
                return import_refuse(m, "an index is outside its axis");
            place = place * (size_t)to->dim[k] + (size_t)at;
        }
        copy_cell(&c, place * size + i % size, rows, i);
    }
    return give_cells(m, &c, v->whole);
}

bool fold_concat(Import *m) {
    const Value *first = import_operand(m, 0);
    uint32_t axis;
    int64_t dim[ONNX_RANK], at[ONNX_RANK] = {0};
    Cells c;
    if (!axis_in(m, attr_int(m, "axis", 0), first->shape.rank, &axis))
        return false;
    memcpy(dim, first->shape.dim, sizeof dim);
    for (uint32_t k = 1; k < m->node->in.n; k++) {
        const Shape *s = &import_operand(m, k)->shape;
        if (s->rank != first->shape.rank)
            return import_refuse(m, "its operands have other numbers of axes");
        for (uint32_t i = 0; i < s->rank; i++)
            if (i != axis && s->dim[i] != dim[i])
                return import_refuse(m, "its operands have other extents");
        dim[axis] += s->dim[axis];
    }
    if (!make_cells(m, first->shape.rank, dim, &c))
        return false;
    for (size_t i = 0; i < c.count; i++, next_index(&c.shape, at)) {
        int64_t from[ONNX_RANK];
        uint32_t k = 0;
        memcpy(from, at, sizeof from);
        while (from[axis] >= import_operand(m, k)->shape.dim[axis])
            from[axis] -= import_operand(m, k++)->shape.dim[axis];
        copy_cell(&c, i, import_operand(m, k), index_of(&import_operand(m, k)->shape, from));
    }
    return give_cells(m, &c, first->whole);
}

// Starts and steps of a slice, and the extents it leaves.
bool fold_slice(Import *m) {
    const Value *v = import_operand(m, 0);
    Slices by;
    int64_t from[ONNX_RANK] = {0}, step[ONNX_RANK], dim[ONNX_RANK], at[ONNX_RANK] = {0};
    Cells c;
    if (!slices_of(m, &by))
        return false;
    for (uint32_t i = 0; i < v->shape.rank; i++)
        dim[i] = v->shape.dim[i], step[i] = 1;
    for (uint32_t i = 0; i < by.starts.n; i++) {
        uint32_t axis;
        if (!axis_in(m, by.axes.n ? by.axes.at[i] : i, v->shape.rank, &axis))
            return false;
        Span3 s = slice_span(v->shape.dim[axis], by.starts.at[i], by.ends.at[i],
                             by.steps.n ? by.steps.at[i] : 1);
        from[axis] = s.from, step[axis] = s.step, dim[axis] = s.count;
    }
    if (!make_cells(m, v->shape.rank, dim, &c))
        return false;
    for (size_t i = 0; i < c.count; i++, next_index(&c.shape, at)) {
        int64_t place[ONNX_RANK];
        for (uint32_t k = 0; k < v->shape.rank; k++)
            place[k] = from[k] + at[k] * step[k];
        copy_cell(&c, i, v, index_of(&v->shape, place));
    }
    return give_cells(m, &c, v->whole);
}

size_t broadcast_at(const Value *v, const Shape *to, const int64_t *at) {
    int64_t from[ONNX_RANK];
    for (uint32_t k = 0; k < v->shape.rank; k++)
        from[k] = v->shape.dim[k] == 1 ? 0 : at[k + to->rank - v->shape.rank];
    return index_of(&v->shape, from);
}

bool broadcast(Import *m, const Shape *s, uint32_t *rank, int64_t *dim) {
    int64_t both[ONNX_RANK];
    uint32_t n = *rank > s->rank ? *rank : s->rank;
    for (uint32_t i = 0; i < n; i++) {
        int64_t a = i + *rank < n ? 1 : dim[i + *rank - n],
                b = i + s->rank < n ? 1 : s->dim[i + s->rank - n];
        if (a != b && a != 1 && b != 1)
            return import_refuse(m, "its operands have other extents");
        both[i] = a == 1 ? b : a;
    }
    *rank = n;
    memcpy(dim, both, n * sizeof *dim);
    return true;
}

bool fold_expand(Import *m) {
    const Value *v = import_operand(m, 0);
    int64_t dim[ONNX_RANK], at[ONNX_RANK] = {0};
    uint32_t rank;
    Cells c;
    if (!dims_of(m, 1, &rank, dim) || !broadcast(m, &v->shape, &rank, dim) ||
        !make_cells(m, rank, dim, &c))
        return false;
    for (size_t i = 0; i < c.count; i++, next_index(&c.shape, at))
        copy_cell(&c, i, v, broadcast_at(v, &c.shape, at));
    return give_cells(m, &c, v->whole);
}

bool fold_tile(Import *m) {
    const Value *v = import_operand(m, 0);
    int64_t times[ONNX_RANK], dim[ONNX_RANK], at[ONNX_RANK] = {0};
    uint32_t rank;
    Cells c;
    if (!dims_of(m, 1, &rank, times) || rank != v->shape.rank)
        return import_refuse(m, "its repeats are not one for each axis");
    for (uint32_t i = 0; i < rank; i++)
        dim[i] = product_of((int64_t[]){times[i], v->shape.dim[i]}, 2);
    if (!make_cells(m, rank, dim, &c))
        return false;
    for (size_t i = 0; i < c.count; i++, next_index(&c.shape, at)) {
        int64_t from[ONNX_RANK];
        for (uint32_t k = 0; k < rank; k++)
            from[k] = at[k] % v->shape.dim[k];
        copy_cell(&c, i, v, index_of(&v->shape, from));
    }
    return give_cells(m, &c, v->whole);
}
