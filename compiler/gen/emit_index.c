// emit_index.c - numbers and indices as text (emit.h).
//
// Where the dialect says so, some parts of indices have names, j0, j1, ... in order of first use:
// every quotient, remainder and choice, and every sum that the kernel writes more than once. They
// are declared at the level at which their variables are known. An argument of a quotient is never
// negative (index.h), so it is divided as an unsigned number: a shift, where it is by a power of 2.
//
// Within the loop over a pack the team's lane is l elements further on. An index that depends on
// the lane is therefore another one inside that loop than outside, with a name of its own.
#include "emit.h"

#include <ctype.h>
#include <inttypes.h>

// Larger numbers become arguments, equal ones for the same purpose the same argument.
Str emit_num(Emit *e, uint32_t role, int64_t x) {
    bool always = (role >= RoleSite && role < RoleExtent) ||
                  (role == RoleSteps && e->n->team.open); // of several shapes
    if (x < e->d->written_out && !always)
        return str_format(e->t->arena, "%" PRId64, x);
    uint32_t k = 0;
    while (k < e->numbers->n && (e->numbers->at[k] != x || e->use.at[k].role != role))
        k++;
    if (k == e->numbers->n) {
        vec_push(e->t->arena, e->numbers, x);
        vec_push(e->t->arena, &e->use, ((NumberUse){.role = (uint8_t)role}));
    }
    e->use.at[k].written = true;
    return str_format(e->t->arena, "n%u", k);
}

// The number of this role.
static uint32_t number_of(const Emit *e, uint32_t role) {
    uint32_t k = 0;
    while (e->use.at[k].role != role)
        k++;
    return k;
}

void emit_end_number(Emit *e, uint32_t number) {
    static const char *const meaning[RoleExtent] = {
        [RoleStride] = "stride",
        [RoleBound] = "bound or offset of an index",
        [RoleTile] = "size of a tile",
        [RoleSums] = "accumulators of a unit",
        [RoleTerms] = "terms of a sum",
        [RoleSteps] = "steps of a unit",
        [RoleShare] = "steps of a piece",
        [RoleScratch] = "bytes",
        [RoleSite] = "site of the draw",
        [RoleTiles] = "tiles",
        [RoleTeam] = "units of a block, as a shift",
        [RoleUnits] = "units",
        [RolePieces] = "pieces of a unit",
    };
    uint32_t role = e->use.at[number].role;
    if (role == RoleInversePieces)
        text_fmt(e->t, "; // 1 / n%u\n", number_of(e, RolePieces));
    else if (role >= RoleInverse)
        text_fmt(e->t, "; // 1 / n%u\n", number_of(e, RoleExtent + role - RoleInverse));
    else if (role >= RoleExtent)
        text_fmt(e->t, "; // extent of i%u\n", role - RoleExtent);
    else
        text_fmt(e->t, meaning[role] ? "; // %s\n" : ";\n", meaning[role]);
}

uint32_t emit_position(const Nest *n, uint32_t var) {
    for (uint32_t i = 0; i < n->orders; i++)
        if (n->order[i] == var)
            return i;
    bug("variable %u is not among the loops", var);
}

// --- which parts have names ----------------------------------------------------------------------

typedef struct IndexPart { // a sum or an atom, where the lane is l further on or not
    uint32_t uses, name;   // how often it is written; its number + 1
    bool known, lane;      // are the next two? does it depend on the lane?
    uint32_t level;        // at which its variables are known, but for the lane
} IndexPart;

typedef struct IndexName {
    bool atom, lane; // of Indices.atom[], else of Indices.sum[]; is the lane l further on?
    uint32_t id, level;
} IndexName;

struct IndexNames {
    IndexPart *sum[2],
        *atom[2]; // [Indices.sum.n], [Indices.atom.n]: by whether the lane is further on
    VEC(IndexName) name;
    bool pack_open; // are those of LevelPack declared?
};

static const IndexPart *atom_part(Emit *e, uint32_t id);

static void add_part(IndexPart *to, const IndexPart *part) {
    to->lane |= part->lane;
    to->level = part->level > to->level ? part->level : to->level;
}

// What a sum depends on.
static const IndexPart *sum_part(Emit *e, Ix x) {
    IndexPart *part = &e->index_names->sum[0][x];
    const IxSum *s = &e->n->ix.sum.at[x];
    for (uint32_t i = 0; i < s->n && !part->known; i++)
        add_part(part, atom_part(e, s->term[i].atom));
    part->known = true;
    return part;
}

static const IndexPart *atom_part(Emit *e, uint32_t id) {
    IndexPart *part = &e->index_names->atom[0][id];
    const Atom *a = &e->n->ix.atom.at[id];
    if (part->known)
        return part;
    part->known = true;
    if (a->kind == AtomVar) {
        part->lane = a->var == e->n->team.lane && e->n->team.pack > 1;
        part->level = e->n->var[a->var].reduced               ? LevelStep
                      : e->n->indexed && a->var == e->n->rows ? LevelHit
                                                              : LevelUnit;
        return part;
    }
    add_part(part, sum_part(e, a->of));
    if (a->kind == AtomChoice) {
        add_part(part, sum_part(e, a->yes));
        add_part(part, sum_part(e, a->no));
    }
    return part;
}

static bool is_quotient(const Atom *a) {
    return a->kind == AtomDiv || a->kind == AtomMod;
}

static void use_sum(Emit *e, Ix x, bool in_pack);

static void use_atom(Emit *e, uint32_t id, bool in_pack) {
    const Atom *a = &e->n->ix.atom.at[id];
    bool lane = in_pack && atom_part(e, id)->lane;
    if (a->kind == AtomVar || e->index_names->atom[lane][id].uses++)
        return;
    use_sum(e, a->of, in_pack);
    if (a->kind == AtomChoice) {
        use_sum(e, a->yes, in_pack);
        use_sum(e, a->no, in_pack);
    }
}

// Counts a use of an index; parts of what has a name are used by that alone.
static void use_sum(Emit *e, Ix x, bool in_pack) {
    const IxSum *s = &e->n->ix.sum.at[x];
    bool lane = in_pack && sum_part(e, x)->lane;
    if (s->n > 1 && e->index_names->sum[lane][x].uses++)
        return;
    for (uint32_t i = 0; i < s->n; i++)
        use_atom(e, s->term[i].atom, in_pack);
}

static void name_part(Emit *e, bool atom, uint32_t id, bool lane, uint32_t level) {
    IndexNames *names = e->index_names;
    IndexName name = {.atom = atom, .lane = lane, .id = id, .level = lane ? LevelPack : level};
    vec_push(e->t->arena, &names->name, name);
    (atom ? names->atom : names->sum)[lane][id].name = names->name.n;
}

static void name_sum(Emit *e, Ix x, bool in_pack);

static void name_atom(Emit *e, uint32_t id, bool in_pack) {
    const Atom *a = &e->n->ix.atom.at[id];
    bool lane = in_pack && atom_part(e, id)->lane;
    const IndexPart *part = &e->index_names->atom[lane][id];
    if (a->kind == AtomVar || part->name)
        return;
    name_sum(e, a->of, in_pack);
    if (a->kind == AtomChoice) {
        name_sum(e, a->yes, in_pack);
        name_sum(e, a->no, in_pack);
    }
    name_part(e, true, id, lane, atom_part(e, id)->level);
}

static void name_sum(Emit *e, Ix x, bool in_pack) {
    const IxSum *s = &e->n->ix.sum.at[x];
    bool lane = in_pack && sum_part(e, x)->lane;
    const IndexPart *part = &e->index_names->sum[lane][x];
    if (part->name)
        return;
    for (uint32_t i = 0; i < s->n; i++)
        name_atom(e, s->term[i].atom, in_pack);
    if (part->uses > 1)
        name_part(e, false, x, lane, sum_part(e, x)->level);
}

// Are the results of a pack of accumulators stored one by one, outside the loop over the pack?
static bool single(const Emit *e, const Reduce *r) {
    return e->n->team.across && e->n->team.pack > 1 && !r->pack;
}

typedef void Visit(Emit *e, Ix x, bool in_pack);

// Every index that a kernel writes, in an order that follows from its structure alone.
static void visit_indices(Emit *e, Visit *visit) {
    const Nest *n = e->n;
    bool pack = n->team.pack > 1;
    for (uint32_t i = 1; i < n->bounds.n; i++)
        for (uint32_t k = 0; k < n->bounds.at[i].n && e->guards[i]; k++)
            for (int side = 0; side < 2; side++)
                if (emit_tests(e, &n->bounds.at[i].b[k], side))
                    visit(e, n->bounds.at[i].b[k].at, pack && n->bounds_level.at[i] == LevelPack);
    for (uint32_t i = 0; i < n->value.n; i++) {
        const Value *v = &n->value.at[i];
        bool in_pack = pack && v->level >= LevelPack && !v->pack;
        if (!e->named[i] || (v->once && !v->pack)) // outside the loop that declares names
            continue;
        if (v->kind == ValueLoad || v->kind == ValueIndex || v->kind == ValueDraw)
            visit(e, v->at, in_pack);
        if (v->kind == ValueDraw)
            visit(e, v->sample, in_pack);
    }
    for (uint32_t i = 0; i < n->store.n; i++)
        visit(e, n->store.at[i].at, pack && !n->store.at[i].pack);
    for (uint32_t i = 0; i < n->derived.n; i++)
        if (n->derived.at[i].pack || !n->team.across || !pack)
            visit(e, n->derived.at[i].at, false);
    for (uint32_t i = 0; i < n->reduce.n; i++) {
        const Reduce *r = &n->reduce.at[i];
        if (r->kind == ReduceArgMax)
            visit(e, r->index, pack);
        for (int k = (r->arg != NONE) + (r->max_arg != NONE); k > 0 && !single(e, r); k--)
            visit(e, r->at, false);
    }
}

void emit_name_indices(Emit *e) {
    Arena *a = e->t->arena;
    e->index_names = arena_new(a, IndexNames);
    for (int lane = 0; lane < 2; lane++) {
        e->index_names->sum[lane] = arena_array(a, IndexPart, e->n->ix.sum.n);
        e->index_names->atom[lane] = arena_array(a, IndexPart, e->n->ix.atom.n);
    }
    visit_indices(e, use_sum);
    visit_indices(e, name_sum);
}

// The number of a part's name, NONE.
static uint32_t name_of(Emit *e, bool atom, uint32_t id) {
    IndexNames *names = e->index_names;
    if (!names)
        return NONE;
    bool lane = e->in_pack && (atom ? atom_part(e, id) : sum_part(e, id))->lane;
    return lane && !names->pack_open ? NONE : (atom ? names->atom : names->sum)[lane][id].name - 1;
}

// --- text ----------------------------------------------------------------------------------------

static bool is_lane(const Emit *e, const Atom *a) {
    return e->in_pack && a->kind == AtomVar && a->var == e->n->team.lane;
}

// Brackets around what is more than a word.
static void put_bracketed(Emit *e, Str text) {
    size_t word = 0;
    while (word < text.len && isalnum((unsigned char)text.ptr[word]))
        word++;
    text_fmt(e->t, word == text.len ? "%.*s" : "(%.*s)", SARG(text));
}

static Str index_text(Emit *e, Ix x) {
    Text *out = e->t, text = {.arena = out->arena};
    e->t = &text;
    emit_ix(e, x);
    e->t = out;
    return text_str(&text);
}

// What an atom is, written out. The type of the number that divides is that of the quotient.
static void put_definition(Emit *e, const Atom *a, const char *suffix) {
    if (is_quotient(a)) {
        put_bracketed(e, index_text(e, a->of));
        text_fmt(e->t, "%c%" PRId64 "%s", a->kind == AtomDiv ? '/' : '%', a->by, suffix);
        return;
    }
    emit_ix(e, a->of);
    text_fmt(e->t, " < %.*s ? ", SARG(emit_num(e, RoleBound, a->by)));
    emit_ix(e, a->yes);
    text_put(e->t, STR(" : "));
    emit_ix(e, a->no);
}

static void put_atom(Emit *e, uint32_t id, bool factor) {
    const Atom *a = &e->n->ix.atom.at[id];
    uint32_t name = name_of(e, true, id);
    if (name != NONE) {
        text_fmt(e->t, "j%u", name);
    } else if (a->kind == AtomVar) {
        bool lane = is_lane(e, a);
        text_fmt(e->t,
                 !lane    ? "i%u"
                 : factor ? "(i%u + l)"
                          : "i%u + l",
                 emit_position(e->n, a->var));
    } else {
        bool wrap = factor || !is_quotient(a);
        text_put(e->t, wrap ? STR("(") : STR(""));
        put_definition(e, a, "");
        text_put(e->t, wrap ? STR(")") : STR(""));
    }
}

// In order of falling coefficients, the number last.
static void put_sum(Emit *e, Ix x) {
    const IxSum *s = &e->n->ix.sum.at[x];
    int64_t off = s->off;
    bool *done = arena_array(e->t->arena, bool, s->n), first = true;
    for (uint32_t i = 0; i < s->n; i++) {
        uint32_t best = NONE;
        for (uint32_t k = 0; k < s->n; k++)
            if (!done[k] && (best == NONE || s->term[k].coef > s->term[best].coef))
                best = k;
        done[best] = true;
        int64_t coef = s->term[best].coef;
        text_fmt(e->t, "%s", first ? (coef < 0 ? "-" : "") : coef < 0 ? " - " : " + ");
        put_atom(e, s->term[best].atom, coef != 1);
        if (coef * coef != 1)
            text_fmt(e->t, "*%.*s", SARG(emit_num(e, RoleStride, coef < 0 ? -coef : coef)));
        first = false;
    }
    if (first || off) {
        text_fmt(e->t, first ? (off < 0 ? "-" : "") : off < 0 ? " - " : " + ");
        text_put(e->t, emit_num(e, RoleBound, off < 0 ? -off : off));
    }
}

void emit_ix(Emit *e, Ix x) {
    uint32_t name = name_of(e, false, x);
    if (name != NONE)
        text_fmt(e->t, "j%u", name);
    else
        put_sum(e, x);
}

// --- bounds --------------------------------------------------------------------------------------

// A bound that only one index passes, of several: both sides are one test for equality.
static bool is_point(const Emit *e, const Bound *b) {
    int64_t lo, hi;
    ix_range(&e->n->ix, b->at, &lo, &hi);
    return b->hi == b->lo + 1 && lo < b->lo && hi >= b->hi;
}

bool emit_tests(const Emit *e, const Bound *b, bool upper) {
    int64_t lo, hi;
    ix_range(&e->n->ix, b->at, &lo, &hi);
    return upper ? hi >= b->hi && !is_point(e, b) : lo < b->lo;
}

void emit_test(Emit *e, const Bound *b, bool upper) {
    emit_ix(e, b->at);
    text_fmt(e->t,
             upper            ? " < %.*s"
             : is_point(e, b) ? " == %.*s"
                              : " >= %.*s",
             SARG(emit_num(e, RoleBound, upper ? b->hi : b->lo)));
}

// --- declarations --------------------------------------------------------------------------------

void emit_index_names(Emit *e, uint32_t level) {
    IndexNames *names = e->index_names;
    for (uint32_t i = 0; names && i < names->name.n; i++) {
        const IndexName *name = &names->name.at[i];
        if (name->level != level)
            continue;
        text_fmt(emit_line(e), "%sconst %s j%u = ", emit_if_named(e), e->index, i);
        if (name->atom)
            put_definition(e, &e->n->ix.atom.at[name->id], e->n->team.wide ? "ull" : "u");
        else
            put_sum(e, name->id);
        text_put(e->t, STR(";\n"));
    }
}

void emit_pack_open(Emit *e, bool open) {
    if (e->index_names)
        e->index_names->pack_open = open;
}
