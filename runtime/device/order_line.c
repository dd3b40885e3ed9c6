// order_line.c - order_line.h for any machine and, compiled again, for every level of vector
// instructions (ORDER_LEVEL): loops over lanes are left to the compiler's vectoriser.
//
// A short line is sorted by rank: each number is compared with all others, LANES at a time, and its
// position is how many are less. A long one gets a radix sort of its keys, lowest byte first; where
// only few of its last are asked for, those are selected before.
// Nanoseconds per number on one core, by rank and by radix: with AVX-512 a line of 64 takes 2.8 and
// 11, of 128 3.7 and 7.5, of 1,000 35 and 4.8; without, of 64 4.8 and 11, of 128 8.5 and 8.0. The
// last 8 of 1,024 are selected in 1.5.
#include "order_line.h"

#include <stdbool.h>
#include <string.h>

#ifndef ORDER_LEVEL
#define ORDER_LEVEL order_run
size_t order_room(int64_t n) {
    return ((size_t)n + 16) * 2 * sizeof(uint64_t);
}
#endif

enum {
    INFINITE = 0x7F800000, // its bits; those of a NaN are greater
    LANES = 16,
    BLOCK = 4 * LANES,
    SHORT = 128,
    DIGITS = 4,
    VALUES = 256,
    FEW = 32,     // sorted by insertion
    SELECTED = 4, // of a long line's numbers one in so many, or fewer, are selected
};

extern OrderRun ORDER_LEVEL;

// Of f32 in ascending order: both zeros are one, so are all NaNs.
static inline int32_t key_of(float x) {
    float one_zero = x + 0.0f;
    int32_t bits;
    memcpy(&bits, &one_zero, sizeof bits);
    int32_t key = bits < 0 ? bits ^ INT32_MAX : bits;
    return (bits & INT32_MAX) > INFINITE ? INT32_MAX : key; // without a branch
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

static void order_short(const float *x, float *y, int64_t n, int64_t k, int32_t *key) {
    int32_t less[SHORT], taken[SHORT] = {0};
    for (int64_t i = 0; i < n; i++)
        key[i] = key_of(x[i]);
    for (int64_t i = n; i % LANES; i++) // no number is less for them
        key[i] = INT32_MAX;
    for (int64_t i = 0; i < n; i += LANES)
        count_less(key, n, key + i, less + i);
    for (int64_t i = 0; i < n; i++) { // equal ones behind one another
        int64_t place = less[i] + taken[less[i]]++ - (n - k);
        if (place >= 0)
            y[place] = (float)i;
    }
}

// --- long lines ----------------------------------------------------------------------------------

// A key, its lowest bit order turned to unsigned, above the place it is at: no two are equal.
static inline uint64_t packed(int32_t key, int64_t place) {
    return (uint64_t)((uint32_t)key ^ 0x80000000u) << 32 | (uint64_t)place;
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

// Sorts packed keys that are in the order of their places. Returns `from` or `to`.
static const uint64_t *sort_by_digits(uint64_t *from, uint64_t *to, int64_t n) {
    uint32_t count[DIGITS][VALUES] = {{0}};
    for (int64_t i = 0; i < n; i++)
        for (int d = 0; d < DIGITS; d++)
            count[d][from[i] >> (32 + 8 * d) & 255]++;
    for (int d = 0; d < DIGITS; d++) {
        if (count[d][from[0] >> (32 + 8 * d) & 255] == (uint64_t)n)
            continue; // all have this digit
        deal(from, to, n, d, count[d]);
        uint64_t *dealt = to;
        to = from;
        from = dealt;
    }
    return from;
}

static void order_long(const float *x, float *y, int64_t n, int64_t k, uint64_t *room) {
    for (int64_t i = 0; i < n; i++)
        room[i] = packed(key_of(x[i]), i);
    const uint64_t *sorted = sort_by_digits(room, room + n, n) + (n - k);
    for (int64_t i = 0; i < k; i++)
        y[i] = (float)(uint32_t)sorted[i];
}

// --- the last few of a long line -----------------------------------------------------------------

static inline int64_t count_reaching(const int32_t *key, int64_t n, int32_t bar) {
    int32_t count = 0;
    for (int64_t i = 0; i < n; i++)
        count += key[i] >= bar;
    return count;
}

// A bar that k keys reach or, where others are equal to the least of these, more: bit by bit.
static int32_t bar_of(const int32_t *key, int64_t n, int64_t k) {
    int32_t bar = INT32_MIN;
    for (int bit = 31; bit >= 0; bit--) {
        int32_t higher = (int32_t)((uint32_t)bar ^ 1u << bit);
        int64_t reaching = count_reaching(key, n, higher);
        if (reaching >= k)
            bar = higher;
        if (reaching == k)
            break;
    }
    return bar;
}

// Does one of BLOCK keys reach the bar?
static inline bool any_reaches(const int32_t *key, int32_t bar) {
    int32_t reach[LANES] = {0}, any = 0;
    for (int i = 0; i < BLOCK; i += LANES)
        for (int l = 0; l < LANES; l++)
            reach[l] |= key[i + l] >= bar;
    for (int l = 0; l < LANES; l++)
        any |= reach[l];
    return any;
}

// Packs the k greatest keys in the order of their places; of equal ones the last.
static void pack_greatest(const int32_t *key, int64_t n, int64_t k, uint64_t *to) {
    int32_t bar = bar_of(key, n, k);
    int64_t have = 0, kept = 0;
    for (int64_t i = 0; i < n; i += BLOCK) {
        int64_t end = i + BLOCK < n ? i + BLOCK : n;
        if (end == i + BLOCK && !any_reaches(key + i, bar))
            continue;
        for (int64_t j = i; j < end; j++) {
            to[have] = packed(key[j], j);
            have += key[j] >= bar;
        }
    }
    int64_t surplus = have - k;
    for (int64_t i = 0; i < have; i++) {
        bool least = surplus && to[i] >> 32 == packed(bar, 0) >> 32;
        surplus -= least;
        to[kept] = to[i];
        kept += !least;
    }
}

static const uint64_t *sort_few(uint64_t *a, int64_t n) {
    for (int64_t i = 1; i < n; i++) {
        uint64_t x = a[i];
        int64_t j = i;
        for (; j > 0 && a[j - 1] > x; j--)
            a[j] = a[j - 1];
        a[j] = x;
    }
    return a;
}

static void order_last(const float *x, float *y, int64_t n, int64_t k, uint64_t *best) {
    int32_t *key = (int32_t *)(best + n);
    for (int64_t i = 0; i < n; i++)
        key[i] = key_of(x[i]);
    pack_greatest(key, n, k, best);
    const uint64_t *sorted = k <= FEW ? sort_few(best, k) : sort_by_digits(best, best + k, k);
    for (int64_t i = 0; i < k; i++)
        y[i] = (float)(uint32_t)sorted[i];
}

void ORDER_LEVEL(const float *x, float *y, int64_t n, int64_t k, void *room) {
    if (n <= SHORT)
        order_short(x, y, n, k, room);
    else if (k <= n / SELECTED)
        order_last(x, y, n, k, room);
    else
        order_long(x, y, n, k, room);
}
