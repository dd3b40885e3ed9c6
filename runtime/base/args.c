// args.c - parses a command line by its table and reports mistakes.
//
// In: argv. Out: values, or one line saying what is wrong. Only the form of values is checked here;
// what they mean together is up to the commands.
#include "args.h"

#include <string.h>

// No run is longer than its file names can say.
enum { MOST = 99999999 };

// --- mistakes ------------------------------------------------------------------------------------

bool args_shown(const ArgTable *t, uint32_t option, uint32_t command) {
    const ArgOption *o = &t->option[option];
    return (o->commands >> command & 1) && o->kind != ArgSecret;
}

static const char *habit_of(const ArgTable *t, Str word) { // NULL: none
    for (uint32_t i = 0; i < t->habits; i++)
        if (str_eq(word, str_c(t->habit[i].word)))
            return t->habit[i].help;
    return NULL;
}

static GanStatus fail_unknown(const ArgTable *t, const char *what, Str word, const Str *known,
                              uint32_t n, const char *more) {
    const char *habit = habit_of(t, word);
    if (habit)
        return fail(GAN_ERR_USAGE, "unknown %s `%.*s`: %s", what, SARG(word), habit);
    Str near = str_nearest(word, known, n);
    if (near.len)
        return fail(GAN_ERR_USAGE, "unknown %s `%.*s`: did you mean `%.*s`?", what, SARG(word),
                    SARG(near));
    return fail(GAN_ERR_USAGE, "unknown %s `%.*s`: `%s%s --help` lists them", what, SARG(word),
                t->program, more);
}

// An option of other commands is no spelling mistake.
static GanStatus fail_option(Arena *a, const ArgTable *t, uint32_t command, Str word) {
    Str *known = arena_array(a, Str, t->options);
    uint32_t n = 0;
    for (uint32_t i = 0; i < t->options; i++) {
        if (args_shown(t, i, command))
            known[n++] = str_c(t->option[i].word);
        if (!str_eq(word, str_c(t->option[i].word)))
            continue;
        for (uint32_t c = 0; c < t->commands; c++)
            if (args_shown(t, i, c))
                return fail(GAN_ERR_USAGE, "`%s %s` has no %s, `%s %s` has", t->program,
                            t->command[command].word, t->option[i].word, t->program,
                            t->command[c].word);
    }
    return fail_unknown(t, "option", word, known, n,
                        str_format(a, " %s", t->command[command].word).ptr);
}

GanStatus args_find(Arena *a, const ArgTable *t, Str word, uint32_t *command) {
    Str *known = arena_array(a, Str, t->commands);
    for (uint32_t i = 0; i < t->commands; i++) {
        known[i] = str_c(t->command[i].word);
        if (str_eq(word, known[i]))
            return *command = i, GAN_OK;
    }
    return fail_unknown(t, "command", word, known, t->commands, "");
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

static GanStatus set_number(const ArgOption *row, Str text, int64_t least, int64_t most,
                            ArgValue *v) {
    if (!str_to_int(text, &v->number) || v->number < least || v->number > most)
        return fail(GAN_ERR_USAGE, "%s needs a whole number from %lld to %lld, not `%.*s`",
                    row->word, (long long)least, (long long)most, SARG(text));
    return GAN_OK;
}

static GanStatus set_bytes(const ArgOption *row, Str text, ArgValue *v) {
    size_t bytes;
    if (!str_to_bytes(text, &bytes) || bytes > (size_t)1 << 53) // what a JSON number holds
        return fail(GAN_ERR_USAGE,
                    "%s needs a size as 12G or 800M, not `%.*s`: a number and K, M, G or T, which "
                    "count in steps of 1024",
                    row->word, SARG(text));
    v->number = (int64_t)bytes;
    return GAN_OK;
}

static GanStatus set_real(const ArgOption *row, Str text, ArgValue *v) {
    if (!str_to_double(text, &v->real) || !(v->real > 0) || v->real > 1e6)
        return fail(GAN_ERR_USAGE, "%s needs a number above 0, at most a million, not `%.*s`",
                    row->word, SARG(text));
    return GAN_OK;
}

static GanStatus fail_form(const ArgTable *t, const ArgOption *row, Str text) {
    const char *help = habit_of(t, str_c(row->word));
    return fail(GAN_ERR_USAGE, "%s needs %s, not `%.*s`%s%s", row->word, row->value, SARG(text),
                help ? ": " : "", help ? help : "");
}

static GanStatus add_pair(Arena *a, const ArgTable *t, const ArgOption *row, Str text,
                          ArgValue *v) {
    size_t eq = str_find(text, '=');
    if (!eq || eq + 1 >= text.len)
        return fail_form(t, row, text);
    Setting s = {str_sub(text, 0, eq), str_sub(text, eq + 1, text.len)};
    for (uint32_t i = 0; i < v->pair.n && row->kind == ArgPair; i++)
        if (str_eq(v->pair.at[i].key, s.key))
            return fail(GAN_ERR_USAGE,
                        "%s %.*s is given twice, `%.*s` and `%.*s`: keep one of them", row->word,
                        SARG(s.key), SARG(v->pair.at[i].value), SARG(s.value));
    vec_push(a, &v->pair, s);
    return GAN_OK;
}

static GanStatus set_value(Arena *a, const ArgTable *t, const ArgOption *row, Str text,
                           ArgValue *v) {
    if (v->text.len && !args_takes_pairs(row->kind))
        return fail(GAN_ERR_USAGE, "%s is given twice, `%.*s` and `%.*s`: keep one of them",
                    row->word, SARG(v->text), SARG(text));
    v->text = text;
    switch (row->kind) {
    case ArgCount:
    case ArgMaybe:
        return set_number(row, text, 1, MOST, v);
    case ArgStep:
        return set_number(row, text, 0, MOST, v);
    case ArgMillion:
        return set_number(row, text, 1, ARG_MILLION, v);
    case ArgThreads:
        return set_number(row, text, 1, THREADS_MOST, v);
    case ArgNumber:
        return set_number(row, text, 0, (int64_t)1 << 53, v); // what a JSON number holds
    case ArgReal:
        return set_real(row, text, v);
    case ArgBytes:
        return set_bytes(row, text, v);
    case ArgText:
        return text.len ? GAN_OK : fail(GAN_ERR_USAGE, "%s needs a %s", row->word, row->value);
    case ArgChoice:
        return choice_has(row->value, text) ? GAN_OK : fail_form(t, row, text);
    case ArgPair:
    case ArgPairs:
        return add_pair(a, t, row, text, v);
    case ArgFlag:
    case ArgSecret:
        break;
    }
    bug("args: %s takes no value", row->word);
}

bool args_takes_value(ArgKind k) {
    return k != ArgFlag && k != ArgMaybe && k != ArgSecret;
}

bool args_takes_pairs(ArgKind k) {
    return k == ArgPair || k == ArgPairs;
}

// --- parsing -------------------------------------------------------------------------------------

typedef struct Line {
    int argc, at;
    char **argv;
} Line; // words not looked at yet begin at `at`

// An option: `--name value` or `--name=value`.
static GanStatus take_option(Arena *a, const ArgTable *t, uint32_t command, Line *l,
                             ArgValue *values) {
    Str whole = str_c(l->argv[l->at++]);
    size_t eq = str_starts(whole, STR("--")) ? str_find(whole, '=') : whole.len;
    Str word = str_sub(whole, 0, eq);
    uint32_t id = 0;
    while (id < t->options &&
           !((t->option[id].commands >> command & 1) && str_eq(word, str_c(t->option[id].word))))
        id++;
    if (id == t->options)
        return fail_option(a, t, command, word);
    const ArgOption *row = &t->option[id];
    ArgValue *v = &values[id];
    v->given = true;
    if (row->kind == ArgMaybe)
        return eq < whole.len ? set_value(a, t, row, str_sub(whole, eq + 1, whole.len), v) : GAN_OK;
    if (!args_takes_value(row->kind))
        return eq == whole.len ? GAN_OK : fail(GAN_ERR_USAGE, "%s takes no value", row->word);
    if (eq < whole.len)
        return set_value(a, t, row, str_sub(whole, eq + 1, whole.len), v);
    if (l->at == l->argc)
        return fail(GAN_ERR_USAGE, "%s needs a value: %s", row->word, row->value);
    return set_value(a, t, row, str_c(l->argv[l->at++]), v);
}

GanStatus args_parse(Arena *perm, const ArgTable *t, int argc, char **argv, uint32_t *command,
                     StrVec *file, ArgValue *at) {
    TRY(args_find(perm, t, str_c(argv[0]), command));
    Line l = {.argc = argc, .at = 1, .argv = argv};
    bool files = false; // behind `--` there are only files
    while (l.at < argc) {
        const char *word = argv[l.at];
        if (!files && strcmp(word, "--") == 0) {
            files = true;
            l.at++;
        } else if (!files && word[0] == '-' && word[1]) {
            TRY(take_option(perm, t, *command, &l, at));
        } else {
            vec_push(perm, file, str_c(word));
            l.at++;
        }
    }
    const ArgCommand *c = &t->command[*command];
    if ((int)file->n < c->least || (int)file->n > c->most)
        return fail(GAN_ERR_USAGE, "`%s %s` takes %s; %u given, as in: %s %s", t->program, c->word,
                    c->most ? c->files : "no files", file->n, t->program, c->example);
    for (uint32_t i = 0; i < file->n; i++)
        if (!file->at[i].len) // as of "$RUN" where that is not set
            return fail(GAN_ERR_USAGE, "`%s %s` takes %s, and a name that is given is empty",
                        t->program, c->word, c->files);
    return GAN_OK;
}
