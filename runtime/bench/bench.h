// bench.h - private to `ganrun bench`: its state and the interface of its files.
#ifndef GAN_BENCH_H
#define GAN_BENCH_H

#include "costs.h"

typedef struct Outside { // ms: of all of them, what is spent outside kernels; NaN: not known
    double all, outside;
} Outside;

typedef struct Bench {
    Arena *perm;
    const Host *host;
    const Options *o;
    Str model;
    const DeviceApi *api;
    Dtype real;
    int64_t batch, steps, warmup;
    Comm *comm;         // the host's; NULL: one rank
    Session session;    // owned
    Roofline roof;      // the larger of before and after
    double *ms;         // [steps], sorted once all are there
    double step_ms;     // of a step: their median, a mean where steps differ (`every`)
    Outside outside;    // of a step
    LaunchClock *clock; // of launches; NULL: the host's
    double cold_ms, warm_ms;
    double peak_bytes;          // of a process after one step
    double comm_ms, exposed_ms; // a step: the communicator's work, what of it was waited for
    double late_ms;             // of that, for ranks that came later than this one; NaN: not known
    double simulated_ms;        // what the simulator says of it; NaN: it was not asked
    double bound_ms;            // the least that any order of the step would wait
} Bench;

// --- bench.c -------------------------------------------------------------------------------------

GanStatus bench_open(Bench *b); // the session, its data made here
GanStatus bench_fill(Bench *b); // data slots
GanStatus bench_step(Bench *b, uint32_t step, const ExecHooks *hooks); // one step, waited for
GanStatus bench_roofline(Bench *b);                                    // --roofline
GanStatus bench_outside(Bench *b); // Bench.outside, where the device can tell

// --- bench_card.c --------------------------------------------------------------------------------

void bench_clock_open(Bench *b);  // Bench.clock where launches are asked for and a card has it
void bench_clock_close(Bench *b); // it times no more; what launches ran stays
GanStatus bench_timeline(Bench *b, uint32_t first); // --timeline, of steps from `first` on

// --- bench_start.c -------------------------------------------------------------------------------

GanStatus bench_first_launch(Bench *b); // what the other process does
GanStatus bench_starts(Bench *b);       // cold_ms, warm_ms, peak_bytes

#endif
