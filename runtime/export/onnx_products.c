// onnx_products.c - ONNX nodes for Fourier transforms and matrix products.
#include "onnx_ops.h"

#include <string.h>

// --- transforms ----------------------------------------------------------------------------------

// The axis of parts, real and imaginary, to the end of the axes or back from there.
static Str move_parts(Onnx *o, Str x, uint32_t axes, int64_t parts, bool back) {
    int64_t perm[MAX_RANK + 1];
    Text attributes = {.arena = o->a};
    for (int64_t i = 0, last = axes - 1; i <= last; i++)
        perm[i] = back ? (i < parts    ? i
                          : i == parts ? last
                                       : i - 1)
                       : (i == last   ? parts
                          : i < parts ? i
                                      : i + 1);
    onnx_ints(o, &attributes, "perm", perm, axes);
    return onnx_put(o, "Transpose", &attributes, x);
}

static Str dft(Onnx *o, Str x, int64_t axis, bool inverse, bool half) {
    Text attributes = {.arena = o->a};
    onnx_int(o, &attributes, "axis", axis);
    onnx_int(o, &attributes, "inverse", inverse);
    onnx_int(o, &attributes, "onesided", half);
    return onnx_put(o, "DFT", &attributes, x);
}

static Str conjugate(Onnx *o, Str x) {
    const Type two = {.rank = 1, .dim = {2}};
    return onnx_put(o, "Mul", NULL, x, onnx_floats(o, &two, (const float[]){1, -1}));
}

// The frequencies that half of them stand for: behind them their conjugates, the last first.
static Str whole_of(Onnx *o, Str half, int64_t axis, int64_t n) {
    const int64_t from = n - n / 2 - 1, end = 0, back = -1;
    Text attributes = {.arena = o->a};
    if (n < 3)
        return half;
    Str rest = onnx_put(o, "Slice", NULL, half, onnx_shape(o, &from, 1), onnx_shape(o, &end, 1),
                        onnx_shape(o, &axis, 1), onnx_shape(o, &back, 1));
    onnx_int(o, &attributes, "axis", axis);
    return onnx_put(o, "Concat", &attributes, half, conjugate(o, rest));
}

// ONNX has the parts behind all axes and a factor 1/n in its inverse.
Str onnx_fft(Onnx *o, const char *op) {
    const Type *t = type_at(o), *from = type_in(o, 0);
    const uint32_t axes = t->rank + t->batched;
    const int64_t parts = axis_of(t, fft_parts(t)), axis = axes - 2, n = t->dim[t->rank - 1],
                  first = 0, one = 1, last = axes - 1;
    bool inverse = ints_at(o)[0], real = from->dim[fft_parts(t)] == 1,
         to_real = t->dim[fft_parts(t)] == 1;
    (void)op;
    Str x = move_parts(o, in(o, 0), axes, parts, false);
    x = dft(o, to_real ? whole_of(o, x, axis, n) : x, axis, inverse && !real, real);
    if (inverse) // of real numbers it is the conjugate of the other way
        x = real ? conjugate(o, x) : onnx_put(o, "Mul", NULL, x, onnx_number(o, (double)n));
    if (to_real)
        x = onnx_put(o, "Slice", NULL, x, onnx_shape(o, &first, 1), onnx_shape(o, &one, 1),
                     onnx_shape(o, &last, 1));
    return move_parts(o, x, axes, parts, true);
}

// --- products ------------------------------------------------------------------------------------

typedef struct Labels { // of an operand, or of the result
    uint32_t n;
    const int64_t *at;
} Labels;

// A matrix that samples share and a vector of each: Gemm, which every runtime has.
static bool is_layer(const Onnx *o, uint32_t matrix, const Labels *l) {
    return !type_in(o, matrix)->batched && type_in(o, 1 - matrix)->batched && l[matrix].n == 2 &&
           l[1 - matrix].n == 1 && l[2].n == 1 && l[2].at[0] != l[1 - matrix].at[0];
}

static Str put_layer(Onnx *o, uint32_t matrix, const Labels *l) {
    Text attributes = {.arena = o->a};
    onnx_int(o, &attributes, "transB", l[2].at[0] == l[matrix].at[0]);
    return onnx_put(o, "Gemm", &attributes, in(o, 1 - matrix), in(o, matrix));
}

// The batch is z.
Str onnx_dot(Onnx *o, const char *op) {
    Labels l[3];
    Text equation = {.arena = o->a}, attributes = {.arena = o->a};
    char letter[UINT8_MAX + 1] = {0}, next = 'a';
    const int64_t *at = ints_at(o);
    for (uint32_t s = 0; s < 3; at += 1 + l[s].n, s++)
        l[s] = (Labels){(uint32_t)at[0], at + 1};
    for (uint32_t matrix = 0; matrix < 2; matrix++)
        if (is_layer(o, matrix, l))
            return put_layer(o, matrix, l);
    for (uint32_t s = 0; s < 3; s++) {
        const Type *t = s < 2 ? type_in(o, s) : type_at(o);
        text_fmt(&equation, "%s%s", s == 1 ? "," : s ? "->" : "", t->batched ? "z" : "");
        for (uint32_t i = 0; i < l[s].n; i++) {
            char *c = &letter[l[s].at[i]];
            *c = *c ? *c : next++;
            text_char(&equation, *c);
        }
    }
    onnx_word(o, &attributes, "equation", text_str(&equation));
    return onnx_put(o, op, &attributes, in(o, 0), in(o, 1));
}

static Text conv_attributes(Onnx *o, const ConvGeom *c) {
    Text attributes = {.arena = o->a};
    int64_t pads[6];
    memcpy(pads, c->before, c->n * sizeof *pads);
    memcpy(pads + c->n, c->after, c->n * sizeof *pads);
    onnx_ints(o, &attributes, "strides", c->stride, c->n);
    onnx_ints(o, &attributes, "pads", pads, 2 * c->n);
    onnx_ints(o, &attributes, "dilations", c->dilation, c->n);
    onnx_int(o, &attributes, "group", c->groups);
    return attributes;
}

// What samples share is a batch of one.
static Str convolve(Onnx *o, const char *op, Text *attributes) {
    const Type *t = type_in(o, 0), *to = type_at(o);
    int64_t one[MAX_RANK + 1] = {1};
    if (t->batched)
        return onnx_put(o, op, attributes, in(o, 0), in(o, 1));
    memcpy(one + 1, t->dim, t->rank * sizeof *one);
    Str x = onnx_reshaped(o, in(o, 0), false, one, t->rank + 1);
    return onnx_reshaped(o, onnx_put(o, op, attributes, x, in(o, 1)), false, to->dim, to->rank);
}

Str onnx_conv(Onnx *o, const char *op) {
    ConvGeom c = conv_geom(node_attr(graph_of(o), o->at));
    Text attributes = conv_attributes(o, &c);
    return convolve(o, op, &attributes);
}

// Elements that no place of a kernel reaches from the last output are output_padding.
Str onnx_conv_dx(Onnx *o, const char *op) {
    const Type *t = type_at(o), *gy = type_in(o, 0), *w = type_in(o, 1);
    ConvGeom c = conv_geom(node_attr(graph_of(o), o->at));
    Text attributes = conv_attributes(o, &c);
    int64_t more[3];
    for (uint32_t i = 0; i < c.n; i++)
        more[i] = t->dim[1 + i] + c.before[i] + c.after[i] - (gy->dim[1 + i] - 1) * c.stride[i] -
                  c.dilation[i] * (w->dim[2 + i] - 1) - 1;
    onnx_ints(o, &attributes, "output_padding", more, c.n);
    return convolve(o, op, &attributes);
}
