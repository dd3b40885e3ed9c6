// pack_build.c - from any source to a pack: decode, fit, label, write; and a list of what could not
// be read.
//
// In: a folder, archive, npy or IDX file. Out: a pack, the same bytes for every number of threads.
// A sample that cannot be used is reported with its reason and left out; unless that was asked for,
// no pack is written at all then.
#include "pack_build.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

GanStatus build_refuse(Build *b, Str name, const char *reason) {
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

// `asked` is a file, or an array of the file `npz` (empty: there is none).
static GanStatus open_labels(Str asked, Str npz, Blob *out) {
    if (file_exists(asked))
        return blob_open(asked, out);
    if (npz.len)
        return blob_open_npz(npz, asked, out);
    return fail(GAN_ERR_INPUT, "%.*s: no such file of labels", SARG(asked));
}

static GanStatus labels_of_file(Labels *l, Str path, Str npz) {
    TRY(open_labels(path, npz, &l->blob));
    if (l->blob.n > 1 && !memcmp(l->blob.ptr, "PK", 2))
        return fail(GAN_ERR_INPUT,
                    "%.*s: an npz file; --labels NAME takes that array of the samples' own, for "
                    "another's save the labels as npy",
                    SARG(path));
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
void build_labels_of_records(Build *b, const ArrayFile *f) {
    size_t n = (size_t)f->all.dim[0];
    uint8_t *class = arena_array(b->perm, uint8_t, n);
    for (size_t i = 0; i < n; i++)
        class[i] = f->all.data[i * (f->head + f->row) + f->head - 1];
    b->labels.on = true;
    b->labels.classes = f->head == 1 ? 10 : 100;
    b->labels.array = (Array){.kind = 'u', .size = 1, .rank = 1, .data = class, .count = n};
    b->labels.array.dim[0] = f->all.dim[0];
}

GanStatus build_labels(Build *b, size_t samples) {
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
    TRY(labels_of_file(&b->labels, asked, b->kind == SourceNpz ? b->path : (Str){0}));
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

void build_label_field(Build *b) {
    if (b->labels.on)
        b->field[b->fields++] = label_field(&b->labels);
}

void build_put_label(const Build *b, uint32_t label, uint8_t *record) {
    memcpy(record + pack_writer_field(b->writer, 1)->offset, &label, sizeof label);
}

uint32_t build_label_of(const Build *b, Str name) {
    const Labels *l = &b->labels;
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
        build_put_label(b, build_label_of(b, item->name), result);
    return st;
}

static GanStatus done_picture(void *user, const Item *item, GanStatus st, const char *reason,
                              void *result) {
    Build *b = user;
    if (st == GAN_ERR_MEMORY)
        return fail(st, "%.*s: %s", SARG(item->name), reason);
    if (st != GAN_OK)
        return build_refuse(b, item->name, reason);
    b->sum.good++;
    return pack_writer_add(b->writer, result, item->name);
}

typedef struct Probe { // the first member that can be read
    bool sounds;       // by the first bytes of the first that is anything
    Image first;       // of pictures: without pixels; w 0: none
    Sound sound;       // of sounds; channels 0: none
} Probe;

static GanStatus probe_item(const Item *item, Probe *p) {
    p->sounds = p->sounds || sound_is(item->bytes, item->n);
    if (p->sounds)
        return sound_look(item->bytes, item->n, &p->sound);
    Image m = {0};
    TRY(image_decode(item->bytes, item->n, &m));
    p->first = (Image){.w = m.w, .h = m.h, .channels = m.channels, .bits = m.bits};
    image_release(&m);
    return GAN_OK;
}

static GanStatus probe_members(Build *b, Probe *p) {
    Source *s = NULL;
    TRY(source_open(b->path, b->kind, &s));
    GanStatus st = GAN_OK;
    for (bool end = false; st == GAN_OK && !end && !p->first.w && !p->sound.channels;) {
        Item item;
        st = source_next(s, &item, &end);
        if (st != GAN_OK || end)
            break;
        GanStatus read = item_load(&item);
        if (read == GAN_OK)
            read = probe_item(&item, p);
        if (read == GAN_ERR_MEMORY)
            st = read;
        item_release(&item);
    }
    source_close(s);
    return st;
}

void build_rule(Build *b, uint32_t w, uint32_t h, uint32_t channels, uint32_t bits) {
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

GanStatus build_members(Build *b, ItemWork *work, ItemDone *done, size_t beside) {
    TRY(build_labels(b, 0));
    build_label_field(b);
    Source *s = NULL;
    TRY(source_open(b->path, b->kind, &s)); // before there is a pack, which may lie in the folder
    GanStatus st = pack_writer_open(b->out_path, b->field, b->fields, &b->writer);
    if (st != GAN_OK) {
        source_close(s);
        return st;
    }
    ItemJob job = {.source = s,
                   .limit = b->o->limit,
                   .threads = b->o->threads,
                   .result_size = pack_writer_stride(b->writer) + beside,
                   .work = work,
                   .done = done,
                   .user = b};
    st = items_run(&job);
    source_close(s);
    return st;
}

static GanStatus build_pictures(Build *b, const Image *first) {
    if (!b->o->w && first->w) {
        return fail(
            GAN_ERR_USAGE,
            "%.*s: the first picture is %ux%u; give all one size with --size N or --size WxH",
            SARG(b->path), first->w, first->h);
    }
    // Nothing readable: the same walk with any size lists every file with its reason.
    build_rule(b, 1, 1, 3, first->bits == 16 ? 16 : 8);
    return build_members(b, work_picture, done_picture, 0);
}

// --- one build -----------------------------------------------------------------------------------

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
    if (b->sound.channels)
        fit = str_format(b->perm, "%u numbers a second, cut or filled to %lld", b->sound.rate,
                         (long long)b->field[0].dim[1]);
    PackWriter *w = b->writer;
    b->writer = NULL;
    if (!b->out_path.len)
        return pack_writer_open_result(b->perm, w, source, fit, b->pack);
    return pack_writer_commit(w, source, fit);
}

static GanStatus run_build(void *user) {
    Build *b = user;
    if (b->kind != SourceFolder && b->kind != SourceArchive) {
        TRY(build_array(b));
        return finish(b);
    }
    Probe p = {0};
    TRY(probe_members(b, &p));
    b->sound = p.sound;
    TRY(p.sounds ? build_sounds(b) : build_pictures(b, &p.first));
    return finish(b);
}

GanStatus pack_build(Arena *perm, Str path, const PackOptions *o, Str out_path, Pack *pack,
                     PackSummary *sum) {
    SourceKind kind;
    path = path_trim(path);
    TRY(source_guess(path, &kind));
    TRY(source_holds(path, kind, o->dataset));
    if (kind == SourcePack) {
        if (out_path.len)
            return fail(GAN_ERR_INPUT, "%.*s: this is a pack already", SARG(path));
        return pack_open(perm, path, pack);
    }
    Build b = {
        .o = o, .path = path, .perm = perm, .kind = kind, .out_path = out_path, .pack = pack};
    GanStatus st = arena_guard(perm, "for names and headers", run_build, &b);
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
    GanStatus st = labels_of_file(&l, path, (Str){0});
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
