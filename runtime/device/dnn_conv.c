// dnn_conv.c - the three convolutions as oneDNN primitives.
//
// Activations keep the plan's layout. The library chooses the weights'; a reorder stands between it
// and the plan's [o, k..., i].
#include "dnn.h"

// [n, c, ...] of an activation.
static DnnShape activation(const Graph *g, const Type *t) {
    DnnShape s = {.n = t->rank + 1, .type = (Dtype)t->dtype};
    int64_t stride[MAX_RANK + 1];
    type_layout(t, stride);
    s.dim[0] = t->batched ? g->batch : 1;
    for (int i = 0; i < t->rank; i++)
        s.dim[i + 1] = t->dim[i];
    for (int i = 0; i < s.n; i++)
        s.stride[i] = stride[i];
    return s;
}

// [g, o/g, i/g, k...], without g when there is one group.
static DnnShape weights(const Type *t, int64_t groups) {
    DnnShape s = {.type = (Dtype)t->dtype};
    int64_t stride[MAX_RANK + 1];
    type_layout(t, stride);
    if (groups > 1) {
        s.dim[s.n] = groups;
        s.stride[s.n++] = t->dim[0] / groups * stride[1];
    }
    for (int i = 0; i < t->rank; i++, s.n++) {
        s.dim[s.n] = i ? t->dim[i] : t->dim[0] / groups;
        s.stride[s.n] = stride[1 + i];
    }
    return s;
}

static DnnConv conv_of(const Graph *g, uint32_t x, uint32_t w, uint32_t y, const ConvGeom *geom) {
    DnnConv c = {activation(g, node_type(g, x)),
                 weights(node_type(g, w), geom->groups),
                 activation(g, node_type(g, y)),
                 {0},
                 {0},
                 {0},
                 {0}};
    for (uint32_t i = 0; i < geom->n; i++) {
        c.stride[i] = geom->stride[i];
        c.dilation[i] = geom->dilation[i] - 1;
        c.before[i] = geom->before[i];
        c.after[i] = geom->after[i];
    }
    return c;
}

void dnn_axes(const DnnConv *c, DnnAxis out[DNN_AXES]) {
    int spatial = c->src.n - 2;
    for (int i = 0; i < DNN_AXES; i++) {
        int at = i - (DNN_AXES - spatial);
        out[i] = at < 0 ? (DnnAxis){1, 1, 1, 1, 1, 0}
                        : (DnnAxis){c->src.dim[2 + at], c->dst.dim[2 + at],  c->weights.dim[2 + at],
                                    c->stride[at],      c->dilation[at] + 1, c->before[at]};
    }
}

typedef struct Roles { // which node is which side of the convolution
    DnnConvKind kind;
    uint32_t x, w, y;
    int arg[3]; // the library's names of x, w, y
} Roles;

static Roles roles_of(const Graph *g, uint32_t id) {
    uint32_t a = node_in(g, id, 0), b = node_in(g, id, 1);
    switch ((Op)graph_node(g, id)->op) {
    case OpConv:
        return (Roles){DnnConvForward, a, b, id, {DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DST}};
    case OpConvDx:
        return (Roles){
            DnnConvData, id, b, a, {DNNL_ARG_DIFF_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DIFF_DST}};
    case OpConvDw:
        return (Roles){
            DnnConvWeights, a, id, b, {DNNL_ARG_SRC, DNNL_ARG_DIFF_WEIGHTS, DNNL_ARG_DIFF_DST}};
    default:
        bug("node %u (%s) is not a convolution", id, op_info[graph_node(g, id)->op].text);
    }
}

// The primitive itself, between weights packed before it or unpacked behind it.
static dnnl_status_t add_conv(Dnn *d, DnnCall *call, const Roles *r, DnnDesc desc, DnnTensor x,
                              DnnTensor w, DnnTensor y) {
    DnnLayoutRef wanted = dnn_desc_layout(
        desc, r->kind == DnnConvWeights ? dnnl_query_diff_weights_md : dnnl_query_weights_md);
    DnnTensor used = w;
    dnnl_status_t s = dnnl_success;
    bool unpack = r->kind == DnnConvWeights && !dnnl_memory_desc_equal(w.layout, wanted);
    if (unpack)
        used = (DnnTensor){wanted, NULL, 0, 0};
    else if (r->kind != DnnConvWeights)
        s = dnn_pack(d, call, r->w, w, wanted, &used);
    if (s == dnnl_success)
        s = dnn_add_step(d, call, desc, r->arg, (const DnnTensor[]){x, used, y}, 3);
    if (s == dnnl_success && unpack)
        s = dnn_add_reorder(d, call, used, w);
    return s;
}

// Does the kernel meet the input in one place only?
static bool covers(const Graph *g, const Roles *r, const ConvGeom *geom) {
    const Type *x = node_type(g, r->x), *w = node_type(g, r->w), *y = node_type(g, r->y);
    bool one = geom->groups == 1 && x->batched && y->batched;
    for (uint32_t i = 0; i < geom->n; i++)
        one = one && y->dim[1 + i] == 1 && x->dim[1 + i] == w->dim[2 + i] && !geom->before[i] &&
              !geom->after[i] && geom->dilation[i] == 1;
    return one;
}

dnnl_status_t dnn_prepare_conv(Dnn *d, const Plan *p, uint32_t id, Memory m, DnnCall *call,
                               bool *done) {
    const Graph *g = &p->func->g;
    Roles r = roles_of(g, id);
    ConvGeom geom = conv_geom(node_attr(g, id));
    if (covers(g, &r, &geom))
        return dnn_prepare_covering(d, p, r.x, r.w, r.y, id, m, call, done);
    DnnConv c = conv_of(g, r.x, r.w, r.y, &geom);
    DnnTensor x = {dnn_keep_layout(d, &c.src), memory_at(m, p, r.x), 0, 0};
    DnnTensor w = {dnn_keep_layout(d, &c.weights), memory_at(m, p, r.w), 0, 0};
    DnnTensor y = {dnn_keep_layout(d, &c.dst), memory_at(m, p, r.y), 0, 0};
    if (!x.layout || !w.layout || !y.layout || !x.at || !w.at || !y.at)
        return dnnl_success;
    dnnl_status_t s = dnn_prepare_thin(d, call, r.kind, &c, (const DnnTensor[]){x, w, y}, done);
    if (s == dnnl_success && !*done)
        s = dnn_prepare_taps(d, call, r.kind, &c, r.w, (const DnnTensor[]){x, w, y}, done);
    if (s == dnnl_success && !*done)
        s = dnn_prepare_winograd(d, call, r.kind, &c, (const DnnTensor[]){x, w, y}, done);
    if (s == dnnl_success && !*done)
        s = dnn_prepare_columns(d, call, r.kind, &c, (const DnnTensor[]){x, w, y}, done);
    if (s == dnnl_success && !*done && r.kind == DnnConvData)
        s = dnn_prepare_phases(d, call, &c, r.w, (const DnnTensor[]){x, w, y}, done);
    if (s != dnnl_success || *done)
        return s;
    c.weights.any = true;
    DnnDesc *desc = dnn_new_desc(d);
    s = dnn_conv_desc(dnn_engine(d), r.kind, &c, desc);
    if (s == dnnl_unimplemented || s == dnnl_invalid_arguments)
        return dnnl_success;
    if (s != dnnl_success)
        return s;
    s = add_conv(d, call, &r, *desc, x, w, y);
    *done = s == dnnl_success;
    return s;
}
