// play.h - for tests: simulates a plan without computing values. Memory remembers which value it
// holds, byte for byte; each launch must find its inputs intact, and must not overwrite what
// another kernel of the same launch reads.
#ifndef GAN_TEST_PLAY_H
#define GAN_TEST_PLAY_H

#include "pass.h"

// Fails the test where a reader finds another value; `seed` is told then.
void plan_play(Arena *a, const Plan *p, uint64_t seed);
// The same for every other plan of these lifetimes: what is made spoils at once all that the plan
// might have put in its place, which is all that does not live when it does.
void plan_play_lives(Arena *a, const Plan *p, const PassOptions *o, uint64_t seed);

#endif
