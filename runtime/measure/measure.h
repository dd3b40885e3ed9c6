// measure.h - distances between generated samples and data: the numbers behind `ganrun eval`.
//
//   images  sliced Wasserstein distance   maps    spectrum and histogram, chi-square
//   clouds    Chamfer distance, coverage    points  clusters found, modes covered
//   features  FID (and distance.h)          sounds  log-mel spectra, their Frechet distance
//
// All take arrays of f32 in logical order and return numbers; none knows a model or prints. Each is
// a deterministic function of its arguments: random positions follow from fixed seeds.
#ifndef GAN_MEASURE_H
#define GAN_MEASURE_H

#include "data.h"

// --- swd.c: sliced Wasserstein distance of two sets of images ------------------------------------

#define SWD_MAX_LEVELS 8
// c [m, n] = a [m, k] times the transpose of b [n, k], row-major.
typedef GanStatus SwdProduct(const float *a, const float *b, size_t m, size_t n, size_t k,
                             float *c);
typedef struct SwdOptions {
    SwdProduct *product;  // projects
    uint32_t projections; // 0: 128
    uint32_t patches;     // 7x7 patches per image and level; 0: 64
    uint64_t seed;
} SwdOptions;
typedef struct SwdResult {
    double pixels; // whole images projected
    uint32_t levels;
    // 7x7 patches of a Laplacian pyramid, finest first (Karras et al. 2018, times 1000)
    double level[SWD_MAX_LEVELS];
    double mean; // of the levels
} SwdResult;
// a: f32 [na, c, h, w], b: f32 [nb, c, h, w]. Images under 7 pixels have no levels.
GanStatus swd_measure(const float *a, size_t na, const float *b, size_t nb, const uint32_t chw[3],
                      const SwdOptions *o, SwdResult *out);

// --- measure_maps.c: statistics of maps of numbers -----------------------------------------------

enum { HISTOGRAM_BINS = 50 };
typedef struct Histogram {
    double lo, hi;                  // the range of the bins
    double density[HISTOGRAM_BINS]; // their mean is 1
} Histogram;
// Minimum and maximum of x.
void histogram_range(const float *x, size_t n, Histogram *out);
// Fills `density` from x; numbers outside lo..hi count in the nearest bin, so that none is lost.
// With a NaN among them every density is NaN.
void histogram_fill(const float *x, size_t n, Histogram *out);

// Rings of a square map's spectrum: radius k holds the frequencies with k - 1/2 <= |f| < k + 1/2
// around zero, k = 1 .. side/2 - 1.
uint32_t spectrum_rings(uint32_t side);
// The mean over n maps [side, side] of the power |FFT(x - mean of x)|^2 / side^2 in each ring;
// out [spectrum_rings(side)].
GanStatus spectrum_mean(const float *x, size_t n, uint32_t side, double *out);

// Sum of (a - b)^2 / b over the places where b is above 0.
double chi_square(const double *a, const double *b, size_t n);

// --- measure_clouds.c: sets of points ------------------------------------------------------------

// The Chamfer distance of clouds a [d, p] and b [d, q]: squared distances to the nearest point of
// the other, summed in both directions (Fan, Su, Guibas 2017). NaN when out of memory.
double chamfer_distance(const float *a, size_t p, const float *b, size_t q, uint32_t d);

typedef struct CloudMatch { // Achlioptas et al. 2018, section 4, with the Chamfer distance
    double distance; // minimum matching distance: mean over b of the distance to the nearest a
    double covered;  // coverage: fraction of b that is the nearest neighbour of some a
} CloudMatch;
// a [na, d, p] generated, b [nb, d, p] real.
GanStatus cloud_match(const float *a, size_t na, const float *b, size_t nb, uint32_t d, size_t p,
                      CloudMatch *out);

// --- measure_groups.c: clusters of points --------------------------------------------------------

enum { GROUPS_MOST = 32 };
typedef struct Groups {
    uint32_t k;        // clusters
    uint32_t *of;      // [n] the cluster of each point
    double *centre;    // [k, d]
    double *deviation; // [k] root mean square distance of its points from the centre, per axis
    double silhouette; // mean of (b - a) / max(a, b), a the distance to the own centre and b to the
                       // nearest other (Rousseeuw 1987 with centres in place of means of
                       // distances): near 1 for well separated clusters
} Groups;
// k clusters of x [n, d] by k-means (Lloyd 1982) with farthest-first initialization (Gonzalez
// 1985), the best of several starts; results live in `perm`. k <= n.
void groups_find(Arena *perm, const float *x, size_t n, uint32_t d, uint32_t k, Groups *out);
// The k of 2 .. most with the greatest silhouette; at most n/8, as single points would be perfect
// clusters.
void groups_choose(Arena *perm, const float *x, size_t n, uint32_t d, uint32_t most, Groups *out);
// Adjusted Rand index of two partitions of n items: 1 if equal, 0 on average if independent
// (Hubert, Arabie 1985). Values of a are below ka, of b below kb.
double groups_agreement(Arena scratch, const uint32_t *a, uint32_t ka, const uint32_t *b,
                        uint32_t kb, size_t n);

typedef struct ModeCount { // Srivastava et al. 2017 (VEEGAN), section 4.1
    uint32_t covered;      // modes with at least one high-quality point nearest to them
    double quality; // fraction of high-quality points: within 3 deviations of the nearest mode
} ModeCount;
ModeCount modes_count(const Groups *modes, const float *x, size_t n, uint32_t d);

// --- measure_frechet.c: features of a trained net ------------------------------------------------

// Whether Frechet distances can be computed: GAN_ERR_INPUT and what to install where the program
// was built without OpenBLAS, GAN_ERR_DEVICE where that cannot be loaded.
GanStatus feature_frechet_ready(void);
// FID (Heusel et al. 2017) of a [na, d] generated and b [nb, d] real: the Frechet distance of
// normal distributions with their means and covariances (over n - 1). GAN_ERR_INPUT if there are
// fewer than two or one is not finite; else as feature_frechet_ready.
GanStatus feature_frechet(const float *a, size_t na, const float *b, size_t nb, uint32_t d,
                          int threads, double *out);

// --- measure_sounds.c ----------------------------------------------------------------------------

enum { MEL_BANDS = 64 };
size_t sounds_windows(const Sounds *s); // of each sound
bool sounds_measured(const Sounds *s);  // whether they are long enough for what follows
// out [n, windows, MEL_BANDS].
GanStatus sounds_spectra(const Sounds *s, float *out);
// The mean of |a - b| over the spectra of reconstructions a of b (mel error of Kong et al. 2020).
GanStatus sounds_error(const Sounds *a, const Sounds *b, double *out);
// The Frechet distance of spectra and their time derivatives, over all windows of all sounds: it
// compares sounds within a tenth of a second and ignores structure over longer times. Fails as
// feature_frechet.
GanStatus sounds_frechet(const Sounds *a, const Sounds *b, int threads, double *out);

#endif
