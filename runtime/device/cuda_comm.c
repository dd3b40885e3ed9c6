// cuda_comm.c - collectives between ranks that compute on cards.
//
// In: a plan's collectives, and the host's communicator. Out: work on streams. Two routes:
//
//   nccl    an all-reduce on a stream of its own, ordered by two events: after what `compute` had
//           enqueued at its start, before what reads the sum. Graphs capture all of it, so the host
//           takes no part. The stream has the highest priority: the few blocks of an all-reduce do
//           not queue behind those of a large kernel, while the other ranks wait.
//   staged  the parts are copied to pinned host memory, the host's link sums them, and the sums are
//           copied back. The host passes a call to the link when it reaches a wait, in the order in
//           which the calls were started, which is the same on every rank; until then the card
//           works on what was enqueued between start and wait. Ranks may share a card.
//
// A null communicator (--comm null, studies of one rank) leaves the parts as they are. Padding
// between the parts of a call is summed along with them: nobody reads it.
#define _GNU_SOURCE
#include "cuda_plan.h"

#include <string.h>
#include <time.h>
#include <unistd.h>

struct CudaComm {
    Comm *ranks; // borrowed
    Nccl *nccl;  // owned; NULL: staged
    CUstream stream;
};

struct CudaCall { // one collective of a loaded plan
    CudaComm *comm;
    CUdeviceptr at; // its slice of the work memory
    CUevent ready;  // `compute` has reached the start
    CUevent here;   // staged: the parts are in host memory
    CUevent done;   // the sums are on the card
    void *host;     // staged: pinned
    bool out;       // staged: started, and not yet passed to the link
    bool met;       // nccl: started before
};

// --- who has which card --------------------------------------------------------------------------

// The ranks of a host take its cards in turn. A launcher that shows each rank one card alone has
// chosen already.
GanStatus cuda_comm_card(Comm *ranks, int cards, int *card) {
    enum { HOST = 64 };
    char mine[HOST] = "", (*all)[HOST];
    *card = 0;
    if (comm_size(ranks) == 1)
        return GAN_OK;
    gethostname(mine, HOST - 1);
    all = mem_alloc((size_t)comm_size(ranks) * sizeof *all);
    if (!all)
        return fail(GAN_ERR_MEMORY, "no memory for %d ranks", comm_size(ranks));
    GanStatus st = comm_gather(ranks, mine, HOST, all);
    int before = 0;
    for (int r = 0; st == GAN_OK && r < comm_rank(ranks); r++)
        before += strncmp(all[r], mine, HOST) == 0;
    mem_free(all);
    *card = before % cards;
    return st;
}

// --- opening -------------------------------------------------------------------------------------

GanStatus cuda_comm_open(Cuda *c, CudaComm **out) {
    Comm *ranks = c->base.options.comm;
    *out = NULL;
    if (comm_size(ranks) == 1 || !comm_talks(ranks) || c->base.options.no_sums)
        return GAN_OK;
    CudaComm *m = *out = mem_alloc(sizeof *m);
    if (!m)
        return fail(GAN_ERR_MEMORY, "no memory for collectives");
    *m = (CudaComm){.ranks = ranks};
    int least, greatest;
    CUDA_TRY(c, CtxGetStreamPriorityRange(&least, &greatest), "querying stream priorities");
    CUDA_TRY(c, StreamCreateWithPriority(&m->stream, CU_STREAM_NON_BLOCKING, greatest),
             "creating a stream");
    if (c->base.options.route == RouteStaged)
        return GAN_OK;
    return nccl_open(c, ranks, &m->nccl);
}

bool cuda_comm_close(Cuda *c, CudaComm *m) {
    if (!m)
        return true;
    bool whole = nccl_close(m->nccl, comm_health(m->ranks) == GAN_OK);
    if (m->stream)
        c->cu->StreamDestroy(m->stream);
    mem_free(m);
    return whole;
}

// --- a plan's calls ------------------------------------------------------------------------------

static GanStatus fits_route(const CudaComm *m, const Collective *c) {
    if (m->nccl && c->order == OrderTree)
        return fail(GAN_ERR_USAGE, "NCCL does not add in the fixed order --deterministic asks for; "
                                   "--comm staged does");
    if (m->nccl && comm_compressed(m->ranks))
        return fail(GAN_ERR_USAGE, "--compress is of links between hosts: --comm staged, not nccl");
    return GAN_OK;
}

static GanStatus make_call(Cuda *c, const Loaded *l, uint32_t i, CudaCall *out) {
    const Collective *call = &l->plan->collective.at[i];
    *out = (CudaCall){.comm = c->comm, .at = cuda_pointer(l->memory.work + call->offset)};
    TRY(fits_route(c->comm, call));
    CUDA_TRY(c, EventCreate(&out->ready, CU_EVENT_DISABLE_TIMING), "creating an event");
    CUDA_TRY(c, EventCreate(&out->done, CU_EVENT_DISABLE_TIMING), "creating an event");
    if (c->comm->nccl)
        return GAN_OK;
    CUDA_TRY(c, EventCreate(&out->here, CU_EVENT_DISABLE_TIMING), "creating an event");
    CUDA_TRY(c, MemAllocHost(&out->host, call->bytes), "pinning %zu bytes", call->bytes);
    return GAN_OK;
}

GanStatus cuda_comm_load(Loaded *l) {
    Cuda *c = l->cuda;
    TRY(collective_check(l->plan, c->base.options.comm));
    if (!c->comm)
        return GAN_OK;
    l->collective = arena_array(&l->arena, CudaCall, l->plan->collective.n);
    l->started = arena_array(&l->arena, uint32_t, l->plan->collective.n);
    for (uint32_t i = 0; i < l->plan->collective.n; i++)
        TRY(make_call(c, l, i, &l->collective[i]));
    return GAN_OK;
}

void cuda_comm_unload(Loaded *l) {
    Cuda *c = l->cuda;
    if (l->collective && c->comm)
        c->cu->StreamSynchronize(c->comm->stream); // nothing of it may be in use
    for (uint32_t i = 0; l->collective && i < l->plan->collective.n; i++) {
        CUevent event[] = {l->collective[i].ready, l->collective[i].here, l->collective[i].done};
        for (int k = 0; k < 3; k++)
            if (event[k])
                c->cu->EventDestroy(event[k]);
        if (l->collective[i].host)
            c->cu->MemFreeHost(l->collective[i].host);
    }
}

bool cuda_comm_by_host(const Cuda *c) {
    return c->comm && !c->comm->nccl;
}

// --- running -------------------------------------------------------------------------------------

// Passes the calls up to `last` to the link, in the order in which they were started.
static GanStatus hand_over(Loaded *l, uint32_t last) {
    uint32_t n = 0;
    for (bool more = l->collective[last].out; more; n++) {
        uint32_t i = l->started[n];
        const CommJob job = collective_job(l->plan, i, l->collective[i].host, l->step);
        TRY(cuda_await(l->cuda, l->collective[i].here, "waiting for the parts of a collective"));
        TRY(comm_start(l->cuda->base.options.comm, &job));
        l->collective[i].out = false;
        more = i != last;
    }
    l->starts -= n;
    memmove(l->started, l->started + n, l->starts * sizeof *l->started);
    return GAN_OK;
}

static GanStatus bring_back(Loaded *l, uint32_t i) {
    Cuda *c = l->cuda;
    CudaCall *call = &l->collective[i];
    size_t bytes = l->plan->collective.at[i].bytes;
    TRY(hand_over(l, i));
    TRY(comm_wait(c->base.options.comm, i));
    CUDA_TRY(c, MemcpyHtoDAsync(call->at, call->host, bytes, c->comm->stream),
             "copying %zu bytes to the card", bytes);
    return cuda_order(c, c->comm->stream, call->done, c->compute);
}

static GanStatus start_staged(Loaded *l, uint32_t i) {
    Cuda *c = l->cuda;
    CudaCall *call = &l->collective[i];
    size_t bytes = l->plan->collective.at[i].bytes;
    CUDA_TRY(c, MemcpyDtoHAsync(call->host, call->at, bytes, c->comm->stream),
             "copying %zu bytes from the card", bytes);
    CUDA_TRY(c, EventRecord(call->here, c->comm->stream), "recording an event");
    call->out = true;
    l->started[l->starts++] = i;
    return comm_options(c->comm->ranks)->wait ? bring_back(l, i) : GAN_OK;
}

// The first time the library may connect the ranks, and cannot name those that do not come: they
// meet on the link before. That run is not captured (cuda_run.c).
static GanStatus meet(CudaComm *m, CudaCall *call) {
    if (call->met)
        return GAN_OK;
    call->met = true;
    return comm_barrier(m->ranks);
}

GanStatus cuda_comm_start(Loaded *l, uint32_t i) {
    Cuda *c = l->cuda;
    if (!c->comm)
        return GAN_OK;
    CudaCall *call = &l->collective[i];
    const Collective *what = &l->plan->collective.at[i];
    TRY(cuda_order(c, c->compute, call->ready, c->comm->stream));
    if (!c->comm->nccl)
        return start_staged(l, i);
    TRY(meet(c->comm, call));
    TRY(nccl_sum(c->comm->nccl, call->at, what->bytes, what->dtype, c->comm->stream));
    CUDA_TRY(c, EventRecord(call->done, c->comm->stream), "recording an event");
    if (comm_options(c->comm->ranks)->wait)
        CUDA_TRY(c, StreamWaitEvent(c->compute, call->done, 0), "ordering a collective");
    return GAN_OK;
}

GanStatus cuda_comm_wait(Loaded *l, uint32_t i) {
    Cuda *c = l->cuda;
    if (!c->comm)
        return GAN_OK;
    if (!c->comm->nccl) // which has been done at the start where that waits
        return comm_options(c->comm->ranks)->wait ? GAN_OK : bring_back(l, i);
    CUDA_TRY(c, StreamWaitEvent(c->compute, l->collective[i].done, 0), "ordering a collective");
    return GAN_OK;
}

// --- waiting for the card ------------------------------------------------------------------------

// Ranks come to the link when they, too, have waited for so long.
static GanStatus past_deadline(Comm *ranks, double deadline, const char *what) {
    GanStatus st = comm_barrier(ranks);
    return st == GAN_OK
               ? fail(GAN_ERR_DEVICE,
                      "%s takes more than %g s, and all ranks answer: the cards do not reach each "
                      "other, or one of the sums is not the others'",
                      what, deadline)
               : fail_in(st, "%s takes more than %g s", what, deadline);
}

GanStatus cuda_patience(CudaPatience *p, const char *what) {
    const long least = 5000, most = 500000; // ns
    double deadline = comm_options(p->ranks)->deadline, now = time_now();
    TRY(comm_health(p->ranks));
    if (!(p->since > 0))
        p->since = now;
    if (deadline > 0 && now - p->since > deadline)
        return past_deadline(p->ranks, deadline, what);
    p->ns = p->ns < least ? least : p->ns < most ? p->ns * 2 : p->ns;
    nanosleep(&(struct timespec){.tv_nsec = p->ns}, NULL);
    return GAN_OK;
}

// Aborts the communicator, so that kernels waiting for other ranks end. NCCL waits until no graph
// uses the communicator, so graphs are destroyed first.
static void give_up(Cuda *c) {
    cuda_drop_all_graphs(c);
    nccl_abort(c->comm->nccl);
}

// A lost rank leaves the card inside a sum for ever: NCCL may notice, or the host's link.
static GanStatus poll(Cuda *c, CUevent event, const char *what) {
    CudaPatience p = {.ranks = c->comm->ranks};
    for (;;) {
        CUresult code = event ? c->cu->EventQuery(event) : c->cu->StreamQuery(c->compute);
        if (code != CUDA_ERROR_NOT_READY)
            return cuda_check(c, code, "%s", what);
        GanStatus st = cuda_patience(&p, "waiting for other ranks");
        if (st == GAN_OK)
            st = nccl_health(c->comm->nccl);
        if (st != GAN_OK) {
            give_up(c);
            return fail_in(st, "%s", what);
        }
    }
}

GanStatus cuda_comm_check(const Cuda *c) {
    return c->comm && c->comm->nccl ? nccl_health(c->comm->nccl) : GAN_OK;
}

void cuda_comm_abandon(Cuda *c) {
    if (c->comm && c->comm->nccl &&
        (nccl_failed(c->comm->nccl) || comm_health(c->comm->ranks) != GAN_OK))
        give_up(c);
}

GanStatus cuda_await(Cuda *c, CUevent event, const char *what) {
    if (c->comm && c->comm->nccl)
        return poll(c, event, what);
    return cuda_check(c,
                      event ? c->cu->EventSynchronize(event) : c->cu->StreamSynchronize(c->compute),
                      "%s", what);
}
