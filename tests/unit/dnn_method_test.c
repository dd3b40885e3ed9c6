// dnn_method_test.c - which method of dnn_conv.c computes a convolution, and by which
// implementations of the library: a table of shapes, for each direction; how often products copy
// their operands; and that none of the shipped models is left to the library's reference
// implementations, or to the evaluator's loops.
// Results do not depend on it, so no other test would notice a slow one. Nothing is run.
#include "tiles.h"

#include "driver.h"
#include "programs.h"

#include <setjmp.h>
#include <string.h>

#include <cmocka.h>
#include "arena_cases.h"

static Dnn *open_library(void) {
    Dnn *d;
    assert_int_equal(dnn_open(&d), GAN_OK);
    dnn_set_cache_only(d);
    return d;
}

// Prepares a product as the cpu device does, at addresses that nothing is read from.
static const DnnCall *prepare(Dnn *d, const Plan *p, uint32_t id) {
    static char nowhere[1];
    DnnCall *call;
    dnn_block(d, graph_node(&p->func->g, id)->block);
    if (dnn_prepare(d, p, id, (Memory){nowhere, nowhere}, &call) != GAN_OK)
        fail_msg("%s", gan_error());
    return call;
}

static const char *implementation(const DnnStep *s) {
    const_dnnl_primitive_desc_t desc;
    const char *name = NULL;
    assert_int_equal(dnnl_primitive_get_primitive_desc(s->primitive, &desc), dnnl_success);
    assert_int_equal(dnnl_primitive_desc_query(desc, dnnl_query_impl_info_str, 0, (void *)&name),
                     dnnl_success);
    return name;
}

// The first of a call's primitives that is a reference implementation; NULL: none is.
static const char *slow(const DnnCall *call) {
    for (int i = 0; i < call->n; i++) {
        const char *name = call->step[i].host ? "" : implementation(&call->step[i]);
        if (strstr(name, "ref"))
            return name;
    }
    return NULL;
}

// Is a method as expected, or has the library (3.x) products for strides, which are faster?
static bool is_by(const DnnCall *call, const char *method) {
    bool own = false;
    for (int i = 0; i < call->n; i++) {
        const char *name = call->step[i].host ? "" : implementation(&call->step[i]);
        own = own || strstr(name, "brgconv_strided");
    }
    return strcmp(call->method, method) == 0 || (own && strcmp(call->method, "library") == 0);
}

// --- a table -------------------------------------------------------------------------------------

enum { Directions = 3 };

// Extents are the same along all axes. dnn_conv.c has the order in which methods are asked.
typedef struct MethodRow {
    Dtype real;
    int axes, batch; // batch 0: without a batch axis
    int64_t c, o, x, k, stride, pad, dilation, groups;
    const char *method[Directions]; // forward, input gradient, weight gradient
} MethodRow;

static const MethodRow rows[] = {
    // layers of image nets: strided and not, of images, to one number, of few pixels
    {DtF32, 2, 32, 64, 128, 32, 4, 2, 1, 1, 1, {"winograd", "winograd", "winograd"}},
    {DtF32, 2, 32, 128, 128, 32, 3, 1, 1, 1, 1, {"winograd", "winograd", "winograd"}},
    {DtF32, 2, 32, 256, 512, 8, 4, 2, 1, 1, 1, {"winograd", "winograd", "winograd"}},
    {DtF32, 2, 32, 256, 512, 4, 4, 2, 1, 1, 1, {"taps", "taps", "taps"}},
    {DtF32, 2, 32, 512, 1, 4, 4, 1, 0, 1, 1, {"product", "product", "product"}},
    {DtF32, 2, 32, 3, 64, 64, 4, 2, 1, 1, 1, {"library", "thin", "library"}},
    {DtF32, 2, 4, 1, 64, 256, 5, 2, 2, 1, 1, {"library", "thin", "library"}},
    {DtF32, 2, 1, 64, 3, 256, 7, 1, 3, 1, 1, {"thin", "library", "thin"}},
    {DtF32, 2, 32, 256, 256, 32, 1, 1, 0, 1, 1, {"library", "phases", "library"}},
    {DtF32, 2, 4, 64, 128, 128, 5, 2, 2, 1, 1, {"library", "phases", "library"}},
    {DtF32, 2, 4, 48, 40, 33, 3, 2, 1, 1, 1, {"library", "phases", "library"}},
    {DtF32, 2, 4, 64, 64, 32, 3, 1, 2, 2, 1, {"library", "library", "library"}},
    // of one value without a batch axis, as of a fixed noise or an image that is optimized
    {DtF32, 2, 0, 64, 64, 32, 3, 1, 1, 1, 1, {"library", "library", "library"}},
    {DtF32, 2, 0, 48, 32, 8, 4, 2, 1, 1, 1, {"library", "library", "library"}},
    {DtF32, 2, 0, 3, 32, 8, 4, 2, 1, 1, 1, {"library", "library", "library"}},
    // of lines and of volumes
    {DtF32, 1, 16, 64, 64, 4096, 11, 1, 25, 5, 1, {"library", "library", "library"}},
    {DtF32, 1, 16, 32, 32, 8192, 3, 1, 1, 1, 1, {"library", "phases", "library"}},
    {DtF32, 3, 8, 32, 64, 16, 4, 2, 1, 1, 1, {"library", "phases", "library"}},
    // in groups
    {DtF32, 2, 8, 24, 24, 32, 3, 1, 1, 1, 24, {"library", "library", "library"}},
    {DtF32, 2, 8, 24, 24, 32, 5, 1, 2, 1, 24, {"library", "library", "grouped"}},
    {DtF32, 2, 8, 256, 256, 32, 3, 1, 1, 1, 16, {"library", "library", "library"}},
    {DtF32, 1, 8, 64, 64, 64, 41, 4, 20, 1, 4, {"grouped", "grouped", "grouped"}},
    {DtBF16, 2, 32, 64, 128, 32, 4, 2, 1, 1, 1, {"library", "library", "columns"}},
    {DtBF16, 2, 32, 128, 128, 32, 3, 1, 1, 1, 1, {"library", "library", "library"}},
    {DtBF16, 2, 32, 256, 512, 4, 4, 2, 1, 1, 1, {"taps", "taps", "taps"}},
    {DtBF16, 2, 32, 3, 64, 64, 4, 2, 1, 1, 1, {"library", "thin", "library"}},
    {DtBF16, 2, 8, 24, 24, 32, 5, 1, 2, 1, 24, {"library", "library", "grouped"}},
    {DtBF16, 1, 8, 64, 64, 64, 41, 4, 20, 1, 4, {"grouped", "library", "library"}},
};

// The same with a matrix unit, where it is ours.
static const MethodRow unit_rows[] = {
    {DtBF16, 2, 32, 64, 128, 32, 4, 2, 1, 1, 1, {"library", "tiles", "tiles"}},
    {DtBF16, 2, 32, 128, 256, 16, 4, 2, 1, 1, 1, {"tiles", "tiles", "tiles"}},
    {DtBF16, 2, 32, 128, 128, 32, 3, 1, 1, 1, 1, {"library", "library", "library"}},
    {DtBF16, 2, 32, 256, 512, 4, 4, 2, 1, 1, 1, {"tiles", "tiles", "tiles"}},
    {DtBF16, 2, 32, 3, 64, 64, 4, 2, 1, 1, 1, {"library", "thin", "library"}},
    {DtBF16, 3, 8, 32, 64, 16, 4, 2, 1, 1, 1, {"tiles", "tiles", "tiles"}},
    {DtF32, 2, 32, 128, 256, 16, 4, 2, 1, 1, 1, {"winograd", "winograd", "winograd"}},
};

static void plan_row(Arena *a, const MethodRow *row, Module *m, Plan *out) {
    const PassOptions o = {.real = row->real};
    ConvCase c = {.batch = row->batch, .c = row->c, .o = row->o};
    c.geom = (ConvGeom){.n = (uint32_t)row->axes, .groups = row->groups};
    for (int i = 0; i < row->axes; i++) {
        c.x[i] = row->x;
        c.k[i] = row->k;
        c.geom.stride[i] = row->stride;
        c.geom.dilation[i] = row->dilation;
        c.geom.before[i] = c.geom.after[i] = row->pad;
    }
    program_conv(a, &c, 1, m);
    passes_run(a, m, &m->step, &o, NULL);
    slots_place(m, row->real);
    plan_make(a, m, &m->step, &o, out);
}

static void check_row(Arena a, const MethodRow *row, size_t at) {
    static const Op op[Directions] = {OpConv, OpConvDx, OpConvDw};
    Module m;
    Plan p;
    Dnn *d = open_library();
    plan_row(&a, row, &m, &p);
    uint32_t seen = 0;
    for (uint32_t i = 0; i < p.region.n; i++)
        for (int k = 0; k < Directions; k++) {
            uint32_t id = p.region.at[i].node.at[0];
            if (p.region.at[i].kind != RegionCall || graph_node(&m.step.g, id)->op != op[k])
                continue;
            const DnnCall *call = prepare(d, &p, id);
            assert_non_null(call);
            if (!is_by(call, row->method[k]) || slow(call))
                fail_msg("row %zu, %s: by %s%s%s, not %s", at, op_info[op[k]].text, call->method,
                         slow(call) ? ", " : "", slow(call) ? slow(call) : "", row->method[k]);
            seen |= 1u << k;
        }
    assert_int_equal(seen, 7);
    dnn_close(d);
}

// With AVX-512 and no matrix unit; on other processors the library's own differ in speed, and with
// them the choice.
static void methods_follow_from_the_shape(void **state) {
    (void)state;
    if (dnn_vector_level() < 4 || dnn_has_matrix_unit())
        skip();
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        check_row(empty, &rows[i], i);
}

static void methods_with_a_matrix_unit_follow_from_the_shape(void **state) {
    (void)state;
    if (!tiles_run())
        skip();
    for (size_t i = 0; i < sizeof unit_rows / sizeof *unit_rows; i++)
        check_row(empty, &unit_rows[i], i);
}

// --- products ------------------------------------------------------------------------------------

// Matrices whose head lies innermost, as where no pass chooses another axis, are copied: each value
// once, however products turn it.
static void check_heads(Arena a, uint64_t seed, Dtype real) {
    const PassOptions o = {.real = real};
    Module m;
    Plan p;
    Dnn *d = open_library();
    program_heads(&a, seed, &m);
    passes_run(&a, &m, &m.step, &o, "moments");
    slots_place(&m, real);
    plan_make(&a, &m, &m.step, &o, &p);
    int products = 0, copies = 0;
    for (uint32_t i = 0; i < p.launch.n; i++) {
        const Region *r = &p.region.at[p.launch.at[i].region];
        if (r->kind != RegionCall)
            continue;
        const DnnCall *call = prepare(d, &p, r->node.at[0]);
        assert_non_null(call);
        products++;
        copies += call->n - 1;
    }
    assert_int_equal(products, 3);
    assert_int_equal(copies, 6); // of what is read, and of results
    dnn_close(d);
}

static void heads_are_copied_once(void **state) {
    (void)state;
    if (dnn_vector_level() < 4)
        skip();
    for (uint64_t seed = 0; seed < 8; seed++) {
        check_heads(empty, seed, DtF32);
        check_heads(empty, seed, DtBF16);
    }
}

// --- the shipped models --------------------------------------------------------------------------

static uint32_t check_plan(Str model, const Plan *p) {
    const Graph *g = &p->func->g;
    Dnn *d = open_library();
    uint32_t products = 0;
    for (uint32_t i = 0; i < p->launch.n; i++) {
        const Region *r = &p->region.at[p->launch.at[i].region];
        uint32_t id = r->node.at[0];
        if (r->kind != RegionCall || node_family(g, id) != FamilyProduct)
            continue;
        const DnnCall *call = prepare(d, p, id);
        const char *name = call ? slow(call) : "the evaluator's loops";
        if (name)
            fail_msg("%.*s in %s: %%%u (%s) by %s", SARG(model), dtype_name[p->real], id,
                     op_info[graph_node(g, id)->op].text, name);
        products++;
    }
    dnn_close(d);
    return products;
}

static uint32_t check_model(Arena a, Str file, Dtype real) {
    Front f;
    Compiled c;
    CompileOptions o = {.path = path_join(&a, STR(ROOT_DIR "/models"), file), .real = real};
    front_init(&f, &a);
    assert_int_equal(compile_file(&f, &o, &c), GAN_OK);
    uint32_t products = check_plan(file, &c.step);
    for (uint32_t i = 0; i < c.module.entry.n; i++)
        products += check_plan(file, &c.entry[i]);
    return products;
}

static void no_model_is_left_to_a_reference_implementation(void **state) {
    Arena a = empty;
    StrVec names = {0};
    uint32_t products = 0;
    (void)state;
    if (dnn_vector_level() < 4)
        skip();
    assert_int_equal(dir_list(&a, STR(ROOT_DIR "/models"), &names), GAN_OK);
    for (uint32_t i = 0; i < names.n; i++)
        if (str_ends(names.at[i], STR(".gan"))) {
            products += check_model(a, names.at[i], DtF32);
            products += check_model(a, names.at[i], DtBF16);
        }
    assert_true(products > 1000);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(methods_follow_from_the_shape),
        cmocka_unit_test(methods_with_a_matrix_unit_follow_from_the_shape),
        cmocka_unit_test(heads_are_copied_once),
        cmocka_unit_test(no_model_is_left_to_a_reference_implementation),
    };
    return ARENA_CASES(tests, 0);
}
