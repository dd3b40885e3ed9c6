// schedule.h - between the order of regions (schedule.c) and the launches made of it (launches.c).
#ifndef GAN_SCHEDULE_H
#define GAN_SCHEDULE_H

#include "plan.h"

typedef VEC(uint32_t) RegionVec;

typedef struct Ordered {
    const RegionVec *block; // [Func.blocks] regions in order; in one of them, where there is a
                            // tail, the number Plan.region.n where it runs
    RegionVec tail;         // what a step leaves to the next, in order
    const RegionVec *next;  // [region] regions that must follow
    const uint8_t *late;    // [region] waited for its like, to share a launch; NULL: none did
    bool apart;             // a launch for each region
} Ordered;

enum { SmallBytes = 1 << 16 }; // what a waiting region may hold back; what a merged one may move

// --- launches.c ----------------------------------------------------------------------------------

// Fills launch[], merge[], block[], tail and Region.merged.
void launches_make(Arena *perm, Plan *p, const Ordered *o);
size_t region_bytes(const Plan *p, const Region *r); // that it reads and stores
bool region_writes_slots_only(const Plan *p, const Region *r);

#endif
