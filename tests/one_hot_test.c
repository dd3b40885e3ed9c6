// one_hot_test.c - sums and products over the gradient of a maximum become gathers and scatters:
// the same values, and only where fewer elements are visited.
#include "pass.h"
#include "programs.h"
#include "trial.h"

#include <setjmp.h>
#include <cmocka.h>
#include "cases.h"
#include <math.h>

typedef struct Case {
    const char *name, *text;
    uint32_t gathers, scatters; // that the pass makes
} Case;

#define POINTS "data x : float(3, 200)\n"
#define SCORE "step { update D minimize mean(D(x)^2) using sgd(0.1) }\n"

static const Case cases[] = {
    {"a Chamfer distance",
     POINTS "net G(z: [4]) -> [3, 200] { z |> dense(600) |> reshape(3, 200) }\n"
            "step { update G minimize chamfer(x, G(normal(4))) using sgd(0.01) }\n",
     2, 1},
    {"both sides of one",
     POINTS "net G(x: [3, 200]) -> [3, 200] { x |> conv(3, k=1) }\n"
            "step { update G minimize chamfer(G(x), flip(G(x), channel)) using sgd(0.01) }\n",
     2, 2},
    {"a maximum over points",
     "data x : float(3, 400)\n"
     "net D(x: [3, 400]) -> [] { x |> conv(8, k=1) |> relu |> conv(16, k=1) |> max(space)\n"
     "  |> dense(1) |> squeeze }\n" SCORE,
     1, 1},
    {"over an image",
     "data x : image(3, 20, 20)\n"
     "net D(x: [3, 20, 20]) -> [] { x |> conv(8, k=1) |> tanh |> conv(40, k=1) |> max(space)\n"
     "  |> dense(1) |> squeeze }\n" SCORE,
     1, 1},
    {"of a product",
     "data x : float(30, 40)\n"
     "net D(x: [30, 40]) -> [] {\n"
     "  param w : [20, 30] = gauss(0.1)\n"
     "  einsum(\"dp,cd->cp\", x, w) |> max(axis(1)) |> dense(1) |> squeeze }\n" SCORE,
     1, 0},
    {"over channels",
     "data x : float(3, 60)\n"
     "net D(x: [3, 60]) -> [] { x |> conv(64, k=1) |> tanh |> conv(90, k=1) |> max(channel)\n"
     "  |> dense(1) |> squeeze }\n" SCORE,
     1, 2}, // one for the bias
    {"with a penalty on its gradient",
     "data x : float(3, 400)\n"
     "net D(x: [3, 400]) -> [] { x |> conv(8, k=1) |> tanh |> conv(16, k=1) |> max(space)\n"
     "  |> dense(1) |> squeeze }\n"
     "step { update D minimize mean(D(x)) + mean(norm2(grad(D(x), x))) using sgd(0.1) }\n",
     2, 2},
    {"not of windows",
     "data x : image(3, 20, 20)\n"
     "net D(x: [3, 20, 20]) -> [] { x |> conv(8, k=1) |> max_pool(2) |> flatten |> dense(1)\n"
     "  |> squeeze }\n" SCORE,
     0, 0},
    {"not where a convolution reads neighbours",
     "data x : float(3, 400)\n"
     "net D(x: [3, 400]) -> [] { x |> conv(8, k=3) |> tanh |> conv(16, k=3, bias=none) |> "
     "max(space)\n"
     "  |> dense(1) |> squeeze }\n" SCORE,
     0, 0},
    {"not of few elements",
     "data x : float(3, 4)\n"
     "net G(z: [4]) -> [3, 4] { z |> dense(12) |> reshape(3, 4) }\n"
     "step { update G minimize chamfer(x, G(normal(4))) using sgd(0.01) }\n",
     0, 0},
};

static Module *passed(Arena *a, const char *text, Dtype real, const char *until) {
    Str whole = str_format(a, "model m\n%s", text);
    const TrialOptions o = {.name = "model.gan", .text = whole, .batch = 3};
    const PassOptions pass = {.real = real, .verify_each = true};
    Module *m = arena_new(a, Module);
    *m = *trial_module(a, &o);
    slots_place(m, real);
    passes_run(a, m, &m->step, &pass, until);
    return m;
}

static uint32_t count(Arena *a, const Module *m, Op op) {
    const uint8_t *live = func_live(a, &m->step);
    uint32_t n = 0;
    for (uint32_t id = 1; id < m->step.g.node.n; id++)
        n += live[id] && graph_node(&m->step.g, id)->op == op;
    return n;
}

static void check(Arena *a, const Case *c) {
    const Module *m[2] = {passed(a, c->text, DtF64, "drop_identities"),
                          passed(a, c->text, DtF64, "one_hot")};
    Oracle o[2];
    uint32_t gathers = count(a, m[1], OpGather) - count(a, m[0], OpGather),
             scatters = count(a, m[1], OpScatter) - count(a, m[0], OpScatter);
    for (int i = 0; i < 2; i++) {
        oracle_init(a, m[i], &o[i]);
        oracle_step(a, &o[i]);
        oracle_step(a, &o[i]);
    }
    for (uint32_t s = 0; s < m[0]->slot.n; s++)
        for (int64_t i = 0; i < oracle_count(&o[0], s); i++) {
            const double *x = o[0].slot[s], *y = o[1].slot[s];
            if (!(fabs(x[i] - y[i]) <= 1e-12 * fmax(1, fabs(x[i]))))
                fail_msg("%s: slot %u: %.17g and %.17g", c->name, s, x[i], y[i]);
        }
    assert_int_equal(gathers, c->gathers);
    assert_int_equal(scatters, c->scatters);
}

static void values_stay_and_fewer_elements_are_visited(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        Arena a;
        assert_int_equal(arena_init(&a, 0), GAN_OK);
        check(&a, &cases[i]);
        arena_release(&a);
    }
}

static void slopes_are_those_of_the_losses(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        Arena a;
        Trial t;
        assert_int_equal(arena_init(&a, 0), GAN_OK);
        const TrialOptions o = {
            .name = "model.gan", .text = str_format(&a, "model m\n%s", cases[i].text), .batch = 3};
        trial_open(&t, &a, &o);
        trial_set_weights(&t);
        trial_step(&t);
        double error = trial_gradient_error(&t);
        if (!(error < 1e-6))
            fail_msg("%s: off by %g", cases[i].name, error);
        trial_close(&t);
        arena_release(&a);
    }
}

// Of each minimum one region, which computes the table of all pairs, and its index as well.
static void a_maximum_and_its_index_are_one_region(void **state) {
    (void)state;
    Arena a;
    assert_int_equal(arena_init(&a, 0), GAN_OK);
    const PassOptions o = {.real = DtF32, .verify_each = true};
    const Module *m = passed(&a, cases[0].text, DtF32, NULL);
    Plan p;
    plan_make(&a, m, &m->step, &o, &p);
    uint32_t found = 0;
    for (uint32_t r = 0; r < p.region.n; r++) {
        uint32_t best = 0;
        for (uint32_t i = 0; i < p.region.at[r].out.n; i++) {
            Op op = (Op)graph_node(&m->step.g, p.region.at[r].out.at[i])->op;
            best += op == OpMaxOf || op == OpArgMax;
        }
        assert_true(best == 0 || best == 2);
        found += best > 0;
    }
    assert_int_equal(found, 2);
    arena_release(&a);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_stay_and_fewer_elements_are_visited),
        cmocka_unit_test(slopes_are_those_of_the_losses),
        cmocka_unit_test(a_maximum_and_its_index_are_one_region),
    };
    if (CASES_LISTED(tests))
        return 0;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
