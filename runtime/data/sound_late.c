// sound_late.c - libsndfile, loaded when it is first called (library.h).
#include "library.h"

#include <sndfile.h>

// Written once, before any is read.
static struct {
#define GIVES(result, name, args, pass) result(*name) args;
#include "sound_late.def"
} real;
static LibraryLate late = {.lock = PTHREAD_MUTEX_INITIALIZER};

static GanStatus load(void) {
    void *library;
    TRY(library_need((const char *const[]){SNDFILE_FILES, NULL}, &library));
#define GIVES(result, name, args, pass)                                                            \
    TRY(library_need_symbol(library, #name, &real.name, sizeof real.name));
#include "sound_late.def"
    return GAN_OK;
}

GanStatus sound_ready(void) {
    return library_late(&late, load);
}

#define GIVES(result, name, args, pass)                                                            \
    result name args {                                                                             \
        return real.name pass;                                                                     \
    }
#include "sound_late.def"
