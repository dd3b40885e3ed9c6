// synth.h - private to data/: the kinds of `ganrun data synth` and what they draw with. Sample i of
// a kind is a function of (seed, i, size) alone, so a longer set begins with the shorter one.
#ifndef GAN_SYNTH_H
#define GAN_SYNTH_H

#include "sources.h"

#define SYNTH_PI 3.14159265358979323846

typedef struct SynthJob {
    Str kind, path; // path: to write
    uint64_t count, seed;
    uint32_t size; // of an image's or map's side, a chain's points, a sound's numbers
} SynthJob;

// --- synth.c -------------------------------------------------------------------------------------

// The k-th number of sample i, in [0, 1).
double synth_uniform(uint64_t seed, uint64_t i, uint64_t k);
double synth_normal(uint64_t seed, uint64_t i, uint64_t k); // the same, mean 0 and variance 1
// Samples [dim...] of which `fill` makes number i in x, as an npy file, or as a pack where the path
// says so. `rate`: of sounds, else 0.
typedef GanStatus SynthFill(const SynthJob *j, uint64_t i, float *x);
GanStatus synth_floats(const SynthJob *j, uint32_t rank, const int64_t *dim, uint32_t rate,
                       SynthFill *fill);
bool synth_to_pack(const SynthJob *j);                        // the path says so
Str synth_name(const SynthJob *j, uint64_t i, char room[64]); // of a sample: "ring:7"
GanStatus synth_commit(const SynthJob *j, PackWriter *w);     // frees w

// --- synth_maps.c, synth_chains.c ----------------------------------------------------------------

// Densities exp(g - v/2), g a Gaussian random field of variance v: [1, size, size].
GanStatus synth_lognormal(const SynthJob *j);
double lognormal_variance(void); // v
// The power of g at radius k (cycles a side), up to a factor.
double lognormal_power(double k, uint32_t side);

// One folded chain of points 3.8 apart, moving at two hinges: a pack of x [3, size] and y, which of
// the four states it is in.
GanStatus synth_chains(const SynthJob *j);

// --- synth_tones.c -------------------------------------------------------------------------------

// Plucked strings, mono, of `size` numbers at 16,000 a second: a folder of WAV files, or a pack.
GanStatus synth_tones(const SynthJob *j);

#endif
