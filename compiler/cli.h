// cli.h - inside the program ganc: what the command line said, and how a command answers.
#ifndef GAN_CLI_H
#define GAN_CLI_H

#include "driver.h"

typedef struct Cli {
    Arena *perm;
    const char *command;
    VEC(Str) file; // positional arguments
    VEC(Setting) setting;
    Str stage, from_stage, out, from, target;
    int64_t batch;
    int64_t ranks, chunks; // --deterministic
    int64_t micro;
    double bucket_mb;
    size_t memory; // bytes; 0: no limit
    Dtype real;
    bool json, check, error_json;
} Cli;

// Each returns the exit code.
int cli_usage(const char *why, Str what);                 // one line: the command line is wrong
int cli_die(GanStatus status);                            // one line: the last error's
int cli_failed(Front *f, const Cli *c, GanStatus status); // diagnostics, or else the last error
int cli_write(const Cli *c, Str text);                    // to -o, or standard output

CompileOptions cli_options(const Cli *c, Str path); // of a model's file
int cmd_emit(Cli *c);                               // emit.c

#endif
