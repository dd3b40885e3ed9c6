// interp.c - `ganrun interp`: latent interpolation between samples of a run.
//
// In: a checkpoint. Out: a grid; row r goes from sample r to sample r + 1 of `ganrun sample`, the
// last row back to sample 0. The entry's uniform and normal random numbers are fed from here,
// interpolated between those of two samples; normal ones spherically, which keeps their norm
// typical. All other random numbers (labels, dropout), and a class that is an input, are those of
// the row's first sample.
#include "commands.h"
#include "sampler.h"
#include "trained.h"

#include <math.h>
#include <string.h>

typedef struct Blend { // one fed draw of the entry
    uint32_t slot;
    Dist dist;
    size_t one; // numbers of a sample; of the whole where it is shared
    bool batched;
    float *end;   // [rows, one] of samples 0, 1, ...; [one]
    double *room; // [batch, one]
} Blend;

typedef struct Interp {
    Arena *perm;
    const Host *host;
    const Options *options;
    Str path;    // to write
    Trained run; // owned
    Sampler sampler;
    uint64_t seed;
    size_t rows, columns;
    VEC(Blend) blend;
    float *out; // [rows, columns, one]
} Interp;

// --- draws ---------------------------------------------------------------------------------------

static bool entry_reads(const Func *f, uint32_t slot) {
    for (uint32_t i = 1; i < f->g.node.n; i++)
        if (graph_node(&f->g, i)->op == OpRead && node_slot(&f->g, i) == slot)
            return true;
    return false;
}

static GanStatus find_draws(Interp *p) {
    const Module *m = &p->run.session.compiled.module;
    const Func *f = &m->entry.at[p->sampler.entry];
    bool between = false;
    for (uint32_t i = 0; i < m->slot.n; i++) {
        const Slot *s = &m->slot.at[i];
        if (s->kind != SlotFed || !entry_reads(f, i))
            continue;
        Blend *b = vec_add(p->perm, &p->blend);
        *b = (Blend){.slot = i, .dist = m->site.at[s->site].dist, .batched = s->type.batched};
        b->one = (size_t)type_sample(&s->type);
        b->room = arena_array(p->perm, double, (b->batched ? (size_t)m->batch : 1) * b->one);
        b->end = arena_array(p->perm, float, (b->batched ? p->rows : 1) * b->one);
        between = between || b->dist != DistCategorical;
        input_values(NULL, m, i, (Draws){p->seed, 0, p->rows}, *p->perm, b->end);
    }
    return between ? GAN_OK
                   : fail(GAN_ERR_INPUT,
                          "sample %.*s draws no uniform or normal numbers: there is nothing to "
                          "interpolate",
                          SARG(f->name));
}

// Between a and b, which are random directions of about equal length: along the arc (Shoemake,
// "Animating rotation with quaternion curves", 1985).
static void blend_arc(const float *a, const float *b, size_t n, double t, double *out) {
    double aa = 0, bb = 0, ab = 0;
    for (size_t i = 0; i < n; i++) {
        aa += (double)a[i] * a[i];
        bb += (double)b[i] * b[i];
        ab += (double)a[i] * b[i];
    }
    double cosine = aa > 0 && bb > 0 ? ab / sqrt(aa * bb) : 1;
    double angle = acos(fmin(fmax(cosine, -1), 1)), sine = sin(angle);
    double wa = sine > 1e-6 ? sin((1 - t) * angle) / sine : 1 - t;
    double wb = sine > 1e-6 ? sin(t * angle) / sine : t;
    for (size_t i = 0; i < n; i++)
        out[i] = wa * a[i] + wb * b[i];
}

static void blend_line(const float *a, const float *b, size_t n, double t, double *out) {
    for (size_t i = 0; i < n; i++)
        out[i] = (1 - t) * a[i] + t * b[i];
}

// --- the grid ------------------------------------------------------------------------------------

static GanStatus feed_draws(Interp *p, size_t first, double t) {
    size_t batch = (size_t)p->run.session.compiled.module.batch;
    for (uint32_t k = 0; k < p->blend.n; k++) {
        Blend *b = &p->blend.at[k];
        for (size_t i = 0; i < (b->batched ? batch : 1); i++) {
            size_t row = (first + i) % p->rows, next = b->batched ? (row + 1) % p->rows : 0;
            const float *from = b->end + (b->batched ? row : 0) * b->one,
                        *to = b->end + next * b->one;
            double at = b->dist == DistCategorical ? 0 : t;
            (b->dist == DistNormal || b->dist == DistTruncated ? blend_arc : blend_line)(
                from, to, b->one, at, b->room + i * b->one);
        }
        TRY(exec_slot_put(p->run.session.exec, b->slot, b->room,
                          (b->batched ? batch : 1) * b->one));
    }
    return GAN_OK;
}

// A column at a time: sample i of the batch is row i, so what is not blended stays along a row.
static GanStatus draw_column(Interp *p, size_t column, double *x) {
    const Session *s = &p->run.session;
    size_t batch = (size_t)s->compiled.module.batch, one = sampler_elements(&p->sampler);
    double t = p->columns > 1 ? (double)column / (double)(p->columns - 1) : 0;
    for (size_t first = 0; first < p->rows; first += batch) {
        Counters c = {.seed = p->seed, .sample0 = (int64_t)first};
        TRY(feed_draws(p, first, t));
        if (p->run.feed)
            TRY(feed_entry(p->run.feed, s->exec, p->sampler.entry, first / batch));
        TRY(exec_entry(s->exec, p->sampler.entry, &c, NULL));
        TRY(exec_value_get(s->exec, &s->compiled.entry[p->sampler.entry], p->sampler.node, x,
                           batch * one));
        for (size_t i = 0; i < batch && first + i < p->rows; i++)
            for (size_t k = 0; k < one; k++)
                p->out[((first + i) * p->columns + column) * one + k] = (float)x[i * one + k];
    }
    return GAN_OK;
}

static GanStatus write_out(const Interp *p) {
    const Sampler *s = &p->sampler;
    Str path = p->path;
    if (str_eq(path_ext(path), STR("npy"))) {
        int64_t dim[DATA_MAX_RANK] = {(int64_t)p->rows, (int64_t)p->columns};
        for (uint32_t i = 0; i < s->type.rank; i++)
            dim[i + 2] = s->type.dim[i];
        return npy_write_f32(path, p->out, s->type.rank + 2, dim);
    }
    Image image = {0};
    TRY(image_grid(p->out, p->rows * p->columns, s->chw, (uint32_t)p->columns, s->lo, s->hi,
                   &image));
    GanStatus st = image_write_png(path, &image);
    image_release(&image);
    return st;
}

static GanStatus check_shape(const Interp *p) {
    size_t numbers;
    bool grid = str_ends(p->path, STR(".png"));
    if (!grid && p->sampler.type.rank + 2 > DATA_MAX_RANK)
        return fail(GAN_ERR_USAGE, "rows of samples of %u axes are too many axes for an npy file",
                    p->sampler.type.rank);
    if (grid && p->sampler.show != ShowImage)
        return fail(GAN_ERR_USAGE, "this sample is not an image: write it with -o NAME.npy");
    if (!mem_mul(p->rows * p->columns, sampler_elements(&p->sampler), &numbers) ||
        numbers > (size_t)1 << 29)
        return fail(GAN_ERR_USAGE, "%zu rows of %zu are too much for one file", p->rows,
                    p->columns);
    return GAN_OK;
}

// All that may be wrong with what is asked of the model.
static GanStatus check_asked(void *user) {
    Interp *p = user;
    const Module *m = &p->run.session.compiled.module;
    TRY(sampler_find(m, option_text(p->options, OptEntry, (Str){0}), &p->sampler));
    TRY(check_shape(p));
    const Func *f = &m->entry.at[p->sampler.entry];
    TRY(trained_reads(f, p->options));
    return f->data.n ? trained_feed(p->perm, p->host, &p->run) : GAN_OK;
}

static GanStatus run_interp(Interp *p) {
    const Options *o = p->options;
    p->path = option_text(o, OptFile, path_join(p->perm, o->file.at[0], STR("interp.png")));
    TRY(path_writes(p->path, ".png .npy", false));
    TRY(run_spares(*p->perm, p->path));
    TRY(trained_open(p->perm, p->host, o,
                     &(TrainedOptions){.fed = true, .check = check_asked, .user = p}, &p->run));
    p->seed = (uint64_t)option_number(o, OptSeed, (int64_t)p->run.job.seed);
    const Session *s = &p->run.session;
    sampler_settle(&p->sampler, &s->compiled.module);
    TRY(find_draws(p));
    size_t one = sampler_elements(&p->sampler);
    p->out = arena_array(p->perm, float, p->rows * p->columns * one);
    double *x = arena_array(p->perm, double, (size_t)s->compiled.module.batch *one);
    for (size_t c = 0; c < p->columns; c++)
        TRY(draw_column(p, c, x));
    TRY(write_out(p));
    p->host->console.result(p->host->console.user, str_format(p->perm, "%.*s\n", SARG(p->path)));
    return GAN_OK;
}

GanStatus cmd_interp(Arena *perm, const Host *h, const Options *o) {
    Interp p = {
        .perm = perm,
        .host = h,
        .options = o,
        .rows = (size_t)option_number(o, OptRows, 8),
        .columns = (size_t)option_number(o, OptSamples, 8),
    };
    GanStatus st = run_interp(&p);
    trained_close(&p.run);
    return st;
}
