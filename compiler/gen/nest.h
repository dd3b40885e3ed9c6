// nest.h - inside generation: a region as loops, before any text.
//
// A Nest is what lower.c makes of a region: loop variables, values as functions of them, stores and
// reductions. nest.c then decides the shape of the loops; emit.c writes it in a dialect. Nothing
// here depends on C.
//
//   units    the variables order[0..prefix) and, where one is tiled, its tile are decoded from one
//            number, the unit. Units are the parallel work; `grain` of them are worth a call
//   loops    the other variables, outermost first
//   sums     a reduction has one accumulator per kept variable among the loops, initialized and
//            stored per unit. Where the tiled variable is a reduced one, units hold partial
//            results, which are finished after all of them, in order
//
// That is the shape for a core (nest.c). The shape for a graphics processor (team.c) has the same
// variables, mapped to threads: every kept variable is decoded from the unit's number and every
// reduced one from the number of an iteration (step) that a team of threads shares (struct Team).
// In either, a value's level says where it is computed.
#ifndef GAN_NEST_H
#define GAN_NEST_H

#include "dialect.h"
#include "index.h"

// Accumulators of a unit: of indexed rows twice as many, since every tile of them walks all terms
// again: 32 KB in f64, a near cache. Of rows with their columns, which are added to in order, four
// times as many.
enum { MAX_VARS = 24, MAX_FACTORS = 8, LANES = 32, MAX_ACC = 2048 };
enum { MAX_INDEXED_ACC = 2 * MAX_ACC, MAX_COLUMNS_ACC = 4 * MAX_ACC };
// Shared memory of a warp for its accumulators of indexed rows: the eight warps of a block leave a
// processor with 228 KB room for six of them.
enum { TILE_BYTES = 4096 };

typedef enum ValueKind {
    ValueNumber, // number
    ValueIndex,  // at, plus sample0 samples of the batch
    ValueLoad,   // element at (+ row * in[0]) of argument arg, 0 where a bound fails
    ValueEw,     // op's value column over a b c, in[] in this order
    ValueDraw,   // attributes dist, site, classes; at sample, element
    ValueSelect, // in[0] where the bounds hold, else in[1]
    ValueRow,    // in[0], a label, clamped to a valid row number below `rows`
    ValueResult, // of reduction number arg, when its loop is over
} ValueKind;

typedef struct Value {
    ValueKind kind;
    Dtype dtype;
    Op op;          // ValueEw
    uint32_t in[3]; // operands: values, NONE
    double number;
    uint32_t arg;        // ValueLoad, ValueResult
    Ix at;               // ValueLoad, ValueIndex; ValueDraw: the element
    int64_t sample0;     // ValueIndex: what one sample of an earlier rank adds
    Ix sample;           // ValueDraw
    bool batched;        // ValueDraw
    int64_t dist, site;  // ValueDraw
    int64_t rows, row;   // ValueRow: how many; ValueLoad of one: elements from row to row
    uint32_t bounds;     // Nest.bounds[], 0 none
    bool preserves_zero; // +0 where everything it loads is +0
    uint32_t level;      // 0 the function, 1 the unit, 2 + i the i-th loop; teams: enum TeamLevel
    uint32_t pack; // teams, ValueLoad: the level at which a whole pack of it is loaded, 0 none
    bool once;     // teams: differs by lane and not by step; a pack of it is computed for the unit
} Value;

typedef struct Store {
    uint32_t arg, value;
    Ix at;
    bool pack; // teams: stored as whole packs
} Store;
typedef VEC(Store) StoreVec;

typedef enum ReduceKind { ReduceSum, ReduceSquares, ReduceMax, ReduceArgMax } ReduceKind;
typedef struct Reduce {
    ReduceKind kind;
    uint32_t arg, value;       // arg: NONE where it is not stored
    Ix at;                     // of kept variables
    Ix index;                  // ReduceArgMax: the number kept
    uint32_t max_arg;          // ReduceArgMax: the argument that the maximum itself goes to, NONE
    bool in_order;             // ReduceArgMax: a thread visits indices in ascending order
    uint32_t sum;              // ReduceSquares, cores: the reduction that sums the same value
    int64_t terms;             // ReduceSquares: how many there are
    Dtype dtype;               // of the accumulator
    int64_t copies, copy_step; // the result goes to this many elements, so far apart (GroupSum)
    bool pack;                 // teams: a pack of results is stored whole
} Reduce;

typedef struct Var {
    int64_t n;
    bool reduced;   // or, on a team without reductions, iterated over in steps
    int64_t tile;   // 0 none, else its extent in a unit
    uint32_t level; // at which its value is known
} Var;

enum { OpenSlots = 256 }; // of a block whose teams lie across and are open, at most: gan_open_team

// How a thread block executes a nest. A unit is a pack (vector) of elements of the kept variables,
// or one element where a reduced variable is innermost. A team of `size` threads accumulates the
// reduced elements of one unit in steps, pack by pack. Thread t of a block is part t % size of unit
// t / size, or where teams lie `across`, part t / units of unit t % units, whichever coalesces the
// loads. Units that load the same in every step are a pack too, a tile, whose loads are shared: the
// last one begins early enough to be full. In a split reduction `pieces` blocks take a share of a
// unit each, and the last to finish reduces their partial results. Without reductions a unit is an
// element or a pack; or a column of them, iterated over in steps too, where most of the work is
// invariant along the column.
//
// A scatter with indexed rows is tiled: a unit is a tile of the table's rows for one element of the
// other kept variables. Its team walks all terms and adds those whose row is in the tile (a hit)
// to accumulators in shared memory.
typedef enum TeamLevel { LevelUnit = 1, LevelStep, LevelPack, LevelHit, LevelResult } TeamLevel;
typedef struct Team {
    uint32_t pack; // elements of variable `lane` that a thread does at once; 1: one at a time
    uint32_t lane; // the variable that runs innermost in memory, NONE
    uint32_t fast; // packs of it that run fastest, before the other variables: of a transpose
    bool across;
    bool between;          // the lane is reduced, but threads lie as if teams were across
    bool tile;             // the pack's units share what a step loads; the last one may be shifted
    uint32_t units, size;  // units of a block, threads of a unit: units*size are a block
    int64_t steps;         // of a whole unit, over all its threads and pieces
    int64_t pieces, share; // blocks of a unit, steps of each
    uint32_t unroll;       // steps whose loads a thread has in flight
    bool ahead;            // the text has the loads of all of them ahead of the rest
    uint32_t blocks;       // of the grid
    uint32_t tickets;      // of units that share blocks, where they are cut in pieces
    bool wide;             // some index needs 64 bits
    bool open;             // the text leaves units and size open, and whether steps fill the
                           // unrolled loop: shapes of one block have one kernel
    bool open_pieces;      // and whether there are several pieces
} Team;

struct Nest {
    Arena *arena;
    const Plan *plan;
    const Region *region;
    VEC(uint32_t) arg; // Region.arg
    Indices ix;
    uint32_t vars;
    Var var[MAX_VARS];
    uint32_t order[MAX_VARS], orders;
    uint32_t prefix;    // of order[]
    uint32_t tiled;     // a variable or NONE
    uint32_t rows, row; // Scatter: the variable of the table's rows, the value of the one to add to
    bool indexed;       // that variable is neither a loop nor part of a unit: it is that value
    uint32_t columns;   // cores, indexed rows: the variable along a row, the last loop, or NONE
    VEC(Value) value;
    VEC(Bounds) bounds; // [0] is none
    VEC(uint32_t) bounds_level;
    StoreVec store;
    VEC(Reduce) reduce;
    StoreVec derived; // teams: of functions of the reductions' results
    int64_t units, grain;
    bool flat;      // one loop, a unit is one of its iterations
    size_t scratch; // bytes
    Team team;
};

static inline bool nest_is_input(const Nest *n, uint32_t arg) {
    return n->arg.at[arg] < n->region->in.n;
}
static inline const Type *nest_type(const Nest *n, uint32_t arg) {
    const Region *r = n->region;
    uint32_t at = n->arg.at[arg], ins = r->in.n;
    return node_type(&n->plan->func->g, at < ins ? r->in.at[at] : r->out.at[at - ins]);
}
static inline Dtype nest_dtype(const Nest *n, uint32_t arg) { // of its elements
    return (Dtype)nest_type(n, arg)->dtype;
}
// Teams: do neighbouring threads belong to neighbouring units?
static inline bool nest_lies_across(const Nest *n) {
    return n->team.across || n->team.between;
}
// Teams: may the last tile begin before its own units?
static inline bool nest_shifts(const Nest *n) {
    return n->team.tile && n->var[n->team.lane].n % n->team.pack;
}
static inline void level_deepen(uint32_t *level, uint32_t to) {
    *level = *level > to ? *level : to;
}

// --- lower.c -------------------------------------------------------------------------------------

void nest_lower(Arena *a, const Plan *p, const Region *r, Nest *out);

// --- tidy.c --------------------------------------------------------------------------------------

// Drops what nothing reads of a nest, and puts the rest, and the arguments, in an order that
// depends on the structure alone.
void nest_tidy(Nest *n);

// --- nest.c --------------------------------------------------------------------------------------

void nest_shape(Nest *n);                  // for cores: rows or tiles of loops as units
bool nest_partial(const Nest *n);          // units hold partial results
int64_t nest_tiles(const Nest *n);         // tiles of the tiled variable, else 1
int64_t nest_accumulators(const Nest *n);  // per reduction and unit
int nest_most_accumulators(const Nest *n); // of any extents: the size of the array for them
// What units that hold partial results leave of a reduction in the scratch memory.
size_t nest_unit_bytes(const Nest *n, const Reduce *r);
void nest_find_orders(Nest *n); // of the indices that an ArgMax visits
// Parts of a shape. nest_order_loops joins adjacent variables where every index allows it, and puts
// those of a pure reduction in the order of its input's memory. nest_levels gives bounds and values
// their levels, once variables have theirs.
void nest_order_loops(Nest *n);
void nest_levels(Nest *n);
// Is an index, or what it is a quotient of, ever beyond `most`? Of a value that is in no memory it
// may be, however little of that is taken.
bool nest_reaches(Nest *n, int64_t most);
// Scatter: indexes the table's rows instead of comparing each of them with each term's. Their
// variable becomes the last one, with an accumulator for each row of a tile. Of a nest that loops
// over terms: one term for each element is compared with all rows.
void nest_index_rows(Nest *n);
bool nest_has_terms(const Nest *n);
uint32_t nest_operands(const Value *v); // places of in[] that its kind has; some may be NONE
// Are these bounds invariant in the innermost loop? Do most elements lie inside them?
bool nest_is_invariant(const Nest *n, uint32_t bounds);
bool nest_is_likely(const Nest *n, uint32_t bounds);

// --- versions.c ----------------------------------------------------------------------------------

enum { MAX_VERSIONS = 4 };
// The states of the `tested` bounds, invariant ones, in which an innermost loop is worth a version
// without tests, the most frequent first: in each, which of them hold [bounds.n]. Returns how many.
uint32_t nest_versions(const Nest *n, Arena *a, const bool *tested, const bool *out[MAX_VERSIONS]);

// A loop over a variable that decides many bounds, as of a concatenation of many parts, is written
// cell by cell, without tests and with only what a cell computes.
enum { FEW_CELLS = MAX_VERSIONS }; // are not worth it: there are versions
typedef struct Cell {
    int64_t from, to;  // of the variable
    const bool *holds; // [bounds.n] of Cells.known
} Cell;
typedef struct Cells {
    uint32_t var;
    const bool *known; // [bounds.n] of the `tested`: it alone decides them
    uint32_t n;
    Cell *cell;
} Cells;
bool nest_cells(const Nest *n, Arena *a, const bool *tested, Cells *out); // false: no such loop

// --- team.c --------------------------------------------------------------------------------------

void nest_shape_team(Nest *n); // for blocks of threads
// Opens the shape of a reduction (Team.open), if it can be. Results stay the same, bit by bit.
bool nest_open_team(Nest *n);
// Does the bound hold for all elements of a pack or for none?
bool nest_is_even(const Nest *n, const Bound *b);
// Accumulators of a reduction that a block has in shared memory while warps are joined.
uint32_t nest_slots(const Nest *n);
int64_t nest_tile_room(const Nest *n); // the most rows of a tile
// Bytes that a piece leaves of a unit of a reduction; that the pieces of all units leave.
size_t nest_part_bytes(const Nest *n, const Reduce *r);
size_t nest_partial_bytes(const Nest *n, const Reduce *r);

#endif
