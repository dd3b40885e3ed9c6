// order.c - the order of samples: an epoch's permutation as a function, balanced and weighted
// draws, and keyed random bits.
//
// A Feistel network of six rounds permutes the smallest power of four that holds n numbers; results
// beyond n go through again until they fall inside (cycle walking), which keeps the map a
// permutation. So any position of any epoch costs the same, nothing is stored, and resuming needs
// no replay.
#include "data.h"

#include <float.h>

// Steele, Lea and Flood's finaliser of a 64-bit counter (splitmix64).
static uint64_t mix(uint64_t x) {
    x += UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    return x ^ x >> 31;
}

static uint32_t half_bits(uint64_t n) {
    uint32_t bits = 1;
    while (bits < 32 && UINT64_C(1) << 2 * bits < n)
        bits++;
    return bits;
}

uint64_t order_at(const Order *o, uint64_t epoch, uint64_t i) {
    assert(i < o->n);
    enum { Rounds = 6 };
    uint32_t bits = half_bits(o->n);
    uint64_t mask = (UINT64_C(1) << bits) - 1, key = mix(mix(o->seed) ^ epoch);
    do {
        uint64_t left = i >> bits, right = i & mask;
        for (uint64_t round = 0; round < Rounds; round++) {
            uint64_t next = (left ^ mix(key + (round << 56) + right)) & mask;
            left = right;
            right = next;
        }
        i = left << bits | right;
    } while (i >= o->n);
    return i;
}

static Drawn drawn_evenly(const Order *o, uint64_t place) {
    uint64_t turn = place / o->n;
    return (Drawn){order_at(o, turn, place % o->n), turn};
}

static Drawn drawn_by_class(const Order *o, uint64_t place) {
    uint64_t round = place / o->classes;
    uint64_t class =
        order_at(&(Order){.n = o->classes, .seed = o->seed}, round, place % o->classes);
    Order in = {.n = o->from[class + 1] - o->from[class], .seed = mix(o->seed ^ mix(class))};
    Drawn d = drawn_evenly(&in, round);
    d.sample = o->member[o->from[class] + d.sample];
    return d;
}

static Drawn drawn_by_weight(const Order *o, uint64_t place) {
    double at = (double)(order_draw(o, place, 0, 0) >> 11) * 0x1p-53 * o->upto[o->n - 1];
    uint64_t lo = 0, hi = o->n - 1; // binary search for the first cumulative weight beyond it
    while (lo < hi) {
        uint64_t middle = lo + (hi - lo) / 2;
        if (o->upto[middle] > at)
            hi = middle;
        else
            lo = middle + 1;
    }
    return (Drawn){lo, place};
}

void order_by_class(Arena *a, const float *class, Order *o) {
    uint64_t all = 0;
    for (uint64_t i = 0; i < o->n; i++)
        all = class[i] >= (float)all ? (uint64_t) class[i] + 1 : all;
    uint64_t *member = arena_array(a, uint64_t, o->n), *from = arena_array(a, uint64_t, all + 2);
    for (uint64_t i = 0; i < o->n; i++)
        from[(uint64_t) class[i] + 2]++;
    for (uint64_t c = 0; c < all; c++)
        from[c + 2] += from[c + 1];
    for (uint64_t i = 0; i < o->n;
         i++) // from[c + 1] is where class c goes on, in the end where it ends
        member[from[(uint64_t) class[i] + 1]++] = i;
    o->classes = 0;
    for (uint64_t c = 0; c < all; c++)
        if (from[c + 1] > from[o->classes])
            from[++o->classes] = from[c + 1];
    o->member = member;
    o->from = from;
}

bool order_by_weight(Arena *a, const float *weight, Order *o, uint64_t *bad) {
    double sum = 0, *upto = arena_array(a, double, o->n);
    for (*bad = 0; *bad < o->n; ++*bad) {
        if (!(weight[*bad] >= 0 && weight[*bad] <= FLT_MAX))
            return false;
        upto[*bad] = sum += (double)weight[*bad];
    }
    o->upto = upto;
    return sum > 0;
}

Drawn order_drawn(const Order *o, uint64_t place) {
    return o->in_order  ? (Drawn){place % o->n, 0}
           : o->classes ? drawn_by_class(o, place)
           : o->upto    ? drawn_by_weight(o, place)
                        : drawn_evenly(o, place);
}

uint64_t order_draw(const Order *o, uint64_t epoch, uint64_t sample, uint64_t site) {
    return mix(mix(mix(mix(o->seed ^ UINT64_C(0xd1b54a32d192ed03)) ^ epoch) ^ sample) ^ site);
}
