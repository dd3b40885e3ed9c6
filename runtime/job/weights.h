// weights.h - imports weights of other runs and of files (safetensors, PyTorch).
#ifndef GAN_WEIGHTS_H
#define GAN_WEIGHTS_H

#include "job.h"
#include "safetensors.h"

// What PyTorch's layers call a weight or state: "G.conv.3.weight"; without the net's name where the
// file is of one net.
Str weight_name(Arena *a, const Module *m, const Slot *s, bool of_one_net);
bool tensor_fits(const SafeTensor *t, const Slot *s); // in shape and precision; t may be NULL
// Gives weights and states the values that those of the same name and shape have in another run's
// newest whole checkpoint, or in a file, under our names or PyTorch's, rounded where the precision
// is another; copies of nets that it has not begin with their model's, and optimizers anew. Says
// how many, and which were not there. GAN_ERR_INPUT: none was.
GanStatus weights_from(Arena *perm, Str from, Exec *e, const Console *console);
// The same of several files, at least one, oldest first: each weight is of the newest that has it.
// *taken: how many are, which may be none.
GanStatus weights_take(Arena *perm, const Str *path, uint32_t files, Exec *e,
                       const Console *console, uint32_t *taken);
// A pair of --weights: where the file of a pretrained net is, from here on.
GanStatus weights_told(Arena *perm, JobWeightsVec *list, const Setting *pair);
// --weights of the job's own model.
GanStatus job_set_weights(Arena *perm, Job *job, const Options *o);
// GAN_ERR_USAGE where the job has a file for a net that the model has not, or that is no
// pretrained.
GanStatus weights_names_known(const Module *m, const Job *job);
// Gives every pretrained net the weights and states of its file, all of them by name and shape, and
// `begin`: its copies too. The job learns paths and hashes; weights of another hash than it knows
// are refused.
GanStatus weights_pretrained(Arena *perm, Job *job, Exec *e, bool begin);
// Whether it could, of a model that is not opened; nothing is taken.
GanStatus weights_fit(Arena *perm, Job *job, const Module *m);
// Drops the hashes the job knows: another stage may read other weights of the same files.
void weights_forget(Job *job);

#endif
