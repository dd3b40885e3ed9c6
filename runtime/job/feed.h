// feed.h - copies data streams into slots.
#ifndef GAN_FEED_H
#define GAN_FEED_H

#include "job.h"

typedef struct Feed Feed;
typedef struct FeedOptions {
    const Job *job;           // batch, seed, data, threads, skip_bad; borrowed
    const uint64_t *position; // [streams] batches consumed already, NULL: none
    void (*notice)(void *user, const char *text);
    void *user;
} FeedOptions;
enum { STREAMS_MOST = 64 }; // of a model: a checkpoint has a position for each
// GAN_ERR_USAGE, with a suggestion, where the job has data of a field that the model has not.
GanStatus feed_names_known(Arena scratch, const Module *m, const Job *job);
// Opens the streams the model reads, at most STREAMS_MOST. An unknown or missing --data is
// GAN_ERR_USAGE with a suggestion.
GanStatus feed_open(Arena *perm, const Module *m, const FeedOptions *o, Feed **out);
void feed_close(Feed *f);                               // accepts NULL
GanStatus feed_begin(Feed *f, Exec *e);                 // a step's own batches
GanStatus feed_block(Feed *f, Exec *e, uint32_t block); // those of `next`s in this block
// An entry point's data: batch `position`, of as many samples as are held here, of every stream it
// reads. Training's own position stays.
GanStatus feed_entry(Feed *f, Exec *e, uint32_t entry, uint64_t position);
// Samples first, first + 1, ... of data slot `slot` in the order of its first epoch, as its files
// have them after all transforms but `map`: f32 [n, ...]; *got: there are. `first` is a multiple of
// the batch.
GanStatus feed_samples(Feed *f, uint32_t slot, size_t first, size_t n, float *out, size_t *got);
// Samples the slot's stream has; 0: nothing reads it, so it was not opened.
uint64_t feed_count(const Feed *f, uint32_t slot);
// Names of the classes of the labels in a slot, borrowed from its data; 0: there are none.
uint32_t feed_classes(const Feed *f, uint32_t slot, const Str **names);
uint32_t feed_rate(const Feed *f, uint32_t slot); // of sounds, numbers a second; 0: no data of any
// The labels stored with the first n samples, whether or not the model reads them; false: none.
GanStatus feed_labels(Feed *f, uint32_t slot, size_t n, uint32_t *out, bool *found);
// Whole passes over the first stream that steps take batches of; what only a sample reads stays.
double feed_epoch(const Feed *f);
Str feed_identity(const Feed *f, Arena *a);                   // what the streams read, a line each
uint32_t feed_positions(const Feed *f, const uint64_t **out); // by stream of the module
double feed_seconds(const Feed *f);                           // spent here so far
GanStatus feed_seek(Feed *f, const uint64_t *position);       // [streams] batches consumed
// What stream `stream` gave as sample `i` of the batch taken last, as a user knows it; empty when
// nothing was taken.
Str feed_sample_name(const Feed *f, uint32_t stream, uint32_t i);

#endif
