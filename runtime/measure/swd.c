// swd.c - sliced Wasserstein distance of two sets of images, which needs no trained network.
//
// In: two sets of f32 images. Out: the mean over random directions of the distance between the
// sorted projections (Rabin et al. 2011), of whole images and of 7x7 patches at each level of a
// Laplacian pyramid (Karras et al. 2018, section 5: 5-tap binomial filter, coarsest level of 16
// pixels, patches normalised per channel, results times 1000). Directions and patch positions
// follow from the seed, so equal sets give exactly 0 and equal calls equal numbers.
#include "measure.h"

#include <math.h>
#include <string.h>

enum { Patch = 7, Group = 16, CoarsestSide = 16 };

typedef struct Points { // one set as rows of numbers
    float *x;           // owned, [n, d]
    size_t n, d;
} Points;

// --- distance in one dimension -------------------------------------------------------------------

static uint32_t sortable(float f) {
    uint32_t u;
    memcpy(&u, &f, sizeof u);
    return u >> 31 ? ~u : u | 0x80000000u;
}

static float unsortable(uint32_t u) {
    float f;
    u = u >> 31 ? u & 0x7fffffffu : ~u;
    memcpy(&f, &u, sizeof f);
    return f;
}

// Ascending: a radix sort, whose digits are all counted in one pass. `key` and `spare` have room
// for n.
static void sort_floats(float *x, size_t n, uint32_t *key, uint32_t *spare) {
    enum { Digits = 3, Bits = 11, Values = 1 << Bits };
    uint32_t start[Digits][Values] = {0};
    assert(n <= UINT32_MAX);
    for (size_t i = 0; i < n; i++) {
        key[i] = sortable(x[i]);
        for (uint32_t digit = 0; digit < Digits; digit++)
            start[digit][key[i] >> digit * Bits & (Values - 1)]++;
    }
    for (uint32_t digit = 0; digit < Digits; digit++) {
        uint32_t *at = start[digit], sum = 0;
        for (uint32_t v = 0; v < Values; v++) {
            uint32_t count = at[v];
            at[v] = sum;
            sum += count;
        }
        for (size_t i = 0; i < n; i++)
            spare[at[key[i] >> digit * Bits & (Values - 1)]++] = key[i];
        uint32_t *t = key;
        key = spare;
        spare = t;
    }
    for (size_t i = 0; i < n; i++)
        x[i] = unsortable(key[i]);
}

// Area between the two quantile functions of sorted a [n] and b [m].
static double distance_1d(const float *a, size_t n, const float *b, size_t m) {
    double sum = 0;
    for (size_t i = 0, j = 0, at = 0; i < n && j < m;) { // places in units of 1 / (n m)
        size_t end_a = (i + 1) * m, end_b = (j + 1) * n, end = end_a < end_b ? end_a : end_b;
        sum += (double)(end - at) * fabs((double)a[i] - b[j]);
        at = end;
        i += end == end_a;
        j += end == end_b;
    }
    return sum / ((double)n * (double)m);
}

// --- directions ----------------------------------------------------------------------------------

// Unit vectors: dir [Group, d].
static void make_directions(const Order *o, uint64_t group, size_t d, float *dir) {
    for (uint32_t l = 0; l < Group; l += 2, dir += 2 * d) {
        double norm[2] = {0};
        for (size_t k = 0; k < d; k++) { // Box and Muller: two normal numbers from two uniform ones
            uint64_t bits = order_draw(o, group, k, l);
            double u = ((double)(bits >> 32) + 1) / 4294967296.0,
                   angle = (double)(bits & 0xffffffffu) * (6.283185307179586 / 4294967296.0);
            double r = sqrt(-2 * log(u)), v[2] = {r * cos(angle), r * sin(angle)};
            for (uint32_t i = 0; i < 2; i++) {
                dir[i * d + k] = (float)v[i];
                norm[i] += v[i] * v[i];
            }
        }
        for (uint32_t i = 0; i < 2; i++)
            for (size_t k = 0; k < d; k++)
                dir[i * d + k] = (float)(dir[i * d + k] / sqrt(norm[i]));
    }
}

typedef struct Slices { // of two sets along `lanes` directions
    float *dir;         // owned; [lanes, d]
    float *on[2];       // owned; [lanes, n]
    double *apart;      // owned; [lanes] distances
    size_t most;        // points of the larger set
    uint32_t lanes;
} Slices;

// A product reads all points in every call: as many directions at once as fit a small buffer.
static bool slices_init(Slices *s, const Points p[2], const SwdOptions *o) {
    enum { Room = 1 << 24 }; // numbers
    s->most = p[0].n > p[1].n ? p[0].n : p[1].n;
    size_t fit = Room / s->most / Group;
    uint32_t groups = (o->projections + Group - 1) / Group;
    s->lanes = Group * (fit < 1 ? 1 : fit < groups ? (uint32_t)fit : groups);
    s->dir = mem_alloc(p[0].d * s->lanes * sizeof *s->dir);
    for (uint32_t i = 0; i < 2; i++)
        s->on[i] = mem_alloc(p[i].n * s->lanes * sizeof *s->on[i]);
    s->apart = mem_alloc(s->lanes * sizeof *s->apart);
    return s->dir && s->on[0] && s->on[1] && s->apart;
}

static void slices_release(Slices *s) {
    mem_free(s->dir);
    mem_free(s->on[0]);
    mem_free(s->on[1]);
    mem_free(s->apart);
}

// Directions from group `first` on.
static GanStatus slice(Slices *s, const Points p[2], const Order *order, uint64_t first,
                       SwdProduct *product) {
    size_t d = p[0].d;
#pragma omp parallel for schedule(static)
    for (uint32_t g = 0; g < s->lanes / Group; g++)
        make_directions(order, first + g, d, s->dir + g * Group * d);
    for (uint32_t i = 0; i < 2; i++)
        TRY(product(s->dir, p[i].x, s->lanes, p[i].n, d, s->on[i]));
    return GAN_OK;
}

// Each direction's by itself, so that their sum does not depend on the number of threads. False:
// there is no memory.
static bool distances(Slices *s, const Points p[2]) {
    bool room = true;
#pragma omp parallel reduction(&& : room)
    {
        uint32_t *keys = mem_alloc(2 * s->most * sizeof *keys);
        room = keys != NULL;
#pragma omp for schedule(static)
        for (uint32_t l = 0; l < s->lanes; l++) {
            float *x = s->on[0] + l * p[0].n, *y = s->on[1] + l * p[1].n;
            if (!keys)
                continue;
            sort_floats(x, p[0].n, keys, keys + s->most);
            sort_floats(y, p[1].n, keys, keys + s->most);
            s->apart[l] = distance_1d(x, p[0].n, y, p[1].n);
        }
        mem_free(keys);
    }
    return room;
}

static GanStatus distance(const Points *a, const Points *b, const SwdOptions *o, uint64_t seed,
                          double *out) {
    const Points p[2] = {*a, *b};
    Order order = {.n = 1, .seed = seed};
    Slices s = {0};
    GanStatus st = GAN_OK;
    double sum = 0;
    uint32_t lanes = 0;
    bool room = slices_init(&s, p, o);
    for (; st == GAN_OK && room && lanes < o->projections; lanes += s.lanes) {
        st = slice(&s, p, &order, lanes / Group, o->product);
        room = st != GAN_OK || distances(&s, p);
        for (uint32_t l = 0; st == GAN_OK && room && l < s.lanes; l++)
            sum += s.apart[l];
    }
    slices_release(&s);
    *out = sum / lanes;
    return room ? st
                : fail(GAN_ERR_MEMORY, "no memory to compare %zu with %zu points of %zu numbers",
                       a->n, b->n, a->d);
}

// --- pyramid -------------------------------------------------------------------------------------

static const float taps[5] = {0.0625f, 0.25f, 0.375f, 0.25f, 0.0625f};

static uint32_t reflect(int64_t i, uint32_t n) {
    if (i < 0)
        i = -i;
    if (i >= n)
        i = 2 * (int64_t)n - 2 - i;
    return (uint32_t)i;
}

// Blurs and keeps every second: in [h, w] to out [h/2, w/2]; line holds h/2 * w numbers.
static void shrink(const float *in, uint32_t h, uint32_t w, float *line, float *out) {
    for (uint32_t y = 0; y < h / 2; y++) {
        float *row = line + (size_t)y * w;
        memset(row, 0, w * sizeof *row);
        for (int k = -2; k <= 2; k++) {
            const float *from = in + (size_t)reflect((int64_t)2 * y + k, h) * w;
            for (uint32_t x = 0; x < w; x++)
                row[x] += taps[k + 2] * from[x];
        }
    }
    for (uint32_t y = 0; y < h / 2; y++) {
        for (uint32_t x = 0; x < w / 2; x++) {
            float sum = 0;
            for (int k = -2; k <= 2; k++)
                sum += taps[k + 2] * line[(size_t)y * w + reflect((int64_t)2 * x + k, w)];
            out[(size_t)y * (w / 2) + x] = sum;
        }
    }
}

// One number of the doubled row `in` [n/2]: zeros between, blurred, times 2.
static float doubled(const float *in, size_t stride, uint32_t n, uint32_t at) {
    float sum = 0;
    for (int k = -2; k <= 2; k++) {
        uint32_t i = reflect((int64_t)at + k, n);
        if (i % 2 == 0 && i / 2 < n / 2)
            sum += 2 * taps[k + 2] * in[i / 2 * stride];
    }
    return sum;
}

// fine [h, w] -= coarse [h/2, w/2] doubled; line holds h * w/2 numbers.
static void subtract_doubled(float *fine, uint32_t h, uint32_t w, const float *coarse,
                             float *line) {
    uint32_t half = w / 2;
    for (uint32_t y = 0; y < h; y++)
        for (uint32_t x = 0; x < half; x++)
            line[(size_t)y * half + x] = doubled(coarse + x, half, h, y);
    for (uint32_t y = 0; y < h; y++)
        for (uint32_t x = 0; x < w; x++)
            fine[(size_t)y * w + x] -= doubled(line + (size_t)y * half, 1, w, x);
}

static uint32_t level_count(uint32_t h, uint32_t w) {
    uint32_t least = h < w ? h : w, n = 1;
    if (least < Patch)
        return 0;
    while (n < SWD_MAX_LEVELS && least / 2 >= CoarsestSide && h % 2 == 0 && w % 2 == 0)
        least /= 2, h /= 2, w /= 2, n++;
    return n;
}

// --- patches -------------------------------------------------------------------------------------

// Turns each image [c, h, w] of `now` into its detail at this level and writes the next level to
// `next`.
static bool split_level(float *now, size_t planes, uint32_t h, uint32_t w, float *next) {
    float *line = mem_alloc((size_t)h * w * sizeof *line);
    for (size_t i = 0; line && i < planes; i++) {
        float *fine = now + i * h * w, *coarse = next + i * (h / 2) * (w / 2);
        shrink(fine, h, w, line, coarse);
        subtract_doubled(fine, h, w, coarse, line);
    }
    mem_free(line);
    return line != NULL;
}

// Per channel: mean 0, deviation 1 over the whole set.
static void normalise(Points *p, uint32_t c) {
    size_t each = p->d / c;
    for (uint32_t k = 0; k < c; k++) {
        double sum = 0, squares = 0, n = (double)p->n * (double)each;
        for (size_t i = 0; i < p->n; i++)
            for (size_t e = 0; e < each; e++)
                sum += p->x[i * p->d + k * each + e];
        double mean = sum / n;
        for (size_t i = 0; i < p->n; i++)
            for (size_t e = 0; e < each; e++)
                squares += pow(p->x[i * p->d + k * each + e] - mean, 2);
        double scale = squares > 0 ? 1 / sqrt(squares / n) : 0; // a flat channel carries nothing
        for (size_t i = 0; i < p->n; i++) {
            for (size_t e = 0; e < each; e++) {
                p->x[i * p->d + k * each + e] =
                    (float)((p->x[i * p->d + k * each + e] - mean) * scale);
            }
        }
    }
}

static bool cut_patches(const float *x, size_t n, const uint32_t chw[3], uint32_t patches,
                        uint64_t seed, Points *out) {
    uint32_t c = chw[0], h = chw[1], w = chw[2];
    Order order = {.n = 1, .seed = seed};
    *out = (Points){.n = n * patches, .d = (size_t)c * Patch * Patch};
    out->x = mem_alloc(out->n * out->d * sizeof *out->x);
    if (!out->x)
        return false;
    float *to = out->x;
    for (size_t i = 0; i < n; i++) {
        for (uint32_t p = 0; p < patches; p++) {
            uint32_t top = (uint32_t)(order_draw(&order, i, p, 0) % (h - Patch + 1)),
                     left = (uint32_t)(order_draw(&order, i, p, 1) % (w - Patch + 1));
            for (uint32_t k = 0; k < c; k++)
                for (uint32_t y = 0; y < Patch; y++, to += Patch)
                    memcpy(to, x + ((i * c + k) * h + top + y) * w + left, Patch * sizeof *to);
        }
    }
    normalise(out, c);
    return true;
}

typedef struct Level {
    float *now, *next;
    size_t n;
} Level; // one set's images at this size and the next

static GanStatus level_distance(Level s[2], const uint32_t chw[3], bool last, const SwdOptions *o,
                                double *out) {
    Points p[2] = {{0}};
    bool ok = true;
    for (uint32_t i = 0; ok && i < 2; i++) {
        if (!last)
            ok = split_level(s[i].now, s[i].n * chw[0], chw[1], chw[2], s[i].next);
        ok = ok && cut_patches(s[i].now, s[i].n, chw, o->patches, o->seed + chw[1], &p[i]);
    }
    GanStatus st =
        ok ? distance(&p[0], &p[1], o, o->seed + chw[1], out)
           : fail(GAN_ERR_MEMORY, "no memory for the patches of %zu images", s[0].n + s[1].n);
    mem_free(p[0].x);
    mem_free(p[1].x);
    return st;
}

static GanStatus measure_levels(Level s[2], const uint32_t chw[3], const SwdOptions *o,
                                SwdResult *out) {
    uint32_t size[3] = {chw[0], chw[1], chw[2]};
    out->levels = level_count(chw[1], chw[2]);
    for (uint32_t l = 0; l < out->levels; l++) {
        TRY(level_distance(s, size, l + 1 == out->levels, o, &out->level[l]));
        out->level[l] *= 1000;
        out->mean += out->level[l] / out->levels;
        size[1] /= 2, size[2] /= 2;
        for (uint32_t i = 0; i < 2; i++) {
            float *t = s[i].now;
            s[i].now = s[i].next;
            s[i].next = t;
        }
    }
    return GAN_OK;
}

GanStatus swd_measure(const float *a, size_t na, const float *b, size_t nb, const uint32_t chw[3],
                      const SwdOptions *asked, SwdResult *out) {
    SwdOptions o = *asked;
    if (!o.projections)
        o.projections = 128;
    if (!o.patches)
        o.patches = 64;
    size_t each = (size_t)chw[0] * chw[1] * chw[2];
    *out = (SwdResult){0};
    if (na == 0 || nb == 0 || each == 0)
        return fail(GAN_ERR_INPUT, "a distance needs two sets of images, none empty");
    Points pa = {(float *)a, na, each}, pb = {(float *)b, nb, each}; // read only
    TRY(distance(&pa, &pb, &o, o.seed, &out->pixels));
    if (!level_count(chw[1], chw[2]))
        return GAN_OK;
    const float *from[2] = {a, b};
    Level s[2] = {{.n = na}, {.n = nb}};
    bool ok = true;
    for (uint32_t i = 0; i < 2; i++) {
        s[i].now = mem_alloc(s[i].n * each * sizeof(float));
        s[i].next = mem_alloc(s[i].n * each * sizeof(float));
        ok = ok && s[i].now && s[i].next;
        if (ok)
            memcpy(s[i].now, from[i], s[i].n * each * sizeof(float));
    }
    GanStatus st = ok ? measure_levels(s, chw, &o, out)
                      : fail(GAN_ERR_MEMORY, "no memory to compare %zu with %zu images", na, nb);
    for (uint32_t i = 0; i < 2; i++) {
        mem_free(s[i].now);
        mem_free(s[i].next);
    }
    return st;
}
