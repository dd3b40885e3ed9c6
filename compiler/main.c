// main.c - the program ganc: arguments, files, exit codes. No other file of the compiler exits, and
// none but emit.c, a command of its own, prints.
//
// Results go to standard output, diagnostics to standard error. Exit codes: 0 done, 1 the model is
// wrong, 2 usage, 3 the machine refused something, 70 a bug of ours.
#include "ahead.h"
#include "cli.h"
#include "embed.h"
#include "lsp.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// A mistake on the command line is one line; the list is for who asks.
int cli_usage(const char *why, Str what) {
    fprintf(stderr, "ganc: %s%s%.*s; `ganc --help` lists commands and options\n", why,
            what.len ? ": " : "", (int)what.len, what.len ? what.ptr : "");
    return 2;
}

static int help(FILE *to) {
    fputs(
        "usage: ganc COMMAND ...\n"
        "  check FILE...                 diagnostics only [--error-format json]\n"
        "  compile FILE -o OUT.ganx      one file that ganrun runs as it is [--target "
        "cpu|cuda[:sm_90,...]] [--ranks R] [--memory SIZE]\n"
        "  plan FILE                     layers, parameters, GFLOP, memory of every function "
        "[--json];\n"
        "                                [--memory SIZE] values computed again instead of held;\n"
        "                                [--ranks R [--bucket-mb M] [--deterministic C | --micro "
        "N]] "
        "collectives\n"
        "  emit FILE --stage S           S: tokens ast graph grad fused schedule plan c cuda dot\n"
        "  emit --from-stage graph|grad|fused|schedule|plan TEXTFILE --stage S\n"
        "  explain CODE                  what a diagnostic means\n"
        "  explain-fusion FILE           what was fused, what was not, and why\n"
        "  fmt FILE... [--check]         canonical layout, comments kept\n"
        "  convert A.yaml -o B.gan       and the other way\n"
        "  hash FILE                     the graph's hash\n"
        "  new NAME --from MODEL         NAME.gan, a copy of a published model to change\n"
        "  lsp                           a language server for editors, on standard input and "
        "output\n"
        "common: -s key=value --batch N --precision f64|f32|bf16|f16\n",
        to);
    return 2;
}

int cli_die(GanStatus status) {
    fprintf(stderr, "ganc: %s\n", gan_error());
    return gan_exit_code(status);
}

static void show_diagnostics(Front *f, bool json) {
    if (!diag_total(f))
        return;
    Text t = {.arena = f->perm};
    if (json)
        diag_render_json(&t, f);
    else
        diag_render(&t, f, isatty(2));
    fwrite(t.at, 1, t.n, stderr);
}

// Reports a failed compilation: its diagnostics when there are any, else the error of the world.
int cli_failed(Front *f, const Cli *c, GanStatus status) {
    if (!diag_errors(f))
        return cli_die(status);
    show_diagnostics(f, c->error_json);
    return gan_exit_code(status);
}

int cli_write(const Cli *c, Str text) {
    if (!c->out.len)
        return fwrite(text.ptr, 1, text.len, stdout) == text.len && fflush(stdout) == 0 ? 0 : 3;
    GanStatus status = file_write_atomic(c->out, text.ptr, text.len);
    return status == GAN_OK ? 0 : cli_die(status);
}

CompileOptions cli_options(const Cli *c, Str path) {
    return (CompileOptions){.path = path,
                            .batch = c->batch,
                            .setting = c->setting.at,
                            .settings = c->setting.n,
                            .real = c->real,
                            .memory = c->memory,
                            .parallel = {.ranks = (uint32_t)c->ranks,
                                         .chunks = (uint32_t)c->chunks,
                                         .micro = (uint32_t)c->micro,
                                         .bucket = (size_t)(c->bucket_mb * 1e6),
                                         .tail = true}};
}

static int cmd_check(Cli *c) {
    int worst = 0;
    for (uint32_t i = 0; i < c->file.n; i++) {
        Front f;
        front_init(&f, c->perm);
        CompileOptions o = cli_options(c, c->file.at[i]);
        Module m = {0};
        GanStatus status = compile_module(&f, &o, &m);
        if (status == GAN_OK)
            show_diagnostics(&f, c->error_json); // warnings
        else
            worst = cli_failed(&f, c, status);
    }
    return worst;
}

static int cmd_fmt(Cli *c) {
    int worst = 0;
    for (uint32_t i = 0; i < c->file.n; i++) {
        Front f;
        front_init(&f, c->perm);
        Str path = c->file.at[i], text;
        GanStatus status = file_read(c->perm, path, &text);
        if (status != GAN_OK)
            return cli_die(status);
        uint32_t source = front_add_source(&f, path, text, false);
        Text t = {.arena = c->perm};
        if (!source || !fmt_source(&t, &f, source)) {
            show_diagnostics(&f, c->error_json);
            worst = 1;
            continue;
        }
        Str done = text_str(&t);
        if (str_eq(done, text))
            continue;
        if (c->check) {
            fprintf(stderr, "ganc: %.*s is not in canonical layout: run `ganc fmt %.*s`\n",
                    SARG(path), SARG(path));
            worst = 1;
        } else if ((status = file_write_atomic(path, done.ptr, done.len)) != GAN_OK) {
            return cli_die(status);
        }
    }
    return worst;
}

static int cmd_convert(Cli *c) {
    Front f;
    front_init(&f, c->perm);
    Ast *ast = NULL;
    CompileOptions o = cli_options(c, c->file.at[0]);
    GanStatus status = compile_parse(&f, &o, &ast);
    if (status != GAN_OK)
        return cli_failed(&f, c, status);
    Str ext = path_ext(c->out);
    Text t = {.arena = c->perm};
    if (str_eq(ext, STR("gan")))
        ast_to_gan(&t, ast);
    else if (str_eq(ext, STR("yaml")) || str_eq(ext, STR("yml")))
        ast_to_yaml(&t, ast);
    else
        return cli_usage("convert needs -o FILE.gan or -o FILE.yaml", (Str){0});
    return cli_write(c, text_str(&t));
}

static int cmd_explain(Cli *c) {
    Text t = {.arena = c->perm};
    if (!diag_explain(&t, c->file.at[0]))
        return cli_usage("no such diagnostic", c->file.at[0]);
    return cli_write(c, text_str(&t));
}

static int cmd_hash(Cli *c) {
    Front f;
    front_init(&f, c->perm);
    CompileOptions o = cli_options(c, c->file.at[0]);
    Module m = {0};
    GanStatus status = compile_module(&f, &o, &m);
    if (status != GAN_OK)
        return cli_failed(&f, c, status);
    Str hex = hash_hex(c->perm, module_hash(&m, *c->perm));
    return cli_write(c, str_format(c->perm, "%.*s\n", SARG(hex)));
}

static int cmd_plan(Cli *c) {
    Front f;
    front_init(&f, c->perm);
    CompileOptions o = cli_options(c, c->file.at[0]);
    Compiled done = {0};
    GanStatus status = compile_file(&f, &o, &done);
    if (status != GAN_OK)
        return cli_failed(&f, c, status);
    Text t = {.arena = c->perm};
    (c->json ? model_summary_json : model_summary)(&t, &done);
    return cli_write(c, text_str(&t));
}

static int cmd_explain_fusion(Cli *c) {
    Front f;
    front_init(&f, c->perm);
    CompileOptions o = cli_options(c, c->file.at[0]);
    o.dialect = &dialect_c;
    Compiled done = {0};
    GanStatus status = compile_file(&f, &o, &done);
    if (status != GAN_OK)
        return cli_failed(&f, c, status);
    Text t = {.arena = c->perm};
    explain_fusion(&t, &done.step);
    return cli_write(c, text_str(&t));
}

// --- new ---------------------------------------------------------------------------------------

extern const EmbeddedFile gan_models[];

static Str model_name(const EmbeddedFile *m) {
    return str_sub(str_c(m->name), 0, strlen(m->name) - 4); // ".gan"
}

static int no_such_model(const Cli *c) {
    VEC(Str) known = {0};
    Text list = {.arena = c->perm};
    for (const EmbeddedFile *m = gan_models; m->name; m++) {
        vec_push(c->perm, &known, model_name(m));
        text_fmt(&list, " %.*s", SARG(model_name(m)));
    }
    Str near = diag_nearest(c->from, known.at, known.n);
    if (near.len)
        return cli_usage(str_format(c->perm, "did you mean `%.*s`? no such model", SARG(near)).ptr,
                         c->from);
    const char *why =
        c->from.len ? "no such model; there are" : "new needs --from MODEL; there are";
    return cli_usage(str_format(c->perm, "%s%.*s", why, SARG(text_str(&list))).ptr, c->from);
}

static bool is_name(Str s) {
    bool fine = s.len && !(s.ptr[0] >= '0' && s.ptr[0] <= '9');
    for (size_t i = 0; i < s.len && fine; i++) {
        char lower = (char)(s.ptr[i] | 0x20);
        fine = (lower >= 'a' && lower <= 'z') || (s.ptr[i] >= '0' && s.ptr[i] <= '9') ||
               s.ptr[i] == '_';
    }
    return fine;
}

// The model's text, its first line renamed.
static int cmd_new(Cli *c) {
    const EmbeddedFile *m = gan_models;
    Str name = c->file.at[0], path = str_format(c->perm, "%.*s.gan", SARG(name));
    while (m->name && !str_eq(model_name(m), c->from))
        m++;
    if (!m->name)
        return no_such_model(c);
    if (!is_name(name))
        return cli_usage("a model's name is a letter, then letters, digits and _", name);
    if (file_exists(path)) {
        fprintf(stderr, "ganc: %.*s is there already and stays as it is\n", SARG(path));
        return 1;
    }
    size_t skip = strlen("model ") + model_name(m).len;
    Str rest = str_sub((Str){m->text, m->len}, skip, m->len);
    c->out = path;
    return cli_write(c, str_format(c->perm, "model %.*s%.*s", SARG(name), SARG(rest)));
}

// --- compile -------------------------------------------------------------------------------------

// Where ganrun keeps compiled kernels too; empty without a home.
static Str kernel_cache(Arena *a) {
    const char *base = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    Str dir = base && *base   ? str_c(base)
              : home && *home ? path_join(a, str_c(home), STR(".cache"))
                              : (Str){0};
    return dir.len ? path_join(a, dir, STR("gan")) : dir;
}

static int cmd_compile(Cli *c) {
    if (!ganx_is(c->out))
        return cli_usage("compile needs -o FILE.ganx", c->out);
    Front f;
    Ahead ahead;
    front_init(&f, c->perm);
    CompileOptions o = cli_options(c, c->file.at[0]);
    GanStatus status = ahead_open(c->perm, c->target, kernel_cache(c->perm), &ahead);
    if (status == GAN_OK)
        status = ganx_write(&f, &o, &ahead.target, c->out);
    ahead_close(&ahead);
    if (status != GAN_OK)
        return cli_failed(&f, c, status);
    show_diagnostics(&f, c->error_json); // warnings
    return 0;
}

static int write_all(Str bytes) {
    while (bytes.len) {
        ssize_t n = write(1, bytes.ptr, bytes.len);
        if (n <= 0)
            return 3; // nobody listens any more
        bytes = str_sub(bytes, (size_t)n, bytes.len);
    }
    return 0;
}

// Answers to the whole messages at the front of `*got`; the rest stays.
static int lsp_answer(Lsp *l, Arena scratch, char *buffer, size_t *got) {
    Str rest = {buffer, *got};
    Text out = {.arena = &scratch};
    while (lsp_take(l, &rest, &out))
        ;
    if (rest.len) // before the first byte there is no buffer
        memmove(buffer, rest.ptr, rest.len);
    *got = rest.len;
    return write_all(text_str(&out));
}

static int cmd_lsp(Cli *c) {
    enum { PIECE = 1 << 16 };
    Lsp *l = NULL;
    char *buffer = NULL;
    size_t got = 0, room = 0;
    int code = 0, ended = 0;
    GanStatus status = lsp_open(&l);
    while (status == GAN_OK && !code && !lsp_ended(l, &ended)) {
        if (room - got < PIECE) {
            room = room * 2 + PIECE;
            char *grown = mem_realloc(buffer, room);
            if (!grown) {
                status = fail(GAN_ERR_MEMORY, "no memory for a message of %zu bytes", room);
                break;
            }
            buffer = grown;
        }
        ssize_t n = read(0, buffer + got, room - got);
        if (n <= 0)
            break;
        got += (size_t)n;
        code = lsp_answer(l, *c->perm, buffer, &got);
    }
    lsp_close(l);
    mem_free(buffer);
    return status != GAN_OK ? cli_die(status) : code ? code : ended;
}

static const struct Command {
    const char *name;
    int least, most; // files
    int (*run)(Cli *c);
} commands[] = {
    {"check", 1, 1000, cmd_check},  {"plan", 1, 1, cmd_plan},
    {"emit", 1, 1, cmd_emit},       {"explain", 1, 1, cmd_explain},
    {"fmt", 1, 1000, cmd_fmt},      {"explain-fusion", 1, 1, cmd_explain_fusion},
    {"convert", 1, 1, cmd_convert}, {"hash", 1, 1, cmd_hash},
    {"compile", 1, 1, cmd_compile}, {"new", 1, 1, cmd_new},
    {"lsp", 0, 0, cmd_lsp},
};

static bool add_setting(Cli *c, Str s) {
    size_t eq = str_find(s, '=');
    if (!eq || eq == s.len)
        return false;
    vec_push(c->perm, &c->setting, ((Setting){str_sub(s, 0, eq), str_sub(s, eq + 1, s.len)}));
    return true;
}

static bool parse_dtype(Str s, Dtype *out) {
    for (int i = 0; i < DtCount; i++)
        if (str_eq(s, str_c(dtype_name[i]))) {
            *out = (Dtype)i;
            return true;
        }
    return false;
}

// Returns 0, or the exit code of a usage error.
static int parse_option(Cli *c, Str name, Str value) {
    bool fine = true;
    if (str_eq(name, STR("-s")))
        fine = add_setting(c, value);
    else if (str_eq(name, STR("--stage")))
        c->stage = value;
    else if (str_eq(name, STR("--from-stage")))
        c->from_stage = value;
    else if (str_eq(name, STR("-o")))
        c->out = value;
    else if (str_eq(name, STR("--target")))
        c->target = value;
    else if (str_eq(name, STR("--from")))
        c->from = value;
    else if (str_eq(name, STR("--batch")))
        fine = str_to_int(value, &c->batch) && c->batch >= 1 && c->batch <= 1 << 20;
    else if (str_eq(name, STR("--ranks")))
        fine = str_to_int(value, &c->ranks) && c->ranks >= 1 && c->ranks <= 1 << 20;
    else if (str_eq(name, STR("--deterministic")))
        fine = str_to_int(value, &c->chunks) && c->chunks >= 1 && c->chunks <= 1 << 20;
    else if (str_eq(name, STR("--micro")))
        fine = str_to_int(value, &c->micro) && c->micro >= 1 && c->micro <= 1 << 20;
    else if (str_eq(name, STR("--bucket-mb")))
        fine = str_to_double(value, &c->bucket_mb) && c->bucket_mb > 0 && c->bucket_mb <= 1e6;
    else if (str_eq(name, STR("--memory")))
        fine = str_to_bytes(value, &c->memory);
    else if (str_eq(name, STR("--precision")))
        fine = parse_dtype(value, &c->real);
    else if (str_eq(name, STR("--error-format")))
        fine = (c->error_json = str_eq(value, STR("json"))) || str_eq(value, STR("text"));
    else
        return cli_usage("unknown option", name);
    return fine ? 0 : cli_usage(str_format(c->perm, "bad value for %.*s", SARG(name)).ptr, value);
}

static int parse_args(Cli *c, int argc, char **argv) {
    for (int i = 2; i < argc; i++) {
        Str a = str_c(argv[i]);
        if (str_eq(a, STR("--json"))) {
            c->json = true;
        } else if (str_eq(a, STR("--check"))) {
            c->check = true;
        } else if (a.len > 1 && a.ptr[0] == '-') {
            if (i + 1 == argc)
                return cli_usage("an option needs a value", a);
            int code = parse_option(c, a, str_c(argv[++i]));
            if (code)
                return code;
        } else {
            vec_push(c->perm, &c->file, a);
        }
    }
    return 0;
}

int main(int argc, char **argv) {
    if (argc < 2)
        return help(stderr);
    if (!strcmp(argv[1], "--version")) {
        puts("ganc " GAN_VERSION);
        return 0;
    }
    bool asked = !strcmp(argv[1], "help");
    for (int i = 1; i < argc; i++)
        asked = asked || !strcmp(argv[i], "--help");
    if (asked) {
        (void)help(stdout);
        return 0;
    }
    Arena perm;
    GanStatus status = arena_init(&perm, 0);
    if (status != GAN_OK)
        return cli_die(status);
    Cli c = {.perm = &perm, .command = argv[1], .real = DtF32, .ranks = 1};
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++) {
        if (strcmp(commands[i].name, argv[1]))
            continue;
        int code = parse_args(&c, argc, argv);
        if (code)
            return code;
        if ((int)c.file.n < commands[i].least || (int)c.file.n > commands[i].most)
            return cli_usage(c.file.n ? "too many files for" : "name a FILE for", str_c(argv[1]));
        return commands[i].run(&c);
    }
    Str known[sizeof commands / sizeof *commands], word = str_c(argv[1]);
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++)
        known[i] = str_c(commands[i].name);
    Str near = diag_nearest(word, known, sizeof commands / sizeof *commands);
    return cli_usage(near.len
                         ? str_format(&perm, "did you mean `%.*s`? unknown command", SARG(near)).ptr
                         : "unknown command",
                     word);
}
