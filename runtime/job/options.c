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
    .note = "Exit codes: 0 done, 1 the model, data or reference is wrong, 2 usage, 3 the machine "
            "lacks or refused something, 70 our bug, 75 saved and stopped.",
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

GanStatus options_parse(Arena *perm, int argc, char **argv, Options *out) {
    *out = (Options){0};
    uint32_t command = 0;
    TRY(args_parse(perm, &ganrun_args, argc, argv, &command, &out->file, out->at));
    out->command = (Command)command;
    return GAN_OK;
}
