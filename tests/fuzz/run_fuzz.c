// run_fuzz.c - a run folder in which one file is any bytes: its options, its log, its scores, its
// link, an image, a checkpoint's json, a checkpoint's tensors. It is refused with a message, or
// inspected, resumed and loaded.
//
// A tensor file's hash would reject every damaged one at once: its json is made to agree.
#define _GNU_SOURCE
#include "folder.h"

#include "commands.h"
#include "events.h"
#include "past.h"
#include "ranks.h"
#include "runlog.h"
#include "weights.h"

#include <math.h>
#include <setjmp.h>
#include <string.h>

static const char model[] = "model m\n"
                            "data x : float(2)\n"
                            "net D(x: [2]) -> [] { x |> dense(1) |> squeeze }\n"
                            "step {\n"
                            "  repeat 2 { update D minimize mean(D(x)) using adam(1e-3) }\n"
                            "  report level = mean(x)\n"
                            "}\n";
static const char log_text[] =
    "{\"step\": 0, \"saved\": true, \"swd\": 2.5, \"spread\": 1.1, \"health\": \"-\"}\n"
    "{\"step\": 1, \"images\": 2, \"losses\": {\"D0\": 1.5, \"D1\": 2}, \"reports\": {\"level\": "
    "1},"
    " \"step_ms\": 4.3, \"data_ms\": 3.9, \"shares\": {\"compute\": 0.5, \"data\": 0.5}}\n"
    "{\"step\": 1, \"save_ms\": 72.8}\n";
static const char scores_text[] =
    "{\"step\": 1, \"seed\": 0, \"name\": \"swd of 8\", \"made\": 0.5, \"real\": 0.2}\n";

static void hush(void *user, Str line) {
    (void)user, (void)line;
}
static const Host host = {.console = {.result = hush, .say = hush, .live = hush}};

static Str dir;
static Session session;
static Meter meter;
static Checkpoint saved = {.step = 1, .real = DtF32, .streams = 1, .position = {1}};

static Str at(Arena *a, const char *name) {
    return path_join(a, dir, str_c(name));
}

static void must(GanStatus st) {
    if (st != GAN_OK)
        bug("%s", gan_error());
}

// --- what looks at a run -------------------------------------------------------------------------

static void look_options(Arena *a) {
    Job job, again;
    Text once = {.arena = a}, twice = {.arena = a};
    if (run_read(a, dir, &job) != GAN_OK)
        return;
    job_write(&once, &job);
    must(job_read(a, text_str(&once), STR("again.json"), &again));
    job_write(&twice, &again);
    if (!str_eq(text_str(&once), text_str(&twice)))
        bug("options are written otherwise: %.*s", SARG(text_str(&once)));
}

static void look_report(Arena *a) {
    Options o = {.command = CommandReport};
    vec_push(a, &o.file, dir);
    for (int json = 0; json < 2; json++) {
        o.at[OptJson].given = json;
        (void)cmd_report(a, &host, &o);
    }
}

static void look_log(Arena *a) {
    Events e;
    RunLog l;
    Monitor monitor = {.name = STR("fakes kid of 16 by seen.gan"), .better = -1, .in = (void *)&l};
    look_report(a);
    if (events_open(a, dir, 0, &e) == GAN_OK) {
        e.log = 0; // as if all had been gained since
        (void)events_save(&e, *a);
    }
    for (uint32_t step = 0; step < 2; step++) // the log is cut, so the later one first
        must(runlog_open(a, dir, 0, 1 - step, &meter, &monitor, &l));
}

static void look_link(Arena *a) {
    LinkModel m;
    if (link_kept(*a, dir, &m) == GAN_OK &&
        !(isfinite(1e9 / m.bandwidth + m.latency) && m.latency > 0))
        bug("a link of %g s and %g bytes a second", m.latency, m.bandwidth);
}

static void look_picture(Arena *a) {
    Options o = {.command = CommandFilm};
    vec_push(a, &o.file, dir);
    (void)cmd_film(a, &host, &o);
    look_log(a);
}

static void look_checkpoint(Arena *a) {
    Checkpoint want = saved, got;
    bool found;
    uint32_t step;
    want.step = NONE;
    (void)checkpoint_newest(a, dir, &step);
    (void)checkpoint_load(a, dir, session.exec, &want, &host.console, &got, &found);
}

static void look_tensors(Arena *a) {
    Str path = at(a, "ckpt/00000001.safetensors"), bytes;
    must(file_read(a, path, &bytes));
    Str json = str_format(a,
                          "{\"step\": 1, \"seed\": 0, \"model\": \"hash\", \"precision\": \"f32\", "
                          "\"batches\": [1], \"content\": \"%.*s\"}",
                          SARG(hash_hex(a, hash128(bytes.ptr, bytes.len))));
    folder_put(*a, at(a, "ckpt/00000001.json"), json.ptr, json.len);
    look_checkpoint(a);
    (void)weights_from(a, path, true, session.exec, &host.console);
}

// --- the files, and who reads them ---------------------------------------------------------------

typedef struct File {
    const char *name;
    void (*look)(Arena *a);
    Str good; // what it is when it is another's turn
} File;
static File file[] = {
    {"options.json", look_options, {0}},
    {"options.json", look_report, {0}},
    {"log.jsonl", look_log, {0}},
    {"scores.jsonl", look_report, {0}},
    {"link.json", look_link, {0}},
    {"samples/00000000.png", look_picture, {0}},
    {"samples/00000000.wav", look_log, {0}},
    {"ckpt/00000001.json", look_checkpoint, {0}},
    {"ckpt/00000001.safetensors", look_tensors, {0}},
};
enum { FILES = sizeof file / sizeof *file };

// A run after one step, without pictures and sounds.
static void begin(Arena *a) {
    dir = folder_make();
    const Job job = {.model = at(a, "resolved.gan"),
                     .origin = STR("m.gan"),
                     .hash = STR("hash"),
                     .batch = 2,
                     .steps = 3,
                     .save_every = 1,
                     .real = DtF32,
                     .device = STR("ref")};
    const SessionOptions o = {.compile = {.path = job.model, .batch = 2, .real = DtF32},
                              .api = &device_ref};
    must(run_create(a, dir, &job, (Str){model, sizeof model - 1}));
    must(session_open(&session, &o));
    must(exec_init(session.exec, 0));
    saved.model = job.hash;
    meter_init(a, &session.compiled.module, &meter);
    bool whole;
    must(checkpoint_save(*a, dir, session.exec, &saved, &whole));
    folder_put(*a, at(a, "log.jsonl"), log_text, sizeof log_text - 1);
    folder_put(*a, at(a, "scores.jsonl"), scores_text, sizeof scores_text - 1);
    for (int i = 0; i < FILES; i++)
        if (file_exists(at(a, file[i].name)))
            must(file_read(a, at(a, file[i].name), &file[i].good));
}

static void put_good(Arena *a) {
    for (int i = 0; i < FILES; i++) {
        Str path = at(a, file[i].name);
        if (file[i].good.ptr)
            folder_put(*a, path, file[i].good.ptr, file[i].good.len);
        else
            must(file_remove(path));
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    static Arena arena;
    if (!arena.base) {
        must(arena_init(&arena, (size_t)1 << 30));
        begin(&arena);
    }
    for (int i = 0; i < FILES; i++) {
        Arena a = arena;
        jmp_buf full;
        a.oom = &full;
        put_good(&a);
        folder_put(a, at(&a, file[i].name), data, n);
        if (setjmp(full) == 0)
            file[i].look(&a);
    }
    return 0;
}
