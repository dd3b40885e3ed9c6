// record_dnn.c - the mock cuDNN: descriptors that store their attributes, heuristics that always
// find engines, plans that report what they would read and write.
//
// The first engine offered must not be chosen: it is not deterministic. The last one, the fastest,
// requires more workspace than any device has, or what a test sets. Epilogues with leaky relu, and
// all of input gradients, need runtime compilation; tanh is rejected.
//
// A plan read back from its JSON reports no workspace, as in the real library, whose JSON omits
// it. The JSON is as long as that of an engine compiled for a graph, which contains machine code
// (up to 96 KB in cuDNN 9.19): it is returned whole or not at all, and a query for no characters
// returns its length.
//
// Complaints: attributes of another type or count than documented (the table below), and objects
// created for a device description although there is a handle; a handle destroyed before a graph or
// plan made with it.
#include "record.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum {
    AXES = 8,
    WORKSPACE = 1000,
    ENGINES = 4,
    GREEDY = ENGINES - 1,
    ALIGNED = 16,
    JSON_LENGTH = 100000
};

typedef struct Tensor {
    cudnnDataType_t type;
    int64_t n, dim[AXES], stride[AXES], uid;
    bool nowhere; // between two nodes of a graph
} Tensor;

typedef struct Operation {   // plain bytes: what a plan's "JSON" holds
    Tensor tensor[4];        // of a convolution or product, and the bias added to it
    int tensors, result;     // their number; the index of the one written
    cudnnPointwiseMode_t is; // of a pointwise operation; of a graph, its last one
    bool sloped;             // leaky
    int64_t engine;          // chosen for it
} Operation;

typedef struct Handle {
    uint32_t made; // graphs and plans that name it
} Handle;

typedef struct Descriptor {
    cudnnBackendDescriptorType_t type;
    bool final;
    Handle *handle;   // that it names; NULL: none
    bool described;   // has a device description
    bool ran, loaded; // a plan: executed outside a capture; its code takes memory
    bool read;        // a plan: read from its JSON
    Tensor tensor;
    Operation operation; // of an operation and of all objects derived from it
    void *pointer[4], *workspace;
    int64_t uid[4], pointers;
} Descriptor;

static uint32_t live;
static uint32_t handles;
static CUstream stream;
static size_t greed;                     // workspace of the fastest engine
static bool slow, slow_epilogues, fused; // all engines are, or those that have one; the last that
                                         // ran has one
static uint64_t queries;

uint32_t record_dnn_live(void) {
    return live;
}

void record_dnn_begin(void) {
    live = 0;
    handles = 0;
    stream = NULL;
    greed = (size_t)1 << 60;
    slow = slow_epilogues = fused = false;
    queries = 0;
}

uint64_t record_dnn_queries(void) {
    return queries;
}

void record_dnn_greed(size_t bytes) {
    greed = bytes;
}

void record_dnn_slow_epilogues(void) {
    slow_epilogues = true;
}

void record_dnn_slow(void) {
    slow = true;
}

float record_dnn_delay(void) {
    return slow || (slow_epilogues && fused) ? 1 : 0;
}

static size_t workspace_of(const Operation *o) {
    return o->engine == GREEDY ? greed : (size_t)(WORKSPACE * o->engine);
}

#define CALL()                                                                                     \
    do {                                                                                           \
        if (record_call() != CUDA_SUCCESS)                                                         \
            return CUDNN_STATUS_INTERNAL_ERROR;                                                    \
    } while (0)

static size_t version(void) {
    return 91900;
}

static const char *error_string(cudnnStatus_t code) {
    (void)code;
    return "CUDNN_STATUS_INTERNAL_ERROR";
}

static void last_error(char *out, size_t n) {
    snprintf(out, n, "a recorded error");
}

static cudnnStatus_t create(cudnnHandle_t *out) {
    CALL();
    if (record_mishap() == MishapNoHandle)
        return CUDNN_STATUS_NOT_INITIALIZED;
    *out = calloc(1, sizeof(Handle));
    handles++;
    live++;
    return CUDNN_STATUS_SUCCESS;
}

static cudnnStatus_t destroy(cudnnHandle_t h) {
    if (((const Handle *)h)->made)
        complain("cuDNN: a handle is destroyed before what was made with it");
    else
        free(h);
    handles--;
    live--;
    CALL();
    return CUDNN_STATUS_SUCCESS;
}

static cudnnStatus_t set_stream(cudnnHandle_t h, cudaStream_t s) {
    (void)h;
    CALL();
    stream = (CUstream)s;
    return CUDNN_STATUS_SUCCESS;
}

// --- descriptors ---------------------------------------------------------------------------------

static cudnnStatus_t descriptor_new(cudnnBackendDescriptorType_t type,
                                    cudnnBackendDescriptor_t *out) {
    CALL();
    Descriptor *d = calloc(1, sizeof *d);
    d->type = type;
    *out = d;
    live++;
    return CUDNN_STATUS_SUCCESS;
}

static cudnnStatus_t descriptor_free(cudnnBackendDescriptor_t desc) {
    const Descriptor *d = desc;
    if (d->loaded)
        record_gives(RECORD_ENGINE);
    if (d->handle)
        d->handle->made--;
    free(desc);
    live--;
    CALL();
    return CUDNN_STATUS_SUCCESS;
}

static cudnnStatus_t finalize(cudnnBackendDescriptor_t desc) {
    Descriptor *d = desc;
    CALL();
    if (d->final)
        complain("cuDNN: a descriptor is finalized twice");
    in_capture("cudnnBackendFinalize");
    bool of_card = d->type == CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR ||
                   d->type == CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR;
    if (handles && (d->described || (of_card && !d->handle)))
        complain("cuDNN: a graph or plan for the card that is here does not name its handle");
    d->final = true;
    return CUDNN_STATUS_SUCCESS;
}

// Which tensor of its operation an attribute names; -1: none.
static int tensor_of(cudnnBackendAttributeName_t name) {
    switch (name) {
    case CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X:
    case CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX:
    case CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X:
    case CUDNN_ATTR_OPERATION_MATMUL_ADESC:
    case CUDNN_ATTR_OPERATION_POINTWISE_XDESC:
        return 0;
    case CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W:
    case CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W:
    case CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW:
    case CUDNN_ATTR_OPERATION_MATMUL_BDESC:
    case CUDNN_ATTR_OPERATION_POINTWISE_BDESC:
        return 1;
    case CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y:
    case CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY:
    case CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY:
    case CUDNN_ATTR_OPERATION_MATMUL_CDESC:
    case CUDNN_ATTR_OPERATION_POINTWISE_YDESC:
        return 2;
    default:
        return -1;
    }
}

static int result_of(cudnnBackendDescriptorType_t type) {
    return type == CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR     ? 0
           : type == CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR ? 1
                                                                                    : 2;
}

// Appends a node to a graph: it reads the result of the previous one, which is not stored.
static void link_node(Operation *graph, const Operation *node, bool first) {
    if (first) {
        *graph = *node;
        graph->tensors = 3;
        return;
    }
    Tensor *made = &graph->tensor[graph->result];
    if (!made->nowhere || node->tensor[0].uid != made->uid)
        complain("cuDNN: a node does not go on from the one before");
    if (node->tensor[1].n) {
        graph->tensor[3] = node->tensor[1];
        graph->tensors = 4;
    }
    *made = node->tensor[2];
    graph->is = node->is;
    graph->sloped = node->sloped;
}

static void link_to(Descriptor *d, cudnnBackendAttributeName_t name, const Descriptor *other,
                    bool first) {
    if (!other->final)
        complain("cuDNN: a descriptor is used before it is finalized");
    int i = tensor_of(name);
    if (i >= 0) {
        d->operation.tensor[i] = other->tensor;
        d->operation.result = result_of(d->type);
    } else if (name == CUDNN_ATTR_OPERATIONGRAPH_OPS) {
        link_node(&d->operation, &other->operation, first);
    } else if (name == CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR) {
        d->operation.is = other->operation.is;
        d->operation.sloped = other->operation.sloped;
    } else if (name == CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH ||
               name == CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG) {
        d->operation = other->operation;
    }
}

static bool has_epilogue(const Operation *o) {
    return o->is || o->tensors > 3;
}

// Attributes that are set: their type, and how many there are at most.
static const struct {
    cudnnBackendAttributeName_t name;
    cudnnBackendAttributeType_t type;
    int64_t most;
} attributes[] = {
    {CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, 1},
    {CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, AXES},
    {CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, AXES},
    {CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, 1},
    {CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, 1},
    {CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, 1},
    {CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, CUDNN_TYPE_INT64, 1},
    {CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1},
    {CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE, 1},
    {CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, CUDNN_TYPE_INT64, 3},
    {CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, CUDNN_TYPE_INT64, 3},
    {CUDNN_ATTR_CONVOLUTION_DILATIONS, CUDNN_TYPE_INT64, 3},
    {CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, CUDNN_TYPE_INT64, 3},
    {CUDNN_ATTR_MATMUL_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1},
    {CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA, CUDNN_TYPE_FLOAT, 1},
    {CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA, CUDNN_TYPE_FLOAT, 1},
    {CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA, CUDNN_TYPE_FLOAT, 1},
    {CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA, CUDNN_TYPE_FLOAT, 1},
    {CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA, CUDNN_TYPE_FLOAT, 1},
    {CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA, CUDNN_TYPE_FLOAT, 1},
    {CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, 1},
    {CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE, 1},
    {CUDNN_ATTR_POINTWISE_RELU_LOWER_CLIP_SLOPE, CUDNN_TYPE_DOUBLE, 1},
    {CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, 1},
    {CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR, 3},
    {CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1},
    {CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, 1},
    {CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION, CUDNN_TYPE_CHAR, INT64_MAX},
    {CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, 4},
    {CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, 4},
    {CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1},
};

static void check_attribute(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
                            int64_t n) {
    for (size_t i = 0; i < sizeof attributes / sizeof *attributes; i++)
        if (attributes[i].name == name && attributes[i].type == type && n >= 1 &&
            n <= attributes[i].most)
            return;
    if (type != CUDNN_TYPE_BACKEND_DESCRIPTOR || n != 1)
        complain("cuDNN: attribute %d is not %lld of type %d", (int)name, (long long)n, (int)type);
}

// The alignment that descriptors state (ALIGNED) and engines rely on.
static void check_pointers(const void *value, int64_t n) {
    for (int64_t i = 0; i < n; i++)
        if ((uintptr_t)((void *const *)value)[i] % ALIGNED)
            complain("cuDNN: an address that is no multiple of %d", ALIGNED);
}

static void name_handle(Descriptor *d, Handle *h) {
    d->handle = h;
    h->made++;
}

static cudnnStatus_t set(cudnnBackendDescriptor_t desc, cudnnBackendAttributeName_t name,
                         cudnnBackendAttributeType_t type, int64_t n, const void *value) {
    Descriptor *d = desc;
    CALL();
    if (d->final)
        complain("cuDNN: a finalized descriptor is changed");
    check_attribute(name, type, n);
    if (type == CUDNN_TYPE_VOID_PTR)
        check_pointers(value, n);
    if (name == CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT && *(const int64_t *)value > ALIGNED)
        complain("cuDNN: more alignment is promised than is looked for");
    d->described |=
        name == CUDNN_ATTR_ENGINEHEUR_DEVICEPROP || name == CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP;
    if (type == CUDNN_TYPE_HANDLE)
        name_handle(d, *(Handle *const *)value);
    else if (type == CUDNN_TYPE_BACKEND_DESCRIPTOR)
        for (int64_t i = 0; i < n; i++)
            link_to(d, name, ((const cudnnBackendDescriptor_t *)value)[i], i == 0);
    else if (name == CUDNN_ATTR_POINTWISE_MODE)
        memcpy(&d->operation.is, value, sizeof d->operation.is);
    else if (name == CUDNN_ATTR_POINTWISE_RELU_LOWER_CLIP_SLOPE)
        d->operation.sloped = true;
    else if (name == CUDNN_ATTR_TENSOR_IS_VIRTUAL)
        memcpy(&d->tensor.nowhere, value, sizeof d->tensor.nowhere);
    else if (name == CUDNN_ATTR_TENSOR_DATA_TYPE)
        memcpy(&d->tensor.type, value, sizeof d->tensor.type);
    else if (name == CUDNN_ATTR_TENSOR_DIMENSIONS)
        memcpy(d->tensor.dim, value, (size_t)(d->tensor.n = n) * sizeof(int64_t));
    else if (name == CUDNN_ATTR_TENSOR_STRIDES)
        memcpy(d->tensor.stride, value, (size_t)n * sizeof(int64_t));
    else if (name == CUDNN_ATTR_TENSOR_UNIQUE_ID)
        memcpy(&d->tensor.uid, value, sizeof(int64_t));
    else if (name == CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS)
        memcpy(d->uid, value, (size_t)n * sizeof(int64_t));
    else if (name == CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS)
        memcpy(d->pointer, value, (size_t)(d->pointers = n) * sizeof(void *));
    else if (name == CUDNN_ATTR_VARIANT_PACK_WORKSPACE)
        memcpy(&d->workspace, value, sizeof(void *));
    else if (name == CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION) {
        memcpy(&d->operation, value, sizeof d->operation);
        d->read = true;
    }
    return CUDNN_STATUS_SUCCESS;
}

// A library with more notes than the caller's array holds: it reports their number and writes what
// fits.
static void give_notes(int64_t room, int64_t *n, cudnnBackendNumericalNote_t first, void *out) {
    cudnnBackendNumericalNote_t *note = out;
    *n = CUDNN_NUMERICAL_NOTE_TYPE_COUNT + 1;
    for (int64_t i = 0; i < room && i < *n; i++)
        note[i] = i ? CUDNN_NUMERICAL_NOTE_STRICT_NAN_PROP : first;
}

static cudnnStatus_t give_json(const Operation *o, int64_t room, int64_t *n, char *out) {
    *n = JSON_LENGTH;
    if (!room)
        return CUDNN_STATUS_SUCCESS;
    if (room < JSON_LENGTH)
        return CUDNN_STATUS_BAD_PARAM_SIZE_INSUFFICIENT;
    memset(out, ' ', JSON_LENGTH);
    memcpy(out, o, sizeof *o);
    return CUDNN_STATUS_SUCCESS;
}

static cudnnStatus_t get(const cudnnBackendDescriptor_t desc, cudnnBackendAttributeName_t name,
                         cudnnBackendAttributeType_t type, int64_t room, int64_t *n, void *out) {
    const Descriptor *d = desc;
    (void)type;
    CALL();
    *n = 1;
    if (name == CUDNN_ATTR_ENGINEHEUR_RESULTS) {
        bool refused = d->operation.is == CUDNN_POINTWISE_TANH_FWD;
        queries++;
        const int64_t engines = record_mishap() == MishapOneEngine ? 2 : ENGINES;
        *n = refused ? 0 : room < engines ? room : engines;
        for (int64_t i = 0; i < *n; i++) {
            Descriptor *config = ((cudnnBackendDescriptor_t *)out)[i];
            config->operation = d->operation;
            config->operation.engine = i;
            config->final = true;
        }
    } else if (name == CUDNN_ATTR_ENGINECFG_ENGINE) {
        (*(Descriptor **)out)->operation = d->operation;
    } else if (name == CUDNN_ATTR_ENGINE_NUMERICAL_NOTE) {
        give_notes(room, n,
                   d->operation.engine ? CUDNN_NUMERICAL_NOTE_TENSOR_CORE
                                       : CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC,
                   out);
    } else if (name == CUDNN_ATTR_ENGINE_GLOBAL_INDEX) {
        *(int64_t *)out = d->operation.engine;
    } else if (name == CUDNN_ATTR_ENGINE_BEHAVIOR_NOTE) {
        bool of_gradient = d->operation.result == 0 && has_epilogue(&d->operation);
        *n = d->operation.sloped || of_gradient;
        *(cudnnBackendBehaviorNote_t *)out = CUDNN_BEHAVIOR_NOTE_RUNTIME_COMPILATION;
    } else if (name == CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE) {
        *(int64_t *)out = d->read ? 0 : (int64_t)workspace_of(&d->operation);
    } else if (name == CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION) {
        return give_json(&d->operation, room, n, out);
    }
    return CUDNN_STATUS_SUCCESS;
}

// --- running -------------------------------------------------------------------------------------

static size_t bytes_of(const Tensor *t) {
    int64_t last = 0;
    for (int64_t i = 0; i < t->n; i++)
        last += (t->dim[i] - 1) * t->stride[i];
    return (size_t)(last + 1) * (t->type == CUDNN_DATA_FLOAT ? 4 : 2);
}

static cudnnStatus_t execute(cudnnHandle_t h, cudnnBackendDescriptor_t plan,
                             cudnnBackendDescriptor_t pack) {
    Descriptor *p = plan;
    const Descriptor *v = pack;
    Work w = {.kind = WorkLibrary,
              .name = has_epilogue(&p->operation) ? "cuDNN and epilogue" : "cuDNN"};
    (void)h;
    CALL();
    if ((record_mishap() == MishapEngine && p->operation.engine == 2) ||
        record_mishap() == MishapOneEngine)
        return CUDNN_STATUS_EXECUTION_FAILED;
    fused = has_epilogue(&p->operation);
    if (!p->ran)
        p->ran = !in_capture("the first run of a cuDNN plan");
    if (!p->loaded && !record_takes(RECORD_ENGINE))
        return CUDNN_STATUS_EXECUTION_FAILED;
    p->loaded = true;
    if (!p->operation.engine)
        complain("cuDNN: an engine is used that is not reproducible");
    for (int i = 0; i < p->operation.tensors; i++)
        for (int64_t k = 0; k < v->pointers; k++)
            if (v->uid[k] == p->operation.tensor[i].uid)
                vec_push(record_arena(), &w.access,
                         ((Access){cuda_pointer(v->pointer[k]), bytes_of(&p->operation.tensor[i]),
                                   i == p->operation.result}));
    if (p->operation.tensor[p->operation.result].nowhere)
        complain("cuDNN: a graph's result is nowhere");
    if (w.access.n != (uint32_t)p->operation.tensors)
        complain("cuDNN: a plan is run without all of its tensors");
    if (p->operation.engine)
        vec_push(record_arena(), &w.access,
                 ((Access){cuda_pointer(v->workspace), workspace_of(&p->operation), true}));
    if (p->operation.engine && p->operation.result == 1) // a weight gradient: sums in workspace
        record_fill(stream, cuda_pointer(v->workspace), workspace_of(&p->operation));
    record_work(stream, w);
    return CUDNN_STATUS_SUCCESS;
}

// --- the table -----------------------------------------------------------------------------------

// Threads with handles of their own may call at the same time.
static pthread_mutex_t calls = PTHREAD_MUTEX_INITIALIZER;

#define ONE_AT_A_TIME(name, parameters, arguments)                                                 \
    static cudnnStatus_t one_##name parameters {                                                   \
        pthread_mutex_lock(&calls);                                                                \
        cudnnStatus_t status = name arguments;                                                     \
        pthread_mutex_unlock(&calls);                                                              \
        return status;                                                                             \
    }
ONE_AT_A_TIME(create, (cudnnHandle_t * out), (out))
ONE_AT_A_TIME(destroy, (cudnnHandle_t h), (h))
ONE_AT_A_TIME(set_stream, (cudnnHandle_t h, cudaStream_t s), (h, s))
ONE_AT_A_TIME(descriptor_new, (cudnnBackendDescriptorType_t type, cudnnBackendDescriptor_t *out),
              (type, out))
ONE_AT_A_TIME(descriptor_free, (cudnnBackendDescriptor_t desc), (desc))
ONE_AT_A_TIME(finalize, (cudnnBackendDescriptor_t desc), (desc))
ONE_AT_A_TIME(set,
              (cudnnBackendDescriptor_t desc, cudnnBackendAttributeName_t name,
               cudnnBackendAttributeType_t type, int64_t n, const void *value),
              (desc, name, type, n, value))
ONE_AT_A_TIME(get,
              (const cudnnBackendDescriptor_t desc, cudnnBackendAttributeName_t name,
               cudnnBackendAttributeType_t type, int64_t room, int64_t *n, void *out),
              (desc, name, type, room, n, out))
ONE_AT_A_TIME(execute,
              (cudnnHandle_t h, cudnnBackendDescriptor_t plan, cudnnBackendDescriptor_t pack),
              (h, plan, pack))

const CudnnApi record_dnn_api = {
    .GetVersion = version,
    .GetErrorString = error_string,
    .GetLastErrorString = last_error,
    .Create = one_create,
    .Destroy = one_destroy,
    .SetStream = one_set_stream,
    .CreateDescriptor = one_descriptor_new,
    .DestroyDescriptor = one_descriptor_free,
    .Finalize = one_finalize,
    .SetAttribute = one_set,
    .GetAttribute = one_get,
    .Execute = one_execute,
};
