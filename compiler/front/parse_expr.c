// parse_expr.c - expressions, one function for each rule of lang/grammar.ebnf. In: the parser at
// the first token of the rule. Out: a node; a mistake has put the parser in panic (syntax.h).
#include "syntax.h"

static Ast *unary(Parser *p);

Ast *read_name(Parser *p) {
    Ast *a = ast_start(p, AstName);
    a->text = token_text(&p->lex, p->tok);
    if (p->tok.kind > TokRBrace && !p->broken) {
        diag(p->f, DiagE0120, parser_span(p, p->tok), SARG(a->text));
        parser_panic(p);
    }
    parser_need(p, TokName);
    return ast_done(p, a);
}

void read_names(Parser *p, Ast *into) {
    do
        ast_add(p, into, read_name(p));
    while (take(p, TokComma));
}

static Ast *target(Parser *p) {
    bool star = at(p, TokTimes) && !p->panic, rest = take(p, TokDots);
    Ast *a = read_name(p);
    a->kind = rest ? AstRest : AstName;
    if (star)
        diag_help(p->f, "what other names leave is taken by dots: a, ...rest = list");
    return a;
}

void read_targets(Parser *p, Ast *into) {
    uint32_t rests = 0;
    do {
        Ast *a = target(p);
        rests += a->kind == AstRest;
        ast_add(p, into, a);
    } while (take(p, TokComma));
    if (rests && (rests > 1 || into->list.n == 1) && !p->panic) {
        diag(p->f, DiagE0125, into->list.at[into->list.n - 1]->word);
        parser_panic(p);
    }
}

// --- lists and arguments -------------------------------------------------------------------------

static Ast *spread(Parser *p) {
    Ast *a = ast_start(p, AstSpread);
    parser_next(p);
    a->a = read_expr(p);
    return ast_done(p, a);
}

static Ast *element(Parser *p) {
    bool star = at(p, TokTimes) && !p->panic;
    Ast *a = at(p, TokDots) ? spread(p) : read_expr(p);
    if (star)
        diag_help(p->f, "the elements of a list are spread by dots: [...a, b], f(...a)");
    return a;
}

// The last has the element.
static void comprehension(Parser *p, Ast *a, Ast *element) {
    if (!parser_enter(p))
        return;
    parser_next(p);
    a->kind = AstComp;
    a->list.n = 0;
    read_targets(p, a);
    parser_need(p, TokIn);
    a->b = read_expr(p);
    if (at(p, TokFor) && !p->panic) {
        a->c = ast_start(p, AstComp);
        comprehension(p, a->c, element);
        (void)ast_done(p, a->c);
    } else {
        a->a = element;
        if (at(p, TokIf) && !p->panic) {
            parser_fail(p, "`]`");
            diag_help(p->f, "a condition is a list of one or of none: for i in list "
                            "for a in if CONDITION { [i] } else { [] }");
        }
    }
    p->depth--;
}

Ast *read_list(Parser *p) {
    Ast *a = ast_start(p, AstList);
    Bracket outer = bracket_open(p, TokLSquare);
    while (!bracket_ends(p, TokRSquare)) {
        ast_add(p, a, element(p));
        if (a->list.n == 1 && a->list.at[0]->kind != AstSpread && at(p, TokFor)) {
            comprehension(p, a, a->list.at[0]);
            break;
        }
        if (!take(p, TokComma))
            break;
    }
    bracket_close(p, TokRSquare, outer, "`,` or `]`");
    return ast_done(p, a);
}

static Ast *argument(Parser *p) {
    if (!at(p, TokName) || p->ahead.kind != TokBind)
        return element(p);
    Ast *a = ast_start(p, AstArg);
    a->text = token_text(&p->lex, p->tok);
    parser_next(p);
    parser_next(p);
    bool panic = p->panic;
    a->a = read_expr(p);
    bool failed = p->panic && !panic && p->held.kind != TokFn; // betas=(0.5, 0.9)
    Str habit = failed ? word_habit(a->text) : (Str){0};
    if (habit.len)
        diag_help(p->f, "%.*s", SARG(habit));
    return ast_done(p, a);
}

static Ast *call(Parser *p, Ast *callee) {
    Ast *a = ast_wrap(p, AstCall, callee);
    a->word = callee->word;
    a->a = callee;
    Bracket outer = bracket_open(p, TokLParen);
    while (!bracket_ends(p, TokRParen)) {
        ast_add(p, a, argument(p));
        if (!take(p, TokComma))
            break;
    }
    bracket_close(p, TokRParen, outer, "`,` or `)`");
    return ast_done(p, a);
}

static Ast *range(Parser *p) {
    if (at(p, TokDots) && !p->panic) {
        parser_fail(p, "an index");
        diag_help(p->f, "every axis before is written: x[:, :, 0]");
    }
    Ast *from = at(p, TokColon) ? NULL : read_expr(p);
    if (!at(p, TokColon))
        return from;
    Ast *a = from ? ast_wrap(p, AstRange, from) : ast_start(p, AstRange);
    a->a = from;
    parser_next(p);
    if (!at(p, TokComma) && !at(p, TokRSquare) && !at(p, TokColon))
        a->b = read_expr(p);
    if (at(p, TokColon)) {
        parser_fail(p, "`,` or `]`");
        diag_help(
            p->f,
            "a range has no step: flip(x, axis(0)) reverses, reversed(list) a list; of n rows "
            "every second is reshape(x, n/2, 2, ...)[:, 0]");
    }
    (void)ast_done(p, a);
    a->word = a->span;
    return a;
}

static Ast *index(Parser *p, Ast *object) {
    Ast *a = ast_wrap(p, AstIndex, object);
    a->word = object->word;
    a->a = object;
    Bracket outer = bracket_open(p, TokLSquare);
    do
        ast_add(p, a, range(p));
    while (take(p, TokComma));
    bracket_close(p, TokRSquare, outer, "`,` or `]`");
    return ast_done(p, a);
}

// --- primaries -----------------------------------------------------------------------------------

static Ast *number(Parser *p) {
    Ast *a = ast_start(p, AstNum);
    a->text = token_text(&p->lex, p->tok);
    if (!gan_number(a->text, &a->num))
        a->kind = AstHole; // the lexer has said so
    parser_next(p);
    return ast_done(p, a);
}

static Ast *string(Parser *p) {
    Ast *a = ast_start(p, AstStr);
    a->text = string_contents(&p->lex, p->tok);
    parser_next(p);
    return ast_done(p, a);
}

static Ast *parentheses(Parser *p) {
    Bracket outer = bracket_open(p, TokLParen);
    Ast *a = read_expr(p);
    if (!p->panic && at(p, TokComma)) {
        parser_fail(p, "`)`");
        diag_help(
            p->f,
            "a list is written [a, b]; several names are bound without brackets: a, b = f(x)");
    } else if (!p->panic && at(p, TokColon)) {
        parser_fail(p, "`)`");
        diag_help(p->f, "inputs follow the name: net D(x: [3, 64, 64]) -> [] { ... }");
    }
    bracket_close(p, TokRParen, outer, "`)`");
    return a;
}

static Ast *if_expr(Parser *p) {
    Ast *a = ast_start(p, AstIf);
    parser_next(p);
    if (!parser_enter(p))
        return a;
    a->a = read_expr(p);
    a->b = read_block(p);
    if (take(p, TokElse))
        a->c = at(p, TokIf) ? if_expr(p) : read_block(p);
    p->depth--;
    return ast_done(p, a);
}

// "once" block | "every" expr block | "each" "sample" block
static Ast *timed(Parser *p, AstKind kind) {
    Ast *a = ast_start(p, kind);
    parser_next(p);
    if (kind == AstEvery)
        a->a = read_expr(p);
    if (kind == AstEach) {
        if (at(p, TokName) && str_eq(token_text(&p->lex, p->tok), STR("sample")))
            parser_next(p);
        else
            parser_fail(p, "`sample` after `each`");
    }
    a->c = read_block(p);
    return ast_done(p, a);
}

static Ast *primary(Parser *p) {
    if (p->broken) {
        parser_fail(p, "an expression");
        return ast_start(p, AstNone);
    }
    switch (p->tok.kind) {
    case TokNum:
        return number(p);
    case TokStr:
        return string(p);
    case TokName:
        return read_name(p);
    case TokLParen:
        return parentheses(p);
    case TokLSquare:
        return read_list(p);
    case TokOnce:
        return timed(p, AstOnce);
    case TokEvery:
        return timed(p, AstEvery);
    case TokEach:
        return timed(p, AstEach);
    case TokIf:
        return if_expr(p);
    default:
        parser_fail(p, "an expression");
        return ast_start(p, AstNone);
    }
}

Ast *read_postfix(Parser *p) {
    Ast *a = primary(p);
    for (;;)
        if (at(p, TokLParen))
            a = call(p, a);
        else if (at(p, TokLSquare))
            a = index(p, a);
        else
            return a;
}

static Ast *net_target(Parser *p) {
    Ast *a = read_name(p);
    while (!p->panic && at(p, TokLSquare))
        a = index(p, a);
    return a;
}

void read_nets(Parser *p, Ast *into) {
    do
        ast_add(p, into, net_target(p));
    while (take(p, TokComma));
}

// --- operators -----------------------------------------------------------------------------------

static Ast *binary(Parser *p, Ast *left, Ast *(*right)(Parser *)) {
    Ast *a = ast_wrap(p, AstBinary, left);
    a->text = token_sign(p->tok.kind);
    a->a = left;
    parser_next(p);
    a->b = right(p);
    return ast_done(p, a);
}

static Ast *prefix(Parser *p, Ast *(*operand)(Parser *)) {
    Ast *a = ast_start(p, AstUnary);
    a->text = token_sign(p->tok.kind);
    parser_next(p);
    if (!parser_enter(p))
        return a;
    a->a = operand(p);
    p->depth--;
    return ast_done(p, a);
}

static Ast *exponent(Parser *p) {
    if (!parser_enter(p))
        return ast_start(p, AstNone);
    Ast *a = unary(p);
    p->depth--;
    return a;
}

static Ast *unary(Parser *p) {
    if (at(p, TokMinus))
        return prefix(p, unary);
    Ast *a = read_postfix(p);
    return at(p, TokPower) ? binary(p, a, exponent) : a;
}

static Ast *product(Parser *p) {
    Ast *a = unary(p);
    while (at(p, TokTimes) || at(p, TokOver) || at(p, TokMod))
        a = binary(p, a, unary);
    return a;
}

static Ast *sum(Parser *p) {
    Ast *a = product(p);
    while (at(p, TokPlus) || at(p, TokMinus))
        a = binary(p, a, product);
    return a;
}

static bool at_comparison(const Parser *p) {
    return p->tok.kind >= TokEq && p->tok.kind <= TokGt && !p->broken;
}

// The rules `not`, `and`, `or`.
static Ast *not_expr(Parser *p) {
    if (at(p, TokNot))
        return prefix(p, not_expr);
    Ast *a = sum(p);
    if (at_comparison(p))
        a = binary(p, a, sum);
    if (at_comparison(p)) {
        diag(p->f, DiagE0113, parser_span(p, p->tok));
        parser_panic(p);
    }
    return a;
}

static Ast *and_expr(Parser *p) {
    Ast *a = not_expr(p);
    while (at(p, TokAnd))
        a = binary(p, a, not_expr);
    return a;
}

static Ast *or_expr(Parser *p) {
    Ast *a = and_expr(p);
    while (at(p, TokOr))
        a = binary(p, a, and_expr);
    return a;
}

static Ast *pipe(Parser *p, Ast *left) {
    Ast *a = ast_wrap(p, AstPipe, left);
    a->a = left;
    parser_next(p);
    a->b = read_postfix(p);
    bool goes_on = (p->tok.kind >= TokEq && p->tok.kind <= TokGt) ||
                   (p->tok.kind >= TokPlus && p->tok.kind <= TokPower) || p->tok.kind == TokAnd ||
                   p->tok.kind == TokOr;
    if (goes_on && !p->broken) {
        diag(p->f, DiagE0114, parser_span(p, p->tok), SARG(token_text(&p->lex, p->tok)));
        parser_panic(p);
    }
    return ast_done(p, a);
}

Ast *read_expr(Parser *p) {
    if (!parser_enter(p))
        return ast_start(p, AstNone);
    Ast *a = or_expr(p);
    while (at(p, TokPipe))
        a = pipe(p, a);
    p->depth--;
    return a;
}
