// conv_sums.c - see conv_sums.h.
#include "conv_sums.h"

#include "prelude.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>
#ifdef _OPENMP
#include <omp.h>
#endif

float conv_x[CONV_MOST], conv_w[CONV_MOST], conv_y[CONV_MOST];
static uint16_t x_half[CONV_MOST], w_half[CONV_MOST], y_half[CONV_MOST]; // the same in bf16
static double want[CONV_MOST], size[CONV_MOST]; // the sum, and the sum of its terms' magnitudes

int64_t conv_made(const ConvShape *s, int i) {
    return (s->x[i] + s->before[i] + s->after[i] - s->k[i]) / s->s[i] + 1;
}

static void fill(float *at, uint64_t seed) {
    for (int i = 0; i < CONV_MOST; i++) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        at[i] = (float)(seed >> 40) / (1 << 23) - 1;
    }
}

static void widen(const uint16_t *half, float *at) {
    for (int i = 0; i < CONV_MOST; i++)
        at[i] = gan_bf16_to_f32(half[i]);
}

// Rounds elements to bf16, so that both types hold the same values.
static void halve(float *at, uint16_t *half) {
    floats_to_bf16(at, half, CONV_MOST);
    widen(half, at);
}

void conv_fill(Dtype type) {
    fill(conv_x, 1), fill(conv_w, 2), fill(conv_y, 3);
    if (type == DtBF16)
        halve(conv_x, x_half), halve(conv_w, w_half), halve(conv_y, y_half);
}

static DnnShape picture(int64_t n, int64_t c, int64_t a, int64_t b) {
    return (DnnShape){
        .n = 4, .dim = {n, c, a, b}, .stride = {a * b * c, 1, b * c, c}, .type = DtF32};
}

DnnConv conv_of(const ConvShape *s) {
    DnnConv c = {.src = picture(s->n, s->c, s->x[0], s->x[1]),
                 .weights = {.n = 4, .dim = {s->o, s->c, s->k[0], s->k[1]}, .type = DtF32},
                 .dst = picture(s->n, s->o, conv_made(s, 0), conv_made(s, 1))};
    dnn_channels_last(&c.weights);
    for (int i = 0; i < 2; i++) {
        c.stride[i] = s->s[i];
        c.before[i] = s->before[i];
        c.after[i] = s->after[i];
    }
    return c;
}

// Adds all products of one pixel of y and one kernel element to want[].
static void add_products(const ConvShape *s, DnnConvKind kind, int64_t at_x, int64_t at_y,
                         int64_t t) {
    int64_t kernel = s->k[0] * s->k[1];
    for (int64_t o = 0; o < s->o; o++)
        for (int64_t c = 0; c < s->c; c++) {
            int64_t i = at_x * s->c + c, j = (o * kernel + t) * s->c + c, k = at_y * s->o + o;
            double a = kind == DnnConvData ? conv_y[k] : conv_x[i];
            double b = kind == DnnConvWeights ? conv_y[k] : conv_w[j];
            int64_t to = kind == DnnConvForward ? k : kind == DnnConvData ? i : j;
            want[to] += a * b;
            size[to] += fabs(a * b);
        }
}

void conv_sum(const ConvShape *s, DnnConvKind kind) {
    memset(want, 0, sizeof want);
    memset(size, 0, sizeof size);
    int64_t h = conv_made(s, 0), v = conv_made(s, 1), kernel = s->k[0] * s->k[1];
    for (int64_t i = 0; i < s->n * h * v * kernel; i++) {
        int64_t t = i % kernel, pixel = i / kernel, n = pixel / v / h;
        int64_t a = pixel / v % h * s->s[0] - s->before[0] + t / s->k[1];
        int64_t b = pixel % v * s->s[1] - s->before[1] + t % s->k[1];
        if (a >= 0 && a < s->x[0] && b >= 0 && b < s->x[1])
            add_products(s, kind, (n * s->x[0] + a) * s->x[1] + b, pixel, t);
    }
}

bool conv_run(DnnMethod *method, const ConvShape *s, DnnConvKind kind, Dtype type) {
    Dnn *d;
    DnnCall call = {0};
    DnnProblem p = {kind, conv_of(s), .weights = 1};
    DnnConv *c = &p.conv;
    bool done = false, halves = type == DtBF16;
    c->src.type = c->dst.type = type;
    c->weights.type = kind == DnnConvWeights ? DtF32 : type; // their gradients stay f32
    assert_int_equal(dnn_open(&d), GAN_OK);
    void *weights = halves && kind != DnnConvWeights ? (void *)w_half : (void *)conv_w;
    p.t[0] =
        (DnnTensor){dnn_keep_layout(d, &c->src), halves ? (void *)x_half : (void *)conv_x, 0, 0};
    p.t[1] = (DnnTensor){dnn_keep_layout(d, &c->weights), weights, 0, 0};
    p.t[2] =
        (DnnTensor){dnn_keep_layout(d, &c->dst), halves ? (void *)y_half : (void *)conv_y, 0, 0};
    dnn_block(d, 0);
    assert_int_equal(method(d, &call, &p, &done), dnnl_success);
    if (done) {
        assert_int_equal(dnn_ready(d), GAN_OK);
        assert_int_equal(dnn_run(d, &call), GAN_OK);
    }
    if (halves && kind == DnnConvForward)
        widen(y_half, conv_y);
    if (halves && kind == DnnConvData)
        widen(x_half, conv_x);
    dnn_close(d);
    return done;
}

const float *conv_result(const ConvShape *s, DnnConvKind kind, int64_t *n) {
    switch (kind) {
    case DnnConvForward:
        *n = s->n * conv_made(s, 0) * conv_made(s, 1) * s->o;
        return conv_y;
    case DnnConvData:
        *n = s->n * s->x[0] * s->x[1] * s->c;
        return conv_x;
    case DnnConvWeights:
        *n = s->o * s->c * s->k[0] * s->k[1];
        return conv_w;
    }
    return NULL;
}

void conv_compare(const ConvShape *s, DnnConvKind kind, double rounding, const char *way) {
    int64_t n;
    const float *got = conv_result(s, kind, &n);
    for (int64_t i = 0; i < n; i++)
        if (!(fabs(got[i] - want[i]) <= 2e-6 * size[i] + rounding * fabs(want[i]) + 1e-5))
            fail_msg("%lld x %lld, stride %lld, kind %d, %s, element %lld: %g, not %g",
                     (long long)s->x[0], (long long)s->x[1], (long long)s->s[0], (int)kind, way,
                     (long long)i, (double)got[i], want[i]);
}

void conv_threads(int n) {
#ifdef _OPENMP
    omp_set_num_threads(n);
#else
    (void)n;
#endif
}
