// gflop.c - operation counts of convolutions, matrix products and Fourier transforms, from shapes.
//
// Two operations per multiply-add, those with padding included, as papers count them; 5 n log2 n
// for a transform of n complex numbers. Other operations count as 0. A function's are those of an
// average run.
#include "module.h"

#include <math.h>

static double conv_gflop(const Graph *g, uint32_t id) {
    uint32_t a = node_in(g, id, 0), b = node_in(g, id, 1);
    Op op = (Op)graph_node(g, id)->op;
    uint32_t w = op == OpConvDw ? id : b, y = op == OpConv ? id : op == OpConvDx ? a : b;
    const Type *tw = node_type(g, w);
    double taps = 1; // multiply-adds of one element of y
    for (uint32_t i = 1; i < tw->rank; i++)
        taps *= (double)tw->dim[i];
    return 2e-9 * taps * (double)type_elements(g, node_type(g, y));
}

// The product of all extents: each label once, the batch where an operand or the result has it.
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

static double product_gflop(const Graph *g, uint32_t id) {
    return graph_node(g, id)->op == OpDot ? dot_gflop(g, id) : conv_gflop(g, id);
}

static double fft_gflop(const Graph *g, uint32_t id) {
    FftLines f = fft_lines(g, id);
    double line = 5e-9 * (double)f.n * log2((double)f.n);
    return line * (double)f.lines * (f.in.real || f.out.real ? 0.5 : 1);
}

typedef double NodeGflop(const Graph *g, uint32_t id);
static NodeGflop *const gflop[FamilyCount] = {
    [FamilyProduct] = product_gflop, [FamilyTransform] = fft_gflop};

double node_gflop(const Graph *g, uint32_t id) {
    NodeGflop *count = gflop[node_family(g, id)];
    return count ? count(g, id) : 0;
}

// --- functions -----------------------------------------------------------------------------------

double *func_block_runs(Arena *a, const Func *f) {
    double *runs = arena_array(a, double, f->blocks), now[MAX_SCOPES + 1] = {1};
    uint32_t depth = 0;
    for (uint32_t i = 0; i < f->tape.n; i++) {
        Ctl c = f->tape.at[i];
        bool opens = c.kind == CtlRepeat || c.kind == CtlEvery || c.kind == CtlIf;
        if (opens && depth == MAX_SCOPES)
            bug("scopes nest deeper than %d", MAX_SCOPES);
        switch (c.kind) {
        case CtlBlock:
            runs[c.arg] = now[depth];
            break;
        case CtlRepeat:
            now[depth + 1] = now[depth] * c.arg;
            break;
        case CtlEvery:
            now[depth + 1] = now[depth] / (c.arg ? c.arg : 1);
            break;
        case CtlIf:
            now[depth + 1] = now[depth] / 2;
            break;
        case CtlElse:
            now[depth] = now[depth - 1] - now[depth];
            break;
        case CtlEnd:
            depth--;
            break;
        }
        depth += opens;
    }
    return runs;
}

double func_gflop(const Func *f) {
    Arena scratch;
    arena_need(&scratch);
    double *runs = func_block_runs(&scratch, f), sum = 0;
    for (uint32_t id = 1; id < f->g.node.n; id++)
        sum += node_gflop(&f->g, id) * runs[graph_node(&f->g, id)->block];
    arena_release(&scratch);
    return sum;
}

double func_gflop_again(const Func *f) {
    Arena scratch;
    arena_need(&scratch);
    double *runs = func_block_runs(&scratch, f), sum = 0;
    for (uint32_t i = 0; i < f->again.n; i++)
        sum += f->again.at[i].gflop * runs[f->again.at[i].block];
    arena_release(&scratch);
    return sum;
}
