// cuda_compile.h - a plan's kernels as machine code for cards. It needs neither a card nor a driver
// nor the toolkit's headers: ganc compiles ahead with it.
#ifndef GAN_CUDA_COMPILE_H
#define GAN_CUDA_COMPILE_H

#include "nvrtc.h"
#include "program.h"

enum { CUDA_OLDEST_ARCH = 70 }; // Volta

typedef struct CudaKernels { // what is to be compiled
    const Plan *plan;
    const bool *wanted; // [plan->kernel.n] false: a library does what that kernel would; NULL: all
    int arch;           // compute capability: 90 is 9.0
    Str dir;            // where made things are kept; empty: nowhere
} CudaKernels;

typedef struct CudaImages {
    uint32_t lots; // at least 2; the last is that of spare kernels
    Str *code;     // [lots] what the driver loads; empty where no wanted kernel is in the lot
} CudaImages;

// The lot of a kernel, of so many.
uint32_t cuda_lot(const Kernel *k, uint32_t lots);

// What CudaCompile does with NVRTC, which may be NULL: then only code that came with the plan runs.
// *out is in `a`, or the plan's. GAN_ERR_BUG when a kernel is refused.
GanStatus cuda_compile(const Nvrtc *n, const CudaKernels *k, Arena *a, CudaImages *out);

// All kernels of several plans for each architecture, the spare ones once, as PTX for all of them:
// appends their lots to *out, in `a`. Each must be one NVRTC makes code for.
GanStatus cuda_compile_ahead(const Nvrtc *n, const Plan *const *plan, uint32_t plans,
                             const int *arch, uint32_t archs, Str dir, Arena *a, CubinVec *out);

#endif
