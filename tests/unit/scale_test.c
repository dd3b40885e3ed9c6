// scale_test.c - the communication simulator against timelines worked out by hand, and its lower
// bound: reached where nothing can be overlapped, and never above the time of any order of the
// calls.
#include "scale.h"
#include "driver.h"

#include <setjmp.h>
#include <cmocka.h>
#include "cases.h"
#include <math.h>

static Arena scratch; // of all cases

static TimedLaunch compute(double seconds) {
    return (TimedLaunch){.kind = RegionLoop, .seconds = seconds};
}
static TimedLaunch start(uint32_t call, size_t bytes) {
    return (TimedLaunch){.kind = RegionStart, .call = call, .bytes = bytes};
}
static TimedLaunch wait_for(uint32_t call) {
    return (TimedLaunch){.kind = RegionWait, .call = call};
}

static LinkModel model_of(double latency, double bandwidth) { // independent of the size
    return (LinkModel){.latency = latency, .bandwidth = bandwidth, .small = latency};
}

static SimTimes run(const TimedLaunch *m, uint32_t n, int64_t ranks, bool wire) {
    Timeline all = {.at = (TimedLaunch *)(uintptr_t)m, .n = n, .steps = 1};
    LinkModel model = model_of(0.001, 1e6); // 1 ms, 1 MB/s
    SimLink link = {.each = wire ? model : (LinkModel){0},
                    .scaled = wire ? (LinkModel){0} : model,
                    .ranks = ranks};
    SimTimes t = sim_run(scratch, &all, 1, &link);
    return (SimTimes){t.step * 1000, t.comm * 1000, t.exposed * 1000};
}
#define RUN(m, ranks, wire) run(m, sizeof(m) / sizeof *(m), ranks, wire)

static void near(double a, double b) {
    if (!(fabs(a - b) < 1e-9))
        fail_msg("%.12g, not %.12g", a, b);
}

static void overlapped_communication_costs_nothing(void **state) {
    (void)state;
    const TimedLaunch m[] = {compute(0.010), start(0, 2000), compute(0.005), wait_for(0)};
    SimTimes p = RUN(m, 2, false); // 1 ms + 2 kB at 1 MB/s: 3 ms, under 5
    near(p.step, 15);
    near(p.comm, 3);
    near(p.exposed, 0);
}

static void exposed_communication_is_waited_for(void **state) {
    (void)state;
    const TimedLaunch m[] = {compute(0.010), start(0, 7000), compute(0.005), wait_for(0),
                             compute(0.002)};
    SimTimes p = RUN(m, 2, false);
    near(p.step, 20);
    near(p.exposed, 3);
}

static void the_link_serializes_transfers(void **state) {
    (void)state;
    const TimedLaunch m[] = {start(0, 4000), start(1, 1000), compute(0.001), wait_for(1),
                             wait_for(0)};
    SimTimes p = RUN(m, 2, false); // 5 ms, then 2 more
    near(p.step, 7);
    near(p.exposed, 6);
    near(p.comm, 7);
}

static void more_ranks_take_more_latencies_and_up_to_twice_the_bytes(void **state) {
    (void)state;
    const TimedLaunch m[] = {start(0, 4000), wait_for(0)};
    near(RUN(m, 1, false).step, 0);
    near(RUN(m, 2, false).step, 1 + 4);
    near(RUN(m, 8, false).step, 3 + 4 * 14.0 / 8);
    near(RUN(m, 1024, false).step, 10 + 4 * 2046.0 / 1024);
    near(RUN(m, 1024, true).step, 1 + 4); // a link model does not depend on the number of ranks
}

static void ranks_wait_for_the_slowest(void **state) {
    (void)state;
    const TimedLaunch fast[] = {compute(0.010), start(0, 1000), compute(0.001), wait_for(0)};
    const TimedLaunch slow[] = {compute(0.016), start(0, 1000), compute(0.001), wait_for(0)};
    const Timeline m[] = {{.at = (TimedLaunch *)(uintptr_t)fast, .n = 4, .steps = 1},
                          {.at = (TimedLaunch *)(uintptr_t)slow, .n = 4, .steps = 1}};
    SimTimes t = sim_run(scratch, m, 2, &(SimLink){.each = model_of(0.001, 1e6), .ranks = 2});
    near(t.step, 0.018);                  // 16, and 2 for the sum
    near(t.exposed, (0.007 + 0.001) / 2); // each has 1 ms of work meanwhile
}

// Small sums run on the waiting thread; a large one has a thread of its own, on its rank's core.
static void large_reductions_slow_the_computing_thread(void **state) {
    (void)state;
    enum { LARGE = 100000, SMALL = 1000 };
    SimLink link = {.each = {0.004, 1e8, 0.001, 0.001, 2e-8},
                    .ranks = 2}; // 5 ms, 3 of them on a core
    const TimedLaunch beside[] = {start(0, LARGE), compute(0.010), wait_for(0)},
                      waited[] = {start(0, LARGE), wait_for(0), compute(0.010)},
                      small[] = {start(0, SMALL), compute(0.010), wait_for(0)};
    const struct {
        const TimedLaunch *m;
        double step;
    } lines[] = {{beside, 0.013}, {waited, 0.015}, {small, 0.010}};
    for (int i = 0; i < 3; i++)
        near(sim_run(scratch,
                     &(Timeline){.at = (TimedLaunch *)(uintptr_t)lines[i].m, .n = 3, .steps = 1}, 1,
                     &link)
                 .step,
             lines[i].step);
    near(sim_run(scratch, &(Timeline){.at = (TimedLaunch *)(uintptr_t)small, .n = 1, .steps = 1}, 1,
                 &link)
             .comm,
         0.001 + SMALL / 1e8);
}

static void an_all_reduce_may_be_awaited_in_the_next_step(void **state) {
    (void)state;
    const TimedLaunch m[] = {compute(0.004), wait_for(0), compute(0.010), start(0, 8000)};
    SimTimes p = RUN(m, 2, false); // 9 ms, 4 of which overlap the next step's first 4
    near(p.step, 19);
    near(p.exposed, 5);
    near(p.comm, 9);
}

static void different_steps_are_simulated_in_sequence(void **state) {
    (void)state;
    TimedLaunch m[] = {compute(0.010), compute(0.030), start(0, 8000), wait_for(0)};
    for (int i = 1; i < 4; i++)
        m[i].step = 1;
    Timeline two = {.at = m, .n = 4, .steps = 2};
    SimTimes t = sim_run(scratch, &two, 1, &(SimLink){.each = model_of(0.001, 1e6), .ranks = 2});
    near(t.step, (0.010 + 0.030 + 0.009) / 2);
    near(t.exposed, 0.009 / 2);
    near(t.comm, 0.009 / 2);
}

static void a_period_covers_all_every_intervals(void **state) {
    (void)state;
    static const struct {
        uint32_t every[2], round;
    } row[] = {{{4, 16}, 16}, {{4, 6}, 12}, {{1, 1}, 1}, {{1000, 8}, 8}, {{48, 64}, 48}};
    Arena a;
    assert_int_equal(arena_init(&a, 0), GAN_OK);
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        Func f = {0};
        for (int k = 0; k < 2; k++) {
            vec_push(&a, &f.tape, ((Ctl){.kind = CtlEvery, .arg = row[i].every[k]}));
            vec_push(&a, &f.tape, ((Ctl){.kind = CtlEnd}));
        }
        assert_int_equal(sim_period(&f), row[i].round);
        assert_true(sim_same_launches(&f, 3, 3 + row[i].round));
        assert_int_equal(sim_same_launches(&f, 0, 1), row[i].round == 1);
    }
    arena_release(&a);
}

static void without_overlap_all_is_waited_for(void **state) {
    (void)state;
    const TimedLaunch m[] = {compute(0.010), start(0, 2000), compute(0.005), wait_for(0)};
    Timeline all = {.at = (TimedLaunch *)(uintptr_t)m, .n = 4, .steps = 1};
    SimLink link = {.each = {0.001, 1e6, .small = 0.001}, .ranks = 2, .waits = true};
    SimTimes t = sim_run(scratch, &all, 1, &link);
    near(t.step, 0.018);
    near(t.exposed, 0.003);
}

// --- other processes -----------------------------------------------------------------------------

static void options_are_passed_on_as_given(void **state) {
    (void)state;
    char *given[] = {"bench",          "m.gan",  "--memory",  "1.5GiB", "--deterministic=8",
                     "--micro",        "2",      "-s",        "a=1",    "-s",
                     "b=x y",          "--json", "--threads", "2",      "--tf32=off",
                     "--deterministic"};
    for (int n = 2; n <= 16; n++) { // also with fewer words; the last makes an option of no value
        Options one, two;
        OptionId all[OptCount];
        CommandLine line = {0};
        if (options_parse(&scratch, n, given, &one) != GAN_OK)
            continue; // a value is missing
        for (int i = 0; i < OptCount; i++)
            all[i] = (OptionId)i;
        vec_push(&scratch, &line, "bench");
        vec_push(&scratch, &line, "m.gan");
        options_pass(&scratch, &one, all, OptCount, &line);
        assert_int_equal(options_parse(&scratch, (int)line.n, (char **)(uintptr_t)line.at, &two),
                         GAN_OK);
        for (int i = 0; i < OptCount; i++) {
            const ArgValue *a = &one.at[i], *b = &two.at[i];
            assert_true(a->given == b->given && a->number == b->number && a->real == b->real &&
                        str_eq(a->text, b->text) && a->pair.n == b->pair.n);
            for (uint32_t k = 0; k < a->pair.n; k++)
                assert_true(str_eq(a->pair.at[k].key, b->pair.at[k].key) &&
                            str_eq(a->pair.at[k].value, b->pair.at[k].value));
        }
    }
}

// --- the bound -----------------------------------------------------------------------------------

static void compile_text(Arena *a, const char *text, Parallel parallel, Compiled *out) {
    Front f;
    front_init(&f, a);
    CompileOptions o = {.real = DtF32, .parallel = parallel};
    ElabOptions e = {.batch = 8};
    uint32_t source = front_add_source(&f, STR("test.gan"), str_c(text), false);
    Ast *file = source ? parse_gan(&f, source) : NULL;
    assert_true(file && !diag_errors(&f) && front_load_library(&f) &&
                elaborate(&f, file, &e, &out->module));
    assert_int_equal(compile_plans(a, &out->module, &o, out), GAN_OK);
}

// The plan's launches, of up to a thousand `unit`s.
static Timeline timeline_of(Arena *a, const Plan *p, uint32_t seed, double unit) {
    Timeline m = {.steps = 1};
    for (uint32_t i = 0; i < p->launch.n; i++) {
        const Region *r = &p->region.at[p->merge.at[p->launch.at[i].first]];
        TimedLaunch x = {.kind = r->kind, .launch = i, .call = r->call};
        if (r->kind == RegionStart)
            x.bytes = p->collective.at[r->call].bytes;
        else if (r->kind != RegionWait)
            x.seconds = unit * (double)(hash64(&i, sizeof i, seed) % 1000);
        vec_push(a, &m, x);
    }
    return m;
}

static const char one_weight[] = "model m\ndata x : float(16)\n"
                                 "net D(x: [16]) -> [1] = x |> dense(1)\n"
                                 "opt = sgd(lr=0.1)\n"
                                 "step { update D minimize mean(D(x)^2) using opt }\n";

static const char two_nets[] =
    "model m\ndata x : image(2, 4, 4) scale(-1, 1)\n"
    "net G(z: [4]) -> [2, 4, 4] = z |> dense(32) |> reshape(2, 4, 4)\n"
    "net D(x: [2, 4, 4]) -> [] {\n  h = x\n  for c in [4, 8, 6] { h = h |> conv(c, k=3, pad=1) "
    "|> batch_norm |> leaky_relu(0.2) }\n  h |> flatten |> dense(1) |> squeeze\n}\n"
    "opt = sgd(lr=0.1)\nstep {\n  repeat 2 { update D minimize logistic(D(x), "
    "D(stop(G(normal(4))))) using opt }\n"
    "  update G minimize non_saturating(D(G(normal(4)))) using opt\n}\n";

static void the_bound_is_what_no_order_can_hide(void **state) {
    (void)state;
    Arena a;
    Compiled c = {0};
    assert_int_equal(arena_init(&a, 0), GAN_OK);
    compile_text(&a, one_weight, (Parallel){.ranks = 2}, &c);
    Timeline m = timeline_of(&a, &c.step, 1, 1e-9);
    SimLink link = {.each = model_of(1e-5, 32e3), .ranks = 2};
    double bound = sim_bound(scratch, &c.step, &m, &link);
    near(floor(bound * 1e5), 225); // 18 floats: weights, a bias and a loss
    arena_release(&a);
}

static void the_bound_is_below_every_order_of_the_calls(void **state) {
    (void)state;
    for (uint32_t seed = 0; seed < 40; seed++) {
        Arena a;
        Compiled c = {0};
        assert_int_equal(arena_init(&a, 0), GAN_OK);
        compile_text(&a, two_nets, (Parallel){.ranks = 2, .bucket = seed % 2 ? 64 << seed % 7 : 0},
                     &c);
        Timeline m = timeline_of(&a, &c.step, seed, 1e-6);
        SimLink link = {.each = model_of(1e-6 * (1 << seed % 9), 1e5 * (1 << seed % 13)),
                        .ranks = 2};
        double bound = sim_bound(scratch, &c.step, &m, &link),
               took = sim_run(scratch, &m, 1, &link).exposed;
        if (!(bound >= 0 && bound <= took + 1e-12))
            fail_msg("seed %u: bound %g, played %g", seed, bound, took);
        arena_release(&a);
    }
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(overlapped_communication_costs_nothing),
        cmocka_unit_test(exposed_communication_is_waited_for),
        cmocka_unit_test(the_link_serializes_transfers),
        cmocka_unit_test(more_ranks_take_more_latencies_and_up_to_twice_the_bytes),
        cmocka_unit_test(ranks_wait_for_the_slowest),
        cmocka_unit_test(large_reductions_slow_the_computing_thread),
        cmocka_unit_test(an_all_reduce_may_be_awaited_in_the_next_step),
        cmocka_unit_test(different_steps_are_simulated_in_sequence),
        cmocka_unit_test(a_period_covers_all_every_intervals),
        cmocka_unit_test(without_overlap_all_is_waited_for),
        cmocka_unit_test(options_are_passed_on_as_given),
        cmocka_unit_test(the_bound_is_what_no_order_can_hide),
        cmocka_unit_test(the_bound_is_below_every_order_of_the_calls),
    };
    if (CASES_LISTED(tests))
        return 0;
    if (arena_init(&scratch, 0) != GAN_OK)
        return 1;
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    arena_release(&scratch);
    return failed;
}
