// measure_features.c - how far two sets are apart in features of a trained net: FID, KID, and
// precision, recall, density, coverage.
//
// In: features as f32 [n, d]. Out: numbers, computed in f64. Products are made row by row, on one
// core: 5,000 by 2,048 takes tens of seconds, and features take longer.
#include "measure.h"

#include <float.h>
#include <math.h>
#include <string.h>

static GanStatus no_room(size_t n, uint32_t d) {
    return fail(GAN_ERR_MEMORY, "no memory to compare %zu features of %u numbers", n, d);
}

// n times m doubles, zero; NULL for want of memory.
static double *matrix(size_t n, size_t m) {
    size_t numbers, bytes;
    if (!mem_mul(n, m, &numbers) || !mem_mul(numbers, sizeof(double), &bytes))
        return NULL;
    double *x = mem_alloc(bytes);
    if (x)
        memset(x, 0, bytes);
    return x;
}

static double dot(const double *a, const double *b, size_t n) {
    enum { Lanes = 8 };
    double lane[Lanes] = {0}, sum = 0;
    size_t i = 0;
    for (; i + Lanes <= n; i += Lanes)
        for (size_t l = 0; l < Lanes; l++)
            lane[l] += a[i + l] * b[i + l];
    for (; i < n; i++)
        sum += a[i] * b[i];
    for (size_t l = 0; l < Lanes; l++)
        sum += lane[l];
    return sum;
}

// y += s x
static void add_row(double *y, double s, const double *x, size_t n) {
    for (size_t i = 0; i < n; i++)
        y[i] += s * x[i];
}

// --- FID -----------------------------------------------------------------------------------------

// mean [d]; the covariance [d, d] over n - 1, lower half.
static void moments(const float *x, size_t n, uint32_t d, double *row, double *mean, double *cov) {
    for (size_t i = 0; i < n; i++)
        for (uint32_t k = 0; k < d; k++)
            mean[k] += x[i * d + k] / (double)n;
    for (size_t i = 0; i < n; i++) {
        for (uint32_t k = 0; k < d; k++)
            row[k] = x[i * d + k] - mean[k];
        for (uint32_t k = 0; k < d; k++)
            add_row(cov + (size_t)k * d, row[k] / (double)(n - 1), row, k + 1);
    }
}

static double trace(const double *a, uint32_t d) {
    double sum = 0;
    for (uint32_t i = 0; i < d; i++)
        sum += a[(size_t)i * d + i];
    return sum;
}

// A positive semidefinite matrix (lower half) to its lower factor, in place. What is left of a
// diagonal below the rounding of its own sums is zero, and so is its column.
static void cholesky(double *a, uint32_t d) {
    double most = 0;
    for (uint32_t i = 0; i < d; i++)
        most = fmax(most, a[(size_t)i * d + i]);
    for (uint32_t i = 0; i < d; i++) {
        double *row = a + (size_t)i * d;
        for (uint32_t k = 0; k < i; k++) {
            const double *other = a + (size_t)k * d;
            row[k] = other[k] > 0 ? (row[k] - dot(row, other, k)) / other[k] : 0;
        }
        double left = row[i] - dot(row, row, i);
        row[i] = left > d * DBL_EPSILON * most ? sqrt(left) : 0;
    }
}

// out = L^T S L, both halves; L lower, S symmetric of which the lower half is given. `half` [d, d].
static void sandwich(const double *l, double *s, uint32_t d, double *half, double *out) {
    for (uint32_t i = 0; i < d; i++)
        for (uint32_t k = 0; k < i; k++)
            s[(size_t)k * d + i] = s[(size_t)i * d + k];
    for (uint32_t i = 0; i < d; i++) // half = S L
        for (uint32_t k = 0; k < d; k++)
            add_row(half + (size_t)i * d, s[(size_t)i * d + k], l + (size_t)k * d, k + 1);
    for (uint32_t k = 0; k < d; k++) // out = L^T half
        for (uint32_t i = 0; i <= k; i++)
            add_row(out + (size_t)i * d, l[(size_t)k * d + i], half + (size_t)k * d, d);
}

// Householder's reflections bring symmetric a [d, d] to a tridiagonal form: diagonal and what is
// beside it (Golub, Van Loan, 8.3.1). v, p [d] are room; a is lost.
static void tridiagonal(double *a, uint32_t d, double *v, double *p, double *diagonal,
                        double *off) {
    for (uint32_t k = 0; k + 1 < d; k++) {
        uint32_t first = k + 1, n = d - first;
        double norm = 0;
        for (uint32_t i = 0; i < n; i++) {
            v[i] = a[(size_t)(first + i) * d + k];
            norm += v[i] * v[i];
        }
        norm = sqrt(norm);
        double alpha = v[0] > 0 ? -norm : norm, vv = 2 * (norm * norm - alpha * v[0]);
        diagonal[k] = a[(size_t)k * d + k];
        off[k] = alpha;
        if (vv <= 0)
            continue;
        v[0] -= alpha;
        for (uint32_t i = 0; i < n; i++)
            p[i] = 2 / vv * dot(a + (size_t)(first + i) * d + first, v, n);
        double half = dot(p, v, n) / vv;
        for (uint32_t i = 0; i < n; i++)
            p[i] -= half * v[i];
        for (uint32_t i = 0; i < n; i++) {
            double *row = a + (size_t)(first + i) * d + first;
            for (uint32_t j = 0; j < n; j++)
                row[j] -= v[i] * p[j] + p[i] * v[j];
        }
    }
    diagonal[d - 1] = a[(size_t)d * d - 1];
    off[d - 1] = 0;
}

// One implicit step of QL on rows l .. m (Golub, Van Loan, 8.3.3; Numerical Recipes, tqli).
static void ql_step(double *diagonal, double *off, uint32_t l, uint32_t m) {
    double g = (diagonal[l + 1] - diagonal[l]) / (2 * off[l]), r = hypot(g, 1), s = 1, c = 1, p = 0;
    g = diagonal[m] - diagonal[l] + off[l] / (g + copysign(r, g));
    for (uint32_t i = m; i-- > l;) {
        double f = s * off[i], b = c * off[i];
        off[i + 1] = r = hypot(f, g);
        if (r == 0) {
            diagonal[i + 1] -= p;
            off[m] = 0;
            return;
        }
        s = f / r;
        c = g / r;
        g = diagonal[i + 1] - p;
        r = (diagonal[i] - g) * s + 2 * c * b;
        p = s * r;
        diagonal[i + 1] = g + p;
        g = c * r - b;
    }
    diagonal[l] -= p;
    off[l] = g;
    off[m] = 0;
}

// Eigenvalues of the tridiagonal form, in `diagonal`. False: some did not converge.
static bool eigenvalues(double *diagonal, double *off, uint32_t d) {
    enum { RoundsMost = 60 };
    for (uint32_t l = 0; l < d; l++) {
        for (uint32_t round = 0;; round++) {
            uint32_t m = l;
            while (m + 1 < d &&
                   fabs(off[m]) > DBL_EPSILON * (fabs(diagonal[m]) + fabs(diagonal[m + 1])))
                m++;
            if (m == l)
                break;
            if (round == RoundsMost)
                return false;
            ql_step(diagonal, off, l, m);
        }
    }
    return true;
}

// The trace of the square root of S1 S2, whose eigenvalues are those of L^T S2 L with S1 = L L^T.
// s1, s2: lower halves, lost. room [2, d, d]; line [4, d].
static bool trace_of_root(double *s1, double *s2, uint32_t d, double *room, double *line,
                          double *out) {
    double *product = room, *half = room + (size_t)d * d;
    *out = 0;
    cholesky(s1, d);
    sandwich(s1, s2, d, half, product);
    tridiagonal(product, d, line, line + d, line + 2 * d, line + 3 * (size_t)d);
    if (!eigenvalues(line + 2 * d, line + 3 * (size_t)d, d))
        return false;
    for (uint32_t i = 0; i < d; i++)
        *out += sqrt(fmax(line[2 * d + i], 0)); // below zero by rounding only
    return true;
}

GanStatus feature_frechet(const float *a, size_t na, const float *b, size_t nb, uint32_t d,
                          double *out) {
    double *cov = matrix(4, (size_t)d * d), *line = matrix(7, d);
    size_t square = (size_t)d * d;
    GanStatus st = GAN_OK;
    if (na < 2 || nb < 2)
        st = fail(GAN_ERR_INPUT, "FID wants two samples on both sides, better thousands");
    else if (!cov || !line)
        st = no_room(na + nb, d);
    if (st == GAN_OK) {
        double *ma = line, *mb = line + d, *rest = line + 2 * (size_t)d, root, apart = 0;
        moments(a, na, d, rest, ma, cov);
        moments(b, nb, d, rest, mb, cov + square);
        for (uint32_t k = 0; k < d; k++)
            apart += (ma[k] - mb[k]) * (ma[k] - mb[k]);
        double traces = trace(cov, d) + trace(cov + square, d);
        bool sound = trace_of_root(cov, cov + square, d, cov + 2 * square, rest, &root);
        *out = sound ? apart + traces - 2 * root : NAN;
        if (!isfinite(*out))
            st = fail(GAN_ERR_INPUT, "FID: the covariances are not finite numbers");
    }
    mem_free(cov);
    mem_free(line);
    return st;
}

// --- KID -----------------------------------------------------------------------------------------

// The sum of (x . y / d + 1)^3 over pairs; of one set with itself without each with itself.
static double kernel_sum(const double *x, size_t n, const double *y, size_t m, uint32_t d) {
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < m; k++) {
            double v = dot(x + i * d, y + k * d, d) / d + 1;
            sum += x == y && i == k ? 0 : v * v * v;
        }
    return sum;
}

static double *widened(const float *x, size_t n, uint32_t d) {
    double *out = matrix(n, d);
    for (size_t i = 0; out && i < n * d; i++)
        out[i] = x[i];
    return out;
}

GanStatus feature_kernel(const float *a, size_t na, const float *b, size_t nb, uint32_t d,
                         double *out) {
    double *x = widened(a, na, d), *y = widened(b, nb, d);
    GanStatus st = x && y ? GAN_OK : no_room(na + nb, d);
    if (st == GAN_OK && (na < 2 || nb < 2))
        st = fail(GAN_ERR_INPUT, "KID wants two samples on both sides");
    if (st == GAN_OK) {
        double n = (double)na, m = (double)nb;
        *out = kernel_sum(x, na, x, na, d) / (n * (n - 1)) +
               kernel_sum(y, nb, y, nb, d) / (m * (m - 1)) -
               2 * kernel_sum(x, na, y, nb, d) / (n * m);
    }
    mem_free(x);
    mem_free(y);
    return st;
}

// --- precision, recall, density, coverage --------------------------------------------------------

static double squared(const double *a, const double *b, uint32_t d) {
    double sum = 0;
    for (uint32_t i = 0; i < d; i++)
        sum += (a[i] - b[i]) * (a[i] - b[i]);
    return sum;
}

// Squared distance of every point to its k-th nearest other.
static void radii(const double *x, size_t n, uint32_t d, double *out) {
    for (size_t i = 0; i < n; i++) {
        double near[FEATURE_NEIGHBOURS];
        for (uint32_t k = 0; k < FEATURE_NEIGHBOURS; k++)
            near[k] = INFINITY;
        for (size_t j = 0; j < n; j++) {
            double far = i == j ? INFINITY : squared(x + i * d, x + j * d, d);
            for (uint32_t k = 0; k < FEATURE_NEIGHBOURS; k++)
                if (far < near[k]) {
                    double worse = near[k];
                    near[k] = far;
                    far = worse;
                }
        }
        out[i] = near[FEATURE_NEIGHBOURS - 1];
    }
}

typedef struct Points {
    const double *x; // [n, d]
    size_t n;
    const double *radius; // [n] squared
} Points;

static void compare(const Points *made, const Points *real, uint32_t d, uint8_t *reached,
                    FeatureMatch *out) {
    size_t within = 0, inside = 0, recalled = 0, covered = 0;
    memset(reached, 0, real->n);
    for (size_t j = 0; j < made->n; j++) {
        size_t balls = 0;
        for (size_t i = 0; i < real->n; i++) {
            double far = squared(made->x + j * d, real->x + i * d, d);
            balls += far < real->radius[i];
            reached[i] |= (uint8_t)((far < made->radius[j]) | (far < real->radius[i]) << 1);
        }
        inside += balls > 0;
        within += balls;
    }
    for (size_t i = 0; i < real->n; i++) {
        recalled += reached[i] & 1;
        covered += reached[i] >> 1;
    }
    *out = (FeatureMatch){.precision = (double)inside / (double)made->n,
                          .recall = (double)recalled / (double)real->n,
                          .density = (double)within / (FEATURE_NEIGHBOURS * (double)made->n),
                          .coverage = (double)covered / (double)real->n};
}

GanStatus feature_match(const float *a, size_t na, const float *b, size_t nb, uint32_t d,
                        FeatureMatch *out) {
    double *x = widened(a, na, d), *y = widened(b, nb, d), *r = matrix(na + nb, 1);
    uint8_t *reached = mem_alloc(nb);
    GanStatus st = x && y && r && reached ? GAN_OK : no_room(na + nb, d);
    if (st == GAN_OK && (na <= FEATURE_NEIGHBOURS || nb <= FEATURE_NEIGHBOURS))
        st = fail(GAN_ERR_INPUT, "precision and recall want more than %d samples on both sides",
                  FEATURE_NEIGHBOURS);
    if (st == GAN_OK) {
        radii(x, na, d, r);
        radii(y, nb, d, r + na);
        compare(&(Points){x, na, r}, &(Points){y, nb, r + na}, d, reached, out);
    }
    mem_free(x);
    mem_free(y);
    mem_free(r);
    mem_free(reached);
    return st;
}
