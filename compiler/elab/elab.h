// elab.h - what the files of the elaborator share. Private to this folder: others see elaborate.h.
//
// The elaborator evaluates the tree. Everything but tensors is a compile-time Value; a tensor is a
// node of the graph of the function being built. Environments are persistent lists (a binding never
// changes), so a snapshot of the elaboration is a few words and a copy of the slots' current
// values. A run-time `if` or `every` whose value is used needs that: its statement is evaluated
// again for each other branch; what was emitted before is not emitted again, and every draw, pin
// and slot version is found by its number (branch.c).
#ifndef GAN_ELAB_H
#define GAN_ELAB_H

#include "value.h"

enum { NET_RANGES = 4 };

typedef struct NetInfo {         // beside Module.net[]
    Value fn;                    // Fn, Object or Builtin it applies
    bool changes;                // some update or := reaches it
    bool made;                   // its weights and state are there
    bool called;                 // in the step or a sample
    bool trains;                 // some of these calls are not under eval(net): it should change. A
                                 // sample's counts where the step has none
    Str optimizer;               // name of the one that updated it, for the warning about two
    Bounds range[NET_RANGES][2]; // of its first parameters: of data, and of what is computed
    Bounds draw[NET_RANGES];     // of them, where the step draws it: infinite where normal
    uint32_t mixed;              // ... bits of those which its calls draw otherwise
    bool two_ranges, drawn;      // reported; the step calls it
} NetInfo;

typedef struct FieldInfo {
    uint32_t stream, field;
    bool pinned;
    Value map, inverse; // of its last transform; KindNone: it has none
} FieldInfo;

// --- the function being built --------------------------------------------------------------------

typedef struct Cell { // a slot's current value
    uint32_t node;    // 0: not read yet
    bool dirty;       // to be written
} Cell;
typedef VEC(uint32_t) Nodes;
typedef struct OnceEntry OnceEntry;

typedef struct Cursors { // next of each numbered thing; a replay runs over what is there
    uint32_t site, pin, version, block, update;
} Cursors;

typedef struct Snapshot {
    Cell *cell; // [cells]
    uint32_t cells;
    uint32_t *next; // [nexts] `next`s so far of each stream
    uint32_t nexts;
    const OnceEntry *once;
    const Counter *counts; // of the model itself
    uint32_t block;
    Cursors cursor;
} Snapshot;

typedef struct Decision {
    bool first;
    Cursors resume;
} Decision;
typedef struct Branching { // run-time outcomes of the statement being evaluated
    VEC(Decision) path;
    uint32_t at; // decisions met so far in this evaluation
    bool muted_outside;
} Branching;

enum { MAX_NESTED = 24, MAX_CALLS = 200, MAX_LISTS = 200, MAX_WORK = 4000000 };
enum { MAX_DEPTH = 1300 }; // of trees in all open calls; 2 kB of stack each, 6 with sanitizers

typedef struct Building { // one function
    Func *fn;             // NULL: top-level expressions (schedules), in Elab.loose
    Builder *at;
    uint32_t index;     // Site.func: 0 init, 1 step, 2... entry points
    VEC(Cell) cell;     // [slot]
    VEC(Nodes) version; // [slot] nodes its value has had here
    Nodes assigned;     // slots, in order of assignment
    VEC(uint32_t) next; // [stream]
    const OnceEntry *once;
    Nodes site, pin; // Module.site[] and Pin nodes, in program order
    Cursors cursor;
    uint32_t *scope_end;  // [MAX_BLOCKS] Builder.scope_end: NONE while it is open, 0 behind it
    Branching *branching; // of the innermost control scope; NULL: no run-time control here
    uint32_t choices;     // run-time choices with a value that are open
    uint64_t rounds;      // of a step, of the loops that are open; 0: none is
    uint32_t nested;      // control marks open on the tape
    bool muted;           // replaying: nothing is emitted
    bool aside;           // for what it makes alone: nothing runs it (net_make)
    Nodes imported;       // [node of Elab.loose] its copy here
} Building;

typedef struct Turn { // `each sample`
    uint32_t slot;    // index of the current sample
    uint32_t outside; // block in front of the loop
    Nodes value;      // slots of the tables of its values
    bool list;        // the block's value is a list of them
    bool ended;       // a branch has reached its end: `list` and `values` are known
    uint32_t values;  // how many a branch gives
} Turn;

typedef struct SharedCount SharedCount;   // update.c: an optimizer's count, of all weights of a net
typedef struct WeightReport WeightReport; // update.c
typedef struct Tuning { // an optimizer applied to the weights of one update, in lock-step
    uint32_t update;    // Func.update[]
    uint32_t weight;    // slot of the current weight
    Nodes total;        // sums over all weights known so far
    uint32_t totals;    // those this weight has used
    Nodes part;         // the next sum's terms
    bool waits;         // a sum was not known yet
    VEC(SharedCount) shared;
    VEC(WeightReport) report; // of this round
    VEC(GradOf) was;          // slots of the optimizer it has set, as they were
} Tuning;

typedef struct Reach { // a net in an update behind a run-time choice
    const Ast *update;
    uint32_t net;
    bool reached; // by the loss of one of the branches
} Reach;

struct Elab {
    Front *f;
    Arena *perm;
    const ElabOptions *o;
    Module *m;
    Globals library, top;      // top: of the model, in front of the library
    Graph loose;               // top-level tensors: expressions of step, epoch, kimg
    Building init;             // first values of slots
    Building *to;              // the function being built
    Owner root, *owner;        // owner: of the call being evaluated
    Owner *net;                // owner of the innermost net call, NULL
    const struct Given *given; // of the innermost call of with_params (net.c); NULL
    bool training;
    bool held; // inside a call of eval(net): weights stay as they are
    bool in_once;
    const Turn *turn; // inside `each sample`; NULL elsewhere
    uint32_t calls;   // depth
    uint32_t depth;   // tree nodes being evaluated, in all of these calls
    uint64_t work;    // tree nodes evaluated
    bool stop;        // a limit was exceeded: everything is poison from here
    Span at, user;    // the operation being evaluated; the same, innermost in a user's file
    Map slots;        // hash of the name to slot + 1
    Map slot_keys;    // slot + 1 to what tells its owner apart (net.c)
    Map children;     // net.c: hash of a child's call, place and turn to its number + 1
    Map names;        // tree node to index + 1 in pinned_names (grads.c)
    VEC(Names) pinned_names;
    VEC(NetInfo) net_info;
    VEC(FieldInfo) field;
    VEC(Choice) choice;
    VEC(WeightPattern) pattern;
    Makers makers;
    uint32_t scalar[3];       // slots of step, epoch, kimg; NONE
    Tuning *tuning;           // the update being applied; NULL
    VEC(Reach) reach;         // of this step's updates
    Nodes score, scorer;      // of the step, one number for each sample or place; by which net
    VEC(SharedCount) counted; // every shared count
    Map counts, builtins;     // optimizers' states to what they are (update.c); names to table rows
    VEC(Span) mean[2];        // over axes of samples: where there are none, and where there are
    bool split_counts;        // scalar optimizer state is kept per weight (update.c)
    bool retry;               // ... which was detected too late: elaborate again
    const Ast *file;          // being elaborated
    const Ast *staged;        // the file whose `stages` are being evaluated; NULL elsewhere
    bool try_idle;            // also elaborate nets that are never called, for their diagnostics
};

// --- expr.c, stmt.c ------------------------------------------------------------------------------

Value eval(Elab *e, Env *env, const Ast *a);
Value eval_argument(Elab *e, Env *env, const Ast *a);      // outside the step places are not read
Value eval_if(Elab *e, Env *env, const Ast *a, bool drop); // drop: its value is not used
Value eval_every(Elab *e, Env *env, const Ast *a, bool drop);
Value eval_arith(Elab *e, Str op, Value a, Value b);
Value value_now(Elab *e, Value v); // places, data and counters are read
bool want_list(Elab *e, Value v, const char *who, List *out);
bool want_position(Elab *e, Value v, int64_t n, int64_t *at);   // an index; -1 is the last of n
bool want_sequence(Elab *e, Env *env, const Ast *a, List *out); // what a `for` goes over
// After DiagE0301 or DiagE0312: what `name` is called here, or the nearest one that there is.
void help_name(Elab *e, Str name, Str near);
void help_called(Elab *e, Str who); // ... or a mistake in the arguments of `who`: what to write
Value eval_block(Elab *e, Env *env, const Ast *block, bool drop); // of its last statement
Value eval_last(Elab *e, Env *env, const Ast *a); // a block's last statement; KindNone: no value
bool is_expression(const Ast *a);
bool is_condition(const Ast *a); // require, warn_unless: a statement done when it holds
void eval_statement(Elab *e, Env *env, const Ast *a); // its value is dropped
void bind_name(Elab *e, Env *env, Str name, Value v); // pinned when a grad names it
void bind_names(Elab *e, Env *env, const Ast *from, uint32_t n, Ast *const *target, Value v);
void bind_lost(Elab *e, Env *env, const Ast *a); // what it would have bound is poison from here on
void note_worth(Elab *e, Span at, Value v);      // records a value for an editor (facts.c)
bool elab_alive(Elab *e);                        // false past a limit, after one diagnostic
bool elab_enter(Elab *e); // the same, for a tree node; followed by elab_leave
void elab_leave(Elab *e);

typedef struct Spot { // where messages and new nodes point
    Span at, user;
} Spot;
Spot spot_enter(Elab *e, const Ast *a); // returns the outer one, for spot_leave
void spot_leave(Elab *e, Spot outer);

// Diagnostics point to the innermost place in the user's text: diag(e->f, code, here(e), ...).
Span here(const Elab *e);
void in_library(Elab *e); // after one: adds the library's line if it was found inside the library

// --- call.c --------------------------------------------------------------------------------------

Value eval_call(Elab *e, Env *env, const Ast *a);
Value eval_pipe(Elab *e, Env *env, const Ast *a);
Args eval_args(Elab *e, Env *env, const Ast *call, const Value *first); // first: a pipe's, or NULL
Value call_value(Elab *e, Value f, Args args);
Value call_with(Elab *e, Value f, const Value *at, uint32_t n); // positional
Value call_bare(Elab *e, Value f, Value x); // f(x); an f of two lists is made with its defaults
bool value_takes_two_lists(Value f);
// Name empty: a result.
bool match_shape(Elab *e, Env *env, const Ast *shape, Val v, Str who, Str name);
void note_origin(Elab *e, Val v); // a note: where this value was made

// --- param.c: what parameters declare ------------------------------------------------------------

void help_wrapped_layer(Elab *e, Str who); // in the way of torch: who(LAYER)
bool is_class(const Ast *kind);            // `label(k)`
bool is_option(const Ast *kind);           // `option()`
bool want_classes(Elab *e, Env *env, const Ast *kind, int64_t *out); // its k
bool is_range(const Ast *kind);                                      // `number(0, 1)`, `whole(1)`
// Whether *v is what the parameter p declares; a class becomes one.
bool match_parameter(Elab *e, Env *env, const Ast *p, Value *v, Str who);

// --- building.c: values of slots, draws, data ----------------------------------------------------

void building_init(Elab *e, Building *b, Func *fn, Graph *g, uint32_t index);
Building *building_enter(Elab *e, Building *b); // returns the outer one
Cell *slot_cell(Elab *e, uint32_t slot);
Val slot_read(Elab *e, uint32_t slot);             // its current value; id 0 after a diagnostic
void slot_assign(Elab *e, uint32_t slot, Value v); // `:=`
// One of the functions of a data field's `map`, applied to v; its shape must stay.
Value apply_map(Elab *e, Value f, Value v);
void slot_set(Elab *e, uint32_t slot, Val v); // a value of the slot's type; stops gradients
// A slot that carries a value past control marks: number `i` of those that come out of what stands
// in `block`. NONE after a diagnostic: another outcome's was of another type.
uint32_t carry_slot(Elab *e, uint32_t block, uint32_t i, Type type);
bool slot_fits(Elab *e, uint32_t slot, Val *v, bool each); // or broadcasts; `each`: per-sample, too
void slots_hold(Elab *e);     // what the update at hand has set may be kept as it was (Commit)
void slots_commit(Elab *e);   // writes what changed
Val elab_pin(Elab *e, Val v); // an identity of its own, unless it has one
void segment_end(Elab *e);    // weights changed: `once` runs again
Value once_block(Elab *e, Env *env, const Ast *a);
// A site; or what is fed in its place.
Value make_draw(Elab *e, Dist dist, int64_t classes, Type type);
bool place_type(const Elab *e, Value v, Type *out); // of a weight, a state or data, not read for it
const Field *info_field(const Elab *e, const FieldInfo *info);
Value read_field(Elab *e, uint32_t field);
Val read_scalar(Elab *e, uint32_t which);
// A top-level tensor into the graph of e->to; into that of `init` what weights and state make of
// the values they begin with.
Val import(Elab *e, Val v);
void next_batch(Elab *e, Env *env, const Ast *a);

// --- function.c: the graphs of the step and of entry points --------------------------------------

void begin_graph(const Elab *e, Graph *g);
void function_step(Elab *e, const Ast *a);
void function_sample(Elab *e, const Ast *a); // an entry more
// One sample's type of an input: a class, or a shape in brackets; alone it is one number.
bool input_type(Elab *e, Env *env, const Ast *p, Type *t, int64_t *classes);

// --- branch.c: run-time control ------------------------------------------------------------------

Snapshot snapshot_take(Elab *e);
void snapshot_restore(Elab *e, const Snapshot *s);
typedef struct Last { // evaluates a scope's last statement, in each of its outcomes
    void (*take)(Elab *e, Env *env, const Ast *last, void *user);
    void *user;
} Last;
// A control scope's statements, to its end. `last` NULL: the value of the last one is dropped.
void run_scope(Elab *e, Env env, const Ast *block, const Last *last);
// The same for all of a function: after it the branches have joined.
void run_function(Elab *e, Env env, const Ast *block, const Last *last);
const Ast *block_of(Elab *e, const Ast *a); // a block with `a` as its statement, or `a`
Value branch_if(Elab *e, Env *env, const Ast *a, Val cond); // an `if` whose value is used
Value branch_every(Elab *e, Env *env, const Ast *a, int64_t k);
void scope_if(Elab *e, Env *env, const Ast *a, Val cond); // as statements: nothing but := comes out
void scope_every(Elab *e, Env *env, const Ast *a, int64_t k);
void scope_repeat(Elab *e, Env *env, const Ast *a);
void scope_rounds(Elab *e, const Env *env, const Ast *body, uint32_t n, const Last *last);

// --- each.c --------------------------------------------------------------------------------------

Value eval_each(Elab *e, Env *env, const Ast *a);
Val rows_of(Val x); // samples as rows of a shared value, laid flat where no axis is left to add
Value each_pick(Elab *e, Value v); // inside `each sample`: the sample's part of a per-sample value
// The elements at `index` along an axis of x; the axes of the index take its place.
Value element_get(Elab *e, Val x, uint32_t axis, Val index);
void element_assign(Elab *e, uint32_t slot, Value index, Value v);

// --- net.c ---------------------------------------------------------------------------------------

typedef struct LayerMark { // for `ganc plan`: what there was before a layer; new slots make a row
    uint32_t slots, layers, nodes;
} LayerMark;
LayerMark layer_begin(const Elab *e);
void layer_end(Elab *e, LayerMark before, Owner *own, Value result);
uint32_t net_add(Elab *e, Net net, Value fn);
// Whether a net's weights are a file's, which nothing changes; reported where they are.
bool refuse_pretrained(Elab *e, uint32_t net, Span at);
Value net_call(Elab *e, Value net, Args args);
bool net_make(Elab *e, uint32_t net); // before its first call; false: inputs of unknown shapes
bool given_weight(const Elab *e, uint32_t slot, Val *out); // by with_params; false: its own value
const Value *given_weights(const Elab *e);                 // to the net being called; NULL
void net_sync(Elab *e, uint32_t net);                      // a copy has every slot its model has
Str owner_path(Elab *e, Owner *o);
uint32_t slot_find(const Elab *e, Str name); // NONE
uint32_t slot_add(Elab *e, Slot s);
// Adds a slot, or finds it by its name; NONE: refused.
uint32_t slot_make(Elab *e, Env *env, const Ast *decl, Slot s);
// `param`, `state`: the place, or with a list of shapes the list of places.
Value declare_places(Elab *e, Env *env, const Ast *decl);

// --- update.c, grads.c ---------------------------------------------------------------------------

void eval_update(Elab *e, Env *env, const Ast *a);
void updates_reach(Elab *e); // behind the step: a net no outcome's loss reached is an error
uint32_t optimizer_slot(Elab *e, Env *env, const Ast *decl, Slot s);
Value eval_total(Elab *e, Value x);
void weight_report(Elab *e, const Ast *at, Str name, Val v);  // of an optimizer
uint8_t *grad_reach(const Graph *g, Arena *a, uint32_t from); // nodes a gradient of `from` flows to
// The gradient of y to each value a slot has had of those y was computed from, added up; node 0
// where there is none. `reached` is grad_reach of y.
Val slot_gradient(Elab *e, uint32_t slot, Val y, const uint8_t *reached);
uint32_t weight_of(const Elab *e, const Value *v); // the slot of a weight, read or not; NONE
Names grad_names(Elab *e, const Env *env, const Ast *body); // what a grad in it differentiates to
bool names_has(Names names, Str name);

// --- data.c, config.c, stages.c ------------------------------------------------------------------

void eval_data(Elab *e, Env *env, const Ast *a);
const char *data_word(uint32_t i); // types and transforms; NULL past the last
void eval_config(Elab *e, Env *env, const Ast *a);
// The config of a name, NULL: there is none; whether it takes a setting. Reported at `at`.
const Ast *config_find(Elab *e, const Ast *file, Str name, Span at);
bool setting_fits(Elab *e, const Ast *config, const Setting *s, Value means, Span at);
// To Module.stage; none where a setting from outside is of a config that a stage sets.
void eval_stages(Elab *e, const Ast *file, const Ast *a);
void eval_stage(Elab *e, Env *env, const Ast *a);
// `mode == "intended"`: a diagnostic where the config `name` can never be `v`.
void check_choice(Elab *e, Env *env, Str name, Value v, Span at);
void declare(Elab *e, Str name, Span span, Value v); // a top-level name, once (elaborate.c)
void check_settings(Elab *e, const Ast *file);       // unknown keys
void note_settings(Elab *e); // after a number that does not fit: those that -s or a stage gave

#endif
