// image_webp_none.c - built without libwebp, in place of image_webp.c.
#include "format.h"
#include "library.h"

GanStatus webp_ready(void) {
    return fail(GAN_ERR_INPUT, "a WebP image, and this build has no libwebp (package libwebp-dev)");
}

GanStatus image_webp_decode(const uint8_t *data, size_t n, Image *out) {
    (void)data;
    (void)n;
    *out = (Image){0};
    return webp_ready();
}
