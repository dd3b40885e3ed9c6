// cuda_busy.c - GPU busy time, by CUPTI's activity records.
//
// In: an open card. Out: the seconds in which a kernel, copy or memset was running; overlapping
// ones count once. CUPTI's callbacks have no user pointer, so what they deliver is kept in a static
// variable, for the one device that measures. No header is needed: all versions of the records
// begin with the same fields.
//
// Tracing slows every launch. Graphs are captured anew where it begins and ends, so that all of
// them are traced and none stays instrumented.
#include "cuda_busy.h"
#include "cuda_plan.h"

#include <math.h>
#include <pthread.h>
#include <stdlib.h>

enum {
    RECORDS = 1 << 20, // bytes of a buffer
    FORCED = 1,        // CUPTI_ACTIVITY_FLAG_FLUSH_FORCED
};

static const int kinds[] = {CuptiCopy, CuptiFill, CuptiKernel};
enum { KINDS = sizeof kinds / sizeof *kinds };

typedef struct Ran { // ns
    uint64_t from, to;
} Ran;

// Records received since the last query. The library's threads add to them.
static struct {
    pthread_mutex_t lock;
    const CuptiApi *api; // of the device that measures; NULL: none does
    Ran *span;           // owned
    size_t n, room;
    bool lost; // some were dropped for want of memory
} seen = {.lock = PTHREAD_MUTEX_INITIALIZER};

// --- the library's buffers -----------------------------------------------------------------------

static void give_buffer(uint8_t **at, size_t *bytes, size_t *records) {
    *at = mem_alloc(RECORDS);
    *bytes = *at ? RECORDS : 0; // without a buffer the library drops its records
    *records = 0;               // as many as fit
    if (!*at) {
        pthread_mutex_lock(&seen.lock);
        seen.lost = true;
        pthread_mutex_unlock(&seen.lock);
    }
}

static bool grow(void) {
    size_t room = seen.room ? seen.room * 2 : 4096;
    Ran *grown = mem_realloc(seen.span, room * sizeof *grown);
    if (grown)
        seen.span = grown, seen.room = room;
    return grown != NULL;
}

static void take_buffer(void *context, uint32_t stream, uint8_t *at, size_t bytes, size_t valid) {
    (void)context, (void)stream, (void)bytes;
    CuptiRecord *r = NULL;
    pthread_mutex_lock(&seen.lock);
    while (seen.api && at && seen.api->next(at, valid, &r) == 0)
        if (seen.n == seen.room && !grow())
            seen.lost = true;
        else if (r->kind == CuptiKernel || r->kind == CuptiCopy || r->kind == CuptiFill)
            seen.span[seen.n++] = (Ran){r->start, r->end};
    pthread_mutex_unlock(&seen.lock);
    mem_free(at);
}

// --- queries -------------------------------------------------------------------------------------

static GanStatus cupti_check(const CuptiApi *api, int code, const char *what) {
    const char *words = NULL;
    if (!code)
        return GAN_OK;
    api->words(code, &words);
    return fail(GAN_ERR_DEVICE, "CUPTI: %s failed: %s (%d)", what, words ? words : "no words",
                code);
}

static int by_from(const void *a, const void *b) {
    uint64_t x = ((const Ran *)a)->from, y = ((const Ran *)b)->from;
    return (x > y) - (x < y);
}

// The seconds that the spans cover. Clears them.
static double covered(void) {
    uint64_t ns = 0, until = 0;
    pthread_mutex_lock(&seen.lock);
    if (seen.n)
        qsort(seen.span, seen.n, sizeof *seen.span, by_from);
    for (size_t i = 0; i < seen.n; i++) {
        uint64_t from = seen.span[i].from > until ? seen.span[i].from : until;
        if (seen.span[i].to > from)
            ns += seen.span[i].to - from, until = seen.span[i].to;
    }
    bool lost = seen.lost;
    seen.n = 0, seen.lost = false;
    pthread_mutex_unlock(&seen.lock);
    return lost ? NAN : (double)ns * 1e-9;
}

static void end(Cuda *c) {
    const CuptiApi *api = seen.api;
    for (int i = 0; i < KINDS; i++)
        api->disable(kinds[i]);
    pthread_mutex_lock(&seen.lock);
    mem_free(seen.span);
    seen.api = NULL, seen.span = NULL;
    seen.n = seen.room = 0;
    pthread_mutex_unlock(&seen.lock);
    cuda_drop_all_graphs(c);
    c->counts = false;
}

static GanStatus begin(Cuda *c) {
    const CuptiApi *api = c->api->cupti ? c->api->cupti(c->api->user) : NULL;
    GanStatus st = GAN_OK;
    if (!api)
        return fail(GAN_ERR_DEVICE, "CUPTI is not found (ganrun doctor says how to fix it)");
    if (seen.api)
        return fail(GAN_ERR_USAGE, "GPU busy time is already measured on another device");
    seen.api = api;
    c->counts = true;
    TRY_OUT(cupti_check(api, api->callbacks(give_buffer, take_buffer), "starting"));
    for (int i = 0; i < KINDS; i++)
        TRY_OUT(cupti_check(api, api->enable(kinds[i]), "enabling activity records"));
    cuda_drop_all_graphs(c);
out:
    if (st != GAN_OK)
        end(c);
    return st;
}

static GanStatus busy(Cuda *c, bool count, double *seconds) {
    *seconds = 0;
    TRY(cuda_enter(c));
    TRY(cuda_wait(c));
    if (c->counts) {
        TRY(cupti_check(seen.api, seen.api->flush(FORCED), "flushing activity records"));
        *seconds = covered();
    }
    if (count && !c->counts)
        return begin(c);
    if (!count && c->counts)
        end(c);
    return GAN_OK;
}

double cuda_inside(Device *d, bool count) {
    Cuda *c = (Cuda *)d;
    double seconds;
    if (busy(c, count, &seconds) == GAN_OK)
        return seconds;
    device_notice(d, gan_error());
    if (c->counts)
        end(c);
    return NAN;
}

void cuda_busy_close(Cuda *c) {
    if (c->counts)
        end(c);
}
