// ir.h - the graph: what the front end makes, the passes change and the backends run.
//
// A graph is an append-only array of small pure nodes; a node is its index, 0 means none. Types and
// attributes are interned, so equality is `==`. Every node is simplified (lang/rules.def) and
// hash-consed as it is built, so equal work is found at once. Weights, state and draws enter
// through leaves (Read, Rand) and leave through Write; nothing else has an effect. Operands always
// have smaller indices than their users: index order is a topological order and follows the
// program's text.
//
// Shapes are channels-first as papers write them and never contain the batch. A value is
// *per-sample* (type.batched, Graph.batch samples) or *shared*. Elementwise operands broadcast
// implicitly, aligned from the LEFT: batch, then axis 0, 1, ...; missing last axes count as 1. Only
// Sum with bit 0, GroupSum, Dot, ConvDw and Scatter cross samples.
#ifndef GAN_IR_H
#define GAN_IR_H

#include "base.h"
#include "fft.h"

#define NONE UINT32_MAX // no index, where 0 is one

// Sample axes of a type; integers in an attribute; operands of a node.
enum { MAX_RANK = 6, MAX_INTS = 32, MAX_IN = 64 };

typedef enum Dtype {
#define DTYPE(Name, text, bytes) Dt##Name,
#include "dtypes.def"
#undef DTYPE
    DtCount
} Dtype;
extern const char *const dtype_name[DtCount];
extern const size_t dtype_size[DtCount];
static inline bool dtype_is_half(Dtype t) { // two bytes: kept so, computed in f32
    return t == DtBF16 || t == DtF16;
}

typedef enum Op {
    OpNone,
#define EW(Name, ...) Op##Name,
#define OP(Name, ...) Op##Name,
#include "ops.def"
    OpCount
} Op;

typedef enum OpClass {
    ClassNone,
    ClassEW,     // elementwise
    ClassREDUCE, // over axes, or over rows of equal index
    ClassMOVE,   // the same elements at other places
    ClassANCHOR, // a library call (AnchorFamily)
    ClassRNG,    // draws
    ClassSTATE,  // reads and writes of slots
    ClassLEAF,   // constants, and numbers of elements
    ClassMETA,   // for passes, which replace it
    ClassCOMM,   // collectives between ranks
    ClassCount
} OpClass;

// Operations of class ANCHOR by kind. What counts their arithmetic, narrows their operands or
// executes them has a table with an entry for each family.
typedef enum AnchorFamily {
    FamilyNone,
    FamilyProduct,
    FamilyTransform,
    FamilyOrder,
    FamilyCount
} AnchorFamily;

typedef struct Type {      // interned in a Graph; compare ids
    uint8_t dtype;         // Dtype; F32 until pass/dtype.c decides
    uint8_t rank;          // sample axes
    bool batched;          // per-sample
    uint8_t inner;         // 1 + the axis that lies innermost in memory; 0: type_strides' rule
    int64_t dim[MAX_RANK]; // extents without the batch; 0 past rank
} Type;

typedef struct Attr { // interned; meaning of the integers: the op's row
    uint32_t n;
    int64_t i[MAX_INTS];
} Attr;

typedef struct Span {
    uint32_t file, lo, hi;
} Span; // bytes [lo, hi) of source file `file` (1-based; 0: none)

typedef struct Node {
    uint16_t op;    // Op
    uint8_t nin;    // operands
    uint32_t in;    // first operand, in Graph.edge[]
    uint32_t type;  // in Graph.type[]
    uint32_t attr;  // in Graph.attr[], 0 none
    uint32_t block; // of the function, in which it is computed; leaves without effects: 0
    uint32_t span;  // head of its set in Graph.span[], 0 none; not part of identity
} Node;

typedef struct SpanLink {
    Span span;
    uint32_t next;
} SpanLink;

typedef struct Graph {
    Arena *perm;    // everything below lives here
    int64_t batch;  // samples of a per-sample value
    bool literal;   // true: no simplification: what was written, to compare with (tests)
    VEC(Node) node; // [0] is none
    VEC(uint32_t) edge;
    VEC(Type) type;            // [0] is none
    VEC(Attr) attr;            // [0] is none
    VEC(SpanLink) span;        // [0] is none
    Map types, attrs, nodes;   // interning
    const struct Rules *rules; // lang/rules.def, compiled (rules.c); NULL: not yet
    uint32_t next_unique;      // for Pin ids and Read versions
    bool simple;               // every node is in simplest form, under the function's tape
} Graph;

// Where and how nodes are added to a graph: an insertion point, as LLVM's IRBuilder has.
typedef struct Builder {
    Graph *g;                  // borrowed
    uint32_t block;            // of new nodes
    const uint32_t *scope_end; // [block] of block_dominates; NULL: nodes of all blocks are shared
    Span span;                 // of new nodes
    bool raw;                  // true: no simplification, no sharing (the text reader, tests)
} Builder;

// Has block `a` always run when `b` begins, or is it `b`? Blocks are numbered in program order, so
// that is until the scope around `a` ends: scope_end[a] is the first block behind it.
static inline bool block_dominates(const uint32_t *scope_end, uint32_t a, uint32_t b) {
    return a <= b && b < scope_end[a];
}

typedef struct Val {
    Builder *b; // adds what is computed from it
    uint32_t id;
} Val; // what the functions of build.h take and return

// --- op.c: the table -----------------------------------------------------------------------------

typedef enum Domain { DomainANY, DomainPOS, DomainSMALL, DomainBOOL } Domain;

typedef enum Trait { // bits; lang/ops.def says what each means
    TraitCommutes = 1,
    TraitLinear = 2,
    TraitBilinear = 4,
    TraitLinearFirst = 8,
    TraitIndexed = 16,
    TraitConstant = 32,
} Trait;

typedef struct Infer { // a shape rule's question and answer
    const Graph *g;
    uint32_t nin;
    const uint32_t *in; // operand nodes
    const Attr *attr;   // never NULL
    Type out; // in: the wanted type where the op cannot know it (rank 255: not stated); out: the
              // answer
    char error[240]; // when false: both sides of the clash, in the user's words
} Infer;

typedef struct OpInfo {
    const char *name;    // "Mul", as builders are called
    const char *text;    // "mul", as the text form says
    const char *attrs;   // attribute names
    const char *value;   // EW: the value column's text, for kernels; else NULL
    uint8_t least, most; // operands
    uint8_t cls;         // OpClass
    uint8_t family;      // AnchorFamily; of other classes FamilyNone
    uint8_t domain;      // Domain
    uint8_t traits;      // Trait
    double (*fold)(double a, double b, double c); // EW: the value column, for constants; else NULL
    bool (*infer)(Infer *q);
    // Gradient to operand k, given this node y and the incoming gradient g (both of the node's
    // type). id 0: zero.
    Val (*grad)(Val y, Val g, uint32_t k);
} OpInfo;
extern const OpInfo op_info[OpCount];
AnchorFamily node_family(const Graph *g, uint32_t id);
static inline bool op_is(Op op, Trait trait) {
    return op_info[op].traits & trait;
}
bool op_has_gradient(Op op, uint32_t k); // to operand k; false: it is zero everywhere
Op op_find(Str text);                    // OpNone when unknown
// A number as an attribute ("bits" in ops.def) holds it: all NaNs are one, and both zeros.
double bits_to_double(int64_t bits);
int64_t double_to_bits(double x);

// --- graph.c -------------------------------------------------------------------------------------

void graph_init(Graph *g, Arena *perm, int64_t batch);
uint32_t graph_type(Graph *g, Type t); // interns; zeroes unused extents
uint32_t graph_attr(Graph *g, const int64_t *ints, uint32_t n);
// Adds a copy of node `id` of another graph over these operands, which it may reorder: neither
// typed nor simplified again.
uint32_t builder_copy(Builder *b, const Graph *from, uint32_t id, uint32_t *in);
// Adds a node: infers its type (`want` only for ops that need it, else NULL), simplifies, shares.
// bug() when the shape rule refuses: check user input with graph_check first.
uint32_t builder_add(Builder *b, Op op, const uint32_t *in, uint32_t nin, const Attr *attr,
                     const Type *want);
bool builder_sees(const Builder *b, uint32_t id); // does its block dominate the builder's?
// The shape rule alone: false and q->error when the operands do not fit.
bool graph_check(Infer *q, Op op);
static inline const Node *graph_node(const Graph *g, uint32_t id) {
    return &g->node.at[id];
}
static inline uint32_t node_in(const Graph *g, uint32_t id, uint32_t k) {
    return g->edge.at[g->node.at[id].in + k];
}
static inline const Type *node_type(const Graph *g, uint32_t id) {
    return &g->type.at[g->node.at[id].type];
}
static inline Type val_type(Val x) {
    return *node_type(x.b->g, x.id);
}
static inline const Attr *node_attr(const Graph *g, uint32_t id) {
    return &g->attr.at[g->node.at[id].attr];
}
// Of an operation over a mask of axes: bit 0 the batch, bit 1 + i axis i.
static inline uint32_t node_axes(const Graph *g, uint32_t id) {
    return (uint32_t)node_attr(g, id)->i[0];
}
// Is it a Const, perhaps behind Expand and Reshape?
bool node_is_const(const Graph *g, uint32_t id, double *out);
// y = where(x > 0, x, below), or where(0 >= x, below, x), which passes NaN on: an activation that
// selects by the sign of x. False, and nothing written, where `id` is something else.
typedef struct SignSelect {
    uint32_t compare, x, below;
} SignSelect;
bool node_selects_by_sign(const Graph *g, uint32_t id, SignSelect *out);
void node_add_span(Graph *g, uint32_t id, Span s); // sets grow when equal nodes meet
// From nodes that are needed, marked in needed[node.n], to their operands, transitively.
void graph_spread(const Graph *g, uint8_t *needed);
// Marks what `root[]` needs (operands, transitively). [node.n] bytes, 1 where needed.
uint8_t *graph_reach(const Graph *g, Arena *a, const uint32_t *root, uint32_t n);

// --- gflop.c -------------------------------------------------------------------------------------

// Products: 2 per multiply-add, nominal; transforms: 5 n log2 n a line, half of it where one side
// is real; others 0.
double node_gflop(const Graph *g, uint32_t id);

// --- roles.c: what a node is to kernels ----------------------------------------------------------

static inline OpClass node_class(const Graph *g, uint32_t id) {
    return (OpClass)op_info[g->node.at[id].op].cls;
}
bool node_is_view(const Graph *g, uint32_t id);  // an affine move: readers look through it
int64_t node_terms(const Graph *g, uint32_t id); // of a reduction over axes: those of an element
bool node_is_short(const Graph *g, uint32_t id); // a reduction of so few that it is arithmetic
// A reduction whose result is ready only after its region's loop.
bool node_ends_loop(const Graph *g, uint32_t id);
// The shape a node is computed over: its own, or its operand's.
const Type *node_space(const Graph *g, uint32_t id);
// Axes of that shape it reduces, those of one element left out.
uint32_t node_reduced(const Graph *g, uint32_t id);
// Operand k; of a commuting operation the larger first, so that equal structures are visited in
// equal order.
uint32_t node_operand(const Graph *g, uint32_t id, uint32_t k);
// The node whose memory holds `id`: through reshapes and expands that move no element; `id` itself
// when it is its own.
uint32_t node_storage(const Graph *g, uint32_t id, Arena scratch);

// --- type.c --------------------------------------------------------------------------------------

float half_load(Dtype t, uint16_t x);                            // of a half type, exactly
uint16_t half_store(Dtype t, float x);                           // to the nearest, ties to even
Type type_make(bool batched, uint32_t rank, const int64_t *dim); // F32
bool type_same_shape(const Type *a, const Type *b);              // all but dtype and layout
bool type_same_layout(const Type *a, const Type *b); // the same shape, and lie alike in memory
int64_t type_sample(const Type *t); // elements of one sample (or of the shared value)
int64_t type_elements(const Graph *g, const Type *t); // with the batch
size_t type_bytes(const Graph *g, const Type *t);
// Aligned from the left; false when extents clash.
bool type_broadcast(const Type *a, const Type *b, Type *out);
// Element strides of the physical layout: stride[0] the batch (0 when shared), stride[1 + i] axis
// i. Of three axes or more, the batch counted, the second lies innermost: samples [n, c, h, w] and
// weights [o, i, h, w] are both channels-last. All else is row-major. Type.inner names another axis
// to lie innermost; the others keep their order. Extents of 1 have stride 0.
void type_strides(const Type *t, int64_t stride[MAX_RANK + 1]);
// The same as libraries recognise a layout: also an extent of 1 has the stride of a longer one, and
// stride[0] is the size of a sample, or of the shared value.
void type_layout(const Type *t, int64_t stride[MAX_RANK + 1]);
Str type_text(Arena *a, const Type *t); // "[B, 3, 64, 64]", "[64, 3, 4, 4]", "[]", "[B]"

// --- attributes ----------------------------------------------------------------------------------

// Of a Rand.
typedef enum Dist { DistUniform, DistNormal, DistTruncated, DistCategorical } Dist;

typedef struct ConvGeom { // of a Conv, ConvDx or ConvDw
    uint32_t n;           // spatial axes
    int64_t stride[3], before[3], after[3], dilation[3], groups;
} ConvGeom;
ConvGeom conv_geom(const Attr *a);
Attr conv_attr(const ConvGeom *c);

// Of a ReduceStart: in the fixed order of a tree (OrderTree), or as is fastest.
typedef enum SumOrder { OrderAny, OrderTree } SumOrder;
// A call of up to so many bytes, whose result is waited for, starts before larger ones.
enum { COMM_SMALL = 64 << 10 };

// --- op_order.c ----------------------------------------------------------------------------------

// Lines of n numbers on a device: number i of line l is at (l/step*n + i)*step + l%step. Indices,
// and what they arrange, are of the last so many in a line's order.
typedef struct OrderLines {
    int64_t n, last, lines, step;
} OrderLines;
OrderLines order_lines(const Graph *g, uint32_t id); // of an ArgSort or Arrange

// --- op_fft.c ------------------------------------------------------------------------------------

uint32_t fft_parts(const Type *t); // the axis of a transform's parts
// Where a transform's lines lie on devices: one behind the other, the parts of a number side by
// side.
FftLines fft_lines(const Graph *g, uint32_t id);

// --- eval.c: the reference evaluator, the oracle of every test -----------------------------------

// Where draws come from: key (seed, site), counter (step, round, global sample, element in
// row-major order).
typedef struct Counters {
    uint64_t seed;
    uint32_t step, round;
    int64_t sample0;
    double epoch, kimg;
} Counters;
// Computes node `id` from its operands' values; all arrays hold doubles (f64 true) or floats,
// row-major with the batch first (logical order, not the physical layout). Rand, Read and Write:
// see device/ref.c; Rand uses `c`.
void eval_node(const Graph *g, uint32_t id, const void *const *in, void *out, bool f64,
               const Counters *c, Arena scratch);

#endif
