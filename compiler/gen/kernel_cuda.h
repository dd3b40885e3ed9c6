// kernel_cuda.h - text put between the prelude and the kernels of the CUDA dialect: how a kernel is
// called, and the functions the emitter writes by name.
//
// In:   the prelude, compiled with its functions for the device. Out: device functions.
// Keeps: every result is a function of shapes and inputs alone. Sums go through fixed trees, so
//        neither the number of blocks launched nor the order in which they run can be seen.
//
// --- how a kernel is called ----------------------------------------------------------------------
//
//   extern "C" __global__ void __launch_bounds__(T)
//       NAME(const gan_args<N> w, const gan_counters *c)
//   extern "C" __global__ void __launch_bounds__(T)
//       NAME_many(const uint64_t *table, uint32_t stride, const gan_counters *c)
//
//   w      the region's words: addresses of Region.in, then of Region.out; where the region has
//          scratch, the addresses of its scratch and of its tickets; then Region.number. N is
//          Kernel.words, the same for every region of the kernel. By value: 8*N bytes, aligned
//          to 8.
//   c      in device memory, so that a captured graph never changes.
//   many   several regions of one kernel in one launch (Kernel.many says it exists): blockIdx.y is
//          the instance, table + blockIdx.y*stride its N words, in device memory. stride in words.
//   T      Kernel.threads, the size of a block; blocks are one-dimensional.
//   grid   x: Region.blocks are enough for every element to have its thread. Fewer give the same
//          bits: kernels stride over the grid. Of a NAME_many: the most of its instances, or fewer.
//   shared Kernel.shared bytes of dynamic shared memory (generated kernels need none).
//   tickets Region.tickets words of 32 bits, zero before the first launch, private to the region
//          for as long as the program is loaded. A kernel leaves them zero. Scratch may be shared
//          with launches before and after.
//   memory every address is aligned to 16 bytes and the memory behind it is a multiple of 16 bytes
//          long: kernels over a flat range walk whole packs, the last of which may reach into that
//          padding. An output may be the memory of an input of the same shape and element size
//          (an optimizer writes its weight where it was): no pointer is restrict, and all loads of
//          an element come before its store.
#ifndef GAN_KERNEL_CUDA_H
#define GAN_KERNEL_CUDA_H

typedef struct gan_counters { // Counters of ir.h
    uint64_t seed;
    uint32_t step, round;
    int64_t sample0;
    double epoch, kimg;
} gan_counters;

template <int N> struct gan_args { uint64_t at[N]; };

#endif
