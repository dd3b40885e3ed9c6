// measure_test.c - the metrics of `ganrun eval` against results worked out by hand, and the sets
// of `ganrun data synth` against their specified statistics.
#define _GNU_SOURCE
#include "measure.h"
#include "data_fixture.h"
#include "cases.h"
#include "fft.h"
#include "synth.h"

#define PI 3.14159265358979323846

static void assert_near(double got, double want, double tolerance, const char *what) {
    if (!(fabs(got - want) <= tolerance))
        fail_msg("%s: %.12g, not %.12g within %g", what, got, want, tolerance);
}

// --- transform -----------------------------------------------------------------------------------

static Complex direct(const Complex *x, uint32_t n, uint32_t u, uint32_t v) {
    Complex sum = {0};
    for (uint32_t a = 0; a < n; a++) {
        for (uint32_t b = 0; b < n; b++) {
            double t = -2 * PI * ((double)a * u + (double)b * v) / n;
            Complex c = x[a * n + b];
            sum.re += c.re * cos(t) - c.im * sin(t);
            sum.im += c.re * sin(t) + c.im * cos(t);
        }
    }
    return sum;
}

static void the_transform_is_its_sum_for_any_side(void **state) {
    static const uint32_t sides[] = {1, 2, 3, 4, 5, 6, 8, 12, 14, 15, 16};
    Fixture *p = *state;
    for (size_t s = 0; s < sizeof sides / sizeof *sides; s++) {
        uint32_t n = sides[s];
        Complex *x = arena_array(&p->arena, Complex, n * n),
                *f = arena_array(&p->arena, Complex, n * n);
        for (uint32_t i = 0; i < n * n; i++)
            f[i] = x[i] = (Complex){synth_normal(1, n, i), synth_normal(2, n, i)};
        assert_ok(fft_square(f, n, false));
        for (uint32_t u = 0; u < n; u++) {
            for (uint32_t v = 0; v < n; v++) {
                Complex want = direct(x, n, u, v);
                assert_near(f[u * n + v].re, want.re, 1e-10, "real part");
                assert_near(f[u * n + v].im, want.im, 1e-10, "imaginary part");
            }
        }
        assert_ok(fft_square(f, n, true));
        for (uint32_t i = 0; i < n * n; i++) {
            assert_near(f[i].re, x[i].re, 1e-12, "there and back");
            assert_near(f[i].im, x[i].im, 1e-12, "there and back");
        }
    }
}

// --- maps ----------------------------------------------------------------------------------------

static void a_histogram_counts_in_fiftieths_and_loses_nothing(void **state) {
    float ramp[500], wild[4] = {-7, 0.5f, 2, 99};
    Histogram h;
    (void)state;
    for (uint32_t i = 0; i < 500; i++)
        ramp[i] = (float)(i / 499.0);
    histogram_range(ramp, 500, &h);
    assert_true(h.lo == 0 && h.hi == 1);
    histogram_fill(ramp, 500, &h);
    for (uint32_t b = 0; b < HISTOGRAM_BINS; b++)
        assert_near(h.density[b], 1, 0.11,
                    "a bin of a ramp"); // ten numbers a bin, plus or minus one
    histogram_fill(wild, 4, &h);
    assert_near(h.density[0], HISTOGRAM_BINS / 4.0, 0, "the first bin");
    assert_near(h.density[HISTOGRAM_BINS / 2], HISTOGRAM_BINS / 4.0, 0, "the middle bin");
    assert_near(h.density[HISTOGRAM_BINS - 1], HISTOGRAM_BINS / 2.0, 0, "the last bin");
    wild[1] = NAN;
    histogram_fill(wild, 4, &h);
    assert_true(isnan(chi_square(h.density, (const double[HISTOGRAM_BINS]){1, 1}, 2)));
}

static void chi_square_is_relative_to_the_second(void **state) {
    double a[] = {1, 2, 3, 9}, b[] = {2, 2, 1, 0};
    (void)state;
    assert_near(chi_square(a, b, 4), 0.5 + 0 + 4, 0, "chi-square");
}

// A wave of amplitude A has the power A^2 N / 4 at two frequencies, N pixels.
static void a_wave_has_its_power_in_its_own_ring(void **state) {
    enum { Side = 16, Wave = 3 };
    float x[2 * Side * Side];
    double power[Side];
    (void)state;
    for (uint32_t m = 0; m < 2; m++)
        for (uint32_t a = 0; a < Side; a++)
            for (uint32_t b = 0; b < Side; b++)
                x[(m * Side + a) * Side + b] =
                    (float)(5 + (m + 1) * cos(2 * PI * Wave * (m ? a : b) / Side));
    assert_int_equal(spectrum_rings(Side), Side / 2 - 1);
    assert_ok(spectrum_mean(x, 2, Side, power));
    uint32_t count = 0;
    for (int u = -8; u <= 8; u++)
        for (int v = -8; v <= 8; v++)
            count += hypot(u, v) >= Wave - 0.5 && hypot(u, v) < Wave + 0.5;
    double mean_square = (1 + 4) / 2.0; // of the two maps' amplitudes
    for (uint32_t k = 1; k <= spectrum_rings(Side); k++)
        assert_near(power[k - 1], k == Wave ? mean_square * Side * Side / 2 / count : 0, 1e-5,
                    "power in a ring");
}

// --- clouds --------------------------------------------------------------------------------------

static void chamfer_takes_the_nearest_both_ways(void **state) {
    float a[] = {0, 1, 0, 0}, b[] = {0, 3, 5, 0, 0, 0}; // (0,0) (1,0); (0,0) (3,0) (5,0)
    (void)state;
    assert_near(chamfer_distance(a, 2, b, 3, 2), (0 + 1) + (0 + 4 + 16), 0, "chamfer");
    assert_near(chamfer_distance(b, 3, a, 2, 2), 21, 0, "the other way round");
    assert_near(chamfer_distance(a, 2, a, 2, 2), 0, 0, "of itself");
}

static void matching_finds_the_nearest_cloud_and_coverage(void **state) {
    float made[] = {0, 1, 10}, real[] = {0.5f, 20, 40}; // clouds of one point on a line
    CloudMatch m;
    (void)state;
    assert_ok(cloud_match(made, 3, real, 3, 1, 1, &m));
    assert_near(m.distance, 2 * (0.25 + 100 + 900) / 3, 1e-4, "matching distance");
    assert_near(m.covered, 1.0 / 3, 1e-12, "coverage"); // 10 is nearer to 0.5 than to 20
}

static void a_plot_has_its_dots_at_the_points(void **state) {
    enum { Side = 20, Plane = Side * Side };
    float x[] = {-0.5f, 0.95f, NAN, 0.5f, -0.95f, 0, 1, -1, 0}, out[3 * Plane]; // [3, 3], in -1..1
    (void)state;
    plot_points(x, 3, 3, -1, 1, Side, out);
    for (uint32_t i = 0; i < Plane; i++) {
        uint32_t v = i / Side, u = i % Side; // the second axis points up
        bool near = hypot(u - 5.0, v - 5.0) < 2.5 || hypot(u - 19.0, v - 19.0) < 2.5;
        assert_true(near || (out[i] == 1 && out[Plane + i] == 1 && out[2 * Plane + i] == 1));
    }
    assert_true(out[5 * Side + 5] > out[2 * Plane + 5 * Side + 5]);     // near hi: orange
    assert_true(out[19 * Side + 19] < out[2 * Plane + 19 * Side + 19]); // near lo: blue
}

// --- groups --------------------------------------------------------------------------------------

static float *ring_points(Fixture *p, size_t n, double deviation) {
    float *x = arena_array(&p->arena, float, 2 * n);
    for (size_t i = 0; i < n; i++) {
        double t = 2 * PI / 8 * (double)(i % 8);
        x[2 * i] = (float)(2 * sin(t) + deviation * synth_normal(5, i, 0));
        x[2 * i + 1] = (float)(2 * cos(t) + deviation * synth_normal(5, i, 1));
    }
    return x;
}

static void the_eight_of_a_ring_are_found_and_their_coverage_counted(void **state) {
    enum { N = 1600 };
    Fixture *p = *state;
    float *x = ring_points(p, N, 0.14), some[] = {0, 2, 0.01f, 1.9f, 2, 0, 0, 0, 1.99f, 0.1f};
    Groups g;
    groups_choose(&p->arena, x, N, 2, GROUPS_MOST, &g);
    assert_int_equal(g.k, 8);
    assert_true(g.silhouette > 0.8);
    for (size_t i = 8; i < N; i++)
        assert_int_equal(g.of[i], g.of[i % 8]);
    for (uint32_t c = 0; c < 8; c++)
        assert_near(g.deviation[c], 0.14, 0.015, "deviation of a group");
    ModeCount all = modes_count(&g, x, N, 2), few = modes_count(&g, some, 5, 2);
    assert_int_equal(all.covered, 8);
    assert_near(all.quality, 1 - exp(-4.5), 0.01, "within three deviations of a plane's normal");
    assert_int_equal(few.covered, 2); // top and right; the middle belongs to no mode
    assert_near(few.quality, 0.8, 1e-12, "four of five");
}

static void one_cluster_has_a_low_silhouette(void **state) {
    enum { N = 400 };
    Fixture *p = *state;
    float *x = arena_array(&p->arena, float, 2 * N);
    for (size_t i = 0; i < 2 * N; i++)
        x[i] = (float)synth_normal(3, i, 0);
    Groups g;
    groups_choose(&p->arena, x, N, 2, 8, &g);
    assert_true(g.silhouette < 0.6);
}

// The example of Hubert and Arabie's index in common use: 4 things, one group split.
static void agreement_is_the_adjusted_rand_index(void **state) {
    Fixture *p = *state;
    uint32_t a[] = {0, 0, 1, 2}, b[] = {0, 0, 1, 1}, c[] = {1, 1, 0, 0}, d[] = {0, 1, 0, 1},
             one[4] = {0};
    assert_near(groups_agreement(p->arena, a, 3, b, 2, 4), 4.0 / 7, 1e-12, "split");
    assert_near(groups_agreement(p->arena, b, 2, c, 2, 4), 1, 1e-12, "renamed");
    assert_near(groups_agreement(p->arena, b, 2, d, 2, 4), -0.5, 1e-12, "crossed");
    assert_near(groups_agreement(p->arena, one, 1, one, 1, 4), 1, 1e-12, "one group");
}

// Three groups of six or seven points: too few to tell three.
static void few_points_are_few_groups(void **state) {
    Fixture *p = *state;
    float x[20];
    Groups g;
    for (uint32_t i = 0; i < 20; i++)
        x[i] = (float)(i % 3 * 100 + i);
    groups_choose(&p->arena, x, 20, 1, GROUPS_MOST, &g);
    assert_int_equal(g.k, 2);
}

// --- synthesis -----------------------------------------------------------------------------------

static const float *npy_numbers(Fixture *p, const char *name, Array *a) {
    Str text;
    assert_ok(file_read(&p->arena, under(p, name), &text));
    assert_ok(npy_parse((const uint8_t *)text.ptr, text.len, a));
    float *x = arena_array(&p->arena, float, a->count);
    memcpy(x, a->data, a->count * sizeof *x);
    return x;
}

// Mean 1; the logarithm's variance and spectrum as specified.
static void lognormal_maps_have_the_promised_statistics(void **state) {
    enum { Maps = 200, Side = 32 };
    Fixture *p = *state;
    Array a;
    assert_ok(synth_write(STR("lognormal"), under(p, "m.npy"), Maps, Side, 7));
    const float *x = npy_numbers(p, "m.npy", &a);
    assert_true(a.rank == 4 && a.dim[0] == Maps && a.dim[1] == 1 && a.dim[3] == Side);
    float *g = arena_array(&p->arena, float, a.count);
    double mean = 0, log_mean = 0, log_square = 0, power[Side], total = 0, want[Side] = {0},
           count[Side] = {0}, all = 0;
    for (size_t i = 0; i < a.count; i++) {
        assert_true(x[i] > 0);
        g[i] = (float)log(x[i]);
        mean += x[i] / (double)a.count;
        log_mean += g[i] / (double)a.count;
        log_square += g[i] * (double)g[i] / (double)a.count;
    }
    double variance = lognormal_variance();
    assert_near(mean, 1, 0.02, "mean density");
    assert_near(log_mean, -variance / 2, 0.02, "mean logarithm");
    assert_near(log_square - log_mean * log_mean, variance, 0.03, "variance of the logarithm");
    assert_ok(spectrum_mean(g, Maps, Side, power));
    for (int u = -Side / 2 + 1; u <= Side / 2; u++) {
        for (int v = -Side / 2 + 1; v <= Side / 2; v++) {
            uint32_t ring = (uint32_t)(hypot(u, v) + 0.5);
            if (ring < 1 || ring > spectrum_rings(Side))
                continue;
            want[ring - 1] += lognormal_power(hypot(u, v), Side);
            count[ring - 1]++;
        }
    }
    for (uint32_t k = 1; k <= spectrum_rings(Side); k++) {
        want[k - 1] /= count[k - 1];
        total += power[k - 1];
        all += want[k - 1];
    }
    for (uint32_t k = 1; k <= spectrum_rings(Side) / 2; k++) // the spectrum is cut off beyond
        assert_near(power[k - 1] / total / (want[k - 1] / all), 1, 0.1, "power in a ring");
}

static double spread(const float *x, uint32_t n) { // root mean square distance from the middle
    double sum = 0;
    for (uint32_t i = 0; i < 3 * n; i++)
        sum += (double)x[i] * x[i] / n;
    return sqrt(sum);
}

static void chains_keep_their_bonds_and_show_four_states(void **state) {
    enum { N = 64, Points = 200 };
    Fixture *p = *state;
    Pack pack = {0};
    assert_ok(synth_write(STR("chains"), under(p, "c.pack"), N, Points, 3));
    assert_ok(pack_open(&p->arena, under(p, "c.pack"), &pack));
    assert_true(pack.count == N && pack.field[1].classes == 4);
    float *x = arena_array(&p->arena, float, N * 3 * Points);
    uint32_t *label = arena_array(&p->arena, uint32_t, N);
    for (uint32_t i = 0; i < N; i++) {
        float *at = x + i * 3 * Points;
        double bond = 0, middle[3] = {0};
        memcpy(at, pack_record(&pack, i) + pack.field[0].offset, 3 * Points * sizeof *at);
        memcpy(&label[i], pack_record(&pack, i) + pack.field[1].offset, sizeof *label);
        for (uint32_t k = 0; k < Points; k++) {
            double d2 = 0;
            for (uint32_t c = 0; c < 3; c++) {
                double step = k ? at[c * Points + k] - at[c * Points + k - 1] : 0;
                d2 += step * step;
                middle[c] += at[c * Points + k] / Points;
            }
            bond += sqrt(d2) / (Points - 1);
        }
        assert_near(bond, 3.8, 0.05, "mean bond");
        for (uint32_t c = 0; c < 3; c++)
            assert_near(middle[c], 0, 1e-3, "middle");
        assert_true(spread(at, Points) < 3.8 * sqrt(Points)); // tighter than a random walk
    }
    Groups g;
    groups_find(&p->arena, x, N, 3 * Points, 4, &g); // the states are the groups of the coordinates
    assert_near(groups_agreement(p->arena, g.of, 4, label, 4, N), 1, 1e-12, "states");
    pack_close(&pack);
}

static void outlines_are_the_edges_of_the_same_shapes(void **state) {
    Fixture *p = *state;
    Pack full = {0}, edge = {0};
    enum { Side = 32, Plane = Side * Side };
    assert_ok(synth_write(STR("shapes"), under(p, "s.pack"), 20, Side, 4));
    assert_ok(synth_write(STR("outlines"), under(p, "o.pack"), 20, Side, 4));
    assert_ok(pack_open(&p->arena, under(p, "s.pack"), &full));
    assert_ok(pack_open(&p->arena, under(p, "o.pack"), &edge));
    for (uint32_t i = 0; i < 20; i++) {
        const uint8_t *s = pack_record(&full, i), *o = pack_record(&edge, i);
        assert_memory_equal(s + full.field[1].offset, o + edge.field[1].offset, 4); // the class
        assert_memory_equal(s, o, 3); // the background
        double differ = 0;
        for (uint32_t k = 0; k < 3 * Plane; k++)
            differ += abs(s[k] - o[k]) > 8;
        assert_true(differ > 0.05 * Plane); // the inside is empty
    }
    pack_close(&full);
    pack_close(&edge);
}

static void a_longer_set_begins_with_the_shorter_and_seeds_differ(void **state) {
    static const char *const kinds[] = {"lognormal", "chains", "outlines", "ring"};
    Fixture *p = *state;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        Pack few = {0}, more = {0}, other = {0};
        PackOptions o = {0};
        Str f = str_format(&p->arena, "%.*s.f", SARG(under(p, kinds[i]))),
            m = str_format(&p->arena, "%.*s.m", SARG(under(p, kinds[i]))),
            x = str_format(&p->arena, "%.*s.o", SARG(under(p, kinds[i])));
        assert_ok(synth_write(str_c(kinds[i]), f, 3, 32 * (i < 3), 1));
        assert_ok(synth_write(str_c(kinds[i]), m, 5, 32 * (i < 3), 1));
        assert_ok(synth_write(str_c(kinds[i]), x, 3, 32 * (i < 3), 2));
        assert_ok(pack_build(&p->arena, f, &o, (Str){0}, &few, NULL));
        assert_ok(pack_build(&p->arena, m, &o, (Str){0}, &more, NULL));
        assert_ok(pack_build(&p->arena, x, &o, (Str){0}, &other, NULL));
        assert_memory_equal(few.records, more.records, 3 * few.stride);
        assert_memory_not_equal(few.records, other.records, 3 * few.stride);
        pack_close(&few);
        pack_close(&more);
        pack_close(&other);
    }
}

static void sizes_that_no_kind_has_are_refused(void **state) {
    Fixture *p = *state;
    assert_refused(synth_write(STR("lognormal"), under(p, "x"), 1, 8, 0), "16 to 2048 pixels");
    assert_refused(synth_write(STR("chains"), under(p, "x"), 1, 31, 0), "32 to 16384 points");
    assert_refused(synth_write(STR("rings"), under(p, "x"), 1, 0, 0), "there are: shapes");
}

// --- features ------------------------------------------------------------------------------------

// shift + scale sin(key + 0.37 i^2 + 1.7 i): numbers that any program can make.
static float *features(Fixture *p, size_t n, uint32_t d, double key, double scale, double shift) {
    float *x = arena_array(&p->arena, float, n *d);
    for (size_t i = 0; i < n * d; i++) {
        double k = (double)i;
        x[i] = (float)(shift + scale * sin(key + k * k * 0.37 + k * 1.7));
    }
    return x;
}

static void needs_frechet(void) {
    if (feature_frechet_ready() ==
        GAN_ERR_INPUT) // built without OpenBLAS; one that fails to load is an error
        skip();
}

// Values by numpy: FID by the eigenvalues of the product of both covariances.
static void the_frechet_distance_is_as_numpy_says(void **state) {
    static const struct {
        size_t na, nb;
        uint32_t d;
        double fid;
    } cases[] = {
        {40, 60, 12, 1.018225423}, {8, 9, 20, 8.792103397}, // fewer samples than numbers
    };
    Fixture *p = *state;
    needs_frechet();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        float *a = features(p, cases[i].na, cases[i].d, 1, 1, 0.1),
              *b = features(p, cases[i].nb, cases[i].d, 2, 0.8, -0.05);
        double fid;
        for (int threads = 1; threads <= 2; threads++) {
            assert_ok(feature_frechet(a, cases[i].na, b, cases[i].nb, cases[i].d, threads, &fid));
            assert_near(fid, cases[i].fid, 2e-7 * cases[i].fid, "FID");
        }
        assert_ok(feature_frechet(a, cases[i].na, a, cases[i].na, cases[i].d, 1, &fid));
        assert_near(fid, 0, 1e-6, "FID of a set with itself");
    }
}

// More samples than are converted at a time: a set repeated twice has the same mean, and the
// covariance times 2 (n - 1) / (2 n - 1).
static void samples_are_taken_in_blocks(void **state) {
    enum { N = 300, D = 5 };
    Fixture *p = *state;
    float *once = features(p, N, D, 1, 1, 0.1), *twice = arena_array(&p->arena, float, 2 * N * D);
    double fid, all = 0, c = sqrt(2.0 * (N - 1) / (2 * N - 1));
    needs_frechet();
    for (uint32_t k = 0; k < D; k++) {
        double mean = 0;
        for (size_t i = 0; i < N; i++)
            mean += once[i * D + k] / (double)N;
        for (size_t i = 0; i < N; i++)
            all += (once[i * D + k] - mean) * (once[i * D + k] - mean) / (N - 1);
    }
    memcpy(twice, once, N * D * sizeof *once);
    memcpy(twice + N * D, once, N * D * sizeof *once);
    assert_ok(feature_frechet(twice, 2 * N, once, N, D, 1, &fid));
    assert_near(fid, all * (1 - c) * (1 - c), 1e-12, "FID of a set and itself twice");
}

static void too_few_features_are_refused(void **state) {
    Fixture *p = *state;
    float *a = features(p, 8, 3, 1, 1, 0);
    double out;
    needs_frechet();
    assert_refused(feature_frechet(a, 1, a, 8, 3, 1, &out), "two samples");
    a[4] = NAN;
    assert_refused(feature_frechet(a, 8, a, 8, 3, 1, &out), "not finite");
}

// Fails each of their allocations in turn.
static void features_without_memory_are_an_error(void **state) {
    Fixture *p = *state;
    float *a = features(p, 8, 3, 1, 1, 0);
    needs_frechet();
    for (size_t n = 1; n <= 2; n++) {
        double out;
        mem_fail_at(n);
        assert_refused(feature_frechet(a, 8, a, 8, 3, 1, &out), "no memory");
    }
    mem_fail_at(0);
}

// --- sounds --------------------------------------------------------------------------------------

// Two tones; values by numpy.
static void spectra_are_those_of_mel_bands(void **state) {
    enum { Length = 2000, Windows = 11, LowWindows = 23 };
    static const struct {
        int window, band;
        double value;
    } of[] = {{0, 0, -3.735875246},  {0, 10, 1.792106677},  {3, 11, -0.525840741},
              {5, 45, -3.724343682}, {9, 46, -4.114358076}, {10, 63, -4.599377618}};
    Fixture *p = *state;
    float *x = arena_array(&p->arena, float, 2 * Length);
    float *out = arena_array(&p->arena, float, LowWindows *MEL_BANDS);
    Sounds s = {.x = x, .n = 1, .length = Length, .channels = 1, .rate = 16000, .lo = -1, .hi = 1};
    for (int i = 0; i < Length; i++)
        x[i] = (float)(0.5 * sin(2 * PI * 440 * i / 16000) + 0.25 * sin(2 * PI * 3000 * i / 16000));
    assert_int_equal(sounds_windows(&s), Windows);
    assert_ok(sounds_spectra(&s, out));
    for (size_t i = 0; i < sizeof of / sizeof *of; i++)
        assert_near(out[of[i].window * MEL_BANDS + of[i].band], of[i].value, 1e-5, "a band");
    // The same sound in another range, and in one of two channels at twice the loudness.
    for (int i = 0; i < Length; i++)
        x[i] = 0.5F + x[i];
    s.lo = 0, s.channels = 2;
    for (int i = 0; i < Length; i++)
        x[Length + i] = 0.5F;
    assert_ok(sounds_spectra(&s, out));
    assert_near(out[10], 1.792106677, 1e-5, "a band of two channels");
    for (int i = 0; i < Length; i++)
        x[i] = (float)(0.5 * sin(2 * PI * 440 * i / 8000));
    s.rate = 8000, s.lo = -1, s.channels = 1;
    assert_int_equal(sounds_windows(&s), LowWindows);
    assert_ok(sounds_spectra(&s, out));
    assert_near(out[2 * MEL_BANDS + 15], -2.553204873, 1e-5, "a band at 8000 a second");
    assert_near(out[20 * MEL_BANDS + 63], -4.602326402, 1e-5, "the last at 8000 a second");
    s.length = 4 * 80 + 199; // four windows, of which none has two on both sides
    assert_false(sounds_measured(&s));
    s.length++;
    assert_true(sounds_measured(&s));
}

// Decaying tones with pitches from `pitch` to twice that; `still`: they do not decay.
static float *tones(Fixture *p, size_t n, size_t length, uint64_t seed, double pitch, bool still) {
    float *x = arena_array(&p->arena, float, n *length);
    for (size_t i = 0; i < n; i++) {
        double f = pitch * (1 + synth_uniform(seed, i, 0));
        for (size_t k = 0; k < length; k++) {
            double t = (double)k / 16000;
            x[i * length + k] = (float)(0.5 * sin(2 * PI * f * t) * (still ? 0.5 : exp(-20 * t)));
        }
    }
    return x;
}

static void audio_distance_grows_with_dissimilarity(void **state) {
    enum { N = 40, Length = 4000 };
    Fixture *p = *state;
    double same, other, higher, still, copies;
    Sounds a = {.x = tones(p, N, Length, 1, 400, false),
                .n = N,
                .length = Length,
                .channels = 1,
                .rate = 16000,
                .lo = -1,
                .hi = 1},
           b = a;
    b.x = tones(p, N, Length, 2, 400, false);
    assert_ok(sounds_error(&a, &a, &copies));
    assert_true(copies == 0);
    assert_ok(sounds_error(&a, &b, &copies));
    assert_true(copies > 0.1);
    needs_frechet();
    assert_ok(sounds_frechet(&a, &a, 1, &same));
    assert_near(same, 0, 1e-6, "a set and itself");
    assert_ok(sounds_frechet(&b, &a, 1, &other));
    b.x = tones(p, N, Length, 2, 500, false);
    assert_ok(sounds_frechet(&b, &a, 1, &higher));
    b.x = tones(p, N, Length, 2, 400, true);
    assert_ok(sounds_frechet(&b, &a, 1, &still));
    if (!(other > 0.01 && higher > 3 * other && still > 3 * other))
        fail_msg("others %g, higher %g, still %g", other, higher, still);
}

// --- sliced Wasserstein distance -----------------------------------------------------------------

static GanStatus multiply(const float *a, const float *b, size_t m, size_t n, size_t k, float *c) {
    for (size_t i = 0; i < m * n; i++) {
        float sum = 0;
        for (size_t t = 0; t < k; t++)
            sum += a[i / n * k + t] * b[i % n * k + t];
        c[i] = sum;
    }
    return GAN_OK;
}

static int by_float(const void *a, const void *b) {
    float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

// Along one axis every direction is 1 or -1, to rounding. Numbers of both signs and many exponents,
// some equal.
static void in_one_dimension_the_distance_is_that_of_sorted_values(void **state) {
    (void)state;
    enum { N = 3000 };
    static float x[2][N], sorted[2][N];
    Order noise = {.n = 1, .seed = 6};
    double sum = 0;
    SwdOptions o = {.product = multiply};
    SwdResult r;
    for (uint32_t s = 0; s < 2; s++) {
        for (uint32_t i = 0; i < N; i++) {
            uint64_t bits = order_draw(&noise, s, i, 0);
            float u = (float)(bits >> 56) / 16 - 8 + (float)s;
            x[s][i] = i % 3 ? ldexpf(u, (int)(bits % 64) - 60) : u;
        }
        memcpy(sorted[s], x[s], sizeof sorted[s]);
        qsort(sorted[s], N, sizeof *sorted[s], by_float);
    }
    for (uint32_t i = 0; i < N; i++)
        sum += fabs((double)sorted[0][i] - sorted[1][i]);
    assert_ok(swd_measure(x[0], N, x[1], N, (const uint32_t[]){1, 1, 1}, &o, &r));
    assert_true(r.pixels > 0.1 && fabs(r.pixels * N / sum - 1) < 1e-7);
}

static void the_distance_is_zero_for_equal_sets_and_grows(void **state) {
    (void)state;
    enum { N = 24, D = 3 * 32 * 32 };
    float *a = calloc(N * D, sizeof *a), *b = calloc(N * D, sizeof *b);
    uint32_t chw[3] = {3, 32, 32};
    Order noise = {.n = 1, .seed = 5};
    double last = 0;
    SwdOptions o = {.product = multiply, .projections = 32, .patches = 16};
    SwdResult r = {0};
    for (uint32_t i = 0; i < N * D; i++)
        a[i] = (float)(order_draw(&noise, 0, i, 0) >> 40) / 16777216 - 0.5f;
    for (uint32_t k = 0; k < 3; k++) {
        for (uint32_t i = 0; i < N * D; i++)
            b[i] = a[i] + 0.4f * (float)k * (i / 16 % 2 ? 1.0f : -1.0f);
        assert_ok(swd_measure(a, N, b, N, chw, &o, &r));
        assert_int_equal(r.levels, 2);
        if (k == 0)
            assert_true(r.pixels == 0 && r.mean == 0);
        else
            assert_true(r.pixels > last && r.mean > 0);
        last = r.pixels;
    }
    assert_ok(swd_measure(a, N, a, N / 2, chw, &o, &r)); // sets of different sizes
    assert_true(r.pixels > 0 && r.pixels < last);
    // In one dimension the distance between constants is their difference.
    float one[2] = {1, 1}, four[3] = {4, 4, 4};
    assert_ok(swd_measure(one, 2, four, 3, (const uint32_t[]){1, 1, 1}, &o, &r));
    assert_true(fabs(r.pixels - 3) < 1e-6 && r.levels == 0);
    free(a);
    free(b);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        T(the_transform_is_its_sum_for_any_side),
        T(spectra_are_those_of_mel_bands),
        T(audio_distance_grows_with_dissimilarity),
        T(a_histogram_counts_in_fiftieths_and_loses_nothing),
        T(chi_square_is_relative_to_the_second),
        T(a_wave_has_its_power_in_its_own_ring),
        T(chamfer_takes_the_nearest_both_ways),
        T(matching_finds_the_nearest_cloud_and_coverage),
        T(a_plot_has_its_dots_at_the_points),
        T(the_eight_of_a_ring_are_found_and_their_coverage_counted),
        T(one_cluster_has_a_low_silhouette),
        T(agreement_is_the_adjusted_rand_index),
        T(few_points_are_few_groups),
        T(lognormal_maps_have_the_promised_statistics),
        T(chains_keep_their_bonds_and_show_four_states),
        T(outlines_are_the_edges_of_the_same_shapes),
        T(a_longer_set_begins_with_the_shorter_and_seeds_differ),
        T(sizes_that_no_kind_has_are_refused),
        T(the_frechet_distance_is_as_numpy_says),
        T(samples_are_taken_in_blocks),
        T(too_few_features_are_refused),
        T(features_without_memory_are_an_error),
        T(in_one_dimension_the_distance_is_that_of_sorted_values),
        T(the_distance_is_zero_for_equal_sets_and_grows),
    };
    if (CASES_LISTED(tests))
        return 0;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
