// emit_team.h - between emit_team.c, kernels for blocks of threads, and emit_join.c, the
// accumulators of teams.
#ifndef GAN_EMIT_TEAM_H
#define GAN_EMIT_TEAM_H

#include "emit.h"

static inline const Team *team(const Emit *e) {
    return &e->n->team;
}

static inline bool team_many(const Emit *e) { // may a launch have several regions of the kernel?
    return e->form != FormAlone;
}

static inline bool team_is_cut(const Emit *e) {
    return team(e)->pieces > 1 || team(e)->open_pieces;
}

// Units of a block and `times` the threads of a unit, as text.
static inline Str team_units(const Emit *e) {
    return team(e)->open ? STR("units") : str_format(e->t->arena, "%u", team(e)->units);
}

static inline Str team_size(const Emit *e, uint32_t times) {
    if (!team(e)->open)
        return str_format(e->t->arena, "%u", team(e)->size * times);
    return times > 1 ? str_format(e->t->arena, "%u * size", times) : STR("size");
}

// Is this a split reduction, with partial results to reduce?
static inline bool team_leaves_parts(const Emit *e) {
    return team_is_cut(e) && e->n->reduce.n;
}

// Accumulators hold a pack of units, or one.
static inline bool team_packs_units(const Emit *e) {
    return team(e)->across && team(e)->pack > 1;
}

// --- emit_team.c ---------------------------------------------------------------------------------

// A loop over the elements of a pack, written out by the compiler.
void emit_elements_open(Emit *e);
void emit_elements_close(Emit *e);
// Of stores of whole packs: their variables y0, y1, ..., and the stores of these.
void emit_packs_declared(Emit *e, const StoreVec *stores);
void emit_packs_stored(Emit *e, const StoreVec *stores);

// --- emit_join.c ---------------------------------------------------------------------------------

void emit_team_acc(Emit *e, char name, uint32_t r); // Emit.acc
Str emit_part_type(Emit *e, const Reduce *r);       // of a piece's partial result
void emit_accumulators(Emit *e);                    // declares them, with their identities
void emit_join(Emit *e);   // the team reduces its threads' accumulators; part 0 stores the results
void emit_pieces(Emit *e); // the same of a split reduction

#endif
