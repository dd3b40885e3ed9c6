// options.h - the command line of ganrun as data. The words are rows of options.def.
#ifndef GAN_OPTIONS_H
#define GAN_OPTIONS_H

#include "base.h"
#include "front.h"

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

enum { THREADS_MOST = 1024 }; // that a rank may be asked to compute with

typedef struct OptionValue {
    bool given;
    int64_t number;    // Count, Threads, Number
    Str text;          // Text, Choice
    VEC(Setting) pair; // Pair, in the order given
} OptionValue;

typedef struct Options {
    Command command;
    StrVec file; // what is not an option
    bool help;   // --help: nothing else was checked
    OptionValue at[OptCount];
} Options;

// argv[0] is the word of the command. GAN_ERR_USAGE with one line that says what to write instead.
GanStatus options_parse(Arena *perm, int argc, char **argv, Options *out);
int64_t option_number(const Options *o, OptionId id, int64_t otherwise);
Str option_text(const Options *o, OptionId id, Str otherwise);
const char *option_word(OptionId id); // "--batch"

void options_help(Text *t);                    // all commands
void options_command_help(Text *t, Command c); // one command and its options

#endif
