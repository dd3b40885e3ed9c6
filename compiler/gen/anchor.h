// anchor.h - convolutions, products and transforms as kernels of our own, for machines without a
// library that has them. A convolution is a product C[m, n] = sum over k of A[m, k] * B[k, n];
// anchor.c says which axes of the operands m, n and k run over, and where; anchor.cuh multiplies.
#ifndef GAN_ANCHOR_H
#define GAN_ANCHOR_H

#include "gen.h"

// Gives the call regions of a plan (class ANCHOR) CUDA kernels, called as those of
// loop regions are (kernel_cuda.h): adds to plan->kernel and fills Region.kernel, blocks, scratch,
// tickets and number. Results depend on shapes and operands alone. A region of more than 2^31 rows,
// columns or terms keeps NONE. A device that has a library for a region need not compile its
// kernel.
void anchor_kernels(Arena *perm, Plan *plan);

// --- fft.c: a transform is a sum of its own, fft.cuh
// ----------------------------------------------

// Gives the call region of an Fft its words and blocks; false where its lines are too long or too
// many for a kernel.
bool fft_region(Arena *perm, const Graph *g, Region *r);
Str fft_text(Arena *a, const Graph *g, const Region *r, uint32_t words, Str name);

#endif
