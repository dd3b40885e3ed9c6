// hash.c - content hashes: XXH3, whose values are the same on every machine and in every release.
#include "base.h"

#include <inttypes.h>
#include <xxhash.h>

uint64_t hash64(const void *data, size_t n, uint64_t seed) {
    return XXH3_64bits_withSeed(n ? data : "", n, seed);
}

Hash128 hash128(const void *data, size_t n) {
    XXH128_hash_t h = XXH3_128bits(n ? data : "", n);
    return (Hash128){.lo = h.low64, .hi = h.high64};
}

Str hash_hex(Arena *a, Hash128 h) {
    return str_format(a, "%016" PRIx64 "%016" PRIx64, h.hi, h.lo);
}
