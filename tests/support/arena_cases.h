// arena_cases.h - cases.h, for cases that each work in a copy of one empty arena.
#ifndef GAN_ARENA_CASES_H
#define GAN_ARENA_CASES_H

#include "base.h"
#include "cases.h"

// What main returns: the number of cases that failed, or 1 when the arena is refused its memory.
static inline int arena_cases(int argc, char **argv, const struct CMUnitTest *tests, size_t n,
                              Arena *empty, size_t bytes) {
    if (cases_listed(argc, argv, tests, n))
        return 0;
    if (arena_init(empty, bytes) != GAN_OK)
        return 1;
    int failures = _cmocka_run_group_tests("tests", tests, n, NULL, NULL);
    arena_release(empty);
    return failures;
}
#define ARENA_CASES(tests, empty, bytes)                                                           \
    arena_cases(argc, argv, tests, sizeof(tests) / sizeof *(tests), empty, bytes)

#endif
