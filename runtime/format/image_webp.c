// image_webp.c - WebP in through libwebp: lossy and lossless, as RGB or RGBA; not animations.
//
// The header is read first, so that the limits on an image hold before the library allocates.
#include "format.h"
#include "library.h"

#include <string.h>

#include <webp/decode.h>

// By VP8StatusCode.
static GanStatus broken(VP8StatusCode code) {
    static const char *const why[] = {
        [VP8_STATUS_INVALID_PARAM] = "it has no data",
        [VP8_STATUS_BITSTREAM_ERROR] = "its data is damaged",
        [VP8_STATUS_UNSUPPORTED_FEATURE] = "it uses a feature that libwebp does not know",
        [VP8_STATUS_SUSPENDED] = "the file ends too early",
        [VP8_STATUS_USER_ABORT] = "decoding was stopped",
        [VP8_STATUS_NOT_ENOUGH_DATA] = "the file ends too early",
    };
    if (code == VP8_STATUS_OUT_OF_MEMORY)
        return fail(GAN_ERR_MEMORY, "no memory to read a WebP");
    bool known = (size_t)code < sizeof why / sizeof *why && why[code];
    return fail(GAN_ERR_INPUT, "broken WebP: %s", known ? why[code] : "unknown reason");
}

static uint32_t le32(const uint8_t *at) {
    return at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
}

// The EXIF chunk of the RIFF container; some programs write JPEG's marker in front of its data.
static uint32_t orientation_of(const uint8_t *data, size_t n) {
    static const char marker[6] = "Exif\0";
    enum { Lead = 12, Head = 8 };
    for (size_t at = Lead; n > Head && at < n - Head;) {
        size_t size = le32(data + at + 4), left = n - at - Head;
        const uint8_t *body = data + at + Head;
        if (size > left)
            return 1;
        if (memcmp(data + at, "EXIF", 4) == 0) {
            size_t skip = size > sizeof marker && !memcmp(body, marker, sizeof marker) ? 6 : 0;
            return exif_orientation(body + skip, size - skip);
        }
        at += Head + size + size % 2;
    }
    return 1;
}

GanStatus image_webp_decode(const uint8_t *data, size_t n, Image *out) {
    WebPDecoderConfig c;
    Image m = {0};
    *out = m;
    TRY(webp_ready());
    if (!WebPInitDecoderConfig(&c))
        return fail(GAN_ERR_DEVICE,
                    "libwebp is of another version than this program was built for");
    VP8StatusCode code = WebPGetFeatures(data, n, &c.input);
    if (code != VP8_STATUS_OK)
        return broken(code);
    if (c.input.has_animation)
        return fail(GAN_ERR_INPUT, "an animated WebP image");
    bool alpha = c.input.has_alpha;
    TRY(image_new((uint32_t)c.input.width, (uint32_t)c.input.height, alpha ? 4 : 3, 8, &m));
    size_t row = (size_t)m.w * m.channels;
    c.output.colorspace = alpha ? MODE_RGBA : MODE_RGB;
    c.output.is_external_memory = 1;
    c.output.u.RGBA = (WebPRGBABuffer){m.pixels, (int)row, row * m.h};
    code = WebPDecode(data, n, &c);
    GanStatus st = code == VP8_STATUS_OK ? image_orient(&m, orientation_of(data, n)) : broken(code);
    if (st == GAN_OK)
        *out = m;
    else
        image_release(&m);
    return st;
}
