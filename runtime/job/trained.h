// trained.h - a run opened for sampling, evaluation and export.
#ifndef GAN_TRAINED_H
#define GAN_TRAINED_H

#include "feed.h"

typedef struct Trained {
    Str dir; // the run's folder
    Job job;
    bool other;       // --model: another text than the run's
    Session session;  // owned; weights are those of the newest checkpoint
    bool in_order;    // trained_feed: FeedOptions.in_order,
    const Func *only; // and FeedOptions.only
    Feed *feed;       // owned; NULL until trained_feed
    uint32_t step;    // steps trained
} Trained;
typedef struct TrainedOptions {
    bool fed; // uniform and normal draws of entry points become input slots
    // Called once out->session's module is known, before anything is compiled: what else does not
    // suit it, its data first of all, is refused here. Nodes are still the text's. NULL: nothing.
    GanStatus (*check)(void *user);
    void *user;
} TrainedOptions;
// o->file[0] is the folder; reads --model, --step, --device, --threads, --weights and --data.
GanStatus trained_open(Arena *perm, const Host *h, const Options *o, const TrainedOptions *how,
                       Trained *out);
// Loads the checkpoint of step `step`, NONE: the newest whole one, of the stage the run was opened
// in.
GanStatus trained_load(Arena *perm, const Host *h, Trained *t, uint32_t step);
// GAN_ERR_USAGE if the job was given --data and this entry reads none.
GanStatus trained_reads(const Func *entry, const Options *o);
GanStatus trained_feed(Arena *perm, const Host *h, Trained *t); // opens its data
void trained_close(Trained *t);                                 // accepts an empty one

#endif
