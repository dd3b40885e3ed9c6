// ref.c - the reference device: every node by the op table's evaluator, in any precision; bf16 and
// f16 are computed in f32 and rounded. The oracle of every test.
//
// In: a plan of one node a region (PassOptions.no_fuse). Values lie in logical order. Nothing is
// fused and nothing is generated; a launch evaluates its node, a Write copies its operand into the
// slot.
#include "device.h"

#include <string.h>

struct Loaded {
    const Plan *plan; // borrowed
    Memory memory;    // borrowed
    Comm *comm;       // borrowed, may be NULL
    Arena arena;      // pointers below, constants, and scratch behind them
    void **value;     // [node.n], storage of every node that has one
};

static GanStatus ref_open(const DeviceOptions *o, Device **out) {
    Device *d = mem_alloc(sizeof *d);
    if (!d)
        return fail(GAN_ERR_MEMORY, "no memory for the reference device");
    *d = (Device){.api = &device_ref, .options = *o, .threads = device_threads_for(o->threads)};
    *out = d;
    return GAN_OK;
}

static void ref_close(Device *d) {
    mem_free(d);
}

static GanStatus ref_alloc(Device *d, size_t bytes, void **out) {
    (void)d;
    *out = mem_alloc_aligned(bytes ? bytes : 1, 64);
    return *out ? GAN_OK : fail(GAN_ERR_MEMORY, "the machine refused %zu bytes of memory", bytes);
}

static bool ref_supports(Dtype real) {
    return real < DtCount;
}

static void ref_unload(Loaded *l) {
    if (!l)
        return;
    arena_release(&l->arena);
    mem_free(l);
}

// A node from its operands as they are stored, to where it is stored.
static void eval_stored(const Graph *g, uint32_t id, const void *const *in, void *out,
                        const Counters *c, Arena scratch) {
    const Type *t = node_type(g, id);
    bool half = dtype_is_half((Dtype)t->dtype);
    int64_t n = type_elements(g, t);
    const void *wide[MAX_IN];
    for (uint32_t k = 0; k < graph_node(g, id)->nin; k++) {
        const Type *of = node_type(g, node_in(g, id, k));
        wide[k] = in[k];
        if (!dtype_is_half((Dtype)of->dtype))
            continue;
        float *x = arena_array(&scratch, float, type_elements(g, of));
        for (int64_t i = 0; i < type_elements(g, of); i++)
            x[i] = half_load((Dtype)of->dtype, ((const uint16_t *)in[k])[i]);
        wide[k] = x;
    }
    float *made = half ? arena_array(&scratch, float, n) : out;
    eval_node(g, id, wide, made, t->dtype == DtF64, c, scratch);
    for (int64_t i = 0; half && i < n; i++) // exact: eval_node has rounded
        ((uint16_t *)out)[i] = half_store((Dtype)t->dtype, made[i]);
}

// Constants have no storage in a plan: they are evaluated once, here.
static void bind(Loaded *l, uint32_t id) {
    const Graph *g = &l->plan->func->g;
    l->value[id] = memory_at(l->memory, l->plan, id);
    if (l->plan->place[id].space != SpaceInline)
        return;
    l->value[id] = arena_alloc(&l->arena, type_bytes(g, node_type(g, id)), 64);
    eval_stored(g, id, NULL, l->value[id], NULL, l->arena);
}

static GanStatus bind_all(void *user) {
    Loaded *l = user;
    uint32_t n = l->plan->func->g.node.n;
    l->value = arena_array(&l->arena, void *, n);
    for (uint32_t id = 1; id < n; id++)
        bind(l, id);
    return GAN_OK;
}

static GanStatus ref_load(Device *d, const Plan *plan, void *slots, void *work, Loaded **out) {
    TRY(collective_check(plan, d->options.comm));
    Loaded *l = mem_alloc(sizeof *l);
    if (!l)
        return fail(GAN_ERR_MEMORY, "no memory to load a plan");
    *l = (Loaded){.plan = plan, .memory = {slots, work}, .comm = d->options.comm};
    GanStatus st = arena_init(&l->arena, 0);
    if (st == GAN_OK)
        st = arena_guard(&l->arena, "to load a plan", bind_all, l);
    if (st == GAN_OK)
        *out = l;
    else
        ref_unload(l);
    return st;
}

static void run_node(Loaded *l, uint32_t id, const Counters *c) {
    const Graph *g = &l->plan->func->g;
    const Node *node = graph_node(g, id);
    const void *in[MAX_IN];
    for (uint32_t k = 0; k < node->nin; k++) {
        in[k] = l->value[node_in(g, id, k)];
        if (!in[k])
            bug("ref: operand %u of node %u (%s) is not stored", k, id, op_info[node->op].text);
    }
    bool wide = node_type(g, id)->dtype == DtF64;
    if (node->op == OpCast && wide != (node_type(g, node_in(g, id, 0))->dtype == DtF64))
        plain_cast(in[0], l->value[id], type_elements(g, node_type(g, id)), wide);
    else if (node->op == OpWrite)
        memmove(l->value[id], in[0], type_bytes(g, node_type(g, id)));
    else if (node->op != OpRead)
        eval_stored(g, id, in, l->value[id], c, l->arena);
}

static GanStatus run_region(Loaded *l, const Region *r, const Counters *c) {
    if (r->kind == RegionStart)
        return collective_start(l->plan, r->call, l->memory, l->comm, c->step);
    if (r->kind == RegionWait)
        return comm_wait(l->comm, r->call);
    if (r->kind == RegionCopy) {
        SlotCopy copy = memory_copy(l->memory, l->plan, r);
        memcpy(copy.to, copy.from, copy.bytes);
        return GAN_OK;
    }
    for (uint32_t j = 0; j < r->node.n; j++)
        run_node(l, r->node.at[j], c);
    return GAN_OK;
}

typedef struct Launching {
    Loaded *loaded; // borrowed
    Launch launch;
    const Counters *c;
} Launching;

static GanStatus run_launch(void *user) {
    const Launching *x = user;
    const Plan *p = x->loaded->plan;
    for (uint32_t k = 0; k < x->launch.instances; k++)
        TRY(run_region(x->loaded, &p->region.at[p->merge.at[x->launch.first + k]], x->c));
    return GAN_OK;
}

static GanStatus ref_launch(Loaded *l, uint32_t block, uint32_t index, const Counters *c) {
    (void)block;
    Launching x = {l, l->plan->launch.at[index], c};
    return arena_guard(&l->arena, "to evaluate an operation", run_launch, &x);
}

static GanStatus ref_run(Loaded *l, uint32_t block, const Counters *c) {
    Section b = l->plan->section.at[block];
    for (uint32_t i = b.first; i < b.first + b.n; i++)
        TRY(ref_launch(l, block, i, c));
    return GAN_OK;
}

const DeviceApi device_ref = {
    .name = "ref",
    .dialect = NULL,
    .logical = true,
    .no_fuse = true,
    .open = ref_open,
    .close = ref_close,
    .alloc = ref_alloc,
    .release = host_release,
    .put = host_copy,
    .get = host_copy,
    .load = ref_load,
    .unload = ref_unload,
    .run = ref_run,
    .launch = ref_launch,
    .sync = host_sync,
    .supports = ref_supports,
};
