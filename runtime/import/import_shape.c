// import_shape.c - operations that change extents, and leave elements where they are.
#include "import.h"

// The text of operand 0 where its extents of a sample become those of `to`.
bool give_reshaped(Import *m, const Shape *to) {
    Value *v = import_operand(m, 0);
    Dims from = shape_own(&v->shape), d = shape_own(to);
    if (is_own(v)) { // a weight in another shape is one in the file
        Value *out = value_find(m, m->node->out.at[0]);
        out->kind = ValueWeight;
        out->tensor = v->tensor;
        out->label = v->label;
        out->shape = *to;
        return true;
    }
    if (same_dims(&from, &d)) {
        Str x = text_of(m, 0, BindPipe);
        return import_give(m, 0, *to, v->where ? BindCall : v->binding, x);
    }
    if (d.n > SampleAxes)
        return import_refuse(m, "it has %u axes besides the batch, and %d are the most", d.n,
                             SampleAxes);
    return import_give(m, 0, *to, BindPipe,
                       d.n == 0   ? import_piped(m, 0, "squeeze")
                       : d.n == 1 ? import_piped(m, 0, "flatten")
                                  : import_piped(m, 0, "reshape(%.*s)", SARG(dims_text(m->a, &d))));
}

// How well an axis of the target suits the samples; 0: not at all. Before them are as many elements
// as there are before the samples of the operand: `ahead` in the axes before this one, the others
// within it. N stands in the target as such, as -1 or 0, or as the number that the file was
// exported with; if that is 1 it may be anywhere, and the axes of [T, N, c], [T*N, c] and [T,
// N*heads, d] are taken for what they mostly are. What is computed of a sample is the same either
// way.
static int suits(const Import *m, const Shape *to, uint32_t i, bool times, bool said,
                 int64_t before) {
    int64_t n = to->dim[i], ahead = product_of(to->dim, i), fixed = m->samples;
    bool literal = !times && n != -1;
    if (ahead < 1 || before % ahead || (said && !times) || (literal && (fixed < 1 || n % fixed)))
        return 0;
    int64_t outer = before / ahead, most = literal ? n / fixed : n;
    if (n != -1 && (most < 1 || most % outer))
        return 0;
    if (!literal)
        return outer == 1 ? 4 : 3;
    return outer == 1 && most == 1 ? 4 : outer == most && to->rank == 2 ? 3 : outer == 1 ? 2 : 1;
}

static bool place_batch(Import *m, const Shape *s, const bool *times, Shape *to) {
    int64_t before = product_of(s->dim, (uint32_t)s->batch) * (s->outer ? s->outer : 1),
            all = product_of(s->dim, s->rank);
    int open = -1, best = 0;
    bool said = false;
    for (uint32_t i = 0; i < to->rank; i++) {
        said = said || times[i];
        open = to->dim[i] == -1 ? (int)i : open;
    }
    for (uint32_t i = 0; i < to->rank && (open < 0 || (int)i <= open); i++) {
        int fit = suits(m, to, i, times[i], said, before);
        to->batch = fit > best ? (int)i : to->batch;
        best = fit > best ? fit : best;
    }
    if (best) {
        int64_t *n = &to->dim[to->batch];
        *n = times[to->batch] || *n == -1 ? *n : *n / m->samples;
        if (open >= 0)
            to->dim[open] = rest_of(to->dim, to->rank, (uint32_t)open, all);
        to->outer = before / product_of(to->dim, (uint32_t)to->batch);
    }
    return (best && product_of(to->dim, to->rank) == all && all > 0 && to->outer > 0 &&
            to->dim[to->batch] % to->outer == 0) ||
           import_refuse(
               m, "its result has the samples on no axis of their own: export with a dynamic "
                  "batch");
}

bool op_reshape(Import *m, const Row *row) {
    const Shape s = import_operand(m, 0)->shape;
    const Value *v = import_operand(m, 1);
    Shape to = {.batch = -1};
    bool times[ONNX_RANK] = {false};
    (void)row;
    if (str_eq(m->node->op, STR("Reshape")) &&
        (!v || v->kind != ValueConstant || v->count > ONNX_RANK))
        return import_refuse(m, "its shape is computed by the net: export with fixed extents");
    if (!str_eq(m->node->op, STR("Reshape"))) { // of a reduction over axes of one element
        to = shape_reduced(&s, 0, true);
        return give_reshaped(m, &to);
    }
    to.rank = (uint32_t)v->count;
    for (uint32_t i = 0; i < to.rank; i++) {
        to.dim[i] = extent_of(v->number[i]);
        times[i] = v->samples && v->samples[i];
        if (to.dim[i] == 0 && !attr_int(m, "allowzero", 0) && i < s.rank) {
            to.dim[i] = s.dim[i];
            times[i] = (int)i == s.batch;
        }
        if (to.dim[i] < -1)
            return import_refuse(m, "its shape has an extent of %lld", (long long)to.dim[i]);
    }
    if (s.batch >= 0 ? !place_batch(m, &s, times, &to) : false)
        return false;
    for (uint32_t i = 0; s.batch < 0 && i < to.rank; i++)
        if (to.dim[i] == -1)
            to.dim[i] = rest_of(to.dim, to.rank, i, product_of(s.dim, s.rank));
    if (product_of(to.dim, to.rank) != product_of(s.dim, s.rank))
        return import_refuse(m, "its shape has another number of elements than its operand");
    return give_reshaped(m, &to);
}

bool op_flatten(Import *m, const Row *row) {
    const Shape s = import_operand(m, 0)->shape;
    int64_t at = attr_int(m, "axis", 1), axis = at < 0 ? at + s.rank : at;
    (void)row;
    if (axis < 0 || axis > s.rank || (s.batch >= 0 && axis <= s.batch && s.batch > 0))
        return import_refuse(m, "its axis is none, or the batch is not the first");
    int64_t dim[2] = {product_of(s.dim, (uint32_t)axis),
                      product_of(s.dim + axis, s.rank - (uint32_t)axis)};
    Shape to = shape_of(2, dim, s.batch < 0 ? -1 : axis > 0 ? 0 : 1);
    to.outer = s.outer;
    return give_reshaped(m, &to);
}

bool op_squeeze(Import *m, const Row *row) {
    const Shape s = import_operand(m, 0)->shape;
    Ints axes;
    uint32_t mask = 0, axis;
    (void)row;
    if (!ints_of(m, "axes", 1, &axes))
        return false;
    for (uint32_t i = 0; i < axes.n; i++) {
        if (!axis_in(m, axes.at[i], s.rank, &axis))
            return false;
        mask |= 1u << axis;
    }
    for (uint32_t i = 0; i < s.rank; i++) {
        if (!axes.n && s.dim[i] == 1 && ((int)i != s.batch || m->samples == 1))
            mask |= 1u << i;
        if (mask >> i & 1 && (s.dim[i] != 1 || (int)i == s.batch))
            return import_refuse(m, "it squeezes the batch, or an axis of more than one element");
    }
    Shape to = {.batch = -1, .outer = s.outer};
    for (uint32_t i = 0; i < s.rank; i++) {
        if (mask >> i & 1)
            continue;
        to.batch = (int)i == s.batch ? (int)to.rank : to.batch;
        to.dim[to.rank++] = s.dim[i];
    }
    return give_reshaped(m, &to);
}

bool op_unsqueeze(Import *m, const Row *row) {
    const Shape s = import_operand(m, 0)->shape;
    Ints axes;
    uint32_t mask = 0, axis, from = 0;
    Shape to = {.batch = -1, .outer = s.outer};
    (void)row;
    if (!ints_of(m, "axes", 1, &axes))
        return false;
    to.rank = s.rank + axes.n;
    if (to.rank > ONNX_RANK)
        return import_refuse(m, "it has more than %d axes", ONNX_RANK);
    for (uint32_t i = 0; i < axes.n; i++) {
        if (!axis_in(m, axes.at[i], to.rank, &axis))
            return false;
        mask |= 1u << axis;
    }
    for (uint32_t i = 0; i < to.rank; i++) {
        bool here = !(mask >> i & 1) && from < s.rank;
        to.batch = here && (int)from == s.batch ? (int)i : to.batch;
        to.dim[i] = here ? s.dim[from++] : 1;
    }
    return give_reshaped(m, &to);
}
