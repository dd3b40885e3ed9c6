// plan_sim.h - for tests: simulates a plan without computing values. Memory remembers which value
// it holds, byte for byte; each launch must find its inputs intact, and must not overwrite what
// another kernel of the same launch reads.
#ifndef GAN_TEST_PLAN_SIM_H
#define GAN_TEST_PLAN_SIM_H

#include "plan.h"

// Fails the test if a read finds another value; the message names `seed`.
void plan_simulate(Arena *a, const Plan *p, uint64_t seed);
// The same for all memory plans that are valid for these lifetimes: a new value overwrites every
// value that is not live at the same time, since a plan could have placed it at that offset.
void plan_simulate_lifetimes(Arena *a, const Plan *p, const PassOptions *o, uint64_t seed);

#endif
