// fuse.h - from a graph to regions: what one kernel, library call or copy computes, and the order
// between them. clusters.h is the inside of it.
#ifndef GAN_FUSE_H
#define GAN_FUSE_H

#include "pass.h"
#include "program.h"

// fuse.c. Fills region[] (node, in, out, kind, block), region_of[], why[], copied[], and of
// place[]: `space` SpaceInline for values that kernels compute where they use them (constants,
// iota), and `owner` of every node: itself, or for a view (a move that leaves the bytes in place)
// the owner of its source. Region.in and .out hold owners.
void fuse(Arena *perm, const PassOptions *o, Plan *p);

typedef struct Refusal {
    Str why;         // what is wrong with a plan; in the arena that is given
    uint32_t region; // the region it is about, NONE
} Refusal;
// restore.c. The same from the nodes that each region stores, which determine a fusion; why[] stays
// empty. They may be from an untrusted text: false when these regions are not valid.
bool fuse_restore(Arena *perm, const PassOptions *o, const NodeList *stored, uint32_t regions,
                  Plan *p, Refusal *wrong);

// Dependences between regions of one block: one reads what the other stores (read after write), or
// reads a slot that the other writes (write after read). Sorted by (after, before), unique,
// acyclic: where a read could not come first, fuse inserted a RegionCopy.
typedef struct RegionOrder {
    uint32_t before, after;
} RegionOrder; // Plan.region[]
typedef VEC(RegionOrder) OrderVec;
void region_orders(Arena *perm, const Plan *p, OrderVec *out);

NodeList *slot_writes(Arena *a, const Module *m, const Func *f); // [slot] its Write nodes
// Does a write in block `writer` come between a read in block `home` and the use of its value in
// block `reader`?
bool slot_late(const Func *f, uint32_t home, uint32_t reader, uint32_t writer);

#endif
