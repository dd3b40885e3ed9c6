// cpu.c - the cpu device: generated kernels on all cores, anchors by oneDNN, both behind one list
// of tasks per block (cpu.h).
//
// A kernel is a function over a range of chunks; a task's chunks, of all its instances, are
// distributed over the threads in order, so results do not depend on their number. Without a
// compiler or a library, plain.c runs instead.
#define _GNU_SOURCE
#include "cpu.h"

#include <math.h>
#include <sched.h>
#include <string.h>
#ifdef _OPENMP
#include <omp.h>
#else
#include <dlfcn.h>
#endif

// --- the device ----------------------------------------------------------------------------------

// Of a build without OpenMP too: oneDNN may have been built with it, and how many threads it takes
// decides its bits.
void use_threads(int n) {
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

bool cpu_unbind(void) {
#ifdef _OPENMP
    cpu_set_t all;
    CPU_ZERO(&all);
    if (omp_get_proc_bind() == omp_proc_bind_false)
        return false;
    for (int place = 0; place < omp_get_num_places(); place++) {
        int n = omp_get_place_num_procs(place), *id = mem_alloc((size_t)n * sizeof *id);
        if (!id)
            return false;
        omp_get_place_proc_ids(place, id);
        for (int i = 0; i < n; i++)
            CPU_SET(id[i], &all);
        mem_free(id);
    }
    return sched_setaffinity(0, sizeof all, &all) == 0;
#else
    return false;
#endif
}

static void cpu_close(Device *d) {
    if (!d)
        return;
    jit_close(((Cpu *)d)->jit);
    mem_free(d);
}

static void note_no_compiler(const Device *d) {
    Arena a;
    if (arena_init(&a, 0) != GAN_OK)
        return; // what follows says so
    static const char slow[] = "kernels run as reference loops, many times slower";
    Str asked = d->options.compiler;
    Str text = asked.len ? str_format(&a,
                                      "GAN_CC is `%.*s`, no C compiler (a program's name or path, "
                                      "without options): %s",
                                      SARG(asked), slow)
                         : str_format(&a, "no C compiler found: %s", slow);
    device_notice(d, text.ptr);
    arena_release(&a);
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
        note_no_compiler(&c->base);
    *out = &c->base;
    return GAN_OK;
}

static GanStatus cpu_alloc(Device *d, size_t bytes, void **out) {
    (void)d;
    *out = mem_alloc_pages(bytes ? bytes : 1);
    return *out ? GAN_OK : fail(GAN_ERR_MEMORY, "the machine refused %zu bytes of memory", bytes);
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
        memcpy(t->copy.to, t->copy.from, t->copy.bytes);
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
        TRY(cpu_improve(l, false));
        TRY(prepare_first(l, block, &b->task[i]));
        use_threads(team_now(l));
        TRY(run_task(l, &b->task[i], c));
    }
    return GAN_OK;
}

// Products are prepared in the order of their block, whichever launch of it is wanted.
static GanStatus cpu_launch(Loaded *l, uint32_t block, uint32_t launch, const Counters *c) {
    const Block *b = &l->block[block];
    TRY(cpu_improve(l, false));
    for (uint32_t i = 0; i < b->n && b->task[i].launch <= launch; i++) {
        TRY(prepare_first(l, block, &b->task[i]));
        use_threads(team_now(l));
        if (b->task[i].launch == launch)
            TRY(run_task(l, &b->task[i], c));
    }
    return GAN_OK;
}

static GanStatus cpu_ready(Loaded *l) {
    return cpu_improve(l, true);
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
    .release = host_release,
    .put = host_copy,
    .get = host_copy,
    .load = cpu_load,
    .unload = cpu_unload,
    .run = cpu_run,
    .launch = cpu_launch,
    .ready = cpu_ready,
    .sync = host_sync,
    .inside = cpu_inside,
    .supports = device_takes,
    .roofline = device_cpu_roofline,
};
