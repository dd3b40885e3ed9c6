// events.h - private to runs: the log as TensorBoard event files.
//
//   RUN/events.out.tfevents.00000000.gan    begun at step 0; a resumed run begins another file
//
// All contents are in log.jsonl and samples/ too, and are copied from there at each save.
#ifndef GAN_EVENTS_H
#define GAN_EVENTS_H

#include "base.h"

typedef struct Events {
    Str dir, path;  // the run's folder, the file
    uint32_t step;  // that it follows
    bool begun;     // the file is there
    size_t log;     // bytes of log.jsonl that are written already
    double seconds; // of training up to there: what events give as their time
} Events;
// A file for what follows `step`; earlier files' events from there on are void. The log has been
// cut at `step`. Nothing is written yet: a run that has nothing left to do leaves no file.
GanStatus events_open(Arena *perm, Str dir, uint32_t step, Events *out);
// Writes what the log has gained, and the image of a save.
GanStatus events_save(Events *e, Arena scratch);

uint32_t events_crc32c(Str data);

#endif
