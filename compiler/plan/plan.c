// plan.c - the stages that make a plan, and what they ask of it: where a value lies, who reads it
// beside its block, and the order in which sections run.
#include "stages.h"

#include "integers.h"

// --- stages --------------------------------------------------------------------------------------

void plan_make(Arena *perm, const Module *m, const Func *f, const PassOptions *o, Plan *out) {
    *out = (Plan){.module = m, .func = f, .real = o->real, .unfused = o->no_fuse};
    fuse(perm, o, out);
    collectives_find(perm, out);
    plan_check(o, out, "fusion", regions_verify);
    schedule(perm, o, out);
    plan_check(o, out, "scheduling", schedule_verify);
    memory_plan(o, out);
    plan_check(o, out, "memory planning", memory_verify);
    collectives_place(perm, out);
    out->gflop = func_gflop(f);
    out->gflop_model = out->gflop + func_gflop_again(f);
}

// --- values --------------------------------------------------------------------------------------

static bool stores(const Plan *p, uint32_t id) {
    uint32_t r = p->region_of[id];
    return r != NONE && region_stores(&p->region.at[r], id);
}

uint32_t plan_owner(const Plan *p, uint32_t node) {
    uint32_t owner = p->place[node].owner;
    return stores(p, owner) || graph_node(&p->func->g, owner)->op == OpRead ? owner : 0;
}

bool plan_in_slot(const Plan *p, uint32_t owner) {
    Op op = (Op)graph_node(&p->func->g, owner)->op;
    return op == OpWrite || (op == OpRead && !stores(p, owner));
}

size_t plan_bytes(const Plan *p, uint32_t node) {
    size_t bytes = type_bytes(&p->func->g, node_type(&p->func->g, node));
    return round_up(bytes, PLAN_ALIGN);
}

uint8_t *plan_outliving(Arena *a, const PassOptions *o, const Plan *p) {
    uint8_t *outlives = arena_array(a, uint8_t, p->func->g.node.n);
    ObservedVec seen = {0};
    func_observed(a, p->func, o->keep_grads, &seen);
    for (uint32_t i = 0; i < seen.n; i++)
        outlives[plan_owner(p, seen.at[i].node)] = 1;
    for (uint32_t r = 0; r < p->region.n; r++)
        for (uint32_t i = 0; i < p->region.at[r].in.n; i++) {
            uint32_t id = p->region.at[r].in.at[i], from = p->region_of[id];
            if (from != NONE && p->region.at[from].block != p->region.at[r].block)
                outlives[id] = 1;
        }
    return outlives;
}

// --- sections ------------------------------------------------------------------------------------

uint32_t *plan_sections(Arena *a, const Plan *p) {
    uint32_t n = p->section.n, blocks = p->func->blocks;
    uint32_t *order = arena_array(a, uint32_t, n);
    uint32_t *at = arena_array(a, uint32_t, blocks + 1); // [block] where its next section goes
    for (uint32_t s = 0; s < n; s++)
        at[p->section.at[s].block + 1]++;
    for (uint32_t b = 0; b < blocks; b++)
        at[b + 1] += at[b];
    for (uint32_t s = 0; s < n; s++)
        order[at[p->section.at[s].block]++] = s;
    return order;
}

uint32_t section_regions(const Plan *p, const Section *s, uint32_t **out) {
    if (!s->n)
        return 0;
    Launch first = p->launch.at[s->first], last = p->launch.at[s->first + s->n - 1];
    *out = &p->merge.at[first.first];
    return last.first + last.instances - first.first;
}
