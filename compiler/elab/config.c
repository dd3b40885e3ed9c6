// config.c - `config` statements and the settings that override them, typed and spell-checked.
#include "elab.h"

static const Setting *setting_find(const Elab *e, Str key) {
    const Setting *last = NULL;
    for (uint32_t i = 0; i < e->o->settings; i++)
        if (str_eq(e->o->setting[i].key, key))
            last = &e->o->setting[i];
    return last;
}

// A setting is typed without the signs of the language: a string has no quotes and no escapes, a
// number may be `.5` or `+3`. Only these are written as they are in a text:
static bool as_in_a_text(Str setting) {
    return str_eq(setting, STR("true")) || str_eq(setting, STR("false")) ||
           str_eq(setting, STR("none")) || str_starts(setting, STR("["));
}

void setting_to_gan(Text *t, const Ast *first, Str value) {
    double x;
    if (first->kind != AstStr && gan_number(value, &x))
        text_put(t, str_double(t->arena, x));
    else if (first->kind == AstList || (first->kind != AstStr && as_in_a_text(value)))
        text_put(t, value);
    else
        gan_string(t, value);
}

// A setting's text as a value of the default's kind; POISON when it is none. setting_to_gan writes
// the same value.
static Value setting_value(Elab *e, Str text, Value like) {
    double x;
    bool numeric = gan_number(text, &x);
    if (like.kind == KindNum)
        return numeric ? value_num(x) : POISON;
    if (like.kind == KindStr)
        return value_str(text);
    if (like.kind == KindBool)
        return str_eq(text, STR("true"))    ? value_bool(true)
               : str_eq(text, STR("false")) ? value_bool(false)
                                            : POISON;
    if (str_eq(text, STR("none")))
        return (Value){.kind = KindNone};
    if (!as_in_a_text(text)) // a list begins with its bracket
        return like.kind != KindNone ? POISON : numeric ? value_num(x) : value_str(text);
    uint32_t source = front_add_source(e->f, STR("-s"), text, false);
    Env env = {.globals = &e->top};
    const Ast *a = source ? parse_expr(e->f, source, 0, (uint32_t)text.len) : NULL;
    return a ? eval(e, &env, a) : POISON;
}

static Str alternatives_text(Elab *e, const Value *at, uint32_t n) {
    Text t = {.arena = e->perm};
    for (uint32_t i = 0; i < n; i++) {
        if (i)
            text_put(&t, STR(" | "));
        text_put(&t, value_text(e, at[i]));
    }
    return text_str(&t);
}

// The value a setting gives; POISON, reported at `at`, where the config takes none such.
static Value overridden(Elab *e, const Value *known, uint32_t n, const Setting *s, Span at) {
    Value v = POISON;
    for (uint32_t i = 0; i < n; i++) {
        Value tried = setting_value(e, s->value, known[i]);
        if (n == 1 ? tried.kind != KindPoison : value_equal(tried, known[i]))
            v = n == 1 ? tried : known[i];
    }
    if (v.kind != KindPoison || known[0].kind == KindPoison)
        return v;
    if (n == 1) {
        diag(e->f, DiagE0611, at, SARG(s->key), SARG(s->value), value_what(known[0]),
             SARG(value_text(e, known[0])));
        diag_help(e->f, "give it one, as in %.*s=%.*s", SARG(s->key),
                  SARG(value_text(e, known[0])));
        return POISON;
    }
    Str *names = arena_array(e->perm, Str, n);
    for (uint32_t i = 0; i < n; i++)
        names[i] = known[i].kind == KindStr ? known[i].str : value_text(e, known[i]);
    Str near = str_nearest(s->value, names, n);
    diag(e->f, DiagE0612, at, SARG(s->key), SARG(alternatives_text(e, known, n)), SARG(s->value));
    if (near.len)
        diag_help(e->f, "did you mean `%.*s=%.*s`?", SARG(s->key), SARG(near));
    return POISON;
}

void eval_config(Elab *e, Env *env, const Ast *a) {
    uint32_t n = a->list.n;
    Value *known = arena_array(e->perm, Value, n);
    for (uint32_t i = 0; i < n; i++)
        known[i] = eval(e, env, a->list.at[i]);
    Value v = known[0];
    const Setting *s = setting_find(e, a->text);
    for (uint32_t i = 0; i < n && v.kind != KindPoison; i++)
        if (!value_is_setting(known[i])) {
            diag(e->f, DiagE0305, a->list.at[i]->span, "a config", value_what(known[i]));
            if (value_is_tensor(known[i]))
                diag_help(
                    e->f,
                    "what changes from step to step, a schedule, is a plain binding: %.*s = ...",
                    SARG(a->text));
            else
                diag_help(e->f,
                          "a config is a number, a string, true, false, none or a list of them");
            v = POISON;
        }
    if (s && v.kind != KindPoison)
        v = overridden(e, known, n, s, a->word);
    if (n > 1)
        vec_push(e->perm, &e->choice, ((Choice){a->text, {.at = known, .n = n}}));
    declare(e, a->text, a->word, v);
}

bool setting_fits(Elab *e, const Ast *config, const Setting *s, Value means, Span at) {
    Env env = {.globals = &e->top};
    Value *known = arena_array(e->perm, Value, config->list.n);
    for (uint32_t i = 0; i < config->list.n; i++)
        known[i] = eval(e, &env, config->list.at[i]);
    Value read = overridden(e, known, config->list.n, s, at);
    if (read.kind == KindPoison || (read.kind == means.kind && value_equal(read, means)))
        return read.kind != KindPoison;
    diag(e->f, DiagE0624, at, SARG(s->key), SARG(value_text(e, means)), SARG(s->key),
         SARG(s->value), value_what(read));
    return false;
}

void check_choice(Elab *e, Env *env, Str name, Value v, Span at) {
    Value now;
    bool whole = scope_find_global(env, name, &now) && now.kind == KindStr;
    for (uint32_t i = 0; whole && i < e->choice.n; i++) {
        const Choice *c = &e->choice.at[i];
        if (!str_eq(c->name, name))
            continue;
        VEC(Str) known = {0};
        for (uint32_t k = 0; k < c->of.n; k++) {
            if (value_equal(c->of.at[k], v))
                return;
            if (c->of.at[k].kind == KindStr)
                vec_push(e->perm, &known, c->of.at[k].str);
        }
        Str near = str_nearest(v.str, known.at, known.n);
        diag(e->f, DiagE0612, at, SARG(name), SARG(alternatives_text(e, c->of.at, c->of.n)),
             SARG(v.str));
        if (near.len)
            diag_help(e->f, "did you mean \"%.*s\"?", SARG(near));
    }
}

const Ast *config_find(Elab *e, const Ast *file, Str name, Span at) {
    VEC(Str) known = {0};
    for (uint32_t i = 0; i < file->list.n; i++) {
        const Ast *a = file->list.at[i];
        if (a->kind == AstConfig && str_eq(a->text, name))
            return a;
        if (a->kind == AstConfig)
            vec_push(e->perm, &known, a->text);
        for (uint32_t k = 0; a->kind == AstHole && k < a->list.n; k++)
            if (str_eq(a->list.at[k]->text, name))
                return NULL;
    }
    diag(e->f, DiagE0613, at, SARG(name), SARG(file->text));
    diag_help_known(e->f, name, known.at, known.n, "its configs");
    return NULL;
}

void note_settings(Elab *e) {
    double number;
    for (uint32_t i = 0; e->file && i < e->file->list.n; i++) {
        const Ast *a = e->file->list.at[i];
        const Setting *s = a->kind == AstConfig ? setting_find(e, a->text) : NULL;
        if (s && gan_number(s->value, &number))
            diag_note(e->f, a->word, "-s or a stage sets `%.*s` to %.*s", SARG(a->text),
                      SARG(s->value));
    }
}

void check_settings(Elab *e, const Ast *file) {
    for (uint32_t i = 0; i < e->o->settings; i++)
        config_find(e, file, e->o->setting[i].key, file->word);
}
