// net.c - nets, and the weights and state created while they run: owners, names, initial values.
//
// A slot is created where its declaration is first evaluated and found again by its path: net,
// layers, name. Layers of one name are numbered as they first come to be, when something inside
// first needs a name. A second call of what creates them finds them again by their places in the
// text, and which time it is there in this call: so it may take another branch, whose layers are
// its own.
#include "builtin.h"
#include "warn.h"

// --- names ---------------------------------------------------------------------------------------

uint64_t text_place(const Elab *e, Span at) {
    uint64_t key[] = {e->owner->place, at.file, at.lo, at.hi};
    return hash64(key, sizeof key, 0);
}

// How many children of this label and place there were before in this call.
static uint32_t count_next(Elab *e, Owner *o, Str label, uint64_t place) {
    uint32_t n = 0;
    for (const Counter *c = o->counts; c; c = c->older)
        if (c->place == place && str_eq(c->label, label)) {
            n = c->n;
            break;
        }
    Counter *c = arena_new(e->perm, Counter);
    *c = (Counter){label, place, n + 1, o->counts};
    o->counts = c;
    return n;
}

// The number of the next child of this label and place, in any call of its owner the same.
static uint32_t child_number(Elab *e, Owner *o, Str label, uint64_t place) {
    Str path = owner_path(e, o);
    uint64_t of[] = {hash64(path.ptr, path.len, 0), hash64(label.ptr, label.len, 0)},
             one[] = {of[0], of[1], place, count_next(e, o, label, place)},
             all = hash64(of, sizeof of, 0), key = hash64(one, sizeof one, 0);
    uint32_t known = map_find(&e->children, key), n = map_find(&e->children, all);
    if (known)
        return known - 1;
    map_put(e->perm, &e->children, key, n + 1);
    map_put(e->perm, &e->children, all, n + 1);
    return n;
}

static Str object_component(Elab *e, Object *o) {
    if (o->component.len)
        return o->component;
    uint32_t n = child_number(e, o->maker, o->label, o->place);
    bool alone = o->named && n == 0;
    uint64_t of[] = {hash64(o->label.ptr, o->label.len, 0), n, o->named};
    o->key = hash64(of, sizeof of, 0);
    o->component = alone ? o->label : str_format(e->perm, "%.*s.%u", SARG(o->label), n);
    return o->component;
}

static Str joined(Elab *e, Str path, Str name) {
    return path.len ? str_format(e->perm, "%.*s.%.*s", SARG(path), SARG(name)) : name;
}

Str owner_path(Elab *e, Owner *o) {
    if (!o->has_path) {
        o->path = owner_path(e, o->outer);
        o->key = o->outer->key;
        if (!o->object->whole) {
            o->path = joined(e, o->path, object_component(e, o->object));
            uint64_t of[] = {o->key, o->object->key};
            o->key = hash64(of, sizeof of, 0);
        }
        o->has_path = true;
    }
    return o->path;
}

// --- slots ---------------------------------------------------------------------------------------

uint32_t slot_find(const Elab *e, Str name) {
    for (uint64_t h = hash64(name.ptr, name.len, 2);; h++) {
        uint32_t i = map_find(&e->slots, h);
        if (!i)
            return NONE;
        if (str_eq(e->m->slot.at[i - 1].name, name))
            return i - 1;
    }
}

uint32_t slot_add(Elab *e, Slot s) {
    uint64_t h = hash64(s.name.ptr, s.name.len, 2);
    while (map_find(&e->slots, h))
        h++;
    vec_push(e->perm, &e->m->slot, s);
    map_put(e->perm, &e->slots, h, e->m->slot.n);
    if (s.net != NONE && s.kind == SlotParam)
        e->m->net.at[s.net].params++;
    if (s.net != NONE && s.kind == SlotState)
        e->m->net.at[s.net].states++;
    return e->m->slot.n - 1;
}

// The first value, in the graph of `init`: a number, what a function makes of the shape, or a value
// of slots made before, as they begin.
static uint32_t initial_value(Elab *e, Env *env, const Ast *a, SlotKind kind, Type type) {
    Building *outer = building_enter(e, &e->init);
    Tuning *tuning = e->tuning;
    uint32_t id = 0;
    e->tuning = NULL;
    Value v = eval(e, env, a);
    Value shape = extents_value(e, type.dim, type.rank);
    if (v.kind == KindFn || v.kind == KindObject || v.kind == KindBuiltin)
        v = call_bare(e, v, shape);
    Val val;
    Type both;
    if (v.kind == KindBool && kind == SlotParam) {
        diag(e->f, DiagE0305, here(e), "a weight's initial value", value_what(v));
        diag_help(e->f, "it is a number or a function of the shape; bias=none leaves a bias out");
        in_library(e);
    } else if (want_tensor(e, v, &val)) {
        Type t = val_type(val);
        if (!t.batched && t.rank <= type.rank && type_broadcast(&t, &type, &both) &&
            type_same_shape(&both, &type))
            id = Expand(val, type).id;
        else
            diag(e->f, DiagE0504, here(e), SARG(type_text(e->perm, &t)),
                 SARG(type_text(e->perm, &type)));
    }
    e->tuning = tuning;
    building_enter(e, outer);
    return id;
}

static uint32_t slot_key(const Owner *o) { // never 0
    return (uint32_t)o->key | 1;
}

// `named` joins words as paths are joined. Does another layer than the slot's own want it?
static bool slot_is_of_another(const Elab *e, uint32_t slot) {
    uint32_t key = map_find(&e->slot_keys, slot + 1);
    return !e->tuning && key && key != slot_key(e->owner);
}

uint32_t slot_make(Elab *e, Env *env, const Ast *a, Slot s) {
    uint32_t found = slot_find(e, s.name);
    if (found == NONE) {
        if (!s.init)
            s.init = initial_value(e, env, a->c, s.kind, s.type);
        s.span = here(e);
        found = slot_add(e, s);
        if (s.init)
            vec_push(e->perm, &e->m->init.effect, Write(found, (Val){e->init.at, s.init}).id);
        if (!e->tuning)
            map_put(e->perm, &e->slot_keys, found + 1, slot_key(e->owner));
        return found;
    }
    const Slot *made = &e->m->slot.at[found];
    if (slot_is_of_another(e, found)) {
        diag(e->f, DiagE0421, here(e), SARG(s.name));
        diag_note(e->f, made->span, "the other is made here");
        return NONE;
    }
    if (made->kind == s.kind && type_same_shape(&made->type, &s.type))
        return found;
    diag(e->f, DiagE0404, here(e), SARG(s.name), SARG(type_text(e->perm, &made->type)),
         SARG(type_text(e->perm, &s.type)));
    diag_note(e->f, made->span, "it was created here");
    return NONE;
}

// In a copy of a net, a slot begins as its model's does. The model's is made first where it is not
// there yet.
static uint32_t model_init(Elab *e, Env *env, const Ast *a, Slot s) {
    uint32_t model = e->m->net.at[s.net].copy_of;
    if (model == NONE)
        return 0;
    Str mine = e->m->net.at[s.net].name, name = e->m->net.at[model].name;
    s.name =
        str_format(e->perm, "%.*s%.*s", SARG(name), SARG(str_sub(s.name, mine.len, s.name.len)));
    s.net = model;
    s.init = model_init(e, env, a, s);
    uint32_t slot = slot_make(e, env, a, s);
    return slot == NONE ? 0 : e->m->slot.at[slot].init;
}

// `at`: which one of a list of them.
static uint32_t declare_slot(Elab *e, Env *env, const Ast *a, Type type, uint32_t at) {
    bool weight = a->kind == AstParam;
    if (weight && (e->owner->net == NONE || e->tuning)) {
        diag(e->f, DiagE0501, here(e), SARG(a->text));
        in_library(e);
        return NONE;
    }
    bool plain =
        e->tuning && !e->owner->object; // an optimizer of one list: evaluated anew for each weight
    uint32_t again = plain ? at
                           : child_number(e, e->owner, str_format(e->perm, ".%.*s", SARG(a->text)),
                                          text_place(e, a->span));
    Str name = again ? str_format(e->perm, "%.*s.%u", SARG(a->text), again) : a->text;
    Slot s = {.kind = weight ? SlotParam : SlotState, .net = e->owner->net, .type = type};
    s.name = joined(e, owner_path(e, e->owner), name);
    if (e->tuning)
        return optimizer_slot(e, env, a, s);
    if (s.net != NONE)
        s.init = model_init(e, env, a, s);
    return slot_make(e, env, a, s);
}

static Value declare_shape(Elab *e, Env *env, const Ast *a, Value shape, uint32_t at) {
    Type type;
    const char *who = a->kind == AstParam ? "the shape of a weight" : "the shape of a state";
    uint32_t slot =
        want_extents(e, shape, who, false, &type) ? declare_slot(e, env, a, type, at) : NONE;
    return slot == NONE ? POISON : (Value){.kind = KindSlot, .id = slot};
}

// Whether a text that gives an empty list means shapes, of which there are none, as
// [shape(w) for w in params(D)] does; else it is the shape of a number.
static bool means_shapes(const Ast *a) {
    if (!a || a->kind != AstComp)
        return false;
    while (a->kind == AstComp)
        a = a->a ? a->a : a->c;
    bool shape = a->kind == AstCall && a->a->kind == AstName && str_eq(a->a->text, STR("shape"));
    return shape || a->kind == AstList;
}

Value declare_places(Elab *e, Env *env, const Ast *a) {
    Value shape = a->a ? eval(e, env, a->a) : value_list(NULL, 0);
    bool list = shape.kind == KindList &&
                (shape.list.n ? shape.list.at[0].kind == KindList : means_shapes(a->a));
    if (!list)
        return declare_shape(e, env, a, shape, 0);
    Value *place = arena_array(e->perm, Value, shape.list.n);
    for (uint32_t i = 0; i < shape.list.n; i++)
        place[i] = declare_shape(e, env, a, shape.list.at[i], i);
    Value all = value_list(place, shape.list.n);
    all.id = a->kind == AstState;
    return all;
}

// --- layers --------------------------------------------------------------------------------------

LayerMark layer_begin(const Elab *e) {
    return (LayerMark){e->m->slot.n, e->m->layer.n, e->to->fn ? e->to->fn->g.node.n : 0};
}

void layer_end(Elab *e, LayerMark before, Owner *own, Value result) {
    Layer l = {.net = own->net, .span = here(e)};
    if (l.net == NONE || e->m->slot.n == before.slots || result.kind != KindTensor)
        return;
    for (uint32_t i = before.slots; i < e->m->slot.n; i++) {
        const Slot *s = &e->m->slot.at[i];
        if (s->net == l.net)
            *(s->kind == SlotParam && slot_saved(e->m, s) ? &l.trainable : &l.other) +=
                type_sample(&s->type);
    }
    for (uint32_t i = before.nodes; i < e->to->fn->g.node.n; i++)
        l.gflop += node_gflop(&e->to->fn->g, i);
    for (uint32_t i = before.layers; i < e->m->layer.n; i++) {
        const Layer *inner = &e->m->layer.at[i];
        l.trainable -= inner->net == l.net ? inner->trainable : 0;
        l.other -= inner->net == l.net ? inner->other : 0;
        l.gflop -= inner->gflop;
    }
    if (l.trainable + l.other == 0)
        return;
    l.name = owner_path(e, own);
    l.out = val_type(result.tensor.val);
    vec_push(e->perm, &e->m->layer, l);
}

// --- nets ----------------------------------------------------------------------------------------

uint32_t net_add(Elab *e, Net net, Value fn) {
    vec_push(e->perm, &e->m->net, net);
    vec_push(e->perm, &e->net_info, ((NetInfo){.fn = fn}));
    return e->m->net.n - 1;
}

bool refuse_pretrained(Elab *e, uint32_t net, Span at) {
    if (!net_pretrained(e->m, net))
        return false;
    const Net *n = &e->m->net.at[net];
    diag(e->f, DiagE0534, at, SARG(n->name), SARG(n->file));
    diag_note(e->f, n->span, "`%.*s` is declared here", SARG(n->name));
    return true;
}

void net_sync(Elab *e, uint32_t net) {
    uint32_t model = e->m->net.at[net].copy_of;
    if (model == NONE)
        return;
    net_sync(e, model);
    Str mine = e->m->net.at[net].name, name = e->m->net.at[model].name;
    for (uint32_t i = 0; i < e->m->slot.n; i++) {
        Slot s = e->m->slot.at[i];
        if (s.net != model || (s.kind != SlotParam && s.kind != SlotState))
            continue;
        s.name = str_format(e->perm, "%.*s%.*s", SARG(mine),
                            SARG(str_sub(s.name, name.len, s.name.len)));
        s.net = net;
        if (slot_find(e, s.name) != NONE)
            continue;
        uint32_t slot = slot_add(e, s);
        if (s.init)
            vec_push(e->perm, &e->m->init.effect, Write(slot, (Val){e->init.at, s.init}).id);
    }
}

typedef struct Given {    // a call of with_params(net, list)
    const uint32_t *slot; // [weights.n]
    List weights;         // tensors that are read instead
    uint32_t net;
    const struct Given *outer;
} Given;

bool given_weight(const Elab *e, uint32_t slot, Val *out) {
    for (const Given *g = e->given; g; g = g->outer)
        for (uint32_t i = 0; i < g->weights.n; i++)
            if (g->slot[i] == slot) {
                *out = g->weights.at[i].tensor.val;
                return true;
            }
    return false;
}

const Value *given_weights(const Elab *e) {
    return e->given && e->given->net == e->owner->net ? e->given->weights.at : NULL;
}

// The slots of the weights, in the order of params(net).
static Given given_of(Elab *e, Value net) {
    uint32_t *slot = arena_array(e->perm, uint32_t, net.list.n + 1), n = 0;
    for (uint32_t i = 0; i < e->m->slot.n && n < net.list.n; i++)
        if (e->m->slot.at[i].net == net.id && e->m->slot.at[i].kind == SlotParam)
            slot[n++] = i;
    return (Given){slot, net.list, net.id, e->given};
}

Value net_call(Elab *e, Value net, Args args) {
    if (!e->to->fn || e->to->index == 0) {
        diag(e->f, DiagE0506, here(e), SARG(e->m->net.at[net.id].name));
        return POISON;
    }
    net_sync(e, net.id);
    Owner *outer = e->owner, *outer_net = e->net;
    bool training = e->training, held = e->held;
    e->held |= net.eval;
    NetInfo *info = &e->net_info.at[net.id];
    info->made = true;
    bool counts = e->training || !info->called; // where the step calls it, samples tell nothing
    info->trains |= counts && !e->to->aside && !e->held && !net.given;
    info->called |= !e->to->aside;
    Owner *own = arena_new(e->perm, Owner);
    *own = (Owner){.path = e->m->net.at[net.id].name, .has_path = true, .net = net.id};
    e->owner = e->net = own;
    warn_ranges(e, net.id, args);
    warn_latents(e, net.id, args);
    const Given *given = e->given;
    Given now;
    if (net.given) {
        now = given_of(e, net);
        e->given = &now;
    }
    if (net.eval || net_pretrained(e->m, net.id))
        e->training = false;
    Value v = call_value(e, e->net_info.at[net.id].fn, args);
    if (note_scores(e, net.id, v))
        warn_classes(e, net.id, args);
    e->given = given;
    e->owner = outer;
    e->net = outer_net;
    e->training = training;
    e->held = held;
    return v;
}

// --- nets without a call -------------------------------------------------------------------------

// Whether every name in a shape stands for something; those of functions are not looked up.
static bool names_known(Elab *e, const Env *env, const Ast *a) {
    Value v;
    if (!a)
        return true;
    if (a->kind == AstName && !scope_find(env, a->text, &v) && !predefined_find(e, a->text, &v))
        return false;
    for (uint32_t i = a->kind == AstCall; i < ast_parts(a); i++)
        if (!names_known(e, env, ast_part(a, i)))
            return false;
    return true;
}

// Example arguments for a net's parameters without a default, [n] of them; false: their shapes are
// not stated.
static bool example_inputs(Elab *e, Env env, const Ast *params, Value *out, uint32_t *n) {
    for (*n = 0; params && *n < params->list.n && !params->list.at[*n]->b; ++*n) {
        const Ast *p = params->list.at[*n];
        Type t;
        int64_t classes;
        if (!p->a || is_range(p->a) || is_option(p->a) || !names_known(e, &env, p->a) ||
            !input_type(e, &env, p, &t, &classes))
            return false;
        t.batched = true;
        out[*n] = value_class(Rand(e->to->at, DistNormal, *n, 0, t), classes);
    }
    return true;
}

typedef struct Trial { // a call of a net with example arguments
    Value net, *given;
    uint32_t n;
} Trial;

static void take_trial(Elab *e, Env *env, const Ast *last, void *user) {
    const Trial *t = user;
    (void)env, (void)last;
    call_with(e, t->net, t->given, t->n);
}

// Calls the net in a graph of its own, as a step would, outside of all that is being evaluated.
bool net_make(Elab *e, uint32_t net) {
    Value v = e->net_info.at[net].fn;
    if (v.kind != KindFn && v.kind != KindObject)
        return false;
    const Closure *fn = v.kind == KindFn ? v.fn : v.object->fn;
    const Ast *params = value_params(v);
    Env env = fn->env;
    env.local = v.kind == KindFn ? env.local : v.object->args;
    Func *scratch = arena_new(e->perm, Func);
    Building b;
    begin_graph(e, &scratch->g);
    building_init(e, &b, scratch, &scratch->g, 1);
    b.aside = true;
    Building *outer = building_enter(e, &b);
    const struct Given *given = e->given;
    const Turn *turn = e->turn;
    Tuning *tuning = e->tuning;
    bool training = e->training, in_once = e->in_once;
    e->given = NULL;
    e->turn = NULL;
    e->tuning = NULL;
    e->training = true;
    e->in_once = false;
    Trial t = {.net = {.kind = KindNet, .id = net},
               .given = arena_array(e->perm, Value, params ? params->list.n : 0)};
    bool known = example_inputs(e, env, params, t.given, &t.n);
    if (known)
        run_scope(e, env, block_of(e, fn->ast), &(Last){take_trial, &t});
    e->given = given;
    e->turn = turn;
    e->tuning = tuning;
    e->training = training;
    e->in_once = in_once;
    building_enter(e, outer);
    return known;
}
