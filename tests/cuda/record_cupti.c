// record_cupti.c - the mock CUPTI: every piece of work since profiling started took 1.5 us and
// began 1 us after the one before. It is reported in the caller's buffers, among records of other
// kinds.
#include "cuda_busy.h"
#include "record.h"

#include <stdlib.h>
#include <string.h>

enum { OTHER = 5, FAILED = 999 }; // a kind that is not enabled; the status of a failing call

static uint32_t enabled; // kinds
static uint32_t told,
    from; // indices into recorder_work: reported so far; at the start of profiling
static void (*give)(uint8_t **at, size_t *bytes, size_t *records);
static void (*take)(void *context, uint32_t stream, uint8_t *at, size_t bytes, size_t valid);

void record_cupti_begin(void) {
    enabled = told = from = 0;
}

uint32_t record_cupti_live(void) {
    return enabled;
}

#define CALL()                                                                                     \
    do {                                                                                           \
        if (record_call() != CUDA_SUCCESS)                                                         \
            return FAILED;                                                                         \
    } while (0)

static int callbacks(void (*g)(uint8_t **at, size_t *bytes, size_t *records),
                     void (*t)(void *context, uint32_t stream, uint8_t *at, size_t bytes,
                               size_t valid)) {
    CALL();
    give = g, take = t;
    return 0;
}

static int enable(int kind) {
    CALL();
    if (kind != CuptiCopy && kind != CuptiFill && kind != CuptiKernel)
        complain("CUPTI: kind %d", kind);
    if (!enabled++)
        told = from = recorder_work(recording)->n;
    return 0;
}

static int disable(int kind) {
    int code = record_call();
    (void)kind;
    enabled -= enabled > 0;
    return code == CUDA_SUCCESS ? 0 : FAILED;
}

typedef union CuptiSlot {
    CuptiRecord any;
    CuptiCopyRecord copy;
    CuptiKernelRecord kernel;
} CuptiSlot;

static CuptiSlot record_of(uint32_t number, const Work *w) {
    enum { WITHIN = 8 }; // the card's memory
    uint64_t start = (uint64_t)(number - from) * 1000, end = start + 1500;
    uint8_t way = w->host_from ? CuptiToCard : w->host_to ? CuptiFromCard : WITHIN;
    bool kernel = !strcmp(w->name, "gan_begin"); // which is recorded as the copies it makes
    switch (kernel ? WorkLaunch : w->kind) {
    case WorkLaunch:
    case WorkLibrary:
        return (CuptiSlot){.kernel = {.kind = CuptiKernel,
                                      .registers = 40,
                                      .start = start,
                                      .end = end,
                                      .stream = 7,
                                      .grid = {3, 2, 1},
                                      .block = {128, 1, 1},
                                      .shared = {16, 32},
                                      .name = w->name}};
    case WorkCopy:
        return (CuptiSlot){.copy = {{.kind = CuptiCopy, .way = way, .start = start, .end = end}}};
    case WorkSet:
        break;
    }
    return (CuptiSlot){.copy = {{.kind = CuptiFill, .start = start, .end = end}}};
}

static int flush(uint32_t flag) {
    CALL();
    const WorkVec *w = recorder_work(recording);
    (void)flag;
    while (enabled && told < w->n) {
        uint8_t *at = NULL;
        size_t bytes = 0, records = 0, n = 0;
        give(&at, &bytes, &records);
        size_t room = bytes / sizeof(CuptiSlot);
        CuptiSlot *r = (CuptiSlot *)(void *)at;
        for (; told < w->n && n + 2 <= room && n < 50; told++) {
            r[n++].any = (CuptiRecord){.kind = OTHER, .start = 0, .end = UINT64_MAX};
            r[n++] = record_of(told, &w->at[told]);
        }
        if (!room) // dropped
            told = w->n;
        else
            take(NULL, 0, at, bytes, n * sizeof *r);
    }
    return 0;
}

static int next(uint8_t *at, size_t valid, CuptiRecord **record) {
    CuptiSlot *first = (CuptiSlot *)(void *)at,
              *r = *record ? (CuptiSlot *)(void *)*record + 1 : first;
    if ((size_t)(r - first) >= valid / sizeof *r)
        return FAILED;
    *record = &r->any;
    return 0;
}

static int words(int code, const char **out) {
    (void)code;
    *out = "a recorded error";
    return 0;
}

const CuptiApi record_cupti_api = {callbacks, enable, disable, flush, next, words};
