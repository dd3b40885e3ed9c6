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
    bool scaled;     // losses have scales, as in f16
    double scale;    // their initial value; 0: the default
    bool halves;     // small products in 16 bits, too
    size_t narrow;   // all-reduce f32 in bf16 from this many bytes on; 0: never
    bool min_memory; // recompute values wherever that takes less memory
    uint32_t steps;
    bool as_trained; // gradients are not recorded, so that steps may have tails; slots are recorded
                     // after every second step, which must complete the tails first
    int threads;     // of the device, 0: one
    Str compiler;    // of its kernels; empty: the machine's
    Str cache;       // folder for them; empty: not cached
    bool reread;     // run the plans read back from their text
    uint32_t
        resume;   // after this many steps another executor resumes from the saved slots; 0: never
    bool entries; // run entry points at the end; on one rank only
} RanksOptions;

typedef struct RanksValue { // a recorded value
    Str name;               // "step 0, loss 1", "gradient 2 of update 0", "D.conv.1.w"
    uint32_t update;        // of a gradient; else NONE
    uint32_t slot;          // of a weight or its gradient; else NONE
    size_t n;
    double *x; // [n]
} RanksValue;

typedef struct RanksRun {
    VEC(RanksValue) value; // losses and reports of every step, gradients of the last, slots
    Compiled compiled;     // rank 0's
    Arena arena[8];        // [rank] owned
} RanksRun;

Str ranks_model_text(Arena *perm, const char *name); // of models/NAME
// Text to a module. False: it is invalid, with diagnostics in *said.
bool ranks_module(Arena *a, const RanksOptions *o, bool literal, Module *out, Str *said);
// The lowest memory limit with which compilation tries: the bytes of this rank's slots.
size_t ranks_min_memory(Arena *perm, Module *m, const CompileOptions *o);
// Element `i` of a data slot of the global batch in a step: exact in f32.
double ranks_datum(const Module *m, uint32_t slot, uint32_t step, uint64_t i);
Counters ranks_counters(uint32_t step);
// Is this value a loss scale, or one of its counts of good and skipped updates?
bool ranks_is_loss_scale(Str name);

// Fails unless all ranks end with the same bits in every value. *out: rank 0's.
void ranks_run(Arena *a, const RanksOptions *o, RanksRun *out);
void ranks_free(RanksRun *run); // optional: frees before the test's end
// Fails the test if a value of `got` differs by more than `tolerance`, relative to its norm
// (gradients: the update's largest; scalars: at least 1). 0: the same bits. Weights whose gradient
// is zero up to rounding are not compared: optimizers that divide by its size amplify the rounding.
void ranks_compare(const RanksRun *want, const RanksRun *got, double tolerance, const char *what);

#endif
