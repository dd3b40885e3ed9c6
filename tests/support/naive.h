// naive.h - for tests: every structural operation again, by definition: one loop over all elements
// of everything, no strides, no packing. What the reference evaluator is compared with.
#ifndef GAN_TEST_NAIVE_H
#define GAN_TEST_NAIVE_H

#include "ir.h"

// Writes node `id` from its operands' values (doubles, row-major, batch first). False: there is no
// definition of this op.
bool naive_node(const Graph *g, uint32_t id, const double *const *in, double *out);

#endif
