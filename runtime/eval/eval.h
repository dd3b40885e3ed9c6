// eval.h - private to `ganrun eval`: what an entry point made, what it is held against, and the
// numbers that say how near the two are. Which numbers apply follows from types and from what the
// entry reads, never from a model's name.
#ifndef GAN_EVAL_H
#define GAN_EVAL_H

#include "job.h"
#include "distance.h"
#include "measure.h"

typedef struct Compared { // with Sets.real, once for all metrics
    const float *x;       // NULL: nothing yet
    FeatureScores scores;
} Compared;

typedef struct Sets {
    Str entry;   // `sample` of the model
    Str against; // data field or drawn `sample` it is held against, "" none
    Type type;   // of one sample
    FieldKind kind;
    bool reads;         // the entry reads data
    bool copy;          // sample i is what the model made of real[i]
    size_t n;           // samples of each of these:
    float *made;        // [n, ...]
    float *real;        // [n, ...] or NULL
    float *other;       // [n, ...] more of the same: what perfect samples would be
    uint32_t rate;      // of sounds, numbers a second; 0: they are none
    double lo, hi;      // where sounds: what is loudest
    bool features;      // of a trained net (--features); real and other may be of another number
    size_t n_real;      // where features: samples of real
    Compared *compared; // where features: [2], of made and of other
    int threads;        // to compute with

    uint32_t *label; // [n] stored with what sample i was made from, NULL unknown
} Sets;

enum { READINGS_MOST = 4 };
typedef struct Readings { // of one metric, always the same in number and order
    uint32_t n;
    const char *name[READINGS_MOST];
    double value[READINGS_MOST];
    bool distance[READINGS_MOST]; // less is better, and what data has is its unit
    bool absolute[READINGS_MOST]; // what data has is about zero, and no unit
} Readings;

typedef struct Metric {
    const char *name; // --metric
    bool (*applies)(const Sets *s);
    // The numbers of x [n, ...], which is s->made or s->other, against s->real.
    GanStatus (*measure)(Arena scratch, const Sets *s, const float *x, Readings *out);
    bool features; // of --features
    bool named;    // measured where it is asked for by name alone
    // NULL: always; else whether it can be measured here, and the way out.
    GanStatus (*ready)(void);
    // NULL: nothing; else what its number suffers from with these sets, "" nothing.
    Str (*caution)(Arena *a, const Sets *s);
} Metric;
extern const Metric eval_metrics[];
extern const uint32_t eval_metric_count;

// --- eval_features.c -----------------------------------------------------------------------------

typedef struct FeatureNet { // --features
    Job job;
    Session session;     // owned
    uint32_t slot, node; // what its `sample` reads, and gives
    Type type;           // of one sample it reads,
    double lo, hi;       // in this range; both 0: as it comes
    bool pictures;       // of 8 bits
    uint32_t d;          // numbers it makes of one
} FeatureNet;
GanStatus features_open(Arena *perm, const Host *h, const Options *o, const Job *run,
                        FeatureNet *out);
void features_close(FeatureNet *net);                    // accepts an empty one
bool features_fit(const FeatureNet *net, const Type *t); // it takes such samples
// GAN_ERR_INPUT with both shapes: it does not.
GanStatus features_refuse(const FeatureNet *net, Arena scratch, const Type *t);
// x [n, ...], each of type t, in lo..hi to out [n, d].
GanStatus features_make(FeatureNet *net, const float *x, size_t n, const Type *t, double lo,
                        double hi, Arena scratch, float *out);

#endif
