// cuda_plan.c - lowers a plan, bound to memory on the card, to a list of tasks per block.
//
// In: a plan and two memories. Out: for every launch its tasks with all arguments computed, so that
// a run only enqueues them, and a captured graph stays valid for as long as the plan is loaded. The
// work memory ends in workspace that launches share; one more allocation belongs to the loaded
// plan: counters, breadcrumbs, arguments of merged launches, tickets. All sizes follow from the
// plan alone (cuda_bytes).
#include "cuda_plan.h"

#include <math.h>
#include <string.h>

static CUdeviceptr address(const Loaded *l, uint32_t node) {
    return cuda_pointer(memory_need(l->memory, l->plan, node));
}

// --- memory --------------------------------------------------------------------------------------

typedef struct Sizes { // of the plan's own piece: bytes, on multiples of CARD_ALIGN
    size_t head, crumbs, tables, tickets;
} Sizes;

// How many tasks a launch may become.
static uint32_t tasks_most(const Plan *p, Launch launch) {
    const Region *r = &p->region.at[launch.region];
    return r->kind == RegionStart ? p->collective.at[r->call].part.n + 1 : launch.instances;
}

static Sizes measure(const Plan *p) {
    Sizes s = {.head = card_align(sizeof(CudaHead))};
    for (uint32_t i = 0; i < p->launch.n; i++) {
        Launch launch = p->launch.at[i];
        for (uint32_t k = 0; k < launch.instances; k++) {
            const Region *r = &p->region.at[p->merge.at[launch.first + k]];
            s.tickets += card_align(r->tickets * sizeof(uint32_t));
            if (r->kernel != NONE && p->kernel.at[r->kernel].many)
                s.tables += p->kernel.at[r->kernel].words * sizeof(uint64_t);
        }
        s.crumbs += tasks_most(p, launch) * sizeof(CudaCrumb);
    }
    s.crumbs = card_align(s.crumbs);
    s.tables = card_align(s.tables);
    return s;
}

PlanBytes cuda_bytes(const Plan *p) {
    Sizes s = measure(p);
    return (PlanBytes){.work = card_align(p->work_bytes) + plan_workspace(p),
                       .own = s.head + s.crumbs + s.tables + s.tickets};
}

static GanStatus load_memory(Loaded *l) {
    Sizes s = measure(l->plan);
    TRY(cuda_alloc(l->cuda, cuda_bytes(l->plan).own, &l->fixed));
    l->head = l->fixed;
    l->crumbs = l->head + s.head;
    l->tables = l->crumbs + s.crumbs;
    l->tickets = l->tables + s.tables;
    return GAN_OK;
}

// --- tasks ---------------------------------------------------------------------------------------

// Blocks of each region launched together: a small one beside a large one must not cost thousands
// of empty blocks, and kernels stride over the grid.
enum { MANY_BLOCKS = 512 };

typedef struct Making { // tasks, in order of their launches
    Loaded *l;
    VEC(CudaTask) task;     // of the block in the making
    Text crumbs;            // what becomes Loaded.crumbs
    Text tables;            // what becomes Loaded.tables
    size_t tickets;         // bytes given out
    CUdeviceptr room;       // workspace of this launch that is not given out yet
    uint32_t block;         // the one in the making
    VEC(CudaAccess) access; // of the task in the making
} Making;

static void add_task(Making *m, CudaTask t) {
    Arena *a = &m->l->arena;
    CudaCrumb crumb = {m->block, m->task.n};
    text_put(&m->crumbs, (Str){(const char *)&crumb, sizeof crumb});
    t.access.at = m->access.at;
    t.access.n = m->access.n;
    memset(&m->access, 0, sizeof m->access);
    vec_push(a, &m->task, t);
}

static void add_access(Making *m, CUdeviceptr at, size_t bytes, bool write) {
    if (bytes)
        vec_push(&m->l->arena, &m->access, ((CudaAccess){at, bytes, write}));
}

// The values that a region reads and stores.
static void add_values(Making *m, const Region *r) {
    const Graph *g = &m->l->plan->func->g;
    for (uint32_t i = 0; i < r->in.n; i++)
        add_access(m, address(m->l, r->in.at[i]), type_bytes(g, node_type(g, r->in.at[i])), false);
    for (uint32_t i = 0; i < r->out.n; i++)
        add_access(m, address(m->l, r->out.at[i]), type_bytes(g, node_type(g, r->out.at[i])), true);
}

// Workspace for the next launch lies behind that of the last one while there is room, so that the
// one need not wait for the other.
static CUdeviceptr take_room(Loaded *l, size_t bytes) {
    bytes = card_align(bytes);
    if (l->room_used + bytes > l->room.bytes)
        l->room_used = 0;
    l->room_used += bytes;
    return l->room.at + l->room_used - bytes;
}

// The words of a region (gen/kernel_cuda.h), [kernel.words].
static uint64_t *words_of(Making *m, const Region *r) {
    Loaded *l = m->l;
    uint32_t wanted = l->plan->kernel.at[r->kernel].words, n = 0;
    uint64_t *w = arena_array(&l->arena, uint64_t, r->arg.n + 2 + r->number.n);
    for (uint32_t i = 0; i < r->arg.n; i++)
        w[n++] = address(l, region_arg(r, i));
    add_values(m, r);
    if (r->scratch) {
        w[n++] = m->room;
        w[n++] = l->tickets + m->tickets;
        add_access(m, m->room, r->scratch, true);
        add_access(m, l->tickets + m->tickets, r->tickets * sizeof(uint32_t), true);
        m->room += card_align(r->scratch);
        m->tickets += card_align(r->tickets * sizeof(uint32_t));
    }
    for (uint32_t i = 0; i < r->number.n; i++)
        w[n++] = (uint64_t)r->number.at[i];
    if (n != wanted)
        bug("cuda: kernel %.*s takes %u words and its region has %u",
            SARG(l->plan->kernel.at[r->kernel].name), wanted, n);
    return w;
}

static void add_single(Making *m, uint32_t region) {
    Loaded *l = m->l;
    const Region *r = &l->plan->region.at[region];
    const Kernel *k = &l->plan->kernel.at[r->kernel];
    void **params = arena_array(&l->arena, void *, 2);
    params[0] = words_of(m, r);
    params[1] = &l->head; // read by the driver where the kernel declares it
    add_task(m, (CudaTask){.kind = CudaKernel,
                           .region = region,
                           .function = l->kernel[r->kernel],
                           .blocks = r->blocks,
                           .instances = 1,
                           .threads = k->threads,
                           .shared = k->shared,
                           .params = params});
}

// Regions of a kernel that takes several.
static void add_merged(Making *m, const uint32_t *region, uint32_t n) {
    Loaded *l = m->l;
    uint32_t kernel = l->plan->region.at[region[0]].kernel, blocks = 0;
    const Kernel *k = &l->plan->kernel.at[kernel];
    CUdeviceptr *table = arena_new(&l->arena, CUdeviceptr);
    *table = l->tables + m->tables.n;
    for (uint32_t i = 0; i < n; i++) {
        const Region *r = &l->plan->region.at[region[i]];
        text_put(&m->tables, (Str){(const char *)words_of(m, r), k->words * sizeof(uint64_t)});
        blocks = r->blocks > blocks ? r->blocks : blocks;
    }
    void **params = arena_array(&l->arena, void *, 2);
    params[0] = table;
    params[1] = &l->head;
    add_task(m, (CudaTask){.kind = CudaKernel,
                           .region = region[0],
                           .function = l->kernel[kernel],
                           .blocks = blocks < MANY_BLOCKS ? blocks : MANY_BLOCKS,
                           .instances = n,
                           .threads = k->threads,
                           .shared = k->shared,
                           .params = params});
}

// One task for each kernel among the instances.
static void add_kernels(Making *m, Launch launch) {
    const Plan *p = m->l->plan;
    const uint32_t *of = &p->merge.at[launch.first];
    uint32_t *same = arena_array(&m->l->arena, uint32_t, launch.instances);
    bool *done = arena_array(&m->l->arena, bool, launch.instances);
    size_t room = 0;
    for (uint32_t i = 0; i < launch.instances; i++)
        room += card_align(p->region.at[of[i]].scratch);
    m->room = take_room(m->l, room);
    for (uint32_t i = 0; i < launch.instances; i++) {
        uint32_t n = 0, kernel = p->region.at[of[i]].kernel;
        if (m->l->absorbed[of[i]])
            continue;
        if (!p->kernel.at[kernel].many) {
            add_single(m, of[i]);
            continue;
        }
        for (uint32_t k = i; k < launch.instances && !done[i]; k++) {
            if (p->region.at[of[k]].kernel != kernel || m->l->absorbed[of[k]])
                continue;
            same[n++] = of[k];
            done[k] = k != i;
        }
        if (n)
            add_merged(m, same, n);
    }
}

static void add_bytes(Making *m, uint32_t region, CUdeviceptr to, CUdeviceptr from, size_t n) {
    add_access(m, from, n, false);
    add_access(m, to, n, true);
    add_task(m, (CudaTask){.kind = CudaCopy, .region = region, .to = to, .from = from, .bytes = n});
}

static void add_copy(Making *m, uint32_t region) {
    const Loaded *l = m->l;
    SlotCopy c = memory_copy(l->memory, l->plan, &l->plan->region.at[region]);
    add_bytes(m, region, cuda_pointer(c.to), cuda_pointer(c.from), c.bytes);
}

// Its start, or the wait for it.
static void add_collective(Making *m, CudaTaskKind kind, uint32_t region) {
    uint32_t call = m->l->plan->region.at[region].call;
    const Collective *c = &m->l->plan->collective.at[call];
    add_access(m, cuda_pointer(m->l->memory.work + c->offset), c->bytes, true);
    add_task(m, (CudaTask){.kind = kind, .region = region, .collective = call});
}

// Copies parts that are not where they are summed.
static void add_start(Making *m, uint32_t region) {
    const Loaded *l = m->l;
    uint32_t call = l->plan->region.at[region].call;
    const Collective *c = &l->plan->collective.at[call];
    for (uint32_t i = 0; i < c->part.n; i++) {
        const CallPart *part = &c->part.at[i];
        CUdeviceptr to = cuda_pointer(l->memory.work + c->offset + part->offset);
        CUdeviceptr from = address(l, node_in(&l->plan->func->g, part->start, 0));
        if (from != to)
            add_bytes(m, region, to, from, part->bytes);
    }
    add_collective(m, CudaStart, region);
}

// --- libraries -----------------------------------------------------------------------------------

// The library for a family of operations (AnchorFamily); none for sorting.
typedef struct Library {
    const char *name;                              // in messages
    GanStatus (*load)(Loaded *l, uint32_t region); // skips what the library does not support
} Library;

// Estimates for an H200, to compare with the time of an engine.
enum {
    LaunchNs = 1500,
    BytesPerNs = 2500, // of a kernel that moves its bytes once
    // Of grouped.cuh: blocks at a time, what begins one, and then each.
    Resident = 2 * CARD_PROCESSORS,
    BlockNs = 5000,
    FlopPerNs = 38,
};

static int64_t moving_ns(const Plan *p, uint32_t region) {
    const Graph *g = &p->func->g;
    const Region *r = &p->region.at[region];
    size_t bytes = 0;
    for (uint32_t i = 0; i < r->in.n; i++)
        bytes += type_bytes(g, node_type(g, r->in.at[i]));
    for (uint32_t i = 0; i < r->out.n; i++)
        bytes += type_bytes(g, node_type(g, r->out.at[i]));
    return LaunchNs + (int64_t)(bytes / BytesPerNs);
}

// Would the epilogue's own kernel behind a plain call take less time? Engines that fuse are few:
// the best for the first convolution of cosmogan takes 0.71 ms on an H200, where a plain one takes
// 0.36 and the kernel 0.15.
static bool is_faster_apart(const Plan *p, const CudnnCall *fused, const CudnnCall *plain,
                            uint32_t epilogue) {
    return cudnn_call_ns(plain) && cudnn_call_ns(fused) &&
           cudnn_call_ns(plain) + moving_ns(p, epilogue) < cudnn_call_ns(fused);
}

// Would a kernel of ours, which every card has, clearly take less time than the call? `epilogue`:
// of the call, NONE: none. For several groups an engine may launch a small kernel each.
static bool is_faster_by_kernel(const Plan *p, uint32_t region, const CudnnCall *call,
                                uint32_t epilogue) {
    const Region *r = &p->region.at[region];
    if (!call || !cudnn_call_ns(call) || r->kernel == NONE || p->kernel.at[r->kernel].fallback)
        return false;
    double flop = node_gflop(&p->func->g, r->node.at[0]) * 1e9,
           waves = ceil((double)r->blocks / Resident);
    double ns = LaunchNs + waves * (BlockNs + flop / r->blocks / FlopPerNs) +
                (epilogue == NONE ? 0 : (double)moving_ns(p, epilogue));
    return 1.5 * ns < (double)cudnn_call_ns(call);
}

// With its epilogue, where the library fuses that and is faster for it, or without.
static GanStatus load_product(Loaded *l, uint32_t region) {
    const Plan *p = l->plan;
    uint32_t id = p->region.at[region].node.at[0];
    const Epilogue *e = &l->epilogue[region];
    CudnnCall *fused = NULL, *plain = NULL;
    if (!l->dnn.dnn)
        return GAN_OK;
    if (e->region != NONE)
        TRY(cudnn_prepare(&l->dnn, p, id, e, l->memory, &fused));
    TRY(cudnn_prepare(&l->dnn, p, id, NULL, l->memory, &plain));
    if (fused && plain && is_faster_apart(p, fused, plain, e->region))
        fused = NULL;
    CudnnCall *call = fused ? fused : plain;
    if (is_faster_by_kernel(p, region, call, fused ? e->region : NONE))
        return GAN_OK;
    l->call[region] = call;
    if (e->region != NONE)
        l->absorbed[e->region] = fused != NULL;
    return GAN_OK;
}

static GanStatus load_transform(Loaded *l, uint32_t region) {
    uint32_t id = l->plan->region.at[region].node.at[0];
    return cufft_prepare(&l->fft, l->plan, id, l->memory, &l->transform[region]);
}

static const Library *library_of(const Plan *p, uint32_t region) {
    static const Library library[FamilyCount] = {
        [FamilyProduct] = {"cuDNN 9", load_product}, [FamilyTransform] = {"cuFFT", load_transform}};
    return &library[node_family(&p->func->g, p->region.at[region].node.at[0])];
}

static CUdeviceptr room_of_call(Making *m, size_t bytes) {
    CUdeviceptr at = take_room(m->l, bytes);
    add_access(m, at, bytes, true);
    return at;
}

static GanStatus add_product(Making *m, uint32_t region) {
    const Plan *p = m->l->plan;
    CudnnCall *call = m->l->call[region];
    uint32_t epilogue = m->l->epilogue[region].region;
    TRY(cudnn_place(call, room_of_call(m, cudnn_call_workspace(call))));
    add_values(m, &p->region.at[region]);
    if (epilogue != NONE && m->l->absorbed[epilogue])
        add_values(m, &p->region.at[epilogue]);
    add_task(m, (CudaTask){.kind = CudaAnchor, .region = region, .call = call});
    return GAN_OK;
}

static GanStatus add_transform(Making *m, uint32_t region) {
    CufftCall *call = m->l->transform[region];
    TRY(cufft_place(call, room_of_call(m, cufft_call_workspace(call))));
    add_values(m, &m->l->plan->region.at[region]);
    add_task(m, (CudaTask){.kind = CudaTransform, .region = region, .transform = call});
    return GAN_OK;
}

static GanStatus add_launch(Making *m, Launch launch) {
    const Loaded *l = m->l;
    const Region *r = &l->plan->region.at[launch.region];
    if (r->kind == RegionCopy)
        add_copy(m, launch.region);
    else if (l->call[launch.region])
        return add_product(m, launch.region);
    else if (l->transform[launch.region])
        return add_transform(m, launch.region);
    else if (r->kernel != NONE)
        add_kernels(m, launch);
    else if (r->kind == RegionStart)
        add_start(m, launch.region);
    else if (r->kind == RegionWait)
        add_collective(m, CudaWait, launch.region);
    else
        return fail(GAN_ERR_DEVICE,
                    "too large for a kernel of ours on %s, and %s is missing or refuses it: ganrun "
                    "doctor says which and how to install it; or use --device cpu",
                    l->cuda->name, library_of(l->plan, launch.region)->name);
    return GAN_OK;
}

static GanStatus add_in_place(Making *m, Launch launch) {
    GanStatus st = add_launch(m, launch);
    const Plan *p = m->l->plan;
    return st == GAN_OK
               ? st
               : fail_in(st, "%s", region_where(&m->l->arena, p, &p->region.at[launch.region]).ptr);
}

// Cuts a block at collectives that go through the host.
static void cut(Loaded *l, CudaBlock *b) {
    VEC(CudaPiece) piece = {0};
    for (uint32_t i = 0; i < b->n; i++) {
        CudaTaskKind kind = b->task[i].kind;
        bool by_host = cuda_comm_by_host(l->cuda) && (kind == CudaStart || kind == CudaWait);
        if (!i || by_host || piece.at[piece.n - 1].by_host)
            vec_push(&l->arena, &piece, ((CudaPiece){.first = i, .by_host = by_host}));
        piece.at[piece.n - 1].n++;
    }
    b->piece = piece.at;
    b->pieces = piece.n;
}

static GanStatus load_blocks(Loaded *l) {
    const Plan *p = l->plan;
    Making m = {.l = l, .crumbs.arena = &l->arena, .tables.arena = &l->arena};
    l->block = arena_array(&l->arena, CudaBlock, p->section.n);
    l->task_of = arena_array(&l->arena, uint32_t, p->launch.n);
    for (uint32_t b = 0; b < p->section.n; b++) {
        memset(&m.task, 0, sizeof m.task);
        m.block = b;
        uint32_t first = (uint32_t)(m.crumbs.n / sizeof(CudaCrumb));
        for (uint32_t i = 0; i < p->section.at[b].n; i++) {
            uint32_t launch = p->section.at[b].first + i;
            l->task_of[launch] = m.task.n;
            TRY(add_in_place(&m, p->launch.at[launch]));
        }
        l->block[b] = (CudaBlock){.n = m.task.n, .first = first, .task = m.task.at};
        cut(l, &l->block[b]);
    }
    TRY(cuda_put(l->cuda, l->crumbs, m.crumbs.at, m.crumbs.n));
    return cuda_put(l->cuda, l->tables, m.tables.at, m.tables.n);
}

// --- loading -------------------------------------------------------------------------------------

static GanStatus load_anchors(Loaded *l) {
    const Plan *p = l->plan;
    l->call = arena_array(&l->arena, CudnnCall *, p->region.n);
    l->absorbed = arena_array(&l->arena, bool, p->region.n);
    l->transform = arena_array(&l->arena, CufftCall *, p->region.n);
    l->dnn = (CudnnCalls){.dnn = l->cuda->dnn, .arena = &l->arena, .room = l->room};
    l->fft = (CufftCalls){.cuda = l->cuda, .arena = &l->arena, .room = l->room};
    TRY(cudnn_choose(&l->dnn, p, l->epilogue, l->memory));
    for (uint32_t i = 0; i < p->region.n; i++) {
        GanStatus st = p->region.at[i].kind == RegionCall && library_of(p, i)->load
                           ? library_of(p, i)->load(l, i)
                           : GAN_OK;
        if (st != GAN_OK)
            return fail_in(st, "%s", region_where(&l->arena, p, &p->region.at[i]).ptr);
    }
    return GAN_OK;
}

static GanStatus load_all(void *user) {
    Loaded *l = user;
    const Plan *p = l->plan;
    l->room =
        (CudaRoom){cuda_pointer(l->memory.work) + card_align(p->work_bytes), plan_workspace(p)};
    l->epilogue = plan_epilogues(&l->arena, p);
    cuda_kernels_begin(l);
    TRY(cuda_comm_load(l));
    TRY(load_anchors(l));
    TRY(cuda_kernels_load(l));
    TRY(load_memory(l));
    return load_blocks(l);
}

GanStatus cuda_load(Device *d, const Plan *plan, void *slots, void *work, Loaded **out) {
    *out = NULL;
    TRY(device_check(d, plan));
    Loaded *l = mem_alloc(sizeof *l);
    if (!l)
        return fail(GAN_ERR_MEMORY, "no memory to load a plan");
    Cuda *c = (Cuda *)d;
    *l = (Loaded){.cuda = c, .next = c->loaded, .plan = plan, .memory = {slots, work}};
    c->loaded = l;
    GanStatus st = cuda_enter(l->cuda);
    if (st == GAN_OK)
        st = arena_init(&l->arena, 0);
    if (st == GAN_OK)
        st = arena_guard(&l->arena, "to load a plan", load_all, l);
    if (st == GAN_OK)
        *out = l;
    else
        cuda_unload(l);
    return st;
}

void cuda_unload(Loaded *l) {
    if (!l)
        return;
    Cuda *c = l->cuda;
    cuda_kernels_end(l);
    cuda_leave(c);
    cuda_comm_abandon(c);
    c->cu->StreamSynchronize(c->compute); // nothing of it may be in use
    cuda_drop_graphs(l);
    cuda_comm_unload(l);
    cudnn_release(&l->dnn);
    cufft_release(&l->fft);
    for (uint32_t i = 0; i < l->modules; i++)
        if (l->module[i])
            c->cu->ModuleUnload(l->module[i]);
    cuda_free(c, l->fixed);
    if (c->running == l)
        c->running = NULL;
    Loaded **at = &c->loaded;
    while (*at != l)
        at = &(*at)->next;
    *at = l->next;
    arena_release(&l->arena);
    mem_free(l);
}

bool cuda_absorbs(const Loaded *l, uint32_t region) {
    uint32_t epilogue = l->epilogue[region].region;
    return epilogue != NONE && l->absorbed[epilogue];
}
