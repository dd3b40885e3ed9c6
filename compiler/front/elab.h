// elab.h - what the files of the elaborator share. Private to elaborate.c and the files it lists; the rest of the
// compiler sees front.h.
//
// The elaborator walks the tree. Everything but tensors is a compile-time Value; a tensor is a node of the graph of the
// function being built. Environments are persistent lists (a binding never changes), so a snapshot of the elaboration
// is a handful of words and a copy of the slots' current values. Run-time `if` and `every` with a value use this: the
// statement that met one is evaluated again for each other outcome, with everything it already emitted muted and every
// draw, pin and read version found again at its place in the order (branch.c).
#ifndef GAN_ELAB_H
#define GAN_ELAB_H

#include "front.h"

// --- values --------------------------------------------------------------------------------------------------------------

typedef enum ValueKind {
    KindPoison,       // of a mistake already reported: silently passed on
    KindAbsent,       // an optional argument that was not given
    KindNone, KindNum, KindBool, KindStr, KindList,
    KindAxes,         // a set of axes, resolved against a tensor where it is used
    KindFn,           // a function with its environment
    KindObject,       // a function of two lists after its first
    KindBuiltin,
    KindNet,
    KindTensor,
    KindSlot,         // a place: `param`, `state`, an element of params(net)
    KindField,        // a data field
    KindScalar,       // step, epoch, kimg
} ValueKind;

enum {                // Value.axes: the names, and from AxFirst on one bit for each axis(i)
    AxBatch = 1, AxChannel = 2, AxSpace = 4, AxSample = 8, AxAll = 16, AxFirst = 32
};

typedef struct Value Value;
typedef struct List { const Value *at; uint32_t n; } List;
typedef struct Closure Closure;
typedef struct Object Object;

struct Value {
    ValueKind kind;
    bool eval;                    // Net: inside eval(net)
    uint32_t copy_of;             // of copy(net): the net + 1
    uint32_t id;                  // Builtin, Net, Slot, Scalar: index; Field: index in Elab.field
    uint32_t slot;                // Tensor: the slot it was read from, for name(w); NONE
    union {
        double num;               // Num; Bool: 0 or 1
        Str str;
        List list;
        uint32_t axes;
        const Closure *fn;
        Object *object;
        struct {
            Val val;
            int64_t classes;      // a label's number of classes; 0
        } tensor;
    };
};

typedef struct Binding Binding;
struct Binding {                  // one name; newest first
    enum { BindName, BindFn, BindControl } kind;   // BindFn, BindControl: where a function, a run-time block begins
    Str name;
    Value value;
    const Binding *outer;
};

typedef struct Global { Str name; Value value; Span span; bool fixed; } Global;   // fixed: not to be bound again
typedef struct Globals Globals;
struct Globals {                  // top-level names of the model, or of the library behind it
    VEC(Global) at;
    Map find;                     // hash of the name to index + 1
    const Globals *outer;
};

typedef struct Names { const Str *at; uint32_t n; } Names;

typedef struct Env {
    const Binding *local;
    Globals *globals;
    Names pinned;                 // names that a `grad` of this body differentiates to
} Env;

struct Closure {
    const Ast *ast;               // Fn or Net
    Env env;                      // where it was written
};

typedef struct Counter Counter;
struct Counter { Str label; uint32_t n; const Counter *older; };

// Who owns the weights and state made during a call: a net, or an object being applied. Names are its path.
typedef struct Owner Owner;
struct Owner {
    Owner *outer;                 // NULL: the model itself
    Object *object;               // NULL: a net, or the model
    Str path;                     // "G.conv.3"; made when first asked for
    bool has_path;
    uint32_t net;                 // NONE outside nets
    const Counter *counts;        // children numbered so far
};

struct Object {
    const Closure *fn;
    const Binding *args;          // the environment after the first list
    Owner *maker;                 // the application it was made in
    Str label;                    // its word in names: the function's, or the name it was bound to
    bool named;                   // bound to a name
    Str component;                // "conv.3", "head"; made when first asked for
};

typedef struct Arg { Str name; Value value; Span span; } Arg;
typedef struct Args { Arg *at; uint32_t n; Span span; } Args;   // span: the call

typedef struct NetInfo {          // beside Module.net[]
    Value fn;                     // Fn, Object or Builtin it applies
    uint32_t copy_of;             // NONE
    bool changes;                 // some update or := reaches it
    Str optimizer;                // name of the one that updated it, for the warning about two
} NetInfo;

typedef struct FieldInfo { uint32_t stream, field; bool pinned; } FieldInfo;

// --- the function being built --------------------------------------------------------------------------------------------

typedef struct Cell { uint32_t node; bool dirty; } Cell;      // a slot's current value; 0: not read yet
typedef VEC(uint32_t) Nodes;
typedef struct OnceEntry OnceEntry;

typedef struct Cursors {          // next of each numbered thing; a replay runs over what is there
    uint32_t site, pin, version, block;
} Cursors;

typedef struct Snapshot {
    Cell *cell;                   // [cells]
    uint32_t cells;
    uint32_t *next;               // [nexts] `next`s so far of each stream
    uint32_t nexts;
    const OnceEntry *once;
    const Counter *counts;        // of the model itself
    uint32_t block;
    Cursors cursor;
} Snapshot;

typedef struct Decision { bool first; Cursors resume; } Decision;
typedef struct Branching {        // run-time outcomes of the statement being evaluated
    VEC(Decision) path;
    uint32_t at;                  // decisions met so far in this evaluation
    bool muted_outside;
} Branching;

enum { MAX_BLOCKS = 4096, MAX_CALLS = 200, MAX_WORK = 20000000 };

typedef struct Building {         // one function
    Func *fn;                     // NULL: top-level expressions (schedules), in Elab.loose
    Graph *g;
    uint32_t index;               // Site.func: 0 init, 1 step, 2... entry points
    VEC(Cell) cell;               // [slot]
    VEC(Nodes) version;           // [slot] nodes its value has had here
    Nodes assigned;               // slots, in order of assignment
    VEC(uint32_t) next;           // [stream]
    const OnceEntry *once;
    Nodes site, pin;              // Module.site[] and Pin nodes, in program order
    Cursors cursor;
    uint8_t *open;                // [MAX_BLOCKS] the graph's block_open
    Branching *branching;         // of the innermost control scope; NULL: no run-time control here
    uint32_t repeats;             // depth
    bool muted;                   // replaying: nothing is emitted
    Nodes imported;               // [node of Elab.loose] its copy here
} Building;

typedef struct SharedCount {      // an optimizer's count, one for all weights of a net
    uint32_t slot;
    Cell before;                  // at the start of the update
    uint64_t weights;             // hash of those that met it
} SharedCount;

typedef struct Tuning {           // an optimizer applied to the weights of one update, in lock-step
    uint32_t weight;              // slot now at hand
    Nodes total;                  // sums over all weights known so far
    uint32_t totals;              // those met by this weight
    Nodes part;                   // the next sum's terms
    bool waits;                   // a sum was not known yet
    VEC(SharedCount) shared;
} Tuning;

typedef struct Elab {
    Front *f;
    Arena *perm;
    const ElabOptions *o;
    Module *m;
    Globals library, top;         // top: of the model, in front of the library
    Graph loose;                  // top-level tensors: expressions of step, epoch, kimg
    Graph fold;                   // constants of elementwise functions
    Building init;                // first values of slots
    Building *to;                 // where tensors go now
    Owner root, *owner;           // owner: of the call being evaluated
    Owner *net;                   // owner of the innermost net call, NULL
    bool training;
    bool in_once;
    uint32_t calls;               // depth
    uint64_t work;                // tree nodes evaluated
    bool stop;                    // a limit was met: everything is poison from here
    Span at, user;                // the operation being evaluated; the same, innermost in a user's file
    Map slots;                    // hash of the name to slot + 1
    Map names;                    // tree node to index + 1 in pinned_names (grads.c)
    VEC(Names) pinned_names;
    VEC(NetInfo) net_info;
    VEC(FieldInfo) field;
    uint32_t scalar[3];           // slots of step, epoch, kimg; NONE
    Tuning *tuning;               // the update being applied; NULL
    VEC(SharedCount) counted;     // every count met
    bool split_counts;            // scalar optimizer state is kept per weight (update.c)
    bool retry;                   // ... which was found out too late: elaborate again
} Elab;

// --- value.c -------------------------------------------------------------------------------------------------------------

#define POISON ((Value){.kind = KindPoison})
Value value_num(double x);
Value value_bool(bool x);
Value value_str(Str s);
Value value_list(const Value *at, uint32_t n);
Value value_tensor(Val v);
bool value_is_tensor(Value v);                      // Tensor, Slot, Field or Scalar
bool value_is_plain(Value v);                      // Num or Bool
const char *value_what(Value v);                   // "a number", "a layer"
Str value_text(Elab *e, Value v);                  // for messages: "[3, 64, 64]", "`D`"
bool value_equal(Value a, Value b);                // compile-time equality; different kinds are unequal
// Conversions report at e->at what they expected (`who` says which) and return false; poison returns false silently.
bool want_num(Elab *e, Value v, const char *who, double *out);
bool want_int(Elab *e, Value v, const char *who, int64_t *out);
bool want_bool(Elab *e, Value v, const char *who, bool *out);
bool want_extents(Elab *e, Value v, const char *who, Type *out);   // a list of whole numbers above 0 (or one)
bool want_tensor(Elab *e, Value v, Val *out);                      // in the graph of e->to; numbers become constants
Value extents_value(Elab *e, const int64_t *dim, uint32_t n);

// --- scope.c -------------------------------------------------------------------------------------------------------------

const Binding *scope_bind(Elab *e, const Binding *outer, Str name, Value v);
const Binding *scope_mark(Elab *e, const Binding *outer, int kind);
bool scope_find(const Env *env, Str name, Value *out);             // locals, then globals outwards
bool scope_rebinds_outer(const Env *env, Str name);                // bound outside the run-time block around it
Global *globals_put(Elab *e, Globals *g, Str name, Value v, Span span);
const Global *globals_find(const Globals *g, Str name);            // this level only
Str scope_nearest(Elab *e, const Env *env, Str name);              // did-you-mean, or empty

// --- expr.c, stmt.c ------------------------------------------------------------------------------------------------------

Value eval(Elab *e, Env *env, const Ast *a);
Value eval_if(Elab *e, Env *env, const Ast *a, bool drop);         // drop: its value is not used
Value eval_every(Elab *e, Env *env, const Ast *a, bool drop);
Value eval_arith(Elab *e, Str op, Value a, Value b);
Value eval_compare(Elab *e, Str op, Value a, Value b);
Value value_now(Elab *e, Value v);                                 // places, data and counters are read
bool want_list(Elab *e, Value v, const char *who, List *out);
Value eval_block(Elab *e, Env *env, const Ast *block, bool drop);  // value of its last expression; binds into env
void eval_statement(Elab *e, Env *env, const Ast *a);              // its value is dropped
void bind_name(Elab *e, Env *env, Str name, Value v);              // pinned when a grad names it
void bind_names(Elab *e, Env *env, uint32_t n, Ast *const *target, Value v);
bool elab_alive(Elab *e);                                          // false past a limit, after one diagnostic

typedef struct Spot { Span at, user; } Spot;                     // where messages and new nodes point
Spot spot_enter(Elab *e, const Ast *a);                          // returns the outer one, for spot_leave
void spot_leave(Elab *e, Spot outer);

// Diagnostics go to the innermost place of a user's text: diag(e->f, code, here(e), ...). After one, in_library() adds
// the library's line when the mistake showed inside it.
Span here(const Elab *e);
void in_library(Elab *e);

// --- call.c --------------------------------------------------------------------------------------------------------------

Value eval_call(Elab *e, Env *env, const Ast *a);
Value eval_pipe(Elab *e, Env *env, const Ast *a);
Args eval_args(Elab *e, Env *env, const Ast *call, const Value *first);   // `first`: what a pipe puts in front, or NULL
Value call_value(Elab *e, Value f, Args args);
Value call_with(Elab *e, Value f, const Value *at, uint32_t n);    // positional
bool value_takes_two_lists(Value f);
bool bind_params(Elab *e, Env *callee, const Ast *params, Args args, Str who);
bool match_shape(Elab *e, Env *env, const Ast *shape, Val v, Str who, Str name);   // name empty: a result
void note_origin(Elab *e, Val v);                                  // a note: where this value was made

// --- step.c: values of slots, draws, data ----------------------------------------------------------------------------------

void building_init(Elab *e, Building *b, Func *fn, Graph *g, uint32_t index);
Building *building_enter(Elab *e, Building *b);                    // returns the outer one
Cell *slot_cell(Elab *e, uint32_t slot);
Val slot_read(Elab *e, uint32_t slot);                             // its current value; id 0 after a diagnostic
void slot_assign(Elab *e, uint32_t slot, Value v);                 // `:=`
void slot_set(Elab *e, uint32_t slot, Val v);                      // a value of the slot's type; stops gradients
bool slot_fits(Elab *e, uint32_t slot, Val *v);                    // shared, and broadcast to the slot's extents
void slots_commit(Elab *e);                                        // writes what changed
Val elab_pin(Elab *e, Val v);                                      // an identity of its own, unless it has one
void segment_end(Elab *e);                                         // weights changed: `once` runs again
Value once_block(Elab *e, Env *env, const Ast *a);
Value make_draw(Elab *e, Dist dist, double classes, Type type);    // a site; or what is fed in its place
Value read_field(Elab *e, uint32_t field);
Val read_scalar(Elab *e, uint32_t which);
Val import(Elab *e, Val v);                                        // a top-level tensor into the graph of e->to
void next_batch(Elab *e, Env *env, const Ast *a);

// --- branch.c: run-time control --------------------------------------------------------------------------------------------

Snapshot snapshot_take(Elab *e);
void snapshot_restore(Elab *e, const Snapshot *s);
void run_scope(Elab *e, Env env, const Ast *block);                // a control scope's statements, to its end
Value branch_if(Elab *e, Env *env, const Ast *a, Val cond);        // an `if` whose value is used
Value branch_every(Elab *e, Env *env, const Ast *a, int64_t k);
void scope_if(Elab *e, Env *env, const Ast *a, Val cond);          // as statements: nothing but := comes out
void scope_every(Elab *e, Env *env, const Ast *a, int64_t k);
void scope_repeat(Elab *e, Env *env, const Ast *a);

// --- net.c -----------------------------------------------------------------------------------------------------------------

uint32_t net_add(Elab *e, Str name, Value fn, uint32_t copy_of, Span span);
Value net_call(Elab *e, Value net, Args args);
void net_sync(Elab *e, uint32_t net);                              // a copy has every slot its model has
Str owner_path(Elab *e, Owner *o);
uint32_t slot_find(const Elab *e, Str name);                       // NONE
uint32_t slot_add(Elab *e, Slot s);
uint32_t slot_make(Elab *e, Env *env, const Ast *decl, Slot s);    // found by its name, or made; NONE after a diagnostic
uint32_t declare_slot(Elab *e, Env *env, const Ast *decl);         // `param`, `state`

// --- update.c, grads.c -------------------------------------------------------------------------------------------------------

void eval_update(Elab *e, Env *env, const Ast *a);
uint32_t optimizer_slot(Elab *e, Env *env, const Ast *decl, Slot s);
Value eval_total(Elab *e, Value x);
uint8_t *grad_reach(const Graph *g, Arena *a, uint32_t from);      // nodes a gradient of `from` flows to
Names grad_names(Elab *e, const Env *env, const Ast *body);        // names a grad in `body` differentiates to
bool names_has(Names names, Str name);

// --- data.c, config.c --------------------------------------------------------------------------------------------------------

void eval_data(Elab *e, Env *env, const Ast *a);
void eval_config(Elab *e, Env *env, const Ast *a);
void declare(Elab *e, Str name, Span span, Value v);               // a top-level name of the model, once (elaborate.c)
void check_settings(Elab *e, const Ast *file);                     // unknown keys

// --- builtin.c, builtin_tensor.c, reduce.c -----------------------------------------------------------------------------------------

typedef Value (*BuiltinFn)(Elab *e, const Value *in, uint32_t n);
typedef struct Builtin { const char *name, *params; BuiltinFn fn; Op op; } Builtin;
uint32_t builtin_count(void);
const Builtin *builtin_get(uint32_t i);
bool builtin_find(Str name, uint32_t *out);
Value builtin_call(Elab *e, uint32_t i, Args args);
bool predefined_find(Elab *e, Str name, Value *out);
Value apply_op(Elab *e, Op op, const Value *in, uint32_t n);       // an elementwise op on numbers or tensors
bool want_axes(Elab *e, Value v, const Type *t, uint32_t *mask);   // a mask as reductions take it; absent: all
bool op_fits(Elab *e, Op op, const Val *in, uint32_t n, const Attr *attr, const Type *want);   // graph_check, reported

#define BUILTIN(name, params, doc) Value builtin_##name(Elab *e, const Value *in, uint32_t n);
#include "builtins.def"
#undef BUILTIN

#endif
