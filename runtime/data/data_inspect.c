// data_inspect.c - `ganrun data inspect`: what a path holds, for people and (--json) for scripts.
//
// A pack or array is described by its header, and its value range by a walk over the samples. Every
// image of a folder or archive is decoded, so that damaged files are found before training; the
// most frequent sizes are listed, the others counted.
#include "sources.h"
#include "torch.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { FirstNames = 5, SizesShown = 5, SizesInJson = 16, BadMost = 20, ClassesShown = 20 };
enum { ClassesCounted = 1 << 24 }; // a damaged file may say anything

typedef struct SizeCount {
    uint32_t w, h, channels, bits; // of images
    uint32_t rate;                 // of sounds, which have channels too; 0: images
    uint64_t n, shortest, longest; // of sounds, in samples per channel
} SizeCount;

typedef struct Survey { // what was found, whatever the source
    Arena *arena;
    SourceKind kind;
    uint64_t count, bad;
    uint64_t missing;    // numbers that are NaN
    StrVec first;        // names
    StrVec bad_lines;    // "name: reason"
    VEC(SizeCount) size; // in order of appearance; told by frequency
    Map size_of;         // hash of a kind of image or sound to its number in `size`, from 1
    double lo, hi;       // values of the samples
    PackField field[PACK_MAX_FIELDS]; // of a pack of it, as far as the source says
    uint32_t fields;
    const Pack *pack;                    // or NULL
    uint64_t *of_class[PACK_MAX_FIELDS]; // of a pack's labels: [classes] samples; or NULL
    const Array *array;                  // or NULL
} Survey;

// --- gathering -----------------------------------------------------------------------------------

static bool is_channels(int64_t extent) {
    return extent == 1 || extent == 3 || extent == 4;
}

static bool seems_channels_last(const Array *a) {
    return a->rank == 4 && is_channels(a->dim[3]) && !is_channels(a->dim[1]);
}

typedef struct Seen {
    uint32_t w, h, channels, bits;
    uint32_t lo, hi;
    uint32_t rate; // of a sound, 0: an image
    uint64_t frames;
} Seen;

static GanStatus work_look(void *user, const Item *item, void *result) {
    (void)user;
    Seen *seen = result;
    Image m = {0};
    if (sound_is(item->bytes, item->n)) {
        Sound is;
        TRY(sound_look(item->bytes, item->n, &is));
        *seen =
            (Seen){.channels = is.channels, .lo = UINT32_MAX, .rate = is.rate, .frames = is.frames};
        return GAN_OK;
    }
    TRY(image_decode(item->bytes, item->n, &m));
    *seen = (Seen){.w = m.w, .h = m.h, .channels = m.channels, .bits = m.bits, .lo = UINT32_MAX};
    size_t n = (size_t)m.w * m.h * m.channels;
    for (size_t i = 0; i < n; i++) {
        uint32_t v = m.bits == 8 ? ((const uint8_t *)m.pixels)[i] : ((const uint16_t *)m.pixels)[i];
        seen->lo = v < seen->lo ? v : seen->lo;
        seen->hi = v > seen->hi ? v : seen->hi;
    }
    image_release(&m);
    return GAN_OK;
}

// Photographs come in thousands of sizes, hence the map.
static void count_size(Survey *s, const Seen *v) {
    const uint32_t kind[] = {v->w, v->h, v->channels, v->bits, v->rate};
    uint64_t key = hash64(kind, sizeof kind, 0);
    uint32_t at = map_find(&s->size_of, key);
    if (!at) {
        vec_push(s->arena, &s->size,
                 ((SizeCount){v->w, v->h, v->channels, v->bits, v->rate, 0, v->frames, v->frames}));
        at = s->size.n;
        map_put(s->arena, &s->size_of, key, at);
    }
    SizeCount *z = &s->size.at[at - 1];
    z->shortest = v->frames < z->shortest ? v->frames : z->shortest;
    z->longest = v->frames > z->longest ? v->frames : z->longest;
    z->n++;
}

static int by_frequency(const void *a, const void *b) {
    const SizeCount *x = a, *y = b;
    if (x->n != y->n)
        return x->n > y->n ? -1 : 1;
    if (x->w != y->w)
        return x->w < y->w ? -1 : 1;
    if (x->h != y->h)
        return x->h < y->h ? -1 : 1;
    if (x->channels != y->channels)
        return x->channels < y->channels ? -1 : 1;
    return x->bits != y->bits ? (x->bits < y->bits ? -1 : 1)
                              : (x->rate > y->rate) - (x->rate < y->rate);
}

static GanStatus done_look(void *user, const Item *item, GanStatus st, const char *reason,
                           void *result) {
    Survey *s = user;
    const Seen *v = result;
    if (st != GAN_OK) {
        s->bad++;
        if (s->bad_lines.n < BadMost) {
            vec_push(s->arena, &s->bad_lines,
                     str_format(s->arena, "%.*s: %s", SARG(item->name), reason));
        }
        return GAN_OK;
    }
    if (s->count++ < FirstNames)
        vec_push(s->arena, &s->first, str_copy(s->arena, item->name));
    count_size(s, v);
    s->lo = v->lo < s->lo ? v->lo : s->lo;
    s->hi = v->hi > s->hi ? v->hi : s->hi;
    return GAN_OK;
}

// Samples that are all alike need no --size or --length.
static void add_field(Survey *s, const SizeCount *all) {
    if (!all->rate)
        s->field[s->fields++] =
            (PackField){.name = STR("x"), .kind = DataImage, .rank = 3, .dim = {3, all->h, all->w}};
    else if (all->shortest == all->longest)
        s->field[s->fields++] = (PackField){.name = STR("x"),
                                            .kind = DataFloat,
                                            .rank = 2,
                                            .dim = {all->channels, (int64_t)all->longest}};
}

static GanStatus look_at_images(Survey *s, Str path) {
    Source *source = NULL;
    TRY(source_open(path, s->kind, &source));
    ItemJob job = {.source = source,
                   .result_size = sizeof(Seen),
                   .work = work_look,
                   .done = done_look,
                   .user = s};
    GanStatus st = items_run(&job);
    source_close(source);
    if (s->size.n)
        qsort(s->size.at, s->size.n, sizeof *s->size.at, by_frequency);
    if (s->size.n == 1)
        add_field(s, &s->size.at[0]);
    return st;
}

static GanStatus look_at_array(Survey *s, Str path, ArrayFile *f) {
    s->array = &f->all;
    s->fields = array_fields(s->arena, path, s->kind, f, seems_channels_last(&f->all), s->field);
    s->count = f->all.rank ? (uint64_t)f->all.dim[0] : 0;
    for (size_t row = 0; row < s->count; row++) {
        Array a;
        TRY(array_row(f, row, &a));
        for (size_t i = 0; i < a.count; i++) {
            double v = array_at(&a, i);
            s->missing += isnan(v) != 0;
            s->bad += isinf(v) != 0;
            s->lo = v < s->lo ? v : s->lo;
            s->hi = v > s->hi ? v : s->hi;
        }
    }
    if (s->fields)
        s->field[0].missing = s->missing;
    return GAN_OK;
}

static void look_at_pack(Survey *s, const Pack *p) {
    s->pack = p;
    s->fields = p->fields;
    memcpy(s->field, p->field, p->fields * sizeof *s->field);
    s->count = p->count;
    for (uint64_t i = 0; i < p->count && i < FirstNames; i++)
        vec_push(s->arena, &s->first, pack_name(p, i));
    const PackField *f = &p->field[0];
    for (uint32_t i = 0; i < p->fields; i++)
        s->missing += p->field[i].missing;
    size_t n = f->bytes / pack_dtype_size(f->dtype);
    for (uint64_t i = 0; i < p->count; i++) {
        const uint8_t *at = pack_record(p, i) + f->offset;
        for (size_t k = 0; k < n; k++) {
            double v = f->dtype == PackU8    ? at[k]
                       : f->dtype == PackU16 ? ((const uint16_t *)at)[k]
                       : f->dtype == PackU32 ? ((const uint32_t *)at)[k]
                                             : (double)((const float *)at)[k];
            s->lo = v < s->lo ? v : s->lo;
            s->hi = v > s->hi ? v : s->hi;
        }
    }
}

static void count_classes(Survey *s, const Pack *p) {
    for (uint32_t i = 0; i < p->fields; i++) {
        const PackField *f = &p->field[i];
        if (f->kind != DataLabel || f->classes > ClassesCounted)
            continue;
        s->of_class[i] = arena_array(s->arena, uint64_t, f->classes);
        for (uint64_t k = 0; k < p->count; k++) {
            uint32_t class;
            memcpy(&class, pack_record(p, k) + f->offset, sizeof class);
            if (class < f->classes)
                s->of_class[i][class]++;
        }
    }
}

// --- telling -------------------------------------------------------------------------------------

static Str shape_list(Arena *a, uint32_t rank, const int64_t *dim) {
    Text t = {.arena = a};
    for (uint32_t i = 0; i < rank; i++)
        text_fmt(&t, "%s%" PRId64, i ? ", " : "", dim[i]);
    return text_str(&t);
}

// The `data` statement of a model that reads this.
static Str data_line(const Survey *s) {
    Arena *a = s->arena;
    Text t = {.arena = a};
    for (uint32_t i = 0; i < s->fields; i++) {
        const PackField *f = &s->field[i];
        text_fmt(&t, "%s%.*s : ", i ? ", " : "data ", SARG(f->name));
        if (f->kind == DataLabel) {
            text_fmt(&t, "label(%u)", f->classes);
            continue;
        }
        Str shape = shape_list(a, f->rank, f->dim);
        text_fmt(&t, "%s(%.*s)%s%s", f->kind == DataImage ? "image" : "float", SARG(shape),
                 i ? "" : " scale(-1, 1)", // labels that are vectors are used as they are
                 f->missing ? " missing(0)" : "");
    }
    return text_str(&t);
}

// Names of files are of any bytes: one is a line, and says nothing to a terminal.
static Str shown(Arena *a, Str name) {
    Str copy = str_copy(a, name);
    char *z = memcpy(arena_alloc(a, name.len + 1, 1), copy.ptr, name.len); // 0 follows
    str_mask(z);
    for (char *c = z; *c; c++)
        *c = *c == '\n' ? '?' : *c;
    return str_c(z);
}

static const char *mode_name(uint32_t channels) {
    static const char *const names[] = {"", "grey", "grey+alpha", "RGB", "RGB+alpha"};
    return names[channels];
}

// How many samples the classes have, and the first ones' names.
static void tell_classes(Arena *a, const PackField *f, const uint64_t *samples, FILE *out) {
    uint64_t least = UINT64_MAX, most = 0;
    uint32_t empty = 0;
    for (uint32_t c = 0; samples && c < f->classes; c++) {
        empty += samples[c] == 0;
        least = samples[c] && samples[c] < least ? samples[c] : least;
        most = samples[c] > most ? samples[c] : most;
    }
    fprintf(out, "           %u class%s", f->classes, f->classes == 1 ? "" : "es");
    if (most && least == most)
        fprintf(out, " of %" PRIu64 " sample%s", most, most == 1 ? "" : "s");
    else if (most)
        fprintf(out, " of %" PRIu64 " to %" PRIu64 " samples", least, most);
    if (empty)
        fprintf(out, ", %u without any", empty);
    fputc('\n', out);
    uint32_t first = 0;
    while (samples && most && !samples[first])
        first++;
    if (first && !f->class_name)
        fprintf(out,
                "           they begin with %u: `data pack --first-class %u` makes it class 0\n",
                first, first);
    for (uint32_t c = 0; samples && f->class_name && c < f->classes && c < ClassesShown; c++)
        fprintf(out, "           class %u: %.*s (%" PRIu64 ")\n", c,
                SARG(shown(a, f->class_name[c])), samples[c]);
    if (f->class_name && f->classes > ClassesShown)
        fprintf(out, "           and %u more\n", f->classes - ClassesShown);
}

static void tell_pack(const Survey *s, FILE *out) {
    const Pack *p = s->pack;
    for (uint32_t i = 0; i < p->fields; i++) {
        const PackField *f = &p->field[i];
        Str shape = shape_list(s->arena, f->rank, f->dim);
        fprintf(out, "field      %.*s: %s [%.*s]\n", SARG(f->name), pack_dtype_name(f->dtype),
                SARG(shape));
        if (f->kind == DataLabel)
            tell_classes(s->arena, f, s->of_class[i], out);
    }
    fprintf(out, "made from  %.*s\n", SARG(p->source));
    if (p->fit.len)
        fprintf(out, "fitted     %.*s\n", SARG(p->fit));
    fprintf(out, "content    %.*s\n", SARG(p->content));
}

static void tell_array(const Survey *s, FILE *out) {
    const Array *a = s->array;
    Str shape = shape_list(s->arena, a->rank, a->dim);
    fprintf(out, "array      %c%u [%.*s]\n", a->kind, a->size, SARG(shape));
    if (seems_channels_last(a))
        fprintf(out, "           channels are its last axis? pack it with --channels-last\n");
}

static void tell_size(const SizeCount *z, FILE *out) {
    if (z->rate)
        fprintf(out,
                "sounds     %" PRIu64 " at %u Hz, %u channel%s, %" PRIu64 " to %" PRIu64
                " samples\n",
                z->n, z->rate, z->channels, z->channels == 1 ? "" : "s", z->shortest, z->longest);
    else
        fprintf(out, "images     %" PRIu64 " of %ux%u, %s, %u bits\n", z->n, z->w, z->h,
                mode_name(z->channels), z->bits);
}

// The less frequent sizes in one line.
static void tell_other_sizes(const Survey *s, FILE *out) {
    const SizeCount *first = &s->size.at[SizesShown];
    uint32_t w[2] = {first->w, first->w}, h[2] = {first->h, first->h}; // least and most
    uint64_t n = 0;
    for (uint32_t i = SizesShown; i < s->size.n; i++) {
        const SizeCount *z = &s->size.at[i];
        w[0] = z->w < w[0] ? z->w : w[0];
        w[1] = z->w > w[1] ? z->w : w[1];
        h[0] = z->h < h[0] ? z->h : h[0];
        h[1] = z->h > h[1] ? z->h : h[1];
        n += z->n;
    }
    fprintf(out, "           %" PRIu64 " of %u other kinds", n, s->size.n - SizesShown);
    if (w[1])
        fprintf(out, ", %u to %u wide, %u to %u high", w[0], w[1], h[0], h[1]);
    fputc('\n', out);
}

// The first field that lacks some.
static Str name_missing(const Survey *s) {
    for (uint32_t i = 0; i < s->fields; i++)
        if (s->field[i].missing)
            return s->field[i].name;
    return STR("x");
}

static void tell(const Survey *s, Str path, FILE *out) {
    fprintf(out, "%.*s: %s, %" PRIu64 " samples\n", SARG(path), source_kind_name(s->kind),
            s->count);
    if (s->pack)
        tell_pack(s, out);
    if (s->array)
        tell_array(s, out);
    for (uint32_t i = 0; i < s->size.n && i < SizesShown; i++)
        tell_size(&s->size.at[i], out);
    if (s->size.n > SizesShown)
        tell_other_sizes(s, out);
    if (s->fields)
        fprintf(out, "model      %.*s\n", SARG(data_line(s)));
    else if (s->size.n && !s->size.at[0].rate)
        fprintf(out, "model      data x : image(3, 64, 64) scale(-1, 1), or any other size\n");
    else if (s->size.n)
        fprintf(out, "model      data x : float(%u, 8192), or any other length\n",
                s->size.at[0].channels);
    if (s->lo <= s->hi)
        fprintf(out, "values     %g to %g\n", s->lo, s->hi);
    if (s->missing)
        fprintf(out,
                "missing    %" PRIu64 " numbers, which are 0 by missing(0); known(%.*s) is 1 for "
                "the others\n",
                s->missing, SARG(name_missing(s)));
    for (uint32_t i = 0; i < s->first.n; i++)
        fprintf(out, "%s %.*s\n", i ? "          " : "first     ",
                SARG(shown(s->arena, s->first.at[i])));
    if (s->bad) {
        fprintf(out, "bad        %" PRIu64 "%s\n", s->bad,
                s->array ? " values are not finite" : " cannot be read:");
    }
    for (uint32_t i = 0; i < s->bad_lines.n; i++)
        fprintf(out, "           %.*s\n", SARG(shown(s->arena, s->bad_lines.at[i])));
}

static void put_shape(JsonOut *j, uint32_t rank, const int64_t *dim) {
    json_member_open(j, "shape", '[');
    for (uint32_t i = 0; i < rank; i++)
        json_put_int(j, dim[i]);
    json_close(j, ']');
}

static void put_list(JsonOut *j, const char *name, const StrVec *list) {
    json_member_open(j, name, '[');
    for (uint32_t i = 0; i < list->n; i++)
        json_put_str(j, list->at[i]);
    json_close(j, ']');
}

static void put_pack(const Survey *s, JsonOut *j) {
    json_member_open(j, "fields", '[');
    for (uint32_t i = 0; i < s->pack->fields; i++) {
        const PackField *f = &s->pack->field[i];
        json_open(j, '{');
        json_member_str(j, "name", f->name);
        json_member_str(j, "dtype", str_c(pack_dtype_name(f->dtype)));
        put_shape(j, f->rank, f->dim);
        if (f->kind == DataLabel) {
            json_member_int(j, "classes", f->classes);
            json_member_open(j, "samples", '[');
            for (uint32_t c = 0; s->of_class[i] && c < f->classes; c++)
                json_put_int(j, (int64_t)s->of_class[i][c]);
            json_close(j, ']');
        }
        json_close(j, '}');
    }
    json_close(j, ']');
    json_member_str(j, "source", s->pack->source);
    json_member_str(j, "fit", s->pack->fit);
    json_member_str(j, "content", s->pack->content);
}

static void put_image_size(JsonOut *j, const SizeCount *z) {
    json_member_int(j, "width", z->w);
    json_member_int(j, "height", z->h);
    json_member_str(j, "mode", str_c(mode_name(z->channels)));
    json_member_int(j, "bits", z->bits);
}

static void put_sound_size(JsonOut *j, const SizeCount *z) {
    json_member_int(j, "rate", z->rate);
    json_member_int(j, "channels", z->channels);
    json_member_int(j, "shortest", (int64_t)z->shortest);
    json_member_int(j, "longest", (int64_t)z->longest);
}

static void put_sizes(const Survey *s, JsonOut *j) {
    int64_t others = 0; // samples of sizes that are not listed
    for (int sounds = 0; sounds < 2; sounds++) {
        json_member_open(j, sounds ? "sounds" : "images", '[');
        for (uint32_t i = 0; i < s->size.n && i < SizesInJson; i++) {
            const SizeCount *z = &s->size.at[i];
            if ((z->rate > 0) != sounds)
                continue;
            json_open(j, '{');
            json_member_int(j, "count", (int64_t)z->n);
            (sounds ? put_sound_size : put_image_size)(j, z);
            json_close(j, '}');
        }
        json_close(j, ']');
    }
    for (uint32_t i = SizesInJson; i < s->size.n; i++)
        others += (int64_t)s->size.at[i].n;
    json_member_int(j, "other_sizes", others);
}

static void tell_json(const Survey *s, Str path, FILE *out) {
    Text text = {.arena = s->arena};
    JsonOut j = {.text = &text};
    json_open(&j, '{');
    json_member_str(&j, "path", path);
    json_member_str(&j, "kind", str_c(source_kind_name(s->kind)));
    json_member_int(&j, "count", (int64_t)s->count);
    if (s->pack)
        put_pack(s, &j);
    if (s->array)
        put_shape(&j, s->array->rank, s->array->dim);
    if (s->size.n)
        put_sizes(s, &j);
    if (s->fields)
        json_member_str(&j, "model", data_line(s));
    if (s->lo <= s->hi) {
        json_member_open(&j, "range", '[');
        json_put_double(&j, s->lo);
        json_put_double(&j, s->hi);
        json_close(&j, ']');
    }
    if (s->missing)
        json_member_int(&j, "missing", (int64_t)s->missing);
    put_list(&j, "first", &s->first);
    json_member_int(&j, "bad", (int64_t)s->bad);
    put_list(&j, "bad_files", &s->bad_lines);
    json_close(&j, '}');
    Str all = text_str(&text);
    fprintf(out, "%.*s\n", SARG(all));
}

static GanStatus look(Survey *s, Str path, Str dataset, Pack *pack, ArrayFile *array) {
    TRY(source_guess(path, &s->kind));
    TRY(source_holds(path, s->kind, dataset));
    switch (s->kind) {
    case SourcePack:
        TRY(pack_open(s->arena, path, pack));
        look_at_pack(s, pack);
        count_classes(s, pack);
        return GAN_OK;
    case SourceNpy:
    case SourceNpz:
    case SourceIdx:
    case SourceCifar:
    case SourceTable:
    case SourceHdf5:
        TRY(array_open(path, s->kind, dataset, true, array));
        return look_at_array(s, path, array);
    case SourceFolder:
    case SourceArchive:
    case SourceLmdb:
        return look_at_images(s, path);
    }
    bug("inspect: source %d", (int)s->kind);
}

GanStatus data_inspect(Str path, Str dataset, bool json, FILE *out) {
    Arena arena = {0};
    Pack pack = {0};
    ArrayFile array = {0};
    bool weights;
    TRY(weights_are(path, &weights));
    if (weights)
        return weights_inspect(path, json, out);
    TRY(arena_init(&arena, 0));
    Survey s = {.arena = &arena, .lo = INFINITY, .hi = -INFINITY};
    GanStatus st = look(&s, path, dataset, &pack, &array);
    if (st == GAN_OK && json)
        tell_json(&s, path, out);
    if (st == GAN_OK && !json)
        tell(&s, path, out);
    if (st == GAN_OK && s.count == 0) {
        st = fail(GAN_ERR_INPUT, "%.*s: %s", SARG(path),
                  s.array ? "an array without samples"
                  : s.bad ? "nothing in it can be read"
                          : "no images or sounds in it");
    } else if (st == GAN_OK && s.bad) {
        st = fail(GAN_ERR_INPUT, "%.*s: %" PRIu64 " %s", SARG(path), s.bad,
                  s.array ? "values are not finite" : "files cannot be read");
    }
    pack_close(&pack);
    array_close(&array);
    arena_release(&arena);
    return st;
}
