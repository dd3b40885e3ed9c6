// formula.c - pseudo-random numbers from text keys: FNV-1a of the key seeds a stream, the
// splitmix64 finalizer generates its bits, Box-Muller its normals.
#include "formula.h"

#include <math.h>

static uint64_t key_of(Str name) {
    uint64_t h = 0xCBF29CE484222325u;
    for (size_t i = 0; i < name.len; i++)
        h = (h ^ (uint8_t)name.ptr[i]) * 0x100000001B3u;
    return h;
}

// The i-th number in (0, 1) of stream k.
static double unit(uint64_t k, uint64_t i) {
    uint64_t x = k + (i + 1) * 0x9E3779B97F4A7C15u;
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
    x ^= x >> 31;
    return ((double)(x >> 11) + 0.5) / 9007199254740992.0;
}

static double normal(uint64_t k, uint64_t i) {
    static const double two_pi = 6.283185307179586;
    return sqrt(-2 * log(unit(k, 2 * i))) * cos(two_pi * unit(k, 2 * i + 1));
}

GanStatus formula_fill(const Json *entry, double *x, size_t n) {
    Str kind = json_string(json_get(entry, "kind"), (Str){0}),
        name = json_string(json_get(entry, "key"), (Str){0});
    if (!name.len)
        return fail(GAN_ERR_INPUT, "an entry of the case has no \"key\"");
    uint64_t k = key_of(name);
    if (str_eq(kind, STR("normal"))) {
        double mean = json_number(json_get(entry, "mean"), 0),
               sd = json_number(json_get(entry, "std"), 1);
        for (size_t i = 0; i < n; i++)
            x[i] = mean + sd * normal(k, i);
    } else if (str_eq(kind, STR("uniform")) || str_eq(kind, STR("data"))) {
        double lo = json_number(json_get(entry, "lo"), 0),
               hi = json_number(json_get(entry, "hi"), 1);
        for (size_t i = 0; i < n; i++)
            x[i] = lo + (hi - lo) * unit(k, i);
    } else if (str_eq(kind, STR("labels"))) {
        double classes = json_number(json_get(entry, "classes"), 1);
        for (size_t i = 0; i < n; i++)
            x[i] = floor(classes * unit(k, i));
    } else {
        return fail(GAN_ERR_INPUT, "%.*s: the case has an unknown kind: %.*s", SARG(name),
                    SARG(kind));
    }
    return GAN_OK;
}
