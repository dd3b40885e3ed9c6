// region_test.c - CUDA kernels against the reference evaluator, without a card: every kernel case
// (the op table's rows, reductions, moves, draws, norms) is run on the shim, twice with different
// numbers of blocks, and compared with its graph evaluated node by node.
#include "shim_region.h"

#include <setjmp.h>

#include <cmocka.h>
#include "cases.h"
#include "kernel_runs.h"

static Arena arena;
static ShimPlans shim;
static Cases cases = {.arena = &arena, .dialect = &dialect_cuda};

static int compile_all(void **state) {
    (void)state;
    assert_int_equal(arena_init(&arena, 0), GAN_OK);
    kernel_cases(&cases);
    shim_plans_begin(&shim, &arena, 1);
    for (uint32_t i = 0; i < cases.at.n; i++)
        shim_plans_add(&shim, &cases.at.at[i]->plan);
    shim_plans_compile(&shim);
    return 0;
}

static int release_all(void **state) {
    (void)state;
    shim_plans_end(&shim);
    arena_release(&arena);
    return 0;
}

static void run_region(void *user, const Plan *p, const Region *r, void *const *at,
                       const Counters *c) {
    (void)user;
    shim_regions_twice(&shim, p, &(ShimRegion){r, at}, 1, c);
}

static void kernels_agree_with_the_evaluator(void **state) {
    (void)state;
    if (!shim.code)
        skip();
    for (uint32_t i = 0; i < cases.at.n; i++) {
        Arena mark = arena;
        shim.what = cases.at.at[i]->name;
        kernel_case_run(&arena, cases.at.at[i], run_region, NULL);
        arena = mark;
    }
    print_message("%u cases\n", cases.at.n);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(kernels_agree_with_the_evaluator),
    };
    if (CASES_LISTED(tests))
        return 0;
    return cmocka_run_group_tests(tests, compile_all, release_all);
}
