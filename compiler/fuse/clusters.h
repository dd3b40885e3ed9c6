// clusters.h - inside fusion: the dependence graph of units and clusters that fuse.c, cluster.c and
// cluster_order.c work on.
//
// A *unit* is a node that some region computes: elementwise nodes, random draws, reductions, slot
// writes, library calls, and moves that must be materialized. Other moves are *views*: consumers
// index through them. A *cluster* is a set of units that will become one region; it has one
// iteration space. A *kept* unit is stored in memory; every other unit is recomputed inline by each
// consumer, so membership in clusters decides only where kept units are stored. A *derived* unit is
// kept by the cluster of the reductions that it is a function of; it is computed behind their loop,
// and they need not be kept.
#ifndef GAN_CLUSTERS_H
#define GAN_CLUSTERS_H

#include "fuse.h"
#include "index.h"
#include "total_order.h"

// Statements of a kernel, at most: recomputation and horizontal fusion go no further. What is
// recomputed is written once for each index and each guard that it is needed under, so that the
// steps of an unrolled recurrence, stacked, would be a kernel of their number squared.
enum { MaxStatements = 512 };

typedef struct Reads { // a value that a unit reads, through views, at one index
    uint32_t node;     // a unit or a Read
    bool aligned;     // element i of the unit's space reads element i of the value, in layout order
    double times;     // elements read per element of the space: several in a short sum, a fraction
                      // at a border
    uint64_t index;   // hash of the index expression: equal for equal accesses
    uint32_t guarded; // accesses within bounds of their own, as the parts of a concatenation have
} Reads;
typedef VEC(Reads) ReadsVec;

typedef struct IndexUse { // a distinct index expression
    uint64_t hash;
    double times; // per element of where the walk begins
    // Statements that compute it there: one that readers share, and those of guarded accesses.
    uint32_t shared, apart;
} IndexUse;
typedef struct Demand { // what a walk over recomputed units reads of a node
    uint32_t visit;     // the last walk that reached it
    bool start, read;   // the walk begins here; a unit on the way reads it
    VEC(IndexUse) index;
} Demand;

// Barriers are units that are in no cluster with others, such as library calls. A path from one
// cluster to another through a barrier is there whatever else is merged, and keeps the two apart.
// Of up to so many barriers, spread over the graph, each cluster knows which it leads to and which
// lead to it: where a set of the one meets a set of the other, no walk is needed.
enum { BarrierWords = 8 };
typedef struct BarrierSet {
    uint64_t bits[BarrierWords];
} BarrierSet;
typedef struct Barriers {
    BarrierSet *after, *before; // [cluster] that depend on it; that it depends on
} Barriers;

// Half of a walk over clusters: along edges, or against them.
typedef struct Reach {
    uint32_t *mark;   // [cluster] the last walk that reached it
    NodeList cluster; // these, the one it begins at first
    uint32_t done;    // of these: those whose neighbours are reached as well
    uint32_t edges;   // looked at
} Reach;

typedef struct Fuse {
    Arena *arena; // scratch
    const Module *m;
    const Func *f;
    const Graph *g;
    const PassOptions *o;
    double *weight;        // [op] fuse_weight()
    uint8_t *live;         // [node] reached from an effect or a result
    uint8_t *unit;         // [node]
    uint8_t *fixed;        // [node] must be stored
    const uint8_t *stated; // [node] a plan text stores it; NULL: no text
    uint8_t *kept;         // [node] stored
    uint8_t *asked;        // [node] read from outside the graph: a result, a report
    uint8_t *derived;      // [node] stored as a function of the results of its cluster's reductions
    ReadsVec *reads;       // [node] of a unit
    NodeList *users;       // [node] units that read it: edges of the cluster graph
    NodeList *again;       // [node] not kept: units that compute it again, where they read it
    NodeList *later;       // [node] units ordered after it by a slot (write after read)
    NodeList *before;      // [node] what has it in `users` or `later`, as clusters_link() found it
    NodeList *writes;      // [slot] its Write nodes
    uint32_t *cluster;     // [node] its cluster, named by one of the members
    NodeList *member;      // [cluster]
    TotalOrder topo;       // of clusters: a topological order of their graph
    uint32_t *order;       // [1 + position] cluster, 0 behind the last
    Reach ahead, back;     // the last walk, from its two ends
    uint32_t walks;        // number of walks over clusters
    Barriers barrier;
    uint32_t *seen; // [2 * unit + aligned] the last visit that reached it
    uint32_t visit; // number of the walk over recomputed units
    Demand *demand; // [node]
    NodeList stack;
    uint32_t merges; // number so far
} Fuse;

// --- roles ---------------------------------------------------------------------------------------

// Writes of the slot that a value read straight from one lies in; NULL: it lies elsewhere.
static inline const NodeList *slot_changes(const Fuse *z, uint32_t id) {
    bool read = z->g->node.at[id].op == OpRead && !z->unit[id];
    return read ? &z->writes[node_slot(z->g, id)] : NULL;
}
bool unit_joins(const Graph *g, uint32_t id); // may be in a region with others

// --- units.c, regions.c --------------------------------------------------------------------------

void units_find(Fuse *z);
double fuse_weight(const Fuse *z, uint32_t id); // arithmetic of one element; an addition is 1
// Regions of the clusters in z->order. Kept units are stored; the others are computed inline.
void regions_build(Fuse *z, Arena *perm, Plan *p);
void regions_explain(Fuse *z, Arena *perm, Plan *p); // why[]: after regions_build

// --- derive.c ------------------------------------------------------------------------------------

// Moves functions of reductions to where their results are known, where readers are spared much.
void derive_results(Fuse *z);
// The cluster of the reductions that a unit is a function of alone, at their very elements, by what
// that is of the units it reads (of[]); 0: it is no such function.
uint32_t derived_of(const Fuse *z, const uint32_t *of, uint32_t id);

// --- barrier.c -----------------------------------------------------------------------------------

void barriers_find(Fuse *z);                                 // from Fuse.users as they are now
void barriers_join(Fuse *z, uint32_t a, uint32_t b);         // cluster a is now one with b
bool barrier_between(const Fuse *z, uint32_t a, uint32_t b); // a path from a to b through one

// --- cluster_order.c -----------------------------------------------------------------------------

// Does a path lead from cluster a to b, which comes later? Any path; one through other clusters;
// that, looked for from both ends, so that it costs what the smaller one's clusters do. For the
// last, edges are linked as they are by now.
typedef enum Walk { WalkAny, WalkIndirect, WalkBoth } Walk;
bool cluster_leads(Fuse *z, uint32_t a, uint32_t b, Walk how);
void clusters_link(Fuse *z); // fills Fuse.before
// After a walk that has found no path: cluster b leaves the order, and a takes its edges.
void cluster_absorb(Fuse *z, uint32_t a, uint32_t b);
// Adds an edge from unit `before` to `after`; false (and no change) when that would close a cycle.
bool cluster_order(Fuse *z, uint32_t before, uint32_t after);
// Fills Fuse.order from the edges linked: topologically, of two clusters that may run the one first
// whose last unit is. So it depends on which clusters there are, and not on how they came to be;
// and what an update is fused with waits for the update, as the text has it.
void cluster_list(Fuse *z);

// --- cluster.c -----------------------------------------------------------------------------------

void clusters_init(Fuse *z);
// NULL when the clusters of two units can be merged; else why not.
const char *cluster_refuses(Fuse *z, uint32_t a, uint32_t b);
// Done, also where they were one; refused for now, as a path between them leads through clusters
// that may join either; or for as long as units are kept and users stay as they are.
typedef enum Merge { MergeDone, MergeBlocked, MergeNever } Merge;
Merge cluster_merge(Fuse *z, uint32_t a, uint32_t b);
// NULL when the members of a cluster, however formed, can be one region; else why not.
const char *cluster_wrong(Fuse *z, uint32_t cluster);
// Merges two clusters of any kind; false when another one must run between them.
bool cluster_join(Fuse *z, uint32_t a, uint32_t b);
// Adds what the units of a cluster read from memory, through recomputed units: each value once,
// `times` summed over its distinct indices. `out` may be NULL. Returns the statements of the kernel
// that the cluster would be, a load or a computed value each.
uint32_t cluster_reads(Fuse *z, uint32_t cluster, ReadsVec *out);
void unit_reads(Fuse *z, uint32_t unit, ReadsVec *out); // the same of one unit
// Elements of `id` that a cluster reads directly, per element of its space.
double cluster_times(Fuse *z, uint32_t cluster, uint32_t id);

#endif
