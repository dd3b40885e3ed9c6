// team_pack.c - what a thread of a block does at once (struct Team).
//
// In: a lowered nest whose variables are not sorted yet. Out: the column that a thread walks, the
// pack of elements or the tile of units that it takes, and along which variable; then, once levels
// are known, which loads and stores take whole packs, and how many steps are unrolled.
#include "team.h"

#include "integers.h"

#include <ctype.h>
#include <string.h>

enum {
    WalkSteps = 16,     // of a column, for a thread to iterate over it
    HidesInverse = 8,   // bytes: a card does 70 instructions while they move
    PackRegisters = 64, // that packs may take of a thread
    PackHeld = 128,     // bytes of them
    BytesInFlight = 64, // of a thread
    LeastInFlight = 32, // of a thread whose text has loads ahead
    MostUnrolled = 4,   // steps
    MostSingle = 2,     // loads of single elements, for each load and store of a pack
    LongBody = 256,     // values: beyond, packs only make the text longer,
    LongUnit = 64,      // of a unit without steps
    MostTile = 8,       // units of a tile
    LeastTile = 2,
    TileShared = 64,    // bytes of a thread
    TileUnrolled = 16,  // units of the steps of a tile that are unrolled
    FewOfAll = 1 << 16, // elements of a nest
    FewElements = 8,    // of a variable: too few to lie beside each other in a warp
};

// --- columns -------------------------------------------------------------------------------------

// A division or a function is tens of instructions.
static bool has_division(Op op) {
    return strchr(op_info[op].value, '/') != NULL;
}

static bool has_call(Op op) {
    for (const char *c = op_info[op].value; *c; c++)
        if ((islower((unsigned char)c[0]) || isdigit((unsigned char)c[0])) && c[1] == '(')
            return true;
    return false;
}

// The variables an index depends on, a bit each.
static uint32_t vars_of(const Nest *n, Ix at) {
    uint32_t vars = 0;
    for (uint32_t i = 0; i < n->orders; i++)
        vars |= (uint32_t)ix_uses(&n->ix, at, n->order[i]) << n->order[i];
    return vars;
}

// Those that each value depends on: [n->value.n].
static uint32_t *values_vars(Nest *n) {
    uint32_t *vars = arena_array(n->arena, uint32_t, n->value.n);
    for (uint32_t i = 0; i < n->value.n; i++) { // operands come first
        const Value *v = &n->value.at[i];
        const Bounds *b = &n->bounds.at[v->bounds];
        vars[i] = vars_of(n, v->at) | vars_of(n, v->sample);
        for (uint32_t k = 0; k < b->n; k++)
            vars[i] |= vars_of(n, b->b[k].at);
        for (uint32_t k = 0; k < 3; k++)
            vars[i] |= v->in[k] == NONE ? 0 : vars[v->in[k]];
    }
    return vars;
}

static size_t element(const Nest *n, uint32_t arg) { // bytes
    return dtype_size[nest_dtype(n, arg)];
}

// What differs by element is divided by what does not, so often, and each element moves so many
// bytes. The inverses of divisors that are computed for each element hide behind enough bytes.
static bool inverses_take_longest(const Nest *n, const uint32_t *vars, uint32_t all) {
    size_t bytes = 0, divisions = 0;
    for (uint32_t i = 0; i < n->value.n; i++) {
        const Value *v = &n->value.at[i];
        bytes += v->kind == ValueLoad && vars[i] == all ? element(n, v->arg) : 0;
        divisions +=
            v->kind == ValueEw && v->op == OpDiv && vars[i] == all && vars[v->in[1]] != all;
    }
    for (uint32_t i = 0; i < n->store.n; i++)
        bytes += element(n, n->store.at[i].arg);
    return divisions * HidesInverse > bytes;
}

// A norm's square root and division are the same for all pixels of a channel. Each thread would
// compute them for its one pack, in more instructions than all the rest; so a thread iterates over
// a column, and what is expensive is computed once for it. 203 instructions of a norm's thread
// become 51 a step.
static void iterate_columns(Nest *n) {
    uint32_t all = 0, kept = 0, lane = n->team.lane;
    int64_t steps = 1;
    if (n->reduce.n || lane == NONE)
        return;
    for (uint32_t i = 0; i < n->orders; i++)
        all |= 1u << n->order[i];
    const uint32_t *vars = values_vars(n);
    bool inverses = inverses_take_longest(n, vars, all);
    for (uint32_t i = 0; i < n->value.n; i++) {
        const Value *v = &n->value.at[i];
        bool slow = v->kind == ValueEw && (has_call(v->op) || has_division(v->op));
        if (slow && vars[i] != all)
            kept |= vars[i];
        if (inverses && slow && v->op == OpDiv && vars[v->in[1]] != all)
            kept |= vars[v->in[1]];
    }
    for (uint32_t i = 0; i < n->store.n; i++)
        if (vars_of(n, n->store.at[i].at) != all) // more than one step would write it
            return;
    for (uint32_t i = 0; i < n->orders; i++)
        steps *= kept >> n->order[i] & 1 ? 1 : n->var[n->order[i]].n;
    if (!(kept >> lane & 1) || steps < WalkSteps)
        return;
    for (uint32_t i = 0; i < n->orders; i++)
        n->var[n->order[i]].reduced = !(kept >> n->order[i] & 1);
}

// --- packs ---------------------------------------------------------------------------------------

// Does the element after this one follow it in memory, and does every pack begin at a multiple of
// `pack`?
static bool packs(const Nest *n, Ix at, uint32_t lane, uint32_t pack) {
    const IxSum *s = &n->ix.sum.at[at];
    if (ix_coef(&n->ix, at, lane) != 1 || s->off % pack)
        return false;
    for (uint32_t i = 0; i < s->n; i++) {
        const Atom *a = &n->ix.atom.at[s->term[i].atom];
        bool is_lane = a->kind == AtomVar && a->var == lane;
        if (!is_lane && s->term[i].coef % pack)
            return false;
    }
    // The lane may be in a quotient too: then elements are not contiguous.
    for (uint32_t i = 0; i < s->n; i++) {
        const Atom *a = &n->ix.atom.at[s->term[i].atom];
        if (a->kind != AtomVar && (ix_uses(&n->ix, a->of, lane) ||
                                   (a->kind == AtomChoice && (ix_uses(&n->ix, a->yes, lane) ||
                                                              ix_uses(&n->ix, a->no, lane)))))
            return false;
    }
    return true;
}

// Does it hold for all elements of a pack or for none, as where the parts of a concatenation meet
// between two packs?
static bool is_even(const Nest *n, const Bound *b, uint32_t lane, uint32_t pack) {
    return !ix_uses(&n->ix, b->at, lane) ||
           (packs(n, b->at, lane, pack) && b->lo % pack == 0 && b->hi % pack == 0);
}

bool nest_is_even(const Nest *n, const Bound *b) {
    return n->team.pack > 1 && !nest_shifts(n) && is_even(n, b, n->team.lane, n->team.pack);
}

static bool are_even(const Nest *n, uint32_t bounds, uint32_t lane, uint32_t pack) {
    const Bounds *b = &n->bounds.at[bounds];
    for (uint32_t i = 0; i < b->n; i++)
        if (!is_even(n, &b->b[i], lane, pack))
            return false;
    return true;
}

static bool load_packs(const Nest *n, const Value *v, uint32_t lane, uint32_t pack) {
    return v->kind == ValueLoad && packs(n, v->at, lane, pack) &&
           are_even(n, v->bounds, lane, pack) && v->row % pack == 0; // 0 where it is no row
}

// The loads, stores and accumulators that can be packs of this size.
typedef struct Packed {
    size_t least;    // bytes of the smallest element, 0 when there are none
    uint32_t count;  // packs that a thread holds, accumulators included,
    size_t bytes;    // and of one element of each
    uint32_t wide;   // loads and stores among them
    uint32_t single; // loads that a thread would do for each element of a pack
} Packed;

static void add_packed(const Nest *n, uint32_t arg, Packed *p) {
    size_t size = element(n, arg);
    p->least = !p->least || size < p->least ? size : p->least;
    p->count++;
    p->wide++;
    p->bytes += size;
}

static Packed packed(const Nest *n, uint32_t lane, uint32_t pack) {
    uint32_t sums = 0;
    for (uint32_t i = 0; i < n->reduce.n && !n->var[lane].reduced; i++)
        sums += reduce_words(&n->reduce.at[i]);
    Packed p = {.count = sums, .bytes = sums * sizeof(float)};
    for (uint32_t i = 0; i < n->value.n; i++) {
        const Value *v = &n->value.at[i];
        if (load_packs(n, v, lane, pack))
            add_packed(n, v->arg, &p);
        else
            p.single += v->kind == ValueLoad && ix_uses(&n->ix, v->at, lane);
    }
    for (uint32_t i = 0; i < n->store.n; i++)
        if (packs(n, n->store.at[i].at, lane, pack))
            add_packed(n, n->store.at[i].arg, &p);
    return p;
}

// A random draw is a hundred instructions, compiled again for each element of a pack: wide accesses
// gain nothing beside it. An exponential or a logarithm is some thirty; of few elements, as a
// discriminator's logits, each may have a thread of its own.
static bool one_at_a_time(const Nest *n) {
    bool few = team_extent(n, false) * team_extent(n, true) < FewOfAll;
    for (uint32_t i = 0; i < n->value.n; i++) {
        const Value *v = &n->value.at[i];
        bool calls = v->kind == ValueEw && v->level != LevelResult && has_call(v->op);
        if (v->kind == ValueDraw || (few && calls))
            return true;
    }
    bool steps = n->reduce.n || team_extent(n, true) > 1;
    return n->value.n > (steps ? LongBody : LongUnit);
}

// Whether a last pack that is not full reaches no further than the padding behind its values
// (kernel_cuda.h): all that depends on the lane moves in packs, none longer than the padding is.
static bool stays_in_padding(const Nest *n, uint32_t lane, uint32_t pack) {
    for (uint32_t i = 0; i < n->value.n; i++) {
        const Value *v = &n->value.at[i];
        bool wide = v->kind == ValueLoad && element(n, v->arg) * pack > PackBytes;
        if (v->kind == ValueLoad && ix_uses(&n->ix, v->at, lane) &&
            (wide || !load_packs(n, v, lane, pack)))
            return false;
    }
    for (uint32_t i = 0; i < n->store.n; i++) {
        const Store *s = &n->store.at[i];
        if (element(n, s->arg) * pack > PackBytes || !packs(n, s->at, lane, pack))
            return false;
    }
    return true;
}

// Packs are halved until a thread's fit into registers. Of many packs, halves still have enough
// bytes in flight to hide the latency of memory, in half the registers (100 to 58 of a sum through
// a pad's gradient, so twice the blocks) and three quarters of the text; single elements would only
// be more instructions.
//
// Where most loads are of single elements anyway, neighbouring threads take neighbouring ones: a
// pack would only be as many times the text.
//
// A flat nest may reach into the padding; rows may not reach into the next row.
static uint32_t pack_of(const Nest *n) {
    bool flat = n->orders == 1 && !n->reduce.n;
    uint32_t lane = n->team.lane;
    if (lane == NONE || one_at_a_time(n))
        return 1;
    for (uint32_t pack = 8; pack > 1; pack /= 2) {
        Packed p = packed(n, lane, pack);
        bool whole = n->var[lane].n % pack == 0 || (flat && stays_in_padding(n, lane, pack));
        bool fits = p.least * pack <= PackBytes && p.count * pack <= PackRegisters &&
                    (pack == 2 || p.bytes * pack <= PackHeld);
        if (p.least && fits && whole && p.single <= MostSingle * p.wide)
            return pack;
    }
    return 1;
}

// --- tiles of units ------------------------------------------------------------------------------
//
// In a table of all pairs (distances of two sets of points, a minimum in each row) what a step
// loads is the same for every row, and the loads take longer than the arithmetic. So a thread takes
// a tile of rows, for which each value is loaded once: a pair of two clouds of points takes 13
// instructions, and three loads are shared by eight pairs.

static uint32_t reduced_vars(const Nest *n) {
    uint32_t vars = 0;
    for (uint32_t i = 0; i < n->orders; i++)
        vars |= (uint32_t)n->var[n->order[i]].reduced << n->order[i];
    return vars;
}

// Does a step load something, and nothing that depends on the variable?
static bool shares_loads(const Nest *n, const uint32_t *vars, uint32_t var) {
    uint32_t stepped = reduced_vars(n), loads = 0;
    for (uint32_t i = 0; i < n->value.n; i++) {
        bool each = n->value.at[i].kind == ValueLoad && vars[i] & stepped;
        if (each && vars[i] >> var & 1)
            return false;
        loads += each;
    }
    return loads > 0;
}

// Registers that a unit of a tile takes: accumulators, and what is computed once for it.
static uint32_t words_of_unit(const Nest *n, const uint32_t *vars, uint32_t var) {
    uint32_t words = 0;
    for (uint32_t i = 0; i < n->reduce.n; i++)
        words += reduce_words(&n->reduce.at[i]);
    for (uint32_t i = 0; i < n->value.n; i++)
        words += n->value.at[i].kind == ValueLoad && vars[i] >> var & 1;
    return words;
}

// Of shared memory, where a block's accumulators lie while they are reduced.
static uint32_t bytes_of_unit(const Nest *n) {
    uint32_t bytes = 0;
    for (uint32_t i = 0; i < n->reduce.n; i++)
        bytes += reduce_words(&n->reduce.at[i]) * (n->reduce.at[i].dtype == DtF64 ? 8 : 4);
    return bytes;
}

// As many units as registers allow, and that leave enough threads.
static uint32_t tile_of(const Nest *n, uint32_t words) {
    uint32_t shared = bytes_of_unit(n);
    int64_t threads = team_extent(n, false) * (team_extent(n, true) / LeastSteps);
    for (uint32_t tile = MostTile; tile >= LeastTile; tile /= 2)
        if (threads / tile >= ManyThreads && words * tile <= PackRegisters &&
            shared * tile <= TileShared && n->value.n * tile <= LongBody)
            return tile;
    return 1;
}

// Of a shape that gives none, the lane stays as it is.
static void tile_units(Nest *n) {
    Team *t = &n->team;
    if (!n->reduce.n || n->store.n || n->indexed || one_at_a_time(n))
        return;
    const uint32_t *vars = values_vars(n);
    for (uint32_t i = n->orders; i-- > 0;) {
        uint32_t v = n->order[i];
        if (n->var[v].reduced || n->var[v].n < MostTile || !shares_loads(n, vars, v))
            continue;
        t->pack = tile_of(n, words_of_unit(n, vars, v));
        t->tile = t->pack > 1;
        t->lane = t->tile ? v : t->lane;
        return;
    }
}

// --- transposes ----------------------------------------------------------------------------------
//
// Where a load is contiguous along another variable than the stores, threads that follow the stores
// each take a sector of memory for one element of it. So neighbouring threads take a few packs
// along one variable, as many as fill a sector, and then elements along the other: whole sectors of
// both.

// A load of all elements that is far apart along the lane, and what it is contiguous along.
typedef struct Other {
    uint32_t lane;  // NONE: there is no such load
    uint32_t bytes; // of an element
} Other;

static Other other_lane(const Nest *n) {
    uint32_t lane = n->team.lane;
    for (uint32_t i = 0; i < n->value.n && lane != NONE && !n->indexed; i++) {
        const Value *v = &n->value.at[i];
        uint32_t bytes = v->kind == ValueLoad ? (uint32_t)element(n, v->arg) : 0, uses = 0;
        for (uint32_t k = 0; k < n->orders; k++)
            uses += ix_coef(&n->ix, v->at, n->order[k]) != 0;
        if (ix_coef(&n->ix, v->at, lane) * bytes < Sector || uses < n->orders)
            continue;
        for (uint32_t k = 0; k < n->orders; k++)
            if (ix_coef(&n->ix, v->at, n->order[k]) == 1 && n->var[n->order[k]].n >= FewElements)
                return (Other){n->order[k], bytes};
    }
    return (Other){NONE, 0};
}

// Moves a variable behind all others: neighbouring threads take its elements.
static void run_fastest(Nest *n, uint32_t var) {
    uint32_t k = 0;
    for (uint32_t i = 0; i < n->orders; i++)
        if (n->order[i] != var)
            n->order[k++] = n->order[i];
    n->order[k] = var;
}

static uint32_t pack_along(Nest *n, uint32_t lane) {
    n->team.lane = lane;
    return pack_of(n);
}

// Along which of the two packs are longer, the stores' at first.
static void choose_lane(Nest *n, uint32_t stored, uint32_t loaded) {
    uint32_t pack = pack_along(n, loaded);
    n->team.pack = pack_along(n, stored);
    if (pack > n->team.pack) {
        n->team.pack = pack;
        n->team.lane = loaded;
    }
}

// Of units, whose variables both are kept.
static void transpose(Nest *n) {
    Team *t = &n->team;
    uint32_t stored = t->lane, loaded = other_lane(n).lane;
    if (loaded == NONE || n->var[stored].reduced || n->var[loaded].reduced)
        return;
    if (!n->reduce.n && team_extent(n, true) == 1)
        choose_lane(n, stored, loaded);
    if (t->pack == 1)
        return;
    int64_t packs = n->var[t->lane].n / t->pack;
    size_t bytes = packed(n, t->lane, t->pack).least * t->pack;
    while (bytes * t->fast * 2 <= Sector && packs % (t->fast * 2) == 0)
        t->fast *= 2;
    run_fastest(n, t->lane);
    run_fastest(n, t->lane == stored ? loaded : stored);
}

// --- the choice ----------------------------------------------------------------------------------

void team_choose_pack(Nest *n) {
    iterate_columns(n);
    tile_units(n);
    if (!n->team.tile)
        n->team.pack = pack_of(n);
    transpose(n);
}

bool team_reads_both_ways(const Nest *n, uint32_t *bytes) {
    Other other = other_lane(n);
    *bytes = other.bytes;
    if (other.lane == NONE)
        return false;
    uint32_t last = n->var[n->team.lane].reduced ? n->prefix : n->orders;
    return last && other.lane == n->order[last - 1];
}

// --- marks, where levels are known ---------------------------------------------------------------

static uint32_t vars_of_step(const Nest *n) {
    uint32_t vars = 0;
    for (uint32_t i = n->prefix; i < n->orders; i++)
        vars |= 1u << n->order[i];
    return vars;
}

// The level at which a load has all it takes to load a whole pack: its other variables, its bounds
// and its row.
static uint32_t pack_level(const Nest *n, const Value *v) {
    uint32_t lane = n->team.lane, level = n->var[lane].reduced ? LevelStep : LevelUnit;
    for (uint32_t i = 0; i < n->orders; i++)
        if (n->order[i] != lane && ix_uses(&n->ix, v->at, n->order[i]))
            level_deepen(&level, n->var[n->order[i]].level);
    level_deepen(&level, n->bounds_level.at[v->bounds]);
    if (v->in[0] != NONE)
        level_deepen(&level, n->value.at[v->in[0]].level);
    return level;
}

// A pack of results is stored whole where nothing converts it: elements narrower than 4 bytes are
// rounded when they are stored.
static bool stores_pack(const Nest *n, const Reduce *r) {
    if (r->arg == NONE)
        return false;
    Dtype type = nest_dtype(n, r->arg);
    bool unconverted = type == r->dtype && !dtype_is_half(type) && r->kind != ReduceArgMax;
    return n->team.across && unconverted && r->copies <= 1 &&
           packs(n, r->at, n->team.lane, n->team.pack);
}

static void mark_packs(Nest *n) {
    uint32_t lane = n->team.lane, pack = n->team.pack;
    if (pack == 1 || nest_shifts(n)) // then not aligned
        return;
    for (uint32_t i = 0; i < n->value.n; i++) {
        Value *v = &n->value.at[i];
        bool row_known = v->in[0] == NONE || n->value.at[v->in[0]].level < LevelPack;
        if (v->level < LevelHit && load_packs(n, v, lane, pack) && row_known)
            v->pack = pack_level(n, v);
    }
    for (uint32_t i = 0; i < n->store.n; i++)
        n->store.at[i].pack = packs(n, n->store.at[i].at, lane, pack);
    for (uint32_t i = 0; i < n->reduce.n; i++)
        n->reduce.at[i].pack = stores_pack(n, &n->reduce.at[i]);
    for (uint32_t i = 0; i < n->derived.n; i++)
        n->derived.at[i].pack = n->team.across && packs(n, n->derived.at[i].at, lane, pack);
}

// What differs by lane and not by step, in packs of its own. Compilers take only that of the first
// lane out of the loop over steps: those of the others are within an inner loop until it is
// unrolled.
static void mark_once(Nest *n) {
    const Team *t = &n->team;
    if (!t->across || t->pack == 1 || n->indexed)
        return;
    const uint32_t *vars = values_vars(n), stepped = vars_of_step(n);
    for (uint32_t i = 0; i < n->value.n && stepped; i++) { // operands come first
        Value *v = &n->value.at[i];
        bool once = v->level == LevelPack && !(vars[i] & stepped) &&
                    n->bounds_level.at[v->bounds] < LevelPack &&
                    (v->kind == ValueLoad || v->kind == ValueEw || v->kind == ValueSelect ||
                     v->kind == ValueIndex);
        for (uint32_t k = 0; k < 3; k++) {
            const Value *x = v->in[k] == NONE ? NULL : &n->value.at[v->in[k]];
            once &= !x || x->level < LevelPack || x->once;
        }
        v->once = once;
    }
}

// Several steps are unrolled: their loads are in flight together, which hides the latency of
// memory. The compiler does it where steps store nothing: it moves no load ahead of a store, which
// may be to the same address. Of steps that store the text has the loads first; of those that
// divide, too, to be without the second loop for the steps left over, of which there are none.
// Steps bound by arithmetic gain nothing.
static void unroll_steps(Nest *n) {
    Team *t = &n->team;
    const uint32_t *vars = values_vars(n), stepped = vars_of_step(n);
    size_t bytes = 0;
    bool slow = false;
    t->unroll = 1;
    t->ahead = n->store.n > 0;
    for (uint32_t i = 0; i < n->value.n; i++) {
        const Value *v = &n->value.at[i];
        bool each = v->kind == ValueEw && vars[i] & stepped;
        slow |= v->kind == ValueDraw || (each && has_call(v->op));
        t->ahead |= each && has_division(v->op);
    }
    for (uint32_t i = 0; i < n->value.n; i++) {
        const Value *v = &n->value.at[i];
        bool whole = v->pack == LevelStep,
             each = !v->pack && !v->once && v->level >= LevelStep && !t->ahead;
        if (v->kind == ValueLoad && (whole || each))
            bytes += element(n, v->arg) * (whole || v->level == LevelPack ? t->pack : 1);
        slow |= t->ahead && whole && v->in[0] != NONE && n->value.at[v->in[0]].level >= LevelStep;
    }
    size_t most = t->ahead && !n->reduce.n ? LeastInFlight : BytesInFlight;
    uint32_t unrolled = t->tile ? TileUnrolled / t->pack : MostUnrolled;
    while (!slow && bytes && bytes * t->unroll * 2 <= most && t->unroll < unrolled &&
           (!t->ahead || t->steps >= 2 * t->unroll * t->size))
        t->unroll *= 2;
    t->ahead &= t->unroll > 1;
}

void team_mark_packs(Nest *n) {
    mark_packs(n);
    mark_once(n);
    unroll_steps(n);
}
