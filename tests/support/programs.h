// programs.h - for tests: random programs, and their results.
//
// A program is a Module whose `step` reads and writes a few slots through a random graph: every
// class of operation, values kept for later blocks, slots swapped, updated and read again, a
// `repeat`. It contains no discontinuous operation, so that float and double stay close. The
// oracle runs it in double, node by node, unplanned.
#ifndef GAN_TEST_PROGRAMS_H
#define GAN_TEST_PROGRAMS_H

#include "build.h"
#include "program.h"

// Fills `out` with a program that follows from `seed` alone.
void program_random(Arena *a, uint64_t seed, Module *out);

// A convolution and both its gradients, which become the slots: some pairs of images and results
// with one weight.
typedef struct ConvCase {
    int batch; // 0: without a batch axis
    int64_t c, o, x[3], k[3];
    ConvGeom geom;
} ConvCase;
void program_conv(Arena *a, const ConvCase *k, uint32_t pairs, Module *out);
// Of any shape that the oracle computes in a moment: one to three axes, groups, paddings, strides
// and dilations, channels for which devices have methods of their own.
void program_random_conv(Arena *a, uint64_t seed, Module *out);
// A product of two slots: none or some axes of each kind, and the axes of every side in any order.
void program_random_dot(Arena *a, uint64_t seed, Module *out);
// An attention's product of queries and keys for each head, the first axis, and its two gradients:
// three values, each read twice and written once.
void program_heads(Arena *a, uint64_t seed, Module *out);

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
