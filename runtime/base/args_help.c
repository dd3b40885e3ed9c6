// args_help.c - help on commands, from their table.
#include "args.h"

#include <string.h>

enum { WIDTH = 100, WORDS_AT = 34 };

// Words from column `at` on; lines that would pass WIDTH go on below it.
static void put_wrapped(Text *out, Str text, int at) {
    int column = at;
    while (text.len) {
        Str word = str_sub(text, 0, str_find(text, ' '));
        text = str_sub(text, word.len + 1, text.len);
        if (column > at && column + 1 + (int)word.len > WIDTH) {
            text_fmt(out, "\n%*s", at, "");
            column = at;
        }
        text_fmt(out, "%s%.*s", column > at ? " " : "", SARG(word));
        column += (column > at) + (int)word.len;
    }
    text_char(out, '\n');
}

// A row of two columns; a head too long for its own stands on a line of its own.
static void put_row(Text *out, const char *head, Str text, int at) {
    text_fmt(out, "  %-*s", at - 2, head);
    if ((int)strlen(head) + 3 > at)
        text_fmt(out, "\n%*s", at, "");
    put_wrapped(out, text, at);
}

// Whether a clause's head, "WORD|WORD", is of commands; and if so, whether `command` is among them.
static bool is_head(const ArgTable *t, Str head, uint32_t command, bool *meant) {
    bool all = head.len > 0;
    for (*meant = false; all && head.len;) {
        Str word = str_sub(head, 0, str_find(head, '|'));
        head = str_sub(head, word.len + 1, head.len);
        uint32_t i = 0;
        while (i < t->commands && !str_eq(word, str_c(t->command[i].word)))
            i++;
        all = i < t->commands;
        *meant = *meant || i == command;
    }
    return all;
}

Str args_clause(Arena *a, const ArgTable *t, uint32_t command, const char *help) {
    Text out = {.arena = a};
    for (Str rest = str_c(help); rest.len;) {
        Str part = str_sub(rest, 0, str_find(rest, ';'));
        rest = str_sub(rest, part.len + 1, rest.len);
        part = str_starts(part, STR(" ")) ? str_sub(part, 1, part.len) : part;
        size_t colon = str_find(part, ':');
        bool meant, headed = is_head(t, str_sub(part, 0, colon), command, &meant);
        if (headed && !meant)
            continue;
        part = str_sub(part, headed ? colon + 2 : 0, part.len);
        text_fmt(&out, "%s%.*s", out.n ? "; " : "", SARG(part));
    }
    return text_str(&out);
}

void args_help(Text *out, const ArgTable *t) {
    text_fmt(out, "usage: %s COMMAND ...\n%s\n\n", t->program, t->about);
    for (uint32_t i = 0; i < t->commands; i++) {
        const ArgCommand *c = &t->command[i];
        put_row(out, str_format(out->arena, "%s %s", c->word, c->files).ptr, str_c(c->help),
                WORDS_AT);
    }
    text_fmt(out, "\n`%s COMMAND --help` lists a command's options and has an example.\n",
             t->program);
    put_wrapped(out, str_c(t->note), 0);
}

// One command, and its options.
static void put_command(Text *out, const ArgTable *t, uint32_t command) {
    const ArgCommand *c = &t->command[command];
    if (c->sub) {
        args_help(out, c->sub);
        return;
    }
    bool any = false;
    for (uint32_t i = 0; i < t->options; i++)
        any = any || args_shown(t, i, command);
    text_fmt(out, "usage: %s %s%s%s%s\n", t->program, c->word, *c->files ? " " : "", c->files,
             any ? " [OPTION]..." : "");
    put_wrapped(out, str_c(c->help), 0);
    text_fmt(out, "\nexample: %s %s\n%s", t->program, c->example, any ? "\n" : "");
    for (uint32_t i = 0; i < t->options; i++)
        if (args_shown(t, i, command))
            put_row(out,
                    str_format(out->arena, "%s%s%s", t->option[i].word,
                               args_takes_value(t->option[i].kind) ? " " : "", t->option[i].value)
                        .ptr,
                    args_clause(out->arena, t, command, t->option[i].help), WORDS_AT);
}

static bool is_help(const char *word) {
    return !strcmp(word, "--help") || !strcmp(word, "-h");
}

static GanStatus answer_completion(Text *out, const ArgTable *t, int argc, char **argv) {
    static const struct {
        const char *word;
        void (*put)(Text *out, const ArgTable *t);
    } kinds[] = {{"bash", args_bash}, {"zsh", args_zsh}, {"fish", args_fish}, {"man", args_man}};
    for (size_t i = 0; argc == 2 && i < sizeof kinds / sizeof *kinds; i++)
        if (!strcmp(argv[1], kinds[i].word))
            return kinds[i].put(out, t), GAN_OK;
    return fail(GAN_ERR_USAGE, "`%s completion` needs one of bash, zsh, fish and man", t->program);
}

// Help on the words behind the program's name: none, a command, a command of a command.
static GanStatus answer_help(Text *out, const ArgTable *t, int argc, char **argv) {
    if (!argc)
        return args_help(out, t), GAN_OK;
    uint32_t command;
    TRY(args_find(out->arena, t, str_c(argv[0]), &command));
    const ArgTable *sub = t->command[command].sub;
    return sub ? answer_help(out, sub, argc - 1, argv + 1) : (put_command(out, t, command), GAN_OK);
}

GanStatus args_answer(Text *out, const ArgTable *t, int argc, char **argv, bool *answered) {
    *answered = false;
    if (!argc)
        return GAN_OK;
    *answered = true;
    if (!strcmp(argv[0], "help"))
        return answer_help(out, t, argc - 1, argv + 1);
    if (is_help(argv[0]))
        return args_help(out, t), GAN_OK;
    bool asked = false;
    for (int i = 1; i < argc; i++)
        asked = asked || is_help(argv[i]);
    uint32_t command = 0;
    if (!asked) {
        if (!strcmp(argv[0], "completion"))
            return answer_completion(out, t, argc, argv);
        return *answered = false, GAN_OK;
    }
    TRY(args_find(out->arena, t, str_c(argv[0]), &command));
    const ArgTable *sub = t->command[command].sub;
    if (sub)
        return args_answer(out, sub, argc - 1, argv + 1, answered);
    return put_command(out, t, command), GAN_OK;
}
