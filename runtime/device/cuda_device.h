// cuda_device.h - inside the cuda device: the function tables it calls, and an open card. A plan
// loaded on it is in cuda_plan.h.
//
//   cuda_load.c    fills the function tables from shared libraries
//   cuda_compile.c kernels to cubin or PTX images, cached on disk
//   cuda.c         the card: context, memory, errors; the device's vtable
//   cuda_copy.c    copies to and from the card, through pinned staging buffers
//   cuda_kernels.c a plan's kernels, compiled and loaded
//   cuda_plan.c    lowers a plan to a list of tasks per block: launches, copies, library calls
//   cuda_branch.c  which tasks of a block must wait for which
//   cuda_run.c     enqueues tasks: one by one the first time, later as one captured graph
//   cuda_service.c kernels that the runtime launches for itself
//   cuda_roofline.c measured peak throughput and bandwidth
//   cuda_dnn.c     convolutions and products by cuDNN's graph (backend) interface; cuda_dnn.h lists
//                  its other files
//   cuda_fft.c     Fourier transforms by cuFFT
//   cuda_busy.c    what a card ran, and for how long, by CUPTI
//   cuda_comm.c    collectives between ranks on cards; cuda_nccl.c: by NCCL
//
// Nothing is linked: every function of the driver, cuDNN, cuFFT and NCCL is called through a table,
// which cuda_load.c fills from the machine's libraries and the tests from recording stand-ins.
//
// A device has four streams, ordered by events. `compute` has all kernels and library calls, in
// order, unless they are captured as branches of a graph. `upload` has the host-to-device half of
// large uploads, CudaComm's has collectives, and `aside` has the progress marks of captured graphs.
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

// Compiles kernels to images that the driver loads.
typedef GanStatus CudaCompile(void *user, const CudaKernels *k, Arena *a, CudaImages *out);

typedef struct CudaApi {
    const CudaDriver *driver; // borrowed
    const CudnnApi *dnn;      // borrowed; NULL: it cannot be used, and `no_dnn` says why
    const char *no_dnn;       // borrowed
    CudaCompile *compile;
    void *user;          // of compile
    const CufftApi *fft; // borrowed; NULL without the library
    const NcclApi *nccl; // borrowed; NULL: it cannot be used, and `no_nccl` says why
    const char *no_nccl; // borrowed
    const CuptiApi *(*cupti)(void *user); // loads it on first use; NULL: not available
} CudaApi;

// Opens the card behind `api`, which must outlive the device. The device's `open` passes the
// machine's libraries, a test its stand-ins.
GanStatus cuda_open_with(const CudaApi *api, const DeviceOptions *o, Device **out);

// The card that would be opened, by name and UUID as nvidia-smi -L prints it:
// "NVIDIA H200 (GPU-5ad2...)"; of a MIG instance "... MIG 1g.18gb (MIG-77c1...)".
GanStatus cuda_card_with(const CudaApi *api, const DeviceOptions *o, char *out, size_t n);

typedef struct CudaMachine CudaMachine; // this machine's libraries, loaded
// With NCCL where `o` wants it. GAN_ERR_DEVICE when the driver is missing or too old.
GanStatus cuda_machine_open(const DeviceOptions *o, CudaMachine **out);
void cuda_machine_close(CudaMachine *m); // accepts NULL
const CudaApi *cuda_machine_api(const CudaMachine *m);

#ifdef GAN_HAVE_CUDNN
// Loads cuDNN alone, which needs no card. NULL where it is missing or too old: gan_error() says
// why. It stays loaded: each of its parts would leak memory of its C++ runtime when unloaded.
void *cudnn_load(CudnnApi *out);
#endif

// --- cuda.c: the card ----------------------------------------------------------------------------

enum {
    CUDA_OLDEST_DRIVER = 12000, // CUDA 12.0
    // Bytes left free for the driver and the libraries, which take memory for code, when it first
    // runs, and for captured graphs. No function says how much beforehand; not measured.
    CUDA_BESIDE = 512 << 20,
};

typedef struct CudaCrumb { // a breadcrumb: the task that the card has reached
    uint32_t block, task;
} CudaCrumb;

typedef struct CudaMark { // the last breadcrumb that arrived on the host
    CudaCrumb crumb;
    uint32_t step;
} CudaMark;

typedef struct CudaHead { // uploaded before each run of a block
    Counters counters;    // first: kernels take its address
    CudaMark mark;        // of the block's first task
} CudaHead;

// How a block's tasks run from its second time on. The bits are the same.
typedef enum CudaReplay {
    ReplayNone,     // one by one
    ReplayChain,    // as a graph, one after another
    ReplayBranches, // as a graph, those at once that need not wait for each other
} CudaReplay;

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
    CudaReplay replay;        // of captured blocks; less where a driver or a library refuses more
    CUstream compute, upload; // owned
    CUstream aside;           // owned; a graph's breadcrumbs: see cuda_run.c
    CUevent beside;           // owned; forks and joins `aside`
    bool counts;              // busy time is measured (cuda_busy.c)
    Str cache_dir;            // of kernels and cuDNN plans; empty: no cache
    CacheKeep keep;           // of it
    CudaCopies *copies;       // owned
    Cudnn *dnn;               // owned; NULL without the library
    CudaComm *comm;           // owned; NULL: no collectives
    // For error messages, which name the launches that may have failed:
    const Loaded *running; // borrowed; the plan enqueued last, NULL: none
    CudaMark *mark;        // owned, pinned: see cuda_run.c
    Loaded *loaded;        // borrowed: the plan loaded last, the others behind it
} Cuda;

// GAN_OK, or an error: "cuda: WHAT failed: " and the driver's own words. Sticky errors, which any
// call may report after a kernel has failed, also name the step and the launches in question.
GanStatus cuda_check(const Cuda *c, CUresult code, const char *what, ...);
// The error of a library call, in the library's own words. A sticky error of an earlier kernel,
// which the library cannot know of, is reported with it.
GanStatus cuda_library_failed(const Cuda *c, const char *words, ...);
#define CUDA_TRY(c, call, ...) TRY(cuda_check((c), (c)->cu->call, __VA_ARGS__))
GanStatus cuda_enter(const Cuda *c); // makes the context current on the calling thread
// The same before releasing something, where the context may be lost: it reports nothing.
void cuda_leave(const Cuda *c);
GanStatus cuda_wait(Cuda *c); // synchronizes with `compute`
// Synchronizes with `event`; NULL: with `compute`. The host blocks nowhere else, so that every wait
// ends when a rank is lost. `what` is for error messages.
GanStatus cuda_await(Cuda *c, CUevent event, const char *what);
// Work enqueued on `second` from here on waits for what is on `first` now.
GanStatus cuda_order(const Cuda *c, CUstream first, CUevent event, CUstream second);
// Device memory; GAN_ERR_MEMORY says how much is missing. cuda_alloc zeroes it.
GanStatus cuda_reserve(Cuda *c, size_t bytes, CUdeviceptr *out);
GanStatus cuda_alloc(Cuda *c, size_t bytes, CUdeviceptr *out);
void cuda_free(Cuda *c, CUdeviceptr at); // accepts 0
static inline CUdeviceptr cuda_pointer(const void *p) {
    return (CUdeviceptr)(uintptr_t)p;
}

// --- cuda_copy.c ---------------------------------------------------------------------------------
// Copies are in order with the work on `compute`. cuda_put returns when its source may be reused.

GanStatus cuda_copies_open(Cuda *c, CudaCopies **out);
void cuda_copies_close(Cuda *c, CudaCopies *k); // accepts NULL
GanStatus cuda_put(Cuda *c, CUdeviceptr to, const void *from, size_t n);
GanStatus cuda_get(Cuda *c, void *to, CUdeviceptr from, size_t n); // synchronous
// An asynchronous get of a few bytes: cuda_fetch enqueues it, cuda_fetched waits for it alone.
enum { CUDA_FETCHES = 512 }; // outstanding at once
GanStatus cuda_fetch(Cuda *c, CUdeviceptr from, size_t n, uint64_t *ticket);
GanStatus cuda_fetched(Cuda *c, uint64_t ticket, void *to, size_t n);

// --- cuda_dnn.c ----------------------------------------------------------------------------------

typedef struct CudnnCall CudnnCall; // one prepared anchor

typedef struct CudaRoom { // workspace that the launches of a loaded plan share (plan_workspace)
    CUdeviceptr at;
    size_t bytes;
} CudaRoom;

typedef struct CudnnCalls { // those of one loaded plan
    Cudnn *dnn;             // borrowed; NULL without the library
    Arena *arena;           // borrowed; calls live here
    CudaRoom room;          // their workspace: engines that need more are not used
    CudnnCall *last;        // a list
} CudnnCalls;

GanStatus cudnn_open(Cuda *c, Cudnn **out); // *out is NULL without the library
void cudnn_close(Cudnn *d);                 // accepts NULL
// Chooses the engines of all products of a plan, epilogue[region.n] of each, ahead of preparing
// them: several questions to the library are asked at a time. Nothing on a device of one thread.
GanStatus cudnn_choose(CudnnCalls *calls, const Plan *p, const Epilogue *epilogue, Memory m);
// Prepares node `id`, with epilogue `e` where it is not NULL. *out is NULL when the library does
// not support the operation, or not with that epilogue.
GanStatus cudnn_prepare(CudnnCalls *calls, const Plan *p, uint32_t id, const Epilogue *e, Memory m,
                        CudnnCall **out);
size_t cudnn_call_workspace(const CudnnCall *call); // bytes its engine needs
int64_t cudnn_call_ns(const CudnnCall *call);       // a run's time on the card; 0: not timed
// Gives the call its workspace, before it runs.
GanStatus cudnn_place(CudnnCall *call, CUdeviceptr workspace);
GanStatus cudnn_run(const CudnnCall *call);
void cudnn_release(CudnnCalls *calls);
// GFLOP/s of an n x n matrix product; 0 where the library does not support it.
GanStatus cudnn_rate(Cudnn *d, Dtype type, int64_t n, double *gflops);

// --- cuda_fft.c ----------------------------------------------------------------------------------

typedef struct CufftCall CufftCall; // one prepared transform

typedef struct CufftCalls { // those of one loaded plan
    const Cuda *cuda;       // borrowed
    Arena *arena;           // borrowed; calls live here
    CudaRoom room;          // their work area
    CufftCall *last;        // a list
} CufftCalls;

// Prepares node `id`. *out is NULL without the library, and where it refuses or needs more room.
GanStatus cufft_prepare(CufftCalls *calls, const Plan *p, uint32_t id, Memory m, CufftCall **out);
size_t cufft_call_workspace(const CufftCall *call);
GanStatus cufft_place(CufftCall *call, CUdeviceptr workspace); // as cudnn_place
GanStatus cufft_run(const CufftCall *call);
void cufft_release(CufftCalls *calls);

// --- cuda_comm.c: collectives --------------------------------------------------------------------

// Which of this machine's cards this rank takes. That no two ranks share one is checked in
// ranks_preflight.
GanStatus cuda_comm_card(Comm *ranks, int cards, int *card);

typedef struct CudaCall CudaCall;                  // one collective of a loaded plan
GanStatus cuda_comm_open(Cuda *c, CudaComm **out); // *out is NULL where nothing is summed
// False: a library is still using the card's context. Accepts NULL.
bool cuda_comm_close(Cuda *c, CudaComm *m);
GanStatus cuda_comm_load(Loaded *l);      // Loaded.collective
void cuda_comm_unload(Loaded *l);         // accepts a partly loaded plan
GanStatus cuda_comm_check(const Cuda *c); // fails when the communicator has failed
// Before the first wait that polls nothing, at the end of a plan: where a rank is lost, no kernel
// waits for it from here on.
void cuda_comm_abandon(Cuda *c);
bool cuda_comm_by_host(const Cuda *c);               // starts and waits cannot be captured
GanStatus cuda_comm_start(Loaded *l, uint32_t call); // its parts are in the work memory
GanStatus cuda_comm_wait(Loaded *l, uint32_t call);  // later work on `compute` sees the sums

typedef struct CudaPatience { // with other ranks, while what they take part in is polled
    Comm *ranks;
    double since; // 0: it has not begun
    long ns;      // of the last pause
} CudaPatience;
// A pause before the next look. Fails when the link knows of a lost rank; and past the deadline,
// when all ranks that wait meet on the link, which names those that do not come.
GanStatus cuda_patience(CudaPatience *p, const char *what);

// --- cuda_nccl.c ---

typedef struct Nccl Nccl; // one communicator of the library
GanStatus nccl_open(Cuda *c, Comm *ranks, Nccl **out);
// Orderly: every rank closes its own. False: the others did not in time, and the library still uses
// the card's context. Accepts NULL.
bool nccl_close(Nccl *n, bool orderly);
void nccl_abort(Nccl *n); // ends kernels that wait for other ranks; every later call fails
GanStatus nccl_health(Nccl *n);
bool nccl_failed(const Nccl *n); // a call, or nccl_health, has
// Enqueues an all-reduce of `bytes` at `at`, in place, on `stream`. Between two of them the ranks
// may have to connect: it waits for that.
GanStatus nccl_sum(Nccl *n, CUdeviceptr at, size_t bytes, Dtype dtype, CUstream stream);

// --- cuda_roofline.c -----------------------------------------------------------------------------

GanStatus cuda_roofline(Device *d, Roofline *out);

#endif
