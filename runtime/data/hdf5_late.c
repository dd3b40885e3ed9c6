// hdf5_late.c - libhdf5, loaded when it is first called (library.h).
//
// The library's types are variables, which get their values when it is opened: every use of their
// names opens it first.
#include "library.h"

#include <hdf5.h>
#include <pthread.h>

// Written once, before any is read.
static struct {
#define GIVES(result, name, args, pass) result(*name) args;
#include "hdf5_late.def"
} real;
hid_t H5T_NATIVE_FLOAT_g, H5T_NATIVE_UINT8_g, H5T_NATIVE_UINT16_g;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void take_type(void *library, const char *name, hid_t *out) {
    hid_t *at;
    library_need_symbol(library, name, &at, sizeof at);
    *out = *at;
}

static void load(void) {
    void *library = library_need((const char *const[]){HDF5_FILES, NULL});
#define GIVES(result, name, args, pass)                                                            \
    library_need_symbol(library, #name, &real.name, sizeof real.name);
#include "hdf5_late.def"
    real.H5open();
    take_type(library, "H5T_NATIVE_FLOAT_g", &H5T_NATIVE_FLOAT_g);
    take_type(library, "H5T_NATIVE_UINT8_g", &H5T_NATIVE_UINT8_g);
    take_type(library, "H5T_NATIVE_UINT16_g", &H5T_NATIVE_UINT16_g);
}

#define GIVES(result, name, args, pass)                                                            \
    result name args {                                                                             \
        pthread_once(&once, load);                                                                 \
        return real.name pass;                                                                     \
    }
#include "hdf5_late.def"
