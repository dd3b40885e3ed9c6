// launches.c - which neighbours in the order of a block's regions share a launch.
//
// In: the order. Out: Plan.launch, merge, block, tail and Region.merged. Neighbours that do not
// depend on one another become one launch where each moves next to nothing, or writes slots only;
// and those that waited for each other.
#include "schedule.h"

bool region_writes_slots_only(const Plan *p, const Region *r) {
    for (uint32_t i = 0; i < r->out.n; i++)
        if (graph_node(&p->func->g, r->out.at[i])->op != OpWrite)
            return false;
    return r->kind == RegionLoop;
}

size_t region_bytes(const Plan *p, const Region *r) {
    size_t sum = 0;
    for (uint32_t i = 0; i < r->in.n; i++)
        sum += plan_bytes(p, r->in.at[i]);
    for (uint32_t i = 0; i < r->out.n; i++)
        sum += plan_bytes(p, r->out.at[i]);
    return sum;
}

typedef struct Launcher {
    Arena *perm;
    Plan *p;
    const Ordered *o;
} Launcher;

static bool must_follow(const Ordered *o, uint32_t before, uint32_t after) {
    for (uint32_t i = 0; i < o->next[before].n; i++)
        if (o->next[before].at[i] == after)
            return true;
    return false;
}

// May `region` run at the same time as all of the last launch? Sharing one keeps every input alive
// for all of it, so only regions that hold little, or nothing but slots, do; and those that waited
// for one another.
static bool joins(const Launcher *s, uint32_t region) {
    const Plan *p = s->p;
    Launch l = p->launch.at[p->launch.n - 1];
    for (uint32_t i = 0; i <= l.instances; i++) {
        uint32_t other = i < l.instances ? p->merge.at[l.first + i] : region;
        const Region *r = &p->region.at[other];
        if (r->kind != RegionLoop || must_follow(s->o, other, region) ||
            (region_bytes(p, r) > SmallBytes && !region_writes_slots_only(p, r) &&
             !(s->o->late && s->o->late[other])))
            return false;
    }
    return true;
}

static BlockPlan make(Launcher *s, const uint32_t *regions, uint32_t n) {
    Plan *p = s->p;
    BlockPlan block = {p->launch.n, 0};
    for (uint32_t i = 0; i < n; i++) {
        uint32_t region = regions[i];
        if (!s->o->apart && p->launch.n > block.first && joins(s, region)) {
            Launch *l = &p->launch.at[p->launch.n - 1];
            p->region.at[region].merged = l->region;
            l->instances++;
        } else {
            vec_push(s->perm, &p->launch, ((Launch){region, 1, p->merge.n}));
        }
        vec_push(s->perm, &p->merge, region);
    }
    block.n = p->launch.n - block.first;
    return block;
}

// The place of the tail among regions, or their number.
static uint32_t tail_at(const Plan *p, const RegionVec *order) {
    uint32_t at = 0;
    while (at < order->n && order->at[at] != p->region.n)
        at++;
    return at;
}

void launches_make(Arena *perm, Plan *p, const Ordered *o) {
    Launcher s = {perm, p, o};
    uint32_t blocks = p->func->blocks;
    for (uint32_t b = 0; b < blocks + (o->tail.n ? 2 : 0); b++)
        vec_push(perm, &p->block, (BlockPlan){0});
    for (uint32_t b = 0; b < blocks; b++) {
        const RegionVec *order = &o->block[b];
        uint32_t n = tail_at(p, order);
        p->block.at[b] = make(&s, order->at, n);
        if (n == order->n)
            continue;
        p->tail = (Tail){.section = blocks + 1, .within = b, .rest = blocks};
        p->block.at[blocks] = make(&s, order->at + n + 1, order->n - n - 1);
    }
    if (o->tail.n)
        p->block.at[blocks + 1] = make(&s, o->tail.at, o->tail.n);
}
