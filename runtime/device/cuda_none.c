// cuda_none.c - replaces the cuda device in builds without the toolkit's headers: opening it fails,
// with the reason.
#include "device.h"

static GanStatus none_open(const DeviceOptions *o, Device **out) {
    (void)o;
    *out = NULL;
    return fail(GAN_ERR_DEVICE, "--device cuda: this program was built without CUDA's headers; "
                                "--device cpu works here");
}

const DeviceApi device_cuda = {.name = "cuda", .open = none_open, .supports = device_takes};
