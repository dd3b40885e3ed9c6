// idx.c - the format of MNIST and its variants: unsigned bytes, big-endian extents.
#include "format.h"

GanStatus idx_parse(const uint8_t *data, size_t n, Array *out) {
    *out = (Array){0};
    if (n < 4 || data[0] != 0 || data[1] != 0)
        return fail(GAN_ERR_INPUT, "not an IDX file");
    if (data[2] != 0x08) {
        return fail(GAN_ERR_INPUT, "IDX of type 0x%02x is not supported; unsigned bytes (0x08) are",
                    data[2]);
    }
    uint32_t rank = data[3];
    if (rank < 1 || rank > 4)
        return fail(GAN_ERR_INPUT, "IDX of %u axes is not read", rank);
    if (n < 4 + 4 * (size_t)rank)
        return fail(GAN_ERR_INPUT, "IDX file ends in its header");
    size_t count = 1;
    for (uint32_t i = 0; i < rank; i++) {
        const uint8_t *p = data + 4 + 4 * (size_t)i;
        out->dim[i] = (int64_t)p[0] << 24 | (int64_t)p[1] << 16 | (int64_t)p[2] << 8 | p[3];
        if (!mem_mul(count, (size_t)out->dim[i], &count))
            return fail(GAN_ERR_INPUT, "IDX shape is too large");
    }
    size_t have = n - 4 - 4 * (size_t)rank;
    if (count != have)
        return fail(GAN_ERR_INPUT, "IDX has %zu bytes of data, its shape needs %zu", have, count);
    out->kind = 'u';
    out->size = 1;
    out->rank = rank;
    out->data = data + n - have;
    out->count = count;
    return GAN_OK;
}
