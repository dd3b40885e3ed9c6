// archive_late.c - libarchive, loaded when it is first called (library.h).
#include "library.h"

#include <archive.h>
#include <archive_entry.h>
#include <pthread.h>

// Written once, before any is read.
static struct {
#define GIVES(result, name, args, pass) result(*name) args;
#define DOES(name, args, pass) void(*name) args;
#include "archive_late.def"
} real;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void load(void) {
    void *library = library_need((const char *const[]){ARCHIVE_FILES, NULL});
#define GIVES(result, name, args, pass) DOES(name, args, pass)
#define DOES(name, args, pass) library_need_symbol(library, #name, &real.name, sizeof real.name);
#include "archive_late.def"
}

#define GIVES(result, name, args, pass)                                                            \
    result name args {                                                                             \
        pthread_once(&once, load);                                                                 \
        return real.name pass;                                                                     \
    }
#define DOES(name, args, pass)                                                                     \
    void name args {                                                                               \
        pthread_once(&once, load);                                                                 \
        real.name pass;                                                                            \
    }
#include "archive_late.def"
