// shard.h - data parallelism: what the passes that divide a step among ranks share. They decide
// which values are partial sums, which all-reduces they need, and in which buckets these travel.
//
// A *partial* is a shared value that each rank has summed over its own samples: the global value is
// the sum over the ranks. A contraction of the batch makes one; linear operations propagate it.
// Where something needs the global value the partial is *whole*: it is all-reduced there, and every
// reader reads the sum.
#ifndef GAN_SHARD_H
#define GAN_SHARD_H

#include "pass.h"

// Sums of squared deviations (moments.c), and the sum of their mean, their centre: both are reduced
// where they are computed, the squares about each rank's own mean.
typedef struct About {   // by node of the graph before the pass
    uint32_t centre;     // of a sum of squared deviations; 0: the node is none
    bool is_centre;      // of some such sum
    uint32_t own, whole; // of a centre, new nodes: this rank's mean; the global sum, in f64
} About;

// --- partial.c -----------------------------------------------------------------------------------

typedef struct Partials {
    const Func *f;       // borrowed
    const uint8_t *live; // [node]
    uint8_t *is;         // [node] a partial
    uint8_t *whole;      // [node] a partial that is reduced over the ranks
} Partials;
// Is it a shared value that sums over samples?
bool partial_begins(const Graph *g, uint32_t id);
void partials_find(Arena *a, const Func *f, const About *about, Partials *out); // [node] or NULL

// --- split_sums.c --------------------------------------------------------------------------------

// Is a value of this type constant along each masked axis: one element?
bool same_along(const Type *t, uint32_t mask);

// --- moments.c -----------------------------------------------------------------------------------

// If `id` is a sum of squared deviations from the mean over the same axes, the mean's sum; else 0.
uint32_t centre_of(const Graph *g, uint32_t id);

// --- buckets.c, times.c --------------------------------------------------------------------------

typedef struct SumOf { // one value to be reduced over the ranks
    uint32_t node;     // of the graph before the pass
    size_t bytes;
    uint8_t dtype;
    uint32_t like;       // has the dependences of this node instead of its own; 0: its own
    uint32_t call, part; // out: its bucket and its index there
} SumOf;
typedef VEC(SumOf) SumVec;
typedef struct Times {
    const uint32_t
        *time; // [node] earliest finish, in TIMES_TICK seconds from the beginning of the step
    const uint8_t *late; // [node] depends on what the previous step has deferred
} Times;
#define TIMES_TICK 1e-7
// Depends on the global graph and the options only. `leaves`: the step may defer its end.
Times times_find(Arena *a, const Func *f, const uint8_t *live, const SumVec *sums,
                 const Parallel *o, bool leaves);
size_t link_bytes(const Parallel *o); // bandwidth-delay product: bytes sent within one latency

// Assigns every value to a bucket. Depends on the graph and the options only, so every rank
// computes the same list. `phase`: where a block will be split, values of different phases share no
// bucket; or NULL.
void calls_plan(Arena *a, const Func *f, const uint8_t *live, const uint32_t *phase,
                const Parallel *o, SumVec *sums);

// --- shard.c -------------------------------------------------------------------------------------

SumOf sum_make(uint32_t node, const Type *t, uint8_t least); // least: a Dtype
Val sum_widen(const SumOf *s, Val partial); // to the precision of the reduction: at least f32
// Sums over groups of samples that straddle ranks or chunks: a table with one row per group.
Type groups_table(const Share *s, int64_t group, const Type *t); // t: of the values
Val groups_add(const Share *s, int64_t group, Val x);            // the table, of the local samples
Val groups_read(int64_t group, Val sums, Type t); // each sample's row, as a value of type t

#endif
