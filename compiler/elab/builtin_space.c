// builtin_space.c - the core's functions over spatial axes, all after the first of a sample:
// borders, resampling, convolution.
//
// In: values as the text gave them; an option is one number for all axes, or a list of one for
// each. Out: a tensor, or a diagnostic in the user's words.
#include "builtin.h"

#include <math.h>

static Val part_of(Val x, uint32_t axis, int64_t from, int64_t count) {
    Type t = val_type(x);
    int64_t start[MAX_RANK] = {0};
    start[axis] = from;
    t.dim[axis] = count;
    return Slice(x, start, t.dim, NULL);
}

// --- one number for all spatial axes, or one for each --------------------------------------------

static uint32_t spatial(Val x) {
    uint32_t rank = val_type(x).rank;
    return rank ? rank - 1 : 0;
}

static bool want_spatial(Elab *e, Value v, const char *who, Val *out) {
    if (!want_tensor(e, v, out))
        return false;
    if (spatial(*out))
        return true;
    Type t = val_type(*out);
    diag(e->f, DiagE0415, here(e), who, "", SARG(type_text(e->perm, &t)));
    in_library(e);
    note_origin(e, *out);
    return false;
}

static bool not_each(Elab *e, Value v, const char *who, const char *what, uint32_t n) {
    if (v.kind == KindPoison)
        return false;
    const char *wanted = str_format(e->perm, "%s, or a list of one for each of %u spatial ax%cs",
                                    what, n, n == 1 ? 'i' : 'e')
                             .ptr;
    diag(e->f, DiagE0306, here(e), who, wanted, SARG(value_text(e, v)));
    in_library(e);
    return false;
}

static bool want_each(Elab *e, Value v, const char *who, uint32_t n, int64_t absent, int64_t *out) {
    if (v.kind == KindList && v.list.n != n)
        return not_each(e, v, who, "a number", n);
    for (uint32_t i = 0; i < n; i++) {
        out[i] = absent;
        Value one = v.kind == KindList ? v.list.at[i] : v;
        if (one.kind != KindAbsent && !want_int(e, one, who, &out[i]))
            return false;
    }
    return true;
}

// The extents of a kernel, of which there is one for each of `size`, or one for all of them.
Value builtin_extents(Elab *e, const Value *in, uint32_t n) {
    List size;
    (void)n;
    if (!want_list(e, in[1], "extents", &size))
        return POISON;
    if (in[0].kind == KindList && size.n && in[0].list.n != size.n) {
        (void)not_each(e, in[0], "extents of a kernel", "a number", size.n);
        return POISON;
    }
    if (in[0].kind == KindList)
        return in[0];
    Value *out = arena_array(e->perm, Value, size.n);
    for (uint32_t i = 0; i < size.n; i++)
        out[i] = in[0];
    return value_list(out, size.n);
}

static bool is_pair(Value v) {
    return v.kind == KindList && v.list.n == 2 && v.list.at[0].kind != KindList &&
           v.list.at[1].kind != KindList;
}

static bool want_pad(Elab *e, Value v, const char *who, int64_t *before, int64_t *after) {
    bool pair = is_pair(v);
    return want_int(e, pair ? v.list.at[0] : v, who, before) &&
           want_int(e, pair ? v.list.at[1] : v, who, after);
}

// Padding, as NumPy's pad_width: a number or [before, after] for all axes, or a list of one of
// those for each.
static bool want_pads(Elab *e, Value v, const char *who, uint32_t n, int64_t *before,
                      int64_t *after) {
    bool each = v.kind == KindList && !is_pair(v);
    if (each && v.list.n != n)
        return not_each(e, v, who, "a number, [before, after]", n);
    for (uint32_t i = 0; i < n; i++)
        if (!want_pad(e, each ? v.list.at[i] : v, who, &before[i], &after[i]))
            return false;
    return true;
}

// [before, after] of each axis.
Value builtin_pads(Elab *e, const Value *in, uint32_t n) {
    List size; // of any length: it need not be a tensor's
    (void)n;
    if (!want_list(e, in[1], "pads", &size))
        return POISON;
    int64_t *before = arena_array(e->perm, int64_t, size.n),
            *after = arena_array(e->perm, int64_t, size.n);
    if (!want_pads(e, in[0], "pad", size.n, before, after))
        return POISON;
    Value *out = arena_array(e->perm, Value, size.n);
    for (uint32_t i = 0; i < size.n; i++) {
        Value *pair = arena_array(e->perm, Value, 2);
        pair[0] = value_num((double)before[i]);
        pair[1] = value_num((double)after[i]);
        out[i] = value_list(pair, 2);
    }
    return value_list(out, size.n);
}

// Elements 1..n mirrored before the first, and the same behind the last.
Value builtin_reflect_pad(Elab *e, const Value *in, uint32_t n) {
    Val x;
    int64_t before[MAX_RANK], after[MAX_RANK];
    (void)n;
    if (!want_spatial(e, in[0], "reflect_pad", &x) ||
        !want_pads(e, in[1], "reflect_pad", spatial(x), before, after))
        return POISON;
    Type t = val_type(x), whole = t;
    for (uint32_t axis = 1; axis < t.rank; axis++) {
        int64_t from = before[axis - 1], to = after[axis - 1], last = t.dim[axis] - 1;
        if (from < 0 || to < 0 || from > last || to > last) {
            diag(e->f, DiagE0413, here(e), (long long)(from < 0 || from > last ? from : to),
                 SARG(type_text(e->perm, &t)));
            return POISON;
        }
        whole.dim[axis] += from + to;
        if (!size_fits(e, &whole))
            return POISON;
        Val part[3];
        uint32_t parts = 0;
        if (from)
            part[parts++] = Flip(part_of(x, axis, 1, from), 2u << axis);
        part[parts++] = x;
        if (to)
            part[parts++] = Flip(part_of(x, axis, last - to, to), 2u << axis);
        if (parts > 1)
            x = Concat(part, parts, axis);
    }
    return value_tensor(x);
}

// Each element of an axis `by` times; id 0 after a diagnostic.
static Val repeated(Elab *e, Val x, uint32_t axis, int64_t by) {
    Type merged = val_type(x);
    merged.dim[axis] *= by;
    if (!room_for_axis(e, x) || !size_fits(e, &merged))
        return (Val){0};
    x = with_axis(x, axis + 1);
    Type wide = val_type(x);
    wide.dim[axis + 1] = by;
    return Reshape(Expand(x, wide), merged.rank, merged.dim);
}

Value builtin_upsample(Elab *e, const Value *in, uint32_t n) {
    Val x;
    int64_t each[MAX_RANK];
    (void)n;
    if (!want_spatial(e, in[0], "upsample", &x) ||
        !want_each(e, in[1], "upsample", spatial(x), 1, each))
        return POISON;
    for (uint32_t i = 0, axes = spatial(x); i < axes; i++) {
        if (each[i] < 1 || each[i] > 1024) {
            diag(e->f, DiagE0306, here(e), "upsample", "a factor from 1 to 1024",
                 SARG(value_text(e, in[1])));
            return POISON;
        }
        if (each[i] > 1)
            x = repeated(e, x, i + 1, each[i]);
        if (!x.id)
            return POISON;
    }
    return value_tensor(x);
}

Value builtin_avg_blocks(Elab *e, const Value *in, uint32_t n) {
    Val x;
    int64_t each[MAX_RANK];
    double count = 1;
    (void)n;
    if (!want_spatial(e, in[0], "avg_pool", &x) ||
        !want_each(e, in[1], "avg_pool", spatial(x), 1, each))
        return POISON;
    Type t = val_type(x);
    for (uint32_t axis = 1; axis < t.rank; axis++) {
        int64_t by = each[axis - 1];
        if (by < 1 || t.dim[axis] % by) {
            diag(e->f, DiagE0414, here(e), (long long)by, SARG(type_text(e->perm, &t)));
            return POISON;
        }
        if (by == 1)
            continue;
        if (!room_for_axis(e, x))
            return POISON;
        Type pooled = val_type(x);
        pooled.dim[axis] /= by;
        Type split = val_type(with_axis(x, axis + 1));
        split.dim[axis] = pooled.dim[axis];
        split.dim[axis + 1] = by;
        x = Reshape(Sum(Reshape(x, split.rank, split.dim), 4u << axis), pooled.rank, pooled.dim);
        count *= (double)by;
    }
    return value_tensor(count == 1 ? x : Mul(x, Number(x.b, 1 / count)));
}

// --- convolution ---------------------------------------------------------------------------------

static bool is_same(Value pad) {
    return pad.kind == KindStr && str_eq(pad.str, STR("same"));
}

// A number of elements that options may make absurd: the shape rules refuse it where it saturates.
static int64_t saturated(double n) {
    return (int64_t)fmax(-0x1p60, fmin(n, 0x1p60));
}

static int64_t span_of_kernel(const ConvGeom *c, uint32_t i, int64_t kernel) {
    return saturated((double)(kernel - 1) * (double)c->dilation[i] + 1);
}

// TensorFlow's SAME: extent / stride, rounded up (of the adjoint: extent * stride, also where the
// kernel is smaller than the stride and leaves the last ones zero); where it takes an odd number of
// zeros, one more of them behind.
static void same_pads(const Type *x, const Type *w, bool adjoint, ConvGeom *out) {
    for (uint32_t i = 0; i < out->n && i + 2u < w->rank; i++) {
        int64_t s = out->stride[i] > 0 ? out->stride[i] : 1, n = x->dim[1 + i],
                k = span_of_kernel(out, i, w->dim[2 + i]);
        int64_t all = adjoint ? k - s : ((n + s - 1) / s - 1) * s + k - n;
        all = all > 0 ? all : 0;
        out->before[i] = all / 2;
        out->after[i] = all - all / 2;
    }
}

// Two numbers that differ, where the kernel does too, may be meant as one for each axis.
static void warn_of_pair(Elab *e, Value pad, const ConvGeom *c, const Type *w) {
    if (!is_pair(pad) || c->n != 2 || w->rank != 4 || w->dim[2] == w->dim[3] ||
        c->before[0] == c->after[0])
        return;
    long long a = c->before[0], b = c->after[0];
    diag(e->f, DiagW0907, here(e), a, b, a, b, (long long)w->dim[2], (long long)w->dim[3]);
    diag_help(e->f,
              "PyTorch's padding=(%lld, %lld) is pad=[[%lld, %lld], [%lld, %lld]]; if the first is "
              "meant, write pad=[[%lld, %lld], [%lld, %lld]]",
              a, b, a, a, b, b, a, b, a, b);
}

// in: stride, pad, dilation, groups. w is [out, in/groups, k...], of the adjoint [in, out/groups,
// k...].
static bool want_geometry(Elab *e, const Value *in, Type x, Type w, bool adjoint, ConvGeom *out) {
    *out = (ConvGeom){.n = x.rank ? x.rank - 1u : 0, .groups = 1};
    if (out->n < 1 || out->n > 3) {
        diag(e->f, DiagE0415, here(e), "a convolution", "1 to 3 ", SARG(type_text(e->perm, &x)));
        in_library(e);
        return false;
    }
    if (!want_each(e, in[0], "stride", out->n, 1, out->stride) ||
        !want_each(e, in[2], "dilation", out->n, 1, out->dilation))
        return false;
    if (in[3].kind != KindAbsent && !want_int(e, in[3], "groups", &out->groups))
        return false;
    if (is_same(in[1]))
        same_pads(&x, &w, adjoint, out);
    else if (in[1].kind == KindStr) {
        (void)not_each(e, in[1], "pad", "\"same\", a number, [before, after]", out->n);
        diag_help(e->f, "pad=0, the default, adds nothing");
        return false;
    } else if (in[1].kind != KindAbsent) {
        if (!want_pads(e, in[1], "pad", out->n, out->before, out->after))
            return false;
        warn_of_pair(e, in[1], out, &w);
    }
    return true;
}

Value builtin_convolve(Elab *e, const Value *in, uint32_t n) {
    Val x[2];
    ConvGeom c;
    (void)n;
    if (!want_tensor(e, in[0], &x[0]) || !want_tensor(e, in[1], &x[1]))
        return POISON;
    if (!want_geometry(e, in + 2, val_type(x[0]), val_type(x[1]), false, &c))
        return POISON;
    Attr at = conv_attr(&c);
    uint32_t nodes = x[0].b->g->node.n;
    return op_fits(e, OpConv, x, 2, &at, NULL) ? anchored(e, nodes, Conv(x[0], x[1], &c)) : POISON;
}

// The extent the adjoint gives along spatial axis i.
static int64_t wide_extent(const ConvGeom *c, uint32_t i, int64_t in, int64_t kernel, bool same) {
    double stride = (double)c->stride[i];
    return same ? saturated((double)in * stride)
                : saturated((double)(in - 1) * stride) + span_of_kernel(c, i, kernel) -
                      c->before[i] - c->after[i];
}

// The input gradient of the convolution whose output is x.
Value builtin_convolve_transpose(Elab *e, const Value *in, uint32_t n) {
    Val x[2];
    ConvGeom c;
    (void)n;
    if (!want_tensor(e, in[0], &x[0]) || !want_tensor(e, in[1], &x[1]))
        return POISON;
    Type t = val_type(x[0]), w = val_type(x[1]);
    if (!want_geometry(e, in + 2, t, w, true, &c))
        return POISON;
    if (w.rank == c.n + 2) {
        t.dim[0] = saturated((double)w.dim[1] * (double)c.groups);
        for (uint32_t i = 0; i < c.n; i++)
            t.dim[1 + i] = wide_extent(&c, i, t.dim[1 + i], w.dim[2 + i], is_same(in[3]));
    }
    Attr at = conv_attr(&c);
    uint32_t nodes = x[0].b->g->node.n;
    return op_fits(e, OpConvDx, x, 2, &at, &t) ? anchored(e, nodes, ConvDx(x[0], x[1], &c, t))
                                               : POISON;
}
