// ranks_run.h - for tests: a model trained on several ranks inside one process.
//
// Each rank is a thread with its own compilation, device and executor; the loop-back communicator
// joins them. Weights, data and random draws follow from the global sample, so runs on any number
// of ranks are comparable. An error in the text or in a rank fails the test.
#ifndef GAN_TEST_RANKS_H
#define GAN_TEST_RANKS_H

#include "driver.h"
#include "exec.h"

typedef struct RanksOptions {
    const char *name; // ends in .yaml for YAML
    Str text;
    const char *set;   // "key=value key=value", NULL: none
    int64_t batch;     // global
    Parallel parallel; // rank is set here
    const DeviceApi *api;
    Dtype real;
    bool scaled;   // losses are, as in f16
    double scale;  // what their scales begin with; 0: as ever
    bool halves;   // small products are in halves, too
    size_t narrow; // sums of f32 of so many bytes travel as bf16; 0: none
    bool squeezed; // values are computed again wherever that takes less memory
    uint32_t steps;
    bool as_trained; // gradients are not looked at, so that steps may have a tail; every second
                     // step is followed by a look at the slots, which must find it done
    int threads;     // of the device, 0: one
    Str compiler;    // of its kernels; empty: the machine's
    Str cache;       // folder for them; empty: none are kept
    bool reread;     // the plans are those that their text gives
    uint32_t resume; // after so many steps another executor goes on from what this one saves; 0
    bool entries;    // entry points run at the end: on one rank
} RanksOptions;

typedef struct RanksValue { // what is compared
    Str name;               // "step 0, loss 1", "gradient 2 of update 0", "D.conv.1.w"
    uint32_t update;        // of a gradient; NONE
    uint32_t slot;          // of a weight or its gradient; NONE
    size_t n;
    double *x; // [n]
} RanksValue;

typedef struct RanksRun {
    VEC(RanksValue) value; // losses and reports of every step, gradients of the last, slots
    Compiled compiled;     // rank 0's
    Arena arena[8];        // owned: a rank's each
} RanksRun;

// Text to a module. False: it was refused, with diagnostics in *said.
bool ranks_module(Arena *a, const RanksOptions *o, bool literal, Module *out, Str *said);
// The lowest limit on memory that plans are searched for: what this rank's slots take.
size_t ranks_least_memory(Arena *perm, Module *m, const CompileOptions *o);
// Number `i` of a data slot of the whole batch in a step: exact in f32.
double ranks_datum(const Module *m, uint32_t slot, uint32_t step, uint64_t i);
Counters ranks_counters(uint32_t step);
// Is this value a loss's scale, or counts updates that it was right or wrong for?
bool ranks_of_scale(Str name);

// All ranks must end with the same bits in every value; then these are rank 0's.
void ranks_run(Arena *a, const RanksOptions *o, RanksRun *out);
void ranks_free(RanksRun *run); // a test that ends frees the rest
// Fails the test where a value of `got` is off by more than `tolerance`, relative to its own norm
// (gradients: to the update's largest; numbers: to at least 1). 0: the same bits. Weights whose
// gradient is zero up to rounding are left out: optimizers that divide by its size make steps of
// it.
void ranks_compare(const RanksRun *want, const RanksRun *got, double tolerance, const char *what);

#endif
