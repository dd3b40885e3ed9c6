// eval.h - private to evaluation: sets of samples, their references, and metrics. Which metrics
// apply follows from types and from what the entry reads, never from a model's name.
#ifndef GAN_EVAL_H
#define GAN_EVAL_H

#include "monitor.h"
#include "comm.h"
#include "distance.h"
#include "measure.h"
#include "sampler.h"

typedef struct Compared { // FeatureScores against Sets.real, computed once for all metrics
    const float *x;       // the features that were compared; NULL: none yet
    FeatureScores scores;
} Compared;

typedef struct Sets {
    uint32_t entry; // the `sample` that is evaluated: Module.entry[]
    Str name;       // its name
    Str against;    // its reference: a data field, or a `sample` without weights; "" none
    uint32_t slot;  // that field's slot, or NONE
    uint32_t drawn; // that `sample`'s entry, or NONE
    bool held;      // there is a reference
    Type type;      // of one sample, or of its features
    FieldKind kind;
    bool reads;         // the entry reads data
    bool copy;          // sample i is the model's reconstruction of real[i]
    size_t n;           // number of samples in each of these:
    float *generated;   // [n, ...] generated
    float *real;        // [n, ...] reference, or NULL
    float *other;       // [n, ...] other reference samples: the score of a perfect model
    uint32_t rate;      // of sounds: sample rate in Hz; 0: no sounds
    double lo, hi;      // of sounds: full scale
    bool features;      // features of a trained net (--features); real may have another number
    size_t n_real;      // features: samples in real
    Compared *compared; // features: [2], of generated and of other
    int threads;        // for the computation

    uint32_t *label; // [n] class stored with the data that sample i was computed from; NULL: none
} Sets;

typedef struct Metric {
    const char *name; // --metric
    bool (*applies)(const Sets *s);
    // Compares x [n, ...], which is s->generated or s->other, with s->real.
    GanStatus (*measure)(Arena scratch, const Sets *s, const float *x, MetricValues *out);
    bool features; // needs --features
    bool named;    // computed only when it is requested by name
    int better;    // its first value: -1 lower is better, 1 higher is better; 0: neither
    size_t least;  // minimum number of samples, and of data samples
    // Whether this build and machine can compute it, with what to install; NULL: always.
    GanStatus (*ready)(void);
    // A warning about bias with these sets, or ""; NULL: none.
    Str (*caution)(Arena *a, const Sets *s);
} Metric;
extern const Metric eval_metrics[];
extern const uint32_t eval_metric_count;
// --metric; `features`: --features was given. GAN_ERR_USAGE.
GanStatus metric_named(Str name, bool features, const Metric **out);

// --- eval_features.c -----------------------------------------------------------------------------

typedef struct FeatureNet { // --features
    Job job;
    Session session;     // owned
    uint32_t slot, node; // input and output of its `sample`
    Type type;           // of one input,
    double lo, hi;       // scaled to this range; both 0: not scaled
    bool images;         // inputs are images, quantized to 8 bits
    uint32_t d;          // features of one sample
} FeatureNet;
// GAN_ERR_INPUT when the net's text is missing; also fine where no features are asked for.
GanStatus features_there(const FeaturesAsked *asked);
// Opens the net on the device of `run`, in f32 (f64 on a device without). On several ranks rank 0
// reads its weights.
GanStatus features_open(Arena *perm, const Host *h, const FeaturesAsked *asked, const Job *run,
                        FeatureNet *out);
// Of its text and weights, 32 digits: a score's name has only their files' base names. Empty: no
// net is open.
Str features_content(Arena *a, const FeaturesAsked *asked, const FeatureNet *net);
void features_close(FeatureNet *net);                    // accepts an empty one
bool features_fit(const FeatureNet *net, const Type *t); // it accepts samples of this type
// GAN_ERR_INPUT with both shapes.
GanStatus features_refuse(const FeatureNet *net, Arena scratch, const Type *t);
// Features out [n, d] of samples x [n, ...]; `look` has their type and range.
GanStatus features_make(FeatureNet *net, const Sampler *look, const float *x, size_t n,
                        Arena scratch, float *out);

// --- eval_sets.c: samples and their reference ----------------------------------------------------

typedef struct SetSource {    // where sets come from
    const Session *session;   // borrowed
    Feed *feed;               // borrowed
    FeatureNet *net;          // borrowed; NULL: samples are compared directly
    Comm *comm;               // borrowed: ranks that each draw a part; NULL: one rank
    bool (*stop_asked)(void); // polled between blocks; NULL: never
    uint64_t seed;
    size_t batch;  // of the run, over all ranks
    size_t count;  // samples requested
    uint32_t rate; // of sounds whose data have none, in Hz; 0: unknown
    int threads;   // for the computation
    bool alone;    // Sets.other is not needed
    bool choosing; // of a checkpoint: other samples are drawn than for its report
    Type unfit;    // of the last sample that the net did not accept
} SetSource;
// Finds the reference of an entry's samples, and whether the metric `only` (NULL: any that is not
// `named`) applies: *fits. Reads no data. GAN_ERR_INPUT: too few data.
GanStatus sets_find(SetSource *v, uint32_t entry, const Metric *only, Sets *out, bool *fits);
GanStatus sets_data(const SetSource *v, Arena *a, Sets *s);      // reads them. GAN_STOPPED
GanStatus sets_generated(const SetSource *v, Arena *a, Sets *s); // draws the samples. GAN_STOPPED
// The name under which values of metric `name` of n samples are logged: values of equal names may
// be compared.
Str sets_name(Arena *a, const Sets *s, const char *name, size_t n, const FeaturesAsked *features);

#endif
