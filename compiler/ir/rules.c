// rules.c - matches the rows of lang/rules.def against a node that is about to be added.
//
// In: a Draft whose operands are in simplest form. Out: the node to use instead, or 0. The patterns
// are compiled once a graph, when its first node is simplified; a replacement is read as it is
// built. Why rewriting ends: see the top of lang/rules.def.
#include "op.h"

#include <string.h>

enum { EXACT = 1, INEXACT = 0 };

#define FOLD(Name, op, accuracy) uint32_t fold_##Name(Builder *b, const Draft *d);
#include "rules.def"

const Rule rule_table[] = {
#define RULE(Name, kind, operands, replacement, accuracy)                                          \
    {.name = #Name, .op = Op##kind, .from = operands, .to = replacement, .exact = accuracy},
#define FOLD(Name, kind, accuracy)                                                                 \
    {.name = #Name, .fold = fold_##Name, .op = Op##kind, .exact = accuracy},
#include "rules.def"
};
const uint32_t rule_count = sizeof rule_table / sizeof *rule_table;

Op op_seen(const Builder *b, uint32_t id) {
    return builder_sees(b, id) ? (Op)graph_node(b->g, id)->op : OpNone;
}

bool const_seen(const Builder *b, uint32_t id, double *out) {
    return builder_sees(b, id) && node_is_const(b->g, id, out);
}

// --- reading terms -------------------------------------------------------------------------------

static bool is_letter(char c) {
    return c >= 'a' && c <= 'z';
}

// The next word: an op's name, a letter or a number. Moves *p behind it.
static Str word(const char **p) {
    while (**p == ' ' || **p == ',')
        ++*p;
    const char *end = *p;
    while (*end && *end != '(' && *end != ')' && *end != ',' && *end != ' ')
        end++;
    Str w = {*p, (size_t)(end - *p)};
    *p = end;
    return w;
}

static bool is_variable(Str w) {
    return w.len == 1 && is_letter(w.ptr[0]);
}

static double number(Str w) {
    double x = 0;
    if (!str_to_double(w, &x))
        bug("rules.def: %.*s is neither a letter, an op nor a number", SARG(w));
    return x;
}

// --- compiling -----------------------------------------------------------------------------------

// A word of a pattern. Patterns are stored in prefix order: an op, then the terms of its operands.
typedef struct Term {
    Op op;         // OpNone: a letter or a number
    uint8_t var;   // of a letter: 0 .. 25; NUMBER: a number
    bool constant; // the letters c and d match constants only
    double number;
} Term;
enum { NUMBER = 255, MAX_TERMS = 8 };

typedef struct Pattern {
    const Rule *rule;
    Term term[MAX_TERMS]; // of its operands; of a FOLD row none
} Pattern;

struct Rules {
    VEC(Pattern) of[OpCount]; // [op] the rows that may apply to it, in the order of the table
};

static void compile_terms(const Rule *r, Pattern *out) {
    uint32_t n = 0;
    for (const char *p = r->from + 1; *p;) {
        Str w = word(&p);
        if (n == MAX_TERMS)
            bug("rules.def: %s is longer than %d words", r->name, MAX_TERMS);
        Term *t = &out->term[n++];
        if (*p == '(')
            *t = (Term){.op = op_find(w)};
        else if (is_variable(w))
            *t = (Term){.var = (uint8_t)(w.ptr[0] - 'a'),
                        .constant = w.ptr[0] == 'c' || w.ptr[0] == 'd'};
        else
            *t = (Term){.var = NUMBER, .number = number(w)};
        while (*p == '(' || *p == ')')
            p++;
    }
}

static const struct Rules *compile(Arena *a) {
    struct Rules *all = arena_new(a, struct Rules);
    for (uint32_t i = 0; i < rule_count; i++) {
        Pattern p = {.rule = &rule_table[i]};
        if (p.rule->from)
            compile_terms(p.rule, &p);
        for (uint32_t op = OpNone + 1; op < OpCount; op++)
            if (p.rule->op == OpNone || p.rule->op == (Op)op)
                vec_push(a, &all->of[op], p);
    }
    return all;
}

// --- matching ------------------------------------------------------------------------------------

typedef struct Match {
    const Builder *b;
    const Term *next;          // the rest of the pattern
    uint32_t *var;             // [26]
    uint32_t swaps, commuting; // bit k: the k-th commuting op met is tried with swapped operands
} Match;

static bool match_term(Match *m, uint32_t id);

static bool match_operands(Match *m, Op op, const uint32_t *in, uint32_t nin) {
    bool swap = op_is(op, TraitCommutes) && m->swaps >> m->commuting++ & 1;
    for (uint32_t k = 0; k < nin; k++)
        if (!match_term(m, in[swap ? nin - 1 - k : k]))
            return false;
    return true;
}

static bool match_term(Match *m, uint32_t id) {
    const Term *t = m->next++;
    double x;
    if (t->op != OpNone) {
        const Node *n = graph_node(m->b->g, id);
        return op_seen(m->b, id) == t->op &&
               match_operands(m, t->op, &m->b->g->edge.at[n->in], n->nin);
    }
    if (t->var == NUMBER)
        return const_seen(m->b, id, &x) && x == t->number;
    uint32_t *bound = &m->var[t->var];
    if ((*bound && *bound != id) || (t->constant && !const_seen(m->b, id, &x)))
        return false;
    *bound = id;
    return true;
}

// Tries every order of the operands of the commuting ops that the match meets.
static bool match(const Builder *b, const Pattern *p, const Draft *d, uint32_t var[26]) {
    for (uint32_t swaps = 0, orders = 1; swaps < orders; swaps++) {
        Match m = {.b = b, .next = p->term, .var = var, .swaps = swaps};
        memset(var, 0, 26 * sizeof *var);
        if (match_operands(&m, d->op, d->in, d->nin))
            return true;
        if (orders < 1u << m.commuting)
            orders = 1u << m.commuting;
    }
    return false;
}

// --- building ------------------------------------------------------------------------------------

static uint32_t build_term(Builder *b, const char **p, const Binding *bound) {
    Str w = word(p);
    if (is_variable(w))
        return bound->var[w.ptr[0] - 'a'];
    if (**p != '(') {
        Attr bits = {.n = 1, .i = {double_to_bits(number(w))}};
        Type want = {.dtype = bound->type.dtype};
        return builder_add(b, OpConst, NULL, 0, &bits, &want);
    }
    Op op = op_find(w);
    uint32_t in[MAX_IN], n = 0;
    while (**p != ')') {
        if (n == MAX_IN)
            bug("rules.def: %.*s of too many operands", SARG(w));
        if (**p == '(')
            ++*p;
        in[n++] = build_term(b, p, bound);
    }
    ++*p;
    bool root = op == bound->root;
    return builder_add(b, op, in, n, root ? &bound->attr : NULL, root ? &bound->type : NULL);
}

uint32_t rule_build(Builder *b, const char *term, const Binding *bound) {
    return build_term(b, &term, bound);
}

static uint32_t replacement(Builder *b, const Rule *r, const Draft *d, const uint32_t var[26]) {
    Binding bound = {.root = d->op, .attr = d->attr, .type = d->type};
    memcpy(bound.var, var, sizeof bound.var);
    return rule_build(b, r->to, &bound);
}

uint32_t simplify(Builder *b, const Draft *d) {
    Graph *g = b->g;
    if (!g->rules)
        g->rules = compile(g->perm);
    for (uint32_t i = 0; i < g->rules->of[d->op].n; i++) {
        const Pattern *p = &g->rules->of[d->op].at[i];
        uint32_t var[26], id = p->rule->fold         ? p->rule->fold(b, d)
                               : match(b, p, d, var) ? replacement(b, p->rule, d, var)
                                                     : 0;
        if (id)
            return Expand((Val){b, id}, d->type).id;
    }
    return 0;
}
