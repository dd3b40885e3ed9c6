// source.c - where samples come from: what a path is, by its content, and the members of folders,
// archives and LMDB files in order.
//
// A member that cannot be read is an item with a reason, so that the reader may continue; so is the
// missing end of an archive or LMDB file. Names are UTF-8, live in the source's arena and are valid
// until source_close.
#define _GNU_SOURCE // uselocale
#include "library.h"
#include "sources.h"

#include <archive.h>
#include <archive_entry.h>
#include <locale.h>
#include <string.h>

enum { MemberMost = 1 << 28, ReadBlock = 1 << 16 }; // bytes

const char *source_kind_name(SourceKind kind) {
    static const char *const names[] = {
#define X(name, text) text,
        SOURCE_KINDS(X)
#undef X
    };
    return names[kind];
}

// --- bytes of one archive member -----------------------------------------------------------------

// The current member's bytes, on the heap. `hint` is its size where the archive says one.
static GanStatus read_member(struct archive *from, int64_t hint, size_t most, uint8_t **out,
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

static bool is_gzip(const uint8_t *data, size_t n) {
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
        st = read_member(a, 0, SIZE_MAX / 4, &b->heap, &b->n);
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
    if (!is_gzip(out->ptr, out->n))
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

// --- what a path is ------------------------------------------------------------------------------

static GanStatus archive_open(Str path, struct archive **out) {
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

// libarchive converts names to the thread's locale, and loses those that a C locale cannot hold.
// Around its calls the locale is therefore UTF-8, whatever the process has. 0: there is none.
static locale_t utf8_new(void) {
    return newlocale(LC_CTYPE_MASK, "C.UTF-8", (locale_t)0);
}

static void utf8_free(locale_t utf8) {
    if (utf8)
        freelocale(utf8);
}

static Str member_name(struct archive_entry *entry) {
    const char *name = archive_entry_pathname_utf8(entry);
    if (!name)
        name = archive_entry_pathname(entry);
    return name ? str_c(name) : STR("(a name that cannot be decoded)");
}

// Well-known archives that are not of images.
static GanStatus check_first_member(Str path, Str name) {
    if (str_starts(name, STR("cifar-10")) || str_starts(name, STR("cifar-100"))) {
        return fail(
            GAN_ERR_INPUT,
            "%.*s: an archive of CIFAR; unpack it (tar xzf) and name its .bin files: of the binary "
            "version",
            SARG(path));
    }
    return GAN_OK;
}

static GanStatus guess_archive(Str path, bool *is_archive, bool *is_npz) {
    struct archive *a = NULL;
    struct archive_entry *entry;
    *is_archive = *is_npz = false;
    GanStatus st = archive_open(path, &a);
    if (st == GAN_ERR_INPUT)
        return GAN_OK; // libarchive knows no format for it
    if (st != GAN_OK)
        return st;
    locale_t utf8 = utf8_new(), before = uselocale(utf8);
    int r = archive_read_next_header(a, &entry);
    *is_archive = r == ARCHIVE_OK || r == ARCHIVE_WARN || r == ARCHIVE_EOF;
    if (r == ARCHIVE_OK || r == ARCHIVE_WARN)
        st = check_first_member(path, member_name(entry));
    if (r == ARCHIVE_OK || r == ARCHIVE_WARN)
        *is_npz = str_ends(member_name(entry), STR(".npy"));
    archive_read_free(a);
    uselocale(before);
    utf8_free(utf8);
    return st;
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
        TRY(read_member(a, archive_entry_size(entry), SIZE_MAX / 4, &out->heap, &out->n));
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

static bool begins(const uint8_t *data, size_t n, const char *magic, size_t length) {
    return n >= length && memcmp(data, magic, length) == 0;
}

static GanStatus guess_bytes(Str path, const uint8_t *data, size_t n, SourceKind *out,
                             bool *known) {
    *known = true;
    if (n == 0)
        return fail(GAN_ERR_INPUT, "%.*s: empty file", SARG(path));
    Array a;
    size_t head;
    if (str_ends(path, STR(".bin")) && cifar_parse(data, n, &a, &head) == GAN_OK)
        return *out = SourceCifar, GAN_OK; // its first bytes may be anything
    if (begins(data, n, "GANPACK", 7))
        return *out = SourcePack, GAN_OK;
    if (begins(data, n, "\x93NUMPY", 6))
        return *out = SourceNpy, GAN_OK;
    if (begins(data, n, "\0\0\x08", 3))
        return *out = SourceIdx, GAN_OK;
    if (lmdb_is(data, n))
        return *out = SourceLmdb, GAN_OK;
    if (begins(data, n, "PK", 2)) {
        bool is_archive, is_npz;
        TRY(guess_archive(path, &is_archive, &is_npz));
        *out = is_npz ? SourceNpz : SourceArchive;
        return is_archive ? GAN_OK : fail(GAN_ERR_INPUT, "%.*s: a damaged zip file", SARG(path));
    }
    if (begins(data, n, "\x89HDF\r\n\x1a\n", 8))
        return *out = SourceHdf5, GAN_OK;
    if (begins(data, n, "\x89PNG", 4) || begins(data, n, "\xff\xd8\xff", 3) ||
        (begins(data, n, "RIFF", 4) && n >= 12 && begins(data + 8, n - 8, "WEBP", 4))) {
        return fail(GAN_ERR_INPUT, "%.*s: a single image is not a data set; name its folder",
                    SARG(path));
    }
    if (n >= 2 && data[0] == 0x80 && data[1] >= 2 && data[1] <= 5) // its protocol
        return fail(
            GAN_ERR_INPUT,
            "%.*s: a pickle, which is a program for Python: numpy.save and numpy.savez write "
            "arrays as .npy and .npz",
            SARG(path));
    if (str_eq(path_ext(path), STR("csv")) || str_eq(path_ext(path), STR("tsv")))
        return *out = SourceTable, GAN_OK;
    *known = false;
    return GAN_OK;
}

bool source_has_members(SourceKind kind) {
    return kind == SourceFolder || kind == SourceArchive || kind == SourceLmdb;
}

bool source_words_have_members(Str words) {
    Str first = str_sub(words, 0, str_find(words, ' '));
    for (int kind = SourceFolder; kind <= SourcePack; kind++)
        if (source_has_members((SourceKind)kind) &&
            str_eq(first, str_c(source_kind_name((SourceKind)kind))))
            return true;
    return false;
}

GanStatus source_holds(Str path, SourceKind kind, Str dataset) {
    if (dataset.len && kind != SourceHdf5 && kind != SourceNpz)
        return fail(GAN_ERR_USAGE, "%.*s: only HDF5 and npz files have named data sets",
                    SARG(path));
    return GAN_OK;
}

// An LMDB environment is a folder, of this file and one of locks.
static bool is_lmdb(Str dir) {
    char path[4096];
    int n = snprintf(path, sizeof path, "%.*s/%s", SARG(dir), LMDB_FILE);
    FileMap map = {0};
    if (n >= (int)sizeof path || !file_exists((Str){path, (size_t)n}) ||
        file_map((Str){path, (size_t)n}, &map) != GAN_OK)
        return false;
    bool is = lmdb_is(map.ptr, map.n);
    file_unmap(&map);
    return is;
}

static bool dir_holds(Str dir, const char *name) {
    char path[4096];
    int n = snprintf(path, sizeof path, "%.*s/%s", SARG(dir), name);
    return n < (int)sizeof path && file_exists((Str){path, (size_t)n});
}

// Well-known folders that are not of samples, by files in them. The images in a run's folder are
// grids of its samples.
static GanStatus check_folder(Str dir) {
    static const struct {
        const char *file[2], *says;
    } known[] = {
        {{"options.json", "resolved.gan"},
         "the folder of a run, not of samples: `ganrun report` shows it, and `ganrun sample RUN -o "
         "images/` writes its samples"},
        {{"data_batch_1.bin", "data_batch_2.bin"},
         "CIFAR's binary version, whose files are named one by one: --data x=FILE for each, or "
         "joined by cat"},
        {{"train.bin", "test.bin"}, "CIFAR's binary version: name its train.bin"},
        {{"batches.meta", "data_batch_1"},
         "CIFAR's Python version, of pickles; the binary version has the same images"},
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (dir_holds(dir, known[i].file[0]) && dir_holds(dir, known[i].file[1]))
            return fail(GAN_ERR_INPUT, "%.*s: %s", SARG(dir), known[i].says);
    return GAN_OK;
}

GanStatus source_guess(Str path, SourceKind *out) {
    if (file_is_dir(path) && is_lmdb(path))
        return *out = SourceLmdb, GAN_OK;
    if (file_is_dir(path))
        return *out = SourceFolder, check_folder(path);
    if (!file_exists(path))
        return fail(GAN_ERR_INPUT, "%.*s: no such file or folder", SARG(path));
    FileMap map = {0};
    bool known = false, is_archive = false, is_npz;
    TRY(file_map(path, &map));
    GanStatus st = guess_bytes(path, map.ptr, map.n, out, &known);
    bool packed = is_gzip(map.ptr, map.n);
    file_unmap(&map);
    if (st != GAN_OK || known)
        return st;
    TRY(guess_archive(path, &is_archive, &is_npz));
    if (is_archive)
        return *out = SourceArchive, GAN_OK;
    if (packed) {
        Blob blob = {0};
        TRY(blob_open(path, &blob));
        st = guess_bytes(path, blob.ptr, blob.n, out, &known);
        blob_close(&blob);
        if (st != GAN_OK)
            return st;
        if (known && (*out == SourceNpy || *out == SourceIdx))
            return GAN_OK;
    }
    if (str_ends(path, STR(".bin")))
        return *out = SourceCifar, GAN_OK; // damaged, as reading it says
    return fail(
        GAN_ERR_INPUT,
        "%.*s: not a folder, zip, tar, LMDB, npy, npz, IDX, CIFAR (.bin), HDF5, table (.csv, .tsv) "
        "or pack file",
        SARG(path));
}

// --- members -------------------------------------------------------------------------------------

struct Source {
    Arena arena; // names
    Str path;
    SourceKind kind;
    StrVec list;             // folder: relative paths
    struct archive *archive; // archive, or NULL
    locale_t utf8;           // of its members' names
    uint64_t index;          // items given
    uint32_t at;             // folder: next of list
    FileMap map;             // LMDB: owned
    Lmdb lmdb;               // LMDB: in map
    bool ended;              // archive, LMDB: nothing follows
    bool names_only;         // archive: members are not unpacked
    SourceFilter *wants;     // or NULL
    const void *user;        // of wants
    Str ending;              // not empty: texts whose names end so, instead of samples
};

// Text files beside images: captions, tables, licences.
static bool is_notes(Str name) {
    static const char *const ext[] = {"txt", "md", "csv", "tsv", "json", "xml", "html", "cls"};
    for (size_t i = 0; i < sizeof ext / sizeof *ext; i++)
        if (str_eq(path_ext(name), str_c(ext[i])))
            return true;
    return false;
}

// What systems leave beside images: hidden files, Apple's resource forks, Windows' thumbnails.
static bool is_hidden(Str name) {
    for (size_t from = 0; from < name.len;) {
        size_t n = str_find(str_sub(name, from, name.len), '/');
        Str part = str_sub(name, from, from + n);
        if (part.len && part.ptr[0] == '.' && !str_eq(part, STR(".")) && !str_eq(part, STR("..")))
            return true;
        if (str_eq(part, STR("__MACOSX")) || str_eq(part, STR("Thumbs.db")) ||
            str_eq(part, STR("desktop.ini")))
            return true;
        from += n + 1;
    }
    return false;
}

static bool is_left_out(const Source *s, Str name) {
    return is_hidden(name) || (s->ending.len ? !str_ends(name, s->ending) : is_notes(name)) ||
           (s->wants && !s->wants(s->user, name));
}

static GanStatus open_lmdb(Source *s) {
    Str file = file_is_dir(s->path) ? path_join(&s->arena, s->path, STR(LMDB_FILE)) : s->path;
    TRY(file_map(file, &s->map));
    GanStatus st = lmdb_open(s->map.ptr, s->map.n, &s->lmdb);
    return st == GAN_OK ? st : fail_in(st, "%.*s", SARG(file));
}

static GanStatus open_members(void *user) {
    Source *s = user;
    s->path = str_copy(&s->arena, s->path);
    if (s->kind == SourceLmdb)
        return open_lmdb(s);
    return s->kind == SourceFolder ? dir_walk(&s->arena, s->path, true, &s->list)
                                   : archive_open(s->path, &s->archive);
}

GanStatus source_open(Str path, SourceKind kind, Source **out) {
    assert(source_has_members(kind));
    Source *s = mem_alloc(sizeof *s);
    if (!s)
        return fail(GAN_ERR_MEMORY, "no memory to open %.*s", SARG(path));
    s->path = path;
    s->kind = kind;
    s->utf8 = utf8_new();
    GanStatus st = arena_init(&s->arena, 0);
    if (st == GAN_OK)
        st = arena_guard(&s->arena, "for names and headers", open_members, s);
    if (st != GAN_OK) {
        source_close(s);
        return st;
    }
    *out = s;
    return GAN_OK;
}

void source_close(Source *s) {
    if (!s)
        return;
    if (s->archive)
        archive_read_free(s->archive);
    file_unmap(&s->map);
    utf8_free(s->utf8);
    arena_release(&s->arena);
    mem_free(s);
}

void source_filter(Source *s, SourceFilter *wants, const void *user) {
    s->wants = wants;
    s->user = user;
}

static void set_reason(Item *item, GanStatus st, const char *why) {
    item->st = st;
    snprintf(item->reason, sizeof item->reason, "%s", why ? why : "unknown reason");
}

typedef struct Next {
    Source *s;
    Item *out;
    bool *end;
} Next;

static void next_of_folder(Source *s, Item *out, bool *end) {
    while (s->at < s->list.n && is_left_out(s, s->list.at[s->at]))
        s->at++;
    *end = s->at == s->list.n;
    if (*end)
        return;
    out->name = s->list.at[s->at++];
    out->path = path_join(&s->arena, s->path, out->name);
}

// A tar ends with blocks of zeros. libarchive takes the file's end for one too; then there is
// nothing between the last member and where it stopped.
static bool lacks_its_end(struct archive *a) {
    return (archive_format(a) & ARCHIVE_FORMAT_BASE_MASK) == ARCHIVE_FORMAT_TAR &&
           archive_filter_bytes(a, 0) == archive_read_header_position(a);
}

static void end_early(Source *s, Item *out, const char *why) {
    s->ended = true;
    out->name = path_base(s->path);
    set_reason(out, GAN_ERR_INPUT, why);
}

static void next_of_archive(Source *s, Item *out, bool *end) {
    struct archive_entry *entry = NULL;
    for (;;) {
        int r = s->ended ? ARCHIVE_EOF : archive_read_next_header(s->archive, &entry);
        bool cut = r == ARCHIVE_EOF && !s->ended && lacks_its_end(s->archive);
        *end = r == ARCHIVE_EOF && !cut;
        if (*end)
            return;
        if (cut || r < ARCHIVE_WARN) { // or libarchive cannot find the next member
            end_early(s, out,
                      cut ? "the zeros at the tar's end are missing: it was cut short"
                          : archive_error_string(s->archive));
            return;
        }
        out->name = str_copy(&s->arena, member_name(entry));
        if (archive_entry_filetype(entry) == AE_IFREG && !is_left_out(s, out->name))
            break;
    }
    if (s->names_only)
        return;
    int64_t hint = archive_entry_size_is_set(entry) ? archive_entry_size(entry) : 0;
    GanStatus st = read_member(s->archive, hint, MemberMost, &out->heap, &out->n);
    if (st != GAN_OK)
        set_reason(out, st, gan_error());
}

// Keys are any bytes, a name is text: others are named by their hexadecimal digits.
static Str key_name(Arena *a, Str key) {
    bool text = key.len && str_utf8_valid(key, &(size_t){0});
    for (size_t i = 0; text && i < key.len; i++)
        text = (unsigned char)key.ptr[i] >= ' ' && key.ptr[i] != 0x7f;
    if (text)
        return str_copy(a, key);
    Text t = {.arena = a};
    for (size_t i = 0; i < key.len; i++)
        text_fmt(&t, "%02x", (unsigned char)key.ptr[i]);
    return text_str(&t);
}

static void next_of_lmdb(Source *s, Item *out, bool *end) {
    LmdbEntry e;
    *end = s->ended;
    do {
        if (*end)
            return;
        if (lmdb_next(&s->lmdb, &e, end) != GAN_OK) {
            end_early(s, out, gan_error());
            return;
        }
        out->name = *end ? (Str){0} : key_name(&s->arena, e.key);
    } while (*end || is_left_out(s, out->name));
    out->bytes = e.value;
    out->n = e.n;
    if (e.why)
        set_reason(out, GAN_ERR_INPUT, e.why);
}

static GanStatus next_member(void *user) {
    Next *n = user;
    if (n->s->kind == SourceLmdb)
        next_of_lmdb(n->s, n->out, n->end);
    else if (n->s->archive)
        next_of_archive(n->s, n->out, n->end);
    else
        next_of_folder(n->s, n->out, n->end);
    return GAN_OK;
}

GanStatus source_next(Source *s, Item *out, bool *end) {
    *out = (Item){.index = s->index};
    locale_t before = uselocale(s->utf8);
    GanStatus st =
        arena_guard(&s->arena, "for names and headers", next_member, &(Next){s, out, end});
    uselocale(before);
    TRY(st);
    if (!*end)
        s->index++;
    return out->st == GAN_ERR_MEMORY ? fail(out->st, "%.*s: %s", SARG(out->name), out->reason)
                                     : GAN_OK;
}

typedef struct Listing {
    Arena *perm;
    Source *s;
    StrVec *out;
} Listing;

static GanStatus list_names(void *user) {
    Listing *l = user;
    for (;;) {
        Item item;
        bool end;
        TRY(source_next(l->s, &item, &end));
        if (end)
            return GAN_OK;
        if (item.st == GAN_OK) // the reader of samples reports what is damaged
            vec_push(l->perm, l->out, str_copy(l->perm, item.name));
    }
}

GanStatus source_names(Arena *perm, Str path, SourceKind kind, StrVec *out) {
    Source *s = NULL;
    TRY(source_open(path, kind, &s));
    s->names_only = true;
    GanStatus st = arena_guard(perm, "for names and headers", list_names, &(Listing){perm, s, out});
    source_close(s);
    return st;
}

typedef struct Texts {
    Source *s;
    Str path, ending;
    SourceText *take;
    void *user;
    Item item; // released by who owns the source
} Texts;

static GanStatus take_texts(void *user) {
    Texts *t = user;
    for (bool end = false;; item_release(&t->item)) {
        TRY(source_next(t->s, &t->item, &end));
        if (end)
            return GAN_OK;
        if (!str_ends(t->item.name, t->ending)) // what damages the archive itself
            continue;
        GanStatus st = item_load(&t->item);
        if (st != GAN_OK)
            return fail_in(st, "%.*s: %.*s", SARG(t->path), SARG(t->item.name));
        TRY(t->take(t->user, t->item.name, (Str){(const char *)t->item.bytes, t->item.n}));
    }
}

GanStatus source_texts(Arena *perm, Str path, SourceKind kind, Str ending, SourceText *take,
                       void *user) {
    Texts t = {.path = path, .ending = ending, .take = take, .user = user};
    TRY(source_open(path, kind, &t.s));
    t.s->ending = ending;
    GanStatus st = arena_guard(perm, "for the texts beside samples", take_texts, &t);
    item_release(&t.item);
    source_close(t.s);
    return st;
}

GanStatus item_load(Item *item) {
    if (item->st != GAN_OK)
        return fail(item->st, "%s", item->reason);
    if (item->path.len) {
        TRY(file_map(item->path, &item->map));
        item->n = item->map.n;
    }
    if (!item->bytes)
        item->bytes = item->path.len ? item->map.ptr : item->heap;
    return GAN_OK;
}

void item_release(Item *item) {
    mem_free(item->heap);
    file_unmap(&item->map);
    *item = (Item){0};
}
