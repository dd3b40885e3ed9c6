// hdf5_none.c - built without libhdf5: HDF5 files are refused, and the message says what to do.
#include "library.h"
#include "format.h"

GanStatus hdf5_ready(void) {
    return fail(GAN_ERR_INPUT,
                "an HDF5 file, and this program was built without libhdf5: install libhdf5-dev and "
                "build again, or save the array with numpy.save");
}

GanStatus hdf5_open(Str path, Str dataset, Hdf5 **out, Array *shape) {
    (void)dataset;
    *out = NULL;
    *shape = (Array){0};
    return fail_in(hdf5_ready(), "%.*s", SARG(path));
}

GanStatus hdf5_read(Hdf5 *h, size_t first, size_t rows, void *to) {
    (void)h, (void)first, (void)rows, (void)to;
    return fail(GAN_ERR_BUG, "no HDF5 file was opened");
}

void hdf5_close(Hdf5 *h) {
    (void)h;
}
