// reduce.c - the arithmetic of reductions: combining arrays of f64 or f32, and converting between
// f32 and bf16.
#include "link.h"
#include "half.h"

#include <math.h>

const LinkHost link_host = {fail,      time_now,      mem_alloc,   mem_free,
                            link_tree, floats_narrow, floats_widen};

#define COMBINE(T)                                                                                 \
    static void combine_##T(bool max, T *restrict acc, const T *restrict x, size_t n) {            \
        if (max)                                                                                   \
            for (size_t i = 0; i < n; i++)                                                         \
                acc[i] = x[i] > acc[i] || x[i] != x[i] ? x[i] : acc[i]; /* a NaN is not lost */    \
        else                                                                                       \
            for (size_t i = 0; i < n; i++)                                                         \
                acc[i] += x[i];                                                                    \
    }
COMBINE(double)
COMBINE(float)
#undef COMBINE

void link_tree(CommKind kind, Dtype dtype, void *parts, size_t stride, size_t count, size_t n) {
    char *part = parts;
    bool max = kind == CommMax;
    for (size_t step = 1; step < count; step *= 2)
        for (size_t i = 0; i + step < count; i += 2 * step) {
            void *acc = part + i * stride, *x = part + (i + step) * stride;
            if (dtype == DtF64)
                combine_double(max, acc, x, n);
            else
                combine_float(max, acc, x, n);
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
