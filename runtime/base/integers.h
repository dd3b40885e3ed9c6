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
