// fft_words.h - what fft.c and the text of its kernels, fft.cuh, agree on. Plain C that both read.
#ifndef GAN_FFT_WORDS_H
#define GAN_FFT_WORDS_H

enum {
    GAN_FFT_THREADS = 256, // of a block, a result each
    GAN_FFT_TILE = 512,    // numbers of a line in shared memory at a time
    GAN_FFT_FINE = 128,    // roots, by the last digits of their number and by the first
    GAN_FFT_COARSE = 1024,
    GAN_FFT_LONGEST = GAN_FFT_FINE * GAN_FFT_COARSE, // line
};

// The words of a kernel, in order.
enum {
    GAN_FFT_FROM, // addresses
    GAN_FFT_TO,
    GAN_FFT_N, // numbers of a line where it is whole
    GAN_FFT_LINES,
    GAN_FFT_INVERSE,
    GAN_FFT_WORDS,
};

#endif
