// anchor.h - convolutions, products and transforms as kernels of our own, for machines without a
// library that has them, and sorts, which no library has. A convolution is a product
//
//     C[m, n] = sum over k of A[m, k] * B[k, n]
//
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

// A call region on its way to a kernel.
typedef struct CallRegion {
    const Graph *g;
    Region *r;
    uint32_t spaces; // of all products of the plan
} CallRegion;

// How a family's kernels are generated (AnchorFamily).
typedef struct CallKernel {
    // What they are called, with a hash: not by an operation, for other functions of the model may
    // have the same text for another one.
    const char *name;
    // Fills the region's number, blocks, scratch and tickets; false where it is too large.
    bool (*words)(Arena *perm, const CallRegion *c, Arena scratch);
    // What the kernel calls with its words: a function of the family's text and its template
    // arguments, which follow from types and shapes alone.
    Str (*call)(Arena *a, const CallRegion *c);
    uint32_t threads;  // of a block
    uint32_t resident; // blocks of a multiprocessor, at least; 0: any number
    bool always; // no library has such calls, or at times far slower ones: compiled for every card
} CallKernel;

// Which of the region's inputs operand k of its call is.
uint32_t anchor_operand(const CallRegion *c, uint32_t k, Arena scratch);

// --- fft.c: a transform as the sum that defines it, fft.cuh ---

extern const CallKernel fft_kernel;

// --- order.c: sorting rows, order.cuh ---

extern const CallKernel order_kernel;

#endif
