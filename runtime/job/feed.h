// feed.h - copies data streams into slots.
#ifndef GAN_FEED_H
#define GAN_FEED_H

#include "job.h"

typedef struct Feed Feed;
typedef struct FeedOptions {
    const Job *job;   // batch, seed, data, threads, skip_bad; borrowed
    bool in_order;    // DataOptions.in_order of every stream
    const Func *only; // reads the fields that this entry point does; NULL: the model's
    void (*notice)(void *user, const char *text);
    void *user;
} FeedOptions;
enum { STREAMS_MOST = 64 }; // of a model: a checkpoint has a position for each
// GAN_ERR_USAGE, with a suggestion, if the job has data for a field that the model lacks.
GanStatus feed_names_known(Arena scratch, const Module *m, const Job *job);
// Opens the streams the model reads, at most STREAMS_MOST, each at its first batch. The functions
// of `m` need not be planned yet, but be so before the first step. An unknown or missing --data is
// GAN_ERR_USAGE with a suggestion.
GanStatus feed_open(Arena *perm, const Module *m, const FeedOptions *o, Feed **out);
void feed_close(Feed *f);                               // accepts NULL
GanStatus feed_begin(Feed *f, Exec *e);                 // the batches of a step's first reads
GanStatus feed_block(Feed *f, Exec *e, uint32_t block); // those of the `next`s in this block
// An entry point's data: batch number `position` of this rank's batch size, of every stream it
// reads. The position of training does not change.
GanStatus feed_entry(Feed *f, Exec *e, uint32_t entry, uint64_t position);
// Samples first, first + 1, ... of data slot `slot` in the order of its first epoch, after all
// transforms but `map`: f32 [n, ...]; *got: how many exist. `first` is a multiple of the batch.
GanStatus feed_samples(Feed *f, uint32_t slot, size_t first, size_t n, float *out, size_t *got);
// Number of samples in the slot's stream; 0: nothing reads it, so it was not opened.
uint64_t feed_count(const Feed *f, uint32_t slot);
// The file that sample `i` of these was; empty: none.
Str feed_file(const Feed *f, uint32_t slot, uint64_t i);
// The range that `scale` maps of the numbers in a slot; false: they are an image, or a label.
bool feed_range(const Feed *f, uint32_t slot, double *lo, double *hi);
// Names of the classes of the labels in a slot, borrowed from its data; 0: there are none.
uint32_t feed_classes(const Feed *f, uint32_t slot, const Str **names);
uint32_t feed_rate(const Feed *f, uint32_t slot); // sample rate of sounds in Hz; 0: unknown
// The labels stored with the first n samples, whether or not the model reads them; *found false:
// there are none.
GanStatus feed_labels(Feed *f, uint32_t slot, size_t n, uint32_t *out, bool *found);
// Complete passes over the longest stream that training reads.
double feed_epoch(const Feed *f);
// Steps with at most so many passes behind them, if each takes at least a batch of that stream as
// it begins; else infinity.
double feed_steps(const Feed *f, double epochs);
Str feed_identity(const Feed *f, Arena *a); // a line for each field: samples, content hash
uint32_t feed_positions(const Feed *f, const uint64_t **out); // [streams] batches consumed
double feed_seconds(const Feed *f);                           // time spent in these calls so far
GanStatus feed_seek(Feed *f, const uint64_t *position);       // [streams] batches consumed
// The name of sample `i` of the batch that was taken last from `stream`, for messages; empty before
// the first batch.
Str feed_sample_name(const Feed *f, uint32_t stream, uint32_t i);

#endif
