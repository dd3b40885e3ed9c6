// plain.c - values and regions without any library or compiler: what the cpu device falls back to.
//
// In: values in a device's layout. Out: the same, computed by the reference evaluator in float, one
// member at a time.
#include "device.h"
#include "half.h"

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

// --- layout --------------------------------------------------------------------------------------

void floats_to_bf16(const float *from, uint16_t *to, int64_t n) {
    for (int64_t i = 0; i < n; i++)
        to[i] = gan_f32_to_bf16(from[i]);
}

typedef struct Walk { // a value's elements in logical order
    int n;            // dimensions, the batch first
    int64_t extent[MAX_RANK + 1], stride[MAX_RANK + 1], index[MAX_RANK + 1];
    int64_t at; // element offset in the device's layout
} Walk;

static Walk walk_begin(const Type *t, int64_t batch) {
    Walk w = {.n = t->rank + 1};
    type_strides(t, w.stride);
    w.extent[0] = t->batched ? batch : 1;
    memcpy(w.extent + 1, t->dim, t->rank * sizeof *t->dim);
    return w;
}

static void walk_next(Walk *w) {
    for (int i = w->n; i-- > 0;) {
        w->at += w->stride[i];
        if (++w->index[i] < w->extent[i])
            return;
        w->at -= w->stride[i] * w->extent[i];
        w->index[i] = 0;
    }
}

static float load_one(Dtype type, const void *from, int64_t at) {
    return dtype_is_half(type) ? half_load(type, ((const uint16_t *)from)[at])
                               : ((const float *)from)[at];
}

static void store_one(Dtype type, void *to, int64_t at, float x) {
    if (dtype_is_half(type))
        ((uint16_t *)to)[at] = half_store(type, x);
    else
        ((float *)to)[at] = x;
}

void value_load(const Graph *g, const Type *t, const void *from, float *to) {
    Walk w = walk_begin(t, g->batch);
    int64_t n = type_elements(g, t);
    for (int64_t i = 0; i < n; i++, walk_next(&w))
        to[i] = load_one((Dtype)t->dtype, from, w.at);
}

void value_store(const Graph *g, const Type *t, const float *from, void *to) {
    Walk w = walk_begin(t, g->batch);
    int64_t n = type_elements(g, t);
    for (int64_t i = 0; i < n; i++, walk_next(&w))
        store_one((Dtype)t->dtype, to, w.at, from[i]);
}

// --- regions -------------------------------------------------------------------------------------

typedef struct Eval {
    const Plan *p;
    const Graph *g;
    Memory m;
    const Counters *c;
    Arena *arena;
    const float **value; // [node.n] logical values known so far
} Eval;

// The value of a node the region uses: computed before, read from memory, or a leaf or view
// evaluated here.
static const float *eval_value(Eval *e, uint32_t id, bool member) {
    if (e->value[id])
        return e->value[id];
    const Type *t = node_type(e->g, id);
    float *out = arena_array(e->arena, float, type_elements(e->g, t));
    const Node *node = graph_node(e->g, id);
    void *at = memory_at(e->m, e->p, id);
    bool stored_here = at && e->p->place[id].owner == id && !member;
    if (stored_here) {
        value_load(e->g, t, at, out);
    } else {
        const void *in[64] = {0};
        for (uint32_t k = 0; k < node->nin; k++)
            in[k] = eval_value(e, node_in(e->g, id, k), false);
        if (node->op == OpWrite)
            memcpy(out, in[0], sizeof *out * (size_t)type_elements(e->g, t));
        else
            eval_node(e->g, id, in, out, false, e->c, *e->arena);
    }
    e->value[id] = out;
    return out;
}

GanStatus plain_region(const Plan *p, const Region *r, Memory m, const Counters *c) {
    Arena arena;
    TRY(arena_init(&arena, 0));
    const Graph *g = &p->func->g;
    Eval e = {p, g, m, c, &arena, arena_array(&arena, const float *, g->node.n)};
    for (uint32_t i = 0; i < r->node.n; i++)
        eval_value(&e, r->node.at[i], true);
    for (uint32_t i = 0; i < r->out.n; i++) {
        uint32_t id = r->out.at[i];
        value_store(g, node_type(g, id), e.value[id], memory_at(m, p, id));
    }
    arena_release(&arena);
    return GAN_OK;
}
