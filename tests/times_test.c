// times_test.c - estimated completion times of values, for steps that can be worked out by hand:
// products on a core, all-reduces on a link, and values that wait for the deferred tail of the
// step before.
#include "driver.h"
#include "shard.h"

#include <setjmp.h>
#include <math.h>
#include <stdlib.h>

#include <cmocka.h>
#include "arena_cases.h"

enum { Wide = 512, Batch = 64 };
static const char text[] = "model m\ndata x : float(512)\n"
                           "net D(x: [512]) -> [512] = x |> dense(512) |> dense(512)\n"
                           "opt = sgd(lr=0.1)\n"
                           "step { update D minimize mean(D(x)^2) using opt }\n";

// The step for the global batch, before sharding, with its gradients as reductions.
static const Func *step_of(Arena *a, SumVec *sums) {
    Front f;
    Module *m = arena_new(a, Module);
    PassOptions o = {.real = DtF32};
    ElabOptions e = {.batch = Batch};
    front_init(&f, a);
    uint32_t source = front_add_source(&f, STR("test.gan"), str_c(text), false);
    Ast *file = source ? parse_gan(&f, source) : NULL;
    assert_true(file && !diag_errors(&f) && front_load_library(&f) && elaborate(&f, file, &e, m));
    slots_place(m, DtF32);
    passes_run(a, m, &m->step, &o, "dtype");
    *sums = (SumVec){0};
    const Update *u = &m->step.update.at[0];
    for (uint32_t k = 0; k < u->grad.n; k++) {
        uint32_t id = u->grad.at[k].node;
        vec_push(a, sums, sum_make(id, node_type(&m->step.g, id), DtF32));
    }
    return &m->step;
}

// The n-th product in graph order: the forward ones first, then backward.
static uint32_t product(const Func *f, uint32_t n) {
    for (uint32_t id = 1; id < f->g.node.n; id++)
        if (node_gflop(&f->g, id) > 0 && n-- == 0)
            return id;
    fail_msg("too few products");
    return 0;
}

static double seconds(const Times *t, uint32_t node) {
    return t->time[node] * TIMES_TICK;
}

static void near(double a, double b) { // every node on the path may take a tick
    if (!(fabs(a - b) <= 100 * TIMES_TICK))
        fail_msg("%g s, not %g", a, b);
}

static Times times_of(Arena *a, const Func *f, const SumVec *sums, const Parallel *o, bool leaves) {
    return times_find(a, f, func_live(a, f), sums, o, leaves);
}

// Each of two ranks computes half of each product, one after the other.
static void a_chains_time_is_the_sum_of_its_products(void **state) {
    (void)state;
    Arena a = empty;
    SumVec sums;
    const Func *f = step_of(&a, &sums);
    Times t = times_of(&a, f, &sums, &(Parallel){.ranks = 2}, false);
    uint32_t one = product(f, 0), two = product(f, 1);
    double each = product_seconds(&f->g, one) / 2;
    assert_true(each > 500 * TIMES_TICK); // so that the ticks of other nodes do not matter
    near(seconds(&t, one), each);
    near(seconds(&t, two), 2 * each);
    // then back through the upper layer, and a gradient of either
    for (uint32_t i = 0; i < sums.n; i++) {
        assert_true(seconds(&t, sums.at[i].node) > 2 * each);
        assert_true(seconds(&t, sums.at[i].node) < 5 * each);
    }
    Times whole = times_of(&a, f, &sums, &(Parallel){.ranks = 1}, false);
    near(seconds(&whole, two), 4 * each);
}

static uint32_t count_late(const Func *f, const Times *t) {
    uint32_t n = 0;
    for (uint32_t id = 1; id < f->g.node.n; id++)
        n += t->late[id] != 0;
    return n;
}

static void deferred_sums_complete_when_the_link_is_idle(void **state) {
    (void)state;
    Arena a = empty;
    SumVec sums;
    const Func *f = step_of(&a, &sums);
    uint32_t one = product(f, 0), two = product(f, 1);
    double each = product_seconds(&f->g, one) / 2, bytes = 2.0 * (Wide + 1) * Wide * 4;
    Parallel slow = {.ranks = 2, .bandwidth = bytes / (100 * each)},
             fast = {.ranks = 2, .bandwidth = bytes / (1e-3 * each)};
    Times left = times_of(&a, f, &sums, &slow, true), soon = times_of(&a, f, &sums, &fast, true),
          none = times_of(&a, f, &sums, &slow, false);
    assert_true(left.late[one] && left.late[two]);
    // all are sent once the first is final, which takes as long as a hundred products; the step has
    // four
    assert_true(seconds(&left, two) > 95 * each && seconds(&left, two) < 103 * each);
    near(seconds(&soon, two), seconds(&none, two));
    assert_int_equal(count_late(f, &none), 0);
    for (uint32_t id = 1; id < f->g.node.n; id++) // data waits for nothing
        if (graph_node(&f->g, id)->op == OpRead && node_type(&f->g, id)->batched)
            assert_false(left.late[id]);
}

// Squares about a mean need no all-reduce besides the mean's.
static void a_dependent_sum_completes_with_the_other(void **state) {
    (void)state;
    Arena a = empty;
    SumVec sums;
    const Func *f = step_of(&a, &sums);
    uint32_t one = product(f, 0), two = product(f, 1);
    sums.at[0] = (SumOf){.node = two, .bytes = 4, .dtype = DtF32, .like = one};
    Times t = times_of(&a, f, &sums, &(Parallel){.ranks = 2}, false);
    assert_int_equal(t.time[two], t.time[one]);
}

static void a_calls_time_is_latency_plus_transfer(void **state) {
    (void)state;
    Parallel o = {.latency = 1e-3, .bandwidth = 1e6};
    assert_true(fabs(call_seconds(&o, 500) - 1.5e-3) < 1e-12);
    assert_int_equal(link_bytes(&o), 1000);
    assert_true(fabs(call_seconds(&(Parallel){0}, 125000) - 120e-6) < 1e-12); // 20 us, 10 Gbit/s
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_chains_time_is_the_sum_of_its_products),
        cmocka_unit_test(deferred_sums_complete_when_the_link_is_idle),
        cmocka_unit_test(a_dependent_sum_completes_with_the_other),
        cmocka_unit_test(a_calls_time_is_latency_plus_transfer),
    };
    return ARENA_CASES(tests, (size_t)1 << 32);
}
