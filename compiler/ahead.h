// ahead.h - compiles kernels to machine code for `ganc compile --target`.
#ifndef GAN_AHEAD_H
#define GAN_AHEAD_H

#include "driver.h"

typedef struct Ahead {
    GanxTarget target; // for ganx_write
    int arch[16];
    struct Nvrtc *nvrtc; // owned; NULL for cpu
    Str cache;           // folder of compiled kernels and models, empty: none
    Str maker;           // hash of the program that makes them
} Ahead;

// `target`: "cpu", "cuda", or "cuda:sm_90,sm_100"; empty: cpu. `cache`: where what is
// compiled is kept, may be empty. GAN_ERR_USAGE for another word, GAN_ERR_DEVICE without NVRTC.
GanStatus ahead_open(Arena *perm, Str target, Str cache, Str limit, Ahead *out);
void ahead_close(Ahead *a); // accepts an empty one

#endif
