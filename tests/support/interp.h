// interp.h - for tests: evaluates a graph with the reference evaluator, in double, on given leaf
// values.
#ifndef GAN_TEST_INTERP_H
#define GAN_TEST_INTERP_H

#include "program.h"

typedef struct Interp {
    Arena *arena;
    const Graph *g;
    bool f64; // false: values are floats
    Counters counters;
    void **value; // [node.n]; a Read's must be set before interp_run
} Interp;

Interp interp_make(Arena *a, const Graph *g); // double, nothing set
double *interp_set(Interp *t, uint32_t id);   // buffer of a node's value (doubles), to be filled
void interp_run(Interp *t); // all nodes but Reads and expanded-away Grads, in order
// An element of a leaf, in its precision.
void interp_put(Interp *t, uint32_t id, int64_t i, double x);
double interp_at(const Interp *t, uint32_t id, int64_t i);
int64_t interp_count(const Interp *t, uint32_t id); // elements
// Deterministic test numbers in (-1, 1).
double test_number(uint64_t key);

#endif
