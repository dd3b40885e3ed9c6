// exec_values.c - reads and writes slots and values on a device: as numbers in logical order, or as
// bytes in logical order for checkpoints.
#include "exec_internal.h"

#include <math.h>

GanStatus exec_staging(Exec *e, size_t bytes) {
    if (bytes <= e->staged)
        return GAN_OK;
    double *grown = mem_realloc(e->staging, bytes);
    if (!grown)
        return fail(GAN_ERR_MEMORY, "no memory to stage %zu bytes", bytes);
    e->staging = grown;
    e->staged = bytes;
    return GAN_OK;
}

// Where a value lies and what it looks like.
typedef struct Stored {
    Type type;
    char *at;
    int64_t batch, elements;
} Stored;

static void slot_touched(Exec *e, uint32_t slot) {
    e->fresh =
        e->fresh && !slot_outlives(&e->module->slot.at[slot]); // to which `init` gives values
}

static Stored slot_stored(Exec *e, uint32_t slot) {
    const Slot *s = &e->module->slot.at[slot];
    int64_t batch = s->type.batched ? e->module->batch : 1;
    return (Stored){s->type, (char *)e->slots + s->offset, batch, batch * type_sample(&s->type)};
}

static GanStatus check_count(Stored v, size_t n, Str name) {
    return n == (size_t)v.elements ? GAN_OK
                                   : fail(GAN_ERR_INPUT, "%.*s: %zu numbers given, %lld needed",
                                          SARG(name), n, (long long)v.elements);
}

// Bytes in logical order, of the value's own dtype.
static GanStatus stored_put_bytes(Exec *e, Stored v, const void *bytes) {
    size_t n = (size_t)v.elements * dtype_size[v.type.dtype];
    LayoutWalk w;
    walk_init(&w, &v.type, v.batch, e->api->logical);
    if (walk_in_order(&w))
        return e->api->put(e->device, v.at, bytes, n);
    TRY(exec_staging(e, n));
    layout_store(&w, (Dtype)v.type.dtype, bytes, e->staging);
    return e->api->put(e->device, v.at, e->staging, n);
}

static GanStatus stored_put(Exec *e, Stored v, const double *x, const float *xf, size_t n,
                            Str name) {
    TRY(check_count(v, n, name));
    if (xf && v.type.dtype == DtF32)
        return stored_put_bytes(e, v, xf);
    Dtype dtype = (Dtype)v.type.dtype;
    TRY(exec_staging(e, n * dtype_size[dtype]));
    LayoutWalk w;
    walk_init(&w, &v.type, v.batch, e->api->logical);
    for (size_t i = 0; i < n; i++)
        value_put(e->staging, walk_next(&w), dtype, x ? x[i] : (double)xf[i]);
    return e->api->put(e->device, v.at, e->staging, n * dtype_size[dtype]);
}

static GanStatus stored_get(Exec *e, Stored v, double *x, size_t n, Str name) {
    if (n != (size_t)v.elements)
        return fail(GAN_ERR_INPUT, "%.*s: room for %zu numbers, %lld needed", SARG(name), n,
                    (long long)v.elements);
    Dtype dtype = (Dtype)v.type.dtype;
    TRY(exec_staging(e, n * dtype_size[dtype]));
    TRY(e->api->get(e->device, e->staging, v.at, n * dtype_size[dtype]));
    LayoutWalk w;
    walk_init(&w, &v.type, v.batch, e->api->logical);
    for (size_t i = 0; i < n; i++)
        x[i] = value_get(e->staging, walk_next(&w), dtype);
    return GAN_OK;
}

// Slots that are filled for each step are no tail's business.
static GanStatus finish_for(Exec *e, uint32_t slot) {
    SlotKind kind = e->module->slot.at[slot].kind;
    bool filled = kind == SlotData || kind == SlotScalar || kind == SlotFed;
    return filled ? GAN_OK : exec_tails(e);
}

GanStatus exec_slot_put(Exec *e, uint32_t slot, const double *x, size_t n) {
    TRY(finish_for(e, slot));
    slot_touched(e, slot);
    return stored_put(e, slot_stored(e, slot), x, NULL, n, e->module->slot.at[slot].name);
}

GanStatus exec_slot_put_f32(Exec *e, uint32_t slot, const float *x, size_t n) {
    TRY(finish_for(e, slot));
    slot_touched(e, slot);
    return stored_put(e, slot_stored(e, slot), NULL, x, n, e->module->slot.at[slot].name);
}

GanStatus exec_slot_get(Exec *e, uint32_t slot, double *x, size_t n) {
    TRY(finish_for(e, slot));
    return stored_get(e, slot_stored(e, slot), x, n, e->module->slot.at[slot].name);
}

size_t exec_slot_bytes(const Exec *e, uint32_t slot) {
    const Type *t = &e->module->slot.at[slot].type;
    assert(!t->batched);
    return (size_t)type_sample(t) * dtype_size[t->dtype];
}

GanStatus exec_slot_save(Exec *e, uint32_t slot, void *bytes) {
    Stored v = slot_stored(e, slot);
    size_t n = exec_slot_bytes(e, slot);
    LayoutWalk w;
    TRY(finish_for(e, slot));
    walk_init(&w, &v.type, v.batch, e->api->logical);
    if (walk_in_order(&w))
        return e->api->get(e->device, bytes, v.at, n);
    TRY(exec_staging(e, n));
    TRY(e->api->get(e->device, e->staging, v.at, n));
    layout_load(&w, (Dtype)v.type.dtype, e->staging, bytes);
    return GAN_OK;
}

GanStatus exec_slot_load(Exec *e, uint32_t slot, const void *bytes) {
    TRY(finish_for(e, slot));
    slot_touched(e, slot);
    return stored_put_bytes(e, slot_stored(e, slot), bytes);
}

static char *value_at(const Exec *e, const Plan *p, uint32_t node) {
    Place place = p->place[node];
    if (place.space == SpaceNone || place.space == SpaceInline)
        bug("exec: node %u (%s) is not stored", node,
            op_info[graph_node(&p->func->g, node)->op].text);
    void *work = p == e->plan[FuncInit] ? e->init_work : e->work;
    return (char *)(place.space == SpaceSlot ? e->slots : work) + place.offset;
}

GanStatus exec_value_get(Exec *e, const Plan *p, uint32_t node, double *x, size_t n) {
    const Graph *g = &p->func->g;
    Type type = *node_type(g, node);
    double number;
    if (node_is_const(g, node, &number)) { // may have no storage at all
        for (size_t i = 0; i < n; i++)
            x[i] = number;
        return GAN_OK;
    }
    int64_t batch = type.batched ? g->batch : 1;
    Stored v = {type, value_at(e, p, node), batch, batch * type_sample(&type)};
    return stored_get(e, v, x, n, STR("value"));
}

uint32_t exec_fetches(const Exec *e) {
    return e->api->fetches;
}

GanStatus exec_fetch_number(Exec *e, const Plan *p, uint32_t node, FetchedNumber *out) {
    const Type *t = node_type(&p->func->g, node);
    assert(!t->batched && type_sample(t) == 1);
    *out = (FetchedNumber){.dtype = (Dtype)t->dtype};
    out->there = !e->api->fetches || node_is_const(&p->func->g, node, &out->value);
    if (out->there)
        return exec_value_get(e, p, node, &out->value, 1);
    return e->api->fetch(e->device, value_at(e, p, node), dtype_size[t->dtype], &out->ticket);
}

GanStatus exec_fetched_number(Exec *e, const FetchedNumber *f, double *x) {
    double stored = 0;
    if (f->there) {
        *x = f->value;
        return GAN_OK;
    }
    TRY(e->api->fetched(e->device, f->ticket, &stored, dtype_size[f->dtype]));
    *x = value_get(&stored, 0, f->dtype);
    return GAN_OK;
}

GanStatus exec_value_save(Exec *e, const Plan *p, uint32_t node, void *bytes) {
    return e->api->get(e->device, bytes, value_at(e, p, node),
                       type_bytes(&p->func->g, node_type(&p->func->g, node)));
}

GanStatus exec_value_load(Exec *e, const Plan *p, uint32_t node, const void *bytes) {
    return e->api->put(e->device, value_at(e, p, node), bytes,
                       type_bytes(&p->func->g, node_type(&p->func->g, node)));
}

bool values_finite(const void *bytes, size_t n, Dtype dtype) {
    const uint64_t *x8 = bytes;
    const uint32_t *x4 = bytes;
    const uint16_t *x2 = bytes;
    bool bad = false; // all ones in the exponent
    switch (dtype) {
    case DtF64:
        for (size_t i = 0; i < n / 8; i++)
            bad |= (x8[i] >> 52 & 0x7ff) == 0x7ff;
        break;
    case DtF32:
        for (size_t i = 0; i < n / 4; i++)
            bad |= (x4[i] >> 23 & 0xff) == 0xff;
        break;
    case DtBF16:
        for (size_t i = 0; i < n / 2; i++)
            bad |= (x2[i] >> 7 & 0xff) == 0xff;
        break;
    case DtF16:
        for (size_t i = 0; i < n / 2; i++)
            bad |= (x2[i] >> 10 & 0x1f) == 0x1f;
        break;
    case DtCount:
        break;
    }
    return !bad;
}
