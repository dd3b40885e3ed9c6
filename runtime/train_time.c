// train_time.c - a step timed launch by launch, now and then: where its time goes, and how large
// its gradients are.
//
// Only devices that return when a launch is done can be asked so; launching them one by one costs
// next to nothing there, and changes no bit. A gradient is looked at when its last part is there,
// before its memory is used for something else; one that an optimizer's kernel makes of something
// else than a sum is left out.
#include "train.h"

#include <math.h>

bool train_timed(const Train *t) {
    const Exec *e = t->session.exec;
    uint32_t n = t->step - t->progress.first;
    return ranks_first(t->comm) && exec_launches(e) && !exec_fetches(e) && !t->watch &&
           n % TIMED_EVERY == TIMED_FIRST;
}

// --- gradients -----------------------------------------------------------------------------------

// The stored values whose sum a gradient is, each times a number: what an optimizer's kernel still
// does with them on its way in.
static bool find_parts(const Plan *p, uint32_t node, double factor, TimedGrad *out) {
    const Graph *g = &p->func->g;
    Place at = p->place[node];
    double c;
    if (at.space == SpaceWork) {
        int64_t n = type_elements(g, node_type(g, at.owner));
        if (out->n == GRAD_PARTS || (out->n && out->elements != (size_t)n))
            return false;
        out->elements = (size_t)n;
        out->part[out->n] = at.owner;
        out->factor[out->n++] = factor;
        return true;
    }
    uint32_t a = graph_node(g, node)->nin > 0 ? node_in(g, node, 0) : 0,
             b = graph_node(g, node)->nin > 1 ? node_in(g, node, 1) : 0;
    switch (graph_node(g, node)->op) {
    case OpReshape:
        return find_parts(p, a, factor, out);
    case OpNeg:
        return find_parts(p, a, -factor, out);
    case OpAdd:
        return find_parts(p, a, factor, out) && find_parts(p, b, factor, out);
    case OpSub:
        return find_parts(p, a, factor, out) && find_parts(p, b, -factor, out);
    case OpMul:
        return node_is_const(g, b, &c) && find_parts(p, a, factor * c, out);
    case OpDiv:
        return node_is_const(g, b, &c) && find_parts(p, a, factor / c, out);
    default:
        return false;
    }
}

// The launch that each stored value comes from.
static uint32_t *find_launches(Arena *a, const Plan *p) {
    uint32_t *of = arena_array(a, uint32_t, p->func->g.node.n);
    for (uint32_t l = 0; l < p->launch.n; l++) {
        for (uint32_t i = 0; i < p->launch.at[l].instances; i++) {
            const Region *r = &p->region.at[p->merge.at[p->launch.at[l].first + i]];
            for (uint32_t k = 0; k < r->out.n; k++)
                of[r->out.at[k]] = l;
        }
    }
    return of;
}

static void find_gradients(Arena *perm, const Plan *p, Timing *y) {
    uint32_t most = 0;
    for (uint32_t i = 0; i < p->func->update.n; i++)
        most += p->func->update.at[i].grad.n;
    y->grad = arena_array(perm, TimedGrad, most);
    Arena scratch = *perm;
    const uint32_t *launch = find_launches(&scratch, p);
    for (uint32_t i = 0, n = p->func->update.n; i < n; i++) {
        for (uint32_t k = 0; k < p->func->update.at[i].grad.n; k++) {
            TimedGrad d = {.update = i};
            if (!find_parts(p, p->func->update.at[i].grad.at[k].node, 1, &d))
                continue;
            for (uint32_t x = 0; x < d.n; x++)
                d.launch = launch[d.part[x]] > d.launch ? launch[d.part[x]] : d.launch;
            y->grad[y->grads++] = d;
        }
    }
}

void train_time_init(Train *t) {
    const Plan *p = exec_step_plan(t->session.exec);
    Timing *y = &t->timing;
    shares_init(t->perm, p, &y->shares);
    find_gradients(t->perm, p, y);
    y->square = arena_array(t->perm, double, p->func->update.n + 1);
    y->seen = arena_array(t->perm, bool, p->func->update.n + 1);
    y->norm = arena_array(t->perm, double, t->meter.series.n + 1);
}

static GanStatus add_gradient(Train *t, const Plan *p, const TimedGrad *d) {
    Arena scratch = *t->perm;
    double *sum = arena_array(&scratch, double, d->elements);
    char *bytes = arena_alloc(&scratch, d->elements * sizeof(double), 64);
    for (uint32_t k = 0; k < d->n; k++) {
        TRY(exec_value_save(t->session.exec, p, d->part[k], bytes));
        values_add(sum, d->factor[k], bytes, d->elements,
                   (Dtype)node_type(&p->func->g, d->part[k])->dtype);
    }
    for (size_t i = 0; i < d->elements; i++)
        t->timing.square[d->update] += sum[i] * sum[i];
    t->timing.seen[d->update] = true;
    return GAN_OK;
}

// --- launches ------------------------------------------------------------------------------------

GanStatus train_time_launch(Train *t, uint32_t launch, bool done) {
    const Plan *p = exec_step_plan(t->session.exec);
    if (!done) {
        t->timing.began = time_now();
        return GAN_OK;
    }
    shares_add(&t->timing.shares, p, launch, time_now() - t->timing.began);
    for (uint32_t i = 0; i < t->timing.grads; i++)
        if (t->timing.grad[i].launch == launch)
            TRY(add_gradient(t, p, &t->timing.grad[i]));
    return GAN_OK;
}

// Updates that log as one loss (branches, of which one runs) have one norm.
static void take_norms(Train *t) {
    const Meter *m = &t->meter;
    Timing *y = &t->timing;
    for (uint32_t i = 0; i < m->series.n; i++)
        y->norm[i] = NAN;
    for (uint32_t i = 0; i < m->source.n; i++) {
        const SeriesSource *s = &m->source.at[i];
        if (m->series.at[s->series].report || !y->seen[s->index])
            continue;
        y->norm[s->series] = sqrt(y->square[s->index]);
        y->square[s->index] = 0;
        y->seen[s->index] = false;
    }
}

void train_time_end(Train *t, StepLine *line) {
    Timing *y = &t->timing;
    Spent now = progress_spent(&t->progress), since = spent_since(now, y->spent);
    parts_find(t->perm, &y->shares, since, &y->parts);
    y->spent = now;
    take_norms(t);
    line->parts = &y->parts;
    line->norm = y->norm;
}
