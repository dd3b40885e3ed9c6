// check.h - for tests: one model, computed in every configuration, against the oracle (plain.h).
#ifndef GAN_RANDOM_CHECK_H
#define GAN_RANDOM_CHECK_H

#include "make.h"
#include "ranks_run.h"

typedef enum Verdict {
    VerdictFine,
    VerdictRefused, // it does not compile; the text says why
    VerdictWild,    // its numbers run away: nothing to compare
    VerdictWrong,   // something differs, or a process ended as it should not
} Verdict;

typedef struct Finding {
    Verdict verdict;
    Str label; // what went wrong, the same for models that fail alike: "micro", "signal 11"
    Str text;  // all that was said
    double seconds;
} Finding;

typedef struct CheckOptions {
    uint64_t seed;   // of what is not in the text: ranks, buckets
    const char *way; // the only one; NULL: all
    bool compiled;   // kernels too, by the C compiler
    bool card;       // those of a card too, on its stand-in
    Str cache;       // folder for them; empty: none are kept
} CheckOptions;

// In a process of its own, so that nothing a model does ends the caller.
Finding check_model(Arena *a, const RandomModel *m, const CheckOptions *o);
// Fails the test where another form of the text (laid out, YAML) is another model (texts.c).
void check_texts(Arena *a, const RanksOptions *o);
// A smaller model that fails alike (shrink.c): `m` with lines left out and names replaced.
RandomModel shrink_model(Arena *a, const RandomModel *m, const CheckOptions *o, Str label);

#endif
