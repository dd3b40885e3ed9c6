// lmdb_fuzz.c - an LMDB file from bytes: every entry, every byte of its key and value.
#include "fuzz.h"

#include "sources.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    enum { BytesMost = 1 << 20 }; // entries may share a value, however large
    Lmdb l;
    LmdbEntry e;
    bool end = false;
    volatile uint32_t sum = 0;
    size_t bytes = 0;
    if (lmdb_open(data, size, &l) != GAN_OK)
        return 0;
    while (bytes < BytesMost && lmdb_next(&l, &e, &end) == GAN_OK && !end) {
        if ((e.value == NULL) != (e.why != NULL))
            bug("an entry without a value, or a reason for none");
        for (size_t i = 0; i < e.key.len; i++)
            sum += (uint8_t)e.key.ptr[i];
        for (size_t i = 0; e.value && i < e.n && i < BytesMost; i++)
            sum += e.value[i];
        bytes += e.n;
    }
    (void)sum;
    return 0;
}
