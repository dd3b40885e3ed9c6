// cpu_load.c - from a plan to the tasks of the cpu device.
//
// In: a plan and two memories. Out: for every launch one task, ready to run: its functions, its
// pointers, or its library call. A product is prepared when it first runs (cpu.c). Without a
// compiler each region of a launch is a task of its own, computed by plain.c.
#include "cpu.h"

#include "integers.h"

#include <string.h>

// The least work for one more thread: starting and joining one takes some 2 us where cores are
// free, and a scheduler's time slice where they are not.
static const double WorthProduct = 1e5, WorthLoop = 8e3; // operations

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

GanStatus cpu_improve(Loaded *l, bool wait) {
    bool moved = false;
    if (l->code && jit_improve(l->code, wait, &moved) != GAN_OK) {
        Arena scratch = l->arena;
        Str text = str_format(&scratch, "kernels stay as they were compiled first, slower: %s",
                              gan_error());
        device_notice(&l->cpu->base, text.ptr);
    }
    return moved ? find_functions(l) : GAN_OK;
}

static void load_part(Loaded *l, const Region *r, size_t *scratch, Part *out) {
    void **p = arena_array(&l->arena, void *, r->arg.n + 2);
    uint32_t n = 0;
    for (uint32_t i = 0; i < r->arg.n; i++)
        p[n++] = memory_need(l->memory, l->plan, region_arg(r, i));
    p[n++] = (char *)l->scratch + *scratch;
    p[n++] = r->number.at;
    *scratch += round_up(r->scratch, 64);
    int64_t chunks = ceil_div(r->units, r->grain);
    *out = (Part){&l->kernel[r->kernel], p, chunks, r->units, r->grain};
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

int product_threads(const Loaded *l, uint32_t id) {
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
        *out = (Task){.kind = TaskCopy, .copy = memory_copy(l->memory, l->plan, r)};
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
        for (uint32_t k = 0; k < p->launch.at[i].instances; k++)
            need += round_up(p->region.at[p->merge.at[p->launch.at[i].first + k]].scratch, 64);
        most = need > most ? need : most;
    }
    l->scratch = mem_alloc_pages(most ? most : 64);
    return l->scratch ? GAN_OK
                      : fail(GAN_ERR_MEMORY, "no memory for %zu bytes of partial results", most);
}

void cpu_unload(Loaded *l) {
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

static bool has_products(const Plan *p) {
    for (uint32_t i = 0; i < p->region.n; i++) {
        const Region *r = &p->region.at[i];
        if (r->kind == RegionCall && node_family(&p->func->g, r->node.at[0]) == FamilyProduct)
            return true;
    }
    return false;
}

// `init` mostly has none: then the thread that loads the step loads the library, while weights are
// drawn.
static GanStatus load_library(Loaded *l) {
    if (!has_products(l->plan))
        return GAN_OK;
    TRY(dnn_open(&l->dnn));
    if (!l->dnn)
        device_notice(&l->cpu->base,
                      "built without oneDNN: convolution and matrix products run as plain loops");
    return GAN_OK;
}

static GanStatus load_all(void *user) {
    Loaded *l = user;
    TRY(load_kernels(l));
    TRY(load_scratch(l));
    TRY(load_library(l));
    l->block = arena_array(&l->arena, Block, l->plan->section.n);
    for (uint32_t i = 0; i < l->plan->section.n; i++)
        TRY(load_block(l, l->plan->section.at[i], &l->block[i]));
    return GAN_OK;
}

GanStatus cpu_load(Device *d, const Plan *plan, void *slots, void *work, Loaded **out) {
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
