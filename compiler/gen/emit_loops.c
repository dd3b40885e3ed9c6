// emit_loops.c - the text of a nest shaped for a core (nest.c): a function over a range of units,
// with loops inside, and sums in lanes that the compiler vectorizes.
#include "emit.h"

#include <inttypes.h>

enum { LEAST_UNSWITCHED = 8 }; // elements of an innermost loop that is worth several versions

// --- accumulators --------------------------------------------------------------------------------

static bool many(const Emit *e) {
    return nest_accumulators(e->n) > 1;
}

// Index of the accumulator of the present kept variables: "[...]", or nothing when there is one.
static void put_acc_index(Emit *e) {
    const Nest *n = e->n;
    if (!many(e))
        return;
    int64_t stride = nest_accumulators(n);
    bool first = true;
    text_put(e->t, STR("["));
    for (uint32_t i = n->prefix; i < n->orders; i++) {
        const Var *v = &n->var[n->order[i]];
        if (v->reduced)
            continue;
        stride /= v->tile ? v->tile : v->n;
        const char *text = !v->tile ? "%si%u" : stride > 1 ? "%s(i%u - from)" : "%si%u - from";
        text_fmt(e->t, text, first ? "" : " + ", i);
        if (stride > 1)
            text_fmt(e->t, "*%.*s", SARG(emit_num(e, RoleSums, stride)));
        first = false;
    }
    text_put(e->t, STR("]"));
}

static void put_acc(Emit *e, char name, uint32_t r) {
    text_fmt(e->t, "%c%u", name, r);
    if (name == 'l' || name == 'y')
        text_put(e->t, STR("[l]"));
    else
        put_acc_index(e);
}

static void put_acc_init(Emit *e) {
    int64_t count = nest_accumulators(e->n);
    int most = nest_most_accumulators(e->n);
    for (uint32_t i = 0; i < e->n->reduce.n; i++) {
        const Reduce *r = &e->n->reduce.at[i];
        emit_line(e);
        if (count == 1) {
            text_fmt(e->t, "%s s%u = %s;", emit_acc_type(r), i, emit_identity(r));
            text_fmt(e->t, r->kind == ReduceArgMax ? " %s x%u = 0;\n" : "\n", emit_at_type(e, r),
                     i);
            continue;
        }
        text_fmt(e->t, "%s s%u[%d];", emit_acc_type(r), i, most);
        text_fmt(e->t, r->kind == ReduceArgMax ? " %s x%u[%d];\n" : "\n", emit_at_type(e, r), i,
                 most);
        emit_line(e);
        Str n = emit_num(e, RoleSums, count);
        text_fmt(e->t, "for (int64_t k = 0; k < %.*s; k++) s%u[k] = %s;\n", SARG(n), i,
                 emit_identity(r));
        if (r->kind == ReduceArgMax)
            text_fmt(emit_line(e), "for (int64_t k = 0; k < %.*s; k++) x%u[k] = 0;\n", SARG(n), i);
    }
}

// --- loops ---------------------------------------------------------------------------------------

static void put_simd(Emit *e) {
    text_fmt(emit_line(e), "%s\n", e->d->simd);
}

// A loop over neighbours short enough to be unrolled: the three channels of an image. The loop
// around it is then the one that is vectorized: 2.3 to 17 GB/s for a bias and tanh.
static bool few(const Var *v) {
    return !v->tile && !v->reduced && (v->n == 2 || v->n == 3 || v->n == 4 || v->n == 8);
}

// Inside a loop that sums, which is not vectorized, four or eight elements are a vector themselves:
// written out, an exp of each is scalar code (a softmax over eight heads, 15.5 ms; 5.0 as a loop).
static bool is_written_out(const Nest *n, const Var *v) {
    return few(v) && (!n->reduce.n || v->n < 4);
}

static void put_in_order(Emit *e) {
    text_fmt(emit_line(e), "%s\n", e->d->in_order);
}

// Is all inside loop k, or that over units (k + 1 == prefix), one such loop?
static bool around_few(const Nest *n, uint32_t k) {
    return !n->reduce.n && k + 2 == n->orders && few(&n->var[n->order[k + 1]]);
}

// Does loop k, or that over units, decide a bound?
static bool meets_border(const Nest *n, uint32_t k) {
    uint32_t level = 2 + k - n->prefix;
    for (uint32_t i = 1; i < n->bounds.n; i++)
        for (uint32_t b = 0; b < n->bounds.at[i].n; b++)
            for (uint32_t o = 0; o <= k; o++)
                if (n->var[n->order[o]].level == level &&
                    ix_uses(&n->ix, n->bounds.at[i].b[b].at, n->order[o]))
                    return true;
    return false;
}

// GCC 12 miscompiles such a loop where it tests a bound: it tests that of the first of a group of
// vectors for all of them. So it is not vectorized.
static void put_around_few(Emit *e, uint32_t k) {
    if (around_few(e->n, k) && !meets_border(e->n, k))
        put_simd(e);
}

static void put_inside_around_few(Emit *e, uint32_t k) {
    if (around_few(e->n, k) && meets_border(e->n, k))
        put_in_order(e);
}

// "lo" and "hi" of loop k, as text.
static void put_limits(Emit *e, uint32_t k, Str *lo, Str *hi) {
    const Var *v = &e->n->var[e->n->order[k]];
    *lo = v->tile ? STR("from") : STR("0");
    *hi = v->tile ? STR("to") : emit_num(e, RoleExtent + k, v->n);
}

// Lanes of the innermost loop, when it is over a reduced variable. There are always some: a plain
// running sum would be left to the compiler's in-order vectorization, which gcc 12 gets wrong for
// short loops that walk backwards.
static int lanes_of(const Emit *e) {
    const Var *v = &e->n->var[e->n->order[e->n->orders - 1]];
    int64_t n = v->tile ? v->tile : v->n;
    return n < LANES ? (int)n : LANES;
}

static void put_lanes_begin(Emit *e) {
    for (uint32_t i = 0; i < e->n->reduce.n; i++) {
        const Reduce *r = &e->n->reduce.at[i];
        bool best = r->kind == ReduceArgMax;
        text_fmt(emit_line(e), "%s l%u[%d];", emit_acc_type(r), i, lanes_of(e));
        text_fmt(e->t, best ? " %s y%u[%d];\n" : "\n", emit_at_type(e, r), i, lanes_of(e));
        text_fmt(emit_line(e), "for (int l = 0; l < %d; l++) l%u[l] = %s", lanes_of(e), i,
                 emit_identity(r));
        text_fmt(e->t, best ? ", y%u[l] = 0;\n" : ";\n", i);
    }
}

// The lanes' greatest, and the unit's if that is greater.
static void put_best_lane(Emit *e, uint32_t i, const char *f) {
    text_fmt(e->t, "gan_best_lane%s(l%u, y%u, %d, &", f, i, i, lanes_of(e));
    put_acc(e, 's', i);
    text_put(e->t, STR(", &"));
    put_acc(e, 'x', i);
    text_put(e->t, STR(");\n"));
}

static void put_lanes_end(Emit *e) {
    for (uint32_t i = 0; i < e->n->reduce.n; i++) {
        const Reduce *r = &e->n->reduce.at[i];
        emit_line(e);
        const char *f = r->dtype == DtF64 ? "" : "f";
        if (r->kind == ReduceArgMax) {
            put_best_lane(e, i, f);
            continue;
        }
        if (emit_adds(r)) {
            put_acc(e, 's', i);
            text_fmt(e->t, " += gan_sum_lanes%s(l%u, %d);\n", f, i, lanes_of(e));
            continue;
        }
        text_fmt(e->t, "const %s m%u = gan_max_lanes%s(l%u, %d);\n", emit_acc_type(r), i, f, i,
                 lanes_of(e));
        emit_line(e);
        put_acc(e, 's', i);
        text_fmt(e->t, " = gan_greater(m%u, ", i);
        put_acc(e, 's', i);
        text_fmt(e->t, ") ? m%u : ", i);
        put_acc(e, 's', i);
        text_put(e->t, STR(";\n"));
    }
}

// One lane for each of `count` elements from `from` on, which is empty or "j + ".
static void put_lane_body(Emit *e, uint32_t k, uint32_t level, const char *from, Str count) {
    put_simd(e);
    text_fmt(emit_line(e), "for (int l = 0; l < %.*s; l++)", SARG(count));
    emit_open(e);
    text_fmt(emit_line(e), "const int64_t i%u = %sl;\n", k, from);
    emit_level(e, level);
    emit_body(e, 'l');
    emit_close(e);
}

// The innermost loop over a reduced variable, LANES elements at a time, and the remainder; a short
// one all at once.
static void put_lane_loop(Emit *e, uint32_t k, uint32_t level) {
    const Var *v = &e->n->var[e->n->order[k]];
    Arena *a = e->t->arena;
    Str lo, hi;
    if (lanes_of(e) < LANES && !v->tile) {
        put_lane_body(e, k, level, "", str_format(a, "%d", lanes_of(e)));
        return;
    }
    put_limits(e, k, &lo, &hi);
    text_fmt(emit_line(e), "int64_t j = %.*s;\n", SARG(lo));
    if (lanes_of(e) == LANES) {
        text_fmt(emit_line(e), "for (; j + %d <= %.*s; j += %d)", LANES, SARG(hi), LANES);
        emit_open(e);
        put_lane_body(e, k, level, "j + ", str_format(a, "%d", LANES));
        emit_close(e);
    }
    if (v->n % LANES)
        put_lane_body(e, k, level, "j + ", str_format(a, "%.*s - j", SARG(hi)));
}

// The innermost loop, k.
static void put_innermost(Emit *e, uint32_t k) {
    const Nest *n = e->n;
    const Var *v = &n->var[n->order[k]];
    uint32_t level = 2 + k - n->prefix;
    if (e->lanes) {
        put_lane_loop(e, k, level);
        return;
    }
    Str lo, hi;
    put_limits(e, k, &lo, &hi);
    if (is_written_out(n, v)) {
        text_fmt(emit_line(e), e->d->few, (int)v->n);
        text_char(e->t, '\n');
    }
    if (!v->reduced)
        put_simd(e);
    text_fmt(emit_line(e), "for (int64_t i%u = %.*s; i%u < %.*s; i%u++)", k, SARG(lo), k, SARG(hi),
             k);
    emit_open(e);
    if (v->reduced)
        put_in_order(e);
    emit_level(e, level);
    emit_body(e, 's');
    emit_close(e);
}

// Writes `body` as it is where these bounds need no test: with only what it then computes.
static void put_known(Emit *e, const bool *known, const bool *holds,
                      void (*body)(Emit *e, uint32_t k), uint32_t k) {
    const bool *named = e->named, *guards = e->guards;
    e->known = known;
    e->holds = holds;
    e->named = emit_named(e);
    e->guards = emit_guards(e);
    body(e, k);
    e->known = NULL;
    e->named = named;
    e->guards = guards;
}

// The invariant bounds that the innermost loop tests; false when there are none.
static bool find_tested(const Emit *e, uint32_t level, bool *tested) {
    const Nest *n = e->n;
    bool any = false;
    for (uint32_t i = 0; i < n->value.n; i++) {
        const Value *v = &n->value.at[i];
        if (v->level == level && e->guards[v->bounds] && nest_is_invariant(n, v->bounds))
            any = tested[v->bounds] = true;
    }
    return any;
}

// "if (g1 && !g2 && ...)"
static void put_version_test(Emit *e, const bool *tested, const bool *holds) {
    bool any = false;
    for (uint32_t i = 1; i < e->n->bounds.n; i++) {
        if (tested[i]) {
            text_fmt(e->t, "%s%sg%u", any ? " && " : "if (", holds[i] ? "" : "!", i);
            any = true;
        }
    }
    text_put(e->t, STR(")"));
}

// A border (a pad's, or of a gradient through one) is tested at every element, and so is where the
// parts of a concatenation meet; the test keeps compilers from vectorizing. Where it is
// loop-invariant, the innermost loop is unswitched: versions for the interior and for large parts,
// without tests, and one for the rest.
// Measured on the gradient of a reflection pad of [256, 64, 64]: 1 to 19 GB/s.
static void put_inner_loops(Emit *e, uint32_t k) {
    const Nest *n = e->n;
    const Var *v = &n->var[n->order[k]];
    const bool *version[MAX_VERSIONS];
    uint32_t versions = 0;
    bool *tested = arena_array(e->t->arena, bool, n->bounds.n);
    if ((v->tile ? v->tile : v->n) >= LEAST_UNSWITCHED && !e->known &&
        find_tested(e, 2 + k - n->prefix, tested))
        versions = nest_versions(n, e->t->arena, tested, version);
    if (!versions) {
        put_innermost(e, k);
        return;
    }
    for (uint32_t i = 0; i < versions; i++) {
        text_put(emit_line(e), i ? STR("else ") : STR(""));
        put_version_test(e, tested, version[i]);
        emit_open(e);
        put_known(e, tested, version[i], put_innermost, k);
        emit_close(e);
    }
    text_put(emit_line(e), STR("else"));
    emit_open(e);
    put_innermost(e, k);
    emit_close(e);
}

static void put_loops(Emit *e, uint32_t k);

static void put_inside(Emit *e, uint32_t k) {
    emit_level(e, 2 + k - e->n->prefix);
    if (e->lanes && k + 1 == e->n->orders)
        emit_body(e, 'l');
    else
        put_loops(e, k + 1);
}

// Loop k, cell by cell.
static void put_cut_loop(Emit *e, uint32_t k) {
    for (uint32_t i = 0; i < e->cells.n; i++) {
        const Cell *c = &e->cells.cell[i];
        Str from = emit_num(e, RoleBound, c->from);
        if (c->to == c->from + 1) {
            text_put(emit_line(e), STR("{\n"));
            e->depth++;
            text_fmt(emit_line(e), "const int64_t i%u = %.*s;\n", k, SARG(from));
            if (e->lanes)
                text_fmt(emit_line(e), "const int l = i%u %% %d;\n", k, lanes_of(e));
        } else {
            Str to = emit_num(e, RoleBound, c->to);
            if (k + 1 == e->n->orders)
                put_simd(e);
            text_fmt(emit_line(e), "for (int64_t i%u = %.*s; i%u < %.*s; i%u++)", k, SARG(from), k,
                     SARG(to), k);
            emit_open(e);
        }
        put_known(e, e->cells.known, c->holds, put_inside, k);
        emit_close(e);
    }
}

// Instead of loop k: the one row of a table that is indexed, if it is in this tile.
static void put_indexed_row(Emit *e, uint32_t k) {
    const Nest *n = e->n;
    text_fmt(emit_line(e), "const int64_t i%u = (int64_t)", k);
    emit_ref(e, n->row);
    text_put(e->t, STR(";\n"));
    text_fmt(emit_line(e), n->var[n->rows].tile ? "if (i%u >= from && i%u < to)" : "", k, k);
    emit_open(e);
    emit_level(e, 2 + k - n->prefix);
    put_loops(e, k + 1);
    emit_close(e);
}

static void put_loops(Emit *e, uint32_t k) {
    const Nest *n = e->n;
    if (k == n->orders) {
        emit_body(e, 's');
        return;
    }
    if (n->indexed && n->order[k] == n->rows) {
        put_indexed_row(e, k);
        return;
    }
    bool cut = n->order[k] == e->cells.var;
    if (k + 1 == n->orders) {
        if (e->lanes && many(e))
            put_lanes_begin(e);
        if (cut)
            put_cut_loop(e, k);
        else
            put_inner_loops(e, k);
        if (e->lanes && many(e))
            put_lanes_end(e);
        return;
    }
    if (cut) {
        put_cut_loop(e, k);
        return;
    }
    Str lo, hi;
    put_limits(e, k, &lo, &hi);
    put_around_few(e, k);
    text_fmt(emit_line(e), "for (int64_t i%u = %.*s; i%u < %.*s; i%u++)", k, SARG(lo), k, SARG(hi),
             k);
    emit_open(e);
    put_inside_around_few(e, k);
    emit_level(e, 2 + k - n->prefix);
    put_loops(e, k + 1);
    emit_close(e);
}

// --- results of a unit ---------------------------------------------------------------------------

// Opens loops over the kept variables inside the unit; returns how many.
static int put_kept_loops(Emit *e) {
    const Nest *n = e->n;
    int opened = 0;
    for (uint32_t i = n->prefix; i < n->orders; i++) {
        if (!n->var[n->order[i]].reduced) {
            Str lo, hi;
            put_limits(e, i, &lo, &hi);
            text_fmt(emit_line(e), "for (int64_t i%u = %.*s; i%u < %.*s; i%u++)", i, SARG(lo), i,
                     SARG(hi), i);
            emit_open(e);
            opened++;
        }
    }
    return opened;
}

static void put_results(Emit *e) {
    if (nest_partial(e->n)) {
        int64_t count = nest_accumulators(e->n);
        for (uint32_t i = 0; i < e->n->reduce.n; i++) {
            emit_line(e);
            if (count == 1) {
                text_fmt(e->t, "q%u[u] = s%u;\n", i, i);
            } else {
                Str n = emit_num(e, RoleSums, count);
                text_fmt(e->t, "for (int64_t k = 0; k < %.*s; k++) q%u[u*%.*s + k] = s%u[k];\n",
                         SARG(n), i, SARG(n), i);
            }
        }
        return;
    }
    int opened = e->n->reduce.n ? put_kept_loops(e) : 0;
    for (uint32_t i = 0; i < e->n->reduce.n; i++)
        emit_result(e, i);
    while (opened--)
        emit_close(e);
}

// --- functions -----------------------------------------------------------------------------------

// Does the function, the last part of the work or the rest, read or write the argument?
static bool uses(const Emit *e, uint32_t arg, bool finish) {
    bool stored = false;
    if (nest_is_input(e->n, arg))
        return !finish;
    for (uint32_t i = 0; i < e->n->store.n; i++)
        stored |= e->n->store.at[i].arg == arg;
    return finish ? !stored : stored || !nest_partial(e->n);
}

static void put_args(Emit *e, bool finish) {
    uint32_t scratch = e->n->arg.n;
    for (uint32_t i = 0; i < scratch; i++) {
        if (!uses(e, i, finish))
            continue;
        const char *type = words_c.storage[nest_dtype(e->n, i)],
                   *in = nest_is_input(e->n, i) ? "const " : "";
        text_fmt(emit_line(e), "%s%s *a%u = (%s%s *)p[%u];\n", in, type, i, in, type, i);
    }
    size_t off = 0;
    for (uint32_t i = 0; nest_partial(e->n) && i < e->n->reduce.n; i++) {
        const Reduce *x = &e->n->reduce.at[i];
        emit_line(e);
        const char *type = emit_acc_type(x);
        text_fmt(e->t, "%s *q%u = (%s *)", type, i, type);
        if (off)
            text_fmt(e->t, "((char *)p[%u] + %.*s);\n", scratch,
                     SARG(emit_num(e, RoleScratch, (int64_t)off)));
        else
            text_fmt(e->t, "p[%u];\n", scratch);
        off += nest_unit_bytes(e->n, x);
    }
}

// The prefix's variables and the tile from number `u`. `tiles`: how many numbers a tile takes part
// in.
static void put_decode(Emit *e, int64_t tiles) {
    const Nest *n = e->n;
    int64_t below = tiles;
    if (tiles > 1) {
        const Var *v = &n->var[n->tiled];
        Str size = emit_num(e, RoleTile, v->tile);
        Str all = emit_num(e, RoleExtent + emit_position(n, n->tiled), v->n);
        text_fmt(emit_line(e), "const int64_t from = u %% %.*s * %.*s;\n",
                 SARG(emit_num(e, RoleTiles, tiles)), SARG(size));
        text_fmt(emit_line(e), "const int64_t to = from + %.*s < %.*s ? from + %.*s : %.*s;\n",
                 SARG(size), SARG(all), SARG(size), SARG(all));
    }
    for (uint32_t i = n->prefix; i-- > 0;) {
        int64_t extent = n->var[n->order[i]].n;
        text_fmt(emit_line(e), "const int64_t i%u = u", i);
        if (below > 1)
            text_fmt(e->t, " / %.*s", SARG(emit_num(e, RoleUnits, below)));
        if (i > 0)
            text_fmt(e->t, " %% %.*s", SARG(emit_num(e, RoleExtent + i, extent)));
        text_put(e->t, STR(";\n"));
        below *= extent;
    }
}

// All of a unit behind its variables.
static void put_unit(Emit *e, uint32_t k) {
    emit_level(e, 1);
    put_acc_init(e);
    if (e->lanes && !many(e))
        put_lanes_begin(e);
    put_loops(e, k);
    if (e->lanes && !many(e))
        put_lanes_end(e);
    put_results(e);
}

// Of variable i of the prefix, which is cut: the cell that the unit is in.
static void put_cut_unit(Emit *e, uint32_t i) {
    for (uint32_t c = 0; c < e->cells.n; c++) {
        text_put(emit_line(e), c ? STR("else") : STR(""));
        if (c + 1 < e->cells.n)
            text_fmt(e->t, "%sif (i%u < %.*s)", c ? " " : "", i,
                     SARG(emit_num(e, RoleBound, e->cells.cell[c].to)));
        emit_open(e);
        put_known(e, e->cells.known, e->cells.cell[c].holds, put_unit, e->n->prefix);
        emit_close(e);
    }
}

static void put_units(Emit *e) {
    const Nest *n = e->n;
    uint32_t cut = 0;
    while (cut < n->prefix && n->order[cut] != e->cells.var)
        cut++;
    emit_level(e, 0);
    if (n->flat) {
        put_simd(e);
        text_put(emit_line(e), STR("for (int64_t i0 = lo; i0 < hi; i0++)"));
        emit_open(e);
        emit_level(e, 2);
        emit_body(e, 's');
        emit_close(e);
        return;
    }
    put_around_few(e, n->prefix - 1);
    text_put(emit_line(e), STR("for (int64_t u = lo; u < hi; u++)"));
    emit_open(e);
    put_inside_around_few(e, n->prefix - 1);
    put_decode(e, nest_tiles(n));
    if (cut < n->prefix)
        put_cut_unit(e, cut);
    else
        put_unit(e, n->prefix);
    emit_close(e);
}

// Reduces the partial results of the pieces of number `u`, first to last, to its accumulators.
static void put_join(Emit *e) {
    int64_t count = nest_accumulators(e->n);
    Str parts = emit_num(e, RoleTiles, nest_tiles(e->n)), accs = emit_num(e, RoleSums, count);
    for (uint32_t i = 0; i < e->n->reduce.n; i++) {
        const Reduce *r = &e->n->reduce.at[i];
        const char *type = emit_acc_type(r), *f = r->dtype == DtF64 ? "" : "f";
        emit_line(e);
        if (count == 1)
            text_fmt(e->t, "%s s%u;\n", type, i);
        else
            text_fmt(e->t, "%s s%u[%d];\n", type, i, nest_most_accumulators(e->n));
        text_fmt(emit_line(e), "gan_%s_parts%s(%ss%u, q%u + u*%.*s*%.*s, %.*s, %.*s);\n",
                 emit_adds(r) ? "sum" : "max", f, count == 1 ? "&" : "", i, i, SARG(parts),
                 SARG(accs), SARG(parts), SARG(accs));
    }
}

static void put_finish(Emit *e) {
    const Nest *n = e->n;
    text_fmt(emit_line(e), "for (int64_t u = 0; u < %.*s; u++)",
             SARG(emit_num(e, RoleUnits, n->units / nest_tiles(n))));
    emit_open(e);
    put_decode(e, 1);
    put_join(e);
    int opened = put_kept_loops(e);
    for (uint32_t i = 0; i < n->reduce.n; i++)
        emit_result(e, i);
    while (opened--)
        emit_close(e);
    emit_close(e);
}

// Those that the function writes, from argument `arg`.
static void put_numbers(Emit *e, uint32_t arg) {
    bool any = false;
    for (uint32_t i = 0; i < e->numbers->n; i++) {
        if (!e->use.at[i].written)
            continue;
        if (!any)
            text_fmt(e->t, "    const int64_t *n = (const int64_t *)p[%u];\n", arg);
        any = true;
        text_put(e->t, STR("    "));
        if (e->use.at[i].role == RoleReal) {
            emit_real(e, i, str_format(e->t->arena, "n[%u]", i));
            continue;
        }
        text_fmt(e->t, "const int64_t n%u = n[%u]", i, i);
        emit_end_number(e, i);
    }
}

// A function around `body`: its arguments are known when that is written.
static void put_function(Emit *e, const char *head, void (*body)(Emit *e), bool finish) {
    Text *out = e->t, inside = {.arena = out->arena};
    e->t = &inside;
    e->depth = 1;
    for (uint32_t i = 0; i < e->use.n; i++)
        e->use.at[i].written = false;
    put_args(e, finish);
    body(e);
    e->t = out;
    if (e->counters && !finish)
        text_put(out, str_c(e->d->draws));
    text_fmt(out, head, SARG(e->name));
    put_numbers(e, e->n->arg.n + 1);
    text_put(out, text_str(&inside));
    text_put(out, STR("}\n"));
}

void emit_loops(Emit *e) {
    const Nest *n = e->n;
    e->lanes = n->reduce.n && n->prefix < n->orders && n->var[n->order[n->orders - 1]].reduced;
    e->acc = put_acc;
    e->narrow = true;
    nest_cells(n, e->t->arena, e->guards, &e->cells);
    put_function(e, e->d->signature, put_units, false);
    if (nest_partial(n))
        put_function(e, e->d->finish, put_finish, true);
}
