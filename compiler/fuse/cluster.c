// cluster.c - clusters of units: what they read, which can be one, and merging those.
#include "clusters.h"

enum {
    MaxMembers = 128, // units of a cluster: keeps kernels readable and compilers quick
    MaxIndices = 64,  // index expressions of a value that are told apart
    OwnIndex = 0      // of the element that a walk begins at
};

void clusters_init(Fuse *z) {
    uint32_t n = z->g->node.n;
    z->cluster = arena_array(z->arena, uint32_t, n);
    z->member = arena_array(z->arena, NodeList, n);
    order_init(&z->topo, z->arena, n);
    z->order = arena_array(z->arena, uint32_t, n + 1);
    z->ahead.mark = arena_array(z->arena, uint32_t, n);
    z->back.mark = arena_array(z->arena, uint32_t, n);
    z->seen = arena_array(z->arena, uint32_t, 2 * n);
    z->demand = arena_array(z->arena, Demand, n);
    for (uint32_t id = 1; id < n; id++) { // index order is a topological order
        bool read = z->live[id] && z->g->node.at[id].op == OpRead; // may become a unit: a copy
        if (z->unit[id] || read) {
            z->cluster[id] = id;
            order_append(&z->topo, id);
        }
        if (z->unit[id])
            vec_push(z->arena, &z->member[id], id);
    }
}

// --- what is read --------------------------------------------------------------------------------

// A walk through units that are not kept meets each of them at most twice: aligned, and not.
static bool first_visit(Fuse *z, uint32_t unit, bool aligned) {
    uint32_t *seen = &z->seen[2 * unit + aligned];
    bool first = *seen != z->visit;
    *seen = z->visit;
    return first;
}

// A walk goes from the last node to the first, so all that it reads of a node is known before that
// node's own operands are visited.
static Demand *demand_of(Fuse *z, uint32_t id) {
    Demand *a = &z->demand[id];
    if (a->visit != z->visit) {
        uint32_t k = z->stack.n;
        vec_push(z->arena, &z->stack, id);
        for (; k && z->stack.at[k - 1] > id; k--)
            z->stack.at[k] = z->stack.at[k - 1];
        z->stack.at[k] = id;
        a->visit = z->visit;
        a->start = a->read = false;
        a->index.n = 0;
    }
    return a;
}

// A loop executes a guarded statement for every element, wherever the guard holds: it counts as so
// many against MaxStatements.
enum { Guarded = 8 };

static uint32_t capped(uint64_t statements) {
    return statements < MaxStatements ? (uint32_t)statements : MaxStatements;
}

static uint32_t statements_of(const IndexUse *u) {
    return u->shared + u->apart;
}

// `guarded`: accesses of a reader that has `statements` of them, none of which is shared.
static void add_index(Fuse *z, Demand *a, IndexUse use, uint32_t guarded) {
    uint32_t k = 0;
    while (k < a->index.n && a->index.at[k].hash != use.hash)
        k++;
    if (k == MaxIndices)
        k--; // no longer told apart
    if (k == a->index.n)
        vec_push(z->arena, &a->index, ((IndexUse){.hash = use.hash}));
    IndexUse *had = &a->index.at[k];
    had->times = had->times > use.times ? had->times : use.times;
    if (guarded)
        had->apart = capped(had->apart + (uint64_t)guarded * use.shared);
    else
        had->shared = had->shared > use.shared ? had->shared : use.shared;
}

// Its reader `by` reads r at each index where `by` is computed.
static void add_read(Fuse *z, const Demand *by, Reads r) {
    Demand *a = demand_of(z, r.node);
    a->read = true;
    for (uint32_t i = 0; i < by->index.n; i++) {
        const IndexUse *at = &by->index.at[i];
        uint64_t from[] = {at->hash, r.index};
        IndexUse use = {.hash = r.aligned ? from[0] : hash64(from, sizeof from, 0),
                        .times = at->times * r.times,
                        .shared = capped(statements_of(at))};
        add_index(z, a, use, r.guarded);
    }
}

static void begin_walk(Fuse *z) {
    z->visit++;
    z->stack.n = 0; // what another kind of walk may have left
}

static void begin_at(Fuse *z, uint32_t unit) {
    Demand *a = demand_of(z, unit);
    a->start = true;
    add_index(z, a, (IndexUse){.hash = OwnIndex, .times = 1, .shared = 1}, 0);
}

static double total_times(const Demand *a) {
    double sum = 0;
    for (uint32_t i = 0; i < a->index.n; i++)
        sum += a->index.at[i].times;
    return sum;
}

// Follows reads through recomputed units to values in memory. Returns the statements that load and
// compute all of it, guarded ones several times.
static uint32_t follow_reads(Fuse *z, ReadsVec *out) {
    uint32_t statements = 0;
    while (z->stack.n) {
        uint32_t id = z->stack.at[--z->stack.n];
        const Demand *a = &z->demand[id];
        bool stored = !z->unit[id] || z->kept[id];
        bool aligned = a->index.n == 1 && a->index.at[0].hash == OwnIndex;
        if (out && a->read && stored)
            vec_push(z->arena, out, ((Reads){id, aligned, total_times(a), 0, 0}));
        for (uint32_t i = 0; i < a->index.n; i++)
            statements += a->index.at[i].shared + Guarded * a->index.at[i].apart;
        for (uint32_t i = 0; (a->start || !stored) && i < z->reads[id].n; i++)
            add_read(z, a, z->reads[id].at[i]);
    }
    return statements;
}

double cluster_times(Fuse *z, uint32_t cluster, uint32_t id) {
    begin_walk(z);
    for (uint32_t i = 0; i < z->users[id].n; i++) {
        uint32_t user = z->users[id].at[i];
        if (z->cluster[user] == cluster)
            begin_at(z, user);
    }
    Demand *a = demand_of(z, id);
    for (uint32_t i = 0; i < z->users[id].n; i++) {
        const ReadsVec *reads = &z->reads[z->users[id].at[i]];
        for (uint32_t k = 0; z->cluster[z->users[id].at[i]] == cluster && k < reads->n; k++)
            if (reads->at[k].node == id)
                add_read(z, &z->demand[z->users[id].at[i]], reads->at[k]);
    }
    return total_times(a);
}

void unit_reads(Fuse *z, uint32_t unit, ReadsVec *out) {
    begin_walk(z);
    begin_at(z, unit);
    follow_reads(z, out);
}

uint32_t cluster_reads(Fuse *z, uint32_t cluster, ReadsVec *out) {
    begin_walk(z);
    for (uint32_t i = 0; i < z->member[cluster].n; i++)
        begin_at(z, z->member[cluster].at[i]);
    return follow_reads(z, out);
}

// --- what cannot be one region -------------------------------------------------------------------

static uint32_t reduction_of(const Fuse *z, uint32_t cluster) {
    for (uint32_t i = 0; i < z->member[cluster].n; i++)
        if (node_ends_loop(z->g, z->member[cluster].at[i]))
            return z->member[cluster].at[i];
    return 0;
}

static const char *reductions_refuse(const Graph *g, uint32_t ra, uint32_t rb) {
    if (!ra || !rb)
        return NULL;
    bool grouped = g->node.at[ra].op == OpGroupSum || g->node.at[rb].op == OpGroupSum;
    bool same = type_same_layout(node_space(g, ra), node_space(g, rb)) &&
                node_reduced(g, ra) == node_reduced(g, rb);
    return same && !grouped ? NULL : "they reduce different axes";
}

// Values that cluster b reads of cluster a must be made at the very element they are needed at. The
// values read are found through units that are not kept.
static const char *edges_refuse(Fuse *z, uint32_t unit, uint32_t a, bool aligned) {
    for (uint32_t i = 0; i < z->reads[unit].n; i++) {
        Reads r = z->reads[unit].at[i];
        bool straight = aligned && r.aligned;
        if (!z->unit[r.node])
            continue;
        bool inside = z->cluster[r.node] == a;
        if (inside && (node_ends_loop(z->g, r.node) || z->derived[r.node]))
            return "a reduction is known only when its loop is over";
        if (inside && !straight && z->kept[r.node])
            return "its elements are needed in another order or shape";
        if (!z->kept[r.node] && !(inside && straight) && first_visit(z, r.node, straight)) {
            const char *why = edges_refuse(z, r.node, a, straight);
            if (why)
                return why;
        }
    }
    return NULL;
}

static bool has_write(const Fuse *z, uint32_t cluster) {
    for (uint32_t i = 0; i < z->member[cluster].n; i++)
        if (z->g->node.at[z->member[cluster].at[i]].op == OpWrite)
            return true;
    return false;
}

// Does the unit read a slot that cluster a or b writes, itself or through units that are not kept,
// other than element by element?
static bool reads_written(Fuse *z, uint32_t unit, uint32_t a, uint32_t b, bool aligned) {
    for (uint32_t i = 0; i < z->reads[unit].n; i++) {
        Reads r = z->reads[unit].at[i];
        bool straight = aligned && r.aligned, inlined = z->unit[r.node] && !z->kept[r.node];
        if (inlined && first_visit(z, r.node, straight) && reads_written(z, r.node, a, b, straight))
            return true;
        const NodeList *writes = straight ? NULL : slot_changes(z, r.node);
        for (uint32_t k = 0; writes && k < writes->n; k++)
            if (z->cluster[writes->at[k]] == a || z->cluster[writes->at[k]] == b)
                return true;
    }
    return false;
}

// A slot may be read and written in one region only element by element.
static const char *slots_refuse(Fuse *z, uint32_t a, uint32_t b) {
    const NodeList *member[] = {&z->member[a], &z->member[b]};
    if (!has_write(z, a) && !has_write(z, b))
        return NULL;
    z->visit++;
    for (uint32_t c = 0; c < (a == b ? 1 : 2); c++)
        for (uint32_t i = 0; i < member[c]->n; i++)
            if (reads_written(z, member[c]->at[i], a, b, true))
                return "it would read a slot that it writes";
    return NULL;
}

// Why the loops of two units cannot be one, whatever is between them.
static const char *loops_refuse(const Graph *g, uint32_t a, uint32_t b) {
    if (node_class(g, a) == ClassCOMM || node_class(g, b) == ClassCOMM)
        return "the ranks add it up";
    if (!unit_joins(g, a))
        return node_class(g, a) == ClassREDUCE ? "a scatter makes it" : "a library call makes it";
    if (!unit_joins(g, b))
        return node_class(g, b) == ClassREDUCE ? "a scatter reads it" : "a library call reads it";
    if (g->node.at[a].block != g->node.at[b].block)
        return "they run in different blocks";
    return type_elements(g, node_space(g, a)) == type_elements(g, node_space(g, b))
               ? NULL
               : "their loops have different shapes";
}

// --- merging -------------------------------------------------------------------------------------

// Why two clusters, a before b, cannot be one for as long as units are kept and users stay as they
// are: both only grow.
static const char *never_one(Fuse *z, uint32_t a, uint32_t b) {
    const Graph *g = z->g;
    const char *why = loops_refuse(g, z->member[a].at[0], z->member[b].at[0]);
    if (!why && z->member[a].n + z->member[b].n > MaxMembers)
        why = "the kernel would be too long";
    if (!why)
        why = reductions_refuse(g, reduction_of(z, a), reduction_of(z, b));
    z->visit++;
    for (uint32_t i = 0; !why && i < z->member[b].n; i++)
        why = edges_refuse(z, z->member[b].at[i], a, true);
    return why ? why : slots_refuse(z, a, b);
}

static void swap_to_order(const Fuse *z, uint32_t *a, uint32_t *b) {
    if (order_before(&z->topo, *b, *a)) {
        uint32_t swap = *a;
        *a = *b;
        *b = swap;
    }
}

const char *cluster_refuses(Fuse *z, uint32_t ua, uint32_t ub) {
    uint32_t a = z->cluster[ua], b = z->cluster[ub];
    swap_to_order(z, &a, &b);
    const char *why = never_one(z, a, b);
    return why ? why
           : cluster_leads(z, a, b, WalkIndirect)
               ? "something between them needs one and is needed by the other"
               : NULL;
}

// Makes one of clusters a and b, a being first; the walk between them has been made, and marked
// what follows a.
static void unite(Fuse *z, uint32_t a, uint32_t b) {
    cluster_absorb(z, a, b);
    for (uint32_t i = 0; i < z->member[b].n; i++) {
        z->cluster[z->member[b].at[i]] = a;
        vec_push(z->arena, &z->member[a], z->member[b].at[i]);
    }
    z->member[b].n = 0;
    z->merges++;
    barriers_join(z, a, b);
}

Merge cluster_merge(Fuse *z, uint32_t ua, uint32_t ub) {
    uint32_t a = z->cluster[ua], b = z->cluster[ub];
    if (a == b)
        return MergeDone;
    swap_to_order(z, &a, &b);
    if (barrier_between(z, a, b) || never_one(z, a, b)) // the former costs less
        return MergeNever;
    if (cluster_leads(z, a, b, WalkBoth))
        return MergeBlocked;
    unite(z, a, b);
    return MergeDone;
}

bool cluster_join(Fuse *z, uint32_t ua, uint32_t ub) {
    uint32_t a = z->cluster[ua], b = z->cluster[ub];
    if (a == b)
        return true;
    swap_to_order(z, &a, &b);
    if (cluster_leads(z, a, b, WalkIndirect))
        return false;
    unite(z, a, b);
    return true;
}

const char *cluster_wrong(Fuse *z, uint32_t cluster) {
    const NodeList *m = &z->member[cluster];
    uint32_t reduction = reduction_of(z, cluster), first = reduction ? reduction : m->at[0];
    const char *why = m->n > MaxMembers ? "the kernel would be too long" : NULL;
    for (uint32_t i = 0; i < m->n && !why; i++) {
        uint32_t id = m->at[i];
        if (id == first || z->derived[id]) // the latter is behind the loop
            continue;
        why = loops_refuse(z->g, first, id);
        if (!why && node_ends_loop(z->g, id))
            why = reductions_refuse(z->g, reduction, id);
    }
    z->visit++;
    for (uint32_t i = 0; i < m->n && !why && unit_joins(z->g, first); i++)
        why = z->derived[m->at[i]] ? NULL : edges_refuse(z, m->at[i], cluster, true);
    return why ? why : slots_refuse(z, cluster, cluster);
}
