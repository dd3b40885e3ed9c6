// remat.c - computing again what cannot be held.
//
// In: a placed plan that takes more work memory than it may. Out: a plan of the same values in
// which some regions run once more, in front of late readers, so that what they make need not lie
// idle until then (Chen et al., "Training deep nets with sublinear memory cost", 2016). The bits
// are the same: a region runs again whole, by the kernel it has, over the same inputs; draws are
// functions of counters; regions that write slots or meet other ranks never run again.
//
// Which: as XLA's pass and Kirisame et al. ("Dynamic tensor rematerialization", 2021) decide, the
// value that spares most for its time, again and again. What it spares is counted over all moments
// at which too much lives (bytes times moments), so that a value idle through every peak of a step
// goes before one that is idle in one of them; its time is that of all regions that must run for
// it, by the estimates of times.c. A small input is held longer instead. In the end each run that
// was added is left out where there is room after all to hold what an earlier one made.
#include "remat.h"

#include "buffer.h"

#include <stdlib.h>
#include <string.h>

enum {
    Small = 16,   // an input of such a part of a value's bytes is held for it
    Longest = 48, // regions that run again for one value, at most
    Tries = 384,  // regions looked at for that, those left out again too: else many are, many times
    Step = 8,     // the target comes down by such a part of it
    Rounds = 12,  // plans made, at most: places need a little more than what lives
};
static const double LaunchSeconds = 5e-6;

typedef struct Value {    // an output of a run
    uint32_t first, last; // moments
    int64_t bytes;        // 0: lies in a slot
    RunList use;          // runs that read it, in order
} Value;

typedef struct Remat {
    Arena *a;
    const Plan *p;
    Lives lives;
    Runs runs;
    VEC(Value *) value; // [run] of its outputs
    VEC(uint32_t) at;   // [run] its moment: a place in `order`
    RunList order;      // all runs
    RunList *beside;    // [launch] the regions it runs
    RunList *copies;    // [region] its runs
    int64_t *apart;     // [launch] bytes that live beside values; less than 0: some share a buffer
    uint8_t *fixed;     // [node] held from end to end: another block reads it, or the executor
    uint8_t *pure;      // [region] may run again
    uint8_t *barred;    // [node] was tried, and spared nothing
    uint32_t *until;    // [region] the launch that writes a slot it reads
    double *seconds;    // [region]
    int64_t target;     // bytes that may live at once
    VEC(int64_t) live;  // [moment]
    VEC(uint32_t) over; // [moment] moments up to it, not itself, at which too much lives
    double excess;      // bytes above the target, of all moments
} Remat;

static const Region *region_of(const Remat *z, uint32_t run) {
    return &z->p->region.at[z->runs.run.at[run].region];
}

// The value that a run reads as its k-th input; NULL: it lies in a slot.
static Value *input(const Remat *z, uint32_t run, uint32_t k) {
    uint32_t from = z->runs.run.at[run].from[k];
    uint32_t node = region_of(z, run)->in.at[k];
    return from == NONE ? NULL : &z->value.at[from][z->runs.out[node] - 1];
}

// --- what lives ----------------------------------------------------------------------------------

static void order_runs(Remat *z) {
    z->order.n = 0;
    for (uint32_t t = 0; t < z->lives.launches; t++) {
        const RunList *list[2] = {&z->runs.before[t], &z->beside[t]};
        for (uint32_t k = 0; k < 2; k++)
            for (uint32_t i = 0; i < list[k]->n; i++) {
                uint32_t run = list[k]->at[i];
                z->at.at[run] = k && i ? z->at.at[list[k]->at[0]] : z->order.n;
                if (!k || !i) // the regions of a launch share a moment
                    vec_push(z->a, &z->order, run);
            }
    }
}

// Runs of a moment: one that was added, or all of a launch.
static RunList runs_at(const Remat *z, uint32_t moment) {
    const Run *r = &z->runs.run.at[z->order.at[moment]];
    return r->again ? (RunList){&z->order.at[moment], 1, 1} : z->beside[r->launch];
}

// What is not a value's at a moment.
static int64_t apart_at(const Remat *z, uint32_t moment) {
    const Run *r = &z->runs.run.at[z->order.at[moment]];
    int64_t here = z->apart[r->launch];
    if (!r->again)
        return here;
    int64_t was = r->launch ? z->apart[r->launch - 1] : 0, least = was < here ? was : here;
    return least > 0 ? least : 0;
}

static void sum_up(Remat *z) {
    uint32_t n = z->order.n;
    int64_t now = 0;
    z->excess = 0;
    z->over.n = 0;
    for (uint32_t m = 0, over = 0; m < n; m++) {
        now += z->live.at[m];
        z->live.at[m] = now + apart_at(z, m);
        bool much = z->live.at[m] > z->target;
        vec_push(z->a, &z->over, over);
        over += much;
        z->excess += much ? (double)(z->live.at[m] - z->target) : 0;
        if (m + 1 == n)
            vec_push(z->a, &z->over, over);
    }
}

// Finds when values live and how much lives at each moment.
static void measure(Remat *z) {
    order_runs(z);
    z->live.n = 0;
    for (uint32_t m = 0; m <= z->order.n; m++)
        vec_push(z->a, &z->live, 0);
    for (uint32_t m = 0; m < z->order.n; m++) {
        RunList runs = runs_at(z, m);
        for (uint32_t i = 0; i < runs.n; i++) {
            const Region *r = region_of(z, runs.at[i]);
            for (uint32_t k = 0; k < r->out.n; k++) {
                Value *v = &z->value.at[runs.at[i]][k];
                v->first = m;
                v->last = v->use.n ? z->at.at[v->use.at[v->use.n - 1]] : m;
                if (z->fixed[r->out.at[k]])
                    continue; // counted apart
                z->live.at[v->first] += v->bytes;
                z->live.at[v->last + 1] -= v->bytes;
            }
        }
    }
    sum_up(z);
}

// Moments from..to, both included, at which too much lives.
static uint32_t over(const Remat *z, uint32_t from, uint32_t to) {
    return from > to ? 0 : z->over.at[to + 1] - z->over.at[from];
}

// --- what would run again ------------------------------------------------------------------------

// Regions to run in front of a run, in order, and what that costs.
typedef struct Chain {
    uint32_t region[Longest], n;
    uint32_t tries; // regions looked at
    double seconds;
    double lost; // bytes times moments at which too much lives
    uint32_t at; // moment of the run they come in front of
    uint32_t launch;
    int64_t bytes; // of the value it is about
} Chain;

static bool in_chain(const Chain *c, uint32_t region) {
    for (uint32_t i = 0; i < c->n; i++)
        if (c->region[i] == region)
            return true;
    return false;
}

// The run before moment `at` whose value of `node` lives longest.
static uint32_t longest(const Remat *z, uint32_t node, uint32_t at) {
    const RunList *runs = &z->copies[z->p->region_of[node]];
    uint32_t best = NONE, last = 0;
    for (uint32_t i = 0; i < runs->n; i++) {
        uint32_t run = runs->at[i], ends = z->value.at[run][z->runs.out[node] - 1].last;
        if (z->at.at[run] < at && (best == NONE || ends >= last)) {
            best = run;
            last = ends;
        }
    }
    return best;
}

static bool add_region(const Remat *z, Chain *c, uint32_t region);

static bool add_input(const Remat *z, Chain *c, uint32_t node) {
    uint32_t home = z->p->region_of[node];
    if (home == NONE || plan_in_slot(z->p, node) || in_chain(c, home))
        return true;
    uint32_t run = longest(z, node, c->at);
    if (run == NONE)
        return false;
    const Value *v = &z->value.at[run][z->runs.out[node] - 1];
    if (v->last >= c->at || z->fixed[node])
        return true;
    Chain was = *c;
    if (v->bytes * Small > c->bytes && z->pure[home] && add_region(z, c, home))
        return true;
    was.tries = c->tries;
    *c = was;
    c->lost += (double)v->bytes * over(z, v->last + 1, c->at);
    return true;
}

static bool add_region(const Remat *z, Chain *c, uint32_t region) {
    const Region *r = &z->p->region.at[region];
    if (c->n == Longest || c->tries == Tries || c->launch > z->until[region])
        return false;
    c->tries++;
    for (uint32_t k = 0; k < r->in.n; k++)
        if (!add_input(z, c, r->in.at[k]))
            return false;
    if (c->n == Longest)
        return false;
    for (uint32_t k = 0; k < r->out.n; k++)
        c->lost += (double)z->value.at[region][k].bytes * over(z, c->at, c->at);
    c->region[c->n++] = region;
    c->seconds += z->seconds[region];
    return true;
}

// A value that lies idle until `reader`, and what it would be to make it again.
typedef struct Choice {
    uint32_t run, out, reader;
    double score; // bytes times moments a second
} Choice;

// The last moment before `at` at which a value is used.
static uint32_t used_before(const Remat *z, const Value *v, uint32_t at) {
    uint32_t last = v->first;
    for (uint32_t i = 0; i < v->use.n && z->at.at[v->use.at[i]] < at; i++)
        last = z->at.at[v->use.at[i]];
    return last;
}

// All outputs of the run go until then, not only the one that was asked for.
static double spared(const Remat *z, uint32_t run, uint32_t at) {
    const Region *r = region_of(z, run);
    double sum = 0;
    for (uint32_t k = 0; k < r->out.n; k++) {
        const Value *v = &z->value.at[run][k];
        if (!z->fixed[r->out.at[k]] && v->last >= at)
            sum += (double)v->bytes * over(z, used_before(z, v, at) + 1, at - 1);
    }
    return sum;
}

static double weigh(const Remat *z, uint32_t run, uint32_t out, uint32_t reader, Chain *c) {
    uint32_t region = z->runs.run.at[run].region;
    *c = (Chain){.at = z->at.at[reader],
                 .launch = z->runs.run.at[reader].launch,
                 .bytes = z->value.at[run][out].bytes};
    double gain = spared(z, run, c->at);
    if (gain <= 0 || !add_region(z, c, region))
        return 0;
    return (gain - c->lost) / c->seconds;
}

static int by_score(const void *a, const void *b) {
    const Choice *x = a, *y = b;
    if (x->score != y->score)
        return x->score > y->score ? -1 : 1;
    if (x->run != y->run)
        return x->run < y->run ? -1 : 1;
    if (x->out != y->out)
        return x->out < y->out ? -1 : 1;
    return x->reader < y->reader ? -1 : x->reader > y->reader;
}

typedef VEC(Choice) ChoiceVec;

static void find_choices(Remat *z, ChoiceVec *out) {
    Chain c;
    for (uint32_t m = 0; m < z->order.n; m++) {
        RunList runs = runs_at(z, m);
        for (uint32_t i = 0; i < runs.n; i++) {
            const Region *r = region_of(z, runs.at[i]);
            for (uint32_t k = 0; k < r->out.n && z->pure[z->runs.run.at[runs.at[i]].region]; k++) {
                const Value *v = &z->value.at[runs.at[i]][k];
                uint32_t was = v->first;
                for (uint32_t u = 0; u < v->use.n && !z->fixed[r->out.at[k]]; u++) {
                    Choice choice = {runs.at[i], k, v->use.at[u], 0};
                    uint32_t at = z->at.at[choice.reader];
                    if (!z->barred[r->out.at[k]] && at && over(z, was + 1, at - 1))
                        choice.score = weigh(z, choice.run, k, choice.reader, &c);
                    if (choice.score > 0)
                        vec_push(z->a, out, choice);
                    was = at;
                }
            }
        }
    }
    if (out->n)
        qsort(out->at, out->n, sizeof *out->at, by_score);
}

// --- adding and leaving out runs -----------------------------------------------------------------

static uint32_t place_in(const RunList *list, uint32_t run) {
    uint32_t i = 0;
    while (i < list->n && list->at[i] != run)
        i++;
    return i;
}

static void list_insert(Arena *a, RunList *list, uint32_t at, uint32_t run) {
    vec_push(a, list, run);
    memmove(list->at + at + 1, list->at + at, (list->n - 1 - at) * sizeof *list->at);
    list->at[at] = run;
}

static void list_remove(RunList *list, uint32_t run) {
    uint32_t at = place_in(list, run);
    memmove(list->at + at, list->at + at + 1, (list->n - 1 - at) * sizeof *list->at);
    list->n--;
}

static uint32_t run_new(Remat *z, uint32_t region, uint32_t launch, bool again) {
    const Region *r = &z->p->region.at[region];
    uint32_t run = z->runs.run.n;
    Value *value = arena_array(z->a, Value, r->out.n);
    for (uint32_t i = 0; i < r->out.n; i++)
        value[i].bytes = (int64_t)z->lives.value[r->out.at[i]].bytes;
    vec_push(z->a, &z->runs.run,
             ((Run){region, launch, again, arena_array(z->a, uint32_t, r->in.n)}));
    vec_push(z->a, &z->value, value);
    vec_push(z->a, &z->at, 0);
    vec_push(z->a, &z->copies[region], run);
    return run;
}

static void use_add(Remat *z, RunList *use, uint32_t run) {
    uint32_t at = use->n;
    while (at && z->at.at[use->at[at - 1]] > z->at.at[run])
        at--;
    list_insert(z->a, use, at, run);
}

static void use_inputs(Remat *z, uint32_t run) {
    for (uint32_t k = 0; k < region_of(z, run)->in.n; k++) {
        Value *v = input(z, run, k);
        if (v)
            use_add(z, &v->use, run);
    }
}

// Readers of run `old` from moment `at` on read `now` instead.
static void redirect(Remat *z, uint32_t old, uint32_t now, uint32_t at) {
    const Region *r = region_of(z, old);
    for (uint32_t k = 0; k < r->out.n; k++) {
        RunList *use = &z->value.at[old][k].use;
        for (uint32_t u = z->fixed[r->out.at[k]] ? 0 : use->n; u-- > 0;) {
            uint32_t run = use->at[u];
            if (z->at.at[run] < at)
                break;
            const Region *reader = region_of(z, run);
            for (uint32_t i = 0; i < reader->in.n; i++)
                if (reader->in.at[i] == r->out.at[k])
                    z->runs.run.at[run].from[i] = now;
            use->n--;
            use_add(z, &z->value.at[now][k].use, run);
        }
    }
}

static void drop(Remat *z, uint32_t run) {
    const Run *r = &z->runs.run.at[run];
    for (uint32_t k = 0; k < region_of(z, run)->in.n; k++) {
        Value *v = input(z, run, k);
        if (v)
            list_remove(&v->use, run);
    }
    list_remove(&z->runs.before[r->launch], run);
    list_remove(&z->copies[r->region], run);
}

// Runs the chain's regions in front of the reader, and lets it and those behind it read of them.
static bool apply(Remat *z, const Choice *choice, const Chain *c) {
    uint32_t reader = choice->reader, made[Longest];
    RunList *before = &z->runs.before[c->launch];
    double was = z->excess;
    uint32_t at = z->runs.run.at[reader].again ? place_in(before, reader) : before->n;
    for (uint32_t i = 0; i < c->n; i++) {
        const Region *r = &z->p->region.at[c->region[i]];
        uint32_t *from = arena_array(z->a, uint32_t, r->in.n);
        for (uint32_t k = 0; k < r->in.n; k++) {
            uint32_t home = z->p->region_of[r->in.at[k]];
            from[k] = home == NONE || plan_in_slot(z->p, r->in.at[k])
                          ? NONE
                          : longest(z, r->in.at[k], c->at);
            for (uint32_t j = 0; j < i; j++)
                from[k] = c->region[j] == home ? made[j] : from[k];
        }
        made[i] = run_new(z, c->region[i], c->launch, true);
        z->at.at[made[i]] = UINT32_MAX; // none that longest() may find before it is measured
        z->runs.run.at[made[i]].from = from;
        list_insert(z->a, before, at + i, made[i]);
    }
    order_runs(z);
    for (uint32_t i = 0; i < c->n; i++)
        use_inputs(z, made[i]);
    redirect(z, choice->run, made[c->n - 1], z->at.at[reader]);
    measure(z);
    if (z->excess < was)
        return true;
    for (uint32_t k = 0; k < region_of(z, choice->run)->out.n; k++)
        z->barred[region_of(z, choice->run)->out.at[k]] = 1;
    redirect(z, made[c->n - 1], choice->run, 0);
    for (uint32_t i = 0; i < c->n; i++)
        drop(z, made[i]);
    measure(z);
    return false;
}

// Does the run still read that value of the choice's?
static bool still_reads(const Remat *z, const Choice *choice) {
    const Value *v = &z->value.at[choice->run][choice->out];
    for (uint32_t u = 0; u < v->use.n; u++)
        if (v->use.at[u] == choice->reader)
            return true;
    return false;
}

// One walk over all choices, the best first; those that have become much worse wait for the next.
static bool spare(Remat *z) {
    ChoiceVec choice = {0};
    bool done = false;
    find_choices(z, &choice);
    for (uint32_t i = 0; i < choice.n && z->excess > 0; i++) {
        Chain c;
        const Choice *x = &choice.at[i];
        if (z->barred[region_of(z, x->run)->out.at[x->out]] || !still_reads(z, x))
            continue;
        double score = weigh(z, x->run, x->out, x->reader, &c);
        if (score * 2 > x->score && apply(z, x, &c))
            done = true;
    }
    return done;
}

// Leaves out runs that nobody reads.
static void sweep(Remat *z) {
    for (uint32_t m = z->order.n; m-- > 0;) {
        uint32_t run = z->order.at[m], uses = 0;
        if (!z->runs.run.at[run].again)
            continue;
        for (uint32_t k = 0; k < region_of(z, run)->out.n; k++)
            uses += z->value.at[run][k].use.n;
        if (!uses)
            drop(z, run);
    }
    measure(z);
}

static bool left_out(const Remat *z, uint32_t run) {
    const RunList *before = &z->runs.before[z->runs.run.at[run].launch];
    return place_in(before, run) == before->n;
}

// Lets readers of each run that was added read of one before it, where that can be held after all.
static void hold_again(Remat *z) {
    for (uint32_t run = z->p->region.n; run < z->runs.run.n; run++) {
        if (left_out(z, run))
            continue;
        double was = z->excess;
        uint32_t other = longest(z, region_of(z, run)->out.at[0], z->at.at[run]);
        redirect(z, run, other, 0);
        measure(z);
        if (z->excess <= was) {
            sweep(z);
            continue;
        }
        redirect(z, other, run, z->at.at[run]);
        measure(z);
    }
}

// --- the plan's own runs -------------------------------------------------------------------------

static bool in_tail(const Remat *z, uint32_t region) {
    return z->lives.left[region] != NONE;
}

// Values that somebody else than their block's regions look at, or for longer than those read them.
static void find_fixed(Remat *z, const PassOptions *o) {
    const Plan *p = z->p;
    uint32_t *last = arena_array(z->a, uint32_t, p->func->g.node.n);
    z->fixed = plan_outliving(z->a, o, p);
    for (uint32_t r = 0; r < p->region.n; r++)
        for (uint32_t i = 0; i < p->region.at[r].in.n; i++) {
            uint32_t id = p->region.at[r].in.at[i], now = z->lives.time[r];
            last[id] = now > last[id] ? now : last[id];
            z->fixed[id] |= in_tail(z, r);
        }
    for (uint32_t r = 0; r < p->region.n; r++)
        for (uint32_t i = 0; i < p->region.at[r].out.n; i++) {
            uint32_t id = p->region.at[r].out.at[i];
            const Buffer *b = &z->lives.value[id];
            z->fixed[id] |= !b->bytes || b->again || b->last != last[id] || in_tail(z, r);
        }
}

// Regions that only compute, and something that may go.
static bool is_pure(const Remat *z, uint32_t region) {
    const Region *r = &z->p->region.at[region];
    bool some = false;
    for (uint32_t i = 0; i < r->out.n; i++) {
        if (plan_in_slot(z->p, r->out.at[i]))
            return false;
        some |= !z->fixed[r->out.at[i]];
    }
    return some && (r->kind == RegionLoop || r->kind == RegionCall) && !in_tail(z, region);
}

// The launch before which a region must have run for the last time: it writes a slot that it reads.
// What a tail writes is there before such a region runs, or is written behind its block.
static uint32_t runs_until(const Remat *z, uint32_t region) {
    const Plan *p = z->p;
    const Region *r = &p->region.at[region];
    uint32_t until = NONE;
    for (uint32_t i = 0; i < r->in.n; i++) {
        uint32_t id = r->in.at[i];
        for (uint32_t e = 0; p->region_of[id] == NONE && e < p->func->effect.n; e++) {
            uint32_t w = p->func->effect.at[e], home = p->region_of[w];
            bool same = node_attr(&p->func->g, w)->i[0] == node_attr(&p->func->g, id)->i[0];
            bool later = p->region.at[home].block == r->block && !in_tail(z, home);
            if (same && later && z->lives.time[home] < until)
                until = z->lives.time[home];
        }
    }
    return until;
}

// What lives at each launch beside the values that may go.
static void find_apart(Remat *z) {
    const Plan *p = z->p;
    z->apart = arena_array(z->a, int64_t, z->lives.launches + 2);
    for (uint32_t r = 0; r < p->region.n; r++)
        for (uint32_t i = 0; i < p->region.at[r].out.n; i++) {
            const Buffer *b = &z->lives.value[p->region.at[r].out.at[i]];
            if (z->fixed[p->region.at[r].out.at[i]])
                continue;
            z->apart[b->first] -= (int64_t)b->bytes;
            z->apart[b->last + 1] += (int64_t)b->bytes;
        }
    for (uint32_t t = 1; t < z->lives.launches; t++)
        z->apart[t] += z->apart[t - 1];
    for (uint32_t t = 0; t < z->lives.launches; t++)
        z->apart[t] += (int64_t)z->lives.live[t];
}

static void add_runs(Remat *z) {
    const Plan *p = z->p;
    for (uint32_t r = 0; r < p->region.n; r++) {
        const Region *region = &p->region.at[r];
        uint32_t run = run_new(z, r, z->lives.time[r], false);
        vec_push(z->a, &z->beside[z->lives.time[r]], run);
        for (uint32_t k = 0; k < region->in.n; k++) {
            uint32_t id = region->in.at[k];
            bool work = p->region_of[id] != NONE && !plan_in_slot(p, id);
            z->runs.run.at[run].from[k] = work ? p->region_of[id] : NONE;
        }
        for (uint32_t i = 0; i < region->out.n; i++)
            z->runs.out[region->out.at[i]] = i + 1;
    }
}

static void remat_init(Remat *z, const PassOptions *o, Plan *p) {
    uint32_t regions = p->region.n, nodes = p->func->g.node.n;
    z->p = p;
    memory_lives(z->a, o, p, &z->lives);
    uint32_t launches = z->lives.launches;
    z->runs.before = arena_array_(z->a, sizeof *z->runs.before, _Alignof(RunList), launches);
    z->beside = arena_array_(z->a, sizeof *z->beside, _Alignof(RunList), launches);
    z->copies = arena_array_(z->a, sizeof *z->copies, _Alignof(RunList), regions);
    z->runs.out = arena_array(z->a, uint32_t, nodes);
    z->barred = arena_array(z->a, uint8_t, nodes);
    z->pure = arena_array(z->a, uint8_t, regions);
    z->until = arena_array(z->a, uint32_t, regions);
    z->seconds = arena_array(z->a, double, regions);
    find_fixed(z, o);
    for (uint32_t r = 0; r < regions; r++) {
        z->pure[r] = is_pure(z, r);
        z->until[r] = runs_until(z, r);
        z->seconds[r] = region_seconds(p, &p->region.at[r]) + LaunchSeconds;
    }
    find_apart(z);
    add_runs(z);
    z->target = (int64_t)p->work_bound;
    order_runs(z);
    for (uint32_t r = 0; r < regions; r++)
        use_inputs(z, r);
    measure(z);
}

// Until no more than the target lives, or nothing can be spared: false. The target comes down step
// by step, so that what reaches far is not bought for the deepest valley first.
static bool fit(Remat *z, int64_t target) {
    while (z->target > target && z->excess <= 0) {
        int64_t next = z->target - z->target / Step;
        z->target = next > target ? next : target;
        memset(z->barred, 0, z->p->func->g.node.n);
        measure(z);
        while (z->excess > 0 && spare(z))
            ;
    }
    sweep(z);
    hold_again(z);
    return z->excess <= 0;
}

// In an average run, as Plan.gflop is.
static void count(const Remat *z, Remade *out) {
    const double *runs = func_block_runs(z->a, z->p->func);
    for (uint32_t run = z->p->region.n; run < z->runs.run.n; run++) {
        const Region *r = region_of(z, run);
        if (left_out(z, run))
            continue;
        out->launches++;
        out->bytes += (double)region_bytes(z->p, r) * runs[r->block];
        for (uint32_t k = 0; k < r->node.n; k++)
            out->gflop += node_gflop(&z->p->func->g, r->node.at[k]) * runs[r->block];
    }
}

// Has ever less live until a plan takes no more than `most`, or nothing can be spared: the bytes it
// takes. Plans are over *f, the module's.
static size_t reach(Remat *z, Arena trial, const PassOptions *o, size_t most, Func *f) {
    int64_t target = (int64_t)most;
    Plan p = {0};
    for (uint32_t round = 0; round < Rounds; round++) {
        Arena here = trial;
        bool fits = fit(z, target);
        runs_plan(&here, o, z->p, &z->lives, &z->runs, f, &p);
        if (p.work_bytes <= most || !fits)
            break;
        int64_t lives = (int64_t)p.work_bound;
        target = (lives < target ? lives : target) - (int64_t)(p.work_bytes - most);
    }
    *f = *z->p->func;
    return p.work_bytes;
}

void remat(Arena *perm, const PassOptions *o, Func *f, Plan *p) {
    Remade *made = arena_new(perm, Remade);
    p->remade = made;
    *made = (Remade){.most = o->work_most, .held = p->work_bytes};
    if (!o->work_most || p->work_bytes <= o->work_most)
        return;
    Func held = *f;
    Plan base = *p;
    Arena scratch, trial;
    arena_need(&scratch);
    arena_need(&trial);
    Remat z = {.a = &scratch}, least = z, *best = &z;
    base.func = &held; // *f is that of the plan made
    remat_init(&z, o, &base);
    size_t bytes = reach(&z, trial, o, o->work_most, f);
    if (bytes > o->work_most && z.target <= (int64_t)o->work_most) { // else it had no lower aim
        remat_init(&least, o, &base);
        size_t lowest = reach(&least, trial, o, 1, f);
        best = lowest < bytes ? &least : best;
        bytes = lowest < bytes ? lowest : bytes;
    }
    if (bytes < base.work_bytes) {
        runs_plan(perm, o, &base, &best->lives, &best->runs, f, p);
        count(best, made);
        p->remade = made;
    }
    arena_release(&trial);
    arena_release(&scratch);
}
