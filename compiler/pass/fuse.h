// fuse.h - inside fusion: the graph of values and clusters that fuse.c and cluster.c work on.
//
// A *unit* is a node that some region computes on its own account: elementwise nodes, draws,
// reductions, writes, library calls, and moves that must lie in memory. Other moves are views:
// readers look through them. A *cluster* is a set of units that will be one region; every cluster
// has an iteration space. A unit that is *kept* is stored; what is not kept is computed again
// wherever it is read, so membership in clusters decides only where kept units are stored.
#ifndef GAN_FUSE_H
#define GAN_FUSE_H

#include "index.h"
#include "plan.h"

typedef struct Reads { // one value read by a unit, through views, at one place
    uint32_t node;     // a unit or a Read
    bool aligned;   // element i of the unit's space needs element i of the value, in layout order
    double times;   // elements needed per element of the space: of a short sum several, of a border
                    // a part of one
    uint64_t place; // a hash of the index: readers of one shape that have it in common are at one
} Reads;
typedef VEC(Reads) ReadsVec;
typedef VEC(uint32_t) NodeVec;

typedef struct Asked { // what a walk has asked for of a node
    uint32_t visit;    // the last walk that did
    bool start, read;  // the walk begins here; something on its way reads it
    VEC(struct {
        uint64_t at;
        double times; // for each element of where the walk begins
    })
    place; // each once
} Asked;

typedef struct Fuse {
    Arena *arena; // scratch
    const Module *m;
    const Func *f;
    const Graph *g;
    const PassOptions *o;
    uint8_t *live;         // [node] needed by an effect or a result
    uint8_t *unit;         // [node]
    uint8_t *fixed;        // [node] must be stored
    const uint8_t *stated; // [node] a text says that it is stored; NULL: there is none
    uint8_t *compared;     // [node] ... for it is compared with what was picked from it
    uint8_t *kept;         // [node] stored
    ReadsVec *reads;       // [node] of a unit
    NodeVec *users;        // [node] units that read it: the edges of the cluster graph
    NodeVec *later;        // [node] units that must follow for a slot's sake
    NodeVec *writes;       // [slot] its Write nodes
    uint32_t *cluster;     // [node] the cluster's name: one of its units
    NodeVec *member;       // [cluster]
    uint32_t *pos;         // [cluster] place in a topological order of clusters
    uint32_t *order;       // [pos] cluster, 0 for a hole
    uint32_t *mark;        // [cluster] the last walk through clusters that came by
    uint32_t walks;        // made so far
    uint32_t *seen;        // [2 * unit + aligned] the last visit that came by
    uint32_t visit;        // number of the walk through units that are not kept
    Asked *asked;          // [node]
    NodeVec stack;
    uint32_t merges; // made so far
} Fuse;

// --- roles ---------------------------------------------------------------------------------------

static inline OpClass node_class(const Graph *g, uint32_t id) {
    return (OpClass)op_info[g->node.at[id].op].cls;
}
static inline int64_t slot_of(const Fuse *z, uint32_t id) {
    return node_attr(z->g, id)->i[0];
} // of a Read or Write
// Writes of the slot that a value read straight from one lies in; NULL: it lies elsewhere.
static inline const NodeVec *slot_changes(const Fuse *z, uint32_t id) {
    bool read = z->g->node.at[id].op == OpRead && !z->unit[id];
    return read ? &z->writes[slot_of(z, id)] : NULL;
}
double fuse_weight(const Graph *g, uint32_t id); // arithmetic of one element; an addition is 1

bool func_repeats(const Func *f); // has a Repeat on its tape
bool slot_late(uint32_t home, uint32_t reader, uint32_t writer, bool repeat); // blocks

// --- units.c, regions.c --------------------------------------------------------------------------

void units_find(Fuse *z);
NodeVec *slot_writes(Arena *a, const Module *m, const Func *f); // [slot] its Write nodes
// Regions of the clusters in z->order. Kept units are stored; the rest is computed where it is
// read.
void regions_build(Fuse *z, Arena *perm, Plan *p);
void regions_explain(Fuse *z, Arena *perm, Plan *p); // why[]: behind regions_build

// --- cluster.c -----------------------------------------------------------------------------------

void clusters_init(Fuse *z);
// NULL when the clusters of two units can be one; else why not.
const char *cluster_refuses(Fuse *z, uint32_t a, uint32_t b);
bool cluster_merge(Fuse *z, uint32_t a, uint32_t b); // false when refused
// NULL when the members of a cluster, however they came together, can be one region; else why not.
const char *cluster_wrong(Fuse *z, uint32_t cluster);
// Makes one of two clusters whatever they are; false when something must lie between them.
bool cluster_join(Fuse *z, uint32_t a, uint32_t b);
// Orders unit `before` ahead of `after`; false (and no change) when that closes a circle.
bool cluster_order(Fuse *z, uint32_t before, uint32_t after);
// Adds what the units of a cluster read from memory, looking through what is not kept: each value
// once, `times` the places.
void cluster_reads(Fuse *z, uint32_t cluster, ReadsVec *out);
void unit_reads(Fuse *z, uint32_t unit, ReadsVec *out); // the same of one unit
// At how many places a cluster reads `id` itself, for each element of its space.
double cluster_places(Fuse *z, uint32_t cluster, uint32_t id);

#endif
