// options.c - the command line of ganrun: its table, and access to parsed values.
#include "options.h"

#include "data.h"

static const ArgCommand commands[] = {
#define COMMAND(Id, word, least, most, files, help, example)                                       \
    {word, least, most, files, help, example, Command##Id == CommandData ? &data_args : NULL},
#include "options.def"
};

static const ArgOption options[] = {
#define OPTION(Id, word, kind, value, commands, help) {word, Arg##kind, value, commands, help},
#include "options.def"
};

static const ArgHabit habits[] = {
#define HABIT(word, help) {word, help},
#include "options.def"
#define COMMAND(Id, word, least, most, files, help, example)                                       \
    {word, "that is the compiler's: ganc " word " " files},
#include "commands.def"
};

const ArgTable ganrun_args = {
    .program = "ganrun",
    .about = "trains, samples and measures generative adversarial networks",
    .note = "`ganrun --version` prints the version. Exit codes: 0 done, 1 the model, data or "
            "reference is wrong, 2 usage, 3 the machine lacks or refused something, 70 our bug, 75 "
            "saved and stopped.",
    .command = commands,
    .commands = CommandCount,
    .option = options,
    .options = OptCount,
    .habit = habits,
    .habits = sizeof habits / sizeof *habits,
};

const char *option_word(OptionId id) {
    return options[id].word;
}

int64_t option_number(const Options *o, OptionId id, int64_t otherwise) {
    return o->at[id].given ? o->at[id].number : otherwise;
}

Str option_text(const Options *o, OptionId id, Str otherwise) {
    return o->at[id].given ? o->at[id].text : otherwise;
}

void options_pass(Arena *a, const Options *o, const OptionId *id, size_t n, CommandLine *line) {
    for (size_t i = 0; i < n; i++) {
        const ArgValue *v = &o->at[id[i]];
        const ArgOption *row = &options[id[i]];
        for (uint32_t k = 0; k < v->pair.n; k++) {
            Setting s = v->pair.at[k];
            vec_push(a, line, row->word);
            vec_push(a, line, str_format(a, "%.*s=%.*s", SARG(s.key), SARG(s.value)).ptr);
        }
        if (!v->given || args_takes_pairs(row->kind))
            continue;
        if (row->kind == ArgMaybe && v->text.len) {
            vec_push(a, line, str_format(a, "%s=%.*s", row->word, SARG(v->text)).ptr);
            continue;
        }
        vec_push(a, line, row->word);
        if (args_takes_value(row->kind))
            vec_push(a, line, str_z(a, v->text));
    }
}

GanStatus options_parse(Arena *perm, int argc, char **argv, Options *out) {
    *out = (Options){0};
    uint32_t command = 0;
    TRY(args_parse(perm, &ganrun_args, argc, argv, &command, &out->file, out->at));
    out->command = (Command)command;
    return GAN_OK;
}
