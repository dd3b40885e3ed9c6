// hdf5_late.c - libhdf5, loaded when it is first called (library.h).
//
// The library's types are variables, which get their values when it is opened.
#include "library.h"

#include <hdf5.h>

// Written once, before any is read.
static struct {
#define GIVES(result, name, args, pass) result(*name) args;
#include "hdf5_late.def"
} real;
hid_t H5T_NATIVE_FLOAT_g, H5T_NATIVE_UINT8_g, H5T_NATIVE_UINT16_g;
static LibraryLate late = {.lock = PTHREAD_MUTEX_INITIALIZER};

static GanStatus take_type(void *library, const char *name, hid_t *out) {
    hid_t *at;
    TRY(library_need_symbol(library, name, &at, sizeof at));
    *out = *at;
    return GAN_OK;
}

static GanStatus load(void) {
    void *library;
    TRY(library_need((const char *const[]){HDF5_FILES, NULL}, &library));
#define GIVES(result, name, args, pass)                                                            \
    TRY(library_need_symbol(library, #name, &real.name, sizeof real.name));
#include "hdf5_late.def"
    if (real.H5open() < 0)
        return fail(GAN_ERR_DEVICE, "libhdf5 cannot be opened");
    TRY(take_type(library, "H5T_NATIVE_FLOAT_g", &H5T_NATIVE_FLOAT_g));
    TRY(take_type(library, "H5T_NATIVE_UINT8_g", &H5T_NATIVE_UINT8_g));
    return take_type(library, "H5T_NATIVE_UINT16_g", &H5T_NATIVE_UINT16_g);
}

GanStatus hdf5_ready(void) {
    return library_late(&late, load);
}

#define GIVES(result, name, args, pass)                                                            \
    result name args {                                                                             \
        return real.name pass;                                                                     \
    }
#include "hdf5_late.def"
