// order_line.c - order_line.h for any machine and, compiled again, for every level of vector
// instructions (ORDER_LEVEL): loops over lanes are left to the compiler's vectoriser.
//
// A short line is sorted by rank: each number is compared with all others, LANES at a time, and its
// position is how many are less. A long one gets a radix sort of its keys, lowest byte first.
// Nanoseconds per number on one core, by rank and by radix: with AVX-512 a line of 64 takes 2.8 and
// 11, of 128 3.7 and 7.5, of 1,000 35 and 4.8; without, of 64 4.8 and 11, of 128 8.5 and 8.0.
#include "order_line.h"

#include <stdbool.h>
#include <string.h>

#ifndef ORDER_LEVEL
#define ORDER_LEVEL order_run
size_t order_room(int64_t n) {
    return ((size_t)n + 16) * 2 * sizeof(uint64_t);
}
#endif

enum { LANES = 16, SHORT = 128, DIGITS = 4, VALUES = 256 };

extern OrderRun ORDER_LEVEL;

// Of f32 in ascending order: both zeros are one, so are all NaNs.
static inline int32_t key_of(float x) {
    float one_zero = x + 0.0f;
    int32_t bits;
    memcpy(&bits, &one_zero, sizeof bits);
    int32_t key = bits < 0 ? bits ^ INT32_MAX : bits;
    return x == x ? key : INT32_MAX;
}

// --- short lines ---------------------------------------------------------------------------------

// less[i] = how many of key[0 .. n) are less than key[i], for LANES of them.
static inline void count_less(const int32_t *key, int64_t n, const int32_t *mine, int32_t *less) {
    int32_t sum[LANES] = {0};
    for (int64_t j = 0; j < n; j++)
        for (int l = 0; l < LANES; l++)
            sum[l] += key[j] < mine[l];
    memcpy(less, sum, sizeof sum);
}

static void order_short(const float *x, float *y, int64_t n, int64_t step, int32_t *key) {
    int32_t less[SHORT], taken[SHORT] = {0};
    for (int64_t i = 0; i < n; i++)
        key[i] = key_of(x[i * step]);
    for (int64_t i = n; i % LANES; i++) // no number is less for them
        key[i] = INT32_MAX;
    for (int64_t i = 0; i < n; i += LANES)
        count_less(key, n, key + i, less + i);
    for (int64_t i = 0; i < n; i++) // equal ones behind one another
        y[(less[i] + taken[less[i]]++) * step] = (float)i;
}

// --- long lines ----------------------------------------------------------------------------------

// A key, its lowest bit order turned to unsigned, above the place it is at.
static void pack(const float *x, int64_t n, int64_t step, uint64_t *to,
                 uint32_t count[DIGITS][VALUES]) {
    for (int64_t i = 0; i < n; i++) {
        uint32_t key = (uint32_t)key_of(x[i * step]) ^ 0x80000000u;
        to[i] = (uint64_t)key << 32 | (uint64_t)i;
        for (int d = 0; d < DIGITS; d++)
            count[d][key >> 8 * d & 255]++;
    }
}

// By one digit; equal ones keep their order.
static void deal(const uint64_t *from, uint64_t *to, int64_t n, int digit,
                 const uint32_t count[VALUES]) {
    uint32_t start[VALUES], at = 0;
    for (int v = 0; v < VALUES; v++) {
        start[v] = at;
        at += count[v];
    }
    for (int64_t i = 0; i < n; i++)
        to[start[from[i] >> (32 + 8 * digit) & 255]++] = from[i];
}

static void order_long(const float *x, float *y, int64_t n, int64_t step, uint64_t *room) {
    uint32_t count[DIGITS][VALUES] = {{0}};
    uint64_t *from = room, *to = room + n;
    pack(x, n, step, from, count);
    for (int d = 0; d < DIGITS; d++) {
        if (count[d][from[0] >> (32 + 8 * d) & 255] == (uint64_t)n)
            continue; // all have this digit
        deal(from, to, n, d, count[d]);
        uint64_t *dealt = to;
        to = from;
        from = dealt;
    }
    for (int64_t i = 0; i < n; i++)
        y[i * step] = (float)(uint32_t)from[i];
}

void ORDER_LEVEL(const float *x, float *y, int64_t n, int64_t step, void *room) {
    if (n <= SHORT)
        order_short(x, y, n, step, room);
    else
        order_long(x, y, n, step, room);
}
