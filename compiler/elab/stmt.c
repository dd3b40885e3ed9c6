// stmt.c - statements: bindings, assignments, declarations, compile-time loops, reports. Blocks run
// them in order.
//
// In: a statement and its environment. Out: bindings in the environment, values in the slots'
// cells, entries in the function being built.
#include "elab.h"

// An object bound to a name is called so in the names of its weights: `head = dense(1)` makes
// `D.head.w`.
static void name_object(Value v, Str name) {
    if (v.kind != KindObject || v.object->named || v.object->component.len)
        return;
    v.object->label = name;
    v.object->named = true;
}

static uint32_t takes_rest(uint32_t n, Ast *const *target) { // n: none does
    uint32_t at = 0;
    while (at < n && target[at]->kind != AstRest)
        at++;
    return at;
}

// Of names one of which takes the rest: the list that has a list for that one.
static Value with_rest(Elab *e, uint32_t n, Ast *const *target, Value v) {
    uint32_t at = takes_rest(n, target);
    if (at == n || v.kind != KindList || v.list.n + 1 < n)
        return v;
    uint32_t rest = v.list.n + 1 - n;
    Value *part = arena_array(e->perm, Value, n);
    for (uint32_t i = 0; i < n; i++)
        part[i] = i == at ? value_list(v.list.at + at, rest) : v.list.at[i < at ? i : i + rest - 1];
    return value_list(part, n);
}

// Those of a list are called by their own names, `a, b = [dense(1), dense(2)]`, or by the list's
// and their number, as the nets of a list are: `D.heads.0.w`.
static void name_value(Elab *e, Str name, Value v) {
    name_object(v, name);
    for (uint32_t i = 0; v.kind == KindList && i < v.list.n; i++)
        if (v.list.at[i].kind == KindObject)
            name_object(v.list.at[i], str_format(e->perm, "%.*s.%u", SARG(name), i));
}

static void name_objects(Elab *e, uint32_t n, Ast *const *target, Value v) {
    if (n == 1) {
        name_value(e, target[0]->text, v);
        return;
    }
    v = with_rest(e, n, target, v);
    for (uint32_t i = 0; v.kind == KindList && i < v.list.n && i < n; i++)
        if (target[i]->kind == AstRest)
            name_value(e, target[i]->text, v.list.at[i]);
        else
            name_object(v.list.at[i], target[i]->text);
}

// A name given to a weight means the weight, wherever it was read: a gradient to it is to all
// reads.
static Value pinned(Elab *e, Value v) {
    if (v.kind == KindList) {
        Value *at = arena_array(e->perm, Value, v.list.n);
        for (uint32_t i = 0; i < v.list.n; i++)
            at[i] = pinned(e, v.list.at[i]);
        v.list.at = at;
    } else if (v.kind == KindTensor && weight_of(e, &v) == NONE)
        v.tensor.val = elab_pin(e, v.tensor.val);
    return v;
}

void bind_name(Elab *e, Env *env, Str name, Value v) {
    bool pin = names_has(env->pinned, name);
    env->local = scope_bind(e, env->local, name, pin ? pinned(e, v) : v);
}

void bind_lost(Elab *e, Env *env, const Ast *a) {
    if (!a)
        return;
    if (a->kind == AstBind || a->kind == AstFor || a->kind == AstHole)
        for (uint32_t i = 0; i < a->list.n; i++)
            bind_name(e, env, a->list.at[i]->text, POISON);
    else if (a->kind == AstParam || a->kind == AstState || a->kind == AstFn)
        bind_name(e, env, a->text, POISON);
    for (uint32_t i = 0; a->kind == AstBlock && i < a->list.n; i++)
        bind_lost(e, env, a->list.at[i]);
    if (a->kind == AstIf)
        bind_lost(e, env, a->b);
    if (a->kind == AstIf || a->kind == AstFor)
        bind_lost(e, env, a->c);
}

// The name of the function that a text calls last, or empty.
static Str called_last(const Ast *a) {
    bool piped = a && a->kind == AstPipe;
    while (a && a->kind == AstPipe)
        a = a->b;
    if (a && a->kind == AstCall)
        a = a->a;
    else if (!piped) // x |> sort is a call, a name alone is none
        return (Str){0};
    return a && a->kind == AstName ? a->text : (Str){0};
}

// Of what is no list several names were bound, in the text `from`, or where that is NULL by a loop.
static void refuse_parts(Elab *e, const Ast *from, Value v) {
    Str gives = gives_habit(called_last(from));
    diag(e->f, DiagE0305, here(e), "a binding of several names", value_what(v));
    if (!value_is_tensor(v))
        diag_help(e->f, "give a list of as many: a, b = [1, 2], for c, k in [[64, 3], [128, 5]]");
    else if (gives.len)
        diag_help(e->f, "%.*s", SARG(gives));
    else
        diag_help(e->f, "equal parts of a tensor are a, b = chunk(x, 2), its rows [x[0], x[1]]");
}

void bind_names(Elab *e, Env *env, const Ast *from, uint32_t n, Ast *const *target, Value v) {
    if (n == 1) {
        bind_name(e, env, target[0]->text, v);
        note_worth(e, target[0]->span, v);
        return;
    }
    v = with_rest(e, n, target, v);
    if (v.kind != KindList || v.list.n != n) {
        if (v.kind == KindList)
            diag(e->f, DiagE0304, here(e), n - (takes_rest(n, target) < n), v.list.n);
        else if (v.kind != KindPoison)
            refuse_parts(e, from, v);
    }
    for (uint32_t i = 0; i < n; i++) {
        Value part = v.kind == KindList && i < v.list.n ? v.list.at[i] : POISON;
        bind_name(e, env, target[i]->text, part);
        note_worth(e, target[i]->span, part);
    }
}

// A name that `=` may not bind here; after a diagnostic.
static bool bound_for_good(Elab *e, Env *env, const Ast *name) {
    Value v;
    bool found = scope_find(env, name->text, &v);
    bool state = found && (v.kind == KindSlot ? e->m->slot.at[v.id].kind == SlotState
                                              : v.kind == KindList && v.id);
    if (scope_rebinds_outer(env, name->text)) {
        diag(e->f, DiagE0512, name->span, SARG(name->text));
        if (e->to->rounds && !e->turn)
            diag_help(e->f, "bind another name inside; a value that each round changes takes "
                            "for i in range(n) { ... }, which is unrolled, or a `state`");
        scope_lose(env, name->text);
    } else if (state)
        diag(e->f, DiagE0529, name->span, SARG(name->text), "state");
    else
        return false;
    return true;
}

// A loop that seems to change a setting from round to round finds its first value in each; an
// optimizer made where a step has come so far is not the one that updates name.
static void warn_hidden_setting(Elab *e, const Env *env, const Ast *name) {
    const Global *hidden = scope_hidden_setting(env, name->text);
    if (!hidden)
        return;
    diag(e->f, DiagW0910, name->span, SARG(name->text));
    diag_note(e->f, hidden->span, "`%.*s` is bound here", SARG(name->text));
    if (hidden->value.kind == KindObject)
        diag_help(e->f, "choose another name; a rate that changes from some step on is a schedule, "
                        "adam(lr=milestones(2e-4, [1000]))");
}

static void eval_bind(Elab *e, Env *env, const Ast *a) {
    for (uint32_t i = 0; i < a->list.n; i++)
        warn_hidden_setting(e, env, a->list.at[i]);
    for (uint32_t i = 0; i < a->list.n; i++)
        if (bound_for_good(e, env, a->list.at[i])) {
            bind_names(e, env, a->c, a->list.n, a->list.at, POISON);
            return;
        }
    Value v = value_now(e, eval(e, env, a->c));
    name_objects(e, a->list.n, a->list.at, v);
    bind_names(e, env, a->c, a->list.n, a->list.at, v);
}

// What could not be declared is among them, and assigned nothing.
static bool is_places(Value v) {
    bool places = v.kind == KindList && (v.list.n || v.id); // id: declared as such, of no shapes
    for (uint32_t i = 0; places && i < v.list.n; i++)
        places = v.list.at[i].kind == KindSlot || v.list.at[i].kind == KindPoison;
    return places;
}

// Each place of a list gets its own value. All are read before the first is replaced.
static void list_assign(Elab *e, List place, Value v) {
    if (v.kind == KindPoison)
        return;
    if (v.kind != KindList || v.list.n != place.n) {
        Str count = str_format(e->perm, "a list of %u", v.list.n);
        diag(e->f, DiagE0305, here(e),
             str_z(e->perm, str_format(e->perm, "`:=` to a list of %u", place.n)),
             v.kind == KindList ? str_z(e->perm, count) : value_what(v));
        diag_help(e->f, "give it as many values, [0*w for w in list], or assign to one, list[0]");
        return;
    }
    Value *now = arena_array(e->perm, Value, place.n);
    for (uint32_t i = 0; i < place.n; i++)
        now[i] = value_now(e, v.list.at[i]);
    for (uint32_t i = 0; i < place.n; i++)
        if (place.at[i].kind == KindSlot)
            slot_assign(e, place.at[i].id, now[i]);
}

static void eval_assign(Elab *e, Env *env, const Ast *a) {
    Value place, index;
    bool element = a->a->kind == AstIndex;
    const Ast *name = element ? a->a->a : a->a;
    if (!e->to->fn) {
        diag(e->f, DiagE0514, here(e), "`:=`");
        if (!scope_find(env, name->text, &place)) {
            diag_help(e->f, "to bind a name write `=`");
            bind_name(e, env, name->text, POISON);
        }
        in_library(e);
        return;
    }
    if (element)
        index = eval(e, env, a->a->list.at[0]);
    Value v = eval(e, env, a->c);
    if (!scope_find(env, name->text, &place)) {
        Str near = scope_nearest(e, env, name->text);
        diag(e->f, DiagE0301, name->span, SARG(name->text));
        help_name(e, name->text, near);
        bind_name(e, env, name->text, POISON);
    } else if (is_places(place) && element) {
        int64_t at;
        if (want_position(e, index, place.list.n, &at) && place.list.at[at].kind == KindSlot)
            slot_assign(e, place.list.at[at].id, v);
    } else if (is_places(place)) {
        list_assign(e, place.list, v);
    } else if (place.kind == KindSlot && element) {
        element_assign(e, place.id, index, v);
    } else if (place.kind == KindSlot) {
        slot_assign(e, place.id, v);
    } else if (place.kind != KindPoison) {
        diag(e->f, DiagE0513, name->span, SARG(name->text), value_what(place));
        if (place.kind == KindTensor && place.slot != NONE)
            diag_help(e->f,
                      "the name has the value of that moment; a list has the places: "
                      "ws = params(G), then ws[0] := 0.5*ws[0], or for w in ws { w := 0.5*w }");
        else if (place.kind == KindTensor)
            diag_help(e->f,
                      "`=` binds a value; assign to the name that `state` declares, at the top "
                      "level to be read everywhere");
        else if (place.kind == KindNet)
            diag_help(e->f,
                      "weights are assigned one by one: for a, b in zip(params(A), params(B)) "
                      "{ a := b }; an average moves by ema(A, B, keep=0.999)");
    }
}

static void eval_declaration(Elab *e, Env *env, const Ast *a) {
    Value v = declare_places(e, env, a);
    env->local = scope_bind(e, env->local, a->text, v);
    note_worth(e, a->word, v);
}

// Which round of a loop of the model's own met the mistake.
static void note_round(Elab *e, const Ast *a, Value item) {
    if (e->f->source.at[a->span.file - 1].library || a->list.n != 1)
        return;
    diag_note(e->f, a->list.at[0]->span, "in the round with `%.*s` = %.*s",
              SARG(a->list.at[0]->text), SARG(value_text(e, item)));
}

// `for a, p in zip(params(A), params(B)) { a = mix(a, p, 0.1) }`: the last thing a round does is to
// lose the place it was given. In a layer, whose weight has a name of its own, that is no mistake.
static bool loses_weight(const Elab *e, const Ast *a, Value item) {
    const Ast *last = a->c->list.n ? a->c->list.at[a->c->list.n - 1] : NULL;
    for (uint32_t i = 0; last && last->kind == AstBind && last->list.n == 1 && i < a->list.n; i++) {
        Value v = a->list.n == 1                             ? item
                  : item.kind == KindList && i < item.list.n ? item.list.at[i]
                                                             : POISON;
        if (v.kind != KindSlot || e->m->slot.at[v.id].kind != SlotParam ||
            !str_eq(last->list.at[0]->text, a->list.at[i]->text))
            continue;
        diag(e->f, DiagE0529, last->list.at[0]->span, SARG(last->list.at[0]->text), "weight");
        return true;
    }
    return false;
}

static void eval_for(Elab *e, Env *env, const Ast *a) {
    List seq;
    const Binding *outer = env->local;
    if (!want_sequence(e, env, a->a, &seq)) {
        bind_lost(e, env, a);
        return;
    }
    if (seq.n && loses_weight(e, a, seq.at[0]))
        return;
    for (uint32_t i = 0; i < seq.n && elab_alive(e); i++) {
        uint32_t errors = diag_errors(e->f);
        Spot loop = spot_enter(e, a->a);
        bind_names(e, env, NULL, a->list.n, a->list.at, seq.at[i]);
        spot_leave(e, loop);
        eval_block(e, env, a->c, true);
        if (diag_errors(e->f) > errors)
            note_round(e, a, seq.at[i]);
        env->local = scope_compact(e, env->local, outer);
    }
}

// Under its name; in a net also the path of the object, in an optimizer what it is applied to.
static void report_number(Elab *e, const Ast *a, Str name, Val val) {
    if (val_type(val).rank)
        val = Reshape(val, 0, NULL);
    if (e->to->muted)
        return;
    if (e->tuning) {
        weight_report(e, a, name, val);
        return;
    }
    if (e->net)
        name = str_format(e->perm, "%.*s/%.*s", SARG(name), SARG(owner_path(e, e->owner)));
    vec_push(e->perm, &e->to->fn->report, ((Named){name, val.id, val.b->block}));
}

static void report_one(Elab *e, Env *env, const Ast *a) {
    const Ast *name = a->list.at[0];
    if (e->net && e->to->fn && (e->to->index != 1 || e->to->aside))
        return; // of a net that a `sample` calls: there is no log
    Spot outer = spot_enter(e, name);
    Value v = eval(e, env, a->c ? a->c : name);
    Val val;
    if (e->to->index != 1 || !e->to->branching) {
        diag(e->f, DiagE0514, here(e), "report");
    } else if (want_tensor(e, v, &val)) {
        Type t = val_type(val);
        if (!is_shared_number(&t)) {
            diag(e->f, DiagE0505, here(e), SARG(name->text), SARG(type_text(e->perm, &t)));
            in_library(e);
        } else {
            report_number(e, a, name->text, val);
        }
    }
    spot_leave(e, outer);
}

// Arithmetic alone does nothing: `loss = a`, and `- b` in the next line.
static void refuse_unused(Elab *e, Env *env, const Ast *a) {
    diag(e->f, DiagE0537, a->span);
    if (a->kind == AstBinary && str_eq(a->text, STR("=="))) {
        diag_help(e->f, "`==` compares; to bind a name write `=`");
        if (a->a->kind == AstName)
            bind_name(e, env, a->a->text, POISON);
    }
    in_library(e);
}

// relu(h), where h = relu(h) is meant: a call that gives a value and changes nothing.
static void drop_value(Elab *e, Env *env, const Ast *a) {
    const Building *b = e->to;
    uint32_t assigned = b->assigned.n, reports = b->fn ? b->fn->report.n : 0;
    uint32_t mark = diag_mark(e->f);
    Value v = eval(e, env, a);
    bool changed = b->assigned.n > assigned || (b->fn && b->fn->report.n > reports);
    bool call = a->kind == AstCall || a->kind == AstPipe;
    bool logs = b->index == 1 && !b->aside && !e->tuning; // elsewhere what reports looks idle
    if (v.kind == KindTensor && call && logs && !changed && diag_mark(e->f) == mark)
        diag(e->f, DiagW0909, a->span);
}

static void statement(Elab *e, Env *env, const Ast *a) {
    switch (a->kind) {
    case AstBind:
        eval_bind(e, env, a);
        return;
    case AstAssign:
        eval_assign(e, env, a);
        return;
    case AstParam:
    case AstState:
        eval_declaration(e, env, a);
        return;
    case AstFor:
        eval_for(e, env, a);
        return;
    case AstStage:
        eval_stage(e, env, a);
        return;
    case AstRepeat:
        scope_repeat(e, env, a);
        return;
    case AstNext:
        next_batch(e, env, a);
        return;
    case AstUpdate:
        eval_update(e, env, a);
        return;
    case AstReport:
        for (uint32_t i = 0; i < a->list.n; i++)
            report_one(e, env, a->list.at[i]);
        return;
    case AstFn:
        env->local = scope_bind(e, env->local, a->text, value_fn(e, a, *env));
        return;
    case AstIf:
        eval_if(e, env, a, true);
        return;
    case AstEvery:
        eval_every(e, env, a, true);
        return;
    case AstHole:
        bind_lost(e, env, a);
        return;
    default:
        if (a->kind == AstUnary || a->kind == AstBinary)
            refuse_unused(e, env, a);
        drop_value(e, env, a);
        return;
    }
}

void eval_statement(Elab *e, Env *env, const Ast *a) {
    if (!elab_enter(e))
        return;
    Spot outer = spot_enter(e, a);
    statement(e, env, a);
    spot_leave(e, outer);
    elab_leave(e);
}

bool is_condition(const Ast *a) {
    return a->kind == AstCall && a->a->kind == AstName &&
           (str_eq(a->a->text, STR("require")) || str_eq(a->a->text, STR("warn_unless")));
}

bool is_expression(const Ast *a) {
    return a->kind >= AstNum && a->kind <= AstBlock;
}

Value eval_last(Elab *e, Env *env, const Ast *a) {
    if (is_expression(a))
        return eval(e, env, a);
    eval_statement(e, env, a);
    return a->kind == AstHole ? POISON : (Value){.kind = KindNone};
}

Value eval_block(Elab *e, Env *env, const Ast *block, bool drop) {
    Value v = {.kind = KindNone};
    for (uint32_t i = 0; i < block->list.n; i++) {
        const Ast *a = block->list.at[i];
        if (i + 1 == block->list.n && !drop)
            v = eval_last(e, env, a);
        else if (is_condition(a) && eval(e, env, a).kind == KindPoison)
            return POISON; // nothing behind it was meant for what is there
        else if (!is_condition(a))
            eval_statement(e, env, a);
    }
    return v;
}
