// anchor_test.c - our own CUDA kernels for convolutions, products and sorting against the
// reference evaluator, without a card: sizes that fill no tile, every rank, stride, padding,
// dilation and number of groups, split reductions, each type. They run on the emulator (shim.h),
// so out-of-bounds accesses and races fail too.
#include "kernel_suite.h"
#include "shim_cases.h"

// --- building ------------------------------------------------------------------------------------

static double tolerance(Dtype real) {
    return real == DtF64 ? 1e-12 : real == DtBF16 ? 1e-2 : real == DtF16 ? 1.5e-3 : 3e-6;
}

static Val input(Case *c, Type t, Dtype real) {
    t.dtype = (uint8_t)real;
    return case_input(c, t);
}

static void finish(Case *c, Val result, Dtype real) {
    case_result(c, result);
    case_finish(c, real);
    for (uint32_t i = 0; i < c->plan.region.n; i++)
        if (c->plan.region.at[i].kernel == NONE)
            fail_msg("%s: a region has no kernel", c->name);
}

// --- convolutions --------------------------------------------------------------------------------

typedef struct ConvCase {
    int batch, c, o, x[3], k[3];
    ConvGeom geom;
} ConvCase;

static const ConvCase convs[] = {
    {3, 5, 7, {9, 11}, {3, 3}, {2, {1, 1}, {1, 1}, {1, 1}, {1, 1}, 1}},
    {2, 3, 70, {10, 7}, {4, 4}, {2, {2, 2}, {1, 1}, {1, 1}, {1, 1}, 1}},
    {2, 6, 4, {13, 9}, {5, 3}, {2, {3, 2}, {1, 0}, {2, 4}, {1, 2}, 1}}, // everything asymmetric
    {2, 6, 9, {8, 8}, {3, 2}, {2, {2, 1}, {1, 1}, {1, 0}, {2, 1}, 3}},  // dilation hits the stride
    {2, 4, 4, {11, 6}, {2, 3}, {2, {4, 6}, {0, 2}, {3, 2}, {1, 4}, 2}}, // some taps read only
                                                                        // padding
    {5, 8, 8, {50}, {7}, {1, {2}, {3}, {3}, {1}, 8}},                   // depthwise, 1-D
    {2, 3, 5, {6, 5, 7}, {3, 2, 3}, {3, {2, 1, 2}, {1, 0, 1}, {1, 1, 1}, {1, 1, 1}, 1}},
    {1, 130, 66, {4, 4}, {4, 4}, {2, {1, 1}, {0, 0}, {0, 0}, {1, 1}, 1}}, // covers all of x
    {6, 2, 3, {23, 31}, {3, 3}, {2, {1, 1}, {1, 1}, {1, 1}, {1, 1}, 1}},  // many positions
    // of several groups: four channels at a time
    {3, 24, 16, {9, 7}, {3, 3}, {2, {1, 1}, {1, 1}, {1, 1}, {1, 1}, 2}},
    {2, 32, 72, {10, 9}, {4, 3}, {2, {2, 3}, {1, 0}, {2, 1}, {1, 2}, 4}},  // residues
    {2, 72, 144, {57}, {7}, {1, {4}, {3}, {3}, {2}, 18}},                  // more than a tile
    {2, 12, 12, {9, 11}, {4, 4}, {2, {2, 2}, {1, 1}, {1, 1}, {1, 1}, 12}}, // depthwise
    {3, 68, 68, {5, 6, 4}, {3, 1, 2}, {3, {1, 1, 2}, {1, 0, 0}, {1, 0, 1}, {1, 1, 1}, 68}},
    {37, 8, 8, {12, 12}, {3, 3}, {2, {1, 1}, {1, 1}, {1, 1}, {1, 1}, 2}}, // many positions
    {37, 8, 8, {12, 12}, {3, 3}, {2, {1, 1}, {1, 1}, {1, 1}, {1, 1}, 8}},
    {1, 8, 8, {20, 9}, {8, 8}, {2, {1, 1}, {4, 4}, {4, 4}, {2, 1}, 8}},  // as many taps as fit
    {1, 8, 8, {11, 9}, {13, 5}, {2, {1, 1}, {6, 2}, {6, 2}, {1, 1}, 2}}, // and one more
};

// Types differ in how elements are read and stored, not in where they are: f32 tries every case,
// the others every third.
static size_t step_of(Dtype real) {
    return real == DtF32 ? 1 : 3;
}

static void conv_cases(Dtype real) {
    for (size_t i = 0; i < sizeof convs / sizeof *convs; i += step_of(real)) {
        const ConvCase *k = &convs[i];
        uint32_t n = k->geom.n;
        int64_t xd[4] = {k->c}, wd[5] = {k->o, k->c / k->geom.groups};
        for (uint32_t d = 0; d < n; d++)
            xd[1 + d] = k->x[d], wd[2 + d] = k->k[d];
        Type xt = type_make(true, n + 1, xd), wt = type_make(false, n + 2, wd);
        xt.dtype = wt.dtype = (uint8_t)real;
        Case *c = case_begin(&cases, k->batch, tolerance(real), "conv %zu %s", i, dtype_name[real]);
        Val y = Conv(input(c, xt, real), input(c, wt, real), &k->geom);
        Type yt = val_type(y);
        finish(c, y, real);
        c = case_begin(&cases, k->batch, tolerance(real), "conv_dx %zu %s", i, dtype_name[real]);
        finish(c, ConvDx(input(c, yt, real), input(c, wt, real), &k->geom, xt), real);
        c = case_begin(&cases, k->batch, tolerance(real), "conv_dw %zu %s", i, dtype_name[real]);
        finish(c, ConvDw(input(c, xt, real), input(c, yt, real), &k->geom, wt), real);
    }
}

// --- products ------------------------------------------------------------------------------------

typedef struct DotCase { // labels and extents of each operand; a label of 0 ends the list
    int batch;
    bool a_batched, b_batched, batched;
    uint8_t a[5], b[5], out[5];
    int extent[6]; // by label
} DotCase;

static const DotCase dots[] = {
    {70, true, false, true, {1}, {2, 1}, {2}, {0, 37, 45}},        // dense layer
    {70, true, false, true, {2}, {2, 1}, {1}, {0, 37, 45}},        // and its input's gradient
    {700, true, true, false, {2}, {1}, {2, 1}, {0, 5, 9}},         // and its weight's, split
    {4, true, true, true, {1, 2}, {1, 3}, {2, 3}, {0, 3, 19, 66}}, // a product for each sample
    {4, true, true, true, {1, 2}, {1, 2}, {2}, {0, 13, 5}},        // only summed products
    {3, true, false, true, {1, 2, 3}, {3, 4, 1}, {4, 2}, {0, 3, 5, 7, 6}},
    {1, false, false, false, {1}, {2}, {1, 2}, {0, 65, 3}},             // nothing to sum
    {1, false, false, false, {1, 2}, {2}, {1}, {0, 67, 1025}},          // matrix by vector
    {1, false, false, false, {1, 2}, {3}, {2, 3, 1}, {0, 5, 6, 7}},     // rows in another order
    {2, false, false, false, {1, 2, 3}, {1, 2, 3}, {0}, {0, 9, 8, 40}}, // one number
};

static uint32_t count(const uint8_t *labels) {
    uint32_t n = 0;
    while (n < 5 && labels[n])
        n++;
    return n;
}

static Type dot_type(const DotCase *k, bool batched, const uint8_t *labels) {
    int64_t dim[5];
    for (uint32_t i = 0; i < count(labels); i++)
        dim[i] = k->extent[labels[i]];
    return type_make(batched, count(labels), dim);
}

static void dot_cases(Dtype real) {
    for (size_t i = 0; i < sizeof dots / sizeof *dots; i += step_of(real)) {
        const DotCase *k = &dots[i];
        Case *c = case_begin(&cases, k->batch, tolerance(real), "dot %zu %s", i, dtype_name[real]);
        Val a = input(c, dot_type(k, k->a_batched, k->a), real);
        Val b = input(c, dot_type(k, k->b_batched, k->b), real);
        finish(c, Dot(a, k->a, b, k->b, k->out, count(k->out), k->batched), real);
    }
    static const uint8_t ik[] = {1, 2}, jk[] = {3, 2}, ij[] = {1, 3};
    Case *c = case_begin(&cases, 1, tolerance(real), "dot with itself %s", dtype_name[real]);
    Val x = input(c, type_make(false, 2, (int64_t[]){33, 50}), real);
    finish(c, Dot(x, ik, x, jk, ij, 2, false), real);
}

// Many tiles, and enough terms for several iterations.
static void tiles_case(void) {
    Case *c = case_begin(&cases, 1, tolerance(DtF32), "dot of many tiles");
    static const uint8_t ik[] = {1, 2}, kj[] = {2, 3}, ij[] = {1, 3};
    Val a = input(c, type_make(false, 2, (int64_t[]){128 * 88 - 5, 18}), DtF32);
    Val b = input(c, type_make(false, 2, (int64_t[]){18, 64 * 3 - 3}), DtF32);
    finish(c, Dot(a, ik, b, kj, ij, 2, false), DtF32);
}

// --- transforms ----------------------------------------------------------------------------------

// Lines shorter and longer than a block, a tile and the finer table of roots of unity.
static void fft_cases(Dtype real) {
    static const int64_t lengths[] = {1, 2, 9, 64, 129, 520};
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        for (int kind = 0; kind < 4; kind++) {
            int64_t n = lengths[i];
            bool whole = kind < 2, inverse = kind & 1, batched = i & 1;
            int64_t parts = whole ? 2 : 1;
            Type made = batched ? type_make(true, 3, (int64_t[]){parts, 3, n})
                                : type_make(false, 3, (int64_t[]){3, parts, n});
            Type given = made;
            if (!whole && inverse) {
                given.dim[batched ? 0 : 1] = 2;
                given.dim[2] = n / 2 + 1;
            }
            made.dtype = (uint8_t)real;
            Case *c = case_begin(&cases, 2, tolerance(real), "fft %lld kind %d %s", (long long)n,
                                 kind, dtype_name[real]);
            Val x = input(c, given, real);
            finish(c, Fft(x, inverse, !whole && inverse ? &made : NULL), real);
        }
    }
}

// --- orders --------------------------------------------------------------------------------------

// Rows shorter than the sorting network, the longest that fits, and longer ones that are merged
// from tiles of 2,048: three, several rows at once, and ten, of which the last two are merged with
// the rest at last; per sample and shared; the whole order, and the last third.
static void order_cases(Dtype real) {
    static const int64_t lengths[] = {1, 7, 513, 4096, 4099, 18437};
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        int64_t n = lengths[i], lines = n > 600 && n != 4099 ? 1 : 3;
        for (int kind = 0; kind < (lines > 1 || n < 600 ? 8 : 4); kind++) {
            bool batched = kind & 1, back = kind & 2;
            int64_t last = kind & 4 ? (n + 2) / 3 : n;
            Case *c = case_begin(&cases, lines > 1 ? 2 : 1, tolerance(real),
                                 "order %lld kind %d %s", (long long)n, kind, dtype_name[real]);
            Val x = input(c, type_make(batched, 2, (int64_t[]){lines, n}), real);
            Val order = ArgSortLast(x, last),
                part = Slice(x, (int64_t[]){0, 0}, (int64_t[]){lines, last}, NULL);
            finish(c, back ? ArrangeBack(part, order, val_type(x)) : Arrange(x, order, false),
                   real);
        }
    }
    for (int k = 0; k < 2; k++) { // equal numbers, and NaN
        Case *c = case_begin(&cases, 1, tolerance(real), "an order of %s ties %s",
                             k ? "many" : "few", dtype_name[real]);
        Val x = input(c, type_make(true, 1, (int64_t[]){k ? 9000 : 700}), real);
        finish(c, ArgSort(Sqrt(Floor(Mul(x, Num(x, 4))))), real);
    }
    Case *c =
        case_begin(&cases, 1, tolerance(real), "an order in its own order %s", dtype_name[real]);
    Val x = ArgSort(input(c, type_make(true, 1, (int64_t[]){9}), real));
    finish(c, Arrange(x, x, false), real);
}

// --- running -------------------------------------------------------------------------------------

static void anchor_cases(Cases *all) {
    (void)all; // the file's own
    static const Dtype reals[] = {DtF32, DtBF16, DtF16, DtF64};
    for (size_t i = 0; i < sizeof reals / sizeof *reals; i++) {
        conv_cases(reals[i]);
        dot_cases(reals[i]);
    }
    tiles_case();
    fft_cases(DtF32);
    fft_cases(DtF64);
    order_cases(DtF32);
    order_cases(DtF64);
}

static void anchors_agree_with_the_evaluator(void **state) {
    (void)state;
    shim_cases_run(&cases);
}

// Split reductions depend on shapes: the cases above must have some.
static void every_form_is_met(void **state) {
    uint32_t split = 0;
    (void)state;
    for (uint32_t i = 0; i < cases.at.n; i++)
        split += cases.at.at[i]->plan.region.at[0].tickets > 0;
    assert_true(split >= 5);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(anchors_agree_with_the_evaluator),
        cmocka_unit_test(every_form_is_met),
    };
    return KERNEL_SUITE(tests, &dialect_cuda, anchor_cases);
}
