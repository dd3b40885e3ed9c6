// sim_bound.c - a lower bound of the exposed communication of a step, over all orders of its
// launches.
//
// In: a plan, the times of its launches, a link. Out: seconds. For every launch the earliest time
// it can begin is computed from its dependencies, and from these the least time that one core and
// one link take.
#include "sim.h"

#include <math.h>
#include <string.h>

// A launch that computes, or a value that travels.
typedef struct Work {
    double from, to; // it begins and is done no earlier than this
    double takes;    // of its core or wire
    bool travels;
} Work;

typedef struct Bound {
    Arena *a;
    const Plan *p;
    const SimLink *link;
    VEC(Work) work;    // in an order in which they could be done; [0] is none
    uint32_t *by_from; // [work] sorted, the latest first
    uint32_t words;    // of a set of work
    uint64_t *needs;   // [work][words] what it depends on
    uint32_t *made;    // [node] the work that made its value last, 0: it was there before
    uint32_t *written; // [slot] the same
    uint64_t *readers; // [slot][words] that have read it since
} Bound;

static uint64_t *set_of(const Bound *b, uint64_t *sets, uint32_t i) {
    return sets + (size_t)i * b->words;
}

static void set_add(uint64_t *set, uint32_t i) {
    set[i / 64] |= (uint64_t)1 << i % 64;
}

static void depend(Bound *b, uint32_t w, uint32_t on) {
    if (!on || on == w)
        return;
    uint64_t *mine = set_of(b, b->needs, w), *theirs = set_of(b, b->needs, on);
    for (uint32_t i = 0; i < b->words; i++)
        mine[i] |= theirs[i];
    set_add(mine, on);
    b->work.at[w].from = fmax(b->work.at[w].from, b->work.at[on].to);
}

// When all that is in `set` is done, if each begins no earlier than it can.
static double set_done(const Bound *b, const uint64_t *set) {
    double sum[2] = {0}, most = 0;
    for (uint32_t i = 0; i + 1 < b->work.n; i++) {
        uint32_t w = b->by_from[i];
        if (!(set[w / 64] >> w % 64 & 1))
            continue;
        const Work *x = &b->work.at[w];
        sum[x->travels] += x->takes;
        most =
            fmax(most, x->from + sum[x->travels] + (x->travels ? sim_sum_seconds(b->link, 0) : 0));
    }
    return most;
}

// What the newest work depends on is known: so is when it can begin.
static void settle(Bound *b) {
    uint32_t w = b->work.n - 1, at = w - 1;
    Work *x = &b->work.at[w];
    x->from = fmax(x->from, set_done(b, set_of(b, b->needs, w)));
    x->to = x->from + x->takes + (x->travels ? sim_sum_seconds(b->link, 0) : 0);
    for (; at > 0 && b->work.at[b->by_from[at - 1]].from < x->from; at--)
        b->by_from[at] = b->by_from[at - 1];
    b->by_from[at] = w;
}

static uint32_t slot_of(const Bound *b, uint32_t node) {
    return (uint32_t)node_attr(&b->p->func->g, node)->i[0];
}

static bool is_slot(const Bound *b, uint32_t node, Op op) {
    return graph_node(&b->p->func->g, node)->op == op;
}

static void read_value(Bound *b, uint32_t w, uint32_t node) {
    if (is_slot(b, node, OpRead) && b->p->region_of[node] == NONE) {
        depend(b, w, b->written[slot_of(b, node)]);
        set_add(set_of(b, b->readers, slot_of(b, node)), w);
    } else {
        depend(b, w, b->made[node]);
    }
}

static void write_slot(Bound *b, uint32_t w, uint32_t slot) {
    uint64_t *readers = set_of(b, b->readers, slot);
    depend(b, w, b->written[slot]);
    for (uint32_t i = 1; i < w; i++)
        if (readers[i / 64] >> i % 64 & 1)
            depend(b, w, i);
}

static void add_compute(Bound *b, const TimedLaunch *m) {
    const Launch *l = &b->p->launch.at[m->launch];
    uint32_t w = b->work.n;
    vec_push(b->a, &b->work, ((Work){.takes = m->seconds}));
    for (uint32_t k = 0; k < l->instances; k++) {
        const Region *r = &b->p->region.at[b->p->merge.at[l->first + k]];
        for (uint32_t i = 0; i < r->in.n; i++)
            read_value(b, w, r->in.at[i]);
        for (uint32_t i = 0; i < r->out.n; i++)
            if (is_slot(b, r->out.at[i], OpWrite))
                write_slot(b, w, slot_of(b, r->out.at[i]));
        if (r->kind == RegionCopy)
            depend(b, w, b->written[slot_of(b, r->node.at[0])]);
    }
    settle(b);
    for (uint32_t k = 0; k < l->instances; k++) {
        const Region *r = &b->p->region.at[b->p->merge.at[l->first + k]];
        for (uint32_t i = 0; i < r->out.n; i++) {
            b->made[r->out.at[i]] = w;
            if (!is_slot(b, r->out.at[i], OpWrite))
                continue;
            b->written[slot_of(b, r->out.at[i])] = w;
            memset(set_of(b, b->readers, slot_of(b, r->out.at[i])), 0, b->words * sizeof *b->needs);
        }
        if (r->kind == RegionCopy)
            set_add(set_of(b, b->readers, slot_of(b, r->node.at[0])), w);
    }
}

static void add_parts(Bound *b, const Collective *c) {
    for (uint32_t i = 0; i < c->part.n; i++) {
        const CallPart *part = &c->part.at[i];
        uint32_t w = b->work.n, source = node_in(&b->p->func->g, part->start, 0);
        double takes = sim_sum_seconds(b->link, part->bytes) - sim_sum_seconds(b->link, 0);
        vec_push(b->a, &b->work, ((Work){.takes = takes, .travels = true}));
        depend(b, w, b->made[b->p->place[source].owner]);
        settle(b);
        b->made[part->wait] = w;
    }
}

static const Section *section_of(const Plan *p, uint32_t launch) {
    const Section *s = p->section.at;
    while (launch - s->first >= s->n)
        s++;
    return s;
}

// Marks the launches of a step that the step before has left: of tails whose blocks have not run.
static uint8_t *find_carried(Arena *a, const Plan *p, const Timeline *m, uint32_t step) {
    uint8_t *carried = arena_array(a, uint8_t, m->n),
            *ran = arena_array(a, uint8_t, p->func->blocks);
    for (uint32_t i = 0; i < m->n; i++) {
        if (m->at[i].step != step)
            continue;
        const Section *s = section_of(p, m->at[i].launch);
        carried[i] = s->kind == SectionTail && !ran[s->block];
        ran[s->block] |= s->kind != SectionTail;
    }
    return carried;
}

static double bound_of(Arena scratch, const Plan *p, const Timeline *m, uint32_t step,
                       const SimLink *link) {
    uint32_t works = 1;
    double sum = 0;
    for (uint32_t i = 0; i < m->n; i++)
        works += m->at[i].kind == RegionStart ? p->collective.at[m->at[i].call].part.n : 1;
    Bound b = {.a = &scratch, .p = p, .link = link, .words = works / 64 + 1};
    b.by_from = arena_array(&scratch, uint32_t, works);
    b.needs = arena_array(&scratch, uint64_t, (size_t)works * b.words);
    b.made = arena_array(&scratch, uint32_t, p->func->g.node.n);
    b.written = arena_array(&scratch, uint32_t, p->module->slot.n);
    b.readers = arena_array(&scratch, uint64_t, (size_t)p->module->slot.n * b.words);
    vec_push(&scratch, &b.work, (Work){0});
    const uint8_t *carried = find_carried(&scratch, p, m, step);
    for (int last = 0; last < 2; last++) { // what is left to the next step, at the end of its own
        for (uint32_t i = 0; i < m->n; i++) {
            const TimedLaunch *x = &m->at[i];
            if (x->step != step || carried[i] != last)
                continue;
            if (x->kind == RegionStart)
                add_parts(&b, &p->collective.at[x->call]);
            else if (x->kind != RegionWait)
                add_compute(&b, x), sum += x->seconds;
        }
    }
    uint64_t *all = arena_array(&scratch, uint64_t, b.words);
    memset(all, 0xff, b.words * sizeof *all);
    return fmax(set_done(&b, all) - sum, 0);
}

double sim_bound(Arena scratch, const Plan *p, const Timeline *m, const SimLink *link) {
    double sum = 0;
    for (uint32_t step = 0; step < m->steps; step++)
        sum += bound_of(scratch, p, m, step, link);
    return sum / m->steps;
}
