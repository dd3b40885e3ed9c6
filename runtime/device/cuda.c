// cuda.c - the cuda device: one card, its context and its memory.
//
// In: a table of the driver's functions. Out: a Device whose work is in order on one stream. It
// retains the card's primary context, which is the one that the libraries' CUDA runtime uses.
// Errors carry the driver's own words; failed allocations say how much is missing.
#include "cuda_busy.h"
#include "cuda_plan.h"
#include "cache.h"

#include <string.h>

// --- errors --------------------------------------------------------------------------------------

// The context is lost, mostly to a kernel that ran: every call from then on fails with this code.
static bool is_sticky(CUresult code) {
    enum { CONTAINED = 226, TENSOR_MEMORY_LEAK = 721 }; // as headers from CUDA 12.8 on name them
    switch ((int)code) {
    case CUDA_ERROR_ILLEGAL_ADDRESS:
    case CUDA_ERROR_MISALIGNED_ADDRESS:
    case CUDA_ERROR_INVALID_ADDRESS_SPACE:
    case CUDA_ERROR_INVALID_PC:
    case CUDA_ERROR_ILLEGAL_INSTRUCTION:
    case CUDA_ERROR_HARDWARE_STACK_ERROR:
    case CUDA_ERROR_LAUNCH_FAILED:
    case CUDA_ERROR_LAUNCH_TIMEOUT:
    case CUDA_ERROR_ASSERT:
    case CUDA_ERROR_ECC_UNCORRECTABLE:
    case CUDA_ERROR_NVLINK_UNCORRECTABLE:
    case CONTAINED:
    case TENSOR_MEMORY_LEAK:
        return true;
    default:
        return false;
    }
}

GanStatus cuda_check(const Cuda *c, CUresult code, const char *what, ...) {
    if (code == CUDA_SUCCESS)
        return GAN_OK;
    char text[512];
    va_list args;
    va_start(args, what);
    vsnprintf(text, sizeof text, what, args);
    va_end(args);
    const char *name = NULL, *words = NULL;
    c->cu->GetErrorName(code, &name);
    c->cu->GetErrorString(code, &words);
    GanStatus st = fail(code == CUDA_ERROR_OUT_OF_MEMORY ? GAN_ERR_MEMORY : GAN_ERR_DEVICE,
                        "cuda: %s failed: %s (%s %d)", text, words ? words : "no words for it",
                        name ? name : "error", (int)code);
    if (!is_sticky(code) || !c->running)
        return st;
    Arena scratch;
    if (arena_init(&scratch, (size_t)1 << 20) != GAN_OK)
        return st;
    st = fail_in(st, "%s", cuda_suspects(&scratch, c).ptr);
    arena_release(&scratch);
    return st;
}

GanStatus cuda_library_failed(const Cuda *c, const char *words, ...) {
    char text[700];
    va_list args;
    va_start(args, words);
    vsnprintf(text, sizeof text, words, args);
    va_end(args);
    CUresult code = c->cu->StreamQuery(c->compute);
    if (is_sticky(code))
        return fail_in(cuda_check(c, code, "earlier work"), "%s", text);
    return fail(GAN_ERR_DEVICE, "%s", text);
}

GanStatus cuda_order(const Cuda *c, CUstream first, CUevent event, CUstream second) {
    CUDA_TRY(c, EventRecord(event, first), "recording an event");
    CUDA_TRY(c, StreamWaitEvent(second, event, 0), "ordering two streams");
    return GAN_OK;
}

GanStatus cuda_enter(const Cuda *c) {
    return cuda_check(c, c->cu->CtxSetCurrent(c->context), "making the context current");
}

void cuda_leave(const Cuda *c) {
    if (c->context)
        c->cu->CtxSetCurrent(c->context);
}

// --- the card ------------------------------------------------------------------------------------

// For errors whose cause is outside of this program: another user of the card, its kernel module.
static GanStatus unusable(GanStatus st) {
    return st == GAN_OK ? GAN_OK
                        : fail_in(st, "the card cannot be used (nvidia-smi may say why; --device "
                                      "cpu works here)");
}

static GanStatus check_driver(const Cuda *c) {
    int version = 0, cards = 0;
    CUresult code = c->cu->Init(0);
    if (code == CUDA_SUCCESS)
        code = c->cu->DeviceGetCount(&cards);
    if (code == CUDA_ERROR_NO_DEVICE || (code == CUDA_SUCCESS && !cards))
        return fail(GAN_ERR_DEVICE,
                    "the NVIDIA driver finds no card in this machine, or CUDA_VISIBLE_DEVICES "
                    "hides it; --device cpu works here");
    TRY(unusable(cuda_check(c, code, "starting the driver")));
    CUDA_TRY(c, DriverGetVersion(&version), "querying the driver version");
    if (version < CUDA_OLDEST_DRIVER)
        return fail(GAN_ERR_DEVICE,
                    "the NVIDIA driver is for CUDA %d.%d, and CUDA %d.%d or newer is needed; "
                    "--device cpu works here",
                    version / 1000, version % 1000 / 10, CUDA_OLDEST_DRIVER / 1000,
                    CUDA_OLDEST_DRIVER % 1000 / 10);
    return GAN_OK;
}

static GanStatus find_card(Cuda *c) {
    int major = 0, minor = 0, cards = 0, card = 0;
    CUDA_TRY(c, DeviceGetCount(&cards), "counting the cards");
    TRY(cuda_comm_card(c->base.options.comm, cards, &card));
    CUDA_TRY(c, DeviceGet(&c->device, card), "finding the card");
    CUDA_TRY(c, DeviceGetName(c->name, sizeof c->name, c->device), "querying the card's name");
    CUDA_TRY(c, DeviceGetAttribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, c->device),
             "querying the compute capability");
    CUDA_TRY(c, DeviceGetAttribute(&minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, c->device),
             "querying the compute capability");
    c->arch = major * 10 + minor;
    if (c->arch < CUDA_OLDEST_ARCH)
        return fail(GAN_ERR_DEVICE,
                    "%s has compute capability %d.%d, and %d.%d or newer is needed; --device cpu "
                    "works here",
                    c->name, major, minor, CUDA_OLDEST_ARCH / 10, CUDA_OLDEST_ARCH % 10);
    return GAN_OK;
}

static void close_card(Cuda *c) {
    cuda_leave(c);
    cuda_busy_close(c);
    bool whole = cuda_comm_close(c, c->comm); // else the process is about to end
    cudnn_close(c->dnn);
    cuda_copies_close(c, c->copies);
    if (c->mark)
        c->cu->MemFreeHost(c->mark);
    CUstream stream[] = {c->upload, c->aside, c->compute};
    for (int i = 0; i < 3; i++)
        if (stream[i])
            c->cu->StreamDestroy(stream[i]);
    if (c->beside)
        c->cu->EventDestroy(c->beside);
    if (c->context && whole)
        c->cu->DevicePrimaryCtxRelease(c->device);
}

// Without a cuDNN that works here, products are left to our own kernels. One rank does not decide
// that alone: all must compute what they replicate in one way.
static GanStatus find_dnn(Cuda *c) {
    char text[1500];
    GanStatus st = cudnn_open(c, &c->dnn);
    if (c->dnn || st == GAN_ERR_MEMORY || (st != GAN_OK && comm_size(c->base.options.comm) > 1))
        return st;
    snprintf(text, sizeof text,
             "cuDNN cannot be used (%s): convolutions and matrix products run on kernels of our "
             "own, slower",
             st == GAN_OK ? c->api->no_dnn : gan_error());
    device_notice(&c->base, text);
    return GAN_OK;
}

// Without a folder of our own kernels are compiled every time.
static void find_cache(Cuda *c) {
    Arena scratch;
    Str dir = c->base.options.cache_dir;
    if (!dir.len || arena_init(&scratch, (size_t)1 << 20) != GAN_OK)
        return;
    c->keep.notice = c->base.options.notice;
    c->keep.user = c->base.options.user;
    if (cache_dir(&scratch, dir, c->base.options.cache_limit) == GAN_OK)
        c->cache_dir = dir;
    else
        cache_tell(&c->keep, &scratch);
    arena_release(&scratch);
}

static GanStatus open_card(Cuda *c) {
    find_cache(c);
    TRY(check_driver(c));
    TRY(find_card(c));
    TRY(unusable(cuda_check(c, c->cu->DevicePrimaryCtxRetain(&c->context, c->device), "opening %s",
                            c->name)));
    TRY(cuda_enter(c));
    CUDA_TRY(c, StreamCreate(&c->compute, CU_STREAM_NON_BLOCKING), "creating a stream");
    CUDA_TRY(c, StreamCreate(&c->upload, CU_STREAM_NON_BLOCKING), "creating a stream");
    CUDA_TRY(c, StreamCreate(&c->aside, CU_STREAM_NON_BLOCKING), "creating a stream");
    CUDA_TRY(c, EventCreate(&c->beside, CU_EVENT_DISABLE_TIMING), "creating an event");
    CUDA_TRY(c, MemAllocHost((void **)&c->mark, sizeof *c->mark), "pinning %zu bytes",
             sizeof *c->mark);
    *c->mark = (CudaMark){.crumb = {NONE, NONE}};
    TRY(cuda_copies_open(c, &c->copies));
    TRY(cuda_comm_open(c, &c->comm));
    return find_dnn(c);
}

GanStatus cuda_open_with(const CudaApi *api, const DeviceOptions *o, Device **out) {
    *out = NULL;
    Cuda *c = mem_alloc(sizeof *c);
    if (!c)
        return fail(GAN_ERR_MEMORY, "no memory for the cuda device");
    *c = (Cuda){
        .base = {.api = &device_cuda, .options = *o, .threads = device_threads_for(o->threads)},
        .api = api,
        .cu = api->driver,
        .replay = o->no_graph      ? ReplayNone
                  : o->no_branches ? ReplayChain
                                   : ReplayBranches};
    GanStatus st = open_card(c);
    if (st != GAN_OK) {
        close_card(c);
        mem_free(c);
        return st;
    }
    *out = &c->base;
    return GAN_OK;
}

GanStatus cuda_card_with(const CudaApi *api, const DeviceOptions *o, char *out, size_t n) {
    Cuda c = {.base.options = *o, .api = api, .cu = api->driver};
    CUuuid id;
    TRY(check_driver(&c));
    TRY(find_card(&c));
    TRY(cuda_check(&c, c.cu->DeviceGetUuid(&id, c.device), "querying the card's UUID"));
    // Of an instance of a divided card (MIG) the driver gives the instance's UUID. Its name alone
    // tells that it is one: "NVIDIA H100 80GB HBM3 MIG 1g.10gb".
    int at = snprintf(out, n, "%s (%s-", c.name, strstr(c.name, " MIG ") ? "MIG" : "GPU");
    for (size_t i = 0; i < sizeof id.bytes && at > 0 && (size_t)at < n; i++) {
        const char *dash = i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "";
        at += snprintf(out + at, n - (size_t)at, "%s%02x", dash, (unsigned char)id.bytes[i]);
    }
    if (at > 0 && (size_t)at < n)
        snprintf(out + at, n - (size_t)at, ")");
    return GAN_OK;
}

static GanStatus cuda_card(const DeviceOptions *o, char *out, size_t n) {
    CudaMachine *m;
    TRY(cuda_machine_open(o, &m));
    GanStatus st = cuda_card_with(cuda_machine_api(m), o, out, n);
    cuda_machine_close(m);
    return st;
}

static GanStatus cuda_open(const DeviceOptions *o, Device **out) {
    CudaMachine *m;
    TRY(cuda_machine_open(o, &m));
    GanStatus st = cuda_open_with(cuda_machine_api(m), o, out);
    if (st == GAN_OK)
        ((Cuda *)*out)->machine = m;
    else
        cuda_machine_close(m);
    return st;
}

static void cuda_close(Device *d) {
    if (!d)
        return;
    Cuda *c = (Cuda *)d;
    CudaMachine *m = c->machine;
    close_card(c);
    mem_free(c);
    cuda_machine_close(m);
}

// --- memory --------------------------------------------------------------------------------------

static double mib(size_t bytes) {
    return (double)bytes / 1048576;
}

GanStatus cuda_reserve(Cuda *c, size_t bytes, CUdeviceptr *out) {
    size_t room = 0, all = 0;
    *out = 0;
    bytes = bytes ? bytes : CARD_ALIGN;
    CUDA_TRY(c, MemGetInfo(&room, &all), "querying free memory");
    CUresult code = bytes > room ? CUDA_ERROR_OUT_OF_MEMORY : c->cu->MemAlloc(out, bytes);
    if (code == CUDA_ERROR_OUT_OF_MEMORY)
        return fail(GAN_ERR_MEMORY,
                    "%s has %.1f of its %.1f MiB free, and %zu bytes (%.1f MiB) are needed: "
                    "%.1f MiB are missing",
                    c->name, mib(room), mib(all), bytes, mib(bytes),
                    bytes > room ? mib(bytes - room) : mib(bytes));
    return cuda_check(c, code, "allocating %zu bytes", bytes);
}

GanStatus cuda_alloc(Cuda *c, size_t bytes, CUdeviceptr *out) {
    bytes = bytes ? bytes : CARD_ALIGN;
    TRY(cuda_reserve(c, bytes, out));
    GanStatus st = cuda_check(c, c->cu->MemsetD8Async(*out, 0, bytes, c->compute),
                              "clearing %zu bytes", bytes);
    if (st != GAN_OK) {
        cuda_free(c, *out);
        *out = 0;
    }
    return st;
}

void cuda_free(Cuda *c, CUdeviceptr at) {
    if (at)
        c->cu->MemFree(at);
}

static GanStatus device_alloc(Device *d, size_t bytes, void **out) {
    Cuda *c = (Cuda *)d;
    CUdeviceptr at = 0;
    *out = NULL;
    TRY(cuda_enter(c));
    TRY(cuda_alloc(c, bytes, &at));
    *out = (void *)(uintptr_t)at;
    return GAN_OK;
}

static void device_release(Device *d, void *ptr) {
    Cuda *c = (Cuda *)d;
    cuda_leave(c);
    cuda_free(c, cuda_pointer(ptr));
}

static GanStatus device_put(Device *d, void *to, const void *from, size_t n) {
    Cuda *c = (Cuda *)d;
    TRY(cuda_enter(c));
    return cuda_put(c, cuda_pointer(to), from, n);
}

static GanStatus device_get(Device *d, void *to, const void *from, size_t n) {
    Cuda *c = (Cuda *)d;
    TRY(cuda_enter(c));
    return cuda_get(c, to, cuda_pointer(from), n);
}

static GanStatus device_fetch(Device *d, const void *from, size_t n, uint64_t *ticket) {
    Cuda *c = (Cuda *)d;
    TRY(cuda_enter(c));
    return cuda_fetch(c, cuda_pointer(from), n, ticket);
}

static GanStatus device_fetched(Device *d, uint64_t ticket, void *to, size_t n) {
    Cuda *c = (Cuda *)d;
    TRY(cuda_enter(c));
    return cuda_fetched(c, ticket, to, n);
}

static GanStatus device_sync(Device *d) {
    Cuda *c = (Cuda *)d;
    TRY(cuda_enter(c));
    return cuda_wait(c);
}

static GanStatus device_room(Device *d, size_t *bytes) {
    Cuda *c = (Cuda *)d;
    size_t all;
    TRY(cuda_enter(c));
    CUDA_TRY(c, MemGetInfo(bytes, &all), "querying free memory");
    *bytes -= *bytes < CUDA_BESIDE ? *bytes : CUDA_BESIDE;
    return GAN_OK;
}

const DeviceApi device_cuda = {
    .name = "cuda",
    .dialect = "cuda",
    .open = cuda_open,
    .card = cuda_card,
    .close = cuda_close,
    .alloc = device_alloc,
    .release = device_release,
    .put = device_put,
    .get = device_get,
    .bytes = cuda_bytes,
    .load = cuda_load,
    .unload = cuda_unload,
    .run = cuda_run,
    .launch = cuda_launch,
    .absorbs = cuda_absorbs,
    .sync = device_sync,
    .fetches = CUDA_FETCHES,
    .fetch = device_fetch,
    .fetched = device_fetched,
    .inside = cuda_inside,
    .work = cuda_work,
    .supports = device_takes,
    .room = device_room,
    .roofline = cuda_roofline,
};
