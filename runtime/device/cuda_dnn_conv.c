// cuda_dnn_conv.c - the three convolutions as cuDNN operations, and what may become of a result.
//
// Activations keep the plan's layout, channels-last where per-sample; weights the plan's row-major
// [o, i, k...], which the engines rearrange in their workspace. One axis of space becomes two, the
// first of extent 1.
#include "cuda_dnn.h"

#include <string.h>

// [n, c, ...] of an activation, with the strides type_strides gives it but none of its zeros.
static CudnnTensor activation(const Graph *g, const Type *t, int pad) {
    CudnnTensor s = {.n = t->rank + 1 + pad, .type = (Dtype)t->dtype};
    s.dim[0] = t->batched ? g->batch : 1;
    s.dim[1] = t->dim[0];
    for (int i = 0; i < pad; i++)
        s.dim[2 + i] = 1;
    for (int i = 1; i < t->rank; i++)
        s.dim[1 + pad + i] = t->dim[i];
    int64_t step = t->batched ? s.dim[1] : 1;
    for (int i = s.n; i-- > 2; step *= s.dim[i])
        s.stride[i] = step;
    s.stride[1] = t->batched ? 1 : step;
    s.stride[0] = t->batched ? step : step * s.dim[1];
    return s;
}

static CudnnTensor weights(const Type *t, int pad) {
    CudnnTensor s = {.n = t->rank + pad, .type = (Dtype)t->dtype};
    s.dim[0] = t->dim[0];
    s.dim[1] = t->dim[1];
    for (int i = 0; i < pad; i++)
        s.dim[2 + i] = 1;
    for (int i = 2; i < t->rank; i++)
        s.dim[pad + i] = t->dim[i];
    int64_t step = 1;
    for (int i = s.n; i-- > 0; step *= s.dim[i])
        s.stride[i] = step;
    return s;
}

static void set_geometry(CudnnOperation *o, const ConvGeom *c, int pad) {
    o->space = (int)c->n + pad;
    for (int i = 0; i < pad; i++)
        o->stride[i] = o->dilation[i] = 1;
    for (uint32_t i = 0; i < c->n; i++) {
        o->stride[(uint32_t)pad + i] = c->stride[i];
        o->dilation[(uint32_t)pad + i] = c->dilation[i];
        o->before[(uint32_t)pad + i] = c->before[i];
        o->after[(uint32_t)pad + i] = c->after[i];
    }
}

bool cudnn_read_conv(const Graph *g, uint32_t id, CudnnOperation *out, uint32_t node[3]) {
    uint32_t a = node_in(g, id, 0), b = node_in(g, id, 1);
    ConvGeom geom = conv_geom(node_attr(g, id));
    int pad = geom.n == 1;
    memset(out, 0, sizeof *out);
    switch ((Op)graph_node(g, id)->op) {
    case OpConv:
        out->kind = CudnnForward, node[0] = a, node[1] = b, node[2] = id;
        break;
    case OpConvDx:
        out->kind = CudnnData, node[0] = id, node[1] = b, node[2] = a;
        break;
    case OpConvDw:
        out->kind = CudnnWeights, node[0] = a, node[1] = id, node[2] = b;
        break;
    default:
        return false;
    }
    out->tensor[0] = activation(g, node_type(g, node[0]), pad);
    out->tensor[1] = weights(node_type(g, node[1]), pad);
    out->tensor[2] = activation(g, node_type(g, node[2]), pad);
    set_geometry(out, &geom, pad);
    return true;
}

bool cudnn_add_epilogue(const Graph *g, const Epilogue *e, CudnnOperation *o,
                        uint32_t node[CUDNN_PARTS]) {
    if (o->kind != CudnnForward || o->tensor[2].dim[1] != node_type(g, e->result)->dim[0] ||
        o->tensor[2].stride[1] != 1)
        return false;
    o->epilogue = (CudnnEpilogue){.act = (int)e->act, .slope = (float)e->slope};
    node[2] = e->result;
    node[3] = e->bias;
    if (e->bias) {
        o->epilogue.biased = 1;
        o->epilogue.bias = (Dtype)node_type(g, e->bias)->dtype;
    }
    return true;
}
