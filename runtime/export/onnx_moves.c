// onnx_moves.c - ONNX nodes for operations that move elements.
#include "onnx_ops.h"

#include <string.h>

Str onnx_reshape(Onnx *o, const char *op) {
    const Type *t = type_at(o);
    (void)op;
    return onnx_reshaped(o, in(o, 0), t->batched, t->dim, t->rank);
}

Str onnx_expand(Onnx *o, const char *op) {
    const Type *t = type_at(o);
    int64_t to[MAX_RANK + 1] = {1};
    Text attributes = {.arena = o->a};
    Str x = onnx_lifted(o, 0), shape;
    memcpy(to + 1, t->dim, t->rank * sizeof *to);
    if (t->batched && !type_in(o, 0)->batched) {
        onnx_int(o, &attributes, "axis", 0);
        shape = onnx_put(o, "Concat", &attributes, onnx_batch(o), onnx_shape(o, t->dim, t->rank));
    } else {
        shape = onnx_shape(o, to + !t->batched, t->rank + t->batched);
    }
    return onnx_put(o, op, NULL, x, shape);
}

Str onnx_permute(Onnx *o, const char *op) {
    const Type *t = type_at(o);
    int64_t axis[MAX_RANK + 1] = {0};
    Text attributes = {.arena = o->a};
    for (uint32_t i = 0; i < t->rank; i++)
        axis[i + t->batched] = axis_of(t, (uint32_t)ints_at(o)[1 + i]);
    onnx_ints(o, &attributes, "perm", axis, t->rank + t->batched);
    return onnx_put(o, op, &attributes, in(o, 0));
}

// Elements from, from + step, ... of the axes, `count` of each.
static Str slice(Onnx *o, Str x, const Type *t, const int64_t *from, const int64_t *count,
                 const int64_t *step) {
    int64_t axis[MAX_RANK], end[MAX_RANK];
    for (uint32_t i = 0; i < t->rank; i++) {
        axis[i] = axis_of(t, i);
        end[i] = from[i] + (count[i] - 1) * step[i] + 1;
    }
    return onnx_put(o, "Slice", NULL, x, onnx_shape(o, from, t->rank), onnx_shape(o, end, t->rank),
                    onnx_shape(o, axis, t->rank), onnx_shape(o, step, t->rank));
}

Str onnx_slice(Onnx *o, const char *op) {
    const Type *t = type_at(o);
    (void)op;
    return slice(o, in(o, 0), type_in(o, 0), ints_at(o) + 1, t->dim, ints_at(o) + 1 + t->rank);
}

static Str pad(Onnx *o, Str x, const Type *t, const int64_t *before, const int64_t *after) {
    int64_t pads[2 * (MAX_RANK + 1)] = {0};
    uint32_t axes = t->rank + t->batched;
    for (uint32_t i = 0; i < t->rank; i++) {
        pads[axis_of(t, i)] = before[i];
        pads[axes + (uint32_t)axis_of(t, i)] = after[i];
    }
    return onnx_put(o, "Pad", NULL, x, onnx_shape(o, pads, 2 * axes));
}

// Zeros between elements of one axis: each becomes the first of `step`. *t becomes what it is then.
static Str spread(Onnx *o, Str x, Type *t, uint32_t axis, int64_t step) {
    Type each = *t;
    int64_t none[MAX_RANK] = {0}, zeros[MAX_RANK] = {0};
    if (step == 1)
        return x;
    memmove(each.dim + axis + 2, each.dim + axis + 1, (t->rank - axis - 1) * sizeof *each.dim);
    each.dim[axis + 1] = 1;
    each.rank++;
    zeros[axis + 1] = step - 1;
    x = onnx_reshaped(o, x, t->batched, each.dim, each.rank);
    x = pad(o, x, &each, none, zeros);
    t->dim[axis] *= step;
    return onnx_reshaped(o, x, t->batched, t->dim, t->rank);
}

Str onnx_pad(Onnx *o, const char *op) {
    const Type *to = type_at(o);
    const int64_t *before = ints_at(o) + 1, *step = before + to->rank;
    Type t = *type_in(o, 0);
    Str x = in(o, 0);
    int64_t after[MAX_RANK];
    (void)op;
    for (uint32_t i = 0; i < to->rank; i++) {
        if (step[i] > 1 && t.rank == MAX_RANK)
            return onnx_refused(o, "zeros between the elements of so many axes");
        x = spread(o, x, &t, i, step[i]);
        after[i] = to->dim[i] - before[i] - t.dim[i]; // less than 0: behind the last element
    }
    return pad(o, x, to, before, after);
}

Str onnx_flip(Onnx *o, const char *op) {
    const Type *t = type_at(o);
    int64_t axis[MAX_RANK], from[MAX_RANK], end[MAX_RANK], step[MAX_RANK];
    uint32_t n = 0;
    for (uint32_t i = 0; i < t->rank; i++) {
        if (!(ints_at(o)[0] >> (1 + i) & 1))
            continue;
        axis[n] = axis_of(t, i);
        from[n] = step[n] = -1;
        end[n++] = INT64_MIN; // before the first
    }
    return onnx_put(o, op, NULL, in(o, 0), onnx_shape(o, from, n), onnx_shape(o, end, n),
                    onnx_shape(o, axis, n), onnx_shape(o, step, n));
}

Str onnx_concat(Onnx *o, const char *op) {
    uint32_t n = graph_node(graph_of(o), o->at)->nin;
    Str *x = arena_array(o->a, Str, n);
    Text attributes = {.arena = o->a};
    for (uint32_t k = 0; k < n; k++)
        x[k] = in(o, k);
    onnx_int(o, &attributes, "axis", axis_of(type_at(o), (uint32_t)ints_at(o)[0]));
    return onnx_node(o, op, x, n, &attributes);
}

// Places lie within the table: a wrong one is the nearest there is.
Str onnx_gather(Onnx *o, const char *op) {
    const Type *table = type_in(o, 0), *t = type_in(o, 1);
    Text attributes = {.arena = o->a};
    int64_t dim[MAX_RANK + 1];
    Str within = onnx_put(o, "Clip", NULL, in(o, 1), onnx_number(o, 0),
                          onnx_number(o, (double)(table->dim[0] - 1)));
    Str places = onnx_cast(o, within, OnnxInt64);
    if (!table->batched || !t->batched) {
        onnx_int(o, &attributes, "axis", table->batched);
        return onnx_put(o, op, &attributes, in(o, 0), places);
    }
    memcpy(dim, t->dim, t->rank * sizeof *dim);
    dim[t->rank] = 1;
    onnx_int(o, &attributes, "batch_dims", 1);
    return onnx_put(o, "GatherND", &attributes, in(o, 0),
                    onnx_reshaped(o, places, true, dim, t->rank + 1));
}
