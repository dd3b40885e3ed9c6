// torch.c - state dicts as torch.save writes them.
//
// A pickle maps names to tensors; a tensor in it is a call that makes a view of a storage, and a
// storage is a persistent id of bytes outside. Since PyTorch 1.6 all are members of a zip archive:
// X/data.pkl, and X/data/0, X/data/1, ... for the storages, uncompressed. Before, a file was five
// pickles (a magic number, a version, the writer's machine, the value, the storages' names) and
// then each storage: 8 bytes with its count, and its elements. (torch/serialization.py;
// torch/_utils.py: _rebuild_tensor_v2.)
#define _GNU_SOURCE // memmem
#include "torch.h"

#include "library.h"
#include "pickle.h"

#include <archive.h>
#include <archive_entry.h>
#include <inttypes.h>
#include <string.h>

enum {
    DepthMost = 64,      // of dictionaries in dictionaries
    VisitsMost = 1 << 20 // values on the ways to all tensors; one may be reached in many ways
};

// Storages by the names of their classes; bytes an element.
static const struct {
    const char *name;
    size_t size;
    SafeDtype dtype;
} classes[] = {
    {"FloatStorage", 4, SafeF32},
    {"DoubleStorage", 8, SafeF64},
    {"HalfStorage", 2, SafeF16},
    {"BFloat16Storage", 2, SafeBf16},
    {"ByteStorage", 1, SafeU8},
    {"LongStorage", 8, SafeI64},
    {"IntStorage", 4, SafeI32},
    {"BoolStorage", 1, SafeUnread},
    {"CharStorage", 1, SafeUnread},
    {"ShortStorage", 2, SafeUnread},
    {"ComplexFloatStorage", 8, SafeUnread},
    {"ComplexDoubleStorage", 16, SafeUnread},
};
enum { Classes = sizeof classes / sizeof *classes };

typedef struct Storage {
    Str name, bytes;
} Storage;

typedef struct Torch {
    Arena *perm;
    Str file;
    size_t left; // bytes that may still be unpacked
    Pickle pickle;
    VEC(Storage) storage;
    uint32_t visits;
    struct archive *archive; // owned; here, where running dry does not lose it
    SafeFile out;
} Torch;

static const PickleValue *value_of(const Torch *t, uint32_t id) {
    return &t->pickle.value.at[id];
}

// The k-th of a list, or of a call, whose arguments are from 1 on; None past the end.
static const PickleValue *part(const Torch *t, const PickleValue *v, uint32_t k) {
    return value_of(t, k < v->item.n ? v->item.at[k] : 0);
}

// --- storages ------------------------------------------------------------------------------------

// A storage is named outside the pickle as ("storage", class, name, device, count), in old files
// with a sixth word, where it is a part of another.
typedef struct Outside {
    Str name, class_name;
    uint32_t class; // Classes: none that is known
    bool partial;
} Outside;

static bool read_outside(const Torch *t, const PickleValue *v, Outside *out) {
    const PickleValue *words = part(t, v, 0), *class = part(t, words, 1);
    if (v->kind != PickleOutside || !str_eq(part(t, words, 0)->text, STR("storage")) ||
        class->kind != PickleGlobal)
        return false;
    size_t from = str_find(class->text, ' ') + 1; // behind the module's name
    *out = (Outside){.name = part(t, words, 2)->text,
                     .class_name = str_sub(class->text, from, class->text.len),
                     .partial = part(t, words, 5)->kind == PickleList};
    while (out->class < Classes && !str_eq(out->class_name, str_c(classes[out->class].name)))
        out->class ++;
    return true;
}

static const Storage *find_storage(const Torch *t, Str name) {
    for (uint32_t i = 0; i < t->storage.n; i++)
        if (str_eq(t->storage.at[i].name, name))
            return &t->storage.at[i];
    return NULL;
}

// --- tensors -------------------------------------------------------------------------------------

// What makes a tensor: (storage, offset, sizes, strides, ...), from the first-th of `list` on.
typedef struct Recipe {
    const PickleValue *list;
    uint32_t first;
} Recipe;

// Parameters, and tensors of a class of their own, are calls around the call that makes a tensor.
static bool is_tensor(const Torch *t, const PickleValue *v, Recipe *out) {
    enum { Around = 4 };
    Str called = part(t, v, 0)->text;
    *out = (Recipe){v, 1};
    for (int i = 0; i < Around && v->kind == PickleCall; i++) {
        if (str_eq(called, STR("torch._utils _rebuild_tensor_v2")) ||
            str_eq(called, STR("torch._utils _rebuild_tensor")))
            return true;
        if (str_eq(called, STR("torch._tensor _rebuild_from_type_v2"))) {
            called = part(t, out->list, out->first)->text;
            *out = (Recipe){part(t, out->list, out->first + 2), 0};
        } else if (str_starts(called, STR("torch._utils _rebuild_parameter"))) {
            v = part(t, out->list, out->first);
            called = part(t, v, 0)->text;
            *out = (Recipe){v, 1};
        } else {
            return false;
        }
    }
    return false;
}

typedef struct View {
    size_t offset, stride[DATA_MAX_RANK]; // elements
} View;

static GanStatus refuse_tensor(Str name, const char *why) {
    return fail(GAN_ERR_INPUT, "tensor %.*s %s", SARG(name), why);
}

// Its shape and strides; every element lies within `room` elements, and there are no more of them.
static GanStatus read_view(const Torch *t, const Recipe *r, size_t room, SafeTensor *out, View *v) {
    const PickleValue *sizes = part(t, r->list, r->first + 2),
                      *strides = part(t, r->list, r->first + 3);
    int64_t offset = part(t, r->list, r->first + 1)->whole;
    if (sizes->item.n > DATA_MAX_RANK || sizes->item.n != strides->item.n)
        return fail(GAN_ERR_INPUT, "tensor %.*s has no shape of at most %d axes", SARG(out->name),
                    DATA_MAX_RANK);
    bool fits = true;
    out->count = 1;
    out->rank = sizes->item.n;
    for (uint32_t i = 0; i < out->rank; i++) {
        out->dim[i] = part(t, sizes, i)->whole;
        fits = fits && out->dim[i] >= 0 && mem_mul(out->count, (size_t)out->dim[i], &out->count);
    }
    v->offset = (size_t)offset;
    fits = fits && offset >= 0 && out->count <= room;
    size_t last = v->offset; // element
    for (uint32_t i = 0; i < out->rank && fits && out->count; i++) {
        int64_t stride = part(t, strides, i)->whole;
        size_t way = 0;
        v->stride[i] = (size_t)stride;
        fits = stride >= 0 && mem_mul((size_t)(out->dim[i] - 1), (size_t)stride, &way) &&
               last < room && way < room - last;
        last += way;
    }
    if (!fits || (out->count && last >= room) || v->offset > room)
        return refuse_tensor(out->name, "reaches beyond its numbers");
    return GAN_OK;
}

static bool in_order(const SafeTensor *x, const View *v) {
    size_t next = 1;
    for (uint32_t i = x->rank; i-- > 0;) {
        if (x->dim[i] != 1 && v->stride[i] != next)
            return false;
        next *= (size_t)x->dim[i];
    }
    return true;
}

// The numbers of a view in row-major order.
static const uint8_t *copy_view(Arena *perm, const SafeTensor *x, const View *v,
                                const uint8_t *storage, size_t size) {
    uint8_t *to = arena_alloc(perm, x->bytes, 8);
    int64_t at[DATA_MAX_RANK] = {0};
    for (size_t i = 0; i < x->count; i++) {
        size_t from = v->offset;
        for (uint32_t k = 0; k < x->rank; k++)
            from += (size_t)at[k] * v->stride[k];
        memcpy(to + i * size, storage + from * size, size);
        for (uint32_t k = x->rank; k-- > 0 && ++at[k] == x->dim[k];)
            at[k] = 0;
    }
    return to;
}

static GanStatus read_tensor(Torch *t, Str name, const Recipe *r) {
    Outside from;
    if (!read_outside(t, part(t, r->list, r->first), &from))
        return refuse_tensor(name, "has no numbers in the file");
    const Storage *s = find_storage(t, from.name);
    if (!s)
        return refuse_tensor(name, "has numbers that are not in the file");
    SafeTensor x = {.name = name, .kind = from.class_name, .dtype = SafeUnread};
    x.data = (const uint8_t *)s->bytes.ptr;
    x.bytes = s->bytes.len;
    if (from.class < Classes && !from.partial) {
        size_t size = classes[from.class].size;
        View v = {0};
        TRY(read_view(t, r, s->bytes.len / size, &x, &v));
        x.dtype = classes[from.class].dtype;
        x.bytes = x.count * size;
        x.data =
            in_order(&x, &v) ? x.data + v.offset * size : copy_view(t->perm, &x, &v, x.data, size);
    }
    x.count = x.dtype == SafeUnread ? 0 : x.count;
    vec_push(t->perm, &t->out.tensor, x);
    return GAN_OK;
}

// --- names ---------------------------------------------------------------------------------------

static Str without(Str key, Str prefix) {
    return str_starts(key, prefix) ? str_sub(key, prefix.len, key.len) : key;
}

// The name of what `name` holds under a key. What wraps a net, or is a module's own way to its
// parts, is no part of a name.
static Str name_within(Torch *t, Str name, const PickleValue *key) {
    static const char *const unnamed[] = {"state_dict", "module", "_parameters", "_buffers",
                                          "_modules"};
    Str word = key->kind == PickleWhole ? str_format(t->perm, "%" PRId64, key->whole)
                                        : without(key->text, STR("_orig_mod.")); // of torch.compile
    word = without(word, STR("module."));                                        // of DataParallel
    for (size_t i = 0; i < sizeof unnamed / sizeof *unnamed; i++)
        if (str_eq(word, str_c(unnamed[i])))
            return name;
    return name.len ? str_format(t->perm, "%.*s.%.*s", SARG(name), SARG(word)) : word;
}

static GanStatus walk(Torch *t, uint32_t id, Str name, uint32_t depth);

static GanStatus walk_entry(Torch *t, const PickleValue *key, uint32_t id, Str name,
                            uint32_t depth) {
    PickleKind kind = value_of(t, id)->kind;
    if (kind != PickleList && kind != PickleDict && kind != PickleCall)
        return GAN_OK;
    return walk(t, id, name_within(t, name, key), depth);
}

// A dictionary in order of Python 2 is a call with a list of pairs.
static GanStatus walk_pairs(Torch *t, const PickleValue *v, Str name, uint32_t depth) {
    if (v->kind != PickleCall || !str_eq(part(t, v, 0)->text, STR("collections OrderedDict")))
        return GAN_OK;
    const PickleValue *pairs = part(t, v, 1);
    for (uint32_t i = 0; i < pairs->item.n; i++) {
        const PickleValue *pair = part(t, pairs, i);
        if (pair->item.n == 2)
            TRY(walk_entry(t, part(t, pair, 0), pair->item.at[1], name, depth));
    }
    return GAN_OK;
}

// All tensors in a value, in order.
static GanStatus walk(Torch *t, uint32_t id, Str name, uint32_t depth) {
    const PickleValue *v = value_of(t, id);
    Recipe r;
    if (depth == DepthMost || t->visits++ == VisitsMost)
        return fail(GAN_ERR_INPUT, "its dictionaries are nested too deeply, or hold themselves");
    if (is_tensor(t, v, &r))
        return read_tensor(t, name, &r);
    for (uint32_t i = 0; v->kind == PickleList && i < v->item.n; i++) {
        const PickleValue key = {.kind = PickleWhole, .whole = i};
        TRY(walk_entry(t, &key, v->item.at[i], name, depth + 1));
    }
    TRY(walk_pairs(t, v, name, depth + 1));
    for (uint32_t i = 0; i < v->entry.n; i += 2)
        TRY(walk_entry(t, value_of(t, v->entry.at[i]), v->entry.at[i + 1], name, depth + 1));
    return v->state ? walk(t, v->state, name, depth + 1) : GAN_OK;
}

// --- zip archives --------------------------------------------------------------------------------

static GanStatus damaged(const char *why) {
    return fail(GAN_ERR_INPUT, "a damaged archive: %s", why ? why : "it cannot be unpacked");
}

// The member's bytes, where they lie in the file if they do.
static GanStatus member_bytes(Torch *t, struct archive *a, Str *out) {
    Text copied = {.arena = t->perm};
    const void *at;
    size_t n;
    la_int64_t offset;
    int code;
    *out = (Str){0};
    while ((code = archive_read_data_block(a, &at, &n, &offset)) == ARCHIVE_OK) {
        Str block = {n ? at : t->file.ptr, n}; // the last one may be nothing, and nowhere
        uintptr_t from = (uintptr_t)block.ptr, file = (uintptr_t)t->file.ptr;
        bool there = from >= file && from + n <= file + t->file.len;
        bool next = !n || !out->len || out->ptr + out->len == block.ptr;
        if (there && next && !copied.n) {
            *out = (Str){out->len ? out->ptr : block.ptr, out->len + n};
            continue;
        }
        if (n > t->left)
            return damaged("its members are compressed, which PyTorch's are not");
        t->left -= n;
        text_put(&copied, copied.n ? (Str){0} : *out);
        text_put(&copied, block);
        *out = text_str(&copied);
    }
    return code == ARCHIVE_EOF ? GAN_OK : damaged(archive_error_string(a));
}

// Members are X/data.pkl, X/data/0, X/byteorder, ...; what else is there says nothing of weights.
static GanStatus read_members(Torch *t, struct archive *a, Str *pickle) {
    struct archive_entry *entry;
    int code;
    while ((code = archive_read_next_header(a, &entry)) == ARCHIVE_OK) {
        const char *z = archive_entry_pathname(entry);
        Str path = str_copy(t->perm, str_c(z ? z : "")), bytes;
        Str name = str_sub(path, str_find(path, '/') + 1, path.len), data = STR("data/");
        if (str_eq(name, STR("data.pkl"))) {
            TRY(member_bytes(t, a, pickle));
        } else if (str_starts(name, data)) {
            TRY(member_bytes(t, a, &bytes));
            vec_push(t->perm, &t->storage, ((Storage){str_sub(name, data.len, name.len), bytes}));
        } else if (str_eq(name, STR("byteorder"))) {
            TRY(member_bytes(t, a, &bytes));
            if (!str_eq(bytes, STR("little")))
                return fail(GAN_ERR_INPUT, "its tensors are big-endian, which is not supported");
        }
    }
    return code == ARCHIVE_EOF ? GAN_OK : damaged(archive_error_string(a));
}

static GanStatus read_archive(Torch *t) {
    TRY(archive_ready());
    struct archive *a = t->archive = archive_read_new();
    if (!a)
        return fail(GAN_ERR_MEMORY, "no memory to unpack");
    Str pickle = {0};
    archive_read_support_format_zip(a);
    if (archive_read_open_memory(a, t->file.ptr, t->file.len) != ARCHIVE_OK)
        return damaged(archive_error_string(a));
    TRY(read_members(t, a, &pickle));
    if (!pickle.len)
        return fail(GAN_ERR_INPUT, "an archive without a data.pkl: torch.save did not write it");
    return pickle_read(t->perm, pickle, &t->pickle);
}

// --- before 1.6 ----------------------------------------------------------------------------------

static bool big_endian(const Torch *t) {
    const PickleValue *v = value_of(t, t->pickle.root);
    for (uint32_t i = 0; i < v->entry.n; i += 2)
        if (str_eq(value_of(t, v->entry.at[i])->text, STR("little_endian")))
            return value_of(t, v->entry.at[i + 1])->whole == 0;
    return false;
}

static GanStatus next_pickle(Torch *t, size_t *at) {
    TRY(pickle_read(t->perm, str_sub(t->file, *at, t->file.len), &t->pickle));
    *at += t->pickle.bytes;
    return GAN_OK;
}

static bool class_of(const Torch *t, Str storage, uint32_t *out) {
    for (uint32_t i = 0; i < t->pickle.value.n; i++) {
        Outside o;
        if (read_outside(t, value_of(t, i), &o) && str_eq(o.name, storage))
            return *out = o.class, o.class < Classes;
    }
    return false;
}

static GanStatus take_storage(Torch *t, Str name, size_t *at) {
    uint32_t class = Classes;
    uint64_t count = 0;
    size_t bytes = 0;
    if (!class_of(t, name, &class))
        return fail(GAN_ERR_INPUT, "its storage %.*s has a class that is not supported",
                    SARG(name));
    if (t->file.len - *at < sizeof count)
        return fail(GAN_ERR_INPUT, "the file is cut short");
    memcpy(&count, t->file.ptr + *at, sizeof count);
    *at += sizeof count;
    if (!mem_mul((size_t)count, classes[class].size, &bytes) || bytes > t->file.len - *at)
        return fail(GAN_ERR_INPUT,
                    "the file is truncated: its storage %.*s has %" PRIu64 " elements", SARG(name),
                    count);
    vec_push(t->perm, &t->storage, ((Storage){name, str_sub(t->file, *at, *at + bytes)}));
    *at += bytes;
    return GAN_OK;
}

static GanStatus read_pickles(Torch *t) {
    static const char magic[] = "\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19";
    size_t at = 0;
    TRY(next_pickle(t, &at));
    if (!str_eq(value_of(t, t->pickle.root)->text, STR(magic)))
        return fail(GAN_ERR_INPUT, "a pickle, but torch.save did not write it");
    TRY(next_pickle(t, &at)); // 1001, the only version there was
    TRY(next_pickle(t, &at));
    if (big_endian(t))
        return fail(GAN_ERR_INPUT, "its tensors are big-endian, which is not supported");
    TRY(next_pickle(t, &at));
    Pickle value = t->pickle;
    TRY(next_pickle(t, &at));
    Pickle names = t->pickle;
    t->pickle = value;
    const PickleValue *list = &names.value.at[names.root];
    for (uint32_t i = 0; i < list->item.n; i++)
        TRY(take_storage(t, names.value.at[list->item.at[i]].text, &at));
    return GAN_OK;
}

// -------------------------------------------------------------------------------------------------

static bool is_archive(Str file) {
    return str_starts(file, STR("PK\3\4"));
}

static bool is_pickle(Str file) {
    return str_starts(file, STR("\x80\2"));
}

static GanStatus read_all(void *user) {
    Torch *t = user;
    if (!is_archive(t->file) && !is_pickle(t->file))
        return fail(GAN_ERR_INPUT, "torch.save did not write it");
    TRY(is_archive(t->file) ? read_archive(t) : read_pickles(t));
    TRY(walk(t, t->pickle.root, (Str){0}, 0));
    return t->out.tensor.n ? GAN_OK : fail(GAN_ERR_INPUT, "it holds no tensor");
}

GanStatus torch_open_bytes(Arena *perm, const uint8_t *data, size_t n, SafeFile *out) {
    Torch t = {.perm = perm, .file = {(const char *)data, n}, .left = n};
    *out = (SafeFile){0};
    GanStatus st = arena_guard(perm, "for names and headers", read_all, &t);
    if (t.archive)
        archive_read_free(t.archive);
    *out = st == GAN_OK ? t.out : (SafeFile){0};
    return st;
}

// The member that says what is called what is the first one.
static bool is_torch(Str file) {
    return is_pickle(file) ||
           (is_archive(file) && memmem(file.ptr, file.len < 256 ? file.len : 256, "/data.pkl", 9));
}

// Tensors of torch.nn.utils.parametrizations, by the names that the older functions of
// torch.nn.utils give them, where the file has `beside` too.
#define PARAMETRIZED ".parametrizations.weight."
static const struct {
    const char *name, *older, *beside;
} parametrizations[] = {
    {PARAMETRIZED "original", ".weight_orig", PARAMETRIZED "0._u"}, // spectral_norm
    {PARAMETRIZED "0._u", ".weight_u", PARAMETRIZED "original"},
    {PARAMETRIZED "0._v", ".weight_v", PARAMETRIZED "original"},
    {PARAMETRIZED "original0", ".weight_g", PARAMETRIZED "original1"}, // weight_norm
    {PARAMETRIZED "original1", ".weight_v", PARAMETRIZED "original0"},
};

typedef struct Renamed {
    Arena *perm;
    SafeFile *f;
} Renamed;

static Str older_name(const Renamed *r, Str name) {
    for (size_t k = 0; k < sizeof parametrizations / sizeof *parametrizations; k++) {
        Str own = str_c(parametrizations[k].name);
        if (!str_ends(name, own))
            continue;
        Str stem = str_sub(name, 0, name.len - own.len);
        if (safe_find(r->f, str_format(r->perm, "%.*s%s", SARG(stem), parametrizations[k].beside)))
            return str_format(r->perm, "%.*s%s", SARG(stem), parametrizations[k].older);
    }
    return name;
}

static GanStatus rename_all(void *user) {
    const Renamed *r = user;
    uint32_t n = r->f->tensor.n;
    Str *name = arena_array(r->perm, Str, n);
    for (uint32_t i = 0; i < n; i++)
        name[i] = older_name(r, r->f->tensor.at[i].name);
    for (uint32_t i = 0; i < n; i++) {
        SafeTensor *t = &r->f->tensor.at[i];
        t->name = name[i];
        while (str_ends(t->name, STR(".weight_g")) && t->rank > 1 && t->dim[t->rank - 1] == 1)
            t->rank--; // [rows, 1, 1]: a number for each row
    }
    return GAN_OK;
}

static GanStatus open_either(Arena *perm, const uint8_t *data, size_t n, SafeFile *out) {
    bool torch = is_torch((Str){(const char *)data, n});
    TRY((torch ? torch_open_bytes : safe_open_bytes)(perm, data, n, out));
    return arena_guard(perm, "for names", rename_all, &(Renamed){perm, out});
}

GanStatus weights_open(Arena *perm, Str path, SafeFile *out) {
    return safe_open_by(open_either, perm, path, out);
}

GanStatus weights_are(Str path, bool *out) {
    FileMap map = {0};
    *out = false;
    if (file_is_dir(path) || !file_exists(path))
        return GAN_OK;
    TRY(file_map(path, &map));
    Str file = {(const char *)map.ptr, map.n};
    *out = is_torch(file) ||
           str_starts(str_sub(file, 6, 9), STR("\0\0{")); // a header below 2^48 bytes
    file_unmap(&map);
    return GAN_OK;
}
