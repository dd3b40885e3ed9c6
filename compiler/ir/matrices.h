// matrices.h - the einsum of two operands as one product of matrices.
//
// Every label is of one kind: `each` (both operands and the result), `row` (a and the result),
// `column` (b and the result), `inner` (contracted: both operands). Where rows, columns and inner
// labels each fold into one axis with one stride, a side is a batch of matrices in place. Labels of
// another pattern (in one operand only, twice in one) are not supported.
#ifndef GAN_MATRICES_H
#define GAN_MATRICES_H

#include "ir.h"

typedef enum MatrixKind { KindEach, KindRow, KindColumn, KindInner, MatrixKinds } MatrixKind;
typedef enum MatrixSide { SideA, SideB, SideOut, MatrixSides } MatrixSide;

enum { MATRIX_LABELS = 3 * (MAX_RANK + 1) };

typedef struct MatrixLabel {
    int64_t extent, stride[MatrixSides]; // stride: in elements, 0 on a side without it
    bool has[MatrixSides];
} MatrixLabel;

typedef struct Einsum {
    const Type *type[MatrixSides];
    const int64_t *labels[MatrixSides]; // one an axis; the batch is 0
} Einsum;

typedef struct Matrices {
    bool swapped; // a and b have changed places, which transposes the result
    int n;
    MatrixLabel label[MATRIX_LABELS];
    int group[MatrixKinds][MATRIX_LABELS]; // labels of each kind, outermost first
    int members[MatrixKinds];
} Matrices;

typedef struct MatrixShape { // a batch of matrices: one axis for each label of it, rows, columns
    int n;
    int64_t dim[MATRIX_LABELS], stride[MATRIX_LABELS]; // in elements
} MatrixShape;

// The two kinds a side's matrix is made of: rows, then columns.
extern const MatrixKind matrix_kinds[MatrixSides][2];

Einsum einsum_of_dot(const Graph *g, uint32_t id);
// The labels, in the order in which a, b and the result have them first. Returns how many there
// are; -1: one comes twice on a side.
int einsum_labels(const Graph *g, const Einsum *e, MatrixLabel out[MATRIX_LABELS]);
bool label_kind(const MatrixLabel *l, MatrixKind *out); // false: another pattern

// The result's columns lie side by side, where something does. False: another pattern of labels.
bool matrices_read(Matrices *m, const Graph *g, const Einsum *e);
// A side in place; false when its labels do not fold or no stride is 1.
bool matrices_in_place(const Matrices *m, MatrixSide side, MatrixShape *out);
// Whether a column's numbers lie closer together than a row's.
bool matrices_turned(const Matrices *m, MatrixSide side);
int64_t matrices_extent(const Matrices *m, MatrixKind kind);

#endif
