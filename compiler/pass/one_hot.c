// one_hot.c - a sum or product over the gradient of a maximum has few terms: the greatest elements.
//
// In: a function without Grad, Pin or Stop. Out: the same values but for rounding. The gradient of
// MaxOf over axes A is one-hot along them: where(iota(A) == index, g, 0), index an ArgMax. So
//   the sum of f * one_hot over A is      g * f[index], a gather;
//   over the axes K of the index it adds  g * f[index] into row `index` of A, a scatter.
// Instead of every element they visit one for each maximum. Where f is computed from smaller values
// (a distance of all pairs), these are gathered, and f is computed at what was gathered.
//
// Which sums and products: Sum, Dot, and convolutions whose kernel is one element. All are loops
// with an axis for each label of an einsum; values are placed in them by their axes' labels. It is
// done where it visits fewer elements, Indexed times fewer, for they are not neighbours.
#include "pass.h"

#include <string.h>

enum {
    Indexed = 8,                 // elements visited in order in the time of one that is indexed
    MaxLoops = 1 + 2 * MAX_RANK, // loop 0: the batch
    Depth = 16                   // elementwise operations on the way to a gathered value, at most
};

// --- values in loops -----------------------------------------------------------------------------

typedef struct Axes { // of more than one element, by the loop that each runs with; 0: none
    uint32_t n;
    uint8_t loop[MAX_RANK];
} Axes;

typedef struct View { // a node of the old graph: axis i runs with axis.loop[i]; 0: one element
    uint32_t node;
    Axes axis;
} View;

typedef struct Placed { // a value of the new graph: no axis of one element, loops ascending
    Val v;              // id 0: there is none
    Axes axis;
} Placed;

typedef struct OneHot {
    Axes at;         // A, as the index counts them
    int64_t count;   // of its elements
    Placed index;    // along K
    uint32_t across; // K, as bits
} OneHot;

// On the way from a sum's operand to a one-hot: operand k of an elementwise operation is one.
typedef struct Step {
    const struct Step *outer;
    Op op;
    uint32_t k, nin;
    View in[3];
} Step;

typedef struct Search { // Rewriter.user
    uint8_t *hot;       // [old node]
    bool small;         // PassOptions.small_products
} Search;

typedef struct Spread { // a sum or product at hand
    Rewriter *r;
    const uint8_t *hot;       // Search.hot
    int64_t extent[MaxLoops]; // loop 0: of the batch, 1 where nothing is per-sample
    uint32_t summed;          // loops, as bits
    Axes result;              // of the result's axes
    Type type;                // of the result
    double visited;           // elements that what replaces it visits
    uint32_t next;            // node of the new graph that none of these is yet
} Spread;

static const Placed None;

static bool is_within(const Spread *s, uint32_t id) { // may its operands be read in its place?
    const Builder *to = &s->r->to;
    return block_dominates(to->scope_end, graph_node(s->r->from, id)->block, to->block);
}

static uint32_t loops_of(const Axes *a) {
    uint32_t set = 0;
    for (uint32_t i = 0; i < a->n; i++)
        set |= a->loop[i] ? 1u << a->loop[i] : 0;
    return set;
}

static int64_t extents(const Spread *s, uint32_t loops) {
    int64_t n = 1;
    for (uint32_t l = 0; l < MaxLoops; l++)
        n *= loops >> l & 1 ? s->extent[l] : 1;
    return n;
}

static void append(Axes *to, const Axes *from, uint32_t loops) {
    for (uint32_t i = 0; i < from->n; i++)
        if (loops >> from->loop[i] & 1)
            to->loop[to->n++] = from->loop[i];
}

static bool same_axes(const Axes *a, const Axes *b) { // those of one element left out
    Axes x = {0}, y = {0};
    append(&x, a, ~1u);
    append(&y, b, ~1u);
    return x.n == y.n && memcmp(x.loop, y.loop, x.n) == 0;
}

static Val visited(Spread *s, Val v) { // once, where it is new
    Type t = val_type(v);
    s->visited += v.id < s->next ? 0 : (double)type_elements(v.b->g, &t);
    s->next = v.id < s->next ? s->next : v.id + 1;
    return v;
}

static Type type_of(const Spread *s, const Axes *a, bool batched) {
    int64_t dim[MAX_RANK];
    for (uint32_t i = 0; i < a->n; i++)
        dim[i] = s->extent[a->loop[i]];
    return type_make(batched, a->n, dim);
}

// A table of so many rows [rest...].
static Type rows_of(const Spread *s, int64_t n, const Axes *rest, bool batched) {
    Type t = type_of(s, rest, batched);
    memmove(t.dim + 1, t.dim, sizeof t.dim - sizeof *t.dim);
    t.dim[0] = n;
    t.rank++;
    return t;
}

// A value whose axes are `from`, with them in the order `to`.
static Val ordered(Val v, const Axes *from, const Axes *to) {
    uint32_t axis[MAX_RANK];
    for (uint32_t i = 0; i < to->n; i++)
        for (axis[i] = 0; from->loop[axis[i]] != to->loop[i];)
            axis[i]++;
    return to->n ? Permute(v, axis) : v;
}

// A value whose axes are `a`, none of one element.
static Placed placed(Val v, const Axes *a) {
    Placed p = {.axis.n = 0};
    for (uint32_t l = 1; l < MaxLoops; l++)
        append(&p.axis, a, 1u << l);
    p.v = ordered(v, a, &p.axis);
    return p;
}

static Placed placed_view(Spread *s, const View *v) {
    Axes a = {0};
    Val x = rewritten(s->r, v->node);
    append(&a, &v->axis, ~1u);
    Type t = type_of(s, &a, val_type(x).batched);
    return placed(a.n == val_type(x).rank ? x : Reshape(x, t.rank, t.dim), &a);
}

// With an axis for each loop of `to`, of one element where it has none.
static Val spaced(const Spread *s, const Placed *p, const Axes *to) {
    int64_t dim[MAX_RANK];
    uint32_t mine = loops_of(&p->axis);
    for (uint32_t i = 0; i < to->n; i++)
        dim[i] = mine >> to->loop[i] & 1 ? s->extent[to->loop[i]] : 1;
    return p->axis.n == to->n || p->axis.n == 0 ? p->v : Reshape(p->v, to->n, dim);
}

static Placed elementwise(Spread *s, Op op, const Placed *in, uint32_t nin) {
    uint32_t id[3], loops = 0;
    Axes all = {0};
    for (uint32_t k = 0; k < nin; k++)
        loops |= loops_of(&in[k].axis);
    for (uint32_t l = 1; l < MaxLoops; l++) {
        if (!(loops >> l & 1))
            continue;
        if (all.n == MAX_RANK)
            return None;
        all.loop[all.n++] = (uint8_t)l;
    }
    for (uint32_t k = 0; k < nin; k++)
        id[k] = spaced(s, &in[k], &all).id;
    return placed(visited(s, (Val){&s->r->to, builder_add(&s->r->to, op, id, nin, NULL, NULL)}),
                  &all);
}

// Sums over loops, of which it may lack some.
static Placed summed(Spread *s, Placed p, uint32_t loops) {
    Axes kept = {0};
    uint32_t mask = loops & 1 && val_type(p.v).batched, had = loops_of(&p.axis) | mask;
    int64_t times = extents(s, loops & ~had);
    append(&kept, &p.axis, ~loops);
    for (uint32_t i = 0; i < p.axis.n; i++)
        mask |= (loops >> p.axis.loop[i] & 1) << (1 + i);
    if (mask) {
        Type t = type_of(s, &kept, val_type(p.v).batched && !(loops & 1));
        p = placed(Reshape(visited(s, Sum(p.v, mask)), t.rank, t.dim), &kept);
    }
    p.v = times > 1 ? Mul(p.v, Num(p.v, (double)times)) : p.v;
    return p;
}

// --- views of the old graph ----------------------------------------------------------------------

static View operand(const Graph *g, const View *v, uint32_t k) { // broadcast from the left
    View o = {.node = node_in(g, v->node, k)};
    const Type *t = node_type(g, o.node);
    o.axis.n = t->rank;
    for (uint32_t i = 0; i < t->rank; i++)
        o.axis.loop[i] = t->dim[i] > 1 ? v->axis.loop[i] : 0;
    return o;
}

// What a move shows, if it moves whole axes only.
static bool see_through(const Graph *g, const View *v, View *out) {
    const Type *t = node_type(g, v->node);
    uint32_t at = 0;
    switch (graph_node(g, v->node)->op) {
    case OpExpand:
        *out = operand(g, v, 0);
        return true;
    case OpPermute:
        *out = operand(g, v, 0);
        for (uint32_t i = 0; i < t->rank; i++)
            out->axis.loop[node_attr(g, v->node)->i[1 + i]] = v->axis.loop[i];
        return true;
    case OpReshape: // extents of 1 come and go
        *out = (View){.node = node_in(g, v->node, 0)};
        const Type *from = node_type(g, out->node);
        out->axis.n = from->rank;
        for (uint32_t i = 0; i < from->rank; i++) {
            while (at < t->rank && t->dim[at] == 1)
                at++;
            if (from->dim[i] == 1)
                continue;
            if (at == t->rank || t->dim[at] != from->dim[i])
                return false;
            out->axis.loop[i] = v->axis.loop[at++];
        }
        return true;
    default:
        return false;
    }
}

static bool is_zero(const Graph *g, uint32_t id) {
    double x;
    return node_is_const(g, id, &x) && x == 0;
}

// Numbers among `count`: an ArgMax over so many.
static bool counts_to(const Graph *g, uint32_t id, int64_t count) {
    while (graph_node(g, id)->op == OpReshape || graph_node(g, id)->op == OpExpand)
        id = node_in(g, id, 0);
    return graph_node(g, id)->op == OpArgMax &&
           type_sample(node_type(g, node_in(g, id, 0))) == type_sample(node_type(g, id)) * count;
}

// where(iota == index, ..., 0): the operand of the comparison that is the iota; NONE: another node.
static uint32_t iota_of(const Graph *g, uint32_t id) {
    if (graph_node(g, id)->op != OpWhere || !is_zero(g, node_in(g, id, 2)))
        return NONE;
    uint32_t equal = node_in(g, id, 0);
    for (uint32_t k = 0; k < 2 && graph_node(g, equal)->op == OpEq; k++) {
        uint32_t iota = node_in(g, equal, k);
        if (graph_node(g, iota)->op == OpIota && !(node_axes(g, iota) & 1) &&
            counts_to(g, node_in(g, equal, 1 - k), type_sample(node_type(g, iota))))
            return k;
    }
    return NONE;
}

// The operand of an elementwise operation or move, linear in it, that is one-hot; NONE.
static uint32_t hot_operand(const Graph *g, const uint8_t *hot, uint32_t id) {
    const Node *n = graph_node(g, id);
    bool a = n->nin > 0 && hot[node_in(g, id, 0)], b = n->nin > 1 && hot[node_in(g, id, 1)];
    switch (n->op) {
    case OpAdd:
    case OpSub:
        return a && b ? 0 : NONE;
    case OpMul:
        return a ? 0 : b ? 1 : NONE;
    case OpNeg:
    case OpDiv:
    case OpExpand:
    case OpPermute:
    case OpReshape:
        return a ? 0 : NONE;
    case OpWhere:
        return b && is_zero(g, node_in(g, id, 2))                        ? 1
               : hot[node_in(g, id, 2)] && is_zero(g, node_in(g, id, 1)) ? 2
                                                                         : NONE;
    default:
        return NONE;
    }
}

// --- at the index --------------------------------------------------------------------------------

// The index, and with it which of the loops `kept` it is for: a row number of both.
static Val row_of(Spread *s, const OneHot *h, uint32_t kept) {
    Val index = h->index.v;
    uint32_t mask = 0;
    if (!kept)
        return index;
    for (uint32_t i = 0; i < h->index.axis.n; i++)
        mask |= (kept >> h->index.axis.loop[i] & 1) << (1 + i);
    return Add(Mul(index, Num(index, (double)extents(s, kept))),
               Iota(&s->r->to, mask, val_type(index)));
}

static bool fits(Spread *s, Op op, Val a, Val b, const Type *want) {
    uint32_t in[2] = {a.id, b.id};
    Infer q = {.g = s->r->to.g, .nin = 2, .in = in, .attr = &(Attr){0}, .out = {.rank = UINT8_MAX}};
    if (want)
        q.out = *want;
    return graph_check(&q, op);
}

// A value that varies along A, at the index.
static Placed gathered(Spread *s, const View *v, const OneHot *h) {
    Placed x = placed_view(s, v);
    uint32_t mine = loops_of(&x.axis), all = loops_of(&h->at), both = mine & h->across;
    Axes order = h->at, rest = {0}, to = h->index.axis;
    if ((mine & all) != all)
        return None;
    append(&order, &x.axis, both);
    append(&rest, &x.axis, ~(all | both));
    append(&order, &rest, ~0u);
    Type t = rows_of(s, h->count * extents(s, both), &rest, val_type(x.v).batched);
    Val table = Reshape(ordered(x.v, &x.axis, &order), t.rank, t.dim);
    if (!fits(s, OpGather, table, h->index.v, NULL))
        return None;
    append(&to, &rest, ~0u);
    return placed(visited(s, Gather(visited(s, table), row_of(s, h, both))), &to);
}

// A value at the index: of one that varies with the index, too, from its operands.
static Placed at_index(Spread *s, const View *v, const OneHot *h, uint32_t depth) {
    const Graph *g = s->r->from;
    const Node *n = graph_node(g, v->node);
    uint32_t mine = loops_of(&v->axis);
    bool within = is_within(s, v->node) && depth < Depth;
    double number;
    View moved;
    Placed in[3];
    if (node_is_const(g, v->node, &number))
        return placed(Filled(&s->r->to, number, (Type){.dtype = node_type(g, v->node)->dtype}),
                      &(Axes){0});
    if (!(mine & loops_of(&h->at)))
        return placed_view(s, v);
    if (n->op == OpIota)
        return same_axes(&v->axis, &h->at) ? h->index : None;
    if (within && see_through(g, v, &moved))
        return at_index(s, &moved, h, depth + 1);
    if (!within || !(mine & h->across) || !op_info[n->op].value || n->op == OpCast)
        return gathered(s, v, h);
    for (uint32_t k = 0; k < n->nin; k++) {
        View o = operand(g, v, k);
        in[k] = at_index(s, &o, h, depth + 1);
        if (!in[k].v.id)
            return None;
    }
    return elementwise(s, (Op)n->op, in, n->nin);
}

// --- results -------------------------------------------------------------------------------------

// Adds what is at the index into the rows of A that it names; loops of the index that are not
// summed keep rows of their own.
static Placed scattered(Spread *s, Placed p, const OneHot *h) {
    uint32_t kept = h->across & ~s->summed & ~1u;
    Axes all = {0}, rest = {0}, order = h->index.axis, to = h->at;
    p = summed(s, p, s->summed & ~h->across);
    append(&rest, &p.axis, ~h->across);
    if (order.n + rest.n > MAX_RANK || h->at.n + order.n + rest.n > MAX_RANK)
        return None;
    append(&order, &rest, ~0u);
    for (uint32_t l = 1; l < MaxLoops; l++)
        append(&all, &order, 1u << l);
    append(&to, &h->index.axis, kept);
    append(&to, &rest, ~0u);
    bool batched = val_type(p.v).batched || h->across & 1;
    Val rows = Expand(spaced(s, &p, &all), type_of(s, &all, batched));
    rows = ordered(rows, &all, &order);
    Type table = type_of(s, &to, batched && !(s->summed & 1)),
         flat = rows_of(s, h->count * extents(s, kept), &rest, table.batched);
    if (!fits(s, OpScatter, rows, h->index.v, &flat))
        return None;
    Val added = visited(s, Scatter(visited(s, rows), row_of(s, h, kept), flat));
    return placed(Reshape(added, table.rank, table.dim), &to);
}

// --- sums and products ---------------------------------------------------------------------------

static Val to_result(const Spread *s, const Placed *p) {
    Axes order = {0};
    int64_t dim[MAX_RANK];
    uint32_t mine = loops_of(&p->axis);
    append(&order, &s->result, mine);
    for (uint32_t i = 0; i < s->result.n; i++)
        dim[i] = mine >> s->result.loop[i] & 1 ? s->type.dim[i] : 1;
    return Expand(Reshape(ordered(p->v, &p->axis, &order), s->result.n, dim), s->type);
}

static Val of_one_hot(Spread *s, const View *v, const Step *path) {
    const Graph *g = s->r->from;
    uint32_t k = iota_of(g, v->node);
    View equal = operand(g, v, 0), iota = operand(g, &equal, k), index = operand(g, &equal, 1 - k),
         chosen = operand(g, v, 1);
    OneHot h = {.count = type_sample(node_type(g, iota.node)), .index = placed_view(s, &index)};
    append(&h.at, &iota.axis, ~1u);
    h.across = loops_of(&h.index.axis) | val_type(h.index.v).batched;
    uint32_t all = loops_of(&h.at);
    bool inside = (s->summed & all) == all;
    if (all & h.across || (!inside && (s->summed & all || !(s->summed & h.across))))
        return (Val){0};
    Placed p = at_index(s, &chosen, &h, 0);
    for (; path && p.v.id; path = path->outer) {
        Placed in[3];
        bool found = true;
        for (uint32_t i = 0; i < path->nin; i++) {
            in[i] = i == path->k ? p : at_index(s, &path->in[i], &h, 0);
            found = found && in[i].v.id;
        }
        p = found ? elementwise(s, path->op, in, path->nin) : None;
    }
    if (p.v.id)
        p = inside ? summed(s, p, s->summed & ~all) : scattered(s, p, &h);
    return p.v.id ? to_result(s, &p) : p.v;
}

// The sum of what is one-hot at `v`, after the operations of `path`; id 0: it is not of that form.
static Val spread(Spread *s, const View *v, const Step *path) {
    const Graph *g = s->r->from;
    Op op = (Op)graph_node(g, v->node)->op;
    uint32_t k = hot_operand(g, s->hot, v->node);
    View a, b;
    if (!is_within(s, v->node))
        return (Val){0};
    if (iota_of(g, v->node) != NONE)
        return of_one_hot(s, v, path);
    if (op == OpAdd || op == OpSub) {
        a = operand(g, v, 0), b = operand(g, v, 1);
        Val x = spread(s, &a, path), y = x.id ? spread(s, &b, path) : x;
        return !y.id ? y : op == OpAdd ? Add(x, y) : Sub(x, y);
    }
    if (op_info[op].cls == ClassMOVE)
        return see_through(g, v, &a) ? spread(s, &a, path) : (Val){0};
    Step step = {.outer = path, .op = op, .k = k, .nin = graph_node(g, v->node)->nin};
    for (uint32_t i = 0; i < step.nin; i++)
        step.in[i] = operand(g, v, i);
    return spread(s, &step.in[k], &step);
}

static Axes axes(const uint8_t *loop, uint32_t n) {
    Axes a = {.n = n};
    memcpy(a.loop, loop, n);
    return a;
}

// The loops of a Dot: its labels.
static bool dot_loops(const Attr *at, Axes of[3]) {
    for (uint32_t s = 0, i = 0; s < 3; s++) {
        of[s].n = (uint32_t)at->i[i++];
        for (uint32_t k = 0; k < of[s].n; k++, i++) {
            if (at->i[i] >= MaxLoops)
                return false;
            of[s].loop[k] = (uint8_t)at->i[i];
        }
    }
    return true;
}

// Of a convolution whose kernel is one element: 1 the channels out, 2 those in, from 3 on the
// space.
static bool conv_loops(const Graph *g, uint32_t id, Axes of[3]) {
    static const uint8_t data[][4] = {{2, 3, 4, 5}, {1, 3, 4, 5}}, weight[5] = {1, 2};
    const Node *n = graph_node(g, id);
    ConvGeom c = conv_geom(node_attr(g, id));
    const Type *w = n->op == OpConvDw ? node_type(g, id) : node_type(g, node_in(g, id, 1));
    for (uint32_t i = 0; i < c.n; i++)
        if (w->dim[2 + i] > 1 || c.stride[i] > 1 || c.before[i] || c.after[i])
            return false;
    Axes x = axes(data[0], c.n + 1), y = axes(data[1], c.n + 1), k = axes(weight, c.n + 2);
    of[0] = n->op == OpConvDx ? y : x;
    of[1] = n->op == OpConvDw ? y : k;
    of[2] = n->op == OpConv ? y : n->op == OpConvDx ? x : k;
    return c.groups == 1;
}

// The loops of a node's operands and result; false: it is no sum or product.
static bool loops_find(const Graph *g, uint32_t id, Axes of[3]) {
    const Type *t = node_type(g, node_in(g, id, 0));
    switch (graph_node(g, id)->op) {
    case OpSum:
        of[0].n = of[2].n = t->rank;
        for (uint32_t i = 0; i < t->rank && i < MAX_RANK; i++) {
            of[0].loop[i] = (uint8_t)(1 + i);
            of[2].loop[i] = node_axes(g, id) >> (1 + i) & 1 ? 0 : (uint8_t)(1 + i);
        }
        return true;
    case OpDot:
        return dot_loops(node_attr(g, id), of);
    case OpConv:
    case OpConvDx:
    case OpConvDw:
        return conv_loops(g, id, of);
    default:
        return false;
    }
}

// Is a sum or product at hand of something one-hot? Operand *k is.
static bool is_sum_of_hot(const Graph *g, const uint8_t *hot, uint32_t id, uint32_t *k) {
    Op op = (Op)graph_node(g, id)->op;
    if (op != OpSum && node_family(g, id) != FamilyProduct)
        return false;
    for (*k = 0; *k < graph_node(g, id)->nin; ++*k)
        if (hot[node_in(g, id, *k)])
            return true;
    return false;
}

static uint32_t rewrite(Rewriter *r, uint32_t id) {
    const Graph *g = r->from;
    const Search *search = r->user;
    uint32_t k, nin = graph_node(g, id)->nin, all = 0;
    Axes of[3] = {0};
    Spread s = {.r = r, .hot = search->hot, .extent = {1}, .type = *node_type(g, id)};
    s.next = r->to.g->node.n;
    if (!is_sum_of_hot(g, s.hot, id, &k) || !loops_find(g, id, of))
        return node_copy(r, id);
    Step product = {.op = OpMul, .k = k, .nin = nin};
    for (uint32_t i = 0; i < nin; i++) {
        const Type *t = node_type(g, node_in(g, id, i));
        s.extent[0] = t->batched ? g->batch : s.extent[0];
        product.in[i] = (View){node_in(g, id, i), of[i]};
        for (uint32_t d = 0; d < t->rank; d++) {
            uint8_t *loop = &product.in[i].axis.loop[d];
            *loop = t->dim[d] > 1 ? *loop : 0;
            s.extent[*loop] = *loop ? t->dim[d] : s.extent[0];
        }
        all |= loops_of(&product.in[i].axis) | t->batched;
    }
    s.result = of[2];
    for (uint32_t d = 0; d < s.type.rank; d++)
        s.result.loop[d] = s.type.dim[d] > 1 ? of[2].loop[d] : 0;
    s.summed = all & ~loops_of(&s.result) & ~(uint32_t)s.type.batched;
    Val made = spread(&s, &product.in[k], nin > 1 ? &product : NULL);
    bool fewer = search->small || s.visited * Indexed < (double)extents(&s, all);
    return made.id && fewer ? made.id : node_copy(r, id);
}

void pass_one_hot(Arena *perm, const Module *m, Func *f, const PassOptions *o) {
    const Graph *g = &f->g;
    Search s = {.hot = arena_array(perm, uint8_t, g->node.n), .small = o->small_products};
    uint32_t found = 0, k;
    (void)m;
    for (uint32_t id = 1; id < g->node.n; id++) {
        s.hot[id] = iota_of(g, id) != NONE || hot_operand(g, s.hot, id) != NONE;
        found += is_sum_of_hot(g, s.hot, id, &k);
    }
    if (found)
        func_rewrite(perm, f, g->batch, rewrite, &s);
}
