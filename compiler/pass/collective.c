// collective.c - the collectives of a plan: what each reduces, where its parts lie, when it starts
// and when its result is first read.
//
// In: regions (collectives_find), then memory and launches (collectives_place). Out:
// Plan.collective, in the order of the calls' numbers, and Region.call.
#include "plan.h"

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

static bool reads_part(const Collective *c, const Region *r) {
    for (uint32_t i = 0; i < r->in.n; i++) {
        for (uint32_t k = 0; k < c->part.n; k++)
            if (r->in.at[i] == c->part.at[k].wait)
                return true;
    }
    return false;
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

void collectives_place(Arena *perm, Plan *p) {
    for (uint32_t l = p->launch.n; l-- > 0;) { // the first reader is met last
        Launch launch = p->launch.at[l];
        for (uint32_t i = 0; i < launch.instances; i++) {
            uint32_t region = p->merge.at[launch.first + i];
            for (uint32_t k = 0; k < p->collective.n; k++) {
                Collective *c = &p->collective.at[k];
                c->ready = c->start == region ? l : c->ready;
                c->use = reads_part(c, &p->region.at[region]) ? l : c->use;
            }
        }
    }
    for (uint32_t k = 0; k < p->collective.n; k++) {
        p->collective.at[k].offset = p->place[p->collective.at[k].part.at[0].start].offset;
        p->collective.at[k].what = what_of(perm, p, k);
    }
}
