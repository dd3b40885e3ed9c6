// fuse.c - cuts a function's graph into regions: one generated loop nest, library call or copy each.
//
// In: a function whose graph passes are done. Out: Plan.region, region_of, copied, why.
// 1. Units and what they read, through views. Whatever a library call, a result or another block needs is fixed: stored.
// 2. Producers join their consumers where both walk the same elements in the same order, most bytes first.
// 3. What is still stored for another region's sake is computed again there if that moves fewer bytes.
// 4. Regions that read the same values join.
// Every kept node is stored by exactly one region; regions of a block are in a valid order, which is the clusters'.
#include "fuse.h"

#include <stdlib.h>
#include <string.h>

enum { ShortTerms = 8 };             // a sum of this many terms is written out
enum { FreeWeight = 3 };             // additions per element that hide behind a kernel's memory traffic
enum { LaunchBytes = 8192 };         // what one launch costs, in bytes moved meanwhile
enum { ScalarRuns = 64 };            // how often a kernel computes a value that is the same for all elements

// --- roles ---------------------------------------------------------------------------------------

bool fuse_is_view(const Graph *g, uint32_t id) {
    Op op = (Op)g->node.at[id].op;
    return op_info[op].cls == ClassMOVE && op != OpGather && op != OpScatter;
}

static int64_t reduced_terms(const Graph *g, uint32_t id) {
    const Type *t = node_type(g, node_in(g, id, 0));
    uint32_t axes = (uint32_t)node_attr(g, id)->i[0];
    int64_t n = axes & 1 && t->batched ? g->batch : 1;
    for (uint32_t i = 0; i < t->rank; i++) {
        n *= axes >> (1 + i) & 1 ? t->dim[i] : 1;
    }
    return n;
}

bool fuse_is_short(const Graph *g, uint32_t id) {
    Op op = (Op)g->node.at[id].op;
    return (op == OpSum || op == OpMaxOf) && reduced_terms(g, id) <= ShortTerms;
}

bool fuse_ends_loop(const Graph *g, uint32_t id) {
    return (node_class(g, id) == ClassREDUCE && !fuse_is_short(g, id)) || g->node.at[id].op == OpScatter;
}

const Type *fuse_space(const Graph *g, uint32_t id) {
    bool of_operand = fuse_ends_loop(g, id) || g->node.at[id].op == OpWrite;
    return node_type(g, of_operand ? node_in(g, id, 0) : id);
}

uint32_t fuse_reduced(const Graph *g, uint32_t id) {
    const Type *t = fuse_space(g, id);
    uint32_t axes = g->node.at[id].op == OpGroupSum ? 1 : (uint32_t)node_attr(g, id)->i[0];
    uint32_t present = t->batched && g->batch > 1;
    for (uint32_t i = 0; i < t->rank; i++) {
        present |= (uint32_t)(t->dim[i] > 1) << (1 + i);
    }
    return axes & present;
}

// Read off the value column: a call of a mathematical function costs as much as its polynomial.
double fuse_weight(const Graph *g, uint32_t id) {
    const char *value = op_info[g->node.at[id].op].value;
    double weight = node_class(g, id) == ClassRNG ? 80 : 1;
    for (const char *c = value; c && *c; c++) {
        bool call = *c == '(' && c > value && c[-1] >= '0' && c[-1] != 'K' && c[-1] != 's';   // fabs and K( are free
        weight += *c == '/' ? 4 : call ? 20 : 0;
    }
    return fuse_is_short(g, id) ? (double)reduced_terms(g, id) : weight;
}

uint32_t fuse_operand(const Graph *g, uint32_t id, uint32_t k) {
    if (!op_info[g->node.at[id].op].commutes) {
        return node_in(g, id, k);
    }
    uint32_t a = node_in(g, id, 0), b = node_in(g, id, 1);
    bool swap = type_elements(g, node_type(g, b)) > type_elements(g, node_type(g, a));
    return k == (uint32_t)swap ? a : b;
}

uint32_t fuse_storage(const Graph *g, uint32_t id) {
    Arena scratch = *g->perm;        // a copy is a checkpoint
    while (g->node.at[id].op == OpReshape || g->node.at[id].op == OpExpand) {
        uint32_t from = node_in(g, id, 0);
        const Type *t = node_type(g, id), *s = node_type(g, from);
        Indices ix;
        Coords at, source;
        Bounds none = {0};
        indices_init(&ix, &scratch);
        coords_identity(&ix, g, t, &at);
        coords_move(&ix, g, id, 0, &at, &source, &none);
        if (type_elements(g, t) != type_elements(g, s) || g->node.at[from].op == OpConst ||
            coords_address(&ix, t, &at) != coords_address(&ix, s, &source)) {
            break;
        }
        id = from;
    }
    return id;
}

// --- 1: units ------------------------------------------------------------------------------------

static void fix(Fuse *z, uint32_t id) {
    if (z->g->node.at[id].op != OpRead) {
        z->unit[id] = z->fixed[id] = 1;
    }
}

static void fix_storage(Fuse *z, uint32_t id) {
    fix(z, z->o->no_fuse ? id : fuse_storage(z->g, id));
}

static void find_live(Fuse *z) {
    const Func *f = z->f;
    NodeVec root = {0};
    for (uint32_t i = 0; i < f->effect.n; i++) {
        vec_push(z->arena, &root, f->effect.at[i]);
    }
    uint32_t effects = root.n;
    for (uint32_t i = 0; i < f->result.n; i++) {
        vec_push(z->arena, &root, f->result.at[i].node);
    }
    for (uint32_t i = 0; i < f->report.n; i++) {
        vec_push(z->arena, &root, f->report.at[i].node);
    }
    for (uint32_t i = 0; i < f->tape.n; i++) {
        if (f->tape.at[i].kind == CtlIf) {
            vec_push(z->arena, &root, f->tape.at[i].cond);
        }
    }
    for (uint32_t i = 0; i < f->update.n; i++) {
        const Update *u = &f->update.at[i];
        vec_push(z->arena, &root, u->loss);
        for (uint32_t k = 0; z->o->keep_grads && k < u->grad.n; k++) {
            vec_push(z->arena, &root, u->grad.at[k].node);
        }
    }
    z->live = graph_reach(z->g, z->arena, root.at, root.n);
    for (uint32_t i = effects; i < root.n; i++) {
        if (root.at[i]) {
            fix_storage(z, root.at[i]);
        }
    }
}

static void find_units(Fuse *z) {
    const Graph *g = z->g;
    for (uint32_t id = 1; id < g->node.n; id++) {
        OpClass c = node_class(g, id);
        bool leaf = c == ClassLEAF || g->node.at[id].op == OpRead;
        if (!z->live[id]) {
            continue;
        }
        if (z->o->no_fuse) {
            z->unit[id] = g->node.at[id].op != OpConst && g->node.at[id].op != OpRead;
            continue;
        }
        z->unit[id] |= !leaf && !fuse_is_view(g, id);
        if (c == ClassANCHOR) {
            fix(z, id);
            for (uint32_t k = 0; k < g->node.at[id].nin; k++) {
                fix_storage(z, node_in(g, id, k));
            }
        }
        if (g->node.at[id].op == OpGather) {
            fix_storage(z, node_in(g, id, 0));
        }
        if (fuse_ends_loop(g, id) || g->node.at[id].op == OpWrite) {
            fix(z, id);
        }
    }
}

// --- what units read -----------------------------------------------------------------------------

typedef struct Reader {
    Fuse *z;
    Indices ix;
    uint32_t unit;
    Ix own;                          // the unit's element number
    bool plain;                      // no bound and no unrolling on the way so far
    uint32_t times;
} Reader;

static void read_value(Reader *r, uint32_t id, const Coords *at, bool plain) {
    Fuse *z = r->z;
    const Graph *g = z->g;
    if (!z->unit[id] && fuse_is_view(g, id)) {
        for (uint32_t k = 0; k < g->node.at[id].nin; k++) {
            Coords from;
            Bounds bounds = {0};
            if (coords_move(&r->ix, g, id, k, at, &from, &bounds)) {
                read_value(r, node_in(g, id, k), &from, plain && bounds.n == 0);
            }
        }
        return;
    }
    if (!z->unit[id] && node_class(g, id) == ClassLEAF) {
        return;
    }
    const Type *t = node_type(g, id);
    Reads now = {id, plain && r->times == 1, r->times};
    now.aligned = now.aligned && type_elements(g, t) == type_elements(g, fuse_space(g, r->unit)) &&
                  coords_address(&r->ix, t, at) == r->own;
    for (uint32_t i = 0; i < z->reads[r->unit].n; i++) {
        Reads *seen = &z->reads[r->unit].at[i];
        if (seen->node == id) {
            seen->aligned = seen->aligned && now.aligned;
            seen->times = seen->times > now.times ? seen->times : now.times;
            return;
        }
    }
    vec_push(z->arena, &z->reads[r->unit], now);
    if (z->unit[id]) {
        vec_push(z->arena, &z->users[id], r->unit);
        if (g->node.at[id].block != g->node.at[r->unit].block) {
            z->fixed[id] = 1;
        }
    }
}

// Calls and unfused nodes read their operands whole.
static void read_whole(Fuse *z, uint32_t unit) {
    for (uint32_t k = 0; k < z->g->node.at[unit].nin; k++) {
        uint32_t id = node_in(z->g, unit, k), from = z->o->no_fuse ? id : fuse_storage(z->g, id);
        vec_push(z->arena, &z->reads[unit], ((Reads){from, false, 1}));
        if (z->unit[from]) {
            vec_push(z->arena, &z->users[from], unit);
        }
    }
}

static void find_reads(Fuse *z, uint32_t unit, Arena scratch) {
    const Graph *g = z->g;
    if (z->o->no_fuse || node_class(g, unit) == ClassANCHOR) {
        read_whole(z, unit);
        return;
    }
    Reader r = {.z = z, .unit = unit, .times = 1};
    Coords at, from;
    indices_init(&r.ix, &scratch);
    coords_identity(&r.ix, g, fuse_space(g, unit), &at);
    r.own = coords_address(&r.ix, fuse_space(g, unit), &at);
    if (z->unit[unit] && fuse_is_view(g, unit)) {                // a stored move copies element by element
        for (uint32_t k = 0; k < g->node.at[unit].nin; k++) {
            Bounds bounds = {0};
            if (coords_move(&r.ix, g, unit, k, &at, &from, &bounds)) {
                read_value(&r, node_in(g, unit, k), &from, bounds.n == 0);
            }
        }
        return;
    }
    bool loose = fuse_is_short(g, unit) && reduced_terms(g, unit) > 1;
    loose = loose || g->node.at[unit].op == OpGather || g->node.at[unit].op == OpScatter;
    r.times = fuse_is_short(g, unit) ? (uint32_t)reduced_terms(g, unit) : 1;
    for (uint32_t k = 0; k < g->node.at[unit].nin; k++) {
        coords_broadcast(node_type(g, node_in(g, unit, k)), &at, &from);
        read_value(&r, node_in(g, unit, k), &from, !loose);
    }
}

static void find_all_reads(Fuse *z) {
    Arena scratch;
    if (arena_init(&scratch, 0) != GAN_OK) {
        bug("%s", gan_error());
    }
    for (uint32_t id = 1; id < z->g->node.n; id++) {
        if (z->unit[id]) {
            find_reads(z, id, scratch);
        }
    }
    arena_release(&scratch);
}

// --- slots ---------------------------------------------------------------------------------------

static int64_t slot_of(const Fuse *z, uint32_t id) {
    return node_attr(z->g, id)->i[0];
}

static bool has_repeat(const Func *f) {
    for (uint32_t i = 0; i < f->tape.n; i++) {
        if (f->tape.at[i].kind == CtlRepeat) {
            return true;
        }
    }
    return false;
}

// Reads see a slot as their block finds it. Orders the readers of one before the block's write of the slot; false when
// a reader comes after a write all the same.
static bool order_readers(Fuse *z, uint32_t read, const NodeVec *readers, bool repeat) {
    uint32_t home = z->g->node.at[read].block;
    for (uint32_t i = 0; i < z->write.n; i++) {
        uint32_t w = z->write.at[i], wb = z->g->node.at[w].block;
        for (uint32_t k = 0; slot_of(z, w) == slot_of(z, read) && k < readers->n; k++) {
            uint32_t unit = readers->at[k], block = z->g->node.at[unit].block;
            bool late = block != home && wb >= home && (wb <= block || repeat);
            if (late || (block == home && wb == home && unit != w && !cluster_order(z, unit, w))) {
                return false;
            }
        }
    }
    return true;
}

// A Read that is overwritten before its last reader becomes a unit of its own: a copy made in time.
static void order_slots(Fuse *z) {
    const Graph *g = z->g;
    NodeVec *readers = arena_array(z->arena, NodeVec, g->node.n);
    for (uint32_t id = 1; id < g->node.n; id++) {
        for (uint32_t k = 0; z->unit[id] && k < z->reads[id].n; k++) {
            uint32_t from = z->reads[id].at[k].node;
            if (g->node.at[from].op == OpRead) {
                vec_push(z->arena, &readers[from], id);
            }
        }
        if (z->unit[id] && g->node.at[id].op == OpWrite) {
            vec_push(z->arena, &z->write, id);
        }
    }
    bool repeat = has_repeat(z->f);
    for (uint32_t id = 1; id < g->node.n; id++) {
        if (readers[id].n && !order_readers(z, id, &readers[id], repeat)) {
            NodeVec self = {0};
            z->unit[id] = z->fixed[id] = z->kept[id] = 1;
            z->users[id] = readers[id];
            z->cluster[id] = z->order[id] = z->pos[id] = id;
            vec_push(z->arena, &z->member[id], id);
            vec_push(z->arena, &self, id);
            order_readers(z, id, &self, false);
        }
    }
}

// --- 2: producers join consumers -----------------------------------------------------------------

typedef struct Edge { size_t bytes; uint32_t from, to; } Edge;

static int by_bytes(const void *a, const void *b) {
    const Edge *x = a, *y = b;
    if (x->bytes != y->bytes) {
        return x->bytes > y->bytes ? -1 : 1;
    }
    if (x->to != y->to) {
        return x->to < y->to ? -1 : 1;
    }
    return x->from < y->from ? -1 : x->from > y->from;
}

static void join_producers(Fuse *z) {
    VEC(Edge) edge = {0};
    for (uint32_t id = 1; id < z->g->node.n; id++) {
        for (uint32_t k = 0; z->unit[id] && k < z->reads[id].n; k++) {
            Reads r = z->reads[id].at[k];
            if (r.aligned && z->unit[r.node]) {
                size_t bytes = type_bytes(z->g, node_type(z->g, r.node));
                bool only = z->users[r.node].n == 1 && !z->fixed[r.node];
                vec_push(z->arena, &edge, ((Edge){bytes * (only ? 2 : 1), r.node, id}));
            }
        }
    }
    if (edge.n) {
        qsort(edge.at, edge.n, sizeof *edge.at, by_bytes);
    }
    for (uint32_t i = 0; i < edge.n; i++) {
        cluster_merge(z, edge.at[i].from, edge.at[i].to);
    }
}

static void find_kept(Fuse *z) {
    for (uint32_t id = 1; id < z->g->node.n; id++) {
        z->kept[id] = z->fixed[id];
        for (uint32_t k = 0; z->unit[id] && k < z->users[id].n; k++) {
            z->kept[id] |= z->cluster[z->users[id].at[k]] != z->cluster[id];
        }
    }
}

// --- 3: computing again instead of storing -------------------------------------------------------

static double again_weight(const Fuse *z, uint32_t id) {
    double sum = fuse_weight(z->g, id);
    for (uint32_t i = 0; i < z->reads[id].n && sum < 200; i++) {
        Reads r = z->reads[id].at[i];
        if (z->unit[r.node] && !z->kept[r.node]) {
            sum += r.times * again_weight(z, r.node);
        }
    }
    return sum;
}

static bool reads_it(const ReadsVec *v, uint32_t id) {
    for (uint32_t i = 0; i < v->n; i++) {
        if (v->at[i].node == id) {
            return true;
        }
    }
    return false;
}

// Bytes that consumer cluster `c` moves or computes more when it makes `id` from `leaf` itself.
static double again_cost(Fuse *z, uint32_t id, uint32_t c, const ReadsVec *leaf) {
    const Graph *g = z->g;
    double own = (double)type_elements(g, node_type(g, id)), space = (double)type_elements(g, fuse_space(g, c));
    double runs = own == 1 ? ScalarRuns : own > space ? own : space, cost = 0;
    double weight = again_weight(z, id) - (own == 1 ? 0 : FreeWeight);
    ReadsVec now = {0};
    cluster_reads(z, c, &now);
    for (uint32_t i = 0; i < leaf->n; i++) {
        const Type *t = node_type(g, leaf->at[i].node);
        double all = (double)type_bytes(g, t), part = runs * (double)dtype_size[t->dtype];
        cost += reads_it(&now, leaf->at[i].node) ? 0 : all < part ? all : part;
    }
    return cost + (weight > 0 ? 0.5 * weight * runs : 0);
}

// Would cluster of `user` read a slot too late, now that it reads `leaf` itself? Orders it where it can.
static bool slots_allow(Fuse *z, uint32_t user, const ReadsVec *leaf, bool aligned) {
    for (uint32_t i = 0; i < leaf->n; i++) {
        uint32_t r = leaf->at[i].node;
        for (uint32_t k = 0; z->g->node.at[r].op == OpRead && !z->unit[r] && k < z->write.n; k++) {
            uint32_t w = z->write.at[k];
            if (slot_of(z, w) != slot_of(z, r) || z->g->node.at[w].block != z->g->node.at[user].block) {
                continue;
            }
            if (z->cluster[w] == z->cluster[user] ? !aligned || !leaf->at[i].aligned : !cluster_order(z, user, w)) {
                return false;
            }
        }
    }
    return true;
}

static bool aligned_read(const Fuse *z, uint32_t user, uint32_t id) {
    for (uint32_t i = 0; i < z->reads[user].n; i++) {
        if (z->reads[user].at[i].node == id) {
            return z->reads[user].at[i].aligned;
        }
    }
    return false;
}

static bool worth_again(Fuse *z, uint32_t id, const ReadsVec *leaf) {
    double bytes = (double)type_bytes(z->g, node_type(z->g, id)), keep = bytes + LaunchBytes, again = 0;
    NodeVec seen = {0};
    for (uint32_t i = 0; i < z->users[id].n; i++) {
        uint32_t c = z->cluster[z->users[id].at[i]];
        bool known = c == z->cluster[id];
        for (uint32_t k = 0; k < seen.n && !known; k++) {
            known = seen.at[k] == c;
        }
        if (!known) {
            vec_push(z->arena, &seen, c);
            keep += bytes;
            again += again_cost(z, id, c, leaf);
        }
    }
    return again < keep;
}

static void compute_again(Fuse *z, uint32_t id) {
    OpClass c = node_class(z->g, id);
    if (!z->kept[id] || z->fixed[id] || (c != ClassEW && c != ClassRNG && !fuse_is_short(z->g, id))) {
        return;
    }
    ReadsVec leaf = {0};
    unit_reads(z, id, true, &leaf);
    if (!worth_again(z, id, &leaf)) {
        return;
    }
    NodeVec *users = &z->users[id], stay = {0};
    for (uint32_t i = 0; i < users->n; i++) {
        uint32_t user = users->at[i];
        if (z->cluster[user] != z->cluster[id] && !slots_allow(z, user, &leaf, aligned_read(z, user, id))) {
            return;                  // orders made so far only say what holds anyway
        }
    }
    for (uint32_t i = 0; i < users->n; i++) {
        uint32_t user = users->at[i];
        if (z->cluster[user] == z->cluster[id]) {
            vec_push(z->arena, &stay, user);
            continue;
        }
        for (uint32_t k = 0; k < leaf.n; k++) {
            if (z->unit[leaf.at[k].node]) {
                vec_push(z->arena, &z->users[leaf.at[k].node], user);
            }
        }
    }
    *users = stay;
    z->kept[id] = 0;
}

// --- 4: regions that read the same ---------------------------------------------------------------

static void join_siblings(Fuse *z) {
    const Graph *g = z->g;
    VEC(Edge) value = {0};
    NodeVec *by = arena_array(z->arena, NodeVec, g->node.n);
    for (uint32_t p = 1; p < g->node.n; p++) {
        uint32_t c = z->order[p];
        ReadsVec reads = {0};
        if (!c || node_class(g, c) == ClassANCHOR) {
            continue;
        }
        cluster_reads(z, c, &reads);
        for (uint32_t i = 0; i < reads.n; i++) {
            if (reads.at[i].aligned) {
                vec_push(z->arena, &by[reads.at[i].node], c);
            }
        }
    }
    for (uint32_t id = 1; id < g->node.n; id++) {
        if (by[id].n > 1) {
            vec_push(z->arena, &value, ((Edge){type_bytes(g, node_type(g, id)), id, id}));
        }
    }
    if (value.n) {
        qsort(value.at, value.n, sizeof *value.at, by_bytes);
    }
    for (uint32_t v = 0; v < value.n; v++) {
        const NodeVec *c = &by[value.at[v].from];
        for (uint32_t i = 0; i < c->n; i++) {
            for (uint32_t k = i + 1; k < c->n; k++) {
                if (type_same_shape(fuse_space(g, c->at[i]), fuse_space(g, c->at[k]))) {
                    cluster_merge(z, c->at[i], c->at[k]);
                }
            }
        }
    }
}

// --- regions -------------------------------------------------------------------------------------

typedef struct Build {
    Arena *perm;
    Fuse *z;
    Region *region;
    uint32_t *seen;                  // [node] number of the last region that met it
    uint32_t number;
} Build;

static void collect(Build *b, uint32_t id) {
    const Fuse *z = b->z;
    if (b->seen[id] == b->number) {
        return;
    }
    b->seen[id] = b->number;
    const Node *n = graph_node(z->g, id);
    if (n->op == OpConst && z->o->no_fuse) {
        return;
    }
    vec_push(b->perm, &b->region->node, id);
    for (uint32_t k = 0; k < n->nin; k++) {
        uint32_t from = fuse_operand(z->g, id, k);
        if (z->kept[from] || z->g->node.at[from].op == OpRead) {
            if (b->seen[from] != b->number) {
                b->seen[from] = b->number;
                vec_push(b->perm, &b->region->in, from);
            }
        } else {
            collect(b, from);
        }
    }
}

static int by_id(const void *a, const void *b) {
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return x < y ? -1 : x > y;
}

static void build_call(Build *b, uint32_t id) {
    const Graph *g = b->z->g;
    b->region->kind = RegionCall;
    vec_push(b->perm, &b->region->node, id);
    for (uint32_t k = 0; k < g->node.at[id].nin; k++) {
        uint32_t from = fuse_storage(g, node_in(g, id, k));
        if (b->seen[from] != b->number) {
            b->seen[from] = b->number;
            vec_push(b->perm, &b->region->in, from);
        }
    }
}

static void build_region(Build *b, Plan *p, uint32_t cluster) {
    Fuse *z = b->z;
    NodeVec root = {0};
    for (uint32_t i = 0; i < z->member[cluster].n; i++) {
        if (z->kept[z->member[cluster].at[i]]) {
            vec_push(b->perm, &root, z->member[cluster].at[i]);
        }
    }
    if (!root.n) {
        return;
    }
    qsort(root.at, root.n, sizeof *root.at, by_id);
    uint32_t index = p->region.n;
    Region *r = b->region = vec_add(b->perm, &p->region);
    *r = (Region){.kind = RegionLoop, .block = z->g->node.at[cluster].block, .kernel = NONE, .merged = NONE};
    b->number = index + 1;
    if (z->g->node.at[cluster].op == OpRead) {
        r->kind = RegionCopy;
        vec_push(b->perm, &r->node, cluster);
        vec_push(b->perm, &p->copied, (uint32_t)slot_of(z, cluster));
    } else if (node_class(z->g, cluster) == ClassANCHOR && !z->o->no_fuse) {
        build_call(b, cluster);
    } else {
        for (uint32_t i = 0; i < root.n; i++) {
            z->kept[root.at[i]] = 0;             // its own roots are members, not inputs
        }
        for (uint32_t i = 0; i < root.n; i++) {
            collect(b, root.at[i]);
        }
        for (uint32_t i = 0; i < root.n; i++) {
            z->kept[root.at[i]] = 1;
        }
        qsort(r->node.at, r->node.n, sizeof *r->node.at, by_id);
    }
    for (uint32_t i = 0; i < r->node.n; i++) {
        uint32_t *of = &p->region_of[r->node.at[i]];
        *of = *of == NONE ? index : *of;
    }
    for (uint32_t i = 0; i < root.n; i++) {
        p->region_of[root.at[i]] = index;
        vec_push(b->perm, &r->out, root.at[i]);
    }
}

// Why a stored value was not computed where region `r` reads it.
static void explain_inputs(Fuse *z, Arena *perm, Plan *p, const Region *r) {
    for (uint32_t i = 0; i < r->in.n; i++) {
        uint32_t id = r->in.at[i];
        if (!z->unit[id]) {
            continue;
        }
        size_t bytes = type_bytes(z->g, node_type(z->g, id));
        const char *why = cluster_refuses(z, id, r->out.at[0]);
        if (!why) {
            why = z->fixed[id] ? "it is stored for others anyway" : "reading it costs less than computing it again";
        }
        vec_push(perm, &p->why, ((Why){id, r->out.at[0], why, bytes}));
    }
}

static void build_regions(Fuse *z, Arena *perm, Plan *p) {
    uint32_t n = z->g->node.n;
    p->region_of = arena_array(perm, uint32_t, n);
    memset(p->region_of, 0xff, n * sizeof *p->region_of);
    Build b = {.perm = perm, .z = z, .seen = arena_array(z->arena, uint32_t, n)};
    for (uint32_t pos = 1; pos < n; pos++) {
        if (z->order[pos]) {
            build_region(&b, p, z->order[pos]);
        }
    }
    for (uint32_t i = 0; !z->o->no_fuse && i < p->region.n; i++) {
        explain_inputs(z, perm, p, &p->region.at[i]);
    }
}

// --- the pass ------------------------------------------------------------------------------------

// Where values lie that have no storage of their own: nowhere, or in the node they are a view of.
static void find_owners(const Fuse *z, Arena *perm, Plan *p) {
    p->place = arena_array(perm, Place, z->g->node.n);
    for (uint32_t id = 1; id < z->g->node.n; id++) {
        bool view = z->live[id] && !z->unit[id] && fuse_is_view(z->g, id);
        bool leaf = !z->unit[id] && node_class(z->g, id) == ClassLEAF;
        p->place[id].owner = view ? fuse_storage(z->g, id) : id;
        p->place[id].space = leaf ? SpaceInline : SpaceNone;
    }
}

void fuse(Arena *perm, const PassOptions *o, Plan *p) {
    const Func *f = p->func;
    Arena scratch;
    if (arena_init(&scratch, 0) != GAN_OK) {
        bug("%s", gan_error());
    }
    uint32_t n = f->g.node.n;
    Fuse z = {.arena = &scratch, .f = f, .g = &f->g, .o = o};
    z.unit = arena_array(&scratch, uint8_t, n);
    z.fixed = arena_array(&scratch, uint8_t, n);
    z.kept = arena_array(&scratch, uint8_t, n);
    z.reads = arena_array(&scratch, ReadsVec, n);
    z.users = arena_array(&scratch, NodeVec, n);
    z.later = arena_array(&scratch, NodeVec, n);
    find_live(&z);
    find_units(&z);
    find_all_reads(&z);
    clusters_init(&z);
    memcpy(z.kept, z.unit, n);
    order_slots(&z);
    if (!o->no_fuse) {
        join_producers(&z);
        find_kept(&z);
        for (uint32_t id = 1; id < n; id++) {
            compute_again(&z, id);
        }
        join_siblings(&z);
        find_kept(&z);
    }
    build_regions(&z, perm, p);
    find_owners(&z, perm, p);
    arena_release(&scratch);
}

// --- order of regions ----------------------------------------------------------------------------

static int by_after(const void *a, const void *b) {
    const RegionOrder *x = a, *y = b;
    if (x->after != y->after) {
        return x->after < y->after ? -1 : 1;
    }
    return x->before < y->before ? -1 : x->before > y->before;
}

static void order_push(Arena *perm, const Plan *p, OrderVec *out, uint32_t before, uint32_t after) {
    if (before != NONE && before != after && p->region.at[before].block == p->region.at[after].block) {
        vec_push(perm, out, ((RegionOrder){before, after}));
    }
}

// Region r reads a slot's value: it runs before its block's write of the slot.
static void order_slot(Arena *perm, const Plan *p, OrderVec *out, uint32_t r, uint32_t read) {
    const Func *f = p->func;
    for (uint32_t i = 0; i < f->effect.n; i++) {
        uint32_t w = f->effect.at[i];
        if (node_attr(&f->g, w)->i[0] == node_attr(&f->g, read)->i[0] && p->region_of[w] != NONE) {
            order_push(perm, p, out, r, p->region_of[w]);
        }
    }
}

void region_orders(Arena *perm, const Plan *p, OrderVec *out) {
    const Graph *g = &p->func->g;
    *out = (OrderVec){0};
    for (uint32_t r = 0; r < p->region.n; r++) {
        const Region *region = &p->region.at[r];
        for (uint32_t i = 0; i < region->in.n; i++) {
            uint32_t id = region->in.at[i];
            if (p->region_of[id] != NONE) {
                order_push(perm, p, out, p->region_of[id], r);
            } else if (g->node.at[id].op == OpRead) {
                order_slot(perm, p, out, r, id);
            }
        }
        if (region->kind == RegionCopy) {
            order_slot(perm, p, out, r, region->node.at[0]);
        }
    }
    if (out->n == 0) {
        return;
    }
    qsort(out->at, out->n, sizeof *out->at, by_after);
    uint32_t n = 1;
    for (uint32_t i = 1; i < out->n; i++) {
        if (by_after(&out->at[i], &out->at[n - 1]) != 0) {
            out->at[n++] = out->at[i];
        }
    }
    out->n = n;
}
