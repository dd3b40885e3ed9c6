// image_jpeg_none.c - built without libjpeg, in place of image_jpeg.c.
#include "format.h"

GanStatus image_jpeg_decode(const uint8_t *data, size_t n, Image *out) {
    (void)data;
    (void)n;
    *out = (Image){0};
    return fail(GAN_ERR_INPUT, "a JPEG image, and this build has no libjpeg (package libjpeg-dev)");
}
