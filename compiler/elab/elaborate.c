// elaborate.c - a parsed model to a Module: the top level in the order of the text, then the step,
// then every entry point.
//
// In: an AstFile and the library. Out: slots and one graph per function, with Grad nodes that
// pass/grad.c expands; or diagnostics. Top-level expressions of step, epoch and kimg are built in a
// separate graph and copied to where they are used.
#include "builtin.h"
#include "warn.h"

// --- top-level names -----------------------------------------------------------------------------

static void bind_top(Elab *e, Str name, Span span, Value v, bool fixed) {
    const Global *old = globals_find(&e->top, name);
    if (old && old->value.kind != KindPoison && (fixed || old->fixed)) {
        diag(e->f, DiagE0302, span, SARG(name));
        diag_note(e->f, old->span, "`%.*s` is defined here", SARG(name));
        return;
    }
    globals_put(e, &e->top, name, v, span)->fixed = fixed;
    note_worth(e, span, v);
}

void declare(Elab *e, Str name, Span span, Value v) {
    bind_top(e, name, span, v, true);
}

// What a statement of the top level bound, oldest first.
static void bind_locals(Elab *e, const Binding *b, Span span) {
    if (!b)
        return;
    bind_locals(e, b->outer, span);
    bind_top(e, b->name, span, b->value, false);
}

static void library_names(Elab *e) {
    for (uint32_t i = 0; i < e->f->library.n; i++) {
        const Ast *file = e->f->library.at[i];
        for (uint32_t k = 0; k < file->list.n; k++) {
            const Ast *a = file->list.at[k];
            if (a->kind != AstFn)
                continue;
            Value fn = value_fn(e, a, (Env){.globals = &e->library});
            globals_put(e, &e->library, a->text, fn, a->word);
        }
    }
}

// --- nets ----------------------------------------------------------------------------------------

static Value make_net(Elab *e, Str name, Value fn, Span span) {
    Net net = {.name = name, .span = span, .copy_of = fn.copy_of ? fn.copy_of - 1 : NONE};
    if (fn.outside) {
        net.file = fn.outside->file;
        net.prefix = fn.outside->prefix;
        fn.outside = NULL; // a copy of it is a net of its own
    }
    if (fn.kind == KindNet && fn.eval) {
        diag(e->f, DiagE0305, span, "a net of its own", "a net in evaluation mode");
        diag_help(e->f,
                  "leave `net` out, %.*s = eval(%.*s), or call eval(%.*s)(x): its weights are "
                  "the net's",
                  SARG(name), SARG(e->m->net.at[fn.id].name), SARG(e->m->net.at[fn.id].name));
        return POISON;
    }
    if (fn.kind == KindNet)
        fn = e->net_info.at[fn.id].fn;
    if (value_takes_two_lists(fn))
        fn = call_with(e, fn, NULL, 0);
    if (fn.kind == KindPoison)
        return POISON;
    if (fn.kind != KindFn && fn.kind != KindObject && fn.kind != KindBuiltin) {
        diag(e->f, DiagE0305, span, "a net", value_what(fn));
        diag_help(e->f, "a net is made of a function: net D = Judge, net D(x: [3]) -> [] = ...");
        return POISON;
    }
    return (Value){.kind = KindNet, .id = net_add(e, net, fn)};
}

static void eval_net(Elab *e, const Ast *a) {
    Env env = {.globals = &e->top};
    if (a->a) {
        declare(e, a->text, a->word, make_net(e, a->text, value_fn(e, a, env), a->word));
        return;
    }
    Value v = eval(e, &env, a->c);
    Spot outer = spot_enter(e, a->c); // a layer is made with its defaults
    if (v.kind != KindList) {
        declare(e, a->text, a->word, make_net(e, a->text, v, a->word));
        spot_leave(e, outer);
        return;
    }
    Value *nets = arena_array(e->perm, Value, v.list.n);
    for (uint32_t i = 0; i < v.list.n; i++)
        nets[i] =
            make_net(e, str_format(e->perm, "%.*s.%u", SARG(a->text), i), v.list.at[i], a->word);
    spot_leave(e, outer);
    declare(e, a->text, a->word, value_list(nets, v.list.n));
}

// --- items ---------------------------------------------------------------------------------------

typedef struct Parts {
    const Ast *step, *stages;
    VEC(const Ast *) sample;
} Parts;

static void use_library(Elab *e, const Ast *a) { // it is in scope anyway; only the name is checked
    for (uint32_t i = 0; i < e->f->library.n; i++) {
        Str file = path_base(e->f->source.at[e->f->library.at[i]->span.file - 1].name);
        Str name = str_sub(file, 0, str_find(file, '.'));
        if (str_ends(a->text, name) && str_starts(a->text, STR("std")) &&
            a->text.len == name.len + 4)
            return;
    }
    diag(e->f, DiagE0605, a->span, SARG(a->text));
}

static void lose_name(Elab *e, const Ast *name) {
    globals_put(e, &e->top, name->text, POISON, name->span);
}

// What text that does not parse, in or below a, may define: a mistake with it follows from that.
static void lose_names(Elab *e, const Ast *a) {
    if (!a)
        return;
    for (uint32_t i = 0; i < ast_parts(a); i++)
        if (a->kind == AstHole && ast_part(a, i))
            lose_name(e, ast_part(a, i));
        else
            lose_names(e, ast_part(a, i));
}

static void declare_functions(Elab *e, const Ast *file) {
    lose_names(e, file);
    for (uint32_t i = 0; i < file->list.n; i++) {
        const Ast *a = file->list.at[i];
        if (a->kind == AstFn)
            declare(e, a->text, a->word, value_fn(e, a, (Env){.globals = &e->top}));
    }
}

static void refuse_idle(Elab *e, const Ast *a) {
    diag(e->f, DiagE0531, a->span);
    if (a->kind != AstBinary || !str_eq(a->text, STR("==")))
        return;
    diag_help(e->f, "`==` compares; to bind a name write `=`");
    if (a->a->kind == AstName)
        lose_name(e, a->a);
}

// A block the model has once.
static void only_block(Elab *e, const Ast *a, const Ast **first) {
    if (*first) {
        Str word = span_text(e->f, a->word);
        diag(e->f, DiagE0302, a->word, SARG(word));
        diag_note(e->f, (*first)->word, "`%.*s` is defined here", SARG(word));
        diag_help(e->f, "a model has one `%.*s`: write its statements in one block", SARG(word));
    }
    *first = a;
}

static void add_sample(Elab *e, const Ast *a, Parts *parts) {
    for (uint32_t i = 0; i < parts->sample.n; i++)
        if (str_eq(parts->sample.at[i]->text, a->text)) {
            diag(e->f, DiagE0302, a->word, SARG(a->text));
            diag_note(e->f, parts->sample.at[i]->word, "`%.*s` is defined here", SARG(a->text));
            return;
        }
    vec_push(e->perm, &parts->sample, a);
}

static void eval_item(Elab *e, const Ast *file, const Ast *a, Parts *parts) {
    Env env = {.globals = &e->top};
    switch (a->kind) {
    case AstUse:
        use_library(e, a);
        return;
    case AstConfig:
        eval_config(e, &env, a);
        return;
    case AstData:
        eval_data(e, &env, a);
        return;
    case AstNet:
        eval_net(e, a);
        return;
    case AstSample:
        add_sample(e, a, parts);
        return;
    case AstStep:
        only_block(e, a, &parts->step);
        return;
    case AstStages:
        only_block(e, a, &parts->stages);
        eval_stages(e, file, a);
        return;
    case AstFn:
        return; // declared already: functions may be used before their text
    case AstHole:
        lose_names(e, a);
        return;
    default:
        if (is_expression(a) && a->kind != AstIf && !is_condition(a))
            refuse_idle(e, a);
        eval_statement(e, &env, a);
        bind_locals(e, env.local, a->word);
        return;
    }
}

// A field that some grad differentiates to is pinned wherever it is read.
static void pin_fields(Elab *e, const Ast *file) {
    Env env = {.globals = &e->top};
    for (uint32_t i = 0; i < file->list.n; i++) {
        const Ast *a = file->list.at[i];
        if (!a->c)
            continue;
        Names names = grad_names(e, &env, a->c);
        for (uint32_t k = 0; k < e->field.n; k++) {
            FieldInfo *info = &e->field.at[k];
            info->pinned = info->pinned || names_has(names, info_field(e, info)->name);
        }
    }
}

// --- all of it -----------------------------------------------------------------------------------

static void try_net(Elab *e, uint32_t net) {
    Value fn = e->net_info.at[net].fn;
    if (fn.kind != KindFn)
        return;
    Spot outer = spot_enter(e, fn.fn->ast);
    net_make(e, net);
    spot_leave(e, outer);
}

static void elab_init(Elab *e, Front *f, const ElabOptions *o, Building *top, Module *m) {
    *e = (Elab){.f = f,
                .perm = f->perm,
                .o = o,
                .m = m,
                .root = {.has_path = true, .net = NONE, .place = OwnBody}};
    *m = (Module){.batch = o->batch};
    m->init.name = STR("init");
    m->step.name = STR("step");
    e->top.outer = &e->library;
    e->owner = &e->root;
    for (uint32_t i = 0; i < 3; i++)
        e->scalar[i] = NONE;
    begin_graph(e, &e->loose);
    begin_graph(e, &m->init.g);
    building_init(e, top, NULL, &e->loose, 0);
    e->to = top;
    building_init(e, &e->init, &m->init, &m->init.g, 0);
}

static void elab_file(Elab *e, const Ast *file) {
    Parts parts = {0};
    e->file = file;
    library_names(e);
    check_settings(e, file);
    declare_functions(e, file);
    for (uint32_t i = 0; i < file->list.n; i++)
        eval_item(e, file, file->list.at[i], &parts);
    pin_fields(e, file);
    if (!diag_errors(e->f) && !parts.step)
        diag(e->f, DiagE0606, file->word, SARG(file->text));
    if (parts.step)
        function_step(e, parts.step);
    for (uint32_t i = 0; i < parts.sample.n; i++)
        function_sample(e, parts.sample.at[i]);
    bool sound = !diag_errors(e->f);
    for (uint32_t i = 0; i < e->m->net.n && sound && e->try_idle; i++)
        if (net_is_idle(e, file, i))
            try_net(e, i);
}

// A mistake in a net that is never called is reported too: where there is such a net, the model is
// elaborated a second time, apart, and each of them is called.
static void check_idle(Elab *e, Front *f, const Ast *file) {
    bool idle = false;
    for (uint32_t i = 0; i < e->m->net.n; i++)
        idle = idle || net_is_idle(e, file, i);
    if (idle && !diag_errors(f)) {
        Elab again;
        Building top;
        Module aside;
        elab_init(&again, f, e->o, &top, &aside);
        again.split_counts = e->split_counts;
        again.try_idle = true;
        elab_file(&again, file);
    }
}

static void elab_whole(Elab *e, Building *top, Front *f, const Ast *file, const ElabOptions *o,
                       Module *out) {
    bool split = false;
    do {
        elab_init(e, f, o, top, out);
        e->split_counts = split;
        elab_file(e, file);
        split = e->retry;
    } while (e->retry && !e->split_counts);
}

// Reports the errors of every stage's model before the first stage trains.
static void check_stages(Front *f, const Ast *file, const ElabOptions *o, const Module *m) {
    struct Facts *facts = f->facts; // an editor shows the values of the model without its stages
    f->facts = NULL;
    for (uint32_t i = 0; i < m->stage.n && !diag_errors(f); i++) {
        const Stage *s = &m->stage.at[i];
        Elab e;
        Building top;
        Module aside;
        ElabOptions of = *o;
        uint32_t mark = diag_mark(f);
        Setting *all = arena_array(f->perm, Setting, o->settings + s->setting.n + 1);
        for (uint32_t k = 0; k < o->settings; k++)
            all[k] = o->setting[k];
        for (uint32_t k = 0; k < s->setting.n; k++)
            all[o->settings + k] = s->setting.at[k];
        of.setting = all;
        of.settings += s->setting.n;
        of.batch = s->batch;
        of.stage = true;
        elab_whole(&e, &top, f, file, &of, &aside);
        Str with = stage_text(f->perm, s, o->batch);
        diag_note_since(f, mark, s->span,
                        str_format(f->perm, "in stage %u of %u%s%.*s", i + 1, m->stage.n,
                                   with.len ? ", with " : "", SARG(with)));
    }
    f->facts = facts;
}

bool elaborate(Front *f, const Ast *file, const ElabOptions *o, Module *out) {
    Elab e;
    Building top;
    if (!front_load_library(f) || file->b)
        return false;
    if (o->batch < 1 || o->batch > BATCH_MOST) {
        diag(f, DiagE0607, file->word, (long long)o->batch);
        return false;
    }
    elab_whole(&e, &top, f, file, o, out);
    check_stages(f, file, o, out);
    check_idle(&e, f, file);
    if (!diag_errors(f)) {
        warn_unused(&e, file);
        warn_signs(&e);
        warn_stops(&e);
        warn_means(&e);
        warn_unused_weights(&e, file);
    }
    out->name = file->text;
    if (file->a)
        out->doc = file->a->text;
    for (uint32_t i = 0; i < f->source.n; i++) {
        vec_push(f->perm, &out->source, f->source.at[i].name);
        vec_push(f->perm, &out->source_text, f->source.at[i].text);
    }
    return !diag_errors(f);
}
