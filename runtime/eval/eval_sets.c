// eval_sets.c - the sets that are compared: draws samples and reads their reference.
//
// The reference of a `sample` is a data field of its shape that it does not read (samples,
// translations into it), else the one it reads (reconstructions), else a `sample` of its shape that
// reads no weights (a distribution written in the model). With a feature net it is a field of its
// shape. Ranks draw blocks of samples in turn and share each one, so no rank waits longer than a
// block takes.
#include "eval.h"

static const Module *module_of(const SetSource *v) {
    return &v->session->compiled.module;
}

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

static const Field *field_of(const Module *m, uint32_t slot) {
    return &m->stream.at[m->slot.at[slot].stream].field.at[m->slot.at[slot].site];
}

// Where the second half of n samples begins: a batch is never split.
static size_t second_half(const SetSource *v, size_t n) {
    return (n + v->batch - 1) / v->batch * v->batch;
}

// --- what is held against what -------------------------------------------------------------------

// Half of a field against its other half.
static GanStatus hold_field(const SetSource *v, uint32_t slot, Sets *s) {
    const Field *data = field_of(module_of(v), slot);
    size_t there = (size_t)feed_count(v->feed, slot), most = there / v->batch / 2 * v->batch;
    s->n = s->n < most ? s->n : most;
    s->slot = slot;
    s->held = true;
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
                    SARG(data->name), there, v->batch);
    return GAN_OK;
}

static bool any_applies(const Sets *s, const Metric *only) {
    for (uint32_t i = 0; i < eval_metric_count; i++)
        if ((!only || only == &eval_metrics[i]) && eval_metrics[i].applies(s))
            return true;
    return false;
}

// Samples are sounds where the data like them are, or where a rate is given.
static void set_rate(const SetSource *v, const Sampler *look, Sets *s) {
    if (look->real_slot == NONE || !sampler_sounds(look))
        return;
    s->rate = v->rate ? v->rate : feed_rate(v->feed, look->real_slot);
    s->lo = look->lo, s->hi = look->hi;
}

static GanStatus find_plain(const SetSource *v, const Sampler *look, const Metric *only, Sets *s,
                            bool *fits) {
    const Module *m = module_of(v);
    const Func *f = &m->entry.at[s->entry];
    set_rate(v, look, s);
    s->type = *node_type(&f->g, f->result.at[0].node);
    if (!s->type.batched) { // one number a batch; a table is no measure
        s->n = (s->n + v->batch - 1) / v->batch;
        *fits = !s->type.rank;
        return GAN_OK;
    }
    uint32_t unread = find_field(m, f, &s->type, false), read = find_field(m, f, &s->type, true);
    s->copy = unread == NONE && read != NONE;
    s->drawn = find_drawn(m, &s->type);
    if (unread != NONE || read != NONE) {
        TRY(hold_field(v, unread != NONE ? unread : read, s));
    } else if (s->drawn != NONE) {
        s->held = true;
        s->against = m->entry.at[s->drawn].name;
        s->kind = FieldFloat;
    }
    *fits = any_applies(s, only);
    return GAN_OK;
}

// Samples against the field of their shape: all of it up to their number, and where there are as
// many again, those beside it.
static GanStatus find_seen(SetSource *v, const Sampler *look, Sets *s, bool *fits) {
    const Module *m = module_of(v);
    int64_t d = v->net->d;
    uint32_t slot = find_field(m, &m->entry.at[s->entry], &look->type, false);
    s->slot = slot == NONE ? look->real_slot : slot;
    if (s->slot == NONE || look->mapped)
        return GAN_OK;
    if (!features_fit(v->net, &look->type)) { // another `sample` may
        v->unfit = look->type;
        return GAN_OK;
    }
    size_t there = (size_t)feed_count(v->feed, s->slot);
    s->features = s->held = true;
    s->kind = FieldFloat;
    s->against = field_of(m, s->slot)->name;
    s->type = type_make(true, 1, &d);
    s->n_real = there < s->n ? there : s->n;
    if (!there)
        return fail(GAN_ERR_INPUT, "%.*s has no samples to compare with", SARG(s->against));
    *fits = true;
    return GAN_OK;
}

GanStatus sets_find(SetSource *v, uint32_t entry, const Metric *only, Sets *out, bool *fits) {
    const Module *m = module_of(v);
    const Func *f = &m->entry.at[entry];
    Sampler look = sampler_of(m, entry);
    *fits = false;
    *out = (Sets){.entry = entry,
                  .name = f->name,
                  .slot = NONE,
                  .drawn = NONE,
                  .n = v->count,
                  .reads = f->data.n > 0,
                  .threads = v->threads};
    return v->net ? find_seen(v, &look, out, fits) : find_plain(v, &look, only, out, fits);
}

Str sets_name(Arena *a, const Sets *s, const char *name, size_t n, const FeaturesAsked *features) {
    Text t = {.arena = a};
    text_fmt(&t, "%.*s %s of %zu", SARG(s->name), name, n);
    if (!s->features)
        return text_str(&t);
    text_fmt(&t, " by %.*s", SARG(path_base(features->path)));
    for (uint32_t i = 0; i < features->setting.n; i++)
        text_fmt(&t, " %.*s=%.*s", SARG(features->setting.at[i].key),
                 SARG(features->setting.at[i].value));
    for (uint32_t i = 0; i < features->weights.n; i++)
        text_fmt(&t, " %.*s=%.*s", SARG(features->weights.at[i].net),
                 SARG(path_base(features->weights.at[i].path)));
    return text_str(&t);
}

// --- read and drawn ------------------------------------------------------------------------------

typedef struct From { // of samples: an entry, or a data field; the other one is NONE
    uint32_t entry, slot;
} From;

// Samples first .. first + n - 1, as they are.
static GanStatus take_plain(const SetSource *v, From from, size_t first, size_t n, Arena scratch,
                            float *out) {
    size_t got;
    if (from.entry == NONE)
        return feed_samples(v->feed, from.slot, first, n, out, &got);
    Sampler s = sampler_of(module_of(v), from.entry);
    s.node = s.raw;
    return sampler_draw(&s, v->session, v->feed, (Draws){v->seed, first, n}, scratch, out);
}

static GanStatus take(const SetSource *v, const Sets *s, From from, size_t first, size_t n,
                      Arena scratch, float *out) {
    if (!s->features)
        return take_plain(v, from, first, n, scratch, out);
    Sampler look = sampler_of(module_of(v), s->entry);
    float *x = arena_array(&scratch, float, n *sampler_elements(&look));
    TRY(take_plain(v, from, first, n, scratch, x));
    return features_make(v->net, &look, x, n, scratch, out);
}

static GanStatus ask_to_stop(const SetSource *v) {
    bool stop = v->stop_asked && v->stop_asked();
    TRY(comm_any(v->comm, stop, &stop));
    return stop ? fail(GAN_STOPPED, "asked to stop") : GAN_OK;
}

// The same, in blocks of a few megabytes, with a new room for them: [n, ...], a block for each rank
// in turn.
static GanStatus take_all(const SetSource *v, Arena *a, const Sets *s, From from, size_t first,
                          size_t n, float **out) {
    enum { BlockMost = 256, BlockNumbers = 1 << 22 };
    size_t one = (size_t)type_sample(&s->type), block = BlockNumbers / one, numbers;
    size_t ranks = (size_t)comm_size(v->comm), rank = (size_t)comm_rank(v->comm);
    block = block > BlockMost ? BlockMost : block;
    block = (block + v->batch - 1) / v->batch * v->batch + (block ? 0 : v->batch);
    size_t turn = block * ranks, room = v->comm ? (n + turn - 1) / turn * turn : n;
    if (!mem_mul(room, one, &numbers))
        bug("eval: %zu samples of %zu numbers", n, one);
    *out = arena_array(a, float, numbers);
    for (size_t at = 0; at < n; at += turn) {
        TRY(ask_to_stop(v));
        Arena scratch = *a;
        size_t mine = at + rank * block, part = mine < n ? n - mine : 0;
        part = part < block ? part : block;
        float *x = v->comm ? arena_array(&scratch, float, block *one) : *out + at * one;
        if (part)
            TRY(take(v, s, from, first + mine, part, scratch, x));
        if (v->comm)
            TRY(comm_gather(v->comm, x, block * one * sizeof *x, *out + at * one));
    }
    return GAN_OK;
}

static GanStatus take_labels(const SetSource *v, Arena *a, Sets *s) {
    const Func *f = &module_of(v)->entry.at[s->entry];
    bool found = false;
    if (!f->data.n)
        return GAN_OK;
    uint32_t *label = arena_array(a, uint32_t, s->n);
    TRY(feed_labels(v->feed, f->data.at[0], s->n, label, &found));
    s->label = found ? label : NULL;
    return GAN_OK;
}

GanStatus sets_data(const SetSource *v, Arena *a, Sets *s) {
    From from = {s->slot == NONE ? s->drawn : NONE, s->slot};
    size_t second = second_half(v, s->n), n = s->features ? s->n_real : s->n;
    bool more = !v->alone && (!s->features || second + s->n <= feed_count(v->feed, s->slot));
    if (s->held) {
        TRY(take_all(v, a, s, from, 0, n, &s->real));
        if (more)
            TRY(take_all(v, a, s, from, second, s->n, &s->other));
    }
    if (s->features)
        s->compared = arena_array(a, Compared, 2);
    return s->type.batched && !s->features ? take_labels(v, a, s) : GAN_OK;
}

// A value that is one number a batch.
static GanStatus draw_shared(const SetSource *v, Arena *a, Sets *s) {
    const Plan *plan = &v->session->compiled.entry[s->entry];
    Exec *e = v->session->exec;
    uint32_t node = module_of(v)->entry.at[s->entry].result.at[0].node;
    s->generated = arena_array(a, float, s->n);
    for (size_t i = 0; i < s->n; i++) {
        Counters c = {.seed = v->seed, .sample0 = (int64_t)(i * v->batch)};
        double x;
        TRY(feed_entry(v->feed, e, s->entry, i));
        TRY(exec_entry(e, s->entry, &c, NULL));
        TRY(exec_value_get(e, plan, node, &x, 1));
        s->generated[i] = (float)x;
    }
    return GAN_OK;
}

GanStatus sets_generated(const SetSource *v, Arena *a, Sets *s) {
    size_t first = v->choosing ? second_half(v, s->n) : 0;
    if (!s->type.batched)
        return draw_shared(v, a, s);
    if (s->features) // of what was generated before
        s->compared[0] = s->compared[1] = (Compared){0};
    return take_all(v, a, s, (From){s->entry, NONE}, first, s->n, &s->generated);
}
