// cpu.c - the cpu device: generated kernels on all cores, anchors by oneDNN, both behind one list
// of tasks per block.
//
// In: a plan and two memories. Out: for every launch one Task, ready to run: its functions, its
// pointers, or its library call, which is prepared when it first runs. A kernel is a function over
// a range of chunks; a task's chunks, of all its instances, are distributed over the threads in
// order, so results do not depend on their number. Without a compiler or a library, plain.c runs
// instead.
#define _GNU_SOURCE
#include "device.h"

#include <math.h>
#include <string.h>
#ifdef _OPENMP
#include <omp.h>
#else
#include <dlfcn.h>
#endif

typedef void KernelFn(void *const *p, const Counters *c, int64_t lo, int64_t hi);
typedef void FinishFn(void *const *p);

typedef struct Cpu {
    Device base;
    Jit *jit;      // owned; NULL when there is no compiler
    bool counting; // time inside kernels is added up
    double inside; // seconds, since counting began
} Cpu;

// The least work for one more thread: starting and joining one takes some 2 us where cores are
// free, and a scheduler's time slice where they are not.
static const double WorthProduct = 1e5, WorthLoop = 8e3; // operations

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
    TaskProduct, // to become one of the next two when it first runs
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

// --- the device ----------------------------------------------------------------------------------

// Of a build without OpenMP too: oneDNN may have been built with it, and how many threads it takes
// decides its bits.
static void use_threads(int n) {
#ifdef _OPENMP
    omp_set_num_threads(n);
#else
    void (*set)(int) = NULL;
    void *found = dlsym(RTLD_DEFAULT, "omp_set_num_threads");
    memcpy(&set, &found, sizeof set); // ISO C has no cast to a function
    if (set)
        set(n);
#endif
}

static void cpu_close(Device *d) {
    if (!d)
        return;
    jit_close(((Cpu *)d)->jit);
    mem_free(d);
}

static GanStatus cpu_open(const DeviceOptions *o, Device **out) {
    Cpu *c = mem_alloc(sizeof *c);
    if (!c)
        return fail(GAN_ERR_MEMORY, "no memory for the cpu device");
    c->base =
        (Device){.api = &device_cpu, .options = *o, .threads = device_threads_for(o->threads)};
    GanStatus st = jit_open(o, &c->jit);
    if (st != GAN_OK) {
        cpu_close(&c->base);
        return st;
    }
    if (!c->jit)
        device_notice(&c->base,
                      "no C compiler found: kernels run as reference loops, many times slower");
    *out = &c->base;
    return GAN_OK;
}

static GanStatus cpu_alloc(Device *d, size_t bytes, void **out) {
    (void)d;
    *out = mem_alloc_pages(bytes ? bytes : 1);
    return *out ? GAN_OK : fail(GAN_ERR_MEMORY, "the machine refused %zu bytes of memory", bytes);
}

static void cpu_release(Device *d, void *ptr) {
    (void)d;
    mem_free_aligned(ptr);
}

static GanStatus cpu_copy(Device *d, void *to, const void *from, size_t n) {
    (void)d;
    memcpy(to, from, n);
    return GAN_OK;
}

static GanStatus cpu_sync(Device *d) {
    (void)d;
    return GAN_OK;
}

// --- loading -------------------------------------------------------------------------------------

static GanStatus find_functions(Loaded *l) {
    const Plan *p = l->plan;
    Arena scratch = l->arena;
    for (uint32_t i = 0; i < p->kernel.n; i++) {
        const Kernel *k = &p->kernel.at[i];
        void *run = jit_find(l->code, i, str_z(&scratch, k->name)), *finish = NULL;
        if (k->finish)
            finish = jit_find(l->code, i, str_format(&scratch, "%.*s_finish", SARG(k->name)).ptr);
        if (!run || (k->finish && !finish))
            return fail(GAN_ERR_DEVICE, "compiled kernels lack %.*s", SARG(k->name));
        memcpy(&l->kernel[i].run, &run, sizeof run); // ISO C has no cast to a function
        memcpy(&l->kernel[i].finish, &finish, sizeof finish);
    }
    return GAN_OK;
}

static GanStatus load_kernels(Loaded *l) {
    const Plan *p = l->plan;
    uint32_t n = p->kernel.n;
    if (!l->cpu->jit || !n)
        return GAN_OK;
    JitKernel *kernel = arena_array(&l->arena, JitKernel, n);
    for (uint32_t i = 0; i < n; i++)
        kernel[i] = (JitKernel){p->kernel.at[i].name, p->kernel.at[i].source};
    TRY(jit_load(l->cpu->jit, p->prelude, kernel, n, &l->code));
    l->kernel = arena_array(&l->arena, Functions, n);
    return find_functions(l);
}

// Takes better code where the compiler has made some meanwhile. That it could not is no reason to
// end a run.
static GanStatus improve(Loaded *l, bool wait) {
    bool moved = false;
    if (l->code && jit_improve(l->code, wait, &moved) != GAN_OK) {
        Arena scratch = l->arena;
        Str text = str_format(&scratch, "kernels stay as they were compiled first, slower: %s",
                              gan_error());
        device_notice(&l->cpu->base, text.ptr);
    }
    return moved ? find_functions(l) : GAN_OK;
}

static void *address(const Loaded *l, uint32_t node) {
    void *at = memory_at(l->memory, l->plan, node);
    if (!at)
        bug("cpu: node %u (%s) is not stored", node,
            op_info[graph_node(&l->plan->func->g, node)->op].text);
    return at;
}

static void load_part(Loaded *l, const Region *r, size_t *scratch, Part *out) {
    void **p = arena_array(&l->arena, void *, r->in.n + r->out.n + 2);
    uint32_t n = 0;
    for (uint32_t i = 0; i < r->in.n; i++)
        p[n++] = address(l, r->in.at[i]);
    for (uint32_t i = 0; i < r->out.n; i++)
        p[n++] = address(l, r->out.at[i]);
    p[n++] = (char *)l->scratch + *scratch;
    p[n++] = r->number.at;
    *scratch += (r->scratch + 63) & ~(size_t)63;
    int64_t chunks = (r->units + r->grain - 1) / r->grain;
    *out = (Part){&l->kernel[r->kernel], p, chunks, r->units, r->grain};
}

// Saves a slot's old value (schedule.c): the region's one member is the read.
static Task copy_task(const Loaded *l, const Region *r) {
    const Graph *g = &l->plan->func->g;
    uint32_t read = r->node.at[0];
    const Slot *slot = &l->plan->module->slot.at[node_attr(g, read)->i[0]];
    return (Task){.kind = TaskCopy,
                  .to = address(l, read),
                  .from = l->memory.slots + slot->offset,
                  .bytes = type_bytes(g, node_type(g, read))};
}

static int threads_worth(const Loaded *l, double operations, double each) {
    double n = operations / each, most = l->cpu->base.threads;
    return n >= most ? (int)most : n > 1 ? (int)n : 1;
}

// Of a loop: an element of a member, or of what a sum adds up, is one.
static double loop_operations(const Graph *g, const Region *r) {
    double sum = 0;
    for (uint32_t i = 0; i < r->node.n; i++) {
        uint32_t id = r->node.at[i], operand = graph_node(g, id)->nin ? node_in(g, id, 0) : id;
        int64_t out = type_elements(g, node_type(g, id)),
                in = type_elements(g, node_type(g, operand));
        sum += (double)(in > out ? in : out);
    }
    return sum;
}

typedef GanStatus AnchorTask(Loaded *l, const Region *r, Task *out);

static int product_threads(const Loaded *l, uint32_t id) {
    return threads_worth(l, node_gflop(&l->plan->func->g, id) * 1e9, WorthProduct);
}

static GanStatus product_task(Loaded *l, const Region *r, Task *out) {
    *out = (Task){.kind = l->dnn ? TaskProduct : TaskPlain, .region = r};
    l->waiting += l->dnn != NULL;
    return GAN_OK;
}

static GanStatus transform_task(Loaded *l, const Region *r, Task *out) {
    TRY(fft_prepare(&l->fft, l->plan, r->node.at[0], l->memory, l->cpu->base.threads));
    *out = (Task){.kind = TaskFft, .fft = l->fft.last};
    return GAN_OK;
}

static GanStatus order_task(Loaded *l, const Region *r, Task *out) {
    uint32_t id = r->node.at[0];
    int threads = threads_worth(l, order_operations(&l->plan->func->g, id), WorthLoop);
    TRY(order_prepare(&l->order, l->plan, id, l->memory, threads));
    *out = (Task){.kind = TaskOrder, .order = l->order.last};
    return GAN_OK;
}

static AnchorTask *const anchor_task[FamilyCount] = {
    [FamilyProduct] = product_task, [FamilyTransform] = transform_task, [FamilyOrder] = order_task};

// A library call, a copy or half a collective: never merged with others.
static GanStatus single_task(Loaded *l, const Region *r, Task *out) {
    if (r->kind == RegionCopy) {
        *out = copy_task(l, r);
        return GAN_OK;
    }
    if (r->kind == RegionStart || r->kind == RegionWait) {
        *out = (Task){.kind = r->kind == RegionStart ? TaskStart : TaskWait, .region = r};
        return GAN_OK;
    }
    return anchor_task[node_family(&l->plan->func->g, r->node.at[0])](l, r, out);
}

static GanStatus load_task(Loaded *l, Launch launch, Task *out) {
    const Plan *p = l->plan;
    const Region *first = &p->region.at[launch.region];
    if (first->kind != RegionLoop)
        return single_task(l, first, out);
    *out = (Task){.kind = TaskKernel, .parts = launch.instances};
    out->part = arena_array(&l->arena, Part, launch.instances);
    size_t scratch = 0;
    double operations = 0;
    for (uint32_t i = 0; i < launch.instances; i++) {
        const Region *r = &p->region.at[p->merge.at[launch.first + i]];
        load_part(l, r, &scratch, &out->part[i]);
        out->chunks += out->part[i].chunks;
        operations += loop_operations(&p->func->g, r);
    }
    out->threads = threads_worth(l, operations, WorthLoop);
    return GAN_OK;
}

// Without a compiler each region of a launch is a task of its own.
static uint32_t tasks_of(const Loaded *l, Launch launch) {
    return l->code || l->plan->region.at[launch.region].kind != RegionLoop ? 1 : launch.instances;
}

static GanStatus load_block(Loaded *l, Section b, Block *out) {
    const Plan *p = l->plan;
    uint32_t n = 0;
    for (uint32_t i = b.first; i < b.first + b.n; i++)
        n += tasks_of(l, p->launch.at[i]);
    *out = (Block){0, arena_array(&l->arena, Task, n)};
    for (uint32_t i = b.first; i < b.first + b.n; i++) {
        Launch launch = p->launch.at[i];
        uint32_t first = out->n;
        if (l->code || p->region.at[launch.region].kind != RegionLoop) {
            TRY(load_task(l, launch, &out->task[out->n++]));
        } else {
            for (uint32_t k = 0; k < launch.instances; k++)
                out->task[out->n++] = (Task){
                    .kind = TaskPlain, .region = &p->region.at[p->merge.at[launch.first + k]]};
        }
        for (uint32_t k = first; k < out->n; k++)
            out->task[k].launch = i;
    }
    return GAN_OK;
}

static GanStatus load_scratch(Loaded *l) {
    const Plan *p = l->plan;
    size_t most = 0;
    for (uint32_t i = 0; i < p->launch.n; i++) {
        size_t need = 0;
        for (uint32_t k = 0; k < p->launch.at[i].instances; k++) {
            need +=
                (p->region.at[p->merge.at[p->launch.at[i].first + k]].scratch + 63) & ~(size_t)63;
        }
        most = need > most ? need : most;
    }
    l->scratch = mem_alloc_pages(most ? most : 64);
    return l->scratch ? GAN_OK
                      : fail(GAN_ERR_MEMORY, "no memory for %zu bytes of partial results", most);
}

static void cpu_unload(Loaded *l) {
    if (!l)
        return;
    ahead_join(l->ahead);
    dnn_close(l->dnn);
    fft_release(&l->fft);
    order_release(&l->order);
    jit_free(l->code);
    mem_free_aligned(l->scratch);
    arena_release(&l->arena);
    mem_free(l);
}

static GanStatus load_all(void *user) {
    Loaded *l = user;
    TRY(load_kernels(l));
    TRY(load_scratch(l));
    TRY(dnn_open(&l->dnn));
    if (!l->dnn)
        device_notice(&l->cpu->base,
                      "built without oneDNN: convolution and matrix products run as plain loops");
    l->block = arena_array(&l->arena, Block, l->plan->section.n);
    for (uint32_t i = 0; i < l->plan->section.n; i++)
        TRY(load_block(l, l->plan->section.at[i], &l->block[i]));
    return GAN_OK;
}

static GanStatus cpu_load(Device *d, const Plan *plan, void *slots, void *work, Loaded **out) {
    TRY(device_check(d, plan));
    TRY(collective_check(plan, d->options.comm));
    use_threads(d->threads);
    Loaded *l = mem_alloc(sizeof *l);
    if (!l)
        return fail(GAN_ERR_MEMORY, "no memory to load a plan");
    *l = (Loaded){.cpu = (Cpu *)d, .plan = plan, .memory = {slots, work}};
    GanStatus st = arena_init(&l->arena, 0);
    if (st == GAN_OK)
        st = arena_guard(&l->arena, "to load a plan", load_all, l);
    if (st != GAN_OK) {
        cpu_unload(l);
        return st;
    }
    *out = l;
    return GAN_OK;
}

// --- running -------------------------------------------------------------------------------------

// Runs chunks [lo, hi) of the task's parts, numbered through.
static void run_range(const Task *t, const Counters *c, int64_t lo, int64_t hi) {
    int64_t first = 0;
    for (uint32_t i = 0; i < t->parts && first < hi; first += t->part[i++].chunks) {
        const Part *part = &t->part[i];
        int64_t a = lo > first ? lo - first : 0,
                b = hi - first < part->chunks ? hi - first : part->chunks;
        int64_t last = b * part->grain < part->units ? b * part->grain : part->units;
        if (a < b)
            part->kernel->run(part->p, c, a * part->grain, last);
    }
}

// The same, and how long it took where that is counted.
static double run_share(const Task *t, const Counters *c, int64_t lo, int64_t hi, bool counting) {
    double began = counting ? time_now() : 0;
    run_range(t, c, lo, hi);
    return counting ? time_now() - began : 0;
}

static double run_finish(const Task *t, bool counting) {
    double began = counting ? time_now() : 0;
    for (uint32_t i = 0; i < t->parts; i++)
        if (t->part[i].kernel->finish)
            t->part[i].kernel->finish(t->part[i].p);
    return counting ? time_now() - began : 0;
}

// Threads that prepare products are the device's.
static int team_now(const Loaded *l) {
    int team = device_team(&l->cpu->base) - ahead_busy(l->ahead);
    return team > 1 ? team : 1;
}

// Starting and joining the team is no work of a kernel's; waiting for its slowest member is.
static double run_team(const Task *t, const Counters *c, int64_t lo, int64_t hi, int threads,
                       bool counting) {
    int64_t n = hi - lo;
    int team = n < threads ? (int)n : threads;
    if (team <= 1)
        return run_share(t, c, lo, hi, counting);
    double longest = 0;
#pragma omp parallel for num_threads(team) schedule(static, 1) reduction(max : longest)
    for (int i = 0; i < team; i++)
        longest =
            fmax(longest, run_share(t, c, lo + n * i / team, lo + n * (i + 1) / team, counting));
    return longest;
}

// A launch may last as long as the loan of a thread: `init` is one launch, which draws all weights.
// So with fewer threads than it is worth it runs in slices, and a thread that returns joins the
// next.
static void run_kernels(const Loaded *l, const Task *t, const Counters *c) {
    enum { SLICE = 64 }; // chunks, of some 8,192 numbers each
    Cpu *cpu = l->cpu;
    int64_t hi;
    for (int64_t lo = 0; lo < t->chunks; lo = hi) {
        int now = team_now(l), team = t->threads < now ? t->threads : now;
        bool partial = team < t->threads && t->chunks - lo > SLICE;
        hi = partial ? lo + SLICE : t->chunks;
        cpu->inside += run_team(t, c, lo, hi, team, cpu->counting);
    }
    cpu->inside += run_finish(t, cpu->counting);
}

static GanStatus run_call(const Loaded *l, const Task *t) {
    Cpu *cpu = l->cpu;
    double began = cpu->counting ? time_now() : 0;
    if (t->kind == TaskFft) {
        fft_run(t->fft, team_now(l));
    } else if (t->kind == TaskOrder) {
        order_run_call(t->order, team_now(l));
    } else {
        use_threads(t->threads); // whichever are free: their number may decide a product's bits
        GanStatus st = dnn_run(l->dnn, t->call);
        use_threads(team_now(l));
        TRY(st);
    }
    cpu->inside += cpu->counting ? time_now() - began : 0;
    return GAN_OK;
}

static GanStatus run_task(const Loaded *l, const Task *t, const Counters *c) {
    switch (t->kind) {
    case TaskKernel:
        run_kernels(l, t, c);
        return GAN_OK;
    case TaskProduct:
        bug("cpu: a product runs that was not prepared");
    case TaskDnn:
    case TaskFft:
    case TaskOrder:
        return run_call(l, t);
    case TaskCopy:
        memcpy(t->to, t->from, t->bytes);
        return GAN_OK;
    case TaskPlain:
        return plain_region(l->plan, t->region, l->memory, c);
    case TaskStart:
        return collective_start(l->plan, t->region->call, l->memory, l->cpu->base.options.comm,
                                c->step);
    case TaskWait:
        return comm_wait(l->cpu->base.options.comm, t->region->call);
    }
    return GAN_OK;
}

// --- products ------------------------------------------------------------------------------------

static GanStatus prepare_product(const Loaded *l, Dnn *d, uint32_t id, DnnCall **out) {
    use_threads(product_threads(l, id)); // the primitives are made for so many
    GanStatus st = dnn_prepare(d, l->plan, id, l->memory, out);
    use_threads(l->cpu->base.threads);
    return st;
}

static GanStatus prepare_ahead(void *user, Dnn *d, uint32_t id) {
    DnnCall *call;
    return prepare_product(user, d, id, &call);
}

static GanStatus prepare_task(Loaded *l, uint32_t block, Task *t) {
    uint32_t id = t->region->node.at[0];
    DnnCall *call;
    dnn_block(l->dnn, block);
    ahead_run(l->ahead, t->launch);
    TRY(prepare_product(l, l->dnn, id, &call));
    TRY(dnn_ready(l->dnn));
    t->kind = call ? TaskDnn : TaskPlain;
    t->call = call;
    t->threads = product_threads(l, id);
    if (--l->waiting > 0)
        return GAN_OK;
    ahead_join(l->ahead);
    l->ahead = NULL;
    return GAN_OK;
}

// A task that runs for the first time is prepared, so that a step starts before all of it is.
static GanStatus prepare_first(Loaded *l, uint32_t block, Task *t) {
    if (t->kind != TaskProduct)
        return GAN_OK;
    if (!l->started)
        TRY(ahead_start(l->plan, l->cpu->base.threads - 1, prepare_ahead, l, &l->ahead));
    l->started = true;
    return prepare_task(l, block, t);
}

static GanStatus cpu_run(Loaded *l, uint32_t block, const Counters *c) {
    const Block *b = &l->block[block];
    for (uint32_t i = 0; i < b->n; i++) {
        TRY(improve(l, false));
        TRY(prepare_first(l, block, &b->task[i]));
        use_threads(team_now(l));
        TRY(run_task(l, &b->task[i], c));
    }
    return GAN_OK;
}

// Products are prepared in the order of their block, whichever launch of it is wanted.
static GanStatus cpu_launch(Loaded *l, uint32_t block, uint32_t launch, const Counters *c) {
    const Block *b = &l->block[block];
    TRY(improve(l, false));
    for (uint32_t i = 0; i < b->n && b->task[i].launch <= launch; i++) {
        TRY(prepare_first(l, block, &b->task[i]));
        use_threads(team_now(l));
        if (b->task[i].launch == launch)
            TRY(run_task(l, &b->task[i], c));
    }
    return GAN_OK;
}

static GanStatus cpu_ready(Loaded *l) {
    return improve(l, true);
}

static double cpu_inside(Device *d, bool count) {
    Cpu *cpu = (Cpu *)d;
    double seconds = cpu->inside;
    cpu->counting = count;
    cpu->inside = 0;
    return seconds;
}

const DeviceApi device_cpu = {
    .name = "cpu",
    .dialect = "c",
    .open = cpu_open,
    .close = cpu_close,
    .alloc = cpu_alloc,
    .release = cpu_release,
    .put = cpu_copy,
    .get = cpu_copy,
    .load = cpu_load,
    .unload = cpu_unload,
    .run = cpu_run,
    .launch = cpu_launch,
    .ready = cpu_ready,
    .sync = cpu_sync,
    .inside = cpu_inside,
    .supports = device_takes,
    .roofline = device_cpu_roofline,
};
