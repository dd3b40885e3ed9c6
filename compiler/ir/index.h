// index.h - index expressions: the position of an element as a function of loop variables. Shared
// by fusion (does a consumer visit a value in the order its producer does?) and by kernel
// generation (addresses, bounds checks).
//
// An index is a sum  off + sum coef * atom,  interned in an Indices table: equal indices have equal
// ids. An atom is a loop variable, the floor quotient or remainder of an index that does not
// simplify, a choice between two indices, or an index that bounds keep in a range wherever its
// value counts. Ranges are known, so most quotients simplify: (4*i + j) / 4 is i when j is in 0..3.
// All values are exact integers.
#ifndef GAN_INDEX_H
#define GAN_INDEX_H

#include "module.h"

typedef uint32_t Ix; // in Indices.sum[]; 0 is the number 0

typedef struct Term {
    int64_t coef;
    uint32_t atom;
} Term;
typedef struct IxSum {
    int64_t off;
    uint32_t n;
    Term *term; // by rising atom; coefficients are not 0
} IxSum;

typedef enum AtomKind { AtomVar, AtomDiv, AtomMod, AtomChoice, AtomWithin } AtomKind;
typedef struct Atom {
    AtomKind kind;
    uint32_t var;   // AtomVar: the caller's number
    Ix of;          // AtomDiv, AtomMod: the argument, never negative; AtomChoice: looked at
    int64_t by;     // AtomDiv, AtomMod; AtomChoice: `yes` where `of` is less; AtomWithin: 0 .. by-1
    Ix yes, no;     // AtomChoice
    int64_t lo, hi; // inclusive range of its values
} Atom;

typedef struct Indices {
    Arena *arena;
    VEC(IxSum) sum;
    VEC(Atom) atom;
    Map sums, atoms; // interning
} Indices;

void indices_init(Indices *t, Arena *a);
Ix ix_num(Indices *t, int64_t x);
Ix ix_var(Indices *t, uint32_t var, int64_t extent); // 0 .. extent-1; the number 0 when extent is 1
Ix ix_add(Indices *t, Ix a, Ix b);
Ix ix_mul(Indices *t, Ix a, int64_t by);
Ix ix_div(Indices *t, Ix a, int64_t by); // floor; by > 0
Ix ix_mod(Indices *t, Ix a, int64_t by); // 0 .. by-1
Ix ix_choice(Indices *t, Ix at, int64_t less_than, Ix yes, Ix no);
// The index, taken to be in 0 .. extent-1. It is another one than `a`, and lets quotients simplify;
// ix_plain gives the same index without AtomWithin, as addresses and kernels have it.
Ix ix_within(Indices *t, Ix a, int64_t extent);
Ix ix_plain(Indices *t, Ix a);
void ix_range(const Indices *t, Ix a, int64_t *lo, int64_t *hi);
// Of a variable standing on its own; 0 when absent.
int64_t ix_coef(const Indices *t, Ix a, uint32_t var);
uint64_t ix_hash(const Indices *t, Ix a); // of what it says, in whatever table
// Does it depend on `var`, also inside quotients?
bool ix_uses(const Indices *t, Ix a, uint32_t var);

// Finds a quotient or remainder that strip-mining a variable, var = hi * *factor + lo, would
// resolve. False: none.
bool ix_split_wanted(const Indices *t, uint32_t *var, int64_t *factor);

// --- access.c: coordinates of graph values -------------------------------------------------------

// Coordinates of an element: c[0] the sample, c[1 + i] along axis i.
typedef struct Coords {
    Ix c[1 + MAX_RANK];
} Coords;

// The element exists only where lo <= at < hi.
typedef struct Bound {
    Ix at;
    int64_t lo, hi;
} Bound;
enum { MAX_BOUNDS = 32 }; // units.c stores values before an access needs more
typedef struct Bounds {
    uint32_t n;
    Bound b[MAX_BOUNDS];
} Bounds;

// Variables 0 (samples) .. rank as coordinates of a value of type t.
void coords_identity(Indices *t, const Graph *g, const Type *type, Coords *out);
// Coordinates of operand k of an elementwise node, by broadcasting from the left.
void coords_broadcast(const Type *operand, const Coords *at, Coords *out);
// Coordinates of operand k that the element `at` of the affine move `id` is taken from (not Gather,
// Scatter). What Pad and Concat leave out is added to `bounds`, where it is not certain. False:
// never taken from operand k.
bool coords_move(Indices *t, const Graph *g, uint32_t id, uint32_t k, const Coords *at, Coords *out,
                 Bounds *bounds);
// Of element `at` of rows [k..., r...] that Gather takes or Scatter adds: its place among [k...]
// and its coordinates in a table [n, r...], the row left at 0.
void coords_rows(const Type *table, const Type *places, const Coords *at, Coords *place,
                 Coords *row);
// Element number in the physical layout of `type`.
Ix coords_address(Indices *t, const Type *type, const Coords *at);
// The element at position `flat` of the physical layout; inverse of coords_address.
void coords_at(Indices *t, const Graph *g, const Type *type, Ix flat, Coords *out);
// Row-major number over the axes of a mask (bit 0 the batch), as Iota and ArgMax count.
Ix coords_number(Indices *t, const Type *type, uint32_t axes, const Coords *at);

#endif
