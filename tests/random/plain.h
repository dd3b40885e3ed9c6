// plain.h - for tests: what a model's text means, computed node by node in double.
//
// The graph is the one that was written: nothing simplified, nothing planned, gradients expanded
// and that is all. It is what every pass and device is compared with (check.h). With noise every
// result that is rounded somewhere is moved by up to so much of itself, and so are the terms of
// sums: how far values then come from those without noise is what rounding of that size may do.
// Where values are halves, their rounding is, and no other.
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
