// sim.c - a step on a time line: measured, played against a link, replayed, and its bound.
//
// In: a model that runs, or the moments of one. Out: the order of launches, starts and waits with
// the time each launch takes; what that order takes on a link; how little any order could.
#define _GNU_SOURCE
#include "sim.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>

// --- measured ------------------------------------------------------------------------------------

typedef struct Profile {
    Arena *perm;
    const Plan *plan;
    double began;
    Moments moment; // of all profiled steps, one after the other
} Profile;

static GanStatus on_launch(void *user, Exec *e, uint32_t launch, bool done, const Counters *c) {
    (void)e, (void)c;
    Profile *p = user;
    if (!done) {
        p->began = time_now();
        return GAN_OK;
    }
    const Region *r = &p->plan->region.at[p->plan->merge.at[p->plan->launch.at[launch].first]];
    Moment m = {
        .kind = r->kind, .launch = launch, .call = r->call, .seconds = time_now() - p->began};
    if (r->kind == RegionStart)
        m.bytes = p->plan->collective.at[r->call].bytes;
    vec_push(p->perm, &p->moment, m);
    return GAN_OK;
}

static void medians(Arena *perm, const Moments *all, uint32_t steps, Moments *out) {
    uint32_t one = all->n / steps;
    bool alike = all->n % steps == 0;
    double *seconds = arena_array(perm, double, steps);
    for (uint32_t i = 0; i < one; i++) {
        Moment m = all->at[all->n - one + i];
        for (uint32_t k = 0; alike && k < steps; k++) {
            alike = all->at[k * one + i].launch == m.launch;
            seconds[k] = all->at[k * one + i].seconds;
        }
        if (alike) {
            qsort(seconds, steps, sizeof *seconds, by_double);
            m.seconds = seconds[steps / 2];
        }
        vec_push(perm, out, m);
    }
}

GanStatus sim_profile(Arena *perm, Exec *e, Comm *c, uint32_t steps, Moments *out) {
    Profile p = {.perm = perm, .plan = exec_step_plan(e)};
    ExecHooks hooks = {.launch = on_launch, .user = &p};
    *out = (Moments){0};
    if (!exec_launches(e))
        return fail(GAN_ERR_USAGE, "this device does not run launches one by one: use cpu");
    comm_mute(c, true);
    GanStatus st = GAN_OK;
    for (uint32_t i = 0; st == GAN_OK && i <= steps; i++) { // the first warms up
        Counters at = {.step = i};
        p.moment.n = i == 1 ? 0 : p.moment.n;
        st = exec_step(e, &at, &hooks);
    }
    if (st == GAN_OK)
        st = exec_finish(e);
    comm_mute(c, false);
    medians(perm, &p.moment, steps, out);
    return st;
}

GanStatus sim_gather(Arena *perm, Comm *c, const Moments *mine, const Moments **out) {
    int ranks = comm_size(c);
    Moments *all = arena_array(perm, Moments, ranks);
    uint32_t *n = arena_array(perm, uint32_t, ranks), most = 0;
    TRY(comm_gather(c, &mine->n, sizeof mine->n, n));
    for (int r = 0; r < ranks; r++)
        most = n[r] > most ? n[r] : most;
    Moment *own = arena_array(perm, Moment, most),
           *at = arena_array(perm, Moment, (size_t)ranks * most);
    for (uint32_t i = 0; i < mine->n; i++)
        own[i] = mine->at[i];
    TRY(comm_gather(c, own, most * sizeof *own, at));
    for (int r = 0; r < ranks; r++)
        all[r] = (Moments){.at = at + (size_t)r * most, .n = n[r]};
    *out = all;
    return GAN_OK;
}

GanStatus sim_even(Arena *perm, Comm *c, Moments *m) {
    const Moments *all;
    int ranks = comm_size(c);
    TRY(sim_gather(perm, c, m, &all));
    for (int r = 0; r < ranks; r++) {
        bool alike = all[r].n == m->n;
        for (uint32_t i = 0; alike && i < m->n; i++)
            alike = all[r].at[i].launch == m->at[i].launch;
        if (!alike)
            return GAN_OK;
    }
    for (uint32_t i = 0; i < m->n; i++) {
        m->at[i].seconds = 0;
        for (int r = 0; r < ranks; r++)
            m->at[i].seconds += all[r].at[i].seconds / ranks;
    }
    return GAN_OK;
}

// --- replayed ------------------------------------------------------------------------------------

static void sleep_until(double t) {
    struct timespec at = {.tv_sec = (time_t)t, .tv_nsec = (long)((t - (double)(time_t)t) * 1e9)};
    while (time_now() < t)
        clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL);
}

GanStatus sim_replay(Exec *e, const Moments *m, const Counters *c) {
    double due = time_now(); // what has been slept too long is taken from the next
    prctl(PR_SET_TIMERSLACK, 1UL);
    for (uint32_t i = 0; i < m->n; i++) {
        const Moment *x = &m->at[i];
        if (x->kind != RegionStart && x->kind != RegionWait) {
            due += x->seconds;
            continue;
        }
        sleep_until(due);
        double came = time_now();
        TRY(exec_launch(e, x->launch, c));
        due = x->kind == RegionStart ? due + x->seconds : fmax(due, due + time_now() - came);
    }
    sleep_until(due);
    return GAN_OK;
}

GanStatus sim_settle(Exec *e) {
    const Plan *p = exec_step_plan(e);
    BlockPlan tail = p->tail.section ? p->block.at[p->tail.section] : (BlockPlan){0};
    for (uint32_t l = tail.first; l < tail.first + tail.n; l++)
        if (p->region.at[p->launch.at[l].region].kind == RegionWait)
            TRY(exec_launch(e, l, &(Counters){0}));
    return GAN_OK;
}

// --- played --------------------------------------------------------------------------------------

static double model_seconds(LinkModel m, double latencies, size_t bytes) {
    double latency = bytes <= COMM_SMALL ? m.small : m.latency;
    return m.bandwidth > 0 ? latencies * latency + (double)bytes / m.bandwidth : 0;
}

static double sum_seconds(const SimLink *link, size_t bytes) {
    double r = (double)link->ranks, often = 2 * (r - 1) / r; // a byte travels
    if (link->ranks == 1)
        return 0;
    LinkModel scaled = link->scaled;
    scaled.bandwidth /= often;
    return fmax(model_seconds(link->each, 1, bytes), model_seconds(scaled, ceil(log2(r)), bytes));
}

// What the thread that carries a large sum takes from those that compute, where they fill the
// cores.
static double core_seconds(const SimLink *link, size_t bytes) {
    return bytes <= COMM_SMALL ? 0 : link->each.core + (double)bytes * link->each.byte;
}

enum { SETTLED = 4 }; // steps until one is like the next: a tail waits for the step before

typedef struct Player { // one rank
    const Moments *m;
    uint32_t next;              // moment, counted through all steps
    double now, began, exposed; // the last two: of the last step
    double owed; // to the communicator's thread: taken from what is computed, or waited, next
} Player;

static void play_wait(Player *p, double until) {
    double waits = fmax(until - p->now, 0);
    p->exposed += waits;
    p->now += waits;
    p->owed = fmax(p->owed - waits, 0);
}

// Goes on to the next start, which it has then come to; false at the end of the last step. `done`:
// [call] when the last call of this number was there.
static bool play_to_start(Player *p, const double *done, const Moment **start) {
    for (; p->next < SETTLED * p->m->n; p->next++) {
        const Moment *x = &p->m->at[p->next % p->m->n];
        if (p->next == (SETTLED - 1) * p->m->n) {
            p->began = p->now;
            p->exposed = 0;
        }
        if (x->kind == RegionWait) {
            play_wait(p, done[x->call]);
            continue;
        }
        p->now += x->seconds; // of a start: parts that are not in place are copied
        if (x->kind != RegionStart) {
            p->now += p->owed;
            p->owed = 0;
        }
        if (x->kind == RegionStart) {
            p->next++;
            *start = x;
            return true;
        }
    }
    return false;
}

static uint32_t calls_of(const Moments *m) {
    uint32_t calls = 0;
    for (uint32_t i = 0; i < m->n; i++)
        if (m->at[i].kind == RegionStart && m->at[i].call >= calls)
            calls = m->at[i].call + 1;
    return calls;
}

SimTimes sim_play(const Moments *m, uint32_t n, const SimLink *link) {
    SimTimes out = {0};
    Player *p = mem_alloc(n * sizeof *p);
    double *done = mem_alloc((calls_of(&m[0]) + 1) * sizeof *done), free[2] = {0}; // lanes
    if (!p || !done)
        bug("no memory for the time lines of %u ranks", n);
    for (uint32_t r = 0; r < n; r++)
        p[r] = (Player){.m = &m[r]};
    for (bool more = true; more;) {
        const Moment *start = NULL;
        double ready = 0;
        for (uint32_t r = 0; r < n; r++) { // every rank has the same starts in the same order
            more = play_to_start(&p[r], done, &start);
            ready = fmax(ready, p[r].now);
        }
        if (more) {
            double takes = sum_seconds(link, start->bytes);
            int lane = start->bytes <= COMM_SMALL;
            free[lane] = fmax(free[lane], ready) + takes;
            for (uint32_t r = 0; r < n; r++)
                p[r].owed += core_seconds(link, start->bytes);
            done[start->call] = free[lane];
            for (uint32_t r = 0; r < n && link->waits; r++)
                play_wait(&p[r], free[lane]);
            out.comm += takes / SETTLED;
        }
    }
    for (uint32_t r = 0; r < n; r++) {
        out.step += (p[r].now - p[r].began) / n;
        out.exposed += p[r].exposed / n;
    }
    mem_free(p);
    mem_free(done);
    return out;
}

// --- the bound -----------------------------------------------------------------------------------

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
        most = fmax(most, x->from + sum[x->travels] + (x->travels ? sum_seconds(b->link, 0) : 0));
    }
    return most;
}

// What the newest work depends on is known: so is when it can begin.
static void settle(Bound *b) {
    uint32_t w = b->work.n - 1, at = w - 1;
    Work *x = &b->work.at[w];
    x->from = fmax(x->from, set_done(b, set_of(b, b->needs, w)));
    x->to = x->from + x->takes + (x->travels ? sum_seconds(b->link, 0) : 0);
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

static void add_compute(Bound *b, const Moment *m) {
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
        double takes = sum_seconds(b->link, part->bytes) - sum_seconds(b->link, 0);
        vec_push(b->a, &b->work, ((Work){.takes = takes, .travels = true}));
        depend(b, w, b->made[b->p->place[source].owner]);
        settle(b);
        b->made[part->wait] = w;
    }
}

static bool in_tail(const Plan *p, uint32_t launch) {
    return p->tail.section && launch >= p->block.at[p->tail.section].first;
}

double sim_bound(const Plan *p, const Moments *m, const SimLink *link) {
    Arena scratch;
    uint32_t works = 1;
    double sum = 0;
    if (arena_init(&scratch, 0) != GAN_OK)
        bug("%s", gan_error());
    for (uint32_t i = 0; i < m->n; i++)
        works += m->at[i].kind == RegionStart ? p->collective.at[m->at[i].call].part.n : 1;
    Bound b = {.a = &scratch, .p = p, .link = link, .words = works / 64 + 1};
    b.by_from = arena_array(&scratch, uint32_t, works);
    b.needs = arena_array(&scratch, uint64_t, (size_t)works * b.words);
    b.made = arena_array(&scratch, uint32_t, p->func->g.node.n);
    b.written = arena_array(&scratch, uint32_t, p->module->slot.n);
    b.readers = arena_array(&scratch, uint64_t, (size_t)p->module->slot.n * b.words);
    vec_push(&scratch, &b.work, (Work){0});
    for (int tail = 0; tail < 2; tail++) { // at the end of its own step
        for (uint32_t i = 0; i < m->n; i++) {
            const Moment *x = &m->at[i];
            if (in_tail(p, x->launch) != tail)
                continue;
            if (x->kind == RegionStart)
                add_parts(&b, &p->collective.at[x->call]);
            else if (x->kind != RegionWait)
                add_compute(&b, x), sum += x->seconds;
        }
    }
    uint64_t *all = arena_array(&scratch, uint64_t, b.words);
    memset(all, 0xff, b.words * sizeof *all);
    double least = set_done(&b, all) - sum;
    arena_release(&scratch);
    return fmax(least, 0);
}
