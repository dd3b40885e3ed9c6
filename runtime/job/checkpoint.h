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
    Str model; // its hash; of one to load empty: any, as far as its `sample`s find their weights
    Dtype real;
    uint32_t streams;
    uint64_t position[STREAMS_MOST]; // batches consumed
    uint64_t epoch;                  // whole passes; 0: or an older program's
    Str data;                        // of what (feed_identity); empty: an older program's
    uint32_t keep;                   // of a save: checkpoints that stay, 0: CHECKPOINTS_KEPT
    uint32_t best;                   // of a save: one that stays beside them, 0: none
    const Job *job;                  // of a save: the ends of its stages stay too; NULL: of none
} Checkpoint;
// Writes slots that outlive a step, exactly; json last; then drops all but the newest `keep`,
// `best` and the ends of earlier stages. Weights that are not finite are refused (GAN_ERR_INPUT):
// what was saved before is worth more.
GanStatus checkpoint_save(Arena scratch, Str dir, Exec *e, const Checkpoint *c);
typedef VEC(uint32_t) CheckpointSteps;
GanStatus checkpoint_steps(Arena *a, Str dir, CheckpointSteps *out); // of all there are, ascending
// Gives rank 0's slots that outlive a step to all ranks.
GanStatus checkpoint_share(Exec *e, Comm *c);
// GAN_ERR_DEVICE when these slots are not the same bits on every rank: they follow from the same
// sums, so a machine has made a mistake.
GanStatus checkpoint_compare(Exec *e, Comm *c);
bool stored_alike(Dtype a, Dtype b); // does a checkpoint of precision `a` load in `b`?
// Loads the newest whole checkpoint; damaged ones are passed over, with a line each to the console.
// *found false: there are none. GAN_ERR_INPUT: it is another model's, or all are damaged. One that
// is there and cannot be read is no damage: the error is what reading it gave.
// With a want->step other than NONE no other is looked at.
GanStatus checkpoint_load(Arena *perm, Str dir, Exec *e, const Checkpoint *want,
                          const Console *console, Checkpoint *out, bool *found);
// The step of the newest whole one; NONE: there is none.
GanStatus checkpoint_newest(Arena *perm, Str dir, uint32_t *out);

#endif
