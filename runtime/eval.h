// eval.h - private to `ganrun eval`: what an entry point made, what it is held against, and the
// numbers that say how near the two are. Which numbers apply follows from types and from what the
// entry reads, never from a model's name.
#ifndef GAN_EVAL_H
#define GAN_EVAL_H

#include "measure.h"
#include "runs.h"

typedef struct Sets {
    Str entry;   // `sample` of the model
    Str against; // data field or drawn `sample` it is held against, "" none
    Type type;   // of one sample
    FieldKind kind;
    bool reads;      // the entry reads data
    bool copy;       // sample i is what the model made of real[i]
    size_t n;        // samples of each of these:
    float *made;     // [n, ...]
    float *real;     // [n, ...] or NULL
    float *other;    // [n, ...] more of the same: what perfect samples would be
    uint32_t *label; // [n] stored with what sample i was made from, NULL unknown
} Sets;

enum { READINGS_MOST = 4 };
typedef struct Readings { // of one metric, always the same in number and order
    uint32_t n;
    const char *name[READINGS_MOST];
    double value[READINGS_MOST];
    bool distance[READINGS_MOST]; // less is better, and what data has is its unit
} Readings;

typedef struct Metric {
    const char *name; // --metric
    bool (*applies)(const Sets *s);
    // The numbers of x [n, ...], which is s->made or s->other, against s->real.
    GanStatus (*measure)(Arena scratch, const Sets *s, const float *x, Readings *out);
} Metric;
extern const Metric eval_metrics[];
extern const uint32_t eval_metric_count;

#endif
