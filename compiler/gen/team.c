// team.c - the shape of a nest for blocks of threads (struct Team): how many threads share a unit,
// how many blocks. team_pack.c decides what each of them does at once. In: a lowered nest. Out: its
// order with the kept variables first (the prefix), its team, levels, and which loads and stores
// take whole packs.
//
// All of it follows from extents and strides, never from the card or the size of the grid: the
// order in which a sum is taken is part of the shape, so results are the same on every card.
#include "team.h"

#include "integers.h"

#include <math.h>

enum {
    Block = 256,       // threads
    SplitBlock = 512,  // threads of a block whose units are split
    TooFewPieces = 2,  // of a reduction: partial results cost more than half of the steps
    Warp = 32,         // threads
    ManyBlocks = 512,  // enough to fill a card, where units are split
    WalkBlocks = 2048, // the same where pieces leave no partial results
    MostSteps = 16,    // of a thread, while a block has more threads
};

int64_t team_extent(const Nest *n, bool reduced) {
    int64_t x = 1;
    for (uint32_t i = 0; i < n->orders; i++) {
        const Var *v = &n->var[n->order[i]];
        bool counts = v->reduced == reduced && !(n->indexed && n->order[i] == n->rows);
        x *= counts ? v->n : 1;
    }
    return x;
}

// --- rows of a scatter ---------------------------------------------------------------------------
//
// A unit for each row of the table reads all terms: rows x terms. Where rows are indexed, a unit is
// a tile of them: its team reads the index of each term, but adds only the terms of its own rows,
// each warp its share of the terms. So terms are read once for each tile, not for each row, and
// added once, at the price of a step in which those of one row are added one after the other.

int64_t nest_tile_room(const Nest *n) {
    return TILE_BYTES / (n->reduce.at[0].dtype == DtF64 ? 8 : 4);
}

// As many rows as a warp has room for; fewer where that would leave too few units for a card.
static int64_t rows_of_tile(const Nest *n) {
    int64_t rows = n->var[n->rows].n, others = team_extent(n, false) / rows;
    int64_t wanted = ceil_div(ManyBlocks, others), most = ceil_div(rows, Warp);
    int64_t tiles = wanted < most ? wanted : most, least = ceil_div(rows, nest_tile_room(n));
    return ceil_div(rows, tiles > least ? tiles : least);
}

// Which takes less time? Cycles of a large card, estimated from instructions and latencies.
static bool indexing_is_faster(const Nest *n) {
    const double lanes = CARD_PROCESSORS * 128, resident = 800; // blocks at a time
    const double search = 8;           // instructions of a term for each row
    const double begin_and_end = 2000; // of a tile
    const double step = 600; // of a block: it waits for memory, or for the blocks beside it
    const double add = 100;  // of a warp: one term into its row, as if no other went with it
    double rows = (double)n->var[n->rows].n, terms = (double)team_extent(n, true);
    double others = (double)team_extent(n, false) / rows;
    double tiles = (double)ceil_div(n->var[n->rows].n, rows_of_tile(n));
    double unit = begin_and_end + terms * step / Block + terms / tiles * add / (Block / Warp);
    double waves = others * tiles / resident;
    return (waves > 1 ? waves : 1) * unit < rows * others * terms * search / lanes;
}

static void index_rows(Nest *n) {
    if (n->rows == NONE || !indexing_is_faster(n))
        return;
    n->tiled = n->rows;
    n->var[n->rows].tile = rows_of_tile(n);
    nest_index_rows(n);
}

// --- threads and blocks --------------------------------------------------------------------------

// Teams have few sizes, and a block is full of them even where there are fewer units: any other
// shape would be one more kernel, and idle warps cost little.

// A reduced variable runs innermost: neighbouring threads take neighbouring steps of one unit.
// Where loads are contiguous along the units, a sector of those lies between.
static void team_along(Nest *n) {
    Team *t = &n->team;
    t->size = t->steps <= Warp / 4 && !n->indexed ? Warp / 4 : Warp;
    if (t->steps > Warp * MostSteps ||
        (n->units * Warp < ManyThreads && t->steps >= Block * LeastSteps))
        t->size = Block;
    uint32_t bytes;
    t->between = t->steps >= Warp && team_reads_both_ways(n, &bytes);
    if (t->between)
        t->size = Block * bytes / Sector;
    t->units = Block / t->size;
}

// Blocks of a unit. Of a reduction not so many that the last block takes longer to load their
// partial results than each took for its steps: the sum of both, steps / pieces + pieces, is least
// at the root.
static int64_t pieces_of(const Nest *n) {
    const Team *t = &n->team;
    int64_t blocks = ceil_div(n->units, t->units) * (t->units * t->size) / Block;
    int64_t wanted = (n->reduce.n ? ManyBlocks : WalkBlocks) / (blocks ? blocks : 1);
    int64_t worth = t->steps / ((int64_t)t->size * LeastSteps);
    int64_t least = n->reduce.n ? (int64_t)sqrt((double)t->steps) : t->steps;
    wanted = wanted < worth ? wanted : worth;
    wanted = wanted < least ? wanted : least;
    return wanted > (n->reduce.n ? TooFewPieces : 1) ? wanted : 1;
}

// Larger blocks, of few units with many steps: as many loads in flight leave fewer partial results.
// To wait for all pieces and load what they left takes as long as several steps: where teams no
// wider than two sectors of a load need few of those, units stay whole.
static void fill_split_block(Team *t, int64_t width) {
    int64_t least = t->pack < 4 ? 16 / t->pack : 4, narrow = width < least ? width : least;
    if (t->steps <= SplitBlock / narrow * TooFewPieces * LeastSteps)
        width = narrow;
    while (t->size * 2 * width <= SplitBlock)
        t->size *= 2;
    t->units = (uint32_t)(SplitBlock / t->size / width * width);
}

// A kept variable runs innermost: neighbouring threads take neighbouring units. The packs of half a
// warp are whole cache lines. Of shorter rows a block takes several. Where loads are contiguous
// along the steps, a warp takes several of those too.
static void team_across(Nest *n) {
    Team *t = &n->team;
    uint32_t bytes;
    bool both = team_reads_both_ways(n, &bytes);
    int64_t most = t->pack > 1 ? Warp / 2 : Warp;
    most = both ? most / 4 : most;
    int64_t row = ceil_div(n->var[t->lane].n, t->pack), width = row < most ? row : most;
    while (t->size * 4 * width <= Block &&
           (n->units * t->size < ManyThreads || (both && t->size * width < Warp)) &&
           t->steps >= (int64_t)t->size * 4 * LeastSteps)
        t->size *= 4;
    t->units = (uint32_t)(Block / t->size / width * width);
    bool few = n->units * t->size < ManyThreads && t->steps >= (int64_t)t->size * 2 * LeastSteps;
    if (few && n->reduce.n && !n->indexed)
        fill_split_block(t, width);
}

static void split_units(Nest *n) {
    Team *t = &n->team;
    if (n->indexed) // a tile's accumulators are too many to leave in memory
        return;
    t->pieces = pieces_of(n);
    int64_t least = t->size * (t->ahead || n->reduce.n ? t->unroll : 1);
    t->share = ceil_div(ceil_div(t->steps, t->pieces), least) * least;
    t->pieces = ceil_div(t->steps, t->share);
}

size_t nest_part_bytes(const Nest *n, const Reduce *r) {
    bool wide = r->dtype == DtF64 || (r->kind == ReduceArgMax && n->team.wide);
    size_t one = wide ? 8 : 4;
    one *= r->kind == ReduceSquares ? 2 : reduce_words(r); // gan_part
    return n->team.across ? one * n->team.pack : one;
}

size_t nest_partial_bytes(const Nest *n, const Reduce *r) {
    size_t bytes = (size_t)(n->units * n->team.pieces) * nest_part_bytes(n, r);
    return round_up(bytes, PackBytes);
}

static void make_team(Nest *n) {
    Team *t = &n->team;
    t->size = 1;
    t->pieces = 1;
    t->steps = t->share = team_extent(n, true);
    n->units = team_extent(n, false);
    if (t->lane != NONE) {
        bool reduced = n->var[t->lane].reduced;
        int64_t *packed = reduced ? &t->steps : &n->units;
        int64_t whole = n->var[t->lane].n;
        *packed = *packed / whole * ceil_div(whole, t->pack);
        t->across = !reduced;
    }
    n->units *= nest_tiles(n);
    if (!n->reduce.n && n->prefix == n->orders) {
        t->units = Block;
        t->blocks = (uint32_t)ceil_div(n->units, t->units);
        return;
    }
    if (t->across)
        team_across(n);
    else
        team_along(n);
}

// Into pieces, and blocks.
static void cut_team(Nest *n) {
    Team *t = &n->team;
    if (!n->reduce.n && n->prefix == n->orders)
        return;
    split_units(n);
    t->blocks = (uint32_t)(ceil_div(n->units, t->units) * t->pieces);
    t->tickets = n->reduce.n && t->pieces > 1 ? (uint32_t)ceil_div(n->units, t->units) : 0;
    for (uint32_t i = 0; t->pieces > 1 && i < n->reduce.n; i++)
        n->scratch += nest_partial_bytes(n, &n->reduce.at[i]);
}

uint32_t nest_slots(const Nest *n) {
    const Team *t = &n->team;
    uint32_t of_team = Warp % t->units ? 1 : Warp / t->units; // lanes, where units lie across
    return t->units * t->size / (nest_lies_across(n) ? of_team : Warp);
}

// Where the text leaves pieces open, a unit that is whole has room for them, too: in the blocks
// that units are split for.
bool nest_open_team(Nest *n) {
    Team *t = &n->team;
    uint32_t threads = t->units * t->size;
    if (!n->reduce.n || n->indexed || t->between || t->wide || t->size == 1 ||
        (threads != Block && threads != SplitBlock) || t->units & (t->units - 1) ||
        nest_slots(n) > OpenSlots)
        return false;
    t->open = true;
    if (threads == Block)
        return true;
    t->open_pieces = true;
    t->tickets = (uint32_t)ceil_div(n->units, t->units);
    n->scratch = n->scratch ? n->scratch : PackBytes;
    return true;
}

// --- the shape -----------------------------------------------------------------------------------

// Kept variables first, then the reduced ones, then indexed rows.
static void sort_variables(Nest *n) {
    uint32_t order[MAX_VARS], k = 0;
    for (uint32_t pass = 0; pass < 3; pass++) {
        for (uint32_t i = 0; i < n->orders; i++) {
            bool indexed = n->indexed && n->order[i] == n->rows;
            if ((indexed ? 2 : n->var[n->order[i]].reduced) == pass)
                order[k++] = n->order[i];
        }
        n->prefix = pass ? n->prefix : k;
    }
    for (uint32_t i = 0; i < n->orders; i++)
        n->order[i] = order[i];
}

// Of the values of a step only the row's index is needed for each term; the rest is computed where
// the row is in the tile.
static void sink_terms(Nest *n) {
    bool *index = arena_array(n->arena, bool, n->value.n);
    index[n->row] = true;
    for (uint32_t i = n->value.n; i-- > 0;) { // operands come first
        Value *v = &n->value.at[i];
        for (uint32_t k = 0; index[i] && k < 3; k++)
            if (v->in[k] != NONE)
                index[v->in[k]] = true;
        if (!index[i] && v->level >= LevelStep)
            v->level = LevelHit;
    }
}

// The variable that is innermost in memory; where rows are indexed, of the terms.
static uint32_t innermost(const Nest *n) {
    uint32_t i = n->orders;
    while (n->indexed && !n->var[n->order[i - 1]].reduced)
        i--;
    return i ? n->order[i - 1] : NONE;
}

static void set_levels(Nest *n) {
    for (uint32_t i = 0; i < n->orders; i++) {
        Var *v = &n->var[n->order[i]];
        v->level = v->reduced ? LevelStep : LevelUnit;
        if (n->order[i] == n->team.lane && n->team.pack > 1)
            v->level = LevelPack;
        if (n->indexed && n->order[i] == n->rows)
            v->level = LevelHit;
    }
    nest_levels(n);
    if (n->indexed)
        sink_terms(n);
}

static bool is_wide(Nest *n) {
    int64_t most = INT32_MAX / 2; // with room for one piece more
    bool wide = n->indexed
                    ? team_extent(n, true) > most || team_extent(n, false) * nest_tiles(n) > most
                    : team_extent(n, true) * team_extent(n, false) > most;
    for (uint32_t i = 0; i < n->arg.n; i++)
        wide |= type_elements(&n->plan->func->g, nest_type(n, i)) > INT32_MAX;
    return wide || nest_reaches(n, INT32_MAX);
}

void nest_shape_team(Nest *n) {
    n->flat = false;
    n->tiled = NONE;
    n->scratch = 0;
    n->grain = 1;
    nest_order_loops(n);
    index_rows(n);
    n->team = (Team){.lane = innermost(n), .fast = 1};
    team_choose_pack(n);
    n->team.wide = is_wide(n);
    sort_variables(n);
    nest_find_orders(n);
    make_team(n);
    set_levels(n);
    team_mark_packs(n);
    cut_team(n);
}
