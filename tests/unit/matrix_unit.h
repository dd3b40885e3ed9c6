// matrix_unit.h - the matrix unit (AMX) in plain C: included before tiles.c, whose products then
// run on machines that have none. A tile is used as it was configured, or the program ends.
#ifndef GAN_MATRIX_UNIT_H
#define GAN_MATRIX_UNIT_H

#include "tiles.h"

#include <immintrin.h>
#include <string.h>

#define __AMX_BF16__ 1
#define dnn_has_matrix_unit() __builtin_cpu_supports("avx512bf16") // what tiles.c needs beside it
#undef _tile_loadconfig
#undef _tile_release
#undef _tile_zero
#undef _tile_loadd
#undef _tile_stored
#undef _tile_dpbf16ps
#define _tile_loadconfig unit_configure
#define _tile_release unit_release
#define _tile_zero unit_zero
#define _tile_loadd unit_load
#define _tile_stored unit_store
#define _tile_dpbf16ps unit_multiply

enum { UnitTiles = 8, UnitRows = 16, UnitLine = 64 }; // bytes of a row

typedef struct UnitShape { // as _tile_loadconfig reads it
    uint8_t palette, start, reserved[14];
    uint16_t bytes[16];
    uint8_t rows[16];
} UnitShape;

typedef union UnitTile {
    float sum[UnitRows][UnitLine / 4];
    uint16_t term[UnitRows][UnitLine / 2];
} UnitTile;

static _Thread_local UnitShape unit_shape;
static _Thread_local UnitTile unit_tile[UnitTiles];

static inline UnitTile *unit_whole(int i) {
    if (unit_shape.palette != 1 || unit_shape.bytes[i] != UnitLine ||
        unit_shape.rows[i] != UnitRows)
        bug("tile %d is not configured", i);
    return &unit_tile[i];
}
static inline void unit_configure(const void *shape) {
    memcpy(&unit_shape, shape, sizeof unit_shape);
    memset(unit_tile, 0, sizeof unit_tile);
}
static inline void unit_release(void) {
    unit_shape = (UnitShape){0};
}
static inline void unit_zero(int i) {
    memset(unit_whole(i), 0, sizeof *unit_tile);
}
static inline void unit_load(int i, const void *from, int64_t step) {
    UnitTile *t = unit_whole(i);
    for (int row = 0; row < UnitRows; row++)
        memcpy(t->sum[row], (const char *)from + row * step, UnitLine);
}
static inline void unit_store(int i, void *to, int64_t step) {
    const UnitTile *t = unit_whole(i);
    for (int row = 0; row < UnitRows; row++)
        memcpy((char *)to + row * step, t->sum[row], UnitLine);
}
static inline float unit_wide(uint16_t half) { // of bf16
    const union {
        uint32_t bits;
        float x;
    } wide = {(uint32_t)half << 16};
    return wide.x;
}
static inline void unit_multiply(int to, int rows, int columns) {
    UnitTile *c = unit_whole(to);
    const UnitTile *a = unit_whole(rows), *b = unit_whole(columns);
    for (int i = 0; i < UnitRows; i++)
        for (int k = 0; k < UnitLine / 2; k++)
            for (int j = 0; j < UnitLine / 4; j++)
                c->sum[i][j] += unit_wide(a->term[i][k]) * unit_wide(b->term[k / 2][2 * j + k % 2]);
}

#endif
