// pack_build.h - inside the building of a pack: what it is made of so far, and what images and
// arrays have in common.
#ifndef GAN_PACK_BUILD_H
#define GAN_PACK_BUILD_H

#include "sources.h"

// By which part of its name a member finds its label.
typedef enum LabelKey {
    LabelByFolder, // "cat/1.png" and "cat/old/2.png": cat
    LabelByPath,   // cat/1.png
    LabelByStem,   // cat/1, up to the base name's first dot, as WebDataset groups files
} LabelKey;

typedef struct KeyLabel {
    Str key;
    uint32_t label; // the class, or the place of its vector
} KeyLabel;
typedef VEC(KeyLabel) KeyLabelVec;
typedef VEC(float) FloatVec;

enum { LabelMost = 1000000, LabelWidthMost = 1 << 16 }; // classes; numbers of a vector

// A label is a class, or a vector of numbers (attributes, a camera): whatever its source, all of a
// pack are alike.
typedef struct Labels {
    bool on;
    uint32_t width;        // numbers of a vector; 0: classes
    uint32_t classes;      // 0: vectors
    uint32_t first;        // of `array`: what becomes class 0
    const Str *class_name; // [classes], sorted: of folders and words; NULL: numbers
    double lo, hi;         // of vectors; lo > hi: no number is there
    bool missing;          // what is missing of a vector is NaN, and no error
    // Of members of a folder or archive:
    LabelKey key;
    KeyLabelVec of;  // sorted by key
    FloatVec vector; // [labels][width]
    Str root;        // by folder: what all names begin with, ending in /, or ""
    Str in;          // where labels are, in words
    Str words;       // of a table: its name and columns, to be told of the pack; else ""
    // Of an array's samples:
    Blob blob;   // owned
    Array array; // [n] whole numbers, or [n, width]
} Labels;

typedef struct Build {
    const PackOptions *o; // borrowed
    Str path;             // borrowed
    Arena *perm;
    FitRule rule;
    Sound sound; // rate and channels of all; channels 0: these are no sounds, or none can be read
    Labels labels;
    Labels split; // on: of the members only those of this class are packed
    uint32_t split_class;
    PackField field[2]; // what is asked of the writer
    uint32_t fields;
    PackWriter *writer; // owned
    SourceKind kind;
    Str out_path; // "": into *pack
    Pack *pack;   // borrowed
    PackSummary sum;
    double shown; // when o->progress was called last
} Build;

// --- pack_build.c --------------------------------------------------------------------------------

void build_progress(Build *b); // behind each file
// A sample that cannot be used: counted and reported, or where it is not the sample's fault
// (GAN_ERR_MEMORY, GAN_ERR_USAGE) the end of the build.
GanStatus build_refuse(Build *b, Str name, GanStatus st, const char *reason);
typedef struct OptionCheck {
    bool given;
    const char *option, *of; // its word, and what it is for
} OptionCheck;
// GAN_ERR_USAGE where one of these, which the source has no use for, is given.
GanStatus build_check_options(const Build *b, const char *source, size_t n,
                              const OptionCheck *check);
// How samples are fitted to what was asked for, from the first one's extents and bits.
void build_rule(Build *b, uint32_t w, uint32_t h, uint32_t channels, uint32_t bits);
void build_count_losses(Build *b, uint32_t lost); // of an image; lost: image_losses
// b->field[0] and the labels, of every member of a folder or archive. A result of `work` is a
// record, and `beside` bytes for `done`, which adds it to b->writer.
GanStatus build_members(Build *b, ItemWork *work, ItemDone *done, size_t beside);

// --- pack_labels.c -------------------------------------------------------------------------------

// Opens what o->labels names; `samples`: of an array, which must have as many labels.
GanStatus build_labels(Build *b, size_t samples);
void build_labels_of_records(Build *b, const ArrayFile *f); // classes that lie beside the samples
void build_label_field(Build *b);                           // behind the samples' own
void build_put_label_at(const Build *b, size_t sample, uint8_t *record); // of an array
// The label of this member, if there are labels. GAN_ERR_INPUT: it has none.
GanStatus build_put_label_of(const Build *b, Str name, uint8_t *record);

// For readers of labels of members. labels_sort ends the adding: it refuses two labels of one key.
void labels_add_class(Arena *perm, Labels *l, Str key, uint64_t class);
// GAN_ERR_INPUT: not as many numbers as the others have.
GanStatus labels_add_vector(Arena *perm, Labels *l, Str key, const float *v, size_t n);
GanStatus labels_sort(Labels *l);
const KeyLabel *labels_find(const Labels *l, Str key); // NULL: none
bool labels_are_table(Str path);                       // by its extension
// Of the table at `name`, beside the members or elsewhere.
GanStatus labels_of_file_text(Build *b, Str name, Str columns, Labels *l);
Str member_path(Str name); // without the ./ of `tar -C`
// Each name once, in order. Sorts the list, whose array it is.
Str *labels_sorted_names(StrVec *names, uint32_t *n);

// --- pack_table.c --------------------------------------------------------------------------------

// Labels of these members from the text of a table whose first column names files. `columns`: names
// with commas between them; empty: the only one. path: for messages, and its extension tells csv,
// tsv, and columns between blanks.
GanStatus labels_of_table(Arena *perm, Str text, Str path, const StrVec *members, Str columns,
                          Labels *l);

// --- pack_split.c --------------------------------------------------------------------------------

GanStatus build_split(Build *b);               // reads what o->split names; "" is no split
bool build_wants(const void *build, Str name); // a SourceFilter, once there is a split

// --- pack_sounds.c -------------------------------------------------------------------------------

GanStatus build_sounds(Build *b); // of b->sound

// --- pack_arrays.c -------------------------------------------------------------------------------

GanStatus build_array(Build *b); // the whole of it; b->writer is then filled

#endif
