// check.c - see check.h.
//
// plain.h evaluates a model as written, and again with noise of the size of f64's and of f32's
// rounding. A value may differ by a multiple of the change that the noise causes, and no more. So a
// model that amplifies rounding tests little, and one that does not tests much.
//
// In 16-bit floats the noise is large, and only some noisy runs may cross a discontinuity: more of
// them are sampled before a value counts as wrong.
#include "check.h"
#include "plain.h"
#include "plan_sim.h"

#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

enum {
    STEPS = 3,
    NOISY_RUNS = 3,
    MOST_NOISY_RUNS = 60,
    LIMIT = 60, // seconds of work; of waiting, ten times as many
    CARD_LIMIT = 300,
    ExitWrong = 1,
    ExitRefused = 10,
    ExitDiverged = 11
};

typedef struct Config {
    const char *name;
    const DeviceApi *api;
    Dtype real;
    Parallel parallel; // bucket 1: a random one
    int threads;
    bool compiled; // kernels are compiled; else the reference evaluator runs regions
    bool card;     // on the card of CheckOptions
    bool reread;
    bool min_memory; // recompute wherever that takes less memory
    uint32_t resume;
    bool entries;
    const char *same_as; // an earlier configuration with the same bits
} Config;

static const Config configs[] = {
    {.name = "ref", .api = &device_ref, .real = DtF64, .entries = true},
    {.name = "resumed", .api = &device_ref, .real = DtF64, .resume = 1, .same_as = "ref"},
    {.name = "ref reread", .api = &device_ref, .real = DtF64, .reread = true, .same_as = "ref"},
    {.name = "micro", .api = &device_ref, .real = DtF64, .parallel = {.micro = 2}},
    {.name = "chunks", .api = &device_ref, .real = DtF64, .parallel = {.chunks = 2}},
    {.name = "chunks on ranks",
     .api = &device_ref,
     .real = DtF64,
     .parallel = {.chunks = 2, .ranks = 2},
     .same_as = "chunks"},
    {.name = "ranks",
     .api = &device_ref,
     .real = DtF64,
     .parallel = {.ranks = 2, .bucket = 1, .bandwidth = 1e5}},
    {.name = "tail",
     .api = &device_ref,
     .real = DtF64,
     .parallel = {.ranks = 2, .bucket = 1, .bandwidth = 1e5, .tail = true},
     .same_as = "ranks"},
    {.name = "uneven ranks", .api = &device_ref, .real = DtF64, .parallel = {.ranks = 3}},
    {.name = "micro on ranks",
     .api = &device_ref,
     .real = DtF64,
     .parallel = {.ranks = 2, .micro = 2}},
    {.name = "f32", .api = &device_ref, .real = DtF32, .entries = true},
    {.name = "fused", .api = &device_cpu, .real = DtF32, .entries = true},
    {.name = "reread",
     .api = &device_cpu,
     .real = DtF32,
     .reread = true,
     .entries = true,
     .same_as = "fused"},
    {.name = "min memory",
     .api = &device_cpu,
     .real = DtF32,
     .min_memory = true,
     .reread = true,
     .same_as = "fused"},
    {.name = "fused micro", .api = &device_cpu, .real = DtF32, .parallel = {.micro = 2}},
    {.name = "min memory micro",
     .api = &device_cpu,
     .real = DtF32,
     .parallel = {.micro = 2},
     .min_memory = true,
     .same_as = "fused micro"},
    {.name = "fused chunks", .api = &device_cpu, .real = DtF32, .parallel = {.chunks = 2}},
    {.name = "fused chunks on ranks",
     .api = &device_cpu,
     .real = DtF32,
     .parallel = {.chunks = 2, .ranks = 2},
     .same_as = "fused chunks"},
    {.name = "min memory chunks",
     .api = &device_cpu,
     .real = DtF32,
     .parallel = {.chunks = 2},
     .min_memory = true,
     .same_as = "fused chunks"},
    {.name = "fused on ranks",
     .api = &device_cpu,
     .real = DtF32,
     .parallel = {.ranks = 2, .bucket = 1, .bandwidth = 1e5, .tail = true}},
    {.name = "min memory on ranks",
     .api = &device_cpu,
     .real = DtF32,
     .parallel = {.ranks = 2, .bucket = 1, .bandwidth = 1e5, .tail = true},
     .min_memory = true,
     .reread = true,
     .same_as = "fused on ranks"},
    {.name = "kernels", .api = &device_cpu, .real = DtF32, .compiled = true, .entries = true},
    {.name = "threads",
     .api = &device_cpu,
     .real = DtF32,
     .compiled = true,
     .threads = 3,
     .entries = true,
     .same_as = "kernels"},
    {.name = "kernels on ranks",
     .api = &device_cpu,
     .real = DtF32,
     .parallel = {.ranks = 2, .bucket = 1, .bandwidth = 1e5, .tail = true},
     .compiled = true},
    {.name = "kernels on uneven ranks",
     .api = &device_cpu,
     .real = DtF32,
     .parallel = {.ranks = 3},
     .compiled = true},
    {.name = "bf16", .api = &device_ref, .real = DtBF16, .entries = true},
    {.name = "bf16 chunks", .api = &device_ref, .real = DtBF16, .parallel = {.chunks = 2}},
    {.name = "bf16 chunks on ranks",
     .api = &device_ref,
     .real = DtBF16,
     .parallel = {.chunks = 2, .ranks = 2},
     .same_as = "bf16 chunks"},
    {.name = "bf16 fused", .api = &device_cpu, .real = DtBF16, .entries = true},
    {.name = "bf16 min memory",
     .api = &device_cpu,
     .real = DtBF16,
     .min_memory = true,
     .reread = true,
     .same_as = "bf16 fused"},
    {.name = "bf16 on ranks",
     .api = &device_cpu,
     .real = DtBF16,
     .parallel = {.ranks = 2, .bucket = 1, .bandwidth = 1e5, .tail = true}},
    {.name = "bf16 kernels", .api = &device_cpu, .real = DtBF16, .compiled = true, .entries = true},
    {.name = "f16", .api = &device_ref, .real = DtF16, .entries = true},
    {.name = "f16 chunks", .api = &device_ref, .real = DtF16, .parallel = {.chunks = 2}},
    {.name = "f16 chunks on ranks",
     .api = &device_ref,
     .real = DtF16,
     .parallel = {.chunks = 2, .ranks = 2},
     .same_as = "f16 chunks"},
    {.name = "f16 fused", .api = &device_cpu, .real = DtF16, .entries = true},
    {.name = "f16 min memory",
     .api = &device_cpu,
     .real = DtF16,
     .min_memory = true,
     .reread = true,
     .same_as = "f16 fused"},
    {.name = "f16 on ranks",
     .api = &device_cpu,
     .real = DtF16,
     .parallel = {.ranks = 2, .bucket = 1, .bandwidth = 1e5, .tail = true}},
    {.name = "f16 kernels", .api = &device_cpu, .real = DtF16, .compiled = true, .entries = true},
    {.name = "card", .real = DtF32, .card = true, .entries = true},
    {.name = "bf16 card", .real = DtBF16, .card = true, .entries = true},
    {.name = "f16 card", .real = DtF16, .card = true, .entries = true},
    {.name = "card on ranks",
     .real = DtF32,
     .parallel = {.ranks = 2, .bucket = 1, .bandwidth = 1e5, .tail = true},
     .card = true},
    {.name = "bf16 card on ranks",
     .real = DtBF16,
     .parallel = {.ranks = 2, .bucket = 1, .bandwidth = 1e5, .tail = true},
     .card = true},
};
enum { CONFIGS = sizeof configs / sizeof *configs };

// --- comparing -----------------------------------------------------------------------------------

typedef struct Bound {        // error bounds of the values of a run
    const struct Bound *base; // added: the bound by smaller noise; or NULL
    const uint32_t *at;       // [value] its index in `base`, or NONE; NULL: the same
    const RanksRun *want;
    Plain *from[2]; // oracles that are run with noise; the second may be NULL
    double noise, eps, times;
    uint64_t runs, most; // noisy runs so far, and at most
    double *spread;      // [value] largest change by noise of the size of rounding
    bool forks;          // noise decides which branches run: nothing can be compared
} Bound;

static double largest(const RanksValue *v, const double *minus) {
    double most = 0;
    for (size_t i = 0; i < v->n; i++) {
        double d = fabs(v->x[i] - (minus ? minus[i] : 0));
        most = d > most || d != d ? d : most;
    }
    return most;
}

// Do both have the same values? A branch that is not taken has no losses.
static bool alike(const RanksRun *a, const RanksRun *b) {
    bool same = a->value.n == b->value.n;
    for (uint32_t i = 0; same && i < a->value.n; i++)
        same = str_eq(a->value.at[i].name, b->value.at[i].name);
    return same;
}

static void bound_sample(Bound *b) {
    b->runs++;
    for (uint32_t k = 0; k < 2 && b->from[k]; k++) {
        Plain *p = b->from[k];
        Arena mark = *p->a;
        plain_run(p, b->noise, b->runs);
        b->forks = b->forks || !alike(&p->run, b->want);
        for (uint32_t i = 0; i < b->want->value.n && !b->forks; i++)
            b->spread[i] = fmax(b->spread[i], largest(&b->want->value.at[i], p->run.value.at[i].x));
        *p->a = mark;
    }
}

static Bound bound_new(Arena *a, Bound with) {
    with.spread = arena_array(a, double, with.want->value.n);
    while (with.runs < NOISY_RUNS)
        bound_sample(&with);
    return with;
}

static double allowed(const Bound *b, uint32_t i) {
    if (b->forks)
        return INFINITY;
    double most = largest(&b->want->value.at[i], NULL);
    uint32_t k = b->at ? b->at[i] : i;
    return b->times * b->spread[i] +
           (b->base && k != NONE ? allowed(b->base, k) : 64 * b->eps * (most + 1e-3));
}

// Is an error of value `i` within its bound, which more noisy runs may raise?
static bool covers(Bound *b, uint32_t i, double off) {
    while (!(off <= allowed(b, i)) && b->runs < b->most)
        bound_sample(b);
    return off <= allowed(b, i);
}

// Diverging numbers cannot be compared.
static bool diverges(const RanksRun *run) {
    for (uint32_t i = 0; i < run->value.n; i++)
        if (!(largest(&run->value.at[i], NULL) < 1e5))
            return true;
    return false;
}

static void compare_value(const Config *w, Bound *b, uint32_t i, const double *is) {
    const RanksValue *want = &b->want->value.at[i];
    double off = largest(want, is);
    if (!covers(b, i, off))
        fail_msg("%s: %.*s differs by %.3g of %.6g, noise by %.3g", w->name, SARG(want->name), off,
                 largest(want, NULL), b->spread[i]);
}

// Does noise decide which branches run? Samples until it does.
static bool forks(Bound *b) {
    while (!b->forks && b->runs < b->most)
        bound_sample(b);
    return b->forks || (b->base && b->base->forks);
}

// Entries come last, and not every configuration runs them.
static void compare(const Config *w, Bound *b, const RanksRun *got) {
    for (uint32_t i = 0; i < got->value.n; i++) {
        const RanksValue *want = &b->want->value.at[i], *is = &got->value.at[i];
        bool other = i >= b->want->value.n || !str_eq(want->name, is->name) || want->n != is->n;
        if (other && forks(b))
            return;
        if (other)
            fail_msg("%s: value %u is %.*s", w->name, i, SARG(is->name));
        compare_value(w, b, i, is->x);
    }
}

static void same_bits(const Config *w, const RanksRun *a, const RanksRun *b) {
    for (uint32_t i = 0; i < a->value.n && i < b->value.n; i++)
        if (memcmp(a->value.at[i].x, b->value.at[i].x, a->value.at[i].n * sizeof(double)))
            fail_msg("%s: %.*s differs in bits from %s", w->name, SARG(a->value.at[i].name),
                     w->same_as);
}

// --- configurations ------------------------------------------------------------------------------

static bool applies(const Config *w, const RandomModel *m, const CheckOptions *o) {
    int64_t ranks = w->parallel.ranks > 1 ? w->parallel.ranks : 1;
    int64_t parts = w->parallel.chunks  ? w->parallel.chunks
                    : w->parallel.micro ? w->parallel.micro * ranks
                                        : 1;
    return m->batch >= ranks && m->batch % parts == 0 && (o->compiled || !w->compiled) &&
           (o->card || !w->card) && (!o->config || strcmp(o->config, w->name) == 0);
}

// Initial loss scale in f16: too large for some gradients, too small for others.
static double scale_of(const CheckOptions *o) {
    return exp2((double)((o->seed + 8) % 17));
}

static RanksOptions options_of(const Config *w, const RandomModel *m, const CheckOptions *o) {
    RanksOptions r = {.name = "random.gan",
                      .text = m->text,
                      .batch = m->batch,
                      .parallel = w->parallel,
                      .api = w->card ? o->card : w->api,
                      .real = w->real,
                      .halves = true,
                      .scale = scale_of(o),
                      .steps = STEPS,
                      .as_trained = true,
                      .threads = w->threads,
                      .reread = w->reread,
                      .min_memory = w->min_memory,
                      .resume = w->resume,
                      .entries = w->entries,
                      .cache = o->cache};
    if (r.parallel.bucket)
        r.parallel.bucket = 64u << o->seed % 8;
    if (w->api == &device_cpu)
        r.compiler = w->compiled ? STR(TEST_DIR "/support/quick_cc") : STR("no-compiler");
    return r;
}

enum { BoundCard = DtCount, BOUNDS }; // after the dtypes: f16 in CUDA kernels

static Bound *bound_of(const Config *w, Bound *bound) {
    return &bound[w->card && w->real == DtF16 ? BoundCard : (uint32_t)w->real];
}

// Each value's index among those that are not loss scales; NONE for loss scales.
static uint32_t *without_scales(Arena *a, const RanksRun *run) {
    uint32_t *at = arena_array(a, uint32_t, run->value.n);
    for (uint32_t i = 0, n = 0; i < run->value.n; i++)
        at[i] = ranks_is_loss_scale(run->value.at[i].name) ? NONE : n++;
    return at;
}

// `slots`: checks only slots.
static bool is_finite(const RanksRun *run, bool slots) {
    for (uint32_t i = 0; i < run->value.n; i++)
        if ((!slots || run->value.at[i].slot != NONE) &&
            !isfinite(largest(&run->value.at[i], NULL)))
            return false;
    return true;
}

// The number of skipped updates in a run; fails unless each has halved its scale.
static double skipped(const Plain *p) {
    double all = 0;
    for (uint32_t s = 0; s < p->m.slot.n; s++) {
        Str name = p->m.slot.at[s].name;
        if (!str_starts(name, STR("skipped_updates/")))
            continue;
        double n = p->slot[s][0],
               scale = p->slot[s - 2][0]; // slots in order: scale, good updates, skipped updates
        all += n;
        if (scale != p->o->scale * exp2(-n))
            fail_msg("%.*s: %g, but the scale went from %g to %g", SARG(name), n, p->o->scale,
                     scale);
    }
    return all;
}

// Overflow in the backward pass must leave no slot non-finite.
static void check_kept(Arena *a, const RanksOptions *o, const RanksRun *scaled) {
    Plain p;
    Str said;
    RanksOptions once = *o; // unscaled
    once.scale = 1;
    assert_true(plain_open(&p, a, &once, true, &said));
    plain_run(&p, 0, 0);
    if (is_finite(&p.run, false) && !is_finite(scaled, true))
        fail_msg("a skipped update leaves a slot that is not finite");
}

// In f16 a skipped update changes everything after it, so the reference is a run that skips the
// same updates. If it skips none, it must agree with the unscaled oracle.
static Bound bound_f16(Arena *a, Plain *p, const RanksOptions *o, Bound *f32) {
    Str said;
    RanksRun *want = arena_new(a, RanksRun);
    assert_true(plain_open(p, a, o, true, &said));
    plain_run(p, 0, 0);
    *want = p->run;
    check_kept(a, o, want);
    double skips = skipped(p);
    if (!is_finite(want, false))
        return (Bound){0}; // a loss overflows f16, or an inner gradient of a penalty
    Bound b = {.base = f32,
               .at = without_scales(a, want),
               .want = want,
               .from = {p},
               .noise = 0x1p-22,
               .eps = 0x1p-24,
               .times = 4,
               .most = MOST_NOISY_RUNS};
    const Config scaled = {.name = "scaled"};
    for (uint32_t i = 0; i < want->value.n && !skips; i++)
        if (b.at[i] != NONE)
            compare_value(&scaled, f32, b.at[i], want->value.at[i].x);
    return bound_new(a, b);
}

// Does not support plans whose blocks read slots in parts.
static void play(Arena *a, const Config *w, const Plan *p, const CheckOptions *o) {
    const PassOptions pass = {.real = w->real, .no_fuse = p->unfused};
    if (p->func->block_first)
        return;
    plan_simulate(a, p, o->seed);
    if (p->tail.n)
        plan_simulate_lifetimes(a, p, &pass, o->seed);
}

// Is the i-th configuration's run compared with a later one's?
static bool is_kept(uint32_t i) {
    for (uint32_t k = i + 1; k < CONFIGS; k++)
        if (configs[k].same_as && strcmp(configs[k].same_as, configs[i].name) == 0)
            return true;
    return false;
}

// bound: [BOUNDS]
static void check_configs(Arena *a, const RandomModel *m, const CheckOptions *o, Bound *bound) {
    RanksRun *run = arena_array(a, RanksRun, CONFIGS);
    bool *there = arena_array(a, bool, CONFIGS);
    for (uint32_t i = 0; i < CONFIGS; i++) {
        const Config *w = &configs[i];
        Bound *b = bound_of(w, bound);
        if (!b->want || !applies(w, m, o))
            continue;
        RanksOptions r = options_of(w, m, o);
        fprintf(stderr, "config: %s\n", w->name); // judge reads the last one before an exit
        ranks_run(a, &r, &run[i]);
        there[i] = true;
        play(a, w, &run[i].compiled.step, o);
        compare(w, b, &run[i]);
        for (uint32_t k = 0; w->same_as && k < i; k++)
            if (there[k] && strcmp(configs[k].name, w->same_as) == 0)
                same_bits(w, &run[i], &run[k]);
        if (!is_kept(i))
            ranks_free(&run[i]);
    }
}

static int check(const RandomModel *m, const CheckOptions *o) {
    Arena a, b;
    Plain p, apart, halves, f16;
    Str said, worst;
    uint32_t counted;
    if (arena_init(&a, 0) != GAN_OK || arena_init(&b, 0) != GAN_OK)
        return ExitDiverged;
    RanksOptions plain = {.name = "random.gan",
                          .text = m->text,
                          .batch = m->batch,
                          .steps = STEPS,
                          .as_trained = true,
                          .entries = true};
    if (!plain_open(&p, &a, &plain, false, &said)) {
        fprintf(stderr, "refused: %.*s\n", SARG(said));
        return ExitRefused;
    }
    if (!o->config || strcmp(o->config, "texts") == 0)
        check_texts(&b, &plain);
    plain_run(&p, 0, 0);
    RanksRun want = p.run;
    if (diverges(&want))
        return ExitDiverged;
    fprintf(stderr, "config: slopes\n");
    if ((!o->config || strcmp(o->config, "slopes") == 0) && plain_slopes(&p, &worst, &counted) > 1)
        fail_msg("slopes: %.*s", SARG(worst));
    RanksOptions in_halves = plain;
    in_halves.real = DtBF16;
    assert_true(plain_open(&apart, &a, &plain, true, &said));
    assert_true(plain_open(&halves, &a, &in_halves, true, &said));
    // Not `apart` for f64: rounding there is too small to be confused with a bug.
    Bound bound[BOUNDS] = {0};
    bound[DtF64] = bound_new(&a, (Bound){.want = &want,
                                         .from = {&p},
                                         .noise = 0x1p-45,
                                         .eps = 0x1p-53,
                                         .times = 16,
                                         .most = NOISY_RUNS});
    bound[DtF32] = bound_new(&a, (Bound){.want = &want,
                                         .from = {&p, &apart},
                                         .noise = 0x1p-22,
                                         .eps = 0x1p-24,
                                         .times = 16,
                                         .most = NOISY_RUNS});
    bound[DtBF16] = bound_new(&a, (Bound){.base = &bound[DtF32],
                                          .want = &want,
                                          .from = {&halves},
                                          .noise = 0x1p-22,
                                          .eps = 0x1p-24,
                                          .times = 4,
                                          .most = MOST_NOISY_RUNS});
    in_halves.real = DtF16;
    in_halves.scale = scale_of(o);
    fprintf(stderr, "config: scaled\n");
    bound[DtF16] = bound_f16(&a, &f16, &in_halves, &bound[DtF32]);
    Plain card;
    RanksOptions on_card = in_halves;
    on_card.api = o->card;
    if (o->card)
        bound[BoundCard] = bound_f16(&a, &card, &on_card, &bound[DtF32]);
    check_configs(&b, m, o, bound);
    return 0;
}

// --- a process of its own ------------------------------------------------------------------------

static Str read_all(Arena *a, int from) {
    Text t = {.arena = a};
    char bytes[4096];
    ssize_t n;
    while ((n = read(from, bytes, sizeof bytes)) > 0)
        text_put(&t, (Str){bytes, (size_t)n});
    return text_str(&t);
}

// The last line that begins with `start`, without `start`.
static Str last_line(Str text, Str start) {
    Str found = {0};
    while (text.len) {
        Str line = str_sub(text, 0, str_find(text, '\n'));
        if (str_starts(line, start))
            found = str_sub(line, start.len, line.len);
        text = str_sub(text, line.len + (line.len < text.len), text.len);
    }
    return found;
}

static Finding judge(Arena *a, int status, Str text) {
    Finding f = {.verdict = VerdictWrong, .text = text};
    Str config = last_line(text, STR("config: "));
    int code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    if (code == 0 || code == ExitRefused || code == ExitDiverged)
        f.verdict = code == 0             ? VerdictFine
                    : code == ExitRefused ? VerdictRefused
                                          : VerdictDiverged;
    else if (code == -1)
        f.label = str_format(a, "signal %d, %.*s", WTERMSIG(status), SARG(config));
    else
        f.label = str_format(a, "exit %d, %.*s", code, SARG(config));
    return f;
}

typedef struct Trial {
    const RandomModel *m;
    const CheckOptions *o;
    int code;
} Trial;

// A crash ends the process with its signal, which CMocka would make a failure like any other.
static void check_trial(void **state) {
    static const int crashes[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGSYS};
    Trial *t = *state;
    for (size_t i = 0; i < sizeof crashes / sizeof *crashes; i++)
        signal(crashes[i], SIG_DFL);
    t->code = check(t->m, t->o);
}

// CMocka prints why an assertion fails only at the end of a test.
static int check_as_test(const RandomModel *m, const CheckOptions *o) {
    Trial t = {m, o, 0};
    const struct CMUnitTest tests[] = {cmocka_unit_test_prestate(check_trial, &t)};
    cmocka_set_test_filter(NULL);
    return cmocka_run_group_tests(tests, NULL, NULL) ? ExitWrong : t.code;
}

// A loop that never ends works, ranks that wait for each other wait.
static void limit_time(uint32_t seconds) {
    const struct rlimit work = {seconds, seconds};
    if (setrlimit(RLIMIT_CPU, &work) != 0)
        bug("no limit: %s", strerror(errno));
    alarm(10 * seconds);
}

Finding check_model(Arena *a, const RandomModel *m, const CheckOptions *o) {
    int ends[2];
    double begin = time_now();
    fflush(NULL);
    if (pipe(ends) != 0)
        bug("no pipe: %s", strerror(errno));
    pid_t child = fork();
    if (child < 0)
        bug("no process: %s", strerror(errno));
    if (child == 0) {
        close(ends[0]);
        dup2(ends[1], STDOUT_FILENO);
        dup2(ends[1], STDERR_FILENO);
        limit_time(o->card ? CARD_LIMIT : LIMIT);
        int code = check_as_test(m, o);
        fflush(NULL);
        _exit(code);
    }
    close(ends[1]);
    Str text = read_all(a, ends[0]);
    int status = 0;
    close(ends[0]);
    while (waitpid(child, &status, 0) < 0 && errno == EINTR)
        ;
    Finding f = judge(a, status, text);
    f.seconds = time_now() - begin;
    return f;
}
