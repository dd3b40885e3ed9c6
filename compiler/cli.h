// cli.h - inside the program ganc: the parsed command line, and the commands.
#ifndef GAN_CLI_H
#define GAN_CLI_H

#include "args.h"
#include "driver.h"

typedef enum Command {
#define COMMAND(Id, ...) Command##Id,
#include "commands.def"
    CommandCount
} Command;

typedef enum OptionId {
#define OPTION(Id, ...) Opt##Id,
#include "commands.def"
    OptCount
} OptionId;

typedef struct Cli {
    Arena *perm;
    StrVec file; // positional arguments
    Dtype real;
    ArgValue at[OptCount];
    Str stage, from_stage, out; // of their options, "" when not given
    bool error_json;
} Cli;

// --- cli.c ---------------------------------------------------------------------------------------

// Each returns the exit code.
int cli_usage(const char *format, ...);                   // one line: the command line is wrong
int cli_die(GanStatus status);                            // one line: the last error's
int cli_failed(Front *f, const Cli *c, GanStatus status); // diagnostics, or else the last error
int cli_put(Str text);                                    // to standard output
int cli_write(const Cli *c, Str text);                    // to -o, or standard output

void cli_diagnostics(Front *f, bool json);          // to standard error, if there are any
CompileOptions cli_options(const Cli *c, Str path); // of a model's file

// --- emit.c --------------------------------------------------------------------------------------

int cmd_emit(Cli *c);

#endif
