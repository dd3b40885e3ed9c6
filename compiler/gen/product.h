// product.h - a convolution or product as anchor.cuh sees it: which axes its rows, columns and
// terms run over, and how far apart elements are along them.
#ifndef GAN_PRODUCT_H
#define GAN_PRODUCT_H

#include "matrices.h"

enum { MAX_AXES = 8, SPACES = 3 };

typedef struct Axis { // gan_axis; [0] and [1]: the two operands the list is about
    int64_t extent, step[2], stride[2];
} Axis;

typedef struct List {
    uint32_t n;
    int space; // the first spatial axis, -1 none
    Axis axis[MAX_AXES];
} List;

typedef struct Apart { // an axis of products that have nothing in common
    int64_t extent, stride[MatrixSides];
} Apart;

typedef struct Along { // a spatial axis of the three operands
    int64_t extent[MatrixSides], origin[MatrixSides], step[MatrixSides];
    int64_t stride, dilation, before, kernel;
} Along;

typedef struct Product {
    Dtype in, out;
    uint32_t spaces, aparts;
    List rows, columns, terms;
    Apart apart[MAX_AXES];
    Along space[SPACES];
    bool bounded[MatrixSides]; // an element is there only where its coordinates are inside
    bool phases;
    bool swapped; // A is the second operand
} Product;

// Node `id`, a Conv, ConvDx, ConvDw or Dot. Of the `spaces` spatial axes that it is given, those
// that it has not are of extent 1, and every element is within them: a Dot has none.
void product_read(const Graph *g, uint32_t id, uint32_t spaces, Product *out);
// How the channels of a convolution of several groups can be read and stored four at a time
// (grouped.cuh).
typedef enum GroupedKind {
    GroupedNot,  // not so, or no such convolution
    GroupedDeep, // each group's channels lie side by side, and come in fours
    GroupedEach, // groups of one channel each lie side by side, and come in fours
} GroupedKind;
GroupedKind product_grouped(const Graph *g, uint32_t id);
// Spatial axes of a convolution, 0 for any other node.
uint32_t product_spaces(const Graph *g, uint32_t id);

#endif
