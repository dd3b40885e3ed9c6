// cpu.h - inside the cpu device: a loaded plan as blocks of tasks.
//
//   cpu.c         the device; runs tasks, and prepares products when they first run
//   cpu_load.c    from a plan to tasks
//   cpu_ahead.c   products prepared by several threads
//   cpu_fft.c, cpu_order.c   transforms; sorting and what is arranged by it
#ifndef GAN_CPU_H
#define GAN_CPU_H

#include "device.h"

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
    void *to;               // TaskCopy
    const void *from;
    size_t bytes;
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
