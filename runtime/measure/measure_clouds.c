// measure_clouds.c - distances between clouds of points, and between sets of clouds.
//
// Points are [d, p]: axis by axis, as models hold them, so that the inner loop runs over points of
// one cloud without gathering.
#include "measure.h"

#include <math.h>

// Squared distances from point (a[0], a[stride], ...) to each of b [d, q]; best [q] keeps the
// least seen by each of them. Answers the least of these.
static float nearest(const float *a, size_t stride, const float *b, size_t q, uint32_t d,
                     float *row, float *best) {
    for (size_t j = 0; j < q; j++)
        row[j] = 0;
    for (uint32_t k = 0; k < d; k++) {
        float at = a[k * stride];
        const float *axis = b + k * q;
        for (size_t j = 0; j < q; j++)
            row[j] += (axis[j] - at) * (axis[j] - at);
    }
    float least = INFINITY;
    for (size_t j = 0; j < q; j++) {
        least = row[j] < least ? row[j] : least;
        best[j] = row[j] < best[j] ? row[j] : best[j];
    }
    return least;
}

double chamfer_distance(const float *a, size_t p, const float *b, size_t q, uint32_t d) {
    float *row = mem_alloc(2 * q * sizeof *row), *best = row + q;
    if (!row)
        return NAN;
    double sum = 0;
    for (size_t j = 0; j < q; j++)
        best[j] = INFINITY;
    for (size_t i = 0; i < p; i++)
        sum += nearest(a + i, p, b, q, d, row, best);
    for (size_t j = 0; j < q; j++)
        sum += best[j];
    mem_free(row);
    return sum;
}

GanStatus cloud_match(const float *a, size_t na, const float *b, size_t nb, uint32_t d, size_t p,
                      CloudMatch *out) {
    double *best = mem_alloc(nb * sizeof *best);
    bool *met = mem_alloc(nb * sizeof *met);
    GanStatus st = best && met ? GAN_OK : fail(GAN_ERR_MEMORY, "no memory for %zu clouds", nb);
    for (size_t j = 0; st == GAN_OK && j < nb; j++)
        best[j] = INFINITY;
    for (size_t i = 0; st == GAN_OK && i < na; i++) {
        size_t nearest_b = 0;
        double least = INFINITY;
        for (size_t j = 0; j < nb; j++) {
            double x = chamfer_distance(a + i * d * p, p, b + j * d * p, p, d);
            if (x < least)
                least = x, nearest_b = j;
            best[j] = x < best[j] ? x : best[j];
        }
        met[nearest_b] = true;
    }
    *out = (CloudMatch){0};
    for (size_t j = 0; st == GAN_OK && j < nb; j++) {
        out->distance += best[j] / (double)nb;
        out->covered += met[j] ? 1.0 / (double)nb : 0;
    }
    mem_free(best);
    mem_free(met);
    return st;
}
