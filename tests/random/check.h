// check.h - for tests: one model, computed in every configuration, against the oracle (plain.h).
#ifndef GAN_RANDOM_CHECK_H
#define GAN_RANDOM_CHECK_H

#include "make.h"
#include "ranks_run.h"

typedef enum Verdict {
    VerdictFine,
    VerdictRefused,  // it does not compile; the text says why
    VerdictDiverged, // its numbers diverge: nothing to compare
    VerdictWrong,    // something differs, or the process crashed
} Verdict;

typedef struct Finding {
    Verdict verdict;
    Str label; // kind of failure, kept while reducing: "exit 1, micro", "signal 11, ref"
    Str text;  // output of the process
    double seconds;
} Finding;

typedef struct CheckOptions {
    uint64_t seed;         // of choices outside the text: bucket sizes, loss scales
    const char *config;    // the only configuration to check; NULL: all
    bool compiled;         // also with compiled C kernels
    const DeviceApi *card; // also with CUDA kernels, on this device; NULL: without
    Str cache;             // folder for kernels; empty: not cached
} CheckOptions;

// Checks in a process of its own, so that a crash does not end the caller.
Finding check_model(Arena *a, const RandomModel *m, const CheckOptions *o);
// Fails the test if another form of the text (formatted, YAML) is another model (texts.c).
void check_texts(Arena *a, const RanksOptions *o);
// A smaller model with the same failure (shrink.c): `m` with lines deleted and names replaced.
RandomModel shrink_model(Arena *a, const RandomModel *m, const CheckOptions *o, Str label);

#endif
