// texts.c - a model's text in other forms: formatted, printed from its syntax tree, as YAML. Each
// must be the same model, and must not change when converted again (check.h).
#include "check.h"

#include <setjmp.h>

#include <cmocka.h>

typedef struct TextForm {
    const char *name, *file; // the ending selects the parser
    void (*write)(Text *t, const Ast *tree);
} TextForm;

static const TextForm forms[] = {
    {"layout", "laid_out.gan", NULL}, // formats the source, with comments
    {"text of its tree", "written.gan", ast_to_gan},
    {"yaml", "written.yaml", ast_to_yaml},
};

static Str in_form(Arena *a, const TextForm *form, const char *file, Str text) {
    Text t = {.arena = a};
    Front f;
    front_init(&f, a);
    uint32_t source = front_add_source(&f, str_c(file), text, false);
    bool yaml = str_ends(str_c(file), STR(".yaml"));
    const Ast *tree = !source ? NULL : yaml ? parse_yaml(&f, source) : parse_gan(&f, source);
    if (!tree || diag_errors(&f))
        fail_msg("%s: it does not parse:\n%.*s", form->name, SARG(text));
    if (form->write)
        form->write(&t, tree);
    else
        assert_true(fmt_source(&t, &f, source));
    return text_str(&t);
}

static Str hash_of(Arena *a, const RanksOptions *o, const char *form) {
    Module m;
    Str said;
    if (!ranks_module(a, o, false, &m, &said))
        fail_msg("%s: it does not compile:\n%.*s\n%.*s", form, SARG(said), SARG(o->text));
    return hash_hex(a, module_hash(&m, *a));
}

void check_texts(Arena *a, const RanksOptions *o) {
    Str hash = hash_of(a, o, "text");
    for (uint32_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        RanksOptions other = *o;
        fprintf(stderr, "config: %s\n", forms[i].name);
        other.name = forms[i].file;
        other.text = in_form(a, &forms[i], o->name, o->text);
        if (!str_eq(hash_of(a, &other, forms[i].name), hash))
            fail_msg("%s: it is another model:\n%.*s", forms[i].name, SARG(other.text));
        if (!str_eq(in_form(a, &forms[i], other.name, other.text), other.text))
            fail_msg("%s: converted again it differs:\n%.*s", forms[i].name, SARG(other.text));
    }
}
