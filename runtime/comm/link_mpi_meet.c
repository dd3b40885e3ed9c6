// link_mpi_meet.c - meetings: ranks exchange tags and small data, in messages short enough for
// MPI's eager protocol.
//
// Open MPI makes no progress on its own, but an eager message arrives while its sender computes. A
// waiting rank polls, with sleeps where cores are short, checks the deadline and answers roll
// calls.
#define _GNU_SOURCE
#include "mpi_link.h"

#include <string.h>
#include <time.h>

typedef struct Envelope { // in front of what a rank, or a group of ranks, brings to a meeting
    uint64_t least, most; // tags
    uint64_t bytes;       // that follow
} Envelope;

// Bytes that leave without their receiver whatever the transport (Open MPI's least is 4096 with its
// own head). A message goes in pieces of this size.
enum { EAGER = 4000 };

// Whoever waits, since `began`: looks at once for a while, then sleeps an eighth of what it has
// waited. The communicator's thread has its core from those that compute, unless there is one to
// spare; the caller computes nothing meanwhile, and to be woken takes longer than most of what it
// waits for.
void back_off(const MpiLink *l, uint32_t lane, double began) {
    const double looks[LANES] = {10e-6, 200e-6}, shortest = 10e-6, longest = 250e-6; // seconds
    double waited = l->host->now() - began;
    if (l->link.room == CommSpare || waited < looks[l->link.room == CommCrowded ? 0 : lane])
        return;
    double nap = waited / 8 < shortest ? shortest : waited / 8 < longest ? waited / 8 : longest;
    nanosleep(&(struct timespec){.tv_nsec = (long)(nap * 1e9)}, NULL);
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
static SendBuffer *send_buffer_get(MpiLink *l, MpiLane *d, size_t bytes, int sends) {
    SendBuffer *p = d->buffer;
    for (int done = 0; p; p = p->next)
        if (MPI_Testall(p->n, p->sent, &done, MPI_STATUSES_IGNORE) == MPI_SUCCESS && done)
            break;
    if (!p && (p = l->host->alloc(sizeof *p))) {
        p->next = d->buffer;
        d->buffer = p;
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

static GanStatus send_pieces(MpiLink *l, SendBuffer *p, size_t bytes, int to, int lane) {
    for (size_t at = 0; at < bytes; at += EAGER)
        TRY(MPI(l, MPI_Isend, p->at + at, (int)(bytes - at < EAGER ? bytes - at : EAGER), MPI_BYTE,
                to, lane, l->world, &p->sent[p->n++]));
    return GAN_OK;
}

// Ranks of group g; the last may be smaller.
static int group_size(const MpiLink *l, int g) {
    int first = g * l->group;
    return l->link.size - first < l->group ? l->link.size - first : l->group;
}

static int groups(const MpiLink *l) {
    return (l->link.size + l->group - 1) / l->group;
}

// What this rank, or in the second round its group, brings: to all others of its group, or to the
// ranks of others that take it from here.
static GanStatus tell(MpiLink *l, const Meeting *m, const Envelope *e, const void *data,
                      int round) {
    MpiLane *d = &l->lane[m->lane];
    int rank = l->link.rank, mine = rank / l->group, place = rank % l->group;
    size_t bytes = sizeof *e + e->bytes;
    int pieces = (int)((bytes + EAGER - 1) / EAGER);
    SendBuffer *p = send_buffer_get(l, d, bytes, pieces * l->link.size);
    if (!p)
        return l->host->fail(GAN_ERR_MEMORY, "no memory to tell the others");
    memcpy(p->at, e, sizeof *e);
    if (e->bytes)
        memcpy(p->at + sizeof *e, data, e->bytes);
    for (int r = 0; r < l->link.size; r++) {
        bool same = r / l->group == mine;
        if (round == 0 ? same && r != rank : !same && r % l->group % group_size(l, mine) == place)
            TRY(send_pieces(l, p, bytes, r, (int)m->lane));
    }
    return GAN_OK;
}

GanStatus meet_post(Link *link, const Meeting *what) {
    MpiLink *l = (MpiLink *)link;
    Meeting told = what->lane ? *what : near_tell(l, what), *m = &told;
    atomic_store(&l->lane[m->lane].step, m->step);
    atomic_store(&l->lane[m->lane].turn, m->turn);
    Envelope e = {m->tag, m->tag, m->n * size_of(m->dtype)};
    return tell(l, m, &e, m->data, 0);
}

typedef struct Patience { // of one meeting
    double began, answer; // when it asks the others where they are
    unsigned looks;
    bool asked, *waited;
} Patience;

// Behind a look that found nothing: until the next. Past the deadline it says who is missing.
static GanStatus wait_more(MpiLink *l, const Meeting *m, Patience *p) {
    *p->waited = true;
    if (!p->looks)
        p->began = l->host->now();
    if (p->looks++ % 64 == 0) {
        roll_listen(l);
        double now = m->until > 0 ? l->host->now() : -1;
        if (now > m->until)
            return roll_absent(l, m);
        if (!p->asked && now > p->answer) {
            p->asked = true;
            roll_call(l);
        }
    }
    back_off(l, m->lane, p->began);
    return GAN_OK;
}

// A message of rank `from`, into a place of `room` bytes. A longer one, of a rank that is about to
// do something else, leaves its end nowhere.
static GanStatus take(MpiLink *l, const Meeting *m, int from, char *to, size_t room, Patience *p) {
    Envelope e = {0};
    for (size_t at = 0; at < sizeof e + e.bytes; at += EAGER) {
        char nowhere[EAGER];
        int found = 0, n = 0;
        MPI_Message message;
        MPI_Status st;
        for (;;) {
            TRY(MPI(l, MPI_Improbe, from, (int)m->lane, l->world, &found, &message, &st));
            if (found)
                break;
            TRY(wait_more(l, m, p));
        }
        MPI_Get_count(&st, MPI_BYTE, &n);
        char *in = at + (size_t)n <= room ? to + at : nowhere;
        TRY(MPI(l, MPI_Mrecv, in, n, MPI_BYTE, &message, MPI_STATUS_IGNORE));
        if (at == 0)
            memcpy(&e, in, sizeof e);
        if (at == 0 && in == nowhere)
            memcpy(to, &e, sizeof e);
    }
    return GAN_OK;
}

// Of `count` messages into the first: the tags, and where all are about to do the same the numbers.
static void fold(const MpiLink *l, const Meeting *m, char *in, size_t stride, int count) {
    Envelope all, e;
    memcpy(&all, in, sizeof all);
    for (int i = 1; i < count; i++) {
        memcpy(&e, in + (size_t)i * stride, sizeof e);
        all.least = e.least < all.least ? e.least : all.least;
        all.most = e.most > all.most ? e.most : all.most;
    }
    all.bytes = m->n * size_of(m->dtype);
    memcpy(in, &all, sizeof all);
    if (all.least == all.most && all.bytes)
        l->host->tree(m->kind, m->dtype, in + sizeof all, stride, (size_t)count, m->n);
}

// In two rounds. First each tells all of its group, a power of two of ranks; then the groups' sums
// are told between groups, each rank's to those of its place, so that everyone sends two times the
// root of R messages and all add in CommTree's order. Up to four ranks are one group: then the
// first round, which is under way since the post, is all.
GanStatus meet_all(Link *link, const Meeting *what, uint64_t tags[2], bool *waited) {
    MpiLink *l = (MpiLink *)link;
    Meeting told = what->lane ? *what : near_tell(l, what), *m = &told;
    MpiLane *d = &l->lane[m->lane];
    int rank = link->rank, mine = rank / l->group, place = rank % l->group,
        most = l->group > groups(l) ? l->group : groups(l);
    Envelope e = {m->tag, m->tag, m->n * size_of(m->dtype)};
    size_t stride = (sizeof e + e.bytes + 7) / 8 * 8;
    double left = m->until - l->host->now();
    Patience p = {.answer = m->until - (left / 4 < 1 ? left / 4 : 1), .waited = waited};
    char *in = grown(l->host, &d->in, &d->in_n, (size_t)most * stride);
    if (!in)
        return l->host->fail(GAN_ERR_MEMORY, "no memory to add %zu bytes", (size_t)most * stride);
    memcpy(in + (size_t)place * stride, &e, sizeof e);
    if (e.bytes)
        memcpy(in + (size_t)place * stride + sizeof e, m->data, e.bytes);
    for (int i = 0; i < group_size(l, mine); i++)
        if (i != place)
            TRY(take(l, m, mine * l->group + i, in + (size_t)i * stride, stride, &p));
    fold(l, m, in, stride, group_size(l, mine));
    if (groups(l) > 1) {
        memcpy(&e, in, sizeof e);
        TRY(tell(l, m, &e, in + sizeof e, 1));
        if (mine)
            memcpy(in + (size_t)mine * stride, in, stride);
        for (int g = 0; g < groups(l); g++)
            if (g != mine)
                TRY(take(l, m, g * l->group + place % group_size(l, g), in + (size_t)g * stride,
                         stride, &p));
        fold(l, m, in, stride, groups(l));
    }
    memcpy(&e, in, sizeof e);
    tags[0] = e.least;
    tags[1] = e.most;
    if (e.least == e.most && e.bytes)
        memcpy(m->data, in + sizeof e, e.bytes);
    return GAN_OK;
}
