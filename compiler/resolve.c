// resolve.c - a model's text with its settings written in.
//
// In: a model and settings. Out: its text in the language, in which every config that was set has
// its value as the default, so that the text alone says what was compiled.
#include "driver.h"

static Str span_text(Str text, const Ast *a) {
    return str_sub(text, a->span.lo, a->span.hi);
}

// What stands in the place of a config's first alternative once `value` is its default.
static void put_default(Text *t, const Ast *first, Str value) {
    if (first->kind == AstStr)
        text_fmt(t, "\"%.*s\"", SARG(value));
    else
        text_put(t, value);
}

static bool is_value(Str text, const Ast *alternative, Str value) {
    return str_eq(alternative->kind == AstStr ? alternative->text : span_text(text, alternative),
                  value);
}

// Copies the config's text with `value` first; the alternative that was `value` gets the old
// default's place.
static void put_config(Text *t, Str text, const Ast *config, Str value, size_t *from) {
    for (uint32_t i = 0; i < config->list.n; i++) {
        const Ast *a = config->list.at[i];
        text_put(t, str_sub(text, *from, a->span.lo));
        *from = a->span.hi;
        if (i == 0)
            put_default(t, a, value);
        else
            text_put(t, span_text(text, is_value(text, a, value) ? config->list.at[0] : a));
    }
}

static const Setting *setting_of(const CompileOptions *o, Str name) {
    const Setting *found = NULL;
    for (uint32_t i = 0; i < o->settings; i++) // the last one counts
        if (str_eq(o->setting[i].key, name))
            found = &o->setting[i];
    return found;
}

GanStatus compile_resolved(Arena *perm, const CompileOptions *o, Str *out) {
    Front f;
    front_init(&f, perm);
    Ast *file = NULL;
    TRY(compile_parse(&f, o, &file));
    Str text = f.source.at[f.source.n - 1].text;
    if (str_eq(path_ext(o->path), STR("yaml")) || str_eq(path_ext(o->path), STR("yml"))) {
        Text gan = {.arena = perm};
        ast_to_gan(&gan, file);
        text = text_str(&gan);
        uint32_t source = front_add_source(&f, STR("resolved.gan"), text, false);
        file = source ? parse_gan(&f, source) : NULL;
        if (!file || diag_errors(&f))
            return fail(GAN_ERR_BUG,
                        "the model does not read back from its own text; please report this");
    }
    Text t = {.arena = perm};
    size_t from = 0;
    for (uint32_t i = 0; i < file->list.n; i++) {
        const Ast *item = file->list.at[i];
        const Setting *s = item->kind == AstConfig ? setting_of(o, item->text) : NULL;
        if (s && item->list.n)
            put_config(&t, text, item, s->value, &from);
    }
    text_put(&t, str_sub(text, from, text.len));
    *out = text_str(&t);
    return GAN_OK;
}
