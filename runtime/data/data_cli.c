// data_cli.c - `ganrun data pack|inspect|verify|preview|synth`. Results go to `out`, progress and
// complaints to `err`.
//
// Each command is a row: its options are checked against a table, then it runs with them. An option
// that a command does not know is a usage error with the nearest name that it does.
#include "sources.h"

#include <inttypes.h>
#include <string.h>

static const char help[] =
    "ganrun data pack SRC -o x.pack --size N|WxH   samples into one file that opens at once\n"
    "    SRC: a folder and all below it, zip, tar or tar.gz of PNG and JPEG pictures; npy; npz;\n"
    "         IDX; HDF5; CIFAR's .bin, with its classes\n"
    "    --dataset NAME      which array of an HDF5 or npz file with several\n"
    "    --channels 1|3      of the result; 3 for pictures, 1 for IDX\n"
    "    --bits 8|16         of the result; by default as the first picture\n"
    "    --fit MODE          auto, cover, contain or stretch\n"
    "    --ground COLOUR     under alpha and beside pictures: white, black, grey, #rrggbb\n"
    "    --labels folders    the folder of a picture is its class\n"
    "    --labels FILE       IDX or npy, for array sources; NAME: an array of the same npz\n"
    "    --channels-last     npy samples are [h, w, c]\n"
    "    --skip-bad          leave out what cannot be read\n"
    "    --limit N           the first N files only\n"
    "    --threads N         (one per core)\n"
    "ganrun data inspect X [--dataset NAME --json] what it is: counts, shapes, values, damage\n"
    "ganrun data verify X.pack                     every byte against its hash\n"
    "ganrun data preview X -o grid.png             [--count 64 --columns 8, and as for pack]\n"
    "ganrun data synth KIND --out F --count N      [--size N --seed 0]; KIND: ";

// --- options -------------------------------------------------------------------------------------

typedef struct DataArgs {
    Str path; // the one argument that is no option
    Str out;
    PackOptions pack;
    uint64_t count, columns, seed;
    bool json, help;
    FILE *to, *err; // borrowed
} DataArgs;

typedef GanStatus OptionRead(Str value, DataArgs *a);
typedef struct Option {
    const char *name;
    bool has_value;
    OptionRead *read;
    const char *commands; // initials of those that take it
} Option;

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
    TRY(whole32(str_sub(value, 0, x), 1, SideMost, &a->pack.w));
    if (x == value.len)
        return a->pack.h = a->pack.w, GAN_OK;
    return whole32(str_sub(value, x + 1, value.len), 1, SideMost, &a->pack.h);
}

static GanStatus read_channels(Str value, DataArgs *a) {
    TRY(whole32(value, 1, 3, &a->pack.channels));
    return a->pack.channels == 2 ? fail(GAN_ERR_USAGE, "pictures have 1 channel or 3") : GAN_OK;
}

static GanStatus read_bits(Str value, DataArgs *a) {
    TRY(whole32(value, 8, 16, &a->pack.bits));
    return a->pack.bits % 8 ? fail(GAN_ERR_USAGE, "samples have 8 bits or 16") : GAN_OK;
}

static GanStatus read_fit(Str value, DataArgs *a) {
    if (fit_find(value, &a->pack.fit))
        return GAN_OK;
    return fail(GAN_ERR_USAGE, "'%.*s' is not a fit: auto, cover, contain or stretch", SARG(value));
}

static int hex_digit(char c) {
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    if (c >= 'A' && c <= 'F')
        return c - 'A' + 10;
    return -1;
}

static GanStatus read_ground(Str value, DataArgs *a) {
    static const struct {
        const char *name;
        uint8_t grey;
    } named[] = {{"white", 255}, {"black", 0}, {"grey", 128}, {"gray", 128}};
    a->pack.ground_set = true;
    for (size_t i = 0; i < sizeof named / sizeof *named; i++)
        if (str_eq(value, str_c(named[i].name)))
            return memset(a->pack.ground, named[i].grey, 3), GAN_OK;
    bool ok = value.len == 7 && value.ptr[0] == '#';
    for (size_t i = 0; ok && i < 3; i++) {
        int hi = hex_digit(value.ptr[1 + 2 * i]), lo = hex_digit(value.ptr[2 + 2 * i]);
        ok = hi >= 0 && lo >= 0;
        if (ok)
            a->pack.ground[i] = (uint8_t)(16 * hi + lo);
    }
    return ok ? GAN_OK
              : fail(GAN_ERR_USAGE, "'%.*s' is not a colour: white, black, grey or #rrggbb",
                     SARG(value));
}

static GanStatus read_threads(Str value, DataArgs *a) {
    uint32_t n = 0;
    TRY(whole32(value, 1, 64, &n));
    a->pack.threads = (int)n;
    return GAN_OK;
}

static GanStatus read_out(Str value, DataArgs *a) {
    return a->out = value, GAN_OK;
}
static GanStatus read_labels(Str value, DataArgs *a) {
    return a->pack.labels = value, GAN_OK;
}
static GanStatus read_dataset(Str value, DataArgs *a) {
    return a->pack.dataset = value, GAN_OK;
}
static GanStatus read_skip_bad(Str value, DataArgs *a) {
    return (void)value, a->pack.skip_bad = true, GAN_OK;
}
static GanStatus read_channels_last(Str value, DataArgs *a) {
    return (void)value, a->pack.channels_last = true, GAN_OK;
}
static GanStatus read_json(Str value, DataArgs *a) {
    return (void)value, a->json = true, GAN_OK;
}
static GanStatus read_help(Str value, DataArgs *a) {
    return (void)value, a->help = true, GAN_OK;
}
static GanStatus read_limit(Str value, DataArgs *a) {
    return whole(value, 1, INT64_MAX, &a->pack.limit);
}
static GanStatus read_count(Str value, DataArgs *a) {
    return whole(value, 1, INT32_MAX, &a->count);
}
static GanStatus read_columns(Str value, DataArgs *a) {
    return whole(value, 1, 1024, &a->columns);
}
static GanStatus read_seed(Str value, DataArgs *a) {
    return whole(value, 0, INT64_MAX, &a->seed);
}

// Commands: p pack, i inspect, v verify, g preview, s synth.
static const Option options[] = {
    {"-o", true, read_out, "pgs"},
    {"--out", true, read_out, "pgs"},
    {"--size", true, read_size, "pgs"},
    {"--channels", true, read_channels, "pg"},
    {"--bits", true, read_bits, "p"},
    {"--fit", true, read_fit, "pg"},
    {"--ground", true, read_ground, "pg"},
    {"--labels", true, read_labels, "p"},
    {"--dataset", true, read_dataset, "pi"},
    {"--limit", true, read_limit, "p"},
    {"--threads", true, read_threads, "pg"},
    {"--count", true, read_count, "gs"},
    {"--columns", true, read_columns, "g"},
    {"--seed", true, read_seed, "s"},
    {"--skip-bad", false, read_skip_bad, "pg"},
    {"--channels-last", false, read_channels_last, "pg"},
    {"--json", false, read_json, "i"},
    {"--help", false, read_help, "pivgs"},
};
enum { Options = sizeof options / sizeof *options };

static GanStatus unknown_option(Str word, char command) {
    const char *near = NULL;
    uint32_t least = 4;
    for (size_t i = 0; i < Options; i++) {
        uint32_t d = str_distance(word, str_c(options[i].name));
        if (!strchr(options[i].commands, command) || d >= least)
            continue;
        least = d;
        near = options[i].name;
    }
    if (near)
        return fail(GAN_ERR_USAGE, "unknown option %.*s; did you mean %s?", SARG(word), near);
    return fail(GAN_ERR_USAGE, "unknown option %.*s", SARG(word));
}

static GanStatus read_option(Str word, Str next, bool has_next, char command, DataArgs *a,
                             bool *used_next) {
    size_t equals = str_starts(word, STR("--")) ? str_find(word, '=') : word.len;
    Str name = str_sub(word, 0, equals);
    for (size_t i = 0; i < Options; i++) {
        const Option *o = &options[i];
        if (!str_eq(name, str_c(o->name)) || !strchr(o->commands, command))
            continue;
        bool joined = equals < word.len;
        if (!o->has_value && joined)
            return fail(GAN_ERR_USAGE, "%s takes no value", o->name);
        if (o->has_value && !joined && !has_next)
            return fail(GAN_ERR_USAGE, "%s needs a value", o->name);
        *used_next = o->has_value && !joined;
        GanStatus st = o->read(joined ? str_sub(word, equals + 1, word.len) : next, a);
        return st == GAN_OK ? st : fail_in(st, "%s", o->name);
    }
    return unknown_option(name, command);
}

static GanStatus read_args(int argc, char **argv, char command, DataArgs *a) {
    for (int i = 0; i < argc; i++) {
        Str word = str_c(argv[i]);
        bool used_next = false, option = word.len > 1 && word.ptr[0] == '-';
        if (option) {
            TRY(read_option(word, i + 1 < argc ? str_c(argv[i + 1]) : (Str){0}, i + 1 < argc,
                            command, a, &used_next));
        } else if (a->path.len) {
            return fail(GAN_ERR_USAGE, "one source at a time: '%.*s' and '%.*s'", SARG(a->path),
                        SARG(word));
        } else
            a->path = word;
        i += used_next;
    }
    return GAN_OK;
}

// --- commands ------------------------------------------------------------------------------------

static void tell_bad(void *user, Str name, const char *reason) {
    fprintf(user, "bad: %.*s: %s\n", SARG(name), reason);
}

static GanStatus need(Str given, const char *what) {
    return given.len ? GAN_OK : fail(GAN_ERR_USAGE, "%s", what);
}

static GanStatus run_pack(Arena *arena, DataArgs *a) {
    TRY(need(a->path, "pack what? ganrun data pack SRC -o x.pack --size N"));
    TRY(need(a->out, "where to? ganrun data pack SRC -o x.pack --size N"));
    a->pack.bad = tell_bad;
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
    fprintf(a->err, "packed in %.2f s\n", took);
    pack_close(&pack);
    return GAN_OK;
}

static GanStatus run_inspect(Arena *arena, DataArgs *a) {
    (void)arena;
    TRY(need(a->path, "inspect what? ganrun data inspect X"));
    return data_inspect(a->path, a->pack.dataset, a->json, a->to);
}

static GanStatus run_verify(Arena *arena, DataArgs *a) {
    TRY(need(a->path, "verify what? ganrun data verify X.pack"));
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
    bool picture = f->kind != DataLabel && f->rank == 3 && (f->dim[0] == 1 || f->dim[0] == 3);
    if (!picture) {
        return fail(GAN_ERR_INPUT, "%.*s: its samples are not pictures of 1 or 3 channels",
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
        return fail(GAN_ERR_MEMORY, "no memory for %" PRIu64 " pictures", n);
    Image grid = {0};
    GanStatus st = read_samples(p, f, n, x);
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
    TRY(need(a->path, "preview what? ganrun data preview X -o grid.png"));
    TRY(need(a->out, "where to? ganrun data preview X -o grid.png"));
    TRY(path_writes(a->out, ".png", false));
    Pack pack = {0};
    SourceKind kind;
    if (!a->count)
        a->count = 64;
    if (!a->columns)
        a->columns = 8;
    TRY(source_guess(a->path, &kind));
    if (!a->pack.w && (kind == SourceFolder || kind == SourceArchive))
        a->pack.w = a->pack.h = 64;
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
    if (!a->path.len)
        return fail(GAN_ERR_USAGE, "which set? there are: %s", synth_kinds);
    TRY(need(a->out, "where to? ganrun data synth KIND --out F --count N"));
    if (!a->count)
        return fail(GAN_ERR_USAGE, "how many? ganrun data synth KIND --out F --count N");
    if (a->pack.w != a->pack.h)
        return fail(GAN_ERR_USAGE, "these pictures are square: --size N");
    TRY(synth_write(a->path, a->out, a->count, a->pack.w, a->seed));
    fprintf(a->to, "%.*s: %" PRIu64 " samples\n", SARG(a->out), a->count);
    return GAN_OK;
}

static const struct {
    const char *name;
    char initial;
    GanStatus (*run)(Arena *, DataArgs *);
} commands[] = {
    {"pack", 'p', run_pack},       {"inspect", 'i', run_inspect}, {"verify", 'v', run_verify},
    {"preview", 'g', run_preview}, {"synth", 's', run_synth},
};

static void print_help(FILE *to) {
    fprintf(to, "%s%s\n\nHow a picture is fitted: %s.\n", help, synth_kinds, fit_help);
}

int data_main(int argc, char **argv, FILE *out, FILE *err) {
    Str word = argc > 0 ? str_c(argv[0]) : STR("");
    if (str_eq(word, STR("--help")) || str_eq(word, STR("help")))
        return print_help(out), 0;
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++) {
        if (!str_eq(word, str_c(commands[i].name)))
            continue;
        DataArgs a = {.to = out, .err = err};
        Arena arena = {0};
        GanStatus st = arena_init(&arena, 0);
        if (st == GAN_OK)
            st = read_args(argc - 1, argv + 1, commands[i].initial, &a);
        if (st == GAN_OK && a.help)
            print_help(out);
        else if (st == GAN_OK)
            st = commands[i].run(&arena, &a);
        arena_release(&arena);
        if (st != GAN_OK)
            fprintf(err, "ganrun data %s: %s\n", commands[i].name, gan_error());
        return gan_exit_code(st);
    }
    fprintf(err, "ganrun data: pack, inspect, verify, preview or synth? (--help says more)\n");
    return gan_exit_code(GAN_ERR_USAGE);
}
