// parser.c - the parser's machinery: two tokens of lookahead, brackets, nodes, diagnostics of
// unexpected tokens, and error recovery. In: tokens. Out: one diagnostic a mistake, and panic until
// the statement has unwound (syntax.h).
#include "syntax.h"

#include <ctype.h>
#include <string.h>

enum {
    MAX_DEPTH = 200,   // of brackets and blocks
    MAX_HEIGHT = 1000, // of a tree: a chain of operators is as high as it is long
};

// How such a statement looks; NULL.
static const char *ast_form(AstKind kind) {
    static const char *const form_of[AstCount] = {
#define FORM(Kind, text) [Ast##Kind] = text,
#include "tokens.def"
    };
    return form_of[kind];
}

static Token next_code(Parser *p) {
    for (;;) {
        Token t = lex_next(&p->lex);
        if (t.kind != TokComment)
            return t;
    }
}

static bool begins_statement(TokKind kind) {
    return kind == TokFn || kind == TokParam || kind == TokState || kind == TokFor ||
           kind == TokRepeat || kind == TokNext || kind == TokUpdate || kind == TokReport;
}

static bool opens(TokKind kind) {
    return kind == TokLBrace || kind == TokLParen || kind == TokLSquare;
}

// Whether a line begins with what no expression goes on with: the statement before it has ended,
// and a bracket that is open there was to be closed.
static bool begins_item(const Parser *p) {
    return p->tok.first && (begins_statement(p->tok.kind) || at_item(p));
}

// Whether the next token is a name that is bound there, as far as its neighbours tell: in text that
// does not parse nothing else does.
static bool seems_bound(const Parser *p) {
    static const Str items[] = {{"net", 3}, {"config", 6}, {"data", 4}, {"sample", 6}};
    if (p->tok.kind != TokName)
        return false;
    for (size_t i = 0; p->before.kind == TokName && i < sizeof items / sizeof *items; i++)
        if (p->before.first && str_eq(token_text(&p->lex, p->before), items[i]))
            return true;
    TokKind word = p->before.kind, next = p->ahead.kind;
    bool row =
        word == TokComma && p->bound.n && p->bound.at[p->bound.n - 1].hi == p->before.lo; // a, b, c
    bool rest = word == TokDots && !p->flat && (next == TokComma || next == TokBind);
    return row || rest || word == TokFn || word == TokParam || word == TokState || word == TokFor ||
           next == TokColon || (next == TokBind && !p->flat) || (next == TokComma && p->tok.first);
}

// Takes the next token, whatever it is.
static void parser_shift(Parser *p) {
    if (seems_bound(p))
        vec_push(p->f->perm, &p->bound, p->tok);
    p->before = p->tok;
    p->tok = p->ahead;
    p->ahead = next_code(p);
    bool goes_on = token_breaks_after(p->before.kind) || token_breaks_before(p->tok.kind);
    p->broken = p->tok.first && !p->flat && (!goes_on || begins_item(p));
}

void parser_init(Parser *p, Front *f, uint32_t file, uint32_t lo, uint32_t hi) {
    *p = (Parser){.f = f};
    lex_init(&p->lex, f, file, lo, hi);
    p->tok = next_code(p);
    p->ahead = next_code(p);
    p->before = (Token){.lo = lo, .hi = lo};
    if (p->tok.kind == TokBad)
        parser_panic(p);
}

void parser_next(Parser *p) {
    if (p->panic)
        return;
    parser_shift(p);
    if (p->tok.kind == TokBad)
        parser_panic(p);
}

void parser_panic(Parser *p) {
    if (p->panic)
        return;
    p->panic = true;
    p->held = p->tok;
    p->tok.kind = TokEnd;
    p->broken = false;
}

void parser_stop(Parser *p) {
    parser_panic(p);
    p->stopped = p->astray = true;
    p->lex.at = p->lex.end;
    p->held = p->ahead = next_code(p);
}

Span parser_span(const Parser *p, Token t) {
    return (Span){p->lex.file, t.lo, t.hi};
}

bool parser_enter(Parser *p) {
    if (++p->depth <= MAX_DEPTH)
        return true;
    if (!p->panic)
        diag(p->f, DiagE0105, parser_span(p, p->tok));
    parser_stop(p);
    p->depth--;
    return false;
}

// `state = x`: a reserved word where a name is bound.
static bool binds_a_word(Parser *p) {
    bool clause = p->before.kind == TokMinimize || p->before.kind == TokUsing;
    bool behind = p->tok.kind == TokBind && token_is_word(p->before.kind) && !clause;
    if (!behind && !(p->ahead.kind == TokBind && token_is_word(p->tok.kind)))
        return false;
    Token word = behind ? p->before : p->tok;
    diag(p->f, DiagE0120, parser_span(p, word), SARG(token_text(&p->lex, word)));
    parser_panic(p);
    return true;
}

// Help after DiagE0110 or DiagE0118, by what is found where `expected` should be.
static void help_unexpected(Parser *p, const char *expected, bool bound) {
    Str found = token_text(&p->lex, p->tok);
    TokKind kind = p->tok.kind;
    bool inside = p->bracket.kind == TokLParen || p->bracket.kind == TokLSquare;
    bool here = !p->broken, name = kind == TokName && here;
    Str habit = p->broken || inside || at(p, TokBind) ? (Str){0} : found_habit(found);
    if (name && isalpha((unsigned char)expected[1]))
        habit = word_habit(found);
    if (name && p->before.kind == TokName && !habit.len)
        habit = word_habit(token_text(&p->lex, p->before)); // lr=lambda s: ...
    if (kind == TokIf && here && inside)
        habit = found_habit(STR("if"));
    bool follows = name || kind == TokNum || kind == TokStr || kind == TokSemi;
    if (habit.len)
        diag_help(p->f, "%.*s", SARG(habit));
    else if (p->tok.first && token_is_operator(kind))
        diag_help(p->f, GOES_ON);
    else if (here && follows && str_starts(str_c(expected), STR("`,`")))
        diag_help(p->f, "a comma stands between two of them");
    else if (kind == TokFn && here && !strcmp(expected, "an expression"))
        diag_help(p->f, "a function has a name: fn f(x) = VALUE, and is passed by it");
    else if (kind == TokRepeat && here && !strcmp(expected, "an expression"))
        diag_help(p->f, "it is a statement, which has no value; extents of 1 are repeated by "
                        "expand(x, 64, 4, 4)");
    else if (begins_statement(kind) && here && strcmp(expected, "`{`"))
        diag_help(p->f, "it is a statement, which has no value");
    else if (p->form && !inside && !bound)
        diag_help(p->f, "write: %s", p->form);
    else if (opens(kind) && here)
        diag_help(p->f, "remove the bracket, or write what is missing before it");
}

void parser_fail(Parser *p, const char *expected) {
    if (p->panic || binds_a_word(p))
        return;
    Str found = str_c(token_what(p->tok.kind));
    Span where = parser_span(p, p->tok);
    if (p->broken || p->tok.kind == TokEnd) { // the caret stays on the line that is unfinished
        if (p->tok.kind != TokEnd)
            found = STR("the end of the line");
        else if (p->lex.end < p->lex.text.len)
            found = STR("the end of the text");
        where = (Span){p->lex.file, p->before.hi, p->before.hi};
    } else if (p->tok.kind == TokName || p->tok.kind == TokNum)
        found = str_format(p->f->perm, "`%.*s`", SARG(token_text(&p->lex, p->tok)));
    p->unopened = p->unopened || (p->broken && strchr(expected, '{'));
    p->astray = p->astray || p->unopened;
    bool after_value = strchr("{,)", expected[1]) && !p->broken;
    bool bound = p->tok.kind == TokBind && after_value;
    if (bound)
        diag(p->f, DiagE0118, where);
    else
        diag(p->f, DiagE0110, where, expected, SARG(found));
    help_unexpected(p, expected, bound);
    bool inside = p->bracket.kind == TokLParen || p->bracket.kind == TokLSquare;
    bool semicolon = p->tok.kind == TokSemi && inside;
    // A bracket that opens where none can is the mistake; that it never closes is none of its own.
    p->stopped |= opens(p->tok.kind);
    parser_panic(p);
    if (semicolon)
        p->held.kind = TokComma; // f(a; b): it ends no statement
}

Ast *parser_refuse(Parser *p, DiagCode code) {
    diag(p->f, code, parser_span(p, p->tok), SARG(token_text(&p->lex, p->tok)));
    parser_panic(p);
    return NULL;
}

static bool ends_in_pipe(const Ast *a) {
    return a->kind == AstPipe || (a->c && a->c->kind == AstPipe);
}

static bool is_data_type(const Parser *p, Token t) {
    Str word = token_text(&p->lex, t);
    return str_eq(word, STR("image")) || str_eq(word, STR("float")) || str_eq(word, STR("label"));
}

static void diag_not_ended(Parser *p, Span where) {
    Str found = token_text(&p->lex, p->tok);
    Str what =
        p->tok.kind == TokStr ? STR("a string") : str_format(p->f->perm, "`%.*s`", SARG(found));
    diag(p->f, DiagE0119, where, SARG(what));
}

// The word of the language that a name is nearly; empty: of none, or it is one.
static Str word_near(Str name) {
    static const Str words[] = {
#define WORD(Kind, text, breaks) STR_INIT(text),
#define ITEM(Kind, text) STR_INIT(text),
#include "tokens.def"
    };
    Str near = str_nearest(name, words, sizeof words / sizeof *words);
    return str_eq(near, name) ? (Str){0} : near;
}

// A word of another language: `with x`, `f = lambda x: ...`, `} elif`. False: there is none.
static bool refuse_word(Parser *p, const Ast *a) {
    const Ast *value = a->kind == AstBind && a->c ? a->c : a;
    if (value->kind == AstName && word_habit(value->text).len)
        a = value;
    bool named = a->kind == AstName;
    Str word = named ? a->text : token_text(&p->lex, p->tok), habit = word_habit(word);
    if (!habit.len || (!named && p->tok.kind != TokName))
        return false;
    diag(p->f, DiagE0301, named ? a->span : parser_span(p, p->tok), SARG(word));
    diag_help(p->f, "%.*s", SARG(habit));
    return true;
}

// What the statement was to be, by what it begins with and what follows it.
static void help_not_ended(Parser *p, const Ast *a) {
    Str found = token_text(&p->lex, p->tok);
    Str head = a->kind == AstCall ? a->a->text : a->kind == AstName ? a->text : (Str){0};
    bool colon = a->kind == AstName && p->tok.kind == TokColon;
    if (str_eq(head, STR("step")))
        diag_help(p->f, "write: %s", ast_form(AstStep));
    else if (str_eq(head, STR("stage")))
        diag_help(p->f, "write: %s", ast_form(AstStage));
    else if (colon && is_data_type(p, p->ahead))
        diag_help(p->f, "write: data %.*s : TYPE", SARG(a->text));
    else if (colon)
        diag_help(p->f, "a name is bound without a type: %.*s = VALUE", SARG(a->text));
    else if (a->kind == AstFile)
        diag_help(p->f, "a name is one word of letters, digits and _");
    else if (p->tok.kind == TokName && ends_in_pipe(a))
        diag_help(p->f, "a value goes through functions by `|>`: x |> %.*s", SARG(found));
    else if (ast_form(a->kind) && p->before.kind != TokRBrace)
        diag_help(p->f, "write: %s", ast_form(a->kind));
}

void parser_not_ended(Parser *p, const Ast *a) {
    Span there = parser_span(p, p->tok);
    Str habit = found_habit(token_text(&p->lex, p->tok)), near = {0};
    if (a->kind == AstConfig && at(p, TokComma))
        habit = STR("each config has a statement of its own: config NAME = DEFAULT");
    if (a->kind == AstName)
        near = word_near(a->text);
    if (p->tok.kind == TokElse) {
        parser_refuse(p, DiagE0123);
    } else if (habit.len) {
        diag_not_ended(p, there);
        diag_help(p->f, "%.*s", SARG(habit));
    } else if (p->ahead.kind == TokBad || refuse_word(p, a)) {
        // its diagnostic is given: with torch.no_grad()
    } else if (near.len) {
        diag_not_ended(p, a->span);
        diag_help(p->f, "did you mean `%.*s`?", SARG(near));
    } else {
        diag_not_ended(p, there);
        help_not_ended(p, a);
    }
    parser_panic(p);
}

void parser_recover(Parser *p, Token start) {
    uint32_t depth = 0; // of braces opened in what is skipped
    p->panic = false;
    p->lex.quiet = !p->held.first && !p->ahead.first; // still on the line of the mistake
    p->tok = p->held;
    for (; p->tok.kind != TokEnd; parser_shift(p)) {
        if (p->tok.kind == TokLBrace)
            depth++;
        if (depth) {
            depth -= p->tok.kind == TokRBrace;
            continue;
        }
        bool closes =
            p->tok.kind == TokRParen || p->tok.kind == TokRSquare || p->tok.kind == TokElse;
        bool begins =
            p->tok.first && p->tok.lo > start.lo && p->tok.indent <= start.indent && !closes;
        if (begins || p->tok.kind == TokSemi || p->tok.kind == TokRBrace)
            break;
    }
    if (p->tok.kind == TokBad)
        parser_panic(p);
}

void parser_need(Parser *p, TokKind kind) {
    if (!take(p, kind))
        parser_fail(p, token_what(kind));
}

Bracket bracket_open(Parser *p, TokKind kind) {
    Bracket outer = {p->bracket, p->flat};
    p->bracket = p->tok;
    p->flat = kind != TokLBrace;
    parser_need(p, kind);
    return outer;
}

bool bracket_ends(const Parser *p, TokKind kind) {
    return at(p, kind) || p->panic || p->tok.kind == TokEnd || p->tok.kind == TokRBrace ||
           begins_item(p);
}

void bracket_never_closed(Parser *p, Token found) {
    p->astray = p->astray || p->bracket.kind == TokLBrace;
    if (!p->stopped) {
        diag(p->f, DiagE0111, parser_span(p, p->bracket), SARG(token_text(&p->lex, p->bracket)));
        if (found.kind != TokEnd)
            diag_note(p->f, parser_span(p, found), "it should be closed before this");
    }
    p->stopped = p->stopped || found.kind == TokEnd;
}

void bracket_close(Parser *p, TokKind kind, Bracket outer, const char *expected) {
    p->flat = outer.flat; // what follows the bracket is in the outer text again
    bool outside = (p->tok.first && p->tok.indent <= p->indent) || p->tok.kind == TokLBrace ||
                   p->tok.kind == TokUsing || p->tok.kind == TokMinimize;
    if (!p->panic && !at(p, kind) && (outside || bracket_ends(p, kind))) {
        bracket_never_closed(p, p->tok);
        parser_panic(p);
    }
    if (!take(p, kind))
        parser_fail(p, expected);
    p->bracket = outer.outer;
}

Ast *ast_start(Parser *p, AstKind kind) {
    Ast *a = arena_new(p->f->perm, Ast);
    a->kind = kind;
    a->span = a->word = parser_span(p, p->tok);
    p->form = ast_form(kind) ? ast_form(kind) : p->form;
    return a;
}

Ast *ast_wrap(Parser *p, AstKind kind, const Ast *first) {
    Ast *a = ast_start(p, kind);
    a->span.lo = first->span.lo;
    return a;
}

static uint32_t higher(uint32_t height, const Ast *child) {
    return child && child->height > height ? child->height : height;
}

Ast *ast_done(Parser *p, Ast *a) {
    if (p->before.hi > a->span.lo)
        a->span.hi = p->before.hi;
    uint32_t height = higher(higher(higher(0, a->a), a->b), a->c);
    for (uint32_t i = 0; i < a->list.n; i++)
        height = higher(height, a->list.at[i]);
    a->height = height + 1;
    if (a->height > MAX_HEIGHT && !p->stopped) {
        diag(p->f, DiagE0105, a->word);
        parser_stop(p);
    }
    return a;
}

void ast_add(Parser *p, Ast *a, Ast *child) {
    vec_push(p->f->perm, &a->list, child);
}
