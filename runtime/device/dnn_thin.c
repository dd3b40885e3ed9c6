// dnn_thin.c - convolutions with few output channels (images), computed as convolutions with many.
//
// The library computes channels 16 at a time, so a convolution with 3 output channels runs at a
// fifth of the rate. Here neighbouring pixels become channels (space to depth): `b` along the last
// axis, and for an input gradient of stride s also the s residues along every axis (the sub-pixel
// form of a transposed convolution, Shi et al., 2016). The library then computes a stride-b
// convolution with a slightly wider kernel that contains the same weights, shifted, and zeros.
//
// Forward and weights' gradient: y[.., w, c] channels-last *is* y'[.., w / b, (w % b, c)], so
// nothing moves. Input gradient: x[R*i + r] = x'[i + d(r), (r, c)], one shuffle of runs of
// channels.
//
// Measured on one core, f32, against the library's own: gradient to 3x64x64 (k 4, stride 2, from
// 64 channels, batch 32) 6.5 to 2.3 ms; to 1x256x256 (k 5, stride 2, batch 4) 21.8 to 4.7; 64 to 3
// channels, k 7, on 256x256 37 to 14, its weights' gradient 36 to 20.
#include "dnn.h"

#include "integers.h"

#include <string.h>

enum {
    LANES = 16,
    THIN = 8,
    WIDEST = 14 // kernel elements along an axis of the library's direct gradient of weights
};

typedef struct Axis {      // one spatial axis of an input gradient
    int64_t k, s, p, x, y; // kernel, stride, padding before, extents of x and y
    int64_t b, r;          // steps of y taken at once; pixels of x made at once: s*b
    int64_t taps;          // kernel elements that reach one pixel: ceil(k / s)
    int64_t first;         // p / s
    int64_t wide, grid;    // extents of the wide kernel and of x'
} Axis;

// How many steps of y pixel r of a group is ahead; those a whole group ahead sit in the next one.
static int64_t ahead(const Axis *a, int64_t r) {
    return (r + a->p) / a->s - a->first;
}
static int64_t shift(const Axis *a, int64_t r) {
    return ahead(a, r) >= a->b;
}

// The kernel element that wide element u holds for pixel r, -1 none.
static int64_t tap(const Axis *a, int64_t r, int64_t u) {
    int64_t m = ahead(a, r) - a->b * shift(a, r) + a->taps - 1 - u;
    int64_t t = (r + a->p) % a->s + a->s * m;
    return m < 0 || m >= a->taps || t >= a->k ? -1 : t;
}

static void axis_set(Axis *a, int64_t b) {
    a->b = b;
    a->r = a->s * b;
    a->taps = ceil_div(a->k, a->s);
    a->first = a->p / a->s;
    a->wide = a->taps + b - 1;
    a->grid = (a->x + a->r - 1) / a->r + shift(a, a->r - 1);
}

// Work of one pixel: channels in whole vectors times kernel elements, `pixels` made at once.
static double cost(int64_t channels, int64_t elements, int64_t pixels) {
    return (double)((channels + LANES - 1) / LANES * LANES) * (double)elements / (double)pixels;
}

static bool plain(const DnnConv *c, const DnnShape *thin) {
    bool fine = c->weights.n == c->src.n && thin->stride[1] == 1 && thin->dim[1] <= THIN;
    for (int i = 0; i < c->src.n - 2; i++)
        fine = fine && c->dilation[i] == 0;
    return fine;
}

// --- few channels out ----------------------------------------------------------------------------

typedef struct Widen { // [rows, k, c] to [b, rows, k + (b-1)*s, c] and back; rows: o and all axes
                       // but the last
    const void *from;
    void *to;
    int64_t rows, k, c, b, s;
    size_t size; // of an element
} Widen;

static void widen(void *job, void *const staging[DNN_STAGING], int64_t round) {
    (void)round;
    (void)staging;
    const Widen *w = job;
    int64_t wide = w->k + (w->b - 1) * w->s;
    size_t step = (size_t)w->c * w->size, line = (size_t)w->k * step;
    memset(w->to, 0, (size_t)(w->b * w->rows * wide) * step);
    for (int64_t d = 0; d < w->b; d++)
        for (int64_t i = 0; i < w->rows; i++)
            memcpy((char *)w->to + (size_t)((d * w->rows + i) * wide + d * w->s) * step,
                   (const char *)w->from + (size_t)i * line, line);
}

static void narrow(void *job, void *const staging[DNN_STAGING], int64_t round) {
    (void)round;
    (void)staging;
    const Widen *w = job;
    int64_t wide = (w->k + (w->b - 1) * w->s) * w->c, line = w->k * w->c;
    for (int64_t i = 0; i < w->rows; i++)
        for (int64_t t = 0; t < line; t++) {
            float sum = 0;
            for (int64_t d = 0; d < w->b; d++)
                sum += ((const float *)w->from)[(d * w->rows + i) * wide + d * w->s * w->c + t];
            ((float *)w->to)[i * line + t] = sum;
        }
}

// At least two pixels of a row are left: with one the library multiplies a matrix by vectors, half
// to two thirds as fast as without (17 pixels from 32 channels to one, k 3). Kernels wider than
// WIDEST are a product over copied columns in the library's gradient of weights: 20 ms instead of
// 1.5 there, 7.4 instead of 0.5 of 16 pixels from 40 channels, k 7.
static int64_t best_widening(DnnConvKind kind, const DnnConv *c) {
    int last = c->src.n - 3;
    int64_t o = c->dst.dim[1], k = c->weights.dim[2 + last], s = c->stride[last], best = 1;
    int64_t widest = kind == DnnConvWeights ? WIDEST : INT64_MAX;
    double least = cost(o, k, 1);
    for (int64_t b = 2; b * o <= 2 * LANES && 2 * b <= c->dst.dim[2 + last]; b++) {
        int64_t wide = k + (b - 1) * s;
        double now = cost(b * o, wide, b);
        if (c->dst.dim[2 + last] % b == 0 && wide <= widest && now < least * 0.8) {
            least = now;
            best = b;
        }
    }
    return best;
}

static DnnConv widened(const DnnConv *c, int64_t b) {
    DnnConv w = *c;
    int last = c->src.n - 3;
    w.weights.dim[0] *= b;
    w.weights.dim[2 + last] += (b - 1) * c->stride[last];
    dnn_channels_last(&w.weights);
    w.dst.dim[1] *= b;
    w.dst.dim[2 + last] /= b;
    dnn_channels_last(&w.dst);
    w.stride[last] *= b;
    int64_t after = (w.dst.dim[2 + last] - 1) * w.stride[last] + w.weights.dim[2 + last] -
                    w.src.dim[2 + last] - w.before[last];
    w.after[last] = after > 0 ? after : 0;
    return w;
}

// The wide weights' plain layout and memory of their own.
static dnnl_status_t own_weights(Dnn *d, const DnnConv *wide, DnnTensor *out) {
    *out = (DnnTensor){.layout = dnn_keep_layout(d, &wide->weights)};
    if (!out->layout)
        return dnnl_unimplemented;
    out->at = dnn_own(d, dnnl_memory_desc_get_size(out->layout));
    return out->at ? dnnl_success : dnnl_out_of_memory;
}

static Widen *widen_job(Dnn *d, const DnnConv *c, int64_t b, const void *from, void *to) {
    Widen *w = dnn_job(d, sizeof *w);
    const int last = c->weights.n - 1;
    *w = (Widen){from,
                 to,
                 c->weights.dim[0],
                 c->weights.dim[last],
                 c->weights.dim[1],
                 b,
                 c->stride[last - 2],
                 dtype_size[c->weights.type]};
    for (int i = 2; i < last; i++)
        w->rows *= c->weights.dim[i];
    return w;
}

typedef struct Widened { // a convolution, b of whose pixels have become channels of one
    const DnnConv *thin; // what was asked for
    const DnnTensor *t;  // its x, w, y
    int64_t b;
    DnnDesc desc;    // of the wide one
    DnnTensor plain; // the wide weights, as widen stores them
} Widened;

static dnnl_status_t add_forward(Dnn *d, DnnCall *call, const Widened *w) {
    DnnTensor packed, y = {dnn_desc_layout(w->desc, dnnl_query_dst_md), w->t[2].at, 0, 0};
    dnnl_status_t s =
        dnn_own_packed(d, dnn_desc_layout(w->desc, dnnl_query_weights_md), w->plain, &packed);
    if (s != dnnl_success)
        return s;
    dnn_add_host(call, widen, widen_job(d, w->thin, w->b, w->t[1].at, w->plain.at));
    if (packed.at != w->plain.at)
        s = dnn_add_reorder(d, call, w->plain, packed);
    return s != dnnl_success
               ? s
               : dnn_add_forward(d, call, w->desc, (const DnnTensor[]){w->t[0], packed, y});
}

static dnnl_status_t add_weights(Dnn *d, DnnCall *call, const Widened *w) {
    DnnTensor packed, y = {dnn_desc_layout(w->desc, dnnl_query_diff_dst_md), w->t[2].at, 0, 0};
    dnnl_status_t s =
        dnn_own_packed(d, dnn_desc_layout(w->desc, dnnl_query_diff_weights_md), w->plain, &packed);
    if (s == dnnl_success)
        s = dnn_add_step(d, call, w->desc,
                         (const int[]){DNNL_ARG_SRC, DNNL_ARG_DIFF_WEIGHTS, DNNL_ARG_DIFF_DST},
                         (const DnnTensor[]){w->t[0], packed, y}, 3);
    if (s == dnnl_success && packed.at != w->plain.at)
        s = dnn_add_reorder(d, call, packed, w->plain);
    if (s == dnnl_success)
        dnn_add_host(call, narrow, widen_job(d, w->thin, w->b, w->plain.at, w->t[1].at));
    return s;
}

static dnnl_status_t thin_output(Dnn *d, DnnCall *call, const DnnProblem *p, bool *done) {
    const DnnConv *c = &p->conv;
    Widened w = {.thin = c, .t = p->t, .b = best_widening(p->kind, c)};
    if (w.b == 1 || (p->kind == DnnConvWeights && c->weights.type != DtF32))
        return dnnl_success;
    DnnConv wide = widened(c, w.b);
    dnnl_status_t s = own_weights(d, &wide, &w.plain);
    wide.weights.any = true;
    DnnDesc *desc = dnn_new_desc(d);
    if (s != dnnl_success || dnn_conv_desc(dnn_engine(d), p->kind, &wide, desc) != dnnl_success)
        return s; // the library cannot: the caller goes on without
    w.desc = *desc;
    s = (p->kind == DnnConvForward ? add_forward : add_weights)(d, call, &w);
    *done = s == dnnl_success;
    return s;
}

// --- few channels in: the input's gradient -------------------------------------------------------

typedef struct Subpixel {
    Axis axis[DNN_AXES];
    int64_t n, o, c;     // samples, channels of y, channels of x
    size_t size;         // of an element
    const void *weights; // [o, k.., c]
    void *wide;          // [(r.., c), wide.., o]
    void *x;
} Subpixel;

static void spread_weights(void *job, void *const staging[DNN_STAGING], int64_t round) {
    (void)round;
    (void)staging;
    const Subpixel *j = job;
    const Axis *a = j->axis;
    const int64_t rs = a[0].r * a[1].r * a[2].r, us = a[0].wide * a[1].wide * a[2].wide;
    const int64_t k = a[0].k * a[1].k * a[2].k;
    char *to = j->wide;
    for (int64_t r = 0; r < rs; r++)
        for (int64_t c = 0; c < j->c; c++)
            for (int64_t u = 0; u < us; u++) {
                int64_t t0 = tap(&a[0], r / a[2].r / a[1].r, u / a[2].wide / a[1].wide);
                int64_t t1 = tap(&a[1], r / a[2].r % a[1].r, u / a[2].wide % a[1].wide);
                int64_t t2 = tap(&a[2], r % a[2].r, u % a[2].wide);
                int64_t at = ((t0 * a[1].k + t1) * a[2].k + t2) * j->c + c;
                for (int64_t o = 0; o < j->o; o++, to += j->size, at += k * j->c)
                    if (t0 < 0 || t1 < 0 || t2 < 0)
                        memset(to, 0, j->size);
                    else
                        memcpy(to, (const char *)j->weights + (size_t)at * j->size, j->size);
            }
}

// One row of x along the last axis: runs of pixels of a group with equal shift lie side by side on
// both sides.
static void shuffle_row(const Subpixel *j, const char *from, char *to, size_t group) {
    const Axis *a = &j->axis[2];
    size_t pixel = (size_t)j->c * j->size;
    int64_t cut = a->r;
    while (cut > 0 && shift(a, cut - 1))
        cut--;
    for (int64_t i = 0; i * a->r < a->x; i++) {
        int64_t left = a->x - i * a->r, n = left < a->r ? left : a->r, m = n < cut ? n : cut;
        char *at = to + (size_t)(i * a->r) * pixel;
        memcpy(at, from + (size_t)i * group, (size_t)m * pixel);
        if (n > cut)
            memcpy(at + (size_t)cut * pixel, from + (size_t)(i + 1) * group + (size_t)cut * pixel,
                   (size_t)(n - cut) * pixel);
    }
}

static void shuffle(void *job, void *const staging[DNN_STAGING], int64_t round) {
    (void)round;
    const Subpixel *j = job;
    const Axis *a = j->axis;
    size_t run = (size_t)(a[2].r * j->c) * j->size, group = run * (size_t)(a[0].r * a[1].r);
#pragma omp parallel for schedule(static)
    for (int64_t row = 0; row < j->n * a[0].x * a[1].x; row++) {
        int64_t x1 = row % a[1].x, x0 = row / a[1].x % a[0].x, n = row / a[1].x / a[0].x;
        int64_t r1 = x1 % a[1].r, r0 = x0 % a[0].r;
        int64_t q0 = x0 / a[0].r + shift(&a[0], r0), q1 = x1 / a[1].r + shift(&a[1], r1);
        size_t from = (size_t)(((n * a[0].grid + q0) * a[1].grid + q1) * a[2].grid) * group +
                      (size_t)(r0 * a[1].r + r1) * run;
        shuffle_row(j, (const char *)staging[0] + from,
                    (char *)j->x + (size_t)(row * a[2].x * j->c) * j->size, group);
    }
}

static Subpixel subpixel_of(const DnnConv *c) {
    DnnAxis of[DNN_AXES];
    Subpixel j = {.n = c->src.dim[0],
                  .o = c->dst.dim[1],
                  .c = c->src.dim[1],
                  .size = dtype_size[c->src.type]};
    dnn_axes(c, of);
    for (int i = 0; i < DNN_AXES; i++) {
        const DnnAxis *a = &of[i];
        j.axis[i] = (Axis){.k = a->k, .s = a->s, .p = a->p, .x = a->x, .y = a->y};
        axis_set(&j.axis[i], 1);
    }
    return j;
}

static double subpixel_cost(const Subpixel *j) {
    const Axis *a = j->axis;
    int64_t pixels = a[0].r * a[1].r * a[2].r;
    return cost(pixels * j->c, a[0].wide * a[1].wide * a[2].wide, pixels);
}

// Takes the cheapest number of steps at once; false when the library's own way is hardly worse.
static bool choose_steps(Subpixel *j) {
    const Axis *a = j->axis;
    double own = cost(j->c, a[0].taps * a[1].taps * a[2].taps, 1), least = own;
    int64_t best = 0;
    for (int64_t b = 1; b <= LANES && b <= a[2].y; b++) {
        axis_set(&j->axis[2], b);
        if (subpixel_cost(j) < least * 0.8) {
            least = subpixel_cost(j);
            best = b;
        }
    }
    axis_set(&j->axis[2], best ? best : 1);
    return best > 0;
}

// The convolution over y that makes x'. False where its padding would be negative.
static bool subpixel_conv(const DnnConv *c, const Subpixel *j, DnnConv *out) {
    int spatial = c->src.n - 2;
    *out = (DnnConv){.src = c->dst, .weights = c->weights, .dst = c->src};
    out->weights.dim[0] = out->dst.dim[1] = j->c;
    out->weights.dim[1] = j->o;
    for (int i = 0; i < spatial; i++) {
        const Axis *a = &j->axis[i + DNN_AXES - spatial];
        out->weights.dim[0] = out->dst.dim[1] *= a->r;
        out->weights.dim[2 + i] = a->wide;
        out->dst.dim[2 + i] = a->grid;
        out->stride[i] = a->b;
        out->before[i] = a->taps - 1 - a->first;
        int64_t after = a->b * (a->grid - 1) - out->before[i] + a->wide - a->y;
        out->after[i] = after > 0 ? after : 0;
        if (out->before[i] < 0)
            return false;
    }
    dnn_channels_last(&out->weights);
    dnn_channels_last(&out->dst);
    return true;
}

static dnnl_status_t add_subpixel(Dnn *d, DnnCall *call, Subpixel *j, DnnDesc desc, DnnTensor wide,
                                  DnnTensor y) {
    DnnTensor packed, made = {dnn_desc_layout(desc, dnnl_query_dst_md), NULL, 0, 0};
    dnnl_status_t s =
        dnn_own_packed(d, dnn_desc_layout(desc, dnnl_query_weights_md), wide, &packed);
    if (s != dnnl_success)
        return s;
    j->wide = wide.at;
    dnn_add_host(call, spread_weights, j);
    if (packed.at != wide.at)
        s = dnn_add_reorder(d, call, wide, packed);
    if (s == dnnl_success)
        s = dnn_add_forward(d, call, desc, (const DnnTensor[]){y, packed, made});
    if (s == dnnl_success)
        dnn_add_host(call, shuffle, j);
    return s;
}

static dnnl_status_t thin_input(Dnn *d, DnnCall *call, const DnnProblem *p, bool *done) {
    const DnnConv *c = &p->conv;
    Subpixel *j = dnn_job(d, sizeof *j);
    DnnConv conv;
    *j = subpixel_of(c);
    j->weights = p->t[1].at;
    j->x = p->t[0].at;
    if (!choose_steps(j) || c->weights.type != c->src.type || !subpixel_conv(c, j, &conv))
        return dnnl_success;
    DnnTensor wide;
    dnnl_status_t s = own_weights(d, &conv, &wide);
    conv.weights.any = true;
    DnnDesc *desc = dnn_new_desc(d);
    if (s != dnnl_success ||
        dnn_conv_desc(dnn_engine(d), DnnConvForward, &conv, desc) != dnnl_success)
        return s;
    s = add_subpixel(d, call, j, *desc, wide, p->t[2]);
    *done = s == dnnl_success;
    return s;
}

dnnl_status_t dnn_thin(Dnn *d, DnnCall *call, const DnnProblem *p, bool *done) {
    const DnnConv *c = &p->conv;
    bool input = p->kind == DnnConvData;
    if (!plain(c, input ? &c->src : &c->dst))
        return dnnl_success;
    return (input ? thin_input : thin_output)(d, call, p, done);
}
