// prelude_test.c - functions shared by kernels: float mathematics within the ulp its comments
// promise, bfloat16 against exact rounding, Philox against its authors' known answers, random
// draws inside their ranges.
#include "prelude.h"
#include "walks.h"

#include <stdbool.h>
#include <stdio.h>

static unsigned failures;

static void expect(bool ok, const char *what, double at, double got) {
    if (!ok && failures++ < 20)
        printf("FAIL %s at %.9g: %.9g\n", what, at, got);
}

// Distance in units of the last place of a float near `want`.
static double ulps(float got, double want) {
    if (isnan(want) || isinf((float)want))
        return (isnan(want) && isnan(got)) || got == (float)want ? 0 : 1e9;
    int e;
    frexp(want, &e);
    return fabs(got - want) / ldexp(1, (e < -125 ? -125 : e) - 24);
}

typedef struct Row {
    const char *name;
    float (*fast)(float);
    double (*exact)(double);
    float low, high;
    double allowed;
} Row;

static void walk_functions(Arena *a) {
    (void)a;
    const Row rows[] = {
        {"exp", gan_expf, exp, -INFINITY, INFINITY, 2},
        {"log", gan_logf, log, -1, INFINITY, 1},
        {"log1p", gan_log1pf, log1p, -2, INFINITY, 3},
        {"tanh", gan_tanhf, tanh, -INFINITY, INFINITY, 2},
        {"sin", gan_sinf, sin, -1e4f, 1e4f, 2},
        {"cos", gan_cosf, cos, -1e4f, 1e4f, 2},
        {"erf", gan_erff, erf, -INFINITY, INFINITY, 3},
    };
    for (unsigned r = 0; r < sizeof rows / sizeof *rows; r++) {
        for (uint64_t bits = 0; bits <= UINT32_MAX;
             bits += 4099) { // every exponent, many fractions, NaNs too
            float x = gan_f32_bits((uint32_t)bits);
            if (isnan(x) || (x >= rows[r].low && x <= rows[r].high)) {
                float got = rows[r].fast(x);
                expect(ulps(got, rows[r].exact(x)) <= rows[r].allowed, rows[r].name, x, got);
            }
        }
    }
    for (float x = 1; x < INFINITY; x *= 1.0003f) {
        float s = gan_sinf(x), c = gan_cosf(-x);
        expect(x > 1e9f ? fabsf(s) <= 1 : fabs(s - sin(x)) < 2e-7, "sin", x, s);
        expect(x > 1e9f ? fabsf(c) <= 1 : fabs(c - cos(x)) < 2e-7, "cos", -x, c);
    }
    expect(isnan(gan_sinf(INFINITY)) && isnan(gan_cosf(NAN)), "sin", INFINITY, gan_sinf(INFINITY));
}

static void walk_pow(Arena *arena) {
    (void)arena;
    const float special[] = {0,    -0.0f, 1,      -1,    2,        -2,        3,
                             0.5f, -0.5f, 1e-30f, 1e30f, INFINITY, -INFINITY, NAN};
    const unsigned n = sizeof special / sizeof *special;
    for (unsigned i = 0; i < n; i++) {
        for (unsigned j = 0; j < n; j++) {
            float a = special[i], b = special[j];
            bool negative_zero = a == 0 && signbit(a); // its odd powers have no sign
            expect(negative_zero || ulps(gan_powf(a, b), pow(a, b)) <= 1, "pow", a, b);
        }
    }
    for (unsigned i = 0; i < 200000; i++) {
        float a = gan_uniformf(1, 2, 3, 4, 5, i) * 8, b = gan_uniformf(1, 3, 3, 4, 5, i) * 60 - 30;
        expect(ulps(gan_powf(a, b), pow(a, b)) <= 1, "pow", a, b);
    }
}

// When rounding, infinity is treated as the next number after the largest.
static double place(float x) {
    return isinf(x) ? copysign(0x1p128, x) : x;
}

static void walk_bf16(Arena *a) {
    (void)a;
    for (uint64_t bits = 0; bits <= UINT32_MAX; bits += 1009) {
        float x = gan_f32_bits((uint32_t)bits), y = gan_bf16_to_f32(gan_f32_to_bf16(x));
        float down = gan_f32_bits((uint32_t)bits & 0xFFFF0000u),
              up = gan_f32_bits(((uint32_t)bits & 0xFFFF0000u) + 0x10000u);
        double error = fabs(place(x) - place(y)),
               other = fabs(place(x) - place(y == down ? up : down));
        expect(isnan(x) ? isnan(y) : error <= other && (y == down || y == up), "bf16", x, y);
    }
    expect(gan_f32_to_bf16(1.00390625f) == 0x3F80 && gan_f32_to_bf16(1.01171875f) == 0x3F82,
           "bf16 ties to even", 0, 0);
}

// Every f16 converts to float and back; a number between two neighbours rounds to the nearer, the
// midpoint to even; beyond the largest by half a step or more, to infinity.
static void walk_f16(Arena *a) {
    (void)a;
    for (uint32_t h = 0; h <= UINT16_MAX; h++) {
        float x = gan_f16_to_f32((uint16_t)h);
        bool nan = (h & 0x7FFF) > 0x7C00, infinite = (h & 0x7FFF) == 0x7C00;
        double fraction = h & 0x3FF, exponent = h >> 10 & 31,
               want = exponent ? ldexp(1024 + fraction, (int)exponent - 25) : ldexp(fraction, -24);
        expect(nan        ? isnan(x)
               : infinite ? isinf(x)
                          : fabs(x) == want && !signbit(x) == !(h >> 15),
               "f16", h, x);
        expect(nan || gan_f32_to_f16(x) == h, "f16 and back", h, x);
        if (nan || infinite)
            continue;
        float next = gan_f16_to_f32((uint16_t)(h + 1)),
              far = isinf(next) ? copysignf(65536, x) : next, middle = x + (far - x) / 2;
        expect(gan_f32_to_f16(middle) == (h & 1 ? h + 1 : h), "f16 ties to even", h, middle);
        expect(gan_f32_to_f16(nextafterf(middle, x)) == h, "f16 below the middle", h, middle);
        expect(gan_f32_to_f16(nextafterf(middle, far)) == h + 1, "f16 above the middle", h, middle);
    }
    expect((gan_f32_to_f16(NAN) & 0x7FFF) > 0x7C00 && gan_f32_to_f16(1e30f) == 0x7C00 &&
               gan_f32_to_f16(-INFINITY) == 0xFC00,
           "f16 beyond its range", 0, 0);
}

// The known answers of the authors' own test suite (Random123, kat_vectors).
static void philox_answers(Arena *a) {
    (void)a;
    const struct {
        uint32_t key[2];
        gan_words in, out;
    } rows[] = {
        {{0, 0}, {{0, 0, 0, 0}}, {{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}}},
        {{0xffffffff, 0xffffffff},
         {{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}},
         {{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}}},
        {{0xa4093822, 0x299f31d0},
         {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}},
         {{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}}},
    };
    for (unsigned r = 0; r < 3; r++) {
        gan_words got = gan_philox(rows[r].key[0], rows[r].key[1], rows[r].in);
        for (unsigned i = 0; i < 4; i++)
            expect(got.w[i] == rows[r].out.w[i], "philox", r, got.w[i]);
    }
}

static void draws(Arena *a) {
    (void)a;
    const unsigned n = 100000;
    double sum = 0, squares = 0, uniform = 0, count[7] = {0};
    expect(gan_unit(0, 0) > 0 && gan_unit(~0u, ~0u) < 1 && gan_unitf(~0u, ~0u) < 1, "unit", 0,
           gan_unit(~0u, ~0u));
    for (unsigned i = 0; i < n; i++) {
        double x = gan_normal(11, 1, 0, 0, 7, i), t = gan_truncated(11, 2, 0, 0, 7, i),
               u = gan_uniform(11, 3, 0, 0, 7, i);
        double k = gan_categorical(11, 4, 0, 0, 7, i, 7);
        sum += x;
        squares += x * x;
        uniform += u;
        expect(fabs(t) <= 2, "truncated", i, t);
        double within = erf(sqrt(2)) * (2 * gan_uniform(11, 2, 0, 0, 7, i) - 1);
        expect(fabs(erf(t / sqrt(2)) - within) < 1e-8, "truncated, its distribution", i, t);
        expect(fabs(gan_truncatedf(11, 2, 0, 0, 7, i) - t) < 2e-7, "float truncated", i, t);
        expect(k >= 0 && k < 7 && k == floor(k), "categorical", i, k);
        count[k >= 0 && k < 7 ? (int)k : 0]++;
        expect(fabs(gan_normalf(11, 1, 0, 0, 7, i) - x) < 2e-3, "float normal", i, x);
        expect(fabs(gan_uniformf(11, 3, 0, 0, 7, i) - u) < 1e-7, "float uniform", i, u);
    }
    expect(fabs(sum / n) < 0.01 && fabs(squares / n - 1) < 0.02, "normal moments", sum / n,
           squares / n);
    expect(fabs(uniform / n - 0.5) < 0.005, "uniform mean", 0, uniform / n);
    for (unsigned k = 0; k < 7; k++)
        expect(fabs(count[k] / n - 1.0 / 7) < 0.005, "categorical share", k, count[k] / n);
}

// As in kernels (cc.c), whatever the processor has: a draw has the same bits in both.
static void products_are_rounded(Arena *a) {
    (void)a;
    volatile double x = 1 + 0x1p-30, rounded = x * x;
    double left = x * x - rounded;
    expect(left == 0, "a product is not rounded before it is added to", x, left);
}

int main(int argc, char **argv) {
    static const Walk walks[] = {
        WALK(walk_functions),
        WALK(walk_pow),
        WALK(walk_bf16),
        WALK(walk_f16),
        WALK(philox_answers),
        WALK(draws),
        WALK(products_are_rounded),
    };
    bool found = WALKS_RUN(walks);
    return !found || failures;
}
