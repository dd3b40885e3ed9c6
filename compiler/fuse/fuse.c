// fuse.c - partitions a function's graph into regions: one generated loop nest, library call or
// copy each.
//
// In: a function whose graph passes are done. Out: Plan.region, region_of, place (owner, space),
// copied, why.
// 1. Units and what they read, through views (units.c). What a library call, a result or another
//    block needs is stored.
// 2. Vertical fusion: producers join consumers that visit the same elements in the same order, most
//    bytes first.
// 3. Recomputation: what is still stored for another region is recomputed there if that moves fewer
//    bytes, and the kernels stay within MaxStatements.
// 4. Horizontal fusion: regions that read the same values, or recompute them, join.
// 5. On cards: what several regions recompute of reductions is stored in their place (derive.c).
// `init` has none of the last three. It runs once and repeats few short regions for the weights of
// many layers; apart they share kernels (biggan's 34, and not 98, in 1.02 of the bytes).
// Every kept node is stored by exactly one region (regions.c), and the regions of a block are in
// topological order (cluster_order.c).
#include "clusters.h"

#include <stdlib.h>
#include <string.h>

enum {
    ScalarRuns = 64, // how often a kernel computes a value that is the same for all elements
    Repeated = 8     // a value so many times smaller than a loop is broadcast along it
};

// The cost model of recomputation, in equivalent bytes of memory traffic.
typedef struct Costs {
    double launch;   // a launch
    double latency;  // a launch that makes what is broadcast along the loops that read it
    double addition; // an addition
    double free;     // additions per element that hide behind a kernel's memory traffic
    double near;     // a byte that an earlier element has loaded: from a cache
} Costs;

// Cores: AVX-512, 15 GB/s a core. Cards do ten additions a byte (an H100: 33e12 a second, 3.3e12
// bytes), so a norm's division and root hide behind the eight bytes of an element; a launch takes
// a few microseconds of theirs, of which a byte in a hundred is counted: longer kernels compile
// longer. All of it is where a norm's numbers of each channel are made: the next loop waits for
// that alone, and could make them itself, once a thread and ahead of its steps. Other elements of a
// value are read by other blocks: they come from the card's second cache (5.5e12 bytes a second),
// where a core's come from its own.
static const Costs of_cores = {8192, 8192, 0.15, 3, 0},
                   of_cards = {65536, 2e-6 * 3.3e12, 0.1, 14, 0.6};

static const Costs *costs(const Fuse *z) {
    return z->o->few_launches ? &of_cards : &of_cores;
}

// --- collectives ---------------------------------------------------------------------------------

// The parts of a call are one region where it starts and one where it is waited for, and calls
// start in the order of their numbers: on every rank, whatever else differs.
static void join_calls(Fuse *z) {
    const Graph *g = z->g;
    NodeList start = {0}, wait = {0}; // [call] first unit + 1
    for (uint32_t id = 1; id < g->node.n; id++) {
        if (!z->unit[id] || node_class(g, id) != ClassCOMM)
            continue;
        NodeList *first = g->node.at[id].op == OpReduceStart ? &start : &wait;
        uint32_t call = (uint32_t)node_attr(g, id)->i[0];
        while (first->n <= call)
            vec_push(z->arena, first, 0);
        if (!first->at[call])
            first->at[call] = id;
        else if (!cluster_join(z, first->at[call], id))
            bug("fuse: the parts of collective %u wait for each other", call);
    }
    for (uint32_t k = 1; k < start.n; k++) {
        uint32_t before = start.at[k - 1], after = start.at[k];
        if (before && after && g->node.at[before].block == g->node.at[after].block &&
            !cluster_order(z, before, after))
            bug("fuse: collective %u cannot start behind %u", k, k - 1);
    }
}

// --- slots ---------------------------------------------------------------------------------------

static bool func_repeats(const Func *f) {
    for (uint32_t i = 0; i < f->tape.n; i++)
        if (f->tape.at[i].kind == CtlRepeat)
            return true;
    return false;
}

// Has a writer in block `writer` changed the slot, which block `home` reads, before block `reader`,
// which uses what was read, begins?
bool slot_late(const Func *f, uint32_t home, uint32_t reader, uint32_t writer) {
    return reader != home && writer >= home &&
           (func_repeats(f) || (writer < reader && !blocks_exclude(f, writer, reader)));
}

static bool aligned_read(const Fuse *z, uint32_t user, uint32_t id) {
    bool some = false, all = true;
    for (uint32_t i = 0; i < z->reads[user].n; i++) {
        Reads r = z->reads[user].at[i];
        some |= r.node == id;
        all &= r.node != id || r.aligned;
    }
    return some && all;
}

// Reads see a slot as their block finds it. Orders the readers of one before the write of the slot
// in their own block; false when a reader comes after a write all the same, or is the write itself
// and needs other elements than the one it puts in their place (h := flip(h, ...)).
static bool order_readers(Fuse *z, uint32_t read, const NodeList *readers) {
    const NodeList *writes = &z->writes[node_slot(z->g, read)];
    uint32_t home = z->g->node.at[read].block;
    for (uint32_t i = 0; i < writes->n; i++) {
        uint32_t w = writes->at[i], wb = z->g->node.at[w].block;
        for (uint32_t k = 0; k < readers->n; k++) {
            uint32_t unit = readers->at[k], block = z->g->node.at[unit].block;
            bool in_place = unit == w && aligned_read(z, w, read);
            if (slot_late(z->f, home, block, wb) ||
                (block == wb && !in_place && (unit == w || !cluster_order(z, unit, w))))
                return false;
        }
    }
    return true;
}

static bool overwritten(const Fuse *z, uint32_t read, uint32_t block) {
    const NodeList *writes = &z->writes[node_slot(z->g, read)];
    for (uint32_t i = 0; i < writes->n; i++)
        if (z->g->node.at[writes->at[i]].block <= block)
            return true;
    return false;
}

// Reads whose value a report or a run-time `if` takes after their block has written the slot.
static uint8_t *find_observed(const Fuse *z) {
    const Func *f = z->f;
    uint8_t *observed = arena_array(z->arena, uint8_t, z->g->node.n);
    uint32_t block = 0;
    for (uint32_t i = 0; i < f->report.n; i++) {
        uint32_t from = node_storage(z->g, f->report.at[i].node, *z->arena);
        if (z->g->node.at[from].op == OpRead)
            observed[from] |= overwritten(z, from, f->report.at[i].block);
    }
    for (uint32_t i = 0; i < f->tape.n; i++) {
        const Ctl *c = &f->tape.at[i];
        block = c->kind == CtlBlock ? c->arg : block;
        uint32_t from = c->kind == CtlIf ? node_storage(z->g, c->cond, *z->arena) : 0;
        if (from && z->g->node.at[from].op == OpRead)
            observed[from] |= overwritten(z, from, block);
    }
    return observed;
}

// A Read that is overwritten before its last reader becomes a unit of its own: a copy made in time.
static void order_slots(Fuse *z) {
    const Graph *g = z->g;
    NodeList *readers = arena_array(z->arena, NodeList, g->node.n);
    for (uint32_t id = 1; id < g->node.n; id++) {
        for (uint32_t k = 0; z->unit[id] && k < z->reads[id].n; k++) {
            uint32_t from = z->reads[id].at[k].node;
            if (g->node.at[from].op == OpRead)
                vec_push(z->arena, &readers[from], id);
        }
    }
    const uint8_t *observed = find_observed(z);
    for (uint32_t id = 1; id < g->node.n; id++) {
        if (observed[id] || (readers[id].n && !order_readers(z, id, &readers[id]))) {
            NodeList self = {0};
            z->unit[id] = z->fixed[id] = z->kept[id] = 1;
            z->users[id] = readers[id];
            vec_push(z->arena, &z->member[id], id);
            vec_push(z->arena, &self, id);
            order_readers(z, id, &self);
        }
    }
}

// --- 2: vertical fusion --------------------------------------------------------------------------

typedef struct Edge {
    size_t bytes;
    uint32_t from, to;
} Edge;

static int by_bytes(const void *a, const void *b) {
    const Edge *x = a, *y = b;
    if (x->bytes != y->bytes)
        return x->bytes > y->bytes ? -1 : 1;
    if (x->to != y->to)
        return x->to < y->to ? -1 : 1;
    return x->from < y->from ? -1 : x->from > y->from;
}

static void fuse_vertically(Fuse *z) {
    VEC(Edge) edge = {0};
    for (uint32_t id = 1; id < z->g->node.n; id++) {
        for (uint32_t k = 0; z->unit[id] && k < z->reads[id].n; k++) {
            Reads r = z->reads[id].at[k];
            if (r.aligned && z->unit[r.node]) {
                size_t bytes = type_bytes(z->g, node_type(z->g, r.node));
                // what nothing else reads is then not stored either
                bool only = z->users[r.node].n == 1 && !z->fixed[r.node];
                vec_push(z->arena, &edge, ((Edge){bytes * (only ? 2 : 1), r.node, id}));
            }
        }
    }
    if (edge.n)
        qsort(edge.at, edge.n, sizeof *edge.at, by_bytes);
    barriers_find(z);
    clusters_link(z);
    uint32_t before;
    do { // an edge that is blocked may be possible once both ends have grown
        uint32_t blocked = 0;
        before = z->merges;
        for (uint32_t i = 0; i < edge.n; i++)
            if (cluster_merge(z, edge.at[i].from, edge.at[i].to) == MergeBlocked)
                edge.at[blocked++] = edge.at[i];
        edge.n = blocked;
    } while (z->merges > before);
}

static void find_kept(Fuse *z) {
    for (uint32_t id = 1; id < z->g->node.n; id++) {
        z->kept[id] = z->fixed[id];
        for (uint32_t k = 0; z->unit[id] && k < z->users[id].n; k++)
            z->kept[id] |= z->cluster[z->users[id].at[k]] != z->cluster[id];
    }
}

// --- 3: recomputing instead of storing -----------------------------------------------------------

static double recompute_weight(const Fuse *z, uint32_t id) {
    double sum = fuse_weight(z, id);
    for (uint32_t i = 0; i < z->reads[id].n && sum < 1000; i++) {
        Reads r = z->reads[id].at[i];
        if (z->unit[r.node] && !z->kept[r.node])
            sum += r.times * recompute_weight(z, r.node);
    }
    return sum;
}

static bool reads_it(const ReadsVec *v, uint32_t id) {
    for (uint32_t i = 0; i < v->n; i++)
        if (v->at[i].node == id)
            return true;
    return false;
}

// What a loop that reads a value `times` per element loads from memory, and what it loads from a
// cache because another element has loaded it.
typedef struct Fetched {
    double bytes, near;
} Fetched;

// In a register or the nearest cache.
static bool is_broadcast(const Graph *g, uint32_t id, double space) {
    return (double)type_elements(g, node_type(g, id)) * Repeated < space;
}

static Fetched fetched(const Graph *g, uint32_t id, double space, double times) {
    const Type *t = node_type(g, id);
    double all = (double)type_elements(g, t), read = space * times, size = dtype_size[t->dtype],
           first = read < all ? read : all, once = first > space ? first : space;
    bool again = read > once && !is_broadcast(g, id, space);
    return (Fetched){size * first, again ? size * (read - once) : 0};
}

// What it costs consumer cluster `c`, in bytes, to recompute `id` from `leaf` itself, `at` times
// per element.
static double recompute_cost(Fuse *z, uint32_t id, uint32_t c, double at, const ReadsVec *leaf) {
    const Graph *g = z->g;
    bool scalar = type_elements(g, node_type(g, id)) == 1;
    double space = (double)type_elements(g, node_space(g, c)), runs = scalar ? ScalarRuns : space,
           weight = at * recompute_weight(z, id) - (scalar ? 0 : costs(z)->free);
    double cost = weight > 0 ? costs(z)->addition * weight * runs : 0;
    ReadsVec now = {0};
    cluster_reads(z, c, &now);
    for (uint32_t i = 0; i < leaf->n; i++) {
        Fetched f = fetched(g, leaf->at[i].node, space, at * leaf->at[i].times);
        cost += (reads_it(&now, leaf->at[i].node) ? 0 : f.bytes) + costs(z)->near * f.near;
    }
    return cost;
}

// May the cluster of `user` read `leaf` itself, or would it read a slot after a write? Adds the
// ordering edges that prevent that where it can.
static bool slots_allow(Fuse *z, uint32_t user, const ReadsVec *leaf, bool aligned) {
    for (uint32_t i = 0; i < leaf->n; i++) {
        const NodeList *writes = slot_changes(z, leaf->at[i].node);
        for (uint32_t k = 0; writes && k < writes->n; k++) {
            uint32_t w = writes->at[k];
            if (z->g->node.at[w].block != z->g->node.at[user].block)
                continue;
            if (z->cluster[w] == z->cluster[user] ? !aligned || !leaf->at[i].aligned
                                                  : !cluster_order(z, user, w))
                return false;
        }
    }
    return true;
}

// Then a region stores it in any case, and recomputation saves no launch.
static bool is_written(const Fuse *z, uint32_t id) {
    for (uint32_t i = 0; i < z->users[id].n; i++)
        if (z->g->node.at[z->users[id].at[i]].op == OpWrite)
            return true;
    return false;
}

// Bytes that the region storing `id` reads for it alone: saved when it is not stored.
static double own_cost(Fuse *z, uint32_t id, const ReadsVec *leaf) {
    const NodeList *m = &z->member[z->cluster[id]];
    double space = (double)type_elements(z->g, node_space(z->g, id)), cost = 0;
    for (uint32_t i = 0; i < m->n; i++)
        if (m->at[i] != id && z->kept[m->at[i]])
            return 0;
    for (uint32_t i = 0; i < leaf->n; i++) {
        Fetched f = fetched(z->g, leaf->at[i].node, space, leaf->at[i].times);
        cost += f.bytes + costs(z)->near * f.near;
    }
    return cost;
}

static bool recompute_pays(Fuse *z, uint32_t id, const ReadsVec *leaf) {
    double bytes = (double)type_bytes(z->g, node_type(z->g, id)),
           keep = bytes + own_cost(z, id, leaf), again = 0;
    bool broadcast = true;
    NodeList seen = {0};
    for (uint32_t i = 0; i < z->users[id].n; i++) {
        uint32_t c = z->cluster[z->users[id].at[i]];
        bool known = c == z->cluster[id];
        for (uint32_t k = 0; k < seen.n && !known; k++)
            known = seen.at[k] == c;
        if (!known) {
            double at = cluster_times(z, c, id),
                   space = (double)type_elements(z->g, node_space(z->g, c));
            vec_push(z->arena, &seen, c);
            Fetched f = fetched(z->g, id, space, at);
            keep += f.bytes + costs(z)->near * f.near;
            again += recompute_cost(z, id, c, at, leaf);
            broadcast &= is_broadcast(z->g, id, space);
        }
    }
    if (!is_written(z, id))
        keep += broadcast ? costs(z)->latency : costs(z)->launch;
    return again < keep;
}

// Do the kernels that would compute it stay short enough? Leaves it as kept as it was.
static bool recompute_fits(Fuse *z, uint32_t id) {
    uint32_t last = z->cluster[id];
    bool fits = true;
    z->kept[id] = 0;
    for (uint32_t i = 0; i < z->users[id].n && fits; i++) {
        uint32_t c = z->cluster[z->users[id].at[i]];
        fits = c == last || cluster_reads(z, c, NULL) <= MaxStatements;
        last = c;
    }
    z->kept[id] = 1;
    return fits;
}

static void recompute_inline(Fuse *z, uint32_t id) {
    OpClass c = node_class(z->g, id);
    if (!z->kept[id] || z->fixed[id] || (c != ClassEW && c != ClassRNG && !node_is_short(z->g, id)))
        return;
    ReadsVec leaf = {0};
    unit_reads(z, id, &leaf);
    if (!recompute_pays(z, id, &leaf) || !recompute_fits(z, id))
        return;
    NodeList *users = &z->users[id], stay = {0};
    for (uint32_t i = 0; i < users->n; i++) {
        uint32_t user = users->at[i];
        if (z->cluster[user] != z->cluster[id] &&
            !slots_allow(z, user, &leaf, aligned_read(z, user, id)))
            return; // orders made so far only say what holds anyway
    }
    for (uint32_t i = 0; i < users->n; i++) {
        uint32_t user = users->at[i];
        if (z->cluster[user] == z->cluster[id]) {
            vec_push(z->arena, &stay, user);
            continue;
        }
        if (aligned_read(z, user, id))
            vec_push(z->arena, &z->again[id], user);
        for (uint32_t k = 0; k < leaf.n; k++)
            if (z->unit[leaf.at[k].node])
                vec_push(z->arena, &z->users[leaf.at[k].node], user);
    }
    *users = stay;
    z->kept[id] = 0;
}

// --- 4: horizontal fusion ------------------------------------------------------------------------

// statements: [cluster] those of its kernel.
static void merge_short(Fuse *z, uint32_t *statements, uint32_t ua, uint32_t ub) {
    uint32_t a = z->cluster[ua], b = z->cluster[ub], both = statements[a] + statements[b];
    if (a != b && both <= MaxStatements && cluster_merge(z, a, b) == MergeDone)
        statements[z->cluster[a]] = both;
}

static void fuse_horizontally(Fuse *z) {
    const Graph *g = z->g;
    uint32_t *statements = arena_array(z->arena, uint32_t, g->node.n);
    VEC(Edge) value = {0};
    NodeList *by = arena_array(z->arena, NodeList, g->node.n);
    barriers_find(z);
    clusters_link(z);
    cluster_list(z);
    for (uint32_t k = 1; z->order[k]; k++) {
        uint32_t c = z->order[k];
        ReadsVec reads = {0};
        if (node_class(g, c) == ClassANCHOR)
            continue;
        statements[c] = cluster_reads(z, c, &reads);
        for (uint32_t i = 0; i < reads.n; i++)
            if (reads.at[i].aligned)
                vec_push(z->arena, &by[reads.at[i].node], c);
    }
    for (uint32_t id = 1; id < g->node.n; id++)
        for (uint32_t i = 0; i < z->again[id].n; i++)
            vec_push(z->arena, &by[id], z->cluster[z->again[id].at[i]]);
    for (uint32_t id = 1; id < g->node.n; id++)
        if (by[id].n > 1)
            vec_push(z->arena, &value, ((Edge){type_bytes(g, node_type(g, id)), id, id}));
    if (value.n)
        qsort(value.at, value.n, sizeof *value.at, by_bytes);
    for (uint32_t v = 0; v < value.n; v++) {
        const NodeList *c = &by[value.at[v].from];
        for (uint32_t i = 0; i < c->n; i++) {
            for (uint32_t k = i + 1; k < c->n; k++)
                if (type_same_layout(node_space(g, c->at[i]), node_space(g, c->at[k])))
                    merge_short(z, statements, c->at[i], c->at[k]);
        }
    }
}

// --- the pass ------------------------------------------------------------------------------------

void fuse(Arena *perm, const PassOptions *o, Plan *p) {
    const Func *f = p->func;
    Arena scratch;
    arena_need(&scratch);
    uint32_t n = f->g.node.n;
    Fuse z = {.arena = &scratch, .m = p->module, .f = f, .g = &f->g, .o = o};
    units_find(&z);
    clusters_init(&z);
    memcpy(z.kept, z.unit, n);
    join_calls(&z);
    order_slots(&z);
    bool repeats = f != &p->module->init;
    if (!o->no_fuse) {
        fuse_vertically(&z);
        find_kept(&z);
        for (uint32_t id = 1; id < n && repeats; id++)
            recompute_inline(&z, id);
        if (repeats)
            fuse_horizontally(&z);
        find_kept(&z);
        if (o->few_launches && repeats)
            derive_results(&z);
    }
    clusters_link(&z);
    cluster_list(&z);
    regions_build(&z, perm, p);
    regions_explain(&z, perm, p);
    arena_release(&scratch);
}
