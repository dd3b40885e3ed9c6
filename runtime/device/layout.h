// layout.h - values in logical order (row-major, batch first), and as devices store them
// (type_strides, or in logical order too).
#ifndef GAN_LAYOUT_H
#define GAN_LAYOUT_H

#include "ir.h"

typedef struct LayoutWalk { // storage offsets of a value's elements, visited in logical order
    uint32_t rank;          // axes with the batch
    int64_t extent[MAX_RANK + 1], stride[MAX_RANK + 1], index[MAX_RANK + 1];
    int64_t at;
} LayoutWalk;
void walk_init(LayoutWalk *w, const Type *t, int64_t batch, bool logical);
int64_t walk_next(LayoutWalk *w);        // offset of the current element, in elements; moves on
bool walk_in_order(const LayoutWalk *w); // storage is in logical order
// All elements of a value, as they are, from logical order to storage and back. `w`: not yet moved
// on.
void layout_store(const LayoutWalk *w, Dtype dtype, const void *logical, void *stored);
void layout_load(const LayoutWalk *w, Dtype dtype, const void *stored, void *logical);
void value_put(void *storage, int64_t at, Dtype dtype, double x);
double value_get(const void *storage, int64_t at, Dtype dtype);

#endif
