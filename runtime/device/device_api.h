// device_api.h - a device, from outside: a vtable with one conformance suite
// (tests/unit/device_test.c).
#ifndef GAN_DEVICE_API_H
#define GAN_DEVICE_API_H

#include "program.h"

typedef struct Device Device; // opaque; one thread at a time
typedef struct Loaded Loaded; // a plan bound to addresses on a device; opaque

typedef enum CardRoute {
    RouteStaged, // by way of the host's link; ranks may share a card
    RouteNccl,   // from card to card, each rank with its own
} CardRoute;

typedef struct DeviceOptions {
    int threads;   // 0: all cores this process may use
    Str cache_dir; // compiled kernels, content-addressed; empty: $XDG_CACHE_HOME/gan (given by
                   // main)
    Str compiler;  // C compiler for kernels; empty: cc, gcc or clang, the first there is
    bool no_graph; // cuda: launch by launch instead of recorded graphs; the same bits
    bool no_tf32;  // cuda: products of f32 in full precision
    void (*notice)(void *user,
                   const char *text); // one-line notices ("no compiler found: ..."); may be NULL
    void *user;
    struct Comm *comm; // the other ranks (comm.h); NULL: there are none. Borrowed
    CardRoute route;   // cuda: how their sums travel
} DeviceOptions;

typedef struct Roofline {                       // 0: not measured
    double gflops_f32, gflops_bf16, gflops_f16; // multiply-adds, 2 operations each
    double gbs;                                 // bytes read and written by a copy, 1e9 a second
} Roofline;

// What a plan takes of a device's memory beside the slots.
typedef struct PlanBytes {
    size_t work; // its work memory, which functions share: Plan.work_bytes, and behind it the room
                 // launches use one after another
    size_t own;  // the device's, for as long as the plan is loaded
} PlanBytes;

typedef struct DeviceApi {
    const char *name;    // "ref", "cpu", "cuda"
    const char *dialect; // kernels it wants generated (gen.h), NULL: none
    bool logical;        // values lie row-major in logical order, not as type_strides says
    bool no_fuse;        // wants plans of one node a region
    GanStatus (*open)(const DeviceOptions *o, Device **out);
    // The card `open` would take, in words that no other has; NULL: the device is this machine.
    GanStatus (*card)(const DeviceOptions *o, char *out, size_t n);
    void (*close)(Device *d);                                // accepts NULL
    GanStatus (*alloc)(Device *d, size_t bytes, void **out); // zeroed, 64-byte aligned
    void (*release)(Device *d, void *ptr);                   // accepts NULL
    GanStatus (*put)(Device *d, void *to, const void *from_host, size_t n);
    GanStatus (*get)(Device *d, void *to_host, const void *from, size_t n);
    // What `load` takes for a plan whose kernels are made; NULL: Plan.work_bytes, and nothing of
    // its own that counts. Known from the plan alone, and kept.
    PlanBytes (*bytes)(const Plan *p);
    // Prepares every launch of `plan` against these two memories (compiles kernels, makes library
    // primitives).
    GanStatus (*load)(Device *d, const Plan *plan, void *slots, void *work, Loaded **out);
    void (*unload)(Loaded *l); // accepts NULL
    GanStatus (*run)(Loaded *l, uint32_t block,
                     const Counters *c); // all launches of a block, in order
    // One of them alone, waited for: Plan.launch[launch], which is of this block. What looks for
    // the origin of a number runs a step like this. NULL: the device cannot.
    GanStatus (*launch)(Loaded *l, uint32_t block, uint32_t launch, const Counters *c);
    GanStatus (*sync)(Device *d);
    // The bytes of a number as the work given so far leaves them, fetched without waiting for any
    // of it: `fetched` waits for work `ticket` came behind, and for none that came later. At most
    // `fetches` may be under way; 0: there are neither, and a get does not wait either.
    uint32_t fetches;
    GanStatus (*fetch)(Device *d, const void *from, size_t n, uint64_t *ticket);
    GanStatus (*fetched)(Device *d, uint64_t ticket, void *to_host, size_t n);
    // Seconds spent inside kernels and library calls since the last call; `count`: go on counting.
    // NULL: the device cannot tell.
    double (*inside)(Device *d, bool count);
    bool (*supports)(Dtype real);
    GanStatus (*room)(Device *d, size_t *bytes); // memory there is to allocate; NULL: not known
    // What the device can do, measured now, best of several; NULL: nothing worth comparing with.
    GanStatus (*roofline)(Device *d, Roofline *out);
} DeviceApi;
extern const DeviceApi device_ref, device_cpu, device_cuda;
const DeviceApi *device_find(Str name); // NULL when there is none
int device_threads(Device *d);
PlanBytes device_bytes(const DeviceApi *api, const Plan *p);
// So many of its threads are the caller's, who does something else with them, until 0 are. One
// stays.
void device_lend(Device *d, int threads);

typedef struct LibraryInfo {
    const char *name, *version; // version: whatever it says of itself
    const char *cost;           // of its absence
    const char *mend;           // what to install; NULL: nothing would
    bool found;
} LibraryInfo;
void device_libraries(Arena *a, const LibraryInfo **out, uint32_t *n); // what doctor prints

#endif
