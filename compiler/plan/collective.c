// collective.c - the collectives of a plan: what each reduces, where its parts lie, when it starts
// and when its result is first read.
//
// In: regions (collectives_find), then memory and launches (collectives_place). Out:
// Plan.collective, in the order of the calls' numbers, and Region.call.
#include "stages.h"

static const Attr *call_attr(const Plan *p, const Region *r) {
    return node_attr(&p->func->g, r->node.at[0]);
}

static Collective *call_of(Arena *perm, Plan *p, uint32_t region) {
    uint32_t call = (uint32_t)call_attr(p, &p->region.at[region])->i[0];
    while (p->collective.n <= call) {
        vec_push(perm, &p->collective,
                 ((Collective){.update = NONE, .start = NONE, .wait = NONE, .use = NONE}));
    }
    p->region.at[region].call = call;
    return &p->collective.at[call];
}

static void fill_start(Arena *perm, Plan *p, uint32_t region) {
    const Graph *g = &p->func->g;
    const Region *r = &p->region.at[region];
    Collective *c = call_of(perm, p, region);
    c->start = region;
    c->dtype = (Dtype)node_type(g, r->node.at[0])->dtype;
    c->order = (SumOrder)call_attr(p, r)->i[2];
    for (uint32_t i = 0; i < r->node.n; i++) {
        size_t bytes = type_bytes(g, node_type(g, r->node.at[i]));
        vec_push(perm, &c->part, ((CallPart){r->node.at[i], 0, c->bytes, bytes}));
        c->bytes += plan_bytes(p, r->node.at[i]);
    }
}

static void fill_wait(Arena *perm, Plan *p, uint32_t region) {
    const Region *r = &p->region.at[region];
    Collective *c = call_of(perm, p, region);
    c->wait = region;
    for (uint32_t i = 0; i < r->node.n; i++)
        c->part.at[i].wait = r->node.at[i];
    uint32_t slot;
    c->update = func_gradient(p->func, r->node.at[0], &slot);
}

void collectives_find(Arena *perm, Plan *p) {
    for (uint32_t r = 0; r < p->region.n; r++)
        if (p->region.at[r].kind == RegionStart)
            fill_start(perm, p, r);
    for (uint32_t r = 0; r < p->region.n; r++)
        if (p->region.at[r].kind == RegionWait)
            fill_wait(perm, p, r);
    for (uint32_t k = 0; k < p->collective.n; k++) {
        if (p->collective.at[k].start == NONE || p->collective.at[k].wait == NONE) {
            bug("collective %u of %.*s is %s", k, SARG(p->func->name),
                p->collective.at[k].start == NONE ? "not started" : "not waited for");
        }
    }
}

static const char *what_of(Arena *perm, const Plan *p, uint32_t call) {
    Text t = {.arena = perm};
    SourceLine l;
    text_fmt(&t, "%.*s %u, ", SARG(p->func->name), call);
    collective_name(&t, p, call);
    if (collective_ready_line(p, call, &l))
        text_fmt(&t, " (%.*s:%u)", SARG(l.file), l.number);
    return str_z(perm, text_str(&t));
}

// [node] 1 + the call of which it is a sum, 0 none.
static uint32_t *find_sums(Arena *a, const Plan *p) {
    uint32_t *call = arena_array(a, uint32_t, p->func->g.node.n);
    for (uint32_t k = 0; k < p->collective.n; k++)
        for (uint32_t i = 0; i < p->collective.at[k].part.n; i++)
            call[p->collective.at[k].part.at[i].wait] = k + 1;
    return call;
}

static void find_launches(Plan *p, const uint32_t *sum_of) {
    for (uint32_t l = p->launch.n; l-- > 0;) { // the first reader is met last
        for (uint32_t k = 0; k < p->launch.at[l].instances; k++) {
            const Region *r = &p->region.at[p->merge.at[p->launch.at[l].first + k]];
            if (r->kind == RegionStart)
                p->collective.at[r->call].ready = l;
            for (uint32_t i = 0; i < r->in.n; i++)
                if (sum_of[r->in.at[i]])
                    p->collective.at[sum_of[r->in.at[i]] - 1].use = l;
        }
    }
}

void collectives_place(Arena *perm, Plan *p) {
    Arena scratch;
    if (!p->collective.n)
        return;
    arena_need(&scratch);
    const uint32_t *sum_of = find_sums(&scratch, p);
    find_launches(p, sum_of);
    arena_release(&scratch);
    for (uint32_t k = 0; k < p->collective.n; k++) {
        p->collective.at[k].offset = p->place[p->collective.at[k].part.at[0].start].offset;
        p->collective.at[k].what = what_of(perm, p, k);
    }
}
