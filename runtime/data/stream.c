// stream.c - batches for training, prefetched by one thread.
//
// In: packs, or sources that are packed in memory. Out: f32 batches in logical order. fill_with
// computes a batch from its number alone; the ring buffer only lets that happen early. So resuming
// is starting at another number, and a batch depends on neither threads nor ranks.
#include "stream.h"

#include <string.h>

// --- one sample ----------------------------------------------------------------------------------

// Pack of a feed that holds sample `at` of the stream, which becomes its number there.
static uint32_t find_pack(const Feed *feed, uint64_t *at) {
    uint32_t k = 0;
    *at = feed->at ? feed->at[*at] : *at;
    while (*at >= feed->pack[k].count)
        *at -= feed->pack[k++].count;
    return k;
}

// A block's hash is verified when it is first read: opening reads nothing, and damage stops a run
// before it trains on it.
static GanStatus check_once(const Feed *feed, uint32_t k, uint64_t at) {
    uint64_t block = at / feed->pack[k].block;
    if (!feed->checked[k] || feed->checked[k][block])
        return GAN_OK;
    GanStatus st = pack_check(&feed->pack[k], block);
    if (st != GAN_OK)
        return fail_in(st, "%.*s", SARG(feed->path[k]));
    feed->checked[k][block] = true;
    return GAN_OK;
}

GanStatus stream_read(DataStream *s, const StreamField *sf, Drawn d, bool check, float *out) {
    uint64_t at = d.sample;
    const Feed *feed = &s->feed[sf->feed];
    uint32_t k = find_pack(feed, &at);
    const Pack *pack = &feed->pack[k];
    if (check)
        TRY(check_once(feed, k, at));
    GanStatus st = xform_run(&sf->plan[k], pack_record(pack, at), &s->order, d.turn, d.sample,
                             s->scratch, out);
    return st == GAN_OK ? st
                        : fail_in(st, "%.*s: sample %llu (%.*s)", SARG(sf->want.name),
                                  (unsigned long long)d.sample, SARG(pack_name(pack, at)));
}

// --- closing -------------------------------------------------------------------------------------

static void stop_thread(DataStream *s) {
    if (!s->running)
        return;
    pthread_mutex_lock(&s->lock);
    s->stop = true;
    pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->lock);
    pthread_join(s->thread, NULL);
    s->running = s->stop = false;
}

void stream_close(DataStream *s) {
    if (!s)
        return;
    stop_thread(s);
    for (uint32_t i = 0; i < s->slots; i++)
        for (uint32_t f = 0; s->slot[i].field && f < s->fields; f++)
            mem_free(s->slot[i].field[f]);
    for (uint32_t i = 0; i < s->feeds; i++)
        for (uint32_t k = 0; k < s->feed[i].packs; k++)
            pack_close(&s->feed[i].pack[k]);
    mem_free(s->scratch);
    pthread_cond_destroy(&s->changed);
    pthread_mutex_destroy(&s->lock);
    arena_release(&s->arena);
    mem_free(s);
}

// --- one batch -----------------------------------------------------------------------------------

// Where this rank's part of batch `position` begins in the infinite sequence of samples.
static uint64_t place_of(const DataStream *s, uint64_t position) {
    return position * (uint64_t)s->o.batch + (uint64_t)s->o.first;
}

static GanStatus fill_with(DataStream *s, const Order *o, uint64_t first, float *const *field,
                           uint64_t *sample) {
    for (int64_t j = 0; j < s->o.count; j++) {
        Drawn d = order_drawn(o, first + (uint64_t)j);
        sample[j] = d.sample;
        for (uint32_t f = 0; f < s->fields; f++)
            if (!s->field[f].want.unread)
                TRY(stream_read(s, &s->field[f], d, true,
                                field[f] + (size_t)j * s->field[f].elements));
    }
    return GAN_OK;
}

GanStatus stream_fill(DataStream *s, uint64_t place, float *const *field, uint64_t *sample) {
    stop_thread(s); // it uses the same scratch memory; the next stream_next starts it again
    Order even = {.n = s->order.n, .seed = s->order.seed, .in_order = s->order.in_order};
    return fill_with(s, &even, place, field, sample);
}

// --- prefetching ---------------------------------------------------------------------------------

static void *run_ahead(void *user) {
    DataStream *s = user;
    for (;;) {
        pthread_mutex_lock(&s->lock);
        // Batch `give - 1` may still be in the caller's hands.
        while (!s->stop && s->make + s->lent - s->give >= s->slots)
            pthread_cond_wait(&s->changed, &s->lock);
        bool stop = s->stop;
        uint64_t position = s->make;
        pthread_mutex_unlock(&s->lock);
        if (stop)
            return NULL;
        Slot *slot = &s->slot[position % s->slots];
        slot->st = fill_with(s, &s->order, place_of(s, position), slot->field, slot->sample);
        if (slot->st != GAN_OK)
            snprintf(slot->reason, sizeof slot->reason, "%s", gan_error());
        uint64_t place = position * (uint64_t)s->o.batch;
        slot->batch = (DataBatch){position, place / s->order.n, slot->sample,
                                  (const float *const *)slot->field};
        pthread_mutex_lock(&s->lock);
        slot->ready = true;
        s->make++;
        pthread_cond_broadcast(&s->changed);
        pthread_mutex_unlock(&s->lock);
        if (slot->st != GAN_OK)
            return NULL;
    }
}

GanStatus stream_next(DataStream *s, const DataBatch **out) {
    if (!s->running) {
        s->running = pthread_create(&s->thread, NULL, run_ahead, s) == 0;
        if (!s->running)
            return fail(GAN_ERR_MEMORY, "the system refuses to start a thread for the data");
    }
    pthread_mutex_lock(&s->lock);
    if (s->lent)
        s->slot[(s->give - 1) % s->slots].ready = false;
    s->lent = false;
    pthread_cond_broadcast(&s->changed);
    Slot *slot = &s->slot[s->give % s->slots];
    while (!slot->ready)
        pthread_cond_wait(&s->changed, &s->lock);
    if (slot->st == GAN_OK) {
        s->lent = true;
        s->give++;
    }
    pthread_mutex_unlock(&s->lock);
    if (slot->st != GAN_OK)
        return fail(slot->st, "%s", slot->reason);
    *out = &slot->batch;
    return GAN_OK;
}

GanStatus stream_seek(DataStream *s, uint64_t position) {
    stop_thread(s);
    for (uint32_t i = 0; i < s->slots; i++)
        s->slot[i].ready = false;
    s->make = s->give = position;
    s->lent = false;
    return GAN_OK;
}

uint64_t stream_count(const DataStream *s) {
    return s->order.n;
}

static Str name_in_pack(const DataStream *s, uint64_t sample, bool files) {
    const Feed *feed = &s->feed[0];
    if (sample >= feed->count)
        return (Str){0};
    const Pack *pack = &feed->pack[find_pack(feed, &sample)];
    return !files || source_words_have_members(pack->source) ? pack_name(pack, sample) : (Str){0};
}

Str stream_name(const DataStream *s, uint64_t sample) {
    return name_in_pack(s, sample, false);
}

Str stream_file(const DataStream *s, uint64_t sample) {
    return name_in_pack(s, sample, true);
}

void stream_content(const DataStream *s, uint32_t field, Text *out) {
    assert(field < s->fields);
    const Feed *f = &s->feed[s->field[field].feed];
    for (uint32_t k = 0; k < f->packs; k++)
        text_fmt(out, "%s%.*s", k ? "+" : "", SARG(f->pack[k].content));
    if (f->at) {
        Arena scratch = s->arena;
        Hash128 order = hash128(f->at, (size_t)f->count * sizeof *f->at);
        text_fmt(out, ", paired by file name in order %.*s", SARG(hash_hex(&scratch, order)));
    }
}

uint32_t stream_rate(const DataStream *s, uint32_t field) {
    assert(field < s->fields);
    return s->field[field].rate;
}

bool stream_range(const DataStream *s, uint32_t field, double *lo, double *hi) {
    assert(field < s->fields);
    *lo = s->field[field].lo;
    *hi = s->field[field].hi;
    return *lo <= *hi;
}

uint32_t stream_classes(const DataStream *s, uint32_t field, const Str **names) {
    assert(field < s->fields);
    *names = s->field[field].classes.name;
    return s->field[field].classes.names;
}

bool stream_label(const DataStream *s, uint64_t sample, uint32_t *out) {
    const Feed *feed = &s->feed[0];
    if (sample >= feed->count)
        return false;
    uint32_t k = find_pack(feed, &sample);
    const PackField *label = pack_label(&feed->pack[k]);
    if (!label)
        return false;
    memcpy(out, pack_record(&feed->pack[k], sample) + label->offset, sizeof *out);
    const uint32_t *of = s->beside.of ? s->beside.of[k] : NULL;
    if (of && *out < label->classes)
        *out = of[*out];
    return true;
}
