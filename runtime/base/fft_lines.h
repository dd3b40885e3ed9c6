// fft_lines.h - transforms of the lines of one group, for numbers of type REAL. Included by
// fft.c for both types, and once for every level of vector instructions (fft_32.c):
// loops over lanes are left to the compiler's vectoriser.
//
// In: REAL, TABLE (the member of a FftTable with such numbers), RUN (the name of the function that
// this makes). Stockham's order of the passes (Cochran et al. 1967): each takes a prime factor, or
// 4, and none needs its indices reversed. Everything goes forward; the inverse is the same with
// real and imaginary parts exchanged, on the way in and out.
#include "fft_parts.h"

#include <string.h>

typedef struct Many { // one number of each line
    REAL re[FFT_LANES], im[FFT_LANES];
} Many;

// --- passes --------------------------------------------------------------------------------------

// y = x*w, lane by lane; x may be y.
static inline void multiply(const Many *x, const REAL w[2], Many *y) {
    for (int l = 0; l < FFT_LANES; l++) {
        REAL re = x->re[l] * w[0] - x->im[l] * w[1];
        y->im[l] = x->re[l] * w[1] + x->im[l] * w[0];
        y->re[l] = re;
    }
}

// The lines' part of a pass: `m` products of roots, each for s neighbours.
typedef struct Pass {
    int64_t m, s;    // numbers of a part; neighbours that share a root
    REAL (*root)[2]; // of the whole line
    int64_t n, step; // of the whole line; roots between those of this pass
} Pass;

static void pass_2(const Pass *a, const Many *restrict x, Many *restrict y) {
    for (int64_t p = 0; p < a->m; p++) {
        const REAL *w = a->root[p * a->step];
        for (int64_t q = 0; q < a->s; q++) {
            const Many *x0 = &x[q + a->s * p], *x1 = &x[q + a->s * (p + a->m)];
            Many *y0 = &y[q + a->s * 2 * p], *y1 = y0 + a->s;
            for (int l = 0; l < FFT_LANES; l++) {
                REAL re = x0->re[l] - x1->re[l], im = x0->im[l] - x1->im[l];
                y0->re[l] = x0->re[l] + x1->re[l];
                y0->im[l] = x0->im[l] + x1->im[l];
                y1->re[l] = re * w[0] - im * w[1];
                y1->im[l] = re * w[1] + im * w[0];
            }
        }
    }
}

static void pass_4(const Pass *a, const Many *restrict x, Many *restrict y) {
    for (int64_t p = 0; p < a->m; p++) {
        const REAL *w1 = a->root[p * a->step], *w2 = a->root[2 * p * a->step],
                   *w3 = a->root[3 * p * a->step];
        for (int64_t q = 0; q < a->s; q++) {
            const Many *x0 = &x[q + a->s * p], *x1 = x0 + a->s * a->m, *x2 = x1 + a->s * a->m,
                       *x3 = x2 + a->s * a->m;
            Many *y0 = &y[q + a->s * 4 * p], *y1 = y0 + a->s, *y2 = y1 + a->s, *y3 = y2 + a->s;
            for (int l = 0; l < FFT_LANES; l++) {
                REAL ar = x0->re[l] + x2->re[l], ai = x0->im[l] + x2->im[l];
                REAL br = x0->re[l] - x2->re[l], bi = x0->im[l] - x2->im[l];
                REAL cr = x1->re[l] + x3->re[l], ci = x1->im[l] + x3->im[l];
                REAL dr = x1->im[l] - x3->im[l], di = x3->re[l] - x1->re[l]; // times -i
                y0->re[l] = ar + cr, y0->im[l] = ai + ci;
                REAL r1 = br + dr, i1 = bi + di, r2 = ar - cr, i2 = ai - ci, r3 = br - dr,
                     i3 = bi - di;
                y1->re[l] = r1 * w1[0] - i1 * w1[1], y1->im[l] = r1 * w1[1] + i1 * w1[0];
                y2->re[l] = r2 * w2[0] - i2 * w2[1], y2->im[l] = r2 * w2[1] + i2 * w2[0];
                y3->re[l] = r3 * w3[0] - i3 * w3[1], y3->im[l] = r3 * w3[1] + i3 * w3[0];
            }
        }
    }
}

// Any factor r: r sums of r.
static void pass_r(const Pass *a, int64_t r, const Many *restrict x, Many *restrict y) {
    for (int64_t i = 0; i < a->m * r * a->s; i++) {
        int64_t p = i / (r * a->s), k = i / a->s % r, q = i % a->s;
        Many sum = x[q + a->s * p];
        for (int64_t j = 1; j < r; j++) {
            const Many *z = &x[q + a->s * (p + a->m * j)];
            const REAL *w = a->root[j * k % r * (a->n / r)];
            for (int l = 0; l < FFT_LANES; l++) {
                sum.re[l] += z->re[l] * w[0] - z->im[l] * w[1];
                sum.im[l] += z->re[l] * w[1] + z->im[l] * w[0];
            }
        }
        multiply(&sum, a->root[p * k * a->step], &y[i]);
    }
}

// x and y [n] by turns; where the result is.
static Many *passes(const FftPlan *f, Many *x, Many *y) {
    Pass a = {.s = 1, .root = f->root.TABLE, .n = f->n, .m = f->n};
    for (uint32_t i = 0; i < f->factors; i++) {
        int64_t r = f->factor[i];
        a.m /= r;
        a.step = a.s;
        if (r == 4)
            pass_4(&a, x, y);
        else if (r == 2)
            pass_2(&a, x, y);
        else
            pass_r(&a, r, x, y);
        a.s *= r;
        Many *swap = x;
        x = y, y = swap;
    }
    return x;
}

static void exchange(Many *x, int64_t n) {
    for (int64_t k = 0; k < n; k++) {
        Many z = x[k];
        memcpy(x[k].re, z.im, sizeof z.im);
        memcpy(x[k].im, z.re, sizeof z.re);
    }
}

// Bluestein's algorithm. jk = (j^2 + k^2 - (k - j)^2)/2: a transform is a convolution with a chirp,
// times the chirp.
static Many *bluestein(const FftPlan *f, Many *x, Many *y) {
    const FftPlan *padded = f->padded;
    for (int64_t j = 0; j < f->n; j++)
        multiply(&x[j], f->chirp.TABLE[j], &x[j]);
    memset(x + f->n, 0, (size_t)(padded->n - f->n) * sizeof *x);
    Many *z = passes(padded, x, y);
    for (int64_t k = 0; k < padded->n; k++)
        multiply(&z[k], f->filter.TABLE[k], &z[k]);
    exchange(z, padded->n); // back again
    z = passes(padded, z, z == x ? y : x);
    exchange(z, f->n);
    for (int64_t k = 0; k < f->n; k++)
        multiply(&z[k], f->chirp.TABLE[k], &z[k]);
    return z;
}

// --- lines to lanes and back ---------------------------------------------------------------------

enum {
    BLOCK = 16,           // elements of a line at a time
    APART = 2 * FFT_LANES // numbers from one Many's lane to the next's
};

typedef struct Lines {  // some lines, one part of them
    int64_t line, step; // numbers from a line, an element to the next
    int64_t n, lanes;   // elements; lines there are
} Lines;

static void gather(const Lines *a, const REAL *from, REAL *to) {
    for (int64_t j0 = 0; j0 < a->n; j0 += BLOCK)
        for (int64_t l = 0; l < a->lanes; l++)
            for (int64_t j = j0; j < a->n && j < j0 + BLOCK; j++)
                to[j * APART + l] = from[l * a->line + j * a->step];
}

static void scatter(const Lines *a, const REAL *from, REAL *to) {
    for (int64_t j0 = 0; j0 < a->n; j0 += BLOCK)
        for (int64_t l = 0; l < a->lanes; l++)
            for (int64_t j = j0; j < a->n && j < j0 + BLOCK; j++)
                to[l * a->line + j * a->step] = from[j * APART + l];
}

// Of one side, from line `first` on.
static Lines lines_of(const FftSide *s, int64_t first, int64_t all) {
    int64_t lanes = all - first;
    return (Lines){s->line, s->step, s->n, lanes < FFT_LANES ? lanes : FFT_LANES};
}

// --- groups --------------------------------------------------------------------------------------

static Many *transformed(const FftPlan *f, Many *x, Many *y) {
    return f->padded ? bluestein(f, x, y) : passes(f, x, y);
}

static void complex_group(const FftPlan *f, const FftLines *a, const REAL *in, REAL *out, int64_t g,
                          Many *x, Many *y) {
    int64_t first = g * FFT_LANES, re = a->inverse, im = !a->inverse;
    Lines from = lines_of(&a->in, first, a->lines), to = lines_of(&a->out, first, a->lines);
    in += first * a->in.line;
    out += first * a->out.line;
    gather(&from, in + re * a->in.part, x->re);
    gather(&from, in + im * a->in.part, x->im);
    const Many *z = transformed(f, x, y);
    scatter(&to, z->re, out + re * a->out.part);
    scatter(&to, z->im, out + im * a->out.part);
}

// Real numbers of an even line are the parts of half as many; an odd line has no imaginary parts.
static Lines real_lines(const FftSide *s, int64_t first, int64_t all, int64_t n) {
    Lines a = lines_of(s, first, all);
    a.step *= s->n / n;
    a.n = n;
    return a;
}

// out[k] = e[k] + w^k o[k], of the transforms e and o of even and odd numbers, which z holds as e +
// io.
static void unfold(const FftPlan *f, const Many *restrict z, Many *restrict out) {
    const REAL h = (REAL)0.5;
    for (int64_t k = 0; k <= f->n; k++) {
        const Many *p = &z[k % f->n], *m = &z[(f->n - k) % f->n];
        const REAL *w = f->fold.TABLE[k];
        for (int l = 0; l < FFT_LANES; l++) {
            REAL re = h * (p->im[l] + m->im[l]), im = h * (m->re[l] - p->re[l]);
            out[k].re[l] = h * (p->re[l] + m->re[l]) + re * w[0] - im * w[1];
            out[k].im[l] = h * (p->im[l] - m->im[l]) + re * w[1] + im * w[0];
        }
    }
}

static void real_group(const FftPlan *f, const FftLines *a, const REAL *in, REAL *out, int64_t g,
                       Many *x, Many *y) {
    int64_t first = g * FFT_LANES;
    Lines from = real_lines(&a->in, first, a->lines, f->n), to = lines_of(&a->out, first, a->lines);
    in += first * a->in.line;
    out += first * a->out.line;
    gather(&from, in, x->re);
    if (f->n < a->n)
        gather(&from, in + a->in.step, x->im);
    else
        for (int64_t j = 0; j < a->n; j++)
            memset(x[j].im, 0, sizeof x[j].im);
    Many *z = transformed(f, x, y);
    if (f->n < a->n) {
        Many *whole = z == x ? y : x;
        unfold(f, z, whole);
        z = whole;
    }
    scatter(&to, z->re, out);
    scatter(&to, z->im, out + a->out.part);
}

// The inverse of unfold, into parts exchanged.
static void fold(const FftPlan *f, const Many *restrict in, Many *restrict z) {
    for (int64_t k = 0; k < f->n; k++) {
        const Many *p = &in[k], *m = &in[f->n - k];
        const REAL *w = f->fold.TABLE[k],
                   real = k ? 1 : 0; // imaginary parts of the ends are not read
        for (int l = 0; l < FFT_LANES; l++) {
            REAL re = p->re[l] - m->re[l], im = real * (p->im[l] + m->im[l]);
            z[k].im[l] = p->re[l] + m->re[l] - (im * w[0] - re * w[1]);
            z[k].re[l] = real * (p->im[l] - m->im[l]) + re * w[0] + im * w[1];
        }
    }
}

// All of an odd line from its first half, parts exchanged.
static void mirror(int64_t n, const Many *restrict in, Many *restrict z) {
    for (int64_t k = 0; k <= n / 2; k++) {
        Many *p = &z[k], *m = &z[k ? n - k : 0];
        for (int l = 0; l < FFT_LANES; l++) {
            REAL im = k ? in[k].im[l] : 0;
            m->im[l] = p->im[l] = in[k].re[l];
            m->re[l] = -im;
            p->re[l] = im;
        }
    }
}

static void half_group(const FftPlan *f, const FftLines *a, const REAL *in, REAL *out, int64_t g,
                       Many *x, Many *y) {
    int64_t first = g * FFT_LANES;
    Lines from = lines_of(&a->in, first, a->lines), to = real_lines(&a->out, first, a->lines, f->n);
    in += first * a->in.line;
    out += first * a->out.line;
    gather(&from, in, y->re);
    gather(&from, in + a->in.part, y->im);
    if (f->n < a->n)
        fold(f, y, x);
    else
        mirror(a->n, y, x);
    const Many *z = transformed(f, x, y);
    scatter(&to, z->im, out);
    if (f->n < a->n)
        scatter(&to, z->re, out + a->out.step);
}

void RUN(const FftPlan *f, const FftLines *a, const REAL *in, REAL *out, int64_t lo, int64_t hi,
         REAL *room) {
    Many *x = (Many *)room, *y = x + fft_longest(f);
    memset(x, 0, 2 * (size_t)fft_longest(f) * sizeof *x); // lanes without a line
    for (int64_t g = lo; g < hi; g++)
        if (a->in.real)
            real_group(f, a, in, out, g, x, y);
        else if (a->out.real)
            half_group(f, a, in, out, g, x, y);
        else
            complex_group(f, a, in, out, g, x, y);
}
