// resolve.c - writes settings into a model's text.
//
// In: a model and settings. Out: its text in the language, with every setting as the default of its
// config, so that the text alone is what was compiled. Where a setting is of a config that stages
// set, the stages are left out.
#include "driver.h"

static Str as_written(Str text, const Ast *a) {
    return str_sub(text, a->span.lo, a->span.hi);
}

static bool is_value(Str text, const Ast *alternative, Str value) {
    if (alternative->kind == AstStr)
        return str_eq(alternative->text, value);
    Str written = as_written(text, alternative);
    double a, b;
    return str_eq(written, value) ||
           (gan_number(written, &a) && gan_number(value, &b) && a == b); // `32.0` is 32
}

// Copies the config's text with `value` first: it and the default change places, or, where the
// alternatives are not listed, it is the default.
static void put_config(Text *t, Str text, const Ast *config, Str value, size_t *from) {
    uint32_t chosen = 0;
    for (uint32_t i = 1; i < config->list.n; i++) // the last one counts, as in elaboration
        if (is_value(text, config->list.at[i], value))
            chosen = i;
    for (uint32_t i = 0; i < config->list.n; i++) {
        uint32_t put = i == 0 ? chosen : i == chosen ? 0 : i;
        const Ast *a = config->list.at[i];
        text_put(t, str_sub(text, *from, a->span.lo));
        *from = a->span.hi;
        if (put == 0 && i == 0 && !is_value(text, a, value))
            setting_to_gan(t, a, value);
        else
            text_put(t, as_written(text, config->list.at[put]));
    }
}

static const Setting *setting_of(const CompileOptions *o, Str name) {
    const Setting *found = NULL;
    for (uint32_t i = 0; i < o->settings; i++) // the last one counts
        if (str_eq(o->setting[i].key, name))
            found = &o->setting[i];
    return found;
}

static bool left_out(const CompileOptions *o, const Ast *item) {
    for (uint32_t i = 0; i < o->settings && item->kind == AstStages; i++)
        if (stages_set(item, o->setting[i].key))
            return true;
    return false;
}

GanStatus compile_resolved(Arena *perm, const CompileOptions *o, Str *out) {
    Front f;
    front_init(&f, perm);
    Ast *file = NULL;
    TRY(compile_parse(&f, o, &file));
    Str text = f.source.at[f.source.n - 1].text;
    if (compile_is_yaml(o->path)) {
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
        if (left_out(o, item)) {
            text_put(&t, str_sub(text, from, item->span.lo));
            from = item->span.hi;
        }
    }
    text_put(&t, str_sub(text, from, text.len));
    *out = text_str(&t);
    return GAN_OK;
}
