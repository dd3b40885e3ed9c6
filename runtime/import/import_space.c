// import_space.c - operations over spatial axes: pooling, borders, resampling.
#include "import.h"

static bool image_of(Import *m, uint32_t *axes) {
    const Shape *s = &import_operand(m, 0)->shape;
    *axes = s->rank - 2;
    return (s->rank >= 3 && s->rank <= 5 && s->batch == 0 && s->dim[0] == 1) ||
           import_refuse(m, "its operand is no image of 1 to 3 axes behind batch and channels");
}

// "3", or "[3, 5]" where they differ.
static Str each_text(Import *m, uint32_t n, const int64_t *x) {
    Text t = {.arena = m->a};
    bool equal = true;
    for (uint32_t i = 1; i < n; i++)
        equal = equal && x[i] == x[0];
    for (uint32_t i = 0; i < (equal ? 1 : n); i++)
        text_fmt(&t, "%s%lld", i ? ", " : equal ? "" : "[", (long long)x[i]);
    text_fmt(&t, "%s", equal ? "" : "]");
    return text_str(&t);
}

Str pads_text(Import *m, uint32_t n, const int64_t *before, const int64_t *after) {
    Text t = {.arena = m->a};
    bool alike = true;
    for (uint32_t i = 0; i < n; i++)
        alike = alike && before[i] == before[0] && after[i] == before[0];
    if (alike)
        return format(m, "%lld", (long long)before[0]);
    for (uint32_t i = 0; i < n; i++)
        text_fmt(&t, "%s[%lld, %lld]", i ? ", " : "[", (long long)before[i], (long long)after[i]);
    text_char(&t, ']');
    return text_str(&t);
}

// --- pooling -------------------------------------------------------------------------------------

typedef struct Windows {
    uint32_t n;
    int64_t size[3], stride[3], before[3], after[3], count[3];
    int64_t over[3]; // elements that the last reaches past the padding: ceil_mode
    bool padded;
} Windows;

bool each_axis(Import *m, const char *name, uint32_t n, int64_t otherwise, int64_t *out) {
    Ints x;
    if (!ints_of(m, name, -1, &x))
        return false;
    if (x.n && x.n != n)
        return import_refuse(m, "its `%s` are %u numbers and not %u", name, x.n, n);
    for (uint32_t i = 0; i < n; i++) {
        out[i] = x.n ? x.at[i] : otherwise;
        if (out[i] < 0 || out[i] > 1 << 20)
            return import_refuse(m, "its `%s` are not from 0 on", name);
    }
    return true;
}

void same_pads(int64_t n, int64_t stride, int64_t kernel, bool upper, int64_t *before,
               int64_t *after) {
    int64_t all = ((n + stride - 1) / stride - 1) * stride + kernel - n;
    all = all > 0 ? all : 0;
    *before = upper ? all / 2 : all - all / 2;
    *after = all - *before;
}

static bool windows_of(Import *m, Windows *w) {
    const Shape *s = &import_operand(m, 0)->shape;
    int64_t pads[6] = {0}, dilation[3], ceil_mode = attr_int(m, "ceil_mode", 0);
    Str pad = attr_word(m, "auto_pad", "NOTSET");
    *w = (Windows){0};
    if (!image_of(m, &w->n) || !each_axis(m, "kernel_shape", w->n, 0, w->size) ||
        !each_axis(m, "strides", w->n, 1, w->stride) || !each_axis(m, "pads", 2 * w->n, 0, pads) ||
        !each_axis(m, "dilations", w->n, 1, dilation))
        return false;
    for (uint32_t i = 0; i < w->n; i++) {
        if (!w->size[i] || !w->stride[i] || dilation[i] != 1)
            return import_refuse(m, "its windows have no size or stride, or a dilation");
        w->before[i] = pads[i];
        w->after[i] = pads[w->n + i];
    }
    for (uint32_t i = 0; i < w->n && str_starts(pad, STR("SAME")); i++)
        same_pads(s->dim[2 + i], w->stride[i], w->size[i], str_eq(pad, STR("SAME_UPPER")),
                  &w->before[i], &w->after[i]);
    for (uint32_t i = 0; i < w->n; i++) {
        int64_t n = s->dim[2 + i], k = w->size[i], by = w->stride[i],
                all = n + w->before[i] + w->after[i] - k;
        if (all < 0)
            return import_refuse(m, "its windows are larger than its operand");
        w->count[i] = (ceil_mode ? (all + by - 1) / by : all / by) + 1;
        if (ceil_mode && (w->count[i] - 1) * by >= n + w->before[i])
            w->count[i]--; // PyTorch: a window begins in the image, or in the padding before it
        int64_t past = (w->count[i] - 1) * by - all;
        w->over[i] = past > 0 ? past : 0;
        w->padded = w->padded || w->before[i] || w->after[i];
    }
    return true;
}

// By the library, which counts no padding: padding that is counted are zeros in front of it.
bool op_pool(Import *m, const Row *row) {
    Windows w;
    const int64_t none[3] = {0};
    Text t = {.arena = m->a};
    if (!windows_of(m, &w))
        return false;
    bool counted = attr_int(m, "count_include_pad", 0) && w.padded;
    Shape to = import_operand(m, 0)->shape;
    memcpy(to.dim + 2, w.count, w.n * sizeof *w.count);
    if (counted)
        text_fmt(&t, "zero_pad(%.*s) |> ", SARG(pads_text(m, w.n, w.before, w.after)));
    for (uint32_t i = 0; i < w.n; i++)
        w.over[i] += counted ? 0 : w.after[i];
    Str size = each_text(m, w.n, w.size), by = each_text(m, w.n, w.stride),
        pad = pads_text(m, w.n, counted ? none : w.before, w.over);
    text_fmt(&t, "%s(%.*s", row->text, SARG(size));
    if (!str_eq(size, by))
        text_fmt(&t, ", stride=%.*s", SARG(by));
    if (!str_eq(pad, STR("0")))
        text_fmt(&t, ", pad=%.*s", SARG(pad));
    text_char(&t, ')');
    return import_give(m, 0, to, BindPipe, import_piped(m, 0, "%.*s", SARG(text_str(&t))));
}

bool op_global_pool(Import *m, const Row *row) {
    const Shape s = import_operand(m, 0)->shape;
    uint32_t axes;
    if (!image_of(m, &axes))
        return false;
    uint32_t mask = ((1u << s.rank) - 1) & ~3u;
    return import_give(
        m, 0, shape_reduced(&s, mask, true), BindPipe,
        import_piped(m, 0, "%s(%.*s, keep=true)", row->text, SARG(axes_text(m, &s, mask))));
}

// --- borders -------------------------------------------------------------------------------------

static bool pads_of(Import *m, Shape *to, int64_t *before, int64_t *after) {
    const Shape *s = &import_operand(m, 0)->shape;
    Ints pads, axes;
    if (!ints_of(m, "pads", 1, &pads) || !ints_of(m, "axes", 3, &axes))
        return false;
    uint32_t n = axes.n ? axes.n : s->rank;
    if (pads.n != 2 * n)
        return import_refuse(m, "its `pads` are not two for each axis");
    *to = *s;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t axis;
        if (!axis_in(m, axes.n ? axes.at[i] : i, s->rank, &axis))
            return false;
        before[axis] = pads.at[i];
        after[axis] = pads.at[n + i];
        if (((int)axis == s->batch && (before[axis] || after[axis])) ||
            before[axis] + s->dim[axis] + after[axis] < 1)
            return import_refuse(m, "it pads the batch, or leaves nothing");
        to->dim[axis] += before[axis] + after[axis];
    }
    return true;
}

// Negative ones are cut off.
static Str cut(Import *m, Str x, const Shape *s, int64_t *before, int64_t *after) {
    Text t = {.arena = m->a};
    bool any = false;
    text_fmt(&t, "%.*s[", SARG(x));
    for (uint32_t i = 0, n = 0; i < s->rank; i++) {
        if (shape_own_axis(s, i) < 0)
            continue;
        text_fmt(&t, "%s", n++ ? ", " : "");
        if (before[i] < 0)
            text_fmt(&t, "%lld", (long long)-before[i]);
        text_char(&t, ':');
        if (after[i] < 0)
            text_fmt(&t, "%lld", (long long)(s->dim[i] + after[i]));
        any = any || before[i] < 0 || after[i] < 0;
        before[i] = before[i] < 0 ? 0 : before[i];
        after[i] = after[i] < 0 ? 0 : after[i];
    }
    text_char(&t, ']');
    return any ? text_str(&t) : x;
}

// Elements around spatial axes, fewer than there are: zero_pad, edge_pad, reflect_pad.
static bool is_border(const Shape *s, const int64_t *before, const int64_t *after) {
    bool fine = s->rank > 2 && s->batch == 0 && s->dim[0] == 1 && !before[1] && !after[1],
         any = false;
    for (uint32_t i = 2; fine && i < s->rank; i++) {
        fine = before[i] >= 0 && after[i] >= 0 && before[i] < s->dim[i] && after[i] < s->dim[i];
        any = any || before[i] || after[i];
    }
    return fine && any;
}

static bool pads_any(const Shape *s, const int64_t *before, const int64_t *after) {
    for (uint32_t i = 0; i < s->rank; i++)
        if (shape_own_axis(s, i) >= 0 && (before[i] || after[i]))
            return true;
    return false;
}

static void put_constant_pad(Import *m, const Shape *s, const int64_t *before, const int64_t *after,
                             double value, Text *t) {
    text_fmt(t, " |> constant_pad([");
    for (uint32_t i = 0, n = 0; i < s->rank; i++)
        if (shape_own_axis(s, i) >= 0)
            text_fmt(t, "%s[%lld, %lld]", n++ ? ", " : "", (long long)before[i],
                     (long long)after[i]);
    text_char(t, ']');
    if (value != 0)
        text_fmt(t, ", %.*s", SARG(number_text(m->a, value)));
    text_char(t, ')');
}

// By the indices of the elements that are there: of the edge, or reflected.
static bool put_index_pad(Import *m, const Shape *s, const int64_t *before, const int64_t *after,
                          bool edge, Text *t) {
    for (uint32_t i = 0; i < s->rank; i++) {
        int at = shape_own_axis(s, i);
        long long from = (long long)-before[i], last = (long long)s->dim[i] - 1;
        if (at < 0 || (!before[i] && !after[i]))
            continue;
        if (!edge && (before[i] > last || after[i] > last))
            return import_refuse(m, "it reflects more elements than there are");
        Str range = format(m, "arange(%lld, %lld)", from, last + 1 + (long long)after[i]);
        if (edge)
            text_fmt(t, " |> take(clamp(%.*s, 0, %lld), %d)", SARG(range), last, at);
        else
            text_fmt(t, " |> take(%lld - abs(%lld - abs(%.*s)), %d)", last, last, SARG(range), at);
    }
    return true;
}

bool op_pad(Import *m, const Row *row) {
    const Shape s = import_operand(m, 0)->shape;
    Shape to, mid = s;
    int64_t before[ONNX_RANK] = {0}, after[ONNX_RANK] = {0};
    double value = attr_real(m, "value", 0);
    Str mode = attr_word(m, "mode", "constant");
    Text t = {.arena = m->a};
    (void)row;
    if (!pads_of(m, &to, before, after) ||
        (!import_attribute(m, "value") && !real_of(m, 2, 0, &value)))
        return false;
    for (uint32_t i = 0; i < s.rank; i++)
        mid.dim[i] += (before[i] < 0 ? before[i] : 0) + (after[i] < 0 ? after[i] : 0);
    bool constant = str_eq(mode, STR("constant")), edge = str_eq(mode, STR("edge"));
    if (!constant && !edge && !str_eq(mode, STR("reflect")))
        return import_refuse(m, "its mode is %.*s: constant, reflect and edge are known",
                             SARG(mode));
    if (is_border(&s, before, after) && (!constant || value == 0))
        return import_give(m, 0, to, BindPipe,
                           import_piped(m, 0, "%s(%.*s)",
                                        constant ? "zero_pad"
                                        : edge   ? "edge_pad"
                                                 : "reflect_pad",
                                        SARG(pads_text(m, s.rank - 2, before + 2, after + 2))));
    Str x = cut(m, name_of(m, 0), &s, before, after);
    if (!pads_any(&mid, before, after))
        return import_give(m, 0, to, BindCall, x);
    text_put(&t, x);
    if (constant)
        put_constant_pad(m, &mid, before, after, value, &t);
    else if (!put_index_pad(m, &mid, before, after, edge, &t))
        return false;
    return import_give(m, 0, to, BindPipe, text_str(&t));
}

// --- resampling ----------------------------------------------------------------------------------

typedef struct Resize {
    uint32_t n;
    int64_t from[3], to[3];
    double scale[3];
    bool exact; // scale is to / from
} Resize;

static bool sizes_of(Import *m, Resize *r) {
    const Shape *s = &import_operand(m, 0)->shape;
    bool old = m->opset < 11 || str_eq(m->node->op, STR("Upsample"));
    const Value *scales = import_operand(m, old ? 1 : 2),
                *sizes = old ? NULL : import_operand(m, 3);
    const OnnxAttribute *a = import_attribute(m, "scales");
    Ints axes;
    if (!image_of(m, &r->n) || !ints_of(m, "axes", -1, &axes))
        return false;
    const Value *by = sizes && sizes->count ? sizes : scales;
    const OnnxTensor *t = by && by->kind == ValueWeight ? by->tensor : NULL;
    size_t count = a ? a->floats.n : t ? t->count : by ? by->count : 0;
    uint32_t given = axes.n ? axes.n : s->rank;
    if ((by && by->kind == ValueText) || count != given)
        return import_refuse(m, "its extents are computed by the net: export with fixed extents");
    r->exact = true;
    for (uint32_t i = 0; i < r->n; i++) {
        r->from[i] = r->to[i] = s->dim[2 + i];
        r->scale[i] = 1;
    }
    for (uint32_t i = 0; i < given; i++) {
        uint32_t axis;
        if (!axis_in(m, axes.n ? axes.at[i] : i, s->rank, &axis))
            return false;
        double x = a ? a->floats.at[i] : t ? onnx_at(t, i) : by->number[i];
        bool size = by == sizes && !a && sizes,
             batch = axis == 0 && (m->samples < 1 || x == (double)m->samples),
             same = size ? batch || (axis && x == (double)s->dim[axis]) : x == 1;
        if (axis < 2 && !same)
            return import_refuse(m, "it resizes batch or channels");
        if (axis < 2)
            continue;
        double n = (double)s->dim[axis], to = size ? x : floor((double)((float)n * (float)x));
        if (!(to >= 1 && to < 1 << 20))
            return import_refuse(m, "it resizes to %g elements", to);
        r->to[axis - 2] = (int64_t)to;
        r->scale[axis - 2] = size ? to / n : x;
        r->exact = r->exact && fabs(r->scale[axis - 2] - to / n) < 1e-5;
    }
    return true;
}

// Where element i of the result lies among the operand's, in floats as in ONNX Runtime.
static float asymmetric(const Resize *r, uint32_t axis, int64_t i) {
    return (float)i / (float)r->scale[axis];
}
static float half_pixel(const Resize *r, uint32_t axis, int64_t i) {
    return ((float)i + 0.5F) / (float)r->scale[axis] - 0.5F;
}
static float pytorch_half_pixel(const Resize *r, uint32_t axis, int64_t i) {
    return r->to[axis] > 1 ? half_pixel(r, axis, i) : 0;
}
static float align_corners(const Resize *r, uint32_t axis, int64_t i) {
    int64_t last = r->to[axis] - 1;
    return last ? (float)(i * (r->from[axis] - 1)) / (float)last : 0;
}

typedef float Place(const Resize *r, uint32_t axis, int64_t i);
static const struct {
    const char *mode;
    Place *place;
} places[] = {
    {"asymmetric", asymmetric},
    {"half_pixel", half_pixel},
    {"pytorch_half_pixel", pytorch_half_pixel},
    {"align_corners", align_corners},
};

static Place *place_of(Str mode) { // NULL: it has no form here
    for (size_t i = 0; i < sizeof places / sizeof *places; i++)
        if (str_eq(mode, str_c(places[i].mode)))
            return places[i].place;
    return NULL;
}

static float nearest_of(Str how, float x) {
    if (str_eq(how, STR("floor")))
        return floorf(x);
    if (str_eq(how, STR("ceil")))
        return ceilf(x);
    return str_eq(how, STR("round_prefer_ceil")) ? floorf(x + 0.5F) : ceilf(x - 0.5F);
}

static bool give_nearest(Import *m, Str mode, Str how, const Resize *r, const Shape *to) {
    Place *place = place_of(mode);
    bool times = place != NULL, floors = times;
    int64_t factor[3] = {0};
    for (uint32_t k = 0; place && k < r->n; k++) {
        factor[k] = r->to[k] / r->from[k];
        times = times && r->to[k] % r->from[k] == 0;
        for (int64_t i = 0; i < r->to[k]; i++) {
            float at = nearest_of(how, place(r, k, i));
            int64_t x = (int64_t)fmaxf(0, fminf(at, (float)(r->from[k] - 1)));
            times = times && x == i / factor[k];
            floors = floors && x == i * r->from[k] / r->to[k];
        }
    }
    if (times)
        return import_give(m, 0, *to, BindPipe,
                           import_piped(m, 0, "upsample(%.*s)", SARG(each_text(m, r->n, factor))));
    if (floors)
        return import_give(
            m, 0, *to, BindPipe,
            import_piped(m, 0, "resize_nearest(%.*s)", SARG(each_text(m, r->n, r->to))));
    return import_refuse(
        m,
        "nearest neighbours by %.*s, %.*s have no form here: PyTorch's \"nearest\" is "
        "asymmetric, floor",
        SARG(mode), SARG(how));
}

// Of centers of pixels; PyTorch's place an axis of one element elsewhere.
static bool is_half_pixel(Place *place, const Resize *r) {
    bool half = place == half_pixel || place == pytorch_half_pixel;
    for (uint32_t i = 0; i < r->n && place == pytorch_half_pixel; i++)
        half = half && (r->to[i] > 1 || r->from[i] == 1);
    return half;
}

static bool scales_alike(const Resize *r) {
    for (uint32_t i = 1; i < r->n; i++)
        if (fabs(r->scale[i] - r->scale[0]) >= 1e-6)
            return false;
    return r->exact;
}

// Linear and cubic interpolation; empty: there is no call for it.
static Str smooth_call(Import *m, Str kind, Place *place, const Resize *r) {
    bool linear = str_starts(kind, STR("linear")) || str_starts(kind, STR("bilinear")),
         half = is_half_pixel(place, r), antialias = attr_int(m, "antialias", 0),
         filters = antialias;
    for (uint32_t i = 0; i < r->n && filters; i++)
        filters = r->to[i] < r->from[i];
    Str size = each_text(m, r->n, r->to);
    if (linear && !filters && place == align_corners)
        return format(m, "resize_linear(%.*s, align_corners=true)", SARG(size));
    if (linear && !filters && half && r->exact)
        return format(m, "resize_linear(%.*s)", SARG(size));
    if (str_eq(kind, STR("cubic")) && half && scales_alike(r) && !antialias &&
        !attr_int(m, "exclude_outside", 0) &&
        fabs(attr_real(m, "cubic_coeff_a", -0.75) + 0.75) < 1e-6)
        return format(m, "resized(%.*s, cubic_points(%lld/%lld))", SARG(size), (long long)r->to[0],
                      (long long)r->from[0]);
    return (Str){0};
}

bool op_resize(Import *m, const Row *row) {
    bool old = m->opset < 11 || str_eq(m->node->op, STR("Upsample"));
    Str kind = attr_word(m, "mode", "nearest"),
        mode =
            old ? STR("asymmetric") : attr_word(m, "coordinate_transformation_mode", "half_pixel");
    Resize r = {0};
    (void)row;
    if (!str_eq(attr_word(m, "keep_aspect_ratio_policy", "stretch"), STR("stretch")))
        return import_refuse(m,
                             "it keeps the aspect ratio: export it with the extents that come out");
    if (!sizes_of(m, &r))
        return false;
    Shape to = import_operand(m, 0)->shape;
    memcpy(to.dim + 2, r.to, r.n * sizeof *r.to);
    if (str_eq(kind, STR("nearest")))
        return give_nearest(m, mode,
                            old ? STR("floor") : attr_word(m, "nearest_mode", "round_prefer_floor"),
                            &r, &to);
    Str call = smooth_call(m, kind, place_of(mode), &r);
    if (call.len)
        return import_give(m, 0, to, BindPipe, import_piped(m, 0, "%.*s", SARG(call)));
    return import_refuse(
        m,
        "%.*s interpolation by %.*s coordinates has no form here: known are PyTorch's "
        "nearest, linear and cubic, half_pixel, linear also with align_corners",
        SARG(kind), SARG(mode));
}
