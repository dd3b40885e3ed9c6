// bench_test.c - what `ganrun bench` says of launches, of a device's peaks, and of starts that
// fail.
#define _GNU_SOURCE
#include "fixture.h"
#include "bench.h"

#include <math.h>
#include <sys/stat.h>
#include "cases.h"

static Text said; // to the console

static void hear(void *user, Str text) {
    (void)user;
    text_put(&said, text);
}

static Host host_of(Fixture *p) {
    said = (Text){.arena = &p->arena};
    return (Host){.console = {.result = hear, .say = hear, .live = hear}};
}

static void contains(const char *words) {
    if (!strstr(text_str(&said).ptr, words))
        fail_msg("no \"%s\" in: %s", words, said.at);
}

static const char tiny[] = "model tiny\n"
                           "data x : float(4)\n"
                           "net D(x: [4]) -> [] = x |> dense(8) |> relu |> dense(1) |> squeeze\n"
                           "step { update D minimize mean(D(x)) using sgd(0.1) }\n";

// A clock may see no time between two moments.
static void a_launch_without_time_has_no_rate(void **state) {
    Fixture *p = *state;
    Front f;
    Compiled c = {0};
    Timeline m = {.steps = 1};
    CompileOptions o = {.path = STR("tiny.gan"), .text = str_c(tiny), .real = DtF32};
    front_init(&f, &p->arena);
    assert_ok(compile_file(&f, &o, &c));
    for (uint32_t i = 0; i < c.step.launch.n; i++)
        vec_push(&p->arena, &m, ((TimedLaunch){.launch = i, .seconds = i ? 1e-3 : 0}));
    said = (Text){.arena = &p->arena};
    costs_put(&said, &c.step, &m, NULL, NONE);
    contains("ms  share");
    contains("  0.000   0.0%        -      -  ");
    assert_true(!strstr(said.at, "inf") && !strstr(said.at, "nan"));
}

// --- peaks ---------------------------------------------------------------------------------------

static GanStatus card_open(const DeviceOptions *o, Device **out) {
    (void)o;
    *out = NULL;
    return GAN_OK;
}
static void card_close(Device *d) {
    (void)d;
}
static GanStatus card_name(const DeviceOptions *o, char *out, size_t n) {
    (void)o;
    snprintf(out, n, "some card (GPU-1)");
    return GAN_OK;
}
static GanStatus card_roofline(Device *d, Roofline *out) {
    (void)d;
    *out = (Roofline){.gflops_f32 = 5, .gbs = 7};
    return GAN_OK;
}

static void peaks_are_of_a_card_or_of_threads(void **state) {
    Fixture *p = *state;
    const DeviceApi card = {.name = "cuda",
                            .open = card_open,
                            .close = card_close,
                            .card = card_name,
                            .roofline = card_roofline};
    DeviceApi cores = card;
    cores.name = "cpu", cores.card = NULL;
    for (int json = 0; json < 2; json++) {
        Host h = host_of(p);
        Options o = {.command = CommandBench};
        o.at[OptJson].given = json;
        assert_ok(bench_roofline(&(Bench){.perm = &p->arena, .host = &h, .o = &o, .api = &card}));
        contains(json ? "{\"device\": \"cuda\", \"card\": \"some card (GPU-1)\", \"gflops_f32\": 5"
                      : "cuda, some card (GPU-1): 5.0 GFLOP/s f32, copy 7.0 GB/s");
        assert_null(strstr(said.at, "thread"));
        h = host_of(p);
        assert_ok(bench_roofline(&(Bench){.perm = &p->arena, .host = &h, .o = &o, .api = &cores}));
        contains(json ? "{\"device\": \"cpu\", \"threads\": " : "cpu, ");
        contains("thread");
    }
}

// --- starts --------------------------------------------------------------------------------------

#define SCRIPT "#!/bin/sh\necho ganrun: no space\nexit 3\n"

static void a_start_that_fails_says_why(void **state) {
    Fixture *p = *state;
    Host h = host_of(p);
    Options o = {.command = CommandBench};
    h.self = STR("/bin/false");
    h.device.cache_dir = under(p, "cache"); // which that program does not make
    Bench b = {.perm = &p->arena, .host = &h, .o = &o, .api = &device_cpu, .model = STR("m.gan")};
    assert_status(bench_starts(&b), GAN_ERR_BUG, "starts");
    if (!strstr(gan_error(), "the process that times a start ended with 1"))
        fail_msg("%s", gan_error());
    h.self = under(p, "refused"); // as where its disk is full
    assert_ok(file_write_atomic(h.self, SCRIPT, sizeof SCRIPT - 1));
    assert_int_equal(chmod(str_z(&p->arena, h.self), 0700), 0);
    assert_status(bench_starts(&b), GAN_ERR_DEVICE, "starts");
    if (!strstr(gan_error(), "ended with 3: ganrun: no space"))
        fail_msg("%s", gan_error());
}

#define T(test) cmocka_unit_test_setup_teardown(test, fixture_open, fixture_close)

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        T(a_launch_without_time_has_no_rate),
        T(peaks_are_of_a_card_or_of_threads),
        T(a_start_that_fails_says_why),
    };
    if (CASES_LISTED(tests))
        return 0;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
