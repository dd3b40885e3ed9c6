// sources.h - private to data/: from a path to a pack. Readers of arrays and sounds, members of
// folders and archives, an ordered parallel map over them, the pack writer, pairing.
#ifndef GAN_SOURCES_H
#define GAN_SOURCES_H

#include "data.h"

// --- npy.c, idx.c: arrays in files ---------------------------------------------------------------

typedef struct Array {
    char kind;     // 'u' unsigned, 'i' signed, 'f' floating
    uint32_t size; // bytes an element
    bool swapped;  // stored in the other byte order
    bool fortran;  // stored with the first axis fastest
    uint32_t rank;
    int64_t dim[DATA_MAX_RANK];
    const uint8_t *data; // borrowed from the bytes parsed; may be unaligned
    size_t count;        // elements
} Array;

GanStatus npy_parse(const uint8_t *data, size_t n, Array *out); // versions 1 to 3
GanStatus idx_parse(const uint8_t *data, size_t n, Array *out); // unsigned bytes only
// CIFAR's binary version, 10 or 100 classes: records of one or two labels and an image [3, 32, 32].
// *out is [n, 3, 32, 32] with `*head` bytes in front of each row, the last of which is its class.
GanStatus cifar_parse(const uint8_t *data, size_t n, Array *out, size_t *head);
double array_at(const Array *a, size_t i);    // element i of row-major order, as a number
size_t array_place(const Array *a, size_t i); // where it is stored, in elements

// --- lmdb.c: entries of an LMDB file -------------------------------------------------------------

#define LMDB_FILE "data.mdb" // in an environment's folder
#define LMDB_DEPTH 32        // of a tree; mdb.c's own limit
typedef struct LmdbPlace {
    uint64_t page;
    uint32_t node; // to be read next
} LmdbPlace;
typedef struct Lmdb {
    const uint8_t *data; // borrowed
    size_t n, page;      // bytes of all, and of a page
    uint64_t pages, visited;
    LmdbPlace at[LMDB_DEPTH]; // from the root to the current leaf
    uint32_t depth;
} Lmdb;
typedef struct LmdbEntry { // borrowed from the file
    Str key;               // any bytes
    const uint8_t *value;  // NULL: it cannot be read
    size_t n;
    const char *why; // NULL, or why it cannot be read
} LmdbEntry;
bool lmdb_is(const uint8_t *data, size_t n); // by its first page
GanStatus lmdb_open(const uint8_t *data, size_t n, Lmdb *out);
// The next entry by the order of keys. GAN_ERR_INPUT: the tree is damaged, nothing can follow.
GanStatus lmdb_next(Lmdb *l, LmdbEntry *out, bool *end);

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

// unpack.c: bytes of a file; a gzip file is unpacked in memory.
typedef struct Blob {
    const uint8_t *ptr;
    size_t n;
    FileMap map;
    uint8_t *heap;
} Blob;
GanStatus blob_open(Str path, Blob *out);
// An array of an npz file: `name`, or empty for the only one. GAN_ERR_USAGE with their names.
GanStatus blob_open_npz(Str path, Str name, Blob *out);
void blob_close(Blob *b); // accepts an empty blob

// --- table.c: rows of a text table ---------------------------------------------------------------

typedef struct Table {
    Str text;       // borrowed
    char separator; // ' ': columns between blanks
    size_t at;
    uint32_t line, next; // of the row read last, from 1; of the text at `at`
} Table;
Table table_of(Str text, char separator);
char table_separator(Str path, Str text); // by the extension: .csv, .tsv or another
// The next row: its fields, never none, borrowed from the text or in `perm`. *row is used again.
// GAN_ERR_INPUT with the line's number; the caller names the file.
GanStatus table_row(Arena *perm, Table *t, StrVec *row, bool *end);

// The numbers of a .csv or .tsv file, below a row of names or without one: *shape is [rows,
// columns] of f32, whose bytes are *out's. GAN_ERR_INPUT with line and column of what is no number;
// the caller names the file.
GanStatus table_numbers(Str path, Blob *out, Array *shape);

// --- array.c, hdf5.c or hdf5_none.c: rows of arrays in files -------------------------------------

typedef struct Hdf5 Hdf5; // one open data set; safe from any thread
// `dataset` empty: the only one of two axes or more. *shape gets everything but data.
GanStatus hdf5_open(Str path, Str dataset, Hdf5 **out, Array *shape);
GanStatus hdf5_read(Hdf5 *h, size_t first, size_t rows, void *to); // in shape's type
void hdf5_close(Hdf5 *h);                                          // accepts NULL

typedef struct ArrayFile { // one thread at a time
    Array all;             // of HDF5 without data
    size_t row, head; // bytes of a row (all but the first axis), and of labels in front (CIFAR)
    Blob blob;        // all but HDF5: owned
    Hdf5 *hdf5;       // owned
    // Of HDF5 and Fortran order, owned: [windows * row], rows first .. first + loaded.
    uint8_t *window;
    size_t windows, first, loaded;
} ArrayFile;
// kind: one of arrays; `dataset` as for hdf5_open and blob_open_npz, else empty.
GanStatus array_open(Str path, SourceKind kind, Str dataset, ArrayFile *out);
GanStatus array_row(ArrayFile *f, size_t row, Array *out); // borrowed until the next call
void array_close(ArrayFile *f);                            // accepts an empty one
// pack_arrays.c: the fields of a pack of it without options but --channels-last, their ranges not
// set; labels where the records have them. 0: it cannot be packed so.
uint32_t array_fields(Arena *perm, Str path, SourceKind kind, const ArrayFile *f,
                      bool channels_last, PackField out[2]);

// --- sound.c or sound_none.c: WAV files ----------------------------------------------------------

typedef struct Sound {
    uint32_t channels, rate; // rate: in Hz
    uint64_t frames;         // samples per channel, by the header
} Sound;
bool sound_is(const uint8_t *data, size_t n); // by its first bytes
GanStatus sound_look(const uint8_t *data, size_t n, Sound *out);
// The first `length` frames as f32 [channels, length]; of a shorter sound the rest of `out` is left
// unchanged. Refused unless rate and channels are those of `want`.
GanStatus sound_read(const uint8_t *data, size_t n, const Sound *want, size_t length, float *out,
                     Sound *is);

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
