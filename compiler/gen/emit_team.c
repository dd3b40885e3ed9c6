// emit_team.c - the text of a nest shaped for blocks of threads (team.c, kernel_cuda.h), but for
// the accumulators of its reductions (emit_join.c).
//
// Without reductions a kernel is one thread per unit, or a grid-stride loop over units where
// regions share a launch. With them, or where columns are walked, a thread block takes several
// units (or, in a split reduction, one piece of each) and every thread accumulates its steps. Then
// the team reduces its threads' accumulators, and part 0 stores the result. In a split reduction
// part 0 stores a partial result, and the last block to finish reduces those in the same way.
//
// Every thread of a block reaches every barrier and shuffle. A thread without a unit of its own is
// inactive: it computes unit 0's addresses, takes no step and stores nothing.
#include "emit_team.h"

#include "integers.h"

#include <ctype.h>
#include <inttypes.h>
#include <math.h>

static const char *unit_type(const Emit *e) {
    return team(e)->wide ? "uint64_t" : "uint32_t";
}

// --- packs ---------------------------------------------------------------------------------------

void emit_elements_open(Emit *e) {
    text_put(emit_line(e), STR("#pragma unroll\n"));
    text_fmt(emit_line(e), "for (int l = 0; l < %u; l++)", team(e)->pack);
    emit_open(e);
    e->in_pack = true;
}

void emit_elements_close(Emit *e) {
    e->in_pack = false;
    emit_close(e);
}

static void open_pack(Emit *e) {
    if (team(e)->pack == 1)
        return;
    emit_elements_open(e);
    emit_pack_open(e, true);
    emit_level(e, LevelPack);
}

static void close_pack(Emit *e) {
    if (team(e)->pack > 1)
        emit_elements_close(e);
}

void emit_packs_declared(Emit *e, const StoreVec *stores) {
    for (uint32_t i = 0; i < stores->n; i++) {
        const Store *s = &stores->at[i];
        if (!s->pack || emit_copied_pack(e, s) != NONE)
            continue;
        text_fmt(emit_line(e), "gan_pack<%s, %u> y%u;\n", words_c.storage[nest_dtype(e->n, s->arg)],
                 team(e)->pack, i);
    }
}

void emit_packs_stored(Emit *e, const StoreVec *stores) {
    for (uint32_t i = 0; i < stores->n; i++) {
        const Store *s = &stores->at[i];
        if (!s->pack)
            continue;
        text_fmt(emit_line(e), "gan_store(&a%u[", s->arg);
        emit_ix(e, s->at);
        uint32_t copied = emit_copied_pack(e, s);
        text_put(e->t, STR("], "));
        if (copied != NONE)
            emit_pack_name(e, copied);
        else
            text_fmt(e->t, "y%u", i);
        text_put(e->t, STR(");\n"));
    }
}

// What is done with one pack of elements.
static void put_pack(Emit *e) {
    const Nest *n = e->n;
    bool elements = n->reduce.n > 0; // is anything done with single elements?
    for (uint32_t i = 0; i < n->store.n; i++)
        elements |= emit_copied_pack(e, &n->store.at[i]) == NONE;
    emit_packs_declared(e, &n->store);
    if (elements) {
        open_pack(e);
        emit_body(e, 's');
        emit_pack_open(e, false);
        close_pack(e);
    }
    emit_packs_stored(e, &n->store);
}

// --- numbers to variables ------------------------------------------------------------------------

// Declares NAME = number / n, where n, an argument, is `of`.
static void put_quotient(Emit *e, const char *name, Str number, uint32_t role, int64_t of) {
    text_fmt(emit_line(e), "%sconst uint32_t %s = gan_divide(%.*s, %.*s);\n", emit_if_named(e),
             name, SARG(number), SARG(emit_num(e, role, fast_divisor(of))));
}

static bool is_name(Str text) {
    return str_find(text, ' ') == text.len;
}

// A tile begins early enough to be full; its own units are those from f on.
static void put_shift(Emit *e, uint32_t i) {
    Str last = emit_num(e, RoleBound, e->n->var[team(e)->lane].n - team(e)->pack);
    text_fmt(emit_line(e), "const %s i%u = f%u < %.*s ? f%u : %.*s;\n", e->index, i, i, SARG(last),
             i, SARG(last));
}

// A unit's number, without the packs that run fastest.
static Str number_but_packs(Emit *e) {
    return team(e)->fast > 1 ? str_format(e->t->arena, "u / %u", team(e)->fast) : STR("u");
}

// What is left of a number after some variables: `number`, which is still to be divided.
typedef struct Left {
    Str number;
    int64_t by;
} Left;

static Str left_of(Emit *e, const Left *left) {
    return left->by > 1 ? str_format(e->t->arena, "%.*s / %" PRId64, SARG(left->number), left->by)
                        : left->number;
}

// The variable order[i], of this extent, which leaves the rest.
static Str take_digit(Emit *e, Left *left, uint32_t i, int64_t extent) {
    Arena *a = e->t->arena;
    Str at = left_of(e, left), of = emit_num(e, RoleExtent + i, extent);
    if (*of.ptr != 'n') { // written out
        left->by *= extent;
        return str_format(a, "%.*s %% %.*s", SARG(at), SARG(of));
    }
    if (team(e)->wide) {
        *left = (Left){str_format(a, "%.*s / %.*s", SARG(at), SARG(of)), 1};
        return str_format(a, "%.*s %% %.*s", SARG(at), SARG(of));
    }
    *left = (Left){str_format(a, "o%u", i), 1};
    put_quotient(e, left->number.ptr, at, RoleInverse + i, extent);
    return str_format(a, "%.*s - %.*s * %.*s", SARG(at), SARG(left->number), SARG(of));
}

// Variables order[first..last) from the number called `from`, the last one fastest: the unit's "u",
// or "r", the step's, which is of an index's type already.
static void put_decode(Emit *e, const char *from, uint32_t first, uint32_t last) {
    const Nest *n = e->n;
    bool typed = *from == 'r';
    Left left = {str_c(from), 1};
    for (uint32_t i = last; i-- > first;) {
        uint32_t v = n->order[i], pack = v == team(e)->lane ? team(e)->pack : 1;
        uint32_t fast = v == team(e)->lane ? team(e)->fast : 1;
        int64_t extent = ceil_div(n->var[v].n, pack * fast);
        Str at = i > first ? take_digit(e, &left, i, extent) : left_of(e, &left);
        bool shifted = pack > 1 && nest_shifts(n);
        text_fmt(emit_line(e), "%sconst %s %c%u = ", emit_if_named(e), e->index,
                 shifted ? 'f' : 'i', i);
        if (typed)
            text_fmt(e->t, pack > 1 && !is_name(at) ? "(%.*s)" : "%.*s", SARG(at));
        else
            text_fmt(e->t, is_name(at) ? "(%s)%.*s" : "(%s)(%.*s)", e->index, SARG(at));
        if (pack > 1)
            text_fmt(e->t, " * %u", pack * fast);
        if (fast > 1)
            text_fmt(e->t, " + u %% %u * %u", fast, pack);
        text_put(e->t, STR(";\n"));
        if (shifted)
            put_shift(e, i);
    }
}

// --- units ---------------------------------------------------------------------------------------

static void put_elements(Emit *e) {
    const char *type = unit_type(e), *wide = team(e)->wide ? "(uint64_t)" : "";
    Str first = str_format(e->t->arena, "%sblockIdx.x * %u + threadIdx.x", wide, team(e)->units),
        count = emit_num(e, RoleUnits, e->n->units);
    bool one = !e->n->orders; // one element: only its own thread may read what it overwrites
    if (!one)
        emit_level(e, 0);
    emit_line(e);
    if (team_many(e)) {
        text_fmt(e->t, "for (%s u = %.*s; u < %.*s; u += %sgridDim.x * %u)", type, SARG(first),
                 SARG(count), wide, team(e)->units);
    } else {
        text_fmt(e->t, "const %s u = %.*s;\n", type, SARG(first));
        text_fmt(emit_line(e), "if (u < %.*s)", SARG(count));
    }
    emit_open(e);
    Str u = number_but_packs(e);
    put_decode(e, u.ptr, 0, e->n->prefix);
    if (one)
        emit_level(e, 0);
    emit_level(e, LevelUnit);
    put_pack(e);
    emit_close(e);
}

// The block's units, or its piece of them. Regions that share a launch share its grid, which is
// that of the largest or smaller, so there the loop over blocks is grid-stride.
static void open_blocks(Emit *e) {
    uint32_t units = team(e)->units;
    Str count = emit_num(e, RoleUnits, e->n->units), pieces = {0}; // the first numbers in any form
    if (team_is_cut(e))
        pieces = emit_num(e, RolePieces, team(e)->pieces);
    if (!team_many(e))
        return;
    emit_line(e);
    if (team(e)->open)
        text_fmt(e->t, "const uint32_t blocks = (%.*s + units - 1) / units", SARG(count));
    else
        text_fmt(e->t, "const uint32_t blocks = (%.*s + %u) / %u", SARG(count), units - 1, units);
    if (team_is_cut(e))
        text_fmt(e->t, " * %.*s", SARG(pieces));
    text_put(e->t, STR(";\n"));
    text_put(emit_line(e), STR("for (uint32_t b = blockIdx.x; b < blocks; b += gridDim.x)"));
    emit_open(e);
}

// What differs by lane, and not by step.
static void put_once(Emit *e) {
    size_t before = e->t->n;
    emit_once(e, true);
    if (e->t->n == before)
        return;
    emit_elements_open(e);
    emit_once(e, false);
    emit_elements_close(e);
}

// The block's units and its piece of them; the inverse of one is none.
static void put_piece(Emit *e, const char *block) {
    Str pieces = emit_num(e, RolePieces, team(e)->pieces),
        by = emit_num(e, RoleInversePieces, fast_divisor(team(e)->pieces));
    emit_line(e);
    if (team(e)->open_pieces)
        text_fmt(e->t, "const uint32_t group = gan_group_of(%s, %.*s, %.*s);\n", block,
                 SARG(pieces), SARG(by));
    else
        text_fmt(e->t, "const uint32_t group = gan_divide(%s, %.*s);\n", block, SARG(by));
    text_fmt(emit_line(e), "const uint32_t piece = %s - group * %.*s;\n", block, SARG(pieces));
}

// The thread's unit, its variables and values.
static void put_unit(Emit *e) {
    const char *type = unit_type(e), *block = team_many(e) ? "b" : "blockIdx.x";
    if (team_is_cut(e))
        put_piece(e, block);
    text_fmt(emit_line(e), "const %s unit = %s%s * %.*s + team.unit();\n", type,
             team(e)->wide ? "(uint64_t)" : "", team_is_cut(e) ? "group" : block,
             SARG(team_units(e)));
    text_fmt(emit_line(e), "const bool active = unit < %.*s;\n",
             SARG(emit_num(e, RoleUnits, e->n->units)));
    if (e->n->prefix || team_leaves_parts(e) || e->n->indexed)
        text_fmt(emit_line(e), "const %s u = active ? unit : 0;\n", type);
    Str u = number_but_packs(e);
    if (e->n->indexed) // tiles run fastest
        u = str_format(e->t->arena, "u / %.*s", SARG(emit_num(e, RoleTiles, nest_tiles(e->n))));
    put_decode(e, u.ptr, 0, e->n->prefix);
    emit_level(e, LevelUnit);
    put_once(e);
}

// Is there this word in the text?
static bool names(Str text, Str word) {
    for (size_t i = 0; i + word.len <= text.len; i++) {
        Str here = str_sub(text, i, i + word.len);
        bool begins = !i || !isalnum((unsigned char)text.ptr[i - 1]);
        bool ends = i + word.len == text.len || !isalnum((unsigned char)text.ptr[i + word.len]);
        if (begins && ends && str_eq(here, word))
            return true;
    }
    return false;
}

// What a line "    const int j0 = ..." declares: the word before the `=`.
static Str declared_name(Str line) {
    size_t end = str_find(line, '=') - 1, begin = end;
    while (line.ptr[begin - 1] != ' ')
        begin--;
    return str_sub(line, begin, end);
}

// Puts a part's text without the declarations that nothing behind them names, from the last one on.
static void put_named(Text *t, Str part) {
    Str kept = {0};
    for (size_t end = part.len, begin; end; end = begin) {
        begin = end - 1;
        while (begin && part.ptr[begin - 1] != '\n')
            begin--;
        Str line = str_sub(part, begin, end);
        size_t mark = str_find(line, *IF_NAMED);
        if (mark == line.len)
            kept = str_format(t->arena, "%.*s%.*s", SARG(line), SARG(kept));
        else if (names(kept, declared_name(line)))
            kept = str_format(t->arena, "%.*s%.*s%.*s", SARG(str_sub(line, 0, mark)),
                              SARG(str_sub(line, mark + 1, line.len)), SARG(kept));
    }
    text_put(t, kept);
}

// Step k of several from `at` on. Where steps are left over, the loads of those behind the last are
// of step `at` once more, and the rest is left out.
static void put_step(Emit *e, StepPart part, Str r, Str end) {
    const Team *t = team(e);
    bool left = t->open || t->steps % (t->unroll * t->size), loads = part == StepLoads;
    Str size = team_size(e, 1);
    text_fmt(emit_line(e), "%sconst %s %.*s = at + k * %.*s", emit_if_named(e), e->index, SARG(r),
             SARG(size));
    if (left && loads)
        text_fmt(e->t, " < %.*s ? at + k * %.*s : at", SARG(end), SARG(size));
    text_put(e->t, STR(";\n"));
    if (!left || loads)
        return;
    text_fmt(emit_line(e), "if (k && at + k * %.*s >= %.*s)\n", SARG(size),
             SARG(end)); // the first is there
    text_put(emit_line(e), STR("    break;\n"));
}

// One part of each of several steps, from step `at` on.
static void put_part(Emit *e, StepPart part, Str r, Str end, bool decodes) {
    e->part = part;
    text_put(emit_line(e), STR("#pragma unroll\n"));
    text_fmt(emit_line(e), "for (int k = 0; k < %u; k++)", team(e)->unroll);
    emit_open(e);
    Text *out = e->t, body = {.arena = out->arena};
    e->t = &body;
    put_step(e, part, r, end);
    if (decodes)
        put_decode(e, "r", e->n->prefix, e->n->orders);
    emit_level(e, LevelStep);
    if (part == StepRest)
        put_pack(e);
    e->t = out;
    put_named(out, text_str(&body));
    emit_close(e);
    e->part = StepWhole;
}

// Several steps: all their loads, then all the rest.
static void put_parts(Emit *e, Str r, Str end, bool decodes) {
    for (uint32_t i = 0; i < e->n->value.n; i++) {
        const Value *v = &e->n->value.at[i];
        if (v->pack != LevelStep || !e->named[i])
            continue;
        text_fmt(emit_line(e), "gan_pack<%s, %u> p%u[%u];\n",
                 words_c.storage[nest_dtype(e->n, v->arg)], team(e)->pack, i, team(e)->unroll);
    }
    put_part(e, StepLoads, r, end, decodes);
    put_part(e, StepRest, r, end, decodes);
}

// The thread's steps of the unit, or of its piece. The counter is signed: only then can the
// compiler compute the trip count, and have several loads in flight. It moves no load ahead of a
// store, which may be to the same address: steps that store are written so.
static void put_steps(Emit *e) {
    const Nest *n = e->n;
    const char *type = e->index, *begin = "";
    bool parts = team(e)->ahead;
    Str end = emit_num(e, RoleSteps, team(e)->steps);
    if (team_is_cut(e)) {
        Str share = emit_num(e, RoleShare, team(e)->share);
        text_fmt(emit_line(e), "const %s begin = piece * %.*s;\n", type, SARG(share));
        text_fmt(emit_line(e), "const %s end = begin + %.*s < %.*s ? begin + %.*s : %.*s;\n", type,
                 SARG(share), SARG(end), SARG(share), SARG(end));
        end = STR("end");
        begin = "begin + ";
    }
    bool alone = n->orders == n->prefix + 1 && // then the step is the variable
                 (n->order[n->prefix] != team(e)->lane || team(e)->pack == 1);
    Str r = alone ? str_format(e->t->arena, "i%u", n->prefix) : STR("r"),
        at = parts ? STR("at") : r;
    text_fmt(emit_line(e), "#pragma unroll %u\n",
             parts ? 1 : team(e)->unroll); // not by its own guess
    text_fmt(emit_line(e),
             "for (%s %.*s = active ? %steam.part() : %.*s; %.*s < %.*s; %.*s += %.*s)", type,
             SARG(at), begin, SARG(end), SARG(at), SARG(end), SARG(at),
             SARG(team_size(e, parts ? team(e)->unroll : 1)));
    emit_open(e);
    if (parts) {
        put_parts(e, r, end, !alone);
    } else {
        if (!alone)
            put_decode(e, "r", n->prefix, n->orders);
        emit_level(e, LevelStep);
        put_pack(e);
    }
    emit_close(e);
}

// --- rows of a scatter ---------------------------------------------------------------------------

// A unit's tile of the table's rows: those from `from` to `to`.
static void put_tile(Emit *e) {
    const Nest *n = e->n;
    const char *type = e->index;
    Str tile = emit_num(e, RoleTile, n->var[n->rows].tile),
        tiles = emit_num(e, RoleTiles, nest_tiles(n)),
        rows = emit_num(e, RoleBound, n->var[n->rows].n);
    text_fmt(emit_line(e), "const %s from = (%s)(u %% %.*s) * %.*s;\n", type, type, SARG(tiles),
             SARG(tile));
    text_fmt(emit_line(e), "const %s to = from + %.*s < %.*s ? from + %.*s : %.*s;\n", type,
             SARG(tile), SARG(rows), SARG(tile), SARG(rows));
    text_put(emit_line(e), STR("table::clear(to - from);\n"));
}

// One element of a step. Lanes whose row is in the tile load their terms together, then add them
// one after the other.
static void put_term(Emit *e) {
    const Nest *n = e->n;
    uint32_t row = n->orders - 1;
    text_fmt(emit_line(e), "const %s i%u = (%s)", e->index, row, e->index);
    emit_ref(e, n->row);
    text_put(e->t, STR(";\n"));
    text_fmt(emit_line(e), "const bool hit = is_term && i%u >= from && i%u < to;\n", row, row);
    text_fmt(emit_line(e), "%s term = 0;\n", emit_acc_type(&n->reduce.at[0]));
    text_put(emit_line(e), STR("if (hit)"));
    emit_open(e);
    emit_level(e, LevelHit);
    text_put(emit_line(e), STR("term = "));
    emit_ref(e, n->reduce.at[0].value);
    text_put(e->t, STR(";\n"));
    emit_close(e);
    text_fmt(emit_line(e), "table::add(hit, i%u - from, term);\n", row);
}

// All lanes of a warp take each step, because they add together: those beyond the last term, and
// those without a unit, load the first term and add nothing.
static void put_terms(Emit *e) {
    const Nest *n = e->n;
    Str end = emit_num(e, RoleSteps, team(e)->steps);
    text_fmt(emit_line(e), "for (%s step = 0; step < %.*s; step += %u)", e->index, SARG(end),
             team(e)->size);
    emit_open(e);
    text_fmt(emit_line(e), "const bool is_term = active && step + (%s)team.part() < %.*s;\n",
             e->index, SARG(end));
    text_fmt(emit_line(e), "const %s r = is_term ? step + (%s)team.part() : 0;\n", e->index,
             e->index);
    put_decode(e, "r", n->prefix, n->orders - 1);
    emit_level(e, LevelStep);
    if (team(e)->pack > 1)
        open_pack(e);
    put_term(e);
    emit_pack_open(e, false);
    close_pack(e);
    emit_close(e);
}

static void put_table(Emit *e) {
    const Nest *n = e->n;
    uint32_t row = n->orders - 1;
    text_put(emit_line(e), STR("table::sync();\n"));
    text_fmt(emit_line(e),
             "for (%s i%u = active ? from + (%s)team.part() : to; i%u < to; i%u += %u)", e->index,
             row, e->index, row, row, team(e)->size);
    emit_open(e);
    text_fmt(emit_line(e), "const %s s0 = table::sum(i%u - from);\n",
             emit_acc_type(&n->reduce.at[0]), row);
    emit_result(e, 0);
    emit_close(e);
    if (team_many(e)) // the next unit clears
        text_put(emit_line(e), STR("table::sync();\n"));
}

static void put_indexed(Emit *e) {
    const Team *t = team(e);
    text_fmt(emit_line(e), "using table = gan_table<%s, %d, %u, %u>;\n",
             emit_acc_type(&e->n->reduce.at[0]), (int)nest_tile_room(e->n), t->units, t->size / 32);
    put_tile(e);
    put_terms(e);
    put_table(e);
}

// --- columns -------------------------------------------------------------------------------------

static void put_sums(Emit *e) {
    emit_accumulators(e);
    put_steps(e);
    if (team_leaves_parts(e))
        emit_pieces(e);
    else if (e->n->reduce.n)
        emit_join(e);
}

static void put_team(Emit *e) {
    const Team *t = team(e);
    emit_line(e);
    if (!t->open) {
        text_fmt(e->t,
                 "const gan_team<%u, %u, %s> team = {}; // %u units a block, %u threads each\n",
                 t->units, t->size, nest_lies_across(e->n) ? "true" : "false", t->units, t->size);
        return;
    }
    Str shift = emit_num(e, RoleTeam, (int64_t)log2(t->across ? t->units : t->size));
    text_fmt(e->t, "const gan_open_team<%u, %s> team = {(int)%.*s};\n", t->units * t->size,
             t->across ? "true" : "false", SARG(shift));
    text_put(emit_line(e), STR("const int units = team.units(), size = team.size();\n"));
}

static void put_columns(Emit *e) {
    put_team(e);
    emit_level(e, 0);
    open_blocks(e);
    put_unit(e);
    (e->n->indexed ? put_indexed : put_sums)(e);
    if (team_many(e))
        emit_close(e);
}

// --- functions -----------------------------------------------------------------------------------

// "TYPE *NAME = " and the address in word `at`, `more` bytes further on.
static void put_pointer(Emit *e, Str type, const char *name, uint32_t at, Str more) {
    Str word = str_format(e->t->arena, more.len ? "w.at[%u] + %.*s" : "w.at[%u]", at, SARG(more));
    text_fmt(emit_line(e), "%.*s *%s = ", SARG(type), name);
    if (team_many(e))
        text_fmt(e->t, "gan_global<%.*s>(%.*s);\n", SARG(type), SARG(word));
    else
        text_fmt(e->t, more.len ? "(%.*s *)(%.*s);\n" : "(%.*s *)%.*s;\n", SARG(type), SARG(word));
}

static void put_args(Emit *e) {
    Arena *a = e->t->arena;
    const Str none = {0};
    uint32_t words = e->n->arg.n;
    size_t off = 0;
    for (uint32_t i = 0; i < words; i++) {
        const char *type = words_c.storage[nest_dtype(e->n, i)];
        put_pointer(e, str_format(a, nest_is_input(e->n, i) ? "const %s" : "%s", type),
                    str_format(a, "a%u", i).ptr, i, none);
    }
    if (!team_leaves_parts(e))
        return;
    for (uint32_t i = 0; i < e->n->reduce.n; i++) {
        const Reduce *x = &e->n->reduce.at[i];
        put_pointer(e, emit_part_type(e, x), str_format(a, "q%u", i).ptr, words,
                    off ? emit_num(e, RoleScratch, (int64_t)off) : none);
        off += nest_partial_bytes(e->n, x);
    }
    put_pointer(e, STR("uint32_t"), "tickets", words + 1, none);
}

// A word of the arguments, all of it or the lower half.
static Str word_text(Emit *e, uint32_t at, bool whole) {
    return whole ? str_format(e->t->arena, "w.at[%u]", at)
                 : str_format(e->t->arena, "w.half[%u]", 2 * at);
}

// Strides and steps are signed; counts, which are divided by, are not.
static void put_numbers(Emit *e, uint32_t first) {
    for (uint32_t i = 0; i < e->numbers->n; i++) {
        uint32_t role = e->use.at[i].role;
        emit_line(e);
        if (role == RoleReal) {
            emit_real(e, i, word_text(e, first + i, e->real == DtF64));
            continue;
        }
        if (role >= RoleInverse) {
            uint32_t half = 2 * (first + i);
            text_fmt(e->t, "const gan_divisor n%u = {w.half[%u], w.half[%u]}", i, half, half + 1);
        } else {
            const char *type = role < RoleScratch ? e->index : unit_type(e);
            text_fmt(e->t, "const %s n%u = (%s)%.*s", type, i, type,
                     SARG(word_text(e, first + i, team(e)->wide)));
        }
        emit_end_number(e, i);
    }
}

// A region's words come by value; those of regions launched together from memory.
static void put_entry(Text *t, Str name, uint32_t threads, uint32_t words, bool many,
                      bool counters) {
    text_fmt(t,
             "extern \"C\" __global__ void __launch_bounds__(%u)\n"
             "%.*s(const gan_args<%u> %s%s) {\n",
             threads, SARG(name), words, many ? "*each" : "w",
             counters ? ", const gan_counters *c" : "");
    if (many)
        text_fmt(t, "    const gan_args<%u> &w = each[blockIdx.y];\n", words);
}

void emit_team(Emit *e) {
    Text *out = e->t, body = {.arena = out->arena};
    e->acc = emit_team_acc;
    e->depth = e->form == FormPart ? 2 : 1;
    e->t = &body;
    bool steps = e->n->reduce.n || e->n->prefix < e->n->orders;
    (steps ? put_columns : put_elements)(e);
    Text args = {.arena = out->arena};
    e->t = &args; // before the numbers, which it may add to
    put_args(e);
    uint32_t words = e->n->arg.n + (team_leaves_parts(e) ? 2 : 0);
    e->t = out;
    if (e->form != FormPart)
        put_entry(out, e->name, team(e)->units * team(e)->size, words + e->numbers->n, team_many(e),
                  e->counters);
    put_numbers(e, words);
    text_put(out, text_str(&args));
    text_put(out, text_str(&body));
    if (e->form != FormPart)
        text_put(out, STR("}\n"));
}

void emit_parts(Text *t, Str name, uint32_t threads, uint32_t words, const Part *part, uint32_t n) {
    bool counters = false;
    for (uint32_t i = 0; i < n; i++)
        counters |= part[i].counters;
    put_entry(t, name, threads, words, true, counters);
    text_fmt(t, "    switch (w.half[%u]) {\n", 2 * (words - 1));
    for (uint32_t i = 0; i < n; i++)
        text_fmt(t, "    case %u: { // %.*s\n%.*s    } break;\n", i, SARG(part[i].name),
                 SARG(part[i].text));
    text_put(t, STR("    }\n}\n"));
}
