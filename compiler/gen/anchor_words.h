// anchor_words.h - what anchor.c and the text of its kernels, anchor.cuh and grouped.cuh, agree on.
// Plain C that both read.
#ifndef GAN_ANCHOR_WORDS_H
#define GAN_ANCHOR_WORDS_H

enum {
    GAN_THREADS = 256, // of a block, as 16 by 16
    GAN_TERMS = 8,     // that a block multiplies at a time: with twice as many the loads in flight
                       // spill registers
    GAN_SQUARE = 4,
    GAN_TILE = 16 * GAN_SQUARE, // rows, and columns, of a tile
    GAN_STAGE = 32,             // grouped.cuh: terms that a block has in shared memory at a time
    GAN_TAPS = 64,              // of a convolution of groups, at most
};

// The words of a kernel: first those of operands, scratch and tickets, then from GAN_HEAD on
// numbers, which end where the words do. Zeros fill what is left between.
enum {
    GAN_HEAD = 5,
    GAN_ROWS = GAN_HEAD, // m, n and k, and how they are cut into jobs
    GAN_COLUMNS,
    GAN_K,
    GAN_CHUNK,
    GAN_TILES_M,
    GAN_TILES_N,
    GAN_SPLITS, // 1: no parts and no tickets
    GAN_JOBS,
    GAN_A, // where the operands' own words are; the parts' and tickets' follow C's
    GAN_B,
    GAN_C,
    GAN_A_BY_TERMS, // neighbouring threads load neighbouring k, not m or n
    GAN_B_BY_TERMS,
    GAN_PHASES, // ConvDx: a residue of the stride is a product of its own
    GAN_LISTS,
};

// Lists of axes: of g (a product of its own), m, n and k. Words of each: the first of its axes, how
// many it has, and which of them is the first spatial one, or -1.
enum { GAN_OF_G, GAN_OF_M, GAN_OF_N, GAN_OF_K, GAN_LIST_COUNT, GAN_LIST_WORDS = 3 };

// Then for each spatial axis, for A, B and C: an element is there only where its coordinate is
// below the extent; the coordinate of the first; elements from one to the next. And of ConvDx:
enum { GAN_SPACE = GAN_LISTS + GAN_LIST_COUNT * GAN_LIST_WORDS };
enum { GAN_EXTENT = 0, GAN_ORIGIN = 3, GAN_STEP = 6, GAN_STRIDE = 9, GAN_DILATION, GAN_BEFORE };
enum { GAN_KERNEL = GAN_BEFORE + 1, GAN_SPACE_WORDS };

// Then the axes (gan_axis): extent, its fast_divisor (0 of 1), two steps, two strides. Those of g
// say after their extent how many elements one adds in A, B and C.
enum { GAN_AXIS_WORDS = 6 };

#endif
