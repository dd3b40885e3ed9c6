// plain.h - for tests: the oracle, a model's text evaluated node by node in double.
//
// The graph is as written: not simplified, not planned, with only gradients expanded. Every pass
// and device is compared with it (check.h). With noise, every rounded result is perturbed by up to
// that relative size, and so are the terms of sums; the resulting change bounds what rounding of
// that size may cause. 16-bit values are rounded exactly as stored, without noise.
#ifndef GAN_RANDOM_PLAIN_H
#define GAN_RANDOM_PLAIN_H

#include "ranks_run.h"

typedef struct Plain {
    Arena *a;
    const RanksOptions *o; // borrowed
    Module m;
    double **slot;       // [slot] of the whole batch, in logical order
    double ***value;     // [2 + entry] of init, step and entries: [node], of its last run
    uint32_t *ran;       // [step's block] the last step it ran in; NONE: not in the last round
    double noise;        // relative
    uint64_t noise_seed; // seed of the noise
    uint32_t step;
    RanksRun run; // the values of ranks_run, in its order
} Plain;

// Compiles o->text. False: it is invalid, with diagnostics in *said. `apart`: simplified, and with
// reductions over the batch split as for micro-batches and ranks (shard.h). In exact arithmetic
// that changes nothing; but it changes which rounding errors of, say, x - mean(x) cancel. With
// `apart` and a 16-bit type in `o`, nodes have the types a plan stores them in; with f16 losses are
// scaled, and overflow gives infinity.
bool plain_open(Plain *p, Arena *a, const RanksOptions *o, bool apart, Str *said);
// Runs all steps, and the entries if `o` says so; ignores devices and ranks in `o`.
void plain_run(Plain *p, double noise, uint64_t noise_seed);

// The largest error of the step's gradients against finite differences, each along a random
// direction, relative to the error allowed for such a difference. *worst: its description.
// Gradients at a kink and in blocks that did not run are not checked; *counted: those that were.
double plain_slopes(Plain *p, Str *worst, uint32_t *counted);

#endif
