// sample.c - `ganrun sample`: pictures, or numbers, from the newest checkpoint of a run.
#include "commands.h"
#include "sampler.h"
#include "trained.h"

typedef struct Sampling {
    Arena *perm;
    const Host *host;
    Trained run; // owned
    Str to;      // the file or folder to write
    Sampler sampler;
    Inputs inputs;
    uint64_t seed;
    size_t count;
    uint32_t rate; // of sounds, numbers a second
} Sampling;

static GanStatus open_sampling(Sampling *s, const Options *o) {
    s->to = option_text(o, OptFile, path_join(s->perm, o->file.at[0], STR("sample.png")));
    TRY(path_writes(s->to, ".png .npy .wav", true));
    TRY(trained_open(s->perm, s->host, o, &s->run));
    const Module *m = &s->run.session.compiled.module;
    TRY(sampler_find(m, option_text(o, OptEntry, (Str){0}), &s->sampler));
    TRY(inputs_read(s->perm, m, s->sampler.entry, &o->at[OptInput], &s->inputs));
    s->sampler.inputs = &s->inputs;
    if (s->inputs.given.n)
        s->sampler.columns = 0;
    s->seed = (uint64_t)option_number(o, OptSeed, (int64_t)s->run.job.seed);
    s->count = (size_t)option_number(o, OptSamples, 64);
    s->rate = (uint32_t)option_number(o, OptRate, 16000);
    if (s->rate > SOUND_RATE_MOST)
        return fail(GAN_ERR_USAGE, "--rate is at most %d", SOUND_RATE_MOST);
    return m->entry.at[s->sampler.entry].data.n ? trained_feed(s->perm, s->host, &s->run) : GAN_OK;
}

static GanStatus draw(Sampling *s, size_t first, size_t n, float *out) {
    const Plan *plan = &s->run.session.compiled.entry[s->sampler.entry];
    return sampler_draw(&s->sampler, s->run.session.exec, plan, s->run.feed, s->seed, first, n,
                        *s->perm, out);
}

static GanStatus need_picture(const Sampling *s, bool folder) {
    if (s->sampler.show == ShowPicture || (s->sampler.show && !folder))
        return GAN_OK;
    Arena a = *s->perm;
    return fail(GAN_ERR_USAGE,
                "sample %.*s is %.*s, no picture of 1 or 3 channels%s: write it with -o NAME.npy",
                SARG(s->run.session.compiled.module.entry.at[s->sampler.entry].name),
                SARG(type_text(&a, &s->sampler.type)), folder ? "" : ", nor points of 2 or 3 axes");
}

// One file for each sample, a batch at a time.
static GanStatus write_folder(Sampling *s) {
    size_t batch = (size_t)s->run.job.batch, one = sampler_elements(&s->sampler);
    float *x = arena_array(s->perm, float, batch *one);
    TRY(dir_make(s->to));
    for (size_t at = 0; at < s->count; at += batch) {
        size_t n = s->count - at < batch ? s->count - at : batch;
        TRY(draw(s, at, n, x));
        for (size_t i = 0; i < n; i++) {
            Arena a = *s->perm;
            Image m = {0};
            TRY(image_grid(x + i * one, 1, s->sampler.chw, 1, s->sampler.lo, s->sampler.hi, &m));
            GanStatus st =
                image_write_png(str_format(&a, "%.*s/%08zu.png", SARG(s->to), at + i), &m);
            image_release(&m);
            TRY(st);
        }
    }
    return GAN_OK;
}

// Numbers from the range of the data to -1 to 1.
static GanStatus write_sounds(const Sampling *s, float *x, size_t numbers, Str path) {
    double middle = (s->sampler.lo + s->sampler.hi) / 2, half = s->sampler.hi - middle;
    for (size_t i = 0; i < numbers; i++)
        x[i] = (float)((x[i] - middle) / half);
    const Type *t = &s->sampler.type;
    return sound_write(path, x, s->count, (uint32_t)t->dim[0], (size_t)t->dim[1], s->rate);
}

static GanStatus need_sound(const Sampling *s) {
    const Type *t = &s->sampler.type;
    if (t->rank == 2 && t->dim[0] >= 1 && t->dim[0] <= SOUND_CHANNELS)
        return GAN_OK;
    Arena a = *s->perm;
    return fail(GAN_ERR_USAGE, "sample %.*s is %.*s, no sound of 1 or 2 channels, [1, n]",
                SARG(s->run.session.compiled.module.entry.at[s->sampler.entry].name),
                SARG(type_text(&a, t)));
}

// One file with all samples: a grid, an array, or one sound after the other.
static GanStatus write_file(Sampling *s, bool grid) {
    size_t one = sampler_elements(&s->sampler), numbers;
    if (!mem_mul(s->count, one, &numbers) || numbers > (size_t)1 << 29)
        return fail(GAN_ERR_USAGE,
                    "--count %zu is too much for one file: write a folder with -o NAME", s->count);
    float *x = arena_array(s->perm, float, numbers);
    TRY(draw(s, 0, s->count, x));
    if (str_ends(s->to, STR(".wav")))
        return write_sounds(s, x, numbers, s->to);
    if (grid)
        return sampler_grid(&s->sampler, x, s->count, s->to);
    int64_t dim[DATA_MAX_RANK] = {(int64_t)s->count};
    for (uint32_t i = 0; i < s->sampler.type.rank; i++)
        dim[i + 1] = s->sampler.type.dim[i];
    return npy_write_f32(s->to, x, s->sampler.type.rank + 1, dim);
}

static GanStatus run_sampling(Sampling *s, const Options *o) {
    TRY(open_sampling(s, o));
    bool numbers = str_ends(s->to, STR(".npy")), grid = str_ends(s->to, STR(".png"));
    bool sound = str_ends(s->to, STR(".wav"));
    if (numbers)
        s->sampler.node = s->sampler.raw; // in the units of the data
    else if (sound)
        TRY(need_sound(s));
    else
        TRY(need_picture(s, !grid));
    TRY(numbers || grid || sound ? write_file(s, grid) : write_folder(s));
    s->host->console.result(s->host->console.user, str_format(s->perm, "%.*s\n", SARG(s->to)));
    return GAN_OK;
}

GanStatus cmd_sample(Arena *perm, const Host *h, const Options *o) {
    Sampling s = {.perm = perm, .host = h};
    GanStatus st = run_sampling(&s, o);
    trained_close(&s.run);
    return st;
}
