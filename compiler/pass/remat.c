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
//
// Places take more than what lives, so plans of ever lower aims are made until one fits; where none
// does, one that aims as low as it can, which is the least that is told.
#include "remat.h"

#include <stdlib.h>
#include <string.h>

enum {
    Small = 16,   // an input of such a part of a value's bytes is held for it
    Longest = 48, // regions that run again for one value, at most
    Tries = 384,  // regions looked at for that, those left out again too: else many are, many times
    Rounds = 12,  // plans made, at most: places need a little more than what lives
};
// The target comes down by such a part of it, and where that is too much at once by half as much,
// as long as that is not less than the least: what is held to make a value again then counts at
// fewer moments. None is the best for every model: where one does not reach, the next is tried.
static const struct Steps { int64_t first, least; } Steps[] = {{8, 8}, {4, 4}, {8, 64}};

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

static bool add_region(const Remat *z, Chain *c, uint32_t region);

static bool add_input(const Remat *z, Chain *c, uint32_t node) {
    uint32_t home = z->p->region_of[node];
    if (home == NONE || plan_in_slot(z->p, node) || in_chain(c, home))
        return true;
    uint32_t run = remat_longest(z, node, c->at);
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
    c->lost += (double)v->bytes * remat_over(z, v->last + 1, c->at);
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
    const Region *r = remat_region(z, run);
    double sum = 0;
    for (uint32_t k = 0; k < r->out.n; k++) {
        const Value *v = &z->value.at[run][k];
        if (!z->fixed[r->out.at[k]] && v->last >= at)
            sum += (double)v->bytes * remat_over(z, used_before(z, v, at) + 1, at - 1);
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
        RunList runs = remat_runs_at(z, m);
        for (uint32_t i = 0; i < runs.n; i++) {
            const Region *r = remat_region(z, runs.at[i]);
            for (uint32_t k = 0; k < r->out.n && z->pure[z->runs.run.at[runs.at[i]].region]; k++) {
                const Value *v = &z->value.at[runs.at[i]][k];
                uint32_t was = v->first;
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

// --- adding and leaving out runs -----------------------------------------------------------------

// Runs the chain's regions in front of the reader, and lets it and those behind it read of them.
static bool apply(Remat *z, const Choice *choice, const Chain *c) {
    uint32_t reader = choice->reader, made[Longest];
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
        made[i] = remat_add(z, c->region[i], c->launch, at + i);
        z->runs.run.at[made[i]].from = from;
    }
    remat_order(z);
    for (uint32_t i = 0; i < c->n; i++)
        remat_use_inputs(z, made[i]);
    remat_redirect(z, choice->run, made[c->n - 1], z->at.at[reader]);
    remat_measure(z);
    if (z->excess < was)
        return true;
    for (uint32_t k = 0; k < remat_region(z, choice->run)->out.n; k++)
        z->barred[remat_region(z, choice->run)->out.at[k]] = 1;
    remat_redirect(z, made[c->n - 1], choice->run, 0);
    for (uint32_t i = 0; i < c->n; i++)
        remat_drop(z, made[i]);
    remat_measure(z);
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
        if (z->barred[remat_region(z, x->run)->out.at[x->out]] || !still_reads(z, x))
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
        for (uint32_t k = 0; k < remat_region(z, run)->out.n; k++)
            uses += z->value.at[run][k].use.n;
        if (!uses)
            remat_drop(z, run);
    }
    remat_measure(z);
}

// Lets readers of each run that was added read of one before it, where that can be held after all.
static void hold_again(Remat *z) {
    for (uint32_t run = z->p->region.n; run < z->runs.run.n; run++) {
        if (remat_left_out(z, run))
            continue;
        double was = z->excess;
        uint32_t other = remat_longest(z, remat_region(z, run)->out.at[0], z->at.at[run]);
        remat_redirect(z, run, other, 0);
        remat_measure(z);
        if (z->excess <= was) {
            sweep(z);
            continue;
        }
        remat_redirect(z, other, run, z->at.at[run]);
        remat_measure(z);
    }
}

// Until no more than the target lives, or nothing can be spared: false. The target comes down step
// by step, so that what reaches far is not bought for the deepest valley first.
static bool fit(Remat *z, const struct Steps *steps, int64_t target) {
    for (int64_t part = steps->first; z->target > target && part <= steps->least;) {
        int64_t was = z->target, next = was - was / part;
        z->target = next > target ? next : target;
        memset(z->barred, 0, z->p->func->g.node.n);
        remat_measure(z);
        while (z->excess > 0 && spare(z))
            ;
        if (z->excess > 0) {
            part *= 2;
            z->target = steps->first < steps->least ? was : z->target;
        }
    }
    remat_measure(z);
    sweep(z);
    hold_again(z);
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

// Has ever less live until a plan takes no more than `most`, or nothing can be spared: the bytes it
// takes. Plans are over *f, the module's.
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

typedef struct Least {
    Remat z;
    size_t bytes; // that its plan takes
} Least;

// Aims at `most` from the plan `base`; `least` becomes it where it takes less. True: it had so low
// an aim, and a lower one may do what places have spoiled.
static bool aim(Arena *a, Arena trial, const PassOptions *o, Plan *base, const struct Steps *steps,
                size_t most, Func *f, Least *least) {
    Remat z = {.a = a};
    remat_init(&z, o, base);
    size_t bytes = reach(&z, steps, trial, o, most, f);
    if (bytes < least->bytes)
        *least = (Least){z, bytes};
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
    Arena scratch, trial;
    arena_need(&scratch);
    arena_need(&trial);
    Least least = {.bytes = p->work_bytes};
    base.func = &held; // *f is that of the plan made
    for (size_t i = 0; i < sizeof Steps / sizeof *Steps && least.bytes > o->work_most; i++)
        if (aim(&scratch, trial, o, &base, &Steps[i], o->work_most, f, &least) &&
            least.bytes > o->work_most)
            aim(&scratch, trial, o, &base, &Steps[i], 1, f, &least);
    if (least.bytes < base.work_bytes) {
        runs_plan(perm, o, &base, &least.z.lives, &least.z.runs, f, p);
        count(&least.z, made);
        p->remade = made;
    }
    arena_release(&trial);
    arena_release(&scratch);
}
