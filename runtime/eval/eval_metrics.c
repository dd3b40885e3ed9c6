// eval_metrics.c - the numbers `ganrun eval` knows, one row each.
//
//   value      the mean of a `sample` that is one number: a measure written in the model itself
//   error      mean |copy - original| of what is generated from data of its own shape; of sounds
//   also
//              that of their log-mel spectra (measure.h)
//   swd        sliced Wasserstein distance (swd.c): of images whole, and of 7x7 patches by level
//              (Rabin et al. 2011; Karras et al. 2018, section 5); of what has no metric of its
//              own, as rows of a table, steps of a series, volumes, by all its numbers
//   histogram  chi-square of the pixel histograms of maps, sum (generated - real)^2 / real over 50
//   bins spectrum   the same of their mean power spectra over rings
//              (both: cosmoGAN, Mustafa et al. 2019, as scored by its follow-up)
//   mel        Frechet distance of the log-mel spectra of sounds, and of how these change
//   chamfer    minimum matching distance and coverage (Achlioptas et al. 2018): for data, how
//              far the nearest other cloud is; of copies also the mean Chamfer distance to the
//              original (Fan, Su, Guibas 2017), for data to some other cloud
//   modes      groups of the data that are reached, and the share of samples within three
//              deviations of one (Srivastava et al. 2017)
//   fid, kid   distances of the features of a trained net (measure.h, distance.h)
//   prdc       precision, recall, density and coverage of those
//   is         Inception Score of a classifier's logits (distance.h)
//   groups     silhouette of the codes' groups (Rousseeuw 1987), and their agreement with
//              labels stored beside the data (adjusted Rand index: Hubert, Arabie 1985)
#include "eval.h"
#include "device.h"
#include <math.h>

static void put(MetricValues *out, const char *name, double value) {
    assert(out->n < METRIC_VALUES_MOST);
    out->name[out->n] = name;
    out->value[out->n++] = value;
}

static void put_distance(MetricValues *out, const char *name, double value) {
    out->distance[out->n] = true;
    put(out, name, value);
}

static size_t one_sample(const Sets *s) {
    return (size_t)type_sample(&s->type);
}

// --- shapes --------------------------------------------------------------------------------------

enum { SpaceAxes = 3 };         // points of at most so many coordinates
enum { ClassesMost = 1 << 16 }; // of stored labels; a larger one is damage

static bool is_number(const Sets *s) {
    return s->type.rank == 0;
}

static bool is_point(const Sets *s) {
    return !s->features && s->n > 1 && s->held && !s->copy && s->type.rank == 1 &&
           s->type.dim[0] <= SpaceAxes;
}

static bool is_code(const Sets *s) {
    return s->n > 1 && !s->held && s->reads && s->type.rank == 1; // one has no groups
}

// x is of s.
static Sounds sounds_of(const Sets *s, const float *x) {
    return (Sounds){.x = x,
                    .n = s->n,
                    .channels = (uint32_t)s->type.dim[0],
                    .length = (size_t)s->type.dim[1],
                    .rate = s->rate,
                    .lo = s->lo,
                    .hi = s->hi};
}

static bool is_sound(const Sets *s) {
    Sounds sounds = s->rate ? sounds_of(s, NULL) : (Sounds){0};
    return s->held && sounds_measured(&sounds);
}

// Not [1, n]: a curve, whose numbers have an order.
static bool is_cloud(const Sets *s) {
    return s->held && !s->rate && s->type.rank == 2 && s->type.dim[0] > 1 &&
           s->type.dim[0] <= SpaceAxes;
}

static bool is_image(const Sets *s) {
    return s->held && s->kind == FieldImage && s->type.rank == 3 &&
           (s->type.dim[0] == 1 || s->type.dim[0] == 3);
}

static bool is_map(const Sets *s) {
    return s->held && s->kind == FieldFloat && s->type.rank == 3 && s->type.dim[0] == 1 &&
           s->type.dim[1] == s->type.dim[2];
}

static bool is_copy(const Sets *s) {
    return s->copy && !is_cloud(s); // clouds have no order to compare by
}

static bool is_features(const Sets *s) {
    return s->features;
}

// Numbers of any other shape: nothing is known of them but that they are comparable.
static bool is_numbers(const Sets *s) {
    return s->held && s->type.rank && !s->copy && !s->features && !is_point(s) && !is_cloud(s) &&
           !is_sound(s) && !is_map(s);
}

static bool is_projected(const Sets *s) {
    return is_image(s) || is_numbers(s);
}

// --- rows ----------------------------------------------------------------------------------------

static GanStatus measure_value(Arena a, const Sets *s, const float *x, MetricValues *out) {
    (void)a;
    double sum = 0;
    for (size_t i = 0; i < s->n; i++)
        sum += x[i];
    put(out, "value", sum / (double)s->n);
    return GAN_OK;
}

static GanStatus measure_error(Arena a, const Sets *s, const float *x, MetricValues *out) {
    (void)a;
    size_t n = s->n * one_sample(s);
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += fabs((double)x[i] - s->real[i]);
    put_distance(out, "error", sum / (double)n);
    if (!is_sound(s))
        return GAN_OK;
    Sounds generated = sounds_of(s, x), real = sounds_of(s, s->real);
    TRY(sounds_error(&generated, &real, &sum));
    put_distance(out, "mel error", sum);
    return GAN_OK;
}

static GanStatus measure_mel(Arena a, const Sets *s, const float *x, MetricValues *out) {
    (void)a;
    double apart;
    Sounds generated = sounds_of(s, x), real = sounds_of(s, s->real);
    TRY(sounds_frechet(&generated, &real, s->threads, &apart));
    put_distance(out, "mel frechet", apart);
    return GAN_OK;
}

static GanStatus measure_swd(Arena a, const Sets *s, const float *x, MetricValues *out) {
    (void)a;
    uint32_t chw[3] = {1, 1, (uint32_t)one_sample(s)};
    for (uint32_t i = 0; i < 3 && is_image(s); i++)
        chw[i] = (uint32_t)s->type.dim[i];
    SwdOptions o = {.product = dnn_product};
    SwdResult r;
    TRY(swd_measure(x, s->n, s->real, s->n, chw, &o, &r));
    put_distance(out, is_image(s) ? "swd pixels" : "swd", r.pixels);
    if (r.levels)
        put_distance(out, "swd patches", r.mean);
    return GAN_OK;
}

static GanStatus measure_histogram(Arena a, const Sets *s, const float *x, MetricValues *out) {
    (void)a;
    size_t n = s->n * one_sample(s);
    Histogram real, generated;
    histogram_range(s->real, n, &real);
    generated = real;
    histogram_fill(s->real, n, &real);
    histogram_fill(x, n, &generated);
    put_distance(out, "histogram chi2",
                 chi_square(generated.density, real.density, HISTOGRAM_BINS));
    return GAN_OK;
}

static GanStatus measure_spectrum(Arena a, const Sets *s, const float *x, MetricValues *out) {
    uint32_t side = (uint32_t)s->type.dim[1], rings = spectrum_rings(side);
    double *generated = arena_array(&a, double, rings), *real = arena_array(&a, double, rings);
    TRY(spectrum_mean(x, s->n, side, generated));
    TRY(spectrum_mean(s->real, s->n, side, real));
    put_distance(out, "spectrum chi2", chi_square(generated, real, rings));
    return GAN_OK;
}

static GanStatus measure_chamfer(Arena a, const Sets *s, const float *x, MetricValues *out) {
    (void)a;
    uint32_t d = (uint32_t)s->type.dim[0];
    size_t p = (size_t)s->type.dim[1], one = one_sample(s);
    if (s->copy) {
        double sum = 0;
        for (size_t i = 0; i < s->n; i++)
            sum += chamfer_distance(x + i * one, p, s->real + i * one, p, d);
        put_distance(out, "chamfer", sum / (double)s->n);
    }
    CloudMatch m;
    TRY(cloud_match(x, s->n, s->real, s->n, d, p, &m));
    put_distance(out, "chamfer matching", m.distance);
    put(out, "chamfer coverage", m.covered);
    return GAN_OK;
}

static GanStatus measure_modes(Arena a, const Sets *s, const float *x, MetricValues *out) {
    uint32_t d = (uint32_t)s->type.dim[0];
    Groups modes;
    groups_choose(&a, s->real, s->n, d, GROUPS_MOST, &modes);
    ModeCount m = modes_count(&modes, x, s->n, d);
    put(out, "modes of the data", modes.k);
    put(out, "modes covered", m.covered);
    put(out, "high quality", m.quality);
    return GAN_OK;
}

static GanStatus measure_groups(Arena a, const Sets *s, const float *x, MetricValues *out) {
    uint32_t d = (uint32_t)s->type.dim[0], classes = 0;
    Groups g;
    for (size_t i = 0; s->label && i < s->n; i++) {
        if (s->label[i] >= ClassesMost)
            return fail(GAN_ERR_INPUT, "sample %zu of the data has label %u; the maximum is %d", i,
                        s->label[i], ClassesMost - 1);
        classes = s->label[i] >= classes ? s->label[i] + 1 : classes;
    }
    if (classes > 1 && classes <= s->n)
        groups_find(&a, x, s->n, d, classes, &g);
    else
        groups_choose(&a, x, s->n, d, GROUPS_MOST, &g);
    put(out, "groups", g.k);
    put(out, "silhouette", g.silhouette);
    if (classes > 1)
        put(out, "agreement", groups_agreement(a, g.of, g.k, s->label, classes, s->n));
    return GAN_OK;
}

// A covariance of n samples has rank n - 1: below d it lies in fewer directions than there are.
static Str caution_fid(Arena *a, const Sets *s) {
    size_t least = s->n < s->n_real ? s->n : s->n_real;
    long long d = (long long)s->type.dim[0];
    if (least > (size_t)d)
        return (Str){0};
    return str_format(a,
                      "fid: %zu samples and %zu of the data for %lld features: a covariance needs "
                      "more than %lld of each (--count), and FID of fewer is too large by an "
                      "amount that depends on their number; kid does not need as many",
                      s->n, s->n_real, d, d);
}

static GanStatus measure_fid(Arena a, const Sets *s, const float *x, MetricValues *out) {
    double fid;
    (void)a;
    TRY(feature_frechet(x, s->n, s->real, s->n_real, (uint32_t)s->type.dim[0], s->threads, &fid));
    put_distance(out, "fid", fid);
    return GAN_OK;
}

// All pairs are looked at once, whichever of these numbers are asked for.
static GanStatus compare(const Sets *s, const float *x, const FeatureScores **out) {
    Compared *c = s->compared;
    FeatureSets f = {.generated = x,
                     .real = s->real,
                     .n_generated = s->n,
                     .n_real = s->n_real,
                     .d = (size_t)s->type.dim[0]};
    c += c->x && c->x != x;
    if (c->x != x)
        TRY(features_compare(&f, &c->scores));
    c->x = x;
    *out = &c->scores;
    return GAN_OK;
}

static GanStatus measure_kid(Arena a, const Sets *s, const float *x, MetricValues *out) {
    const FeatureScores *m;
    (void)a;
    TRY(compare(s, x, &m));
    out->absolute[out->n] = true; // unbiased: of data with data it may be negative
    put(out, "kid", m->kid);
    return GAN_OK;
}

// Of features that are a classifier's logits: no other's, which nobody can tell by their type.
static GanStatus measure_is(Arena a, const Sets *s, const float *x, MetricValues *out) {
    double mean, deviation;
    (void)a;
    TRY(inception_score(x, s->n, (size_t)s->type.dim[0], &mean, &deviation));
    put(out, "inception score", mean);
    put(out, "deviation", deviation);
    return GAN_OK;
}

static GanStatus measure_prdc(Arena a, const Sets *s, const float *x, MetricValues *out) {
    const FeatureScores *m;
    (void)a;
    TRY(compare(s, x, &m));
    put(out, "precision", m->precision);
    put(out, "recall", m->recall);
    put(out, "density", m->density);
    put(out, "coverage", m->coverage);
    return GAN_OK;
}

const Metric eval_metrics[] = {
    {.name = "value", .applies = is_number, .measure = measure_value},
    {.name = "error", .applies = is_copy, .measure = measure_error, .better = -1},
    {.name = "swd", .applies = is_projected, .measure = measure_swd, .better = -1},
    {.name = "histogram", .applies = is_map, .measure = measure_histogram, .better = -1},
    {.name = "spectrum", .applies = is_map, .measure = measure_spectrum, .better = -1},
    {.name = "mel",
     .applies = is_sound,
     .measure = measure_mel,
     .better = -1,
     .ready = feature_frechet_ready},
    {.name = "chamfer", .applies = is_cloud, .measure = measure_chamfer, .better = -1},
    {.name = "modes", .applies = is_point, .measure = measure_modes},
    {.name = "groups", .applies = is_code, .measure = measure_groups},
    {.name = "fid",
     .applies = is_features,
     .measure = measure_fid,
     .features = true,
     .better = -1,
     .least = 2,
     .ready = feature_frechet_ready,
     .caution = caution_fid},
    {.name = "kid",
     .applies = is_features,
     .measure = measure_kid,
     .features = true,
     .better = -1,
     .least = FEATURES_LEAST},
    {.name = "prdc",
     .applies = is_features,
     .measure = measure_prdc,
     .features = true,
     .least = FEATURES_LEAST},
    {.name = "is",
     .applies = is_features,
     .measure = measure_is,
     .features = true,
     .named = true,
     .better = 1,
     .least = INCEPTION_SPLITS},
};
const uint32_t eval_metric_count = sizeof eval_metrics / sizeof *eval_metrics;

GanStatus metric_named(Str name, bool features, const Metric **out) {
    enum { Most = sizeof eval_metrics / sizeof *eval_metrics };
    Str known[Most];
    *out = NULL;
    for (uint32_t i = 0; i < Most; i++) {
        known[i] = str_c(eval_metrics[i].name);
        if (str_eq(name, known[i]))
            *out = &eval_metrics[i];
    }
    bool learned = *out && (*out)->features;
    if (learned && !features)
        return fail(GAN_ERR_USAGE,
                    "%.*s is of the features of a trained net: --features FILE.gan says which "
                    "(docs/cookbook.md, FID)",
                    SARG(name));
    if (*out && !learned && features)
        return fail(GAN_ERR_USAGE,
                    "with --features the metrics are fid, kid, prdc and is, not %.*s", SARG(name));
    if (*out)
        return GAN_OK;
    Str near = str_nearest(name, known, Most);
    return fail(GAN_ERR_USAGE, "there is no metric `%.*s`%s%.*s%s", SARG(name),
                near.len ? ": did you mean `" : "; `ganrun eval --help` lists them", SARG(near),
                near.len ? "`?" : "");
}
