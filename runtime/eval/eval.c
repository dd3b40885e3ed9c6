// eval.c - `ganrun eval`: how near what a trained model makes is to data, and beside it how near
// data is to data, which is what no model can beat but by chance.
//
// In: a run, and best data it has not seen (--data). What each `sample` is held against follows
// from the model: a field of its shape that it does not read (samples; translations into it), else
// the one it reads (copies), else a `sample` of its shape that reads no weights (a distribution
// written in the model). Two lots of that are taken: samples and the second lot are both measured
// against the first. A `sample` that is one number is itself a measure.
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
    Trained run;         // owned
    FeatureNet features; // owned; empty without --features
    uint64_t seed;
    size_t count;      // samples asked for
    size_t lot;        // compared at a time, 0: all
    bool choosing;     // between checkpoints: nothing is said
    double worst;      // while choosing: the largest distance in units of data to data
    Text text, scores; // scores: lines of scores.jsonl
    JsonOut json;
    uint32_t rows;
    Type unfit; // of the last sample that --features did not take
} Eval;

static const Module *module_of(const Eval *v) {
    return &v->run.session.compiled.module;
}

// --- what is held against what -------------------------------------------------------------------

static bool reads_field(const Module *m, const Func *f, uint32_t field) {
    for (uint32_t k = 0; k < f->data.n; k++)
        if (sampler_field(m, f->data.at[k]) == field)
            return true;
    return false;
}

// A data field like t that f reads, or does not; NONE.
static uint32_t find_field(const Module *m, const Func *f, const Type *t, bool read) {
    for (uint32_t i = 0; i < m->slot.n; i++) {
        const Type *field = &m->slot.at[i].type;
        if (sampler_field(m, i) == i && t->batched && type_same_shape(field, t) &&
            reads_field(m, f, i) == read)
            return i;
    }
    return NONE;
}

// A `sample` like t that is drawn without weights; NONE.
static uint32_t find_drawn(const Module *m, const Type *t) {
    for (uint32_t i = 0; i < m->entry.n; i++) {
        const Func *f = &m->entry.at[i];
        if (!f->result.n)
            continue;
        Type other = *node_type(&f->g, f->result.at[0].node);
        if (t->batched && other.batched && type_same_shape(&other, t) && sampler_is_drawn(m, i))
            return i;
    }
    return NONE;
}

static float *room(Eval *v, const Sets *s) {
    size_t one = (size_t)type_sample(&s->type), numbers;
    if (!mem_mul(s->n, one, &numbers))
        bug("eval: %zu samples of %zu numbers", s->n, one);
    return arena_array(&v->sets, float, numbers);
}

static GanStatus draw(Eval *v, uint32_t entry, size_t first, size_t n, float *out) {
    Sampler s = sampler_of(module_of(v), entry);
    s.node = s.raw;
    return sampler_draw(&s, v->run.session.exec, &v->run.session.compiled.entry[entry], v->run.feed,
                        v->seed, first, n, v->sets, out);
}

// --- the sets ------------------------------------------------------------------------------------

// Where the second lot of n samples begins: a batch is never split.
static size_t second_half(const Eval *v, size_t n) {
    size_t batch = (size_t)module_of(v)->batch;
    return (n + batch - 1) / batch * batch;
}

static const Field *field_of(const Module *m, uint32_t slot) {
    return &m->stream.at[m->slot.at[slot].stream].field.at[m->slot.at[slot].site];
}

static GanStatus take_field(Eval *v, uint32_t slot, Sets *s) {
    const Module *m = module_of(v);
    const Field *data = field_of(m, slot);
    size_t batch = (size_t)m->batch, there = (size_t)feed_count(v->run.feed, slot), got;
    size_t most = there / batch / 2 * batch;
    s->n = s->n < most ? s->n : most;
    s->against = data->name;
    s->kind = data->kind;
    if (!there)
        return fail(GAN_ERR_INPUT,
                    "no number of the model depends on %.*s, so its data are not read and there is "
                    "nothing to compare with",
                    SARG(data->name));
    if (!s->n)
        return fail(GAN_ERR_INPUT,
                    "%.*s has %zu samples; two batches of %zu are needed to compare data with data",
                    SARG(data->name), there, batch);
    s->real = room(v, s);
    s->other = room(v, s);
    TRY(feed_samples(v->run.feed, slot, 0, s->n, s->real, &got));
    return feed_samples(v->run.feed, slot, second_half(v, s->n), s->n, s->other, &got);
}

static GanStatus take_drawn(Eval *v, uint32_t entry, Sets *s) {
    s->against = module_of(v)->entry.at[entry].name;
    s->kind = FieldFloat;
    s->real = room(v, s);
    s->other = room(v, s);
    TRY(draw(v, entry, 0, s->n, s->real));
    return draw(v, entry, second_half(v, s->n), s->n, s->other);
}

static GanStatus take_labels(Eval *v, const Func *f, Sets *s) {
    bool found = false;
    if (!f->data.n)
        return GAN_OK;
    uint32_t *label = arena_array(&v->sets, uint32_t, s->n);
    TRY(feed_labels(v->run.feed, f->data.at[0], s->n, label, &found));
    s->label = found ? label : NULL;
    return GAN_OK;
}

// A value that is one number a batch.
static GanStatus draw_shared(Eval *v, uint32_t entry, Sets *s) {
    size_t batch = (size_t)module_of(v)->batch;
    const Plan *plan = &v->run.session.compiled.entry[entry];
    uint32_t node = module_of(v)->entry.at[entry].result.at[0].node;
    s->n = (s->n + batch - 1) / batch;
    s->made = room(v, s);
    for (size_t i = 0; i < s->n; i++) {
        Counters c = {.seed = v->seed, .sample0 = (int64_t)(i * batch)};
        double x;
        TRY(feed_entry(v->run.feed, v->run.session.exec, entry, i));
        TRY(exec_entry(v->run.session.exec, entry, &c, NULL));
        TRY(exec_value_get(v->run.session.exec, plan, node, &x, 1));
        s->made[i] = (float)x;
    }
    return GAN_OK;
}

static bool any_applies(const Sets *s, const Metric *only) {
    for (uint32_t i = 0; i < eval_metric_count; i++)
        if ((!only || only == &eval_metrics[i]) && eval_metrics[i].applies(s))
            return true;
    return false;
}

// Samples are sounds where the data like them are, or where --rate says so.
static void set_rate(const Eval *v, uint32_t entry, Sets *s) {
    Sampler look = sampler_of(module_of(v), entry);
    if (look.real_slot == NONE || !sampler_sounds(&look))
        return;
    s->rate = (uint32_t)option_number(v->options, OptRate, feed_rate(v->run.feed, look.real_slot));
    s->lo = look.lo, s->hi = look.hi;
}
// s->made stays NULL where nothing is measured of it.
static GanStatus take_sets(Eval *v, uint32_t entry, const Metric *only, Sets *s) {
    const Module *m = module_of(v);
    const Func *f = &m->entry.at[entry];
    *s = (Sets){.entry = f->name,
                .n = v->count,
                .reads = f->data.n > 0,
                .threads = device_threads_for(v->run.job.threads)};
    set_rate(v, entry, s);
    s->type = *node_type(&f->g, f->result.at[0].node);
    if (!s->type.batched) // a table is no measure
        return s->type.rank ? GAN_OK : draw_shared(v, entry, s);
    uint32_t unread = find_field(m, f, &s->type, false), read = find_field(m, f, &s->type, true),
             drawn = find_drawn(m, &s->type);
    s->copy = unread == NONE && read != NONE;
    if (unread != NONE || read != NONE)
        TRY(take_field(v, unread != NONE ? unread : read, s));
    else if (drawn != NONE)
        TRY(take_drawn(v, drawn, s));
    if (!any_applies(s, only))
        return GAN_OK;
    TRY(take_labels(v, f, s));
    s->made = room(v, s);
    return draw(v, entry, v->choosing ? second_half(v, s->n) : 0, s->n, s->made);
}

// --- sets of features ----------------------------------------------------------------------------

typedef struct From {     // of samples: an entry, or a data field
    uint32_t entry, slot; // the other one is NONE
    size_t first;
} From;

// Samples first .. first + n - 1 of a source as features; no more are held at once than a lot.
static GanStatus take_features(Eval *v, const Sampler *look, From from, size_t n, float **out) {
    enum { Lot = 256 };
    size_t batch = (size_t)module_of(v)->batch, lot = (Lot + batch - 1) / batch * batch, got;
    size_t one = sampler_elements(look);
    *out = arena_array(&v->sets, float, n * v->features.d);
    Arena scratch = v->sets;
    float *x = arena_array(&scratch, float, lot *one);
    for (size_t at = 0; at < n; at += lot) {
        size_t part = n - at < lot ? n - at : lot;
        if (from.entry != NONE) {
            Eval drawn = *v;
            drawn.sets = scratch;
            TRY(draw(&drawn, from.entry, from.first + at, part, x));
        } else {
            TRY(feed_samples(v->run.feed, from.slot, from.first + at, part, x, &got));
        }
        TRY(features_make(&v->features, x, part, &look->type, look->lo, look->hi, scratch,
                          *out + at * v->features.d));
    }
    return GAN_OK;
}

// Samples against the field of their shape: all of it up to their number, and where there are as
// many again, those beside it. s->made stays NULL where there is nothing to compare.
static GanStatus take_feature_sets(Eval *v, uint32_t entry, Sets *s) {
    const Module *m = module_of(v);
    const Func *f = &m->entry.at[entry];
    Sampler look = sampler_of(m, entry);
    *s = (Sets){.entry = f->name,
                .n = v->count,
                .features = true,
                .kind = FieldFloat,
                .threads = device_threads_for(v->features.job.threads)};
    uint32_t slot = find_field(m, f, &look.type, false);
    slot = slot == NONE ? look.real_slot : slot;
    if (slot == NONE || look.mapped)
        return GAN_OK;
    if (!features_fit(&v->features, &look.type)) { // another `sample` may
        v->unfit = look.type;
        return GAN_OK;
    }
    size_t there = (size_t)feed_count(v->run.feed, slot), second = second_half(v, s->n);
    int64_t d = v->features.d;
    s->against = field_of(m, slot)->name;
    s->type = type_make(true, 1, &d);
    s->n_real = there < s->n ? there : s->n;
    s->compared = arena_array(&v->sets, Compared, 2);
    if (!there)
        return fail(GAN_ERR_INPUT, "%.*s has no samples to compare with", SARG(s->against));
    TRY(take_features(v, &look, (From){NONE, slot, 0}, s->n_real, &s->real));
    if (second + s->n <= there)
        TRY(take_features(v, &look, (From){NONE, slot, second}, s->n, &s->other));
    return take_features(v, &look, (From){entry, NONE, v->choosing ? second : 0}, s->n, &s->made);
}

// --- what is said --------------------------------------------------------------------------------

static void put_json(JsonOut *j, const Sets *s, const char *name, double made, double real) {
    json_open(j, '{');
    json_name(j, "sample"), json_put_str(j, s->entry);
    json_name(j, "against"), json_put_str(j, s->against);
    json_name(j, "samples"), json_put_int(j, (int64_t)s->n);
    json_name(j, "metric"), json_put_str(j, str_c(name));
    json_name(j, "made"), json_put_double(j, made);
    json_name(j, "real"), json_put_double(j, real);
    json_close(j, '}');
}

static void put_line(Text *t, const Sets *s, const char *name, double made, double real,
                     bool unit) {
    char ratio[32] = "-";
    if (unit && real > 0)
        snprintf(ratio, sizeof ratio, "%.2f", made / real);
    text_fmt(t, "%-12.*s %-10.*s %8zu  %-18s %12.6g", SARG(s->entry),
             SARG(s->against.len ? s->against : STR("-")), s->n, name, made);
    if (s->other)
        text_fmt(t, " %12.6g %10s\n", real, ratio);
    else
        text_fmt(t, " %12s %10s\n", "-", "-");
}

// A line of scores.jsonl. Its name holds all that numbers must share to be compared.
static void keep_score(Eval *v, const Sets *s, const char *metric, size_t n, double made,
                       double real) {
    const Options *o = v->options;
    Arena *a = v->perm;
    Text name = {.arena = a};
    text_fmt(&name, "%.*s %s of %zu", SARG(s->entry), metric, n);
    if (s->features)
        text_fmt(&name, " by %.*s", SARG(path_base(o->at[OptFeatures].text)));
    for (uint32_t i = 0; i < o->at[OptPaths].pair.n; i++)
        text_fmt(&name, " %s %.*s", i ? "and" : "against",
                 SARG(path_base(o->at[OptPaths].pair.at[i].value)));
    JsonOut j = {.text = &v->scores};
    json_open(&j, '{');
    json_name(&j, "step"), json_put_int(&j, v->run.step);
    json_name(&j, "seed"), json_put_int(&j, (int64_t)v->seed);
    json_name(&j, "name"), json_put_str(&j, text_str(&name));
    json_name(&j, "made"), json_put_double(&j, made);
    json_name(&j, "real"), json_put_double(&j, real);
    json_close(&j, '}');
    text_char(&v->scores, '\n');
}

// Samples first, first + 1, ... of s, n of them.
static Sets lot_of(const Sets *s, size_t first, size_t n) {
    size_t at = first * (size_t)type_sample(&s->type);
    Sets lot = *s;
    lot.n = n;
    lot.made += at;
    lot.real += s->real ? at : 0;
    lot.other += s->other ? at : 0;
    lot.label += s->label ? first : 0;
    return lot;
}

// Adds the numbers of x, which is lot->made or lot->other, to `sum`.
static GanStatus add_readings(Arena scratch, const Metric *metric, const Sets *lot, const float *x,
                              Readings *sum) {
    Readings before = *sum;
    sum->n = 0;
    TRY(metric->measure(scratch, lot, x, sum));
    for (uint32_t i = 0; i < before.n; i++)
        sum->value[i] += before.value[i];
    return GAN_OK;
}

// Means over whole lots, for what was made and for real samples in its place. How far two sets are
// apart depends on how many they are, so both columns are of lots of the same size.
static GanStatus measure(Eval *v, const Metric *metric, const Sets *s) {
    Readings made = {0}, real = {0};
    size_t size = v->lot && v->lot < s->n ? v->lot : s->n, lots = 0;
    for (; (lots + 1) * size <= s->n; lots++) {
        Sets lot = lot_of(s, lots * size, size);
        if (v->choosing && s->other) { // by the other half of the data
            float *first = lot.real;
            lot.real = lot.other;
            lot.other = first;
        }
        TRY(add_readings(v->sets, metric, &lot, lot.made, &made));
        if (lot.other)
            TRY(add_readings(v->sets, metric, &lot, lot.other, &real));
    }
    for (uint32_t i = 0; i < made.n; i++, v->rows++) {
        double one = made.value[i] / (double)lots;
        double reference = s->other ? real.value[i] / (double)lots : NAN;
        bool unit = !made.absolute[i];
        if (!v->choosing)
            keep_score(v, s, made.name[i], size, one, unit ? reference : NAN);
        if (v->choosing)
            v->worst =
                made.distance[i] && reference > 0 ? fmax(v->worst, one / reference) : v->worst;
        else if (v->options->at[OptJson].given)
            put_json(&v->json, s, made.name[i], one, reference);
        else
            put_line(&v->text, s, made.name[i], one, reference, unit);
    }
    return GAN_OK;
}

static GanStatus eval_entry(Eval *v, uint32_t entry, const Metric *only) {
    Arena before = v->sets;
    Sets s;
    TRY(v->features.d ? take_feature_sets(v, entry, &s) : take_sets(v, entry, only, &s));
    for (uint32_t i = 0; s.made && i < eval_metric_count; i++) {
        const Metric *metric = &eval_metrics[i];
        if ((only ? only != metric : metric->named) || !metric->applies(&s))
            continue;
        Str caution = metric->caution && !v->choosing ? metric->caution(v->perm, &s) : (Str){0};
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
    Str name = option_text(o, OptMetric, (Str){0}), known[16];
    *out = NULL;
    if (o->at[OptLot].given && o->at[OptFeatures].given)
        return fail(GAN_ERR_USAGE, "--lot is not for --features: FID is of all samples");
    if (!name.len)
        return GAN_OK;
    for (uint32_t i = 0; i < eval_metric_count; i++) {
        known[i] = str_c(eval_metrics[i].name);
        if (str_eq(name, known[i]))
            *out = &eval_metrics[i];
    }
    bool learned = *out && (*out)->features;
    if (learned && !o->at[OptFeatures].given)
        return fail(GAN_ERR_USAGE,
                    "%.*s is of the features of a trained net: --features FILE.gan says which "
                    "(docs/cookbook.md, FID)",
                    SARG(name));
    if (*out && !learned && o->at[OptFeatures].given)
        return fail(GAN_ERR_USAGE,
                    "with --features the metrics are fid, kid, prdc and is, not %.*s", SARG(name));
    if (*out)
        return GAN_OK;
    Str near = str_nearest(name, known, eval_metric_count);
    return fail(GAN_ERR_USAGE, "there is no metric `%.*s`%s%.*s%s", SARG(name),
                near.len ? ": did you mean `" : "; `ganrun eval --help` lists them", SARG(near),
                near.len ? "`?" : "");
}

static void begin(Eval *v) {
    const Module *m = module_of(v);
    v->text = v->scores = (Text){.arena = v->perm};
    v->json = (JsonOut){.text = &v->text};
    JsonOut *j = &v->json;
    if (v->options->at[OptJson].given) {
        json_open(j, '{');
        json_name(j, "model"), json_put_str(j, m->name);
        json_name(j, "step"), json_put_int(j, v->run.step);
        json_name(j, "rows"), json_open(j, '[');
        return;
    }
    text_fmt(&v->text, "%.*s after %u steps, %s\n", SARG(m->name), v->run.step,
             !m->stream.n                     ? "against what the model draws"
             : v->options->at[OptPaths].given ? "against the data of --data"
                                              : "against the data it was trained on");
    text_fmt(&v->text, "%-12s %-10s %8s  %-18s %12s %12s %10s\n", "sample", "against", "samples",
             "metric", "made", "data", "made/data");
}

static void end(Eval *v) {
    if (v->options->at[OptJson].given) {
        json_close(&v->json, ']');
        json_close(&v->json, '}');
        text_char(&v->text, '\n');
    }
    v->host->console.result(v->host->console.user, text_str(&v->text));
    Str file = path_join(v->perm, v->run.dir, STR("scores.jsonl"));
    if (file_append(file, text_str(&v->scores)) != GAN_OK) // the run is not ours to write into
        say(&v->host->console, "not kept for `ganrun report`: %s", gan_error());
}

static GanStatus eval_entries(Eval *v, uint32_t named, const Metric *only) {
    const Module *m = module_of(v);
    for (uint32_t i = 0; i < m->entry.n; i++) {
        const Func *f = &m->entry.at[i];
        if (f->result.n && !sampler_is_drawn(m, i) && // else it is what others are held against
            (named == NONE || named == i))
            TRY(eval_entry(v, i, only));
    }
    return GAN_OK;
}

// The checkpoint whose largest distance, in units of data to data, is the least. What it is chosen
// by is other samples against the other half of the data than what will be said of it, so that
// choosing the luckiest of many does not flatter it.
static GanStatus load_best(Eval *v, uint32_t named, const Metric *only) {
    CheckpointSteps steps;
    uint32_t best = NONE;
    double least = INFINITY;
    TRY(checkpoint_steps(v->perm, v->run.dir, &steps));
    v->choosing = true;
    for (uint32_t i = 0; i < steps.n; i++) {
        v->worst = 0;
        TRY(trained_load(v->perm, v->host, &v->run, steps.at[i]));
        TRY(eval_entries(v, named, only));
        say(&v->host->console, "step %u: at most %.2f times as far as data from data", steps.at[i],
            v->worst);
        if (v->worst > 0 && v->worst < least)
            least = v->worst, best = steps.at[i];
    }
    v->choosing = false;
    v->rows = 0;
    if (best == NONE)
        return fail(GAN_ERR_INPUT, "--best: nothing that is measured is a distance from data");
    return trained_load(v->perm, v->host, &v->run, best);
}

static GanStatus run_eval(Eval *v) {
    const Options *o = v->options;
    const Metric *only;
    TRY(find_metric(o, &only));
    TRY(trained_open(v->perm, v->host, o, &v->run));
    TRY(trained_feed(v->perm, v->host, &v->run));
    if (o->at[OptFeatures].given)
        TRY(features_open(v->perm, v->host, o, &v->run.job, &v->features));
    TRY(arena_init(&v->sets, 0));
    v->seed = (uint64_t)option_number(o, OptSeed, (int64_t)v->run.job.seed);
    v->count = (size_t)option_number(o, OptSamples, 256);
    v->lot = (size_t)option_number(o, OptLot, 0);
    const Module *m = module_of(v);
    uint32_t named = NONE;
    if (o->at[OptEntry].given)
        TRY(sampler_named(m, o->at[OptEntry].text, &named));
    if (o->at[OptBest].given)
        TRY(load_best(v, named, only));
    begin(v);
    TRY(eval_entries(v, named, only));
    if (!v->rows && v->unfit.batched)
        return features_refuse(&v->features, *v->perm, &v->unfit);
    if (!v->rows)
        return fail(GAN_ERR_INPUT,
                    "nothing to measure: no `sample` of model %.*s is a number, or "
                    "like its data, or %s",
                    SARG(m->name), only ? "fit for this metric" : "a code");
    end(v);
    return GAN_OK;
}

GanStatus cmd_eval(Arena *perm, const Host *h, const Options *o) {
    Eval v = {.perm = perm, .host = h, .options = o};
    GanStatus st = run_eval(&v);
    features_close(&v.features);
    trained_close(&v.run);
    arena_release(&v.sets);
    return st;
}
