// pack_arrays.c - from arrays to a pack: npy, IDX, HDF5 and the binary records of CIFAR.
#include "pack_build.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

typedef struct ArrayPlan {
    ArrayFile file;       // owned
    Array a;              // all of it, its data not used
    size_t samples, each; // elements of a sample
    uint32_t c, h, w;     // of a sample of three axes, or of a grey image's two
    bool image;           // unsigned bytes or 16-bit numbers in two or three axes
    bool fit;             // it changes size, channels or bits
    bool last;            // stored [h, w, c]
} ArrayPlan;

static GanStatus check_array(const Build *b, const Array *a, bool *image) {
    if (a->rank == 0 || a->count == 0)
        return fail(GAN_ERR_INPUT, "%.*s: an array without samples", SARG(b->path));
    *image = a->kind == 'u' && a->size <= 2;
    if (!*image && a->kind != 'f') {
        return fail(GAN_ERR_INPUT,
                    "%.*s: samples of type %c%u are not read; save them as u1, u2, f4 or f8",
                    SARG(b->path), a->kind, a->size);
    }
    if (a->rank == 1 && *image) {
        return fail(GAN_ERR_INPUT,
                    "%.*s: one axis of whole numbers; are these labels? Give them with --labels",
                    SARG(b->path));
    }
    for (uint32_t i = 1; i < a->rank; i++) {
        if (a->dim[i] <= 1 << 24)
            continue;
        return fail(GAN_ERR_INPUT, "%.*s: axis %u of %" PRId64 " is too long", SARG(b->path), i,
                    a->dim[i]);
    }
    return GAN_OK;
}

static GanStatus check_options(const Build *b, const ArrayPlan *p) {
    const PackOptions *o = b->o;
    bool images = b->kind == SourceIdx || b->kind == SourceCifar; // whose layout is known
    const OptionCheck useless[] = {
        {o->length > 0, "--length", "sounds"},
        {o->channels_last && images, "--channels-last", "npy, npz and HDF5 arrays"},
        {o->channels_last && p->a.rank < 3, "--channels-last", "samples of two axes or more"},
        {o->channels_last && p->image && p->a.rank == 3, "--channels-last",
         "samples with an axis of channels"},
        {o->fit != FitAuto && !p->fit, "--fit", "images that are resized"},
        {o->background_set && !p->fit, "--background", "images that are resized"}};
    return build_check_options(b, "arrays", sizeof useless / sizeof *useless, useless);
}

static GanStatus plan_array(const Build *b, ArrayPlan *p) {
    const Array *a = &p->a;
    const PackOptions *o = b->o;
    bool unsigned_numbers = false;
    TRY(check_array(b, a, &unsigned_numbers));
    p->samples = (size_t)a->dim[0];
    p->each = a->count / p->samples;
    p->image = unsigned_numbers && (a->rank == 3 || a->rank == 4);
    p->last = o->channels_last && !(p->image && a->rank == 3);
    const int64_t *d = a->dim + 1;
    if (p->image && a->rank == 3)
        p->c = 1, p->h = (uint32_t)d[0], p->w = (uint32_t)d[1];
    if (a->rank == 4) {
        p->c = (uint32_t)d[p->last ? 2 : 0];
        p->h = (uint32_t)d[p->last ? 0 : 1];
        p->w = (uint32_t)d[p->last ? 1 : 2];
    }
    p->fit = (o->w && (o->w != p->w || o->h != p->h)) || (o->channels && o->channels != p->c) ||
             (o->bits && o->bits != 8 * a->size);
    TRY(check_options(b, p));
    if (p->fit && !p->image) {
        return fail(GAN_ERR_INPUT,
                    "%.*s: its samples are not images (unsigned numbers [h, w] or [c, h, w]) and "
                    "cannot be fitted to a size, channels or bits; `ganrun data inspect` gives the "
                    "`data` line of a model that reads them",
                    SARG(b->path));
    }
    if (p->fit && (p->c < 1 || p->c > 4)) {
        return fail(GAN_ERR_INPUT, "%.*s: samples of %u channels cannot be resized%s",
                    SARG(b->path), p->c,
                    p->last ? "" : "; `ganrun data pack --channels-last` turns [h, w, c]");
    }
    return GAN_OK;
}

// Element of a sample at place k of its channels-first order.
static double element(const ArrayPlan *p, const Array *row, size_t k) {
    if (!p->last)
        return array_at(row, k);
    size_t c = (size_t)p->a.dim[p->a.rank - 1], plane = p->each / c;
    return array_at(row, k % plane * c + k / plane);
}

static void set_array_field(Build *b, const ArrayPlan *p) {
    if (p->image && p->fit) {
        build_rule(b, p->w, p->h, p->c >= 3 ? 3 : 1, 8 * p->a.size);
        return;
    }
    PackField f = {
        .name = STR("x"), .kind = p->image ? DataImage : DataFloat, .rank = p->a.rank - 1};
    f.dtype = p->a.kind == 'f' ? PackF32 : p->a.size == 1 ? PackU8 : PackU16;
    for (uint32_t i = 0; i < f.rank; i++)
        f.dim[i] = p->a.dim[i + 1];
    if (p->last && f.rank) {
        for (uint32_t i = f.rank - 1; i > 0; i--)
            f.dim[i] = p->a.dim[i];
        f.dim[0] = p->a.dim[p->a.rank - 1];
    }
    if (p->image)
        f.rank = 3, f.dim[0] = p->c, f.dim[1] = p->h, f.dim[2] = p->w;
    f.hi = f.dtype == PackU8 ? 255 : f.dtype == PackU16 ? 65535 : 0;
    b->field[b->fields++] = f;
}

static GanStatus fit_sample(Build *b, const ArrayPlan *p, const Array *row, uint8_t *record) {
    Image m = {0};
    TRY(image_new(p->w, p->h, p->c, 8 * p->a.size, &m));
    size_t plane = (size_t)p->w * p->h;
    for (size_t k = 0; k < p->each; k++) {
        size_t to = k % plane * p->c + k / plane;
        double v = element(p, row, k);
        if (m.bits == 8)
            ((uint8_t *)m.pixels)[to] = (uint8_t)v;
        else
            ((uint16_t *)m.pixels)[to] = (uint16_t)v;
    }
    GanStatus st = image_fit(&m, &b->rule, record);
    build_count_losses(b, image_losses(&m, &b->rule));
    image_release(&m);
    return st;
}

typedef struct Copied { // of all samples
    double lo, hi;
    bool rounded; // the last sample
} Copied;

// Copies a sample in the pack's type. Answers the first element that cannot be kept, or `each`.
static size_t copy_sample(const ArrayPlan *p, PackDtype t, bool missing, const Array *row,
                          uint8_t *record, Copied *all) {
    double from = INFINITY, to = -INFINITY;
    all->rounded = false;
    for (size_t k = 0; k < p->each; k++) {
        double v = element(p, row, k);
        float f = (float)v;
        uint16_t u = t == PackU16 ? (uint16_t)v : 0;
        bool keeps = isfinite(f) || (missing && isnan(f));
        if (t == PackF32 && !keeps)
            return k;
        if (t == PackU8)
            record[k] = (uint8_t)v;
        else if (t == PackU16)
            memcpy(record + 2 * k, &u, 2);
        else
            memcpy(record + 4 * k, &f, 4);
        from = v < from ? v : from;
        to = v > to ? v : to;
        all->rounded = all->rounded || (t == PackF32 && !isnan(v) && (double)f != v);
    }
    all->lo = from < all->lo ? from : all->lo;
    all->hi = to > all->hi ? to : all->hi;
    return p->each;
}

static GanStatus add_sample(Build *b, ArrayPlan *p, size_t i, uint8_t *record, Copied *all) {
    char name[300], reason[80];
    Array row;
    TRY(array_row(&p->file, i, &row));
    int n = snprintf(name, sizeof name, "%.*s:%zu", SARG(path_base(b->path)), i);
    Str label = {name, n < 0 ? 0 : (size_t)n < sizeof name ? (size_t)n : sizeof name - 1};
    if (p->fit)
        TRY(fit_sample(b, p, &row, record));
    size_t bad =
        p->fit ? p->each : copy_sample(p, b->field[0].dtype, b->o->missing, &row, record, all);
    if (bad < p->each) {
        double v = element(p, &row, bad);
        snprintf(reason, sizeof reason, "%s at element %zu",
                 isnan(v)   ? "NaN"
                 : isinf(v) ? "infinity"
                            : "a number beyond f32",
                 bad);
        b->sum.missing += isnan(v) != 0;
        return build_refuse(b, label, GAN_ERR_INPUT, reason);
    }
    if (b->labels.on)
        build_put_label_at(b, i, record);
    b->sum.good++;
    b->sum.rounded += all->rounded;
    return pack_writer_add(b->writer, record, label);
}

static GanStatus add_samples(Build *b, ArrayPlan *p) {
    size_t n = b->o->limit && b->o->limit < p->samples ? (size_t)b->o->limit : p->samples;
    Copied all = {.lo = INFINITY, .hi = -INFINITY};
    uint8_t *record = mem_alloc(pack_writer_stride(b->writer));
    GanStatus st = record ? GAN_OK : fail(GAN_ERR_MEMORY, "no memory for one sample");
    for (size_t i = 0; st == GAN_OK && i < n; i++)
        st = add_sample(b, p, i, record, &all);
    mem_free(record);
    if (b->field[0].dtype == PackF32 && all.lo <= all.hi)
        pack_writer_range(b->writer, 0, (float)all.lo, (float)all.hi);
    return st;
}

uint32_t array_fields(Arena *perm, Str path, SourceKind kind, const ArrayFile *f,
                      bool channels_last, PackField out[2]) {
    PackOptions o = {.channels_last = channels_last};
    Build b = {.o = &o, .path = path, .perm = perm, .kind = kind};
    ArrayPlan p = {.a = f->all};
    if (plan_array(&b, &p) != GAN_OK)
        return 0;
    if (f->head)
        build_labels_of_records(&b, f);
    set_array_field(&b, &p);
    build_label_field(&b);
    memcpy(out, b.field, b.fields * sizeof *out);
    return b.fields;
}

GanStatus build_array(Build *b) {
    ArrayPlan p = {0};
    bool missing = b->o->missing || b->o->skip_bad; // of a row that is left out
    TRY(array_open(b->path, b->kind, b->o->dataset, missing, &p.file));
    p.a = p.file.all;
    GanStatus st = plan_array(b, &p);
    if (st == GAN_OK)
        st = build_labels(b, p.samples);
    if (st == GAN_OK && p.file.head && !b->labels.on)
        build_labels_of_records(b, &p.file);
    if (st == GAN_OK) {
        set_array_field(b, &p);
        build_label_field(b);
        st = pack_writer_open(b->out_path, b->field, b->fields, &b->writer);
    }
    if (st == GAN_OK && b->o->missing)
        pack_writer_count_missing(b->writer);
    if (st == GAN_OK)
        st = add_samples(b, &p);
    array_close(&p.file);
    return st;
}
