// link_mpi_sum.c - transfers after meetings: all-reduce by ring, tree or hierarchy of nodes,
// all-gather, broadcast.
#define _GNU_SOURCE
#include "mpi_link.h"

#include <limits.h>

static MPI_Datatype type_of(Dtype dtype) {
    return dtype == DtF64 ? MPI_DOUBLE : MPI_FLOAT;
}

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

// bf16 is sent as it is and added in f32: an all-to-all brings each rank its slice of all ranks'
// data, which it adds and rounds once; an all-gather returns it.
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

// Hierarchical: reduce within the node, all-reduce across nodes, broadcast. Bytes cross between
// nodes once a node.
static GanStatus nodes_piece(MpiLink *l, MPI_Datatype type, void *data, int n) {
    bool first = l->across != MPI_COMM_NULL;
    TRY(MPI(l, MPI_Reduce, first ? MPI_IN_PLACE : data, data, n, type, MPI_SUM, 0, l->node));
    if (first)
        TRY(MPI(l, MPI_Allreduce, MPI_IN_PLACE, data, n, type, MPI_SUM, l->across));
    return MPI(l, MPI_Bcast, data, n, type, 0, l->node);
}

// Sends one part on and takes another in. Blocking calls would spin until the other rank's thread
// has a core, which those that compute have.
GanStatus exchange(MpiLink *l, MPI_Datatype type, const void *out, int outs, int to, void *in,
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
        back_off(l, 0, began);
    }
}

// Ring all-reduce: reduce-scatter, then all-gather, which is optimal in bandwidth.
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

GanStatus sum_reduce(Link *link, CommKind kind, Dtype dtype, void *data, size_t n, float *lost) {
    size_t bytes = dtype == DtBF16 ? sizeof(uint16_t) : size_of(dtype);
    if (((MpiLink *)link)->near.told && dtype != DtBF16) // whose sums are rounded on their way
        return near_reduce((MpiLink *)link, kind, dtype, n);
    for (size_t at = 0; at < n; at += PIECE) {
        size_t part = n - at < PIECE ? n - at : PIECE;
        TRY(reduce_piece((MpiLink *)link, kind, dtype, (char *)data + at * bytes, (int)part,
                         lost ? lost + at : NULL));
    }
    return GAN_OK;
}

GanStatus sum_gather(Link *link, void *data, const size_t *from) {
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

GanStatus sum_bcast(Link *link, void *data, size_t bytes, int root) {
    MpiLink *l = (MpiLink *)link;
    for (size_t at = 0; at < bytes; at += PIECE) {
        size_t part = bytes - at < PIECE ? bytes - at : PIECE;
        TRY(MPI(l, MPI_Bcast, (char *)data + at, (int)part, MPI_BYTE, root, l->world));
    }
    return GAN_OK;
}
