// cuda_dnn_time.c - how long a plan of cuDNN takes on the card.
//
// In: a plan and the memory of a call. Out: the shortest of a few runs, by events of the stream.
//
// The host needs several microseconds to enqueue a run, and an idle card waits for it: the events
// around one run of a small operation would time the host. A short plan is therefore captured as a
// graph of several runs, one after another, which is also how a step replays it.
#include "cuda_dnn.h"

enum {
    ROUNDS = 4, // timed; the shortest counts
    REPEATS = 8 // runs of a graph
};
static const float SHORT = 0.1f; // ms

typedef struct Trial {
    Cudnn *d;
    CudnnDesc plan, pack; // the second is owned, and so is what follows
    CUevent from, to;
    CUgraphExec graph; // of REPEATS runs; NULL: of none
} Trial;

static GanStatus run_plan(const Trial *t) {
    const Cudnn *d = t->d;
    return cudnn_check(d, d->api->Execute(d->handle, t->plan, t->pack), "trying an engine");
}

static GanStatus time_rounds(const Trial *t, int rounds, float *least) {
    const Cuda *c = t->d->cuda;
    for (int i = 0; i < rounds; i++) {
        float ms = 0;
        CUDA_TRY(c, EventRecord(t->from, c->compute), "recording an event");
        if (t->graph)
            CUDA_TRY(c, GraphLaunch(t->graph, c->compute), "trying an engine in a graph");
        else
            TRY(run_plan(t));
        CUDA_TRY(c, EventRecord(t->to, c->compute), "recording an event");
        CUDA_TRY(c, EventSynchronize(t->to), "trying an engine");
        CUDA_TRY(c, EventElapsedTime(&ms, t->from, t->to), "timing a call");
        if (!i || ms < *least)
            *least = ms;
    }
    return GAN_OK;
}

static GanStatus capture_runs(Trial *t) {
    const Cuda *c = t->d->cuda;
    CUgraph graph = NULL;
    GanStatus st = GAN_OK;
    CUDA_TRY(c, StreamBeginCapture(c->compute, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL),
             "beginning to capture an engine");
    for (int i = 0; st == GAN_OK && i < REPEATS; i++)
        st = run_plan(t);
    CUresult ended = c->cu->StreamEndCapture(c->compute, &graph);
    if (st == GAN_OK)
        st = cuda_check(c, ended, "capturing an engine");
    if (st == GAN_OK)
        st = cuda_check(c, c->cu->GraphInstantiate(&t->graph, graph, 0), "instantiating an engine");
    if (graph)
        c->cu->GraphDestroy(graph);
    return st;
}

// An engine that cannot be captured has the time that was measured without.
static GanStatus time_trial(Trial *t, float *ms) {
    TRY(time_rounds(t, 1, ms)); // loads kernels
    TRY(time_rounds(t, 1, ms));
    bool graph = *ms < SHORT && capture_runs(t) == GAN_OK;
    TRY(time_rounds(t, ROUNDS, ms));
    if (graph)
        *ms /= REPEATS;
    return GAN_OK;
}

GanStatus cudnn_time(Cudnn *d, const CudnnOperation *o, CudnnDesc plan, const CUdeviceptr *at,
                     CUdeviceptr workspace, float *ms) {
    const Cuda *c = d->cuda;
    Trial t = {.d = d, .plan = plan};
    GanStatus st = GAN_OK;
    TRY_OUT(cudnn_pack(d, o, at, workspace, &t.pack));
    TRY_OUT(cuda_check(c, c->cu->EventCreate(&t.from, CU_EVENT_DEFAULT), "creating an event"));
    TRY_OUT(cuda_check(c, c->cu->EventCreate(&t.to, CU_EVENT_DEFAULT), "creating an event"));
    TRY_OUT(time_trial(&t, ms));
out:
    if (t.graph)
        c->cu->GraphExecDestroy(t.graph);
    if (t.from)
        c->cu->EventDestroy(t.from);
    if (t.to)
        c->cu->EventDestroy(t.to);
    if (t.pack)
        d->api->DestroyDescriptor(t.pack);
    return st;
}
