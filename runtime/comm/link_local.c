// link_local.c - ranks that are threads of one process. The reference for the other links: sums are
// always added in CommTree's order.
//
// The hub is shared memory. In a handshake each rank posts a message, and copies the others'. A
// transfer is: publish my data's address, barrier, combine my slice of all ranks' data, barrier. A
// rank writes only its own slice of the others' data, so no element has two writers between two
// barriers.
#define _GNU_SOURCE
#include "comm_link.h"

#include <pthread.h>
#include <string.h>
#include <time.h>

typedef struct Message Message;
struct Message { // what a rank posts to a handshake
    Message *next;
    uint64_t sequence, fingerprint;
    size_t bytes;
    int unread;  // by so many ranks; the last of them frees it
    double at[]; // the bytes
};

struct LocalHub {
    pthread_mutex_t lock;      // guards all below
    pthread_cond_t changed;    // a message was posted, or all have come
    int size, here;            // ranks; of them, those that have entered the barrier
    uint64_t generation;       // barriers completed
    void **data;               // [size] published addresses
    Message **message[QUEUES]; // [size] of each rank, the oldest first; owned
    bool broken;               // a rank gave up: the others must not wait for it
};

typedef struct LocalLink {
    Link link;
    LocalHub *hub; // borrowed
    double until;  // deadline of the transfer that follows a handshake; 0: none
    void *scratch; // owned; grows
} LocalLink;

GanStatus local_hub_new(int ranks, LocalHub **out) {
    LocalHub *h = mem_alloc(sizeof *h);
    if (!h)
        return fail(GAN_ERR_MEMORY, "no memory for %d ranks", ranks);
    *h = (LocalHub){.size = ranks};
    pthread_condattr_t attr;
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_mutex_init(&h->lock, NULL);
    pthread_cond_init(&h->changed, &attr);
    pthread_condattr_destroy(&attr);
    bool all = (h->data = mem_alloc((size_t)ranks * sizeof *h->data)) != NULL;
    for (int i = 0; i < QUEUES; i++)
        all &= (h->message[i] = mem_alloc((size_t)ranks * sizeof *h->message[i])) != NULL;
    if (!all) {
        local_hub_free(h);
        return fail(GAN_ERR_MEMORY, "no memory for %d ranks", ranks);
    }
    *out = h;
    return GAN_OK;
}

void local_hub_free(LocalHub *h) {
    if (!h)
        return;
    for (int i = 0; i < QUEUES; i++) {
        for (int r = 0; h->message[i] && r < h->size; r++) // of handshakes that did not take place
            for (Message *x = h->message[i][r], *next; x; x = next) {
                next = x->next;
                mem_free(x);
            }
        mem_free(h->message[i]);
    }
    pthread_cond_destroy(&h->changed);
    pthread_mutex_destroy(&h->lock);
    mem_free(h->data);
    mem_free(h);
}

static GanStatus local_open(void *arg, Link **out) {
    const LocalRank *place = arg;
    LocalLink *l = mem_alloc(sizeof *l);
    if (!l)
        return fail(GAN_ERR_MEMORY, "no memory for a communicator");
    *l = (LocalLink){.link = {.rank = place->rank, .size = place->hub->size}, .hub = place->hub};
    *out = &l->link;
    return GAN_OK;
}

static void local_close(Link *link, bool orderly) {
    (void)orderly;
    LocalLink *l = (LocalLink *)link;
    if (!l)
        return;
    mem_free(l->scratch);
    mem_free(l);
}

// --- handshakes ----------------------------------------------------------------------------------

static size_t bytes_of(const Handshake *hs) {
    return hs->n * dtype_size[hs->dtype];
}

static GanStatus local_post(Link *link, const Handshake *hs) {
    LocalHub *h = ((LocalLink *)link)->hub;
    Message *x = mem_alloc(sizeof *x + bytes_of(hs));
    if (!x)
        return fail(GAN_ERR_MEMORY, "no memory to tell the others");
    *x = (Message){.sequence = hs->sequence,
                   .fingerprint = hs->fingerprint,
                   .bytes = bytes_of(hs),
                   .unread = link->size};
    if (x->bytes)
        memcpy(x->at, hs->data, x->bytes);
    pthread_mutex_lock(&h->lock);
    Message **last = &h->message[hs->queue][link->rank];
    while (*last)
        last = &(*last)->next;
    *last = x;
    pthread_cond_broadcast(&h->changed);
    pthread_mutex_unlock(&h->lock);
    return GAN_OK;
}

// Under the lock, as the next three.
static Message *message_of(const LocalHub *h, const Handshake *hs, int rank) {
    Message *x = h->message[hs->queue][rank];
    while (x && x->sequence != hs->sequence)
        x = x->next;
    return x;
}

static bool all_there(const LocalHub *h, const Handshake *hs) {
    bool all = true;
    for (int r = 0; all && r < h->size; r++)
        all = message_of(h, hs, r) != NULL;
    return all;
}

static GanStatus absent(const LocalHub *h, const Handshake *hs) {
    char who[200] = "";
    size_t n = 0;
    for (int r = 0; r < h->size && n < sizeof who - 16; r++)
        if (!message_of(h, hs, r))
            n += (size_t)snprintf(who + n, sizeof who - n, "%s%d", n ? ", " : "", r);
    return fail(GAN_ERR_DEVICE, "rank %s did not come", who);
}

// A message that all have read is gone: older ones went before.
static void message_read(LocalHub *h, uint32_t queue, int rank, Message *x) {
    if (--x->unread)
        return;
    h->message[queue][rank] = x->next;
    mem_free(x);
}

// Waits under the lock; false when `until` has passed.
static bool wait_change(LocalHub *h, double until) {
    if (until <= 0)
        return pthread_cond_wait(&h->changed, &h->lock) == 0;
    struct timespec t = {.tv_sec = (time_t)until,
                         .tv_nsec = (long)((until - (double)(time_t)until) * 1e9)};
    return pthread_cond_timedwait(&h->changed, &h->lock, &t) == 0;
}

// Under the lock: everyone's message; their numbers, where they bring as many, to part [size].
static void read_all(LocalHub *h, const Handshake *hs, void **part, uint64_t least_most[2]) {
    size_t bytes = bytes_of(hs);
    least_most[0] = UINT64_MAX;
    least_most[1] = 0;
    for (int r = 0; r < h->size; r++) {
        Message *x = message_of(h, hs, r);
        least_most[0] = x->fingerprint < least_most[0] ? x->fingerprint : least_most[0];
        least_most[1] = x->fingerprint > least_most[1] ? x->fingerprint : least_most[1];
        if (bytes && x->bytes == bytes)
            memcpy(part[r], x->at, bytes);
        message_read(h, hs->queue, r, x);
    }
}

static GanStatus local_wait(Link *link, const Handshake *hs, uint64_t least_most[2], bool *waited) {
    LocalHub *h = ((LocalLink *)link)->hub;
    GanStatus st = GAN_OK;
    size_t bytes = bytes_of(hs), size = (size_t)h->size;
    void **part = mem_alloc(size * (sizeof *part + bytes));
    if (!part)
        return fail(GAN_ERR_MEMORY, "no memory to add %zu bytes", bytes);
    for (size_t r = 0; r < size; r++)
        part[r] = (char *)(part + size) + r * bytes;
    pthread_mutex_lock(&h->lock);
    while (st == GAN_OK && !all_there(h, hs)) {
        *waited = true;
        if (h->broken) {
            st = fail(GAN_ERR_DEVICE, "another rank gave up");
        } else if (!wait_change(h, hs->until) && !all_there(h, hs)) {
            st = absent(h, hs);
            h->broken = true;
            pthread_cond_broadcast(&h->changed);
        }
    }
    if (st == GAN_OK)
        read_all(h, hs, part, least_most);
    if (hs->queue == 0)
        ((LocalLink *)link)->until = hs->until;
    pthread_mutex_unlock(&h->lock);
    if (st == GAN_OK && least_most[0] == least_most[1] && bytes) {
        link_tree(hs->kind, hs->dtype, part, size, hs->n, 0);
        memcpy(hs->data, part[0], bytes);
    }
    mem_free(part);
    return st;
}

// A barrier of all ranks.
static GanStatus wait_for_all(LocalLink *l) {
    LocalHub *h = l->hub;
    GanStatus st = GAN_OK;
    pthread_mutex_lock(&h->lock);
    uint64_t now = h->generation;
    if (++h->here == h->size) {
        h->here = 0;
        h->generation++;
        pthread_cond_broadcast(&h->changed);
    }
    while (st == GAN_OK && h->generation == now) {
        if (h->broken) {
            st = fail(GAN_ERR_DEVICE, "another rank gave up");
        } else if (!wait_change(h, l->until) && h->generation == now) {
            st = fail(GAN_ERR_DEVICE, "a rank stopped in a transfer");
            h->broken = true;
            pthread_cond_broadcast(&h->changed);
        }
    }
    pthread_mutex_unlock(&h->lock);
    return st;
}

// Publishes `data` and waits for all; from here on everyone's is in hub->data.
static GanStatus publish(LocalLink *l, void *data) {
    pthread_mutex_lock(&l->hub->lock);
    l->hub->data[l->link.rank] = data;
    pthread_mutex_unlock(&l->hub->lock);
    return wait_for_all(l);
}

// --- operations ----------------------------------------------------------------------------------

static GanStatus scratch_need(LocalLink *l, size_t bytes) {
    void *grown = mem_realloc(l->scratch, bytes);
    if (!grown)
        return fail(GAN_ERR_MEMORY, "no memory to add %zu bytes", bytes);
    l->scratch = grown;
    return GAN_OK;
}

// Elements [lo, hi) of everyone's data combined in the fixed tree and given to all. 16-bit numbers
// are widened first and rounded once.
static GanStatus reduce_slice(LocalLink *l, CommKind kind, Dtype dtype, size_t lo, size_t hi,
                              float *lost) {
    size_t n = hi - lo, size = (size_t)l->link.size;
    bool half = dtype == DtBF16;
    TRY(scratch_need(l, size * (sizeof(void *) + (half ? n * sizeof(float) : 0))));
    void **part = l->scratch;
    float *wide = (float *)(void *)(part + size);
    for (size_t r = 0; r < size; r++) {
        char *at = (char *)l->hub->data[r] + lo * dtype_size[dtype];
        part[r] = half ? (void *)(wide + r * n) : at;
        if (half)
            floats_widen((const uint16_t *)(const void *)at, part[r], n);
    }
    void *sum = part[0];
    link_tree(kind, half ? DtF32 : dtype, part, size, n, 0);
    for (size_t r = 0; r < size; r++) {
        char *to = (char *)l->hub->data[r] + lo * dtype_size[dtype];
        if (half)
            floats_narrow(sum, (uint16_t *)(void *)to, n, r == 0 && lost ? lost + lo : NULL);
        else if (to != sum)
            memcpy(to, sum, n * dtype_size[dtype]);
    }
    return GAN_OK;
}

static GanStatus local_reduce(Link *link, CommKind kind, Dtype dtype, void *data, size_t n,
                              float *lost) {
    LocalLink *l = (LocalLink *)link;
    TRY(publish(l, data));
    size_t rank = (size_t)link->rank, size = (size_t)link->size;
    size_t lo = n * rank / size, hi = n * (rank + 1) / size;
    GanStatus st = hi > lo ? reduce_slice(l, kind, dtype, lo, hi, lost) : GAN_OK;
    GanStatus met = wait_for_all(l);
    return st == GAN_OK ? met : st;
}

static GanStatus local_gather(Link *link, void *data, const size_t *from) {
    LocalLink *l = (LocalLink *)link;
    TRY(publish(l, data));
    for (int r = 0; r < link->size; r++)
        if (r != link->rank)
            memcpy((char *)data + from[r], (const char *)l->hub->data[r] + from[r],
                   from[r + 1] - from[r]);
    return wait_for_all(l);
}

static GanStatus local_bcast(Link *link, void *data, size_t bytes, int root) {
    LocalLink *l = (LocalLink *)link;
    TRY(publish(l, data));
    if (link->rank != root)
        memcpy(data, l->hub->data[root], bytes);
    return wait_for_all(l);
}

const LinkApi link_local = {.name = "local",
                            .talks = true,
                            .open = local_open,
                            .close = local_close,
                            .post = local_post,
                            .wait = local_wait,
                            .reduce = local_reduce,
                            .gather = local_gather,
                            .bcast = local_bcast};
