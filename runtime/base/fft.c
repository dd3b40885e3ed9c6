// fft.c - plans the Fourier transform of a given length: its factors and roots of unity.
//
// In: a length. Out: an FftPlan. Angles are reduced before sines are taken, so a root is as
// accurate as its type allows.
#include "fft_parts.h"

#include "integers.h"

#include <math.h>

enum { LARGEST = 50 }; // a prime factor p costs p sums of p; beyond this a convolution costs less

static const double turn = 6.28318530717958647692;

#define REAL double
#define TABLE f64
#define RUN fft_run64
#include "fft_lines.h"

static GanStatus table_make(int64_t n, FftTable *out) {
    out->f64 = mem_alloc((size_t)n * sizeof *out->f64);
    out->f32 = mem_alloc((size_t)n * sizeof *out->f32);
    return out->f64 && out->f32
               ? GAN_OK
               : fail(GAN_ERR_MEMORY, "no memory for a transform of %lld numbers", (long long)n);
}

static void table_put(FftTable *t, int64_t k, double re, double im) {
    t->f64[k][0] = re, t->f64[k][1] = im;
    t->f32[k][0] = (float)re, t->f32[k][1] = (float)im;
}

static void table_free(FftTable *t) {
    mem_free(t->f64);
    mem_free(t->f32);
}

static void factors_of(FftPlan *f) {
    int64_t n = f->n;
    while (n % 4 == 0)
        f->factor[f->factors++] = 4, n /= 4;
    for (int64_t p = 2; n > 1; p += p * p > n ? n - p : 1)
        while (n > 1 && n % p == 0)
            f->factor[f->factors++] = p, n /= p;
}

// The transform of the conjugate chirp, which every line's is multiplied by.
static GanStatus filter_make(FftPlan *f) {
    int64_t m = f->padded->n;
    FftLines one = {.n = m, .lines = 1, .in = {.n = m, .step = 2, .part = 1}};
    one.out = one.in;
    double *room = mem_alloc_aligned(fft_room(f->padded) * sizeof *room, 64);
    if (!room)
        return fail(GAN_ERR_MEMORY, "no memory for a transform of %lld numbers", (long long)f->n);
    for (int64_t k = 0; k < f->n; k++) {
        const double *c = f->chirp.f64[k];
        table_put(&f->filter, k, c[0] / (double)m, -c[1] / (double)m);
        table_put(&f->filter, k ? m - k : 0, c[0] / (double)m, -c[1] / (double)m);
    }
    fft_run64(f->padded, &one, &f->filter.f64[0][0], &f->filter.f64[0][0], 0, 1, room);
    for (int64_t k = 0; k < m; k++)
        table_put(&f->filter, k, f->filter.f64[k][0], f->filter.f64[k][1]);
    mem_free_aligned(room);
    return GAN_OK;
}

static GanStatus make(int64_t n, FftPlan **out);

// Bluestein, "A linear filtering approach to the computation of discrete Fourier transform", 1970.
static GanStatus bluestein_make(FftPlan *f) {
    int64_t m = 1;
    while (m < 2 * f->n - 1)
        m *= 2;
    TRY(make(m, &f->padded));
    TRY(table_make(f->n, &f->chirp));
    TRY(table_make(m, &f->filter));
    for (int64_t k = 0, square = 0; k < f->n; k++) {
        double angle = turn / 2 * (double)square / (double)f->n; // k^2 modulo 2n
        table_put(&f->chirp, k, cos(angle), -sin(angle));
        square = (square + 2 * k + 1) % (2 * f->n);
    }
    return filter_make(f);
}

static GanStatus fill(FftPlan *f) {
    factors_of(f);
    if (f->factors && f->factor[f->factors - 1] > LARGEST)
        return bluestein_make(f);
    TRY(table_make(f->n, &f->root));
    for (int64_t k = 0; k < f->n; k++) {
        double angle = turn * (double)k / (double)f->n;
        table_put(&f->root, k, cos(angle), -sin(angle));
    }
    return GAN_OK;
}

static GanStatus make(int64_t n, FftPlan **out) {
    *out = NULL;
    FftPlan *f = mem_alloc(sizeof *f);
    if (!f)
        return fail(GAN_ERR_MEMORY, "no memory for a transform of %lld numbers", (long long)n);
    *f = (FftPlan){.n = n};
    GanStatus st = fill(f);
    if (st == GAN_OK)
        *out = f;
    else
        fft_free(f);
    return st;
}

static GanStatus fill_fold(FftPlan *f) {
    TRY(table_make(f->n + 1, &f->fold));
    for (int64_t k = 0; k <= f->n; k++) {
        double angle = turn / 2 * (double)k / (double)f->n;
        table_put(&f->fold, k, cos(angle), -sin(angle));
    }
    return GAN_OK;
}

GanStatus fft_make(const FftLines *l, FftPlan **out) {
    bool folded = (l->in.real || l->out.real) && l->n % 2 == 0;
    TRY(make(folded ? l->n / 2 : l->n, out));
    GanStatus st = folded ? fill_fold(*out) : GAN_OK;
    if (st != GAN_OK) {
        fft_free(*out);
        *out = NULL;
    }
    return st;
}

void fft_free(FftPlan *f) {
    if (!f)
        return;
    fft_free(f->padded);
    table_free(&f->root);
    table_free(&f->fold);
    table_free(&f->chirp);
    table_free(&f->filter);
    mem_free(f);
}

int64_t fft_groups(const FftLines *f) {
    return ceil_div(f->lines, FFT_LANES);
}

size_t fft_room(const FftPlan *f) {
    return 2 * (size_t)fft_longest(f) * 2 * FFT_LANES;
}
