// onnx_ops.h - private to the operations of onnx.h: operands of the current node, and rows
// implemented in other files. A row's function adds nodes for the value and returns its name, or an
// empty name and Onnx.error where it cannot. `op` is the row's argument.
#ifndef GAN_ONNX_OPS_H
#define GAN_ONNX_OPS_H

#include "onnx.h"

static inline const Graph *graph_of(const Onnx *o) {
    return &o->f->g;
}
static inline const Type *type_at(const Onnx *o) {
    return node_type(graph_of(o), o->at);
}
static inline const Type *type_in(const Onnx *o, uint32_t k) {
    return node_type(graph_of(o), node_in(graph_of(o), o->at, k));
}
static inline const int64_t *ints_at(const Onnx *o) {
    return node_attr(graph_of(o), o->at)->i;
}
static inline Str in(const Onnx *o, uint32_t k) {
    return o->value[node_in(graph_of(o), o->at, k)];
}
// The axis that a sample's axis is, behind the batch's.
static inline int64_t axis_of(const Type *t, uint32_t axis) {
    return (int64_t)axis + t->batched;
}

Str onnx_refused(Onnx *o, const char *why);
// [N, dim...] or [dim...]: as many elements in other extents.
Str onnx_reshaped(Onnx *o, Str x, bool batched, const int64_t *dim, uint32_t rank);
Str onnx_lifted(Onnx *o, uint32_t k); // operand k with as many axes as the result
Str onnx_batch(Onnx *o);              // how many samples there are, [1]; empty: refused

// onnx_moves.c
Str onnx_reshape(Onnx *o, const char *op);
Str onnx_expand(Onnx *o, const char *op);
Str onnx_permute(Onnx *o, const char *op);
Str onnx_slice(Onnx *o, const char *op);
Str onnx_pad(Onnx *o, const char *op);
Str onnx_flip(Onnx *o, const char *op);
Str onnx_concat(Onnx *o, const char *op);
Str onnx_gather(Onnx *o, const char *op);

// onnx_products.c
Str onnx_fft(Onnx *o, const char *op);
Str onnx_dot(Onnx *o, const char *op);
Str onnx_conv(Onnx *o, const char *op);
Str onnx_conv_dx(Onnx *o, const char *op);

#endif
