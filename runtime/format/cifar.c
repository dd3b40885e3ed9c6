// cifar.c - the binaries of CIFAR-10 (a class and an image) and CIFAR-100 (a coarse class, a fine
// one and an image). They have no header: they are recognized by their size and class values.
#include "format.h"

enum { Pixels = 3 * 32 * 32 };

// Are all classes of records of `head` labels below `most[]`?
static bool classes_fit(const uint8_t *data, size_t n, size_t head, const uint8_t *most) {
    for (size_t at = 0; at < n; at += head + Pixels)
        for (size_t i = 0; i < head; i++)
            if (data[at + i] >= most[i])
                return false;
    return true;
}

GanStatus cifar_parse(const uint8_t *data, size_t n, Array *out, size_t *head) {
    static const uint8_t ten[] = {10}, hundred[] = {20, 100};
    bool is_ten = n && n % (1 + Pixels) == 0, is_hundred = n && n % (2 + Pixels) == 0;
    *out = (Array){0};
    if (!is_ten && !is_hundred)
        return fail(GAN_ERR_INPUT,
                    "%zu bytes are no CIFAR records: those of CIFAR-10 have %d, of CIFAR-100 %d", n,
                    1 + Pixels, 2 + Pixels);
    if (is_ten && classes_fit(data, n, 1, ten))
        *head = 1;
    else if (is_hundred && classes_fit(data, n, 2, hundred))
        *head = 2;
    else
        return fail(GAN_ERR_INPUT,
                    "a file of CIFAR's size, but with a class that CIFAR does not have");
    *out = (Array){.kind = 'u', .size = 1, .rank = 4, .dim = {0, 3, 32, 32}, .data = data};
    out->dim[0] = (int64_t)(n / (*head + Pixels));
    out->count = (size_t)out->dim[0] * Pixels;
    return GAN_OK;
}
