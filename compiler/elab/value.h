// value.h - compile-time values, environments, and owners of what a call creates. Private to this
// folder.
//
// Environments are persistent lists: a binding never changes, binding a name again prepends a newer
// one. Values are copied; what they point to lives in the compilation's arena.
#ifndef GAN_VALUE_H
#define GAN_VALUE_H

#include "build.h"
#include "elaborate.h"

typedef struct Elab Elab;

// --- values --------------------------------------------------------------------------------------

typedef enum ValueKind {
    KindPoison, // of a mistake already reported: silently passed on
    KindAbsent, // an optional argument that was not given
    KindNone,
    KindNum,
    KindBool,
    KindStr,
    KindList,
    KindAxes,   // a set of axes, resolved against a tensor where it is used
    KindFn,     // a function with its environment
    KindObject, // a function of two lists after its first
    KindBuiltin,
    KindNet,
    KindTensor,
    KindSlot,   // a place: `param`, `state`, an element of params(net)
    KindField,  // a data field
    KindScalar, // step, epoch, kimg
} ValueKind;

enum { // Value.axes: the names, from AxFirst on one bit for each axis(i), from AxLast on axis(-1 -
       // i)
    AxBatch = 1,
    AxChannel = 2,
    AxSpace = 4,
    AxSample = 8,
    AxAll = 16,
    AxFirst = 32,
    AxLast = AxFirst << MAX_RANK
};

typedef struct Value Value;
typedef struct List {
    const Value *at;
    uint32_t n;
    uint32_t size;  // elements at every depth; 0: not counted
    uint32_t depth; // lists in lists; limited by eval, so recursion over a value is safe
} List;
typedef struct Closure Closure;
typedef struct Object Object;
typedef struct Outside {
    Str file, prefix;
} Outside;

struct Value {
    ValueKind kind;
    bool eval;              // Net: inside eval(net)
    bool given;             // Net: with the weights of `list`, as of with_params(net, list)
    uint32_t copy_of;       // of copy(net): the net + 1
    const Outside *outside; // of pretrained(f, file): where the weights are; NULL
    uint32_t id; // Builtin, Net, Slot, Scalar: index; Field: index in Elab.field; Str: of
                 // name(w), 1; Num: `batch_size` itself, 1; List: of states, as declared, 1; else 0
    uint32_t slot; // Tensor: the slot it was read from, for name(w); NONE
    union {
        double num; // Num; Bool: 0 or 1
        Str str;
        List list;
        uint32_t axes;
        const Closure *fn;
        Object *object;
        struct {
            Val val;
            int64_t classes; // a label's number of classes; 0
        } tensor;
    };
};

typedef struct WeightPattern { // one that names of weights were matched with
    Str text;
    Span span;
    bool fits; // the name of some weight
} WeightPattern;

typedef struct Choice { // a config with alternatives
    Str name;
    List of;
} Choice;

typedef struct Maker { // the outermost call of a function of the model's own that gave a value
    const Graph *g;
    uint32_t node;
    const Ast *fn;
    Span call;
} Maker;
typedef struct Makers {
    VEC(Maker) at;
    Map find; // hash of graph and node to index + 1
} Makers;

typedef struct Binding Binding;
typedef enum BindKind { BindName, BindFn, BindControl } BindKind;
struct Binding { // one name, newest first; or a mark where a function, a run-time block begins
    BindKind kind;
    Str name;
    Value value;
    const Binding *outer;
};

typedef struct Global {
    Str name;
    Value value;
    Span span;
    bool fixed; // not to be bound again
} Global;
typedef struct Globals Globals;
struct Globals { // top-level names of the model, or of the library behind it
    VEC(Global) at;
    Map find; // hash of the name to index + 1
    const Globals *outer;
};

typedef struct Names {
    const Str *at;
    uint32_t n;
} Names;

typedef struct Env {
    const Binding *local;
    Globals *globals;
    Names pinned; // names that a `grad` of this body differentiates to
} Env;

struct Closure {
    const Ast *ast; // Fn or Net
    Env env;        // where it was written
};

typedef struct Counter Counter;
struct Counter { // children of a label and a place of the text, numbered in this call
    Str label;
    uint64_t place;
    uint32_t n;
    const Counter *older;
};

// Who owns the weights and state made during a call: a net, or an object being applied. Names are
// its path.
typedef struct Owner Owner;
struct Owner {
    Owner *outer;   // NULL: the model itself
    Object *object; // NULL: a net, or the model
    Str path;       // "G.conv.3"; made when first asked for
    bool has_path;
    uint64_t key;          // hash of the path's words within its net, each by itself
    uint32_t net;          // NONE outside nets
    const Counter *counts; // children numbered so far
    uint64_t place;        // hash of the calls of functions that led from its body to here; 0: that
                           // of a net has not begun
};
enum { OwnBody = 1 };                        // Owner.place in its body itself
uint64_t text_place(const Elab *e, Span at); // hash of a place of the text and the calls around it

struct Object {
    const Closure *fn;
    const Binding *args; // the environment after the first list
    Owner *maker;        // the application it was made in
    uint64_t place;      // hash of where in that it was made
    Span made;           // the call, for messages
    Str label;           // its word in names: the function's, or the name it was bound to
    bool named;          // bound to a name
    bool whole;          // all of a pretrained net: no level of its own in names
    Str component;       // "conv.3", "head"; made when first asked for
    uint64_t key;        // hash of what that is made of
    uint32_t weights_in; // the net + 1 that its first weights belong to
};

typedef struct Arg {
    Str name;
    Value value;
    Span span;
} Arg;
typedef struct Args {
    Arg *at;
    uint32_t n;
    bool piped; // the first came through `|>`
    Span span;  // the call
} Args;

typedef struct Bounds {
    double low, high;
    Span at; // where it comes from; file 0: not known
} Bounds;    // of a value's elements

// --- value.c -------------------------------------------------------------------------------------

#define POISON ((Value){.kind = KindPoison})
Value value_num(double x);
Value value_bool(bool x);
Value value_str(Str s);
Value value_list(const Value *at, uint32_t n);
Value value_tensor(Val v);
Value value_class(Val v, int64_t classes);      // a label; classes 0: an ordinary tensor
Value value_fn(Elab *e, const Ast *a, Env env); // of a Fn or Net, written there
// The text of a function or of what an object was made of, and what such a value is called with:
// its parameters, NULL where it has none written. NULL of any other value.
const Ast *value_ast(Value v);
const Ast *value_params(Value v);
bool value_is_tensor(Value v);      // Tensor, Slot, Field or Scalar
bool value_is_plain(Value v);       // Num or Bool
bool value_is_setting(Value v);     // what a config may be, or a mistake that was reported
const char *value_what(Value v);    // "a number", "a layer"
Str value_text(Elab *e, Value v);   // for messages: "[3, 64, 64]", "`D`"
bool value_equal(Value a, Value b); // compile-time equality; different kinds are unequal
// Conversions report at e->at what they expected (`who` says which) and return false; poison
// returns false silently.
bool want_num(Elab *e, Value v, const char *who, double *out);
bool want_int(Elab *e, Value v, const char *who, int64_t *out);
bool want_bool(Elab *e, Value v, const char *who, bool *out);
// A list of whole numbers above 0, or one such number: the extents of a tensor that fits.
bool want_extents(Elab *e, Value v, const char *who, bool batched, Type *out);
bool is_shared_number(const Type *t);         // one for the whole batch, of any rank
bool size_fits(Elab *e, const Type *t);       // not more numbers than a graph takes; reported
bool want_tensor(Elab *e, Value v, Val *out); // in the graph of e->to; numbers become constants
Value extents_value(Elab *e, const int64_t *dim, uint32_t n);

// --- scope.c -------------------------------------------------------------------------------------

const Binding *scope_bind(Elab *e, const Binding *outer, Str name, Value v);
const Binding *scope_mark(Elab *e, const Binding *outer, BindKind kind);
const Binding *scope_compact(Elab *e, const Binding *newest, const Binding *base);
bool scope_find(const Env *env, Str name, Value *out);        // locals, then globals outwards
const Binding *scope_find_local(const Env *env, Str name);    // NULL: none
bool scope_find_global(const Env *env, Str name, Value *out); // where no local hides it
bool scope_rebinds_outer(const Env *env, Str name); // bound outside the run-time block around it
// After an error: what a local is meant to hold is no longer known, also outside the block it is
// in.
void scope_lose(const Env *env, Str name);
// The config, number or optimizer of the top level that a binding in a run-time block hides; may be
// absent.
const Global *scope_hidden_setting(const Env *env, Str name);
Global *globals_put(Elab *e, Globals *g, Str name, Value v, Span span);
const Global *globals_find(const Globals *g, Str name); // this level only
Str scope_nearest(Elab *e, const Env *env, Str name);   // did-you-mean, or empty
// After DiagE0301: where else the text binds the name, in a block that has ended. False: nowhere.
bool scope_note_ended(Elab *e, Str name, Span use);
bool scope_note_later(Elab *e, Str name, Span use); // ... or on a later line of the top level

#endif
