// scale_test.c - the simulator against time lines that can be worked out by hand.
#include "scale.h"

#include <setjmp.h>
#include <cmocka.h>
#include "cases.h"
#include <math.h>

static Moment compute(double seconds) {
    return (Moment){.kind = RegionLoop, .seconds = seconds};
}
static Moment start(uint32_t call, size_t bytes) {
    return (Moment){.kind = RegionStart, .call = call, .bytes = bytes};
}
static Moment wait_for(uint32_t call) {
    return (Moment){.kind = RegionWait, .call = call};
}

static ScalePoint play(const Moment *m, uint32_t n, int64_t ranks, bool wire) {
    Moments all = {.at = (Moment *)(uintptr_t)m, .n = n};
    ScalePoint p = {0};
    scale_play(&all, ranks, (LinkModel){0.001, 1e6}, wire, &p); // 1 ms, 1 MB/s
    return p;
}
#define PLAY(m, ranks, wire) play(m, sizeof(m) / sizeof *(m), ranks, wire)

static void near(double a, double b) {
    if (!(fabs(a - b) < 1e-9))
        fail_msg("%.12g, not %.12g", a, b);
}

static void what_is_hidden_costs_nothing(void **state) {
    (void)state;
    const Moment m[] = {compute(0.010), start(0, 2000), compute(0.005), wait_for(0)};
    ScalePoint p = PLAY(m, 2, false); // 1 ms + 2 kB at 1 MB/s: 3 ms, under 5
    near(p.ms, 15);
    near(p.comm_ms, 3);
    near(p.exposed_ms, 0);
}

static void what_is_not_hidden_is_waited_for(void **state) {
    (void)state;
    const Moment m[] = {compute(0.010), start(0, 7000), compute(0.005), wait_for(0),
                        compute(0.002)};
    ScalePoint p = PLAY(m, 2, false);
    near(p.ms, 20);
    near(p.exposed_ms, 3);
}

static void the_link_does_one_thing_at_a_time(void **state) {
    (void)state;
    const Moment m[] = {start(0, 4000), start(1, 1000), compute(0.001), wait_for(1), wait_for(0)};
    ScalePoint p = PLAY(m, 2, false); // 5 ms, then 2 more
    near(p.ms, 7);
    near(p.exposed_ms, 6);
    near(p.comm_ms, 7);
}

static void more_ranks_take_more_latencies_and_up_to_twice_the_bytes(void **state) {
    (void)state;
    const Moment m[] = {start(0, 4000), wait_for(0)};
    near(PLAY(m, 1, false).ms, 0);
    near(PLAY(m, 2, false).ms, 1 + 4);
    near(PLAY(m, 8, false).ms, 3 + 4 * 14.0 / 8);
    near(PLAY(m, 1024, false).ms, 10 + 4 * 2046.0 / 1024);
    near(PLAY(m, 1024, true).ms, 1 + 4); // a wire model does not know how many there are
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_hidden_costs_nothing),
        cmocka_unit_test(what_is_not_hidden_is_waited_for),
        cmocka_unit_test(the_link_does_one_thing_at_a_time),
        cmocka_unit_test(more_ranks_take_more_latencies_and_up_to_twice_the_bytes),
    };
    if (CASES_LISTED(tests))
        return 0;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
