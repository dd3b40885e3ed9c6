// emit.h - inside the emitter: emit_value.c writes what is computed, emit.c the loops around it.
#ifndef GAN_EMIT_H
#define GAN_EMIT_H

#include "dialect.h"
#include "nest.h"

typedef struct Emit {
    Text *t;
    const Nest *n;
    const Dialect *d;
    Str name;
    int depth;
    bool lanes;        // the innermost loop adds into lanes
    Numbers *numbers;  // borrowed
    VEC(uint8_t) role; // of each number
    Dtype real;        // the widest type computed in: what real arguments are
} Emit;

// What a number is for. Numbers for different things are different arguments even where they happen
// to be equal, or equal structures would get different texts.
typedef enum Role {
    RoleIndex,
    RoleTile,
    RoleTiles,
    RoleUnits,
    RoleSums,
    RoleScratch,
    RoleSite,
    RoleReal,
    RoleExtent
} Role; // and one more for each loop after the first

void emit_line(Emit *e); // begins a line
void emit_open(Emit *e); // " {", and one level deeper
void emit_close(Emit *e);

// A number as text: written out when small, else an argument.
Str emit_num(Emit *e, uint32_t role, int64_t x);
uint32_t emit_position(const Nest *n, uint32_t var); // of a variable among the loops: what names it
void emit_ix(Emit *e, Ix x);
Dtype emit_dtype(const Nest *n, uint32_t arg); // of an argument's elements
void emit_ref(Emit *e, uint32_t value);        // a value by name
void emit_level(Emit *e, uint32_t level); // bounds and values that are known from this level on

#endif
