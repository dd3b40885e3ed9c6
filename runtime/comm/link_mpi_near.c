// link_mpi_near.c - large sums between ranks of one machine, by reading each other's memory.
//
// Rank r reads slice r of all ranks' data, in pieces that stay in cache, adds them up, and writes
// the sum back to all. So a byte is read once and written once, and between the meeting and the end
// no rank waits for another, whose thread may have no core just then. The ring (link_mpi_sum.c)
// waits once a round, with whole slices between rounds.
//
// Linux' process_vm_readv and _writev do it, where the system allows one rank to look into another
// (users and containers may differ, Yama may forbid): that is tried when the link is opened.
#define _GNU_SOURCE
#include "mpi_link.h"

#include <errno.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

enum { PIECES = 512 << 10, PIECE_LEAST = 32 << 10 }; // bytes of all ranks' pieces, of one: L2
enum { SLICE_ALIGN = 256 };                          // elements: no two ranks write one line

typedef ssize_t Move(pid_t pid, const struct iovec *here, unsigned long n,
                     const struct iovec *there, unsigned long m, unsigned long flags);

static bool move(Move *how, pid_t pid, char *here, char *there, size_t bytes) {
    for (size_t done = 0; done < bytes;) {
        struct iovec in = {here + done, bytes - done}, out = {there + done, bytes - done};
        ssize_t n = how(pid, &in, 1, &out, 1, 0);
        if (n <= 0 && !(n < 0 && errno == EINTR))
            return false;
        done += n > 0 ? (size_t)n : 0;
    }
    return true;
}

static GanStatus unreachable(const MpiLink *l, int rank) {
    if (errno == ESRCH || errno == EFAULT) // or has given back what it had
        return FAIL(l, "rank %d on %s is gone", rank, l->name[rank]);
    return FAIL(l, "the memory of rank %d on %s: %s", rank, l->name[rank], strerror(errno));
}

// --- opening -------------------------------------------------------------------------------------

typedef struct Probe { // what a rank shows, to be looked for in its memory
    int64_t pid;
    uint64_t at;
    uint64_t word;
} Probe;

static bool reaches(const MpiLink *l, const Probe *all) {
    for (int r = 0; r < l->link.size; r++) {
        uint64_t word = 0;
        char *there = (char *)(uintptr_t)all[r].at;
        if (r == l->link.rank)
            continue;
        if (!move(process_vm_readv, (pid_t)all[r].pid, (char *)&word, there, sizeof word) ||
            word != all[r].word)
            return false;
        if (!move(process_vm_writev, (pid_t)all[r].pid, (char *)&word, there, sizeof word))
            return false; // what may be read may not always be written
    }
    return true;
}

// One machine has one name space of processes, or the words do not agree.
static GanStatus probe_memory(MpiLink *l, Probe *all) {
    uint64_t word = 0x9e3779b97f4a7c15u * (uint64_t)(getpid() + l->link.rank + 1);
    all[l->link.rank] = (Probe){getpid(), (uintptr_t)&word, word};
    TRY(MPI(l, MPI_Allgather, MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, all, sizeof *all, MPI_BYTE,
            l->world));
    int mine = reaches(l, all), every = 0; // also keeps `word` until all have looked
    TRY(MPI(l, MPI_Allreduce, &mine, &every, 1, MPI_INT, MPI_MIN, l->world));
    for (int r = 0; every && r < l->link.size; r++)
        l->near.pid[r] = (pid_t)all[r].pid;
    if (!every)
        near_free(l);
    return GAN_OK;
}

GanStatus near_open(MpiLink *l) {
    size_t size = (size_t)l->link.size;
    if (size == 1 || size * sizeof(double) > COMM_SMALL)
        return GAN_OK;
    Probe *all = l->host->alloc(size * sizeof *all);
    l->near.pid = l->host->alloc(size * sizeof *l->near.pid);
    l->near.at = l->host->alloc(size * sizeof *l->near.at);
    GanStatus st = all && l->near.pid && l->near.at
                       ? probe_memory(l, all)
                       : l->host->fail(GAN_ERR_MEMORY, "no memory for %zu ranks", size);
    l->host->free(all);
    return st;
}

void near_free(MpiLink *l) {
    l->host->free(l->near.pid);
    l->host->free(l->near.at);
    l->near = (Near){0};
}

// --- addresses -----------------------------------------------------------------------------------

// The greatest of everyone's numbers, of which all but one are 0. Addresses are below 2^53.
Meeting near_tell(MpiLink *l, const Meeting *m) {
    Meeting told = *m;
    Near *near = &l->near;
    near->told = near->pid && m->moves;
    if (!near->told)
        return told;
    memset(near->at, 0, (size_t)l->link.size * sizeof *near->at);
    near->at[l->link.rank] = (double)(uintptr_t)m->moves;
    told.kind = CommMax;
    told.dtype = DtF64;
    told.data = near->at;
    told.n = (size_t)l->link.size;
    return told;
}

// --- sums ----------------------------------------------------------------------------------------

static size_t slice_first(size_t n, int rank, int size) {
    size_t units = (n + SLICE_ALIGN - 1) / SLICE_ALIGN;
    size_t first = units * (size_t)rank / (size_t)size * SLICE_ALIGN;
    return first < n ? first : n;
}

// Everyone's [at, at + bytes) into a room for each.
static GanStatus fetch(MpiLink *l, size_t at, size_t bytes, size_t stride) {
    for (int r = 0; r < l->link.size; r++) {
        char *there = (char *)(uintptr_t)l->near.at[r] + at,
             *here = (char *)l->room + (size_t)r * stride;
        if (r == l->link.rank)
            memcpy(here, there, bytes);
        else if (!move(process_vm_readv, l->near.pid[r], here, there, bytes))
            return unreachable(l, r);
    }
    return GAN_OK;
}

static GanStatus put(MpiLink *l, size_t at, size_t bytes) {
    for (int r = 0; r < l->link.size; r++) {
        char *there = (char *)(uintptr_t)l->near.at[r] + at;
        if (r == l->link.rank)
            memcpy(there, l->room, bytes);
        else if (!move(process_vm_writev, l->near.pid[r], l->room, there, bytes))
            return unreachable(l, r);
    }
    return GAN_OK;
}

// Returns once every rank has come to it: after k rounds one knows of 2^k others (Hensgen, Finkel
// and Manber 1988, "Two algorithms for barrier synchronization").
static GanStatus all_done(MpiLink *l) {
    int size = l->link.size, rank = l->link.rank;
    for (int far = 1; far < size; far *= 2)
        TRY(exchange(l, MPI_CHAR, NULL, 0, (rank + far) % size, NULL, 0,
                     (rank + size - far) % size));
    return GAN_OK;
}

GanStatus near_reduce(MpiLink *l, CommKind kind, Dtype dtype, size_t n) {
    int size = l->link.size, rank = l->link.rank;
    size_t unit = size_of(dtype), first = slice_first(n, rank, size) * unit,
           end = slice_first(n, rank + 1, size) * unit,
           piece = PIECES / (size_t)size / PIECE_LEAST * PIECE_LEAST;
    piece = piece > PIECE_LEAST ? piece : PIECE_LEAST;
    TRY(room_need(l, piece * (size_t)size));
    for (size_t at = first; at < end; at += piece) {
        size_t bytes = end - at < piece ? end - at : piece;
        TRY(fetch(l, at, bytes, piece));
        l->host->tree(kind, dtype, l->room, piece, (size_t)size, bytes / unit);
        TRY(put(l, at, bytes));
    }
    return all_done(l);
}
