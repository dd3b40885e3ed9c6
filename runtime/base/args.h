// args.h - a program's command line as data. Each program has one file of rows (its .def); parsing,
// what is said of mistakes, help, completion in shells and the manual page follow from them.
//
// A command may have a table of its own (`ganrun data pack`). Help texts are one line. Where an
// option means different things to different commands, its text has clauses: "sample|interp: how
// many (64); eval: how many (256)"; a command's own help shows its own clause. Defaults are in
// parentheses.
//
// The tables are constant. Nothing here prints: texts are appended for the program to write.
#ifndef GAN_ARGS_H
#define GAN_ARGS_H

#include "base.h"

typedef enum ArgKind {
    ArgFlag,    // no value
    ArgCount,   // a whole number from 1
    ArgMillion, // a whole number from 1 to 2^20
    ArgThreads, // a whole number from 1 to THREADS_MOST
    ArgStep,    // a whole number from 0, no more than a run has steps
    ArgNumber,  // a whole number from 0
    ArgReal,    // a number above 0
    ArgBytes,   // so many bytes: 12G, 1.5GiB, 800M
    ArgText,    // a path or a name
    ArgChoice,  // one of the words of `value`, separated by |
    ArgPair,    // KEY=VALUE, may be given again with another KEY
    ArgPairs,   // KEY=VALUE, a KEY may have several
    ArgMaybe,   // a whole number from 1 behind a =, or nothing: 0
    ArgSecret,  // ArgFlag, not in any help: how a program calls itself
} ArgKind;

enum { THREADS_MOST = 1024, ARG_MILLION = 1 << 20 };

typedef struct ArgTable ArgTable;

typedef struct ArgCommand {
    const char *word;
    int least, most; // files
    const char *files, *help;
    const char *example; // what follows the program's name
    const ArgTable *sub; // its own commands, NULL: none
} ArgCommand;

typedef struct ArgOption {
    const char *word;
    ArgKind kind;
    const char *value;
    uint32_t commands; // a bit each
    const char *help;
} ArgOption;

typedef struct ArgHabit { // a word of another program, and how it is said here
    const char *word, *help;
} ArgHabit;

struct ArgTable {
    const char *program; // "ganrun", "ganrun data"
    const char *about;   // one line
    const char *note;    // at the end of the help of all
    const ArgCommand *command;
    uint32_t commands; // at most 32
    const ArgOption *option;
    uint32_t options;
    const ArgHabit *habit;
    uint32_t habits;
};

typedef struct ArgValue {
    bool given;
    int64_t number;    // Count, Million, Threads, Number, Bytes, Maybe
    double real;       // Real
    Str text;          // the value as given; of Pair and Pairs the last
    VEC(Setting) pair; // Pair and Pairs, in the order given
} ArgValue;

// argv[0] is the word of a command. `command`: its row; `file`: what is no option, or follows `--`;
// `at`: one value for each option of the table, empty before. GAN_ERR_USAGE with one line that says
// what to write instead.
GanStatus args_parse(Arena *perm, const ArgTable *t, int argc, char **argv, uint32_t *command,
                     StrVec *file, ArgValue *at);

// Answers what needs no command to run: `help`, `help COMMAND`, `COMMAND --help`, `completion
// SHELL`. argv[0] is the first word behind the program's name. *answered says whether `out` is all
// there is to do. GAN_ERR_USAGE for help on what there is not.
GanStatus args_answer(Text *out, const ArgTable *t, int argc, char **argv, bool *answered);

void args_help(Text *out, const ArgTable *t); // all commands

// --- inside: args*.c -----------------------------------------------------------------------------

bool args_shown(const ArgTable *t, uint32_t option, uint32_t command); // in its help
bool args_takes_value(ArgKind k);
bool args_takes_pairs(ArgKind k);
Str args_clause(Arena *a, const ArgTable *t, uint32_t command, const char *help);
GanStatus args_find(Arena *a, const ArgTable *t, Str word, uint32_t *command);

// args_shell.c, args_man.c: the table as a script for a shell, and as the program's manual page.
void args_bash(Text *out, const ArgTable *t);
void args_zsh(Text *out, const ArgTable *t);
void args_fish(Text *out, const ArgTable *t);
void args_man(Text *out, const ArgTable *t);

#endif
