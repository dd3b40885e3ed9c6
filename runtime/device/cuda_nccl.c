// cuda_nccl.c - sums over ranks by NCCL, each rank with a card of its own.
//
// In: ranks that can talk over a host link (comm.h), which carries the library's bootstrap id. Out:
// sums enqueued on a stream, where a graph may record them. The host never waits inside the library
// but while the communicator is made; what goes wrong later is asked for (nccl_health), and a
// communicator that is given up ends the kernels that wait for ranks that will not come.
#include "cuda_device.h"

struct Nccl {
    Cuda *cuda;         // borrowed
    const NcclApi *api; // borrowed
    ncclComm_t comm;    // NULL: given up
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
        TRY(nccl_check(n, n->api->GetUniqueId(&id), "beginning"));
    TRY(comm_bcast(ranks, &id, sizeof id, 0));
    TRY(comm_barrier(ranks)); // from here on everybody comes, or the launcher ends the job
    return nccl_check(n, n->api->InitRank(&n->comm, comm_size(ranks), id, comm_rank(ranks)),
                      "joining the ranks");
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
    GanStatus st = join(n, ranks);
    if (st == GAN_OK)
        *out = n;
    else
        nccl_close(n, false);
    return st;
}

void nccl_abort(Nccl *n) {
    if (n->comm)
        n->api->Abort(n->comm);
    n->comm = NULL;
}

void nccl_close(Nccl *n, bool orderly) {
    if (!n)
        return;
    if (n->comm && orderly)
        n->api->Destroy(n->comm);
    else
        nccl_abort(n);
    mem_free(n);
}

GanStatus nccl_health(Nccl *n) {
    ncclResult_t code = ncclSuccess;
    if (!n->comm)
        return fail(GAN_ERR_DEVICE, "NCCL: the ranks were given up");
    TRY(nccl_check(n, n->api->GetAsyncError(n->comm, &code), "asking for errors"));
    return nccl_check(n, code, "a sum over the ranks");
}

static ncclDataType_t type_of(Dtype t) {
    return t == DtBF16 ? ncclBfloat16 : t == DtF64 ? ncclFloat64 : ncclFloat32;
}

GanStatus nccl_sum(Nccl *n, CUdeviceptr at, size_t bytes, Dtype dtype, CUstream stream) {
    void *data = (void *)(uintptr_t)at;
    if (!n->comm)
        return fail(GAN_ERR_DEVICE, "NCCL: the ranks were given up");
    return nccl_check(n,
                      n->api->AllReduce(data, data, bytes / dtype_size[dtype], type_of(dtype),
                                        ncclSum, n->comm, (cudaStream_t)stream),
                      "starting a sum over the ranks");
}
