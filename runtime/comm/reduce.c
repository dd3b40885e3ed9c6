// reduce.c - the arithmetic of reductions: combining arrays of f64 or f32, and converting between
// f32 and bf16.
#include "comm_link.h"
#include "half.h"

#include <math.h>

const LinkHost link_host = {fail,      time_now,      mem_alloc,   mem_free,
                            link_tree, floats_narrow, floats_widen};

// to = (before, to) or (to, after): the operands keep their order, which tells zeros and NaNs
// apart.
#define COMBINE(T)                                                                                 \
    static void add_##T(T *restrict to, const T *restrict x, size_t n) {                           \
        for (size_t i = 0; i < n; i++)                                                             \
            to[i] += x[i];                                                                         \
    }                                                                                              \
    static void max_after_##T(T *restrict to, const T *restrict x, size_t n) {                     \
        for (size_t i = 0; i < n; i++)                                                             \
            to[i] = x[i] > to[i] || x[i] != x[i] ? x[i] : to[i]; /* a NaN is not lost */           \
    }                                                                                              \
    static void max_before_##T(T *restrict to, const T *restrict x, size_t n) {                    \
        for (size_t i = 0; i < n; i++)                                                             \
            to[i] = to[i] > x[i] || to[i] != to[i] ? to[i] : x[i];                                 \
    }
COMBINE(double)
COMBINE(float)
#undef COMBINE

static void combine(CommKind kind, Dtype dtype, void *to, const void *x, size_t n, bool before) {
    bool wide = dtype == DtF64;
    if (kind == CommMax && before)
        wide ? max_before_double(to, x, n) : max_before_float(to, x, n);
    else if (kind == CommMax)
        wide ? max_after_double(to, x, n) : max_after_float(to, x, n);
    else
        wide ? add_double(to, x, n) : add_float(to, x, n);
}

void link_tree(CommKind kind, Dtype dtype, void **part, size_t count, size_t n, size_t keep) {
    void *kept = part[keep];
    for (size_t step = 1; step < count; step *= 2)
        for (size_t i = 0; i + step < count; i += 2 * step) {
            void *first = part[i], *second = part[i + step];
            bool into_second = second == kept;
            combine(kind, dtype, into_second ? second : first, into_second ? first : second, n,
                    into_second);
            part[i] = into_second ? second : first;
        }
}

void floats_narrow(const float *from, uint16_t *to, size_t n, float *lost) {
    for (size_t i = 0; i < n; i++) {
        to[i] = gan_f32_to_bf16(from[i]);
        float owed = from[i] - gan_bf16_to_f32(to[i]);
        if (lost && isfinite(owed))
            lost[i] += owed;
    }
}

void floats_widen(const uint16_t *from, float *to, size_t n) {
    for (size_t i = 0; i < n; i++)
        to[i] = gan_bf16_to_f32(from[i]);
}
