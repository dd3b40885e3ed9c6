// host_busy_test.c - the card's busy time, measured through the mock CUPTI.
#include "host_run.h"
#include "trial.h"

#include <setjmp.h>
#include <cmocka.h>
#include "cases.h"
#include <math.h>
#include <string.h>

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
