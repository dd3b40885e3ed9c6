// region_check.h - what a region stores on a device, against the reference evaluator.
//
// In: the memory of a plan on the host, in the device's layout, as it is before the region runs.
// Out: for each value that the region stores, whether it is near enough to the evaluator's.
#ifndef GAN_REGION_CHECK_H
#define GAN_REGION_CHECK_H

#include "device.h"

typedef struct RegionCheck {
    const Plan *p;
    const Region *r;
    Memory memory;
    const Counters *c;
    Arena *arena;             // what follows lives here
    double **exact, **nudged; // [node] its values in double; and of operands that are changed in
                              // their last bit. NULL: that change is not known
} RegionCheck;

// Evaluates the region in double; `memory` is only read. A large product takes long.
void region_check_begin(RegionCheck *x);

typedef struct RegionDiffers { // 0: near enough
    int64_t elements, of;
    int64_t first; // of them
    float is, right;
    double most; // of what is right, in size
} RegionDiffers;
// What it stored as the value of `node`, and the evaluator's, which is of the value's precision:
// plain_region makes it.
RegionDiffers region_check_value(const RegionCheck *x, uint32_t node, const void *is,
                                 const void *right);

#endif
