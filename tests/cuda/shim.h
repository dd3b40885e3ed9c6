// shim.h - for tests: an emulator that runs CUDA kernel text on the CPU and checks its memory
// accesses.
//
// In: kernel text as NVRTC gets it. The machine's C++ compiler compiles it as C++ behind
// shim_cuda.h, with every load and store instrumented (the calls of -fsanitize=thread, implemented
// by shim_memory.c), so the text itself is unchanged. Out: the kernel's effect on emulated memory,
// or the first fault.
//
// Blocks run one after another and threads as fibers, both in an order shuffled by a seed. Faults:
//   accesses outside the allocation they point into, or not aligned to their size
//   reads of uninitialized bytes: shared memory at the start of every block, and after shim_alloc
//   races: two threads, one of them writing, at one element without an order between them, in
//   shared and in global memory, within a block and between blocks
//   barriers and warp operations that not all threads reach, or not at the same call
// Ordered are: a thread's own accesses, the two sides of __syncthreads, within a warp the two
// sides of __syncwarp, launches, and what came before a __threadfence and an atomic with what
// comes after the same atomic in another block. Shuffles order nothing. Atomics conflict with
// plain accesses only. Kernels that wait for another block do not end and are not supported.
#ifndef GAN_SHIM_H
#define GAN_SHIM_H

#include "base.h"

// --- shim_code.c: text to functions --------------------------------------------------------------

typedef struct ShimCode ShimCode; // compiled kernels; owned
// Compiles `text`, whose kernels are name[0..n). *out is NULL if the machine has no C++ compiler.
// GAN_ERR_BUG with the compiler's message if the text does not compile.
GanStatus shim_compile(Str text, const Str *name, uint32_t n, ShimCode **out);
void shim_free(ShimCode *c); // accepts NULL

// --- shim_memory.c -------------------------------------------------------------------------------

typedef struct Shim Shim; // an emulated GPU: memory, threads, a seed; one thread at a time
GanStatus shim_open(uint64_t seed, Shim **out);
void shim_close(Shim *s); // accepts NULL
// Memory that kernels may access: uninitialized, 256-byte aligned, with guard space around it.
// `unit`: bytes of its smallest element, the granularity of race detection.
void *shim_alloc(Shim *s, size_t bytes, size_t unit);
void shim_put(Shim *s, void *to, const void *from, size_t n); // counts as written
bool shim_written(const Shim *s, const void *at, size_t n); // every element of it, since shim_alloc
void shim_release_all(Shim *s);

// --- shim_run.c ----------------------------------------------------------------------------------

typedef enum ShimFault {
    ShimFine,
    ShimOutOfBounds,
    ShimMisaligned,
    ShimUnwritten,
    ShimRace,
    ShimDivergent,
    ShimUnsupported, // the kernel uses a feature that the shim lacks
} ShimFault;

typedef struct ShimSize {
    uint32_t x, y, z;
} ShimSize;

// Runs kernel `name` as cuLaunchKernel does: param[i] points to the i-th argument. The first fault
// ends the launch; shim_said describes it, with the line of the text.
ShimFault shim_launch(Shim *s, const ShimCode *c, Str name, ShimSize grid, ShimSize block,
                      void *const *param);
const char *shim_said(const Shim *s); // borrowed; of the last launch

#endif
