// cuda_dnn_engine.c - an operation as cuDNN's descriptors, and the engines its heuristics propose.
//
// In: a CudnnOperation and a card. Out: execution plans, the best first. Engines that are
// nondeterministic, less precise than required, or need more workspace than available are skipped.
#include "cuda_dnn.h"

enum {
    CANDIDATES_MOST = 64, // requested of the heuristics
    NOTES_MOST = 32,      // of an engine: a library newer than the header may report more
};

// --- descriptors ---------------------------------------------------------------------------------

// The library does not do this, and will not the next time either. The exceptions concern what is
// installed beside it.
static bool is_refusal(cudnnStatus_t code) {
    switch (code) {
    case CUDNN_STATUS_NOT_SUPPORTED_INCOMPATIBLE_CUDA_DRIVER:
    case CUDNN_STATUS_NOT_SUPPORTED_INCOMPATIBLE_CUDART:
    case CUDNN_STATUS_NOT_SUPPORTED_RUNTIME_PREREQUISITE_MISSING:
    case CUDNN_STATUS_NOT_SUPPORTED_SUBLIBRARY_UNAVAILABLE:
        return false;
    default:
        return CUDNN_STATUS_CATEGORY((int)code) == CUDNN_STATUS_BAD_PARAM ||
               CUDNN_STATUS_CATEGORY((int)code) == CUDNN_STATUS_NOT_SUPPORTED;
    }
}

static bool worked(Cudnn *d, cudnnStatus_t code) {
    d->troubled |= code != CUDNN_STATUS_SUCCESS && !is_refusal(code);
    return code == CUDNN_STATUS_SUCCESS;
}

CudnnBuilder cudnn_desc_begin(Cudnn *d, cudnnBackendDescriptorType_t type) {
    CudnnBuilder m = {.d = d};
    m.status = d->api->CreateDescriptor(type, &m.desc);
    return m;
}

void cudnn_desc_set(CudnnBuilder *m, cudnnBackendAttributeName_t name,
                    cudnnBackendAttributeType_t type, int64_t n, const void *value) {
    if (m->status == CUDNN_STATUS_SUCCESS)
        m->status = m->d->api->SetAttribute(m->desc, name, type, n, value);
}

// A descriptor that contains one that failed (NULL) fails too.
static void set_desc(CudnnBuilder *m, cudnnBackendAttributeName_t name, CudnnDesc value) {
    if (value)
        cudnn_desc_set(m, name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &value);
    else if (m->status == CUDNN_STATUS_SUCCESS)
        m->status = CUDNN_STATUS_NOT_SUPPORTED;
}

// A present card is given by the handle. Only an absent one is described by its properties, which
// needs cuDNN 9.8.
static void set_handle(CudnnBuilder *m, cudnnBackendAttributeName_t name) {
    if (m->d->handle)
        cudnn_desc_set(m, name, CUDNN_TYPE_HANDLE, 1, &m->d->handle);
}

static void set_described(CudnnBuilder *m, cudnnBackendAttributeName_t name) {
    if (!m->d->handle)
        set_desc(m, name, m->d->card);
}

void cudnn_desc_set_device(CudnnBuilder *m) {
    set_handle(m, CUDNN_ATTR_EXECUTION_PLAN_HANDLE);
    set_described(m, CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP);
}

CudnnDesc cudnn_desc_finalize(CudnnBuilder *m) {
    if (m->status == CUDNN_STATUS_SUCCESS)
        m->status = m->d->api->Finalize(m->desc);
    if (worked(m->d, m->status))
        return m->desc;
    if (m->desc)
        m->d->api->DestroyDescriptor(m->desc);
    return NULL;
}

CudnnDesc cudnn_own(Cudnn *d, CudnnDesc desc) {
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

// Unique ids of a graph's tensors: 1 to 3 an operation's own, 4 the bias, then virtual tensors,
// which pass from node to node without being in memory.
enum { UidBias = CUDNN_PARTS, UidVirtual };

static CudnnDesc make_tensor(Cudnn *d, const CudnnTensor *t, int64_t uid) {
    const int64_t alignment = 16;
    const bool is_virtual = uid >= UidVirtual;
    cudnnDataType_t type;
    if (!data_type(t->type, &type))
        return NULL;
    CudnnBuilder m = cudnn_desc_begin(d, CUDNN_BACKEND_TENSOR_DESCRIPTOR);
    cudnn_desc_set(&m, CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &type);
    cudnn_desc_set(&m, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, t->n, t->dim);
    cudnn_desc_set(&m, CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, t->n, t->stride);
    cudnn_desc_set(&m, CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, 1, &uid);
    cudnn_desc_set(&m, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, 1, &alignment);
    if (is_virtual)
        cudnn_desc_set(&m, CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, 1, &is_virtual);
    return cudnn_own(d, cudnn_desc_finalize(&m));
}

static CudnnDesc make_convolution(Cudnn *d, const CudnnOperation *o) {
    const int64_t n = o->space;
    const cudnnDataType_t type = CUDNN_DATA_FLOAT;
    const cudnnConvolutionMode_t mode = CUDNN_CROSS_CORRELATION;
    CudnnBuilder m = cudnn_desc_begin(d, CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
    cudnn_desc_set(&m, CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, CUDNN_TYPE_INT64, 1, &n);
    cudnn_desc_set(&m, CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &type);
    cudnn_desc_set(&m, CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE, 1, &mode);
    cudnn_desc_set(&m, CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, CUDNN_TYPE_INT64, n, o->before);
    cudnn_desc_set(&m, CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, CUDNN_TYPE_INT64, n, o->after);
    cudnn_desc_set(&m, CUDNN_ATTR_CONVOLUTION_DILATIONS, CUDNN_TYPE_INT64, n, o->dilation);
    cudnn_desc_set(&m, CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, CUDNN_TYPE_INT64, n, o->stride);
    return cudnn_own(d, cudnn_desc_finalize(&m));
}

static CudnnDesc make_product(Cudnn *d) {
    const cudnnDataType_t type = CUDNN_DATA_FLOAT;
    CudnnBuilder m = cudnn_desc_begin(d, CUDNN_BACKEND_MATMUL_DESCRIPTOR);
    cudnn_desc_set(&m, CUDNN_ATTR_MATMUL_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &type);
    return cudnn_own(d, cudnn_desc_finalize(&m));
}

// Descriptor types and attributes of each kind of operation.
static const struct {
    cudnnBackendDescriptorType_t type;
    cudnnBackendAttributeName_t descriptor, tensor[3], alpha, beta; // the last two of a convolution
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

// The convolution or product, its result `y`.
static CudnnDesc make_operation(Cudnn *d, const CudnnOperation *o, CudnnDesc y) {
    const float one = 1, zero = 0;
    CudnnDesc descriptor = o->kind == CudnnMatmul ? make_product(d) : make_convolution(d, o);
    CudnnBuilder m = cudnn_desc_begin(d, names[o->kind].type);
    set_desc(&m, names[o->kind].descriptor, descriptor);
    for (int i = 0; i < 3; i++)
        set_desc(&m, names[o->kind].tensor[i],
                 i == cudnn_output_index(o->kind) ? y : make_tensor(d, &o->tensor[i], i + 1));
    if (o->kind != CudnnMatmul) {
        cudnn_desc_set(&m, names[o->kind].alpha, CUDNN_TYPE_FLOAT, 1, &one);
        cudnn_desc_set(&m, names[o->kind].beta, CUDNN_TYPE_FLOAT, 1, &zero);
    }
    return cudnn_own(d, cudnn_desc_finalize(&m));
}

static const cudnnPointwiseMode_t act_mode[] = {[ActRelu] = CUDNN_POINTWISE_RELU_FWD,
                                                [ActLeaky] = CUDNN_POINTWISE_RELU_FWD,
                                                [ActTanh] = CUDNN_POINTWISE_TANH_FWD};

// y = x + b, or the activation of x where b is NULL.
static CudnnDesc make_pointwise(Cudnn *d, const CudnnEpilogue *e, CudnnDesc x, CudnnDesc b,
                                CudnnDesc y) {
    const cudnnDataType_t type = CUDNN_DATA_FLOAT;
    const cudnnPointwiseMode_t mode = b ? CUDNN_POINTWISE_ADD : act_mode[e->act];
    const double slope = (double)e->slope;
    CudnnBuilder m = cudnn_desc_begin(d, CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
    cudnn_desc_set(&m, CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, 1, &mode);
    cudnn_desc_set(&m, CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE, 1, &type);
    if (!b && e->act == ActLeaky)
        cudnn_desc_set(&m, CUDNN_ATTR_POINTWISE_RELU_LOWER_CLIP_SLOPE, CUDNN_TYPE_DOUBLE, 1,
                       &slope);
    CudnnDesc descriptor = cudnn_own(d, cudnn_desc_finalize(&m));
    m = cudnn_desc_begin(d, CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
    set_desc(&m, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, descriptor);
    set_desc(&m, CUDNN_ATTR_OPERATION_POINTWISE_XDESC, x);
    if (b)
        set_desc(&m, CUDNN_ATTR_OPERATION_POINTWISE_BDESC, b);
    set_desc(&m, CUDNN_ATTR_OPERATION_POINTWISE_YDESC, y);
    return cudnn_own(d, cudnn_desc_finalize(&m));
}

// One number for each channel of the output.
static CudnnTensor bias_of(const CudnnOperation *o) {
    const CudnnTensor *y = cudnn_output(o);
    CudnnTensor b = {.n = y->n, .type = o->epilogue.bias};
    for (int i = 0; i < b.n; i++) {
        b.dim[i] = i == 1 ? y->dim[1] : 1;
        b.stride[i] = i == 1 ? 1 : y->dim[1];
    }
    return b;
}

// A virtual tensor, the output of one node and the input of the next. It is computed in f32.
static CudnnDesc make_virtual(Cudnn *d, const CudnnOperation *o, int64_t uid) {
    CudnnTensor t = *cudnn_output(o);
    t.type = DtF32;
    return make_tensor(d, &t, uid);
}

CudnnDesc cudnn_operation_graph(Cudnn *d, const CudnnOperation *o) {
    const CudnnEpilogue *e = &o->epilogue;
    CudnnDesc node[3], y = make_tensor(d, cudnn_output(o), cudnn_output_index(o->kind) + 1);
    int64_t n = 0, uid = UidVirtual;
    CudnnDesc x = cudnn_has_epilogue(o) ? make_virtual(d, o, uid++) : y;
    node[n++] = make_operation(d, o, x);
    if (e->biased) {
        CudnnTensor bias = bias_of(o);
        CudnnDesc sum = e->act != ActNone ? make_virtual(d, o, uid++) : y;
        node[n++] = make_pointwise(d, e, x, make_tensor(d, &bias, UidBias), sum);
        x = sum;
    }
    if (e->act != ActNone)
        node[n++] = make_pointwise(d, e, x, NULL, y);
    for (int64_t i = 0; i < n; i++)
        if (!node[i])
            return NULL;
    CudnnBuilder m = cudnn_desc_begin(d, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
    cudnn_desc_set(&m, CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR, n, node);
    set_handle(&m, CUDNN_ATTR_OPERATIONGRAPH_HANDLE);
    return cudnn_own(d, cudnn_desc_finalize(&m));
}

GanStatus cudnn_pack(Cudnn *d, const CudnnOperation *o, const CUdeviceptr *at,
                     CUdeviceptr workspace, CudnnDesc *out) {
    static const int64_t uid[CUDNN_PARTS] = {1, 2, 3, 4};
    const int n = cudnn_parts(o);
    void *pointer[CUDNN_PARTS], *room = (void *)(uintptr_t)workspace;
    for (int i = 0; i < n; i++)
        pointer[i] = (void *)(uintptr_t)at[i];
    CudnnBuilder m = cudnn_desc_begin(d, CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
    cudnn_desc_set(&m, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, n, uid);
    cudnn_desc_set(&m, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, n, pointer);
    cudnn_desc_set(&m, CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1, &room);
    *out = cudnn_desc_finalize(&m);
    return cudnn_check(d, m.status, "making a variant pack");
}

// --- description ---------------------------------------------------------------------------------

typedef struct Line {
    char *at;
    size_t n;
} Line;

static void append(Line *l, const char *format, ...) {
    va_list args;
    va_start(args, format);
    int n = vsnprintf(l->at + l->n, CUDNN_DESCRIPTION - l->n, format, args);
    va_end(args);
    l->n =
        n < 0 || l->n + (size_t)n >= CUDNN_DESCRIPTION ? CUDNN_DESCRIPTION - 1 : l->n + (size_t)n;
}

static void append_list(Line *l, const char *what, const int64_t *x, int n) {
    append(l, "%s", what);
    for (int i = 0; i < n; i++)
        append(l, "%s%lld", i ? " " : "", (long long)x[i]);
}

const char *cudnn_describe(const CudnnOperation *o, char out[CUDNN_DESCRIPTION]) {
    static const char *const kind[CudnnKinds] = {"convolution", "input gradient", "weight gradient",
                                                 "product"};
    Line l = {out, 0};
    append(&l, "%s", kind[o->kind]);
    for (int i = 0; i < 3; i++) {
        const CudnnTensor *t = &o->tensor[i];
        append(&l, "%s%s [", i ? ", " : " of ", dtype_name[t->type]);
        append_list(&l, "", t->dim, t->n);
        append_list(&l, "] by ", t->stride, t->n);
    }
    if (o->space) {
        append_list(&l, "; stride ", o->stride, o->space);
        append_list(&l, ", dilation ", o->dilation, o->space);
        append_list(&l, ", pads ", o->before, o->space);
        append_list(&l, " and ", o->after, o->space);
    }
    if (o->epilogue.biased)
        append(&l, "; bias");
    if (o->epilogue.act != ActNone)
        append(&l, "; %s", act_name[o->epilogue.act]);
    return out;
}

// --- engines -------------------------------------------------------------------------------------

// Nondeterministic engines, and those of less precision than required, are not used.
static bool note_allowed(const Cudnn *d, const CudnnOperation *o, cudnnBackendNumericalNote_t n) {
    switch (n) {
    case CUDNN_NUMERICAL_NOTE_TENSOR_CORE: // of f32: TF32
    case CUDNN_NUMERICAL_NOTE_FFT:         // these round several times more than a sum does
    case CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_6x6:
    case CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_13x13:
        return o->tensor[0].type != DtF32 || !d->no_tf32;
    case CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS:
    case CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION:
    case CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC:
        return false;
    default: // those of newer libraries, too
        return true;
    }
}

static bool is_compiled(Cudnn *d, CudnnDesc engine) {
    cudnnBackendBehaviorNote_t note[NOTES_MOST];
    int64_t n = 0;
    if (!worked(d, d->api->GetAttribute(engine, CUDNN_ATTR_ENGINE_BEHAVIOR_NOTE,
                                        CUDNN_TYPE_BEHAVIOR_NOTE, NOTES_MOST, &n, note)) ||
        n > NOTES_MOST)
        return true;
    for (int64_t i = 0; i < n; i++)
        if (note[i] == CUDNN_BEHAVIOR_NOTE_RUNTIME_COMPILATION)
            return true;
    return false;
}

static bool engine_allowed(Cudnn *d, const CudnnFilter *filter, CudnnDesc config) {
    cudnnBackendNumericalNote_t note[NOTES_MOST];
    int64_t n = 0, one = 0;
    CudnnDesc engine = NULL;
    bool fine = worked(d, d->api->CreateDescriptor(CUDNN_BACKEND_ENGINE_DESCRIPTOR, &engine)) &&
                worked(d, d->api->GetAttribute(config, CUDNN_ATTR_ENGINECFG_ENGINE,
                                               CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &one, &engine)) &&
                worked(d, d->api->GetAttribute(engine, CUDNN_ATTR_ENGINE_NUMERICAL_NOTE,
                                               CUDNN_TYPE_NUMERICAL_NOTE, NOTES_MOST, &n, note)) &&
                n <= NOTES_MOST &&
                is_compiled(d, engine) == (filter->engines == CudnnRuntimeCompiled);
    for (int64_t i = 0; fine && i < n; i++)
        fine = note_allowed(d, filter->operation, note[i]);
    if (engine)
        d->api->DestroyDescriptor(engine);
    return fine;
}

int64_t cudnn_engine(const Cudnn *d, const CudnnCandidate *c) {
    int64_t one = 0, number = -1;
    CudnnDesc engine = NULL;
    if (d->api->CreateDescriptor(CUDNN_BACKEND_ENGINE_DESCRIPTOR, &engine) !=
            CUDNN_STATUS_SUCCESS ||
        d->api->GetAttribute(c->config, CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_TYPE_BACKEND_DESCRIPTOR,
                             1, &one, &engine) != CUDNN_STATUS_SUCCESS ||
        d->api->GetAttribute(engine, CUDNN_ATTR_ENGINE_GLOBAL_INDEX, CUDNN_TYPE_INT64, 1, &one,
                             &number) != CUDNN_STATUS_SUCCESS)
        number = -1;
    if (engine)
        d->api->DestroyDescriptor(engine);
    return number;
}

void cudnn_candidate_free(const Cudnn *d, CudnnCandidate c) {
    if (c.plan)
        d->api->DestroyDescriptor(c.plan);
    if (c.config)
        d->api->DestroyDescriptor(c.config);
}

bool cudnn_workspace(Cudnn *d, CudnnDesc plan, size_t *out) {
    int64_t bytes = 0, one = 0;
    if (!worked(d, d->api->GetAttribute(plan, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE,
                                        CUDNN_TYPE_INT64, 1, &one, &bytes)) ||
        bytes < 0)
        return false;
    *out = (size_t)bytes;
    return true;
}

// Takes ownership of the config. False: its engine does not support this card, or may not be used.
static bool candidate_make(Cudnn *d, const CudnnFilter *filter, CudnnDesc config,
                           CudnnCandidate *out) {
    *out = (CudnnCandidate){.config = config};
    if (engine_allowed(d, filter, config)) {
        CudnnBuilder m = cudnn_desc_begin(d, CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
        set_desc(&m, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, config);
        cudnn_desc_set_device(&m);
        out->plan = cudnn_desc_finalize(&m);
    }
    if (out->plan && cudnn_workspace(d, out->plan, &out->workspace) &&
        out->workspace <= filter->workspace)
        return true;
    cudnn_candidate_free(d, *out);
    return false;
}

int cudnn_query_heuristics(Cudnn *d, const CudnnFilter *filter, CudnnDesc graph,
                           cudnnBackendHeurMode_t mode, CudnnCandidate *out, int most) {
    CudnnDesc config[CANDIDATES_MOST] = {NULL};
    int64_t n = 0;
    int found = 0;
    CudnnBuilder m = cudnn_desc_begin(d, CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
    set_desc(&m, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph);
    cudnn_desc_set(&m, CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1, &mode);
    set_described(&m, CUDNN_ATTR_ENGINEHEUR_DEVICEPROP);
    CudnnDesc heuristics = cudnn_desc_finalize(&m);
    bool fine = heuristics != NULL;
    for (int i = 0; fine && i < CANDIDATES_MOST; i++)
        fine = worked(d, d->api->CreateDescriptor(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR, &config[i]));
    fine = fine && worked(d, d->api->GetAttribute(heuristics, CUDNN_ATTR_ENGINEHEUR_RESULTS,
                                                  CUDNN_TYPE_BACKEND_DESCRIPTOR, CANDIDATES_MOST,
                                                  &n, config));
    for (int i = 0; i < CANDIDATES_MOST; i++)
        if (fine && i < n && found < most)
            found += candidate_make(d, filter, config[i], &out[found]);
        else if (config[i])
            d->api->DestroyDescriptor(config[i]);
    if (heuristics)
        d->api->DestroyDescriptor(heuristics);
    return found;
}
