// rt.h - the runtime: devices that run plans, data that feeds them, the executor between, and what
// outlives a run.
#ifndef GAN_RT_H
#define GAN_RT_H

#include "program.h"

// --- device/: a device is a vtable with one conformance suite (tests/unit/device_test.c) ---------

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

// No number of `bytes` is infinite or NaN. n: bytes.
bool values_finite(const void *bytes, size_t n, Dtype dtype); // layout.c

// --- exec.c, layout.c: one model on one device ---------------------------------------------------

typedef struct Exec Exec; // plans of all functions, slot memory, counters; one owner

typedef struct ExecHooks { // any may be NULL
    // Before a block runs (its round of the enclosing repeat): fill fed or data slots with
    // exec_slot_put.
    GanStatus (*before)(void *user, Exec *e, uint32_t block, uint32_t round);
    GanStatus (*after)(void *user, Exec *e, uint32_t block, uint32_t round);
    void *user;
    // Where given (and the device can), launches run one by one, with this called before (done
    // false) and after each.
    GanStatus (*launch)(void *user, Exec *e, uint32_t launch, bool done, const Counters *c);
    bool whole; // the step runs the tails it has left (program.h), at its end
} ExecHooks;

// Plans are loaded when first run. Borrows everything it is given; `entries` is [m->entry.n]. In
// two halves, so that `init` can run before the others are planned: behind exec_begin the slots are
// there, and zero, behind exec_plans everything else. Between the two the step may be loaded, by
// another thread while exec_init is at work: exec_plans then loads it again only where an entry
// takes more memory.
GanStatus exec_begin(const DeviceApi *api, Device *d, Arena *perm, const Module *m,
                     const Plan *init, Exec **out);
GanStatus exec_load_step(Exec *e, const Plan *step);
GanStatus exec_plans(Exec *e, const Plan *step, const Plan *entries);
GanStatus exec_open(const DeviceApi *api, Device *d, Arena *perm, const Module *m, const Plan *init,
                    const Plan *step, const Plan *entries, Exec **out);
void exec_close(Exec *e);
GanStatus exec_init(Exec *e, uint64_t seed); // runs `init`: every slot's first value
// Returns when all work of the step has been given to the device, which may be at work on it still;
// all but its tail, which is given in the next step, or before slots are looked at or another
// function runs.
GanStatus exec_step(Exec *e, const Counters *c, const ExecHooks *hooks);
GanStatus exec_wait(Exec *e); // for all work given so far
// For all work of the steps so far. Sums of a tail are under way until then: it comes before the
// end, and before what is asked of the communicator about them (comm_forget).
GanStatus exec_finish(Exec *e);
// One launch of the step alone, waited for; where exec_launches.
GanStatus exec_launch(Exec *e, uint32_t launch, const Counters *c);
GanStatus exec_entry(Exec *e, uint32_t entry, const Counters *c, const ExecHooks *hooks);
// Values cross as f64 in logical order (row-major, batch first), whatever the device holds.
GanStatus exec_slot_put(Exec *e, uint32_t slot, const double *x, size_t n);
GanStatus exec_slot_put_f32(Exec *e, uint32_t slot, const float *x, size_t n);
GanStatus exec_slot_get(Exec *e, uint32_t slot, double *x, size_t n);
// Shared values (weights, state) in their own precision and logical order: for checkpoints, exact
// to the bit.
size_t exec_slot_bytes(const Exec *e, uint32_t slot);
GanStatus exec_slot_save(Exec *e, uint32_t slot, void *bytes);
GanStatus exec_slot_load(Exec *e, uint32_t slot, const void *bytes);
GanStatus exec_value_get(Exec *e, const Plan *p, uint32_t node, double *x,
                         size_t n); // a stored value of the function that ran last
// A number, read when the device has come so far: `take` waits for that and for nothing later. At
// most exec_fetches() at once; where that is 0 every number is there as soon as it is asked for.
typedef struct Later {
    bool there;      // `value` is it; else:
    uint64_t ticket; // the device's
    Dtype dtype;     // as it is stored
    double value;
} Later;
uint32_t exec_fetches(const Exec *e);
GanStatus exec_number_later(Exec *e, const Plan *p, uint32_t node, Later *out);
GanStatus exec_number_take(Exec *e, const Later *l, double *x);
// The same as it is stored: type_bytes bytes.
GanStatus exec_value_save(Exec *e, const Plan *p, uint32_t node, void *bytes);
GanStatus exec_value_load(Exec *e, const Plan *p, uint32_t node, const void *bytes);

Share exec_share(const Exec *e); // the samples held here; all of them on one rank
const Module *exec_module(const Exec *e);
bool exec_launches(const Exec *e); // its device runs launches one by one
const Plan *exec_step_plan(const Exec *e);
Dtype exec_real(const Exec *e);
size_t exec_bytes(const Exec *e); // slot and work memory it holds

#endif
