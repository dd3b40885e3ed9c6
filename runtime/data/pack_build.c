// pack_build.c - from any source to a pack: decode, fit, label, write; and a list of what could not
// be read.
//
// In: a folder, archive, npy or IDX file. Out: a pack, the same bytes for every number of threads.
// A sample that cannot be used is reported with its reason and left out; unless that was asked for,
// no pack is written at all then.
#include "guard.h"
#include "sources.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct Labels {
    bool on;
    const Str *class_name; // folders: [classes], sorted
    uint32_t classes;
    Blob blob;   // file: owned
    Array array; // file: [n] whole numbers
} Labels;

typedef struct Build {
    const PackOptions *o; // borrowed
    Str path;             // borrowed
    Arena *perm;
    FitRule rule;
    Labels labels;
    PackField field[2]; // what is asked of the writer
    uint32_t fields;
    PackWriter *writer; // owned
    SourceKind kind;
    Str out_path; // "": into *pack
    Pack *pack;   // borrowed
    PackSummary sum;
} Build;

static GanStatus refuse_sample(Build *b, Str name, const char *reason) {
    b->sum.bad++;
    if (b->o->bad)
        b->o->bad(b->o->user, name, reason);
    return GAN_OK;
}

// --- labels --------------------------------------------------------------------------------------

static int by_text(const void *a, const void *b) {
    return str_cmp(*(const Str *)a, *(const Str *)b);
}

static GanStatus labels_of_folders(Build *b) {
    StrVec names = {0};
    TRY(source_names(b->perm, b->path, b->kind, &names));
    for (uint32_t i = 0; i < names.n; i++)
        names.at[i] = path_dir(names.at[i]);
    if (names.n)
        qsort(names.at, names.n, sizeof *names.at, by_text);
    uint32_t n = 0;
    for (uint32_t i = 0; i < names.n; i++)
        if (n == 0 || !str_eq(names.at[n - 1], names.at[i]))
            names.at[n++] = names.at[i];
    b->labels.class_name = names.at;
    b->labels.classes = n;
    return GAN_OK;
}

static GanStatus labels_of_file(Labels *l, Str path) {
    if (!file_exists(path))
        return fail(GAN_ERR_INPUT, "%.*s: no such file of labels", SARG(path));
    TRY(blob_open(path, &l->blob));
    bool npy = l->blob.n > 0 && l->blob.ptr[0] == 0x93;
    GanStatus st = npy ? npy_parse(l->blob.ptr, l->blob.n, &l->array)
                       : idx_parse(l->blob.ptr, l->blob.n, &l->array);
    if (st != GAN_OK)
        return fail_in(st, "%.*s", SARG(path));
    if (l->array.rank != 1 || l->array.kind == 'f')
        return fail(GAN_ERR_INPUT, "%.*s: labels are one axis of whole numbers", SARG(path));
    for (size_t i = 0; i < l->array.count; i++) {
        double v = array_at(&l->array, i);
        if (v < 0 || v > 1e6) {
            return fail(GAN_ERR_INPUT, "%.*s: label %zu is %.0f, not in 0..1000000", SARG(path), i,
                        v);
        }
        if ((uint32_t)v >= l->classes)
            l->classes = (uint32_t)v + 1;
    }
    return GAN_OK;
}

// CIFAR's classes are in front of its pictures.
static void labels_of_records(Build *b, const ArrayFile *f) {
    size_t n = (size_t)f->all.dim[0];
    uint8_t *class = arena_array(b->perm, uint8_t, n);
    for (size_t i = 0; i < n; i++)
        class[i] = f->all.data[i * (f->head + f->row) + f->head - 1];
    b->labels.on = true;
    b->labels.classes = f->head == 1 ? 10 : 100;
    b->labels.array = (Array){.kind = 'u', .size = 1, .rank = 1, .data = class, .count = n};
    b->labels.array.dim[0] = f->all.dim[0];
}

static GanStatus labels_open(Build *b, size_t samples) {
    Str asked = b->o->labels;
    b->labels.on = asked.len > 0;
    bool pictures = b->kind == SourceFolder || b->kind == SourceArchive,
         folders = str_eq(asked, STR("folders"));
    if (!b->labels.on)
        return GAN_OK;
    if (pictures && !folders) {
        return fail(GAN_ERR_USAGE,
                    "pictures take their labels from folders (--labels folders), not from a file");
    }
    if (!pictures && folders) {
        return fail(GAN_ERR_USAGE,
                    "an array has no folders; give its labels as an IDX or npy file");
    }
    if (folders)
        return labels_of_folders(b);
    TRY(labels_of_file(&b->labels, asked));
    if (b->labels.array.count == samples)
        return GAN_OK;
    return fail(GAN_ERR_INPUT, "%.*s: %zu labels for %zu samples", SARG(asked),
                b->labels.array.count, samples);
}

static PackField label_field(const Labels *l) {
    return (PackField){.name = STR("y"),
                       .kind = DataLabel,
                       .dtype = PackU32,
                       .classes = l->classes,
                       .class_name = l->class_name};
}

static void add_label_field(Build *b) {
    if (b->labels.on)
        b->field[b->fields++] = label_field(&b->labels);
}

static void put_label(const Build *b, uint32_t label, uint8_t *record) {
    memcpy(record + pack_writer_field(b->writer, 1)->offset, &label, sizeof label);
}

static uint32_t label_of_name(const Labels *l, Str name) {
    Str folder = path_dir(name);
    const Str *at = bsearch(&folder, l->class_name, l->classes, sizeof folder, by_text);
    return at ? (uint32_t)(at - l->class_name) : 0;
}

// --- pictures ------------------------------------------------------------------------------------

static GanStatus work_picture(void *user, const Item *item, void *result) {
    const Build *b = user;
    Image m = {0};
    TRY(image_decode(item->bytes, item->n, &m));
    GanStatus st = image_fit(&m, &b->rule, result);
    image_release(&m);
    if (st == GAN_OK && b->labels.on)
        put_label(b, label_of_name(&b->labels, item->name), result);
    return st;
}

static GanStatus done_picture(void *user, const Item *item, GanStatus st, const char *reason,
                              void *result) {
    Build *b = user;
    if (st == GAN_ERR_MEMORY)
        return fail(st, "%.*s: %s", SARG(item->name), reason);
    if (st != GAN_OK)
        return refuse_sample(b, item->name, reason);
    b->sum.good++;
    return pack_writer_add(b->writer, result, item->name);
}

// Size and bits of the first picture that can be read; w stays 0 where there is none.
static GanStatus probe_pictures(Build *b, Image *first) {
    Source *s = NULL;
    TRY(source_open(b->path, b->kind, &s));
    GanStatus st = GAN_OK;
    for (bool end = false; st == GAN_OK && !end && !first->w;) {
        Item item;
        Image m = {0};
        st = source_next(s, &item, &end);
        if (st != GAN_OK || end)
            break;
        GanStatus read = item_load(&item);
        if (read == GAN_OK)
            read = image_decode(item.bytes, item.n, &m);
        if (read == GAN_ERR_MEMORY)
            st = read;
        *first = (Image){.w = m.w, .h = m.h, .channels = m.channels, .bits = m.bits};
        image_release(&m);
        item_release(&item);
    }
    source_close(s);
    return st;
}

static void set_rule(Build *b, uint32_t w, uint32_t h, uint32_t channels, uint32_t bits) {
    const PackOptions *o = b->o;
    b->rule = (FitRule){.w = o->w ? o->w : w,
                        .h = o->h ? o->h : h,
                        .channels = o->channels ? o->channels : channels,
                        .bits = o->bits ? o->bits : bits,
                        .mode = o->fit};
    for (uint32_t i = 0; i < 3; i++)
        b->rule.ground[i] = o->ground_set ? o->ground[i] : 255;
    b->field[b->fields++] = (PackField){.name = STR("x"),
                                        .kind = DataImage,
                                        .dtype = b->rule.bits == 16 ? PackU16 : PackU8,
                                        .rank = 3,
                                        .dim = {b->rule.channels, b->rule.h, b->rule.w},
                                        .hi = b->rule.bits == 16 ? 65535 : 255};
}

static GanStatus build_pictures(Build *b) {
    Image first = {0};
    TRY(probe_pictures(b, &first));
    if (!b->o->w && first.w) {
        return fail(
            GAN_ERR_USAGE,
            "%.*s: the first picture is %ux%u; give all one size with --size N or --size WxH",
            SARG(b->path), first.w, first.h);
    }
    // Nothing readable: the same walk with any size lists every file with its reason.
    set_rule(b, 1, 1, 3, first.bits == 16 ? 16 : 8);
    TRY(labels_open(b, 0));
    add_label_field(b);
    TRY(pack_writer_open(b->out_path, b->field, b->fields, &b->writer));
    Source *s = NULL;
    TRY(source_open(b->path, b->kind, &s));
    ItemJob job = {.source = s,
                   .limit = b->o->limit,
                   .threads = b->o->threads,
                   .result_size = pack_writer_stride(b->writer),
                   .work = work_picture,
                   .done = done_picture,
                   .user = b};
    GanStatus st = items_run(&job);
    source_close(s);
    return st;
}

// --- arrays --------------------------------------------------------------------------------------

typedef struct ArrayPlan {
    ArrayFile file;       // owned
    Array a;              // all of it, its data not used
    size_t samples, each; // elements of a sample
    uint32_t c, h, w;     // of a sample of three axes, or of a grey picture's two
    bool picture;         // unsigned bytes or 16-bit numbers in two or three axes
    bool fit;             // it changes size, channels or bits
    bool last;            // stored [h, w, c]
} ArrayPlan;

static GanStatus check_array(const Build *b, const Array *a, bool *picture) {
    if (a->rank == 0 || a->count == 0)
        return fail(GAN_ERR_INPUT, "%.*s: an array without samples", SARG(b->path));
    *picture = a->kind == 'u' && a->size <= 2;
    if (!*picture && a->kind != 'f') {
        return fail(GAN_ERR_INPUT,
                    "%.*s: samples of type %c%u are not read; save them as u1, u2, f4 or f8",
                    SARG(b->path), a->kind, a->size);
    }
    if (a->rank == 1 && *picture) {
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
    if (b->o->channels_last && a->rank < 3) {
        return fail(GAN_ERR_USAGE, "%.*s: --channels-last needs samples of two axes or more",
                    SARG(b->path));
    }
    return GAN_OK;
}

static GanStatus plan_array(const Build *b, ArrayPlan *p) {
    const Array *a = &p->a;
    const PackOptions *o = b->o;
    bool unsigned_numbers = false;
    TRY(check_array(b, a, &unsigned_numbers));
    p->samples = (size_t)a->dim[0];
    p->each = a->count / p->samples;
    p->picture = unsigned_numbers && (a->rank == 3 || a->rank == 4);
    p->last = o->channels_last && !(p->picture && a->rank == 3);
    const int64_t *d = a->dim + 1;
    if (p->picture && a->rank == 3)
        p->c = 1, p->h = (uint32_t)d[0], p->w = (uint32_t)d[1];
    if (a->rank == 4) {
        p->c = (uint32_t)d[p->last ? 2 : 0];
        p->h = (uint32_t)d[p->last ? 0 : 1];
        p->w = (uint32_t)d[p->last ? 1 : 2];
    }
    p->fit = (o->w && (o->w != p->w || o->h != p->h)) || (o->channels && o->channels != p->c) ||
             (o->bits && o->bits != 8 * a->size);
    if (p->fit && !p->picture) {
        return fail(GAN_ERR_INPUT,
                    "%.*s: its samples are no pictures (unsigned numbers [h, w] or [c, h, w]) and "
                    "cannot be fitted to a size, channels or bits",
                    SARG(b->path));
    }
    if (p->fit && (p->c < 1 || p->c > 4)) {
        return fail(GAN_ERR_INPUT, "%.*s: samples of %u channels cannot be resized%s",
                    SARG(b->path), p->c, p->last ? "" : "; are they --channels-last?");
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
    if (p->picture && p->fit) {
        set_rule(b, p->w, p->h, p->c >= 3 ? 3 : 1, 8 * p->a.size);
        return;
    }
    PackField f = {
        .name = STR("x"), .kind = p->picture ? DataImage : DataFloat, .rank = p->a.rank - 1};
    f.dtype = p->a.kind == 'f' ? PackF32 : p->a.size == 1 ? PackU8 : PackU16;
    for (uint32_t i = 0; i < f.rank; i++)
        f.dim[i] = p->a.dim[i + 1];
    if (p->last && f.rank) {
        for (uint32_t i = f.rank - 1; i > 0; i--)
            f.dim[i] = p->a.dim[i];
        f.dim[0] = p->a.dim[p->a.rank - 1];
    }
    if (p->picture)
        f.rank = 3, f.dim[0] = p->c, f.dim[1] = p->h, f.dim[2] = p->w;
    f.hi = f.dtype == PackU8 ? 255 : f.dtype == PackU16 ? 65535 : 0;
    b->field[b->fields++] = f;
}

static GanStatus fit_sample(const Build *b, const ArrayPlan *p, const Array *row, uint8_t *record) {
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
    image_release(&m);
    return st;
}

// Copies a sample in the pack's type. Answers the first element that is not a number, or `each`.
static size_t copy_sample(const ArrayPlan *p, PackDtype t, const Array *row, uint8_t *record,
                          double *lo, double *hi) {
    double from = INFINITY, to = -INFINITY;
    for (size_t k = 0; k < p->each; k++) {
        double v = element(p, row, k);
        float f = (float)v;
        uint16_t u = t == PackU16 ? (uint16_t)v : 0;
        if (t == PackF32 && !isfinite(f))
            return k;
        if (t == PackU8)
            record[k] = (uint8_t)v;
        else if (t == PackU16)
            memcpy(record + 2 * k, &u, 2);
        else
            memcpy(record + 4 * k, &f, 4);
        from = v < from ? v : from;
        to = v > to ? v : to;
    }
    *lo = from < *lo ? from : *lo;
    *hi = to > *hi ? to : *hi;
    return p->each;
}

static GanStatus add_sample(Build *b, ArrayPlan *p, size_t i, uint8_t *record, double *lo,
                            double *hi) {
    char name[300], reason[80];
    Array row;
    TRY(array_row(&p->file, i, &row));
    int n = snprintf(name, sizeof name, "%.*s:%zu", SARG(path_base(b->path)), i);
    Str label = {name, n < 0 ? 0 : (size_t)n < sizeof name ? (size_t)n : sizeof name - 1};
    if (p->fit)
        TRY(fit_sample(b, p, &row, record));
    size_t bad = p->fit ? p->each : copy_sample(p, b->field[0].dtype, &row, record, lo, hi);
    if (bad < p->each) {
        double v = element(p, &row, bad);
        snprintf(reason, sizeof reason, "%s at element %zu",
                 isnan(v)   ? "NaN"
                 : isinf(v) ? "infinity"
                            : "a number beyond f32",
                 bad);
        return refuse_sample(b, label, reason);
    }
    if (b->labels.on)
        put_label(b, (uint32_t)array_at(&b->labels.array, i), record);
    b->sum.good++;
    return pack_writer_add(b->writer, record, label);
}

static GanStatus add_samples(Build *b, ArrayPlan *p) {
    size_t n = b->o->limit && b->o->limit < p->samples ? (size_t)b->o->limit : p->samples;
    double lo = INFINITY, hi = -INFINITY;
    uint8_t *record = mem_alloc(pack_writer_stride(b->writer));
    GanStatus st = record ? GAN_OK : fail(GAN_ERR_MEMORY, "no memory for one sample");
    for (size_t i = 0; st == GAN_OK && i < n; i++)
        st = add_sample(b, p, i, record, &lo, &hi);
    mem_free(record);
    if (b->field[0].dtype == PackF32 && lo <= hi)
        pack_writer_range(b->writer, 0, (float)lo, (float)hi);
    return st;
}

static GanStatus build_array(Build *b) {
    ArrayPlan p = {0};
    TRY(array_open(b->path, b->kind, b->o->dataset, &p.file));
    p.a = p.file.all;
    GanStatus st = plan_array(b, &p);
    if (st == GAN_OK)
        st = labels_open(b, p.samples);
    if (st == GAN_OK && p.file.head && !b->labels.on)
        labels_of_records(b, &p.file);
    if (st == GAN_OK) {
        set_array_field(b, &p);
        add_label_field(b);
        st = pack_writer_open(b->out_path, b->field, b->fields, &b->writer);
    }
    if (st == GAN_OK)
        st = add_samples(b, &p);
    array_close(&p.file);
    return st;
}

// --- one build -----------------------------------------------------------------------------------

static Str trim_slashes(Str path) {
    while (path.len > 1 && path.ptr[path.len - 1] == '/')
        path.len--;
    return path;
}

static GanStatus check_sum(const Build *b) {
    uint64_t good = b->sum.good, bad = b->sum.bad;
    if (good + bad == 0)
        return fail(GAN_ERR_INPUT, "%.*s: no files in it", SARG(b->path));
    if (good == 0) {
        return fail(GAN_ERR_INPUT, "%.*s: none of %" PRIu64 " samples can be used", SARG(b->path),
                    bad);
    }
    if (bad && !b->o->skip_bad) {
        return fail(GAN_ERR_INPUT,
                    "%.*s: %" PRIu64 " of %" PRIu64
                    " samples cannot be used; --skip-bad leaves them out",
                    SARG(b->path), bad, good + bad);
    }
    return GAN_OK;
}

static GanStatus finish(Build *b) {
    TRY(check_sum(b));
    const FitRule *r = &b->rule;
    Str source =
            str_format(b->perm, "%s %.*s", source_kind_name(b->kind), SARG(path_base(b->path))),
        fit = {0};
    if (r->w) {
        fit = str_format(b->perm, "%s to %ux%u, %u channel%s of %u bits, ground #%02x%02x%02x",
                         fit_name(r->mode), r->w, r->h, r->channels, r->channels == 1 ? "" : "s",
                         r->bits, r->ground[0], r->ground[1], r->ground[2]);
    }
    PackWriter *w = b->writer;
    b->writer = NULL;
    if (!b->out_path.len)
        return pack_writer_open_result(b->perm, w, source, fit, b->pack);
    return pack_writer_commit(w, source, fit);
}

static GanStatus run_build(void *user) {
    Build *b = user;
    bool pictures = b->kind == SourceFolder || b->kind == SourceArchive;
    TRY(pictures ? build_pictures(b) : build_array(b));
    return finish(b);
}

GanStatus pack_build(Arena *perm, Str path, const PackOptions *o, Str out_path, Pack *pack,
                     PackSummary *sum) {
    SourceKind kind;
    path = trim_slashes(path);
    TRY(source_guess(path, &kind));
    TRY(source_holds(path, kind, o->dataset));
    if (kind == SourcePack) {
        if (out_path.len)
            return fail(GAN_ERR_INPUT, "%.*s: this is a pack already", SARG(path));
        return pack_open(perm, path, pack);
    }
    Build b = {
        .o = o, .path = path, .perm = perm, .kind = kind, .out_path = out_path, .pack = pack};
    GanStatus st = guarded(perm, run_build, &b);
    pack_writer_abandon(b.writer);
    blob_close(&b.labels.blob);
    if (sum)
        *sum = b.sum;
    return st;
}

static GanStatus add_labels(const Labels *l, PackWriter *w) {
    for (size_t i = 0; i < l->array.count; i++) {
        uint64_t record = 0;
        uint32_t label = (uint32_t)array_at(&l->array, i);
        memcpy(&record, &label, sizeof label);
        TRY(pack_writer_add(w, &record, (Str){0}));
    }
    return GAN_OK;
}

GanStatus pack_labels(Arena *perm, Str path, Pack *pack) {
    Labels l = {0};
    PackWriter *w = NULL;
    GanStatus st = labels_of_file(&l, path);
    PackField field = label_field(&l);
    if (st == GAN_OK && l.array.count == 0)
        st = fail(GAN_ERR_INPUT, "%.*s: no labels in it", SARG(path));
    if (st == GAN_OK)
        st = pack_writer_open((Str){0}, &field, 1, &w);
    if (st == GAN_OK)
        st = add_labels(&l, w);
    blob_close(&l.blob);
    if (st == GAN_OK)
        return pack_writer_open_result(perm, w, path_base(path), (Str){0}, pack);
    pack_writer_abandon(w);
    return st;
}
