// measure_maps.c - statistics of convergence maps: the histogram of their pixels and their radial
// power spectrum, both scored by chi-square against a reference.
//
// Bins, rings and scores are those of cosmoGAN's follow-up evaluation (50 equal bins over the
// reference's range, densities that average 1, rings of integer radius); rings lie around zero
// frequency itself.
#include "fft.h"
#include "measure.h"

#include <math.h>

void histogram_range(const float *x, size_t n, Histogram *out) {
    *out = (Histogram){.lo = INFINITY, .hi = -INFINITY};
    for (size_t i = 0; i < n; i++) {
        out->lo = x[i] < out->lo ? x[i] : out->lo;
        out->hi = x[i] > out->hi ? x[i] : out->hi;
    }
}

void histogram_fill(const float *x, size_t n, Histogram *out) {
    size_t count[HISTOGRAM_BINS] = {0};
    double per_unit = out->hi > out->lo ? HISTOGRAM_BINS / (out->hi - out->lo) : 0;
    bool numbers = true;
    for (size_t i = 0; i < n; i++) {
        double at = per_unit > 0 ? floor((x[i] - out->lo) * per_unit) : 0;
        numbers = numbers && !isnan(x[i]);
        count[!(at > 0) ? 0 : at >= HISTOGRAM_BINS ? HISTOGRAM_BINS - 1 : (uint32_t)at]++;
    }
    for (uint32_t b = 0; b < HISTOGRAM_BINS; b++)
        out->density[b] = numbers ? (double)count[b] * HISTOGRAM_BINS / (double)n : NAN;
}

uint32_t spectrum_rings(uint32_t side) {
    return side / 2 > 1 ? side / 2 - 1 : 0;
}

// Adds the power of one map's frequencies to their rings.
static GanStatus add_power(const float *x, uint32_t side, Complex *work, double *sum) {
    size_t n = (size_t)side * side;
    double mean = 0;
    for (size_t i = 0; i < n; i++)
        mean += x[i];
    mean /= (double)n;
    for (size_t i = 0; i < n; i++)
        work[i] = (Complex){x[i] - mean, 0};
    TRY(fft_square(work, side, false));
    for (uint32_t a = 0; a < side; a++) {
        for (uint32_t b = 0; b < side; b++) {
            double u = a <= side / 2 ? a : (double)a - side,
                   v = b <= side / 2 ? b : (double)b - side;
            uint32_t ring = (uint32_t)(sqrt(u * u + v * v) + 0.5);
            Complex c = work[(size_t)a * side + b];
            if (ring >= 1 && ring <= spectrum_rings(side))
                sum[ring - 1] += (c.re * c.re + c.im * c.im) / (double)n;
        }
    }
    return GAN_OK;
}

static void count_frequencies(uint32_t side, double *count) {
    int32_t half = (int32_t)side / 2;
    for (int32_t u = half + 1 - (int32_t)side; u <= half; u++) {
        for (int32_t v = half + 1 - (int32_t)side; v <= half; v++) {
            uint32_t ring = (uint32_t)(sqrt((double)u * u + (double)v * v) + 0.5);
            if (ring >= 1 && ring <= spectrum_rings(side))
                count[ring - 1]++;
        }
    }
}

GanStatus spectrum_mean(const float *x, size_t n, uint32_t side, double *out) {
    uint32_t rings = spectrum_rings(side);
    size_t pixels = (size_t)side * side;
    Complex *work = mem_alloc(pixels * sizeof *work);
    double *count = mem_alloc(rings * sizeof *count);
    GanStatus st = work && count ? GAN_OK : fail(GAN_ERR_MEMORY, "no memory for a spectrum");
    for (uint32_t k = 0; k < rings; k++)
        out[k] = 0;
    for (size_t i = 0; st == GAN_OK && i < n; i++)
        st = add_power(x + i * pixels, side, work, out);
    if (st == GAN_OK) {
        count_frequencies(side, count);
        for (uint32_t k = 0; k < rings; k++)
            out[k] /= count[k] * (double)n;
    }
    mem_free(work);
    mem_free(count);
    return st;
}

double chi_square(const double *a, const double *b, size_t n) {
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        if (b[i] > 0)
            sum += (a[i] - b[i]) * (a[i] - b[i]) / b[i];
    return sum;
}
