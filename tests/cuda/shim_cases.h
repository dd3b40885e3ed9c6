// shim_cases.h - for tests: runs the kernel cases of kernel_cases.h on the emulator.
#ifndef GAN_SHIM_CASES_H
#define GAN_SHIM_CASES_H

#include "kernel_runs.h"
#include "shim_region.h"

// Compiles the kernels of all cases together, runs each case twice, with different numbers of
// blocks, and compares it with the evaluator. Skips the test without a C++ compiler.
void shim_cases_run(const Cases *cases);

#endif
