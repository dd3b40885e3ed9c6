// ahead.h - compiles kernels to machine code for `ganc compile --target`.
#ifndef GAN_AHEAD_H
#define GAN_AHEAD_H

#include "driver.h"

typedef struct Ahead {
    GanxTarget target; // for ganx_write
    int arch[16];
    struct Nvrtc *nvrtc;    // owned; NULL for cpu
    Str cache;              // folder of compiled kernels and models, empty: none
    Str maker;              // hash of the program that makes them
    struct CacheKeep *keep; // of the folder
} Ahead;

typedef struct AheadVariables { // of the environment: where what is compiled is kept (cache.h)
    Str xdg_cache_home, home, gan_cache_limit;
    void (*notice)(void *user, const char *text); // that nothing can be kept there
    void *user;
} AheadVariables;
// `target`: "cpu", "cuda", or "cuda:sm_90,sm_100"; empty: cpu. GAN_ERR_USAGE for another word,
// GAN_ERR_DEVICE without NVRTC.
GanStatus ahead_open(Arena *perm, Str target, const AheadVariables *v, Ahead *out);
void ahead_close(Ahead *a); // accepts an empty one

#endif
