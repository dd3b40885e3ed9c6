// host_run.c - see host_run.h.
#include "host_run.h"
#include "trial.h"

#include <setjmp.h>
#include <cmocka.h>
#include <stdio.h>
#include <string.h>

// The cuda device, but each plan is announced to the recorder before it is loaded.
static GanStatus told_load(Device *d, const Plan *p, void *slots, void *work, Loaded **out) {
    recorder_plan(recording, p, slots, work);
    return device_cuda.load(d, p, slots, work, out);
}

// How `ganrun` opens the device, but with the mock driver.
static GanStatus open_recorded(const DeviceOptions *o, Device **out) {
    return cuda_open_with(recorder_api(recording), o, out);
}

DeviceApi recorded_device(void) {
    DeviceApi api = device_cuda;
    api.open = open_recorded;
    api.load = told_load;
    return api;
}

void compile_model(Run *run, const char *name, Str text, Dtype real, const Parallel *parallel) {
    Arena *a = &run->arena;
    const TrialOptions o = {.name = name, .text = text, .batch = 4};
    CompileOptions c = {.real = real, .dialect = dialect_find(STR("cuda"))};
    if (parallel)
        c.parallel = *parallel;
    assert_non_null(c.dialect);
    run->compiled.module = *trial_module(a, &o);
    assert_fine(compile_plans(a, &run->compiled.module, &c, &run->compiled));
}

char told[4096];

void keep_notice(void *user, const char *text) {
    (void)user;
    size_t n = strlen(told);
    snprintf(told + n, sizeof told - n, "%s\n", text);
}

GanStatus open_run(Run *run, const DeviceOptions *o) {
    Compiled *c = &run->compiled;
    run->api = recorded_device();
    run->device = NULL;
    run->exec = NULL;
    TRY(run->api.open(o, &run->device));
    TRY(exec_begin(&run->api, run->device, &run->arena, &c->module, &c->init, &run->exec));
    return exec_plans(run->exec, &c->step, c->entry);
}

void close_run(Run *run) {
    if (run->exec)
        exec_close(run->exec);
    device_cuda.close(run->device);
}

GanStatus put_data(Run *run) {
    const Module *m = &run->compiled.module;
    for (uint32_t i = 0; i < m->slot.n; i++) {
        const Slot *s = &m->slot.at[i];
        if (s->kind != SlotData)
            continue;
        Arena scratch = run->arena;
        size_t n = (size_t)(type_sample(&s->type) * (s->type.batched ? m->batch : 1));
        TRY(exec_slot_put_f32(run->exec, i, arena_array(&scratch, float, n), n));
    }
    return GAN_OK;
}

GanStatus do_steps(Run *run, uint32_t from, uint32_t to) {
    for (uint32_t i = from; i < to; i++) {
        Counters c = {.step = i, .seed = 7};
        TRY(put_data(run));
        TRY(exec_step(run->exec, &c, NULL));
    }
    return exec_wait(run->exec);
}

GanStatus do_all(Run *run, const DeviceOptions *o, uint32_t steps) {
    TRY(open_run(run, o));
    TRY(exec_init(run->exec, 7));
    TRY(do_steps(run, 0, steps));
    for (uint32_t i = 0; i < run->compiled.module.entry.n; i++) {
        Counters c = {.seed = 7};
        TRY(exec_entry(run->exec, i, &c, NULL));
    }
    return GAN_OK;
}

void assert_clean(const Recorder *r, const char *what) {
    if (recorder_complaint(r))
        fail_msg("%s: %s", what, recorder_complaint(r));
    if (recorder_live(r))
        fail_msg("%s: %u objects are not given back", what, recorder_live(r));
}

Run *new_run(const char *folder, Str name, Dtype real, const Parallel *parallel) {
    Arena a;
    assert_fine(arena_init(&a, 0));
    Run *run = arena_new(&a, Run);
    run->arena = a;
    if (*folder)
        compile_model(run, str_z(&run->arena, name), trial_read(&run->arena, folder, name), real,
                      parallel);
    run->r = recorder_new(CARD);
    return run;
}

Run *new_tiny(void) {
    return new_run(TEST_DIR "/cli", STR("tiny.gan"), DtF32, NULL);
}

Run *new_bare(void) {
    return new_run("", (Str){0}, DtF32, NULL);
}

void free_run(Run *run) {
    Arena a = run->arena;
    recorder_free(run->r);
    arena_release(&a);
}

// In the words of the library whose call failed; where the context is lost, as the driver says.
static bool says_why(Mishap mishap) {
    return mishap == MishapSticky
               ? strstr(gan_error(), "an illegal memory access") != NULL
               : strstr(gan_error(), "a recorded error") || strstr(gan_error(), "CUFFT_");
}

// Preparing an operation of the model names its line.
static bool says_where(void) {
    const bool operation =
        strstr(gan_error(), "a variant pack") || strstr(gan_error(), "planning a transform");
    return !operation || strstr(gan_error(), ".gan:");
}

void sweep_calls(Run *run, const DeviceOptions *o, Mishap mishap,
                 GanStatus (*work)(Run *run, const DeviceOptions *o, uint32_t steps)) {
    assert_fine(work(run, o, 3));
    uint64_t calls = recorder_calls(run->r), failed = 0;
    close_run(run);
    Arena checkpoint = run->arena;
    for (uint64_t n = 1; n <= calls; n++) {
        recorder_free(run->r);
        run->arena = checkpoint;
        run->r = recorder_new(CARD);
        recorder_mishap(run->r, mishap, n);
        GanStatus st = work(run, o, 3);
        if (st != GAN_OK && (st != GAN_ERR_DEVICE || !says_why(mishap) || !says_where()))
            fail_msg("call %llu: status %d: %s", (unsigned long long)n, (int)st, gan_error());
        failed += st != GAN_OK;
        close_run(run);
        assert_clean(run->r, gan_error());
    }
    assert_true(failed > 300 && (mishap == MishapOnce || failed == calls));
    free_run(run);
}
