// pad_channels_test.c - convolutions with channels of zeros: the same values, where it pays, and
// without moves between them.
#include "pass_cases.h"
#include "programs.h"

#include <setjmp.h>
#include <cmocka.h>
#include "cases.h"

static const PassOptions small = {
    .real = DtF32, .pack_channels = true, .small_products = true, .verify_each = true};

static const char images[] = "model images\n"
                             "data x : image(3, 8, 8) scale(-1, 1)\n"
                             "net G(z: [5]) -> [3, 8, 8] {\n"
                             "  h = z |> dense(7*8*8) |> reshape(7, 8, 8) |> batch_norm |> relu\n"
                             "  h |> conv_transpose(3, k=3, pad=1) |> tanh\n"
                             "}\n"
                             "net D(x: [3, 8, 8]) -> [] {\n"
                             "  h = x |> conv(6, k=3, pad=1) |> leaky_relu(0.2)\n"
                             "  h |> conv(1, k=8) |> squeeze\n"
                             "}\n" PASS_STEP;

// Channels of all ungrouped convolutions are packs; returns how many there are.
static uint32_t assert_packed(const Func *f, int64_t pack) {
    uint32_t n = 0;
    for (uint32_t id = 1; id < f->g.node.n; id++) {
        if (!pass_is_conv(&f->g, id) || conv_geom(node_attr(&f->g, id)).groups > 1)
            continue;
        uint32_t weight = graph_node(&f->g, id)->op == OpConvDw ? id : node_in(&f->g, id, 1);
        const Type *w = node_type(&f->g, weight);
        assert_int_equal(w->dim[0] % pack, 0);
        assert_int_equal(w->dim[1] % pack, 0);
        n++;
    }
    return n;
}

static uint32_t packed_convolutions(const Func *before, const Func *after) {
    (void)before;
    return assert_packed(after, 4);
}

static uint32_t has_grown(const Func *before, const Func *after) {
    return after->g.node.n != before->g.node.n;
}

static void every_convolution_has_the_same_values(void **state) {
    (void)state;
    assert_true(pass_programs(150, program_random_conv, pass_pad_channels, &small,
                              packed_convolutions) > 150);
}

static void every_product_of_matrices_has_the_same_values(void **state) {
    (void)state;
    assert_true(pass_programs(500, program_random_dot, pass_pad_channels, &small, has_grown) > 15);
}

static void steps_have_the_same_values(void **state) {
    (void)state;
    Arena a;
    assert_int_equal(arena_init(&a, 0), GAN_OK);
    const Module *after = pass_model(&a, images, NULL, 3, &small, "pad_channels");
    pass_assert_same(&a, pass_model(&a, images, NULL, 3, &small, "dtype"), after);
    assert_true(assert_packed(&after->step, 4) > 8);
    arena_release(&a);
}

// The gradient of a square root divides by it: zero by zero in the added channels.
static void a_quotient_of_zeros_is_no_zero(void **state) {
    (void)state;
    static const char text[] = "model m\n"
                               "data x : image(3, 8, 8) scale(-1, 1)\n"
                               "net D(x: [3, 8, 8]) -> [] {\n"
                               "  h = x |> conv(6, k=3, pad=1) |> conv(3, k=3, pad=1)\n"
                               "  sqrt(h^2 + abs(h)) |> conv(5, k=3) |> mean(sample)\n"
                               "}\n"
                               "step { update D minimize mean(D(x)^2) using sgd(0.1) }\n";
    Arena a;
    assert_int_equal(arena_init(&a, 0), GAN_OK);
    pass_assert_same(&a, pass_model(&a, text, NULL, 3, &small, "dtype"),
                     pass_model(&a, text, NULL, 3, &small, "pad_channels"));
    arena_release(&a);
}

static void halves_are_in_packs_of_eight(void **state) {
    (void)state;
    Arena a;
    PassOptions o = small;
    assert_int_equal(arena_init(&a, 0), GAN_OK);
    o.real = DtBF16;
    assert_true(assert_packed(&pass_model(&a, images, NULL, 3, &o, "pad_channels")->step, 8) > 8);
    arena_release(&a);
}

// The generator's last convolution has eight channels, and so have its bias, its activation and
// their gradients: all of them elementwise loops without bounds.
static void values_between_convolutions_keep_their_channels(void **state) {
    (void)state;
    Arena a;
    uint32_t tanh = 0;
    assert_int_equal(arena_init(&a, 0), GAN_OK);
    const Module *m = pass_model(&a, images, NULL, 3, &small, NULL);
    const Graph *g = &m->step.g;
    const uint8_t *live = func_live(&a, &m->step);
    for (uint32_t id = 1; id < g->node.n; id++)
        if (live[id] && graph_node(g, id)->op == OpTanh) {
            assert_int_equal(node_type(g, id)->dim[0], 8);
            tanh++;
        }
    assert_true(tanh > 0);
    arena_release(&a);
}

static uint32_t padded(const char *layer, int64_t batch, const PassOptions *o) {
    Arena a;
    uint32_t n = 0;
    assert_int_equal(arena_init(&a, 0), GAN_OK);
    const char *text =
        str_format(&a,
                   "model m\ndata x : image(3, 64, 64) scale(-1, 1)\n"
                   "net D(x: [3, 64, 64]) -> [] { x |> %s |> relu |> mean(sample) }\n"
                   "step { update D minimize mean(D(x)^2) using sgd(0.1) }\n",
                   layer)
            .ptr;
    const Module *m = pass_model(&a, text, NULL, batch, o, NULL);
    for (uint32_t id = 1; id < m->step.g.node.n; id++)
        n += pass_is_conv(&m->step.g, id) && graph_node(&m->step.g, id)->op == OpConv &&
             node_type(&m->step.g, node_in(&m->step.g, id, 0))->dim[0] == 8;
    arena_release(&a);
    return n;
}

static void only_what_pays_is_padded(void **state) {
    (void)state;
    const PassOptions card = {.real = DtF32, .pack_channels = true}, cores = {.real = DtF32},
                      doubles = {.real = DtF64, .pack_channels = true};
    static const char layer[] = "conv(64, k=3, pad=1)";
    assert_int_equal(padded(layer, 32, &card), 1);
    assert_int_equal(padded(layer, 32, &cores), 0);
    assert_int_equal(padded(layer, 32, &doubles), 0);
    assert_int_equal(padded(layer, 1, &card), 0);           // its time is that of launches
    assert_int_equal(padded("conv(8, k=1)", 32, &card), 0); // little arithmetic for its bytes
    assert_int_equal(padded("conv(63, k=3, pad=1, groups=3)", 32, &card), 0);
}

// Rows of 10,001: weights in bf16 are casts, which can be made in packs; those in f32 would be
// copied in every step, all but their gradient, whose operands are activations.
static void matrices_are_padded_where_no_copy_is_made(void **state) {
    (void)state;
    static const char text[] =
        "model m\n"
        "net G(z: [1024]) -> [10001] { z |> dense(10001, bias=none) |> tanh }\n"
        "step { update G minimize mean(G(normal(1024))^2) using sgd(0.1) }\n";
    static const Dtype real[] = {DtF32, DtBF16};
    for (int i = 0; i < 2; i++) {
        Arena a;
        uint32_t packs = 0;
        const PassOptions card = {.real = real[i], .pack_channels = true, .half_grads = true};
        assert_int_equal(arena_init(&a, 0), GAN_OK);
        const Graph *g = &pass_model(&a, text, NULL, 32, &card, NULL)->step.g;
        for (uint32_t id = 1; id < g->node.n; id++)
            for (uint32_t k = 0; graph_node(g, id)->op == OpDot && k < 3; k++) {
                const Type *t = node_type(g, k < 2 ? node_in(g, id, k) : id);
                packs += t->rank == 2 && (t->dim[0] == 10008 || t->dim[1] == 10008 ||
                                          t->dim[0] == 10004 || t->dim[1] == 10004);
            }
        assert_int_equal(packs, i ? 2 : 1); // the result of the weight gradient; the weights
        arena_release(&a);
    }
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_convolution_has_the_same_values),
        cmocka_unit_test(every_product_of_matrices_has_the_same_values),
        cmocka_unit_test(steps_have_the_same_values),
        cmocka_unit_test(matrices_are_padded_where_no_copy_is_made),
        cmocka_unit_test(a_quotient_of_zeros_is_no_zero),
        cmocka_unit_test(halves_are_in_packs_of_eight),
        cmocka_unit_test(values_between_convolutions_keep_their_channels),
        cmocka_unit_test(only_what_pays_is_padded),
    };
    if (CASES_LISTED(tests))
        return 0;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
