// host_ask_test.c - several threads ask cuDNN about a plan's operations: the same engines are
// chosen, in as many questions, as where one thread asks all; also where the others cannot.
#define _GNU_SOURCE
#include "host_run.h"
#include "trial.h"

#include <setjmp.h>
#include <cmocka.h>
#include "cases.h"
#include <string.h>

#define MODELS ROOT_DIR "/models"

enum { Steps = 2 };

typedef struct Seen {
    uint64_t questions, calls;
    Str names; // of all library calls, in order
} Seen;

static Seen run_model(Run *run, int threads, Mishap mishap, Arena *a) {
    const DeviceOptions o = {.threads = threads};
    Text names = {.arena = a};
    Seen s = {0};
    assert_fine(open_run(run, &o));
    recorder_mishap(run->r, mishap, 0);
    assert_fine(exec_init(run->exec, 7));
    assert_fine(do_steps(run, 0, 1));
    uint32_t from = recorder_work(run->r)->n; // engines have been timed
    assert_fine(do_steps(run, 1, 1 + Steps));
    const WorkVec *w = recorder_work(run->r);
    for (uint32_t i = from; i < w->n; i++) {
        s.calls += w->at[i].kind == WorkLibrary;
        text_fmt(&names, "%s %u\n", w->at[i].name, w->at[i].access.n);
    }
    s.names = text_str(&names);
    s.questions = record_dnn_queries();
    close_run(run);
    assert_clean(run->r, "engines asked for by several threads");
    free_run(run);
    return s;
}

static void check(const char *model, int threads, Mishap mishap) {
    Arena a;
    assert_fine(arena_init(&a, 0));
    Seen one = run_model(new_run(MODELS, str_c(model), DtF32, NULL), 1, MishapNone, &a);
    Seen more = run_model(new_run(MODELS, str_c(model), DtF32, NULL), threads, mishap, &a);
    assert_true(one.calls > 0 && one.questions > 0);
    assert_int_equal(one.questions, more.questions);
    assert_int_equal(one.calls, more.calls);
    assert_true(str_eq(one.names, more.names));
    arena_release(&a);
}

static void threads_choose_what_one_does(void **state) {
    (void)state;
    check("dcgan.gan", 2, MishapNone);
    check("dcgan.gan", 8, MishapNone);
    check("aae3d.gan", 8, MishapNone); // products tried as convolutions, epilogues
}

static void who_gets_no_handle_leaves_its_questions(void **state) {
    (void)state;
    check("dcgan.gan", 4, MishapNoHandle);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(threads_choose_what_one_does),
        cmocka_unit_test(who_gets_no_handle_leaves_its_questions),
    };
    if (CASES_LISTED(tests))
        return 0;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
