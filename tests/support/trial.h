// trial.h - for tests: a model's text, compiled and opened on the reference device, with synthetic
// data. Any error fails the test.
#ifndef GAN_TRIAL_H
#define GAN_TRIAL_H

#include "driver.h"
#include "exec.h"

typedef struct Trial {
    Arena *arena; // everything below lives here
    Compiled compiled;
    Device *device; // owned
    Exec *exec;     // owned
    Counters counters;
    double *loss; // [update] of the last step
    double
        *slope; // [update] of the last step: sum of gradient x direction over the update's weights
} Trial;

typedef struct TrialOptions {
    const char *name; // ends in .yaml for YAML
    Str text;
    int64_t batch;
    const char *set; // "key=value key=value", NULL: none
    bool fed;        // random draws are slots, filled like data
    Dtype real;      // default: f64
} TrialOptions;

// Elaborates the text, without a plan or device.
const Module *trial_module(Arena *a, const TrialOptions *o);
Str trial_read(Arena *a, const char *folder, Str name);

void trial_open(Trial *t, Arena *a, const TrialOptions *o);
void trial_close(Trial *t);
// Sets every weight to test numbers of its own, by order of creation; those named `at` stay 0.
void trial_set_weights(Trial *t);
// One step on this step's data; sets losses and slopes.
void trial_step(Trial *t);
// Error of the first update's gradient against central differences of its loss, along the direction
// of `slope`, relative to the slope or the loss, whichever is larger. Restores weights and state.
double trial_gradient_error(Trial *t);
uint32_t trial_slot(const Trial *t, const char *name);

#endif
