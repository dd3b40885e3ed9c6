// plan_text_test.c - plans that leave the process: their text reads back to the same plan or is
// refused; compiled models are the text of their plans and machine code.
#include "driver.h"
#include "edited.h"
#include "stages.h"
#include "plan_sim.h"
#include "programs.h"

#include <setjmp.h>
#include <cmocka.h>
#include "cases.h"
#include <string.h>

enum { PROGRAMS = 100 };

// --- the text form -------------------------------------------------------------------------------

// A program's plans as text; `init` does nothing.
static Str program_text(Arena *a, uint64_t seed, bool card, PlanLevel level, Module *m) {
    Plan init, step;
    const PassOptions o = {.real = DtF32, .few_launches = card};
    program_random(a, seed, m);
    m->init = (Func){.name = STR("init"), .blocks = 1};
    graph_init(&m->init.g, a, m->batch);
    vec_push(a, &m->init.tape, ((Ctl){CtlBlock, 0, 0}));
    for (uint32_t i = 0; i < m->slot.n; i++) // it has no data streams
        m->slot.at[i].kind = m->slot.at[i].kind == SlotData ? SlotState : m->slot.at[i].kind;
    slots_place(m, DtF32);
    plan_make(a, m, &m->init, &o, &init);
    plan_make(a, m, &m->step, &o, &step);
    Text t = {.arena = a};
    plans_print(&t, (const Plan *[]){&init, &step}, 2, level);
    return text_str(&t);
}

static Str printed(Arena *a, const PlansRead *r, PlanLevel level) {
    Text t = {.arena = a};
    plans_print(&t, (const Plan *[]){&r->plan[0], &r->plan[1]}, 2, level);
    return text_str(&t);
}

// Every level reads back to the same bytes, and leads to the same plan.
static void plans_read_back(void **state) {
    (void)state;
    for (uint64_t seed = 0; seed < PROGRAMS; seed++) {
        Arena a;
        assert_int_equal(arena_init(&a, 0), GAN_OK);
        Module m, back;
        Str error, plan = program_text(&a, seed, false, PlanPlaced, &m);
        for (PlanLevel level = PlanFused; level <= PlanPlaced; level++) {
            PlansRead r;
            Str text = program_text(&a, seed, false, level, &m);
            if (!plans_read(&a, text, &back, &r, &error))
                fail_msg("program %llu: %.*s", (unsigned long long)seed, SARG(error));
            assert_true(str_eq(printed(&a, &r, level), text));
            assert_true(str_eq(printed(&a, &r, PlanPlaced), plan));
        }
        PlansRead r;
        Str text = program_text(&a, seed, true, PlanPlaced, &m); // scheduled for a card
        if (!plans_read(&a, text, &back, &r, &error))
            fail_msg("program %llu: %.*s", (unsigned long long)seed, SARG(error));
        assert_true(str_eq(printed(&a, &r, PlanPlaced), text));
        arena_release(&a);
    }
}

// An invalid edit is rejected with its line; an accepted plan simulates correctly.
static void an_edited_plan_is_refused_or_correct(void **state) {
    (void)state;
    uint32_t refused = 0, accepted = 0;
    for (uint64_t seed = 0; seed < 20; seed++)
        for (uint64_t edit = 0; edit < 60; edit++) {
            Arena a;
            Module m, back;
            PlansRead r;
            Str error = {0};
            uint64_t key[2] = {seed, edit};
            assert_int_equal(arena_init(&a, 0), GAN_OK);
            Str text = plan_edited(&a, program_text(&a, seed, seed % 2, PlanPlaced, &m),
                                   hash64(key, sizeof key, 1));
            if (plans_read(&a, text, &back, &r, &error)) {
                plan_simulate(&a, &r.plan[1], seed);
                accepted++;
            } else {
                assert_true(str_starts(error, STR("line ")));
                refused++;
            }
            arena_release(&a);
        }
    print_message("%u plans refused, %u accepted\n", refused, accepted);
    assert_true(refused > 300 && accepted > 100);
}

// Each slot is small enough, their sum is not.
static void sizes_that_could_wrap_are_refused(void **state) {
    (void)state;
    Arena a;
    Module m;
    PlansRead r;
    Str error = {0};
    assert_int_equal(arena_init(&a, 0), GAN_OK);
    Text t = {.arena = &a};
    text_put(&t, STR("module \"m\" doc \"\" batch 1\n"));
    for (uint32_t i = 0; i < 10000; i++)
        text_put(&t,
                 STR("slot state \"s\" f32 [25000, 1000000000] net - site 0 stream 0 round 0\n"));
    text_put(&t, STR("func \"init\"\nfunc \"step\"\n"
                     "plans fused f32\nfunc 0 model 0\nfunc 1 model 0\n"));
    assert_false(plans_read(&a, text_str(&t), &m, &r, &error));
    assert_non_null(strstr(str_z(&a, error), "slot 9999 is too large for any machine"));
    arena_release(&a);
}

// --- compiled models -----------------------------------------------------------------------------

static GanStatus name_of_arch(void *user, const Plan *const *plan, uint32_t plans, const int *arch,
                              uint32_t archs, Arena *perm, CubinVec *out) {
    ++*(int *)user;
    assert_int_equal(plans, 3);
    assert_true(str_eq(plan[1]->func->name, STR("step")));
    for (uint32_t i = 0; i < archs; i++)
        for (uint32_t batch = 0; batch < 2; batch++)
            vec_push(perm, out,
                     ((Cubin){arch[i], false, str_format(perm, "%u for %d", batch, arch[i])}));
    vec_push(perm, out, ((Cubin){arch[0], true, STR("for any")}));
    return GAN_OK;
}

static GanStatus no_code(void *user, const Plan *const *plan, uint32_t plans, const int *arch,
                         uint32_t archs, Arena *perm, CubinVec *out) {
    (void)user, (void)plan, (void)plans, (void)arch, (void)archs, (void)perm, (void)out;
    return (fail)(GAN_ERR_DEVICE, "no compiler"); // cmocka has a macro of that name
}

// Machine code compiled ahead is attached to the plans it was compiled from, for its dialect only.
static void machine_code_comes_with_its_plan(void **state) {
    (void)state;
    Arena a;
    int compiled = 0;
    const int arch[] = {80, 90};
    assert_int_equal(arena_init(&a, 0), GAN_OK);
    GanxTarget target = {
        .name = STR("cuda"), .arch = arch, .archs = 2, .compile = name_of_arch, .user = &compiled};
    CompileOptions o = {.path = STR(ROOT_DIR "/tests/cli/tiny.gan"), .batch = 2, .real = DtF32};
    Str path = STR(BUILD_DIR "/tests/plan_test.ganx");
    Front f;
    front_init(&f, &a);
    if (ganx_write(&f, &o, &target, path) != GAN_OK)
        fail_msg("%s", gan_error());
    assert_int_equal(compiled, 1);
    o = (CompileOptions){.path = path, .real = DtF32, .dialect = &dialect_cuda};
    Compiled c = {0};
    front_init(&f, &a);
    if (compile_file(&f, &o, &c) != GAN_OK)
        fail_msg("%s", gan_error());
    assert_int_equal(c.step.cubin.n, 5);
    assert_int_equal(c.step.cubin.at[3].arch, 90);
    assert_true(str_eq(c.step.cubin.at[3].code, STR("1 for 90")));
    assert_false(c.step.cubin.at[3].ptx);
    assert_true(c.step.cubin.at[4].ptx);
    assert_int_equal(c.step.cubin.at[4].arch, 80);
    assert_true(str_eq(c.step.cubin.at[4].code, STR("for any")));
    assert_true(str_eq(c.entry[0].cubin.at[0].code, STR("0 for 80")));
    Text plans = {.arena = &a};
    Compiled other = {0};
    Str error;
    compiled_print(&plans, &c, PlanPlaced);
    assert_true(compiled_read(&a, text_str(&plans), &dialect_cuda, &other, &error));
    assert_false(compiled_read(&a, text_str(&plans), &dialect_c, &other, &error));
    o.dialect = &dialect_c; // recompiled from the text
    Compiled again = {0};
    front_init(&f, &a);
    assert_int_equal(compile_file(&f, &o, &again), GAN_OK);
    assert_int_equal(again.step.cubin.n, 0);
    target.compile = no_code;
    assert_int_equal(file_remove(path), GAN_OK);
    o = (CompileOptions){.path = STR(ROOT_DIR "/tests/cli/tiny.gan"), .batch = 2, .real = DtF32};
    front_init(&f, &a);
    assert_int_equal(ganx_write(&f, &o, &target, path), GAN_ERR_DEVICE);
    assert_false(file_exists(path));
    arena_release(&a);
}

// A file compiled for ranks has plans and code for each rank: each rank uses its own. A single
// process recompiles.
static void machine_code_for_ranks(void **state) {
    (void)state;
    Arena a;
    int compiled = 0;
    const int arch[] = {90};
    assert_int_equal(arena_init(&a, 0), GAN_OK);
    GanxTarget target = {
        .name = STR("cuda"), .arch = arch, .archs = 1, .compile = name_of_arch, .user = &compiled};
    CompileOptions o = {.path = STR(ROOT_DIR "/tests/cli/tiny.gan"),
                        .batch = 4,
                        .real = DtF32,
                        .parallel = {.ranks = 2, .tail = true}};
    Str path = STR(BUILD_DIR "/tests/plan_test_ranks.ganx");
    Front f;
    front_init(&f, &a);
    if (ganx_write(&f, &o, &target, path) != GAN_OK)
        fail_msg("%s", gan_error());
    for (uint32_t rank = 0; rank < 3; rank++) {
        bool alone = rank == 2;
        Compiled c = {0};
        o = (CompileOptions){.path = path, .real = DtF32, .dialect = &dialect_cuda};
        if (!alone)
            o.parallel = (Parallel){.rank = rank, .ranks = 2, .tail = true};
        front_init(&f, &a);
        if (compile_file(&f, &o, &c) != GAN_OK)
            fail_msg("%s", gan_error());
        assert_int_equal(c.module.batch, alone ? 4 : 2);
        assert_int_equal(c.step.cubin.n, alone ? 0 : 3);
        assert_int_equal(c.step.collective.n > 0, !alone);
    }
    assert_int_equal(file_remove(path), GAN_OK);
    arena_release(&a);
}

// A cache of one model that counts lookups.
typedef struct Cache {
    int compiled; // counted by name_of_arch
    int lookups;
    Str key, bytes;
} Cache;

static bool cache_find(void *user, Arena *perm, Str key, Str *out) {
    Cache *m = user;
    m->lookups++;
    *out = str_copy(perm, m->bytes);
    return m->key.len && str_eq(m->key, key);
}

static void cache_keep(void *user, Arena *perm, Str key, Str bytes) {
    Cache *m = user;
    m->key = str_copy(perm, key);
    m->bytes = str_copy(perm, bytes);
}

// A compiled model is reused for the same model, options and architectures, and for no others.
static void a_compiled_model_is_cached(void **state) {
    (void)state;
    Arena a;
    Cache cache = {0};
    const int arch[] = {80, 90};
    assert_int_equal(arena_init(&a, 0), GAN_OK);
    GanxTarget two = {.name = STR("cuda"),
                      .arch = arch,
                      .archs = 2,
                      .compile = name_of_arch,
                      .find = cache_find,
                      .keep = cache_keep,
                      .user = &cache};
    GanxTarget one = two;
    one.archs = 1;
    CompileOptions o = {.path = STR(ROOT_DIR "/tests/cli/tiny.gan"), .batch = 2, .real = DtF32};
    CompileOptions larger = o, rounded = o, parts = o;
    larger.batch = 4;
    rounded.real = DtBF16;
    parts.parallel.micro = 2;
    const struct {
        const CompileOptions *o;
        const GanxTarget *target;
        int compiled; // in total
    } step[] = {{&o, &two, 1},      {&o, &two, 1},       {&o, &one, 2},    {&larger, &one, 3},
                {&larger, &one, 3}, {&rounded, &one, 4}, {&parts, &one, 5}};
    Str path = STR(BUILD_DIR "/tests/plan_test_once.ganx"), first = {0}, again = {0};
    for (size_t i = 0; i < sizeof step / sizeof *step; i++) {
        Front f;
        front_init(&f, &a);
        if (ganx_write(&f, step[i].o, step[i].target, path) != GAN_OK)
            fail_msg("%s", gan_error());
        assert_int_equal(cache.compiled, step[i].compiled);
        assert_int_equal(cache.lookups, i + 1);
        if (i < 2)
            assert_int_equal(file_read(&a, path, i ? &again : &first), GAN_OK);
    }
    assert_true(str_eq(first, again));
    arena_release(&a);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plans_read_back),
        cmocka_unit_test(an_edited_plan_is_refused_or_correct),
        cmocka_unit_test(sizes_that_could_wrap_are_refused),
        cmocka_unit_test(machine_code_comes_with_its_plan),
        cmocka_unit_test(machine_code_for_ranks),
        cmocka_unit_test(a_compiled_model_is_cached),
    };
    if (CASES_LISTED(tests))
        return 0;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
