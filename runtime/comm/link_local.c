// link_local.c - ranks that are threads of one process. The reference for the others: sums are
// always added as CommTree says.
//
// A hub holds what ranks show each other. Every operation is: show my data, meet, combine my slice
// of everyone's, meet. A rank writes only its own slice of the others' data, so no element is
// touched twice between two meetings.
#define _GNU_SOURCE
#include "link.h"

#include <pthread.h>
#include <string.h>
#include <time.h>

struct LocalHub {
    pthread_mutex_t lock;     // guards all below
    pthread_cond_t changed;   // a generation has begun
    int size, here;           // ranks; of them, those that came to the present meeting
    uint64_t generation;      // meetings held
    bool *came;               // [size] to the present meeting
    void **data;              // [size] shown
    uint64_t tags[2], met[2]; // least and greatest: of the present meeting, of the last
    bool broken;              // a rank gave up: the others must not wait for it
    LocalHub *second;         // owned: where second links meet; NULL of that hub itself
};

typedef struct LocalLink {
    Link link;
    LocalHub *hub; // borrowed
    void *room;    // owned: [size] pieces of sum_slice
} LocalLink;

static GanStatus hub_new(int ranks, LocalHub **out) {
    LocalHub *h = mem_alloc(sizeof *h);
    bool *came = mem_alloc((size_t)ranks * sizeof *came);
    void **data = mem_alloc((size_t)ranks * sizeof *data);
    if (!h || !came || !data) {
        mem_free(h);
        mem_free(came);
        mem_free(data);
        return fail(GAN_ERR_MEMORY, "no memory for %d ranks", ranks);
    }
    *h = (LocalHub){.size = ranks, .came = came, .data = data, .tags = {UINT64_MAX, 0}};
    pthread_condattr_t attr;
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_mutex_init(&h->lock, NULL);
    pthread_cond_init(&h->changed, &attr);
    pthread_condattr_destroy(&attr);
    *out = h;
    return GAN_OK;
}

GanStatus local_hub_new(int ranks, LocalHub **out) {
    TRY(hub_new(ranks, out));
    GanStatus st = hub_new(ranks, &(*out)->second);
    if (st != GAN_OK)
        local_hub_free(*out);
    return st;
}

void local_hub_free(LocalHub *h) {
    if (!h)
        return;
    local_hub_free(h->second);
    pthread_cond_destroy(&h->changed);
    pthread_mutex_destroy(&h->lock);
    mem_free(h->came);
    mem_free(h->data);
    mem_free(h);
}

static GanStatus local_open(void *arg, Link **out) {
    const LocalSeat *seat = arg;
    LocalLink *l = mem_alloc(sizeof *l);
    if (!l)
        return fail(GAN_ERR_MEMORY, "no memory for a communicator");
    *l = (LocalLink){.link = {seat->rank, seat->hub->size, 0}, .hub = seat->hub};
    *out = &l->link;
    return GAN_OK;
}

static GanStatus local_second(Link *first, Link **out) {
    LocalSeat seat = {((LocalLink *)first)->hub->second, first->rank};
    return local_open(&seat, out);
}

static void local_close(Link *link, bool orderly) {
    (void)orderly;
    LocalLink *l = (LocalLink *)link;
    if (!l)
        return;
    mem_free(l->room);
    mem_free(l);
}

// --- meeting -------------------------------------------------------------------------------------

static GanStatus absent(LocalHub *h) {
    char who[200] = "";
    size_t n = 0;
    for (int r = 0; r < h->size && n < sizeof who - 16; r++)
        if (!h->came[r])
            n += (size_t)snprintf(who + n, sizeof who - n, "%s%d", n ? ", " : "", r);
    return fail(GAN_ERR_DEVICE, "rank %s did not come", who);
}

// Waits under the lock; false when `until` has passed.
static bool wait_change(LocalHub *h, double until) {
    if (until <= 0)
        return pthread_cond_wait(&h->changed, &h->lock) == 0;
    struct timespec t = {.tv_sec = (time_t)until,
                         .tv_nsec = (long)((until - (double)(time_t)until) * 1e9)};
    return pthread_cond_timedwait(&h->changed, &h->lock, &t) == 0;
}

static void begin_generation(LocalHub *h) {
    h->here = 0;
    h->generation++;
    h->met[0] = h->tags[0];
    h->met[1] = h->tags[1];
    h->tags[0] = UINT64_MAX;
    h->tags[1] = 0;
    memset(h->came, 0, (size_t)h->size * sizeof *h->came);
    pthread_cond_broadcast(&h->changed);
}

static GanStatus come(LocalLink *l, uint64_t tag, double until, uint64_t tags[2]) {
    LocalHub *h = l->hub;
    GanStatus st = GAN_OK;
    pthread_mutex_lock(&h->lock);
    uint64_t now = h->generation;
    h->came[l->link.rank] = true;
    h->tags[0] = tag < h->tags[0] ? tag : h->tags[0];
    h->tags[1] = tag > h->tags[1] ? tag : h->tags[1];
    if (++h->here == h->size)
        begin_generation(h);
    while (st == GAN_OK && h->generation == now) {
        if (h->broken) {
            st = fail(GAN_ERR_DEVICE, "another rank gave up");
        } else if (!wait_change(h, until) && h->generation == now) {
            st = absent(h);
            h->broken = true;
            pthread_cond_broadcast(&h->changed);
        }
    }
    memcpy(tags, h->met, sizeof h->met);
    pthread_mutex_unlock(&h->lock);
    return st;
}

static GanStatus local_meet(Link *link, const Meeting *m, uint64_t tags[2]) {
    return come((LocalLink *)link, m->tag, m->until, tags);
}

static GanStatus come_again(LocalLink *l) {
    uint64_t tags[2];
    return come(l, 0, 0, tags);
}

// Shows `data` to all and meets them; from here on everyone's is in hub->data.
static GanStatus show(LocalLink *l, void *data) {
    pthread_mutex_lock(&l->hub->lock);
    l->hub->data[l->link.rank] = data;
    pthread_mutex_unlock(&l->hub->lock);
    return come_again(l);
}

// --- operations ----------------------------------------------------------------------------------

static GanStatus room_need(LocalLink *l, size_t bytes) {
    void *grown = mem_realloc(l->room, bytes);
    if (!grown)
        return fail(GAN_ERR_MEMORY, "no memory to add %zu bytes", bytes);
    l->room = grown;
    return GAN_OK;
}

// Elements [lo, hi) of everyone's data combined in the fixed tree and given to all. 16-bit numbers
// are widened first and rounded once.
static GanStatus reduce_slice(LocalLink *l, CommKind kind, Dtype dtype, size_t lo, size_t hi,
                              float *lost) {
    size_t n = hi - lo, size = (size_t)l->link.size;
    bool half = dtype == DtBF16;
    Dtype wide = half ? DtF32 : dtype;
    size_t piece = n * dtype_size[wide];
    TRY(room_need(l, piece * size));
    char *room = l->room;
    for (size_t r = 0; r < size; r++) {
        const char *from = (const char *)l->hub->data[r] + lo * dtype_size[dtype];
        if (half)
            floats_widen((const uint16_t *)(const void *)from, (float *)l->room + r * n, n);
        else
            memcpy(room + r * piece, from, piece);
    }
    for (size_t step = 1; step < size; step *= 2)
        for (size_t r = 0; r + step < size; r += 2 * step)
            link_combine(kind, wide, room + r * piece, room + (r + step) * piece, n);
    for (size_t r = 0; r < size; r++) {
        char *to = (char *)l->hub->data[r] + lo * dtype_size[dtype];
        if (half)
            floats_narrow(l->room, (uint16_t *)(void *)to, n, r == 0 && lost ? lost + lo : NULL);
        else
            memcpy(to, room, piece);
    }
    return GAN_OK;
}

static GanStatus local_reduce(Link *link, CommKind kind, Dtype dtype, void *data, size_t n,
                              float *lost) {
    LocalLink *l = (LocalLink *)link;
    TRY(show(l, data));
    size_t rank = (size_t)link->rank, size = (size_t)link->size;
    size_t lo = n * rank / size, hi = n * (rank + 1) / size;
    GanStatus st = hi > lo ? reduce_slice(l, kind, dtype, lo, hi, lost) : GAN_OK;
    GanStatus met = come_again(l);
    return st == GAN_OK ? met : st;
}

static GanStatus local_gather(Link *link, void *data, const size_t *from) {
    LocalLink *l = (LocalLink *)link;
    TRY(show(l, data));
    for (int r = 0; r < link->size; r++)
        if (r != link->rank)
            memcpy((char *)data + from[r], (const char *)l->hub->data[r] + from[r],
                   from[r + 1] - from[r]);
    return come_again(l);
}

static GanStatus local_bcast(Link *link, void *data, size_t bytes, int root) {
    LocalLink *l = (LocalLink *)link;
    TRY(show(l, data));
    if (link->rank != root)
        memcpy(data, l->hub->data[root], bytes);
    return come_again(l);
}

const LinkApi link_local = {.name = "local",
                            .talks = true,
                            .open = local_open,
                            .second = local_second,
                            .close = local_close,
                            .meet = local_meet,
                            .reduce = local_reduce,
                            .gather = local_gather,
                            .bcast = local_bcast};
