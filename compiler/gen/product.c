// product.c - convolutions and products as rows, columns and terms (product.h).
//
//   operation   A    B    C     rows       columns      terms
//
//   Conv        x    w    y     n, y...    o            taps..., c
//
//   ConvDx      gy   w    gx    n, q...    c            taps..., o   apart: residues of strides
//
//   ConvDw      gy   x    gw    o          taps..., c   n, y...
//
//   Dot         a    b    out   only a's   only b's     contracted   apart: in all three
//
// Groups are apart too. ConvDx gives each residue of the stride a product of its own, because only
// those taps reach it that step over whole strides; q numbers its positions.
#include "product.h"

#include "integers.h"

// --- convolutions --------------------------------------------------------------------------------

typedef struct ConvView { // the operands of all three, and their strides: batch or outputs,
                          // channels, ...
    ConvGeom geom;
    const Type *x, *w, *y;
    int64_t batch, c, o; // samples; channels of one group
    int64_t sx[MAX_RANK + 1], sw[MAX_RANK + 1], sy[MAX_RANK + 1];
} ConvView;

static ConvView conv_of(const Graph *g, uint32_t id) {
    const Type *a = node_type(g, node_in(g, id, 0)), *b = node_type(g, node_in(g, id, 1)),
               *out = node_type(g, id);
    Op op = (Op)graph_node(g, id)->op;
    ConvView v = {.geom = conv_geom(node_attr(g, id)),
                  .x = op == OpConvDx ? out : a,
                  .w = op == OpConvDw ? out : b,
                  .y = op == OpConv     ? out
                       : op == OpConvDx ? a
                                        : b};
    v.batch = v.x->batched ? g->batch : 1;
    v.c = v.x->dim[0] / v.geom.groups;
    v.o = v.y->dim[0] / v.geom.groups;
    type_strides(v.x, v.sx);
    type_strides(v.w, v.sw);
    type_strides(v.y, v.sy);
    return v;
}

static void list_add(List *l, Axis a) {
    if (l->n == MAX_AXES)
        bug("a product over more than %d axes", MAX_AXES);
    l->axis[l->n++] = a;
}

// From here on spatial axes follow.
static void list_space(List *l) {
    l->space = (int)l->n;
}

static void begin(Product *p, const Graph *g, uint32_t id) {
    *p = (Product){0};
    p->in = node_type(g, node_in(g, id, 0))->dtype;
    p->out = node_type(g, id)->dtype;
    p->rows.space = p->columns.space = p->terms.space = -1;
}

static void add_groups(Product *p, const ConvView *v, MatrixSide x, MatrixSide w, MatrixSide y) {
    if (v->geom.groups == 1)
        return;
    Apart *a = &p->apart[p->aparts++];
    a->extent = v->geom.groups;
    a->stride[x] = v->c * v->sx[1];
    a->stride[w] = v->o * v->sw[1];
    a->stride[y] = v->o * v->sy[1];
}

static void conv_forward(const ConvView *v, Product *p) {
    list_add(&p->rows, (Axis){v->batch, {0}, {v->sx[0], v->sy[0]}});
    list_space(&p->rows);
    list_space(&p->terms);
    for (uint32_t d = 0; d < p->spaces; d++) {
        int64_t stride = v->geom.stride[d], dilation = v->geom.dilation[d], sx = v->sx[2 + d];
        list_add(&p->rows, (Axis){v->y->dim[1 + d], {stride, 0}, {stride * sx, v->sy[2 + d]}});
        list_add(&p->terms, (Axis){v->w->dim[2 + d], {dilation, 0}, {dilation * sx, v->sw[3 + d]}});
        p->space[d].extent[SideA] = v->x->dim[1 + d];
        p->space[d].origin[SideA] = -v->geom.before[d];
        p->space[d].step[SideA] = sx;
    }
    list_add(&p->columns, (Axis){v->o, {0}, {v->sw[1], v->sy[1]}});
    list_add(&p->terms, (Axis){v->c, {0}, {v->sx[1], v->sw[2]}});
    p->bounded[SideA] = true;
    add_groups(p, v, SideA, SideB, SideOut);
}

static void conv_data_axis(const ConvView *v, uint32_t d, Product *p) {
    int64_t stride = v->geom.stride[d], dilation = v->geom.dilation[d];
    int64_t x = v->x->dim[1 + d], kernel = v->w->dim[2 + d];
    int64_t sx = v->sx[2 + d], sw = v->sw[3 + d], sy = v->sy[2 + d];
    int64_t taps = stride / gcd(stride, dilation); // from one that reaches to the next
    int64_t back = taps * dilation / stride;
    list_add(&p->rows, (Axis){ceil_div(x, stride), {1, stride}, {sy, stride * sx}});
    list_add(&p->terms, (Axis){ceil_div(kernel, taps), {-back, taps}, {-back * sy, taps * sw}});
    p->space[d] = (Along){
        .extent = {v->y->dim[1 + d], kernel, x},
        .origin = {p->phases ? 0 : v->geom.before[d]},
        .step = {sy, sw, sx},
        .stride = stride,
        .dilation = dilation,
        .before = v->geom.before[d],
        .kernel = kernel,
    };
}

static void conv_data(const ConvView *v, Product *p) {
    for (uint32_t d = 0; d < p->spaces; d++)
        p->phases |= v->geom.stride[d] > 1;
    list_add(&p->rows, (Axis){v->batch, {0}, {v->sy[0], v->sx[0]}});
    list_space(&p->rows);
    list_space(&p->terms);
    for (uint32_t d = 0; d < p->spaces; d++)
        conv_data_axis(v, d, p);
    list_add(&p->columns, (Axis){v->c, {0}, {v->sw[2], v->sx[1]}});
    list_add(&p->terms, (Axis){v->o, {0}, {v->sy[1], v->sw[1]}});
    p->bounded[SideA] = true;
    p->bounded[SideB] = p->bounded[SideOut] = p->phases;
    add_groups(p, v, SideOut, SideB, SideA);
}

static void conv_weights(const ConvView *v, Product *p) {
    list_add(&p->rows, (Axis){v->o, {0}, {v->sy[1], v->sw[1]}});
    list_space(&p->columns);
    list_add(&p->terms, (Axis){v->batch, {0}, {v->sy[0], v->sx[0]}});
    list_space(&p->terms);
    for (uint32_t d = 0; d < p->spaces; d++) {
        int64_t stride = v->geom.stride[d], dilation = v->geom.dilation[d], sx = v->sx[2 + d];
        list_add(&p->columns,
                 (Axis){v->w->dim[2 + d], {dilation, 0}, {dilation * sx, v->sw[3 + d]}});
        list_add(&p->terms, (Axis){v->y->dim[1 + d], {0, stride}, {v->sy[2 + d], stride * sx}});
        p->space[d].extent[SideB] = v->x->dim[1 + d];
        p->space[d].origin[SideB] = -v->geom.before[d];
        p->space[d].step[SideB] = sx;
    }
    list_add(&p->columns, (Axis){v->c, {0}, {v->sx[1], v->sw[2]}});
    p->bounded[SideB] = true;
    p->swapped = true;
    add_groups(p, v, SideB, SideOut, SideA);
}

static void conv_product(const Graph *g, uint32_t id, Product *p) {
    Op op = (Op)graph_node(g, id)->op;
    ConvView v = conv_of(g, id);
    p->spaces = v.geom.n;
    if (op == OpConv)
        conv_forward(&v, p);
    else if (op == OpConvDx)
        conv_data(&v, p);
    else
        conv_weights(&v, p);
}

// --- products ------------------------------------------------------------------------------------

// Adds an axis so that the fastest comes last, by the first operand.
static void list_insert(List *l, Axis a) {
    list_add(l, a);
    for (uint32_t i = l->n - 1; i > 0 && l->axis[i - 1].stride[0] < l->axis[i].stride[0]; i--) {
        Axis swap = l->axis[i];
        l->axis[i] = l->axis[i - 1];
        l->axis[i - 1] = swap;
    }
}

// Axes that both operands walk as one become one.
static void list_fold(List *l) {
    uint32_t n = 0;
    for (uint32_t i = 0; i < l->n; i++) {
        Axis *last = n ? &l->axis[n - 1] : NULL, a = l->axis[i];
        if (last && last->stride[0] == a.stride[0] * a.extent &&
            last->stride[1] == a.stride[1] * a.extent) {
            a.extent *= last->extent;
            *last = a;
        } else {
            l->axis[n++] = a;
        }
    }
    l->n = n;
}

static void dot_product(const Graph *g, uint32_t id, Product *p) {
    Einsum e = einsum_of_dot(g, id);
    MatrixLabel label[MATRIX_LABELS];
    int n = einsum_labels(g, &e, label); // none comes twice: infer_Dot
    for (int i = 0; i < n; i++) {
        const MatrixLabel *l = &label[i];
        const int64_t *s = l->stride;
        if (l->extent == 1)
            continue;
        if (l->has[SideA] && l->has[SideB] && l->has[SideOut])
            p->apart[p->aparts++] = (Apart){l->extent, {s[SideA], s[SideB], s[SideOut]}};
        else if (!l->has[SideOut])
            list_insert(&p->terms, (Axis){l->extent, {0}, {s[SideA], s[SideB]}});
        else if (l->has[SideA])
            list_insert(&p->rows, (Axis){l->extent, {0}, {s[SideA], s[SideOut]}});
        else
            list_insert(&p->columns, (Axis){l->extent, {0}, {s[SideB], s[SideOut]}});
    }
    list_fold(&p->rows);
    list_fold(&p->columns);
    list_fold(&p->terms);
}

// --- groups --------------------------------------------------------------------------------------

static bool in_fours(int64_t x) {
    return x % 4 == 0;
}

// The axis `side_by_side` lies so, and every other one leads to a multiple of four elements.
static bool strides_in_fours(const int64_t *stride, uint32_t n, uint32_t side_by_side) {
    for (uint32_t i = 0; i < n; i++)
        if (i == side_by_side ? stride[i] != 1 : !in_fours(stride[i]))
            return false;
    return true;
}

GroupedKind product_grouped(const Graph *g, uint32_t id) {
    if (graph_node(g, id)->op == OpDot)
        return GroupedNot;
    ConvView v = conv_of(g, id);
    uint32_t axes = v.geom.n + 2;
    if (v.geom.groups == 1 || !strides_in_fours(v.sx, axes, 1) || !strides_in_fours(v.sy, axes, 1))
        return GroupedNot;
    if (v.c == 1 && v.o == 1)
        return in_fours(v.geom.groups) ? GroupedEach : GroupedNot;
    bool stored = graph_node(g, id)->op != OpConvDw || strides_in_fours(v.sw + 1, axes, 1);
    return in_fours(v.c) && in_fours(v.o) && stored ? GroupedDeep : GroupedNot;
}

// --- reading a node ------------------------------------------------------------------------------

void product_read(const Graph *g, uint32_t id, uint32_t spaces, Product *out) {
    begin(out, g, id);
    if (graph_node(g, id)->op == OpDot)
        dot_product(g, id, out);
    else
        conv_product(g, id, out);
    for (; out->spaces < spaces; out->spaces++)
        out->space[out->spaces] =
            (Along){.extent = {1, 1, 1}, .stride = 1, .dilation = 1, .kernel = 1};
}

uint32_t product_spaces(const Graph *g, uint32_t id) {
    Op op = (Op)graph_node(g, id)->op;
    bool conv = op == OpConv || op == OpConvDx || op == OpConvDw;
    return conv ? conv_geom(node_attr(g, id)).n : 0;
}
