// dnn_conv_test.c - our convolution algorithms on top of the library's products, against the
// direct sums in f64. Winograd: every tile, stride and direction, extents that are no multiple of
// a tile, one round and many. A product for each kernel element: every direction, f32 and bf16.
// Products on a matrix unit: every direction, over lines and parts of them.
#include "tiles.h"
#include "winograd.h"

#include "prelude.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "cases.h"
#ifdef _OPENMP
#include <omp.h>
#endif

typedef struct Shape {
    int64_t n, c, o, x[2], k[2], s[2], before[2], after[2];
} Shape;

static const Shape shapes[] = {
    {2, 16, 32, {9, 11}, {3, 3}, {1, 1}, {1, 1}, {1, 1}},
    {1, 32, 16, {14, 7}, {3, 3}, {1, 1}, {0, 0}, {0, 0}},
    {3, 16, 16, {5, 4}, {2, 3}, {1, 1}, {0, 2}, {1, 1}},
    {2, 16, 16, {16, 18}, {4, 4}, {2, 2}, {1, 1}, {1, 1}},
    {2, 16, 64, {13, 15}, {4, 3}, {2, 2}, {0, 1}, {2, 1}},
    {3, 64, 16, {12, 11}, {5, 5}, {2, 2}, {1, 1}, {2, 2}},
    {1, 16, 16, {10, 9}, {6, 2}, {2, 1}, {3, 0}, {2, 1}},
    {1, 32, 64, {4, 4}, {3, 3}, {1, 1}, {1, 1}, {1, 1}}, // at 0 bytes a round: in parts
};
enum { SHAPES = sizeof shapes / sizeof *shapes, PIXELS = 140000 };

// Shapes not handled by Winograd: much of the kernel is outside the image.
static const Shape small_shapes[] = {
    {2, 32, 64, {4, 4}, {4, 4}, {2, 2}, {1, 1}, {1, 1}},
    {3, 64, 32, {2, 2}, {3, 3}, {1, 1}, {1, 1}, {1, 1}},
    {2, 33, 40, {3, 4}, {3, 4}, {1, 2}, {1, 1}, {1, 1}},
    {4, 48, 32, {2, 3}, {2, 2}, {1, 1}, {1, 1}, {0, 1}},
};
enum { SMALL_SHAPES = sizeof small_shapes / sizeof *small_shapes };

// For a matrix unit, and which directions are taken. Channels of x and y, lines that tiles follow
// and that they do not, more terms and rows than are multiplied at once.
static const struct {
    Shape s;
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

static float x[PIXELS], w[PIXELS], y[PIXELS];
static uint16_t x_half[PIXELS], w_half[PIXELS], y_half[PIXELS]; // the same in bf16
static double want[PIXELS], size[PIXELS]; // the sum, and the sum of its terms' magnitudes

static int64_t made(const Shape *s, int i) {
    return (s->x[i] + s->before[i] + s->after[i] - s->k[i]) / s->s[i] + 1;
}

static void fill(float *at, uint64_t seed) {
    for (int i = 0; i < PIXELS; i++) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        at[i] = (float)(seed >> 40) / (1 << 23) - 1;
    }
}

static DnnShape picture(int64_t n, int64_t c, int64_t a, int64_t b) {
    return (DnnShape){
        .n = 4, .dim = {n, c, a, b}, .stride = {a * b * c, 1, b * c, c}, .type = DtF32};
}

static DnnConv conv_of(const Shape *s) {
    DnnConv c = {.src = picture(s->n, s->c, s->x[0], s->x[1]),
                 .weights = {.n = 4, .dim = {s->o, s->c, s->k[0], s->k[1]}, .type = DtF32},
                 .dst = picture(s->n, s->o, made(s, 0), made(s, 1))};
    dnn_channels_last(&c.weights);
    for (int i = 0; i < 2; i++) {
        c.stride[i] = s->s[i];
        c.before[i] = s->before[i];
        c.after[i] = s->after[i];
    }
    return c;
}

// Adds all products of one pixel of y and one kernel element to want[].
static void add_products(const Shape *s, DnnConvKind kind, int64_t at_x, int64_t at_y, int64_t t) {
    int64_t kernel = s->k[0] * s->k[1];
    for (int64_t o = 0; o < s->o; o++)
        for (int64_t c = 0; c < s->c; c++) {
            int64_t i = at_x * s->c + c, j = (o * kernel + t) * s->c + c, k = at_y * s->o + o;
            double a = kind == DnnConvData ? y[k] : x[i], b = kind == DnnConvWeights ? y[k] : w[j];
            int64_t to = kind == DnnConvForward ? k : kind == DnnConvData ? i : j;
            want[to] += a * b;
            size[to] += fabs(a * b);
        }
}

static void sum_directly(const Shape *s, DnnConvKind kind) {
    memset(want, 0, sizeof want);
    memset(size, 0, sizeof size);
    int64_t h = made(s, 0), v = made(s, 1), kernel = s->k[0] * s->k[1];
    for (int64_t i = 0; i < s->n * h * v * kernel; i++) {
        int64_t t = i % kernel, pixel = i / kernel, n = pixel / v / h;
        int64_t a = pixel / v % h * s->s[0] - s->before[0] + t / s->k[1];
        int64_t b = pixel % v * s->s[1] - s->before[1] + t % s->k[1];
        if (a >= 0 && a < s->x[0] && b >= 0 && b < s->x[1])
            add_products(s, kind, (n * s->x[0] + a) * s->x[1] + b, pixel, t);
    }
}

// Runs the algorithm on the shape. False if it does not apply.
static bool run(const Shape *s, DnnConvKind kind, const WinoForm form[2], size_t bytes) {
    Dnn *d;
    DnnCall call = {0};
    DnnProblem p = {.kind = kind, .conv = conv_of(s)};
    bool done = false;
    assert_int_equal(dnn_open(&d), GAN_OK);
    p.t[0] = (DnnTensor){dnn_keep_layout(d, &p.conv.src), x, 0, 0};
    p.t[1] = (DnnTensor){dnn_keep_layout(d, &p.conv.weights), w, 0, 0};
    p.t[2] = (DnnTensor){dnn_keep_layout(d, &p.conv.dst), y, 0, 0};
    dnn_block(d, 0);
    assert_int_equal(wino_add(d, &call, &p, form, bytes, &done), dnnl_success);
    if (done) {
        assert_int_equal(dnn_ready(d), GAN_OK);
        assert_int_equal(dnn_run(d, &call), GAN_OK);
    }
    dnn_close(d);
    return done;
}

static const float *result(const Shape *s, DnnConvKind kind, int64_t *n) {
    switch (kind) {
    case DnnConvForward:
        *n = s->n * made(s, 0) * made(s, 1) * s->o;
        return y;
    case DnnConvData:
        *n = s->n * s->x[0] * s->x[1] * s->c;
        return x;
    case DnnConvWeights:
        *n = s->o * s->c * s->k[0] * s->k[1];
        return w;
    }
    return NULL;
}

static void compare(const Shape *s, DnnConvKind kind, double rounding, const char *way) {
    int64_t n;
    const float *got = result(s, kind, &n);
    for (int64_t i = 0; i < n; i++)
        if (!(fabs(got[i] - want[i]) <= 2e-6 * size[i] + rounding * fabs(want[i]) + 1e-5))
            fail_msg("%lld x %lld, stride %lld, kind %d, %s, element %lld: %g, not %g",
                     (long long)s->x[0], (long long)s->x[1], (long long)s->s[0], (int)kind, way,
                     (long long)i, (double)got[i], want[i]);
}

// The number of pairs that applied and were compared.
static int check(const Shape *s, DnnConvKind kind, size_t bytes) {
    int n = 0;
    float *out = kind == DnnConvForward ? y : kind == DnnConvData ? x : w;
    fill(x, 1), fill(w, 2), fill(y, 3);
    sum_directly(s, kind);
    for (int i = 0; i < WinoForms * WinoForms; i++) {
        WinoForm form[] = {(WinoForm)(i / WinoForms), (WinoForm)(i % WinoForms)};
        char way[40];
        snprintf(way, sizeof way, "forms %d %d", (int)form[0], (int)form[1]);
        for (int k = 0; k < PIXELS; k++)
            out[k] = NAN;
        if (run(s, kind, form, bytes)) {
            compare(s, kind, 0, way);
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

static void widen(const uint16_t *half, float *at) {
    for (int i = 0; i < PIXELS; i++)
        at[i] = gan_bf16_to_f32(half[i]);
}

// Rounds elements to bf16, so that both types hold the same values.
static void halve(float *at, uint16_t *half) {
    floats_to_bf16(at, half, PIXELS);
    widen(half, at);
}

// False if the method does not take the shape.
static bool run_method(DnnMethod *method, const Shape *s, DnnConvKind kind, Dtype type) {
    Dnn *d;
    DnnCall call = {0};
    DnnProblem p = {kind, conv_of(s), .weights = 1};
    DnnConv *c = &p.conv;
    bool done = false, halves = type == DtBF16;
    c->src.type = c->dst.type = type;
    c->weights.type = kind == DnnConvWeights ? DtF32 : type; // their gradients stay f32
    assert_int_equal(dnn_open(&d), GAN_OK);
    void *weights = halves && kind != DnnConvWeights ? (void *)w_half : (void *)w;
    p.t[0] = (DnnTensor){dnn_keep_layout(d, &c->src), halves ? (void *)x_half : (void *)x, 0, 0};
    p.t[1] = (DnnTensor){dnn_keep_layout(d, &c->weights), weights, 0, 0};
    p.t[2] = (DnnTensor){dnn_keep_layout(d, &c->dst), halves ? (void *)y_half : (void *)y, 0, 0};
    dnn_block(d, 0);
    assert_int_equal(method(d, &call, &p, &done), dnnl_success);
    if (done) {
        assert_int_equal(dnn_ready(d), GAN_OK);
        assert_int_equal(dnn_run(d, &call), GAN_OK);
    }
    if (halves && kind == DnnConvForward)
        widen(y_half, y);
    if (halves && kind == DnnConvData)
        widen(x_half, x);
    dnn_close(d);
    return done;
}

static void check_taps(Dtype type, double rounding) {
    for (int i = 0; i < SMALL_SHAPES * 3; i++) {
        const Shape *s = &small_shapes[i / 3];
        DnnConvKind kind = (DnnConvKind)(i % 3);
        fill(x, 1), fill(w, 2), fill(y, 3);
        if (type == DtBF16)
            halve(x, x_half), halve(w, w_half), halve(y, y_half);
        sum_directly(s, kind);
        assert_true(run_method(dnn_taps, s, kind, type));
        compare(s, kind, kind == DnnConvWeights ? 0 : rounding, dtype_name[type]);
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

static bool has_unit(void) {
    return dnn_has_matrix_unit() && tiles_run();
}

static void set_threads(int n) {
#ifdef _OPENMP
    omp_set_num_threads(n);
#else
    (void)n;
#endif
}

// Has the library (3.x) products for the weights' gradient, which are faster over wide lines?
static bool library_multiplies(const Shape *s) {
    Dnn *d;
    DnnConv c = conv_of(s);
    c.src.type = c.dst.type = DtBF16;
    assert_int_equal(dnn_open(&d), GAN_OK);
    bool has = strstr(dnn_library_name(d, DnnConvWeights, &c), "brgconv_bwd_w");
    dnn_close(d);
    return has;
}

// On one thread and on three: to the same bits.
static void check_unit(const Shape *s, DnnConvKind kind, bool taken) {
    static float one[PIXELS];
    int64_t n;
    for (int threads = 1; threads <= 3; threads += 2) {
        set_threads(threads);
        fill(x, 1), fill(w, 2), fill(y, 3);
        halve(x, x_half), halve(w, w_half), halve(y, y_half);
        sum_directly(s, kind);
        bool done = run_method(dnn_tiles, s, kind, DtBF16);
        assert_true(done == taken || (kind == DnnConvWeights && library_multiplies(s)));
        if (!done)
            return;
        compare(s, kind, kind == DnnConvWeights ? 0 : 1.0 / 256, "tiles");
        const float *got = result(s, kind, &n);
        if (threads == 1)
            memcpy(one, got, (size_t)n * sizeof *got);
        assert_memory_equal(one, got, (size_t)n * sizeof *got);
    }
}

static void products_on_a_matrix_unit_are_the_direct_sums(void **state) {
    (void)state;
    if (!has_unit())
        skip();
    for (int i = 0; i < UNIT_SHAPES * 3; i++)
        check_unit(&unit_shapes[i / 3].s, (DnnConvKind)(i % 3), unit_shapes[i / 3].taken[i % 3]);
}

static void check_threads(DnnConvKind kind, bool by_taps) {
    static float one[PIXELS];
    static const WinoForm form[] = {WinoF43, WinoF23};
    int64_t n;
    for (int threads = 1; threads <= 3; threads++) {
        set_threads(threads);
        fill(x, 1), fill(w, 2), fill(y, 3);
        assert_true(by_taps ? run_method(dnn_taps, &small_shapes[0], kind, DtF32)
                            : run(&shapes[5], kind, form, 0));
        const float *got = result(by_taps ? &small_shapes[0] : &shapes[5], kind, &n);
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
    Shape s = small_shapes[0];
    s.x[0] = s.x[1] = 8;
    assert_false(run_method(dnn_taps, &s, DnnConvForward, DtF32));
    s = small_shapes[1];
    s.x[0] = s.x[1] = 1; // some kernel elements never overlap the input
    assert_false(run_method(dnn_taps, &s, DnnConvWeights, DtF32));
}

static void unsupported_shapes_are_not_taken(void **state) {
    (void)state;
    static const WinoForm form[] = {WinoF43, WinoF43};
    Shape s = shapes[0];
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
        cmocka_unit_test(products_on_a_matrix_unit_are_the_direct_sums),
    };
    if (CASES_LISTED(tests))
        return 0;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
