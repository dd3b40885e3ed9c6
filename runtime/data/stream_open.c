// stream_open.c - from paths to a stream: packs, or sources packed in memory, paired to samples,
// and how each field is made of a record.
#include "stream.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

static void tell_field(void *user, Str name, const char *reason) {
    DataStream *s = user;
    char text[500];
    snprintf(text, sizeof text, "%.*s: %s", SARG(name), reason);
    if (s->o.notice)
        s->o.notice(s->o.user, text);
}

enum { ProgressEvery = 10 }; // seconds

static void tell_progress(void *user, uint64_t files) {
    DataStream *s = user;
    char text[120];
    snprintf(text, sizeof text, "%" PRIu64 " files decoded; `ganrun data pack` does this once",
             files);
    if (s->o.notice)
        s->o.notice(s->o.user, text);
}

static void tell_changes(DataStream *s, Str path, const PackSummary *sum) {
    static const char *const else_do[ImageLosses] = {
        [LossColour] = "a field image(3, ...) keeps colours",
        [LossAlpha] = "white, unless `ganrun data pack --background` chooses another",
        [LossBits] = "`ganrun data pack --bits 16` keeps them"};
    char text[200];
    for (int i = 0; i < ImageLosses; i++) {
        if (!sum->lost[i])
            continue;
        snprintf(text, sizeof text, "of %" PRIu64 " images %" PRIu64 " are %s: %s", sum->good,
                 sum->lost[i], image_loss_words[i], else_do[i]);
        tell_field(s, path, text);
    }
    if (sum->shorter || sum->longer) {
        snprintf(text, sizeof text,
                 "of %" PRIu64 " sounds %" PRIu64 " are shorter and padded with silence, %" PRIu64
                 " are longer and cut",
                 sum->good, sum->shorter, sum->longer);
        tell_field(s, path, text);
    }
    if (sum->louder) {
        snprintf(text, sizeof text,
                 "of %" PRIu64 " sounds %" PRIu64 " go beyond -1 to 1, to %g: they are read as "
                 "they are",
                 sum->good, sum->louder, (double)sum->loudest);
        tell_field(s, path, text);
    }
    if (sum->rounded && s->o.wide) {
        snprintf(text, sizeof text,
                 "its numbers are rounded to 32 bits, in %" PRIu64 " of %" PRIu64 " samples",
                 sum->rounded, sum->good);
        tell_field(s, path, text);
    }
}

uint32_t data_mask_of(const DataField *f) {
    const DataXform *last = f->xforms ? &f->xform[f->xforms - 1] : NULL;
    bool is = last && last->op == DataKnown && last->a >= 0 && last->a < PACK_MAX_FIELDS;
    return is ? (uint32_t)last->a : UINT32_MAX;
}

// Whether a field makes something of what is missing: then it is no error of a source.
static bool takes_missing(const DataStream *s) {
    for (uint32_t i = 0; i < s->fields; i++)
        if (xform_takes_missing(&s->field[i].want))
            return true;
    return false;
}

// How a source is packed in memory: to the size of a resize() that comes first, or to the field's
// own.
static PackOptions pack_options(DataStream *s, const DataField *f, bool with_labels,
                                SourceKind kind) {
    PackOptions o = {.implied = true,
                     .skip_bad = s->o.skip_bad,
                     .missing = takes_missing(s),
                     .threads = s->o.threads,
                     .bad = tell_field,
                     .progress = tell_progress,
                     .every = ProgressEvery,
                     .user = s};
    bool files = source_has_members(kind);
    bool image = f->kind == DataImage && f->rank == 3 && (f->dim[0] == 1 || f->dim[0] == 3);
    if (image) {
        o.channels = (uint32_t)f->dim[0];
        o.h = (uint32_t)f->dim[1];
        o.w = (uint32_t)f->dim[2];
        if (f->xforms && f->xform[0].op == DataResize)
            xform_size(f, &f->xform[0], &o.h, &o.w); // one out of range is refused by its plan
    }
    bool sound = f->kind == DataFloat && f->rank == 2 && f->dim[0] <= SOUND_CHANNELS;
    if (files && sound) {
        o.channels = (uint32_t)f->dim[0];
        o.length = (uint64_t)f->dim[1];
    }
    if (with_labels && files)
        o.labels = STR("auto");
    return o;
}

static GanStatus open_pack(DataStream *s, const DataField *f, Str path, bool with_labels,
                           Pack *out) {
    SourceKind kind;
    TRY(source_guess(path, &kind));
    if (kind == SourcePack)
        return pack_open(&s->arena, path, out);
    if (f->kind == DataLabel && source_has_members(kind))
        return fail(GAN_ERR_INPUT,
                    "%.*s: %.*s has samples, of which labels are a part: leave out --data %.*s; "
                    "labels alone are an array (.npy, IDX)",
                    SARG(f->name), SARG(path), SARG(f->name));
    if (f->kind == DataLabel)
        return pack_labels(&s->arena, path, out);
    PackOptions o = pack_options(s, f, with_labels, kind);
    PackSummary sum = {0};
    TRY(pack_build(&s->arena, path, &o, (Str){0}, out, &sum));
    tell_changes(s, path, &sum);
    return GAN_OK;
}

static GanStatus open_feed(DataStream *s, uint32_t i) {
    StreamField *sf = &s->field[i];
    const DataField *f = &sf->want;
    uint32_t of = data_mask_of(f);
    if (of != UINT32_MAX && f->paths)
        return fail(
            GAN_ERR_USAGE,
            "--data %.*s: it is the mask of %.*s, made of what that has; a mask in a file of "
            "its own is a field float(...)",
            SARG(f->name), SARG(s->field[of < i ? of : i].want.name));
    if (of < i) {
        sf->feed = s->field[of].feed;
        return GAN_OK;
    }
    if ((f->paths == 0 || f->unread) && i > 0) {
        sf->feed = 0;
        return GAN_OK;
    }
    if (f->paths == 0)
        return fail(GAN_ERR_INPUT, "%.*s: no data is named for it", SARG(f->name));
    bool with_labels = false;
    for (uint32_t k = 1; k < s->fields; k++) {
        const DataField *other = &s->field[k].want;
        with_labels = with_labels || (other->kind != DataImage && !other->paths && !other->unread);
    }
    sf->feed = s->feeds++;
    Feed *feed = &s->feed[sf->feed];
    feed->pack = arena_array(&s->arena, Pack, f->paths);
    feed->path = arena_array(&s->arena, Str, f->paths);
    feed->checked = arena_array(&s->arena, bool *, f->paths);
    for (uint32_t k = 0; k < f->paths; k++) {
        Pack *pack = &feed->pack[feed->packs++]; // counted first: closing accepts an empty one
        feed->path[k] = str_copy(&s->arena, f->path[k]);
        TRY(open_pack(s, f, f->path[k], with_labels && i == 0, pack));
        if (pack->map.ptr)
            feed->checked[k] = arena_array(&s->arena, bool, pack_blocks(pack));
        feed->count += pack->count;
    }
    return GAN_OK;
}

// Samples of different sources that belong together (pair.c).
static GanStatus pair_feeds(DataStream *s) {
    PairSide side[PACK_MAX_FIELDS] = {0};
    PairOptions o = {.skip_lone = s->o.skip_bad, .notice = tell_field, .user = s};
    if (s->feeds < 2)
        return GAN_OK;
    for (uint32_t i = s->fields; i-- > 0;) { // named after the first field of each
        const Feed *feed = &s->feed[s->field[i].feed];
        side[s->field[i].feed] =
            (PairSide){s->field[i].want.name, feed->pack, feed->packs, feed->count, NULL};
    }
    TRY(pair_sides(&s->arena, side, s->feeds, &o));
    for (uint32_t i = 0; i < s->feeds; i++) {
        s->feed[i].count = side[i].count;
        s->feed[i].at = side[i].at;
    }
    return GAN_OK;
}

// The pack's field of the same name, else its first of the same kind: classes for labels, and for
// the rest the first of as many axes, as samples and labels that are vectors differ.
static const PackField *choose_field(const Pack *p, const DataField *f) {
    const PackField *first = NULL, *alike = NULL;
    for (uint32_t i = 0; i < p->fields; i++) {
        const PackField *have = &p->field[i];
        if ((have->kind == DataLabel) != (f->kind == DataLabel))
            continue;
        if (str_eq(have->name, f->name))
            return have;
        first = first ? first : have;
        alike = alike || have->rank != f->rank ? alike : have;
    }
    return alike ? alike : first;
}

// A mask is made of its field.
static const PackField *field_in(const DataStream *s, const Pack *p, const StreamField *sf) {
    uint32_t of = data_mask_of(&sf->want);
    return choose_field(p, of < s->fields ? &s->field[of].want : &sf->want);
}

const PackField *pack_label(const Pack *p) {
    return choose_field(p, &(DataField){.kind = DataLabel});
}

// Labels that the model may not read, but `ganrun eval` compares with.
static void join_beside(DataStream *s) {
    const Feed *feed = &s->feed[0];
    const PackField **label = arena_array(&s->arena, const PackField *, feed->packs);
    bool all = true;
    for (uint32_t k = 0; k < feed->packs; k++)
        all = (label[k] = pack_label(&feed->pack[k])) && all;
    if (all)
        classes_join(&s->arena, label, feed->packs, &(DataField){.kind = DataLabel}, &s->beside);
}

// A class that the run has no number for.
static GanStatus refuse_class(const StreamField *sf, Str path, Str anew) {
    bool apart = str_eq(anew, STR(NO_FOLDER));
    return fail(GAN_ERR_INPUT,
                "%.*s: %.*s: the run's label has %lld classes, and has none for %s`%.*s`%s",
                SARG(path), SARG(sf->want.name), (long long)sf->want.classes,
                apart ? "samples in no class's folder, " : "", SARG(anew),
                known_text(anew, sf->want.known, sf->want.knowns).at);
}

// Samples in no class's folder are a class where there is no other, or was none as the run began.
static GanStatus check_folders(const DataStream *s, const StreamField *sf,
                               const PackField *const *all) {
    const Classes *c = &sf->classes;
    const Feed *feed = &s->feed[sf->feed];
    for (uint32_t i = 0; i < sf->want.knowns; i++)
        if (str_eq(sf->want.known[i], STR(NO_FOLDER)))
            return GAN_OK;
    for (uint32_t k = 0; c->names > 1 && k < feed->packs; k++) {
        if (!str_eq(all[k]->class_name[0], STR(NO_FOLDER)))
            continue;
        if (sf->want.knowns)
            return refuse_class(sf, feed->path[k], STR(NO_FOLDER));
        return fail(GAN_ERR_INPUT,
                    "%.*s: %.*s: its samples are in no class's folder, those of other sources are: "
                    "put them in the folder of a class, or give labels by `ganrun data pack "
                    "--labels`",
                    SARG(feed->path[k]), SARG(sf->want.name));
    }
    return GAN_OK;
}

// `have` does not fit. Of a field that reads along with the first one, the pack may lack it.
static GanStatus refuse_field(DataStream *s, const StreamField *sf, uint32_t pack, GanStatus st) {
    const Feed *feed = &s->feed[sf->feed];
    const PackField *have = choose_field(&feed->pack[pack], &sf->want);
    Str name = sf->want.name, path = feed->path[pack];
    uint32_t least = sf->want.kind == DataLabel ? pack_least_class(&feed->pack[pack], have) : 0;
    if (least)
        return fail(st,
                    "%.*s: %s; no sample is of a class below %u: `ganrun data pack --first-class "
                    "%u` makes that class 0",
                    SARG(path), gan_error(), least, least);
    if (sf->want.knowns && sf->classes.names > sf->want.knowns)
        return refuse_class(sf, path, sf->classes.name[sf->want.knowns]);
    if (sf->want.paths || sf == &s->field[0] || str_eq(have->name, name))
        return fail_in(st, "%.*s", SARG(path));
    Str why = str_copy(&s->arena, str_c(gan_error()));
    return fail(st,
                "%.*s has no field `%.*s`, and its `%.*s` cannot stand for it (%.*s): --data "
                "%.*s=PATH gives the field a source of its own",
                SARG(path), SARG(name), SARG(have->name), SARG(why), SARG(name));
}

// The pack has no field of this kind. Labels that are vectors may have been meant as classes.
static GanStatus refuse_absent(const StreamField *sf, const Pack *pack, Str path) {
    Str name = sf->want.name;
    const PackField *y = NULL;
    for (uint32_t i = 1; i < pack->fields; i++)
        if (sf->want.kind == DataLabel && str_eq(pack->field[i].name, name))
            y = &pack->field[i];
    if (y)
        return fail(GAN_ERR_INPUT,
                    "%.*s: the labels of %.*s are vectors, of two axes in the file they came from; "
                    "classes are one axis of whole numbers",
                    SARG(name), SARG(path));
    return fail(GAN_ERR_INPUT, "%.*s: %.*s has no %s", SARG(name), SARG(path),
                sf->want.kind == DataLabel
                    ? "labels; pack its source again with --labels (folders: the folder of an "
                      "image is its class)"
                    : "samples");
}

// Classes that the model has and the data have not are no mistake, but seldom meant.
static void tell_classes(DataStream *s, const StreamField *sf, uint32_t classes) {
    if (sf->want.kind != DataLabel || (int64_t)classes >= sf->want.classes)
        return;
    Text t = {.arena = &s->arena};
    text_fmt(&t,
             "the data has %u classes of the %lld that the model's label has; samples of the "
             "others are of classes that were never seen",
             classes, (long long)sf->want.classes);
    tell_field(s, sf->want.name,
               classes == 1 ? "all samples are of one class; images of a class belong in a folder "
                              "of its own"
                            : text_str(&t).ptr);
}

// Other data than a run began with may go beyond what its scale maps to -1 and 1.
static void tell_range(DataStream *s, const StreamField *sf, double lo, double hi) {
    const DataField *f = &sf->want;
    char text[200];
    if (!f->ranged || !(lo < f->lo || hi > f->hi))
        return;
    snprintf(text, sizeof text,
             "these numbers go from %g to %g, and scale maps %g to %g, the extremes of the data "
             "that the run began with",
             lo, hi, f->lo, f->hi);
    tell_field(s, f->name, text);
}

// Of a run or a model whose classes have names, data without them have its numbers, if any.
static void tell_numbers(DataStream *s, const StreamField *sf) {
    const DataField *f = &sf->want;
    const Str *name = f->knowns ? f->known : f->like;
    uint32_t n = f->knowns ? f->knowns : f->likes;
    char text[300];
    if (!n || sf->classes.names)
        return;
    snprintf(
        text, sizeof text,
        "the classes of these data have no names: they are the run's by number, 0 for `%.*s`%s",
        SARG(name[0]), n > 1 ? ", and so on" : "");
    tell_field(s, f->name, text);
}

// Which classes have the numbers they had in the run that this one begins with.
static void tell_kept(DataStream *s, const StreamField *sf) {
    const DataField *f = &sf->want;
    Text t = {.arena = &s->arena};
    uint32_t kept = 0, other = 0;
    for (uint32_t c = 0; f->likes && !f->knowns && c < sf->classes.names; c++) {
        bool same = c < f->likes && str_eq(f->like[c], sf->classes.name[c]);
        kept += same, other += !same;
        if (!same)
            text_fmt(&t, "%s`%.*s` has %u", other > 1 ? ", " : "", SARG(sf->classes.name[c]), c);
    }
    if (kept && other)
        tell_field(s, f->name,
                   str_format(&s->arena,
                              "classes keep the numbers they have in the run it begins with; %.*s",
                              SARG(text_str(&t)))
                       .ptr);
}

static GanStatus join_classes(DataStream *s, StreamField *sf, const PackField *const *all) {
    const Feed *feed = &s->feed[sf->feed];
    uint32_t named, bare;
    if (classes_mix(all, feed->packs, &named, &bare))
        return fail(GAN_ERR_INPUT,
                    "%.*s: %.*s: its classes are numbers, those of %.*s have names, such as "
                    "`%.*s`: which are the same? Give all sources names (folders, or words of a "
                    "table) or all numbers",
                    SARG(feed->path[bare]), SARG(sf->want.name), SARG(feed->path[named]),
                    SARG(all[named]->class_name[0]));
    classes_join(&s->arena, all, s->feed[sf->feed].packs, &sf->want, &sf->classes);
    TRY(check_folders(s, sf, all));
    tell_numbers(s, sf);
    tell_kept(s, sf);
    return GAN_OK;
}

static GanStatus plan_field(DataStream *s, uint32_t i) {
    StreamField *sf = &s->field[i];
    const Feed *feed = &s->feed[sf->feed];
    if (sf->want.unread)
        return sf->elements = 1, sf->lo = INFINITY, sf->hi = -INFINITY, GAN_OK;
    double lo = INFINITY, hi = -INFINITY; // of numbers; images have each their own
    uint32_t rate = sf->want.rate;
    const PackField **all = arena_array(&s->arena, const PackField *, feed->packs);
    for (uint32_t k = 0; k < feed->packs; k++) {
        const PackField *have = all[k] = field_in(s, &feed->pack[k], sf);
        if (!have)
            return refuse_absent(sf, &feed->pack[k], feed->path[k]);
        if (have->missing && !xform_takes_missing(&sf->want))
            return fail(
                GAN_ERR_INPUT,
                "%.*s: %.*s: %" PRIu64 " of its numbers are missing, and the field does not "
                "say what they become: float(...) missing(0), with known(%.*s) as their "
                "mask",
                SARG(feed->path[k]), SARG(sf->want.name), have->missing, SARG(sf->want.name));
        if (have->dtype == PackF32) {
            lo = fmin(lo, have->lo);
            hi = fmax(hi, have->hi);
        }
        if (rate && have->rate && have->rate != rate && !k)
            return fail(GAN_ERR_INPUT,
                        "%.*s: the sounds of %.*s are at %u Hz, those the run began with at %u Hz: "
                        "resample them first",
                        SARG(sf->want.name), SARG(feed->path[k]), have->rate, rate);
        if (rate && have->rate && have->rate != rate)
            return fail(GAN_ERR_INPUT,
                        "%.*s: the sounds of %.*s are at %u Hz, those of %.*s before it at %u Hz: "
                        "resample one of them first",
                        SARG(sf->want.name), SARG(feed->path[k]), have->rate,
                        SARG(feed->path[k - 1]), rate);
        rate = have->rate ? have->rate : rate;
    }
    sf->rate = rate;
    if (sf->want.kind == DataLabel)
        TRY(join_classes(s, sf, all));
    tell_classes(s, sf, sf->classes.n);
    tell_range(s, sf, lo, hi);
    sf->lo = lo <= hi && sf->want.ranged ? sf->want.lo : lo;
    sf->hi = lo <= hi && sf->want.ranged ? sf->want.hi : hi;
    sf->plan = arena_array(&s->arena, XformPlan, feed->packs);
    for (uint32_t k = 0; k < feed->packs; k++) {
        PackField have = *all[k];
        const uint32_t *of = sf->classes.of ? sf->classes.of[k] : NULL;
        if (of)
            have.classes = sf->classes.n;
        bool numbers = have.dtype == PackF32;
        GanStatus st = xform_plan(&sf->want, &have, numbers ? sf->lo : have.lo,
                                  numbers ? sf->hi : have.hi, &sf->plan[k]);
        if (st != GAN_OK)
            return refuse_field(s, sf, k, st);
        sf->plan[k].class_of = of, sf->plan[k].own = all[k]->classes;
    }
    sf->elements = sf->plan[0].elements;
    return GAN_OK;
}

static void copy_field(DataStream *s, const DataField *from, DataField *to) {
    Arena *a = &s->arena;
    *to = *from;
    to->name = str_copy(a, from->name);
    DataXform *x = arena_array(a, DataXform, from->xforms);
    if (from->xforms)
        memcpy(x, from->xform, from->xforms * sizeof *x);
    Str *path = arena_array(a, Str, from->paths), *known = arena_array(a, Str, from->knowns),
        *like = arena_array(a, Str, from->likes);
    for (uint32_t i = 0; i < from->knowns; i++)
        known[i] = str_copy(a, from->known[i]);
    for (uint32_t i = 0; i < from->likes; i++)
        like[i] = str_copy(a, from->like[i]);
    for (uint32_t i = 0; i < from->paths; i++)
        path[i] = str_copy(a, from->path[i]);
    to->xform = x;
    to->path = path;
    to->known = known;
    to->like = like;
}

static GanStatus make_slots(DataStream *s) {
    size_t n = (size_t)s->o.count, most = 0;
    for (uint32_t f = 0; f < s->fields; f++) {
        for (uint32_t k = 0; s->field[f].plan && k < s->feed[s->field[f].feed].packs; k++) {
            size_t floats = s->field[f].plan[k].scratch;
            most = floats > most ? floats : most;
        }
    }
    s->scratch = mem_alloc(most * sizeof *s->scratch);
    s->slots = (s->o.ahead ? s->o.ahead : 3) + 1; // and the one the caller holds
    s->slot = arena_array(&s->arena, Slot, s->slots);
    bool ok = s->scratch != NULL;
    for (uint32_t i = 0; i < s->slots; i++) {
        Slot *slot = &s->slot[i];
        slot->field = arena_array(&s->arena, float *, s->fields);
        slot->sample = arena_array(&s->arena, uint64_t, n);
        for (uint32_t f = 0; f < s->fields; f++) {
            slot->field[f] = mem_alloc(n * s->field[f].elements * sizeof **slot->field);
            ok = ok && slot->field[f];
        }
    }
    return ok ? GAN_OK
              : fail(GAN_ERR_MEMORY, "no memory for %u batches of %zu samples", s->slots, n);
}

static GanStatus check_options(DataStream *s) {
    DataOptions *o = &s->o;
    if (o->fields == 0 || o->fields > PACK_MAX_FIELDS) {
        return fail(GAN_ERR_INPUT, "a stream of %u fields; 1 to %d are possible", o->fields,
                    PACK_MAX_FIELDS);
    }
    if (o->count == 0)
        o->count = o->batch - o->first;
    if (o->batch < 1 || o->first < 0 || o->count < 1 || o->first + o->count > o->batch) {
        return fail(GAN_ERR_USAGE, "samples %lld to %lld of a batch of %lld", (long long)o->first,
                    (long long)(o->first + o->count), (long long)o->batch);
    }
    return GAN_OK;
}

// Samples are drawn by the values of this field. Hashes are not verified: that would read the whole
// pack, with the images beside the labels.
static GanStatus open_draw(DataStream *s, const StreamField *sf) {
    float *value = arena_array(&s->arena, float, s->order.n);
    uint64_t bad;
    for (uint64_t i = 0; i < s->order.n; i++)
        TRY(stream_read(s, sf, (Drawn){i, 0}, false, &value[i]));
    if (sf->want.draw == DrawBalanced) {
        order_by_class(&s->arena, value, &s->order);
        return GAN_OK;
    }
    if (order_by_weight(&s->arena, value, &s->order, &bad))
        return GAN_OK;
    if (bad == s->order.n)
        return fail(GAN_ERR_INPUT, "%.*s: every weight is 0: nothing would be drawn",
                    SARG(sf->want.name));
    return fail(GAN_ERR_INPUT,
                "%.*s: sample %llu (%.*s) has a weight of %g; a weight is a number from 0 on",
                SARG(sf->want.name), (unsigned long long)bad, SARG(stream_name(s, bad)),
                (double)value[bad]);
}

static GanStatus prepare(void *user) {
    DataStream *s = user;
    TRY(check_options(s));
    s->fields = s->o.fields;
    for (uint32_t i = 0; i < s->fields; i++)
        copy_field(s, &s->o.field[i], &s->field[i].want);
    for (uint32_t i = 0; i < s->fields; i++)
        TRY(open_feed(s, i));
    join_beside(s);
    TRY(pair_feeds(s));
    for (uint32_t i = 0; i < s->fields; i++)
        TRY(plan_field(s, i));
    uint64_t n = s->feed[0].count;
    if ((uint64_t)s->o.batch > n && !s->o.in_order) {
        return fail(GAN_ERR_INPUT, "%.*s: %.*s: a batch of %lld, and the data has %llu sample%s",
                    SARG(s->feed[0].path[0]), SARG(s->field[0].want.name), (long long)s->o.batch,
                    (unsigned long long)n, n == 1 ? "" : "s");
    }
    // Streams of one model differ; the same stream is the same whatever the model's other streams
    // are.
    s->order = (Order){.n = n,
                       .seed = hash64(&s->o.seed, sizeof s->o.seed, s->o.stream),
                       .in_order = s->o.in_order};
    TRY(make_slots(s));
    for (uint32_t i = 0; i < s->fields; i++)
        if (s->field[i].want.draw != DrawEach && !s->o.in_order && !s->field[i].want.unread)
            TRY(open_draw(s, &s->field[i]));
    return GAN_OK;
}

GanStatus stream_open(const DataOptions *o, DataStream **out) {
    DataStream *s = mem_alloc(sizeof *s);
    if (!s)
        return fail(GAN_ERR_MEMORY, "no memory for a stream of data");
    GanStatus st = arena_init(&s->arena, 0);
    if (st != GAN_OK) {
        mem_free(s);
        return st;
    }
    s->o = *o;
    s->make = s->give = o->position;
    pthread_mutex_init(&s->lock, NULL);
    pthread_cond_init(&s->changed, NULL);
    st = arena_guard(&s->arena, "for names and headers", prepare, s);
    if (st != GAN_OK) {
        stream_close(s);
        return st;
    }
    *out = s;
    return GAN_OK;
}
