// health.h - a one-word diagnosis of a run, by the rules listed in docs/runs.md.
//
// In: the log: losses of each step, the spread of the samples of each save. Out: a word, and the
// net it is about. It is a function of the log, so a resumed run reads its log and reports the
// same. The rules prefer missing a problem to a false alarm.
#ifndef GAN_HEALTH_H
#define GAN_HEALTH_H

#include "base.h"

typedef enum HealthWord {
    HealthYoung,      // too few steps to say
    HealthOk,         // no rule speaks
    HealthStrong,     // a critic has won: its loss is next to nothing, its opponent's at its worst
    HealthCollapsing, // samples differ from one another much less than they did
    HealthDiverging,  // a loss doubles and doubles again
} HealthWord;

enum {
    HEALTH_TICK = 100, // steps whose mean loss is one figure
    HEALTH_TICKS = 5,  // figures that a rule looks at: the newest
};

typedef struct HealthLoss { // of an update
    bool critic;            // it updates no net that a `sample` shows, and works against one
    double sum;             // of the tick that has begun
    uint32_t steps;
    uint32_t ticks;                         // whole ones
    double last[HEALTH_TICKS], most, least; // means: the newest, the largest and smallest so far
} HealthLoss;
typedef struct Health {
    uint32_t n;
    HealthLoss *loss;           // [n], owned by whoever made them
    double spread, most_spread; // of samples over that of data: now and at its largest; 0: unknown
} Health;

void health_step(Health *h, uint32_t loss, double x);    // NaN: it did not run in this step
void health_spread(Health *h, double of_data);           // NaN: not measured
HealthWord health_word(const Health *h, uint32_t *loss); // *loss: whose it is, where it has one
// "ok", "D too strong"; `name`: what the loss is called.
Str health_text(Arena *a, HealthWord w, Str name);
// What was seen, and what others do about it: a sentence.
const char *health_why(HealthWord w);

#endif
