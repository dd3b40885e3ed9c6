// cuda_dnn.h - inside the cuDNN part of the cuda device: an operation as plain data.
// cuda_dnn_conv.c and cuda_dnn_dot.c make it from a graph's node, cuda_dnn_engine.c makes cuDNN's
// descriptors from it, cuda_dnn_ask.c asks for its engines, ahead and several at once,
// cuda_dnn_time.c times them, and cuda_dnn.c chooses one.
#ifndef GAN_CUDA_DNN_H
#define GAN_CUDA_DNN_H

#include "cuda_device.h"

enum { CUDNN_AXES = 5, CUDNN_SPACE = 3 };

typedef enum CudnnKind { CudnnForward, CudnnData, CudnnWeights, CudnnMatmul, CudnnKinds } CudnnKind;

typedef struct CudnnTensor {
    int n; // axes: of a convolution n, c, then 2 or 3 of space; of a product batch, rows, columns
    Dtype type;
    int64_t dim[CUDNN_AXES], stride[CUDNN_AXES]; // elements
} CudnnTensor;

// The epilogue of a convolution: act(result + bias) is stored. Zeros: none.
typedef struct CudnnEpilogue {
    int act;     // Act
    int biased;  // has a bias, the fourth tensor: one value a channel
    Dtype bias;  // its type
    float slope; // ActLeaky
} CudnnEpilogue;

// The tensors are x, w, y of a convolution, whichever of them is computed, or a, b, c of a product.
// The struct has no padding: equal operations are equal bytes, and a cache key.
typedef struct CudnnOperation {
    CudnnKind kind;
    int space; // axes of space; 0 of a product
    CudnnTensor tensor[3];
    int64_t stride[CUDNN_SPACE], dilation[CUDNN_SPACE], before[CUDNN_SPACE], after[CUDNN_SPACE];
    CudnnEpilogue epilogue;
} CudnnOperation;

static_assert(sizeof(CudnnTensor) ==
                      sizeof(int) + sizeof(Dtype) + 2 * CUDNN_AXES * sizeof(int64_t) &&
                  sizeof(CudnnOperation) ==
                      sizeof(CudnnKind) + sizeof(int) + 3 * sizeof(CudnnTensor) +
                          4 * CUDNN_SPACE * sizeof(int64_t) + sizeof(CudnnEpilogue) &&
                  sizeof(CudnnEpilogue) == 2 * sizeof(int) + sizeof(Dtype) + sizeof(float),
              "operations are compared as bytes");

// Which of the three is computed.
static inline int cudnn_output_index(CudnnKind k) {
    return k == CudnnData ? 0 : k == CudnnWeights ? 1 : 2;
}

static inline const CudnnTensor *cudnn_output(const CudnnOperation *o) {
    return &o->tensor[cudnn_output_index(o->kind)];
}

enum { CUDNN_PARTS = 4 }; // tensors of an operation in memory: the three and the bias
static inline int cudnn_parts(const CudnnOperation *o) {
    return o->epilogue.biased ? 4 : 3;
}
static inline bool cudnn_has_epilogue(const CudnnOperation *o) {
    return o->epilogue.biased || o->epilogue.act != ActNone;
}

// --- cuda_dnn_engine.c ---------------------------------------------------------------------------

typedef cudnnBackendDescriptor_t CudnnDesc;
typedef struct CudnnChoice CudnnChoice; // the engine chosen for one operation

typedef struct CudnnAsking CudnnAsking; // cuda_dnn_ask.c
enum { CUDNN_HELPERS = 6 };

struct Cudnn {
    Cuda *cuda;          // borrowed; NULL: plans are built, and cannot run
    const CudnnApi *api; // borrowed
    bool no_tf32;
    bool troubled;        // a call has failed in a way that says nothing of the operation
    cudnnHandle_t handle; // NULL without a card
    CudnnDesc card;       // device properties of an absent card; NULL where there is a handle
    Arena arena;          // choices
    CudnnChoice *choices;
    CudnnAsking *asking;                 // questions of a plan that is being loaded; NULL: none
    struct Cudnn *helper[CUDNN_HELPERS]; // owned; with handles of the threads that ask them
    VEC(CudnnDesc) owned;                // released last to first
};

// Builds a descriptor: after the first failure the remaining calls do nothing, and finalizing gives
// NULL.
typedef struct CudnnBuilder {
    Cudnn *d;
    CudnnDesc desc;
    cudnnStatus_t status;
} CudnnBuilder;
CudnnBuilder cudnn_desc_begin(Cudnn *d, cudnnBackendDescriptorType_t type);
void cudnn_desc_set(CudnnBuilder *m, cudnnBackendAttributeName_t name,
                    cudnnBackendAttributeType_t type, int64_t n, const void *value);
void cudnn_desc_set_device(CudnnBuilder *m); // of an execution plan
CudnnDesc cudnn_desc_finalize(CudnnBuilder *m);
CudnnDesc cudnn_own(Cudnn *d, CudnnDesc desc);               // d owns it from here on
bool cudnn_workspace(Cudnn *d, CudnnDesc plan, size_t *out); // false: not known

typedef struct CudnnCandidate {
    CudnnDesc plan, config; // owned
    size_t workspace;
} CudnnCandidate;
// The operation and its epilogue as a graph, owned by d. NULL where the library refuses it.
CudnnDesc cudnn_operation_graph(Cudnn *d, const CudnnOperation *o);
// The variant pack of a plan: the addresses of its tensors.
GanStatus cudnn_pack(Cudnn *d, const CudnnOperation *o, const CUdeviceptr *at,
                     CUdeviceptr workspace, CudnnDesc *out);
typedef enum CudnnEngineKind {
    CudnnPrecompiled,     // its kernels are part of the library
    CudnnRuntimeCompiled, // runtime fusion: compiled for the graph, half a second each
} CudnnEngineKind;
// The engines that a query accepts.
typedef struct CudnnFilter {
    const CudnnOperation *operation;
    CudnnEngineKind engines;
    size_t workspace; // at most, bytes
} CudnnFilter;
enum { CUDNN_DESCRIPTION = 480 };
// "input gradient, f32 [32, 64, 16, 16] [128, 64, 4, 4] [32, 128, 8, 8], stride 2 2, ...": enough
// to reproduce the query.
const char *cudnn_describe(const CudnnOperation *o, char out[CUDNN_DESCRIPTION]);
int64_t cudnn_engine(const Cudnn *d, const CudnnCandidate *c); // its global index, or -1
// Queries the engine heuristics in one mode. Returns the number of candidates, at most `most`, the
// best first.
int cudnn_query_heuristics(Cudnn *d, const CudnnFilter *filter, CudnnDesc graph,
                           cudnnBackendHeurMode_t mode, CudnnCandidate *out, int most);
void cudnn_candidate_free(const Cudnn *d, CudnnCandidate c);

// --- cuda_dnn_ask.c ------------------------------------------------------------------------------

// Candidates timed on the card. Of 99 operations on an H200 the fastest of 8 take 0.8 % longer than
// those of 12, and these 0.3 % longer than those of all, 36 at most.
enum { CUDNN_TIMED = 12 };
typedef struct CudnnQuery {
    CudnnOperation operation;
    size_t room;         // bytes of workspace: engines that need more are not found
    bool rank_invariant; // every rank must choose the same: the first engine is found alone
} CudnnQuery;
// The candidates for an operation; their number, 0: there is none, or d->troubled. Questions that
// threads have begun are waited for.
int cudnn_ask(Cudnn *d, const CudnnQuery *query, CudnnCandidate of[CUDNN_TIMED]);
// Is it worth asking ahead? Then queries are collected, asked by threads from begin to end, and
// cudnn_ask() answers them in between.
bool cudnn_asks_ahead(const Cudnn *d); // accepts NULL
void cudnn_ask_later(Cudnn *d, const CudnnQuery *query);
void cudnn_ask_begin(Cudnn *d);
void cudnn_ask_end(Cudnn *d); // also where none was collected

// --- cuda_dnn_time.c -----------------------------------------------------------------------------

// Milliseconds that a plan takes with these addresses: it runs several times. An error where it
// does not run.
GanStatus cudnn_time(Cudnn *d, const CudnnOperation *o, CudnnDesc plan, const CUdeviceptr *at,
                     CUdeviceptr workspace, float *ms);

// --- cuda_dnn.c, cuda_dnn_conv.c, cuda_dnn_dot.c -------------------------------------------------

// GAN_OK, or an error: "cuDNN: WHAT failed: " and the library's own words.
GanStatus cudnn_check(const Cudnn *d, cudnnStatus_t code, const char *what);
// The library for a card that this machine lacks: `properties` is cuDNN's JSON of device properties
// (9.8 or newer). Plans are built and cannot run.
GanStatus cudnn_open_for(const CudnnApi *api, Str properties, bool no_tf32, Cudnn **out);

// Node `id` as an operation. node[]: the node whose memory each tensor is. False: not supported.
bool cudnn_read_conv(const Graph *g, uint32_t id, CudnnOperation *out, uint32_t node[3]);
bool cudnn_read_dot(const Graph *g, uint32_t id, CudnnOperation *out, uint32_t node[3]);
// The same product as a 1x1 convolution, whose engines are precompiled, where those of products are
// compiled at run time. node[] is permuted accordingly.
bool cudnn_dot_as_conv(const CudnnOperation *product, CudnnOperation *out, uint32_t node[3]);
// Adds an epilogue: its result replaces the operation's in node[], node[3] is its bias. False: this
// operation cannot have it.
bool cudnn_add_epilogue(const Graph *g, const Epilogue *e, CudnnOperation *o,
                        uint32_t node[CUDNN_PARTS]);

#endif
