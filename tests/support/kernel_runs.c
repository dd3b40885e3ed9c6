// kernel_runs.c - see kernel_runs.h.
#include "kernel_runs.h"

#include <math.h>
#include <setjmp.h>
#include <string.h>

#include <cmocka.h>
#include "interp.h"
#include "prelude.h"

typedef struct Run {
    Arena *arena;
    const Case *c;
    const Graph *g;
    Counters counters;
    void **at;   // [node] memory of stored values, in the device's layout
    void **slot; // [slot]
} Run;

// Moves one value between logical doubles and the device's layout.
static void convert(const Graph *g, const Type *t, void *device, double *logical, bool to_device) {
    int64_t stride[MAX_RANK + 1], n = type_elements(g, t), digit[MAX_RANK + 1] = {0};
    type_strides(t, stride);
    for (int64_t i = 0; i < n; i++) {
        int64_t at = 0;
        for (uint32_t d = 0; d <= t->rank; d++)
            at += digit[d] * stride[d];
        if (t->dtype == DtF64) {
            double *x = &((double *)device)[at];
            if (to_device)
                *x = logical[i];
            else
                logical[i] = *x;
        } else if (to_device && dtype_is_half((Dtype)t->dtype)) {
            float f = (float)logical[i];
            ((uint16_t *)device)[at] = t->dtype == DtF16 ? gan_f32_to_f16(f) : gan_f32_to_bf16(f);
        } else if (to_device) {
            ((float *)device)[at] = (float)logical[i];
        } else {
            logical[i] = t->dtype == DtBF16  ? (double)gan_bf16_to_f32(((uint16_t *)device)[at])
                         : t->dtype == DtF16 ? (double)gan_f16_to_f32(((uint16_t *)device)[at])
                                             : (double)((float *)device)[at];
        }
        for (uint32_t d = t->rank + 1; d-- > 0 && ++digit[d] == (d            ? t->dim[d - 1]
                                                                 : t->batched ? g->batch
                                                                              : 1);)
            digit[d] = 0;
    }
}

static void *fresh(const Run *r, uint32_t id) {
    size_t bytes = type_bytes(r->g, node_type(r->g, id));
    void *p = arena_alloc(r->arena, bytes + 16, 64); // kernels may read to the end of a pack
    memset(p, 0xff, bytes);                          // to detect reads before writes
    return p;
}

static void run_region(Run *r, const Region *region, RegionFn *run, void *user) {
    void *at[64];
    uint32_t n = 0;
    for (uint32_t i = 0; i < region->in.n; i++)
        at[n++] = r->at[region->in.at[i]];
    for (uint32_t i = 0; i < region->out.n; i++) {
        uint32_t id = region->out.at[i];
        if (r->g->node.at[id].op == OpWrite)
            r->at[id] = r->slot[node_attr(r->g, id)->i[0]];
        else
            r->at[id] = fresh(r, id);
        at[n++] = r->at[id];
    }
    run(user, &r->c->plan, region, at, &r->counters);
}

static void check(const Run *r, const char *what, uint32_t id, void *device, const Interp *ref) {
    const Type *t = node_type(r->g, id);
    int64_t n = type_elements(r->g, t);
    double *is = arena_array(r->arena, double, n), most = 0;
    convert(r->g, t, device, is, false);
    for (int64_t i = 0; i < n; i++)
        most = fmax(most, fabs(interp_at(ref, id, i)));
    for (int64_t i = 0; i < n; i++) {
        double right = interp_at(ref, id, i);
        bool fits =
            isnan(right) ? isnan(is[i]) : fabs(is[i] - right) <= r->c->tolerance * (most + 1e-3);
        if (!fits)
            fail_msg("%s: %s %s %%%u element %lld is %.9g, not %.9g", r->c->name, what,
                     op_info[r->g->node.at[id].op].text, id, (long long)i, is[i], right);
    }
}

void kernel_case_run(Arena *a, const Case *c, RegionFn *run, void *user) {
    Run r = {.arena = a,
             .c = c,
             .g = &c->m.step.g,
             .counters = {.seed = 0x1234567890abcdef, .step = 3, .sample0 = 2}};
    Interp ref = interp_make(a, r.g);
    ref.counters = r.counters;
    ref.f64 = !c->rounds;
    r.at = arena_array(a, void *, r.g->node.n);
    r.slot = arena_array(a, void *, c->m.slot.n);
    for (uint32_t id = 1; id < r.g->node.n; id++) {
        if (r.g->node.at[id].op != OpRead)
            continue;
        uint32_t slot = node_slot(r.g, id);
        int64_t n = interp_count(&ref, id);
        double *x = arena_array(a, double, n);
        for (int64_t i = 0; i < n; i++)
            x[i] = test_number((uint64_t)slot << 32 | (uint64_t)i);
        r.at[id] = r.slot[slot] = fresh(&r, id);
        convert(r.g, node_type(r.g, id), r.at[id], x, true);
        convert(r.g, node_type(r.g, id), r.at[id], x, false); // as the device rounds it
        for (int64_t i = 0; i < n; i++)
            interp_put(&ref, id, i, x[i]);
    }
    interp_run(&ref);
    for (uint32_t i = 0; i < c->plan.region.n; i++)
        run_region(&r, &c->plan.region.at[i], run, user);
    for (uint32_t i = 0; i < c->m.step.result.n; i++) {
        uint32_t id = c->m.step.result.at[i].node;
        check(&r, "result", id, r.at[c->plan.place[id].owner], &ref);
    }
    for (uint32_t i = 0; i < c->m.step.effect.n; i++) {
        uint32_t id = c->m.step.effect.at[i];
        check(&r, "effect", id, r.at[id], &ref);
    }
}
