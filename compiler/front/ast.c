// ast.c - what a syntax tree mentions, and the tree printed: one node a line, indented. `a:` `b:`
// `c:` mark the fields of lang/ast.def; elements of the list have no mark.
#include "front.h"

bool ast_mentions(const Ast *a, Str name) {
    if (!a)
        return false;
    if (a->kind == AstName && str_eq(a->text, name))
        return true;
    for (uint32_t i = 0; i < ast_parts(a); i++)
        if (ast_mentions(ast_part(a, i), name))
            return true;
    return false;
}

static const char *const kind_text[AstCount] = {
    "none",
#define AST(Kind, text) #text,
#include "ast.def"
#undef AST
};

static void print(Text *t, const Ast *a, const char *mark, uint32_t depth) {
    if (!a)
        return;
    for (uint32_t i = 0; i < depth; i++)
        text_put(t, STR("  "));
    text_fmt(t, "%s%s", mark, kind_text[a->kind]);
    if (a->kind == AstNum) {
        text_char(t, ' ');
        text_put(t, str_double(t->arena, a->num));
    } else if (a->kind == AstStr)
        text_fmt(t, " \"%.*s\"", SARG(a->text));
    else if (a->text.len)
        text_fmt(t, " %.*s", SARG(a->text));
    text_char(t, '\n');
    print(t, a->a, "a: ", depth + 1);
    print(t, a->b, "b: ", depth + 1);
    for (uint32_t i = 0; i < a->list.n; i++)
        print(t, a->list.at[i], "", depth + 1);
    print(t, a->c, "c: ", depth + 1);
}

void ast_print(Text *t, const Ast *a) {
    print(t, a, "", 0);
}
