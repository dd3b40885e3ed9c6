// record.h - for tests: mocks of the CUDA driver, cuDNN, cuFFT and NCCL that record calls instead
// of computing.
//
// In: the function tables of the cuda device (cuda_device.h), filled with the mocks. Out: the
// recorded work, in order, and complaints about it. Device addresses are not host addresses:
// dereferencing one crashes. Copies move bytes when they are enqueued; data copied to the host is
// hidden until the host has waited for it. Kernels are not run: the record has what each would
// read and write, and that is checked.
//
// Complaints:
//   races    two pieces of work access a byte, one of them writing, without an order between them:
//            a stream is ordered in itself, events order one stream after another, edges the nodes
//            of a graph, a wait of the host orders what it enqueues later (record_order.c)
//   the host changing pinned memory while a copy from it is in flight
//   invalid memory: freed, never allocated, outside its allocation; asynchronous copies of
//   memory that is not pinned; kernels launched with arguments that belong to no region of a plan,
//   or with more shared memory than they may have
//   calls, of libraries too, by a thread without the card's context
//   calls that stream capture forbids: those that allocate, wait, load modules or create plans of a
//   library, and the first launch of a kernel or library plan, which may load its code lazily
//   streams that a captured graph leaves unjoined; nodes of another graph, or named twice, among
//   those that a captured launch depends on; objects used after they are destroyed; leaks
//   (recorder_live)
//   timing runs of a library's engines that overwrite weights or state
//
// Modules, captured graphs and engines that have run take memory of the card that nobody asked for,
// as they do on a real one.
//
// One recorder at a time, one thread at a time.
#ifndef GAN_RECORD_H
#define GAN_RECORD_H

#include "cuda_device.h"

enum {
    RECORD_STREAMS = 12, // at most, the host among them
    RECORD_LINES = 256,  // and the branches of graphs
};

typedef struct Access {
    CUdeviceptr at;
    size_t n;
    bool write;
} Access;

typedef enum WorkKind { WorkLaunch, WorkCopy, WorkSet, WorkLibrary } WorkKind;

typedef struct Work { // one piece of work on the device
    WorkKind kind;
    const char *name; // of the kernel or the call
    CUstream stream;
    VEC(Access) access;
    CUdeviceptr counters; // WorkLaunch: their address,
    Counters said;        // and their values at the launch
    CUdeviceptr to, from; // WorkCopy: either both, or one and memory of the host
    void *host_to;
    const void *host_from;
    size_t n;
    bool recorded; // launched by a graph
} Work;

typedef struct Recorder Recorder;
// `memory`: bytes of device memory.
Recorder *recorder_new(size_t memory);
void recorder_free(Recorder *r);
const CudaApi *recorder_api(Recorder *r);
void recorder_card(Recorder *r, const char *name); // sets the device's name; borrowed
void recorder_without_dnn(Recorder *r, const char *why);
void recorder_without_fft(Recorder *r);
void recorder_without_cupti(Recorder *r);
void recorder_without_service(Recorder *r);  // images lack the runtime's own kernels
void recorder_refusing_kernels(Recorder *r); // none compiles
void recorder_refusing_fft(Recorder *r);     // its cuFFT rejects all plans
// Bytes of workspace that the fastest cuDNN engine (by default more than available) and every cuFFT
// plan require.
void recorder_greedy_dnn(Recorder *r, size_t bytes);
void recorder_greedy_fft(Recorder *r, size_t bytes);
uint64_t recorder_dnn_queries(const Recorder *r); // of cuDNN's heuristics, so far
void recorder_slow_epilogues(Recorder *r);        // cuDNN's engines that have one take 1 ms longer
void recorder_slow_engines(Recorder *r);          // all of them do
size_t recorder_most_memory(const Recorder *r);   // peak bytes allocated so far

// Announces a plan that is about to be loaded with these memories, to check its launches.
void recorder_plan(Recorder *r, const Plan *p, void *slots, void *work);

typedef VEC(Work) WorkVec;
const WorkVec *recorder_work(const Recorder *r);   // all so far, in the order enqueued
uint32_t recorder_live(const Recorder *r);         // objects and allocations not freed
const char *recorder_complaint(const Recorder *r); // the first; NULL when there is none
uint64_t recorder_calls(const Recorder *r);        // of either table
size_t recorder_launched_graphs(const Recorder *r);
// Edges that launches were captured with, since a fault was last set.
uint64_t recorder_edges(const Recorder *r);
int recorder_priority(CUstream s); // lower runs first; default 0
uint64_t recorder_made_graphs(const Recorder *r);
// The minimum, over the host's waits since the last call, of the launches enqueued after the
// awaited work: 0 if it waited for the last one.
uint64_t recorder_nearest_wait(Recorder *r);

// Injected faults. `nth` counts calls from now, 1 is the next.
typedef enum Mishap {
    MishapNone,
    MishapOnce,   // that call fails; an object it was to free is gone all the same
    MishapSticky, // from that call on every call fails
    MishapKernel, // `nth` counts launches: that kernel breaks the context, reported by a later call
    MishapNoCard, // no device; from the start, as the next two
    MishapOldDriver,
    MishapOldCard,
    MishapOtherCode,  // images are not for this card
    MishapEngine,     // cuDNN's second engine does not run
    MishapOneEngine,  // cuDNN has one engine for each operation, which does not run
    MishapNoHandle,   // cuDNN cannot be opened, as one that the driver does not serve
    MishapHang,       // queries never report completion
    MishapRemote,     // NCCL reports that another rank is gone
    MishapAbsent,     // NCCL's calls stay in progress, as where another rank makes none
    MishapStuckEnd,   // the end of an NCCL communicator waits for record_nccl_others_end
    MishapNoBranches, // captured launches cannot be ordered but by streams and events
    MishapNoCapture,  // no capture succeeds
    MishapDropEdge,   // the nth of those that order captured launches is left out
    MishapDropWaits,  // streams do not wait for events
    MishapDropEvents, // the host does not wait for events
} Mishap;
void recorder_mishap(Recorder *r, Mishap m, uint64_t nth);
// The code of a broken context; default: an illegal address.
void recorder_loss(Recorder *r, CUresult code);

// --- between the files ---------------------------------------------------------------------------

typedef struct Clock {
    uint64_t at[RECORD_LINES];
} Clock;

typedef struct Order Order; // record_order.c: happens-before
Order *order_new(Arena *a);
void order_join(Clock *to, const Clock *from);
// Adds work to a line and advances its clock. False, with the other's name, if it races.
bool order_add(Order *o, Clock *line, uint32_t number, const Work *w, const char **other);
void order_forget(Order *o, CUdeviceptr at, size_t n); // the memory is freed

extern Recorder *recording; // the only one
void complain(const char *format, ...);
// Counts a call. Not CUDA_SUCCESS: the call must fail with that code.
CUresult record_call(void);
// This thread captures a stream from now on, or no longer.
void record_captures(bool now);
// Complains of `call` if this thread captures a stream, which forbids it.
bool in_capture(const char *call);
// Memory that the driver takes by itself, for code and graphs. False: there is none left.
enum { RECORD_CODE = 2 << 20, RECORD_ENGINE = 512 << 10, RECORD_GRAPH = 2 << 20 };
bool record_takes(size_t bytes);
void record_gives(size_t bytes);
// Work on a stream: added to the graph being captured, or executed now.
void record_work(CUstream stream, Work w);
void record_fill(CUstream stream, CUdeviceptr at, size_t n); // a library's memset to zero
Arena *record_arena(void);
extern const CudnnApi record_dnn_api; // record_dnn.c
void record_dnn_begin(void);
void record_dnn_greed(size_t bytes);
void record_dnn_slow_epilogues(void);
void record_dnn_slow(void);
float record_dnn_delay(void); // ms that the engine that ran last takes longer than others
uint32_t record_dnn_live(void);
uint64_t record_dnn_queries(void);
Mishap record_mishap(void);
#ifdef GAN_HAVE_CUFFT
extern const CufftApi record_fft_api; // record_fft.c
#define RECORD_FFT &record_fft_api
#else
#define RECORD_FFT NULL
#endif
void record_fft_begin(void);
void record_fft_refuses(void);
void record_fft_greed(size_t bytes);
uint32_t record_fft_live(void);
#ifdef GAN_HAVE_NCCL
extern const NcclApi record_nccl_api; // record_nccl.c
#define RECORD_NCCL &record_nccl_api
#else
#define RECORD_NCCL NULL
#endif
extern const CuptiApi record_cupti_api; // record_cupti.c
void record_cupti_begin(void);
uint32_t record_cupti_live(void); // kinds that are still looked at
void record_nccl_begin(void);
uint32_t record_nccl_live(void);
uint32_t record_nccl_aborted(void); // communicators aborted
// The other ranks have ended theirs: returns when the ends that wait for it have, too.
void record_nccl_others_end(void);
bool record_graph_has(const char *name); // some graph that is there does work of this name
// What a launch reads and writes (record_plan.c).
void record_plan_begin(void);
bool launch_accesses(const char *kernel, const uint64_t *words, Work *w);
bool changes_slots(const Work *w);         // writes memory that outlives a step
uint32_t launch_words(const char *kernel); // that each of its regions has; 0: no such kernel

#endif
