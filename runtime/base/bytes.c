// bytes.c - bytes of unknown number gathered on the heap, see bytes.h.
#define _GNU_SOURCE
#include "bytes.h"
#include "io.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

bool bytes_reserve(Bytes *b, size_t more) {
    if (more <= b->cap - b->n)
        return true;
    if (more > SIZE_MAX / 2 - b->n)
        return false;
    size_t cap = b->n + more > 2 * b->cap ? b->n + more : 2 * b->cap;
    char *at = mem_realloc(b->at, cap);
    if (!at)
        return false;
    b->at = at;
    b->cap = cap;
    return true;
}

bool bytes_put(Bytes *b, const void *data, size_t n) {
    if (!bytes_reserve(b, n))
        return false;
    if (n)
        memcpy(b->at + b->n, data, n);
    b->n += n;
    return true;
}

GanStatus bytes_read(Bytes *b, int fd, Str what) {
    for (;;) {
        // One byte more than a file of known size needs, so that its end is seen without growing.
        if (b->n == b->cap && !bytes_reserve(b, 4096))
            return fail(GAN_ERR_MEMORY, "%.*s: no memory after %zu bytes", SARG(what), b->n);
        ssize_t got = io_read_refused() ? -1 : read(fd, b->at + b->n, b->cap - b->n);
        if (got == 0)
            return GAN_OK;
        if (got > 0)
            b->n += (size_t)got;
        if (got < 0 && errno != EINTR)
            return fail(GAN_ERR_IO, "cannot read %.*s: %s", SARG(what), strerror(errno));
    }
}

GanStatus bytes_move(Bytes *b, Arena *a, Str *out) {
    char *copy = arena_try(a, b->n + 1, 1);
    if (copy && b->n)
        memcpy(copy, b->at, b->n);
    if (copy)
        *out = (Str){copy, b->n};
    GanStatus st = copy ? GAN_OK : fail(GAN_ERR_MEMORY, "no memory for %zu bytes", b->n);
    mem_free(b->at);
    *b = (Bytes){0};
    return st;
}
