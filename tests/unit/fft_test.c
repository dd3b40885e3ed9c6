// fft_test.c - Fourier transforms of lines against the defining sum: every kind, lengths of small
// and large factors, both memory layouts, every level of instructions; results that do not depend
// on other lines; refused memory.
#include "device.h"
#include "prelude.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "cases.h"

enum { LINES = 19, LONGEST = 1100, NUMBERS = 2 * LINES * LONGEST };

static const int64_t lengths[] = {1,  2,  3,  4,  5,   6,   7,   8,   12,  15,  16,   17,  30,
                                  49, 53, 64, 97, 106, 121, 128, 210, 243, 256, 1009, 1024};
enum { LENGTHS = sizeof lengths / sizeof *lengths };

typedef enum Kind { Whole, WholeInverse, RealToComplex, ComplexToReal, Kinds } Kind;

static double in[NUMBERS], out[NUMBERS];
static float in32[NUMBERS], out32[NUMBERS];

static FftSide side(bool real, int64_t n, bool planar) {
    int64_t parts = real ? 1 : 2;
    if (planar)
        return (FftSide){real, n, n, 1, LINES * n};
    return (FftSide){real, n, n * parts, parts, 1};
}

static FftLines lines_of(Kind k, int64_t n, bool planar) {
    bool from = k == RealToComplex, to = k == ComplexToReal;
    return (FftLines){.n = n,
                      .lines = LINES,
                      .inverse = k == WholeInverse || to,
                      .in = side(from, to ? n / 2 + 1 : n, planar),
                      .out = side(to, from ? n / 2 + 1 : n, planar)};
}

static void fill(void) {
    uint64_t seed = 1;
    for (int i = 0; i < NUMBERS; i++) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        in32[i] = (float)(seed >> 40) / (1 << 23) - 1;
        in[i] = in32[i];
    }
}

// Element k of a line of what is given, whole.
static void given(const FftLines *l, int64_t line, int64_t k, double *re, double *im) {
    int64_t at = k < l->in.n ? k : l->n - k;
    const double *x = in + line * l->in.line + at * l->in.step;
    *re = x[0];
    *im = l->in.real || (l->out.real && 2 * k % l->n == 0) ? 0 : x[l->in.part];
    *im = at == k ? *im : -*im;
}

// The greater one; a NaN is greater than any number.
static double worse(double a, double b) {
    return b > a || b != b ? b : a;
}

// The greatest error of a few lines, relative to the root mean square of a line's results.
static double error_of(const FftLines *l, bool narrow) {
    double worst = 0, size = sqrt((double)l->n);
    for (int64_t line = 0; line < l->lines; line += 6)
        for (int64_t k = 0; k < l->out.n; k++) {
            double re = 0, im = 0, a, b;
            for (int64_t j = 0; j < l->n; j++) {
                double t = (l->inverse ? 2 : -2) * 3.14159265358979323846 * (double)(j * k % l->n) /
                           (double)l->n;
                given(l, line, j, &a, &b);
                re += a * cos(t) - b * sin(t);
                im += a * sin(t) + b * cos(t);
            }
            int64_t at = line * l->out.line + k * l->out.step, other = at + l->out.part;
            worst = worse(worst, fabs((narrow ? (double)out32[at] : out[at]) - re) / size);
            if (!l->out.real)
                worst =
                    worse(worst, fabs((narrow ? (double)out32[other] : out[other]) - im) / size);
        }
    return worst;
}

static void run_all(const FftLines *l, FftRun32 *run) {
    FftPlan *f = NULL;
    assert_int_equal(fft_make(l, &f), GAN_OK);
    double *room = mem_alloc_aligned(fft_room(f) * sizeof *room, 64);
    fft_run64(f, l, in, out, 0, fft_groups(l), room);
    run(f, l, in32, out32, 0, fft_groups(l), (float *)room);
    mem_free_aligned(room);
    fft_free(f);
}

static void check_all(FftRun32 *run) {
    double worst[2] = {0};
    fill();
    for (int i = 0; i < LENGTHS * Kinds * 2; i++) {
        FftLines l = lines_of((Kind)(i / 2 % Kinds), lengths[i / 2 / Kinds], i % 2);
        run_all(&l, run);
        double wide = error_of(&l, false), narrow = error_of(&l, true);
        worst[0] = fmax(worst[0], wide);
        worst[1] = fmax(worst[1], narrow);
        if (!(wide < 2e-14 && narrow < 2e-6))
            fail_msg("length %lld, kind %d: off by %g in f64, %g in f32", (long long)l.n,
                     i / 2 % Kinds, wide, narrow);
    }
    print_message("worst: %.2g in f64, %.2g in f32\n", worst[0], worst[1]);
}

static void transforms_equal_the_defining_sums(void **state) {
    (void)state;
    check_all(fft_run32);
}

#ifdef GAN_VECTOR_LEVELS
extern FftRun32 fft_run32_v3, fft_run32_v4;

static void every_level_of_instructions_agrees(void **state) {
    (void)state;
    if (dnn_vector_level() >= 3)
        check_all(fft_run32_v3);
    if (dnn_vector_level() >= 4)
        check_all(fft_run32_v4);
}
#endif

// Bit for bit, whatever its neighbours hold: samples may be dealt out to ranks.
static void a_lines_result_does_not_depend_on_its_neighbours(void **state) {
    (void)state;
    static float alone[2 * LONGEST];
    for (int i = 0; i < LENGTHS * Kinds; i++) {
        FftLines l = lines_of((Kind)(i % Kinds), lengths[i / Kinds], false), one = l;
        one.lines = 1;
        fill();
        run_all(&l, fft_run32);
        size_t n = (size_t)l.out.line * sizeof *alone;
        memcpy(alone, out32 + 7 * l.out.line, n);
        memmove(in32, in32 + 7 * l.in.line, (size_t)l.in.line * sizeof *in32);
        run_all(&one, fft_run32);
        assert_memory_equal(out32, alone, n);
    }
}

static void refused_memory_is_a_status(void **state) {
    static const int64_t some[] = {12, 106, 1009}; // by factors, by a convolution, folded and not
    (void)state;
    for (int i = 0; i < 3 * Kinds; i++) {
        FftLines l = lines_of((Kind)(i % Kinds), some[i / Kinds], false);
        FftPlan *f = NULL;
        GanStatus st = GAN_ERR_MEMORY;
        size_t n = 0;
        while (st != GAN_OK) {
            mem_fail_at(++n);
            st = fft_make(&l, &f);
            mem_fail_at(0);
            assert_true(st == GAN_OK || (st == GAN_ERR_MEMORY && !f));
        }
        assert_true(n > 3);
        fft_free(f);
    }
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(transforms_equal_the_defining_sums),
#ifdef GAN_VECTOR_LEVELS
        cmocka_unit_test(every_level_of_instructions_agrees),
#endif
        cmocka_unit_test(a_lines_result_does_not_depend_on_its_neighbours),
        cmocka_unit_test(refused_memory_is_a_status),
    };
    if (CASES_LISTED(tests))
        return 0;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
