// cuda_dnn.c - convolutions and products by cuDNN's graph interface.
//
// In: anchors of a plan. Out: prepared calls: an execution plan, found once per operation and card,
// and the addresses it works on. The library's heuristics name engines, best first; those that are
// not reproducible, or round more than asked for, are passed over; on the card the best few are
// timed. What won is kept in the kernel cache as the library's own JSON.
//
// Invariant: whatever the library makes belongs to a Cudnn or a CudnnCalls, and goes with it.
#include "cuda_dnn.h"
#include "cache.h"

#include <string.h>

enum {
    CANDIDATES_MOST = 64,       // that the heuristics are asked for
    TIMED = 8,                  // of them, on the card
    ROUNDS = 5,                 // of each; the least time counts
    WORKSPACE_MOST = 512 << 20, // bytes an engine may ask for
    TEXT_MOST = 1 << 16,        // of a plan's JSON
};

typedef cudnnBackendDescriptor_t Desc;

typedef struct Choice { // what is known of one operation
    CudnnOperation operation;
    Desc plan; // owned by Cudnn; NULL: the library does not do it
    size_t workspace;
    struct Choice *next;
} Choice;

struct Cudnn {
    Cuda *cuda;          // borrowed; NULL: plans are made, and cannot run
    const CudnnApi *api; // borrowed
    bool no_tf32;
    cudnnHandle_t handle; // NULL without a card
    Desc card;            // its properties: what engines are chosen for
    Arena arena;          // choices
    Choice *choices;
    VEC(Desc) owned; // released last to first
};

struct CudnnCall {
    const Choice *choice;
    CUdeviceptr at[3]; // of the operation's tensors
    Desc pack;         // owned
    Cudnn *dnn;        // borrowed
    CudnnCall *next;
};

// --- calling the library -------------------------------------------------------------------------

static GanStatus check(const Cudnn *d, cudnnStatus_t code, const char *what) {
    if (code == CUDNN_STATUS_SUCCESS)
        return GAN_OK;
    char words[512] = "";
    d->api->GetLastErrorString(words, sizeof words);
    return fail(GAN_ERR_DEVICE, "cuDNN: %s failed: %s%s%.400s", what, d->api->GetErrorString(code),
                *words ? ": " : "", words);
}

// A descriptor in the making: after the first failure the rest is not asked for.
typedef struct Maker {
    const Cudnn *d;
    Desc desc;
    cudnnStatus_t status;
} Maker;

static Maker make(const Cudnn *d, cudnnBackendDescriptorType_t type) {
    Maker m = {.d = d};
    m.status = d->api->CreateDescriptor(type, &m.desc);
    return m;
}

static void set(Maker *m, cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
                int64_t n, const void *value) {
    if (m->status == CUDNN_STATUS_SUCCESS)
        m->status = m->d->api->SetAttribute(m->desc, name, type, n, value);
}

// A part that could not be made makes the whole fail.
static void set_desc(Maker *m, cudnnBackendAttributeName_t name, Desc value) {
    if (value)
        set(m, name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &value);
    else if (m->status == CUDNN_STATUS_SUCCESS)
        m->status = CUDNN_STATUS_NOT_SUPPORTED;
}

// NULL when any step failed.
static Desc made(Maker *m) {
    if (m->status == CUDNN_STATUS_SUCCESS)
        m->status = m->d->api->Finalize(m->desc);
    if (m->status == CUDNN_STATUS_SUCCESS)
        return m->desc;
    if (m->desc)
        m->d->api->DestroyDescriptor(m->desc);
    return NULL;
}

static Desc keep(Cudnn *d, Desc desc) {
    if (desc)
        vec_push(&d->arena, &d->owned, desc);
    return desc;
}

// --- operations ----------------------------------------------------------------------------------

static bool data_type(Dtype t, cudnnDataType_t *out) {
    switch (t) {
    case DtF32:
        *out = CUDNN_DATA_FLOAT;
        return true;
    case DtBF16:
        *out = CUDNN_DATA_BFLOAT16;
        return true;
    case DtF16:
        *out = CUDNN_DATA_HALF;
        return true;
    case DtF64:
        *out = CUDNN_DATA_DOUBLE;
        return true;
    case DtCount:
        break;
    }
    return false;
}

static Desc make_tensor(Cudnn *d, const CudnnTensor *t, int64_t uid) {
    const int64_t alignment = 16;
    cudnnDataType_t type;
    if (!data_type(t->type, &type))
        return NULL;
    Maker m = make(d, CUDNN_BACKEND_TENSOR_DESCRIPTOR);
    set(&m, CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &type);
    set(&m, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, t->n, t->dim);
    set(&m, CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, t->n, t->stride);
    set(&m, CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, 1, &uid);
    set(&m, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, 1, &alignment);
    return keep(d, made(&m));
}

static Desc make_geometry(Cudnn *d, const CudnnOperation *o) {
    const int64_t n = o->space;
    const cudnnDataType_t type = CUDNN_DATA_FLOAT;
    const cudnnConvolutionMode_t mode = CUDNN_CROSS_CORRELATION;
    Maker m = make(d, CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
    set(&m, CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, CUDNN_TYPE_INT64, 1, &n);
    set(&m, CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &type);
    set(&m, CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE, 1, &mode);
    set(&m, CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, CUDNN_TYPE_INT64, n, o->before);
    set(&m, CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, CUDNN_TYPE_INT64, n, o->after);
    set(&m, CUDNN_ATTR_CONVOLUTION_DILATIONS, CUDNN_TYPE_INT64, n, o->dilation);
    set(&m, CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, CUDNN_TYPE_INT64, n, o->stride);
    return keep(d, made(&m));
}

static Desc make_product(Cudnn *d) {
    const cudnnDataType_t type = CUDNN_DATA_FLOAT;
    Maker m = make(d, CUDNN_BACKEND_MATMUL_DESCRIPTOR);
    set(&m, CUDNN_ATTR_MATMUL_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &type);
    return keep(d, made(&m));
}

// What the library calls an operation's parts.
static const struct {
    cudnnBackendDescriptorType_t type;
    cudnnBackendAttributeName_t about, tensor[3], alpha, beta; // the last two of a convolution
} names[CudnnKinds] = {
    [CudnnForward] = {CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,
                      CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
                      {CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X,
                       CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W,
                       CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y},
                      CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA,
                      CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA},
    [CudnnData] = {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
                   CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
                   {CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX,
                    CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
                    CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY},
                   CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
                   CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA},
    [CudnnWeights] = {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
                      CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
                      {CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X,
                       CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW,
                       CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY},
                      CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA,
                      CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA},
    [CudnnMatmul] = {CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR,
                     CUDNN_ATTR_OPERATION_MATMUL_DESC,
                     {CUDNN_ATTR_OPERATION_MATMUL_ADESC, CUDNN_ATTR_OPERATION_MATMUL_BDESC,
                      CUDNN_ATTR_OPERATION_MATMUL_CDESC},
                     0,
                     0},
};

// The operation as a graph of one node. NULL where the library refuses it.
static Desc make_graph(Cudnn *d, const CudnnOperation *o) {
    const float one = 1, zero = 0;
    Desc about = o->kind == CudnnMatmul ? make_product(d) : make_geometry(d, o);
    Maker m = make(d, names[o->kind].type);
    set_desc(&m, names[o->kind].about, about);
    for (int i = 0; i < 3; i++)
        set_desc(&m, names[o->kind].tensor[i], make_tensor(d, &o->tensor[i], i + 1));
    if (o->kind != CudnnMatmul) {
        set(&m, names[o->kind].alpha, CUDNN_TYPE_FLOAT, 1, &one);
        set(&m, names[o->kind].beta, CUDNN_TYPE_FLOAT, 1, &zero);
    }
    Desc operation = keep(d, made(&m));
    m = make(d, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
    set_desc(&m, CUDNN_ATTR_OPERATIONGRAPH_OPS, operation);
    return keep(d, made(&m));
}

// --- engines -------------------------------------------------------------------------------------

// Engines that give other bits from run to run, or round to less than was asked for, are not used.
static bool note_allowed(const Cudnn *d, const CudnnOperation *o, cudnnBackendNumericalNote_t n) {
    switch (n) {
    case CUDNN_NUMERICAL_NOTE_TENSOR_CORE: // of f32: TF32
        return o->tensor[0].type != DtF32 || !d->no_tf32;
    case CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS:
    case CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION:
    case CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC:
        return false;
    default: // those of newer libraries, too
        return true;
    }
}

static bool engine_allowed(const Cudnn *d, const CudnnOperation *o, Desc config) {
    cudnnBackendNumericalNote_t note[CUDNN_NUMERICAL_NOTE_TYPE_COUNT];
    int64_t n = 0, one = 0;
    Desc engine = NULL;
    bool fine =
        d->api->CreateDescriptor(CUDNN_BACKEND_ENGINE_DESCRIPTOR, &engine) ==
            CUDNN_STATUS_SUCCESS &&
        d->api->GetAttribute(config, CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1,
                             &one, &engine) == CUDNN_STATUS_SUCCESS &&
        d->api->GetAttribute(engine, CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE,
                             CUDNN_NUMERICAL_NOTE_TYPE_COUNT, &n, note) == CUDNN_STATUS_SUCCESS;
    for (int64_t i = 0; fine && i < n; i++)
        fine = note_allowed(d, o, note[i]);
    if (engine)
        d->api->DestroyDescriptor(engine);
    return fine;
}

typedef struct Candidate {
    Desc plan, config; // owned
    size_t workspace;
} Candidate;

static void candidate_free(const Cudnn *d, Candidate c) {
    if (c.plan)
        d->api->DestroyDescriptor(c.plan);
    if (c.config)
        d->api->DestroyDescriptor(c.config);
}

static bool workspace_of(const Cudnn *d, Desc plan, size_t *out) {
    int64_t bytes = 0, one = 0;
    if (d->api->GetAttribute(plan, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64, 1,
                             &one, &bytes) != CUDNN_STATUS_SUCCESS ||
        bytes < 0 || bytes > WORKSPACE_MOST)
        return false;
    *out = (size_t)bytes;
    return true;
}

// Takes the config. False: its engine is not for this card, or not for us.
static bool candidate_make(const Cudnn *d, const CudnnOperation *o, Desc config, Candidate *out) {
    *out = (Candidate){.config = config};
    if (engine_allowed(d, o, config)) {
        Maker m = make(d, CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
        set_desc(&m, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, config);
        set_desc(&m, CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP, d->card);
        out->plan = made(&m);
    }
    if (out->plan && workspace_of(d, out->plan, &out->workspace))
        return true;
    candidate_free(d, *out);
    return false;
}

// Asks one kind of heuristics: at most `most` candidates, the best first.
static int ask(const Cudnn *d, const CudnnOperation *o, Desc graph, cudnnBackendHeurMode_t mode,
               Candidate *out, int most) {
    Desc config[CANDIDATES_MOST] = {NULL};
    int64_t n = 0;
    int found = 0;
    Maker m = make(d, CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
    set_desc(&m, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph);
    set(&m, CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1, &mode);
    set_desc(&m, CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, d->card);
    Desc heuristics = made(&m);
    bool fine = heuristics != NULL;
    for (int i = 0; fine && i < CANDIDATES_MOST; i++)
        fine = d->api->CreateDescriptor(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR, &config[i]) ==
               CUDNN_STATUS_SUCCESS;
    fine = fine && d->api->GetAttribute(heuristics, CUDNN_ATTR_ENGINEHEUR_RESULTS,
                                        CUDNN_TYPE_BACKEND_DESCRIPTOR, CANDIDATES_MOST, &n,
                                        config) == CUDNN_STATUS_SUCCESS;
    for (int i = 0; i < CANDIDATES_MOST; i++) {
        if (fine && i < n && found < most)
            found += candidate_make(d, o, config[i], &out[found]);
        else if (config[i])
            d->api->DestroyDescriptor(config[i]);
    }
    if (heuristics)
        d->api->DestroyDescriptor(heuristics);
    return found;
}

// --- choosing ------------------------------------------------------------------------------------

// The variant pack of a plan: which tensor lies where. NULL when refused.
static Desc make_pack(const Cudnn *d, const CUdeviceptr at[3], CUdeviceptr workspace) {
    static const int64_t uid[3] = {1, 2, 3};
    void *pointer[3], *room = (void *)(uintptr_t)workspace;
    for (int i = 0; i < 3; i++)
        pointer[i] = (void *)(uintptr_t)at[i];
    Maker m = make(d, CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
    set(&m, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, 3, uid);
    set(&m, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, 3, pointer);
    set(&m, CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1, &room);
    return made(&m);
}

// The least of a few times, in ms; negative: it does not run.
static float time_once(const Cudnn *d, Desc plan, Desc pack, CUevent from, CUevent to) {
    const Cuda *c = d->cuda;
    float least = -1;
    for (int i = 0; i < ROUNDS + 1; i++) { // the first loads kernels
        float ms = 0;
        if (c->cu->EventRecord(from, c->compute) != CUDA_SUCCESS ||
            d->api->Execute(d->handle, plan, pack) != CUDNN_STATUS_SUCCESS ||
            c->cu->EventRecord(to, c->compute) != CUDA_SUCCESS ||
            c->cu->EventSynchronize(to) != CUDA_SUCCESS ||
            c->cu->EventElapsedTime(&ms, from, to) != CUDA_SUCCESS)
            return -1;
        if (i && (least < 0 || ms < least))
            least = ms;
    }
    return least;
}

// The quickest of n candidates; what they compute meanwhile is written over by the first run.
static GanStatus quickest(const Cudnn *d, const Candidate *of, int n, const CUdeviceptr at[3],
                          int *out) {
    Cuda *c = d->cuda;
    CUevent from = NULL, to = NULL;
    CUdeviceptr workspace = 0;
    size_t bytes = 0;
    float least = -1;
    GanStatus st = GAN_OK;
    for (int i = 0; i < n; i++)
        bytes = of[i].workspace > bytes ? of[i].workspace : bytes;
    TRY_OUT(cuda_reserve(c, bytes, &workspace));
    TRY_OUT(cuda_check(c, c->cu->EventCreate(&from, CU_EVENT_DEFAULT), "making an event"));
    TRY_OUT(cuda_check(c, c->cu->EventCreate(&to, CU_EVENT_DEFAULT), "making an event"));
    for (int i = 0; i < n; i++) {
        Desc pack = make_pack(d, at, workspace);
        float ms = pack ? time_once(d, of[i].plan, pack, from, to) : -1;
        if (pack)
            d->api->DestroyDescriptor(pack);
        if (ms >= 0 && (least < 0 || ms < least)) {
            least = ms;
            *out = i;
        }
    }
    TRY_OUT(cuda_wait(c));
out:
    if (from)
        c->cu->EventDestroy(from);
    if (to)
        c->cu->EventDestroy(to);
    cuda_free(c, workspace);
    return st;
}

// Finds the operation's plan: choice->plan stays NULL where the library has none.
static GanStatus choose(Cudnn *d, Choice *choice, const CUdeviceptr at[3]) {
    const CudnnOperation *o = &choice->operation;
    Candidate of[TIMED];
    int best = 0, most = d->handle ? TIMED : 1;
    Desc graph = make_graph(d, o);
    int n = graph ? ask(d, o, graph, CUDNN_HEUR_MODE_A, of, most) : 0;
    if (graph && !n)
        n = ask(d, o, graph, CUDNN_HEUR_MODE_FALLBACK, of, most);
    GanStatus st = n > 1 ? quickest(d, of, n, at, &best) : GAN_OK;
    for (int i = 0; i < n; i++)
        if (i != best || st != GAN_OK)
            candidate_free(d, of[i]);
    if (!n || st != GAN_OK)
        return st;
    keep(d, of[best].config);
    choice->plan = keep(d, of[best].plan);
    choice->workspace = of[best].workspace;
    return GAN_OK;
}

// --- what won, on disk ---------------------------------------------------------------------------

static Str cache_file(const Cudnn *d, const CudnnOperation *o, Arena *a) {
    Text t = {.arena = a};
    text_fmt(&t, "cudnn %zu %s %d %d\n", d->api->GetVersion(), d->cuda->name, d->cuda->arch,
             d->no_tf32);
    text_put(&t, (Str){(const char *)o, sizeof *o});
    return cache_path(a, d->cuda->cache_dir, text_str(&t), ".json");
}

// What cannot be written is not kept, and that is no error.
static void plan_save(const Cudnn *d, const Choice *c, Arena scratch) {
    int64_t n = 0;
    char *text = arena_array(&scratch, char, TEXT_MOST);
    if (d->api->GetAttribute(c->plan, CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION,
                             CUDNN_TYPE_CHAR, TEXT_MOST, &n, text) == CUDNN_STATUS_SUCCESS &&
        n > 0 && n <= TEXT_MOST)
        sealed_write(&scratch, cache_file(d, &c->operation, &scratch), (Str){text, (size_t)n});
}

static bool plan_find(Cudnn *d, Choice *c, Arena scratch) {
    Str text;
    if (!cache_get(&scratch, cache_file(d, &c->operation, &scratch), &text))
        return false;
    Maker m = make(d, CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
    set(&m, CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, 1, &d->handle);
    set(&m, CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION, CUDNN_TYPE_CHAR, (int64_t)text.len,
        text.ptr);
    Desc plan = keep(d, made(&m));
    if (!plan || !workspace_of(d, plan, &c->workspace))
        return false;
    c->plan = plan;
    return true;
}

// The choice for an operation: known, kept on disk, or made now.
static GanStatus choice_of(Cudnn *d, const CudnnOperation *o, const CUdeviceptr at[3],
                           const Choice **out) {
    for (Choice *c = d->choices; c; c = c->next)
        if (!memcmp(&c->operation, o, sizeof *o)) {
            *out = c;
            return GAN_OK;
        }
    Choice *c = arena_new(&d->arena, Choice);
    memcpy(&c->operation, o, sizeof *o);
    bool keeps = d->cuda && d->cuda->cache_dir.len;
    if (!keeps || !plan_find(d, c, d->arena)) {
        TRY(choose(d, c, at));
        if (keeps && c->plan)
            plan_save(d, c, d->arena);
    }
    c->next = d->choices;
    d->choices = c;
    *out = c;
    return GAN_OK;
}

// --- calls ---------------------------------------------------------------------------------------

static bool addresses(const Plan *p, Memory m, const uint32_t node[3], CUdeviceptr at[3]) {
    bool all = true;
    for (int i = 0; i < 3; i++) {
        at[i] = cuda_pointer(memory_at(m, p, node[i]));
        all = all && at[i] != 0; // else a constant inside kernels
    }
    return all;
}

// The operation's choice, a product first in the form of a convolution.
static GanStatus prepare_choice(CudnnCalls *calls, const Plan *p, uint32_t id, Memory m,
                                CUdeviceptr at[3], const Choice **out) {
    const Graph *g = &p->func->g;
    CudnnOperation o, conv;
    uint32_t node[3], turned[3];
    bool dot = graph_node(g, id)->op == OpDot;
    bool read = dot ? cudnn_read_dot(g, id, &o, node) : cudnn_read_conv(g, id, &o, node);
    if (!read || !addresses(p, m, node, at))
        return GAN_OK;
    memcpy(turned, node, sizeof node);
    if (dot && cudnn_dot_as_conv(&o, &conv, turned)) {
        addresses(p, m, turned, at);
        TRY(choice_of(calls->dnn, &conv, at, out));
        if ((*out)->plan)
            return GAN_OK;
        addresses(p, m, node, at);
    }
    return choice_of(calls->dnn, &o, at, out);
}

static GanStatus prepare(CudnnCalls *calls, const Plan *p, uint32_t id, Memory m, CudnnCall **out) {
    CUdeviceptr at[3];
    const Choice *choice = NULL;
    TRY(prepare_choice(calls, p, id, m, at, &choice));
    if (!choice || !choice->plan)
        return GAN_OK;
    CudnnCall *call = arena_new(calls->arena, CudnnCall);
    *call = (CudnnCall){.choice = choice, .dnn = calls->dnn, .next = calls->last};
    memcpy(call->at, at, sizeof at);
    calls->last = *out = call;
    if (choice->workspace > calls->workspace)
        calls->workspace = choice->workspace;
    return GAN_OK;
}

GanStatus cudnn_prepare(CudnnCalls *calls, const Plan *p, uint32_t id, Memory m, CudnnCall **out) {
    *out = NULL;
    calls->dnn->arena.oom = calls->arena->oom;
    return prepare(calls, p, id, m, out);
}

GanStatus cudnn_bind(CudnnCalls *calls, CUdeviceptr workspace) {
    for (CudnnCall *c = calls->last; c; c = c->next) {
        c->pack = make_pack(c->dnn, c->at, workspace);
        if (!c->pack)
            return fail(GAN_ERR_DEVICE, "cuDNN refuses the addresses of a convolution or product");
    }
    return GAN_OK;
}

GanStatus cudnn_run(const CudnnCall *call) {
    const Cudnn *d = call->dnn;
    return check(d, d->api->Execute(d->handle, call->choice->plan, call->pack), "running a plan");
}

void cudnn_release(CudnnCalls *calls) {
    for (CudnnCall *c = calls->last; c; c = c->next)
        if (c->pack)
            c->dnn->api->DestroyDescriptor(c->pack);
    calls->last = NULL;
}

// --- the library ---------------------------------------------------------------------------------

static GanStatus open_handle(Cudnn *d, const Cuda *c) {
    TRY(check(d, d->api->Create(&d->handle), "opening the library"));
    TRY(check(d, d->api->SetStream(d->handle, (cudaStream_t)c->compute), "setting the stream"));
    Maker m = make(d, CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR);
    set(&m, CUDNN_ATTR_DEVICEPROP_HANDLE, CUDNN_TYPE_HANDLE, 1, &d->handle);
    d->card = made(&m);
    return d->card ? GAN_OK : check(d, m.status, "reading the card's properties");
}

GanStatus cudnn_open_for(const CudnnApi *api, Str properties, bool no_tf32, Cudnn **out) {
    *out = NULL;
    Cudnn *d = mem_alloc(sizeof *d);
    if (!d)
        return fail(GAN_ERR_MEMORY, "no memory for cuDNN");
    *d = (Cudnn){.api = api, .no_tf32 = no_tf32};
    GanStatus st = arena_init(&d->arena, (size_t)1 << 30);
    if (st == GAN_OK && properties.len) {
        Maker m = make(d, CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR);
        set(&m, CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, CUDNN_TYPE_CHAR, (int64_t)properties.len,
            properties.ptr);
        d->card = made(&m);
        st = d->card ? GAN_OK : check(d, m.status, "reading a card's properties");
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
    if (d->card)
        d->api->DestroyDescriptor(d->card);
    if (d->handle)
        d->api->Destroy(d->handle);
    arena_release(&d->arena);
    mem_free(d);
}
