// link_model.c - a latency and bandwidth model of the link between ranks, fitted to sums of three
// sizes.
//
// Bucket sizes follow from it, so it must not change when a job is resumed: its numbers are rounded
// to powers of two, decided by rank 0 and stored in the run's folder (link.json).
#define _GNU_SOURCE // the clocks of processes and threads
#include "ranks.h"

#include <math.h>
#include <stdlib.h>
#include <time.h>

enum { SMALL = 16, MIDDLE = 1 << 15, LARGE = 1 << 20, ROUNDS = 7 }; // floats: 128 kB, 4 MiB
static_assert(MIDDLE * sizeof(float) > COMM_SMALL, "two sizes of what has a thread");

typedef struct Cost {  // of a sum, s
    double wall, core; // core: of this process's, but for the caller's
} Cost;

static double spent(clockid_t whose) {
    struct timespec t;
    clock_gettime(whose, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static double spent_beside(void) {
    return spent(CLOCK_PROCESS_CPUTIME_ID) - spent(CLOCK_THREAD_CPUTIME_ID);
}

static double middle(double *x) {
    qsort(x, ROUNDS, sizeof *x, by_double);
    return x[ROUNDS / 2];
}

static GanStatus time_sum(Comm *c, float *data, size_t n, Cost *out) {
    double wall[ROUNDS], core[ROUNDS];
    for (int i = 0; i < ROUNDS; i++) {
        CommJob job = {.kind = CommSum,
                       .dtype = DtF32,
                       .wire = DtF32,
                       .data = data,
                       .n = n,
                       .what = "the measurement of the link"};
        TRY(comm_barrier(c));
        double began = time_now(), beside = spent_beside();
        TRY(comm_start(c, &job));
        TRY(comm_wait(c, 0));
        wall[i] = time_now() - began;
        core[i] = spent_beside() - beside;
    }
    *out = (Cost){middle(wall), middle(core)};
    return GAN_OK;
}

static double power_of_two(double x) {
    return exp2(round(log2(x)));
}

GanStatus link_measure(Comm *c, LinkModel *out) {
    float *data = mem_alloc(LARGE * sizeof *data);
    if (!data)
        return fail(GAN_ERR_MEMORY, "no memory to measure the link");
    Cost small = {0}, middle = {0}, large = {0};
    GanStatus st = time_sum(c, data, SMALL, &small);
    if (st == GAN_OK)
        st = time_sum(c, data, MIDDLE, &middle);
    if (st == GAN_OK)
        st = time_sum(c, data, LARGE, &large);
    mem_free(data);
    TRY(st);
    double bytes = (LARGE - MIDDLE) * sizeof(float), least = MIDDLE * sizeof(float);
    double each = fmax(large.wall - middle.wall, 1e-6) / bytes,
           core = fmax(large.core - middle.core, 0) / bytes;
    *out = (LinkModel){.latency = fmax(middle.wall - least * each, 1e-7),
                       .bandwidth = 1 / each,
                       .small = small.wall,
                       .core = fmax(middle.core - least * core, 0),
                       .byte = core};
    comm_stats_clear(c);
    comm_events_clear(c);
    return comm_bcast(c, out, sizeof *out, 0);
}

// --- kept with the run ---------------------------------------------------------------------------

static bool within(double x, double least, double most) {
    return x >= least && x <= most;
}

GanStatus link_kept(Arena scratch, Str dir, LinkModel *out) {
    Str text, path = path_join(&scratch, dir, STR("link.json"));
    const Json *root;
    *out = (LinkModel){0};
    if (!file_exists(path))
        return GAN_OK;
    TRY(file_read(&scratch, path, &text));
    TRY(json_parse(&scratch, text, path, &root));
    out->latency = json_number(json_get(root, "latency_s"), 0);
    out->bandwidth = json_number(json_get(root, "bytes_per_s"), 0);
    if (within(out->latency, 1e-9, 60) && within(out->bandwidth, 1, 1e15))
        return GAN_OK;
    return fail(GAN_ERR_INPUT,
                "%.*s: its figures are implausible; --replan measures the link between ranks again",
                SARG(path));
}

GanStatus link_keep(Arena scratch, Str dir, LinkModel m) {
    Text t = {.arena = &scratch};
    JsonOut j = {.text = &t};
    json_open(&j, '{');
    json_member_double(&j, "latency_s", m.latency);
    json_member_double(&j, "bytes_per_s", m.bandwidth);
    json_close(&j, '}');
    text_char(&t, '\n');
    return file_write_atomic(path_join(&scratch, dir, STR("link.json")), t.at, t.n);
}

GanStatus link_find(Arena scratch, Comm *c, Str dir, LinkModel *out) {
    *out = (LinkModel){0};
    if (comm_size(c) == 1)
        return GAN_OK;
    if (comm_rank(c) == 0 && dir.len)
        TRY(link_kept(scratch, dir, out));
    TRY(comm_bcast(c, out, sizeof *out, 0));
    if (out->latency > 0)
        return GAN_OK;
    TRY(link_measure(c, out));
    *out = (LinkModel){.latency = power_of_two(out->latency),
                       .bandwidth = power_of_two(out->bandwidth)};
    return GAN_OK;
}
