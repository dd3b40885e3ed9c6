// schedule.c - orders a function's regions and decides which of them share a launch.
//
// In: regions in an order that is valid in every block. Out: Plan.launch, merge, section, tail.
// Each block is list-scheduled on its own, under region_orders. Five orders are tried: the
// program's; greedy: of the ready regions, the one that frees the most bytes net of those it
// allocates; depth-first: of those that became ready last, the one that is first by greed; and
// these two with ties going to the program's last region instead of its first, because neither is
// better for all steps. The lowest peak wins; on a card, where launches run side by side, another
// does if it is estimated to be faster by enough (schedule_chain.c). Greedy runs an optimizer as
// soon as its gradient is ready, and so interleaves chains by layer. But where a step calls nets
// several times (cycles, identities, several scales), it goes forward through all of them abreast,
// as each allocates; depth-first goes back through one before it begins the next. In each a small
// loop that can share the launch of the one before goes first. Tiny optimizer regions (gains,
// biases) wait for the end of their block, where independent neighbours are merged into one launch.
// Where launches are expensive (few_launches), all work on shared values waits until nothing else
// is ready, and then runs together: an update of a net is one launch.
//
// A block with collectives is scheduled by a simulated clock of the link and the core: a collective
// starts as soon as its last part is ready; one in flight is waited for when its sum should have
// arrived, a straggler's delay included, or when nothing else is ready. Among the rest, what the
// next collective depends on goes first, so that several chains into a net go back through it layer
// by layer. The simulation only moves work; the order of the collectives is the same on every rank.
// Work that fills a wait may take longer than the wait would, and delay the collectives behind it:
// a second, patient order waits, and wins where its last sum arrives earlier. Weight gradients,
// which only gradient collectives need, may be delayed for long while the activations they read
// stay live: a third order computes them as soon as possible. A fourth is depth-first. Either wins
// where it saves memory at almost no time.
#include "schedule.h"

#include <math.h>
#include <string.h>

enum {
    SmallBytes = 1 << 16, // what a waiting region may hold back; what a merged one may move
    Spare = 20,           // memory is spared by such a part of it; for less than that part of what
    Longer = 1000,        // calls take and this part of the block's time
    TimeDearer = 32,      // on a card: a hundredth of the time is worth a third of the memory
};

// What decides among regions that may run: the program, bytes freed, depth; Last: ties go to the
// program's last. Blocks with collectives: what the next call needs; that, and a wait for it before
// longer work; weight gradients before that; depth instead of it.
typedef enum Way {
    WayText,
    WayGreedy,
    WayDepth,
    WayGreedyLast,
    WayDepthLast,
    WayCalls,
    WayPatient,
    WayWeights,
    WayDepthCalls
} Way;

// --- facts about regions -------------------------------------------------------------------------

static bool writes_slots_only(const Plan *p, const Region *r) {
    for (uint32_t i = 0; i < r->out.n; i++)
        if (graph_node(&p->func->g, r->out.at[i])->op != OpWrite)
            return false;
    return r->kind == RegionLoop;
}

// Is it work on what samples share: does it write slots only, or read an optimizer's state, or
// nothing but weights and state?
static bool is_shared(const Plan *p, const Region *r) {
    const Graph *g = &p->func->g;
    bool optimizer = false, slots = r->in.n > 0;
    for (uint32_t i = 0; i < r->in.n; i++) {
        uint32_t id = r->in.at[i];
        bool reads = graph_node(g, id)->op == OpRead;
        optimizer |= reads && p->module->slot.at[node_slot(g, id)].kind == SlotOpt;
        slots &= reads && !node_type(g, id)->batched;
    }
    return r->kind == RegionLoop && (writes_slots_only(p, r) || optimizer || slots);
}

// May a region share its launch? All its inputs stay alive for all of that, so only regions do that
// hold little, or nothing but slots; and those that waited for one another.
static bool may_share(const Sched *s, uint32_t region) {
    const Region *r = &s->p->region.at[region];
    return r->kind == RegionLoop &&
           (region_bytes(s->p, r) <= SmallBytes || writes_slots_only(s->p, r) ||
            (s->few_launches && s->low[region]));
}

static void find_orders(Sched *s) {
    const Plan *p = s->p;
    region_orders(s->a, p, &s->order);
    s->next =
        arena_array_(s->a, sizeof *s->next, _Alignof(uint32_t *), p->region.n + p->func->blocks);
    for (uint32_t i = 0; i < s->order.n; i++)
        vec_push(s->a, &s->next[s->order.at[i].before], s->order.at[i].after);
    for (uint32_t r = 0; r < p->region.n; r++) {
        const Region *region = &p->region.at[r];
        for (uint32_t i = 0; i < region->out.n; i++)
            s->made[r] += plan_in_slot(p, region->out.at[i]) ? 0 : plan_bytes(p, region->out.at[i]);
        bool small = writes_slots_only(p, region) && region_bytes(p, region) <= SmallBytes;
        s->low[r] = s->few_launches ? is_shared(p, region) : small;
        s->shares[r] = may_share(s, r);
    }
}

// --- one block -----------------------------------------------------------------------------------

static void add_reader(Value *v, uint32_t reader) {
    v->readers++;
    v->reader_sum += reader;
}

static void drop_reader(Sched *s, Value *v, uint32_t reader) {
    v->readers--;
    v->reader_sum -= reader;
    if (v->readers == 1 && v->bytes)
        s->frees[v->reader_sum] += v->bytes;
}

// Sets the block's counters: what each region waits for, who still reads each value, what a region
// frees.
static void block_reset(Sched *s, const RegionVec *regions) {
    const Plan *p = s->p;
    memset(s->here, 0, p->region.n + s->tail.n);
    for (uint32_t i = 0; i < regions->n; i++) {
        uint32_t region = regions->at[i];
        s->waits[region] = 0;
        s->here[region] = 1;
        for (uint32_t k = 0; !sched_is_tail(s, region) && k < p->region.at[region].out.n; k++) {
            uint32_t id = p->region.at[region].out.at[k];
            bool freed = !plan_in_slot(p, id) && !s->outlives[id];
            s->value[id] = (Value){.bytes = freed ? plan_bytes(p, id) : 0};
        }
    }
    for (uint32_t i = 0; i < regions->n; i++) {
        uint32_t region = regions->at[i];
        for (uint32_t k = 0; k < s->next[region].n; k++)
            s->waits[s->next[region].at[k]]++;
        for (uint32_t k = 0; !sched_is_tail(s, region) && k < p->region.at[region].in.n; k++)
            add_reader(&s->value[p->region.at[region].in.at[k]], region);
    }
    for (uint32_t i = 0; i < regions->n; i++) {
        uint32_t region = regions->at[i];
        bool tail = sched_is_tail(s, region);
        s->frees[region] = tail ? sched_tail_of(s, region)->bytes : 0;
        for (uint32_t k = 0; !tail && k < p->region.at[region].in.n; k++) {
            const Value *v = &s->value[p->region.at[region].in.at[k]];
            s->frees[region] += v->readers == 1 ? v->bytes : 0;
        }
    }
}

static bool frees_more(const Sched *s, Way way, uint32_t a, uint32_t b) {
    int64_t gain_a = (int64_t)s->frees[a] - (int64_t)s->made[a];
    int64_t gain_b = (int64_t)s->frees[b] - (int64_t)s->made[b];
    bool last = way == WayGreedyLast || way == WayDepthLast;
    return gain_a != gain_b ? gain_a > gain_b : last ? a > b : a < b;
}

// 0: a call starts; 1: something to do; 2: what a wait would wait for has not come; 3: nor may it
// be needed in this step.
static int urgency(const Sched *s, uint32_t region) {
    if (!sched_is_tail(s, region) && s->p->region.at[region].kind == RegionStart)
        return 0;
    return sched_due(s, region) <= s->clock.now                 ? 1
           : sched_is_tail(s, region) || !s->deferrable[region] ? 2
                                                                : 3;
}

static bool sooner(const Sched *s, Way way, uint32_t a, uint32_t b) {
    int ua = urgency(s, a), ub = urgency(s, b);
    if (ua != ub)
        return ua < ub;
    if (ua >= 2 && sched_due(s, a) != sched_due(s, b))
        return sched_due(s, a) < sched_due(s, b);
    if (way == WayWeights && s->clock.weights[a] != s->clock.weights[b])
        return s->clock.weights[a];
    bool depth = way == WayDepthCalls;
    if (depth && s->low[a] == s->low[b] && s->since[a] != s->since[b])
        return s->since[a] > s->since[b];
    if (!depth && s->clock.leads[a] != s->clock.leads[b])
        return s->clock.leads[a] < s->clock.leads[b];
    return s->low[a] != s->low[b] ? !s->low[a] : frees_more(s, way, a, b);
}

static bool has_clock(Way way) {
    return way >= WayCalls;
}

// May it join the last launch? What was ready before that began depends on nothing in it.
static bool joins(const Sched *s, uint32_t region) {
    return s->open != NONE && s->shares[region] && s->since[region] <= s->open;
}

static bool better(const Sched *s, Way way, uint32_t a, uint32_t b) {
    if (has_clock(way))
        return sooner(s, way, a, b);
    if (s->low[a] != s->low[b])
        return s->low[s->few_launches && s->low_now ? a : b];
    if (joins(s, a) != joins(s, b))
        return joins(s, a);
    if ((way == WayDepth || way == WayDepthLast) && s->since[a] != s->since[b])
        return s->since[a] > s->since[b];
    return way == WayText ? a < b : frees_more(s, way, a, b);
}

// Instead of work that is not for the next call, the wait for that call's, if it is over sooner
// than the work would be.
static uint32_t wait_instead(const Sched *s, const RegionVec *ready, uint32_t best) {
    uint32_t work = ready->at[best];
    if (urgency(s, work) != 1 || sched_is_tail(s, work))
        return best;
    double over = s->clock.now + region_seconds(s->p, &s->p->region.at[work]);
    for (uint32_t i = 0; i < ready->n; i++) {
        uint32_t region = ready->at[i];
        if (s->clock.leads[region] < s->clock.leads[work] && sched_due(s, region) < over) {
            over = sched_due(s, region);
            best = i;
        }
    }
    return best;
}

static void add_ready(Sched *s, uint32_t region, uint32_t ran, RegionVec *ready) {
    s->since[region] = ran;
    vec_push(s->a, ready, region);
}

// Fills `out` with the block's regions in order; the peak of bytes live.
static size_t block_order(Sched *s, const RegionVec *regions, Way way, RegionVec *out) {
    RegionVec ready = {0};
    block_reset(s, regions);
    if (has_clock(way))
        sched_clock_reset(s, regions, 1);
    size_t live = 0, peak = 0;
    s->low_now = false;
    s->open = NONE;
    for (uint32_t i = 0; i < regions->n; i++) {
        live += sched_is_tail(s, regions->at[i]) ? sched_tail_of(s, regions->at[i])->bytes : 0;
        if (!s->waits[regions->at[i]])
            add_ready(s, regions->at[i], 0, &ready);
    }
    peak = live;
    while (ready.n) {
        uint32_t best = 0;
        for (uint32_t i = 1; i < ready.n; i++)
            if (better(s, way, ready.at[i], ready.at[best]))
                best = i;
        best = way == WayPatient ? wait_instead(s, &ready, best) : best;
        uint32_t region = ready.at[best];
        ready.at[best] = ready.at[--ready.n];
        vec_push(s->a, out, region);
        if (has_clock(way))
            sched_clock_pass(s, region);
        s->low_now = s->low[region];
        s->open = !s->shares[region] ? NONE : joins(s, region) ? s->open : out->n - 1;
        live += s->made[region];
        peak = live > peak ? live : peak;
        live -= s->frees[region];
        for (uint32_t i = 0; !sched_is_tail(s, region) && i < s->p->region.at[region].in.n; i++)
            drop_reader(s, &s->value[s->p->region.at[region].in.at[i]], region);
        for (uint32_t i = 0; i < s->next[region].n; i++) {
            uint32_t after = s->next[region].at[i];
            if (!--s->waits[after] && s->here[after])
                add_ready(s, after, out->n, &ready);
        }
    }
    if (out->n != regions->n)
        bug("schedule: the orders of block %u go in a circle",
            s->p->region.at[regions->at[regions->n - 1]].block);
    return peak;
}

// --- launches ------------------------------------------------------------------------------------

static void emit_launches(Sched *s, Section *out, const uint32_t *regions, uint32_t n, bool merge) {
    Plan *p = s->p;
    bool open = false; // may others join the last launch?
    out->first = p->launch.n;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t region = regions[i];
        bool shares = merge && s->shares[region];
        if (open && shares && s->behind[region] != p->launch.n) {
            Launch *l = &p->launch.at[p->launch.n - 1];
            p->region.at[region].merged = l->region;
            l->instances++;
        } else {
            vec_push(s->perm, &p->launch, ((Launch){region, 1, p->merge.n}));
        }
        open = shares;
        for (uint32_t k = 0; k < s->next[region].n; k++)
            s->behind[s->next[region].at[k]] = p->launch.n;
        vec_push(s->perm, &p->merge, region);
    }
    out->n = p->launch.n - out->first;
}

static void emit_section(Sched *s, Section made, const uint32_t *regions, uint32_t n, bool merge) {
    Plan *p = s->p;
    emit_launches(s, &made, regions, n, merge);
    if (made.kind == SectionBegin)
        p->section.at[made.block] = made;
    else
        vec_push(s->perm, &p->section, made);
}

// A block begins anew behind every tail it runs.
static void emit_block(Sched *s, uint32_t block, const RegionVec *order, bool merge) {
    Section now = {.block = block, .tail = NONE};
    uint32_t from = 0;
    for (uint32_t i = 0; i < order->n; i++) {
        if (!sched_is_tail(s, order->at[i]))
            continue;
        emit_section(s, now, order->at + from, i - from, merge);
        now = (Section){.kind = SectionRest, .block = block};
        now.tail = order->at[i] - s->p->region.n;
        from = i + 1;
    }
    emit_section(s, now, order->n ? order->at + from : NULL, order->n - from, merge);
}

static void emit_blocks(Sched *s, const RegionVec *order, bool merge) {
    Plan *p = s->p;
    for (uint32_t b = 0; b < p->func->blocks; b++)
        vec_push(s->perm, &p->section, (Section){0});
    for (uint32_t b = 0; b < p->func->blocks; b++) {
        emit_block(s, b, &order[b], merge);
        if (p->tail.n == s->tail.n || s->tail.at[p->tail.n].block != b)
            continue;
        const SchedTail *tail = &s->tail.at[p->tail.n];
        emit_section(s, (Section){.kind = SectionTail, .block = b, .tail = p->tail.n},
                     tail->region.at, tail->region.n, merge);
        vec_push(s->perm, &p->tail,
                 ((Tail){b, p->section.n - 1, tail->ways.loop, tail->ways.wraps}));
    }
}

// --- blocks --------------------------------------------------------------------------------------

static bool has_collective(const Sched *s, const RegionVec *regions) {
    for (uint32_t i = 0; i < regions->n; i++)
        if (sched_is_tail(s, regions->at[i]) || s->p->region.at[regions->at[i]].kind == RegionStart)
            return true;
    return false;
}

// What an order takes until the last of its sums is there, which may be waited for elsewhere, when
// other ranks come so much later; *calls: what its calls take.
static double order_seconds(Sched *s, const RegionVec *order, double straggler, double *calls) {
    sched_clock_reset(s, order, 1);
    s->clock.straggler = straggler;
    *calls = 0;
    for (uint32_t i = 0; i < order->n; i++) {
        uint32_t region = order->at[i];
        sched_clock_pass(s, region);
        if (!sched_is_tail(s, region) && s->p->region.at[region].kind == RegionStart) {
            uint32_t call = s->p->region.at[region].call;
            *calls += call_seconds(s->clock.link, s->p->collective.at[call].bytes);
        }
    }
    return fmax(s->clock.now, fmax(s->clock.free[0], s->clock.free[1]));
}

static void order_calls(Sched *s, const RegionVec *regions, RegionVec *out) {
    RegionVec patient = {0};
    double sent;
    *out = (RegionVec){0};
    size_t most = block_order(s, regions, WayCalls, out),
           waits = block_order(s, regions, WayPatient, &patient);
    if (order_seconds(s, &patient, StragglerDelay, &sent) <
        order_seconds(s, out, StragglerDelay, &sent)) {
        *out = patient;
        most = waits;
    }
    double soon = order_seconds(s, out, 0, &sent);
    for (Way way = WayWeights; way <= WayDepthCalls; way++) {
        RegionVec order = {0};
        size_t least = block_order(s, regions, way, &order);
        double later = order_seconds(s, &order, 0, &sent);
        if (most > least + least / Spare && later - soon < sent / Spare + soon / Longer) {
            *out = order;
            most = least;
        }
    }
}

// --- blocks without collectives ------------------------------------------------------------------

typedef struct Tried {
    RegionVec order;
    size_t peak;    // of bytes live
    double seconds; // on a card; elsewhere one order takes as long as another
} Tried;

static Tried try_order(Sched *s, const RegionVec *regions, Way way) {
    Tried t = {0};
    t.peak = block_order(s, regions, way, &t.order);
    t.seconds = s->side_by_side ? sched_card_seconds(s, regions, &t.order, t.peak) : 0;
    return t;
}

// Is the part of the time that it saves worth the part of the memory that it adds?
static bool is_faster(const Tried *t, const Tried *than) {
    double saves = than->seconds - t->seconds, adds = (double)t->peak - (double)than->peak;
    return saves * TimeDearer * (double)than->peak > adds * than->seconds;
}

void sched_order_block(Sched *s, const RegionVec *regions, const PassOptions *o, RegionVec *out) {
    if (has_collective(s, regions)) {
        order_calls(s, regions, out);
        return;
    }
    Tried tried[WayDepthLast + 1], *best = tried;
    uint32_t n = 0, most = o->no_fuse ? 1 : WayDepthLast + 1;
    for (Way way = WayText; n < most; way++, n++) {
        tried[n] = try_order(s, regions, way);
        if (tried[n].peak < best->peak - (way == WayGreedy ? 0 : best->peak / Spare))
            best = &tried[n];
    }
    for (uint32_t i = 0; i < n && s->side_by_side; i++)
        if (is_faster(&tried[i], best))
            best = &tried[i];
    *out = best->order;
}

void schedule(Arena *perm, const PassOptions *o, Plan *p) {
    Arena scratch;
    arena_need(&scratch);
    uint32_t nodes = p->func->g.node.n, calls = p->collective.n;
    uint32_t regions = p->region.n + p->func->blocks; // tails too
    Sched s = {.perm = perm, .a = &scratch, .p = p, .few_launches = o->few_launches};
    s.side_by_side = o->side_by_side;
    s.waits = arena_array(&scratch, uint32_t, regions);
    s.shares = arena_array(&scratch, uint8_t, regions);
    s.since = arena_array(&scratch, uint32_t, regions);
    s.made = arena_array(&scratch, size_t, regions);
    s.frees = arena_array(&scratch, size_t, regions);
    s.low = arena_array(&scratch, uint8_t, regions);
    s.here = arena_array(&scratch, uint8_t, regions);
    s.outlives = plan_outliving(&scratch, o, p);
    s.value = arena_array(&scratch, Value, nodes);
    s.clock.link = &o->parallel;
    s.clock.leads = arena_array(&scratch, uint32_t, regions);
    s.clock.weights = arena_array(&scratch, uint8_t, regions);
    s.clock.arrives = arena_array(&scratch, double, calls);
    s.of_block = arena_array(&scratch, RegionVec, p->func->blocks);
    for (uint32_t r = 0; r < p->region.n; r++)
        vec_push(&scratch, &s.of_block[p->region.at[r].block], r);
    find_orders(&s);
    s.behind = arena_array(&scratch, uint32_t, regions);
    s.deferrable = arena_array(&scratch, uint8_t, regions);
    s.deferred = arena_array(&scratch, uint8_t, regions);
    s.pending = arena_array(&scratch, uint8_t, p->func->blocks);
    bool some = tail_find(o, p, &s.order, s.outlives, s.deferrable);
    RegionVec *order = arena_array(&scratch, RegionVec, p->func->blocks);
    for (uint32_t b = 0; b < p->func->blocks; b++) {
        RegionVec in_block;
        sched_regions_of(&s, b, &in_block);
        sched_order_block(&s, &in_block, o, &order[b]);
    }
    for (uint32_t b = 0; some && b < p->func->blocks; b++)
        sched_order_tail(&s, o, b, order);
    emit_blocks(&s, order, !o->no_fuse);
    arena_release(&scratch);
}
