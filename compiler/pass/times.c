// times.c - static estimates of when each value of a step is ready.
//
// In: the global graph, its sums over the ranks. Out: seconds of a collective and of a node, and
// for each node its earliest finish (critical path: as if there were a core for each chain). A step
// that may defer its end to the next (program.h, Tail) gets some weights late: the deferred
// collectives overlap with the next step, and what depends on them starts when they have arrived.
#include "shard.h"

#include <string.h>

static const double DefaultLatency = 20e-6, DefaultBandwidth = 1.25e9; // 10 Gbit/s
static const double CoreFlops = 2e11;                                  // products, of a fast core
static const double CoreBandwidth = 2e10; // bytes of loops, of a core or two

// --- the link, a core ----------------------------------------------------------------------------

static double latency_of(const Parallel *o) {
    return o->latency > 0 ? o->latency : DefaultLatency;
}

static double bandwidth_of(const Parallel *o) {
    return o->bandwidth > 0 ? o->bandwidth : DefaultBandwidth;
}

size_t link_bytes(const Parallel *o) {
    return (size_t)(latency_of(o) * bandwidth_of(o));
}

double call_seconds(const Parallel *o, size_t bytes) {
    return latency_of(o) + (double)bytes / bandwidth_of(o);
}

double gflop_seconds(double gflop) {
    return gflop * 1e9 / CoreFlops;
}

double product_seconds(const Graph *g, uint32_t node) {
    return gflop_seconds(node_gflop(g, node));
}

double loop_seconds(double bytes) {
    return bytes / CoreBandwidth;
}

// --- a step --------------------------------------------------------------------------------------

typedef struct Step {
    Arena *a;
    const Func *f;
    const uint8_t *live;
    const SumVec *sums;
    const Parallel *o;
    uint8_t *is_sum, *is_grad; // [node]
    uint32_t *like;            // [node] SumOf.like
    uint32_t *release;         // [node] of a slot's new value: when it is there, in TICKs
    uint8_t *deferrable;       // [node] may be deferred to the next step
} Step;

static double own_seconds(const Step *s, uint32_t node) {
    return product_seconds(&s->f->g, node) / (s->o->ranks > 1 ? s->o->ranks : 1);
}

static uint32_t *earliest(const Step *s) {
    const Graph *g = &s->f->g;
    uint32_t *time = arena_array(s->a, uint32_t, g->node.n);
    for (uint32_t id = 1; id < g->node.n; id++) {
        uint32_t begin = s->release[id];
        for (uint32_t k = 0; s->live[id] && k < graph_node(g, id)->nin; k++) {
            uint32_t before = time[node_in(g, id, k)];
            begin = before > begin ? before : begin;
        }
        time[id] = begin + 1 + (uint32_t)(own_seconds(s, id) / TIMES_TICK);
        time[id] = s->like[id] ? time[s->like[id]] : time[id];
    }
    return time;
}

// What the step may leave to the next, as tail.c finds it among regions: nothing follows from it
// but writes, with no sum between.
static void find_deferrable(Step *s) {
    const Func *f = s->f;
    const Graph *g = &f->g;
    ObservedVec seen = {0};
    s->deferrable = arena_array(s->a, uint8_t, g->node.n);
    memset(s->deferrable, 1, g->node.n);
    func_observed(s->a, f, false, &seen);
    for (uint32_t i = 0; i < seen.n; i++)
        s->deferrable[seen.at[i].node] = 0;
    for (uint32_t id = g->node.n; id-- > 1;) {
        for (uint32_t k = 0; s->live[id] && k < graph_node(g, id)->nin; k++) {
            uint32_t in = node_in(g, id, k);
            bool here = graph_node(g, in)->block == graph_node(g, id)->block;
            s->deferrable[in] &= s->deferrable[id] && !s->is_sum[id] && here;
        }
    }
}

// The block whose gradients may be deferred; NONE: there are none.
static uint32_t block_left(const Step *s) {
    uint32_t block = NONE;
    for (uint32_t i = 0; i < s->sums->n; i++) {
        uint32_t node = s->sums->at[i].node;
        if (s->is_grad[node] && s->deferrable[node])
            block = graph_node(&s->f->g, node)->block;
    }
    return block;
}

// Of the gradients of a block the first that is final after `t`, NONE; those of one time by number.
static uint32_t next_final(const Step *s, const uint32_t *time, uint32_t block, uint32_t after) {
    uint32_t best = NONE;
    for (uint32_t i = 0; i < s->sums->n; i++) {
        uint32_t node = s->sums->at[i].node;
        bool here = s->is_grad[node] && graph_node(&s->f->g, node)->block == block;
        bool later = after == NONE || time[node] > time[after] ||
                     (time[node] == time[after] && node > after);
        if (here && later && (best == NONE || time[node] < time[best]))
            best = node;
    }
    return best;
}

static size_t bytes_of(const Step *s, uint32_t node) {
    for (uint32_t i = 0; i < s->sums->n; i++)
        if (s->sums->at[i].node == node)
            return s->sums->at[i].bytes;
    return 0;
}

// When each deferred sum is there, in TICKs from the next step's beginning: on one wire, in the
// order in which they are final, beside the work of their block on one core.
static uint32_t *find_arrivals(const Step *s) {
    const Graph *g = &s->f->g;
    const uint32_t *time = earliest(s);
    uint32_t *there = arena_array(s->a, uint32_t, g->node.n), last = 0, block = block_left(s);
    double work = 0, wire = 0;
    for (uint32_t id = 1; id < g->node.n; id++) {
        bool here = s->live[id] && graph_node(g, id)->block == block;
        work += here ? own_seconds(s, id) : 0;
        last = here && time[id] > last ? time[id] : last;
    }
    // the core has all to do, not the longest chain
    double stretch = last * TIMES_TICK < work ? work / (last * TIMES_TICK) : 1;
    for (uint32_t n = NONE; block != NONE && (n = next_final(s, time, block, n)) != NONE;) {
        double ready = time[n] * TIMES_TICK * stretch;
        wire = (ready > wire ? ready : wire) + (double)bytes_of(s, n) / bandwidth_of(s->o);
        if (s->deferrable[n] && wire > work)
            there[n] = (uint32_t)((wire - work) / TIMES_TICK);
    }
    return there;
}

// Marks what waits for the step before in the first block with a sum; others wait for all of it.
static void find_late(Step *s, uint8_t *late) {
    const Func *f = s->f;
    const Graph *g = &f->g;
    uint32_t *there = find_arrivals(s), block = NONE;
    for (uint32_t i = 0; i < f->tape.n && block == NONE; i++)
        for (uint32_t k = 0; k < s->sums->n && f->tape.at[i].kind == CtlBlock; k++)
            if (graph_node(g, s->sums->at[k].node)->block == f->tape.at[i].arg)
                block = f->tape.at[i].arg;
    for (uint32_t id = 1; id < g->node.n; id++)
        for (uint32_t k = 0; s->live[id] && s->deferrable[id] && k < graph_node(g, id)->nin; k++) {
            uint32_t before = there[node_in(g, id, k)];
            there[id] = before > there[id] ? before : there[id];
        }
    for (uint32_t id = 1; id < g->node.n; id++) {
        if (graph_node(g, id)->block != block)
            continue;
        for (uint32_t i = 0; graph_node(g, id)->op == OpRead && i < f->effect.n; i++) {
            uint32_t write = f->effect.at[i], at = there[node_in(g, write, 0)];
            if (node_slot(g, write) == node_slot(g, id) && at > s->release[id])
                s->release[id] = at;
        }
        late[id] = s->release[id] > 0;
        for (uint32_t k = 0; s->live[id] && k < graph_node(g, id)->nin; k++)
            late[id] |= late[node_in(g, id, k)];
    }
}

Times times_find(Arena *a, const Func *f, const uint8_t *live, const SumVec *sums,
                 const Parallel *o, bool leaves) {
    uint32_t nodes = f->g.node.n;
    uint8_t *late = arena_array(a, uint8_t, nodes);
    Step s = {.a = a, .f = f, .live = live, .sums = sums, .o = o};
    s.is_sum = arena_array(a, uint8_t, nodes);
    s.is_grad = arena_array(a, uint8_t, nodes);
    s.like = arena_array(a, uint32_t, nodes);
    s.release = arena_array(a, uint32_t, nodes);
    for (uint32_t i = 0; i < sums->n; i++) {
        s.is_sum[sums->at[i].node] = 1;
        s.like[sums->at[i].node] = sums->at[i].like;
    }
    for (uint32_t u = 0; u < f->update.n; u++)
        for (uint32_t k = 0; k < f->update.at[u].grad.n; k++)
            s.is_grad[f->update.at[u].grad.at[k].node] = 1;
    if (leaves) {
        find_deferrable(&s);
        find_late(&s, late);
    }
    return (Times){earliest(&s), late};
}
