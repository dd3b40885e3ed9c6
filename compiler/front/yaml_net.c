// yaml_net.c - functions, nets and samples of a YAML model: heads, inputs, results, layers in a
// pipe.
#include "yaml_form.h"

static const Str callable_keys[YAML_NET_KEYS] = {
    {"in", 2},
    {"out", 3},
    {"layers", 6},
    {"body", 4},
};

static Ast *inputs(YamlReader *r, const Yaml *y) {
    Ast *a = yaml_node(r, AstParams, y->span);
    if (y->kind == YamlText) { // "x: [n], c=3"
        Parser p = yaml_open(r, y);
        do {
            yaml_adopt(r, a, read_parameter(&p));
        } while (take(&p, TokComma));
        yaml_close(&p);
        refuse_twice(r->f, a);
        return a;
    }
    if (!yaml_expect(r, y, YamlMap, "the inputs, as name: shape"))
        return a;
    for (uint32_t i = 0; i < y->pair.n; i++) {
        const YamlPair *pair = &y->pair.at[i];
        Ast *one = yaml_node(r, AstParamDecl, pair->key->span);
        one->text = yaml_name(r, pair->key);
        if (pair->value->kind != YamlText || pair->value->text.len)
            one->a = yaml_expression(r, pair->value);
        yaml_adopt(r, a, one);
    }
    return a;
}

// One result [3, 64, 64], or a list of several.
static void results(YamlReader *r, const Yaml *y, Ast *into) {
    bool list = y->kind == YamlList || (y->kind == YamlText && str_starts(y->text, STR("[")));
    Ast *a = list ? yaml_expression(r, y) : NULL;
    if (!a) {
        yaml_wrong(r, y, "a shape in brackets");
        diag_help(r->f, "write: out: [3, 64, 64], or out: [] for one number");
        return;
    }
    if (a->kind == AstNone)
        return;
    into->has_result = true;
    // A shape that YAML reads otherwise is quoted. What does not parse has fewer elements.
    for (uint32_t i = 0; a->kind == AstList && i < a->list.n && i < y->item.n; i++) {
        const Yaml *one = y->item.at[i];
        if (one->kind == YamlText && one->quoted)
            a->list.at[i] = yaml_expression(r, one);
    }
    bool several = a->kind == AstList && a->list.n > 0;
    for (uint32_t i = 0; several && i < a->list.n; i++)
        several = a->list.at[i]->kind == AstList;
    if (!several)
        yaml_adopt(r, into, a);
    for (uint32_t i = 0; several && i < a->list.n; i++)
        yaml_adopt(r, into, a->list.at[i]);
}

static Ast *name_node(YamlReader *r, Str text, Span span) {
    Ast *a = yaml_node(r, AstName, span);
    a->text = text;
    return a;
}

static Ast *bind_node(YamlReader *r, Str text, Ast *value) {
    Ast *a = yaml_node(r, AstBind, value->span);
    yaml_adopt(r, a, name_node(r, text, value->span));
    a->c = value;
    return a;
}

// The parser limits the height of its own trees; a pipe made here is as high as the list is long.
static Ast *pipe_node(YamlReader *r, Ast *left, Ast *right) {
    Ast *a = yaml_node(r, AstPipe, right->span);
    a->a = left;
    a->b = right;
    a->height = left->height + right->height;
    return a;
}

static Ast *layer(YamlReader *r, const Yaml *y) {
    if (!yaml_expect(r, y, YamlText, "a layer"))
        return NULL;
    if (str_starts(y->text, STR("for "))) {
        yaml_wrong(r, y, "a layer");
        diag_help(r->f, "a loop ends its line with `:` and has its layers below it, indented");
        return NULL;
    }
    Parser p = yaml_open(r, y);
    Ast *a = read_postfix(&p);
    yaml_close(&p);
    return p.panic ? NULL : a;
}

static Ast *pipe_block(YamlReader *r, const Yaml *y, Str x, bool value);

// {"for c in [256, 128]": [layers]}
static Ast *layer_loop(YamlReader *r, const Yaml *y, Str x) {
    if (y->pair.n != 1 || !str_starts(y->pair.at[0].key->text, STR("for "))) {
        yaml_wrong(r, y, "a layer, or `for NAME in LIST:` with layers below it");
        if (y->pair.n)
            diag_help(r->f, "a layer is a call, with its options in parentheses: %.*s(...)",
                      SARG(y->pair.at[0].key->text));
        return NULL;
    }
    Parser p = yaml_open(r, y->pair.at[0].key);
    Ast *a = ast_start(&p, AstFor);
    parser_need(&p, TokFor);
    read_targets(&p, a);
    parser_need(&p, TokIn);
    a->a = read_expr(&p);
    yaml_close(&p);
    ast_done(&p, a);
    if (!yaml_expect(r, y->pair.at[0].value, YamlList, "a list of layers"))
        return NULL;
    a->c = pipe_block(r, y->pair.at[0].value, x, false);
    return p.panic ? NULL : a;
}

// Layers as statements: `x = x |> a |> b`, loops between them; the last pipe is the value where one
// is wanted.
static Ast *pipe_block(YamlReader *r, const Yaml *y, Str x, bool value) {
    Ast *block = yaml_node(r, AstBlock, y->span), *pipe = NULL;
    for (uint32_t i = 0; i < y->item.n; i++) {
        const Yaml *item = y->item.at[i];
        if (!pipe)
            pipe = name_node(r, x, item->span);
        if (item->kind == YamlMap) {
            if (pipe->kind == AstPipe)
                yaml_adopt(r, block, bind_node(r, x, pipe));
            pipe = NULL;
            yaml_adopt(r, block, layer_loop(r, item, x));
            continue;
        }
        Ast *call = layer(r, item);
        if (!call)
            continue;
        pipe = pipe_node(r, pipe, call);
        if (pipe->height < 500)
            continue; // a very long list is several statements
        yaml_adopt(r, block, bind_node(r, x, pipe));
        pipe = NULL;
    }
    if (value)
        yaml_adopt(r, block, pipe ? pipe : name_node(r, x, y->span));
    else if (pipe && pipe->kind == AstPipe)
        yaml_adopt(r, block, bind_node(r, x, pipe));
    return block;
}

static Ast *layers(YamlReader *r, const Yaml *y, const Ast *params) {
    if (!yaml_expect(r, y, YamlList, "a list of layers"))
        return NULL;
    uint32_t n = params ? params->list.n : 0;
    if (n == 1)
        return pipe_block(r, y, params->list.at[0]->text, true);
    diag(r->f, DiagE0206, y->span, n);
    return NULL;
}

// {in, out, layers or body} to a, c and list of a Fn or Net.
static void callable(YamlReader *r, const Yaml *y, Ast *into, const char *where) {
    bool known = YAML_ONLY(r, y, where, callable_keys);
    const Yaml *in = yaml_find(y, "in"), *out = yaml_find(y, "out"), *pipe = yaml_find(y, "layers"),
               *body = yaml_find(y, "body");
    if (in)
        into->a = inputs(r, in);
    known = known && (!in || in->kind != YamlList); // else `in` has its diagnostic
    if (!into->a)
        into->a = yaml_node(r, AstParams, y->span);
    if (out)
        results(r, out, into);
    if (pipe && body)
        diag(r->f, DiagE0208, into->word, where);
    else if (pipe && known)
        into->c = layers(r, pipe, into->a);
    else if (body && yaml_expect(r, body, YamlText, "statements"))
        into->c = yaml_statements(r, body);
    else if (!body && known)
        diag(r->f, DiagE0207, into->word, where, "`layers` or `body`");
}

// NAME [params [params] [result]] of a key, and what it means.
static Ast *head(YamlReader *r, const YamlPair *pair, AstKind kind) {
    Parser p = yaml_open(r, pair->key);
    Ast *a = ast_start(&p, kind);
    a->text = read_name(&p)->text;
    if (at(&p, TokLParen))
        a->a = read_params(&p);
    if (at(&p, TokLParen) && kind == AstFn)
        a->b = read_params(&p);
    if (kind != AstSample)
        read_result(&p, a);
    yaml_close(&p);
    a->span = pair->key->span;
    return p.panic ? NULL : a;
}

Ast *yaml_function(YamlReader *r, const YamlPair *pair, AstKind kind, const char *where) {
    Ast *a = head(r, pair, kind);
    if (!a)
        return NULL;
    const Yaml *value = pair->value;
    if (value->kind == YamlMap && kind != AstSample)
        callable(r, value, a, where);
    else if (value->kind == YamlText && value->literal)
        a->c = yaml_statements(r, value);
    else
        a->c = yaml_expression(r, value);
    if (kind == AstFn && !a->a)
        a->a = yaml_node(r, AstParams, pair->key->span);
    return a;
}

Str yaml_net_key(uint32_t i) {
    return i < YAML_NET_KEYS ? callable_keys[i] : (Str){0};
}
