// sources.h - private to data/: from a path to a pack. Members of folders and archives, rows of
// arrays, an ordered parallel map over members, the pack writer, pairing.
#ifndef GAN_SOURCES_H
#define GAN_SOURCES_H

#include "data.h"

// --- source_kind.c: what a path is; source.c: its members ----------------------------------------

#define SOURCE_KINDS(X)                                                                            \
    X(SourceFolder, "folder")                                                                      \
    X(SourceArchive, "archive")                                                                    \
    X(SourceLmdb, "lmdb")                                                                          \
    X(SourceNpy, "npy")                                                                            \
    X(SourceNpz, "npz")                                                                            \
    X(SourceIdx, "idx")                                                                            \
    X(SourceCifar, "cifar")                                                                        \
    X(SourceTable, "table") X(SourceHdf5, "hdf5") X(SourcePack, "pack")
typedef enum SourceKind {
#define X(name, text) name,
    SOURCE_KINDS(X)
#undef X
} SourceKind;
const char *source_kind_name(SourceKind kind);

// Detects what `path` is, by its content. The message says what to do about a file that is not
// read.
GanStatus source_guess(Str path, SourceKind *out);

// Folders, archives and LMDB have members, with names and bytes; the others are arrays or packs.
bool source_has_members(SourceKind kind);

#define NO_FOLDER "." // the class of samples that are in no class's folder

// Whether a pack of this `source` was made of such members: its names are theirs.
bool source_words_have_members(Str words);

// Refuses the name of a data set (empty: none given) for sources that have no named data sets.
GanStatus source_holds(Str path, SourceKind kind, Str dataset);

// One member of a folder, archive or LMDB: a name, and its bytes or the reason why there are none.
typedef struct Item {
    uint64_t index;       // in the source's order
    Str name;             // relative; borrowed from the source
    Str path;             // of a folder's member, which item_load maps; else ""
    const uint8_t *bytes; // borrowed from heap or map below, or the source; NULL before item_load
    size_t n;
    uint8_t *heap; // owned
    FileMap map;   // owned
    GanStatus st;  // not GAN_OK: reading it failed, reason says why
    char reason[200];
} Item;

// Members in order: folders sorted bytewise, archives as stored, LMDB by its keys; without hidden
// files and text files (by extension).
typedef struct Source Source;
GanStatus source_open(Str path, SourceKind kind, Source **out);
// Members that this does not want are passed over, as if they were not there. Set before any is
// read.
typedef bool SourceFilter(const void *user, Str name);
void source_filter(Source *s, SourceFilter *wants, const void *user);
// A damaged member, or end of an archive, is an item with a reason.
GanStatus source_next(Source *s, Item *out, bool *end);
void source_close(Source *s); // accepts NULL
// The names of all members, without unpacking them.
GanStatus source_names(Arena *perm, Str path, SourceKind kind, StrVec *out);
// Calls `take` with every text file beside the samples whose name has this ending, in order.
typedef GanStatus SourceText(void *user, Str name, Str text);
// `perm`: what `take` allocates from.
GanStatus source_texts(Arena *perm, Str path, SourceKind kind, Str ending, SourceText *take,
                       void *user);
GanStatus item_load(Item *item); // sets its bytes, or fails with its reason
void item_release(Item *item);

// --- array.c: rows of arrays in files -------------------------------------

typedef struct ArrayFile { // one thread at a time
    Array all;             // of HDF5 without data
    size_t row, head; // bytes of a row (all but the first axis), and of labels in front (CIFAR)
    Blob blob;        // all but HDF5: owned
    Hdf5 *hdf5;       // owned
    // Of HDF5 and Fortran order, owned: [windows * row], rows first .. first + loaded.
    uint8_t *window;
    size_t windows, first, loaded;
} ArrayFile;
// kind: one of arrays; `dataset` as for hdf5_open and blob_open_npz, else empty. `missing`: cells
// of a table that are empty, or say so, are NaN; else GAN_ERR_INPUT.
GanStatus array_open(Str path, SourceKind kind, Str dataset, bool missing, ArrayFile *out);
GanStatus array_row(ArrayFile *f, size_t row, Array *out); // borrowed until the next call
void array_close(ArrayFile *f);                            // accepts an empty one
// pack_arrays.c: the fields of a pack of it without options but --channels-last, their ranges not
// set; labels where the records have them. 0: it cannot be packed so.
uint32_t array_fields(Arena *perm, Str path, SourceKind kind, const ArrayFile *f,
                      bool channels_last, PackField out[2]);

// --- items.c: an ordered parallel map ------------------------------------------------------------

// Called on worker threads in any order: item and its bytes in, *result out. A failure is the
// member's, not the job's.
typedef GanStatus ItemWork(void *user, const Item *item, void *result);
// Called on the calling thread, in order. st is what `work` returned, reason its message.
typedef GanStatus ItemDone(void *user, const Item *item, GanStatus st, const char *reason,
                           void *result);

typedef struct ItemJob {
    Source *source;     // borrowed
    uint64_t limit;     // stop after so many members; 0: all
    int threads;        // 0: one per core
    size_t result_size; // bytes of a zeroed result
    ItemWork *work;
    ItemDone *done;
    void *user;
} ItemJob;
GanStatus items_run(const ItemJob *job); // results do not depend on `threads`

// --- pack_write.c: a pack as a stream of records -------------------------------------------------

typedef struct PackWriter PackWriter;
// path "" keeps the file in memory. Offsets and the stride are set here.
GanStatus pack_writer_open(Str path, const PackField *field, uint32_t fields, PackWriter **out);
size_t pack_writer_stride(const PackWriter *w);
const PackField *pack_writer_field(const PackWriter *w, uint32_t i);
GanStatus pack_writer_add(PackWriter *w, const void *record, Str name);
void pack_writer_count_missing(PackWriter *w); // of records that follow: NaN is a missing value
void pack_writer_range(PackWriter *w, uint32_t field, double lo, double hi);
void pack_writer_abandon(PackWriter *w); // accepts NULL
// Both free w, also on failure: write the file; or, of a pack in memory, open it.
GanStatus pack_writer_commit(PackWriter *w, Str source, Str fit);
GanStatus pack_writer_open_result(Arena *perm, PackWriter *w, Str source, Str fit, Pack *out);

// --- pair.c: samples that belong together --------------------------------------------------------

typedef struct PairSide { // one field's samples
    Str name;             // of the field
    const Pack *pack;     // [packs], concatenated; borrowed
    uint32_t packs;
    uint64_t count; // in: samples of all packs; out: joint samples
    uint64_t *at;   // out: [count] the side's sample for each joint one; NULL: the same number
} PairSide;
typedef struct PairOptions {
    bool skip_lone; // leave out samples without a partner, instead of failing
    void (*notice)(void *user, Str field, const char *text);
    void *user;
} PairOptions;
// Joins n > 1 sides. GAN_ERR_INPUT: samples without a partner, or arrays of other sizes.
GanStatus pair_sides(Arena *perm, PairSide *side, uint32_t n, const PairOptions *o);

#endif
