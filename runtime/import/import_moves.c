// import_moves.c - operations that move elements.
#include "import.h"

bool op_transpose(Import *m, const Row *row) {
    const Shape s = import_operand(m, 0)->shape;
    Ints perm;
    Shape to = {.rank = s.rank, .batch = -1, .outer = s.outer};
    Text order = {.arena = m->a};
    uint32_t axis, n = 0, seen = 0;
    bool moved = false;
    (void)row;
    if (!ints_of(m, "perm", -1, &perm))
        return false;
    for (uint32_t i = 0; i < s.rank; i++) {
        if (!axis_in(m, perm.n == s.rank ? perm.at[i] : s.rank - 1 - i, s.rank, &axis))
            return false;
        seen |= 1u << axis;
        to.dim[i] = s.dim[axis];
        to.batch = (int)axis == s.batch ? (int)i : to.batch;
        int mine = shape_own_axis(&s, axis);
        if (mine >= 0) {
            moved = moved || mine != (int)n;
            text_fmt(&order, "%s%d", n++ ? ", " : "", mine);
        }
    }
    if (seen != (1u << s.rank) - 1)
        return import_refuse(m, "its `perm` is no permutation");
    return moved ? import_give(m, 0, to, BindPipe,
                               import_piped(m, 0, "permute(%.*s)", SARG(text_str(&order))))
                 : give_reshaped(m, &to);
}

bool op_concat(Import *m, const Row *row) {
    uint32_t n = m->node->in.n, axis, rank = import_operand(m, 0)->shape.rank;
    Shape to = {.batch = -1};
    Text t = {.arena = m->a};
    int64_t total = 0;
    (void)row;
    if (!axis_in(m, attr_int(m, "axis", 0), rank, &axis))
        return false;
    for (uint32_t k = 0; k < n; k++)
        if (import_operand(m, k) && import_operand(m, k)->shape.batch >= 0)
            to = import_operand(m, k)->shape;
    to = to.batch < 0 ? import_operand(m, 0)->shape : to;
    if (to.batch == (int)axis)
        return import_refuse(m, "it joins along the batch");
    for (uint32_t k = 0; k < n; k++) {
        const Value *v = import_operand(m, k);
        if (!v || v->shape.rank != rank)
            return import_refuse(m, "its operands have other numbers of axes");
        for (uint32_t i = 0; i < rank; i++)
            if (i != axis && v->shape.dim[i] != to.dim[i])
                return import_refuse(m, "its operands have other extents");
        if (v->shape.batch >= 0 && v->shape.batch != to.batch)
            return import_refuse(m, "its operands have the batch on different axes");
        total += v->shape.dim[axis];
    }
    for (uint32_t k = 0; k < n; k++) {
        Shape part = to;
        part.dim[axis] = import_operand(m, k)->shape.dim[axis];
        Dims d = shape_own(&import_operand(m, k)->shape), want = shape_own(&part);
        Str x = text_of(m, k, BindOr);
        if (!same_dims(&d, &want))
            x = format(m, "reshape(%.*s, %.*s)", SARG(x), SARG(dims_text(m->a, &want)));
        text_fmt(&t, "%s%.*s", k ? ", " : "concat(", SARG(x));
    }
    to.dim[axis] = total;
    int at = shape_own_axis(&to, axis);
    text_fmt(&t, at ? ", axis=axis(%d))" : ")", at);
    return import_give(m, 0, to, BindCall, text_str(&t));
}

// "[:, 2:5]": elements from[i]..from[i] + n[i] of our axes; all of those behind the last that is
// cut.
static Str range_text(Import *m, const Dims *all, const int64_t *from, const int64_t *n) {
    Text t = {.arena = m->a};
    uint32_t last = 0;
    for (uint32_t i = 0; i < all->n; i++)
        last = n[i] != all->at[i] ? i + 1 : last;
    for (uint32_t i = 0; i < last; i++) {
        text_fmt(&t, "%s", i ? ", " : "[");
        if (from[i])
            text_fmt(&t, "%lld", (long long)from[i]);
        text_char(&t, ':');
        if (from[i] + n[i] != all->at[i])
            text_fmt(&t, "%lld", (long long)(from[i] + n[i]));
    }
    text_fmt(&t, "%s", last ? "]" : "");
    return text_str(&t);
}

bool op_split(Import *m, const Row *row) {
    const Shape s = import_operand(m, 0)->shape;
    uint32_t axis, n = m->node->out.n;
    Ints sizes;
    int64_t from = 0;
    (void)row;
    if (!axis_in(m, attr_int(m, "axis", 0), s.rank, &axis) || !ints_of(m, "split", 1, &sizes))
        return false;
    bool even = sizes.n || m->opset >= 18 || s.dim[axis] % n == 0;
    if ((int)axis == s.batch || (sizes.n && sizes.n != n) || !even ||
        attr_int(m, "num_outputs", n) != (int64_t)n)
        return import_refuse(m, "it splits the batch, or has other parts than results");
    int64_t each = (s.dim[axis] + n - 1) / n;
    Str x = name_of(m, 0);
    Refs refs = m->refs;
    for (uint32_t i = 0; i < refs.n; i++)
        m->variable.at[refs.at[i]].refs += n - 1;
    for (uint32_t k = 0; k < n; k++) {
        Shape to = s;
        to.dim[axis] = sizes.n                     ? sizes.at[k]
                       : each < s.dim[axis] - from ? each
                                                   : s.dim[axis] - from;
        if (to.dim[axis] < 1 || to.dim[axis] > s.dim[axis] - from)
            return import_refuse(m, "its parts are not parts of %lld", (long long)s.dim[axis]);
        m->refs = (Refs){0};
        for (uint32_t i = 0; i < refs.n; i++)
            vec_push(m->a, &m->refs, refs.at[i]);
        Dims all = shape_own(&s), n_of = shape_own(&to);
        int64_t start[ONNX_RANK] = {0};
        start[shape_own_axis(&s, axis)] = from;
        if (!import_give(m, k, to, BindCall,
                         format(m, "%.*s%.*s", SARG(x), SARG(range_text(m, &all, start, n_of.at)))))
            return false;
        from += to.dim[axis];
    }
    return true;
}

// Elements of an axis as an index: `take(x, from + step*arange(n), axis)`.
static Str taken(Import *m, Str x, Str index, int axis) {
    return axis ? format(m, "take(%.*s, %.*s, %d)", SARG(x), SARG(index), axis)
                : format(m, "take(%.*s, %.*s)", SARG(x), SARG(index));
}

bool op_slice(Import *m, const Row *row) {
    const Shape s = import_operand(m, 0)->shape;
    Slices by;
    Shape to = s;
    (void)row;
    if (!slices_of(m, &by))
        return false;
    Str x = name_of(m, 0), behind = {0};
    Dims all = shape_own(&s), left = all;
    int64_t first[ONNX_RANK] = {0};
    for (uint32_t i = 0; i < by.starts.n; i++) {
        uint32_t axis;
        if (!axis_in(m, by.axes.n ? by.axes.at[i] : i, s.rank, &axis))
            return false;
        int64_t n = to.dim[axis];
        Span3 p = slice_span((int)axis == s.batch ? (int64_t)1 << 59 : n, by.starts.at[i],
                             by.ends.at[i], by.steps.n ? by.steps.at[i] : 1);
        bool whole = p.from == 0 && p.step == 1 && p.count >= n;
        if ((int)axis == s.batch && (!whole || p.count < (int64_t)1 << 30) &&
            !(whole && m->samples > 0 && p.count >= m->samples))
            return import_refuse(m, "it takes some of the samples");
        if ((int)axis == s.batch || whole)
            continue;
        if (p.count < 1)
            return import_refuse(m, "it leaves no elements");
        to.dim[axis] = p.count;
        int at = shape_own_axis(&s, axis);
        if (p.step == 1)
            first[at] = p.from, left.at[at] = p.count;
        else if (p.step == -1 && p.count == n)
            behind = format(m, "%.*s |> flip(axis(%d))", SARG(behind), at);
        else
            behind = format(m, "%.*s |> take(%lld + %lld*arange(%lld), %d)", SARG(behind),
                            (long long)p.from, (long long)p.step, (long long)p.count, at);
    }
    return import_give(m, 0, to, behind.len ? BindPipe : BindCall,
                       format(m, "%.*s%.*s%.*s", SARG(x), SARG(range_text(m, &all, first, left.at)),
                              SARG(behind)));
}

// All elements in order, the batch among them: as_strided of a contiguous tensor, a reshape.
static bool takes_all(const Import *m, const Shape *s, const Value *index) {
    if (s->rank != 1 || s->batch != 0 || index->kind != ValueConstant || !index->shape.rank ||
        m->samples < 1 || index->shape.dim[0] != m->samples ||
        index->count != (size_t)(m->samples * s->dim[0]))
        return false;
    for (size_t i = 0; i < index->count; i++)
        if (index->number[i] != (double)i)
            return false;
    return true;
}

// Whether indices may count from the end of n elements; false and m->error: one is outside.
static bool counts_back(Import *m, const Value *index, int64_t n, bool *back) {
    *back = !index->number;
    for (size_t i = 0; i < index->count; i++) {
        double x = index->number[i];
        *back = *back || x < 0;
        if (!(x >= (double)-n && x < (double)n))
            return import_refuse(m, "an index is outside its axis");
    }
    return true;
}

// The index's axes take the place of the one they choose from.
static Shape gathered_shape(const Shape *s, const Shape *index, uint32_t axis) {
    Shape to = {.batch = -1, .outer = s->outer};
    uint32_t rank = 0;
    for (uint32_t i = 0; i < s->rank; i++) {
        for (uint32_t k = 0; i == axis && k < index->rank; k++) {
            to.batch = (int)k == index->batch ? (int)rank : to.batch;
            to.dim[rank++] = index->dim[k];
        }
        if (i == axis)
            continue;
        to.batch = (int)i == s->batch ? (int)rank : to.batch;
        to.dim[rank++] = s->dim[i];
    }
    to.rank = rank;
    return to;
}

// One constant element: x[:, 3].
static Str element_text(Import *m, int axis, double index) {
    Text t = {.arena = m->a};
    for (int i = 0; i < axis; i++)
        text_fmt(&t, ":, ");
    text_fmt(&t, "%.0f", index);
    return format(m, "%.*s[%.*s]", SARG(name_of(m, 0)), SARG(text_str(&t)));
}

bool op_gather(Import *m, const Row *row) {
    const Shape s = import_operand(m, 0)->shape;
    Value *index = import_operand(m, 1);
    uint32_t axis;
    bool back; // it may count from the end
    (void)row;
    if (!axis_in(m, attr_int(m, "axis", 0), s.rank, &axis))
        return false;
    if (takes_all(m, &s, index)) {
        Shape to = index->shape;
        to.batch = 0;
        to.dim[0] = 1;
        return give_reshaped(m, &to);
    }
    if ((int)axis == s.batch || (s.batch >= 0 && index->shape.batch >= 0) ||
        s.rank + index->shape.rank > ONNX_RANK)
        return import_refuse(m, "it takes some of the samples, or other elements of each");
    if (!counts_back(m, index, s.dim[axis], &back))
        return false;
    Shape to = gathered_shape(&s, &index->shape, axis);
    int at = shape_own_axis(&s, axis);
    if (index->kind == ValueConstant && index->shape.rank == 0)
        return import_give(m, 0, to, BindCall, element_text(m, at, index->number[0]));
    Str table = text_of(m, 0, BindOr), which = text_of(m, 1, back ? BindProduct : BindOr);
    if (back)
        which = format(m, "%.*s %% %lld", SARG(which), (long long)s.dim[axis]);
    return import_give(m, 0, to, BindCall,
                       at ? taken(m, table, which, at)
                          : format(m, "gather(%.*s, %.*s)", SARG(table), SARG(which)));
}

// Of indices of one axis only: rows of a table that all samples share, or of one of each sample.
bool op_gather_nd(Import *m, const Row *row) {
    const Shape s = import_operand(m, 0)->shape, at = import_operand(m, 1)->shape;
    int64_t each = attr_int(m, "batch_dims", 0);
    uint32_t from = (uint32_t)(each == 1), last = at.rank - 1;
    Shape to = {.batch = at.batch, .outer = at.outer};
    bool back;
    (void)row;
    if ((each != 0 && each != 1) || !at.rank || at.dim[last] != 1 || at.batch == (int)last ||
        s.rank <= from || at.rank + s.rank > ONNX_RANK)
        return import_refuse(m, "its indices are of more than one axis");
    if (each ? s.batch || at.batch || s.dim[0] != 1 || at.dim[0] != 1 : s.batch >= 0)
        return import_refuse(m, "it takes some of the samples");
    for (uint32_t i = 0; i < last; i++)
        to.dim[to.rank++] = at.dim[i];
    Dims d = shape_own(&to);
    for (uint32_t i = from + 1; i < s.rank; i++)
        to.dim[to.rank++] = s.dim[i];
    if (!counts_back(m, import_operand(m, 1), s.dim[from], &back))
        return false;
    Str table = text_of(m, 0, BindOr),
        which = format(m, "reshape(%.*s, %.*s)", SARG(text_of(m, 1, BindOr)),
                       SARG(dims_text(m->a, &d)));
    if (back)
        which = format(m, "%.*s %% %lld", SARG(which), (long long)s.dim[from]);
    return import_give(m, 0, to, BindCall,
                       format(m, "gather(%.*s, %.*s)", SARG(table), SARG(which)));
}

// A number as often as the shape says, for each sample.
bool op_filled(Import *m, const Row *row) {
    const Value *v = import_operand(m, 0);
    const OnnxAttribute *a = import_attribute(m, "value");
    Shape to = {.batch = -1, .rank = (uint32_t)v->count};
    (void)row;
    if (v->kind != ValueConstant || v->count > ONNX_RANK)
        return import_refuse(m, "its shape is computed by the net: export with fixed extents");
    for (uint32_t i = 0; i < to.rank; i++) {
        to.dim[i] = extent_of(v->number[i]);
        to.batch = v->samples && v->samples[i] ? (int)i : to.batch;
    }
    Dims d = shape_own(&to);
    Str x = number_text(m->a, a && a->t && a->t->count ? onnx_at(a->t, 0) : 0);
    return d.n ? import_give(m, 0, to, BindCall,
                             format(m, "expand(%.*s, %.*s)", SARG(x), SARG(dims_text(m->a, &d))))
               : import_give(m, 0, to, BindSign, x);
}

// What is shared is a value of each sample where N stands among its extents.
bool op_expand(Import *m, const Row *row) {
    const Shape s = import_operand(m, 0)->shape;
    const Value *v = import_operand(m, 1);
    Shape to = {.batch = s.batch, .outer = s.outer};
    (void)row;
    if (v->kind != ValueConstant || v->count > ONNX_RANK)
        return import_refuse(m, "its shape is computed by the net: export with fixed extents");
    uint32_t n = (uint32_t)v->count, rank = n > s.rank ? n : s.rank;
    to.batch += s.batch >= 0 ? (int)(rank - s.rank) : 0;
    for (uint32_t i = 0; i < rank; i++) {
        int64_t a = i + s.rank < rank ? 1 : s.dim[i + s.rank - rank],
                b = i + n < rank ? 1 : extent_of(v->number[i + n - rank]);
        bool times = i + n >= rank && v->samples && v->samples[i + n - rank];
        bool fixed = i == 0 && rank > 1 && m->samples > 1 && b == m->samples && a == 1;
        to.batch = s.batch < 0 && (times || fixed) ? (int)i : to.batch;
        to.dim[i] = (int)i == to.batch || b == 1 || b == -1 ? a : b;
        if ((a != 1 && a != to.dim[i]) || (times && b != a))
            return import_refuse(m, "its operand has other extents");
    }
    to.rank = rank;
    Dims d = shape_own(&s), want = shape_own(&to);
    bool copies = s.batch < 0 && to.batch >= 0;
    if (!copies && same_dims(&d, &want))
        return give_reshaped(m, &to);
    Shape one = to;
    for (uint32_t i = 0; i < rank; i++)
        one.dim[i] = i + s.rank < rank ? 1 : s.dim[i + s.rank - rank];
    Dims lifted = shape_own(&one);
    Str x = same_dims(&d, &lifted) ? text_of(m, 0, BindCall)
                                   : format(m, "reshape(%.*s, %.*s)", SARG(text_of(m, 0, BindOr)),
                                            SARG(dims_text(m->a, &lifted)));
    if (same_dims(&lifted, &want))
        return import_give(m, 0, to, BindCall, x);
    return import_give(m, 0, to, BindCall,
                       format(m, "expand(%.*s, %.*s)", SARG(x), SARG(dims_text(m->a, &want))));
}

bool op_tile(Import *m, const Row *row) {
    const Shape s = import_operand(m, 0)->shape;
    Ints times;
    Shape to = s;
    (void)row;
    if (!ints_of(m, "repeats", 1, &times) || times.n != s.rank)
        return import_refuse(m, "its repeats are not one for each axis");
    Dims one = {0}, all = {0}; // an axis of 1, and of so many, before each that is repeated
    for (uint32_t i = 0; i < s.rank; i++) {
        int64_t n = times.at[i];
        uint32_t more = (n != 1) + (shape_own_axis(&s, i) >= 0);
        if (n < 1 || (n > 1 && (int)i == s.batch))
            return import_refuse(m, "it repeats the samples, or something %lld times",
                                 (long long)n);
        if (one.n + more > SampleAxes)
            return import_refuse(m, "it repeats along too many axes");
        if (n > 1) {
            one.at[one.n++] = 1;
            all.at[all.n++] = n;
        }
        if (shape_own_axis(&s, i) >= 0)
            one.at[one.n++] = all.at[all.n++] = s.dim[i];
        to.dim[i] = product_of((int64_t[]){n, s.dim[i]}, 2);
    }
    Dims want = shape_own(&to);
    if (same_dims(&all, &want))
        return give_reshaped(m, &to);
    return import_give(m, 0, to, BindPipe,
                       import_piped(m, 0, "reshape(%.*s) |> expand(%.*s) |> reshape(%.*s)",
                                    SARG(dims_text(m->a, &one)), SARG(dims_text(m->a, &all)),
                                    SARG(dims_text(m->a, &want))));
}

// --- channels and space --------------------------------------------------------------------------

// x of [c, h, w] as six axes, in another order.
static bool give_blocks(Import *m, const Shape *to, const int64_t six[5], const char *order) {
    Dims d = {.n = 5}, want = shape_own(to);
    memcpy(d.at, six, 5 * sizeof *six);
    return import_give(m, 0, *to, BindPipe,
                       import_piped(m, 0, "reshape(%.*s) |> permute(%s) |> reshape(%.*s)",
                                    SARG(dims_text(m->a, &d)), order,
                                    SARG(dims_text(m->a, &want))));
}

static bool block_of(Import *m, int64_t *b) {
    const Shape *s = &import_operand(m, 0)->shape;
    *b = attr_int(m, "blocksize", 0);
    return (s->rank == 4 && s->batch == 0 && s->dim[0] == 1 && *b > 0 && *b < 1 << 16) ||
           import_refuse(m, "its operand is no image, or its blocks have no size");
}

bool op_depth_to_space(Import *m, const Row *row) {
    int64_t b;
    (void)row;
    if (!block_of(m, &b))
        return false;
    const Shape s = import_operand(m, 0)->shape;
    int64_t c = s.dim[1] / (b * b), h = s.dim[2], w = s.dim[3];
    Shape to = shape_of(4, (int64_t[]){1, c, h * b, w * b}, 0);
    if (s.dim[1] % (b * b))
        return import_refuse(m, "its blocks do not divide the channels");
    if (str_eq(attr_word(m, "mode", "DCR"), STR("CRD")))
        return import_give(m, 0, to, BindPipe,
                           import_piped(m, 0, "pixel_shuffle(%lld)", (long long)b));
    return give_blocks(m, &to, (int64_t[]){b, b, c, h, w}, "2, 3, 0, 4, 1");
}

bool op_space_to_depth(Import *m, const Row *row) {
    int64_t b;
    (void)row;
    if (!block_of(m, &b))
        return false;
    const Shape s = import_operand(m, 0)->shape;
    if (s.dim[2] % b || s.dim[3] % b)
        return import_refuse(m, "its blocks do not divide the extents");
    int64_t c = s.dim[1], h = s.dim[2] / b, w = s.dim[3] / b;
    Shape to = shape_of(4, (int64_t[]){1, c * b * b, h, w}, 0);
    return give_blocks(m, &to, (int64_t[]){c, h, b, w, b}, "2, 4, 0, 1, 3");
}
