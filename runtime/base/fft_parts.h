// fft_parts.h - inside the transforms: what fft.c makes of a length and fft_lines.h runs over.
#ifndef GAN_FFT_PARTS_H
#define GAN_FFT_PARTS_H

#include "fft.h"

// Eight: of 16 lines of a power of two, gathering took thrice as long, for their places in the
// cache meet.
enum { FFT_LANES = 8, FFT_FACTORS = 64 };

typedef struct FftTable { // complex numbers in both types
    double (*f64)[2];
    float (*f32)[2];
} FftTable;

struct FftPlan {
    int64_t n; // complex numbers of a line, which are 2n real ones where it has an even number
    uint32_t factors;
    int64_t factor[FFT_FACTORS]; // fours first; their product is n
    FftTable root;               // [n] exp(-2 pi i k/n)
    FftTable fold;               // [n + 1] exp(-pi i k/n); lines of real numbers
    // Where a factor is large, Bluestein's algorithm: a convolution with a chirp. NULL: not.
    FftPlan *padded; // owned; the convolution's length, a power of two, at least 2n - 1
    FftTable chirp;  // [n] exp(-pi i k^2/n)
    FftTable filter; // [padded->n] the transform of its conjugate, wrapped around, over padded->n
};

static inline int64_t fft_longest(const FftPlan *f) {
    return f->padded ? f->padded->n : f->n + 1; // unfolded
}

#endif
