// eval.h - inside the reference evaluator: what one evaluation gets, and the strided loops its
// parts share.
//
// Values are row-major in logical order with the batch first, all double (f64) or all float. Moves
// and elementwise work are one Loop: an iteration space of the batch and the axes with an element
// stride per operand. Contractions (Dot, Conv*) pack to double, multiply there and round once, so
// float results are as good as their type.
#ifndef GAN_EVAL_H
#define GAN_EVAL_H

#include "ir.h"

typedef struct Eval {
    const Graph *g;
    uint32_t id;
    const void *const *in; // operand values, borrowed
    void *out;
    bool f64;
    const Counters *c;
    Arena *scratch; // the call's own checkpoint
} Eval;

typedef void EvalFn(Eval *e);
#define EW(...)
#define OP(Name, ...) EvalFn eval_##Name;
#include "ops.def"
EvalFn eval_ew; // every EW row

// --- values --------------------------------------------------------------------------------------

static inline double value_get(const void *at, bool f64, int64_t i) {
    return f64 ? ((const double *)at)[i] : (double)((const float *)at)[i];
}
static inline void value_put(void *at, bool f64, int64_t i, double x) {
    if (f64)
        ((double *)at)[i] = x;
    else
        ((float *)at)[i] = (float)x;
}
static inline const Type *eval_type(const Eval *e) {
    return node_type(e->g, e->id);
}
static inline const Type *eval_in_type(const Eval *e, uint32_t k) {
    return node_type(e->g, node_in(e->g, e->id, k));
}
static inline const int64_t *eval_ints(const Eval *e) {
    return node_attr(e->g, e->id)->i;
}

// --- eval_loop.c ---------------------------------------------------------------------------------

enum {
    LOOP_DIMS = MAX_RANK + 1,
    LOOP_OPERANDS = 4,
    LOOP_PARALLEL = 1 << 16, // elements worth several threads
};

typedef struct Loop {
    uint32_t n; // dimensions; 0 the batch, 1 + i axis i
    uint32_t operands;
    int64_t extent[LOOP_DIMS];
    int64_t stride[LOOP_OPERANDS][LOOP_DIMS]; // elements; negative to go backwards
    int64_t base[LOOP_OPERANDS];              // first element
} Loop;

// One innermost run of n elements: operand k at off[k], step[k] apart.
typedef void LoopRow(void *user, int64_t n, const int64_t *off, const int64_t *step);

void loop_init(Loop *l, const Graph *g, const Type *space); // extents of a type, no operands yet
// Adds an operand of type t, broadcast into the space: row-major, 0 where it repeats. Returns its
// number.
uint32_t loop_operand(Loop *l, const Type *t);
int64_t loop_size(const Loop *l);
void loop_fold(Loop *l); // joins dimensions that every operand walks as one
// Of element i of the first `dims` dimensions.
void loop_offsets(const Loop *l, uint32_t dims, int64_t i, int64_t *off);
void loop_run(Loop *l, LoopRow *row, void *user); // folds, then rows in parallel

// --- eval_mac.c ----------------------------------------------------------------------------------

// y[j] += sum over k of a[k*ak] * b[k*bk + j], in one fixed order.
void mac_row(int64_t n, double *restrict y, int64_t k, const double *restrict a, int64_t ak,
             const double *restrict b, int64_t bk);

#endif
