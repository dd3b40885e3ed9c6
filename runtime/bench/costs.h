// costs.h - a profile of a step by launch.
#ifndef GAN_COSTS_H
#define GAN_COSTS_H

#include "sim.h"

// The `most` launches that took longest: milliseconds, share of all launches' time, GFLOP/s of
// convolutions and products, GB/s of operands and results, the model's line and what is computed
// there. `m` as sim_profile gives it for `p`, of which the first step is shown, where all comes.
// Temporary memory is the text's arena's.
void costs_put(Text *t, const Plan *p, const Timeline *m, uint32_t most);
void costs_json(JsonOut *j, const Plan *p, const Timeline *m, uint32_t most); // member "launches"

#endif
