// nest.h - inside generation: a region as loops, before any text.
//
// A Nest is what lower.c makes of a region: loop variables, values as functions of them, stores and
// reductions. nest.c then decides the shape of the loops; emit.c writes it down in a dialect.
// Nothing here knows C.
//
//   units    the variables order[0..prefix) and, where one is tiled, its tile are decoded from one
//            number, the unit. Units are the parallel work; `grain` of them are worth a call
//   loops    the other variables, outermost first
//   sums     a reduction has one accumulator per kept variable among the loops, started and
//            finished per unit. Where the tiled variable is a reduced one, units hold partial
//            results, which are finished after all of them, in order
#ifndef GAN_NEST_H
#define GAN_NEST_H

#include "gen.h"
#include "index.h"

enum { MAX_VARS = 24, MAX_FACTORS = 8, LANES = 32, MAX_ACC = 2048 };

typedef enum ValueKind {
    ValueNumber, // number
    ValueIndex,  // at, plus sample0 samples of the batch
    ValueLoad,   // element at (+ row * value a) of argument arg, 0 where a bound fails
    ValueEw,     // op's value column over a b c
    ValueDraw,   // attributes dist, site, classes; at sample, element
    ValueSelect, // a where the bounds hold, else b
    ValueRow,    // a, a label, made a valid row number below `rows`
} ValueKind;

typedef struct Value {
    ValueKind kind;
    Dtype dtype;
    Op op;            // ValueEw
    uint32_t a, b, c; // values, NONE
    double number;
    uint32_t arg;       // ValueLoad
    Ix at;              // ValueLoad, ValueIndex; ValueDraw: the element
    int64_t sample0;    // ValueIndex: what one sample of an earlier rank adds
    Ix sample;          // ValueDraw
    bool batched;       // ValueDraw
    int64_t dist, site; // ValueDraw
    int64_t rows, row;  // ValueRow: how many; ValueLoad with `a`: elements from row to row
    uint32_t bounds;    // Nest.bounds[], 0 none
    uint32_t level;     // 0 the function, 1 the unit, 2 + i the i-th loop
} Value;

typedef struct Store {
    uint32_t arg, value;
    Ix at;
} Store;

typedef enum ReduceKind { ReduceSum, ReduceMax, ReduceArgMax } ReduceKind;
typedef struct Reduce {
    ReduceKind kind;
    uint32_t arg, value;
    Ix at;                     // of kept variables
    Ix index;                  // ReduceArgMax: the number kept
    Dtype dtype;               // it is added up in
    int64_t copies, copy_step; // the result goes to this many elements, so far apart (GroupSum)
} Reduce;

typedef struct Var {
    int64_t n;
    bool reduced;
    int64_t tile;
} Var; // tile: 0 none, else run piecewise, a piece a unit

typedef struct Nest {
    Arena *arena;
    const Plan *plan;
    const Region *region;
    Indices ix;
    uint32_t vars;
    Var var[MAX_VARS];
    uint32_t order[MAX_VARS], orders;
    uint32_t prefix; // of order[]
    uint32_t tiled;  // a variable or NONE
    VEC(Value) value;
    VEC(Bounds) bounds; // [0] is none
    VEC(uint32_t) bounds_level;
    VEC(Store) store;
    VEC(Reduce) reduce;
    int64_t units, grain;
    bool flat;      // one loop, a unit is one of its iterations
    size_t scratch; // bytes
} Nest;

void nest_lower(Arena *a, const Plan *p, const Region *r, Nest *out); // lower.c
void nest_shape(Nest *n);                                             // nest.c
bool nest_partial(const Nest *n);                                     // units hold partial results
int64_t nest_tiles(const Nest *n);        // tiles of the tiled variable, else 1
int64_t nest_accumulators(const Nest *n); // per reduction and unit

#endif
