// dnn_tiles_test.c - convolutions in bf16 as products on a matrix unit, against the direct sums in
// f64: every direction, over lines and parts of them. A second program has matrix_unit.h for a
// unit.
#include "conv_sums.h"
#include "tiles.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>
#include "cases.h"

// For a matrix unit, and which directions are taken. Channels of x and y, lines that tiles follow
// and that they do not, more terms and rows than are multiplied at once.
static const struct {
    ConvShape s;
    bool taken[3]; // forward, input gradient, weights' gradient
} unit_shapes[] = {
    {{3, 32, 64, {8, 6}, {3, 3}, {1, 1}, {1, 0}, {1, 2}}, {true, true, true}},
    {{1, 64, 96, {34, 35}, {4, 4}, {2, 2}, {1, 1}, {1, 2}}, {false, true, true}},
    {{2, 64, 64, {7, 66}, {5, 5}, {2, 2}, {2, 2}, {2, 2}}, {false, true, true}},
    {{2, 32, 40, {5, 7}, {2, 3}, {1, 2}, {0, 3}, {1, 0}}, {true, false, true}},
    {{2, 24, 32, {6, 5}, {3, 3}, {1, 1}, {1, 1}, {1, 1}}, {false, true, false}},
    {{2, 128, 18, {5, 4}, {3, 4}, {1, 1}, {1, 2}, {1, 2}}, {true, false, true}},
    {{1, 32, 128, {66, 66}, {2, 2}, {2, 2}, {0, 0}, {0, 0}}, {false, true, true}},
    {{1, 32, 32, {40, 40}, {3, 3}, {1, 1}, {1, 1}, {1, 1}}, {false, false, false}},
};
enum { UNIT_SHAPES = sizeof unit_shapes / sizeof *unit_shapes };

// Has the library (3.x) products for the weights' gradient, which are faster over wide lines?
static bool library_multiplies(const ConvShape *s) {
    Dnn *d;
    DnnConv c = conv_of(s);
    c.src.type = c.dst.type = DtBF16;
    assert_int_equal(dnn_open(&d), GAN_OK);
    bool has = strstr(dnn_library_name(d, DnnConvWeights, &c), "brgconv_bwd_w");
    dnn_close(d);
    return has;
}

// On one thread and on three: to the same bits.
static void check_unit(const ConvShape *s, DnnConvKind kind, bool taken) {
    static float one[CONV_MOST];
    int64_t n;
    for (int threads = 1; threads <= 3; threads += 2) {
        conv_threads(threads);
        conv_fill(DtBF16);
        conv_sum(s, kind);
        bool done = conv_run(dnn_tiles, s, kind, DtBF16);
        assert_true(done == taken || (kind == DnnConvWeights && library_multiplies(s)));
        if (!done)
            return;
        conv_compare(s, kind, kind == DnnConvWeights ? 0 : 1.0 / 256, "tiles");
        const float *got = conv_result(s, kind, &n);
        if (threads == 1)
            memcpy(one, got, (size_t)n * sizeof *got);
        assert_memory_equal(one, got, (size_t)n * sizeof *got);
    }
}

static void products_on_a_matrix_unit_are_the_direct_sums(void **state) {
    (void)state;
    if (!tiles_run())
        skip();
    for (int i = 0; i < UNIT_SHAPES * 3; i++)
        check_unit(&unit_shapes[i / 3].s, (DnnConvKind)(i % 3), unit_shapes[i / 3].taken[i % 3]);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(products_on_a_matrix_unit_are_the_direct_sums),
    };
    if (CASES_LISTED(tests))
        return 0;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
