// fft_32.c - fft_lines.h in f32, for any machine and, compiled again, for every level of vector
// instructions (FFT_LEVEL).
#ifndef FFT_LEVEL
#define FFT_LEVEL fft_run32
#endif

#include "fft_parts.h"

extern FftRun32 FFT_LEVEL;
#define REAL float
#define TABLE f32
#define RUN FFT_LEVEL
#include "fft_lines.h"
