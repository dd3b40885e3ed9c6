// plain.c - values and regions without any library or compiler: what the cpu device falls back to.
//
// In: values in a device's layout. Out: the same, computed by the reference evaluator in float, one
// member at a time.
#include "device.h"

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

static float bf16_float(uint16_t x) {
    uint32_t bits = (uint32_t)x << 16;
    float y;
    memcpy(&y, &bits, sizeof y);
    return y;
}

static uint16_t float_bf16(float x) { // to nearest, ties to even; NaN stays NaN
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    if ((bits & 0x7fffffff) > 0x7f800000)
        return (uint16_t)(bits >> 16 | 64);
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

void floats_to_bf16(const float *from, uint16_t *to, int64_t n) {
    for (int64_t i = 0; i < n; i++)
        to[i] = float_bf16(from[i]);
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

void value_load(const Graph *g, const Type *t, const void *from, float *to) {
    Walk w = walk_begin(t, g->batch);
    int64_t n = type_elements(g, t);
    for (int64_t i = 0; i < n; i++, walk_next(&w))
        to[i] = t->dtype == DtBF16 ? bf16_float(((const uint16_t *)from)[w.at])
                                   : ((const float *)from)[w.at];
}

void value_store(const Graph *g, const Type *t, const float *from, void *to) {
    Walk w = walk_begin(t, g->batch);
    int64_t n = type_elements(g, t);
    for (int64_t i = 0; i < n; i++, walk_next(&w))
        if (t->dtype == DtBF16)
            ((uint16_t *)to)[w.at] = float_bf16(from[i]);
        else
            ((float *)to)[w.at] = from[i];
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
