// measure_sounds.c - distances of sounds by their log-mel spectra.
//
// The spectra are the input features of VGGish, the net of the Frechet audio distance (Kilgour et
// al. 2019; Hershey et al. 2017, whose code has the constants): Hann windows of 25 ms every 10 ms,
// FFT magnitudes in 64 mel triangles from 125 to 7500 Hz, log(m + 0.01). At other sample rates than
// its 16 kHz windows are as long in time, and triangles end at half the rate. Channels are
// averaged.
#include "fft.h"
#include "measure.h"

#include <math.h>
#include <string.h>

enum { Reach = 2 };        // windows on both sides that a derivative is computed from
enum { RateLeast = 1000 }; // below, the mel bands are empty

typedef struct Windows {
    size_t width, hop, n; // samples of a window, between windows; windows of a sound
    size_t points;        // of the FFT
} Windows;

static Windows windows_of(size_t length, uint32_t rate) {
    Windows w = {.width = (size_t)(0.025 * rate + 0.5), .hop = (size_t)(0.010 * rate + 0.5)};
    w.n = w.hop && length >= w.width ? 1 + (length - w.width) / w.hop : 0;
    for (w.points = 1; w.points < w.width;)
        w.points *= 2;
    return w;
}

size_t sounds_windows(const Sounds *s) {
    return windows_of(s->length, s->rate).n;
}

bool sounds_measured(const Sounds *s) {
    return s->rate >= RateLeast && sounds_windows(s) > 2 * Reach;
}

// --- spectra -------------------------------------------------------------------------------------

static double mel(double hertz) {
    return 1127 * log(1 + hertz / 700);
}

typedef struct Bank { // owned
    Windows w;
    FftLines lines; // the windows of one sound
    FftPlan *plan;
    double *hann;     // [width]
    double *weight;   // [MEL_BANDS, points/2 + 1]
    double *in, *out; // [windows, points], [windows, points/2 + 1, 2]
    double *room;
} Bank;

static void make_weights(double *weight, size_t points, uint32_t rate) {
    double low = mel(125), high = mel(fmin(7500, rate / 2.0)),
           step = (high - low) / (MEL_BANDS + 1);
    size_t bins = points / 2 + 1;
    for (uint32_t b = 0; b < MEL_BANDS; b++)
        for (size_t k = 1; k < bins; k++) { // without the zero frequency
            double at = (mel((double)k * rate / (double)points) - low) / step - b;
            weight[b * bins + k] = fmax(0, fmin(at, 2 - at));
        }
}

static void bank_release(Bank *k) {
    fft_free(k->plan);
    mem_free(k->hann);
    mem_free(k->weight);
    mem_free(k->in);
    mem_free(k->out);
    mem_free_aligned(k->room);
}

static GanStatus bank_make(const Sounds *s, Bank *k) {
    Windows w = windows_of(s->length, s->rate);
    int64_t points = (int64_t)w.points;
    *k = (Bank){.w = w};
    k->lines = (FftLines){.n = points,
                          .lines = (int64_t)w.n,
                          .in = {.real = true, .n = points, .line = points, .step = 1},
                          .out = {.n = points / 2 + 1, .line = points + 2, .step = 2, .part = 1}};
    TRY(fft_make(&k->lines, &k->plan));
    k->hann = mem_alloc(w.width * sizeof *k->hann);
    k->weight = mem_alloc(MEL_BANDS * (w.points / 2 + 1) * sizeof *k->weight);
    k->in = mem_alloc(w.n * w.points * sizeof *k->in);
    k->out = mem_alloc(w.n * (w.points + 2) * sizeof *k->out);
    k->room = mem_alloc_aligned(fft_room(k->plan) * sizeof *k->room, 64);
    if (!k->hann || !k->weight || !k->in || !k->out || !k->room)
        return fail(GAN_ERR_MEMORY, "no memory for the spectra of %zu windows", w.n);
    for (size_t i = 0; i < w.width; i++)
        k->hann[i] = 0.5 - 0.5 * cos(6.283185307179586 * (double)i / (double)w.width);
    make_weights(k->weight, w.points, s->rate);
    return GAN_OK;
}

// Sound i of s to out [windows, MEL_BANDS].
static void add_spectra(const Sounds *s, size_t i, const Bank *k, float *out) {
    const Windows *w = &k->w;
    const float *x = s->x + i * s->channels * s->length;
    double middle = (s->lo + s->hi) / 2, half = s->hi - middle;
    for (size_t at = 0; at < w->n; at++)
        for (size_t j = 0; j < w->width; j++) {
            double sum = 0;
            for (uint32_t c = 0; c < s->channels; c++)
                sum += x[c * s->length + at * w->hop + j] - middle;
            k->in[at * w->points + j] = k->hann[j] * sum / (s->channels * half);
        }
    fft_run64(k->plan, &k->lines, k->in, k->out, 0, fft_groups(&k->lines), k->room);
    size_t bins = w->points / 2 + 1;
    for (size_t at = 0; at < w->n; at++) {
        double *line = k->out + at * 2 * bins;
        for (size_t f = 0; f < bins; f++)
            line[f] = hypot(line[2 * f], line[2 * f + 1]);
        for (uint32_t b = 0; b < MEL_BANDS; b++) {
            double sum = 0;
            for (size_t f = 0; f < bins; f++)
                sum += k->weight[b * bins + f] * line[f];
            out[at * MEL_BANDS + b] = (float)log(sum + 0.01);
        }
    }
}

GanStatus sounds_spectra(const Sounds *s, float *out) {
    Bank k;
    GanStatus st = bank_make(s, &k);
    for (size_t i = 0; st == GAN_OK && i < s->n; i++)
        add_spectra(s, i, &k, out + i * k.w.n * MEL_BANDS);
    bank_release(&k);
    return st;
}

static GanStatus spectra_of(const Sounds *s, float **out) {
    size_t numbers;
    bool fits = mem_mul(s->n, sounds_windows(s) * MEL_BANDS * sizeof **out, &numbers);
    *out = fits ? mem_alloc(numbers) : NULL;
    if (!*out)
        return fail(GAN_ERR_MEMORY, "no memory for the spectra of %zu sounds", s->n);
    return sounds_spectra(s, *out);
}

// --- distances -----------------------------------------------------------------------------------

GanStatus sounds_error(const Sounds *a, const Sounds *b, double *out) {
    float *x[2] = {NULL, NULL};
    GanStatus st = GAN_OK;
    size_t n = a->n * sounds_windows(a) * MEL_BANDS;
    TRY_OUT(spectra_of(a, &x[0]));
    TRY_OUT(spectra_of(b, &x[1]));
    *out = 0;
    for (size_t i = 0; i < n; i++)
        *out += fabs((double)x[0][i] - x[1][i]) / (double)n;
out:
    mem_free(x[0]);
    mem_free(x[1]);
    return st;
}

// Spectra [n, windows, MEL_BANDS] and their delta features, the slope of a line through five
// windows (Furui 1986): *out [*rows, 2 MEL_BANDS], owned by the caller.
static GanStatus features_of(const Sounds *s, float **out, size_t *rows) {
    size_t windows = sounds_windows(s), each = windows - 2 * Reach, numbers;
    float *x = NULL;
    *rows = s->n * each;
    bool fits = mem_mul(*rows, 2 * MEL_BANDS * sizeof **out, &numbers);
    *out = fits ? mem_alloc(numbers) : NULL;
    GanStatus st =
        *out ? spectra_of(s, &x) : fail(GAN_ERR_MEMORY, "no memory to compare %zu sounds", s->n);
    for (size_t i = 0; st == GAN_OK && i < *rows; i++) {
        const float *at = x + (i / each * windows + i % each + Reach) * MEL_BANDS;
        float *to = *out + i * 2 * MEL_BANDS;
        for (int b = 0; b < MEL_BANDS; b++) {
            const float *v = at + b;
            to[b] = *v;
            to[MEL_BANDS + b] =
                (v[MEL_BANDS] - v[-MEL_BANDS] + 2 * (v[2 * MEL_BANDS] - v[-2 * MEL_BANDS])) / 10;
        }
    }
    mem_free(x);
    return st;
}

GanStatus sounds_frechet(const Sounds *a, const Sounds *b, int threads, double *out) {
    float *x[2] = {NULL, NULL};
    size_t n[2];
    GanStatus st = GAN_OK;
    TRY_OUT(features_of(a, &x[0], &n[0]));
    TRY_OUT(features_of(b, &x[1], &n[1]));
    st = feature_frechet(x[0], n[0], x[1], n[1], 2 * MEL_BANDS, threads, out);
out:
    mem_free(x[0]);
    mem_free(x[1]);
    return st;
}
