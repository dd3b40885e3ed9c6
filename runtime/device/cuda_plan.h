// cuda_plan.h - inside the cuda device: a plan loaded on a card, as tasks.
#ifndef GAN_CUDA_PLAN_H
#define GAN_CUDA_PLAN_H

#include "cuda_device.h"

// --- cuda_plan.c ---------------------------------------------------------------------------------

typedef struct CudaAccess { // bytes that a task reads or writes
    CUdeviceptr at;
    size_t bytes;
    bool write;
} CudaAccess;

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
    VEC(CudaAccess) access;     // of its parts of a plan's memory
} CudaTask;

// Tasks of a block that are captured as one graph: the whole block, or what lies between
// collectives that go through the host.
typedef struct CudaPiece {
    uint32_t first, n; // tasks of the block
    bool by_host;      // never captured
    CUgraphExec graph; // owned; NULL until captured
} CudaPiece;

typedef struct CudaBlock {
    uint32_t n, first; // tasks; the number of the first among all blocks'
    CudaTask *task;
    uint32_t pieces;
    CudaPiece *piece;
    bool warm;     // has run once, task by task: what is loaded lazily is loaded, capture may begin
    bool branches; // a piece of it has a graph of branches
} CudaBlock;

typedef struct CudaAhead CudaAhead; // cuda_kernels.c

struct Loaded {
    Cuda *cuda;       // borrowed
    Loaded *next;     // borrowed: loaded before this one
    const Plan *plan; // borrowed
    Memory memory;    // borrowed; addresses on the card
    Arena arena;      // tasks live here
    CUmodule *module; // [modules] owned; NULL: not loaded yet
    uint32_t modules;
    CUfunction *kernel; // [plan->kernel.n]
    CudaAhead *ahead;   // kernels that are being compiled; NULL: none
    CUfunction begin;   // gan_begin and gan_fill (service.cuh); NULL: there is no kernel
    CUfunction fill;
    CudnnCalls dnn;
    CudnnCall **call; // [plan->region.n] NULL: none
    CufftCalls fft;
    CufftCall **transform;     // [plan->region.n] NULL: none
    bool *absorbed;            // [plan->region.n] fused into a library call as its epilogue
    const Epilogue *epilogue;  // [plan->region.n] plan_epilogues
    CUdeviceptr fixed;         // owned: one allocation for the next four
    CUdeviceptr head;          // CudaHead of the current run
    CUdeviceptr crumbs;        // CudaCrumb of every task, in order
    CUdeviceptr tables;        // arguments of merged launches
    CUdeviceptr tickets;       // counters of blocks that have finished; zero between launches
    CudaRoom room;             // in the work memory, after the plan's values
    size_t room_used;          // bytes of it given out, from its start
    CudaBlock *block;          // [func->blocks]
    uint32_t step;             // of the run in progress
    CudaCall *collective;      // [plan->collective.n]; NULL: no collectives
    uint32_t *started, starts; // staged ones that the link does not have yet, in order
    uint32_t *task_of;         // [plan->launch.n] the launch's first task, within its block
};

PlanBytes cuda_bytes(const Plan *plan);
GanStatus cuda_load(Device *d, const Plan *plan, void *slots, void *work, Loaded **out);
void cuda_unload(Loaded *l);
bool cuda_absorbs(const Loaded *l, uint32_t region); // DeviceApi.absorbs

// --- cuda_kernels.c ------------------------------------------------------------------------------

// Begins to compile, on another thread, the kernels that run whatever a library supports.
void cuda_kernels_begin(Loaded *l);
// Loads all kernels whose regions no library computes: Loaded.module, Loaded.kernel.
GanStatus cuda_kernels_load(Loaded *l);
void cuda_kernels_end(Loaded *l); // of the thread; accepts a plan that has begun none

// --- cuda_branch.c -------------------------------------------------------------------------------

typedef VEC(uint32_t) CudaAfter; // tasks that one waits for
// [n] for each task those it waits for, in `a`, which it needs for scratch memory too.
CudaAfter *cuda_branches(Arena *a, const CudaTask *task, uint32_t n);

// --- cuda_service.c ------------------------------------------------------------------------------

// Finds the runtime's own kernels in the module that has them. Where none has, a driver's copies
// and memsets do the same, slower.
void cuda_service_find(Loaded *l, CUmodule module);
// Enqueues the upload of a block's counters and its first breadcrumb, which goes to the host too.
GanStatus cuda_service_begin(Loaded *l, const CudaHead *head);
bool cuda_service_begins(const char *kernel); // is it that upload?
// Replaces the memset nodes of a captured graph by kernels.
GanStatus cuda_service_fills(const Loaded *l, CUgraph graph);

// --- cuda_run.c ----------------------------------------------------------------------------------

GanStatus cuda_run(Loaded *l, uint32_t block, const Counters *counters);
GanStatus cuda_launch(Loaded *l, uint32_t block, uint32_t launch, const Counters *counters);
void cuda_drop_graphs(Loaded *l);   // destroys them; one that is running completes
void cuda_drop_all_graphs(Cuda *c); // of all loaded plans
// The step and the launches one of which failed, as far as breadcrumbs tell.
Str cuda_suspects(Arena *a, const Cuda *c);

#endif
