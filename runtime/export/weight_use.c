// weight_use.c - see weight_use.h.
//
// A node holds a weight's own numbers if it reads them, or only moves what holds them. What a node
// of a sample's type computes from such a node has used the weight as it is.
#include "weight_use.h"

static bool keeps_numbers(const Graph *g, uint32_t id) {
    const Node *n = graph_node(g, id);
    return n->nin == 1 && (op_info[n->op].cls == ClassMOVE || n->op == OpCast || n->op == OpPin ||
                           n->op == OpStop);
}

static bool computes(const Node *n) {
    uint8_t cls = op_info[n->op].cls;
    return cls == ClassEW || cls == ClassREDUCE || cls == ClassMOVE || cls == ClassANCHOR;
}

static void note_use(const Graph *g, uint32_t id, uint32_t from, WeightUse *use) {
    bool sampled = node_type(g, id)->batched;
    use->plain |= sampled;
    use->computed |= !sampled && !keeps_numbers(g, id);
    if (graph_node(g, id)->op == OpPermute && graph_node(g, from)->op == OpRead)
        use->rows = (uint32_t)node_attr(g, id)->i[1];
}

static void look_at(Arena scratch, const Func *f, WeightUse *use) {
    const Graph *g = &f->g;
    uint32_t *of = arena_array(&scratch, uint32_t, g->node.n); // 1 + the slot whose numbers it has
    for (uint32_t i = 1; i < g->node.n; i++) {
        const Node *n = graph_node(g, i);
        if (n->op == OpRead)
            of[i] = 1 + node_slot(g, i);
        for (uint32_t k = 0; computes(n) && k < n->nin; k++) {
            uint32_t from = node_in(g, i, k);
            if (!of[from])
                continue;
            note_use(g, i, from, &use[of[from] - 1]);
            if (keeps_numbers(g, i) && !node_type(g, i)->batched)
                of[i] = of[from];
        }
    }
}

WeightUse *weight_uses(Arena *a, const Module *m) {
    WeightUse *use = arena_array(a, WeightUse, m->slot.n);
    look_at(*a, &m->step, use);
    for (uint32_t i = 0; i < m->entry.n; i++)
        look_at(*a, &m->entry.at[i], use);
    return use;
}
