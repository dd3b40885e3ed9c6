// dnn_dot.c - the einsum of two operands as one matrix product of oneDNN; also convolutions whose
// kernel covers the whole input, which are matrix products (as convolutions they run at a tenth
// of the rate).
//
// Every label is of one kind: `each` (both operands and the result), `row` (a and the result),
// `column` (b and the result), `inner` (contracted: both operands). Rows, columns and inner labels
// must each fold into one dimension with one stride; an operand where they do not is copied into
// order first, a result is written in order and copied out. Labels of another pattern (in one
// operand only, twice in one) are not supported.
#include "dnn.h"

#include <string.h>

typedef enum Kind { Each, Row, Column, Inner, Kinds } Kind;
typedef enum Side { SideA, SideB, SideOut, Sides } Side;

typedef struct Label {
    int64_t extent, stride[Sides];
    bool has[Sides];
} Label;

enum { LABELS = 3 * (MAX_RANK + 1) };

typedef struct Product {
    uint32_t node[Sides];
    Label label[LABELS];
    int n;
    int group[Kinds][LABELS], members[Kinds]; // labels of each kind, outermost first
    Dtype type[Sides];
} Product;

// The two kinds a side's matrix is made of: rows, then columns.
static const Kind matrix[Sides][2] = {{Row, Inner}, {Inner, Column}, {Row, Column}};

// --- reading the node ----------------------------------------------------------------------------

static bool read_side(Product *d, const Graph *g, Side side, uint32_t node, const int64_t *labels,
                      int64_t *known) {
    const Type *t = node_type(g, node);
    int64_t stride[MAX_RANK + 1];
    type_strides(t, stride);
    d->node[side] = node;
    d->type[side] = (Dtype)t->dtype;
    for (int i = t->batched ? 0 : 1; i <= t->rank; i++) {
        int64_t name = i ? labels[i - 1] : 0;
        int k = 0;
        while (k < d->n && known[k] != name)
            k++;
        if (k == LABELS || d->label[k].has[side])
            return false;
        if (k == d->n)
            known[d->n++] = name;
        d->label[k].extent = i ? t->dim[i - 1] : g->batch;
        d->label[k].stride[side] = stride[i];
        d->label[k].has[side] = true;
    }
    return true;
}

static bool classify(Product *d) {
    for (int k = 0; k < d->n; k++) {
        const bool *has = d->label[k].has;
        if (d->label[k].extent == 1)
            continue;
        if (has[SideA] + has[SideB] + has[SideOut] < 2)
            return false;
        Kind kind = !has[SideOut] ? Inner : !has[SideB] ? Row : !has[SideA] ? Column : Each;
        d->group[kind][d->members[kind]++] = k;
    }
    return true;
}

typedef struct Einsum {
    uint32_t node[Sides];
    const int64_t *labels[Sides];
} Einsum;

// `swap`: a and b change places, which transposes the result.
static bool read_product(Product *d, const Graph *g, const Einsum *e, bool swap) {
    int64_t known[LABELS];
    *d = (Product){0};
    return read_side(d, g, SideA, e->node[swap], e->labels[swap], known) &&
           read_side(d, g, SideB, e->node[!swap], e->labels[!swap], known) &&
           read_side(d, g, SideOut, e->node[SideOut], e->labels[SideOut], known) && classify(d);
}

// Between neighbours along a kind's labels; 0: it has none.
static int64_t nearest(const Product *d, Kind kind, Side side) {
    int64_t least = 0;
    for (int i = 0; i < d->members[kind]; i++) {
        int64_t stride = d->label[d->group[kind][i]].stride[side];
        least = least && least < stride ? least : stride;
    }
    return least;
}

// Whether a column's numbers lie closer together than a row's.
static bool lies_turned(const Product *d, Side side) {
    int64_t rows = nearest(d, matrix[side][0], side), columns = nearest(d, matrix[side][1], side);
    return rows && rows < columns;
}

// The library is quick only where the columns of the result lie side by side. Where neither rows
// nor columns do, it is copied out in order, which is quicker for whole lines.
static bool wants_swap(const Product *d) {
    return nearest(d, Row, SideOut) == 1 || lies_turned(d, SideOut);
}

// --- folding -------------------------------------------------------------------------------------

static void sort_by(Product *d, Kind kind, Side side) {
    int *group = d->group[kind];
    for (int i = 1; i < d->members[kind]; i++)
        for (int j = i;
             j > 0 && d->label[group[j]].stride[side] > d->label[group[j - 1]].stride[side]; j--) {
            int t = group[j];
            group[j] = group[j - 1];
            group[j - 1] = t;
        }
}

static int64_t size_of(const Product *d, Side side) {
    int64_t n = 1;
    for (int k = 0; k < d->n; k++)
        n *= d->label[k].has[side] ? d->label[k].extent : 1;
    return n;
}

// Labels shared by two sides take the larger one's order: if one must be copied, the smaller.
static void sort_all(Product *d) {
    int64_t a = size_of(d, SideA), b = size_of(d, SideB), out = size_of(d, SideOut);
    sort_by(d, Row, a >= out ? SideA : SideOut);
    sort_by(d, Column, b >= out ? SideB : SideOut);
    sort_by(d, Inner, a >= b ? SideA : SideB);
}

static int64_t extent_of(const Product *d, Kind kind) {
    int64_t n = 1;
    for (int i = 0; i < d->members[kind]; i++)
        n *= d->label[d->group[kind][i]].extent;
    return n;
}

static bool folds(const Product *d, Kind kind, Side side, int64_t *stride) {
    const int *group = d->group[kind];
    int n = d->members[kind];
    for (int i = 0; i + 1 < n; i++) {
        const Label *inner = &d->label[group[i + 1]];
        if (d->label[group[i]].stride[side] != inner->stride[side] * inner->extent)
            return false;
    }
    *stride = n ? d->label[group[n - 1]].stride[side] : 0;
    return true;
}

// A side as a batch of matrices in place: false when its labels do not fold or no stride is 1.
static bool shape_in_place(const Product *d, Side side, DnnShape *s) {
    *s = (DnnShape){.type = d->type[side]};
    for (int i = 0; i < d->members[Each]; i++) {
        const Label *l = &d->label[d->group[Each][i]];
        s->dim[s->n] = l->extent;
        s->stride[s->n++] = l->stride[side];
    }
    for (int i = 0; i < 2; i++) {
        s->dim[s->n] = extent_of(d, matrix[side][i]);
        if (!folds(d, matrix[side][i], side, &s->stride[s->n]))
            return false;
        s->n++;
    }
    int64_t *dim = s->dim + s->n - 2, *stride = s->stride + s->n - 2;
    if (dim[1] == 1) // a stride that is never taken: the one that makes it dense
        stride[1] = 1;
    else if (dim[0] == 1)
        stride[0] = stride[1] == 1 ? dim[1] : 1;
    if (dim[1] == 1 && dim[0] == 1)
        stride[0] = 1;
    // One row whose numbers lie apart, read or written in place, the library (3.7) gets wrong.
    bool apart = dim[0] == 1 && side != SideB;
    bool unit = stride[1] == 1 || (stride[0] == 1 && !apart);
    return unit && (stride[0] == 1 || stride[0] >= dim[1]) &&
           (stride[1] == 1 || stride[1] >= dim[0]);
}

// The same matrices dense; `loose` describes the side's own memory label by label in the same
// order. Of rows and columns those come first that do so in memory: where heads lie innermost,
// matrices of 256 x 256 take five times as long to copy with the two exchanged (docs/tuning.md).
// Products that read a matrix turned share its copy.
static void shape_copied(const Product *d, Side side, DnnShape *s, DnnShape *loose,
                         DnnShape *packed) {
    *s = (DnnShape){.type = d->type[side]};
    *loose = (DnnShape){.type = d->type[side]};
    bool turned = lies_turned(d, side);
    const Kind kinds[] = {Each, matrix[side][turned], matrix[side][!turned]};
    for (int k = 0; k < 3; k++)
        for (int i = 0; i < d->members[kinds[k]]; i++) {
            const Label *l = &d->label[d->group[kinds[k]][i]];
            loose->dim[loose->n] = l->extent;
            loose->stride[loose->n++] = l->stride[side];
            if (k == 0)
                s->dim[s->n++] = l->extent;
        }
    s->dim[s->n++] = extent_of(d, kinds[1]);
    s->dim[s->n++] = extent_of(d, kinds[2]);
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

static Operand operand_of(const Product *d, Side side, void *at) {
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
    DnnTensor at[Sides];
    for (int i = 0; i < Sides; i++)
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

static dnnl_status_t prepare(Dnn *d, const DnnNode *node, const Einsum *e, DnnCall *call,
                             bool *done) {
    const Graph *g = &node->plan->func->g;
    Product product;
    if (!read_product(&product, g, e, false))
        return dnnl_success;
    if (wants_swap(&product))
        read_product(&product, g, e, true);
    sort_all(&product);
    Operand o[Sides];
    for (int i = 0; i < Sides; i++) {
        o[i] = operand_of(&product, (Side)i, memory_at(node->memory, node->plan, product.node[i]));
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
    const int64_t *a = node_attr(g, node->id)->i + 1, *b = a + a[-1] + 1, *out = b + b[-1] + 1;
    Einsum e = {{node_in(g, node->id, 0), node_in(g, node->id, 1), node->id}, {a, b, out}};
    return prepare(d, node, &e, call, done);
}

dnnl_status_t dnn_prepare_covering(Dnn *d, const DnnNode *node, const uint32_t side[3],
                                   DnnCall *call, bool *done) {
    // Labels: 1 the output's channel, 2 the input's, then the axes; the output's own axes have
    // extent 1.
    static const int64_t xs[] = {2, 3, 4, 5}, ws[] = {1, 2, 3, 4, 5}, ys[] = {1, 6, 7, 8};
    const int64_t *labels[3] = {xs, ws, ys};
    Einsum e = {{0, 0, node->id}, {NULL, NULL, NULL}};
    for (int i = 0, n = 0; i < 3; i++) {
        int at = side[i] == node->id ? SideOut : n++;
        e.node[at] = side[i];
        e.labels[at] = labels[i];
    }
    return prepare(d, node, &e, call, done);
}
