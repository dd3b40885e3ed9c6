// dnn.h - inside the oneDNN part of the cpu device: one small interface over the library's 2.x
// and 3.x C calls, and the steps a prepared anchor is made of.
//
// 3.x dropped operation descriptors and turned memory descriptors from structs into handles. All of
// that difference is here and in dnn_api.c.
#ifndef GAN_DNN_H
#define GAN_DNN_H

#include "device.h"
#include "library.h"

#include <oneapi/dnnl/dnnl.h>

// --- dnn_api.c: every function returns the library's status --------------------------------------

#if DNNL_VERSION_MAJOR >= 3
typedef dnnl_memory_desc_t DnnLayout;          // owned handle
typedef const_dnnl_memory_desc_t DnnLayoutRef; // borrowed
#else
typedef dnnl_memory_desc_t DnnLayout;
typedef const dnnl_memory_desc_t *DnnLayoutRef;
#endif
typedef dnnl_primitive_desc_t DnnDesc;

typedef struct DnnShape { // a tensor as the library sees it
    int n;
    dnnl_dims_t dim, stride; // stride in elements
    Dtype type;
    bool any; // the library chooses the layout
} DnnShape;

typedef enum DnnConvKind { DnnConvForward, DnnConvData, DnnConvWeights } DnnConvKind;
typedef struct DnnConv { // src, weights, dst, whichever of them is computed
    DnnShape src, weights, dst;
    dnnl_dims_t stride, dilation; // per spatial axis; dilation as the library counts: 0 is none
    dnnl_dims_t before, after;
} DnnConv;

typedef struct DnnAxis {
    int64_t x, y, k, s, d, p; // extents of x, y, kernel; stride, dilation, padding before
} DnnAxis;

DnnLayoutRef dnn_layout_ref(const DnnLayout *l);
dnnl_status_t dnn_layout(const DnnShape *s, DnnLayout *out);
dnnl_status_t dnn_layout_copy(DnnLayoutRef from, DnnLayout *out);
void dnn_layout_free(DnnLayout *l);
dnnl_status_t dnn_conv_desc(dnnl_engine_t e, DnnConvKind kind, const DnnConv *asked, DnnDesc *out);
const char *dnn_desc_name(DnnDesc desc); // of the implementation, desc's; "": refused
dnnl_status_t dnn_matmul_desc(dnnl_engine_t e, const DnnShape *a, const DnnShape *b,
                              const DnnShape *to, bool add,
                              DnnDesc *out); // add: to what `to` holds

// --- onednn.c: steps -----------------------------------------------------------------------------

enum {
    DNN_STEPS = 19, // weights packed, rows gathered, 16 products, rows added up (dnn_taps.c)
    DNN_ARGS = 4,
    DNN_STAGING = 4,
    DNN_COPIES = 3,             // the staging buffer of what one call copies for itself alone
    DNN_COLUMN_CHANNELS = 4096, // of a pixel summed on the stack
    DNN_AXES = 3,
    DNN_MOST_PHASES = 8,
};

typedef void DnnHost(void *job, void *const staging[DNN_STAGING], int64_t round);

typedef struct DnnStep { // a primitive, or a function of ours
    dnnl_primitive_t primitive;
    int n;
    dnnl_exec_arg_t arg[DNN_ARGS];
    DnnHost *host; // NULL: the primitive
    void *job;
} DnnStep;
struct DnnCall {
    const char *method; // of a convolution (dnn_conv.c); NULL: a product of matrices
    int n;
    DnnStep step[DNN_STEPS];
    int from, to; // steps from..to-1 run once a round
    int64_t rounds;
};

// Where a primitive's tensor lies: at a fixed address, or (at NULL) in one of the staging buffers
// that all calls share, `offset` bytes from its start.
typedef struct DnnTensor {
    DnnLayoutRef layout;
    void *at;
    int staging;
    size_t offset;
} DnnTensor;

// Each adds one step to `call`. The tensors' memory objects belong to `d`.
dnnl_status_t dnn_add_step(Dnn *d, DnnCall *call, DnnDesc desc, const int *arg,
                           const DnnTensor *tensor, int n);
// A product of matrices or a forward convolution: its source, its weights, its destination.
dnnl_status_t dnn_add_forward(Dnn *d, DnnCall *call, DnnDesc desc, const DnnTensor operand[3]);
dnnl_status_t dnn_add_reorder(Dnn *d, DnnCall *call, DnnTensor from, DnnTensor to);
void dnn_add_host(DnnCall *call, DnnHost *host, void *job);
void *dnn_job(Dnn *d, size_t size);                // zeroed, lives as long as d
void *dnn_own(Dnn *d, size_t bytes);               // the same, for values; NULL when refused
void dnn_stage(Dnn *d, int staging, size_t bytes); // at least so many in a buffer all calls share
DnnDesc *dnn_new_desc(Dnn *d);                     // NULL in it; what is put there belongs to d
DnnLayoutRef dnn_desc_layout(DnnDesc desc, dnnl_query_t what);
// By what the library would compute a convolution, as it names it; "": not at all. Weights in the
// layout it prefers.
const char *dnn_library_name(Dnn *d, DnnConvKind kind, const DnnConv *c);
DnnLayoutRef dnn_keep_layout(Dnn *d, const DnnShape *s); // lives as long as d; NULL when refused
dnnl_engine_t dnn_engine(const Dnn *d);
bool dnn_has_matrix_unit(void); // bf16 products much faster than vectors make them
// A tensor of the call being prepared alone, in the staging buffer DNN_COPIES.
DnnTensor dnn_transient(Dnn *d, DnnLayoutRef layout);
// A copy of node `id` in `layout`, the same for all calls of a block that number its axes alike:
// `from` is the value as the caller sees it, and two calls may see equal axes exchanged. `form`
// tells copies apart that are more than a change of layout. `fresh`: the caller's steps must fill
// it. Where no other call could share it, it is transient.
dnnl_status_t dnn_copy_of(Dnn *d, uint32_t id, uint64_t form, DnnLayoutRef from,
                          DnnLayoutRef layout, DnnTensor *out, bool *fresh);
// The copy of node `id` (lying at `from`) in layout `to`, made at most once per block; adds the
// reorder when this is the first use.
dnnl_status_t dnn_pack(Dnn *d, DnnCall *call, uint32_t id, DnnTensor from, DnnLayoutRef to,
                       DnnTensor *out);
typedef struct DnnMatmul {  // of two matrices, or of batches of them
    DnnDesc desc;           // d's
    DnnLayoutRef layout[3]; // of the two and of the result
} DnnMatmul;
// `add`: to what the result holds.
dnnl_status_t dnn_matmul(Dnn *d, const DnnShape shape[3], bool add, DnnMatmul *out);
// Adds it to `call`. at: where they lie, in the product's layouts.
dnnl_status_t dnn_add_matmul(Dnn *d, DnnCall *call, const DnnMatmul *p, const DnnTensor at[3]);
// As a primitive likes them: `plain` itself, or memory of d's with the reorder from or to it still
// to be added.
dnnl_status_t dnn_own_packed(Dnn *d, DnnLayoutRef wanted, DnnTensor plain, DnnTensor *out);
void dnn_dense(DnnShape *s);                                    // row-major strides
void dnn_channels_last(DnnShape *s);                            // [n, .., c] of dim [n, c, ..]
DnnShape dnn_matrix(int64_t rows, int64_t columns, Dtype type); // row-major
DnnShape dnn_turned(DnnShape s); // the same memory with the last two axes exchanged

// --- dnn_conv.c, dnn_dot.c -----------------------------------------------------------------------
// False in *done: the library does not do it, and `call` is as it was.

typedef struct DnnNode { // what is to be computed
    const Plan *plan;    // borrowed
    uint32_t id;         // of its graph
    Memory memory;       // where the plan's values lie
} DnnNode;
dnnl_status_t dnn_prepare_conv(Dnn *d, const DnnNode *node, DnnCall *call, bool *done);
dnnl_status_t dnn_prepare_dot(Dnn *d, const DnnNode *node, DnnCall *call, bool *done);
// The spatial axes, the last at the end; before them axes of extent 1 where there are fewer.
void dnn_axes(const DnnConv *c, DnnAxis out[DNN_AXES]);
// A convolution whose kernel covers all of x. side: the nodes of x, w and y, one of which it is.
dnnl_status_t dnn_prepare_covering(Dnn *d, const DnnNode *node, const uint32_t side[3],
                                   DnnCall *call, bool *done);

// --- methods of convolution ----------------------------------------------------------------------
// Each decides in its own file, from shapes, types and the library's name for its own way, whether
// it computes a convolution; dnn_conv.c has the order in which they are asked. False in *done: not
// a case of this method, and `call` is as it was.

typedef struct DnnProblem { // a convolution, one of whose sides is the result
    DnnConvKind kind;
    DnnConv conv;
    DnnTensor t[3];   // x, w, y
    uint32_t weights; // the node of w, for packing
} DnnProblem;
int64_t dnn_threads(void); // of a loop of our own
typedef dnnl_status_t DnnMethod(Dnn *d, DnnCall *call, const DnnProblem *p, bool *done);
DnnMethod dnn_thin;     // few channels in the result: neighbouring pixels become channels
DnnMethod dnn_grouped;  // narrow groups: loops of our own
DnnMethod dnn_taps;     // most of the kernel outside the image: a product for each element of it
DnnMethod dnn_winograd; // small kernels
DnnMethod dnn_columns;  // few pixels: a product over columns of the image (im2col)
DnnMethod dnn_phases;   // an input gradient as forward convolutions
DnnMethod dnn_tiles;    // bf16 on a matrix unit: products of our own

// dnn_phases.c: the pixels of x at one residue of the stride, as a convolution of y with stride 1
// by the kernel elements first, first + s, .., the last of them first.
typedef struct DnnPhase {              // along one axis
    int64_t first, taps, before, grid; // elements, padding before, pixels
} DnnPhase;
DnnPhase dnn_phase(const DnnAxis *a, int64_t residue);
int64_t dnn_phases_of(const DnnAxis a[DNN_AXES]); // how many; 0: some would be empty, or too many

#endif
