// epilogue.c - recognizes elementwise regions that a library can run as the epilogue of a call:
// act(x + bias), with one bias per channel, where x is the result of a convolution or product.
//
// In: a plan with buffers assigned. Out: facts about it; nothing is decided here. The layers of
// generators are input gradients (ConvDx), which count as convolutions.
#include "program.h"

const char *const act_name[] = {
    [ActNone] = "none", [ActRelu] = "relu", [ActLeaky] = "leaky_relu", [ActTanh] = "tanh"};

// --- the region ----------------------------------------------------------------------------------

typedef struct Readers {
    const Plan *p;
    uint32_t *only;   // [node] the only region that reads it, NONE
    uint32_t *launch; // [region]
} Readers;

static Readers find_readers(Arena *a, const Plan *p) {
    uint32_t nodes = p->func->g.node.n;
    Readers s = {p, arena_array(a, uint32_t, nodes), arena_array(a, uint32_t, p->region.n)};
    uint8_t *seen = arena_array(a, uint8_t, nodes);
    for (uint32_t id = 0; id < nodes; id++)
        s.only[id] = NONE;
    for (uint32_t r = 0; r < p->region.n; r++)
        for (uint32_t i = 0; i < p->region.at[r].in.n; i++) {
            uint32_t id = p->region.at[r].in.at[i];
            s.only[id] = seen[id] ? NONE : r;
            seen[id] = 1;
        }
    for (uint32_t i = 0; i < p->launch.n; i++)
        for (uint32_t k = 0; k < p->launch.at[i].instances; k++)
            s.launch[p->merge.at[p->launch.at[i].first + k]] = i;
    return s;
}

static bool same_place(const Place *a, const Place *b) {
    return a->space == SpaceWork && b->space == SpaceWork && a->offset == b->offset;
}

// One value that lies where the call's did, and so looks like it, and nothing else of any size.
static bool is_plain(const Plan *p, const Region *call, const Region *r) {
    uint32_t made = call->out.at[0], result = r->out.at[0];
    return r->kind == RegionLoop && r->block == call->block && r->out.n == 1 &&
           node_type(&p->func->g, made)->batched && same_place(&p->place[made], &p->place[result]);
}

// --- the expression ------------------------------------------------------------------------------

static uint32_t uncast(const Graph *g, uint32_t id) {
    while (graph_node(g, id)->op == OpCast)
        id = node_in(g, id, 0);
    return id;
}

// Of act(x) the x, which is `id` itself where there is no act.
static uint32_t read_act(const Graph *g, uint32_t id, Epilogue *out) {
    double c;
    out->act = ActNone;
    if (graph_node(g, id)->op == OpTanh) {
        out->act = ActTanh;
        return uncast(g, node_in(g, id, 0));
    }
    SignSelect y;
    if (!node_selects_by_sign(g, id, &y))
        return id;
    if (node_is_const(g, y.below, &c) && c == 0)
        out->act = ActRelu;
    for (uint32_t k = 0; graph_node(g, y.below)->op == OpMul && k < 2; k++)
        if (node_in(g, y.below, k) == y.x && node_is_const(g, node_in(g, y.below, 1 - k), &c)) {
            out->act = ActLeaky;
            out->slope = c;
        }
    return out->act == ActNone ? id : uncast(g, y.x);
}

// Is the value there when call `region` is made?
static bool is_there(const Readers *s, uint32_t id, uint32_t region) {
    const Plan *p = s->p;
    Place at = p->place[id];
    uint32_t maker = p->region_of[at.owner];
    if (at.space != SpaceSlot && at.space != SpaceWork)
        return false;
    return maker == NONE || p->region.at[maker].block != p->region.at[region].block ||
           s->launch[maker] < s->launch[region];
}

static bool is_bias(const Plan *p, uint32_t id, int64_t channels) {
    const Type *t = node_type(&p->func->g, id);
    return !t->batched && t->rank >= 1 && t->dim[0] == channels && type_sample(t) == channels;
}

// Of x + bias the x.
static uint32_t read_bias(const Readers *s, uint32_t region, uint32_t id, Epilogue *out) {
    const Plan *p = s->p;
    const Graph *g = &p->func->g;
    uint32_t made = p->region.at[region].out.at[0];
    out->bias = 0;
    for (uint32_t k = 0; graph_node(g, id)->op == OpAdd && k < 2; k++) {
        uint32_t x = uncast(g, node_in(g, id, k)), b = node_in(g, id, 1 - k);
        if (x == made && is_bias(p, b, node_type(g, made)->dim[0]) && is_there(s, b, region)) {
            out->bias = p->place[b].owner;
            return x;
        }
    }
    return id;
}

static bool find_epilogue(const Readers *s, uint32_t region, Epilogue *out) {
    const Plan *p = s->p;
    const Graph *g = &p->func->g;
    const Region *call = &p->region.at[region];
    uint32_t made = call->node.at[0];
    Op op = (Op)graph_node(g, made)->op;
    if (call->kind != RegionCall ||
        !(op == OpConv || op == OpConvDx || (op == OpDot && node_type(g, made)->rank == 1)))
        return false;
    *out = (Epilogue){.region = s->only[call->out.at[0]]};
    if (out->region == NONE || !is_plain(p, call, &p->region.at[out->region]))
        return false;
    const Region *r = &p->region.at[out->region];
    out->result = r->out.at[0];
    uint32_t inner = read_act(g, uncast(g, out->result), out);
    return read_bias(s, region, inner, out) == made && (out->act != ActNone || out->bias);
}

Epilogue *plan_epilogues(Arena *a, const Plan *p) {
    Epilogue *epilogue = arena_array(a, Epilogue, p->region.n);
    Readers s = find_readers(a, p);
    for (uint32_t r = 0; r < p->region.n; r++)
        if (!find_epilogue(&s, r, &epilogue[r]))
            epilogue[r] = (Epilogue){.region = NONE};
    return epilogue;
}
