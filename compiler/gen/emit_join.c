// emit_join.c - the text of a team's accumulators (emit_team.c, reduce.cuh): what each thread has,
// how the team reduces them, and how the last block of a split reduction reduces partial results.
#include "emit_team.h"

enum {
    PartsInFlight = 4, // partial results whose loads a thread has in flight, at most,
    PartsHeld = 144,   // and bytes of them: with 192 a sum and squares of four units spill
    JoinedAtOnce = 64, // bytes of a thread's accumulators: a block has 48 KB of shared memory
};

// --- accumulators --------------------------------------------------------------------------------

// Of squares the accumulator and its element: two arguments.
void emit_team_acc(Emit *e, char name, uint32_t r) {
    if (e->n->reduce.at[r].kind == ReduceSquares)
        text_fmt(e->t, team_packs_units(e) ? "%c%u, l" : "%c%u, 0", name, r);
    else
        text_fmt(e->t, team_packs_units(e) ? "%c%u.at[l]" : "%c%u", name, r);
}

// A variable that holds a `one` for each unit of a pack, or for the only one.
static Str for_units(Emit *e, const char *one) {
    return team_packs_units(e) ? str_format(e->t->arena, "gan_pack<%s, %u>", one, team(e)->pack)
                               : str_c(one);
}

// The arguments of a template for squares: a type, and how many of it.
static Str of_squares(Emit *e, const char *name, const Reduce *r) {
    return str_format(e->t->arena, "%s<%s, %u>", name, emit_acc_type(r),
                      team_packs_units(e) ? team(e)->pack : 1);
}

static Str acc_type(Emit *e, const Reduce *r) {
    return r->kind == ReduceSquares ? of_squares(e, "gan_moments", r)
                                    : for_units(e, emit_acc_type(r));
}

// Of a piece's partial result.
Str emit_part_type(Emit *e, const Reduce *r) {
    if (r->kind == ReduceSquares)
        return of_squares(e, "gan_part", r);
    if (r->kind != ReduceArgMax)
        return acc_type(e, r);
    return for_units(e,
                     str_format(e->t->arena, "gan_best<%s, %s>", emit_acc_type(r), e->index).ptr);
}

static const char *join_op(bool adds) {
    return adds ? "gan_sum" : "gan_max";
}

static void put_identity(Emit *e, const Reduce *r) {
    if (emit_adds(r) && (team_packs_units(e) || r->kind == ReduceSquares))
        text_put(e->t, STR("{}"));
    else if (team_packs_units(e))
        text_fmt(e->t, "gan_all<%s, %u>(%s)", emit_acc_type(r), team(e)->pack, emit_identity(r));
    else
        text_put(e->t, str_c(emit_identity(r)));
}

// Declares accumulators with their identities, or resets them.
static void put_start(Emit *e, bool declared) {
    for (uint32_t i = 0; i < e->n->reduce.n; i++) {
        const Reduce *r = &e->n->reduce.at[i];
        bool best = r->kind == ReduceArgMax; // its value and its index are two variables
        emit_line(e);
        if (!declared)
            text_fmt(e->t, "%.*s ", SARG(acc_type(e, r)));
        text_fmt(e->t, "s%u = ", i);
        put_identity(e, r);
        text_put(e->t, STR(";\n"));
        if (best) {
            Str type = for_units(e, e->index);
            text_fmt(emit_line(e), "%.*s%sx%u = %s;\n", declared ? 0 : (int)type.len, type.ptr,
                     declared ? "" : " ", i, team_packs_units(e) ? "{}" : "0");
        }
    }
}

// A line of each ArgMax, about its number three times. Its maximum and index are one variable while
// they are reduced: that is made, made anew, and taken apart.
static const char best[] = "auto m%u = gan_best_of(s%u, x%u);\n",
                  best_again[] = "m%u = gan_best_of(s%u, x%u);\n",
                  best_back[] = "gan_split(m%u, &s%u, &x%u);\n";

static void put_bests(Emit *e, const char *line) {
    for (uint32_t i = 0; i < e->n->reduce.n; i++)
        if (e->n->reduce.at[i].kind == ReduceArgMax)
            text_fmt(emit_line(e), line, i, i, i);
}

// Adds an argument to the call of join, or begins another one.
static void put_joined(Emit *e, const Reduce *r, Str arg, size_t bytes, size_t *sum) {
    bool more = *sum && *sum + bytes <= JoinedAtOnce;
    if (!more) {
        text_put(e->t, *sum ? STR(");\n") : STR(""));
        text_fmt(emit_line(e), "team.join<%s>(", join_op(emit_adds(r)));
    }
    text_fmt(e->t, more ? ", %.*s" : "%.*s", SARG(arg));
    *sum = more ? *sum + bytes : bytes;
}

// The accumulators that are reduced in this way, several at once.
static void put_join_of(Emit *e, bool adds) {
    Arena *a = e->t->arena;
    size_t sum = 0;
    for (uint32_t i = 0; i < e->n->reduce.n; i++) {
        const Reduce *r = &e->n->reduce.at[i];
        size_t one = dtype_size[r->dtype], all = one * (team_packs_units(e) ? team(e)->pack : 1);
        if (emit_adds(r) != adds)
            continue;
        if (r->kind == ReduceSquares) {
            put_joined(e, r, str_format(a, "s%u.sum", i), all, &sum);
            put_joined(e, r, str_format(a, "s%u.squares", i), all, &sum);
            put_joined(e, r, str_format(a, "s%u.n", i), one, &sum);
        } else if (r->kind == ReduceArgMax) {
            put_joined(e, r, str_format(a, "m%u", i), 2 * all, &sum);
        } else {
            put_joined(e, r, str_format(a, "s%u", i), all, &sum);
        }
    }
    text_put(e->t, sum ? STR(");\n") : STR(""));
}

static void put_join(Emit *e) {
    const Nest *n = e->n;
    for (uint32_t i = 0; i < n->reduce.n; i++)
        if (n->reduce.at[i].kind == ReduceSquares)
            text_fmt(emit_line(e), "team.settle(&s%u);\n", i);
    put_join_of(e, true);
    put_bests(e, best);
    put_join_of(e, false);
    put_bests(e, best_back);
}

// Results that are not stored as packs, and what is computed of results.
static void put_element_results(Emit *e) {
    for (uint32_t i = 0; i < e->n->reduce.n; i++)
        if (!e->n->reduce.at[i].pack)
            emit_result(e, i);
    if (e->n->derived.n)
        emit_level(e, LevelResult);
    for (uint32_t i = 0; i < e->n->derived.n; i++)
        emit_store(e, &e->n->derived, i);
}

// The same of a pack of units, one after the other.
static void put_elements_results(Emit *e) {
    emit_elements_open(e);
    if (nest_shifts(e->n)) {
        uint32_t i = emit_position(e->n, team(e)->lane);
        text_fmt(emit_line(e), "if (i%u + l < f%u)\n", i, i);
        text_put(emit_line(e), STR("    continue;\n"));
    }
    put_element_results(e);
    emit_elements_close(e);
}

// Part 0 stores the team's results.
static void put_results(Emit *e) {
    bool elements = e->n->derived.n > 0;
    text_put(emit_line(e), STR("if (active && team.part() == 0)"));
    emit_open(e);
    for (uint32_t i = 0; i < e->n->reduce.n; i++) {
        const Reduce *r = &e->n->reduce.at[i];
        elements |= !r->pack;
        if (r->pack) {
            text_fmt(emit_line(e), "gan_store(&a%u[", r->arg);
            emit_ix(e, r->at);
            text_fmt(e->t, r->kind == ReduceSquares ? "], gan_squares(s%u));\n" : "], s%u);\n", i);
        }
    }
    emit_packs_declared(e, &e->n->derived);
    if (elements)
        (team_packs_units(e) ? put_elements_results : put_element_results)(e);
    emit_packs_stored(e, &e->n->derived);
    emit_close(e);
}

void emit_accumulators(Emit *e) {
    put_start(e, false);
}

void emit_join(Emit *e) {
    put_join(e);
    put_results(e);
}

// --- split reductions ----------------------------------------------------------------------------

// Stores a piece's partial result.
static void put_partial(Emit *e, Str units) {
    text_put(emit_line(e), STR("if (active && team.part() == 0)"));
    emit_open(e);
    for (uint32_t i = 0; i < e->n->reduce.n; i++) {
        const Reduce *r = &e->n->reduce.at[i];
        text_fmt(emit_line(e), "q%u[piece * %.*s + u] = ", i, SARG(units));
        if (r->kind == ReduceArgMax)
            text_fmt(e->t, "gan_best_of(s%u, x%u);\n", i, i);
        else
            text_fmt(e->t, r->kind == ReduceSquares ? "gan_part_of(s%u);\n" : "s%u;\n", i);
    }
    emit_close(e);
}

// Adds the partial result of piece p, the k-th of those loaded, to an accumulator.
static void put_partial_added(Emit *e, uint32_t i) {
    const Reduce *r = &e->n->reduce.at[i];
    emit_line(e);
    if (r->kind == ReduceSquares) {
        Str share = emit_num(e, RoleShare, team(e)->share),
            steps = emit_num(e, RoleSteps, team(e)->steps);
        text_fmt(e->t, "gan_add_part(&s%u, t%u.at[k], ", i, i);
        bool along = !team(e)->across && team(e)->pack > 1;
        text_fmt(e->t,
                 along ? "(p < last_piece ? %.*s : %.*s - p * %.*s) * %u);\n"
                       : "p < last_piece ? %.*s : %.*s - p * %.*s);\n",
                 SARG(share), SARG(steps), SARG(share), team(e)->pack);
        return;
    }
    text_fmt(e->t,
             r->kind == ReduceArgMax ? "m%u = %s::of(m%u, t%u.at[k]);\n"
                                     : "s%u = %s::of(s%u, t%u.at[k]);\n",
             i, join_op(emit_adds(r)), i, i);
}

static uint32_t parts_in_flight(const Emit *e) {
    size_t bytes = 0;
    for (uint32_t i = 0; i < e->n->reduce.n; i++)
        bytes += nest_part_bytes(e->n, &e->n->reduce.at[i]);
    size_t parts = PartsHeld / bytes;
    return parts > PartsInFlight ? PartsInFlight : parts > 1 ? (uint32_t)parts : 1;
}

// Accumulates the thread's share of the partial results, the loads of several in flight together.
static void put_partials(Emit *e, Str units, Str pieces) {
    const Nest *n = e->n;
    uint32_t parts = parts_in_flight(e);
    put_start(e, true);
    put_bests(e, best_again);
    text_fmt(emit_line(e), "const int last_piece = %.*s - 1;\n", SARG(pieces));
    text_put(emit_line(e), STR("#pragma unroll 1\n"));
    emit_line(e);
    Str size = team_size(e, 1);
    text_fmt(e->t, "for (int at = active ? team.part() : %.*s; at <= last_piece; at += %.*s)",
             SARG(pieces), SARG(team_size(e, parts)));
    emit_open(e);
    for (uint32_t i = 0; i < n->reduce.n; i++) {
        text_fmt(emit_line(e),
                 "const auto t%u = gan_load_parts<%u>(q%u, u, %.*s, at, %.*s, last_piece);\n", i,
                 parts, i, SARG(units), SARG(size));
    }
    text_put(emit_line(e), STR("#pragma unroll\n"));
    text_fmt(emit_line(e), "for (int k = 0, p = at; k < %u; k++, p += %.*s)", parts, SARG(size));
    emit_open(e);
    text_put(emit_line(e), STR("if (p > last_piece)\n"));
    text_put(emit_line(e), STR("    break;\n"));
    for (uint32_t i = 0; i < n->reduce.n; i++)
        put_partial_added(e, i);
    emit_close(e);
    emit_close(e);
    put_bests(e, best_back);
}

// A split reduction: each block reduces its piece and stores a partial result; the last block of
// the unit reduces the partial results. A loop of two rounds, so that the tree of a team, which
// takes longest to compile, is in the text once.
void emit_pieces(Emit *e) {
    const Nest *n = e->n;
    Str units = emit_num(e, RoleUnits, n->units), pieces = emit_num(e, RolePieces, team(e)->pieces);
    text_put(emit_line(e),
             STR("// split reduction: the last block reduces the partial results of all\n"));
    text_put(emit_line(e), STR("#pragma unroll 1\n"));
    emit_line(e);
    if (team(e)->open_pieces)
        text_fmt(e->t, "for (bool last = %.*s == 1;;)", SARG(pieces));
    else
        text_put(e->t, STR("for (bool last = false;;)"));
    emit_open(e);
    put_join(e);
    text_put(emit_line(e), STR("if (last)"));
    emit_open(e);
    put_results(e);
    text_put(emit_line(e), STR("break;\n"));
    emit_close(e);
    put_partial(e, units);
    text_fmt(emit_line(e), "last = gan_is_last(tickets + group, %.*s);\n", SARG(pieces));
    text_put(emit_line(e), STR("if (!last)\n"));
    text_put(emit_line(e), STR("    break;\n"));
    put_partials(e, units, pieces);
    emit_close(e);
}
