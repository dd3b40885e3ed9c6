// call_report.c - reports the launches of a step on a card: our kernels, cuDNN calls, their
// epilogues, and the workspace their first engines ask for, beside the workspace the plan
// reserves. A table for docs/performance.md. No card needed (call_report.h).
//
//   build/tests/call_report f32|bf16|f16 MODEL.gan[:BATCH]...
#include "call_report.h"
#include "stages.h"

typedef struct Count {
    uint32_t launches, calls, own; // our kernels without anchors; cuDNN calls; our anchor kernels
    uint32_t ready, compiled,
        alone;      // epilogues by prebuilt and runtime-compiled engines; by kernels of their own
    uint32_t rooms; // calls whose first engine requires workspace of the weights' size
    size_t room;    // their total workspace
    size_t most;    // largest workspace of any call
    uint32_t over;  // calls whose first engine requires more workspace than the plan reserves
    double spared;  // bytes of memory traffic saved by epilogues
    double moved;   // bytes of memory traffic, without their saving
} Count;

static const Memory nowhere = {(char *)(uintptr_t)4096,
                               (char *)(uintptr_t)4096}; // never dereferenced

static double bytes_of(const Graph *g, uint32_t id) {
    return (double)type_bytes(g, node_type(g, id));
}

// Does the call require workspace of the size of its weights, the shared operand, to reorder them?
static bool rearranges(const Graph *g, uint32_t id, size_t workspace) {
    const uint32_t part[] = {node_in(g, id, 0), node_in(g, id, 1), id};
    for (int i = 0; i < 3; i++)
        if (graph_node(g, id)->op != OpDot && !node_type(g, part[i])->batched &&
            (double)workspace >= bytes_of(g, part[i]))
            return true;
    return false;
}

static GanStatus count_call(Report *r, const Plan *p, uint32_t region, Epilogue e, bool *absorbed,
                            Count *c) {
    const Graph *g = &p->func->g;
    uint32_t id = p->region.at[region].node.at[0];
    CudnnCalls calls = {.dnn = r->dnn, .arena = &r->a, .room.bytes = SIZE_MAX};
    CudnnCall *call = NULL;
    if (e.region != NONE) {
        TRY(cudnn_prepare(&calls, p, id, &e, nowhere, &call));
        bool ready = e.act == ActRelu || e.act == ActNone;
        bool plain = graph_node(g, id)->op != OpConvDx && ready && e.bias;
        if (call) {
            absorbed[e.region] = true;
            c->ready += plain;
            c->compiled += !plain;
            c->spared += 2 * bytes_of(g, e.result);
        } else {
            c->alone++;
        }
    }
    if (!call)
        TRY(cudnn_prepare(&calls, p, id, NULL, nowhere, &call));
    c->calls += call != NULL;
    c->own += call == NULL;
    size_t room = call ? cudnn_call_workspace(call) : 0;
    if (call && rearranges(g, id, room)) {
        c->rooms++;
        c->room += room;
    }
    c->most = room > c->most ? room : c->most;
    c->over += room > plan_workspace(p);
    cudnn_release(&calls);
    return GAN_OK;
}

// Launches of a step, each block once: one for each kernel of merged regions.
static uint32_t launches_of(Arena *a, const Plan *p, const bool *absorbed) {
    uint32_t n = 0, *seen = arena_array(a, uint32_t, p->kernel.n + 1);
    for (uint32_t i = 0; i < p->launch.n; i++)
        for (uint32_t k = 0; k < p->launch.at[i].instances; k++) {
            uint32_t region = p->merge.at[p->launch.at[i].first + k];
            const Region *r = &p->region.at[region];
            if (r->kind != RegionLoop || absorbed[region])
                continue;
            bool many = p->kernel.at[r->kernel].many;
            n += !many || seen[r->kernel] != i + 1;
            seen[r->kernel] = i + 1;
        }
    return n;
}

static GanStatus count_step(Report *r, const Plan *p, Count *c) {
    bool *absorbed = arena_array(&r->a, bool, p->region.n);
    const Epilogue *epilogue = plan_epilogues(&r->a, p);
    for (uint32_t i = 0; i < p->region.n; i++) {
        c->moved += (double)region_bytes(p, &p->region.at[i]);
        if (p->region.at[i].kind == RegionCall)
            TRY(count_call(r, p, i, epilogue[i], absorbed, c));
    }
    c->launches = launches_of(&r->a, p, absorbed);
    return GAN_OK;
}

static GanStatus report(Report *r, Str model, Dtype real) {
    CompileOptions o;
    Arena checkpoint = r->a;
    Front f;
    Compiled made = {0};
    Count c = {0};
    TRY(report_model(model, real, &o));
    front_init(&f, &r->a);
    TRY(compile_file(&f, &o, &made));
    TRY(count_step(r, &made.step, &c));
    printf(
        "| %.*s, %lld, %s | %u | %u | %u | %u, %u, %u | %.0f of %.0f | %u | %.1f | %.1f of %.1f | "
        "%u |\n",
        SARG(made.module.name), (long long)made.module.batch, dtype_name[real], c.launches, c.calls,
        c.own, c.ready, c.compiled, c.alone, c.spared / 1e6, c.moved / 1e6, c.rooms,
        (double)c.room / 1e6, (double)c.most / 1e6, (double)plan_workspace(&made.step) / 1e6,
        c.over);
    fflush(stdout);
    r->a = checkpoint;
    return GAN_OK;
}

int main(int argc, char **argv) {
    return report_main(
        argc, argv,
        "| launches | calls | left to us | epilogues ready, compiled, left | MB spared | "
        "calls with room for weights | MB | the greediest call, MB, of the plan's "
        "room | over |\n"
        "| --- | --: | --: | --: | --: | --: | --: | --: | --: | --: |\n",
        report);
}
