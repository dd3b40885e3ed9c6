// schedule_test.c - the order of launches of small steps, beside all orders that are valid: the
// peak of live bytes, and with collectives the time on a core and a link.
//
// Regions are made by hand; the order of their numbers is the program's. Nothing runs, so values
// may be of any size.
#include "launch_of.h"
#include "stages.h"

#include <setjmp.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include "arena_cases.h"

enum { Most = 10, Drawn = 8, Draws = 300, Large = 1000000, Small = 1024 };

// --- steps made by hand --------------------------------------------------------------------------

typedef struct Row { // a region
    RegionKind kind;
    int64_t bytes;  // of the value it stores; of its collective
    uint32_t in[3]; // earlier regions whose values it reads, numbered from 1; 0: none
    bool kept;      // the executor reads its value
    bool update;    // a start of gradients
} Row;
#define ROW(what, mb, ...)                                                                         \
    {                                                                                              \
        .kind = Region##what, .bytes = (int64_t)((mb)*1e6), .in = { __VA_ARGS__ }                  \
    }

typedef struct Case {
    Arena a;
    Module m;
    Builder at; // adds to its step
    Plan p;
    PassOptions o;
    OrderVec order;
} Case;

static void case_init(Case *c) {
    *c = (Case){.a = empty, .m = {.name = STR("schedule"), .batch = 1}, .o = {.real = DtF32}};
    Func *f = &c->m.step;
    graph_init(&f->g, &c->a, 1);
    c->at = (Builder){.g = &f->g, .raw = true};
    f->name = STR("step");
    f->blocks = 1;
    vec_push(&c->a, &f->tape, ((Ctl){.kind = CtlBlock}));
    vec_push(&c->a, &c->m.slot, ((Slot){.kind = SlotScalar, .name = STR("one"), .net = NONE}));
    c->p = (Plan){.module = &c->m, .func = f, .real = DtF32};
}

static Type vector(int64_t bytes) {
    int64_t n = bytes / (int64_t)dtype_size[DtF32];
    return type_make(false, 1, &n);
}

static uint32_t new_value(Case *c, int64_t bytes) {
    Val one = Read(&c->at, 0, 0, type_make(false, 0, NULL));
    return Expand(one, vector(bytes)).id;
}

static uint32_t add_region(Case *c, RegionKind kind, uint32_t out, const uint32_t *in, uint32_t n) {
    Region r = {.kind = kind, .kernel = NONE, .call = NONE, .merged = NONE};
    vec_push(&c->a, &r.node, out);
    vec_push(&c->a, &r.out, out);
    for (uint32_t i = 0; i < n; i++)
        vec_push(&c->a, &r.in, in[i]);
    vec_push(&c->a, &c->p.region, r);
    return c->p.region.n - 1;
}

// A start begins a collective; a wait reads its start.
static void number_call(Case *c, uint32_t region) {
    Region *r = &c->p.region.at[region];
    if (r->kind == RegionStart) {
        r->call = c->p.collective.n;
        size_t bytes = plan_bytes(&c->p, r->out.at[0]);
        vec_push(&c->a, &c->p.collective,
                 ((Collective){.update = NONE, .bytes = bytes, .start = region, .use = NONE}));
    } else if (r->kind == RegionWait) {
        r->call = c->p.region.at[c->p.region_of[r->in.at[0]]].call;
        c->p.collective.at[r->call].wait = region;
    }
}

// Places and dependences, once all regions are there.
static void settle(Case *c) {
    Plan *p = &c->p;
    uint32_t nodes = p->func->g.node.n;
    p->place = arena_array(&c->a, Place, nodes);
    p->region_of = arena_array(&c->a, uint32_t, nodes);
    memset(p->region_of, 0xff, nodes * sizeof *p->region_of);
    for (uint32_t id = 1; id < nodes; id++)
        p->place[id].owner = id;
    for (uint32_t r = 0; r < p->region.n; r++)
        p->region_of[p->region.at[r].out.at[0]] = r;
    for (uint32_t r = 0; r < p->region.n; r++)
        number_call(c, r);
    region_orders(&c->a, p, &c->order);
}

static void case_of(Case *c, const Row *row, uint32_t n) {
    case_init(c);
    for (uint32_t i = 0; i < n; i++) {
        uint32_t in[3], reads = 0, out = new_value(c, row[i].bytes);
        for (uint32_t k = 0; k < 3 && row[i].in[k]; k++)
            in[reads++] = c->p.region.at[row[i].in[k] - 1].out.at[0];
        add_region(c, row[i].kind, out, in, reads);
        if (row[i].kept)
            vec_push(&c->a, &c->m.step.result, ((Named){STR("kept"), out, 0}));
    }
    settle(c);
    for (uint32_t i = 0; i < n; i++)
        if (row[i].update)
            c->p.collective.at[c->p.region.at[i].call].update = 0;
}

// --- orders --------------------------------------------------------------------------------------

typedef struct Cost {
    double peak;    // bytes
    double seconds; // until the last region has run and the last sum is there
} Cost;

static bool reads(const Region *r, uint32_t id) {
    for (uint32_t i = 0; i < r->in.n; i++)
        if (r->in.at[i] == id)
            return true;
    return false;
}

static double freed_at(const Plan *p, const uint32_t *order, uint32_t at) {
    const Region *r = &p->region.at[order[at]];
    double sum = 0;
    for (uint32_t i = 0; i < r->in.n; i++) {
        bool later = p->region_of[r->in.at[i]] == NONE; // a slot's
        for (uint32_t k = 0; k < p->func->result.n; k++)
            later |= p->func->result.at[k].node == r->in.at[i];
        for (uint32_t k = at + 1; k < p->region.n; k++)
            later |= reads(&p->region.at[order[k]], r->in.at[i]);
        sum += later ? 0 : (double)plan_bytes(p, r->in.at[i]);
    }
    return sum;
}

static Cost cost_of(const Case *c, const uint32_t *order) {
    const Plan *p = &c->p;
    Cost cost = {0};
    double live = 0, now = 0, there[Most] = {0}; // [call]
    double idle[2] = {0};                        // the link, and its lane of small collectives
    for (uint32_t i = 0; i < p->region.n; i++) {
        const Region *r = &p->region.at[order[i]];
        if (r->kind == RegionStart) {
            size_t bytes = p->collective.at[r->call].bytes;
            double *lane = &idle[bytes <= COMM_SMALL];
            there[r->call] = *lane = fmax(now, *lane) + call_seconds(&c->o.parallel, bytes);
        } else {
            now = r->kind == RegionWait ? fmax(now, there[r->call]) : now + region_seconds(p, r);
        }
        live += (double)plan_bytes(p, r->out.at[0]);
        cost.peak = fmax(cost.peak, live);
        live -= freed_at(p, order, i);
    }
    cost.seconds = fmax(now, fmax(idle[0], idle[1]));
    return cost;
}

// May region order[at] run behind those before it in the order?
static bool may_follow(const Case *c, const uint32_t *order, uint32_t at) {
    for (uint32_t i = 0; i < c->order.n; i++) {
        bool ran = c->order.at[i].after != order[at];
        for (uint32_t k = 0; k < at; k++)
            ran |= order[k] == c->order.at[i].before;
        if (!ran)
            return false;
    }
    return true;
}

// The least of each cost over all valid orders that begin with these `n` regions.
static void search(const Case *c, uint32_t *order, uint32_t n, Cost *least) {
    uint32_t regions = c->p.region.n;
    if (n == regions) {
        Cost cost = cost_of(c, order);
        least->peak = fmin(least->peak, cost.peak);
        least->seconds = fmin(least->seconds, cost.seconds);
    }
    for (uint32_t i = n; i < regions; i++) {
        uint32_t swap = order[n];
        order[n] = order[i];
        order[i] = swap;
        if (may_follow(c, order, n))
            search(c, order, n + 1, least);
        order[i] = order[n];
        order[n] = swap;
    }
}

static Cost best(const Case *c) {
    uint32_t order[Most] = {0};
    Cost least = {INFINITY, INFINITY};
    for (uint32_t i = 0; i < c->p.region.n; i++)
        order[i] = i;
    search(c, order, 0, &least);
    return least;
}

static Cost cost_of_program(const Case *c) {
    uint32_t order[Most];
    for (uint32_t i = 0; i < c->p.region.n; i++)
        order[i] = i;
    return cost_of(c, order);
}

// The cost of the order that the scheduler finds, which is valid.
static Cost scheduled(Case *c) {
    Plan *p = &c->p;
    uint8_t seen[Most] = {0};
    schedule(&c->a, &c->o, p);
    assert_int_equal(p->merge.n, p->region.n);
    for (uint32_t i = 0; i < p->merge.n; i++)
        assert_int_equal(seen[p->merge.at[i]]++, 0);
    for (uint32_t i = 0; i < p->merge.n; i++)
        assert_true(may_follow(c, p->merge.at, i));
    return cost_of(c, p->merge.at);
}

static bool is_program(const Case *c) {
    for (uint32_t i = 0; i < c->p.merge.n; i++)
        if (c->p.merge.at[i] != i)
            return false;
    return true;
}

// --- steps that are drawn ------------------------------------------------------------------------

static uint32_t draw(uint64_t *seed, uint32_t below) {
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*seed >> 33) % below;
}

// At most `calls` of the regions are starts, each with its wait right behind it.
static void draw_case(uint64_t *seed, uint32_t calls, Case *c) {
    Row row[Drawn] = {0};
    for (uint32_t n = 0; n < Drawn; n++) {
        Row *r = &row[n];
        bool starts = n && calls && n + 2 <= Drawn && draw(seed, 3) == 0;
        *r = (Row){.kind = starts ? RegionStart : RegionCall, .kept = draw(seed, 4) == 0};
        r->bytes = (1 + draw(seed, 16)) * 100 * Large;
        for (uint32_t from = n, k = 0; from > 0 && k < (starts ? 1 : 3); from--)
            if (row[from - 1].kind != RegionStart && draw(seed, 2))
                r->in[k++] = from;
        if (!starts)
            continue;
        calls--;
        n++;
        row[n] = (Row){.kind = RegionWait, .bytes = r->bytes, .in = {n}};
    }
    case_of(c, row, Drawn);
}

// --- memory --------------------------------------------------------------------------------------

// The program's order unless another has a lower peak, which is mostly the lowest of all.
static void the_peak_is_no_higher_than_the_programs(void **state) {
    (void)state;
    uint64_t seed = 1;
    double ratio = 0;
    uint32_t lower = 0;
    for (uint32_t i = 0; i < Draws; i++) {
        Case c;
        draw_case(&seed, 0, &c);
        double program = cost_of_program(&c).peak, got = scheduled(&c).peak;
        assert_true(got < program || is_program(&c));
        lower += got < program;
        ratio += got / best(&c).peak / Draws;
    }
    print_message("peak %.4f of the lowest, %u lower than the program's\n", ratio, lower);
    assert_true(ratio < 1.05 && lower > Draws / 3);
}

// The program's order is not the lowest, and the scheduler's is nearly so.
static void check_lowest(const Row *row, uint32_t n) {
    Case c;
    case_of(&c, row, n);
    double lowest = best(&c).peak, program = cost_of_program(&c).peak;
    assert_true(lowest < program);
    assert_true(scheduled(&c).peak < 1.01 * lowest);
}
#define LOWEST(...)                                                                                \
    check_lowest((const Row[]){__VA_ARGS__}, sizeof((const Row[]){__VA_ARGS__}) / sizeof(Row))

// Chains that the program computes abreast are computed one after the other.
static void chains_are_computed_one_after_the_other(void **state) {
    (void)state;
    LOWEST(ROW(Call, 800, 0), ROW(Call, 900, 0), ROW(Call, 700, 0), ROW(Call, 1, 1),
           ROW(Call, 1, 2), ROW(Call, 1, 3), ROW(Call, 1, 4, 5, 6));
    LOWEST(ROW(Call, 500, 0), ROW(Call, 400, 1), ROW(Call, 300, 1), ROW(Call, 10, 3),
           ROW(Call, 20, 2), ROW(Call, 1, 4, 5));
    // forward and back: the second layer's activation is the larger
    LOWEST(ROW(Call, 400, 0), ROW(Call, 400, 0), ROW(Call, 500, 1), ROW(Call, 500, 2),
           ROW(Call, 1, 1, 3), ROW(Call, 1, 2, 4), ROW(Call, 1, 5, 6));
}

// --- launches ------------------------------------------------------------------------------------

static void add_slot(Case *c, SlotKind kind, Type t) {
    vec_push(&c->a, &c->m.slot,
             ((Slot){.kind = kind, .name = STR("slot"), .net = NONE, .type = t}));
}

// A loop that reads a new slot, and the value of a region unless NONE, and stores a value or the
// slot.
static uint32_t add_loop(Case *c, SlotKind kind, Type t, uint32_t from, bool writes) {
    add_slot(c, kind, t);
    uint32_t slot = c->m.slot.n - 1, in[2], n = 0;
    Val x = Read(&c->at, slot, 0, t);
    in[n++] = x.id;
    if (from != NONE)
        in[n++] = c->p.region.at[from].out.at[0];
    uint32_t out = writes ? Write(slot, Neg(x)).id : Neg(x).id;
    if (writes)
        vec_push(&c->a, &c->m.step.effect, out);
    return add_region(c, RegionLoop, out, in, n);
}

static uint32_t add_call(Case *c, int64_t bytes, uint32_t a, uint32_t b) {
    uint32_t in[2] = {0}, n = 0;
    if (a != NONE)
        in[n++] = c->p.region.at[a].out.at[0];
    if (b != NONE)
        in[n++] = c->p.region.at[b].out.at[0];
    return add_region(c, RegionCall, new_value(c, bytes), in, n);
}

// Updates of gains and biases wait for the end of their block, and are one launch there; those of
// weights are made as soon as they can be. Between ranks it is the same.
static void small_updates_are_one_launch(void **state) {
    (void)state;
    for (int ranks = 1; ranks <= 2; ranks++) {
        Case c;
        case_init(&c);
        uint32_t g0 = add_call(&c, Small, NONE, NONE),
                 bias0 = add_loop(&c, SlotParam, vector(Small), g0, true),
                 weight = add_loop(&c, SlotParam, vector(Large), g0, true),
                 g1 = add_call(&c, Small, g0, NONE),
                 bias1 = add_loop(&c, SlotParam, vector(Small), g1, true),
                 g2 = add_call(&c, Small, g1, NONE);
        if (ranks > 1) {
            uint32_t in[] = {c.p.region.at[g0].out.at[0]};
            uint32_t start = add_region(&c, RegionStart, new_value(&c, Large), in, 1);
            add_region(&c, RegionWait, new_value(&c, Large), &c.p.region.at[start].out.at[0], 1);
        }
        settle(&c);
        schedule(&c.a, &c.o, &c.p);
        assert_int_equal(launch_of(&c.p, bias0), launch_of(&c.p, bias1));
        assert_true(launch_of(&c.p, bias0) > launch_of(&c.p, g2));
        assert_true(launch_of(&c.p, weight) < launch_of(&c.p, g2));
    }
}

// All inputs of a launch live until its end, so only small loops share one; these do so though the
// program has a call between them.
static void small_loops_share_a_launch_large_ones_do_not(void **state) {
    (void)state;
    for (int large = 0; large < 2; large++) {
        Case c;
        case_init(&c);
        uint32_t first = add_call(&c, Small, NONE, NONE),
                 a = add_loop(&c, SlotState, vector(large ? Large : Small), first, false),
                 beside = add_call(&c, Small, first, NONE),
                 b = add_loop(&c, SlotState, vector(large ? Large : Small), first, false);
        add_call(&c, Small, a, b);
        add_call(&c, Small, beside, NONE);
        settle(&c);
        schedule(&c.a, &c.o, &c.p);
        assert_int_equal(launch_of(&c.p, a) == launch_of(&c.p, b), !large);
    }
}

// What depends on a launch does not join it: two chains of small loops are as many launches as one.
static void chains_of_small_loops_share_their_launches(void **state) {
    (void)state;
    Case c;
    case_init(&c);
    uint32_t first = add_call(&c, Small, NONE, NONE),
             a0 = add_loop(&c, SlotState, vector(Small), first, false),
             a1 = add_loop(&c, SlotState, vector(Small), a0, false),
             b0 = add_loop(&c, SlotState, vector(Small), first, false),
             b1 = add_loop(&c, SlotState, vector(Small), b0, false);
    add_call(&c, Small, a1, b1);
    settle(&c);
    schedule(&c.a, &c.o, &c.p);
    assert_int_equal(launch_of(&c.p, a0), launch_of(&c.p, b0));
    assert_int_equal(launch_of(&c.p, a1), launch_of(&c.p, b1));
    assert_int_equal(c.p.launch.n, 4);
}

// On a card what an optimizer computes of its state waits for all gradients and is one launch.
static void optimizers_share_a_launch_on_a_card(void **state) {
    (void)state;
    for (int card = 0; card < 2; card++) {
        Case c;
        case_init(&c);
        c.o.few_launches = card;
        uint32_t g0 = add_call(&c, Large, NONE, NONE),
                 step0 = add_loop(&c, SlotOpt, vector(Large), g0, false),
                 g1 = add_call(&c, Large, g0, NONE),
                 step1 = add_loop(&c, SlotOpt, vector(Large), g1, false);
        add_call(&c, Small, step0, step1);
        settle(&c);
        schedule(&c.a, &c.o, &c.p);
        assert_int_equal(launch_of(&c.p, step0) == launch_of(&c.p, step1), card);
    }
}

// Are two chains, written in turn, run in turn?
static bool runs_in_turn(int64_t bytes, bool side_by_side) {
    Case c;
    case_init(&c);
    c.o.few_launches = true;
    c.o.side_by_side = side_by_side;
    uint32_t a0 = add_call(&c, bytes, NONE, NONE), b0 = add_call(&c, bytes, NONE, NONE),
             a1 = add_call(&c, Small, a0, NONE), b1 = add_call(&c, Small, b0, NONE);
    add_call(&c, Small, a1, b1);
    settle(&c);
    schedule(&c.a, &c.o, &c.p);
    return launch_of(&c.p, b0) < launch_of(&c.p, a1);
}

// Chains that share no memory run side by side on a card: worth it for small ones, of which a
// launch is mostly latency, but not for large ones, nor where memory is limited.
static void chains_share_no_memory_where_launches_are_short(void **state) {
    (void)state;
    assert_true(runs_in_turn(Large, true));
    assert_false(runs_in_turn(Large, false));
    assert_false(runs_in_turn(1000 * (int64_t)Large, true));
}

// Calls that share nothing have one peak and a chain of one in every order: the program's wins,
// though sums of their times are rounded otherwise in others.
static void rounding_decides_no_order(void **state) {
    (void)state;
    enum { Calls = 8 };
    uint64_t seed = 1;
    for (int i = 0; i < 50; i++) {
        Case c;
        uint32_t call[Calls];
        case_init(&c);
        c.o.few_launches = c.o.side_by_side = true;
        for (uint32_t k = 0; k < Calls; k++)
            call[k] = add_call(&c, 64 * (int64_t)(1 + draw(&seed, Large)), NONE, NONE);
        settle(&c);
        schedule(&c.a, &c.o, &c.p);
        for (uint32_t k = 1; k < Calls; k++)
            assert_true(launch_of(&c.p, call[k - 1]) < launch_of(&c.p, call[k]));
    }
}

// Samples, of which there may be many, are prepared where they are needed, on a card too; weights
// all at once there.
static void samples_are_prepared_when_they_are_needed(void **state) {
    (void)state;
    for (int samples = 0; samples < 2; samples++) {
        Case c;
        case_init(&c);
        c.o.few_launches = true;
        Type t = vector(Large);
        t.batched = samples;
        uint32_t x = add_loop(&c, samples ? SlotData : SlotParam, t, NONE, false),
                 a = add_call(&c, Large, x, NONE),
                 y = add_loop(&c, samples ? SlotData : SlotParam, t, NONE, false);
        add_call(&c, Large, a, y);
        settle(&c);
        schedule(&c.a, &c.o, &c.p);
        assert_int_equal(launch_of(&c.p, y) > launch_of(&c.p, a), samples);
    }
}

// --- time ----------------------------------------------------------------------------------------

static void a_step_with_collectives_is_as_short_as_the_programs(void **state) {
    (void)state;
    uint64_t seed = 2;
    double ratio = 0, program = 0;
    for (uint32_t i = 0; i < Draws; i++) {
        Case c;
        draw_case(&seed, 2, &c);
        double got = scheduled(&c).seconds, least = best(&c).seconds;
        ratio += got / least / Draws;
        program += cost_of_program(&c).seconds / least / Draws;
    }
    print_message("%.4f of the shortest, the program's %.4f\n", ratio, program);
    assert_true(ratio < 1.001 && program > 1.1);
}

static void check_shortest(const Row *row, uint32_t n) {
    Case c;
    case_of(&c, row, n);
    double shortest = best(&c).seconds;
    assert_true(shortest < cost_of_program(&c).seconds);
    assert_close(scheduled(&c).seconds, shortest, 1e-9);
}
#define SHORTEST(...)                                                                              \
    check_shortest((const Row[]){__VA_ARGS__}, sizeof((const Row[]){__VA_ARGS__}) / sizeof(Row))

// 2 GB are 0.1 s of a core, 125 MB of the link.
static void work_overlaps_collectives(void **state) {
    (void)state;
    // what no call needs, while one is under way
    SHORTEST(ROW(Call, 10, 0), ROW(Start, 125, 1), ROW(Wait, 125, 2), ROW(Call, 10, 3),
             ROW(Call, 1500, 0));
    // before it, what the call needs
    SHORTEST(ROW(Call, 1500, 0), ROW(Call, 10, 0), ROW(Start, 125, 2), ROW(Wait, 125, 3),
             ROW(Call, 10, 4));
    // the sum that is there first is waited for first
    SHORTEST(ROW(Call, 10, 0), ROW(Start, 250, 1), ROW(Start, 0.004, 1), ROW(Wait, 250, 2),
             ROW(Wait, 0.004, 3), ROW(Call, 1500, 5));
    // what the first of two needs, and then the second
    SHORTEST(ROW(Call, 700, 0), ROW(Call, 600, 0), ROW(Start, 125, 2), ROW(Start, 125, 1),
             ROW(Wait, 125, 3), ROW(Wait, 125, 4));
    // no work that takes longer than the wait for what the next call needs
    SHORTEST(ROW(Call, 10, 0), ROW(Start, 125, 1), ROW(Wait, 125, 2), ROW(Start, 1250, 3),
             ROW(Wait, 1250, 4), ROW(Call, 9000, 0));
}

// A weight's gradient is computed before what another call needs where that spares an activation
// and costs no time: not where it would have been computed during that call.
static void weight_gradients_spare_memory_where_they_cost_no_time(void **state) {
    (void)state;
    static const Row row[] = {
        ROW(Call, 1600, 0),  ROW(Call, 10, 0),
        ROW(Call, 1600, 2),  ROW(Call, 10, 3),
        ROW(Start, 125, 4),  ROW(Wait, 125, 5),
        ROW(Call, 10, 1, 2), {.kind = RegionStart, .bytes = 125000000, .in = {7}, .update = true},
        ROW(Wait, 125, 8)};
    for (int fast = 0; fast < 2; fast++) {
        Case c;
        case_of(&c, row, sizeof row / sizeof *row);
        c.o.parallel = (Parallel){.bandwidth = fast ? 1e13 : 0, .latency = fast ? 1e-9 : 0};
        Cost least = best(&c), got = scheduled(&c);
        if (fast)
            assert_close(got.peak, least.peak, 0);
        else
            assert_close(got.seconds, least.seconds, 1e-9);
        assert_true(fast || got.peak > least.peak);
    }
}

// Of a net that is called twice, one call is gone back through before the next begins, with
// collectives too.
static void calls_of_a_net_come_one_after_the_other(void **state) {
    (void)state;
    static const Row row[] = {ROW(Call, 400, 0),   ROW(Call, 400, 0),  ROW(Call, 500, 1),
                              ROW(Call, 500, 2),   ROW(Call, 1, 1, 3), ROW(Call, 1, 2, 4),
                              ROW(Start, 1, 5, 6), ROW(Wait, 1, 7)};
    Case c;
    case_of(&c, row, sizeof row / sizeof *row);
    Cost least = best(&c);
    assert_true(scheduled(&c).peak < 1.01 * least.peak);
}

// What the program computes first may be needed last, where nothing else tells two regions apart.
static void ties_go_to_the_last_where_that_spares_memory(void **state) {
    (void)state;
    static const Row row[] = {ROW(Call, 100, 0), ROW(Call, 100, 0),  ROW(Call, 100, 0),
                              ROW(Call, 100, 0), ROW(Call, 1, 3, 4), ROW(Call, 1, 1, 2, 5)};
    Case c;
    case_of(&c, row, sizeof row / sizeof *row);
    Cost least = best(&c);
    assert_true(scheduled(&c).peak < 1.01 * least.peak);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_peak_is_no_higher_than_the_programs),
        cmocka_unit_test(chains_are_computed_one_after_the_other),
        cmocka_unit_test(small_updates_are_one_launch),
        cmocka_unit_test(small_loops_share_a_launch_large_ones_do_not),
        cmocka_unit_test(chains_of_small_loops_share_their_launches),
        cmocka_unit_test(optimizers_share_a_launch_on_a_card),
        cmocka_unit_test(chains_share_no_memory_where_launches_are_short),
        cmocka_unit_test(rounding_decides_no_order),
        cmocka_unit_test(samples_are_prepared_when_they_are_needed),
        cmocka_unit_test(weight_gradients_spare_memory_where_they_cost_no_time),
        cmocka_unit_test(calls_of_a_net_come_one_after_the_other),
        cmocka_unit_test(ties_go_to_the_last_where_that_spares_memory),
        cmocka_unit_test(work_overlaps_collectives),
        cmocka_unit_test(a_step_with_collectives_is_as_short_as_the_programs),
    };
    return ARENA_CASES(tests, (size_t)1 << 30);
}
