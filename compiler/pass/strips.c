// strips.c - operations whose large intermediates share an axis are repeated for strips of it.
//
// In: a function in its final precision, for the global batch. Out: the same values but for the
// order of sums. Scores of n rows and n keys, and what a softmax and its gradient make of them, are
// n times n; what goes in and comes out is n long. For a strip of rows the whole chain fits a cache
// (or at least memory): its inputs are slices, its outputs are joined, sums over the rows are
// added up strip by strip. What the backward pass reads of such values it makes again, as
// FlashAttention does (Dao et al. 2022); here it is any group of operations (strips_find.c), in a
// gradient of any order. How many strips there are follows from shapes alone.
#include "strips.h"

#include <string.h>

enum { PartsAtOnce = 4 }; // strips whose sums are added at once

typedef struct Cutter {
    const Strips *z;
    const Group *group;
    Builder to;
    uint32_t *map;        // [old node] what became of it, 0: nothing yet
    uint32_t *copy;       // [old node] its part in the strip at hand
    uint32_t *pinned;     // [old node] the slice of it that the strip's products read
    uint32_t *pinned_for; // [old node] the strip it is of, and its axis
    uint32_t *parts;      // [old node, strip] of what is read in full
    uint8_t *needed;      // [old node] 1 + the last level that needs it first
    NodeList made;        // new nodes in strips
    uint32_t run;         // number of the strip at hand among those of all levels
} Cutter;

static uint32_t renewed(Cutter *c, uint32_t id);

// New nodes are of the block and line of the old one.
static void stand_at(Cutter *c, uint32_t id) {
    const Graph *g = c->z->g;
    c->to.block = graph_node(g, id)->block;
    c->to.span = g->span.at[graph_node(g, id)->span].span;
}

static uint32_t named(Cutter *c, uint32_t id, uint32_t made) {
    const Graph *g = c->z->g;
    for (uint32_t at = graph_node(g, id)->span; at; at = g->span.at[at].next)
        node_add_span(c->to.g, made, g->span.at[at].span);
    return made;
}

static uint32_t copied(Cutter *c, uint32_t id) {
    const Graph *g = c->z->g;
    const Node *n = graph_node(g, id);
    uint32_t in[MAX_IN];
    for (uint32_t k = 0; k < n->nin; k++)
        in[k] = renewed(c, node_in(g, id, k));
    stand_at(c, id);
    return named(c, id,
                 builder_add(&c->to, (Op)n->op, in, n->nin, node_attr(g, id), node_type(g, id)));
}

// --- one strip -----------------------------------------------------------------------------------

typedef struct Rows {
    uint32_t level;
    int64_t from, count;
} Rows;

static Val slice(Val x, uint32_t axis, const Rows *rows) {
    int64_t from[MAX_RANK] = {0}, step[MAX_RANK];
    Type t = val_type(x);
    for (uint32_t i = 0; i < t.rank; i++)
        step[i] = 1;
    from[axis] = rows->from;
    t.dim[axis] = rows->count;
    return Slice(x, from, t.dim, step);
}

// Rows of old node `id`. Products store what they read anyway; pinned, equal products of different
// levels are not one, which would be stored from the one level to the other.
static uint32_t sliced(Cutter *c, uint32_t id, uint32_t axis, const Rows *rows, bool pin) {
    Val x = {&c->to, c->map[id]};
    uint32_t key = (c->run + 1) * (MAX_RANK + 1) + axis;
    if (pin && c->pinned_for[id] == key)
        return c->pinned[id];
    Val part = slice(x, axis, rows);
    if (!pin)
        return part.id;
    c->pinned_for[id] = key;
    return c->pinned[id] = Pin(part).id;
}

// Is operand k of a member made in the same strip?
static bool is_part(const Strips *z, uint32_t id, uint32_t k, uint32_t level) {
    return strips_carries(z, id, k) && z->again[node_in(z->g, id, k)] >> level & 1;
}

static uint32_t strip_operand(Cutter *c, uint32_t id, uint32_t k, const Rows *rows) {
    const Strips *z = c->z;
    uint32_t in = node_in(z->g, id, k);
    int edge = strips_edge(z, id, k);
    if (is_part(z, id, k, rows->level))
        return c->copy[in];
    bool product = graph_node(z->g, id)->op == OpDot;
    return edge > 0 ? sliced(c, in, (uint32_t)edge - 1, rows, product) : c->map[in];
}

// A sum of halves is added up in f32.
static Type part_type(const Strips *z, uint32_t id, const Rows *rows) {
    Type t = *node_type(z->g, id);
    if (z->cut[id])
        t.dim[z->cut[id] - 1] = rows->count;
    else if (graph_node(z->g, id)->op == OpDot && dtype_is_half((Dtype)t.dtype))
        t.dtype = DtF32;
    return t;
}

static void strip_member(Cutter *c, uint32_t id, const Rows *rows) {
    const Node *n = graph_node(c->z->g, id);
    uint32_t in[MAX_IN];
    stand_at(c, id);
    for (uint32_t k = 0; k < n->nin; k++)
        in[k] = strip_operand(c, id, k, rows);
    Type t = part_type(c->z, id, rows);
    uint32_t made = builder_add(&c->to, (Op)n->op, in, n->nin, node_attr(c->z->g, id), &t);
    c->copy[id] = named(c, id, made);
    vec_push(c->z->a, &c->made, made);
}

// --- results -------------------------------------------------------------------------------------

// Parts are added few at a time, behind a Pin, which fusion stores: all of them at once would be in
// memory together.
static void add_part(Cutter *c, uint32_t id, uint32_t strip) {
    Val part = {&c->to, c->copy[id]}, sum = {&c->to, c->map[id]};
    bool most = graph_node(c->z->g, id)->op == OpMaxOf,
         full = strip % PartsAtOnce == PartsAtOnce - 1 && strip + 1 < c->group->strips;
    stand_at(c, id);
    sum = strip == 0 ? part : most ? Max(sum, part) : Add(sum, part);
    c->map[id] = full ? Pin(sum).id : sum.id;
}

static void finish(Cutter *c, uint32_t id) {
    const Graph *g = c->z->g;
    uint32_t strips = c->group->strips;
    const Type *t = node_type(g, id);
    stand_at(c, id);
    if (c->z->cut[id]) {
        Val part[MAX_IN];
        for (uint32_t s = 0; s < strips; s++)
            part[s] = (Val){&c->to, c->parts[id * strips + s]};
        c->map[id] = Concat(part, strips, c->z->cut[id] - 1u).id;
    } else if (node_type(c->to.g, c->map[id])->dtype != t->dtype) {
        c->map[id] = builder_add(&c->to, OpCast, &c->map[id], 1, NULL, t);
    }
    named(c, id, c->map[id]);
}

// Is it a result of the level?
static bool ends(const Strips *z, uint32_t id, uint32_t level) {
    return z->out[id] && z->level[id] == level;
}

static void run_strip(Cutter *c, uint32_t strip, const Rows *rows) {
    const NodeList *member = &c->group->member[rows->level];
    c->run++;
    for (uint32_t i = 0; i < member->n; i++)
        strip_member(c, member->at[i], rows);
    for (uint32_t i = 0; i < member->n; i++) {
        uint32_t id = member->at[i];
        if (!ends(c->z, id, rows->level))
            continue;
        if (c->z->sum[id])
            add_part(c, id, strip);
        else
            c->parts[id * c->group->strips + strip] = c->copy[id];
    }
}

// What a level reads in full, and what that is made of, but for members of lower levels.
static void renew_before(Cutter *c, uint32_t level) {
    const Strips *z = c->z;
    const NodeList *member = &c->group->member[level];
    uint8_t mark = (uint8_t)(level + 1);
    for (uint32_t i = 0; i < member->n; i++)
        for (uint32_t k = 0; k < graph_node(z->g, member->at[i])->nin; k++)
            if (!is_part(z, member->at[i], k, level))
                c->needed[node_in(z->g, member->at[i], k)] = mark;
    for (uint32_t id = z->g->node.n; id-- > 1;) {
        bool open = c->needed[id] == mark && !c->map[id] && !strips_member(z, id);
        for (uint32_t k = 0; open && k < graph_node(z->g, id)->nin; k++)
            c->needed[node_in(z->g, id, k)] = mark;
    }
    for (uint32_t id = 1; id < z->g->node.n; id++)
        if (c->needed[id] == mark)
            renewed(c, id);
}

// All strips of a level.
static void run_level(Cutter *c, uint32_t level) {
    const Strips *z = c->z;
    const NodeList *member = &c->group->member[level];
    renew_before(c, level);
    Rows rows = {.level = level};
    for (uint32_t s = 0; s < c->group->strips; s++, rows.from += c->group->rows) {
        int64_t left = c->group->extent - rows.from;
        rows.count = left < c->group->rows ? left : c->group->rows;
        run_strip(c, s, &rows);
    }
    for (uint32_t i = 0; i < member->n; i++)
        if (ends(z, member->at[i], level))
            finish(c, member->at[i]);
}

// What becomes of an old node that is no member, or is read in full. Operands are renewed before,
// but for members: it calls itself at most once a level.
static uint32_t renewed(Cutter *c, uint32_t id) {
    const Strips *z = c->z;
    if (id && !c->map[id] && strips_member(z, id))
        run_level(c, z->level[id]);
    else if (id && !c->map[id])
        c->map[id] = copied(c, id);
    return c->map[id];
}

// --- the function --------------------------------------------------------------------------------

// Products made again are in the compiled graph, but not in the step as it is written.
static void count_again(const Strips *z, const Group *group, Func *f) {
    for (uint32_t l = 0; l < group->levels; l++)
        for (uint32_t i = 0; i < group->member[l].n; i++) {
            uint32_t id = group->member[l].at[i];
            double gflop = z->level[id] == l ? 0 : node_gflop(z->g, id);
            if (gflop > 0)
                vec_push(z->g->perm, &f->again, ((Again){-gflop, graph_node(z->g, id)->block}));
        }
}

static const uint8_t *mark_made(const Cutter *c) {
    const uint8_t *was = c->z->made;
    uint8_t *made = arena_array(c->z->a, uint8_t, c->to.g->node.n);
    for (uint32_t id = 1; id < c->z->g->node.n; id++)
        made[c->map[id]] |= was[id];
    for (uint32_t i = 0; i < c->made.n; i++)
        made[c->made.at[i]] = 1;
    return made;
}

// Replaces the function's graph; returns which nodes of the new one are in strips: [node].
static const uint8_t *cut(Arena *perm, const Strips *z, const Group *group, Func *f) {
    const Graph *from = z->g;
    uint32_t n = from->node.n;
    Graph to;
    graph_init(&to, perm, from->batch);
    to.next_unique = from->next_unique;
    to.literal = from->literal;
    Cutter c = {.z = z,
                .group = group,
                .to = {.g = &to, .scope_end = blocks_scope_end(z->a, f, false)},
                .map = arena_array(z->a, uint32_t, n),
                .copy = arena_array(z->a, uint32_t, n),
                .pinned = arena_array(z->a, uint32_t, n),
                .pinned_for = arena_array(z->a, uint32_t, n),
                .parts = arena_array(z->a, uint32_t, (size_t)n * group->strips),
                .needed = arena_array(z->a, uint8_t, n)};
    count_again(z, group, f);
    for (uint32_t id = 1; id < n; id++)
        if (z->live[id] && (!strips_member(z, id) || z->root[id]))
            renewed(&c, id);
    func_renumber(f, c.map);
    to.simple = true;
    const uint8_t *made = mark_made(&c);
    f->g = to;
    return made;
}

static void search_init(Strips *z, Arena *a, const PassOptions *o, const Func *f) {
    const Graph *g = &f->g;
    *z = (Strips){.a = a, .o = o, .f = f, .g = g, .made = z->made};
    z->live = func_live(a, f);
    z->root = func_roots(a, f);
    z->users = arena_array_(a, sizeof *z->users, _Alignof(NodeList), g->node.n);
    z->cut = arena_array(a, uint8_t, g->node.n);
    z->sum = arena_array(a, uint8_t, g->node.n);
    z->out = arena_array(a, uint8_t, g->node.n);
    z->again = arena_array(a, uint8_t, g->node.n);
    z->level = arena_array(a, uint32_t, g->node.n);
    for (uint32_t id = 1; id < g->node.n; id++)
        for (uint32_t k = 0; z->live[id] && k < graph_node(g, id)->nin; k++)
            if (k == 0 || node_in(g, id, k) != node_in(g, id, k - 1))
                vec_push(a, &z->users[node_in(g, id, k)], id);
}

void pass_strips(Arena *perm, const Module *m, Func *f, const PassOptions *o) {
    Arena scratch;
    (void)m;
    if (o->no_fuse || (!o->strip_bytes && !o->small_products))
        return;
    arena_need(&scratch);
    Strips z = {.made = arena_array(&scratch, uint8_t, f->g.node.n)};
    Group group;
    for (;;) {
        Graph from = f->g;
        search_init(&z, &scratch, o, f);
        z.g = &from;
        if (!strips_find(&z, &group))
            break;
        z.made = cut(perm, &z, &group, f);
    }
    arena_release(&scratch);
}
