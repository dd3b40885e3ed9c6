// eval_ew.c - elementwise operations of the reference evaluator: the value columns of ops.def
// compiled for double and for float (tgmath.h picks the library function of the type), under one
// broadcasting loop.
#include "eval.h"

#include <tgmath.h>

#define T double
#define ROW(Name) row_f64_##Name
#include "eval_ew.inc"
#undef T
#undef ROW
#define T float
#define ROW(Name) row_f32_##Name
#include "eval_ew.inc"
#undef T
#undef ROW

typedef void RowF64(int64_t count, double *restrict y, const double *const in[3],
                    const int64_t step[3]);
typedef void RowF32(int64_t count, float *restrict y, const float *const in[3],
                    const int64_t step[3]);

static RowF64 *const row_f64[OpCount] = {
#define EW(Name, ...) [Op##Name] = row_f64_##Name,
#define OP(...)
#include "ops.def"
};
static RowF32 *const row_f32[OpCount] = {
#define EW(Name, ...) [Op##Name] = row_f32_##Name,
#define OP(...)
#include "ops.def"
};

typedef struct EwRun {
    const Eval *e;
    uint32_t nin;
    RowF64 *f64;
    RowF32 *f32;
} EwRun;

// Operands 0.. are the inputs, the last one is the result, which is always dense.
static void ew_row(void *user, int64_t n, const int64_t *off, const int64_t *step) {
    const EwRun *r = user;
    int64_t in_step[3] = {0};
    const double *d[3];
    const float *f[3];
    for (uint32_t k = 0; k < 3; k++) {
        uint32_t from =
            k < r->nin ? k : 0; // rows of fewer inputs read the first again and ignore it
        in_step[k] = step[from];
        if (r->e->f64)
            d[k] = (const double *)r->e->in[from] + off[from];
        else
            f[k] = (const float *)r->e->in[from] + off[from];
    }
    if (r->e->f64)
        r->f64(n, (double *)r->e->out + off[r->nin], d, in_step);
    else
        r->f32(n, (float *)r->e->out + off[r->nin], f, in_step);
}

void eval_ew(Eval *e) {
    const Node *node = graph_node(e->g, e->id);
    Loop l;
    loop_init(&l, e->g, eval_type(e));
    for (uint32_t k = 0; k < node->nin; k++)
        loop_operand(&l, eval_in_type(e, k));
    loop_operand(&l, eval_type(e));
    EwRun run = {e, node->nin, row_f64[node->op], row_f32[node->op]};
    loop_run(&l, ew_row, &run);
}
