// image_exif.c - the orientation tag that cameras write, and rotating pixels by it.
//
// EXIF is a TIFF file without an image (CIPA DC-008): a byte order, and a directory of tags at an
// offset. It is often damaged: then the image counts as upright.
#include "format.h"

#include <string.h>

enum { Upright = 1, OrientationMost = 8, TagOrientation = 0x0112, TypeShort = 3, EntryBytes = 12 };

static uint32_t number(const uint8_t *at, uint32_t bytes, bool big) {
    uint32_t v = 0;
    for (uint32_t i = 0; i < bytes; i++)
        v |= (uint32_t)at[i] << 8 * (big ? bytes - 1 - i : i);
    return v;
}

uint32_t exif_orientation(const uint8_t *tiff, size_t n) {
    bool big = n >= 8 && memcmp(tiff, "MM\0*", 4) == 0;
    if (!big && (n < 8 || memcmp(tiff, "II*\0", 4) != 0))
        return Upright;
    size_t at = number(tiff + 4, 4, big);
    if (at > n || n - at < 2)
        return Upright;
    uint32_t entries = number(tiff + at, 2, big);
    at += 2;
    for (uint32_t i = 0; i < entries && n - at >= EntryBytes; i++, at += EntryBytes) {
        const uint8_t *e = tiff + at; // tag, type, count, value
        if (number(e, 2, big) != TagOrientation || number(e + 2, 2, big) != TypeShort)
            continue;
        uint32_t v = number(e + 8, 2, big);
        return v >= Upright && v <= OrientationMost ? v : Upright;
    }
    return Upright;
}

// Row 0 and column 0 of the pixels as stored are at: 1 top left, 2 top right, 3 bottom right,
// 4 bottom left, and with rows and columns exchanged 5 left top, 6 right top, 7 right bottom,
// 8 left bottom.
GanStatus image_orient(Image *m, uint32_t orientation) {
    if (orientation == Upright)
        return GAN_OK;
    bool swap = orientation >= 5, mirror_x = orientation == 2 || orientation == 3,
         mirror_y = orientation == 3 || orientation == 4;
    if (swap) // of the source's axes
        mirror_x = orientation >= 7, mirror_y = orientation == 6 || orientation == 7;
    Image out = {0};
    TRY(image_new(swap ? m->h : m->w, swap ? m->w : m->h, m->channels, m->bits, &out));
    size_t pixel = (size_t)m->channels * (m->bits / 8);
    const uint8_t *from = m->pixels;
    uint8_t *to = out.pixels;
    for (uint32_t y = 0; y < out.h; y++)
        for (uint32_t x = 0; x < out.w; x++, to += pixel) {
            uint32_t u = swap ? y : x, v = swap ? x : y;
            u = mirror_x ? m->w - 1 - u : u;
            v = mirror_y ? m->h - 1 - v : v;
            memcpy(to, from + ((size_t)v * m->w + u) * pixel, pixel);
        }
    image_release(m);
    *m = out;
    return GAN_OK;
}
