// runlog.h - log.jsonl, and the curves drawn from it.
#ifndef GAN_RUNLOG_H
#define GAN_RUNLOG_H

#include "health.h"
#include "gauge.h"
#include "meter.h"
#include "shares.h"

enum { CURVE_BINS = 400 };
typedef struct Curve { // means over bins of equal width, doubled when all are used
    Str name;
    uint32_t width; // steps a bin
    uint32_t used;  // bins
    double sum[CURVE_BINS];
    uint32_t n[CURVE_BINS];
} Curve;
void curve_add(Curve *c, uint32_t step, double y); // step from 1; only finite numbers count
typedef struct RunLog {
    Str path;
    const Meter *meter; // borrowed
    Curve *curve; // [series], then the distance of the pictures from the data, then the gauge's
    uint32_t curves;
    uint32_t first;     // steps of earlier stages: health and best are none of theirs
    Health health;      // of the losses, by series; follows from the log
    const Gauge *gauge; // borrowed; of its readings:
    uint32_t scored;    // step of the last, 0: none
    uint32_t best;      // step of the best, 0: none
    double best_value;
} RunLog;
// Keeps the lines up to `step`, drops the rest (and a torn one), and rebuilds the curves; what
// follows from the lines is of those behind `first`.
GanStatus runlog_open(Arena *perm, Str dir, uint32_t first, uint32_t step, const Meter *m,
                      const Gauge *g, RunLog *out);
typedef struct StepLine {
    uint32_t step;
    int64_t images;
    double step_ms, data_ms;
    const Parts *parts; // of a step that was timed: where time went; else NULL
} StepLine;
GanStatus runlog_step(RunLog *l, Arena scratch, const StepLine *line); // and what the meter saw
typedef struct Distance { // sliced Wasserstein, sample grid to data; NaN: not measured
    double pictures;      // whole pictures: colour and composition
    double patches;       // 7x7 patches on a Laplacian pyramid: texture
    double spread;        // how much samples differ from one another, of how much data do
} Distance;
Str runlog_health(const RunLog *l, Arena *a); // the word, and whose it is
GanStatus runlog_save(RunLog *l, Arena scratch, uint32_t step, Distance d);
// What the gauge said, and how long that took.
GanStatus runlog_score(RunLog *l, Arena scratch, uint32_t step, const Readings *r, double seconds);
// How long that took, from the pictures to the page.
GanStatus runlog_saved(const RunLog *l, Arena scratch, uint32_t step, double seconds);

#endif
