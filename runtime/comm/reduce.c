// reduce.c - the arithmetic of reductions: combining arrays, and converting between f32 and bf16.
#include "link.h"
#include "half.h"

#include <math.h>

const LinkHost link_host = {fail,         time_now,  mem_alloc,     mem_free,
                            link_combine, link_tree, floats_narrow, floats_widen};

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

static void combine_bf16(bool max, uint16_t *acc, const uint16_t *x, size_t n) {
    for (size_t i = 0; i < n; i++) {
        float a = gan_bf16_to_f32(acc[i]), b = gan_bf16_to_f32(x[i]);
        combine_float(max, &a, &b, 1);
        acc[i] = gan_f32_to_bf16(a);
    }
}

void link_combine(CommKind kind, Dtype dtype, void *acc, const void *x, size_t n) {
    bool max = kind == CommMax;
    switch (dtype) {
    case DtF64:
        combine_double(max, acc, x, n);
        return;
    case DtF32:
        combine_float(max, acc, x, n);
        return;
    case DtBF16:
        combine_bf16(max, acc, x, n);
        return;
    case DtF16:
    case DtCount:
        break;
    }
    bug("comm: no reduction of %s", dtype_name[dtype]);
}

void link_tree(CommKind kind, Dtype dtype, void *parts, size_t stride, size_t count, size_t n) {
    char *part = parts;
    for (size_t step = 1; step < count; step *= 2)
        for (size_t i = 0; i + step < count; i += 2 * step)
            link_combine(kind, dtype, part + i * stride, part + (i + step) * stride, n);
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
