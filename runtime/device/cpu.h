// cpu.h - inside the cpu device: a loaded plan as blocks of tasks.
//
//   cpu.c         the device; runs tasks, and prepares products when they first run
//   cpu_load.c    from a plan to tasks
//   cpu_ahead.c   products prepared by several threads
//   cpu_fft.c, cpu_order.c   transforms; sorting and what is arranged by it
#ifndef GAN_CPU_H
#define GAN_CPU_H

#include "device.h"

// --- cpu_ahead.c: products prepared by several threads -------------------------------------------

typedef struct Ahead Ahead;
// Prepares node `id` of the plan, to fill the library's cache.
typedef GanStatus AheadPrepare(void *user, Dnn *d, uint32_t id);
// Starts up to `threads` threads, which prepare the plan's products, the last first. Whoever runs
// the plan says which launch it has come to, and joins them. *out may be NULL, and is accepted.
GanStatus ahead_start(const Plan *p, int threads, AheadPrepare *prepare, void *user, Ahead **out);
void ahead_run(Ahead *a, uint32_t launch);
int ahead_busy(const Ahead *a); // how many threads still work
void ahead_join(Ahead *a);

// --- cpu_fft.c: Fourier transforms ---------------------------------------------------------------

typedef struct FftCall FftCall; // one prepared transform
typedef struct FftCalls {       // those of one loaded plan
    FftCall *last;              // owned; the others behind it
} FftCalls;
// Adds a call for node `id`, which up to `threads` threads may run.
GanStatus fft_prepare(FftCalls *calls, const Plan *p, uint32_t id, Memory m, int threads);
void fft_run(const FftCall *c, int team);
void fft_release(FftCalls *calls);

// --- cpu_order.c: sorting and what is arranged by it ---------------------------------------------

typedef struct OrderCall OrderCall; // one prepared order, or what is arranged by one
typedef struct OrderCalls {         // those of one loaded plan
    OrderCall *last;                // owned; the others behind it
} OrderCalls;
// Adds a call for node `id`, which up to `threads` threads may run.
GanStatus order_prepare(OrderCalls *calls, const Plan *p, uint32_t id, Memory m, int threads);
double order_operations(const Graph *g, uint32_t id); // an estimate of comparisons and moves
void order_run_call(const OrderCall *c, int team);
void order_release(OrderCalls *calls);

// --- a loaded plan -------------------------------------------------------------------------------

typedef void KernelFn(void *const *p, const Counters *c, int64_t lo, int64_t hi);
typedef void FinishFn(void *const *p);

typedef struct Cpu {
    Device base;
    Jit *jit;      // owned; NULL when there is no compiler
    bool counting; // time inside kernels is added up
    double inside; // seconds, since counting began
} Cpu;

typedef struct Functions { // of a kernel; they may move between tasks (jit_improve)
    KernelFn *run;
    FinishFn *finish; // may be NULL: adds the chunks' partial results
} Functions;

typedef struct Part { // one region inside a task
    const Functions *kernel;
    void **p; // inputs, outputs, scratch
    int64_t chunks;
    int64_t units, grain; // a chunk is `grain` units, the last one less
} Part;

typedef enum TaskKind {
    TaskKernel,
    TaskProduct, // not prepared yet: becomes TaskDnn or TaskPlain when it first runs
    TaskDnn,
    TaskFft,
    TaskOrder,
    TaskCopy,
    TaskPlain,
    TaskStart,
    TaskWait
} TaskKind;

typedef struct Task {
    TaskKind kind;
    uint32_t launch; // Plan.launch[] it is of
    uint32_t parts;
    Part *part;             // TaskKernel: [parts]
    int64_t chunks;         // of all parts
    int threads;            // at most so many are worth their start
    const DnnCall *call;    // TaskDnn
    const FftCall *fft;     // TaskFft
    const OrderCall *order; // TaskOrder
    const Region *region;   // TaskProduct, TaskPlain, TaskStart, TaskWait
    SlotCopy copy;          // TaskCopy
} Task;

typedef struct Block {
    uint32_t n;
    Task *task;
} Block;

struct Loaded {
    Cpu *cpu;          // borrowed
    const Plan *plan;  // borrowed
    Memory memory;     // borrowed
    Arena arena;       // tasks live here
    Block *block;      // [func->blocks]
    JitCode *code;     // owned
    Dnn *dnn;          // owned; NULL without the library
    uint32_t waiting;  // tasks that are TaskProduct
    Ahead *ahead;      // owned; NULL once none waits, and where it is not worth a thread
    bool started;      // ahead_start was called
    FftCalls fft;      // owned
    OrderCalls order;  // owned
    void *scratch;     // owned; partial results of the launch that runs
    Functions *kernel; // [plan->kernel.n]
};

void use_threads(int n); // of OpenMP, in the calling thread

// --- cpu_load.c ----------------------------------------------------------------------------------

GanStatus cpu_load(Device *d, const Plan *plan, void *slots, void *work, Loaded **out);
void cpu_unload(Loaded *l);                          // accepts NULL
int product_threads(const Loaded *l, uint32_t node); // how many are worth their start
// Takes better code where the compiler has made some meanwhile; `wait`: all of it. That it could
// not is no reason to end a run.
GanStatus cpu_improve(Loaded *l, bool wait);

#endif
