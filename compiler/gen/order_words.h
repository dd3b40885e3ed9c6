// order_words.h - what order.c and the text of its kernels, order.cuh, agree on. Plain C that both
// read.
#ifndef GAN_ORDER_WORDS_H
#define GAN_ORDER_WORDS_H

enum {
    GAN_ORDER_THREADS = 256, // of a block
    GAN_ORDER_SHORT = 4096,  // elements of a row that a block sorts in shared memory: 48 KB in f64
    GAN_ORDER_TILE = 2048,   // of a longer row: elements that a block sorts before runs are merged
};

// Numbers of a kernel's words, behind the addresses of what its region reads and writes and, where
// it has scratch, of that and of its tickets. Rows lie in memory as OrderLines says (ir.h).
enum {
    GAN_ORDER_N,    // elements of a row
    GAN_ORDER_LAST, // indices of a row: of the last in its order
    GAN_ORDER_LINES,
    GAN_ORDER_STEP,
    GAN_ORDER_NUMBERS,
};

#endif
