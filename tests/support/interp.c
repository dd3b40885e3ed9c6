// interp.c - see interp.h.
#include "interp.h"

Interp interp_make(Arena *a, const Graph *g) {
    return (Interp){.arena = a, .g = g, .f64 = true, .value = arena_array(a, void *, g->node.n)};
}

int64_t interp_count(const Interp *t, uint32_t id) {
    return type_elements(t->g, node_type(t->g, id));
}

double *interp_set(Interp *t, uint32_t id) {
    if (!t->value[id])
        t->value[id] = arena_array(t->arena, double, interp_count(t, id));
    return t->value[id];
}

void interp_run(Interp *t) {
    for (uint32_t id = 1; id < t->g->node.n; id++) {
        const Node *n = graph_node(t->g, id);
        if (n->op == OpRead || n->op == OpGrad)
            continue;
        const void *in[UINT8_MAX];
        for (uint32_t k = 0; k < n->nin; k++)
            in[k] = t->value[node_in(t->g, id, k)];
        eval_node(t->g, id, in, interp_set(t, id), t->f64, &t->counters, *t->arena);
    }
}

void interp_put(Interp *t, uint32_t id, int64_t i, double x) {
    double *to = interp_set(t, id);
    if (t->f64)
        to[i] = x;
    else
        ((float *)to)[i] = (float)x;
}

double interp_at(const Interp *t, uint32_t id, int64_t i) {
    return t->f64 ? ((double *)t->value[id])[i] : (double)((float *)t->value[id])[i];
}

double test_number(uint64_t key) {
    key = (key + 1) * 0x9E3779B97F4A7C15u;
    key = (key ^ key >> 30) * 0xBF58476D1CE4E5B9u;
    key = (key ^ key >> 27) * 0x94D049BB133111EBu;
    return (double)((key ^ key >> 31) >> 11) * 0x1p-52 - 1;
}
