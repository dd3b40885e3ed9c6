// convert_yaml.c - in: a syntax tree. Out: YAML that reads to an equivalent tree. Items are grouped
// into top-level sections. Where grouping would move an item across one it depends on, or one that
// depends on it, a new mapping begins: the file is then a list of mappings, read in order. A net
// that is one pipe becomes `layers`; any other body is written as a text.
#include "syntax.h"

enum { STEP = 2 };

static void put(Text *t, const char *s) {
    text_put(t, str_c(s));
}

// --- scalars -------------------------------------------------------------------------------------

static bool has(Str set, char c) {
    return str_find(set, c) < set.len;
}

// Whether YAML reads the text, standing alone after `key: ` or `- `, as itself.
static bool is_plain(Str s) {
    if (!s.len || has(STR("[]{},#&*!|>'\"%@`?:"), s.ptr[0]) || s.ptr[s.len - 1] == ':')
        return false;
    if (str_starts(s, STR("- ")) || str_eq(s, STR("-")) || str_starts(s, STR("---")) ||
        str_starts(s, STR("...")))
        return false;
    for (size_t i = 0; i < s.len; i++) {
        Str rest = str_sub(s, i, s.len);
        if (str_starts(rest, STR(": ")) || str_starts(rest, STR(" #")) || s.ptr[i] == '\n')
            return false;
    }
    return true;
}

static void put_scalar(Text *t, Str s) {
    if (is_plain(s))
        text_put(t, s);
    else
        gan_string(t, s); // the escapes are among YAML's
}

static Str expr_text(Text *t, const Ast *a) {
    Text one = {.arena = t->arena};
    gan_expr(&one, a);
    return text_str(&one);
}

static void put_expr(Text *t, const Ast *a) {
    put_scalar(t, expr_text(t, a));
}

static bool is_word(Str s) {
    Str letters = STR("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.*/^");
    for (size_t i = 0; i < s.len; i++)
        if (!has(letters, s.ptr[i]))
            return false;
    return s.len > 0;
}

// The same inside { } and [ ].
static void put_flow(Text *t, Str s) {
    if (is_word(s))
        text_put(t, s);
    else
        gan_string(t, s);
}

// A list of dimensions reads the same in both languages if its elements are words.
static void put_dims(Text *t, const Ast *a) {
    bool words = a->kind == AstList;
    for (uint32_t i = 0; words && i < a->list.n; i++)
        words = is_word(expr_text(t, a->list.at[i]));
    if (words)
        gan_expr(t, a);
    else
        gan_string(t, expr_text(t, a));
}

static void put_text_block(Text *t, const Ast *block, uint32_t indent) {
    put(t, " |\n");
    gan_statements(t, block, indent);
}

// --- nets as layers ------------------------------------------------------------------------------

// A pipe from `x`, none of whose layers mention `x`.
static bool is_pipe_of(const Ast *a, Str x) {
    for (; a->kind == AstPipe; a = a->a)
        if (ast_mentions(a->b, x))
            return false;
    return a->kind == AstName && str_eq(a->text, x);
}

static bool binds_one(const Ast *a) {
    return a->kind == AstBind && a->list.n == 1;
}

// Statements that pass one value on: `x = x |> ...` and loops of such. *x becomes the name it has
// at the end.
static bool is_chain(const Ast *block, uint32_t n, Str *x, bool inside) {
    for (uint32_t i = 0; i < n; i++) {
        const Ast *s = block->list.at[i];
        if (s->kind == AstFor) {
            for (uint32_t k = 0; k < s->list.n; k++)
                if (str_eq(s->list.at[k]->text, *x))
                    return false;
            if (ast_mentions(s->a, *x) || s->c->kind != AstBlock ||
                !is_chain(s->c, s->c->list.n, x, true))
                return false;
        } else if (!binds_one(s) || !is_pipe_of(s->c, *x) ||
                   (inside && !str_eq(s->list.at[0]->text, *x)))
            return false;
        else if (!inside)
            *x = s->list.at[0]->text;
    }
    return true;
}

// A name once left behind, the input's above all, must not be read again: in a list of layers its
// value is gone.
static bool is_layers(const Ast *net) {
    if (!net->a || net->a->list.n != 1 || net->a->list.at[0]->b)
        return false;
    Str x = net->a->list.at[0]->text;
    if (net->c->kind != AstBlock)
        return net->c->kind == AstPipe && is_pipe_of(net->c, x);
    uint32_t n = net->c->list.n;
    if (!n || !is_chain(net->c, n - 1, &x, false) || !is_pipe_of(net->c->list.at[n - 1], x))
        return false;
    for (uint32_t i = 0; i + 1 < n; i++) {
        const Ast *s = net->c->list.at[i];
        if (s->kind != AstBind || str_eq(s->list.at[0]->text, net->a->list.at[0]->text))
            continue;
        for (uint32_t k = i + 1; k < n; k++)
            if (ast_mentions(net->c->list.at[k], net->a->list.at[0]->text))
                return false;
    }
    return true;
}

static void put_pipe(Text *t, const Ast *a, uint32_t indent) {
    if (a->kind != AstPipe)
        return;
    put_pipe(t, a->a, indent);
    text_blanks(t, indent);
    put(t, "- ");
    put_expr(t, a->b);
    text_char(t, '\n');
}

static void put_layers(Text *t, const Ast *block, uint32_t indent) {
    for (uint32_t i = 0; i < block->list.n; i++) {
        const Ast *s = block->list.at[i];
        if (s->kind != AstFor) {
            put_pipe(t, s->kind == AstBind ? s->c : s, indent);
            continue;
        }
        Text head = {.arena = t->arena};
        put(&head, "for ");
        gan_names(&head, s);
        put(&head, " in ");
        gan_expr(&head, s->a);
        text_blanks(t, indent);
        put(t, "- ");
        put_scalar(t, text_str(&head));
        put(t, ":\n");
        put_layers(t, s->c, indent + 2 * STEP);
    }
}

// --- functions -----------------------------------------------------------------------------------

static void put_net(Text *t, const Ast *a, uint32_t indent) {
    text_put(t, a->text);
    put(t, ":\n");
    text_blanks(t, indent += STEP);
    put(t, "in: {");
    for (uint32_t i = 0; i < a->a->list.n; i++) {
        const Ast *one = a->a->list.at[i];
        text_fmt(t, "%s%.*s: ", i ? ", " : "", SARG(one->text));
        if (one->a)
            put_dims(t, one->a);
    }
    put(t, "}\n");
    if (a->has_result) {
        text_blanks(t, indent);
        put(t, a->list.n > 1 ? "out: [" : "out: ");
        for (uint32_t i = 0; i < a->list.n; i++) {
            if (i)
                put(t, ", ");
            put_dims(t, a->list.at[i]);
        }
        put(t, a->list.n > 1 ? "]\n" : "\n");
    }
    text_blanks(t, indent);
    if (!is_layers(a)) {
        put(t, "body:");
        put_text_block(t, a->c, indent + STEP);
        return;
    }
    put(t, "layers:\n");
    if (a->c->kind == AstBlock)
        put_layers(t, a->c, indent + STEP);
    else
        put_pipe(t, a->c, indent + STEP);
}

static bool has_default(const Ast *params) {
    for (uint32_t i = 0; i < params->list.n; i++)
        if (params->list.at[i]->b)
            return true;
    return false;
}

static void put_function(Text *t, const Ast *a, uint32_t indent) {
    text_blanks(t, indent);
    if (a->kind == AstNet && a->a && a->c->kind == AstBlock && !has_default(a->a)) {
        put_net(t, a, indent);
        return;
    }
    Text head = {.arena = t->arena};
    text_put(&head, a->text);
    if (a->a)
        gan_params(&head, a->a);
    if (a->kind == AstFn && a->b)
        gan_params(&head, a->b);
    gan_result(&head, a);
    put_scalar(t, text_str(&head));
    text_char(t, ':');
    if (a->c->kind == AstBlock) {
        put_text_block(t, a->c, indent + STEP);
        return;
    }
    text_char(t, ' ');
    put_expr(t, a->c);
    text_char(t, '\n');
}

// --- the step ------------------------------------------------------------------------------------

static void put_step(Text *t, const Ast *block, uint32_t indent);

static void put_key(Text *t, uint32_t indent, const char *key, const Ast *value) {
    text_blanks(t, indent);
    put(t, key);
    put_expr(t, value);
    text_char(t, '\n');
}

// A list, but for what has brackets of its own.
static void put_nets(Text *t, const Ast *a) {
    bool list = a->list.n > 1;
    for (uint32_t i = 0; i < a->list.n; i++)
        list = list && a->list.at[i]->kind == AstName;
    put(t, list ? "[" : "");
    for (uint32_t i = 0; i < a->list.n; i++) {
        put(t, i ? ", " : "");
        gan_expr(t, a->list.at[i]);
    }
    put(t, list ? "]" : "");
}

static bool is_step_word(Str s) {
    return str_eq(s, STR("do")) || str_eq(s, STR("then")) || // the others can be no names
           str_eq(s, STR("stage"));
}

static void put_step_statement(Text *t, const Ast *a, uint32_t indent) {
    text_blanks(t, indent);
    put(t, "- ");
    if (a->kind == AstUpdate) {
        put(t, "update: ");
        put_nets(t, a);
        text_char(t, '\n');
        put_key(t, indent + STEP, "minimize: ", a->a);
        put_key(t, indent + STEP, "using: ", a->b);
    } else if (a->kind == AstRepeat || a->kind == AstStage) {
        put_key(t, 0, a->kind == AstStage ? "stage: " : "repeat: ", a->a);
        text_blanks(t, indent + STEP);
        put(t, "do:\n");
        put_step(t, a->c, indent + 2 * STEP);
    } else if (binds_one(a) && !is_step_word(a->list.at[0]->text)) {
        text_put(t, a->list.at[0]->text);
        put_key(t, 0, ": ", a->c);
    } else {
        Text one = {.arena = t->arena};
        gan_statement(&one, a, indent + STEP);
        Str s = text_str(&one);
        if (has(s, '\n')) {
            put(t, "|\n");
            text_blanks(t, indent + STEP);
            text_put(t, s);
        } else
            put_scalar(t, s);
        text_char(t, '\n');
    }
}

static void put_step(Text *t, const Ast *block, uint32_t indent) {
    for (uint32_t i = 0; i < block->list.n; i++)
        put_step_statement(t, block->list.at[i], indent);
    if (block->list.n)
        return;
    text_blanks(t, indent);
    put(t, "[]\n");
}

// --- sections ------------------------------------------------------------------------------------

static const struct {
    AstKind kind;
    const char *key;
} sections[] = {
    {AstUse, "use"},   {AstConfig, "config"}, {AstBind, "let"},
    {AstData, "data"}, {AstFn, "fn"},         {AstNet, "net"},
    {AstStep, "step"}, {AstSample, "sample"}, {AstStages, "stages"},
};
enum { SECTIONS = sizeof sections / sizeof *sections, LET = 2 };

static uint32_t section_of(const Ast *a) {
    for (uint32_t i = 0; i < SECTIONS; i++)
        if (sections[i].kind == a->kind)
            return i;
    return LET; // any other statement
}

typedef struct Mapping { // the items of one top-level mapping
    VEC(const Ast *) item[SECTIONS];
    uint32_t order[SECTIONS], n; // sections in the order they appear
} Mapping;

static bool declares(const Ast *a, const Ast *reader) {
    if (a->text.len && ast_mentions(reader, a->text))
        return true;
    for (uint32_t i = 0; (a->kind == AstBind || a->kind == AstData) && i < a->list.n; i++)
        if (ast_mentions(reader, a->list.at[i]->text))
            return true;
    return false;
}

static bool fits(const Mapping *m, const Ast *a) {
    uint32_t s = section_of(a), at = 0;
    while (at < m->n && m->order[at] != s)
        at++;
    if ((a->kind == AstStep || a->kind == AstStages) && m->item[s].n)
        return false;
    bool both_bind = s == LET && m->item[s].n && binds_one(a) && binds_one(m->item[s].at[0]);
    if (s == LET && m->item[s].n && !both_bind)
        return false;
    for (uint32_t i = 0; i < m->item[s].n; i++) // a key is said once
        if (s == LET && str_eq(m->item[s].at[i]->list.at[0]->text, a->list.at[0]->text))
            return false;
    for (at++; at < m->n; at++) // what it would be carried past
        for (uint32_t i = 0; i < m->item[m->order[at]].n; i++) {
            const Ast *other = m->item[m->order[at]].at[i];
            if (declares(a, other) || declares(other, a))
                return false;
        }
    return true;
}

static void put_configs(Text *t, const Ast *a, uint32_t indent) {
    text_blanks(t, indent);
    text_fmt(t, "%.*s: ", SARG(a->text));
    if (a->list.n == 1 && !a->a) {
        put_expr(t, a->list.at[0]);
        text_char(t, '\n');
        return;
    }
    put(t, a->list.n > 1 ? "{one_of: [" : "{value: ");
    for (uint32_t i = 0; i < a->list.n; i++) {
        const Ast *one = a->list.at[i];
        if (i)
            put(t, ", ");
        if (a->list.n > 1 && one->kind == AstStr)
            put_flow(t, one->text);
        else
            put_flow(t, expr_text(t, one));
    }
    if (a->list.n > 1)
        text_char(t, ']');
    if (a->a)
        put(t, ", doc: ");
    if (a->a)
        gan_string(t, a->a->text);
    put(t, "}\n");
}

static void put_fields(Text *t, const Ast *a, uint32_t indent, bool several) {
    for (uint32_t i = 0; i < a->list.n; i++) {
        const Ast *field = a->list.at[i];
        text_blanks(t, indent);
        if (several)
            put(t, i ? "  " : "- ");
        text_fmt(t, "%.*s:", SARG(field->text));
        for (uint32_t k = 0; k < field->list.n; k++) {
            text_char(t, ' ');
            gan_expr(t, field->list.at[k]);
        }
        text_char(t, '\n');
    }
}

static void put_item(Text *t, const Mapping *m, uint32_t s, const Ast *a, uint32_t indent) {
    switch (a->kind) {
    case AstUse:
        text_blanks(t, indent);
        put(t, "- ");
        gan_string(t, a->text);
        text_char(t, '\n');
        return;
    case AstConfig:
        put_configs(t, a, indent);
        return;
    case AstData:
        put_fields(t, a, indent, m->item[s].n > 1);
        return;
    case AstStep:
    case AstStages:
        put_step(t, a->c, indent);
        return;
    case AstBind:
        text_blanks(t, indent);
        text_put(t, a->list.at[0]->text);
        put_key(t, 0, ": ", a->c);
        return;
    default:
        put_function(t, a, indent);
        return;
    }
}

// `begins` when the mapping is an element of a list and its first key follows the `- `.
static void put_mapping(Text *t, const Mapping *m, uint32_t indent, bool begins) {
    for (uint32_t i = 0; i < m->n; i++) {
        uint32_t s = m->order[i];
        text_char(t, '\n');
        if (begins && i == 0)
            put(t, "- ");
        else
            text_blanks(t, indent);
        text_fmt(t, "%s:", sections[s].key);
        if (s == LET && !binds_one(m->item[s].at[0])) {
            put(t, " |\n");
            text_blanks(t, indent + STEP);
            gan_statement(t, m->item[s].at[0], indent + STEP);
            text_char(t, '\n');
            continue;
        }
        text_char(t, '\n');
        for (uint32_t k = 0; k < m->item[s].n; k++)
            put_item(t, m, s, m->item[s].at[k], indent + STEP);
    }
}

static void add(Text *t, Mapping *m, const Ast *a) {
    uint32_t s = section_of(a);
    if (!m->item[s].n)
        m->order[m->n++] = s;
    vec_push(t->arena, &m->item[s], a);
}

void ast_to_yaml(Text *t, const Ast *file) {
    VEC(Mapping) all = {0};
    (void)vec_add(t->arena, &all);
    for (uint32_t i = 0; i < file->list.n; i++) {
        if (!fits(&all.at[all.n - 1], file->list.at[i]))
            (void)vec_add(t->arena, &all);
        add(t, &all.at[all.n - 1], file->list.at[i]);
    }
    uint32_t indent = all.n > 1 ? STEP : 0;
    text_fmt(t, "%smodel: %.*s\n", indent ? "- " : "", SARG(file->text));
    if (file->a) {
        text_blanks(t, indent);
        put(t, "doc: ");
        gan_string(t, file->a->text);
        text_char(t, '\n');
    }
    for (uint32_t i = 0; i < all.n; i++)
        put_mapping(t, &all.at[i], indent, i > 0);
}
