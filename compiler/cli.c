// cli.c - what the commands of ganc share: what they print and where, and the options of a
// compilation.
#include "cli.h"
#include "process.h"

#include <stdio.h>

int cli_usage(const char *format, ...) {
    va_list args;
    va_start(args, format);
    fputs("ganc: ", stderr);
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
    va_end(args);
    return 2;
}

int cli_die(GanStatus status) {
    fprintf(stderr, "ganc: %s\n", gan_error());
    return gan_exit_code(status);
}

void cli_diagnostics(Front *f, bool json) {
    if (!diag_total(f))
        return;
    Text t = {.arena = f->perm};
    if (json)
        diag_render_json(&t, f);
    else
        diag_render(&t, f, process_in_color());
    fwrite(t.at, 1, t.n, stderr);
}

int cli_failed(Front *f, const Cli *c, GanStatus status) {
    if (!diag_errors(f) && !c->error_json)
        return cli_die(status);
    if (!diag_errors(f)) {
        Text t = {.arena = f->perm};
        diag_json_failure(&t, f, str_c(gan_error()));
        fwrite(t.at, 1, t.n, stderr);
    }
    cli_diagnostics(f, c->error_json);
    return gan_exit_code(status);
}

int cli_put(Str text) {
    if (fwrite(text.ptr, 1, text.len, stdout) == text.len && fflush(stdout) == 0)
        return 0;
    fputs("ganc: standard output could not be written\n", stderr);
    return 3;
}

int cli_write(const Cli *c, Str text) {
    if (!c->out.len)
        return cli_put(text);
    GanStatus status = file_write_atomic(c->out, text.ptr, text.len);
    return status == GAN_OK ? 0 : cli_die(status);
}

static int64_t number_or(const Cli *c, OptionId id, int64_t otherwise) {
    return c->at[id].given ? c->at[id].number : otherwise;
}

CompileOptions cli_options(const Cli *c, Str path) {
    return (CompileOptions){.path = path,
                            .batch = c->at[OptBatch].number,
                            .setting = c->at[OptSet].pair.at,
                            .settings = c->at[OptSet].pair.n,
                            .real = c->real,
                            .memory = (size_t)c->at[OptMemory].number,
                            .parallel = {.ranks = (uint32_t)number_or(c, OptRanks, 1),
                                         .chunks = (uint32_t)c->at[OptDeterm].number,
                                         .micro = (uint32_t)c->at[OptMicro].number,
                                         .bucket = (size_t)(c->at[OptBucketMb].real * 1e6),
                                         .tail = true}};
}
