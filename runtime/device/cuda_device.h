// cuda_device.h - inside the cuda device: the tables of functions it calls, what an open card is,
// and what a plan loaded on it is made of.
//
//   cuda_load.c    libraries to tables
//   cuda_compile.c kernels to images, kept on disk
//   cuda.c         the card: context, memory, errors; the device's row of functions
//   cuda_copy.c    bytes to and from the card
//   cuda_plan.c    a plan to a list of tasks per block: kernels, arguments, copies, library calls
//   cuda_run.c     tasks onto the stream, the first time one by one, then as one recorded graph
//   cuda_roofline.c what the card can do
//   cuda_dnn.c     convolutions and products by cuDNN's graph interface
//   cuda_fft.c     Fourier transforms by cuFFT
//   cuda_busy.c    how long the card was at work, by CUPTI
//   cuda_comm.c    collectives of ranks on cards; cuda_nccl.c: by NCCL
//
// Nothing is linked: every function of the driver, of cuDNN, cuFFT and NCCL is reached through a
// table, which cuda_load.c fills from the machine's libraries and the tests from recordings of
// their own. All work of a device is in order on one stream, `compute`; uploads cross from a second
// one, `upload`, collectives are on a third, and what a graph tells of its progress is on a fourth,
// `aside`. Events order them.
#ifndef GAN_CUDA_DEVICE_H
#define GAN_CUDA_DEVICE_H

#include "cuda_compile.h"
#include "device.h"

#include <cuda.h>
#ifdef GAN_HAVE_CUDNN
#include <cudnn_graph.h>
#endif
#ifdef GAN_HAVE_CUFFT
#include <cufft.h>
#endif
#ifdef GAN_HAVE_NCCL
#include <nccl.h>
#endif

// --- cuda_load.c: the tables ---------------------------------------------------------------------

typedef struct CudaDriver {
#define CU(Name, symbol, args) CUresult(CUDAAPI *Name) args;
#include "cuda_driver.def"
} CudaDriver;

#ifdef GAN_HAVE_CUDNN
typedef struct CudnnApi {
#define DNN(Name, function, result, args) result(CUDNNWINAPI *Name) args;
#include "cuda_dnn.def"
} CudnnApi;
#else
typedef struct CudnnApi CudnnApi;
#endif

#ifdef GAN_HAVE_CUFFT
typedef struct CufftApi {
#define FFT(Name, function, args) cufftResult(*Name) args;
#include "cuda_fft.def"
} CufftApi;
#else
typedef struct CufftApi CufftApi;
#endif

#ifdef GAN_HAVE_NCCL
typedef struct NcclApi {
#define NCCL(Name, function, result, args) result(*Name) args;
#include "cuda_nccl.def"
} NcclApi;
#else
typedef struct NcclApi NcclApi;
#endif

typedef struct CuptiApi CuptiApi; // cuda_busy.h

// Kernels as images the driver loads.
typedef GanStatus CudaCompile(void *user, const CudaKernels *k, Arena *a, CudaImages *out);

typedef struct CudaApi {
    const CudaDriver *driver; // borrowed
    const CudnnApi *dnn;      // borrowed; NULL without the library
    CudaCompile *compile;
    void *user;          // of compile
    const CufftApi *fft; // borrowed; NULL without the library
    const NcclApi *nccl; // borrowed; NULL without the library, and where nobody asked for it
    const CuptiApi *(*cupti)(void *user); // loads it when first asked; NULL: there is none
} CudaApi;

// Opens the card behind `api`, which must outlive the device. What the device's `open` does with
// the machine's libraries, and a test with its own.
GanStatus cuda_open_with(const CudaApi *api, const DeviceOptions *o, Device **out);

// The card that would be opened: "NVIDIA H200 (GPU-5ad2...)", no two alike.
GanStatus cuda_card_with(const CudaApi *api, const DeviceOptions *o, char *out, size_t n);

typedef struct CudaMachine CudaMachine; // this machine's libraries, loaded
// With NCCL where `o` wants it. GAN_ERR_DEVICE when the driver is missing or too old.
GanStatus cuda_machine_open(const DeviceOptions *o, CudaMachine **out);
void cuda_machine_close(CudaMachine *m); // accepts NULL
const CudaApi *cuda_machine_api(const CudaMachine *m);

#ifdef GAN_HAVE_CUDNN
// The library alone, which needs no card: its handle, NULL where there is none or it is too old. It
// stays loaded: each of its parts would leave memory of its C++ runtime behind.
void *cudnn_load(CudnnApi *out);
#endif

// --- cuda.c: the card ----------------------------------------------------------------------------

enum {
    CUDA_OLDEST_DRIVER = 12000, // CUDA 12.0
    CUDA_ALIGN = ROOM_ALIGN,    // of every piece of memory on the card
};

typedef struct CudaCrumb { // how far the card has come
    uint32_t block, task;
} CudaCrumb;

typedef struct CudaMark { // what the card last said of it
    CudaCrumb crumb;
    uint32_t step;
} CudaMark;

typedef struct CudaHead { // what a block finds on the card
    Counters counters;    // first: kernels are given its address
    CudaMark mark;        // of the block's beginning
} CudaHead;

typedef struct CudaCopies CudaCopies;
typedef struct CudaComm CudaComm;
typedef struct Cudnn Cudnn;

typedef struct Cuda {
    Device base;
    const CudaApi *api;
    const CudaDriver *cu; // api->driver
    CudaMachine *machine; // owned; NULL when opened with another's tables
    CUdevice device;
    CUcontext context; // retained
    int arch;          // compute capability: 90 is 9.0
    char name[128];
    CUstream compute, upload; // owned
    CUstream aside;           // owned; of a graph's crumbs: see cuda_run.c
    CUevent beside;           // owned; orders it
    bool counts;              // how long it is at work
    Str cache_dir;            // where made things are kept; empty: nowhere
    CudaCopies *copies;       // owned
    Cudnn *dnn;               // owned; NULL without the library
    CudaComm *comm;           // owned; NULL: this rank sums with nobody
    // What went onto `compute` last, for words about a failure:
    const Loaded *running; // borrowed; NULL: nothing
    CudaMark *mark;        // owned, pinned: see cuda_run.c
    Loaded *loaded;        // borrowed: the plan loaded last, the others behind it
} Cuda;

// GAN_OK, or the driver's own words for `code` after "cuda: WHAT failed". A code by which the
// driver tells of a kernel that broke, whatever was called, comes with the step and the launch it
// can be.
GanStatus cuda_check(const Cuda *c, CUresult code, const char *what, ...);
// What a library's call failed with, in its own words. Where a kernel broke the context before,
// which the library cannot know, that is told as well.
GanStatus cuda_library_failed(const Cuda *c, const char *words, ...);
#define CUDA_TRY(c, call, ...) TRY(cuda_check((c), (c)->cu->call, __VA_ARGS__))
GanStatus cuda_enter(const Cuda *c); // makes the card the calling thread's
// The same before something is let go of, where the context may be broken: it changes no error.
void cuda_leave(const Cuda *c);
GanStatus cuda_wait(Cuda *c); // for all work on `compute`
// The same up to `event`; NULL: all. Every waiting of the host is this, so that it ends when a rank
// is gone. `what` is for words about a failure.
GanStatus cuda_await(Cuda *c, CUevent event, const char *what);
// What is given to `second` from here on is behind what `first` was given so far.
GanStatus cuda_order(const Cuda *c, CUstream first, CUevent event, CUstream second);
// `bytes` on the card; GAN_ERR_MEMORY says how much is missing. cuda_alloc clears them.
GanStatus cuda_reserve(Cuda *c, size_t bytes, CUdeviceptr *out);
GanStatus cuda_alloc(Cuda *c, size_t bytes, CUdeviceptr *out);
void cuda_free(Cuda *c, CUdeviceptr at); // accepts 0
static inline CUdeviceptr cuda_pointer(const void *p) {
    return (CUdeviceptr)(uintptr_t)p;
}

// --- cuda_copy.c ---------------------------------------------------------------------------------
// Every copy is in order with the work on `compute`. Bytes given to a put may be reused at once.

GanStatus cuda_copies_open(Cuda *c, CudaCopies **out);
void cuda_copies_close(Cuda *c, CudaCopies *k); // accepts NULL
GanStatus cuda_put(Cuda *c, CUdeviceptr to, const void *from, size_t n);
GanStatus cuda_get(Cuda *c, void *to, CUdeviceptr from, size_t n); // waits for the bytes
// The same for a few bytes in two halves, so that work may be given out between them.
enum { CUDA_FETCHES = 512 }; // under way at once
GanStatus cuda_fetch(Cuda *c, CUdeviceptr from, size_t n, uint64_t *ticket);
GanStatus cuda_fetched(Cuda *c, uint64_t ticket, void *to, size_t n);

// --- cuda_dnn.c ----------------------------------------------------------------------------------

typedef struct CudnnCall CudnnCall; // one prepared anchor

typedef struct CudaRoom { // what the launches of a loaded plan use one after another (plan_room)
    CUdeviceptr at;
    size_t bytes;
} CudaRoom;

typedef struct CudnnCalls { // those of one loaded plan
    Cudnn *dnn;             // borrowed; NULL without the library
    Arena *arena;           // borrowed; calls live here
    CudaRoom room;          // their workspace: engines that want more are passed over
    CudnnCall *last;        // the others behind it
} CudnnCalls;

GanStatus cudnn_open(Cuda *c, Cudnn **out); // *out is NULL without the library
void cudnn_close(Cudnn *d);                 // accepts NULL
// Prepares node `id`, with an epilogue where `e` is not NULL. *out is NULL when the library does
// not do it, or not along with the epilogue.
GanStatus cudnn_prepare(CudnnCalls *calls, const Plan *p, uint32_t id, const Epilogue *e, Memory m,
                        CudnnCall **out);
GanStatus cudnn_run(const CudnnCall *call);
void cudnn_release(CudnnCalls *calls);
// GFLOP/s of a product of two matrices of `n` rows and columns; 0 where the library does not do it.
GanStatus cudnn_rate(Cudnn *d, Dtype type, int64_t n, double *gflops);

// --- cuda_fft.c ----------------------------------------------------------------------------------

typedef struct CufftCall CufftCall; // one prepared transform

typedef struct CufftCalls { // those of one loaded plan
    const Cuda *cuda;       // borrowed
    Arena *arena;           // borrowed; calls live here
    CudaRoom room;          // their work area
    CufftCall *last;        // the others behind it
} CufftCalls;

// Prepares node `id`. *out is NULL without the library, and where it does not do it in the room
// there is.
GanStatus cufft_prepare(CufftCalls *calls, const Plan *p, uint32_t id, Memory m, CufftCall **out);
GanStatus cufft_run(const CufftCall *call);
void cufft_release(CufftCalls *calls);

// --- cuda_comm.c: collectives --------------------------------------------------------------------

// Which of this machine's cards to take. That no two ranks have one is checked where they meet
// (ranks_preflight).
GanStatus cuda_comm_card(Comm *ranks, int cards, int *card);

typedef struct CudaCall CudaCall;                  // one collective of a loaded plan
GanStatus cuda_comm_open(Cuda *c, CudaComm **out); // *out is NULL where there is nothing to say
// False: a library is still using the card's context. Accepts NULL.
bool cuda_comm_close(Cuda *c, CudaComm *m);
GanStatus cuda_comm_load(Loaded *l);                 // Loaded.collective
void cuda_comm_unload(Loaded *l);                    // accepts one that is not loaded whole
GanStatus cuda_comm_check(const Cuda *c);            // are the ranks given up?
bool cuda_comm_by_host(const Cuda *c);               // starts and waits cannot be recorded
GanStatus cuda_comm_start(Loaded *l, uint32_t call); // its parts are where they are summed
GanStatus cuda_comm_wait(Loaded *l, uint32_t call);  // what comes behind finds the sums

// --- cuda_nccl.c ---

typedef struct Nccl Nccl; // one communicator of the library
GanStatus nccl_open(Cuda *c, Comm *ranks, Nccl **out);
// Orderly: every rank closes its own. False: the others did not in time, and the library still uses
// the card's context. Accepts NULL.
bool nccl_close(Nccl *n, bool orderly);
void nccl_abort(Nccl *n); // ends kernels that wait for other ranks; every later call fails
GanStatus nccl_health(Nccl *n);
// Adds `bytes` at `at` over the ranks, in place, as work of `stream`.
GanStatus nccl_sum(Nccl *n, CUdeviceptr at, size_t bytes, Dtype dtype, CUstream stream);

// --- cuda_roofline.c -----------------------------------------------------------------------------

GanStatus cuda_roofline(Device *d, Roofline *out);

// --- cuda_plan.c, cuda_run.c ---------------------------------------------------------------------

typedef enum CudaTaskKind {
    CudaKernel,
    CudaCopy,
    CudaAnchor,
    CudaTransform,
    CudaStart,
    CudaWait
} CudaTaskKind;

typedef struct CudaTask {
    CudaTaskKind kind;
    uint32_t region;     // Plan.region[]; the first of a merged launch
    CUfunction function; // CudaKernel, and the rest of this line and the next
    unsigned blocks, instances, threads, shared; // grid x and y, of a block, bytes
    void **params;
    CUdeviceptr to, from; // CudaCopy
    size_t bytes;
    const CudnnCall *call;      // CudaAnchor
    const CufftCall *transform; // CudaTransform
    uint32_t collective;        // CudaStart, CudaWait: Plan.collective[]
} CudaTask;

// Tasks of a block that are recorded together: all of it, or what lies between collectives that the
// host has a hand in.
typedef struct CudaPiece {
    uint32_t first, n; // tasks of the block
    bool by_host;      // never recorded
    CUgraphExec graph; // owned; NULL until recorded
} CudaPiece;

typedef struct CudaBlock {
    uint32_t n, first; // tasks; the number of the first among all blocks'
    CudaTask *task;
    uint32_t pieces;
    CudaPiece *piece;
    bool warm; // has run once, task by task: libraries have loaded what they load late
} CudaBlock;

struct Loaded {
    Cuda *cuda;       // borrowed
    Loaded *next;     // borrowed: loaded before this one
    const Plan *plan; // borrowed
    Memory memory;    // borrowed; addresses on the card
    Arena arena;      // tasks live here
    CUmodule *module; // [lots] owned; NULL where nothing of the lot is used
    CUmodule *again;  // [lots] owned; those of its kernels found here come from here; NULL: none
    uint32_t lots;
    CUfunction *kernel; // [plan->kernel.n]
    CudnnCalls dnn;
    CudnnCall **call; // [plan->region.n] NULL where there is none
    CufftCalls fft;
    CufftCall **transform;     // [plan->region.n] NULL where there is none
    bool *absorbed;            // [plan->region.n] done along with a call
    CUdeviceptr fixed;         // owned: one piece of memory for what follows
    CUdeviceptr head;          // CudaHead of the run in progress
    CUdeviceptr crumbs;        // CudaCrumb of every task, in order
    CUdeviceptr tables;        // arguments of launches of several regions
    CUdeviceptr tickets;       // zero between launches
    CudaRoom room;             // in the work memory, behind the plan's values
    CudaBlock *block;          // [func->blocks]
    uint32_t step;             // of the run in progress
    CudaCall *collective;      // [plan->collective.n]; NULL: none is carried out
    uint32_t *started, starts; // those the host has yet to hand to the link, in order
    uint32_t *task_of;         // [plan->launch.n] a launch's first task among its block's
};

PlanBytes cuda_bytes(const Plan *plan);
GanStatus cuda_load(Device *d, const Plan *plan, void *slots, void *work, Loaded **out);
void cuda_unload(Loaded *l);
GanStatus cuda_run(Loaded *l, uint32_t block, const Counters *counters);
GanStatus cuda_launch(Loaded *l, uint32_t block, uint32_t launch, const Counters *counters);
void cuda_drop_graphs(Loaded *l);   // what was recorded; one under way ends by itself
void cuda_drop_all_graphs(Cuda *c); // of all that is loaded
// The step and the launches one of which broke, as far as the card has told; empty: nothing ran.
Str cuda_suspects(Arena *a, const Cuda *c);

#endif
