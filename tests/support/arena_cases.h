// arena_cases.h - cases.h, for cases that each work in a copy of one empty arena: a copy of their
// own, or with set_up the file's.
#ifndef GAN_ARENA_CASES_H
#define GAN_ARENA_CASES_H

#include "base.h"
#include "cases.h"

static Arena empty;
static Arena arena; // emptied by set_up

static inline int set_up(void **state) {
    (void)state;
    arena = empty;
    return 0;
}

// What main returns: the number of cases that failed, or 1 when the arena is refused its memory,
// `bytes` of it (arena_init).
static inline int arena_cases(int argc, char **argv, const struct CMUnitTest *tests, size_t n,
                              size_t bytes) {
    if (cases_listed(argc, argv, tests, n))
        return 0;
    if (arena_init(&empty, bytes) != GAN_OK)
        return 1;
    int failures = _cmocka_run_group_tests("tests", tests, n, NULL, NULL);
    arena_release(&empty);
    return failures;
}
#define ARENA_CASES(tests, bytes)                                                                  \
    arena_cases(argc, argv, tests, sizeof(tests) / sizeof *(tests), bytes)

#endif
