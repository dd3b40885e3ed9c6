// ptx.h - edits PTX as NVRTC writes it: the form of kernels before the card is chosen.
#ifndef GAN_PTX_H
#define GAN_PTX_H

#include "base.h"

// A text that NVRTC compiles to the machine code of `ptx`, whose kernels keep their names. NVRTC
// takes only CUDA C++ and nvJitLink only parts of something larger, which need more registers: the
// PTX goes in as the assembly of a function that nobody calls, the first line of which ends that
// function and the last of which leaves open the last kernel. Empty where there is no kernel.
Str ptx_as_cuda(Arena *a, Str ptx);

// Of `ptx` the kernels entry[n] alone, each of which asks for one block of a processor, and no
// more.
Str ptx_with_room(Arena *a, Str ptx, const Str *entry, uint32_t n);

#endif
