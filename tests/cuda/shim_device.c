// shim_device.c - see shim_device.h.
#include "shim_device.h"

#include <setjmp.h>
#include <string.h>

#include <cmocka.h>
#include "region_check.h"
#include "shim_region.h"

#define refuse (fail) // the status; the test framework has a macro of that name

enum {
    MOST_ELEMENTS = 1 << 18, // of a region's operands
};
#define MOST_GFLOP 0.005 // of a call

typedef struct ShimDevice {
    Device base;
    ShimCount count;
} ShimDevice;

struct Loaded {
    ShimDevice *device;
    const Plan *plan;
    Memory memory;
    Arena arena;
    ShimPlans shim;
};

// --- the vtable's small parts --------------------------------------------------------------------

static GanStatus open_as(const DeviceApi *api, const DeviceOptions *o, Device **out) {
    ShimDevice *d = mem_alloc(sizeof *d);
    if (!d)
        return refuse(GAN_ERR_MEMORY, "no memory for a device");
    d->base = (Device){.api = api, .options = *o, .threads = 1};
    *out = &d->base;
    return GAN_OK;
}

static GanStatus shim_device_open(const DeviceOptions *o, Device **out) {
    return open_as(&device_shim, o, out);
}

static GanStatus shim_alone_open(const DeviceOptions *o, Device **out) {
    return open_as(&device_shim_alone, o, out);
}

bool shim_device_works(void) {
    ShimCode *code = NULL;
    Str name = STR("k"), text = STR("extern \"C\" __global__ void k(int *x) { x[0] = 1; }");
    if (shim_compile(text, &name, 1, &code) != GAN_OK)
        fail_msg("%s", gan_error());
    bool works = code;
    shim_free(code);
    return works;
}

static void shim_device_close(Device *d) {
    mem_free(d);
}

ShimCount shim_device_count(const Device *d) {
    return ((const ShimDevice *)d)->count;
}

static GanStatus shim_device_alloc(Device *d, size_t bytes, void **out) {
    (void)d;
    *out = mem_alloc_aligned(bytes ? bytes : 1, 64);
    return *out ? GAN_OK : refuse(GAN_ERR_MEMORY, "no memory for %zu bytes", bytes);
}

static void shim_device_unload(Loaded *l) {
    if (!l)
        return;
    shim_plans_end(&l->shim);
    arena_release(&l->arena);
    mem_free(l);
}

static GanStatus shim_device_load(Device *d, const Plan *plan, void *slots, void *work,
                                  Loaded **out) {
    Loaded *l = mem_alloc(sizeof *l);
    if (!l)
        return refuse(GAN_ERR_MEMORY, "no memory to load a plan");
    *l = (Loaded){.device = (ShimDevice *)d, .plan = plan, .memory = {slots, work}};
    TRY(collective_check(plan, d->options.comm));
    TRY(arena_init(&l->arena, 0));
    shim_plans_begin(&l->shim, &l->arena, 1);
    shim_plans_add(&l->shim, plan);
    shim_plans_compile(&l->shim);
    l->shim.what = plan->func->name.ptr;
    *out = l;
    return l->shim.code ? GAN_OK : refuse(GAN_ERR_DEVICE, "no C++ compiler runs CUDA kernels here");
}

// --- comparing -----------------------------------------------------------------------------------

static void compare(const Loaded *l, const RegionCheck *x, uint32_t node, const void *is,
                    const void *right) {
    RegionDiffers d = region_check_value(x, node, is, right);
    if (d.elements)
        fail_msg("%s, region %u: %lld of %lld elements of %%%u (%s) differ, element %lld is %.9g, "
                 "not %.9g (of at most %.3g)\n%.*s",
                 l->shim.what, (uint32_t)(x->r - l->plan->region.at), (long long)d.elements,
                 (long long)d.of, node, op_info[graph_node(&l->plan->func->g, node)->op].text,
                 (long long)d.first, (double)d.is, (double)d.right, d.most,
                 SARG(l->plan->kernel.at[x->r->kernel].source));
}

// --- running -------------------------------------------------------------------------------------

// Addresses of a region's operands.
static void **operands(Loaded *l, const Region *r) {
    void **at = arena_array(&l->arena, void *, r->in.n + r->out.n);
    uint32_t n = 0;
    for (uint32_t i = 0; i < r->in.n; i++)
        at[n++] = memory_at(l->memory, l->plan, r->in.at[i]);
    for (uint32_t i = 0; i < r->out.n; i++)
        at[n++] = memory_at(l->memory, l->plan, r->out.at[i]);
    return at;
}

static bool is_large(const Plan *p, const Region *r) {
    const Graph *g = &p->func->g;
    int64_t n = 0;
    for (uint32_t i = 0; i < r->in.n + r->out.n; i++) {
        uint32_t id = i < r->in.n ? r->in.at[i] : r->out.at[i - r->in.n];
        n += type_elements(g, node_type(g, id));
    }
    return n > MOST_ELEMENTS ||
           (r->kind == RegionCall && node_gflop(g, r->node.at[0]) > MOST_GFLOP);
}

// Copies what regions store out of memory, or back into it.
static size_t exchange(const Loaded *l, const ShimRegion *x, uint32_t n, char *kept, bool back) {
    const Graph *g = &l->plan->func->g;
    size_t at = 0;
    for (uint32_t i = 0; i < n; i++) {
        for (uint32_t k = 0; k < x[i].r->out.n; k++) {
            size_t bytes = type_bytes(g, node_type(g, x[i].r->out.at[k]));
            void *memory = x[i].at[x[i].r->in.n + k];
            if (kept)
                memcpy(back ? memory : kept + at, back ? kept + at : memory, bytes);
            at += bytes;
        }
    }
    return at;
}

// Regions of one kernel, by their kernel and, unless that is alone, by the evaluator.
static GanStatus run_both(Loaded *l, const ShimRegion *x, uint32_t n, const Counters *c) {
    Arena mark = l->arena;
    if (l->device->base.api == &device_shim_alone) {
        shim_regions(&l->shim, l->plan, x, n, c, 0);
        return GAN_OK;
    }
    size_t bytes = exchange(l, x, n, NULL, false), at = 0;
    char *before = arena_alloc(&l->arena, bytes, 64), *is = arena_alloc(&l->arena, bytes, 64);
    RegionCheck *check = arena_array(&l->arena, RegionCheck, n);
    for (uint32_t i = 0; i < n; i++) {
        check[i] = (RegionCheck){l->plan, x[i].r, l->memory, c, &l->arena, NULL, NULL};
        region_check_begin(&check[i]);
    }
    exchange(l, x, n, before, false);
    shim_regions(&l->shim, l->plan, x, n, c, 0);
    exchange(l, x, n, is, false);
    exchange(l, x, n, before, true);
    for (uint32_t i = 0; i < n; i++) {
        const Region *r = x[i].r;
        TRY(plain_region(l->plan, r, l->memory, c));
        for (uint32_t k = 0; k < r->out.n; k++) {
            uint32_t id = r->out.at[k];
            compare(l, &check[i], id, is + at, x[i].at[r->in.n + k]);
            at += type_bytes(&l->plan->func->g, node_type(&l->plan->func->g, id));
        }
        if (r->kind == RegionCall)
            l->device->count.calls++;
        else
            l->device->count.regions++;
    }
    l->arena = mark;
    return GAN_OK;
}

static GanStatus run_plain(Loaded *l, const Region *r, const Counters *c) {
    Comm *comm = l->device->base.options.comm;
    if (r->kind == RegionStart)
        return collective_start(l->plan, r->call, l->memory, comm, c->step);
    if (r->kind == RegionWait)
        return comm_wait(comm, r->call);
    if (r->kind == RegionCopy) {
        SlotCopy copy = memory_copy(l->memory, l->plan, r);
        memcpy(copy.to, copy.from, copy.bytes);
        return GAN_OK;
    }
    l->device->count.large++;
    return plain_region(l->plan, r, l->memory, c);
}

// The instances of the launch from `from` on that share its kernel, if that takes several.
static uint32_t gather(Loaded *l, Launch launch, uint32_t from, bool *done, ShimRegion *x) {
    const Plan *p = l->plan;
    const uint32_t *of = p->merge.at + launch.first;
    uint32_t kernel = p->region.at[of[from]].kernel, n = 0;
    for (uint32_t i = from; i < launch.instances; i++) {
        const Region *r = &p->region.at[of[i]];
        if (r->kernel != kernel || is_large(p, r) || (n && !p->kernel.at[kernel].many))
            continue;
        x[n] = (ShimRegion){r, operands(l, r)};
        done[i] = true;
        n++;
    }
    return n;
}

static GanStatus run_launch(Loaded *l, Launch launch, const Counters *c) {
    const Plan *p = l->plan;
    Arena mark = l->arena;
    bool *done = arena_array(&l->arena, bool, launch.instances);
    ShimRegion *x = arena_array(&l->arena, ShimRegion, launch.instances);
    for (uint32_t i = 0; i < launch.instances; i++) {
        const Region *r = &p->region.at[p->merge.at[launch.first + i]];
        if (done[i])
            continue;
        if (r->kernel == NONE || is_large(p, r))
            TRY(run_plain(l, r, c));
        else
            TRY(run_both(l, x, gather(l, launch, i, done, x), c));
    }
    l->arena = mark;
    return GAN_OK;
}

static GanStatus shim_device_run(Loaded *l, uint32_t block, const Counters *c) {
    Section b = l->plan->section.at[block];
    for (uint32_t i = b.first; i < b.first + b.n; i++)
        TRY(run_launch(l, l->plan->launch.at[i], c));
    return GAN_OK;
}

#define SHARED                                                                                     \
    .dialect = "cuda", .close = shim_device_close, .alloc = shim_device_alloc,                     \
    .release = host_release, .put = host_copy, .get = host_copy, .load = shim_device_load,         \
    .unload = shim_device_unload, .run = shim_device_run, .sync = host_sync,                       \
    .supports = device_takes

const DeviceApi device_shim = {.name = "shim", .open = shim_device_open, SHARED};
const DeviceApi device_shim_alone = {.name = "shim alone", .open = shim_alone_open, SHARED};
