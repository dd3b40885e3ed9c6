// gauge.h - a metric of `ganrun eval`, evaluated repeatedly while a run trains.
//
// The metric, the number of samples and the interval belong to the job (Job.gauge). Training does
// not depend on it in any bit. Ranks share the work of drawing samples; the result does not depend
// on their number, except for rounding of kernels of another batch.
#ifndef GAN_GAUGE_H
#define GAN_GAUGE_H

#include "feed.h"

enum { READINGS_MOST = 4 };
typedef struct Readings { // of one metric, always the same in number and order
    uint32_t n;
    const char *name[READINGS_MOST];
    double value[READINGS_MOST];
    bool distance[READINGS_MOST]; // less is better, and what data has is its unit
    bool absolute[READINGS_MOST]; // what data has is about zero, and no unit
} Readings;

typedef struct Gauge {
    Str name;   // of its first number: all that figures share that may be compared
    int better; // that number is better the less (-1) or the larger (1) it is; 0: neither
    struct GaugeIn *in;
} Gauge;
// On every rank; no data are read yet, and no sample is drawn. in NULL: the job asks for none.
// GAN_ERR_USAGE and GAN_ERR_INPUT say why it cannot be measured here.
GanStatus gauge_open(Arena *perm, const Host *h, const Job *job, const Session *s, Feed *feed,
                     Gauge *out);
// With the weights of now, every rank; the numbers are rank 0's alone. One that cannot be computed
// of these samples is NaN, and said. GAN_STOPPED: some rank was asked to stop meanwhile.
GanStatus gauge_read(Gauge *g, Readings *out);
void gauge_close(Gauge *g); // accepts an empty one

#endif
