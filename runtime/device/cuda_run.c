// cuda_run.c - enqueues a block's tasks: one by one the first time, then as one captured graph.
//
// In: a loaded plan, a block, counters. Out: work in order on `compute`; the host does not wait. A
// graph is captured once and replayed unchanged: whatever differs from run to run is in memory, and
// a small kernel before each launch updates the counters (cuda_service.c). With and without graphs
// the same calls are made in the same order, so the bits are the same.
//
// Branches: the next node that `compute` captures depends on a set of nodes, which is replaced
// before each task by those of the tasks it must wait for (cuda_branch.c), and read after it: a
// library call may be several nodes, and a wait for a collective none. One stream and no events for
// it. A graph that a driver or a library refuses is captured without branches, and if that is
// refused too, tasks run one by one.
//
// A failing kernel is reported by some later call, and the context is lost. To name it, {block,
// task} of the next task is copied to pinned memory every few tasks: a breadcrumb, which says that
// all tasks before are done. A block's first comes with its counters and says the step, as the host
// may be steps ahead. In a graph the copies are on `aside`, so that no launch waits for one. In a
// chain each may arrive as late as the next, so the failure lies within two of them; among branches
// any later task of the block may have failed.
#include "cuda_plan.h"

enum {
    CRUMB_EVERY = 16,    // tasks; with --no-graph, which is for debugging, 1
    CRUMB_BRANCHES = 64, // the same among branches, where each waits for several nodes
};

typedef VEC(CUgraphNode) Nodes;

typedef struct Capture { // of some tasks, in progress
    Arena *a;            // scratch
    uint32_t n;
    const CudaAfter *after; // [n] NULL: one chain, as `compute` orders them by itself
    Nodes *node;            // [n] what waits for the task depends on these
    bool *open;             // [n] captured, and neither a task nor a breadcrumb waits for it yet
} Capture;

static const Kernel *kernel_of(const Loaded *l, const CudaTask *t) {
    return &l->plan->kernel.at[l->plan->region.at[t->region].kernel];
}

static GanStatus run_task(Loaded *l, const CudaTask *t) {
    Cuda *c = l->cuda;
    switch (t->kind) {
    case CudaKernel:
        CUDA_TRY(c,
                 LaunchKernel(t->function, t->blocks, t->instances, 1, t->threads, 1, 1, t->shared,
                              c->compute, t->params, NULL),
                 "launching %.*s in %u x %u blocks of %u threads", SARG(kernel_of(l, t)->name),
                 t->blocks, t->instances, t->threads);
        return GAN_OK;
    case CudaCopy:
        CUDA_TRY(c, MemcpyDtoDAsync(t->to, t->from, t->bytes, c->compute),
                 "copying a weight of %zu bytes", t->bytes);
        return GAN_OK;
    case CudaAnchor:
        return cudnn_run(t->call);
    case CudaTransform:
        return cufft_run(t->transform);
    case CudaStart:
        return cuda_comm_start(l, t->collective);
    case CudaWait:
        return cuda_comm_wait(l, t->collective);
    }
    return GAN_OK;
}

// --- branches ------------------------------------------------------------------------------------

static void add_nodes(Arena *a, Nodes *to, const Nodes *from) {
    for (uint32_t i = 0; i < from->n; i++) {
        uint32_t k = 0;
        while (k < to->n && to->at[k] != from->at[i])
            k++;
        if (k == to->n)
            vec_push(a, to, from->at[i]);
    }
}

// What `compute` captures next depends on these nodes.
static GanStatus set_nodes(const Cuda *c, const Nodes *nodes) {
    CUgraphNode none = NULL; // nothing says that an array of no nodes may be NULL
    CUDA_TRY(c,
             StreamUpdateCaptureDependencies(c->compute, nodes->n ? nodes->at : &none, nodes->n,
                                             CU_STREAM_SET_CAPTURE_DEPENDENCIES),
             "ordering a launch of a graph");
    return GAN_OK;
}

// What `compute` captures next waits for what task i must wait for.
static GanStatus before_task(const Cuda *c, Capture *k, uint32_t i) {
    Arena scratch = *k->a;
    Nodes nodes = {0};
    if (!k->after)
        return GAN_OK;
    for (uint32_t t = 0; t < k->after[i].n; t++) {
        uint32_t other = k->after[i].at[t];
        add_nodes(&scratch, &nodes, &k->node[other]);
        k->open[other] = false;
    }
    return set_nodes(c, &nodes);
}

static GanStatus after_task(const Cuda *c, Capture *k, uint32_t i) {
    CUstreamCaptureStatus status;
    const CUgraphNode *node;
    size_t n;
    if (!k->after)
        return GAN_OK;
    CUDA_TRY(c, StreamGetCaptureInfo(c->compute, &status, NULL, NULL, &node, &n),
             "querying a graph");
    if (status != CU_STREAM_CAPTURE_STATUS_ACTIVE)
        return fail(GAN_ERR_DEVICE, "cuda: this call ended the capture of a graph");
    for (size_t x = 0; x < n; x++)
        vec_push(k->a, &k->node[i], node[x]);
    k->open[i] = true;
    return GAN_OK;
}

// What `compute` captures next waits for all that has been captured, but for what earlier
// breadcrumbs waited for.
static GanStatus join_branches(const Cuda *c, Capture *k) {
    Arena scratch = *k->a;
    Nodes nodes = {0};
    for (uint32_t i = 0; k->after && i < k->n; i++) {
        if (k->open[i])
            add_nodes(&scratch, &nodes, &k->node[i]);
        k->open[i] = false;
    }
    return k->after ? set_nodes(c, &nodes) : GAN_OK;
}

static void plan_capture(const Loaded *l, uint32_t block, const CudaPiece *p, Capture *k) {
    if (l->cuda->replay != ReplayBranches)
        return;
    k->n = p->n;
    k->after = cuda_branches(k->a, l->block[block].task + p->first, p->n);
    k->node = arena_array(k->a, Nodes, p->n);
    k->open = arena_array(k->a, bool, p->n);
}

// --- tasks ---------------------------------------------------------------------------------------

// `k`: capturing, else NULL.
static GanStatus drop_crumb(const Loaded *l, uint32_t block, uint32_t task, Capture *k) {
    Cuda *c = l->cuda;
    CUdeviceptr from = l->crumbs + (l->block[block].first + task) * sizeof c->mark->crumb;
    if (k) {
        TRY(join_branches(c, k));
        TRY(cuda_order(c, c->compute, c->beside, c->aside));
    }
    CUDA_TRY(
        c, MemcpyDtoHAsync(&c->mark->crumb, from, sizeof c->mark->crumb, k ? c->aside : c->compute),
        "marking a launch");
    return GAN_OK;
}

static Str task_where(Arena *a, const Loaded *l, uint32_t block, uint32_t task) {
    return region_where(a, l->plan, &l->plan->region.at[l->block[block].task[task].region]);
}

static GanStatus run_or_capture(Loaded *l, const CudaTask *t, Capture *k, uint32_t i) {
    if (!k)
        return run_task(l, t);
    TRY(before_task(l->cuda, k, i));
    TRY(run_task(l, t));
    return after_task(l->cuda, k, i);
}

// `k`: captures them, else NULL.
static GanStatus run_tasks(Loaded *l, uint32_t block, uint32_t from, uint32_t to, Capture *k) {
    uint32_t every = k && k->after                    ? CRUMB_BRANCHES
                     : l->cuda->base.options.no_graph ? 1
                                                      : CRUMB_EVERY;
    for (uint32_t i = from; i < to; i++) {
        if (i && i % every == 0)
            TRY(drop_crumb(l, block, i, k));
        GanStatus st = run_or_capture(l, &l->block[block].task[i], k, i - from);
        Arena scratch = k ? *k->a : l->arena;
        if (st != GAN_OK)
            return fail_in(st, "%s", task_where(&scratch, l, block, i).ptr);
    }
    return GAN_OK;
}

// --- graphs --------------------------------------------------------------------------------------

// Capture requires that streams forked from `compute` rejoin it: `aside` forks here, ahead of the
// first breadcrumb, and joins at the end.
static GanStatus capture_tasks(Loaded *l, uint32_t block, const CudaPiece *p, Capture *k) {
    Cuda *c = l->cuda;
    TRY(cuda_order(c, c->compute, c->beside, c->aside));
    TRY(run_tasks(l, block, p->first, p->first + p->n, k));
    TRY(join_branches(c, k));
    return cuda_order(c, c->aside, c->beside, c->compute);
}

// The graph keeps the priority of collectives (cuda_comm.c): by default all of it would run at that
// of the stream it is launched into.
static GanStatus capture(Loaded *l, uint32_t block, CudaPiece *p) {
    const unsigned long long flags = CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY;
    Cuda *c = l->cuda;
    CUgraph graph = NULL;
    Arena scratch = l->arena;
    Capture k = {.a = &scratch};
    plan_capture(l, block, p, &k);
    CUDA_TRY(c, StreamBeginCapture(c->compute, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL),
             "beginning to capture a graph");
    GanStatus st = capture_tasks(l, block, p, &k);
    CUresult ended = c->cu->StreamEndCapture(c->compute, &graph);
    if (st == GAN_OK)
        st = cuda_check(c, ended, "capturing a graph");
    if (st == GAN_OK)
        st = cuda_service_fills(l, graph);
    if (st == GAN_OK)
        st = cuda_check(c, c->cu->GraphInstantiate(&p->graph, graph, flags),
                        "instantiating a graph of %u launches", p->n);
    l->block[block].branches |= st == GAN_OK && k.after;
    if (graph)
        c->cu->GraphDestroy(graph);
    return st;
}

void cuda_drop_graphs(Loaded *l) {
    for (uint32_t i = 0; l->block && i < l->plan->section.n; i++)
        for (uint32_t k = 0; k < l->block[i].pieces; k++) {
            CudaPiece *p = &l->block[i].piece[k];
            if (p->graph)
                l->cuda->cu->GraphExecDestroy(p->graph);
            p->graph = NULL;
        }
}

void cuda_drop_all_graphs(Cuda *c) {
    for (Loaded *l = c->loaded; l; l = l->next)
        cuda_drop_graphs(l);
}

// A capture has failed: the next ones demand less. Where that does not help it returns `failed`:
// the card is lost, or the sums of ranks are captured, who must all do the same.
static GanStatus demand_less(Cuda *c, GanStatus failed) {
    static const char *const instead[] = {
        [ReplayNone] = "no CUDA graphs, which is slower",
        [ReplayChain] = "the launches of a CUDA graph run one after another, which may be slower"};
    char text[1000];
    if (c->comm && !cuda_comm_by_host(c))
        return fail_in(failed, "ranks that sum by NCCL need CUDA graphs of one kind: %s may help",
                       c->replay == ReplayBranches ? "--no-branches" : "--no-graph");
    CUresult code = c->cu->StreamQuery(c->compute);
    if (code != CUDA_SUCCESS && code != CUDA_ERROR_NOT_READY)
        return cuda_check(c, code, "capturing a graph");
    c->replay--;
    snprintf(text, sizeof text, "%s: %.800s", instead[c->replay], gan_error());
    device_notice(&c->base, text);
    return GAN_OK;
}

static GanStatus run_piece(Loaded *l, uint32_t block, CudaPiece *p) {
    Cuda *c = l->cuda;
    bool graph = !p->by_host && l->block[block].warm;
    while (graph && !p->graph && c->replay != ReplayNone) {
        GanStatus st = capture(l, block, p);
        if (st != GAN_OK)
            TRY(demand_less(c, st));
    }
    if (!graph || !p->graph)
        return run_tasks(l, block, p->first, p->first + p->n, NULL);
    CUDA_TRY(c, GraphLaunch(p->graph, c->compute), "launching a graph of %u launches", p->n);
    return GAN_OK;
}

// The first run is not captured: it loads what libraries and the driver load lazily, and a block
// that runs once needs no graph.
static GanStatus run_block(Loaded *l, uint32_t block) {
    CudaBlock *b = &l->block[block];
    for (uint32_t i = 0; i < b->pieces; i++)
        TRY(run_piece(l, block, &b->piece[i]));
    b->warm = true;
    return GAN_OK;
}

// Uploads the counters that the block's kernels read, and its first breadcrumb, task `first`.
static GanStatus begin(Loaded *l, uint32_t block, uint32_t first, const Counters *counters) {
    Cuda *c = l->cuda;
    CudaHead head = {*counters, {{block, first}, counters->step}};
    TRY(cuda_enter(c));
    TRY(cuda_comm_check(c)); // a graph does not check by itself
    if (c->running != l)     // a breadcrumb does not say of which plan it is
        TRY(cuda_wait(c));
    c->running = l;
    l->step = counters->step;
    return cuda_service_begin(l, &head);
}

GanStatus cuda_run(Loaded *l, uint32_t block, const Counters *counters) {
    if (!l->block[block].n)
        return GAN_OK;
    TRY(begin(l, block, 0, counters));
    return run_block(l, block);
}

GanStatus cuda_launch(Loaded *l, uint32_t block, uint32_t launch, const Counters *counters) {
    Section b = l->plan->section.at[block];
    uint32_t first = l->task_of[launch];
    uint32_t end = launch + 1 < b.first + b.n ? l->task_of[launch + 1] : l->block[block].n;
    TRY(begin(l, block, first, counters));
    TRY(run_tasks(l, block, first, end, NULL));
    return cuda_wait(l->cuda);
}

// --- failures ------------------------------------------------------------------------------------

// The launches one of which failed: from the last breadcrumb to where the one after next would be;
// among branches, which may be far ahead of it, to the block's end.
Str cuda_suspects(Arena *a, const Cuda *c) {
    const Loaded *l = c->running;
    CudaMark mark = *c->mark;
    CudaCrumb crumb = mark.crumb;
    if (crumb.block >= l->plan->section.n || crumb.task >= l->block[crumb.block].n)
        return str_format(a, "one of the first launches");
    uint32_t last = crumb.task + (c->base.options.no_graph ? 1 : 2 * CRUMB_EVERY) - 1;
    if (l->block[crumb.block].branches || last >= l->block[crumb.block].n)
        last = l->block[crumb.block].n - 1;
    Str from = task_where(a, l, crumb.block, crumb.task), to = task_where(a, l, crumb.block, last);
    if (last == crumb.task)
        return str_format(a, "step %u, %.*s", mark.step, SARG(from));
    return str_format(a, "step %u, one of %u launches from %.*s to %.*s (--no-graph names it)",
                      mark.step, last - crumb.task + 1, SARG(from), SARG(to));
}

GanStatus cuda_wait(Cuda *c) {
    return cuda_await(c, NULL, "waiting for the card");
}
