// link_mpi_handshake.c - handshakes: ranks exchange fingerprints and small data, in messages short
// enough for MPI's eager protocol.
//
// Open MPI makes no progress on its own, but an eager message arrives while its sender computes. A
// waiting rank polls, with sleeps where cores are short, checks the deadline and answers liveness
// requests.
#define _GNU_SOURCE
#include "link_mpi_internal.h"

#include <string.h>
#include <time.h>

typedef struct Envelope { // in front of the data of a rank, or of a subset of ranks
    uint64_t least, most; // fingerprints
    uint64_t bytes;       // that follow
} Envelope;

// Bytes that leave without their receiver whatever the transport (Open MPI's least is 4096 with its
// own head). A message goes in pieces of this size.
enum { EAGER = 4000 };

// Looks at once for a while, then sleeps: until a message comes where its sender can wake this
// thread, else an eighth of what it has waited. The communicator's thread has its core from those
// that compute, unless there is one to spare or its caller waits for it; a caller that waits
// computes nothing meanwhile, and to be woken takes longer than most of what it waits for.
static void back_off(MpiLink *l, uint32_t queue, const Wait *w) {
    enum { Brief = 10, Nap = 250, Long = 1000 }; // us
    bool idle = l->link.cores != CoresOversubscribed && (queue || atomic_load(&l->link.awaited));
    double waited = (l->host->now() - w->began) * 1e6, nap = waited / 8;
    if (l->link.cores == CoresSpare || waited < (idle ? 200 : Brief))
        return;
    if (l->shared) {
        shared_sleep(l, queue, w->sent, Long * 1e-6);
        return;
    }
    nap = nap < Brief ? Brief : nap < Nap ? nap : Nap;
    nanosleep(&(struct timespec){.tv_nsec = (long)(nap * 1e3)}, NULL);
}

// The last second before the deadline, or quarter of the time to it, is for liveness answers. A
// part of a transfer that begins past the deadline has them until a second after it.
static void wait_begin(const MpiLink *l, const Handshake *hs, Wait *w) {
    w->began = l->host->now();
    double left = hs->until - w->began;
    w->ask = left > 0 ? hs->until - (left / 4 < 1 ? left / 4 : 1) : w->began;
    w->fail = left > 0 ? hs->until : hs->until + 1;
}

GanStatus wait_more(MpiLink *l, const Handshake *hs, Wait *w) {
    unsigned sent = shared_sent(l, hs->queue);
    if (!w->looks)
        wait_begin(l, hs, w);
    if (w->looks++ % 64 == 0) {
        liveness_serve(l);
        double now = l->host->now();
        if (hs->until > 0 && now > w->fail && w->asked)
            return liveness_fail(l, hs);
        if (hs->until > 0 && now > w->ask && !w->asked) {
            w->asked = true;
            liveness_request(l);
        }
    }
    if (sent == w->sent)
        back_off(l, hs->queue, w);
    w->sent = sent; // of before the next look
    return GAN_OK;
}

static char *grown(const LinkHost *host, char **at, size_t *n, size_t need) {
    if (*n < need) {
        host->free(*at);
        *at = host->alloc(need);
        *n = *at ? need : 0;
    }
    return *at;
}

// One that MPI is done with.
static SendBuffer *send_buffer_get(MpiLink *l, MpiQueue *q, size_t bytes, int sends) {
    SendBuffer *p = q->buffer;
    for (int done = 0; p; p = p->next)
        if (MPI_Testall(p->n, p->sent, &done, MPI_STATUSES_IGNORE) == MPI_SUCCESS && done)
            break;
    if (!p && (p = l->host->alloc(sizeof *p))) {
        p->next = q->buffer;
        q->buffer = p;
    }
    if (!p || !grown(l->host, &p->at, &p->bytes, bytes))
        return NULL;
    p->n = 0;
    if (p->room < sends) {
        l->host->free(p->sent);
        p->sent = l->host->alloc((size_t)sends * sizeof *p->sent);
        p->room = p->sent ? sends : 0;
    }
    return p->sent ? p : NULL;
}

static GanStatus send_pieces(MpiLink *l, SendBuffer *p, size_t bytes, int to, int queue) {
    for (size_t at = 0; at < bytes; at += EAGER)
        TRY(MPI(l, MPI_Isend, p->at + at, (int)(bytes - at < EAGER ? bytes - at : EAGER), MPI_BYTE,
                to, queue, l->world.comm, &p->sent[p->n++]));
    shared_notify(l, to, (uint32_t)queue);
    return GAN_OK;
}

// Ranks of subset i; the last may be smaller.
static int subset_size(const MpiLink *l, int i) {
    int first = i * l->subset;
    return l->link.size - first < l->subset ? l->link.size - first : l->subset;
}

static int subsets(const MpiLink *l) {
    return (l->link.size + l->subset - 1) / l->subset;
}

// The message of this rank, or in the second round of its subset: to all others of its subset, or
// to the ranks of others that take it from here.
static GanStatus send_round(MpiLink *l, const Handshake *hs, const Envelope *e, const void *data,
                            int round) {
    MpiQueue *q = &l->queue[hs->queue];
    int rank = l->link.rank, mine = rank / l->subset, place = rank % l->subset;
    size_t bytes = sizeof *e + e->bytes;
    int pieces = (int)((bytes + EAGER - 1) / EAGER);
    SendBuffer *p = send_buffer_get(l, q, bytes, pieces * l->link.size);
    if (!p)
        return l->host->fail(GAN_ERR_MEMORY, "no memory to tell the others");
    memcpy(p->at, e, sizeof *e);
    if (e->bytes)
        memcpy(p->at + sizeof *e, data, e->bytes);
    for (int r = 0; r < l->link.size; r++) {
        bool same = r / l->subset == mine;
        if (round == 0 ? same && r != rank : !same && r % l->subset % subset_size(l, mine) == place)
            TRY(send_pieces(l, p, bytes, r, (int)hs->queue));
    }
    return GAN_OK;
}

GanStatus handshake_post(Link *link, const Handshake *given) {
    MpiLink *l = (MpiLink *)link;
    Handshake sent = given->queue ? *given : cma_exchange(l, given), *hs = &sent;
    atomic_store(&l->queue[hs->queue].step, hs->step);
    atomic_store(&l->queue[hs->queue].sequence, hs->sequence);
    Envelope e = {hs->fingerprint, hs->fingerprint, hs->n * size_of(hs->dtype)};
    return send_round(l, hs, &e, hs->data, 0);
}

// A message of rank `from`, into `room` bytes at `to`. The end of a longer one, of a rank that is
// about to do something else, is dropped.
static GanStatus receive(MpiLink *l, const Handshake *hs, int from, char *to, size_t room,
                         Wait *w) {
    Envelope e = {0};
    for (size_t at = 0; at < sizeof e + e.bytes; at += EAGER) {
        char dropped[EAGER];
        int found = 0, n = 0;
        MPI_Message message;
        MPI_Status st;
        for (;;) {
            TRY(MPI(l, MPI_Improbe, from, (int)hs->queue, l->world.comm, &found, &message, &st));
            if (found)
                break;
            TRY(wait_more(l, hs, w));
        }
        MPI_Get_count(&st, MPI_BYTE, &n);
        char *in = at + (size_t)n <= room ? to + at : dropped;
        TRY(MPI(l, MPI_Mrecv, in, n, MPI_BYTE, &message, MPI_STATUS_IGNORE));
        if (at == 0)
            memcpy(&e, in, sizeof e);
        if (at == 0 && in == dropped)
            memcpy(to, &e, sizeof e);
    }
    return GAN_OK;
}

// Of `count` messages into the first: the fingerprints, and where all are about to do the same the
// numbers.
static void fold(const MpiLink *l, const Handshake *hs, char *in, size_t stride, int count) {
    Envelope all, e;
    void **part = l->queue[hs->queue].part;
    memcpy(&all, in, sizeof all);
    part[0] = in + sizeof all;
    for (int i = 1; i < count; i++) {
        part[i] = in + (size_t)i * stride + sizeof e;
        memcpy(&e, in + (size_t)i * stride, sizeof e);
        all.least = e.least < all.least ? e.least : all.least;
        all.most = e.most > all.most ? e.most : all.most;
    }
    all.bytes = hs->n * size_of(hs->dtype);
    memcpy(in, &all, sizeof all);
    if (all.least == all.most && all.bytes)
        l->host->tree(hs->kind, hs->dtype, part, (size_t)count, hs->n, 0);
}

// The second round: this subset's sum, first of `in`, becomes that of all.
static GanStatus wait_for_subsets(MpiLink *l, const Handshake *hs, char *in, size_t stride,
                                  Wait *w) {
    Envelope e;
    int mine = l->link.rank / l->subset, place = l->link.rank % l->subset;
    memcpy(&e, in, sizeof e);
    TRY(send_round(l, hs, &e, in + sizeof e, 1));
    if (mine)
        memcpy(in + (size_t)mine * stride, in, stride);
    for (int i = 0; i < subsets(l); i++)
        if (i != mine)
            TRY(receive(l, hs, i * l->subset + place % subset_size(l, i), in + (size_t)i * stride,
                        stride, w));
    fold(l, hs, in, stride, subsets(l));
    return GAN_OK;
}

// In two rounds. First each tells all of its subset, a power of two of ranks; then the subsets'
// sums are told between subsets, each rank's to those of its place, so that everyone sends two
// times the root of R messages and all add in CommTree's order. Up to four ranks are one subset:
// then the first round, which is under way since the post, is all.
GanStatus handshake_wait(Link *link, const Handshake *given, uint64_t least_most[2], bool *waited) {
    MpiLink *l = (MpiLink *)link;
    Handshake sent = given->queue ? *given : cma_exchange(l, given), *hs = &sent;
    MpiQueue *q = &l->queue[hs->queue];
    int mine = link->rank / l->subset, place = link->rank % l->subset,
        most = l->subset > subsets(l) ? l->subset : subsets(l);
    Envelope e = {hs->fingerprint, hs->fingerprint, hs->n * size_of(hs->dtype)};
    size_t stride = (sizeof e + e.bytes + 7) / 8 * 8;
    Wait w = {0};
    char *in = grown(l->host, &q->in, &q->in_n, (size_t)most * stride);
    if (!in)
        return l->host->fail(GAN_ERR_MEMORY, "no memory to add %zu bytes", (size_t)most * stride);
    memcpy(in + (size_t)place * stride, &e, sizeof e);
    if (e.bytes)
        memcpy(in + (size_t)place * stride + sizeof e, hs->data, e.bytes);
    for (int i = 0; i < subset_size(l, mine); i++)
        if (i != place)
            TRY(receive(l, hs, mine * l->subset + i, in + (size_t)i * stride, stride, &w));
    fold(l, hs, in, stride, subset_size(l, mine));
    if (subsets(l) > 1)
        TRY(wait_for_subsets(l, hs, in, stride, &w));
    memcpy(&e, in, sizeof e);
    least_most[0] = e.least;
    least_most[1] = e.most;
    if (e.least == e.most && e.bytes)
        memcpy(hs->data, in + sizeof e, e.bytes);
    if (hs->queue == 0)
        l->last = *hs;
    *waited = w.looks > 0;
    return GAN_OK;
}
