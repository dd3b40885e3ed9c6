// pack_fuzz.c - a pack from any bytes: opening, verifying and reading every sample of whatever
// opens.
//
// Hashes would reject nearly every damaged input at once, so each is tried a second time with magic
// number, sizes and header hash corrected: then the header's own checks protect the reader.
#include "pack_format.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void read_all(const uint8_t *data, size_t size) {
    Arena arena = {0};
    Pack pack = {0};
    if (arena_init(&arena, (size_t)1 << 30) != GAN_OK)
        return;
    volatile uint64_t sum = 0; // every byte is touched
    if (pack_open_bytes(&arena, data, size, &pack) == GAN_OK) {
        if (pack_verify(&pack) == GAN_OK)
            sum++;
        for (uint64_t i = 0; i < pack.count; i++) {
            Str name = pack_name(&pack, i);
            for (size_t k = 0; k < name.len; k++)
                sum += (uint8_t)name.ptr[k];
            for (size_t k = 0; k < pack.stride; k++)
                sum += pack_record(&pack, i)[k];
            for (uint32_t f = 0; f < pack.fields; f++) {
                const PackField *field = &pack.field[f];
                for (size_t k = 0; k < field->bytes; k++)
                    sum += pack_record(&pack, i)[field->offset + k];
            }
        }
    }
    pack_close(&pack);
    arena_release(&arena);
}

// The header's place is kept where the trailer gives a possible one.
static void make_good(uint8_t *data, size_t size) {
    static const char lead[PackLead] = PACK_LEAD_TEXT;
    PackTrailer t;
    size_t room = size - sizeof t;
    memcpy(data, lead, PackLead);
    memcpy(&t, data + room, sizeof t);
    memcpy(t.begin, PACK_END, sizeof t.begin);
    memcpy(t.end, PACK_MAGIC, sizeof t.end);
    t.order = PACK_ORDER;
    t.version = PackVersion;
    t.file_size = size;
    if (t.header < PackLead || t.header > room)
        t.header = PackLead;
    t.header_size = room - t.header;
    t.hash = hash128(data + t.header, (size_t)t.header_size);
    memcpy(data + room, &t, sizeof t);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    read_all(data, size);
    if (size < PackLead + sizeof(PackTrailer))
        return 0;
    uint8_t *copy = malloc(size);
    if (!copy)
        return 0;
    memcpy(copy, data, size);
    make_good(copy, size);
    read_all(copy, size);
    free(copy);
    return 0;
}
