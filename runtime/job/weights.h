// weights.h - imports weights of other runs and of files (safetensors, PyTorch).
#ifndef GAN_WEIGHTS_H
#define GAN_WEIGHTS_H

#include "job.h"
#include "safetensors.h"

// The name of a weight or state in a PyTorch state dict: "G.conv.3.weight"; `of_one_net`: without
// the net's name.
Str weight_name(Arena *a, const Module *m, const Slot *s, bool of_one_net);
Str weight_torch_name(Arena *a, const Module *m, Str name); // the same of the name of a slot
// What precedes a slot's name within its layer: "G.conv.3." A layer's weight has within it the
// state of its spectral norm, SPECTRAL_U.
Str weight_layer(Str name);
#define SPECTRAL_U "spectral_norm.0.u"
// The slot of this name in the layer of a slot; NULL: it has none.
const Slot *weight_beside(const Module *m, Str name, const char *word);
bool tensor_fits(const SafeTensor *t, const Slot *s);       // in shape and precision; t may be NULL
bool tensor_same_shape(const SafeTensor *t, const Slot *s); // t may be NULL
Str weights_listed(Arena *a, const SafeFile *f);            // the first tensors, for a message
// Gives a slot the numbers of a tensor of its shape; those of another precision are rounded.
GanStatus slot_take(Exec *e, uint32_t slot, const SafeTensor *t);
// Copies weights and states by name (ours or PyTorch's) and shape from another run's newest whole
// checkpoint, or from a file, rounded to the precision here; a file of a single net may lack its
// name. A copy of a net that the file lacks is initialized from its original's weights there. With
// `optimizers` their state is copied too. Reports how many were copied and which were missing.
// GAN_ERR_INPUT: none was copied.
GanStatus weights_from(Arena *perm, Str from, bool optimizers, Exec *e, const Console *console);
// Facts of the fields of the run that job->from is, or has its weights in: the same on all ranks.
// None: it is another program's file.
GanStatus weights_from_facts(Arena *perm, struct Comm *comm, Job *job);
// Weights and states from several files, at least one, oldest first: each weight comes from the
// newest file that has it. *taken: how many were copied, possibly none.
GanStatus weights_take(Arena *perm, const Str *path, uint32_t files, Exec *e,
                       const Console *console, uint32_t *taken);
// Sets the path of a pretrained net's file, a pair of --weights.
GanStatus weights_told(Arena *perm, JobWeightsVec *list, const Setting *pair);
// --weights of the job's own model.
GanStatus job_set_weights(Arena *perm, Job *job, const Options *o);
// GAN_ERR_USAGE if the job has a file for a net that the model lacks or that is not pretrained.
GanStatus weights_names_known(const Module *m, const Job *job);
// Loads every pretrained net from its file, where all its weights and states must be by name and
// shape, and with `begin` its copies too. Records paths and hashes in the job; weights whose hash
// differs from a recorded one are refused.
GanStatus weights_pretrained(Arena *perm, Job *job, Exec *e, bool begin);
// Checks the same for a model that is not opened; loads nothing.
GanStatus weights_fit(Arena *perm, Job *job, const Module *m);
// Drops the recorded hashes: another stage may read other weights of the same files.
void weights_forget(Job *job);

#endif
