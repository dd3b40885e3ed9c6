// nvrtc.h - kernel text to machine code, by NVIDIA's run-time compiler (NVRTC). The library is
// loaded by nvrtc_open; it needs neither a card nor a driver, and building needs none of its
// headers.
#ifndef GAN_NVRTC_H
#define GAN_NVRTC_H

#include "base.h"

typedef struct Nvrtc Nvrtc; // the loaded compiler; any number of threads may compile with it

// For a driver of this version (12080 is 12.8), which loads no code of a later CUDA major version;
// 0: the newest there is. *out is NULL where the machine has none, or one that lacks a function
// used here: gan_error() says which.
GanStatus nvrtc_open(int driver, Nvrtc **out);
void nvrtc_close(Nvrtc *n);        // accepts NULL
int nvrtc_version(const Nvrtc *n); // 13000 is 13.0; part of cache keys
// Part of cache keys: increased whenever the same text is compiled to different code.
enum { NVRTC_REVISION = 5 };
// Can it make machine code for cards of compute capability `arch` (90: 9.0)?
bool nvrtc_makes(const Nvrtc *n, int arch);

typedef struct NvrtcJob {
    Str prelude;       // text before all sources
    const Str *source; // [sources] one kernel each,
    const Str *name;   // and what messages call it
    uint32_t sources;
    int arch; // 90: compute capability 9.0
    bool ptx; // PTX, which the driver compiles for any card from `arch` on; else machine code
} NvrtcJob;

typedef struct NvrtcImage {
    Str code; // cubin, or two (image.h); or PTX as text
    Str log;  // the compiler's; for machine code with the resources of each kernel (resources.h)
} NvrtcImage;

// Compiles the sources as one module; `a` receives the image and intermediate text. GAN_ERR_BUG
// when NVRTC rejects a kernel, since kernels are ours; the message has its name, the line and the
// compiler's error. Two steps: nvrtc_translate to PTX of architecture nvrtc_ptx_arch, and
// nvrtc_assemble from there to the job's code. Kernels that would spill registers because of their
// minimum of resident blocks (.minnctapersm) are assembled again alone, without that minimum.
GanStatus nvrtc_compile(const Nvrtc *n, Arena *a, const NvrtcJob *job, NvrtcImage *out);
int nvrtc_ptx_arch(const Nvrtc *n, const NvrtcJob *job);
GanStatus nvrtc_translate(const Nvrtc *n, Arena *a, const NvrtcJob *job, NvrtcImage *out);
GanStatus nvrtc_assemble(const Nvrtc *n, Arena *a, const NvrtcJob *job, Str ptx, NvrtcImage *out);
// Is told of an image by the thread that made it; several may be told at a time.
typedef void NvrtcMade(void *user, Arena scratch, uint32_t job, Str code);
// job[jobs] to out[jobs], on all cores. Jobs of the same sources (by address) share their PTX. An
// image does not depend on the other jobs. `made` may be NULL.
GanStatus nvrtc_compile_all(const Nvrtc *n, Arena *a, const NvrtcJob *job, uint32_t jobs,
                            NvrtcMade *made, void *user, NvrtcImage *out);
uint32_t nvrtc_threads(void); // that it uses where there are jobs enough

#endif
