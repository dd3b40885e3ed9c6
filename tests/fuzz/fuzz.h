// fuzz.h - a fuzz target is one function over bytes. libFuzzer calls it with generated inputs;
// driver.c calls it with the files of the tree and with pseudo-random mutations of them.
#ifndef GAN_FUZZ_H
#define GAN_FUZZ_H

#include "base.h"

#include <setjmp.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

// Calls `look` with 1 GB of memory; a reader that wants more ends there.
static inline void fuzz_within(void (*look)(Arena *a, Str bytes), const uint8_t *data, size_t n) {
    Arena a;
    jmp_buf full;
    if (arena_init(&a, (size_t)1 << 30) != GAN_OK)
        bug("%s", gan_error());
    a.oom = &full;
    if (setjmp(full) == 0)
        look(&a, (Str){(const char *)data, n});
    arena_release(&a);
}

#endif
