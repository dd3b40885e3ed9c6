// import_fold.h - what the files of import_fold.c share: constants, element by element.
#ifndef GAN_IMPORT_FOLD_H
#define GAN_IMPORT_FOLD_H

#include "import.h"

// --- import_fold.c -------------------------------------------------------------------------------

typedef struct Cells { // a constant being made
    Shape shape;
    double *x;
    uint8_t *n; // times N
    size_t count;
} Cells;
bool make_cells(Import *m, uint32_t rank, const int64_t *dim, Cells *out);
bool give_cells(Import *m, const Cells *c, bool whole); // as the node's result
double cell(const Value *v, size_t i);
size_t cells_of(const Value *v);
bool cell_n(const Value *v, size_t i); // it is times N
void copy_cell(Cells *to, size_t i, const Value *v, size_t k);
// The extents that an operand lists; samples have extent 1: what is shared is given to each.
bool dims_of(Import *m, uint32_t k, uint32_t *rank, int64_t *dim);

// --- import_fold_moves.c -------------------------------------------------------------------------

void next_index(const Shape *s, int64_t *at); // in row-major order
// The shape that s and dim[*rank] have when they are broadcast to each other, in dim.
bool broadcast(Import *m, const Shape *s, uint32_t *rank, int64_t *dim);
// Element of v where it is broadcast to a shape of more axes and extents.
size_t broadcast_at(const Value *v, const Shape *to, const int64_t *at);
typedef bool Folding(Import *m); // the node at hand
Folding fold_same, fold_cast, fold_reshape, fold_squeeze, fold_unsqueeze, fold_transpose,
    fold_gather, fold_scatter_nd, fold_concat, fold_slice, fold_expand, fold_tile;

#endif
