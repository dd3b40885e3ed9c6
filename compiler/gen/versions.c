// versions.c - which versions of an innermost loop are worth their text, and which loop is cut
// where its bounds change.
//
// In: bounds that do not change in the loop, as those of the parts of a concatenation and of a
// pad's border. Out: the states in which most rows find them, the most frequent first. Each test is
// of an index; where tests of one index begin and end cuts its range into intervals, in which each
// of them holds or does not. Indices are taken to be independent: a state that never occurs costs
// its text, nothing else.
#include "nest.h"

#include <stdlib.h>
#include <string.h>

enum {
    MOST_INDICES = 3,
    MOST_CUTS = 64,
    MOST_CELLS = 512, // combinations of intervals: where there are more, one version is likely
    MOST_TEXT = 4,    // times that of a loop with tests: of all that it is cut into
};
static const double worth = 0.2; // of all rows: another version's share

typedef struct Axis { // an index, and where its range is cut
    Ix at;
    int64_t cut[MOST_CUTS];
    uint32_t cuts;
} Axis;

typedef struct State {
    const bool *holds; // [bounds.n] of those that are tested
    double share;      // of all rows
} State;

typedef struct States {
    Axis axis[MOST_INDICES];
    uint32_t axes;
    VEC(State) found;
} States;

static void cut_at(Axis *x, int64_t at) {
    uint32_t k = 0;
    if (at <= x->cut[0] || at >= x->cut[x->cuts - 1])
        return;
    while (x->cut[k] < at)
        k++;
    if (x->cut[k] == at)
        return;
    memmove(x->cut + k + 1, x->cut + k, (x->cuts - k) * sizeof *x->cut);
    x->cut[k] = at;
    x->cuts++;
}

static Axis *axis_of(States *s, const Nest *n, Ix at) {
    for (uint32_t i = 0; i < s->axes; i++)
        if (s->axis[i].at == at)
            return &s->axis[i];
    if (s->axes == MOST_INDICES)
        return NULL;
    Axis *x = &s->axis[s->axes++];
    *x = (Axis){.at = at, .cuts = 2};
    ix_range(&n->ix, at, &x->cut[0], &x->cut[1]);
    x->cut[1]++;
    return x;
}

// False: more than is worth a look.
static bool find_cuts(States *s, const Nest *n, const bool *tested) {
    for (uint32_t i = 1; i < n->bounds.n; i++) {
        const Bounds *b = &n->bounds.at[i];
        for (uint32_t k = 0; tested[i] && k < b->n; k++) {
            Axis *x = axis_of(s, n, b->b[k].at);
            if (!x || x->cuts + 2 > MOST_CUTS)
                return false;
            cut_at(x, b->b[k].lo);
            cut_at(x, b->b[k].hi);
        }
    }
    uint64_t cells = 1;
    for (uint32_t i = 0; i < s->axes; i++)
        cells *= s->axis[i].cuts - 1;
    return cells <= MOST_CELLS;
}

// Does the bound hold in the cell whose interval along each axis is cell[axis]?
static bool holds(States *s, const Nest *n, const Bounds *b, const uint32_t *cell) {
    for (uint32_t k = 0; k < b->n; k++) {
        const Axis *x = axis_of(s, n, b->b[k].at);
        int64_t at = x->cut[cell[x - s->axis]];
        if (at < b->b[k].lo || at >= b->b[k].hi)
            return false;
    }
    return true;
}

static void add_state(States *s, Arena *a, const bool *state, uint32_t bounds, double share) {
    for (uint32_t i = 0; i < s->found.n; i++)
        if (memcmp(s->found.at[i].holds, state, bounds * sizeof *state) == 0) {
            s->found.at[i].share += share;
            return;
        }
    bool *kept = arena_array(a, bool, bounds);
    memcpy(kept, state, bounds * sizeof *state);
    vec_push(a, &s->found, ((State){kept, share}));
}

static void find_states(States *s, Arena *a, const Nest *n, const bool *tested) {
    uint32_t cell[MOST_INDICES] = {0}, i;
    bool *state = arena_array(a, bool, n->bounds.n);
    do {
        double share = 1;
        for (i = 0; i < s->axes; i++) {
            const Axis *x = &s->axis[i];
            share *= (double)(x->cut[cell[i] + 1] - x->cut[cell[i]]) /
                     (double)(x->cut[x->cuts - 1] - x->cut[0]);
        }
        for (i = 1; i < n->bounds.n; i++)
            state[i] = tested[i] && holds(s, n, &n->bounds.at[i], cell);
        add_state(s, a, state, n->bounds.n, share);
        for (i = 0; i < s->axes && ++cell[i] + 1 == s->axis[i].cuts; i++)
            cell[i] = 0;
    } while (i < s->axes);
}

uint32_t nest_versions(const Nest *n, Arena *a, const bool *tested, const bool *out[MAX_VERSIONS]) {
    States *s = arena_new(a, States);
    uint32_t versions = 0;
    if (find_cuts(s, n, tested)) {
        find_states(s, a, n, tested);
    } else {
        bool *each = arena_array(a, bool, n->bounds.n);
        for (uint32_t i = 1; i < n->bounds.n; i++)
            each[i] = tested[i] && nest_is_likely(n, i);
        vec_push(a, &s->found, ((State){each, worth}));
    }
    while (versions < MAX_VERSIONS) {
        State *most = &s->found.at[0];
        for (uint32_t i = 1; i < s->found.n; i++)
            most = s->found.at[i].share > most->share ? &s->found.at[i] : most;
        if (most->share < worth)
            break;
        out[versions++] = most->holds;
        most->share = -1;
    }
    return versions;
}

// --- cells ---------------------------------------------------------------------------------------

// Is the bound one of this variable alone? Then where it holds.
static bool bound_of(const Nest *n, const Bound *b, uint32_t var, Cell *out) {
    const IxSum *s = &n->ix.sum.at[b->at];
    if (s->n != 1 || s->term[0].coef != 1)
        return false;
    const Atom *a = &n->ix.atom.at[s->term[0].atom];
    *out = (Cell){.from = b->lo - s->off, .to = b->hi - s->off};
    return a->kind == AtomVar && a->var == var;
}

static bool bounds_of(const Nest *n, uint32_t id, uint32_t var) {
    const Bounds *b = &n->bounds.at[id];
    Cell in = {0};
    bool all = b->n > 0;
    for (uint32_t i = 0; i < b->n && all; i++)
        all = bound_of(n, &b->b[i], var, &in);
    return all;
}

static int by_number(const void *pa, const void *pb) {
    const int64_t *a = pa, *b = pb;
    return *a < *b ? -1 : *a > *b;
}

// Where the bounds of a variable change, its ends included; fewer than FEW_CELLS cells: none.
static uint32_t cuts_of(const Nest *n, Arena *a, uint32_t var, const bool *known, int64_t **out) {
    int64_t extent = n->var[var].n;
    VEC(int64_t) cut = {0};
    vec_push(a, &cut, 0);
    vec_push(a, &cut, extent);
    for (uint32_t i = 1; i < n->bounds.n; i++)
        for (uint32_t k = 0; k < n->bounds.at[i].n && known[i]; k++) {
            Cell in = {0};
            (void)bound_of(n, &n->bounds.at[i].b[k], var, &in);
            if (in.from > 0 && in.from < extent)
                vec_push(a, &cut, in.from);
            if (in.to > 0 && in.to < extent)
                vec_push(a, &cut, in.to);
        }
    qsort(cut.at, cut.n, sizeof *cut.at, by_number);
    uint32_t kept = 1;
    for (uint32_t i = 1; i < cut.n; i++)
        if (cut.at[i] > cut.at[kept - 1])
            cut.at[kept++] = cut.at[i];
    *out = cut.at;
    return kept > FEW_CELLS ? kept : 0;
}

static const bool *holding(const Nest *n, Arena *a, uint32_t var, const bool *known, int64_t at) {
    bool *holds = arena_array(a, bool, n->bounds.n);
    for (uint32_t i = 1; i < n->bounds.n; i++) {
        holds[i] = known[i];
        for (uint32_t k = 0; k < n->bounds.at[i].n && holds[i]; k++) {
            Cell in = {0};
            (void)bound_of(n, &n->bounds.at[i].b[k], var, &in);
            holds[i] = at >= in.from && at < in.to;
        }
    }
    return holds;
}

// Of a nest that sums only the innermost loop, which adds into lanes, and only by single elements:
// the order of a sum stays.
static bool can_cut(const Nest *n, uint32_t var, uint32_t cuts) {
    bool inner = n->order[n->orders - 1] == var && n->var[var].reduced;
    return !n->var[var].tile && (!n->reduce.n || (inner && cuts == n->var[var].n + 1));
}

// How many values the body is the text of, where these bounds are known; NULL: none of them.
static uint32_t values_of_body(const Nest *n, Arena scratch, const bool *known, const bool *holds) {
    bool *read = arena_array(&scratch, bool, n->value.n);
    uint32_t values = 0;
    for (uint32_t i = 0; i < n->store.n; i++)
        read[n->store.at[i].value] = true;
    for (uint32_t i = 0; i < n->reduce.n; i++)
        read[n->reduce.at[i].value] = true;
    for (uint32_t i = n->value.n; i-- > 0;) { // operands come first
        const Value *v = &n->value.at[i];
        bool decided = known && known[v->bounds], chosen = decided && v->kind == ValueSelect;
        if (!read[i] || v->kind == ValueNumber || (decided && !chosen && !holds[v->bounds]))
            continue;
        values += !chosen;
        for (uint32_t k = 0; k < 3; k++)
            if (v->in[k] != NONE && (!chosen || k == !holds[v->bounds]))
                read[v->in[k]] = true;
    }
    return values;
}

// Is the text of all cells about that of the loop with tests? What is computed of a concatenation
// of many parts would be written for each of them.
static bool is_short(const Nest *n, Arena scratch, const Cells *c) {
    uint32_t values = 0;
    for (uint32_t i = 0; i < c->n; i++)
        values += values_of_body(n, scratch, c->known, c->cell[i].holds);
    return values <= MOST_TEXT * values_of_body(n, scratch, NULL, NULL);
}

bool nest_cells(const Nest *n, Arena *a, const bool *tested, Cells *out) {
    *out = (Cells){.var = NONE};
    if (n->indexed || n->flat)
        return false;
    for (uint32_t o = 0; o < n->orders; o++) {
        uint32_t var = n->order[o], cuts;
        int64_t *cut;
        bool *known = arena_array(a, bool, n->bounds.n);
        for (uint32_t i = 1; i < n->bounds.n; i++)
            known[i] = tested[i] && bounds_of(n, i, var);
        cuts = cuts_of(n, a, var, known, &cut);
        if (cuts <= out->n + 1 || !can_cut(n, var, cuts))
            continue;
        Cells cells = {var, known, cuts - 1, arena_array(a, Cell, cuts - 1)};
        for (uint32_t i = 0; i < cells.n; i++)
            cells.cell[i] = (Cell){cut[i], cut[i + 1], holding(n, a, var, known, cut[i])};
        if (is_short(n, *a, &cells))
            *out = cells;
    }
    return out->n > 0;
}
