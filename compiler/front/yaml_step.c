// yaml_step.c - statements of a YAML model: texts, bindings, and mappings of a statement's
// keywords.
#include "yaml_form.h"

static const Str step_keys[] = {
    {"update", 6}, {"minimize", 8}, {"using", 5}, {"repeat", 6}, {"do", 2},    {"for", 3},
    {"if", 2},     {"then", 4},     {"else", 4},  {"every", 5},  {"once", 4},  {"each sample", 11},
    {"report", 6}, {"next", 4},     {"state", 5}, {"param", 5},  {"stage", 5},
};

static Yaml *beside(YamlReader *r, const Yaml *map, const char *word, const char *other) {
    Yaml *y = yaml_find(map, other);
    if (!y)
        diag(r->f, DiagE0207, map->pair.at[0].key->span, word,
             str_format(r->f->perm, "`%s`", other).ptr);
    return y;
}

static Ast *step_update(YamlReader *r, const Yaml *map, const Yaml *y) {
    Ast *a = yaml_node(r, AstUpdate, map->span);
    const Yaml *minimize = beside(r, map, "`update`", "minimize"),
               *using = beside(r, map, "`update`", "using");
    yaml_names(r, y, read_nets, a);
    if (minimize)
        a->a = yaml_expression(r, minimize);
    if (using)
        a->b = yaml_expression(r, using);
    return a;
}

// {"repeat": 5, "do": [...]}, `every`, and `stage`
static Ast *step_rounds(YamlReader *r, AstKind kind, const char *word, const Yaml *map,
                        const Yaml *y) {
    Ast *a = yaml_node(r, kind, map->span);
    const Yaml *rounds = beside(r, map, word, "do");
    a->a = yaml_expression(r, y);
    if (rounds)
        a->c = yaml_block(r, rounds);
    return a;
}

static Ast *step_for(YamlReader *r, const Yaml *map, const Yaml *y) {
    Ast *a = yaml_node(r, AstFor, map->span);
    const Yaml *rounds = beside(r, map, "`for`", "do");
    Parser p = yaml_open(r, y);
    read_targets(&p, a);
    parser_need(&p, TokIn);
    a->a = read_expr(&p);
    yaml_close(&p);
    if (rounds)
        a->c = yaml_block(r, rounds);
    return a;
}

static Ast *step_if(YamlReader *r, const Yaml *map, const Yaml *y) {
    Ast *a = yaml_node(r, AstIf, map->span);
    const Yaml *then = beside(r, map, "`if`", "then"), *otherwise = yaml_find(map, "else");
    a->a = yaml_expression(r, y);
    if (then)
        a->b = yaml_block(r, then);
    if (otherwise)
        a->c = yaml_block(r, otherwise);
    return a;
}

static Ast *step_report(YamlReader *r, const Yaml *map, const Yaml *y) {
    Ast *a = yaml_node(r, AstReport, map->span);
    if (y->kind == YamlMap) {
        for (uint32_t i = 0; i < y->pair.n; i++) {
            Ast *row = yaml_node(r, AstBind, y->pair.at[i].key->span);
            yaml_names(r, y->pair.at[i].key, read_names, row);
            row->c = yaml_expression(r, y->pair.at[i].value);
            yaml_adopt(r, a, row);
        }
        return a;
    }
    Ast *all = yaml_node(r, AstReport, y->span);
    yaml_names(r, y, read_names, all);
    for (uint32_t i = 0; i < all->list.n; i++) {
        Ast *row = yaml_node(r, AstBind, all->list.at[i]->span);
        yaml_adopt(r, row, all->list.at[i]);
        yaml_adopt(r, a, row);
    }
    return a;
}

// {"k : [3]": value}: the names of `state` and `param`
static void step_stored(YamlReader *r, AstKind kind, const Yaml *y, Ast *into) {
    if (!yaml_expect(r, y, YamlMap, "a mapping, as name: value"))
        return;
    for (uint32_t i = 0; i < y->pair.n; i++) {
        Parser p = yaml_open(r, y->pair.at[i].key);
        Ast *a = ast_start(&p, kind);
        a->text = read_name(&p)->text;
        if (take(&p, TokColon))
            a->a = read_expr(&p);
        yaml_close(&p);
        a->c = yaml_expression(r, y->pair.at[i].value);
        if (!p.panic)
            yaml_adopt(r, into, a);
    }
}

static bool is_step_key(const Yaml *key) {
    for (uint32_t i = 0; i < sizeof step_keys / sizeof *step_keys; i++)
        if (str_eq(step_keys[i], key->text))
            return true;
    return false;
}

void yaml_binds(YamlReader *r, const Yaml *y, Ast *into) {
    for (uint32_t i = 0; i < y->pair.n; i++) {
        YamlEntry entry = yaml_entry(r, into);
        Ast *a = yaml_node(r, AstBind, y->pair.at[i].key->span);
        yaml_names(r, y->pair.at[i].key, read_targets, a);
        a->c = yaml_expression(r, y->pair.at[i].value);
        yaml_adopt(r, into, a);
        yaml_settle(r, entry, into, y->pair.at[i].key);
    }
}

static void step_words(YamlReader *r, const Yaml *map, Ast *into) {
    if (!YAML_ONLY(r, map, "a statement", step_keys))
        return;
    const Yaml *y;
    Ast *a = NULL;
    if ((y = yaml_find(map, "update")))
        a = step_update(r, map, y);
    else if ((y = yaml_find(map, "repeat")))
        a = step_rounds(r, AstRepeat, "`repeat`", map, y);
    else if ((y = yaml_find(map, "for")))
        a = step_for(r, map, y);
    else if ((y = yaml_find(map, "if")))
        a = step_if(r, map, y);
    else if ((y = yaml_find(map, "every")))
        a = step_rounds(r, AstEvery, "`every`", map, y);
    else if ((y = yaml_find(map, "stage")))
        a = step_rounds(r, AstStage, "`stage`", map, y);
    else if ((y = yaml_find(map, "report")))
        a = step_report(r, map, y);
    else if ((y = yaml_find(map, "state")))
        step_stored(r, AstState, y, into);
    else if ((y = yaml_find(map, "param")))
        step_stored(r, AstParam, y, into);
    else if ((y = yaml_find(map, "next"))) {
        a = yaml_node(r, AstNext, map->span);
        a->text = yaml_name(r, y);
    } else if ((y = yaml_find(map, "once")) || (y = yaml_find(map, "each sample"))) {
        a = yaml_node(r, yaml_find(map, "once") ? AstOnce : AstEach, map->span);
        a->c = yaml_block(r, y);
    } else
        yaml_unknown(r, map->pair.at[0].key, "a statement without its first word", step_keys, 1);
    yaml_adopt(r, into, a);
}

// A list of statements, or one text of them.
Ast *yaml_block(YamlReader *r, const Yaml *y) {
    if (y->kind == YamlText && y->text.len)
        return yaml_statements(r, y);
    Ast *block = yaml_node(r, AstBlock, y->span);
    if (!yaml_expect(r, y, YamlList, "a list of statements, or a text"))
        return block;
    for (uint32_t i = 0; i < y->item.n; i++) {
        const Yaml *item = y->item.at[i];
        YamlEntry entry = yaml_entry(r, block);
        if (item->kind == YamlText) {
            Ast *some = yaml_statements(r, item);
            for (uint32_t k = 0; k < some->list.n; k++)
                yaml_adopt(r, block, some->list.at[k]);
        } else if (yaml_expect(r, item, YamlMap, "a statement")) {
            bool words = false;
            for (uint32_t k = 0; k < item->pair.n; k++)
                words = words || is_step_key(item->pair.at[k].key);
            if (words)
                step_words(r, item, block);
            else
                yaml_binds(r, item, block);
        }
        yaml_settle(r, entry, block, item);
    }
    return block;
}

Str yaml_step_key(uint32_t i) {
    return i < sizeof step_keys / sizeof *step_keys ? step_keys[i] : (Str){0};
}
