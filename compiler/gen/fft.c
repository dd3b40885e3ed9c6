// fft.c - a Fourier transform as a kernel of our own: the words of fft.cuh, and the line of text
// that names its types.
//
// In: the call region of an Fft. Out: its words, and the text of its kernel. Where cuFFT is, it
// need not be compiled.
#include "anchor.h"

enum {
    THREADS = 256,            // GAN_FFT_THREADS
    BLOCKS = 1056,            // keep a large card busy: each makes a table of roots first
    LONGEST = 128 * 1024 - 1, // GAN_FFT_FINE * GAN_FFT_COARSE
};

bool fft_region(Arena *perm, const Graph *g, Region *r) {
    FftLines f = fft_lines(g, r->node.at[0]);
    int64_t parts = (f.out.n + THREADS - 1) / THREADS;
    if (f.n > LONGEST || f.lines > INT32_MAX / parts)
        return false;
    const int64_t words[] = {f.n,       f.lines, f.inverse,  f.in.n,     f.in.line, f.in.step,
                             f.in.part, f.out.n, f.out.line, f.out.step, f.out.part};
    r->number.n = 0;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        vec_push(perm, &r->number, words[i]);
    r->blocks = (uint32_t)(f.lines * parts < BLOCKS ? f.lines * parts : BLOCKS);
    return true;
}

Str fft_text(Arena *a, const Graph *g, const Region *r, uint32_t words, Str name) {
    FftLines f = fft_lines(g, r->node.at[0]);
    bool wide = node_type(g, r->node.at[0])->dtype == DtF64;
    return str_format(a,
                      "\nextern \"C\" __global__ void __launch_bounds__(%d)\n"
                      "    %.*s(const __grid_constant__ gan_args<%u> w, const gan_counters *c) {\n"
                      "    gan_fft<%s, %s, %s>(w);\n}\n",
                      THREADS, SARG(name), words, wide ? "double" : "float",
                      f.in.real ? "true" : "false", f.out.real ? "true" : "false");
}
