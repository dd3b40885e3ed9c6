// data.h - the data pipeline, from files (format.h) to training batches; plots of samples;
// procedural data sets.
//
//   folder, zip, tar, LMDB, npy, IDX, HDF5  ->  items  ->  fit  ->  pack file  ->  stream  ->  f32
//   batches
//
// A pack is one file of equal-sized records that is memory-mapped: it opens in O(1) and processes
// share it. Images are decoded, checked and resized while packing, so training only copies. Arrays
// are in logical order throughout: channels first, [c, h, w] for a sample, batch in front. Nothing
// here prints except data_main, which writes to the two files it is given.
#ifndef GAN_DATA_H
#define GAN_DATA_H

#include "format.h"

// --- plot.c --------------------------------------------------------------------------------------

// Points x [d, p], d 2 or 3, as an image out [3, side, side] of 0..1; lo..hi is its width and
// height.
void plot_points(const float *x, size_t p, uint32_t d, double lo, double hi, uint32_t side,
                 float *out);

// --- fit.c: any image to W x H x C ---------------------------------------------------------------

#define FIT_MODES(X)                                                                               \
    X(FitAuto, "auto") X(FitCover, "cover") X(FitContain, "contain") X(FitStretch, "stretch")
#define FIT_WORDS "auto|cover|contain|stretch" // the same, for the command line
// For help texts.
#define FIT_HELP                                                                                   \
    "alpha is blended over the background; colour becomes grey by 0.299 R + 0.587 G + 0.114 B "    \
    "(BT.601), grey becomes colour by copying; resized by an antialiased triangle (bilinear) "     \
    "filter in float, rounded to nearest. cover: crops the centre to the target's proportions; "   \
    "contain: the whole image, centred on the background; stretch: changes the proportions; "      \
    "auto: contain for an image with alpha, else cover"
typedef enum FitMode {
#define X(name, text) name,
    FIT_MODES(X)
#undef X
} FitMode;

typedef struct FitRule {
    uint32_t w, h, channels; // of the result; channels 1 or 3
    uint32_t bits;           // of the result: 8 or 16
    FitMode mode;
    uint8_t background[3]; // RGB under alpha and beside a contained image
} FitRule;

const char *fit_name(FitMode mode);
bool fit_find(Str name, FitMode *out);
// out: planar [channels, h, w] of uint8_t or uint16_t. Fails only when out of memory.
GanStatus image_fit(const Image *m, const FitRule *rule, void *out);
// What an image has and cannot keep as it is fitted, as bits (1 << ImageLoss): colours in grey
// ones, parts that are transparent, more than 8 bits in those of 8. What is hardly visible does not
// count.
#define IMAGE_LOSSES(X)                                                                            \
    X(LossColour, "in colour, and made grey")                                                      \
    X(LossAlpha, "transparent in places, and put on the background")                               \
    X(LossBits, "of 16 bits, and rounded to 8 like the first")
typedef enum ImageLoss {
#define X(name, words) name,
    IMAGE_LOSSES(X)
#undef X
        ImageLosses
} ImageLoss;
extern const char *const image_loss_words[ImageLosses];
uint32_t image_losses(const Image *m, const FitRule *rule);
// The same resampling for one plane of numbers: in [h, w] to out [oh, ow].
GanStatus plane_resize(const float *in, uint32_t h, uint32_t w, float *out, uint32_t oh,
                       uint32_t ow);

int data_threads(int threads); // 0 becomes the number of cores

// --- pack.c: the file of samples -----------------------------------------------------------------

// What kind of value a field of a sample is.
typedef enum DataKind { DataImage, DataFloat, DataLabel } DataKind;
#define PACK_DTYPES(X)                                                                             \
    X(PackU8, "u8", 1) X(PackU16, "u16", 2) X(PackU32, "u32", 4) X(PackF32, "f32", 4)
typedef enum PackDtype {
#define X(name, text, size) name,
    PACK_DTYPES(X)
#undef X
} PackDtype;
const char *pack_dtype_name(PackDtype t);
size_t pack_dtype_size(PackDtype t);

typedef struct PackField {
    Str name;
    DataKind kind;
    PackDtype dtype; // labels are u32
    uint32_t rank;
    int64_t dim[DATA_MAX_RANK]; // one sample: [c, h, w] for images, [] for labels
    size_t offset, bytes;       // in a record
    // The range that scale(a, b) maps to a..b: 0..255, 0..65535, of floats their minimum and
    // maximum.
    double lo, hi;
    uint64_t missing;      // of all numbers, those that are NaN
    uint32_t rate;         // of sounds: sample rate in Hz; else 0
    uint32_t classes;      // labels
    const Str *class_name; // [classes], or NULL when they are numbers
} PackField;

#define PACK_MAX_FIELDS 8
typedef struct Pack {
    uint64_t count; // samples
    size_t stride;  // bytes of a record
    uint32_t fields;
    PackField field[PACK_MAX_FIELDS];
    Str source, fit;        // where the samples came from and how they were resized, in words
    Str content;            // hash of the content, 32 hexadecimal digits
    uint64_t block;         // samples per hash
    const uint8_t *records; // [count * stride]
    const uint8_t *hashes;  // [blocks * 16]
    const uint8_t *names;   // u64 [count + 1] offsets, then text
    size_t hashes_size, names_size;
    const uint8_t *bytes;
    size_t n;      // the whole file, borrowed from map or heap
    FileMap map;   // owned, or empty
    uint8_t *heap; // owned, or NULL
} Pack;

// O(1) in the number of samples. Checks sizes, header and trailer; pack_check and pack_verify check
// the samples.
GanStatus pack_open(Arena *perm, Str path, Pack *out);
// `data` is borrowed
GanStatus pack_open_bytes(Arena *perm, const uint8_t *data, size_t n, Pack *out);
// GAN_ERR_INPUT: what would be replaced is no file of the kind `what`, which `begins` so.
GanStatus data_spares(Str path, Str begins, const char *what);
GanStatus pack_spares(Str path);      // the same, of packs
void pack_close(Pack *p);             // accepts an empty pack
GanStatus pack_verify(const Pack *p); // reads everything; names the damaged samples
uint64_t pack_blocks(const Pack *p);  // of `block` samples each, the last may be shorter
GanStatus pack_check(const Pack *p, uint64_t block); // the same for one of them
Str pack_name(const Pack *p, uint64_t sample);       // "" when the name is damaged
const uint8_t *pack_record(const Pack *p, uint64_t sample);
// The least class of all samples, where classes are numbers; 0 for another field. Reads until it
// finds class 0.
uint32_t pack_least_class(const Pack *p, const PackField *f);

// --- pack_build.c: from any source to a pack -----------------------------------------------------

// An option that does not apply to the source is an error.
typedef struct PackOptions {
    bool implied;      // size, channels and length follow from a model's field, not from options
    uint32_t w, h;     // 0: the samples' own, if they have one size
    uint32_t channels; // images: 1 or 3, 0: 3; arrays: 0: as they have; sounds: required, 0: any
    uint64_t length;   // sounds: samples per channel; 0: not given
    uint32_t bits;     // 8 or 16; 0: those of the first image
    FitMode fit;
    uint8_t background[3];
    bool background_set; // false: white
    bool skip_bad;
    bool missing;         // NaN and empty cells are kept, as NaN, and counted
    bool channels_last;   // an array's samples are [..., c]: store them channels first
    Str dataset;          // of an HDF5 or npz file; "": the only one (HDF5: of two axes or more)
    Str labels;           // "": none; else as --labels has it (data.def)
    Str label_columns;    // of a table, with commas between them; "": the only one
    uint64_t first_class; // of classes that are numbers: which of them becomes 0
    Str split;            // "": all; else which samples, as --split has it
    uint64_t limit;       // 0: all
    int threads;          // 0: one per core
    // called for each sample that cannot be used; may be NULL
    void (*bad)(void *user, Str name, const char *reason);
    // called every so many seconds with the number of files done; may be NULL
    void (*progress)(void *user, uint64_t files);
    double every;
    void *user;
} PackOptions;

typedef struct PackSummary {
    // In `rounded` an array's numbers lie between those of f32; of sounds, some were padded with
    // silence and some cut.
    uint64_t good, bad, rounded, shorter, longer;
    uint64_t missing;           // of the bad ones: samples of an array with NaN
    uint64_t louder;            // sounds with numbers beyond -1 to 1,
    float loudest;              // to which
    uint64_t lost[ImageLosses]; // images that lost this, unless an option asked for that
} PackSummary;
// Writes to `out_path`, or with "" opens the result from memory into *pack (else pack may be NULL).
GanStatus pack_build(Arena *perm, Str path, const PackOptions *o, Str out_path, Pack *pack,
                     PackSummary *sum);
// Labels alone: an IDX or npy file of whole numbers becomes a pack in memory with one field, y.
GanStatus pack_labels(Arena *perm, Str path, Pack *pack);

// --- order.c: the order of samples ---------------------------------------------------------------

typedef struct Order {
    uint64_t n, seed; // n > 0 samples; everything is keyed by the seed
    bool in_order;    // each once, from the first to the last, without random crops and flips
    // How samples are drawn, if not each once per epoch. Borrowed.
    const uint64_t *member; // balanced: [n] samples, sorted by class
    const uint64_t *from;   // [classes + 1] offsets of the classes in it; none is empty
    uint64_t classes;       // 0: not balanced
    const double *upto;     // by weight: [n] cumulative weights; NULL: not by weight
} Order;
typedef struct Drawn {
    uint64_t sample;
    uint64_t turn; // how often it came before: keys its random crop and flip
} Drawn;
// The sample at a position of the infinite sequence: one permutation of all samples after another;
// balanced: rounds over all classes, each with permutations of its own; by weight: a random draw
// for each position.
Drawn order_drawn(const Order *o, uint64_t place);
// Sets up balanced draws. class: [n], each 0 or more; classes without samples are left out.
void order_by_class(Arena *a, const float *class, Order *o);
// Sets up draws by weight [n]. False: weight *bad is negative or not finite, or (*bad is n) all are
// 0.
bool order_by_weight(Arena *a, const float *weight, Order *o, uint64_t *bad);
// the epoch's i-th sample: a permutation of 0..n-1
uint64_t order_at(const Order *o, uint64_t epoch, uint64_t i);
// 64 random bits, a function of its arguments (the values are part of runs' reproducibility)
uint64_t order_draw(const Order *o, uint64_t epoch, uint64_t sample, uint64_t site);

// --- stream.c, stream_open.c: batches for training -----------------------------------------------

typedef enum DataOp { DataResize, DataCrop, DataFlip, DataScale, DataMissing, DataKnown } DataOp;
// resize(a) crop(a): a is the height; scale(a, b); missing(a); known, last: the field is the mask
// of the stream's field a, which is before it
typedef struct DataXform {
    DataOp op;
    double a, b;
} DataXform;

// How samples are drawn: each once per epoch; classes of this label equally often; in proportion to
// this field's one number, with replacement.
typedef enum DataDraw { DrawEach, DrawBalanced, DrawWeight } DataDraw;

typedef struct DataField {
    Str name;
    DataKind kind;
    uint32_t rank;              // label: 0
    int64_t dim[DATA_MAX_RANK]; // of one sample, after the transforms
    int64_t classes;            // label
    const Str *known;           // [knowns] of a label: classes that have numbers already
    uint32_t knowns;
    const Str *like; // [likes] of another label: the classes that are here too keep their number
    uint32_t likes;
    bool ranged;            // lo..hi is the range that scale maps, whatever extremes the data have
    double lo, hi;          // of numbers, not of images
    uint32_t rate;          // of sounds, in Hz, which the data must have; 0: any
    const DataXform *xform; // in order
    uint32_t xforms;
    DataDraw draw;   // of one field at most
    bool unread;     // its place in a batch stays as it is; it needs no data
    const Str *path; // packs or sources, concatenated; none: those of the first field
    uint32_t paths;
} DataField;

// The stream's field that this one is the mask of; UINT32_MAX: it is none.
uint32_t data_mask_of(const DataField *f);

typedef struct DataOptions {
    const DataField *field; // read together, in the same order
    uint32_t fields;
    int64_t batch;        // global
    int64_t first, count; // this rank's part of each batch; count 0: all of it
    uint64_t seed;
    uint32_t stream;   // its number in the model, so that streams differ
    uint64_t position; // batches already consumed: resuming is opening at another position
    uint32_t ahead;    // batches prepared in advance; 0: 3
    bool in_order;     // as Order has it; fewer samples than a batch are repeated to fill it
    bool wide;         // the step computes in f64: what f32 rounds is said
    bool skip_bad;     // for sources packed on the fly
    int threads;       // the same
    void (*notice)(void *user, const char *text); // of samples left out or changed; may be NULL
    void *user;
} DataOptions;

typedef struct DataBatch {
    uint64_t position;         // its number, from 0
    uint64_t epoch;            // of its first sample
    const uint64_t *sample;    // [count] ids, for messages
    const float *const *field; // [fields] each [count, dim...]
} DataBatch;

typedef struct DataStream DataStream; // one thread at a time
// Batch k holds positions k*batch .. k*batch+batch-1 of the infinite sequence of drawn samples
// (Order): nothing is dropped, a batch may straddle two epochs, and it is a pure function of (seed,
// stream, k). The random draws of crop and flip are keyed by (seed, stream, turn, sample), and the
// fields of a stream share them, so that pairs stay aligned. Opening reads all labels or weights if
// samples are drawn by them.
GanStatus stream_open(const DataOptions *o, DataStream **out);
void stream_close(DataStream *s);                            // accepts NULL
GanStatus stream_next(DataStream *s, const DataBatch **out); // borrowed until the next call
GanStatus stream_seek(DataStream *s, uint64_t position);     // the next batch is `position`
// Without the prefetch thread: this rank's number of samples from this position on, drawn once per
// epoch whatever the fields' draw is.
GanStatus stream_fill(DataStream *s, uint64_t place, float *const *field, uint64_t *sample);
uint64_t stream_count(const DataStream *s);            // samples
Str stream_name(const DataStream *s, uint64_t sample); // where it came from
Str stream_file(const DataStream *s, uint64_t sample); // the file it was; empty: a part of one
// Content hashes of the field's packs in the order they are read, with a + between them; then,
// where it is paired with another source other than row by row, a hash of the pairs.
void stream_content(const DataStream *s, uint32_t field, Text *out);
uint32_t stream_rate(const DataStream *s, uint32_t field); // of its sounds; 0: it has none
// The range that scale maps; false: that of an image, which is always the same, or of a label.
bool stream_range(const DataStream *s, uint32_t field, double *lo, double *hi);
// Names of a label's classes, those of all packs, borrowed; 0: they are numbers, in some pack at
// least.
uint32_t stream_classes(const DataStream *s, uint32_t field, const Str **names);

// The label stored with a sample of the first field, whether the model reads it or not; false:
// none.
bool stream_label(const DataStream *s, uint64_t sample, uint32_t *out);

// --- synth.c: procedural data sets ---------------------------------------------------------------

#define SYNTH_KINDS "shapes, outlines, ring, lognormal, chains, tones"
// size 0: the kind's own.
GanStatus synth_write(Str kind, Str path, uint64_t count, uint32_t size, uint64_t seed);

// --- data_cli.c, data_inspect.c: `ganrun data` ---------------------------------------------------

extern const struct ArgTable data_args; // args.h; help is answered by the program
// argv[0] is the word after `data`. Returns the exit code.
int data_main(int argc, char **argv, FILE *out, FILE *err);
// Describes what `path` holds; `dataset` picks an array of several, else "".
GanStatus data_inspect(Str path, Str dataset, bool json, FILE *out);
// weights_inspect.c: names, dtypes and shapes of a file of weights, one a line, or as JSON.
GanStatus weights_inspect(Str path, bool json, FILE *out);

#endif
