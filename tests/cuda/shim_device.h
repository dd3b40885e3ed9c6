// shim_device.h - a device for tests: every launch runs twice from the same memory, by its CUDA
// kernels on the emulator and by the reference evaluator. A difference fails the test; the
// evaluator's values are kept, so that the report is of the first launch that differs.
#ifndef GAN_SHIM_DEVICE_H
#define GAN_SHIM_DEVICE_H

#include "device_api.h"

typedef struct ShimCount {
    uint32_t regions, calls; // that ran on the shim
    uint32_t large;          // that were left to the evaluator: more work than a test has time for
} ShimCount;

// Their `load` wants a C++ compiler: GAN_ERR_DEVICE without one. Is there one?
bool shim_device_works(void);
extern const DeviceApi device_shim;
extern const DeviceApi device_shim_alone; // by the kernels alone: nothing is compared
ShimCount shim_device_count(const Device *d);

#endif
