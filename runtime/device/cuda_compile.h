// cuda_compile.h - a plan's kernels as machine code for cards. It needs neither a card nor a driver
// nor the toolkit's headers: ganc compiles ahead with it.
#ifndef GAN_CUDA_COMPILE_H
#define GAN_CUDA_COMPILE_H

#include "cache.h"
#include "nvrtc.h"
#include "program.h"

enum { CUDA_OLDEST_ARCH = 70 }; // Volta

typedef struct CudaKernels { // what is to be compiled
    const Plan *plan;
    const bool *wanted; // [plan->kernel.n] false: a library does what that kernel would; NULL: all
    int arch;           // compute capability: 90 is 9.0
    Str dir;            // the cache's folder; empty: none
    CacheKeep *keep;    // of it; borrowed
    bool service;       // also the runtime's own (service.cuh)
} CudaKernels;

typedef struct CudaImages {
    uint32_t n;
    Str *code;    // [n] what the driver loads, each as a module that has a wanted kernel
    uint32_t *of; // [plan->kernel.n] the image that has the kernel; NONE: it is not wanted
    uint32_t
        service; // the image that has the runtime's own; NONE: they are not wanted, or not there
} CudaImages;

// What CudaCompile does with NVRTC, which may be NULL: then only code that came with the plan runs.
// *out is in `a`, or the plan's. GAN_ERR_BUG when a kernel is refused.
GanStatus cuda_compile(const Nvrtc *n, const CudaKernels *k, Arena *a, CudaImages *out);

typedef struct CudaPlans { // what is to be compiled for cards that may not be here
    const Plan *const *plan;
    uint32_t plans;
    const int *arch; // those that NVRTC makes code for
    uint32_t archs;
    Str dir; // as in CudaKernels
    CacheKeep *keep;
} CudaPlans;

// All kernels, the runtime's own among them, for each architecture, and once as PTX for all of
// these and later ones, the fallbacks as that alone: appends the images that have them, and no
// others, to *out, in `a`. The same kernels give the same images in the same order, whatever the
// cache has and however many cores there are.
GanStatus cuda_compile_ahead(const Nvrtc *n, const CudaPlans *k, Arena *a, CubinVec *out);

// Batches of so many kernels on so many cores: enough for all cores, unless the kernels are few.
uint32_t cuda_batches(uint32_t kernels, uint32_t cores);

#endif
