// onnx_file.c - reads an ONNX file, see onnx_file.h: onnx.proto3, of which these fields.
//
//   ModelProto      2 producer_name, 3 producer_version, 7 graph, 8 opset_import: 1 domain,
//                   2 version
//   GraphProto      1 node*, 5 initializer*, 11 input*, 12 output*
//   NodeProto       1 input*, 2 output*, 3 name, 4 op_type, 5 attribute*, 7 domain,
//                   9 metadata_props*: 1 key, 2 value
//   AttributeProto  1 name, 2 f, 3 i, 4 s, 5 t, 7 floats*, 8 ints*
//   TensorProto     1 dims*, 2 data_type, 4 float_data*, 5 int32_data*, 7 int64_data*, 8 name,
//                   9 raw_data, 10 double_data*, 11 uint64_data*, 13 external_data*: 1 key,
//                   2 value; 14 data_location
//   ValueInfoProto  1 name, 2 type: 1 tensor_type: 1 elem_type, 2 shape: 1 dim*: 1 dim_value
#include "onnx_file.h"
#include "proto.h"
#include "data.h"

#include <string.h>

typedef struct Reader {
    Arena *a;
    OnnxFile *f;
    Str folder;   // of files of weights; empty: there are none
    Str below[2]; // where they may lie, resolved: in that folder, in that of the file which a link
                  // to the model leads to
} Reader;

static GanStatus damaged(const char *what) {
    return fail(GAN_ERR_INPUT, "%s is damaged", what);
}

// --- numbers -------------------------------------------------------------------------------------

// Bytes of an element; 0: it is of a type that is not read.
static size_t element_bytes(OnnxElement type) {
    switch (type) {
    case OnnxUint8:
    case OnnxInt8:
    case OnnxBool:
        return 1;
    case OnnxFloat16:
    case OnnxBfloat16:
        return 2;
    case OnnxFloat:
    case OnnxInt32:
    case OnnxUint32:
        return 4;
    case OnnxInt64:
    case OnnxDouble:
    case OnnxUint64:
        return 8;
    }
    return 0;
}

bool onnx_is_real(OnnxElement type) {
    return type == OnnxFloat || type == OnnxDouble || type == OnnxFloat16 || type == OnnxBfloat16;
}

// An element by its bits, in the low bytes.
static double element_value(OnnxElement type, uint64_t bits) {
    switch (type) {
    case OnnxFloat:
        return proto_as_float(bits);
    case OnnxDouble:
        return proto_as_double(bits);
    case OnnxFloat16:
        return half_value((uint16_t)bits);
    case OnnxBfloat16:
        return proto_as_float(bits << 16);
    case OnnxInt8:
        return (int8_t)bits;
    case OnnxInt32:
        return (int32_t)bits;
    case OnnxInt64:
        return (double)(int64_t)bits;
    case OnnxUint8:
    case OnnxBool:
    case OnnxUint32:
    case OnnxUint64:
        break;
    }
    return (double)bits;
}

double onnx_at(const OnnxTensor *t, size_t i) {
    assert(i < t->count);
    if (!t->raw)
        return t->number[i];
    size_t n = element_bytes(t->type);
    uint64_t bits = 0;
    for (size_t k = 0; k < n; k++)
        bits |= (uint64_t)t->raw[i * n + k] << 8 * k;
    return element_value(t->type, bits);
}

// --- weights in other files ----------------------------------------------------------------------

static bool is_below(Str path, Str folder) {
    Str rest = str_sub(path, folder.len, path.len);
    return folder.len && str_starts(path, folder) &&
           (folder.ptr[folder.len - 1] == '/' || (rest.len && rest.ptr[0] == '/'));
}

// The file at a location. It lies below the model's folder, as in ONNX Runtime: neither `..` nor a
// link leads out of it. In a cache such as Hugging Face's the model and its weights are links to
// files that lie in one folder.
static GanStatus find_outside(Reader *r, Str location, Str *out) {
    bool named = r->folder.len && location.ptr[0] != '/' && !memchr(location.ptr, 0, location.len);
    for (Str rest = location; named && rest.len;) {
        size_t slash = str_find(rest, '/');
        named = !str_eq(str_sub(rest, 0, slash), STR(".."));
        rest = str_sub(rest, slash + (slash < rest.len), rest.len);
    }
    Str path = named ? path_join(r->a, r->folder, location) : (Str){0};
    *out = named ? file_resolved(r->a, path) : (Str){0};
    if (named && !out->len) // the system says why
        *out = path;
    else if (!is_below(*out, r->below[0]) && !is_below(*out, r->below[1]))
        return fail(GAN_ERR_INPUT, "its weights are in %.*s, which is not below the model's folder",
                    SARG(location));
    return GAN_OK;
}

static GanStatus map_outside(Reader *r, Str location, FileMap *out) {
    Str path;
    for (uint32_t i = 0; i < r->f->outside.n; i++)
        if (str_eq(r->f->outside.at[i], location)) {
            *out = r->f->map.at[r->f->map.n - r->f->outside.n + i];
            return GAN_OK;
        }
    TRY(find_outside(r, location, &path));
    vec_push(r->a, &r->f->map, ((FileMap){0})); // first: a mapping that is there has a place
    vec_push(r->a, &r->f->outside, location);
    FileMap *at = &r->f->map.at[r->f->map.n - 1];
    GanStatus st = file_map(path, at);
    *out = *at;
    return st;
}

typedef struct Outside {
    Str location;
    int64_t offset, length; // length -1: not said
} Outside;

static bool read_entry(Str entry, Str *key, Str *value) {
    ProtoField f;
    *key = *value = (Str){0};
    while (proto_next(&entry, &f))
        if (f.number == 1 || f.number == 2)
            *(f.number == 1 ? key : value) = f.bytes;
    return !entry.len;
}

static bool read_outside(Str entry, Outside *out) {
    Str key, value;
    if (!read_entry(entry, &key, &value))
        return false;
    if (str_eq(key, STR("location")))
        out->location = value;
    if (str_eq(key, STR("offset")))
        return str_to_int(value, &out->offset) && out->offset >= 0;
    if (str_eq(key, STR("length")))
        return str_to_int(value, &out->length) && out->length >= 0;
    return true;
}

static GanStatus use_outside(Reader *r, const Outside *o, size_t bytes, OnnxTensor *t) {
    FileMap map = {0};
    TRY(map_outside(r, o->location, &map));
    if ((uint64_t)o->offset > map.n || map.n - (size_t)o->offset < bytes ||
        (o->length >= 0 && (uint64_t)o->length != bytes))
        return fail(GAN_ERR_INPUT, "%.*s has no %zu bytes for tensor %.*s at byte %lld",
                    SARG(o->location), bytes, SARG(t->name), (long long)o->offset);
    t->raw = map.ptr ? map.ptr + o->offset : (const uint8_t *)"";
    return GAN_OK;
}

// --- tensors -------------------------------------------------------------------------------------

typedef VEC(double) Numbers;

static void put_numbers(Reader *r, const ProtoField *f, ProtoWire wire, OnnxElement type,
                        Numbers *out) {
    Str left = f->bytes;
    bool first = true;
    for (uint64_t bits; proto_repeated(f, wire, &left, &first, &bits);)
        vec_push(r->a, out, element_value(type, bits));
}

static bool put_dims(const ProtoField *f, OnnxTensor *t) {
    Str left = f->bytes;
    bool first = true;
    for (uint64_t n; proto_repeated(f, WireVarint, &left, &first, &n);) {
        if (t->rank == ONNX_RANK)
            return false;
        t->dim[t->rank++] = (int64_t)n;
    }
    return !left.len;
}

// False: more than memory holds, an extent of 0 apart, so that no product of extents overflows.
static bool count_elements(OnnxTensor *t, size_t *bytes) {
    size_t most = 1;
    t->count = 1;
    for (uint32_t i = 0; i < t->rank; i++) {
        if (t->dim[i] < 0 || !mem_mul(most, t->dim[i] ? (size_t)t->dim[i] : 1, &most))
            return false;
        t->count *= (size_t)t->dim[i];
    }
    return most < (size_t)1 << 40 && mem_mul(t->count, element_bytes(t->type), bytes);
}

// The numbers of a tensor: in one of three places.
static GanStatus place_numbers(Reader *r, Str raw, bool has_raw, const Outside *o,
                               const Numbers *one, OnnxTensor *t) {
    size_t bytes = 0;
    if (!count_elements(t, &bytes))
        return fail(GAN_ERR_INPUT, "tensor %.*s has an impossible shape", SARG(t->name));
    if (!element_bytes(t->type))
        return fail(GAN_ERR_INPUT, "tensor %.*s is of the element type %d, which is not read here",
                    SARG(t->name), (int)t->type);
    if (o->location.len)
        return use_outside(r, o, bytes, t);
    t->raw = has_raw ? (const uint8_t *)raw.ptr : NULL;
    t->number = one->at;
    if (has_raw ? raw.len != bytes : one->n != t->count)
        return fail(GAN_ERR_INPUT, "tensor %.*s has other numbers than its shape says",
                    SARG(t->name));
    return GAN_OK;
}

static GanStatus read_tensor(Reader *r, Str message, OnnxTensor *t) {
    Str raw = {0};
    bool has_raw = false, fine = true;
    Outside outside = {.length = -1};
    Numbers one = {0};
    ProtoField f;
    for (Str m = message; proto_next(&m, &f);) // its type may come behind its numbers
        if (f.number == 2)
            t->type = (OnnxElement)f.value;
    while (fine && proto_next(&message, &f)) {
        OnnxElement narrow = t->type; // int32_data holds those of 16 bits and less too
        if (f.number == 1)
            fine = put_dims(&f, t);
        else if (f.number == 4)
            put_numbers(r, &f, WireFloat, OnnxFloat, &one);
        else if (f.number == 5)
            put_numbers(r, &f, WireVarint, narrow, &one);
        else if (f.number == 7)
            put_numbers(r, &f, WireVarint, OnnxInt64, &one);
        else if (f.number == 8)
            t->name = f.bytes;
        else if (f.number == 9)
            raw = f.bytes, has_raw = true;
        else if (f.number == 10)
            put_numbers(r, &f, WireDouble, OnnxDouble, &one);
        else if (f.number == 11)
            put_numbers(r, &f, WireVarint, OnnxUint64, &one);
        else if (f.number == 13)
            fine = read_outside(f.bytes, &outside);
    }
    if (!fine || message.len)
        return damaged("a tensor");
    return place_numbers(r, raw, has_raw, &outside, &one, t);
}

// --- nodes ---------------------------------------------------------------------------------------

static GanStatus read_attribute(Reader *r, Str message, OnnxAttribute *out) {
    ProtoField f;
    while (proto_next(&message, &f)) {
        Str left = f.bytes;
        bool first = true;
        uint64_t x;
        if (f.number == 1)
            out->name = f.bytes;
        else if (f.number == 2)
            out->f = proto_as_float(f.value);
        else if (f.number == 3)
            out->i = (int64_t)f.value;
        else if (f.number == 4)
            out->s = f.bytes;
        else if (f.number == 7)
            while (proto_repeated(&f, WireFloat, &left, &first, &x))
                vec_push(r->a, &out->floats, (double)proto_as_float(x));
        else if (f.number == 8)
            while (proto_repeated(&f, WireVarint, &left, &first, &x))
                vec_push(r->a, &out->ints, (int64_t)x);
        else if (f.number == 5) {
            OnnxTensor *t = arena_new(r->a, OnnxTensor);
            TRY(read_tensor(r, f.bytes, t));
            out->t = t;
        }
    }
    return message.len ? damaged("an attribute") : GAN_OK;
}

// PyTorch: "['', 'layer1', 'layer1.0', 'layer1.0.conv1', 'conv2d_3']", the last but one.
static Str scope_of(Str list) {
    Str last = {0}, before = {0};
    while (list.len) {
        list = str_sub(list, str_find(list, '\'') + 1, list.len);
        size_t end = str_find(list, '\'');
        if (end < list.len) {
            before = last;
            last = str_sub(list, 0, end);
        }
        list = str_sub(list, end + 1, list.len);
    }
    return before;
}

static GanStatus read_node(Reader *r, Str message, OnnxNode *out) {
    ProtoField f;
    Str key, value;
    while (proto_next(&message, &f))
        if (f.number == 1)
            vec_push(r->a, &out->in, f.bytes);
        else if (f.number == 2)
            vec_push(r->a, &out->out, f.bytes);
        else if (f.number == 3)
            out->name = f.bytes;
        else if (f.number == 4)
            out->op = f.bytes;
        else if (f.number == 5)
            TRY(read_attribute(r, f.bytes, vec_add(r->a, &out->attribute)));
        else if (f.number == 7)
            out->domain = str_eq(f.bytes, STR("ai.onnx")) ? (Str){0} : f.bytes;
        else if (f.number == 9 && read_entry(f.bytes, &key, &value) &&
                 str_eq(key, STR("pkg.torch.onnx.name_scopes")))
            out->scope = scope_of(value);
    while (out->in.n && !out->in.at[out->in.n - 1].len)
        out->in.n--; // left out
    return message.len ? damaged("a node") : GAN_OK;
}

// --- inputs and outputs --------------------------------------------------------------------------

static bool read_dim(Str message, OnnxInput *out) {
    ProtoField f;
    if (out->rank == ONNX_RANK)
        return false;
    out->dim[out->rank] = -1;
    while (proto_next(&message, &f))
        if (f.number == 1)
            out->dim[out->rank] = (int64_t)f.value;
    out->rank++;
    return !message.len;
}

static bool read_input(Str message, OnnxInput *out) {
    ProtoField f, type, dim;
    bool fine = true;
    while (fine && proto_next(&message, &f)) {
        Str tensor = {0};
        if (f.number == 1)
            out->name = f.bytes;
        for (Str t = f.number == 2 ? f.bytes : (Str){0}; proto_next(&t, &type);)
            tensor = type.number == 1 ? type.bytes : tensor;
        while (fine && proto_next(&tensor, &type)) {
            if (type.number == 1)
                out->type = (OnnxElement)type.value;
            if (type.number != 2)
                continue;
            out->shaped = true;
            while (fine && proto_next(&type.bytes, &dim))
                fine = dim.number != 1 || read_dim(dim.bytes, out);
        }
    }
    return fine && !message.len;
}

// --- the file ------------------------------------------------------------------------------------

static GanStatus read_graph(Reader *r, Str message) {
    ProtoField f;
    while (proto_next(&message, &f))
        if (f.number == 1)
            TRY(read_node(r, f.bytes, vec_add(r->a, &r->f->node)));
        else if (f.number == 5)
            TRY(read_tensor(r, f.bytes, vec_add(r->a, &r->f->initializer)));
        else if (f.number == 15)
            return fail(GAN_ERR_INPUT, "it has sparse weights, which are not read here");
        else if ((f.number == 11 && !read_input(f.bytes, vec_add(r->a, &r->f->input))) ||
                 (f.number == 12 && !read_input(f.bytes, vec_add(r->a, &r->f->output))))
            return damaged("an input or output");
    return message.len ? damaged("its graph") : GAN_OK;
}

static bool read_opset(Str message, OnnxFile *out) {
    ProtoField f;
    Str domain = {0};
    int64_t version = 0;
    while (proto_next(&message, &f)) {
        if (f.number == 1)
            domain = f.bytes;
        if (f.number == 2)
            version = (int64_t)f.value;
    }
    if (!domain.len || str_eq(domain, STR("ai.onnx")))
        out->opset = version;
    return !message.len;
}

static GanStatus read_model(Reader r, Str bytes) {
    OnnxFile *out = r.f;
    ProtoField f;
    bool graph = false;
    if (bytes.len > INT32_MAX) // a message of protocol buffers ends there
        return fail(GAN_ERR_INPUT, "not an ONNX file, which has less than 2 GiB");
    while (proto_next(&bytes, &f))
        if (f.number == 2)
            out->producer = f.bytes;
        else if (f.number == 3)
            out->version = f.bytes;
        else if (f.number == 7 && !graph) {
            graph = true;
            TRY(read_graph(&r, f.bytes));
        } else if (f.number == 8 && !read_opset(f.bytes, out))
            return damaged("its opset");
    if (bytes.len || !graph || !out->opset)
        return fail(GAN_ERR_INPUT, "not an ONNX file, or a damaged one");
    return GAN_OK;
}

GanStatus onnx_open_bytes(Arena *perm, Str bytes, OnnxFile *out) {
    return read_model((Reader){.a = perm, .f = out}, bytes);
}

GanStatus onnx_open(Arena *perm, Str path, OnnxFile *out) {
    FileMap *map = vec_add(perm, &out->map);
    TRY(file_map(path, map));
    Reader r = {.a = perm, .f = out, .folder = path_dir(path)};
    r.below[0] = file_resolved(perm, r.folder);
    r.below[1] = path_dir(file_resolved(perm, path));
    return read_model(r, (Str){(const char *)map->ptr, map->n});
}

void onnx_close(OnnxFile *f) {
    for (uint32_t i = 0; i < f->map.n; i++)
        file_unmap(&f->map.at[i]);
    *f = (OnnxFile){0};
}
