// count.c - arithmetic of convolutions and matrix products: two operations per multiply-add, counted on shapes alone.
//
// Nominal: multiplications by padding count, as every paper counts them. Other operations do not.
#include "plan.h"

static double conv_gflop(const Graph *g, uint32_t id) {
    uint32_t a = node_in(g, id, 0), b = node_in(g, id, 1);
    Op op = (Op)graph_node(g, id)->op;
    uint32_t w = op == OpConvDw ? id : b, y = op == OpConv ? id : op == OpConvDx ? a : b;
    const Type *tw = node_type(g, w);
    double taps = 1;                                 // multiply-adds of one element of y
    for (uint32_t i = 1; i < tw->rank; i++)
        taps *= (double)tw->dim[i];
    return 2e-9 * taps * (double)type_elements(g, node_type(g, y));
}

// The product of all extents: each label once, the batch where any of the three has it.
static double dot_gflop(const Graph *g, uint32_t id) {
    const int64_t *at = node_attr(g, id)->i;
    const uint32_t side[2] = {node_in(g, id, 0), node_in(g, id, 1)};
    int64_t seen[2 * MAX_RANK], seens = 0;
    bool batched = node_type(g, id)->batched;
    double n = 1;
    for (int s = 0; s < 2; s++, at += at[0] + 1) {
        const Type *t = node_type(g, side[s]);
        batched = batched || t->batched;
        for (uint32_t i = 0; i < t->rank; i++) {
            int64_t k = 0;
            while (k < seens && seen[k] != at[1 + i])
                k++;
            if (k < seens)
                continue;
            seen[seens++] = at[1 + i];
            n *= (double)t->dim[i];
        }
    }
    return 2e-9 * n * (batched ? (double)g->batch : 1);
}

static double node_gflop(const Graph *g, uint32_t id) {
    Op op = (Op)graph_node(g, id)->op;
    if (op_info[op].cls != ClassANCHOR)
        return 0;
    return op == OpDot ? dot_gflop(g, id) : conv_gflop(g, id);
}

double graph_gflop(const Graph *g) {
    double sum = 0;
    for (uint32_t id = 1; id < g->node.n; id++)
        sum += node_gflop(g, id);
    return sum;
}

// How often each block runs in an average run: a repeat's rounds, one in k of an `every`, half of each branch.
static double *block_runs(Arena *a, const Func *f) {
    enum { DEPTH = 64 };
    double *runs = arena_array(a, double, f->blocks), now[DEPTH] = {1};
    uint32_t depth = 0;
    for (uint32_t i = 0; i < f->tape.n; i++) {
        Ctl c = f->tape.at[i];
        bool opens = c.kind == CtlRepeat || c.kind == CtlEvery || c.kind == CtlIf;
        if (opens && depth + 1 == DEPTH)
            bug("control nested deeper than %d", DEPTH);
        switch (c.kind) {
        case CtlBlock: runs[c.arg] = now[depth]; break;
        case CtlRepeat: now[depth + 1] = now[depth] * c.arg; break;
        case CtlEvery: now[depth + 1] = now[depth] / (c.arg ? c.arg : 1); break;
        case CtlIf: now[depth + 1] = now[depth] / 2; break;
        case CtlElse: break;
        case CtlEnd: depth--; break;
        }
        depth += opens;
    }
    return runs;
}

double func_gflop(const Func *f) {
    Arena scratch;
    if (arena_init(&scratch, 0) != GAN_OK)
        bug("%s", gan_error());
    double *runs = block_runs(&scratch, f), sum = 0;
    for (uint32_t id = 1; id < f->g.node.n; id++)
        sum += node_gflop(&f->g, id) * runs[graph_node(&f->g, id)->block];
    arena_release(&scratch);
    return sum;
}
