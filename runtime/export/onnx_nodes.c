// onnx_nodes.c - nodes, attributes and constants of an ONNX graph: onnx.proto3, of which these
// fields.
//
//   NodeProto       1 input string*, 2 output string*, 4 op_type, 5 attribute*, 6 doc_string
//   AttributeProto  1 name, 3 i int64, 4 s bytes, 8 ints int64*, 20 type: 2 INT, 3 STRING, 7 INTS
//   TensorProto     1 dims int64*, 2 data_type, 8 name, 9 raw_data, little-endian
//   ValueInfoProto  1 name, 2 type: 1 tensor_type: 1 elem_type, 2 shape: 1 dim*: 1 dim_value,
//                   2 dim_param; 3 doc_string
#include "onnx.h"
#include "pass.h"

#include <string.h>

// --- attributes ----------------------------------------------------------------------------------

enum { AttributeInt = 2, AttributeString = 3, AttributeInts = 7 };

static void put_attribute(Text *attributes, Text *t, const char *name, uint32_t type) {
    proto_bytes(t, 1, str_c(name));
    proto_number(t, 20, type);
    proto_bytes(attributes, 5, text_str(t));
}

void onnx_int(Onnx *o, Text *attributes, const char *name, int64_t x) {
    Text t = {.arena = o->a};
    proto_number(&t, 3, (uint64_t)x);
    put_attribute(attributes, &t, name, AttributeInt);
}

void onnx_ints(Onnx *o, Text *attributes, const char *name, const int64_t *x, uint32_t n) {
    Text t = {.arena = o->a};
    proto_numbers(&t, 8, x, n);
    put_attribute(attributes, &t, name, AttributeInts);
}

void onnx_word(Onnx *o, Text *attributes, const char *name, Str x) {
    Text t = {.arena = o->a};
    proto_bytes(&t, 4, x);
    put_attribute(attributes, &t, name, AttributeString);
}

// --- nodes ---------------------------------------------------------------------------------------

Str onnx_place(const Onnx *o) {
    const Graph *g = &o->f->g;
    SourceLine l;
    return model_line(o->m, g->span.at[graph_node(g, o->at)->span].span, &l)
               ? str_format(o->a, "%.*s:%u", SARG(l.file), l.number)
               : (Str){0};
}

static void put_node(Onnx *o, const char *op, const Str *in, uint32_t n, Str out,
                     Text *attributes) {
    Text t = {.arena = o->a};
    for (uint32_t i = 0; i < n; i++)
        proto_bytes(&t, 1, in[i]);
    proto_bytes(&t, 2, out);
    proto_bytes(&t, 4, str_c(op));
    if (attributes)
        text_put(&t, text_str(attributes));
    Str from = onnx_place(o);
    if (from.len)
        proto_bytes(&t, 6, from);
    proto_bytes(&o->node, 1, text_str(&t));
}

static Str new_name(Onnx *o) {
    return str_format(o->a, "%u", o->names++);
}

static bool is_given(const Onnx *o, Str name) {
    for (uint32_t i = 0; i < o->given.n; i++)
        if (str_eq(o->given.at[i], name))
            return true;
    return false;
}

Str onnx_name(Onnx *o, Str name) {
    Str own = name;
    for (uint32_t k = 2; is_given(o, own); k++)
        own = str_format(o->a, "%.*s_%u", SARG(name), k);
    vec_push(o->a, &o->given, own);
    return own;
}

Str onnx_node(Onnx *o, const char *op, const Str *in, uint32_t n, Text *attributes) {
    Str out = new_name(o);
    put_node(o, op, in, n, out, attributes);
    return out;
}

void onnx_rename(Onnx *o, Str value, Str name) {
    put_node(o, "Identity", &value, 1, name, NULL);
}

Str onnx_cast(Onnx *o, Str value, OnnxElement to) {
    Text attributes = {.arena = o->a};
    onnx_int(o, &attributes, "to", to);
    return onnx_put(o, "Cast", &attributes, value);
}

// --- constants and inputs ------------------------------------------------------------------------

static Str put_constant(Onnx *o, OnnxElement type, const int64_t *dim, uint32_t rank, Str bytes) {
    Text t = {.arena = o->a};
    Str name = new_name(o);
    proto_numbers(&t, 1, dim, rank);
    proto_number(&t, 2, type);
    proto_bytes(&t, 8, name);
    proto_bytes(&t, 9, bytes);
    proto_bytes(&o->constant, 5, text_str(&t));
    return name;
}

Str onnx_number(Onnx *o, double x) {
    return onnx_floats(o, &(Type){0}, &(float){(float)x});
}

Str onnx_shape(Onnx *o, const int64_t *dim, uint32_t n) {
    int64_t count = n;
    Text bytes = {.arena = o->a};
    for (uint32_t i = 0; i < n; i++)
        proto_fixed(&bytes, (uint64_t)dim[i], 8);
    return put_constant(o, OnnxInt64, &count, 1, text_str(&bytes));
}

Str onnx_floats(Onnx *o, const Type *t, const float *x) {
    Text bytes = {.arena = o->a};
    for (int64_t i = 0, n = type_sample(t); i < n; i++) {
        uint32_t bits;
        memcpy(&bits, &x[i], sizeof bits);
        proto_fixed(&bytes, bits, 4);
    }
    return put_constant(o, OnnxFloat, t->dim, t->rank, text_str(&bytes));
}

Str onnx_value_info(Onnx *o, Str name, const Type *t, Str doc) {
    Text info = {.arena = o->a}, tensor = {.arena = o->a}, shape = {.arena = o->a},
         type = {.arena = o->a};
    for (uint32_t i = 0, n = t->rank + t->batched; i < n; i++) {
        Text dim = {.arena = o->a};
        bool batch = t->batched && i == 0;
        if (batch && !o->samples)
            proto_bytes(&dim, 2, STR("N"));
        else
            proto_number(&dim, 1, (uint64_t)(batch ? o->samples : t->dim[i - t->batched]));
        proto_bytes(&shape, 1, text_str(&dim));
    }
    proto_number(&tensor, 1, OnnxFloat);
    proto_bytes(&tensor, 2, text_str(&shape));
    proto_bytes(&type, 1, text_str(&tensor));
    proto_bytes(&info, 1, name);
    proto_bytes(&info, 2, text_str(&type));
    if (doc.len)
        proto_bytes(&info, 3, doc);
    return text_str(&info);
}
