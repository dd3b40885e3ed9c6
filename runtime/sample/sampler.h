// sampler.h - samples of a model's entry points: their inputs, how they are drawn, and how they are
// displayed.
#ifndef GAN_SAMPLER_H
#define GAN_SAMPLER_H

#include "feed.h"

// --- inputs.c: values of an entry point's inputs -------------------------------------------------

typedef struct Given { // by --input
    uint32_t slot;
    float *value; // [n, ...]: of samples 0 .. n - 1, then cyclically
    size_t n;
    size_t rows; // n, of an .npy; else 0
} Given;
typedef struct Inputs {
    VEC(Given) given;
    size_t rows; // of its arrays, but for those of one row; 0: there are none
} Inputs;
Str input_name(const Module *m, uint32_t slot); // in the model's text
// Whether a slot is an input of an entry.
bool input_of(const Module *m, uint32_t entry, uint32_t slot);
// Samples first .. first + n - 1: their noise follows from seed and number alone.
typedef struct Draws {
    uint64_t seed;
    size_t first, n;
} Draws;
// The default values (noise, classes in turn) of an input slot that `in` (NULL: no --input) does
// not set: out [n, ...], of a shared input [...].
void input_values(const Inputs *in, const Module *m, uint32_t slot, Draws of, Arena scratch,
                  float *out);
// All --input NAME=NUMBERS, NAME=CLASS or NAME=FILE.npy. job: has the class names of the data, for
// an input of as many classes.
GanStatus inputs_read(Arena *perm, const Module *m, uint32_t entry, const Job *job,
                      const ArgValue *o, Inputs *out);
// Feeds the inputs of a batch that begins with sample `first`; `in` NULL: the defaults.
GanStatus inputs_put(const Inputs *in, Exec *e, uint32_t entry, uint64_t seed, size_t first,
                     Arena scratch);

// --- sampler.c: images and sounds from an entry point --------------------------------------------

typedef enum Show {
    ShowNothing,
    ShowImage,  // [1 or 3, h, w]: one of a grid
    ShowVolume, // [1 or 3, d, h, w]: the maximum along d, one of a grid
    ShowCloud,  // [2 or 3, points]: a plot, one of a grid
    ShowCurve,  // [1, n]: a plot over 0 .. n - 1, one of a grid
    ShowPoint,  // [2 or 3]: all samples in one plot
} Show;
typedef struct Sampler {
    uint32_t entry; // Module.entry[]
    uint32_t node;  // its first value
    Type type;      // of that value
    uint32_t raw;   // the same in the data's units: another node than `node` if they have a `map`
    Show show;      // how it is displayed
    bool mapped;    // data of its shape goes through a `map`
    uint32_t chw[3];
    uint32_t columns;     // of a grid: a multiple of the classes of an input; 0: any
    uint32_t real_slot;   // data field of the same shape, or NONE
    double lo, hi;        // values that are black and white
    const Inputs *inputs; // borrowed; NULL: the defaults
} Sampler;
bool sampler_too_large(const Type *t); // an image or a volume, with a side beyond that of a PNG
// The first slot of the data field that `slot` is a batch of; NONE: it is of none.
uint32_t sampler_field(const Module *m, uint32_t slot);
Sampler sampler_of(const Module *m, uint32_t entry);
// A warning if the data of the entry's shape have values outside the range of its last operation, a
// tanh or a sigmoid; else empty.
Str sampler_unreachable(Arena *a, const Module *m, uint32_t entry);
GanStatus sampler_named(const Module *m, Str name, uint32_t *out); // GAN_ERR_USAGE: there is none
// `name` empty: the first entry whose value is an image, else the first. GAN_ERR_INPUT or _USAGE
// when there is none.
GanStatus sampler_find(const Module *m, Str name, Sampler *out);
// Of a sampler that was found before the model was planned: nodes are the plan's now.
void sampler_settle(Sampler *s, const Module *m);
size_t sampler_elements(const Sampler *s); // of one sample
// Draws samples: out [n, ...]. The first is a multiple of the batch; feed NULL: the entry reads no
// data.
GanStatus sampler_draw(const Sampler *s, const Session *session, Feed *feed, Draws of,
                       Arena scratch, float *out);
GanStatus sampler_grid(const Sampler *s, const float *x, size_t n, Str path); // up to 8 columns
size_t sampler_fill(const Sampler *s); // a good number of samples for a grid
bool sampler_sounds(const Sampler *s); // samples may be sounds: [1 or 2, n]
// Concatenated in a WAV file; `rate` in Hz.
GanStatus sampler_wav(const Sampler *s, const float *x, size_t n, uint32_t rate, Str path);

// The entry reads neither weights nor data: a distribution written in the model.
bool sampler_is_drawn(const Module *m, uint32_t entry);
// Training changes what it shows, and it needs no values that only a user can give: it reads
// weights, and its inputs are classes.
bool sampler_follows(const Module *m, uint32_t entry);

#endif
