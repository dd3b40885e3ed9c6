// sound_write.c - samples as a WAV file: PCM of 16 bits, which every player reads.
#include "format.h"

#include <math.h>

enum { HeaderBytes = 44, PieceFrames = 4096 };

static void put(uint8_t *to, uint32_t bytes, uint64_t value) {
    for (uint32_t i = 0; i < bytes; i++)
        to[i] = (uint8_t)(value >> 8 * i);
}

static void put_text(uint8_t *to, const char text[4]) {
    for (uint32_t i = 0; i < 4; i++)
        to[i] = (uint8_t)text[i];
}

// RIFF, "fmt " of 16 bytes, "data" (Microsoft and IBM, Multimedia Programming Interface 1.0, 1991).
static void make_header(uint8_t h[HeaderBytes], uint32_t channels, uint32_t rate, uint64_t bytes) {
    put_text(h, "RIFF"), put(h + 4, 4, bytes + HeaderBytes - 8), put_text(h + 8, "WAVE");
    put_text(h + 12, "fmt "), put(h + 16, 4, 16);
    put(h + 20, 2, 1), put(h + 22, 2, channels); // 1: PCM
    put(h + 24, 4, rate), put(h + 28, 4, (uint64_t)rate * channels * 2);
    put(h + 32, 2, channels * 2), put(h + 34, 2, 16);
    put_text(h + 36, "data"), put(h + 40, 4, bytes);
}

static uint16_t to_pcm(double x) {
    double v = nearbyint(fmin(1, fmax(-1, isnan(x) ? 0 : x)) * 32767);
    return (uint16_t)(int16_t)v;
}

typedef struct Range {
    double middle, half;
} Range;

// One sound of f32 [channels, frames], or silence where x is NULL.
static GanStatus put_sound(FileOut *f, const float *x, uint32_t channels, size_t frames, Range r) {
    uint8_t piece[PieceFrames * 2 * SOUND_CHANNELS];
    for (size_t at = 0; at < frames; at += PieceFrames) {
        size_t n = frames - at < PieceFrames ? frames - at : PieceFrames;
        for (size_t i = 0; i < n * channels; i++) {
            double v = x ? (x[i % channels * frames + at + i / channels] - r.middle) / r.half : 0;
            put(piece + 2 * i, 2, to_pcm(v));
        }
        TRY(file_out_put(f, piece, n * channels * 2));
    }
    return GAN_OK;
}

GanStatus sound_write(Str path, const Sounds *s) {
    const Range range = {(s->lo + s->hi) / 2, (s->hi - s->lo) / 2};
    uint32_t channels = s->channels;
    size_t gap = s->rate / 4, all = s->n * s->length + (s->n ? s->n - 1 : 0) * gap;
    uint8_t header[HeaderBytes];
    FileOut *f = NULL;
    if (all * channels * 2 > UINT32_MAX - HeaderBytes)
        return fail(GAN_ERR_USAGE, "%.*s: a WAV file holds 4 GiB; %zu sounds are more", SARG(path),
                    s->n);
    make_header(header, channels, s->rate, all * channels * 2);
    TRY(file_out_open(path, &f));
    GanStatus st = file_out_put(f, header, sizeof header);
    for (size_t i = 0; st == GAN_OK && i < s->n; i++) {
        if (i)
            st = put_sound(f, NULL, channels, gap, range);
        if (st == GAN_OK)
            st = put_sound(f, s->x + i * channels * s->length, channels, s->length, range);
    }
    if (st == GAN_OK)
        return file_out_commit(f);
    file_out_abandon(f);
    return st;
}
