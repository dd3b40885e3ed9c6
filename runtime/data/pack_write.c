// pack_write.c - writing packs, see pack_format.h.
//
// In: records of equal size with a name each, in order. Out: a file, or the same bytes in memory. A
// full block of records is hashed and written at once, so memory grows only with the names and
// hashes.
#include "bytes.h"
#include "pack_format.h"
#include "sources.h"

#include <math.h>
#include <string.h>

static GanStatus put(Bytes *to, const void *data, size_t n) {
    return bytes_put(to, data, n)
               ? GAN_OK
               : fail(GAN_ERR_MEMORY, "no memory for %zu bytes of a pack", to->n + n);
}

struct PackWriter {
    FileOut *file; // NULL: to memory
    Bytes memory;  // the file's bytes, when in memory
    Bytes block;   // records not yet hashed
    Bytes hashes, offsets, names;
    PackField field[PACK_MAX_FIELDS];
    uint32_t fields;
    size_t stride;
    bool missing; // NaN is counted
    uint64_t count, per_block;
    uint64_t size; // bytes written
};

static GanStatus send(PackWriter *w, const void *data, size_t n) {
    w->size += n;
    return w->file ? file_out_put(w->file, data, n) : put(&w->memory, data, n);
}

static void free_writer(PackWriter *w) {
    mem_free(w->memory.at);
    mem_free(w->block.at);
    mem_free(w->hashes.at);
    mem_free(w->offsets.at);
    mem_free(w->names.at);
    mem_free(w);
}

void pack_writer_abandon(PackWriter *w) {
    if (!w)
        return;
    file_out_abandon(w->file);
    free_writer(w);
}

GanStatus pack_writer_open(Str path, const PackField *field, uint32_t fields, PackWriter **out) {
    static const char lead[PackLead] = PACK_LEAD_TEXT;
    static const uint64_t zero = 0;
    assert(fields >= 1 && fields <= PACK_MAX_FIELDS);
    PackWriter *w = mem_alloc(sizeof *w);
    if (!w)
        return fail(GAN_ERR_MEMORY, "no memory to write a pack");
    w->fields = fields;
    for (uint32_t i = 0; i < fields; i++) {
        PackField *f = &w->field[i];
        *f = field[i];
        f->offset = w->stride;
        f->bytes = pack_dtype_size(f->dtype);
        for (uint32_t k = 0; k < f->rank; k++)
            f->bytes *= (size_t)f->dim[k];
        w->stride += (f->bytes + PackAlign - 1) / PackAlign * PackAlign;
    }
    w->per_block = pack_block(w->stride);
    GanStatus st = path.len ? file_out_open(path, &w->file) : GAN_OK;
    if (st == GAN_OK)
        st = send(w, lead, sizeof lead);
    if (st == GAN_OK)
        st = put(&w->offsets, &zero, sizeof zero);
    if (st != GAN_OK) {
        pack_writer_abandon(w);
        return st;
    }
    *out = w;
    return GAN_OK;
}

size_t pack_writer_stride(const PackWriter *w) {
    return w->stride;
}

const PackField *pack_writer_field(const PackWriter *w, uint32_t i) {
    return &w->field[i];
}

static GanStatus end_block(PackWriter *w) {
    if (w->block.n == 0)
        return GAN_OK;
    Hash128 hash = hash128(w->block.at, w->block.n);
    TRY(put(&w->hashes, &hash, sizeof hash));
    TRY(send(w, w->block.at, w->block.n));
    w->block.n = 0;
    return GAN_OK;
}

static void count_missing(PackField *f, const uint8_t *record) {
    float v;
    for (size_t i = 0; f->dtype == PackF32 && i < f->bytes; i += sizeof v) {
        memcpy(&v, record + f->offset + i, sizeof v);
        f->missing += isnan(v) != 0;
    }
}

GanStatus pack_writer_add(PackWriter *w, const void *record, Str name) {
    for (uint32_t i = 0; w->missing && i < w->fields; i++)
        count_missing(&w->field[i], record);
    TRY(put(&w->block, record, w->stride));
    TRY(put(&w->names, name.ptr, name.len));
    uint64_t end = w->names.n;
    TRY(put(&w->offsets, &end, sizeof end));
    w->count++;
    return w->count % w->per_block == 0 ? end_block(w) : GAN_OK;
}

void pack_writer_count_missing(PackWriter *w) {
    w->missing = true;
}

void pack_writer_range(PackWriter *w, uint32_t field, double lo, double hi) {
    w->field[field].lo = lo;
    w->field[field].hi = hi;
}

// --- header --------------------------------------------------------------------------------------

static void put_field(JsonOut *j, const PackField *f) {
    static const char *const kinds[] = {"image", "float", "label"};
    json_open(j, '{');
    json_member_str(j, "name", f->name);
    json_member_str(j, "kind", str_c(kinds[f->kind]));
    json_member_str(j, "dtype", str_c(pack_dtype_name(f->dtype)));
    json_member_open(j, "shape", '[');
    for (uint32_t i = 0; i < f->rank; i++)
        json_put_int(j, f->dim[i]);
    json_close(j, ']');
    json_member_int(j, "offset", (int64_t)f->offset);
    if (f->kind == DataLabel) {
        json_member_int(j, "classes", f->classes);
        if (f->class_name) {
            json_member_open(j, "class_names", '[');
            for (uint32_t i = 0; i < f->classes; i++)
                json_put_str(j, f->class_name[i]);
            json_close(j, ']');
        }
    } else {
        json_member_open(j, "range", '[');
        json_put_double(j, f->lo);
        json_put_double(j, f->hi);
        json_close(j, ']');
    }
    if (f->rate)
        json_member_int(j, "rate", f->rate);
    if (f->missing)
        json_member_int(j, "missing", (int64_t)f->missing);
    json_close(j, '}');
}

static Str make_header(const PackWriter *w, Arena *a, Str source, Str fit) {
    Text text = {.arena = a};
    JsonOut j = {.text = &text};
    json_open(&j, '{');
    json_member_str(&j, "format", STR("gan-pack-1"));
    json_member_int(&j, "count", (int64_t)w->count);
    json_member_int(&j, "stride", (int64_t)w->stride);
    json_member_int(&j, "block", (int64_t)w->per_block);
    json_member_open(&j, "fields", '[');
    for (uint32_t i = 0; i < w->fields; i++)
        put_field(&j, &w->field[i]);
    json_close(&j, ']');
    json_member_str(&j, "source", source);
    json_member_str(&j, "fit", fit);
    json_member_str(&j, "content", hash_hex(a, hash128(w->hashes.at, w->hashes.n)));
    json_close(&j, '}');
    return text_str(&text);
}

typedef struct Ending {
    PackWriter *w;
    Arena scratch;
    Str source, fit;
} Ending;

static GanStatus write_end(void *user) {
    Ending *e = user;
    PackWriter *w = e->w;
    TRY(end_block(w));
    // Hashes and names become one run of bytes, as they lie in the file: that is what the content
    // hash covers.
    TRY(put(&w->hashes, w->offsets.at, w->offsets.n));
    TRY(put(&w->hashes, w->names.at, w->names.n));
    TRY(send(w, w->hashes.at, w->hashes.n));
    Str header = make_header(w, &e->scratch, e->source, e->fit);
    PackTrailer t = {.version = PackVersion,
                     .order = PACK_ORDER,
                     .header = w->size,
                     .header_size = header.len,
                     .file_size = w->size + header.len + sizeof t,
                     .hash = hash128(header.ptr, header.len)};
    memcpy(t.begin, PACK_END, sizeof t.begin);
    memcpy(t.end, PACK_MAGIC, sizeof t.end);
    TRY(send(w, header.ptr, header.len));
    return send(w, &t, sizeof t);
}

// Frees w on failure.
static GanStatus end_pack(PackWriter *w, Str source, Str fit) {
    Ending e = {.w = w, .source = source, .fit = fit};
    GanStatus st = w->count ? arena_init(&e.scratch, (size_t)1 << 30)
                            : fail(GAN_ERR_INPUT, "a pack without samples");
    if (st == GAN_OK)
        st = arena_guard(&e.scratch, "for names and headers", write_end, &e);
    arena_release(&e.scratch);
    if (st != GAN_OK)
        pack_writer_abandon(w);
    return st;
}

GanStatus pack_writer_commit(PackWriter *w, Str source, Str fit) {
    assert(w->file);
    TRY(end_pack(w, source, fit));
    GanStatus st = file_out_commit(w->file);
    free_writer(w);
    return st;
}

GanStatus pack_writer_open_result(Arena *perm, PackWriter *w, Str source, Str fit, Pack *out) {
    assert(!w->file);
    TRY(end_pack(w, source, fit));
    GanStatus st = pack_open_bytes(perm, (const uint8_t *)w->memory.at, w->memory.n, out);
    if (st == GAN_OK) {
        out->heap = (uint8_t *)w->memory.at;
        w->memory = (Bytes){0};
    }
    free_writer(w);
    return st;
}
