// team.h - between team.c, the shape of a nest for blocks of threads, and team_pack.c, what each of
// them does at once.
#ifndef GAN_TEAM_H
#define GAN_TEAM_H

#include "nest.h"

enum {
    PackBytes = 16,        // of the widest access
    Sector = 32,           // bytes, the least that is read from memory
    ManyThreads = 1 << 16, // enough to fill a card
    LeastSteps = 4,        // of a thread, before more threads share a unit
};

// Registers of an accumulator, in elements: gan_best and gan_moments hold more than one.
static inline uint32_t reduce_words(const Reduce *r) {
    return r->kind == ReduceArgMax ? 2 : r->kind == ReduceSquares ? 3 : 1;
}

// --- team.c --------------------------------------------------------------------------------------

// Elements of all reduced variables, or of all kept ones but for rows that are indexed.
int64_t team_extent(const Nest *n, bool reduced);

// --- team_pack.c ---------------------------------------------------------------------------------

// Chooses a column to walk, a pack or a tile, and the variable they lie along: at first
// Team.lane, the innermost one. Variables that steps walk become reduced ones.
void team_choose_pack(Nest *n);
// Where a team walks in steps: are the lane and what such a load is contiguous along the innermost
// of a unit's variables and of a step's, in either order? *bytes: of an element of that load.
bool team_reads_both_ways(const Nest *n, uint32_t *bytes);
// Marks what moves in packs, and says how many steps are unrolled; levels are known.
void team_mark_packs(Nest *n);

#endif
