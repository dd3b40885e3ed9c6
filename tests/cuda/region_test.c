// region_test.c - CUDA kernels against the reference evaluator, without a card: every kernel case
// (the op table's rows, reductions, moves, random draws, norms) runs on the emulator, twice with
// different numbers of blocks, and is compared with its graph evaluated node by node.
#include "shim_cases.h"

#include <setjmp.h>
#include <string.h>

#include <cmocka.h>
#include "cases.h"

static Arena arena;
static Cases cases = {.arena = &arena, .dialect = &dialect_cuda};

static int plan_all(void **state) {
    (void)state;
    assert_int_equal(arena_init(&arena, 0), GAN_OK);
    kernel_cases(&cases);
    return 0;
}

static int release_all(void **state) {
    (void)state;
    arena_release(&arena);
    return 0;
}

static void kernels_agree_with_the_evaluator(void **state) {
    (void)state;
    shim_cases_run(&cases);
}

// Their cases are large enough for it to be faster (team.c).
static void scatters_index_their_rows(void **state) {
    (void)state;
    for (uint32_t i = 0; i < cases.at.n; i++) {
        const Case *c = cases.at.at[i];
        bool indexed = strncmp(c->name, "scatter ", 8) != 0;
        for (uint32_t k = 0; k < c->plan.kernel.n; k++)
            indexed |= strstr(str_z(&arena, c->plan.kernel.at[k].source), "gan_table<") != NULL;
        if (!indexed)
            fail_msg("%s: no kernel indexes the rows", c->name);
    }
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(kernels_agree_with_the_evaluator),
        cmocka_unit_test(scatters_index_their_rows),
    };
    if (CASES_LISTED(tests))
        return 0;
    return cmocka_run_group_tests(tests, plan_all, release_all);
}
