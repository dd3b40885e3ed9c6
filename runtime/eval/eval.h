// eval.h - private to evaluation: sets of samples, their references, and metrics. Which metrics
// apply follows from types and from what the entry reads, never from a model's name.
#ifndef GAN_EVAL_H
#define GAN_EVAL_H

#include "gauge.h"
#include "comm.h"
#include "distance.h"
#include "measure.h"
#include "sampler.h"

typedef struct Compared { // with Sets.real, once for all metrics
    const float *x;       // NULL: nothing yet
    FeatureScores scores;
} Compared;

typedef struct Sets {
    uint32_t entry; // `sample` of the model,
    Str name;       // what it is called
    Str against;    // data field or drawn `sample` it is held against, "" none
    uint32_t slot;  // which field, NONE
    uint32_t drawn; // which drawn `sample`, NONE
    bool held;      // it is held against one of these
    Type type;      // of one sample, or of its features
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

typedef struct Metric {
    const char *name; // --metric
    bool (*applies)(const Sets *s);
    // The numbers of x [n, ...], which is s->made or s->other, against s->real.
    GanStatus (*measure)(Arena scratch, const Sets *s, const float *x, Readings *out);
    bool features; // of --features
    bool named;    // measured where it is asked for by name alone
    int better;    // its first number, the less (-1) or the larger (1) it is; 0: neither
    size_t least;  // samples, and samples of data, it needs
    // NULL: always; else whether it can be measured here, and the way out.
    GanStatus (*ready)(void);
    // NULL: nothing; else what its number suffers from with these sets, "" nothing.
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
    uint32_t slot, node; // what its `sample` reads, and gives
    Type type;           // of one sample it reads,
    double lo, hi;       // in this range; both 0: as it comes
    bool pictures;       // of 8 bits
    uint32_t d;          // numbers it makes of one
} FeatureNet;
// Beside what `run` trains. On many ranks rank 0 reads its weights.
GanStatus features_open(Arena *perm, const Host *h, const FeaturesAsked *asked, const Job *run,
                        FeatureNet *out);
void features_close(FeatureNet *net);                    // accepts an empty one
bool features_fit(const FeatureNet *net, const Type *t); // it takes such samples
// GAN_ERR_INPUT with both shapes: it does not.
GanStatus features_refuse(const FeatureNet *net, Arena scratch, const Type *t);
// x [n, ...], each of type t, in lo..hi to out [n, d].
GanStatus features_make(FeatureNet *net, const float *x, size_t n, const Type *t, double lo,
                        double hi, Arena scratch, float *out);

// --- eval_sets.c: what is held against what ------------------------------------------------------

typedef struct SetSource {    // what sets are taken from
    const Session *session;   // borrowed
    Feed *feed;               // borrowed
    FeatureNet *net;          // borrowed; NULL: samples are looked at as they are
    Comm *comm;               // borrowed: ranks that each make a part; NULL: one makes all
    bool (*stop_asked)(void); // looked at now and then; NULL: never
    uint64_t seed;
    size_t batch;  // of the run, over all ranks
    size_t count;  // samples asked for
    uint32_t rate; // of sounds, where their data do not say; 0: nobody does
    int threads;   // to compute with
    bool alone;    // no other lot of data is wanted
    bool choosing; // samples are others than when not
    Type unfit;    // of the last sample that the net did not take
} SetSource;
// What entry's samples are held against, and whether `only` (NULL: any metric that is not for
// names) applies to that: *fits. Nothing is read. GAN_ERR_INPUT: there are too few data.
GanStatus sets_find(SetSource *v, uint32_t entry, const Metric *only, Sets *out, bool *fits);
GanStatus sets_data(const SetSource *v, Arena *a, Sets *s); // reads them. GAN_STOPPED
GanStatus sets_made(const SetSource *v, Arena *a, Sets *s); // draws the samples. GAN_STOPPED
// What figures share that may be compared: of reading `name` of n of the samples.
Str sets_name(Arena *a, const Sets *s, const char *name, size_t n, const FeaturesAsked *features);

#endif
