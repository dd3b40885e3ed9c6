// builtin_tensor.c - the core's tensor functions: draws, shapes, joining, order.
//
// In: values as the text gave them. Out: a tensor, or a diagnostic in the user's words.
#include "builtin.h"
#include "warn.h"

#include <math.h>
#include <string.h>

// --- draws ---------------------------------------------------------------------------------------

static bool want_per(Elab *e, Value v, bool *batched) {
    bool samples = e->to != &e->init; // initial values have no batch
    *batched = samples;
    if (v.kind == KindAbsent)
        return true;
    *batched = samples && v.kind == KindAxes && v.axes == AxSample;
    if (v.kind == KindAxes && (v.axes == AxBatch || v.axes == AxSample))
        return true;
    diag(e->f, DiagE0305, here(e), "per (batch or sample)", value_what(v));
    diag_help(e->f, "write per=batch for one draw for all samples");
    return false;
}

// One -1 among extents becomes what the others leave of `all`.
static void fill_rest(Value *at, uint32_t n, int64_t all) {
    Value *rest = NULL;
    for (uint32_t i = 0; i < n; i++) {
        if (at[i].kind != KindNum)
            return;
        bool whole = at[i].num >= 1 && at[i].num <= (double)all && at[i].num == floor(at[i].num);
        if (at[i].num == -1 && !rest)
            rest = &at[i];
        else if (!whole || all % (int64_t)at[i].num)
            return;
        else
            all /= (int64_t)at[i].num;
    }
    if (rest)
        rest->num = (double)all;
}

// Extents given one by one, as a list, or mixed. `help`: what was meant where one of them is below
// 1. `all`: the number of elements, from which a -1 is computed; 0 where none may be.
static bool want_dims(Elab *e, Value v, const char *who, const char *help, int64_t all,
                      bool batched, Type *out) {
    VEC(Value) flat = {0};
    for (uint32_t i = 0; i < v.list.n; i++) {
        Value item = v.list.at[i];
        if (item.kind != KindList)
            vec_push(e->perm, &flat, item);
        else
            for (uint32_t k = 0; k < item.list.n; k++)
                vec_push(e->perm, &flat, item.list.at[k]);
    }
    if (all)
        fill_rest(flat.at, flat.n, all);
    if (want_extents(e, value_list(flat.at, flat.n), who, batched, out))
        return true;
    for (uint32_t i = 0; i < flat.n; i++)
        if (flat.at[i].kind == KindNum && flat.at[i].num < (flat.n > 1 ? 1 : 0)) {
            diag_help(e->f, "%s", help);
            break;
        }
    return false;
}

static Value draw(Elab *e, const Value *in, Dist dist, const char *who) {
    Type t;
    bool batched;
    if (!want_per(e, in[1], &batched) ||
        !want_dims(e, in[0], who,
                   "extents are given: normal(64); a range is a + (b - a)*uniform(64)", 0, batched,
                   &t))
        return POISON;
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
    if (classes < 1 || classes > INT32_MAX) {
        diag(e->f, DiagE0306, here(e), "categorical", "a number of classes from 1 to 2^31 - 1",
             SARG(value_text(e, in[0])));
        return POISON;
    }
    return make_draw(e, DistCategorical, classes, type_make(batched, 0, NULL));
}

// --- shapes --------------------------------------------------------------------------------------

Value builtin_shape(Elab *e, const Value *in, uint32_t n) {
    Val x;
    uint32_t mask = UINT32_MAX;
    int64_t dim[MAX_RANK];
    (void)n;
    Type t;
    if (!place_type(e, in[0], &t)) {
        if (!want_tensor(e, in[0], &x))
            return POISON;
        t = val_type(x);
    }
    if (in[1].kind != KindAbsent && !want_axes(e, in[1], &t, &mask))
        return POISON;
    uint32_t rank = 0;
    for (uint32_t i = 0; i < t.rank; i++)
        if (mask >> (1 + i) & 1)
            dim[rank++] = t.dim[i];
    return extents_value(e, dim, rank);
}

Value builtin_expand(Elab *e, const Value *in, uint32_t n) {
    Val x;
    Type to;
    bool batched;
    (void)n;
    if (!want_tensor(e, in[0], &x) || !want_per(e, in[2], &batched) ||
        !want_dims(e, in[1], "expand", "every extent is said: expand(x, 64, 4, 4)", 0,
                   in[2].kind == KindAbsent ? val_type(x).batched : batched, &to))
        return POISON;
    return op_fits(e, OpExpand, &x, 1, NULL, &to) ? value_tensor(Expand(x, to)) : POISON;
}

Value builtin_arange(Elab *e, const Value *in, uint32_t n) {
    int64_t from, to;
    Type t;
    (void)n;
    if (!want_bounds(e, in, "arange", &from, &to))
        return POISON;
    if (to <= from) {
        Str wanted =
            str_format(e->perm, "a whole number above %lld, the first one", (long long)from);
        diag(e->f, DiagE0306, here(e), "the end of arange", wanted.ptr,
             SARG(value_text(e, in[in[1].kind != KindAbsent])));
        in_library(e);
        return POISON;
    }
    if (!want_extents(e, value_num((double)(to - from)), "arange", false, &t))
        return POISON;
    if (!op_fits(e, OpIota, NULL, 0, &(Attr){.n = 1, .i = {2}}, &t))
        return POISON;
    Val x = Iota(e->to->at, 2, t);
    return value_tensor(from ? Add(x, Number(e->to->at, (double)from)) : x);
}

static Value reshaped(Elab *e, Val x, const Type *to) {
    return op_fits(e, OpReshape, &x, 1, NULL, to) ? value_tensor(Reshape(x, to->rank, to->dim))
                                                  : POISON;
}

static bool is_batch_size(Value v) {
    return v.kind == KindNum && v.id == 1;
}

// Whether the extents beside a -1 are fine each, and do not divide the elements; after a
// diagnostic.
static bool leaves_part(Elab *e, Val x, Value to) {
    Type t = val_type(x);
    int64_t others = 1, all = type_sample(&t);
    bool rest = false;
    for (uint32_t i = 0; to.kind == KindList && i < to.list.n; i++) {
        Value n = to.list.at[i];
        bool whole = n.kind == KindNum && n.num >= 1 && n.num <= 1e6 && n.num == floor(n.num);
        rest = rest || (n.kind == KindNum && n.num == -1);
        if (!whole && !(n.kind == KindNum && n.num == -1))
            return false;
        others = whole && others <= all ? others * (int64_t)n.num : others;
    }
    if (!rest || all % others == 0)
        return false;
    Str text = str_format(
        e->perm, "cannot reshape %.*s to %.*s: %lld elements are no multiple of %lld",
        SARG(type_text(e->perm, &t)), SARG(value_text(e, to)), (long long)all, (long long)others);
    diag(e->f, DiagE0406, here(e), str_z(e->perm, text));
    note_origin(e, x);
    return true;
}

Value builtin_reshape(Elab *e, const Value *in, uint32_t n) {
    Val x;
    Type to;
    (void)n;
    if (!want_tensor(e, in[0], &x))
        return POISON;
    Type t = val_type(x);
    if (t.batched && in[1].kind == KindList && in[1].list.n && is_batch_size(in[1].list.at[0])) {
        diag(e->f, DiagE0429, here(e));
        return POISON;
    }
    if (leaves_part(e, x, in[1]))
        return POISON;
    if (!want_dims(e, in[1], "reshape",
                   "an extent is 1 or more; one may be -1, what the others leave", type_sample(&t),
                   t.batched, &to))
        return POISON;
    bool one = t.rank && t.dim[0] == 1; // the -1 keeps this axis: text for any number of parts
    bool batch = t.batched && to.rank > 3 && to.dim[0] == 1 && !one && in[1].kind == KindList &&
                 value_is_plain(in[1].list.at[0]) && in[1].list.at[0].num == -1;
    if (batch)
        diag(e->f, DiagW0908, here(e), SARG(type_text(e->perm, &to)));
    return reshaped(e, x, &to);
}

Value builtin_flatten(Elab *e, const Value *in, uint32_t n) {
    Val x;
    (void)n;
    if (!want_tensor(e, in[0], &x))
        return POISON;
    Type t = val_type(x);
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
    Type t = val_type(x);
    for (uint32_t i = 0; i < t.rank; i++)
        if (t.dim[i] != 1)
            dim[rank++] = t.dim[i];
    return value_tensor(Reshape(x, rank, dim));
}

Val with_axis(Val x, uint32_t at) {
    Type t = val_type(x);
    int64_t dim[MAX_RANK] = {0};
    for (uint32_t i = 0; i <= t.rank; i++)
        dim[i] = i == at ? 1 : t.dim[i - (i > at)];
    return Reshape(x, t.rank + 1u, dim);
}

bool room_for_axis(Elab *e, Val x) {
    Type t = val_type(x);
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
    Type t = val_type(x);
    int64_t from = at < 0 ? at + t.rank + 1 : at;
    if (from >= 0 && from <= t.rank)
        return value_tensor(with_axis(x, (uint32_t)from));
    diag(e->f, DiagE0405, here(e), (long long)at, SARG(type_text(e->perm, &t)));
    return POISON;
}

// --- joining -------------------------------------------------------------------------------------

// One for each sample, where *x is not: what all share is every sample's. False: that is too large.
static bool for_samples(Elab *e, Val *x) {
    Type t = val_type(*x);
    t.batched = true;
    if (!size_fits(e, &t))
        return false;
    *x = Expand(*x, t);
    return true;
}

typedef struct PartList {
    Val *at;
    uint32_t n;
} PartList;

List parts_list(Value v) {
    return v.list.n == 1 && v.list.at[0].kind == KindList ? v.list.at[0].list : v.list;
}

// The parts as tensors, all per-sample when one of them is.
static bool want_parts(Elab *e, List l, const char *who, PartList *out) {
    bool batched = false;
    if (!l.n) {
        diag(e->f, DiagE0410, here(e), who);
        in_library(e);
        return false;
    }
    *out = (PartList){arena_array(e->perm, Val, l.n), l.n};
    for (uint32_t i = 0; i < l.n; i++) {
        if (!want_tensor(e, l.at[i], &out->at[i]))
            return false;
        batched = batched || val_type(out->at[i]).batched;
    }
    for (uint32_t i = 0; i < l.n && batched; i++)
        if (!for_samples(e, &out->at[i]))
            return false;
    return true;
}

// A part as it was given: what all samples share was expanded to one for each.
static Val unexpanded(Val part) {
    const Graph *g = part.b->g;
    bool expanded = graph_node(g, part.id)->op == OpExpand;
    return expanded ? (Val){part.b, node_in(g, part.id, 0)} : part;
}

static Value joined(Elab *e, const Val *part, uint32_t n, uint32_t axis) {
    Type first = val_type(part[0]), whole = first;
    for (uint32_t i = 1; i < n; i++) {
        Type t = val_type(part[i]), alike = t;
        if (t.rank == first.rank)
            alike.dim[axis] = first.dim[axis];
        whole.dim[axis] += t.rank == first.rank ? t.dim[axis] : 0;
        if (type_same_shape(&alike, &first))
            continue;
        diag(e->f, DiagE0411, here(e), SARG(type_text(e->perm, &first)),
             SARG(type_text(e->perm, &t)));
        double c;
        if (i == n - 1 && !t.rank && node_is_const(part[i].b->g, part[i].id, &c))
            diag_help(e->f, "the axis has a name, concat(a, b, axis=axis(1)), and axes leave out "
                            "the batch; a number that is a part is expand(0, 1)");
        else if (t.rank != first.rank)
            diag_help(e->f, "joined tensors have equally many axes: unsqueeze(x, 0) adds one; a "
                            "label is embed(8)(y) or "
                            "one_hot(y, 10)");
        note_origin(e, unexpanded(part[0]));
        note_origin(e, unexpanded(part[i]));
        return POISON;
    }
    return size_fits(e, &whole) ? value_tensor(Concat(part, n, axis)) : POISON;
}

// Lists among the parts are stacked first: rows of a matrix.
static Value stacked(Elab *e, List l) {
    PartList part;
    Value *of = arena_array(e->perm, Value, l.n + 1);
    for (uint32_t i = 0; i < l.n; i++) {
        of[i] = l.at[i].kind == KindList ? stacked(e, l.at[i].list) : l.at[i];
        if (of[i].kind == KindPoison)
            return POISON;
    }
    if (!want_parts(e, value_list(of, l.n).list, "stack", &part))
        return POISON;
    for (uint32_t i = 0; i < part.n; i++) {
        if (!room_for_axis(e, part.at[i]))
            return POISON;
        part.at[i] = with_axis(part.at[i], 0);
    }
    return joined(e, part.at, part.n, 0);
}

Value builtin_stack(Elab *e, const Value *in, uint32_t n) {
    (void)n;
    return stacked(e, parts_list(in[0]));
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
    if (mask & 1)
        diag_help(e->f, "two batches do not become one: a net is applied to each, D(a) and D(b)");
    return false;
}

Value builtin_concat(Elab *e, const Value *in, uint32_t n) {
    PartList part;
    uint32_t axis;
    (void)n;
    if (!want_parts(e, parts_list(in[0]), "concat", &part))
        return POISON;
    Type t = val_type(part.at[0]);
    return one_axis(e, in[1], &t, &axis) ? joined(e, part.at, part.n, axis) : POISON;
}

// --- order ---------------------------------------------------------------------------------------

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
    if (op_fits(e, OpPermute, &x, 1, &at, NULL))
        return value_tensor(Permute(x, order));
    diag_help(e->f, "axes of a sample count from 0, the batch is not one of them: of [c, h, w], "
                    "permute(1, 2, 0) is [h, w, c]");
    return POISON;
}

Value builtin_flip(Elab *e, const Value *in, uint32_t n) {
    Val x;
    uint32_t mask;
    (void)n;
    if (!want_tensor(e, in[0], &x))
        return POISON;
    Type t = val_type(x);
    if (!want_axes(e, in[1], &t, &mask))
        return POISON;
    Attr at = {.n = 1, .i = {mask}};
    return op_fits(e, OpFlip, &x, 1, &at, NULL) ? value_tensor(Flip(x, mask)) : POISON;
}

Value anchored(Elab *e, uint32_t nodes, Val v) {
    Func *f = e->to->fn;
    if (v.id < nodes && f && !e->to->muted)
        vec_push(e->perm, &f->again, ((Again){node_gflop(v.b->g, v.id), v.b->block}));
    return value_tensor(v);
}

// --- rows by index -------------------------------------------------------------------------------

Value builtin_gather(Elab *e, const Value *in, uint32_t n) {
    Val x[2];
    (void)n;
    if (!want_tensor(e, in[0], &x[0]) || !want_tensor(e, in[1], &x[1]))
        return POISON;
    if (!op_fits(e, OpGather, x, 2, NULL, NULL))
        return POISON;
    warn_rows(e, in[1], val_type(x[0]).dim[0]);
    return value_tensor(Gather(x[0], x[1]));
}

Value builtin_scatter(Elab *e, const Value *in, uint32_t n) {
    Val x[2];
    int64_t rows;
    bool batched;
    (void)n;
    if (!want_tensor(e, in[0], &x[0]) || !want_tensor(e, in[1], &x[1]) ||
        !want_int(e, in[2], "scatter", &rows) || !want_per(e, in[3], &batched))
        return POISON;
    Type row = val_type(x[0]), index = val_type(x[1]), table = {.rank = 1, .dim = {rows}};
    table.batched = batched && (row.batched || index.batched);
    for (uint32_t i = index.rank; i < row.rank && table.rank < MAX_RANK; i++)
        table.dim[table.rank++] = row.dim[i];
    if (index.batched && !row.batched && !for_samples(e, &x[0]))
        return POISON;
    return size_fits(e, &table) && op_fits(e, OpScatter, x, 2, NULL, &table)
               ? value_tensor(Scatter(x[0], x[1], table))
               : POISON;
}

// The indices that sort x, or the last so many of them.
static bool want_order(Elab *e, Val x, Value last, Val *out) {
    Type t = val_type(x);
    if (last.kind != KindAbsent && t.rank && !want_int(e, last, "last", &t.dim[t.rank - 1]))
        return false;
    if (!op_fits(e, OpArgSort, &x, 1, NULL, &t))
        return false;
    *out = ArgSortLast(x, t.dim[t.rank - 1]);
    return true;
}

Value builtin_argsort_rows(Elab *e, const Value *in, uint32_t n) {
    Val x;
    (void)n;
    return want_tensor(e, in[0], &x) && want_order(e, x, in[1], &x) ? value_tensor(x) : POISON;
}

// Are there as many numbers to sort as to sort by? So it is of what is arranged back, and its
// indices.
static bool same_rows(Elab *e, const Val *x) {
    Type t = val_type(x[0]), by = val_type(x[1]);
    Attr back = {.n = 1, .i = {1}};
    by.batched = t.batched;
    return type_same_shape(&t, &by) || op_fits(e, OpArrange, x, 2, &back, NULL);
}

Value builtin_sort_rows_by(Elab *e, const Value *in, uint32_t n) {
    Val x[2];
    (void)n;
    if (!want_tensor(e, in[0], &x[0]) || !want_tensor(e, in[1], &x[1]) || !same_rows(e, x) ||
        !want_order(e, x[1], in[2], &x[1]))
        return POISON;
    bool batched = val_type(x[0]).batched || val_type(x[1]).batched;
    for (uint32_t k = 0; k < 2; k++)
        if (batched && !for_samples(e, &x[k]))
            return POISON;
    Attr at = {.n = 1};
    return op_fits(e, OpArrange, x, 2, &at, NULL) ? value_tensor(Arrange(x[0], x[1], false))
                                                  : POISON;
}

Value builtin_sample_index(Elab *e, const Value *in, uint32_t n) {
    (void)in;
    (void)n;
    return value_tensor(Iota(e->to->at, 1, type_make(true, 0, NULL)));
}
