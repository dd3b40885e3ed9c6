// shim_device.h - a device for tests: every launch runs twice from the same memory, by its CUDA
// kernels on the emulator and by the reference evaluator. A difference fails the test; the
// evaluator's values are kept, so that the report is of the first launch that differs.
#ifndef GAN_SHIM_DEVICE_H
#define GAN_SHIM_DEVICE_H

#include "device_api.h"

typedef struct ShimCount {
    uint32_t regions, calls; // that ran on the shim
    uint32_t large;          // regions run only by the evaluator: too large for a test
} ShimCount;

// Is there a C++ compiler? Without one their `load` returns GAN_ERR_DEVICE.
bool shim_device_works(void);
extern const DeviceApi device_shim;
extern const DeviceApi device_shim_alone; // runs only the kernels, without comparison
ShimCount shim_device_count(const Device *d);

#endif
