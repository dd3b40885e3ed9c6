// cuda_nccl.c - sums over ranks by NCCL, each rank with a card of its own.
//
// In: ranks connected by a host link (comm.h), which carries the library's bootstrap id. Out:
// all-reduces enqueued on a stream, where a graph may capture them. The communicator is
// nonblocking: the library works in threads of its own, and the host polls it, so that no wait for
// a rank that will not come is without end. That is so while ranks connect, at the first and, from
// NCCL 2.22 on, at the first sum of a size. Later errors are polled, too (nccl_health); aborting
// the communicator ends kernels that wait for such a rank.
//
// Ending a communicator, in order or by aborting it, ends only when every rank of the machine has
// ended its own: the library's proxy threads serve each other. A rank that fails alone must report
// its reason before the others can follow, so it cannot wait for that: a thread does, and is left
// behind where it does not end in time.
#define _GNU_SOURCE
#include "cuda_device.h"

#include <math.h>
#include <pthread.h>
#include <time.h>

struct Nccl {
    Cuda *cuda;       // borrowed
    Comm *ranks;      // borrowed
    ncclComm_t comm;  // NULL: not yet created
    bool failed;      // it is of no more use, but to be aborted
    bool ended;       // nothing may use `comm` any more
    bool running;     // the thread that ends it was started
    pthread_t thread; // may outlive the device, so it has copies of what it uses:
    NcclApi api;
    CUcontext context;
    CUresult(CUDAAPI *enter)(CUcontext);
    bool orderly;
    pthread_mutex_t lock;   // guards what follows
    pthread_cond_t changed; // `over` is
    bool over;              // the library has ended it
    bool left;              // nobody waits: the thread frees this
};

static GanStatus nccl_check(const Nccl *n, ncclResult_t code, const char *what) {
    if (code == ncclSuccess || code == ncclInProgress)
        return GAN_OK;
    const char *words = n->api.GetLastError(n->comm);
    return cuda_library_failed(n->cuda, "NCCL: %s failed: %s%s%.400s", what,
                               n->api.GetErrorString(code), words && *words ? ": " : "",
                               words ? words : "");
}

static GanStatus query(const Nccl *n, ncclResult_t *code) {
    return nccl_check(n, n->api.GetAsyncError(n->comm, code), "querying errors");
}

// Waits until the library has carried out a call, which returned `code`.
static GanStatus settle(Nccl *n, ncclResult_t code, const char *what) {
    CudaPatience p = {.ranks = n->ranks};
    GanStatus st = GAN_OK;
    while (st == GAN_OK && code == ncclInProgress) {
        st = cuda_patience(&p, what);
        if (st == GAN_OK)
            st = query(n, &code);
    }
    if (st == GAN_OK)
        st = nccl_check(n, code, what);
    n->failed |= st != GAN_OK;
    return st;
}

static GanStatus join(Nccl *n) {
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    ncclUniqueId id = {{0}};
    config.blocking = 0;
    if (comm_rank(n->ranks) == 0)
        TRY(nccl_check(n, n->api.GetUniqueId(&id), "starting"));
    TRY(comm_bcast(n->ranks, &id, sizeof id, 0));
    TRY(comm_barrier(n->ranks)); // which names those that do not come; the library cannot
    ncclResult_t code =
        n->api.InitRankConfig(&n->comm, comm_size(n->ranks), id, comm_rank(n->ranks), &config);
    return settle(n, code, "joining the ranks");
}

static void init_sync(Nccl *n) {
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC); // time_now's
    pthread_mutex_init(&n->lock, NULL);
    pthread_cond_init(&n->changed, &monotonic);
    pthread_condattr_destroy(&monotonic);
}

GanStatus nccl_open(Cuda *c, Comm *ranks, Nccl **out) {
    *out = NULL;
    if (!c->api->nccl)
        return fail(GAN_ERR_DEVICE,
                    "NCCL cannot be used: %s (ganrun doctor says how to fix it); --comm staged "
                    "does without, by way of the host",
                    c->api->no_nccl);
    Nccl *n = mem_alloc(sizeof *n);
    if (!n)
        return fail(GAN_ERR_MEMORY, "no memory for NCCL");
    *n = (Nccl){.cuda = c, .ranks = ranks, .api = *c->api->nccl};
    init_sync(n);
    *out = n; // closed by the caller on failure, too
    GanStatus st = join(n);
    return st == GAN_OK ? st : fail_in(st, "--comm nccl (--comm staged does without NCCL)");
}

// --- the end -------------------------------------------------------------------------------------

static void nccl_free(Nccl *n) {
    pthread_cond_destroy(&n->changed);
    pthread_mutex_destroy(&n->lock);
    mem_free(n);
}

// What other ranks must take part in comes first, and can be polled.
static void end_orderly(const Nccl *n) {
    ncclResult_t code = n->api.Finalize(n->comm), asked = ncclSuccess;
    while (code == ncclInProgress && asked == ncclSuccess) {
        nanosleep(&(struct timespec){.tv_nsec = 100000}, NULL);
        asked = n->api.GetAsyncError(n->comm, &code);
    }
    if (code == ncclSuccess && asked == ncclSuccess)
        n->api.Destroy(n->comm);
    else
        n->api.Abort(n->comm);
}

static void *end_main(void *user) {
    Nccl *n = user;
    n->enter(n->context);
    if (n->orderly)
        end_orderly(n);
    else
        n->api.Abort(n->comm);
    pthread_mutex_lock(&n->lock);
    n->over = true;
    bool left = n->left;
    pthread_cond_signal(&n->changed);
    pthread_mutex_unlock(&n->lock);
    if (left)
        nccl_free(n);
    return NULL;
}

// Seconds the other ranks have to end theirs.
static double patience(const Nccl *n) {
    const double least = 1, most = 10;
    double deadline = comm_options(n->ranks)->deadline;
    return deadline > 0 ? fmin(fmax(deadline, least), most) : most;
}

// Returns when the library has, or the other ranks have had their time.
static void end(Nccl *n, bool orderly) {
    double t = time_now() + patience(n);
    struct timespec until = {.tv_sec = (time_t)t, .tv_nsec = (long)((t - (double)(time_t)t) * 1e9)};
    n->ended = true;
    n->orderly = orderly && !n->failed;
    n->enter = n->cuda->cu->CtxSetCurrent;
    n->context = n->cuda->context;
    n->running = pthread_create(&n->thread, NULL, end_main, n) == 0;
    pthread_mutex_lock(&n->lock);
    while (n->running && !n->over && pthread_cond_timedwait(&n->changed, &n->lock, &until) == 0)
        ;
    pthread_mutex_unlock(&n->lock);
}

void nccl_abort(Nccl *n) {
    if (n->comm && !n->ended)
        end(n, false);
}

bool nccl_close(Nccl *n, bool orderly) {
    if (!n)
        return true;
    if (n->comm && !n->ended)
        end(n, orderly);
    pthread_t thread = n->thread;
    pthread_mutex_lock(&n->lock);
    bool running = n->running, over = n->over;
    bool left = n->left = running && !over;
    bool whole = !n->ended || over;
    pthread_mutex_unlock(&n->lock);
    if (left) {
        pthread_detach(thread);
        return false;
    }
    if (running)
        pthread_join(thread, NULL);
    nccl_free(n);
    return whole;
}

GanStatus nccl_health(Nccl *n) {
    ncclResult_t code = ncclSuccess;
    if (n->ended)
        return fail(GAN_ERR_DEVICE, "NCCL: the communicator was aborted");
    TRY(query(n, &code));
    GanStatus st = nccl_check(n, code, "a sum over the ranks");
    n->failed |= st != GAN_OK;
    return st;
}

bool nccl_failed(const Nccl *n) {
    return n->failed;
}

// --- sums ----------------------------------------------------------------------------------------

static ncclDataType_t type_of(Dtype t) {
    switch (t) {
    case DtF32:
        return ncclFloat32;
    case DtF64:
        return ncclFloat64;
    case DtBF16:
        return ncclBfloat16;
    case DtF16:
        return ncclFloat16;
    case DtCount:
        break;
    }
    bug("nccl: no sum of type %d", (int)t);
}

// It is on the stream when the library has carried out the call.
GanStatus nccl_sum(Nccl *n, CUdeviceptr at, size_t bytes, Dtype dtype, CUstream stream) {
    void *data = (void *)(uintptr_t)at;
    if (n->ended)
        return fail(GAN_ERR_DEVICE, "NCCL: the communicator was aborted");
    ncclResult_t code = n->api.AllReduce(data, data, bytes / dtype_size[dtype], type_of(dtype),
                                         ncclSum, n->comm, (cudaStream_t)stream);
    return settle(n, code, "starting a sum over the ranks");
}
