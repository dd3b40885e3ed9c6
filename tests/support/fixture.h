// fixture.h - what each case of a unit test gets: an arena and an empty folder of its own; and
// checks of a status. The includer defines _GNU_SOURCE, for mkdtemp.
#ifndef GAN_TEST_FIXTURE_H
#define GAN_TEST_FIXTURE_H

#include "process.h"

#include <setjmp.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#undef fail // cmocka's macro hides ours, and its fail_msg is built on it
#undef fail_msg
#define fail_msg(...) (print_error(__VA_ARGS__), print_error("\n"), _fail(__FILE__, __LINE__))

#define assert_ok(call) assert_status((call), GAN_OK, #call)
#define assert_str(s, text) assert_true(str_eq((s), str_c(text)))

static inline void assert_status(GanStatus got, GanStatus want, const char *what) {
    if (got != want)
        fail_msg("%s gave %d, not %d: %s", what, (int)got, (int)want, gan_error());
}

typedef struct Fixture {
    Arena arena;
    char root[64];
} Fixture;

static inline Str under(Fixture *p, const char *name) {
    return path_join(&p->arena, str_c(p->root), str_c(name));
}

static inline int fixture_open(void **state) {
    Fixture *p = calloc(1, sizeof *p);
    if (!p || arena_init(&p->arena, 0) != GAN_OK)
        return -1;
    snprintf(p->root, sizeof p->root, "/tmp/gan-test-XXXXXX");
    *state = p;
    return mkdtemp(p->root) ? 0 : -1;
}

// Also ends fault injection.
static inline int fixture_close(void **state) {
    Fixture *p = *state;
    mem_fail_at(0);
    file_fail_at(0);
    file_fail_read_at(0);
    const char *const argv[] = {"rm", "-rf", p->root, NULL};
    Str said;
    int code;
    GanStatus st = process_run(&p->arena, argv, &said, &code);
    arena_release(&p->arena);
    free(p);
    return st == GAN_OK && code == 0 ? 0 : -1;
}

#endif
