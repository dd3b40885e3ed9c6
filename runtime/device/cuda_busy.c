// cuda_busy.c - what a GPU was busy with, and for how long, by CUPTI's activity records.
//
// In: an open card. Out: the kernels, copies and memsets that ran; or the seconds in which one was
// running, where overlapping ones count once. CUPTI's callbacks have no user pointer, so what they
// deliver is kept in a static variable, for the one device that measures. No header is needed: all
// versions of the records begin with the same fields.
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

typedef struct Ran {
    uint64_t from, to; // ns
    DeviceWork is;     // all but its times
} Ran;

typedef struct RanVec {
    Ran *at; // owned
    size_t n, room;
    bool lost; // some were dropped for want of memory
} RanVec;

// Records received since the last query. The library's threads add to them.
static struct {
    pthread_mutex_t lock;
    const CuptiApi *api; // of the device that measures; NULL: none does
    RanVec ran;
} seen = {.lock = PTHREAD_MUTEX_INITIALIZER};

// --- the library's buffers -----------------------------------------------------------------------

static void give_buffer(uint8_t **at, size_t *bytes, size_t *records) {
    *at = mem_alloc(RECORDS);
    *bytes = *at ? RECORDS : 0; // without a buffer the library drops its records
    *records = 0;               // as many as fit
    if (!*at) {
        pthread_mutex_lock(&seen.lock);
        seen.ran.lost = true;
        pthread_mutex_unlock(&seen.lock);
    }
}

static bool grow(RanVec *v) {
    size_t room = v->room ? v->room * 2 : 4096;
    Ran *grown = mem_realloc(v->at, room * sizeof *grown);
    if (grown)
        v->at = grown, v->room = room;
    return grown != NULL;
}

static DeviceWork read_copy(const CuptiRecord *r) {
    bool host = r->kind == CuptiCopy && (r->way == CuptiToCard || r->way == CuptiFromCard);
    return (DeviceWork){.name = r->kind == CuptiFill    ? "memset"
                                : !host                 ? "copy"
                                : r->way == CuptiToCard ? "copy to the card"
                                                        : "copy from the card",
                        .stream = ((const CuptiCopyRecord *)r)->stream,
                        .host = host};
}

static DeviceWork read_kernel(const CuptiKernelRecord *r) {
    DeviceWork w = {.name = r->name ? r->name : "",
                    .stream = r->stream,
                    .registers = r->registers,
                    .shared = (uint32_t)(r->shared[0] + r->shared[1])};
    w.host = cuda_service_begins(w.name);
    for (int i = 0; i < 3; i++) {
        w.grid[i] = (uint32_t)r->grid[i];
        w.block[i] = (uint32_t)r->block[i];
    }
    return w;
}

static void add_record(RanVec *v, const CuptiRecord *r) {
    if (r->kind != CuptiKernel && r->kind != CuptiCopy && r->kind != CuptiFill)
        return;
    if (v->n == v->room && !grow(v)) {
        v->lost = true;
        return;
    }
    uint64_t end = r->end > r->start ? r->end : r->start; // 0: not known
    v->at[v->n++] =
        (Ran){r->start, end,
              r->kind == CuptiKernel ? read_kernel((const CuptiKernelRecord *)r) : read_copy(r)};
}

static void take_buffer(void *context, uint32_t stream, uint8_t *at, size_t bytes, size_t valid) {
    (void)context, (void)stream, (void)bytes;
    CuptiRecord *r = NULL;
    pthread_mutex_lock(&seen.lock);
    while (seen.api && at && seen.api->next(at, valid, &r) == 0)
        add_record(&seen.ran, r);
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

// All received so far, in order: the caller's.
static RanVec take_seen(void) {
    pthread_mutex_lock(&seen.lock);
    RanVec v = seen.ran;
    seen.ran = (RanVec){0};
    pthread_mutex_unlock(&seen.lock);
    if (v.n)
        qsort(v.at, v.n, sizeof *v.at, by_from);
    return v;
}

// The seconds that the records cover.
static double take_covered(void) {
    uint64_t ns = 0, until = 0;
    RanVec v = take_seen();
    for (size_t i = 0; i < v.n; i++) {
        uint64_t from = v.at[i].from > until ? v.at[i].from : until;
        if (v.at[i].to > from)
            ns += v.at[i].to - from, until = v.at[i].to;
    }
    mem_free(v.at);
    return v.lost ? NAN : (double)ns * 1e-9;
}

static void end(Cuda *c) {
    const CuptiApi *api = seen.api;
    for (int i = 0; i < KINDS; i++)
        api->disable(kinds[i]);
    pthread_mutex_lock(&seen.lock);
    seen.api = NULL;
    pthread_mutex_unlock(&seen.lock);
    mem_free(take_seen().at);
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

// Waits for the card, and for the library's records of it.
static GanStatus settle(Cuda *c) {
    TRY(cuda_enter(c));
    TRY(cuda_wait(c));
    return c->counts ? cupti_check(seen.api, seen.api->flush(FORCED), "flushing activity records")
                     : GAN_OK;
}

static GanStatus busy(Cuda *c, bool count, double *seconds) {
    TRY(settle(c));
    *seconds = c->counts ? take_covered() : 0;
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

GanStatus cuda_work(Device *d, Arena *a, DeviceWorkVec *out) {
    Cuda *c = (Cuda *)d;
    *out = (DeviceWorkVec){0};
    if (!c->counts)
        return fail(GAN_ERR_USAGE, "what the card runs is not recorded");
    TRY(settle(c));
    RanVec v = take_seen();
    for (size_t i = 0; i < v.n; i++) {
        DeviceWork w = v.at[i].is;
        w.name = str_copy(a, str_c(w.name)).ptr;
        w.began = (double)(v.at[i].from - v.at[0].from) * 1e-9;
        w.ended = (double)(v.at[i].to - v.at[0].from) * 1e-9;
        vec_push(a, out, w);
    }
    mem_free(v.at);
    return v.lost ? fail(GAN_ERR_MEMORY, "no memory for what the card ran") : GAN_OK;
}

void cuda_busy_close(Cuda *c) {
    if (c->counts)
        end(c);
}
