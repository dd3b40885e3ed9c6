// launch_check.h - which launch of a step is wrong: each runs by itself, and what it stores is
// compared with what the reference evaluator makes of the same memory.
#ifndef GAN_LAUNCH_CHECK_H
#define GAN_LAUNCH_CHECK_H

#include "exec.h"
#include "region_check.h"

typedef struct LaunchCheck {
    Arena *arena;
    const char *name;    // of the model, in lines
    const Plan *p;       // the step's
    Memory memory;       // of the plan, on the host
    bool *fused;         // [node] a library call absorbed what reads it, and stored that alone
    RegionCheck *region; // [Launch.instances] of the launch that runs
    void ***is;          // [Launch.instances][Region.out] what it stored
    Arena before;        // what `arena` was then
    uint32_t values, wrong;
    void (*say)(void *user, Str line); // for each value that differs
    void *user;
} LaunchCheck;

// Fills data slots with numbers that follow from their place.
GanStatus launch_check_data(Exec *e, const Module *m, Arena scratch);
// Of the step's plan: what lies in `arena` from here on.
void launch_check_begin(LaunchCheck *k, Exec *e);
// Of one launch, before (done false) and after it has run: ExecHooks.launch, with a LaunchCheck.
// GAN_OK also where values differ: `wrong` counts them.
GanStatus launch_check_launch(void *k, Exec *e, uint32_t launch, bool done, const Counters *c);

#endif
