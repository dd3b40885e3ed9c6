// train_save.c - a save: samples, their distance from the data, a checkpoint, the page.
//
// The order of writing is such that whenever a checkpoint exists, its samples and log do too.
#include "device.h"
#include "measure.h"
#include "page.h"
#include "train.h"

#include <math.h>

// Samples of the data that images are compared with at a save: fewer when they are large.
enum { REAL_MOST = 256, REAL_NUMBERS = 12 << 20 };

// --- images --------------------------------------------------------------------------------------

// The first in full; of the others only a step's samples, but 4 at least, in whole rows of classes:
// a save must not cost many steps where a batch is small.
static size_t grid_fill(const Sampler *s, bool first, int64_t batch) {
    enum { Least = 4 };
    size_t all = sampler_fill(s), few = batch > Least ? (size_t)batch : Least;
    if (first || few >= all || s->show == ShowPoint)
        return all;
    size_t classes = s->columns ? s->columns : 1;
    return few < classes ? classes : few - few % classes;
}

static void add_grid(Train *t, const Sampler *s) {
    const Func *f = &t->session.compiled.module.entry.at[s->entry];
    bool first = !t->grid.n;
    if (t->session.compiled.entry[s->entry].collective.n) {
        say(&t->host->console,
            "sample `%.*s` sums over the batch, which is on %d ranks: saves do not show it",
            SARG(f->name), comm_size(t->comm));
        return;
    }
    Grid g = {.sampler = *s, .n = grid_fill(s, first, job_batch(t->job))};
    g.folder = first ? STR("samples") : path_join(t->perm, STR("samples"), f->name);
    g.x = arena_array(t->perm, float, g.n *sampler_elements(s));
    vec_push(t->perm, &t->grid, g);
}

GanStatus train_images(Train *t) {
    const Module *m = &t->session.compiled.module;
    Sampler first;
    if (!m->entry.n || sampler_find(m, (Str){0}, &first) != GAN_OK || !first.show) {
        say(&t->host->console, "no `sample` of the model can be displayed: saves have no images");
        return GAN_OK;
    }
    add_grid(t, &first);
    for (uint32_t i = 0; i < m->entry.n && t->grid.n; i++) {
        if (i == first.entry || !m->entry.at[i].result.n || !sampler_follows(m, i))
            continue;
        Sampler s = sampler_of(m, i);
        if (s.show)
            add_grid(t, &s);
    }
    for (uint32_t i = 0; i < t->grid.n; i++)
        TRY(dir_make(path_join(t->perm, t->dir, t->grid.at[i].folder)));
    size_t one = sampler_elements(&first);
    bool compared = t->grid.n && first.show == ShowImage && first.real_slot != NONE &&
                    !first.mapped; // other units, other shapes: `ganrun eval` measures them
    if (!compared)
        return GAN_OK;
    size_t n = REAL_NUMBERS / one;
    n = n > REAL_MOST ? REAL_MOST : n < 1 ? 1 : n;
    t->real = arena_array(t->perm, float, n *one);
    return feed_samples(t->feed, first.real_slot, 0, n, t->real, &t->n_real);
}

// How much x [n, elements] differ from one another: the root of an element's variance, in the mean
// over elements.
static double spread_of(const float *x, size_t n, size_t elements) {
    double all = 0;
    for (size_t e = 0; e < elements; e++) {
        double sum = 0, square = 0;
        for (size_t i = 0; i < n; i++) {
            double v = x[i * elements + e];
            sum += v, square += v * v;
        }
        all += fmax(0, square / (double)n - sum / (double)n * (sum / (double)n));
    }
    return sqrt(all / (double)elements);
}

// The first of the samples, where they are sounds: as many as last ten seconds.
static GanStatus write_sound(const Train *t, const Grid *g) {
    enum { Seconds = 10 };
    const Sampler *s = &g->sampler;
    if (!t->job->rate || !sampler_sounds(s))
        return GAN_OK;
    size_t n = (size_t)(Seconds * (int64_t)t->job->rate / s->type.dim[1]);
    n = n < 1 ? 1 : n < g->n ? n : g->n;
    return sampler_wav(s, g->x, n, t->job->rate,
                       run_file(t->perm, t->dir, g->folder, t->step, "wav"));
}

static GanStatus draw_grid(Train *t, Grid *g) {
    TRY(sampler_draw(&g->sampler, &t->session, t->feed, (Draws){t->job->seed, 0, g->n}, *t->perm,
                     g->x));
    TRY(sampler_grid(&g->sampler, g->x, g->n,
                     run_file(t->perm, t->dir, g->folder, t->step, "png")));
    return write_sound(t, g);
}

// How far the images of the first are from the data.
static GanStatus measure_distance(const Train *t, Distance *out) {
    *out = (Distance){NAN, NAN, NAN};
    if (!t->n_real)
        return GAN_OK;
    const Grid *g = &t->grid.at[0];
    SwdOptions o = {.product = dnn_product,
                    .seed = t->job->seed,
                    .patches = 16}; // a save must not cost many steps
    SwdResult r;
    TRY(swd_measure(g->x, g->n, t->real, t->n_real, g->sampler.chw, &o, &r));
    size_t one = sampler_elements(&g->sampler);
    double data = spread_of(t->real, t->n_real, one);
    *out = (Distance){r.pixels, r.levels ? r.mean : NAN,
                      data > 0 ? spread_of(g->x, g->n, one) / data : NAN};
    return GAN_OK;
}

// --- saving --------------------------------------------------------------------------------------

static Checkpoint checkpoint_of(const Train *t, Arena *a) {
    Checkpoint c = {.step = t->step,
                    .seed = job_seed(t->job),
                    .model = t->job->now_hash,
                    .real = t->job->real,
                    .epoch = (uint64_t)feed_epoch(t->feed),
                    .data = feed_identity(t->feed, a),
                    .keep = (uint32_t)t->job->keep,
                    .best = t->log.best,
                    .job = t->job};
    const uint64_t *position;
    c.streams = feed_positions(t->feed, &position);
    for (uint32_t i = 0; i < c.streams; i++)
        c.position[i] = position[i];
    return c;
}

GanStatus train_page(Train *t) {
    Page p = {.dir = t->dir,
              .job = t->job,
              .module = &t->session.compiled.module,
              .log = &t->log,
              .step = t->step};
    return page_write(*t->perm, &p);
}

// *kept: the checkpoint of this step is whole.
static GanStatus save(Train *t, bool *kept) {
    Distance distance;
    TRY(exec_finish(t->session.exec));
    comm_reset_feedback(t->comm);
    double began = time_now(); // what the steps had left to do is theirs
    TRY(checkpoint_compare(t->session.exec, t->comm));
    if (!ranks_first(t->comm))
        return GAN_OK;
    for (uint32_t i = 0; i < t->grid.n; i++)
        TRY(draw_grid(t, &t->grid.at[i]));
    TRY(measure_distance(t, &distance));
    Arena scratch = *t->perm;
    TRY(runlog_save(&t->log, scratch, t->step, distance));
    TRY(events_save(&t->events, scratch));
    if (t->step || t->job->from.len) { // else step 0 follows from the seed
        Checkpoint c = checkpoint_of(t, &scratch);
        GanStatus st = checkpoint_save(scratch, t->dir, t->session.exec, &c, kept);
        if (st == GAN_ERR_INPUT)
            return train_not_finite(t, t->step,
                                    str_format(t->perm, "step %u: %s", t->step, gan_error()));
        TRY(st);
    }
    TRY(train_page(t));
    t->progress.last_save = time_now() - began;
    t->progress.save += t->progress.last_save;
    return runlog_saved(&t->log, scratch, t->step, t->progress.last_save);
}

// A save that failed says what is left.
GanStatus train_save(Train *t) {
    bool kept = false;
    GanStatus st = save(t, &kept);
    if (st == GAN_OK)
        return st;
    return fail_in(st, "saving after step %u failed; %s", t->step,
                   kept ? "its checkpoint is whole" : "earlier checkpoints are as they were");
}
