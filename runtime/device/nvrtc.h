// nvrtc.h - kernel text to machine code, by NVIDIA's run-time compiler. It is found and loaded when
// it is asked for; it needs neither a card nor a driver, and no header.
#ifndef GAN_NVRTC_H
#define GAN_NVRTC_H

#include "base.h"

typedef struct Nvrtc Nvrtc; // the loaded compiler; any number of threads may compile with it

// For a driver of this version (12080 is 12.8), which loads no code of a later CUDA major version;
// 0: the newest there is. *out is NULL where the machine has none, or one that lacks a function
// used here.
GanStatus nvrtc_open(int driver, Nvrtc **out);
void nvrtc_close(Nvrtc *n);        // accepts NULL
int nvrtc_version(const Nvrtc *n); // 13000 is 13.0; what caches must know of it
enum { NVRTC_WAY = 4 };            // and of us: one more when the same text comes to other code
// Can it make machine code for cards of compute capability `arch` (90: 9.0)?
bool nvrtc_makes(const Nvrtc *n, int arch);

typedef struct NvrtcJob {
    Str prelude;       // stands before all sources
    const Str *source; // [sources] one kernel each,
    const Str *name;   // and what messages call it
    uint32_t sources;
    int arch; // 90: compute capability 9.0
    bool ptx; // for any card from `arch` on, which the driver then compiles; else machine code
} NvrtcJob;

typedef struct NvrtcImage {
    Str code; // cubin, or two (image.h); or PTX as text
    Str log;  // what the compiler said; of machine code also what each kernel uses (resources.h)
} NvrtcImage;

// Compiles the sources as one module; `a` receives the image, and the text on the way. GAN_ERR_BUG
// when it refuses a kernel, for kernels are ours: with its name, the line of its text and the
// compiler's words. Two steps: to PTX, of architecture nvrtc_ptx_arch, and from there to what the
// job asks for. Kernels that ptxas would have spill, to keep room for more blocks beside them, are
// assembled once more by themselves, without that wish.
GanStatus nvrtc_compile(const Nvrtc *n, Arena *a, const NvrtcJob *job, NvrtcImage *out);
int nvrtc_ptx_arch(const Nvrtc *n, const NvrtcJob *job);
GanStatus nvrtc_translate(const Nvrtc *n, Arena *a, const NvrtcJob *job, NvrtcImage *out);
GanStatus nvrtc_assemble(const Nvrtc *n, Arena *a, const NvrtcJob *job, Str ptx, NvrtcImage *out);
// job[jobs] to out[jobs], on all cores. Jobs of the same sources (by address) share their PTX.
// An image is the same whatever else is in the list.
GanStatus nvrtc_compile_all(const Nvrtc *n, Arena *a, const NvrtcJob *job, uint32_t jobs,
                            NvrtcImage *out);
uint32_t nvrtc_threads(void); // that it uses where there are jobs enough

#endif
