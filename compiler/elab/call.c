// call.c - calls: matching arguments with parameters and shapes with names, inlining bodies in the
// order of the text.
//
// In: a callable value and its arguments, evaluated left to right. Out: the value of its body; for
// the first list of a function of two lists, an object. Recursion depth is limited. A shape
// mismatch reports both sides.
#include "builtin.h"

#include <math.h>
#include <string.h>

// --- arguments -----------------------------------------------------------------------------------

static void add_argument(Elab *e, Env *env, const Ast *a, Args *out, uint32_t *cap) {
    Str name = {0};
    Span span = a->span;
    if (a->kind == AstArg) {
        name = a->text;
        span = a->word;
        a = a->a;
    }
    bool spread = a->kind == AstSpread;
    Value v = spread ? eval(e, env, a->a) : eval_argument(e, env, a);
    List items = {.at = &v, .n = 1};
    if (spread && !want_list(e, v, "`...`", &items))
        items.n = 0;
    for (uint32_t i = 0; i < items.n; i++) {
        vec_grow(e->perm, (void **)&out->at, cap, out->n, sizeof *out->at);
        out->at[out->n++] = (Arg){name, items.at[i], span};
    }
}

Args eval_args(Elab *e, Env *env, const Ast *call, const Value *first) {
    Args out = {.piped = first, .span = call->word};
    uint32_t cap = 0;
    if (first) {
        vec_grow(e->perm, (void **)&out.at, &cap, 0, sizeof *out.at);
        out.at[out.n++] = (Arg){.value = *first, .span = e->at};
    }
    for (uint32_t i = 0; i < call->list.n; i++)
        add_argument(e, env, call->list.at[i], &out, &cap);
    return out;
}

static void say_parameters(Elab *e, const Ast *params, Str who) {
    Text t = {.arena = e->perm};
    for (uint32_t i = 0; i < params->list.n; i++) {
        if (i)
            text_put(&t, STR(", "));
        text_put(&t, params->list.at[i]->text);
        if (params->list.at[i]->b)
            text_put(&t, STR("=..."));
    }
    diag_note(e->f, params->span, "%.*s(%.*s)", SARG(who), SARG(text_str(&t)));
}

static uint32_t parameter_find(const Ast *params, Str name) {
    for (uint32_t i = 0; i < params->list.n; i++)
        if (str_eq(params->list.at[i]->text, name))
            return i;
    return NONE;
}

// Of a function of the library, which a text may call its own by the same name.
static void help_library(Elab *e, const Ast *params, Str who) {
    if (e->f->source.at[params->span.file - 1].library)
        help_called(e, who);
}

static void unknown_parameter(Elab *e, const Ast *params, const Arg *a, Str who) {
    VEC(Str) known = {0};
    for (uint32_t i = 0; i < params->list.n; i++)
        vec_push(e->perm, &known, params->list.at[i]->text);
    Str near = str_nearest(a->name, known.at, known.n);
    diag(e->f, DiagE0312, a->span, SARG(who), SARG(a->name));
    help_library(e, params, who);
    help_name(e, a->name, near);
    say_parameters(e, params, who);
}

// A net or its weights.
static bool is_trained(Value v) {
    return v.kind == KindNet || (v.kind == KindList && v.list.n && v.list.at[0].kind == KindSlot);
}

// After a mistake in the arguments' places: what came through `|>` is one of them.
static void help_piped(Elab *e, const Ast *params, Args args, Str who) {
    if (args.piped && !e->f->source.at[params->span.file - 1].library)
        diag_help(e->f,
                  "`x |> %.*s(a)` is %.*s(x, a); where %.*s gives a layer, that is applied by "
                  "%.*s(a)(x)",
                  SARG(who), SARG(who), SARG(who), SARG(who));
}

// Which argument each parameter takes; NULL for none. False after a diagnostic.
static bool place_arguments(Elab *e, const Ast *params, Args args, Str who, const Arg **taken) {
    uint32_t next = 0;
    for (uint32_t i = 0; i < args.n; i++) {
        const Arg *a = &args.at[i];
        uint32_t at = a->name.len ? parameter_find(params, a->name) : next++;
        if (at == NONE) {
            unknown_parameter(e, params, a, who);
            return false;
        }
        if (at >= params->list.n) {
            diag(e->f, DiagE0311, here(e), SARG(who), params->list.n,
                 params->list.n == 1 ? "" : "s", args.n);
            say_parameters(e, params, who);
            help_library(e, params, who);
            help_piped(e, params, args, who);
            for (uint32_t k = 0; k < args.n; k++)
                if (args.at[k].value.kind == KindObject)
                    help_wrapped_layer(e, who);
            return false;
        }
        if (taken[at]) {
            diag(e->f, DiagE0314, a->span, SARG(params->list.at[at]->text));
            diag_note(e->f, taken[at]->span,
                      taken[at]->name.len ? "it is given here" : "it is given here, by position");
            if (!taken[at]->name.len)
                help_piped(e, params, args, who);
            if (is_trained(taken[at]->value))
                diag_help(e->f, "an optimizer takes no weights: what it trains is said by the "
                                "update, update D minimize LOSS using opt");
            return false;
        }
        taken[at] = a;
    }
    return true;
}

// An argument as it can be written again: a number as its value, a layer as in the text.
static Str argument_text(Elab *e, const Arg *arg) {
    Str text = arg->span.file ? span_text(e->f, arg->span) : (Str){0};
    bool one_line = text.len && str_find(text, '\n') == text.len;
    return one_line && !value_is_setting(arg->value) ? text : value_text(e, arg->value);
}

static bool bind_parameter(Elab *e, Env *callee, const Ast *p, const Arg *arg, Str who) {
    if (!arg && !p->b) {
        diag(e->f, DiagE0313, here(e), SARG(who), SARG(p->text));
        diag_note(e->f, p->span, "`%.*s` is declared here", SARG(p->text));
        if (e->f->source.at[p->span.file - 1].library)
            help_called(e, who);
        return false;
    }
    if (arg && !arg->name.len && p->a && is_option(p->a)) {
        diag(e->f, DiagE0326, here(e), SARG(p->text), SARG(who), SARG(p->text),
             SARG(argument_text(e, arg)));
        diag_note(e->f, p->span, "`%.*s` is declared here", SARG(p->text));
        return false;
    }
    Value v = value_now(e, arg ? arg->value : eval(e, callee, p->b));
    if (p->a && v.kind != KindPoison && !match_parameter(e, callee, p, &v, who))
        return false;
    bind_name(e, callee, p->text, v);
    note_worth(e, p->word, v);
    return v.kind != KindPoison;
}

// What a shape would have bound is poison: parameters behind it may speak of these extents, as
// y: label(k) does behind scores: [k].
static void lose_extents(Elab *e, Env *callee, const Ast *shape) {
    for (uint32_t i = 0; shape && shape->kind == AstList && i < shape->list.n; i++) {
        const Ast *a = shape->list.at[i];
        Value known;
        a = a->kind == AstSpread ? a->a : a;
        if (a->kind == AstName && !scope_find(callee, a->text, &known))
            callee->local = scope_bind(e, callee->local, a->text, POISON);
    }
}

static bool bind_params(Elab *e, Env *callee, const Ast *params, Args args, Str who) {
    const Arg **taken = arena_array(e->perm, const Arg *, params->list.n);
    if (!place_arguments(e, params, args, who, taken))
        return false;
    bool fine = true;
    for (uint32_t i = 0; i < params->list.n; i++) {
        const Ast *p = params->list.at[i];
        bool bound = bind_parameter(e, callee, p, taken[i], who);
        if (!bound) {
            lose_extents(e, callee, p->a);
            bind_name(e, callee, p->text, POISON);
        }
        fine = fine && bound;
    }
    return fine;
}

// --- shapes --------------------------------------------------------------------------------------

// The extents a pattern asks for, as far as they are known: for the message.
static Str pattern_text(Elab *e, Env *env, const Ast *shape) {
    Text t = {.arena = e->perm};
    text_char(&t, '[');
    for (uint32_t i = 0; i < shape->list.n; i++) {
        const Ast *a = shape->list.at[i];
        bool spread = a->kind == AstSpread;
        Value v;
        if (i)
            text_put(&t, STR(", "));
        if (spread)
            a = a->a;
        bool known = a->kind == AstName
                         ? scope_find(env, a->text, &v) && (value_is_plain(v) || v.kind == KindList)
                         : (v = eval(e, env, a)).kind != KindPoison;
        if (known && spread && v.kind == KindList && !v.list.n)
            t.n -= i ? 2 : 0;
        else if (known && spread && v.kind == KindList)
            text_put(&t, str_sub(value_text(e, v), 1, value_text(e, v).len - 1));
        else if (known)
            text_put(&t, value_text(e, v));
        else
            text_fmt(&t, "%s%.*s", spread ? "..." : "", SARG(span_text(e->f, a->span)));
    }
    text_char(&t, ']');
    return text_str(&t);
}

// A name that is not yet a number is bound to what it meets; anything else is compared with it.
static bool match_one(Elab *e, Env *env, const Ast *a, Value met) {
    Value known;
    if (a->kind == AstName) {
        bool list = met.kind == KindList;
        if (!scope_find(env, a->text, &known) ||
            !(list ? known.kind == KindList : value_is_plain(known))) {
            env->local = scope_bind(e, env->local, a->text, met);
            return true;
        }
    } else {
        known = eval(e, env, a);
    }
    return value_equal(known, met);
}

static bool match_list(Elab *e, Env *env, const Ast *shape, const Type *t) {
    uint32_t n = shape->list.n, spread = NONE, at = 0;
    for (uint32_t i = 0; i < n; i++) {
        if (shape->list.at[i]->kind != AstSpread)
            continue;
        if (spread != NONE) {
            diag(e->f, DiagE0427, shape->list.at[i]->span);
            return false;
        }
        spread = i;
    }
    if (spread == NONE ? t->rank != n : t->rank + 1u < n)
        return false;
    for (uint32_t i = 0; i < n; i++) {
        const Ast *a = shape->list.at[i];
        if (i != spread) {
            if (!match_one(e, env, a, value_num((double)t->dim[at++])))
                return false;
            continue;
        }
        uint32_t rest = t->rank + 1 - n;
        if (!match_one(e, env, a->a, extents_value(e, t->dim + at, rest)))
            return false;
        at += rest;
    }
    return true;
}

// Extents of a pattern: 0 where not known. False where it has a `...`.
static bool pattern_extents(Elab *e, Env *env, const Ast *shape, Type *out) {
    *out = (Type){0};
    if (shape->list.n > MAX_RANK)
        return false;
    for (; out->rank < shape->list.n; out->rank++) {
        const Ast *a = shape->list.at[out->rank];
        Value v = {0};
        if (a->kind == AstSpread)
            return false;
        bool known = a->kind == AstName ? scope_find(env, a->text, &v) && value_is_plain(v)
                                        : (v = eval(e, env, a)).kind == KindNum;
        out->dim[out->rank] = known ? (int64_t)v.num : 0;
    }
    return true;
}

static bool is_turned(const Type *a, const Type *b, uint32_t by) { // a: b's axes, `by` further on
    bool same = a->rank == b->rank && by < b->rank;
    for (uint32_t i = 0; same && i < a->rank; i++)
        same = a->dim[i] == b->dim[(i + by) % b->rank];
    return same;
}

static int64_t elements_of(const Type *t) { // of a sample; 0: not known
    int64_t n = 1;
    for (uint32_t i = 0; i < t->rank; i++)
        n *= t->dim[i];
    return n;
}

// Pictures whose extents differ by one: a kernel and its padding do not go together.
static bool is_off_by_one(const Type *a, const Type *b) {
    bool off = a->rank > 1 && a->rank == b->rank && a->dim[0] == b->dim[0];
    for (uint32_t i = 1; off && i < a->rank; i++)
        off = a->dim[i] && (a->dim[i] == b->dim[i] + 1 || a->dim[i] + 1 == b->dim[i]);
    return off;
}

// Images in front of each other in one more axis, or with their channels in a row.
static bool is_joined(const Type *one, Val v) {
    Type t = val_type(v);
    uint32_t more = t.rank - one->rank;
    bool joined = one->rank > 1 && t.rank >= one->rank && more < 2 &&
                  graph_node(v.b->g, v.id)->op == OpConcat && t.dim[0] > 1;
    for (uint32_t i = more ? 0 : 1; joined && i < one->rank; i++)
        joined = t.dim[i + more] == one->dim[i];
    return joined && (more || (one->dim[0] && t.dim[0] % one->dim[0] == 0));
}

// The usual cause of a mismatch between the pattern w and a value of shape t, if it is one of
// these.
static void help_shape(Elab *e, const Type *w, const Type *t, Str expected) {
    int64_t elements = elements_of(t), wanted = elements_of(w);
    bool picture = w->rank == 3 && w->dim[0] != e->o->batch; // its first axis has the channels
    Type rest = {.rank = w->rank ? w->rank - 1 : 0};
    memcpy(rest.dim, w->dim + 1, rest.rank * sizeof *w->dim);
    if (w->rank == 0 && elements == 1)
        diag_help(e->f, "squeeze(x) drops the axes of extent 1");
    else if (w->rank == 0)
        diag_help(e->f, "[] is one number: mean(x, sample) is one for each sample, mean(x) one for "
                        "the whole batch");
    else if (w->rank > 1 && w->dim[0] > 1 && !picture && is_turned(&rest, t, 0))
        diag_help(e->f, "a shape is one sample's: leave the batch out");
    else if (w->rank == 1 && t->rank > 1 && (!wanted || wanted == elements))
        diag_help(e->f, "flatten(x) makes one axis of all, mean(x, space) is one number a channel; "
                        "linear(c) is a dense layer along the last axis");
    else if (w->rank == 3 && is_turned(w, t, 1))
        diag_help(e->f, "channels come first: %.*s",
                  SARG(value_text(e, extents_value(e, t->dim, t->rank))));
    else if (w->rank == 3 && is_turned(w, t, 2))
        diag_help(e->f, "channels come first: %.*s", SARG(expected));
    else if (is_off_by_one(w, t))
        diag_help(e->f, "k=4, stride=2, pad=1 halves or doubles extents exactly; k=3, pad=1 keeps "
                        "them");
    else if (w->rank != t->rank && wanted == elements)
        diag_help(e->f, "reshape(x, %.*s) has this shape",
                  SARG(str_sub(expected, 1, expected.len - 1)));
}

static bool is_numbers(const Ast *shape) {
    for (uint32_t i = 0; i < shape->list.n; i++)
        if (shape->list.at[i]->kind != AstNum)
            return false;
    return shape->kind == AstList;
}

// A result is refused where its function declares it: what calls it is right, unless it said the
// numbers.
static void refuse_result(Elab *e, const Ast *shape, Str who, Str expected, Str found) {
    Span call = here(e), at = shape->span;
    if (e->f->source.at[at.file - 1].library) {
        diag(e->f, DiagE0403, call, SARG(who), SARG(expected), SARG(found));
        diag_note(e->f, at, "%.*s is expected here", SARG(expected));
        return;
    }
    diag(e->f, DiagE0403, at, SARG(who), SARG(expected), SARG(found));
    if (!is_numbers(shape))
        diag_note(e->f, call, "in this call");
}

bool match_shape(Elab *e, Env *env, const Ast *shape, Val v, Str who, Str name) {
    Env before = *env;
    Type t = val_type(v);
    bool fits, is_list = shape->kind == AstList;
    uint32_t errors = diag_errors(e->f);
    Value wanted = {0};
    if (is_list) {
        fits = match_list(e, env, shape, &t);
    } else {
        wanted = eval(e, env, shape);
        fits = value_equal(wanted, extents_value(e, t.dim, t.rank));
    }
    if (fits || diag_errors(e->f) > errors) // the mistake may be in the shape
        return fits;
    Str expected = is_list ? pattern_text(e, &before, shape) : value_text(e, wanted);
    Str found = value_text(e, extents_value(e, t.dim, t.rank));
    bool batch = is_list && t.rank == shape->list.n + 1u && t.dim[0] == e->o->batch;
    if (name.len) {
        diag(e->f, DiagE0401, here(e), SARG(who), SARG(name), SARG(expected), SARG(found));
        diag_note(e->f, shape->span, "%.*s is expected here", SARG(expected));
    } else {
        refuse_result(e, shape, who, expected, found);
    }
    Type asked;
    double number;
    if (name.len && e->f->source.at[shape->span.file - 1].library)
        diag_help(e->f, "give it a tensor of that shape");
    if (!is_list && value_is_plain(wanted))
        diag_help(e->f, "a shape stands in brackets: [%.*s]", SARG(expected));
    bool known = is_list && pattern_extents(e, &before, shape, &asked);
    if (known && is_joined(&asked, v))
        diag_help(e->f,
                  "two batches do not become one: `%.*s` is applied to each of what was joined",
                  SARG(who));
    else if (known && !t.rank && asked.rank && node_is_const(v.b->g, v.id, &number))
        diag_help(e->f, "the number at each place is expand(%g, %.*s)", number,
                  SARG(str_sub(expected, 1, expected.len - 1)));
    else if (known)
        help_shape(e, &asked, &t, expected);
    else if (is_list && t.rank + 1u < shape->list.n) // `...rest` may be none
        diag_help(e->f, "unsqueeze(x, 0) has one more axis in front, reshape(x, ...) others");
    if (batch && t.batched)
        diag_help(e->f, "a shape is one sample's: leave the batch out");
    note_origin(e, v);
    return false;
}

static uint64_t maker_key(const Graph *g, uint32_t node) {
    uintptr_t key[2] = {(uintptr_t)g, node};
    return hash64(key, sizeof key, 0);
}

// Of a block that several calls share the line alone does not tell which of them it was.
static void note_maker(Elab *e, Val v) {
    uint32_t i = map_find(&e->makers.find, maker_key(v.b->g, v.id));
    const Maker *m = i ? &e->makers.at.at[i - 1] : NULL;
    if (m && m->g == v.b->g && m->node == v.id)
        diag_note(e->f, m->call, "by this call of `%.*s`", SARG(m->fn->text));
}

void note_origin(Elab *e, Val v) {
    const Node *n = graph_node(v.b->g, v.id);
    Type t = val_type(v);
    Str type = type_text(e->perm, &t);
    if (!n->span || n->op == OpConst) // a number is one node, wherever it stands
        return;
    Span span = v.b->g->span.at[n->span].span;
    if (n->op != OpRead) {
        diag_note(e->f, span, "%.*s was computed here", SARG(type));
        note_maker(e, v);
    } else
        diag_note(e->f, span, "`%.*s` is %.*s", SARG(e->m->slot.at[node_slot(v.b->g, v.id)].name),
                  SARG(type));
}

static Value check_result(Elab *e, Env *callee, const Ast *fn, Value v) {
    if (!fn->has_result || v.kind == KindPoison)
        return v;
    if (v.kind == KindNone) {
        diag(e->f, DiagE0420, fn->word, SARG(fn->text));
        return POISON;
    }
    List got = {.at = &v, .n = 1};
    if (fn->list.n != 1) {
        if (v.kind != KindList || v.list.n != fn->list.n) {
            diag(e->f, DiagE0315, here(e), SARG(fn->text), fn->list.n, value_what(v));
            return POISON;
        }
        got = v.list;
    }
    for (uint32_t i = 0; i < got.n; i++) {
        Val val;
        if (!want_tensor(e, got.at[i], &val))
            return POISON;
        if (!match_shape(e, callee, fn->list.at[i], val, fn->text, (Str){0}))
            return POISON;
    }
    return v;
}

// --- calls ---------------------------------------------------------------------------------------

bool value_takes_two_lists(Value f) {
    return f.kind == KindFn && f.fn->ast->b && f.fn->ast->kind == AstFn;
}

static bool is_own(const Elab *e, const Ast *fn) {
    return fn->kind == AstFn && !e->f->source.at[fn->span.file - 1].library;
}

// Which call of a function of the model's own met the mistake. What a net is called with is checked
// at its call, and stated by its head.
static void note_call(Elab *e, const Ast *fn, Span call) {
    if (is_own(e, fn) && call.file && !e->stop)
        diag_note(e->f, call, "in this call of `%.*s`", SARG(fn->text));
}

static void keep_maker(Elab *e, const Ast *fn, Span call, Value v) {
    if (!is_own(e, fn) || !call.file || v.kind != KindTensor)
        return;
    Maker m = {v.tensor.val.b->g, v.tensor.val.id, fn, call};
    vec_push(e->perm, &e->makers.at, m);
    map_put(e->perm, &e->makers.find, maker_key(m.g, m.node), e->makers.at.n);
}

// Evaluates a function's body for one list of arguments, on top of `base`.
static Value apply_body(Elab *e, const Closure *fn, const Binding *base, const Ast *params,
                        Args args) {
    Env callee = {scope_mark(e, base, BindFn), fn->env.globals, {0}};
    callee.pinned = grad_names(e, &fn->env, fn->ast->c);
    if (!bind_params(e, &callee, params, args, fn->ast->text))
        return POISON;
    Span call = here(e);
    uint32_t errors = diag_errors(e->f);
    Value v = value_now(e, eval(e, &callee, fn->ast->c));
    if (diag_errors(e->f) > errors)
        note_call(e, fn->ast, call);
    keep_maker(e, fn->ast, call, v);
    return check_result(e, &callee, fn->ast, v);
}

static Value make_object(Elab *e, const Closure *fn, Args args) {
    Env callee = {scope_mark(e, fn->env.local, BindFn), fn->env.globals, {0}};
    if (!bind_params(e, &callee, fn->ast->a, args, fn->ast->text))
        return POISON;
    Object *o = arena_new(e->perm, Object);
    *o = (Object){.fn = fn,
                  .args = callee.local,
                  .maker = e->owner,
                  .place = text_place(e, e->at),
                  .made = here(e),
                  .label = fn->ast->text};
    return (Value){.kind = KindObject, .object = o};
}

// A layer made outside of all nets has weights in each that applies it: two that seem to share it
// do not. Copies of a net, and nets of one function, are meant to have their own.
static void warn_split(Elab *e, Object *o, uint32_t net, uint32_t slots) {
    bool made = false;
    for (uint32_t i = slots; i < e->m->slot.n; i++)
        made |= e->m->slot.at[i].kind == SlotParam && e->m->slot.at[i].net == net;
    if (!made || o->weights_in == net + 1)
        return;
    if (!o->weights_in) {
        o->weights_in = net + 1;
        return;
    }
    uint32_t first = o->weights_in - 1;
    if (value_ast(e->net_info.at[first].fn) == value_ast(e->net_info.at[net].fn))
        return;
    diag(e->f, DiagW0926, here(e), SARG(o->label), SARG(e->m->net.at[first].name),
         SARG(e->m->net.at[net].name));
    diag_note(e->f, o->made, "it is made here, outside of both");
}

static Value apply_object(Elab *e, Object *o, Args args) {
    Owner *outer = e->owner;
    Owner *place = o->maker->net == NONE && e->net ? e->net : o->maker;
    Owner own = {.outer = place, .object = o, .net = place->net, .place = OwnBody};
    Owner *kept = arena_new(e->perm, Owner); // objects made inside remember it
    *kept = own;
    e->owner = kept;
    LayerMark before = layer_begin(e);
    Value v = apply_body(e, o->fn, o->args, o->fn->ast->b, args);
    layer_end(e, before, kept, v);
    if (place != o->maker)
        warn_split(e, o, place->net, before.slots);
    e->owner = outer;
    return v;
}

static Value apply_function(Elab *e, const Closure *fn, Args args) {
    Owner *own = e->owner;
    uint64_t outer = own->place;
    own->place = outer ? text_place(e, e->at) : OwnBody;
    Value v = apply_body(e, fn, fn->env.local, fn->ast->a, args);
    own->place = outer;
    return v;
}

static Value dispatch(Elab *e, Value f, Args args) {
    switch (f.kind) {
    case KindFn:
        return value_takes_two_lists(f) ? make_object(e, f.fn, args)
                                        : apply_function(e, f.fn, args);
    case KindObject:
        return apply_object(e, f.object, args);
    case KindBuiltin:
        return builtin_call(e, f.id, args);
    case KindNet:
        return net_call(e, f, args);
    case KindPoison:
        return POISON;
    default:
        break; // nothing else can be called
    }
    diag(e->f, DiagE0310, here(e), value_what(f));
    if (!args.n)
        diag_help(e->f, "a value is named without parentheses");
    else if (f.kind == KindList)
        diag_help(e->f, "pipe through them in turn: x |> a |> b, or for f in list { x = f(x) }");
    in_library(e);
    return POISON;
}

Value call_value(Elab *e, Value f, Args args) {
    if (e->stop)
        return POISON;
    if (e->calls == MAX_CALLS) {
        diag(e->f, DiagE0316, here(e), MAX_CALLS);
        e->stop = true;
        return POISON;
    }
    e->calls++;
    Value v = dispatch(e, f, args);
    e->calls--;
    return v;
}

Value call_with(Elab *e, Value f, const Value *at, uint32_t n) {
    Args args = {.at = arena_array(e->perm, Arg, n), .n = n, .span = here(e)};
    for (uint32_t i = 0; i < n; i++)
        args.at[i] = (Arg){.value = at[i], .span = args.span};
    return call_value(e, f, args);
}

Value call_bare(Elab *e, Value f, Value x) {
    if (value_takes_two_lists(f))
        f = call_with(e, f, NULL, 0);
    return call_with(e, f, &x, 1);
}

// After DiagE0310: a function of the library or the core that the text has given another value.
static void help_rebound(Elab *e, const Ast *callee, Value f) {
    uint32_t builtin;
    bool known =
        (value_is_plain(f) || value_is_tensor(f)) && callee->kind == AstName &&
        (globals_find(&e->library, callee->text) || builtin_find(e, callee->text, &builtin));
    if (known)
        diag_help(e->f, "the text binds `%.*s`, which hides the function: choose another name",
                  SARG(callee->text));
}

// `dropout(0.5)(x)`: after DiagE0313 of a function that is called as if it made a layer.
static void help_two_lists(Elab *e, Env *env, const Ast *callee) {
    Value f =
        callee->kind == AstCall && callee->a->kind == AstName ? eval(e, env, callee->a) : POISON;
    if (f.kind == KindFn && !value_takes_two_lists(f))
        diag_help(e->f,
                  "`%.*s` makes no layer: what it is applied to is its first argument, x |> "
                  "%.*s(...)",
                  SARG(f.fn->ast->text), SARG(f.fn->ast->text));
}

Value eval_call(Elab *e, Env *env, const Ast *a) {
    uint32_t before = diag_errors(e->f);
    Value f = eval(e, env, a->a);
    if (diag_errors(e->f) > before)
        help_two_lists(e, env, a->a);
    Args args = eval_args(e, env, a, NULL);
    uint32_t errors = diag_errors(e->f);
    Value v = call_value(e, f, args);
    if (diag_errors(e->f) > errors)
        help_rebound(e, a->a, f);
    return v;
}

// A tensor into what takes a layer or a net first (named, eval, with_params): into what that gives.
static bool goes_behind(Value x, Value f) {
    Str params = f.kind == KindBuiltin ? builtin_get(f.id)->params : (Str){0};
    return x.kind == KindTensor &&
           (str_starts(params, STR("layer")) || str_starts(params, STR("net")));
}

// `x |> f(a)` is f(x, a); when f takes two lists it is f(a)(x), and a bare f is made with its
// defaults.
// h + h |> f, which is f(h + h), where h + (h |> f) was meant.
static void warn_doubled(Elab *e, const Ast *a) {
    const Ast *sum = a->a;
    if (sum->kind != AstBinary || sum->a->kind != AstName || sum->b->kind != AstName ||
        !str_eq(sum->a->text, sum->b->text))
        return;
    bool adds = str_eq(sum->text, STR("+")) || str_eq(sum->text, STR("-"));
    Str between = span_text(e->f, (Span){sum->span.file, sum->span.hi, a->b->span.lo});
    if (adds && str_find(between, ')') == between.len)
        diag(e->f, DiagW0923, sum->span, SARG(span_text(e->f, sum->span)));
}

Value eval_pipe(Elab *e, Env *env, const Ast *a) {
    warn_doubled(e, a);
    Value x = value_now(e, eval(e, env, a->a));
    Spot outer = spot_enter(e, a->b);
    const Ast *call = a->b->kind == AstCall ? a->b : NULL, *callee = call ? call->a : a->b;
    Value f = eval(e, env, callee), v;
    uint32_t errors = diag_errors(e->f);
    if (!call)
        v = call_bare(e, f, x);
    else if (value_takes_two_lists(f) || goes_behind(x, f))
        v = call_with(e, call_value(e, f, eval_args(e, env, call, NULL)), &x, 1);
    else
        v = call_value(e, f, eval_args(e, env, call, &x));
    if (diag_errors(e->f) > errors)
        help_rebound(e, callee, f);
    spot_leave(e, outer);
    return v;
}
