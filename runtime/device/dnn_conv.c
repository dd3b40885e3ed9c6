// dnn_conv.c - the three convolutions as oneDNN primitives.
//
// Activations keep the plan's layout, which is channels-last, except where narrow groups run over
// large samples, and those without a batch axis, which the plan lays out as it does weights. The
// library chooses the weights' layout; a reorder converts between it and the plan's [o, k..., i].
#include "dnn.h"

#include <string.h>

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

// node: x, w, y.
static DnnConv conv_of(const Graph *g, const uint32_t node[3], const ConvGeom *geom) {
    DnnConv c = {activation(g, node_type(g, node[0])),
                 weights(node_type(g, node[1]), geom->groups),
                 activation(g, node_type(g, node[2])),
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
    const dnnl_dim_t *kernel = c->weights.dim + c->weights.n - spatial;
    for (int i = 0; i < DNN_AXES; i++) {
        int at = i - (DNN_AXES - spatial);
        out[i] = at < 0 ? (DnnAxis){1, 1, 1, 1, 1, 0}
                        : (DnnAxis){c->src.dim[2 + at], c->dst.dim[2 + at],  kernel[at],
                                    c->stride[at],      c->dilation[at] + 1, c->before[at]};
    }
}

enum { SideX, SideW, SideY, Sides };

typedef struct Roles { // which node is which side of the convolution
    DnnConvKind kind;
    uint32_t node[Sides];
    int result;
    int arg[Sides]; // the library's names
    dnnl_query_t layout[Sides];
} Roles;

static Roles roles_of(const Graph *g, uint32_t id) {
    uint32_t a = node_in(g, id, 0), b = node_in(g, id, 1);
    switch ((Op)graph_node(g, id)->op) {
    case OpConv:
        return (Roles){DnnConvForward,
                       {a, b, id},
                       SideY,
                       {DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DST},
                       {dnnl_query_src_md, dnnl_query_weights_md, dnnl_query_dst_md}};
    case OpConvDx:
        return (Roles){DnnConvData,
                       {id, b, a},
                       SideX,
                       {DNNL_ARG_DIFF_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DIFF_DST},
                       {dnnl_query_diff_src_md, dnnl_query_weights_md, dnnl_query_diff_dst_md}};
    case OpConvDw:
        return (Roles){DnnConvWeights,
                       {a, id, b},
                       SideW,
                       {DNNL_ARG_SRC, DNNL_ARG_DIFF_WEIGHTS, DNNL_ARG_DIFF_DST},
                       {dnnl_query_src_md, dnnl_query_diff_weights_md, dnnl_query_diff_dst_md}};
    default:
        bug("node %u (%s) is not a convolution", id, op_info[graph_node(g, id)->op].text);
    }
}

static int64_t sample_bytes(const DnnShape *s) {
    int64_t bytes = dtype_size[s->type];
    for (int i = 1; i < s->n; i++)
        bytes *= s->dim[i];
    return bytes;
}

// Should the library choose the layout of activations too? It takes one group after the other, and
// of each pixel of ours a narrow group reads a line or two: where a sample is larger than the near
// cache, it is fetched again for each group. With the copies, [8, 256, 32, 32] in groups of 16 with
// kernels of 3x3, one core: 0.76 (forward), 0.78 and 0.53 (input and weight gradient) of the time.
static bool groups_are_narrow(const DnnConv *c) {
    enum { Line = 16, Widest = 32, NearBytes = 1 << 19 };
    const int64_t *group = c->weights.dim + 1;
    if (c->weights.n == c->src.n || group[0] > Widest || group[1] > Widest || group[0] % Line ||
        group[1] % Line)
        return false;
    return sample_bytes(&c->src) + sample_bytes(&c->dst) > NearBytes;
}

// The same question: the library's gradient of weights goes through 16 channels of a line of pixels
// at a time, and a stride brings each into the near cache for few products. In its own layout these
// lie side by side. From 64 to 128 channels of 256x256, k 3, stride 2, two cores, copies counted:
// 37 to 16 ms; from 128 to 256 of 128x128 21 to 14; to 64x64 there is no gain.
static bool strides_are_far(DnnConvKind kind, const DnnConv *c) {
    enum { FarBytes = 1 << 22 };
    return kind == DnnConvWeights && c->src.type == DtF32 && c->weights.n == c->src.n &&
           c->stride[c->src.n - 3] > 1 && sample_bytes(&c->src) >= FarBytes;
}

// Where the primitive finds a side, or leaves the result.
static dnnl_status_t place_side(Dnn *d, DnnCall *call, const Roles *r, int side, DnnTensor t,
                                DnnLayoutRef wanted, DnnTensor *out) {
    static const int staging[Sides] = {1, 0, 2};
    *out = t;
    if (dnnl_memory_desc_equal(t.layout, wanted))
        return dnnl_success;
    if (side == SideW && r->result != SideW)
        return dnn_pack(d, call, r->node[SideW], t, wanted, out);
    *out = (DnnTensor){wanted, NULL, staging[side], 0};
    return side == r->result ? dnnl_success : dnn_add_reorder(d, call, t, *out);
}

// The primitive itself, between what it wants in another layout and a result it leaves in one.
static dnnl_status_t add_conv(Dnn *d, DnnCall *call, const Roles *r, DnnDesc desc,
                              const DnnTensor t[Sides]) {
    DnnTensor used[Sides];
    dnnl_status_t s = dnnl_success;
    for (int i = 0; i < Sides && s == dnnl_success; i++)
        s = place_side(d, call, r, i, t[i], dnn_desc_layout(desc, r->layout[i]), &used[i]);
    if (s == dnnl_success)
        s = dnn_add_step(d, call, desc, r->arg, used, Sides);
    if (s == dnnl_success && !dnnl_memory_desc_equal(t[r->result].layout, used[r->result].layout))
        s = dnn_add_reorder(d, call, used[r->result], t[r->result]);
    return s;
}

// --- wide padding --------------------------------------------------------------------------------

typedef struct Padding { // of the last axis, in bytes
    const char *x;
    int64_t lines;
    size_t before, line, after;
} Padding;

static void pad(void *job, void *const staging[DNN_STAGING], int64_t round) {
    (void)round;
    const Padding *p = job;
    size_t step = p->before + p->line + p->after;
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < p->lines; i++) {
        char *to = (char *)staging[1] + (size_t)i * step;
        memset(to, 0, p->before);
        memcpy(to + p->before, p->x + (size_t)i * p->line, p->line);
        memset(to + p->before + p->line, 0, p->after);
    }
}

// Replaces the padding of the last axis by zeros in a copy of x, because the library errs on wide
// padding (dnn_api.c). False where there is none, or x is not channels-last.
static bool pad_here(Dnn *d, DnnConv *c, DnnTensor *x, Padding **out) {
    int last = c->src.n - 1, axis = last - 2;
    int64_t before = c->before[axis], after = c->after[axis] > 0 ? c->after[axis] : 0;
    if (c->src.stride[1] != 1 || before <= 0)
        return false;
    size_t pixel = (size_t)c->src.dim[1] * dtype_size[c->src.type];
    Padding *p = *out = dnn_job(d, sizeof *p);
    *p = (Padding){x->at, c->src.dim[0], (size_t)before * pixel, (size_t)c->src.dim[last] * pixel,
                   (size_t)after * pixel};
    for (int i = 2; i < last; i++)
        p->lines *= c->src.dim[i];
    c->src.any = c->dst.any = false; // the copy has a layout
    c->src.dim[last] += before + after;
    c->before[axis] = 0;
    c->after[axis] -= after;
    dnn_channels_last(&c->src);
    *x = (DnnTensor){dnn_keep_layout(d, &c->src), NULL, 1, 0};
    return x->layout;
}

// For any other layout than channels-last the library has its reference implementation only: 16
// channels of 42x42 pixels take 386 ms by it, 0.2 ms here with the copies. False if s changed.
static bool put_channels_last(DnnShape *s) {
    DnnShape before = *s;
    dnn_channels_last(s);
    return !memcmp(before.stride, s->stride, (size_t)s->n * sizeof *s->stride);
}

static dnnl_status_t prepare_library(Dnn *d, DnnCall *call, const Roles *r, DnnConv *c,
                                     DnnTensor t[Sides], bool *done) {
    bool x_as_planned = put_channels_last(&c->src);
    put_channels_last(&c->dst);
    c->src.any = c->dst.any = groups_are_narrow(c) || strides_are_far(r->kind, c);
    c->weights.any = true;
    DnnDesc *desc = dnn_new_desc(d);
    dnnl_status_t s = dnn_conv_desc(dnn_engine(d), r->kind, c, desc);
    Padding *padding;
    if (s == dnnl_unimplemented && r->kind == DnnConvForward && x_as_planned &&
        pad_here(d, c, &t[SideX], &padding)) {
        s = dnn_conv_desc(dnn_engine(d), r->kind, c, desc);
        if (s == dnnl_success)
            dnn_add_host(call, pad, padding);
    }
    if (s == dnnl_unimplemented || s == dnnl_invalid_arguments)
        return dnnl_success;
    if (s == dnnl_success)
        s = add_conv(d, call, r, *desc, t);
    *done = s == dnnl_success;
    return s;
}

// --- all -----------------------------------------------------------------------------------------

// Does the kernel meet the input in one place only?
static bool covers(const Graph *g, const Roles *r, const ConvGeom *geom) {
    const Type *x = node_type(g, r->node[SideX]), *w = node_type(g, r->node[SideW]),
               *y = node_type(g, r->node[SideY]);
    bool one = geom->groups == 1 && x->batched && y->batched;
    for (uint32_t i = 0; i < geom->n; i++)
        one = one && y->dim[1 + i] == 1 && x->dim[1 + i] == w->dim[2 + i] && !geom->before[i] &&
              !geom->after[i];
    return one;
}

// The first that takes a convolution computes it.
static const struct {
    const char *name;
    DnnMethod *take;
} methods[] = {{"tiles", dnn_tiles},  {"thin", dnn_thin},         {"grouped", dnn_grouped},
               {"taps", dnn_taps},    {"winograd", dnn_winograd}, {"columns", dnn_columns},
               {"phases", dnn_phases}};

dnnl_status_t dnn_prepare_conv(Dnn *d, const DnnNode *node, DnnCall *call, bool *done) {
    const Graph *g = &node->plan->func->g;
    Roles r = roles_of(g, node->id);
    ConvGeom geom = conv_geom(node_attr(g, node->id));
    if (covers(g, &r, &geom)) {
        call->method = "product";
        return dnn_prepare_covering(d, node, r.node, call, done);
    }
    DnnProblem x = {r.kind, conv_of(g, r.node, &geom), .weights = r.node[SideW]};
    const DnnShape *shape[Sides] = {&x.conv.src, &x.conv.weights, &x.conv.dst};
    for (int i = 0; i < Sides; i++) {
        void *at = memory_at(node->memory, node->plan, r.node[i]);
        x.t[i] = (DnnTensor){dnn_keep_layout(d, shape[i]), at, 0, 0};
        if (!x.t[i].layout || !x.t[i].at)
            return dnnl_success;
    }
    dnnl_status_t s = dnnl_success;
    for (size_t i = 0; i < sizeof methods / sizeof *methods && s == dnnl_success && !*done; i++) {
        call->method = methods[i].name;
        s = methods[i].take(d, call, &x, done);
    }
    if (s != dnnl_success || *done)
        return s;
    call->method = "library";
    return prepare_library(d, call, &r, &x.conv, x.t, done);
}
