// kernel_runs.h - for tests: runs the regions of a kernel case on generated slots, each by a
// function that gets its operands, and compares results and written slots with the graph evaluated
// node by node. A difference fails the test.
#ifndef GAN_TEST_KERNEL_RUNS_H
#define GAN_TEST_KERNEL_RUNS_H

#include "kernel_cases.h"

// Runs region `r`: at[] holds the addresses of its `in`, then of its `out`, in the device's layout.
typedef void RegionFn(void *user, const Plan *p, const Region *r, void *const *at,
                      const Counters *c);

void kernel_case_run(Arena *a, const Case *c, RegionFn *run, void *user);

#endif
