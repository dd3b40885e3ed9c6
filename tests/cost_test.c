// cost_test.c - the cost of the published models' steps after the gradient pass: convolutions and
// products by kind, compared with counts by hand, and the price of a gradient penalty.
//
// By hand: a net of k convolutions has k forward ones per call. An update adds k weight gradients
// for each call of a net it lists, and k input gradients (k - 1 where nothing before the first
// layer needs one). So the rows below allow no weight gradient of D in G's update, none in a
// penalty's inner gradient, and no forward pass twice. A transposed convolution counts the other
// way round: forward it is ConvDx, its input gradient is Conv.
#include "trial.h"

#include <setjmp.h>
#include <stdlib.h>

#include <cmocka.h>
#include "arena_cases.h"

#define MODELS ROOT_DIR "/models"

typedef struct Cost {
    const char *model;
    uint32_t conv, dx, dw, dot; // dot 0: not counted (dense layers, power iterations)
} Cost;

static const Cost costs[] = {
    // 5 transposed in G, 4 in D. G(z) once for two updates; D on data, on fakes, on fakes again.
    {"dcgan", 3 * 4 + 5, 5 + 2 * 3 + 4, 2 * 4 + 5, 0},
    // The same with 5 in D, but spectral norms move between the updates: G(z) twice.
    {"sngan", 3 * 5 + 5, 2 * 5 + 2 * 4 + 5, 2 * 5 + 5, 0},
    // Critic: G, D on data, fakes and between; the penalty's inner gradient (4 dx), and from its
    // norm back through these (4 conv, 4 dw) and through the forward pass (3 dx, 4 dw). Then G.
    {"wgan_gp", 3 * 4 + 4 + 4 + 5, 5 + 4 + 3 * 3 + 5 + 4, 2 * 4 + 2 * 4 + 5, 0},
    // 5 transposed in G, 5 in each D: four calls for both, then each branch of the gate: D*, G.
    {"d3gan", 4 * 5 + 2 * (5 + 4), 5 + 4 * 4 + 2 * 5, 4 * 5 + 2 * 5, 0},
    // 24 in a translator, 5 in a patch critic. Translators: six calls, two of them back to a fake
    // image, all trained; critics on two fakes for G, then on data and on history.
    {"cyclegan", 6 * 24 + 6 * 5, 2 * 24 + 4 * 23 + 2 * 5 + 4 * 4, 6 * 24 + 4 * 5, 0},
    // 5 in the encoder, called once, trained once: the critic's loss does not reach it. The last
    // one's gradients, which the greatest of all points get, are gathered (pass/one_hot.c).
    {"aae3d", 5, 3, 4, 0},
    // 4 transposed in G, 4 in D: one pass for both losses, backward of fakes once for each.
    {"cosmogan", 2 * 4 + 4, 4 + 2 * 3 + 4, 2 * 4 + 4, 0},
    // 3 layers in G, 2 in each D. Critics: G, four calls, each 2 weight and 1 input gradient. G:
    // forward, two critics and back through them, 3 weight and 2 input gradients.
    {"d2gan_ring", 0, 0, 0, 3 + 4 * 2 + 4 * (2 + 1) + 3 + 2 * 2 + 2 * 2 + 3 + 2},
};

static const Func *compiled_step(Arena *a, const char *model, const char *set) {
    Str name = str_format(a, "%s.gan", model);
    TrialOptions o = {
        .name = name.ptr, .text = trial_read(a, MODELS, name), .batch = 2, .set = set};
    Compiled *c = arena_new(a, Compiled);
    CompileOptions plain = {.real = DtF32, .no_fuse = true};
    c->module = *trial_module(a, &o);
    compile_plans(a, &c->module, &plain, c);
    return &c->module.step;
}

static uint32_t count(Arena a, const Func *f, Op op) {
    const uint8_t *live = func_live(&a, f);
    uint32_t n = 0;
    for (uint32_t id = 1; id < f->g.node.n; id++)
        n += live[id] && graph_node(&f->g, id)->op == op;
    return n;
}

static void steps_have_the_convolutions_counted_by_hand(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof costs / sizeof *costs; i++) {
        Arena a = empty;
        const Cost *want = &costs[i];
        const Func *f = compiled_step(&a, want->model, NULL);
        uint32_t conv = count(a, f, OpConv), dx = count(a, f, OpConvDx), dw = count(a, f, OpConvDw),
                 dot = count(a, f, OpDot);
        if (conv != want->conv || dx != want->dx || dw != want->dw ||
            (want->dot && dot != want->dot))
            fail_msg("%s: %u conv, %u dx, %u dw, %u dot; by hand %u, %u, %u, %u", want->model, conv,
                     dx, dw, dot, want->conv, want->dx, want->dw, want->dot);
    }
}

// GFLOP of the step's first repeat, which is one critic update.
static double critic_gflop(Arena a, const char *set) {
    const Func *f = compiled_step(&a, "wgan_gp", set);
    uint32_t at = 0;
    while (at < f->tape.n && f->tape.at[at].kind != CtlRepeat)
        at++;
    assert_true(at + 1 < f->tape.n && f->tape.at[at + 1].kind == CtlBlock);
    double sum = 0;
    const uint8_t *live = func_live(&a, f);
    for (uint32_t id = 1; id < f->g.node.n; id++)
        if (live[id] && graph_node(&f->g, id)->block == f->tape.at[at + 1].arg)
            sum += node_gflop(&f->g, id);
    return sum;
}

static void a_gradient_penalty_costs_what_targets_allow(void **state) {
    (void)state;
    double with = critic_gflop(empty, "penalty=gradient"),
           without = critic_gflop(empty, "penalty=none");
    assert_true(without > 0);
    if (with / without > 2.2 || with / without < 1.5)
        fail_msg("a critic update with its penalty is %.3f of one without", with / without);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(steps_have_the_convolutions_counted_by_hand),
        cmocka_unit_test(a_gradient_penalty_costs_what_targets_allow),
    };
    return ARENA_CASES(tests, 0);
}
