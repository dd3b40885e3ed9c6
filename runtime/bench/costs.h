// costs.h - a profile of a step by launch.
#ifndef GAN_COSTS_H
#define GAN_COSTS_H

#include "sim.h"

// The `most` launches that took longest: milliseconds, share of all launches' time, GFLOP/s of
// convolutions and products, GB/s of operands and results, the model's line and what is computed
// there. `m` as sim_profile gives it for `p`, of which the first step is shown, where all comes;
// `clock` as it left it: under each launch the kernels and copies it ran, with their microseconds,
// blocks, threads a block, registers a thread, bytes of shared memory a block; NULL: none.
// Temporary memory is the text's arena's.
void costs_put(Text *t, const Plan *p, const Timeline *m, const LaunchClock *clock, uint32_t most);
// Members "launches", and "kernels" in each.
void costs_json(JsonOut *j, const Plan *p, const Timeline *m, const LaunchClock *clock,
                uint32_t most);

#endif
