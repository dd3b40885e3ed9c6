// cuda_nccl_none.c - stands in for cuda_nccl.c where NCCL's header was not found at build time.
#include "cuda_device.h"

GanStatus nccl_open(Cuda *c, Comm *ranks, Nccl **out) {
    (void)c, (void)ranks;
    *out = NULL;
    return fail(GAN_ERR_DEVICE,
                "this program was built without NCCL's header; --comm staged sums by "
                "way of the host");
}

void nccl_abort(Nccl *n) {
    (void)n;
}

bool nccl_close(Nccl *n, bool orderly) {
    (void)n, (void)orderly;
    return true;
}

GanStatus nccl_health(Nccl *n) {
    (void)n;
    return GAN_OK;
}

bool nccl_failed(const Nccl *n) {
    (void)n;
    return false;
}

GanStatus nccl_sum(Nccl *n, CUdeviceptr at, size_t bytes, Dtype dtype, CUstream stream) {
    (void)n, (void)at, (void)bytes, (void)dtype, (void)stream;
    return GAN_OK;
}
