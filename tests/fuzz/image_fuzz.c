// image_fuzz.c - a PNG or JPEG from any bytes, resized to a small size.
#include "data.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    Image m = {0};
    uint8_t out[3 * 8 * 8 * 2];
    // An hour of decoding a blank picture of 100 megapixels finds nothing: sizes beyond 4 MB are
    // left to the limits' tests.
    if (image_decode(data, size, &m) == GAN_OK && (uint64_t)m.w * m.h < 1 << 20) {
        for (uint32_t i = 0; i < 8; i++) {
            FitRule rule = {.w = 8,
                            .h = 8,
                            .channels = i & 1 ? 1 : 3,
                            .bits = i & 2 ? 16 : 8,
                            .mode = i & 4 ? FitContain : FitCover,
                            .background = {255, 128, 0}};
            if (image_fit(&m, &rule, out) != GAN_OK)
                break;
        }
    }
    image_release(&m);
    return 0;
}
