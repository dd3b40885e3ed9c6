// host_busy_test.c - the card's busy time, measured through the mock CUPTI.
#include "bench.h"
#include "host_run.h"
#include "trial.h"

#include <setjmp.h>
#include <cmocka.h>
#include "cases.h"
#include <math.h>
#include <string.h>
#include <unistd.h>

static const DeviceOptions one = {.threads = 1};

static Run *started(void) {
    Run *run = new_tiny();
    assert_fine(open_run(run, &one));
    assert_fine(exec_init(run->exec, 7));
    assert_fine(do_steps(run, 0, 3));
    return run;
}

static void overlapping_work_is_counted_once(void **state) {
    (void)state;
    Run *run = started();
    uint64_t graphs = recorder_made_graphs(run->r);
    assert_true(graphs > 0);
    assert_true(device_cuda.inside(run->device, true) == 0);
    for (uint32_t step = 3; step < 7; step += 2) {
        uint32_t before = recorder_work(run->r)->n;
        assert_fine(do_steps(run, step, step + 2));
        uint32_t n = recorder_work(run->r)->n - before;
        double seconds = device_cuda.inside(run->device, step < 5);
        assert_true(n > 20);
        assert_true(fabs(seconds - (n * 1000 + 500) * 1e-9) < 1e-15);
    }
    assert_true(recorder_made_graphs(run->r) > graphs); // earlier graphs are not counted
    assert_fine(do_steps(run, 7, 9));
    assert_true(device_cuda.inside(run->device, false) == 0);
    close_run(run);
    assert_clean(run->r, "counted");
    free_run(run);
}

// What a step ran, in order: as many pieces of work as the driver saw, a kernel by its name.
static void what_a_card_ran_is_told(void **state) {
    (void)state;
    Run *run = started();
    DeviceWorkVec work;
    assert_int_equal(device_cuda.work(run->device, &run->arena, &work), GAN_ERR_USAGE);
    assert_true(device_cuda.inside(run->device, true) == 0);
    uint32_t before = recorder_work(run->r)->n, kernels = 0, to_card = 0;
    assert_fine(do_steps(run, 3, 4));
    const WorkVec *saw = recorder_work(run->r);
    assert_fine(device_cuda.work(run->device, &run->arena, &work));
    assert_int_equal(work.n, saw->n - before);
    assert_true(work.n > 20);
    for (uint32_t i = 0; i < work.n; i++) {
        const DeviceWork *w = &work.at[i];
        const Work *is = &saw->at[before + i];
        assert_true(fabs(w->began - i * 1e-6) < 1e-12 &&
                    fabs(w->ended - w->began - 1.5e-6) < 1e-12);
        assert_int_equal(w->host, is->host_to || is->host_from);
        to_card += !strcmp(w->name, "copy to the card");
        if (is->kind != WorkLaunch)
            continue;
        kernels++;
        assert_string_equal(w->name, is->name);
        assert_true(w->stream == 7 && w->grid[0] == 3 && w->grid[1] == 2 && w->block[0] == 128);
        assert_true(w->registers == 40 && w->shared == 48);
    }
    assert_true(kernels > 10 && to_card > 0);
    assert_fine(device_cuda.work(run->device, &run->arena, &work)); // nothing ran since
    assert_int_equal(work.n, 0);
    close_run(run);
    assert_clean(run->r, "what it ran");
    free_run(run);
}

// --- launches and steps in `ganrun bench` --------------------------------------------------------

static void a_launch_takes_as_long_as_what_it_ran(void **state) {
    (void)state;
    Run *run = started();
    Arena *a = &run->arena;
    const Plan *p = &run->compiled.step;
    LaunchClock clock = {
        .api = &run->api, .device = run->device, .ran = arena_array(a, DeviceWorkVec, p->launch.n)};
    Timeline m;
    Text said = {.arena = a};
    assert_true(device_cuda.inside(run->device, true) == 0);
    assert_fine(sim_profile(a, run->exec, NULL, &clock, 2, &m));
    assert_true(m.n >= p->launch.n);
    uint32_t ran = 0;
    for (uint32_t i = 0; i < m.n; i++) {
        const DeviceWorkVec *w = &clock.ran[m.at[i].launch];
        assert_true(fabs(m.at[i].seconds - w->n * 1.5e-6) < 1e-12);
        for (uint32_t k = 0; k < w->n; k++)
            assert_false(w->at[k].host);
        ran += w->n;
    }
    assert_true(ran >= p->launch.n - 2); // a launch that a call absorbed runs nothing
    costs_put(&said, p, &m, &clock, NONE);
    assert_non_null(strstr(text_str(&said).ptr, " 1.5 us  "));
    assert_non_null(strstr(text_str(&said).ptr, "  6 x 128, 40 registers, 48 B\n"));
    close_run(run);
    assert_clean(run->r, "launches");
    free_run(run);
}

static void a_timeline_has_every_kernel_of_its_steps(void **state) {
    (void)state;
    Run *run = started();
    const char *path = "timeline.json";
    Host host = {0};
    Options o = {0};
    Bench b = {.perm = &run->arena, .host = &host, .o = &o, .api = &run->api};
    b.session.exec = run->exec;
    b.session.device = run->device;
    b.session.compiled = run->compiled;
    o.at[OptTimeline] = (ArgValue){.given = true, .text = str_c(path)};
    assert_fine(bench_timeline(&b, 3));
    Str text;
    assert_fine(file_read(&run->arena, str_c(path), &text));
    uint32_t slices = 0;
    for (const char *s = text.ptr; (s = strstr(s, "\"ph\": \"X\"")); s++)
        slices++;
    assert_true(slices > 3 * 20);
    assert_non_null(strstr(text.ptr, "\"stream 7\""));
    unlink(path);
    close_run(run);
    assert_clean(run->r, "a timeline");
    free_run(run);
}

static const char now_and_then[] =
    "model now_and_then\n"
    "data x : image(1, 8, 8) scale(-1, 1)\n"
    "net D(x: [1, 8, 8]) -> [] { x |> conv(4, k=3, pad=1) |> flatten |> dense(1) |> squeeze }\n"
    "opt = adam(lr=1e-3)\n"
    "step { every 4 { update D minimize mean(D(x)^2) using opt }\n"
    "  update D minimize bce(D(x), 1) using opt }\n";

// Of graphs, whenever it is asked for the time inside kernels.
static uint64_t made[8];
static uint32_t asked;

static double told_inside(Device *d, bool count) {
    assert_true(asked < sizeof made / sizeof *made);
    made[asked++] = recorder_made_graphs(recording);
    return device_cuda.inside(d, count);
}

// A graph of each side of a branch, and none while the steps are measured.
static void graphs_of_every_branch_are_made_before_the_card_s_idle_time_is_measured(void **state) {
    (void)state;
    Run *run = new_bare();
    compile_model(run, "now_and_then.gan", STR(now_and_then), DtF32, NULL);
    assert_fine(open_run(run, &one));
    assert_fine(exec_init(run->exec, 7));
    assert_fine(do_steps(run, 0, 3 + 8));
    run->api.inside = told_inside;
    Bench b = {.perm = &run->arena, .api = &run->api, .warmup = 3, .steps = 8};
    b.session.exec = run->exec;
    b.session.device = run->device;
    b.session.compiled = run->compiled;
    assert_fine(bench_outside(&b));
    assert_true(b.outside.all > b.outside.outside);
    assert_int_equal(asked, 6); // to begin, around what goes before, around what counts, to end
    assert_true(made[2] > made[1]);
    assert_int_equal(made[4], made[3]);
    close_run(run);
    assert_clean(run->r, "idle time");
    free_run(run);
}

// --- what goes wrong -----------------------------------------------------------------------------

static void a_device_may_be_closed_while_profiling(void **state) {
    (void)state;
    Run *run = started();
    assert_true(device_cuda.inside(run->device, true) == 0);
    assert_fine(do_steps(run, 3, 5));
    close_run(run);
    assert_clean(run->r, "closed while it counts");
    free_run(run);
}

static void without_cupti_utilization_is_unknown(void **state) {
    (void)state;
    Run *run = new_tiny();
    recorder_without_cupti(run->r);
    assert_fine(open_run(run, &one));
    assert_true(isnan(device_cuda.inside(run->device, true)));
    assert_non_null(strstr(gan_error(), "CUPTI is not found"));
    assert_fine(exec_init(run->exec, 7));
    assert_fine(do_steps(run, 0, 2));
    close_run(run);
    assert_clean(run->r, "without CUPTI");
    free_run(run);
}

// Busy time with dropped records is unknown; later measurements work.
static void without_memory_utilization_is_unknown(void **state) {
    (void)state;
    Run *run = started();
    assert_true(device_cuda.inside(run->device, true) == 0);
    assert_fine(do_steps(run, 3, 4));
    mem_fail_at(1);
    double seconds = device_cuda.inside(run->device, true);
    mem_fail_at(0);
    assert_true(isnan(seconds));
    assert_fine(do_steps(run, 4, 5));
    assert_true(device_cuda.inside(run->device, false) > 0);
    close_run(run);
    assert_clean(run->r, "without memory");
    free_run(run);
}

// Errors of CUPTI make the busy time unknown, and are not errors of the run.
static GanStatus counted(Run *run, const DeviceOptions *o, uint32_t steps) {
    GanStatus st = open_run(run, o);
    if (st == GAN_OK)
        st = exec_init(run->exec, 7);
    if (st == GAN_OK)
        (void)device_cuda.inside(run->device, true);
    if (st == GAN_OK)
        st = do_steps(run, 0, steps);
    if (st == GAN_OK)
        (void)device_cuda.inside(run->device, false);
    if (st == GAN_OK)
        st = do_steps(run, steps, steps + 1);
    return st;
}

static void an_error_at_any_call_ends_cleanly(void **state) {
    (void)state;
    sweep_calls(new_tiny(), &one, MishapOnce, counted);
}

static void a_broken_context_at_any_call_ends_cleanly(void **state) {
    (void)state;
    sweep_calls(new_tiny(), &one, MishapSticky, counted);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(overlapping_work_is_counted_once),
        cmocka_unit_test(what_a_card_ran_is_told),
        cmocka_unit_test(a_launch_takes_as_long_as_what_it_ran),
        cmocka_unit_test(a_timeline_has_every_kernel_of_its_steps),
        cmocka_unit_test(graphs_of_every_branch_are_made_before_the_card_s_idle_time_is_measured),
        cmocka_unit_test(a_device_may_be_closed_while_profiling),
        cmocka_unit_test(without_cupti_utilization_is_unknown),
        cmocka_unit_test(without_memory_utilization_is_unknown),
        cmocka_unit_test(an_error_at_any_call_ends_cleanly),
        cmocka_unit_test(a_broken_context_at_any_call_ends_cleanly),
    };
    if (CASES_LISTED(tests))
        return 0;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
