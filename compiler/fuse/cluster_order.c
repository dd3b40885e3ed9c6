// cluster_order.c - the order of clusters: does a path keep two apart, and where do they go?
//
// While clusters merge, a topological order of them is maintained, not recomputed: a walk from one
// cluster is cut off at the position of the other, so a merge of neighbours costs the clusters
// between them (the idea of Pearce and Kelly, "A dynamic topological sort algorithm for directed
// acyclic graphs", 2006). Two that are far apart, as a gradient and the update that waits for all
// of them, are walked from both ends: the rest of a backward pass follows the one, next to nothing
// leads to the other. Most pairs that a path keeps apart, as an activation and its gradient, a
// barrier tells.
#include "clusters.h"

#include <stdlib.h>
#include <string.h>

void clusters_link(Fuse *z) {
    z->before = arena_array(z->arena, NodeList, z->g->node.n);
    for (uint32_t id = 1; id < z->g->node.n; id++) {
        for (uint32_t k = 0; k < z->users[id].n; k++)
            vec_push(z->arena, &z->before[z->users[id].at[k]], id);
        for (uint32_t k = 0; k < z->later[id].n; k++)
            vec_push(z->arena, &z->before[z->later[id].at[k]], id);
    }
}

// --- walks ---------------------------------------------------------------------------------------

static Reach *other_end(Fuse *z, const Reach *r) {
    return r == &z->ahead ? &z->back : &z->ahead;
}

static bool is_reached(const Fuse *z, const Reach *r, uint32_t cluster) {
    return r->mark[cluster] == z->walks;
}

static bool is_done(const Reach *r) {
    return r->done == r->cluster.n;
}

static void reach(Fuse *z, Reach *r, uint32_t cluster) {
    r->mark[cluster] = z->walks;
    vec_push(z->arena, &r->cluster, cluster);
}

static void reach_begin(Fuse *z, Reach *r, uint32_t cluster) {
    r->cluster.n = r->done = r->edges = 0;
    reach(z, r, cluster);
}

// Reaches the clusters of these units but `except`. Has the other end reached one of them?
static bool reach_all(Fuse *z, Reach *r, const NodeList *units, uint32_t except) {
    const Reach *other = other_end(z, r);
    uint32_t end = other->cluster.at[0];
    bool met = false;
    r->edges += units->n;
    for (uint32_t k = 0; k < units->n; k++) {
        uint32_t to = z->cluster[units->at[k]];
        bool beyond =
            r == &z->ahead ? order_before(&z->topo, end, to) : order_before(&z->topo, to, end);
        if (beyond || to == except || is_reached(z, r, to))
            continue;
        met |= is_reached(z, other, to);
        reach(z, r, to);
    }
    return met;
}

// Reaches the neighbours of the next cluster; `indirect`: not the end from the beginning. Do both
// ends meet?
static bool reach_on(Fuse *z, Reach *r, bool indirect) {
    uint32_t except = indirect && r->done == 0 ? other_end(z, r)->cluster.at[0] : 0;
    const NodeList *member = &z->member[r->cluster.at[r->done++]];
    bool met = false;
    for (uint32_t i = 0; i < member->n && !met; i++) {
        uint32_t unit = member->at[i];
        if (r == &z->back)
            met = reach_all(z, r, &z->before[unit], except);
        else
            met = reach_all(z, r, &z->users[unit], except) ||
                  reach_all(z, r, &z->later[unit], except);
    }
    return met;
}

bool cluster_leads(Fuse *z, uint32_t a, uint32_t b, Walk how) {
    z->walks++;
    reach_begin(z, &z->ahead, a);
    reach_begin(z, &z->back, b);
    for (;;) {
        bool back = how == WalkBoth && z->back.edges < z->ahead.edges;
        Reach *r = back ? &z->back : &z->ahead;
        if (is_done(r))
            return false;
        if (reach_on(z, r, how != WalkAny))
            return true;
    }
}

// --- changes -------------------------------------------------------------------------------------

typedef struct Ranked {
    uint64_t label;
    uint32_t cluster;
} Ranked;

static int by_label(const void *a, const void *b) {
    const Ranked *x = a, *y = b;
    return x->label < y->label ? -1 : x->label > y->label;
}

// Takes what was reached out of the order, and lists it in the order it had. Where it lies close
// together the order itself is followed, without a sort.
static void take_out(Fuse *z, Reach *r) {
    enum { Close = 4 }; // clusters followed for each one reached
    Arena scratch = *z->arena;
    bool ahead = r == &z->ahead;
    const uint32_t *next = ahead ? z->topo.next : z->topo.prev;
    uint32_t n = r->cluster.n, found = 0, most = n * Close;
    Ranked *by = arena_array(&scratch, Ranked, n);
    for (uint32_t c = r->cluster.at[0]; c && found < n && most; c = next[c], most--)
        if (is_reached(z, r, c)) {
            by[ahead ? found : n - 1 - found].cluster = c;
            found++;
        }
    for (uint32_t i = 0; found < n && i < n; i++)
        by[i] = (Ranked){z->topo.label[r->cluster.at[i]], r->cluster.at[i]};
    if (found < n)
        qsort(by, n, sizeof *by, by_label);
    for (uint32_t i = 0; i < n; i++) {
        r->cluster.at[i] = by[i].cluster;
        order_remove(&z->topo, by[i].cluster);
    }
}

// After a walk that has found no path: what it began at, and what that leads to, goes behind a
// cluster it was to lead to.
static void follow(Fuse *z, uint32_t cluster) {
    take_out(z, &z->ahead);
    order_insert(&z->topo, cluster, z->ahead.cluster.at, z->ahead.cluster.n);
}

void cluster_absorb(Fuse *z, uint32_t a, uint32_t b) {
    if (is_done(&z->ahead)) { // what follows a goes where b is
        follow(z, b);
        order_remove(&z->topo, b);
    } else { // what leads to b, which is the last of it, goes where a is
        take_out(z, &z->back);
        order_insert(&z->topo, z->topo.prev[a], z->back.cluster.at, z->back.cluster.n - 1);
    }
}

bool cluster_order(Fuse *z, uint32_t before, uint32_t after) {
    uint32_t a = z->cluster[before], b = z->cluster[after];
    if (a == b)
        return true;
    if (order_before(&z->topo, b, a)) {
        if (cluster_leads(z, b, a, WalkAny))
            return false;
        follow(z, a);
    }
    vec_push(z->arena, &z->later[before], after);
    return true;
}

// --- the list ------------------------------------------------------------------------------------

typedef struct Ready {
    Fuse *z;
    uint32_t *last;  // [cluster] its last unit
    uint32_t *waits; // [cluster] edges that lead to it from clusters that are not listed
    NodeList heap;   // clusters that wait for none: that of the first `last` on top
} Ready;

static void ready_add(Ready *r, uint32_t cluster) {
    vec_push(r->z->arena, &r->heap, cluster);
    uint32_t *at = r->heap.at, i = r->heap.n - 1;
    for (; i && r->last[at[(i - 1) / 2]] > r->last[cluster]; i = (i - 1) / 2)
        at[i] = at[(i - 1) / 2];
    at[i] = cluster;
}

static uint32_t ready_take(Ready *r) {
    uint32_t *at = r->heap.at, top = at[0], cluster = at[--r->heap.n], i = 0;
    for (uint32_t k = 1; k < r->heap.n; i = k, k = 2 * i + 1) {
        k += k + 1 < r->heap.n && r->last[at[k + 1]] < r->last[at[k]];
        if (r->last[at[k]] > r->last[cluster])
            break;
        at[i] = at[k];
    }
    at[i] = cluster;
    return top;
}

static void ready_init(Ready *r) {
    const Fuse *z = r->z;
    uint32_t n = z->g->node.n;
    r->last = arena_array(z->arena, uint32_t, n);
    r->waits = arena_array(z->arena, uint32_t, n);
    for (uint32_t id = 1; id < n; id++) {
        uint32_t cluster = z->cluster[id];
        r->last[cluster] = id;
        for (uint32_t k = 0; k < z->before[id].n; k++)
            r->waits[cluster] += z->cluster[z->before[id].at[k]] != cluster;
    }
    for (uint32_t c = z->topo.next[0]; c; c = z->topo.next[c])
        if (!r->waits[c])
            ready_add(r, c);
}

static void ready_after(Ready *r, uint32_t cluster, const NodeList *units) {
    for (uint32_t k = 0; k < units->n; k++) {
        uint32_t to = r->z->cluster[units->at[k]];
        if (to != cluster && !--r->waits[to])
            ready_add(r, to);
    }
}

void cluster_list(Fuse *z) {
    uint32_t n = 1;
    Ready r = {.z = z};
    ready_init(&r);
    while (r.heap.n) {
        uint32_t cluster = z->order[n++] = ready_take(&r);
        for (uint32_t i = 0; i < z->member[cluster].n; i++) {
            ready_after(&r, cluster, &z->users[z->member[cluster].at[i]]);
            ready_after(&r, cluster, &z->later[z->member[cluster].at[i]]);
        }
    }
    if (n != z->topo.n + 1)
        bug("fuse: the clusters' graph has a cycle");
    memset(&z->order[n], 0, (z->g->node.n + 1 - n) * sizeof *z->order);
}
