// dnn_api.c - one small interface over oneDNN 2.x and 3.x.
//
// In: shapes with strides. Out: layouts and primitive descriptors with user-managed scratchpads.
#include "dnn.h"

#include <string.h>

static dnnl_data_type_t data_type(Dtype t) {
    switch (t) {
    case DtBF16:
        return dnnl_bf16;
    case DtF16:
        return dnnl_f16;
    case DtF32:
        return dnnl_f32;
    case DtF64:
    case DtCount:
        break;
    }
    return dnnl_data_type_undef;
}

DnnLayoutRef dnn_layout_ref(const DnnLayout *l) {
#if DNNL_VERSION_MAJOR >= 3
    return *l;
#else
    return l;
#endif
}

dnnl_status_t dnn_layout(const DnnShape *s, DnnLayout *out) {
    dnnl_data_type_t type = data_type(s->type);
    if (type == dnnl_data_type_undef)
        return dnnl_unimplemented;
#if DNNL_VERSION_MAJOR >= 3
    if (s->any)
        return dnnl_memory_desc_create_with_tag(out, s->n, s->dim, type, dnnl_format_tag_any);
    return dnnl_memory_desc_create_with_strides(out, s->n, s->dim, type, s->stride);
#else
    if (s->any)
        return dnnl_memory_desc_init_by_tag(out, s->n, s->dim, type, dnnl_format_tag_any);
    return dnnl_memory_desc_init_by_strides(out, s->n, s->dim, type, s->stride);
#endif
}

dnnl_status_t dnn_layout_copy(DnnLayoutRef from, DnnLayout *out) {
#if DNNL_VERSION_MAJOR >= 3
    return dnnl_memory_desc_clone(out, from);
#else
    *out = *from;
    return dnnl_success;
#endif
}

void dnn_layout_free(DnnLayout *l) {
#if DNNL_VERSION_MAJOR >= 3
    if (*l)
        dnnl_memory_desc_destroy(*l);
    *l = NULL;
#else
    (void)l;
#endif
}

const char *dnn_desc_name(DnnDesc desc) {
    const char *name = "";
    return dnnl_primitive_desc_query(desc, dnnl_query_impl_info_str, 0, (void *)&name) ==
                   dnnl_success
               ? name
               : "";
}

static dnnl_status_t user_scratchpad(dnnl_primitive_attr_t *out) {
    dnnl_status_t s = dnnl_primitive_attr_create(out);
    if (s != dnnl_success)
        return s;
    return dnnl_primitive_attr_set_scratchpad_mode(*out, dnnl_scratchpad_mode_user);
}

static dnnl_status_t add_to_result(dnnl_primitive_attr_t attr) {
    dnnl_post_ops_t ops;
    dnnl_status_t s = dnnl_post_ops_create(&ops);
    if (s != dnnl_success)
        return s;
#if DNNL_VERSION_MAJOR >= 3
    s = dnnl_post_ops_append_sum(ops, 1, 0, dnnl_data_type_undef);
#else
    s = dnnl_post_ops_append_sum(ops, 1);
#endif
    if (s == dnnl_success)
        s = dnnl_primitive_attr_set_post_ops(attr, ops);
    dnnl_post_ops_destroy(ops);
    return s;
}

// The backward kinds take a forward descriptor as a hint; on CPUs it is not looked at, and a
// forward one need not exist for the backward's types (f32 gradients of bf16 weights).
#if DNNL_VERSION_MAJOR >= 3
static dnnl_status_t conv_desc(dnnl_engine_t e, DnnConvKind kind, const DnnConv *c, DnnLayout l[3],
                               dnnl_primitive_attr_t attr, DnnDesc *out) {
    switch (kind) {
    case DnnConvForward:
        return dnnl_convolution_forward_primitive_desc_create(
            out, e, dnnl_forward_training, dnnl_convolution_direct, l[0], l[1], NULL, l[2],
            c->stride, c->dilation, c->before, c->after, attr);
    case DnnConvData:
        return dnnl_convolution_backward_data_primitive_desc_create(
            out, e, dnnl_convolution_direct, l[0], l[1], l[2], c->stride, c->dilation, c->before,
            c->after, NULL, attr);
    case DnnConvWeights:
        return dnnl_convolution_backward_weights_primitive_desc_create(
            out, e, dnnl_convolution_direct, l[0], l[1], NULL, l[2], c->stride, c->dilation,
            c->before, c->after, NULL, attr);
    }
    return dnnl_invalid_arguments;
}

static dnnl_status_t matmul_desc(dnnl_engine_t e, DnnLayout l[3], dnnl_primitive_attr_t attr,
                                 DnnDesc *out) {
    return dnnl_matmul_primitive_desc_create(out, e, l[0], l[1], NULL, l[2], attr);
}
#else
static dnnl_status_t conv_desc(dnnl_engine_t e, DnnConvKind kind, const DnnConv *c, DnnLayout l[3],
                               dnnl_primitive_attr_t attr, DnnDesc *out) {
    dnnl_convolution_desc_t d;
    dnnl_status_t s = dnnl_invalid_arguments;
    switch (kind) {
    case DnnConvForward:
        s = dnnl_dilated_convolution_forward_desc_init(
            &d, dnnl_forward_training, dnnl_convolution_direct, &l[0], &l[1], NULL, &l[2],
            c->stride, c->dilation, c->before, c->after);
        break;
    case DnnConvData:
        s = dnnl_dilated_convolution_backward_data_desc_init(&d, dnnl_convolution_direct, &l[0],
                                                             &l[1], &l[2], c->stride, c->dilation,
                                                             c->before, c->after);
        break;
    case DnnConvWeights:
        s = dnnl_dilated_convolution_backward_weights_desc_init(&d, dnnl_convolution_direct, &l[0],
                                                                &l[1], NULL, &l[2], c->stride,
                                                                c->dilation, c->before, c->after);
        break;
    }
    return s == dnnl_success ? dnnl_primitive_desc_create(out, &d, attr, e, NULL) : s;
}

static dnnl_status_t matmul_desc(dnnl_engine_t e, DnnLayout l[3], dnnl_primitive_attr_t attr,
                                 DnnDesc *out) {
    dnnl_matmul_desc_t d;
    dnnl_status_t s = dnnl_matmul_desc_init(&d, &l[0], &l[1], NULL, &l[2]);
    return s == dnnl_success ? dnnl_primitive_desc_create(out, &d, attr, e, NULL) : s;
}
#endif

static dnnl_status_t layouts(const DnnShape *const s[3], DnnLayout l[3]) {
    for (int i = 0; i < 3; i++) {
        dnnl_status_t st = dnn_layout(s[i], &l[i]);
        if (st != dnnl_success)
            return st;
    }
    return dnnl_success;
}

static void layouts_free(DnnLayout l[3]) {
    for (int i = 0; i < 3; i++)
        dnn_layout_free(&l[i]);
}

// --- shapes the library errs on ------------------------------------------------------------------

// Found by random small shapes (tests/unit/dnn_library_test.c), in 2.6.3 and 3.7.2.

static int64_t reach_of(const DnnConv *c, int axis) {
    return (c->weights.dim[c->weights.n - c->src.n + 2 + axis] - 1) * (c->dilation[axis] + 1) + 1;
}

// bf16 adds up what it finds in its scratchpad where an image is smaller than the stride. Of three
// axes, a second place that begins in the padding, or a kernel larger than the image, is written
// beyond the result.
static bool weights_go_wrong(const DnnConv *c) {
    int axes = c->src.n - 2;
    bool wrong = axes == 3 && c->stride[0] > 1 && c->before[0] > c->stride[0];
    for (int i = 0; i < axes; i++)
        wrong = wrong || (c->src.type == DtBF16 && c->src.dim[2 + i] < c->stride[i]) ||
                (axes == 3 && reach_of(c, i) > c->src.dim[2 + i]);
    return wrong;
}

// 3.7: one channel of input, to one pixel (nothing is written), or in bf16 of one layer; bf16 with
// wide strides that leave pixels over. 2.6: the first pixel of a thread's second block, where wide
// padding surrounds a narrow image.
static bool forward_goes_wrong(const DnnConv *c) {
    int axes = c->src.n - 2, last = axes - 1;
    bool one = c->weights.dim[c->weights.n - axes - 1] == 1, half = c->src.type == DtBF16;
    return (one && (c->dst.dim[2 + last] == 1 || (half && axes == 3 && c->src.dim[2] == 1))) ||
           (half && c->stride[last] > 2 && c->after[last] < 0) ||
           (c->before[last] > 4 && c->dst.dim[2 + last] < 8 * c->before[last]);
}

// bf16 of three axes on a matrix unit (AMX): 2.6 makes garbage of one small odd shape in ten,
// another each time, and 3.7 leaves parts of results unwritten. One axis and two are right.
static bool unit_goes_wrong(const DnnConv *c) {
    return c->src.n == 2 + DNN_AXES && c->src.type == DtBF16 && dnn_has_matrix_unit();
}

static bool goes_wrong(DnnConvKind kind, const DnnConv *c) {
    return unit_goes_wrong(c) || (kind == DnnConvWeights && weights_go_wrong(c)) ||
           (kind == DnnConvForward && forward_goes_wrong(c));
}

// --- long lines ----------------------------------------------------------------------------------

enum { LONG_LINE = 1024, FEW_CHANNELS = 32, LANES = 16 };

// The library's first choice on AVX-512 is a product of blocks. It describes blocks of every length
// up to a thread's part of the line, and generates code for each way padding cuts into them: up to
// 24 MB and 29 ms, then 10 to 19 ms for the primitive (2.6.3; 32 channels, 8,192 positions). Its
// second choice, the direct convolution, takes 1 to 9 ms for both. Measured on a core, f32 and
// bf16, of hifigan's lines: from or to 32 channels it runs 0.89 to 1.07 times as long, from one
// channel 0.23 to 0.42; from 64 to 64 it would be up to 1.1. Fewer channels than lanes on both
// sides have the same layout of weights for both choices, so none is chosen by it.
static bool suits_direct(DnnConvKind kind, const DnnConv *c) {
    int64_t in = c->src.dim[1], out = c->dst.dim[1];
    int last = c->src.n - 1;
    bool one_type = c->src.type == c->weights.type && c->src.type == c->dst.type;
    return kind == DnnConvForward && c->weights.any && !c->src.any && !c->dst.any && one_type &&
           c->weights.n == c->src.n && c->dst.dim[last] >= LONG_LINE &&
           (in < out ? in : out) <= FEW_CHANNELS && (in >= LANES || out > LANES) &&
           dnn_vector_level() == 4 && (c->src.type == DtF32 || !dnn_has_matrix_unit());
}

// The layout of weights in which the library's direct convolution takes them, and no other does.
static dnnl_status_t direct_weights(const DnnConv *c, DnnLayout *out) {
    static const dnnl_format_tag_t tag[2][2][DNN_AXES] = {
        {{dnnl_OIw16i16o, dnnl_OIhw16i16o, dnnl_OIdhw16i16o},
         {dnnl_Owi16o, dnnl_Ohwi16o, dnnl_Odhwi16o}},
        {{dnnl_OIw8i16o2i, dnnl_OIhw8i16o2i, dnnl_OIdhw8i16o2i},
         {dnnl_OwI16o2i, dnnl_OhwI16o2i, dnnl_OdhwI16o2i}}};
    const DnnShape *w = &c->weights;
    dnnl_format_tag_t t = tag[w->type == DtBF16][w->dim[1] < LANES][w->n - 3];
#if DNNL_VERSION_MAJOR >= 3
    return dnnl_memory_desc_create_with_tag(out, w->n, w->dim, data_type(w->type), t);
#else
    return dnnl_memory_desc_init_by_tag(out, w->n, w->dim, data_type(w->type), t);
#endif
}

// 3.7 errs on a matrix unit where a kernel of 8 is over 8 or 12 channels. None of its
// implementations for that unit takes weights in this layout.
static bool avoids_unit(DnnConvKind kind, const DnnConv *c) {
    int64_t in = c->src.dim[1], k = c->weights.dim[c->weights.n - 1];
    return kind == DnnConvForward && c->src.type == DtBF16 && c->weights.n == c->src.n &&
           dnn_has_matrix_unit() && k == 8 && (in == 8 || in == 12);
}

static bool is_direct(DnnDesc desc) {
    const char *name = dnn_desc_name(desc);
    return strncmp(name, "jit", 3) == 0 && strstr(name, ":avx512");
}

// Leaves NULL in *out where the library has nothing, or with `only` something else, for these
// weights.
static dnnl_status_t direct_desc(dnnl_engine_t e, const DnnConv *c, DnnLayout l[3], bool only,
                                 dnnl_primitive_attr_t attr, DnnDesc *out) {
    DnnLayout any = l[1], direct = {0};
    dnnl_status_t s = direct_weights(c, &direct);
    l[1] = direct;
    if (s == dnnl_success)
        s = conv_desc(e, DnnConvForward, c, l, attr, out);
    l[1] = any;
    dnn_layout_free(&direct);
    if (s == dnnl_success && only && !is_direct(*out)) {
        dnnl_primitive_desc_destroy(*out);
        *out = NULL;
    }
    return s == dnnl_out_of_memory ? s : dnnl_success;
}

// To one place no stride is taken. 3.7, forward in bf16 on a matrix unit, takes it from row to row
// of one column. Gradients of the weights of three axes it refuses more often without the stride.
static DnnConv taken_strides(DnnConvKind kind, const DnnConv *c) {
    DnnConv out = *c;
    for (int i = 0; i < c->src.n - 2 && kind == DnnConvForward; i++)
        out.stride[i] = c->dst.dim[2 + i] == 1 ? 1 : c->stride[i];
    return out;
}

dnnl_status_t dnn_conv_desc(dnnl_engine_t e, DnnConvKind kind, const DnnConv *asked, DnnDesc *out) {
    const DnnConv taken = taken_strides(kind, asked), *c = &taken;
    DnnLayout l[3] = {0};
    dnnl_primitive_attr_t attr = NULL;
    *out = NULL;
    if (goes_wrong(kind, asked))
        return dnnl_unimplemented;
    dnnl_status_t s = layouts((const DnnShape *[]){&c->src, &c->weights, &c->dst}, l);
    if (s == dnnl_success)
        s = user_scratchpad(&attr);
    bool must = avoids_unit(kind, c);
    if (s == dnnl_success && (must || suits_direct(kind, c)))
        s = direct_desc(e, c, l, !must, attr, out);
    if (s == dnnl_success && !*out)
        s = must ? dnnl_unimplemented : conv_desc(e, kind, c, l, attr, out);
    if (attr)
        dnnl_primitive_attr_destroy(attr);
    layouts_free(l);
    return s;
}

dnnl_status_t dnn_matmul_desc(dnnl_engine_t e, const DnnShape *a, const DnnShape *b,
                              const DnnShape *to, bool add, DnnDesc *out) {
    DnnLayout l[3] = {0};
    dnnl_primitive_attr_t attr = NULL;
    *out = NULL;
    dnnl_status_t s = layouts((const DnnShape *[]){a, b, to}, l);
    if (s == dnnl_success)
        s = user_scratchpad(&attr);
    if (s == dnnl_success && add)
        s = add_to_result(attr);
    if (s == dnnl_success)
        s = matmul_desc(e, l, attr, out);
    if (attr)
        dnnl_primitive_attr_destroy(attr);
    layouts_free(l);
    return s;
}

GanStatus dnn_product(const float *a, const float *b, size_t m, size_t n, size_t k, float *c) {
    dnnl_dim_t rows = (dnnl_dim_t)m, columns = (dnnl_dim_t)n, terms = (dnnl_dim_t)k;
    TRY(onednn_ready());
    dnnl_status_t st =
        dnnl_sgemm('N', 'T', rows, columns, terms, 1, a, terms, b, terms, 0, c, columns);
    return st == dnnl_success
               ? GAN_OK
               : fail(GAN_ERR_MEMORY, "oneDNN refused a product of %zu x %zu x %zu (status %d)", m,
                      n, k, (int)st);
}
