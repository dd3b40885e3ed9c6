// graph.c - the graph's arrays: interning of types and attributes, adding nodes, spans, walks.
//
// In: an op, operands, attributes. Out: the index of a node that has that value, new or not.
// Invariants: operands have smaller indices than their users; equal types and attributes have equal
// indices; unless added raw, every node is in simplest form (rules.c; not if g->literal) and two
// nodes with equal op, operands, attributes and type exist only where the block of one is closed to
// the other.
#include "op.h"

#include <math.h>
#include <string.h>

static const int64_t MaxElements = (int64_t)1 << 40;
enum { MaxSpans = 16 }; // spans kept per node

void graph_init(Graph *g, Arena *perm, int64_t batch) {
    *g = (Graph){.perm = perm, .batch = batch, .next_unique = 1};
    (void)vec_add(perm, &g->node); // index 0 means none everywhere
    (void)vec_add(perm, &g->type);
    (void)vec_add(perm, &g->attr);
    (void)vec_add(perm, &g->span);
}

// --- interning -----------------------------------------------------------------------------------

uint32_t graph_type(Graph *g, Type t) {
    int64_t key[1 + MAX_RANK] = {t.dtype | t.rank << 8 | t.batched << 16 | t.inner << 24};
    if (t.rank > MAX_RANK)
        bug("a type of %u axes", t.rank);
    for (uint32_t i = 0; i < MAX_RANK; i++) {
        if (i >= t.rank)
            t.dim[i] = 0;
        key[1 + i] = t.dim[i];
    }
    for (uint64_t h = hash64(key, sizeof key, 0);; h++) {
        uint32_t id = map_find(&g->types, h);
        if (!id) {
            vec_push(g->perm, &g->type, t);
            map_put(g->perm, &g->types, h, g->type.n - 1);
            return g->type.n - 1;
        }
        const Type *found = &g->type.at[id];
        if (found->dtype == t.dtype && type_same_layout(found, &t))
            return id;
    }
}

uint32_t graph_attr(Graph *g, const int64_t *ints, uint32_t n) {
    if (n == 0)
        return 0;
    if (n > MAX_INTS)
        bug("an attribute of %u integers", n);
    Attr a = {.n = n};
    memcpy(a.i, ints, n * sizeof *ints);
    for (uint64_t h = hash64(a.i, n * sizeof *ints, n);; h++) {
        uint32_t id = map_find(&g->attrs, h);
        if (!id) {
            vec_push(g->perm, &g->attr, a);
            map_put(g->perm, &g->attrs, h, g->attr.n - 1);
            return g->attr.n - 1;
        }
        const Attr *found = &g->attr.at[id];
        if (found->n == n && memcmp(found->i, a.i, n * sizeof *ints) == 0)
            return id;
    }
}

// --- the shape rule ------------------------------------------------------------------------------

static bool fits(Infer *q) {
    for (uint32_t i = 0; i < q->out.rank; i++)
        if (q->out.dim[i] < 1)
            return infer_fail(q, "the result would be %s: extents must be at least 1",
                              type_name(&q->out).s);
    if (type_elements(q->g, &q->out) > MaxElements)
        return infer_fail(q, "the result would be %s: more than 2^40 numbers",
                          type_name(&q->out).s);
    for (uint32_t i = q->out.rank; i < MAX_RANK; i++)
        q->out.dim[i] = 0;
    return true;
}

bool graph_check(Infer *q, Op op) {
    static const Attr none = {0};
    const OpInfo *info = &op_info[op];
    if (!q->attr)
        q->attr = &none;
    if (!info->infer)
        return infer_fail(q, "there is no operation %u", (unsigned)op);
    if (q->nin < info->least || q->nin > info->most)
        return infer_fail(q, "%s takes %u to %u operands, not %u", info->text, info->least,
                          info->most, q->nin);
    for (uint32_t k = 0; k < q->nin; k++)
        if (q->in[k] == 0 || q->in[k] >= q->g->node.n)
            return infer_fail(q, "%s: operand %u is not a value", info->text, k);
    if (q->out.rank != TYPE_UNSTATED && q->out.rank > MAX_RANK)
        return infer_fail(q, "a value has at most %d axes", MAX_RANK);
    uint8_t inner = q->out.rank == TYPE_UNSTATED ? 0 : q->out.inner; // no rule's matter
    bool fit = info->infer(q) && fits(q);
    q->out.inner = inner;
    return fit;
}

// --- adding nodes --------------------------------------------------------------------------------

static bool same_node(const Graph *g, const Node *n, const Node *made, const uint32_t *in) {
    return n->op == made->op && n->nin == made->nin && n->type == made->type &&
           n->attr == made->attr &&
           (n->nin == 0 || memcmp(&g->edge.at[n->in], in, n->nin * sizeof *in) == 0);
}

static uint64_t node_hash(const Node *n, const uint32_t *in) {
    uint32_t key[4 + MAX_IN] = {n->op, n->type, n->attr, n->nin};
    for (uint32_t k = 0; k < n->nin; k++)
        key[4 + k] = in[k];
    return hash64(key, (4 + n->nin) * sizeof *key, 0);
}

static uint32_t append(const Builder *b, Node n, const uint32_t *in) {
    Graph *g = b->g;
    n.in = g->edge.n;
    for (uint32_t k = 0; k < n.nin; k++)
        vec_push(g->perm, &g->edge, in[k]);
    vec_push(g->perm, &g->node, n);
    if (b->span.file)
        node_add_span(g, g->node.n - 1, b->span);
    return g->node.n - 1;
}

bool builder_sees(const Builder *b, uint32_t id) {
    return !b->scope_end || block_dominates(b->scope_end, graph_node(b->g, id)->block, b->block);
}

// An equal node that dominates, else a new one, which from now on is the one to be found.
static uint32_t share(const Builder *b, Node n, const uint32_t *in) {
    Graph *g = b->g;
    uint64_t h = node_hash(&n, in);
    uint32_t id;
    for (; (id = map_find(&g->nodes, h)) != 0; h++) {
        const Node *found = &g->node.at[id];
        if (!same_node(g, found, &n, in))
            continue;
        if (!builder_sees(b, id))
            break;
        if (b->span.file)
            node_add_span(g, id, b->span);
        return id;
    }
    id = append(b, n, in);
    map_put(g->perm, &g->nodes, h, id);
    return id;
}

// Operands of commuting ops in one order: by index, constants last.
static void order_operands(const Graph *g, Op op, uint32_t *in) {
    if (!op_is(op, TraitCommutes))
        return;
    double unused;
    bool ca = node_is_const(g, in[0], &unused), cb = node_is_const(g, in[1], &unused);
    if (ca == cb ? in[0] > in[1] : ca) {
        uint32_t first = in[0];
        in[0] = in[1];
        in[1] = first;
    }
}

static void infer_draft(const Graph *g, Draft *d, const Type *want) {
    Infer q = {
        .g = g, .nin = d->nin, .in = d->in, .attr = &d->attr, .out = {.rank = TYPE_UNSTATED}};
    if (want)
        q.out = *want;
    if (!graph_check(&q, d->op))
        bug("%s: %s", op_info[d->op].text, q.error);
    d->type = q.out;
}

// Is it never merged with an equal node?
static bool is_own(Op op) {
    return op == OpPin || op == OpWrite;
}

static uint32_t add(const Builder *b, Op op, const uint32_t *in, uint32_t nin, const Attr *attr,
                    const Type *type) {
    Node n = {.op = (uint16_t)op, .nin = (uint8_t)nin, .block = b->block};
    bool numbers_samples = op == OpIota && attr->i[0] & 1; // depends on where it runs
    if (op == OpConst || (op == OpIota && !numbers_samples))
        n.block = 0;
    n.type = graph_type(b->g, *type);
    n.attr = graph_attr(b->g, attr->i, attr->n);
    return b->raw || is_own(op) ? append(b, n, in) : share(b, n, in);
}

uint32_t builder_add(Builder *b, Op op, const uint32_t *in, uint32_t nin, const Attr *attr,
                     const Type *want) {
    Draft d = {.op = op, .nin = nin}; // copies: the arguments may lie in the arrays that grow
    if (nin > MAX_IN)
        bug("%s of %u operands", op_info[op].text, nin);
    for (uint32_t k = 0; k < nin; k++)
        d.in[k] = in[k];
    if (attr)
        d.attr = *attr;
    infer_draft(b->g, &d, want);
    if (!b->raw && !b->g->literal && !is_own(op)) {
        order_operands(b->g, op, d.in);
        uint32_t simpler = simplify(b, &d);
        if (simpler)
            return simpler;
    }
    return add(b, op, d.in, nin, &d.attr, &d.type);
}

uint32_t builder_copy(Builder *b, const Graph *from, uint32_t id, uint32_t *in) {
    const Node *n = graph_node(from, id);
    order_operands(b->g, (Op)n->op, in);
    return add(b, (Op)n->op, in, n->nin, node_attr(from, id), node_type(from, id));
}

// --- spans and walks -----------------------------------------------------------------------------

bool node_is_const(const Graph *g, uint32_t id, double *out) {
    const Node *n = graph_node(g, id);
    while (n->op == OpExpand || n->op == OpReshape)
        n = graph_node(g, g->edge.at[n->in]);
    if (n->op != OpConst)
        return false;
    *out = bits_to_double(g->attr.at[n->attr].i[0]);
    return true;
}

bool node_selects_by_sign(const Graph *g, uint32_t id, SignSelect *out) {
    if (graph_node(g, id)->op != OpWhere)
        return false;
    uint32_t compare = node_in(g, id, 0), yes = node_in(g, id, 1), no = node_in(g, id, 2);
    bool above = graph_node(g, compare)->op == OpGt;
    uint32_t x = above ? yes : no;
    double c;
    if ((!above && graph_node(g, compare)->op != OpGe) || node_in(g, compare, !above) != x ||
        !node_is_const(g, node_in(g, compare, above), &c) || c != 0)
        return false;
    *out = (SignSelect){compare, x, above ? no : yes};
    return true;
}

static bool same_span(Span a, Span b) {
    return a.file == b.file && a.lo == b.lo && a.hi == b.hi;
}

void node_add_span(Graph *g, uint32_t id, Span s) {
    uint32_t last = 0, count = 0;
    for (uint32_t at = g->node.at[id].span; at; last = at, at = g->span.at[at].next)
        if (same_span(g->span.at[at].span, s) || ++count == MaxSpans)
            return;
    vec_push(g->perm, &g->span, ((SpanLink){.span = s}));
    *(last ? &g->span.at[last].next : &g->node.at[id].span) = g->span.n - 1;
}

void graph_spread(const Graph *g, uint8_t *needed) {
    for (uint32_t id = g->node.n; id-- > 1;) // users have larger indices than their operands
        for (uint32_t k = 0; needed[id] && k < g->node.at[id].nin; k++)
            needed[node_in(g, id, k)] = 1;
}

uint8_t *graph_reach(const Graph *g, Arena *a, const uint32_t *root, uint32_t n) {
    uint8_t *needed = arena_array(a, uint8_t, g->node.n);
    for (uint32_t i = 0; i < n; i++)
        needed[root[i]] = 1;
    needed[0] = 0;
    graph_spread(g, needed);
    return needed;
}
