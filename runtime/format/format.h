// format.h - files of others: images, sounds, arrays, tables, LMDB, from bytes to numbers. Beside
// it safetensors.h, torch.h (tensors by name) and unpack.h (archives).
//
// Readers take bytes that nobody has checked: any damage is GAN_ERR_INPUT with the reason, and each
// is fuzzed (tests/fuzz). One of two files answers image_jpeg_decode, image_webp_decode, hdf5_open
// and sound_read, by which libraries there are.
#ifndef GAN_FORMAT_H
#define GAN_FORMAT_H

#include "base.h"

#define DATA_MAX_RANK 8

// --- image.c, image_png.c, image_jpeg.c, image_webp.c, image_exif.c: one image -------------------

typedef struct Image {
    uint32_t w, h; // pixels
    // 1 grey, 2 grey and alpha, 3 RGB, 4 RGB and alpha; interleaved, rows top down
    uint32_t channels;
    uint32_t bits; // 8: uint8_t, 16: uint16_t in the machine's byte order
    void *pixels;  // owned, heap
} Image;

bool image_fits(int64_t w, int64_t h); // the limits on an image's size
// zeroed; the limits apply
GanStatus image_new(uint32_t w, uint32_t h, uint32_t channels, uint32_t bits, Image *out);
void image_release(Image *m); // accepts an empty image
// PNG, JPEG or WebP, detected by content, rotated upright by its EXIF orientation. The message is a
// reason without a path; GAN_ERR_INPUT for every kind of damage.
GanStatus image_decode(const uint8_t *data, size_t n, Image *out);
GanStatus image_png_decode(const uint8_t *data, size_t n, Image *out);
GanStatus image_jpeg_decode(const uint8_t *data, size_t n, Image *out);
GanStatus image_webp_decode(const uint8_t *data, size_t n, Image *out);
// image_exif.c: the orientation, 1 to 8, in EXIF data (from its TIFF header on); 1 if it has none.
// image_orient rotates an image of this orientation upright, or fails and leaves it unchanged.
uint32_t exif_orientation(const uint8_t *tiff, size_t n);
GanStatus image_orient(Image *m, uint32_t orientation);
GanStatus image_write_png(Str path, const Image *m); // atomic
// How many columns a grid of n images of h x w pixels has, [c, h, w]: `wanted`, or fewer or more
// where a grid would be wider or higher than an image can be.
size_t image_columns(size_t n, const uint32_t chw[3], size_t wanted);
// Rows of `columns` images, 2 pixels apart. x is f32 [n, c, h, w], c 1 or 3; lo..hi becomes 0..255.
GanStatus image_grid(const float *x, size_t n, const uint32_t chw[3], uint32_t columns, double lo,
                     double hi, Image *out);

// --- npy.c, idx.c, cifar.c: arrays in files ------------------------------------------------------

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

// The numbers of an array in row-major order, in `perm`; dim [rank], of at most DATA_MAX_RANK.
GanStatus npy_read_f32(Arena *perm, Str path, float **out, uint32_t *rank, int64_t *dim);
#define NPY_MAGIC "\x93NUMPY"
GanStatus npy_write_f32(Str path, const float *x, uint32_t rank, const int64_t *dim);
double half_value(uint16_t u);              // of IEEE 754 binary16
static inline bool is_little_endian(void) { // this machine
    const uint16_t one = 1;
    return *(const uint8_t *)&one == 1;
}

// --- hdf5.c or hdf5_none.c -----------------------------------------------------------------------

typedef struct Hdf5 Hdf5; // one open data set; safe from any thread
// `dataset` empty: the only one of two axes or more, in the root group or, where that has none, in
// the others. *shape gets everything but data.
GanStatus hdf5_open(Str path, Str dataset, Hdf5 **out, Array *shape);
GanStatus hdf5_read(Hdf5 *h, size_t first, size_t rows, void *to); // in shape's type
void hdf5_close(Hdf5 *h);                                          // accepts NULL

// --- unpack.c: bytes of a file -------------------------------------------------------------------

// A gzip file is unpacked in memory.
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

// What programs write where there is no value, and no person as a word; an empty cell aside.
bool table_lacks(Str field);
// What to do about numbers that are missing, for messages.
#define MISSING_KEPT                                                                               \
    "missing(0) in the model's field says what a missing value becomes, and `ganrun data pack "    \
    "--missing` keeps it (docs/cookbook.md, missing values)"
// The numbers of a .csv or .tsv file, below a row of names or without one: *shape is [rows,
// columns] of f32, whose bytes are *out's. GAN_ERR_INPUT with line and column of what is no number;
// the caller names the file. `missing`: what is not there, an empty cell, NaN, NA and the like, is
// NaN.
GanStatus table_numbers(Str path, bool missing, Blob *out, Array *shape);

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

// --- sound_write.c: sounds as a file -------------------------------------------------------------

enum { SOUND_CHANNELS = 2, SOUND_RATE_MOST = 1000000 };
typedef struct Sounds {
    const float *x; // [n, channels, length], borrowed
    size_t n, length;
    uint32_t channels, rate; // rate: in Hz
    double lo, hi;           // full scale
} Sounds;
// Concatenates them, with a quarter of a second of silence between; values beyond full scale are
// clipped.
GanStatus sound_write(Str path, const Sounds *s);

#endif
