// derive.c - what is computed of the results of a loop's reductions alone, at the end of that loop.
//
// In: clusters as fusion has formed them. Out: Fuse.derived, and kept and cluster of what is.
//
// A norm's deviation is a function of the sum of squares. Every loop over the values that it
// normalizes would compute it again, for each channel of a thread, in as many instructions as all
// the rest. The region that sums stores it in the place of the sum. Sums that something else reads
// stay stored, and so do those of their kind elsewhere.
#include "clusters.h"

enum { Cheap = 4 }; // additions: a multiplication may be computed again, a root is worth a place

typedef struct Derive {
    Fuse *z;
    uint32_t *of;     // [node] cluster of the reductions that it is a function of alone, 0 none
    double *weight;   // [node] arithmetic behind these, of one element
    uint8_t *outside; // [node] others than functions of the same reductions read it
    uint8_t *wide;    // [node] a loop over more elements than it has reads or computes it
    uint8_t *ends;    // [cluster] it stores functions
} Derive;

// --- functions of reductions ---------------------------------------------------------------------

// Results that are stored as they are accumulated. One number alone is computed again at no cost.
static bool is_result(const Graph *g, uint32_t id) {
    Op op = (Op)g->node.at[id].op;
    const Type *t = node_type(g, id);
    return (op == OpSum || op == OpSquares || op == OpMaxOf) && !dtype_is_half((Dtype)t->dtype) &&
           type_elements(g, t) > 1;
}

static bool is_alike(const Graph *g, uint32_t a, uint32_t b) {
    const Type *x = node_type(g, a), *y = node_type(g, b);
    return type_elements(g, x) == type_elements(g, y) && x->dtype == y->dtype &&
           g->node.at[a].block == g->node.at[b].block;
}

// Is it the same function everywhere, not one of an element's place as well? Constants side by
// side, or with a border of zeros, depend on the place.
static bool is_uniform(const Graph *g, uint32_t id) {
    for (uint32_t k = 0; k < g->node.at[id].nin; k++) {
        uint32_t in = node_in(g, id, k);
        while (node_is_view(g, in) && g->node.at[in].op != OpConcat && g->node.at[in].op != OpPad)
            in = node_in(g, in, 0);
        bool leaf = node_class(g, in) == ClassLEAF && g->node.at[in].op != OpConst;
        if (leaf || node_is_view(g, in))
            return false;
    }
    return true;
}

uint32_t derived_of(const Fuse *z, const uint32_t *of, uint32_t id) {
    uint32_t cluster = 0;
    if (node_ends_loop(z->g, id))
        return is_result(z->g, id) ? z->cluster[id] : 0;
    for (uint32_t i = 0; i < z->reads[id].n; i++) {
        Reads r = z->reads[id].at[i];
        bool first = !cluster || of[r.node] == cluster;
        if (!r.aligned || !of[r.node] || !first || !is_alike(z->g, id, r.node))
            return 0;
        cluster = of[r.node];
    }
    bool elementwise = node_class(z->g, id) == ClassEW && z->g->node.at[id].op != OpWrite;
    return elementwise && is_uniform(z->g, id) ? cluster : 0;
}

// --- which are stored ----------------------------------------------------------------------------

static bool is_function(const Derive *d, uint32_t id) {
    return d->of[id] && !node_ends_loop(d->z->g, id);
}

static void find_functions(Derive *d) {
    const Fuse *z = d->z;
    for (uint32_t id = 1; id < z->g->node.n; id++) { // operands come first
        d->of[id] = z->unit[id] ? derived_of(z, d->of, id) : 0;
        if (!is_function(d, id))
            continue;
        d->weight[id] = fuse_weight(z, id);
        for (uint32_t i = 0; i < z->reads[id].n; i++)
            d->weight[id] += d->weight[z->reads[id].at[i].node];
    }
}

static double loop_elements(const Fuse *z, uint32_t id) {
    return (double)type_elements(z->g, node_space(z->g, id));
}

static void find_readers(Derive *d) {
    const Fuse *z = d->z;
    for (uint32_t id = z->g->node.n; id-- > 1;) { // readers come first
        d->outside[id] |= z->asked[id];
        for (uint32_t i = 0; z->unit[id] && i < z->reads[id].n; i++) {
            uint32_t from = z->reads[id].at[i].node;
            double elements = (double)type_elements(z->g, node_type(z->g, from));
            d->outside[from] |= !is_function(d, id) || d->of[id] != d->of[from];
            d->wide[from] |= loop_elements(z, id) > elements || (!z->kept[id] && d->wide[id]);
        }
    }
}

static bool is_worth_it(const Derive *d, uint32_t id) {
    return is_function(d, id) && d->outside[id] && d->wide[id] && d->weight[id] > Cheap;
}

static void list_remove(NodeList *list, uint32_t id) {
    uint32_t n = 0;
    for (uint32_t i = 0; i < list->n; i++)
        if (list->at[i] != id)
            list->at[n++] = list->at[i];
    list->n = n;
}

// Into the cluster, which computes all that it is a function of itself.
static void store(Fuse *z, uint32_t id, uint32_t cluster) {
    list_remove(&z->member[z->cluster[id]], id);
    for (uint32_t i = 0; i < z->reads[id].n; i++)
        list_remove(&z->users[z->reads[id].at[i].node], id);
    z->cluster[id] = cluster;
    z->kept[id] = z->derived[id] = 1;
    vec_push(z->arena, &z->member[cluster], id);
}

// Sums, and functions of them, that only what is stored now is computed of are not stored. Of one
// kind all are or none, so that equal loops end alike: they share a kernel.
static void drop_sums(Derive *d) {
    Fuse *z = d->z;
    uint8_t *needed = arena_array(z->arena, uint8_t, z->g->node.n);
    bool kind[OpCount] = {false}; // of reductions: one is needed
    for (uint32_t id = z->g->node.n; id-- > 1;) {
        if (!d->of[id] || !d->ends[d->of[id]] || z->derived[id])
            continue;
        needed[id] |= d->outside[id];
        if (!is_function(d, id))
            kind[z->g->node.at[id].op] |= needed[id];
        else
            z->kept[id] &= needed[id];
        for (uint32_t i = 0; is_function(d, id) && needed[id] && i < z->reads[id].n; i++)
            needed[z->reads[id].at[i].node] = 1;
    }
    for (uint32_t id = 1; id < z->g->node.n; id++)
        if (d->of[id] && d->ends[d->of[id]] && !is_function(d, id))
            z->kept[id] = kind[z->g->node.at[id].op];
}

void derive_results(Fuse *z) {
    uint32_t n = z->g->node.n;
    Derive d = {.z = z,
                .of = arena_array(z->arena, uint32_t, n),
                .weight = arena_array(z->arena, double, n),
                .outside = arena_array(z->arena, uint8_t, n),
                .wide = arena_array(z->arena, uint8_t, n),
                .ends = arena_array(z->arena, uint8_t, n)};
    find_functions(&d);
    find_readers(&d);
    for (uint32_t id = 1; id < n; id++) {
        if (is_worth_it(&d, id)) {
            d.ends[d.of[id]] = 1;
            store(z, id, d.of[id]);
        }
    }
    drop_sums(&d);
}
