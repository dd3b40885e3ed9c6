// monitor.c - see monitor.h. The reference data are read at the first evaluation, and kept.
#include "device.h"
#include "eval.h"

#include <math.h>

typedef struct MonitorState {
    Arena room; // owned: the data; behind them the samples of one evaluation
    const Host *host;
    const Metric *metric;
    SetSource from;
    FeatureNet net; // owned; empty without features
    Sets sets;      // `generated` of one evaluation
    bool read;      // the data are there
} MonitorState;

static GanStatus refuse_ranks(const MonitorState *in, const Sets *s) {
    const Compiled *c = &in->from.session->compiled;
    int ranks = comm_size(in->from.comm);
    bool sums =
        c->entry[s->entry].collective.n || (s->drawn != NONE && c->entry[s->drawn].collective.n);
    if (sums || (ranks > 1 && !s->type.batched))
        return fail(GAN_ERR_INPUT,
                    "--metric %s: sample %.*s sums over the batch, which is on %d ranks; `ganrun "
                    "eval` measures it on one",
                    in->metric->name, SARG(s->name), ranks);
    if (s->reads && in->from.batch % (size_t)ranks)
        return fail(
            GAN_ERR_USAGE,
            "--metric %s: sample %.*s reads data, a batch of %zu at a time, which %d ranks do "
            "not divide",
            in->metric->name, SARG(s->name), in->from.batch, ranks);
    return GAN_OK;
}

// The first `sample` it applies to, or the one that is named.
static GanStatus choose(Arena *perm, MonitorState *in, const Job *job) {
    const Module *m = &in->from.session->compiled.module;
    const MonitorOptions *asked = &job->monitor;
    uint32_t named = NONE;
    bool fits = false;
    if (asked->entry.len)
        TRY(sampler_named(m, asked->entry, &named));
    for (uint32_t i = 0; !fits && i < m->entry.n; i++)
        if (m->entry.at[i].result.n && !sampler_is_drawn(m, i) && (named == NONE || named == i))
            TRY(sets_find(&in->from, i, in->metric, &in->sets, &fits));
    if (!fits && in->from.unfit.batched)
        return features_refuse(&in->net, *perm, &in->from.unfit);
    if (!fits)
        return fail(GAN_ERR_INPUT, "--metric %s: no `sample` of model %.*s can be evaluated by it",
                    in->metric->name, SARG(m->name));
    size_t least = in->sets.features && in->sets.n_real < in->sets.n ? in->sets.n_real : in->sets.n;
    if (least < in->metric->least)
        return fail(GAN_ERR_INPUT, "--metric %s needs %zu samples and as many of the data, not %zu",
                    in->metric->name, in->metric->least, least);
    return refuse_ranks(in, &in->sets);
}

static GanStatus open(Arena *perm, const Job *job, MonitorState *in, Monitor *out) {
    const MonitorOptions *asked = &job->monitor;
    bool features = asked->features.path.len > 0;
    TRY(metric_named(asked->metric, features, &in->metric));
    TRY(in->metric->ready ? in->metric->ready() : GAN_OK);
    if (features) {
        TRY(features_open(perm, in->host, &asked->features, job, &in->net));
        in->from.net = &in->net;
        out->content = features_content(perm, &asked->features, &in->net);
    }
    TRY(choose(perm, in, job));
    Str caution = in->metric->caution ? in->metric->caution(perm, &in->sets) : (Str){0};
    if (caution.len)
        say(&in->host->console, "%.*s", SARG(caution));
    out->better = in->metric->better;
    if (asked->patience && !out->better)
        return fail(GAN_ERR_USAGE,
                    "--patience %lld waits for a better value, and %s has none: neither a high nor "
                    "a low one is better",
                    (long long)asked->patience, in->metric->name);
    out->name = sets_name(perm, &in->sets, in->metric->name, in->sets.n, &asked->features);
    return arena_init(&in->room, 0);
}

GanStatus monitor_open(Arena *perm, const Host *h, const Job *job, const Session *s, Feed *feed,
                       Monitor *out) {
    *out = (Monitor){0};
    if (!job->monitor.metric.len)
        return GAN_OK;
    MonitorState *in = out->in = arena_new(perm, MonitorState);
    *in = (MonitorState){
        .host = h,
        .from = {.session = s,
                 .feed = feed,
                 .comm = h->device.comm,
                 .stop_asked = h->stop_asked,
                 .seed = job->seed,
                 .batch = (size_t)job_batch(job),
                 .count = (size_t)job->monitor.count,
                 .threads = device_threads_for(job->threads ? job->threads : h->device.threads),
                 .alone = true}};
    return open(perm, job, in, out);
}

static GanStatus read(MonitorState *in, MetricValues *out) {
    if (!in->read)
        TRY(sets_data(&in->from, &in->room, &in->sets));
    in->read = true;
    Arena room = in->room;
    TRY(sets_generated(&in->from, &room, &in->sets));
    if (comm_rank(in->from.comm))
        return GAN_OK;
    GanStatus st = in->metric->measure(room, &in->sets, in->sets.generated, out);
    if (st != GAN_ERR_INPUT)
        return st;
    say(&in->host->console, "%s", gan_error());
    *out = (MetricValues){.n = 1, .name = {in->metric->name}, .value = {NAN}};
    return GAN_OK;
}

GanStatus monitor_measure(Monitor *m, MetricValues *out) {
    *out = (MetricValues){0};
    Arena before = m->in->room;
    bool had = m->in->read;
    GanStatus st = read(m->in, out);
    if (st != GAN_OK && !had)
        m->in->room = before, m->in->read = false;
    return st;
}

void monitor_close(Monitor *m) {
    if (!m->in)
        return;
    features_close(&m->in->net);
    arena_release(&m->in->room);
    *m = (Monitor){0};
}
