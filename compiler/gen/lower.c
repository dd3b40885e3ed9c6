// lower.c - a region to a Nest: what each of its outputs is, as a function of loop variables.
//
// A value not stored elsewhere is computed where it is read, at the element that is needed: moves
// become index arithmetic, broadcasting a stride of 0, short reductions a row of additions. Equal
// values are computed once. Loop variables are the axes of the region's space in the order of
// memory; where a reshape cuts an axis in a way the index arithmetic cannot follow, the axis is
// split and lowering starts again.
#include "nest.h"

#include "integers.h"

#include <float.h>
#include <math.h>
#include <string.h>

enum {                    // axes of a space: the batch, those of a sample,
    TABLE = MAX_RANK + 1, // and the rows of a table that Scatter adds into
    AXES,
};

typedef struct Axis {
    uint32_t factors;
    int64_t factor[MAX_FACTORS];
    bool reduced[MAX_FACTORS];
} Axis;

typedef struct Seen { // a node's value, at coordinates
    uint32_t node, bounds, value;
    Coords at;
} Seen;

typedef struct Lower {
    Nest *n;
    const Graph *g;
    Type space;
    Axis axis[AXES];
    uint32_t var_axis[MAX_VARS], var_factor[MAX_VARS];
    Coords at;   // of the space
    Ix table;    // row of Scatter's table
    Map arg;     // node: its argument + 1
    Map result;  // node that ends the loop: its reduction + 1
    Map derived; // node that is computed of such: one of them
    Map memo;    // hash of (node, coordinates, bounds): seen[] + 1
    VEC(Seen) seen;
} Lower;

static uint32_t value_at(Lower *l, uint32_t id, const Coords *at, uint32_t bounds);

// --- values --------------------------------------------------------------------------------------

static bool is_zero(const Value *v) {
    return v->kind == ValueNumber && v->number == 0 && !signbit(v->number);
}

static bool zero_in(const Nest *n, uint32_t operand) {
    return operand != NONE && n->value.at[operand].preserves_zero;
}

// Is zero times the value zero, and not NaN or -0?
static bool is_scale(const Nest *n, uint32_t operand) {
    const Value *v = &n->value.at[operand];
    return v->kind == ValueNumber && isfinite((float)v->number) && !signbit(v->number);
}

// Only arithmetic that gives +0 on every device: functions are approximations, and -0 is another
// number.
static bool preserves_zero(const Nest *n, const Value *v) {
    if (v->kind != ValueEw && v->kind != ValueSelect)
        return v->kind == ValueLoad || is_zero(v);
    bool a = zero_in(n, v->in[0]), b = zero_in(n, v->in[1]);
    if (v->kind == ValueSelect)
        return a && b;
    switch (v->op) {
    case OpCast:
        return a;
    case OpAdd:
    case OpSub:
        return a && b;
    case OpDiv:
        return a && is_scale(n, v->in[1]) && n->value.at[v->in[1]].number >= FLT_MIN;
    case OpMul:
        return a ? b || is_scale(n, v->in[1]) : b && is_scale(n, v->in[0]);
    case OpWhere:
        return b && zero_in(n, v->in[2]);
    default:
        return false;
    }
}

static uint32_t push(Lower *l, Value v) {
    for (uint32_t i = nest_operands(&v); i < 3; i++)
        v.in[i] = NONE;
    for (uint32_t i = 0; i < 3; i++)
        if (v.in[i] != NONE)
            level_deepen(&v.level, l->n->value.at[v.in[i]].level);
    v.preserves_zero = preserves_zero(l->n, &v);
    vec_push(l->n->arena, &l->n->value, v);
    return l->n->value.n - 1;
}

// Zeros come from what pads and slices leave out. x + 0 is never -0, so one zero more changes
// nothing.
static bool adds_zero(const Nest *n, uint32_t id) {
    const Value *v = &n->value.at[id];
    return is_zero(v) || (v->kind == ValueEw && v->op == OpAdd && is_zero(&n->value.at[v->in[1]]));
}

static uint32_t ew(Lower *l, Op op, Dtype t, uint32_t a, uint32_t b, uint32_t c) {
    const Nest *n = l->n;
    if (op == OpAdd && is_zero(&n->value.at[a]))
        return is_zero(&n->value.at[b]) ? b : ew(l, op, t, b, a, c);
    if (op == OpAdd && is_zero(&n->value.at[b]) && adds_zero(n, a))
        return a;
    return push(l, (Value){.kind = ValueEw, .op = op, .dtype = t, .in = {a, b, c}});
}

static uint32_t number(Lower *l, Dtype t, double x) {
    return push(l, (Value){.kind = ValueNumber, .dtype = t, .number = x});
}

static bool same_bound(Bound a, Bound b) {
    return a.at == b.at && a.lo == b.lo && a.hi == b.hi;
}

static bool same_bounds(const Bounds *a, const Bounds *b) {
    bool same = a->n == b->n;
    for (uint32_t i = 0; same && i < a->n; i++)
        same = same_bound(a->b[i], b->b[i]);
    return same;
}

// The canonical form of a bound, on an index without an offset or a common factor and with a
// positive first coefficient, so that equivalent tests are equal.
static Bound normal_bound(Indices *ix, Bound b) {
    int64_t off = ix->sum.at[b.at].off, factor = 0;
    Bound r = {ix_add(ix, b.at, ix_num(ix, -off)), b.lo - off, b.hi - off};
    const IxSum *s = &ix->sum.at[r.at];
    if (s->n && s->term[0].coef < 0)
        r = (Bound){ix_mul(ix, r.at, -1), 1 - r.hi, 1 - r.lo};
    s = &ix->sum.at[r.at];
    for (uint32_t i = 0; i < s->n; i++)
        factor = gcd(factor, s->term[i].coef);
    if (factor > 1)
        r = (Bound){ix_div(ix, r.at, factor), ceil_div(r.lo, factor), ceil_div(r.hi, factor)};
    return r;
}

// Adds a bound, or narrows the one on the same index.
static void bound_add(Bounds *all, Bound b) {
    uint32_t k = 0;
    while (k < all->n && all->b[k].at != b.at)
        k++;
    if (k == MAX_BOUNDS)
        bug("more than %u bounds on one access", k);
    if (k == all->n)
        all->b[all->n++] = b;
    all->b[k].lo = b.lo > all->b[k].lo ? b.lo : all->b[k].lo;
    all->b[k].hi = b.hi < all->b[k].hi ? b.hi : all->b[k].hi;
}

// Interns the bounds `outer` and `more` together.
static uint32_t bounds_add(Lower *l, uint32_t outer, const Bounds *more) {
    Nest *n = l->n;
    Bounds all = n->bounds.at[outer];
    for (uint32_t i = 0; i < more->n; i++)
        bound_add(&all, normal_bound(&n->ix, more->b[i]));
    for (uint32_t i = 0; i < n->bounds.n; i++)
        if (same_bounds(&n->bounds.at[i], &all))
            return i;
    vec_push(n->arena, &n->bounds, all);
    return n->bounds.n - 1;
}

static double const_of(const Graph *g, uint32_t id) {
    double x = 0;
    if (!node_is_const(g, id, &x))
        bug("node %u is no constant", id);
    return x;
}

static uint32_t load(Lower *l, uint32_t id, const Coords *at, uint32_t bounds) {
    const Type *t = node_type(l->g, id);
    return push(l, (Value){.kind = ValueLoad,
                           .dtype = (Dtype)t->dtype,
                           .arg = map_find(&l->arg, id) - 1,
                           .in = {NONE},
                           .at = coords_address(&l->n->ix, t, at),
                           .bounds = bounds});
}

static uint32_t value_of_leaf(Lower *l, uint32_t id, const Coords *at) {
    const Type *t = node_type(l->g, id);
    if (l->g->node.at[id].op == OpConst)
        return number(l, (Dtype)t->dtype, const_of(l->g, id));
    uint32_t axes = node_axes(l->g, id);
    Value v = {.kind = ValueIndex,
               .dtype = (Dtype)t->dtype,
               .at = ix_plain(&l->n->ix, coords_number(&l->n->ix, t, axes, at))};
    if (axes & 1) {
        v.sample0 = 1;
        for (uint32_t i = 0; i < t->rank; i++)
            v.sample0 *= t->dim[i]; // 1 of an axis that is not counted
    }
    return push(l, v);
}

static uint32_t value_of_draw(Lower *l, uint32_t id, const Coords *at) {
    const Type *t = node_type(l->g, id);
    const int64_t *i = node_attr(l->g, id)->i;
    Value v = {.kind = ValueDraw,
               .dtype = (Dtype)t->dtype,
               .dist = i[0],
               .site = i[1],
               .batched = t->batched,
               .number = bits_to_double(i[2])};
    v.sample = at->c[0];
    v.at = ix_plain(&l->n->ix, coords_number(&l->n->ix, t, ~1u, at));
    return push(l, v);
}

// Looks through single-operand moves from `id` on that need no bounds. Returns the value they move;
// `at` becomes its coordinates.
static uint32_t look_through(Lower *l, uint32_t id, Coords *at) {
    while (node_is_view(l->g, id) && l->g->node.at[id].nin == 1 && !map_find(&l->arg, id)) {
        Coords from;
        Bounds bounds = {0};
        if (!coords_move(&l->n->ix, l->g, id, 0, at, &from, &bounds) || bounds.n)
            break;
        *at = from;
        id = node_in(l->g, id, 0);
    }
    return id;
}

// A Concat of parts that are all moves of one value (a reflecting border): that value, at a choice
// of coordinates.
static bool value_of_mirror(Lower *l, uint32_t id, const Coords *at, uint32_t bounds,
                            uint32_t *out) {
    Indices *ix = &l->n->ix;
    uint32_t n = l->g->node.at[id].nin, axis = (uint32_t)node_attr(l->g, id)->i[0], base = 0;
    int64_t end = node_type(l->g, id)->dim[axis];
    Coords chosen = {0};
    if (n < 2)
        return false;
    for (uint32_t k = n; k-- > 0;) {
        uint32_t part = node_in(l->g, id, k);
        int64_t extent = node_type(l->g, part)->dim[axis];
        Coords from = *at;
        from.c[1 + axis] = ix_add(ix, from.c[1 + axis], ix_num(ix, extent - end));
        coords_broadcast(node_type(l->g, part), &from, &from);
        uint32_t below = look_through(l, part, &from);
        if (k + 1 < n && below != base)
            return false;
        for (uint32_t d = 0; d <= MAX_RANK; d++) {
            chosen.c[d] = k + 1 == n ? from.c[d]
                                     : ix_choice(ix, at->c[1 + axis], end, from.c[d], chosen.c[d]);
        }
        base = below;
        end -= extent;
    }
    *out = value_at(l, base, &chosen, bounds);
    return true;
}

// `inside` where the bounds `here` hold, else `outside`. Everything that `inside` loads has those
// bounds among its own, and so is zero outside them already.
static uint32_t select(Lower *l, uint32_t here, uint32_t inside, uint32_t outside) {
    const Value *v = &l->n->value.at[inside];
    if (v->preserves_zero && is_zero(&l->n->value.at[outside]))
        return inside;
    return push(
        l,
        (Value){.kind = ValueSelect, .dtype = v->dtype, .in = {inside, outside}, .bounds = here});
}

// A move: its operand at other coordinates. What Pad and Concat leave out is selected by bounds.
static uint32_t value_of_view(Lower *l, uint32_t id, const Coords *at, uint32_t bounds) {
    const Node *node = graph_node(l->g, id);
    Dtype t = (Dtype)node_type(l->g, id)->dtype;
    uint32_t result = NONE;
    if (node->op == OpConcat && value_of_mirror(l, id, at, bounds, &result))
        return result;
    for (uint32_t k = node->nin; k-- > 0;) {
        Coords from;
        Bounds own = {0};
        if (!coords_move(&l->n->ix, l->g, id, k, at, &from, &own))
            continue;
        uint32_t inside = bounds_add(l, bounds, &own), here = bounds_add(l, 0, &own);
        uint32_t v = value_at(l, node_in(l->g, id, k), &from, inside);
        if (own.n && result == NONE && node->nin == 1)
            result = number(l, t, 0);
        result = own.n && result != NONE ? select(l, here, v, result) : v;
    }
    return result == NONE ? number(l, t, 0) : result;
}

// The terms of a short reduction, one after the other.
static uint32_t value_of_short(Lower *l, uint32_t id, const Coords *at, uint32_t bounds) {
    uint32_t from = node_in(l->g, id, 0), result = NONE, axes = node_axes(l->g, id);
    const Type *t = node_type(l->g, from);
    Op op = l->g->node.at[id].op == OpSum ? OpAdd : OpMax;
    int64_t extent[1 + MAX_RANK], digit[1 + MAX_RANK] = {0};
    Coords c = *at;
    for (uint32_t d = 0; d <= t->rank; d++)
        extent[d] = axes >> d & 1 ? d ? t->dim[d - 1] : t->batched ? l->g->batch : 1 : 1;
    for (uint32_t d = 0; d <= t->rank;) {
        for (uint32_t k = 0; k <= t->rank; k++)
            c.c[k] = extent[k] > 1 ? ix_num(&l->n->ix, digit[k]) : at->c[k];
        uint32_t v = value_at(l, from, &c, bounds);
        result = result == NONE ? v : ew(l, op, (Dtype)t->dtype, result, v, NONE);
        for (d = 0; d <= t->rank && ++digit[d] == extent[d]; d++)
            digit[d] = 0;
    }
    return result;
}

static uint32_t value_of_gather(Lower *l, uint32_t id, const Coords *at, uint32_t bounds) {
    uint32_t table = node_storage(l->g, node_in(l->g, id, 0), *l->n->arena),
             index = node_in(l->g, id, 1);
    const Type *t = node_type(l->g, node_in(l->g, id, 0));
    int64_t stride[MAX_RANK + 1];
    Coords place, row;
    type_strides(t, stride);
    coords_rows(t, node_type(l->g, index), at, &place, &row);
    Value number = {.kind = ValueRow, .dtype = (Dtype)t->dtype, .rows = t->dim[0]};
    number.in[0] = value_at(l, index, &place, bounds);
    Value v = {.kind = ValueLoad,
               .dtype = (Dtype)t->dtype,
               .arg = map_find(&l->arg, table) - 1,
               .bounds = bounds};
    v.in[0] = push(l, number);
    v.row = stride[1];
    v.at = coords_address(&l->n->ix, t, &row);
    return push(l, v);
}

static uint32_t value_of_result(Lower *l, uint32_t id) {
    return push(l, (Value){.kind = ValueResult,
                           .dtype = (Dtype)node_type(l->g, id)->dtype,
                           .arg = map_find(&l->result, id) - 1,
                           .in = {NONE},
                           .level = LevelResult});
}

static uint32_t compute(Lower *l, uint32_t id, const Coords *at, uint32_t bounds) {
    const Node *node = graph_node(l->g, id);
    const OpInfo *info = &op_info[node->op];
    if (map_find(&l->arg, id))
        return load(l, id, at, bounds);
    if (map_find(&l->result, id))
        return value_of_result(l, id);
    if (info->cls == ClassLEAF)
        return value_of_leaf(l, id, at);
    if (info->cls == ClassRNG)
        return value_of_draw(l, id, at);
    if (node_is_view(l->g, id))
        return value_of_view(l, id, at, bounds);
    if (node->op == OpGather)
        return value_of_gather(l, id, at, bounds);
    if (node_is_short(l->g, id))
        return value_of_short(l, id, at, bounds);
    if (info->cls != ClassEW && node->op != OpWrite)
        bug("node %u (%s) is read by a loop that does not know its value", id, info->text);
    uint32_t in[3] = {NONE, NONE, NONE};
    for (uint32_t k = 0; k < node->nin; k++) {
        Coords from;
        uint32_t operand = node_operand(l->g, id, k);
        coords_broadcast(node_type(l->g, operand), at, &from);
        in[k] = value_at(l, operand, &from, bounds);
    }
    bool same = node->op == OpPin || node->op == OpWrite; // the value of their operand
    return same ? in[0]
                : ew(l, (Op)node->op, (Dtype)node_type(l->g, id)->dtype, in[0], in[1], in[2]);
}

static uint32_t value_at(Lower *l, uint32_t id, const Coords *at, uint32_t bounds) {
    struct {
        uint32_t node, bounds;
        Coords at;
    } key;
    memset(&key, 0, sizeof key);
    key.node = id;
    key.bounds = bounds;
    key.at = *at;
    uint64_t h = hash64(&key, sizeof key, 0);
    for (uint32_t found; (found = map_find(&l->memo, h)) != 0; h++) {
        const Seen *s = &l->seen.at[found - 1];
        if (s->node == id && s->bounds == bounds && memcmp(&s->at, at, sizeof *at) == 0)
            return s->value;
    }
    uint32_t v = compute(l, id, at, bounds);
    vec_push(l->n->arena, &l->seen, ((Seen){id, bounds, v, *at}));
    while (map_find(&l->memo, h))
        h++;
    map_put(l->n->arena, &l->memo, h, l->seen.n);
    return v;
}

// --- the space -----------------------------------------------------------------------------------

// The node whose input is the iteration space: a reduction if there is one.
static uint32_t lead_of(const Graph *g, const Region *r) {
    for (uint32_t i = 0; i < r->node.n; i++)
        if (node_ends_loop(g, r->node.at[i]))
            return r->node.at[i];
    return r->out.at[0];
}

static void axes_init(Lower *l, uint32_t lead) {
    bool ends = node_ends_loop(l->g, lead), scatter = l->g->node.at[lead].op == OpScatter;
    uint32_t reduced = ends ? node_reduced(l->g, lead) : 0;
    memset(l->axis, 0, sizeof l->axis);
    for (uint32_t d = 0; d <= l->space.rank; d++) {
        int64_t extent = d ? l->space.dim[d - 1] : l->space.batched ? l->g->batch : 1;
        l->axis[d] = (Axis){1, {extent}, {reduced >> d & 1}};
    }
    l->axis[TABLE] = (Axis){1, {scatter ? node_type(l->g, lead)->dim[0] : 1}, {false}};
    if (l->g->node.at[lead].op == OpGroupSum) {
        int64_t group = node_attr(l->g, lead)->i[0];
        l->axis[0] = (Axis){2, {l->g->batch / group, group}, {false, true}};
    }
}

// Variables of one axis, outermost factor first, and its coordinate.
static Ix axis_vars(Lower *l, uint32_t d) {
    Nest *n = l->n;
    Ix sum = 0;
    for (uint32_t f = 0; f < l->axis[d].factors; f++) {
        int64_t extent = l->axis[d].factor[f];
        sum = ix_mul(&n->ix, sum, extent);
        if (extent == 1)
            continue;
        if (n->vars == MAX_VARS)
            bug("a loop nest of more than %d variables", MAX_VARS);
        l->var_axis[n->vars] = d;
        l->var_factor[n->vars] = f;
        n->var[n->vars] = (Var){.n = extent, .reduced = l->axis[d].reduced[f]};
        n->order[n->orders++] = n->vars;
        sum = ix_add(&n->ix, sum, ix_var(&n->ix, n->vars++, extent));
    }
    return sum;
}

static void space_init(Lower *l) {
    Nest *n = l->n;
    int64_t stride[MAX_RANK + 1];
    bool done[MAX_RANK + 1] = {false};
    type_strides(&l->space, stride);
    l->at = (Coords){0};
    n->rows = n->vars;
    l->table = axis_vars(l, TABLE);
    n->rows = n->vars > n->rows ? n->rows : NONE;
    for (uint32_t i = 0; i <= l->space.rank; i++) { // from the greatest stride to the least
        uint32_t best = NONE;
        for (uint32_t d = 0; d <= l->space.rank; d++)
            if (!done[d] && (best == NONE || stride[d] > stride[best]))
                best = d;
        done[best] = true;
        l->at.c[best] = axis_vars(l, best);
    }
    n->tiled = NONE;
}

// --- outputs -------------------------------------------------------------------------------------

static void lower_store(Lower *l, uint32_t id, uint32_t arg) {
    const Type *t = node_type(l->g, id);
    Coords at = l->at;
    if (!type_same_shape(t, &l->space))
        coords_at(&l->n->ix, l->g, t, coords_address(&l->n->ix, &l->space, &l->at), &at);
    coords_broadcast(t, &at, &at); // axes of one element are at 0 in every key
    Store s = {arg, value_at(l, id, &at, 0), coords_address(&l->n->ix, t, &at), false};
    vec_push(l->n->arena, &l->n->store, s);
}

// Scatter: the sum of the terms whose index is this row of the table. One term is no sum but a
// choice, that or zero, as where an index of each sample picks along an axis.
static void lower_scatter(Lower *l, uint32_t id, uint32_t arg) {
    const Type *t = node_type(l->g, id);
    Dtype dtype = (Dtype)t->dtype;
    uint32_t rows = value_at(l, node_in(l->g, id, 0), &l->at, 0), index = node_in(l->g, id, 1);
    Coords place, to;
    coords_rows(t, node_type(l->g, index), &l->at, &place, &to);
    to.c[1] = l->table;
    Value row = {
        .kind = ValueRow, .dtype = dtype, .rows = t->dim[0], .in = {value_at(l, index, &place, 0)}};
    uint32_t is = push(l, row),
             here = push(l, (Value){.kind = ValueIndex, .dtype = dtype, .at = l->table});
    l->n->row = is;
    uint32_t hit = ew(l, OpEq, dtype, is, here, NONE);
    Reduce r = {.kind = ReduceSum,
                .arg = arg,
                .dtype = dtype,
                .max_arg = NONE,
                .at = coords_address(&l->n->ix, t, &to),
                .copies = 1};
    r.value = ew(l, OpWhere, dtype, hit, rows, number(l, dtype, 0));
    if (nest_has_terms(l->n)) {
        vec_push(l->n->arena, &l->n->reduce, r);
        return;
    }
    Store s = {arg, r.value, r.at, false};
    vec_push(l->n->arena, &l->n->store, s);
    l->n->rows = NONE;
}

// An ArgMax computes the maximum of the same values too, so one reduction serves both. Returns its
// number.
static uint32_t add_reduce(Lower *l, Reduce r) {
    Nest *n = l->n;
    for (uint32_t i = 0; i < n->reduce.n; i++) {
        Reduce *had = &n->reduce.at[i];
        if (had->value != r.value || had->at != r.at)
            continue;
        if (had->kind == ReduceMax && r.kind == ReduceArgMax) {
            r.max_arg = had->arg;
            *had = r;
            return i;
        }
        if (had->kind == ReduceArgMax && r.kind == ReduceMax) {
            had->max_arg = r.arg;
            return i;
        }
    }
    vec_push(n->arena, &n->reduce, r);
    return n->reduce.n - 1;
}

// `arg`: NONE where only the results are read, here.
static void lower_reduce(Lower *l, uint32_t id, uint32_t arg) {
    static const ReduceKind kind_of[OpCount] = {
        [OpMaxOf] = ReduceMax, [OpArgMax] = ReduceArgMax, [OpSquares] = ReduceSquares};
    static_assert(ReduceSum == 0, "all other operations add");
    Nest *n = l->n;
    const Type *t = node_type(l->g, id);
    Op op = (Op)l->g->node.at[id].op;
    if (op == OpScatter) {
        lower_scatter(l, id, arg);
        return;
    }
    uint32_t axes = node_axes(l->g, id);
    Reduce r = {.kind = kind_of[op],
                .arg = arg,
                .max_arg = NONE,
                .sum = NONE,
                .dtype = (Dtype)t->dtype,
                .copies = 1};
    r.value = value_at(l, node_in(l->g, id, 0), &l->at, 0);
    r.terms = type_elements(l->g, &l->space) / type_elements(l->g, t);
    Coords to = l->at;
    if (op == OpGroupSum) {
        int64_t stride[MAX_RANK + 1];
        type_strides(t, stride);
        r.copies = axes; // its attribute is the size of a group
        r.copy_step = stride[0];
        to.c[0] = ix_mul(&n->ix, ix_div(&n->ix, to.c[0], axes), axes);
    }
    coords_broadcast(t, &to, &to);
    r.at = coords_address(&n->ix, t, &to);
    if (op == OpArgMax)
        r.index = coords_number(&n->ix, &l->space, axes, &l->at);
    map_put(n->arena, &l->result, id, 1 + add_reduce(l, r));
}

// What is a function of the results of reductions. Members come in topological order.
static void find_derived(Lower *l) {
    const Region *r = l->n->region;
    for (uint32_t i = 0; i < r->node.n; i++) {
        uint32_t id = r->node.at[i], of = 0;
        for (uint32_t k = 0; k < graph_node(l->g, id)->nin && !node_ends_loop(l->g, id); k++) {
            uint32_t in = node_in(l->g, id, k);
            if (!map_find(&l->arg, in))
                of = node_ends_loop(l->g, in) ? in : of ? of : map_find(&l->derived, in);
        }
        if (of)
            map_put(l->n->arena, &l->derived, id, of);
    }
}

// Its elements lie like those of the results, and are the same function of them everywhere.
static void lower_derived(Lower *l, uint32_t id, uint32_t arg) {
    const Type *t = node_type(l->g, map_find(&l->derived, id));
    Coords any = {{0}}, at;
    coords_broadcast(t, &l->at, &at);
    Store s = {arg, value_at(l, id, &any, 0), coords_address(&l->n->ix, t, &at), false};
    vec_push(l->n->arena, &l->n->derived, s);
}

// Reductions whose results only others of the outputs read, and these.
static void lower_all_derived(Lower *l) {
    const Region *r = l->n->region;
    if (!l->derived.n)
        return;
    for (uint32_t i = 0; i < r->node.n; i++)
        if (node_ends_loop(l->g, r->node.at[i]) && !map_find(&l->result, r->node.at[i]))
            lower_reduce(l, r->node.at[i], NONE);
    for (uint32_t i = 0; i < r->out.n; i++)
        if (map_find(&l->derived, r->out.at[i]))
            lower_derived(l, r->out.at[i], r->in.n + i);
}

static void lower_once(Lower *l) {
    Nest *n = l->n;
    const Region *r = n->region;
    indices_init(&n->ix, n->arena);
    n->vars = n->orders = 0;
    n->value.n = n->store.n = n->reduce.n = n->derived.n = n->bounds.n = 0;
    vec_push(n->arena, &n->bounds, (Bounds){0});
    l->memo = l->result = (Map){0};
    l->seen.n = 0;
    space_init(l);
    for (uint32_t i = 0; i < r->out.n; i++) {
        uint32_t id = r->out.at[i], arg = r->in.n + i;
        if (node_ends_loop(l->g, id))
            lower_reduce(l, id, arg);
        else if (!map_find(&l->derived, id))
            lower_store(l, id, arg);
    }
    lower_all_derived(l);
}

// Splits the axis that a quotient of an index divides; false when none can be split any further.
static bool split(Lower *l) {
    uint32_t var;
    int64_t factor;
    if (!ix_split_wanted(&l->n->ix, &var, &factor))
        return false;
    Axis *a = &l->axis[l->var_axis[var]];
    uint32_t f = l->var_factor[var];
    if (a->factors == MAX_FACTORS || l->n->vars + 1 >= MAX_VARS)
        return false; // it remains a division: correct, but slower
    memmove(a->factor + f + 1, a->factor + f, (a->factors - f) * sizeof *a->factor);
    memmove(a->reduced + f + 1, a->reduced + f, (a->factors - f) * sizeof *a->reduced);
    a->factors++;
    a->factor[f] /= factor;
    a->factor[f + 1] = factor;
    return true;
}

void nest_lower(Arena *arena, const Plan *p, const Region *r, Nest *out) {
    *out = (Nest){.arena = arena, .plan = p, .region = r};
    Lower l = {.n = out, .g = &p->func->g};
    uint32_t lead = lead_of(l.g, r);
    l.space = *node_space(l.g, lead);
    for (uint32_t i = 0; i < r->in.n; i++)
        map_put(arena, &l.arg, r->in.at[i], i + 1);
    for (uint32_t i = 0; i < r->in.n + r->out.n; i++)
        vec_push(arena, &out->arg, i);
    axes_init(&l, lead);
    find_derived(&l);
    do {
        lower_once(&l);
    } while (split(&l));
    nest_tidy(out);
}
