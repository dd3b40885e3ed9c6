// sound_fuzz.c - a WAV file from any bytes: its header, then as many samples as a model would read.
#include "sources.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    enum { Length = 5000 };
    static float room[SOUND_CHANNELS * Length];
    Sound first, is;
    if (sound_is(data, size) && sound_look(data, size, &first) == GAN_OK)
        (void)sound_read(data, size, &first, Length, room, &is);
    return 0;
}
