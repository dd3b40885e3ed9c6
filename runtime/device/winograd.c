// winograd.c - Winograd's transforms of images and weights, and their inverses (Lavin and Gray,
// "Fast algorithms for convolutional neural networks", 2016).
//
// Along one axis, with the matrices below, y = AT (G w * BT x): `taps` weights and `points` pixels
// give `made` outputs with `points` products. In two dimensions the matrices act on both axes, and
// the products of all tiles at one point are one matrix product over channels. The transposes of
// the same matrices compute the gradients: of the image B ((A y) * (G w)), of the weights
// GT ((BT x) * (A y)).
//
// Points (all with infinity): 1/2, -1/2, 3/2, -3/2 and 0, 3/4, -3/4, 3/2, -3/2, which keep the
// error at half of what 0, 1, -1, 2, -2 do. Root mean square against f64, 256 channels: F42 8e-7,
// F43 1.4e-6, the direct sum 2e-7 to 3e-7, F22 and F23 4e-7.
//
// This file is compiled for several levels of instructions (WINO_LEVEL); the loops over channels
// are left to the compiler's vectoriser. Results do not depend on the number of threads.
#include "winograd.h"

#include <string.h>

#ifndef WINO_LEVEL
#define WINO_LEVEL wino_run_v1
#endif

// --- the matrices --------------------------------------------------------------------------------

typedef float Matrix[WINO_POINTS][WINO_POINTS];

static const Matrix F22_BT = {{1, 1, 0}, {-1, 1, 0}, {-1, 0, 1}};
static const Matrix F22_AT = {{1, 1, 0}, {1, -1, 1}};
static const Matrix F22_G = {{0.5f, 0.5f}, {-0.5f, 0.5f}, {0, 1}};

static const Matrix F42_BT = {{-9.0f / 8, -9.0f / 4, 0.5f, 1, 0},
                              {9.0f / 8, -9.0f / 4, -0.5f, 1, 0},
                              {-3.0f / 8, -0.25f, 1.5f, 1, 0},
                              {3.0f / 8, -0.25f, -1.5f, 1, 0},
                              {9.0f / 16, 0, -2.5f, 0, 1}};
static const Matrix F42_AT = {{1, 1, 1, 1, 0},
                              {0.5f, -0.5f, 1.5f, -1.5f, 0},
                              {0.25f, 0.25f, 2.25f, 2.25f, 0},
                              {0.125f, -0.125f, 3.375f, -3.375f, 1}};
static const Matrix F42_G = {
    {-0.5f, -0.25f}, {0.5f, -0.25f}, {1.0f / 6, 0.25f}, {-1.0f / 6, 0.25f}, {0, 1}};

static const Matrix F23_BT = {{-1, 0, 1, 0}, {0, 1, 1, 0}, {0, -1, 1, 0}, {0, -1, 0, 1}};
static const Matrix F23_AT = {{1, 1, 1, 0}, {0, 1, -1, 1}};
static const Matrix F23_G = {{-1, 0, 0}, {0.5f, 0.5f, 0.5f}, {0.5f, -0.5f, 0.5f}, {0, 0, 1}};

static const Matrix F32_AT = {{1, 1, 1, 0}, {0, 1, -1, 0}, {0, 1, 1, 1}};
static const Matrix F32_G = {{-1, 0}, {0.5f, 0.5f}, {0.5f, -0.5f}, {0, 1}};
#define F32_BT F23_BT // the same points

static const Matrix F43_BT = {
    {81.0f / 64, 0, -45.0f / 16, 0, 1, 0},    {0, -27.0f / 16, -9.0f / 4, 0.75f, 1, 0},
    {0, 27.0f / 16, -9.0f / 4, -0.75f, 1, 0}, {0, -27.0f / 32, -9.0f / 16, 1.5f, 1, 0},
    {0, 27.0f / 32, -9.0f / 16, -1.5f, 1, 0}, {0, 81.0f / 64, 0, -45.0f / 16, 0, 1}};
static const Matrix F43_AT = {{1, 1, 1, 1, 1, 0},
                              {0, 0.75f, -0.75f, 1.5f, -1.5f, 0},
                              {0, 9.0f / 16, 9.0f / 16, 9.0f / 4, 9.0f / 4, 0},
                              {0, 27.0f / 64, -27.0f / 64, 27.0f / 8, -27.0f / 8, 1}};
static const Matrix F43_G = {{64.0f / 81, 0, 0},
                             {-128.0f / 243, -32.0f / 81, -8.0f / 27},
                             {-128.0f / 243, 32.0f / 81, -8.0f / 27},
                             {32.0f / 243, 16.0f / 81, 8.0f / 27},
                             {32.0f / 243, -16.0f / 81, 8.0f / 27},
                             {0, 0, 1}};

// Applies a matrix to `columns` lines of n numbers, `from` apart: gives `rows` lines, `to` apart.
typedef void Lines(const float *restrict in, int64_t from, float *restrict out, int64_t to,
                   int64_t n);

// Rows are written out because the compiler unrolls only the innermost loop before it vectorises.
#define ROW(i, rows, columns, entry, m)                                                            \
    if ((i) < (rows)) {                                                                            \
        float sum = 0;                                                                             \
        for (int j = 0; j < (columns); j++)                                                        \
            if (entry(m, i, j) != 0)                                                               \
                sum += entry(m, i, j) * in[j * from + c];                                          \
        out[(i)*to + c] = sum;                                                                     \
    }
#define LINES(name, rows, columns, entry, m)                                                       \
    static void name(const float *restrict in, int64_t from, float *restrict out, int64_t to,      \
                     int64_t n) {                                                                  \
        _Pragma("omp simd") for (int64_t c = 0; c < n; c++) {                                      \
            ROW(0, rows, columns, entry, m)                                                        \
            ROW(1, rows, columns, entry, m)                                                        \
            ROW(2, rows, columns, entry, m)                                                        \
            ROW(3, rows, columns, entry, m)                                                        \
            ROW(4, rows, columns, entry, m)                                                        \
            ROW(5, rows, columns, entry, m)                                                        \
        }                                                                                          \
    }
#define PLAIN(m, i, j) (m)[i][j]
#define TURNED(m, i, j) (m)[j][i]
#define FORM(f, made, taps, points, error)                                                         \
    LINES(f##_x_in, points, points, PLAIN, f##_BT)                                                 \
    LINES(f##_x_out, points, points, TURNED, f##_BT)                                               \
    LINES(f##_y_in, points, made, TURNED, f##_AT)                                                  \
    LINES(f##_y_out, made, points, PLAIN, f##_AT)                                                  \
    LINES(f##_w_in, points, taps, PLAIN, f##_G)                                                    \
    LINES(f##_w_out, taps, points, TURNED, f##_G)
WINO_FORMS(FORM)

static const struct FormLines {
    Lines *x_in, *x_out, *y_in, *y_out, *w_in, *w_out;
} lines_of[WinoForms] = {
#define FORM_ROW(f, made, taps, points, error)                                                     \
    {f##_x_in, f##_x_out, f##_y_in, f##_y_out, f##_w_in, f##_w_out},
    WINO_FORMS(FORM_ROW)};

// --- images --------------------------------------------------------------------------------------

typedef struct Tile { // one tile's elements of one phase and chunk of channels
    int64_t pixel[WINO_AXES], step[WINO_AXES]; // its first pixel, which may be outside; the stride
    int64_t sample, channel, chunk;
} Tile;

typedef struct Spot { // among all of a round
    int64_t row, column, phase[WINO_AXES], channel;
} Spot;

typedef struct Pass { // of an image to the points of a round, or back
    const Winograd *j;
    const WinoImage *p;
    Lines *lines[WINO_AXES];
    int64_t round;
    float *points; // [points, tiles of a round, phases, channels]
    int64_t step;  // numbers from a point to the next
} Pass;

static int64_t chunk_of(const WinoImage *p) {
    return p->c % WINO_CHUNK == 0 ? WINO_CHUNK : WINO_LANES;
}

static Tile tile_at(const Pass *s, const Spot *at) {
    const Winograd *j = s->j;
    const WinoImage *p = s->p;
    int64_t row = s->round * j->rows + at->row, of[] = {row % j->tiles[0], at->column};
    Tile t = {.sample = row / j->tiles[0], .channel = at->channel, .chunk = chunk_of(p)};
    for (int i = 0; i < WINO_AXES; i++) {
        t.step[i] = p->phases[i];
        t.pixel[i] = (of[i] * j->made[i] + p->shift[i][at->phase[i]]) * p->phases[i] + at->phase[i];
    }
    return t;
}

static bool is_inside(const WinoImage *p, const Tile *t) {
    return t->pixel[0] >= 0 && t->pixel[0] + (p->tile[0] - 1) * t->step[0] < p->extent[0] &&
           t->pixel[1] >= 0 && t->pixel[1] + (p->tile[1] - 1) * t->step[1] < p->extent[1];
}

// NULL: outside.
static float *pixel_of(const WinoImage *p, const Tile *t, int64_t u, int64_t v) {
    int64_t a = t->pixel[0] + u * t->step[0], b = t->pixel[1] + v * t->step[1];
    if (a < 0 || a >= p->extent[0] || b < 0 || b >= p->extent[1])
        return NULL;
    return p->at + ((t->sample * p->extent[0] + a) * p->extent[1] + b) * p->pixel + t->channel;
}

typedef float Block[WINO_POINTS * WINO_POINTS * WINO_CHUNK];

// Zeros where the image has ended, or the samples have.
static void copy_in(const Winograd *j, const WinoImage *p, const Tile *t, float *to) {
    size_t bytes = (size_t)t->chunk * sizeof *to;
    for (int64_t u = 0; u < p->tile[0]; u++)
        for (int64_t v = 0; v < p->tile[1]; v++, to += t->chunk) {
            const float *from = t->sample < j->n ? pixel_of(p, t, u, v) : NULL;
            if (from)
                memcpy(to, from, bytes);
            else
                memset(to, 0, bytes);
        }
}

// points: where the tile's begin, and below.
static void tile_in(const Pass *s, const Tile *t, float *points) {
    const Winograd *j = s->j;
    const WinoImage *p = s->p;
    Block copy, half; // [tile, tile, chunk], [points, tile, chunk]
    int64_t n = t->chunk, line = p->tile[1] * n;
    if (t->sample < j->n && is_inside(p, t)) {
        for (int64_t v = 0; v < p->tile[1]; v++)
            s->lines[0](pixel_of(p, t, 0, v), t->step[0] * p->extent[1] * p->pixel, half + v * n,
                        line, n);
    } else {
        copy_in(j, p, t, copy);
        s->lines[0](copy, line, half, line, line);
    }
    for (int64_t i = 0; i < j->points[0]; i++)
        s->lines[1](half + i * line, n, points + i * j->points[1] * s->step, s->step, n);
}

// Elements shared with an earlier tile were written by it: they are added to.
static void tile_out(const Pass *s, const Tile *t, const bool is_first[WINO_AXES],
                     const float *points) {
    const Winograd *j = s->j;
    const WinoImage *p = s->p;
    Block half, made; // [tile, points, chunk], [tile, chunk]
    int64_t n = t->chunk, line = j->points[1] * n;
    for (int64_t i = 0; i < j->points[1]; i++)
        s->lines[0](points + i * s->step, j->points[1] * s->step, half + i * n, line, n);
    for (int64_t u = 0; u < p->tile[0]; u++) {
        s->lines[1](half + u * line, n, made, n, n);
        for (int64_t v = 0; v < p->tile[1]; v++) {
            float *to = pixel_of(p, t, u, v);
            bool fresh = (u >= p->shared[0] || is_first[0]) && (v >= p->shared[1] || is_first[1]);
            if (to && fresh)
                memcpy(to, made + v * n, (size_t)n * sizeof *to);
            else if (to)
                for (int64_t c = 0; c < n; c++)
                    to[c] += made[v * n + c];
        }
    }
}

// Where a tile's points begin.
static float *points_of(const Pass *s, const Spot *at) {
    const WinoImage *p = s->p;
    return s->points + at->channel +
           ((at->row * s->j->tiles[1] + at->column) * p->phases[0] * p->phases[1] +
            at->phase[0] * p->phases[1] + at->phase[1]) *
               p->c;
}

static Pass pass_of(const Winograd *j, const WinoImage *p, float *points, int64_t round) {
    int64_t step = j->rows * j->tiles[1] * p->phases[0] * p->phases[1] * p->c;
    return (Pass){.j = j, .p = p, .round = round, .points = points, .step = step};
}

static void image_in(const Winograd *j, const WinoImage *p, float *points, int64_t round) {
    Pass s = pass_of(j, p, points, round);
    for (int i = 0; i < WINO_AXES; i++)
        s.lines[i] = p->is_x ? lines_of[j->form[i]].x_in : lines_of[j->form[i]].y_in;
    int64_t phases = p->phases[0] * p->phases[1], chunk = chunk_of(p);
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < j->rows * j->tiles[1]; i++)
        for (int64_t f = 0; f < phases; f++)
            for (int64_t c = 0; c < p->c; c += chunk) {
                Spot at = {
                    i / j->tiles[1], i % j->tiles[1], {f / p->phases[1], f % p->phases[1]}, c};
                Tile t = tile_at(&s, &at);
                tile_in(&s, &t, points_of(&s, &at));
            }
}

// All tiles of the round's rows lo..hi-1, one phase and chunk: in order, so that a tile finds what
// it shares with earlier ones.
static void rows_out(const Pass *s, Spot at, int64_t lo, int64_t hi) {
    const Winograd *j = s->j;
    for (at.row = lo; at.row < hi; at.row++)
        for (at.column = 0; at.column < j->tiles[1]; at.column++) {
            Tile t = tile_at(s, &at);
            bool is_first[] = {(s->round * j->rows + at.row) % j->tiles[0] == 0, at.column == 0};
            if (t.sample < j->n)
                tile_out(s, &t, is_first, points_of(s, &at));
        }
}

// Rows of tiles that share pixels are one thread's.
static void image_out(const Winograd *j, const WinoImage *p, float *points, int64_t round) {
    Pass s = pass_of(j, p, points, round);
    for (int i = 0; i < WINO_AXES; i++)
        s.lines[i] = p->is_x ? lines_of[j->form[i]].x_out : lines_of[j->form[i]].y_out;
    int64_t chunk = chunk_of(p), chunks = p->c / chunk, phases = p->phases[0] * p->phases[1];
    int64_t first = round * j->rows, size = p->shared[0] ? j->tiles[0] : 1;
    int64_t groups = (first + j->rows - 1) / size - first / size + 1;
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < groups * phases * chunks; i++) {
        int64_t f = i / chunks % phases, group = first / size + i / chunks / phases;
        int64_t lo = group * size - first, hi = lo + size;
        Spot at = {0, 0, {f / p->phases[1], f % p->phases[1]}, i % chunks * chunk};
        rows_out(&s, at, lo > 0 ? lo : 0, hi < j->rows ? hi : j->rows);
    }
}

static void x_in(void *job, void *const staging[DNN_STAGING], int64_t round) {
    const Winograd *j = job;
    image_in(j, &j->x, staging[0], round);
}

static void x_out(void *job, void *const staging[DNN_STAGING], int64_t round) {
    const Winograd *j = job;
    image_out(j, &j->x, staging[0], round);
}

static void y_in(void *job, void *const staging[DNN_STAGING], int64_t round) {
    const Winograd *j = job;
    image_in(j, &j->y, staging[1], round);
}

static void y_out(void *job, void *const staging[DNN_STAGING], int64_t round) {
    const Winograd *j = job;
    image_out(j, &j->y, staging[1], round);
}

// --- weights -------------------------------------------------------------------------------------

typedef struct Taps { // one phase's kernel elements of a chunk of channels
    int64_t o, c, phase[WINO_AXES], chunk;
} Taps;

static float *transformed(const Winograd *j, void *const staging[DNN_STAGING]) {
    return (float *)(void *)((char *)staging[0] + j->offset);
}

// Kernel element (a, b) of the phase at channel t->c, NULL none.
static float *tap_of(const Winograd *j, const Taps *t, int64_t a, int64_t b) {
    int64_t u = j->first[0][t->phase[0]] + j->x.phases[0] * a;
    int64_t v = j->first[1][t->phase[1]] + j->x.phases[1] * b;
    if (u >= j->k[0] || v >= j->k[1])
        return NULL;
    return j->weights + ((t->o * j->k[0] + u) * j->k[1] + v) * j->x.c + t->c;
}

static int64_t kernels_of(const Winograd *j) {
    return j->x.phases[0] * j->x.phases[1] * j->x.c;
}

static void taps_in(const Winograd *j, const Taps *t, float *to) {
    Block w, half; // [taps, taps, chunk], [points, taps, chunk]
    const struct FormLines *f[] = {&lines_of[j->form[0]], &lines_of[j->form[1]]};
    int64_t step = j->y.c * kernels_of(j), n = t->chunk, line = j->taps[1] * n;
    float *at = w;
    for (int64_t a = 0; a < j->taps[0]; a++)
        for (int64_t b = 0; b < j->taps[1]; b++, at += n) {
            const float *from = tap_of(j, t, a, b);
            for (int64_t c = 0; c < n; c++)
                at[c] = from ? from[c] : 0;
        }
    f[0]->w_in(w, line, half, line, line);
    for (int64_t i = 0; i < j->points[0]; i++)
        f[1]->w_in(half + i * line, n, to + i * j->points[1] * step, step, n);
}

static void taps_out(const Winograd *j, const Taps *t, float *from) {
    Block half, w; // [taps, points, chunk], [taps, chunk]
    const struct FormLines *f[] = {&lines_of[j->form[0]], &lines_of[j->form[1]]};
    int64_t step = j->y.c * kernels_of(j), n = t->chunk, line = j->points[1] * n;
    for (int64_t i = 0; i < j->points[1]; i++)
        f[0]->w_out(from + i * step, j->points[1] * step, half + i * n, line, n);
    for (int64_t a = 0; a < j->taps[0]; a++) {
        f[1]->w_out(half + a * line, n, w, n, n);
        for (int64_t b = 0; b < j->taps[1]; b++) {
            float *to = tap_of(j, t, a, b);
            for (int64_t c = 0; to && c < n; c++)
                to[c] = w[b * n + c];
        }
    }
}

// Reads output channel `o` from end to end: pieces of a chunk out of every row are too short for
// the processor to fetch ahead. With it the weights' part is 0.7 of what it is in dcgan.
static void bring_near(const Winograd *j, int64_t o) {
    int64_t n = j->k[0] * j->k[1] * j->x.c;
    const volatile float *w = j->weights + o * n;
    for (int64_t i = 0; i < n; i += WINO_LANES)
        (void)w[i];
}

// Every phase and chunk of output channel `o`; a phase's channels one after another, so that few
// lines are written or read at a time.
typedef void EachTaps(const Winograd *j, const Taps *t, float *points);

static void each_taps(const Winograd *j, float *points, EachTaps *each) {
    int64_t phases = j->x.phases[0] * j->x.phases[1], chunk = chunk_of(&j->x);
#pragma omp parallel for schedule(static)
    for (int64_t o = 0; o < j->y.c; o++) {
        bring_near(j, o);
        for (int64_t f = 0; f < phases; f++)
            for (int64_t c = 0; c < j->x.c; c += chunk) {
                Taps t = {o, c, {f / j->x.phases[1], f % j->x.phases[1]}, chunk};
                each(j, &t, points + o * kernels_of(j) + f * j->x.c + c);
            }
    }
}

static void weights_in(void *job, void *const staging[DNN_STAGING], int64_t round) {
    (void)round;
    each_taps(job, transformed(job, staging), taps_in);
}

static void weights_out(void *job, void *const staging[DNN_STAGING], int64_t round) {
    (void)round;
    each_taps(job, transformed(job, staging), taps_out);
}

static void weights_zero(void *job, void *const staging[DNN_STAGING], int64_t round) {
    (void)round;
    const Winograd *j = job;
    float *to = transformed(j, staging);
    int64_t points = j->points[0] * j->points[1], size = j->y.c * kernels_of(j);
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < points; i++)
        memset(to + i * size, 0, (size_t)size * sizeof *to);
}

const WinoRun WINO_LEVEL = {x_in, y_in, x_out, y_out, weights_in, weights_out, weights_zero};
