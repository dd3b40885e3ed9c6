// programs.h - for tests: random programs, and their results.
//
// A program is a Module whose `step` reads and writes a few slots through a random graph: every
// class of operation, values kept for later blocks, slots swapped, updated and read again, a
// `repeat`. It contains no discontinuous operation, so that float and double stay close. The
// oracle runs it in double, node by node, unplanned.
#ifndef GAN_TEST_PROGRAMS_H
#define GAN_TEST_PROGRAMS_H

#include "program.h"

// Fills `out` with a program that follows from `seed` alone.
void program_random(Arena *a, uint64_t seed, Module *out);

typedef struct Oracle {
    const Module *m;
    const Func *f;
    double **slot;  // [slot] logical order
    double **value; // [node] of the last run; NULL if it did not run
    Counters counters;
} Oracle;

// Slots hold numbers in (-1, 1) that follow from their index; the step has not run.
void oracle_init(Arena *a, const Module *m, Oracle *out);
int64_t oracle_count(const Oracle *o, uint32_t slot);
void oracle_step(Arena *a, Oracle *o);

#endif
