// fuzz.h - a fuzz target is one function over bytes. libFuzzer calls it with generated inputs;
// driver.c calls it with the files of the tree and with pseudo-random mutations of them.
#ifndef GAN_FUZZ_H
#define GAN_FUZZ_H

#include <stddef.h>
#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

#endif
