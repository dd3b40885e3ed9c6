// resources.h - registers, spills and shared memory of compiled kernels, parsed from ptxas's log.
#ifndef GAN_RESOURCES_H
#define GAN_RESOURCES_H

#include "base.h"

typedef struct Resources {
    Str name;
    int registers;             // of a thread
    int shared;                // bytes of a block
    int stack, stored, loaded; // bytes of a thread that do not fit into registers
} Resources;
typedef VEC(Resources) ResourcesVec;

// Appends to `out`, in `a`, one entry for each kernel that `log` (NvrtcImage.log) tells of: where
// it does so twice, the last holds. Names are in the log.
void resources_read(Arena *a, Str log, ResourcesVec *out);

#endif
