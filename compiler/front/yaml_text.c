// yaml_text.c - helpers for the forms of a YAML model. Scalars are expressions of the language: its
// parser reads them in place, so a mistake in one has its position in the YAML file.
#include "yaml_form.h"

#include <string.h>

// --- forms ---------------------------------------------------------------------------------------

static const char *form_of(const Yaml *y) {
    if (y->kind == YamlMap)
        return "a mapping";
    if (y->kind == YamlList)
        return "a list";
    return y->text.len ? "a text" : "nothing";
}

void yaml_wrong(YamlReader *r, const Yaml *y, const char *expected) {
    diag(r->f, DiagE0203, y->span, expected, form_of(y));
}

bool yaml_expect(YamlReader *r, const Yaml *y, YamlKind kind, const char *expected) {
    if (y->kind == kind)
        return true;
    yaml_wrong(r, y, expected);
    return false;
}

void yaml_unknown(YamlReader *r, const Yaml *key, const char *where, const Str *known, uint32_t n) {
    diag(r->f, DiagE0201, key->span, SARG(key->text), where);
    Str meant = key_habit(key->text);
    for (uint32_t i = 0; i < n; i++)
        if (meant.len && str_eq(known[i], meant)) {
            diag_help(r->f, "write `%.*s`", SARG(meant));
            return;
        }
    diag_help_known(r->f, key->text, known, n, "its keys");
}

Yaml *yaml_find(const Yaml *map, const char *key) {
    for (uint32_t i = 0; i < map->pair.n; i++)
        if (str_eq(map->pair.at[i].key->text, str_c(key)))
            return map->pair.at[i].value;
    return NULL;
}

// Every key of the mapping is one of `known`, or a diagnostic.
bool yaml_only(YamlReader *r, const Yaml *map, const char *where, const Str *known, uint32_t n) {
    bool good = true;
    for (uint32_t i = 0; i < map->pair.n; i++) {
        uint32_t k = 0;
        while (k < n && !str_eq(known[k], map->pair.at[i].key->text))
            k++;
        if (k < n)
            continue;
        const Yaml *key = map->pair.at[i].key, *value = map->pair.at[i].value;
        yaml_unknown(r, key, where, known, n);
        if (!map->flow || value->kind != YamlText || value->text.len)
            good = false;
        else { // the rest of a text: what follows it is as well
            diag_help(r->f, "put the text that ends before it in quotes: in { } a comma ends it");
            return false;
        }
    }
    return good;
}

Ast *yaml_node(YamlReader *r, AstKind kind, Span span) {
    Ast *a = arena_new(r->f->perm, Ast);
    *a = (Ast){.kind = kind, .span = span, .word = span, .height = 1};
    return a;
}

void yaml_adopt(YamlReader *r, Ast *parent, Ast *child) {
    if (child)
        vec_push(r->f->perm, &parent->list, child);
}

YamlEntry yaml_entry(const YamlReader *r, const Ast *into) {
    return (YamlEntry){diag_errors(r->f) - r->held, into->list.n};
}

static bool in_name(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

// "G(z: [4]) -> [3]" defines G; "a, b" both.
static void names_of(YamlReader *r, const Yaml *key, Ast *hole) {
    Str text = key->text;
    for (size_t i = 0; i < text.len && (in_name(text.ptr[i]) || strchr(", ", text.ptr[i])); i++) {
        size_t from = i;
        while (i < text.len && in_name(text.ptr[i]))
            i++;
        if (i == from)
            continue;
        Ast *name = yaml_node(r, AstName, key->span);
        name->text = str_sub(text, from, i--);
        yaml_adopt(r, hole, name);
    }
}

static void keys_of(YamlReader *r, const Yaml *y, Ast *hole) {
    for (uint32_t i = 0; i < y->pair.n; i++) {
        names_of(r, y->pair.at[i].key, hole);
        keys_of(r, y->pair.at[i].value, hole);
    }
    for (uint32_t i = 0; i < y->item.n; i++)
        keys_of(r, y->item.at[i], hole);
}

void yaml_settle(YamlReader *r, YamlEntry entry, Ast *into, const Yaml *y) {
    uint32_t errors = diag_errors(r->f) - r->held - entry.errors;
    if (!errors)
        return;
    r->held += errors;
    into->list.n = entry.adopted;
    Ast *hole = yaml_node(r, AstHole, y->span);
    if (y->kind == YamlText)
        names_of(r, y, hole);
    keys_of(r, y, hole);
    yaml_adopt(r, into, hole);
}

// --- texts, read as parts of the language --------------------------------------------------------

static Span range_of(const Yaml *y) {
    return y->kind == YamlText ? y->source : y->span;
}

Parser yaml_open(YamlReader *r, const Yaml *y) {
    Span s = range_of(y);
    Parser p;
    parser_init(&p, r->f, s.file, s.lo, s.hi);
    p.flat = true;
    return p;
}

void yaml_close(Parser *p) {
    if (!p->panic && p->tok.kind != TokEnd)
        parser_fail(p, "the end of the text");
}

Ast *yaml_expression(YamlReader *r, const Yaml *y) {
    bool text = y->kind == YamlText;
    if ((text && !y->text.len) || y->kind == YamlMap || (y->kind == YamlList && !y->flow)) {
        yaml_wrong(r, y, "an expression");
        if (!text)
            diag_help(r->f, "write an expression of the language: adam(lr=2e-4), [64, 128]");
    } else
        return parse_expr(r->f, range_of(y).file, range_of(y).lo, range_of(y).hi);
    return yaml_node(r, AstNone, y->span);
}

Ast *yaml_text(YamlReader *r, const Yaml *y) {
    if (!yaml_expect(r, y, YamlText, "a text"))
        return NULL;
    Ast *a = yaml_node(r, AstStr, y->span);
    a->text = y->text;
    return a;
}

Ast *yaml_statements(YamlReader *r, const Yaml *y) {
    uint32_t before = diag_errors(r->f);
    Ast *a = parse_statements(r->f, y->source.file, y->source.lo, y->source.hi);
    if (!a->b)
        r->held += diag_errors(r->f) - before;
    return a;
}

// Names or nets, of a text or a list.
void yaml_names(YamlReader *r, const Yaml *y, void (*read)(Parser *, Ast *), Ast *into) {
    Parser p = yaml_open(r, y);
    if (y->kind == YamlMap) {
        yaml_wrong(r, y, "names");
        return;
    }
    Bracket outer = {0};
    if (y->kind == YamlList)
        outer = bracket_open(&p, TokLSquare);
    read(&p, into);
    if (y->kind == YamlList)
        bracket_close(&p, TokRSquare, outer, "`,` or `]`");
    yaml_close(&p);
}

Str yaml_name(YamlReader *r, const Yaml *y) {
    Parser p = yaml_open(r, y);
    Ast *a = read_name(&p);
    bool more = !p.panic && p.tok.kind != TokEnd;
    yaml_close(&p);
    if (more)
        diag_help(r->f, "a name is one word of letters, digits and _");
    return a->text;
}
