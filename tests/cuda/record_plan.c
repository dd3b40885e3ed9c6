// record_plan.c - what a launch reads and writes: its arguments, looked up among the regions of
// the loaded plans.
//
// The addresses a region must be launched with follow from the plan and the two memory blocks
// alone, so finding them checks the device's own address computation.
#include "record.h"

#include <string.h>

typedef struct Known {
    const Plan *p;
    Memory m;
} Known;

static VEC(Known) known; // of the only recorder

void record_plan_begin(void) {
    memset(&known, 0, sizeof known);
}

void recorder_plan(Recorder *r, const Plan *p, void *slots, void *work) {
    (void)r;
    vec_push(record_arena(), &known, ((Known){p, {slots, work}}));
}

static size_t bytes_of(const Plan *p, uint32_t node) {
    return type_bytes(&p->func->g, node_type(&p->func->g, node));
}

static bool matches(const Known *k, const Region *r, const uint64_t *w) {
    uint32_t n = 0;
    for (uint32_t i = 0; i < r->arg.n; i++)
        if (w[n++] != cuda_pointer(memory_at(k->m, k->p, region_arg(r, i))))
            return false;
    n += r->scratch ? 2 : 0;
    for (uint32_t i = 0; i < r->number.n; i++)
        if (w[n++] != (uint64_t)r->number.at[i])
            return false;
    return n == k->p->kernel.at[r->kernel].words;
}

static void add(Work *work, CUdeviceptr at, size_t n, bool write) {
    if (n)
        vec_push(record_arena(), &work->access, ((Access){at, n, write}));
}

static void accesses(const Plan *p, const Region *r, const uint64_t *w, Work *work) {
    uint32_t n = 0;
    for (uint32_t i = 0; i < r->arg.n; i++)
        add(work, w[n++], bytes_of(p, region_arg(r, i)), r->arg.at[i] >= r->in.n);
    if (!r->scratch)
        return;
    add(work, w[n++], r->scratch, true);
    add(work, w[n++], r->tickets * sizeof(uint32_t), true);
}

bool changes_slots(const Work *w) {
    for (uint32_t i = 0; i < known.n; i++)
        for (uint32_t k = 0; k < w->access.n; k++) {
            CUdeviceptr slots = cuda_pointer(known.at[i].m.slots);
            const Access *x = &w->access.at[k];
            if (x->write && x->at < slots + known.at[i].p->slot_bytes && x->at + x->n > slots)
                return true;
        }
    return false;
}

uint32_t launch_words(const char *kernel) {
    for (uint32_t i = 0; i < known.n; i++)
        for (uint32_t k = 0; k < known.at[i].p->kernel.n; k++)
            if (str_eq(known.at[i].p->kernel.at[k].name, str_c(kernel)))
                return known.at[i].p->kernel.at[k].words;
    return 0;
}

bool launch_accesses(const char *kernel, const uint64_t *words, Work *work) {
    for (uint32_t i = 0; i < known.n; i++) {
        const Plan *p = known.at[i].p;
        for (uint32_t k = 0; k < p->region.n; k++) {
            const Region *r = &p->region.at[k];
            if (r->kernel == NONE || r->kind == RegionCopy ||
                !str_eq(p->kernel.at[r->kernel].name, str_c(kernel)) ||
                !matches(&known.at[i], r, words))
                continue;
            accesses(p, r, words, work);
            return true;
        }
    }
    return false;
}
