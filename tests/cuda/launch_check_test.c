// launch_check_test.c - the check of a step launch by launch finds nothing where all is right, and
// names the launch that stores something else, or nothing.
#include "launch_check.h"
#include "driver.h"
#include "trial.h"

#include <setjmp.h>
#include <cmocka.h>
#include "cases.h"
#include <string.h>

#define assert_fine(call)                                                                          \
    do {                                                                                           \
        if ((call) != GAN_OK)                                                                      \
            fail_msg("%s: %s", #call, gan_error());                                                \
    } while (0)

static const char text[] = "model two\n"
                           "data x : float(8) scale(-1, 1)\n"
                           "net D(x: [8]) -> [] { x |> dense(6) |> tanh |> dense(1) |> squeeze }\n"
                           "opt = adam(lr=1e-3)\n"
                           "step { update D minimize mean((D(x) - normal())^2) using opt }\n";

typedef struct Faulty {
    LaunchCheck check;
    uint32_t launch; // whose first value is overwritten; NONE: no one's
    int byte;        // with this
    Text said;
} Faulty;

static void hear(void *user, Str line) {
    Faulty *f = user;
    text_fmt(&f->said, "%.*s\n", SARG(line));
}

static GanStatus at_launch(void *user, Exec *e, uint32_t launch, bool done, const Counters *c) {
    Faulty *f = user;
    const Plan *p = f->check.p;
    uint32_t node = p->region.at[p->launch.at[launch].region].out.at[0];
    unsigned char other[1024];
    if (done && launch == f->launch) {
        assert_true(type_bytes(&p->func->g, node_type(&p->func->g, node)) <= sizeof other);
        memset(other, f->byte, sizeof other);
        TRY(exec_value_load(e, p, node, other));
    }
    return launch_check_launch(&f->check, e, launch, done, c);
}

// The cpu device with epilogues absorbed: a call that has one runs its launch as well, whose own
// turn then does nothing.
static struct {
    const Plan *plan;
    const Epilogue *epilogue; // [plan->region.n]
} absorbing;

static bool absorbs(const Loaded *l, uint32_t region) {
    (void)l;
    return absorbing.epilogue[region].region != NONE;
}

static GanStatus absorbing_launch(Loaded *l, uint32_t block, uint32_t launch, const Counters *c) {
    const Plan *p = absorbing.plan;
    uint32_t region = p->launch.at[launch].region;
    for (uint32_t r = 0; r < p->region.n; r++)
        if (absorbing.epilogue[r].region == region)
            return GAN_OK;
    TRY(device_cpu.launch(l, block, launch, c));
    for (uint32_t i = launch; absorbs(l, region) && i < p->launch.n; i++)
        if (p->launch.at[i].region == absorbing.epilogue[region].region)
            TRY(device_cpu.launch(l, block, i, c));
    return GAN_OK;
}

// Calls of `p` with an epilogue.
static uint32_t absorb(Arena *a, const Plan *p) {
    uint32_t n = 0;
    absorbing.plan = p;
    absorbing.epilogue = plan_epilogues(a, p);
    for (uint32_t r = 0; r < p->region.n; r++)
        n += absorbs(NULL, r);
    return n;
}

// A step on a device like cpu; what is said of it, in `said`.
static const char *step_on(const DeviceApi *api, Arena *said, uint32_t launch, int byte,
                           uint32_t *launches) {
    Arena own, *a = &own;
    assert_fine(arena_init(a, 0));
    Exec *e;
    Device *d;
    const Counters counters = {.seed = 1, .step = 1};
    const TrialOptions t = {.name = "two", .text = STR(text), .batch = 4};
    const CompileOptions o = {.real = DtF32, .dialect = dialect_find(str_c(device_cpu.dialect))};
    Compiled *c = arena_new(a, Compiled);
    Faulty f = {.launch = launch, .byte = byte, .said.arena = said};
    f.check = (LaunchCheck){.arena = a, .name = "two", .say = hear, .user = &f};
    c->module = *trial_module(a, &t);
    assert_fine(compile_plans(a, &c->module, &o, c));
    uint32_t absorbed = absorb(a, &c->step);
    assert_true(absorbed > 0);
    assert_fine(api->open(&(DeviceOptions){.threads = 1}, &d));
    assert_fine(exec_begin(api, d, a, &c->module, &c->init, &e));
    assert_fine(exec_plans(e, &c->step, c->entry));
    assert_fine(exec_init(e, counters.seed));
    assert_fine(launch_check_data(e, &c->module, *a));
    launch_check_begin(&f.check, e);
    assert_fine(exec_step(e, &counters, &(ExecHooks){.launch = at_launch, .user = &f}));
    assert_true(f.check.values + absorbed >= c->step.launch.n);
    *launches = c->step.launch.n;
    exec_close(e);
    api->close(d);
    arena_release(a);
    return text_str(&f.said).ptr;
}

static const char *step(Arena *said, uint32_t launch, int byte, uint32_t *launches) {
    return step_on(&device_cpu, said, launch, byte, launches);
}

static void a_launch_that_stores_something_else_is_named(void **state) {
    (void)state;
    Arena a;
    uint32_t launches;
    assert_fine(arena_init(&a, 0));
    assert_string_equal(step(&a, NONE, 0, &launches), "");
    assert_true(launches > 4);
    for (uint32_t i = 0; i < launches; i++) {
        char where[64];
        snprintf(where, sizeof where, "two, launch %u, ", i);
        const char *said = step(&a, i, 0x11, &launches); // 1.1e-28
        if (strncmp(said, where, strlen(where)) || !strstr(said, " differs in ") ||
            strchr(said, '\n')[1])
            fail_msg("of launch %u: `%s`", i, said);
    }
    arena_release(&a);
}

static void a_launch_that_stores_nothing_is_named(void **state) {
    (void)state;
    Arena a;
    uint32_t launches, named = 0;
    assert_fine(arena_init(&a, 0));
    step(&a, NONE, 0, &launches);
    for (uint32_t i = 0; i < launches; i++) {
        const char *said = step(&a, i, 0xff, &launches);
        named += strstr(said, "is not stored") != NULL;
    }
    assert_int_equal(named, launches);
    arena_release(&a);
}

// The value of a call that absorbed what reads it is nowhere: the epilogue's is judged.
static void an_absorbed_launch_is_judged_by_what_its_call_stores(void **state) {
    (void)state;
    Arena a;
    uint32_t launches, named = 0, silent = 0;
    DeviceApi api = device_cpu;
    assert_fine(arena_init(&a, 0));
    api.launch = absorbing_launch;
    api.absorbs = absorbs;
    assert_string_equal(step_on(&api, &a, NONE, 0, &launches), "");
    for (uint32_t i = 0; i < launches; i++) {
        const char *said = step_on(&api, &a, i, 0x11, &launches);
        named += strstr(said, " differs in ") != NULL;
        silent += !*said;
    }
    assert_int_equal(named, launches);
    assert_int_equal(silent, 0);
    arena_release(&a);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_launch_that_stores_something_else_is_named),
        cmocka_unit_test(a_launch_that_stores_nothing_is_named),
        cmocka_unit_test(an_absorbed_launch_is_judged_by_what_its_call_stores),
    };
    if (CASES_LISTED(tests))
        return 0;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
