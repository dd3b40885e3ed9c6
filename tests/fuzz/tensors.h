// tensors.h - shared by fuzz targets of tensor files: every element of every tensor is read.
#ifndef GAN_FUZZ_TENSORS_H
#define GAN_FUZZ_TENSORS_H

#include "fuzz.h"
#include "safetensors.h"

static inline int read_all_tensors(SafeReader *reader, const uint8_t *data, size_t size) {
    Arena arena = {0};
    SafeFile file = {0};
    if (arena_init(&arena, (size_t)1 << 30) != GAN_OK)
        return 0;
    volatile double sum = 0;
    if (reader(&arena, data, size, &file) == GAN_OK) {
        for (uint32_t t = 0; t < file.tensor.n; t++) {
            const SafeTensor *tensor = &file.tensor.at[t];
            if (safe_find(&file, tensor->name) == NULL)
                bug("a tensor that cannot be found");
            for (size_t i = 0; i < tensor->count; i++)
                sum += safe_at(tensor, i);
        }
    }
    arena_release(&arena);
    (void)sum;
    return 0;
}

#endif
