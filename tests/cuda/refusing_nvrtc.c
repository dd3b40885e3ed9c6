// refusing_nvrtc.c - for tests: a libnvrtc.so.13 that rejects the last kernel of every text, at
// its third line, with the real compiler's message; with REFUSING_NVRTC=builtins as where a part of
// it is missing.
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { REFUSED = 6, NO_BUILTINS = 7 };

#define SYM(field, symbol, result, args) result symbol args;
#include "nvrtc.def"

static _Thread_local char said[512];

const char *nvrtcGetErrorString(int result) {
    return result == REFUSED ? "NVRTC_ERROR_COMPILATION" : "NVRTC_ERROR_INTERNAL_ERROR";
}

int nvrtcVersion(int *major, int *minor) {
    *major = 13;
    *minor = 0;
    return 0;
}

int nvrtcGetNumSupportedArchs(int *n) {
    *n = 1;
    return 0;
}

int nvrtcGetSupportedArchs(int *arch) {
    *arch = 80;
    return 0;
}

int nvrtcCreateProgram(void **program, const char *text, const char *name, int headers,
                       const char *const *header, const char *const *include) {
    (void)name, (void)headers, (void)header, (void)include;
    char kernel[256] = "";
    for (const char *at = text; (at = strstr(at, "#line 1 \"")) != NULL; at++)
        sscanf(at, "#line 1 \"%255[^\"]", kernel);
    snprintf(said, sizeof said, "%s(2): warning #177-D: unused\n%s(3): error: refused by a test\n",
             kernel, kernel);
    *program = said;
    return 0;
}

int nvrtcDestroyProgram(void **program) {
    *program = NULL;
    return 0;
}

int nvrtcCompileProgram(void *program, int options, const char *const *option) {
    (void)program, (void)options, (void)option;
    return getenv("REFUSING_NVRTC") ? NO_BUILTINS : REFUSED;
}

int nvrtcGetProgramLogSize(void *program, size_t *n) {
    *n = strlen(program) + 1;
    return 0;
}

int nvrtcGetProgramLog(void *program, char *log) {
    memcpy(log, program, strlen(program) + 1);
    return 0;
}

// A rejected program has no output.
#define NOTHING(symbol, type)                                                                      \
    int symbol(void *program, type *out) {                                                         \
        (void)program, (void)out;                                                                  \
        return REFUSED;                                                                            \
    }
NOTHING(nvrtcGetPTXSize, size_t)
NOTHING(nvrtcGetPTX, char)
NOTHING(nvrtcGetCUBINSize, size_t)
NOTHING(nvrtcGetCUBIN, char)
