// demo.c - `ganrun demo`: trains a small model on generated images, in under a minute.
#include "commands.h"
#include "embed.h"

extern const EmbeddedFile demo_files[]; // models/demo.gan

enum { SHAPES = 2048, SIZE = 32, BATCH = 32, STEPS = 600, SAVE_EVERY = 100 };

static GanStatus begin(Arena *perm, Str dir, Job *job) {
    Str model = path_join(perm, dir, STR("demo.gan")),
        pack = path_join(perm, dir, STR("shapes.pack"));
    TRY(dir_make(dir));
    TRY(file_write_atomic(model, demo_files[0].text, demo_files[0].len));
    if (!file_exists(pack))
        TRY(synth_write(STR("shapes"), pack, SHAPES, SIZE, 0));
    TRY(path_absolute(perm, pack, &pack));
    *job = (Job){.model = model,
                 .origin = model,
                 .batch = BATCH,
                 .steps = STEPS,
                 .save_every = SAVE_EVERY,
                 .real = DtF32,
                 .device = STR("cpu")};
    vec_push(perm, &job->data, ((Setting){STR("x"), pack}));
    return GAN_OK;
}

GanStatus cmd_demo(Arena *perm, const Host *h, const Options *o) {
    Str dir = option_text(o, OptOut, STR("gan-demo"));
    Job job;
    bool there = run_is(*perm, dir);
    if (there && !file_exists(path_join(perm, dir, STR("demo.gan"))))
        return fail(GAN_ERR_INPUT, "%.*s is a run, and not the demo's: give another --out",
                    SARG(dir));
    TRY(there ? run_read(perm, dir, &job) : begin(perm, dir, &job));
    job.threads = (int)option_number(o, OptThreads, 0);
    say(&h->console, "%d shapes of %dx%d pixels, %lld steps, in %.*s", SHAPES, SIZE, SIZE,
        (long long)job.steps, SARG(dir));
    return train_run(perm, h, &job, &(TrainOptions){.dir = dir, .resume = there});
}
