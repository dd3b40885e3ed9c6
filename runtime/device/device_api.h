// device_api.h - the device interface: a vtable that `ref`, `cpu` and `cuda` implement, with one
// conformance suite (tests/unit/device_test.c).
//
// The compiler places every value of a plan in two memories: slots, which persist between steps
// (weights, optimizer state, data), and work, which does not. The executor allocates both on the
// device, loads plans against them, and runs blocks.
#ifndef GAN_DEVICE_API_H
#define GAN_DEVICE_API_H

#include "program.h"

typedef struct Device Device; // opaque; one thread at a time
typedef struct Loaded Loaded; // a plan bound to addresses on a device; opaque

typedef enum CardRoute {
    RouteStaged, // through host memory and the host's link; ranks may share a card
    RouteNccl,   // NCCL, each rank with a card of its own
} CardRoute;

typedef struct DeviceOptions {
    int threads;   // 0: all cores this process may use
    int peers;     // processes of this machine that load the same kernels; 0, 1: this one alone
    int peer;      // this one's number among them, from 0
    Str cache_dir; // compiled kernels, content-addressed; empty: $XDG_CACHE_HOME/gan (given by
                   // main)
    uint64_t cache_limit; // bytes it may grow to; 0: CACHE_LIMIT
    Str compiler;         // C compiler for kernels; empty: cc, gcc or clang, the first there is
    bool no_graph;        // cuda: no CUDA graphs, launch by launch; the same bits
    bool no_branches;     // cuda: launches of a CUDA graph one after another; the same bits
    bool no_tf32;         // cuda: f32 products without TF32
    // one-line notices ("no compiler found: ..."); may be NULL.
    void (*notice)(void *user, const char *text);
    void *user;
    struct Comm *comm; // the other ranks (comm.h); NULL: there are none. Borrowed
    bool no_sums;      // no plan is divided among them: each rank computes for itself
    CardRoute route;   // cuda: how their sums travel
} DeviceOptions;

typedef struct Roofline {                       // 0: not measured
    double gflops_f32, gflops_bf16, gflops_f16; // multiply-adds, 2 operations each
    double gbs;                                 // bytes read and written by a copy, 1e9 a second
} Roofline;

// Device memory that a plan needs beside the slots.
typedef struct PlanBytes {
    size_t work; // work memory, which functions share: Plan.work_bytes, then launches' workspace
    size_t own;  // allocated by `load`, for as long as the plan is loaded
} PlanBytes;

typedef struct DeviceWork { // what a card ran: a kernel, a copy, or a memset
    const char *name;
    double began, ended; // s, from some moment on
    uint32_t stream;
    uint32_t grid[3], block[3], registers, shared; // kernels: registers a thread, bytes a block
    bool host; // a copy from or to the host's memory, or a kernel that begins a block with one
} DeviceWork;
typedef VEC(DeviceWork) DeviceWorkVec;

typedef struct DeviceApi {
    const char *name;    // "ref", "cpu", "cuda"
    const char *dialect; // of its generated kernels (gen.h); NULL: it uses none
    bool logical;        // values are row-major in logical order, not as type_strides says
    bool no_fuse;        // requires plans of one node a region
    GanStatus (*open)(const DeviceOptions *o, Device **out);
    // A unique name of the card that `open` would take; NULL: the device is the host.
    GanStatus (*card)(const DeviceOptions *o, char *out, size_t n);
    void (*close)(Device *d);                                // accepts NULL
    GanStatus (*alloc)(Device *d, size_t bytes, void **out); // zeroed, 64-byte aligned
    void (*release)(Device *d, void *ptr);                   // accepts NULL
    GanStatus (*put)(Device *d, void *to, const void *from_host, size_t n);
    GanStatus (*get)(Device *d, void *to_host, const void *from, size_t n);
    // What `load` needs for a plan with generated kernels; NULL: Plan.work_bytes alone. It follows
    // from the plan, and `load` stays within it.
    PlanBytes (*bytes)(const Plan *p);
    // Prepares every launch of `plan` against these two memories: compiles kernels, creates library
    // primitives (or leaves those to the first run). May write to the work memory.
    GanStatus (*load)(Device *d, const Plan *plan, void *slots, void *work, Loaded **out);
    void (*unload)(Loaded *l); // accepts NULL
    // All launches of a block, in order.
    GanStatus (*run)(Loaded *l, uint32_t block, const Counters *c);
    // One launch of the block alone, Plan.launch[launch], synchronously: to find where a NaN comes
    // from. NULL: not supported.
    GanStatus (*launch)(Loaded *l, uint32_t block, uint32_t launch, const Counters *c);
    // Does library call `region` also what the region that reads its result does (an epilogue)? It
    // stores that one's result alone, and that one's launch does nothing. NULL: no call does.
    bool (*absorbs)(const Loaded *l, uint32_t region);
    // Waits for compilation in the background: what runs from then on is what stays, for those who
    // measure it. Results do not depend on it. NULL: nothing is compiled behind a run.
    GanStatus (*ready)(Loaded *l);
    GanStatus (*sync)(Device *d);
    // An asynchronous get of a scalar, as the work enqueued so far leaves it: `fetched` waits for
    // that work, and for none that came later. At most `fetches` may be outstanding; 0: neither
    // exists, and a get does not block.
    uint32_t fetches;
    GanStatus (*fetch)(Device *d, const void *from, size_t n, uint64_t *ticket);
    GanStatus (*fetched)(Device *d, uint64_t ticket, void *to_host, size_t n);
    // Seconds spent in kernels and library calls since the last call; `count`: continue measuring.
    // NULL: not supported.
    double (*inside)(Device *d, bool count);
    // While `inside` counts: waits for the device, and takes what it has run since the last call of
    // either, in the order in which it began. NULL: not supported.
    GanStatus (*work)(Device *d, Arena *a, DeviceWorkVec *out);
    bool (*supports)(Dtype real);
    GanStatus (*room)(Device *d, size_t *bytes); // free memory that plans may take; NULL: not known
    // Peak rates, measured now, best of several; NULL: not supported.
    GanStatus (*roofline)(Device *d, Roofline *out);
} DeviceApi;
extern const DeviceApi device_ref, device_cpu, device_cuda;
// Where the user has OpenMP bind threads (OMP_PROC_BIND, OMP_PLACES, GOMP_CPU_AFFINITY), libgomp
// binds the thread that loads it to the first place: all threads that it starts, and cores_usable,
// would take that for the whole machine. Lets the calling thread run on all places; false if it may
// already. OpenMP's own threads stay bound until the program is started again with
// OMP_PROC_BIND=false.
bool cpu_unbind(void);
const DeviceApi *device_find(Str name); // NULL when there is none
int device_threads(Device *d);
PlanBytes device_bytes(const DeviceApi *api, const Plan *p);
// Reserves so many of the device's threads for the caller, until it reserves 0. The device keeps at
// least one. Any thread may call it: a launch that runs takes up threads that are returned.
void device_lend(Device *d, int threads);

typedef struct LibraryInfo {
    const char *name, *version; // version: as it reports it
    const char *cost;           // what is missing or slower without it
    const char *fix;            // how to install it; NULL: not possible
    bool found;
    const char *why; // not found: what the loader or the library itself says; NULL: nothing
} LibraryInfo;
void device_libraries(Arena *a, const LibraryInfo **out, uint32_t *n); // what doctor prints

#endif
