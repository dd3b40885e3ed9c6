// launch_check.c - see launch_check.h.
#include "launch_check.h"

#include <math.h>
#include <string.h>

enum { UNWRITTEN = 0xff }; // bytes of a value before its launch: NaNs of every type

// --- data ----------------------------------------------------------------------------------------

static int64_t classes_of(const Module *m, const Slot *s) {
    const Field *f = &m->stream.at[s->stream].field.at[s->site];
    return f->kind == FieldLabel ? f->classes : 0;
}

GanStatus launch_check_data(Exec *e, const Module *m, Arena scratch) {
    for (uint32_t i = 0; i < m->slot.n; i++) {
        const Slot *s = &m->slot.at[i];
        if (s->kind != SlotData)
            continue;
        Arena a = scratch;
        size_t n = (size_t)(type_sample(&s->type) * (s->type.batched ? m->batch : 1));
        int64_t classes = classes_of(m, s);
        double *x = arena_array(&a, double, n);
        for (size_t k = 0; k < n; k++) {
            x[k] = (double)(hash64(&k, sizeof k, i) >> 11) * 0x1p-53; // in [0, 1)
            x[k] = classes ? floor(x[k] * (double)classes) : 2 * x[k] - 1;
        }
        TRY(exec_slot_put(e, i, x, n));
    }
    return GAN_OK;
}

// --- one launch ----------------------------------------------------------------------------------

static bool computes(const Region *r) {
    return r->kind == RegionLoop || r->kind == RegionCall;
}

static size_t bytes_of(const LaunchCheck *k, uint32_t node) {
    return type_bytes(&k->p->func->g, node_type(&k->p->func->g, node));
}

static uint32_t region_number(const LaunchCheck *k, const Region *r) {
    return (uint32_t)(r - k->p->region.at);
}

static const Region *instance(const LaunchCheck *k, uint32_t launch, uint32_t i) {
    return &k->p->region.at[k->p->merge.at[k->p->launch.at[launch].first + i]];
}

// Copies what the region reads from the device; *fused: one of it is not there.
static GanStatus fetch_inputs(const LaunchCheck *k, Exec *e, const Region *r, bool *fused) {
    for (uint32_t i = 0; i < r->in.n; i++) {
        *fused |= k->fused[r->in.at[i]];
        if (!k->fused[r->in.at[i]])
            TRY(exec_value_save(e, k->p, r->in.at[i], memory_at(k->memory, k->p, r->in.at[i])));
    }
    return GAN_OK;
}

// Is the memory of a value read by the launch, too?
static bool in_place(const LaunchCheck *k, uint32_t launch, uint32_t node) {
    const char *at = memory_at(k->memory, k->p, node);
    for (uint32_t i = 0; i < k->p->launch.at[launch].instances; i++) {
        const Region *r = instance(k, launch, i);
        for (uint32_t x = 0; x < r->in.n; x++) {
            const char *in = memory_at(k->memory, k->p, r->in.at[x]);
            if (in < at + bytes_of(k, node) && at < in + bytes_of(k, r->in.at[x]))
                return true;
        }
    }
    return false;
}

// Of values that the launch stores elsewhere than where it reads, to tell whether it does.
static GanStatus mark_unwritten(LaunchCheck *k, Exec *e, uint32_t launch, const Region *r) {
    for (uint32_t i = 0; i < r->out.n; i++) {
        Arena scratch = *k->arena;
        uint32_t node = r->out.at[i];
        void *mark = arena_alloc(&scratch, bytes_of(k, node), 64);
        memset(mark, UNWRITTEN, bytes_of(k, node));
        if (!in_place(k, launch, node))
            TRY(exec_value_load(e, k->p, node, mark));
    }
    return GAN_OK;
}

static GanStatus before_launch(LaunchCheck *k, Exec *e, uint32_t launch, const Counters *c) {
    uint32_t n = k->p->launch.at[launch].instances;
    k->before = *k->arena;
    k->region = arena_array(k->arena, RegionCheck, n);
    k->is = arena_array(k->arena, void **, n);
    for (uint32_t i = 0; i < n; i++) {
        const Region *r = instance(k, launch, i);
        bool fused = false;
        if (!computes(r))
            continue;
        TRY(fetch_inputs(k, e, r, &fused));
        k->region[i] = (RegionCheck){k->p, r, k->memory, c, k->arena, NULL, NULL};
        if (r->kind == RegionLoop)
            region_check_begin(&k->region[i]);
        k->is[i] = arena_array(k->arena, void *, r->out.n);
        if (!fused) // else the call has stored it
            TRY(mark_unwritten(k, e, launch, r));
    }
    return GAN_OK;
}

static void report(LaunchCheck *k, uint32_t launch, const Region *r, uint32_t node,
                   const char *what) {
    Arena scratch = *k->arena;
    const char *kernel = r->kernel == NONE ? "" : str_z(&scratch, k->p->kernel.at[r->kernel].name);
    k->wrong++;
    k->say(k->user, str_format(&scratch, "%s, launch %u, %.*s%s%s: %%%u %s", k->name, launch,
                               SARG(region_where(&scratch, k->p, r)), *kernel ? ", " : "", kernel,
                               node, what));
}

static bool all_unwritten(const void *is, size_t n) {
    const unsigned char *x = is;
    for (size_t i = 0; i < n; i++)
        if (x[i] != UNWRITTEN)
            return false;
    return true;
}

static void judge(LaunchCheck *k, uint32_t launch, const RegionCheck *x, uint32_t node,
                  const void *is) {
    const void *right = memory_at(k->memory, k->p, node);
    if (k->fused[node]) // with the launch that makes the next value of it
        return;
    k->values++;
    if (all_unwritten(is, bytes_of(k, node))) {
        report(k, launch, x->r, node, "is not stored");
        return;
    }
    char what[256];
    RegionDiffers d = region_check_value(x, node, is, right);
    snprintf(what, sizeof what,
             "differs in %lld of %lld elements: element %lld is %.9g, not %.9g (of at most %.3g)",
             (long long)d.elements, (long long)d.of, (long long)d.first, (double)d.is,
             (double)d.right, d.most);
    if (d.elements)
        report(k, launch, x->r, node, what);
}

static GanStatus after_launch(LaunchCheck *k, Exec *e, uint32_t launch, const Counters *c) {
    for (uint32_t i = 0; i < k->p->launch.at[launch].instances; i++) {
        const Region *r = instance(k, launch, i);
        if (!computes(r))
            continue;
        for (uint32_t o = 0; o < r->out.n; o++) {
            k->fused[r->out.at[o]] = r->kind == RegionCall && exec_absorbs(e, region_number(k, r));
            k->is[i][o] = arena_alloc(k->arena, bytes_of(k, r->out.at[o]), 64);
            TRY(exec_value_save(e, k->p, r->out.at[o], k->is[i][o]));
        }
        TRY(plain_region(k->p, r, k->memory, c));
        for (uint32_t o = 0; o < r->out.n; o++)
            judge(k, launch, &k->region[i], r->out.at[o], k->is[i][o]);
    }
    *k->arena = k->before;
    return GAN_OK;
}

GanStatus launch_check_launch(void *user, Exec *e, uint32_t launch, bool done, const Counters *c) {
    return (done ? after_launch : before_launch)(user, e, launch, c);
}

// --- a step --------------------------------------------------------------------------------------

void launch_check_begin(LaunchCheck *k, Exec *e) {
    enum { ALIGN = 64 };
    k->p = exec_step_plan(e);
    k->fused = arena_array(k->arena, bool, k->p->func->g.node.n);
    k->memory.work = arena_alloc(k->arena, k->p->work_bytes + ALIGN, ALIGN);
    k->memory.slots = arena_alloc(k->arena, k->p->slot_bytes + ALIGN, ALIGN);
}
