// dnn_phases.c - input gradients of strided convolutions, computed as forward convolutions of y:
// one for each residue ("phase") of the stride.
//
// Along one axis pixel s*q + r of x receives from y only through the kernel elements t that s
// divides r + p - t by. With t0 = (r + p) % s those are t0 + s*m, m < taps, and
//   x[s*q + r] = sum over u of y[q - before + u] * w[t0 + s*(taps-1-u)],
//   before = taps - 1 - (r + p)/s
// a stride-1 convolution with a small flipped kernel. The library's forward convolutions of small
// kernels run at its peak, its input gradients at three quarters of it. Phases are computed side by
// side in staging memory and interleaved into x in one pass; stride 1 has one phase and needs none.
//
// Measured on one core, f32, weights and pass included (before, after, ms): 64 from 128 channels,
// k 4, stride 2, to 32x32, batch 32 14.6 to 12.3; 64 from 128, k 5, stride 2, to 128x128, batch 4
// 46.5 to 39.0; 256 from 256, k 3, to 66x66 29.3 to 27.6; to 8x8 from 4x4 there is no gain. oneDNN
// 3.7 has products of its own for strides, with which these forms take 1.04 to 1.31 times as
// long in one and two axes, in three axes 0.73 to 0.96.
#include "dnn.h"

#include "integers.h"

#include <string.h>

enum { LEAST_CHANNELS = 32, LEAST_GRID = 8 };

typedef struct Phase { // one residue along every axis
    DnnPhase along[DNN_AXES];
    void *weights; // [u.., o, c]; NULL: in the staging buffer of copies,
    size_t offset; // so far from its start
    size_t at;     // bytes from the start of the staging memory
} Phase;

typedef struct Phases {
    DnnAxis axis[DNN_AXES];
    int64_t n, o, c, phases;
    size_t size;         // of an element
    const void *weights; // [o, k.., c]
    void *x;
    Phase phase[DNN_MOST_PHASES];
} Phases;

// --- what runs -----------------------------------------------------------------------------------

// The elements of one (o, phase), the channels of each side by side.
static void spread_phase(const Phases *j, const Phase *f, int64_t o, char *copies) {
    const DnnAxis *a = j->axis;
    const DnnPhase *g = f->along;
    const int64_t k = a[0].k * a[1].k * a[2].k;
    const size_t line = (size_t)j->c * j->size;
    char *to = f->weights ? f->weights : copies + f->offset;
    for (int64_t u = 0; u < g[0].taps * g[1].taps * g[2].taps; u++) {
        int64_t t0 = g[0].first + a[0].s * (g[0].taps - 1 - u / g[2].taps / g[1].taps);
        int64_t t1 = g[1].first + a[1].s * (g[1].taps - 1 - u / g[2].taps % g[1].taps);
        int64_t t2 = g[2].first + a[2].s * (g[2].taps - 1 - u % g[2].taps);
        int64_t tap = (t0 * a[1].k + t1) * a[2].k + t2;
        memcpy(to + (size_t)(u * j->o + o) * line,
               (const char *)j->weights + (size_t)(o * k + tap) * line, line);
    }
}

static void spread(void *job, void *const staging[DNN_STAGING], int64_t round) {
    (void)round;
    const Phases *j = job;
#pragma omp parallel for schedule(static)
    for (int64_t o = 0; o < j->o; o++)
        for (int64_t i = 0; i < j->phases; i++)
            spread_phase(j, &j->phase[i], o, staging[DNN_COPIES]);
}

// Row `row` (sample and all axes but the last) of x, from the phases that hold its pixels.
static void deal_row(const Phases *j, int64_t row, const char *staging) {
    const DnnAxis *a = j->axis;
    int64_t n = row / a[1].x / a[0].x, x0 = row / a[1].x % a[0].x, x1 = row % a[1].x;
    size_t pixel = (size_t)j->c * j->size;
    char *to = (char *)j->x + (size_t)(row * a[2].x) * pixel;
    for (int64_t r = 0; r < a[2].s; r++) {
        const Phase *f = &j->phase[(x0 % a[0].s * a[1].s + x1 % a[1].s) * a[2].s + r];
        const DnnPhase *g = f->along;
        int64_t line = (n * g[0].grid + x0 / a[0].s) * g[1].grid + x1 / a[1].s;
        const char *from = staging + f->at + (size_t)(line * g[2].grid) * pixel;
        for (int64_t q = 0; q < g[2].grid; q++)
            memcpy(to + (size_t)(q * a[2].s + r) * pixel, from + (size_t)q * pixel, pixel);
    }
}

static void deal(void *job, void *const staging[DNN_STAGING], int64_t round) {
    (void)round;
    const Phases *j = job;
#pragma omp parallel for schedule(static)
    for (int64_t row = 0; row < j->n * j->axis[0].x * j->axis[1].x; row++)
        deal_row(j, row, staging[0]);
}

// --- what is prepared ----------------------------------------------------------------------------

DnnPhase dnn_phase(const DnnAxis *a, int64_t residue) {
    DnnPhase f = {.first = (residue + a->p) % a->s};
    f.taps = ceil_div(a->k - f.first, a->s);
    f.before = f.taps - 1 - (residue + a->p) / a->s;
    f.grid = ceil_div(a->x - residue, a->s);
    return f;
}

int64_t dnn_phases_of(const DnnAxis a[DNN_AXES]) {
    int64_t phases = 1;
    for (int i = 0; i < DNN_AXES; i++)
        phases *= a[i].k < a[i].s || a[i].x < a[i].s || a[i].d > 1 ? 0 : a[i].s;
    return phases <= DNN_MOST_PHASES ? phases : 0;
}

static bool axes_of(const DnnConv *c, Phases *j) {
    *j = (Phases){.n = c->src.dim[0],
                  .o = c->dst.dim[1],
                  .c = c->src.dim[1],
                  .size = dtype_size[c->src.type]};
    dnn_axes(c, j->axis);
    j->phases = dnn_phases_of(j->axis);
    return j->phases > 0;
}

// False where a padding would be negative.
static bool phase_set(const Phases *j, int64_t index, Phase *f) {
    for (int i = DNN_AXES; i-- > 0;) {
        const DnnAxis *a = &j->axis[i];
        DnnPhase *g = &f->along[i];
        *g = dnn_phase(a, index % a->s);
        index /= a->s;
        if (g->before < 0 || g->grid - g->before + g->taps - 1 < a->y)
            return false;
    }
    return true;
}

// Has the library products for a stride?
static bool library_strides(Dnn *d, const DnnConv *c, const Phases *j) {
    return j->phases > 1 && c->src.n < 2 + DNN_AXES &&
           strstr(dnn_library_name(d, DnnConvData, c), "brgconv_strided");
}

static bool pays(Dnn *d, const DnnConv *c, const Phases *j) {
    bool last = c->src.stride[1] == 1 && c->dst.stride[1] == 1 && c->weights.n == c->src.n;
    bool f32 = c->src.type == DtF32 && c->weights.type == DtF32 && c->dst.type == DtF32;
    const DnnAxis *a = &j->axis[DNN_AXES - 1];
    return last && f32 && j->c >= LEAST_CHANNELS && j->o >= LEAST_CHANNELS &&
           a->x / a->s >= LEAST_GRID && !library_strides(d, c, j);
}

// The forward convolution of one phase; its weights lie [u.., o, c].
static DnnConv phase_conv(const DnnConv *c, const Phases *j, const Phase *f) {
    DnnConv out = {.src = c->dst, .weights = c->weights, .dst = c->src};
    int spatial = c->src.n - 2;
    out.weights.dim[0] = j->c;
    out.weights.dim[1] = j->o;
    out.weights.stride[0] = 1;
    out.weights.stride[1] = j->c;
    int64_t step = j->c * j->o, pixels = j->c;
    for (int i = spatial; i-- > 0;) {
        int at = i + DNN_AXES - spatial;
        const DnnPhase *g = &f->along[at];
        out.weights.dim[2 + i] = g->taps;
        out.weights.stride[2 + i] = step;
        step *= g->taps;
        out.dst.dim[2 + i] = g->grid;
        out.dst.stride[2 + i] = pixels;
        pixels *= g->grid;
        out.stride[i] = 1;
        out.before[i] = g->before;
        out.after[i] = g->grid - g->before + g->taps - 1 - j->axis[at].y;
    }
    out.dst.stride[0] = pixels;
    return out;
}

// What the phase does to the weights, as a number.
static uint64_t form_of(const Phases *j, const Phase *f) {
    uint64_t form = 1;
    for (int i = 0; i < DNN_AXES; i++)
        form = ((form * 32 + (uint64_t)j->axis[i].s) * 32 + (uint64_t)f->along[i].first) * 32;
    return form;
}

typedef struct Made { // a phase's primitive and weights, before anything is added to the call
    DnnDesc *desc;
    DnnLayoutRef plain; // of the weights as spread
    DnnTensor spread, packed;
    bool fresh, reordered;
} Made;

static bool make_desc(Dnn *d, const DnnConv *c, const Phases *j, const Phase *f, Made *out) {
    DnnConv conv = phase_conv(c, j, f);
    out->plain = dnn_keep_layout(d, &conv.weights);
    out->desc = dnn_new_desc(d);
    conv.weights.any = true;
    return out->plain &&
           dnn_conv_desc(dnn_engine(d), DnnConvForward, &conv, out->desc) == dnnl_success;
}

static dnnl_status_t make_weights(Dnn *d, uint32_t weights, const Phases *j, Phase *f, Made *out) {
    DnnLayoutRef wanted = dnn_desc_layout(*out->desc, dnnl_query_weights_md);
    dnnl_status_t s =
        dnn_copy_of(d, weights, form_of(j, f), wanted, wanted, &out->packed, &out->fresh);
    out->reordered = out->fresh && !dnnl_memory_desc_equal(out->plain, wanted);
    if (s == dnnl_success)
        out->spread = out->reordered ? dnn_transient(d, out->plain) : out->packed;
    f->weights = out->spread.at;
    f->offset = out->spread.offset;
    return s;
}

// x: where its pixels go.
static dnnl_status_t add_phase(Dnn *d, DnnCall *call, const Made *m, DnnTensor y, DnnTensor x) {
    dnnl_status_t s = dnnl_success;
    if (m->reordered)
        s = dnn_add_reorder(d, call, m->spread, m->packed);
    x.layout = dnn_desc_layout(*m->desc, dnnl_query_dst_md);
    return s != dnnl_success
               ? s
               : dnn_add_forward(d, call, *m->desc, (const DnnTensor[]){y, m->packed, x});
}

// Places all phases side by side. False when one of them is not the library's.
static bool make_phases(Dnn *d, const DnnConv *c, Phases *j, Made *made) {
    size_t at = 0;
    for (int64_t i = 0; i < j->phases; i++) {
        Phase *f = &j->phase[i];
        if (!phase_set(j, i, f) || !make_desc(d, c, j, f, &made[i]))
            return false;
        f->at = at;
        const DnnPhase *g = f->along;
        at += round_up((size_t)(j->n * g[0].grid * g[1].grid * g[2].grid * j->c) * j->size, 64);
    }
    return true;
}

dnnl_status_t dnn_phases(Dnn *d, DnnCall *call, const DnnProblem *p, bool *done) {
    const DnnConv *c = &p->conv;
    const DnnTensor *t = p->t;
    Phases *j = dnn_job(d, sizeof *j);
    Made made[DNN_MOST_PHASES];
    dnnl_status_t s = dnnl_success;
    if (p->kind != DnnConvData || !axes_of(c, j) || !pays(d, c, j) || !make_phases(d, c, j, made))
        return s;
    for (int64_t i = 0; i < j->phases && s == dnnl_success; i++)
        s = make_weights(d, p->weights, j, &j->phase[i], &made[i]);
    j->weights = t[1].at;
    j->x = t[0].at;
    if (made[0].fresh)
        dnn_add_host(call, spread, j);
    for (int64_t i = 0; i < j->phases && s == dnnl_success; i++) {
        DnnTensor x = {.at = j->phases == 1 ? t[0].at : NULL, .offset = j->phase[i].at};
        s = add_phase(d, call, &made[i], t[2], x);
    }
    if (j->phases > 1)
        dnn_add_host(call, deal, j);
    *done = s == dnnl_success;
    return s;
}
