// integers.h - division and rounding of whole numbers.
#ifndef GAN_INTEGERS_H
#define GAN_INTEGERS_H

#include <stddef.h>
#include <stdint.h>

// a / by, rounded down or up; by > 0. C rounds towards zero.
static inline int64_t floor_div(int64_t a, int64_t by) {
    return a / by - (a % by < 0);
}
static inline int64_t ceil_div(int64_t a, int64_t by) {
    return a / by + (a % by > 0);
}

// What gan_divide (gen/kernel_cuda.h) divides every i below 2^31 by x with, 1 < x < 2^31: the high
// 32 bits of i times the low half, shifted by the high half (Granlund and Montgomery, 1994). The
// low half is 2^(32 + s) / x, rounded up, where 2^s < x <= 2^(s + 1); the high half is s. Its
// error, below x, times i does not reach the next multiple of 2^(32 + s).
static inline int64_t fast_divisor(int64_t x) {
    uint64_t s = 0, by = (uint64_t)x;
    while ((uint64_t)2 << s < by)
        s++;
    return (int64_t)(s << 32 | (((uint64_t)1 << (32 + s)) + by - 1) / by);
}

// The least multiple of `to` that is n or more; to > 0.
static inline size_t round_up(size_t n, size_t to) {
    return (n + to - 1) / to * to;
}

// The greatest common divisor of |a| and |b|; of one of them where the other is 0.
static inline int64_t gcd(int64_t a, int64_t b) {
    while (b) {
        int64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a < 0 ? -a : a;
}

#endif
