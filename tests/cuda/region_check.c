// region_check.c - see region_check.h.
#include "region_check.h"

#include <math.h>
#include <string.h>

static double *exact_value(const RegionCheck *x, double **value, bool nudged, uint32_t id,
                           bool member) {
    const Plan *p = x->p;
    const Graph *g = &p->func->g;
    const Type *t = node_type(g, id);
    const Node *node = graph_node(g, id);
    void *at = memory_at(x->memory, p, id);
    int64_t n = type_elements(g, t);
    if (value[id])
        return value[id];
    double *out = value[id] = arena_array(x->arena, double, n);
    if (at && p->place[id].owner == id && !member) {
        float *stored = arena_array(x->arena, float, n);
        value_load(g, t, at, stored);
        for (int64_t i = 0; i < n; i++)
            out[i] = (double)stored[i] * (nudged ? 1 + (i * 7 % 3 - 1) * 0x1p-23 : 1);
        return out;
    }
    const void *in[64] = {0};
    for (uint32_t k = 0; k < node->nin; k++)
        in[k] = exact_value(x, value, nudged, node_in(g, id, k), false);
    if (node->op == OpWrite)
        memcpy(out, in[0], sizeof *out * (size_t)n);
    else
        eval_node(g, id, in, out, true, x->c, *x->arena);
    return out;
}

static double **exact_region(const RegionCheck *x, bool nudged) {
    double **value = arena_array(x->arena, double *, x->p->func->g.node.n);
    for (uint32_t i = 0; i < x->r->node.n; i++)
        exact_value(x, value, nudged, x->r->node.at[i], true);
    return value;
}

void region_check_begin(RegionCheck *x) {
    x->exact = exact_region(x, false);
    x->nudged = exact_region(x, true);
}

// An element may differ by a small fraction of the largest one, and by a multiple of the change
// that the operands' last bits cause, as in sums with cancellation. A value near a threshold may be
// on different sides of it: a few elements may differ by more.
RegionDiffers region_check_value(const RegionCheck *x, uint32_t node, const void *is,
                                 const void *right) {
    Arena scratch = *x->arena;
    const Graph *g = &x->p->func->g;
    const Type *t = node_type(g, node);
    RegionDiffers d = {.of = type_elements(g, t)};
    float *a = arena_array(&scratch, float, d.of), *b = arena_array(&scratch, float, d.of);
    double noise = 0, little = t->dtype == DtBF16 ? 1e-2 : t->dtype == DtF16 ? 1.5e-3 : 3e-5;
    value_load(g, t, is, a);
    value_load(g, t, right, b);
    for (int64_t i = 0; i < d.of; i++) {
        d.most = fmax(d.most, fabs((double)b[i]));
        noise += x->exact ? fabs(x->nudged[node][i] - x->exact[node][i]) / (double)d.of : 0;
    }
    for (int64_t i = 0; i < d.of; i++) {
        if (fabs((double)a[i] - (double)b[i]) <= little * d.most + 32 * noise)
            continue;
        d.first = d.elements++ ? d.first : i;
    }
    d.elements = d.elements > d.of / 2000 ? d.elements : 0;
    d.is = a[d.first];
    d.right = b[d.first];
    return d;
}
