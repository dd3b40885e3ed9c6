// sample.c - `ganrun sample`: writes images, sounds or arrays of samples from a checkpoint of a
// run.
#include "commands.h"
#include "sampler.h"
#include "trained.h"

enum { RATE_UNKNOWN = 16000 }; // what sounds are taken for where nothing says

typedef enum Form { FormGrid, FormNumbers, FormSound, FormFolder } Form;

typedef struct Sampling {
    Arena *perm;
    const Host *host;
    const Options *options;
    Trained run; // owned
    Str to;      // the file or folder to write,
    Form form;   // as what
    Sampler sampler;
    Inputs inputs;
    uint64_t seed;
    size_t count;
    uint32_t rate; // of sounds, numbers a second
    bool sounds;   // that is what samples are, as --rate or the run's data say
    size_t broken; // samples with numbers that are not finite
} Sampling;

static Form form_of(Str path) {
    return str_ends(path, STR(".png"))   ? FormGrid
           : str_ends(path, STR(".npy")) ? FormNumbers
           : str_ends(path, STR(".wav")) ? FormSound
                                         : FormFolder;
}

static GanStatus set_rate(Sampling *s, const Options *o) {
    int64_t rate = option_number(o, OptRate, s->run.job.rate);
    s->sounds = rate && sampler_sounds(&s->sampler);
    bool heard = s->form == FormSound || (s->form == FormFolder && s->sounds);
    if (o->at[OptRate].given && !heard)
        return fail(GAN_ERR_USAGE, "--rate is of sounds: -o NAME.wav, or a folder of them");
    s->rate = rate ? (uint32_t)rate : RATE_UNKNOWN;
    return rate <= SOUND_RATE_MOST ? GAN_OK
                                   : fail(GAN_ERR_USAGE, "--rate is at most %d", SOUND_RATE_MOST);
}

// --all: as many as the data have, one after the other.
static GanStatus open_data(Sampling *s, const Options *o) {
    const Func *f = &s->run.session.compiled.module.entry.at[s->sampler.entry];
    s->run.in_order = o->at[OptAll].given;
    s->run.only = f;
    if (s->run.in_order && o->at[OptSamples].given)
        return fail(GAN_ERR_USAGE, "--all and --count both say how many samples: remove one");
    if (s->run.in_order && !f->data.n)
        return fail(GAN_ERR_USAGE, "--all: sample %.*s reads no data; --count says how many",
                    SARG(f->name));
    TRY(trained_reads(f, o));
    if (f->data.n)
        TRY(trained_feed(s->perm, s->host, &s->run));
    if (s->run.in_order)
        s->count = (size_t)feed_count(s->run.feed, f->data.at[0]);
    if (s->run.in_order && s->inputs.rows > 1 && s->inputs.rows != s->count)
        say(&s->host->console, "--input has %zu rows for %zu samples%s", s->inputs.rows, s->count,
            s->inputs.rows < s->count ? ", and begins again" : "");
    return GAN_OK;
}

static GanStatus refuse_image(const Sampling *s, Str name, Str type) {
    const char *else_too = s->form == FormFolder ? "" : ", nor points of 2 or 3 axes";
    bool large = sampler_too_large(&s->sampler.type);
    return fail(GAN_ERR_USAGE, "sample %.*s is %.*s, %s%s: write it with -o NAME.npy", SARG(name),
                SARG(type), large ? "too large for a PNG" : "no image of 1 or 3 channels",
                large ? "" : else_too);
}

// Samples can be written as what is asked for.
static GanStatus check_form(const Sampling *s) {
    Show show = s->sampler.show;
    Arena a = *s->perm;
    Str name = s->run.session.compiled.module.entry.at[s->sampler.entry].name,
        type = type_text(&a, &s->sampler.type);
    bool sound = s->form == FormSound;
    if (s->form == FormNumbers || (sound && sampler_sounds(&s->sampler)) ||
        (s->form == FormGrid && show) ||
        (s->form == FormFolder && (show == ShowImage || s->sounds)))
        return GAN_OK;
    return sound ? fail(GAN_ERR_USAGE, "sample %.*s is %.*s, no sound of 1 or 2 channels, [1, n]",
                        SARG(name), SARG(type))
                 : refuse_image(s, name, type);
}

// All that may be wrong with what is asked of the model.
static GanStatus check_asked(void *user) {
    Sampling *s = user;
    const Options *o = s->options;
    const Module *m = &s->run.session.compiled.module;
    TRY(sampler_find(m, option_text(o, OptEntry, (Str){0}), &s->sampler));
    TRY(inputs_read(s->perm, m, s->sampler.entry, &s->run.job, &o->at[OptInput], &s->inputs));
    s->sampler.inputs = &s->inputs;
    if (s->inputs.given.n)
        s->sampler.columns = 0;
    s->seed = (uint64_t)option_number(o, OptSeed, (int64_t)s->run.job.seed);
    s->count = (size_t)option_number(o, OptSamples, s->inputs.rows ? (int64_t)s->inputs.rows : 64);
    TRY(set_rate(s, o));
    TRY(check_form(s));
    return open_data(s, o);
}

static GanStatus open_sampling(Sampling *s) {
    const Options *o = s->options;
    s->to = option_text(o, OptFile, path_join(s->perm, o->file.at[0], STR("sample.png")));
    TRY(path_writes(s->to, ".png .npy .wav", true));
    TRY(run_spares(*s->perm, s->to));
    s->form = form_of(s->to);
    TRY(trained_open(s->perm, s->host, o, &(TrainedOptions){.check = check_asked, .user = s},
                     &s->run));
    sampler_settle(&s->sampler, &s->run.session.compiled.module);
    return GAN_OK;
}

static GanStatus draw(Sampling *s, size_t first, size_t n, float *out) {
    TRY(sampler_draw(&s->sampler, &s->run.session, s->run.feed, (Draws){s->seed, first, n},
                     *s->perm, out));
    size_t one = sampler_elements(&s->sampler);
    for (size_t i = 0; i < n; i++)
        s->broken += !values_finite(out + i * one, one * sizeof *out, DtF32);
    return GAN_OK;
}

// Of the file that a sample was computed from, "-cat" of "pets/cat.jpg"; empty: there is none.
static Str stem_of(const Sampling *s, Arena *a, size_t number) {
    enum { StemMost = 200 }; // bytes, of NAME_MAX
    const Func *f = &s->run.session.compiled.module.entry.at[s->sampler.entry];
    Str name = s->run.in_order ? feed_file(s->run.feed, f->data.at[0], number) : (Str){0};
    Str base = path_base(path_stem(str_sub(name, 0, str_find(name, 0))));
    char stem[StemMost + 2] = "";
    if (base.len)
        snprintf(stem, sizeof stem, "-%.*s", SARG(str_cut(base, StemMost)));
    str_mask(stem);
    return str_copy(a, str_c(stem));
}

static Str name_of(const Sampling *s, Arena *a, size_t number) {
    return str_format(a, "%.*s/%08zu%.*s.%s", SARG(path_trim(s->to)), number,
                      SARG(stem_of(s, a, number)), s->sounds ? "wav" : "png");
}

static GanStatus write_one(const Sampling *s, const float *x, Str path) {
    Image m = {0};
    if (s->sounds)
        return sampler_wav(&s->sampler, x, 1, s->rate, path);
    TRY(image_grid(x, 1, s->sampler.chw, 1, s->sampler.lo, s->sampler.hi, &m));
    GanStatus st = image_write_png(path, &m);
    image_release(&m);
    return st;
}

// On all threads: to compress images takes longer than to draw them. Of those that fail the first
// says why.
static GanStatus write_batch(const Sampling *s, const float *x, size_t first, size_t n) {
    Arena a = *s->perm;
    size_t one = sampler_elements(&s->sampler), failed = n;
    Str *path = arena_array(&a, Str, n);
    GanStatus st = GAN_OK;
    char why[2000];
    for (size_t i = 0; i < n; i++)
        path[i] = name_of(s, &a, first + i);
#pragma omp parallel for schedule(dynamic)
    for (size_t i = 0; i < n; i++) {
        GanStatus own = write_one(s, x + i * one, path[i]);
#pragma omp critical
        if (own != GAN_OK && i < failed) {
            st = own, failed = i;
            snprintf(why, sizeof why, "%s", gan_error());
        }
    }
    return st == GAN_OK ? GAN_OK : fail(st, "%s", why);
}

// One file for each sample, a batch at a time.
static GanStatus write_folder(Sampling *s) {
    size_t batch = (size_t)job_batch(&s->run.job), one = sampler_elements(&s->sampler);
    float *x = arena_array(s->perm, float, batch *one);
    StrVec names;
    TRY(dir_make(s->to));
    for (size_t at = 0; at < s->count; at += batch) {
        size_t n = s->count - at < batch ? s->count - at : batch;
        TRY(draw(s, at, n, x));
        TRY(write_batch(s, x, at, n));
    }
    TRY(dir_list(s->perm, s->to, &names));
    if (names.n > s->count)
        say(&s->host->console, "%.*s has %zu other file%s, from before", SARG(s->to),
            names.n - s->count, names.n - s->count == 1 ? "" : "s");
    return GAN_OK;
}

// One file with all samples: a grid, an array, or one sound after the other.
static GanStatus write_file(Sampling *s) {
    size_t one = sampler_elements(&s->sampler), numbers;
    if (!mem_mul(s->count, one, &numbers) || numbers > (size_t)1 << 29)
        return fail(GAN_ERR_USAGE,
                    "--count %zu is too much for one file: write a folder with -o NAME", s->count);
    float *x = arena_array(s->perm, float, numbers);
    TRY(draw(s, 0, s->count, x));
    if (s->form == FormSound)
        return sampler_wav(&s->sampler, x, s->count, s->rate, s->to);
    if (s->form == FormGrid)
        return sampler_grid(&s->sampler, x, s->count, s->to);
    int64_t dim[DATA_MAX_RANK] = {(int64_t)s->count};
    for (uint32_t i = 0; i < s->sampler.type.rank; i++)
        dim[i + 1] = s->sampler.type.dim[i];
    return npy_write_f32(s->to, x, s->sampler.type.rank + 1, dim);
}

static GanStatus run_sampling(Sampling *s) {
    TRY(open_sampling(s));
    if (s->form == FormNumbers)
        s->sampler.node = s->sampler.raw; // in the units of the data
    TRY(s->form == FormFolder ? write_folder(s) : write_file(s));
    if (s->broken)
        say(&s->host->console, "%zu of %zu samples have numbers that are not finite", s->broken,
            s->count);
    s->host->console.result(s->host->console.user, str_format(s->perm, "%.*s\n", SARG(s->to)));
    return GAN_OK;
}

GanStatus cmd_sample(Arena *perm, const Host *h, const Options *o) {
    Sampling s = {.perm = perm, .host = h, .options = o};
    GanStatus st = run_sampling(&s);
    trained_close(&s.run);
    return st;
}
