// nest.c - the shape of a nest's loops for cores: which variables are joined, which are parallel
// work (units), where accumulators are kept. All of it follows from extents and strides, never from
// the number of threads.
#include "nest.h"

#include "integers.h"

enum {
    GrainElements = 1 << 13, // minimum work of a call
    ManyUnits = 64,          // enough to balance the load of all threads
    FewUnits = 32,           // fewer are too few for that
    RowElements = 512,       // loops inside a unit should have this many iterations
    LeastTile = 64,
    MostTile = 1024, // of a kept variable that is a loop
    ManyRows = 8,    // of a scatter's table: from here on they are indexed
};

// --- joining variables ---------------------------------------------------------------------------

typedef struct IxList {
    VEC(Ix) v;
    uint8_t *have;
} IxList;

static void use_ix(Nest *n, IxList *l, Ix x) {
    if (l->have[x])
        return;
    l->have[x] = 1;
    vec_push(n->arena, &l->v, x);
    const IxSum *s = &n->ix.sum.at[x];
    for (uint32_t i = 0; i < s->n; i++) {
        const Atom *a = &n->ix.atom.at[s->term[i].atom];
        if (a->kind != AtomVar)
            use_ix(n, l, a->of);
        if (a->kind == AtomChoice) {
            use_ix(n, l, a->yes);
            use_ix(n, l, a->no);
        }
    }
}

// Every index the nest computes, arguments of quotients included.
static IxList used_indices(Nest *n) {
    IxList l = {.have = arena_array(n->arena, uint8_t, n->ix.sum.n)};
    for (uint32_t i = 0; i < n->value.n; i++) {
        use_ix(n, &l, n->value.at[i].at);
        use_ix(n, &l, n->value.at[i].sample);
    }
    for (uint32_t i = 0; i < n->bounds.n; i++)
        for (uint32_t k = 0; k < n->bounds.at[i].n; k++)
            use_ix(n, &l, n->bounds.at[i].b[k].at);
    for (uint32_t i = 0; i < n->store.n; i++)
        use_ix(n, &l, n->store.at[i].at);
    for (uint32_t i = 0; i < n->derived.n; i++)
        use_ix(n, &l, n->derived.at[i].at);
    for (uint32_t i = 0; i < n->reduce.n; i++) {
        use_ix(n, &l, n->reduce.at[i].at);
        use_ix(n, &l, n->reduce.at[i].index);
    }
    return l;
}

// Joins `outer` into `inner`, the next variable: outer*n + inner becomes one, wherever every index
// agrees.
static bool join(Nest *n, const IxList *used, uint32_t outer, uint32_t inner) {
    int64_t extent = n->var[inner].n;
    if (n->var[outer].reduced != n->var[inner].reduced)
        return false;
    for (uint32_t i = 0; i < used->v.n; i++)
        if (ix_coef(&n->ix, used->v.at[i], outer) != ix_coef(&n->ix, used->v.at[i], inner) * extent)
            return false;
    for (uint32_t i = 0; i < used->v.n; i++) {
        IxSum *s = &n->ix.sum.at[used->v.at[i]];
        uint32_t k = 0;
        for (uint32_t j = 0; j < s->n; j++) {
            const Atom *a = &n->ix.atom.at[s->term[j].atom];
            if (a->kind != AtomVar || a->var != outer)
                s->term[k++] = s->term[j];
        }
        s->n = k;
    }
    for (uint32_t i = 0; i < n->ix.atom.n; i++) {
        Atom *a = &n->ix.atom.at[i];
        if (a->kind == AtomVar && a->var == inner)
            a->hi = n->var[outer].n * extent - 1;
    }
    n->var[inner].n *= n->var[outer].n;
    return true;
}

static void join_all(Nest *n) {
    IxList used = used_indices(n);
    for (uint32_t i = 0; i + 1 < n->orders;) {
        if (!join(n, &used, n->order[i], n->order[i + 1])) {
            i++;
            continue;
        }
        for (uint32_t k = i; k + 1 < n->orders; k++)
            n->order[k] = n->order[k + 1];
        n->orders--;
        i = i > 0 ? i - 1 : 0;
    }
}

// A pure reduction iterates over its largest input in memory order.
static void order_by_input(Nest *n) {
    Ix widest = 0;
    int64_t most = 0;
    if (n->store.n)
        return;
    for (uint32_t i = 0; i < n->value.n; i++) {
        const Value *v = &n->value.at[i];
        int64_t size = 1;
        for (uint32_t k = 0; k < n->orders; k++)
            size *= ix_coef(&n->ix, v->at, n->order[k]) ? n->var[n->order[k]].n : 1;
        if (v->kind == ValueLoad && size > most) {
            most = size;
            widest = v->at;
        }
    }
    for (uint32_t i = 0; i < n->orders; i++)
        if (ix_coef(&n->ix, widest, n->order[i]) <= 0)
            return;                            // it does not determine the order
    for (uint32_t i = 1; i < n->orders; i++) { // by falling stride
        uint32_t v = n->order[i], k = i;
        for (; k > 0 && ix_coef(&n->ix, widest, n->order[k - 1]) < ix_coef(&n->ix, widest, v); k--)
            n->order[k] = n->order[k - 1];
        n->order[k] = v;
    }
}

void nest_order_loops(Nest *n) {
    order_by_input(n);
    join_all(n);
}

bool nest_reaches(Nest *n, int64_t most) {
    const IxList used = used_indices(n);
    bool reaches = false;
    for (uint32_t i = 0; i < used.v.n; i++) {
        int64_t lo, hi;
        ix_range(&n->ix, used.v.at[i], &lo, &hi);
        reaches |= hi > most || lo < -most;
    }
    return reaches;
}

// --- units and loops -----------------------------------------------------------------------------

static int64_t product(const Nest *n, uint32_t from, uint32_t to) {
    int64_t x = 1;
    for (uint32_t i = from; i < to; i++)
        x *= n->var[n->order[i]].n;
    return x;
}

static void set_units(Nest *n) {
    int64_t inside = product(n, n->prefix, n->orders) / nest_tiles(n);
    n->units = product(n, 0, n->prefix) * nest_tiles(n);
    n->grain = inside < GrainElements ? GrainElements / inside : 1;
}

// No sums: rows of the innermost variables are units.
static void shape_elementwise(Nest *n) {
    if (n->orders == 1) {
        n->flat = true;
        n->units = n->var[n->order[0]].n;
        n->grain = GrainElements;
        return;
    }
    while (n->prefix + 1 < n->orders &&
           (n->prefix == 0 || (product(n, 0, n->prefix) < ManyUnits &&
                               product(n, n->prefix + 1, n->orders) >= RowElements)))
        n->prefix++;
    set_units(n);
}

static void hoist(Nest *n, uint32_t at) { // order[at] becomes the last variable of the prefix
    uint32_t v = n->order[at];
    for (; at > n->prefix; at--)
        n->order[at] = n->order[at - 1];
    n->order[n->prefix++] = v;
}

static void set_tile(Nest *n, uint32_t v, int64_t size) {
    if (size < n->var[v].n) {
        n->var[v].tile = size;
        n->tiled = v;
    }
}

static void tile(Nest *n, uint32_t v, int64_t pieces, int64_t least, int64_t most) {
    int64_t size = ceil_div(n->var[v].n, pieces);
    size = size < least ? least : size > most ? most : size;
    set_tile(n, v, ceil_div(size, LANES) * LANES); // whole vectors
}

// Indexed rows with their columns.
static void tile_rows(Nest *n, int64_t pieces) {
    int64_t size = ceil_div(n->var[n->rows].n, pieces);
    int64_t most = MAX_COLUMNS_ACC / n->var[n->columns].n;
    set_tile(n, n->rows, size < most ? size : most);
}

// Accumulators must fit into the L1 cache: kept variables become outer loops until they do, the
// last one in tiles; of indexed rows with columns, the rows.
static void bound_accumulators(Nest *n) {
    uint32_t inside = n->columns == NONE ? 1 : 2;
    while (nest_accumulators(n) > MAX_ACC) {
        uint32_t first = NONE, kept = 0;
        for (uint32_t i = n->orders; i-- > n->prefix;) {
            if (!n->var[n->order[i]].reduced) {
                first = i;
                kept++;
            }
        }
        if (kept > inside) {
            hoist(n, first);
            continue;
        }
        int64_t pieces = ceil_div(FewUnits, product(n, 0, n->prefix));
        if (n->columns != NONE)
            tile_rows(n, pieces);
        else
            tile(n, n->order[first], pieces, LeastTile, n->indexed ? MAX_INDEXED_ACC : MostTile);
        return;
    }
}

// Too few units: the longest reduced loop is split, and units give partial results.
static void split_reduced(Nest *n) {
    int64_t units = product(n, 0, n->prefix), all = product(n, 0, n->orders);
    uint32_t longest = NONE;
    for (uint32_t i = n->prefix; i < n->orders; i++) {
        uint32_t v = n->order[i];
        if (n->var[v].reduced && (longest == NONE || n->var[v].n > n->var[longest].n))
            longest = v;
    }
    for (uint32_t i = 0; i < n->reduce.n; i++)
        if (n->reduce.at[i].kind == ReduceArgMax)
            return;
    if (units >= FewUnits || longest == NONE || n->tiled != NONE)
        return;
    int64_t pieces = ManyUnits / units, worth = all / units / GrainElements;
    pieces = pieces < worth ? pieces : worth;
    if (pieces > 1)
        tile(n, longest, pieces, 16, n->var[longest].n);
}

bool nest_has_terms(const Nest *n) {
    for (uint32_t i = 0; i < n->orders; i++)
        if (n->var[n->order[i]].reduced)
            return true;
    return false;
}

static void move_last(Nest *n, uint32_t v) {
    uint32_t at = 0;
    while (n->order[at] != v)
        at++;
    for (; at + 1 < n->orders; at++)
        n->order[at] = n->order[at + 1];
    n->order[at] = v;
}

// The summand where(row == this row, term, 0) becomes the term.
void nest_index_rows(Nest *n) {
    Reduce *r = &n->reduce.at[0];
    n->indexed = true;
    r->value = n->value.at[r->value].in[1];
    move_last(n, n->rows);
}

// Do the terms lie in order along variable `v`?
static bool terms_in_order(const Nest *n, uint32_t v) {
    bool some = false;
    for (uint32_t i = 0; i < n->value.n; i++) {
        const Value *x = &n->value.at[i];
        if (x->kind != ValueLoad || !ix_uses(&n->ix, x->at, v))
            continue;
        if (ix_coef(&n->ix, x->at, v) != 1)
            return false;
        some = true;
    }
    return some;
}

// Where a table's rows lie in rows, their columns are a loop inside: a term's row is looked up once
// for all of them, since no index depends on the column, and a tile is stored in order.
// Measured on 2,048 terms for 10,000 rows of 256: 23.5 to 3.6 ms. Of more terms than rows, adding
// counts more than storing, so the terms must lie in order along a column: 32,768 terms for 512
// rows of 64 that did not took 7 ms instead of 2.5; 16,384 for 4,096 rows of 64 that do, 8 instead
// of 68.
static void find_columns(Nest *n) {
    int64_t terms = 1;
    for (uint32_t i = 0; i < n->orders; i++)
        terms *= n->var[n->order[i]].reduced ? n->var[n->order[i]].n : 1;
    bool many = terms > n->var[n->rows].n;
    for (uint32_t i = 0; i < n->orders; i++) {
        uint32_t v = n->order[i];
        if (v != n->rows && !n->var[v].reduced && n->var[v].n <= MAX_COLUMNS_ACC &&
            ix_coef(&n->ix, n->reduce.at[0].at, v) == 1 && (!many || terms_in_order(n, v)))
            n->columns = v;
    }
    if (n->columns != NONE)
        move_last(n, n->columns);
}

static void shape_reduction(Nest *n) {
    if (n->rows != NONE && n->var[n->rows].n >= ManyRows) {
        nest_index_rows(n);
        find_columns(n);
    }
    while (n->prefix < n->orders && !n->var[n->order[n->prefix]].reduced)
        n->prefix++;
    bound_accumulators(n);
    split_reduced(n);
    set_units(n);
    if (nest_partial(n))
        for (uint32_t i = 0; i < n->reduce.n; i++)
            n->scratch += nest_unit_bytes(n, &n->reduce.at[i]);
}

// --- levels --------------------------------------------------------------------------------------

// The deepest level of its variables.
static uint32_t level_of(const Nest *n, Ix x) {
    uint32_t level = 0;
    for (uint32_t i = 0; i < n->orders; i++) {
        const Var *v = &n->var[n->order[i]];
        if (v->level > level && ix_uses(&n->ix, x, n->order[i]))
            level = v->level;
    }
    return level;
}

// A bound that is the same for all of a pack is known with it.
static uint32_t level_of_bound(const Nest *n, const Bound *b) {
    uint32_t level = 0;
    if (!nest_is_even(n, b))
        return level_of(n, b->at);
    for (uint32_t i = 0; i < n->orders; i++) {
        const Var *v = &n->var[n->order[i]];
        bool lane = n->order[i] == n->team.lane;
        if (ix_uses(&n->ix, b->at, n->order[i]))
            level_deepen(&level, !lane ? v->level : v->reduced ? LevelStep : LevelUnit);
    }
    return level;
}

uint32_t nest_operands(const Value *v) {
    bool reads = v->kind != ValueNumber && v->kind != ValueIndex && v->kind != ValueDraw;
    return !reads ? 0 : v->kind == ValueEw ? 3 : v->kind == ValueSelect ? 2 : 1;
}

void nest_levels(Nest *n) {
    for (uint32_t i = 0; i < n->bounds.n; i++) {
        uint32_t level = 0;
        for (uint32_t k = 0; k < n->bounds.at[i].n; k++)
            level_deepen(&level, level_of_bound(n, &n->bounds.at[i].b[k]));
        vec_push(n->arena, &n->bounds_level, level);
    }
    for (uint32_t i = 0; i < n->value.n; i++) { // operands come first
        Value *v = &n->value.at[i];
        level_deepen(&v->level, level_of(n, v->at));
        level_deepen(&v->level, level_of(n, v->sample));
        level_deepen(&v->level, n->bounds_level.at[v->bounds]);
        for (uint32_t k = 0; k < 3; k++)
            if (v->in[k] != NONE)
                level_deepen(&v->level, n->value.at[v->in[k]].level);
    }
}

// --- queries -------------------------------------------------------------------------------------

int64_t nest_tiles(const Nest *n) {
    if (n->tiled == NONE)
        return 1;
    const Var *v = &n->var[n->tiled];
    return ceil_div(v->n, v->tile);
}

bool nest_partial(const Nest *n) {
    return n->tiled != NONE && n->var[n->tiled].reduced;
}

int64_t nest_accumulators(const Nest *n) {
    int64_t x = 1;
    for (uint32_t i = n->prefix; i < n->orders; i++) {
        const Var *v = &n->var[n->order[i]];
        x *= v->reduced ? 1 : v->tile ? v->tile : v->n;
    }
    return x;
}

size_t nest_unit_bytes(const Nest *n, const Reduce *r) {
    return (size_t)(n->units * nest_accumulators(n)) * (r->dtype == DtF64 ? 8 : 4);
}

int nest_most_accumulators(const Nest *n) {
    return n->columns != NONE ? MAX_COLUMNS_ACC : n->indexed ? MAX_INDEXED_ACC : MAX_ACC;
}

bool nest_is_invariant(const Nest *n, uint32_t bounds) {
    return n->bounds.at[bounds].n && n->bounds_level.at[bounds] < 1 + n->orders - n->prefix;
}

bool nest_is_likely(const Nest *n, uint32_t bounds) {
    const Bounds *b = &n->bounds.at[bounds];
    double share = 1;
    for (uint32_t i = 0; i < b->n; i++) {
        int64_t lo, hi;
        ix_range(&n->ix, b->b[i].at, &lo, &hi);
        int64_t from = lo > b->b[i].lo ? lo : b->b[i].lo,
                to = hi + 1 < b->b[i].hi ? hi + 1 : b->b[i].hi;
        share *= (double)(to - from) / (double)(hi + 1 - lo);
    }
    return share > 0.5;
}

// Sums of f32 terms are kept in f64: on a core that costs a few instructions beside the loads, and
// means and variances are as good as their terms.
static void widen_sums(Nest *n) {
    for (uint32_t i = 0; i < n->reduce.n; i++) {
        Reduce *r = &n->reduce.at[i];
        bool wide = r->kind == ReduceSquares || (r->kind == ReduceSum && n->plan->real == DtF32);
        r->dtype = wide ? DtF64 : r->dtype;
    }
}

// The f64 sum of the value whose squares are computed: an existing reduction, or a new one.
static uint32_t sum_beside(Nest *n, uint32_t squares) {
    Reduce sum = n->reduce.at[squares];
    for (uint32_t i = 0; i < n->reduce.n; i++) {
        const Reduce *r = &n->reduce.at[i];
        if (r->kind == ReduceSum && r->value == sum.value && r->dtype == DtF64)
            return i;
    }
    sum.kind = ReduceSum;
    sum.arg = NONE;
    vec_push(n->arena, &n->reduce, sum);
    return n->reduce.n - 1;
}

// Squares about the mean of n terms are their squares less sum^2 / n. In f64 that costs terms of 24
// bits nothing that they had: what they are rounded to is (mean / deviation)^2 as coarse.
static void add_squares(Nest *n) {
    for (uint32_t i = 0; i < n->reduce.n; i++) {
        if (n->reduce.at[i].kind == ReduceSquares) {
            uint32_t sum = sum_beside(n, i);
            n->reduce.at[i].sum = sum;
        }
    }
}

// Does the index ascend: is each step of a reduced loop more than the loops inside it span
// together?
static bool ascends(const Nest *n, Ix index) {
    int64_t lo, hi, inside = 0;
    ix_range(&n->ix, index, &lo, &hi);
    for (uint32_t i = n->orders; i-- > 0;) {
        const Var *v = &n->var[n->order[i]];
        int64_t coef = v->reduced ? ix_coef(&n->ix, index, n->order[i]) : 0;
        if (v->reduced && coef <= inside)
            return false;
        inside += coef * (v->n - 1);
    }
    return inside == hi - lo; // and it has no other part
}

void nest_find_orders(Nest *n) {
    for (uint32_t i = 0; i < n->reduce.n; i++) {
        Reduce *r = &n->reduce.at[i];
        r->in_order = r->kind == ReduceArgMax && ascends(n, r->index);
    }
}

void nest_shape(Nest *n) {
    widen_sums(n);
    add_squares(n);
    n->prefix = 0;
    n->flat = false;
    n->tiled = n->columns = NONE;
    n->scratch = 0;
    nest_order_loops(n);
    if (n->reduce.n)
        shape_reduction(n);
    else if (n->orders == 0)
        n->units = n->grain = 1;
    else
        shape_elementwise(n);
    for (uint32_t i = 0; i < n->orders; i++)
        n->var[n->order[i]].level = i < n->prefix ? 1 : 2 + i - n->prefix;
    nest_find_orders(n);
    nest_levels(n);
}
