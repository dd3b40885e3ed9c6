// pass_cases.c - models and programs before and after a pass (pass_cases.h).
#include "pass_cases.h"

#include "programs.h"
#include "trial.h"

#include <setjmp.h>
#include <cmocka.h>
#include <math.h>

Module *pass_model(Arena *a, const char *text, const char *set, int64_t batch, const PassOptions *o,
                   const char *until) {
    const TrialOptions trial = {
        .name = "model.gan", .text = str_c(text), .batch = batch, .set = set};
    Module *m = arena_new(a, Module);
    *m = *trial_module(a, &trial);
    slots_place(m, o->real);
    passes_run(a, m, &m->step, o, until);
    return m;
}

static void assert_slots(Arena *a, const char *name, const Module *before, const Module *after,
                         double tolerance) {
    const Module *m[2] = {before, after};
    Oracle o[2];
    for (int i = 0; i < 2; i++) {
        oracle_init(a, m[i], &o[i]);
        oracle_step(a, &o[i]);
        oracle_step(a, &o[i]);
    }
    for (uint32_t s = 0; s < before->slot.n; s++)
        for (int64_t i = 0; i < oracle_count(&o[0], s); i++) {
            double x = o[0].slot[s][i], y = o[1].slot[s][i];
            if (!(fabs(x - y) <= tolerance * fmax(1, fabs(x))))
                fail_msg("%s: slot %u, element %lld: %.17g is %.17g", name, s, (long long)i, x, y);
        }
}

void pass_assert_same(Arena *a, const Module *before, const Module *after) {
    assert_slots(a, "behind the pass", before, after, 1e-9);
}

void pass_assert_equal(Arena *a, const char *name, const Module *before, const Module *after) {
    assert_slots(a, name, before, after, 1e-12);
}

void pass_assert_slopes(const char *name, const char *text) {
    Arena a;
    Trial t;
    assert_int_equal(arena_init(&a, 0), GAN_OK);
    const TrialOptions o = {
        .name = "model.gan", .text = str_format(&a, "model m\n%s", text), .batch = 3};
    trial_open(&t, &a, &o);
    trial_set_weights(&t);
    trial_step(&t);
    double error = trial_gradient_error(&t);
    if (!(error < 1e-6))
        fail_msg("%s: off by %g", name, error);
    trial_close(&t);
    arena_release(&a);
}

void pass_each(const PassCase *c, size_t n, PassCheck *check) {
    for (size_t i = 0; i < n; i++) {
        Arena a;
        assert_int_equal(arena_init(&a, 0), GAN_OK);
        check(&a, &c[i]);
        arena_release(&a);
    }
}

void pass_each_slope(const PassCase *c, size_t n) {
    for (size_t i = 0; i < n; i++)
        pass_assert_slopes(c[i].name, c[i].text);
}

Module *pass_text(Arena *a, const char *text, Dtype real, const char *until) {
    const PassOptions pass = {.real = real, .verify_each = true};
    return pass_model(a, str_format(a, "model m\n%s", text).ptr, NULL, 3, &pass, until);
}

uint32_t pass_count(Arena *a, const Module *m, Op op) {
    const uint8_t *live = func_live(a, &m->step);
    uint32_t n = 0;
    for (uint32_t id = 1; id < m->step.g.node.n; id++)
        n += live[id] && graph_node(&m->step.g, id)->op == op;
    return n;
}

uint32_t pass_programs(uint64_t seeds, PassProgram *make, PassFn *pass, const PassOptions *o,
                       PassCount *count) {
    uint32_t n = 0;
    for (uint64_t seed = 0; seed < seeds; seed++) {
        Arena a;
        Module before, after;
        assert_int_equal(arena_init(&a, 0), GAN_OK);
        make(&a, seed, &before);
        make(&a, seed, &after);
        pass(&a, &after, &after.step, o);
        pass_assert_same(&a, &before, &after);
        n += count(&before.step, &after.step);
        arena_release(&a);
    }
    return n;
}

bool pass_is_conv(const Graph *g, uint32_t id) {
    Op op = (Op)graph_node(g, id)->op;
    return op == OpConv || op == OpConvDx || op == OpConvDw;
}
