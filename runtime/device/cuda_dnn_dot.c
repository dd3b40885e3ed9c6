// cuda_dnn_dot.c - the einsum of two operands as one batched matrix product of cuDNN.
//
// Every label is of one kind: `each` (batch: in both operands and the result), `row` (a and the
// result), `column` (b and the result), `inner` (contracted: both operands). The labels of a kind
// must fold into one axis with one stride on every side that has them. Where rows or columns do not
// (a batched tensor whose channels are not innermost, say), their outermost label becomes a batch
// axis, along which the other operand is broadcast. What still does not fold, or has a label of
// another pattern, is not given to cuDNN.
#include "cuda_dnn.h"

#include <string.h>

typedef enum Kind { Each, Row, Column, Inner, Kinds } Kind;
enum { SideA, SideB, SideOut, Sides, LABELS = 3 * (MAX_RANK + 1) };

typedef struct Label {
    int64_t name, extent, stride[Sides];
    bool has[Sides];
    bool apart; // a row or column that counts as one of each
} Label;

typedef struct Product {
    int n;
    Label label[LABELS];
} Product;

// The axes of each side's matrices: batch, rows, columns.
static const Kind axes[Sides][3] = {{Each, Row, Inner}, {Each, Inner, Column}, {Each, Row, Column}};

// --- reading -------------------------------------------------------------------------------------

static bool read_side(Product *p, const Graph *g, int side, uint32_t node, const int64_t *labels) {
    const Type *t = node_type(g, node);
    int64_t stride[MAX_RANK + 1];
    type_strides(t, stride);
    for (int i = t->batched ? 0 : 1; i <= t->rank; i++) {
        int64_t name = i ? labels[i - 1] : 0;
        int k = 0;
        while (k < p->n && p->label[k].name != name)
            k++;
        if (k == LABELS || p->label[k].has[side]) // twice on one side: a diagonal
            return false;
        if (k == p->n)
            p->label[p->n++].name = name;
        p->label[k].extent = i ? t->dim[i - 1] : g->batch;
        p->label[k].stride[side] = stride[i];
        p->label[k].has[side] = true;
    }
    return true;
}

static bool kind_of(const Label *l, Kind *out) {
    if (l->has[SideA] + l->has[SideB] + l->has[SideOut] < 2)
        return false;
    *out = l->apart           ? Each
           : !l->has[SideOut] ? Inner
           : !l->has[SideB]   ? Row
           : !l->has[SideA]   ? Column
                              : Each;
    return true;
}

// --- folding -------------------------------------------------------------------------------------

static int labels_of(Product *p, Kind kind, Label *out[LABELS]) {
    int n = 0;
    Kind k;
    for (int i = 0; i < p->n; i++)
        if (p->label[i].extent > 1 && kind_of(&p->label[i], &k) && k == kind)
            out[n++] = &p->label[i];
    return n;
}

// Outermost first, as they lie on the first side that has them.
static void sort_labels(Label **l, int n, int side) {
    for (int i = 1; i < n; i++)
        for (int j = i; j > 0 && l[j]->stride[side] > l[j - 1]->stride[side]; j--) {
            Label *t = l[j];
            l[j] = l[j - 1];
            l[j - 1] = t;
        }
}

// All labels of a kind as one axis of each side. False where they do not fold.
static bool fold(Product *p, Kind kind, int64_t *extent, int64_t stride[Sides]) {
    Label *l[LABELS];
    int n = labels_of(p, kind, l);
    sort_labels(l, n, kind == Column ? SideB : SideA);
    *extent = 1;
    for (int i = 0; i < n; i++)
        *extent *= l[i]->extent;
    for (int side = 0; side < Sides; side++) {
        stride[side] = n ? l[n - 1]->stride[side] : 0;
        for (int i = 0; i + 1 < n; i++)
            if (l[i]->stride[side] != l[i + 1]->stride[side] * l[i + 1]->extent)
                return false;
    }
    return true;
}

typedef struct Folded {
    int64_t extent[Kinds], stride[Kinds][Sides]; // stride 0: the side has none of the kind
} Folded;

static bool fold_all(Product *p, Folded *out) {
    bool folds = true;
    for (int k = 0; k < Kinds; k++)
        folds = folds && fold(p, (Kind)k, &out->extent[k], out->stride[k]);
    return folds;
}

// The same, with the outermost label of a kind apart.
static bool fold_apart(Product p, Kind kind, Folded *out) {
    Label *l[LABELS];
    int n = labels_of(&p, kind, l);
    sort_labels(l, n, kind == Column ? SideB : SideA);
    if (n)
        l[0]->apart = true;
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
    const int64_t *a = node_attr(g, id)->i + 1, *b = a + a[-1] + 1, *c = b + b[-1] + 1;
    const int64_t *labels[Sides] = {a, b, c};
    Product p = {0};
    Kind kind;
    memset(out, 0, sizeof *out);
    out->kind = CudnnMatmul;
    node[SideA] = node_in(g, id, 0), node[SideB] = node_in(g, id, 1), node[SideOut] = id;
    for (int side = 0; side < Sides; side++)
        if (!read_side(&p, g, side, node[side], labels[side]))
            return false;
    for (int i = 0; i < p.n; i++)
        if (p.label[i].extent > 1 && !kind_of(&p.label[i], &kind))
            return false;
    Folded f;
    if (!fold_all(&p, &f) && !fold_apart(p, Row, &f) && !fold_apart(p, Column, &f))
        return false;
    for (int side = 0; side < Sides; side++) {
        CudnnTensor *t = &out->tensor[side];
        t->n = 3;
        t->type = (Dtype)node_type(g, node[side])->dtype;
        for (int i = 0; i < 3; i++) {
            t->stride[i] = f.stride[axes[side][i]][side];
            t->dim[i] = t->stride[i] ? f.extent[axes[side][i]] : 1;
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
