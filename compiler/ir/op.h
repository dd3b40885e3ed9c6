// op.h - what the files of this layer share about operations: the shape rules and gradients that
// the rows of lang/ops.def name, the helpers they are written with, and the rewriting of new nodes.
#ifndef GAN_OP_H
#define GAN_OP_H

#include "build.h"

enum { TYPE_UNSTATED = 255 };    // Infer.out.rank when not stated
enum { MOST_COUNTED = 1 << 24 }; // f32 holds every whole number up to here: indices

// The parts of an OP row: op_*.c.
#define OP(Name, ...)                                                                              \
    bool infer_##Name(Infer *q);                                                                   \
    Val grad_##Name(Val y, Val g, uint32_t k);
#include "ops.def"

// --- for shape rules -----------------------------------------------------------------------------

typedef struct TypeName {
    char s[176];
} TypeName;
TypeName type_name(const Type *t);                  // "[B, 3, 64, 64]", by value for messages
bool infer_fail(Infer *q, const char *format, ...); // sets the message, returns false
const Type *infer_in(const Infer *q, uint32_t k);   // type of operand k
bool infer_wants(Infer *q, const char *what);       // the wanted type must be stated
bool infer_dtypes(Infer *q, uint32_t first, uint32_t last); // operands [first, last) share a dtype
// Can f32 number the elements of `t` along the masked sample axes?
bool infer_counts(Infer *q, const char *what, const Type *t, int64_t mask);
// Of a sum of products: f32 may be asked of bf16 and f16.
uint8_t infer_product(const Infer *q, uint8_t dtype);

// --- for gradients -------------------------------------------------------------------------------

static inline Val val_in(Val y, uint32_t k) {
    return (Val){y.b, node_in(y.b->g, y.id, k)};
}
static inline Attr val_attr(Val x) {
    return *node_attr(x.b->g, x.id);
}

// --- rules.c, folds.c: rewriting -----------------------------------------------------------------

// A node that is about to be added. Operands are already in simplest form.
typedef struct Draft {
    Op op;
    uint32_t nin;
    uint32_t in[MAX_IN];
    Attr attr;
    Type type;
} Draft;

// A row of lang/rules.def: either a pattern and its replacement or a function.
typedef struct Rule {
    const char *name;
    const char *from, *to;                        // RULE rows, else NULL: operands, replacement
    uint32_t (*fold)(Builder *b, const Draft *d); // FOLD rows: the node instead, 0 no match
    Op op;                                        // what it is for, OpNone any
    bool exact;
} Rule;
extern const Rule rule_table[];
extern const uint32_t rule_count;

// What the letters of a rule's term stand for, and what its outermost op takes from the draft.
typedef struct Binding {
    uint32_t var[26]; // nodes by letter, 0 not bound
    Op root;          // ops of this kind get `attr` and `type`
    Attr attr;
    Type type;
} Binding;

// The node that says the same as `d` in fewer or cheaper words; 0: it is already as simple as it
// gets.
uint32_t simplify(Builder *b, const Draft *d);
// Builds a term of the rule language ("mul(x, 2)"), one builder_add per op; used with raw
// builders by tests.
uint32_t rule_build(Builder *b, const char *term, const Binding *bound);
// Op of a node that rewriting may look into here: OpNone when its block is closed to this one, for
// there it may have been skipped and its value be another than its operands say.
Op op_seen(const Builder *b, uint32_t id);
bool const_seen(const Builder *b, uint32_t id, double *out);

#endif
