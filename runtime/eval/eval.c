// eval.c - `ganrun eval`: distances of a model's samples to data, and of other data to the same
// data, which is a lower bound that no model beats but by chance.
//
// In: a run, and preferably held-out data (--data). Two subsets are taken of the reference of each
// `sample` (eval_sets.c). Samples and the second subset are both compared with the first. A
// `sample` that is one number is a metric itself.
#include "checkpoint.h"
#include "commands.h"
#include "device.h"
#include "eval.h"
#include "sampler.h"
#include "trained.h"

#include <math.h>

typedef struct Eval {
    Arena *perm;
    Arena sets; // owned: samples of the entry at hand
    const Host *host;
    const Options *options;
    Trained run;    // owned
    uint32_t named; // by --entry, or NONE
    FeaturesAsked features;
    FeatureNet net; // owned; empty without --features
    SetSource from;
    size_t subset;     // compared at a time, 0: all
    double worst;      // while choosing: the largest distance in units of data to data
    Text text, scores; // scores: lines of scores.jsonl
    JsonOut json;
    uint32_t rows;
} Eval;

static const Module *module_of(const Eval *v) {
    return &v->run.session.compiled.module;
}

// --- what is said --------------------------------------------------------------------------------

static void put_json(JsonOut *j, const Sets *s, const char *name, double generated, double real) {
    json_open(j, '{');
    json_member_str(j, "sample", s->name);
    json_member_str(j, "against", s->against);
    json_member_int(j, "samples", (int64_t)s->n);
    json_member_str(j, "metric", str_c(name));
    json_member_double(j, "generated", generated);
    json_member_double(j, "data", real);
    json_close(j, '}');
}

static void put_line(Text *t, const Sets *s, const char *name, double generated, double real,
                     bool unit) {
    char ratio[32] = "-";
    if (unit && real > 0)
        snprintf(ratio, sizeof ratio, "%.2f", generated / real);
    text_fmt(t, "%-12.*s %-10.*s %8zu  %-18s %12.6g", SARG(s->name),
             SARG(s->against.len ? s->against : STR("-")), s->n, name, generated);
    if (s->other)
        text_fmt(t, " %12.6g %10s\n", real, ratio);
    else
        text_fmt(t, " %12s %10s\n", "-", "-");
}

// Of the files that a score's name has by their last words: another of that name has others.
static Str contents(const Eval *v, const Sets *s) {
    Arena *a = v->perm;
    Str net = s->features ? features_content(a, &v->features, &v->net) : (Str){0};
    if (!v->options->at[OptPaths].pair.n)
        return net; // as in a run's log
    Str all = str_format(a, "%.*s%.*s", SARG(feed_identity(v->run.feed, a)), SARG(net));
    return hash_hex(a, hash128(all.ptr, all.len));
}

// A line of scores.jsonl. Its name holds all that numbers must share to be compared.
static void keep_score(Eval *v, const Sets *s, const char *metric, size_t n, double generated,
                       double real) {
    const Options *o = v->options;
    Arena *a = v->perm;
    Text name = {.arena = a};
    text_put(&name, sets_name(a, s, metric, n, &v->features));
    if (s->rate && o->at[OptRate].given)
        text_fmt(&name, " at %u Hz", s->rate);
    for (uint32_t i = 0; i < o->at[OptPaths].pair.n; i++)
        text_fmt(&name, " %s %.*s", i ? "and" : "against",
                 SARG(path_base(o->at[OptPaths].pair.at[i].value)));
    JsonOut j = {.text = &v->scores};
    json_open(&j, '{');
    json_member_int(&j, "step", v->run.step);
    json_member_int(&j, "seed", (int64_t)v->from.seed);
    json_member_str(&j, "name", text_str(&name));
    Str of = contents(v, s);
    if (of.len)
        json_member_str(&j, "content", of);
    json_member_double(&j, "generated", generated);
    json_member_double(&j, "data", real);
    json_close(&j, '}');
    text_char(&v->scores, '\n');
}

// Samples first, first + 1, ... of s, n of them.
static Sets subset_of(const Sets *s, size_t first, size_t n) {
    size_t at = first * (size_t)type_sample(&s->type);
    Sets subset = *s;
    subset.n = n;
    subset.generated += at;
    subset.real += s->real ? at : 0;
    subset.other += s->other ? at : 0;
    subset.label += s->label ? first : 0;
    return subset;
}

// Adds the numbers of x, which is subset->generated or subset->other, to `sum`.
static GanStatus add_values(Arena scratch, const Metric *metric, const Sets *subset, const float *x,
                            MetricValues *sum) {
    MetricValues before = *sum;
    sum->n = 0;
    TRY(metric->measure(scratch, subset, x, sum));
    for (uint32_t i = 0; i < before.n; i++)
        sum->value[i] += before.value[i];
    return GAN_OK;
}

// Means over whole subsets, for what was generated and for real samples in its place. How far two
// sets are apart depends on how many they are, so both columns are of subsets of the same size.
static GanStatus measure(Eval *v, const Metric *metric, const Sets *s) {
    MetricValues generated = {0}, real = {0};
    size_t size = v->subset && v->subset < s->n ? v->subset : s->n, subsets = 0;
    for (; (subsets + 1) * size <= s->n; subsets++) {
        Sets subset = subset_of(s, subsets * size, size);
        if (v->from.choosing && s->other) { // by the other half of the data
            float *first = subset.real;
            subset.real = subset.other;
            subset.other = first;
        }
        TRY(add_values(v->sets, metric, &subset, subset.generated, &generated));
        if (subset.other)
            TRY(add_values(v->sets, metric, &subset, subset.other, &real));
    }
    for (uint32_t i = 0; i < generated.n; i++, v->rows++) {
        double one = generated.value[i] / (double)subsets;
        double reference = s->other ? real.value[i] / (double)subsets : NAN;
        bool unit = !generated.absolute[i];
        if (!v->from.choosing)
            keep_score(v, s, generated.name[i], size, one, unit ? reference : NAN);
        if (v->from.choosing)
            v->worst =
                generated.distance[i] && reference > 0 ? fmax(v->worst, one / reference) : v->worst;
        else if (v->options->at[OptJson].given)
            put_json(&v->json, s, generated.name[i], one, reference);
        else
            put_line(&v->text, s, generated.name[i], one, reference, unit);
    }
    return GAN_OK;
}

static GanStatus eval_entry(Eval *v, uint32_t entry, const Metric *only) {
    Arena before = v->sets;
    Sets s;
    bool fits;
    TRY(sets_find(&v->from, entry, only, &s, &fits));
    if (!fits)
        return GAN_OK;
    if (v->options->at[OptSamples].given && s.held && s.n < v->from.count && !v->from.choosing)
        say(&v->host->console,
            "--count %zu: %.*s has data for %zu, as half of them is compared with "
            "the other half",
            v->from.count, SARG(s.against), s.n);
    TRY(sets_data(&v->from, &v->sets, &s));
    TRY(sets_generated(&v->from, &v->sets, &s));
    for (uint32_t i = 0; i < eval_metric_count; i++) {
        const Metric *metric = &eval_metrics[i];
        if ((only ? only != metric : metric->named) || !metric->applies(&s))
            continue;
        Str caution =
            metric->caution && !v->from.choosing ? metric->caution(v->perm, &s) : (Str){0};
        if (caution.len)
            say(&v->host->console, "%.*s", SARG(caution));
        if (only || !metric->ready || metric->ready() == GAN_OK)
            TRY(measure(v, metric, &s));
        else // one of several: the others do without what it lacks
            v->host->console.say(v->host->console.user, str_c(gan_error()));
    }
    v->sets = before;
    return GAN_OK;
}

// --- the command ---------------------------------------------------------------------------------

static GanStatus find_metric(const Options *o, const Metric **out) {
    Str name = option_text(o, OptMetric, (Str){0});
    *out = NULL;
    if (o->at[OptBest].given && o->at[OptStep].given)
        return fail(GAN_ERR_USAGE,
                    "--best chooses among all steps and --step names one: give one of them");
    if (o->at[OptSubset].given && o->at[OptFeatures].given)
        return fail(GAN_ERR_USAGE, "--subset is not for --features: FID is of all samples");
    return name.len ? metric_named(name, o->at[OptFeatures].given, out) : GAN_OK;
}

static void begin(Eval *v) {
    const Module *m = module_of(v);
    v->text = v->scores = (Text){.arena = v->perm};
    v->json = (JsonOut){.text = &v->text};
    JsonOut *j = &v->json;
    if (v->options->at[OptJson].given) {
        json_open(j, '{');
        json_member_str(j, "model", m->name);
        json_member_int(j, "step", v->run.step);
        json_member_open(j, "rows", '[');
        return;
    }
    text_fmt(&v->text, "%.*s after %u steps, %s\n", SARG(m->name), v->run.step,
             !m->stream.n                     ? "against what the model draws"
             : v->options->at[OptPaths].given ? "against the data of --data"
                                              : "against the data it was trained on");
    text_fmt(&v->text, "%-12s %-10s %8s  %-18s %12s %12s %10s\n", "sample", "against", "samples",
             "metric", "generated", "data", "ratio");
}

static void end(Eval *v) {
    if (v->options->at[OptJson].given) {
        json_close(&v->json, ']');
        json_close(&v->json, '}');
        text_char(&v->text, '\n');
    }
    v->host->console.result(v->host->console.user, text_str(&v->text));
    if (v->run.other) // its `sample`s may mean something else under the same names
        return;
    Str file = path_join(v->perm, v->run.dir, STR("scores.jsonl")), before,
        now = text_str(&v->scores);
    bool torn = file_exists(file) && file_read(v->perm, file, &before) == GAN_OK && before.len &&
                !str_ends(before, STR("\n"));
    if (torn) // a line that was cut short takes none with it
        now = str_format(v->perm, "\n%.*s", SARG(now));
    if (file_append(file, now) != GAN_OK) // the run is not ours to write into
        say(&v->host->console, "not kept for `ganrun report`: %s", gan_error());
}

static GanStatus eval_entries(Eval *v, const Metric *only) {
    const Module *m = module_of(v);
    for (uint32_t i = 0; i < m->entry.n; i++) {
        const Func *f = &m->entry.at[i];
        if (f->result.n && !sampler_is_drawn(m, i) && // else it is what others are held against
            (v->named == NONE || v->named == i))
            TRY(eval_entry(v, i, only));
    }
    return GAN_OK;
}

// The checkpoint whose largest distance, in units of data to data, is the least. What it is chosen
// by is other samples against the other half of the data than what will be said of it, so that
// choosing the luckiest of many does not flatter it.
static GanStatus load_best(Eval *v, const Metric *only) {
    CheckpointSteps steps;
    uint32_t best = NONE;
    double least = INFINITY;
    TRY(checkpoint_steps(v->perm, v->run.dir, &steps));
    v->from.choosing = true;
    for (uint32_t i = 0; i < steps.n; i++) {
        const JobStage *now = job_now(&v->run.job);
        if (steps.at[i] > now->last || (v->run.job.now && steps.at[i] <= now->first))
            continue; // of another stage
        v->worst = 0;
        TRY(trained_load(v->perm, v->host, &v->run, steps.at[i]));
        TRY(eval_entries(v, only));
        if (!(v->worst > 0))
            continue; // no metric is a distance, or none is finite
        say(&v->host->console, "step %u: largest ratio of generated to data %.2f", steps.at[i],
            v->worst);
        if (v->worst < least)
            least = v->worst, best = steps.at[i];
    }
    v->from.choosing = false;
    v->rows = 0;
    if (best == NONE)
        return fail(GAN_ERR_INPUT, "--best: nothing that is measured is a distance from data");
    return trained_load(v->perm, v->host, &v->run, best);
}

// All that may be wrong with what is asked of the model.
static GanStatus check_asked(void *user) {
    Eval *v = user;
    const Options *o = v->options;
    v->named = NONE;
    if (o->at[OptEntry].given)
        TRY(sampler_named(module_of(v), o->at[OptEntry].text, &v->named));
    TRY(features_there(&v->features));
    return trained_feed(v->perm, v->host, &v->run);
}

static GanStatus run_eval(Eval *v) {
    const Options *o = v->options;
    const Metric *only;
    TRY(find_metric(o, &only));
    TRY(features_asked(v->perm, o, &v->features));
    TRY(trained_open(v->perm, v->host, o, &(TrainedOptions){.check = check_asked, .user = v},
                     &v->run));
    if (o->at[OptFeatures].given)
        TRY(features_open(v->perm, v->host, &v->features, &v->run.job, &v->net));
    TRY(arena_init(&v->sets, 0));
    const Job *job = &v->run.job;
    v->from = (SetSource){.session = &v->run.session,
                          .feed = v->run.feed,
                          .net = v->net.d ? &v->net : NULL,
                          .seed = (uint64_t)option_number(o, OptSeed, (int64_t)job->seed),
                          .batch = (size_t)module_of(v)->batch,
                          .count = (size_t)option_number(o, OptSamples, METRIC_SAMPLES),
                          .rate = (uint32_t)option_number(o, OptRate, 0),
                          .threads = device_threads_for(job->threads)};
    v->subset = (size_t)option_number(o, OptSubset, 0);
    const Module *m = module_of(v);
    if (o->at[OptBest].given)
        TRY(load_best(v, only));
    begin(v);
    TRY(eval_entries(v, only));
    if (!v->rows && v->from.unfit.batched)
        return features_refuse(&v->net, *v->perm, &v->from.unfit);
    if (!v->rows)
        return fail(GAN_ERR_INPUT,
                    "nothing to evaluate: no `sample` of model %.*s is a number, or "
                    "like its data, or %s",
                    SARG(m->name), only ? "fit for this metric" : "a code");
    end(v);
    return GAN_OK;
}

GanStatus cmd_eval(Arena *perm, const Host *h, const Options *o) {
    Eval v = {.perm = perm, .host = h, .options = o};
    GanStatus st = run_eval(&v);
    features_close(&v.net);
    trained_close(&v.run);
    arena_release(&v.sets);
    return st;
}
