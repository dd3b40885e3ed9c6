// eval_fft.c - the Fourier transform for the reference evaluator: the sum that defines it, in
// double.
#include "eval.h"

#include <math.h>

typedef struct Dft {
    const Eval *e;
    FftLines f;
    const double *cosine, *sine; // [n] of 2 pi k/n
} Dft;

// In logical order a value's parts lie apart, within a sample or within a line of a shared value.
typedef struct Place {
    int64_t at, part; // of a line's first number; to its imaginary part
} Place;

static Place place_of(const Type *t, int64_t n, int64_t line) {
    int64_t parts = t->dim[fft_parts(t)], all = t->batched ? type_sample(t) : parts * n;
    int64_t part = all / parts, lines = part / n;
    return (Place){line / lines * all + line % lines * n, part};
}

// Frequency k of a line that has been given whole or by its first half.
static void get(const Dft *d, Place p, int64_t k, double *re, double *im) {
    int64_t n = d->f.n, mirror = k >= d->f.in.n ? n - k : k;
    *re = value_get(d->e->in[0], d->e->f64, p.at + mirror);
    *im = d->f.in.real ? 0 : value_get(d->e->in[0], d->e->f64, p.at + p.part + mirror);
    if (d->f.out.real && k * 2 % n == 0)
        *im = 0;
    if (mirror != k)
        *im = -*im;
}

static void line_sums(const Dft *d, int64_t line) {
    int64_t n = d->f.n;
    Place in = place_of(eval_in_type(d->e, 0), d->f.in.n, line),
          out = place_of(eval_type(d->e), d->f.out.n, line);
    for (int64_t k = 0; k < d->f.out.n; k++) {
        double re = 0, im = 0;
        for (int64_t j = 0; j < n; j++) {
            double a, b, c = d->cosine[j * k % n], s = d->sine[j * k % n];
            get(d, in, j, &a, &b);
            re += a * c - b * s;
            im += a * s + b * c;
        }
        value_put(d->e->out, d->e->f64, out.at + k, re);
        if (!d->f.out.real)
            value_put(d->e->out, d->e->f64, out.at + out.part + k, im);
    }
}

void eval_Fft(Eval *e) {
    const double turn = 6.28318530717958647692;
    FftLines f = fft_lines(e->g, e->id);
    double *cosine = arena_array(e->scratch, double, f.n),
           *sine = arena_array(e->scratch, double, f.n);
    for (int64_t k = 0; k < f.n; k++) {
        double angle = (f.inverse ? turn : -turn) * (double)k / (double)f.n;
        cosine[k] = cos(angle);
        sine[k] = sin(angle);
    }
    Dft d = {e, f, cosine, sine};
#pragma omp parallel for schedule(static) if (f.lines * f.n * f.n > LOOP_PARALLEL)
    for (int64_t line = 0; line < f.lines; line++)
        line_sums(&d, line);
}
