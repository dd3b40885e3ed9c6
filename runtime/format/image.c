// image.c - one image: memory, format detection by content, and grids of samples.
//
// In: bytes of a PNG, JPEG or WebP file, or f32 samples. Out: an Image that owns its pixels. The
// limits below are checked before allocating, so that a small hostile file cannot allocate much.
#include "format.h"

#include <math.h>
#include <string.h>

enum { SideMost = 1 << 16, PixelsMost = 1 << 27 };

bool image_fits(int64_t w, int64_t h) {
    return w <= SideMost && h <= SideMost && w * h <= PixelsMost;
}

GanStatus image_new(uint32_t w, uint32_t h, uint32_t channels, uint32_t bits, Image *out) {
    *out = (Image){0};
    if (w == 0 || h == 0)
        return fail(GAN_ERR_INPUT, "image of %ux%u pixels", w, h);
    if (!image_fits(w, h))
        return fail(GAN_ERR_INPUT, "image of %ux%u pixels: the limit is %d million", w, h,
                    PixelsMost / 1000000);
    size_t bytes = (size_t)w * h * channels * (bits / 8);
    void *pixels = mem_alloc(bytes);
    if (!pixels)
        return fail(GAN_ERR_MEMORY, "no memory for an image of %ux%u pixels", w, h);
    *out = (Image){.w = w, .h = h, .channels = channels, .bits = bits, .pixels = pixels};
    return GAN_OK;
}

void image_release(Image *m) {
    mem_free(m->pixels);
    *m = (Image){0};
}

typedef struct Magic {
    const char *text;
    size_t n;
    const char *what;
} Magic;

// Other formats that are found in folders of images.
static const Magic foreign[] = {
    {"GIF8", 4, "a GIF file"},
    {"BM", 2, "a BMP file"},
    {"II*\0", 4, "a TIFF file"},
    {"MM\0*", 4, "a TIFF file"},
    {"RIFF", 4, "a RIFF file of another kind than WebP"},
    {"\0\0\0\014jP", 6, "a JPEG 2000 file"},
    {"%PDF", 4, "a PDF file"},
    {"<", 1, "text, perhaps HTML or SVG"},
};

static bool has_magic(const uint8_t *data, size_t n, const char *magic, size_t length) {
    return n >= length && memcmp(data, magic, length) == 0;
}

static bool is_text(const uint8_t *data, size_t n) {
    for (size_t i = 0; i < n && i < 256; i++)
        if (data[i] < 9 || (data[i] > 13 && data[i] < 32))
            return false;
    return true;
}

bool sound_is(const uint8_t *data, size_t n) {
    return n >= 12 && has_magic(data, n, "RIFF", 4) && has_magic(data + 8, n - 8, "WAVE", 4);
}

GanStatus image_decode(const uint8_t *data, size_t n, Image *out) {
    *out = (Image){0};
    if (n == 0)
        return fail(GAN_ERR_INPUT, "empty file");
    if (has_magic(data, n, "\x89PNG\r\n\x1a\n", 8))
        return image_png_decode(data, n, out);
    if (has_magic(data, n, "\xff\xd8\xff", 3))
        return image_jpeg_decode(data, n, out);
    if (n >= 12 && has_magic(data, n, "RIFF", 4) && has_magic(data + 8, n - 8, "WEBP", 4))
        return image_webp_decode(data, n, out);
    if (sound_is(data, n))
        return fail(GAN_ERR_INPUT,
                    "not a PNG, JPEG or WebP image but a WAV sound: sounds have folders "
                    "of their own");
    for (size_t i = 0; i < sizeof foreign / sizeof *foreign; i++)
        if (has_magic(data, n, foreign[i].text, foreign[i].n))
            return fail(GAN_ERR_INPUT, "not a PNG, JPEG or WebP image but %s", foreign[i].what);
    return fail(GAN_ERR_INPUT, "not a PNG, JPEG or WebP image%s",
                is_text(data, n) ? " but text" : "");
}

static uint8_t to_byte(double x, double lo, double scale) {
    double v = nearbyint((x - lo) * scale);
    return (uint8_t)(v < 0 || isnan(v) ? 0 : v > 255 ? 255 : v);
}

enum { Gap = 2 }; // pixels between the images of a grid

size_t image_columns(size_t n, const uint32_t chw[3], size_t wanted) {
    size_t across = (SideMost + Gap) / (chw[2] + Gap), down = (SideMost + Gap) / (chw[1] + Gap);
    size_t least = down ? (n + down - 1) / down : 1;
    size_t columns = wanted > least ? wanted : least;
    return across && columns > across ? across : columns;
}

GanStatus image_grid(const float *x, size_t n, const uint32_t chw[3], uint32_t columns, double lo,
                     double hi, Image *out) {
    uint32_t c = chw[0], h = chw[1], w = chw[2];
    *out = (Image){0};
    if (c != 1 && c != 3)
        return fail(GAN_ERR_INPUT, "a grid shows 1 or 3 channels, not %u", c);
    if (n == 0 || columns == 0 || !(hi > lo))
        return fail(GAN_ERR_INPUT, "a grid needs samples, columns and a range");
    uint64_t rows = (n + columns - 1) / columns;
    uint64_t gw = (uint64_t)columns * (w + Gap) - Gap, gh = rows * (h + Gap) - Gap;
    if (gw > SideMost || gh > SideMost)
        return fail(GAN_ERR_INPUT, "a grid of %zu images of %ux%u is too large", n, w, h);
    TRY(image_new((uint32_t)gw, (uint32_t)gh, c, 8, out));
    uint8_t *to = out->pixels;
    memset(to, 255, (size_t)gw * gh * c);
    double scale = 255 / (hi - lo);
    for (size_t i = 0; i < n; i++) {
        size_t top = i / columns * (h + Gap), left = i % columns * (w + Gap);
        for (size_t y = 0; y < h; y++) {
            for (size_t p = 0; p < (size_t)w * c; p++) {
                size_t from = ((i * c + p % c) * h + y) * w + p / c;
                to[((top + y) * gw + left) * c + p] = to_byte(x[from], lo, scale);
            }
        }
    }
    return GAN_OK;
}
