// cuda_service.c - kernels that the runtime launches for itself (service.cuh).
//
// In: a loaded plan. Out: the upload that begins a block, and fills in the place of the memset
// nodes of a captured graph. A graph's memset node is done by another engine of the card, and the
// kernel after it waits 3 to 6 us for that; cuDNN makes some twenty of them in a step of dcgan.
#include "cuda_plan.h"

#include <stddef.h>
#include <string.h>

enum {
    Warp = 32,
    FillThreads = 256,
    FillBlocks = 1024, // at most; gan_fill strides over the grid
    FillSteps = 4,     // words of a thread, before there are more blocks
};

static const char begin_name[] = "gan_begin", fill_name[] = "gan_fill";

static_assert(sizeof(CudaHead) == 14 * sizeof(uint32_t) &&
                  offsetof(CudaHead, mark) == 10 * sizeof(uint32_t) &&
                  sizeof(CudaMark) == 3 * sizeof(uint32_t),
              "gan_begin of service.cuh has these sizes");

void cuda_service_find(Loaded *l, CUmodule module) {
    const CudaDriver *cu = l->cuda->cu;
    if (cu->ModuleGetFunction(&l->begin, module, begin_name) != CUDA_SUCCESS)
        l->begin = NULL;
    if (cu->ModuleGetFunction(&l->fill, module, fill_name) != CUDA_SUCCESS)
        l->fill = NULL;
}

// --- the beginning of a block --------------------------------------------------------------------

static GanStatus copy_head(Loaded *l, const CudaHead *head) {
    Cuda *c = l->cuda;
    TRY(cuda_put(c, l->head, head, sizeof *head));
    CUDA_TRY(
        c,
        MemcpyDtoHAsync(c->mark, l->head + offsetof(CudaHead, mark), sizeof head->mark, c->compute),
        "marking a step");
    return GAN_OK;
}

GanStatus cuda_service_begin(Loaded *l, const CudaHead *head) {
    Cuda *c = l->cuda;
    CudaHead by_value = *head;
    CUdeviceptr mark = cuda_pointer(c->mark); // pinned memory has one address for both
    void *params[] = {&by_value, &l->head, &mark};
    if (!l->begin)
        return copy_head(l, head);
    CUDA_TRY(c, LaunchKernel(l->begin, 1, 1, 1, Warp, 1, 1, 0, c->compute, params, NULL),
             "beginning a block");
    return GAN_OK;
}

bool cuda_service_begins(const char *kernel) {
    return !strcmp(kernel, begin_name);
}

// --- fills ---------------------------------------------------------------------------------------

typedef struct Ends { // nodes before another one, or behind it
    CUgraphNode *at;
    size_t n;
} Ends;

typedef CUresult EndsFn(CUgraphNode node, CUgraphNode *ends, size_t *n);

static bool find_ends(Arena *a, EndsFn *query, CUgraphNode node, Ends *out) {
    *out = (Ends){NULL, 0};
    if (query(node, NULL, &out->n) != CUDA_SUCCESS)
        return false;
    out->at = arena_array(a, CUgraphNode, out->n + 1);
    return !out->n || query(node, out->at, &out->n) == CUDA_SUCCESS;
}

// As words of four bytes in a row. False: it is another kind of memset. Of the value the lowest
// bytes count, as many as an element has.
static bool fill_words(const CUDA_MEMSET_NODE_PARAMS *set, uint64_t *n, uint32_t *value) {
    static const uint32_t repeat[] = {0, 0x01010101u, 0x00010001u, 0, 1};
    static const uint32_t mask[] = {0, 0xffu, 0xffffu, 0, 0xffffffffu};
    uint64_t bytes = (uint64_t)set->width * set->elementSize;
    if (set->height != 1 || bytes % 4 || set->dst % 4)
        return false;
    *n = bytes / 4;
    *value = (set->value & mask[set->elementSize]) * repeat[set->elementSize];
    return true;
}

// What cannot be asked or is no row of words stays a memset. A replacement that has been begun must
// succeed: the graph would lack an order.
static GanStatus replace(const Loaded *l, Arena scratch, CUgraph graph, CUgraphNode node) {
    const Cuda *c = l->cuda;
    CUDA_MEMSET_NODE_PARAMS set;
    Ends before, behind;
    uint64_t n;
    uint32_t value;
    if (c->cu->GraphMemsetNodeGetParams(node, &set) != CUDA_SUCCESS ||
        !fill_words(&set, &n, &value) ||
        !find_ends(&scratch, c->cu->GraphNodeGetDependencies, node, &before) ||
        !find_ends(&scratch, c->cu->GraphNodeGetDependentNodes, node, &behind))
        return GAN_OK;
    uint64_t blocks = (n + FillThreads * FillSteps - 1) / (FillThreads * FillSteps);
    void *params[] = {&set.dst, &n, &value};
    const CUDA_KERNEL_NODE_PARAMS kernel = {
        .func = l->fill,
        .gridDimX = (unsigned)(blocks < FillBlocks ? blocks + !blocks : FillBlocks),
        .gridDimY = 1,
        .gridDimZ = 1,
        .blockDimX = FillThreads,
        .blockDimY = 1,
        .blockDimZ = 1,
        .kernelParams = params};
    CUgraphNode fill;
    CUDA_TRY(c, GraphAddKernelNode(&fill, graph, before.at, before.n, &kernel),
             "adding a fill to a graph");
    CUgraphNode *from = arena_array(&scratch, CUgraphNode, behind.n + 1);
    for (size_t i = 0; i < behind.n; i++)
        from[i] = fill;
    if (behind.n)
        CUDA_TRY(c, GraphAddDependencies(graph, from, behind.at, behind.n),
                 "ordering a fill in a graph");
    CUDA_TRY(c, GraphDestroyNode(node), "replacing a memset in a graph");
    return GAN_OK;
}

GanStatus cuda_service_fills(const Loaded *l, CUgraph graph) {
    const Cuda *c = l->cuda;
    Arena scratch = l->arena;
    size_t n = 0;
    if (!l->fill)
        return GAN_OK;
    CUDA_TRY(c, GraphGetNodes(graph, NULL, &n), "querying a graph");
    CUgraphNode *node = arena_array(&scratch, CUgraphNode, n + 1);
    if (n)
        CUDA_TRY(c, GraphGetNodes(graph, node, &n), "querying a graph");
    for (size_t i = 0; i < n; i++) {
        CUgraphNodeType type;
        CUDA_TRY(c, GraphNodeGetType(node[i], &type), "querying a graph");
        if (type == CU_GRAPH_NODE_TYPE_MEMSET)
            TRY(replace(l, scratch, graph, node[i]));
    }
    return GAN_OK;
}
