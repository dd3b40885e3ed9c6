// train_save.c - a save: samples, their distance from the data, a checkpoint, the page.
//
// The order of writing is such that whenever a checkpoint exists, its samples and log do too.
#include "device.h"
#include "page.h"
#include "train.h"

#include <math.h>

// Samples of the data that images are compared with at a save: fewer when they are large.
enum { REAL_MOST = 256, REAL_NUMBERS = 12 << 20 };

// --- images --------------------------------------------------------------------------------------

GanStatus train_images(Train *t) {
    const Module *m = &t->session.compiled.module;
    if (!m->entry.n || sampler_find(m, (Str){0}, &t->sampler) != GAN_OK || !t->sampler.show) {
        say(&t->host->console, "no `sample` of the model can be displayed: saves have no images");
        return GAN_OK;
    }
    if (t->session.compiled.entry[t->sampler.entry].collective.n) {
        say(&t->host->console,
            "the model's `sample` sums over the batch, which is on %d ranks: "
            "saves have no images",
            comm_size(t->comm));
        return GAN_OK;
    }
    size_t one = sampler_elements(&t->sampler);
    t->images = sampler_fill(&t->sampler);
    t->image = arena_array(t->perm, float, t->images *one);
    bool compared = t->sampler.show == ShowImage && t->sampler.real_slot != NONE &&
                    !t->sampler.mapped; // other units, other shapes: `ganrun eval` measures them
    if (!compared)
        return GAN_OK;
    size_t n = REAL_NUMBERS / one;
    n = n > REAL_MOST ? REAL_MOST : n < 1 ? 1 : n;
    t->real = arena_array(t->perm, float, n *one);
    return feed_samples(t->feed, t->sampler.real_slot, 0, n, t->real, &t->n_real);
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
static GanStatus write_sound(const Train *t) {
    enum { Seconds = 10 };
    const Sampler *s = &t->sampler;
    if (!t->job->rate || !sampler_sounds(s))
        return GAN_OK;
    size_t n = (size_t)(Seconds * (int64_t)t->job->rate / s->type.dim[1]);
    n = n < 1 ? 1 : n < t->images ? n : t->images;
    return sampler_wav(s, t->image, n, t->job->rate,
                       run_file(t->perm, t->dir, "samples", t->step, "wav"));
}

// Draws the grid and measures how far its images are from the data.
static GanStatus draw_images(Train *t, Distance *out) {
    *out = (Distance){NAN, NAN, NAN};
    if (!t->images)
        return GAN_OK;
    const Plan *plan = &t->session.compiled.entry[t->sampler.entry];
    TRY(sampler_draw(&t->sampler, t->session.exec, plan, t->feed, t->job->seed, 0, t->images,
                     *t->perm, t->image));
    TRY(sampler_grid(&t->sampler, t->image, t->images,
                     run_file(t->perm, t->dir, "samples", t->step, "png")));
    TRY(write_sound(t));
    if (!t->n_real)
        return GAN_OK;
    SwdOptions o = {.product = dnn_product,
                    .seed = t->job->seed,
                    .patches = 16}; // a save must not cost many steps
    SwdResult r;
    TRY(swd_measure(t->image, t->images, t->real, t->n_real, t->sampler.chw, &o, &r));
    size_t one = sampler_elements(&t->sampler);
    double data = spread_of(t->real, t->n_real, one);
    *out = (Distance){r.pixels, r.levels ? r.mean : NAN,
                      data > 0 ? spread_of(t->image, t->images, one) / data : NAN};
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
    TRY(draw_images(t, &distance));
    Arena scratch = *t->perm;
    TRY(runlog_save(&t->log, scratch, t->step, distance));
    TRY(events_save(&t->events, scratch));
    if (t->step || t->job->from.len) { // else step 0 follows from the seed
        Checkpoint c = checkpoint_of(t, &scratch);
        GanStatus st = checkpoint_save(scratch, t->dir, t->session.exec, &c);
        if (st == GAN_ERR_INPUT)
            return train_not_finite(t, t->step,
                                    str_format(t->perm, "step %u: %s", t->step, gan_error()));
        TRY(st);
        *kept = true;
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
