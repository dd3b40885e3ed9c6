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
// come, the rank that comes late included, or when there is nothing else to do. Of the rest what
// the next call needs comes first, so that several chains into a net go back through it layer by
// layer. The estimate moves work; the order of the calls is every rank's. What only gradients'
// calls need may so wait for its turn while the activations it reads take memory. A second order
// makes it as soon as it can be made, and stays where it spares memory and costs next to no time.
//
// Where a block ends with waits that nothing is left to hide, that end may become a tail
// (program.h, Tail): one more region of what follows, wanted there when its sums have come, all at
// once. Estimates of a core's work are off by a third, and a core that is faster than estimated
// waits longest: what is late, and what a tail gains, is told by a fast core (FastCore). A block
// has one order, whatever was left before it: work of D that hides G's sums stands in the way of
// work of G that would hide D's. So orders are tried, and the tape is played with each: a tail
// stays where the step takes less time with it.
#include "plan.h"

#include <math.h>
#include <string.h>

enum {
    RoundsPlayed = 4,     // of a repeat: they show how one follows another
    SmallBytes = 1 << 16, // what a waiting region may hold back; what a merged one may move
    Spare = 20,           // memory is spared by such a part of it, for less than that part of what
    Longer = 1000,        // calls take and this part of the block's time
};
static const double LateRank = 1e-3; // another rank comes so much later than this one, now and then
static const double FastCore = 2. / 3; // of the time estimated takes a core that is fast

typedef struct Value { // a stored value made in the block at hand
    uint32_t readers;  // regions of the block still to read it
    size_t bytes;      // 0: lies in the slot memory, or outlives the block
} Value;

// Estimated times, in seconds, of a block with collectives.
typedef struct Clock {
    const Parallel *link;
    uint32_t *leads;  // [region] the first call that cannot start before it, NONE
    uint8_t *weights; // [region] nothing needs it but calls of gradients
    double *arrives;  // [call] when its sum is there
    double late;      // of the rank that is waited for
    double core;      // of the times estimated takes a core: 1, or FastCore
    double now;
    double free[2]; // when the link has carried what was started: large calls, small ones
} Clock;

typedef VEC(uint32_t) RegionVec;

// A tail. Among the regions of a block that runs it it is one, whose number is Plan.region.n and
// its own.
typedef struct Late {
    uint32_t block;   // whose end it is
    RegionVec region; // in order
    TailWays ways;
    // From that end, on a fast core:
    double *arrives; // [call] when the sum of a call that is left is there
    double due;      // when all are
    double free[2];  // Clock.free
    size_t bytes;    // of work memory held until it has run
} Late;

typedef struct Sched {
    Arena *perm;
    Arena *a; // scratch
    Plan *p;
    OrderVec order;       // sorted by after
    VEC(uint32_t) * next; // [region] regions that must follow
    uint32_t *waits;      // [region] regions it still waits for
    size_t *made;         // [region] bytes it stores in work memory
    uint8_t *late;        // [region] waits until there is nothing else to do
    uint8_t *here;        // [region] is of the block at hand
    bool few_launches;    // PassOptions
    bool late_now;        // the last region was late: with few_launches, others follow
    uint8_t *outlives;    // [node] read by another block or by the executor
    Value *value;         // [node]
    Clock clock;          // blocks with collectives
    uint8_t *may;         // [region] may be left
    uint8_t *left;        // [region] is
    VEC(Late) tail;
    uint8_t
        *pending; // [tail] left and not run: a block's estimates begin with it, then it runs once
} Sched;

// What decides among regions that may run. Blocks with collectives: what the next call needs;
// weight gradients before that.
typedef enum Way { WayText, WayGreedy, WayCalls, WayWeights } Way;

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
        optimizer |= reads && p->module->slot.at[node_attr(g, id)->i[0]].kind == SlotOpt;
        slots &= reads && !node_type(g, id)->batched;
    }
    return r->kind == RegionLoop && (writes_slots_only(p, r) || optimizer || slots);
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
        s->late[r] = s->few_launches ? is_shared(p, region) : small;
    }
}

// --- the clock of a block with collectives -------------------------------------------------------

static bool is_tail(const Sched *s, uint32_t region) {
    return region >= s->p->region.n;
}

static bool is_pending(const Sched *s, uint32_t region) {
    return is_tail(s, region) && s->pending[region - s->p->region.n];
}

static const Late *tail_of(const Sched *s, uint32_t region) {
    return &s->tail.at[region - s->p->region.n];
}

static bool starts_gradients(const Sched *s, uint32_t region) {
    const Plan *p = s->p;
    return !is_tail(s, region) && p->region.at[region].kind == RegionStart &&
           p->collective.at[p->region.at[region].call].update != NONE;
}

// As long as a time takes that a tail knows: on a slower core more is done later.
static double tail_seconds(const Sched *s, double seconds) {
    return seconds * s->clock.core / FastCore;
}

// The sums of a tail are on their way.
static void clock_begin(Sched *s, const Late *tail) {
    Clock *c = &s->clock;
    for (int i = 0; i < 2; i++) {
        double free = tail_seconds(s, tail->free[i]);
        c->free[i] = free > c->free[i] ? free : c->free[i];
    }
    for (uint32_t i = 0; i < tail->region.n; i++) {
        const Region *r = &s->p->region.at[tail->region.at[i]];
        if (r->kind == RegionWait)
            c->arrives[r->call] = tail_seconds(s, tail->arrives[r->call]);
    }
}

static void clock_reset(Sched *s, const RegionVec *regions, double core) {
    Clock *c = &s->clock;
    c->late = LateRank;
    c->core = core;
    c->now = c->free[0] = c->free[1] = 0;
    for (uint32_t i = regions->n; i-- > 0;) { // in a valid order, the tail first
        uint32_t region = regions->at[i], first = NONE;
        c->weights[region] = s->next[region].n > 0;
        for (uint32_t k = 0; k < s->next[region].n; k++) {
            uint32_t after = s->next[region].at[k];
            first = c->leads[after] < first ? c->leads[after] : first;
            c->weights[region] &= c->weights[after] || starts_gradients(s, after);
        }
        if (is_pending(s, region))
            clock_begin(s, tail_of(s, region));
        else if (!is_tail(s, region) && s->p->region.at[region].kind == RegionStart)
            first = s->p->region.at[region].call;
        c->leads[region] = first;
    }
}

static void clock_pass(Sched *s, uint32_t region) {
    Clock *c = &s->clock;
    if (is_tail(s, region)) {
        for (uint32_t i = 0; is_pending(s, region) && i < tail_of(s, region)->region.n; i++)
            clock_pass(s, tail_of(s, region)->region.at[i]);
        return;
    }
    const Region *r = &s->p->region.at[region];
    if (r->kind == RegionStart) {
        size_t bytes = s->p->collective.at[r->call].bytes;
        double *free = &c->free[bytes <= COMM_SMALL];
        *free = (c->now > *free ? c->now : *free) + call_seconds(c->link, bytes);
        c->arrives[r->call] = *free + c->late;
    } else if (r->kind == RegionWait) {
        c->now = c->arrives[r->call] > c->now ? c->arrives[r->call] : c->now;
    } else {
        c->now += region_seconds(s->p, r) * c->core;
    }
}

// When the sums are there that a region waits for; 0: it waits for none.
static double due(const Sched *s, uint32_t region) {
    if (is_tail(s, region))
        return is_pending(s, region) ? tail_seconds(s, tail_of(s, region)->due) : 0;
    const Region *r = &s->p->region.at[region];
    return r->kind == RegionWait ? s->clock.arrives[r->call] : 0;
}

// --- one block -----------------------------------------------------------------------------------

// Sets the block's counters: what each region waits for, who still reads each value.
static void block_reset(Sched *s, const RegionVec *regions) {
    const Plan *p = s->p;
    memset(s->here, 0, p->region.n + s->tail.n);
    for (uint32_t i = 0; i < regions->n; i++) {
        uint32_t region = regions->at[i];
        s->waits[region] = 0;
        s->here[region] = 1;
        for (uint32_t k = 0; !is_tail(s, region) && k < p->region.at[region].out.n; k++) {
            uint32_t id = p->region.at[region].out.at[k];
            bool freed = !plan_in_slot(p, id) && !s->outlives[id];
            s->value[id] = (Value){0, freed ? plan_bytes(p, id) : 0};
        }
    }
    for (uint32_t i = 0; i < regions->n; i++) {
        uint32_t region = regions->at[i];
        for (uint32_t k = 0; k < s->next[region].n; k++)
            s->waits[s->next[region].at[k]]++;
        for (uint32_t k = 0; !is_tail(s, region) && k < p->region.at[region].in.n; k++)
            s->value[p->region.at[region].in.at[k]].readers++;
    }
}

static size_t freed_by(const Sched *s, uint32_t region) {
    if (is_tail(s, region))
        return tail_of(s, region)->bytes;
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

// 0: a call starts; 1: something to do; 2: what a wait would wait for has not come; 3: nor may it
// be needed in this step.
static int urgency(const Sched *s, uint32_t region) {
    if (!is_tail(s, region) && s->p->region.at[region].kind == RegionStart)
        return 0;
    return due(s, region) <= s->clock.now ? 1 : is_tail(s, region) || !s->may[region] ? 2 : 3;
}

static bool sooner(const Sched *s, Way way, uint32_t a, uint32_t b) {
    int ua = urgency(s, a), ub = urgency(s, b);
    if (ua != ub)
        return ua < ub;
    if (ua >= 2 && due(s, a) != due(s, b))
        return due(s, a) < due(s, b);
    if (way == WayWeights && s->clock.weights[a] != s->clock.weights[b])
        return s->clock.weights[a];
    if (s->clock.leads[a] != s->clock.leads[b])
        return s->clock.leads[a] < s->clock.leads[b];
    return s->late[a] != s->late[b] ? !s->late[a] : frees_more(s, a, b);
}

static bool has_clock(Way way) {
    return way == WayCalls || way == WayWeights;
}

static bool better(const Sched *s, Way way, uint32_t a, uint32_t b) {
    if (has_clock(way))
        return sooner(s, way, a, b);
    if (s->late[a] != s->late[b])
        return s->late[s->few_launches && s->late_now ? a : b];
    return way == WayText ? a < b : frees_more(s, a, b);
}

// Fills `out` with the block's regions in order; the peak of bytes live.
static size_t block_order(Sched *s, const RegionVec *regions, Way way, RegionVec *out) {
    RegionVec ready = {0};
    block_reset(s, regions);
    if (has_clock(way))
        clock_reset(s, regions, 1);
    size_t live = 0, peak = 0;
    s->late_now = false;
    for (uint32_t i = 0; i < regions->n; i++) {
        live += is_tail(s, regions->at[i]) ? tail_of(s, regions->at[i])->bytes : 0;
        if (!s->waits[regions->at[i]])
            vec_push(s->a, &ready, regions->at[i]);
    }
    peak = live;
    while (ready.n) {
        uint32_t best = 0;
        for (uint32_t i = 1; i < ready.n; i++)
            if (better(s, way, ready.at[i], ready.at[best]))
                best = i;
        uint32_t region = ready.at[best];
        ready.at[best] = ready.at[--ready.n];
        vec_push(s->a, out, region);
        if (has_clock(way))
            clock_pass(s, region);
        s->late_now = s->late[region];
        live += s->made[region];
        peak = live > peak ? live : peak;
        live -= freed_by(s, region);
        for (uint32_t i = 0; !is_tail(s, region) && i < s->p->region.at[region].in.n; i++)
            s->value[s->p->region.at[region].in.at[i]].readers--;
        for (uint32_t i = 0; i < s->next[region].n; i++) {
            uint32_t after = s->next[region].at[i];
            if (!--s->waits[after] && s->here[after])
                vec_push(s->a, &ready, after);
        }
    }
    if (out->n != regions->n)
        bug("schedule: the orders of block %u go in a circle",
            s->p->region.at[regions->at[regions->n - 1]].block);
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
            (region_bytes(p, r) > SmallBytes && !writes_slots_only(p, r) &&
             !(s->few_launches && s->late[other])))
            return false;
    }
    return true;
}

static void emit_launches(Sched *s, Section *out, const uint32_t *regions, uint32_t n, bool merge) {
    Plan *p = s->p;
    out->first = p->launch.n;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t region = regions[i];
        if (merge && p->launch.n > out->first && joins(s, region)) {
            Launch *l = &p->launch.at[p->launch.n - 1];
            p->region.at[region].merged = l->region;
            l->instances++;
        } else {
            vec_push(s->perm, &p->launch, ((Launch){region, 1, p->merge.n}));
        }
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
        if (!is_tail(s, order->at[i]))
            continue;
        emit_section(s, now, order->at + from, i - from, merge);
        now = (Section){.kind = SectionRest, .block = block};
        now.tail = order->at[i] - s->p->region.n;
        from = i + 1;
    }
    emit_section(s, now, order->at + from, order->n - from, merge);
}

static void emit_blocks(Sched *s, const RegionVec *order, bool merge) {
    Plan *p = s->p;
    for (uint32_t b = 0; b < p->func->blocks; b++)
        vec_push(s->perm, &p->section, (Section){0});
    for (uint32_t b = 0; b < p->func->blocks; b++) {
        emit_block(s, b, &order[b], merge);
        if (p->tail.n == s->tail.n || s->tail.at[p->tail.n].block != b)
            continue;
        const Late *left = &s->tail.at[p->tail.n];
        emit_section(s, (Section){.kind = SectionTail, .block = b, .tail = p->tail.n},
                     left->region.at, left->region.n, merge);
        vec_push(s->perm, &p->tail,
                 ((Tail){b, p->section.n - 1, left->ways.loop, left->ways.wraps}));
    }
}

// --- blocks --------------------------------------------------------------------------------------

static bool has_collective(const Sched *s, const RegionVec *regions) {
    for (uint32_t i = 0; i < regions->n; i++)
        if (is_tail(s, regions->at[i]) || s->p->region.at[regions->at[i]].kind == RegionStart)
            return true;
    return false;
}

// What an order takes when no rank is late; *calls: what its calls take.
static double order_seconds(Sched *s, const RegionVec *order, double *calls) {
    clock_reset(s, order, 1);
    s->clock.late = *calls = 0;
    for (uint32_t i = 0; i < order->n; i++) {
        uint32_t region = order->at[i];
        clock_pass(s, region);
        if (!is_tail(s, region) && s->p->region.at[region].kind == RegionStart) {
            uint32_t call = s->p->region.at[region].call;
            *calls += call_seconds(s->clock.link, s->p->collective.at[call].bytes);
        }
    }
    return s->clock.now;
}

static void order_calls(Sched *s, const RegionVec *regions, RegionVec *out) {
    RegionVec calls = {0}, weights = {0};
    double sent;
    size_t most = block_order(s, regions, WayCalls, &calls),
           least = block_order(s, regions, WayWeights, &weights);
    double soon = order_seconds(s, &calls, &sent), later = order_seconds(s, &weights, &sent);
    bool spares = most > least + least / Spare && later - soon < sent / Spare + soon / Longer;
    *out = spares ? weights : calls;
}

static void order_block(Sched *s, const RegionVec *regions, const PassOptions *o, RegionVec *out) {
    RegionVec text = {0}, greedy = {0};
    if (has_collective(s, regions)) {
        order_calls(s, regions, out);
        return;
    }
    size_t peak = block_order(s, regions, WayText, &text);
    bool freer = !o->no_fuse && block_order(s, regions, WayGreedy, &greedy) < peak;
    *out = freer ? greedy : text;
}

// --- tails ---------------------------------------------------------------------------------------

// The regions of a block, the tails it runs before those that they must precede.
static void regions_of(Sched *s, uint32_t block, RegionVec *out) {
    const Plan *p = s->p;
    *out = (RegionVec){0};
    for (uint32_t t = 0; t < s->tail.n; t++)
        if (s->tail.at[t].ways.within[block])
            vec_push(s->a, out, p->region.n + t);
    uint32_t tails = out->n;
    for (uint32_t t = 0; t < tails; t++)
        s->next[out->at[t]].n = 0;
    for (uint32_t r = 0; r < p->region.n; r++) {
        if (p->region.at[r].block != block || s->left[r])
            continue;
        vec_push(s->a, out, r);
        for (uint32_t t = 0; t < tails; t++)
            if (tail_of(s, out->at[t])->ways.meets[r])
                vec_push(s->a, &s->next[out->at[t]], r);
    }
}

// Where the end of an order begins that may be left and waits for what has not come, its length
// when there is none. The clock then stands there.
static uint32_t find_cut(Sched *s, const RegionVec *order) {
    uint32_t may = order->n, at = 0;
    while (may && !is_tail(s, order->at[may - 1]) && s->may[order->at[may - 1]])
        may--;
    clock_reset(s, order, FastCore);
    for (; at < order->n && !(at >= may && due(s, order->at[at]) > s->clock.now); at++)
        clock_pass(s, order->at[at]);
    return at;
}

// The end of a block becomes a tail; its times are from where that block now ends. False: it is
// open what runs it.
static bool leave(Sched *s, uint32_t block, const RegionVec *order, uint32_t cut) {
    const Clock *c = &s->clock;
    Late left = {.block = block, .free = {c->free[0] - c->now, c->free[1] - c->now}};
    left.arrives = arena_array(s->a, double, s->p->collective.n);
    for (uint32_t i = cut; i < order->n; i++) {
        const Region *r = &s->p->region.at[order->at[i]];
        s->left[order->at[i]] = 1;
        vec_push(s->a, &left.region, order->at[i]);
        if (r->kind != RegionWait)
            continue;
        left.arrives[r->call] = c->arrives[r->call] - c->now;
        left.due = left.arrives[r->call] > left.due ? left.arrives[r->call] : left.due;
        left.bytes += s->p->collective.at[r->call].bytes;
    }
    bool known = tail_place(s->a, s->p, left.region.at, left.region.n, &left.ways);
    vec_push(s->a, &s->tail, left);
    return known;
}

static void play_block(Sched *s, const RegionVec *order) {
    for (uint32_t i = 0; i < order->n; i++) {
        clock_pass(s, order->at[i]);
        if (is_tail(s, order->at[i]))
            s->pending[order->at[i] - s->p->region.n] = 0;
    }
}

// Plays the tape from `pc` to the end of its scope, which is returned: both branches, some rounds.
static uint32_t play(Sched *s, const RegionVec *order, uint32_t pc) {
    const Func *f = s->p->func;
    for (; pc < f->tape.n && f->tape.at[pc].kind != CtlEnd; pc++) {
        Ctl c = f->tape.at[pc];
        uint32_t rounds = c.kind == CtlRepeat && c.arg > 1 ? c.arg : 1, begin = pc + 1;
        if (c.kind == CtlElse)
            continue;
        if (c.kind != CtlBlock) {
            for (uint32_t r = 0; r < rounds && r < RoundsPlayed; r++)
                pc = play(s, order, begin);
            continue;
        }
        play_block(s, &order[c.arg]);
        for (uint32_t t = 0; t < s->tail.n; t++)
            s->pending[t] |= s->tail.at[t].block == c.arg;
    }
    return pc;
}

// What a step takes among its like, on fast cores of which none is late.
static double step_seconds(Sched *s, const RegionVec *order) {
    double began = 0;
    clock_reset(s, &(RegionVec){0}, FastCore);
    s->clock.late = 0;
    memset(s->pending, 0, s->tail.n);
    for (int step = 0; step < 2; step++) {
        began = s->clock.now;
        (void)play(s, order, 0);
    }
    return s->clock.now - began;
}

// Orders a block that runs tails anew: as if all of them were under way, or one alone, for they may
// be of blocks of which one comes before it at a time. What makes the shortest step stays.
static void order_anew(Sched *s, const PassOptions *o, uint32_t block, RegionVec *order) {
    RegionVec regions, best = {0};
    double least = INFINITY;
    regions_of(s, block, &regions);
    for (uint32_t alone = 0; alone <= s->tail.n; alone++) { // the last: all
        for (uint32_t t = 0; t < s->tail.n; t++)
            s->pending[t] = alone == s->tail.n || alone == t;
        order_block(s, &regions, o, &order[block]);
        double seconds = step_seconds(s, order);
        best = seconds < least ? order[block] : best;
        least = fmin(seconds, least);
    }
    order[block] = best;
}

static double take_in(Sched *s, const PassOptions *o, RegionVec *order) {
    const Late *left = &s->tail.at[s->tail.n - 1];
    order[left->block].n -= left->region.n;
    for (uint32_t b = 0; b < s->p->func->blocks; b++)
        if (left->ways.within[b])
            order_anew(s, o, b, order);
    return step_seconds(s, order);
}

// Leaves what comes late at the end of a block, where that makes the step shorter.
static void order_tail(Sched *s, const PassOptions *o, uint32_t block, RegionVec *order) {
    uint32_t blocks = s->p->func->blocks;
    RegionVec regions, *was = arena_array(s->a, RegionVec, blocks);
    double seconds = step_seconds(s, order);
    memcpy(was, order, blocks * sizeof *was);
    regions_of(s, block, &regions); // whom the tails in its order must precede
    uint32_t cut = find_cut(s, &order[block]);
    if (cut == order[block].n ||
        (leave(s, block, &order[block], cut) && take_in(s, o, order) < seconds))
        return;
    s->tail.n--;
    for (uint32_t i = cut; i < was[block].n; i++)
        s->left[was[block].at[i]] = 0;
    memcpy(order, was, blocks * sizeof *was);
}

void schedule(Arena *perm, const PassOptions *o, Plan *p) {
    Arena scratch;
    arena_need(&scratch);
    uint32_t nodes = p->func->g.node.n, calls = p->collective.n;
    uint32_t regions = p->region.n + p->func->blocks; // tails too
    Sched s = {.perm = perm, .a = &scratch, .p = p, .few_launches = o->few_launches};
    s.waits = arena_array(&scratch, uint32_t, regions);
    s.made = arena_array(&scratch, size_t, regions);
    s.late = arena_array(&scratch, uint8_t, regions);
    s.here = arena_array(&scratch, uint8_t, regions);
    s.outlives = plan_outliving(&scratch, o, p);
    s.value = arena_array(&scratch, Value, nodes);
    s.clock.link = &o->parallel;
    s.clock.leads = arena_array(&scratch, uint32_t, regions);
    s.clock.weights = arena_array(&scratch, uint8_t, regions);
    s.clock.arrives = arena_array(&scratch, double, calls);
    find_orders(&s);
    s.may = arena_array(&scratch, uint8_t, regions);
    s.left = arena_array(&scratch, uint8_t, regions);
    s.pending = arena_array(&scratch, uint8_t, p->func->blocks);
    bool some = tail_find(o, p, &s.order, s.outlives, s.may);
    RegionVec *order = arena_array(&scratch, RegionVec, p->func->blocks);
    for (uint32_t b = 0; b < p->func->blocks; b++) {
        RegionVec in_block;
        regions_of(&s, b, &in_block);
        order_block(&s, &in_block, o, &order[b]);
    }
    for (uint32_t b = 0; some && b < p->func->blocks; b++)
        order_tail(&s, o, b, order);
    emit_blocks(&s, order, !o->no_fuse);
    arena_release(&scratch);
}
