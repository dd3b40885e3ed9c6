// measure_frechet.c - FID: the Frechet distance of two sets of features, as normal distributions.
//
// In: features as f32 [n, d]. Out: one number, computed in f64 by BLAS and LAPACK, which are
// column-major: row-major features [n, d] are [d, n] to them, and `lower` is theirs.
#include "linear.h"
#include "measure.h"

#include <math.h>
#include <string.h>

enum { Block = 256 }; // samples converted at a time; more columns than LAPACK's work areas need

typedef struct Room { // owned
    double *cov[2];   // [d, d] generated, real; the lower half
    double *block;    // [Block, d]
    double *mean[2];  // [d]
    double *value;    // [d] eigenvalues
    double *work;     // [2 d] of the pivoted factor
    int *place;       // [d] its pivots
} Room;

static bool room_init(Room *r, uint32_t d) {
    enum { Lines = Block + 5 }; // of d numbers
    size_t numbers, bytes, places;
    *r = (Room){0};
    if (d > INT32_MAX || !mem_mul(2 * (size_t)d + Lines, d, &numbers) ||
        !mem_mul(numbers, sizeof(double), &bytes) || !mem_mul(d, sizeof(int), &places))
        return false;
    double *x = mem_alloc(bytes);
    r->place = mem_alloc(places);
    if (!x || !r->place) {
        mem_free(x);
        mem_free(r->place);
        return false;
    }
    size_t square = (size_t)d * d;
    r->cov[0] = x, r->cov[1] = x + square;
    r->block = x + 2 * square;
    r->mean[0] = r->block + Block * (size_t)d, r->mean[1] = r->mean[0] + d;
    r->value = r->mean[1] + d, r->work = r->value + d;
    return true;
}

static void room_release(Room *r) {
    mem_free(r->cov[0]);
    mem_free(r->place);
}

// mean [d]; the covariance over n - 1, lower half.
static void moments(const float *x, size_t n, uint32_t d, double *block, double *mean,
                    double *cov) {
    memset(mean, 0, d * sizeof *mean);
    for (size_t i = 0; i < n; i++)
        for (uint32_t k = 0; k < d; k++)
            mean[k] += x[i * d + k];
    for (uint32_t k = 0; k < d; k++)
        mean[k] /= (double)n;
    for (size_t first = 0; first < n; first += Block) {
        size_t part = n - first < Block ? n - first : Block;
        for (size_t i = 0; i < part; i++)
            for (uint32_t k = 0; k < d; k++)
                block[i * d + k] = x[(first + i) * d + k] - mean[k];
        cblas_dsyrk(CblasColMajor, CblasLower, CblasNoTrans, (int)d, (int)part, 1 / (double)(n - 1),
                    block, (int)d, first ? 1 : 0, cov, (int)d);
    }
}

static double trace(const double *a, uint32_t d) {
    double sum = 0;
    for (uint32_t i = 0; i < d; i++)
        sum += a[(size_t)i * d + i];
    return sum;
}

// Both halves of s [d, d], of which the lower is given, its rows and columns in the order of place.
static void reorder(double *s, uint32_t d, int *place) {
    const int forward = 1, n = (int)d;
    for (size_t j = 0; j < d; j++)
        for (size_t i = 0; i < j; i++)
            s[j * d + i] = s[i * d + j];
    dlapmt_(&forward, &n, &n, s, &n, place);
    dlapmr_(&forward, &n, &n, s, &n, place);
}

// The trace of the square root of S1 S2, whose eigenvalues are those of L^T S2 L, where S1 = L L^T
// is the pivoted Cholesky factorization. L of a singular S1 has as many columns as its rank, and
// only that leading block of the product is used. S1, S2 are overwritten. False: dsyev did not
// converge.
static bool trace_of_root(Room *r, uint32_t d, double *out) {
    const double own_tolerance = -1;
    int n = (int)d, rank, info, size = Block * n;
    double *l = r->cov[0], *s = r->cov[1];
    dpstrf_("L", &n, l, &n, r->place, &rank, &own_tolerance, r->work, &info, 1);
    reorder(s, d, r->place);
    cblas_dtrmm(CblasColMajor, CblasRight, CblasLower, CblasNoTrans, CblasNonUnit, n, n, 1, l, n, s,
                n);
    cblas_dtrmm(CblasColMajor, CblasLeft, CblasLower, CblasTrans, CblasNonUnit, n, n, 1, l, n, s,
                n);
    dsyev_("N", "L", &rank, s, &n, r->value, r->block, &size, &info, 1, 1);
    *out = 0;
    for (int i = 0; i < rank; i++)
        *out += sqrt(fmax(r->value[i], 0)); // below zero by rounding only
    return info == 0;
}

GanStatus feature_frechet_ready(void) {
    return linear_ready();
}

GanStatus feature_frechet(const float *a, size_t na, const float *b, size_t nb, uint32_t d,
                          int threads, double *out) {
    if (na < 2 || nb < 2)
        return fail(
            GAN_ERR_INPUT,
            "a Frechet distance needs at least two samples on both sides, better thousands");
    TRY(linear_ready());
    Room r;
    if (!room_init(&r, d))
        return fail(GAN_ERR_MEMORY, "no memory to compare %zu features of %u numbers", na + nb, d);
    openblas_set_num_threads(threads);
    moments(a, na, d, r.block, r.mean[0], r.cov[0]);
    moments(b, nb, d, r.block, r.mean[1], r.cov[1]);
    double apart = 0, root, traces = trace(r.cov[0], d) + trace(r.cov[1], d);
    for (uint32_t k = 0; k < d; k++)
        apart += (r.mean[0][k] - r.mean[1][k]) * (r.mean[0][k] - r.mean[1][k]);
    *out = isfinite(traces) && trace_of_root(&r, d, &root) ? apart + traces - 2 * root : NAN;
    room_release(&r);
    return isfinite(*out)
               ? GAN_OK
               : fail(GAN_ERR_INPUT, "Frechet distance: the covariances are not finite numbers");
}
