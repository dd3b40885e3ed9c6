// region_test.c - CUDA kernels against the reference evaluator, without a card: every kernel case
// (the op table's rows, reductions, moves, random draws, norms) runs on the emulator, twice with
// different numbers of blocks, and is compared with its graph evaluated node by node.
#include "kernel_suite.h"
#include "shim_cases.h"

#include <string.h>

static void kernels_agree_with_the_evaluator(void **state) {
    (void)state;
    shim_cases_run(&cases);
}

// The cases have four regions each.
static void shapes_of_teams_share_a_kernel(void **state) {
    (void)state;
    uint32_t found = 0;
    for (uint32_t i = 0; i < cases.at.n; i++) {
        const Plan *p = &cases.at.at[i]->plan;
        if (strncmp(cases.at.at[i]->name, "teams of several shapes", 23) != 0)
            continue;
        assert_int_equal(p->region.n, 4);
        assert_int_equal(p->kernel.n, 1);
        assert_true(p->kernel.at[0].open);
        assert_non_null(strstr(str_z(&arena, p->kernel.at[0].source), "gan_open_team"));
        found++;
    }
    assert_int_equal(found, 6);
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

// Calls `see` with each kernel that has `word`; fails where there is none.
static void each_kernel_with(const char *word, void (*see)(const char *name, const char *text)) {
    uint32_t n = 0;
    for (uint32_t i = 0; i < cases.at.n; i++) {
        const Case *c = cases.at.at[i];
        for (uint32_t k = 0; k < c->plan.kernel.n; k++) {
            const char *text = str_z(&arena, c->plan.kernel.at[k].source);
            if (strstr(text, word)) {
                see(c->name, text);
                n++;
            }
        }
    }
    if (!n)
        fail_msg("no kernel has `%s`", word);
}

// No load can move ahead of a store to what may be its address.
static void see_loads_first(const char *name, const char *text) {
    const char *loop = strstr(text, "for (int at = "), *store = strstr(loop, "gan_store("),
               *end = strstr(loop, "\n    }\n");
    assert_non_null(end);
    for (const char *load = loop; (load = strstr(load + 1, "gan_load")) != NULL && load < end;)
        if (store && load > store)
            fail_msg("%s: a load of a step comes behind a store of one before: %s", name, text);
}

static void loads_of_several_steps_come_first(void **state) {
    (void)state;
    each_kernel_with("for (int at = ", see_loads_first);
}

static void see_inverse_once(const char *name, const char *text) {
    const char *step = strstr(text, "team.part()"); // the loop over steps begins there
    if (strstr(step, "gan_sqrtf(") || strstr(step, "gan_inverse_of("))
        fail_msg("%s: a step computes what is the same in all: %s", name, text);
}

static void what_is_divided_by_in_all_steps_is_inverted_once(void **state) {
    (void)state;
    each_kernel_with("gan_divf_by(", see_inverse_once);
}

// A step's loads are those of all units of a tile.
static void see_shared_loads(const char *name, const char *text) {
    const char *step = strstr(text, "team.part()"), *tile = strstr(step, "for (int l = 0; l < "),
               *end = strstr(tile, "\n        }\n");
    assert_non_null(end);
    for (const char *load = tile; (load = strstr(load + 1, " = a")) != NULL && load < end;)
        fail_msg("%s: each unit of a tile loads: %s", name, text);
}

static void units_of_a_tile_share_their_loads(void **state) {
    (void)state;
    each_kernel_with("const int f1 = ", see_shared_loads);
}

// What a kernel stores and reads is small, but part of what it computes in between is not.
static void indices_of_a_large_value_that_is_not_stored_are_wide(void **state) {
    (void)state;
    static const int64_t shape[] = {100, 700, 70001}, first[3] = {0}, part[] = {100, 1, 70001};
    Cases own = {.arena = &arena, .dialect = &dialect_cuda};
    Case *c = case_begin(&own, 1, 0, "some of 70001 x 70000 numbers");
    Val x = case_input(c, type_make(false, 2, (int64_t[]){70001, 1}));
    Val y = case_input(c, type_make(false, 2, (int64_t[]){1, 70000}));
    Val all = Reshape(Mul(x, y), 3, shape);
    case_result(c, Abs(Slice(all, first, part, NULL)));
    case_finish(c, DtF32);
    assert_int_equal(c->plan.kernel.n, 1);
    const char *text = str_z(&arena, c->plan.kernel.at[0].source);
    if (!strstr(text, "const int64_t i0 = "))
        fail_msg("indices of up to 4.9e9 are int: %s", text);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(kernels_agree_with_the_evaluator),
        cmocka_unit_test(shapes_of_teams_share_a_kernel),
        cmocka_unit_test(scatters_index_their_rows),
        cmocka_unit_test(loads_of_several_steps_come_first),
        cmocka_unit_test(what_is_divided_by_in_all_steps_is_inverted_once),
        cmocka_unit_test(units_of_a_tile_share_their_loads),
        cmocka_unit_test(indices_of_a_large_value_that_is_not_stored_are_wide),
    };
    return KERNEL_SUITE(tests, &dialect_cuda, kernel_cases);
}
