// feed.c - copies data streams into the slots of a model.
//
// A step's first read of a stream takes a batch (slots of round 0). Each `next` takes another when
// its block begins (slots of round 1, 2, ...); the reader may be in a branch, or in a loop of its
// own. Batches are a function of the seed and of the number of batches consumed, so a resumed run
// continues exactly when these counts are restored.

#include "feed.h"

#include <math.h>
#include <string.h>

struct Feed {
    Arena *perm;            // borrowed
    const Module *module;   // borrowed
    DataStream **stream;    // [streams], owned; NULL: never read
    uint64_t *position;     // [streams]
    const DataBatch **last; // [streams] taken last, borrowed of the stream; NULL: none
    bool *trained;          // [streams] a step reads it
    bool planned;           // the cues are known
    VEC(Next) cue;          // of batches that are read; round 0: the step's own, taken as it begins
    float *
        *room; // [fields of the widest stream] a batch each, for what is read apart from training
    uint64_t *sample; // [batch]
    int64_t batch;    // samples of a batch read here; of the global batch `total`, from `first` on
    int64_t first, total;
    double seconds;
};

// --- what is read where --------------------------------------------------------------------------

// As the text has it, passes done or not: what no result, loss or effect needs is not read.
static void find_trained(Feed *f) {
    const Module *m = f->module;
    Arena scratch = *f->perm;
    const uint8_t *live = func_live(&scratch, &m->step);
    for (uint32_t i = 1; i < m->step.g.node.n; i++)
        if (live[i] && graph_node(&m->step.g, i)->op == OpRead) {
            const Slot *s = &m->slot.at[node_slot(&m->step.g, i)];
            if (s->kind == SlotData)
                f->trained[s->stream] = true;
        }
}

static bool batch_read(const Feed *f, uint32_t stream, uint32_t round) {
    const Module *m = f->module;
    for (uint32_t i = 0; f->trained[stream] && i < m->slot.n; i++) {
        const Slot *s = &m->slot.at[i];
        if (s->kind == SlotData && s->stream == stream && s->round == round &&
            func_reads(&m->step, i))
            return true;
    }
    return false;
}

// Once passes have settled the blocks.
static void find_cues(Feed *f) {
    const Module *m = f->module;
    f->planned = true;
    for (uint32_t s = 0; s < m->stream.n; s++)
        if (batch_read(f, s, 0))
            vec_push(f->perm, &f->cue, ((Next){.stream = s}));
    for (uint32_t i = 0; i < m->step.next.n; i++)
        if (batch_read(f, m->step.next.at[i].stream, m->step.next.at[i].round))
            vec_push(f->perm, &f->cue, m->step.next.at[i]);
}

static bool stream_read(const Feed *f, uint32_t stream) {
    const Module *m = f->module;
    if (f->trained[stream])
        return true;
    for (uint32_t e = 0; e < m->entry.n; e++)
        for (uint32_t k = 0; k < m->entry.at[e].data.n; k++)
            if (m->slot.at[m->entry.at[e].data.at[k]].stream == stream)
                return true;
    return false;
}

// --- opening -------------------------------------------------------------------------------------

GanStatus feed_names_known(Arena scratch, const Module *m, const Job *job) {
    Arena *a = &scratch;
    VEC(Str) known = {0};
    for (uint32_t i = 0; i < m->stream.n; i++)
        for (uint32_t k = 0; k < m->stream.at[i].field.n; k++)
            vec_push(a, &known, m->stream.at[i].field.at[k].name);
    for (uint32_t i = 0; i < job->data.n; i++) {
        Str name = job->data.at[i].key;
        bool found = false;
        for (uint32_t k = 0; k < known.n; k++)
            found |= str_eq(known.at[k], name);
        if (found)
            continue;
        if (!known.n)
            return fail(GAN_ERR_USAGE, "--data %.*s: the model reads no data", SARG(name));
        return fail(GAN_ERR_USAGE, "--data %.*s: the model has no such data%s", SARG(name),
                    known_text(name, known.at, known.n).at);
    }
    return GAN_OK;
}

// An older version's are those of the model's label, where it has one alone.
static const FieldFacts *facts_of(const Module *m, const Field *f, const FactVec *all) {
    uint32_t labels = 0;
    for (uint32_t i = 0; i < m->stream.n; i++)
        for (uint32_t k = 0; k < m->stream.at[i].field.n; k++)
            labels += m->stream.at[i].field.at[k].kind == FieldLabel;
    const FieldFacts *own = job_facts(all, f->name);
    bool older = !own->field.len && f->kind == FieldLabel && labels == 1;
    return older ? job_facts(all, (Str){0}) : own;
}

static DataField data_field(Arena *a, const Module *m, const Field *f, const Job *job) {
    static const DataKind kind_of[] = {
        [FieldImage] = DataImage, [FieldFloat] = DataFloat, [FieldLabel] = DataLabel};
    static const DataOp op_of[] = {
        [XformResize] = DataResize, [XformCrop] = DataCrop,       [XformFlip] = DataFlip,
        [XformScale] = DataScale,   [XformMissing] = DataMissing, [XformKnown] = DataKnown};
    DataField d = {
        .name = f->name, .kind = kind_of[f->kind], .rank = f->rank, .classes = f->classes};
    memcpy(d.dim, f->dim, sizeof f->dim);
    DataXform *x = arena_array(a, DataXform, f->xform.n);
    for (uint32_t i = 0; i < f->xform.n; i++) {
        const Xform *from = &f->xform.at[i];
        if (from->kind == XformBalanced || from->kind == XformWeight)
            d.draw = from->kind == XformBalanced ? DrawBalanced : DrawWeight;
        else if (from->kind != XformMap) // which the graphs do
            x[d.xforms++] = (DataXform){op_of[from->kind], from->a, from->b};
    }
    const FieldFacts *known = facts_of(m, f, &job->fact), *like = facts_of(m, f, &job->like);
    d.like = like->name.at, d.likes = like->name.n;
    d.known = known->name.at, d.knowns = known->name.n;
    d.ranged = known->ranged, d.lo = known->lo, d.hi = known->hi;
    d.rate = known->rate;
    Str *path = arena_array(a, Str, job->data.n);
    for (uint32_t i = 0; i < job->data.n; i++)
        if (str_eq(job->data.at[i].key, f->name))
            path[d.paths++] = job->data.at[i].value;
    d.xform = x;
    d.path = path;
    return d;
}

// A field of a stream, NONE: any of them.
static bool entry_reads(const Module *m, const Func *entry, uint32_t stream, uint32_t field) {
    for (uint32_t k = 0; k < entry->data.n; k++) {
        const Slot *s = &m->slot.at[entry->data.at[k]];
        if (s->stream == stream && (field == NONE || s->site == field))
            return true;
    }
    return false;
}

// They were there when the run began.
static GanStatus check_paths(const DataField *f) {
    for (uint32_t i = 0; i < f->paths; i++)
        if (!file_exists(f->path[i]))
            return fail(GAN_ERR_INPUT,
                        "data %.*s: %.*s is no longer there; --data %.*s=PATH says where it is",
                        SARG(f->name), SARG(f->path[i]), SARG(f->name));
    return GAN_OK;
}

static GanStatus open_stream(Feed *f, uint32_t i, const FeedOptions *o) {
    const Stream *s = &f->module->stream.at[i];
    DataField *field = arena_array(f->perm, DataField, s->field.n);
    for (uint32_t k = 0; k < s->field.n; k++) {
        field[k] = data_field(f->perm, f->module, &s->field.at[k], o->job);
        field[k].unread = o->only && !entry_reads(f->module, o->only, i, k);
    }
    for (uint32_t k = 0; k < s->field.n; k++) {
        uint32_t of = data_mask_of(&field[k]);
        if (of < k && !field[k].unread)
            field[of].unread = false;
    }
    for (uint32_t k = 0; k < s->field.n; k++)
        if (!field[k].unread || k == 0)
            TRY(check_paths(&field[k]));
    if (!field[0].paths)
        return fail(GAN_ERR_USAGE,
                    "the model reads data `%.*s`: say where it is with --data %.*s=PATH",
                    SARG(field[0].name), SARG(field[0].name));
    DataOptions d = {
        .field = field,
        .fields = s->field.n,
        .batch = f->total,
        .first = f->first,
        .count = f->batch,
        .seed = job_seed(o->job),
        .stream = i,
        .in_order = o->in_order,
        .skip_bad = o->job->skip_bad,
        .wide = o->job->real == DtF64,
        .threads = o->job->threads,
        .notice = o->notice,
        .user = o->user,
    };
    return stream_open(&d, &f->stream[i]);
}

static int64_t field_elements(const Feed *f, const Field *field) {
    int64_t n = f->batch;
    for (uint32_t d = 0; d < field->rank; d++)
        n *= field->dim[d];
    return n;
}

// One batch of any stream at a time.
static void make_room(Feed *f) {
    uint32_t widest = 0;
    for (uint32_t i = 0; i < f->module->stream.n; i++)
        if (f->module->stream.at[i].field.n > widest)
            widest = f->module->stream.at[i].field.n;
    f->room = arena_array(f->perm, float *, widest);
    f->sample = arena_array(f->perm, uint64_t, f->batch);
    for (uint32_t k = 0; k < widest; k++) {
        int64_t most = 0;
        for (uint32_t i = 0; i < f->module->stream.n; i++) {
            const Stream *s = &f->module->stream.at[i];
            if (k < s->field.n && field_elements(f, &s->field.at[k]) > most)
                most = field_elements(f, &s->field.at[k]);
        }
        f->room[k] = arena_array(f->perm, float, most);
    }
}

GanStatus feed_open(Arena *perm, const Module *m, const FeedOptions *o, Feed **out) {
    *out = NULL;
    if (m->stream.n > STREAMS_MOST)
        return fail(GAN_ERR_INPUT,
                    "model %.*s has %u `data` statements, the maximum is %d; one may have several "
                    "fields",
                    SARG(m->name), m->stream.n, STREAMS_MOST);
    TRY(feed_names_known(*perm, m, o->job));
    Feed *f = arena_new(perm, Feed);
    bool shared = m->share.ranks > 1;
    *f = (Feed){.perm = perm,
                .module = m,
                .batch = m->batch,
                .first = shared ? m->share.first : 0,
                .total = shared ? m->share.total : m->batch};
    f->stream = arena_array(perm, DataStream *, m->stream.n);
    f->position = arena_array(perm, uint64_t, m->stream.n);
    f->last = arena_array(perm, const DataBatch *, m->stream.n);
    f->trained = arena_array(perm, bool, m->stream.n);
    find_trained(f);
    make_room(f);
    GanStatus st = GAN_OK;
    for (uint32_t i = 0; st == GAN_OK && i < m->stream.n; i++)
        if (o->only ? entry_reads(m, o->only, i, NONE) : stream_read(f, i))
            st = open_stream(f, i, o);
    if (st == GAN_OK)
        *out = f;
    else
        feed_close(f);
    return st;
}

void feed_close(Feed *f) {
    for (uint32_t i = 0; f && i < f->module->stream.n; i++)
        stream_close(f->stream[i]);
}

// --- a step --------------------------------------------------------------------------------------

static size_t slot_elements(const Feed *f, const Slot *s) {
    return (size_t)(f->batch * type_sample(&s->type));
}

static GanStatus take(Feed *f, Exec *e, const Next *c) {
    double began = time_now();
    const DataBatch *b;
    TRY(stream_next(f->stream[c->stream], &b));
    f->position[c->stream]++;
    f->last[c->stream] = b;
    for (uint32_t i = 0; i < f->module->slot.n; i++) {
        const Slot *s = &f->module->slot.at[i];
        if (s->kind == SlotData && s->stream == c->stream && s->round == c->round)
            TRY(exec_slot_put_f32(e, i, b->field[s->site], slot_elements(f, s)));
    }
    f->seconds += time_now() - began;
    return GAN_OK;
}

GanStatus feed_begin(Feed *f, Exec *e) {
    if (!f->planned)
        find_cues(f);
    for (uint32_t i = 0; i < f->cue.n; i++)
        if (f->cue.at[i].round == 0)
            TRY(take(f, e, &f->cue.at[i]));
    return GAN_OK;
}

GanStatus feed_block(Feed *f, Exec *e, uint32_t block) {
    for (uint32_t i = 0; i < f->cue.n; i++)
        if (f->cue.at[i].round != 0 && f->cue.at[i].block == block)
            TRY(take(f, e, &f->cue.at[i]));
    return GAN_OK;
}

// Of the streams that training reads, the first of the longest; NONE.
static uint32_t longest(const Feed *f) {
    uint32_t at = NONE;
    for (uint32_t i = 0; i < f->module->stream.n; i++)
        if (f->trained[i] &&
            (at == NONE || stream_count(f->stream[i]) > stream_count(f->stream[at])))
            at = i;
    return at;
}

double feed_epoch(const Feed *f) {
    uint32_t s = longest(f);
    return s == NONE ? 0
                     : (double)(f->position[s] * (uint64_t)f->total / stream_count(f->stream[s]));
}

double feed_steps(const Feed *f, double epochs) {
    uint32_t s = longest(f);
    if (s == NONE || !batch_read(f, s, 0))
        return INFINITY;
    return ceil(epochs * (double)stream_count(f->stream[s]) / (double)f->total);
}

Str feed_identity(const Feed *f, Arena *a) {
    Text t = {.arena = a};
    for (uint32_t i = 0; i < f->module->stream.n; i++)
        for (uint32_t k = 0; f->stream[i] && k < f->module->stream.at[i].field.n; k++) {
            text_fmt(&t, "%.*s: %llu samples, content ",
                     SARG(f->module->stream.at[i].field.at[k].name),
                     (unsigned long long)stream_count(f->stream[i]));
            stream_content(f->stream[i], k, &t);
            text_char(&t, '\n');
        }
    return text_str(&t);
}

uint32_t feed_positions(const Feed *f, const uint64_t **out) {

    *out = f->position;
    return f->module->stream.n;
}

GanStatus feed_seek(Feed *f, const uint64_t *position) {
    for (uint32_t i = 0; i < f->module->stream.n; i++) {
        f->position[i] = position[i];
        f->last[i] = NULL;
        if (f->stream[i])
            TRY(stream_seek(f->stream[i], position[i]));
    }
    return GAN_OK;
}

Str feed_sample_name(const Feed *f, uint32_t stream, uint32_t i) {
    const DataBatch *b = f->stream[stream] ? f->last[stream] : NULL;
    return b && i < f->batch ? stream_name(f->stream[stream], b->sample[i]) : (Str){0};
}

double feed_seconds(const Feed *f) {
    return f->seconds;
}

// --- batches apart from training -----------------------------------------------------------------

GanStatus feed_entry(Feed *f, Exec *e, uint32_t entry, uint64_t position) {
    const Module *m = f->module;
    const Func *func = &m->entry.at[entry];
    for (uint32_t k = 0; k < func->data.n; k++) {
        const Slot *s = &m->slot.at[func->data.at[k]];
        TRY(stream_fill(f->stream[s->stream], position * (uint64_t)f->batch, f->room, f->sample));
        TRY(exec_slot_put_f32(e, func->data.at[k], f->room[s->site], slot_elements(f, s)));
    }
    return GAN_OK;
}

uint32_t feed_rate(const Feed *f, uint32_t slot) {
    const Slot *s = &f->module->slot.at[slot];
    return s->kind == SlotData && f->stream[s->stream] ? stream_rate(f->stream[s->stream], s->site)
                                                       : 0;
}

bool feed_range(const Feed *f, uint32_t slot, double *lo, double *hi) {
    const Slot *s = &f->module->slot.at[slot];
    return s->kind == SlotData && f->stream[s->stream] &&
           stream_range(f->stream[s->stream], s->site, lo, hi);
}

uint32_t feed_classes(const Feed *f, uint32_t slot, const Str **names) {
    const Slot *s = &f->module->slot.at[slot];
    bool data = s->kind == SlotData && f->stream[s->stream];
    return data ? stream_classes(f->stream[s->stream], s->site, names) : 0;
}

uint64_t feed_count(const Feed *f, uint32_t slot) {
    const DataStream *s = f->stream[f->module->slot.at[slot].stream];
    return s ? stream_count(s) : 0;
}

Str feed_file(const Feed *f, uint32_t slot, uint64_t i) {
    const DataStream *s = f->stream[f->module->slot.at[slot].stream];
    return s ? stream_file(s, i) : (Str){0};
}

GanStatus feed_samples(Feed *f, uint32_t slot, size_t first, size_t n, float *out, size_t *got) {
    const Slot *s = &f->module->slot.at[slot];
    size_t one = (size_t)type_sample(&s->type), batch = (size_t)f->batch;
    size_t count = (size_t)feed_count(f, slot), left = count > first ? count - first : 0;
    n = n > left ? left : n;
    for (size_t at = 0; at < n; at += batch) {
        TRY(stream_fill(f->stream[s->stream], first + at, f->room, f->sample));
        size_t part = n - at < batch ? n - at : batch;
        memcpy(out + at * one, f->room[s->site], part * one * sizeof(float));
    }
    *got = n;
    return GAN_OK;
}

GanStatus feed_labels(Feed *f, uint32_t slot, size_t n, uint32_t *out, bool *found) {
    DataStream *stream = f->stream[f->module->slot.at[slot].stream];
    size_t batch = (size_t)f->batch;
    *found = true;
    for (size_t i = 0; *found && i < n; i++) {
        if (i % batch == 0)
            TRY(stream_fill(stream, i, f->room, f->sample));
        *found = stream_label(stream, f->sample[i % batch], &out[i]);
    }
    return GAN_OK;
}
