// library_late.h - a library that is loaded late (library.h): the table of its functions, what
// loads it, and a function under each of its names. For the one file of each library, which defines
//
//     LATE_ROWS      the .def of the functions: GIVES and DOES, see archive_late.def
//     LATE_FILES     the names of its file, as library_open wants them
//     LATE_READY     what asks for it
//     LATE_OPENED    what is done besides when it is loaded, if anything is
#ifndef GAN_LIBRARY_LATE_H
#define GAN_LIBRARY_LATE_H

#include "library.h"

// Written once, before any is read.
static struct {
#define GIVES(result, name, args, pass) result(*name) args;
#define DOES(name, args, pass) void(*name) args;
#include LATE_ROWS
} real;
static LibraryLate late = {.lock = PTHREAD_MUTEX_INITIALIZER};

#ifdef LATE_OPENED
static GanStatus LATE_OPENED(void *library);
#endif

static GanStatus load(void) {
    void *library;
    TRY(library_need((const char *const[]){LATE_FILES, NULL}, &library));
#define GIVES(result, name, args, pass) DOES(name, args, pass)
#define DOES(name, args, pass)                                                                     \
    TRY(library_need_symbol(library, #name, &real.name, sizeof real.name));
#include LATE_ROWS
#ifdef LATE_OPENED
    TRY(LATE_OPENED(library));
#endif
    return GAN_OK;
}

GanStatus LATE_READY(void) {
    return library_late(&late, load);
}

#define GIVES(result, name, args, pass)                                                            \
    result name args {                                                                             \
        return real.name pass;                                                                     \
    }
#define DOES(name, args, pass)                                                                     \
    void name args {                                                                               \
        real.name pass;                                                                            \
    }
#include LATE_ROWS

#endif
