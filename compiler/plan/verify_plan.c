// verify_plan.c - the rules that every plan keeps, checked. In: a plan behind one of the stages
// that make it. Out: true, or the first offence. Run behind each stage in debug builds, and on what
// a text decides (restore.c).
//
//   regions    every value that something outside the graph needs is stored, once; a region has all
//              that its members are computed from; regions come behind those they depend on, and
//              read no slot that was written before.
//   launches   every region runs once, in its block, behind those it depends on; a block defers
//              only what it may, to the blocks that must run it (tail.c).
//   memory     values that live at once do not overlap (memory.c).
#include "stages.h"

typedef struct Verify {
    Arena *a;
    const Plan *p;
    const Graph *g;
    bool unfused;     // PassOptions.no_fuse
    uint32_t *stored; // [node] 1 + the region that stores it, 0 none
    uint32_t *known;  // [node] 1 + the last region that has it as a member or an input
    Refusal *wrong;
} Verify;

static bool refuse(Verify *v, uint32_t region, const char *format, ...) {
    va_list args;
    va_start(args, format);
    *v->wrong = (Refusal){str_vformat(v->a, format, args), region};
    va_end(args);
    return false;
}

// --- regions -------------------------------------------------------------------------------------

static bool verify_stores(Verify *v, uint32_t region) {
    const Region *r = &v->p->region.at[region];
    if (!r->out.n)
        return refuse(v, region, "it stores nothing");
    for (uint32_t i = 0; i < r->out.n; i++) {
        uint32_t id = r->out.at[i];
        if (v->stored[id] || v->p->region_of[id] != region)
            return refuse(v, region, "%%%u is stored twice, or as another region's", id);
        if (graph_node(v->g, id)->block != r->block)
            return refuse(v, region, "%%%u is of another block", id);
        v->stored[id] = region + 1;
    }
    return true;
}

// Where a library call or a collective reads operand k of a node: what it has no copy of.
static uint32_t read_from(const Verify *v, uint32_t id, uint32_t k) {
    uint32_t in = node_in(v->g, id, k);
    return v->unfused ? in : node_storage(v->g, in, *v->a);
}

static bool verify_members(Verify *v, uint32_t region) {
    const Region *r = &v->p->region.at[region];
    bool loop = r->kind == RegionLoop, copy = r->kind == RegionCopy;
    for (uint32_t i = 0; i < r->in.n; i++) {
        uint32_t id = r->in.at[i];
        bool read = graph_node(v->g, id)->op == OpRead;
        if ((!v->stored[id] && !read) || v->stored[id] == region + 1 || v->p->place[id].owner != id)
            return refuse(v, region, "no other region stores %%%u, which it reads", id);
        v->known[id] = region + 1;
    }
    for (uint32_t i = 0; i < r->node.n && !copy; i++) {
        uint32_t id = r->node.at[i];
        if (loop && i && r->node.at[i - 1] >= id)
            return refuse(v, region, "%%%u is out of order among its members", id);
        for (uint32_t k = 0; k < graph_node(v->g, id)->nin; k++) {
            uint32_t from = loop ? node_in(v->g, id, k) : read_from(v, id, k);
            bool number = v->unfused && graph_node(v->g, from)->op == OpConst;
            if (v->known[from] != region + 1 && !number)
                return refuse(v, region, "%%%u needs %%%u, which it neither computes nor reads", id,
                              from);
        }
        v->known[id] = region + 1;
    }
    for (uint32_t i = 0; i < r->out.n && !copy; i++)
        if (v->known[r->out.at[i]] != region + 1)
            return refuse(v, region, "it stores %%%u, which it does not compute", r->out.at[i]);
    return true;
}

// Every region behind those it depends on, and no slot read after it was written.
static bool verify_order(Verify *v) {
    const Plan *p = v->p;
    OrderVec order;
    const NodeList *writes = slot_writes(v->a, p->module, p->func);
    region_orders(v->a, p, &order);
    for (uint32_t i = 0; i < order.n; i++)
        if (order.at[i].before > order.at[i].after)
            return refuse(v, order.at[i].after, "it comes before region %u, which it needs",
                          order.at[i].before);
    for (uint32_t i = 0; i < p->region.n; i++) {
        const Region *r = &p->region.at[i];
        for (uint32_t k = 0; k < r->in.n; k++) {
            uint32_t read = r->in.at[k];
            bool slot = graph_node(v->g, read)->op == OpRead && !v->stored[read];
            int64_t of = slot ? node_attr(v->g, read)->i[0] : 0;
            for (uint32_t e = 0; slot && e < writes[of].n; e++)
                if (slot_late(p->func, graph_node(v->g, read)->block, r->block,
                              graph_node(v->g, writes[of].at[e])->block))
                    return refuse(v, i, "it reads slot %lld after it was written", (long long)of);
        }
    }
    return true;
}

static bool verify_collectives(Verify *v) {
    const Plan *p = v->p;
    for (uint32_t k = 0; k < p->collective.n; k++) {
        const Collective *c = &p->collective.at[k];
        const Region *start = &p->region.at[c->start], *wait = &p->region.at[c->wait];
        if (start->kind != RegionStart || wait->kind != RegionWait || start->call != k ||
            wait->call != k || start->node.n != c->part.n || wait->node.n != c->part.n)
            return refuse(v, c->start, "collective %u has other parts than its regions", k);
        for (uint32_t i = 0; i < c->part.n; i++)
            if (node_in(v->g, c->part.at[i].wait, 0) != c->part.at[i].start)
                return refuse(v, c->wait, "it waits for another part than %%%u",
                              c->part.at[i].start);
    }
    return true;
}

// Does a value lie where whoever runs the plan finds it?
static bool is_found(const Verify *v, uint32_t id) {
    uint32_t owner = v->p->place[id].owner;
    bool number = v->unfused && graph_node(v->g, owner)->op == OpConst;
    return v->stored[owner] || graph_node(v->g, owner)->op == OpRead || number;
}

static bool verify_needed(Verify *v) {
    const Func *f = v->p->func;
    ObservedVec seen = {0};
    func_observed(v->a, f, false, &seen);
    for (uint32_t i = 0; i < f->effect.n; i++)
        if (!v->stored[f->effect.at[i]])
            return refuse(v, NONE, "no region stores %%%u (write)", f->effect.at[i]);
    for (uint32_t i = 0; i < seen.n; i++)
        if (!is_found(v, seen.at[i].node))
            return refuse(v, NONE, "no region stores %%%u, %s", seen.at[i].node, seen.at[i].what);
    return true;
}

bool regions_verify(Arena *a, const PassOptions *o, const Plan *p, Refusal *wrong) {
    uint32_t n = p->func->g.node.n;
    Verify v = {.a = a, .p = p, .g = &p->func->g, .unfused = o->no_fuse, .wrong = wrong};
    v.stored = arena_array(a, uint32_t, n);
    v.known = arena_array(a, uint32_t, n);
    for (uint32_t r = 0; r < p->region.n; r++)
        if (!verify_stores(&v, r))
            return false;
    for (uint32_t r = 0; r < p->region.n; r++)
        if (!verify_members(&v, r))
            return false;
    return verify_needed(&v) && verify_collectives(&v) && verify_order(&v);
}

// --- launches ------------------------------------------------------------------------------------

// Numbers of the launches that regions are in; false when one is missing, twice or elsewhere.
static bool find_launches(Verify *v, uint32_t *of) {
    const Plan *p = v->p;
    for (uint32_t i = 0; i < p->region.n; i++)
        of[i] = NONE;
    for (uint32_t s = 0; s < p->section.n; s++) {
        Section section = p->section.at[s];
        for (uint32_t i = section.first; i < section.first + section.n; i++) {
            Launch l = p->launch.at[i];
            for (uint32_t k = 0; k < l.instances; k++) {
                uint32_t region = p->merge.at[l.first + k];
                bool known = region < p->region.n && of[region] == NONE;
                if (!known || p->region.at[region].block != section.block) {
                    return refuse(v, region < p->region.n ? region : NONE,
                                  "launch %u: region %u is launched already, or not of block %u", i,
                                  region, section.block);
                }
                if (l.instances > 1 && p->region.at[region].kind != RegionLoop)
                    return refuse(v, region, "it is not a loop and is launched alone");
                if (p->region.at[region].merged != (k ? l.region : NONE))
                    return refuse(v, region, "it is launched with another region");
                of[region] = i;
            }
        }
    }
    for (uint32_t i = 0; i < p->region.n; i++)
        if (of[i] == NONE)
            return refuse(v, i, "it is never launched");
    return true;
}

// Every block that must run the tail does, once, and nothing that must not come before it there
// does.
static bool verify_ways(Verify *v, uint32_t tail, const TailWays *ways) {
    const Plan *p = v->p;
    for (uint32_t b = 0; b < p->func->blocks; b++) {
        uint32_t runs = 0;
        for (uint32_t s = 0; s < p->section.n; s++) {
            const Section *section = &p->section.at[s];
            uint32_t *region, n;
            if (section->block != b || section->kind == SectionTail)
                continue;
            runs += section->kind == SectionRest && section->tail == tail;
            n = runs || !ways->within[b] ? 0 : section_regions(p, section, &region);
            for (uint32_t i = 0; i < n; i++)
                if (ways->meets[region[i]])
                    return refuse(v, region[i], "it must not come before tail %u", tail);
        }
        if (runs != ways->within[b])
            return refuse(v, NONE, "tail %u must run in other blocks", tail);
    }
    return true;
}

// A tail holds what its block may leave.
static bool verify_tail(Verify *v, const uint8_t *may, uint32_t tail) {
    const Tail *t = &v->p->tail.at[tail];
    TailWays ways;
    uint32_t *region, n = section_regions(v->p, &v->p->section.at[t->section], &region);
    for (uint32_t i = 0; i < n; i++)
        if (!may[region[i]])
            return refuse(v, region[i], "it cannot be left to what follows");
    if (!n || !tail_place(v->a, v->p, region, n, &ways))
        return refuse(v, NONE, "tail %u is of nothing, or it is open what runs it", tail);
    if (t->loop != ways.loop || t->wraps != ways.wraps)
        return refuse(v, NONE, "tail %u goes another way than the tape", tail);
    return verify_ways(v, tail, &ways);
}

bool schedule_verify(Arena *a, const PassOptions *o, const Plan *p, Refusal *wrong) {
    Verify v = {.a = a, .p = p, .g = &p->func->g, .wrong = wrong};
    OrderVec order;
    uint32_t *of = arena_array(a, uint32_t, p->region.n + 1);
    uint8_t *may = arena_array(a, uint8_t, p->region.n + 1);
    region_orders(a, p, &order);
    tail_find(o, p, &order, plan_outliving(a, o, p), may);
    if (!find_launches(&v, of))
        return false;
    for (uint32_t t = 0; t < p->tail.n; t++)
        if (!verify_tail(&v, may, t))
            return false;
    for (uint32_t i = 0; i < order.n; i++) {
        if (of[order.at[i].before] >= of[order.at[i].after]) {
            return refuse(&v, order.at[i].after, "it is launched before region %u, which it needs",
                          order.at[i].before);
        }
    }
    return true;
}

// --- after a stage -------------------------------------------------------------------------------

void plan_check(const PassOptions *o, const Plan *p, const char *stage, PlanVerifier *verify) {
    Arena scratch;
    Refusal wrong = {.region = NONE};
    if (!o->verify_each)
        return;
    arena_need(&scratch);
    if (!verify(&scratch, o, p, &wrong))
        bug("after %s: %.*s: region %u: %.*s", stage, SARG(p->func->name), wrong.region,
            SARG(wrong.why));
    arena_release(&scratch);
}
