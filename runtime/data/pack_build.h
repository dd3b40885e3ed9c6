// pack_build.h - inside the building of a pack: what it is made of so far, and what pictures and
// arrays have in common.
#ifndef GAN_PACK_BUILD_H
#define GAN_PACK_BUILD_H

#include "sources.h"

typedef struct Labels {
    bool on;
    const Str *class_name; // folders: [classes], sorted
    uint32_t classes;
    Blob blob;   // file: owned
    Array array; // file: [n] whole numbers
} Labels;

typedef struct Build {
    const PackOptions *o; // borrowed
    Str path;             // borrowed
    Arena *perm;
    FitRule rule;
    Sound sound; // rate and channels of all; channels 0: these are no sounds, or none can be read
    Labels labels;
    PackField field[2]; // what is asked of the writer
    uint32_t fields;
    PackWriter *writer; // owned
    SourceKind kind;
    Str out_path; // "": into *pack
    Pack *pack;   // borrowed
    PackSummary sum;
} Build;

// --- pack_build.c --------------------------------------------------------------------------------

GanStatus build_refuse(Build *b, Str name, const char *reason); // a sample that cannot be used
// How samples are fitted to what was asked for, from the first one's extents and bits.
void build_rule(Build *b, uint32_t w, uint32_t h, uint32_t channels, uint32_t bits);
GanStatus build_labels(Build *b, size_t samples);           // opens what --labels names
void build_labels_of_records(Build *b, const ArrayFile *f); // classes that lie beside the samples
void build_label_field(Build *b);                           // behind the samples' own
void build_put_label(const Build *b, uint32_t label, uint8_t *record);

uint32_t build_label_of(const Build *b, Str name); // by its folder
// b->field[0] and the labels, of every member of a folder or archive. A result of `work` is a
// record, and `beside` bytes for `done`, which adds it to b->writer.
GanStatus build_members(Build *b, ItemWork *work, ItemDone *done, size_t beside);

// --- pack_sounds.c -------------------------------------------------------------------------------

GanStatus build_sounds(Build *b); // of b->sound

// --- pack_arrays.c -------------------------------------------------------------------------------

GanStatus build_array(Build *b); // the whole of it; b->writer is then filled

#endif
