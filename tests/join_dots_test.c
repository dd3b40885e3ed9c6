// join_dots_test.c - products with one weight become one product of stacked operands: the same
// values and gradients, and only where that is worth it.
#include "pass.h"
#include "programs.h"
#include "trial.h"

#include <setjmp.h>
#include <cmocka.h>
#include "cases.h"
#include <math.h>

typedef struct Case {
    const char *name, *text;
    uint32_t apart, joined; // products of the step's graph
} Case;

#define SERIES "data x : float(5, 12)\n"
#define TRAIN "step { update N minimize mean(N(x)^2) using sgd(0.1) }\n"

static const Case cases[] = {
    // By hand: of inputs one product a step forward and one for the weight's gradient; of states
    // the
    // same, and one back but for the first, which all samples share.
    {"a recurrent net", SERIES "net N(x: [5, 12]) { rnn(gru(12), x, expand(0, 12)) }\n" TRAIN,
     5 + 5 + 5 + 5 + 4, 1 + 1 + 5 + 2 + 4},
    {"one that another is trained through",
     SERIES "net G(z: [5, 4]) -> [5, 12] { rnn(lstm(12), z, expand(0, 24))[:, :12] }\n"
            "net D(x: [5, 12]) -> [] { rnn(gru(8), x, expand(0, 8)) |> flatten |> dense(1)\n"
            "  |> squeeze }\n"
            "step {\n  fake = G(normal(5, 4))\n"
            "  update D minimize logistic(D(x), D(fake)) using sgd(0.1)\n"
            "  update G minimize non_saturating(D(fake)) using sgd(0.1)\n}\n",
     97, 55},
    {"of two layers",
     "data x : float(6, 12)\n"
     "net N(x: [6, 12]) { rnn(gru(12), rnn(gru(12), x, expand(0, 12)), expand(0, 12)) }\n" TRAIN,
     64, 31},
    {"steps from the last on",
     SERIES "net N(x: [5, 12]) { rnn(gru(12), flip(x, axis(0))[1:], expand(0, 12)) }\n" TRAIN, 19,
     11},
    {"a penalty on the gradient by one step",
     SERIES "net N(x: [5, 12]) -> [] { rnn(gru(12), x, expand(0, 12)) |> flatten |> dense(1)\n"
            "  |> squeeze }\n"
            "step { a = x[2]\n  b = stack(x[0], x[1], a, x[3], x[4])\n"
            "  update N minimize mean(norm2(grad(N(b), a))) using sgd(0.1) }\n",
     35, 28},
    {"real and fake",
     "data x : float(12)\n"
     "net D(x: [12]) -> [] { x |> dense(512) |> relu |> dense(1) |> squeeze }\n"
     "step { update D minimize logistic(D(x), D(flip(x, axis(0)))) using sgd(0.1) }\n",
     10, 9}, // the first layer's; the second's weight is smaller than what it multiplies
    {"positions of a map, large against the weight",
     "data x : float(16, 40)\n"
     "net N(x: [16, 40]) { param w : [16, 16] = gauss(0.1)\n"
     "  einsum(\"oc,cp->op\", w, x) + einsum(\"oc,cp->op\", w, tanh(x)) }\n" TRAIN,
     4, 4},
};

static Module *passed(Arena *a, const char *text, Dtype real, const char *until) {
    const TrialOptions o = {
        .name = "model.gan", .text = str_format(a, "model m\n%s", text), .batch = 3};
    const PassOptions pass = {.real = real, .verify_each = true};
    Module *m = arena_new(a, Module);
    *m = *trial_module(a, &o);
    slots_place(m, real);
    passes_run(a, m, &m->step, &pass, until);
    return m;
}

static uint32_t dots(Arena *a, const Module *m) {
    const uint8_t *live = func_live(a, &m->step);
    uint32_t n = 0;
    for (uint32_t id = 1; id < m->step.g.node.n; id++)
        n += live[id] && graph_node(&m->step.g, id)->op == OpDot;
    return n;
}

// The evaluator's, of the graph as it was written and differentiated and of the joined one.
static void check(Arena *a, const Case *c) {
    const TrialOptions as_written = {
        .name = "model.gan", .text = str_format(a, "model m\n%s", c->text), .batch = 3};
    Module *apart = arena_new(a, Module);
    *apart = *trial_module(a, &as_written);
    const PassOptions pass = {.real = DtF64, .verify_each = true};
    slots_place(apart, DtF64);
    pass_grad(a, apart, &apart->step, &pass);
    pass_drop_identities(a, apart, &apart->step, &pass);
    const Module *m[2] = {apart, passed(a, c->text, DtF64, "join_sums")};
    Oracle o[2];
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
    if (dots(a, m[0]) != c->apart || dots(a, m[1]) != c->joined)
        fail_msg("%s: %u products, joined %u", c->name, dots(a, m[0]), dots(a, m[1]));
}

static void values_stay_and_products_join(void **state) {
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

// A step's work memory has no part of a weight's gradient for each step of the series.
static void parts_of_a_gradient_are_not_stored(void **state) {
    (void)state;
    Arena a;
    assert_int_equal(arena_init(&a, 0), GAN_OK);
    const PassOptions o = {.real = DtF32, .verify_each = true};
    const Module *m = passed(&a,
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
