// tiles.h - convolutions in bf16 on a matrix unit (AMX): what is multiplied, as dnn_tiles.c
// describes it and tiles.c, compiled for that unit, does it.
#ifndef GAN_TILES_H
#define GAN_TILES_H

#include "dnn.h"

enum {
    TILE_WIDE = 32,    // a block of the result is as many rows by as many columns: 2 x 2 tiles
    TILE_ROWS = 256,   // rows multiplied at once,
    TILE_DEPTH = 1024, // by so many terms,
    TILE_MADE = 512,   // to so many columns
    TILE_TERMS = 1024, // terms of the weights' gradient at once
};

// An image as a matrix: a row for each pixel of a grid, in it the channels of the pixels of the
// image under the kernel, element by element. They are all inside: where the kernel reaches beyond
// the image, a copy with zeros around it stands for it.
typedef struct TileImage {
    const uint16_t *at;       // [n, x.., c]; NULL: in the staging buffer of copies,
    size_t offset;            // so far from its start
    DnnAxis axis[DNN_AXES];   // x of the image, y of the grid
    const int64_t *tap;       // how far from a row's pixel an element of the kernel is, in numbers
    int64_t c, rows, columns; // rows: of all samples; columns: elements of the kernel * c
} TileImage;

typedef struct TileCopy { // of an image, with zeros around
    const uint16_t *from;
    int64_t n, c, x[DNN_AXES], before[DNN_AXES], made[DNN_AXES]; // made: extents of the copy
    size_t offset;                                               // in the staging buffer of copies
} TileCopy;

typedef struct TileRows { // TILE_WIDE rows of an image, one after another
    int64_t n;
    int64_t from[TILE_WIDE]; // where the row's pixel lies
    bool line[2];            // are 16 of them on one line of pixels?
} TileRows;

typedef struct TileProduct { // made = image . weights
    TileImage image;
    int64_t made;               // columns of the result
    const uint16_t *weights;    // as the plan has them: [o, k.., c]
    const int64_t *element;     // an input gradient: the kernel's element of each of the image's;
    int64_t elements;           // of all. Forward: NULL
    uint16_t *packed;           // the weights in tiles; NULL: in the staging buffer of copies,
    size_t offset;              // so far from its start
    void *to;                   // the result's first pixel,
    int64_t step[1 + DNN_AXES]; // numbers to the next sample, and pixel along each axis
    Dtype type;                 // of it
    int64_t rows, parts;        // rows of a unit of work; parts of the columns
} TileProduct;

typedef struct TileGradient { // weights = y' . image
    TileImage image;
    const uint16_t *y;  // [rows, o]
    int64_t o, at_once; // at_once: rows of y turned at once
    float *to;          // [o, columns]
} TileGradient;

typedef struct TileRun {
    DnnHost *copy;            // a job over a TileCopy
    DnnHost *pack, *multiply; // over a TileProduct
    DnnHost *gradient;        // over a TileGradient
    size_t room;              // bytes of staging memory 1 for each thread
} TileRun;

const TileRun *tiles_run(void); // NULL: no unit here, or built without

static inline int64_t tile_blocks(int64_t n) { // of TILE_WIDE
    return (n + TILE_WIDE - 1) / TILE_WIDE;
}

#endif
