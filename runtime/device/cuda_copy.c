// cuda_copy.c - copies to and from the card.
//
// In: pageable host memory. Out: copies in order with the work on `compute`. A put returns when the
// bytes are in pinned memory, so the caller may reuse its own. Small ones go through a ring of
// pinned slots directly onto `compute`. Everything larger goes in pieces through two pinned staging
// buffers: over the bus on `upload`, while `compute` works, then device to device on `compute`. The
// host blocks while both buffers are in use: more than 16 MB put during a step wait for that step,
// which may still read what they replace. Larger buffers would hide that, but pinned memory is
// scarce. The buffers are allocated when the card is opened, so its free memory is what plans may
// take.
//
// Gets of whole values wait for all earlier work. Scalars, which are read every step, are fetched
// asynchronously in two calls, so that the host need not wait for the card between steps.
#include "cuda_device.h"

#include <string.h>

enum {
    SMALL_BYTES = 256, // of a slot of the ring
    SMALL_PLACES = 64,
    PIECE = 8 << 20, // bytes of a staging buffer
    BUFFERS = 2,
    FETCH_BYTES = 16, // of a scalar being fetched
};

typedef struct Staging {
    void *host;         // pinned
    CUdeviceptr card;   // the same bytes on the card
    CUevent here, free; // the upload is done; the copy out of `card` is
    bool used;
} Staging;

struct CudaCopies {
    char *small; // pinned, [SMALL_PLACES][SMALL_BYTES]
    CUevent taken[SMALL_PLACES];
    uint64_t puts; // small ones so far
    Staging staging[BUFFERS];
    uint64_t pieces;               // staged so far
    void *landing;                 // pinned, PIECE bytes; NULL until a large get
    char *fetched;                 // pinned, [CUDA_FETCHES][FETCH_BYTES]
    CUevent arrived[CUDA_FETCHES]; // NULL until first used
    uint64_t fetches;              // so far
};

// --- opening -------------------------------------------------------------------------------------

static GanStatus staging_open(Cuda *c, Staging *s) {
    CUDA_TRY(c, MemAllocHost(&s->host, PIECE), "pinning %d bytes", PIECE);
    CUDA_TRY(c, EventCreate(&s->here, CU_EVENT_DISABLE_TIMING), "creating an event");
    CUDA_TRY(c, EventCreate(&s->free, CU_EVENT_DISABLE_TIMING), "creating an event");
    return cuda_reserve(c, PIECE, &s->card);
}

GanStatus cuda_copies_open(Cuda *c, CudaCopies **out) {
    CudaCopies *k = *out = mem_alloc(sizeof *k);
    if (!k)
        return fail(GAN_ERR_MEMORY, "no memory for copies to the card");
    CUDA_TRY(c, MemAllocHost((void **)&k->small, (size_t)SMALL_PLACES * SMALL_BYTES),
             "pinning %d bytes", SMALL_PLACES * SMALL_BYTES);
    CUDA_TRY(c, MemAllocHost((void **)&k->fetched, (size_t)CUDA_FETCHES * FETCH_BYTES),
             "pinning %d bytes", CUDA_FETCHES * FETCH_BYTES);
    for (int i = 0; i < SMALL_PLACES; i++)
        CUDA_TRY(c, EventCreate(&k->taken[i], CU_EVENT_DISABLE_TIMING), "creating an event");
    for (int i = 0; i < BUFFERS; i++)
        TRY(staging_open(c, &k->staging[i]));
    return GAN_OK;
}

static void staging_close(Cuda *c, Staging *s) {
    if (s->here)
        c->cu->EventDestroy(s->here);
    if (s->free)
        c->cu->EventDestroy(s->free);
    if (s->host)
        c->cu->MemFreeHost(s->host);
    cuda_free(c, s->card);
}

void cuda_copies_close(Cuda *c, CudaCopies *k) {
    if (!k)
        return;
    for (int i = 0; i < BUFFERS; i++)
        staging_close(c, &k->staging[i]);
    for (int i = 0; i < SMALL_PLACES; i++)
        if (k->taken[i])
            c->cu->EventDestroy(k->taken[i]);
    for (int i = 0; i < CUDA_FETCHES; i++)
        if (k->arrived[i])
            c->cu->EventDestroy(k->arrived[i]);
    if (k->small)
        c->cu->MemFreeHost(k->small);
    if (k->fetched)
        c->cu->MemFreeHost(k->fetched);
    if (k->landing)
        c->cu->MemFreeHost(k->landing);
    mem_free(k);
}

// --- to the card ---------------------------------------------------------------------------------

static GanStatus put_small(Cuda *c, CUdeviceptr to, const void *from, size_t n) {
    CudaCopies *k = c->copies;
    uint32_t place = (uint32_t)(k->puts % SMALL_PLACES);
    char *at = k->small + (size_t)place * SMALL_BYTES;
    if (k->puts >= SMALL_PLACES)
        TRY(cuda_await(c, k->taken[place], "waiting for a copy to the card"));
    memcpy(at, from, n);
    CUDA_TRY(c, MemcpyHtoDAsync(to, at, n, c->compute), "copying %zu bytes to the card", n);
    CUDA_TRY(c, EventRecord(k->taken[place], c->compute), "recording an event");
    k->puts++;
    return GAN_OK;
}

static GanStatus put_piece(Cuda *c, CUdeviceptr to, const void *from, size_t n) {
    CudaCopies *k = c->copies;
    Staging *s = &k->staging[k->pieces % BUFFERS];
    if (s->used)
        TRY(cuda_await(c, s->free, "waiting for a copy to the card"));
    memcpy(s->host, from, n);
    s->used = true;
    k->pieces++;
    CUDA_TRY(c, MemcpyHtoDAsync(s->card, s->host, n, c->upload), "copying %zu bytes to the card",
             n);
    TRY(cuda_order(c, c->upload, s->here, c->compute));
    CUDA_TRY(c, MemcpyDtoDAsync(to, s->card, n, c->compute), "copying %zu bytes on the card", n);
    CUDA_TRY(c, EventRecord(s->free, c->compute), "recording an event");
    return GAN_OK;
}

GanStatus cuda_put(Cuda *c, CUdeviceptr to, const void *from, size_t n) {
    if (n <= SMALL_BYTES)
        return n ? put_small(c, to, from, n) : GAN_OK;
    for (size_t at = 0; at < n; at += PIECE)
        TRY(put_piece(c, to + at, (const char *)from + at, n - at < PIECE ? n - at : PIECE));
    return GAN_OK;
}

// --- from the card -------------------------------------------------------------------------------

GanStatus cuda_get(Cuda *c, void *to, CUdeviceptr from, size_t n) {
    CudaCopies *k = c->copies;
    if (!k->landing)
        CUDA_TRY(c, MemAllocHost(&k->landing, PIECE), "pinning %d bytes", PIECE);
    for (size_t at = 0; at < n; at += PIECE) {
        size_t part = n - at < PIECE ? n - at : PIECE;
        CUDA_TRY(c, MemcpyDtoHAsync(k->landing, from + at, part, c->compute),
                 "copying %zu bytes from the card", part);
        TRY(cuda_wait(c));
        memcpy((char *)to + at, k->landing, part);
    }
    return GAN_OK;
}

GanStatus cuda_fetch(Cuda *c, CUdeviceptr from, size_t n, uint64_t *ticket) {
    CudaCopies *k = c->copies;
    uint32_t place = (uint32_t)(k->fetches % CUDA_FETCHES);
    assert(n <= FETCH_BYTES);
    if (!k->arrived[place])
        CUDA_TRY(c, EventCreate(&k->arrived[place], CU_EVENT_DISABLE_TIMING), "creating an event");
    CUDA_TRY(c, MemcpyDtoHAsync(k->fetched + (size_t)place * FETCH_BYTES, from, n, c->compute),
             "copying %zu bytes from the card", n);
    CUDA_TRY(c, EventRecord(k->arrived[place], c->compute), "recording an event");
    *ticket = k->fetches++;
    return GAN_OK;
}

GanStatus cuda_fetched(Cuda *c, uint64_t ticket, void *to, size_t n) {
    CudaCopies *k = c->copies;
    uint32_t place = (uint32_t)(ticket % CUDA_FETCHES);
    assert(ticket < k->fetches && k->fetches - ticket <= CUDA_FETCHES);
    TRY(cuda_await(c, k->arrived[place], "waiting for a number of an earlier step"));
    memcpy(to, k->fetched + (size_t)place * FETCH_BYTES, n);
    return GAN_OK;
}
