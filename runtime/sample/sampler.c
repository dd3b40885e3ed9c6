// sampler.c - draws samples from an entry point and writes them as images and sounds.
//
// The noise of a sample depends on the seed and its index only, so every save shows the same
// latents.
#include "sampler.h"

#include <math.h>
#include <string.h>

enum { ColumnsMost = 32 }; // classes that stand side by side

// What is known of another field, and what is missing.
static bool is_mask(const Module *m, const Slot *s) {
    const Field *f = &m->stream.at[s->stream].field.at[s->site];
    return f->xform.n && f->xform.at[f->xform.n - 1].kind == XformKnown;
}

// A field has a slot for each batch that a step takes, and none for the one that `next` goes past
// unread. No samples are like a mask.
uint32_t sampler_field(const Module *m, uint32_t slot) {
    const Slot *s = &m->slot.at[slot];
    if (s->kind == SlotData && is_mask(m, s))
        return NONE;
    for (uint32_t i = 0; s->kind == SlotData && i <= slot; i++) {
        const Slot *first = &m->slot.at[i];
        if (first->kind == SlotData && first->stream == s->stream && first->site == s->site)
            return i;
    }
    return NONE;
}

// The data field whose samples look like `t`, NONE when there is none.
static uint32_t field_like(const Module *m, const Type *t) {
    for (uint32_t i = 0; i < m->slot.n; i++)
        if (sampler_field(m, i) == i && type_same_shape(&m->slot.at[i].type, t))
            return i;
    return NONE;
}

// The range its data was scaled to; a net without data, or with mapped data, is taken to end in
// tanh.
static void find_range(const Module *m, Sampler *s) {
    s->lo = -1, s->hi = 1;
    if (s->real_slot == NONE)
        return;
    const Slot *slot = &m->slot.at[s->real_slot];
    const Field *f = &m->stream.at[slot->stream].field.at[slot->site];
    for (uint32_t i = 0; i < f->xform.n; i++)
        if (f->xform.at[i].kind == XformScale)
            s->lo = f->xform.at[i].a, s->hi = f->xform.at[i].b;
        else if (f->xform.at[i].kind == XformMap)
            s->lo = -1, s->hi = 1, s->mapped = true;
}

// The range of a field's values where the text says it: images are 0 to 255 until they are scaled.
static bool field_range(const Field *f, double *lo, double *hi) {
    bool known = f->kind == FieldImage;
    *lo = 0, *hi = 255;
    for (uint32_t i = 0; i < f->xform.n; i++) {
        if (f->xform.at[i].kind == XformMap)
            return false;
        if (f->xform.at[i].kind == XformScale)
            *lo = f->xform.at[i].a, *hi = f->xform.at[i].b, known = true;
    }
    return known;
}

Str sampler_unreachable(Arena *a, const Module *m, uint32_t entry) {
    const Func *f = &m->entry.at[entry];
    Sampler s = sampler_of(m, entry);
    uint32_t node = s.node;
    while (graph_node(&f->g, node)->op == OpCast)
        node = node_in(&f->g, node, 0);
    Op op = (Op)graph_node(&f->g, node)->op;
    double lo, hi, least = op == OpTanh ? -1 : 0;
    if ((op != OpTanh && op != OpSigmoid) || s.real_slot == NONE)
        return (Str){0};
    const Slot *slot = &m->slot.at[s.real_slot];
    const Field *data = &m->stream.at[slot->stream].field.at[slot->site];
    if (!field_range(data, &lo, &hi) || (lo >= least && hi <= 1))
        return (Str){0};
    return str_format(a,
                      "warning: data %.*s goes from %g to %g, but sample %.*s is a %s, from %g to "
                      "1: `scale(%g, 1)` in the data statement gives both one range",
                      SARG(data->name), lo, hi, SARG(f->name), op_info[op].text, least, least);
}

// The entry's value in the units of its data, where a map has it in others.
static uint32_t raw_node(const Func *f) {
    Str last = f->result.at[f->result.n - 1].name;
    return str_ends(last, STR(".raw")) ? f->result.at[f->result.n - 1].node : f->result.at[0].node;
}

static bool reads_weights(const Module *m, const Func *f) {
    for (uint32_t i = 1; i < f->g.node.n; i++) {
        const Node *n = graph_node(&f->g, i);
        if (n->op == OpRead && m->slot.at[node_slot(&f->g, i)].kind == SlotParam)
            return true;
    }
    return false;
}

bool sampler_is_drawn(const Module *m, uint32_t entry) {
    const Func *f = &m->entry.at[entry];
    if (!f->result.n || !node_type(&f->g, f->result.at[0].node)->batched)
        return false; // a number is measured, whatever it is computed from
    return !reads_weights(m, f) && !f->data.n;
}

bool sampler_follows(const Module *m, uint32_t entry) {
    for (uint32_t i = 0; i < m->slot.n; i++)
        if (input_of(m, entry, i) && m->site.at[m->slot.at[i].site].dist != DistCategorical)
            return false;
    return reads_weights(m, &m->entry.at[entry]);
}

// As many columns for each class as fit, where the entry asks for one: a column is one class of the
// input that changes fastest.
static uint32_t class_columns(const Module *m, uint32_t entry) {
    int64_t classes = 0;
    for (uint32_t i = 0; i < m->slot.n; i++) {
        const Site *site = input_of(m, entry, i) ? &m->site.at[m->slot.at[i].site] : NULL;
        if (site && site->dist == DistCategorical && site->classes > 1)
            classes = site->classes;
    }
    if (classes < 1 || classes > ColumnsMost)
        return 0;
    return (uint32_t)(classes * (classes < 8 ? 8 / classes : 1));
}

static bool has_sides(const Type *t) {
    int64_t first = t->rank ? t->dim[0] : 0;
    return t->batched && (t->rank == 3 || t->rank == 4) && (first == 1 || first == 3);
}

bool sampler_too_large(const Type *t) {
    return has_sides(t) && !image_fits(t->dim[t->rank - 1], t->dim[t->rank - 2]);
}

static Show show_of(const Type *t) {
    int64_t first = t->rank ? t->dim[0] : 0;
    if (!t->batched || sampler_too_large(t))
        return ShowNothing;
    if (has_sides(t))
        return t->rank == 3 ? ShowImage : ShowVolume;
    if (t->rank == 2 && first >= 1 && first <= 3)
        return first > 1 ? ShowCloud : t->dim[1] > 1 ? ShowCurve : ShowNothing;
    return t->rank == 1 && (first == 2 || first == 3) ? ShowPoint : ShowNothing;
}

Sampler sampler_of(const Module *m, uint32_t entry) {
    const Func *f = &m->entry.at[entry];
    Sampler s = {.entry = entry, .node = f->result.at[0].node, .real_slot = NONE};
    s.raw = raw_node(f);
    s.type = *node_type(&f->g, s.node);
    s.show = show_of(&s.type);
    bool volume = s.show == ShowVolume;
    for (uint32_t i = 0; (volume || s.show == ShowImage) && i < 3; i++)
        s.chw[i] = (uint32_t)s.type.dim[i + (volume && i > 0)];
    s.columns = class_columns(m, entry);
    s.real_slot = field_like(m, &s.type);
    find_range(m, &s);
    return s;
}

GanStatus sampler_named(const Module *m, Str name, uint32_t *out) {
    Str known[64];
    uint32_t n = 0;
    for (uint32_t i = 0; i < m->entry.n; i++) {
        if (m->entry.at[i].result.n && str_eq(m->entry.at[i].name, name))
            return *out = i, GAN_OK;
        if (n < 64)
            known[n++] = m->entry.at[i].name;
    }
    if (!n)
        return fail(GAN_ERR_USAGE, "model %.*s has no sample at all", SARG(m->name));
    return fail(GAN_ERR_USAGE, "model %.*s has no sample `%.*s`%s", SARG(m->name), SARG(name),
                known_text(name, known, n).at);
}

// The first that shows most; of those that show alike, one that has weights.
static GanStatus find_shown(const Module *m, uint32_t *out) {
    Show show = ShowNothing;
    *out = NONE;
    for (uint32_t i = 0; i < m->entry.n; i++) {
        if (!m->entry.at[i].result.n)
            continue;
        Show own = sampler_of(m, i).show;
        bool better = own && !sampler_is_drawn(m, i) &&
                      (*out == NONE || !show || sampler_is_drawn(m, *out) || own < show);
        if (*out == NONE || better) {
            *out = i;
            show = own;
        }
    }
    return *out != NONE ? GAN_OK : fail(GAN_ERR_INPUT, "model %.*s has no `sample`", SARG(m->name));
}

GanStatus sampler_find(const Module *m, Str name, Sampler *out) {
    uint32_t entry;
    TRY(name.len ? sampler_named(m, name, &entry) : find_shown(m, &entry));
    *out = sampler_of(m, entry);
    return out->type.batched
               ? GAN_OK
               : fail(GAN_ERR_INPUT,
                      "sample %.*s is one value, not one per sample; add 0*sample_index() to "
                      "make it so",
                      SARG(m->entry.at[entry].name));
}

void sampler_settle(Sampler *s, const Module *m) {
    const Func *f = &m->entry.at[s->entry];
    s->node = f->result.at[0].node;
    s->raw = raw_node(f);
}

size_t sampler_elements(const Sampler *s) {
    return (size_t)type_sample(&s->type);
}

GanStatus sampler_draw(const Sampler *s, const Session *session, Feed *feed, Draws of,
                       Arena scratch, float *out) {
    Exec *e = session->exec;
    const Module *m = exec_module(e);
    size_t batch = (size_t)m->batch, one = sampler_elements(s);
    int64_t mine = m->share.first; // of a rank: added to what a step counts from
    double *x = arena_array(&scratch, double, batch *one);
    for (size_t at = 0; at < of.n; at += batch) {
        size_t first = of.first + at;
        Counters c = {.seed = of.seed, .sample0 = (int64_t)first - mine};
        TRY(inputs_put(s->inputs, e, s->entry, of.seed, first, scratch));
        if (feed)
            TRY(feed_entry(feed, e, s->entry, first / batch));
        TRY(exec_entry(e, s->entry, &c, NULL));
        TRY(exec_value_get(e, &session->compiled.entry[s->entry], s->node, x, batch * one));
        size_t part = of.n - at < batch ? of.n - at : batch;
        for (size_t i = 0; i < part * one; i++)
            out[at * one + i] = (float)x[i];
    }
    return GAN_OK;
}

// --- images --------------------------------------------------------------------------------------

enum { GridMost = 64, GridNumbers = 3 << 20, CloudsMost = 16, PointsMost = 1024 };
enum { CloudSide = 128, PointSide = 384 }; // pixels of a plot

size_t sampler_fill(const Sampler *s) {
    if (s->show == ShowPoint)
        return PointsMost;
    if (s->show == ShowCloud || s->show == ShowCurve)
        return CloudsMost;
    size_t n = GridNumbers / sampler_elements(s);
    n = n > GridMost ? GridMost : n < 1 ? 1 : n;
    return s->columns && n > s->columns ? n - n % s->columns : n;
}

static GanStatus write_grid(const float *x, size_t n, const uint32_t chw[3], uint32_t columns,
                            double lo, double hi, Str path) {
    if (!columns)
        for (columns = 1; columns * columns < n && columns < 8;)
            columns++;
    Image image = {0};
    columns = (uint32_t)image_columns(n, chw, columns);
    TRY(image_grid(x, n, chw, columns, lo, hi, &image));
    GanStatus st = image_write_png(path, &image);
    image_release(&image);
    return st;
}

// Half the width of a plot that holds nearly all of x: the next of 1, 2, 5, 10, ... so that plots
// of one run are alike.
static double half_width(const float *x, size_t n) {
    static const double steps[] = {1, 2, 2.5, 5};
    double square = 0;
    for (size_t i = 0; i < n; i++)
        square += (double)x[i] * x[i] / (double)n;
    double want = 1.7 * sqrt(square), unit = want > 0 ? pow(10, floor(log10(want))) : 1;
    for (uint32_t i = 0; i < sizeof steps / sizeof *steps; i++)
        if (isfinite(want) && want <= steps[i] * unit)
            return steps[i] * unit;
    return isfinite(want) ? 10 * unit : 1;
}

typedef struct Clouds { // each a plot of a grid
    const float *x;     // [n, d, p] coordinates; borrowed
    size_t n, p;
    uint32_t d;       // 2 or 3
    uint32_t columns; // of the grid; 0: as suits
    double lo, hi;    // of the axes
    uint32_t side;    // of a plot, in pixels
} Clouds;

static GanStatus plot_grid(const Clouds *c, Str path) {
    uint32_t side = c->side;
    size_t plot = 3 * (size_t)side * side, bytes;
    float *out = mem_mul(c->n * sizeof(float), plot, &bytes) ? mem_alloc(bytes) : NULL;
    if (!out)
        return fail(GAN_ERR_MEMORY, "no memory for %zu plots", c->n);
    for (size_t i = 0; i < c->n; i++)
        plot_points(c->x + i * c->d * c->p, c->p, c->d, c->lo, c->hi, side, out + i * plot);
    GanStatus st = write_grid(out, c->n, (const uint32_t[]){3, side, side}, c->columns, 0, 1, path);
    mem_free(out);
    return st;
}

// All samples in one plot.
static GanStatus plot_all(const Sampler *s, const float *x, size_t n, Str path) {
    uint32_t d = (uint32_t)s->type.dim[0];
    float *axes = mem_alloc(n * d * sizeof *axes); // [d, n]
    if (!axes)
        return fail(GAN_ERR_MEMORY, "no memory for %zu points", n);
    for (size_t i = 0; i < n; i++)
        for (uint32_t k = 0; k < d; k++)
            axes[k * n + i] = x[i * d + k];
    double half = half_width(x, n * d);
    Clouds one = {axes, 1, n, d, .lo = -half, .hi = half, .side = PointSide};
    if (s->real_slot != NONE) {
        one.lo = s->lo;
        one.hi = s->hi;
    }
    GanStatus st = plot_grid(&one, path);
    mem_free(axes);
    return st;
}

static GanStatus cloud_grid(const Sampler *s, const float *x, size_t n, Str path) {
    const int64_t *dim = s->type.dim;
    return plot_grid(
        &(Clouds){x, n, (size_t)dim[1], (uint32_t)dim[0], s->columns, s->lo, s->hi, CloudSide},
        path);
}

// n curves [1, p] as clouds [2, p], whose first row goes from lo to hi.
static GanStatus curve_grid(const Sampler *s, const float *x, size_t n, Str path) {
    size_t p = (size_t)s->type.dim[1], bytes;
    float *out = mem_mul(n * 2 * sizeof(float), p, &bytes) ? mem_alloc(bytes) : NULL;
    if (!out)
        return fail(GAN_ERR_MEMORY, "no memory for %zu curves", n);
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < p; k++) {
            out[2 * i * p + k] = (float)(s->lo + (s->hi - s->lo) * (double)k / (double)(p - 1));
            out[(2 * i + 1) * p + k] = x[i * p + k];
        }
    GanStatus st = plot_grid(&(Clouds){out, n, p, 2, s->columns, s->lo, s->hi, CloudSide}, path);
    mem_free(out);
    return st;
}

// n volumes [c, d, h, w] as images [c, h, w] of the greatest along d.
static GanStatus volume_grid(const Sampler *s, const float *x, size_t n, Str path) {
    size_t depth = (size_t)s->type.dim[1], area = (size_t)s->chw[1] * s->chw[2];
    size_t planes = n * s->chw[0], bytes;
    float *out = mem_mul(planes * sizeof(float), area, &bytes) ? mem_alloc(bytes) : NULL;
    if (!out)
        return fail(GAN_ERR_MEMORY, "no memory for %zu volumes", n);
    for (size_t i = 0; i < planes; i++)
        for (size_t k = 0; k < area; k++) {
            const float *column = x + i * depth * area + k;
            float top = column[0];
            for (size_t d = 1; d < depth; d++)
                top = column[d * area] > top ? column[d * area] : top;
            out[i * area + k] = top;
        }
    GanStatus st = write_grid(out, n, s->chw, s->columns, s->lo, s->hi, path);
    mem_free(out);
    return st;
}

bool sampler_sounds(const Sampler *s) {
    const Type *t = &s->type;
    return t->batched && t->rank == 2 && t->dim[0] >= 1 && t->dim[0] <= SOUND_CHANNELS;
}

GanStatus sampler_wav(const Sampler *s, const float *x, size_t n, uint32_t rate, Str path) {
    const int64_t *dim = s->type.dim;
    return sound_write(path, &(Sounds){x, n, (size_t)dim[1], (uint32_t)dim[0], rate, s->lo, s->hi});
}

GanStatus sampler_grid(const Sampler *s, const float *x, size_t n, Str path) {
    switch (s->show) {
    case ShowImage:
        return write_grid(x, n, s->chw, s->columns, s->lo, s->hi, path);
    case ShowCloud:
        return cloud_grid(s, x, n, path);
    case ShowVolume:
        return volume_grid(s, x, n, path);
    case ShowCurve:
        return curve_grid(s, x, n, path);
    case ShowPoint:
        return plot_all(s, x, n, path);
    case ShowNothing:
        break;
    }
    bug("sampler: nothing to show of entry %u", s->entry);
}
