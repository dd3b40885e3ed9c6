// options.c - the command line of ganrun: parsing, help and did-you-mean, all from options.def.
//
// In: argv. Out: Options, or one line saying what is wrong. Values are checked for form here; what
// they mean together is the commands' business.
#include "options.h"

#include <string.h>

typedef enum Kind {
    KindFlag,
    KindCount,
    KindThreads,
    KindNumber,
    KindBytes,
    KindText,
    KindChoice,
    KindPair,
    KindMaybe,
    KindAbsent,
    KindSecret,
} Kind;

static const struct CommandRow {
    const char *word;
    int least, most;
    const char *files, *help;
} commands[] = {
#define COMMAND(Id, word, least, most, files, help) {word, least, most, files, help},
#include "options.def"
};

static const struct OptionRow {
    const char *word;
    Kind kind;
    const char *value;
    unsigned commands;
    const char *help;
} options[] = {
#define OPTION(Id, word, kind, value, commands, help) {word, Kind##kind, value, commands, help},
#include "options.def"
};

// No run is longer than its file names can say.
enum { MOST = 99999999 };

const char *option_word(OptionId id) {
    return options[id].word;
}

int64_t option_number(const Options *o, OptionId id, int64_t otherwise) {
    return o->at[id].given ? o->at[id].number : otherwise;
}

Str option_text(const Options *o, OptionId id, Str otherwise) {
    return o->at[id].given ? o->at[id].text : otherwise;
}

// --- mistakes ------------------------------------------------------------------------------------

static GanStatus fail_unknown(Arena *a, const char *what, Str word, const Str *known, uint32_t n,
                              const char *more) {
    static const char *const habits[][2] = {
#define HABIT(word, help) {word, help},
#include "options.def"
    };
    for (size_t i = 0; i < sizeof habits / sizeof *habits; i++)
        if (str_eq(word, str_c(habits[i][0])))
            return fail(GAN_ERR_USAGE, "unknown %s `%.*s`: %s", what, SARG(word), habits[i][1]);
    Str near = diag_nearest(word, known, n);
    if (near.len)
        return fail(GAN_ERR_USAGE, "unknown %s `%.*s`: did you mean `%.*s`?", what, SARG(word),
                    SARG(near));
    return fail(GAN_ERR_USAGE, "unknown %s `%.*s`: %s lists them", what, SARG(word),
                str_format(a, "`ganrun%s --help`", more).ptr);
}

static GanStatus fail_absent(const char *word) {
    return fail(GAN_ERR_USAGE, "`%s` is not part of this version; docs/roadmap.md says what is",
                word);
}

static bool shown(const struct OptionRow *row, Command c) {
    return (row->commands >> c & 1) && row->kind != KindAbsent && row->kind != KindSecret;
}

static GanStatus fail_option(Arena *a, Command c, Str word) {
    Str known[OptCount];
    uint32_t n = 0;
    for (int i = 0; i < OptCount; i++)
        if (shown(&options[i], c))
            known[n++] = str_c(options[i].word);
    return fail_unknown(a, "option", word, known, n, str_format(a, " %s", commands[c].word).ptr);
}

// --- values --------------------------------------------------------------------------------------

static bool choice_has(const char *words, Str word) {
    for (Str rest = str_c(words); rest.len;) {
        size_t bar = str_find(rest, '|');
        if (str_eq(str_sub(rest, 0, bar), word))
            return true;
        rest = str_sub(rest, bar + 1, rest.len);
    }
    return false;
}

static GanStatus set_number(const struct OptionRow *row, Str text, int64_t least, int64_t most,
                            OptionValue *v) {
    if (!str_to_int(text, &v->number) || v->number < least || v->number > most)
        return fail(GAN_ERR_USAGE, "%s wants a whole number from %lld to %lld, not `%.*s`",
                    row->word, (long long)least, (long long)most, SARG(text));
    return GAN_OK;
}

static GanStatus set_value(Arena *a, const struct OptionRow *row, Str text, OptionValue *v) {
    size_t eq = str_find(text, '='), bytes;
    switch (row->kind) {
    case KindCount:
        return set_number(row, text, 1, MOST, v);
    case KindThreads:
        return set_number(row, text, 1, THREADS_MOST, v);
    case KindNumber:
        return set_number(row, text, 0, (int64_t)1 << 53, v); // what a JSON number holds
    case KindBytes:
        if (!str_to_bytes(text, &bytes) || bytes > (size_t)1 << 53) // what a JSON number holds
            return fail(GAN_ERR_USAGE, "%s wants a size as 12G or 800M, not `%.*s`", row->word,
                        SARG(text));
        v->number = (int64_t)bytes;
        return GAN_OK;
    case KindText:
        if (!text.len)
            return fail(GAN_ERR_USAGE, "%s wants a %s", row->word, row->value);
        v->text = text;
        return GAN_OK;
    case KindChoice:
        if (!choice_has(row->value, text))
            return fail(GAN_ERR_USAGE, "%s wants %s, not `%.*s`", row->word, row->value,
                        SARG(text));
        v->text = text;
        return GAN_OK;
    case KindPair:
        if (!eq || eq + 1 >= text.len)
            return fail(GAN_ERR_USAGE, "%s wants %s, not `%.*s`", row->word, row->value,
                        SARG(text));
        vec_push(a, &v->pair, ((Setting){str_sub(text, 0, eq), str_sub(text, eq + 1, text.len)}));
        return GAN_OK;
    case KindMaybe:
        return set_number(row, text, 1, MOST, v);
    case KindFlag:
    case KindAbsent:
    case KindSecret:
        break;
    }
    bug("options: %s takes no value", row->word);
}

static bool takes_value(Kind k) {
    return k == KindCount || k == KindThreads || k == KindNumber || k == KindBytes ||
           k == KindText || k == KindChoice || k == KindPair;
}

// --- parsing -------------------------------------------------------------------------------------

typedef struct Line {
    int argc, at;
    char **argv;
} Line; // words not looked at yet begin at `at`

static int option_find(Command c, Str word) {
    for (int i = 0; i < OptCount; i++)
        if ((options[i].commands >> c & 1) && str_eq(word, str_c(options[i].word)))
            return i;
    return -1;
}

// An option: `--name value` or `--name=value`.
static GanStatus take_option(Arena *a, Line *l, Options *o) {
    Str whole = str_c(l->argv[l->at++]);
    size_t eq = str_starts(whole, STR("--")) ? str_find(whole, '=') : whole.len;
    Str word = str_sub(whole, 0, eq);
    int id = option_find(o->command, word);
    if (id < 0)
        return fail_option(a, o->command, word);
    const struct OptionRow *row = &options[id];
    OptionValue *v = &o->at[id];
    if (row->kind == KindAbsent)
        return fail_absent(row->word);
    if (v->given && row->kind != KindPair && takes_value(row->kind))
        return fail(GAN_ERR_USAGE, "%s is given twice", row->word);
    v->given = true;
    if (row->kind == KindMaybe)
        return eq < whole.len ? set_value(a, row, str_sub(whole, eq + 1, whole.len), v) : GAN_OK;
    if (!takes_value(row->kind))
        return eq == whole.len ? GAN_OK : fail(GAN_ERR_USAGE, "%s takes no value", row->word);
    if (eq < whole.len)
        return set_value(a, row, str_sub(whole, eq + 1, whole.len), v);
    if (l->at == l->argc)
        return fail(GAN_ERR_USAGE, "%s wants a value: %s", row->word, row->value);
    return set_value(a, row, str_c(l->argv[l->at++]), v);
}

static GanStatus find_command(Arena *a, Str word, Command *out) {
    Str known[CommandCount];
    uint32_t n = 0;
    for (int i = 0; i < CommandCount; i++) {
        if (str_eq(word, str_c(commands[i].word))) {
            *out = (Command)i;
            return commands[i].least < 0 ? fail_absent(commands[i].word) : GAN_OK;
        }
        if (commands[i].least >= 0)
            known[n++] = str_c(commands[i].word);
    }
    return fail_unknown(a, "command", word, known, n, "");
}

GanStatus options_parse(Arena *perm, int argc, char **argv, Options *out) {
    *out = (Options){0};
    TRY(find_command(perm, str_c(argv[0]), &out->command));
    Line l = {.argc = argc, .at = 1, .argv = argv};
    for (int i = 1; i < argc; i++)
        if (!strcmp(argv[i], "--help") || !strcmp(argv[i], "-h")) {
            out->help = true;
            return GAN_OK;
        }
    while (l.at < argc) {
        const char *word = argv[l.at];
        if (word[0] == '-' && word[1]) {
            TRY(take_option(perm, &l, out));
        } else {
            vec_push(perm, &out->file, str_c(word));
            l.at++;
        }
    }
    const struct CommandRow *c = &commands[out->command];
    if ((int)out->file.n < c->least || (int)out->file.n > c->most)
        return fail(GAN_ERR_USAGE, "`ganrun %s` wants %s; %u given", c->word,
                    c->most ? c->files : "no files", out->file.n);
    return GAN_OK;
}

// --- help ----------------------------------------------------------------------------------------

void options_help(Text *t) {
    text_put(t, STR("usage: ganrun COMMAND ...\n"));
    for (int i = 0; i < CommandCount; i++)
        if (commands[i].least >= 0)
            text_fmt(t, "  %-9s%-22s%s\n", commands[i].word, commands[i].files, commands[i].help);
    text_put(t, STR("`ganrun COMMAND --help` lists its options. Exit codes: 0 done, 1 the model, "
                    "data or reference is\n"
                    "wrong, 2 usage, 3 the machine lacks or refused something, 70 our bug, 75 "
                    "saved and stopped.\n"));
}

void options_command_help(Text *t, Command c) {
    text_fmt(t, "usage: ganrun %s%s%s\n%s\n", commands[c].word, *commands[c].files ? " " : "",
             commands[c].files, commands[c].help);
    for (int i = 0; i < OptCount; i++) {
        if (!shown(&options[i], c))
            continue;
        char head[48];
        snprintf(head, sizeof head, "%s %s", options[i].word, options[i].value);
        text_fmt(t, "  %-30s%s\n", head, options[i].help);
    }
}
