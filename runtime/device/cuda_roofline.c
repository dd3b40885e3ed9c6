// cuda_roofline.c - measured peaks of the card: large matrix products in f32 (TF32 unless it is
// off), bf16 and f16, and device-to-device copies. Best of several, by events.
#include "cuda_device.h"

enum { SIDE = 8192, COPIES = 5 };
static const size_t COPY_BYTES = (size_t)1 << 28;

static GanStatus time_copies(Cuda *c, CUdeviceptr to, CUdeviceptr from, CUevent begin, CUevent end,
                             double *gbs) {
    *gbs = 0;
    for (int i = 0; i < COPIES; i++) {
        float ms = 0;
        CUDA_TRY(c, EventRecord(begin, c->compute), "recording an event");
        CUDA_TRY(c, MemcpyDtoDAsync(to, from, COPY_BYTES, c->compute), "copying on the card");
        CUDA_TRY(c, EventRecord(end, c->compute), "recording an event");
        CUDA_TRY(c, EventSynchronize(end), "waiting for a copy");
        CUDA_TRY(c, EventElapsedTime(&ms, begin, end), "timing a copy");
        double rate = ms > 0 ? 2e-6 * (double)COPY_BYTES / ms : 0; // read and written
        *gbs = rate > *gbs ? rate : *gbs;
    }
    return GAN_OK;
}

static GanStatus copy_rate(Cuda *c, double *gbs) {
    CUdeviceptr from = 0, to = 0;
    CUevent begin = NULL, end = NULL;
    GanStatus st = GAN_OK;
    TRY_OUT(cuda_alloc(c, COPY_BYTES, &from));
    TRY_OUT(cuda_alloc(c, COPY_BYTES, &to));
    TRY_OUT(cuda_check(c, c->cu->EventCreate(&begin, CU_EVENT_DEFAULT), "creating an event"));
    TRY_OUT(cuda_check(c, c->cu->EventCreate(&end, CU_EVENT_DEFAULT), "creating an event"));
    TRY_OUT(time_copies(c, to, from, begin, end, gbs));
out:
    if (begin)
        c->cu->EventDestroy(begin);
    if (end)
        c->cu->EventDestroy(end);
    cuda_free(c, from);
    cuda_free(c, to);
    return st;
}

GanStatus cuda_roofline(Device *d, Roofline *out) {
    Cuda *c = (Cuda *)d;
    *out = (Roofline){0};
    TRY(cuda_enter(c));
    const struct {
        Dtype type;
        double *gflops;
    } of[] = {{DtF32, &out->gflops_f32}, {DtBF16, &out->gflops_bf16}, {DtF16, &out->gflops_f16}};
    for (size_t i = 0; c->dnn && i < sizeof of / sizeof *of; i++)
        TRY(cudnn_rate(c->dnn, of[i].type, SIDE, of[i].gflops));
    return copy_rate(c, &out->gbs);
}
