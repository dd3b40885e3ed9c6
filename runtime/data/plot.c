// plot.c - a scatter plot of points, for rings and clouds.
//
// In: points [d, p], d 2 or 3. Out: RGB of 0..1 on white, each point a soft dot at the first two
// coordinates, the second upward; the third is its colour, from blue (near lo) to orange (near hi).
#include "data.h"

#include <math.h>

enum { DotReach = 1 }; // pixels around the nearest one

static void ink(double at, double rgb[3]) {
    static const double low[3] = {0.10, 0.25, 0.75}, high[3] = {0.95, 0.45, 0.05};
    at = at < 0 ? 0 : at > 1 ? 1 : at;
    for (uint32_t k = 0; k < 3; k++)
        rgb[k] = low[k] + (high[k] - low[k]) * at;
}

static void put_dot(double x, double y, const double rgb[3], uint32_t side, float *out) {
    int32_t px = (int32_t)floor(x), py = (int32_t)floor(y);
    for (int32_t v = py - DotReach; v <= py + DotReach; v++) {
        for (int32_t u = px - DotReach; u <= px + DotReach; u++) {
            double away = hypot(u + 0.5 - x, v + 0.5 - y), cover = 0.8 * fmax(0, 1 - away / 1.5);
            if (u < 0 || v < 0 || u >= (int32_t)side || v >= (int32_t)side)
                continue;
            for (uint32_t k = 0; k < 3; k++) {
                float *to = &out[(k * (size_t)side + (size_t)v) * side + (size_t)u];
                *to = (float)(*to + (rgb[k] - *to) * cover);
            }
        }
    }
}

void plot_points(const float *x, size_t p, uint32_t d, double lo, double hi, uint32_t side,
                 float *out) {
    double scale = hi > lo ? side / (hi - lo) : 0;
    for (size_t i = 0; i < 3 * (size_t)side * side; i++)
        out[i] = 1;
    for (size_t i = 0; i < p; i++) {
        double rgb[3], u = (x[i] - lo) * scale, v = side - (x[p + i] - lo) * scale;
        ink(d > 2 ? (x[2 * p + i] - lo) * scale / side : 0, rgb);
        if (u > -2 && v > -2 && u < side + 2.0 && v < side + 2.0) // not for NaN either
            put_dot(u, v, rgb, side, out);
    }
}
