// remat.c - rematerialization: recomputing values instead of keeping them live.
//
// In: a placed plan that exceeds the limit of work memory. Out: a plan of the same values in which
// some regions run again just before late consumers, so that their results need not stay live until
// then (Chen et al., "Training deep nets with sublinear memory cost", 2016). The bits are the same:
// a region is recomputed whole, by the same kernel, from the same inputs; random draws are
// functions of counters; regions that write slots or communicate are never recomputed.
//
// A chain of regions recomputed for one value serves later readers of all their values.
//
// The heuristic is that of XLA's pass and of Kirisame et al. ("Dynamic tensor rematerialization",
// 2021): repeatedly the value that saves most per second of recomputation. Savings are counted over
// all moments above the target (bytes times moments), so that a value idle through every peak of a
// step goes before one that is idle in one of them; the time is that of the whole chain of regions
// that must run for it, by the estimates of cost.c. The live range of a small input is extended
// instead. In the end each recomputation is dropped again where an earlier value fits after all.
//
// Packing needs more than the live bytes, so plans of ever lower targets are made until one fits;
// if none does, the smallest is returned, and its size is what the user is told.
#include "remat.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    Small = 16,   // the live range of an input so many times smaller than the value is extended
    Longest = 48, // regions recomputed for one value, at most
    Tries = 384,  // regions visited for that, backtracking included: bounds an exponential search
    Rounds = 12,  // plans made, at most: packing needs a little more than the live bytes
    Misses = 2,   // targets missed, at most
};
// The target is lowered by 1/part of it at a time: in smaller steps, inputs kept live for a
// recomputation count at fewer moments. What a chain saves of other values than the one it is for
// counts in full (`others`), or only against what its inputs cost: those values may be spared more
// cheaply alone. No schedule of steps is best for every model: where one does not reach the target,
// the next is tried.
static const struct Steps {
    int64_t part;
    bool others;
} Steps[] = {{8, false}, {4, true}};

// --- chains of recomputation ---------------------------------------------------------------------

// Regions to recompute before a run, in order, and what that costs.
typedef struct Chain {
    uint32_t region[Longest], n;
    uint32_t tries; // regions visited
    double seconds;
    double lost; // bytes times moments above the target that extended live ranges cost
    uint32_t at; // moment of the run they are inserted before
    uint32_t launch;
    int64_t bytes; // of the value to recompute
} Chain;

static bool in_chain(const Chain *c, uint32_t region) {
    for (uint32_t i = 0; i < c->n; i++)
        if (c->region[i] == region)
            return true;
    return false;
}

static bool add_region(const Remat *z, Chain *c, uint32_t region);

static bool add_input(const Remat *z, Chain *c, uint32_t node) {
    uint32_t home = z->p->region_of[node];
    if (home == NONE || plan_in_slot(z->p, node) || in_chain(c, home))
        return true;
    uint32_t run = remat_longest(z, node, c->at);
    if (run == NONE)
        return false;
    const Value *v = &z->value.at[run][z->runs.out[node] - 1];
    uint32_t last = z->at.at[v->last];
    if (last >= c->at)
        return true;
    Chain was = *c;
    bool may = v->bytes * Small > c->bytes && z->pure[home] && !z->fixed[node];
    if (may && add_region(z, c, home))
        return true;
    was.tries = c->tries;
    *c = was;
    c->lost += (double)v->bytes * remat_over(z, last + 1, c->at);
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
        c->lost += (double)z->value.at[region][k].bytes * remat_over(z, c->at, c->at);
    c->region[c->n++] = region;
    c->seconds += z->seconds[region];
    return true;
}

// A value that is idle until `reader`, and the score of recomputing it there.
typedef struct Choice {
    uint32_t run, out, reader;
    double score; // bytes times moments saved, per second
} Choice;

// The last moment before `at` at which a value is used.
static uint32_t used_before(const Remat *z, uint32_t run, const Value *v, uint32_t at) {
    uint32_t last = z->at.at[run];
    for (uint32_t i = 0; i < v->use.n && z->at.at[v->use.at[i]] < at; i++)
        last = z->at.at[v->use.at[i]];
    return last;
}

// All outputs of the run are freed until then, not only the one in question.
static double saved_by(const Remat *z, uint32_t run, uint32_t at) {
    const Region *r = remat_region(z, run);
    double sum = 0;
    for (uint32_t k = 0; k < r->out.n; k++) {
        const Value *v = &z->value.at[run][k];
        if (!z->fixed[r->out.at[k]] && z->at.at[v->last] >= at)
            sum += (double)v->bytes * remat_over(z, used_before(z, run, v, at) + 1, at - 1);
    }
    return sum;
}

static double weigh(const Remat *z, uint32_t run, uint32_t out, uint32_t reader, Chain *c) {
    uint32_t region = z->runs.run.at[run].region;
    *c = (Chain){.at = z->at.at[reader],
                 .launch = z->runs.run.at[reader].launch,
                 .bytes = z->value.at[run][out].bytes};
    double gain = saved_by(z, run, c->at);
    if (gain <= 0 || !add_region(z, c, region))
        return 0;
    double others = 0;
    for (uint32_t i = 0; i + 1 < c->n; i++)
        others += saved_by(z, remat_latest(z, c->region[i], c->at), c->at);
    gain += z->others ? others : fmin(others, c->lost);
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
    for (uint32_t m = 0; m < z->moments; m++) {
        RunList runs = remat_runs_at(z, m);
        for (uint32_t i = 0; i < runs.n; i++) {
            const Region *r = remat_region(z, runs.at[i]);
            for (uint32_t k = 0; k < r->out.n && z->pure[z->runs.run.at[runs.at[i]].region]; k++) {
                const Value *v = &z->value.at[runs.at[i]][k];
                uint32_t was = m;
                for (uint32_t u = 0; u < v->use.n && !z->fixed[r->out.at[k]]; u++) {
                    Choice choice = {runs.at[i], k, v->use.at[u], 0};
                    uint32_t at = z->at.at[choice.reader];
                    if (!z->barred[r->out.at[k]] && at && remat_over(z, was + 1, at - 1))
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

// --- adding and removing recomputations ----------------------------------------------------------

// Inserts the chain's regions before the reader; it and later readers read their results. Undone,
// and false, where that does not lower the excess.
static bool apply(Remat *z, const Choice *choice, const Chain *c) {
    uint32_t reader = choice->reader, made[Longest], last[Longest];
    double was = z->excess;
    uint32_t at = remat_place(z, reader);
    for (uint32_t i = 0; i < c->n; i++) {
        const Region *r = &z->p->region.at[c->region[i]];
        uint32_t *from = arena_array(z->a, uint32_t, r->in.n);
        for (uint32_t k = 0; k < r->in.n; k++) {
            uint32_t home = z->p->region_of[r->in.at[k]];
            from[k] = home == NONE || plan_in_slot(z->p, r->in.at[k])
                          ? NONE
                          : remat_longest(z, r->in.at[k], c->at);
            for (uint32_t j = 0; j < i; j++)
                from[k] = c->region[j] == home ? made[j] : from[k];
        }
        last[i] = remat_latest(z, c->region[i], c->at);
        made[i] = remat_add(z, c->region[i], c->launch, at + i);
        z->runs.run.at[made[i]].from = from;
    }
    remat_order(z);
    for (uint32_t i = 0; i < c->n; i++)
        remat_use_inputs(z, made[i]);
    for (uint32_t i = 0; i < c->n; i++)
        remat_redirect(z, last[i], made[i], z->at.at[reader]);
    remat_measure(z);
    if (z->excess < was)
        return true;
    for (uint32_t k = 0; k < remat_region(z, choice->run)->out.n; k++)
        z->barred[remat_region(z, choice->run)->out.at[k]] = 1;
    for (uint32_t i = 0; i < c->n; i++)
        remat_redirect(z, made[i], last[i], 0);
    for (uint32_t i = 0; i < c->n; i++)
        remat_drop(z, made[i]);
    remat_order(z);
    remat_measure(z);
    return false;
}

// Does the reader still read that value of the choice?
static bool still_reads(const Remat *z, const Choice *choice) {
    const Value *v = &z->value.at[choice->run][choice->out];
    for (uint32_t u = 0; u < v->use.n; u++)
        if (v->use.at[u] == choice->reader)
            return true;
    return false;
}

// One pass over all choices, the best first; those whose score has dropped by half wait for the
// next pass.
static bool save_some(Remat *z) {
    ChoiceVec choice = {0};
    bool done = false;
    find_choices(z, &choice);
    for (uint32_t i = 0; i < choice.n && z->excess > 0; i++) {
        Chain c;
        const Choice *x = &choice.at[i];
        if (z->barred[remat_region(z, x->run)->out.at[x->out]] || !still_reads(z, x))
            continue;
        double score = weigh(z, x->run, x->out, x->reader, &c);
        if (score * 2 > x->score && apply(z, x, &c))
            done = true;
    }
    return done;
}

// Removes a recomputation without readers, and those that then have none.
static void drop_unread(Remat *z, uint32_t run) {
    const Run *r = &z->runs.run.at[run];
    if (!r->again || !remat_unread(z, run) || remat_left_out(z, run))
        return;
    remat_drop(z, run);
    for (uint32_t k = 0; k < remat_region(z, run)->in.n; k++)
        if (r->from[k] != NONE)
            drop_unread(z, r->from[k]);
}

// Removes each recomputation whose readers can read an earlier run after all.
static void drop_needless(Remat *z) {
    for (uint32_t run = z->p->region.n; run < z->runs.run.n; run++) {
        if (remat_left_out(z, run))
            continue;
        double was = z->excess;
        uint32_t other = remat_latest(z, z->runs.run.at[run].region, z->at.at[run]);
        remat_redirect(z, run, other, 0);
        remat_measure(z);
        if (z->excess <= was) {
            drop_unread(z, run);
            remat_order(z);
            remat_measure(z);
            continue;
        }
        remat_redirect(z, other, run, z->at.at[run]);
        remat_measure(z);
    }
}

// Until live bytes are within the target, or nothing more can be saved: false. The target is
// lowered in steps, so that choices that help at many moments come before those for the highest
// peak alone; for the same reason, once more where one is missed.
static bool fit(Remat *z, const struct Steps *steps, int64_t target) {
    for (uint32_t misses = 0; z->target > target && misses < Misses;) {
        int64_t next = z->target - z->target / steps->part;
        z->target = next > target ? next : target;
        memset(z->barred, 0, z->p->func->g.node.n);
        remat_measure(z);
        while (z->excess > 0 && save_some(z))
            ;
        misses += z->excess > 0;
    }
    for (uint32_t run = z->p->region.n; run < z->runs.run.n; run++)
        drop_unread(z, run);
    remat_order(z);
    remat_measure(z);
    drop_needless(z);
    return z->target <= target && z->excess <= 0;
}

// In an average run, as Plan.gflop is.
static void count(const Remat *z, Remade *out) {
    const double *runs = func_block_runs(z->a, z->p->func);
    for (uint32_t run = z->p->region.n; run < z->runs.run.n; run++) {
        const Region *r = remat_region(z, run);
        if (remat_left_out(z, run))
            continue;
        out->launches++;
        out->bytes += (double)region_bytes(z->p, r) * runs[r->block];
        for (uint32_t k = 0; k < r->node.n; k++)
            out->gflop += node_gflop(&z->p->func->g, r->node.at[k]) * runs[r->block];
    }
}

// Lowers the target until a plan takes at most `most` bytes, or nothing more can be saved; the
// bytes of the last plan. Plans are over *f, the module's.
static size_t reach(Remat *z, const struct Steps *steps, Arena trial, const PassOptions *o,
                    size_t most, Func *f) {
    int64_t target = (int64_t)most;
    Plan p = {0};
    for (uint32_t round = 0; round < Rounds; round++) {
        Arena here = trial;
        bool fits = fit(z, steps, target);
        runs_plan(&here, o, z->p, &z->lives, &z->runs, f, &p);
        if (p.work_bytes <= most || !fits)
            break;
        int64_t lives = (int64_t)p.work_bound;
        target = (lives < target ? lives : target) - (int64_t)(p.work_bytes - most);
    }
    *f = *z->p->func;
    return p.work_bytes;
}

typedef struct Search {
    Arena *a;    // of what is found
    Arena trial; // scratch: plans that are tried
    const PassOptions *o;
    Plan *base;   // what recomputes nothing
    Func *f;      // that of the plan at hand
    Remat least;  // the smallest so far,
    size_t bytes; // and what its plan takes; at first `base`
} Search;

// Tries to reach `most`. True: live bytes reached the target, so a lower one may make up for what
// packing lost.
static bool aim(Search *s, const struct Steps *steps, size_t most) {
    Remat z = {.a = s->a};
    remat_init(&z, s->o, s->base);
    z.others = steps->others;
    size_t bytes = reach(&z, steps, s->trial, s->o, most, s->f);
    if (bytes < s->bytes) {
        s->least = z;
        s->bytes = bytes;
    }
    return z.target <= (int64_t)most;
}

void remat(Arena *perm, const PassOptions *o, Func *f, Plan *p) {
    Remade *made = arena_new(perm, Remade);
    p->remade = made;
    *made = (Remade){.most = o->work_most, .held = p->work_bytes};
    if (!o->work_most || p->work_bytes <= o->work_most)
        return;
    Func held = *f;
    Plan base = *p;
    Arena scratch;
    Search s = {.a = &scratch, .o = o, .base = &base, .f = f, .bytes = p->work_bytes};
    arena_need(&scratch);
    arena_need(&s.trial);
    base.func = &held; // *f is that of the plan made
    for (size_t i = 0; i < sizeof Steps / sizeof *Steps && s.bytes > o->work_most; i++)
        if (aim(&s, &Steps[i], o->work_most) && s.bytes > o->work_most)
            aim(&s, &Steps[i], 1);
    if (s.bytes < base.work_bytes) {
        runs_plan(perm, o, &base, &s.least.lives, &s.least.runs, f, p);
        count(&s.least, made);
        p->remade = made;
    }
    arena_release(&s.trial);
    arena_release(&scratch);
}
