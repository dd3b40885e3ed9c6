// ptx.h - edits PTX as NVRTC writes it.
#ifndef GAN_PTX_H
#define GAN_PTX_H

#include "base.h"

// CUDA C++ text that NVRTC compiles to the machine code of `ptx`, whose kernels keep their names.
// NVRTC does not accept PTX, and nvJitLink compiles relocatable code, which needs more registers.
// So the PTX becomes inline assembly of a function that is never called: the first line of the
// assembly ends that function, and the last kernel is left open for the compiler's closing brace.
// ptxas then sees the same text as from NVRTC. Empty where there is no kernel.
Str ptx_as_cuda(Arena *a, Str ptx);

// Of `ptx` the kernels entry[n] alone, each with a minimum of one resident block (.minnctapersm 1).
Str ptx_with_room(Arena *a, Str ptx, const Str *entry, uint32_t n);

#endif
