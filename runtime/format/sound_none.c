// sound_none.c - built without libsndfile: WAV files are refused, and the message says what to do.
#include "library.h"
#include "format.h"

GanStatus sound_ready(void) {
    return fail(GAN_ERR_INPUT,
                "a WAV sound, and this program was built without libsndfile: install "
                "libsndfile1-dev and build again, or pack an .npy of all sounds, float32 [n, 1, "
                "samples]");
}

GanStatus sound_look(const uint8_t *data, size_t n, Sound *out) {
    (void)data, (void)n;
    *out = (Sound){0};
    return sound_ready();
}

GanStatus sound_read(const uint8_t *data, size_t n, const Sound *want, size_t length, float *out,
                     Sound *is) {
    (void)data, (void)n, (void)want, (void)length, (void)out;
    *is = (Sound){0};
    return sound_ready();
}
