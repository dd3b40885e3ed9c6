// convert.c - in: a syntax tree, from .gan or YAML. Out: the .gan text that parses to it, in
// canonical layout, with parentheses only where the grammar needs them. A tree has no comments.
#include "syntax.h"

#include <string.h>

enum { STEP = 2, SHORT = 72 }; // a block of at most SHORT characters stays on its line

// How tightly a rule of the grammar binds; a part of a lower level than its place asks for is put
// in parentheses.
enum {
    LevelPipe,
    LevelOr,
    LevelAnd,
    LevelNot,
    LevelCompare,
    LevelSum,
    LevelProduct,
    LevelUnary,
    LevelPostfix
};

static const struct {
    const char *sign;
    uint8_t level, left, right;
} operators[] = {
    {"or", LevelOr, LevelOr, LevelAnd},
    {"and", LevelAnd, LevelAnd, LevelNot},
    {"+", LevelSum, LevelSum, LevelProduct},
    {"-", LevelSum, LevelSum, LevelProduct},
    {"*", LevelProduct, LevelProduct, LevelUnary},
    {"/", LevelProduct, LevelProduct, LevelUnary},
    {"%", LevelProduct, LevelProduct, LevelUnary},
    {"^", LevelUnary, LevelPostfix, LevelUnary},
    {"", LevelCompare, LevelSum, LevelSum}, // any comparison
};

static uint32_t operator_of(const Ast *a) {
    uint32_t i = 0;
    while (*operators[i].sign && !str_eq(a->text, str_c(operators[i].sign)))
        i++;
    return i;
}

static uint32_t level_of(const Ast *a) {
    if (a->kind == AstPipe)
        return LevelPipe;
    if (a->kind == AstBinary)
        return operators[operator_of(a)].level;
    if (a->kind == AstUnary)
        return str_eq(a->text, STR("not")) ? LevelNot : LevelUnary;
    return LevelPostfix;
}

static void put(Text *t, const char *s) {
    text_put(t, str_c(s));
}

// --- expressions ---------------------------------------------------------------------------------

static void put_expr(Text *t, const Ast *a, uint32_t level);

void gan_expr(Text *t, const Ast *a) {
    put_expr(t, a, LevelPipe);
}

void gan_string(Text *t, Str s) {
    text_char(t, '"');
    for (size_t i = 0; i < s.len; i++) {
        const char *special = memchr(escaped, s.ptr[i], sizeof escaped - 1);
        if (special)
            text_char(t, '\\');
        text_char(t, special ? escapes[special - escaped] : s.ptr[i]);
    }
    text_char(t, '"');
}

void gan_names(Text *t, const Ast *a) {
    for (uint32_t i = 0; i < a->list.n; i++)
        text_fmt(t, "%s%s%.*s", i ? ", " : "", a->list.at[i]->kind == AstRest ? "..." : "",
                 SARG(a->list.at[i]->text));
}

static void put_list(Text *t, const Ast *a) {
    for (uint32_t i = 0; i < a->list.n; i++) {
        if (i)
            put(t, ", ");
        gan_expr(t, a->list.at[i]);
    }
}

static void put_comprehension(Text *t, const Ast *a) {
    const Ast *last = a;
    while (last->c)
        last = last->c;
    text_char(t, '[');
    gan_expr(t, last->a);
    for (; a; a = a->c) {
        put(t, " for ");
        gan_names(t, a);
        put(t, " in ");
        gan_expr(t, a->b);
    }
    text_char(t, ']');
}

// A block on one line.
static void put_inline(Text *t, const Ast *block) {
    if (block->list.n == 0) {
        put(t, "{}");
        return;
    }
    put(t, "{ ");
    for (uint32_t i = 0; i < block->list.n; i++) {
        if (i)
            put(t, "; ");
        gan_statement(t, block->list.at[i], NONE);
    }
    put(t, " }");
}

static void put_block(Text *t, const Ast *block, uint32_t indent) {
    put(t, "{\n");
    gan_statements(t, block, indent + STEP);
    text_blanks(t, indent);
    text_char(t, '}');
}

static bool is_compound(const Ast *a) {
    return a->kind >= AstIf && a->kind <= AstEach;
}

static void put_head(Text *t, const Ast *a) { // what stands before a compound's block
    if (a->kind == AstOnce)
        put(t, "once ");
    else if (a->kind == AstEach)
        put(t, "each sample ");
    else {
        put(t, a->kind == AstIf ? "if " : "every ");
        gan_expr(t, a->a);
        text_char(t, ' ');
    }
}

static void put_compound(Text *t, const Ast *a) {
    put_head(t, a);
    put_inline(t, a->kind == AstIf ? a->b : a->c);
    if (a->kind != AstIf || !a->c)
        return;
    put(t, " else ");
    if (a->c->kind == AstIf)
        put_compound(t, a->c);
    else
        put_inline(t, a->c);
}

// A product stands tight where both its sides are single words.
static bool has_blank(const Ast *a) {
    return a->kind == AstPipe || is_compound(a) || level_of(a) < LevelProduct ||
           (a->kind == AstList && a->list.n > 1) ||
           (a->kind == AstBinary && (has_blank(a->a) || has_blank(a->b)));
}

static void put_binary(Text *t, const Ast *a) {
    uint32_t i = operator_of(a), level = operators[i].level;
    bool tight =
        level == LevelUnary || (level == LevelProduct && !has_blank(a->a) && !has_blank(a->b));
    put_expr(t, a->a, operators[i].left);
    text_fmt(t, tight ? "%.*s" : " %.*s ", SARG(a->text));
    put_expr(t, a->b, operators[i].right);
}

static void put_range(Text *t, const Ast *a) {
    if (a->a)
        gan_expr(t, a->a);
    text_char(t, ':');
    if (a->b)
        gan_expr(t, a->b);
}

static void put_bare(Text *t, const Ast *a) {
    switch (a->kind) {
    case AstNum:
    case AstName:
        text_put(t, a->text);
        return;
    case AstStr:
        gan_string(t, a->text);
        return;
    case AstList:
        text_char(t, '[');
        put_list(t, a);
        text_char(t, ']');
        return;
    case AstComp:
        put_comprehension(t, a);
        return;
    case AstSpread:
        put(t, "...");
        gan_expr(t, a->a);
        return;
    case AstArg:
        text_fmt(t, "%.*s=", SARG(a->text));
        gan_expr(t, a->a);
        return;
    case AstCall:
        put_expr(t, a->a, LevelPostfix);
        text_char(t, '(');
        put_list(t, a);
        text_char(t, ')');
        return;
    case AstIndex:
        put_expr(t, a->a, LevelPostfix);
        text_char(t, '[');
        put_list(t, a);
        text_char(t, ']');
        return;
    case AstRange:
        put_range(t, a);
        return;
    case AstUnary:
        put(t, level_of(a) == LevelNot ? "not " : "-");
        put_expr(t, a->a, level_of(a));
        return;
    case AstBinary:
        put_binary(t, a);
        return;
    case AstPipe:
        put_expr(t, a->a, LevelPipe);
        put(t, " |> ");
        put_expr(t, a->b, LevelPostfix);
        return;
    default:
        put_compound(t, a);
        return;
    }
}

static void put_expr(Text *t, const Ast *a, uint32_t level) {
    bool parentheses = level_of(a) < level;
    if (parentheses)
        text_char(t, '(');
    put_bare(t, a);
    if (parentheses)
        text_char(t, ')');
}

// --- statements ----------------------------------------------------------------------------------

static bool is_short(Text *t, const Ast *block) {
    Text trial = {.arena = t->arena};
    put_inline(&trial, block);
    return block->list.n <= 2 && trial.n <= SHORT;
}

static void put_body(Text *t, const Ast *block, uint32_t indent) {
    if (indent == NONE || is_short(t, block))
        put_inline(t, block);
    else
        put_block(t, block, indent);
}

// An expression where a statement stands: a compound may take several lines.
static void put_value(Text *t, const Ast *a, uint32_t indent) {
    if (!is_compound(a) || indent == NONE) {
        gan_expr(t, a);
        return;
    }
    put_head(t, a);
    put_body(t, a->kind == AstIf ? a->b : a->c, indent);
    if (a->kind != AstIf || !a->c)
        return;
    put(t, " else ");
    if (a->c->kind == AstIf)
        put_value(t, a->c, indent);
    else
        put_body(t, a->c, indent);
}

static void put_callable(Text *t, const Ast *a, uint32_t indent) {
    text_put(t, a->text);
    if (a->a)
        gan_params(t, a->a);
    if (a->kind == AstFn && a->b)
        gan_params(t, a->b);
    gan_result(t, a);
    if (a->c->kind != AstBlock) {
        put(t, " = ");
        put_value(t, a->c, indent);
        return;
    }
    text_char(t, ' ');
    if (a->kind == AstNet && indent != NONE)
        put_block(t, a->c, indent);
    else
        put_body(t, a->c, indent);
}

static void put_report(Text *t, const Ast *a) {
    put(t, "report ");
    for (uint32_t i = 0; i < a->list.n; i++) {
        if (i)
            put(t, ", ");
        gan_names(t, a->list.at[i]);
        if (!a->list.at[i]->c)
            continue;
        put(t, " = ");
        gan_expr(t, a->list.at[i]->c);
    }
}

static void put_data(Text *t, const Ast *a) {
    put(t, "data ");
    for (uint32_t i = 0; i < a->list.n; i++) {
        const Ast *field = a->list.at[i];
        text_fmt(t, "%s%.*s :", i ? ", " : "", SARG(field->text));
        for (uint32_t k = 0; k < field->list.n; k++) {
            text_char(t, ' ');
            gan_expr(t, field->list.at[k]);
        }
    }
}

static void put_config(Text *t, const Ast *a) {
    text_fmt(t, "config %.*s = ", SARG(a->text));
    for (uint32_t i = 0; i < a->list.n; i++) {
        if (i)
            put(t, " | ");
        gan_expr(t, a->list.at[i]);
    }
    if (!a->a)
        return;
    put(t, "   ");
    gan_string(t, a->a->text);
}

static void put_stored(Text *t, const Ast *a) {
    text_fmt(t, "%s %.*s", a->kind == AstParam ? "param" : "state", SARG(a->text));
    if (a->a)
        put(t, " : ");
    if (a->a)
        gan_expr(t, a->a);
    put(t, " = ");
    gan_expr(t, a->c);
}

void gan_params(Text *t, const Ast *a) {
    text_char(t, '(');
    for (uint32_t i = 0; i < a->list.n; i++) {
        const Ast *one = a->list.at[i];
        text_fmt(t, "%s%.*s", i ? ", " : "", SARG(one->text));
        if (one->a)
            put(t, ": ");
        if (one->a)
            put_expr(t, one->a, LevelPostfix);
        if (one->b)
            put(t, one->a ? " = " : "=");
        if (one->b)
            gan_expr(t, one->b);
    }
    text_char(t, ')');
}

void gan_result(Text *t, const Ast *fn) {
    if (!fn->has_result)
        return;
    put(t, " -> ");
    put_list(t, fn);
}

void gan_statement(Text *t, const Ast *a, uint32_t indent) {
    switch (a->kind) {
    case AstUse:
        put(t, "use ");
        gan_string(t, a->text);
        return;
    case AstConfig:
        put_config(t, a);
        return;
    case AstData:
        put_data(t, a);
        return;
    case AstFn:
        put(t, "fn ");
        put_callable(t, a, indent);
        return;
    case AstNet:
        put(t, "net ");
        put_callable(t, a, indent);
        return;
    case AstStep:
        put(t, "step ");
        put_block(t, a->c, indent);
        return;
    case AstStages:
        put(t, "stages ");
        put_block(t, a->c, indent);
        return;
    case AstSample:
        put(t, "sample ");
        put_callable(t, a, indent);
        return;
    case AstBind:
        gan_names(t, a);
        put(t, " = ");
        put_value(t, a->c, indent);
        return;
    case AstAssign:
        gan_expr(t, a->a);
        put(t, " := ");
        put_value(t, a->c, indent);
        return;
    case AstParam:
    case AstState:
        put_stored(t, a);
        return;
    case AstFor:
        put(t, "for ");
        gan_names(t, a);
        put(t, " in ");
        gan_expr(t, a->a);
        text_char(t, ' ');
        put_body(t, a->c, indent);
        return;
    case AstRepeat:
    case AstStage:
        put(t, a->kind == AstStage ? "stage " : "repeat ");
        gan_expr(t, a->a);
        text_char(t, ' ');
        put_body(t, a->c, indent);
        return;
    case AstNext:
        text_fmt(t, "next %.*s", SARG(a->text));
        return;
    case AstUpdate:
        put(t, "update ");
        put_list(t, a);
        put(t, " minimize ");
        gan_expr(t, a->a);
        put(t, " using ");
        gan_expr(t, a->b);
        return;
    case AstReport:
        put_report(t, a);
        return;
    default:
        put_value(t, a, indent);
        return;
    }
}

void gan_statements(Text *t, const Ast *block, uint32_t indent) {
    for (uint32_t i = 0; i < block->list.n; i++) {
        text_blanks(t, indent);
        gan_statement(t, block->list.at[i], indent);
        text_char(t, '\n');
    }
}

// A blank line goes between items of different kinds and around those of several lines.
void ast_to_gan(Text *t, const Ast *file) {
    if (file->text.len)
        text_fmt(t, "model %.*s", SARG(file->text));
    if (file->a)
        text_char(t, ' ');
    if (file->a)
        gan_string(t, file->a->text);
    if (file->text.len)
        text_char(t, '\n');
    bool tall = file->text.len > 0;
    AstKind kind = AstNone;
    for (uint32_t i = 0; i < file->list.n; i++) {
        Text item = {.arena = t->arena};
        gan_statement(&item, file->list.at[i], 0);
        Str text = text_str(&item);
        bool was = tall;
        tall = str_find(text, '\n') < text.len;
        if (t->n && (file->list.at[i]->kind != kind || tall || was))
            text_char(t, '\n');
        kind = file->list.at[i]->kind;
        text_put(t, text);
        text_char(t, '\n');
    }
}
