// stages.c - `stages`: phases of a run, each with its own values of the model's configs.
//
// In: the item and its file. Out: Module.stage, in the order of the text. A stage trains the same
// file, elaborated with the stage's settings (elaborate.c) as if -s gave them.
#include "elab.h"

// A value as -s writes it, which a config reads back as the same.
static void put_setting(Elab *e, Text *t, Value v, bool element) {
    if (v.kind == KindStr && element)
        gan_string(t, v.str);
    else if (v.kind == KindStr)
        text_put(t, v.str);
    else if (v.kind == KindNone)
        text_put(t, STR("none"));
    else if (v.kind != KindList)
        text_put(t, value_text(e, v));
    else {
        text_char(t, '[');
        for (uint32_t i = 0; i < v.list.n; i++) {
            text_put(t, i ? STR(", ") : (Str){0});
            put_setting(e, t, v.list.at[i], true);
        }
        text_char(t, ']');
    }
}

// `batch_size` is the batch of the run, and of the stage where it sets it.
static bool is_batch(const Elab *e, Str name) {
    const Ast *file = e->staged;
    for (uint32_t i = 0; i < file->list.n; i++)
        if (file->list.at[i]->kind == AstConfig && str_eq(file->list.at[i]->text, name))
            return false;
    return str_eq(name, STR("batch_size"));
}

static void set_batch(Elab *e, Env *env, const Ast *a, Stage *s) {
    Spot outer = spot_enter(e, a);
    bool known = want_int(e, eval(e, env, a), "`batch_size`", &s->batch);
    if (known && (s->batch < 1 || s->batch > BATCH_MOST))
        diag(e->f, DiagE0607, here(e), (long long)s->batch);
    spot_leave(e, outer);
}

static void set_config(Elab *e, Env *env, const Ast *a, Stage *s) {
    const Ast *name = a->list.at[0], *config = config_find(e, e->staged, name->text, name->span);
    Spot outer = spot_enter(e, a->c);
    Value v = eval(e, env, a->c);
    spot_leave(e, outer);
    if (!config || v.kind == KindPoison)
        return;
    if (!value_is_setting(v)) {
        diag(e->f, DiagE0305, a->c->span, "a config", value_what(v));
        diag_help(e->f, value_is_tensor(v) ? "what changes during a stage is an expression of "
                                             "`step` in the step"
                                           : "a config is a number, a string, true, false, none "
                                             "or a list of them");
    } else {
        Text t = {.arena = e->perm};
        put_setting(e, &t, v, false);
        Setting set = {name->text, text_str(&t)};
        if (setting_fits(e, config, &set, v, a->c->span))
            vec_push(e->perm, &s->setting, set);
    }
}

void eval_stage(Elab *e, Env *env, const Ast *a) {
    Stage s = {.batch = e->o->batch, .span = a->word};
    if (!e->staged) {
        diag(e->f, DiagE0620, a->word);
        return;
    }
    Spot outer = spot_enter(e, a->a);
    bool known = want_int(e, eval(e, env, a->a), "`stage`", &s.steps);
    if (known && (s.steps < 1 || s.steps > INT32_MAX))
        diag(e->f, DiagE0511, here(e), "stage", (long long)s.steps);
    spot_leave(e, outer);
    for (uint32_t i = 0; i < a->c->list.n; i++) {
        const Ast *one = a->c->list.at[i];
        if (one->kind == AstHole)
            continue;
        if (one->kind != AstBind || one->list.n != 1)
            diag(e->f, DiagE0621, one->span);
        else if (is_batch(e, one->list.at[0]->text))
            set_batch(e, env, one->c, &s);
        else
            set_config(e, env, one, &s);
    }
    vec_push(e->perm, &e->m->stage, s);
}

bool stages_set(const Ast *a, Str config) {
    if (!a)
        return false;
    if (a->kind == AstStage)
        for (uint32_t i = 0; i < a->c->list.n; i++) {
            const Ast *one = a->c->list.at[i];
            if (one->kind == AstBind && one->list.n && str_eq(one->list.at[0]->text, config))
                return true;
        }
    for (uint32_t i = 0; i < ast_parts(a); i++)
        if (stages_set(ast_part(a, i), config))
            return true;
    return false;
}

Str stage_text(Arena *perm, const Stage *s, int64_t batch) {
    Text t = {.arena = perm};
    for (uint32_t i = 0; i < s->setting.n; i++)
        text_fmt(&t, "%s%.*s=%.*s", i ? ", " : "", SARG(s->setting.at[i].key),
                 SARG(s->setting.at[i].value));
    if (s->batch != batch)
        text_fmt(&t, "%sbatch_size=%lld", s->setting.n ? ", " : "", (long long)s->batch);
    return text_str(&t);
}

void eval_stages(Elab *e, const Ast *file, const Ast *a) {
    Env env = {.globals = &e->top};
    if (e->o->stage)
        return;
    for (uint32_t i = 0; i < e->o->settings; i++)
        if (stages_set(a, e->o->setting[i].key))
            return;
    e->staged = file;
    eval_block(e, &env, a->c, true);
    e->staged = NULL;
    if (!e->m->stage.n && !diag_errors(e->f))
        diag(e->f, DiagE0622, a->word);
}
