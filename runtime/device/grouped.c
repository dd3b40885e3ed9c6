// grouped.c - convolutions in many narrow groups: each lane of a vector computes one channel.
//
//   made[q] = sum over (input i, kernel element t) of window_i[q*step + t] . w_it
//
// A task takes 16 channels (or, of fewer, several samples) and a tile of the image. It copies what
// the tile reads into a window of floats [inputs, d, h, w, lanes], zeros where the image ends: lane
// by lane the channel that it multiplies. So the loops know neither types nor borders, and an input
// gradient is the same loop over the elements of one residue ("phase") of the stride at a time.
// Weight gradients sum window . y over a tile in registers.
//
// This file is compiled for several levels of instructions (GROUPED_LEVEL). Each sum has one order,
// whatever the number of threads.
#include "grouped.h"

#include "half.h"

#include <string.h>
#ifdef _OPENMP
#include <omp.h>
#endif

#ifndef GROUPED_LEVEL
#define GROUPED_LEVEL grouped_run_v1
#endif

enum { LANES = GROUPED_LANES, PIXELS = 8 }; // PIXELS: made side by side

static float *own_room(const Grouped *j, void *const staging[DNN_STAGING]) {
#ifdef _OPENMP
    return (float *)staging[1] + omp_get_thread_num() * j->room;
#else
    return (float *)staging[1] + 0 * j->room;
#endif
}

// --- lanes ---------------------------------------------------------------------------------------

typedef struct Lanes { // which channels a task computes
    int64_t n;         // lanes in use; the others repeat the first
    int64_t channel[LANES], sample[LANES];
} Lanes;

static Lanes lanes_of(const Grouped *j, int64_t block, int64_t unit) {
    Lanes v = {0};
    int64_t c = j->made.c, each = j->share > 1 ? c : LANES; // lanes of a sample
    for (int64_t l = 0; l < LANES; l++) {
        int64_t channel = block * LANES + l % each, sample = unit * j->share + l / each;
        bool used = channel < c && l / each < j->share && sample < j->n;
        v.channel[l] = used ? channel : v.channel[0];
        v.sample[l] = used ? sample : v.sample[0];
        v.n += used;
    }
    return v;
}

typedef struct Spots { // where the lanes' values lie in an image, in elements
    int64_t base;      // the first lane's at pixel 0
    int32_t at[LANES]; // from there
    int used;          // lanes, as Lanes.n
    bool row;          // side by side
} Spots;

// input < 0: the channels computed, else those they read.
static Spots spots_of(const Grouped *j, const Lanes *v, int64_t input) {
    const GroupedImage *p = input < 0 ? &j->made : &j->read;
    Spots s = {.used = (int)v->n, .row = true};
    for (int l = 0; l < LANES; l++) {
        int64_t c = input < 0 ? v->channel[l] : v->channel[l] / j->made.group * p->group + input;
        int64_t at = v->sample[l] * p->pixels * p->c + c;
        s.base = l ? s.base : at;
        s.at[l] = (int32_t)(at - s.base);
        s.row = s.row && s.at[l] == l;
    }
    return s;
}

// Copies n pixels, `step` elements apart, to lanes of floats or from them.
#define EACH_LANE(n) _Pragma("omp simd") for (int l = 0; l < (n); l++)
#define LOAD(name, Number, spot, value)                                                            \
    static void name(const Number *restrict from, const int32_t *restrict spots, int64_t step,     \
                     int64_t n, float *restrict to) {                                              \
        (void)spots;                                                                               \
        for (int64_t i = 0; i < n; i++, from += step, to += LANES)                                 \
            EACH_LANE(LANES) to[l] = value(from[spot]);                                            \
    }
#define STORE(name, Number, lanes, spot, value)                                                    \
    static void name(const float *restrict from, const int32_t *restrict spots, int used,          \
                     int64_t step, int64_t n, Number *restrict to) {                               \
        (void)spots;                                                                               \
        (void)used;                                                                                \
        for (int64_t i = 0; i < n; i++, from += LANES, to += step)                                 \
            EACH_LANE(lanes) to[spot] = value(from[l]);                                            \
    }
#define AS_IT_IS(x) (x)
LOAD(load_row, float, l, AS_IT_IS)
LOAD(load_spots, float, spots[l], AS_IT_IS)
LOAD(load_row_half, uint16_t, l, gan_bf16_to_f32)
LOAD(load_spots_half, uint16_t, spots[l], gan_bf16_to_f32)
STORE(store_row, float, LANES, l, AS_IT_IS)
STORE(store_spots, float, used, spots[l], AS_IT_IS)
STORE(store_row_half, uint16_t, LANES, l, gan_f32_to_bf16)
STORE(store_spots_half, uint16_t, used, spots[l], gan_f32_to_bf16)

static void load(const GroupedImage *p, const Spots *s, int64_t at, int64_t step, int64_t n,
                 float *to) {
    at += s->base;
    if (p->type == DtF32)
        (s->row ? load_row : load_spots)((const float *)p->at + at, s->at, step, n, to);
    else
        (s->row ? load_row_half : load_spots_half)((const uint16_t *)p->at + at, s->at, step, n,
                                                   to);
}

static void store(const GroupedImage *p, const Spots *s, int64_t at, int64_t step, int64_t n,
                  const float *from) {
    bool row = s->row && s->used == LANES;
    at += s->base;
    if (p->type == DtF32)
        (row ? store_row : store_spots)(from, s->at, s->used, step, n, (float *)p->at + at);
    else
        (row ? store_row_half : store_spots_half)(from, s->at, s->used, step, n,
                                                  (uint16_t *)p->at + at);
}

// --- tiles ---------------------------------------------------------------------------------------

typedef struct Tile {
    int64_t q[DNN_AXES], n[DNN_AXES]; // first position, how many
} Tile;

static Tile tile_of(const Grouped *j, int64_t index) {
    Tile t;
    for (int i = DNN_AXES; i-- > 0;) {
        const GroupedAxis *a = &j->axis[i];
        t.q[i] = index % a->tiles * a->tile;
        t.n[i] = a->positions - t.q[i] < a->tile ? a->positions - t.q[i] : a->tile;
        index /= a->tiles;
    }
    return t;
}

static int64_t tiles_of(const Grouped *j) {
    return j->axis[0].tiles * j->axis[1].tiles * j->axis[2].tiles;
}

// One line of a window along the last axis, `at` the pixel that begins its line of the image.
static void fill_line(const Grouped *j, const Spots *s, const Tile *t, int64_t at, float *to) {
    const GroupedAxis *a = &j->axis[2];
    int64_t first = t->q[2] * a->step + a->lo;
    int64_t before = first < 0 ? -first : 0, end = a->read - first;
    end = end < 0 ? 0 : end < a->window ? end : a->window;
    before = before < end ? before : end;
    memset(to, 0, (size_t)(before * LANES) * sizeof *to);
    load(&j->read, s, (at + first + before) * j->read.c, j->read.c, end - before,
         to + before * LANES);
    memset(to + end * LANES, 0, (size_t)((a->window - end) * LANES) * sizeof *to);
}

static void fill_window(const Grouped *j, const Lanes *v, const Tile *t, float *window) {
    const GroupedAxis *a = j->axis;
    const int64_t line = a[2].window * LANES;
    for (int64_t i = 0; i < j->inputs; i++) {
        Spots s = spots_of(j, v, i);
        for (int64_t k = 0; k < a[0].window * a[1].window; k++, window += line) {
            int64_t d = t->q[0] * a[0].step + a[0].lo + k / a[1].window;
            int64_t h = t->q[1] * a[1].step + a[1].lo + k % a[1].window;
            if (d < 0 || d >= a[0].read || h < 0 || h >= a[1].read)
                memset(window, 0, (size_t)line * sizeof *window);
            else
                fill_line(j, &s, t, (d * a[1].read + h) * a[2].read, window);
        }
    }
}

// --- forward, input gradient ---------------------------------------------------------------------

typedef struct Terms { // what each pixel of a phase sums
    int64_t n;
    const int64_t *offset; // [n] of what is multiplied, from the pixel's place in the window
    const float *weights;  // [n, lanes]
    const float *zeros;    // Grouped.zeros
} Terms;

// Of `pixels` pixels, `step` floats apart in the window. The accumulators are registers once the
// loops are unrolled.
static inline void sum_terms(int pixels, const float *window, int64_t step, const Terms *terms,
                             float *to) {
    const int64_t n = terms->n, *offset = terms->offset;
    const float *w = terms->weights, *zeros = terms->zeros;
    float sum[PIXELS][LANES];
    for (int p = 0; p < pixels; p++)
        EACH_LANE(LANES) sum[p][l] = zeros[l];
    for (int64_t i = 0; i < n; i++, w += LANES) {
        const float *x = window + offset[i];
        for (int p = 0; p < pixels; p++)
            EACH_LANE(LANES) sum[p][l] += x[p * step + l] * w[l];
    }
    for (int p = 0; p < pixels; p++)
        EACH_LANE(LANES) to[p * LANES + l] = sum[p][l];
}

#define EACH_COUNT(X) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8)
#define SUM_TERMS(pixels)                                                                          \
    static void sum_terms_##pixels(const float *window, int64_t step, const Terms *terms,          \
                                   float *to) {                                                    \
        sum_terms(pixels, window, step, terms, to);                                                \
    }
EACH_COUNT(SUM_TERMS)
typedef void SumTerms(const float *window, int64_t step, const Terms *terms, float *to);
static SumTerms *const sum_terms_of[PIXELS + 1] = {
#define SUM_TERMS_ROW(pixels) [pixels] = sum_terms_##pixels,
    EACH_COUNT(SUM_TERMS_ROW)};

// Of `left`, so many that few pieces of equal size remain.
static int64_t piece_of(int64_t left) {
    int64_t pieces = (left + PIXELS - 1) / PIXELS;
    return (left + pieces - 1) / pieces;
}

// A line of n pixels, whose places in the window begin at `window`.
static void sum_line(const Grouped *j, const Terms *terms, const float *window, int64_t n,
                     float *to) {
    int64_t step = j->axis[2].step * LANES;
    for (int64_t i = 0, piece; i < n; i += piece) {
        piece = piece_of(n - i);
        sum_terms_of[piece](window + i * step, step, terms, to + i * LANES);
    }
}

typedef struct Task {
    Lanes lanes;
    Tile tile;
    const float *weights; // of its block
    const float *window;  // what the tile reads
    float *line;          // room for a line of sums
} Task;

static void convolve_phase(const Grouped *j, const Task *task, int64_t phase) {
    const GroupedAxis *a = j->axis;
    const Tile *t = &task->tile;
    const int64_t r[DNN_AXES] = {phase / a[2].phases / a[1].phases,
                                 phase / a[2].phases % a[1].phases, phase % a[2].phases};
    const int64_t first = j->first[phase];
    const Terms terms = {j->first[phase + 1] - first, j->offset + first,
                         task->weights + first * LANES, j->zeros};
    Spots s = spots_of(j, &task->lanes, -1);
    int64_t last = (a[2].made - r[2] + a[2].phases - 1) / a[2].phases - t->q[2];
    last = last < t->n[2] ? last : t->n[2];
    for (int64_t k = 0; k < t->n[0] * t->n[1]; k++) {
        int64_t q0 = k / t->n[1], q1 = k % t->n[1];
        int64_t d = (t->q[0] + q0) * a[0].phases + r[0], h = (t->q[1] + q1) * a[1].phases + r[1];
        if (d >= a[0].made || h >= a[1].made || last <= 0)
            continue;
        int64_t from = (q0 * a[0].step * a[1].window + q1 * a[1].step) * a[2].window * LANES;
        sum_line(j, &terms, task->window + from, last, task->line);
        int64_t pixel = (d * a[1].made + h) * a[2].made + t->q[2] * a[2].phases + r[2];
        store(&j->made, &s, pixel * j->made.c, a[2].phases * j->made.c, last, task->line);
    }
}

static void convolve(void *job, void *const staging[DNN_STAGING], int64_t round) {
    (void)round;
    const Grouped *j = job;
    const GroupedAxis *a = j->axis;
    int64_t tiles = tiles_of(j), phases = a[0].phases * a[1].phases * a[2].phases;
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < j->units * j->blocks * tiles; i++) {
        int64_t block = i / tiles % j->blocks;
        float *line = own_room(j, staging), *window = line + a[2].tile * LANES;
        Task task = {lanes_of(j, block, i / tiles / j->blocks), tile_of(j, i % tiles),
                     j->packed + block * j->first[phases] * LANES, window, line};
        fill_window(j, &task.lanes, &task.tile, window);
        for (int64_t phase = 0; phase < phases; phase++)
            convolve_phase(j, &task, phase);
    }
}

// --- weights -------------------------------------------------------------------------------------

// The element of the weights that computes `channel` from its input `i`, or adds to it.
static int64_t weight_at(const Grouped *j, int64_t channel, int64_t tap, int64_t i) {
    if (j->kind != DnnConvData)
        return (channel * j->taps + tap) * j->read.group + i;
    int64_t o = channel / j->made.group * j->read.group + i;
    return (o * j->taps + tap) * j->made.group + channel % j->made.group;
}

static void pack_weights(void *job, void *const staging[DNN_STAGING], int64_t round) {
    (void)round;
    (void)staging;
    const Grouped *j = job;
    int64_t terms = j->inputs * j->taps;
#pragma omp parallel for schedule(static)
    for (int64_t block = 0; block < j->blocks; block++) {
        Lanes v = lanes_of(j, block, 0);
        float *to = j->packed + block * terms * LANES;
        for (int64_t i = 0; i < terms; i++)
            for (int l = 0; l < LANES; l++, to++) {
                int64_t at = weight_at(j, v.channel[l], j->tap[i], j->input[i]);
                *to = j->weight_type == DtF32 ? ((const float *)j->weights)[at]
                                              : gan_bf16_to_f32(((const uint16_t *)j->weights)[at]);
            }
    }
}

// Adds to `taps` weights, whose windows are `apart`, their sums over a tile.
static inline void sum_tile(int taps, const Grouped *j, const Tile *t, const float *restrict window,
                            int64_t apart, const float *restrict y, float *restrict to) {
    const GroupedAxis *a = j->axis;
    const float *zeros = j->zeros;
    float sum[PIXELS][LANES];
    for (int p = 0; p < taps; p++)
        EACH_LANE(LANES) sum[p][l] = zeros[l];
    for (int64_t k = 0; k < t->n[0] * t->n[1]; k++) {
        int64_t line = k / t->n[1] * a[0].step * a[1].window + k % t->n[1] * a[1].step;
        const float *x = window + line * a[2].window * LANES;
        for (int64_t q = 0; q < t->n[2]; q++, x += a[2].step * LANES, y += LANES)
            for (int p = 0; p < taps; p++)
                EACH_LANE(LANES) sum[p][l] += x[p * apart + l] * y[l];
    }
    for (int p = 0; p < taps; p++)
        EACH_LANE(LANES) to[p * LANES + l] += sum[p][l];
}

#define SUM_TILE(taps)                                                                             \
    static void sum_tile_##taps(const Grouped *j, const Tile *t, const float *window,              \
                                int64_t apart, const float *y, float *to) {                        \
        sum_tile(taps, j, t, window, apart, y, to);                                                \
    }
EACH_COUNT(SUM_TILE)
typedef void SumTile(const Grouped *j, const Tile *t, const float *window, int64_t apart,
                     const float *y, float *to);
static SumTile *const sum_tile_of[PIXELS + 1] = {
#define SUM_TILE_ROW(taps) [taps] = sum_tile_##taps,
    EACH_COUNT(SUM_TILE_ROW)};

static void add_tile(const Grouped *j, const Tile *t, const float *window, const float *y,
                     float *to) {
    const int64_t k = j->of[2].k, apart = j->of[2].d * LANES;
    for (int64_t row = 0; row < j->inputs * j->taps; row += k)
        for (int64_t i = 0, piece; i < k; i += piece) {
            piece = piece_of(k - i);
            sum_tile_of[piece](j, t, window + j->offset[row + i], apart, y, to + (row + i) * LANES);
        }
}

static void load_y(const Grouped *j, const Lanes *v, const Tile *t, float *to) {
    const GroupedAxis *a = j->axis;
    Spots s = spots_of(j, v, -1);
    for (int64_t k = 0; k < t->n[0] * t->n[1]; k++, to += t->n[2] * LANES) {
        int64_t d = t->q[0] + k / t->n[1], h = t->q[1] + k % t->n[1];
        int64_t pixel = (d * a[1].made + h) * a[2].made + t->q[2];
        load(&j->made, &s, pixel * j->made.c, j->made.c, t->n[2], to);
    }
}

static void weights_gradient(void *job, void *const staging[DNN_STAGING], int64_t round) {
    (void)round;
    const Grouped *j = job;
    const GroupedAxis *a = j->axis;
    int64_t tiles = tiles_of(j), all = j->units * tiles, weights = j->inputs * j->taps * LANES;
#pragma omp parallel for schedule(static)
    for (int64_t task = 0; task < j->parts * j->blocks; task++) {
        int64_t part = task / j->blocks, block = task % j->blocks;
        float *y = own_room(j, staging), *to = j->packed + task * weights;
        float *window = y + a[0].tile * a[1].tile * a[2].tile * LANES;
        memset(to, 0, (size_t)weights * sizeof *to);
        for (int64_t i = all * part / j->parts; i < all * (part + 1) / j->parts; i++) {
            Lanes v = lanes_of(j, block, i / tiles);
            Tile t = tile_of(j, i % tiles);
            load_y(j, &v, &t, y);
            for (int64_t k = 0; v.n < LANES && k < t.n[0] * t.n[1] * t.n[2]; k++)
                memset(y + k * LANES + v.n, 0, (size_t)(LANES - v.n) * sizeof *y);
            fill_window(j, &v, &t, window);
            add_tile(j, &t, window, y, to);
        }
    }
}

// Sums the parts, and the samples that share a vector.
static void add_parts(void *job, void *const staging[DNN_STAGING], int64_t round) {
    (void)round;
    (void)staging;
    const Grouped *j = job;
    int64_t terms = j->inputs * j->taps, stride = j->blocks * terms * LANES;
#pragma omp parallel for schedule(static)
    for (int64_t c = 0; c < j->made.c; c++)
        for (int64_t i = 0; i < terms; i++) {
            float sum = 0;
            const float *from = j->packed + (c / LANES * terms + i) * LANES + c % LANES;
            for (int64_t p = 0; p < j->parts; p++)
                for (int64_t s = 0; s < j->share; s++)
                    sum += from[p * stride + s * j->made.c];
            int64_t at = weight_at(j, c, j->tap[i], j->input[i]);
            if (j->weight_type == DtF32)
                ((float *)j->weights)[at] = sum;
            else
                ((uint16_t *)j->weights)[at] = gan_f32_to_bf16(sum);
        }
}

const GroupedRun GROUPED_LEVEL = {pack_weights, convolve, weights_gradient, add_parts};
