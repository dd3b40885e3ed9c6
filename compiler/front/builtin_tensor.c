// builtin_tensor.c - the core's tensor functions: draws, shapes, movement, products.
//
// In: values as the text gave them. Out: a tensor, or a diagnostic in the user's words.
#include "elab.h"

#include <string.h>

static Type type_of(Val v) {
    return *node_type(v.g, v.id);
}

// --- draws ---------------------------------------------------------------------------------------

static bool want_per(Elab *e, Value v, bool *batched) {
    *batched = true;
    if (v.kind == KindAbsent)
        return true;
    *batched = v.kind == KindAxes && v.axes == AxSample;
    if (v.kind == KindAxes && (v.axes == AxBatch || v.axes == AxSample))
        return true;
    diag(e->f, DiagE0305, here(e), "per (batch or sample)", value_what(v));
    diag_help(e->f, "write per=batch for one draw for all samples");
    return false;
}

// Extents given one by one, as a list, or mixed.
static bool want_dims(Elab *e, Value v, const char *who, Type *out) {
    VEC(Value) flat = {0};
    for (uint32_t i = 0; i < v.list.n; i++) {
        Value item = v.list.at[i];
        if (item.kind != KindList)
            vec_push(e->perm, &flat, item);
        else
            for (uint32_t k = 0; k < item.list.n; k++)
                vec_push(e->perm, &flat, item.list.at[k]);
    }
    return want_extents(e, value_list(flat.at, flat.n), who, out);
}

static Value draw(Elab *e, const Value *in, Dist dist, const char *who) {
    Type t;
    bool batched;
    if (!want_dims(e, in[0], who, &t) || !want_per(e, in[1], &batched))
        return POISON;
    t.batched = batched;
    return make_draw(e, dist, 0, t);
}

Value builtin_normal(Elab *e, const Value *in, uint32_t n) {
    (void)n;
    return draw(e, in, DistNormal, "normal");
}

Value builtin_uniform(Elab *e, const Value *in, uint32_t n) {
    (void)n;
    return draw(e, in, DistUniform, "uniform");
}

Value builtin_truncated(Elab *e, const Value *in, uint32_t n) {
    (void)n;
    return draw(e, in, DistTruncated, "truncated");
}

Value builtin_categorical(Elab *e, const Value *in, uint32_t n) {
    int64_t classes;
    bool batched;
    (void)n;
    if (!want_int(e, in[0], "categorical", &classes) || !want_per(e, in[1], &batched))
        return POISON;
    if (classes < 1) {
        diag(e->f, DiagE0306, here(e), "categorical", "a number of classes above 0",
             SARG(value_text(e, in[0])));
        return POISON;
    }
    return make_draw(e, DistCategorical, (double)classes, type_make(batched, 0, NULL));
}

// --- shapes --------------------------------------------------------------------------------------

Value builtin_shape(Elab *e, const Value *in, uint32_t n) {
    Val x;
    uint32_t mask = UINT32_MAX;
    int64_t dim[MAX_RANK];
    (void)n;
    if (!want_tensor(e, in[0], &x))
        return POISON;
    Type t = type_of(x);
    if (in[1].kind != KindAbsent && !want_axes(e, in[1], &t, &mask))
        return POISON;
    uint32_t rank = 0;
    for (uint32_t i = 0; i < t.rank; i++)
        if (mask >> (1 + i) & 1)
            dim[rank++] = t.dim[i];
    return extents_value(e, dim, rank);
}

static Value reshaped(Elab *e, Val x, const Type *to) {
    return op_fits(e, OpReshape, &x, 1, NULL, to) ? value_tensor(Reshape(x, to->rank, to->dim))
                                                  : POISON;
}

Value builtin_reshape(Elab *e, const Value *in, uint32_t n) {
    Val x;
    Type to;
    (void)n;
    if (!want_tensor(e, in[0], &x) || !want_dims(e, in[1], "reshape", &to))
        return POISON;
    return reshaped(e, x, &to);
}

Value builtin_flatten(Elab *e, const Value *in, uint32_t n) {
    Val x;
    (void)n;
    if (!want_tensor(e, in[0], &x))
        return POISON;
    Type t = type_of(x);
    int64_t all = type_sample(&t);
    return value_tensor(Reshape(x, 1, &all));
}

Value builtin_squeeze(Elab *e, const Value *in, uint32_t n) {
    Val x;
    int64_t dim[MAX_RANK];
    uint32_t rank = 0;
    (void)n;
    if (!want_tensor(e, in[0], &x))
        return POISON;
    Type t = type_of(x);
    for (uint32_t i = 0; i < t.rank; i++)
        if (t.dim[i] != 1)
            dim[rank++] = t.dim[i];
    return value_tensor(Reshape(x, rank, dim));
}

static Val with_axis(Val x, uint32_t at) {
    Type t = type_of(x);
    int64_t dim[MAX_RANK] = {0};
    for (uint32_t i = 0; i <= t.rank; i++)
        dim[i] = i == at ? 1 : t.dim[i - (i > at)];
    return Reshape(x, t.rank + 1u, dim);
}

static bool room_for_axis(Elab *e, Val x) {
    Type t = type_of(x);
    if (t.rank < MAX_RANK)
        return true;
    diag(e->f, DiagE0409, here(e), MAX_RANK, SARG(type_text(e->perm, &t)));
    return false;
}

Value builtin_unsqueeze(Elab *e, const Value *in, uint32_t n) {
    Val x;
    int64_t at;
    (void)n;
    if (!want_tensor(e, in[0], &x) || !want_int(e, in[1], "unsqueeze", &at) || !room_for_axis(e, x))
        return POISON;
    Type t = type_of(x);
    if (at >= 0 && at <= t.rank)
        return value_tensor(with_axis(x, (uint32_t)at));
    diag(e->f, DiagE0405, here(e), (long long)at, SARG(type_text(e->perm, &t)));
    return POISON;
}

// --- joining -------------------------------------------------------------------------------------

// The parts as tensors, all per-sample when one of them is.
static bool want_parts(Elab *e, List l, const char *who, Val *out) {
    bool batched = false;
    if (!l.n || l.n > MAX_INTS) {
        diag(e->f, DiagE0410, here(e), who, MAX_INTS, l.n);
        return false;
    }
    for (uint32_t i = 0; i < l.n; i++) {
        if (!want_tensor(e, l.at[i], &out[i]))
            return false;
        batched = batched || type_of(out[i]).batched;
    }
    for (uint32_t i = 0; i < l.n && batched; i++) {
        Type t = type_of(out[i]);
        t.batched = true;
        out[i] = Expand(out[i], t);
    }
    return true;
}

static Value joined(Elab *e, const Val *part, uint32_t n, uint32_t axis) {
    Type first = type_of(part[0]), whole = first;
    for (uint32_t i = 1; i < n; i++) {
        Type t = type_of(part[i]), alike = t;
        if (t.rank == first.rank)
            alike.dim[axis] = first.dim[axis];
        whole.dim[axis] += t.rank == first.rank ? t.dim[axis] : 0;
        if (type_same_shape(&alike, &first))
            continue;
        diag(e->f, DiagE0411, here(e), SARG(type_text(e->perm, &first)),
             SARG(type_text(e->perm, &t)));
        if (t.rank != first.rank)
            diag_help(e->f, "they have as many axes: reshape one, or look a label up with embed");
        note_origin(e, part[0]);
        note_origin(e, part[i]);
        return POISON;
    }
    return size_fits(e, &whole) ? value_tensor(Concat(part, n, axis)) : POISON;
}

static List parts_list(Value v) { // `stack(a, b)` and `stack([a, b])` are the same
    return v.list.n == 1 && v.list.at[0].kind == KindList ? v.list.at[0].list : v.list;
}

Value builtin_stack(Elab *e, const Value *in, uint32_t n) {
    Val part[MAX_INTS];
    List l = parts_list(in[0]);
    (void)n;
    if (!want_parts(e, l, "stack", part))
        return POISON;
    for (uint32_t i = 0; i < l.n; i++) {
        if (!room_for_axis(e, part[i]))
            return POISON;
        part[i] = with_axis(part[i], 0);
    }
    return joined(e, part, l.n, 0);
}

static bool one_axis(Elab *e, Value v, const Type *t, uint32_t *out) {
    uint32_t mask = 2;
    if (v.kind != KindAbsent && !want_axes(e, v, t, &mask))
        return false;
    for (uint32_t i = 0; i < t->rank; i++)
        if (mask == 2u << i) {
            *out = i;
            return true;
        }
    diag(e->f, DiagE0412, here(e), SARG(type_text(e->perm, t)));
    return false;
}

Value builtin_concat(Elab *e, const Value *in, uint32_t n) {
    Val part[MAX_INTS];
    List l = parts_list(in[0]);
    uint32_t axis;
    (void)n;
    if (!want_parts(e, l, "concat", part))
        return POISON;
    Type t = type_of(part[0]);
    return one_axis(e, in[1], &t, &axis) ? joined(e, part, l.n, axis) : POISON;
}

// --- order and borders ---------------------------------------------------------------------------

Value builtin_permute(Elab *e, const Value *in, uint32_t n) {
    Val x;
    Attr at = {.n = 1};
    uint32_t order[MAX_RANK];
    (void)n;
    if (!want_tensor(e, in[0], &x))
        return POISON;
    List l = parts_list(in[1]);
    for (uint32_t i = 0; i < l.n && i < MAX_RANK; i++) {
        int64_t axis;
        if (!want_int(e, l.at[i], "permute", &axis))
            return POISON;
        order[i] = (uint32_t)axis;
        at.i[at.n++] = axis;
    }
    at.i[0] = l.n;
    return op_fits(e, OpPermute, &x, 1, &at, NULL) ? value_tensor(Permute(x, order)) : POISON;
}

Value builtin_flip(Elab *e, const Value *in, uint32_t n) {
    Val x;
    uint32_t mask;
    (void)n;
    if (!want_tensor(e, in[0], &x))
        return POISON;
    Type t = type_of(x);
    if (!want_axes(e, in[1], &t, &mask))
        return POISON;
    Attr at = {.n = 1, .i = {mask}};
    return op_fits(e, OpFlip, &x, 1, &at, NULL) ? value_tensor(Flip(x, mask)) : POISON;
}

static Val part_of(Val x, uint32_t axis, int64_t from, int64_t count) {
    Type t = type_of(x);
    int64_t start[MAX_RANK] = {0};
    start[axis] = from;
    t.dim[axis] = count;
    return Slice(x, start, t.dim, NULL);
}

// Elements 1..n mirrored before the first, and the same behind the last.
Value builtin_reflect_pad(Elab *e, const Value *in, uint32_t n) {
    Val x;
    int64_t by;
    (void)n;
    if (!want_tensor(e, in[0], &x) || !want_int(e, in[1], "reflect_pad", &by))
        return POISON;
    Type t = type_of(x);
    for (uint32_t axis = 1; axis < t.rank; axis++) {
        if (by < 0 || by >= t.dim[axis]) {
            diag(e->f, DiagE0413, here(e), (long long)by, SARG(type_text(e->perm, &t)));
            return POISON;
        }
        if (!by)
            continue;
        Val before = Flip(part_of(x, axis, 1, by), 2u << axis);
        Val after = Flip(part_of(x, axis, t.dim[axis] - by - 1, by), 2u << axis);
        x = Concat((Val[]){before, x, after}, 3, axis);
    }
    return value_tensor(x);
}

Value builtin_upsample(Elab *e, const Value *in, uint32_t n) {
    Val x;
    int64_t by;
    (void)n;
    if (!want_tensor(e, in[0], &x) || !want_int(e, in[1], "upsample", &by))
        return POISON;
    if (by < 1 || by > 1024) {
        diag(e->f, DiagE0306, here(e), "upsample", "a factor from 1 to 1024",
             SARG(value_text(e, in[1])));
        return POISON;
    }
    for (uint32_t axis = 1; axis < type_of(x).rank && by > 1; axis++) {
        if (!room_for_axis(e, x))
            return POISON;
        Type merged = type_of(x);
        merged.dim[axis] *= by;
        if (!size_fits(e, &merged))
            return POISON;
        x = with_axis(x, axis + 1);
        Type wide = type_of(x);
        wide.dim[axis + 1] = by;
        x = Reshape(Expand(x, wide), merged.rank, merged.dim);
    }
    return value_tensor(x);
}

Value builtin_avg_pool(Elab *e, const Value *in, uint32_t n) {
    Val x;
    int64_t by;
    double count = 1;
    (void)n;
    if (!want_tensor(e, in[0], &x) || !want_int(e, in[1], "avg_pool", &by))
        return POISON;
    Type t = type_of(x);
    for (uint32_t axis = 1; axis < t.rank; axis++) {
        if (by < 1 || t.dim[axis] % by) {
            diag(e->f, DiagE0414, here(e), (long long)by, SARG(type_text(e->perm, &t)));
            return POISON;
        }
        if (by == 1 || !room_for_axis(e, x))
            continue;
        Type pooled = type_of(x);
        pooled.dim[axis] /= by;
        Type split = type_of(with_axis(x, axis + 1));
        split.dim[axis] = pooled.dim[axis];
        split.dim[axis + 1] = by;
        x = Reshape(Sum(Reshape(x, split.rank, split.dim), 4u << axis), pooled.rank, pooled.dim);
        count *= (double)by;
    }
    return value_tensor(count == 1 ? x : Mul(x, Number(x.g, 1 / count)));
}

// --- convolution ---------------------------------------------------------------------------------

// One number for all axes, or (padding) a pair of before and after.
static bool want_both(Elab *e, Value v, const char *who, int64_t fallback, int64_t *a, int64_t *b) {
    *a = *b = fallback;
    if (v.kind == KindAbsent)
        return true;
    if (v.kind == KindList && v.list.n == 2)
        return want_int(e, v.list.at[0], who, a) && want_int(e, v.list.at[1], who, b);
    if (!want_int(e, v, who, a))
        return false;
    *b = *a;
    return true;
}

static bool want_geometry(Elab *e, const Value *in, Type x, ConvGeom *out) {
    int64_t stride, dilation = 1, groups = 1, before, after, unused;
    *out = (ConvGeom){.n = x.rank ? x.rank - 1u : 0};
    if (!want_both(e, in[0], "stride", 1, &stride, &unused) ||
        !want_both(e, in[1], "pad", 0, &before, &after))
        return false;
    if (!want_both(e, in[2], "dilation", 1, &dilation, &unused))
        return false;
    if (!want_both(e, in[3], "groups", 1, &groups, &unused))
        return false;
    if (out->n < 1 || out->n > 3) {
        diag(e->f, DiagE0415, here(e), SARG(type_text(e->perm, &x)));
        in_library(e);
        return false;
    }
    for (uint32_t i = 0; i < out->n; i++) {
        out->stride[i] = stride;
        out->before[i] = before;
        out->after[i] = after;
        out->dilation[i] = dilation;
    }
    out->groups = groups;
    return true;
}

// An anchor's value. One that was there before is work the published step does twice: it is counted
// (bench's gflop_model).
static Value anchored(Elab *e, uint32_t nodes, Val v) {
    Func *f = e->to->fn;
    if (v.id < nodes && f && !e->to->muted)
        vec_push(e->perm, &f->again, ((Again){node_gflop(v.g, v.id), v.g->block}));
    return value_tensor(v);
}

Value builtin_convolve(Elab *e, const Value *in, uint32_t n) {
    Val x[2];
    ConvGeom c;
    (void)n;
    if (!want_tensor(e, in[0], &x[0]) || !want_tensor(e, in[1], &x[1]))
        return POISON;
    if (!want_geometry(e, in + 2, type_of(x[0]), &c))
        return POISON;
    Attr at = conv_attr(&c);
    uint32_t nodes = x[0].g->node.n;
    return op_fits(e, OpConv, x, 2, &at, NULL) ? anchored(e, nodes, Conv(x[0], x[1], &c)) : POISON;
}

// The input gradient of the convolution whose output is x: extent (n - 1)*stride + k - before -
// after.
Value builtin_convolve_transpose(Elab *e, const Value *in, uint32_t n) {
    Val x[2];
    ConvGeom c;
    Value options[4] = {in[2], in[3], {.kind = KindAbsent}, {.kind = KindAbsent}};
    (void)n;
    if (!want_tensor(e, in[0], &x[0]) || !want_tensor(e, in[1], &x[1]))
        return POISON;
    Type t = type_of(x[0]), w = type_of(x[1]);
    if (!want_geometry(e, options, t, &c))
        return POISON;
    if (w.rank == c.n + 2) {
        t.dim[0] = w.dim[1];
        for (uint32_t i = 0; i < c.n; i++)
            t.dim[1 + i] =
                (t.dim[1 + i] - 1) * c.stride[i] + w.dim[2 + i] - c.before[i] - c.after[i];
    }
    Attr at = conv_attr(&c);
    uint32_t nodes = x[0].g->node.n;
    return op_fits(e, OpConvDx, x, 2, &at, &t) ? anchored(e, nodes, ConvDx(x[0], x[1], &c, t))
                                               : POISON;
}

// --- products ------------------------------------------------------------------------------------

// "on,n->o": the labels of a, b and the result, each a letter.
typedef struct Rule {
    Str part[3];
} Rule;

static bool read_rule(Elab *e, Value v, Rule *out) {
    bool fine = v.kind == KindStr;
    if (fine) {
        size_t comma = str_find(v.str, ','), arrow = str_find(v.str, '-');
        fine = comma < arrow && arrow + 1 < v.str.len && v.str.ptr[arrow + 1] == '>';
        out->part[0] = str_sub(v.str, 0, comma);
        out->part[1] = str_sub(v.str, comma + 1, arrow);
        out->part[2] = str_sub(v.str, arrow + 2, v.str.len);
    }
    for (uint32_t p = 0; fine && p < 3; p++)
        for (size_t i = 0; i < out->part[p].len; i++) {
            char c = out->part[p].ptr[i];
            fine = fine && c >= 'a' && c <= 'z' && str_find(out->part[p], c) == i;
        }
    for (size_t i = 0; fine && i < out->part[2].len; i++) {
        char c = out->part[2].ptr[i];
        fine = str_find(out->part[0], c) < out->part[0].len ||
               str_find(out->part[1], c) < out->part[1].len;
    }
    if (fine)
        return true;
    diag(e->f, DiagE0416, here(e), SARG(value_text(e, v)));
    in_library(e);
    return false;
}

static bool rule_fits(Elab *e, const Rule *r, const Val *x) {
    for (uint32_t k = 0; k < 2; k++) {
        Type t = type_of(x[k]), other = type_of(x[1 - k]);
        if (t.rank != r->part[k].len) {
            diag(e->f, DiagE0417, here(e), SARG(r->part[k]), SARG(type_text(e->perm, &t)));
            in_library(e);
            note_origin(e, x[k]);
            return false;
        }
        for (uint32_t i = 0; i < t.rank && other.rank == r->part[1 - k].len; i++) {
            size_t j = str_find(r->part[1 - k], r->part[k].ptr[i]);
            if (j == r->part[1 - k].len || other.dim[j] == t.dim[i])
                continue;
            diag(e->f, DiagE0418, here(e), r->part[k].ptr[i], SARG(type_text(e->perm, &t)),
                 SARG(type_text(e->perm, &other)));
            in_library(e);
            note_origin(e, x[0]);
            note_origin(e, x[1]);
            return false;
        }
    }
    return true;
}

Value builtin_einsum(Elab *e, const Value *in, uint32_t n) {
    Val x[2];
    Rule r;
    uint8_t label[3][MAX_RANK];
    (void)n;
    if (!read_rule(e, in[0], &r) || !want_tensor(e, in[1], &x[0]) || !want_tensor(e, in[2], &x[1]))
        return POISON;
    if (!rule_fits(e, &r, x))
        return POISON;
    if (r.part[2].len > MAX_RANK) {
        diag(e->f, DiagE0416, here(e), SARG(value_text(e, in[0])));
        return POISON;
    }
    for (uint32_t p = 0; p < 3; p++)
        for (size_t i = 0; i < r.part[p].len && i < MAX_RANK; i++)
            label[p][i] = (uint8_t)(r.part[p].ptr[i] - 'a' + 1);
    Type made = {.rank = (uint8_t)r.part[2].len};
    for (uint32_t i = 0; i < made.rank; i++) {
        size_t k = str_find(r.part[0], r.part[2].ptr[i]);
        bool in_first = k < r.part[0].len;
        made.dim[i] =
            type_of(x[!in_first]).dim[in_first ? k : str_find(r.part[1], r.part[2].ptr[i])];
    }
    if (!size_fits(e, &made))
        return POISON;
    bool batched = type_of(x[0]).batched || type_of(x[1]).batched;
    uint32_t nodes = x[0].g->node.n;
    return anchored(
        e, nodes, Dot(x[0], label[0], x[1], label[1], label[2], (uint32_t)r.part[2].len, batched));
}

Value builtin_gather(Elab *e, const Value *in, uint32_t n) {
    Val x[2];
    (void)n;
    if (!want_tensor(e, in[0], &x[0]) || !want_tensor(e, in[1], &x[1]))
        return POISON;
    return op_fits(e, OpGather, x, 2, NULL, NULL) ? value_tensor(Gather(x[0], x[1])) : POISON;
}
