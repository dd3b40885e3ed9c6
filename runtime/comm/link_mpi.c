// link_mpi.c - ranks that are processes, through MPI: a plugin, so that one rank alone needs none.
//
// The communicator's thread starts and ends MPI (so it is MPI's "main thread"); the caller's uses
// it for what is small and for roll calls. To meet, ranks send each other what they bring, in
// messages short enough to leave without their receiver: what was sent while its sender computes is
// there when somebody looks, for Open MPI makes no progress on its own. Whoever waits polls, with
// sleeps where cores are short, keeps the deadline and answers roll calls. Of the transfers behind
// meetings the large sums wait as politely; the others are blocking calls, because everyone is
// there.
//
// A roll call: a rank whose deadline comes near asks all others where they are, over a communicator
// of its own. Those that wait or idle answer with their turns; those that do not are named. Where
// the communicator's thread is caught in a transfer, the caller's does that (MPI_THREAD_MULTIPLE).
#define _GNU_SOURCE
#include "link_mpi.h"

#include <limits.h>
#include <mpi.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { HOST_NAME = 64, ASK = 1, ANSWER = 2, NAMED = 4 };
enum { TRANSFER = LANES }; // MPI's tag; that of a meeting is its lane

typedef struct Whereabouts {
    uint64_t turn[LANES]; // tasks it has come to
    uint32_t step[LANES];
    uint32_t heard; // it has answered
} Whereabouts;

typedef struct Envelope { // in front of what a rank, or a group of ranks, brings to a meeting
    uint64_t least, most; // tags
    uint64_t bytes;       // that follow
} Envelope;

// Bytes that leave without their receiver whatever the transport (Open MPI's least is 4096 with its
// own head). A message goes in pieces of this size.
enum { EAGER = 4000 };

typedef struct Parcel { // one message to several ranks, MPI's until `sent` is
    struct Parcel *next;
    char *at; // owned, as all here
    size_t bytes;
    MPI_Request *sent; // [n]
    int n, room;
} Parcel;

typedef struct Desk { // of a lane
    Parcel *parcel;
    char *in; // everyone's messages of a round; owned, grows
    size_t in_n;
    atomic_ullong turn; // as last posted
    atomic_uint step;
} Desk;

typedef struct MpiLink {
    Link link;
    const LinkHost *host; // borrowed
    bool polite, crowded;
    NodeSums asked;
    int group;               // ranks of one; see mpi_meet
    MPI_Comm world, aside;   // tasks; roll calls
    MPI_Comm node, across;   // where Link.nodes: this rank's node; the first ranks of all nodes, on
                             // others null
    char (*name)[HOST_NAME]; // [size] hosts; owned, as all below
    int *count, *first;      // [size] of a gather
    void *room;              // grows
    size_t room_n;
    Desk desk[LANES];
    pthread_mutex_t lock; // guards `where`
    Whereabouts *where;   // [size] as last answered
} MpiLink;

#define FAIL(l, ...) ((l)->host->fail(GAN_ERR_DEVICE, __VA_ARGS__))

// `code` of an MPI call as a status.
static GanStatus checked(const MpiLink *l, const char *call, int code) {
    if (code == MPI_SUCCESS)
        return GAN_OK;
    char text[MPI_MAX_ERROR_STRING];
    int n = 0;
    MPI_Error_string(code, text, &n);
    return FAIL(l, "%s: %.*s", call, n, text);
}
#define MPI(l, call, ...) checked(l, #call, call(__VA_ARGS__))

static MPI_Datatype type_of(Dtype dtype) {
    return dtype == DtF64 ? MPI_DOUBLE : MPI_FLOAT;
}

static size_t size_of(Dtype dtype) {
    return dtype == DtF64 ? sizeof(double) : sizeof(float);
}

static GanStatus room_need(MpiLink *l, size_t bytes) {
    if (bytes <= l->room_n)
        return GAN_OK;
    l->host->free(l->room);
    l->room = l->host->alloc(bytes);
    l->room_n = l->room ? bytes : 0;
    return l->room ? GAN_OK : l->host->fail(GAN_ERR_MEMORY, "no memory to add %zu bytes", bytes);
}

// --- opening and closing -------------------------------------------------------------------------

// False where MPI still has some of it.
static bool desk_free(const LinkHost *host, Desk *d) {
    for (Parcel *p = d->parcel, *next; p; p = next) {
        int all = 0;
        if (MPI_Testall(p->n, p->sent, &all, MPI_STATUSES_IGNORE) != MPI_SUCCESS || !all)
            return false;
        next = d->parcel = p->next;
        host->free(p->at);
        host->free(p->sent);
        host->free(p);
    }
    host->free(d->in);
    return true;
}

static void link_free(MpiLink *l) {
    const LinkHost *host = l->host;
    pthread_mutex_destroy(&l->lock);
    host->free(l->name);
    host->free(l->where);
    host->free(l->count);
    host->free(l->first);
    host->free(l->room);
    host->free(l);
}

static void mpi_close(Link *link, bool orderly) {
    MpiLink *l = (MpiLink *)link;
    if (!l)
        return;
    bool whole = true;
    for (int i = 0; i < LANES; i++)
        whole &= desk_free(l->host, &l->desk[i]);
    if (orderly) {
        if (l->node != MPI_COMM_NULL)
            MPI_Comm_free(&l->node);
        if (l->across != MPI_COMM_NULL)
            MPI_Comm_free(&l->across);
        MPI_Comm_free(&l->world);
        MPI_Comm_free(&l->aside);
        MPI_Finalize();
    }
    if (whole) // else the process is about to end
        link_free(l);
}

// Communicators for sums within nodes, then across; none where that would be one of the two alone.
static GanStatus open_nodes(MpiLink *l) {
    int in_node = 0, most = 0, place = 0, first = 0, nodes = 0;
    TRY(MPI(l, MPI_Comm_split_type, l->world, MPI_COMM_TYPE_SHARED, l->link.rank, MPI_INFO_NULL,
            &l->node));
    MPI_Comm_size(l->node, &in_node);
    MPI_Comm_rank(l->node, &place);
    first = place == 0;
    TRY(MPI(l, MPI_Allreduce, &in_node, &most, 1, MPI_INT, MPI_MAX, l->world));
    TRY(MPI(l, MPI_Allreduce, &first, &nodes, 1, MPI_INT, MPI_SUM, l->world));
    if (l->asked == NodesAuto && (nodes == 1 || most == 1))
        return MPI(l, MPI_Comm_free, &l->node);
    l->link.nodes = nodes;
    TRY(MPI(l, MPI_Comm_split, l->world, first ? 0 : MPI_UNDEFINED, l->link.rank, &l->across));
    MPI_Comm_set_errhandler(l->node, MPI_ERRORS_RETURN);
    if (l->across != MPI_COMM_NULL)
        MPI_Comm_set_errhandler(l->across, MPI_ERRORS_RETURN);
    return GAN_OK;
}

static GanStatus open_world(MpiLink *l) {
    TRY(MPI(l, MPI_Comm_dup, MPI_COMM_WORLD, &l->world));
    TRY(MPI(l, MPI_Comm_dup, MPI_COMM_WORLD, &l->aside));
    MPI_Comm_set_errhandler(l->world, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(l->aside, MPI_ERRORS_RETURN);
    MPI_Comm_rank(l->world, &l->link.rank);
    MPI_Comm_size(l->world, &l->link.size);
    size_t size = (size_t)l->link.size;
    l->name = l->host->alloc(size * sizeof *l->name);
    l->where = l->host->alloc(size * sizeof *l->where);
    l->count = l->host->alloc(size * sizeof *l->count);
    l->first = l->host->alloc(size * sizeof *l->first);
    if (!l->name || !l->where || !l->count || !l->first)
        return l->host->fail(GAN_ERR_MEMORY, "no memory for %zu ranks", size);
    gethostname(l->name[l->link.rank], HOST_NAME - 1);
    return MPI(l, MPI_Allgather, MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, l->name, HOST_NAME, MPI_CHAR,
               l->world);
}

// Groups are as large as there are groups, or four.
static int group_of(int ranks) {
    int n = 4;
    while (n * n < ranks)
        n *= 2;
    return n;
}

static GanStatus mpi_open(void *arg, Link **out) {
    const MpiArg *a = arg;
    MpiLink *l = a->host->alloc(sizeof *l);
    if (!l)
        return a->host->fail(GAN_ERR_MEMORY, "no memory for a communicator");
    *l = (MpiLink){.host = a->host,
                   .polite = a->polite,
                   .crowded = a->crowded,
                   .asked = a->nodes,
                   .node = MPI_COMM_NULL,
                   .across = MPI_COMM_NULL};
    pthread_mutex_init(&l->lock, NULL);
    int provided = 0;
    GanStatus st = MPI(l, MPI_Init_thread, NULL, NULL, MPI_THREAD_MULTIPLE, &provided);
    if (st == GAN_OK && provided < MPI_THREAD_FUNNELED)
        st = FAIL(l, "this MPI was built without threads (MPI_THREAD_FUNNELED)");
    if (st == GAN_OK)
        st = open_world(l);
    if (st == GAN_OK && l->asked != NodesOff)
        st = open_nodes(l);
    if (st != GAN_OK) {
        link_free(l);
        return st;
    }
    l->link.lanes = provided == MPI_THREAD_MULTIPLE ? LANES : 1;
    l->group = group_of(l->link.size);
    l->link.relays = l->group < l->link.size;
    *out = &l->link;
    return GAN_OK;
}

static void mpi_library(char *text, size_t size) {
    char whole[MPI_MAX_LIBRARY_VERSION_STRING];
    int n = 0;
    MPI_Get_library_version(whole, &n);
    snprintf(text, size, "%.*s", (int)strcspn(whole, ",\n"), whole);
}

// --- roll calls ----------------------------------------------------------------------------------

static void say_aside(MpiLink *l, int to, int tag, const Whereabouts *w) {
    // Small enough to leave without the receiver; should it never be received, the job ends anyway.
    MPI_Request sent;
    if (MPI_Isend(w, sizeof *w, MPI_BYTE, to, tag, l->aside, &sent) == MPI_SUCCESS)
        MPI_Request_free(&sent);
}

static Whereabouts here(MpiLink *l) {
    Whereabouts w = {.heard = 1};
    for (int i = 0; i < LANES; i++) {
        w.turn[i] = atomic_load(&l->desk[i].turn);
        w.step[i] = atomic_load(&l->desk[i].step);
    }
    return w;
}

// Takes what has come in: questions are answered, answers noted.
static void listen(MpiLink *l) {
    for (;;) {
        int found = 0;
        MPI_Status from;
        MPI_Message message; // matched: two threads may listen at once
        Whereabouts w = here(l);
        if (MPI_Improbe(MPI_ANY_SOURCE, MPI_ANY_TAG, l->aside, &found, &message, &from) !=
                MPI_SUCCESS ||
            !found)
            return;
        if (from.MPI_TAG == ASK)
            say_aside(l, from.MPI_SOURCE, ANSWER, &w);
        if (MPI_Mrecv(&w, sizeof w, MPI_BYTE, &message, MPI_STATUS_IGNORE) != MPI_SUCCESS)
            return;
        if (from.MPI_TAG != ANSWER)
            continue;
        pthread_mutex_lock(&l->lock);
        l->where[from.MPI_SOURCE] = w;
        pthread_mutex_unlock(&l->lock);
    }
}

static void ask_all(MpiLink *l) {
    Whereabouts mine = here(l);
    pthread_mutex_lock(&l->lock);
    memset(l->where, 0, (size_t)l->link.size * sizeof *l->where); // what was said before is old
    pthread_mutex_unlock(&l->lock);
    for (int r = 0; r < l->link.size; r++)
        if (r != l->link.rank)
            say_aside(l, r, ASK, &mine);
}

static void mpi_idle(Link *link) {
    listen((MpiLink *)link);
}

static GanStatus name_absent(MpiLink *l, const Meeting *m) {
    char who[1024] = "";
    size_t n = 0;
    int absent = 0;
    pthread_mutex_lock(&l->lock);
    for (int r = 0; r < l->link.size; r++) {
        const Whereabouts *w = &l->where[r];
        if (r == l->link.rank || (w->heard && w->turn[m->lane] >= m->turn) || ++absent > NAMED)
            continue;
        n += (size_t)snprintf(who + n, sizeof who - n, "%srank %d on %s ", n ? "; " : "", r,
                              l->name[r]);
        if (w->heard)
            n += (size_t)snprintf(who + n, sizeof who - n, "is still at step %u", w->step[m->lane]);
        else
            n += (size_t)snprintf(who + n, sizeof who - n,
                                  "does not answer: it is stopped, gone or cut off");
    }
    pthread_mutex_unlock(&l->lock);
    if (absent > NAMED)
        snprintf(who + n, sizeof who - n, "; and %d more", absent - NAMED);
    return FAIL(l, "on %s, past the deadline: %s", l->name[l->link.rank],
                absent ? who : "all ranks answer, but the meeting does not end");
}

static GanStatus mpi_missing(Link *link, const Meeting *m, double seconds) {
    MpiLink *l = (MpiLink *)link;
    if (l->link.lanes == 1)
        return FAIL(l, "the transfer does not end: a rank stopped in the middle of it");
    double until = l->host->now() + seconds;
    ask_all(l);
    while (l->host->now() < until) {
        listen(l);
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
    return name_absent(l, m);
}

// --- meeting -------------------------------------------------------------------------------------

// Whoever waits, since `began`: looks at once for a while, then sleeps an eighth of what it has
// waited. The communicator's thread has its core from those that compute; the caller computes
// nothing meanwhile, and to be woken takes longer than most of what it waits for.
static void rest(const MpiLink *l, uint32_t lane, double began) {
    const double looks[LANES] = {10e-6, 200e-6}, shortest = 10e-6, longest = 250e-6; // seconds
    double waited = l->host->now() - began;
    if (!l->polite || waited < looks[l->crowded ? 0 : lane])
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
static Parcel *parcel_get(MpiLink *l, Desk *d, size_t bytes, int sends) {
    Parcel *p = d->parcel;
    for (int done = 0; p; p = p->next)
        if (MPI_Testall(p->n, p->sent, &done, MPI_STATUSES_IGNORE) == MPI_SUCCESS && done)
            break;
    if (!p && (p = l->host->alloc(sizeof *p))) {
        p->next = d->parcel;
        d->parcel = p;
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

static GanStatus send_parcel(MpiLink *l, Parcel *p, size_t bytes, int to, int lane) {
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
    Desk *d = &l->desk[m->lane];
    int rank = l->link.rank, mine = rank / l->group, place = rank % l->group;
    size_t bytes = sizeof *e + e->bytes;
    int pieces = (int)((bytes + EAGER - 1) / EAGER);
    Parcel *p = parcel_get(l, d, bytes, pieces * l->link.size);
    if (!p)
        return l->host->fail(GAN_ERR_MEMORY, "no memory to tell the others");
    memcpy(p->at, e, sizeof *e);
    if (e->bytes)
        memcpy(p->at + sizeof *e, data, e->bytes);
    for (int r = 0; r < l->link.size; r++) {
        bool same = r / l->group == mine;
        if (round == 0 ? same && r != rank : !same && r % l->group % group_size(l, mine) == place)
            TRY(send_parcel(l, p, bytes, r, (int)m->lane));
    }
    return GAN_OK;
}

static GanStatus mpi_post(Link *link, const Meeting *m) {
    MpiLink *l = (MpiLink *)link;
    atomic_store(&l->desk[m->lane].step, m->step);
    atomic_store(&l->desk[m->lane].turn, m->turn);
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
        listen(l);
        double now = m->until > 0 ? l->host->now() : -1;
        if (now > m->until)
            return name_absent(l, m);
        if (!p->asked && now > p->answer) {
            p->asked = true;
            ask_all(l);
        }
    }
    rest(l, m->lane, p->began);
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
static GanStatus mpi_meet(Link *link, const Meeting *m, uint64_t tags[2], bool *waited) {
    MpiLink *l = (MpiLink *)link;
    Desk *d = &l->desk[m->lane];
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

// --- transfers -----------------------------------------------------------------------------------

enum { PIECE = 1 << 28 }; // elements a call: counts are int

// Doubling: after round k every rank holds the sum of its 2^(k+1) neighbours, added as the tree
// says. Ranks beyond a power of two take part in no such pattern: then the sums go up the tree to
// rank 0 and come back.
static GanStatus tree_piece(MpiLink *l, Dtype dtype, void *data, int n) {
    int rank = l->link.rank, size = l->link.size;
    MPI_Datatype type = type_of(dtype);
    bool even = (size & (size - 1)) == 0;
    TRY(room_need(l, (size_t)n * size_of(dtype)));
    for (int bit = 1; bit < size; bit *= 2) {
        int peer = rank ^ bit;
        if (even) {
            TRY(MPI(l, MPI_Sendrecv, data, n, type, peer, TRANSFER, l->room, n, type, peer,
                    TRANSFER, l->world, MPI_STATUS_IGNORE));
        } else if (rank & bit) {
            TRY(MPI(l, MPI_Send, data, n, type, peer, TRANSFER, l->world));
            break;
        } else if (peer < size) {
            TRY(MPI(l, MPI_Recv, l->room, n, type, peer, TRANSFER, l->world, MPI_STATUS_IGNORE));
        } else {
            continue;
        }
        l->host->combine(CommTree, dtype, data, l->room, (size_t)n);
    }
    return even ? GAN_OK : MPI(l, MPI_Bcast, data, n, type, 0, l->world);
}

// 16-bit numbers travel as they are and are added in f32: everyone gets its slice of all, adds it,
// rounds once and gives it back.
static GanStatus narrow_piece(MpiLink *l, CommKind kind, uint16_t *data, int n, float *lost) {
    size_t size = (size_t)l->link.size, rank = (size_t)l->link.rank;
    int *first = l->first, *count = l->count;
    for (size_t r = 0; r < size; r++) {
        first[r] = (int)((size_t)n * r / size);
        count[r] = (int)((size_t)n * (r + 1) / size) - first[r];
    }
    size_t mine = (size_t)count[rank];
    TRY(room_need(l, mine * size * (sizeof(uint16_t) + sizeof(float)) + 2 * size * sizeof(int)));
    float *wide = l->room;
    int *got_first = (int *)(void *)(wide + mine * size), *got = got_first + size;
    uint16_t *all = (uint16_t *)(void *)(got + size);
    for (size_t r = 0; r < size; r++) {
        got_first[r] = (int)(mine * r);
        got[r] = (int)mine;
    }
    TRY(MPI(l, MPI_Alltoallv, data, count, first, MPI_UINT16_T, all, got, got_first, MPI_UINT16_T,
            l->world));
    l->host->widen(all, wide, mine * size);
    l->host->tree(kind, DtF32, wide, mine * sizeof *wide, size, mine);
    l->host->narrow(wide, data + first[rank], mine, lost ? lost + first[rank] : NULL);
    return MPI(l, MPI_Allgatherv, MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, data, count, first,
               MPI_UINT16_T, l->world);
}

// Within the node, across nodes, and back: what goes between nodes goes once a node.
static GanStatus nodes_piece(MpiLink *l, MPI_Datatype type, void *data, int n) {
    bool first = l->across != MPI_COMM_NULL;
    TRY(MPI(l, MPI_Reduce, first ? MPI_IN_PLACE : data, data, n, type, MPI_SUM, 0, l->node));
    if (first)
        TRY(MPI(l, MPI_Allreduce, MPI_IN_PLACE, data, n, type, MPI_SUM, l->across));
    return MPI(l, MPI_Bcast, data, n, type, 0, l->node);
}

// Sends one part on and takes another in. Blocking calls would spin until the other rank's thread
// has a core, which those that compute have.
static GanStatus exchange(MpiLink *l, MPI_Datatype type, void *out, int outs, int to, void *in,
                          int ins, int from) {
    MPI_Request both[2];
    int done = 0;
    double began = l->host->now();
    TRY(MPI(l, MPI_Irecv, in, ins, type, from, TRANSFER, l->world, &both[0]));
    TRY(MPI(l, MPI_Isend, out, outs, type, to, TRANSFER, l->world, &both[1]));
    for (;;) {
        TRY(MPI(l, MPI_Testall, 2, both, &done, MPI_STATUSES_IGNORE));
        if (done)
            return GAN_OK;
        rest(l, 0, began);
    }
}

// In a ring: everyone adds its part to what comes along and sends it on, until each has the sum of
// a slice; then these go round. Every byte is moved as often as it must be.
static GanStatus ring_piece(MpiLink *l, Dtype dtype, char *data, int n) {
    int size = l->link.size, rank = l->link.rank, next = (rank + 1) % size,
        before = (rank + size - 1) % size;
    MPI_Datatype type = type_of(dtype);
    size_t unit = size_of(dtype);
    TRY(room_need(l, ((size_t)n / (size_t)size + 1) * unit));
    for (int r = 0; r < size; r++) {
        l->first[r] = (int)((int64_t)n * r / size);
        l->count[r] = (int)((int64_t)n * (r + 1) / size) - l->first[r];
    }
    for (int step = 0; step < 2 * (size - 1); step++) {
        bool adds = step < size - 1;
        int out = (rank + 2 * size - step) % size, in = (out + size - 1) % size;
        char *mine = data + (size_t)l->first[in] * unit;
        TRY(exchange(l, type, data + (size_t)l->first[out] * unit, l->count[out], next,
                     adds ? l->room : mine, l->count[in], before));
        if (adds)
            l->host->combine(CommSum, dtype, mine, l->room, (size_t)l->count[in]);
    }
    return GAN_OK;
}

static GanStatus reduce_piece(MpiLink *l, CommKind kind, Dtype dtype, void *data, int n,
                              float *lost) {
    if (dtype == DtBF16)
        return narrow_piece(l, kind, data, n, lost);
    if (kind == CommTree)
        return tree_piece(l, dtype, data, n);
    if (kind == CommSum && l->link.nodes)
        return nodes_piece(l, type_of(dtype), data, n);
    if (kind == CommSum)
        return ring_piece(l, dtype, data, n);
    return MPI(l, MPI_Allreduce, MPI_IN_PLACE, data, n, type_of(dtype), MPI_MAX, l->world);
}

static GanStatus mpi_reduce(Link *link, CommKind kind, Dtype dtype, void *data, size_t n,
                            float *lost) {
    size_t bytes = dtype == DtBF16 ? sizeof(uint16_t) : size_of(dtype);
    for (size_t at = 0; at < n; at += PIECE) {
        size_t part = n - at < PIECE ? n - at : PIECE;
        TRY(reduce_piece((MpiLink *)link, kind, dtype, (char *)data + at * bytes, (int)part,
                         lost ? lost + at : NULL));
    }
    return GAN_OK;
}

static GanStatus mpi_gather(Link *link, void *data, const size_t *from) {
    MpiLink *l = (MpiLink *)link;
    if (from[link->size] > INT_MAX)
        return FAIL(l, "%zu bytes are too many to gather at once", from[link->size]);
    for (int r = 0; r < link->size; r++) {
        l->first[r] = (int)from[r];
        l->count[r] = (int)(from[r + 1] - from[r]);
    }
    return MPI(l, MPI_Allgatherv, MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, data, l->count, l->first,
               MPI_BYTE, l->world);
}

static GanStatus mpi_bcast(Link *link, void *data, size_t bytes, int root) {
    MpiLink *l = (MpiLink *)link;
    for (size_t at = 0; at < bytes; at += PIECE) {
        size_t part = bytes - at < PIECE ? bytes - at : PIECE;
        TRY(MPI(l, MPI_Bcast, (char *)data + at, (int)part, MPI_BYTE, root, l->world));
    }
    return GAN_OK;
}

static const LinkApi link_mpi = {.name = "mpi",
                                 .talks = true,
                                 .open = mpi_open,
                                 .close = mpi_close,
                                 .post = mpi_post,
                                 .meet = mpi_meet,
                                 .idle = mpi_idle,
                                 .missing = mpi_missing,
                                 .reduce = mpi_reduce,
                                 .gather = mpi_gather,
                                 .bcast = mpi_bcast};

extern const LinkPlugin gan_link_plugin; // found by name (LINK_PLUGIN_SYMBOL)
const LinkPlugin gan_link_plugin = {LINK_PLUGIN_VERSION, &link_mpi, mpi_library};
