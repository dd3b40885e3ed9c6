// synth_tones.c - `tones`: plucked strings, a WAV file each or together in a pack, for models of
// sound.
//
// A tone has a pitch from A2 to A5, on the scale of twelve, and partials that fade the faster the
// higher they are, as those of a string do (Fletcher, Rossing 1998, chapter 2).
#include "synth.h"

#include <math.h>

enum { Rate = 16000, Partials = 8, Pitches = 37 };

static GanStatus draw_tone(const SynthJob *j, uint64_t i, float *x) {
    double pitch = 110 * exp2(floor(synth_uniform(j->seed, i, 0) * Pitches) / 12);
    double loud = 0.3 + 0.5 * synth_uniform(j->seed, i, 1);
    double begin = 0.05 * j->size * synth_uniform(j->seed, i, 2);
    for (uint32_t n = 0; n < j->size; n++) {
        double t = (n - begin) / Rate, sum = 0;
        for (int k = 1; t > 0 && k <= Partials && k * pitch < Rate / 2; k++)
            sum += sin(2 * SYNTH_PI * k * pitch * t) * exp(-t * (2 + 3 * k)) / (k * k);
        x[n] = (float)(loud * sum);
    }
    return GAN_OK;
}

static GanStatus write_folder(const SynthJob *j) {
    float *x = mem_alloc(j->size * sizeof *x);
    if (!x)
        return fail(GAN_ERR_MEMORY, "no memory for a sound of %u numbers", j->size);
    GanStatus st = dir_make(j->path);
    for (uint64_t i = 0; st == GAN_OK && i < j->count; i++) {
        char path[4096];
        int n = snprintf(path, sizeof path, "%.*s/%08u.wav", SARG(j->path), (unsigned)i);
        TRY_OUT(draw_tone(j, i, x));
        st = n > 0 && (size_t)n < sizeof path
                 ? sound_write((Str){path, (size_t)n}, &(Sounds){x, 1, j->size, 1, Rate, -1, 1})
                 : fail(GAN_ERR_USAGE, "%.*s: too long a path", SARG(j->path));
    }
out:
    mem_free(x);
    return st;
}

GanStatus synth_tones(const SynthJob *j) {
    return synth_to_pack(j) ? synth_floats(j, 2, (const int64_t[]){1, j->size}, Rate, draw_tone)
                            : write_folder(j);
}
