// data_cli.c - `ganrun data pack|inspect|verify|preview|synth`. Results go to `out`, progress and
// diagnostics to `err`. Commands and options are rows of data.def.
#define _GNU_SOURCE // open_memstream
#include "args.h"
#include "sources.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

// --- options -------------------------------------------------------------------------------------

enum {
#define COMMAND(Id, ...) Data##Id,
#include "data.def"
    DataCommands
};

enum {
#define OPTION(Id, ...) Opt##Id,
#include "data.def"
    Options
};

static const ArgCommand commands[] = {
#define COMMAND(Id, word, least, most, files, help, example)                                       \
    {word, least, most, files, help, example, NULL},
#include "data.def"
};

static const ArgOption options[] = {
#define OPTION(Id, word, kind, value, commands, help) {word, Arg##kind, value, commands, help},
#include "data.def"
};

const ArgTable data_args = {
    .program = "ganrun data",
    .about = "packs of training samples: writes and inspects them",
    .note = "How an image is brought to its size: " FIT_HELP ".",
    .command = commands,
    .commands = DataCommands,
    .option = options,
    .options = Options,
};

typedef struct DataArgs {
    Str path; // the one argument that is no option
    Str out;
    PackOptions pack;
    uint64_t count, columns, seed;
    bool json;
    FILE *to, *err; // borrowed
} DataArgs;

static GanStatus in(const char *option, GanStatus st) {
    return st == GAN_OK ? st : fail_in(st, "%s", option);
}

static GanStatus whole(Str value, int64_t lo, int64_t hi, uint64_t *out) {
    int64_t v;
    if (!str_to_int(value, &v) || v < lo || v > hi) {
        return fail(GAN_ERR_USAGE, "'%.*s' is not a whole number from %" PRId64 " to %" PRId64,
                    SARG(value), lo, hi);
    }
    *out = (uint64_t)v;
    return GAN_OK;
}

static GanStatus whole32(Str value, int64_t lo, int64_t hi, uint32_t *out) {
    uint64_t v = 0;
    TRY(whole(value, lo, hi, &v));
    *out = (uint32_t)v;
    return GAN_OK;
}

static GanStatus read_size(Str value, DataArgs *a) {
    enum { SideMost = 8192 };
    size_t x = str_find(value, 'x');
    Str w = str_sub(value, 0, x), h = x < value.len ? str_sub(value, x + 1, value.len) : w;
    bool fine = whole32(w, 1, SideMost, &a->pack.w) == GAN_OK &&
                whole32(h, 1, SideMost, &a->pack.h) == GAN_OK;
    return fine ? GAN_OK
                : fail(GAN_ERR_USAGE, "'%.*s' is not a size: N or WxH, each from 1 to %d",
                       SARG(value), SideMost);
}

static GanStatus read_background(Str value, DataArgs *a) {
    static const struct {
        const char *name;
        uint8_t grey;
    } named[] = {{"white", 255}, {"black", 0}, {"grey", 128}, {"gray", 128}};
    a->pack.background_set = true;
    for (size_t i = 0; i < sizeof named / sizeof *named; i++)
        if (str_eq(value, str_c(named[i].name)))
            return memset(a->pack.background, named[i].grey, 3), GAN_OK;
    bool ok = value.len == 7 && value.ptr[0] == '#';
    for (size_t i = 0; ok && i < 3; i++) {
        int byte = str_to_byte(str_sub(value, 1 + 2 * i, value.len));
        ok = byte >= 0;
        a->pack.background[i] = (uint8_t)byte;
    }
    return ok ? GAN_OK
              : fail(GAN_ERR_USAGE, "'%.*s' is not a colour: white, black, grey or #rrggbb",
                     SARG(value));
}

// What args_parse does not check.
static GanStatus read_values(const ArgValue *v, DataArgs *a) {
    if (v[OptOut].given && v[OptFile].given)
        return fail(GAN_ERR_USAGE, "-o and --out both say where: give one of them");
    a->out = v[OptOut].given ? v[OptOut].text : v[OptFile].text;
    if (v[OptSize].given)
        TRY(in(options[OptSize].word, read_size(v[OptSize].text, a)));
    if (v[OptBackground].given)
        TRY(in(options[OptBackground].word, read_background(v[OptBackground].text, a)));
    if (v[OptFit].given && !fit_find(v[OptFit].text, &a->pack.fit))
        bug("data: unknown --fit");
    a->pack.channels = str_eq(v[OptChannels].text, STR("3"))   ? 3
                       : str_eq(v[OptChannels].text, STR("1")) ? 1
                                                               : 0;
    a->pack.bits = str_eq(v[OptBits].text, STR("16"))  ? 16
                   : str_eq(v[OptBits].text, STR("8")) ? 8
                                                       : 0;
    a->pack.labels = v[OptLabels].text;
    a->pack.label_columns = v[OptColumnNames].text;
    a->pack.first_class = (uint64_t)v[OptFirst].number;
    a->pack.split = v[OptSplit].text;
    a->pack.dataset = v[OptDataset].text;
    a->pack.channels_last = v[OptLast].given;
    a->pack.skip_bad = v[OptSkipBad].given;
    a->pack.missing = v[OptMissing].given;
    a->pack.length = (uint64_t)v[OptLength].number;
    a->pack.limit = (uint64_t)v[OptLimit].number;
    a->pack.threads = (int)v[OptThreads].number;
    a->count = (uint64_t)v[OptCount].number;
    a->columns = (uint64_t)v[OptColumns].number;
    a->seed = (uint64_t)v[OptSeed].number;
    a->json = v[OptJson].given;
    return GAN_OK;
}

// --- commands ------------------------------------------------------------------------------------

static void tell_bad(void *user, Str name, const char *reason) {
    char line[1024];
    snprintf(line, sizeof line, "bad: %.*s: %s", SARG(name), reason);
    str_mask(line);
    fprintf(user, "%s\n", line);
}

enum { ProgressEvery = 10 }; // seconds

static void tell_progress(void *user, uint64_t files) {
    fprintf(user, "%" PRIu64 " files\n", files);
}

static GanStatus need(Str given, const char *what) {
    return given.len ? GAN_OK : fail(GAN_ERR_USAGE, "%s", what);
}

static GanStatus run_pack(Arena *arena, DataArgs *a) {
    TRY(need(a->out, "where to? ganrun data pack SRC -o x.pack"));
    a->pack.bad = tell_bad;
    a->pack.progress = tell_progress;
    a->pack.every = ProgressEvery;
    a->pack.user = a->err;
    PackSummary sum = {0};
    Pack pack = {0};
    double began = time_now();
    TRY(pack_build(arena, a->path, &a->pack, a->out, NULL, &sum));
    double took = time_now() - began;
    TRY(pack_open(arena, a->out, &pack));
    fprintf(a->to, "%.*s: %" PRIu64 " samples, %.1f MB, content %.*s\n", SARG(a->out), pack.count,
            (double)pack.n / 1e6, SARG(pack.content));
    if (sum.bad)
        fprintf(a->err, "left out: %" PRIu64 " of %" PRIu64 "\n", sum.bad, sum.good + sum.bad);
    if (sum.shorter)
        fprintf(a->err, "shorter and padded with silence: %" PRIu64 " of %" PRIu64 "\n",
                sum.shorter, sum.good);
    if (sum.longer)
        fprintf(a->err, "longer and cut: %" PRIu64 " of %" PRIu64 "\n", sum.longer, sum.good);
    if (sum.louder)
        fprintf(a->err, "beyond -1 to 1, and kept so: %" PRIu64 " of %" PRIu64 ", to %g\n",
                sum.louder, sum.good, (double)sum.loudest);
    for (int i = 0; i < ImageLosses; i++)
        if (sum.lost[i])
            fprintf(a->err, "%s: %" PRIu64 " of %" PRIu64 "\n", image_loss_words[i], sum.lost[i],
                    sum.good);
    if (sum.rounded)
        fprintf(a->err, "numbers rounded to 32 bits: in %" PRIu64 " of %" PRIu64 "\n", sum.rounded,
                sum.good);
    for (uint32_t i = 0; i < pack.fields; i++) {
        if (pack.field[i].missing)
            fprintf(a->err,
                    "missing: %" PRIu64
                    " numbers of %.*s; a model's field reads them by missing(0)\n",
                    pack.field[i].missing, SARG(pack.field[i].name));
        uint32_t least = pack_least_class(&pack, &pack.field[i]);
        if (least)
            fprintf(a->err, "no sample has a class below %u: --first-class %u makes it class 0\n",
                    least, least);
    }
    fprintf(a->err, "packed in %.2f s\n", took);
    pack_close(&pack);
    return GAN_OK;
}

static GanStatus run_inspect(Arena *arena, DataArgs *a) {
    (void)arena;
    char *text = NULL;
    size_t n = 0;
    FILE *to = open_memstream(&text, &n);
    if (!to)
        return fail(GAN_ERR_MEMORY, "no memory to describe %.*s", SARG(a->path));
    GanStatus st = data_inspect(a->path, a->pack.dataset, a->json, to);
    if (fclose(to) == 0) {
        str_mask(text);
        fputs(text, a->to);
    } else if (st == GAN_OK) {
        st = fail(GAN_ERR_MEMORY, "no memory to describe %.*s", SARG(a->path));
    }
    free(text);
    return st;
}

static GanStatus run_verify(Arena *arena, DataArgs *a) {
    Pack pack = {0};
    if (!file_exists(a->path))
        return fail(GAN_ERR_INPUT, "%.*s: no such file", SARG(a->path));
    TRY(pack_open(arena, a->path, &pack));
    GanStatus st = pack_verify(&pack);
    if (st == GAN_OK) {
        fprintf(a->to, "%.*s: %" PRIu64 " samples, whole; content %.*s\n", SARG(a->path),
                pack.count, SARG(pack.content));
    } else
        st = fail_in(st, "%.*s", SARG(a->path));
    pack_close(&pack);
    return st;
}

// The first samples as f32 [n, c, h, w].
static GanStatus read_samples(const Pack *p, const PackField *f, uint64_t n, float *out) {
    size_t each = f->bytes / pack_dtype_size(f->dtype);
    for (uint64_t i = 0; i < n; i++) {
        const uint8_t *at = pack_record(p, i) + f->offset;
        for (size_t k = 0; k < each; k++, out++) {
            *out = f->dtype == PackU8    ? at[k]
                   : f->dtype == PackU16 ? ((const uint16_t *)at)[k]
                                         : ((const float *)at)[k];
        }
    }
    return GAN_OK;
}

static GanStatus preview_pack(const Pack *p, const DataArgs *a) {
    const PackField *f = &p->field[0];
    bool image = f->kind != DataLabel && f->rank == 3 && (f->dim[0] == 1 || f->dim[0] == 3);
    if (!image) {
        return fail(GAN_ERR_INPUT, "%.*s: its samples are not images of 1 or 3 channels",
                    SARG(a->path));
    }
    uint64_t n = a->count < p->count ? a->count : p->count,
             columns = a->columns < n ? a->columns : n;
    uint32_t chw[3] = {(uint32_t)f->dim[0], (uint32_t)f->dim[1], (uint32_t)f->dim[2]};
    size_t floats = 0;
    float *x = mem_mul((size_t)n, f->bytes, &floats)
                   ? mem_alloc((size_t)n * (f->bytes / pack_dtype_size(f->dtype)) * sizeof *x)
                   : NULL;
    if (!x)
        return fail(GAN_ERR_MEMORY, "no memory for %" PRIu64 " images", n);
    Image grid = {0};
    GanStatus st = read_samples(p, f, n, x);
    columns = image_columns(n, chw, columns);
    if (st == GAN_OK)
        st = image_grid(x, (size_t)n, chw, (uint32_t)columns, f->lo, f->hi, &grid);
    if (st == GAN_OK)
        st = image_write_png(a->out, &grid);
    if (st == GAN_OK)
        fprintf(a->to, "%.*s: %" PRIu64 " samples of %ux%u\n", SARG(a->out), n, chw[2], chw[1]);
    image_release(&grid);
    mem_free(x);
    return st;
}

static GanStatus run_preview(Arena *arena, DataArgs *a) {
    TRY(need(a->out, "where to? ganrun data preview X -o grid.png"));
    TRY(path_writes(a->out, ".png", false));
    Pack pack = {0};
    SourceKind kind;
    if (!a->count)
        a->count = 64;
    if (!a->columns)
        a->columns = 8;
    TRY(source_guess(a->path, &kind));
    const PackOptions *p = &a->pack;
    if (kind == SourcePack &&
        (p->w || p->channels || p->channels_last || p->fit != FitAuto || p->background_set))
        return fail(GAN_ERR_USAGE,
                    "%.*s: a pack is shown as it is; --size, --channels, --channels-last, --fit "
                    "and --background are for `ganrun data pack`",
                    SARG(a->path));
    if (!a->pack.w && source_has_members(kind))
        a->pack.implied = true, a->pack.w = a->pack.h = 64;
    a->pack.limit = a->count;
    a->pack.bad = tell_bad;
    a->pack.user = a->err;
    TRY(pack_build(arena, a->path, &a->pack, (Str){0}, &pack, NULL));
    GanStatus st = preview_pack(&pack, a);
    pack_close(&pack);
    return st;
}

static GanStatus run_synth(Arena *arena, DataArgs *a) {
    (void)arena;
    TRY(need(a->out, "where to? ganrun data synth KIND --out F --count N"));
    if (!a->count)
        return fail(GAN_ERR_USAGE, "how many? ganrun data synth KIND --out F --count N");
    if (a->pack.w != a->pack.h)
        return fail(GAN_ERR_USAGE, "these images are square: --size N");
    TRY(synth_write(a->path, a->out, a->count, a->pack.w, a->seed));
    fprintf(a->to, "%.*s: %" PRIu64 " samples\n", SARG(a->out), a->count);
    return GAN_OK;
}

int data_main(int argc, char **argv, FILE *out, FILE *err) {
    static GanStatus (*const run[])(Arena *, DataArgs *) = {
        [DataPack] = run_pack,       [DataInspect] = run_inspect, [DataVerify] = run_verify,
        [DataPreview] = run_preview, [DataSynth] = run_synth,
    };
    Arena arena = {0};
    uint32_t command = DataCommands;
    StrVec file = {0};
    ArgValue value[Options] = {0};
    DataArgs a = {.to = out, .err = err};
    GanStatus st = arena_init(&arena, 0);
    if (st == GAN_OK && argc < 1)
        st = fail(GAN_ERR_USAGE, "which command? `ganrun data --help` lists them");
    if (st == GAN_OK)
        st = args_parse(&arena, &data_args, argc, argv, &command, &file, value);
    if (st == GAN_OK)
        st = read_values(value, &a);
    if (st == GAN_OK) {
        a.path = file.at[0];
        st = run[command](&arena, &a);
    }
    arena_release(&arena);
    if (st != GAN_OK)
        fprintf(err, "ganrun data%s%s: %s\n", command < DataCommands ? " " : "",
                command < DataCommands ? commands[command].word : "", gan_error());
    return gan_exit_code(st);
}
