// shard.h - what the passes that divide a step among ranks share: which values are partial sums,
// and which of them travel together.
//
// A *partial* is a shared value that each rank has computed from its own samples: the global value
// is the sum over the ranks. What contracts the batch makes one; linear operations hand it on.
// Where someone needs the global value, the partial is *whole*: a collective adds it up there, and
// every reader reads the sum.
#ifndef GAN_SHARD_H
#define GAN_SHARD_H

#include "pass.h"

// Squares about a mean (moments.c), and the sum that the mean is made of, their centre: both are
// added up where they are made, the squares about each rank's own mean.
typedef struct About {   // by node of the graph before the pass
    uint32_t centre;     // of such squares; 0: the node is none
    bool is_centre;      // some squares'
    uint32_t own, whole; // of a centre, new nodes: this rank's own mean; the sum over all, in f64
} About;

// --- partial.c -----------------------------------------------------------------------------------

typedef struct Partials {
    const Func *f;       // borrowed
    const uint8_t *live; // [node]
    uint8_t *is;         // [node] a partial
    uint8_t *whole;      // [node] a partial that must be added up
} Partials;
// Does the value add up samples, itself shared?
bool partial_begins(const Graph *g, uint32_t id);
void partials_find(Arena *a, const Func *f, const About *about, Partials *out); // [node] or NULL

// --- early.c -------------------------------------------------------------------------------------

// Takes apart sums that wait for another sum only by factors and terms that all samples share.
void sums_apart(Arena *perm, Func *f);
// Has a value of this type only one element along each masked axis?
bool same_along(const Type *t, uint32_t mask);

// --- moments.c -----------------------------------------------------------------------------------

// Is `id` the sum of squares about a mean over the same axes? The sum that the mean is made of,
// else 0.
uint32_t centre_of(const Graph *g, uint32_t id);
double sum_terms(const Graph *g, uint32_t sum); // how many terms each of its elements has

// --- buckets.c, times.c --------------------------------------------------------------------------

typedef struct SumOf { // one value to be added up over the ranks
    uint32_t node;     // of the graph before the pass
    size_t bytes;
    uint8_t dtype;
    uint32_t like;       // needs no sum but those that this node needs; 0: those it reads
    uint32_t call, part; // out
} SumOf;
typedef VEC(SumOf) SumVec;
typedef struct Times {
    const uint32_t
        *time; // [node] when it can be done, in TIMES_TICK seconds from its step's beginning
    const uint8_t *late; // [node] waits for what the step before has left
} Times;
#define TIMES_TICK 1e-7
// Follows from the global graph and the options. `leaves`: the step may leave its end to the next.
Times times_find(Arena *a, const Func *f, const uint8_t *live, const SumVec *sums,
                 const Parallel *o, bool leaves);
size_t link_bytes(const Parallel *o); // that pass in the time a call takes anyway

// Gives every value its call and its place in it. Follows from the graph and the options alone, so
// every rank comes to the same list.
// `phase`: where a block will be cut in several, values of different phases share no call; or NULL.
void calls_plan(Arena *a, const Func *f, const uint8_t *live, const uint32_t *phase,
                const Parallel *o, SumVec *sums);

// --- shard.c -------------------------------------------------------------------------------------

SumOf sum_make(uint32_t node, const Type *t, uint8_t least); // least: a Dtype
Val sum_widen(const SumOf *s, Val partial); // in the precision it is added up in: f32 at least
Val sum_narrow(Val sum, uint8_t dtype);     // and back
// Sums over groups of samples that lie in several hands: a table with a row a group.
Type groups_table(const Share *s, int64_t group, const Type *t); // t: of the values
Val groups_add(const Share *s, int64_t group, Val x); // the table, of the samples at hand
Val groups_read(int64_t group, Val sums, Type t);     // each sample's row, as a value of type t

// --- chunk.c -------------------------------------------------------------------------------------

// The step in chunks (Parallel.chunks or .micro): replaces f's graph, blocks and tape.
void chunk_step(Arena *perm, const Module *m, Func *f, const Parallel *o);

#endif
