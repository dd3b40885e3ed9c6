// cuda_none.c - stands in for the cuda device where the toolkit's headers were not found at build
// time: it cannot be opened, and says why.
#include "device.h"

static GanStatus none_open(const DeviceOptions *o, Device **out) {
    (void)o;
    *out = NULL;
    return fail(GAN_ERR_DEVICE, "--device cuda: this program was built without CUDA's headers; "
                                "--device cpu works here");
}

const DeviceApi device_cuda = {.name = "cuda", .open = none_open, .supports = device_takes};
