// archive_late.c - libarchive, loaded when it is first called (library.h).
#include "library.h"

#include <archive.h>
#include <archive_entry.h>

// Written once, before any is read.
static struct {
#define GIVES(result, name, args, pass) result(*name) args;
#define DOES(name, args, pass) void(*name) args;
#include "archive_late.def"
} real;
static LibraryLate late = {.lock = PTHREAD_MUTEX_INITIALIZER};

static GanStatus load(void) {
    void *library;
    TRY(library_need((const char *const[]){ARCHIVE_FILES, NULL}, &library));
#define GIVES(result, name, args, pass) DOES(name, args, pass)
#define DOES(name, args, pass)                                                                     \
    TRY(library_need_symbol(library, #name, &real.name, sizeof real.name));
#include "archive_late.def"
    return GAN_OK;
}

GanStatus archive_ready(void) {
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
#include "archive_late.def"
