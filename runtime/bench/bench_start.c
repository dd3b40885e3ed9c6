// bench_start.c - measures the time until the first kernel of the first step is launched, with an
// empty and a filled kernel cache, and the memory of a process that only trains; each in a new
// process of this program.
#include "bench.h"
#include "cache.h"
#include "process.h"
#include "temporary.h"

#include <stdlib.h>

enum { WARM_STARTS = 3 };

typedef struct Start {
    double ms;
    bool whole;
} Start; // whole: the step is then done

static GanStatus launched(void *user, Exec *e, uint32_t block, uint32_t round) {
    (void)e, (void)block, (void)round;
    Start *s = user;
    if (!(s->ms > 0))
        s->ms = (time_now() - time_process_start()) * 1000;
    return s->whole ? GAN_OK : GAN_STOPPED;
}

// What the other process does. With --steps it goes on to the end of the first step, for its
// memory.
GanStatus bench_first_launch(Bench *b) {
    Start s = {.whole = b->o->at[OptSteps].given};
    ExecHooks hooks = {.before = launched, .user = &s};
    TRY(bench_open(b));
    TRY(bench_fill(b));
    GanStatus st = bench_step(b, 0, &hooks);
    if (st != GAN_OK && st != GAN_STOPPED)
        return st;
    const Console *c = &b->host->console;
    c->result(c->user, str_format(b->perm, "\nfirst-launch %.3f %zu\n", s.ms, mem_peak_rss()));
    return exec_ready(b->session.exec); // so that what starts warm finds all of it
}

// The same step in another process: all that decides its plan and kernels is passed on.
static void start_argv(Bench *b, Arena *a, Str cache, bool whole, CommandLine *argv) {
    static const OptionId passed[] = {OptThreads, OptNoGraph, OptNoBranches, OptTf32,
                                      OptSet,     OptMemory,  OptDeterm,     OptMicro};
    const char *fixed[] = {
        str_z(a, b->host->self),   "bench",
        str_z(a, b->model),        option_word(OptLaunch),
        option_word(OptCache),     str_z(a, cache),
        option_word(OptBatch),     str_format(a, "%lld", (long long)b->batch).ptr,
        option_word(OptDevice),    b->api->name,
        option_word(OptPrecision), dtype_name[b->real],
    };
    for (size_t i = 0; i < sizeof fixed / sizeof *fixed; i++)
        vec_push(a, argv, fixed[i]);
    if (whole) {
        vec_push(a, argv, option_word(OptSteps));
        vec_push(a, argv, "1");
    }
    options_pass(a, b->o, passed, sizeof passed / sizeof *passed, argv);
    vec_push(a, argv, NULL);
}

static GanStatus start_once(Bench *b, Str cache, bool whole, double *ms) {
    Arena scratch = *b->perm, *a = &scratch;
    CommandLine argv = {0};
    Str said, mark = STR("first-launch ");
    int code;
    double bytes;
    start_argv(b, a, cache, whole, &argv);
    TRY(process_run(a, argv.at, &said, &code));
    for (size_t at = 0; at < said.len; at += str_find(str_sub(said, at, said.len), '\n') + 1) {
        Str line = str_sub(said, at, at + str_find(str_sub(said, at, said.len), '\n'));
        if (!str_starts(line, mark))
            continue;
        Str numbers = str_sub(line, mark.len, line.len);
        size_t blank = str_find(numbers, ' ');
        if (str_to_double(str_sub(numbers, 0, blank), ms) &&
            str_to_double(str_sub(numbers, blank + 1, numbers.len), &bytes)) {
            b->peak_bytes = whole ? bytes : b->peak_bytes;
            return GAN_OK;
        }
    }
    GanStatus st = code == gan_exit_code(GAN_ERR_DEVICE) ? GAN_ERR_DEVICE : GAN_ERR_BUG;
    return fail(st, "the process that times a start ended with %d: %.*s", code, SARG(said));
}

GanStatus bench_starts(Bench *b) {
    Str base = b->host->device.cache_dir;
    TemporaryDir cache;
    double warm[WARM_STARTS];
    if (!base.len || cache_dir_make(base) != GAN_OK ||
        temporary_make(b->perm, base, STR(CACHE_ASIDE), &cache) != GAN_OK)
        TRY(temporary_make(b->perm, STR("/tmp"), STR(CACHE_ASIDE), &cache));
    GanStatus st = start_once(b, cache.path, true, &b->cold_ms);
    for (int i = 0; st == GAN_OK && i < WARM_STARTS; i++)
        st = start_once(b, cache.path, false, &warm[i]);
    temporary_remove(&cache);
    TRY(st);
    qsort(warm, WARM_STARTS, sizeof *warm, by_double);
    b->warm_ms = warm[WARM_STARTS / 2];
    return GAN_OK;
}
