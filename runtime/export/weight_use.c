// weight_use.c - see weight_use.h.
//
// A node holds a weight's own numbers if it reads them, or only moves what holds them. What a node
// of a sample's type computes from such a node has used the weight as it is; so has a product with
// what comes from outside of the layer: another's weights, or a draw for all samples.
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

static bool in_layer_of(const Module *m, uint32_t slot, uint32_t owner) {
    Str name = m->slot.at[slot].name, of = m->slot.at[owner].name;
    size_t last = of.len;
    while (last && of.ptr[last - 1] != '.')
        last--;
    return str_starts(name, str_sub(of, 0, last));
}

// What a node is computed from: 0, constants; 1 + a slot, the layer of that slot; else Anything.
static const uint32_t Anything = UINT32_MAX;

static uint32_t common_layer(const Module *m, uint32_t a, uint32_t b) {
    if (a == Anything || b == Anything)
        return Anything;
    if (!a || !b)
        return a | b;
    return in_layer_of(m, a - 1, b - 1) ? b : in_layer_of(m, b - 1, a - 1) ? a : Anything;
}

// Of all that node i is computed from; `layer` of the nodes before it is known.
static uint32_t layer_of(const Module *m, const Graph *g, uint32_t i, const uint32_t *layer) {
    const Node *n = graph_node(g, i);
    uint32_t all = op_info[n->op].cls == ClassRNG ? Anything : 0;
    if (n->op == OpRead) {
        SlotKind kind = m->slot.at[node_slot(g, i)].kind;
        all = kind == SlotParam || kind == SlotState ? 1 + node_slot(g, i) : Anything;
    }
    for (uint32_t k = 0; k < n->nin; k++)
        all = common_layer(m, all, layer[node_in(g, i, k)]);
    return all;
}

// Whether node i is a product of its k-th input, a weight, with what another layer gave.
static bool applies(const Module *m, const Graph *g, uint32_t i, uint32_t k, uint32_t weight,
                    const uint32_t *layer) {
    const Node *n = graph_node(g, i);
    bool other = false;
    for (uint32_t j = 0; op_info[n->op].cls == ClassANCHOR && j < n->nin; j++) {
        uint32_t from = layer[node_in(g, i, j)];
        other |= j != k && from && (from == Anything || !in_layer_of(m, from - 1, weight));
    }
    return other;
}

static void look_at(Arena scratch, const Module *m, const Func *f, WeightUse *use) {
    const Graph *g = &f->g;
    uint32_t *of = arena_array(&scratch, uint32_t, g->node.n); // 1 + the slot whose numbers it has
    uint32_t *layer = arena_array(&scratch, uint32_t, g->node.n);
    for (uint32_t i = 1; i < g->node.n; i++) {
        const Node *n = graph_node(g, i);
        if (n->op == OpRead)
            of[i] = 1 + node_slot(g, i);
        layer[i] = layer_of(m, g, i, layer);
        for (uint32_t k = 0; computes(n) && k < n->nin; k++) {
            uint32_t from = node_in(g, i, k);
            if (!of[from])
                continue;
            note_use(g, i, from, &use[of[from] - 1]);
            use[of[from] - 1].plain |= applies(m, g, i, k, of[from] - 1, layer);
            if (keeps_numbers(g, i) && !node_type(g, i)->batched)
                of[i] = of[from];
        }
    }
}

WeightUse *weight_uses(Arena *a, const Module *m) {
    WeightUse *use = arena_array(a, WeightUse, m->slot.n);
    look_at(*a, m, &m->step, use);
    for (uint32_t i = 0; i < m->entry.n; i++)
        look_at(*a, m, &m->entry.at[i], use);
    return use;
}
