// gauge.h - a metric of `ganrun eval`, evaluated repeatedly while a run trains.
//
// The metric, the number of samples and the interval belong to the job (Job.gauge). Training does
// not depend on it in any bit. Ranks share the work of drawing samples; the result does not depend
// on their number, except for rounding of kernels of another batch.
#ifndef GAN_GAUGE_H
#define GAN_GAUGE_H

#include "feed.h"

enum { READINGS_MOST = 4 };
typedef struct Readings { // values of one metric, always the same in number and order
    uint32_t n;
    const char *name[READINGS_MOST];
    double value[READINGS_MOST];
    bool distance[READINGS_MOST]; // lower is better, and its ratio to that of data is reported
    bool absolute[READINGS_MOST]; // that of data is about zero: no ratio
} Readings;

typedef struct Gauge {
    Str name;   // of its first value (sets_name)
    int better; // that value: -1 lower is better, 1 higher is better; 0: neither
    struct GaugeIn *in;
} Gauge;
// On every rank; reads no data and draws no sample yet. in NULL: the job has no --metric.
// GAN_ERR_USAGE, GAN_ERR_INPUT: the metric does not apply to this run.
GanStatus gauge_open(Arena *perm, const Host *h, const Job *job, const Session *s, Feed *feed,
                     Gauge *out);
// Evaluates the present weights, on every rank; only rank 0 gets values. A value that cannot be
// computed is NaN, with a message. GAN_STOPPED: a rank received a request to stop meanwhile.
GanStatus gauge_read(Gauge *g, Readings *out);
void gauge_close(Gauge *g); // accepts an empty one

#endif
