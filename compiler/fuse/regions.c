// regions.c - turns the final clusters into the plan's regions, and derives the dependences between
// regions.
#include "clusters.h"

#include <stdlib.h>
#include <string.h>

// --- regions -------------------------------------------------------------------------------------

typedef struct Build {
    Arena *perm;
    Fuse *z;
    Region *region;
    uint32_t *seen; // [node] number of the last region that met it
    uint32_t number;
} Build;

static void collect(Build *b, uint32_t id) {
    const Fuse *z = b->z;
    if (b->seen[id] == b->number)
        return;
    b->seen[id] = b->number;
    const Node *n = graph_node(z->g, id);
    if (n->op == OpConst && z->o->no_fuse)
        return;
    vec_push(b->perm, &b->region->node, id);
    for (uint32_t k = 0; k < n->nin; k++) {
        uint32_t from = node_operand(z->g, id, k);
        Op op = (Op)z->g->node.at[from].op; // a number that is kept is known to its readers too
        if ((z->kept[from] && op != OpConst) || op == OpRead) {
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
        uint32_t from = node_storage(g, node_in(g, id, k), *b->z->arena);
        if (b->seen[from] != b->number) {
            b->seen[from] = b->number;
            vec_push(b->perm, &b->region->in, from);
        }
    }
}

static int64_t part_of(const Graph *g, uint32_t id) {
    return node_attr(g, id)->i[1];
}

// One half of a collective: `root` are its parts, which it orders.
static void build_comm(Build *b, NodeList *root) {
    const Graph *g = b->z->g;
    for (uint32_t i = 1; i < root->n; i++) {
        for (uint32_t k = i; k && part_of(g, root->at[k - 1]) > part_of(g, root->at[k]); k--) {
            uint32_t swap = root->at[k];
            root->at[k] = root->at[k - 1];
            root->at[k - 1] = swap;
        }
    }
    b->region->kind = g->node.at[root->at[0]].op == OpReduceStart ? RegionStart : RegionWait;
    for (uint32_t i = 0; i < root->n; i++) {
        uint32_t in = node_in(g, root->at[i], 0),
                 from = b->z->o->no_fuse ? in : node_storage(g, in, *b->z->arena);
        vec_push(b->perm, &b->region->node, root->at[i]);
        if (b->seen[from] != b->number) {
            b->seen[from] = b->number;
            vec_push(b->perm, &b->region->in, from);
        }
    }
}

static void build_region(Build *b, Plan *p, uint32_t cluster) {
    Fuse *z = b->z;
    NodeList root = {0};
    for (uint32_t i = 0; i < z->member[cluster].n; i++)
        if (z->kept[z->member[cluster].at[i]])
            vec_push(b->perm, &root, z->member[cluster].at[i]);
    if (!root.n)
        return;
    qsort(root.at, root.n, sizeof *root.at, by_id);
    uint32_t index = p->region.n;
    Region *r = b->region = vec_add(b->perm, &p->region);
    *r = (Region){.kind = RegionLoop,
                  .block = z->g->node.at[cluster].block,
                  .kernel = NONE,
                  .call = NONE,
                  .merged = NONE};
    b->number = index + 1;
    if (z->g->node.at[cluster].op == OpRead) {
        r->kind = RegionCopy;
        vec_push(b->perm, &r->node, cluster);
        vec_push(b->perm, &p->copied, node_slot(z->g, cluster));
    } else if (node_class(z->g, cluster) == ClassCOMM) {
        build_comm(b, &root);
    } else if (node_class(z->g, cluster) == ClassANCHOR && !z->o->no_fuse) {
        build_call(b, cluster);
    } else {
        for (uint32_t i = 0; i < root.n; i++)
            z->kept[root.at[i]] = 0; // its own roots are members, not inputs
        for (uint32_t i = 0; i < root.n; i++)
            collect(b, root.at[i]);
        for (uint32_t i = 0; i < root.n; i++)
            z->kept[root.at[i]] = 1;
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
        if (!z->unit[id])
            continue;
        size_t bytes = type_bytes(z->g, node_type(z->g, id));
        const char *why = cluster_refuses(z, id, r->out.at[0]);
        if (!why) {
            why = z->fixed[id] ? "it is stored for others anyway"
                               : "computing it again would cost more, or make a kernel too long";
        }
        vec_push(perm, &p->why, ((Why){id, r->out.at[0], why, bytes}));
    }
}

static void build_regions(Fuse *z, Arena *perm, Plan *p) {
    uint32_t n = z->g->node.n;
    p->region_of = arena_array(perm, uint32_t, n);
    memset(p->region_of, 0xff, n * sizeof *p->region_of);
    Build b = {.perm = perm, .z = z, .seen = arena_array(z->arena, uint32_t, n)};
    for (uint32_t pos = 1; z->order[pos]; pos++)
        build_region(&b, p, z->order[pos]);
}

void regions_explain(Fuse *z, Arena *perm, Plan *p) {
    for (uint32_t i = 0; !z->o->no_fuse && i < p->region.n; i++)
        explain_inputs(z, perm, p, &p->region.at[i]);
}

// Where values lie that have no storage of their own: nowhere, or in the node they are a view of.
static void find_owners(const Fuse *z, Arena *perm, Plan *p) {
    p->place = arena_array(perm, Place, z->g->node.n);
    for (uint32_t id = 1; id < z->g->node.n; id++) {
        bool view = z->live[id] && !z->unit[id] && node_is_view(z->g, id);
        bool leaf = !z->unit[id] && node_class(z->g, id) == ClassLEAF;
        p->place[id].owner = view ? node_storage(z->g, id, *z->arena) : id;
        p->place[id].space = leaf ? SpaceInline : SpaceNone;
    }
}

void regions_build(Fuse *z, Arena *perm, Plan *p) {
    build_regions(z, perm, p);
    find_owners(z, perm, p);
}

// --- order of regions ----------------------------------------------------------------------------

static int by_after(const void *a, const void *b) {
    const RegionOrder *x = a, *y = b;
    if (x->after != y->after)
        return x->after < y->after ? -1 : 1;
    return x->before < y->before ? -1 : x->before > y->before;
}

static void order_push(Arena *perm, const Plan *p, OrderVec *out, uint32_t before, uint32_t after) {
    if (before != NONE && after != NONE && before != after &&
        p->region.at[before].block == p->region.at[after].block)
        vec_push(perm, out, ((RegionOrder){before, after}));
}

// Region r reads a slot's value: it runs before its block's write of the slot.
static void order_slot(Arena *perm, const Plan *p, const NodeList *writes, OrderVec *out,
                       uint32_t r, uint32_t read) {
    const NodeList *write = &writes[node_slot(&p->func->g, read)];
    for (uint32_t i = 0; i < write->n; i++)
        order_push(perm, p, out, r, p->region_of[write->at[i]]);
}

void region_orders(Arena *perm, const Plan *p, OrderVec *out) {
    const Graph *g = &p->func->g;
    const NodeList *writes = slot_writes(perm, p->module, p->func);
    *out = (OrderVec){0};
    for (uint32_t k = 1; k < p->collective.n; k++)
        order_push(perm, p, out, p->collective.at[k - 1].start, p->collective.at[k].start);
    for (uint32_t r = 0; r < p->region.n; r++) {
        const Region *region = &p->region.at[r];
        for (uint32_t i = 0; i < region->in.n; i++) {
            uint32_t id = region->in.at[i];
            if (p->region_of[id] != NONE)
                order_push(perm, p, out, p->region_of[id], r);
            else if (g->node.at[id].op == OpRead)
                order_slot(perm, p, writes, out, r, id);
        }
        if (region->kind == RegionCopy)
            order_slot(perm, p, writes, out, r, region->node.at[0]);
    }
    if (out->n == 0)
        return;
    qsort(out->at, out->n, sizeof *out->at, by_after);
    uint32_t n = 1;
    for (uint32_t i = 1; i < out->n; i++)
        if (by_after(&out->at[i], &out->at[n - 1]) != 0)
            out->at[n++] = out->at[i];
    out->n = n;
}
