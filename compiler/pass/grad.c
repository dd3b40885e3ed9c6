// grad.c - expands Grad(y, x): reverse mode, source to source, over the gradient columns of the
// operations.
//
// In: a function with Grad nodes. Out: the same function without; a gradient's nodes are ordinary
// nodes in the block of the Grad, carrying the span of the forward node they belong to.
// Grads inside another's y are expanded first because the graph is rebuilt in index order, so any
// order of derivative is only this pass.
// - One reverse sweep serves all Grads of one y in one block; it visits nodes between y and the
//   wanted x and no others.
// - The gradient is of the sum of y over its elements and samples: the seed is ones.
// - Contributions are summed where the sweep meets their node, in order of arrival: users from last
//   to first.
// - Rows ignore broadcasting: what comes back in the result's type is summed to the operand's here.
#include "pass.h"

#include <string.h>

typedef struct Part { // one user's contribution to a node's gradient
    uint32_t node, next;
} Part;

typedef struct Visit {    // of a node
    bool wanted;          // its gradient is requested
    bool on_path;         // y needs it and it needs a wanted node
    uint32_t first, last; // its contributions in part[], 0 none
    uint32_t result;      // its gradient, 0 none: of a wanted node
} Visit;

typedef struct Sweep {
    Arena *a;
    Builder *to;
    const Graph *g;  // the new graph, to which it adds
    uint32_t low, y; // nodes [low, y]: there is no wanted one before
    Visit *visit;    // [y - low + 1]
    VEC(Part) part;  // [0] is none
} Sweep;

static Visit *visit_of(const Sweep *s, uint32_t id) {
    return &s->visit[id - s->low];
}

static void contribute(Sweep *s, uint32_t to, uint32_t node) {
    Visit *v = visit_of(s, to);
    vec_push(s->a, &s->part, ((Part){node, 0}));
    uint32_t at = s->part.n - 1;
    if (v->last)
        s->part.at[v->last].next = at;
    else
        v->first = at;
    v->last = at;
}

static Val sum_parts(const Sweep *s, uint32_t id) {
    Val sum = {0};
    for (uint32_t at = visit_of(s, id)->first; at; at = s->part.at[at].next) {
        Val part = {s->to, s->part.at[at].node};
        sum = sum.id ? Add(sum, part) : part;
    }
    return sum;
}

// A row's answer, in the broadcast type of its result, as a gradient of the operand.
static Val fit(Val g, Val operand) {
    Type to = val_type(operand);
    if (val_type(g).dtype != to.dtype)
        g = CastTo(g, operand);
    return Expand(SumTo(g, to), to);
}

// Does a gradient of node `id` flow on to operand k?
static bool flows(const Sweep *s, uint32_t id, uint32_t k) {
    uint32_t in = node_in(s->g, id, k);
    return in >= s->low && visit_of(s, in)->on_path &&
           op_has_gradient((Op)graph_node(s->g, id)->op, k);
}

// Of the nodes y needs, those that need a wanted one through operations that have gradients.
static void sweep_mark(Sweep *s) {
    visit_of(s, s->y)->on_path = true;
    for (uint32_t id = s->y; id > s->low; id--)
        for (uint32_t k = 0; visit_of(s, id)->on_path && k < graph_node(s->g, id)->nin; k++)
            if (node_in(s->g, id, k) >= s->low)
                visit_of(s, node_in(s->g, id, k))->on_path = true;
    for (uint32_t id = s->low; id <= s->y; id++) {
        Visit *v = visit_of(s, id);
        bool needs = v->wanted;
        for (uint32_t k = 0; k < graph_node(s->g, id)->nin; k++)
            needs |= flows(s, id, k);
        v->on_path = v->on_path && needs;
    }
}

static void sweep_node(Sweep *s, uint32_t id) {
    Val y = {s->to, id}, g = sum_parts(s, id);
    visit_of(s, id)->result = g.id;
    for (uint32_t k = 0; k < graph_node(s->g, id)->nin; k++) {
        Val in = {s->to, node_in(s->g, id, k)};
        if (flows(s, id, k))
            contribute(s, in.id, fit(op_info[graph_node(s->g, id)->op].grad(y, g, k), in).id);
    }
}

static Span first_span(const Graph *g, uint32_t id) {
    return g->span.at[graph_node(g, id)->span].span;
}

static void sweep_run(Sweep *s) {
    Span outer = s->to->span;
    sweep_mark(s);
    if (visit_of(s, s->y)->on_path)
        contribute(s, s->y, Filled(s->to, 1, *node_type(s->g, s->y)).id);
    for (uint32_t id = s->y; id >= s->low; id--) {
        if (visit_of(s, id)->first) {
            s->to->span = first_span(s->g, id);
            sweep_node(s, id);
        }
    }
    s->to->span = outer;
}

// --- the pass ------------------------------------------------------------------------------------

typedef struct Range { // nodes [begin, end)
    uint32_t begin, end;
} Range;

typedef struct Sweeps {
    Arena *a;
    uint32_t *first, *next; // [old node] the first Grad of it; of a Grad: the next of the same y
    uint32_t *result;       // [old node] of a Grad: the gradient, 0 none
    uint32_t *sweep;        // [old node] of a Grad: 1 + the sweep that served it, 0 none yet
    VEC(Range) made;        // [sweep] new nodes that came with it
} Sweeps;

static void list_grads(Sweeps *all, const Graph *g) {
    for (uint32_t id = g->node.n; id-- > 1;) {
        if (graph_node(g, id)->op != OpGrad)
            continue;
        all->next[id] = all->first[node_in(g, id, 0)];
        all->first[node_in(g, id, 0)] = id;
    }
}

// Serves Grad `id` and every later one of the same y and block, if its x is built: an x that is not
// comes after y.
static void sweep(Sweeps *all, Rewriter *r, uint32_t id) {
    Arena scratch = *all->a;
    const Graph *from = r->from;
    uint32_t y = rewritten_in(r, id, 0).id, block = graph_node(from, id)->block;
    Sweep s = {.a = &scratch, .to = &r->to, .g = r->to.g, .low = y, .y = y};
    NodeList grad = {0};
    for (; id; id = all->next[id]) {
        uint32_t x = rewritten_in(r, id, 1).id;
        if (graph_node(from, id)->block != block)
            continue;
        vec_push(&scratch, &grad, id);
        s.low = x && x < s.low ? x : s.low;
    }
    s.visit = arena_array(&scratch, Visit, y - s.low + 1);
    (void)vec_add(&scratch, &s.part);
    for (uint32_t i = 0; i < grad.n; i++) {
        uint32_t x = rewritten_in(r, grad.at[i], 1).id;
        if (x && x <= y)
            visit_of(&s, x)->wanted = true;
    }
    Range made = {s.g->node.n, 0};
    sweep_run(&s);
    made.end = s.g->node.n;
    for (uint32_t i = 0; i < grad.n; i++) {
        uint32_t x = rewritten_in(r, grad.at[i], 1).id;
        all->result[grad.at[i]] = x && x <= y ? visit_of(&s, x)->result : 0;
        all->sweep[grad.at[i]] = all->made.n + 1;
    }
    vec_push(all->a, &all->made, made);
}

static uint32_t expand(Rewriter *r, uint32_t id) {
    Sweeps *all = r->user;
    if (graph_node(r->from, id)->op != OpGrad)
        return node_copy(r, id);
    if (!all->sweep[id])
        sweep(all, r, id);
    return all->result[id] ? all->result[id]
                           : Filled(&r->to, 0, val_type(rewritten_in(r, id, 1))).id;
}

// --- gradients inside losses ---------------------------------------------------------------------

enum { Seen = 1, Own = 2 };

// Marks the Grads that make up a weight's gradient: an update's own.
static void mark_own(const Graph *g, uint32_t id, uint8_t *mark) {
    const Node *n = graph_node(g, id);
    if (mark[id])
        return;
    mark[id] = n->op == OpGrad ? Own : Seen;
    for (uint32_t k = 0; op_info[n->op].cls == ClassEW && k < n->nin; k++)
        mark_own(g, node_in(g, id, k), mark);
}

// [update] The Grads that its loss needs, but for those of updates before it, whose new weights it
// may be made with.
static NodeList *find_inner(Arena *a, const Func *f) {
    const Graph *g = &f->g;
    NodeList *inner = arena_array(a, NodeList, f->update.n);
    uint8_t *mark = arena_array(a, uint8_t, g->node.n), *in = arena_array(a, uint8_t, g->node.n);
    for (uint32_t i = 0; i < f->update.n; i++)
        for (uint32_t k = 0; k < f->update.at[i].grad.n; k++)
            mark_own(g, f->update.at[i].grad.at[k].node, mark);
    uint32_t first = 1; // Grad that is no update's own
    while (first < g->node.n && (graph_node(g, first)->op != OpGrad || mark[first] == Own))
        first++;
    for (uint32_t i = 0; i < f->update.n; i++) {
        uint32_t loss = f->update.at[i].loss;
        if (loss < first)
            continue;
        memset(in, 0, g->node.n);
        in[loss] = 1;
        for (uint32_t id = loss; id > first; id--)
            for (uint32_t k = 0; in[id] && mark[id] != Own && k < graph_node(g, id)->nin; k++)
                in[node_in(g, id, k)] = 1;
        for (uint32_t id = first; id <= loss; id++)
            if (in[id] && graph_node(g, id)->op == OpGrad && mark[id] != Own)
                vec_push(a, &inner[i], id);
    }
    return inner;
}

// Of the nodes that Grads inside a loss became, the convolutions and products: no simplification
// replaces them.
static void note_inner(Arena *perm, const Sweeps *all, const Graph *g, const NodeList *inner,
                       Update *u) {
    Arena scratch = *all->a;
    if (!inner->n)
        return;
    uint8_t *noted = arena_array(&scratch, uint8_t, all->made.n + 1); // [sweep + 1]
    noted[0] = 1;                                                     // of Grads that nothing needs
    for (uint32_t i = 0; i < inner->n; i++) {
        uint32_t sweep = all->sweep[inner->at[i]];
        if (noted[sweep])
            continue;
        Range made = all->made.at[sweep - 1];
        for (uint32_t id = made.begin; id < made.end; id++)
            if (op_info[graph_node(g, id)->op].cls == ClassANCHOR)
                vec_push(perm, &u->inner, id);
        noted[sweep] = 1;
    }
}

void pass_grad(Arena *perm, const Module *m, Func *f, const PassOptions *o) {
    (void)m, (void)o;
    Arena scratch;
    arena_need(&scratch);
    uint32_t n = f->g.node.n;
    Sweeps all = {.a = &scratch,
                  .first = arena_array(&scratch, uint32_t, n),
                  .next = arena_array(&scratch, uint32_t, n),
                  .result = arena_array(&scratch, uint32_t, n),
                  .sweep = arena_array(&scratch, uint32_t, n)};
    const NodeList *inner = find_inner(&scratch, f);
    list_grads(&all, &f->g);
    func_rewrite(perm, f, f->g.batch, expand, &all);
    for (uint32_t i = 0; i < f->update.n; i++)
        note_inner(perm, &all, &f->g, &inner[i], &f->update.at[i]);
    arena_release(&scratch);
}
