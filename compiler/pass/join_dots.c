// join_dots.c - many products with one weight as one product: of stacked operands.
//
// A recurrent net multiplies a weight with the state of every step, and its gradient adds up a
// product of every step. Apart, these products read the weight, or write a matrix of its size, once
// a step. Stacked along a new axis t, which lies outside of what a step's operand is in memory,
//     join_inputs  w x_t, of values x_t that are all there before the first:  (w X)_t
//     join_sums    the sum of a_t' b_t, each read by that sum alone:          A' B, over t as well
// In join_sums pieces padded into one value and added are the concatenation of them, too, where a
// product reads it: what the gradient of a value is that is read in slices. join_inputs runs before
// gradients, which follow from it. Stacking copies the operands and keeps them until the last is
// there, so it is done where they are smaller than what is saved, in elements of a run's samples;
// launches count, too.
#include "pass.h"

#include <stdlib.h>
#include <string.h>

enum {
    FewCalls = 4,
    // Elements that are read and written in the time of a launch, for a product on a core with what
    // the library does besides; on cards fewer than that, as they are kept as well.
    CoreLaunch = 1 << 11,
    CardLaunch = 1 << 18
};

// --- dots and stacks -----------------------------------------------------------------------------

typedef struct Labels { // of the axes of both operands and the result
    uint32_t n[3];
    uint8_t at[3][MAX_RANK];
} Labels;

static Labels labels_of(const Graph *g, uint32_t dot) {
    const int64_t *at = node_attr(g, dot)->i;
    Labels l = {0};
    for (uint32_t s = 0; s < 3; s++) {
        l.n[s] = (uint32_t)*at++;
        for (uint32_t i = 0; i < l.n[s]; i++)
            l.at[s][i] = (uint8_t)*at++;
    }
    return l;
}

// The axis of a stack: outside of the axis that lies innermost (type_strides), so that each value
// stays in one piece, or a piece a sample.
static uint32_t stack_axis(const Type *t) {
    uint32_t inner = t->batched ? 1 : 2;
    return t->rank < inner ? t->rank : inner;
}

static void label_stack(Labels *l, uint32_t side, const Type *t) {
    uint32_t axis = stack_axis(t);
    memmove(l->at[side] + axis + 1, l->at[side] + axis, l->n[side]++ - axis);
    l->at[side][axis] = UINT8_MAX; // Dot() renames labels
}

static Type stack_type(const Type *t, int64_t n) {
    Type of = *t;
    uint32_t axis = stack_axis(t);
    memmove(of.dim + axis + 1, of.dim + axis, (t->rank - axis) * sizeof *of.dim);
    of.dim[axis] = n;
    of.rank++;
    return of;
}

static Val stack(const Rewriter *r, const uint32_t *old, uint32_t n, Arena scratch) {
    Builder *b = (Builder *)&r->to;
    Val *x = arena_array(&scratch, Val, n);
    const Type *t = node_type(r->from, old[0]);
    Type one = stack_type(t, 1);
    for (uint32_t k = 0; k < n; k++)
        x[k] = Reshape((Val){b, r->map[old[k]]}, one.rank, one.dim);
    return Concat(x, n, stack_axis(t));
}

// Samples of a run of the function: of a rank's part, or of a chunk.
static int64_t run_samples(const Graph *g, const Parallel *o) {
    int64_t parts = o->chunks > 1 ? o->chunks : (int64_t)o->ranks * (o->micro > 1 ? o->micro : 1);
    return parts > 1 ? (g->batch + parts - 1) / parts : g->batch;
}

static int64_t elements(const Graph *g, uint32_t id, int64_t samples) {
    const Type *t = node_type(g, id);
    return type_sample(t) * (t->batched ? samples : 1);
}

static int64_t launch_elements(const PassOptions *o) {
    return o->few_launches ? CardLaunch : CoreLaunch;
}

static bool has_room(const Graph *g, uint32_t id) { // for an axis more
    return node_type(g, id)->rank < MAX_RANK;
}

// --- join_inputs ---------------------------------------------------------------------------------

typedef struct Piece { // element `at` along `axis` of a value, without that axis
    uint32_t of, axis; // of: 0 none
    int64_t at;
} Piece;

typedef struct Set { // dots of one weight, by values that are there before the first of them
    NodeList dot;
    Piece piece;   // of the first: then all are of that value, in order
    uint32_t side; // operand that is the weight
    bool pays;
    uint32_t made; // the product of all in the new graph, 0: not yet
} Set;

typedef struct Inputs {
    Arena *arena;
    const Graph *g;
    const uint8_t *live, *wanted; // [node] wanted: a gradient by it is, so it stays on the path
    const uint64_t *losses;       // [node] a hash of what is differentiated through it
    VEC(Set) set;
    uint32_t *open;   // [weight] 1 + its last set
    uint32_t *set_of; // [dot] 1 + its set, place in it
    uint32_t *place;
} Inputs;

static Piece piece_of(const Inputs *in, uint32_t id) {
    const Graph *g = in->g;
    uint32_t cut = graph_node(g, id)->op == OpReshape ? node_in(g, id, 0) : 0, axis = 0;
    if (!cut || graph_node(g, cut)->op != OpSlice || in->wanted[id] || in->wanted[cut])
        return (Piece){0};
    uint32_t of = node_in(g, cut, 0);
    const Type *t = node_type(g, of), *part = node_type(g, cut);
    while (axis < t->rank && part->dim[axis] == t->dim[axis])
        axis++;
    Type whole = *part, rest = *part;
    if (axis == t->rank || part->dim[axis] != 1)
        return (Piece){0};
    whole.dim[axis] = t->dim[axis];
    memmove(rest.dim + axis, rest.dim + axis + 1, (t->rank - axis - 1u) * sizeof *rest.dim);
    rest.dim[--rest.rank] = 0;
    bool fits = type_same_shape(&whole, t) && type_same_shape(&rest, node_type(g, id));
    return fits ? (Piece){of, axis, node_attr(g, cut)->i[1 + axis]} : (Piece){0};
}

// The operand that all samples share, of a dot of one that each has; 2: none.
static uint32_t weight_side(const Graph *g, uint32_t id) {
    const Node *n = graph_node(g, id);
    if (n->op != OpDot || !node_type(g, id)->batched)
        return 2;
    bool a = node_type(g, node_in(g, id, 0))->batched, b = node_type(g, node_in(g, id, 1))->batched;
    return a == b ? 2 : a ? 1 : 0;
}

static bool joins(const Inputs *in, const Set *s, uint32_t dot, uint32_t side, Piece p) {
    const Graph *g = in->g;
    uint32_t first = s->dot.at[0];
    const Node *a = graph_node(g, first), *b = graph_node(g, dot);
    if (s->side != side || a->attr != b->attr || a->type != b->type || a->block != b->block ||
        in->losses[first] != in->losses[dot])
        return false;
    if (s->piece.of)
        return p.of == s->piece.of && p.axis == s->piece.axis && p.at == s->piece.at + s->dot.n;
    return node_in(g, dot, 1 - side) < first;
}

// Products of one set are of the same losses: a loss that reads only some has slopes of zero for
// the others, whose values may be infinite.
static uint64_t *find_losses(Arena *a, const Graph *g) {
    uint64_t *losses = arena_array(a, uint64_t, g->node.n);
    uint32_t *reached = arena_array(a, uint32_t, g->node.n); // [node] the last loss that did
    for (uint32_t id = 1; id < g->node.n; id++) {
        uint32_t loss = graph_node(g, id)->op == OpGrad ? node_in(g, id, 0) : 0;
        if (!loss || reached[loss] == loss)
            continue;
        reached[loss] = loss;
        for (uint32_t k = loss; k > 0; k--) {
            if (reached[k] != loss)
                continue;
            losses[k] = hash64(&loss, sizeof loss, losses[k]);
            for (uint32_t i = 0; i < graph_node(g, k)->nin && graph_node(g, k)->op != OpStop; i++)
                reached[node_in(g, k, i)] = loss;
        }
    }
    return losses;
}

static void find_sets(Inputs *in) {
    const Graph *g = in->g;
    for (uint32_t id = 1; id < g->node.n; id++) {
        uint32_t side = weight_side(g, id);
        if (!in->live[id] || side == 2 || !has_room(g, id) ||
            !has_room(g, node_in(g, id, 1 - side)))
            continue;
        uint32_t *open = &in->open[node_in(g, id, side)];
        Piece p = piece_of(in, node_in(g, id, 1 - side));
        if (!*open || !joins(in, &in->set.at[*open - 1], id, side, p)) {
            vec_push(in->arena, &in->set, ((Set){.side = side, .piece = p}));
            *open = in->set.n;
        }
        Set *s = &in->set.at[*open - 1];
        in->set_of[id] = *open;
        in->place[id] = s->dot.n;
        vec_push(in->arena, &s->dot, id);
    }
}

// Few values that are no pieces are those of calls of a net, which may not ask for all gradients.
// Without gradients the products of all steps are all that is kept for so long.
static bool set_pays(const Graph *g, const Set *s, const PassOptions *o, bool trains) {
    uint32_t first = s->dot.at[0];
    int64_t samples = run_samples(g, &o->parallel), n = s->dot.n,
            weight = elements(g, node_in(g, first, s->side), samples),
            kept = n * (elements(g, first, samples) +
                        elements(g, node_in(g, first, 1 - s->side), samples)),
            saved = (trains ? n - 1 : 1) * weight + (n - 2) * launch_elements(o);
    return n > (s->piece.of ? 1 : FewCalls) && kept <= saved;
}

// The values of a set in one: pieces of one value as that, in another order.
static Val set_input(Rewriter *r, const Set *s, Arena scratch) {
    const Graph *g = r->from;
    NodeList part = {0};
    for (uint32_t k = 0; k < s->dot.n; k++)
        vec_push(&scratch, &part, node_in(g, s->dot.at[k], 1 - s->side));
    if (!s->piece.of)
        return stack(r, part.at, part.n, scratch);
    const Type *t = node_type(g, s->piece.of);
    int64_t from[MAX_RANK] = {0}, count[MAX_RANK];
    uint32_t axis[MAX_RANK], to = stack_axis(node_type(g, part.at[0])), next = 0;
    memcpy(count, t->dim, sizeof count);
    from[s->piece.axis] = s->piece.at;
    count[s->piece.axis] = s->dot.n;
    for (uint32_t i = 0; i < t->rank; i++) {
        next += next == s->piece.axis;
        axis[i] = i == to ? s->piece.axis : next++;
    }
    return Permute(Slice(rewritten(r, s->piece.of), from, count, NULL), axis);
}

static Val set_product(Rewriter *r, const Set *s, Arena scratch) {
    const Graph *g = r->from;
    uint32_t first = s->dot.at[0], x = node_in(g, first, 1 - s->side);
    Labels l = labels_of(g, first);
    label_stack(&l, 1 - s->side, node_type(g, x));
    label_stack(&l, 2, node_type(g, first));
    Val in[2];
    in[s->side] = rewritten_in(r, first, s->side);
    in[1 - s->side] = set_input(r, s, scratch);
    return Dot(in[0], l.at[0], in[1], l.at[1], l.at[2], l.n[2], true);
}

static uint32_t join_input(Rewriter *r, uint32_t id) {
    Inputs *in = r->user;
    Set *s = in->set_of[id] ? &in->set.at[in->set_of[id] - 1] : NULL;
    if (!s || !s->pays)
        return node_copy(r, id);
    if (!s->made)
        s->made = set_product(r, s, *in->arena).id;
    const Type *t = node_type(r->from, id);
    Type one = stack_type(t, 1);
    int64_t from[MAX_RANK] = {0};
    from[stack_axis(t)] = in->place[id];
    return Reshape(Slice((Val){&r->to, s->made}, from, one.dim, NULL), t->rank, t->dim).id;
}

void pass_join_inputs(Arena *perm, const Module *m, Func *f, const PassOptions *o) {
    const Graph *g = &f->g;
    (void)m;
    Arena scratch;
    arena_need(&scratch);
    uint8_t *wanted = arena_array(&scratch, uint8_t, g->node.n);
    Inputs in = {.arena = &scratch,
                 .g = g,
                 .live = func_live(&scratch, f),
                 .wanted = wanted,
                 .losses = find_losses(&scratch, g),
                 .open = arena_array(&scratch, uint32_t, g->node.n),
                 .set_of = arena_array(&scratch, uint32_t, g->node.n),
                 .place = arena_array(&scratch, uint32_t, g->node.n)};
    bool trains = false, any = false;
    for (uint32_t id = 1; id < g->node.n; id++)
        if (graph_node(g, id)->op == OpGrad)
            trains = (wanted[node_in(g, id, 1)] = 1);
    find_sets(&in);
    for (uint32_t i = 0; i < in.set.n; i++)
        any |= in.set.at[i].pays = set_pays(g, &in.set.at[i], o, trains);
    if (any)
        func_rewrite(perm, f, g->batch, join_input, &in);
    arena_release(&scratch);
}

// --- join_sums -----------------------------------------------------------------------------------

typedef struct Join {  // terms of one sum that become one
    uint32_t first, n; // in Sums.term[]
    uint32_t next;     // of the same sum: 1 + join[], 0 none
} Join;

typedef struct Sums {
    Arena *kept, *scratch;
    const Graph *g;
    int64_t samples;
    int64_t launch;  // elements
    uint32_t *uses;  // [node] by live nodes, effects and roots
    uint8_t *stored; // [node] a product reads it, so it is stored
    uint8_t *inside; // [node] an addition that only one of the same type reads
    uint8_t *joined; // [node] a term that a join has taken
    uint32_t *stack; // [node] the stack that it is in, 0 none
    uint32_t *place; // [node] in that stack
    NodeList size;   // [stack - 1] values of it
    NodeList term;   // of all joins
    VEC(Join) join;
    uint32_t *of; // [root] 1 + its first join, 0 none
} Sums;

static uint32_t *uses_of(Arena *a, const Func *f) {
    const Graph *g = &f->g;
    const uint8_t *root = func_roots(a, f), *live = func_live(a, f);
    uint32_t *uses = arena_array(a, uint32_t, g->node.n);
    for (uint32_t id = 1; id < g->node.n; id++) {
        uses[id] += root[id];
        for (uint32_t k = 0; live[id] && k < graph_node(g, id)->nin; k++)
            uses[node_in(g, id, k)]++;
    }
    return uses;
}

static bool is_sum(const Sums *s, uint32_t id) {
    return graph_node(s->g, id)->op == OpAdd && s->uses[id];
}

static void mark_roles(Sums *s) {
    const Graph *g = s->g;
    for (uint32_t id = 1; id < g->node.n; id++) {
        for (uint32_t k = 0; node_family(g, id) == FamilyProduct && k < 2; k++)
            s->stored[node_in(g, id, k)] |= s->uses[id] > 0;
        for (uint32_t k = 0; is_sum(s, id) && k < 2; k++) {
            uint32_t in = node_in(g, id, k);
            const Node *a = graph_node(g, id), *b = graph_node(g, in);
            s->inside[in] |=
                is_sum(s, in) && s->uses[in] == 1 && a->type == b->type && a->block == b->block;
        }
    }
}

// The terms of the sum that ends with `root`.
static NodeList terms_of(const Sums *s, Arena *a, uint32_t root) {
    NodeList open = {0}, term = {0};
    vec_push(a, &open, root);
    while (open.n) {
        uint32_t id = open.at[--open.n];
        if (id != root && !s->inside[id])
            vec_push(a, &term, id);
        for (uint32_t k = 2; (id == root || s->inside[id]) && k-- > 0;)
            vec_push(a, &open, node_in(s->g, id, k));
    }
    return term;
}

// A term of this operation, which nothing else reads.
static bool is_term(const Sums *s, uint32_t root, uint32_t id, Op op) {
    const Node *a = graph_node(s->g, root), *b = graph_node(s->g, id);
    return b->op == op && s->uses[id] == 1 && a->type == b->type && a->block == b->block &&
           !s->joined[id];
}

static void add_join(Sums *s, uint32_t root, const uint32_t *term, uint32_t n) {
    vec_push(s->kept, &s->join, ((Join){s->term.n, n, s->of[root]}));
    s->of[root] = s->join.n;
    for (uint32_t k = 0; k < n; k++) {
        s->joined[term[k]] = 1;
        vec_push(s->kept, &s->term, term[k]);
    }
}

static void note_stack(Sums *s, const uint32_t *value, uint32_t n) {
    for (uint32_t k = 0; k < n; k++)
        if (s->stack[value[k]])
            return;
    vec_push(s->kept, &s->size, n);
    for (uint32_t k = 0; k < n; k++) {
        s->stack[value[k]] = s->size.n;
        s->place[value[k]] = k;
    }
}

// --- pads that add up to a concatenation ---------------------------------------------------------

typedef struct Strip { // a value padded along one axis, without steps
    uint32_t node, axis;
    int64_t from, end;
} Strip;
typedef VEC(Strip) StripVec;

static bool is_strip(const Graph *g, uint32_t id, Strip *out) {
    const Type *t = node_type(g, id), *x = node_type(g, node_in(g, id, 0));
    const int64_t *before = node_attr(g, id)->i + 1, *step = before + t->rank;
    uint32_t axes = 0;
    for (uint32_t i = 0; i < t->rank; i++) {
        if (step[i] != 1)
            return false;
        if (x->dim[i] == t->dim[i])
            continue;
        axes++;
        *out = (Strip){id, i, before[i], before[i] + x->dim[i]};
    }
    return axes == 1;
}

static int by_place(const void *pa, const void *pb) {
    const Strip *a = pa, *b = pb;
    if (a->axis != b->axis)
        return a->axis < b->axis ? -1 : 1;
    if (a->from != b->from)
        return a->from < b->from ? -1 : 1;
    return a->node < b->node ? -1 : a->node > b->node;
}

// What is concatenated, where that is a stack of values: so products of these share it.
static void note_strips(Sums *s, const Strip *x, uint32_t n, Arena scratch) {
    const Graph *g = s->g;
    uint32_t *value = arena_array(&scratch, uint32_t, n);
    for (uint32_t k = 0; k < n; k++) {
        uint32_t wide = node_in(g, x[k].node, 0), op = graph_node(g, wide)->op;
        value[k] = op == OpReshape || op == OpExpand ? node_in(g, wide, 0) : 0;
        if (!value[k])
            return;
        const Type *t = node_type(g, value[k]);
        Type one = has_room(g, value[k]) ? stack_type(t, 1) : *t;
        if (stack_axis(t) != x[k].axis || !type_same_shape(&one, node_type(g, wide)))
            return;
    }
    note_stack(s, value, n);
}

static void join_strips(Sums *s, uint32_t root, Arena scratch) {
    NodeList term = terms_of(s, &scratch, root);
    StripVec all = {0};
    Strip x;
    if (!s->stored[root]) // readers would look through a concatenation, part by part
        return;
    for (uint32_t i = 0; i < term.n; i++)
        if (is_term(s, root, term.at[i], OpPad) && is_strip(s->g, term.at[i], &x))
            vec_push(&scratch, &all, x);
    if (all.n < 2)
        return;
    qsort(all.at, all.n, sizeof *all.at, by_place);
    uint32_t *run = arena_array(&scratch, uint32_t, all.n);
    for (uint32_t i = 0, n; i < all.n; i += n) {
        for (n = 1, run[0] = all.at[i].node; i + n < all.n; n++) {
            const Strip *a = &all.at[i + n - 1], *b = a + 1;
            if (a->axis != b->axis || a->end != b->from)
                break;
            run[n] = b->node;
        }
        if (n == 1)
            continue;
        add_join(s, root, run, n);
        note_strips(s, &all.at[i], n, scratch);
    }
}

static Val concat_strips(Rewriter *r, const uint32_t *term, uint32_t n, Arena scratch) {
    const Graph *g = r->from;
    Strip x;
    Val *part = arena_array(&scratch, Val, n);
    for (uint32_t k = 0; k < n; k++)
        part[k] = rewritten_in(r, term[k], 0);
    is_strip(g, term[0], &x);
    const Type *t = node_type(g, term[0]);
    return Pad(Concat(part, n, x.axis), node_attr(g, term[0])->i + 1, NULL, t->dim);
}

// --- sums of products ----------------------------------------------------------------------------

// What decides which products join, and in which order: that of a stack that is there already.
enum { KeyAttr, KeyType, KeyStack = KeyType + 2, KeyPlace = KeyStack + 2, KeyNode = KeyPlace + 2 };
typedef struct Term {
    uint32_t key[KeyNode + 1];
} Term;
typedef VEC(Term) TermVec;

static Term term_of(const Sums *s, uint32_t id) {
    const Graph *g = s->g;
    Term t = {{[KeyAttr] = graph_node(g, id)->attr, [KeyNode] = id}};
    bool second = !s->stack[node_in(g, id, 0)] && s->stack[node_in(g, id, 1)]; // says the order
    for (uint32_t k = 0; k < 2; k++) {
        uint32_t in = node_in(g, id, k);
        t.key[KeyType + k] = graph_node(g, in)->type;
        t.key[KeyStack + k] = s->stack[in];
        t.key[KeyPlace + (k != second)] = s->stack[in] ? s->place[in] : in;
    }
    return t;
}

static int by_key(const void *pa, const void *pb) {
    const Term *a = pa, *b = pb;
    uint32_t k = KeyAttr;
    while (k < KeyNode && a->key[k] == b->key[k])
        k++;
    return a->key[k] < b->key[k] ? -1 : a->key[k] > b->key[k];
}

static bool is_stacked(const Sums *s, uint32_t id, uint32_t n) {
    return s->stack[id] && s->size.at[s->stack[id] - 1] == n;
}

// Is what the sum of `n` products reads and writes more than what it takes to stack their operands?
static bool join_pays(const Sums *s, uint32_t dot, uint32_t n) {
    int64_t copied = 0, launches = (int64_t)n - 1;
    for (uint32_t k = 0; k < 2; k++) {
        uint32_t in = node_in(s->g, dot, k);
        copied += is_stacked(s, in, n) ? 0 : n * elements(s->g, in, s->samples);
        launches -= !is_stacked(s, in, n);
    }
    return n > 1 && copied <= (n - 1) * elements(s->g, dot, s->samples) + launches * s->launch;
}

static void join_products(Sums *s, uint32_t root, Arena scratch) {
    const Graph *g = s->g;
    NodeList term = terms_of(s, &scratch, root);
    TermVec all = {0};
    for (uint32_t i = 0; i < term.n; i++) {
        uint32_t id = term.at[i];
        if (is_term(s, root, id, OpDot) && has_room(g, node_in(g, id, 0)) &&
            has_room(g, node_in(g, id, 1)))
            vec_push(&scratch, &all, term_of(s, id));
    }
    if (all.n < 2)
        return;
    qsort(all.at, all.n, sizeof *all.at, by_key);
    uint32_t *dot = arena_array(&scratch, uint32_t, all.n),
             *value = arena_array(&scratch, uint32_t, all.n);
    for (uint32_t i = 0, n; i < all.n; i += n) {
        for (n = 0; i + n < all.n &&
                    !memcmp(all.at[i].key, all.at[i + n].key, KeyPlace * sizeof *all.at[i].key);
             n++)
            dot[n] = all.at[i + n].key[KeyNode];
        if (!join_pays(s, dot[0], n))
            continue;
        add_join(s, root, dot, n);
        for (uint32_t k = 0; k < 2; k++) {
            for (uint32_t j = 0; j < n; j++)
                value[j] = node_in(g, dot[j], k);
            note_stack(s, value, n);
        }
    }
}

static Val stacked_product(Rewriter *r, const uint32_t *term, uint32_t n, Arena scratch) {
    const Graph *g = r->from;
    uint32_t *value = arena_array(&scratch, uint32_t, n);
    Labels l = labels_of(g, term[0]);
    Val in[2];
    for (uint32_t k = 0; k < 2; k++) {
        for (uint32_t j = 0; j < n; j++)
            value[j] = node_in(g, term[j], k);
        in[k] = stack(r, value, n, scratch);
        label_stack(&l, k, node_type(g, value[0]));
    }
    return Dot(in[0], l.at[0], in[1], l.at[1], l.at[2], l.n[2], node_type(g, term[0])->batched);
}

static uint32_t join_sum(Rewriter *r, uint32_t id) {
    const Sums *s = r->user;
    Arena scratch = *s->scratch;
    Val sum = {0};
    if (!s->of[id])
        return node_copy(r, id);
    NodeList term = terms_of(s, &scratch, id);
    for (uint32_t i = 0; i < term.n; i++) {
        Val x = rewritten(r, term.at[i]);
        if (!s->joined[term.at[i]])
            sum = sum.id ? Add(sum, x) : x;
    }
    for (uint32_t at = s->of[id]; at; at = s->join.at[at - 1].next) {
        const Join *j = &s->join.at[at - 1];
        const uint32_t *first = &s->term.at[j->first];
        Val x = graph_node(r->from, *first)->op == OpPad ? concat_strips(r, first, j->n, scratch)
                                                         : stacked_product(r, first, j->n, scratch);
        sum = sum.id ? Add(sum, x) : x;
    }
    return sum.id;
}

void pass_join_sums(Arena *perm, const Module *m, Func *f, const PassOptions *o) {
    const Graph *g = &f->g;
    uint32_t n = g->node.n;
    Arena kept, scratch;
    (void)m;
    arena_need(&kept);
    arena_need(&scratch);
    Sums s = {.kept = &kept,
              .scratch = &scratch,
              .g = g,
              .samples = run_samples(g, &o->parallel),
              .launch = launch_elements(o),
              .uses = uses_of(&kept, f),
              .stored = arena_array(&kept, uint8_t, n),
              .inside = arena_array(&kept, uint8_t, n),
              .joined = arena_array(&kept, uint8_t, n),
              .stack = arena_array(&kept, uint32_t, n),
              .place = arena_array(&kept, uint32_t, n),
              .of = arena_array(&kept, uint32_t, n)};
    mark_roles(&s);
    static void (*const join[])(Sums *, uint32_t, Arena) = {join_strips, join_products};
    for (uint32_t k = 0; k < 2; k++) // stacks that are there first
        for (uint32_t id = 1; id < n; id++) {
            if (!is_sum(&s, id) || s.inside[id])
                continue;
            join[k](&s, id, scratch);
        }
    if (s.join.n) {
        func_rewrite(perm, f, g->batch, join_sum, &s);
        func_rewrite(perm, f, f->g.batch, node_copy, NULL); // without the terms
    }
    arena_release(&scratch);
    arena_release(&kept);
}
