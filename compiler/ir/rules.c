// rules.c - matches the rows of lang/rules.def against a node that is about to be added.
//
// In: a Draft whose operands are in simplest form. Out: the node to use instead, or 0. The terms
// are read as they are matched and built; they are a few words long and there is nothing to
// prepare. Why rewriting ends: see the top of lang/rules.def.
#include "op.h"

#include <string.h>

enum { EXACT = 1, INEXACT = 0 };

#define FOLD(Name, op, accuracy) uint32_t fold_##Name(Graph *g, const Draft *d);
#include "rules.def"

const Rule rule_table[] = {
#define RULE(Name, kind, operands, replacement, accuracy)                                          \
    {.name = #Name, .op = Op##kind, .from = operands, .to = replacement, .exact = accuracy},
#define FOLD(Name, kind, accuracy)                                                                 \
    {.name = #Name, .fold = fold_##Name, .op = Op##kind, .exact = accuracy},
#include "rules.def"
};
const uint32_t rule_count = sizeof rule_table / sizeof *rule_table;

Op op_seen(const Graph *g, uint32_t id) {
    const Node *n = graph_node(g, id);
    return g->block_open && !g->block_open[n->block] ? OpNone : (Op)n->op;
}

bool const_seen(const Graph *g, uint32_t id, double *out) {
    return op_seen(g, id) != OpNone && node_is_const(g, id, out);
}

// --- reading terms -------------------------------------------------------------------------------

static bool is_letter(char c) {
    return c >= 'a' && c <= 'z';
}

// The next word: an op's name, a letter or a number. Moves *p behind it. Words are short: a loop
// ends before strcspn has begun.
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

static bool is_op(Str w, Op op) {
    return str_eq(w, str_c(op_info[op].text));
}

static double number(Str w) {
    double x = 0;
    if (!str_to_double(w, &x))
        bug("rules.def: %.*s is neither a letter, an op nor a number", SARG(w));
    return x;
}

// --- matching ------------------------------------------------------------------------------------

typedef struct Match {
    const Graph *g;
    const char *p;             // the rest of the pattern
    uint32_t *var;             // [26]
    uint32_t swaps, commuting; // bit k: the k-th commuting op met is tried with swapped operands
} Match;

static bool match_term(Match *m, uint32_t id);

// After the op's name: "(" terms ")".
static bool match_operands(Match *m, Op op, const uint32_t *in, uint32_t nin) {
    bool swap = op_info[op].commutes && m->swaps >> m->commuting++ & 1;
    m->p++;
    for (uint32_t k = 0; k < nin; k++)
        if (!match_term(m, in[swap ? nin - 1 - k : k]))
            return false;
    m->p++;
    return true;
}

static bool match_term(Match *m, uint32_t id) {
    Str w = word(&m->p);
    double x;
    if (*m->p == '(') {
        Op op = op_seen(m->g, id);
        const Node *n = graph_node(m->g, id);
        return op != OpNone && is_op(w, op) && match_operands(m, op, &m->g->edge.at[n->in], n->nin);
    }
    if (!is_variable(w))
        return const_seen(m->g, id, &x) && x == number(w);
    bool constant = w.ptr[0] == 'c' || w.ptr[0] == 'd';
    uint32_t *bound = &m->var[w.ptr[0] - 'a'];
    if ((*bound && *bound != id) || (constant && !const_seen(m->g, id, &x)))
        return false;
    *bound = id;
    return true;
}

// Tries every order of the operands of the commuting ops that the match meets.
static bool match(const Graph *g, const char *operands, const Draft *d, uint32_t var[26]) {
    for (uint32_t swaps = 0, orders = 1; swaps < orders; swaps++) {
        Match m = {.g = g, .p = operands, .var = var, .swaps = swaps};
        memset(var, 0, 26 * sizeof *var);
        if (match_operands(&m, d->op, d->in, d->nin))
            return true;
        if (orders < 1u << m.commuting)
            orders = 1u << m.commuting;
    }
    return false;
}

// --- building ------------------------------------------------------------------------------------

static uint32_t build_term(Graph *g, const char **p, const Binding *b) {
    Str w = word(p);
    if (is_variable(w))
        return b->var[w.ptr[0] - 'a'];
    if (**p != '(') {
        Attr bits = {.n = 1, .i = {double_to_bits(number(w))}};
        Type want = {.dtype = b->type.dtype};
        return graph_add(g, OpConst, NULL, 0, &bits, &want);
    }
    Op op = op_find(w);
    uint32_t in[MAX_IN], n = 0;
    while (**p != ')') {
        if (n == MAX_IN)
            bug("rules.def: %.*s of too many operands", SARG(w));
        if (**p == '(')
            ++*p;
        in[n++] = build_term(g, p, b);
    }
    ++*p;
    bool root = op == b->root;
    return graph_add(g, op, in, n, root ? &b->attr : NULL, root ? &b->type : NULL);
}

uint32_t rule_build(Graph *g, const char *term, const Binding *b) {
    return build_term(g, &term, b);
}

uint32_t simplify(Graph *g, const Draft *d) {
    Binding b = {.root = d->op, .attr = d->attr, .type = d->type};
    for (uint32_t i = 0; i < rule_count; i++) {
        const Rule *r = &rule_table[i];
        uint32_t id = 0;
        if (r->op != OpNone && r->op != d->op)
            continue;
        if (r->fold)
            id = r->fold(g, d);
        else if (match(g, r->from, d, b.var))
            id = rule_build(g, r->to, &b);
        if (id)
            return Expand((Val){g, id}, d->type).id;
    }
    return 0;
}
