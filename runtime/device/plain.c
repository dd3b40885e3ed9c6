// plain.c - values and regions without any library or compiler: the cpu device's fallback.
//
// In: values in a device's layout. Out: the same, computed by the reference evaluator, one member
// at a time: in float, or in double what is of f64.
#include "device.h"
#include "half.h"
#include "layout.h"

#include <string.h>

void *memory_at(Memory m, const Plan *p, uint32_t node) {
    Place at = p->place[node];
    switch (at.space) {
    case SpaceSlot:
        return m.slots + at.offset;
    case SpaceWork:
        return m.work + at.offset;
    case SpaceInline:
    case SpaceNone:
        break;
    }
    return NULL;
}

void *memory_need(Memory m, const Plan *p, uint32_t node) {
    void *at = memory_at(m, p, node);
    if (!at)
        bug("node %u (%s) is not stored", node, op_info[graph_node(&p->func->g, node)->op].text);
    return at;
}

SlotCopy memory_copy(Memory m, const Plan *p, const Region *r) {
    const Graph *g = &p->func->g;
    uint32_t read = r->node.at[0];
    return (SlotCopy){memory_need(m, p, read), m.slots + slot_value_at(p, read),
                      type_bytes(g, node_type(g, read))};
}

// --- layout --------------------------------------------------------------------------------------

void floats_to_bf16(const float *from, uint16_t *to, int64_t n) {
    for (int64_t i = 0; i < n; i++)
        to[i] = gan_f32_to_bf16(from[i]);
}

void value_load(const Graph *g, const Type *t, const void *from, float *to) {
    LayoutWalk w;
    int64_t n = type_elements(g, t);
    walk_init(&w, t, g->batch, false);
    for (int64_t i = 0; i < n; i++)
        to[i] = (float)value_get(from, walk_next(&w), (Dtype)t->dtype);
}

void value_store(const Graph *g, const Type *t, const float *from, void *to) {
    LayoutWalk w;
    int64_t n = type_elements(g, t);
    walk_init(&w, t, g->batch, false);
    for (int64_t i = 0; i < n; i++)
        value_put(to, walk_next(&w), (Dtype)t->dtype, (double)from[i]);
}

// --- regions -------------------------------------------------------------------------------------

typedef struct Eval {
    const Plan *p;
    const Graph *g;
    Memory m;
    const Counters *c;
    Arena *arena;
    const void **value; // [node.n] logical values known so far: doubles of f64, else floats
} Eval;

static bool is_wide(const Type *t) {
    return t->dtype == DtF64;
}

// Of f64 are sums on their way to other ranks, in a plan of any precision.
static void load(const Graph *g, const Type *t, const void *from, void *to) {
    LayoutWalk w;
    walk_init(&w, t, g->batch, false);
    if (is_wide(t))
        layout_load(&w, DtF64, from, to);
    else
        value_load(g, t, from, to);
}

static void store(const Graph *g, const Type *t, const void *from, void *to) {
    LayoutWalk w;
    walk_init(&w, t, g->batch, false);
    if (is_wide(t))
        layout_store(&w, DtF64, from, to);
    else
        value_store(g, t, from, to);
}

void plain_cast(const void *from, void *to, int64_t n, bool wide) {
    for (int64_t i = 0; i < n; i++)
        if (wide)
            ((double *)to)[i] = ((const float *)from)[i];
        else
            ((float *)to)[i] = (float)((const double *)from)[i];
}

static void eval_member(Eval *e, uint32_t id, const void *const *in, void *out) {
    const Node *node = graph_node(e->g, id);
    const Type *t = node_type(e->g, id);
    bool wide = is_wide(t);
    int64_t n = type_elements(e->g, t);
    if (node->op == OpWrite)
        memcpy(out, in[0], (size_t)n * (wide ? sizeof(double) : sizeof(float)));
    else if (node->op == OpCast && wide != is_wide(node_type(e->g, node_in(e->g, id, 0))))
        plain_cast(in[0], out, n, wide);
    else
        eval_node(e->g, id, in, out, wide, e->c, *e->arena);
}

// The value of a node the region uses: computed before, read from memory, or a leaf or view
// evaluated here.
static const void *eval_value(Eval *e, uint32_t id, bool member) {
    if (e->value[id])
        return e->value[id];
    const Type *t = node_type(e->g, id);
    void *out = arena_array(e->arena, double, type_elements(e->g, t)); // or as many floats
    const Node *node = graph_node(e->g, id);
    void *at = memory_at(e->m, e->p, id);
    if (at && e->p->place[id].owner == id && !member) {
        load(e->g, t, at, out);
    } else {
        const void *in[MAX_IN] = {0};
        for (uint32_t k = 0; k < node->nin; k++)
            in[k] = eval_value(e, node_in(e->g, id, k), false);
        eval_member(e, id, in, out);
    }
    e->value[id] = out;
    return out;
}

typedef struct PlainRegion {
    Eval e;
    const Region *r;
} PlainRegion;

static GanStatus eval_region(void *user) {
    PlainRegion *x = user;
    Eval *e = &x->e;
    e->value = arena_array(e->arena, const void *, e->g->node.n);
    for (uint32_t i = 0; i < x->r->node.n; i++)
        eval_value(e, x->r->node.at[i], true);
    for (uint32_t i = 0; i < x->r->out.n; i++) {
        uint32_t id = x->r->out.at[i];
        store(e->g, node_type(e->g, id), e->value[id], memory_at(e->m, e->p, id));
    }
    return GAN_OK;
}

GanStatus plain_region(const Plan *p, const Region *r, Memory m, const Counters *c) {
    Arena arena;
    TRY(arena_init(&arena, 0));
    PlainRegion x = {{p, &p->func->g, m, c, &arena, NULL}, r};
    GanStatus st = arena_guard(&arena, "to compute a region by plain loops", eval_region, &x);
    arena_release(&arena);
    return st;
}
