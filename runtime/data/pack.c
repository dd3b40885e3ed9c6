// pack.c - reading packs, see pack_format.h. Opening touches the lead, the trailer and the header
// only.
#include "pack_format.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

static const struct {
    const char *name;
    size_t size;
} dtypes[] = {
#define X(name, text, size) {text, size},
    PACK_DTYPES(X)
#undef X
};
static const char *const kinds[] = {"image", "float", "label"};
enum { Dtypes = sizeof dtypes / sizeof *dtypes, Kinds = sizeof kinds / sizeof *kinds };

const char *pack_dtype_name(PackDtype t) {
    return dtypes[t].name;
}

size_t pack_dtype_size(PackDtype t) {
    return dtypes[t].size;
}

GanStatus data_spares(Str path, Str begins, const char *what) {
    FileMap map = {0};
    if (!file_exists(path) || file_is_dir(path) || file_map(path, &map) != GAN_OK)
        return GAN_OK; // what cannot be mapped is no file, or writing says why
    bool other = map.n && !str_starts((Str){(const char *)map.ptr, map.n}, begins);
    file_unmap(&map);
    return other ? fail(GAN_ERR_INPUT,
                        "%.*s is there already, and is no %s: name another file, or move it away",
                        SARG(path), what)
                 : GAN_OK;
}

GanStatus pack_spares(Str path) {
    return data_spares(path, STR(PACK_MAGIC), "pack");
}

// --- header --------------------------------------------------------------------------------------

static bool read_word(const Json *v, const char *const *words, size_t stride, size_t n,
                      uint32_t *out) {
    Str s = json_string(v, (Str){0});
    for (uint32_t i = 0; i < n; i++) {
        const char *const *word = (const char *const *)((const char *)words + i * stride);
        if (str_eq(s, str_c(*word)))
            return *out = i, true;
    }
    return false;
}

static bool read_shape(const Json *shape, PackField *f) {
    size_t count = 1;
    uint32_t rank = json_count(shape);
    if (!shape || rank > DATA_MAX_RANK)
        return false;
    f->rank = rank;
    for (uint32_t i = 0; i < rank; i++) {
        uint64_t dim;
        if (!json_whole(json_at(shape, i), UINT32_MAX, &dim) || dim == 0 ||
            !mem_mul(count, (size_t)dim, &count))
            return false;
        f->dim[i] = (int64_t)dim;
    }
    return mem_mul(count, pack_dtype_size(f->dtype), &f->bytes);
}

static bool read_classes(Arena *perm, const Json *v, PackField *f) {
    const Json *names = json_get(v, "class_names");
    uint64_t classes;
    if (!json_whole(json_get(v, "classes"), UINT32_MAX, &classes) || classes == 0)
        return false;
    f->classes = (uint32_t)classes;
    if (!names)
        return true;
    if (json_count(names) != f->classes)
        return false;
    Str *name = arena_array(perm, Str, f->classes);
    for (uint32_t i = 0; i < f->classes; i++) {
        if (!json_is_string(json_at(names, i)))
            return false;
        name[i] = json_string(json_at(names, i), (Str){0});
    }
    f->class_name = name;
    return true;
}

// Packs of other things than sounds, and of sounds by older programs, have none.
static bool read_rate(const Json *v, PackField *f) {
    uint64_t rate = 0;
    bool ok = !v || (json_whole(v, SOUND_RATE_MOST, &rate) && rate > 0);
    f->rate = (uint32_t)rate;
    return ok;
}

static bool read_field(Arena *perm, const Json *v, size_t stride, PackField *f) {
    uint32_t kind, dtype;
    uint64_t offset;
    f->name = json_string(json_get(v, "name"), (Str){0});
    if (f->name.len == 0 || !read_word(json_get(v, "kind"), kinds, sizeof *kinds, Kinds, &kind))
        return false;
    if (!read_word(json_get(v, "dtype"), &dtypes[0].name, sizeof *dtypes, Dtypes, &dtype))
        return false;
    f->kind = (DataKind)kind;
    f->dtype = (PackDtype)dtype;
    if (!read_shape(json_get(v, "shape"), f))
        return false;
    if (!json_whole(json_get(v, "offset"), stride, &offset))
        return false;
    f->offset = (size_t)offset;
    if (f->offset % PackAlign != 0 || f->bytes > stride || f->offset > stride - f->bytes)
        return false;
    if (f->kind == DataImage && f->rank != 3)
        return false;
    if (f->kind == DataLabel)
        return f->rank == 0 && f->dtype == PackU32 && read_classes(perm, v, f);
    const Json *missing = json_get(v, "missing");
    if (f->dtype == PackU32 || !read_rate(json_get(v, "rate"), f) ||
        (missing && !json_whole(missing, INT64_MAX, &f->missing)))
        return false;
    f->lo = json_number(json_at(json_get(v, "range"), 0), NAN);
    f->hi = json_number(json_at(json_get(v, "range"), 1), NAN);
    return isfinite(f->lo) && isfinite(f->hi) && f->lo <= f->hi;
}

static bool read_header(Arena *perm, const Json *v, Pack *p) {
    uint64_t stride;
    if (!str_eq(json_string(json_get(v, "format"), (Str){0}), STR("gan-pack-1")))
        return false;
    if (!json_whole(json_get(v, "count"), UINT64_C(1) << 48, &p->count) || p->count == 0)
        return false;
    if (!json_whole(json_get(v, "stride"), UINT64_C(1) << 40, &stride) || stride == 0 ||
        stride % PackAlign != 0)
        return false;
    p->stride = (size_t)stride;
    if (!json_whole(json_get(v, "block"), UINT64_C(1) << 48, &p->block) || p->block == 0)
        return false;
    p->source = json_string(json_get(v, "source"), (Str){0});
    p->fit = json_string(json_get(v, "fit"), (Str){0});
    p->content = json_string(json_get(v, "content"), (Str){0});
    const Json *fields = json_get(v, "fields");
    p->fields = json_count(fields);
    if (p->fields == 0 || p->fields > PACK_MAX_FIELDS)
        return false;
    for (uint32_t i = 0; i < p->fields; i++)
        if (!read_field(perm, json_at(fields, i), p->stride, &p->field[i]))
            return false;
    return true;
}

// --- opening -------------------------------------------------------------------------------------

static GanStatus check_trailer(const uint8_t *data, size_t n, PackTrailer *t) {
    static const char lead[PackLead] = PACK_LEAD_TEXT;
    if (n < sizeof PACK_MAGIC - 1 || memcmp(data, PACK_MAGIC, sizeof PACK_MAGIC - 1) != 0)
        return fail(GAN_ERR_INPUT, "not a pack file");
    if (n < PackLead + sizeof *t)
        return fail(GAN_ERR_INPUT, "truncated pack: %zu bytes", n);
    if (memcmp(data, lead, PackLead) != 0)
        return fail(GAN_ERR_INPUT, "damaged pack: its first 4096 bytes are not what was written");
    memcpy(t, data + n - sizeof *t, sizeof *t);
    if (memcmp(t->begin, PACK_END, 8) != 0 || memcmp(t->end, PACK_MAGIC, 8) != 0) {
        return fail(GAN_ERR_INPUT, "truncated pack: %zu bytes, and the last are not its trailer",
                    n);
    }
    if (t->order != PACK_ORDER)
        return fail(GAN_ERR_INPUT, "pack of a machine with another byte order");
    if (t->version != PackVersion) {
        return fail(GAN_ERR_INPUT, "pack of version %" PRIu32 "; this program reads %d", t->version,
                    PackVersion);
    }
    if (t->file_size != n) {
        return fail(GAN_ERR_INPUT, "pack of the wrong size: %zu bytes, written as %" PRIu64, n,
                    t->file_size);
    }
    size_t room = n - sizeof *t;
    if (t->header < PackLead || t->header > room || t->header_size != room - t->header)
        return fail(GAN_ERR_INPUT, "damaged pack: its header lies outside the file");
    Hash128 hash = hash128(data + t->header, (size_t)t->header_size);
    if (hash.lo != t->hash.lo || hash.hi != t->hash.hi)
        return fail(GAN_ERR_INPUT, "damaged pack: its header does not match its hash");
    return GAN_OK;
}

// Records, hashes and names fill the room between lead and header exactly.
static bool place_sections(const PackTrailer *t, Pack *p) {
    size_t room = (size_t)t->header - PackLead, records, offsets;
    if (!mem_mul((size_t)p->count, p->stride, &records) || records > room)
        return false;
    if (!mem_mul((size_t)pack_blocks(p), sizeof(Hash128), &p->hashes_size) ||
        p->hashes_size > room - records)
        return false;
    p->names_size = room - records - p->hashes_size;
    if (!mem_mul((size_t)p->count + 1, sizeof(uint64_t), &offsets) || offsets > p->names_size)
        return false;
    p->records = p->bytes + PackLead;
    p->hashes = p->records + records;
    p->names = p->hashes + p->hashes_size;
    return true;
}

typedef struct Opening {
    Arena *perm;
    PackTrailer trailer;
    Pack pack;
} Opening;

static GanStatus open_header(void *user) {
    Opening *o = user;
    Pack *p = &o->pack;
    const Json *header = NULL;
    Str text = {(const char *)p->bytes + o->trailer.header, (size_t)o->trailer.header_size};
    TRY(json_parse(o->perm, text, STR("pack header"), &header));
    if (!read_header(o->perm, header, p))
        return fail(GAN_ERR_INPUT, "pack header that this program cannot use");
    if (!place_sections(&o->trailer, p))
        return fail(GAN_ERR_INPUT, "pack header and file size do not agree");
    return GAN_OK;
}

GanStatus pack_open_bytes(Arena *perm, const uint8_t *data, size_t n, Pack *out) {
    Opening o = {.perm = perm, .pack = {.bytes = data, .n = n}};
    *out = (Pack){0};
    TRY(check_trailer(data, n, &o.trailer));
    TRY(arena_guard(perm, "for names and headers", open_header, &o));
    *out = o.pack;
    return GAN_OK;
}

GanStatus pack_open(Arena *perm, Str path, Pack *out) {
    FileMap map = {0};
    *out = (Pack){0};
    TRY(file_map(path, &map));
    GanStatus st = pack_open_bytes(perm, map.ptr, map.n, out);
    if (st != GAN_OK) {
        file_unmap(&map);
        return fail_in(st, "%.*s", SARG(path));
    }
    out->map = map;
    return GAN_OK;
}

void pack_close(Pack *p) {
    file_unmap(&p->map);
    mem_free(p->heap);
    *p = (Pack){0};
}

// --- samples -------------------------------------------------------------------------------------

const uint8_t *pack_record(const Pack *p, uint64_t sample) {
    assert(sample < p->count);
    return p->records + (size_t)sample * p->stride;
}

uint32_t pack_least_class(const Pack *p, const PackField *f) {
    uint32_t least = f->classes;
    if (f->kind != DataLabel || f->class_name)
        return 0;
    for (uint64_t i = 0; least && i < p->count; i++) {
        uint32_t class;
        memcpy(&class, pack_record(p, i) + f->offset, sizeof class);
        least = class < least ? class : least;
    }
    return least;
}

Str pack_name(const Pack *p, uint64_t sample) {
    uint64_t from[2];
    assert(sample < p->count);
    memcpy(from, p->names + (size_t)sample * sizeof *from, sizeof from);
    size_t offsets = ((size_t)p->count + 1) * sizeof *from, size = p->names_size - offsets;
    if (from[0] > from[1] || from[1] > size)
        return (Str){0};
    return (Str){(const char *)p->names + offsets + from[0], (size_t)(from[1] - from[0])};
}

uint64_t pack_blocks(const Pack *p) {
    return (p->count - 1) / p->block + 1;
}

GanStatus pack_check(const Pack *p, uint64_t block) {
    uint64_t from = block * p->block, n = p->count - from < p->block ? p->count - from : p->block;
    Hash128 want, have = hash128(pack_record(p, from), (size_t)n * p->stride);
    memcpy(&want, p->hashes + block * sizeof want, sizeof want);
    if (have.lo == want.lo && have.hi == want.hi)
        return GAN_OK;
    Str name = pack_name(p, from);
    return fail(GAN_ERR_INPUT,
                "damaged pack: samples %" PRIu64 " to %" PRIu64
                " (from %.*s) do not match their hash",
                from, from + n - 1, SARG(name));
}

GanStatus pack_verify(const Pack *p) {
    char hex[33];
    Hash128 content = hash128(p->hashes, p->hashes_size + p->names_size);
    snprintf(hex, sizeof hex, "%016" PRIx64 "%016" PRIx64, content.hi, content.lo);
    if (!str_eq(p->content, str_c(hex)))
        return fail(GAN_ERR_INPUT, "damaged pack: its hashes or names were changed");
    for (uint64_t k = 0; k < pack_blocks(p); k++)
        TRY(pack_check(p, k));
    return GAN_OK;
}
