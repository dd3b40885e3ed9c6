// one_hot_test.c - sums and products over the gradient of a maximum become gathers and scatters:
// the same values, and only where fewer elements are visited.
#include "pass_cases.h"

#include <setjmp.h>
#include <cmocka.h>
#include "cases.h"

#define POINTS "data x : float(3, 200)\n"
#define SCORE "step { update D minimize mean(D(x)^2) using sgd(0.1) }\n"

// count: gathers, scatters that the pass makes.
static const PassCase cases[] = {
    {"a Chamfer distance",
     POINTS "net G(z: [4]) -> [3, 200] { z |> dense(600) |> reshape(3, 200) }\n"
            "step { update G minimize chamfer(x, G(normal(4))) using sgd(0.01) }\n",
     {2, 1}},
    {"both sides of one",
     POINTS "net G(x: [3, 200]) -> [3, 200] { x |> conv(3, k=1) }\n"
            "step { update G minimize chamfer(G(x), flip(G(x), channel)) using sgd(0.01) }\n",
     {2, 2}},
    {"a maximum over points",
     "data x : float(3, 400)\n"
     "net D(x: [3, 400]) -> [] { x |> conv(8, k=1) |> relu |> conv(16, k=1) |> max(space)\n"
     "  |> dense(1) |> squeeze }\n" SCORE,
     {1, 1}},
    {"over an image",
     "data x : image(3, 20, 20)\n"
     "net D(x: [3, 20, 20]) -> [] { x |> conv(8, k=1) |> tanh |> conv(40, k=1) |> max(space)\n"
     "  |> dense(1) |> squeeze }\n" SCORE,
     {1, 1}},
    {"of a product",
     "data x : float(30, 40)\n"
     "net D(x: [30, 40]) -> [] {\n"
     "  param w : [20, 30] = gauss(0.1)\n"
     "  einsum(\"dp,cd->cp\", x, w) |> max(axis(1)) |> dense(1) |> squeeze }\n" SCORE,
     {1, 0}},
    {"over channels",
     "data x : float(3, 60)\n"
     "net D(x: [3, 60]) -> [] { x |> conv(64, k=1) |> tanh |> conv(90, k=1) |> max(channel)\n"
     "  |> dense(1) |> squeeze }\n" SCORE,
     {1, 2}}, // one for the bias
    {"with a penalty on its gradient",
     "data x : float(3, 400)\n"
     "net D(x: [3, 400]) -> [] { x |> conv(8, k=1) |> tanh |> conv(16, k=1) |> max(space)\n"
     "  |> dense(1) |> squeeze }\n"
     "step { update D minimize mean(D(x)) + mean(norm2(grad(D(x), x))) using sgd(0.1) }\n",
     {2, 2}},
    {"of the slope by place, turned",
     "data x : float(16, 400)\n"
     "net D(x: [16, 400]) -> [] { x |> tanh |> max(space) |> dense(1) |> squeeze }\n"
     "step {\n"
     "  g = permute(grad(D(x), x), 1, 0)*arange(400)/400\n"
     "  y = einsum(\"pc,kp->ck\", g, reshape(sin(arange(16000)), 40, 400))\n"
     "  update D minimize mean(D(x)) + mean(y^2) using sgd(0.1)\n"
     "}\n",
     {2, 0}},
    {"not of windows",
     "data x : image(3, 20, 20)\n"
     "net D(x: [3, 20, 20]) -> [] { x |> conv(8, k=1) |> max_pool(2) |> flatten |> dense(1)\n"
     "  |> squeeze }\n" SCORE,
     {0, 0}},
    {"not where a convolution reads neighbours",
     "data x : float(3, 400)\n"
     "net D(x: [3, 400]) -> [] { x |> conv(8, k=3) |> tanh |> conv(16, k=3, bias=none) |> "
     "max(space)\n"
     "  |> dense(1) |> squeeze }\n" SCORE,
     {0, 0}},
    {"not of few elements",
     "data x : float(3, 4)\n"
     "net G(z: [4]) -> [3, 4] { z |> dense(12) |> reshape(3, 4) }\n"
     "step { update G minimize chamfer(x, G(normal(4))) using sgd(0.01) }\n",
     {0, 0}},
};

static void check(Arena *a, const PassCase *c) {
    const Module *m[2] = {pass_text(a, c->text, DtF64, "drop_identities"),
                          pass_text(a, c->text, DtF64, "one_hot")};
    uint32_t gathers = pass_count(a, m[1], OpGather) - pass_count(a, m[0], OpGather),
             scatters = pass_count(a, m[1], OpScatter) - pass_count(a, m[0], OpScatter);
    pass_assert_equal(a, c->name, m[0], m[1]);
    assert_int_equal(gathers, c->count[0]);
    assert_int_equal(scatters, c->count[1]);
}

static void values_stay_and_fewer_elements_are_visited(void **state) {
    (void)state;
    pass_each(cases, sizeof cases / sizeof *cases, check);
}

static void slopes_are_those_of_the_losses(void **state) {
    (void)state;
    pass_each_slope(cases, sizeof cases / sizeof *cases);
}

// Of each minimum one region, which computes the table of all pairs, and its index as well.
static void a_maximum_and_its_index_are_one_region(void **state) {
    (void)state;
    Arena a;
    assert_int_equal(arena_init(&a, 0), GAN_OK);
    const PassOptions o = {.real = DtF32, .verify_each = true};
    const Module *m = pass_text(&a, cases[0].text, DtF32, NULL);
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
