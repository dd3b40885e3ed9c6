// kernel_test.c - generated kernels against the reference evaluator.
//
// Each case is a small graph over a few slots. It is fused and its kernels generated; all kernels
// of all cases are compiled as one file, as the cpu device does, and loaded. Every case then runs
// its regions, each kernel in two calls to test the split into ranges, and compares every result
// and written slot with the graph evaluated node by node. The elementwise cases iterate over
// lang/ops.def, so a new row is tested without further work.
#define _GNU_SOURCE // mkdtemp
#include "cc.h"
#include "kernel_runs.h"
#include "kernel_suite.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void *library;

// --- compiling -----------------------------------------------------------------------------------

static int compile_all(void **state) {
    (void)state;
    char dir[] = "/tmp/kernel_test-XXXXXX";
    KernelVec kernels = {0};
    Cc cc;
    Unit u = {0};
    kernel_cases_kernels(&cases, &kernels);
    if (!mkdtemp(dir) || !cc_find(&arena, (Str){0}, &cc) || arena_init(&u.arena, 0) != GAN_OK)
        return -1;
    u.path = path_join(&arena, str_c(dir), STR("k.so"));
    u.text.arena = &u.arena;
    text_put(&u.text, gen_prelude(&dialect_c));
    for (uint32_t i = 0; i < kernels.n; i++)
        text_put(&u.text, kernels.at[i]->source);
    if (unit_build(&cc, TierBest, true, &u) == GAN_OK)
        library = dlopen(str_z(&arena, u.path), RTLD_NOW | RTLD_LOCAL);
    else
        print_error("%s\n", gan_error());
    file_remove(u.path);
    unit_release(&u);
    rmdir(dir);
    return library ? 0 : -1;
}

static int unload_all(void **state) {
    (void)state;
    dlclose(library);
    return 0;
}

// --- running -------------------------------------------------------------------------------------

typedef void KernelFn(void *const *p, const Counters *c, int64_t lo, int64_t hi);
typedef void FinishFn(void *const *p);

static void run_kernel(void *user, const Plan *plan, const Region *region, void *const *at,
                       const Counters *c) {
    const Kernel *k = &plan->kernel.at[region->kernel];
    void *p[64];
    (void)user;
    uint32_t n = 0;
    KernelFn *kernel;
    FinishFn *last;
    void *symbol = dlsym(library, str_z(&arena, k->name));
    assert_non_null(symbol);
    memcpy(&kernel, &symbol, sizeof symbol);
    for (; n < region->arg.n; n++)
        p[n] = at[region->arg.at[n]];
    p[n] = arena_alloc(&arena, region->scratch + 1, 64);
    memset(p[n++], 0xff, region->scratch);
    p[n++] = region->number.at;
    int64_t units = region->units, cut = units / 3;
    kernel(p, c, cut, units);
    kernel(p, c, 0, cut);
    if (k->finish) {
        symbol = dlsym(library, str_format(&arena, "%.*s_finish", SARG(k->name)).ptr);
        assert_non_null(symbol);
        memcpy(&last, &symbol, sizeof symbol);
        last(p);
    }
}

static void kernels_agree_with_the_evaluator(void **state) {
    (void)state;
    for (uint32_t i = 0; i < cases.at.n; i++)
        kernel_case_run(&arena, cases.at.at[i], run_kernel, NULL);
    print_message("%u cases\n", cases.at.n);
}

// The table of squared distances of the case above must never be stored.
static void a_table_read_by_minima_is_not_stored(void **state) {
    (void)state;
    for (uint32_t i = 0; i < cases.at.n; i++) {
        const Case *c = cases.at.at[i];
        for (uint32_t k = 0; strstr(c->name, "only minima") && k < c->plan.region.n; k++)
            for (uint32_t o = 0; o < c->plan.region.at[k].out.n; o++)
                assert_true(type_sample(node_type(&c->m.step.g, c->plan.region.at[k].out.at[o])) <
                            2000);
    }
}

// Kernels of the cases of this name have no `unwanted` text, and some have `wanted`.
static void assert_texts(const char *name, const char *wanted, const char *unwanted) {
    uint32_t found = 0;
    for (uint32_t i = 0; i < cases.at.n; i++) {
        const Plan *p = &cases.at.at[i]->plan;
        for (uint32_t k = 0; strstr(cases.at.at[i]->name, name) && k < p->kernel.n; k++) {
            const char *text = str_z(&arena, p->kernel.at[k].source);
            found += strstr(text, wanted) != NULL;
            assert_null(strstr(text, unwanted));
        }
    }
    assert_true(found > 0);
}

// A guarded load is zero outside its bounds, so zero is not selected around it once more.
static void zeros_of_a_pad_are_those_of_its_loads(void **state) {
    (void)state;
    assert_texts("between borders", " : 0;", " : 0.0");
}

// A bound that one index passes is a test for equality, not one from either side.
static void one_index_is_tested_once(void **state) {
    (void)state;
    assert_texts("between zeros", " == 1;", " >= ");
}

// What bounds say of a row is known below them: no remainder finds it.
static void a_row_within_bounds_is_not_divided(void **state) {
    (void)state;
    assert_texts("below a border", ">= 1", "%4");
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(kernels_agree_with_the_evaluator, compile_all, unload_all),
        cmocka_unit_test(a_table_read_by_minima_is_not_stored),
        cmocka_unit_test(zeros_of_a_pad_are_those_of_its_loads),
        cmocka_unit_test(one_index_is_tested_once),
        cmocka_unit_test(a_row_within_bounds_is_not_divided),
    };
    return KERNEL_SUITE(tests, &dialect_c, kernel_cases);
}
