// progress.h - progress lines of a run.
#ifndef GAN_PROGRESS_H
#define GAN_PROGRESS_H

#include "comm.h"
#include "health.h"
#include "job.h"
#include "meter.h"
#include "shares.h"

typedef struct Progress {
    const Console *console;
    const Meter *meter;
    const Shares *shares;
    const Health *health;
    Comm *comm;           // NULL: one rank
    const Job *job;       // borrowed
    size_t device_bytes;  // of a device with a memory of its own; 0: it has none
    uint32_t first, last; // steps: where this process began, where the run ends
    double data, save;    // seconds spent so, since `began`
    double last_save;     // seconds of the newest save; 0: this process has made none
    // its own:
    double began, last_line; // clock
    double before;           // seconds waited for sums before `began`
    double reset;            // clock: since when the figures shown are means
    uint32_t shown_step;
    Spent shown;
} Progress;
Spent progress_spent(const Progress *p); // since `began`
// The columns of a tick as StyleGAN's users know them, after `step` steps and `time` seconds of
// this process; a tick is what lies between two saves, with one of them. `spent`: since
// p->shown_step.
void progress_speed(Text *t, const Progress *p, uint32_t step, const Spent *spent, double time);
// The first line: the model, its nets, its data, the device.
void progress_title(Arena scratch, const Console *c, const Session *s, const Job *job);
void progress_begin(Progress *p);                              // the first step begins
void progress_step(Progress *p, Arena scratch, uint32_t step); // shows a line when it is time
void progress_end(Progress *p, Arena scratch, uint32_t step);

#endif
