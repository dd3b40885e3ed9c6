// half.h - the bits of numbers, and the two halves a float has: bfloat16 and binary16. Compiled
// into the programs, and put as text before every kernel (prelude.h says how such text is written).
#ifndef GAN_HALF_H
#define GAN_HALF_H

#ifndef GAN_FN // a dialect for which this does not say enough sets it before
#include <stdint.h>
#define GAN_FN static inline
#endif

GAN_FN uint32_t gan_bits_f32(float x) {
    union {
        float f;
        uint32_t u;
    } v;
    v.f = x;
    return v.u;
}
GAN_FN float gan_f32_bits(uint32_t u) {
    union {
        float f;
        uint32_t u;
    } v;
    v.u = u;
    return v.f;
}
GAN_FN uint64_t gan_bits_f64(double x) {
    union {
        double f;
        uint64_t u;
    } v;
    v.f = x;
    return v.u;
}
GAN_FN double gan_f64_bits(uint64_t u) {
    union {
        double f;
        uint64_t u;
    } v;
    v.u = u;
    return v.f;
}

// bfloat16 is the upper half of a float. To the nearest, ties to even; a NaN stays one.
#if defined __CUDA_ARCH__ && __CUDA_ARCH__ >= 800 // has an instruction for it
GAN_FN uint16_t gan_f32_to_bf16(float x) {
    uint16_t h;
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(h) : "f"(x));
    return h;
}
#else
GAN_FN uint16_t gan_f32_to_bf16(float x) {
    uint32_t u = gan_bits_f32(x), nearest = (u + 0x7FFFu + (u >> 16 & 1u)) >> 16,
             nan = u >> 16 | 0x40u;
    return (uint16_t)((u & 0x7FFFFFFFu) > 0x7F800000u ? nan : nearest);
}
#endif
GAN_FN float gan_bf16_to_f32(uint16_t x) {
    return gan_f32_bits((uint32_t)x << 16);
}
GAN_FN float gan_round_bf16(float x) {
    return gan_bf16_to_f32(gan_f32_to_bf16(x));
}

// binary16: 5 bits of exponent, 10 of fraction. To the nearest, ties to even; beyond 65504
// infinite, and below 2^-14 numbers without a leading one, which an addition rounds at their last
// bit.
#ifdef __CUDA_ARCH__ // which has instructions for it
GAN_FN uint16_t gan_f32_to_f16(float x) {
    uint16_t h;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(h) : "f"(x));
    return h;
}
GAN_FN float gan_f16_to_f32(uint16_t x) {
    float f;
    asm("cvt.f32.f16 %0, %1;" : "=f"(f) : "h"(x));
    return f;
}
#else
GAN_FN uint16_t gan_f32_to_f16(float x) {
    uint32_t u = gan_bits_f32(x), sign = u >> 16 & 0x8000u, a = u & 0x7FFFFFFFu,
             normal = (a - (112u << 23) + 0xFFFu + (a >> 13 & 1u)) >> 13,
             small = gan_bits_f32(gan_f32_bits(a) + 0.5f) - (126u << 23),
             special = a > 0x7F800000u ? 0x7E00u : 0x7C00u,
             h = a < 113u << 23    ? small
                 : a >= 143u << 23 ? special
                                   : normal;
    return (uint16_t)(h | sign);
}
GAN_FN float gan_f16_to_f32(uint16_t x) {
    uint32_t a = (x & 0x7FFFu) << 13, exponent = a & 0x1Fu << 23, sign = (x & 0x8000u) << 16,
             normal = a + (112u << 23), special = a + (224u << 23),
             small = gan_bits_f32(gan_f32_bits(a + (113u << 23)) - gan_f32_bits(113u << 23)),
             f = exponent == 0             ? small
                 : exponent == 0x1Fu << 23 ? special
                                           : normal;
    return gan_f32_bits(f | sign);
}
#endif
GAN_FN float gan_round_f16(float x) {
    return gan_f16_to_f32(gan_f32_to_f16(x));
}

#endif
