// dnn_conv_test.c - our convolution algorithms on top of the library's products, against the
// direct sums in f64. Winograd: every tile, stride and direction, extents that are no multiple of
// a tile, one round and many. A product for each kernel element: every direction, f32 and bf16.
#include "conv_sums.h"
#include "winograd.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "cases.h"

static const ConvShape shapes[] = {
    {2, 16, 32, {9, 11}, {3, 3}, {1, 1}, {1, 1}, {1, 1}},
    {1, 32, 16, {14, 7}, {3, 3}, {1, 1}, {0, 0}, {0, 0}},
    {3, 16, 16, {5, 4}, {2, 3}, {1, 1}, {0, 2}, {1, 1}},
    {2, 16, 16, {16, 18}, {4, 4}, {2, 2}, {1, 1}, {1, 1}},
    {2, 16, 64, {13, 15}, {4, 3}, {2, 2}, {0, 1}, {2, 1}},
    {3, 64, 16, {12, 11}, {5, 5}, {2, 2}, {1, 1}, {2, 2}},
    {1, 16, 16, {10, 9}, {6, 2}, {2, 1}, {3, 0}, {2, 1}},
    {1, 32, 64, {4, 4}, {3, 3}, {1, 1}, {1, 1}, {1, 1}}, // at 0 bytes a round: in parts
};
enum { SHAPES = sizeof shapes / sizeof *shapes };

// Shapes not handled by Winograd: much of the kernel is outside the image.
static const ConvShape small_shapes[] = {
    {2, 32, 64, {4, 4}, {4, 4}, {2, 2}, {1, 1}, {1, 1}},
    {3, 64, 32, {2, 2}, {3, 3}, {1, 1}, {1, 1}, {1, 1}},
    {2, 33, 40, {3, 4}, {3, 4}, {1, 2}, {1, 1}, {1, 1}},
    {4, 48, 32, {2, 3}, {2, 2}, {1, 1}, {1, 1}, {0, 1}},
};
enum { SMALL_SHAPES = sizeof small_shapes / sizeof *small_shapes };

// Runs the algorithm on the shape. False if it does not apply.
static bool run(const ConvShape *s, DnnConvKind kind, const WinoForm form[2], size_t bytes) {
    Dnn *d;
    DnnCall call = {0};
    DnnProblem p = {.kind = kind, .conv = conv_of(s)};
    bool done = false;
    assert_int_equal(dnn_open(&d), GAN_OK);
    p.t[0] = (DnnTensor){dnn_keep_layout(d, &p.conv.src), conv_x, 0, 0};
    p.t[1] = (DnnTensor){dnn_keep_layout(d, &p.conv.weights), conv_w, 0, 0};
    p.t[2] = (DnnTensor){dnn_keep_layout(d, &p.conv.dst), conv_y, 0, 0};
    dnn_block(d, 0);
    assert_int_equal(wino_add(d, &call, &p, form, bytes, &done), dnnl_success);
    if (done) {
        assert_int_equal(dnn_ready(d), GAN_OK);
        assert_int_equal(dnn_run(d, &call), GAN_OK);
    }
    dnn_close(d);
    return done;
}

// The number of pairs that applied and were compared.
static int check(const ConvShape *s, DnnConvKind kind, size_t bytes) {
    int n = 0;
    float *out = kind == DnnConvForward ? conv_y : kind == DnnConvData ? conv_x : conv_w;
    conv_fill(DtF32);
    conv_sum(s, kind);
    for (int i = 0; i < WinoForms * WinoForms; i++) {
        WinoForm form[] = {(WinoForm)(i / WinoForms), (WinoForm)(i % WinoForms)};
        char way[40];
        snprintf(way, sizeof way, "forms %d %d", (int)form[0], (int)form[1]);
        for (int k = 0; k < CONV_MOST; k++)
            out[k] = NAN;
        if (run(s, kind, form, bytes)) {
            conv_compare(s, kind, 0, way);
            n++;
        }
    }
    return n;
}

static void check_all(DnnConvKind kind) {
    for (int i = 0; i < SHAPES; i++) {
        int n = check(&shapes[i], kind, (size_t)1 << 24);
        assert_int_equal(check(&shapes[i], kind, 0), n);
        assert_true(n >= 2);
    }
}

static void forward_is_the_direct_sum(void **state) {
    (void)state;
    check_all(DnnConvForward);
}

static void input_gradients_are_the_direct_sums(void **state) {
    (void)state;
    check_all(DnnConvData);
}

static void weight_gradients_are_the_direct_sums(void **state) {
    (void)state;
    check_all(DnnConvWeights);
}

static void check_taps(Dtype type, double rounding) {
    for (int i = 0; i < SMALL_SHAPES * 3; i++) {
        const ConvShape *s = &small_shapes[i / 3];
        DnnConvKind kind = (DnnConvKind)(i % 3);
        conv_fill(type);
        conv_sum(s, kind);
        assert_true(conv_run(dnn_taps, s, kind, type));
        conv_compare(s, kind, kind == DnnConvWeights ? 0 : rounding, dtype_name[type]);
    }
}

static void a_product_for_each_element_is_the_direct_sum(void **state) {
    (void)state;
    check_taps(DtF32, 0);
}

static void a_product_for_each_element_is_right_in_bf16(void **state) {
    (void)state;
    if (dnn_vector_level() < 4)
        skip(); // such CPUs multiply bf16 in hardware, and the library does it
    check_taps(DtBF16, 1.0 / 256);
}

static void check_threads(DnnConvKind kind, bool by_taps) {
    static float one[CONV_MOST];
    static const WinoForm form[] = {WinoF43, WinoF23};
    int64_t n;
    for (int threads = 1; threads <= 3; threads++) {
        conv_threads(threads);
        conv_fill(DtF32);
        assert_true(by_taps ? conv_run(dnn_taps, &small_shapes[0], kind, DtF32)
                            : run(&shapes[5], kind, form, 0));
        const float *got = conv_result(by_taps ? &small_shapes[0] : &shapes[5], kind, &n);
        if (threads == 1)
            memcpy(one, got, (size_t)n * sizeof *got);
        assert_memory_equal(one, got, (size_t)n * sizeof *got);
    }
}

static void results_do_not_depend_on_the_number_of_threads(void **state) {
    (void)state;
    for (int i = 0; i < 6; i++)
        check_threads((DnnConvKind)(i / 2), i % 2);
}

static void kernels_inside_the_image_are_not_taken(void **state) {
    (void)state;
    ConvShape s = small_shapes[0];
    s.x[0] = s.x[1] = 8;
    assert_false(conv_run(dnn_taps, &s, DnnConvForward, DtF32));
    s = small_shapes[1];
    s.x[0] = s.x[1] = 1; // some kernel elements never overlap the input
    assert_false(conv_run(dnn_taps, &s, DnnConvWeights, DtF32));
}

static void unsupported_shapes_are_not_taken(void **state) {
    (void)state;
    static const WinoForm form[] = {WinoF43, WinoF43};
    ConvShape s = shapes[0];
    assert_true(run(&s, DnnConvForward, form, 0));
    s.c = 24; // not a multiple of the vector length
    assert_false(run(&s, DnnConvForward, form, 0));
    s = shapes[0];
    s.s[0] = 3;
    assert_false(run(&s, DnnConvForward, form, 0));
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(forward_is_the_direct_sum),
        cmocka_unit_test(input_gradients_are_the_direct_sums),
        cmocka_unit_test(weight_gradients_are_the_direct_sums),
        cmocka_unit_test(results_do_not_depend_on_the_number_of_threads),
        cmocka_unit_test(unsupported_shapes_are_not_taken),
        cmocka_unit_test(a_product_for_each_element_is_the_direct_sum),
        cmocka_unit_test(a_product_for_each_element_is_right_in_bf16),
        cmocka_unit_test(kernels_inside_the_image_are_not_taken),
    };
    if (CASES_LISTED(tests))
        return 0;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
