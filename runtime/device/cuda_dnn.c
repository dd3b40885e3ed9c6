// cuda_dnn.c - convolutions and products by cuDNN's graph interface.
//
// In: anchors of a plan, and the epilogues they may have. Out: prepared calls: an execution plan,
// chosen once per operation and card, and a variant pack with its addresses. The best few of the
// engines that the heuristics propose (cuda_dnn_ask.c) are timed on the card (cuda_dnn_time.c).
// The fastest is kept in the kernel cache, or that there is none.
//
// Invariant: every descriptor is owned by a Cudnn or a CudnnCalls, and destroyed with it.
#include "cuda_dnn.h"
#include "cache.h"

#include <string.h>

struct CudnnChoice {  // the engine chosen for one operation
    CudnnQuery query; // with more room, faster engines may be found
    CudnnDesc plan;   // owned by Cudnn; NULL: no engine supports it
    bool refused;     // the library says so; else one could not be tried, or does not run
    bool apart;       // what is kept for its operation needs more room: it has a file of its own
    size_t workspace;
    int64_t ns; // a run's time on the card; 0: not timed, or not to decide anything
    struct CudnnChoice *next;
};
typedef struct CudnnChoice Choice;

struct CudnnCall {
    const Choice *choice;
    CUdeviceptr at[CUDNN_PARTS]; // of the operation's tensors
    CudnnDesc pack;              // owned; NULL until the call is placed
    Cudnn *dnn;                  // borrowed
    CudnnCall *next;
};

// --- calling the library -------------------------------------------------------------------------

GanStatus cudnn_check(const Cudnn *d, cudnnStatus_t code, const char *what) {
    if (code == CUDNN_STATUS_SUCCESS)
        return GAN_OK;
    char text[512] = "";
    const char *name = d->api->GetErrorString(code), *colon;
    d->api->GetLastErrorString(text, sizeof text);
    colon = *text ? ": " : "";
    return d->cuda ? cuda_library_failed(d->cuda, "cuDNN: %s failed: %s%s%.400s", what, name, colon,
                                         text)
                   : fail(GAN_ERR_DEVICE, "cuDNN: %s failed: %s%s%.400s", what, name, colon, text);
}

// --- choosing ------------------------------------------------------------------------------------

// The memory of a call.
typedef struct Operands {
    CUdeviceptr at[CUDNN_PARTS]; // of the operation's tensors
    CudaRoom room;
    // Every rank computes this from the same values, and must get the same bits: the first engine
    // that needs no workspace is taken. Neither timing nor the plan cache decides.
    bool rank_invariant;
    bool later; // cudnn_ask_later() what is not known
} Operands;

// An engine that the heuristics propose but that fails to run is skipped, with a notice.
static void report_skipped(const Cudnn *d, const CudnnOperation *o, const CudnnCandidate *of) {
    char text[CUDNN_DESCRIPTION], all[1500];
    snprintf(all, sizeof all, "cuDNN's engine %lld is skipped: %.700s: %s",
             (long long)cudnn_engine(d, of), gan_error(), cudnn_describe(o, text));
    device_notice(&d->cuda->base, all);
}

typedef struct Fastest { // of some candidates
    int at;              // -1: none runs
    float ms;
} Fastest;

// The candidates write to the call's own result, which lies in the work memory (never in a slot)
// and is overwritten by the first run.
static GanStatus fastest(Cudnn *d, const CudnnOperation *o, const CudnnCandidate *of, int n,
                         const Operands *on, Fastest *out) {
    *out = (Fastest){.at = -1};
    for (int i = 0; i < n; i++) {
        float ms;
        char text[CUDNN_DESCRIPTION];
        bool ran = cudnn_time(d, o, of[i].plan, on->at, on->room.at, &ms) == GAN_OK;
        if (!ran)
            report_skipped(d, o, &of[i]);
        if (ran && (out->at < 0 || ms < out->ms))
            *out = (Fastest){i, ms};
        GanStatus st = cuda_wait(d->cuda);
        if (st != GAN_OK) // the context is lost
            return fail_in(st, "trying engine %lld of cuDNN for %s",
                           (long long)cudnn_engine(d, &of[i]), cudnn_describe(o, text));
    }
    return GAN_OK;
}

// Chooses the operation's plan: choice->plan stays NULL where no engine supports it.
static GanStatus choose(Cudnn *d, Choice *choice, const Operands *on) {
    const CudnnOperation *o = &choice->query.operation;
    CudnnCandidate of[CUDNN_TIMED];
    Fastest best = {0};
    int n = cudnn_ask(d, &choice->query, of);
    GanStatus st = GAN_OK;
    choice->refused = !n && !d->troubled;
    if (n && d->handle) // a single one must run, too
        st = fastest(d, o, of, n, on, &best);
    for (int i = 0; i < n; i++)
        if (i != best.at || st != GAN_OK)
            cudnn_candidate_free(d, of[i]);
    if (!n || best.at < 0 || st != GAN_OK)
        return st;
    cudnn_own(d, of[best.at].config);
    choice->plan = cudnn_own(d, of[best.at].plan);
    choice->workspace = of[best.at].workspace;
    choice->ns = choice->query.rank_invariant ? 0 : (int64_t)(best.ms * 1e6f);
    return GAN_OK;
}

// --- the plan cache ------------------------------------------------------------------------------

// A file is "workspace BYTES NS", of a run, then the plan as the library's JSON. That says nothing
// of its workspace: a plan read back from it claims to need none, whatever it needs (cuDNN 9.19).
// Or it is "none BYTES 0": no engine supports the operation in so much workspace. To ask for one
// takes as long as to read all plans: 0.1 s, for which the library loads its heuristics.
//
// A function with less room, as a `sample` beside its `step`, leaves a choice that it cannot use to
// those who can: others would be made to go on with another engine, and other bits.

enum { CHOOSING_REVISION = 4 }; // increased whenever other engines may be chosen
static const char workspace_line[] = "workspace ", none_line[] = "none ";

static Str cache_file(const Cudnn *d, const Choice *c, Arena *a) {
    const CudnnOperation *o = &c->query.operation;
    Text t = {.arena = a};
    text_fmt(&t, "cudnn %zu way %d %s %d %d\n", d->api->GetVersion(), CHOOSING_REVISION,
             d->cuda->name, d->cuda->arch, d->no_tf32);
    text_put(&t, (Str){(const char *)o, sizeof *o});
    if (c->apart)
        text_fmt(&t, "room %zu", c->query.room);
    return cache_path(a, d->cuda->cache_dir, text_str(&t), ".plan");
}

// A query for no characters returns their number. The plan of an engine that was compiled contains
// its machine code: 96 KB were seen.
static bool plan_json(const Cudnn *d, CudnnDesc plan, Arena *a, Str *out) {
    const cudnnBackendAttributeName_t json = CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION;
    int64_t n = 0, got = 0;
    if (d->api->GetAttribute(plan, json, CUDNN_TYPE_CHAR, 0, &n, NULL) != CUDNN_STATUS_SUCCESS ||
        n <= 0)
        return false;
    char *text = arena_array(a, char, (size_t)n);
    *out = (Str){text, (size_t)n};
    return d->api->GetAttribute(plan, json, CUDNN_TYPE_CHAR, n, &got, text) ==
               CUDNN_STATUS_SUCCESS &&
           got == n;
}

// A plan that cannot be written is not cached, which is told and no error.
static void choice_save(const Cudnn *d, const Choice *c, Arena scratch) {
    Str json = {0};
    if (c->plan ? !plan_json(d, c->plan, &scratch, &json) : !c->refused)
        return;
    Text file = {.arena = &scratch};
    text_fmt(&file, "%s%zu %lld\n", c->plan ? workspace_line : none_line,
             c->plan ? c->workspace : c->query.room, (long long)c->ns);
    text_put(&file, json);
    sealed_keep(&d->cuda->keep, &scratch, cache_file(d, c, &scratch), text_str(&file));
}

// The first line after its word, and what follows it. False: it has another word, or no two
// numbers.
static bool read_file(Str file, const char *word, size_t *bytes, int64_t *ns, Str *rest) {
    size_t end = str_find(file, '\n'), blank = strlen(word);
    int64_t n;
    if (!str_starts(file, str_c(word)) || end == file.len)
        return false;
    blank += str_find(str_sub(file, blank, end), ' ');
    if (blank >= end || !str_to_int(str_sub(file, strlen(word), blank), &n) || n < 0 ||
        !str_to_int(str_sub(file, blank + 1, end), ns) || *ns < 0)
        return false;
    *bytes = (size_t)n;
    *rest = str_sub(file, end + 1, file.len);
    return true;
}

static bool read_plan(Cudnn *d, Choice *c, Str json, size_t workspace) {
    size_t says;
    CudnnBuilder m = cudnn_desc_begin(d, CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
    cudnn_desc_set_device(&m);
    cudnn_desc_set(&m, CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION, CUDNN_TYPE_CHAR,
                   (int64_t)json.len, json.ptr);
    CudnnDesc plan = cudnn_own(d, cudnn_desc_finalize(&m));
    if (!plan || !cudnn_workspace(d, plan, &says) || says > c->query.room)
        return false;
    c->plan = plan;
    c->workspace = says > workspace ? says : workspace;
    return true;
}

// False: what was chosen is not known, or of no use with this room.
static bool choice_find(Cudnn *d, Choice *c, Arena scratch) {
    Str file, rest;
    size_t bytes;
    if (!sealed_read(&scratch, cache_file(d, c, &scratch), &file))
        return false;
    if (read_file(file, none_line, &bytes, &c->ns, &rest) && bytes >= c->query.room) {
        c->query.room = bytes;
        return true;
    }
    if (!read_file(file, workspace_line, &bytes, &c->ns, &rest))
        return false;
    if (bytes <= c->query.room)
        return read_plan(d, c, rest, bytes);
    bool shared = !c->apart;
    c->apart = true;
    return shared && choice_find(d, c, scratch);
}

// A choice is valid wherever its workspace fits; that no engine was found, where there is no more
// room than there was then.
static bool choice_fits(const Choice *c, const Operands *on) {
    const size_t room = on->room.bytes;
    if (c->query.rank_invariant != on->rank_invariant)
        return false;
    return c->plan ? c->workspace <= room : c->query.room >= room;
}

// Made now, and kept, unless another process has kept its own meanwhile: then ranks that share a
// cache have one engine, as they will when the run goes on.
static GanStatus choose_and_keep(Cudnn *d, Choice *made, const Operands *on) {
    Choice kept = *made;
    TRY(choose(d, made, on));
    bool late = choice_find(d, &kept, d->arena);
    made->apart = kept.apart;
    if (late)
        *made = kept;
    else
        choice_save(d, made, d->arena);
    return GAN_OK;
}

// The choice for an operation: known, from the plan cache, or made now. Later: NULL, but asked for.
static GanStatus choice_of(Cudnn *d, const CudnnOperation *o, const Operands *on,
                           const Choice **out) {
    *out = NULL;
    for (Choice *c = d->choices; c && !*out; c = c->next)
        if (!memcmp(&c->query.operation, o, sizeof *o) && choice_fits(c, on))
            *out = c;
    if (*out)
        return GAN_OK;
    Choice made = {.query = {.room = on->room.bytes, .rank_invariant = on->rank_invariant}};
    memcpy(&made.query.operation, o, sizeof *o);
    bool keeps = d->cuda && d->cuda->cache_dir.len && !on->rank_invariant;
    if (!keeps || !choice_find(d, &made, d->arena)) {
        if (on->later) {
            cudnn_ask_later(d, &made.query);
            return GAN_OK;
        }
        TRY(keeps ? choose_and_keep(d, &made, on) : choose(d, &made, on));
    }
    Choice *c = arena_new(&d->arena, Choice);
    *c = made;
    c->next = d->choices;
    d->choices = c;
    *out = c;
    return GAN_OK;
}

// --- calls ---------------------------------------------------------------------------------------

static bool addresses(const Plan *p, Memory m, const uint32_t *node, int n, CUdeviceptr *at) {
    bool all = true;
    for (int i = 0; i < n; i++) {
        at[i] = cuda_pointer(memory_at(m, p, node[i]));
        all = all && at[i] != 0; // else a constant inside kernels
    }
    return all;
}

typedef struct PlanRequest { // of a call, for an execution plan
    CudnnCalls *calls;
    const Plan *p;
    Memory m;
    const Epilogue *e; // NULL: none
    Operands on;
    const Choice *choice; // out; NULL, or without a plan: the library does not support it
} PlanRequest;

static GanStatus request_plan(PlanRequest *q, CudnnOperation *o, uint32_t node[CUDNN_PARTS]) {
    q->choice = NULL;
    if (q->e && !cudnn_add_epilogue(&q->p->func->g, q->e, o, node))
        return GAN_OK;
    if (!addresses(q->p, q->m, node, cudnn_parts(o), q->on.at))
        return GAN_OK;
    return choice_of(q->calls->dnn, o, &q->on, &q->choice);
}

// The operation's choice; a product is tried as a convolution first.
static GanStatus prepare_choice(PlanRequest *q, uint32_t id) {
    const Graph *g = &q->p->func->g;
    CudnnOperation o, conv;
    uint32_t node[CUDNN_PARTS], turned[CUDNN_PARTS];
    bool dot = graph_node(g, id)->op == OpDot;
    if (!(dot ? cudnn_read_dot(g, id, &o, node) : cudnn_read_conv(g, id, &o, node)))
        return GAN_OK;
    memcpy(turned, node, sizeof node);
    if (dot && cudnn_dot_as_conv(&o, &conv, turned)) {
        TRY(request_plan(q, &conv, turned));
        if (q->choice ? q->choice->plan != NULL : q->on.later)
            return GAN_OK;
    }
    return request_plan(q, &o, node);
}

static GanStatus prepare(PlanRequest *q, uint32_t id, CudnnCall **out) {
    CudnnCalls *calls = q->calls;
    TRY(prepare_choice(q, id));
    if (!q->choice || !q->choice->plan)
        return GAN_OK;
    CudnnCall *call = arena_new(calls->arena, CudnnCall);
    *call = (CudnnCall){.choice = q->choice, .dnn = calls->dnn, .next = calls->last};
    memcpy(call->at, q->on.at, sizeof call->at);
    calls->last = *out = call;
    return GAN_OK;
}

// Computed from weights and state alone, which all ranks have.
static bool is_rank_invariant(const Cudnn *d, const Graph *g, uint32_t id) {
    return d->cuda && comm_size(d->cuda->base.options.comm) > 1 && !node_type(g, id)->batched &&
           !node_type(g, node_in(g, id, 0))->batched && !node_type(g, node_in(g, id, 1))->batched;
}

size_t cudnn_call_workspace(const CudnnCall *call) {
    return call->choice->workspace;
}

int64_t cudnn_call_ns(const CudnnCall *call) {
    return call->choice->ns;
}

GanStatus cudnn_place(CudnnCall *call, CUdeviceptr workspace) {
    return cudnn_pack(call->dnn, &call->choice->query.operation, call->at, workspace, &call->pack);
}

static PlanRequest request_of(CudnnCalls *calls, const Plan *p, uint32_t id, const Epilogue *e,
                              Memory m) {
    PlanRequest q = {.calls = calls, .p = p, .m = m, .e = e, .on.room = calls->room};
    q.on.rank_invariant = is_rank_invariant(calls->dnn, &p->func->g, id);
    q.on.room.bytes = q.on.rank_invariant ? 0 : q.on.room.bytes;
    return q;
}

GanStatus cudnn_prepare(CudnnCalls *calls, const Plan *p, uint32_t id, const Epilogue *e, Memory m,
                        CudnnCall **out) {
    PlanRequest q = request_of(calls, p, id, e, m);
    *out = NULL;
    calls->dnn->arena.oom = calls->arena->oom; // for as long as this call
    GanStatus st = prepare(&q, id, out);
    calls->dnn->arena.oom = NULL;
    return st;
}

typedef enum Round { RoundAsk, RoundPlain, RoundFused } Round;

// Of a product, with its epilogue and without.
static GanStatus choose_one(CudnnCalls *calls, const Plan *p, uint32_t id, const Epilogue *e,
                            Memory m, Round round) {
    for (int fused = round == RoundFused; fused <= (round != RoundPlain); fused++) {
        PlanRequest q = request_of(calls, p, id, fused ? e : NULL, m);
        q.on.later = round == RoundAsk;
        if (!fused || e->region != NONE)
            TRY(prepare_choice(&q, id));
    }
    return GAN_OK;
}

static GanStatus choose_all(CudnnCalls *calls, const Plan *p, const Epilogue *epilogue, Memory m,
                            Round round) {
    for (uint32_t i = 0; i < p->region.n; i++) {
        uint32_t id = p->region.at[i].node.at[0];
        if (p->region.at[i].kind != RegionCall || node_family(&p->func->g, id) != FamilyProduct)
            continue;
        GanStatus st = choose_one(calls, p, id, &epilogue[i], m, round);
        if (st != GAN_OK)
            return fail_in(st, "%s", region_where(calls->arena, p, &p->region.at[i]).ptr);
    }
    return GAN_OK;
}

// Engines that have to be compiled are there last.
GanStatus cudnn_choose(CudnnCalls *calls, const Plan *p, const Epilogue *epilogue, Memory m) {
    Cudnn *d = calls->dnn;
    if (!cudnn_asks_ahead(d))
        return GAN_OK;
    d->arena.oom = calls->arena->oom;
    GanStatus st = choose_all(calls, p, epilogue, m, RoundAsk);
    if (st == GAN_OK) {
        cudnn_ask_begin(d);
        st = choose_all(calls, p, epilogue, m, RoundPlain);
    }
    if (st == GAN_OK)
        st = choose_all(calls, p, epilogue, m, RoundFused);
    cudnn_ask_end(d);
    d->arena.oom = NULL;
    return st;
}

GanStatus cudnn_run(const CudnnCall *call) {
    const Cudnn *d = call->dnn;
    char text[CUDNN_DESCRIPTION];
    cudnnStatus_t code = d->api->Execute(d->handle, call->choice->plan, call->pack);
    return code == CUDNN_STATUS_SUCCESS
               ? GAN_OK
               : cudnn_check(d, code, cudnn_describe(&call->choice->query.operation, text));
}

void cudnn_release(CudnnCalls *calls) {
    if (calls->dnn) { // a load that ran out of memory left its own
        calls->dnn->arena.oom = NULL;
        cudnn_ask_end(calls->dnn);
    }
    for (CudnnCall *c = calls->last; c; c = c->next)
        if (c->pack)
            c->dnn->api->DestroyDescriptor(c->pack);
    calls->last = NULL;
}

// --- matrix product rate -------------------------------------------------------------------------

GanStatus cudnn_rate(Cudnn *d, Dtype type, int64_t n, double *gflops) {
    const CudnnTensor square = {.n = 3, .dim = {1, n, n}, .stride = {n * n, n, 1}, .type = type};
    CudnnOperation product = {.kind = CudnnMatmul, .tensor = {square, square, square}}, o;
    uint32_t node[3] = {0, 1, 2};
    const size_t bytes = (size_t)(n * n) * dtype_size[type];
    Operands on = {.room.bytes = 3 * bytes};
    const Choice *choice = NULL;
    float ms;
    GanStatus st = GAN_OK;
    *gflops = 0;
    cudnn_dot_as_conv(&product, &o, node);
    for (int i = 0; i < 3; i++)
        TRY_OUT(cuda_alloc(d->cuda, bytes, &on.at[i]));
    TRY_OUT(cuda_reserve(d->cuda, on.room.bytes, &on.room.at));
    TRY_OUT(choice_of(d, &o, &on, &choice));
    if (!choice->plan)
        goto out;
    if (cudnn_time(d, &o, choice->plan, on.at, on.room.at, &ms) == GAN_OK && ms > 0)
        *gflops = 2e-6 * (double)n * (double)n * (double)n / ms;
out:
    for (int i = 0; i < 3; i++)
        cuda_free(d->cuda, on.at[i]);
    cuda_free(d->cuda, on.room.at);
    return st;
}

// --- the library ---------------------------------------------------------------------------------

static GanStatus open_handle(Cudnn *d, const Cuda *c) {
    TRY(cudnn_check(d, d->api->Create(&d->handle), "opening the library"));
    return cudnn_check(d, d->api->SetStream(d->handle, (cudaStream_t)c->compute),
                       "setting the stream");
}

GanStatus cudnn_open_for(const CudnnApi *api, Str properties, bool no_tf32, Cudnn **out) {
    *out = NULL;
    Cudnn *d = mem_alloc(sizeof *d);
    if (!d)
        return fail(GAN_ERR_MEMORY, "no memory for cuDNN");
    *d = (Cudnn){.api = api, .no_tf32 = no_tf32};
    GanStatus st = arena_init(&d->arena, (size_t)1 << 30);
    if (st == GAN_OK && properties.len) {
        CudnnBuilder m = cudnn_desc_begin(d, CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR);
        cudnn_desc_set(&m, CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, CUDNN_TYPE_CHAR,
                       (int64_t)properties.len, properties.ptr);
        d->card = cudnn_desc_finalize(&m);
        st = d->card ? GAN_OK : cudnn_check(d, m.status, "reading a card's properties");
    }
    if (st == GAN_OK)
        *out = d;
    else
        cudnn_close(d);
    return st;
}

GanStatus cudnn_open(Cuda *c, Cudnn **out) {
    *out = NULL;
    if (!c->api->dnn)
        return GAN_OK;
    TRY(cudnn_open_for(c->api->dnn, (Str){0}, c->base.options.no_tf32, out));
    (*out)->cuda = c;
    GanStatus st = open_handle(*out, c);
    if (st != GAN_OK) {
        cudnn_close(*out);
        *out = NULL;
    }
    return st;
}

void cudnn_close(Cudnn *d) {
    if (!d)
        return;
    while (d->owned.n)
        d->api->DestroyDescriptor(d->owned.at[--d->owned.n]);
    for (int i = 0; i < CUDNN_HELPERS; i++) // whose handles the plans name
        cudnn_close(d->helper[i]);
    if (d->card)
        d->api->DestroyDescriptor(d->card);
    if (d->handle)
        d->api->Destroy(d->handle);
    arena_release(&d->arena);
    mem_free(d);
}
