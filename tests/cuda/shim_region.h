// shim_region.h - runs regions of a plan by their CUDA kernels on the emulator, as the cuda device
// runs them on a card (gen/kernel_cuda.h).
#ifndef GAN_SHIM_REGION_H
#define GAN_SHIM_REGION_H

#include "gen.h"
#include "shim.h"

typedef struct ShimPlans { // kernels of one or more plans, compiled together
    Arena *arena;          // given
    Shim *shim;            // owned
    ShimCode *code;        // owned; NULL without a C++ compiler
    Text text;
    StrVec name;
    Map seen;
    const char *what; // borrowed; begins the messages of failures
} ShimPlans;

void shim_plans_begin(ShimPlans *s, Arena *a, uint64_t seed);
void shim_plans_add(ShimPlans *s, const Plan *p); // every kernel once
void shim_plans_compile(ShimPlans *s);            // fails the test where the text is refused
void shim_plans_end(ShimPlans *s);

// A region and where its operands lie, those of `in` before those of `out`, in the device's layout.
// Equal addresses are one memory.
typedef struct ShimRegion {
    const Region *r;
    void *const *at;
} ShimRegion;

// Runs `n` regions that share a kernel in one launch, of as many blocks as they ask for or, where
// the kernel strides over its grid, of `blocks` (0: as asked for), and copies what they store to
// where `out` lies. Fails the test on a fault, where an element is left unwritten, or a ticket not
// given back.
void shim_regions(ShimPlans *s, const Plan *p, const ShimRegion *region, uint32_t n,
                  const Counters *c, uint32_t blocks);
// The same twice, the second time over fewer blocks: the bits must be equal.
void shim_regions_twice(ShimPlans *s, const Plan *p, const ShimRegion *region, uint32_t n,
                        const Counters *c);

#endif
