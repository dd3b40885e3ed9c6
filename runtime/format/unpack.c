// unpack.c - what is packed in files: members of archives, arrays of npz files, and single files by
// gzip, unpacked in memory.
#define _GNU_SOURCE // uselocale
#include "unpack.h"
#include "library.h"

#include <string.h>

enum { ReadBlock = 1 << 16 }; // bytes

// --- archives and their members ------------------------------------------------------------------

GanStatus archive_open(Str path, struct archive **out) {
    TRY(archive_ready());
    char *name = mem_alloc(path.len + 1);
    struct archive *a = name ? archive_read_new() : NULL;
    if (!a) {
        mem_free(name);
        return fail(GAN_ERR_MEMORY, "no memory to open an archive");
    }
    memcpy(name, path.ptr, path.len);
    archive_read_support_filter_gzip(a); // not all: some filters start other programs
    archive_read_support_filter_bzip2(a);
    archive_read_support_filter_xz(a);
    archive_read_support_filter_zstd(a);
    archive_read_support_format_tar(a);
    archive_read_support_format_zip(a);
    int r = archive_read_open_filename(a, name, ReadBlock);
    mem_free(name);
    if (r != ARCHIVE_OK) {
        GanStatus st = fail(GAN_ERR_INPUT, "%.*s: %s", SARG(path), archive_error_string(a));
        archive_read_free(a);
        return st;
    }
    *out = a;
    return GAN_OK;
}

locale_t utf8_new(void) {
    return newlocale(LC_CTYPE_MASK, "C.UTF-8", (locale_t)0);
}

void utf8_free(locale_t utf8) {
    if (utf8)
        freelocale(utf8);
}

Str member_name(struct archive_entry *entry) {
    const char *name = archive_entry_pathname_utf8(entry);
    if (!name)
        name = archive_entry_pathname(entry);
    return name ? str_c(name) : STR("(a name that cannot be decoded)");
}

GanStatus archive_member(struct archive *from, int64_t hint, size_t most, uint8_t **out,
                         size_t *out_n) {
    size_t n = 0, cap = hint > 0 && (uint64_t)hint < most ? (size_t)hint + 1 : ReadBlock;
    uint8_t *bytes = mem_alloc(cap);
    while (bytes) {
        la_ssize_t got = archive_read_data(from, bytes + n, cap - n);
        if (got < 0) {
            mem_free(bytes);
            const char *why = archive_error_string(from);
            return fail(GAN_ERR_INPUT, "damaged in the archive: %s", why ? why : "unknown reason");
        }
        n += (size_t)got;
        if (got == 0) {
            *out = bytes;
            *out_n = n;
            return GAN_OK;
        }
        if (n > most) {
            mem_free(bytes);
            return fail(GAN_ERR_INPUT, "larger than %zu MiB unpacked", most >> 20);
        }
        if (n < cap)
            continue;
        cap *= 2;
        uint8_t *more = mem_realloc(bytes, cap);
        if (!more)
            mem_free(bytes);
        bytes = more;
    }
    return fail(GAN_ERR_MEMORY, "no memory to unpack a member");
}

// --- files ---------------------------------------------------------------------------------------

bool gzip_is(const uint8_t *data, size_t n) {
    return n > 2 && data[0] == 0x1f && data[1] == 0x8b;
}

static GanStatus gunzip(Blob *b) {
    struct archive_entry *entry;
    TRY(archive_ready());
    struct archive *a = archive_read_new();
    if (!a)
        return fail(GAN_ERR_MEMORY, "no memory to unpack");
    archive_read_support_filter_gzip(a);
    archive_read_support_format_raw(a);
    GanStatus st;
    if (archive_read_open_memory(a, b->map.ptr, b->map.n) != ARCHIVE_OK ||
        archive_read_next_header(a, &entry) != ARCHIVE_OK) {
        const char *why = archive_error_string(a);
        st = fail(GAN_ERR_INPUT, "broken gzip file: %s", why ? why : "no data");
    } else {
        st = archive_member(a, 0, SIZE_MAX / 4, &b->heap, &b->n);
        b->ptr = b->heap;
    }
    archive_read_free(a);
    return st;
}

GanStatus blob_open(Str path, Blob *out) {
    *out = (Blob){0};
    TRY(file_map(path, &out->map));
    out->ptr = out->map.ptr;
    out->n = out->map.n;
    if (!gzip_is(out->ptr, out->n))
        return GAN_OK;
    GanStatus st = gunzip(out);
    if (st == GAN_OK)
        return st;
    blob_close(out);
    return fail_in(st, "%.*s", SARG(path));
}

void blob_close(Blob *b) {
    file_unmap(&b->map);
    mem_free(b->heap);
    *b = (Blob){0};
}

// --- arrays of an npz file -----------------------------------------------------------------------

static Str array_name(Str member) { // "x" of "x.npy"; empty: no array
    return str_ends(member, STR(".npy")) ? str_sub(member, 0, member.len - 4) : (Str){0};
}

// The member's bytes. Without a name a second array is an error, which lists them.
static GanStatus find_array(struct archive *a, Str path, Str name, Blob *out) {
    struct archive_entry *entry;
    char names[160];
    size_t n = 0;
    bool several = false;
    for (;;) {
        int r = archive_read_next_header(a, &entry);
        if (r == ARCHIVE_EOF)
            break;
        if (r != ARCHIVE_OK && r != ARCHIVE_WARN)
            return fail(GAN_ERR_INPUT, "%.*s: %s", SARG(path), archive_error_string(a));
        Str own = array_name(member_name(entry));
        if (!own.len)
            continue;
        int put = snprintf(names + n, sizeof names - n, "%s%.*s", n ? ", " : "", SARG(own));
        n = put < 0 || n + (size_t)put >= sizeof names ? sizeof names - 1 : n + (size_t)put;
        if (name.len ? !str_eq(own, name) || out->heap : several || out->heap) {
            several = several || !name.len;
            continue;
        }
        TRY(archive_member(a, archive_entry_size(entry), SIZE_MAX / 4, &out->heap, &out->n));
        out->ptr = out->heap;
    }
    if (several)
        return fail(GAN_ERR_USAGE,
                    "%.*s: it holds %s; `ganrun data pack` and `inspect` take one of "
                    "them by --dataset NAME",
                    SARG(path), names);
    if (!out->heap)
        return fail(GAN_ERR_INPUT, "%.*s: no array %.*s in it%s%s", SARG(path), SARG(name),
                    n ? ", but " : "", n ? names : "");
    return GAN_OK;
}

GanStatus blob_open_npz(Str path, Str name, Blob *out) {
    struct archive *a = NULL;
    *out = (Blob){0};
    TRY(archive_open(path, &a));
    locale_t utf8 = utf8_new(), before = uselocale(utf8);
    GanStatus st = find_array(a, path, name, out);
    archive_read_free(a);
    uselocale(before);
    utf8_free(utf8);
    if (st != GAN_OK)
        blob_close(out);
    return st;
}
