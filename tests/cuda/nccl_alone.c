// nccl_alone.c - NCCL on a machine with one card, where no sum of two ranks can be tried: a
// communicator of one rank is created and polled, a sum of it is captured in a graph that runs a
// few times, and it is ended in order.
//
//   build/tests/nccl_alone
#include "cuda_device.h"

#include <stdio.h>

enum { N = 1000, TIMES = 3 };

// `to` = what the sum leaves at `from`, [N].
static GanStatus capture(const Cuda *c, Nccl *n, CUdeviceptr from, CUdeviceptr to, CUgraph *out) {
    CUDA_TRY(c, StreamBeginCapture(c->compute, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL),
             "beginning to capture a graph");
    GanStatus st = nccl_sum(n, from, N * sizeof(float), DtF32, c->compute);
    CUresult copied = c->cu->MemcpyDtoDAsync(to, from, N * sizeof(float), c->compute);
    CUresult ended = c->cu->StreamEndCapture(c->compute, out);
    TRY(st);
    TRY(cuda_check(c, copied, "copying the sum"));
    return cuda_check(c, ended, "capturing a graph");
}

static GanStatus replay(Cuda *c, Nccl *n, CUdeviceptr at) {
    float x[N], sum[N];
    CUgraph graph = NULL;
    CUgraphExec exec = NULL;
    GanStatus st = capture(c, n, at, at + sizeof x, &graph);
    if (st == GAN_OK)
        st = cuda_check(c, c->cu->GraphInstantiate(&exec, graph, 0), "making a graph");
    for (int k = 0; st == GAN_OK && k < TIMES; k++) {
        for (int i = 0; i < N; i++)
            x[i] = (float)(i * TIMES + k);
        TRY_OUT(cuda_put(c, at, x, sizeof x));
        TRY_OUT(cuda_check(c, c->cu->GraphLaunch(exec, c->compute), "launching a graph"));
        TRY_OUT(cuda_get(c, sum, at + sizeof x, sizeof sum));
        for (int i = 0; st == GAN_OK && i < N; i++)
            if (sum[i] != x[i])
                st = fail(GAN_ERR_DEVICE, "replay %d: element %d is %g, not %g", k, i,
                          (double)sum[i], (double)x[i]);
    }
    if (st == GAN_OK)
        st = nccl_health(n);
out:
    if (exec)
        c->cu->GraphExecDestroy(exec);
    if (graph)
        c->cu->GraphDestroy(graph);
    return st;
}

static GanStatus sum_alone(Cuda *c, Comm *alone) {
    Nccl *n = NULL;
    CUdeviceptr at = 0;
    GanStatus st = cuda_enter(c);
    if (st == GAN_OK)
        st = nccl_open(c, alone, &n);
    if (st == GAN_OK)
        st = cuda_alloc(c, 2 * N * sizeof(float), &at);
    if (st == GAN_OK)
        st = replay(c, n, at);
    cuda_free(c, at);
    if (!nccl_close(n, st == GAN_OK) && st == GAN_OK)
        st = fail(GAN_ERR_DEVICE, "the communicator did not end in time");
    return st;
}

static GanStatus on_card(Comm *alone) {
    Device *d = NULL;
    TRY(device_cuda.open(&(DeviceOptions){.comm = alone, .route = RouteNccl}, &d));
    GanStatus st = sum_alone((Cuda *)d, alone);
    device_cuda.close(d);
    return st;
}

static GanStatus as_rank(LocalHub *hub) {
    Comm *alone = NULL;
    TRY(comm_open(&link_local, &(LocalRank){.hub = hub}, &(CommOptions){.deadline = 60}, &alone));
    GanStatus st = on_card(alone);
    comm_close(alone);
    return st;
}

int main(void) {
    LocalHub *hub = NULL;
    GanStatus st = local_hub_new(1, &hub);
    if (st == GAN_OK)
        st = as_rank(hub);
    local_hub_free(hub);
    if (st != GAN_OK)
        fprintf(stderr, "nccl_alone: %s\n", gan_error());
    else
        printf("NCCL: a sum of one rank was captured and replayed %d times\n", TIMES);
    return st == GAN_OK ? 0 : 3;
}
