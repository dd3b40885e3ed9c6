// bench.c - `ganrun bench`: times a model's step and compares it with this machine's limits.
//
// In: a model and a number of steps. Out: one JSON object, or the same as text. Data are resident:
// slots are filled once with generated numbers, so no files are needed. Start-up time and the
// memory of a process that only trains are measured in separate processes: one with an empty kernel
// cache, then some with a filled one. On many ranks all run the step together and rank 0 reports;
// start-up is not timed then.
#include "bench.h"
#include "commands.h"
#include "device.h"
#include "meter.h"

#include <math.h>
#include <stdlib.h>
#include <unistd.h>

enum { PROFILED = 5 };

// --- the session ---------------------------------------------------------------------------------

GanStatus bench_open(Bench *b) {
    Split split;
    LinkModel link;
    Parallel parallel;
    TRY(ranks_split(b->o, &split));
    TRY(link_find(*b->perm, b->comm, (Str){0}, &link));
    if (b->comm)
        say(&b->host->console, "link: %.3g us, %.4g GB/s", link.latency * 1e6,
            link.bandwidth * 1e-9);
    TRY(ranks_parallel(b->comm, b->batch, &split, link, &parallel));
    comm_compress(b->comm, b->o->at[OptCompress].given ? COMPRESS_LEAST : 0);
    static const uint64_t seed = 0;
    SessionOptions s = {
        .seed = &seed,
        .steps = true,
        .compile = {.path = b->model,
                    .parallel = parallel,
                    .batch = b->batch,
                    .setting = b->o->at[OptSet].pair.at,
                    .settings = b->o->at[OptSet].pair.n,
                    .real = b->real,
                    .memory = (size_t)option_number(b->o, OptMemory, 0)},
        .api = b->api,
        .device = b->host->device,
    };
    device_options(b->o, &s.device);
    return session_start(&b->session, &s, &b->host->console);
}

// Pictures between -1 and 1, labels in turn.
GanStatus bench_fill(Bench *b) {
    const Module *m = &b->session.compiled.module;
    for (uint32_t i = 0; i < m->slot.n; i++) {
        const Slot *s = &m->slot.at[i];
        if (s->kind != SlotData)
            continue;
        const Field *f = &m->stream.at[s->stream].field.at[s->site];
        size_t n = (size_t)(type_sample(&s->type) * m->batch);
        Arena scratch = *b->perm;
        float *x = arena_array(&scratch, float, n);
        for (size_t k = 0; k < n; k++)
            x[k] = f->kind == FieldLabel
                       ? (float)(k % (size_t)f->classes)
                       : (float)((uint32_t)(k + i + 1) * 2654435761u >> 8) * 0x1p-23f - 1;
        TRY(exec_slot_put_f32(b->session.exec, i, x, n));
    }
    return GAN_OK;
}

GanStatus bench_step(Bench *b, uint32_t step, const ExecHooks *hooks) {
    Counters c = {.step = step, .kimg = (double)step * (double)b->batch / 1000};
    TRY(exec_step(b->session.exec, &c, hooks));
    return exec_wait(b->session.exec);
}

// --- this machine --------------------------------------------------------------------------------

// The device, or the cores where it has no measure of its own.
static const DeviceApi *roof_of(const Bench *b, DeviceOptions *o) {
    *o = b->host->device;
    device_options(b->o, o);
    o->threads = 0;
    return b->api->roofline ? b->api : &device_cpu;
}

static GanStatus measure_roof(const Bench *b, Roofline *best) {
    Device *d;
    Roofline r = {0};
    DeviceOptions o;
    const DeviceApi *api = roof_of(b, &o);
    TRY(api->open(&o, &d));
    GanStatus st = api->roofline(d, &r);
    api->close(d);
    best->gflops_f32 = fmax(best->gflops_f32, r.gflops_f32);
    best->gflops_bf16 = fmax(best->gflops_bf16, r.gflops_bf16);
    best->gflops_f16 = fmax(best->gflops_f16, r.gflops_f16);
    best->gbs = fmax(best->gbs, r.gbs);
    return st;
}

// `card` empty: the device is the host.
static void put_roof_json(Text *t, const Roofline *r, const char *device, Str card, int threads) {
    JsonOut j = {.text = t};
    json_open(&j, '{');
    json_member_str(&j, "device", str_c(device));
    if (card.len)
        json_member_str(&j, "card", card);
    else
        json_member_int(&j, "threads", threads);
    json_member_double(&j, "gflops_f32", r->gflops_f32);
    json_member_double(&j, "gflops_bf16", r->gflops_bf16);
    json_member_double(&j, "gflops_f16", r->gflops_f16);
    json_member_double(&j, "gbs", r->gbs);
    json_close(&j, '}');
    text_char(t, '\n');
}

static void put_roof(Text *t, const Roofline *r, const char *device, Str card, int threads) {
    const double gflops[] = {r->gflops_f32, r->gflops_bf16, r->gflops_f16};
    static const Dtype dtype[] = {DtF32, DtBF16, DtF16};
    if (card.len)
        text_fmt(t, "%s, %.*s: ", device, SARG(card));
    else
        text_fmt(t, "%s, %d thread%s: ", device, threads, threads == 1 ? "" : "s");
    for (size_t i = 0; i < sizeof dtype / sizeof *dtype; i++)
        if (gflops[i] > 0) // the device has it
            text_fmt(t, "%.1f GFLOP/s %s, ", gflops[i], dtype_name[dtype[i]]);
    text_fmt(t, "copy %.1f GB/s\n", r->gbs);
}

GanStatus bench_roofline(Bench *b) {
    DeviceOptions o;
    const DeviceApi *api = roof_of(b, &o);
    char card[128] = "";
    Text t = {.arena = b->perm};
    if (api->card)
        TRY(api->card(&o, card, sizeof card));
    TRY(measure_roof(b, &b->roof));
    (b->o->at[OptJson].given ? put_roof_json : put_roof)(&t, &b->roof, api->name, str_c(card),
                                                         device_threads_for(o.threads));
    b->host->console.result(b->host->console.user, text_str(&t));
    return GAN_OK;
}

// --- the step ------------------------------------------------------------------------------------

// Of all ranks: they wait for each other in turns.
static GanStatus mean_comm(Bench *b) {
    CommStats mine = comm_stats(b->comm);
    Arena scratch = *b->perm;
    int ranks = comm_size(b->comm);
    TRY(trace_late(scratch, b->comm, &b->late_ms));
    b->late_ms *= 1000 / (double)b->steps;
    CommStats *all = arena_array(&scratch, CommStats, ranks);
    TRY(comm_gather(b->comm, &mine, sizeof mine, all));
    for (int r = 0; r < ranks; r++) {
        b->comm_ms += all[r].busy * 1000 / (double)(ranks * b->steps);
        b->exposed_ms += all[r].exposed * 1000 / (double)(ranks * b->steps);
    }
    return GAN_OK;
}

// Launch by launch: of all ranks at once, as in a step; in a replay of one after the other, for
// they may be more than there are cores.
static GanStatus profile(Bench *b, Timeline *out) {
    uint32_t steps = b->steps < PROFILED ? (uint32_t)b->steps : PROFILED;
    int turns = b->o->at[OptReplay].given ? comm_size(b->comm) : 1;
    for (int r = 0; r < turns; r++) {
        if (turns == 1 || r == comm_rank(b->comm))
            TRY(sim_profile(b->perm, b->session.exec, b->comm, b->clock, steps, out));
        TRY(comm_barrier(b->comm));
    }
    return turns > 1 ? sim_average(b->perm, b->comm, out) : GAN_OK;
}

// On the link as it is measured now, which a wire model is part of; the bound is of the wire alone.
static GanStatus simulate_step(Bench *b, const Timeline *mine) {
    CommOptions how;
    const Timeline *all;
    int ranks = comm_size(b->comm);
    SimLink link = {.ranks = ranks};
    TRY(ranks_comm_options(b->o, &how));
    link.waits = how.wait;
    if (ranks > 1 && !how.null)
        TRY(link_measure(b->comm, &link.each));
    if (b->o->at[OptReplay].given || comm_cores(b->comm) > CoresFull)
        link.each.core = link.each.byte = 0; // of cores that have nothing else to do
    TRY(sim_gather(b->perm, b->comm, mine, &all));
    b->simulated_ms = sim_run(*b->perm, all, (uint32_t)ranks, &link).step * 1000;
    if (b->o->at[OptWire].given)
        link.each = wire_link(how.wire_us, how.wire_gbit);
    b->bound_ms = sim_bound(*b->perm, &b->session.compiled.step, mine, &link) * 1000;
    return GAN_OK;
}

// Of the times of whole periods of steps, in order, a step's: the median, or where steps differ the
// mean over the period of the median of each kind.
static double step_time(const Bench *b, const double *ms) {
    const Func *f = b->session.compiled.step.func;
    uint32_t period = sim_period(f);
    Arena scratch = *b->perm;
    double sum = 0, *same = arena_array(&scratch, double, b->steps);
    for (uint32_t s = 0; s < period; s++) {
        size_t n = 0;
        for (uint32_t i = 0; i < b->steps; i++)
            if (sim_same_launches(f, (uint32_t)b->warmup + s, (uint32_t)b->warmup + i))
                same[n++] = ms[i];
        qsort(same, n, sizeof *same, by_double);
        sum += same[n / 2] / period;
    }
    return sum;
}

static GanStatus time_steps(Bench *b, const Timeline *replayed) {
    b->ms = arena_array(b->perm, double, b->steps);
    TRY(exec_ready(b->session.exec));
    TRY(comm_barrier(b->comm)); // not between steps: it would wait for what one leaves to the next
    comm_trace(b->comm, true);
    for (int64_t i = 0; i < b->warmup + b->steps; i++) {
        if (i == b->warmup)
            comm_stats_clear(b->comm), comm_events_clear(b->comm);
        double began = time_now();
        Counters c = {.step = (uint32_t)i};
        TRY(replayed ? sim_replay(b->session.exec, replayed, &c)
                     : bench_step(b, (uint32_t)i, NULL));
        if (i >= b->warmup)
            b->ms[i - b->warmup] = (time_now() - began) * 1000;
    }
    b->step_ms = step_time(b, b->ms);
    qsort(b->ms, (size_t)b->steps, sizeof *b->ms, by_double);
    TRY(mean_comm(b));
    return replayed ? sim_drain(b->session.exec) : exec_finish(b->session.exec);
}

// `n` steps from `first` on, none of which is waited for but the last.
static GanStatus outside_of(Bench *b, uint32_t first, uint32_t n, Outside *out) {
    Device *d = b->session.device;
    (void)b->api->inside(d, true);
    double began = time_now();
    for (uint32_t i = 0; i < n; i++) {
        Counters c = {.step = first + i};
        TRY(exec_step(b->session.exec, &c, NULL));
    }
    TRY(exec_wait(b->session.exec));
    out->all = (time_now() - began) * 1000;
    out->outside = out->all - b->api->inside(d, true) * 1000;
    return GAN_OK;
}

// Of a device that computes in the host's threads: in the executor, and in handing launches to
// them. The clock is read twice a launch meanwhile.
static GanStatus outside_each(Bench *b, uint32_t first, uint32_t steps, Outside *out) {
    double *ms = arena_array(b->perm, double, steps);
    for (uint32_t i = 0; i < steps; i++) {
        TRY(outside_of(b, first + i, 1, out));
        ms[i] = out->outside;
    }
    *out = (Outside){b->step_ms, step_time(b, ms)};
    return GAN_OK;
}

// Of a card, which works behind the host's back: what it idles when steps follow each other as in
// training; at most, for what times its kernels slows them down: most where the host waits within a
// step, for its own part of that is not hidden then. Graphs are made again for the counting, those
// of a branch when it is taken, so as many steps go before.
static GanStatus outside_whole(Bench *b, uint32_t first, uint32_t steps, Outside *out) {
    TRY(outside_of(b, first, steps, out));
    TRY(outside_of(b, first + steps, steps, out));
    *out = (Outside){out->all / steps, out->outside / steps};
    return GAN_OK;
}

GanStatus bench_outside(Bench *b) {
    uint32_t first = (uint32_t)(b->warmup + b->steps), steps = (uint32_t)b->steps;
    if (!b->api->inside || isnan(b->api->inside(b->session.device, true)))
        return GAN_OK;
    TRY((b->api->fetches ? outside_whole : outside_each)(b, first, steps, &b->outside));
    (void)b->api->inside(b->session.device, false);
    return GAN_OK;
}

// Bytes no step can do without moving: what it reads and writes of the memory that outlives it.
static double bytes_needed(const Plan *p) {
    const Func *f = p->func;
    const Module *m = p->module;
    double bytes = 0;
    for (uint32_t i = 0; i < m->slot.n; i++) {
        double size = (double)type_bytes(&f->g, &m->slot.at[i].type);
        bool read = false, written = false;
        for (uint32_t k = 1; k < f->g.node.n && !read; k++)
            read = graph_node(&f->g, k)->op == OpRead && node_slot(&f->g, k) == i;
        for (uint32_t k = 0; k < f->effect.n && !written; k++)
            written = node_slot(&f->g, f->effect.at[k]) == i;
        bytes += (read ? size : 0) + (written ? size : 0);
    }
    return bytes;
}

typedef struct Launches {
    uint64_t calls, all; // calls: launches that a library does
} Launches;

// In one step, every branch taken.
static Launches launches_of(const Plan *p) {
    Launches n = {0};
    for (uint32_t k = 0; k < p->section.n; k++) {
        const Section *s = &p->section.at[k];
        uint32_t rounds = tape_rounds(p->func, s->block);
        n.all += (uint64_t)s->n * rounds;
        for (uint32_t i = 0; i < s->n; i++) {
            const Launch *l = &p->launch.at[s->first + i];
            n.calls += p->region.at[l->region].kind == RegionCall ? rounds : 0;
        }
    }
    return n;
}

// --- the answer ----------------------------------------------------------------------------------

typedef struct Row {
    const char *name;
    double value;
} Row;
enum { ROWS_MOST = 32 };

static uint32_t rows_of(const Bench *b, Row *row) {
    const Plan *p = &b->session.compiled.step;
    Launches n = launches_of(p);
    double ranks = comm_size(b->comm), gflop = ranks * p->gflop; // the roof is of one rank's cores
    double step_ms = b->step_ms, peak = b->real == DtBF16  ? b->roof.gflops_bf16
                                        : b->real == DtF16 ? b->roof.gflops_f16
                                                           : b->roof.gflops_f32;
    double compute_ms = peak > 0 ? p->gflop / peak * 1000 : 0;
    double move_ms = b->roof.gbs > 0 ? bytes_needed(p) / (b->roof.gbs * 1e6) : 0;
    double floor_ms = fmax(compute_ms, move_ms);
    const Row all[] = {
        {"step_ms", step_ms},
        {"step_ms_min", b->ms[0]},
        {"step_ms_p90", b->ms[(b->steps * 9 - 1) / 10]},
        {"samples_per_s", (double)b->batch / step_ms * 1000},
        {"gflop_per_step", gflop},
        {"gflop_model", ranks * p->gflop_model},
        {"gflop_per_s", gflop / step_ms * 1000},
        {"roofline_gflops", ranks * peak},
        {"roofline_gbs", ranks * b->roof.gbs},
        {"floor_ms", floor_ms},
        {"fraction_of_roofline", floor_ms / step_ms},
        {"cold_ms", b->cold_ms},
        {"warm_ms", b->warm_ms},
        {"peak_bytes_planned", (double)(p->slot_bytes + p->work_bytes)},
        {"peak_bytes_measured", b->peak_bytes},
        {"peak_bytes_bound", (double)(p->slot_bytes + p->work_bound)},
        {"comm_ms", b->comm_ms},
        {"comm_exposed_ms", b->exposed_ms},
        {"comm_late_ms", b->late_ms},
        {"comm_bound_ms", b->bound_ms},
        {"simulated_ms", b->simulated_ms},
        {"kernels", p->kernel.n},
        {"library_calls", (double)n.calls},
        {"launches_per_step", (double)n.all},
        {"outside_ms", b->outside.outside},
        {"outside_share", b->outside.outside / b->outside.all},
        {"launch_us", n.all ? b->outside.outside * 1000 / (double)n.all : NAN},
    };
    uint32_t rows = sizeof all / sizeof *all;
    for (uint32_t i = 0; i < rows; i++)
        row[i] = all[i];
    return rows;
}

static void answer_json(Bench *b, const Timeline *m, Text *t) {
    Row row[ROWS_MOST];
    uint32_t rows = rows_of(b, row), top = (uint32_t)option_number(b->o, OptTop, 0);
    JsonOut j = {.text = t};
    json_open(&j, '{');
    json_member_str(&j, "model", b->session.compiled.module.name);
    json_member_int(&j, "batch", b->batch);
    json_member_str(&j, "device", str_c(b->api->name));
    json_member_str(&j, "precision", str_c(dtype_name[b->real]));
    json_member_int(&j, "ranks", comm_size(b->comm));
    json_member_int(&j, "threads", device_threads(b->session.device));
    json_member_int(&j, "steps", b->steps);
    for (uint32_t i = 0; i < rows; i++)
        json_member_double(&j, row[i].name, row[i].value);
    if (top)
        costs_json(&j, &b->session.compiled.step, m, b->clock, top);
    json_close(&j, '}');
    text_char(t, '\n');
}

static void row_text(Text *t, const Row *r) {
    double v = r->value;
    if (isnan(v)) // not measured; null in JSON
        text_fmt(t, "  %-22s -\n", r->name);
    else
        text_fmt(t, "  %-22s %.*f\n", r->name, fabs(v) < 1e5 && v != floor(v) ? 3 : 0, v);
}

static void answer_text(Bench *b, const Timeline *m, Text *t) {
    Row row[ROWS_MOST];
    uint32_t rows = rows_of(b, row), top = (uint32_t)option_number(b->o, OptTop, 0);
    int threads = device_threads(b->session.device);
    text_fmt(t, "%.*s  batch %lld  %s  %s  %d thread%s  %lld steps\n",
             SARG(b->session.compiled.module.name), (long long)b->batch, b->api->name,
             dtype_name[b->real], threads, threads == 1 ? "" : "s", (long long)b->steps);
    for (uint32_t i = 0; i < rows; i++)
        row_text(t, &row[i]);
    if (top)
        costs_put(t, &b->session.compiled.step, m, b->clock, top);
}

static void answer(Bench *b, const Timeline *m) {
    Text t = {.arena = b->perm};
    (b->o->at[OptJson].given ? answer_json : answer_text)(b, m, &t);
    b->host->console.result(b->host->console.user, text_str(&t));
}

static GanStatus bench_model(Bench *b) {
    bool alone = comm_size(b->comm) == 1, brief = b->o->at[OptBrief].given,
         first = ranks_first(b->comm) && !brief;
    TRY(bench_open(b));
    if (alone && !brief)
        TRY(bench_starts(b));
    if (first)
        TRY(measure_roof(b, &b->roof));
    TRY(bench_fill(b));
    uint32_t period = sim_period(b->session.compiled.step.func);
    b->steps = (b->steps + period - 1) / period * period;
    Timeline m = {0};
    bool replay = b->o->at[OptReplay].given, simulated = !alone || brief;
    if (replay)
        TRY(profile(b, &m));
    TRY(time_steps(b, replay ? &m : NULL));
    if ((simulated && exec_launches(b->session.exec)) || b->o->at[OptTop].given) {
        if (!replay) {
            bench_clock_open(b);
            TRY(profile(b, &m));
            bench_clock_close(b);
        }
        if (simulated)
            TRY(simulate_step(b, &m));
    }
    b->outside = (Outside){NAN, NAN};
    if (alone)
        TRY(bench_outside(b));
    if (!alone)
        b->peak_bytes = NAN; // the measurement of the roof is in it
    if (first)
        TRY(measure_roof(b, &b->roof));
    answer(b, &m);
    return b->o->at[OptTimeline].given ? bench_timeline(b, (uint32_t)(b->warmup + 3 * b->steps))
                                       : GAN_OK;
}

GanStatus cmd_bench(Arena *perm, const Host *h, const Options *o) {
    Bench b = {
        .perm = perm,
        .host = h,
        .o = o,
        .comm = h->device.comm,
        .cold_ms = NAN,
        .warm_ms = NAN,
        .late_ms = NAN,
        .simulated_ms = NAN,
        .bound_ms = NAN,
        .real = DtF32,
        .batch = option_number(o, OptBatch, DEFAULT_BATCH),
        .steps = option_number(o, OptSteps, 10),
        .warmup = option_number(o, OptWarmup, 3),
    };
    TRY(device_of(o, &b.api, &b.real));
    if (o->file.n && file_exists(o->file.at[0]))
        TRY(model_fixes(perm, o->file.at[0], o, &b.batch, &b.real));
    if (o->at[OptRoofline].given)
        return o->file.n ? fail(GAN_ERR_USAGE, "--roofline measures the machine: give no FILE")
                         : bench_roofline(&b);
    if (!o->file.n)
        return fail(GAN_ERR_USAGE, "`ganrun bench` needs a FILE, or --roofline");
    if (o->at[OptTimeline].given && !b.api->work)
        return fail(GAN_ERR_USAGE, "--timeline is of kernels on a card: use --device cuda");
    b.model = o->file.at[0];
    if (!file_exists(b.model))
        return fail(GAN_ERR_INPUT, "there is no file %.*s", SARG(b.model));
    GanStatus st = o->at[OptLaunch].given ? bench_first_launch(&b) : bench_model(&b);
    if (st == GAN_OK || !b.comm) // else sums may still arrive in its memory
        session_release(&b.session);
    return st;
}
