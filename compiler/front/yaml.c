// yaml.c - in: a model as YAML. Out: the tree its .gan twin would parse to. The keys of the top
// level are the statements of the language, taken top to bottom. lang/spec.md has the layout.
#include "yaml_form.h"

static void section_model(YamlReader *r, const Yaml *y) {
    if (yaml_expect(r, y, YamlText, "the model's name"))
        r->file->text = yaml_name(r, y);
    r->file->word = y->span;
}

static void section_doc(YamlReader *r, const Yaml *y) {
    r->file->a = yaml_text(r, y);
}

static void section_use(YamlReader *r, const Yaml *y) {
    for (uint32_t i = 0; i < (y->kind == YamlList ? y->item.n : 1); i++) {
        const Yaml *one = y->kind == YamlList ? y->item.at[i] : y;
        if (!yaml_expect(r, one, YamlText, "a library's name"))
            continue;
        Ast *a = yaml_node(r, AstUse, one->span);
        a->text = one->text;
        yaml_adopt(r, r->file, a);
    }
}

static bool is_plain_word(const Ast *a) {
    return a->kind == AstName && !str_eq(a->text, STR("true")) && !str_eq(a->text, STR("false")) &&
           !str_eq(a->text, STR("none"));
}

// An alternative of one_of: a word, quoted or not, is a string; anything else is an expression.
static Ast *alternative(YamlReader *r, const Yaml *y) {
    if (y->kind == YamlText && y->quoted)
        return yaml_text(r, y);
    Ast *a = yaml_expression(r, y);
    return is_plain_word(a) ? yaml_text(r, y) : a;
}

static Ast *config(YamlReader *r, const Yaml *key, const Yaml *value) {
    static const Str keys[] = {{"value", 5}, {"one_of", 6}, {"doc", 3}};
    Ast *a = yaml_node(r, AstConfig, key->span);
    a->text = yaml_name(r, key);
    if (value->kind != YamlMap) {
        yaml_adopt(r, a, yaml_expression(r, value));
        return a;
    }
    if (!YAML_ONLY(r, value, "a config", keys))
        return a;
    const Yaml *first = yaml_find(value, "value"), *several = yaml_find(value, "one_of"),
               *doc = yaml_find(value, "doc");
    if (first)
        yaml_adopt(r, a, yaml_expression(r, first));
    else if (!several)
        diag(r->f, DiagE0207, key->span, "a config", "`value` or `one_of`");
    else if (several->kind == YamlList && !several->item.n)
        diag(r->f, DiagE0203, several->span, "a list of alternatives", "an empty list");
    else if (yaml_expect(r, several, YamlList, "a list of alternatives"))
        for (uint32_t k = 0; k < several->item.n; k++)
            yaml_adopt(r, a, alternative(r, several->item.at[k]));
    if (doc)
        a->a = yaml_text(r, doc);
    return a;
}

static void section_config(YamlReader *r, const Yaml *y) {
    if (!yaml_expect(r, y, YamlMap, "a mapping of configs"))
        return;
    for (uint32_t i = 0; i < y->pair.n; i++) {
        YamlEntry entry = yaml_entry(r, r->file);
        yaml_adopt(r, r->file, config(r, y->pair.at[i].key, y->pair.at[i].value));
        yaml_settle(r, entry, r->file, y->pair.at[i].key);
    }
}

static void section_let(YamlReader *r, const Yaml *y) {
    if (y->kind == YamlText) {
        Ast *some = yaml_statements(r, y);
        for (uint32_t i = 0; i < some->list.n; i++)
            yaml_adopt(r, r->file, some->list.at[i]);
    } else if (yaml_expect(r, y, YamlMap, "a mapping of names, or statements as a text"))
        yaml_binds(r, y, r->file);
}

// A mapping is one stream, its keys are the fields; a list of mappings is several streams.
static void section_data(YamlReader *r, const Yaml *y) {
    for (uint32_t i = 0; y->kind == YamlList && i < y->item.n; i++)
        if (yaml_expect(r, y->item.at[i], YamlMap, "a mapping of fields"))
            section_data(r, y->item.at[i]);
    if (y->kind == YamlList || !yaml_expect(r, y, YamlMap, "a mapping of fields"))
        return;
    YamlEntry entry = yaml_entry(r, r->file);
    Ast *a = yaml_node(r, AstData, y->span);
    for (uint32_t i = 0; i < y->pair.n; i++) {
        Ast *field = yaml_node(r, AstField, y->pair.at[i].key->span);
        field->text = yaml_name(r, y->pair.at[i].key);
        yaml_adopt(r, a, field);
        if (!yaml_expect(r, y->pair.at[i].value, YamlText, "a type such as image(3, 64, 64)"))
            continue;
        Parser p = yaml_open(r, y->pair.at[i].value);
        read_words(&p, field);
        yaml_close(&p);
    }
    yaml_adopt(r, r->file, a);
    yaml_settle(r, entry, r->file, y);
}

static void each_pair(YamlReader *r, const Yaml *y, AstKind kind, const char *what,
                      const char *where) {
    if (!yaml_expect(r, y, YamlMap, what))
        return;
    for (uint32_t i = 0; i < y->pair.n; i++) {
        YamlEntry entry = yaml_entry(r, r->file);
        yaml_adopt(r, r->file, yaml_function(r, &y->pair.at[i], kind, where));
        yaml_settle(r, entry, r->file, y->pair.at[i].key);
    }
}

static void section_fn(YamlReader *r, const Yaml *y) {
    each_pair(r, y, AstFn, "a mapping of functions", "a function");
}
static void section_net(YamlReader *r, const Yaml *y) {
    each_pair(r, y, AstNet, "a mapping of nets", "a net");
}
static void section_sample(YamlReader *r, const Yaml *y) {
    each_pair(r, y, AstSample, "a mapping of samples", "a sample");
}

static void section_block(YamlReader *r, const Yaml *y, AstKind kind) {
    Ast *a = yaml_node(r, kind, y->span);
    a->c = yaml_block(r, y);
    yaml_adopt(r, r->file, a);
}
static void section_step(YamlReader *r, const Yaml *y) {
    section_block(r, y, AstStep);
}
static void section_stages(YamlReader *r, const Yaml *y) {
    section_block(r, y, AstStages);
}

static const struct {
    Str key;
    void (*read)(YamlReader *, const Yaml *);
} sections[] = {
    {{"model", 5}, section_model},   {{"doc", 3}, section_doc},       {{"use", 3}, section_use},
    {{"config", 6}, section_config}, {{"let", 3}, section_let},       {{"data", 4}, section_data},
    {{"fn", 2}, section_fn},         {{"net", 3}, section_net},       {{"step", 4}, section_step},
    {{"sample", 6}, section_sample}, {{"stages", 6}, section_stages},
};
enum { SECTIONS = sizeof sections / sizeof *sections };

static void document(YamlReader *r, const Yaml *y) {
    if (!yaml_expect(r, y, YamlMap, "a mapping with `model`, `net`, `step`"))
        return;
    for (uint32_t i = 0; i < y->pair.n; i++) {
        uint32_t k = 0;
        while (k < SECTIONS && !str_eq(sections[k].key, y->pair.at[i].key->text))
            k++;
        if (k < SECTIONS) {
            sections[k].read(r, y->pair.at[i].value);
            continue;
        }
        Str known[SECTIONS];
        for (k = 0; k < SECTIONS; k++)
            known[k] = sections[k].key;
        yaml_unknown(r, y->pair.at[i].key, "a model", known, SECTIONS);
    }
}

Str yaml_key(uint32_t i) {
    if (i < SECTIONS)
        return sections[i].key;
    Str key = yaml_net_key(i - SECTIONS);
    return key.len ? key : yaml_step_key(i - SECTIONS - YAML_NET_KEYS);
}

Ast *parse_yaml(Front *f, uint32_t source) {
    const Yaml *y = yaml_read(f, source);
    if (!y)
        return NULL;
    YamlReader r = {.f = f, .held = diag_errors(f)};
    r.file = yaml_node(&r, AstFile, y->span);
    for (uint32_t i = 0; y->kind == YamlList && i < y->item.n; i++)
        document(&r, y->item.at[i]);
    if (y->kind != YamlList)
        document(&r, y);
    if (!r.file->text.len && !diag_errors(f)) {
        diag(f, DiagE0115, (Span){source, 0, 0});
        diag_help(f, "in YAML: `model: my_model`");
    }
    if (diag_errors(f) > r.held) // what was to be there is not known
        r.file->b = yaml_node(&r, AstHole, y->span);
    return r.file;
}
