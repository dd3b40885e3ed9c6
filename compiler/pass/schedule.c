// schedule.c - the order in which a function's regions run, and which of them share a launch.
//
// In: regions in an order that is valid in every block. Out: Plan.launch, merge, block.
// Each block is ordered on its own, under region_orders. Two orders are tried: the program's, and
// greedy: of the regions that may run, the one that frees the most bytes beyond those it needs (the
// program's order on a tie). The one with the lower peak stays. Greedy runs an optimizer as soon as
// its gradient is there, and so interleaves chains by layer. Optimizer regions of next to nothing
// (gains, biases) wait for the end of their block, where neighbours that do not depend on one
// another become one launch. Where launches are dear (few_launches), all work on shared values
// waits until there is nothing else to do, and then runs together: an update of a net is one
// launch.
//
// A block with collectives is ordered by an estimate of the link and of what runs meanwhile: a call
// starts as soon as its last part is there; one in flight is waited for when its sum would have
// come, or when there is nothing else to do. Of the rest either what the next call needs comes
// first, so that several chains into a net go back through it layer by layer, or, as above, what
// frees memory: that, when it is hardly slower. The estimate moves work; the order of the calls is
// every rank's.
#include "plan.h"

#include <string.h>

enum { SmallBytes = 1 << 16 }; // what a waiting region may hold back; what a merged one may move

typedef struct Value { // a stored value made in the block at hand
    uint32_t readers;  // regions of the block still to read it
    size_t bytes;      // 0: lies in the slot memory, or outlives the block
} Value;

// Estimated times, in seconds, of a block with collectives.
typedef struct Clock {
    const Parallel *link;
    uint32_t *leads;  // [region] the first call that cannot start before it, NONE
    double *arrives;  // [call] when its sum is there
    double now, free; // the link: when it has carried what was started
} Clock;

typedef struct Sched {
    Arena *perm;
    Arena *a; // scratch
    Plan *p;
    OrderVec order;       // sorted by after
    VEC(uint32_t) * next; // [region] regions that must follow
    uint32_t *waits;      // [region] regions it still waits for
    size_t *made;         // [region] bytes it stores in work memory
    uint8_t *late;        // [region] waits until there is nothing else to do
    bool few_launches;    // PassOptions
    bool late_now;        // the last region was late: with few_launches, others follow
    uint8_t *outlives;    // [node] read by another block or by the executor
    Value *value;         // [node]
    Clock clock;          // blocks with collectives
} Sched;

typedef VEC(uint32_t) RegionVec;

// What decides among regions that may run. The last two: blocks with collectives.
typedef enum Way { WayText, WayGreedy, WayCalls, WayCallsGreedy } Way;

// --- facts about regions -------------------------------------------------------------------------

static bool writes_slots_only(const Plan *p, const Region *r) {
    for (uint32_t i = 0; i < r->out.n; i++)
        if (graph_node(&p->func->g, r->out.at[i])->op != OpWrite)
            return false;
    return r->kind == RegionLoop;
}

// Is it an optimizer's work: does it write slots only, or read an optimizer's state?
static bool is_update(const Plan *p, const Region *r) {
    const Graph *g = &p->func->g;
    bool reads = false;
    for (uint32_t i = 0; i < r->in.n; i++) {
        uint32_t id = r->in.at[i];
        reads |= graph_node(g, id)->op == OpRead &&
                 p->module->slot.at[node_attr(g, id)->i[0]].kind == SlotOpt;
    }
    return writes_slots_only(p, r) || (reads && r->kind == RegionLoop);
}

static size_t bytes_of(const Plan *p, const Region *r) {
    size_t sum = 0;
    for (uint32_t i = 0; i < r->in.n; i++)
        sum += plan_bytes(p, r->in.at[i]);
    for (uint32_t i = 0; i < r->out.n; i++)
        sum += plan_bytes(p, r->out.at[i]);
    return sum;
}

static void find_outliving(Sched *s, const PassOptions *o) {
    const Plan *p = s->p;
    KeptVec kept = {0};
    plan_kept(s->a, o, p->func, &kept);
    for (uint32_t i = 0; i < kept.n; i++)
        s->outlives[plan_owner(p, kept.at[i].node)] = 1;
    for (uint32_t r = 0; r < p->region.n; r++)
        for (uint32_t i = 0; i < p->region.at[r].in.n; i++) {
            uint32_t id = p->region.at[r].in.at[i], from = p->region_of[id];
            if (from != NONE && p->region.at[from].block != p->region.at[r].block)
                s->outlives[id] = 1;
        }
}

static void find_orders(Sched *s) {
    const Plan *p = s->p;
    region_orders(s->a, p, &s->order);
    s->next = arena_array_(s->a, sizeof *s->next, _Alignof(uint32_t *), p->region.n);
    for (uint32_t i = 0; i < s->order.n; i++)
        vec_push(s->a, &s->next[s->order.at[i].before], s->order.at[i].after);
    for (uint32_t r = 0; r < p->region.n; r++) {
        const Region *region = &p->region.at[r];
        for (uint32_t i = 0; i < region->out.n; i++)
            s->made[r] += plan_in_slot(p, region->out.at[i]) ? 0 : plan_bytes(p, region->out.at[i]);
        bool small = writes_slots_only(p, region) && bytes_of(p, region) <= SmallBytes;
        s->late[r] = s->few_launches ? is_update(p, region) : small;
    }
}

// --- the clock of a block with collectives -------------------------------------------------------

// A region's time: its arithmetic or its bytes, whichever takes longer, on a core or two.
static double seconds_of(const Plan *p, const Region *r) {
    const double flops = 1e11, bandwidth = 2e10;
    double gflop = 0, bytes = (double)bytes_of(p, r);
    for (uint32_t i = 0; i < r->node.n; i++)
        gflop += node_gflop(&p->func->g, r->node.at[i]);
    return gflop * 1e9 / flops > bytes / bandwidth ? gflop * 1e9 / flops : bytes / bandwidth;
}

static void clock_reset(Sched *s, const RegionVec *regions) {
    s->clock.now = s->clock.free = 0;
    for (uint32_t i = regions->n; i-- > 0;) { // regions are numbered in a valid order
        uint32_t region = regions->at[i], first = NONE;
        if (s->p->region.at[region].kind == RegionStart)
            first = s->p->region.at[region].call;
        for (uint32_t k = 0; k < s->next[region].n; k++) {
            uint32_t leads = s->clock.leads[s->next[region].at[k]];
            first = leads < first ? leads : first;
        }
        s->clock.leads[region] = first;
    }
}

static void clock_pass(Sched *s, uint32_t region) {
    Clock *c = &s->clock;
    const Region *r = &s->p->region.at[region];
    if (r->kind == RegionStart) {
        double from = c->now > c->free ? c->now : c->free;
        c->free = from + call_seconds(c->link, s->p->collective.at[r->call].bytes);
        c->arrives[r->call] = c->free;
    } else if (r->kind == RegionWait) {
        c->now = c->arrives[r->call] > c->now ? c->arrives[r->call] : c->now;
    } else {
        c->now += seconds_of(s->p, r);
    }
}

// --- one block -----------------------------------------------------------------------------------

// Sets the block's counters: what each region waits for, who still reads each value.
static void block_reset(Sched *s, const RegionVec *regions) {
    const Plan *p = s->p;
    for (uint32_t i = 0; i < regions->n; i++) {
        const Region *r = &p->region.at[regions->at[i]];
        s->waits[regions->at[i]] = 0;
        for (uint32_t k = 0; k < r->out.n; k++) {
            uint32_t id = r->out.at[k];
            bool freed = !plan_in_slot(p, id) && !s->outlives[id];
            s->value[id] = (Value){0, freed ? plan_bytes(p, id) : 0};
        }
    }
    for (uint32_t i = 0; i < regions->n; i++) {
        const Region *r = &p->region.at[regions->at[i]];
        for (uint32_t k = 0; k < s->next[regions->at[i]].n; k++)
            s->waits[s->next[regions->at[i]].at[k]]++;
        for (uint32_t k = 0; k < r->in.n; k++)
            s->value[r->in.at[k]].readers++;
    }
}

static size_t freed_by(const Sched *s, uint32_t region) {
    const Region *r = &s->p->region.at[region];
    size_t sum = 0;
    for (uint32_t i = 0; i < r->in.n; i++) {
        const Value *v = &s->value[r->in.at[i]];
        sum += v->readers == 1 ? v->bytes : 0;
    }
    return sum;
}

static bool frees_more(const Sched *s, uint32_t a, uint32_t b) {
    int64_t gain_a = (int64_t)freed_by(s, a) - (int64_t)s->made[a];
    int64_t gain_b = (int64_t)freed_by(s, b) - (int64_t)s->made[b];
    return gain_a != gain_b ? gain_a > gain_b : a < b;
}

// 0: a call starts; 1: something to do; 2: what a wait would wait for has not come.
static int urgency(const Sched *s, uint32_t region) {
    const Region *r = &s->p->region.at[region];
    bool early = r->kind == RegionWait && s->clock.arrives[r->call] > s->clock.now;
    return r->kind == RegionStart ? 0 : early ? 2 : 1;
}

static bool sooner(const Sched *s, Way way, uint32_t a, uint32_t b) {
    int ua = urgency(s, a), ub = urgency(s, b);
    if (ua != ub)
        return ua < ub;
    if (ua == 2)
        return s->p->region.at[a].call < s->p->region.at[b].call;
    if (way == WayCalls && s->clock.leads[a] != s->clock.leads[b])
        return s->clock.leads[a] < s->clock.leads[b];
    return s->late[a] != s->late[b] ? !s->late[a] : frees_more(s, a, b);
}

static bool better(const Sched *s, Way way, uint32_t a, uint32_t b) {
    if (way >= WayCalls)
        return sooner(s, way, a, b);
    if (s->late[a] != s->late[b])
        return s->late[s->few_launches && s->late_now ? a : b];
    return way == WayText ? a < b : frees_more(s, a, b);
}

// Fills `out` with the block's regions in order; the peak of bytes live.
static size_t block_order(Sched *s, const RegionVec *regions, Way way, RegionVec *out) {
    RegionVec ready = {0};
    size_t live = 0, peak = 0;
    block_reset(s, regions);
    s->late_now = false;
    for (uint32_t i = 0; i < regions->n; i++)
        if (!s->waits[regions->at[i]])
            vec_push(s->a, &ready, regions->at[i]);
    while (ready.n) {
        uint32_t best = 0;
        for (uint32_t i = 1; i < ready.n; i++)
            if (better(s, way, ready.at[i], ready.at[best]))
                best = i;
        uint32_t region = ready.at[best];
        ready.at[best] = ready.at[--ready.n];
        vec_push(s->a, out, region);
        if (way >= WayCalls)
            clock_pass(s, region);
        s->late_now = s->late[region];
        live += s->made[region];
        peak = live > peak ? live : peak;
        live -= freed_by(s, region);
        for (uint32_t i = 0; i < s->p->region.at[region].in.n; i++)
            s->value[s->p->region.at[region].in.at[i]].readers--;
        for (uint32_t i = 0; i < s->next[region].n; i++)
            if (!--s->waits[s->next[region].at[i]])
                vec_push(s->a, &ready, s->next[region].at[i]);
    }
    if (out->n != regions->n)
        bug("schedule: the orders of block %u go in a circle",
            s->p->region.at[regions->at[0]].block);
    return peak;
}

// --- launches ------------------------------------------------------------------------------------

static bool ordered(const Sched *s, uint32_t before, uint32_t after) {
    for (uint32_t i = 0; i < s->next[before].n; i++)
        if (s->next[before].at[i] == after)
            return true;
    return false;
}

// May `region` run at the same time as all of the last launch? Sharing one keeps every input alive
// for all of it, so only regions that hold little, or nothing but slots, do; and those that waited
// for one another.
static bool joins(const Sched *s, uint32_t region) {
    const Plan *p = s->p;
    Launch l = p->launch.at[p->launch.n - 1];
    for (uint32_t i = 0; i <= l.instances; i++) {
        uint32_t other = i < l.instances ? p->merge.at[l.first + i] : region;
        const Region *r = &p->region.at[other];
        if (r->kind != RegionLoop || ordered(s, other, region) ||
            (bytes_of(p, r) > SmallBytes && !writes_slots_only(p, r) &&
             !(s->few_launches && s->late[other])))
            return false;
    }
    return true;
}

static void emit_launches(Sched *s, const RegionVec *regions, bool merge) {
    Plan *p = s->p;
    BlockPlan block = {p->launch.n, 0};
    for (uint32_t i = 0; i < regions->n; i++) {
        uint32_t region = regions->at[i];
        if (merge && p->launch.n > block.first && joins(s, region)) {
            Launch *l = &p->launch.at[p->launch.n - 1];
            p->region.at[region].merged = l->region;
            l->instances++;
        } else {
            vec_push(s->perm, &p->launch, ((Launch){region, 1, p->merge.n}));
        }
        vec_push(s->perm, &p->merge, region);
    }
    block.n = p->launch.n - block.first;
    vec_push(s->perm, &p->block, block);
}

static bool has_collective(const Plan *p, const RegionVec *regions) {
    for (uint32_t i = 0; i < regions->n; i++)
        if (p->region.at[regions->at[i]].kind == RegionStart)
            return true;
    return false;
}

static void schedule_calls(Sched *s, const RegionVec *regions, const PassOptions *o) {
    const double hardly = 1.01;
    RegionVec early = {0}, small = {0};
    clock_reset(s, regions);
    size_t early_peak = block_order(s, regions, WayCalls, &early);
    double early_end = s->clock.now;
    clock_reset(s, regions);
    size_t small_peak = block_order(s, regions, WayCallsGreedy, &small);
    bool better_small = small_peak < early_peak && s->clock.now <= early_end * hardly;
    emit_launches(s, better_small ? &small : &early, !o->no_fuse);
}

static void schedule_block(Sched *s, const RegionVec *regions, const PassOptions *o) {
    RegionVec text = {0}, greedy = {0};
    if (has_collective(s->p, regions)) {
        schedule_calls(s, regions, o);
        return;
    }
    size_t peak = block_order(s, regions, WayText, &text);
    bool freer = !o->no_fuse && block_order(s, regions, WayGreedy, &greedy) < peak;
    emit_launches(s, freer ? &greedy : &text, !o->no_fuse);
}

void schedule(Arena *perm, const PassOptions *o, Plan *p) {
    Arena scratch;
    arena_need(&scratch);
    uint32_t nodes = p->func->g.node.n, regions = p->region.n;
    Sched s = {.perm = perm, .a = &scratch, .p = p, .few_launches = o->few_launches};
    s.waits = arena_array(&scratch, uint32_t, regions);
    s.made = arena_array(&scratch, size_t, regions);
    s.late = arena_array(&scratch, uint8_t, regions);
    s.outlives = arena_array(&scratch, uint8_t, nodes);
    s.value = arena_array(&scratch, Value, nodes);
    s.clock.link = &o->parallel;
    s.clock.leads = arena_array(&scratch, uint32_t, regions);
    s.clock.arrives = arena_array(&scratch, double, p->collective.n);
    find_outliving(&s, o);
    find_orders(&s);
    for (uint32_t b = 0; b < p->func->blocks; b++) {
        RegionVec in_block = {0};
        for (uint32_t r = 0; r < regions; r++)
            if (p->region.at[r].block == b)
                vec_push(&scratch, &in_block, r);
        schedule_block(&s, &in_block, o);
    }
    arena_release(&scratch);
}
