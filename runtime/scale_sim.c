// scale_sim.c - what a step would take on more ranks than there are: its launches as measured here,
// its collectives as a link model says.
//
// In: a model and a number of ranks. Out: the order of launches, starts and waits of rank 0 with
// the time each launch takes, and that order played against a link. All ranks are taken to be
// alike: none waits for a slower one, so what is foretold is a bound from below of what machines
// with noise do.
#include "scale.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { PROFILED = 5, WARM_UP = 2 }; // steps

typedef struct Profile {
    Arena *perm;
    const Plan *plan;
    double began;
    VEC(Moment) moment; // of all profiled steps, one after the other
} Profile;

static GanStatus on_launch(void *user, Exec *e, uint32_t launch, bool done, const Counters *c) {
    (void)e, (void)c;
    Profile *p = user;
    if (!done) {
        p->began = time_now();
        return GAN_OK;
    }
    const Region *r = &p->plan->region.at[p->plan->merge.at[p->plan->launch.at[launch].first]];
    Moment m = {.kind = r->kind, .call = r->call, .seconds = time_now() - p->began};
    if (r->kind == RegionStart)
        m.bytes = p->plan->collective.at[r->call].bytes;
    vec_push(p->perm, &p->moment, m);
    return GAN_OK;
}

static int compare(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

// Medians over the profiled steps, which all run the same launches (a step with `every` does not:
// then the last one is taken as it was).
static void medians(Arena *perm, const Moment *all, uint32_t n, uint32_t steps, Moments *out) {
    uint32_t one = n / steps;
    bool alike = n % steps == 0;
    for (uint32_t i = 0; i < one; i++) {
        double seconds[PROFILED];
        Moment m = all[n - one + i];
        for (uint32_t k = 0; alike && k < steps; k++) {
            alike = all[k * one + i].kind == m.kind && all[k * one + i].call == m.call;
            seconds[k] = all[k * one + i].seconds;
        }
        if (alike) {
            qsort(seconds, steps, sizeof *seconds, compare);
            m.seconds = seconds[steps / 2];
        }
        vec_push(perm, out, m);
    }
}

static GanStatus profile_steps(const Study *s, Session *session, Moments *out) {
    Profile p = {.perm = s->perm, .plan = &session->compiled.step};
    ExecHooks hooks = {.launch = on_launch, .user = &p};
    TRY(exec_init(session->exec, 0));
    for (uint32_t i = 0; i < WARM_UP + PROFILED; i++) {
        if (i == WARM_UP)
            p.moment.n = 0;
        Counters c = {.step = i};
        TRY(exec_step(session->exec, &c, &hooks)); // launch by launch: each is waited for
    }
    medians(s->perm, p.moment.at, p.moment.n, PROFILED, out);
    return GAN_OK;
}

GanStatus scale_profile(const Study *s, ScaleMode mode, int64_t ranks, LinkModel link,
                        Moments *out) {
    NullSeat seat = {0, (int)ranks};
    Comm *alone = NULL;
    Session session = {0};
    int64_t chunks, bucket;
    GanStatus st = GAN_OK;
    SessionOptions so = {.compile = {.path = s->model,
                                     .batch = scale_batch(s, mode, ranks),
                                     .setting = s->o->at[OptSet].pair.at,
                                     .settings = s->o->at[OptSet].pair.n,
                                     .real = s->real},
                         .api = s->api,
                         .device = s->host->device};
    so.device.threads = (int)s->threads;
    *out = (Moments){0};
    TRY(ranks_split(s->o, &chunks, &bucket));
    TRY(comm_open(&link_null, &seat, &(CommOptions){0}, &alone));
    TRY_OUT(ranks_parallel(alone, so.compile.batch, chunks, bucket, link, &so.compile.parallel));
    so.device.comm = alone;
    TRY_OUT(session_start(&session, &so, &s->host->console));
    if (!exec_launches(session.exec))
        st = fail(GAN_ERR_USAGE, "device %s does not run launches one by one: --simulate wants cpu",
                  s->api->name);
    else
        st = profile_steps(s, &session, out);
out:
    session_release(&session);
    comm_close(alone);
    return st;
}

// --- playing -------------------------------------------------------------------------------------

static double sum_time(int64_t ranks, size_t bytes, LinkModel link, bool wire) {
    double r = (double)ranks, moved = link.bandwidth > 0 ? (double)bytes / link.bandwidth : 0;
    if (ranks == 1)
        return 0;
    return wire ? link.latency + moved : ceil(log2(r)) * link.latency + 2 * (r - 1) / r * moved;
}

void scale_play(const Moments *m, int64_t ranks, LinkModel link, bool wire, ScalePoint *out) {
    double now = 0, free = 0, busy = 0, exposed = 0; // free: when the link is
    uint32_t calls = 0;
    for (uint32_t i = 0; i < m->n; i++)
        if (m->at[i].kind == RegionStart && m->at[i].call >= calls)
            calls = m->at[i].call + 1;
    double *done = mem_alloc((calls + 1) * sizeof *done);
    if (!done)
        bug("scale: no memory for %u collectives", calls);
    for (uint32_t i = 0; i < m->n; i++) {
        const Moment *x = &m->at[i];
        if (x->kind == RegionStart) {
            double takes = sum_time(ranks, x->bytes, link, wire);
            now += x->seconds; // parts that are not in place are copied
            free = fmax(free, now) + takes;
            done[x->call] = free;
            busy += takes;
        } else if (x->kind == RegionWait) {
            exposed += fmax(done[x->call] - now, 0);
            now = fmax(now, done[x->call]);
        } else {
            now += x->seconds;
        }
    }
    mem_free(done);
    out->ms = now * 1000;
    out->comm_ms = busy * 1000;
    out->exposed_ms = exposed * 1000;
}
