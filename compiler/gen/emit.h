// emit.h - inside the emitter: emit_value.c and emit_index.c write the computation of values,
// emit.c stores and reductions, emit_loops.c and emit_team.c the kernel around them, for either
// shape of a nest, and emit_join.c how teams of threads reduce.
#ifndef GAN_EMIT_H
#define GAN_EMIT_H

#include "dialect.h"
#include "nest.h"

typedef struct IndexNames IndexNames;

// Marks a declaration that is left out where nothing names it.
#define IF_NAMED "\1"

// Teams: what is written of a step. Of steps that go several at a time, the loads come first.
typedef enum StepPart { StepWhole, StepLoads, StepRest } StepPart;

typedef struct NumberUse {
    uint8_t role; // Role
    bool written; // in the function at hand
} NumberUse;

struct Emit {
    Text *t;
    const Nest *n;
    const Dialect *d;
    Str name;
    KernelForm form;
    int depth;
    bool lanes;           // the innermost loop adds into lanes
    bool in_pack;         // inside the loop over a pack: the team's lane is l elements further on
    StepPart part;        // of the step at hand; but in StepWhole, its packs are those of step k
    const bool *known;    // [n->bounds.n] inside a version or cell of a loop (versions.c): bounds
                          // without tests; else NULL
    const bool *holds;    // [n->bounds.n] which of these hold
    Cells cells;          // cores
    const bool *named;    // [n->value.n] the values that are written by name (emit_named)
    const bool *guards;   // [n->bounds.n] the bounds that a load or selection tests (emit_guards)
    const bool *inverses; // [n->value.n] the divisors that have an inverse (emit_inverses)
    IndexNames *index_names; // of parts of indices; NULL: none has a name
    Numbers *numbers;        // borrowed
    VEC(NumberUse) use;      // of each number
    Dtype real;              // the widest type of a computation, and the type of real arguments
    const char *index;       // the type of an index
    bool narrow;             // an ArgMax's index is as wide as its value: both become vectors
    bool counters;           // has the text read a counter (seed, step, sample0, ...)?
    // Writes an accumulator of a reduction: 's' the unit's, 'x' its index (ArgMax), 'l' and 'y' a
    // lane's.
    void (*acc)(Emit *e, char name, uint32_t reduce);
};

// What a number is for. Numbers for different things are different arguments even where they happen
// to be equal, or equal structures would get different texts.
typedef enum Role {
    RoleStride,
    RoleBound,
    RoleTile,
    RoleSums,
    RoleTerms,
    RoleSteps,
    RoleShare,
    RoleScratch,
    RoleSite, // this and the following are always arguments: regions that differ in nothing else
    RoleReal, // share a kernel
    RoleTiles,
    RoleTeam,
    RoleUnits,
    RolePieces,
    RoleExtent,                          // and one more for each loop after the first
    RoleInverse = RoleExtent + MAX_VARS, // of that loop's extent, likewise
    RoleInversePieces = RoleInverse + MAX_VARS,
} Role;

// --- emit_index.c --------------------------------------------------------------------------------

// A number as text: written out when small, else an argument.
Str emit_num(Emit *e, uint32_t role, int64_t x);
void emit_end_number(Emit *e, uint32_t number);      // ends its declaration, and says what it is
uint32_t emit_position(const Nest *n, uint32_t var); // of a variable among the loops: what names it
void emit_ix(Emit *e, Ix x);
// One side of a bound, lower or upper: does it need a test? The test.
bool emit_tests(const Emit *e, const Bound *b, bool upper);
void emit_test(Emit *e, const Bound *b, bool upper);
// Chooses names for parts of indices; declares those that are known from this level on.
void emit_name_indices(Emit *e);
void emit_index_names(Emit *e, uint32_t level);
void emit_pack_open(Emit *e, bool open); // the loop over a pack is entered, left

// --- emit_value.c --------------------------------------------------------------------------------

Text *emit_line(Emit *e); // begins a line; returns what it is written to
void emit_open(Emit *e);  // " {", and one level deeper
void emit_close(Emit *e);

// Opens a call of `function`; returns what closes it. "": no call, its argument as it is.
const char *emit_call(Emit *e, const char *function);
void emit_real(Emit *e, uint32_t number, Str word);
void emit_ref(Emit *e, uint32_t value); // a value by name
// Which values have a name: copies do not, nor comparisons that are only tested.
bool *emit_named(const Emit *e);
bool *emit_guards(const Emit *e);
bool *emit_inverses(const Emit *e); // those of a unit that steps divide by
uint32_t emit_stored(const Emit *e, const Store *s);
// Teams: the load whose pack a store writes as it is, NONE.
uint32_t emit_copied_pack(const Emit *e, const Store *s);
void emit_level(Emit *e, uint32_t level);     // bounds and values that are known from this level on
void emit_pack_name(Emit *e, uint32_t value); // of a load
// Before what is declared in a part of a step: it may be for the other part (put_part).
const char *emit_if_named(const Emit *e);
void emit_once(Emit *e, bool declare); // values of each lane: packs of them, or their elements

// --- emit.c --------------------------------------------------------------------------------------

// What is done with one element: stores, and reductions into accumulators named `acc`.
void emit_body(Emit *e, char acc);
void emit_result(Emit *e, uint32_t reduce);  // stores its accumulator
void emit_squares(Emit *e, uint32_t reduce); // its result, of squares
void emit_store(Emit *e, const StoreVec *stores, uint32_t i);
const char *emit_acc_type(const Reduce *r);
const char *emit_at_type(const Emit *e, const Reduce *r); // of an ArgMax's index
const char *emit_identity(const Reduce *r);
bool emit_adds(const Reduce *r); // are its partial results added, on a core?

#endif
