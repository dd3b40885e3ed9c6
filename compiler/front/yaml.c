// yaml.c - in: a model as YAML. Out: the tree its .gan twin would parse to. The keys of the top
// level are the statements of the language, taken top to bottom; scalars are read by the parser of
// the language where they stand in the file, so a mistake in one has its place there. lang/spec.md
// has the layout.
#include "syntax.h"
#include "yaml_tree.h"

typedef struct Reader {
    Front *f;
    Ast *file;
} Reader;

// --- forms ---------------------------------------------------------------------------------------

static const char *form_of(const Yaml *y) {
    if (y->kind == YamlMap)
        return "a mapping";
    if (y->kind == YamlList)
        return "a list";
    return y->text.len ? "a text" : "nothing";
}

static void wrong(Reader *r, const Yaml *y, const char *expected) {
    diag(r->f, DiagE0203, y->span, expected, form_of(y));
}

static bool expect(Reader *r, const Yaml *y, YamlKind kind, const char *expected) {
    if (y->kind == kind)
        return true;
    wrong(r, y, expected);
    return false;
}

static void unknown_key(Reader *r, const Yaml *key, const char *where, const Str *known,
                        uint32_t n) {
    diag(r->f, DiagE0201, key->span, SARG(key->text), where);
    Str near = diag_nearest(key->text, known, n);
    Text all = {.arena = r->f->perm};
    for (uint32_t i = 0; i < n; i++)
        text_fmt(&all, "%s%.*s", i ? ", " : "", SARG(known[i]));
    if (near.len)
        diag_help(r->f, "did you mean `%.*s`?", SARG(near));
    else
        diag_help(r->f, "its keys are: %.*s", SARG(text_str(&all)));
}

static Yaml *find(const Yaml *map, const char *key) {
    for (uint32_t i = 0; i < map->pair.n; i++)
        if (str_eq(map->pair.at[i].key->text, str_c(key)))
            return map->pair.at[i].value;
    return NULL;
}

// Every key of the mapping is one of `known`, or a diagnostic.
static bool only(Reader *r, const Yaml *map, const char *where, const Str *known, uint32_t n) {
    bool good = true;
    for (uint32_t i = 0; i < map->pair.n; i++) {
        uint32_t k = 0;
        while (k < n && !str_eq(known[k], map->pair.at[i].key->text))
            k++;
        if (k < n)
            continue;
        const Yaml *key = map->pair.at[i].key, *value = map->pair.at[i].value;
        unknown_key(r, key, where, known, n);
        if (!map->flow || value->kind != YamlText || value->text.len)
            good = false;
        else { // the rest of a text: what follows it is as well
            diag_help(r->f, "put the text that ends before it in quotes: in { } a comma ends it");
            return false;
        }
    }
    return good;
}
#define ONLY(r, map, where, known)                                                                 \
    only(r, map, where, known, (uint32_t)(sizeof(known) / sizeof *(known)))

static Ast *node(Reader *r, AstKind kind, Span span) {
    Ast *a = arena_new(r->f->perm, Ast);
    *a = (Ast){.kind = kind, .span = span, .word = span, .height = 1};
    return a;
}

static void adopt(Reader *r, Ast *parent, Ast *child) {
    if (child)
        vec_push(r->f->perm, &parent->list, child);
}

// --- texts, read as parts of the language --------------------------------------------------------

static Span range_of(const Yaml *y) {
    return y->kind == YamlText ? y->source : y->span;
}

static Parser open_text(Reader *r, const Yaml *y) {
    Span s = range_of(y);
    Parser p;
    parser_init(&p, r->f, s.file, s.lo, s.hi);
    p.flat = true;
    return p;
}

static void close_text(Parser *p) {
    if (!p->panic && p->tok.kind != TokEnd)
        parser_fail(p, "the end of the text");
}

static Ast *expression(Reader *r, const Yaml *y) {
    bool text = y->kind == YamlText;
    if ((text && !y->text.len) || y->kind == YamlMap || (y->kind == YamlList && !y->flow)) {
        wrong(r, y, "an expression");
        if (!text)
            diag_help(r->f, "write it as in the language: adam(lr=2e-4), [64, 128]");
    } else
        return parse_expr(r->f, range_of(y).file, range_of(y).lo, range_of(y).hi);
    return node(r, AstNone, y->span);
}

static Ast *text_node(Reader *r, const Yaml *y) {
    if (!expect(r, y, YamlText, "a text"))
        return NULL;
    Ast *a = node(r, AstStr, y->span);
    a->text = y->text;
    return a;
}

static Ast *statements(Reader *r, const Yaml *y) {
    return parse_statements(r->f, y->source.file, y->source.lo, y->source.hi);
}

// NAME { "," NAME } of a text, or a list of names.
static void names(Reader *r, const Yaml *y, Ast *into) {
    Parser p = open_text(r, y);
    if (y->kind == YamlMap) {
        wrong(r, y, "names");
        return;
    }
    Bracket outer = {0};
    if (y->kind == YamlList)
        outer = bracket_open(&p, TokLSquare);
    read_names(&p, into);
    if (y->kind == YamlList)
        bracket_close(&p, TokRSquare, outer, "`,` or `]`");
    close_text(&p);
}

static Str name(Reader *r, const Yaml *y) {
    Parser p = open_text(r, y);
    Ast *a = read_name(&p);
    bool more = !p.panic && p.tok.kind != TokEnd;
    close_text(&p);
    if (more)
        diag_help(r->f, "a name is one word of letters, digits and _");
    return a->text;
}

// --- functions and nets --------------------------------------------------------------------------

static const Str callable_keys[] = {
    {"in", 2},
    {"out", 3},
    {"layers", 6},
    {"body", 4},
};

static Ast *inputs(Reader *r, const Yaml *y) {
    Ast *a = node(r, AstParams, y->span);
    if (y->kind == YamlText) { // "x: [n], c=3"
        Parser p = open_text(r, y);
        do {
            Ast *one = ast_start(&p, AstParamDecl);
            one->text = read_name(&p)->text;
            if (take(&p, TokColon))
                one->a = read_postfix(&p);
            if (take(&p, TokBind))
                one->b = read_expr(&p);
            adopt(r, a, ast_done(&p, one));
        } while (take(&p, TokComma));
        close_text(&p);
        return a;
    }
    if (!expect(r, y, YamlMap, "the inputs, as name: shape"))
        return a;
    for (uint32_t i = 0; i < y->pair.n; i++) {
        const YamlPair *pair = &y->pair.at[i];
        Ast *one = node(r, AstParamDecl, pair->key->span);
        one->text = name(r, pair->key);
        if (pair->value->kind != YamlText || pair->value->text.len)
            one->a = expression(r, pair->value);
        adopt(r, a, one);
    }
    return a;
}

// One result [3, 64, 64], or a list of several.
static void results(Reader *r, const Yaml *y, Ast *into) {
    bool list = y->kind == YamlList || (y->kind == YamlText && str_starts(y->text, STR("[")));
    Ast *a = list ? expression(r, y) : NULL;
    if (!a) {
        wrong(r, y, "a shape in brackets");
        diag_help(r->f, "write: out: [3, 64, 64], or out: [] for one number");
        return;
    }
    if (a->kind == AstNone)
        return;
    into->has_result = true;
    for (uint32_t i = 0; i < y->item.n; i++) { // a shape that YAML reads otherwise is quoted
        const Yaml *one = y->item.at[i];
        if (one->kind == YamlText && one->quoted)
            a->list.at[i] = expression(r, one);
    }
    bool several = a->kind == AstList && a->list.n > 0;
    for (uint32_t i = 0; several && i < a->list.n; i++)
        several = a->list.at[i]->kind == AstList;
    if (!several)
        adopt(r, into, a);
    for (uint32_t i = 0; several && i < a->list.n; i++)
        adopt(r, into, a->list.at[i]);
}

static Ast *name_node(Reader *r, Str text, Span span) {
    Ast *a = node(r, AstName, span);
    a->text = text;
    return a;
}

static Ast *bind_node(Reader *r, Str text, Ast *value) {
    Ast *a = node(r, AstBind, value->span);
    adopt(r, a, name_node(r, text, value->span));
    a->c = value;
    return a;
}

// The parser limits the height of its own trees; a pipe made here is as high as the list is long.
static Ast *pipe_node(Reader *r, Ast *left, Ast *right) {
    Ast *a = node(r, AstPipe, right->span);
    a->a = left;
    a->b = right;
    a->height = left->height + right->height;
    return a;
}

static Ast *layer(Reader *r, const Yaml *y) {
    if (!expect(r, y, YamlText, "a layer"))
        return NULL;
    if (str_starts(y->text, STR("for "))) {
        wrong(r, y, "a layer");
        diag_help(r->f, "a loop ends its line with `:` and has its layers below it, indented");
        return NULL;
    }
    Parser p = open_text(r, y);
    Ast *a = read_postfix(&p);
    close_text(&p);
    return p.panic ? NULL : a;
}

static Ast *pipe_block(Reader *r, const Yaml *y, Str x, bool value);

// {"for c in [256, 128]": [layers]}
static Ast *layer_loop(Reader *r, const Yaml *y, Str x) {
    if (y->pair.n != 1 || !str_starts(y->pair.at[0].key->text, STR("for "))) {
        wrong(r, y, "a layer, or `for NAME in LIST:` with layers below it");
        if (y->pair.n)
            diag_help(r->f, "a layer is a call, with its options in parentheses: %.*s(...)",
                      SARG(y->pair.at[0].key->text));
        return NULL;
    }
    Parser p = open_text(r, y->pair.at[0].key);
    Ast *a = ast_start(&p, AstFor);
    parser_need(&p, TokFor);
    read_names(&p, a);
    parser_need(&p, TokIn);
    a->a = read_expr(&p);
    close_text(&p);
    ast_done(&p, a);
    if (!expect(r, y->pair.at[0].value, YamlList, "a list of layers"))
        return NULL;
    a->c = pipe_block(r, y->pair.at[0].value, x, false);
    return p.panic ? NULL : a;
}

// Layers as statements: `x = x |> a |> b`, loops between them; the last pipe is the value where one
// is wanted.
static Ast *pipe_block(Reader *r, const Yaml *y, Str x, bool value) {
    Ast *block = node(r, AstBlock, y->span), *pipe = NULL;
    for (uint32_t i = 0; i < y->item.n; i++) {
        const Yaml *item = y->item.at[i];
        if (!pipe)
            pipe = name_node(r, x, item->span);
        if (item->kind == YamlMap) {
            if (pipe->kind == AstPipe)
                adopt(r, block, bind_node(r, x, pipe));
            pipe = NULL;
            adopt(r, block, layer_loop(r, item, x));
            continue;
        }
        Ast *call = layer(r, item);
        if (!call)
            continue;
        pipe = pipe_node(r, pipe, call);
        if (pipe->height < 500)
            continue; // a very long list is several statements
        adopt(r, block, bind_node(r, x, pipe));
        pipe = NULL;
    }
    if (value)
        adopt(r, block, pipe ? pipe : name_node(r, x, y->span));
    else if (pipe && pipe->kind == AstPipe)
        adopt(r, block, bind_node(r, x, pipe));
    return block;
}

static Ast *layers(Reader *r, const Yaml *y, const Ast *params) {
    if (!expect(r, y, YamlList, "a list of layers"))
        return NULL;
    uint32_t n = params ? params->list.n : 0;
    if (n == 1)
        return pipe_block(r, y, params->list.at[0]->text, true);
    diag(r->f, DiagE0206, y->span, n);
    return NULL;
}

// {in, out, layers or body} to a, c and list of a Fn or Net.
static void callable(Reader *r, const Yaml *y, Ast *into, const char *where) {
    bool known = ONLY(r, y, where, callable_keys);
    const Yaml *in = find(y, "in"), *out = find(y, "out"), *pipe = find(y, "layers"),
               *body = find(y, "body");
    if (in)
        into->a = inputs(r, in);
    known = known && (!in || in->kind != YamlList); // else `in` has its diagnostic
    if (!into->a)
        into->a = node(r, AstParams, y->span);
    if (out)
        results(r, out, into);
    if (pipe && body)
        diag(r->f, DiagE0208, into->word, where);
    else if (pipe && known)
        into->c = layers(r, pipe, into->a);
    else if (body && expect(r, body, YamlText, "statements"))
        into->c = statements(r, body);
    else if (!body && known)
        diag(r->f, DiagE0207, into->word, where, "`layers` or `body`");
}

// NAME [params [params] [result]] of a key, and what it means.
static Ast *head(Reader *r, const YamlPair *pair, AstKind kind) {
    Parser p = open_text(r, pair->key);
    Ast *a = ast_start(&p, kind);
    a->text = read_name(&p)->text;
    if (at(&p, TokLParen))
        a->a = read_params(&p);
    if (at(&p, TokLParen) && kind == AstFn)
        a->b = read_params(&p);
    if (kind != AstSample)
        read_result(&p, a);
    close_text(&p);
    a->span = pair->key->span;
    return p.panic ? NULL : a;
}

static Ast *function(Reader *r, const YamlPair *pair, AstKind kind, const char *where) {
    Ast *a = head(r, pair, kind);
    if (!a)
        return NULL;
    const Yaml *value = pair->value;
    if (value->kind == YamlMap && kind != AstSample)
        callable(r, value, a, where);
    else if (value->kind == YamlText && value->literal)
        a->c = statements(r, value);
    else
        a->c = expression(r, value);
    if (kind == AstFn && !a->a)
        a->a = node(r, AstParams, pair->key->span);
    return a;
}

// --- the step ------------------------------------------------------------------------------------

static const Str step_keys[] = {
    {"update", 6}, {"minimize", 8}, {"using", 5}, {"repeat", 6}, {"do", 2},   {"for", 3},
    {"if", 2},     {"then", 4},     {"else", 4},  {"every", 5},  {"once", 4}, {"each sample", 11},
    {"report", 6}, {"next", 4},     {"state", 5}, {"param", 5},
};

static Ast *step_block(Reader *r, const Yaml *y);

static Yaml *beside(Reader *r, const Yaml *map, const char *word, const char *other) {
    Yaml *y = find(map, other);
    if (!y)
        diag(r->f, DiagE0207, map->pair.at[0].key->span, word,
             str_format(r->f->perm, "`%s`", other).ptr);
    return y;
}

static Ast *step_update(Reader *r, const Yaml *map, const Yaml *y) {
    Ast *a = node(r, AstUpdate, map->span);
    const Yaml *minimize = beside(r, map, "`update`", "minimize"),
               *using = beside(r, map, "`update`", "using");
    names(r, y, a);
    if (minimize)
        a->a = expression(r, minimize);
    if (using)
        a->b = expression(r, using);
    return a;
}

static Ast *step_repeat(Reader *r, const Yaml *map, const Yaml *y) {
    Ast *a = node(r, AstRepeat, map->span);
    const Yaml *rounds = beside(r, map, "`repeat`", "do");
    a->a = expression(r, y);
    if (rounds)
        a->c = step_block(r, rounds);
    return a;
}

static Ast *step_for(Reader *r, const Yaml *map, const Yaml *y) {
    Ast *a = node(r, AstFor, map->span);
    const Yaml *rounds = beside(r, map, "`for`", "do");
    Parser p = open_text(r, y);
    read_names(&p, a);
    parser_need(&p, TokIn);
    a->a = read_expr(&p);
    close_text(&p);
    if (rounds)
        a->c = step_block(r, rounds);
    return a;
}

static Ast *step_if(Reader *r, const Yaml *map, const Yaml *y) {
    Ast *a = node(r, AstIf, map->span);
    const Yaml *then = beside(r, map, "`if`", "then"), *otherwise = find(map, "else");
    a->a = expression(r, y);
    if (then)
        a->b = step_block(r, then);
    if (otherwise)
        a->c = step_block(r, otherwise);
    return a;
}

static Ast *step_every(Reader *r, const Yaml *map, const Yaml *y) {
    Ast *a = node(r, AstEvery, map->span);
    const Yaml *rounds = beside(r, map, "`every`", "do");
    a->a = expression(r, y);
    if (rounds)
        a->c = step_block(r, rounds);
    return a;
}

static Ast *step_report(Reader *r, const Yaml *map, const Yaml *y) {
    Ast *a = node(r, AstReport, map->span);
    if (y->kind == YamlMap) {
        for (uint32_t i = 0; i < y->pair.n; i++) {
            Ast *row = node(r, AstBind, y->pair.at[i].key->span);
            names(r, y->pair.at[i].key, row);
            row->c = expression(r, y->pair.at[i].value);
            adopt(r, a, row);
        }
        return a;
    }
    Ast *all = node(r, AstReport, y->span);
    names(r, y, all);
    for (uint32_t i = 0; i < all->list.n; i++) {
        Ast *row = node(r, AstBind, all->list.at[i]->span);
        adopt(r, row, all->list.at[i]);
        adopt(r, a, row);
    }
    return a;
}

// {"k : [3]": value}: the names of `state` and `param`
static void step_stored(Reader *r, AstKind kind, const Yaml *y, Ast *into) {
    if (!expect(r, y, YamlMap, "a mapping, as name: value"))
        return;
    for (uint32_t i = 0; i < y->pair.n; i++) {
        Parser p = open_text(r, y->pair.at[i].key);
        Ast *a = ast_start(&p, kind);
        a->text = read_name(&p)->text;
        if (take(&p, TokColon))
            a->a = read_expr(&p);
        close_text(&p);
        a->c = expression(r, y->pair.at[i].value);
        if (!p.panic)
            adopt(r, into, a);
    }
}

static bool is_step_key(const Yaml *key) {
    for (uint32_t i = 0; i < sizeof step_keys / sizeof *step_keys; i++)
        if (str_eq(step_keys[i], key->text))
            return true;
    return false;
}

static void step_binds(Reader *r, const Yaml *y, Ast *into) {
    for (uint32_t i = 0; i < y->pair.n; i++) {
        Ast *a = node(r, AstBind, y->pair.at[i].key->span);
        names(r, y->pair.at[i].key, a);
        a->c = expression(r, y->pair.at[i].value);
        adopt(r, into, a);
    }
}

static void step_words(Reader *r, const Yaml *map, Ast *into) {
    if (!ONLY(r, map, "a statement", step_keys))
        return;
    const Yaml *y;
    Ast *a = NULL;
    if ((y = find(map, "update")))
        a = step_update(r, map, y);
    else if ((y = find(map, "repeat")))
        a = step_repeat(r, map, y);
    else if ((y = find(map, "for")))
        a = step_for(r, map, y);
    else if ((y = find(map, "if")))
        a = step_if(r, map, y);
    else if ((y = find(map, "every")))
        a = step_every(r, map, y);
    else if ((y = find(map, "report")))
        a = step_report(r, map, y);
    else if ((y = find(map, "state")))
        step_stored(r, AstState, y, into);
    else if ((y = find(map, "param")))
        step_stored(r, AstParam, y, into);
    else if ((y = find(map, "next"))) {
        a = node(r, AstNext, map->span);
        a->text = name(r, y);
    } else if ((y = find(map, "once")) || (y = find(map, "each sample"))) {
        a = node(r, find(map, "once") ? AstOnce : AstEach, map->span);
        a->c = step_block(r, y);
    } else
        unknown_key(r, map->pair.at[0].key, "a statement without its first word", step_keys, 1);
    adopt(r, into, a);
}

// A list of statements, or one text of them.
static Ast *step_block(Reader *r, const Yaml *y) {
    if (y->kind == YamlText && y->text.len)
        return statements(r, y);
    Ast *block = node(r, AstBlock, y->span);
    if (!expect(r, y, YamlList, "a list of statements, or a text"))
        return block;
    for (uint32_t i = 0; i < y->item.n; i++) {
        const Yaml *item = y->item.at[i];
        if (item->kind == YamlText) {
            Ast *some = statements(r, item);
            for (uint32_t k = 0; k < some->list.n; k++)
                adopt(r, block, some->list.at[k]);
        } else if (!expect(r, item, YamlMap, "a statement"))
            continue;
        else {
            bool words = false;
            for (uint32_t k = 0; k < item->pair.n; k++)
                words = words || is_step_key(item->pair.at[k].key);
            if (words)
                step_words(r, item, block);
            else
                step_binds(r, item, block);
        }
    }
    return block;
}

// --- the top level -------------------------------------------------------------------------------

static void section_model(Reader *r, const Yaml *y) {
    if (expect(r, y, YamlText, "the model's name"))
        r->file->text = name(r, y);
    r->file->word = y->span;
}

static void section_doc(Reader *r, const Yaml *y) {
    r->file->a = text_node(r, y);
}

static void section_use(Reader *r, const Yaml *y) {
    for (uint32_t i = 0; i < (y->kind == YamlList ? y->item.n : 1); i++) {
        const Yaml *one = y->kind == YamlList ? y->item.at[i] : y;
        if (!expect(r, one, YamlText, "a library's name"))
            continue;
        Ast *a = node(r, AstUse, one->span);
        a->text = one->text;
        adopt(r, r->file, a);
    }
}

static bool is_plain_word(const Ast *a) {
    return a->kind == AstName && !str_eq(a->text, STR("true")) && !str_eq(a->text, STR("false")) &&
           !str_eq(a->text, STR("none"));
}

// An alternative of one_of: a word, quoted or not, is a string; anything else is an expression.
static Ast *alternative(Reader *r, const Yaml *y) {
    if (y->kind == YamlText && y->quoted)
        return text_node(r, y);
    Ast *a = expression(r, y);
    return is_plain_word(a) ? text_node(r, y) : a;
}

static void section_config(Reader *r, const Yaml *y) {
    static const Str keys[] = {{"value", 5}, {"one_of", 6}, {"doc", 3}};
    if (!expect(r, y, YamlMap, "a mapping of configs"))
        return;
    for (uint32_t i = 0; i < y->pair.n; i++) {
        const Yaml *key = y->pair.at[i].key, *value = y->pair.at[i].value;
        Ast *a = node(r, AstConfig, key->span);
        a->text = name(r, key);
        adopt(r, r->file, a);
        if (value->kind != YamlMap) {
            adopt(r, a, expression(r, value));
            continue;
        }
        if (!ONLY(r, value, "a config", keys))
            continue;
        const Yaml *first = find(value, "value"), *several = find(value, "one_of"),
                   *doc = find(value, "doc");
        if (first)
            adopt(r, a, expression(r, first));
        else if (!several)
            diag(r->f, DiagE0207, key->span, "a config", "`value` or `one_of`");
        else if (expect(r, several, YamlList, "a list of alternatives"))
            for (uint32_t k = 0; k < several->item.n; k++)
                adopt(r, a, alternative(r, several->item.at[k]));
        if (doc)
            a->a = text_node(r, doc);
    }
}

static void section_let(Reader *r, const Yaml *y) {
    if (y->kind == YamlText) {
        Ast *some = statements(r, y);
        for (uint32_t i = 0; i < some->list.n; i++)
            adopt(r, r->file, some->list.at[i]);
    } else if (expect(r, y, YamlMap, "a mapping of names, or statements as a text"))
        step_binds(r, y, r->file);
}

// A mapping is one stream, its keys are the fields; a list of mappings is several streams.
static void section_data(Reader *r, const Yaml *y) {
    for (uint32_t i = 0; y->kind == YamlList && i < y->item.n; i++)
        if (expect(r, y->item.at[i], YamlMap, "a mapping of fields"))
            section_data(r, y->item.at[i]);
    if (y->kind == YamlList || !expect(r, y, YamlMap, "a mapping of fields"))
        return;
    Ast *a = node(r, AstData, y->span);
    for (uint32_t i = 0; i < y->pair.n; i++) {
        Ast *field = node(r, AstField, y->pair.at[i].key->span);
        field->text = name(r, y->pair.at[i].key);
        adopt(r, a, field);
        if (!expect(r, y->pair.at[i].value, YamlText, "a type such as image(3, 64, 64)"))
            continue;
        Parser p = open_text(r, y->pair.at[i].value);
        read_words(&p, field);
        close_text(&p);
    }
    adopt(r, r->file, a);
}

static void each_pair(Reader *r, const Yaml *y, AstKind kind, const char *what, const char *where) {
    if (!expect(r, y, YamlMap, what))
        return;
    for (uint32_t i = 0; i < y->pair.n; i++)
        adopt(r, r->file, function(r, &y->pair.at[i], kind, where));
}

static void section_fn(Reader *r, const Yaml *y) {
    each_pair(r, y, AstFn, "a mapping of functions", "a function");
}
static void section_net(Reader *r, const Yaml *y) {
    each_pair(r, y, AstNet, "a mapping of nets", "a net");
}
static void section_sample(Reader *r, const Yaml *y) {
    each_pair(r, y, AstSample, "a mapping of samples", "a sample");
}

static void section_step(Reader *r, const Yaml *y) {
    Ast *a = node(r, AstStep, y->span);
    a->c = step_block(r, y);
    adopt(r, r->file, a);
}

static const struct {
    Str key;
    void (*read)(Reader *, const Yaml *);
} sections[] = {
    {{"model", 5}, section_model},   {{"doc", 3}, section_doc}, {{"use", 3}, section_use},
    {{"config", 6}, section_config}, {{"let", 3}, section_let}, {{"data", 4}, section_data},
    {{"fn", 2}, section_fn},         {{"net", 3}, section_net}, {{"step", 4}, section_step},
    {{"sample", 6}, section_sample},
};
enum { SECTIONS = sizeof sections / sizeof *sections };

static void document(Reader *r, const Yaml *y) {
    if (!expect(r, y, YamlMap, "a mapping with `model`, `net`, `step`"))
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
        unknown_key(r, y->pair.at[i].key, "a model", known, SECTIONS);
    }
}

Str yaml_key(uint32_t i) {
    enum {
        CALLABLE = sizeof callable_keys / sizeof *callable_keys,
        STEP = sizeof step_keys / sizeof *step_keys
    };
    if (i < SECTIONS)
        return sections[i].key;
    if (i < SECTIONS + CALLABLE)
        return callable_keys[i - SECTIONS];
    return i < SECTIONS + CALLABLE + STEP ? step_keys[i - SECTIONS - CALLABLE] : (Str){0};
}

Ast *parse_yaml(Front *f, uint32_t source) {
    const Yaml *y = yaml_read(f, source);
    if (!y)
        return NULL;
    Reader r = {.f = f};
    r.file = node(&r, AstFile, y->span);
    for (uint32_t i = 0; y->kind == YamlList && i < y->item.n; i++)
        document(&r, y->item.at[i]);
    if (y->kind != YamlList)
        document(&r, y);
    if (!r.file->text.len && !diag_errors(f)) {
        diag(f, DiagE0115, (Span){source, 0, 0});
        diag_help(f, "in YAML: `model: my_model`");
    }
    return r.file;
}
