// link_mpi_collectives.c - what follows a handshake: all-reduce, all-gather, broadcast.
//
// All are made of one primitive, the exchange of two messages, which polls: a blocking call would
// spin until the other rank's thread has a core, which those that compute have, would answer no
// liveness request and know no deadline.
#define _GNU_SOURCE
#include "link_mpi_internal.h"

#include <string.h>

// --- an exchange ---------------------------------------------------------------------------------

typedef struct Block {
    void *at;
    size_t n; // bytes
} Block;

enum { MESSAGE = 8 << 20 }; // bytes, at most: MPI's counts are int

static int message_bytes(Block s, size_t at) {
    return (int)(s.n - at < MESSAGE ? s.n - at : MESSAGE);
}

static GanStatus complete(MpiLink *l, MPI_Request both[2]) {
    Wait w = {0};
    for (int done = 0;;) {
        TRY(MPI(l, MPI_Testall, 2, both, &done, MPI_STATUSES_IGNORE));
        if (done)
            return GAN_OK;
        TRY(wait_more(l, &l->last, &w));
    }
}

// Sends `out` to one rank and receives `in` from another; MPI_PROC_NULL: none. An empty message is
// one too.
static GanStatus exchange(MpiLink *l, const Group *g, Block out, int to, Block in, int from) {
    for (size_t at = 0; at == 0 || at < out.n || at < in.n; at += MESSAGE) {
        MPI_Request both[2] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL};
        if (at == 0 || at < in.n)
            TRY(MPI(l, MPI_Irecv, (char *)in.at + at, message_bytes(in, at), MPI_CHAR, from,
                    TRANSFER, g->comm, &both[0]));
        if (at == 0 || at < out.n)
            TRY(MPI(l, MPI_Isend, (char *)out.at + at, message_bytes(out, at), MPI_CHAR, to,
                    TRANSFER, g->comm, &both[1]));
        shared_notify(l, to, 0);
        TRY(complete(l, both));
        shared_notify(l, from, 0); // a long message has then been sent, too
    }
    return GAN_OK;
}

static Block part(void *data, const size_t *from, int i) {
    return (Block){(char *)data + from[i], from[i + 1] - from[i]};
}

// A ring: rank r has part r of `data`; afterwards all ranks have all parts. from [g->size + 1].
static GanStatus ring_gather(MpiLink *l, const Group *g, void *data, const size_t *from) {
    int n = g->size, next = (g->rank + 1) % n, before = (g->rank + n - 1) % n;
    for (int step = 0; step + 1 < n; step++) {
        int out = (g->rank + n - step) % n, in = (out + n - 1) % n;
        TRY(exchange(l, g, part(data, from, out), next, part(data, from, in), before));
    }
    return GAN_OK;
}

// A binomial tree.
static GanStatus tree_bcast(MpiLink *l, const Group *g, Block data, int root) {
    int n = g->size, place = (g->rank + n - root) % n, bit = 1;
    Block none = {data.at, 0};
    while (bit < n && !(place & bit))
        bit *= 2;
    if (place)
        TRY(exchange(l, g, none, MPI_PROC_NULL, data, (g->rank + n - bit) % n));
    for (bit /= 2; bit > 0; bit /= 2)
        if (place + bit < n)
            TRY(exchange(l, g, data, (g->rank + bit) % n, none, MPI_PROC_NULL));
    return GAN_OK;
}

// --- all-reduce ----------------------------------------------------------------------------------

typedef struct Reduction { // of n numbers of every rank of a group
    CommKind kind;
    Dtype dtype;
    void *data;
    size_t n;
    float *lost; // [n], see LinkApi.reduce; may be NULL
} Reduction;

enum { CHUNK = 1 << 22 }; // elements reduced at once: bounds the scratch memory

// The parts of a sum, as bytes: the first `owners` ranks of a group reduce one each.
static void split(const Reduction *s, int owners, int size, size_t *from) {
    for (int r = 0; r <= size; r++)
        from[r] = (r < owners ? s->n * (size_t)r / (size_t)owners : s->n) * size_of(s->dtype);
}

// Every owner receives its part of all ranks' data and adds it up in CommTree's order, into its own
// (reduce-scatter by pairwise exchange: Thakur, Rabenseifner and Gropp 2005, "Optimization of
// collective communication operations in MPICH").
static GanStatus reduce_scatter(MpiLink *l, const Group *g, const Reduction *s,
                                const size_t *from) {
    size_t size = (size_t)g->size, rank = (size_t)g->rank;
    Block mine = part(s->data, from, g->rank);
    bool half = s->dtype == DtBF16; // added in f32, rounded once
    size_t n = mine.n / size_of(s->dtype), wide = half ? n * sizeof(float) : 0;
    TRY(scratch_need(l, size * (mine.n + wide)));
    char *received = (char *)l->scratch + size * wide;
    for (int i = 1; i < g->size; i++) {
        int to = (g->rank + i) % g->size, peer = (g->rank + g->size - i) % g->size;
        TRY(exchange(l, g, part(s->data, from, to), to,
                     (Block){received + (size_t)peer * mine.n, mine.n}, peer));
    }
    if (!n)
        return GAN_OK;
    for (size_t r = 0; r < size; r++) {
        void *at = r == rank ? mine.at : received + r * mine.n;
        l->part[r] = half ? (char *)l->scratch + r * wide : at;
        if (half)
            l->host->widen(at, l->part[r], n);
    }
    void *sum = l->part[rank];
    l->host->tree(s->kind, half ? DtF32 : s->dtype, l->part, size, n, rank);
    if (half)
        l->host->narrow(sum, mine.at, n, s->lost ? s->lost + from[rank] / sizeof(uint16_t) : NULL);
    return GAN_OK;
}

static GanStatus all_reduce(MpiLink *l, const Group *g, const Reduction *s) {
    split(s, g->size, g->size, l->from);
    TRY(reduce_scatter(l, g, s, l->from));
    return ring_gather(l, g, s->data, l->from);
}

// Hierarchical: each node adds up its parts, ranks of the same place in all nodes reduce these, and
// each node gathers the result. A number crosses between nodes as often as if nodes were ranks.
static GanStatus nodes_reduce(MpiLink *l, const Reduction *s) {
    split(s, l->least_in_node, l->node.size, l->from);
    TRY(reduce_scatter(l, &l->node, s, l->from));
    if (l->across.comm != MPI_COMM_NULL) {
        Block mine = part(s->data, l->from, l->node.rank);
        TRY(all_reduce(l, &l->across,
                       &(Reduction){s->kind, s->dtype, mine.at, mine.n / size_of(s->dtype), NULL}));
        split(s, l->least_in_node, l->node.size, l->from);
    }
    return ring_gather(l, &l->node, s->data, l->from);
}

GanStatus collective_reduce(Link *link, CommKind kind, Dtype dtype, void *data, size_t n,
                            float *lost) {
    MpiLink *l = (MpiLink *)link;
    if (l->cma.exchanged && dtype != DtBF16) // which is added in f32
        return cma_reduce(l, kind, dtype, n);
    bool nodes = link->nodes && kind == CommSum && dtype != DtBF16;
    for (size_t at = 0; at < n; at += CHUNK) {
        Reduction s = {kind, dtype, (char *)data + at * size_of(dtype),
                       n - at < CHUNK ? n - at : CHUNK, lost ? lost + at : NULL};
        TRY(nodes ? nodes_reduce(l, &s) : all_reduce(l, &l->world, &s));
    }
    return GAN_OK;
}

// --- the others ----------------------------------------------------------------------------------

GanStatus collective_gather(Link *link, void *data, const size_t *from) {
    MpiLink *l = (MpiLink *)link;
    return ring_gather(l, &l->world, data, from);
}

GanStatus collective_bcast(Link *link, void *data, size_t bytes, int root) {
    MpiLink *l = (MpiLink *)link;
    return tree_bcast(l, &l->world, (Block){data, bytes}, root);
}

// After k rounds a rank knows of 2^k others (Hensgen, Finkel and Manber 1988, "Two algorithms for
// barrier synchronization").
GanStatus collective_barrier(MpiLink *l) {
    int size = l->world.size, rank = l->world.rank;
    char nothing;
    Block none = {&nothing, 0};
    for (int far = 1; far < size; far *= 2)
        TRY(exchange(l, &l->world, none, (rank + far) % size, none, (rank + size - far) % size));
    return GAN_OK;
}
