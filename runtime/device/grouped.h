// grouped.h - convolutions in many narrow groups, depthwise ones above all: the loops.
// dnn_grouped.c prepares them. Everything here is compiled once for every level of vector
// instructions.
#ifndef GAN_GROUPED_H
#define GAN_GROUPED_H

#include "dnn.h"

enum { GROUPED_LANES = 16 }; // channels of a vector

// Along one axis, for position q the loops read pixels step*q + lo .. + reach - 1 and compute
// pixels phases*q .. + phases - 1. Forward: step is the stride. An input gradient reads y and
// computes x: phases is the stride.
typedef struct GroupedAxis {
    int64_t read, made; // extents of the two images
    int64_t step, phases, lo, reach;
    int64_t positions, tile, tiles; // all q; of a tile; how many tiles
    int64_t window;                 // pixels a tile reads
} GroupedAxis;

typedef struct GroupedImage { // channels-last
    void *at;
    Dtype type;
    int64_t c, group, pixels; // channels; of a group; pixels of a sample
} GroupedImage;

typedef struct Grouped {
    DnnConvKind kind;
    GroupedAxis axis[DNN_AXES];
    DnnAxis of[DNN_AXES]; // of the convolution
    // Weight gradients read x and, in place of computing it, y.
    GroupedImage read, made;
    void *weights; // [o, k.., i]
    Dtype weight_type;
    int64_t n, share;           // samples; how many share a vector, where channels are few
    int64_t blocks;             // vectors of channels of `made`
    int64_t units, parts;       // samples / share; weights' gradient: partial sums
    int64_t taps, inputs;       // kernel elements; channels read for one computed: read.group
    int64_t *first;             // [phases + 1]: of each phase's terms
    int64_t *tap;               // [inputs * taps]: a term's kernel element, and
    int64_t *input;             // channel, and
    int64_t *offset;            // where it begins in a tile's window, in floats
    float *packed;              // [blocks, inputs * taps, lanes]; or [parts, blocks, ..]
    float zeros[GROUPED_LANES]; // not constants, which a compiler would clear sums by calls for
    int64_t room;               // floats of staging memory 1 for each thread
} Grouped;

typedef struct GroupedRun { // jobs over a Grouped
    DnnHost *pack_weights, *convolve, *weights_gradient, *add_parts;
} GroupedRun;

extern const GroupedRun grouped_run_v1, grouped_run_v3, grouped_run_v4;

#endif
