// restore.c - rebuilds regions from decisions made elsewhere: which values each of them stores.
//
// In: a function whose graph passes are done, and untrusted node numbers from a text. Out: what
// fuse() fills, or why not. The decisions are checked by the rules that fusion itself applies, and
// all that follows from them (members, inputs, owners) is derived as fusion derives it; so accepted
// regions keep every invariant of program.h.
#include "clusters.h"

#include <string.h>

typedef struct Restore {
    Arena *perm;
    Fuse z;
    Plan *p;
    Refusal *wrong;
    uint32_t *half; // [2 * call] parts that are waited for, [2 * call + 1] that are started
} Restore;

static bool refuse(Restore *r, uint32_t region, const char *format, ...) {
    va_list args;
    va_start(args, format);
    *r->wrong = (Refusal){str_vformat(r->perm, format, args), region};
    va_end(args);
    return false;
}

// --- regions -------------------------------------------------------------------------------------

// Only what the passes leave can be planned.
static bool check_graph(Restore *r) {
    const Graph *g = r->z.g;
    for (uint32_t id = 1; id < g->node.n; id++) {
        Op op = (Op)g->node.at[id].op;
        OpClass c = node_class(g, id);
        if (r->z.live[id] && c == ClassCOMM && r->p->module->share.ranks <= 1)
            return refuse(r, NONE, "%%%u is a sum over ranks, and the text is of one alone", id);
        if (r->z.live[id] && c == ClassMETA) {
            return refuse(r, NONE, "node %%%u (%s) is not of a graph that can be planned", id,
                          op_info[op].text);
        }
    }
    return true;
}

static bool add_stored(Restore *r, uint32_t region, uint32_t id) {
    Fuse *z = &r->z;
    bool known = id > 0 && id < z->g->node.n;
    bool copy = known && z->g->node.at[id].op == OpRead && z->live[id] && !z->unit[id];
    if (!known || (!z->unit[id] && !copy) || z->kept[id])
        return refuse(r, region, "%%%u is not a value that a region stores, or is stored twice",
                      id);
    NodeList *member = &z->member[z->order[region + 1]];
    bool part = node_class(z->g, id) == ClassCOMM; // in the order of the parts
    if (!part && member->n && member->at[member->n - 1] > id)
        return refuse(r, region, "its values are not in the order of their numbers");
    z->kept[id] = z->unit[id] = 1;
    z->cluster[id] = z->order[region + 1];
    vec_push(z->arena, member, id);
    return true;
}

// Puts the units of each region into one cluster, clusters in the order of the text.
static bool make_clusters(Restore *r, const NodeList *stored, uint32_t regions) {
    Fuse *z = &r->z;
    uint32_t n = z->g->node.n;
    if (regions >= n)
        return refuse(r, NONE, "more regions than values");
    clusters_init(z);
    memset(z->order, 0, n * sizeof *z->order);
    memset(z->member, 0, n * sizeof *z->member);
    for (uint32_t i = 0; i < regions; i++) {
        if (!stored[i].n || stored[i].at[0] == 0 || stored[i].at[0] >= n)
            return refuse(r, i, "it stores nothing");
        z->order[i + 1] = stored[i].at[0];
        for (uint32_t k = 0; k < stored[i].n; k++)
            if (!add_stored(r, i, stored[i].at[k]))
                return false;
    }
    return true;
}

// Half a call: its parts, each once, and of one kind; NULL, or why not.
static const char *call_wrong(Restore *r, uint32_t cluster, uint32_t regions) {
    const Graph *g = r->z.g;
    const NodeList *part = &r->z.member[cluster];
    const Attr *first = node_attr(g, cluster);
    bool starts = graph_node(g, cluster)->op == OpReduceStart;
    Dtype dtype = (Dtype)node_type(g, cluster)->dtype;
    uint8_t *seen = arena_array(r->z.arena, uint8_t, part->n);
    if (first->i[0] < 0 || first->i[0] >= regions)
        return "its call has no number that could be";
    if ((dtype != DtF32 && dtype != DtF64) || (starts && (uint64_t)first->i[2] > OrderTree))
        return "sums over the ranks are of f32 or f64, in any order or in a tree";
    for (uint32_t i = 0; i < part->n; i++) {
        uint32_t id = part->at[i];
        const Attr *at = node_attr(g, id);
        bool alike = graph_node(g, id)->op == graph_node(g, cluster)->op &&
                     graph_node(g, id)->block == graph_node(g, cluster)->block &&
                     node_type(g, id)->dtype == dtype && at->i[0] == first->i[0] &&
                     (!starts || at->i[2] == first->i[2]);
        if (!alike)
            return "it mixes calls, or their types";
        if ((uint64_t)at->i[1] >= part->n || seen[at->i[1]]++)
            return "a part of its call is missing, or comes twice";
    }
    uint32_t *half = &r->half[2 * first->i[0] + starts];
    if (*half)
        return "another region has parts of its call";
    *half = part->n;
    return NULL;
}

// Are calls numbered from 0, started once and waited for once, whole?
static bool check_calls(Restore *r, uint32_t regions) {
    bool over = false;
    for (uint32_t k = 0; k < regions; k++) {
        uint32_t waits = r->half[2 * k], starts = r->half[2 * k + 1];
        if (waits != starts || (starts && over))
            return refuse(r, NONE, "call %u is not started, not waited for, or only in part", k);
        over |= !starts;
    }
    return true;
}

static bool check_clusters(Restore *r, uint32_t regions) {
    Fuse *z = &r->z;
    for (uint32_t id = 1; id < z->g->node.n; id++) {
        bool made = z->kept[id] || z->cluster[id] != id; // place_sums
        if (z->live[id] && z->fixed[id] && !made) {
            return refuse(r, NONE, "no region stores %%%u (%s)", id,
                          op_info[z->g->node.at[id].op].text);
        }
    }
    for (uint32_t i = 0; i < regions; i++) {
        uint32_t cluster = z->order[i + 1];
        bool call = node_class(z->g, cluster) == ClassCOMM;
        const char *why = call ? call_wrong(r, cluster, regions) : cluster_wrong(z, cluster);
        if (why)
            return refuse(r, i, "it cannot be one region: %s", why);
    }
    return true;
}

// What a region that runs twice (remat.c) stores is read of one run here and of the other there: a
// value of it may have no reader, a move none that it must lie in memory for.
static void note_stored(Restore *r, const NodeList *stored, uint32_t regions) {
    uint8_t *stated = arena_array(r->z.arena, uint8_t, r->z.g->node.n);
    for (uint32_t i = 0; i < regions; i++)
        for (uint32_t k = 0; k < stored[i].n; k++)
            if (stored[i].at[k] < r->z.g->node.n)
                stated[stored[i].at[k]] = 1;
    r->z.stated = stated;
}

// A reduction that no region stores belongs to the only one that computes something of it.
static void place_sums(Fuse *z) {
    uint32_t *by = arena_array(z->arena, uint32_t, z->g->node.n); // [node] cluster; NONE: several
    for (uint32_t id = z->g->node.n; id-- > 1;) {                 // readers come first
        bool sum = z->unit[id] && node_ends_loop(z->g, id);
        if (sum && !z->kept[id] && !z->asked[id] && by[id] && by[id] != NONE) {
            z->cluster[id] = by[id];
            vec_push(z->arena, &z->member[by[id]], id);
        }
        uint32_t own = z->kept[id] ? z->cluster[id] : by[id];
        for (uint32_t i = 0; z->unit[id] && own && i < z->reads[id].n; i++) {
            uint32_t *of = &by[z->reads[id].at[i].node];
            *of = !*of || *of == own ? own : NONE;
        }
    }
}

static void find_derived(Fuse *z) {
    uint32_t *of = arena_array(z->arena, uint32_t, z->g->node.n);
    for (uint32_t id = 1; id < z->g->node.n; id++) {
        if (!z->unit[id])
            continue;
        of[id] = derived_of(z, of, id);
        bool stored = z->kept[id] && !node_ends_loop(z->g, id);
        z->derived[id] = stored && of[id] == z->cluster[id];
        of[id] = stored && !z->derived[id] ? 0 : of[id];
    }
}

static bool restore_regions(Restore *r, const NodeList *stored, uint32_t regions) {
    note_stored(r, stored, regions);
    units_find(&r->z);
    r->half = arena_array(r->z.arena, uint32_t, 2 * (size_t)regions);
    if (!check_graph(r) || !make_clusters(r, stored, regions))
        return false;
    place_sums(&r->z);
    find_derived(&r->z);
    if (!check_clusters(r, regions) || !check_calls(r, regions))
        return false;
    regions_build(&r->z, r->perm, r->p);
    return true;
}

bool fuse_restore(Arena *perm, const PassOptions *o, const NodeList *stored, uint32_t regions,
                  Plan *p, Refusal *wrong) {
    Arena scratch;
    arena_need(&scratch);
    scratch.oom = perm->oom;
    Restore r = {
        .perm = perm,
        .z = {.arena = &scratch, .m = p->module, .f = p->func, .g = &p->func->g, .o = o},
        .p = p,
        .wrong = wrong,
    };
    bool ok = restore_regions(&r, stored, regions);
    arena_release(&scratch);
    return ok;
}
