// status.c - run-time errors (files, memory, devices, peers): a returned code, and a message kept
// per thread; and bug(), which ends the program on an internal error. The message buffer is one per
// thread, and the program's name is set before there are others, so every function here is safe
// from any thread.
#include "base.h"

#include <stdlib.h>
#include <string.h>

enum { MessageSize = 2048 };
static _Thread_local char message[MessageSize];

GanStatus fail(GanStatus code, const char *format, ...) {
    char text[MessageSize]; // the arguments may point into `message`
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    str_mask(text);
    memcpy(message, text, sizeof message);
    return code;
}

GanStatus fail_in(GanStatus code, const char *format, ...) {
    char text[MessageSize / 2];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text - 2, format, args);
    va_end(args);
    str_mask(text);
    size_t n = strlen(text);
    memcpy(text + n, ": ", 2);
    n += 2;
    memmove(message + n, message, MessageSize - 1 - n); // the last byte stays 0
    memcpy(message, text, n);
    return code;
}

const char *gan_error(void) {
    return message;
}

int gan_exit_code(GanStatus code) {
    switch (code) {
    case GAN_OK:
        return 0;
    case GAN_ERR_INPUT:
        return 1;
    case GAN_ERR_USAGE:
        return 2;
    case GAN_ERR_IO:
    case GAN_ERR_MEMORY:
    case GAN_ERR_DEVICE:
        return 3;
    case GAN_ERR_BUG:
        return 70;
    case GAN_STOPPED:
        return 75;
    }
    return 70;
}

static const char *program_name = "gan"; // of a program that has not said its own

void speak_as(const char *program) {
    program_name = program;
}

const char *speaker(void) {
    return program_name;
}

_Noreturn void bug(const char *format, ...) {
    va_list args;
    va_start(args, format);
    file_drop_temporaries();
    fprintf(stderr, "%s: internal error: ", program_name);
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
    va_end(args);
#ifdef FUZZING_BUILD_MODE_UNSAFE_FOR_PRODUCTION
    abort(); // a fuzzer keeps the input of a crash, not of an exit
#else
    _Exit(70);
#endif
}

_Noreturn void no_memory(const char *format, ...) {
    va_list args;
    va_start(args, format);
    file_drop_temporaries();
    fprintf(stderr, "%s: out of memory: ", program_name);
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
    va_end(args);
    _Exit(3);
}
