// launches.c - runs a step of each model launch by launch on a device, and compares what each
// stores with the reference evaluator (launch_check.h): where `ganrun verify` says that a step is
// wrong, which kernel or library call is. f32 products are without TF32.
//
// The evaluator takes 10 to 30 s of processor time for 2 samples of an image model. It uses all
// cores: several such processes at once are slow without OMP_NUM_THREADS.
//
//   build/tests/launches cpu|cuda f32|bf16 MODEL.gan[:BATCH]...
#include "launch_check.h"

#include "driver.h"
#include "report.h"

#include <stdio.h>

static void print(void *user, Str line) {
    (void)user;
    printf("%.*s\n", SARG(line));
}

static void notice(void *user, const char *text) {
    (void)user;
    fprintf(stderr, "%s\n", text);
}

static GanStatus check(Arena a, const DeviceApi *api, Str model, Dtype real, bool *wrong) {
    CompileOptions o;
    Front f;
    Compiled made = {0};
    Device *d = NULL;
    Exec *e = NULL;
    GanStatus st = GAN_OK;
    const Counters c = {.seed = 1, .step = 1};
    LaunchCheck k = {.arena = &a, .say = print};
    TRY(report_model(model, real, &o));
    o.dialect = api->dialect ? dialect_find(str_c(api->dialect)) : NULL;
    front_init(&f, &a);
    TRY(compile_file(&f, &o, &made));
    k.name = str_z(&a, made.module.name);
    TRY_OUT(api->open(&(DeviceOptions){.no_tf32 = true, .notice = notice}, &d));
    TRY_OUT(exec_begin(api, d, &a, &made.module, &made.init, &e));
    TRY_OUT(exec_plans(e, &made.step, made.entry));
    TRY_OUT(exec_init(e, c.seed));
    TRY_OUT(launch_check_data(e, &made.module, a));
    launch_check_begin(&k, e);
    TRY_OUT(
        exec_step(e, &c, &(ExecHooks){.launch = launch_check_launch, .user = &k, .whole = true}));
    printf("%s, batch %lld, %s: %u of %u values of %u launches are wrong\n", k.name,
           (long long)made.module.batch, dtype_name[real], k.wrong, k.values, k.p->launch.n);
    *wrong |= k.wrong > 0;
out:
    exec_close(e);
    api->close(d);
    return st;
}

int main(int argc, char **argv) {
    Arena a;
    bool wrong = false;
    Dtype real = argc > 1 ? report_real(argc - 1, argv + 1) : DtCount;
    const DeviceApi *api = argc > 1 ? device_find(str_c(argv[1])) : NULL;
    if (!api || !api->launch || real == DtCount || real == DtF16) { // whose scale may overflow
        fprintf(stderr, "usage: launches cpu|cuda f32|bf16 MODEL.gan[:BATCH]...\n"
                        "each launch is evaluated again, in 10 to 30 s of processor time for :2\n");
        return 2;
    }
    GanStatus st = arena_init(&a, 0);
    for (int i = 3; st == GAN_OK && i < argc; i++)
        st = check(a, api, str_c(argv[i]), real, &wrong);
    if (st != GAN_OK)
        fprintf(stderr, "launches: %s\n", gan_error());
    arena_release(&a);
    return st != GAN_OK ? 3 : wrong;
}
