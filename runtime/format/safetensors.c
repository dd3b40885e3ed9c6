// safetensors.c - named arrays in one file: 8 bytes of header length, a JSON header, then the
// arrays without gaps.
//
// Reading maps the file and trusts nothing: every offset is checked against the file, the shape and
// its neighbours, so that each byte belongs to exactly one tensor. Writing puts the header first
// and streams the rest.
#include "safetensors.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { HeaderMost = 100 * 1000 * 1000 }; // bytes, the format's own limit

static const struct {
    const char *name;
    size_t size;
} dtypes[] = {
#define X(name, text, size) {text, size},
    SAFE_DTYPES(X)
#undef X
};

// --- numbers -------------------------------------------------------------------------------------

Str safe_dtype_name(SafeDtype dtype) {
    return str_c(dtypes[dtype].name);
}

Str safe_shape(Arena *a, const SafeTensor *t) {
    Text text = {.arena = a};
    text_char(&text, '[');
    for (uint32_t i = 0; i < t->rank; i++)
        text_fmt(&text, "%s%lld", i ? ", " : "", (long long)t->dim[i]);
    text_char(&text, ']');
    return text_str(&text);
}

double safe_at(const SafeTensor *t, size_t i) {
    assert(i < t->count);
    const uint8_t *p = t->data + i * dtypes[t->dtype].size; // may be unaligned, hence the copies
    double d;
    float f;
    uint16_t u16;
    uint32_t u32;
    int32_t i32;
    int64_t i64;
    switch (t->dtype) {
    case SafeF64:
        return memcpy(&d, p, sizeof d), d;
    case SafeF32:
        return memcpy(&f, p, sizeof f), (double)f;
    case SafeBf16:
        memcpy(&u16, p, sizeof u16);
        u32 = (uint32_t)u16 << 16;
        return memcpy(&f, &u32, sizeof f), (double)f;
    case SafeF16:
        return memcpy(&u16, p, sizeof u16), half_value(u16);
    case SafeU8:
        return *p;
    case SafeI64:
        return memcpy(&i64, p, sizeof i64), (double)i64;
    case SafeI32:
        return memcpy(&i32, p, sizeof i32), i32;
    case SafeUnread:
        break;
    }
    bug("safetensors: dtype %d", (int)t->dtype);
}

// Elements and bytes of a shape; false when they do not fit in size_t.
static bool measure(SafeTensor *t) {
    t->count = 1;
    for (uint32_t i = 0; i < t->rank; i++)
        if (t->dim[i] < 0 || !mem_mul(t->count, (size_t)t->dim[i], &t->count))
            return false;
    return mem_mul(t->count, dtypes[t->dtype].size, &t->bytes);
}

// --- reading -------------------------------------------------------------------------------------

static GanStatus read_dtype(Str name, Str dtype, SafeDtype *out) {
    for (size_t i = 0; i < SafeUnread; i++)
        if (str_eq(dtype, str_c(dtypes[i].name)))
            return *out = (SafeDtype)i, GAN_OK;
    if (!dtype.len)
        return fail(GAN_ERR_INPUT, "tensor %.*s: no dtype", SARG(name));
    return *out = SafeUnread, GAN_OK; // F8_E4M3, BOOL, ...: an error where it is used
}

static GanStatus read_tensor(const Json *v, const uint8_t *data, size_t room, SafeTensor *t) {
    const Json *shape = json_get(v, "shape"), *offsets = json_get(v, "data_offsets");
    uint64_t from, to, dim;
    t->name = json_key(v);
    t->kind = json_string(json_get(v, "dtype"), (Str){0});
    TRY(read_dtype(t->name, t->kind, &t->dtype));
    t->rank = json_count(shape);
    if (!shape || t->rank > DATA_MAX_RANK) {
        return fail(GAN_ERR_INPUT, "tensor %.*s: no shape of at most %d axes", SARG(t->name),
                    DATA_MAX_RANK);
    }
    for (uint32_t i = 0; i < t->rank; i++) {
        if (!json_whole(json_at(shape, i), UINT64_MAX, &dim))
            return fail(GAN_ERR_INPUT, "tensor %.*s: bad shape", SARG(t->name));
        t->dim[i] = (int64_t)dim;
    }
    bool two = json_count(offsets) == 2;
    if (!two || !json_whole(json_at(offsets, 0), UINT64_MAX, &from) ||
        !json_whole(json_at(offsets, 1), UINT64_MAX, &to) || from > to)
        return fail(GAN_ERR_INPUT, "tensor %.*s: bad data_offsets", SARG(t->name));
    if (to > room) {
        return fail(GAN_ERR_INPUT, "tensor %.*s ends at byte %" PRIu64 ", the file has %zu",
                    SARG(t->name), to, room);
    }
    if (!measure(t))
        return fail(GAN_ERR_INPUT, "tensor %.*s: its shape is too large", SARG(t->name));
    if (t->dtype == SafeUnread) // how large an element is is not known, and none can be read
        t->bytes = (size_t)(to - from), t->count = 0;
    if (t->bytes != to - from) {
        return fail(GAN_ERR_INPUT,
                    "tensor %.*s: its shape needs %zu bytes, its offsets give %" PRIu64,
                    SARG(t->name), t->bytes, to - from);
    }
    t->data = data + from;
    return GAN_OK;
}

static GanStatus read_meta(Arena *perm, const Json *v, SafeFile *f) {
    for (uint32_t i = 0; i < json_count(v); i++) {
        const Json *entry = json_at(v, i);
        if (!json_is_string(entry))
            return fail(GAN_ERR_INPUT, "metadata %.*s is not text", SARG(json_key(entry)));
        *vec_add(perm, &f->meta) = (SafeMeta){json_key(entry), json_string(entry, (Str){0})};
    }
    return GAN_OK;
}

static int by_place(const void *a, const void *b) {
    const SafeTensor *x = a, *y = b;
    if (x->data != y->data)
        return x->data < y->data ? -1 : 1;
    if (x->bytes != y->bytes)
        return x->bytes < y->bytes ? -1 : 1; // an empty one before its neighbour
    return str_cmp(x->name, y->name);
}

static GanStatus check_places(const SafeFile *f, const uint8_t *data, size_t room) {
    size_t at = 0;
    for (uint32_t i = 0; i < f->tensor.n; i++) {
        const SafeTensor *t = &f->tensor.at[i];
        size_t from = (size_t)(t->data - data);
        if (from != at) {
            return fail(GAN_ERR_INPUT, "tensor %.*s %s", SARG(t->name),
                        from < at ? "overlaps another" : "leaves a gap before it");
        }
        at += t->bytes;
    }
    return at == room ? GAN_OK : fail(GAN_ERR_INPUT, "%zu bytes belong to no tensor", room - at);
}

typedef struct Opening {
    Arena *perm;
    const uint8_t *data;
    size_t n;
    SafeFile file;
} Opening;

static GanStatus open_header(void *user) {
    Opening *o = user;
    const uint8_t *data = o->data;
    const Json *root = NULL;
    uint64_t length = 0;
    size_t n = o->n;
    if (n < 8)
        return fail(GAN_ERR_INPUT, "not a safetensors file: %zu bytes", n);
    for (uint32_t i = 0; i < 8; i++)
        length |= (uint64_t)data[i] << 8 * i;
    if (length > HeaderMost)
        return fail(GAN_ERR_INPUT, "not a safetensors file: it begins with no header");
    if (length > n - 8) {
        return fail(GAN_ERR_INPUT,
                    "truncated safetensors file: %zu bytes, and its header has %" PRIu64, n,
                    length);
    }
    if (length == 0 || data[8] != '{')
        return fail(GAN_ERR_INPUT, "not a safetensors file: its header is not a JSON object");
    TRY(json_parse(o->perm, (Str){(const char *)data + 8, (size_t)length},
                   STR("safetensors header"), &root));
    const uint8_t *body = data + 8 + length;
    size_t room = n - 8 - (size_t)length;
    for (uint32_t i = 0; i < json_count(root); i++) {
        const Json *entry = json_at(root, i);
        if (str_eq(json_key(entry), STR("__metadata__")))
            TRY(read_meta(o->perm, entry, &o->file));
        else
            TRY(read_tensor(entry, body, room, vec_add(o->perm, &o->file.tensor)));
    }
    SafeFile *f = &o->file;
    if (f->tensor.n)
        qsort(f->tensor.at, f->tensor.n, sizeof *f->tensor.at, by_place);
    return check_places(f, body, room);
}

GanStatus safe_open_bytes(Arena *perm, const uint8_t *data, size_t n, SafeFile *out) {
    Opening o = {.perm = perm, .data = data, .n = n};
    *out = (SafeFile){0};
    TRY(arena_guard(perm, "for names and headers", open_header, &o));
    *out = o.file;
    return GAN_OK;
}

GanStatus safe_open_by(SafeReader *reader, Arena *perm, Str path, SafeFile *out) {
    FileMap map = {0};
    *out = (SafeFile){0};
    TRY(file_map(path, &map));
    GanStatus st = reader(perm, map.ptr, map.n, out);
    if (st != GAN_OK) {
        file_unmap(&map);
        *out = (SafeFile){0};
        return fail_in(st, "%.*s", SARG(path));
    }
    out->map = map;
    return GAN_OK;
}

GanStatus safe_open(Arena *perm, Str path, SafeFile *out) {
    return safe_open_by(safe_open_bytes, perm, path, out);
}

void safe_close(SafeFile *f) {
    file_unmap(&f->map);
    *f = (SafeFile){0};
}

const SafeTensor *safe_find(const SafeFile *f, Str name) {
    for (uint32_t i = 0; i < f->tensor.n; i++)
        if (str_eq(f->tensor.at[i].name, name))
            return &f->tensor.at[i];
    return NULL;
}

// --- writing -------------------------------------------------------------------------------------

struct SafeOut {
    FileOut *file;
    uint64_t left; // bytes of tensors still to come
};

static void put_tensor(JsonOut *j, Arena scratch, const SafeTensor *t, uint64_t from) {
    json_member_open(j, str_z(&scratch, t->name), '{');
    json_member_str(j, "dtype", safe_dtype_name(t->dtype));
    json_member_open(j, "shape", '[');
    for (uint32_t i = 0; i < t->rank; i++)
        json_put_int(j, t->dim[i]);
    json_close(j, ']');
    json_member_open(j, "data_offsets", '[');
    json_put_int(j, (int64_t)from);
    json_put_int(j, (int64_t)(from + t->bytes));
    json_close(j, ']');
    json_close(j, '}');
}

// What the header is made of. Names become zero-terminated in an arena of their own, so that the
// text may grow.
typedef struct Header {
    SafeOut *f;
    SafeTensor *tensor;
    size_t n;
    const SafeMeta *meta;
    size_t metas;
    Arena text, names;
} Header;

static GanStatus write_header(void *user) {
    Header *h = user;
    SafeOut *f = h->f;
    Text text = {.arena = &h->text};
    JsonOut j = {.text = &text};
    json_open(&j, '{');
    if (h->metas) {
        json_member_open(&j, "__metadata__", '{');
        for (size_t i = 0; i < h->metas; i++) {
            Arena scratch = h->names;
            json_member_str(&j, str_z(&scratch, h->meta[i].key), h->meta[i].value);
        }
        json_close(&j, '}');
    }
    for (size_t i = 0; i < h->n; i++) {
        SafeTensor *t = &h->tensor[i];
        if (!measure(t))
            return fail(GAN_ERR_INPUT, "tensor %.*s: its shape is too large", SARG(t->name));
        put_tensor(&j, h->names, t, f->left);
        f->left += t->bytes;
    }
    json_close(&j, '}');
    while (text.n % 8 != 0)
        text_char(&text, ' '); // so that the first tensor is aligned in a mapped file
    Str header = text_str(&text);
    if (header.len > HeaderMost)
        return fail(GAN_ERR_INPUT, "a header of %zu bytes is too large", header.len);
    uint8_t length[8];
    for (uint32_t i = 0; i < 8; i++)
        length[i] = (uint8_t)((uint64_t)header.len >> 8 * i);
    TRY(file_out_put(f->file, length, sizeof length));
    return file_out_put(f->file, header.ptr, header.len);
}

GanStatus safe_out_open(Str path, SafeTensor *tensor, size_t n, const SafeMeta *meta, size_t metas,
                        SafeOut **out) {
    SafeOut *f = mem_alloc(sizeof *f);
    Header h = {.f = f, .tensor = tensor, .n = n, .meta = meta, .metas = metas};
    GanStatus st = f ? GAN_OK : fail(GAN_ERR_MEMORY, "no memory to write %.*s", SARG(path));
    if (st == GAN_OK)
        st = arena_init(&h.text, (size_t)1 << 30);
    if (st == GAN_OK)
        st = arena_init(&h.names, 1 << 20);
    if (st == GAN_OK)
        st = file_out_open(path, &f->file);
    if (st == GAN_OK)
        st = arena_guard(&h.text, "for names and headers", write_header, &h);
    arena_release(&h.text);
    arena_release(&h.names);
    if (st == GAN_OK)
        *out = f;
    else
        safe_out_abandon(f);
    return st;
}

GanStatus safe_out_put(SafeOut *f, const void *data, size_t n) {
    if (n > f->left)
        bug("safetensors: more bytes than the header says");
    f->left -= n;
    return file_out_put(f->file, data, n);
}

FileOut *safe_out_end(SafeOut *f) {
    if (f->left)
        bug("safetensors: %" PRIu64 " bytes fewer than the header says", f->left);
    FileOut *file = f->file;
    mem_free(f);
    return file;
}

GanStatus safe_out_commit(SafeOut *f) {
    return file_out_commit(safe_out_end(f));
}

void safe_out_abandon(SafeOut *f) {
    if (!f)
        return;
    file_out_abandon(f->file);
    mem_free(f);
}
