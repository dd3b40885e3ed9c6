// link_mpi_cma.c - large sums between ranks of one machine, by cross-memory attach (CMA).
//
// Rank r reads slice r of all ranks' data, in pieces that stay in cache, adds them up, and writes
// the sum back to all. So a byte is read once and written once, and between the handshake and the
// barrier at the end no rank waits for another, whose thread may have no core just then. The
// exchanges of link_mpi_collectives.c wait for each message.
//
// Linux' process_vm_readv and _writev do it, where the system allows one rank to access another's
// memory (users and containers may differ, security modules may forbid it): that is tried when the
// link is opened.
#define _GNU_SOURCE
#include "link_mpi_internal.h"

#include <errno.h>
#include <string.h>
#include <sys/prctl.h>
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
    int file; // of rank 0: shared_create
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
    int file = l->link.rank == 0 ? shared_create(l) : -1, mine = 0, every = 0;
    all[l->link.rank] = (Probe){getpid(), (uintptr_t)&word, word, file};
    GanStatus st = MPI(l, MPI_Allgather, MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, all, sizeof *all,
                       MPI_BYTE, l->world.comm);
    if (st == GAN_OK)
        mine = reaches(l, all) && shared_map(l, all[0].pid, all[0].file);
    if (st == GAN_OK) // also keeps `word` and `file` until all have looked
        st = MPI(l, MPI_Allreduce, &mine, &every, 1, MPI_INT, MPI_MIN, l->world.comm);
    if (file >= 0)
        close(file);
    for (int r = 0; every && r < l->link.size; r++)
        l->cma.pid[r] = (pid_t)all[r].pid;
    if (!every)
        cma_free(l);
    return st;
}

GanStatus cma_open(MpiLink *l) {
    size_t size = (size_t)l->link.size;
    if (size == 1 || size * sizeof(double) > COMM_SMALL)
        return GAN_OK;
    Probe *all = l->host->alloc(size * sizeof *all);
    l->cma.pid = l->host->alloc(size * sizeof *l->cma.pid);
    l->cma.address = l->host->alloc(size * sizeof *l->cma.address);
    // Yama's ptrace_scope 1, the default of some distributions, allows only ancestors: also allow
    // the launcher's process on this machine, whose descendants all ranks are.
    (void)prctl(PR_SET_PTRACER, (unsigned long)getppid());
    GanStatus st = all && l->cma.pid && l->cma.address
                       ? probe_memory(l, all)
                       : l->host->fail(GAN_ERR_MEMORY, "no memory for %zu ranks", size);
    l->host->free(all);
    return st;
}

void cma_free(MpiLink *l) {
    l->host->free(l->cma.pid);
    l->host->free(l->cma.address);
    l->cma = (Cma){0};
    shared_free(l);
}

// --- addresses -----------------------------------------------------------------------------------

// The greatest of everyone's numbers, of which all but one are 0. Addresses are below 2^53.
Handshake cma_exchange(MpiLink *l, const Handshake *given) {
    Handshake hs = *given;
    Cma *cma = &l->cma;
    cma->exchanged = cma->pid && hs.reduces;
    if (!cma->exchanged)
        return hs;
    memset(cma->address, 0, (size_t)l->link.size * sizeof *cma->address);
    cma->address[l->link.rank] = (double)(uintptr_t)hs.reduces;
    hs.kind = CommMax;
    hs.dtype = DtF64;
    hs.data = cma->address;
    hs.n = (size_t)l->link.size;
    return hs;
}

// --- sums ----------------------------------------------------------------------------------------

static size_t slice_first(size_t n, int rank, int size) {
    size_t units = (n + SLICE_ALIGN - 1) / SLICE_ALIGN;
    size_t first = units * (size_t)rank / (size_t)size * SLICE_ALIGN;
    return first < n ? first : n;
}

// The others' [at, at + bytes) into a piece of the scratch memory each; this rank's stay in place.
static GanStatus fetch(MpiLink *l, size_t at, size_t bytes, size_t stride) {
    for (int r = 0; r < l->link.size; r++) {
        char *there = (char *)(uintptr_t)l->cma.address[r] + at,
             *here = (char *)l->scratch + (size_t)r * stride;
        l->part[r] = r == l->link.rank ? there : here;
        if (r != l->link.rank && !move(process_vm_readv, l->cma.pid[r], here, there, bytes))
            return unreachable(l, r);
    }
    return GAN_OK;
}

static GanStatus put(MpiLink *l, size_t at, size_t bytes) {
    char *here = (char *)(uintptr_t)l->cma.address[l->link.rank] + at;
    for (int r = 0; r < l->link.size; r++) {
        char *there = (char *)(uintptr_t)l->cma.address[r] + at;
        if (r != l->link.rank && !move(process_vm_writev, l->cma.pid[r], here, there, bytes))
            return unreachable(l, r);
    }
    return GAN_OK;
}

GanStatus cma_reduce(MpiLink *l, CommKind kind, Dtype dtype, size_t n) {
    int size = l->link.size, rank = l->link.rank;
    size_t unit = size_of(dtype), first = slice_first(n, rank, size) * unit,
           end = slice_first(n, rank + 1, size) * unit,
           piece = PIECES / (size_t)size / PIECE_LEAST * PIECE_LEAST;
    piece = piece > PIECE_LEAST ? piece : PIECE_LEAST;
    TRY(scratch_need(l, piece * (size_t)size));
    for (size_t at = first; at < end; at += piece) {
        size_t bytes = end - at < piece ? end - at : piece;
        TRY(fetch(l, at, bytes, piece));
        l->host->tree(kind, dtype, l->part, (size_t)size, bytes / unit, (size_t)rank);
        TRY(put(l, at, bytes));
    }
    return collective_barrier(l);
}
