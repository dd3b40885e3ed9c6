// record_fft.c - the mock cuFFT: plans that store their parameters, transforms that report what
// they read and write. As in the real library, a transform to real numbers may overwrite its
// input.
#include "record.h"

#include <stdlib.h>

static uint32_t live;
static bool refuses;
static size_t workspace; // bytes a plan requires

void record_fft_begin(void) {
    live = 0;
    refuses = false;
    workspace = 3000;
}

void record_fft_greed(size_t bytes) {
    workspace = bytes;
}

void record_fft_refuses(void) {
    refuses = true;
}

uint32_t record_fft_live(void) {
    return live;
}

#ifdef GAN_HAVE_CUFFT

enum { PLANS = 64 };

typedef struct Transform {
    bool made, planned, own_room;
    bool ran; // executed outside a capture
    cufftType type;
    long long in, out, batch; // numbers of a line of input and output
    CUstream stream;
    void *room;
} Transform;

static Transform plans[PLANS];

#define CALL()                                                                                     \
    do {                                                                                           \
        if (record_call() != CUDA_SUCCESS)                                                         \
            return CUFFT_INTERNAL_ERROR;                                                           \
    } while (0)

static cufftResult create(cufftHandle *out) {
    CALL();
    int i = 0;
    while (i < PLANS && plans[i].made)
        i++;
    if (i == PLANS)
        return CUFFT_ALLOC_FAILED;
    plans[i] = (Transform){.made = true, .own_room = true};
    live++;
    *out = i;
    return CUFFT_SUCCESS;
}

static cufftResult destroy(cufftHandle h) {
    if (!plans[h].made)
        complain("cuFFT: a plan is destroyed twice");
    plans[h].made = false;
    live--;
    CALL();
    return CUFFT_SUCCESS;
}

static cufftResult set_stream(cufftHandle h, cudaStream_t s) {
    CALL();
    plans[h].stream = (CUstream)s;
    return CUFFT_SUCCESS;
}

static cufftResult set_auto_allocation(cufftHandle h, int on) {
    CALL();
    plans[h].own_room = on != 0;
    return CUFFT_SUCCESS;
}

static cufftResult set_work_area(cufftHandle h, void *room) {
    CALL();
    if (!plans[h].planned)
        return CUFFT_INVALID_PLAN;
    plans[h].room = room;
    return CUFFT_SUCCESS;
}

static cufftResult make_plan(cufftHandle h, int rank, long long *n, long long *in,
                             long long step_in, long long line_in, long long *out,
                             long long step_out, long long line_out, cufftType type,
                             long long batch, size_t *work) {
    CALL();
    in_capture("cufftMakePlanMany64");
    long long half = *n / 2 + 1;
    Transform *t = &plans[h];
    if (t->own_room)
        complain("cuFFT: a plan takes memory of its own");
    if (rank != 1 || step_in != 1 || step_out != 1 || *in != line_in || *out != line_out ||
        line_in != (type == CUFFT_C2R ? half : *n) || line_out != (type == CUFFT_R2C ? half : *n))
        complain("cuFFT: lines that are not %lld numbers one behind the other", *n);
    t->stream = NULL; // one that was set before need not stay
    t->type = type;
    t->in = line_in;
    t->out = line_out;
    t->batch = batch;
    t->planned = !refuses;
    *work = workspace;
    return refuses ? CUFFT_INVALID_SIZE : CUFFT_SUCCESS;
}

static cufftResult execute(cufftHandle h, cufftType type, const void *in, void *out) {
    CALL();
    Transform *t = &plans[h];
    Work w = {.kind = WorkLibrary, .name = "cuFFT"};
    size_t from = (size_t)(t->in * t->batch) * (type == CUFFT_R2C ? 4 : 8);
    size_t to = (size_t)(t->out * t->batch) * (type == CUFFT_C2R ? 4 : 8);
    if (!t->made || !t->planned || t->type != type || !t->room || in == out)
        complain("cuFFT: a transform is run that its plan is not for");
    if (!t->ran)
        t->ran = !in_capture("the first run of a cuFFT plan");
    vec_push(record_arena(), &w.access, ((Access){cuda_pointer(in), from, type == CUFFT_C2R}));
    vec_push(record_arena(), &w.access, ((Access){cuda_pointer(out), to, true}));
    vec_push(record_arena(), &w.access, ((Access){cuda_pointer(t->room), workspace, true}));
    record_work(t->stream, w);
    return CUFFT_SUCCESS;
}

static cufftResult complex_to_complex(cufftHandle h, cufftComplex *in, cufftComplex *out, int way) {
    if (way != CUFFT_FORWARD && way != CUFFT_INVERSE)
        complain("cuFFT: neither forward nor inverse");
    return execute(h, CUFFT_C2C, in, out);
}

static cufftResult real_to_complex(cufftHandle h, cufftReal *in, cufftComplex *out) {
    return execute(h, CUFFT_R2C, in, out);
}

static cufftResult complex_to_real(cufftHandle h, cufftComplex *in, cufftReal *out) {
    return execute(h, CUFFT_C2R, in, out);
}

const CufftApi record_fft_api = {
    .Create = create,
    .Destroy = destroy,
    .SetStream = set_stream,
    .SetAutoAllocation = set_auto_allocation,
    .SetWorkArea = set_work_area,
    .MakePlanMany = make_plan,
    .ExecC2C = complex_to_complex,
    .ExecR2C = real_to_complex,
    .ExecC2R = complex_to_real,
};

#endif
