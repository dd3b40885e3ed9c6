// rt_internal.h - shared by the files of runtime/ only.
#ifndef GAN_RT_INTERNAL_H
#define GAN_RT_INTERNAL_H

#include "rt.h"

// --- layout.c ------------------------------------------------------------------------------------

typedef struct LayoutWalk { // storage offsets of a value's elements, visited in logical order
    uint32_t rank;          // axes with the batch
    int64_t extent[MAX_RANK + 1], stride[MAX_RANK + 1], index[MAX_RANK + 1];
    int64_t at;
} LayoutWalk;
void walk_init(LayoutWalk *w, const Type *t, int64_t batch, bool logical);
int64_t walk_next(LayoutWalk *w); // offset of the current element, in elements; moves on
void value_put(void *storage, int64_t at, Dtype dtype, double x);
double value_get(const void *storage, int64_t at, Dtype dtype);

#endif
