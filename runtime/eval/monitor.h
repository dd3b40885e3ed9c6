// monitor.h - a metric of `ganrun eval`, evaluated repeatedly while a run trains.
//
// The metric, the number of samples and the interval belong to the job (Job.monitor). Training does
// not depend on it in any bit. Ranks share the work of drawing samples; the result does not depend
// on their number, except for rounding of kernels of another batch.
#ifndef GAN_MONITOR_H
#define GAN_MONITOR_H

#include "feed.h"

enum { METRIC_VALUES_MOST = 4 };
typedef struct MetricValues { // values of one metric, always the same in number and order
    uint32_t n;
    const char *name[METRIC_VALUES_MOST];
    double value[METRIC_VALUES_MOST];
    bool distance[METRIC_VALUES_MOST]; // lower is better, and its ratio to that of data is reported
    bool absolute[METRIC_VALUES_MOST]; // that of data is about zero: no ratio
} MetricValues;

typedef struct Monitor {
    Str name;    // of its first value (sets_name)
    Str content; // of the model of features that the name names (features_content); or empty
    int better;  // that value: -1 lower is better, 1 higher is better; 0: neither
    struct MonitorState *in;
} Monitor;
// On every rank; reads no data and draws no sample yet. in NULL: the job has no --metric.
// GAN_ERR_USAGE, GAN_ERR_INPUT: the metric does not apply to this run.
GanStatus monitor_open(Arena *perm, const Host *h, const Job *job, const Session *s, Feed *feed,
                       Monitor *out);
// Evaluates the present weights, on every rank; only rank 0 gets values. A value that cannot be
// computed is NaN, with a message. GAN_STOPPED: a rank received a request to stop meanwhile.
GanStatus monitor_measure(Monitor *m, MetricValues *out);
void monitor_close(Monitor *m); // accepts an empty one

#endif
