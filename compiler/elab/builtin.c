// builtin.c - the core's functions: the table, their arguments, and those of nets and weights. Rows
// of lang/ops.def follow those of lang/builtins.def, so every elementwise operation can be called
// by its text name.
#include "builtin.h"

#include <math.h>

enum { MAX_PARAMS = 8 };

static const Builtin table[] = {
#define BUILTIN(name, params, doc)                                                                 \
    {STR_INIT(#name), STR_INIT(params), STR_INIT(doc), builtin_##name, OpNone},
#include "builtins.def"
#undef BUILTIN
#define EW_PARAMS_1 STR_INIT("a")
#define EW_PARAMS_2 STR_INIT("a b")
#define EW_PARAMS_3 STR_INIT("a b c")
#define EW(Name, text, n, traits, value, ...)                                                      \
    {STR_INIT(#text), EW_PARAMS_##n, STR_INIT(#value), NULL, Op##Name},
#include "ops.def"
};

uint32_t builtin_count(void) {
    return sizeof table / sizeof *table;
}
const Builtin *builtin_get(uint32_t i) {
    return &table[i];
}

static uint64_t name_hash(Str name) {
    return hash64(name.ptr, name.len, 0);
}

bool builtin_find(Elab *e, Str name, uint32_t *out) {
    for (uint32_t i = e->builtins.n ? 0 : builtin_count(); i-- > 0;) // of one name the first counts
        if (table[i].op != OpCast) // precision is not the text's business
            map_put(e->perm, &e->builtins, name_hash(table[i].name), i + 1);
    *out = map_find(&e->builtins, name_hash(name)) - 1;
    return *out != NONE && str_eq(name, table[*out].name);
}

// Names of values that no text binds.
#define PREDEFINED(P)                                                                              \
    P(true, value_bool(true))                                                                      \
    P(false, value_bool(false))                                                                    \
    P(none, ((Value){.kind = KindNone}))                                                           \
    P(pi, value_num(3.14159265358979323846))                                                       \
    P(training, value_bool(e->training))                                                           \
    P(batch_size, ((Value){.kind = KindNum, .id = 1, .num = (double)e->o->batch}))                 \
    P(step, ((Value){.kind = KindScalar, .id = 0}))                                                \
    P(epoch, ((Value){.kind = KindScalar, .id = 1}))                                               \
    P(kimg, ((Value){.kind = KindScalar, .id = 2}))                                                \
    P(batch, ((Value){.kind = KindAxes, .axes = AxBatch}))                                         \
    P(channel, ((Value){.kind = KindAxes, .axes = AxChannel}))                                     \
    P(space, ((Value){.kind = KindAxes, .axes = AxSpace}))                                         \
    P(sample, ((Value){.kind = KindAxes, .axes = AxSample}))                                       \
    P(all, ((Value){.kind = KindAxes, .axes = AxAll}))

const char *predefined_word(uint32_t i) {
#define P(word, value) #word,
    static const char *const words[] = {PREDEFINED(P)};
#undef P
    return i < sizeof words / sizeof *words ? words[i] : NULL;
}

bool predefined_find(Elab *e, Str name, Value *out) {
#define P(word, value)                                                                             \
    if (str_eq(name, STR(#word)))                                                                  \
        return *out = value, true;
    PREDEFINED(P)
#undef P
    return false;
}

// --- arguments -----------------------------------------------------------------------------------

typedef struct BuiltinParam {
    Str name;
    bool optional, rest;
} BuiltinParam;

static uint32_t split_params(Str s, BuiltinParam *out) {
    uint32_t n = 0;
    for (; s.len; n++) {
        size_t end = str_find(s, ' ');
        Str word = str_sub(s, 0, end);
        out[n] = (BuiltinParam){.rest = str_starts(word, STR("...")),
                                .optional = str_ends(word, STR("?"))};
        out[n].name = str_sub(word, out[n].rest ? 3 : 0, word.len - out[n].optional);
        s = str_sub(s, end + 1, s.len);
    }
    return n;
}

static uint32_t param_of(Elab *e, const Builtin *b, const BuiltinParam *p, uint32_t n, const Arg *a,
                         uint32_t *next) {
    if (!a->name.len && *next < n)
        return p[*next].rest ? *next : (*next)++;
    if (!a->name.len) {
        diag(e->f, DiagE0311, here(e), SARG(b->name), n, n == 1 ? "" : "s", *next + 1);
        help_called(e, b->name);
        in_library(e);
        return NONE;
    }
    Str known[MAX_PARAMS];
    for (uint32_t i = 0; i < n; i++) {
        known[i] = p[i].name;
        if (str_eq(known[i], a->name))
            return i;
    }
    Str near = str_nearest(a->name, known, n);
    diag(e->f, DiagE0312, a->span, SARG(b->name), SARG(a->name));
    diag_help(e->f, "its parameters are: %.*s",
              SARG(b->params)); // it has no text a note could show
    help_called(e, b->name);
    help_name(e, a->name, near);
    return NONE;
}

static bool place(Elab *e, const Builtin *b, Args args, Value *in, uint32_t *count) {
    BuiltinParam p[MAX_PARAMS];
    VEC(Value) rest = {0};
    uint32_t n = *count = split_params(b->params, p), next = 0;
    for (uint32_t i = 0; i < n; i++)
        in[i] = (Value){.kind = KindAbsent};
    for (uint32_t i = 0; i < args.n; i++) {
        uint32_t at = param_of(e, b, p, n, &args.at[i], &next);
        if (at == NONE)
            return false;
        const Arg *a = &args.at[i];
        bool named = a->name.len > 0;
        if (a->value.kind == KindPoison)
            return false;
        if (in[at].kind != KindAbsent || (named && p[at].rest && rest.n)) {
            diag(e->f, DiagE0314, a->span, SARG(p[at].name));
            return false;
        }
        if (p[at].rest && !named)
            vec_push(e->perm, &rest, a->value);
        else
            in[at] = p[at].rest && a->value.kind != KindList ? value_list(&a->value, 1) : a->value;
    }
    for (uint32_t i = 0; i < n; i++) {
        if (p[i].rest && in[i].kind == KindAbsent)
            in[i] = value_list(rest.at, rest.n);
        if (in[i].kind != KindAbsent || p[i].optional)
            continue;
        diag(e->f, DiagE0313, here(e), SARG(b->name), SARG(p[i].name));
        help_called(e, b->name);
        in_library(e);
        return false;
    }
    return true;
}

Value builtin_call(Elab *e, uint32_t i, Args args) {
    Value in[MAX_PARAMS];
    uint32_t n;
    if (!place(e, &table[i], args, in, &n))
        return POISON;
    return table[i].fn ? table[i].fn(e, in, n) : apply_op(e, table[i].op, in, n);
}

// --- nets and weights ----------------------------------------------------------------------------

static bool want_net(Elab *e, Value v, const char *who, uint32_t *out) {
    *out = v.id;
    if (v.kind == KindNet)
        return true;
    diag(e->f, DiagE0305, here(e), who, value_what(v));
    diag_help(e->f, "name a net, as in %s(G)", who);
    in_library(e);
    return false;
}

static Value net_slots(Elab *e, Value v, const char *who, SlotKind kind) {
    uint32_t net;
    VEC(Value) out = {0};
    if (!want_net(e, v, who, &net))
        return POISON;
    uint32_t maker = net; // of its weights: a copy's are its model's
    while (!e->net_info.at[maker].made && e->m->net.at[maker].copy_of != NONE)
        maker = e->m->net.at[maker].copy_of;
    if (!e->net_info.at[maker].made && !net_make(e, maker)) {
        diag(e->f, DiagE0533, here(e), SARG(e->m->net.at[maker].name));
        in_library(e);
        return POISON;
    }
    net_sync(e, net);
    for (uint32_t i = 0; i < e->m->slot.n; i++)
        if (e->m->slot.at[i].net == net && e->m->slot.at[i].kind == kind)
            vec_push(e->perm, &out, ((Value){.kind = KindSlot, .id = i}));
    return value_list(out.at, out.n);
}

Value builtin_params(Elab *e, const Value *in, uint32_t n) {
    (void)n;
    if (in[0].kind == KindNet && in[0].given)
        return (Value){.kind = KindList, .list = in[0].list};
    return net_slots(e, in[0], "params", SlotParam);
}

Value builtin_buffers(Elab *e, const Value *in, uint32_t n) {
    (void)n;
    return net_slots(e, in[0], "buffers", SlotState);
}

Value builtin_eval(Elab *e, const Value *in, uint32_t n) {
    uint32_t net;
    (void)n;
    if (!want_net(e, in[0], "eval", &net))
        return POISON;
    Value v = in[0];
    v.eval = true;
    return v;
}

// The weights are read here: later calls of the net see these values.
Value builtin_with_params(Elab *e, const Value *in, uint32_t n) {
    List weights;
    Value slots = net_slots(e, in[0], "with_params", SlotParam), v = in[0];
    (void)n;
    if (slots.kind != KindList || !want_list(e, in[1], "with_params (the weights)", &weights))
        return POISON;
    if (weights.n != slots.list.n) {
        diag(e->f, DiagE0306, here(e), "with_params",
             str_z(e->perm, str_format(e->perm, "%u weights, as params(%.*s) has", slots.list.n,
                                       SARG(e->m->net.at[v.id].name))),
             SARG(str_format(e->perm, "%u", weights.n)));
        return POISON;
    }
    Value *now = arena_array(e->perm, Value, weights.n + 1);
    for (uint32_t i = 0; i < weights.n; i++) {
        Val w;
        if (!want_tensor(e, weights.at[i], &w) || !slot_fits(e, slots.list.at[i].id, &w, true))
            return POISON;
        now[i] = value_tensor(elab_pin(e, w)); // a grad may be taken to it, by params(net)
    }
    v.given = true;
    v.list = value_list(now, weights.n).list;
    return v;
}

static bool want_text(Elab *e, Value v, const char *who, Str *out) {
    *out = v.str;
    if (v.kind == KindStr && v.str.len)
        return true;
    if (v.kind != KindPoison)
        diag(e->f, DiagE0305, here(e), who, v.kind == KindStr ? "an empty text" : value_what(v));
    return false;
}

static Object *object_copy(Elab *e, const Object *o) {
    Object *copy = arena_new(e->perm, Object);
    *copy = *o;
    return copy;
}

// `net F = pretrained(vgg16, "vgg16.safetensors")` names what this makes.
Value builtin_pretrained(Elab *e, const Value *in, uint32_t n) {
    (void)n;
    Value v = value_takes_two_lists(in[0]) ? call_with(e, in[0], NULL, 0) : in[0];
    Outside *o = arena_new(e->perm, Outside);
    if (!want_text(e, in[1], "pretrained (its file)", &o->file) ||
        (in[2].kind != KindAbsent && !want_text(e, in[2], "pretrained (its prefix)", &o->prefix)))
        return POISON;
    if (v.kind == KindNet)
        v = e->net_info.at[v.id].fn;
    if (v.kind != KindObject && v.kind != KindFn) {
        if (v.kind != KindPoison)
            diag(e->f, DiagE0305, here(e), "pretrained (a net or its function)", value_what(v));
        return POISON;
    }
    if (v.kind == KindObject) {
        v.object = object_copy(e, v.object);
        v.object->whole = v.object->named = true;
    }
    v.copy_of = 0;
    v.outside = o;
    return v;
}

// A layer under a name of the text's choice: numbers and words, joined by dots.
Value builtin_named(Elab *e, const Value *in, uint32_t n) {
    Value v = value_takes_two_lists(in[0]) ? call_with(e, in[0], NULL, 0) : in[0];
    Text name = {.arena = e->perm};
    (void)n;
    if (v.kind != KindObject) {
        if (v.kind != KindPoison)
            diag(e->f, DiagE0305, here(e), "named (a layer)", value_what(v));
        return POISON;
    }
    if (!in[1].list.n) {
        diag(e->f, DiagE0313, here(e), 5, "named", 5, "parts");
        return POISON;
    }
    for (uint32_t i = 0; i < in[1].list.n; i++) {
        Value part = in[1].list.at[i];
        int64_t number;
        Str word;
        if (i)
            text_char(&name, '.');
        if (part.kind == KindNum) {
            if (!want_int(e, part, "named", &number))
                return POISON;
            text_fmt(&name, "%lld", (long long)number);
        } else if (want_text(e, part, "named", &word)) {
            text_put(&name, word);
        } else {
            return POISON;
        }
    }
    v.object = object_copy(e, v.object);
    v.object->label = text_str(&name);
    v.object->named = true;
    return v;
}

// `net G_avg = copy(G)` names what this makes.
Value builtin_copy(Elab *e, const Value *in, uint32_t n) {
    uint32_t net;
    (void)n;
    if (!want_net(e, in[0], "copy", &net))
        return POISON;
    Value v = e->net_info.at[net].fn;
    v.copy_of = net + 1;
    return v;
}

static uint32_t original(const Elab *e, uint32_t net) {
    while (e->m->net.at[net].copy_of != NONE)
        net = e->m->net.at[net].copy_of;
    return net;
}

Value builtin_copies(Elab *e, const Value *in, uint32_t n) {
    uint32_t a, b;
    (void)n;
    if (!want_net(e, in[0], "copies", &a) || !want_net(e, in[1], "copies", &b))
        return POISON;
    return value_bool(original(e, a) == original(e, b));
}

Value builtin_name(Elab *e, const Value *in, uint32_t n) {
    (void)n;
    bool place = in[0].kind == KindSlot;
    if (place || (in[0].kind == KindTensor && in[0].slot != NONE)) {
        Value name = value_str(e->m->slot.at[place ? in[0].id : in[0].slot].name);
        name.id = 1;
        return name;
    }
    diag(e->f, DiagE0305, here(e), "name (a weight or state)", value_what(in[0]));
    diag_help(e->f, "in an optimizer, its first argument is the weight: fn opt()(w, g)");
    in_library(e);
    return POISON;
}

Value builtin_total(Elab *e, const Value *in, uint32_t n) {
    (void)n;
    return eval_total(e, in[0]);
}

// `reached`: grad_reach of y.
static Value gradient(Elab *e, Val y, const uint8_t *reached, Value of) {
    Val x, g = {0};
    if (of.kind == KindList) {
        Value *each = arena_array(e->perm, Value, of.list.n);
        for (uint32_t i = 0; i < of.list.n; i++)
            each[i] = gradient(e, y, reached, of.list.at[i]);
        return value_list(each, of.list.n);
    }
    if (!want_tensor(e, of, &x)) {
        if (of.kind == KindNet)
            diag_help(e->f, "the gradients to its weights are the list grad(y, params(%.*s))",
                      SARG(e->m->net.at[of.id].name));
        return POISON;
    }
    uint32_t slot = weight_of(e, &of);
    if (slot != NONE)
        g = slot_gradient(e, slot, y, reached);
    else if (x.id <= y.id && reached[x.id])
        g = Grad(y, x);
    if (g.id)
        return value_tensor(g);
    diag(e->f, DiagE0519, here(e));
    in_library(e);
    note_origin(e, x);
    if (slot != NONE)
        diag_help(e->f, "take a weight of a net it was computed with; it does not depend on `%.*s`",
                  SARG(e->m->slot.at[slot].name));
    return POISON;
}

Value builtin_grad(Elab *e, const Value *in, uint32_t n) {
    Val y;
    Arena scratch;
    (void)n;
    if (!want_tensor(e, in[0], &y)) {
        if (in[0].kind == KindList)
            diag_help(e->f, "take one of the results; as a function, fn score(x) = D(x)[0], which "
                            "is given in place of D");
        return POISON;
    }
    arena_need(&scratch);
    Value g = gradient(e, y, grad_reach(y.b->g, &scratch, y.id), in[1]);
    arena_release(&scratch);
    return g;
}
