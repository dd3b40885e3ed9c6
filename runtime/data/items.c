// items.c - an ordered parallel map over a source's members.
//
// Worker threads process members in any order, and the calling thread passes the results to `done`
// in the order of the source. A ring of slots bounds memory: member k waits until member k - slots
// is done. So what `done` sees, and all it writes, is the same for every number of threads.
#include "sources.h"
#include "process.h"

#include <pthread.h>
#include <string.h>

typedef struct ItemSlot {
    Item item;
    void *result; // owned, result_size bytes
    GanStatus st; // of job->work
    char reason[200];
    bool ready;
} ItemSlot;

typedef struct ItemRing {
    const ItemJob *job;
    pthread_mutex_t feed; // held while the next member is taken; before `lock`
    pthread_mutex_t lock; // guards all below
    pthread_cond_t changed;
    ItemSlot *slot; // [slots]
    uint64_t slots;
    uint64_t taken, handed; // members taken by workers, passed to `done`
    bool ended, stopped;    // the source has no more; the caller stops
    GanStatus st;           // of the source itself
    char reason[200];
} ItemRing;

int data_threads(int asked) {
    return asked > 0 ? asked : cores_usable();
}

static void keep_message(char to[200]) {
    snprintf(to, 200, "%s", gan_error());
}

// Waits for a free slot and takes the next member into it; NULL when there is none.
static ItemSlot *take_item(ItemRing *r) {
    pthread_mutex_lock(&r->lock);
    while (!r->stopped && r->taken - r->handed == r->slots)
        pthread_cond_wait(&r->changed, &r->lock);
    bool over = r->stopped || r->ended;
    ItemSlot *slot = &r->slot[r->taken % r->slots];
    uint64_t at = r->taken;
    pthread_mutex_unlock(&r->lock);
    if (over)
        return NULL;

    bool end = r->job->limit && at == r->job->limit;
    GanStatus st = end ? GAN_OK : source_next(r->job->source, &slot->item, &end);
    pthread_mutex_lock(&r->lock);
    if (st != GAN_OK) {
        r->st = st;
        keep_message(r->reason);
    }
    r->ended = end || st != GAN_OK;
    if (!r->ended)
        r->taken++;
    pthread_cond_broadcast(&r->changed);
    bool mine = !r->ended;
    pthread_mutex_unlock(&r->lock);
    return mine ? slot : NULL;
}

static void *run_worker(void *user) {
    ItemRing *r = user;
    for (;;) {
        pthread_mutex_lock(&r->feed);
        ItemSlot *slot = take_item(r);
        pthread_mutex_unlock(&r->feed);
        if (!slot)
            return NULL;
        memset(slot->result, 0, r->job->result_size);
        slot->st = item_load(&slot->item);
        if (slot->st == GAN_OK)
            slot->st = r->job->work(r->job->user, &slot->item, slot->result);
        if (slot->st != GAN_OK)
            keep_message(slot->reason);
        pthread_mutex_lock(&r->lock);
        slot->ready = true;
        pthread_cond_broadcast(&r->changed);
        pthread_mutex_unlock(&r->lock);
    }
}

static GanStatus hand_on(ItemRing *r) {
    for (;;) {
        pthread_mutex_lock(&r->lock);
        ItemSlot *slot = &r->slot[r->handed % r->slots];
        while (!slot->ready && !(r->ended && r->handed == r->taken))
            pthread_cond_wait(&r->changed, &r->lock);
        bool ready = slot->ready;
        pthread_mutex_unlock(&r->lock);
        if (!ready)
            return r->st == GAN_OK ? GAN_OK : fail(r->st, "%s", r->reason);
        GanStatus st =
            r->job->done(r->job->user, &slot->item, slot->st, slot->reason, slot->result);
        if (st != GAN_OK)
            return st;
        item_release(&slot->item);
        pthread_mutex_lock(&r->lock);
        slot->ready = false;
        r->handed++;
        pthread_cond_broadcast(&r->changed);
        pthread_mutex_unlock(&r->lock);
    }
}

static bool make_slots(ItemRing *r, uint64_t slots) {
    r->slot = mem_alloc(slots * sizeof *r->slot);
    r->slots = r->slot ? slots : 0;
    for (uint64_t i = 0; i < r->slots; i++) {
        r->slot[i].result = mem_alloc(r->job->result_size);
        if (!r->slot[i].result)
            return false;
    }
    return r->slot != NULL;
}

static void free_slots(ItemRing *r) {
    for (uint64_t i = 0; i < r->slots; i++) {
        item_release(&r->slot[i].item);
        mem_free(r->slot[i].result);
    }
    mem_free(r->slot);
}

GanStatus items_run(const ItemJob *job) {
    enum { ThreadsMost = 64, SlotsPerThread = 4 };
    int wanted = data_threads(job->threads), started = 0;
    if (wanted > ThreadsMost)
        wanted = ThreadsMost;
    pthread_t thread[ThreadsMost];
    ItemRing r = {.job = job};
    if (!make_slots(&r, (uint64_t)wanted * SlotsPerThread)) {
        free_slots(&r);
        return fail(GAN_ERR_MEMORY, "no memory for %d threads of work", wanted);
    }
    pthread_mutex_init(&r.feed, NULL);
    pthread_mutex_init(&r.lock, NULL);
    pthread_cond_init(&r.changed, NULL);
    while (started < wanted && pthread_create(&thread[started], NULL, run_worker, &r) == 0)
        started++;
    GanStatus st =
        started ? hand_on(&r) : fail(GAN_ERR_MEMORY, "the system refuses to start a thread");
    pthread_mutex_lock(&r.lock);
    r.stopped = true;
    pthread_cond_broadcast(&r.changed);
    pthread_mutex_unlock(&r.lock);
    for (int i = 0; i < started; i++)
        pthread_join(thread[i], NULL);
    pthread_cond_destroy(&r.changed);
    pthread_mutex_destroy(&r.lock);
    pthread_mutex_destroy(&r.feed);
    free_slots(&r);
    return st;
}
