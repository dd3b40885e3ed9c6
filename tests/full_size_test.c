// full_size_test.c - full_size_test MODEL --precision P: a shipped model at its default size on the
// cpu device. Computes its initial values, one step, whose losses must be finite, and each of its
// samples. The batch is the smallest power of two that the model accepts.
#include "bench.h"
#include "meter.h"

#include <stdio.h>

enum { LARGEST_BATCH = 64 };

static void print_line(void *user, Str line) {
    (void)user;
    fprintf(stderr, "%.*s\n", SARG(line));
}

// 0: none.
static int64_t smallest_batch(Arena a, Str model) {
    for (int64_t batch = 1; batch <= LARGEST_BATCH; batch *= 2) {
        Front f;
        Module m;
        CompileOptions o = {.path = model, .batch = batch};
        Arena scratch = a;
        front_init(&f, &scratch);
        if (compile_module(&f, &o, &m) == GAN_OK)
            return batch;
    }
    return 0;
}

static GanStatus after_block(void *user, Exec *e, uint32_t block, uint32_t round) {
    return meter_block(user, e, block, round);
}

static GanStatus run_step(Bench *b) {
    Meter meter;
    ExecHooks hooks = {.after = after_block, .user = &meter};
    meter_init(b->perm, &b->session.compiled.module, &meter);
    meter_begin(&meter, 0);
    TRY(bench_step(b, 0, &hooks));
    TRY(meter_take(&meter, b->session.exec, 0));
    for (uint32_t i = 0; i < meter.series.n; i++) {
        const Series *s = &meter.series.at[i];
        printf("  %.*s %g\n", SARG(s->name), series_mean(s));
    }
    return exec_finish(b->session.exec);
}

static GanStatus run_model(Bench *b) {
    const Counters c = {.step = 1};
    TRY(bench_open(b));
    TRY(bench_fill(b));
    TRY(run_step(b));
    for (uint32_t i = 0; i < b->session.compiled.module.entry.n; i++)
        TRY(exec_entry(b->session.exec, i, &c, NULL));
    return exec_wait(b->session.exec);
}

// The command line is that of `ganrun bench`.
static GanStatus run(Arena *perm, int argc, char **argv) {
    const Host host = {.console.say = print_line,
                       .device.cache_dir = STR(BUILD_DIR "/tests/cache/gan")};
    Options o;
    TRY(options_parse(perm, argc, argv, &o));
    if (o.file.n != 1)
        return fail(GAN_ERR_USAGE, "one model, please");
    Bench b = {.perm = perm, .host = &host, .o = &o, .real = DtF32, .model = o.file.at[0]};
    TRY(device_of(&o, &b.api, &b.real));
    b.batch = smallest_batch(*perm, b.model);
    printf("batch %lld, %s\n", (long long)b.batch, dtype_name[b.real]);
    GanStatus st = run_model(&b);
    session_release(&b.session);
    return st;
}

int main(int argc, char **argv) {
    Arena perm = {0};
    argv[0] = (char[]){"bench"};
    GanStatus st = arena_init(&perm, 0);
    st = st == GAN_OK ? run(&perm, argc, argv) : st;
    if (st != GAN_OK)
        fprintf(stderr, "%s\n", gan_error());
    arena_release(&perm);
    return st != GAN_OK;
}
