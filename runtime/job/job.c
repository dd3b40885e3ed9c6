// job.c - the options of a run: from a command line, as it begins and as it is resumed.
//
// A Job holds everything that a run's results depend on bit for bit. Its paths are absolute.
#include "checkpoint.h"
#include "ranks.h"
#include "weights.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

enum { DEFAULT_SAVE_EVERY = 500 };

// --- from a command line -------------------------------------------------------------------------

GanStatus path_absolute(Arena *a, Str path, Str *out) {
    char here[4096];
    while (str_starts(path, STR("./")) && path.len > 2 && path.ptr[2] != '/')
        path = str_sub(path, 2, path.len);
    if (path.ptr[0] != '/' && !getcwd(here, sizeof here))
        return fail(GAN_ERR_IO, "cannot tell the current folder: %s", strerror(errno));
    *out = path.ptr[0] == '/' ? str_copy(a, path) : path_join(a, str_c(here), path);
    return GAN_OK;
}

static GanStatus set_steps(Job *job, const Options *o) {
    if (o->at[OptSteps].given && o->at[OptKimg].given)
        return fail(GAN_ERR_USAGE, "--steps and --kimg both set the length: give one of them");
    job->steps = option_number(o, OptSteps, job->steps);
    job->kimg = option_number(o, OptKimg, 0);
    return GAN_OK;
}

const FieldFacts *job_facts(const FactVec *all, Str field) {
    static const FieldFacts none;
    for (uint32_t i = 0; i < all->n; i++)
        if (str_eq(all->at[i].field, field))
            return &all->at[i];
    return &none;
}

bool job_names_data(const Options *o, Str field) {
    for (uint32_t i = 0; i < o->at[OptPaths].pair.n; i++)
        if (str_eq(o->at[OptPaths].pair.at[i].key, field))
            return true;
    return false;
}

GanStatus job_set_data(Arena *a, Job *job, const Options *o) {
    uint32_t kept = 0;
    for (uint32_t i = 0; i < job->data.n; i++)
        if (!job_names_data(o, job->data.at[i].key))
            job->data.at[kept++] = job->data.at[i];
    job->data.n = kept;
    for (uint32_t i = 0; i < o->at[OptPaths].pair.n; i++) {
        Setting s = o->at[OptPaths].pair.at[i];
        if (!file_exists(s.value))
            return fail(GAN_ERR_INPUT, "--data %.*s=%.*s: there is no such file or folder%s",
                        SARG(s.key), SARG(s.value),
                        str_starts(s.value, STR("~")) ? "; not every shell knows ~ there: $HOME"
                                                      : "");
        TRY(path_absolute(a, s.value, &s.value));
        vec_push(a, &job->data, s);
    }
    return GAN_OK;
}

bool pair_of_features(const Options *o, Setting *pair) {
    Str mark = STR(FEATURES_MARK);
    if (o->command != CommandTrain && o->command != CommandEval)
        return false;
    bool marked = str_starts(pair->key, mark);
    if (marked)
        pair->key = str_sub(pair->key, mark.len, pair->key.len);
    return marked || (o->command == CommandEval && o->at[OptFeatures].given);
}

// Of `eval` a pair means the same with the prefix and without.
static GanStatus pair_once(const Options *o, OptionId id, uint32_t i) {
    Setting now = o->at[id].pair.at[i];
    (void)pair_of_features(o, &now);
    for (uint32_t k = 0; k < i; k++) {
        Setting was = o->at[id].pair.at[k];
        if (pair_of_features(o, &was) && str_eq(was.key, now.key))
            return fail(GAN_ERR_USAGE,
                        "%s " FEATURES_MARK
                        "%.*s is given twice, `%.*s` and, as %.*s, `%.*s`: keep one of them",
                        option_word(id), SARG(now.key), SARG(now.value),
                        SARG(o->at[id].pair.at[k].key), SARG(was.value));
    }
    return GAN_OK;
}

GanStatus features_asked(Arena *perm, const Options *o, FeaturesAsked *f) {
    static const OptionId pairs[] = {OptSet, OptWeights};
    if (o->at[OptFeatures].given)
        *f = (FeaturesAsked){.path = o->at[OptFeatures].text};
    for (size_t k = 0; k < sizeof pairs / sizeof *pairs; k++)
        for (uint32_t i = 0; i < o->at[pairs[k]].pair.n; i++) {
            Setting s = o->at[pairs[k]].pair.at[i];
            if (!pair_of_features(o, &s)) {
                if (o->command == CommandEval && pairs[k] == OptSet)
                    return fail(GAN_ERR_USAGE,
                                "-s %.*s: the run's own settings are fixed; -s of `eval` is for "
                                "the model of --features FILE.gan",
                                SARG(s.key));
                continue;
            }
            if (!f->path.len)
                return fail(GAN_ERR_USAGE,
                            "%s " FEATURES_MARK
                            "%.*s is for the model of --features FILE.gan, which is not given",
                            option_word(pairs[k]), SARG(s.key));
            TRY(pair_once(o, pairs[k], i));
            if (pairs[k] == OptWeights)
                TRY(weights_told(perm, &f->weights, &s));
            else
                vec_push(perm, &f->setting, s);
        }
    return GAN_OK;
}

// -s of the model that trains.
static bool sets_model(const Options *o) {
    for (uint32_t i = 0; i < o->at[OptSet].pair.n; i++)
        if (!pair_of_features(o, &(Setting){.key = o->at[OptSet].pair.at[i].key}))
            return true;
    return false;
}

// --metric, --features and what belongs to them, over what a run had before.
static GanStatus set_monitor(Arena *perm, Job *job, const Options *o) {
    static const OptionId more[] = {OptEntry, OptSamples, OptEvalEvery, OptPatience};
    MonitorOptions *m = &job->monitor;
    if (str_eq(option_text(o, OptMetric, (Str){0}), STR("none"))) {
        *m = (MonitorOptions){0};
        return GAN_OK;
    }
    TRY(features_asked(perm, o, &m->features));
    if (o->at[OptFeatures].given) {
        TRY(path_absolute(perm, m->features.path, &m->features.path));
        m->metric = m->metric.len ? m->metric : STR("fid");
    }
    m->metric = option_text(o, OptMetric, m->metric);
    for (size_t i = 0; i < sizeof more / sizeof *more; i++)
        if (!m->metric.len && o->at[more[i]].given)
            return fail(GAN_ERR_USAGE,
                        "%s applies to --metric NAME or --features FILE.gan, and neither is given",
                        option_word(more[i]));
    m->entry = option_text(o, OptEntry, m->entry);
    m->count = option_number(o, OptSamples, m->count ? m->count : METRIC_SAMPLES);
    m->every = option_number(o, OptEvalEvery, m->every);
    m->patience = option_number(o, OptPatience, m->patience);
    if (m->every % job->save_every)
        return fail(
            GAN_ERR_USAGE,
            "--eval-every %lld: metrics are evaluated after saves, and --save-every is %lld; "
            "give a multiple of it",
            (long long)m->every, (long long)job->save_every);
    return GAN_OK;
}

static GanStatus precision_of(const Options *o, const DeviceApi *api, Str unless, Dtype *real) {
    Str precision = option_text(o, OptPrecision, unless);
    for (int i = 0; i < DtCount; i++)
        if (str_eq(precision, str_c(dtype_name[i])))
            *real = (Dtype)i;
    if (!api->supports(*real))
        return fail(GAN_ERR_USAGE, "device %s does not compute in %s: --device ref computes in all",
                    api->name, dtype_name[*real]);
    return GAN_OK;
}

GanStatus device_of(const Options *o, const DeviceApi **api, Dtype *real) {
    *api = device_find(option_text(o, OptDevice, STR("cpu")));
    return precision_of(o, *api, STR("f32"), real);
}

GanStatus model_fixes(Arena *perm, Str path, const Options *o, int64_t *batch, Dtype *real) {
    if (!ganx_is(path))
        return GAN_OK;
    Ganx g;
    TRY(ganx_read(perm, path, &g));
    Str precision = str_c(dtype_name[g.real]);
    if (sets_model(o))
        return fail(GAN_ERR_USAGE, "%.*s is compiled: its configs are fixed, -s changes none",
                    SARG(path));
    if (option_number(o, OptBatch, g.batch) != g.batch)
        return fail(GAN_ERR_USAGE, "%.*s is compiled for --batch %lld: compile the model again",
                    SARG(path), (long long)g.batch);
    if (!str_eq(option_text(o, OptPrecision, precision), precision))
        return fail(GAN_ERR_USAGE, "%.*s is compiled for --precision %.*s: compile the model again",
                    SARG(path), SARG(precision));
    *batch = g.batch;
    *real = g.real;
    return GAN_OK;
}

static bool option_tf32(const Options *o) {
    return !str_eq(option_text(o, OptTf32, STR("on")), STR("off"));
}

void device_options(const Options *o, DeviceOptions *out) {
    out->threads = (int)option_number(o, OptThreads, out->threads);
    out->no_graph = o->at[OptNoGraph].given;
    out->no_branches = o->at[OptNoBranches].given;
    out->no_tf32 = !option_tf32(o);
}

// --from and what belongs to it.
static GanStatus set_from(Arena *perm, Job *job, const Options *o) {
    Str from = o->at[OptFrom].text;
    job->from_optimizer = str_eq(o->at[OptFromOptimizer].text, STR("on"));
    if (!o->at[OptFrom].given)
        return job->from_optimizer ? fail(GAN_ERR_USAGE, "--from-optimizer on is for --from RUN")
                                   : GAN_OK;
    TRY(path_absolute(perm, from, &job->from));
    return file_exists(job->from)
               ? GAN_OK
               : fail(GAN_ERR_INPUT, "--from %.*s: there is no such run or file", SARG(from));
}

GanStatus job_from_options(Arena *perm, const Options *o, Job *out) {
    const DeviceApi *api;
    *out = (Job){
        .model = o->file.at[0],
        .origin = o->file.at[0],
        .batch = option_number(o, OptBatch, DEFAULT_BATCH),
        .save_every = option_number(o, OptSaveEvery, DEFAULT_SAVE_EVERY),
        .keep = option_number(o, OptKeep, 0),
        .seed = (uint64_t)option_number(o, OptSeed, 0),
        .threads = (int)option_number(o, OptThreads, 0),
        .memory = (size_t)option_number(o, OptMemory, 0),
        .tf32 = option_tf32(o),
        .no_graph = o->at[OptNoGraph].given,
        .no_branches = o->at[OptNoBranches].given,
        .skip_bad = o->at[OptSkipBad].given,
        .compress = o->at[OptCompress].given,
        .real = DtF32,
    };
    if (!file_exists(out->model))
        return fail(GAN_ERR_INPUT,
                    "there is no file %.*s; `ganc new mine --from MODEL` writes one to begin with, "
                    "and `ganc new mine` lists the models",
                    SARG(out->model));
    TRY(device_of(o, &api, &out->real));
    TRY(model_fixes(perm, out->model, o, &out->batch, &out->real));
    TRY(ranks_split(o, &out->split));
    out->device = str_c(api->name);
    TRY(set_from(perm, out, o));
    if (out->batch > BATCH_MOST)
        return fail(GAN_ERR_USAGE, "--batch %lld: the maximum is %d", (long long)out->batch,
                    BATCH_MOST);
    for (uint32_t i = 0; i < o->at[OptSet].pair.n; i++) {
        Setting s = o->at[OptSet].pair.at[i];
        if (!pair_of_features(o, &s))
            vec_push(perm, &out->setting, s);
    }
    TRY(job_set_data(perm, out, o));
    TRY(job_set_weights(perm, out, o));
    TRY(set_monitor(perm, out, o));
    return set_steps(out, o);
}

// A run may go on elsewhere: on another device, and in another precision that has its weights in
// f32.
static GanStatus change_device(Job *job, const Options *o) {
    const DeviceApi *api = device_find(option_text(o, OptDevice, job->device));
    Dtype was = job->real;
    TRY(precision_of(o, api, str_c(dtype_name[was]), &job->real));
    job->device = str_c(api->name);
    return stored_alike(was, job->real)
               ? GAN_OK
               : fail(GAN_ERR_USAGE,
                      "a run begun in %s has its weights so and cannot go on in %s: a run of its "
                      "own needs `ganrun train %.*s`",
                      dtype_name[was], dtype_name[job->real], SARG(job->origin));
}

// What a run that goes on may be told anew, however it is told to go on.
static GanStatus change(Arena *perm, Job *job, const Options *o) {
    TRY(set_steps(job, o));
    job->save_every = option_number(o, OptSaveEvery, job->save_every);
    job->keep = option_number(o, OptKeep, job->keep);
    job->threads = (int)option_number(o, OptThreads, job->threads);
    job->memory = (size_t)option_number(o, OptMemory, (int64_t)job->memory);
    job->no_graph = o->at[OptNoGraph].given;
    job->no_branches = o->at[OptNoBranches].given;
    job->skip_bad |= o->at[OptSkipBad].given;
    TRY(job_set_weights(perm, job, o));
    TRY(set_monitor(perm, job, o));
    return job_set_data(perm, job, o);
}

GanStatus job_resume(Arena *perm, Str dir, Job *job, const Options *o) {
    static const OptionId fixed[] = {OptSet,      OptBatch,  OptTf32,         OptSeed,
                                     OptOut,      OptDeterm, OptMicro,        OptBucketMb,
                                     OptCompress, OptFrom,   OptFromOptimizer};
    for (size_t i = 0; i < sizeof fixed / sizeof *fixed; i++)
        if (fixed[i] == OptSet ? sets_model(o) : o->at[fixed[i]].given)
            return fail(
                GAN_ERR_USAGE,
                "%s is fixed once a run has begun: a run of its own, from this one's weights, is "
                "`ganrun train %.*s --from %.*s`; with its optimizers' state, --from-optimizer on",
                option_word(fixed[i]), SARG(job->origin), SARG(dir));
    TRY(change_device(job, o));
    TRY(ranks_comm_fits(o, str_eq(job->device, STR("cuda"))));
    return change(perm, job, o);
}

// `was`: how the option was given, empty: not at all.
static GanStatus fail_disagrees(OptionId id, Str was) {
    return fail(GAN_ERR_USAGE,
                "the run in that folder was begun %s %s%s%.*s: give the same, or another --out",
                was.len ? "with" : "without", option_word(id), was.len ? "=" : "", SARG(was));
}

// A number that is 0 where its option was not given.
static Str as_given(Arena *a, double x) {
    return x != 0 ? str_format(a, "%.17g", x) : (Str){0};
}

static Str settings_text(Arena *a, const Settings *list) {
    Text t = {.arena = a};
    for (uint32_t i = 0; i < list->n; i++)
        text_fmt(&t, "%s-s %.*s=%.*s", i ? " " : "", SARG(list->at[i].key),
                 SARG(list->at[i].value));
    return list->n ? text_str(&t) : STR("no -s");
}

// What decides a model is its text, its settings and the batch: names what the run has of those
// that differ.
static GanStatus fail_other_model(Arena *perm, const Job *job, const Job *asked) {
    Text has = {.arena = perm};
    Str was = settings_text(perm, &job->setting), is = settings_text(perm, &asked->setting);
    if (job->batch != asked->batch)
        text_fmt(&has, "--batch %lld", (long long)job->batch);
    if (!str_eq(was, is))
        text_fmt(&has, "%s%.*s", has.n ? " and " : "", SARG(was));
    if (!has.n)
        text_put(&has, STR("another text, that of its resolved.gan"));
    return fail(GAN_ERR_INPUT,
                "the run in that folder trains another model than %.*s with these settings: it has "
                "%.*s; give another --out",
                SARG(asked->model), SARG(text_str(&has)));
}

GanStatus job_rejoin(Arena *perm, Job *job, const Job *asked, const Options *o) {
    if (!str_eq(job->hash, asked->hash))
        return fail_other_model(perm, job, asked);
    if (job->batch != asked->batch)
        return fail_disagrees(OptBatch, str_format(perm, "%lld", (long long)job->batch));
    if (job->seed != asked->seed)
        return fail_disagrees(OptSeed, str_format(perm, "%llu", (unsigned long long)job->seed));
    if (job->real != asked->real)
        return fail_disagrees(OptPrecision, str_c(dtype_name[job->real]));
    if (!str_eq(job->device, asked->device))
        return fail_disagrees(OptDevice, job->device);
    if (job->tf32 != asked->tf32)
        return fail_disagrees(OptTf32, job->tf32 ? STR("on") : STR("off"));
    if (job->split.chunks != asked->split.chunks)
        return fail_disagrees(OptDeterm, as_given(perm, (double)job->split.chunks));
    if (job->split.micro != asked->split.micro)
        return fail_disagrees(OptMicro, as_given(perm, (double)job->split.micro));
    if (job->compress != asked->compress)
        return fail_disagrees(OptCompress, job->compress ? STR("bf16") : (Str){0});
    if (job->split.bucket != asked->split.bucket)
        return fail_disagrees(OptBucketMb, as_given(perm, (double)job->split.bucket / 1e6));
    if (!str_eq(job->from, asked->from))
        return fail_disagrees(OptFrom, job->from);
    if (job->from_optimizer != asked->from_optimizer)
        return fail_disagrees(OptFromOptimizer, job->from_optimizer ? STR("on") : STR("off"));
    return change(perm, job, o);
}
