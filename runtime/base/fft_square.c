// fft_square.c - the Fourier transform of square arrays, of any side: rows, then columns.
#include "fft.h"

// Lines of n numbers, `line` apart, whose elements are `step` apart.
static GanStatus transform_lines(Complex *x, uint32_t n, int64_t line, int64_t step, bool inverse) {
    FftSide side = {.n = n, .line = 2 * line, .step = 2 * step, .part = 1};
    FftLines l = {.n = n, .lines = n, .inverse = inverse, .in = side, .out = side};
    FftPlan *f = NULL;
    TRY(fft_make(&l, &f));
    double *room = mem_alloc_aligned(fft_room(f) * sizeof *room, 64);
    GanStatus st =
        room ? GAN_OK : fail(GAN_ERR_MEMORY, "no memory for a transform of %u numbers", n);
    if (st == GAN_OK)
        fft_run64(f, &l, &x->re, &x->re, 0, fft_groups(&l), room);
    mem_free_aligned(room);
    fft_free(f);
    return st;
}

GanStatus fft_square(Complex *x, uint32_t n, bool inverse) {
    size_t all = (size_t)n * n;
    TRY(transform_lines(x, n, n, 1, inverse));
    TRY(transform_lines(x, n, 1, n, inverse));
    for (size_t i = 0; inverse && i < all; i++)
        x[i] = (Complex){x[i].re / (double)all, x[i].im / (double)all};
    return GAN_OK;
}
