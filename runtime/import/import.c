// import.c - `ganrun import`: an ONNX file as a model of the language.
//
// In: NET.onnx. Out: NET.gan, the net as a function with a complete model around it, and
// NET.safetensors, the weights under the names that the text gives them. The text is compiled
// before anything is written, and both files are put in place together.
#include "import.h"
#include "commands.h"
#include "safetensors.h"

// --- the text ------------------------------------------------------------------------------------

// Functions that are written in front of the net where it calls them: tensors that no layer of the
// library owns, and what the language has no word for.
static const struct Helper {
    const char *name, *text;
} helpers[] = {
    {"weight", "fn weight(size)()   { param w : size = 0; w }\n"},
    {"bias", "fn bias(size)()     { param b : size = 0; b }\n"},
    {"constant", "fn constant(size)() { state constant : size = 0; constant }\n"},
    {"trunc", "fn trunc(x)          = sign(x)*floor(abs(x))\n"},
};
enum { HELPERS = sizeof helpers / sizeof *helpers };

void import_helper(Import *m, const char *name) {
    for (uint32_t i = 0; i < HELPERS; i++)
        if (strcmp(helpers[i].name, name) == 0)
            m->helpers |= 1u << i;
}

// The words that a name of ours would hide: those of the core, and the library's functions.
static void take_words(Import *m, Front *f) {
    WordInfo word;
    for (uint32_t i = 0; word_info(i, &word); i++)
        name_take(m, &m->taken, word.name);
    for (uint32_t i = 0; i < f->library.n; i++)
        for (uint32_t k = 0; k < f->library.at[i]->list.n; k++)
            name_take(m, &m->taken, f->library.at[i]->list.at[k]->text);
    for (uint32_t i = 0; i < HELPERS; i++)
        name_take(m, &m->taken, str_c(helpers[i].name));
    name_take(m, &m->taken, STR("F"));
}

static Str clean_word(Arena *a, Str name) {
    Text t = {.arena = a};
    for (size_t i = 0; i < name.len; i++) {
        char c = name.ptr[i];
        bool letter = (c | 32) >= 'a' && (c | 32) <= 'z', digit = c >= '0' && c <= '9';
        text_char(&t, letter ? (char)(c | 32) : digit && t.n ? c : '_');
    }
    return t.n ? text_str(&t) : STR("net");
}

// A name that hides nothing.
static Str net_name(Import *m, Str path) {
    Str name = clean_word(m->a, path_stem(path_base(path)));
    if (name_taken(&m->taken, name))
        name = format(m, "%.*s_net", SARG(name));
    return name_unique(m, &m->taken, name);
}

static Str extents(Import *m, const OnnxInput *in) {
    Dims d = {.n = in->rank - 1};
    memcpy(d.at, in->dim + 1, d.n * sizeof *d.at);
    return dims_text(m->a, &d);
}

// Each `sample` elaborates the whole net: of many outputs of a large one not all have theirs.
static uint32_t samples_of(const Import *m, const NetText *n) {
    enum { SamplesMost = 128, NodesMost = 1 << 16 };
    uint32_t fit = NodesMost / (m->f->node.n + 1), most = fit < SamplesMost ? fit : SamplesMost;
    most = most ? most : 1;
    return n->outputs < most ? n->outputs : most;
}

// Entry points: of each output the net at inputs that are given, and, of images, at data.
static void put_samples(Import *m, const NetText *n, Str image, Text *t) {
    Text given = {.arena = m->a}, names = {.arena = m->a};
    uint32_t samples = samples_of(m, n);
    for (uint32_t i = 0; i < n->inputs; i++) {
        text_fmt(&given, "%s%.*s: [%.*s]", i ? ", " : "", SARG(n->input[i].name),
                 SARG(extents(m, &n->input[i])));
        text_fmt(&names, "%s%.*s", i ? ", " : "", SARG(n->input[i].name));
    }
    for (uint32_t i = 0; i < samples; i++) {
        Str at = n->outputs > 1 ? format(m, "[%u]", i) : (Str){0};
        if (image.len && i == 0)
            text_fmt(t, "sample %.*s = F(%.*s)%.*s\n", SARG(word_of(m, STR("features"), "")),
                     SARG(image), SARG(at));
        text_fmt(t, "sample %.*s(%.*s) = F(%.*s)%.*s\n", SARG(n->output[i]), SARG(text_str(&given)),
                 SARG(text_str(&names)), SARG(at));
    }
    if (samples < n->outputs)
        text_fmt(t, "# A `sample` of output %u is F(%.*s)[%u], and so on to %u.\n", samples,
                 SARG(text_str(&names)), samples, n->outputs - 1);
}

// What it is of; without what no text of the language has: bytes that are not UTF-8, and control
// characters.
static Str origin(Import *m, Str from) {
    Text t = {.arena = m->a};
    Str file = path_base(from), all = format(m, "%.*s, imported", SARG(file));
    if (m->f->producer.len)
        all = format(m, "%.*s: by %.*s %.*s", SARG(all), SARG(clean_word(m->a, m->f->producer)),
                     SARG(m->f->version));
    bool utf8 = str_utf8_valid(all, NULL);
    for (size_t i = 0; i < all.len; i++) {
        unsigned char c = (unsigned char)all.ptr[i];
        bool plain = (c >= ' ' && c < 0x7f) || (c > 0x7f && utf8);
        text_char(&t, plain ? (char)c : '?');
    }
    return text_str(&t);
}

Str import_model(Import *m, const NetText *n, Str name, Str from, Str weights) {
    Text t = {.arena = m->a};
    const OnnxInput *in = &n->input[0];
    bool image = n->inputs == 1 && in->rank == 4 && (in->dim[1] == 1 || in->dim[1] == 3);
    text_fmt(&t, "model %.*s ", SARG(name));
    gan_string(&t, origin(m, from));
    text_fmt(&t, "\n\n");
    if (image)
        text_fmt(&t,
                 "data %.*s : image(%.*s) scale(-1, 1)    # from -1 to 1; where the net takes "
                 "ImageNet's "
                 "normalization, F(imagenet(%.*s))\n\n",
                 SARG(in->name), SARG(extents(m, in)), SARG(in->name));
    for (uint32_t i = 0; i < HELPERS; i++)
        if (m->helpers >> i & 1)
            text_fmt(&t, "%s", helpers[i].text);
    text_fmt(&t, "%s%.*s\nnet F = pretrained(%.*s, ", m->helpers ? "\n" : "", SARG(n->text),
             SARG(name));
    gan_string(&t, path_base(weights));
    text_fmt(&t, ")\n\nstep {}\n\n");
    put_samples(m, n, image ? in->name : (Str){0}, &t);
    return text_str(&t);
}

// --- the files -----------------------------------------------------------------------------------

float stored_at(const Stored *s, size_t i) {
    if (s->transposed) // [rows, columns] here, [columns, rows] there
        i = i % (size_t)s->dim[1] * (size_t)s->dim[0] + i / (size_t)s->dim[1];
    return (float)(s->tensor ? onnx_at(s->tensor, i) : s->number[i]);
}

static GanStatus put_stored(SafeOut *f, const Stored *s) {
    enum { Lot = 4096 };
    size_t n = (size_t)product_of(s->dim, s->rank);
    for (size_t i = 0; i < n; i += Lot) {
        float lot[Lot];
        size_t k = n - i < Lot ? n - i : Lot;
        for (size_t j = 0; j < k; j++)
            lot[j] = stored_at(s, i + j);
        TRY(safe_out_put(f, lot, k * sizeof *lot));
    }
    return GAN_OK;
}

// In the weights, the hash of the text they were written with.
#define TEXT_HASH "gan_import_text"

static Str text_hash(Arena *a, Str text) {
    return hash_hex(a, hash128(text.ptr, text.len));
}

static GanStatus put_weights(Import *m, Str path, Str text, FileOut **out) {
    SafeTensor *t = arena_array(m->a, SafeTensor, m->stored.n + 1);
    for (uint32_t i = 0; i < m->stored.n; i++) {
        const Stored *s = &m->stored.at[i];
        t[i] = (SafeTensor){.name = s->name, .dtype = SafeF32, .rank = s->rank};
        if (s->rank > DATA_MAX_RANK)
            return fail(GAN_ERR_INPUT, "weight %.*s has %u axes", SARG(s->name), s->rank);
        memcpy(t[i].dim, s->dim, s->rank * sizeof *s->dim);
    }
    const SafeMeta meta[] = {{STR("format"), STR("pt")}, {STR(TEXT_HASH), text_hash(m->a, text)}};
    SafeOut *f;
    TRY(safe_out_open(path, t, m->stored.n, meta, sizeof meta / sizeof *meta, &f));
    GanStatus st = GAN_OK;
    for (uint32_t i = 0; st == GAN_OK && i < m->stored.n; i++)
        st = put_stored(f, &m->stored.at[i]);
    if (st == GAN_OK)
        *out = safe_out_end(f);
    else
        safe_out_abandon(f);
    return st;
}

typedef struct ImportJob {
    Arena *a;
    const Host *host;
    const Options *options;
    Str from, text, weights; // paths
    OnnxFile file;           // owned: from
} ImportJob;

// In canonical layout, and only where it compiles.
static GanStatus checked_text(const ImportJob *j, Str text, Str *out) {
    Front f, formatted;
    Module module;
    Text t = {.arena = j->a};
    front_init(&formatted, j->a);
    front_init(&f, j->a);
    uint32_t source = front_add_source(&formatted, j->text, text, false);
    *out = source && fmt_source(&t, &formatted, source) ? text_str(&t) : text;
    CompileOptions o = {.path = j->text, .text = *out, .batch = 2, .real = DtF32};
    if (compile_module(&f, &o, &module) == GAN_OK)
        return GAN_OK;
    show_diagnostics(j->a, &f, &j->host->console);
    return fail(GAN_ERR_INPUT, "the net has no text that compiles: it has been written nowhere");
}

static GanStatus write_both(Import *m, const ImportJob *j, Str text) {
    FileOut *file[2] = {NULL, NULL};
    GanStatus st = put_weights(m, j->weights, text, &file[0]);
    if (st == GAN_OK)
        st = file_out_open(j->text, &file[1]);
    if (st == GAN_OK)
        st = file_out_put(file[1], text.ptr, text.len);
    if (st == GAN_OK)
        return file_out_commit_all(file, 2);
    file_out_abandon(file[0]);
    file_out_abandon(file[1]);
    return st;
}

static GanStatus convert(const ImportJob *j) {
    Import m = {.a = j->a, .f = &j->file};
    NetText net = {0};
    Front words;
    Str text;
    front_init(&words, j->a);
    if (!front_load_library(&words))
        bug("the library does not parse");
    take_words(&m, &words);
    Str name = net_name(&m, j->text);
    if (!import_net(&m, name, &net))
        return fail(GAN_ERR_INPUT, "%.*s cannot be imported: %.*s", SARG(j->from), SARG(m.error));
    TRY(checked_text(j, import_model(&m, &net, name, j->from, j->weights), &text));
    Str done = format(j, "%.*s\n%.*s\n", SARG(j->text), SARG(j->weights));
    TRY(write_both(&m, j, text)); // after all that needs memory
    j->host->console.result(j->host->console.user, done);
    return GAN_OK;
}

// Both results are there: as an earlier import left them?
static GanStatus check_left(const ImportJob *j) {
    SafeFile f;
    Str text, hash = {0};
    TRY(file_read(j->a, j->text, &text));
    GanStatus st = safe_open(j->a, j->weights, &f);
    if (st != GAN_OK && st != GAN_ERR_INPUT)
        return st;
    for (uint32_t i = 0; st == GAN_OK && i < f.meta.n; i++)
        if (str_eq(f.meta.at[i].key, STR(TEXT_HASH)))
            hash = str_copy(j->a, f.meta.at[i].value);
    if (st == GAN_OK)
        safe_close(&f);
    if (str_eq(hash, text_hash(j->a, text)))
        return GAN_OK;
    return fail(GAN_ERR_INPUT,
                "%.*s is there already, and no import left it so: it was edited, or is another "
                "model's; name another result with -o, or move it away",
                SARG(j->text));
}

// Neither result takes the place of a file that it is made from, nor of one that no earlier import
// made, which leaves both, or that was edited since.
static GanStatus spare_others(const ImportJob *j) {
    const Str out[] = {j->text, j->weights};
    const StrVec *outside = &j->file.outside;
    for (uint32_t k = 0; k < 2; k++) {
        bool source = file_same(out[k], j->from);
        for (uint32_t i = 0; i < outside->n; i++)
            source |= file_same(out[k], path_join(j->a, path_dir(j->from), outside->at[i]));
        if (source)
            return fail(GAN_ERR_USAGE, "%.*s is read here: name another result with -o",
                        SARG(out[k]));
    }
    bool text = file_exists(j->text);
    if (text != file_exists(j->weights))
        return fail(GAN_ERR_INPUT,
                    "%.*s is there already, without %.*s, which an import leaves beside it: name "
                    "another result with -o, or move it away",
                    SARG(out[!text]), SARG(out[text]));
    return text ? check_left(j) : GAN_OK;
}

static GanStatus run(void *user) {
    ImportJob *j = user;
    j->from = j->options->file.at[0];
    j->text = option_text(j->options, OptFile, format(j, "%.*s.gan", SARG(path_stem(j->from))));
    TRY(path_writes(j->text, ".gan", false));
    j->weights = format(j, "%.*s.safetensors", SARG(path_stem(j->text)));
    if (!file_exists(j->from))
        return fail(GAN_ERR_INPUT, "there is no file %.*s", SARG(j->from));
    GanStatus st = onnx_open(j->a, j->from, &j->file);
    if (st == GAN_ERR_INPUT)
        fail_in(st, "%.*s", SARG(j->from));
    if (st == GAN_OK)
        st = spare_others(j);
    return st == GAN_OK ? convert(j) : st;
}

GanStatus cmd_import(Arena *perm, const Host *h, const Options *o) {
    ImportJob j = {.a = perm, .host = h, .options = o};
    GanStatus st = arena_guard(perm, "to import a net", run, &j);
    onnx_close(&j.file);
    return st;
}
