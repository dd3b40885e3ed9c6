// fft.c - the discrete Fourier transform of square arrays, of any side.
//
// In: an array of complex numbers. Out: its transform, in its place. A line of n is split by n's
// smallest prime factor p into p lines of n / p (Cooley, Tukey 1965), so a power of two costs
// n log n and a prime n^2. Sizes here are those of maps, some hundreds; clearness comes first.
#include "measure.h"

#include <math.h>

typedef struct Fft {
    uint32_t n;
    Complex *root; // [n] exp(-+2 pi i k / n)
    Complex *line; // [n] work
} Fft;

static Complex times(Complex a, Complex b) {
    return (Complex){a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
}

static uint32_t smallest_factor(uint32_t n) {
    for (uint32_t p = 2; p * p <= n; p++)
        if (n % p == 0)
            return p;
    return n;
}

// out [n] becomes the transform of in[0], in[stride], ... Whole lines have stride 1; `f->n / n`
// turns a root of a part into one of the whole.
static void transform(const Fft *f, const Complex *in, size_t stride, uint32_t n, Complex *out) {
    if (n == 1) {
        out[0] = in[0];
        return;
    }
    uint32_t p = smallest_factor(n), m = n / p, scale = f->n / n;
    for (uint32_t r = 0; r < p; r++)
        transform(f, in + r * stride, stride * p, m, out + (size_t)r * m);
    Complex *part = f->line; // the p outputs that share k; no call is open that uses it
    for (uint32_t k = 0; k < m; k++) {
        for (uint32_t r = 0; r < p; r++)
            part[r] = out[(size_t)r * m + k];
        for (uint32_t q = 0; q < p; q++) {
            Complex sum = part[0];
            for (uint32_t r = 1; r < p; r++) {
                uint64_t turn = (uint64_t)r * (k + (uint64_t)q * m) % n;
                Complex t = times(part[r], f->root[turn * scale]);
                sum = (Complex){sum.re + t.re, sum.im + t.im};
            }
            out[(size_t)q * m + k] = sum;
        }
    }
}

static void turn_square(Complex *x, uint32_t n) {
    for (uint32_t a = 0; a < n; a++) {
        for (uint32_t b = a + 1; b < n; b++) {
            Complex t = x[(size_t)a * n + b];
            x[(size_t)a * n + b] = x[(size_t)b * n + a];
            x[(size_t)b * n + a] = t;
        }
    }
}

GanStatus fft_square(Complex *x, uint32_t n, bool inverse) {
    const double pi = 3.14159265358979323846;
    Complex *work = mem_alloc(3 * (size_t)n * sizeof *work);
    if (!work)
        return fail(GAN_ERR_MEMORY, "no memory for a transform of %u numbers", n);
    Fft f = {n, work, work + n};
    Complex *out = work + 2 * (size_t)n;
    for (uint32_t k = 0; k < n; k++) {
        double angle = (inverse ? 2 : -2) * pi * k / n;
        f.root[k] = (Complex){cos(angle), sin(angle)};
    }
    double scale = inverse ? 1.0 / n : 1;
    for (uint32_t pass = 0; pass < 2; pass++) { // rows, then columns as rows
        for (uint32_t a = 0; a < n; a++) {
            Complex *row = x + (size_t)a * n;
            transform(&f, row, 1, n, out);
            for (uint32_t b = 0; b < n; b++)
                row[b] = (Complex){out[b].re * scale, out[b].im * scale};
        }
        turn_square(x, n);
    }
    mem_free(work);
    return GAN_OK;
}
