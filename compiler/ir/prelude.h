// prelude.h - functions that generated kernels and the reference evaluator share: random numbers,
// and float mathematics without branches, tables or calls, so that loops around it vectorise.
// Compiled into the compiler's library and put as text, behind half.h, before every kernel: plain
// C99 that CUDA accepts too, no other project headers, no macros of ours but two. A dialect for
// which `static inline` does not say enough sets GAN_FN; one that brings its own gan_divf and
// gan_sqrtf sets GAN_OWN_DIVISION.
//
// Kernels must not be compiled with flags that reassociate (-ffast-math): adding 1.5 * 2^23 and
// taking it away again is how a float is rounded here. Errors are stated in ulp and tested
// (tests/unit/prelude_test.c).
#ifndef GAN_PRELUDE_H
#define GAN_PRELUDE_H

#ifndef GAN_HALF_H // as text it stands before this one
#include "half.h"
#endif
#ifndef GAN_OWN_DIVISION
#include <math.h>
GAN_FN float gan_divf(float a, float b) {
    return a / b;
}
GAN_FN float gan_sqrtf(float a) {
    return sqrtf(a);
}
#endif

// --- float mathematics ---------------------------------------------------------------------------

// 2 ulp. The exponent is applied in two halves, so that results below the normal range are right
// too.
GAN_FN float gan_expf(float x) {
    x = x > 90.0f ? 90.0f : x;
    x = x < -105.0f ? -105.0f : x;
    float t = x * 1.44269504f + 12582912.0f, n = t - 12582912.0f;
    float r = (x - n * 0.693145751953125f) - n * 1.42860677e-6f; // ln 2 in two parts
    float p = 1.395171082e-3f;
    p = p * r + 8.369599042e-3f;
    p = p * r + 4.166618737e-2f;
    p = p * r + 1.666651288e-1f;
    p = p * r + 5.000000101e-1f;
    p = (p * r * r + r) + 1.0f;
    uint32_t k = gan_bits_f32(t) - 0x4B400000u, half = ((k + 256u) >> 1) - 128u;
    return p * gan_f32_bits((half + 127u) << 23) * gan_f32_bits((k - half + 127u) << 23);
}

// log of x / 2^(bias - 127), for a positive x that is neither subnormal nor infinite: 1 ulp.
// x = 2^k * (1 + f) with 1 + f around 1; log(1 + f) by the odd series in s = f / (2 + f).
GAN_FN float gan_log_scaled(float x, float bias) {
    uint32_t u = gan_bits_f32(x) + (0x3F800000u - 0x3F3504F3u);
    float k = (gan_f32_bits(0x4B000000u | u >> 23) - 8388608.0f) - bias;
    float f = gan_f32_bits((u & 0x007FFFFFu) + 0x3F3504F3u) - 1.0f;
    float s = gan_divf(f, 2.0f + f), z = s * s, h = 0.5f * f * f;
    float p = 2.361055912e-1f;
    p = p * z + 2.853588759e-1f;
    p = p * z + 4.000035621e-1f;
    p = p * z + 6.666666556e-1f;
    return k * 0.693145751953125f + (f - (h - (s * (h + p * z) + k * 1.42860677e-6f)));
}

// 1 ulp.
GAN_FN float gan_logf(float x) {
    float up = x < 1.17549435e-38f ? x * 8388608.0f : x,
          bias = x < 1.17549435e-38f ? 150.0f : 127.0f, y = gan_log_scaled(up, bias);
    float inf = gan_f32_bits(0x7F800000u), nan = gan_f32_bits(0x7FC00000u),
          edge = x == 0.0f ? -inf : nan;
    y = x < inf ? y : x;
    return x > 0.0f ? y : edge;
}

// 3 ulp. The rounding of 1 + x is made good by the factor x / ((1 + x) - 1).
GAN_FN float gan_log1pf(float x) {
    float u = 1.0f + x, d = u - 1.0f;
    float y = gan_logf(u) * gan_divf(x, d == 0.0f ? 1.0f : d);
    y = d == 0.0f ? x : y;
    return x < gan_f32_bits(0x7F800000u) ? y : x;
}

// 2 ulp.
GAN_FN float gan_tanhf(float x) {
    float a = fabsf(x), z = x * x;
    float p = -5.717009948e-3f;
    p = p * z + 2.065055295e-2f;
    p = p * z - 5.374348637e-2f;
    p = p * z + 1.333149113e-1f;
    p = p * z - 3.333328392e-1f;
    float small = p * z * x + x;
    float big = 1.0f - gan_divf(2.0f, gan_expf(2.0f * (a > 10.0f ? 10.0f : a)) + 1.0f);
    big = x < 0.0f ? -big : big;
    return a < 0.625f ? small : big;
}

// sin of r, within an eighth of a turn about 0, and quarter turns: 2 ulp of the larger of sin and
// cos. Where a type has 16 bits, GCC's vectors are of twice as many elements, in several registers:
// a loop that draws normal numbers waits less for the products of a round of Philox, and takes 0.88
// of the time with AVX-512, 0.77 with AVX2.
GAN_FN float gan_sin_turned(float r, uint16_t quarters) {
    float z = r * r;
    float s = -1.951082414e-4f;
    s = s * z + 8.332131357e-3f;
    s = s * z - 1.666665422e-1f;
    s = s * z * r + r;
    float c = 2.443119722e-5f;
    c = c * z - 1.388730596e-3f;
    c = c * z + 4.166664565e-2f;
    c = c * z * z - 0.5f * z + 1.0f;
    float y = quarters & 1u ? c : s;
    return quarters & 2u ? -y : y;
}

// sin(x + quarter turns) for |x| up to 10^9, from where on neighbouring floats are turns apart:
// then some number from -1 to 1. What is left of whole quarters is found in double.
GAN_FN float gan_sin_far(float x, uint32_t quarters) {
    double t = (double)x * 0.63661977236758134 + 6755399441055744.0, n = t - 6755399441055744.0;
    float r = (float)(((double)x - n * 1.5707963267341256) - n * 6.0771005065061922e-11);
    r = r > 1.0f ? 1.0f : r;
    r = r < -1.0f ? -1.0f : r;
    return gan_sin_turned(r, (uint16_t)((uint32_t)gan_bits_f64(t) + quarters));
}
GAN_FN float gan_sinf(float x) {
    return gan_sin_far(x, 0u);
}
GAN_FN float gan_cosf(float x) {
    return gan_sin_far(x, 1u);
}

// cos for |x| below 10^4, in half the time: of draws.
GAN_FN float gan_cos_near(float x) {
    float t = x * 0.636619772f + 12582912.0f, n = t - 12582912.0f;
    float r = ((x - n * 1.5703125f) - n * 4.837512969970703e-4f) -
              n * 7.54978942e-8f; // pi / 2 in three parts
    return gan_sin_turned(r, (uint16_t)(gan_bits_f32(t) + 1u));
}

// 3 ulp. Around 0 an odd polynomial, outside 1 - exp of a polynomial for log(erfc).
GAN_FN float gan_erff(float x) {
    float a = fabsf(x), z = x * x, b = a > 4.0f ? 4.0f : a;
    float p = 7.889108476e-5f;
    p = p * z - 8.020837971e-4f;
    p = p * z + 5.189534968e-3f;
    p = p * z - 2.68544444e-2f;
    p = p * z + 1.128360017e-1f;
    p = p * z - 3.761262714e-1f;
    p = p * z + 1.283791659e-1f;
    float q = 1.599829908e-6f;
    q = q * b - 4.529831457e-5f;
    q = q * b + 5.902051464e-4f;
    q = q * b - 4.727697675e-3f;
    q = q * b + 2.632755091e-2f;
    q = q * b - 1.099097804e-1f;
    q = q * b - 6.320133837e-1f;
    q = q * b - 1.130119752f;
    q = q * b + 2.910350752e-4f;
    float big = 1.0f - gan_expf(q), small = p * x + x;
    big = x < 0.0f ? -big : big;
    return a < 1.0f ? small : big;
}

// 1 ulp, worked in double because an error in the logarithm is multiplied by b.
GAN_FN float gan_powf(float a, float b) {
    double x = fabs((double)a), e = (double)b;
    e = e > 1e300 ? 1e300 : e; // infinite: times the logarithm of 1 it is 0
    e = e < -1e300 ? -1e300 : e;
    uint64_t u = gan_bits_f64(x) + (0x3FF0000000000000u - 0x3FE6A09E667F3BCDu);
    double k = gan_f64_bits(0x4330000000000000u | u >> 52) - 4503599627371519.0; // 2^52 + 1023
    k = x <= 3.5e38 ? k : x;                                                     // infinite
    double f = gan_f64_bits((u & 0x000FFFFFFFFFFFFFu) + 0x3FE6A09E667F3BCDu) - 1.0;
    double s = f / (2.0 + f), z = s * s;
    double p = 0.28334126136715779;
    p = p * z + 0.31987610895408701;
    p = p * z + 0.41220993892702562;
    p = p * z + 0.57707793595782128;
    p = p * z + 0.96179669413387308;
    p = p * z + 2.8853900817778397;
    double y = e * (k + s * p);
    y = y > 200.0 ? 200.0 : y;
    y = y < -200.0 ? -200.0 : y;
    double t = y + 6755399441055744.0, r = y - (t - 6755399441055744.0);
    double v = 1.5317732404663466e-5;
    v = v * r + 1.5471064865873546e-4;
    v = v * r + 1.3333417192855257e-3;
    v = v * r + 9.6180213960266735e-3;
    v = v * r + 5.5504109827883377e-2;
    v = v * r + 0.24022651245462982;
    v = v * r + 0.69314718053298259;
    v = v * r + 0.99999999995619554;
    float w = (float)(v * gan_f64_bits((gan_bits_f64(t) - 0x4338000000000000u + 1023u) << 52));
    float inf = gan_f32_bits(0x7F800000u), nan = gan_f32_bits(0x7FC00000u);
    float at_zero = b > 0.0f ? 0.0f : b < 0.0f ? inf : b, half = 0.5f * b;
    float broken = x <= 3.5e38 ? nan : w;
    float negative = floorf(b) != b ? broken : floorf(half) != half ? -w : w;
    w = a < 0.0f ? negative : w;
    w = a == 0.0f ? at_zero : w;
    w = a == a ? w : a;
    w = a == 1.0f ? 1.0f : w;
    return b == 0.0f ? 1.0f : w;
}

// --- random numbers ------------------------------------------------------------------------------
//
// Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", 2011): four words
// from a key and a counter, so a draw is a function of where it is drawn and of nothing else.
//   key      low word of the seed; high word of the seed ^ site * 0x9E3779B9
//   counter  step, round of the repeat, sample of the global batch (0 for shared values), element
//   in row-major order
// One call gives one element. Functions ending in f are for kernels in float: the same draw,
// rounded.

typedef struct gan_words {
    uint32_t w[4];
} gan_words;

// A word's lane. Where vectors multiply whole 64-bit lanes, the upper half stays zero and a
// product's halves stay where they were made; elsewhere words of 32 bits are shuffled between the
// vectors at every round, which costs less than such a product.
#ifdef __AVX512DQ__
typedef uint64_t gan_lane;
#else
typedef uint32_t gan_lane;
#endif

GAN_FN gan_words gan_philox(uint32_t key0, uint32_t key1, gan_words c) {
    gan_lane w0 = c.w[0], w1 = c.w[1], w2 = c.w[2], w3 = c.w[3];
#ifdef __CUDACC_RTC__
#pragma unroll 2 // all ten are most of what a kernel that draws takes to compile
#endif
    for (int i = 0; i < 10; i++) {
        uint64_t a = (uint64_t)0xD2511F53u * w0, b = (uint64_t)0xCD9E8D57u * w2;
        w0 = (gan_lane)(b >> 32) ^ w1 ^ key0;
        w1 = (uint32_t)b;
        w2 = (gan_lane)(a >> 32) ^ w3 ^ key1;
        w3 = (uint32_t)a;
        key0 += 0x9E3779B9u;
        key1 += 0xBB67AE85u;
    }
    c.w[0] = (uint32_t)w0;
    c.w[1] = (uint32_t)w1;
    c.w[2] = (uint32_t)w2;
    c.w[3] = (uint32_t)w3;
    return c;
}

GAN_FN gan_words gan_draw(uint64_t seed, uint32_t site, uint32_t step, uint32_t round,
                          uint32_t sample, uint32_t element) {
    gan_words c;
    c.w[0] = step;
    c.w[1] = round;
    c.w[2] = sample;
    c.w[3] = element;
    return gan_philox((uint32_t)seed, (uint32_t)(seed >> 32) ^ site * 0x9E3779B9u, c);
}

// 52 bits and a half: exact, strictly between 0 and 1, symmetric around 1/2.
GAN_FN double gan_unit(uint32_t hi, uint32_t lo) {
    uint64_t bits = ((uint64_t)hi << 32 | lo) >> 12;
    return gan_f64_bits(0x3FF0000000000000u | bits) - 0.99999999999999989; // 1 - 2^-53
}
GAN_FN float gan_unitf(uint32_t hi, uint32_t lo) {
    float x = (float)gan_unit(hi, lo);
    return x < 0.99999994f ? x : 0.99999994f; // rounding must not reach 1
}

GAN_FN double gan_uniform(uint64_t seed, uint32_t site, uint32_t step, uint32_t round,
                          uint32_t sample, uint32_t element) {
    gan_words d = gan_draw(seed, site, step, round, sample, element);
    return gan_unit(d.w[0], d.w[1]);
}
GAN_FN float gan_uniformf(uint64_t seed, uint32_t site, uint32_t step, uint32_t round,
                          uint32_t sample, uint32_t element) {
    gan_words d = gan_draw(seed, site, step, round, sample, element);
    return gan_unitf(d.w[0], d.w[1]);
}

// Box and Muller's first number.
GAN_FN double gan_normal_of(gan_words d) {
    return sqrt(-2.0 * log(gan_unit(d.w[0], d.w[1]))) *
           cos(6.283185307179586 * gan_unit(d.w[2], d.w[3]));
}
GAN_FN double gan_normal(uint64_t seed, uint32_t site, uint32_t step, uint32_t round,
                         uint32_t sample, uint32_t element) {
    return gan_normal_of(gan_draw(seed, site, step, round, sample, element));
}
GAN_FN float gan_normalf(uint64_t seed, uint32_t site, uint32_t step, uint32_t round,
                         uint32_t sample, uint32_t element) {
    gan_words d = gan_draw(seed, site, step, round, sample, element);
    return gan_sqrtf(-2.0f * gan_log_scaled(gan_unitf(d.w[0], d.w[1]), 127.0f)) *
           gan_cos_near(6.28318531f * gan_unitf(d.w[2], d.w[3]));
}

// Normal within two deviations: the inverse of its distribution, by a rational function of a
// relative error of 2e-9. No draw is rejected, so loops around it vectorise; in double, since
// numerator and denominator nearly cancel towards the ends. 0.954... is erf(sqrt(2)).
GAN_FN double gan_truncated(uint64_t seed, uint32_t site, uint32_t step, uint32_t round,
                            uint32_t sample, uint32_t element) {
    gan_words d = gan_draw(seed, site, step, round, sample, element);
    double q = 0.9544997361036416 * (gan_unit(d.w[0], d.w[1]) - 0.5), r = q * q;
    double p = -41.695556391048704;
    p = p * r + 227.94323865805322;
    p = p * r - 281.6147613503653;
    p = p * r + 140.06287858552744;
    p = p * r - 30.837492229659937;
    p = p * r + 2.5066282783233698;
    double s = -56.726587822277146;
    s = s * r + 166.10670880717456;
    s = s * r - 158.5964853291151;
    s = s * r + 67.55369723429737;
    s = s * r - 13.3495764298017;
    s = s * r + 1.0;
    double x = q * p / s;
    x = x > 2.0 ? 2.0 : x;
    return x < -2.0 ? -2.0 : x;
}
GAN_FN float gan_truncatedf(uint64_t seed, uint32_t site, uint32_t step, uint32_t round,
                            uint32_t sample, uint32_t element) {
    return (float)gan_truncated(seed, site, step, round, sample, element);
}

GAN_FN double gan_categorical(uint64_t seed, uint32_t site, uint32_t step, uint32_t round,
                              uint32_t sample, uint32_t element, double classes) {
    return floor(classes * gan_uniform(seed, site, step, round, sample, element));
}
GAN_FN float gan_categoricalf(uint64_t seed, uint32_t site, uint32_t step, uint32_t round,
                              uint32_t sample, uint32_t element, float classes) {
    return (float)gan_categorical(seed, site, step, round, sample, element, (double)classes);
}

#endif
