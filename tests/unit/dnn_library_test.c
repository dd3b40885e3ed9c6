// dnn_library_test.c - the library's own convolutions, where we rely on them, against the direct
// sums in f64: random small shapes, where its versions have had bugs (dnn_api.c), of every
// direction, one to three axes, f32 and bf16; and long lines. Elements are eighths, so f32 sums are
// exact. And its products while signals arrive.
#define _GNU_SOURCE
#include "device.h"
#include "dnn.h"
#include "prelude.h"
#include "process.h"

#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>
#include "cases.h"

enum {
    SHAPES = 400,
    ELEMENTS = 80000,
    PRODUCTS = 400000,
    LINES = 40,
    LINE = 1024, // pixels, from where on dnn_api.c chooses the direct convolution
    LINE_PRODUCTS = 8000000
};
enum { SideX, SideW, SideY, Sides };

typedef struct Values { // of one tensor, row-major
    float x[ELEMENTS];
    uint16_t half[ELEMENTS];
    double want[ELEMENTS];
} Values;

static Values value[Sides];
static uint64_t state;

static int64_t below(int64_t n) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (int64_t)((state >> 33) % (uint64_t)n);
}

// Extents of the last axis at the end, as dnn_axes gives them; most are small, some strides large.
static DnnAxis random_axis(int64_t *after) {
    DnnAxis a = {.x = 1 + below(below(3) ? 6 : 20),
                 .k = 1 + below(below(2) ? 4 : 9),
                 .s = 1 + below(below(2) ? 2 : 8),
                 .d = 1 + !below(5)};
    int64_t reach = (a.k - 1) * a.d + 1, most = below(a.k);
    a.p = below(a.k);
    if (a.x + a.p + most < reach)
        a.p = reach - a.x; // at least one output position
    a.y = (a.x + a.p + most - reach) / a.s + 1;
    *after = (a.y - 1) * a.s + reach - a.x - a.p;
    return a;
}

// One axis of a line: as wide paddings and dilations as vocoders have.
static DnnAxis random_line(int64_t *after) {
    DnnAxis a = {.k = 1 + below(8), .s = 1 + !below(3), .d = 1 + below(3)};
    int64_t reach = (a.k - 1) * a.d + 1;
    a.p = below(reach);
    a.y = LINE + below(40);
    *after = below(reach);
    a.x = (a.y - 1) * a.s + reach - a.p - *after;
    return a;
}

static void plain(DnnShape *s, int axes, int64_t first, int64_t second, Dtype type) {
    *s = (DnnShape){.n = axes + 2, .dim = {first, second}, .type = type};
}

static int64_t elements(const DnnShape *s) {
    int64_t n = 1;
    for (int i = 0; i < s->n; i++)
        n *= s->dim[i];
    return n;
}

typedef DnnAxis RandomAxis(int64_t *after);

static DnnConv random_conv(DnnConvKind kind, int axes, Dtype type, RandomAxis *axis, int64_t most) {
    static const int64_t channels[] = {1, 1, 2, 3, 4, 5, 8, 15, 16, 17, 32, 48, 64};
    DnnConv c;
    int64_t products;
    do {
        int64_t n = 1 + below(3), i = channels[below(13)], o = channels[below(13)];
        memset(&c, 0, sizeof c);
        plain(&c.src, axes, n, i, type);
        plain(&c.weights, axes, o, i, kind == DnnConvWeights ? DtF32 : type); // f32, as theirs stay
        plain(&c.dst, axes, n, o, type);
        products = n * i * o;
        for (int k = 0; k < axes; k++) {
            DnnAxis a = axis(&c.after[k]);
            c.src.dim[k + 2] = a.x, c.weights.dim[k + 2] = a.k, c.dst.dim[k + 2] = a.y;
            c.stride[k] = a.s, c.dilation[k] = a.d - 1, c.before[k] = a.p;
            products *= a.k * a.y;
        }
    } while (products > most || elements(&c.src) > ELEMENTS || elements(&c.weights) > ELEMENTS ||
             elements(&c.dst) > ELEMENTS);
    dnn_channels_last(&c.src);
    dnn_channels_last(&c.weights);
    dnn_channels_last(&c.dst);
    return c;
}

static void fill(Values *v, const DnnShape *s) {
    int64_t n = elements(s);
    for (int64_t i = 0; i < n; i++)
        v->x[i] = (float)(below(17) - 8) / 8;
    floats_to_bf16(v->x, v->half, (size_t)n);
}

// The element of `s` at [a, b, at...].
static int64_t place(const DnnShape *s, int64_t a, int64_t b, const int64_t at[DNN_AXES]) {
    int64_t to = a * s->stride[0] + b * s->stride[1];
    for (int i = 2; i < s->n; i++)
        to += at[DNN_AXES - s->n + i] * s->stride[i];
    return to;
}

// The pixel of x for one pixel of y and one kernel element; false if it is padding.
static bool meets(const DnnAxis axis[DNN_AXES], const int64_t y[DNN_AXES],
                  const int64_t k[DNN_AXES], int64_t x[DNN_AXES]) {
    for (int i = 0; i < DNN_AXES; i++) {
        x[i] = y[i] * axis[i].s + k[i] * axis[i].d - axis[i].p;
        if (x[i] < 0 || x[i] >= axis[i].x)
            return false;
    }
    return true;
}

static void split(int64_t n, const int64_t extent[DNN_AXES], int64_t at[DNN_AXES]) {
    for (int i = DNN_AXES; i-- > 0; n /= extent[i])
        at[i] = n % extent[i];
}

static void add_products(const DnnConv *c, int result, const int64_t x[DNN_AXES],
                         const int64_t k[DNN_AXES], const int64_t y[DNN_AXES]) {
    for (int64_t n = 0; n < c->src.dim[0]; n++)
        for (int64_t o = 0; o < c->dst.dim[1]; o++)
            for (int64_t i = 0; i < c->src.dim[1]; i++) {
                int64_t at[Sides] = {place(&c->src, n, i, x), place(&c->weights, o, i, k),
                                     place(&c->dst, n, o, y)};
                int a = result == SideX ? SideY : SideX, b = result == SideW ? SideY : SideW;
                value[result].want[at[result]] +=
                    (double)value[a].x[at[a]] * (double)value[b].x[at[b]];
            }
}

static void sum_directly(const DnnConv *c, int result) {
    DnnAxis axis[DNN_AXES];
    dnn_axes(c, axis);
    int64_t ys[DNN_AXES], ks[DNN_AXES], x[DNN_AXES], y[DNN_AXES], k[DNN_AXES];
    for (int i = 0; i < DNN_AXES; i++)
        ys[i] = axis[i].y, ks[i] = axis[i].k;
    memset(value[result].want, 0, sizeof value[result].want);
    for (int64_t i = 0; i < ys[0] * ys[1] * ys[2]; i++)
        for (int64_t j = 0; j < ks[0] * ks[1] * ks[2]; j++) {
            split(i, ys, y);
            split(j, ks, k);
            if (meets(axis, y, k, x))
                add_products(c, result, x, k, y);
        }
}

typedef struct Way {
    DnnConvKind kind;
    int result, arg[Sides];
    dnnl_query_t layout;
} Way;

static const Way ways[] = {
    {DnnConvForward, SideY, {DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DST}, dnnl_query_weights_md},
    {DnnConvData,
     SideX,
     {DNNL_ARG_DIFF_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DIFF_DST},
     dnnl_query_weights_md},
    {DnnConvWeights,
     SideW,
     {DNNL_ARG_SRC, DNNL_ARG_DIFF_WEIGHTS, DNNL_ARG_DIFF_DST},
     dnnl_query_diff_weights_md},
};

// False if the library has no such primitive, or dnn_api.c excludes the shape.
static bool run(const Way *w, const DnnConv *c) {
    const DnnShape *shape[Sides] = {&c->src, &c->weights, &c->dst};
    DnnTensor t[Sides], packed;
    DnnCall call = {0};
    DnnConv asked = *c;
    Dnn *d;
    asked.weights.any = true;
    assert_int_equal(dnn_open(&d), GAN_OK);
    dnn_block(d, 0);
    DnnDesc *desc = dnn_new_desc(d);
    dnnl_status_t s = dnn_conv_desc(dnn_engine(d), w->kind, &asked, desc);
    for (int i = 0; i < Sides && s == dnnl_success; i++) {
        bool halves = shape[i]->type == DtBF16;
        void *at = halves ? (void *)value[i].half : (void *)value[i].x;
        if (i == w->result)
            memset(at, 0xff, (size_t)elements(shape[i]) * dtype_size[shape[i]->type]); // NaN
        t[i] = (DnnTensor){dnn_keep_layout(d, shape[i]), at, 0, 0};
    }
    if (s == dnnl_success) {
        DnnTensor mine = t[SideW];
        assert_int_equal(dnn_own_packed(d, dnn_desc_layout(*desc, w->layout), mine, &packed), 0);
        bool moved = packed.at != mine.at;
        t[SideW] = packed;
        if (moved && w->result != SideW)
            assert_int_equal(dnn_add_reorder(d, &call, mine, packed), 0);
        assert_int_equal(dnn_add_step(d, &call, *desc, w->arg, t, Sides), 0);
        if (moved && w->result == SideW)
            assert_int_equal(dnn_add_reorder(d, &call, packed, mine), 0);
        assert_int_equal(dnn_ready(d), GAN_OK);
        assert_int_equal(dnn_run(d, &call), GAN_OK);
    }
    dnn_close(d);
    return s == dnnl_success;
}

static void compare(const Way *w, const DnnConv *c) {
    const DnnShape *s = w->result == SideX ? &c->src : w->result == SideW ? &c->weights : &c->dst;
    const Values *v = &value[w->result];
    bool halves = s->type == DtBF16;
    for (int64_t i = 0; i < elements(s); i++) {
        double is = halves ? (double)gan_bf16_to_f32(v->half[i]) : (double)v->x[i];
        if (fabs(is - v->want[i]) <= (halves ? fabs(v->want[i]) / 256 : 0))
            continue;
        print_error("%s, kind %d, [%lld, %lld] to %lld channels\n", dtype_name[c->src.type],
                    (int)w->kind, (long long)c->src.dim[0], (long long)c->src.dim[1],
                    (long long)c->dst.dim[1]);
        for (int k = 0; k < c->src.n - 2; k++)
            print_error("  %lld pixels, kernel %lld, stride %lld, dilation %lld, padding %lld and "
                        "%lld, to %lld\n",
                        (long long)c->src.dim[k + 2], (long long)c->weights.dim[k + 2],
                        (long long)c->stride[k], (long long)c->dilation[k] + 1,
                        (long long)c->before[k], (long long)c->after[k],
                        (long long)c->dst.dim[k + 2]);
        fail_msg("element %lld is %g, not %g", (long long)i, is, v->want[i]);
    }
}

static bool check_one(const Way *w, const DnnConv *c) {
    fill(&value[SideX], &c->src);
    fill(&value[SideW], &c->weights);
    fill(&value[SideY], &c->dst);
    if (!run(w, c))
        return false;
    sum_directly(c, w->result);
    compare(w, c);
    return true;
}

static void check(const Way *w, Dtype type) {
    for (int axes = 1; axes <= DNN_AXES; axes++) {
        int made = 0;
        state = (uint64_t)axes;
        for (int i = 0; i < SHAPES; i++) {
            DnnConv c = random_conv(w->kind, axes, type, random_axis, PRODUCTS);
            made += check_one(w, &c);
        }
        bool all_refused = axes == 3 && type == DtBF16 && dnn_has_matrix_unit();
        assert_true(made > SHAPES / 10 || all_refused);
    }
}

// As fast as any other the library has, and described at once, however long the line is.
static void assert_direct(const DnnConv *c) {
    const char *name;
    DnnConv asked = *c;
    Dnn *d;
    asked.weights.any = true;
    assert_int_equal(dnn_open(&d), GAN_OK);
    DnnDesc *desc = dnn_new_desc(d);
    assert_int_equal(dnn_conv_desc(dnn_engine(d), DnnConvForward, &asked, desc), dnnl_success);
    assert_int_equal(dnnl_primitive_desc_query(*desc, dnnl_query_impl_info_str, 0, (void *)&name),
                     dnnl_success);
    if (strncmp(name, "jit", 3) != 0)
        fail_msg("%lld to %lld channels of %lld pixels by %s", (long long)c->src.dim[1],
                 (long long)c->dst.dim[1], (long long)c->dst.dim[2], name);
    dnn_close(d);
}

static void check_lines(Dtype type) {
    state = 1;
    for (int i = 0; i < LINES; i++) {
        DnnConv c = random_conv(DnnConvForward, 1, type, random_line, LINE_PRODUCTS);
        assert_true(check_one(&ways[DnnConvForward], &c));
        int64_t in = c.src.dim[1], out = c.dst.dim[1];
        bool taken = (in <= 32 || out <= 32) && (in >= 16 || out > 16);
        if (taken && dnn_vector_level() == 4 && !(type == DtBF16 && dnn_has_matrix_unit()))
            assert_direct(&c);
    }
}

static void forward_is_right(void **unused) {
    (void)unused;
    check(&ways[DnnConvForward], DtF32);
}

static void long_lines_are_right(void **unused) {
    (void)unused;
    check_lines(DtF32);
    if (dnn_vector_level() == 4)
        check_lines(DtBF16);
}

static void input_gradients_are_right(void **unused) {
    (void)unused;
    check(&ways[DnnConvData], DtF32);
}

static void weight_gradients_are_right(void **unused) {
    (void)unused;
    check(&ways[DnnConvWeights], DtF32);
}

static void convolutions_are_right_in_bf16(void **unused) {
    (void)unused;
    if (dnn_vector_level() < 4)
        skip(); // the library multiplies bf16 from there on
    for (int k = 0; k < 3; k++)
        check(&ways[k], DtBF16);
}

enum { PRODUCT_ROWS = 256, PRODUCT_COLUMNS = 512, PRODUCT_TERMS = 147, INTERRUPTED = 400 };

static void *interrupt(void *unused) {
    (void)unused;
    for (;;) {
        kill(getpid(), SIGUSR1);
        usleep(200);
    }
    return NULL;
}

static bool products_are_equal(void) {
    enum { N = PRODUCT_ROWS * PRODUCT_COLUMNS };
    const float *a = value[SideX].x, *b = value[SideW].x;
    float *first = mem_alloc(N * sizeof *first), *again = mem_alloc(N * sizeof *again);
    bool ok = first && again &&
              dnn_product(a, b, PRODUCT_ROWS, PRODUCT_COLUMNS, PRODUCT_TERMS, first) == GAN_OK;
    pthread_t thread;
    ok = ok && pthread_create(&thread, NULL, interrupt, NULL) == 0;
    for (int i = 0; ok && i < INTERRUPTED; i++)
        ok = dnn_product(a, b, PRODUCT_ROWS, PRODUCT_COLUMNS, PRODUCT_TERMS, again) == GAN_OK &&
             memcmp(first, again, N * sizeof *first) == 0;
    mem_free(first);
    mem_free(again);
    return ok && process_stop_asked();
}

// A handler's frame on the thread of a product destroys the heap (process.c).
static void products_survive_signals(void **unused) {
    (void)unused;
    _Static_assert(PRODUCT_COLUMNS * PRODUCT_TERMS <= ELEMENTS, "a factor has room");
    pid_t child = fork();
    if (child == 0) {
        process_watch_stop();
        for (int i = 0; i < ELEMENTS; i++) {
            value[SideX].x[i] = (float)(below(17) - 8) / 8;
            value[SideW].x[i] = (float)(below(17) - 8) / 8;
        }
        _exit(!products_are_equal());
    }
    int how = 1;
    assert_int_equal(waitpid(child, &how, 0), child);
    assert_int_equal(how, 0);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(products_survive_signals), // before this process has threads
        cmocka_unit_test(forward_is_right),
        cmocka_unit_test(long_lines_are_right),
        cmocka_unit_test(input_gradients_are_right),
        cmocka_unit_test(weight_gradients_are_right),
        cmocka_unit_test(convolutions_are_right_in_bf16),
    };
    if (CASES_LISTED(tests))
        return 0;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
