// linear_late.c - OpenBLAS, loaded when it is first called (library.h).
#include "linear.h"

// Written once, before any is read.
static struct {
#define DOES(name, args, pass) void(*name) args;
#include "linear_late.def"
} real;
static LibraryLate late = {.lock = PTHREAD_MUTEX_INITIALIZER};

static GanStatus load(void) {
    void *library;
    TRY(library_need((const char *const[]){OPENBLAS_FILES, NULL}, &library));
#define DOES(name, args, pass)                                                                     \
    TRY(library_need_symbol(library, #name, &real.name, sizeof real.name));
#include "linear_late.def"
    return GAN_OK;
}

GanStatus linear_ready(void) {
    return library_late(&late, load);
}

#define DOES(name, args, pass)                                                                     \
    void name args {                                                                               \
        real.name pass;                                                                            \
    }
#include "linear_late.def"
