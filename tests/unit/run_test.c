// run_test.c - parts of a run: the command line, the job, the log, checkpoints on a failing disk,
// and the order of batches.
#define _GNU_SOURCE
#include "checkpoint.h"
#include "commands.h"
#include "progress.h"
#include "runlog.h"
#include "trained.h"

#include <math.h>
#include <setjmp.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fixture.h"

#include "cases.h"

// --- the command line ----------------------------------------------------------------------------

static GanStatus parse(Fixture *p, const char *line, Options *out) {
    char *argv[32], *rest = (char *)(uintptr_t)str_z(&p->arena, str_c(line)), *word;
    int argc = 0;
    while ((word = strsep(&rest, " ")))
        argv[argc++] = word;
    return options_parse(&p->arena, argc, argv, out);
}

static void a_command_line_becomes_options(void **state) {
    Options o;
    assert_ok(parse(
        *state, "train m.gan --data x=a=b --data x=c --batch=16 --skip-bad -s k=v --steps 7", &o));
    assert_int_equal(o.command, CommandTrain);
    assert_int_equal(o.file.n, 1);
    assert_int_equal(option_number(&o, OptBatch, 0), 16);
    assert_int_equal(option_number(&o, OptSteps, 0), 7);
    assert_int_equal(option_number(&o, OptSeed, 9), 9);
    assert_true(o.at[OptSkipBad].given);
    assert_int_equal(o.at[OptPaths].pair.n, 2);
    assert_true(str_eq(o.at[OptPaths].pair.at[0].value, STR("a=b")));
    assert_true(str_eq(o.at[OptSet].pair.at[0].key, STR("k")));
}

static void usage_errors_are_explained(void **state) {
    static const struct {
        const char *line, *says;
    } cases[] = {
        {"trian m.gan", "did you mean `train`?"},
        {"plan m.gan", "unknown command `plan`: that is the compiler's: ganc plan FILE"},
        {"train a --batchsize 4", "unknown option `--batchsize`: write --batch 32"},
        {"train", "takes FILE|RUN; 0 given"},
        {"train a b", "takes FILE|RUN; 2 given"},
        {"train a --stpes 4", "did you mean `--steps`?"},
        {"train a --roofline", "`ganrun train` has no --roofline, `ganrun bench` has"},
        {"train a --steps", "needs a value: N"},
        {"train a --steps 0", "whole number from 1"},
        {"train a --seed -1", "whole number from 0"},
        {"train a --steps 4 --steps 5", "given twice"},
        {"train a --skip-bad=1", "takes no value"},
        {"train a -s =v", "needs KEY=VALUE"},
        {"train a --resume always",
         "needs auto, not `always`: a run goes on by `ganrun train RUN`"},
        {"train a --device gpu", "needs cpu|cuda|ref, not `gpu`: cuda is an NVIDIA card"},
        {"train a --precision fp16", "not `fp16`: f32 is float, f64 double, f16 half"},
        {"train a --interp", "unknown option"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        Options o;
        assert_status(parse(*state, cases[i].line, &o), GAN_ERR_USAGE, cases[i].line);
        if (!strstr(gan_error(), cases[i].says))
            print_error("%s: %s\n", cases[i].line, gan_error());
        assert_non_null(strstr(gan_error(), cases[i].says));
    }
}

// --- the job -------------------------------------------------------------------------------------

static Job some_job(Fixture *p) {
    Job job = {.model = STR("m.gan"),
               .origin = STR("m.gan"),
               .hash = STR("00112233445566778899aabbccddeeff"),
               .batch = 8,
               .steps = 100,
               .save_every = 9,
               .seed = (uint64_t)1 << 53,
               .real = DtBF16,
               .device = STR("cpu"),
               .threads = 2,
               .skip_bad = true};
    vec_push(&p->arena, &job.setting, ((Setting){STR("mode"), STR("pub\"lished")}));
    vec_push(&p->arena, &job.data, ((Setting){STR("x"), STR("/a b")}));
    return job;
}

static void a_job_reads_back_what_was_written(void **state) {
    Fixture *p = *state;
    Job job = some_job(p), back;
    Text a = {.arena = &p->arena}, b = {.arena = &p->arena};
    job_write(&a, &job);
    assert_ok(job_read(&p->arena, text_str(&a), STR("options.json"), &back));
    job_write(&b, &back);
    assert_true(str_eq(text_str(&a), text_str(&b)));
    assert_true(back.seed == job.seed && back.real == DtBF16 && back.skip_bad);
}

static void a_job_that_lacks_a_member_names_it(void **state) {
    static const char *const members[] = {"format",     "model", "hash",      "batch", "steps",
                                          "save_every", "seed",  "precision", "device"};
    Fixture *p = *state;
    Job job = some_job(p), back;
    for (size_t i = 0; i < sizeof members / sizeof *members; i++) {
        Text t = {.arena = &p->arena};
        job_write(&t, &job);
        char *at = strstr(text_str(&t).ptr, str_format(&p->arena, "\"%s\"", members[i]).ptr);
        assert_non_null(at);
        at[1] = '_';
        assert_status(job_read(&p->arena, text_str(&t), STR("o"), &back), GAN_ERR_INPUT,
                      members[i]);
        assert_non_null(strstr(gan_error(), members[i]));
    }
}

static const char tiny[] =
    "model tiny\n"
    "config nz = 4  \"latent\"\n"
    "config mode = \"a\" | \"b\"\n"
    "data x : float(2) scale(-1, 1)\n"
    "net G(z: [nz]) -> [2] { z |> dense(if mode == \"a\" { 2 } else { 3 }) |> dense(2) }\n"
    "net D(x: [2]) -> [] { x |> dense(1) |> squeeze }\n"
    "opt = adam(lr=1e-3)\n"
    "step {\n"
    "  first = mean(D(x))\n"
    "  repeat 3 { next x\n update D minimize mean(D(x)) - mean(D(G(normal(nz)))) using opt }\n"
    "  update G minimize -mean(D(G(normal(nz)))) using opt\n"
    "  report first\n"
    "}\n";

static Str write_text(Fixture *p, const char *name, Str text) {
    Str path = under(p, name);
    assert_ok(file_write_atomic(path, text.ptr, text.len));
    return path;
}

static void the_resolved_text_is_the_same_model(void **state) {
    Fixture *p = *state;
    Job job = {.model = write_text(p, "tiny.gan", str_c(tiny)), .batch = 4, .real = DtF32};
    vec_push(&p->arena, &job.setting, ((Setting){STR("nz"), STR("7")}));
    vec_push(&p->arena, &job.setting, ((Setting){STR("mode"), STR("b")}));
    Str with, plain, text;
    assert_ok(job_hash(&job, NULL, &p->arena, &with));
    assert_ok(job_resolved(&job, &p->arena, &text));
    assert_non_null(strstr(text.ptr, "config nz = 7  \"latent\"\nconfig mode = \"b\" | \"a\"\n"));
    job.model = write_text(p, "resolved.gan", text);
    assert_ok(job_hash(&job, NULL, &p->arena, &plain)); // back to the original settings
    assert_true(str_eq(with, plain));
    job.setting.n = 0;
    assert_ok(job_hash(&job, NULL, &p->arena, &plain));
    assert_true(str_eq(with, plain));
}

// Settings allow more spellings than model text; both must give the same value.
static void settings_equal_their_expressions_in_the_language(void **state) {
    static const char model[] =
        "model odd\n"
        "config a = 1 \"a number\"\n"
        "config b = \"text\" \"a string\"\n"
        "config c = none \"anything\"\n"
        "config l = [1] \"a list\"\n"
        "config k = 16 | 32 | \"all\"\n"
        "net D(x: [2]) -> [] { x |> dense(if b == \"q\\\"\\\\n\" { 7 } else { l[0] }) |> dense(1)"
        " |> squeeze }\n"
        "step { update D minimize a*mean(D(normal(2))) using sgd(lr=if c == none { 1 } else {\n"
        "  if c == \"x\" { 2 } else { if c == true { 3 } else { if c == 0.5 { 4 } else { 5 } } } "
        "})\n"
        "}\n";
    static const struct {
        const char *key, *value, *line;
    } row[] = {
        {"a", ".5", "config a = 0.5 \"a number\"\n"},
        {"a", "5.", "config a = 5 \"a number\"\n"},
        {"a", "+3", "config a = 3 \"a number\"\n"},
        {"a", "1e20", "config a = 1e+20 \"a number\"\n"},
        {"b", "q\"\\n", "config b = \"q\\\"\\\\n\" \"a string\"\n"},
        {"c", "x", "config c = \"x\" \"anything\"\n"},
        {"c", ".5", "config c = 0.5 \"anything\"\n"},
        {"c", "true", "config c = true \"anything\"\n"},
        {"c", "[1]", "config c = [1] \"anything\"\n"},
        {"l", "[2, 1]", "config l = [2, 1] \"a list\"\n"},
        {"k", "32.0", "config k = 32 | 16 | \"all\"\n"},
        {"k", "all", "config k = \"all\" | 32 | 16\n"},
    };
    Fixture *p = *state;
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        Job job = {.model = write_text(p, "odd.gan", str_c(model)), .batch = 4, .real = DtF32};
        Str with, plain, text;
        vec_push(&p->arena, &job.setting, ((Setting){str_c(row[i].key), str_c(row[i].value)}));
        assert_ok(job_hash(&job, NULL, &p->arena, &with));
        assert_ok(job_resolved(&job, &p->arena, &text));
        if (!strstr(text.ptr, row[i].line))
            print_error("%s=%s gives\n%s", row[i].key, row[i].value, text.ptr);
        assert_non_null(strstr(text.ptr, row[i].line));
        job.model = write_text(p, "resolved.gan", text);
        job.setting.n = 0;
        assert_ok(job_hash(&job, NULL, &p->arena, &plain));
        assert_true(str_eq(with, plain));
    }
}

// --- log and curves ------------------------------------------------------------------------------

static void a_curve_of_any_length_keeps_its_sum(void **state) {
    (void)state;
    Curve c = {0};
    double sum = 0, kept = 0;
    uint32_t n = 0;
    for (uint32_t step = 1; step <= 5000; step++) {
        curve_add(&c, step, step % 17);
        sum += step % 17;
    }
    curve_add(&c, 5000, NAN);
    for (uint32_t i = 0; i < c.used; i++)
        kept += c.sum[i], n += c.n[i];
    assert_true(kept == sum && n == 5000 && c.used <= CURVE_BINS && c.width == 16);
}

static Meter some_meter(Fixture *p) {
    static const Module nothing = {0};
    Meter m = {.module = &nothing};
    Series losses = {.name = STR("D"), .rounds = 2},
           report = {.name = STR("level"), .report = true, .rounds = 1};
    losses.value = arena_array(&p->arena, double, 2), losses.seen = arena_array(&p->arena, bool, 2);
    report.value = arena_array(&p->arena, double, 1), report.seen = arena_array(&p->arena, bool, 1);
    vec_push(&p->arena, &m.series, losses);
    vec_push(&p->arena, &m.series, report);
    return m;
}

static void write_log(Fixture *p, RunLog *l, Meter *m, uint32_t from, uint32_t to) {
    for (uint32_t step = from; step <= to; step++) {
        Series *d = &m->series.at[0], *level = &m->series.at[1];
        d->value[0] = step, d->value[1] = step + 0.25, level->value[0] = -1.0 / step;
        d->seen[0] = d->seen[1] = level->seen[0] = true;
        StepLine line = {.step = step, .images = step * 8};
        assert_ok(runlog_step(l, p->arena, &line));
        if (step % 4 == 0)
            assert_ok(runlog_save(l, p->arena, step, (Distance){step, NAN, 1.0 / step}));
    }
}

static void a_log_continues_from_any_step(void **state) {
    Fixture *p = *state;
    Meter m = some_meter(p);
    Str whole, again, dir = str_c(p->root);
    Monitor none = {0};
    RunLog l, l2;
    assert_ok(runlog_open(&p->arena, dir, 0, 0, &m, &none, &l));
    write_log(p, &l, &m, 1, 10);
    assert_ok(file_read(&p->arena, l.path, &whole));
    for (uint32_t at = 1; at < 10; at++) {
        assert_ok(file_append_line(l.path, STR("{\"step\": 11, \"lo")));
        assert_ok(runlog_open(&p->arena, dir, 0, at, &m, &none, &l2));
        write_log(p, &l2, &m, at + 1, 10);
        assert_ok(file_read(&p->arena, l2.path, &again));
        assert_true(str_eq(whole, again));
        for (uint32_t i = 0; i < l.curves; i++)
            assert_memory_equal(l.curve[i].sum, l2.curve[i].sum, sizeof l.curve->sum);
        assert_memory_equal(l.health.loss, l2.health.loss, sizeof *l.health.loss);
        assert_true(l.health.spread == l2.health.spread);
    }
}

typedef struct Opening {
    Arena *arena;
    Str dir;
    const Meter *meter;
} Opening;

static GanStatus open_log(void *user) {
    const Opening *o = user;
    Monitor none = {0};
    RunLog l;
    return runlog_open(o->arena, o->dir, 0, 4, o->meter, &none, &l);
}

// A line that there was no memory to read is not a damaged one.
static void a_log_loses_no_line_without_memory(void **state) {
    Fixture *p = *state;
    Meter m = some_meter(p);
    Str whole, after, dir = str_c(p->root);
    Monitor none = {0};
    RunLog l;
    assert_ok(runlog_open(&p->arena, dir, 0, 0, &m, &none, &l));
    write_log(p, &l, &m, 1, 4);
    assert_ok(file_read(&p->arena, l.path, &whole));
    GanStatus st = GAN_ERR_MEMORY;
    for (int64_t n = 1; st != GAN_OK; n++) {
        Arena a = p->arena;
        Opening o = {&a, dir, &m};
        mem_fail_at(n);
        st = arena_guard(&a, "to open a log", open_log, &o);
        mem_fail_at(0);
        assert_true(st == GAN_OK || st == GAN_ERR_MEMORY);
        assert_ok(file_read(&p->arena, l.path, &after));
        assert_true(str_eq(whole, after));
    }
}

// --- the progress line ---------------------------------------------------------------------------

static void a_tick_counts_its_steps_and_one_save(void **state) {
    const struct {
        Progress p;
        uint32_t step;
        Spent spent;
        const char *begins;
    } cases[] = {
        {{.job = &(Job){.batch = 32, .save_every = 200},
          .last = 600}, // no save in the last 25 steps
         425,
         {.all = 3},
         "tick 2  step 425/600  kimg 13.6  time 7 s  sec/tick 24  sec/kimg 3.75  cpumem "},
        {{.job = &(Job){.batch = 32, .save_every = 200}, .last = 600, .last_save = 8}, // one
         425,
         {.all = 11, .eval = 8},
         "tick 2  step 425/600  kimg 13.6  time 7 s  sec/tick 32  sec/kimg 5  cpumem "},
        {{.job = &(Job){.batch = 64, .save_every = 62500},
          .last = 390625}, // StyleGAN's length, ticks of hours
         390625,
         {.all = 12.5},
         "tick 6  step 390625/390625  kimg 25000.0  time 7 s  sec/tick 31250.0  sec/kimg 7.81  "},
        {{.job = &(Job){.batch = 8, .save_every = 10}, .last = 20},
         1,
         {.all = 0},
         "tick 0  step 1/20  kimg 0.008  time"},
    };
    Fixture *f = *state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        Text t = {.arena = &f->arena};
        Progress p = cases[i].p;
        p.shown_step = cases[i].step - 25 * (cases[i].step > 25);
        progress_speed(&t, &p, cases[i].step, &cases[i].spent, 7);
        if (!str_starts(text_str(&t), str_c(cases[i].begins)))
            print_error("%.*s\nis not %s\n", SARG(text_str(&t)), cases[i].begins);
        assert_true(str_starts(text_str(&t), str_c(cases[i].begins)));
    }
}

// --- checkpoints ---------------------------------------------------------------------------------

static GanStatus fake_open(const DeviceOptions *o, Device **out) {
    (void)o;
    *out = NULL;
    return GAN_OK;
}
static void fake_close(Device *d) {
    (void)d;
}
static GanStatus fake_alloc(Device *d, size_t n, void **out) {
    (void)d;
    *out = mem_alloc_aligned(n ? n : 64, 64);
    return GAN_OK;
}
static void fake_release(Device *d, void *p) {
    (void)d;
    mem_free_aligned(p);
}
static GanStatus fake_put(Device *d, void *to, const void *from, size_t n) {
    (void)d;
    memcpy(to, from, n);
    return GAN_OK;
}
static void fake_unload(Loaded *l) {
    (void)l;
}
static const DeviceApi fake = {.name = "fake",
                               .open = fake_open,
                               .close = fake_close,
                               .alloc = fake_alloc,
                               .release = fake_release,
                               .put = fake_put,
                               .get = fake_put,
                               .unload = fake_unload};

typedef struct Fake {
    Module module;
    Plan init, step;
    Exec *exec;
} Fake;

static Fake *fake_exec(Fixture *p) {
    static const struct {
        SlotKind kind;
        const char *name;
        Dtype dtype;
        uint32_t rank;
        int64_t dim[2];
    } slots[] = {
        {SlotParam, "G.w", DtF32, 2, {3, 5}},     {SlotState, "G.mean", DtF32, 1, {3}},
        {SlotOpt, "opt.m/G.w", DtF64, 2, {3, 5}}, {SlotData, "x", DtF32, 1, {7}},
        {SlotParam, "D.w", DtBF16, 1, {9}},       {SlotState, "k", DtF32, 0, {0}},
    };
    Fake *f = arena_new(&p->arena, Fake);
    f->module = (Module){.name = STR("fake"), .batch = 2};
    for (size_t i = 0; i < sizeof slots / sizeof *slots; i++) {
        Slot s = {.kind = slots[i].kind, .name = str_c(slots[i].name), .offset = i * 256};
        s.type = type_make(slots[i].kind == SlotData, slots[i].rank, slots[i].dim);
        s.type.dtype = (uint8_t)slots[i].dtype;
        vec_push(&p->arena, &f->module.slot, s);
    }
    f->init.slot_bytes = f->step.slot_bytes = 256 * f->module.slot.n;
    assert_ok(exec_begin(&fake, NULL, &p->arena, &f->module, &f->init, &f->exec));
    assert_ok(exec_plans(f->exec, &f->step, NULL));
    return f;
}

// Finite values of every kind: the smallest and the largest, both zeros.
static void fill(Fake *f, unsigned char seed) {
    for (uint32_t i = 0; i < f->module.slot.n; i++) {
        unsigned char bytes[256];
        if (f->module.slot.at[i].kind == SlotData)
            continue;
        for (size_t k = 0; k < sizeof bytes; k++)
            bytes[k] = (unsigned char)((k * 37 + i * 11 + seed) & 0x3f) |
                       (k % 8 == 7 && seed & 1 ? 0x80 : 0);
        assert_ok(exec_slot_load(f->exec, i, bytes));
    }
}

static void dump(Fake *f, unsigned char *out) {
    for (uint32_t i = 0; i < f->module.slot.n; i++)
        if (f->module.slot.at[i].kind != SlotData)
            assert_ok(exec_slot_save(f->exec, i, out + 256 * i));
}

static void hush(void *user, Str line) {
    (void)user, (void)line;
}
static const Console silent = {.result = hush, .say = hush, .live = hush};

static Checkpoint checkpoint_at(uint32_t step) {
    return (Checkpoint){.step = step,
                        .seed = 3,
                        .model = STR("hash"),
                        .real = DtF32,
                        .streams = 2,
                        .position = {step, 7}};
}

static void save_at(Fixture *p, Fake *f, uint32_t step) {
    fill(f, (unsigned char)step);
    Checkpoint c = checkpoint_at(step);
    bool whole;
    assert_ok(checkpoint_save(p->arena, str_c(p->root), f->exec, &c, &whole));
    assert_true(whole);
}

static void a_checkpoint_comes_back_to_the_bit(void **state) {
    Fixture *p = *state;
    Fake *f = fake_exec(p);
    unsigned char before[6 * 256] = {0}, after[6 * 256] = {0};
    Checkpoint want = checkpoint_at(NONE), got;
    bool found;
    assert_ok(dir_make(under(p, "ckpt")));
    assert_ok(checkpoint_load(&p->arena, str_c(p->root), f->exec, &want, &silent, &got, &found));
    assert_false(found);
    for (uint32_t step = 1; step <= 5; step++)
        save_at(p, f, step);
    dump(f, before);
    fill(f, 99);
    assert_ok(checkpoint_load(&p->arena, str_c(p->root), f->exec, &want, &silent, &got, &found));
    dump(f, after);
    assert_memory_equal(before, after, sizeof before);
    assert_true(found && got.step == 5 && got.position[0] == 5 && got.position[1] == 7 &&
                got.streams == 2);
    assert_true(file_exists(under(p, "ckpt/00000003.json")) &&
                !file_exists(under(p, "ckpt/00000002.json")));
    want.model = STR("another");
    assert_status(checkpoint_load(&p->arena, str_c(p->root), f->exec, &want, &silent, &got, &found),
                  GAN_ERR_INPUT, "hash");
    exec_close(f->exec);
}

static void a_failing_disk_leaves_the_old_checkpoint_or_the_new(void **state) {
    Fixture *p = *state;
    Fake *f = fake_exec(p);
    Checkpoint want = checkpoint_at(NONE), got, next = checkpoint_at(8);
    bool found, whole, failed = true;
    int64_t n = 0, later = 0; // later: only older ones could not be removed
    assert_ok(dir_make(under(p, "ckpt")));
    for (uint32_t step = 5; step <= 7; step++)
        save_at(p, f, step);
    fill(f, 8);
    while (failed) {
        assert_true(++n < 200);
        file_fail_at(n);
        failed = checkpoint_save(p->arena, str_c(p->root), f->exec, &next, &whole) != GAN_OK;
        later += failed && whole;
        file_fail_at(0);
        assert_ok(
            checkpoint_load(&p->arena, str_c(p->root), f->exec, &want, &silent, &got, &found));
        assert_true(found && (got.step == 8 || (got.step == 7 && !whole)));
        fill(f, 8);
    }
    assert_true(n > 5 && got.step == 8 && later > 0);
    exec_close(f->exec);
}

// A checkpoint that cannot be read may be whole: no older one is taken in its place.
static void a_read_that_fails_is_no_damage(void **state) {
    Fixture *p = *state;
    Fake *f = fake_exec(p);
    Checkpoint want = checkpoint_at(NONE), got;
    uint32_t newest, failures[2] = {0};
    bool found;
    assert_ok(dir_make(under(p, "ckpt")));
    save_at(p, f, 1);
    save_at(p, f, 2);
    for (int64_t n = 1; n < 40; n++) {
        file_fail_read_at(n);
        GanStatus st =
            checkpoint_load(&p->arena, str_c(p->root), f->exec, &want, &silent, &got, &found);
        assert_true(st == GAN_OK ? found && got.step == 2 : st == GAN_ERR_IO);
        failures[0] += st != GAN_OK;
        file_fail_read_at(n);
        st = checkpoint_newest(&p->arena, str_c(p->root), &newest);
        assert_true(st == GAN_OK ? newest == 2 : st == GAN_ERR_IO);
        failures[1] += st != GAN_OK;
    }
    assert_true(failures[0] > 10 && failures[0] < 39 && failures[1] > 10 && failures[1] < 39);
    exec_close(f->exec);
}

static void every_damaged_byte_is_noticed(void **state) {
    Fixture *p = *state;
    Fake *f = fake_exec(p);
    Checkpoint want = checkpoint_at(NONE), got;
    bool found;
    Str path = under(p, "ckpt/00000002.safetensors"), text;
    assert_ok(dir_make(under(p, "ckpt")));
    save_at(p, f, 1);
    save_at(p, f, 2);
    assert_ok(file_read(&p->arena, path, &text));
    for (size_t i = 0; i < text.len; i += 13) {
        char *bytes = (char *)(uintptr_t)text.ptr;
        bytes[i] ^= 1;
        assert_ok(file_write_atomic(path, text.ptr, text.len));
        assert_ok(
            checkpoint_load(&p->arena, str_c(p->root), f->exec, &want, &silent, &got, &found));
        assert_int_equal(got.step, 1);
        bytes[i] ^= 1;
    }
    assert_ok(file_write_atomic(path, text.ptr, text.len - 1));
    assert_ok(checkpoint_load(&p->arena, str_c(p->root), f->exec, &want, &silent, &got, &found));
    assert_int_equal(got.step, 1);
    exec_close(f->exec);
}

static void weights_that_are_not_finite_are_not_saved(void **state) {
    Fixture *p = *state;
    Fake *f = fake_exec(p);
    Checkpoint c = checkpoint_at(1);
    float bad[3] = {0, INFINITY, 0};
    assert_ok(dir_make(under(p, "ckpt")));
    fill(f, 1);
    assert_ok(exec_slot_load(f->exec, 1, bad));
    bool whole;
    assert_status(checkpoint_save(p->arena, str_c(p->root), f->exec, &c, &whole), GAN_ERR_INPUT,
                  "save");
    assert_false(whole);
    assert_non_null(strstr(gan_error(), "G.mean"));
    StrVec names;
    assert_ok(dir_list(&p->arena, under(p, "ckpt"), &names));
    assert_int_equal(names.n, 0);
    exec_close(f->exec);
}

// --- which batch comes when ----------------------------------------------------------------------

static Str points(Fixture *p, uint32_t n) {
    float *x = arena_array(&p->arena, float, 2 * n);
    for (uint32_t i = 0; i < 2 * n; i++)
        x[i] = (float)i;
    Str path = under(p, "points.npy");
    assert_ok(npy_write_f32(path, x, 2, (int64_t[]){n, 2}));
    return path;
}

typedef struct Watch {
    Feed *feed;
    uint32_t taken;
} Watch;

static GanStatus watch(void *user, Exec *e, uint32_t block, uint32_t round) {
    (void)round;
    Watch *w = user;
    const uint64_t *before;
    feed_positions(w->feed, &before);
    uint64_t was = before[0];
    TRY(feed_block(w->feed, e, block));
    w->taken += before[0] != was;
    return GAN_OK;
}

static void each_next_takes_one_batch(void **state) {
    Fixture *p = *state;
    Job job = {.model = write_text(p, "tiny.gan", str_c(tiny)),
               .batch = 4,
               .real = DtF32,
               .device = STR("ref")};
    vec_push(&p->arena, &job.data, ((Setting){STR("x"), points(p, 20)}));
    SessionOptions so = job_session(&job, &(DeviceOptions){.threads = 1}, NULL);
    const Parallel two = {.ranks = 2};
    assert_true(so.device.no_sums); // what is not divided opens no communicator of cards
    assert_false(job_session(&job, &(DeviceOptions){.threads = 1}, &two).device.no_sums);
    Session s;
    assert_ok(session_start(&s, &so, &silent));
    FeedOptions fo = {.job = &job};
    Watch w = {0};
    assert_ok(feed_open(&p->arena, &s.compiled.module, &fo, &w.feed));
    assert_ok(exec_init(s.exec, 0));
    ExecHooks hooks = {.before = watch, .user = &w};
    for (uint32_t step = 0; step < 2; step++) {
        const uint64_t *position;
        Counters c = {.step = step};
        assert_ok(feed_begin(w.feed, s.exec));
        assert_ok(exec_step(s.exec, &c, &hooks));
        assert_int_equal(feed_positions(w.feed, &position), 1);
        assert_int_equal(position[0], 4 * (step + 1)); // one of the step, three by `next`
        assert_int_equal(w.taken, 3 * (step + 1));
    }
    assert_true(feed_epoch(w.feed) == 1); // 8 batches of 4 from 20
    feed_close(w.feed);
    session_release(&s);
}

// --- what a session begins with ------------------------------------------------------------------

static void open_tiny(Fixture *p, const char *device, int threads, const uint64_t *seed,
                      Session *s) {
    Job job = {.model = write_text(p, "tiny.gan", str_c(tiny)),
               .batch = 4,
               .real = DtF32,
               .device = str_c(device)};
    SessionOptions so = job_session(&job, &(DeviceOptions){.threads = threads}, NULL);
    so.seed = seed;
    assert_ok(session_start(s, &so, &silent));
}

// Weights and state as stored, slot after slot.
static Str begins_with(Fixture *p, const Session *s) {
    Text t = {.arena = &p->arena};
    const Module *m = &s->compiled.module;
    for (uint32_t i = 0; i < m->slot.n; i++) {
        if (!slot_outlives(&m->slot.at[i]))
            continue;
        size_t n = exec_slot_bytes(s->exec, i);
        char *bytes = arena_array(&p->arena, char, n);
        assert_ok(exec_slot_save(s->exec, i, bytes));
        text_put(&t, (Str){bytes, n});
    }
    return text_str(&t);
}

static Str plans_of(Fixture *p, const Session *s) {
    Text t = {.arena = &p->arena};
    compiled_print(&t, &s->compiled, PlanPlaced);
    return text_str(&t);
}

// Initialized during planning or after it, in fresh memory or in memory a step has used.
static void weights_follow_from_the_seed_alone(void **state) {
    Fixture *p = *state;
    const uint64_t seed = 5;
    const char *const devices[] = {"ref", "cpu"};
    for (size_t i = 0; i < sizeof devices / sizeof *devices; i++) {
        Session after, s;
        open_tiny(p, devices[i], 1, NULL, &after);
        assert_ok(exec_init(after.exec, seed));
        Str want = begins_with(p, &after);
        for (int threads = 1; threads <= 2; threads++) {
            open_tiny(p, devices[i], threads, &seed, &s);
            assert_true(str_eq(plans_of(p, &s), plans_of(p, &after)));
            assert_true(str_eq(begins_with(p, &s), want));
            assert_ok(exec_step(s.exec, &(Counters){.seed = seed}, NULL));
            assert_ok(exec_wait(s.exec));
            assert_false(str_eq(begins_with(p, &s), want));
            assert_ok(exec_init(s.exec, seed));
            assert_true(str_eq(begins_with(p, &s), want));
            session_release(&s);
        }
        session_release(&after);
    }
}

// --- numbers that come late ----------------------------------------------------------------------

// The reference device as an asynchronous one: a number is requested where it is computed, and
// delivered when it is read.
enum { LATE_PLACES = 16 };
static struct Late {
    char bytes[LATE_PLACES][8];
    uint64_t asked, taken, most; // requested, delivered; most in flight at once
} late;

static GanStatus late_fetch(Device *d, const void *from, size_t n, uint64_t *ticket) {
    (void)d;
    memcpy(late.bytes[late.asked % LATE_PLACES], from, n);
    *ticket = late.asked++;
    late.most = late.asked - late.taken > late.most ? late.asked - late.taken : late.most;
    return GAN_OK;
}

static GanStatus late_fetched(Device *d, uint64_t ticket, void *to, size_t n) {
    (void)d;
    late.taken++;
    assert_true(ticket < late.asked && late.asked - ticket <= LATE_PLACES);
    memcpy(to, late.bytes[ticket % LATE_PLACES], n);
    return GAN_OK;
}

static const char breaking[] =
    "model breaking\n"
    "config from = 99 \"the loss is no number from this step on\"\n"
    "data x : float(2) scale(-1, 1)\n"
    "net D(x: [2]) -> [] { x |> dense(1) |> squeeze }\n"
    "opt = adam(lr=1e-3)\n"
    "step {\n"
    "  report level = mean(D(x))\n"
    "  update D minimize mean((D(x) - normal())^2) + sqrt(from - step) using opt\n"
    "}\n";

static bool never(void) {
    return false;
}

static GanStatus train_breaking(Fixture *p, const char *from, const char *dir,
                                const DeviceApi *api) {
    Host host = {.console = silent, .device = {.threads = 1}, .stop_asked = never};
    Job job = {.model = write_text(p, "breaking.gan", str_c(breaking)),
               .batch = 4,
               .steps = 7,
               .save_every = 4,
               .real = DtF64,
               .device = STR("ref")};
    job.origin = job.model;
    vec_push(&p->arena, &job.setting, ((Setting){STR("from"), str_c(from)}));
    vec_push(&p->arena, &job.data, ((Setting){STR("x"), points(p, 20)}));
    late = (struct Late){0};
    return train_run(&p->arena, &host, &job, &(TrainOptions){.dir = under(p, dir), .api = api});
}

// log.jsonl without its times.
static Str log_of(Fixture *p, const char *dir) {
    Str text;
    assert_ok(file_read(&p->arena, path_join(&p->arena, under(p, dir), STR("log.jsonl")), &text));
    Text out = {.arena = &p->arena};
    for (size_t at = 0, end; at < text.len; at = end + 1) {
        end = at + str_find(str_sub(text, at, text.len), '\n');
        const char *line = str_z(&p->arena, str_sub(text, at, end));
        const char *of_step = strstr(line, "\"step_ms\""),
                   *times = of_step ? of_step : strstr(line, "\"save_ms\"");
        text_fmt(&out, "%.*s\n", times ? (int)(times - line) : (int)strlen(line), line);
    }
    return text_str(&out);
}

static void same_logs(Fixture *p, const char *a, const char *b) {
    Str x = log_of(p, a), y = log_of(p, b);
    if (!str_eq(x, y))
        print_error("%s:\n%.*s%s:\n%.*s", a, SARG(x), b, SARG(y));
    assert_true(str_eq(x, y));
}

// The same log lines for the same steps, up to the last; a NaN loss is reported for its own step,
// although later steps have been launched, and the repetition finds the same operation.
static void losses_read_late_belong_to_their_step(void **state) {
    Fixture *p = *state;
    DeviceApi api = device_ref;
    api.fetches = LATE_PLACES;
    api.fetch = late_fetch;
    api.fetched = late_fetched;
    assert_ok(train_breaking(p, "99", "now", NULL));
    assert_int_equal(late.asked, 0);
    assert_ok(train_breaking(p, "99", "later", &api));
    assert_int_equal(late.asked, 2 * 7);
    assert_int_equal(late.taken, late.asked);
    assert_int_equal(late.most, 2 * METER_STEPS);
    same_logs(p, "now", "later");
    assert_status(train_breaking(p, "5", "broken_now", NULL), GAN_ERR_INPUT, "a loss");
    assert_non_null(strstr(gan_error(), "step 7: the loss of D is not a number"));
    assert_status(train_breaking(p, "5", "broken_later", &api), GAN_ERR_INPUT, "a loss, late");
    assert_non_null(strstr(gan_error(), "step 7: the loss of D is not a number"));
    Str found[2];
    assert_ok(file_read(&p->arena, under(p, "broken_now/nonfinite.json"), &found[0]));
    assert_ok(file_read(&p->arena, under(p, "broken_later/nonfinite.json"), &found[1]));
    assert_true(str_eq(found[0], found[1]));
    same_logs(p, "broken_now", "broken_later");
}

// The second process finds a complete run in a folder that was empty when its command started.
static void a_run_created_meanwhile_is_not_overwritten(void **state) {
    Fixture *p = *state;
    Str was, is;
    assert_ok(train_breaking(p, "99", "run", NULL));
    assert_ok(file_read(&p->arena, under(p, "run/options.json"), &was));
    assert_status(train_breaking(p, "98", "run", NULL), GAN_ERR_INPUT, "the second");
    assert_non_null(strstr(gan_error(), "has become a run in the meantime"));
    assert_ok(file_read(&p->arena, under(p, "run/options.json"), &is));
    assert_true(str_eq(was, is));
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, fixture_open, fixture_close)

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        CASE(a_command_line_becomes_options),
        CASE(usage_errors_are_explained),
        CASE(a_job_reads_back_what_was_written),
        CASE(a_job_that_lacks_a_member_names_it),
        CASE(the_resolved_text_is_the_same_model),
        CASE(settings_equal_their_expressions_in_the_language),
        CASE(a_curve_of_any_length_keeps_its_sum),
        CASE(a_log_continues_from_any_step),
        CASE(a_log_loses_no_line_without_memory),
        CASE(a_tick_counts_its_steps_and_one_save),
        CASE(a_checkpoint_comes_back_to_the_bit),
        CASE(a_failing_disk_leaves_the_old_checkpoint_or_the_new),
        CASE(a_read_that_fails_is_no_damage),
        CASE(every_damaged_byte_is_noticed),
        CASE(weights_that_are_not_finite_are_not_saved),
        CASE(each_next_takes_one_batch),
        CASE(weights_follow_from_the_seed_alone),
        CASE(losses_read_late_belong_to_their_step),
        CASE(a_run_created_meanwhile_is_not_overwritten),
    };
    if (CASES_LISTED(tests))
        return 0;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
