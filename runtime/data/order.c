// order.c - which sample comes when: an epoch's permutation as a function, and random draws by
// name.
//
// A Feistel network of six rounds permutes the smallest power of four that holds n numbers; results
// beyond n are sent through again until they fall inside (cycle walking), which keeps the map a
// permutation. So any place of any epoch costs the same, nothing is stored, and resuming needs no
// replay.
#include "data.h"

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

uint64_t order_draw(const Order *o, uint64_t epoch, uint64_t sample, uint64_t site) {
    return mix(mix(mix(mix(o->seed ^ UINT64_C(0xd1b54a32d192ed03)) ^ epoch) ^ sample) ^ site);
}
