// kernel_suite.h - main of a test program whose tests share one set of kernel cases.
#ifndef GAN_TEST_KERNEL_SUITE_H
#define GAN_TEST_KERNEL_SUITE_H

#include "kernel_cases.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include "cases.h"

static Arena arena;
static Cases cases = {.arena = &arena};
static void (*make_cases)(Cases *out);

static inline int suite_open(void **state) {
    (void)state;
    assert_int_equal(arena_init(&arena, 0), GAN_OK);
    make_cases(&cases);
    return 0;
}

static inline int suite_close(void **state) {
    (void)state;
    arena_release(&arena);
    return 0;
}

// What main returns: the number of tests that failed. `make` adds the cases, in `dialect`.
static inline int kernel_suite(int argc, char **argv, const struct CMUnitTest *tests, size_t n,
                               const Dialect *dialect, void (*make)(Cases *out)) {
    if (cases_listed(argc, argv, tests, n))
        return 0;
    cases.dialect = dialect;
    make_cases = make;
    return _cmocka_run_group_tests("tests", tests, n, suite_open, suite_close);
}
#define KERNEL_SUITE(tests, dialect, make)                                                         \
    kernel_suite(argc, argv, tests, sizeof(tests) / sizeof *(tests), dialect, make)

#endif
