// import.h - private to import: an ONNX graph as text of the language.
//
//   onnx_file.c      the file read, nothing looked up
//   import_graph.c   values, the walk over the nodes, the net's function
//   import_fold.c    what is known at import: the shape arithmetic of exporters
//   import_text.c    expressions, variables, weights and their names
//   import_ops.c     operations, a row each, and those of elements; the others: import_reduce.c,
//                    import_layers.c, import_products.c, import_shape.c, import_moves.c,
//                    import_space.c
//   import.c         both files
//
// ONNX has the batch among its axes, mostly as the first. Ours is implicit, so a value knows which
// axis holds the samples: that axis has N*m elements, of which our tensor of a sample has the m, at
// the same place among its axes; an m of 1 is no axis. N may stand outside of the m, inside, or
// between two factors of it, which only matters where an axis is divided again. So [T, N*heads, d]
// is [T, heads, d] of a sample, [N*T, d] is [T, d], and a reshape between any of them is one of
// ours or none.
#ifndef GAN_IMPORT_H
#define GAN_IMPORT_H

#include "onnx_file.h"

#include <math.h>
#include <string.h>

// What a text is as an operand, from the loosest binding on.
typedef enum Binding {
    BindPipe,
    BindOr,
    BindCompare,
    BindSum,
    BindProduct,
    BindSign,
    BindCall
} Binding;

enum { SampleAxes = 6 }; // that a sample has in the language, at most

typedef VEC(uint32_t) Refs; // variables, as often as they are still to be counted

typedef struct Shape {
    uint32_t rank;
    int64_t dim[ONNX_RANK]; // as ONNX has them; of `batch`: the m of N*m
    int batch;              // axis of the samples; -1: there is none, the value is shared
    int64_t outer;          // of that m = outer*inner, an axis of outer*N*inner; 0: 1
} Shape;

typedef enum ValueKind { ValueText, ValueConstant, ValueWeight } ValueKind;

typedef struct Value {
    Str name, label; // in the graph; of the tensor it is, for the file of weights
    ValueKind kind;
    Shape shape;
    bool whole;      // whole numbers: division rounds
    bool copies;     // it has the batch, but is the same for each sample
    bool wanted;     // a needed node reads it, or its shape
    uint32_t uses;   // operands, and results of the graph, that it is still to become
    uint32_t reader; // 1 + the first node that counts among them; 0: none
    bool sized;      // a needed node reads its shape
    // ValueText
    Str text;
    Binding binding;
    Refs refs;      // of a text that no variable holds yet
    uint32_t where; // 1 + the variable that holds it; 0: none
    // ValueConstant, row-major; of shapes also numbers of samples
    const double *number;   // [count]
    const uint8_t *samples; // [count] number is times N; NULL: none is
    size_t count;
    bool state; // numbers of the graph itself, not an initializer
    // ValueWeight
    const OnnxTensor *tensor;
} Value;

typedef struct Variable {
    Str name;
    uint32_t refs; // 0: the name may be given again
    bool kept;     // it may not: an input's word
} Variable;

typedef struct Stored { // a tensor of the file of weights
    Str name;
    const OnnxTensor *tensor; // NULL: `number`
    const double *number;
    uint32_t rank;
    int64_t dim[ONNX_RANK];
    bool transposed; // rows and columns of `tensor`
} Stored;

typedef Map Names; // those that are taken: the hash of each, and the number that its like gets

typedef struct Import {
    Arena *a;
    const OnnxFile *f;
    int64_t opset, samples; // what the file has for N; -1: known when it runs
    VEC(Value *) value;
    Map by_name;
    bool *done; // [node] made along with another
    const OnnxNode *node;
    uint32_t at;      // its index
    uint32_t counted; // its operands that have left the counts, a bit each
    Refs refs;        // of the text being made
    VEC(Variable) variable;
    uint32_t unused;     // all variables before it are in use
    Text declared, body; // of the function: its param lines, its statements
    VEC(Stored) stored;
    Names stems;      // of layers
    Names taken;      // words that no variable may be
    uint32_t names;   // of variables, tried so far
    size_t folded;    // elements of constants made so far
    uint32_t helpers; // used, a bit for each row of the table of helpers
    Str error;        // why there is no net; empty: there is
} Import;

// --- import_graph.c ------------------------------------------------------------------------------

Value *value_find(const Import *m, Str name); // NULL: there is none
// The function's text, `name`, and the results it has; false and m->error where it cannot be.
typedef struct NetText {
    Str text;         // the function
    OnnxInput *input; // of the graph that are no initializers, with names of the language
    uint32_t inputs;
    Str *output;
    Shape *shape;
    uint32_t outputs;
} NetText;
bool import_net(Import *m, Str name, NetText *out);

// --- import.c ------------------------------------------------------------------------------------

// The model's text: the net, named `name` after the file `from`, with weights in the file
// `weights`.
Str import_model(Import *m, const NetText *n, Str name, Str from, Str weights);
float stored_at(const Stored *s, size_t i); // element i of a tensor as it is in the file of weights

// --- operands and results of the node at hand ----------------------------------------------------

bool import_refuse(Import *m, const char *format, ...); // false, and m->error says why
Value *import_operand(const Import *m, uint32_t k);     // NULL: it is left out
const OnnxAttribute *import_attribute(const Import *m, const char *name);
int64_t attr_int(const Import *m, const char *name, int64_t otherwise);
double attr_real(const Import *m, const char *name, double otherwise);
Str attr_word(const Import *m, const char *name, const char *otherwise);
// Whole numbers of an attribute, or of the constant operand k: as the opset has it. *n: how many,
// 0 where there are none. False: they are not known at import.
typedef struct Ints {
    uint32_t n;
    int64_t at[2 * ONNX_RANK];
} Ints;
bool ints_of(Import *m, const char *name, int k, Ints *out);
bool axis_in(Import *m, int64_t axis, uint32_t rank, uint32_t *out); // negative: from the back
bool real_of(Import *m, uint32_t k, double otherwise, double *out);  // a constant number
typedef struct Span3 { // elements of an axis: from, from + step, ...
    int64_t from, step, count;
} Span3;
Span3 slice_span(int64_t extent, int64_t start, int64_t end, int64_t step); // as Slice says it
typedef struct Slices { // its operands; `axes` and `steps` are as many or none
    Ints starts, ends, axes, steps;
} Slices;
bool slices_of(Import *m, Slices *out);

// --- import_text.c -------------------------------------------------------------------------------

// Extents, and their product, are at most so: what is computed of a few of them fits int64_t.
static const int64_t ExtentMost = (int64_t)1 << 40;
Shape shape_of(uint32_t rank, const int64_t *dim, int batch);
int64_t product_of(const int64_t *x, uint32_t n); // at most INT64_MAX; -1: one is negative
// The extent of an axis where the others are known, of so many elements; 0: there is none.
int64_t rest_of(const int64_t *dim, uint32_t n, uint32_t axis, int64_t all);
bool has_extents(const Shape *s); // from 1 to ExtentMost, as is their product
int64_t extent_of(double x);      // a number of the file as one; NaN and what is too large: beyond
// The extents of a sample: those of the shape without an axis of samples of one.
typedef struct Dims {
    uint32_t n;
    int64_t at[ONNX_RANK];
} Dims;
Dims shape_own(const Shape *s);
int shape_own_axis(const Shape *s, uint32_t axis); // -1: it is none of ours
bool same_dims(const Dims *a, const Dims *b);
Str dims_text(Arena *a, const Dims *d); // "64, 7, 7"

bool name_taken(const Names *names, Str name);
void name_take(Import *m, Names *names, Str name);
Str name_unique(Import *m, Names *names, Str name); // taken now: the name, or name_2, name_3 ...
// A word of the language like a name of the file; `otherwise` where it has no letter.
Str word_of(Import *m, Str name, const char *otherwise);

// Operand k as text that binds at least so; counts.
Str text_of(Import *m, uint32_t k, Binding least);
Str name_of(Import *m, uint32_t k); // the same as a variable, to be written more than once
void variable_drop(Import *m, uint32_t variable); // a text that mentioned it has become none
Str import_piped(Import *m, uint32_t k, const char *call, ...); // "x |> call"
// As operand k among those of a shape: extents of 1 where ours align from the other side.
Str import_aligned(Import *m, uint32_t k, const Shape *to, Binding least);
// The text as result k.
bool import_give(Import *m, uint32_t k, Shape shape, Binding binding, Str text);
bool import_give_ints(Import *m, Shape shape, const double *x, const uint8_t *samples);
Str number_text(Arena *a, double x);
#define format(m, ...) str_format((m)->a, __VA_ARGS__)

// A layer's name for tensors of the file, found by `weight` and `bias` or the place in the module:
// unique. Values of roles that are left out are NULL.
typedef struct Role {
    const char *word; // the tensor's, "weight"
    Value *value;     // a weight, or a constant
    bool transposed;
    uint32_t rank; // 0: the value's own shape
    int64_t dim[ONNX_RANK];
} Role;
Str layer_name(Import *m, const Role *role, uint32_t n);
// A weight that only this node uses, so that a layer may own it.
bool is_own(const Value *v); // accepts NULL
void import_helper(Import *m, const char *name);

// --- import_ops.c --------------------------------------------------------------------------------

typedef struct Row Row;
typedef bool Translate(Import *m, const Row *row);
struct Row {
    const char *op;
    uint32_t least, most; // inputs
    Translate *make;
    const char *text;       // a template, or an argument of `make`
    const char *attributes; // those it knows, between blanks
};
bool import_node(Import *m); // the node at hand; false and m->error
// Of axes of a shape, a bit each, in our words: "space", "axis(1)", "[batch, channel]".
Str axes_text(Import *m, const Shape *s, uint32_t mask);
Shape shape_reduced(const Shape *s, uint32_t mask, bool keep);
Str truncated(Import *m, Str x); // towards zero, as whole numbers are divided
Translate op_same;

// import_reduce.c
Translate op_reduce, op_arg_max, op_softmax, op_lp_norm;
// import_layers.c
Role role_of(Import *m, uint32_t k, const char *word, uint32_t rank, const int64_t *dim);
bool give_layer(Import *m, Str layer, const Role *role, uint32_t roles, const Shape *to,
                const OnnxNode *as);
const OnnxNode *bias_of(Import *m, int64_t c, uint32_t behind, const Shape *to, Value **bias);
Translate op_conv, op_conv_transpose, op_batch_norm, op_layer_norm, op_instance_norm, op_group_norm,
    op_prelu;
// import_products.c
Translate op_gemm, op_matmul, op_einsum;
// import_shape.c
bool give_reshaped(Import *m, const Shape *to); // operand 0 with the extents of a sample of `to`
Translate op_reshape, op_flatten, op_squeeze, op_unsqueeze;
// import_moves.c
Translate op_transpose, op_concat, op_split, op_slice, op_gather, op_gather_nd, op_filled,
    op_expand, op_tile, op_depth_to_space, op_space_to_depth;
// import_space.c
Str pads_text(Import *m, uint32_t n, const int64_t *before, const int64_t *after); // as of `pad`
// An attribute of n numbers from 0 on, all `otherwise` where it is left out.
bool each_axis(Import *m, const char *name, uint32_t n, int64_t otherwise, int64_t *out);
// SAME: extent n / stride, rounded up; of an odd number of zeros one more behind, or before.
void same_pads(int64_t n, int64_t stride, int64_t kernel, bool upper, int64_t *before,
               int64_t *after);
Translate op_pool, op_global_pool, op_pad, op_resize;

// --- import_fold.c -------------------------------------------------------------------------------

// The node at hand where all it needs is known: *made. False and m->error.
bool import_fold(Import *m, bool *made);
void constant_of(Import *m, const OnnxTensor *t, Value *out); // the numbers of a tensor

#endif
