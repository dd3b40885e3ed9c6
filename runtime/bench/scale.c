// scale.c - `ganrun scale`: a scaling study with one command.
//
// In: a model, numbers of ranks, weak or strong scaling. Out: a folder with a table, a plot and the
// text of a methods section. Each measured point is `ganrun bench` on that many ranks, started
// through mpirun, and once more with --comm null. Simulated points are from sim.c; the benchmark
// simulates measured points too, which shows the simulator's error.
#include "commands.h"
#include "process.h"
#include "scale.h"

#include <math.h>
#include <string.h>
#include <unistd.h>

const char *const scale_mode_name[ScaleModes] = {"weak", "strong"};

enum { POINTS_MOST = 64, RANKS_MOST = 1 << 20, PROFILED = 5 };

static int64_t batch_of(const Study *s, ScaleMode mode, int64_t ranks) {
    return mode == ScaleWeak ? s->batch * ranks : s->batch;
}

// Step time of one rank, of which speed-ups are counted; NaN when it was not measured.
static double base_of(const Study *s, ScaleMode mode) {
    for (uint32_t i = 0; i < s->point.n; i++)
        if (s->point.at[i].mode == mode && s->point.at[i].ranks == 1)
            return s->point.at[i].ms;
    return NAN;
}

double scale_speedup(const Study *s, const ScalePoint *p) {
    return base_of(s, p->mode) / p->ms * (p->mode == ScaleWeak ? (double)p->ranks : 1);
}

// --- what was asked for --------------------------------------------------------------------------

typedef struct Wanted {
    VEC(int64_t) ranks;
    VEC(int64_t) simulated;
    bool mode[ScaleModes];
} Wanted;

static GanStatus parse_ranks(Arena *a, Str text, Wanted *w) {
    for (Str rest = text; rest.len;) {
        size_t comma = str_find(rest, ',');
        int64_t n;
        if (!str_to_int(str_sub(rest, 0, comma), &n) || n < 1 || n > RANKS_MOST ||
            w->ranks.n == POINTS_MOST)
            return fail(GAN_ERR_USAGE, "--ranks needs numbers, as 1,2,4; not `%.*s`", SARG(text));
        vec_push(a, &w->ranks, n);
        rest = str_sub(rest, comma + 1, rest.len);
    }
    return GAN_OK;
}

static GanStatus parse_modes(Str text, Wanted *w) {
    for (Str rest = text; rest.len;) {
        size_t comma = str_find(rest, ',');
        bool known = false;
        for (int m = 0; m < ScaleModes; m++)
            if (str_eq(str_sub(rest, 0, comma), str_c(scale_mode_name[m])))
                known = w->mode[m] = true;
        if (!known)
            return fail(GAN_ERR_USAGE, "--mode needs weak, strong or both; not `%.*s`", SARG(text));
        rest = str_sub(rest, comma + 1, rest.len);
    }
    return GAN_OK;
}

// "8..16384": every doubling.
static GanStatus parse_simulated(Arena *a, Str text, Wanted *w) {
    int64_t from, to;
    size_t dots = str_find(text, '.');
    if (!str_to_int(str_sub(text, 0, dots), &from) ||
        !str_to_int(str_sub(text, dots + 2, text.len), &to) || from < 2 || to < from ||
        to > RANKS_MOST)
        return fail(GAN_ERR_USAGE, "--simulate needs a range of ranks, as 8..1024; not `%.*s`",
                    SARG(text));
    for (; from <= to; from *= 2)
        vec_push(a, &w->simulated, from);
    return GAN_OK;
}

static GanStatus parse_link(OptionId id, Str text, LinkModel *out) {
    double us, gbit;
    TRY(wire_read(option_word(id), text, &us, &gbit));
    *out = wire_link(us, gbit);
    return GAN_OK;
}

// --- a measured point ----------------------------------------------------------------------------

static void add(const Study *s, CommandLine *line, const char *word, Str value) {
    vec_push(s->perm, line, word);
    if (value.ptr)
        vec_push(s->perm, line, str_z(s->perm, value));
}

static Str number(const Study *s, int64_t n) {
    return str_format(s->perm, "%lld", (long long)n);
}

static void bench_line(const Study *s, int64_t ranks, int64_t batch, bool null, CommandLine *line) {
    static const OptionId passed[] = {OptWire,  OptOverlap, OptBucketMb,
                                      OptCache, OptDeterm,  OptSet};
    if (ranks > 1) {
        add(s, line, "mpirun", (Str){0});
        add(s, line, "--oversubscribe", (Str){0});
        add(s, line, "--bind-to", STR("none"));
        add(s, line, "-n", number(s, ranks));
    }
    add(s, line, str_z(s->perm, s->host->self), STR("bench"));
    add(s, line, str_z(s->perm, s->model), (Str){0});
    add(s, line, option_word(OptBrief), (Str){0});
    add(s, line, option_word(OptJson), (Str){0});
    add(s, line, option_word(OptBatch), number(s, batch));
    add(s, line, option_word(OptSteps), number(s, s->steps));
    add(s, line, option_word(OptWarmup), number(s, s->warmup));
    add(s, line, option_word(OptThreads), number(s, s->threads));
    add(s, line, option_word(OptDevice), str_c(s->api->name));
    add(s, line, option_word(OptPrecision), str_c(dtype_name[s->real]));
    if (null)
        add(s, line, option_word(OptComm), STR("null"));
    options_pass(s->perm, s->o, passed, sizeof passed / sizeof *passed, line);
    vec_push(s->perm, line, NULL);
}

// The line of `said` that begins so; empty when there is none.
static Str line_of(Str said, Str begin) {
    for (size_t at = 0; at < said.len;) {
        Str line = str_sub(said, at, at + str_find(str_sub(said, at, said.len), '\n'));
        if (str_starts(line, begin))
            return line;
        at += line.len + 1;
    }
    return (Str){0};
}

static GanStatus run_bench(Study *s, int64_t ranks, int64_t batch, bool null, const Json **out) {
    CommandLine line = {0};
    Str said;
    int code;
    bench_line(s, ranks, batch, null, &line);
    TRY(process_run(s->perm, line.at, &said, &code));
    Str answer = line_of(said, STR("{\"model\""));
    if (code == 0 && answer.len)
        return json_parse(s->perm, answer, STR("bench"), out);
    return fail(GAN_ERR_DEVICE, "%s on %lld ranks ended with %d: %.*s", line.at[0],
                (long long)ranks, code, SARG(str_sub(said, 0, 1500)));
}

// A measured point with this many ranks and samples; NULL: there is none. Weak and strong scaling
// have that of one rank in common.
static const ScalePoint *measured_before(const Study *s, int64_t ranks, int64_t batch) {
    for (uint32_t i = 0; i < s->point.n; i++)
        if (s->point.at[i].ranks == ranks && s->point.at[i].batch == batch)
            return &s->point.at[i];
    return NULL;
}

static GanStatus measure(Study *s, ScaleMode mode, int64_t ranks) {
    int64_t batch = batch_of(s, mode, ranks);
    const Json *root, *null = NULL;
    const ScalePoint *same = measured_before(s, ranks, batch);
    if (same) {
        ScalePoint p = *same;
        p.mode = mode;
        vec_push(s->perm, &s->point, p);
        return GAN_OK;
    }
    say(&s->host->console, "%s, %lld rank%s, batch %lld", scale_mode_name[mode], (long long)ranks,
        ranks == 1 ? "" : "s", (long long)batch);
    TRY(run_bench(s, ranks, batch, false, &root));
    if (ranks > 1)
        TRY(run_bench(s, ranks, batch, true, &null));
    ScalePoint p = {.mode = mode,
                    .ranks = ranks,
                    .batch = batch,
                    .ms = json_number(json_get(root, "step_ms"), NAN),
                    .comm_ms = json_number(json_get(root, "comm_ms"), NAN),
                    .exposed_ms = json_number(json_get(root, "comm_exposed_ms"), NAN),
                    .null_ms = json_number(json_get(null, "step_ms"), NAN),
                    .simulated_ms = json_number(json_get(root, "simulated_ms"), NAN)};
    s->timed = (int64_t)json_number(json_get(root, "steps"), (double)s->steps);
    vec_push(s->perm, &s->point, p);
    return GAN_OK;
}

// --- simulated points ----------------------------------------------------------------------------

// Rank 0 of `ranks` alone on this machine, by the plan made for `link`.
static GanStatus profile(const Study *s, ScaleMode mode, int64_t ranks, LinkModel link,
                         Timeline *out) {
    NullRank first = {0, (int)ranks};
    Comm *alone = NULL;
    Session session = {0};
    Split split;
    GanStatus st = GAN_OK;
    static const uint64_t seed = 0;
    SessionOptions so = {.seed = &seed,
                         .steps = true,
                         .compile = {.path = s->model,
                                     .batch = batch_of(s, mode, ranks),
                                     .setting = s->o->at[OptSet].pair.at,
                                     .settings = s->o->at[OptSet].pair.n,
                                     .real = s->real},
                         .api = s->api,
                         .device = s->host->device};
    so.device.threads = (int)s->threads;
    TRY(ranks_split(s->o, &split));
    TRY(comm_open(&link_null, &first, &(CommOptions){0}, &alone));
    TRY_OUT(ranks_parallel(alone, so.compile.batch, &split, link, &so.compile.parallel));
    so.device.comm = alone;
    TRY_OUT(session_start(&session, &so, &s->host->console));
    TRY_OUT(sim_profile(s->perm, session.exec, alone, NULL, PROFILED, out));
out:
    session_release(&session);
    comm_close(alone);
    return st;
}

// Weak scaling leaves a rank's work as it is: its launches are measured once, on two ranks' plan.
static GanStatus simulate(Study *s, ScaleMode mode, const Wanted *w) {
    Timeline m = {0};
    for (uint32_t i = 0; i < w->simulated.n; i++) {
        int64_t ranks = w->simulated.at[i];
        if (mode == ScaleStrong && ranks > s->batch) {
            say(&s->host->console, "strong, %lld ranks: the batch of %lld has no sample for each",
                (long long)ranks, (long long)s->batch);
            break;
        }
        if (mode == ScaleStrong || !m.n)
            TRY(profile(s, mode, mode == ScaleWeak ? 2 : ranks, s->link, &m));
        SimTimes t = sim_run(*s->perm, &m, 1, &(SimLink){.scaled = s->link, .ranks = ranks});
        ScalePoint p = {.mode = mode,
                        .ranks = ranks,
                        .batch = batch_of(s, mode, ranks),
                        .simulated = true,
                        .ms = t.step * 1000,
                        .comm_ms = t.comm * 1000,
                        .exposed_ms = t.exposed * 1000,
                        .null_ms = NAN,
                        .simulated_ms = NAN};
        vec_push(s->perm, &s->point, p);
    }
    return GAN_OK;
}

// --- the command ---------------------------------------------------------------------------------

static GanStatus read_options(Study *s, Wanted *w) {
    const Options *o = s->o;
    TRY(device_of(o, &s->api, &s->real));
    TRY(parse_ranks(s->perm, option_text(o, OptRanks, STR("1,2")), w));
    TRY(parse_modes(option_text(o, OptMode, STR("weak,strong")), w));
    if (o->at[OptSimulate].given)
        TRY(parse_simulated(s->perm, o->at[OptSimulate].text, w));
    TRY(parse_link(OptLink, option_text(o, OptLink, STR("20,10")), &s->link));
    if (o->at[OptWire].given)
        TRY(parse_link(OptWire, o->at[OptWire].text, &s->seen));
    int64_t most = 1;
    for (uint32_t i = 0; i < w->ranks.n; i++)
        most = w->ranks.at[i] > most ? w->ranks.at[i] : most;
    s->cores = data_threads(0);
    int64_t fair = s->cores / most;
    s->threads = option_number(o, OptThreads, fair > 0 ? fair : 1);
    return file_exists(s->model) ? GAN_OK
                                 : fail(GAN_ERR_INPUT, "there is no file %.*s", SARG(s->model));
}

GanStatus cmd_scale(Arena *perm, const Host *h, const Options *o) {
    Study s = {.perm = perm,
               .model = o->file.at[0],
               .out = option_text(o, OptOut, STR("scale")),
               .o = o,
               .host = h,
               .batch = option_number(o, OptBatch, DEFAULT_BATCH),
               .steps = option_number(o, OptSteps, 10),
               .warmup = option_number(o, OptWarmup, 3)};
    Wanted w = {0};
    TRY(read_options(&s, &w));
    TRY(dir_make(s.out));
    for (int mode = 0; mode < ScaleModes; mode++)
        for (uint32_t i = 0; w.mode[mode] && i < w.ranks.n; i++)
            TRY(measure(&s, (ScaleMode)mode, w.ranks.at[i]));
    for (int mode = 0; mode < ScaleModes; mode++)
        if (w.mode[mode])
            TRY(simulate(&s, (ScaleMode)mode, &w));
    return scale_write(&s);
}
