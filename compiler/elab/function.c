// function.c - the graphs of the functions: of the step, and of each entry point with its inputs
// and results.
#include "elab.h"

void begin_graph(const Elab *e, Graph *g) {
    graph_init(g, e->perm, e->o->batch);
    g->literal = e->o->literal;
}

void function_step(Elab *e, const Ast *a) {
    Building b;
    begin_graph(e, &e->m->step.g);
    building_init(e, &b, &e->m->step, &e->m->step.g, 1);
    Building *outer = building_enter(e, &b);
    Env env = {scope_mark(e, NULL, BindFn), &e->top, {0}};
    env.pinned = grad_names(e, &env, a->c);
    e->training = true;
    run_scope(e, env, a->c, NULL);
    e->training = false;
    if (!diag_errors(e->f))
        updates_reach(e);
    building_enter(e, outer);
}

bool input_type(Elab *e, Env *env, const Ast *p, Type *t, int64_t *classes) {
    *t = (Type){.dtype = DtF32};
    *classes = 0;
    if (p->b) {
        diag(e->f, DiagE0532, p->b->span);
        return false;
    }
    if (!p->a)
        return true;
    if (is_class(p->a))
        return want_classes(e, env, p->a, classes);
    if (is_range(p->a)) // what is given when it runs is not checked
        return true;
    Value shape = eval(e, env, p->a);
    if (value_is_plain(shape)) {
        Str number = value_text(e, shape);
        diag(e->f, DiagE0306, p->a->span, "an input of a sample", "a shape in brackets",
             SARG(number));
        diag_help(e->f, "write [%.*s]", SARG(number));
        return false;
    }
    return want_extents(e, shape, "an input of a sample", true, t);
}

// An entry point's own inputs are fed by whoever runs it; their sites say what they are, and so
// what to give where nobody does: normal draws, or class after class.
static void bind_inputs(Elab *e, Env *env, const Ast *a) {
    for (uint32_t i = 0; a->a && i < a->a->list.n; i++) {
        const Ast *p = a->a->list.at[i];
        Type t;
        int64_t classes;
        if (!input_type(e, env, p, &t, &classes)) {
            bind_name(e, env, p->text, POISON);
            continue;
        }
        t.batched = true;
        Str name = str_format(e->perm, "%.*s.%.*s", SARG(a->text), SARG(p->text));
        vec_push(
            e->perm, &e->m->site,
            ((Site){classes ? DistCategorical : DistNormal, t, e->to->index, 0, p->word, classes}));
        // Not to be found by its name, which a weight of a net called like the sample may have.
        vec_push(e->perm, &e->m->slot,
                 ((Slot){.kind = SlotFed,
                         .name = name,
                         .net = NONE,
                         .type = t,
                         .site = e->m->site.n - 1,
                         .span = p->word}));
        bind_name(e, env, p->text, value_class(slot_read(e, e->m->slot.n - 1), classes));
    }
}

typedef struct Results { // of an entry point
    Func *fn;
    VEC(Named) of; // those of one outcome; node: a slot where there are several outcomes
    bool carried;
} Results;

static void add_results(Elab *e, Results *r, Str name, Value v) {
    List l = v.kind == KindList ? v.list : (List){.at = &v, .n = 1};
    for (uint32_t i = 0; i < l.n; i++) {
        Val val;
        if (!want_tensor(e, l.at[i], &val))
            return;
        Str own = l.n == 1 ? name : str_format(e->perm, "%.*s.%u", SARG(name), i);
        vec_push(e->perm, &r->of, ((Named){own, val.id, val.b->block}));
    }
}

// What looks like a mapped field is also wanted as the field's files have it.
static void add_raw(Elab *e, Results *r, Str name, Value v) {
    Val val;
    if (!value_is_tensor(v) || !want_tensor(e, v, &val))
        return;
    Type t = val_type(val);
    for (uint32_t i = 0; i < e->field.n; i++) {
        const FieldInfo *info = &e->field.at[i];
        const Field *f = info_field(e, info);
        Type like = type_make(true, f->rank, f->dim);
        if (info->inverse.kind == KindNone || !t.batched || !type_same_shape(&t, &like))
            continue;
        add_results(e, r, str_format(e->perm, "%.*s.raw", SARG(name)),
                    apply_map(e, info->inverse, value_tensor(val)));
        return;
    }
}

// An outcome's results. Where there are several outcomes they leave through slots.
static void take_results(Elab *e, Env *env, const Ast *last, void *user) {
    Results *r = user;
    Value v = eval_last(e, env, last);
    uint32_t before = r->of.n;
    r->of.n = 0;
    add_results(e, r, r->fn->name, v);
    add_raw(e, r, r->fn->name, v);
    if (r->carried && r->of.n != before)
        diag(e->f, DiagE0304, here(e), before, r->of.n);
    r->carried = e->to->branching->path.n > 0;
    for (uint32_t i = 0; r->carried && i < r->of.n; i++) {
        Val val = {e->to->at, r->of.at[i].node};
        uint32_t slot = carry_slot(e, MAX_BLOCKS, i, val_type(val));
        if (slot == NONE)
            return;
        slot_set(e, slot, val);
        r->of.at[i].node = slot;
    }
}

void function_sample(Elab *e, const Ast *a) {
    Func *fn = arena_new(e->perm, Func);
    Building b;
    fn->name = a->text;
    begin_graph(e, &fn->g);
    building_init(e, &b, fn, &fn->g, 2 + e->m->entry.n);
    Building *outer = building_enter(e, &b);
    Env env = {scope_mark(e, NULL, BindFn), &e->top, {0}};
    env.pinned = grad_names(e, &env, a->c);
    Spot place = spot_enter(e, a);
    bind_inputs(e, &env, a);
    Results r = {.fn = fn};
    run_function(e, env, block_of(e, a->c), &(Last){take_results, &r});
    for (uint32_t i = 0; i < r.of.n && !diag_errors(e->f); i++) {
        Named of = r.of.at[i];
        if (r.carried)
            of = (Named){of.name, slot_read(e, of.node).id, b.at->block};
        vec_push(e->perm, &fn->result, of);
    }
    spot_leave(e, place);
    building_enter(e, outer);
    vec_push(e->perm, &e->m->entry, *fn);
}
