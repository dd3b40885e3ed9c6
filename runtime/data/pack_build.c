// pack_build.c - from any source to a pack: decode, resize, label, write.
//
// In: a folder, archive, LMDB or array file. Out: a pack, the same bytes for every number of
// threads. A sample that cannot be used is reported with its reason; with skip_bad it is left out,
// else no pack is written.
#include "pack_build.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

GanStatus build_refuse(Build *b, Str name, GanStatus st, const char *reason) {
    if (st == GAN_ERR_MEMORY || st == GAN_ERR_USAGE)
        return fail(st, "%.*s: %.*s: %s", SARG(b->path), SARG(name), reason);
    b->sum.bad++;
    if (b->o->bad)
        b->o->bad(b->o->user, name, reason);
    return GAN_OK;
}

void build_progress(Build *b) {
    double now = time_now();
    if (!b->o->progress || now - b->shown < b->o->every)
        return;
    b->shown = now;
    b->o->progress(b->o->user, b->sum.good + b->sum.bad);
}

GanStatus build_check_options(const Build *b, const char *source, size_t n,
                              const OptionCheck *check) {
    for (size_t i = 0; i < n; i++)
        if (check[i].given)
            return fail(GAN_ERR_USAGE, "%.*s: %s is for %s; these are %s", SARG(b->path),
                        check[i].option, check[i].of, source);
    return GAN_OK;
}

// --- images --------------------------------------------------------------------------------------

// Without --size all have the size of the first.
static GanStatus check_size(const Build *b, const Image *m) {
    const FitRule *r = &b->rule;
    return b->o->w || (m->w == r->w && m->h == r->h)
               ? GAN_OK
               : fail(GAN_ERR_USAGE,
                      "it is %ux%u, the first %ux%u: give all one size with --size N or --size WxH",
                      m->w, m->h, r->w, r->h);
}

static GanStatus work_image(void *user, const Item *item, void *result) {
    const Build *b = user;
    Image m = {0};
    TRY(image_decode(item->bytes, item->n, &m));
    GanStatus st = check_size(b, &m);
    if (st == GAN_OK)
        st = image_fit(&m, &b->rule, result);
    ((uint8_t *)result)[pack_writer_stride(b->writer)] = (uint8_t)image_losses(&m, &b->rule);
    image_release(&m);
    return st == GAN_OK ? build_put_label_of(b, item->name, result) : st;
}

void build_count_losses(Build *b, uint32_t lost) {
    const PackOptions *o = b->o;
    const bool asked[ImageLosses] = {[LossColour] = o->channels && !o->implied,
                                     [LossAlpha] = o->background_set,
                                     [LossBits] = o->bits > 0};
    for (int i = 0; i < ImageLosses; i++)
        b->sum.lost[i] += !asked[i] && (lost >> i & 1);
}

static GanStatus done_image(void *user, const Item *item, GanStatus st, const char *reason,
                            void *result) {
    Build *b = user;
    if (st != GAN_OK)
        return build_refuse(b, item->name, st, reason);
    build_count_losses(b, ((uint8_t *)result)[pack_writer_stride(b->writer)]);
    b->sum.good++;
    build_progress(b);
    return pack_writer_add(b->writer, result, item->name);
}

typedef struct Probe { // the first member that can be read
    bool sounds;       // by the first bytes of the first that is anything
    Image first;       // of images: without pixels; w 0: none
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

static GanStatus open_source(const Build *b, Source **out) {
    TRY(source_open(b->path, b->kind, out));
    if (b->split.on)
        source_filter(*out, build_wants, b);
    return GAN_OK;
}

static GanStatus probe_members(Build *b, Probe *p) {
    Source *s = NULL;
    TRY(open_source(b, &s));
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
        b->rule.background[i] = o->background_set ? o->background[i] : 255;
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
    TRY(open_source(b, &s)); // before there is a pack, which may lie in the folder
    GanStatus st = pack_writer_open(b->out_path, b->field, b->fields, &b->writer);
    if (st != GAN_OK) {
        source_close(s);
        return st;
    }
    if (b->o->missing)
        pack_writer_count_missing(b->writer);
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

static GanStatus build_images(Build *b, const Image *first) {
    const PackOptions *o = b->o;
    const OptionCheck useless[] = {{o->length > 0, "--length", "sounds"},
                                   {o->channels_last, "--channels-last", "arrays"}};
    if (o->implied && o->length)
        return fail(GAN_ERR_INPUT, "%.*s: these are images; sounds or arrays are needed",
                    SARG(b->path));
    TRY(build_check_options(b, "images", sizeof useless / sizeof *useless, useless));
    // If nothing is readable, the same walk with any size reports every file with its reason.
    build_rule(b, first->w ? first->w : 1, first->h ? first->h : 1, 3, first->bits == 16 ? 16 : 8);
    return build_members(b, work_image, done_image, sizeof(uint8_t));
}

// --- one build -----------------------------------------------------------------------------------

static GanStatus check_sum(const Build *b) {
    uint64_t good = b->sum.good, bad = b->sum.bad;
    if (good + bad == 0)
        return fail(GAN_ERR_INPUT, "%.*s: no images or sounds in it", SARG(b->path));
    const char *tail =
        b->sum.missing ? "; where NaN means a value that is missing: " MISSING_KEPT : "";
    if (good == 0) {
        return fail(GAN_ERR_INPUT, "%.*s: none of %" PRIu64 " samples can be used%s", SARG(b->path),
                    bad, tail);
    }
    if (bad && !b->o->skip_bad) {
        return fail(GAN_ERR_INPUT,
                    "%.*s: %" PRIu64 " of %" PRIu64
                    " samples cannot be used; --skip-bad leaves them out%s",
                    SARG(b->path), bad, good + bad, tail);
    }
    return GAN_OK;
}

static GanStatus finish(Build *b) {
    TRY(check_sum(b));
    const FitRule *r = &b->rule;
    Str source = str_format(b->perm, "%s %.*s%s%.*s%s%.*s", source_kind_name(b->kind),
                            SARG(path_base(b->path)), b->labels.words.len ? ", labels of " : "",
                            SARG(b->labels.words), b->split.on ? ", split by " : "",
                            SARG(b->split.words)),
        fit = {0};
    if (r->w) {
        fit = str_format(b->perm, "%s to %ux%u, %u channel%s of %u bits, background #%02x%02x%02x",
                         fit_name(r->mode), r->w, r->h, r->channels, r->channels == 1 ? "" : "s",
                         r->bits, r->background[0], r->background[1], r->background[2]);
    }
    if (b->sound.channels)
        fit = str_format(b->perm, "%u Hz, cut or padded to %lld samples", b->sound.rate,
                         (long long)b->field[0].dim[1]);
    PackWriter *w = b->writer;
    b->writer = NULL;
    if (!b->out_path.len)
        return pack_writer_open_result(b->perm, w, source, fit, b->pack);
    return pack_writer_commit(w, source, fit);
}

static GanStatus run_build(void *user) {
    Build *b = user;
    if (!source_has_members(b->kind)) {
        const OptionCheck useless[] = {{b->o->split.len > 0, "--split", "files with names"}};
        TRY(build_check_options(b, "arrays", 1, useless));
        TRY(build_array(b));
        return finish(b);
    }
    Probe p = {0};
    TRY(build_split(b));
    TRY(probe_members(b, &p));
    b->sound = p.sound;
    TRY(p.sounds ? build_sounds(b) : build_images(b, &p.first));
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
            return fail(GAN_ERR_INPUT,
                        "%.*s: this is a pack already, which training reads as it is; for another "
                        "size, pack again what it was made of; --data x=A --data x=B joins packs",
                        SARG(path));
        return pack_open(perm, path, pack);
    }
    if (out_path.len && file_same(path, out_path))
        return fail(GAN_ERR_USAGE, "-o %.*s: this is what is to be packed", SARG(out_path));
    TRY(out_path.len ? pack_spares(out_path) : GAN_OK);
    Build b = {.o = o,
               .path = path,
               .perm = perm,
               .kind = kind,
               .out_path = out_path,
               .pack = pack,
               .shown = time_now()};
    GanStatus st = arena_guard(perm, "for names and headers", run_build, &b);
    pack_writer_abandon(b.writer);
    blob_close(&b.labels.blob);
    if (sum)
        *sum = b.sum;
    return st;
}
