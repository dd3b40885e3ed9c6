// cuda_dnn_none.c - stands in for cuda_dnn.c where cuDNN's headers were not found at build time: no
// anchor is prepared.
#include "cuda_device.h"

GanStatus cudnn_open(Cuda *c, Cudnn **out) {
    (void)c;
    *out = NULL;
    return GAN_OK;
}

void cudnn_close(Cudnn *d) {
    (void)d;
}

GanStatus cudnn_choose(CudnnCalls *calls, const Plan *p, const Epilogue *epilogue, Memory m) {
    (void)calls, (void)p, (void)epilogue, (void)m;
    return GAN_OK;
}

GanStatus cudnn_prepare(CudnnCalls *calls, const Plan *p, uint32_t id, const Epilogue *e, Memory m,
                        CudnnCall **out) {
    (void)calls, (void)p, (void)id, (void)e, (void)m;
    *out = NULL;
    return GAN_OK;
}

int64_t cudnn_call_ns(const CudnnCall *call) {
    (void)call;
    return 0;
}

size_t cudnn_call_workspace(const CudnnCall *call) {
    (void)call;
    bug("a call was prepared without the library");
}

GanStatus cudnn_place(CudnnCall *call, CUdeviceptr workspace) {
    (void)call, (void)workspace;
    bug("a call was prepared without the library");
}

GanStatus cudnn_run(const CudnnCall *call) {
    (void)call;
    bug("a call was prepared without the library");
}

void cudnn_release(CudnnCalls *calls) {
    (void)calls;
}

GanStatus cudnn_rate(Cudnn *d, Dtype type, int64_t n, double *gflops) {
    (void)d, (void)type, (void)n;
    *gflops = 0;
    return GAN_OK;
}
