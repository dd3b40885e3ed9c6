// branch_report.c - how long the longest chain of launches that wait for each other is in a step on
// a card, and why. A table for docs/measurements. No card needed: plans are loaded on the mock
// driver (record.h), and workspaces are those that cuDNN's heuristics name for the description of a
// card (cards.h). Each block counts once.
//
//   build/tests/branch_report f32|bf16|f16 MODEL.gan[:BATCH]...
#include "call_report.h"
#include "cuda_plan.h"
#include "host_run.h"

typedef struct Chains { // the longest of each block, added up
    uint32_t tasks, calls;
    uint32_t values; // a launch waits for those that compute what it reads
    uint32_t memory; // and for those whose memory it reuses, but for workspace
    uint32_t shared; // and workspace begins at one address
    uint32_t turns;  // workspace is given out in turn: what runs
    uint32_t edges, crossing;
} Chains;

// --- what is read was written --------------------------------------------------------------------

typedef struct Written {
    CUdeviceptr from, to;
    uint32_t task;
} Written;
typedef VEC(Written) WrittenVec;

static void overwrite(Arena *a, WrittenVec *v, const CudaAccess *x, uint32_t task) {
    CUdeviceptr from = x->at, to = x->at + x->bytes;
    WrittenVec kept = {0};
    for (uint32_t i = 0; i < v->n; i++) {
        Written w = v->at[i];
        if (w.to <= from || to <= w.from) {
            vec_push(a, &kept, w);
            continue;
        }
        if (w.from < from)
            vec_push(a, &kept, ((Written){w.from, from, w.task}));
        if (to < w.to)
            vec_push(a, &kept, ((Written){to, w.to, w.task}));
    }
    vec_push(a, &kept, ((Written){from, to, task}));
    *v = kept;
}

static uint32_t chain_of_values(Arena a, const CudaTask *task, uint32_t n) {
    uint32_t *length = arena_array(&a, uint32_t, n), most = 0;
    WrittenVec v = {0};
    for (uint32_t i = 0; i < n; i++) {
        for (uint32_t k = 0; k < task[i].access.n; k++) {
            const CudaAccess *x = &task[i].access.at[k];
            for (uint32_t w = 0; w < v.n && !x->write; w++)
                if (v.at[w].from < x->at + x->bytes && x->at < v.at[w].to &&
                    length[v.at[w].task] > length[i])
                    length[i] = length[v.at[w].task];
        }
        length[i]++;
        most = length[i] > most ? length[i] : most;
        for (uint32_t k = 0; k < task[i].access.n; k++)
            if (task[i].access.at[k].write)
                overwrite(&a, &v, &task[i].access.at[k], i);
    }
    return most;
}

// --- workspace -----------------------------------------------------------------------------------

typedef enum Rooms { RoomsNone, RoomsShared, RoomsInTurn } Rooms;

// What the library's first engine needs.
static size_t workspace_of(Report *r, Arena *a, const Plan *p, uint32_t region) {
    const Memory nowhere = {(char *)(uintptr_t)4096, (char *)(uintptr_t)4096};
    CudnnCalls calls = {.dnn = r->dnn, .arena = a, .room.bytes = plan_workspace(p)};
    CudnnCall *call = NULL;
    uint32_t id = p->region.at[region].node.at[0];
    if (cudnn_prepare(&calls, p, id, NULL, nowhere, &call) != GAN_OK)
        bug("%s", gan_error());
    size_t bytes = call ? cudnn_call_workspace(call) : 0;
    cudnn_release(&calls);
    return bytes;
}

// The tasks, their workspace given out in this way.
static CudaTask *with_rooms(Report *r, Arena *a, const Loaded *l, const CudaBlock *b, Rooms rooms) {
    CudaTask *out = arena_array(a, CudaTask, b->n);
    size_t used = 0;
    for (uint32_t i = 0; i < b->n; i++) {
        const CudaTask *t = &b->task[i];
        size_t bytes = 0;
        out[i].kind = t->kind;
        for (uint32_t k = 0; k < t->access.n; k++) {
            CudaAccess x = t->access.at[k];
            if (x.at < l->room.at || x.at >= l->room.at + l->room.bytes)
                vec_push(a, &out[i].access, x);
            else
                bytes += card_align(x.bytes);
        }
        if (t->kind == CudaAnchor)
            bytes = card_align(workspace_of(r, a, l->plan, t->region));
        if (!bytes || rooms == RoomsNone)
            continue;
        used = rooms == RoomsShared || used + bytes > l->room.bytes ? 0 : used;
        vec_push(a, &out[i].access, ((CudaAccess){l->room.at + used, bytes, true}));
        used += bytes;
    }
    return out;
}

// --- chains --------------------------------------------------------------------------------------

static uint32_t chain(const CudaAfter *after, Arena a, uint32_t n) {
    uint32_t *length = arena_array(&a, uint32_t, n), most = 0;
    for (uint32_t i = 0; i < n; i++) {
        for (uint32_t k = 0; k < after[i].n; k++)
            length[i] = length[after[i].at[k]] > length[i] ? length[after[i].at[k]] : length[i];
        most = ++length[i] > most ? length[i] : most;
    }
    return most;
}

static uint32_t chain_with(Report *r, Arena a, const Loaded *l, const CudaBlock *b, Rooms rooms) {
    const CudaTask *task = with_rooms(r, &a, l, b, rooms);
    const CudaAfter *after = cuda_branches(&a, task, b->n);
    return chain(after, a, b->n);
}

// Edges that no branch goes along: each task continues the branch of one that it waits for, and no
// two the same.
static uint32_t crossing(const CudaAfter *after, Arena a, uint32_t n) {
    bool *continued = arena_array(&a, bool, n);
    uint32_t crosses = 0;
    for (uint32_t i = 0; i < n; i++) {
        bool on = false;
        for (uint32_t k = 0; k < after[i].n; k++) {
            uint32_t from = after[i].at[k];
            if (!on && !continued[from])
                on = continued[from] = true;
            else
                crosses++;
        }
    }
    return crosses;
}

static void count_block(Report *r, const Loaded *l, const CudaBlock *b, Chains *c) {
    Arena a = r->a;
    const CudaTask *task = with_rooms(r, &a, l, b, RoomsInTurn);
    const CudaAfter *after = cuda_branches(&a, task, b->n);
    c->tasks += b->n;
    c->values += chain_of_values(a, b->task, b->n);
    c->memory += chain_with(r, a, l, b, RoomsNone);
    c->shared += chain_with(r, a, l, b, RoomsShared);
    c->turns += chain(after, a, b->n);
    c->crossing += crossing(after, a, b->n);
    for (uint32_t i = 0; i < b->n; i++) {
        c->calls += b->task[i].kind == CudaAnchor;
        c->edges += after[i].n;
    }
}

static GanStatus report(Report *r, Str model, Dtype real) {
    CompileOptions o;
    Run run = {.arena = r->a};
    Front f;
    Chains c = {0};
    TRY(report_model(model, real, &o));
    front_init(&f, &run.arena);
    TRY(compile_file(&f, &o, &run.compiled));
    run.r = recorder_new((size_t)8 << 40);
    run.api = recorded_device();
    TRY(run.api.open(&(DeviceOptions){.threads = 1}, &run.device));
    TRY(exec_begin(&run.api, run.device, &run.arena, &run.compiled.module, &run.compiled.init,
                   &run.exec));
    TRY(exec_load_step(run.exec, &run.compiled.step));
    const Loaded *l = ((Cuda *)run.device)->loaded; // the last
    Arena before = r->a;
    r->a = run.arena;
    for (uint32_t i = 0; i < l->plan->section.n; i++)
        count_block(r, l, &l->block[i], &c);
    r->a = before;
    printf("| %.*s, %lld, %s | %u | %u | %u | %u | %u | %u | %u | %u | %.1f |\n",
           SARG(run.compiled.module.name), (long long)run.compiled.module.batch, dtype_name[real],
           c.tasks, c.calls, c.values, c.memory, c.shared, c.turns, c.edges, c.crossing,
           (double)run.compiled.step.work_bytes / 1e6);
    fflush(stdout);
    close_run(&run);
    recorder_free(run.r);
    return GAN_OK;
}

int main(int argc, char **argv) {
    return report_main(
        argc, argv,
        "| launches | calls | chain of values | of memory | workspace shared | in turn | "
        "edges | crossing | MB |\n| --- | --: | --: | --: | --: | --: | --: | --: | --: | --: |\n",
        report);
}
