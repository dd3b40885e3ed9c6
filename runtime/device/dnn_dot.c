// dnn_dot.c - the einsum of two operands as one matrix product of oneDNN; also convolutions whose
// kernel covers the whole input, which are matrix products (as convolutions they run at a tenth
// of the rate).
//
// A side whose labels do not fold into rows and columns in place (matrices.h) is copied into order
// first, a result is written in order and copied out.
#include "dnn.h"
#include "matrices.h"

typedef struct Product {
    Matrices is;
    uint32_t node[MatrixSides];
    Dtype type[MatrixSides];
} Product;

// False when its labels do not fold or no stride is 1.
static bool shape_in_place(const Product *d, MatrixSide side, DnnShape *s) {
    MatrixShape m;
    bool in_place = matrices_in_place(&d->is, side, &m);
    *s = (DnnShape){.n = m.n, .type = d->type[side]};
    for (int i = 0; i < m.n; i++) {
        s->dim[i] = m.dim[i];
        s->stride[i] = m.stride[i];
    }
    return in_place;
}

// The same matrices dense; `loose` describes the side's own memory label by label in the same
// order. Of rows and columns those come first that do so in memory: where heads lie innermost,
// matrices of 256 x 256 take five times as long to copy with the two exchanged (docs/tuning.md).
// Products that read a matrix turned share its copy.
static void shape_copied(const Product *d, MatrixSide side, DnnShape *s, DnnShape *loose,
                         DnnShape *packed) {
    *s = (DnnShape){.type = d->type[side]};
    *loose = (DnnShape){.type = d->type[side]};
    const Matrices *m = &d->is;
    bool turned = matrices_turned(m, side);
    const MatrixKind kinds[] = {KindEach, matrix_kinds[side][turned], matrix_kinds[side][!turned]};
    for (int k = 0; k < 3; k++)
        for (int i = 0; i < m->members[kinds[k]]; i++) {
            const MatrixLabel *l = &m->label[m->group[kinds[k]][i]];
            loose->dim[loose->n] = l->extent;
            loose->stride[loose->n++] = l->stride[side];
            if (k == 0)
                s->dim[s->n++] = l->extent;
        }
    s->dim[s->n++] = matrices_extent(m, kinds[1]);
    s->dim[s->n++] = matrices_extent(m, kinds[2]);
    dnn_dense(s);
    if (turned)
        *s = dnn_turned(*s);
    *packed = *loose;
    dnn_dense(packed);
}

// --- the call ------------------------------------------------------------------------------------

typedef struct Operand {
    DnnShape shape, loose, packed;
    bool copied;
    void *at; // NULL: in a staging buffer
    int staging;
    size_t offset;
} Operand;

static Operand operand_of(const Product *d, MatrixSide side, void *at) {
    Operand o = {.at = at};
    o.copied = !shape_in_place(d, side, &o.shape);
    if (o.copied)
        shape_copied(d, side, &o.shape, &o.loose, &o.packed);
    return o;
}

// Inputs out of order are copied; calls that number the value's axes alike share the copy. The
// result goes through staging.
static dnnl_status_t bring_in(Dnn *d, DnnCall *call, uint32_t id, Operand *o) {
    if (!o->copied)
        return dnnl_success;
    DnnTensor from = {dnn_keep_layout(d, &o->loose), o->at, 0, 0}, to = {0};
    DnnLayoutRef packed = dnn_keep_layout(d, &o->packed);
    if (!from.layout || !packed)
        return dnnl_unimplemented;
    dnnl_status_t s = dnn_pack(d, call, id, from, packed, &to);
    o->at = to.at;
    o->staging = to.staging;
    o->offset = to.offset;
    return s;
}

static dnnl_status_t multiply(Dnn *d, DnnCall *call, const DnnMatmul *p, const Operand *o) {
    DnnTensor at[MatrixSides];
    for (int i = 0; i < MatrixSides; i++)
        at[i] = (DnnTensor){NULL, o[i].at, o[i].staging, o[i].offset};
    if (o[SideOut].copied)
        at[SideOut].at = NULL;
    dnnl_status_t s = dnn_add_matmul(d, call, p, at);
    if (s != dnnl_success || !o[SideOut].copied)
        return s;
    DnnTensor from = {dnn_keep_layout(d, &o[SideOut].packed), NULL, 0, 0};
    DnnTensor to = {dnn_keep_layout(d, &o[SideOut].loose), o[SideOut].at, 0, 0};
    return from.layout && to.layout ? dnn_add_reorder(d, call, from, to) : dnnl_unimplemented;
}

static dnnl_status_t prepare(Dnn *d, const DnnNode *node, const Einsum *e,
                             const uint32_t id[MatrixSides], DnnCall *call, bool *done) {
    const Graph *g = &node->plan->func->g;
    Product product;
    if (!matrices_read(&product.is, g, e))
        return dnnl_success;
    Operand o[MatrixSides];
    for (int i = 0; i < MatrixSides; i++) {
        product.node[i] = id[i < SideOut ? i ^ product.is.swapped : i];
        product.type[i] = (Dtype)node_type(g, product.node[i])->dtype;
        o[i] = operand_of(&product, (MatrixSide)i,
                          memory_at(node->memory, node->plan, product.node[i]));
        if (!o[i].at)
            return dnnl_success; // a constant inside kernels
    }
    DnnMatmul matrices;
    dnnl_status_t s = dnn_matmul(
        d, (const DnnShape[]){o[SideA].shape, o[SideB].shape, o[SideOut].shape}, false, &matrices);
    if (s != dnnl_success)
        return s == dnnl_unimplemented || s == dnnl_invalid_arguments ? dnnl_success : s;
    s = bring_in(d, call, product.node[SideA], &o[SideA]);
    if (s == dnnl_success)
        s = bring_in(d, call, product.node[SideB], &o[SideB]);
    if (s == dnnl_success)
        s = multiply(d, call, &matrices, o);
    *done = s == dnnl_success;
    return s;
}

dnnl_status_t dnn_prepare_dot(Dnn *d, const DnnNode *node, DnnCall *call, bool *done) {
    const Graph *g = &node->plan->func->g;
    Einsum e = einsum_of_dot(g, node->id);
    uint32_t id[] = {node_in(g, node->id, 0), node_in(g, node->id, 1), node->id};
    return prepare(d, node, &e, id, call, done);
}

dnnl_status_t dnn_prepare_covering(Dnn *d, const DnnNode *node, const uint32_t side[3],
                                   DnnCall *call, bool *done) {
    // Labels: 1 the output's channel, 2 the input's, then the axes; the output's own axes have
    // extent 1.
    static const int64_t xs[] = {2, 3, 4, 5}, ws[] = {1, 2, 3, 4, 5}, ys[] = {1, 6, 7, 8};
    const int64_t *labels[3] = {xs, ws, ys};
    Einsum e;
    uint32_t id[MatrixSides];
    for (int i = 0, n = 0; i < 3; i++) {
        int at = side[i] == node->id ? SideOut : n++;
        id[at] = side[i];
        e.type[at] = node_type(&node->plan->func->g, side[i]);
        e.labels[at] = labels[i];
    }
    return prepare(d, node, &e, id, call, done);
}
