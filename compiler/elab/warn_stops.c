// warn_stops.c - a term of a loss that `stop` keeps from the nets which the loss trains: detached
// in the wrong place, as D(fake) where D(stop(fake)) was meant.
//
// In: the updates of the step. Out: a warning at each `stop` through which alone a term of such a
// sum follows from the weights of its update. A value that the sum has beside its own `stop`, as
// in x + stop(f(x) - x), is another gradient and no mistake; nor is a `stop` of the library.
#include "builtin.h"
#include "warn.h"

typedef struct Loss { // of an update
    const Elab *e;
    const Graph *g;
    const Update *u;
} Loss;

// Whether the node passes the sum of what it is given on, as a mean and a factor do: to which
// operand.
static bool passes_on(const Graph *g, uint32_t id, uint32_t *to) {
    const Node *n = graph_node(g, id);
    double c;
    *to = 0;
    switch ((Op)n->op) {
    case OpMul:
        *to = node_is_const(g, node_in(g, id, 0), &c);
        return *to || node_is_const(g, node_in(g, id, 1), &c);
    case OpDiv:
        return node_is_const(g, node_in(g, id, 1), &c);
    case OpNeg:
    case OpSum:
    case OpReshape:
    case OpExpand:
    case OpPin:
        return true;
    default:
        return false;
    }
}

// The terms of a sum, [value + 1]: a bit each.
static uint8_t *sum_terms(const Graph *g, Arena *a, uint32_t value) {
    uint8_t *term = arena_array(a, uint8_t, value + 1);
    term[value] = 1;
    for (uint32_t id = value; id; id--) {
        Op op = (Op)graph_node(g, id)->op;
        uint32_t to;
        if (!term[id])
            continue;
        bool adds = op == OpAdd || op == OpSub;
        if (!adds && !passes_on(g, id, &to))
            continue;
        term[id] = 0;
        term[node_in(g, id, adds ? 0 : to)] = 1;
        if (adds)
            term[node_in(g, id, 1)] = 1;
    }
    return term;
}

// Whether a value follows from a weight of the update: by what has a gradient, or by anything. The
// last `stop` on the way is *stop.
static bool follows(const Loss *l, Arena scratch, uint32_t value, bool by_gradient,
                    uint32_t *stop) {
    uint8_t *from = arena_array(&scratch, uint8_t, value + 1);
    from[value] = 1;
    for (uint32_t id = value; id; id--) {
        const Node *n = graph_node(l->g, id);
        if (!from[id])
            continue;
        const Slot *s = n->op == OpRead ? &l->e->m->slot.at[node_slot(l->g, id)] : NULL;
        for (uint32_t i = 0; s && s->kind == SlotParam && i < l->u->net.n; i++)
            if (l->u->net.at[i] == s->net)
                return true;
        if (n->op == OpStop && id > *stop)
            *stop = id;
        for (uint32_t k = n->op == OpCommit; k < n->nin; k++) // what an update changed, before it
            if (!by_gradient || n->op == OpCommit || op_has_gradient((Op)n->op, k))
                from[node_in(l->g, id, k)] = 1;
    }
    return false;
}

// Whether what a `stop` takes has a term of the sum around it, other than a weight or number.
static bool has_twin(const Graph *g, Arena scratch, uint32_t stop, const uint8_t *sum) {
    uint32_t in = node_in(g, stop, 0);
    const uint8_t *own = sum_terms(g, &scratch, in);
    double c;
    for (uint32_t id = 1; id <= in; id++)
        if (own[id] && sum[id] && graph_node(g, id)->op != OpRead && !node_is_const(g, id, &c))
            return true;
    return false;
}

static void warn_term(Elab *e, const Loss *l, Arena scratch, uint32_t term, const uint8_t *sum) {
    uint32_t stop = 0, none = 0;
    if (follows(l, scratch, term, true, &none) || !follows(l, scratch, term, false, &stop) ||
        !stop || (stop == term && has_twin(l->g, scratch, stop, sum)))
        return;
    uint32_t at = graph_node(l->g, stop)->span;
    Span span = at ? l->g->span.at[at].span : l->u->span;
    if (!str_starts(span_text(e->f, span), STR("stop"))) // the library's own, as in a softmax
        return;
    diag(e->f, DiagW0924, span, SARG(update_name(e->perm, e->m, l->u)));
    diag_note(e->f, l->u->span, "in the loss of this update");
}

void warn_stops(Elab *e) {
    const Func *step = &e->m->step;
    for (uint32_t i = 0; i < step->update.n; i++) {
        Loss l = {e, &step->g, &step->update.at[i]};
        Arena scratch;
        arena_need(&scratch);
        const uint8_t *sum = sum_terms(l.g, &scratch, l.u->loss);
        for (uint32_t id = 1; id <= l.u->loss; id++)
            if (sum[id])
                warn_term(e, &l, scratch, id, sum);
        arena_release(&scratch);
    }
}
