// stream.h - private to data/: a stream of batches, opened by stream_open.c and read by stream.c.
#ifndef GAN_STREAM_H
#define GAN_STREAM_H

#include "sources.h"
#include "xform.h"

#include <pthread.h>

// The concatenated packs behind one or more fields.
typedef struct Feed {
    Pack *pack;     // [packs]
    Str *path;      // [packs], copied to the stream's arena
    bool **checked; // [packs][blocks]: whether its hash was verified; NULL: packed in memory
    uint32_t packs;
    uint64_t count; // samples of all; once paired, of the stream
    uint64_t *at;   // [count] the packs' sample for each of the stream; NULL: the same number
} Feed;

// classes.c: of the labels of several packs.
typedef struct Classes {
    const Str *name;     // [names]; none: they are numbers
    uint32_t n, names;   // names: n or 0
    const uint32_t **of; // [packs] the numbers here of a pack's own classes; NULL: the same
} Classes;

typedef struct StreamField {
    DataField want; // texts and lists copied to the stream's arena
    uint32_t feed;
    XformPlan *plan; // [packs of the feed]
    size_t elements; // of a sample
    uint32_t rate;   // of sounds, in Hz; 0: unknown, or no sounds
    Classes classes; // of a label
    double lo, hi;   // of numbers: what scale maps; lo > hi: it reads none
} StreamField;

typedef struct Slot { // a batch that is being computed, or is ready
    DataBatch batch;
    float **field;    // [fields]
    uint64_t *sample; // [count]
    GanStatus st;
    char reason[400];
    bool ready;
} Slot;

struct DataStream {
    Arena arena;
    DataOptions o; // field, user: see fields; paths are not used after opening
    Order order;
    Feed feed[PACK_MAX_FIELDS];
    uint32_t feeds, fields;
    StreamField field[PACK_MAX_FIELDS];
    Classes beside; // of the labels stored with the first field, read or not
    float *scratch; // owned, for xform_run
    Slot *slot;     // [slots]
    uint32_t slots;
    bool running; // the thread is
    pthread_t thread;
    pthread_mutex_t lock; // guards all below and Slot.ready
    pthread_cond_t changed;
    uint64_t make, give; // next batch to compute, next to hand out
    bool lent;           // the caller holds batch give-1
    bool stop;
};

const PackField *pack_label(const Pack *p); // its first label; NULL: it has none
// field: [n] label fields, one of each pack. want: has the classes that are known.
void classes_join(Arena *a, const PackField *const *field, uint32_t n, const DataField *want,
                  Classes *out);

// Whether one source (*named) has classes that are called otherwise than by their numbers, and
// another (*bare) has numbers alone.
bool classes_mix(const PackField *const *field, uint32_t n, uint32_t *named, uint32_t *bare);

// Sample d of a field. `check`: verify the hash of its block.
GanStatus stream_read(DataStream *s, const StreamField *sf, Drawn d, bool check, float *out);

#endif
