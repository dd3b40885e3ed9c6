// record_nccl.c - the mock NCCL: communicators that count, all-reduces that report what they read
// and write and on which stream.
//
// As the real one does for a nonblocking communicator, it carries out a call later: the state is in
// progress for as long as it has been queried a few times, and only then is a sum on its stream. A
// call before that is a mistake. With MishapAbsent no call that other ranks take part in ends.
#include "record.h"

#include <pthread.h>
#include <stdlib.h>

static uint32_t live, aborted;

// Destructions of communicators that wait for the other ranks, each in a thread of the device.
static struct {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    uint32_t n;
    bool others_end;
} stuck = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

void record_nccl_begin(void) {
    live = aborted = 0;
    stuck.others_end = false;
}

void record_nccl_others_end(void) {
    pthread_mutex_lock(&stuck.lock);
    stuck.others_end = true;
    pthread_cond_broadcast(&stuck.changed);
    while (stuck.n)
        pthread_cond_wait(&stuck.changed, &stuck.lock);
    pthread_mutex_unlock(&stuck.lock);
}

uint32_t record_nccl_live(void) {
    return live;
}

uint32_t record_nccl_aborted(void) {
    return aborted;
}

#ifdef GAN_HAVE_NCCL

#define CALL()                                                                                     \
    do {                                                                                           \
        if (record_call() != CUDA_SUCCESS)                                                         \
            return ncclUnhandledCudaError;                                                         \
    } while (0)

static const char *error_string(ncclResult_t code) {
    return code == ncclRemoteError ? "remote process exited" : "unhandled cuda error";
}

static const char *last_error(ncclComm_t c) {
    (void)c;
    return "a recorded error";
}

static ncclResult_t unique_id(ncclUniqueId *out) {
    CALL();
    out->internal[0] = 42;
    return ncclSuccess;
}

struct ncclComm {
    int queries;     // until the last call has been carried out
    CUstream stream; // of the sum that was called for; NULL: none was
    Work sum;
    bool finalized;
};

enum { Queries = 2 };

// Every call of a communicator, but those that query or abort it.
static ncclResult_t begin_call(ncclComm_t c, const char *call) {
    CALL();
    if (c->queries)
        complain("%s: the call before is still in progress", call);
    if (c->finalized)
        complain("%s: the communicator is finalized", call);
    c->queries = Queries;
    return ncclInProgress;
}

static ncclResult_t init_rank(ncclComm_t *out, int ranks, ncclUniqueId id, int rank,
                              ncclConfig_t *config) {
    CALL();
    in_capture("ncclCommInitRankConfig");
    if (rank < 0 || rank >= ranks || id.internal[0] != 42)
        complain("NCCL: rank %d of %d with another id than rank 0's", rank, ranks);
    if (config->blocking)
        complain("NCCL: a blocking communicator waits without end for ranks that do not come");
    *out = calloc(1, sizeof **out);
    (*out)->queries = Queries;
    live++;
    return ncclInProgress;
}

static ncclResult_t async_error(ncclComm_t c, ncclResult_t *out) {
    CALL();
    *out = record_mishap() == MishapRemote ? ncclRemoteError : ncclInProgress;
    if (*out == ncclRemoteError || (c->queries && record_mishap() == MishapAbsent))
        return ncclSuccess;
    if (c->queries && --c->queries)
        return ncclSuccess;
    if (c->stream)
        record_work(c->stream, c->sum);
    c->stream = NULL;
    *out = ncclSuccess;
    return ncclSuccess;
}

static ncclResult_t all_reduce(const void *from, void *to, size_t n, ncclDataType_t type,
                               ncclRedOp_t op, ncclComm_t c, cudaStream_t stream) {
    ncclResult_t code = begin_call(c, "ncclAllReduce");
    if (from != to || op != ncclSum || !n)
        complain("NCCL: not a sum in place");
    if (code != ncclInProgress)
        return code;
    const bool half = type == ncclBfloat16 || type == ncclFloat16;
    size_t bytes = n * (half ? 2 : type == ncclFloat64 ? 8 : 4);
    c->sum = (Work){.kind = WorkLibrary, .name = "ncclAllReduce"};
    vec_push(record_arena(), &c->sum.access, ((Access){cuda_pointer(to), bytes, true}));
    c->stream = (CUstream)stream;
    return code;
}

static ncclResult_t finalize(ncclComm_t c) {
    ncclResult_t code = begin_call(c, "ncclCommFinalize");
    c->finalized = true;
    return code;
}

static ncclResult_t take_apart(ncclComm_t c, bool abort) {
    in_capture("the end of a communicator");
    if (!abort && (!c->finalized || c->queries))
        complain("NCCL: a communicator is destroyed that was not finalized");
    if (record_graph_has("ncclAllReduce")) // the library waits until the graph ends
        complain("NCCL: a communicator is ended that a captured graph names, which takes for ever");
    aborted += abort;
    free(c);
    live--;
    CALL();
    return ncclSuccess;
}

static ncclResult_t end(ncclComm_t c, bool abort) {
    if (record_mishap() != MishapStuckEnd)
        return take_apart(c, abort);
    pthread_mutex_lock(&stuck.lock);
    stuck.n++;
    while (!stuck.others_end)
        pthread_cond_wait(&stuck.changed, &stuck.lock);
    ncclResult_t code = take_apart(c, abort);
    stuck.n--;
    pthread_cond_broadcast(&stuck.changed);
    pthread_mutex_unlock(&stuck.lock);
    return code;
}

static ncclResult_t comm_destroy(ncclComm_t c) {
    return end(c, false);
}

static ncclResult_t comm_abort(ncclComm_t c) {
    return end(c, true);
}

const NcclApi record_nccl_api = {
    .GetErrorString = error_string,
    .GetLastError = last_error,
    .GetUniqueId = unique_id,
    .InitRankConfig = init_rank,
    .GetAsyncError = async_error,
    .AllReduce = all_reduce,
    .Abort = comm_abort,
    .Finalize = finalize,
    .Destroy = comm_destroy,
};

#endif
