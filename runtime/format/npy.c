// npy.c - NumPy's array files: versions 1 to 3, C or Fortran order, numbers of up to 8 bytes in
// either byte order.
//
// In: bytes of a file. Out: an Array that points into them. The header is a Python dictionary of
// three keys; it is parsed by the small grammar that NumPy writes, never evaluated.
#include "format.h"

#include <math.h>
#include <string.h>

typedef struct Cursor {
    const char *at, *end;
} Cursor;

static void skip_blanks(Cursor *c) {
    while (c->at < c->end && (*c->at == ' ' || *c->at == '\n' || *c->at == '\t'))
        c->at++;
}

static bool take(Cursor *c, char wanted) {
    skip_blanks(c);
    if (c->at == c->end || *c->at != wanted)
        return false;
    c->at++;
    return true;
}

static bool take_word(Cursor *c, Str word) {
    skip_blanks(c);
    if (!str_starts((Str){c->at, (size_t)(c->end - c->at)}, word))
        return false;
    c->at += word.len;
    return true;
}

static bool take_string(Cursor *c, Str *out) {
    skip_blanks(c);
    if (c->at == c->end || (*c->at != '\'' && *c->at != '"'))
        return false;
    char quote = *c->at++;
    const char *from = c->at;
    while (c->at < c->end && *c->at != quote)
        c->at++;
    *out = (Str){from, (size_t)(c->at - from)};
    return take(c, quote);
}

static bool take_number(Cursor *c, int64_t *out) {
    skip_blanks(c);
    const char *from = c->at;
    while (c->at < c->end && *c->at >= '0' && *c->at <= '9')
        c->at++;
    return str_to_int((Str){from, (size_t)(c->at - from)}, out);
}

static GanStatus take_shape(Cursor *c, Array *out) {
    if (!take(c, '('))
        return fail(GAN_ERR_INPUT, "broken npy header: no shape");
    while (!take(c, ')')) {
        if (out->rank == DATA_MAX_RANK)
            return fail(GAN_ERR_INPUT, "npy array of more than %d axes", DATA_MAX_RANK);
        int64_t *dim = &out->dim[out->rank++];
        if (!take_number(c, dim))
            return fail(GAN_ERR_INPUT, "broken npy header: bad shape");
        take(c, 'L'); // Python 2 wrote long integers so
        if (take(c, ','))
            continue;
        return take(c, ')') ? GAN_OK : fail(GAN_ERR_INPUT, "broken npy header: bad shape");
    }
    return GAN_OK;
}

static GanStatus read_descr(Str descr, Array *out) {
    bool known = descr.len == 3 && !memchr(descr.ptr, 0, descr.len) && // strchr finds the 0 too
                 strchr("<>|=", descr.ptr[0]) && strchr("uif", descr.ptr[1]) &&
                 strchr("1248", descr.ptr[2]);
    if (!known) {
        return fail(GAN_ERR_INPUT,
                    "npy type '%.*s' is not read; images are u1 or u2, other samples f2, f4 or f8, "
                    "labels any u or i",
                    SARG(descr));
    }
    out->kind = descr.ptr[1];
    out->size = (uint32_t)(descr.ptr[2] - '0');
    if (out->kind == 'f' && out->size == 1)
        return fail(GAN_ERR_INPUT, "npy type 'f1' is not read; save it as float32");
    out->swapped = descr.ptr[0] == (is_little_endian() ? '>' : '<');
    return GAN_OK;
}

static GanStatus read_header(Cursor c, Array *out) {
    bool descr = false, order = false, shape = false;
    if (!take(&c, '{'))
        return fail(GAN_ERR_INPUT, "broken npy header: no dictionary");
    while (!take(&c, '}')) {
        Str key, text;
        if (!take_string(&c, &key) || !take(&c, ':'))
            return fail(GAN_ERR_INPUT, "broken npy header: no key");
        if (str_eq(key, STR("descr"))) {
            if (!take_string(&c, &text))
                return fail(GAN_ERR_INPUT, "npy arrays of records are not read");
            TRY(read_descr(text, out));
            descr = true;
        } else if (str_eq(key, STR("fortran_order"))) {
            out->fortran = take_word(&c, STR("True"));
            if (!out->fortran && !take_word(&c, STR("False")))
                return fail(GAN_ERR_INPUT, "broken npy header: bad fortran_order");
            order = true;
        } else if (str_eq(key, STR("shape"))) {
            if (shape)
                return fail(GAN_ERR_INPUT, "broken npy header: two shapes");
            TRY(take_shape(&c, out));
            shape = true;
        } else {
            return fail(GAN_ERR_INPUT, "broken npy header: unknown key '%.*s'", SARG(key));
        }
        take(&c, ',');
    }
    if (!descr || !order || !shape)
        return fail(GAN_ERR_INPUT, "broken npy header: a key is missing");
    return GAN_OK;
}

// Elements and their bytes against what the file has.
static GanStatus check_size(Array *a, size_t have) {
    size_t count = 1, bytes;
    for (uint32_t i = 0; i < a->rank; i++)
        if (!mem_mul(count, (size_t)a->dim[i], &count))
            return fail(GAN_ERR_INPUT, "npy shape is too large");
    if (!mem_mul(count, a->size, &bytes))
        return fail(GAN_ERR_INPUT, "npy shape is too large");
    if (bytes != have)
        return fail(GAN_ERR_INPUT, "npy has %zu bytes of data, its shape needs %zu", have, bytes);
    a->count = count;
    return GAN_OK;
}

GanStatus npy_parse(const uint8_t *data, size_t n, Array *out) {
    *out = (Array){0};
    if (n < 10 || memcmp(data, NPY_MAGIC, 6) != 0)
        return fail(GAN_ERR_INPUT, "not an npy file");
    if (data[6] < 1 || data[6] > 3)
        return fail(GAN_ERR_INPUT, "npy version %u is not read", data[6]);
    size_t lead = data[6] == 1 ? 10 : 12, length = data[8] | (size_t)data[9] << 8;
    if (n < lead)
        return fail(GAN_ERR_INPUT, "npy file ends in its header");
    if (data[6] > 1)
        length |= (size_t)data[10] << 16 | (size_t)data[11] << 24;
    if (length > n - lead)
        return fail(GAN_ERR_INPUT, "npy file ends in its header");
    const char *text = (const char *)data + lead;
    TRY(read_header((Cursor){text, text + length}, out));
    out->data = data + lead + length;
    return check_size(out, n - lead - length);
}

double half_value(uint16_t u) {
    int exponent = u >> 10 & 31;
    double fraction = u & 1023, sign = u >> 15 ? -1 : 1;
    if (exponent == 31)
        return fraction > 0 ? NAN : sign * INFINITY;
    return sign * (exponent ? ldexp(1024 + fraction, exponent - 25) : ldexp(fraction, -24));
}

size_t array_place(const Array *a, size_t i) {
    size_t at = 0, step = a->count;
    if (!a->fortran)
        return i;
    for (uint32_t k = a->rank; k-- > 0; i /= (size_t)a->dim[k]) {
        step /= (size_t)a->dim[k];
        at += i % (size_t)a->dim[k] * step;
    }
    return at;
}

double array_at(const Array *a, size_t i) {
    uint8_t b[8] = {0};
    const uint8_t *p = a->data + array_place(a, i) * a->size;
    for (uint32_t k = 0; k < a->size; k++)
        b[k] = p[a->swapped ? a->size - 1 - k : k];
    bool is_signed = a->kind == 'i';
    uint8_t u8 = b[0];
    uint16_t u16;
    uint32_t u32;
    uint64_t u64;
    float f;
    double d;
    memcpy(&u16, b, sizeof u16);
    memcpy(&u32, b, sizeof u32);
    memcpy(&u64, b, sizeof u64);
    memcpy(&f, b, sizeof f);
    memcpy(&d, b, sizeof d);
    if (a->kind == 'f')
        return a->size == 2 ? half_value(u16) : a->size == 4 ? (double)f : d;
    switch (a->size) {
    case 1:
        return is_signed ? (int8_t)u8 : u8;
    case 2:
        return is_signed ? (int16_t)u16 : u16;
    case 4:
        return is_signed ? (double)(int32_t)u32 : (double)u32;
    default:
        return is_signed ? (double)(int64_t)u64 : (double)u64;
    }
}

GanStatus npy_read_f32(Arena *perm, Str path, float **out, uint32_t *rank, int64_t *dim) {
    FileMap map;
    Array a;
    TRY(file_map(path, &map));
    GanStatus st = npy_parse(map.ptr, map.n, &a);
    if (st != GAN_OK)
        st = fail_in(st, "%.*s", SARG(path));
    *out = st == GAN_OK ? arena_array(perm, float, a.count) : NULL;
    bool ready = a.kind == 'f' && a.size == 4 && !a.swapped && !a.fortran;
    if (st == GAN_OK && ready)
        memcpy(*out, a.data, a.count * sizeof **out);
    for (size_t i = 0; st == GAN_OK && !ready && i < a.count; i++)
        (*out)[i] = (float)array_at(&a, i);
    for (uint32_t i = 0; st == GAN_OK && i < a.rank; i++)
        dim[i] = a.dim[i];
    *rank = st == GAN_OK ? a.rank : 0;
    file_unmap(&map);
    return st;
}

GanStatus npy_write_f32(Str path, const float *x, uint32_t rank, const int64_t *dim) {
    enum { Lead = 10, HeaderSize = 128 }; // a multiple of 64, as NumPy aligns
    char head[HeaderSize], shape[96] = "";
    size_t n = 0, count = 1;
    for (uint32_t i = 0; i < rank; i++) {
        n += (size_t)snprintf(shape + n, sizeof shape - n, "%lld,%s", (long long)dim[i],
                              i + 1 < rank ? " " : "");
        if (n >= sizeof shape)
            return fail(GAN_ERR_INPUT, "%.*s: shape of too many digits", SARG(path));
        count *= (size_t)dim[i];
    }
    char order = is_little_endian() ? '<' : '>';
    if (rank > 1)
        shape[n - 1] = 0; // only (n,) ends in a comma
    memset(head, ' ', sizeof head);
    memcpy(head, NPY_MAGIC "\x01\x00", 8);
    head[8] = HeaderSize - Lead;
    head[9] = 0;
    int used = snprintf(head + Lead, HeaderSize - Lead,
                        "{'descr': '%cf4', 'fortran_order': False, 'shape': (%s), }", order, shape);
    if (used < 0 || used >= HeaderSize - Lead - 1)
        return fail(GAN_ERR_INPUT, "%.*s: shape of too many digits", SARG(path));
    head[Lead + used] = ' ';
    head[HeaderSize - 1] = '\n';
    FileOut *f = NULL;
    TRY(file_out_open(path, &f));
    GanStatus st = file_out_put(f, head, sizeof head);
    if (st == GAN_OK)
        st = file_out_put(f, x, count * sizeof *x);
    if (st == GAN_OK)
        return file_out_commit(f);
    file_out_abandon(f);
    return st;
}
