// builtin.h - the language's own functions: their table, and what their files share. Private to
// this folder.
#ifndef GAN_BUILTIN_H
#define GAN_BUILTIN_H

#include "elab.h"

typedef Value (*BuiltinFn)(Elab *e, const Value *in, uint32_t n);
typedef struct Builtin {
    Str name, params, doc; // "mean", "x axes?", what it is: lang/builtins.def, lang/ops.def
    BuiltinFn fn;          // NULL: elementwise, `op`
    Op op;
} Builtin;
uint32_t builtin_count(void);
const Builtin *builtin_get(uint32_t i);
bool builtin_find(Elab *e, Str name, uint32_t *out);
Value builtin_call(Elab *e, uint32_t i, Args args);
bool predefined_find(Elab *e, Str name, Value *out);
const char *predefined_word(uint32_t i);                     // NULL past the last
Value apply_op(Elab *e, Op op, const Value *in, uint32_t n); // elementwise, on numbers or tensors
bool want_bounds(Elab *e, const Value *in, const char *who, int64_t *from, int64_t *to); // of range
bool want_axes(Elab *e, Value v, const Type *t, uint32_t *mask); // absent: all
bool op_fits(Elab *e, Op op, const Val *in, uint32_t n, const Attr *attr, const Type *want);

List parts_list(Value v);           // `f(a, b)` and `f([a, b])` are the same
Val with_axis(Val x, uint32_t at);  // an axis of extent 1 in front of axis `at`
bool room_for_axis(Elab *e, Val x); // for one more; reported
// An anchor's value, in a graph that had `nodes` nodes before it. One that was there already is
// work the published step does twice: it is counted (bench's gflop_model).
Value anchored(Elab *e, uint32_t nodes, Val v);

#define BUILTIN(name, params, doc) Value builtin_##name(Elab *e, const Value *in, uint32_t n);
#include "builtins.def"
#undef BUILTIN

#endif
