// commands.h - the commands of ganrun that work on models and runs, each implemented in its topic's
// folder. `perm` holds what they allocate until the program ends. A wrong command line is
// GAN_ERR_USAGE.
#ifndef GAN_COMMANDS_H
#define GAN_COMMANDS_H

#include "job.h"

GanStatus cmd_train(Arena *perm, const Host *h, const Options *o);
GanStatus cmd_sample(Arena *perm, const Host *h, const Options *o);
GanStatus cmd_eval(Arena *perm, const Host *h, const Options *o);
GanStatus cmd_scale(Arena *perm, const Host *h, const Options *o);
GanStatus cmd_bench(Arena *perm, const Host *h, const Options *o);
GanStatus cmd_doctor(Arena *perm, const Host *h, const Options *o);
GanStatus cmd_export(Arena *perm, const Host *h, const Options *o);   // export.c
GanStatus cmd_import(Arena *perm, const Host *h, const Options *o);   // import.c
GanStatus cmd_film(Arena *perm, const Host *h, const Options *o);     // film.c
GanStatus cmd_interp(Arena *perm, const Host *h, const Options *o);   // interp.c
GanStatus cmd_report(Arena *perm, const Host *h, const Options *o);   // report.c
GanStatus cmd_distance(Arena *perm, const Host *h, const Options *o); // distance.c
GanStatus cmd_diff(Arena *perm, const Host *h, const Options *o);
GanStatus cmd_demo(Arena *perm, const Host *h, const Options *o);

// --- train/train_open.c: for who trains by other words -------------------------------------------

typedef struct TrainOptions {
    Str dir;              // a run to go on with, or one to begin; empty: in a folder of its own
    bool resume;          // the former
    bool replan;          // measure the link between the ranks again
    Str trace;            // "FIRST:LAST", empty: none
    const DeviceApi *api; // opened instead of the job's device; NULL: that one
} TrainOptions;
// Trains. GAN_STOPPED when the host (on many ranks: one of them) was asked to stop.
GanStatus train_run(Arena *perm, const Host *h, Job *job, const TrainOptions *o);

#endif
