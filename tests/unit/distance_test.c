// distance_test.c - distances of features against their definitions, pair by pair in f64.
#define _GNU_SOURCE
#include "data_fixture.h"
#include "cases.h"
#include "distance.h"

#include <math.h>

enum { NGenerated = 41, NReal = 300, D = 7, K = 5 };

// Points around zero; the second half is shifted by `off`.
static void fill(float *x, size_t n, uint64_t seed, float off) {
    Order o = {.n = 1, .seed = seed};
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < D; k++)
            x[i * D + k] =
                (float)(order_draw(&o, 0, i, k) >> 40) / 0x1p24f - 0.5f + (i >= n / 2 ? off : 0);
}

static double apart(const float *x, const float *y) {
    double sum = 0;
    for (size_t k = 0; k < D; k++)
        sum += ((double)x[k] - y[k]) * ((double)x[k] - y[k]);
    return sum;
}

static double kernel(const float *x, const float *y) {
    double sum = 0;
    for (size_t k = 0; k < D; k++)
        sum += (double)x[k] * y[k];
    return pow(sum / D + 1, 3);
}

static int by_size(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double radius(const float *x, size_t n, size_t i) {
    double all[NReal];
    for (size_t j = 0; j < n; j++)
        all[j] = apart(x + i * D, x + j * D);
    qsort(all, n, sizeof *all, by_size);
    return all[K]; // all[0] is the point itself
}

static double mean_kernel(const float *x, size_t n, const float *y, size_t m) {
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < m; j++)
            sum += x == y && i == j ? 0 : kernel(x + i * D, y + j * D);
    return sum / ((double)n * (double)(m - (x == y)));
}

static float generated[NReal * D], real[NReal * D]; // too large for the stack

static void neighbours_are_counted_as_defined(void **state) {
    (void)state;
    double precise = 0, recalled = 0, dense = 0, covered = 0;
    fill(generated, NGenerated, 1, 0.7f);
    fill(real, NReal, 2, 0.2f);
    for (size_t i = 0; i < NGenerated; i++) {
        size_t in = 0;
        for (size_t j = 0; j < NReal; j++)
            in += apart(generated + i * D, real + j * D) < radius(real, NReal, j);
        precise += in > 0, dense += (double)in;
    }
    for (size_t j = 0; j < NReal; j++) {
        bool by_generated = false, by_real = false;
        for (size_t i = 0; i < NGenerated; i++) {
            double x = apart(generated + i * D, real + j * D);
            by_generated |= x < radius(generated, NGenerated, i);
            by_real |= x < radius(real, NReal, j);
        }
        recalled += by_generated, covered += by_real;
    }
    FeatureSets f = {
        .generated = generated, .real = real, .n_generated = NGenerated, .n_real = NReal, .d = D};
    FeatureScores s;
    assert_ok(features_compare(&f, &s));
    assert_true(s.precision > 0.1 && s.precision < 0.9); // else nothing is tested
    assert_close(s.precision, precise / NGenerated, 1e-12);
    assert_close(s.recall, recalled / NReal, 1e-12);
    assert_close(s.density, dense / (K * NGenerated), 1e-12);
    assert_close(s.coverage, covered / NReal, 1e-12);
}

// Sets no larger than a subset: every subset is the whole set.
static void the_kernel_distance_is_that_of_all_pairs(void **state) {
    (void)state;
    fill(generated, NReal, 1, 0.7f);
    fill(real, NReal, 2, 0.2f);
    FeatureSets f = {
        .generated = generated, .real = real, .n_generated = NReal, .n_real = NReal, .d = D};
    FeatureScores s;
    assert_ok(features_compare(&f, &s));
    double across = 0;
    for (size_t i = 0; i < NReal; i++)
        for (size_t j = 0; j < NReal; j++)
            across += kernel(generated + i * D, real + j * D) / ((double)NReal * NReal);
    double want = mean_kernel(generated, NReal, generated, NReal) +
                  mean_kernel(real, NReal, real, NReal) - 2 * across;
    assert_true(want > 1e-3);
    assert_close(s.kid, want, 1e-6);
    assert_close(s.kid_deviation, 0, 1e-6);
}

// Larger sets are compared in subsets, which differ.
static void the_kernel_distance_of_many_is_that_of_subsets(void **state) {
    (void)state;
    fill(generated, NReal, 1, 0.7f);
    FeatureSets f = {.generated = generated,
                     .real = generated,
                     .n_generated = NReal * D / 2,
                     .n_real = NReal * D / 2,
                     .d = 2};
    FeatureScores s;
    assert_ok(features_compare(&f, &s));
    assert_true(s.kid_deviation > 5e-5); // 2e-5 of the same subsets of both, 0 of all
}

static void a_set_has_distance_zero_to_itself(void **state) {
    (void)state;
    fill(real, NReal, 2, 0.2f);
    FeatureSets f = {
        .generated = real, .real = real, .n_generated = NReal, .n_real = NReal, .d = D};
    FeatureScores s;
    assert_ok(features_compare(&f, &s));
    assert_true(s.swd == 0);
    assert_true(s.precision == 1 && s.recall == 1 && s.coverage == 1);
}

// What f32 cannot hold is said, and which set has it; cubes of what it can are computed in f64.
static void large_features_do_not_overflow(void **state) {
    (void)state;
    FeatureScores s;
    for (uint32_t i = 0; i < 12; i++)
        generated[i] = real[i] = (float)sin(1 + i) * 1e15f;
    FeatureSets f = {.generated = generated, .real = real, .n_generated = 6, .n_real = 6, .d = 2};
    assert_ok(features_compare(&f, &s));
    assert_true(isfinite(s.kid) && isfinite(s.kid_deviation) && s.recall == 1);
    real[7] = 1e30f;
    assert_status(features_compare(&f, &s), GAN_ERR_INPUT,
                  "sample 3 of the data has features so large (a norm of 1e+30)");
    f.name[1] = STR("real.npy");
    assert_status(features_compare(&f, &s), GAN_ERR_INPUT, "sample 3 of real.npy");
}

static void sets_without_neighbours_are_refused(void **state) {
    (void)state;
    fill(real, NReal, 2, 0.2f);
    FeatureSets f = {.generated = real, .real = real, .n_generated = K, .n_real = NReal, .d = D};
    FeatureScores s;
    assert_status(features_compare(&f, &s), GAN_ERR_INPUT, "five points");
    f.n_generated = K + 1;
    assert_ok(features_compare(&f, &s));
    fill(generated, NGenerated, 1, 0.7f);
    f.generated = generated;
    real[NReal * D - 1] = NAN;
    assert_status(features_compare(&f, &s), GAN_ERR_INPUT, "NaN");
    real[NReal * D - 1] = 0;
    generated[3] = INFINITY;
    assert_status(features_compare(&f, &s), GAN_ERR_INPUT, "infinity");
}

// Fails every allocation in turn.
static void refused_memory_is_a_status(void **state) {
    (void)state;
    fill(generated, NGenerated, 1, 0.7f);
    fill(real, NReal, 2, 0.2f);
    FeatureSets f = {
        .generated = generated, .real = real, .n_generated = NGenerated, .n_real = NReal, .d = D};
    FeatureScores s;
    int64_t before = mem_count();
    assert_ok(features_compare(&f, &s));
    int64_t asked = mem_count() - before;
    assert_true(asked > 12); // allocations for both sets and for their pairs
    for (int64_t n = 1; n <= asked; n++) {
        mem_fail_at(n);
        GanStatus st = features_compare(&f, &s);
        mem_fail_at(0);
        assert_status(st, GAN_ERR_MEMORY, "refused");
    }
}

// On numbers any program can generate; the last case has fewer samples than features.
static void neighbours_are_counted_as_numpy_does(void **state) {
    static const struct {
        size_t n_generated, n_real, d;
        double precision, recall, density, coverage;
    } cases[] = {{40, 60, 12, 0.95, 1, 0.45, 0.85}, {8, 9, 20, 1, 1, 0.6, 1}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        FeatureSets f = {.generated = generated,
                         .real = real,
                         .n_generated = cases[i].n_generated,
                         .n_real = cases[i].n_real,
                         .d = cases[i].d};
        FeatureScores s;
        for (size_t k = 0; k < f.n_generated * f.d; k++)
            generated[k] = (float)(0.1 + sin(1 + (double)(k * k) * 0.37 + (double)k * 1.7));
        for (size_t k = 0; k < f.n_real * f.d; k++)
            real[k] = (float)(-0.05 + 0.8 * sin(2 + (double)(k * k) * 0.37 + (double)k * 1.7));
        assert_ok(features_compare(&f, &s));
        assert_close(s.precision, cases[i].precision, 1e-12);
        assert_close(s.recall, cases[i].recall, 1e-12);
        assert_close(s.density, cases[i].density, 1e-12);
        assert_close(s.coverage, cases[i].coverage, 1e-12);
    }
}

// Scores by torch-fidelity's isc_features_to_metric on the rows in this order.
static void inception_scores_are_torch_fidelitys(void **state) {
    static const struct {
        size_t n, classes;
        double mean, deviation;
    } cases[] = {{57, 12, 1.94599726628903, 0.176197699527298},
                 {20, 100, 1.44014573284373, 0.0289939976651391}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        double mean, deviation;
        for (size_t k = 0; k < cases[i].n * cases[i].classes; k++)
            generated[k] = (float)(3 * sin(1 + (double)(k * k) * 0.37 + (double)k * 1.7));
        assert_ok(inception_score(generated, cases[i].n, cases[i].classes, &mean, &deviation));
        assert_close(mean, cases[i].mean, 1e-6);
        assert_close(deviation, cases[i].deviation, 1e-6);
    }
    double mean, deviation; // certain predictions, uniform over the classes: their number
    memset(generated, 0, sizeof generated);
    for (size_t k = 0; k < 40; k++)
        generated[k * 4 + k % 4] = 1000;
    assert_ok(inception_score(generated, 40, 4, &mean, &deviation));
    assert_close(mean, 4, 1e-12);
    assert_close(deviation, 0, 1e-12);
    assert_status(inception_score(generated, 9, 4, &mean, &deviation), GAN_ERR_INPUT, "10 splits");
    generated[7] = NAN;
    assert_status(inception_score(generated, 40, 4, &mean, &deviation), GAN_ERR_INPUT,
                  "not finite");
    mem_fail_at(1);
    generated[7] = 0;
    assert_status(inception_score(generated, 40, 4, &mean, &deviation), GAN_ERR_MEMORY,
                  "4 classes");
    mem_fail_at(0);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(neighbours_are_counted_as_defined),
        cmocka_unit_test(the_kernel_distance_is_that_of_all_pairs),
        cmocka_unit_test(the_kernel_distance_of_many_is_that_of_subsets),
        cmocka_unit_test(a_set_has_distance_zero_to_itself),
        cmocka_unit_test(large_features_do_not_overflow),
        cmocka_unit_test(sets_without_neighbours_are_refused),
        cmocka_unit_test(neighbours_are_counted_as_numpy_does),
        cmocka_unit_test(inception_scores_are_torch_fidelitys),
        cmocka_unit_test(refused_memory_is_a_status),
    };
    return CASES_LISTED(tests) ? 0 : cmocka_run_group_tests(tests, NULL, NULL);
}
