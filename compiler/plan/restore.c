// restore.c - rebuilds a plan from decisions made elsewhere: the regions (fuse/restore.c), and
// which of them share a launch.
//
// In: untrusted node and region numbers from a text. Out: what fuse() and schedule() fill,
// verified, or why not.
#include "stages.h"

bool regions_restore(Arena *perm, const PassOptions *o, const NodeList *stored, uint32_t regions,
                     Plan *p, Refusal *wrong) {
    if (!fuse_restore(perm, o, stored, regions, p, wrong))
        return false;
    collectives_find(perm, p);
    return regions_verify(perm, o, p, wrong);
}

// --- launches ------------------------------------------------------------------------------------

// What a text leaves to be derived. Its numbers may be of no region.
static void derive_launches(Plan *p) {
    for (uint32_t i = 0; i < p->launch.n; i++) {
        Launch l = p->launch.at[i];
        for (uint32_t k = 0; k < l.instances; k++) {
            uint32_t region = p->merge.at[l.first + k];
            if (region < p->region.n)
                p->region.at[region].merged = k ? l.region : NONE;
        }
    }
}

static void derive_tail(Arena *perm, Plan *p, Tail *t) {
    TailWays ways;
    uint32_t *region, n = section_regions(p, &p->section.at[t->section], &region);
    bool known = n > 0;
    for (uint32_t i = 0; i < n; i++)
        known &= region[i] < p->region.n;
    if (!known || !tail_place(perm, p, region, n, &ways))
        return;
    t->loop = ways.loop;
    t->wraps = ways.wraps;
}

bool schedule_restore(Arena *perm, const PassOptions *o, Plan *p, Refusal *wrong) {
    derive_launches(p);
    for (uint32_t t = 0; t < p->tail.n; t++)
        derive_tail(perm, p, &p->tail.at[t]);
    return schedule_verify(perm, o, p, wrong);
}
