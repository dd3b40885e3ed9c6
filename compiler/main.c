// main.c - the program ganc: its commands, arguments and exit codes. No other file of the compiler
// exits, and none but cli.c and emit.c prints.
//
// Results go to standard output, diagnostics to standard error. Exit codes: 0 done, 1 the model is
// wrong, 2 usage, 3 the machine refused something, 70 a bug of ours.
#include "ahead.h"
#include "cli.h"
#include "embed.h"
#include "lsp.h"
#include "process.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const ArgCommand commands[] = {
#define COMMAND(Id, word, least, most, files, help, example)                                       \
    {word, least, most, files, help, example, NULL},
#include "commands.def"
};

static const ArgOption options[] = {
#define OPTION(Id, word, kind, value, commands, help) {word, Arg##kind, value, commands, help},
#include "commands.def"
};

static const ArgHabit habits[] = {
#define HABIT(word, help) {word, help},
#include "commands.def"
#define COMMAND(Id, word, least, most, files, help, example)                                       \
    {word, "that is the runtime's: ganrun " word " " files},
#include "../runtime/job/options.def"
};

static const ArgTable table = {
    .program = "ganc",
    .about = "compiles models of generative adversarial networks",
    .note =
        "`ganc --version` prints the version. Exit codes: 0 done, 1 the model is wrong, 2 usage, "
        "3 the machine lacks or refused something, 70 our bug.",
    .command = commands,
    .commands = CommandCount,
    .option = options,
    .options = OptCount,
    .habit = habits,
    .habits = sizeof habits / sizeof *habits,
};

static int cmd_check(Cli *c) {
    int worst = 0;
    for (uint32_t i = 0; i < c->file.n; i++) {
        Front f;
        front_init(&f, c->perm);
        CompileOptions o = cli_options(c, c->file.at[i]);
        Module m = {0};
        GanStatus status = compile_module(&f, &o, &m);
        if (status == GAN_OK) {
            cli_diagnostics(&f, c->error_json); // warnings
        } else {
            int code = cli_failed(&f, c, status);
            worst = code > worst ? code : worst;
        }
    }
    return worst;
}

static int cmd_fmt(Cli *c) {
    int worst = 0;
    for (uint32_t i = 0; i < c->file.n; i++) {
        Front f;
        front_init(&f, c->perm);
        Str path = c->file.at[i], text;
        if (compile_is_yaml(path))
            return cli_usage("%.*s is YAML, and fmt lays out a model's text: `ganc convert %.*s -o "
                             "NAME.gan`",
                             SARG(path), SARG(path));
        GanStatus status = compile_read(c->perm, path, &text);
        if (status != GAN_OK)
            return cli_failed(&f, c, status);
        uint32_t source = front_add_source(&f, path, text, false);
        Text t = {.arena = c->perm};
        if (!source || !fmt_source(&t, &f, source)) {
            cli_diagnostics(&f, c->error_json);
            worst = 1;
            continue;
        }
        Str done = text_str(&t);
        if (str_eq(done, text))
            continue;
        if (c->at[OptCheck].given) {
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
    Str path = c->file.at[0];
    bool yaml = compile_is_yaml(c->out);
    if (!yaml && !str_eq(path_ext(c->out), STR("gan")))
        return cli_usage("convert needs -o FILE.gan or -o FILE.yaml");
    if (yaml == compile_is_yaml(path) && !ganx_is(path)) // it would only lose its comments
        return cli_usage("%.*s is %s already", SARG(path),
                         yaml ? "YAML" : "a model's text, which `ganc fmt` lays out,");
    Front f;
    front_init(&f, c->perm);
    Ast *ast = NULL;
    CompileOptions o = cli_options(c, path);
    GanStatus status = compile_parse(&f, &o, &ast);
    if (status != GAN_OK)
        return cli_failed(&f, c, status);
    Text t = {.arena = c->perm};
    (yaml ? ast_to_yaml : ast_to_gan)(&t, ast);
    return cli_write(c, text_str(&t));
}

static int cmd_explain(Cli *c) {
    Text t = {.arena = c->perm};
    if (!diag_explain(&t, c->file.at[0]))
        return cli_usage("no such diagnostic: %.*s; a diagnostic names its own, as error[E0301]",
                         SARG(c->file.at[0]));
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
    (c->at[OptJson].given ? model_summary_json : model_summary)(&t, &done);
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
    Str from = c->at[OptFrom].text, near = str_nearest(from, known.at, known.n);
    if (near.len)
        return cli_usage("no such model: %.*s; did you mean `%.*s`?", SARG(from), SARG(near));
    return cli_usage("%s%.*s; there are%.*s",
                     from.len ? "no such model: " : "new needs --from MODEL", SARG(from),
                     SARG(text_str(&list)));
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
    while (m->name && !str_eq(model_name(m), c->at[OptFrom].text))
        m++;
    if (!m->name)
        return no_such_model(c);
    if (!is_name(name))
        return cli_usage("a model's name is a letter, then letters, digits and _, not `%.*s`",
                         SARG(name));
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

static Str variable(const char *name) {
    const char *value = getenv(name);
    return value ? str_c(value) : (Str){0};
}

static void tell(void *user, const char *text) {
    (void)user;
    fprintf(stderr, "ganc: %s\n", text);
}

static int cmd_compile(Cli *c) {
    if (!ganx_is(c->out))
        return cli_usage("compile needs -o FILE.ganx%s%.*s", c->out.len ? ", not " : "",
                         SARG(c->out));
    Front f;
    Ahead ahead;
    front_init(&f, c->perm);
    CompileOptions o = cli_options(c, c->file.at[0]);
    AheadVariables v = {variable("XDG_CACHE_HOME"), variable("HOME"), variable("GAN_CACHE_LIMIT"),
                        .notice = tell};
    GanStatus status = ahead_open(c->perm, c->at[OptTarget].text, &v, &ahead);
    if (status == GAN_OK)
        status = ganx_write(&f, &o, &ahead.target, c->out);
    ahead_close(&ahead);
    if (status != GAN_OK)
        return cli_failed(&f, c, status);
    cli_diagnostics(&f, c->error_json); // warnings
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

// --- main ----------------------------------------------------------------------------------------

static int run_command(Command command, Cli *c) {
    static int (*const run[CommandCount])(Cli *) = {
        [CommandCheck] = cmd_check,     [CommandCompile] = cmd_compile,
        [CommandPlan] = cmd_plan,       [CommandEmit] = cmd_emit,
        [CommandExplain] = cmd_explain, [CommandFusion] = cmd_explain_fusion,
        [CommandFmt] = cmd_fmt,         [CommandConvert] = cmd_convert,
        [CommandHash] = cmd_hash,       [CommandNew] = cmd_new,
        [CommandLsp] = cmd_lsp,
    };
    if (!run[command])
        bug("command %d is answered before", (int)command);
    return run[command](c);
}

// The fields that several commands read.
static void settle(Cli *c) {
    for (int i = 0; i < DtCount; i++)
        if (str_eq(c->at[OptPrecision].text, str_c(dtype_name[i])))
            c->real = (Dtype)i;
    c->stage = c->at[OptStage].text;
    c->from_stage = c->at[OptFromStage].text;
    c->out = c->at[OptOut].text;
    c->error_json = str_eq(c->at[OptErrors].text, STR("json"));
}

int main(int argc, char **argv) {
    Arena perm;
    process_open_standard();
    process_need_path();
    speak_as("ganc");
    process_watch_end();
    GanStatus status = arena_init(&perm, 0);
    if (status != GAN_OK)
        return cli_die(status);
    Text text = {.arena = &perm};
    if (argc < 2) {
        args_help(&text, &table);
        fwrite(text.at, 1, text.n, stderr);
        return 2;
    }
    if (!strcmp(argv[1], "--version"))
        return cli_put(STR("ganc " GAN_VERSION "\n"));
    Cli c = {.perm = &perm, .real = DtF32};
    bool answered;
    status = args_answer(&text, &table, argc - 1, argv + 1, &answered);
    if (status == GAN_OK && answered)
        return cli_write(&c, text_str(&text));
    uint32_t command = 0;
    if (status == GAN_OK)
        status = args_parse(&perm, &table, argc - 1, argv + 1, &command, &c.file, c.at);
    if (status != GAN_OK)
        return cli_die(status);
    settle(&c);
    return run_command((Command)command, &c);
}
