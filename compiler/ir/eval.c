// eval.c - the reference evaluator's entry: one node from its operands' values, by the table. The
// oracle of every test: plain loops in logical order, libm for mathematics, double for sums, no
// fusion. Its parts: eval_*.c.
#include "eval.h"

static EvalFn *const eval_fn[OpCount] = {
#define EW(Name, ...) [Op##Name] = eval_ew,
#define OP(Name, ...) [Op##Name] = eval_##Name,
#include "ops.def"
};

void eval_Read(Eval *e) { // slots belong to the device
    bug("node %u: a read has no value of its own", e->id);
}

void eval_Grad(Eval *e) {
    bug("node %u: a grad is expanded before anything is evaluated", e->id);
}

// Storage types narrower than float: what a backend would have kept of the result.
static void round_stored(const Eval *e) {
    float *x = e->out;
    int64_t n = type_elements(e->g, eval_type(e));
    Dtype t = (Dtype)eval_type(e)->dtype;
    for (int64_t i = 0; i < n; i++)
        x[i] = half_load(t, half_store(t, x[i]));
}

void eval_node(const Graph *g, uint32_t id, const void *const *in, void *out, bool f64,
               const Counters *c, Arena scratch) {
    Eval e = {.g = g, .id = id, .in = in, .out = out, .f64 = f64, .c = c, .scratch = &scratch};
    Op op = (Op)graph_node(g, id)->op;
    if (!eval_fn[op])
        bug("node %u: nothing evaluates op %d", id, (int)op);
    eval_fn[op](&e);
    if (!f64 && dtype_is_half((Dtype)eval_type(&e)->dtype))
        round_stored(&e);
}
