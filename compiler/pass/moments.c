// moments.c - sums of squared deviations, sum((x - m)^2), in one pass over x.
//
// In: a function for this rank's samples, in its final precision. Out: the same with every such sum
// one operation (Squares) that depends on x alone: together with the sum that the mean is made of
// it is one loop over x, where there were two in sequence. Any sum counts whose mean is over the
// same axes: of a norm layer or of a user's var().
//
// Between ranks (shard.c) each adds the squares about its own mean c of n values and n c^2; what
// remains is N m^2, which is subtracted after the reduction (Chan, Golub and LeVeque 1983,
// "Algorithms for computing the sample variance", in the form for many parts). That loses
// (m / deviation)^2 of the last digit of f64, in which squares of means are kept: less than f32 can
// represent. On one rank kernels do the same for their parts. Sums in f64, where it would show,
// wait for the mean.
#include "shard.h"

#include <math.h>

// Of a product of constants, kept as doubles. Not 1 / (n - 1) for any n that is.
static const double FactorError = 1e-12;

// The sum whose mean `mean` is, up to its shape and the factor 1 / n; 0: none.
static uint32_t mean_of(const Graph *g, uint32_t mean, double n) {
    double by = 1, c;
    uint32_t id = mean;
    for (;;) {
        Op op = (Op)graph_node(g, id)->op;
        if (op == OpReshape) {
            id = node_in(g, id, 0);
        } else if (op == OpMul && node_is_const(g, node_in(g, id, 1), &c)) {
            by *= c;
            id = node_in(g, id, 0);
        } else if (op == OpMul && node_is_const(g, node_in(g, id, 0), &c)) {
            by *= c;
            id = node_in(g, id, 1);
        } else if (op == OpDiv && node_is_const(g, node_in(g, id, 1), &c)) {
            by /= c;
            id = node_in(g, id, 0);
        } else {
            break;
        }
    }
    return graph_node(g, id)->op == OpSum && fabs(by * n - 1) < FactorError ? id : 0;
}

uint32_t centre_of(const Graph *g, uint32_t id) {
    if (graph_node(g, id)->op != OpSum || node_type(g, id)->dtype == DtF64)
        return 0;
    uint32_t square = node_in(g, id, 0), x, s;
    if (graph_node(g, square)->op != OpMul || node_in(g, square, 0) != node_in(g, square, 1))
        return 0;
    uint32_t apart = node_in(g, square, 0);
    if (graph_node(g, apart)->op != OpSub ||
        !same_along(node_type(g, node_in(g, apart, 1)), node_axes(g, id)))
        return 0;
    x = node_in(g, apart, 0);
    if (!type_same_shape(node_type(g, x), node_type(g, apart)))
        return 0; // elements are paired with other means too: x - reshape(mean(x), ...)
    s = mean_of(g, node_in(g, apart, 1), (double)node_terms(g, id));
    bool same = s && node_in(g, s, 0) == x && node_axes(g, s) == node_axes(g, id) &&
                graph_node(g, s)->block == graph_node(g, id)->block;
    return same ? s : 0;
}

static uint32_t rewrite(Rewriter *r, uint32_t id) {
    uint32_t sum = node_is_short(r->from, id) ? 0 : centre_of(r->from, id);
    if (!sum)
        return node_copy(r, id);
    return Squares(rewritten_in(r, sum, 0), node_axes(r->from, id)).id;
}

void pass_moments(Arena *perm, const Module *m, Func *f, const PassOptions *o) {
    (void)m, (void)o;
    if (!f->block_first) // equal work of two chunks must not be merged
        func_rewrite(perm, f, f->g.batch, rewrite, NULL);
}
