// kernel_c.h - text put between the prelude and the kernels of the C dialect: the counters a kernel
// is given (Counters of ir.h) and what the emitter writes by name.
typedef struct gan_counters {
    uint64_t seed;
    uint32_t step, round;
    int64_t sample0;
    double epoch, kimg;
} gan_counters;

// The loop that follows touches no element twice, though an output may be the same memory as an
// input.
#if defined(__clang__)
#define GAN_SIMD _Pragma("clang loop vectorize(assume_safety)")
#else
#define GAN_SIMD _Pragma("GCC ivdep")
#endif

// A loop of a few iterations over neighbours inside a longer one: unrolled, it leaves the longer
// one to be vectorized. GCC interleaves groups of 2, 3, 4 and 8 neighbours, and no others.
#define GAN_PRAGMA(text) _Pragma(#text)
#if defined(__clang__)
#define GAN_FEW(n)
#else
#define GAN_FEW(n) GAN_PRAGMA(GCC unroll n)
#endif

// GCC 13 before 13.3 miscompiles some sums over neighbours with a condition in them (the gradient
// of a norm below a relu), unless it leaves in place what only one side of the condition needs.
#if defined(__GNUC__) && !defined(__clang__) && __GNUC__ == 13 && __GNUC_MINOR__ < 3
#pragma GCC optimize("no-tree-sink")
#endif

// In a loop of sums in order. GCC 12 vectorizes those without gain, and miscompiles them where
// loads have a negative stride.
#define GAN_IN_ORDER __asm__ volatile("");

// Is a greater than b? A NaN is greater than any number, so that it propagates. gan_exceeds is
// strict; gan_beats breaks ties by index: of a at x and b at y the lower one wins. `|` and `&` have
// no branches, so compilers vectorize them.
#define gan_greater(a, b) (((a) > (b)) | ((a) != (a)))
#define gan_exceeds(a, b) (((a) > (b)) | (((a) != (a)) & ((b) == (b))))
#define gan_beats(a, x, b, y)                                                                      \
    (((a) > (b)) | (((a) == (b)) & ((x) < (y))) | (((a) != (a)) & (((b) == (b)) | ((x) < (y)))))

// Reduces the accumulators of n lanes in a fixed tree.
static inline float gan_sum_lanesf(float *x, int n) {
    for (; n > 1; n = (n + 1) / 2)
        for (int i = 0; i < n / 2; i++)
            x[i] += x[i + (n + 1) / 2];
    return x[0];
}
static inline double gan_sum_lanes(double *x, int n) {
    for (; n > 1; n = (n + 1) / 2)
        for (int i = 0; i < n / 2; i++)
            x[i] += x[i + (n + 1) / 2];
    return x[0];
}
static inline float gan_max_lanesf(float *x, int n) {
    for (int i = 1; i < n; i++)
        x[0] = gan_greater(x[i], x[0]) ? x[i] : x[0];
    return x[0];
}
static inline double gan_max_lanes(double *x, int n) {
    for (int i = 1; i < n; i++)
        x[0] = gan_greater(x[i], x[0]) ? x[i] : x[0];
    return x[0];
}

// Of the values x of n lanes, at the indices `at`, the greatest becomes *best if it beats that.
#define GAN_BEST_LANE(name, type, index)                                                           \
    static inline void name(const type *x, const index *at, int n, type *best, index *where) {     \
        for (int i = 0; i < n; i++)                                                                \
            if (gan_beats(x[i], at[i], *best, *where)) {                                           \
                *best = x[i];                                                                      \
                *where = at[i];                                                                    \
            }                                                                                      \
    }
GAN_BEST_LANE(gan_best_lanef, float, int32_t)
GAN_BEST_LANE(gan_best_lane, double, int64_t)

// A kernel that draws. GCC takes vectors of half the width on Intel's processors, because the first
// with AVX-512 lost clock rate to whole ones; from Ice Lake on (AVX512VBMI2; AMD's have SSE4A)
// those draw a normal number in 0.71 of the time.
#if defined(__GNUC__) && !defined(__clang__) && defined(__AVX512VBMI2__) && !defined(__SSE4A__)
#define GAN_DRAWS __attribute__((target("prefer-vector-width=512")))
#else
#define GAN_DRAWS
#endif

// Code that runs once after all units, over few numbers, is compiled without vectorization, which
// was a fifth of the compiler's time. Its only long loop is the same in all kernels: the partial
// results of n accumulators, q[parts][n], reduced from first to last.
#define GAN_SELDOM __attribute__((cold))
#define GAN_PARTS(name, type, identity, joined)                                                    \
    __attribute__((noinline)) static void name(type *s, const type *q, int64_t parts, int64_t n) { \
        for (int64_t k = 0; k < n; k++)                                                            \
            s[k] = identity;                                                                       \
        for (int64_t t = 0; t < parts; t++, q += n)                                                \
            for (int64_t k = 0; k < n; k++)                                                        \
                s[k] = joined;                                                                     \
    }
GAN_PARTS(gan_sum_partsf, float, 0, s[k] + q[k])
GAN_PARTS(gan_sum_parts, double, 0, s[k] + q[k])
GAN_PARTS(gan_max_partsf, float, -INFINITY, gan_greater(q[k], s[k]) ? q[k] : s[k])
GAN_PARTS(gan_max_parts, double, -INFINITY, gan_greater(q[k], s[k]) ? q[k] : s[k])

// The sum of squares about the mean, of n terms. Squares are summed in double, in which those of
// floats are exact, and so is the sum of the terms.
static inline void gan_add_square(double *squares, double x) {
    *squares += x * x;
}
static inline double gan_squares(double squares, double sum, int64_t n) {
    const double about = squares - sum * sum / (double)n;
    return about < 0 ? 0 : about; // negative by rounding only
}

// A label as a row of a table: clamped, so that an invalid one reads a wrong row, never outside the
// table.
static inline int64_t gan_row(double x, int64_t rows) {
    return !(x >= 0) ? 0 : x >= (double)rows ? rows - 1 : (int64_t)x;
}
