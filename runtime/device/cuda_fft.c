// cuda_fft.c - Fourier transforms by cuFFT.
//
// In: transforms of a plan. Out: prepared calls: a cuFFT plan created at load, whose work area is
// in the launch's workspace, so that a run only passes addresses and can be captured. Lines of
// complex numbers are contiguous. Where the library refuses, or needs more work area than its
// documented worst case, our own kernel runs.
#include "cuda_device.h"

struct CufftCall {
    const Cuda *cuda; // borrowed
    FftLines lines;
    cufftHandle plan; // owned once made
    bool made;
    size_t copy, room;  // bytes of workspace: the operand's copy, then the library's
    CUdeviceptr at[2];  // operand, result
    CUdeviceptr staged; // where the copy lies
    CufftCall *next;
};

// The names of cufftResult: the library has no words for its errors. By number, since headers of
// older and newer versions name different ones.
static const char *result_name(cufftResult code) {
    static const char *const name[] = {
        [0x1] = "INVALID_PLAN",       [0x2] = "ALLOC_FAILED",        [0x3] = "INVALID_TYPE",
        [0x4] = "INVALID_VALUE",      [0x5] = "INTERNAL_ERROR",      [0x6] = "EXEC_FAILED",
        [0x7] = "SETUP_FAILED",       [0x8] = "INVALID_SIZE",        [0x9] = "UNALIGNED_DATA",
        [0xB] = "INVALID_DEVICE",     [0xD] = "NO_WORKSPACE",        [0xE] = "NOT_IMPLEMENTED",
        [0x10] = "NOT_SUPPORTED",     [0x11] = "MISSING_DEPENDENCY", [0x12] = "NVRTC_FAILURE",
        [0x13] = "NVJITLINK_FAILURE", [0x14] = "NVSHMEM_FAILURE"};
    size_t at = (size_t)code;
    return at < sizeof name / sizeof *name && name[at] ? name[at] : "RESULT";
}

static GanStatus cufft_check(const Cuda *c, cufftResult code, const char *what) {
    return code == CUFFT_SUCCESS ? GAN_OK
                                 : cuda_library_failed(c, "cuFFT: %s failed: CUFFT_%s (%d)", what,
                                                       result_name(code), (int)code);
}

// Not supported by the library: our own kernel runs.
static bool refused(cufftResult code) {
    return code == CUFFT_INVALID_SIZE || code == CUFFT_NOT_SUPPORTED ||
           code == CUFFT_NOT_IMPLEMENTED || code == CUFFT_INVALID_TYPE;
}

static size_t side_bytes(const FftLines *l, const FftSide *s) {
    return (size_t)(l->lines * s->line) * sizeof(float);
}

static cufftType type_of(const FftLines *l) {
    return l->in.real ? CUFFT_R2C : l->out.real ? CUFFT_C2R : CUFFT_C2C;
}

// *refuses: the library has no such plan.
static GanStatus make_plan(CufftCall *c, bool *refuses) {
    const CufftApi *api = c->cuda->api->fft;
    long long n = c->lines.n, in = c->lines.in.n, out = c->lines.out.n;
    TRY(cufft_check(c->cuda, api->Create(&c->plan), "creating a plan"));
    c->made = true;
    TRY(cufft_check(c->cuda, api->SetAutoAllocation(c->plan, 0), "disabling automatic allocation"));
    cufftResult code = api->MakePlanMany(c->plan, 1, &n, &in, 1, in, &out, 1, out,
                                         type_of(&c->lines), c->lines.lines, &c->room);
    *refuses = refused(code);
    if (*refuses) {
        c->room = 0;
        return GAN_OK;
    }
    TRY(cufft_check(c->cuda, code, "planning a transform"));
    // Now: the library does not promise to keep a stream that was set before.
    return cufft_check(c->cuda, api->SetStream(c->plan, (cudaStream_t)c->cuda->compute),
                       "setting the stream");
}

size_t cufft_call_workspace(const CufftCall *call) {
    return call->copy + call->room;
}

// A plan that needs no work area gets one too, so that it has no reason to ask for one when it
// runs.
GanStatus cufft_place(CufftCall *c, CUdeviceptr workspace) {
    void *room = (void *)(uintptr_t)(workspace + c->copy);
    c->staged = workspace;
    return cufft_check(c->cuda, c->cuda->api->fft->SetWorkArea(c->plan, room),
                       "setting the work area");
}

GanStatus cufft_prepare(CufftCalls *calls, const Plan *p, uint32_t id, Memory m, CufftCall **out) {
    const Graph *g = &p->func->g;
    FftLines l = fft_lines(g, id);
    bool refuses = false;
    *out = NULL;
    if (!calls->cuda->api->fft || node_type(g, id)->dtype != DtF32)
        return GAN_OK;
    CufftCall *c = arena_new(calls->arena, CufftCall);
    *c = (CufftCall){.cuda = calls->cuda, .lines = l, .next = calls->last};
    c->at[0] = cuda_pointer(memory_at(m, p, node_in(g, id, 0)));
    c->at[1] = cuda_pointer(memory_at(m, p, id));
    if (!c->at[0] || !c->at[1]) // a constant inside kernels
        return GAN_OK;
    calls->last = c;
    TRY(make_plan(c, &refuses));
    c->copy = l.out.real ? card_align(side_bytes(&l, &l.in)) : 0;
    if (!refuses && cufft_call_workspace(c) <= calls->room.bytes)
        *out = c;
    return GAN_OK;
}

// A complex-to-real transform may overwrite its input, and is undefined where the first and last
// frequency have imaginary parts: it gets a copy with those cleared.
static GanStatus stage(const CufftCall *c) {
    const Cuda *card = c->cuda;
    const FftLines *l = &c->lines;
    size_t pitch = (size_t)l->in.n * 2 * sizeof(float), bytes = side_bytes(l, &l->in);
    CUDA_TRY(card, MemcpyDtoDAsync(c->staged, c->at[0], bytes, card->compute),
             "copying frequencies");
    for (int end = 0; end < (l->n % 2 || l->n == 1 ? 1 : 2); end++) {
        CUdeviceptr imaginary = c->staged + (end ? pitch : 2 * sizeof(float)) - sizeof(float);
        CUDA_TRY(card, MemsetD2D32Async(imaginary, pitch, 0, 1, (size_t)l->lines, card->compute),
                 "clearing imaginary parts");
    }
    return GAN_OK;
}

GanStatus cufft_run(const CufftCall *c) {
    const CufftApi *api = c->cuda->api->fft;
    void *in = (void *)(uintptr_t)c->at[0], *out = (void *)(uintptr_t)c->at[1];
    if (c->lines.in.real)
        return cufft_check(c->cuda, api->ExecR2C(c->plan, in, out), "a transform of real numbers");
    if (!c->lines.out.real)
        return cufft_check(
            c->cuda,
            api->ExecC2C(c->plan, in, out, c->lines.inverse ? CUFFT_INVERSE : CUFFT_FORWARD),
            "a transform");
    TRY(stage(c));
    return cufft_check(c->cuda, api->ExecC2R(c->plan, (void *)(uintptr_t)c->staged, out),
                       "a transform to real numbers");
}

void cufft_release(CufftCalls *calls) {
    for (CufftCall *c = calls->last; c; c = c->next)
        if (c->made)
            c->cuda->api->fft->Destroy(c->plan);
    calls->last = NULL;
}
