// gauge.c - see gauge.h. The reference data are read at the first evaluation, and kept.
#include "device.h"
#include "eval.h"

#include <math.h>

typedef struct GaugeIn {
    Arena room; // owned: the data; behind them a reading's samples
    const Host *host;
    const Metric *metric;
    SetSource from;
    FeatureNet net; // owned; empty without features
    Sets sets;      // `made` is a reading's alone
    bool read;      // the data are there
} GaugeIn;

static GanStatus refuse_ranks(const GaugeIn *g, const Sets *s) {
    const Compiled *c = &g->from.session->compiled;
    int ranks = comm_size(g->from.comm);
    bool sums =
        c->entry[s->entry].collective.n || (s->drawn != NONE && c->entry[s->drawn].collective.n);
    if (sums || (ranks > 1 && !s->type.batched))
        return fail(GAN_ERR_INPUT,
                    "--metric %s: sample %.*s sums over the batch, which is on %d ranks; `ganrun "
                    "eval` measures it on one",
                    g->metric->name, SARG(s->name), ranks);
    if (s->reads && g->from.batch % (size_t)ranks)
        return fail(
            GAN_ERR_USAGE,
            "--metric %s: sample %.*s reads data, a batch of %zu at a time, which %d ranks do "
            "not divide",
            g->metric->name, SARG(s->name), g->from.batch, ranks);
    return GAN_OK;
}

// The first `sample` it applies to, or the one that is named.
static GanStatus choose(Arena *perm, GaugeIn *g, const Job *job) {
    const Module *m = &g->from.session->compiled.module;
    const Gauging *asked = &job->gauge;
    uint32_t named = NONE;
    bool fits = false;
    if (asked->entry.len)
        TRY(sampler_named(m, asked->entry, &named));
    for (uint32_t i = 0; !fits && i < m->entry.n; i++)
        if (m->entry.at[i].result.n && !sampler_is_drawn(m, i) && (named == NONE || named == i))
            TRY(sets_find(&g->from, i, g->metric, &g->sets, &fits));
    if (!fits && g->from.unfit.batched)
        return features_refuse(&g->net, *perm, &g->from.unfit);
    if (!fits)
        return fail(GAN_ERR_INPUT, "--metric %s: no `sample` of model %.*s can be evaluated by it",
                    g->metric->name, SARG(m->name));
    size_t least = g->sets.features && g->sets.n_real < g->sets.n ? g->sets.n_real : g->sets.n;
    if (least < g->metric->least)
        return fail(GAN_ERR_INPUT, "--metric %s needs %zu samples and as many of the data, not %zu",
                    g->metric->name, g->metric->least, least);
    return refuse_ranks(g, &g->sets);
}

static GanStatus open(Arena *perm, const Job *job, GaugeIn *g, Gauge *out) {
    const Gauging *asked = &job->gauge;
    bool features = asked->features.path.len > 0;
    TRY(metric_named(asked->metric, features, &g->metric));
    TRY(g->metric->ready ? g->metric->ready() : GAN_OK);
    if (features) {
        TRY(features_open(perm, g->host, &asked->features, job, &g->net));
        g->from.net = &g->net;
    }
    TRY(choose(perm, g, job));
    Str caution = g->metric->caution ? g->metric->caution(perm, &g->sets) : (Str){0};
    if (caution.len)
        say(&g->host->console, "%.*s", SARG(caution));
    out->better = g->metric->better;
    out->name = sets_name(perm, &g->sets, g->metric->name, g->sets.n, &asked->features);
    return arena_init(&g->room, 0);
}

GanStatus gauge_open(Arena *perm, const Host *h, const Job *job, const Session *s, Feed *feed,
                     Gauge *out) {
    *out = (Gauge){0};
    if (!job->gauge.metric.len)
        return GAN_OK;
    GaugeIn *g = out->in = arena_new(perm, GaugeIn);
    *g = (GaugeIn){
        .host = h,
        .from = {.session = s,
                 .feed = feed,
                 .comm = h->device.comm,
                 .stop_asked = h->stop_asked,
                 .seed = job->seed,
                 .batch = (size_t)job_batch(job),
                 .count = (size_t)job->gauge.count,
                 .threads = device_threads_for(job->threads ? job->threads : h->device.threads),
                 .alone = true}};
    return open(perm, job, g, out);
}

static GanStatus read(GaugeIn *g, Readings *out) {
    if (!g->read)
        TRY(sets_data(&g->from, &g->room, &g->sets));
    g->read = true;
    Arena room = g->room;
    TRY(sets_made(&g->from, &room, &g->sets));
    if (comm_rank(g->from.comm))
        return GAN_OK;
    GanStatus st = g->metric->measure(room, &g->sets, g->sets.made, out);
    if (st != GAN_ERR_INPUT)
        return st;
    say(&g->host->console, "%s", gan_error());
    *out = (Readings){.n = 1, .name = {g->metric->name}, .value = {NAN}};
    return GAN_OK;
}

GanStatus gauge_read(Gauge *g, Readings *out) {
    *out = (Readings){0};
    Arena before = g->in->room;
    bool had = g->in->read;
    GanStatus st = read(g->in, out);
    if (st != GAN_OK && !had)
        g->in->room = before, g->in->read = false;
    return st;
}

void gauge_close(Gauge *g) {
    if (!g->in)
        return;
    features_close(&g->in->net);
    arena_release(&g->in->room);
    *g = (Gauge){0};
}
