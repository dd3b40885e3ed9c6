// pack_sounds.c - a pack of sounds, from a folder or archive of WAV files: f32 [channels, length].
//
// All have the sample rate and channels of the first that can be read; others are refused, and the
// message says how to convert them. A sample is the beginning of a sound, padded with silence.
#include "pack_build.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

typedef struct Heard { // of one sound, behind its record
    uint64_t frames;
    float loudest; // magnitude
} Heard;

static float loudest_of(const float *x, size_t n) {
    float most = 0;
    for (size_t i = 0; i < n; i++)
        most = fabsf(x[i]) > most ? fabsf(x[i]) : most;
    return most;
}

static GanStatus work_sound(void *user, const Item *item, void *result) {
    const Build *b = user;
    Sound is;
    if (!sound_is(item->bytes, item->n))
        return fail(GAN_ERR_INPUT, "not a WAV sound, as the others are");
    uint64_t length = (uint64_t)b->field[0].dim[1];
    TRY(sound_read(item->bytes, item->n, &b->sound, (size_t)length, result, &is));
    if (!b->o->length && is.frames != length)
        return fail(GAN_ERR_USAGE,
                    "it has %" PRIu64 " samples at %u Hz, the first %" PRIu64
                    ": give all one length with --length N",
                    is.frames, is.rate, length);
    Heard heard = {is.frames, loudest_of(result, is.channels * (size_t)length)};
    memcpy((uint8_t *)result + pack_writer_stride(b->writer), &heard, sizeof heard);
    return build_put_label_of(b, item->name, result);
}

static GanStatus done_sound(void *user, const Item *item, GanStatus st, const char *reason,
                            void *result) {
    Build *b = user;
    uint64_t length = (uint64_t)b->field[0].dim[1];
    Heard heard;
    if (st != GAN_OK)
        return build_refuse(b, item->name, st, reason);
    memcpy(&heard, (uint8_t *)result + pack_writer_stride(b->writer), sizeof heard);
    b->sum.shorter += heard.frames < length;
    b->sum.longer += heard.frames > length;
    b->sum.louder += heard.loudest > 1;
    b->sum.loudest = heard.loudest > b->sum.loudest ? heard.loudest : b->sum.loudest;
    b->sum.good++;
    build_progress(b);
    return pack_writer_add(b->writer, result, item->name);
}

static GanStatus check_options(const Build *b) {
    const PackOptions *o = b->o;
    const OptionCheck useless[] = {{o->w > 0, "--size", "images"},
                                   {o->bits > 0, "--bits", "images"},
                                   {o->fit != FitAuto, "--fit", "images"},
                                   {o->background_set, "--background", "images"},
                                   {o->channels_last, "--channels-last", "arrays"}};
    if (o->implied && o->w)
        return fail(GAN_ERR_INPUT, "%.*s: these are sounds; images are needed", SARG(b->path));
    TRY(build_check_options(b, "sounds", sizeof useless / sizeof *useless, useless));
    if (o->channels && b->sound.channels && o->channels != b->sound.channels)
        return fail(o->implied ? GAN_ERR_INPUT : GAN_ERR_USAGE,
                    "%.*s: the sounds have %u channel%s, not %u", SARG(b->path), b->sound.channels,
                    b->sound.channels == 1 ? "" : "s", o->channels);
    return GAN_OK;
}

GanStatus build_sounds(Build *b) {
    uint64_t length = b->o->length ? b->o->length : b->sound.frames;
    TRY(check_options(b));
    // If nothing is readable, the same walk with any size reports every file with its reason.
    b->field[b->fields++] = (PackField){
        .name = STR("x"),
        .kind = DataFloat,
        .dtype = PackF32,
        .rank = 2,
        .dim = {b->sound.channels ? b->sound.channels : 1, length ? (int64_t)length : 1},
        .lo = -1,
        .hi = 1,
        .rate = b->sound.rate};

    return build_members(b, work_sound, done_sound, sizeof(Heard));
}
