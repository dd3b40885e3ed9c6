// cuda_nccl.c - sums over ranks by NCCL, each rank with a card of its own.
//
// In: ranks connected by a host link (comm.h), which carries the library's bootstrap id. Out:
// all-reduces enqueued on a stream, where a graph may capture them. The host blocks inside the
// library only while the communicator is created, and, from NCCL 2.22 on, at the first sum of a
// size, which connects the ranks (NCCL_RUNTIME_CONNECT). Later errors are polled (nccl_health);
// aborting the communicator ends kernels that wait for ranks that will not come.
//
// Ending a communicator, in order or by aborting it, returns only when every rank of the machine
// has ended its own: the library's proxy threads serve each other. A rank that fails alone must
// report its reason before the others can follow, so it cannot wait for that: a thread makes the
// call, and is left behind where it does not return in time.
#define _GNU_SOURCE
#include "cuda_device.h"

#include <math.h>
#include <pthread.h>
#include <time.h>

struct Nccl {
    Cuda *cuda;         // borrowed
    const NcclApi *api; // borrowed
    ncclComm_t comm;    // NULL: not yet created
    bool ended;         // nothing may use `comm` any more
    bool running;       // the thread that ends it was started
    pthread_t thread;   // may outlive the device, so it has copies of what it uses:
    CUcontext context;
    CUresult(CUDAAPI *enter)(CUcontext);
    ncclResult_t (*end)(ncclComm_t);
    pthread_mutex_t lock;   // guards what follows
    pthread_cond_t changed; // `over` is
    bool over;              // the library has returned
    bool left;              // nobody waits: the thread frees this
};

static GanStatus nccl_check(const Nccl *n, ncclResult_t code, const char *what) {
    if (code == ncclSuccess || code == ncclInProgress)
        return GAN_OK;
    const char *words = n->api->GetLastError(n->comm);
    return cuda_library_failed(n->cuda, "NCCL: %s failed: %s%s%.400s", what,
                               n->api->GetErrorString(code), words && *words ? ": " : "",
                               words ? words : "");
}

static GanStatus join(Nccl *n, Comm *ranks) {
    ncclUniqueId id = {{0}};
    if (comm_rank(ranks) == 0)
        TRY(nccl_check(n, n->api->GetUniqueId(&id), "starting"));
    TRY(comm_bcast(ranks, &id, sizeof id, 0));
    TRY(comm_barrier(ranks)); // from here on everybody comes, or the launcher ends the job
    ncclComm_t comm = NULL;
    TRY(nccl_check(n, n->api->InitRank(&comm, comm_size(ranks), id, comm_rank(ranks)),
                   "joining the ranks"));
    n->comm = comm;
    return GAN_OK;
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
        return fail(GAN_ERR_DEVICE, "NCCL is not found (ganrun doctor says how to fix it); "
                                    "--comm staged does without, by way of the host");
    Nccl *n = mem_alloc(sizeof *n);
    if (!n)
        return fail(GAN_ERR_MEMORY, "no memory for NCCL");
    *n = (Nccl){.cuda = c, .api = c->api->nccl};
    init_sync(n);
    *out = n; // closed by the caller on failure, too
    return join(n, ranks);
}

// --- the end -------------------------------------------------------------------------------------

static void nccl_free(Nccl *n) {
    pthread_cond_destroy(&n->changed);
    pthread_mutex_destroy(&n->lock);
    mem_free(n);
}

static void *end_main(void *user) {
    Nccl *n = user;
    n->enter(n->context);
    n->end(n->comm);
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
    double deadline = comm_options(n->cuda->base.options.comm)->deadline;
    return deadline > 0 ? fmin(fmax(deadline, least), most) : most;
}

// Returns when the library has, or the other ranks have had their time.
static void end(Nccl *n, ncclResult_t (*how)(ncclComm_t)) {
    double t = time_now() + patience(n);
    struct timespec until = {.tv_sec = (time_t)t, .tv_nsec = (long)((t - (double)(time_t)t) * 1e9)};
    n->ended = true;
    n->end = how;
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
        end(n, n->api->Abort);
}

bool nccl_close(Nccl *n, bool orderly) {
    if (!n)
        return true;
    if (n->comm && !n->ended)
        end(n, orderly ? n->api->Destroy : n->api->Abort);
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
    TRY(nccl_check(n, n->api->GetAsyncError(n->comm, &code), "querying errors"));
    return nccl_check(n, code, "a sum over the ranks");
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

GanStatus nccl_sum(Nccl *n, CUdeviceptr at, size_t bytes, Dtype dtype, CUstream stream) {
    void *data = (void *)(uintptr_t)at;
    if (n->ended)
        return fail(GAN_ERR_DEVICE, "NCCL: the communicator was aborted");
    return nccl_check(n,
                      n->api->AllReduce(data, data, bytes / dtype_size[dtype], type_of(dtype),
                                        ncclSum, n->comm, (cudaStream_t)stream),
                      "starting a sum over the ranks");
}
