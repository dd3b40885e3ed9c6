// fft.h - discrete Fourier transforms of many lines of one length, in f32 and f64.
//
// Used by the cpu device for the operation fft, and to measure power spectra. A length is split
// into its prime factors, and as many lines as a vector has lanes are transformed together, a line
// a lane.
#ifndef GAN_FFT_H
#define GAN_FFT_H

#include "base.h"

// One side of a transform in memory: element j of part p of line l is at l*line + j*step + p*part.
typedef struct FftSide {
    bool real;                // one part; else two, the real one and the imaginary one
    int64_t n;                // elements of a line: of frequencies of real numbers n/2 + 1
    int64_t line, step, part; // numbers
} FftSide;

// out[k] = sum over j of in[j] exp(-+2 pi i jk/n), for each line. Real to complex makes the
// frequencies 0 .. n/2 and goes forward; complex to real is its inverse but for a factor n, which
// nobody divides by.
typedef struct FftLines {
    int64_t n, lines; // numbers of a line where it is whole
    bool inverse;     // +2 pi i; else -2 pi i
    FftSide in, out;
} FftLines;

typedef struct FftPlan
    FftPlan; // roots of unity of one length; does not change, any number of threads may use it

// For lines of l's length and kind: any length from 1; where a prime factor is large, by way of a
// convolution (Bluestein 1970). GAN_ERR_MEMORY.
GanStatus fft_make(const FftLines *l, FftPlan **out);
void fft_free(FftPlan *f); // accepts NULL

int64_t fft_groups(const FftLines *f); // of lines that go through together
size_t fft_room(const FftPlan *f);     // numbers of room a group needs, aligned to 64 bytes
// Groups [lo, hi) of lines. `out` may be `in` where both sides lie alike. No line's result depends
// on another.
typedef void FftRun64(const FftPlan *f, const FftLines *l, const double *in, double *out,
                      int64_t lo, int64_t hi, double *room);
typedef void FftRun32(const FftPlan *f, const FftLines *l, const float *in, float *out, int64_t lo,
                      int64_t hi, float *room);
extern FftRun64 fft_run64;
extern FftRun32 fft_run32;

// --- fft_square.c --------------------------------------------------------------------------------

typedef struct Complex {
    double re, im;
} Complex;
// In place, of x [n, n]: sum over a, b of x[a, b] exp(-2 pi i (a u + b v) / n); `inverse` flips the
// sign and divides by n^2. Any n >= 1; fastest if its prime factors are small.
GanStatus fft_square(Complex *x, uint32_t n, bool inverse);

#endif
