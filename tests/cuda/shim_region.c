// shim_region.c - see shim_region.h.
#include "shim_region.h"

#include <setjmp.h>
#include <string.h>

#include <cmocka.h>

enum { PACK = 16 }; // kernels walk whole packs

#define assert_ok(call)                                                                            \
    do {                                                                                           \
        if ((call) != GAN_OK)                                                                      \
            fail_msg("%s: %s", #call, gan_error());                                                \
    } while (0)

// --- kernels -------------------------------------------------------------------------------------

void shim_plans_begin(ShimPlans *s, Arena *a, uint64_t seed) {
    *s = (ShimPlans){.arena = a, .text.arena = a, .what = ""};
    assert_ok(shim_open(seed, &s->shim));
    text_put(&s->text, gen_prelude(&dialect_cuda));
}

void shim_plans_add(ShimPlans *s, const Plan *p) {
    for (uint32_t i = 0; i < p->kernel.n; i++) {
        const Kernel *k = &p->kernel.at[i];
        uint64_t h = hash64(k->source.ptr, k->source.len, 0);
        if (map_find(&s->seen, h))
            continue;
        map_put(s->arena, &s->seen, h, 1);
        text_put(&s->text, k->source);
        vec_push(s->arena, &s->name, k->name);
    }
}

void shim_plans_compile(ShimPlans *s) {
    assert_ok(shim_compile(text_str(&s->text), s->name.at, s->name.n, &s->code));
    if (!s->code)
        print_message("no C++ compiler: CUDA kernels were not run\n");
}

void shim_plans_end(ShimPlans *s) {
    shim_free(s->code);
    shim_close(s->shim);
    *s = (ShimPlans){0};
}

// --- operands ------------------------------------------------------------------------------------

typedef struct Operand { // of one launch
    void *host;
    char *device;
    size_t bytes;
} Operand;

typedef struct Launching {
    ShimPlans *s;
    const Plan *p;
    Arena arena; // what follows
    VEC(Operand) operand;
    const uint32_t **ticket; // of each region, Region.tickets of them
} Launching;

static size_t whole_packs(size_t bytes) {
    return (bytes + PACK - 1) / PACK * PACK;
}

// The shim's memory for an operand, shared by all operands with the same address.
static Operand *operand_at(Launching *l, uint32_t node, void *host) {
    const Graph *g = &l->p->func->g;
    const Type *t = node_type(g, node);
    for (uint32_t i = 0; i < l->operand.n; i++)
        if (l->operand.at[i].host == host)
            return &l->operand.at[i];
    Operand *o = vec_add(&l->arena, &l->operand);
    *o = (Operand){.host = host, .bytes = type_bytes(g, t)};
    o->device = shim_alloc(l->s->shim, whole_packs(o->bytes), dtype_size[t->dtype]);
    return o;
}

// Copies its value in, and zeros into the padding.
static void fill(Launching *l, Operand *o) {
    char zero[PACK] = {0};
    shim_put(l->s->shim, o->device, o->host, o->bytes);
    shim_put(l->s->shim, o->device + o->bytes, zero, whole_packs(o->bytes) - o->bytes);
}

// The kernel arguments of region i, in the device's order.
static void put_words(Launching *l, uint32_t i, const ShimRegion *x, uint64_t *word) {
    const Region *r = x->r;
    Shim *shim = l->s->shim;
    uint32_t n = 0;
    for (uint32_t k = 0; k < r->arg.n; k++) {
        Operand *o = operand_at(l, region_arg(r, k), x->at[r->arg.at[k]]);
        if (r->arg.at[k] < r->in.n)
            fill(l, o);
        word[n++] = (uint64_t)(uintptr_t)o->device;
    }
    if (r->scratch) {
        static const uint32_t zero;
        uint32_t *ticket = shim_alloc(shim, r->tickets * sizeof *ticket, sizeof *ticket);
        for (uint32_t k = 0; k < r->tickets; k++)
            shim_put(shim, ticket + k, &zero, sizeof zero);
        l->ticket[i] = ticket;
        word[n++] = (uint64_t)(uintptr_t)shim_alloc(shim, r->scratch, 4);
        word[n++] = (uint64_t)(uintptr_t)ticket;
    }
    for (uint32_t k = 0; k < r->number.n; k++)
        word[n++] = (uint64_t)r->number.at[k];
    assert_int_equal(n, l->p->kernel.at[r->kernel].words);
}

static void take_results(Launching *l, uint32_t i, const ShimRegion *x) {
    const Graph *g = &l->p->func->g;
    for (uint32_t k = 0; k < x->r->out.n; k++) {
        Operand *o = operand_at(l, x->r->out.at[k], x->at[x->r->in.n + k]);
        if (!shim_written(l->s->shim, o->device, o->bytes))
            fail_msg("%s: %.*s leaves elements of %%%u (%s) unwritten", l->s->what,
                     SARG(l->p->kernel.at[x->r->kernel].name), x->r->out.at[k],
                     op_info[graph_node(g, x->r->out.at[k])->op].text);
        memcpy(o->host, o->device, o->bytes);
    }
    for (uint32_t k = 0; l->ticket[i] && k < x->r->tickets; k++)
        if (l->ticket[i][k])
            fail_msg("%s: %.*s leaves ticket %u at %u", l->s->what,
                     SARG(l->p->kernel.at[x->r->kernel].name), k, l->ticket[i][k]);
}

// --- launches ------------------------------------------------------------------------------------

void shim_regions(ShimPlans *s, const Plan *p, const ShimRegion *region, uint32_t n,
                  const Counters *c, uint32_t blocks) {
    Arena scratch = *s->arena;
    Launching l = {.s = s, .p = p};
    l.ticket = arena_array(&scratch, const uint32_t *, n);
    const Kernel *k = &p->kernel.at[region[0].r->kernel];
    uint64_t *word = arena_array(&scratch, uint64_t, n * k->words);
    uint32_t most = 0;
    l.arena = scratch;
    shim_release_all(s->shim);
    for (uint32_t i = 0; i < n; i++) {
        put_words(&l, i, &region[i], word + i * k->words);
        most = region[i].r->blocks > most ? region[i].r->blocks : most;
    }
    void *counters = shim_alloc(s->shim, sizeof *c, 8), *table = NULL;
    shim_put(s->shim, counters, c, sizeof *c);
    bool strides = k->many || region[0].r->kind == RegionCall,
         fewer = strides && blocks && blocks < most;
    ShimSize grid = {fewer ? blocks : most, n, 1}, block = {k->threads, 1, 1};
    void *one[] = {word, &counters}, *many[] = {&table, &counters};
    if (k->many) {
        table = shim_alloc(s->shim, n * k->words * sizeof *word, sizeof *word);
        shim_put(s->shim, table, word, n * k->words * sizeof *word);
    }
    if (shim_launch(s->shim, s->code, k->name, grid, block, k->many ? many : one))
        fail_msg("%s: %s", s->what, shim_said(s->shim));
    for (uint32_t i = 0; i < n; i++)
        take_results(&l, i, &region[i]);
}

// Copies what the regions store, or compares it with such a copy.
static char *results(ShimPlans *s, const Plan *p, const ShimRegion *region, uint32_t n,
                     const char *before) {
    const Graph *g = &p->func->g;
    Text t = {.arena = s->arena};
    for (uint32_t i = 0; i < n; i++) {
        for (uint32_t k = 0; k < region[i].r->out.n; k++) {
            size_t bytes = type_bytes(g, node_type(g, region[i].r->out.at[k]));
            const char *is = region[i].at[region[i].r->in.n + k];
            if (before && memcmp(before + t.n, is, bytes))
                fail_msg("%s: %.*s: fewer blocks give other bits of %%%u", s->what,
                         SARG(p->kernel.at[region[i].r->kernel].name), region[i].r->out.at[k]);
            text_put(&t, (Str){is, bytes});
        }
    }
    return t.at;
}

// In-place operands are overwritten by the first launch, so they are saved.
void shim_regions_twice(ShimPlans *s, const Plan *p, const ShimRegion *region, uint32_t n,
                        const Counters *c) {
    Arena mark = *s->arena;
    const Graph *g = &p->func->g;
    Text kept = {.arena = s->arena};
    uint32_t most = 0;
    for (uint32_t i = 0; i < n; i++) {
        const Region *r = region[i].r;
        most = r->blocks > most ? r->blocks : most;
        for (uint32_t k = 0; k < r->in.n; k++)
            text_put(&kept, (Str){region[i].at[k], type_bytes(g, node_type(g, r->in.at[k]))});
    }
    shim_regions(s, p, region, n, c, 0);
    const char *first = results(s, p, region, n, NULL), *at = kept.at;
    for (uint32_t i = 0; i < n && most > 1; i++) {
        const Region *r = region[i].r;
        for (uint32_t k = 0; k < r->in.n; k++) {
            size_t bytes = type_bytes(g, node_type(g, r->in.at[k]));
            memcpy(region[i].at[k], at, bytes);
            at += bytes;
        }
    }
    if (most > 1) {
        shim_regions(s, p, region, n, c, (most + 2) / 3);
        results(s, p, region, n, first);
    }
    *s->arena = mark;
}
