// chunk.c - a step in chunks: the samples of the global batch in equal parts, one after another.
//
// In: a function for Share.total samples, in its final precision. Out: the same function for one
// chunk's samples, with its per-sample nodes once for each chunk that this rank holds.
//   --deterministic=C   C chunks of the global batch. Their partial sums are added in a fixed tree
//                       over all C, of which each rank has a subtree: the bits depend on C alone.
//   accumulation        this rank's samples in so many chunks, added in the order of the same tree.
//
// Each block of the function becomes a sequence of blocks, phase by phase: shared work (0),
// per-chunk work that depends on it, a block per chunk (1), sums over chunks and ranks (2), shared
// work that depends on those (3), ... Blocks isolate the bits from the number of ranks: nothing
// fuses across them, so a chunk's kernels are the same on whichever rank, and what crosses them is
// stored, that is rounded, wherever it was computed. A block knows where its samples begin
// (Func.block_first): random draws, data and sample numbers follow.
#include "pass.h"
#include "shard.h"

#include <string.h>

enum { PhaseShared, PhaseChunk, PhaseSum, Phases };

typedef struct Row { // the blocks that one block becomes
    uint32_t first;  // block of phase 0
    uint32_t phases; // how many there are
    NodeList *node;  // [phase] old nodes of which it computes something, in order
} Row;

typedef struct Chunker {
    Arena *perm;
    const Share *share;
    const Func *f; // as it was
    const Graph *from;
    Graph made;
    Builder to; // adds to it
    Partials partial;
    uint32_t chunks; // of this rank
    int64_t samples; // of a chunk
    SumOrder order;
    uint32_t ranks;
    uint32_t *phase;  // [old node] within its block; of groups across chunks: of their sums, less 1
    uint32_t *sum_of; // [old node] its sum in sums + 1, 0 none
    SumVec sums;
    Row *row;         // [old block]
    NodeList *writes; // [slot] its Write nodes
    uint32_t **map;   // [chunk][old node]; shared nodes: chunk 0
    uint32_t *whole;  // [old node] the sum of a partial
    uint32_t blocks;
    uint32_t *end;       // [old block] the first new block behind its scope
    NodeList *lane;      // [0] the new blocks of shared work; [1 + chunk] those of a chunk
    uint32_t shown;      // the chunk's lane that is shown, 0 none
    uint32_t *scope_end; // [new block] Builder.scope_end; 0 where it is not shown
    uint32_t *own;       // [new block] the same, which shows the one being filled alone
    int64_t *first;      // [new block]
    uint32_t *of;        // [new block] the old one
} Chunker;

// --- phases --------------------------------------------------------------------------------------

static bool straddles(const Chunker *c, uint32_t id) {
    return graph_node(c->from, id)->op == OpGroupSum &&
           c->samples % node_attr(c->from, id)->i[0] != 0;
}

static bool summed(const Chunker *c, uint32_t id) {
    return c->partial.live[id] && (straddles(c, id) || (c->partial.is[id] && c->partial.whole[id]));
}

// Made once for each chunk.
static bool per_chunk(const Chunker *c, uint32_t id) {
    return node_type(c->from, id)->batched || c->partial.is[id];
}

static bool is_leaf(const Chunker *c, uint32_t id) {
    return op_info[graph_node(c->from, id)->op].cls == ClassLEAF;
}

static uint32_t phase_from(uint32_t at_least, uint32_t kind) {
    return at_least + (kind + Phases - at_least % Phases) % Phases;
}

// The first phase in which another node of the block can read `id`.
static uint32_t known_from(const Chunker *c, uint32_t id) {
    return straddles(c, id) ? c->phase[id] + Phases : c->phase[id] + summed(c, id);
}

static uint32_t phase_of(const Chunker *c, uint32_t id) {
    uint32_t least = 0;
    for (uint32_t k = 0; k < graph_node(c->from, id)->nin; k++) {
        uint32_t in = node_in(c->from, id, k);
        bool here = graph_node(c->from, in)->block == graph_node(c->from, id)->block;
        uint32_t known = here && !is_leaf(c, in) ? known_from(c, in) : 0;
        least = known > least ? known : least;
    }
    return phase_from(least, per_chunk(c, id) ? PhaseChunk : PhaseShared);
}

static void find_phases(Chunker *c) {
    const Graph *g = c->from;
    c->phase = arena_array(c->perm, uint32_t, g->node.n);
    c->row = arena_array(c->perm, Row, c->f->blocks);
    for (uint32_t b = 0; b < c->f->blocks; b++)
        c->row[b].phases = 1;
    for (uint32_t id = 1; id < g->node.n; id++) {
        if (!c->partial.live[id] || is_leaf(c, id))
            continue;
        c->phase[id] = phase_of(c, id);
        Row *row = &c->row[graph_node(g, id)->block];
        uint32_t end = known_from(c, id) + 1;
        row->phases = end > row->phases ? end : row->phases;
    }
}

static void list_nodes(Chunker *c) {
    const Graph *g = c->from;
    for (uint32_t b = 0; b < c->f->blocks; b++)
        c->row[b].node = arena_array(c->perm, NodeList, c->row[b].phases);
    for (uint32_t id = 1; id < g->node.n; id++) {
        NodeList *node = c->row[graph_node(g, id)->block].node;
        uint32_t phase = c->phase[id];
        if (!c->partial.live[id] || is_leaf(c, id))
            continue;
        vec_push(c->perm, &node[phase], id);
        if (summed(c, id))
            vec_push(c->perm, &node[phase + 1], id);
        if (straddles(c, id))
            vec_push(c->perm, &node[phase + Phases], id);
    }
}

// --- blocks --------------------------------------------------------------------------------------

static uint32_t blocks_before(const Chunker *c, uint32_t phase) { // of a row
    uint32_t chunk_phases = (phase + Phases - 1 - PhaseChunk) / Phases;
    return phase + chunk_phases * (c->chunks - 1);
}

static uint32_t block_at(const Chunker *c, uint32_t old, uint32_t phase, uint32_t chunk) {
    return c->row[old].first + blocks_before(c, phase) + (phase % Phases == PhaseChunk ? chunk : 0);
}

static uint32_t last_block(const Chunker *c, uint32_t old) {
    return c->row[old].first + blocks_before(c, c->row[old].phases) - 1;
}

// Blocks in the order of the tape.
static void number_blocks(Chunker *c) {
    for (uint32_t i = 0; i < c->f->tape.n; i++) {
        Ctl ctl = c->f->tape.at[i];
        if (ctl.kind == CtlBlock) {
            c->row[ctl.arg].first = c->blocks;
            c->blocks += blocks_before(c, c->row[ctl.arg].phases);
        }
    }
}

// The lane of a new block: 1 + the chunk that it is of, 0 for shared work.
static uint32_t lane_of(uint32_t phase, uint32_t chunk) {
    return phase % Phases == PhaseChunk ? 1 + chunk : 0;
}

static void describe_block(Chunker *c, uint32_t old, uint32_t phase, uint32_t chunk) {
    uint32_t b = block_at(c, old, phase, chunk), lane = lane_of(phase, chunk);
    c->first[b] = lane ? chunk * c->samples : 0;
    c->of[b] = old;
    vec_push(c->perm, &c->lane[lane], b);
}

static void describe_blocks(Chunker *c) {
    c->end = blocks_scope_end(c->perm, c->f, false);
    c->scope_end = arena_array(c->perm, uint32_t, c->blocks);
    c->own = arena_array(c->perm, uint32_t, c->blocks);
    c->first = arena_array(c->perm, int64_t, c->blocks);
    c->of = arena_array(c->perm, uint32_t, c->blocks);
    c->lane = arena_array(c->perm, NodeList, 1 + c->chunks);
    for (uint32_t b = 0; b < c->f->blocks; b++)
        for (uint32_t p = 0; p < c->row[b].phases; p++)
            for (uint32_t k = 0; k < (p % Phases == PhaseChunk ? c->chunks : 1); k++)
                describe_block(c, b, p, k);
    for (uint32_t b = 0; b < c->f->blocks; b++)
        c->end[b] = c->end[b] < c->f->blocks ? c->row[c->end[b]].first : c->blocks;
}

// Opens or closes a lane: a block may share what those that dominate it compute, but not another
// chunk's: chunks must not know of each other.
static void show_lane(Chunker *c, uint32_t lane, bool shown) {
    for (uint32_t i = 0; i < c->lane[lane].n; i++) {
        uint32_t b = c->lane[lane].at[i];
        c->scope_end[b] = shown ? c->end[c->of[b]] : 0;
    }
}

static void lay_tape(const Chunker *c, Func *f) {
    VEC(Ctl) tape = {0};
    for (uint32_t i = 0; i < c->f->tape.n; i++) {
        Ctl ctl = c->f->tape.at[i];
        uint32_t n = ctl.kind == CtlBlock ? blocks_before(c, c->row[ctl.arg].phases) : 1;
        uint32_t first = ctl.kind == CtlBlock ? c->row[ctl.arg].first : ctl.arg;
        for (uint32_t k = 0; k < n; k++) {
            ctl.arg = first + k;
            vec_push(c->perm, &tape, ctl);
        }
    }
    memcpy(&f->tape, &tape, sizeof tape);
}

// --- nodes ---------------------------------------------------------------------------------------

// Is slot `slot` written in the row of block `old` before the new block `block`?
static bool written_before(const Chunker *c, uint32_t slot, uint32_t old, uint32_t block) {
    const NodeList *writes = &c->writes[slot];
    for (uint32_t i = 0; i < writes->n; i++) {
        uint32_t w = writes->at[i];
        if (graph_node(c->from, w)->block == old && block_at(c, old, c->phase[w], 0) < block)
            return true;
    }
    return false;
}

static uint32_t copy_leaf(Chunker *c, uint32_t id) {
    return builder_add(&c->to, (Op)graph_node(c->from, id)->op, NULL, 0, node_attr(c->from, id),
                       node_type(c->from, id));
}

// Operand `id` as the block being filled sees it. Slots are read where they are needed, as long as
// they hold what they held when the block began: what crosses blocks costs memory.
static uint32_t seen(Chunker *c, uint32_t id, uint32_t user, uint32_t chunk) {
    const Node *n = graph_node(c->from, id);
    uint32_t old = graph_node(c->from, user)->block;
    bool slot = n->op == OpRead && n->block == old &&
                !written_before(c, node_slot(c->from, id), old, c->to.block);
    if (slot || is_leaf(c, id)) {
        c->to.scope_end = slot ? c->own : c->scope_end;
        uint32_t made = copy_leaf(c, id);
        c->to.scope_end = c->scope_end;
        return made;
    }
    bool sum = c->whole[id] && !straddles(c, id); // groups: the table, which each has read back
    return sum ? c->whole[id] : c->map[per_chunk(c, id) ? chunk : 0][id];
}

static void enter(Chunker *c, uint32_t block, uint32_t lane) {
    c->own[c->to.block] = 0;
    c->own[block] = NONE;
    c->to.block = block;
    c->to.scope_end = c->scope_end;
    if (lane == c->shown)
        return;
    if (c->shown)
        show_lane(c, c->shown, false);
    if (lane)
        show_lane(c, lane, true);
    c->shown = lane;
}

static void add_spans(Chunker *c, uint32_t made, uint32_t id) {
    for (uint32_t at = graph_node(c->from, id)->span; at; at = c->from->span.at[at].next)
        node_add_span(&c->made, made, c->from->span.at[at].span);
}

// A copy of node `id` for a chunk.
static uint32_t copy_node(Chunker *c, uint32_t id, uint32_t chunk) {
    const Node *n = graph_node(c->from, id);
    uint32_t in[MAX_IN];
    for (uint32_t k = 0; k < n->nin; k++)
        in[k] = seen(c, node_in(c->from, id, k), id, chunk);
    return builder_add(&c->to, (Op)n->op, in, n->nin, node_attr(c->from, id),
                       node_type(c->from, id));
}

static void fill_node(Chunker *c, uint32_t id, uint32_t chunk) {
    c->to.span = c->from->span.at[graph_node(c->from, id)->span].span;
    Val made;
    if (straddles(c, id)) {
        Val x = {&c->to, seen(c, node_in(c->from, id, 0), id, chunk)};
        made = groups_add(c->share, node_attr(c->from, id)->i[0], x);
    } else {
        made = (Val){&c->to, copy_node(c, id, chunk)};
    }
    if (summed(c, id)) // what is added up is wide
        made = sum_widen(&c->sums.at[c->sum_of[id] - 1], made);
    add_spans(c, made.id, id);
    c->map[chunk][id] = made.id;
}

// Chunks lo..hi of a partial, as a tree.
static Val sum_chunks(Chunker *c, uint32_t id, uint32_t lo, uint32_t hi) {
    uint32_t middle = lo + (hi - lo) / 2;
    return hi - lo == 1 ? (Val){&c->to, c->map[lo][id]}
                        : Add(sum_chunks(c, id, lo, middle), sum_chunks(c, id, middle, hi));
}

static void fill_sum(Chunker *c, uint32_t id) {
    const SumOf *of = &c->sums.at[c->sum_of[id] - 1];
    c->to.span = c->from->span.at[graph_node(c->from, id)->span].span;
    Val sum = sum_chunks(c, id, 0, c->chunks);
    if (c->ranks > 1)
        sum = ReduceWait(ReduceStart(sum, of->call, of->part, c->order));
    add_spans(c, sum.id, id);
    bool table = straddles(c, id);
    Type as = *node_type(c->from, id);
    if (!table && val_type(sum).dtype != as.dtype)
        sum.id = builder_add(&c->to, OpCast, &sum.id, 1, NULL, &as);
    c->whole[id] = sum.id;
}

// Each chunk reads its samples' groups back.
static void fill_groups(Chunker *c, uint32_t id, uint32_t chunk) {
    Type t = *node_type(c->from, id);
    c->to.span = c->from->span.at[graph_node(c->from, id)->span].span;
    Val sums = {&c->to, c->whole[id]};
    Val mine = groups_read(node_attr(c->from, id)->i[0], sums, t);
    add_spans(c, mine.id, id);
    c->map[chunk][id] = mine.id;
}

static void fill_phase(Chunker *c, uint32_t old, uint32_t phase, uint32_t chunk) {
    const NodeList *node = &c->row[old].node[phase];
    enter(c, block_at(c, old, phase, chunk), lane_of(phase, chunk));
    for (uint32_t i = 0; i < node->n; i++) {
        uint32_t id = node->at[i];
        if (phase % Phases == PhaseSum)
            fill_sum(c, id);
        else if (c->phase[id] == phase)
            fill_node(c, id, chunk);
        else
            fill_groups(c, id, chunk);
    }
}

static void fill_row(Chunker *c, uint32_t old) {
    for (uint32_t p = 0; p < c->row[old].phases; p++)
        for (uint32_t k = 0; k < (p % Phases == PhaseChunk ? c->chunks : 1); k++)
            fill_phase(c, old, p, k);
}

// --- the function --------------------------------------------------------------------------------

static uint32_t whole_of(Chunker *c, uint32_t id) {
    if (id && is_leaf(c, id)) {
        c->to.block = 0;
        c->to.scope_end = NULL;
        return copy_leaf(c, id);
    }
    return c->whole[id] ? c->whole[id] : c->map[0][id];
}

// Each chunk has its own.
static void renumber_inner(Chunker *c, Update *u) {
    Update was = *u;
    u->inner.at = NULL, u->inner.n = u->inner.cap = 0;
    for (uint32_t i = 0; i < was.inner.n; i++)
        for (uint32_t k = 0; k < c->chunks; k++)
            if (c->map[k][was.inner.at[i]])
                vec_push(c->perm, &u->inner, c->map[k][was.inner.at[i]]);
}

static void renumber(Chunker *c, Func *f) {
    for (uint32_t i = 0; i < f->tape.n; i++)
        f->tape.at[i].cond = whole_of(c, f->tape.at[i].cond);
    for (uint32_t i = 0; i < f->effect.n; i++)
        f->effect.at[i] = whole_of(c, f->effect.at[i]);
    for (uint32_t i = 0; i < f->update.n; i++) {
        Update *u = &f->update.at[i];
        u->loss = whole_of(c, u->loss);
        for (uint32_t k = 0; k < u->grad.n; k++)
            u->grad.at[k].node = whole_of(c, u->grad.at[k].node);
        renumber_inner(c, u);
        u->block = last_block(c, u->block);
    }
    for (uint32_t i = 0; i < f->report.n; i++) {
        f->report.at[i].node = whole_of(c, f->report.at[i].node);
        f->report.at[i].block = last_block(c, f->report.at[i].block);
    }
    for (uint32_t i = 0; i < f->again.n; i++)
        f->again.at[i].block = c->row[f->again.at[i].block].first;
}

static void find_sums(Chunker *c, const Parallel *o) {
    const Graph *g = c->from;
    c->sum_of = arena_array(c->perm, uint32_t, g->node.n);
    for (uint32_t id = 1; id < g->node.n; id++) {
        if (summed(c, id)) {
            Type t = *node_type(g, id);
            if (straddles(c, id))
                t = groups_table(c->share, node_attr(g, id)->i[0], &t);
            vec_push(c->perm, &c->sums, sum_make(id, &t, DtF32));
            c->sum_of[id] = c->sums.n;
        }
    }
    calls_plan(c->perm, c->f, c->partial.live, c->phase, o, &c->sums);
}

static uint32_t chunks_of(const Parallel *o) {
    uint32_t ranks = o->ranks > 1 ? o->ranks : 1;
    return o->chunks ? o->chunks / ranks : o->micro > 1 ? o->micro : 1;
}

void pass_chunk(Arena *perm, const Module *m, Func *f, const PassOptions *options) {
    const Parallel *o = &options->parallel;
    Func was = *f;
    if (f != &m->step || !parallel_chunked(o))
        return;
    Chunker c = {.perm = perm,
                 .share = &m->share,
                 .f = &was,
                 .from = &was.g,
                 .chunks = chunks_of(o),
                 .ranks = o->ranks,
                 .order = o->chunks ? OrderTree : OrderAny};
    c.samples = m->share.samples / c.chunks;
    partials_find(perm, &was, NULL, &c.partial);
    c.writes = arena_array(perm, NodeList, m->slot.n);
    for (uint32_t i = 0; i < was.effect.n; i++)
        vec_push(perm, &c.writes[node_slot(&was.g, was.effect.at[i])], was.effect.at[i]);
    find_phases(&c);
    list_nodes(&c);
    number_blocks(&c);
    describe_blocks(&c);
    show_lane(&c, 0, true);
    find_sums(&c, o);
    c.map = arena_array(perm, uint32_t *, c.chunks);
    c.whole = arena_array(perm, uint32_t, was.g.node.n);
    for (uint32_t k = 0; k < c.chunks; k++)
        c.map[k] = arena_array(perm, uint32_t, was.g.node.n);
    graph_init(&c.made, perm, c.samples);
    c.made.next_unique = was.g.next_unique;
    c.to.g = &c.made;
    for (uint32_t i = 0; i < was.tape.n; i++)
        if (was.tape.at[i].kind == CtlBlock)
            fill_row(&c, was.tape.at[i].arg);
    lay_tape(&c, f);
    renumber(&c, f);
    for (uint32_t i = 0; i < f->next.n; i++)
        f->next.at[i].block = c.row[f->next.at[i].block].first;
    f->g = c.made;
    f->blocks = c.blocks;
    f->block_first = c.first;
    f->block_of = c.of;
}
