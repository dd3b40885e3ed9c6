// remat_write.c - writes the plan in which some regions are recomputed.
//
// In: a plan, and the runs of its regions. Out: the plan of those runs. Each run has its own copy
// of the nodes it computes, in the order of the base plan, so that its kernel is the same; regions
// and launches pass the same checks as those of a text (restore.c).
#include "remat.h"

#include <stddef.h>
#include <string.h>

typedef struct Writing {
    Arena *perm;
    const Plan *base;
    const Runs *runs;
    Builder to;
    uint32_t **made;  // [run][out] its new node
    uint32_t *local;  // [node] new node in the run at hand
    uint32_t *stamp;  // [node] 1 + the run of local[]
    uint32_t *first;  // [node] the first new node of it: of the run that the base plan has
    uint32_t *number; // [run] its region in the new plan
    NodeList *stored; // [new region]
    uint32_t regions;
} Writing;

static uint32_t out_of(const Writing *w, uint32_t node) {
    uint32_t r = w->base->region_of[node];
    return r == NONE ? 0 : w->runs->out[node];
}

static uint32_t copy_node(Writing *w, uint32_t id, const uint32_t *in) {
    const Graph *from = &w->base->func->g;
    const Node *n = graph_node(from, id);
    w->to.block = n->block;
    w->to.span = from->span.at[n->span].span;
    uint32_t made =
        builder_add(&w->to, (Op)n->op, in, n->nin, node_attr(from, id), node_type(from, id));
    for (uint32_t at = n->span; at; at = from->span.at[at].next)
        node_add_span(w->to.g, made, from->span.at[at].span);
    return made;
}

// The run whose value of stored node `id` run `run` reads; NONE: it computes it, or looks through
// it.
static uint32_t maker(const Writing *w, uint32_t run, uint32_t id) {
    uint32_t home = w->base->region_of[id];
    if (run == NONE)
        return home;
    const Run *r = &w->runs->run.at[run];
    if (r->region == home)
        return NONE;
    const Region *region = &w->base->region.at[r->region];
    for (uint32_t k = 0; k < region->in.n; k++)
        if (region->in.at[k] == id)
            return r->from[k];
    return NONE; // it looks through it
}

// The new node of `id` as run `run` sees it (NONE: as the executor does). Views and cheap nodes are
// each run's own.
static uint32_t write_node(Writing *w, uint32_t run, uint32_t id) {
    const Graph *g = &w->base->func->g;
    uint32_t stored = out_of(w, id), by = stored ? maker(w, run, id) : NONE, in[MAX_IN] = {0};
    if (by != NONE)
        return w->made[by][stored - 1];
    if (!stored && (graph_node(g, id)->op == OpRead || run == NONE) && w->first[id])
        return w->first[id];
    if (run != NONE && w->stamp[id] == run + 1)
        return w->local[id];
    for (uint32_t k = 0; k < graph_node(g, id)->nin; k++)
        in[k] = write_node(w, run, node_in(g, id, k));
    uint32_t made = copy_node(w, id, in);
    if (run != NONE) {
        w->stamp[id] = run + 1;
        w->local[id] = made;
    }
    w->first[id] = w->first[id] ? w->first[id] : made;
    return made;
}

static void write_run(Writing *w, uint32_t run) {
    const Region *r = &w->base->region.at[w->runs->run.at[run].region];
    uint32_t index = w->number[run] = w->regions++;
    w->made[run] = arena_array(w->perm, uint32_t, r->out.n);
    for (uint32_t i = 0; i < r->node.n; i++)
        write_node(w, run, r->node.at[i]);
    for (uint32_t i = 0; i < r->out.n; i++) {
        w->made[run][i] = w->local[r->out.at[i]];
        vec_push(w->perm, &w->stored[index], w->made[run][i]);
    }
}

// Slots are read before anything runs, whoever asks first.
static void write_reads(Writing *w) {
    const Graph *g = &w->base->func->g;
    for (uint32_t id = 1; id < g->node.n; id++)
        if (graph_node(g, id)->op == OpRead && !out_of(w, id))
            w->first[id] = copy_node(w, id, NULL);
}

static void write_section(Writing *w, const Lives *lives, const Section *section) {
    const Plan *p = w->base;
    for (uint32_t l = section->first; l < section->first + section->n; l++) {
        const uint32_t *region = &p->merge.at[p->launch.at[l].first];
        const RunList *before = &w->runs->before[lives->time[region[0]]];
        for (uint32_t i = 0; i < before->n; i++)
            write_run(w, before->at[i]);
        for (uint32_t k = 0; k < p->launch.at[l].instances; k++)
            write_run(w, region[k]);
    }
}

// What the executor sees of a block that is no region's, and gradients that only have a name.
static void write_roots(Writing *w, const NodeList *roots) {
    for (uint32_t i = 0; i < roots->n; i++)
        if (!out_of(w, roots->at[i]))
            write_node(w, NONE, roots->at[i]);
}

// [block] Its roots (func_roots).
static NodeList *roots_by_block(Arena *a, const Func *f) {
    const uint8_t *root = func_roots(a, f);
    NodeList *roots = arena_array(a, NodeList, f->blocks);
    for (uint32_t id = 1; id < f->g.node.n; id++)
        if (root[id])
            vec_push(a, &roots[graph_node(&f->g, id)->block], id);
    return roots;
}

// Blocks in the order of the tape, each with its tail, as in a plan run from end to end.
static void write_graph(Writing *w, const Lives *lives) {
    const Plan *p = w->base;
    const NodeList *roots = roots_by_block(w->perm, p->func);
    const uint32_t *order = plan_sections(w->perm, p);
    write_reads(w);
    for (uint32_t b = 0, i = 0; b < p->func->blocks; b++) {
        for (; i < p->section.n && p->section.at[order[i]].block == b; i++)
            write_section(w, lives, &p->section.at[order[i]]);
        write_roots(w, &roots[b]);
    }
    for (uint32_t r = 0; r < p->region.n; r++)
        for (uint32_t i = 0; i < p->region.at[r].out.n; i++)
            w->first[p->region.at[r].out.at[i]] = w->made[r][i];
}

// A copy of an array that belongs to the function, so that it can be given other numbers.
#define COPY_VEC(a, v)                                                                             \
    do {                                                                                           \
        uint32_t n = (v)->n;                                                                       \
        void *was = (v)->at;                                                                       \
        (v)->at = arena_alloc((a), n * sizeof *(v)->at + 1, _Alignof(max_align_t));                \
        (v)->cap = n;                                                                              \
        if (n)                                                                                     \
            memcpy((v)->at, was, n * sizeof *(v)->at);                                             \
    } while (0)

static void copy_func(Arena *perm, const Func *from, Func *to) {
    *to = *from;
    COPY_VEC(perm, &to->tape);
    COPY_VEC(perm, &to->effect);
    COPY_VEC(perm, &to->update);
    COPY_VEC(perm, &to->report);
    COPY_VEC(perm, &to->result);
    for (uint32_t i = 0; i < to->update.n; i++) {
        COPY_VEC(perm, &to->update.at[i].grad);
        COPY_VEC(perm, &to->update.at[i].inner);
    }
}

static void add_launch(Writing *w, Plan *p, const uint32_t *run, uint32_t n) {
    vec_push(w->perm, &p->launch, ((Launch){w->number[run[0]], n, p->merge.n}));
    for (uint32_t i = 0; i < n; i++)
        vec_push(w->perm, &p->merge, w->number[run[i]]);
}

static void add_section(Writing *w, const Lives *lives, Section *section, Plan *p) {
    const Plan *base = w->base;
    Section from = *section;
    section->first = p->launch.n;
    for (uint32_t l = from.first; l < from.first + from.n; l++) {
        const uint32_t *region = &base->merge.at[base->launch.at[l].first];
        const RunList *before = &w->runs->before[lives->time[region[0]]];
        for (uint32_t i = 0; i < before->n; i++)
            add_launch(w, p, &before->at[i], 1);
        add_launch(w, p, region, base->launch.at[l].instances);
    }
    section->n = p->launch.n - section->first;
}

static void add_launches(Writing *w, const Lives *lives, Plan *p) {
    const Plan *base = w->base;
    for (uint32_t s = 0; s < base->section.n; s++)
        vec_push(w->perm, &p->section, base->section.at[s]);
    for (uint32_t t = 0; t < base->tail.n; t++)
        vec_push(w->perm, &p->tail, base->tail.at[t]);
    const uint32_t *order = plan_sections(w->perm, base);
    for (uint32_t i = 0; i < base->section.n; i++)
        add_section(w, lives, &p->section.at[order[i]], p);
}

void runs_plan(Arena *perm, const PassOptions *o, const Plan *base, const Lives *lives,
               const Runs *runs, Func *func, Plan *out) {
    const Graph *g = &base->func->g;
    Refusal wrong = {0};
    copy_func(perm, base->func, func);
    graph_init(&func->g, perm, g->batch);
    func->g.next_unique = g->next_unique;
    Writing w = {.perm = perm, .base = base, .runs = runs, .to = {.g = &func->g, .raw = true}};
    w.made = arena_array(perm, uint32_t *, runs->run.n);
    w.local = arena_array(perm, uint32_t, g->node.n);
    w.stamp = arena_array(perm, uint32_t, g->node.n);
    w.first = arena_array(perm, uint32_t, g->node.n);
    w.number = arena_array(perm, uint32_t, runs->run.n);
    w.stored = arena_array(perm, NodeList, runs->run.n);
    memset(w.number, 0xff, runs->run.n * sizeof *w.number);
    write_graph(&w, lives);
    func_renumber(func, w.first);
    *out = (Plan){.module = base->module, .func = func, .real = base->real};
    if (!regions_restore(perm, o, w.stored, w.regions, out, &wrong))
        bug("remat: region %u: %.*s", wrong.region, SARG(wrong.why));
    add_launches(&w, lives, out);
    if (!schedule_restore(perm, o, out, &wrong))
        bug("remat: region %u: %.*s", wrong.region, SARG(wrong.why));
    memory_plan(o, out);
    plan_check(o, out, "rematerialization", memory_verify);
    collectives_place(perm, out);
    out->gflop = func_gflop(func);
    out->gflop_model = base->gflop_model;
}
