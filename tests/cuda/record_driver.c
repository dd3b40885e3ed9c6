// record_driver.c - the mock driver: the card, its objects and modules, and the table of its
// functions, one per row of cuda_driver.def; the recorder itself.
#include "record_state.h"

#include <stdlib.h>
#include <string.h>

Recorder *recording;

enum { IMAGES = 3 }; // of a plan's kernels

void complain(const char *format, ...) {
    if (*recording->complaint)
        return;
    va_list args;
    va_start(args, format);
    vsnprintf(recording->complaint, sizeof recording->complaint, format, args);
    va_end(args);
}

Arena *record_arena(void) {
    return &recording->arena;
}

static _Thread_local CUcontext current; // of this thread
static _Thread_local bool captures;     // this thread: others may do what a capture forbids

CUresult record_call(void) {
    Recorder *r = recording;
    uint64_t call = ++r->calls;
    if (r->contexts && current != (CUcontext)r)
        complain("a call by a thread that the card is not current on");
    if (r->dead)
        return r->loss;
    bool of_calls = r->mishap == MishapOnce || r->mishap == MishapSticky;
    if (!of_calls || call != r->fail_at)
        return CUDA_SUCCESS;
    r->dead = r->mishap == MishapSticky;
    return r->dead ? r->loss : CUDA_ERROR_UNKNOWN;
}

void record_captures(bool now) {
    captures = now;
}

bool in_capture(const char *call) {
    if (captures) {
        complain("%s: called while a stream is captured", call);
        recording->invalid = true;
    }
    return captures;
}

// --- objects -------------------------------------------------------------------------------------

Object *object_new(Kind kind) {
    Recorder *r = recording;
    Object *o = arena_new(&r->arena, Object);
    *o = (Object){.kind = kind, .live = true};
    vec_push(&r->arena, &r->object, o);
    return o;
}

Object *object_get(void *handle, Kind kind, const char *call) {
    Object *o = handle;
    if (!o || o->kind != kind || !o->live) {
        complain("%s: not a live object of its kind", call);
        return NULL;
    }
    return o;
}

CUresult object_end(void *handle, Kind kind, const char *call) {
    Object *o = object_get(handle, kind, call);
    CUresult code = record_call();
    if (o)
        o->live = false;
    return code;
}

// --- modules -------------------------------------------------------------------------------------

static CUresult module_load(CUmodule *out, const void *image, unsigned options,
                            CUjit_option *option, void **value) {
    CALL_OUTSIDE_CAPTURE("cuModuleLoadDataEx");
    if ((uintptr_t)image % 16)
        complain("cuModuleLoadDataEx: an image is read as it lies, on a multiple of 16 bytes");
    for (unsigned i = 0; i < options; i++)
        if (option[i] == CU_JIT_ERROR_LOG_BUFFER)
            snprintf(value[i], (uintptr_t)value[i + 1], "a word of the assembler's");
    if (recording->mishap == MishapOtherCode)
        return CUDA_ERROR_NO_BINARY_FOR_GPU;
    if (!record_takes(RECORD_CODE))
        return CUDA_ERROR_OUT_OF_MEMORY;
    Object *m = object_new(KindModule);
    m->names = str_z(&recording->arena, str_c(image)); // the caller may free the image
    *out = (CUmodule)m;
    return CUDA_SUCCESS;
}

static CUresult module_unload(CUmodule m) {
    in_capture("cuModuleUnload");
    record_gives(RECORD_CODE);
    return object_end(m, KindModule, "cuModuleUnload");
}

typedef struct Function { // what a CUfunction points to
    const char *name;
    bool loaded;     // launched outside a capture before
    unsigned shared; // bytes of dynamic shared memory it may have
} Function;

static CUresult module_function(CUfunction *out, CUmodule m, const char *name) {
    CALL();
    const Object *o = object_get(m, KindModule, "cuModuleGetFunction");
    const char *at = o ? strstr(o->names, name) : NULL;
    if (!at)
        return CUDA_ERROR_NOT_FOUND;
    Function *f = arena_new(&recording->arena, Function);
    f->name = str_z(&recording->arena, str_c(name));
    f->shared = 48 << 10; // more must be asked for
    *out = (CUfunction)f;
    return CUDA_SUCCESS;
}

const char *function_name(CUfunction f) {
    return ((const Function *)f)->name;
}

static CUresult function_set(CUfunction f, CUfunction_attribute what, int value) {
    if (what == CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES)
        ((Function *)f)->shared = (unsigned)value;
    return record_call();
}

static CUresult launch(CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx,
                       unsigned by, unsigned bz, unsigned shared, CUstream s, void **params,
                       void **extra) {
    CALL();
    Function *function = (Function *)f;
    Work w = {.kind = WorkLaunch, .name = function->name};
    if (!function->loaded)
        function->loaded = !in_capture("the first launch of a kernel");
    if (!gx || !gy || gz != 1 || !bx || bx > 1024 || by != 1 || bz != 1 || gy > 65535 || extra ||
        shared > 227 << 10)
        complain("%s: a grid of %ux%u blocks of %u threads", w.name, gx, gy, bx);
    if (shared > function->shared)
        complain("%s: %u bytes of shared memory, and %u are allowed", w.name, shared,
                 function->shared);
    Str name = str_c(w.name);
    if (str_eq(name, STR("gan_begin"))) {
        begin_block(s, params[0], *(CUdeviceptr *)params[1], *(CUdeviceptr *)params[2]);
        return CUDA_SUCCESS;
    }
    if (str_ends(name, STR("_many"))) {
        CUdeviceptr table = *(CUdeviceptr *)params[0];
        size_t bytes = launch_words(w.name) * sizeof(uint64_t);
        add_access(&w, table, gy * bytes, false);
        for (unsigned i = 0; i < gy && all_there(&w); i++)
            if (!launch_accesses(w.name, (const void *)(host_of(table) + i * bytes), &w))
                complain("%s: instance %u has arguments of no region", w.name, i);
    } else if (gy != 1 || !launch_accesses(w.name, params[0], &w)) {
        complain("%s: arguments of no region", w.name);
    }
    w.counters = *(CUdeviceptr *)params[1];
    add_access(&w, w.counters, sizeof(Counters), false);
    record_work(s, w);
    return CUDA_SUCCESS;
}

// --- the card ------------------------------------------------------------------------------------

static CUresult init(unsigned flags) {
    (void)flags;
    CALL();
    return recording->mishap == MishapNoCard ? CUDA_ERROR_NO_DEVICE : CUDA_SUCCESS;
}

static CUresult driver_version(int *out) {
    CALL();
    *out = recording->mishap == MishapOldDriver ? 11040 : 13000;
    return CUDA_SUCCESS;
}

static CUresult error_name(CUresult code, const char **out) {
    *out = code == CUDA_ERROR_ILLEGAL_ADDRESS ? "CUDA_ERROR_ILLEGAL_ADDRESS" : "CUDA_ERROR";
    return CUDA_SUCCESS;
}

static CUresult error_string(CUresult code, const char **out) {
    *out = code == CUDA_ERROR_ILLEGAL_ADDRESS ? "an illegal memory access was encountered"
                                              : "a recorded error";
    return CUDA_SUCCESS;
}

static CUresult device_count(int *out) {
    CALL();
    *out = 1;
    return CUDA_SUCCESS;
}

static CUresult device_get(CUdevice *out, int i) {
    CALL();
    *out = i;
    return CUDA_SUCCESS;
}

static CUresult device_name(char *out, int n, CUdevice d) {
    (void)d;
    CALL();
    snprintf(out, (size_t)n, "%s", recording->card);
    return CUDA_SUCCESS;
}

static CUresult device_uuid(CUuuid *out, CUdevice d) {
    (void)d;
    CALL();
    for (size_t i = 0; i < sizeof out->bytes; i++)
        out->bytes[i] = (char)(i * 17);
    return CUDA_SUCCESS;
}

static CUresult device_attribute(int *out, CUdevice_attribute what, CUdevice d) {
    (void)d;
    CALL();
    bool old = recording->mishap == MishapOldCard;
    *out = what == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR ? (old ? 6 : 9) : 0;
    return CUDA_SUCCESS;
}

static CUresult context_retain(CUcontext *out, CUdevice d) {
    (void)d;
    CALL();
    recording->contexts++;
    current = NULL; // retaining does not make it current
    *out = (CUcontext)recording;
    return CUDA_SUCCESS;
}

static CUresult context_release(CUdevice d) {
    (void)d;
    if (--recording->contexts < 0)
        complain("the context is released more often than retained");
    return record_call();
}

static CUresult context_set(CUcontext c) {
    current = c;
    return record_call();
}

static CudaDriver driver = {
    // and the rows of the other files
    .Init = init,
    .DriverGetVersion = driver_version,
    .GetErrorName = error_name,
    .GetErrorString = error_string,
    .DeviceGetCount = device_count,
    .DeviceGet = device_get,
    .DeviceGetName = device_name,
    .DeviceGetUuid = device_uuid,
    .DeviceGetAttribute = device_attribute,
    .DevicePrimaryCtxRetain = context_retain,
    .DevicePrimaryCtxRelease = context_release,
    .CtxSetCurrent = context_set,
    .ModuleLoadDataEx = module_load,
    .ModuleUnload = module_unload,
    .ModuleGetFunction = module_function,
    .FuncSetAttribute = function_set,
    .LaunchKernel = launch,
};

// --- the recorder --------------------------------------------------------------------------------

// Images are the names of their kernels, and of the runtime's own.
static GanStatus compile(void *user, const CudaKernels *k, Arena *a, CudaImages *out) {
    (void)user;
    uint32_t n = k->plan->kernel.n;
    if (recording->no_kernels)
        return fail(GAN_ERR_DEVICE, "a recorded error: no kernel compiles");
    *out = (CudaImages){IMAGES, arena_array(a, Str, IMAGES), arena_array(a, uint32_t, n), NONE};
    for (uint32_t i = 0; i < IMAGES; i++)
        out->code[i] = STR(" ");
    if (k->service && !recording->no_service) {
        out->service = IMAGES - 1;
        out->code[out->service] = STR(" gan_begin gan_fill");
    }
    for (uint32_t i = 0; i < n; i++) {
        Str *image = &out->code[i % IMAGES];
        out->of[i] = k->wanted[i] ? i % IMAGES : NONE;
        if (k->wanted[i])
            *image = str_format(a, "%.*s %.*s", SARG(*image), SARG(k->plan->kernel.at[i].name));
    }
    return GAN_OK;
}

static const CuptiApi *cupti(void *user) {
    (void)user;
    return &record_cupti_api;
}

Recorder *recorder_new(size_t memory) {
    Arena arena;
    assert(!recording);
    if (arena_init(&arena, 0) != GAN_OK)
        bug("%s", gan_error());
    Recorder *r = recording = arena_new(&arena, Recorder);
    *r = (Recorder){.memory = memory,
                    .loss = CUDA_ERROR_ILLEGAL_ADDRESS,
                    .card = "a recorded card",
                    .api = {.driver = &driver,
                            .dnn = &record_dnn_api,
                            .compile = compile,
                            .fft = RECORD_FFT,
                            .nccl = RECORD_NCCL,
                            .cupti = cupti}};
    r->arena = arena;
    r->order = order_new(&r->arena);
    r->nearest = UINT64_MAX;
    record_memory_rows(&driver);
    record_stream_rows(&driver);
    record_dnn_begin();
    record_fft_begin();
    record_nccl_begin();
    record_cupti_begin();
    record_plan_begin();
    return r;
}

void recorder_free(Recorder *r) {
    Arena arena = r->arena;
    for (uint32_t i = 0; i < r->piece.n; i++)
        if (r->piece.at[i].live)
            mem_free_aligned(r->piece.at[i].host);
    for (uint32_t i = 0; i < r->object.n; i++)
        if (r->object.at[i]->kind == KindPinned && r->object.at[i]->live)
            free(r->object.at[i]->host);
    for (uint32_t i = 0; i < r->transfer.n; i++)
        free(r->transfer.at[i].bytes);
    recording = NULL;
    arena_release(&arena);
}

const CudaApi *recorder_api(Recorder *r) {
    return &r->api;
}

void recorder_card(Recorder *r, const char *name) {
    r->card = name;
}

void recorder_loss(Recorder *r, CUresult code) {
    r->loss = code;
}

Mishap record_mishap(void) {
    return recording->mishap;
}

void recorder_without_dnn(Recorder *r, const char *why) {
    r->api.dnn = NULL;
    r->api.no_dnn = why;
}

void recorder_without_fft(Recorder *r) {
    r->api.fft = NULL;
}

void recorder_without_cupti(Recorder *r) {
    r->api.cupti = NULL;
}

void recorder_without_service(Recorder *r) {
    r->no_service = true;
}

void recorder_refusing_kernels(Recorder *r) {
    r->no_kernels = true;
}

void recorder_refusing_fft(Recorder *r) {
    (void)r; // the only one
    record_fft_refuses();
}

void recorder_greedy_dnn(Recorder *r, size_t bytes) {
    (void)r;
    record_dnn_greed(bytes);
}

void recorder_slow_epilogues(Recorder *r) {
    (void)r;
    record_dnn_slow_epilogues();
}

void recorder_slow_engines(Recorder *r) {
    (void)r;
    record_dnn_slow();
}

void recorder_greedy_fft(Recorder *r, size_t bytes) {
    (void)r;
    record_fft_greed(bytes);
}

uint64_t recorder_dnn_queries(const Recorder *r) {
    (void)r;
    return record_dnn_queries();
}

size_t recorder_most_memory(const Recorder *r) {
    return r->most;
}

const WorkVec *recorder_work(const Recorder *r) {
    return &r->work;
}

uint32_t recorder_live(const Recorder *r) {
    uint32_t n = record_dnn_live() + record_fft_live() + record_nccl_live() + record_cupti_live() +
                 (uint32_t)r->contexts;
    for (uint32_t i = 0; i < r->piece.n; i++)
        n += r->piece.at[i].live;
    for (uint32_t i = 0; i < r->object.n; i++)
        n += r->object.at[i]->live;
    return n;
}

const char *recorder_complaint(const Recorder *r) {
    return *r->complaint ? r->complaint : NULL;
}

uint64_t recorder_calls(const Recorder *r) {
    return r->calls;
}

uint64_t recorder_edges(const Recorder *r) {
    return r->edges;
}

uint64_t recorder_made_graphs(const Recorder *r) {
    return r->made;
}

uint64_t recorder_nearest_wait(Recorder *r) {
    uint64_t nearest = r->nearest;
    r->nearest = UINT64_MAX;
    return nearest;
}

size_t recorder_launched_graphs(const Recorder *r) {
    return r->graphs;
}

void recorder_mishap(Recorder *r, Mishap m, uint64_t nth) {
    r->mishap = m;
    r->launches = r->edges = 0;
    r->fail_at = m == MishapKernel || m == MishapDropEdge ? nth
                 : m == MishapOnce || m == MishapSticky   ? r->calls + nth
                                                          : 0;
}
