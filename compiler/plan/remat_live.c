// remat_live.c - live ranges and live bytes when some regions run more than once.
//
// In: a placed plan. Out: its runs (remat.h), to which recomputations are added and removed, each
// value with its readers in order, and the live bytes at each moment. Launches, and buffers that
// values share in the plan, stay as they are.
#include "stages.h"
#include "remat.h"

#include <string.h>

static const double LaunchSeconds = 5e-6;

const Region *remat_region(const Remat *z, uint32_t run) {
    return &z->p->region.at[z->runs.run.at[run].region];
}

// --- what lives ----------------------------------------------------------------------------------

void remat_order(Remat *z) {
    uint32_t n = 0;
    for (uint32_t t = 0; t < z->lives.launches; t++) {
        const RunList *before = &z->runs.before[t], *beside = &z->beside[t];
        for (uint32_t i = 0; i < before->n; i++) {
            z->at.at[before->at[i]] = n;
            z->order.at[n++] = before->at[i];
        }
        for (uint32_t i = 0; i < beside->n; i++) // the regions of a launch share a moment
            z->at.at[beside->at[i]] = n;
        if (beside->n)
            z->order.at[n++] = beside->at[0];
    }
    z->moments = n;
}

RunList remat_runs_at(const Remat *z, uint32_t moment) {
    const Run *r = &z->runs.run.at[z->order.at[moment]];
    return r->again ? (RunList){&z->order.at[moment], 1, 1} : z->beside[r->launch];
}

void remat_measure(Remat *z) {
    int64_t now = 0;
    uint32_t over = 0;
    z->excess = 0;
    for (uint32_t m = 0; m < z->moments; m++) {
        const Change *c = &z->change.at[z->order.at[m]];
        int64_t live = now + c->made + c->apart;
        now += c->made - c->freed;
        z->over.at[m] = over;
        if (live > z->target) {
            over++;
            z->excess += (double)(live - z->target);
        }
    }
    z->over.at[z->moments] = over;
}

uint32_t remat_over(const Remat *z, uint32_t from, uint32_t to) {
    return from > to ? 0 : z->over.at[to + 1] - z->over.at[from];
}

uint32_t remat_longest(const Remat *z, uint32_t node, uint32_t at) {
    const RunList *runs = &z->copies[z->p->region_of[node]];
    uint32_t best = NONE, last = 0;
    for (uint32_t i = 0; i < runs->n; i++) {
        uint32_t run = runs->at[i];
        if (z->at.at[run] >= at)
            continue;
        uint32_t ends = z->at.at[z->value.at[run][z->runs.out[node] - 1].last];
        if (best == NONE || ends >= last) {
            best = run;
            last = ends;
        }
    }
    return best;
}

uint32_t remat_latest(const Remat *z, uint32_t region, uint32_t at) {
    const RunList *runs = &z->copies[region];
    uint32_t best = NONE;
    for (uint32_t i = 0; i < runs->n; i++) {
        uint32_t run = runs->at[i];
        if (z->at.at[run] < at && (best == NONE || z->at.at[run] > z->at.at[best]))
            best = run;
    }
    return best;
}

// --- adding and removing runs ----------------------------------------------------------------

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

// The first run of its moment.
static uint32_t leader(const Remat *z, uint32_t run) {
    const Run *r = &z->runs.run.at[run];
    return r->again ? run : z->beside[r->launch].at[0];
}

// The readers of output `k` have changed, and so its live range.
static void range_changed(Remat *z, uint32_t run, uint32_t k) {
    Value *v = &z->value.at[run][k];
    uint32_t last = v->use.n ? leader(z, v->use.at[v->use.n - 1]) : v->end;
    last = z->at.at[last] > z->at.at[v->end] ? last : v->end;
    z->change.at[v->last].freed -= v->bytes;
    z->change.at[last].freed += v->bytes;
    v->last = last;
}

// Live bytes at a launch, or at a recomputation before it, that belong to no value here.
static int64_t apart_at(const Remat *z, uint32_t launch, bool again) {
    int64_t here = z->apart[launch], was = launch ? z->apart[launch - 1] : 0;
    if (!again)
        return here;
    int64_t least = was < here ? was : here;
    return least > 0 ? least : 0;
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
    vec_push(z->a, &z->at, UINT32_MAX); // none that remat_longest() may find before remat_order()
    vec_push(z->a, &z->order, NONE);
    vec_push(z->a, &z->over, 0);
    vec_push(z->a, &z->change, ((Change){.apart = apart_at(z, launch, again)}));
    vec_push(z->a, &z->copies[region], run);
    return run;
}

// The first run of the last moment at which the base plan holds a value.
static uint32_t last_leader(const Remat *z, const Buffer *b) {
    uint32_t launch = b->last < z->lives.launches ? b->last : z->lives.launches - 1;
    while (!z->beside[launch].n) // regions of a tail, in the last block that runs it
        launch--;
    return z->beside[launch].at[0];
}

// Its values live where it stands, until they have readers; of a fixed one's range the base plan's
// is counted apart, and what readers add to it begins where that ends.
static void run_begins(Remat *z, uint32_t run) {
    const Region *r = remat_region(z, run);
    for (uint32_t k = 0; k < r->out.n; k++) {
        Value *v = &z->value.at[run][k];
        uint32_t id = r->out.at[k];
        bool apart = v->bytes && z->fixed[id] && !z->runs.run.at[run].again;
        v->end = v->last = apart ? last_leader(z, &z->lives.value[id]) : leader(z, run);
        Change *c = &z->change.at[v->end];
        c->made += v->bytes;
        c->freed += v->bytes;
        c->apart -= apart ? v->bytes : 0;
    }
}

uint32_t remat_place(const Remat *z, uint32_t run) {
    const Run *r = &z->runs.run.at[run];
    const RunList *before = &z->runs.before[r->launch];
    return r->again ? place_in(before, run) : before->n;
}

uint32_t remat_add(Remat *z, uint32_t region, uint32_t launch, uint32_t place) {
    uint32_t run = run_new(z, region, launch, true);
    list_insert(z->a, &z->runs.before[launch], place, run);
    run_begins(z, run);
    return run;
}

static void use_add(Remat *z, RunList *use, uint32_t run) {
    uint32_t at = use->n;
    while (at && z->at.at[use->at[at - 1]] > z->at.at[run])
        at--;
    list_insert(z->a, use, at, run);
}

void remat_use_inputs(Remat *z, uint32_t run) {
    const Region *r = remat_region(z, run);
    for (uint32_t k = 0; k < r->in.n; k++) {
        uint32_t from = z->runs.run.at[run].from[k], out = z->runs.out[r->in.at[k]] - 1;
        if (from == NONE)
            continue;
        use_add(z, &z->value.at[from][out].use, run);
        range_changed(z, from, out);
    }
}

// Readers of run `old` from moment `at` on read `now` instead.
void remat_redirect(Remat *z, uint32_t old, uint32_t now, uint32_t at) {
    const Region *r = remat_region(z, old);
    for (uint32_t k = 0; k < r->out.n; k++) {
        RunList *use = &z->value.at[old][k].use;
        for (uint32_t u = z->fixed[r->out.at[k]] ? 0 : use->n; u-- > 0;) {
            uint32_t run = use->at[u];
            if (z->at.at[run] < at)
                break;
            const Region *reader = remat_region(z, run);
            for (uint32_t i = 0; i < reader->in.n; i++)
                if (reader->in.at[i] == r->out.at[k])
                    z->runs.run.at[run].from[i] = now;
            use->n--;
            use_add(z, &z->value.at[now][k].use, run);
        }
        range_changed(z, old, k);
        range_changed(z, now, k);
    }
}

void remat_drop(Remat *z, uint32_t run) {
    const Run *r = &z->runs.run.at[run];
    const Region *region = remat_region(z, run);
    for (uint32_t k = 0; k < region->in.n; k++) {
        uint32_t out = z->runs.out[region->in.at[k]] - 1;
        if (r->from[k] == NONE)
            continue;
        list_remove(&z->value.at[r->from[k]][out].use, run);
        range_changed(z, r->from[k], out);
    }
    list_remove(&z->runs.before[r->launch], run);
    list_remove(&z->copies[r->region], run);
}

bool remat_unread(const Remat *z, uint32_t run) {
    uint32_t uses = 0;
    for (uint32_t k = 0; k < remat_region(z, run)->out.n; k++)
        uses += z->value.at[run][k].use.n;
    return uses == 0;
}

bool remat_left_out(const Remat *z, uint32_t run) {
    const RunList *before = &z->runs.before[z->runs.run.at[run].launch];
    return place_in(before, run) == before->n;
}

// --- the plan's own runs -------------------------------------------------------------------------

static bool in_tail(const Remat *z, uint32_t region) {
    return z->lives.tail_of[region] != NONE;
}

// Values whose live range regions of their block do not decide alone.
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

// Regions without side effects, with an output whose live range may be split.
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

// The launch that overwrites a slot the region reads, before which it must have run for the last
// time. A tail writes either before such a region runs, or after its block.
static uint32_t runs_until(const Remat *z, const NodeList *writes, uint32_t region) {
    const Plan *p = z->p;
    const Region *r = &p->region.at[region];
    uint32_t until = NONE;
    for (uint32_t i = 0; i < r->in.n; i++) {
        uint32_t id = r->in.at[i];
        if (p->region_of[id] != NONE)
            continue;
        const NodeList *write = &writes[node_slot(&p->func->g, id)];
        for (uint32_t k = 0; k < write->n; k++) {
            uint32_t home = p->region_of[write->at[k]];
            bool later = p->region.at[home].block == r->block && !in_tail(z, home);
            if (later && z->lives.time[home] < until)
                until = z->lives.time[home];
        }
    }
    return until;
}

// Live bytes at each launch beside the values whose live ranges may be split.
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
    for (uint32_t r = 0; r < p->region.n; r++)
        run_begins(z, r);
}

void remat_init(Remat *z, const PassOptions *o, Plan *p) {
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
    const NodeList *writes = slot_writes(z->a, p->module, p->func);
    for (uint32_t r = 0; r < regions; r++) {
        z->pure[r] = is_pure(z, r);
        z->until[r] = runs_until(z, writes, r);
        z->seconds[r] = region_seconds(p, &p->region.at[r]) + LaunchSeconds;
    }
    find_apart(z);
    vec_push(z->a, &z->over, 0); // one more than there are moments
    add_runs(z);
    z->target = (int64_t)p->work_bound;
    remat_order(z);
    for (uint32_t r = 0; r < regions; r++)
        remat_use_inputs(z, r);
    remat_measure(z);
}
