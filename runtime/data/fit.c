// fit.c - any image to W x H x C, and the resampling that it uses.
//
// In: an Image of any size, 1 to 4 channels, 8 or 16 bits. Out: planar [channels, h, w] of 8 or 16
// bits. All arithmetic is float in a fixed order, so the same image gives the same bytes on every
// machine and thread.
#include "data.h"

#include <math.h>
#include <string.h>

static const struct {
    const char *text;
    FitMode mode;
} modes[] = {
#define X(name, text) {text, name},
    FIT_MODES(X)
#undef X
};

const char *fit_name(FitMode mode) {
    return modes[mode].text;
}

bool fit_find(Str name, FitMode *out) {
    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++) {
        if (!str_eq(name, str_c(modes[i].text)))
            continue;
        *out = modes[i].mode;
        return true;
    }
    return false;
}

// --- the triangle filter -------------------------------------------------------------------------

typedef struct Taps {
    uint32_t n, most; // results; weights kept for each
    uint32_t *first;  // [n] first source sample of a result
    uint32_t *count;  // [n] how many
    float *weight;    // [n, most]; the sum of a result's weights is 1
} Taps;

static void taps_release(Taps *t) {
    mem_free(t->first);
    mem_free(t->weight);
}

static double triangle(int64_t k, double centre, double reach) {
    return fmax(0, 1 - fabs((double)k + 0.5 - centre) / reach);
}

// A triangle of half width max(1, shrinking) around each result's centre: linear interpolation when
// enlarging, an average without aliasing when shrinking.
static bool taps_make(uint32_t from, uint32_t to, Taps *t) {
    double scale = (double)from / to, reach = scale > 1 ? scale : 1;
    *t = (Taps){.n = to, .most = (uint32_t)(2 * reach) + 3};
    t->first = mem_alloc((size_t)to * 2 * sizeof *t->first);
    t->weight = mem_alloc((size_t)to * t->most * sizeof *t->weight);
    if (!t->first || !t->weight)
        return false;
    t->count = t->first + to;
    for (uint32_t i = 0; i < to; i++) {
        double centre = (i + 0.5) * scale, sum = 0;
        int64_t lo = (int64_t)floor(centre - reach), hi = (int64_t)ceil(centre + reach);
        if (lo < 0)
            lo = 0;
        if (hi > from)
            hi = from;
        for (int64_t k = lo; k < hi; k++)
            sum += triangle(k, centre, reach);
        for (int64_t k = lo; k < hi; k++) {
            t->weight[(size_t)i * t->most + (size_t)(k - lo)] =
                (float)(triangle(k, centre, reach) / sum);
        }
        t->first[i] = (uint32_t)lo;
        t->count[i] = (uint32_t)(hi - lo);
    }
    return true;
}

// Pixels are processed as 1 number (grey) or as Lanes numbers (RGB and padding), a vector register.
enum { Lanes = 4 };

// One row: interleaved in [taps' source, c] to planar out [c, t->n].
static void resize_row(const Taps *t, uint32_t c, const float *in, float *out) {
    for (uint32_t i = 0; i < t->n; i++) {
        const float *w = t->weight + (size_t)i * t->most, *p = in + (size_t)t->first[i] * c;
        uint32_t count = t->count[i];
        if (c == Lanes) {
            float sum[Lanes] = {0};
            for (uint32_t k = 0; k < count; k++, p += Lanes)
                for (uint32_t l = 0; l < Lanes; l++)
                    sum[l] += w[k] * p[l];
            for (uint32_t l = 0; l < Lanes; l++)
                out[l * t->n + i] = sum[l];
        } else {
            float sum = 0;
            for (uint32_t k = 0; k < count; k++)
                sum += w[k] * p[k];
            out[i] = sum;
        }
    }
}

static void add_scaled(float *sum, const float *row, size_t n, float w) {
    for (size_t i = 0; i < n; i++)
        sum[i] += w * row[i];
}

GanStatus plane_resize(const float *in, uint32_t h, uint32_t w, float *out, uint32_t oh,
                       uint32_t ow) {
    Taps tx = {0}, ty = {0};
    float *narrow = mem_alloc((size_t)h * ow * sizeof *narrow);
    bool ok = narrow && taps_make(w, ow, &tx) && taps_make(h, oh, &ty);
    for (uint32_t y = 0; ok && y < h; y++)
        resize_row(&tx, 1, in + (size_t)y * w, narrow + (size_t)y * ow);
    if (ok)
        memset(out, 0, (size_t)oh * ow * sizeof *out);
    for (uint32_t y = 0; ok && y < oh; y++) {
        const float *from = narrow + (size_t)ty.first[y] * ow,
                    *w_y = ty.weight + (size_t)y * ty.most;
        for (uint32_t k = 0; k < ty.count[y]; k++)
            add_scaled(out + (size_t)y * ow, from + (size_t)k * ow, ow, w_y[k]);
    }
    taps_release(&tx);
    taps_release(&ty);
    mem_free(narrow);
    return ok ? GAN_OK : fail(GAN_ERR_MEMORY, "no memory to resize %ux%u to %ux%u", w, h, ow, oh);
}

// --- images --------------------------------------------------------------------------------------

typedef struct Box {
    uint32_t x, y, w, h;
} Box;
typedef struct Place {
    Box from, to;
} Place; // which part of the image goes where

static uint32_t scaled(uint32_t side, uint32_t num, uint32_t den) {
    uint64_t v = ((uint64_t)side * num + den / 2) / den;
    return v ? (uint32_t)v : 1;
}

static Place place_image(const Image *m, const FitRule *r) {
    Place p = {{0, 0, m->w, m->h}, {0, 0, r->w, r->h}};
    FitMode mode = r->mode;
    if (mode == FitAuto)
        mode = m->channels % 2 == 0 ? FitContain : FitCover;
    bool wider = (uint64_t)m->w * r->h > (uint64_t)m->h * r->w; // than the target
    if (mode == FitCover && wider)
        p.from.w = scaled(r->w, m->h, r->h);
    if (mode == FitCover && !wider)
        p.from.h = scaled(r->h, m->w, r->w);
    if (mode == FitContain && wider)
        p.to.h = scaled(m->h, r->w, m->w);
    if (mode == FitContain && !wider)
        p.to.w = scaled(m->w, r->h, m->h);
    p.from.x = (m->w - p.from.w) / 2;
    p.from.y = (m->h - p.from.h) / 2;
    p.to.x = (r->w - p.to.w) / 2;
    p.to.y = (r->h - p.to.h) / 2;
    return p;
}

static float luma(const float rgb[3]) {
    return 0.299f * rgb[0] + 0.587f * rgb[1] + 0.114f * rgb[2];
}

// Background colour in the image's own units, for `c` working channels.
static void background_of(const FitRule *r, uint32_t c, float unit, float out[Lanes]) {
    for (uint32_t k = 0; k < Lanes; k++)
        out[k] = k < 3 ? r->background[k] * unit : 0;
    if (c == 1)
        out[0] = luma(out);
}

// `n` pixels of either depth, as floats in place: out [n, channels].
static void widen(const Image *m, size_t at, size_t n, float *out) {
    size_t count = n * m->channels, first = at * m->channels;
    const uint8_t *p8 = (const uint8_t *)m->pixels + first;
    const uint16_t *p16 = (const uint16_t *)m->pixels + first;
    if (m->bits == 8)
        for (size_t i = 0; i < count; i++)
            out[i] = p8[i];
    else
        for (size_t i = 0; i < count; i++)
            out[i] = p16[i];
}

// Puts alpha over the background and brings [n, from] to grey [n].
static void flatten_grey(const float *row, size_t n, uint32_t from, float *out, float background,
                         float most) {
    float unit = 1 / most;
    for (size_t i = 0; i < n; i++, row += from) {
        float v = from >= 3 ? luma(row) : row[0], a = from % 2 == 0 ? row[from - 1] * unit : 1;
        out[i] = v * a + background * (1 - a);
    }
}

// The same to colour [n, Lanes], a loop for each way there.
static void flatten_colour(const float *row, size_t n, uint32_t from, float *out,
                           const float background[Lanes], float most) {
    float unit = 1 / most;
    for (size_t i = 0; from == 4 && i < n; i++, row += 4, out += Lanes) {
        float a = row[3] * unit, b = 1 - a;
        for (uint32_t l = 0; l < Lanes; l++)
            out[l] = row[l] * a + background[l] * b;
    }
    for (size_t i = 0; from == 3 && i < n; i++, row += 3, out += Lanes)
        out[0] = row[0], out[1] = row[1], out[2] = row[2], out[3] = 0;
    for (size_t i = 0; from == 2 && i < n; i++, row += 2, out += Lanes) {
        float a = row[1] * unit, b = 1 - a;
        for (uint32_t l = 0; l < Lanes; l++)
            out[l] = row[0] * a + background[l] * b;
    }
}

typedef struct FitWork {
    Taps tx, ty;
    float *row;  // [from.w, channels of the image] one source row
    float *flat; // [from.w, c] the same without alpha
    float *tall; // [to.h, from.w, c] sums of rows: the final height at the old width
    float *line; // [c, to.w] one result row
} FitWork;

static float clamp(float v, float most) {
    v = v > 0 ? v : 0;
    return v < most ? v : most;
}

// Numbers times scale, rounded to nearest within the range, to places at.. of out.
static void store(const float *from, size_t n, float scale, uint32_t bits, void *out, size_t at) {
    if (bits == 8) {
        uint8_t *to = (uint8_t *)out + at;
        for (size_t i = 0; i < n; i++)
            to[i] = (uint8_t)(int)(clamp(from[i] * scale, 255) + 0.5f);
    } else {
        uint16_t *to = (uint16_t *)out + at;
        for (size_t i = 0; i < n; i++)
            to[i] = (uint16_t)(int)(clamp(from[i] * scale, 65535) + 0.5f);
    }
}

static void fill_background(const FitRule *r, void *out) {
    float background[Lanes];
    background_of(r, r->channels == 1 ? 1 : Lanes, r->bits == 8 ? 1 : 257, background);
    size_t plane = (size_t)r->w * r->h;
    for (uint32_t k = 0; k < r->channels; k++) {
        uint16_t v = (uint16_t)(background[k] + 0.5f), *to = (uint16_t *)out + k * plane;
        if (r->bits == 8)
            memset((uint8_t *)out + k * plane, v, plane);
        else
            for (size_t i = 0; i < plane; i++)
                to[i] = v;
    }
}

// Adds each source row to the result rows that it contributes to: a large image is never converted
// to floats as a whole.
static void sum_rows(const Image *m, const FitRule *r, const Box *from, uint32_t c, FitWork *t) {
    float most = m->bits == 8 ? 255 : 65535, background[Lanes];
    size_t width = (size_t)from->w * c;
    uint32_t oldest = 0; // first result row not yet complete
    background_of(r, c, most / 255, background);
    for (uint32_t y = 0; y < from->h; y++) {
        widen(m, (size_t)(from->y + y) * m->w + from->x, from->w, t->row);
        if (c == 1)
            flatten_grey(t->row, from->w, m->channels, t->flat, background[0], most);
        else
            flatten_colour(t->row, from->w, m->channels, t->flat, background, most);
        while (oldest < t->ty.n && t->ty.first[oldest] + t->ty.count[oldest] <= y)
            oldest++;
        for (uint32_t i = oldest; i < t->ty.n && t->ty.first[i] <= y; i++) {
            add_scaled(t->tall + i * width, t->flat, width,
                       t->ty.weight[(size_t)i * t->ty.most + y - t->ty.first[i]]);
        }
    }
}

static void fit_rows(const Image *m, const FitRule *r, const Place *p, uint32_t c, FitWork *t,
                     void *out) {
    float scale = (r->bits == 8 ? 255.0f : 65535.0f) / (m->bits == 8 ? 255.0f : 65535.0f);
    size_t plane = (size_t)r->w * r->h;
    sum_rows(m, r, &p->from, c, t);
    for (uint32_t y = 0; y < p->to.h; y++) {
        resize_row(&t->tx, c, t->tall + (size_t)y * p->from.w * c, t->line);
        size_t at = (size_t)(p->to.y + y) * r->w + p->to.x;
        for (uint32_t k = 0; k < r->channels; k++) {
            store(t->line + (c == 1 ? 0 : (size_t)k * p->to.w), p->to.w, scale, r->bits, out,
                  k * plane + at);
        }
    }
}

const char *const image_loss_words[ImageLosses] = {
#define X(name, words) words,
    IMAGE_LOSSES(X)
#undef X
};

// In some pixel two channels differ by so much.
static bool is_coloured(const Image *m, uint32_t least) {
    const uint8_t *p8 = m->pixels;
    const uint16_t *p16 = m->pixels;
    size_t c = m->channels, n = (size_t)m->w * m->h * c;
    for (size_t i = 0; c >= 3 && i < n; i += c) {
        uint32_t v[3];
        for (size_t k = 0; k < 3; k++)
            v[k] = m->bits == 8 ? p8[i + k] : p16[i + k];
        uint32_t lo = v[0] < v[1] ? v[0] : v[1], hi = v[0] < v[1] ? v[1] : v[0];
        lo = v[2] < lo ? v[2] : lo;
        hi = v[2] > hi ? v[2] : hi;
        if (hi - lo >= least)
            return true;
    }
    return false;
}

static bool is_transparent(const Image *m, uint32_t opaque) {
    const uint8_t *p8 = m->pixels;
    const uint16_t *p16 = m->pixels;
    size_t c = m->channels, n = (size_t)m->w * m->h * c;
    for (size_t i = c - 1; c % 2 == 0 && i < n; i += c)
        if ((m->bits == 8 ? p8[i] : p16[i]) < opaque)
            return true;
    return false;
}

uint32_t image_losses(const Image *m, const FitRule *r) {
    uint32_t most = m->bits == 8 ? 255 : 65535, visible = most / 16 + 1, lost = 0;
    if (r->channels == 1 && is_coloured(m, visible))
        lost |= 1u << LossColour;
    if (is_transparent(m, most - most / 16))
        lost |= 1u << LossAlpha;
    if (r->bits < m->bits)
        lost |= 1u << LossBits;
    return lost;
}

GanStatus image_fit(const Image *m, const FitRule *r, void *out) {
    assert((r->channels == 1 || r->channels == 3) && (r->bits == 8 || r->bits == 16));
    Place p = place_image(m, r);
    bool grey_background =
        r->background[0] == r->background[1] && r->background[1] == r->background[2];
    bool grey = m->channels == 1 || (m->channels == 2 && grey_background);
    // Grey images are processed as grey and copied at the end.
    uint32_t c = r->channels == 1 || grey ? 1 : Lanes;
    if (p.to.w != r->w || p.to.h != r->h)
        fill_background(r, out);
    FitWork t = {0};
    t.row = mem_alloc((size_t)p.from.w * m->channels * sizeof *t.row);
    t.flat = mem_alloc((size_t)p.from.w * c * sizeof *t.flat);
    t.tall = mem_alloc((size_t)p.to.h * p.from.w * c * sizeof *t.tall);
    t.line = mem_alloc((size_t)p.to.w * c * sizeof *t.line);
    bool ok = t.row && t.flat && t.tall && t.line && taps_make(p.from.w, p.to.w, &t.tx) &&
              taps_make(p.from.h, p.to.h, &t.ty);
    if (ok)
        fit_rows(m, r, &p, c, &t, out);
    taps_release(&t.tx);
    taps_release(&t.ty);
    mem_free(t.row);
    mem_free(t.flat);
    mem_free(t.tall);
    mem_free(t.line);
    return ok ? GAN_OK : fail(GAN_ERR_MEMORY, "no memory to resize an image of %ux%u", m->w, m->h);
}
