// scale.h - scaling studies: the same step on increasing numbers of ranks, measured and simulated.
#ifndef GAN_SCALE_H
#define GAN_SCALE_H

#include "sim.h"

typedef enum ScaleMode { ScaleWeak, ScaleStrong, ScaleModes } ScaleMode;
extern const char *const scale_mode_name[ScaleModes]; // "weak", "strong"

typedef struct ScalePoint {
    ScaleMode mode;
    int64_t ranks, batch; // batch: of all ranks
    bool simulated;
    double ms;           // of a step
    double comm_ms;      // the communicator's work in it
    double exposed_ms;   // what of that was waited for
    double null_ms;      // of a step with --comm null; NaN: not measured
    double simulated_ms; // measured points: what the simulator says; NaN: it was not asked
} ScalePoint;

typedef struct Study {
    Arena *perm;
    Str model, out;
    const Options *o;
    const Host *host;
    const DeviceApi *api;
    Dtype real;
    int64_t batch; // a rank's in weak scaling, all ranks' in strong
    int64_t steps, warmup, threads;
    int64_t cores;  // of this machine
    int64_t timed;  // steps that were timed: whole periods of `every`
    LinkModel link; // of the simulated points
    LinkModel seen; // as --wire says; zeros: it does not
    VEC(ScalePoint) point;
} Study;

// Of a point against one rank: weak: how much more work a second; strong: how much sooner.
double scale_speedup(const Study *s, const ScalePoint *p);

// --- scale_write.c: what a study leaves ----------------------------------------------------------

// study.csv, study.md (table, methods), study.svg in the study's folder.
GanStatus scale_write(const Study *s);

#endif
