// link_null.c - one rank of many without a transport: its jobs do nothing, to measure a step
// without communication. Control collectives behave as if every rank gave the same as this one.
#include "comm_link.h"

#include <string.h>

static GanStatus null_open(void *arg, Link **out) {
    const NullRank *place = arg;
    Link *l = mem_alloc(sizeof *l);
    if (!l)
        return fail(GAN_ERR_MEMORY, "no memory for a communicator");
    *l = (Link){.rank = place->rank, .size = place->size};
    *out = l;
    return GAN_OK;
}

static void null_close(Link *l, bool orderly) {
    (void)orderly;
    mem_free(l);
}

static GanStatus null_post(Link *l, const Handshake *h) {
    (void)l, (void)h;
    return GAN_OK;
}

static GanStatus null_wait(Link *l, const Handshake *h, uint64_t fingerprints[2], bool *waited) {
    (void)l, (void)waited;
    fingerprints[0] = fingerprints[1] = h->fingerprint;
    return GAN_OK;
}

static GanStatus null_reduce(Link *l, CommKind kind, Dtype dtype, void *data, size_t n,
                             float *lost) {
    (void)l, (void)kind, (void)dtype, (void)data, (void)n, (void)lost;
    return GAN_OK;
}

static GanStatus null_gather(Link *l, void *data, const size_t *from) {
    size_t mine = from[l->rank + 1] - from[l->rank];
    for (int r = 0; r < l->size; r++)
        if (r != l->rank && from[r + 1] - from[r] == mine)
            memcpy((char *)data + from[r], (char *)data + from[l->rank], mine);
    return GAN_OK;
}

static GanStatus null_bcast(Link *l, void *data, size_t bytes, int root) {
    (void)l, (void)data, (void)bytes, (void)root;
    return GAN_OK;
}

const LinkApi link_null = {.name = "null",
                           .open = null_open,
                           .close = null_close,
                           .post = null_post,
                           .wait = null_wait,
                           .reduce = null_reduce,
                           .gather = null_gather,
                           .bcast = null_bcast};
