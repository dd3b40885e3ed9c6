// op_conv.c - convolution over 1 to 3 spatial axes: Conv and its two gradients.
//
// The three are bilinear in (x, w), (gy, w), (x, gy) and closed under differentiation. ConvDx with
// a stated extent is the transposed convolution, whose diagnostics speak of its own input and
// weight. Weights are [out, in / groups, kernel...]. ConvDw sums over the batch, unless the weight
// is per-sample: then pass/unfold.c makes products of all three.
#include "op.h"

ConvGeom conv_geom(const Attr *a) {
    ConvGeom c = {.n = (uint32_t)a->i[0]};
    const int64_t *at = a->i + 1;
    for (uint32_t i = 0; i < c.n; i++)
        c.stride[i] = *at++;
    for (uint32_t i = 0; i < c.n; i++)
        c.before[i] = *at++;
    for (uint32_t i = 0; i < c.n; i++)
        c.after[i] = *at++;
    for (uint32_t i = 0; i < c.n; i++)
        c.dilation[i] = *at++;
    c.groups = *at;
    return c;
}

Attr conv_attr(const ConvGeom *c) {
    if (c->n < 1 || c->n > 3)
        bug("a convolution over %u axes", c->n);
    Attr a = {.n = 0};
    a.i[a.n++] = c->n;
    for (uint32_t i = 0; i < c->n; i++)
        a.i[a.n++] = c->stride[i];
    for (uint32_t i = 0; i < c->n; i++)
        a.i[a.n++] = c->before[i];
    for (uint32_t i = 0; i < c->n; i++)
        a.i[a.n++] = c->after[i];
    for (uint32_t i = 0; i < c->n; i++)
        a.i[a.n++] = c->dilation[i];
    a.i[a.n++] = c->groups;
    return a;
}

// --- shape rules ---------------------------------------------------------------------------------

static bool read_geom(Infer *q, ConvGeom *c) {
    const Attr *at = q->attr;
    if (at->n < 1 || at->i[0] < 1 || at->i[0] > 3 || at->n != 2 + 4 * at->i[0])
        return infer_fail(q, "a convolution goes over 1 to 3 spatial axes");
    static const struct {
        const char *name;
        int min;
    } option[] = {{"stride", 1}, {"pad", 0}, {"pad", 0}, {"dilation", 1}, {"groups", 1}};
    for (uint32_t i = 1; i < at->n; i++) {
        uint32_t k = (i - 1) / (uint32_t)at->i[0];
        if (at->i[i] < option[k].min || at->i[i] > INT32_MAX)
            return infer_fail(q, "%s must be from %d to 2^31 - 1, found %lld", option[k].name,
                              option[k].min, (long long)at->i[i]);
    }
    *c = conv_geom(at);
    return true;
}

static bool has_spatial_axes(Infer *q, const ConvGeom *c, const char *who, const Type *t) {
    return t->rank == c->n + 1 ||
           infer_fail(q, "%s should have channels and %u spatial axes, it is %s", who, c->n,
                      type_name(t).s);
}

// Of the adjoint, the weight's first axis is what goes in.
static bool weight_fits(Infer *q, const ConvGeom *c, const Type *w, bool adjoint) {
    TypeName name = type_name(w);
    if (w->rank != c->n + 2)
        return infer_fail(q, "the weight %s should be [%s, %u extents]", name.s,
                          adjoint ? "in, out" : "out, in", c->n);
    if (w->dim[0] % c->groups)
        return infer_fail(q, "%lld groups do not divide the weight's %lld %sputs",
                          (long long)c->groups, (long long)w->dim[0], adjoint ? "in" : "out");
    return true;
}

static bool channels_fit(Infer *q, const char *who, const Type *t, const Type *w,
                         int64_t expected) {
    return t->dim[0] == expected ||
           infer_fail(q, "%s has %lld channels, the weight %s expects %lld", who,
                      (long long)t->dim[0], type_name(w).s, (long long)expected);
}

// Extent i of the convolution's output for extent `in`; below 1 when the kernel does not fit.
static int64_t out_extent(const ConvGeom *c, uint32_t i, int64_t in, int64_t kernel) {
    int64_t last = in + c->before[i] + c->after[i] - 1;
    if (kernel - 1 > last / c->dilation[i]) // the product of the two may overflow
        return 0;
    return (last - (kernel - 1) * c->dilation[i]) / c->stride[i] + 1;
}

// That x, convolved with w, has the spatial extents of gy.
static bool extents_meet(Infer *q, const ConvGeom *c, const Type *x, const Type *w,
                         const Type *gy) {
    for (uint32_t i = 0; i < c->n; i++) {
        int64_t made = out_extent(c, i, x->dim[1 + i], w->dim[2 + i]);
        if (made != gy->dim[1 + i])
            return infer_fail(q,
                              "extents clash: %s with kernel %lld, stride %lld, padding [%lld, "
                              "%lld] has %lld on axis %u, not %lld",
                              type_name(x).s, (long long)w->dim[2 + i], (long long)c->stride[i],
                              (long long)c->before[i], (long long)c->after[i], (long long)made,
                              1 + i, (long long)gy->dim[1 + i]);
    }
    return true;
}

bool infer_Conv(Infer *q) {
    ConvGeom c;
    const Type *x = infer_in(q, 0), *w = infer_in(q, 1);
    if (!read_geom(q, &c) || !has_spatial_axes(q, &c, "the input", x) ||
        !weight_fits(q, &c, w, false) ||
        !channels_fit(q, "the input", x, w, w->dim[1] * c.groups) || !infer_dtypes(q, 0, 2))
        return false;
    q->out = *x;
    q->out.batched = x->batched || w->batched;
    q->out.dim[0] = w->dim[0];
    for (uint32_t i = 0; i < c.n; i++) {
        int64_t in = x->dim[1 + i], kernel = w->dim[2 + i];
        q->out.dim[1 + i] = out_extent(&c, i, in, kernel);
        if (q->out.dim[1 + i] < 1)
            return infer_fail(q,
                              "a kernel of %lld with dilation %lld does not fit the input's extent "
                              "of %lld with padding [%lld, %lld]",
                              (long long)kernel, (long long)c.dilation[i], (long long)in,
                              (long long)c.before[i], (long long)c.after[i]);
    }
    return true;
}

bool infer_ConvDx(Infer *q) {
    ConvGeom c;
    const Type *gy = infer_in(q, 0), *w = infer_in(q, 1);
    if (!infer_wants(q, "conv_dx") || !read_geom(q, &c) ||
        !has_spatial_axes(q, &c, "the input", gy) ||
        !has_spatial_axes(q, &c, "the result", &q->out) || !weight_fits(q, &c, w, true) ||
        !channels_fit(q, "the input", gy, w, w->dim[0]) || !infer_dtypes(q, 0, 2) ||
        !channels_fit(q, "the result", &q->out, w, w->dim[1] * c.groups))
        return false;
    q->out.batched = gy->batched || w->batched;
    q->out.dtype = gy->dtype;
    return extents_meet(q, &c, &q->out, w, gy);
}

bool infer_ConvDw(Infer *q) {
    ConvGeom c;
    const Type *x = infer_in(q, 0), *gy = infer_in(q, 1), *w = &q->out;
    if (!infer_wants(q, "conv_dw") || !read_geom(q, &c) ||
        !has_spatial_axes(q, &c, "the input", x) ||
        !has_spatial_axes(q, &c, "the output's gradient", gy))
        return false;
    q->out.dtype = infer_product(q, x->dtype);
    if (w->batched && !x->batched && !gy->batched)
        return infer_fail(q, "%s and %s are shared, their product is too", type_name(x).s,
                          type_name(gy).s);
    if (!w->batched && x->batched != gy->batched)
        return infer_fail(q, "only one of %s and %s has a batch to sum over", type_name(x).s,
                          type_name(gy).s);
    return weight_fits(q, &c, w, false) &&
           channels_fit(q, "the input", x, w, w->dim[1] * c.groups) &&
           channels_fit(q, "the output's gradient", gy, w, w->dim[0]) && infer_dtypes(q, 0, 2) &&
           extents_meet(q, &c, x, w, gy);
}

// --- gradients -----------------------------------------------------------------------------------

static ConvGeom geom_of(Val y) {
    Attr attr = val_attr(y);
    return conv_geom(&attr);
}

Val grad_Conv(Val y, Val g, uint32_t k) {
    ConvGeom c = geom_of(y);
    Val x = val_in(y, 0), w = val_in(y, 1);
    return k == 0 ? ConvDx(g, w, &c, val_type(x)) : ConvDw(x, g, &c, val_type(w));
}

Val grad_ConvDx(Val y, Val g, uint32_t k) {
    ConvGeom c = geom_of(y);
    Val gy = val_in(y, 0), w = val_in(y, 1);
    return k == 0 ? Conv(g, w, &c) : ConvDw(g, gy, &c, val_type(w));
}

Val grad_ConvDw(Val y, Val g, uint32_t k) {
    ConvGeom c = geom_of(y);
    Val x = val_in(y, 0), gy = val_in(y, 1);
    return k == 0 ? ConvDx(gy, g, &c, val_type(x)) : Conv(x, g, &c);
}
