// units.c - classifies nodes for fusion: which are units, which must be stored, and what each unit
// reads.
//
// In: the graph. Out: Fuse.live, unit, fixed, reads, users.
#include "clusters.h"

#include <string.h>

// --- roles ---------------------------------------------------------------------------------------

bool unit_joins(const Graph *g, uint32_t id) {
    Op op = (Op)g->node.at[id].op;
    OpClass c = node_class(g, id);
    bool scatters =
        c == ClassREDUCE && op_is(op, TraitIndexed); // it loops over a table's rows, too
    return c != ClassANCHOR && c != ClassCOMM && !scatters && op != OpRead && op != OpPin;
}

// Arithmetic of a word in a value column: a function is a polynomial of its own unless the
// processor has it.
static double word_weight(Str word) {
    static const struct {
        const char *name;
        double weight;
    } known[] = {{"fabs", 0}, {"floor", 1}, {"sqrt", 4}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (str_eq(word, str_c(known[i].name)))
            return known[i].weight;
    return word.len > 1 ? 60 : 0; // a letter is an operand or K
}

static double op_weight(Op op) {
    double weight = op_info[op].cls == ClassRNG ? 400 : 1;
    for (const char *c = op_info[op].value; c && *c;) {
        size_t n = 0;
        while ((c[n] >= 'a' && c[n] <= 'z') || (n && c[n] >= '0' && c[n] <= '9'))
            n++;
        weight += word_weight((Str){c, n}) + (*c == '/' ? 4 : 0);
        c += n ? n : 1;
    }
    return weight;
}

double fuse_weight(const Fuse *z, uint32_t id) {
    bool is_short = node_is_short(z->g, id);
    return is_short ? (double)node_terms(z->g, id) : z->weight[z->g->node.at[id].op];
}

// --- units ----------------------------------------------------------------------------------

// Slots have what is read, and the reference device what is constant.
static void fix(Fuse *z, uint32_t id) {
    Op op = (Op)z->g->node.at[id].op;
    if (op != OpRead && (op != OpConst || !z->o->no_fuse))
        z->unit[id] = z->fixed[id] = 1;
}

static uint32_t fix_storage(Fuse *z, uint32_t id) {
    uint32_t at = z->o->no_fuse ? id : node_storage(z->g, id, *z->arena);
    fix(z, at);
    return at;
}

static void find_live(Fuse *z) {
    const Func *f = z->f;
    uint32_t n = z->g->node.n;
    ObservedVec seen = {0};
    func_observed(z->arena, f, z->o->keep_grads, &seen);
    z->live = arena_array(z->arena, uint8_t, n);
    for (uint32_t i = 0; i < f->effect.n; i++)
        z->live[f->effect.at[i]] = 1;
    for (uint32_t i = 0; i < seen.n; i++) {
        z->live[seen.at[i].node] = 1;
        z->asked[fix_storage(z, seen.at[i].node)] = 1;
    }
    for (uint32_t id = 1; z->stated && id < n; id++)
        z->live[id] |= z->stated[id];
    graph_spread(z->g, z->live);
}

// Bounds that looking through a view may add to an access (coords_move).
static uint32_t view_bounds(const Graph *g, uint32_t id) {
    const Type *to = node_type(g, id), *from = node_type(g, node_in(g, id, 0));
    const int64_t *step = node_attr(g, id)->i + 1 + to->rank;
    uint32_t n = g->node.at[id].op == OpConcat;
    for (uint32_t i = 0; i < to->rank && g->node.at[id].op == OpPad; i++)
        n += (step[i] > 1) + (from->dim[i] != to->dim[i]);
    return n;
}

// A value is stored behind a long chain of views, and before the chain has more bounds than an
// access can: every view makes the index of its readers longer. What a text stores is loaded:
// chains begin there anew, in the runs of a region that runs twice, too (remat.c).
static void store_long_chains(Fuse *z) {
    enum { LongChain = 16, ManyBounds = MAX_BOUNDS - 2 * MAX_RANK }; // a pad adds two an axis
    typedef struct Chain {
        uint32_t views, bounds;
    } Chain;
    const Graph *g = z->g;
    Chain *chain = arena_array(z->arena, Chain, g->node.n); // [node] the longest to it
    for (uint32_t id = 1; id < g->node.n; id++) {
        OpClass cls = node_class(g, id);
        bool view = node_is_view(g, id),
             looks = cls == ClassMOVE || cls == ClassEW || node_is_short(g, id);
        bool stated = z->stated && z->stated[id];
        if (!z->live[id] || !looks || z->fixed[id] || stated)
            continue;
        Chain *c = &chain[id];
        for (uint32_t k = 0; k < g->node.at[id].nin; k++) {
            Chain in = chain[node_in(g, id, k)];
            c->views = in.views > c->views ? in.views : c->views;
            c->bounds = in.bounds > c->bounds ? in.bounds : c->bounds;
        }
        if (!view)
            continue;
        c->bounds += view_bounds(g, id);
        if (++c->views == LongChain || c->bounds > ManyBounds) {
            fix(z, id);
            *c = (Chain){0};
        }
    }
}

static void find_units(Fuse *z) {
    const Graph *g = z->g;
    for (uint32_t id = 1; id < g->node.n; id++) {
        OpClass c = node_class(g, id);
        bool stated = z->stated && z->stated[id];
        bool leaf = g->node.at[id].op == OpRead || g->node.at[id].op == OpConst ||
                    (c == ClassLEAF && !stated);
        if (!z->live[id])
            continue;
        if (z->o->no_fuse) {
            z->unit[id] = g->node.at[id].op != OpConst && g->node.at[id].op != OpRead;
            continue;
        }
        z->unit[id] |= !leaf && (stated || !node_is_view(g, id));
        if (g->node.at[id].op == OpPin) // of as_samples.c, another layout; of strips.c, stored
            fix(z, id);
        if (c == ClassANCHOR || c == ClassCOMM) {
            fix(z, id);
            for (uint32_t k = 0; k < g->node.at[id].nin; k++)
                fix_storage(z, node_in(g, id, k));
        }
        if (op_is((Op)g->node.at[id].op, TraitIndexed)) { // a table is read anywhere
            fix_storage(z, node_in(g, id, 0));
            if (c == ClassREDUCE) // what is added up is read again for each row of the table
                fix_storage(z, node_in(g, id, 1));
        }
        if (node_ends_loop(g, id) || g->node.at[id].op == OpWrite)
            fix(z, id);
    }
}

// --- what units read -----------------------------------------------------------------------------

typedef struct Loop { // over the elements of a type; units of one space share it
    Indices ix;
    Coords at;
    Ix own;         // number of the element
    uint64_t index; // its hash
    bool known;
} Loop;

typedef struct Reader {
    Fuse *z;
    Loop *loop;
    uint32_t unit;
    uint32_t times; // elements of an operand that are asked for
    bool loose;     // not by where the unit's own lies
} Reader;

static void read_value(Reader *r, uint32_t id, const Coords *at, double share);

// The part of a loop that is within bounds.
static double share_within(const Indices *ix, const Bounds *b) {
    double share = 1;
    for (uint32_t i = 0; i < b->n; i++) {
        int64_t lo, hi, from = b->b[i].lo, to = b->b[i].hi - 1;
        ix_range(ix, b->b[i].at, &lo, &hi);
        from = from > lo ? from : lo;
        to = to < hi ? to : hi;
        share *= (double)(to + 1 - from) / (double)(hi + 1 - lo);
    }
    return share;
}

// Operands of a move, also those that no element is taken from: a region with a move lists all of
// them as inputs, so all of them must run before it.
static void read_move(Reader *r, uint32_t id, const Coords *at, double share) {
    const Graph *g = r->z->g;
    for (uint32_t k = 0; k < g->node.at[id].nin; k++) {
        Coords from = {0};
        Bounds bounds = {0};
        Indices *ix = &r->loop->ix;
        bool some = coords_move(ix, g, id, k, at, &from, &bounds);
        read_value(r, node_in(g, id, k), &from, some ? share * share_within(ix, &bounds) : 0);
    }
}

static void read_value(Reader *r, uint32_t id, const Coords *at, double share) {
    Fuse *z = r->z;
    const Graph *g = z->g;
    if (!z->unit[id] && node_is_view(g, id)) {
        read_move(r, id, at, share);
        return;
    }
    if (g->node.at[id].op == OpConst || (!z->unit[id] && node_class(g, id) == ClassLEAF))
        return;
    Loop *l = r->loop;
    const Type *t = node_type(g, id), *space = node_space(g, r->unit);
    bool same = type_same_layout(t, space) && memcmp(at, &l->at, sizeof *at) == 0;
    Ix place = same ? l->own : coords_address(&l->ix, t, at);
    bool aligned = !r->loose && share == 1 && place == l->own &&
                   type_elements(g, t) == type_elements(g, space);
    double part = share > 0.5 ? 1 : share; // layers of all sizes are cut alike
    uint64_t index = same ? l->index : ix_hash(&l->ix, place);
    Reads now = {id, aligned, r->times * part, index, share < 1};
    bool known = false; // as an operand, at some place
    for (uint32_t i = 0; i < z->reads[r->unit].n; i++) {
        Reads *seen = &z->reads[r->unit].at[i];
        known |= seen->node == id;
        if (seen->node == id && seen->index == now.index) {
            seen->aligned &= now.aligned;
            seen->times = seen->times > now.times ? seen->times : now.times;
            seen->guarded += now.guarded;
            return;
        }
    }
    vec_push(z->arena, &z->reads[r->unit], now);
    if (z->unit[id] && !known) {
        vec_push(z->arena, &z->users[id], r->unit);
        if (g->node.at[id].block != g->node.at[r->unit].block)
            z->fixed[id] = 1;
    }
}

// Calls and unfused nodes read their operands whole.
static void read_whole(Fuse *z, uint32_t unit) {
    for (uint32_t k = 0; k < z->g->node.at[unit].nin; k++) {
        uint32_t id = node_in(z->g, unit, k),
                 from = z->o->no_fuse ? id : node_storage(z->g, id, *z->arena);
        vec_push(z->arena, &z->reads[unit], ((Reads){from, false, 1, 0, 0}));
        if (z->unit[from])
            vec_push(z->arena, &z->users[from], unit);
    }
}

static Loop *loop_over(Loop *loops, const Graph *g, uint32_t type, Arena *a) {
    Loop *l = &loops[type];
    const Type *t = &g->type.at[type];
    if (!l->known) {
        indices_init(&l->ix, a);
        coords_identity(&l->ix, g, t, &l->at);
        l->own = coords_address(&l->ix, t, &l->at);
        l->index = ix_hash(&l->ix, l->own);
        l->known = true;
    }
    return l;
}

static void find_reads(Fuse *z, uint32_t unit, Loop *loops, Arena *scratch) {
    const Graph *g = z->g;
    OpClass c = node_class(g, unit);
    if (z->o->no_fuse || c == ClassANCHOR || c == ClassCOMM) {
        read_whole(z, unit);
        return;
    }
    uint32_t space = (uint32_t)(node_space(g, unit) - g->type.at);
    Reader r = {.z = z, .unit = unit, .times = 1, .loop = loop_over(loops, g, space, scratch)};
    const Coords *at = &r.loop->at;
    if (z->unit[unit] && node_is_view(g, unit)) { // a stored move copies element by element
        read_move(&r, unit, at, 1);
        return;
    }
    r.loose = node_is_short(g, unit) && node_terms(g, unit) > 1;
    r.loose |= op_is((Op)g->node.at[unit].op, TraitIndexed);
    r.times = node_is_short(g, unit) ? (uint32_t)node_terms(g, unit) : 1;
    for (uint32_t k = 0; k < g->node.at[unit].nin; k++) {
        Coords from;
        bool table = k == 0 && g->node.at[unit].op == OpGather; // read anywhere
        coords_broadcast(node_type(g, node_in(g, unit, k)), table ? &(Coords){0} : at, &from);
        read_value(&r, node_in(g, unit, k), &from, 1);
    }
}

static void find_all_reads(Fuse *z) {
    Arena scratch;
    arena_need(&scratch);
    Loop *loops = arena_array(&scratch, Loop, z->g->type.n); // [type]
    for (uint32_t id = 1; id < z->g->node.n; id++)
        if (z->unit[id])
            find_reads(z, id, loops, &scratch);
    arena_release(&scratch);
}

NodeList *slot_writes(Arena *a, const Module *m, const Func *f) {
    NodeList *writes = arena_array(a, NodeList, m->slot.n);
    for (uint32_t i = 0; i < f->effect.n; i++)
        vec_push(a, &writes[node_slot(&f->g, f->effect.at[i])], f->effect.at[i]);
    return writes;
}

void units_find(Fuse *z) {
    uint32_t n = z->g->node.n;
    z->unit = arena_array(z->arena, uint8_t, n);
    z->fixed = arena_array(z->arena, uint8_t, n);
    z->kept = arena_array(z->arena, uint8_t, n);
    z->asked = arena_array(z->arena, uint8_t, n);
    z->derived = arena_array(z->arena, uint8_t, n);
    z->reads = arena_array(z->arena, ReadsVec, n);
    z->users = arena_array(z->arena, NodeList, n);
    z->later = arena_array(z->arena, NodeList, n);
    z->again = arena_array(z->arena, NodeList, n);
    z->writes = slot_writes(z->arena, z->m, z->f);
    z->weight = arena_array(z->arena, double, OpCount);
    for (uint32_t op = OpNone; op < OpCount; op++)
        z->weight[op] = op_weight((Op)op);
    find_live(z);
    find_units(z);
    if (!z->o->no_fuse)
        store_long_chains(z);
    find_all_reads(z);
}
