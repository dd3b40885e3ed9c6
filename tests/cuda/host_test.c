// host_test.c - the host side of the cuda device with the mock driver (record.h): every model's
// steps without a race or a leak, captured graphs that do the same work, losses that the host
// reads without waiting, engines that are cached.
#define _GNU_SOURCE
#include "host_run.h"
#include "meter.h"
#include "trial.h"

#include <setjmp.h>
#include <cmocka.h>
#include <pthread.h>
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
        for (Dtype real = 0; real < DtCount && str_ends(names.at[i], STR(".gan")); real++)
            if (device_takes(real)) {
                check_model(names.at[i], real);
                n++;
            }
    assert_true(n >= 60);
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

// Only launches and library calls: copies to the host, which report progress, may differ.
static uint32_t computing(Arena *a, const WorkVec *all, const Work ***out) {
    uint32_t n = 0;
    *out = arena_array(a, const Work *, all->n);
    for (uint32_t i = 0; i < all->n; i++)
        if (all->at[i].kind == WorkLaunch || all->at[i].kind == WorkLibrary)
            (*out)[n++] = &all->at[i];
    return n;
}

static WorkVec work_of(Arena *a, DeviceOptions o, size_t *graphs) {
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
    const Work **x, **y;
    size_t none;
    WorkVec without = work_of(&a, (DeviceOptions){.threads = 1, .no_graph = true}, &none);
    uint32_t n = computing(&a, &without, &y);
    for (int chain = 0; chain < 2; chain++) {
        size_t graphs;
        WorkVec with = work_of(&a, (DeviceOptions){.threads = 1, .no_branches = chain}, &graphs);
        uint32_t recorded = 0, launches = 0;
        // From the second execution on: a repeat's rounds, the rest. Engines are timed in graphs.
        assert_true(graphs >= none + 3 * 2);
        assert_int_equal(computing(&a, &with, &x), n);
        for (uint32_t i = 0; i < n; i++) {
            launches += x[i]->kind == WorkLaunch;
            recorded += x[i]->kind == WorkLaunch && x[i]->recorded;
            assert_false(y[i]->kind == WorkLaunch && y[i]->recorded);
            if (!same_work(x[i], y[i]))
                fail_msg("work %u: %s with graphs, %s without", i, x[i]->name, y[i]->name);
        }
        assert_true(recorded > launches / 2);
    }
    arena_release(&a);
}

// A graph's progress is copied to the host on a stream of its own.
static void no_launch_of_a_graph_waits_for_a_breadcrumb(void **state) {
    (void)state;
    const DeviceOptions o = {.threads = 1};
    Run *run = new_run(MODELS, STR("sngan.gan"), DtF32, NULL);
    CUstream computes = NULL;
    uint32_t crumbs = 0;
    assert_fine(do_all(run, &o, 3));
    close_run(run);
    assert_clean(run->r, "sngan");
    const WorkVec *w = recorder_work(run->r);
    for (uint32_t i = 0; i < w->n; i++)
        if (w->at[i].recorded && w->at[i].kind == WorkLaunch)
            computes = w->at[i].stream;
    for (uint32_t i = 0; i < w->n; i++) {
        if (!w->at[i].recorded || !w->at[i].host_to)
            continue;
        assert_ptr_not_equal(w->at[i].stream, computes);
        crumbs++;
    }
    assert_non_null(computes);
    assert_true(crumbs > 3);
    free_run(run);
}

// Step and round counters as a launch reads them from memory, also in captured graphs.
static void counters_are_correct_at_every_launch(void **state) {
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

// Steps as in training: results are read after later steps have been launched.
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

// Fifty steps with a changing learning rate: no graph is captured after the second step, the host
// waits only for work at least a step old, and each step transfers only its data, its counters and
// the changing scalars.
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

static const Work *last_launch(const Recorder *r) {
    const WorkVec *w = recorder_work(r);
    uint32_t i = w->n - 1;
    while (w->at[i].kind != WorkLaunch)
        i--;
    return &w->at[i];
}

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
        assert_int_equal(last_launch(run->r)->recorded, !no_graph);
        assert_int_equal(launches_of(run->r, from, &again), 45 * a_step);
        assert_int_equal(again, 45 * copies);
        assert_fine(exec_wait(run->exec)); // the recorder counts this wait
        assert_int_equal(recorder_nearest_wait(run->r), 0);
        close_run(run);
        assert_clean(run->r, "falling");
        free_run(run);
    }
}

// Timing results are cached on disk: the second run times nothing, and a damaged file is detected.
static void chosen_engines_are_cached(void **state) {
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
        if (i == 1) { // one of them is truncated
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

// --- threads -------------------------------------------------------------------------------------

typedef struct Hand { // a helper thread of a run
    Run *run;
    int part;
    GanStatus status;
    char error[400];
} Hand;

static GanStatus do_part(Run *run, int part) {
    const DeviceOptions o = {.threads = 1};
    const Module *m = &run->compiled.module;
    uint32_t weight = 0;
    while (weight + 1 < m->slot.n && m->slot.at[weight].kind != SlotParam)
        weight++;
    switch (part) {
    case 0:
        return open_run(run, &o);
    case 1:
        return exec_init(run->exec, 7);
    case 2:
    case 3: // work captured by another thread
    case 4:
        return do_steps(run, (uint32_t)part - 2, (uint32_t)part - 1);
    case 5:
        return exec_entry(run->exec, 0, &(Counters){.seed = 7}, NULL);
    case 6:
        return device_cuda.roofline(run->device, &(Roofline){0});
    case 7:
        return exec_slot_save(run->exec, weight,
                              arena_alloc(&run->arena, exec_slot_bytes(run->exec, weight), 16));
    default:
        close_run(run);
        return GAN_OK;
    }
}

static void *on_thread(void *user) {
    Hand *p = user;
    p->status = do_part(p->run, p->part);
    snprintf(p->error, sizeof p->error, "%s", gan_error());
    return NULL;
}

// Loader, saver and helper threads come and go: each call makes the context current in its thread.
static void any_thread_may_use_the_device(void **state) {
    (void)state;
    Run *run = new_tiny();
    for (int part = 0; part < 9; part++) {
        Hand p = {.run = run, .part = part};
        pthread_t thread;
        assert_int_equal(pthread_create(&thread, NULL, on_thread, &p), 0);
        assert_int_equal(pthread_join(thread, NULL), 0);
        if (p.status != GAN_OK)
            fail_msg("part %d: %s", part, p.error);
    }
    assert_clean(run->r, "threads");
    free_run(run);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_model_runs_without_a_race_or_a_leak),
        cmocka_unit_test(graphs_do_the_same_work_in_the_same_order),
        cmocka_unit_test(no_launch_of_a_graph_waits_for_a_breadcrumb),
        cmocka_unit_test(counters_are_correct_at_every_launch),
        cmocka_unit_test(steps_follow_each_other_without_waiting),
        cmocka_unit_test(chosen_engines_are_cached),
        cmocka_unit_test(any_thread_may_use_the_device),
    };
    if (CASES_LISTED(tests))
        return 0;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
