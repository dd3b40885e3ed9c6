// verify_plan_test.c - errors planted in valid plans, each of which the verifier of its stage must
// find. That it finds none in plans as they are is for passes_test.c and plan_test.c.
#include "driver.h"
#include "stages.h"
#include "programs.h"
#include "tail_models.h"

#include <setjmp.h>
#include <cmocka.h>
#include "cases.h"
#include <string.h>

enum { PROGRAMS = 100 };

// Each changes a valid plan, at a place that `at` says, so that it is valid no longer; false where
// there is nothing to change.
typedef bool Plant(Arena *a, Plan *p, uint32_t at);

static Region *region_with(const Plan *p, uint32_t at, RegionKind kind) {
    for (uint32_t i = 0; i < p->region.n; i++) {
        Region *r = &p->region.at[(at + i) % p->region.n];
        if (r->kind == kind && r->in.n)
            return r;
    }
    return NULL;
}

static bool lose_an_input(Arena *a, Plan *p, uint32_t at) {
    Region *r = region_with(p, at, at % 2 ? RegionLoop : RegionCall);
    (void)a;
    if (r)
        r->in.n--;
    return r;
}

static bool read_what_nobody_stores(Arena *a, Plan *p, uint32_t at) {
    Region *r = region_with(p, at, RegionLoop), *from = r;
    (void)a;
    for (uint32_t i = 0; r && i < r->in.n; i++)
        if (p->region_of[r->in.at[i]] != NONE)
            from = &p->region.at[p->region_of[r->in.at[i]]];
    if (from != r)
        from->out.at[0] = from->out.at[--from->out.n];
    return from != r;
}

static bool store_twice(Arena *a, Plan *p, uint32_t at) {
    vec_push(a, &p->region.at[at % p->region.n].out,
             p->region.at[(at + 1) % p->region.n].out.at[0]);
    return p->region.n > 1;
}

static bool store_twice_here(Arena *a, Plan *p, uint32_t at) {
    Region *r = &p->region.at[at % p->region.n];
    vec_push(a, &r->out, r->out.at[0]);
    return true;
}

static bool forget_a_write(Arena *a, Plan *p, uint32_t at) {
    (void)a;
    if (!p->func->effect.n)
        return false;
    uint32_t write = p->func->effect.at[at % p->func->effect.n];
    Region *r = &p->region.at[p->region_of[write]];
    for (uint32_t i = 0; i < r->out.n; i++)
        if (r->out.at[i] == write)
            r->out.at[i] = r->out.at[--r->out.n];
    return r->out.n;
}

// The region that stores a value keeps others.
static bool forget_a_value(Plan *p, uint32_t id) {
    uint32_t owner = p->place[id].owner, region = p->region_of[owner];
    Region *r = region == NONE ? NULL : &p->region.at[region];
    for (uint32_t i = 0; r && r->out.n > 1 && i < r->out.n; i++)
        if (r->out.at[i] == owner) {
            r->out.at[i] = r->out.at[--r->out.n];
            return true;
        }
    return false;
}

static bool forget_a_report(Arena *a, Plan *p, uint32_t at) {
    (void)a;
    uint32_t n = p->func->report.n;
    return n && forget_a_value(p, p->func->report.at[at % n].node);
}

static bool is_used(const Plan *p, const Region *r, uint32_t id) {
    for (uint32_t i = 0; i < r->node.n; i++)
        for (uint32_t k = 0; k < graph_node(&p->func->g, r->node.at[i])->nin; k++)
            if (node_in(&p->func->g, r->node.at[i], k) == id)
                return true;
    return false;
}

static bool compute_less(Arena *a, Plan *p, uint32_t at) {
    Region *r = region_with(p, at, RegionLoop);
    (void)a;
    if (!r || is_used(p, r, r->node.at[r->node.n - 1]))
        return false;
    r->node.n--;
    return true;
}

static bool exchange_members(Arena *a, Plan *p, uint32_t at) {
    Region *r = region_with(p, at, RegionLoop);
    (void)a;
    if (!r || r->node.n < 2)
        return false;
    uint32_t keep = r->node.at[0];
    r->node.at[0] = r->node.at[r->node.n - 1];
    r->node.at[r->node.n - 1] = keep;
    return true;
}

static bool move_to_another_block(Arena *a, Plan *p, uint32_t at) {
    Region *r = &p->region.at[at % p->region.n];
    (void)a;
    r->block = (r->block + 1) % p->func->blocks;
    return p->func->blocks > 1;
}

static bool exchange_regions(Arena *a, Plan *p, uint32_t at) {
    OrderVec order;
    region_orders(a, p, &order);
    if (!order.n)
        return false;
    uint32_t x = order.at[at % order.n].before, y = order.at[at % order.n].after;
    Region keep = p->region.at[x];
    p->region.at[x] = p->region.at[y];
    p->region.at[y] = keep;
    for (uint32_t i = 0; i < p->func->g.node.n; i++)
        p->region_of[i] = p->region_of[i] == x ? y : p->region_of[i] == y ? x : p->region_of[i];
    return true;
}

// The launch of a region and that of one that depends on it.
static bool exchange_launches(Arena *a, Plan *p, uint32_t at) {
    OrderVec order;
    region_orders(a, p, &order);
    if (!order.n)
        return false;
    RegionOrder o = order.at[at % order.n];
    uint32_t x = NONE, y = NONE;
    for (uint32_t l = 0; l < p->launch.n; l++) {
        x = p->launch.at[l].region == o.before && p->launch.at[l].instances == 1 ? l : x;
        y = p->launch.at[l].region == o.after && p->launch.at[l].instances == 1 ? l : y;
    }
    if (x == NONE || y == NONE)
        return false;
    Launch keep = p->launch.at[x];
    p->launch.at[x] = p->launch.at[y];
    p->launch.at[y] = keep;
    return true;
}

static bool launch_twice(Arena *a, Plan *p, uint32_t at) {
    uint32_t l = 1 + at % p->launch.n;
    (void)a;
    if (l == p->launch.n)
        return false;
    p->launch.at[l] = p->launch.at[l - 1];
    return true;
}

static bool launch_never(Arena *a, Plan *p, uint32_t at) {
    Section *s = &p->section.at[at % p->section.n];
    (void)a;
    if (s->n)
        s->n--;
    return s->n;
}

static Launch *launch_with(const Plan *p, uint32_t at, bool merged) {
    for (uint32_t i = 0; i < p->launch.n; i++) {
        Launch *l = &p->launch.at[(at + i) % p->launch.n];
        if ((l->instances > 1) == merged)
            return l;
    }
    return NULL;
}

static bool launch_with_another(Arena *a, Plan *p, uint32_t at) {
    const Launch *l = launch_with(p, at, true);
    (void)a;
    if (l)
        p->region.at[p->merge.at[l->first + 1]].merged = NONE;
    return l;
}

static bool merge_a_call(Arena *a, Plan *p, uint32_t at) {
    const Launch *l = launch_with(p, at, true);
    (void)a;
    if (l)
        p->region.at[l->region].kind = RegionCall;
    return l;
}

// Two values in work memory that one region reads.
static bool overlap(Arena *a, Plan *p, uint32_t at) {
    uint32_t in[2], n = 0;
    (void)a;
    for (uint32_t r = 0; n < 2 && r < p->region.n; r++) {
        const Region *region = &p->region.at[(at + r) % p->region.n];
        n = 0;
        for (uint32_t i = 0; i < region->in.n && n < 2; i++)
            if (p->place[region->in.at[i]].space == SpaceWork)
                in[n++] = region->in.at[i];
    }
    if (n == 2)
        p->place[in[0]].offset = p->place[in[1]].offset;
    return n == 2;
}

static uint32_t work_value(const Plan *p, uint32_t at) {
    for (uint32_t i = 0; i < p->func->g.node.n; i++) {
        uint32_t id = (at + i) % p->func->g.node.n;
        if (p->place[id].space == SpaceWork && p->place[id].owner == id)
            return id;
    }
    return 0;
}

static bool lie_askew(Arena *a, Plan *p, uint32_t at) {
    uint32_t id = work_value(p, at);
    (void)a;
    p->place[id].offset += 4;
    return id;
}

static bool lie_beyond(Arena *a, Plan *p, uint32_t at) {
    (void)a, (void)at;
    bool some = p->work_bytes > 0;
    p->work_bytes -= some;
    return some;
}

// Calls start in the order of their numbers.
static bool exchange_calls(Arena *a, Plan *p, uint32_t at) {
    (void)a;
    if (p->collective.n < 2)
        return false;
    uint32_t k = at % (p->collective.n - 1);
    Collective keep = p->collective.at[k];
    p->collective.at[k] = p->collective.at[k + 1];
    p->collective.at[k + 1] = keep;
    return true;
}

static bool wait_for_another_part(Arena *a, Plan *p, uint32_t at) {
    Collective *c = &p->collective.at[at % p->collective.n];
    (void)a;
    c->part.at[0].start = p->collective.at[(at + 1) % p->collective.n].part.at[0].start;
    return p->collective.n > 1;
}

static bool lose_a_part(Arena *a, Plan *p, uint32_t at) {
    (void)a;
    p->collective.at[at % p->collective.n].part.n--;
    return true;
}

static bool carry_to_another_step(Arena *a, Plan *p, uint32_t at) {
    Tail *t = &p->tail.at[at % p->tail.n];
    (void)a;
    t->wraps = !t->wraps;
    return true;
}

static bool carry_to_another_round(Arena *a, Plan *p, uint32_t at) {
    Tail *t = &p->tail.at[at % p->tail.n];
    (void)a;
    t->loop = t->loop == NONE ? 0 : NONE;
    return true;
}

static Section *section_of(const Plan *p, uint32_t at, SectionKind kind) {
    for (uint32_t i = 0; i < p->section.n; i++) {
        Section *s = &p->section.at[(at + i) % p->section.n];
        if (s->kind == kind && s->n)
            return s;
    }
    return NULL;
}

static bool run_no_tail(Arena *a, Plan *p, uint32_t at) {
    Section *s = section_of(p, at, SectionRest);
    (void)a;
    if (s)
        s->tail = p->tail.n;
    return s;
}

// The launches before the tail's go with it, from the start of a collective on.
static bool leave_a_start(Arena *a, Plan *p, uint32_t at) {
    Section *tail = section_of(p, at, SectionTail), *s = NULL;
    (void)a;
    for (uint32_t i = 0; tail && i < p->section.n; i++)
        if (p->section.at[i].n && p->section.at[i].first + p->section.at[i].n == tail->first)
            s = &p->section.at[i];
    bool found = false;
    while (s && s->n && s->block == tail->block && !found) {
        s->n--, tail->first--, tail->n++;
        found = p->region.at[p->launch.at[tail->first].region].kind == RegionStart;
    }
    return found;
}

typedef struct Planted {
    const char *name;
    Plant *plant;
    PlanVerifier *finds;
} Planted;
static const Planted planted[] = {
    {"a lost input", lose_an_input, regions_verify},
    {"an input that nobody stores", read_what_nobody_stores, regions_verify},
    {"a value that is stored twice", store_twice, regions_verify},
    {"a value that one region stores twice", store_twice_here, regions_verify},
    {"a write that no region stores", forget_a_write, regions_verify},
    {"a report that no region stores", forget_a_report, regions_verify},
    {"a value that is not computed", compute_less, regions_verify},
    {"members in another order", exchange_members, regions_verify},
    {"a region of another block", move_to_another_block, regions_verify},
    {"regions in another order", exchange_regions, regions_verify},
    {"launches in another order", exchange_launches, schedule_verify},
    {"a launch twice", launch_twice, schedule_verify},
    {"a region that is never launched", launch_never, schedule_verify},
    {"a launch with another region", launch_with_another, schedule_verify},
    {"a call in a launch of loops", merge_a_call, schedule_verify},
    {"two live values in one place", overlap, memory_verify},
    {"a value at an odd place", lie_askew, memory_verify},
    {"values beyond the work memory", lie_beyond, memory_verify},
};
enum { PLANTED = sizeof planted / sizeof *planted };

static void planted_errors_are_found(void **state) {
    (void)state;
    uint32_t found[PLANTED] = {0};
    const PassOptions o = {.real = DtF32};
    for (uint64_t seed = 0; seed < PROGRAMS; seed++) {
        for (uint32_t i = 0; i < PLANTED; i++) {
            Arena a;
            Module m;
            Plan p;
            Refusal wrong = {0};
            assert_int_equal(arena_init(&a, 0), GAN_OK);
            program_random(&a, seed, &m);
            slots_place(&m, DtF32);
            plan_make(&a, &m, &m.step, &o, &p);
            if (planted[i].plant(&a, &p, (uint32_t)seed)) {
                if (planted[i].finds(&a, &o, &p, &wrong))
                    fail_msg("program %llu: %s is not found", (unsigned long long)seed,
                             planted[i].name);
                assert_true(wrong.why.len > 0);
                found[i]++;
            }
            arena_release(&a);
        }
    }
    for (uint32_t i = 0; i < PLANTED; i++)
        if (found[i] < 10)
            fail_msg("%s: planted in %u programs only", planted[i].name, found[i]);
}

// --- between ranks -------------------------------------------------------------------------------

static const Planted planted_on_ranks[] = {
    {"calls in another order", exchange_calls, regions_verify},
    {"a part of another call", wait_for_another_part, regions_verify},
    {"a lost part", lose_a_part, regions_verify},
    {"a tail of another step", carry_to_another_step, schedule_verify},
    {"a tail of another round", carry_to_another_round, schedule_verify},
    {"a tail that does not run", run_no_tail, schedule_verify},
    {"a tail that starts a call", leave_a_start, schedule_verify},
};
enum { PLANTED_ON_RANKS = sizeof planted_on_ranks / sizeof *planted_on_ranks };

// One of tail_models, on a slow link.
static void plan_with_tails(Arena *a, uint32_t model, PassOptions *pass, Plan *out) {
    Front f;
    Compiled *c = arena_new(a, Compiled);
    CompileOptions o = {.path = STR("tails.gan"), .batch = 6, .real = DtF32};
    o.text = str_format(a, "%sstep {\n%s}\n", tail_model_head, tail_models[model].step);
    o.parallel = (Parallel){.ranks = 2, .tail = true, .latency = 1e-4, .bandwidth = 1e6};
    *pass = (PassOptions){.real = DtF32, .parallel = o.parallel};
    front_init(&f, a);
    assert_int_equal(compile_file(&f, &o, c), GAN_OK);
    *out = c->step;
}

static void errors_between_ranks_are_found(void **state) {
    (void)state;
    uint32_t found[PLANTED_ON_RANKS] = {0};
    for (uint32_t model = 0; model < TAIL_MODELS; model++)
        for (uint32_t i = 0; i < PLANTED_ON_RANKS; i++) {
            Arena a;
            Plan p;
            PassOptions pass;
            Refusal wrong = {0};
            assert_int_equal(arena_init(&a, 0), GAN_OK);
            plan_with_tails(&a, model, &pass, &p);
            assert_true(planted_on_ranks[i].finds(&a, &pass, &p, &wrong));
            if (planted_on_ranks[i].plant(&a, &p, model)) {
                if (planted_on_ranks[i].finds(&a, &pass, &p, &wrong))
                    fail_msg("model %u: %s is not found", model, planted_on_ranks[i].name);
                assert_true(wrong.why.len > 0);
                found[i]++;
            }
            arena_release(&a);
        }
    for (uint32_t i = 0; i < PLANTED_ON_RANKS; i++)
        if (found[i] < 3)
            fail_msg("%s: planted in %u plans only", planted_on_ranks[i].name, found[i]);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(planted_errors_are_found),
        cmocka_unit_test(errors_between_ranks_are_found),
    };
    if (CASES_LISTED(tests))
        return 0;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
