// workspace.c - an upper bound on the scratch memory of a plan's GPU launches, known before
// anything is allocated: partial results of a region, or the workspace of a library call.
//
// In: a plan with buffers assigned. Out: the bound, which the choice of library engines respects
// (runtime/device/cuda_dnn.c). cuDNN's engines need workspace mostly for copies of operands and
// results in another layout: docs/performance.md lists what 17 models' calls need. (D-0012)
#include "program.h"

#include "integers.h"

enum {
    SMALL = 16 << 20, // bytes a product's engine may ask for beside copies: sums in pieces
    // Of a line's complex numbers, the most copies cuFFT says it takes in the worst case: its
    // documentation of work areas, 8 * batch * n.
    FFT_COPIES = 8,
};

size_t card_align(size_t bytes) {
    return round_up(bytes, CARD_ALIGN);
}

static size_t product_workspace(const Graph *g, uint32_t id) {
    size_t bytes = type_bytes(g, node_type(g, id)) + SMALL;
    for (uint32_t k = 0; k < graph_node(g, id)->nin; k++)
        bytes += type_bytes(g, node_type(g, node_in(g, id, k)));
    return bytes;
}

// With a copy of the frequencies that become real numbers (cuda_fft.c).
static size_t transform_workspace(const Graph *g, uint32_t id) {
    FftLines l = fft_lines(g, id);
    size_t copy = (size_t)(l.lines * l.in.line) * sizeof(float);
    size_t numbers = (size_t)(l.lines * l.n) * 2 * sizeof(float);
    return (l.out.real ? card_align(copy) : 0) + FFT_COPIES * numbers;
}

typedef size_t CallWorkspace(const Graph *g, uint32_t id);
static CallWorkspace *const workspace_of[FamilyCount] = { // no library has the others
    [FamilyProduct] = product_workspace,
    [FamilyTransform] = transform_workspace};

static size_t call_workspace(const Graph *g, uint32_t id) {
    CallWorkspace *bytes = workspace_of[node_family(g, id)];
    return bytes ? bytes(g, id) : 0;
}

static size_t launch_workspace(const Plan *p, Launch launch) {
    const Region *r = &p->region.at[launch.region];
    size_t bytes = 0;
    for (uint32_t i = 0; i < launch.instances; i++)
        bytes += card_align(p->region.at[p->merge.at[launch.first + i]].scratch);
    size_t library = r->kind == RegionCall ? call_workspace(&p->func->g, r->node.at[0]) : 0;
    return library > bytes ? library : bytes;
}

size_t plan_workspace(const Plan *p) {
    size_t most = 0;
    for (uint32_t i = 0; i < p->launch.n; i++) {
        size_t bytes = launch_workspace(p, p->launch.at[i]);
        most = bytes > most ? bytes : most;
    }
    return card_align(most);
}
