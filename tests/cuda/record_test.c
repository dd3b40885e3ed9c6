// record_test.c - the recorder (record.h) detects missing waits of the device, and races between
// streams.
#include "host_run.h"

#include <setjmp.h>
#include <cmocka.h>
#include "cases.h"
#include <string.h>

// --- plants --------------------------------------------------------------------------------------

// Streams that do not wait for uploads: the recorder must see the race.
static void a_missing_stream_wait_is_detected(void **state) {
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
static void a_missing_host_wait_is_detected(void **state) {
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

// Two streams write one address: a race without an event, none with it.
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

// Calls that capture forbids, and a graph with the first launch of a kernel.
static void calls_forbidden_in_capture_are_detected(void **state) {
    (void)state;
    for (int i = 0; i < 4; i++) {
        Run *run = new_bare();
        const CudaDriver *cu = recorder_api(run->r)->driver;
        CUstream s;
        CUgraph graph = NULL;
        CUmodule module;
        CUfunction f;
        CUdeviceptr at = 0;
        void *host, *param[2] = {&at, &at};
        _Alignas(16) const char image[] = "kernel ";
        cu->StreamCreate(&s, 0);
        cu->ModuleLoadDataEx(&module, image, 0, NULL, NULL);
        cu->ModuleGetFunction(&f, module, "kernel");
        cu->StreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
        CUresult code = i == 0   ? cu->MemAlloc(&at, 256)
                        : i == 1 ? cu->MemAllocHost(&host, 256)
                        : i == 2 ? cu->ModuleLoadDataEx(&module, image, 0, NULL, NULL)
                                 : cu->LaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, s, param, NULL);
        assert_true((code == CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED) == (i < 3));
        assert_non_null(recorder_complaint(run->r));
        assert_non_null(strstr(recorder_complaint(run->r), "while a stream is captured"));
        cu->StreamEndCapture(s, &graph);
        free_run(run);
    }
}

// A launch with more shared memory than its kernel may have unless it is asked for.
static void shared_memory_beyond_what_is_allowed_is_detected(void **state) {
    (void)state;
    for (int asked = 0; asked < 2; asked++) {
        Run *run = new_bare();
        const CudaDriver *cu = recorder_api(run->r)->driver;
        CUstream s;
        CUmodule module;
        CUfunction f;
        CUdeviceptr at;
        void *param[2] = {&at, &at};
        _Alignas(16) const char image[] = "kernel ";
        cu->StreamCreate(&s, 0);
        cu->MemAlloc(&at, 256);
        cu->ModuleLoadDataEx(&module, image, 0, NULL, NULL);
        cu->ModuleGetFunction(&f, module, "kernel");
        if (asked)
            cu->FuncSetAttribute(f, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 64 << 10);
        cu->LaunchKernel(f, 1, 1, 1, 32, 1, 1, 64 << 10, s, param, NULL);
        const char *said = recorder_complaint(run->r); // asked or not: it is of no plan
        assert_non_null(said);
        assert_int_equal(strstr(said, "shared memory") == NULL, asked);
        free_run(run);
    }
}

// A timing run of an engine that overwrites weights.
static void timing_an_engine_on_weights_is_detected(void **state) {
    (void)state;
    for (int timed = 0; timed < 2; timed++) {
        Run *run = new_tiny();
        const CudaDriver *cu = recorder_api(run->r)->driver;
        CUstream s;
        CUevent from, to;
        CUdeviceptr slots;
        cu->StreamCreate(&s, 0);
        cu->EventCreate(&from, timed ? CU_EVENT_DEFAULT : CU_EVENT_DISABLE_TIMING);
        cu->EventCreate(&to, timed ? CU_EVENT_DEFAULT : CU_EVENT_DISABLE_TIMING);
        cu->MemAlloc(&slots, run->compiled.step.slot_bytes);
        recorder_plan(run->r, &run->compiled.step, (void *)(uintptr_t)slots, NULL);
        cu->EventRecord(from, s);
        cu->MemsetD8Async(slots, 0, 16, s);
        cu->EventRecord(to, s);
        assert_true((recorder_complaint(run->r) != NULL) == timed);
        free_run(run);
    }
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_missing_stream_wait_is_detected),
        cmocka_unit_test(a_missing_host_wait_is_detected),
        cmocka_unit_test(two_streams_race_unless_an_event_orders_them),
        cmocka_unit_test(calls_forbidden_in_capture_are_detected),
        cmocka_unit_test(shared_memory_beyond_what_is_allowed_is_detected),
        cmocka_unit_test(timing_an_engine_on_weights_is_detected),
    };
    if (CASES_LISTED(tests))
        return 0;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
