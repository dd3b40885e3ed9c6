// cuda_fft_none.c - stands in for cuda_fft.c where cuFFT's header was not found at build time: our
// own kernels run.
#include "cuda_device.h"

GanStatus cufft_prepare(CufftCalls *calls, const Plan *p, uint32_t id, Memory m, CufftCall **out) {
    (void)calls, (void)p, (void)id, (void)m;
    *out = NULL;
    return GAN_OK;
}

size_t cufft_call_workspace(const CufftCall *call) {
    (void)call;
    bug("a call was prepared without the library");
}

GanStatus cufft_place(CufftCall *call, CUdeviceptr workspace) {
    (void)call, (void)workspace;
    bug("a call was prepared without the library");
}

GanStatus cufft_run(const CufftCall *call) {
    (void)call;
    bug("a call was prepared without the library");
}

void cufft_release(CufftCalls *calls) {
    (void)calls;
}
