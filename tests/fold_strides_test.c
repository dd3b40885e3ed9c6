// fold_strides_test.c - convolutions whose strides became channels: the same values, where it pays,
// and without moves between them.
#include "pass_cases.h"
#include "programs.h"

#include <setjmp.h>
#include <cmocka.h>
#include "cases.h"

static const PassOptions small = {
    .real = DtF32, .pack_channels = true, .small_products = true, .verify_each = true};

// A generator's last layer and a critic's first.
static const char images[] = "model images\n"
                             "config k = 4\n"
                             "config pad = 1\n"
                             "config size = 8\n"
                             "data x : image(3, size, size) scale(-1, 1)\n"
                             "net G(z: [5]) -> [3, size, size] {\n"
                             "  h = z |> dense(7*4*4) |> reshape(7, 4, 4) |> batch_norm |> relu\n"
                             "  h |> conv_transpose(3, k=k, stride=2, pad=pad) |> tanh\n"
                             "}\n"
                             "net D(x: [3, size, size]) -> [] {\n"
                             "  h = x |> conv(6, k=k, stride=2, pad=pad) |> leaky_relu(0.2)\n"
                             "  h |> conv(1, k=4) |> squeeze\n"
                             "}\n" PASS_STEP;

// With values of pixels or of rows alone, which all channels and samples share, between them.
static const char weighted[] =
    "model weighted\n"
    "data x : image(3, 8, 8) scale(-1, 1)\n"
    "fn w(c, h, w) = reshape(sin(arange(c*h*w)), c, h, w)\n"
    "net G(z: [5]) -> [3, 8, 8] {\n"
    "  h = z |> dense(7*4*4) |> reshape(7, 4, 4) |> batch_norm |> relu\n"
    "  h = h |> conv_transpose(3, k=4, stride=2, pad=1)\n"
    "  tanh(h*w(1, 8, 8) + w(3, 8, 1)) |> clamp(-0.5, w(3, 1, 8))\n"
    "}\n"
    "net D(x: [3, 8, 8]) -> [] {\n"
    "  h = x*w(1, 8, 1) |> conv(6, k=4, stride=2, pad=1) |> leaky_relu(0.2)\n"
    "  h |> conv(1, k=4) |> squeeze\n"
    "}\n" PASS_STEP;

static uint32_t strided(const Func *f) {
    uint32_t n = 0;
    for (uint32_t id = 1; id < f->g.node.n; id++) {
        bool any = false;
        ConvGeom c = pass_is_conv(&f->g, id) ? conv_geom(node_attr(&f->g, id)) : (ConvGeom){0};
        for (uint32_t i = 0; i < c.n; i++)
            any |= c.stride[i] > 1;
        n += any;
    }
    return n;
}

static uint32_t folded(const Func *before, const Func *after) {
    return strided(before) - strided(after);
}

static void every_convolution_has_the_same_values(void **state) {
    (void)state;
    assert_true(pass_programs(250, program_random_conv, pass_fold_strides, &small, folded) > 250);
}

// Kernels of even and of odd extent; pixels that pair up with the border's, and not.
static void steps_have_the_same_values(void **state) {
    (void)state;
    static const char *const set[] = {NULL, "k=5 pad=2 size=7", "k=3 pad=1 size=7", "k=2 pad=0",
                                      "k=6 pad=2"};
    enum { Sets = sizeof set / sizeof *set };
    for (size_t i = 0; i < Sets + 1; i++) {
        Arena a;
        const char *text = i < Sets ? images : weighted, *with = i < Sets ? set[i] : NULL;
        assert_int_equal(arena_init(&a, 0), GAN_OK);
        const Module *before = pass_model(&a, text, with, 3, &small, "dtype"),
                     *after = pass_model(&a, text, with, 3, &small, "fold_strides");
        assert_true(strided(&before->step) > 8);
        assert_int_equal(strided(&after->step), 0);
        pass_assert_same(&a, before, after);
        pass_assert_same(&a, before, pass_model(&a, text, with, 3, &small, "pad_channels"));
        arena_release(&a);
    }
}

// All that is computed of a generator's images has the channels of the convolutions around it, also
// where they are padded: three channels of four pixels are twelve, in bf16 sixteen.
static void values_between_convolutions_are_folded(void **state) {
    (void)state;
    for (int half = 0; half < 2; half++) {
        Arena a;
        PassOptions o = small;
        uint32_t tanh = 0;
        assert_int_equal(arena_init(&a, 0), GAN_OK);
        o.real = half ? DtBF16 : DtF32;
        const Module *m = pass_model(&a, images, NULL, 3, &o, NULL);
        const Graph *g = &m->step.g;
        const uint8_t *live = func_live(&a, &m->step);
        for (uint32_t id = 1; id < g->node.n; id++)
            if (live[id] && graph_node(g, id)->op == OpTanh) {
                assert_int_equal(node_type(g, id)->dim[0], half ? 16 : 12);
                tanh++;
            }
        assert_true(tanh > 0);
        arena_release(&a);
    }
}

static uint32_t strided_in(const char *data, const char *layer, int64_t batch,
                           const PassOptions *o) {
    Arena a;
    assert_int_equal(arena_init(&a, 0), GAN_OK);
    const char *text = str_format(&a,
                                  "model m\ndata x : image(%s) scale(-1, 1)\n"
                                  "net D(x: [%s]) -> [] { x |> %s |> relu |> mean(sample) }\n"
                                  "step { update D minimize mean(D(x)^2) using sgd(0.1) }\n",
                                  data, data, layer)
                           .ptr;
    uint32_t n = strided(&pass_model(&a, text, NULL, batch, o, NULL)->step);
    arena_release(&a);
    return n;
}

static void only_what_pays_is_folded(void **state) {
    (void)state;
    const PassOptions card = {.real = DtF32, .pack_channels = true}, cores = {.real = DtF32},
                      doubles = {.real = DtF64, .pack_channels = true};
    static const char image[] = "3, 64, 64", layer[] = "conv(64, k=4, stride=2, pad=1)";
    assert_int_equal(strided_in(image, layer, 32, &card), 0); // forward, weight gradient
    assert_int_equal(strided_in(image, layer, 32, &cores), 2);
    assert_int_equal(strided_in(image, layer, 32, &doubles), 2);
    assert_int_equal(strided_in(image, layer, 1, &card), 2);         // its time is that of launches
    assert_int_equal(strided_in("64, 64, 64", layer, 32, &card), 2); // fills a tile as it is
    assert_int_equal(strided_in(image, "conv(63, k=4, stride=2, pad=1, groups=3)", 32, &card), 2);
    assert_int_equal(strided_in(image, "conv(64, k=4, stride=2, dilation=2)", 32, &card), 2);
    assert_int_equal(strided_in(image, "conv(64, k=1, stride=2)", 32, &card), 2); // one tap
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_convolution_has_the_same_values),
        cmocka_unit_test(steps_have_the_same_values),
        cmocka_unit_test(values_between_convolutions_are_folded),
        cmocka_unit_test(only_what_pays_is_folded),
    };
    if (CASES_LISTED(tests))
        return 0;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
