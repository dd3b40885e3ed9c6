// sampler.h - samples of a model's entry points: their inputs, how they are drawn, and how they are
// displayed.
#ifndef GAN_SAMPLER_H
#define GAN_SAMPLER_H

#include "feed.h"

// --- inputs.c: what an entry point's own inputs are given ----------------------------------------

typedef struct Given { // with --input
    uint32_t slot;
    float *value; // [n, ...]: of samples 0 .. n - 1, then from the beginning
    size_t n;
} Given;
typedef struct Inputs {
    VEC(Given) given;
} Inputs;
Str input_name(const Module *m, uint32_t slot); // as the text has it
// Whether a slot is fed to an entry.
bool input_of(const Module *m, uint32_t entry, uint32_t slot);
// What samples first .. first + n - 1 get in an entry's fed slot to which `in` (NULL: nothing)
// gives nothing: out [n, ...], of a shared one [...].
void input_values(const Inputs *in, const Module *m, uint32_t slot, uint64_t seed, size_t first,
                  size_t n, Arena scratch, float *out);
// --input NAME=NUMBERS or NAME=FILE.npy, as often as it was said. `classes`: what the data call
// theirs, for an input of as many classes; may be empty.
GanStatus inputs_read(Arena *perm, const Module *m, uint32_t entry, const Strs *classes,
                      const OptionValue *o, Inputs *out);
// Feeds a batch that begins with sample `first`; `in` NULL: nothing is given.
GanStatus inputs_put(const Inputs *in, Exec *e, uint32_t entry, uint64_t seed, size_t first,
                     Arena scratch);

// --- sampler.c: pictures and sounds from an entry point ------------------------------------------

typedef enum Show {
    ShowNothing,
    ShowPicture, // [1 or 3, h, w]: one of a grid
    ShowVolume,  // [1 or 3, d, h, w]: the greatest along d, one of a grid
    ShowCloud,   // [2 or 3, points]: a plot, one of a grid
    ShowCurve,   // [1, n]: a plot over 0 .. n - 1, one of a grid
    ShowPoint,   // [2 or 3]: all samples in one plot
} Show;
typedef struct Sampler {
    uint32_t entry; // Module.entry[]
    uint32_t node;  // its first value
    Type type;      // of that value
    uint32_t raw;   // the same in the units of the data: node, unless a `map` has it in others
    Show show;      // how it is looked at
    bool mapped;    // data of its shape goes through a `map`
    uint32_t chw[3];
    uint32_t columns;     // of a grid: a multiple of the classes of an input; 0: as is best
    uint32_t real_slot;   // data field of the same shape, NONE
    double lo, hi;        // what becomes black and white
    const Inputs *inputs; // borrowed; NULL: nothing is given
} Sampler;
// The first slot of the data field that `slot` is a batch of; NONE: it is of none.
uint32_t sampler_field(const Module *m, uint32_t slot);
Sampler sampler_of(const Module *m, uint32_t entry);
// A warning where the data that the entry imitates have values that its last operation, a tanh or a
// sigmoid, cannot give; else empty.
Str sampler_unreachable(Arena *a, const Module *m, uint32_t entry);
GanStatus sampler_named(const Module *m, Str name, uint32_t *out); // GAN_ERR_USAGE: there is none
// `name` empty: the first entry whose value is a picture, else the first. GAN_ERR_INPUT or _USAGE
// when there is none.
GanStatus sampler_find(const Module *m, Str name, Sampler *out);
size_t sampler_elements(const Sampler *s); // of one sample
// Samples first, first + 1, ... from noise that follows from seed and number alone; out [n, ...].
// `plan` is the entry's, feed NULL when it reads no data, `first` a multiple of the batch.
GanStatus sampler_draw(const Sampler *s, Exec *e, const Plan *plan, Feed *feed, uint64_t seed,
                       size_t first, size_t n, Arena scratch, float *out);
GanStatus sampler_grid(const Sampler *s, const float *x, size_t n, Str path); // up to 8 columns
size_t sampler_fill(const Sampler *s); // samples that make a good one
bool sampler_sounds(const Sampler *s); // samples may be sounds: [1 or 2, n]
// As a WAV file, one after the other; `rate` numbers a second.
GanStatus sampler_wav(const Sampler *s, const float *x, size_t n, uint32_t rate, Str path);

// The entry reads neither weights nor data: a distribution written in the model.
bool sampler_is_drawn(const Module *m, uint32_t entry);

#endif
