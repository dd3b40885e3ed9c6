// order_words.h - what order.c and the text of its kernels, order.cuh, agree on. Plain C that both
// read.
#ifndef GAN_ORDER_WORDS_H
#define GAN_ORDER_WORDS_H

enum {
    GAN_ORDER_THREADS = 256, // of a block
    GAN_ORDER_TILE = 512,    // numbers of a long line in shared memory at a time
    GAN_ORDER_SHORT = 4096,  // numbers of a line that is sorted in shared memory: 48 KB in f64
};

// Numbers of a kernel's words, behind the addresses of what its region reads and writes. A line is
// as OrderLines has it (ir.h).
enum {
    GAN_ORDER_N,
    GAN_ORDER_LINES,
    GAN_ORDER_STEP,
    GAN_ORDER_NUMBERS,
};

#endif
