// host_epilogue_test.c - operations after a convolution become its epilogue where cuDNN offers
// that and it pays, and a kernel of their own elsewhere: counted with the mock driver (record.h),
// whose cuDNN has relu ready, compiles leaky relu and refuses tanh.
#define _GNU_SOURCE
#include "host_run.h"
#include "trial.h"

#include <setjmp.h>
#include <cmocka.h>
#include "cases.h"
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// `layer`: before the activation. `extent`: of the images.
static Run *run_of(const char *layer, const char *act, int extent) {
    Run *run = new_bare();
    Str text = str_format(&run->arena,
                          "model m\n"
                          "data x : image(3, %d, %d)\n"
                          "net D(x: [3, %d, %d]) -> [] { x |> %s(16, k=3, pad=1) |> %s\n"
                          "  |> conv(1, k=3, pad=1) |> mean(space) |> squeeze }\n"
                          "step { update D minimize mean(D(x)^2) using sgd(0.1) }\n",
                          extent, extent, extent, extent, layer, act);
    compile_model(run, "m.gan", text, DtF32, NULL);
    return run;
}

typedef struct Count {
    uint32_t launches, calls, epilogues; // of two steps
} Count;

static Count count(const Recorder *r) {
    Count c = {0};
    const WorkVec *w = recorder_work(r);
    for (uint32_t i = 0; i < w->n; i++) {
        c.launches += w->at[i].kind == WorkLaunch;
        c.calls += w->at[i].kind == WorkLibrary;
        c.epilogues += w->at[i].kind == WorkLibrary && strstr(w->at[i].name, "epilogue");
    }
    return c;
}

// Calls of the step that the device says have absorbed what follows them.
static uint32_t absorbed(const Run *run) {
    uint32_t n = 0;
    for (uint32_t r = 0; r < run->compiled.step.region.n; r++)
        n += exec_absorbs(run->exec, r);
    return n;
}

static Count count_run(Run *run, const char *act) {
    const DeviceOptions o = {.threads = 1};
    assert_fine(open_run(run, &o));
    assert_fine(exec_init(run->exec, 7));
    assert_fine(do_steps(run, 0, 1));
    Count timed = count(run->r); // includes engines timed while loading the plan
    assert_fine(do_steps(run, 1, 3));
    Count all = count(run->r);
    assert_int_equal(2 * absorbed(run), all.epilogues - timed.epilogues);
    close_run(run);
    assert_clean(run->r, act);
    free_run(run);
    return (Count){all.launches - timed.launches, all.calls - timed.calls,
                   all.epilogues - timed.epilogues};
}

static Count count_steps(const char *layer, const char *act, int extent) {
    return count_run(run_of(layer, act, extent), act);
}

static void ready_epilogues_are_absorbed(void **state) {
    (void)state;
    Count relu = count_steps("conv", "relu", 8), tanh = count_steps("conv", "tanh", 8);
    assert_int_equal(relu.calls, tanh.calls);
    assert_int_equal(relu.epilogues, 2);
    assert_int_equal(tanh.epilogues, 0);
    assert_int_equal(relu.launches + 2, tanh.launches);
}

static void compiled_epilogues_are_absorbed_where_it_pays(void **state) {
    (void)state;
    assert_int_equal(count_steps("conv", "leaky_relu(0.2)", 8).epilogues, 0);
    assert_int_equal(count_steps("conv", "leaky_relu(0.2)", 512).epilogues, 2);
}

// A transposed convolution is an input gradient, for which there are no prebuilt engines.
static void epilogues_of_transposed_convolutions_are_absorbed(void **state) {
    (void)state;
    Count small = count_steps("conv_transpose", "relu", 8);
    Count large = count_steps("conv_transpose", "relu", 512);
    assert_int_equal(small.epilogues, 0);
    assert_int_equal(large.epilogues, 2);
    assert_int_equal(large.calls, small.calls);
    Count tanh = count_steps("conv_transpose", "tanh", 512);
    assert_int_equal(tanh.epilogues, 0);
    assert_int_equal(large.launches + 2, tanh.launches);
}

// An engine that takes longer than a plain one and the epilogue's own kernel together.
static void slow_engines_do_not_absorb(void **state) {
    (void)state;
    Run *run = run_of("conv", "relu", 8);
    recorder_slow_epilogues(run->r);
    Count slow = count_run(run, "relu"), quick = count_steps("conv", "relu", 8);
    assert_int_equal(slow.epilogues, 0);
    assert_int_equal(slow.calls, quick.calls);
    assert_int_equal(slow.launches, quick.launches + 2);
}

static Run *run_of_groups(int groups) {
    Run *run = new_bare();
    Str text = str_format(&run->arena,
                          "model m\n"
                          "data x : image(3, 8, 8)\n"
                          "net D(x: [3, 8, 8]) -> [] { x |> conv(16, k=3, pad=1)\n"
                          "  |> conv(16, k=3, pad=1, groups=%d) |> relu\n"
                          "  |> conv(1, k=3, pad=1) |> mean(space) |> squeeze }\n"
                          "step { update D minimize mean(D(x)^2) using sgd(0.1) }\n",
                          groups);
    compile_model(run, "m.gan", text, DtF32, NULL);
    return run;
}

static Count count_groups(int groups, bool slow) {
    Run *run = run_of_groups(groups);
    if (slow)
        recorder_slow_engines(run->r);
    return count_run(run, "relu");
}

// Of several groups, with four channels at a time or of one each, all three products.
static void slow_engines_of_groups_give_way_to_kernels(void **state) {
    (void)state;
    static const int groups[] = {4, 16};
    for (size_t i = 0; i < 2; i++) {
        Count quick = count_groups(groups[i], false), slow = count_groups(groups[i], true);
        assert_int_equal(slow.calls, quick.calls - 2 * 3);
        assert_true(slow.launches >= quick.launches + 2 * 3);
        assert_int_equal(slow.epilogues, quick.epilogues - 2);
    }
    Count quick = count_groups(8, false), slow = count_groups(8, true); // two channels each
    assert_int_equal(slow.calls, quick.calls);
    quick = count_groups(1, false), slow = count_groups(1, true);
    assert_int_equal(slow.calls, quick.calls);
}

static void without_cudnn_kernels_compute_epilogues(void **state) {
    (void)state;
    const DeviceOptions o = {.threads = 1};
    Run *run = run_of("conv", "relu", 8);
    recorder_without_dnn(run->r, "none");
    assert_fine(do_all(run, &o, 2));
    assert_int_equal(count(run->r).calls, 0);
    close_run(run);
    assert_clean(run->r, "without cuDNN");
    free_run(run);
}

// As in host_failure_test.c, for calls that concern epilogues.
static void an_error_at_any_call_ends_cleanly(void **state) {
    (void)state;
    const DeviceOptions o = {.threads = 1};
    Run *run = run_of("conv", "relu", 8);
    assert_fine(do_all(run, &o, 2));
    uint64_t calls = recorder_calls(run->r), got_over = 0;
    close_run(run);
    recorder_free(run->r);
    Arena checkpoint = run->arena;
    for (uint64_t n = 1; n <= calls; n++) {
        run->r = recorder_new(CARD);
        recorder_mishap(run->r, MishapOnce, n);
        GanStatus st = do_all(run, &o, 2);
        if (st != GAN_OK && st != GAN_ERR_DEVICE)
            fail_msg("call %llu: status %d: %s", (unsigned long long)n, (int)st, gan_error());
        got_over += st == GAN_OK && !count(run->r).epilogues; // a separate kernel did it
        close_run(run);
        assert_clean(run->r, gan_error());
        recorder_free(run->r);
        run->arena = checkpoint;
    }
    assert_true(got_over > 10);
    run->r = recorder_new(CARD);
    free_run(run);
}

// --- what the library refuses --------------------------------------------------------------------

static void clear_folder(Arena a, Str dir) {
    StrVec names = {0};
    assert_fine(dir_list(&a, dir, &names));
    for (uint32_t i = 0; i < names.n; i++)
        file_remove(path_join(&a, dir, names.at[i]));
}

// Of a new process: how often the heuristics are asked.
static uint64_t queries_of(Run *run, const DeviceOptions *o, const char *card) {
    Arena checkpoint = run->arena;
    recorder_free(run->r);
    run->r = recorder_new(CARD);
    if (card)
        recorder_card(run->r, card);
    assert_fine(do_all(run, o, 1));
    uint64_t n = recorder_dnn_queries(run->r);
    close_run(run);
    assert_clean(run->r, "refusals");
    run->arena = checkpoint;
    return n;
}

// A refusal of an epilogue is kept as engines are, and holds under the same conditions.
static void refusals_are_cached(void **state) {
    (void)state;
    char dir[] = "/tmp/gan-refusals-XXXXXX";
    assert_non_null(mkdtemp(dir));
    DeviceOptions o = {.threads = 1, .cache_dir = str_c(dir)};
    Run *run = run_of("conv", "tanh", 8);
    uint64_t first = queries_of(run, &o, NULL);
    assert_true(first > 0);
    assert_int_equal(queries_of(run, &o, NULL), 0);
    assert_int_equal(queries_of(run, &o, "another card"), first);
    o.no_tf32 = true;
    assert_true(queries_of(run, &o, NULL) > 0);
    assert_int_equal(queries_of(run, &o, NULL), 0);
    clear_folder(run->arena, str_c(dir));
    assert_int_equal(rmdir(dir), 0);
    free_run(run);
}

// An error while the heuristics are asked, or an engine is tried, is no refusal: whatever call
// failed in one process, the next one has the epilogue.
static void errors_are_not_cached(void **state) {
    (void)state;
    enum { STRIDE = 7 }; // of the calls that fail: of each kind there are many
    char dir[] = "/tmp/gan-errors-XXXXXX";
    assert_non_null(mkdtemp(dir));
    const DeviceOptions o = {.threads = 1, .cache_dir = str_c(dir)};
    Run *run = run_of("conv", "relu", 8);
    Arena checkpoint = run->arena;
    assert_fine(do_all(run, &o, 1));
    uint64_t calls = recorder_calls(run->r);
    close_run(run);
    run->arena = checkpoint;
    for (uint64_t n = 1; n <= calls; n += STRIDE) {
        clear_folder(run->arena, str_c(dir));
        for (int i = 0; i < 2; i++) {
            recorder_free(run->r);
            run->r = recorder_new(CARD);
            recorder_mishap(run->r, i ? MishapNone : MishapOnce, n);
            GanStatus st = do_all(run, &o, 1);
            if (i)
                assert_fine(st);
            if (i && !count(run->r).epilogues)
                fail_msg("call %llu failed, and the epilogue is lost", (unsigned long long)n);
            close_run(run);
            run->arena = checkpoint;
        }
    }
    clear_folder(run->arena, str_c(dir));
    assert_int_equal(rmdir(dir), 0);
    free_run(run);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ready_epilogues_are_absorbed),
        cmocka_unit_test(compiled_epilogues_are_absorbed_where_it_pays),
        cmocka_unit_test(epilogues_of_transposed_convolutions_are_absorbed),
        cmocka_unit_test(slow_engines_do_not_absorb),
        cmocka_unit_test(slow_engines_of_groups_give_way_to_kernels),
        cmocka_unit_test(without_cudnn_kernels_compute_epilogues),
        cmocka_unit_test(an_error_at_any_call_ends_cleanly),
        cmocka_unit_test(refusals_are_cached),
        cmocka_unit_test(errors_are_not_cached),
    };
    if (CASES_LISTED(tests))
        return 0;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
