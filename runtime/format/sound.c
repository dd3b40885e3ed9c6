// sound.c - sounds in WAV files, by libsndfile: PCM of 8 to 32 bits and floating point, any number
// of channels and rate.
//
// In: bytes of a file, in memory. Out: f32, channels first, integers scaled to -1..1. No allocation
// depends on the header: the caller says how many frames may be filled.
#include "library.h"
#include "format.h"

#include <math.h>
#include <sndfile.h>
#include <string.h>

// --- the library's view of memory ----------------------------------------------------------------

typedef struct Memory {
    const uint8_t *data;
    sf_count_t n, at;
} Memory;

static sf_count_t memory_length(void *user) {
    return ((const Memory *)user)->n;
}

static sf_count_t memory_tell(void *user) {
    return ((const Memory *)user)->at;
}

static sf_count_t memory_seek(sf_count_t offset, int whence, void *user) {
    Memory *m = user;
    sf_count_t from = whence == SEEK_SET ? 0 : whence == SEEK_CUR ? m->at : m->n;
    if (offset < -from || offset > m->n - from)
        return -1;
    return m->at = from + offset;
}

static sf_count_t memory_read(void *to, sf_count_t n, void *user) {
    Memory *m = user;
    sf_count_t left = m->n - m->at, got = n < 0 ? 0 : n < left ? n : left;
    memcpy(to, m->data + m->at, (size_t)got);
    m->at += got;
    return got;
}

static sf_count_t memory_write(const void *from, sf_count_t n, void *user) {
    (void)from, (void)n, (void)user;
    return 0;
}

// Whether the file ends before its data chunk does. Programs that write to a pipe give a size of
// zero or of the maximum; some include the header.
static bool is_cut(const uint8_t *data, size_t n) {
    enum { Head = 8, Header = 44, Unknown = 0x7f000000 };
    for (size_t at = 12; at + Head <= n;) {
        const uint8_t *b = data + at + 4;
        size_t size = (size_t)b[0] | (size_t)b[1] << 8 | (size_t)b[2] << 16 | (size_t)b[3] << 24;
        at += Head;
        if (memcmp(b - 4, "data", 4) == 0)
            return size < Unknown && size > n - at + Header;
        at += size + size % 2;
    }
    return false;
}

static GanStatus open_memory(Memory *m, SNDFILE **out, Sound *is) {
    SF_VIRTUAL_IO io = {memory_length, memory_seek, memory_read, memory_write, memory_tell};
    SF_INFO info = {0};
    TRY(sound_ready());
    *out = sf_open_virtual(&io, SFM_READ, &info, m);
    if (!*out)
        return fail(GAN_ERR_INPUT, "a damaged WAV sound: %s", sf_strerror(NULL));
    *is = (Sound){(uint32_t)info.channels, (uint32_t)info.samplerate,
                  info.frames > 0 ? (uint64_t)info.frames : 0};
    bool cut = is_cut(m->data, (size_t)m->n);
    if (!cut && info.channels >= 1 && info.channels <= SOUND_CHANNELS && info.samplerate >= 1 &&
        is->frames)
        return GAN_OK;
    sf_close(*out);
    if (cut)
        return fail(GAN_ERR_INPUT, "broken WAV: the file ends too early");
    return fail(GAN_ERR_INPUT, "a WAV sound of %d channels, %lld samples each", info.channels,
                (long long)info.frames);
}

GanStatus sound_look(const uint8_t *data, size_t n, Sound *out) {
    Memory m = {data, (sf_count_t)n, 0};
    SNDFILE *f = NULL;
    TRY(open_memory(&m, &f, out));
    sf_close(f);
    return GAN_OK;
}

// --- numbers -------------------------------------------------------------------------------------

// Frames until `length` or the end, a piece at a time, to channels first.
static GanStatus read_frames(SNDFILE *f, uint32_t channels, size_t length, float *out) {
    enum { Piece = 1024 };
    float piece[Piece * SOUND_CHANNELS];
    for (size_t at = 0; at < length;) {
        size_t want = length - at < Piece ? length - at : Piece;
        sf_count_t got = sf_readf_float(f, piece, (sf_count_t)want);
        for (size_t i = 0; i < (size_t)(got > 0 ? got : 0); i++)
            for (uint32_t c = 0; c < channels; c++) {
                float x = piece[i * channels + c];
                if (!isfinite(x))
                    return fail(GAN_ERR_INPUT, "it holds numbers that are not finite");
                out[c * length + at + i] = x;
            }
        if (got < (sf_count_t)want)
            return GAN_OK;
        at += want;
    }
    return GAN_OK;
}

GanStatus sound_read(const uint8_t *data, size_t n, const Sound *want, size_t length, float *out,
                     Sound *is) {
    Memory m = {data, (sf_count_t)n, 0};
    SNDFILE *f = NULL;
    TRY(open_memory(&m, &f, is));
    GanStatus st = GAN_OK;
    if (is->rate != want->rate)
        st = fail(
            GAN_ERR_INPUT,
            "%u Hz, and others have %u Hz: convert it first, as by `sox OLD.wav -r %u NEW.wav`",
            is->rate, want->rate, want->rate);
    else if (is->channels != want->channels)
        st = fail(GAN_ERR_INPUT,
                  "%u channels, and others have %u: convert it first, as by `sox OLD.wav -c %u "
                  "NEW.wav`",
                  is->channels, want->channels, want->channels);
    if (st == GAN_OK)
        st = read_frames(f, is->channels, length, out);
    sf_close(f);
    return st;
}
