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
    double **slot;   // [slot] of the whole batch, in logical order
    double ***value; // [2 + entry] of init, step and entries: [node], of its last run
    uint32_t *ran;   // [step's block] the last step it ran in
    double noise;    // share of a value
    uint64_t turn;   // which noise
    uint32_t step;
    RanksRun run; // the values of ranks_run, in its order
} Plain;

// Compiles o->text. False: it was refused, with diagnostics in *said. `apart`: simplified, and
// sums over the batch taken apart, as they are in parts and on ranks. That changes no value; but
// x - mean(x) then adds up to nothing, where as written what rounding leaves of it may be cancelled
// in the end. With `apart` and halves in `o`, what a plan keeps in halves is marked so; with f16
// losses are scaled, and what it cannot hold is infinite.
bool plain_open(Plain *p, Arena *a, const RanksOptions *o, bool apart, Str *said);
// All steps, and the entries where asked for: on `o`'s options but devices and ranks.
void plain_run(Plain *p, double noise, uint64_t turn);

// How far the gradients in the step are from differences of what they are gradients of: each along
// a random direction, in terms of what such a difference may be off by itself. `worst`: its text.
// Those at a kink and those of blocks that did not run are not counted; `counted` are.
double plain_slopes(Plain *p, Str *worst, uint32_t *counted);

#endif
