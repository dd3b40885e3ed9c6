// hdf5_late.c - libhdf5, loaded when it is first called (library.h).
//
// The library's types and property classes are variables, which get their values when it is opened.
#include <hdf5.h>

#define LATE_ROWS "hdf5_late.def"
#define LATE_FILES HDF5_FILES
#define LATE_READY hdf5_ready
#define LATE_OPENED take_ids
#include "library_late.h"

hid_t H5P_CLS_DATASET_ACCESS_ID_g;
hid_t H5T_NATIVE_FLOAT_g, H5T_NATIVE_UINT8_g, H5T_NATIVE_UINT16_g;

static GanStatus take_id(void *library, const char *name, hid_t *out) {
    hid_t *at;
    TRY(library_need_symbol(library, name, &at, sizeof at));
    *out = *at;
    return GAN_OK;
}

static GanStatus take_ids(void *library) {
    if (real.H5open() < 0)
        return fail(GAN_ERR_DEVICE, "libhdf5 cannot be opened");
    TRY(take_id(library, "H5P_CLS_DATASET_ACCESS_ID_g", &H5P_CLS_DATASET_ACCESS_ID_g));
    TRY(take_id(library, "H5T_NATIVE_FLOAT_g", &H5T_NATIVE_FLOAT_g));
    TRY(take_id(library, "H5T_NATIVE_UINT8_g", &H5T_NATIVE_UINT8_g));
    return take_id(library, "H5T_NATIVE_UINT16_g", &H5T_NATIVE_UINT16_g);
}
