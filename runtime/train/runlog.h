// runlog.h - log.jsonl, and the curves drawn from it.
#ifndef GAN_RUNLOG_H
#define GAN_RUNLOG_H

#include "health.h"
#include "monitor.h"
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
    Curve *curve; // [series], then the distance of the samples from the data, then the monitor's
    uint32_t curves;
    uint32_t first;         // steps of earlier stages, which health and best ignore
    Health health;          // of the losses, by series; a function of the log
    const Monitor *monitor; // borrowed
    uint32_t scored;        // last step that it evaluated, 0: none
    uint32_t best;          // best of these steps, 0: none
    double best_value;
    uint32_t since_best; // evaluations after it, or, while there is none, all
} RunLog;
// Keeps the lines up to `step`, removes later and incomplete ones, and rebuilds the curves; health
// and best are computed from the lines after step `first`.
GanStatus runlog_open(Arena *perm, Str dir, uint32_t first, uint32_t step, const Meter *m,
                      const Monitor *monitor, RunLog *out);
typedef struct StepLine {
    uint32_t step;
    int64_t images;
    double step_ms, data_ms;
    const Parts *parts; // of a step that was timed: the shares of its time; else NULL
} StepLine;
GanStatus runlog_step(RunLog *l, Arena scratch, const StepLine *line); // with the meter's numbers
typedef struct Distance { // sliced Wasserstein, sample grid to data; NaN: not measured
    double images;        // whole images: colour and composition
    double patches;       // 7x7 patches on a Laplacian pyramid: texture
    double spread;        // standard deviation of the samples over that of the data
} Distance;
Str runlog_health(const RunLog *l, Arena *a); // the verdict with the name of its loss
GanStatus runlog_save(RunLog *l, Arena scratch, uint32_t step, Distance d);
// The line of an evaluation, which took so many seconds.
GanStatus runlog_score(RunLog *l, Arena scratch, uint32_t step, const MetricValues *r,
                       double seconds);
// The duration of a save, from the samples to the page.
GanStatus runlog_saved(const RunLog *l, Arena scratch, uint32_t step, double seconds);

#endif
