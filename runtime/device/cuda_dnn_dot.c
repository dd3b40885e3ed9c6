// cuda_dnn_dot.c - the einsum of two operands as one batched matrix product of cuDNN.
//
// The labels of each kind (matrices.h) must fold into one axis with one stride on every side that
// has them. Where rows or columns do not (a batched tensor whose channels are not innermost, say),
// their outermost label becomes a batch axis, along which the other operand is broadcast. What
// still does not fold, or has a label of another pattern, is not given to cuDNN.
#include "cuda_dnn.h"
#include "matrices.h"

#include <string.h>

typedef struct Product {
    int n;
    MatrixLabel label[MATRIX_LABELS];
    MatrixKind kind[MATRIX_LABELS];
} Product;

// --- folding -------------------------------------------------------------------------------------

// The numbers of a kind's labels, outermost first, as they lie on the first side that has them.
static int labels_of(const Product *p, MatrixKind kind, int out[MATRIX_LABELS]) {
    MatrixSide side = kind == KindColumn ? SideB : SideA;
    int n = 0;
    for (int i = 0; i < p->n; i++) {
        if (p->label[i].extent == 1 || p->kind[i] != kind)
            continue;
        int at = n++;
        for (; at && p->label[out[at - 1]].stride[side] < p->label[i].stride[side]; at--)
            out[at] = out[at - 1];
        out[at] = i;
    }
    return n;
}

typedef struct Folded {
    int64_t extent[MatrixKinds], stride[MatrixKinds][MatrixSides]; // stride 0: the side has none
} Folded;

// All labels of a kind as one axis of each side. False where they do not fold.
static bool fold(const Product *p, MatrixKind kind, Folded *out) {
    int at[MATRIX_LABELS], n = labels_of(p, kind, at);
    out->extent[kind] = 1;
    for (int i = 0; i < n; i++)
        out->extent[kind] *= p->label[at[i]].extent;
    for (MatrixSide side = SideA; side < MatrixSides; side++) {
        out->stride[kind][side] = n ? p->label[at[n - 1]].stride[side] : 0;
        for (int i = 0; i + 1 < n; i++) {
            const MatrixLabel *l = &p->label[at[i]], *next = &p->label[at[i + 1]];
            if (l->stride[side] != next->stride[side] * next->extent)
                return false;
        }
    }
    return true;
}

static bool fold_all(const Product *p, Folded *out) {
    bool folds = true;
    for (MatrixKind k = KindEach; k < MatrixKinds; k++)
        folds = folds && fold(p, k, out);
    return folds;
}

// The same, with the outermost label of a kind apart: it counts as one of each.
static bool fold_apart(Product p, MatrixKind kind, Folded *out) {
    int at[MATRIX_LABELS], n = labels_of(&p, kind, at);
    if (n)
        p.kind[at[0]] = KindEach;
    return n && fold_all(&p, out);
}

// Strides of extents of 1 are never taken: the ones that make the tensor dense.
static void settle(CudnnTensor *t) {
    if (t->dim[2] == 1)
        t->stride[2] = 1;
    if (t->dim[1] == 1)
        t->stride[1] = t->stride[2] == 1 ? t->dim[2] : 1;
    if (t->dim[2] == 1 && t->dim[1] > 1 && t->stride[1] == 1)
        t->stride[2] = t->dim[1];
    if (t->dim[0] == 1)
        t->stride[0] = t->dim[1] * t->dim[2];
}

bool cudnn_read_dot(const Graph *g, uint32_t id, CudnnOperation *out, uint32_t node[3]) {
    if (graph_node(g, id)->op != OpDot)
        return false;
    Einsum e = einsum_of_dot(g, id);
    Product p;
    memset(out, 0, sizeof *out);
    out->kind = CudnnMatmul;
    node[SideA] = node_in(g, id, 0), node[SideB] = node_in(g, id, 1), node[SideOut] = id;
    p.n = einsum_labels(g, &e, p.label);
    for (int i = 0; i < p.n; i++)
        if (!label_kind(&p.label[i], &p.kind[i]) && p.label[i].extent > 1)
            return false;
    Folded f;
    if (p.n < 0 ||
        (!fold_all(&p, &f) && !fold_apart(p, KindRow, &f) && !fold_apart(p, KindColumn, &f)))
        return false;
    for (MatrixSide side = SideA; side < MatrixSides; side++) {
        const MatrixKind axes[] = {KindEach, matrix_kinds[side][0], matrix_kinds[side][1]};
        CudnnTensor *t = &out->tensor[side];
        t->n = 3;
        t->type = (Dtype)e.type[side]->dtype;
        for (int i = 0; i < 3; i++) {
            t->stride[i] = f.stride[axes[i]][side];
            t->dim[i] = t->stride[i] ? f.extent[axes[i]] : 1;
        }
        settle(t);
    }
    return true;
}

// --- as a convolution ----------------------------------------------------------------------------

// Is side `s` a dense matrix, `rows` by what is left, in the order in which axis `last` is the
// inner one?
static bool dense(const CudnnTensor *t, int last) {
    int first = 3 - last;
    return t->dim[0] == 1 && (t->stride[last] == 1 || t->dim[last] == 1) &&
           (t->stride[first] == t->dim[last] || t->dim[first] == 1);
}

// [n, c] as [n, c, 1, 1]: in memory channels-last and row-major at once.
static CudnnTensor pixels(int64_t n, int64_t c, Dtype type) {
    return (CudnnTensor){.n = 4, .dim = {n, c, 1, 1}, .stride = {c, 1, c, c}, .type = type};
}

static CudnnTensor filter(int64_t o, int64_t i, Dtype type) {
    return (CudnnTensor){.n = 4, .dim = {o, i, 1, 1}, .stride = {i, 1, 1, 1}, .type = type};
}

// With c = a b in row-major order, a and b in the orders that one of the three convolutions takes.
static bool as_conv(const CudnnTensor *a, const CudnnTensor *b, const CudnnTensor *c,
                    const uint32_t node[3], CudnnOperation *out, uint32_t to[3]) {
    int64_t m = a->dim[1], k = a->dim[2], n = b->dim[2];
    CudnnTensor *t = out->tensor;
    if (dense(a, 2) && dense(b, 1)) { // x [m, k], w [n, k], y [m, n]
        out->kind = CudnnForward;
        t[0] = pixels(m, k, a->type), t[1] = filter(n, k, b->type), t[2] = pixels(m, n, c->type);
        to[0] = node[0], to[1] = node[1], to[2] = node[2];
    } else if (dense(a, 2) && dense(b, 2)) { // x [m, n] of y [m, k], w [k, n]
        out->kind = CudnnData;
        t[0] = pixels(m, n, c->type), t[1] = filter(k, n, b->type), t[2] = pixels(m, k, a->type);
        to[0] = node[2], to[1] = node[1], to[2] = node[0];
    } else if (dense(a, 1) && dense(b, 2)) { // w [m, n] of x [k, n], y [k, m]
        out->kind = CudnnWeights;
        t[0] = pixels(k, n, b->type), t[1] = filter(m, n, c->type), t[2] = pixels(k, m, a->type);
        to[0] = node[1], to[1] = node[2], to[2] = node[0];
    } else {
        return false;
    }
    return true;
}

static CudnnTensor transposed(const CudnnTensor *t) {
    return (CudnnTensor){.n = 3,
                         .dim = {t->dim[0], t->dim[2], t->dim[1]},
                         .stride = {t->stride[0], t->stride[2], t->stride[1]},
                         .type = t->type};
}

bool cudnn_dot_as_conv(const CudnnOperation *p, CudnnOperation *out, uint32_t node[3]) {
    const CudnnTensor *a = &p->tensor[0], *b = &p->tensor[1], *c = &p->tensor[2];
    const uint32_t straight[3] = {node[0], node[1], node[2]};
    const uint32_t swapped[3] = {node[1], node[0], node[2]};
    memset(out, 0, sizeof *out);
    out->space = 2;
    for (int i = 0; i < 2; i++)
        out->stride[i] = out->dilation[i] = 1;
    if (dense(c, 2) && as_conv(a, b, c, straight, out, node))
        return true;
    CudnnTensor at = transposed(a), bt = transposed(b), ct = transposed(c);
    return dense(c, 1) && as_conv(&bt, &at, &ct, swapped, out, node);
}
