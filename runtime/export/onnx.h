// onnx.h - private to export: an entry point as an ONNX graph.
//
//   onnx.c        the file: graph, weights, descriptions of inputs
//   onnx_ops.c    operations, a row each; onnx_moves.c, onnx_products.c: some of these
//   onnx_nodes.c  nodes, attributes and constants in the file format
//
// Values have our shapes with the batch in front: [N, c, h, w] per sample, [c] for shared values.
// All numbers are f32, also truth values, except conditions.
#ifndef GAN_ONNX_H
#define GAN_ONNX_H

#include "onnx_types.h"
#include "proto.h"
#include "trained.h"

enum { ONNX_OPSET = 17, ONNX_IR = 8 }; // of 2022; ONNX_IR is what that opset came with

typedef struct OnnxWeight { // a slot among the initializers
    Str name;
    uint32_t slot;
} OnnxWeight;

typedef struct Onnx {
    Arena *a;
    const Module *m;
    const Exec *exec; // where the run has come to
    const Func *f;
    Str *value;      // [node] its name in the file; empty: not yet there
    Str *truth;      // [node] of a comparison: the same as a truth; empty: none
    uint8_t *counts; // [node] is read as a number
    Text node;       // GraphProto.node, all of them
    Text constant;   // GraphProto.initializer: shapes and numbers
    Text input;      // GraphProto.input
    VEC(OnnxWeight) weight;
    StrVec given;    // names of inputs, weights and results so far
    Str sample;      // an input with samples, empty: none
    Str batch;       // how many these are, [1], empty: nobody has asked
    int64_t samples; // how many there must be; 0: as many as the caller has
    uint32_t names;  // numbers that are names of other values, so far
    uint32_t at;     // node at hand
    Str error;       // why there is no graph
} Onnx;

// --- onnx_nodes.c --------------------------------------------------------------------------------

// Where in the model's text the node at hand comes from: "mine.gan:12"; empty: nowhere.
Str onnx_place(const Onnx *o);

// Attributes of a node to come: AttributeProto, one after the other.
void onnx_int(Onnx *o, Text *attributes, const char *name, int64_t x);
void onnx_ints(Onnx *o, Text *attributes, const char *name, const int64_t *x, uint32_t n);
void onnx_word(Onnx *o, Text *attributes, const char *name, Str x);

// A node of one result, whose new name it returns; `attributes` NULL: none.
Str onnx_node(Onnx *o, const char *op, const Str *in, uint32_t n, Text *attributes);
#define onnx_put(o, op, attributes, ...)                                                           \
    onnx_node((o), (op), (const Str[]){__VA_ARGS__},                                               \
              sizeof((const Str[]){__VA_ARGS__}) / sizeof(Str), (attributes))
// The same result under a name of its own.
void onnx_rename(Onnx *o, Str value, Str name);
Str onnx_cast(Onnx *o, Str value, OnnxElement to);
// A name that nothing else in the file has: `name`, or NAME_2, NAME_3, ...
Str onnx_name(Onnx *o, Str name);

Str onnx_number(Onnx *o, double x);                      // a constant []
Str onnx_shape(Onnx *o, const int64_t *dim, uint32_t n); // a constant [n] of int64
Str onnx_floats(Onnx *o, const Type *t, const float *x); // a constant of a shared type
// ValueInfoProto: a name, a type, what it is.
Str onnx_value_info(Onnx *o, Str name, const Type *t, Str doc);

// --- onnx_ops.c ----------------------------------------------------------------------------------

// Nodes for all that `root` needs, in order; false and o->error where an operation has no form in
// ONNX.
bool onnx_ops(Onnx *o, const uint32_t *root, uint32_t n);

// --- onnx.c --------------------------------------------------------------------------------------

Str onnx_input_name(const Module *m, uint32_t slot); // of data, or of what an entry is given
Str onnx_input_doc(Arena *a, const Module *m, uint32_t slot);

// Writes entry point `entry` of a run with its weights. GAN_ERR_INPUT: it has no form in ONNX.
GanStatus onnx_write(Arena *perm, const Trained *t, uint32_t entry, Str path);

#endif
