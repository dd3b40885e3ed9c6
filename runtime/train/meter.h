// meter.h - losses and reports of a step.
#ifndef GAN_METER_H
#define GAN_METER_H

#include "exec.h"

typedef struct Series {
    Str name; // nets of the update joined by "+", or the report's
    Str base; // the name before it was made unique
    bool report;
    bool of_weight;  // a report of an optimizer, one for each weight: "grad/D.conv.0.w"
    uint32_t rounds; // > 1: inside a repeat, logged as name0, name1, ...
    uint32_t first;  // index of its first round among all values
    double *value;   // [rounds] of the step read last
    bool *seen;      // [rounds] it ran in that step
    bool told;       // the user knows that it was not finite once
} Series;
typedef struct SeriesSource { // of a series: one, or one for each of several exclusive branches
    uint32_t series, block;
    uint32_t index; // Func.update[] or Func.report[]
} SeriesSource;
typedef struct MeterStep { // numbers of one step, being copied from the device
    FetchedNumber *later;  // [Meter.values]
    bool *seen;            // [Meter.values] it ran
} MeterStep;
// On a device with asynchronous copies, METER_AHEAD more steps are launched before the numbers of a
// step are read.
enum { METER_AHEAD = 2, METER_STEPS = METER_AHEAD + 1 };
typedef struct Meter {
    const Module *module; // borrowed
    VEC(Series) series;   // losses, then reports
    VEC(SeriesSource) source;
    uint32_t values; // of all series, all rounds
    uint32_t ahead;  // steps that may be in flight before one is read
    uint32_t step;   // the one being launched
    MeterStep under_way[METER_STEPS];
    bool broken; // a loss was not finite
    bool scaled; // losses are scaled: an update whose loss is not finite was skipped
} Meter;
void meter_init(Arena *perm, const Module *m, Meter *out);
void meter_ahead(Meter *m, const Exec *e); // sets `ahead` if the device copies asynchronously
void meter_begin(Meter *m, uint32_t step); // at most `ahead` other steps are not read yet
// Requests the numbers that `block` has just computed; with `ahead` 0, reads them.
GanStatus meter_block(Meter *m, Exec *e, uint32_t block, uint32_t round);
// Waits for a step's numbers and puts them into the series; each step once, in order. GAN_ERR_INPUT
// if a loss is not finite, or its scale below SCALE_LEAST.
GanStatus meter_take(Meter *m, Exec *e, uint32_t step);
double series_mean(const Series *s); // NaN when it did not run
bool series_ran(const Series *s);    // in any round
// Whether this is the loss of a critic: it updates only nets that no `sample` of the model reads.
bool meter_critic(const Meter *m, Arena scratch, uint32_t series);
Str meter_key(Arena *a, const Series *s, uint32_t round);
uint32_t tape_rounds(const Func *f, uint32_t block); // times a step runs the block
int64_t net_weights(const Module *m, uint32_t net);  // numbers, not counting state

#endif
