// mask_test.c - gradients read an activation's output instead of its input: with the same bits,
// NaN included, and only where the input's live range then ends.
#include "pass.h"
#include "prelude.h"
#include "programs.h"
#include "trial.h"

#include <setjmp.h>
#include <cmocka.h>
#include "cases.h"
#include <math.h>
#include <string.h>

static const char plain[] = "model plain\n"
                            "data x : image(3, 8, 8)\n"
                            "net D(x: [3, 8, 8]) -> [] {\n"
                            "  h = x |> conv(4, k=4, stride=2, pad=1) |> leaky_relu(0.2)\n"
                            "  h = h |> conv(5, k=3, pad=1, bias=none) |> relu\n"
                            "  h |> flatten |> dense(6) |> leaky_relu(0.1) |> dense(1) |> squeeze\n"
                            "}\n"
                            "step {\n"
                            "  score = D(x)\n"
                            "  slope = grad(score, x)\n"
                            "  update D minimize mean(score*score) + mean((norm(slope) - 1)^2)\n"
                            "    using sgd(0.1)\n"
                            "}\n";
static const char normed[] = "model normed\n"
                             "data x : image(3, 8, 8)\n"
                             "net D(x: [3, 8, 8]) -> [] {\n"
                             "  h = x |> conv(4, k=4, stride=2, pad=1) |> batch_norm |> relu\n"
                             "  h |> flatten |> dense(1) |> squeeze\n"
                             "}\n"
                             "step { update D minimize mean(D(x)^2) using sgd(0.1) }\n";

static Module *passed(Arena *a, const char *text, const char *until) {
    const TrialOptions o = {.name = "model.gan", .text = str_c(text), .batch = 3};
    const PassOptions pass = {.real = DtF64, .verify_each = true};
    Module *m = arena_new(a, Module);
    *m = *trial_module(a, &o);
    slots_place(m, DtF64);
    passes_run(a, m, &m->step, &pass, until);
    return m;
}

// The number of per-sample values compared with 0 (x > 0 or 0 >= x); `of`: the last one.
static uint32_t asked(const Module *m, Op *of) {
    const Graph *g = &m->step.g;
    uint32_t n = 0;
    bool *reads = arena_array(g->perm, bool, g->node.n);
    for (uint32_t id = 1; id < g->node.n; id++)
        for (uint32_t k = 0; k < graph_node(g, id)->nin; k++)
            reads[node_in(g, id, k)] = true;
    for (uint32_t id = 1; id < g->node.n; id++) {
        Op op = (Op)graph_node(g, id)->op;
        if (reads[id] && (op == OpGt || op == OpGe) && node_type(g, id)->batched) {
            n++;
            *of = (Op)graph_node(g, node_in(g, id, op == OpGe))->op;
        }
    }
    return n;
}

static void assert_same_steps(Arena *a, const char *text, bool broken) {
    const Module *m[2] = {passed(a, text, "drop_identities"), passed(a, text, "mask")};
    Oracle o[2];
    for (int i = 0; i < 2; i++) {
        oracle_init(a, m[i], &o[i]);
        for (uint32_t s = 0; broken && s < m[i]->slot.n; s++)
            if (m[i]->slot.at[s].kind == SlotData)
                o[i].slot[s][7] = NAN;
        oracle_step(a, &o[i]);
        oracle_step(a, &o[i]);
    }
    for (uint32_t s = 0; s < m[0]->slot.n; s++)
        assert_memory_equal(o[0].slot[s], o[1].slot[s],
                            (size_t)oracle_count(&o[0], s) * sizeof(double));
}

static void steps_have_the_same_bits(void **state) {
    (void)state;
    Arena a;
    assert_int_equal(arena_init(&a, 0), GAN_OK);
    assert_same_steps(&a, plain, false);
    assert_same_steps(&a, plain, true);
    assert_same_steps(&a, normed, false);
    arena_release(&a);
}

// Three activations: each has a comparison forward and one of a Where backward.
static void gradients_read_the_output_that_is_live_anyway(void **state) {
    (void)state;
    Arena a;
    Op of;
    assert_int_equal(arena_init(&a, 0), GAN_OK);
    assert_int_equal(asked(passed(&a, plain, "drop_identities"), &of), 3);
    assert_int_equal(asked(passed(&a, plain, "mask"), &of), 6);
    assert_int_equal(of, OpWhere);
    assert_int_equal(asked(passed(&a, normed, "mask"), &of), 1); // a norm's values are recomputed
    assert_int_equal(of, OpAdd);
    arena_release(&a);
}

// An activation may stand for its input only where it has its sign, and only where somebody asks
// for the sign again and no other reader keeps the input live.
static void only_signs_that_an_output_keeps_are_read_from_it(void **state) {
    (void)state;
    static const struct {
        const char *layer;
        uint32_t before, after; // comparisons with 0
    } cases[] = {
        {"h = where(h > 0, h, 0.2*h)", 1, 2},
        {"h = where(h > 0, h, -1)", 1, 2},
        {"h = where(h > 0, h, 1)", 1, 1},
        {"h = where(h > 0, h, -0.2*h)", 1, 1},
        {"h = where(h > 0, h, 0) + h", 1, 1},
        {"h = exp(h)\n  h = where(h > 0, h, 0.2*h)", 1, 1},
        {"h = stop(where(h > 0, h, 0.2*h))*h", 1, 1},
        {"h = reshape(h, 4, 36)\n  h = where(h > 0, h, 0.2*h)", 1, 1},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        Arena a;
        Op of;
        assert_int_equal(arena_init(&a, 0), GAN_OK);
        const char *text = str_format(&a,
                                      "model m\ndata x : image(3, 8, 8)\n"
                                      "net D(x: [3, 8, 8]) -> [] {\n"
                                      "  h = x |> conv(4, k=3)\n  %s\n"
                                      "  h |> flatten |> dense(1) |> squeeze\n}\n"
                                      "step { update D minimize mean(D(x)^2) using sgd(0.1) }\n",
                                      cases[i].layer)
                               .ptr;
        assert_int_equal(asked(passed(&a, text, "drop_identities"), &of), cases[i].before);
        assert_int_equal(asked(passed(&a, text, "mask"), &of), cases[i].after);
        assert_same_steps(&a, text, false);
        arena_release(&a);
    }
}

// y stored in 16 bits: only what the header of mask.c specifies. x equals y where positive.
static void sixteen_bit_masks_follow_the_stored_value(void **state) {
    (void)state;
    const float least_f16 = 0x1p-25f, least_bf16 = 0x1p-134f;
    assert_false(gan_f16_to_f32(gan_f32_to_f16(least_f16)) > 0);
    assert_true(gan_f16_to_f32(gan_f32_to_f16(nextafterf(least_f16, 1))) > 0);
    assert_false(gan_bf16_to_f32(gan_f32_to_bf16(least_bf16)) > 0);
    assert_true(gan_bf16_to_f32(gan_f32_to_bf16(nextafterf(least_bf16, 1))) > 0);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(steps_have_the_same_bits),
        cmocka_unit_test(gradients_read_the_output_that_is_live_anyway),
        cmocka_unit_test(only_signs_that_an_output_keeps_are_read_from_it),
        cmocka_unit_test(sixteen_bit_masks_follow_the_stored_value),
    };
    if (CASES_LISTED(tests))
        return 0;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
