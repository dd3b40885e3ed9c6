// synth_maps.c - `lognormal`: a stand-in for cosmological density and convergence maps, which are
// close to log-normal (Coles, Jones 1991; Taruya et al. 2002 for convergence).
//
// A map is exp(g - v/2), g a periodic Gaussian random field of variance v: so its mean is 1 and its
// variance exp(v) - 1. White noise is shaped in Fourier space; its power is set from the spectrum
// itself, never from the map drawn, so that maps differ in mean and variance as real ones do.
#include "fft.h"
#include "synth.h"

#include <math.h>

double lognormal_variance(void) {
    return 0.5;
}

// Falls as k^-2 from the largest scales, and ends as a map seen through a Gaussian beam does.
double lognormal_power(double k, uint32_t side) {
    double end = side / 5.0;
    return k > 0 ? exp(-k * k / (end * end)) / ((k + 1) * (k + 1)) : 0;
}

static double radius(uint32_t a, uint32_t b, uint32_t side) {
    double u = a <= side / 2 ? a : (double)a - side, v = b <= side / 2 ? b : (double)b - side;
    return sqrt(u * u + v * v);
}

// Sum of the power over all frequencies.
static double total_power(uint32_t side) {
    double sum = 0;
    for (uint32_t a = 0; a < side; a++)
        for (uint32_t b = 0; b < side; b++)
            sum += lognormal_power(radius(a, b, side), side);
    return sum;
}

static GanStatus fill_map(const SynthJob *j, uint64_t i, float *x) {
    uint32_t side = j->size;
    size_t n = (size_t)side * side;
    Complex *g = mem_alloc(n * sizeof *g);
    if (!g)
        return fail(GAN_ERR_MEMORY, "no memory for a map of %u pixels a side", side);
    for (size_t k = 0; k < n; k++)
        g[k].re = synth_normal(j->seed, i, k);
    GanStatus st = fft_square(g, side, false);
    double scale = lognormal_variance() * (double)n / total_power(side);
    for (uint32_t a = 0; a < side; a++) {
        for (uint32_t b = 0; b < side; b++) {
            double shape = sqrt(scale * lognormal_power(radius(a, b, side), side));
            Complex *at = &g[(size_t)a * side + b];
            *at = (Complex){at->re * shape, at->im * shape};
        }
    }
    if (st == GAN_OK)
        st = fft_square(g, side, true);
    for (size_t k = 0; st == GAN_OK && k < n; k++)
        x[k] = (float)exp(g[k].re - lognormal_variance() / 2);
    mem_free(g);
    return st;
}

GanStatus synth_lognormal(const SynthJob *j) {
    return synth_floats(j, 3, (const int64_t[]){1, j->size, j->size}, 0, fill_map);
}
