// npy_fuzz.c - an npy, IDX or CIFAR array from bytes, every element read.
#include "sources.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    Array a = {0};
    volatile double sum = 0;
    if (npy_parse(data, size, &a) == GAN_OK || idx_parse(data, size, &a) == GAN_OK)
        for (size_t i = 0; i < a.count; i++)
            sum += array_at(&a, i);
    size_t head;
    if (cifar_parse(data, size, &a, &head) == GAN_OK)
        sum += a.data[(a.count / (size_t)a.dim[0] + head) * (size_t)a.dim[0] - 1];
    (void)sum;
    return 0;
}
