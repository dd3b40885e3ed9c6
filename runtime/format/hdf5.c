// hdf5.c - one data set of an HDF5 file, in pieces, through libhdf5 (whatever its chunks, filters
// and checksums are).
//
// In: a path, and the name of a data set if there are several. Out: its shape as an Array without
// data, and rows on demand: floats of any width as f4, unsigned integers of 8 and 16 bits as they
// are. The library has one state per process and is called under one lock. A file cannot make it
// open others: external links, external storage and virtual data sets are refused.
#include "library.h"
#include "format.h"

#include <hdf5.h>
#include <pthread.h>
#include <string.h>

struct Hdf5 {
    hid_t file, set, type; // type: what rows are read as; not owned
    hid_t access;          // how names are followed: not into other files
    bool outside;          // the last name led to another file
    uint32_t rank;
    hsize_t dim[DATA_MAX_RANK];
    char path[400], name[128]; // for messages, cut
};

static pthread_mutex_t library = PTHREAD_MUTEX_INITIALIZER;

// --- what the library says -----------------------------------------------------------------------

static herr_t first_words(unsigned n, const H5E_error2_t *e, void *user) {
    const char **words = user;
    if (n == 0 && e->desc && *e->desc)
        *words = e->desc;
    return 0;
}

static GanStatus broken(const Hdf5 *h, const char *what) {
    const char *words = "the file is damaged";
    H5Ewalk2(H5E_DEFAULT, H5E_WALK_UPWARD, first_words, (void *)&words);
    return fail(GAN_ERR_INPUT, "%s: %s: %s", h->path, what, words);
}

// --- opening without other files -----------------------------------------------------------------

// Called before an external link is followed. Failing is the refusal.
static herr_t refuse_link(const char *from, const char *group, const char *file, const char *name,
                          unsigned *flags, hid_t access, void *user) {
    (void)from, (void)group, (void)file, (void)name, (void)flags, (void)access;
    ((Hdf5 *)user)->outside = true;
    return -1;
}

// The library opens the files of external storage when it reads values, those of a virtual data set
// already when it is asked for its shape.
static bool is_stored_outside(hid_t set) {
    hid_t plan = H5Dget_create_plist(set);
    if (plan < 0)
        return false; // damaged, as the calls after it say
    bool outside = H5Pget_external_count(plan) != 0 || H5Pget_layout(plan) == H5D_VIRTUAL;
    H5Pclose(plan);
    return outside;
}

// *out < 0: there is no such data set.
static GanStatus open_named(Hdf5 *h, const char *name, hid_t *out) {
    h->outside = false;
    *out = H5Dopen2(h->file, name, h->access);
    if (*out >= 0 && is_stored_outside(*out)) {
        H5Dclose(*out);
        *out = -1;
        h->outside = true;
    }
    return h->outside ? fail(GAN_ERR_INPUT,
                             "%s: %s: its values are in other files, which are not opened; copy "
                             "them into one file",
                             h->path, name)
                      : GAN_OK;
}

// --- finding the data set ------------------------------------------------------------------------

enum { LinksMost = 10000, GroupsDeep = 8, NameMost = 128 };

typedef struct Listing { // data sets of two axes and more
    Hdf5 *h;
    char first[NameMost], words[300]; // the first one's name, and all names
    size_t used;
    uint32_t count, links; // links: looked at, of all groups
    GanStatus st;          // of one that could not be looked at
} Listing;

static void list_set(Listing *l, const char *name, hid_t set) {
    hid_t space = H5Dget_space(set);
    if (space < 0)
        l->st = broken(l->h, name);
    if (space >= 0 && H5Sget_simple_extent_ndims(space) >= 2) {
        size_t room = sizeof l->words - l->used;
        int put = snprintf(l->words + l->used, room, "%s%s", l->count ? ", " : "", name);
        l->used += put > 0 && (size_t)put < room ? (size_t)put : 0;
        l->words[l->used] = 0; // one without room is left out
        if (l->count++ == 0)
            snprintf(l->first, sizeof l->first, "%s", name);
    }
    if (space >= 0)
        H5Sclose(space);
}

static void list_group(Listing *l, hid_t group, const char *prefix, uint32_t deep);

// A set is listed at depth 0, a group looked into before. What is neither, that this library is too
// old for, that is damaged or in another file sets l->st.
static void list_object(Listing *l, const char *name, uint32_t deep) {
    Hdf5 *h = l->h;
    hid_t set = -1, object = -1;
    GanStatus st = deep ? GAN_OK : open_named(h, name, &set);
    if (set >= 0) {
        list_set(l, name, set);
        H5Dclose(set);
        return;
    }
    if (st == GAN_OK)
        object = H5Oopen(h->file, name, h->access);
    bool group = object >= 0 && H5Iget_type(object) == H5I_GROUP;
    if (group && deep)
        list_group(l, object, name, deep - 1);
    if (!group && !deep)
        l->st = st != GAN_OK ? st : broken(h, name);
    if (object >= 0)
        H5Oclose(object);
}

static void list_group(Listing *l, hid_t group, const char *prefix, uint32_t deep) {
    H5G_info_t info;
    if (H5Gget_info(group, &info) < 0) {
        l->st = broken(l->h, "its list of data sets");
        return;
    }
    for (hsize_t i = 0; i < info.nlinks && l->links < LinksMost; i++, l->links++) {
        char own[NameMost], name[NameMost];
        ssize_t n = H5Lget_name_by_idx(group, ".", H5_INDEX_NAME, H5_ITER_INC, i, own, sizeof own,
                                       H5P_DEFAULT);
        int put = n > 0 && (size_t)n < sizeof own
                      ? snprintf(name, sizeof name, "%s%s%s", prefix, *prefix ? "/" : "", own)
                      : -1;
        if (put > 0 && (size_t)put < sizeof name)
            list_object(l, name, deep);
        else
            l->st = broken(l->h, "a link");
    }
}

// In the root group, or where that has none within others, those near it first (links may go round
// in a circle).
static void list_file(Listing *l) {
    list_group(l, l->h->file, "", 0);
    bool within = l->count == 0 && l->st == GAN_OK;
    for (uint32_t deep = 1; within && deep <= GroupsDeep; deep++)
        list_group(l, l->h->file, "", deep);
}

static GanStatus refuse_name(Hdf5 *h) {
    Listing l = {.h = h};
    list_file(&l);
    return fail(GAN_ERR_INPUT, "%s: there is no data set %s%s%s", h->path, h->name,
                l.count ? "; it holds " : "", l.words);
}

// The only data set of two axes or more.
static GanStatus choose_set(Hdf5 *h, Str asked) {
    Listing l = {.h = h};
    if (asked.len) {
        snprintf(h->name, sizeof h->name, "%.*s", SARG(asked));
        return GAN_OK;
    }
    list_file(&l);
    if (l.count == 0)
        return l.st != GAN_OK
                   ? l.st
                   : fail(GAN_ERR_INPUT, "%s: no data set of two axes or more in it", h->path);
    if (l.count > 1)
        return fail(GAN_ERR_USAGE,
                    "%s: it holds %s%s; `ganrun data pack` and `inspect` take one of "
                    "them by --dataset NAME",
                    h->path, l.words, l.used + NameMost < sizeof l.words ? "" : ", ...");
    snprintf(h->name, sizeof h->name, "%s", l.first);
    return GAN_OK;
}

// --- its type and shape --------------------------------------------------------------------------

static GanStatus read_type(Hdf5 *h, Array *out) {
    hid_t type = H5Dget_type(h->set);
    if (type < 0)
        return broken(h, h->name);
    H5T_class_t class = H5Tget_class(type);
    size_t size = H5Tget_size(type);
    bool natural = class == H5T_INTEGER && H5Tget_sign(type) == H5T_SGN_NONE && size <= 2;
    H5Tclose(type);
    if (class == H5T_FLOAT) {
        h->type = H5T_NATIVE_FLOAT;
        out->kind = 'f', out->size = 4;
        return GAN_OK;
    }
    if (!natural)
        return fail(GAN_ERR_INPUT,
                    "%s: %s: only floats and unsigned integers of 8 or 16 bits are read", h->path,
                    h->name);
    h->type = size == 1 ? H5T_NATIVE_UINT8 : H5T_NATIVE_UINT16;
    out->kind = 'u', out->size = (uint32_t)size;
    return GAN_OK;
}

static GanStatus read_shape(Hdf5 *h, Array *out) {
    hid_t space = H5Dget_space(h->set);
    int rank = space < 0 ? -1 : H5Sget_simple_extent_ndims(space);
    bool fits = rank >= 1 && rank <= DATA_MAX_RANK &&
                H5Sget_simple_extent_dims(space, h->dim, NULL) == rank;
    if (space >= 0)
        H5Sclose(space);
    if (!fits)
        return rank < 0 ? broken(h, h->name)
                        : fail(GAN_ERR_INPUT, "%s: %s has %d axes, 1 to %d are read", h->path,
                               h->name, rank, DATA_MAX_RANK);
    h->rank = out->rank = (uint32_t)rank;
    out->count = 1;
    for (uint32_t i = 0; i < out->rank; i++) {
        out->dim[i] = (int64_t)h->dim[i];
        if (h->dim[i] > INT64_MAX || !mem_mul(out->count, (size_t)h->dim[i], &out->count))
            return fail(GAN_ERR_INPUT, "%s: %s: its shape is too large", h->path, h->name);
    }
    size_t bytes;
    return mem_mul(out->count, out->size, &bytes)
               ? GAN_OK
               : fail(GAN_ERR_INPUT, "%s: %s: its shape is too large", h->path, h->name);
}

// --- is it all there? ----------------------------------------------------------------------------

static bool is_compressed(hid_t plan) {
    int n = H5Pget_nfilters(plan);
    for (int i = 0; i < n; i++) {
        unsigned flags;
        size_t values = 0;
        H5Z_filter_t id = H5Pget_filter2(plan, (unsigned)i, &flags, &values, NULL, 0, NULL, NULL);
        if (id != H5Z_FILTER_SHUFFLE && id != H5Z_FILTER_FLETCHER32)
            return true;
    }
    return false;
}

// Bytes of a whole chunk; 0 where the data is in one piece.
static size_t chunk_bytes(const Hdf5 *h, hid_t plan, size_t size) {
    hsize_t dim[DATA_MAX_RANK];
    if (H5Pget_layout(plan) != H5D_CHUNKED || H5Pget_chunk(plan, (int)h->rank, dim) != (int)h->rank)
        return 0;
    for (uint32_t i = 0; i < h->rank; i++)
        if (!mem_mul(size, (size_t)dim[i], &size))
            return SIZE_MAX;
    return size;
}

// Bytes the file holds of the first chunk; 0 where the data is in one piece.
static hsize_t first_chunk(const Hdf5 *h) {
    hid_t space = H5Dget_space(h->set);
    hsize_t at[DATA_MAX_RANK], bytes = 0;
    unsigned mask;
    haddr_t place;
    if (space < 0 || H5Dget_chunk_info(h->set, space, 0, at, &mask, &place, &bytes) < 0)
        bytes = 0;
    if (space >= 0)
        H5Sclose(space);
    return bytes;
}

// Chunks that nobody wrote are read as zeros, in compressed data too, of which a program that was
// interrupted leaves them.
static GanStatus check_written(const Hdf5 *h, hid_t plan) {
    hsize_t dim[DATA_MAX_RANK], need = 1, have = 0;
    if (H5Pget_layout(plan) != H5D_CHUNKED || H5Pget_chunk(plan, (int)h->rank, dim) != (int)h->rank)
        return GAN_OK;
    for (uint32_t i = 0; i < h->rank; i++)
        need *= dim[i] ? (h->dim[i] + dim[i] - 1) / dim[i] : 1;
    hid_t space = H5Dget_space(h->set);
    bool told = space >= 0 && H5Dget_num_chunks(h->set, space, &have) >= 0;
    if (space >= 0)
        H5Sclose(space);
    if (told && have >= need)
        return GAN_OK;
    return told
               ? fail(GAN_ERR_INPUT,
                      "%s: %s: %llu of its %llu chunks were never written: was the program that "
                      "wrote it interrupted?",
                      h->path, h->name, (unsigned long long)(need - have), (unsigned long long)need)
               : broken(h, h->name);
}

// If shape or chunks need more bytes than the file has, the library reads past its own memory (seen
// in 1.10.8), so uncompressed data is checked first. Compressed data cannot be.
static GanStatus check_storage(const Hdf5 *h, const Array *shape) {
    hid_t plan = H5Dget_create_plist(h->set), type = H5Dget_type(h->set);
    size_t size = type >= 0 ? H5Tget_size(type) : 0, need = 0;
    hsize_t have = H5Dget_storage_size(h->set);
    bool fine = plan >= 0 && size && mem_mul(shape->count, size, &need);
    bool packed = fine && is_compressed(plan);
    if (fine && !packed)
        fine = have >= need && first_chunk(h) >= chunk_bytes(h, plan, size);
    GanStatus st = packed ? check_written(h, plan) : GAN_OK;
    if (plan >= 0)
        H5Pclose(plan);
    if (type >= 0)
        H5Tclose(type);
    return fine ? st
                : fail(GAN_ERR_INPUT, "%s: %s: its shape needs more bytes than the file has",
                       h->path, h->name);
}

// --- the three calls -----------------------------------------------------------------------------

static GanStatus open_set(Hdf5 *h, Str path, Str asked, Array *out) {
    TRY(hdf5_ready());
    H5Eset_auto2(H5E_DEFAULT, NULL, NULL); // nothing here prints
    snprintf(h->path, sizeof h->path, "%.*s", SARG(path));
    char *name = mem_alloc(path.len + 1);
    if (!name)
        return fail(GAN_ERR_MEMORY, "no memory to open %s", h->path);
    memcpy(name, path.ptr, path.len);
    h->file = H5Fopen(name, H5F_ACC_RDONLY, H5P_DEFAULT);
    mem_free(name);
    if (h->file < 0)
        return broken(h, "an HDF5 file that cannot be opened");
    h->access = H5Pcreate(H5P_DATASET_ACCESS);
    if (h->access < 0 || H5Pset_elink_cb(h->access, refuse_link, h) < 0)
        return broken(h, "its links");
    TRY(choose_set(h, asked));
    TRY(open_named(h, h->name, &h->set));
    if (h->set < 0)
        return refuse_name(h);
    TRY(read_type(h, out));
    TRY(read_shape(h, out));
    return check_storage(h, out);
}

static void close_set(Hdf5 *h) {
    if (h->set >= 0)
        H5Dclose(h->set);
    if (h->access >= 0)
        H5Pclose(h->access);
    if (h->file >= 0)
        H5Fclose(h->file);
    mem_free(h);
}

GanStatus hdf5_open(Str path, Str dataset, Hdf5 **out, Array *shape) {
    *shape = (Array){0};
    *out = NULL;
    Hdf5 *h = mem_alloc(sizeof *h);
    if (!h)
        return fail(GAN_ERR_MEMORY, "no memory to open %.*s", SARG(path));
    h->file = h->set = h->access = -1;
    pthread_mutex_lock(&library);
    GanStatus st = open_set(h, path, dataset, shape);
    if (st == GAN_OK)
        *out = h;
    else
        close_set(h);
    pthread_mutex_unlock(&library);
    return st;
}

static GanStatus read_rows(Hdf5 *h, size_t first, size_t rows, void *to) {
    hsize_t start[DATA_MAX_RANK] = {first}, count[DATA_MAX_RANK];
    for (uint32_t i = 0; i < h->rank; i++)
        count[i] = i ? h->dim[i] : rows;
    hid_t from = H5Dget_space(h->set), room = H5Screate_simple((int)h->rank, count, NULL);
    bool read = from >= 0 && room >= 0 &&
                H5Sselect_hyperslab(from, H5S_SELECT_SET, start, NULL, count, NULL) >= 0 &&
                H5Dread(h->set, h->type, room, from, H5P_DEFAULT, to) >= 0;
    GanStatus st = read ? GAN_OK : broken(h, h->name);
    if (from >= 0)
        H5Sclose(from);
    if (room >= 0)
        H5Sclose(room);
    return st;
}

GanStatus hdf5_read(Hdf5 *h, size_t first, size_t rows, void *to) {
    pthread_mutex_lock(&library);
    GanStatus st = read_rows(h, first, rows, to);
    pthread_mutex_unlock(&library);
    return st;
}

void hdf5_close(Hdf5 *h) {
    if (!h)
        return;
    pthread_mutex_lock(&library);
    close_set(h);
    pthread_mutex_unlock(&library);
}
