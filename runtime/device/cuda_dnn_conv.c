// cuda_dnn_conv.c - the three convolutions as cuDNN operations, and their epilogues.
//
// All keep the plan's layout, channels-last. 1-d convolutions become 2-d ones of height 1.
#include "cuda_dnn.h"

#include <string.h>

// [n, c, ...] of an activation, [o, i, ...] of weights.
static CudnnTensor tensor_of(const Graph *g, const Type *t, bool weights, int pad) {
    CudnnTensor s = {.type = (Dtype)t->dtype};
    int64_t stride[MAX_RANK + 1];
    type_layout(t, stride);
    for (int i = weights; i <= t->rank; i++) {
        for (int k = 0; i == weights + 2 && k < pad; k++, s.n++) {
            s.dim[s.n] = 1;
            s.stride[s.n] = stride[i] * t->dim[i - 1];
        }
        s.dim[s.n] = i ? t->dim[i - 1] : t->batched ? g->batch : 1;
        s.stride[s.n++] = stride[i];
    }
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
    for (int i = 0; i < 3; i++)
        out->tensor[i] = tensor_of(g, node_type(g, node[i]), i == 1, pad);
    set_geometry(out, &geom, pad);
    return true;
}

bool cudnn_add_epilogue(const Graph *g, const Epilogue *e, CudnnOperation *o,
                        uint32_t node[CUDNN_PARTS]) {
    const CudnnTensor *y = cudnn_output(o);
    if ((o->kind != CudnnForward && o->kind != CudnnData) ||
        y->dim[1] != node_type(g, e->result)->dim[0] || y->stride[1] != 1)
        return false;
    o->epilogue = (CudnnEpilogue){.act = (int)e->act, .slope = (float)e->slope};
    node[cudnn_output_index(o->kind)] = e->result;
    node[3] = e->bias;
    if (e->bias) {
        o->epilogue.biased = 1;
        o->epilogue.bias = (Dtype)node_type(g, e->bias)->dtype;
    }
    return true;
}
