// cluster.c - clusters of units, and the topological order that keeps their graph acyclic.
//
// The order is maintained, not recomputed: a walk from one cluster is cut off at the position of
// the other, so a merge of neighbours costs the clusters between them (the idea of Pearce and
// Kelly, "A dynamic topological sort algorithm for directed acyclic graphs", 2006).
#include "fuse.h"

#include <string.h>

enum {
    MaxMembers = 128, // units of a cluster: keeps kernels readable and compilers quick
    MaxIndices = 64,  // index expressions of a value that are told apart
    OwnIndex = 0      // of the element that a walk begins at
};

void clusters_init(Fuse *z) {
    uint32_t n = z->g->node.n;
    z->cluster = arena_array(z->arena, uint32_t, n);
    z->member = arena_array(z->arena, NodeVec, n);
    z->pos = arena_array(z->arena, uint32_t, n);
    z->order = arena_array(z->arena, uint32_t, n);
    z->mark = arena_array(z->arena, uint32_t, n);
    z->seen = arena_array(z->arena, uint32_t, 2 * n);
    z->demand = arena_array(z->arena, Demand, n);
    z->stack.at = arena_array(z->arena, uint32_t, n);
    z->stack.cap = n;
    for (uint32_t id = 1; id < n; id++) { // index order is a topological order
        bool read = z->live[id] && z->g->node.at[id].op == OpRead; // may become a unit: a copy
        if (z->unit[id] || read) {
            z->cluster[id] = z->order[id] = id;
            z->pos[id] = id;
        }
        if (z->unit[id])
            vec_push(z->arena, &z->member[id], id);
    }
}

// --- order ---------------------------------------------------------------------------------------

static bool is_marked(const Fuse *z, uint32_t cluster) {
    return z->mark[cluster] == z->walks;
}

// Marks the clusters of these units and puts them on the stack, which has room for all clusters.
static void visit(Fuse *z, const NodeVec *units, uint32_t limit, uint32_t except) {
    for (uint32_t k = 0; k < units->n; k++) {
        uint32_t to = z->cluster[units->at[k]];
        if (z->mark[to] != z->walks && z->pos[to] <= limit && to != except) {
            z->mark[to] = z->walks;
            z->stack.at[z->stack.n++] = to;
        }
    }
}

static void visit_successors(Fuse *z, uint32_t cluster, uint32_t limit, uint32_t except) {
    const NodeVec *member = &z->member[cluster];
    for (uint32_t i = 0; i < member->n; i++) {
        visit(z, &z->users[member->at[i]], limit, except);
        visit(z, &z->later[member->at[i]], limit, except);
    }
}

// Marks what `start` leads to within the order up to `target`, not following edges from start
// straight to `target` when `indirect`. Is the target among it? Then not all of it is marked.
static bool walk(Fuse *z, uint32_t start, uint32_t target, bool indirect) {
    uint32_t limit = z->pos[target];
    z->walks++;
    z->stack.n = 0;
    z->mark[start] = z->walks;
    visit_successors(z, start, limit, indirect ? target : 0);
    while (z->stack.n && !is_marked(z, target))
        visit_successors(z, z->stack.at[--z->stack.n], limit, 0);
    return is_marked(z, target);
}

// Moves what the last walk marked behind the rest of positions lo..hi; both parts keep their order.
static void settle(Fuse *z, uint32_t lo, uint32_t hi) {
    uint32_t at = lo;
    z->stack.n = 0;
    for (uint32_t i = lo; i <= hi; i++) {
        uint32_t cluster = z->order[i];
        z->order[i] = 0;
        if (cluster && is_marked(z, cluster)) {
            z->stack.at[z->stack.n++] = cluster;
        } else if (cluster) {
            z->order[at] = cluster;
            z->pos[cluster] = at++;
        }
    }
    for (uint32_t i = 0; i < z->stack.n; i++) {
        z->order[at] = z->stack.at[i];
        z->pos[z->stack.at[i]] = at++;
    }
}

bool cluster_order(Fuse *z, uint32_t before, uint32_t after) {
    uint32_t a = z->cluster[before], b = z->cluster[after];
    if (a == b)
        return true;
    if (z->pos[a] > z->pos[b]) {
        uint32_t lo = z->pos[b], hi = z->pos[a];
        if (walk(z, b, a, false))
            return false;
        settle(z, lo, hi);
    }
    vec_push(z->arena, &z->later[before], after);
    return true;
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

static void add_index(Fuse *z, Demand *a, uint64_t hash, double times) {
    uint32_t k = 0;
    while (k < a->index.n && a->index.at[k].hash != hash)
        k++;
    if (k == a->index.n) {
        if (k == MaxIndices)
            return;
        vec_add(z->arena, &a->index);
        a->index.at[k].hash = hash;
        a->index.at[k].times = 0;
    }
    double *t = &a->index.at[k].times;
    *t = *t > times ? *t : times;
}

// Its reader `by` reads r at each index where `by` is computed.
static void add_read(Fuse *z, const Demand *by, Reads r) {
    Demand *a = demand_of(z, r.node);
    a->read = true;
    for (uint32_t i = 0; i < by->index.n; i++) {
        uint64_t from[] = {by->index.at[i].hash, r.index};
        add_index(z, a, r.aligned ? from[0] : hash64(from, sizeof from, 0),
                  by->index.at[i].times * r.times);
    }
}

static void begin_walk(Fuse *z) {
    z->visit++;
    z->stack.n = 0; // what another kind of walk may have left
}

static void begin_at(Fuse *z, uint32_t unit) {
    Demand *a = demand_of(z, unit);
    a->start = true;
    add_index(z, a, OwnIndex, 1);
}

static double total_times(const Demand *a) {
    double sum = 0;
    for (uint32_t i = 0; i < a->index.n; i++)
        sum += a->index.at[i].times;
    return sum;
}

// Follows reads through recomputed units to values in memory.
static void follow_reads(Fuse *z, ReadsVec *out) {
    while (z->stack.n) {
        uint32_t id = z->stack.at[--z->stack.n];
        const Demand *a = &z->demand[id];
        bool stored = !z->unit[id] || z->kept[id];
        bool aligned = a->index.n == 1 && a->index.at[0].hash == OwnIndex;
        if (a->read && stored)
            vec_push(z->arena, out, ((Reads){id, aligned, total_times(a), 0}));
        for (uint32_t i = 0; (a->start || !stored) && i < z->reads[id].n; i++)
            add_read(z, a, z->reads[id].at[i]);
    }
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

void cluster_reads(Fuse *z, uint32_t cluster, ReadsVec *out) {
    begin_walk(z);
    for (uint32_t i = 0; i < z->member[cluster].n; i++)
        begin_at(z, z->member[cluster].at[i]);
    follow_reads(z, out);
}

// --- merging -------------------------------------------------------------------------------------

static uint32_t reduction_of(const Fuse *z, uint32_t cluster) {
    for (uint32_t i = 0; i < z->member[cluster].n; i++)
        if (fuse_ends_loop(z->g, z->member[cluster].at[i]))
            return z->member[cluster].at[i];
    return 0;
}

static const char *reductions_refuse(const Graph *g, uint32_t ra, uint32_t rb) {
    if (!ra || !rb)
        return NULL;
    bool grouped = g->node.at[ra].op == OpGroupSum || g->node.at[rb].op == OpGroupSum;
    bool same = type_same_shape(fuse_space(g, ra), fuse_space(g, rb)) &&
                fuse_reduced(g, ra) == fuse_reduced(g, rb);
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
        if (inside && fuse_ends_loop(z->g, r.node))
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

// A slot may be read and written in one region only element by element.
static const char *slots_refuse(Fuse *z, uint32_t a, uint32_t b) {
    ReadsVec reads = {0};
    if (!has_write(z, a) && !has_write(z, b))
        return NULL;
    cluster_reads(z, a, &reads);
    cluster_reads(z, b, &reads);
    for (uint32_t i = 0; i < reads.n; i++) {
        const NodeVec *writes = reads.at[i].aligned ? NULL : slot_changes(z, reads.at[i].node);
        for (uint32_t k = 0; writes && k < writes->n; k++) {
            uint32_t c = z->cluster[writes->at[k]];
            if (c == a || c == b)
                return "it would read a slot that it writes";
        }
    }
    return NULL;
}

static bool joinable(const Graph *g, uint32_t unit) {
    Op op = (Op)g->node.at[unit].op;
    OpClass c = node_class(g, unit);
    return c != ClassANCHOR && c != ClassCOMM && op != OpScatter && op != OpRead;
}

// Why the loops of two units cannot be one, whatever is between them.
static const char *loops_refuse(const Graph *g, uint32_t a, uint32_t b) {
    if (node_class(g, a) == ClassCOMM || node_class(g, b) == ClassCOMM)
        return "the ranks add it up";
    if (!joinable(g, a))
        return "a library call makes it";
    if (!joinable(g, b))
        return "a library call reads it";
    if (g->node.at[a].block != g->node.at[b].block)
        return "they run in different blocks";
    return type_elements(g, fuse_space(g, a)) == type_elements(g, fuse_space(g, b))
               ? NULL
               : "their loops have different shapes";
}

const char *cluster_refuses(Fuse *z, uint32_t ua, uint32_t ub) {
    const Graph *g = z->g;
    uint32_t a = z->cluster[ua], b = z->cluster[ub];
    if (z->pos[a] > z->pos[b]) {
        uint32_t swap = a;
        a = b;
        b = swap;
    }
    const char *why = loops_refuse(g, z->member[a].at[0], z->member[b].at[0]);
    if (!why && z->member[a].n + z->member[b].n > MaxMembers)
        why = "the kernel would be too long";
    if (!why)
        why = reductions_refuse(g, reduction_of(z, a), reduction_of(z, b));
    z->visit++;
    for (uint32_t i = 0; !why && i < z->member[b].n; i++)
        why = edges_refuse(z, z->member[b].at[i], a, true);
    why = why ? why : slots_refuse(z, a, b);
    return why                   ? why
           : walk(z, a, b, true) ? "something between them needs one and is needed by the other"
                                 : NULL;
}

// Makes one of clusters a and b, a being first; the walk between them has been made.
static void unite(Fuse *z, uint32_t a, uint32_t b) {
    uint32_t lo = z->pos[a], hi = z->pos[b];
    z->order[hi] = 0; // b's position becomes a hole; the walk has marked what follows a
    settle(z, lo, hi);
    for (uint32_t i = 0; i < z->member[b].n; i++) {
        z->cluster[z->member[b].at[i]] = a;
        vec_push(z->arena, &z->member[a], z->member[b].at[i]);
    }
    z->member[b].n = 0;
    z->merges++;
}

bool cluster_merge(Fuse *z, uint32_t ua, uint32_t ub) {
    uint32_t a = z->cluster[ua], b = z->cluster[ub];
    if (a == b)
        return true;
    if (cluster_refuses(z, a, b))
        return false;
    bool turned = z->pos[a] > z->pos[b];
    unite(z, turned ? b : a, turned ? a : b);
    return true;
}

bool cluster_join(Fuse *z, uint32_t ua, uint32_t ub) {
    uint32_t a = z->cluster[ua], b = z->cluster[ub];
    bool turned = z->pos[a] > z->pos[b];
    if (a == b)
        return true;
    if (walk(z, turned ? b : a, turned ? a : b, true))
        return false;
    unite(z, turned ? b : a, turned ? a : b);
    return true;
}

const char *cluster_wrong(Fuse *z, uint32_t cluster) {
    const NodeVec *m = &z->member[cluster];
    uint32_t reduction = reduction_of(z, cluster);
    const char *why = m->n > MaxMembers ? "the kernel would be too long" : NULL;
    for (uint32_t i = 1; i < m->n && !why; i++) {
        uint32_t id = m->at[i];
        why = loops_refuse(z->g, m->at[0], id);
        if (!why && id != reduction && fuse_ends_loop(z->g, id))
            why = reductions_refuse(z->g, reduction, id);
    }
    z->visit++;
    for (uint32_t i = 0; i < m->n && !why && joinable(z->g, m->at[0]); i++)
        why = edges_refuse(z, m->at[i], cluster, true);
    return why ? why : slots_refuse(z, cluster, cluster);
}
