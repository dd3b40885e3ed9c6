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
    bool fed;        // draws are slots, filled like data
    Dtype real;      // f64 where not said
} TrialOptions;

// Only what the text means: no plan, no device. `set` as above.
const Module *trial_module(Arena *a, const TrialOptions *o);
Str trial_read(Arena *a, const char *folder, Str name);

void trial_open(Trial *t, Arena *a, const TrialOptions *o);
void trial_close(Trial *t);
// Every weight of every net to a number of its own, by order of creation; one called `at` to 0.
void trial_set_weights(Trial *t);
// One step on this step's data: losses and slopes.
void trial_step(Trial *t);
// The first update's gradient against central differences of its loss, along the direction that
// `slope` takes: the difference, relative to the slope or the loss, whichever is larger. Weights
// and state are afterwards what they were.
double trial_gradient_error(Trial *t);
uint32_t trial_slot(const Trial *t, const char *name);

#endif
