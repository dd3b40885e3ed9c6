// options.h - the command line of ganrun as data, from the rows of options.def.
#ifndef GAN_OPTIONS_H
#define GAN_OPTIONS_H

#include "args.h"
#include "elaborate.h"

typedef enum Command {
#define COMMAND(Id, ...) Command##Id,
#include "options.def"
    CommandCount
} Command;

typedef enum OptionId {
#define OPTION(Id, ...) Opt##Id,
#include "options.def"
    OptCount
} OptionId;

enum { METRIC_SAMPLES = 256 }; // of a metric without --count

typedef struct Options {
    Command command;
    StrVec file; // what is not an option
    ArgValue at[OptCount];
} Options;

extern const ArgTable ganrun_args;

// argv[0] is the word of the command. GAN_ERR_USAGE with one line that says what to write instead.
GanStatus options_parse(Arena *perm, int argc, char **argv, Options *out);
int64_t option_number(const Options *o, OptionId id, int64_t otherwise);
Str option_text(const Options *o, OptionId id, Str otherwise);
const char *option_word(OptionId id); // "--batch"

typedef VEC(const char *) CommandLine; // words for process_run, which NULL ends
// Appends those of the options `id` [n] that are given, as they are given, for another process of
// this program. Words are in `a`, or the options' own.
void options_pass(Arena *a, const Options *o, const OptionId *id, size_t n, CommandLine *line);

#endif
