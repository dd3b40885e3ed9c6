// device.c - the devices there are, and the libraries they would like to have.
#define _GNU_SOURCE
#include "device.h"

#include <sched.h>

static const DeviceApi *const devices[] = {&device_cpu, &device_ref};

const DeviceApi *device_find(Str name) {
    for (size_t i = 0; i < sizeof devices / sizeof *devices; i++)
        if (str_eq(str_c(devices[i]->name), name))
            return devices[i];
    return NULL;
}

int device_threads(Device *d) {
    return d->threads;
}

int device_threads_for(int wanted) {
    if (wanted > 0)
        return wanted;
    cpu_set_t set;
    int n = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
    return n > 0 ? n : 1;
}

void device_libraries(Arena *a, const LibraryInfo **out, uint32_t *n) {
    LibraryInfo *info = arena_array(a, LibraryInfo, 2);
    Str dnn = dnn_version(a);
    info[0] = (LibraryInfo){"oneDNN", str_z(a, dnn),
                            "convolution and matrix products run as plain loops, many times slower",
                            dnn.len > 0};
    Jit *jit = NULL;
    DeviceOptions none = {0};
    bool found = jit_open(&none, &jit) == GAN_OK && jit;
    info[1] = (LibraryInfo){"C compiler", found ? str_z(a, jit_compiler(jit)) : "",
                            "fused kernels run as reference loops, many times slower", found};
    jit_close(jit);
    *out = info;
    *n = 2;
}
