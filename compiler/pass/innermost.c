// innermost.c - which axis of samples' values lies innermost in memory, where products read them.
//
// In: a function for this rank's samples, in its final precision. Out: the same values, some with
// another Type.inner. By type_strides' rule (D-0010) tokens lie innermost in values of [tokens,
// channels], heads in scores of [heads, queries, keys]: products then copy matrices before and
// after. Values that elementwise operations, reductions and moves of single axes tie together are a
// group and have one axis innermost. A group takes another axis, alone or with those that reshapes
// and permutations tie to it, where that saves bytes of copies (`cost`). Convolutions, slots and
// what leaves the function keep the rule. Where no product or table has a choice nothing changes.
#include "index.h"
#include "matrices.h"
#include "pass.h"

#include <string.h>

enum { Sweeps = 8 }; // over all groups; each choice lowers the cost

typedef struct Layouts {
    const Graph *g;
    Arena *a;
    uint32_t *group; // [node] towards its group's first node, which is its own; 0: without a choice
    uint8_t *inner;  // [group] 1 + the axis that lies innermost
    uint8_t *fixed;  // [group] by the rule
    uint8_t *wants;  // [group] a product or a table reads or makes it
    NodeList *site;  // [group] nodes whose cost depends on it
    uint32_t *asked; // [node] the last question that counted its cost
    uint32_t questions;
} Layouts;

// --- groups --------------------------------------------------------------------------------------

static bool has_choice(const Graph *g, uint32_t id) {
    const Type *t = node_type(g, id);
    return t->batched && t->rank > 1 && graph_node(g, id)->op != OpRead;
}

static uint32_t group_of(const Layouts *l, uint32_t id) {
    while (l->group[id] != id)
        id = l->group[id];
    return id;
}

static void join(Layouts *l, uint32_t a, uint32_t b) {
    a = group_of(l, a);
    b = group_of(l, b);
    uint32_t first = a < b ? a : b;
    l->group[a] = l->group[b] = first;
}

// Do the axes of an operand stay what they are?
static bool keeps_axes(const Graph *g, uint32_t id) {
    Op op = (Op)graph_node(g, id)->op;
    switch (op_info[op].cls) {
    case ClassEW:
        return true;
    case ClassREDUCE:
        return !op_is(op, TraitIndexed);
    case ClassMOVE:
        return op != OpReshape && op != OpPermute && !op_is(op, TraitIndexed);
    default:
        return false;
    }
}

static void find_groups(Layouts *l) {
    const Graph *g = l->g;
    for (uint32_t id = 1; id < g->node.n; id++)
        l->group[id] = has_choice(g, id) ? id : 0;
    for (uint32_t id = 1; id < g->node.n; id++)
        for (uint32_t k = 0; l->group[id] && keeps_axes(g, id) && k < graph_node(g, id)->nin; k++) {
            uint32_t in = node_in(g, id, k);
            if (l->group[in] && node_type(g, in)->rank == node_type(g, id)->rank)
                join(l, id, in);
        }
    for (uint32_t id = 1; id < g->node.n; id++) // operands come first: one look finds the first
        l->group[id] = l->group[id] ? group_of(l, id) : 0;
}

static void fix(Layouts *l, uint32_t id) {
    l->fixed[l->group[id]] = 1;
}

// What is found in memory by others than kernels and products. On cards tables and what is added to
// them, too: there a thread of a warp has a row's term of its own, not a column (gen/team.c).
static void find_fixed(Layouts *l, const Func *f, bool card) {
    const Graph *g = l->g;
    for (uint32_t id = 1; id < g->node.n; id++) {
        Op op = (Op)graph_node(g, id)->op;
        OpClass c = op_info[op].cls;
        bool call = (c == ClassANCHOR && op != OpDot) || c == ClassCOMM;
        bool table = op_is(op, TraitIndexed);
        if (call || op == OpWrite || (card && op == OpScatter))
            fix(l, id);
        for (uint32_t k = 0; k < graph_node(g, id)->nin; k++)
            if (call || op == OpWrite || (table && (k == 1 || card)))
                fix(l, node_in(g, id, k));
    }
    ObservedVec seen = {0};
    func_observed(l->a, f, false, &seen);
    for (uint32_t i = 0; i < seen.n; i++)
        fix(l, seen.at[i].node);
}

// --- costs ---------------------------------------------------------------------------------------

static Type laid_out(const Layouts *l, uint32_t id) {
    Type t = *node_type(l->g, id);
    uint32_t group = l->group[id];
    t.inner = group && l->inner[group] > 1 ? l->inner[group] : 0; // the rule: the first axis
    return t;
}

static bool is_view(const Graph *g, uint32_t id) {
    Op op = (Op)graph_node(g, id)->op;
    return op == OpReshape || op == OpPermute;
}

// What a chain of reshapes and permutations moves: what lies between is not stored.
static uint32_t source_of(const Graph *g, uint32_t view) {
    while (is_view(g, view))
        view = node_in(g, view, 0);
    return view;
}

// Do the first two neighbours in memory of a view lie side by side in what it moves?
static bool stays(const Layouts *l, uint32_t view) {
    const Graph *g = l->g;
    Type to = laid_out(l, view), from = laid_out(l, source_of(g, view));
    uint32_t axis = to.inner ? to.inner : 1;
    Arena scratch = *l->a;
    Indices ix;
    Ix at[2];
    if (to.dim[axis - 1] == 1)
        return true;
    indices_init(&ix, &scratch);
    for (int i = 0; i < 2; i++) {
        Coords c = {0}, before;
        Bounds none = {0};
        c.c[axis] = ix_num(&ix, i);
        for (uint32_t id = view; is_view(g, id); id = node_in(g, id, 0), c = before)
            coords_move(&ix, g, id, 0, &c, &before, &none);
        at[i] = coords_address(&ix, &from, &c);
    }
    return at[1] == ix_add(&ix, at[0], ix_num(&ix, 1));
}

static double bytes(const Layouts *l, uint32_t id) {
    return (double)type_bytes(l->g, node_type(l->g, id));
}

// Matrices out of order are read and written once more.
static double cost_of_product(const Layouts *l, uint32_t id) {
    Einsum e = einsum_of_dot(l->g, id);
    uint32_t side[MatrixSides] = {node_in(l->g, id, 0), node_in(l->g, id, 1), id};
    Type type[MatrixSides];
    for (int i = 0; i < MatrixSides; i++) {
        type[i] = laid_out(l, side[i]);
        e.type[i] = &type[i];
    }
    Matrices m;
    MatrixShape shape;
    double cost = 0;
    if (!matrices_read(&m, l->g, &e))
        return 0;
    for (int i = 0; i < MatrixSides; i++)
        if (!matrices_in_place(&m, (MatrixSide)i, &shape))
            cost += 2 * bytes(l, side[i < SideOut ? i ^ m.swapped : i]);
    return cost;
}

// Rows [places..., r...] of a table [n, r...] are whole lines where their own axes lie alike.
static double cost_of_rows(const Layouts *l, uint32_t id, uint32_t of, uint32_t rows) {
    Type all = laid_out(l, of), *table = &all;
    uint32_t places = node_type(l->g, node_in(l->g, id, 1))->rank;
    int64_t stride[MAX_RANK + 1], own[MAX_RANK + 1];
    Type t = laid_out(l, rows);
    type_strides(table, stride);
    type_strides(&t, own);
    for (uint32_t i = 1; i < table->rank; i++)
        if (stride[1 + i] == 1 && own[places + i] != 1)
            return bytes(l, rows);
    return 0;
}

static double cost_of_slots(const Layouts *l, uint32_t id) {
    double cost = 0;
    for (uint32_t k = 0; k < graph_node(l->g, id)->nin; k++) {
        uint32_t in = node_in(l->g, id, k);
        const Type *t = node_type(l->g, in);
        bool slot = graph_node(l->g, in)->op == OpRead && t->batched;
        cost += slot && t->rank == node_type(l->g, id)->rank && laid_out(l, id).inner ? bytes(l, in)
                                                                                      : 0;
    }
    return cost;
}

// Bytes that are copied, or read across lines, because of how operands and result lie.
static double cost(const Layouts *l, uint32_t id) {
    const Graph *g = l->g;
    Op op = (Op)graph_node(g, id)->op;
    if (op == OpDot)
        return cost_of_product(l, id);
    if (op == OpGather)
        return cost_of_rows(l, id, node_in(g, id, 0), id);
    if (op == OpScatter)
        return cost_of_rows(l, id, id, node_in(g, id, 0));
    if (!is_view(g, id))
        return cost_of_slots(l, id);
    return stays(l, id) ? 0 : bytes(l, id);
}

static void add_site(Layouts *l, uint32_t id, uint32_t of) {
    uint32_t group = l->group[of];
    NodeList *site = &l->site[group];
    if (group && (site->n == 0 || site->at[site->n - 1] != id))
        vec_push(l->a, site, id);
}

static void find_sites(Layouts *l) {
    const Graph *g = l->g;
    for (uint32_t id = 1; id < g->node.n; id++) {
        Op op = (Op)graph_node(g, id)->op;
        bool table = op_is(op, TraitIndexed), slot = false;
        for (uint32_t k = 0; k < graph_node(g, id)->nin; k++) {
            uint32_t in = node_in(g, id, k);
            slot |= graph_node(g, in)->op == OpRead && node_type(g, in)->batched;
            if (table || op == OpDot)
                add_site(l, id, in);
            if (is_view(g, in) && !is_view(g, id)) { // the end of a chain
                add_site(l, in, in);
                add_site(l, in, source_of(g, in));
            }
            l->wants[l->group[in]] |= op == OpDot || table;
        }
        if (table || op == OpDot || slot)
            add_site(l, id, id);
        l->wants[l->group[id]] |= op == OpDot || table;
    }
}

// --- choices -------------------------------------------------------------------------------------

typedef struct Change {
    uint32_t group;
    uint8_t before;
} Change;
typedef VEC(Change) Changes;

static void change(Layouts *l, Changes *c, uint32_t group, uint8_t inner) {
    vec_push(l->a, c, ((Change){group, l->inner[group]}));
    l->inner[group] = inner;
}

static bool is_changed(const Changes *c, uint32_t group) {
    for (uint32_t i = 0; i < c->n; i++)
        if (c->at[i].group == group)
            return true;
    return false;
}

// Gives the group at the other end of a view the axis with which no element moves, if there is one.
static void follow(Layouts *l, Changes *c, uint32_t view, uint32_t group) {
    uint32_t in = source_of(l->g, view), other = l->group[l->group[view] == group ? in : view];
    if (!other || l->fixed[other] || is_changed(c, other))
        return;
    uint8_t before = l->inner[other];
    for (uint32_t i = node_type(l->g, other)->rank; i > 0; i--) {
        l->inner[other] = (uint8_t)i;
        if (cost(l, view) == 0) {
            l->inner[other] = before;
            change(l, c, other, (uint8_t)i);
            return;
        }
    }
    l->inner[other] = before;
}

static void spread(Layouts *l, Changes *c) {
    for (uint32_t i = 0; i < c->n; i++) {
        uint32_t group = c->at[i].group;
        for (uint32_t k = 0; k < l->site[group].n; k++)
            if (is_view(l->g, l->site[group].at[k]))
                follow(l, c, l->site[group].at[k], group);
    }
}

static double cost_around(Layouts *l, const Changes *c) {
    double sum = 0;
    l->questions++;
    for (uint32_t i = 0; i < c->n; i++) {
        const NodeList *site = &l->site[c->at[i].group];
        for (uint32_t k = 0; k < site->n; k++) {
            uint32_t id = site->at[k];
            sum += l->asked[id] == l->questions ? 0 : cost(l, id);
            l->asked[id] = l->questions;
        }
    }
    return sum;
}

static void exchange(Layouts *l, Changes *c) {
    for (uint32_t i = 0; i < c->n; i++) {
        uint8_t now = l->inner[c->at[i].group];
        l->inner[c->at[i].group] = c->at[i].before;
        c->at[i].before = now;
    }
}

// Another axis for a group, and with `far` for those that views tie to it: the bytes that saves.
static double try_axis(Layouts *l, uint32_t group, uint32_t inner, bool far, Changes *c) {
    *c = (Changes){0};
    change(l, c, group, (uint8_t)inner);
    if (far)
        spread(l, c);
    double now = cost_around(l, c);
    exchange(l, c);
    return cost_around(l, c) - now;
}

static bool choose(Layouts *l) {
    bool some = false;
    for (uint32_t id = 1; id < l->g->node.n; id++) {
        if (l->group[id] != id || l->fixed[id] || !l->wants[id])
            continue;
        double most = 0;
        Changes c, best = {0};
        for (uint32_t i = node_type(l->g, id)->rank; i > 0; i--)
            for (int far = 1; far >= 0; far--) {
                double saved = try_axis(l, id, i, far, &c);
                if (saved > most) {
                    most = saved;
                    best = c;
                }
            }
        exchange(l, &best);
        some |= most > 0;
    }
    return some;
}

// --- the pass ------------------------------------------------------------------------------------

void pass_innermost(Arena *perm, const Module *m, Func *f, const PassOptions *o) {
    (void)perm;
    (void)m;
    uint32_t n = f->g.node.n;
    Arena scratch;
    if (o->no_fuse)
        return;
    arena_need(&scratch);
    Layouts l = {.g = &f->g, .a = &scratch};
    l.group = arena_array(&scratch, uint32_t, n);
    l.inner = arena_array(&scratch, uint8_t, n);
    l.fixed = arena_array(&scratch, uint8_t, n);
    l.wants = arena_array(&scratch, uint8_t, n);
    l.site = arena_array(&scratch, NodeList, n);
    l.asked = arena_array(&scratch, uint32_t, n);
    memset(l.inner, 1, n);
    find_groups(&l);
    find_fixed(&l, f, o->few_launches);
    find_sites(&l);
    bool more = true;
    for (int i = 0; i < Sweeps && more; i++)
        more = choose(&l);
    for (uint32_t id = 1; id < n; id++)
        if (l.group[id] && l.inner[l.group[id]] > 1)
            f->g.node.at[id].type = graph_type(&f->g, laid_out(&l, id));
    arena_release(&scratch);
}
