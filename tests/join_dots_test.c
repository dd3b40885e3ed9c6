// join_dots_test.c - products with one weight become one product of stacked operands: the same
// values and gradients, and only where that is worth it.
#include "pass_cases.h"
#include "trial.h"

#include <setjmp.h>
#include <cmocka.h>
#include "cases.h"

#define SERIES "data x : float(5, 12)\n"
#define TRAIN "step { update N minimize mean(N(x)^2) using sgd(0.1) }\n"

// count: products of the step, as it was written and joined.
static const PassCase cases[] = {
    // By hand: of inputs one product a step forward and one for the weight's gradient; of states
    // the
    // same, and one back but for the first, which all samples share.
    {"a recurrent net",
     SERIES "net N(x: [5, 12]) { rnn(gru(12), x, expand(0, 12)) }\n" TRAIN,
     {5 + 5 + 5 + 5 + 4, 1 + 1 + 5 + 2 + 4}},
    {"one that another is trained through",
     SERIES "net G(z: [5, 4]) -> [5, 12] { rnn(lstm(12), z, expand(0, 24))[:, :12] }\n"
            "net D(x: [5, 12]) -> [] { rnn(gru(8), x, expand(0, 8)) |> flatten |> dense(1)\n"
            "  |> squeeze }\n"
            "step {\n  fake = G(normal(5, 4))\n"
            "  update D minimize logistic(D(x), D(fake)) using sgd(0.1)\n"
            "  update G minimize non_saturating(D(fake)) using sgd(0.1)\n}\n",
     {97, 55}},
    {"of two layers",
     "data x : float(6, 12)\n"
     "net N(x: [6, 12]) { rnn(gru(12), rnn(gru(12), x, expand(0, 12)), expand(0, 12)) }\n" TRAIN,
     {64, 31}},
    {"steps from the last on",
     SERIES "net N(x: [5, 12]) { rnn(gru(12), flip(x, axis(0))[1:], expand(0, 12)) }\n" TRAIN,
     {19, 11}},
    {"a penalty on the gradient by one step",
     SERIES "net N(x: [5, 12]) -> [] { rnn(gru(12), x, expand(0, 12)) |> flatten |> dense(1)\n"
            "  |> squeeze }\n"
            "step { a = x[2]\n  b = stack(x[0], x[1], a, x[3], x[4])\n"
            "  update N minimize mean(norm2(grad(N(b), a))) using sgd(0.1) }\n",
     {35, 28}},
    {"real and fake",
     "data x : float(12)\n"
     "net D(x: [12]) -> [] { x |> dense(512) |> relu |> dense(1) |> squeeze }\n"
     "step { update D minimize logistic(D(x), D(flip(x, axis(0)))) using sgd(0.1) }\n",
     {10, 9}}, // the first layer's; the second's weight is smaller than what it multiplies
    {"values of another loss, which are infinite",
     "data x : float(12)\n"
     "net N(x: [12]) -> [] { x |> dense(64) |> tanh |> dense(1) |> squeeze }\n"
     "step { s = [N(a) for a in [x, 2*x, 3*x, exp(1e3 + x), exp(2e3 + x), exp(3e3 + x)]]\n"
     "  other = grad(mean(s[3]) + mean(s[4]) + mean(s[5]), params(N))\n"
     "  report size = norm2(other[0])\n"
     "  update N minimize mean(s[0]) + mean(s[1]) + mean(s[2]) using sgd(0.1) }\n",
     {19, 15}}, // of each loss the sums
    {"positions of a map, large against the weight",
     "data x : float(16, 40)\n"
     "net N(x: [16, 40]) { param w : [16, 16] = gauss(0.1)\n"
     "  einsum(\"oc,cp->op\", w, x) + einsum(\"oc,cp->op\", w, tanh(x)) }\n" TRAIN,
     {4, 4}},
};

// The evaluator's, of the graph as it was written and differentiated and of the joined one.
static void check(Arena *a, const PassCase *c) {
    const TrialOptions as_written = {
        .name = "model.gan", .text = str_format(a, "model m\n%s", c->text), .batch = 3};
    Module *apart = arena_new(a, Module);
    *apart = *trial_module(a, &as_written);
    const PassOptions pass = {.real = DtF64, .verify_each = true};
    slots_place(apart, DtF64);
    pass_grad(a, apart, &apart->step, &pass);
    pass_drop_identities(a, apart, &apart->step, &pass);
    const Module *m[2] = {apart, pass_text(a, c->text, DtF64, "join_sums")};
    pass_assert_equal(a, c->name, m[0], m[1]);
    if (pass_count(a, m[0], OpDot) != c->count[0] || pass_count(a, m[1], OpDot) != c->count[1])
        fail_msg("%s: %u products, joined %u", c->name, pass_count(a, m[0], OpDot),
                 pass_count(a, m[1], OpDot));
}

static void values_stay_and_products_join(void **state) {
    (void)state;
    pass_each(cases, sizeof cases / sizeof *cases, check);
}

static void slopes_are_those_of_the_losses(void **state) {
    (void)state;
    pass_each_slope(cases, sizeof cases / sizeof *cases);
}

// A step's work memory has no part of a weight's gradient for each step of the series.
static void parts_of_a_gradient_are_not_stored(void **state) {
    (void)state;
    Arena a;
    assert_int_equal(arena_init(&a, 0), GAN_OK);
    const PassOptions o = {.real = DtF32, .verify_each = true};
    const Module *m = pass_text(&a,
                                "data x : float(20, 64)\n"
                                "net N(x: [20, 64]) { rnn(lstm(64), x, expand(0, 128)) }\n" TRAIN,
                                DtF32, NULL);
    Plan p;
    plan_make(&a, m, &m->step, &o, &p);
    size_t weight = 4 * 64 * 64 * sizeof(float);
    assert_true(p.work_bytes < 20 * weight / 2);
    arena_release(&a);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_stay_and_products_join),
        cmocka_unit_test(slopes_are_those_of_the_losses),
        cmocka_unit_test(parts_of_a_gradient_are_not_stored),
    };
    if (CASES_LISTED(tests))
        return 0;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
