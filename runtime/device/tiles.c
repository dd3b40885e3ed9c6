// tiles.c - convolutions in bf16 as products on a matrix unit (AMX); tiles.h says of what.
//
// The unit adds to a tile of 16 x 16 sums the product of 16 rows of 32 terms and 32 rows of 16,
// the latter interleaved by pairs. A block of 2 x 2 tiles of sums takes four tiles of operands for
// four products. Rows of an image are read where they lie if 16 of them are on one line, which the
// stride of a tile follows; others are copied together, a block at a time, so that they are still
// near when they are read. Sums of more terms than that wait in memory.
//
// Each sum is over all terms in one order, whatever the number of threads.
#include "tiles.h"

#include "integers.h"

#ifdef __AMX_BF16__
#include <immintrin.h>
#include <string.h>
#ifdef _OPENMP
#include <omp.h>
#endif

enum { TILE = 512, SUMS = 1024 }; // numbers of a tile of operands, of a block of sums

static int64_t least(int64_t a, int64_t b) {
    return a < b ? a : b;
}

static __mmask32 mask_of(int64_t n) { // the first n of 32
    return n >= TILE_WIDE ? ~0u : n <= 0 ? 0 : (1u << n) - 1;
}

static int thread_now(void) {
#ifdef _OPENMP
    return omp_get_thread_num();
#else
    return 0;
#endif
}

// --- the unit ------------------------------------------------------------------------------------

static void begin_tiles(void) {
    struct {
        uint8_t palette, start, reserved[14];
        uint16_t bytes[16];
        uint8_t rows[16];
    } shape = {.palette = 1};
    for (int i = 0; i < 8; i++) {
        shape.bytes[i] = 64;
        shape.rows[i] = 16;
    }
    _tile_loadconfig(&shape);
}

typedef struct Operand { // a tile in memory
    const uint16_t *at;
    int64_t step; // bytes to its next row
} Operand;

static void load_sums(bool zero, const float *sums) {
    enum { Quarter = SUMS / 4, Line = 64 };
    if (zero) {
        _tile_zero(0);
        _tile_zero(1);
        _tile_zero(2);
        _tile_zero(3);
        return;
    }
    _tile_loadd(0, sums, Line);
    _tile_loadd(1, sums + Quarter, Line);
    _tile_loadd(2, sums + 2 * Quarter, Line);
    _tile_loadd(3, sums + 3 * Quarter, Line);
}

static void store_sums(float *sums) {
    enum { Quarter = SUMS / 4, Line = 64 };
    _tile_stored(0, sums, Line);
    _tile_stored(1, sums + Quarter, Line);
    _tile_stored(2, sums + 2 * Quarter, Line);
    _tile_stored(3, sums + 3 * Quarter, Line);
}

// To the sums: `steps` products of 32 x 32 by 32 x 32 numbers.
static void add_tiles(const Operand *rows, const uint16_t *columns, int64_t steps) {
    for (int64_t i = 0; i < steps; i++, rows += 2, columns += 2 * TILE) {
        _tile_loadd(4, rows[0].at, rows[0].step);
        _tile_loadd(6, columns, 64);
        _tile_loadd(7, columns + TILE, 64);
        _tile_dpbf16ps(0, 4, 6);
        _tile_dpbf16ps(1, 4, 7);
        _tile_loadd(5, rows[1].at, rows[1].step);
        _tile_dpbf16ps(2, 5, 6);
        _tile_dpbf16ps(3, 5, 7);
    }
}

typedef struct Row { // of a block of sums
    __m512 low, high;
} Row;

static Row row_of(const float *sums, int i) {
    const float *half = sums + i / 16 * (SUMS / 2) + i % 16 * 16;
    return (Row){_mm512_loadu_ps(half), _mm512_loadu_ps(half + SUMS / 4)};
}

// The first n numbers of a row.
static void store_row(Row r, int64_t n, Dtype type, void *to, int64_t at) {
    __mmask32 mask = mask_of(n);
    if (type == DtBF16) {
        __m512i both = (__m512i)_mm512_cvtne2ps_pbh(r.high, r.low);
        _mm512_mask_storeu_epi16((uint16_t *)to + at, mask, both);
        return;
    }
    _mm512_mask_storeu_ps((float *)to + at, (__mmask16)mask, r.low);
    _mm512_mask_storeu_ps((float *)to + at + 16, (__mmask16)(mask >> 16), r.high);
}

// --- rearranging ---------------------------------------------------------------------------------

static void turn(__m512i v[16]) { // a matrix of 16 x 16 pairs
    __m512i t[16];
    for (int i = 0; i < 16; i += 2) {
        t[i] = _mm512_unpacklo_epi32(v[i], v[i + 1]);
        t[i + 1] = _mm512_unpackhi_epi32(v[i], v[i + 1]);
    }
    for (int i = 0; i < 16; i += 4)
        for (int k = 0; k < 2; k++) {
            v[i + 2 * k] = _mm512_unpacklo_epi64(t[i + k], t[i + k + 2]);
            v[i + 2 * k + 1] = _mm512_unpackhi_epi64(t[i + k], t[i + k + 2]);
        }
    for (int i = 0; i < 4; i++) {
        t[i] = _mm512_shuffle_i32x4(v[i], v[i + 4], 0x88);
        t[i + 4] = _mm512_shuffle_i32x4(v[i], v[i + 4], 0xdd);
        t[i + 8] = _mm512_shuffle_i32x4(v[i + 8], v[i + 12], 0x88);
        t[i + 12] = _mm512_shuffle_i32x4(v[i + 8], v[i + 12], 0xdd);
    }
    for (int i = 0; i < 8; i++) {
        v[i] = _mm512_shuffle_i32x4(t[i], t[i + 8], 0x88);
        v[i + 8] = _mm512_shuffle_i32x4(t[i], t[i + 8], 0xdd);
    }
}

// Two rows of 32 as the pairs of one row of each of two tiles.
static void interleave(__m512i a, __m512i b, uint16_t *to) {
    __m512i low = _mm512_unpacklo_epi16(a, b), high = _mm512_unpackhi_epi16(a, b);
    const __m512i first = _mm512_setr_epi64(0, 1, 8, 9, 2, 3, 10, 11);
    const __m512i second = _mm512_setr_epi64(4, 5, 12, 13, 6, 7, 14, 15);
    _mm512_storeu_si512(to, _mm512_permutex2var_epi64(low, first, high));
    _mm512_storeu_si512(to + TILE, _mm512_permutex2var_epi64(low, second, high));
}

// --- images --------------------------------------------------------------------------------------

// What is not at a fixed address.
static void *placed(const void *at, void *const staging[DNN_STAGING], size_t offset) {
    return at ? (void *)(uintptr_t)at : (char *)staging[DNN_COPIES] + offset;
}

static void copy(void *job, void *const staging[DNN_STAGING], int64_t round) {
    (void)round;
    const TileCopy *j = job;
    const int64_t *made = j->made, *x = j->x, *before = j->before;
    size_t pixel = (size_t)j->c * sizeof(uint16_t);
    char *to = placed(NULL, staging, j->offset);
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < j->n * made[0] * made[1]; i++) {
        char *line = to + (size_t)(i * made[2]) * pixel;
        int64_t x0 = i / made[1] % made[0] - before[0], x1 = i % made[1] - before[1];
        if (x0 < 0 || x0 >= x[0] || x1 < 0 || x1 >= x[1]) {
            memset(line, 0, (size_t)made[2] * pixel);
            continue;
        }
        int64_t from = ((i / made[1] / made[0] * x[0] + x0) * x[1] + x1) * x[2] * j->c;
        memset(line, 0, (size_t)before[2] * pixel);
        memcpy(line + (size_t)before[2] * pixel, j->from + from, (size_t)x[2] * pixel);
        memset(line + (size_t)(before[2] + x[2]) * pixel, 0,
               (size_t)(made[2] - before[2] - x[2]) * pixel);
    }
}

// Rows `row`.. of an image, at most TILE_WIDE.
static void locate(const TileImage *j, int64_t row, TileRows *r) {
    const DnnAxis *g = j->axis;
    int64_t line = row / g[2].y, y2 = row % g[2].y;
    r->n = least(TILE_WIDE, j->rows - row);
    r->line[0] = y2 + 16 <= g[2].y && r->n >= 16;
    r->line[1] = (y2 + 16) % g[2].y + 16 <= g[2].y && r->n == TILE_WIDE;
    for (int64_t i = 0; i < r->n; line++, y2 = 0) {
        int64_t plane = line / g[1].y, sample = plane / g[0].y;
        int64_t from = (sample * g[0].x + plane % g[0].y * g[0].s) * g[1].x;
        from = ((from + line % g[1].y * g[1].s) * g[2].x + y2 * g[2].s) * j->c;
        for (; i < r->n && y2 < g[2].y; y2++, from += g[2].s * j->c)
            r->from[i++] = from;
    }
    for (int64_t i = r->n; i < TILE_WIDE; i++)
        r->from[i] = r->from[0];
}

// The tile of 16 rows and 32 columns: where it lies, or a copy at `room`.
static Operand find_tile(const TileImage *j, const TileRows *r, int64_t half, int64_t column,
                         uint16_t *room) {
    const uint16_t *at = j->at + j->tap[column / j->c] + column % j->c;
    if (r->line[half])
        return (Operand){at + r->from[half * 16], j->axis[2].s * j->c * (int64_t)sizeof *at};
    for (int64_t i = 0; i < 16; i++)
        _mm512_storeu_si512(room + i * TILE_WIDE, _mm512_loadu_si512(at + r->from[half * 16 + i]));
    return (Operand){room, TILE_WIDE * sizeof *at};
}

// --- products ------------------------------------------------------------------------------------

// Weights of 32 terms and 32 columns of the result: forward rows of the plan's weights, turned.
static void pack_rows(const TileProduct *j, int64_t term, int64_t column, uint16_t *to) {
    for (int64_t half = 0; half < 2; half++) {
        __m512i v[16];
        for (int64_t i = 0; i < 16; i++) {
            int64_t o = column + half * 16 + i;
            __mmask32 mask = o < j->made ? ~0u : 0;
            v[i] = _mm512_maskz_loadu_epi16(mask, j->weights + o * j->image.columns + term);
        }
        turn(v);
        for (int64_t i = 0; i < 16; i++)
            _mm512_storeu_si512(to + half * TILE + i * 32, v[i]);
    }
}

// The same of an input gradient: terms are rows of channels of x already.
static void pack_terms(const TileProduct *j, int64_t term, int64_t column, uint16_t *to) {
    int64_t o = term % j->image.c, step = j->elements * j->made;
    const uint16_t *at = j->weights + o * step + j->element[term / j->image.c] * j->made + column;
    __mmask32 mask = mask_of(j->made - column);
    for (int64_t i = 0; i < 16; i++, at += 2 * step)
        interleave(_mm512_maskz_loadu_epi16(mask, at), _mm512_maskz_loadu_epi16(mask, at + step),
                   to + i * 32);
}

// In the order in which the weights lie.
static void pack(void *job, void *const staging[DNN_STAGING], int64_t round) {
    (void)round;
    const TileProduct *j = job;
    uint16_t *packed = placed(j->packed, staging, j->offset);
    int64_t deep = tile_blocks(j->image.columns), wide = tile_blocks(j->made);
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < deep * wide; i++) {
        int64_t term = j->element ? i / wide : i % deep, column = j->element ? i % wide : i / deep;
        (j->element ? pack_terms : pack_rows)(j, term * TILE_WIDE, column * TILE_WIDE,
                                              packed + (column * deep + term) * 2 * TILE);
    }
}

typedef struct Unit {                         // of work: some rows and columns of the result
    int64_t row, panel, panels, blocks;       // panels of the result's columns, blocks of rows
    Operand tile[2 * TILE_DEPTH / TILE_WIDE]; // of the block's rows
    uint16_t *copies;                         // of them
    float *sums;                              // [blocks, panels, SUMS]
} Unit;

// Where a row begins in the result.
static int64_t place_of(const TileProduct *j, int64_t row) {
    const DnnAxis *g = j->image.axis;
    int64_t line = row / g[2].y, plane = line / g[1].y;
    return plane / g[0].y * j->step[0] + plane % g[0].y * j->step[1] + line % g[1].y * j->step[2] +
           row % g[2].y * j->step[3];
}

static void store_block(const TileProduct *j, const float *sums, int64_t row, int64_t rows,
                        int64_t column) {
    int64_t n = least(TILE_WIDE, j->made - column), y = j->image.axis[2].y;
    for (int64_t i = 0; i < rows;) {
        int64_t to = place_of(j, row + i), end = least(rows, i + y - (row + i) % y);
        for (; i < end; i++, to += j->step[3])
            store_row(row_of(sums, (int)i), n, j->type, j->to, to + column);
    }
}

// The products of `steps` tiles of a block's rows with the weights of the unit's columns.
static void multiply_block(const TileProduct *j, const uint16_t *packed, Unit *u, int64_t block,
                           int64_t step, int64_t steps) {
    _Alignas(64) float made[SUMS];
    int64_t deep = tile_blocks(j->image.columns), row = u->row + block * TILE_WIDE;
    TileRows r;
    locate(&j->image, row, &r);
    for (int64_t i = 0; i < 2 * steps; i++)
        u->tile[i] =
            find_tile(&j->image, &r, i % 2, (step + i / 2) * TILE_WIDE, u->copies + i * TILE);
    for (int64_t p = 0; p < u->panels; p++) {
        float *sums = u->sums + (block * u->panels + p) * SUMS;
        bool last = step + steps == deep;
        load_sums(step == 0, sums);
        add_tiles(u->tile, packed + ((u->panel + p) * deep + step) * 2 * TILE, steps);
        store_sums(last ? made : sums);
        if (last)
            store_block(j, made, row, r.n, (u->panel + p) * TILE_WIDE);
    }
}

static void multiply_unit(const TileProduct *j, const uint16_t *packed, int64_t unit, void *room) {
    int64_t deep = tile_blocks(j->image.columns), wide = tile_blocks(j->made);
    int64_t part = unit % j->parts;
    Unit u = {.row = unit / j->parts * j->rows,
              .panel = wide * part / j->parts,
              .copies = room,
              .sums = (float *)((char *)room + TILE_WIDE * TILE_DEPTH * sizeof(uint16_t))};
    u.panels = wide * (part + 1) / j->parts - u.panel;
    u.blocks = tile_blocks(least(j->rows, j->image.rows - u.row));
    for (int64_t step = 0, steps; step < deep; step += steps) {
        steps = least(TILE_DEPTH / TILE_WIDE, deep - step);
        for (int64_t i = 0; i < u.blocks; i++)
            multiply_block(j, packed, &u, i, step, steps);
    }
}

enum { ROOM = TILE_WIDE * TILE_DEPTH * 2 + TILE_ROWS * TILE_MADE * 4 };

static void multiply(void *job, void *const staging[DNN_STAGING], int64_t round) {
    (void)round;
    TileProduct j = *(const TileProduct *)job;
    const uint16_t *packed = placed(j.packed, staging, j.offset);
    int64_t units = ceil_div(j.image.rows, j.rows) * j.parts;
    j.image.at = placed(j.image.at, staging, j.image.offset);
#pragma omp parallel
    {
        begin_tiles();
#pragma omp for schedule(dynamic)
        for (int64_t i = 0; i < units; i++)
            multiply_unit(&j, packed, i, (char *)staging[1] + (size_t)thread_now() * ROOM);
        _tile_release();
    }
}

// --- the weights' gradient -----------------------------------------------------------------------

// Of y the tile of columns o..o+15 and 32 rows, turned: the rows become the terms.
static void turn_tile(const TileGradient *j, int64_t row, int64_t o, uint16_t *to) {
    __m512i v[16];
    __mmask16 mask = (__mmask16)mask_of(j->o - o);
    for (int64_t i = 0; i < 16; i++) {
        int64_t r = row + 2 * i;
        const uint16_t *at = j->y + r * j->o + o;
        __m256i even = _mm256_maskz_loadu_epi16(r < j->image.rows ? mask : 0, at);
        __m256i odd = _mm256_maskz_loadu_epi16(r + 1 < j->image.rows ? mask : 0, at + j->o);
        v[i] = _mm512_or_si512(_mm512_cvtepu16_epi32(even),
                               _mm512_slli_epi32(_mm512_cvtepu16_epi32(odd), 16));
    }
    turn(v);
    for (int64_t i = 0; i < 16; i++)
        _mm512_storeu_si512(to + i * 32, v[i]);
}

// Two rows of 32 as pairs, in an order of columns that needs no moves between lanes: 0-3, 8-11,
// .. to a row of one tile, 4-7, 12-15, .. to the other's.
static void pair(__m512i a, __m512i b, uint16_t *to) {
    _mm512_storeu_si512(to, _mm512_unpacklo_epi16(a, b));
    _mm512_storeu_si512(to + TILE, _mm512_unpackhi_epi16(a, b));
}

static Row in_order(Row r) {
    const __m512i low = _mm512_setr_epi32(0, 1, 2, 3, 16, 17, 18, 19, 4, 5, 6, 7, 20, 21, 22, 23);
    const __m512i high =
        _mm512_setr_epi32(8, 9, 10, 11, 24, 25, 26, 27, 12, 13, 14, 15, 28, 29, 30, 31);
    return (Row){_mm512_permutex2var_ps(r.low, low, r.high),
                 _mm512_permutex2var_ps(r.low, high, r.high)};
}

// A panel of the image's columns, 32 rows, as tiles of terms by columns.
static void fill_terms(const TileImage *j, const TileRows *r, int64_t column, uint16_t *to) {
    const uint16_t *at = j->at + j->tap[column / j->c] + column % j->c;
    for (int64_t i = 0; i < TILE_WIDE; i += 2, to += TILE_WIDE)
        pair(_mm512_maskz_loadu_epi16(mask_of((r->n - i) * TILE_WIDE), at + r->from[i]),
             _mm512_maskz_loadu_epi16(mask_of((r->n - i - 1) * TILE_WIDE), at + r->from[i + 1]),
             to);
}

typedef struct Part {   // of the rows: those of y turned at once
    int64_t row, steps; // steps: of 32 rows
    uint16_t *turned;   // [o / 16, at_once / 32, tile]
    TileRows *rows;     // [steps]
    float *sums;        // [panels, blocks of o, SUMS]
} Part;

static void store_weights(const TileGradient *j, const float *sums, int64_t o, int64_t column) {
    for (int64_t i = 0; i < least(TILE_WIDE, j->o - o); i++)
        store_row(in_order(row_of(sums, (int)i)), TILE_WIDE, DtF32, j->to,
                  (o + i) * j->image.columns + column);
}

// Adds the part's rows to the sums of a panel of columns, or stores them with the last.
static void add_panel(const TileGradient *j, const Part *p, int64_t panel, uint16_t *terms) {
    _Alignas(64) float made[SUMS];
    Operand tile[2 * TILE_TERMS / TILE_WIDE];
    int64_t all = tile_blocks(j->at_once), column = panel * TILE_WIDE;
    for (int64_t i = 0, some; i < p->steps; i += some) {
        some = least(p->steps - i, TILE_TERMS / TILE_WIDE);
        for (int64_t k = 0; k < some; k++)
            fill_terms(&j->image, &p->rows[i + k], column, terms + k * 2 * TILE);
        bool last = p->row + (i + some) * TILE_WIDE >= j->image.rows;
        for (int64_t o = 0; o < j->o; o += TILE_WIDE) {
            float *sums = p->sums + (panel * tile_blocks(j->o) + o / TILE_WIDE) * SUMS;
            for (int64_t k = 0; k < 2 * some; k++)
                tile[k] = (Operand){p->turned + ((o / 16 + k % 2) * all + i + k / 2) * TILE,
                                    TILE_WIDE * sizeof *terms};
            load_sums(p->row + i == 0, sums);
            add_tiles(tile, terms, some);
            store_sums(last ? made : sums);
            if (last)
                store_weights(j, made, o, column);
        }
    }
}

static void gradient(void *job, void *const staging[DNN_STAGING], int64_t round) {
    (void)round;
    TileGradient j = *(const TileGradient *)job;
    j.image.at = placed(j.image.at, staging, j.image.offset);
    int64_t steps = j.at_once / TILE_WIDE, tiles = 2 * tile_blocks(j.o) * steps;
    int64_t panels = tile_blocks(j.image.columns);
    Part part = {.turned = staging[0], .sums = staging[2]};
    part.rows = (TileRows *)(void *)(part.turned + tiles * TILE);
#pragma omp parallel firstprivate(part)
    {
        uint16_t *terms = (void *)((char *)staging[1] + (size_t)thread_now() * ROOM);
        begin_tiles();
        for (part.row = 0; part.row < j.image.rows; part.row += j.at_once) {
            part.steps = least(steps, tile_blocks(j.image.rows - part.row));
#pragma omp for schedule(static) nowait
            for (int64_t i = 0; i < part.steps; i++)
                locate(&j.image, part.row + i * TILE_WIDE, &part.rows[i]);
#pragma omp for schedule(static)
            for (int64_t i = 0; i < tiles; i++)
                turn_tile(&j, part.row + i % steps * TILE_WIDE, i / steps * 16,
                          part.turned + i * TILE);
#pragma omp for schedule(dynamic)
            for (int64_t i = 0; i < panels; i++)
                add_panel(&j, &part, i, terms);
        }
        _tile_release();
    }
}

const TileRun *tiles_run(void) {
    static const TileRun run = {copy, pack, multiply, gradient, ROOM};
    return dnn_has_matrix_unit() ? &run : NULL;
}
#else
const TileRun *tiles_run(void) {
    return NULL;
}
#endif
