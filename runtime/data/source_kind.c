// source_kind.c - what a path is, by its content. What is not read says what to do instead.
#define _GNU_SOURCE // uselocale
#include "sources.h"
#include "unpack.h"

#include <string.h>

const char *source_kind_name(SourceKind kind) {
    static const char *const names[] = {
#define X(name, text) text,
        SOURCE_KINDS(X)
#undef X
    };
    return names[kind];
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
    if (begins(data, n, NPY_MAGIC, 6))
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

typedef struct InFolder {
    char path[4096];
} InFolder;

// Empty: there is no room for it.
static Str in_folder(Str dir, const char *name, InFolder *room) {
    int n = snprintf(room->path, sizeof room->path, "%.*s/%s", SARG(dir), name);
    return n < (int)sizeof room->path ? (Str){room->path, (size_t)n} : (Str){0};
}

// An LMDB environment is a folder, of this file and one of locks.
static GanStatus is_lmdb(Str dir, bool *out) {
    InFolder room;
    Str path = in_folder(dir, LMDB_FILE, &room);
    FileMap map = {0};
    *out = false;
    if (!file_exists(path))
        return GAN_OK;
    TRY(file_map(path, &map));
    *out = lmdb_is(map.ptr, map.n);
    file_unmap(&map);
    return GAN_OK;
}

static bool dir_holds(Str dir, const char *name) {
    InFolder room;
    return file_exists(in_folder(dir, name, &room));
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
    if (file_is_dir(path)) {
        bool lmdb;
        TRY(is_lmdb(path, &lmdb));
        *out = lmdb ? SourceLmdb : SourceFolder;
        return lmdb ? GAN_OK : check_folder(path);
    }
    if (!file_exists(path))
        return fail(GAN_ERR_INPUT, "%.*s: no such file or folder", SARG(path));
    FileMap map = {0};
    bool known = false, is_archive = false, is_npz;
    TRY(file_map(path, &map));
    GanStatus st = guess_bytes(path, map.ptr, map.n, out, &known);
    bool packed = gzip_is(map.ptr, map.n);
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
