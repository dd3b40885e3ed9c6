// fft.c - a Fourier transform as a kernel of our own: the words of fft.cuh, and the line of text
// that names its types.
//
// In: the call region of an Fft. Out: its words, and the text of its kernel. Where cuFFT is, it
// need not be compiled.
#include "anchor.h"
#include "fft_words.h"

#include "integers.h"

enum { BLOCKS = 8 * CARD_PROCESSORS }; // keep a card busy: each makes a table of roots first

static bool words_of(Arena *perm, const CallRegion *c, Arena scratch) {
    (void)scratch;
    FftLines f = fft_lines(c->g, c->r->node.at[0]);
    int64_t parts = ceil_div(f.out.n, GAN_FFT_THREADS);
    if (f.n > GAN_FFT_LONGEST || f.lines > INT32_MAX / parts)
        return false;
    const int64_t word[GAN_FFT_WORDS] = {
        [GAN_FFT_N] = f.n, [GAN_FFT_LINES] = f.lines, [GAN_FFT_INVERSE] = f.inverse};
    c->r->number.n = 0;
    for (int i = GAN_FFT_TO + 1; i < GAN_FFT_WORDS; i++)
        vec_push(perm, &c->r->number, word[i]);
    c->r->blocks = (uint32_t)(f.lines * parts < BLOCKS ? f.lines * parts : BLOCKS);
    return true;
}

static Str call_of(Arena *a, const CallRegion *c) {
    FftLines f = fft_lines(c->g, c->r->node.at[0]);
    bool wide = node_type(c->g, c->r->node.at[0])->dtype == DtF64;
    return str_format(a, "gan_fft<%s, %s, %s>", wide ? "double" : "float",
                      f.in.real ? "true" : "false", f.out.real ? "true" : "false");
}

const CallKernel fft_kernel = {
    .name = "fft", .words = words_of, .call = call_of, .threads = GAN_FFT_THREADS};
