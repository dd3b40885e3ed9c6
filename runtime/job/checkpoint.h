// checkpoint.h - weights and state: saved, loaded, and synchronized between ranks.
#ifndef GAN_CHECKPOINT_H
#define GAN_CHECKPOINT_H

#include "comm.h"
#include "feed.h"
#include "job.h"
#include "safetensors.h"

SafeTensor slot_tensor(const Slot *s); // how a weight or state is stored
enum { CHECKPOINTS_KEPT = 3 };
typedef struct Checkpoint {
    uint32_t step; // steps done
    uint64_t seed;
    Str model; // its hash; to load, empty: any model whose weights the `sample`s find
    Dtype real;
    uint32_t streams;
    uint64_t position[STREAMS_MOST]; // batches consumed
    uint64_t epoch;                  // complete passes; 0 in files of older programs
    Str data;                        // identity of the data (feed_identity); "" in older files
    uint32_t keep;                   // to save: newest checkpoints to keep, 0: CHECKPOINTS_KEPT
    uint32_t best;                   // to save: step to keep besides, 0: none
    const Job *job; // to save: the last steps of its stages are kept; to load: later stages are
                    // passed over; or NULL
} Checkpoint;
// Writes the slots that outlive a step, exactly, then the json; then removes all checkpoints but
// the newest `keep`, `best` and the ends of earlier stages. Weights that are not finite are refused
// (GAN_ERR_INPUT), and earlier checkpoints kept. *whole: this one is there, whatever failed then.
GanStatus checkpoint_save(Arena scratch, Str dir, Exec *e, const Checkpoint *c, bool *whole);
typedef VEC(uint32_t) CheckpointSteps;
GanStatus checkpoint_steps(Arena *a, Str dir, CheckpointSteps *out); // all steps, ascending
// Broadcasts rank 0's slots that outlive a step.
GanStatus checkpoint_share(Exec *e, Comm *c);
// GAN_ERR_DEVICE if these slots differ between ranks. They are computed from the same sums, so a
// difference is a hardware error.
GanStatus checkpoint_compare(Exec *e, Comm *c);
bool stored_alike(Dtype a, Dtype b); // does a checkpoint of precision `a` load in `b`?
// Loads the newest whole checkpoint; damaged ones are skipped, with a line each to the console.
// *found false: there is no checkpoint. GAN_ERR_INPUT: it is of another model, or all are damaged.
// One that exists and cannot be read does not count as damaged: the error is returned. A want->step
// other than NONE selects that checkpoint alone. Another process may be training: what it removes
// meanwhile gives way to what it has saved.
GanStatus checkpoint_load(Arena *perm, Str dir, Exec *e, const Checkpoint *want,
                          const Console *console, Checkpoint *out, bool *found);
// The step of the newest whole one; NONE: there is none.
GanStatus checkpoint_newest(Arena *perm, Str dir, uint32_t *out);

#endif
