// host_failure_test.c - failures of a card, with the mock driver (record.h): an error at every
// call, failing kernels, machines without a suitable card, a run that is interrupted and resumed.
#define _GNU_SOURCE
#include "host_run.h"
#include "checkpoint.h"
#include "commands.h"
#include "process.h"
#include "trial.h"

#include <setjmp.h>
#include <cmocka.h>
#include "cases.h"
#include <stdlib.h>
#include <string.h>

// --- what may go wrong ---------------------------------------------------------------------------

static void a_machine_without_a_suitable_card_is_reported(void **state) {
    (void)state;
    static const struct {
        Mishap mishap;
        const char *says;
    } cases[] = {
        {MishapNoCard, "finds no card"},
        {MishapOldDriver, "the NVIDIA driver is for CUDA 11.4"},
        {MishapOldCard, "compute capability 6.0"},
        {MishapOnce, "starting the driver failed: a recorded error"}, // the first call
    };
    const DeviceOptions o = {.threads = 1};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        Run *run = new_bare();
        Device *d = NULL;
        recorder_mishap(run->r, cases[i].mishap, 1);
        assert_int_equal(cuda_open_with(recorder_api(run->r), &o, &d), GAN_ERR_DEVICE);
        assert_null(d);
        if (!strstr(gan_error(), cases[i].says) || !strstr(gan_error(), "--device cpu works here"))
            fail_msg("not `%s`: %s", cases[i].says, gan_error());
        assert_clean(run->r, cases[i].says);
        free_run(run);
    }
}

// The plan has code for other architectures: the message names them and how to compile for this
// one.
static void code_of_another_card_is_refused(void **state) {
    (void)state;
    const DeviceOptions o = {.threads = 1};
    Run *run = new_tiny();
    recorder_mishap(run->r, MishapOtherCode, 0);
    assert_int_equal(do_all(run, &o, 1), GAN_ERR_DEVICE);
    assert_non_null(strstr(gan_error(), "the compiled kernels are not for"));
    assert_non_null(strstr(gan_error(), "--target cuda:sm_90"));
    close_run(run);
    assert_clean(run->r, "other code");
    free_run(run);
}

static void an_error_at_any_call_ends_cleanly(void **state) {
    (void)state;
    sweep_calls(new_tiny(), &(DeviceOptions){.threads = 1}, MishapOnce, do_all);
}

static void a_broken_context_at_any_call_ends_cleanly(void **state) {
    (void)state;
    sweep_calls(new_tiny(), &(DeviceOptions){.threads = 1}, MishapSticky, do_all);
}

static void a_broken_kernel_is_named(void **state) {
    (void)state;
    for (int no_graph = 0; no_graph < 2; no_graph++) {
        const DeviceOptions o = {.threads = 1, .no_graph = no_graph};
        Run *run = new_tiny();
        assert_fine(open_run(run, &o));
        assert_fine(exec_init(run->exec, 7));
        assert_fine(do_steps(run, 0, 3));
        recorder_mishap(run->r, MishapKernel, 5);
        assert_int_equal(do_steps(run, 3, 4), GAN_ERR_DEVICE);
        const char *said = gan_error();
        if (!strstr(said, "step 3, ") || !strstr(said, "tiny.gan:") ||
            !strstr(said, "illegal memory access") ||
            (strstr(said, "--no-graph") == NULL) != no_graph)
            fail_msg("no_graph %d: %s", no_graph, said);
        close_run(run);
        assert_clean(run->r, "a broken kernel");
        free_run(run);
    }
}

// Error codes that lose the context: the message names the launches that can have caused the error.
// For other codes it does not.
static void every_code_of_a_lost_context_names_its_launches(void **state) {
    (void)state;
    static const struct {
        int code;
        bool lost;
    } cases[] = {{214, true}, {220, true}, {226, true},  {700, true}, {702, true}, {710, true},
                 {714, true}, {715, true}, {716, true},  {717, true}, {718, true}, {719, true},
                 {721, true}, {2, false},  {400, false}, {999, false}};
    const DeviceOptions o = {.threads = 1};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        Run *run = new_tiny();
        assert_fine(open_run(run, &o));
        assert_fine(exec_init(run->exec, 7));
        assert_fine(do_steps(run, 0, 3));
        recorder_loss(run->r, (CUresult)cases[i].code);
        recorder_mishap(run->r, MishapKernel, 5);
        assert_true(do_steps(run, 3, 4) != GAN_OK);
        if ((strstr(gan_error(), "tiny.gan:") != NULL) != cases[i].lost)
            fail_msg("code %d: %s", cases[i].code, gan_error());
        close_run(run);
        assert_clean(run->r, "a lost context");
        free_run(run);
    }
}

// --- a card that breaks under a run --------------------------------------------------------------

static const char points[] = "model points\n"
                             "data x : float(2) scale(-1, 1)\n"
                             "net D(x: [2]) -> [] { x |> dense(1) |> squeeze }\n"
                             "opt = adam(lr=1e-3)\n"
                             "step { update D minimize mean((D(x) - normal())^2) using opt }\n";

// Each round's batch overwrites the last one's, which an earlier launch may still be reading.
static const char rounds[] = "model points\n"
                             "data x : float(2) scale(-1, 1)\n"
                             "net D(x: [2]) -> [] { x |> dense(1) |> squeeze }\n"
                             "opt = adam(lr=1e-3)\n"
                             "step { repeat 3 { next x; far = every 2 { mean(D(x)^2) }\n"
                             "  update D minimize mean((D(x) - normal())^2) + far using opt } }\n";

static bool never(void) {
    return false;
}

static void silent(void *user, Str text) {
    (void)user, (void)text;
}

// Seven steps with a save after the fourth and the last.
static GanStatus train_text(Arena *a, const char *text, const char *root, const char *dir,
                            bool resume) {
    float x[40] = {0};
    DeviceApi api = recorded_device();
    Str data = path_join(a, str_c(root), STR("points.npy"));
    assert_fine(npy_write_f32(data, x, 2, (int64_t[]){20, 2}));
    Host host = {.console = {.result = silent, .say = silent, .live = silent},
                 .device = {.threads = 1},
                 .stop_asked = never};
    Job job = {.model = path_join(a, str_c(root), STR("points.gan")),
               .batch = 4,
               .steps = 7,
               .save_every = 4,
               .real = DtF32,
               .device = STR("cuda")};
    job.origin = job.model;
    assert_fine(file_write_atomic(job.model, text, strlen(text)));
    vec_push(a, &job.data, ((Setting){STR("x"), data}));
    assert_fine(job_hash(&job, NULL, a, &job.hash));
    const TrainOptions o = {path_join(a, str_c(root), str_c(dir)), .resume = resume, .api = &api};
    return train_run(a, &host, &job, &o);
}

static GanStatus train_points(Arena *a, const char *root, const char *dir, bool resume) {
    return train_text(a, points, root, dir, resume);
}

static uint64_t launches(const Recorder *r) {
    const WorkVec *w = recorder_work(r);
    uint64_t n = 0;
    for (uint32_t i = 0; i < w->n; i++)
        n += w->at[i].kind == WorkLaunch;
    return n;
}

static void remove_folder(Arena *a, const char *root) {
    const char *const argv[] = {"rm", "-rf", root, NULL};
    Str said;
    int code;
    assert_fine(process_run(a, argv, &said, &code));
}

// A batch for each round, first read in a branch: none overwrites one that is still being read.
static void a_batch_is_not_replaced_while_it_is_read(void **state) {
    (void)state;
    char root[] = "/tmp/gan-host-test-XXXXXX";
    assert_non_null(mkdtemp(root));
    Run *run = new_bare();
    Str said, path = path_join(&run->arena, str_c(root), STR("rounds/ckpt/00000007.json"));
    assert_fine(train_text(&run->arena, rounds, root, "rounds", false));
    assert_clean(run->r, "a run with a batch a round");
    assert_fine(file_read(&run->arena, path, &said));
    assert_non_null(strstr(str_z(&run->arena, said), "\"batches\": [21]"));
    remove_folder(&run->arena, root);
    free_run(run);
}

// The message names step and line, earlier checkpoints are intact, and the run resumes from them.
static void a_failing_card_costs_the_steps_since_the_last_save(void **state) {
    (void)state;
    char root[] = "/tmp/gan-host-test-XXXXXX";
    assert_non_null(mkdtemp(root));
    Run *run = new_bare();
    assert_fine(train_points(&run->arena, root, "whole", false));
    uint64_t all = launches(run->r);
    assert_clean(run->r, "a run");
    free_run(run);

    CheckpointSteps steps = {0};
    run = new_bare();
    Str dir = path_join(&run->arena, str_c(root), STR("broken"));
    recorder_mishap(run->r, MishapKernel, all - 1); // of the last step
    assert_int_equal(train_points(&run->arena, root, "broken", false), GAN_ERR_DEVICE);
    if (!strstr(gan_error(), "step 6, ") || !strstr(gan_error(), "points.gan:5") ||
        !strstr(gan_error(), "illegal memory access"))
        fail_msg("%s", gan_error());
    assert_clean(run->r, "a broken run");
    assert_fine(checkpoint_steps(&run->arena, dir, &steps));
    assert_int_equal(steps.n, 1);
    assert_int_equal(steps.at[0], 4);
    free_run(run);

    run = new_bare(); // the device again, as after a restart
    steps = (CheckpointSteps){0};
    assert_fine(train_points(&run->arena, root, "broken", true));
    assert_fine(
        checkpoint_steps(&run->arena, path_join(&run->arena, str_c(root), STR("broken")), &steps));
    assert_int_equal(steps.at[steps.n - 1], 7);
    remove_folder(&run->arena, root);
    free_run(run);
}

// Our own kernels replace the library: no calls of it, and no races. Whether there is none, or one
// that cannot be opened, the notice says why.
static void without_cudnn_kernels_of_ours_run(void **state) {
    (void)state;
    static const char *const says[] = {
        "cuDNN cannot be used (it is built for CUDA 14): convolutions and matrix products run on "
        "kernels of our own",
        "cuDNN cannot be used (cuDNN: opening the library failed: "};
    const DeviceOptions o = {.threads = 1, .notice = keep_notice};
    for (int i = 0; i < 2; i++) {
        Run *run = new_tiny();
        *told = 0;
        if (i == 0)
            recorder_without_dnn(run->r, "it is built for CUDA 14");
        else
            recorder_mishap(run->r, MishapNoHandle, 0);
        assert_fine(do_all(run, &o, 3));
        const WorkVec *w = recorder_work(run->r);
        for (uint32_t k = 0; k < w->n; k++)
            assert_true(w->at[k].kind != WorkLibrary);
        if (!strstr(told, says[i]))
            fail_msg("not `%s`: %s", says[i], told);
        close_run(run);
        assert_clean(run->r, "without cuDNN");
        free_run(run);
    }
}

// If an engine that the heuristics propose does not run, another is used. The message identifies it
// well enough to reproduce.
static void an_engine_that_does_not_run_is_skipped(void **state) {
    (void)state;
    const DeviceOptions o = {.threads = 1, .notice = keep_notice};
    Run *run = new_tiny();
    *told = 0;
    recorder_mishap(run->r, MishapEngine, 0);
    assert_fine(do_all(run, &o, 3));
    static const char *const says[] = {
        "cuDNN's engine 2 is skipped: cuDNN: trying an engine failed: ",
        "a recorded error: convolution of f32 [4 3 8 8] by 192 1 24 3, f32 [4 3 3 3] by ",
        "; stride 1 1, dilation 1 1, pads 1 1 and 1 1"};
    for (size_t i = 0; i < sizeof says / sizeof *says; i++)
        if (!strstr(told, says[i]))
            fail_msg("not `%s`: %s", says[i], told);
    close_run(run);
    assert_clean(run->r, "an engine that does not run");
    free_run(run);
}

// An engine that is the only one need not be compared, but it must run.
static void where_the_only_engine_does_not_run_kernels_of_ours_do(void **state) {
    (void)state;
    const DeviceOptions o = {.threads = 1};
    Run *run = new_tiny();
    recorder_mishap(run->r, MishapOneEngine, 0);
    assert_fine(do_all(run, &o, 3));
    for (uint32_t i = 0; i < recorder_work(run->r)->n; i++)
        assert_int_not_equal(recorder_work(run->r)->at[i].kind, WorkLibrary);
    close_run(run);
    assert_clean(run->r, "engines that do not run");
    free_run(run);
}

// The message of the thread that compiles beside the choice of engines; and without one.
static void kernels_that_do_not_compile_are_reported(void **state) {
    (void)state;
    const DeviceOptions o = {.threads = 1};
    for (int without_dnn = 0; without_dnn < 2; without_dnn++) {
        Run *run = new_tiny();
        recorder_refusing_kernels(run->r);
        if (without_dnn)
            recorder_without_dnn(run->r, "a test");
        assert_int_equal(do_all(run, &o, 1), GAN_ERR_DEVICE);
        assert_non_null(strstr(gan_error(), "no kernel compiles"));
        close_run(run);
        assert_clean(run->r, "kernels that do not compile");
        free_run(run);
    }
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_machine_without_a_suitable_card_is_reported),
        cmocka_unit_test(code_of_another_card_is_refused),
        cmocka_unit_test(an_error_at_any_call_ends_cleanly),
        cmocka_unit_test(a_broken_context_at_any_call_ends_cleanly),
        cmocka_unit_test(a_broken_kernel_is_named),
        cmocka_unit_test(every_code_of_a_lost_context_names_its_launches),
        cmocka_unit_test(a_batch_is_not_replaced_while_it_is_read),
        cmocka_unit_test(a_failing_card_costs_the_steps_since_the_last_save),
        cmocka_unit_test(without_cudnn_kernels_of_ours_run),
        cmocka_unit_test(an_engine_that_does_not_run_is_skipped),
        cmocka_unit_test(where_the_only_engine_does_not_run_kernels_of_ours_do),
        cmocka_unit_test(kernels_that_do_not_compile_are_reported),
    };
    if (CASES_LISTED(tests))
        return 0;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
