// measure_groups.c - clusters of points: k-means, the number of clusters by the silhouette, the
// adjusted Rand index against known labels, and how many modes other points cover.
//
// In: points x [n, d]. Initialization is farthest-first from a few fixed points, so the result is
// deterministic.
#include "measure.h"

#include <math.h>
#include <string.h>

enum { Starts = 4, RoundsMost = 100, PointsLeast = 8 }; // of a cluster, on average

static double distance2(const float *x, const double *c, uint32_t d) {
    double sum = 0;
    for (uint32_t k = 0; k < d; k++)
        sum += (x[k] - c[k]) * (x[k] - c[k]);
    return sum;
}

static void put_centre(const float *x, uint32_t d, double *centre) {
    for (uint32_t k = 0; k < d; k++)
        centre[k] = x[k];
}

// The first centre is point `first`; each further one the point farthest from those before.
static void begin_farthest(const float *x, size_t n, uint32_t d, size_t first, Groups *g,
                           double *least) {
    put_centre(x + first * d, d, g->centre);
    for (size_t i = 0; i < n; i++)
        least[i] = INFINITY;
    for (uint32_t c = 1; c < g->k; c++) {
        size_t farthest = 0;
        for (size_t i = 0; i < n; i++) {
            double x2 = distance2(x + i * d, g->centre + (size_t)(c - 1) * d, d);
            least[i] = x2 < least[i] ? x2 : least[i];
            farthest = least[i] > least[farthest] ? i : farthest;
        }
        put_centre(x + farthest * d, d, g->centre + (size_t)c * d);
    }
}

static uint32_t nearest_centre(const Groups *g, const float *x, uint32_t d, double *out_d2) {
    uint32_t best = 0;
    *out_d2 = INFINITY;
    for (uint32_t c = 0; c < g->k; c++) {
        double x2 = distance2(x, g->centre + (size_t)c * d, d);
        if (x2 < *out_d2)
            *out_d2 = x2, best = c;
    }
    return best;
}

// Assigns every point to its nearest centre. Returns the sum of squared distances.
static double assign(Groups *g, const float *x, size_t n, uint32_t d, bool *changed) {
    double sum = 0;
    *changed = false;
    for (size_t i = 0; i < n; i++) {
        double x2;
        uint32_t c = nearest_centre(g, x + i * d, d, &x2);
        *changed |= c != g->of[i];
        g->of[i] = c;
        sum += x2;
    }
    return sum;
}

// Moves centres to the means of their points (one without points stays) and updates deviations.
static void centre_groups(Groups *g, const float *x, size_t n, uint32_t d, size_t *count) {
    memset(count, 0, g->k * sizeof *count);
    for (size_t i = 0; i < n; i++)
        count[g->of[i]]++;
    for (uint32_t c = 0; c < g->k; c++)
        for (uint32_t k = 0; count[c] && k < d; k++)
            g->centre[(size_t)c * d + k] = 0;
    for (size_t i = 0; i < n; i++)
        for (uint32_t k = 0; k < d; k++)
            g->centre[(size_t)g->of[i] * d + k] += x[i * d + k] / (double)count[g->of[i]];
    memset(g->deviation, 0, g->k * sizeof *g->deviation);
    for (size_t i = 0; i < n; i++) {
        uint32_t c = g->of[i];
        double x2 = distance2(x + i * d, g->centre + (size_t)c * d, d);
        g->deviation[c] += x2 / ((double)count[c] * d);
    }
    for (uint32_t c = 0; c < g->k; c++)
        g->deviation[c] = sqrt(g->deviation[c]);
}

static Groups groups_new(Arena *a, size_t n, uint32_t d, uint32_t k) {
    return (Groups){.k = k,
                    .of = arena_array(a, uint32_t, n),
                    .centre = arena_array(a, double, (size_t)k *d),
                    .deviation = arena_array(a, double, k)};
}

static void groups_copy(const Groups *from, size_t n, uint32_t d, Groups *to) {
    memcpy(to->of, from->of, n * sizeof *to->of);
    memcpy(to->centre, from->centre, (size_t)from->k * d * sizeof *to->centre);
    memcpy(to->deviation, from->deviation, from->k * sizeof *to->deviation);
}

static void find_groups(Arena scratch, const float *x, size_t n, uint32_t d, Groups *out) {
    Groups g = groups_new(&scratch, n, d, out->k);
    double *least = arena_array(&scratch, double, n), best = INFINITY;
    size_t *count = arena_array(&scratch, size_t, out->k);
    for (uint32_t b = 0; b < Starts; b++) {
        begin_farthest(x, n, d, n * b / Starts, &g, least);
        bool changed = true;
        double sum = assign(&g, x, n, d, &changed);
        centre_groups(&g, x, n, d, count);
        for (uint32_t round = 0; changed && round < RoundsMost; round++) {
            sum = assign(&g, x, n, d, &changed);
            centre_groups(&g, x, n, d, count);
        }
        if (sum >= best)
            continue;
        best = sum;
        groups_copy(&g, n, d, out);
    }
}

static double silhouette(const Groups *g, const float *x, size_t n, uint32_t d) {
    double sum = 0;
    for (size_t i = 0; i < n && g->k > 1; i++) {
        double own = 0, other = INFINITY;
        for (uint32_t c = 0; c < g->k; c++) {
            double x2 = distance2(x + i * d, g->centre + (size_t)c * d, d);
            if (c == g->of[i])
                own = x2;
            else if (x2 < other)
                other = x2;
        }
        double a = sqrt(own), b = sqrt(other), larger = a > b ? a : b;
        sum += larger > 0 ? (b - a) / larger : 0;
    }
    return sum / (double)n;
}

void groups_find(Arena *perm, const float *x, size_t n, uint32_t d, uint32_t k, Groups *out) {
    assert(k >= 1 && k <= n);
    *out = groups_new(perm, n, d, k);
    find_groups(*perm, x, n, d, out);
    out->silhouette = silhouette(out, x, n, d);
}

void groups_choose(Arena *perm, const float *x, size_t n, uint32_t d, uint32_t most, Groups *out) {
    groups_find(perm, x, n, d, 2, out);
    for (uint32_t k = 3; k <= most && k * PointsLeast <= n; k++) {
        Arena scratch = *perm;
        Groups g;
        groups_find(&scratch, x, n, d, k, &g);
        if (g.silhouette > out->silhouette)
            groups_find(perm, x, n, d, k, out);
    }
}

static double pairs(double n) {
    return n * (n - 1) / 2;
}

double groups_agreement(Arena scratch, const uint32_t *a, uint32_t ka, const uint32_t *b,
                        uint32_t kb, size_t n) {
    double *both = arena_array(&scratch, double, (size_t)ka *kb),
           *of_a = arena_array(&scratch, double, ka), *of_b = arena_array(&scratch, double, kb);
    for (size_t i = 0; i < n; i++) {
        both[(size_t)a[i] * kb + b[i]]++;
        of_a[a[i]]++;
        of_b[b[i]]++;
    }
    double together = 0, in_a = 0, in_b = 0;
    for (size_t i = 0; i < (size_t)ka * kb; i++)
        together += pairs(both[i]);
    for (uint32_t i = 0; i < ka; i++)
        in_a += pairs(of_a[i]);
    for (uint32_t i = 0; i < kb; i++)
        in_b += pairs(of_b[i]);
    double expected = in_a * in_b / pairs((double)n), most = (in_a + in_b) / 2;
    return most > expected ? (together - expected) / (most - expected) : 1;
}

ModeCount modes_count(const Groups *modes, const float *x, size_t n, uint32_t d) {
    bool met[GROUPS_MOST] = {false};
    ModeCount out = {0};
    size_t good = 0;
    for (size_t i = 0; i < n; i++) {
        double x2;
        uint32_t c = nearest_centre(modes, x + i * d, d, &x2);
        if (sqrt(x2) > 3 * modes->deviation[c])
            continue;
        good++;
        out.covered += !met[c];
        met[c] = true;
    }
    out.quality = (double)good / (double)n;
    return out;
}
