// parse.c - files and statements, one function for each rule of lang/grammar.ebnf. In: a source.
// Out: an AstFile of the statements that parse, and one diagnostic for each that does not. A
// statement ends with its line unless a bracket is open or the line breaks at a token that allows
// it (lang/tokens.def). Error recovery uses the layout: the next line that is indented no deeper
// begins the next statement.
#include "syntax.h"

#include <string.h>

// --- words of the top level ----------------------------------------------------------------------

typedef enum Item {
    ItemNone,
#define ITEM(Kind, text) Item##Kind,
#include "tokens.def"
} Item;

static const Str item_text[] = {
    {0},
#define ITEM(Kind, text) STR_INIT(text),
#include "tokens.def"
};

// The item that begins at the next token: its word, and after it something no expression goes on
// with.
static Item item_at(const Parser *p) {
    if (p->tok.kind != TokName || p->ahead.first)
        return ItemNone;
    TokKind next = p->ahead.kind;
    if (next != TokName && next != TokStr && next != TokLBrace && next != TokNum)
        return ItemNone;
    for (Item i = ItemModel; i <= ItemStages; i++)
        if (str_eq(token_text(&p->lex, p->tok), item_text[i]))
            return i;
    return ItemNone;
}

bool at_item(const Parser *p) {
    return item_at(p) != ItemNone;
}

// --- statements ----------------------------------------------------------------------------------

Ast *read_parameter(Parser *p) {
    Ast *a = ast_start(p, AstParamDecl);
    a->text = read_name(p)->text;
    if (take(p, TokColon))
        a->a = read_postfix(p);
    if (take(p, TokBind))
        a->b = read_expr(p);
    return ast_done(p, a);
}

void refuse_twice(Front *f, const Ast *params) {
    for (uint32_t i = 1; i < params->list.n; i++)
        for (uint32_t k = 0; k < i; k++) {
            const Ast *a = params->list.at[i], *first = params->list.at[k];
            if (!a->text.len || !str_eq(a->text, first->text))
                continue;
            diag(f, DiagE0302, a->word, SARG(a->text));
            diag_note(f, first->word, "`%.*s` is defined here", SARG(first->text));
            break;
        }
}

Ast *read_params(Parser *p) {
    Ast *a = ast_start(p, AstParams);
    Bracket outer = bracket_open(p, TokLParen);
    while (!bracket_ends(p, TokRParen)) {
        bool number = at(p, TokNum) && !p->panic && a->list.n && a->list.at[a->list.n - 1]->a;
        ast_add(p, a, read_parameter(p));
        if (number)
            diag_help(p->f, "a shape stands in brackets: x: [3, 64, 64]");
        if (!take(p, TokComma))
            break;
    }
    bracket_close(p, TokRParen, outer, "`,` or `)`");
    refuse_twice(p->f, a);
    return ast_done(p, a);
}

void read_result(Parser *p, Ast *into) {
    if (!take(p, TokArrow))
        return;
    into->has_result = true;
    do
        ast_add(p, into, read_list(p));
    while (take(p, TokComma));
}

static Ast *body(Parser *p) {
    if (at(p, TokLBrace))
        return read_block(p);
    if (take(p, TokBind))
        return read_expr(p);
    parser_fail(p, "`=` or `{`");
    return NULL;
}

// A node whose first word has been taken and whose name comes next.
static Ast *named(Parser *p, AstKind kind) {
    Ast *a = ast_start(p, kind);
    parser_next(p);
    a->word = parser_span(p, p->tok);
    a->text = read_name(p)->text;
    return a;
}

static Ast *fn(Parser *p) {
    Ast *a = named(p, AstFn);
    a->a = read_params(p);
    if (at(p, TokLParen))
        a->b = read_params(p);
    read_result(p, a);
    a->c = body(p);
    return ast_done(p, a);
}

static Ast *stored(Parser *p, AstKind kind) {
    Ast *a = named(p, kind);
    if (take(p, TokColon))
        a->a = read_expr(p);
    parser_need(p, TokBind);
    a->c = read_expr(p);
    return ast_done(p, a);
}

static Ast *loop(Parser *p) {
    Ast *a = ast_start(p, AstFor);
    parser_next(p);
    bool fine = !p->panic;
    read_targets(p, a);
    if (p->panic && fine && (p->held.kind == TokLParen || p->held.kind == TokLSquare))
        diag_help(p->f,
                  "names are unpacked side by side: for i, a, b in zip(range(2), as, bs) { ... }");
    parser_need(p, TokIn);
    a->a = read_expr(p);
    a->c = read_block(p);
    return ast_done(p, a);
}

// No word of the language elsewhere: what follows goes on with no expression.
static bool is_stage(const Parser *p) {
    TokKind next = p->ahead.kind;
    return at(p, TokName) && !p->ahead.first && (next == TokNum || next == TokName) &&
           str_eq(token_text(&p->lex, p->tok), STR("stage"));
}

static Ast *rounds(Parser *p, AstKind kind) {
    Ast *a = ast_start(p, kind);
    parser_next(p);
    a->a = read_expr(p);
    a->c = read_block(p);
    return ast_done(p, a);
}

static Ast *update(Parser *p) {
    Ast *a = ast_start(p, AstUpdate);
    parser_next(p);
    read_nets(p, a);
    parser_need(p, TokMinimize);
    a->a = read_expr(p);
    bool several = at(p, TokComma) && !p->panic;
    parser_need(p, TokUsing);
    if (several)
        diag_help(p->f, "an update has one loss: add several up, or give each net an update of its "
                        "own");
    a->b = read_expr(p);
    return ast_done(p, a);
}

static Ast *report(Parser *p) {
    Ast *a = ast_start(p, AstReport);
    parser_next(p);
    do {
        Ast *row = ast_start(p, AstBind);
        ast_add(p, row, read_name(p));
        if (take(p, TokBind))
            row->c = read_expr(p);
        ast_add(p, a, ast_done(p, row));
    } while (take(p, TokComma));
    return ast_done(p, a);
}

static Ast *bind(Parser *p) {
    Ast *a = ast_start(p, AstBind);
    read_targets(p, a);
    parser_need(p, TokBind);
    a->c = read_expr(p);
    return ast_done(p, a);
}

static bool is_place(const Ast *a) {
    if (a->kind == AstName)
        return true;
    return a->kind == AstIndex && a->a->kind == AstName && a->list.n == 1 &&
           a->list.at[0]->kind != AstRange;
}

// An expression, or the place of an assignment.
static Ast *expression(Parser *p) {
    Ast *a = read_expr(p);
    if (p->panic)
        return a;
    if (at(p, TokBind)) {
        diag(p->f, DiagE0122, a->span);
        if (a->kind == AstCall)
            diag_help(p->f, "a function is fn NAME(x) = VALUE, or fn NAME(x) { ... }");
        parser_panic(p);
    }
    if (!at(p, TokAssign))
        return a;
    if (!is_place(a)) {
        diag(p->f, DiagE0121, a->span);
        parser_panic(p);
        return a;
    }
    Ast *assign = ast_wrap(p, AstAssign, a);
    parser_next(p);
    assign->a = a;
    assign->c = read_expr(p);
    return ast_done(p, assign);
}

static Ast *statement(Parser *p) {
    switch (p->tok.kind) {
    case TokFn:
        return fn(p);
    case TokParam:
        return stored(p, AstParam);
    case TokState:
        return stored(p, AstState);
    case TokFor:
        return loop(p);
    case TokRepeat:
        return rounds(p, AstRepeat);
    case TokNext:
        return ast_done(p, named(p, AstNext));
    case TokUpdate:
        return update(p);
    case TokReport:
        return report(p);
    case TokElse:
        return parser_refuse(p, DiagE0123);
    default:
        break;
    }
    if (is_stage(p))
        return rounds(p, AstStage);
    bool name = p->tok.kind == TokName && !p->ahead.first;
    bool binds =
        at(p, TokDots) || (name && (p->ahead.kind == TokBind || p->ahead.kind == TokComma));
    return binds ? bind(p) : expression(p);
}

// --- items ---------------------------------------------------------------------------------------

static Ast *doc(Parser *p) {
    if (!at(p, TokStr))
        return NULL;
    Ast *a = ast_start(p, AstStr);
    a->text = string_contents(&p->lex, p->tok);
    parser_next(p);
    return ast_done(p, a);
}

static Ast *use(Parser *p) {
    Ast *a = ast_start(p, AstUse);
    p->lex.quiet = p->ahead.kind == TokName; // `use std.layers`: what is said of it is below
    parser_next(p);
    Ast *what = doc(p);
    if (what)
        a->text = what->text;
    else
        parser_fail(p, "the library's name in quotes");
    return ast_done(p, a);
}

static Ast *config(Parser *p) {
    Ast *a = named(p, AstConfig);
    parser_need(p, TokBind);
    do
        ast_add(p, a, read_expr(p));
    while (take(p, TokBar));
    a->a = doc(p);
    return ast_done(p, a);
}

static const char field_words[] =
    "a field's words follow one another, with nothing between: image(3, 64, 64) scale(-1, 1)";

void read_words(Parser *p, Ast *field) {
    do {
        if (at(p, TokPipe)) {
            parser_fail(p, "a data word");
            diag_help(p->f, field_words);
            return;
        }
        if (at(p, TokName) && p->ahead.kind == TokColon) { // the next field
            parser_fail(p, "`,`");
            return;
        }
        Ast *word = read_postfix(p);
        if (!p->panic && word->kind != AstName &&
            (word->kind != AstCall || word->a->kind != AstName)) {
            diag(p->f, DiagE0110, word->span,
                 "a data word like `image(3, 64, 64)` or `scale(-1, 1)`", 10, "this value");
            if (word->kind == AstIndex)
                diag_help(p->f, "the numbers of a word stand in parentheses: scale(-1, 1)");
            else if (word->kind == AstList)
                diag_help(p->f, "images are image(3, 64, 64), numbers float(3, 64), classes "
                                "label(10)");
            else
                diag_help(p->f, "the path of the data is an option of ganrun: --data %.*s=PATH",
                          SARG(field->text));
            parser_panic(p);
        }
        ast_add(p, field, word);
    } while (!at_end(p) && !at(p, TokComma));
}

static Ast *field(Parser *p) {
    Ast *a = ast_start(p, AstField);
    a->text = read_name(p)->text;
    bool word = at(p, TokLParen); // `, scale(-1, 1)`
    parser_need(p, TokColon);
    if (word)
        diag_help(p->f, field_words);
    read_words(p, a);
    return ast_done(p, a);
}

static Ast *data(Parser *p) {
    Ast *a = ast_start(p, AstData);
    parser_next(p);
    do
        ast_add(p, a, field(p));
    while (take(p, TokComma));
    return ast_done(p, a);
}

static Ast *net(Parser *p) {
    Ast *a = named(p, AstNet);
    if (take(p, TokBind)) {
        a->c = read_expr(p);
        return ast_done(p, a);
    }
    if (at(p, TokLParen))
        a->a = read_params(p);
    else
        parser_fail(p, "`(` or `=`");
    if (p->held.kind == TokComma && !a->a)
        diag_help(p->f, "each net has a statement of its own, or several are a list: "
                        "net D = [Critic for i in range(2)]");
    read_result(p, a);
    a->c = body(p);
    return ast_done(p, a);
}

// `step` alone on its line: as a value it would be nothing, so its `{` is missing.
static bool is_bare_step(const Parser *p) {
    return at(p, TokName) && (p->ahead.first || p->ahead.kind == TokEnd) &&
           str_eq(token_text(&p->lex, p->tok), item_text[ItemStep]);
}

static Ast *steps(Parser *p, AstKind kind) {
    Ast *a = ast_start(p, kind);
    parser_next(p);
    a->c = read_block(p);
    return ast_done(p, a);
}

static Ast *sample(Parser *p) {
    Ast *a = named(p, AstSample);
    if (at(p, TokLParen))
        a->a = read_params(p);
    a->c = body(p);
    return ast_done(p, a);
}

static Ast *item(Parser *p) {
    switch (item_at(p)) {
    case ItemNone:
        return is_bare_step(p) ? steps(p, AstStep) : statement(p);
    case ItemModel:
        return parser_refuse(p, DiagE0124);
    case ItemUse:
        return use(p);
    case ItemConfig:
        return config(p);
    case ItemData:
        return data(p);
    case ItemNet:
        return net(p);
    case ItemStep:
        return steps(p, AstStep);
    case ItemSample:
        return sample(p);
    case ItemStages:
        return steps(p, AstStages);
    }
    return NULL;
}

static Ast *inner(Parser *p) {
    return item_at(p) ? parser_refuse(p, DiagE0116) : statement(p);
}

// --- sequences of statements ---------------------------------------------------------------------

// In place of the statement at `start`, which ends at the next token; `bound` names were bound
// before it.
static Ast *hole(Parser *p, Token start, uint32_t bound) {
    Ast *a = arena_new(p->f->perm, Ast);
    a->kind = AstHole;
    a->word = parser_span(p, start);
    a->span = (Span){p->lex.file, start.lo, p->tok.lo};
    for (; bound < p->bound.n; bound++) {
        Ast *name = arena_new(p->f->perm, Ast);
        name->kind = AstName;
        name->span = name->word = parser_span(p, p->bound.at[bound]);
        name->text = token_text(&p->lex, p->bound.at[bound]);
        ast_add(p, a, name);
    }
    return a;
}

// Statements up to a `}` or the end, to into->list; `read` reads one.
static void statements(Parser *p, Ast *into, Ast *(*read)(Parser *)) {
    uint32_t indent = p->indent;
    p->broken = false;
    while (p->tok.kind != TokRBrace && (p->tok.kind != TokEnd || p->panic)) {
        Token start = p->panic ? p->held : p->tok;
        uint32_t bound = p->bound.n;
        p->broken = false;
        if (take(p, TokSemi))
            continue;
        if (into->kind == AstBlock && item_at(p) && start.first && start.indent <= indent)
            break; // an open block
        if (start.first)
            p->indent = start.indent;
        p->form = NULL;
        Ast *a = p->panic ? NULL : read(p);
        if (!p->panic && !at_end(p))
            parser_not_ended(p, a);
        if (p->panic) {
            parser_recover(p, start);
            a = hole(p, start, bound);
        }
        ast_add(p, into, a);
    }
    p->indent = indent;
}

Ast *read_block(Parser *p) {
    Ast *a = ast_start(p, AstBlock);
    if (!parser_enter(p))
        return a;
    Bracket outer = bracket_open(p, TokLBrace);
    if (!p->panic)
        statements(p, a, inner);
    p->flat = outer.flat;
    p->broken = p->tok.first && p->tok.kind != TokRBrace;
    if (!p->panic && !take(p, TokRBrace))
        bracket_never_closed(p, p->tok);
    p->bracket = outer.outer;
    p->depth--;
    return ast_done(p, a);
}

static void model(Parser *p, Ast *file) {
    if (item_at(p) != ItemModel)
        return;
    parser_next(p);
    file->word = parser_span(p, p->tok);
    file->text = read_name(p)->text;
    file->a = doc(p);
    if (!p->panic && !at_end(p))
        parser_not_ended(p, file);
}

Ast *parse_gan(Front *f, uint32_t source) {
    Parser parser, *p = &parser;
    parser_init(p, f, source, 0, (uint32_t)f->source.at[source - 1].text.len);
    Ast *file = ast_start(p, AstFile);
    bool library = f->source.at[source - 1].library;
    if (!library && !p->panic && item_at(p) != ItemModel) { // the rest may be anything
        diag(f, DiagE0115, parser_span(p, p->tok));
        if (str_starts(str_sub(p->lex.text, p->tok.lo, p->lex.text.len), STR("model:")))
            diag_help(f, "this is YAML: its file is named FILE.yaml");
        parser_stop(p);
    }
    model(p, file);
    for (;;) {
        statements(p, file, item);
        if (p->tok.kind == TokEnd)
            break;
        p->astray = true;
        if (!p->stopped && !p->unopened)
            diag(f, DiagE0112, parser_span(p, p->tok), SARG(token_text(&p->lex, p->tok)));
        p->unopened = false;
        parser_next(p);
    }
    if (p->astray)
        file->b = hole(p, p->tok, p->bound.n);
    return ast_done(p, file);
}

Ast *parse_expr(Front *f, uint32_t source, uint32_t lo, uint32_t hi) {
    Parser parser, *p = &parser;
    parser_init(p, f, source, lo, hi);
    p->flat = true;
    Ast *a = read_expr(p);
    if (!p->panic && p->tok.kind != TokEnd)
        parser_not_ended(p, a);
    return a;
}

Ast *parse_statements(Front *f, uint32_t source, uint32_t lo, uint32_t hi) {
    Parser parser, *p = &parser;
    parser_init(p, f, source, lo, hi);
    Ast *a = ast_start(p, AstBlock);
    a->span = (Span){source, lo, hi};
    p->indent = UINT32_MAX; // no block is open around it
    statements(p, a, inner);
    if (p->tok.kind == TokRBrace)
        diag(f, DiagE0112, parser_span(p, p->tok), SARG(token_text(&p->lex, p->tok)));
    if (p->astray || p->tok.kind == TokRBrace)
        a->b = hole(p, p->tok, p->bound.n);
    return ast_done(p, a);
}
