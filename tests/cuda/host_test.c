// host_test.c - the host side of the cuda device against a recording driver (record.h): every
// model's steps without a race or a leak, recorded graphs that do the same work, an error at every
// call, and plants that show the recorder finds what it is for.
#define _GNU_SOURCE
#include "host_run.h"
#include "run.h"
#include "runs.h"
#include "trial.h"

#include <setjmp.h>
#include <cmocka.h>
#include "cases.h"
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MODELS ROOT_DIR "/models"

// --- every model ---------------------------------------------------------------------------------

static void check_model(Str name, Dtype real) {
    const DeviceOptions o = {.threads = 1};
    Run *run = new_run(MODELS, name, real, NULL);
    const char *z = str_z(&run->arena, name);
    if (do_all(run, &o, 3) != GAN_OK)
        fail_msg("%s: %s", z, gan_error());
    if (!recorder_launched_graphs(run->r))
        fail_msg("%s: no graph was launched", z);
    close_run(run);
    assert_clean(run->r, z);
    free_run(run);
}

static void every_model_runs_without_a_race_or_a_leak(void **state) {
    (void)state;
    Arena a;
    StrVec names = {0};
    uint32_t n = 0;
    assert_fine(arena_init(&a, 0));
    assert_fine(dir_list(&a, STR(MODELS), &names));
    for (uint32_t i = 0; i < names.n; i++)
        if (str_ends(names.at[i], STR(".gan")))
            check_model(names.at[i], (const Dtype[]){DtF32, DtF16, DtBF16}[n++ % 3]);
    assert_true(n >= 10);
    arena_release(&a);
}

// --- graphs --------------------------------------------------------------------------------------

static bool same_work(const Work *a, const Work *b) {
    bool same = a->kind == b->kind && !strcmp(a->name, b->name) && a->access.n == b->access.n &&
                !memcmp(&a->said, &b->said, sizeof a->said);
    for (uint32_t i = 0; same && i < a->access.n; i++)
        same = a->access.at[i].n == b->access.at[i].n &&
               a->access.at[i].write == b->access.at[i].write;
    return same;
}

// Launches and library calls alone: copies to the host, which tell how far the card is, may differ.
static uint32_t computing(Arena *a, const WorkVec *all, const Work ***out) {
    uint32_t n = 0;
    *out = arena_array(a, const Work *, all->n);
    for (uint32_t i = 0; i < all->n; i++)
        if (all->at[i].kind == WorkLaunch || all->at[i].kind == WorkLibrary)
            (*out)[n++] = &all->at[i];
    return n;
}

static WorkVec work_of(Arena *a, bool no_graph, size_t *graphs) {
    const DeviceOptions o = {.threads = 1, .no_graph = no_graph};
    WorkVec copy = {0};
    Run *run = new_tiny();
    assert_fine(do_all(run, &o, 4));
    close_run(run);
    assert_clean(run->r, "tiny");
    const WorkVec *w = recorder_work(run->r);
    for (uint32_t i = 0; i < w->n; i++) {
        Work x = w->at[i];
        x.name = str_z(a, str_c(x.name));
        x.access.at = arena_array(a, Access, x.access.n);
        memcpy(x.access.at, w->at[i].access.at, x.access.n * sizeof(Access));
        vec_push(a, &copy, x);
    }
    *graphs = recorder_launched_graphs(run->r);
    free_run(run);
    return copy;
}

static void graphs_do_the_same_work_in_the_same_order(void **state) {
    (void)state;
    Arena a;
    assert_fine(arena_init(&a, 0));
    size_t graphs, none;
    const Work **x, **y;
    WorkVec with = work_of(&a, false, &graphs), without = work_of(&a, true, &none);
    assert_int_equal(none, 0);
    assert_true(graphs >= 3 * 2); // from the second time on: the repeat's rounds and the rest
    uint32_t n = computing(&a, &with, &x), m = computing(&a, &without, &y), recorded = 0;
    assert_int_equal(n, m);
    for (uint32_t i = 0; i < n; i++) {
        recorded += x[i]->recorded;
        assert_false(y[i]->recorded);
        if (!same_work(x[i], y[i]))
            fail_msg("work %u: %s with graphs, %s without", i, x[i]->name, y[i]->name);
    }
    assert_true(recorded > n / 2);
    arena_release(&a);
}

// Steps and rounds as a launch finds them in memory, recorded launches too.
static void counters_are_true_at_every_launch(void **state) {
    (void)state;
    const DeviceOptions o = {.threads = 1};
    Run *run = new_tiny();
    assert_fine(open_run(run, &o));
    assert_fine(exec_init(run->exec, 7));
    for (uint32_t step = 0; step < 4; step++) {
        uint32_t from = recorder_work(run->r)->n, seen = 0;
        assert_fine(do_steps(run, step, step + 1));
        const WorkVec *w = recorder_work(run->r);
        for (uint32_t i = from; i < w->n; i++) {
            if (w->at[i].kind != WorkLaunch)
                continue;
            assert_int_equal(w->at[i].said.step, step);
            assert_int_equal(w->at[i].said.seed, 7);
            assert_true(w->at[i].said.round < 2);
            seen |= 1u << w->at[i].said.round;
        }
        assert_int_equal(seen, 3);
    }
    close_run(run);
    assert_clean(run->r, "tiny");
    free_run(run);
}

static GanStatus after_block(void *user, Exec *e, uint32_t block, uint32_t round) {
    return meter_block(user, e, block, round);
}

// Steps as training makes them: numbers are looked at when later steps have been given out.
static void metered_steps(Run *run, Meter *m, uint32_t from, uint32_t to) {
    const ExecHooks hooks = {.after = after_block, .user = m};
    for (uint32_t step = from; step < to; step++) {
        Counters c = {.step = step, .seed = 7};
        meter_begin(m, step);
        assert_fine(put_data(run));
        assert_fine(exec_step(run->exec, &c, &hooks));
        if (step >= m->ahead)
            assert_fine(meter_take(m, run->exec, step - m->ahead));
    }
}

static uint64_t launches_of(const Recorder *r, uint32_t from, uint32_t *copies) {
    const WorkVec *w = recorder_work(r);
    uint64_t n = 0;
    *copies = 0;
    for (uint32_t i = from; i < w->n; i++) {
        n += w->at[i].kind == WorkLaunch;
        *copies += w->at[i].kind == WorkCopy && w->at[i].host_from;
    }
    return n;
}

// Fifty steps whose rate falls from step to step: no graph is made after the second step, the host
// waits for nothing younger than a step, and of each step no more crosses than its data, its
// counters and the numbers that change.
static const char falling[] =
    "model falling\n"
    "data x : image(1, 8, 8) scale(-1, 1)\n"
    "net G(z: [4]) -> [1, 8, 8] { z |> dense(64) |> reshape(1, 8, 8) |> tanh }\n"
    "net D(x: [1, 8, 8]) -> [] { x |> conv(4, k=3, pad=1) |> leaky_relu(0.2) |> flatten |> "
    "dense(1) |> squeeze }\n"
    "opt = adam(lr=cosine(1e-3, 1e-5, to=40))\n"
    "step {\n"
    "  update D minimize bce(D(x), 1) + bce(D(G(normal(4))), 0) using opt\n"
    "  update G minimize bce(D(G(normal(4))), 1) using opt\n"
    "}\n";

static void steps_follow_each_other_without_waiting(void **state) {
    (void)state;
    for (int no_graph = 0; no_graph < 2; no_graph++) {
        const DeviceOptions o = {.threads = 1, .no_graph = no_graph};
        Run *run = new_bare();
        Meter m;
        uint32_t copies, again;
        compile_model(run, "falling.gan", STR(falling), DtF32, NULL);
        assert_fine(open_run(run, &o));
        assert_fine(exec_init(run->exec, 7));
        meter_init(&run->arena, &run->compiled.module, &m);
        meter_ahead(&m, run->exec);
        assert_int_equal(m.ahead, METER_AHEAD);
        metered_steps(run, &m, 0, 5);
        uint32_t from = recorder_work(run->r)->n;
        uint64_t made = recorder_made_graphs(run->r);
        metered_steps(run, &m, 5, 6);
        uint64_t a_step = launches_of(run->r, from, &copies);
        assert_true(a_step > 5 && copies > 0 && copies < 8);
        (void)recorder_nearest_wait(run->r);
        metered_steps(run, &m, 6, 50);
        assert_true(recorder_nearest_wait(run->r) >= a_step);
        assert_int_equal(recorder_made_graphs(run->r), made);
        assert_int_equal(made == 0, no_graph);
        assert_int_equal(launches_of(run->r, from, &again), 45 * a_step);
        assert_int_equal(again, 45 * copies);
        assert_fine(exec_wait(run->exec)); // which the recorder does see
        assert_int_equal(recorder_nearest_wait(run->r), 0);
        close_run(run);
        assert_clean(run->r, "falling");
        free_run(run);
    }
}

// What won the timing is kept on disk: the second time nothing is timed, and a damaged file is
// found out.
static void engines_that_won_are_kept(void **state) {
    (void)state;
    char dir[] = "/tmp/gan-engines-XXXXXX";
    assert_non_null(mkdtemp(dir));
    const DeviceOptions o = {.threads = 1, .cache_dir = str_c(dir)};
    Run *run = new_tiny();
    StrVec names = {0};
    uint64_t calls[3];
    recorder_free(run->r);
    Arena checkpoint = run->arena;
    for (int i = 0; i < 3; i++) {
        run->r = recorder_new(CARD);
        assert_fine(do_all(run, &o, 2));
        calls[i] = recorder_calls(run->r);
        close_run(run);
        assert_clean(run->r, "engines");
        recorder_free(run->r);
        run->arena = checkpoint;
        if (i == 1) { // one of them is cut off
            assert_fine(dir_list(&run->arena, str_c(dir), &names));
            assert_true(names.n > 3);
            assert_fine(file_write_atomic(path_join(&run->arena, str_c(dir), names.at[0]), "{", 1));
        }
    }
    assert_true(calls[1] < calls[0] / 2);
    assert_true(calls[2] > calls[1] && calls[2] < calls[0]);
    names = (StrVec){0};
    assert_fine(dir_list(&run->arena, str_c(dir), &names));
    for (uint32_t i = 0; i < names.n; i++)
        file_remove(path_join(&run->arena, str_c(dir), names.at[i]));
    assert_int_equal(rmdir(dir), 0);
    run->r = recorder_new(CARD);
    free_run(run);
}

// --- memory --------------------------------------------------------------------------------------

static void a_card_has_a_name_of_its_own(void **state) {
    (void)state;
    char name[128] = "";
    Run *run = new_bare();
    assert_fine(cuda_card_with(recorder_api(run->r), &(DeviceOptions){0}, name, sizeof name));
    assert_string_equal(name, "a recorded card (GPU-00112233-4455-6677-8899-aabbccddeeff)");
    free_run(run);
}

static void bytes_cross_and_come_back(void **state) {
    (void)state;
    const size_t sizes[] = {1, 256, 257, 100000, (8 << 20) + 3, 33 << 20};
    const DeviceOptions o = {.threads = 1};
    Run *run = new_bare();
    Device *d = NULL;
    assert_fine(cuda_open_with(recorder_api(run->r), &o, &d));
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        void *at = NULL;
        unsigned char *x = mem_alloc(sizes[i]), *y = mem_alloc(sizes[i]);
        for (size_t k = 0; k < sizes[i]; k++)
            x[k] = (unsigned char)(k * 31 + i);
        assert_fine(device_cuda.alloc(d, sizes[i], &at));
        for (int again = 0; again < 3; again++) {
            assert_fine(device_cuda.put(d, at, x, sizes[i]));
            memset(y, 0, sizes[i]);
            assert_fine(device_cuda.get(d, y, at, sizes[i]));
            assert_memory_equal(x, y, sizes[i]);
            x[0]++;
        }
        device_cuda.release(d, at);
        mem_free(x);
        mem_free(y);
    }
    for (uint32_t i = 0; i < 300; i++) // more small ones than there are places
        if (i % 2) {
            void *at = NULL;
            assert_fine(device_cuda.alloc(d, 8, &at));
            assert_fine(device_cuda.put(d, at, &i, sizeof i));
            device_cuda.release(d, at);
        }
    device_cuda.close(d);
    assert_clean(run->r, "copies");
    free_run(run);
}

static void too_much_memory_is_refused_with_what_is_missing(void **state) {
    (void)state;
    const DeviceOptions o = {.threads = 1};
    Run *run = new_bare();
    Device *d = NULL;
    void *at = NULL;
    assert_fine(cuda_open_with(recorder_api(run->r), &o, &d));
    assert_int_equal(device_cuda.alloc(d, CARD + (3 << 20), &at), GAN_ERR_MEMORY);
    assert_null(at);
    assert_non_null(strstr(gan_error(), "3.0 MiB are missing"));
    device_cuda.close(d);
    assert_clean(run->r, "too much");
    free_run(run);
}

static GanStatus open_session(Session *s, int64_t batch) {
    static DeviceApi api; // outlives the session
    api = recorded_device();
    const SessionOptions o = {
        .compile = {.path = STR(MODELS "/dcgan.gan"), .batch = batch, .real = DtF32}, .api = &api};
    return session_open(s, &o);
}

// The batch that the message names does fit, and it is not a needlessly small one.
static void a_plan_that_is_too_large_says_which_batch_fits(void **state) {
    (void)state;
    Session s;
    recorder_new((size_t)200 << 20);
    assert_int_equal(open_session(&s, 128), GAN_ERR_MEMORY);
    const char *fits = strstr(gan_error(), "; --batch ");
    assert_non_null(strstr(gan_error(), "MiB are missing"));
    assert_non_null(fits);
    int64_t batch = strtoll(fits + strlen("; --batch "), NULL, 10);
    assert_true(batch > 16 && batch < 128);
    session_release(&s);
    if (open_session(&s, batch) != GAN_OK)
        fail_msg("%s", gan_error());
    session_release(&s);
    if (open_session(&s, batch * 3 / 2) == GAN_OK)
        fail_msg("batch %lld fits as well", (long long)(batch * 3 / 2));
    session_release(&s);
    assert_clean(recording, "sessions");
    recorder_free(recording);
}

static void the_card_is_measured_and_left_as_it_was(void **state) {
    (void)state;
    const DeviceOptions o = {.threads = 1};
    Run *run = new_bare();
    Device *d = NULL;
    Roofline r = {0};
    assert_fine(cuda_open_with(recorder_api(run->r), &o, &d));
    uint32_t live = recorder_live(run->r);
    assert_fine(device_cuda.roofline(d, &r));
    assert_true(r.gflops_f32 > 0 && r.gflops_bf16 > 0 && r.gbs > 0);
    assert_true(recorder_live(run->r) < live + 40); // what was chosen for products is kept
    device_cuda.close(d);
    assert_clean(run->r, "the roofline");
    free_run(run);
}

// --- what may go wrong ---------------------------------------------------------------------------

static void a_machine_without_a_fit_card_is_told_so(void **state) {
    (void)state;
    static const struct {
        Mishap mishap;
        const char *says;
    } cases[] = {
        {MishapNoCard, "finds no card"},
        {MishapOldDriver, "the NVIDIA driver is for CUDA 11.4"},
        {MishapOldCard, "compute capability 6.0"},
    };
    const DeviceOptions o = {.threads = 1};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        Run *run = new_bare();
        Device *d = NULL;
        recorder_mishap(run->r, cases[i].mishap, 0);
        assert_int_equal(cuda_open_with(recorder_api(run->r), &o, &d), GAN_ERR_DEVICE);
        assert_null(d);
        if (!strstr(gan_error(), cases[i].says) || !strstr(gan_error(), "--device cpu works here"))
            fail_msg("not `%s`: %s", cases[i].says, gan_error());
        assert_clean(run->r, cases[i].says);
        free_run(run);
    }
}

// Code for other cards came with the plan: it is said which, and how to have it made.
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

// An error at every call in turn: it ends cleanly, with nothing kept and nothing used that is gone.
// Single ones may be got over: an engine that does not run is not chosen.
static void sweep(Mishap mishap) {
    const DeviceOptions o = {.threads = 1};
    Run *run = new_tiny();
    assert_fine(do_all(run, &o, 3));
    uint64_t calls = recorder_calls(run->r), tried = 0, failed = 0;
    close_run(run);
    recorder_free(run->r);
    Arena checkpoint = run->arena;
    for (uint64_t n = 1; n <= calls; n++, tried++) {
        run->r = recorder_new(CARD);
        recorder_mishap(run->r, mishap, n);
        GanStatus st = do_all(run, &o, 3);
        if (st != GAN_OK && st != GAN_ERR_DEVICE)
            fail_msg("call %llu: status %d: %s", (unsigned long long)n, (int)st, gan_error());
        failed += st != GAN_OK;
        close_run(run);
        assert_clean(run->r, gan_error());
        recorder_free(run->r);
        run->arena = checkpoint;
    }
    assert_true(failed > 500 && (mishap == MishapOnce || failed == tried));
    run->r = recorder_new(CARD);
    free_run(run);
}

static void an_error_at_any_call_ends_cleanly(void **state) {
    (void)state;
    sweep(MishapOnce);
}

static void a_broken_context_at_any_call_ends_cleanly(void **state) {
    (void)state;
    sweep(MishapSticky);
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

// --- a card that breaks under a run --------------------------------------------------------------

static const char points[] = "model points\n"
                             "data x : float(2) scale(-1, 1)\n"
                             "net D(x: [2]) -> [] { x |> dense(1) |> squeeze }\n"
                             "opt = adam(lr=1e-3)\n"
                             "step { update D minimize mean((D(x) - normal())^2) using opt }\n";

static bool never(void) {
    return false;
}

static void silent(void *user, Str text) {
    (void)user, (void)text;
}

// Seven steps with a save after the fourth and the last.
static GanStatus train_points(Arena *a, const char *root, const char *dir, bool resume) {
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
    assert_fine(file_write_atomic(job.model, points, strlen(points)));
    vec_push(a, &job.data, ((Setting){STR("x"), data}));
    assert_fine(job_hash(&job, a, &job.hash));
    const TrainOptions o = {path_join(a, str_c(root), str_c(dir)), .resume = resume, .api = &api};
    return train_run(a, &host, &job, &o);
}

static uint64_t launches(const Recorder *r) {
    const WorkVec *w = recorder_work(r);
    uint64_t n = 0;
    for (uint32_t i = 0; i < w->n; i++)
        n += w->at[i].kind == WorkLaunch;
    return n;
}

// The step and the line are told, what was saved before is whole, and the run goes on from there.
static void a_card_that_breaks_under_a_run_costs_the_steps_since_its_save(void **state) {
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

    run = new_bare(); // the card again, as after a restart
    steps = (CheckpointSteps){0};
    assert_fine(train_points(&run->arena, root, "broken", true));
    assert_fine(
        checkpoint_steps(&run->arena, path_join(&run->arena, str_c(root), STR("broken")), &steps));
    assert_int_equal(steps.at[steps.n - 1], 7);
    const char *const argv[] = {"rm", "-rf", root, NULL};
    Str said;
    int code;
    assert_fine(process_run(&run->arena, argv, &said, &code));
    free_run(run);
}

// Kernels of our own do what the library would: nothing is left to it, and nothing races.
static void without_cudnn_kernels_of_ours_run(void **state) {
    (void)state;
    const DeviceOptions o = {.threads = 1};
    Run *run = new_tiny();
    recorder_without_dnn(run->r);
    assert_fine(do_all(run, &o, 3));
    const WorkVec *w = recorder_work(run->r);
    for (uint32_t i = 0; i < w->n; i++)
        assert_true(w->at[i].kind != WorkLibrary);
    close_run(run);
    assert_clean(run->r, "without cuDNN");
    free_run(run);
}

// --- plants --------------------------------------------------------------------------------------

// Streams that do not wait for uploads: the recorder must see the race.
static void a_stream_that_does_not_wait_is_found(void **state) {
    (void)state;
    const DeviceOptions o = {.threads = 1};
    Run *run = new_tiny();
    recorder_mishap(run->r, MishapDropWaits, 0);
    assert_fine(do_all(run, &o, 3));
    close_run(run);
    assert_non_null(recorder_complaint(run->r));
    assert_non_null(strstr(recorder_complaint(run->r), "a race: "));
    free_run(run);
}

// A host that does not wait for its staging buffers.
static void a_host_that_does_not_wait_is_found(void **state) {
    (void)state;
    const DeviceOptions o = {.threads = 1};
    Run *run = new_bare();
    Device *d = NULL;
    void *at = NULL;
    char bytes[1000] = {0};
    assert_fine(cuda_open_with(recorder_api(run->r), &o, &d));
    recorder_mishap(run->r, MishapDropEvents, 0);
    assert_fine(device_cuda.alloc(d, sizeof bytes, &at));
    for (char i = 0; i < 5; i++) {
        bytes[0] = i;
        assert_fine(device_cuda.put(d, at, bytes, sizeof bytes));
    }
    assert_fine(device_cuda.sync(d));
    device_cuda.release(d, at);
    device_cuda.close(d);
    assert_non_null(recorder_complaint(run->r));
    free_run(run);
}

// Two streams at one place by hand: a race without an event, none with it.
static void two_streams_race_unless_an_event_orders_them(void **state) {
    (void)state;
    for (int ordered = 0; ordered < 2; ordered++) {
        Run *run = new_bare();
        const CudaDriver *cu = recorder_api(run->r)->driver;
        CUstream a, b;
        CUevent e;
        CUdeviceptr at;
        cu->StreamCreate(&a, 0);
        cu->StreamCreate(&b, 0);
        cu->EventCreate(&e, CU_EVENT_DISABLE_TIMING);
        cu->MemAlloc(&at, 512);
        cu->MemsetD8Async(at, 1, 256, a);
        cu->EventRecord(e, a);
        if (ordered)
            cu->StreamWaitEvent(b, e, 0);
        cu->MemsetD8Async(at + 256, 1, 256, b); // beside it: no race
        assert_null(recorder_complaint(run->r));
        cu->MemcpyDtoDAsync(at + 256, at + 255, 1, b);
        assert_true((recorder_complaint(run->r) == NULL) == ordered);
        free_run(run);
    }
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_card_has_a_name_of_its_own),
        cmocka_unit_test(every_model_runs_without_a_race_or_a_leak),
        cmocka_unit_test(graphs_do_the_same_work_in_the_same_order),
        cmocka_unit_test(counters_are_true_at_every_launch),
        cmocka_unit_test(steps_follow_each_other_without_waiting),
        cmocka_unit_test(engines_that_won_are_kept),
        cmocka_unit_test(bytes_cross_and_come_back),
        cmocka_unit_test(too_much_memory_is_refused_with_what_is_missing),
        cmocka_unit_test(a_plan_that_is_too_large_says_which_batch_fits),
        cmocka_unit_test(the_card_is_measured_and_left_as_it_was),
        cmocka_unit_test(a_machine_without_a_fit_card_is_told_so),
        cmocka_unit_test(code_of_another_card_is_refused),
        cmocka_unit_test(an_error_at_any_call_ends_cleanly),
        cmocka_unit_test(a_broken_context_at_any_call_ends_cleanly),
        cmocka_unit_test(a_broken_kernel_is_named),
        cmocka_unit_test(a_card_that_breaks_under_a_run_costs_the_steps_since_its_save),
        cmocka_unit_test(without_cudnn_kernels_of_ours_run),
        cmocka_unit_test(a_stream_that_does_not_wait_is_found),
        cmocka_unit_test(a_host_that_does_not_wait_is_found),
        cmocka_unit_test(two_streams_race_unless_an_event_orders_them),
    };
    if (CASES_LISTED(tests))
        return 0;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
