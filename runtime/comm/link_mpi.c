// link_mpi.c - ranks that are processes, through MPI: a plugin, so that one rank alone needs none.
//
// MPI is used from the communicator's thread alone, which also starts and ends it (so it is MPI's
// "main thread"), but for roll calls about a transfer that does not end. Ranks wait for each other
// in `meet`, which polls with sleeps where cores are short, keeps the deadline and answers roll
// calls; the transfers behind it are blocking calls, because everyone is there and because Open MPI
// makes no progress on its own, but for large sums, which wait as politely as meetings do.
//
// A roll call: a rank whose deadline comes near asks all others where they are, over a communicator
// of its own. Those that wait or idle answer with their turn; those that do not are named. Where
// the communicator's thread is caught in a transfer, the caller's does that (MPI_THREAD_MULTIPLE).
#define _GNU_SOURCE
#include "link_mpi.h"

#include <limits.h>
#include <mpi.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { HOST_NAME = 64, ASK = 1, ANSWER = 2, NAMED = 4 };

typedef struct Whereabouts {
    uint64_t turn; // tasks it has come to
    uint32_t step;
    uint32_t heard; // it has answered
} Whereabouts;

enum { MEETINGS = 4 };

typedef struct MpiLink {
    Link link;
    const LinkHost *host; // borrowed
    bool polite;
    bool is_second;
    NodeSums asked;
    bool two_threads;        // MPI may be called from two at once
    MPI_Comm world, aside;   // tasks; roll calls
    MPI_Comm node, across;   // where Link.nodes: this rank's node; the first ranks of all nodes, on
                             // others null
    char (*name)[HOST_NAME]; // [size] hosts; owned, as all below
    Whereabouts *where;      // [size] as last answered
    int *count, *first;      // [size] of a gather
    void *room;              // grows
    size_t room_n;
    uint64_t tag[MEETINGS][2][2]; // of meetings: mine, the greatest; one that somebody missed is
    uint32_t missed;              // never over for MPI, which may still write there
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

static GanStatus room_need(MpiLink *l, size_t bytes) {
    if (bytes <= l->room_n)
        return GAN_OK;
    l->host->free(l->room);
    l->room = l->host->alloc(bytes);
    l->room_n = l->room ? bytes : 0;
    return l->room ? GAN_OK : l->host->fail(GAN_ERR_MEMORY, "no memory to add %zu bytes", bytes);
}

// --- opening and closing -------------------------------------------------------------------------

static void mpi_close(Link *link, bool orderly) {
    MpiLink *l = (MpiLink *)link;
    if (!l)
        return;
    if (orderly) {
        if (l->node != MPI_COMM_NULL)
            MPI_Comm_free(&l->node);
        if (l->across != MPI_COMM_NULL)
            MPI_Comm_free(&l->across);
        MPI_Comm_free(&l->world);
        MPI_Comm_free(&l->aside);
        if (!l->is_second)
            MPI_Finalize();
    }
    if (l->missed)
        return; // its memory is still MPI's; the process is about to end
    const LinkHost *host = l->host;
    host->free(l->name);
    host->free(l->where);
    host->free(l->count);
    host->free(l->first);
    host->free(l->room);
    host->free(l);
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

static GanStatus mpi_open(void *arg, Link **out) {
    const MpiArg *a = arg;
    MpiLink *l = a->host->alloc(sizeof *l);
    if (!l)
        return a->host->fail(GAN_ERR_MEMORY, "no memory for a communicator");
    *l = (MpiLink){.host = a->host,
                   .polite = a->polite,
                   .asked = a->nodes,
                   .node = MPI_COMM_NULL,
                   .across = MPI_COMM_NULL};
    int provided = 0;
    GanStatus st = MPI(l, MPI_Init_thread, NULL, NULL, MPI_THREAD_MULTIPLE, &provided);
    if (st == GAN_OK && provided < MPI_THREAD_FUNNELED)
        st = FAIL(l, "this MPI was built without threads (MPI_THREAD_FUNNELED)");
    l->two_threads = provided == MPI_THREAD_MULTIPLE;
    if (st == GAN_OK)
        st = open_world(l);
    if (st == GAN_OK && l->asked != NodesOff)
        st = open_nodes(l);
    if (st != GAN_OK) {
        mpi_close(&l->link, false);
        return st;
    }
    *out = &l->link;
    return GAN_OK;
}

static GanStatus mpi_second(Link *first, Link **out) {
    const MpiLink *from = (const MpiLink *)first;
    *out = NULL;
    if (!from->two_threads)
        return GAN_OK;
    MpiLink *l = from->host->alloc(sizeof *l);
    if (!l)
        return from->host->fail(GAN_ERR_MEMORY, "no memory for a second link");
    *l = (MpiLink){.host = from->host,
                   .polite = from->polite,
                   .is_second = true,
                   .two_threads = true,
                   .asked = from->asked,
                   .node = MPI_COMM_NULL,
                   .across = MPI_COMM_NULL};
    GanStatus st = open_world(l);
    if (st == GAN_OK && l->asked != NodesOff)
        st = open_nodes(l);
    if (st == GAN_OK)
        *out = &l->link;
    else
        mpi_close(&l->link, false);
    return st;
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

// Takes what has come in: questions are answered, answers noted.
static void listen(MpiLink *l, const Meeting *m) {
    static const Whereabouts none;
    for (;;) {
        int here = 0;
        MPI_Status from;
        MPI_Message found; // matched: two threads may listen at once
        Whereabouts w = none;
        if (MPI_Improbe(MPI_ANY_SOURCE, MPI_ANY_TAG, l->aside, &here, &found, &from) !=
                MPI_SUCCESS ||
            !here)
            return;
        if (MPI_Mrecv(&w, sizeof w, MPI_BYTE, &found, MPI_STATUS_IGNORE) != MPI_SUCCESS)
            return;
        if (from.MPI_TAG == ANSWER)
            l->where[from.MPI_SOURCE] = w;
        else
            say_aside(l, from.MPI_SOURCE, ANSWER,
                      &(Whereabouts){.turn = m->turn, .step = m->step, .heard = 1});
    }
}

static void ask_all(MpiLink *l, const Meeting *m) {
    memset(l->where, 0, (size_t)l->link.size * sizeof *l->where); // what was said before is old
    for (int r = 0; r < l->link.size; r++)
        if (r != l->link.rank)
            say_aside(l, r, ASK, &(Whereabouts){.turn = m->turn});
}

static void mpi_idle(Link *link, const Meeting *last) {
    listen((MpiLink *)link, last);
}

static GanStatus name_absent(const MpiLink *l, const Meeting *m) {
    char who[1024] = "";
    size_t n = 0;
    int absent = 0;
    for (int r = 0; r < l->link.size; r++) {
        const Whereabouts *w = &l->where[r];
        if (r == l->link.rank || (w->heard && w->turn >= m->turn) || ++absent > NAMED)
            continue;
        n += (size_t)snprintf(who + n, sizeof who - n, "%srank %d on %s ", n ? "; " : "", r,
                              l->name[r]);
        if (w->heard)
            n += (size_t)snprintf(who + n, sizeof who - n, "is still at step %u", w->step);
        else
            n += (size_t)snprintf(who + n, sizeof who - n,
                                  "does not answer: it is stopped, gone or cut off");
    }
    if (absent > NAMED)
        snprintf(who + n, sizeof who - n, "; and %d more", absent - NAMED);
    return FAIL(l, "on %s, past the deadline: %s", l->name[l->link.rank],
                absent ? who : "all ranks answer, but the meeting does not end");
}

static GanStatus mpi_missing(Link *link, const Meeting *m, double seconds) {
    MpiLink *l = (MpiLink *)link;
    if (!l->two_threads)
        return FAIL(l, "the transfer does not end: a rank stopped in the middle of it");
    double until = l->host->now() + seconds;
    ask_all(l, m);
    while (l->host->now() < until) {
        listen(l, m);
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
    return name_absent(l, m);
}

// --- meeting -------------------------------------------------------------------------------------

// Sleeps a little longer each time: a waiting thread must not take a core from those that compute.
static void rest(unsigned *turns, bool polite) {
    enum { SPINS = 30, SHORTEST = 10, LONGEST = 250 }; // polls; microseconds
    unsigned n = (*turns)++;
    if (!polite || n < SPINS)
        return;
    unsigned doubled = (n - SPINS) / 4;
    long us = doubled < 5 ? (long)SHORTEST << doubled : LONGEST;
    nanosleep(&(struct timespec){.tv_nsec = us * 1000}, NULL);
}

static GanStatus mpi_meet(Link *link, const Meeting *m, uint64_t tags[2]) {
    MpiLink *l = (MpiLink *)link;
    double left = m->until - l->host->now(), answer = left / 4 < 1 ? left / 4 : 1;
    bool asked = false;
    uint64_t *mine = l->tag[l->missed][0], *most = l->tag[l->missed][1];
    mine[0] = m->tag;
    mine[1] = ~m->tag;
    MPI_Request all;
    TRY(MPI(l, MPI_Iallreduce, mine, most, 2, MPI_UINT64_T, MPI_MAX, l->world, &all));
    int done = 0;
    for (unsigned turns = 0; !done; rest(&turns, l->polite)) {
        TRY(MPI(l, MPI_Test, &all, &done, MPI_STATUS_IGNORE));
        if (done || turns % 64)
            continue;
        listen(l, m);
        double now = m->until > 0 ? l->host->now() : -1;
        if (now > m->until) {
            l->missed += l->missed + 1 < MEETINGS;
            return name_absent(l, m);
        }
        if (!asked && now > m->until - answer) {
            asked = true;
            ask_all(l, m);
        }
    }
    tags[0] = ~most[1];
    tags[1] = most[0];
    return GAN_OK;
}

// --- transfers -----------------------------------------------------------------------------------

enum { PIECE = 1 << 28 }; // elements a call: counts are int

static MPI_Datatype type_of(Dtype dtype) {
    return dtype == DtF64 ? MPI_DOUBLE : MPI_FLOAT;
}

static size_t size_of(Dtype dtype) {
    return dtype == DtF64 ? sizeof(double) : sizeof(float);
}

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
            TRY(MPI(l, MPI_Sendrecv, data, n, type, peer, 0, l->room, n, type, peer, 0, l->world,
                    MPI_STATUS_IGNORE));
        } else if (rank & bit) {
            TRY(MPI(l, MPI_Send, data, n, type, peer, 0, l->world));
            break;
        } else if (peer < size) {
            TRY(MPI(l, MPI_Recv, l->room, n, type, peer, 0, l->world, MPI_STATUS_IGNORE));
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
    for (size_t step = 1; step < size; step *= 2)
        for (size_t r = 0; r + step < size; r += 2 * step)
            l->host->combine(kind, DtF32, wide + r * mine, wide + (r + step) * mine, mine);
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
    TRY(MPI(l, MPI_Irecv, in, ins, type, from, 0, l->world, &both[0]));
    TRY(MPI(l, MPI_Isend, out, outs, type, to, 0, l->world, &both[1]));
    for (unsigned turns = 0; !done; rest(&turns, l->polite && !done))
        TRY(MPI(l, MPI_Testall, 2, both, &done, MPI_STATUSES_IGNORE));
    return GAN_OK;
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
    if (kind == CommSum && (size_t)n * size_of(dtype) > COMM_SMALL)
        return ring_piece(l, dtype, data, n);
    return MPI(l, MPI_Allreduce, MPI_IN_PLACE, data, n, type_of(dtype),
               kind == CommMax ? MPI_MAX : MPI_SUM, l->world);
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
                                 .second = mpi_second,
                                 .close = mpi_close,
                                 .meet = mpi_meet,
                                 .idle = mpi_idle,
                                 .missing = mpi_missing,
                                 .reduce = mpi_reduce,
                                 .gather = mpi_gather,
                                 .bcast = mpi_bcast};

extern const LinkPlugin gan_link_plugin; // found by name (LINK_PLUGIN_SYMBOL)
const LinkPlugin gan_link_plugin = {LINK_PLUGIN_VERSION, &link_mpi, mpi_library};
