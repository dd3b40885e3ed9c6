// cuda_busy.h - what a GPU was busy with (cuda_busy.c), and the part of CUPTI that it uses.
#ifndef GAN_CUDA_BUSY_H
#define GAN_CUDA_BUSY_H

#include "cuda_device.h"

#include <stddef.h>

// The fields that activity records of CUPTI 12 and 13 begin with; more follow.
typedef struct CuptiRecord {
    uint32_t kind; // CUpti_ActivityKind
    uint8_t way;   // CuptiCopy: CUpti_ActivityMemcpyKind
    uint8_t about[11];
    uint64_t start, end; // ns
} CuptiRecord;
typedef struct CuptiCopyRecord { // CuptiCopy, CuptiFill
    CuptiRecord base;
    uint32_t device, context, stream;
} CuptiCopyRecord;
typedef struct CuptiKernelRecord { // CUpti_ActivityKernel9 (12), CUpti_ActivityKernel10 (13)
    uint32_t kind;
    uint8_t config[2];
    uint16_t registers; // a thread
    uint32_t cache[2];
    uint64_t start, end, completed;
    uint32_t device, context, stream;
    int32_t grid[3], block[3];
    int32_t shared[2]; // bytes: static, dynamic
    uint32_t local[2], correlation;
    int64_t id;
    const char *name; // the library's, for as long as it is loaded
} CuptiKernelRecord;
static_assert(offsetof(CuptiRecord, start) == 16 && offsetof(CuptiKernelRecord, start) == 16, "");
static_assert(offsetof(CuptiCopyRecord, stream) == 40, "");
static_assert(offsetof(CuptiKernelRecord, registers) == 6, "");
static_assert(offsetof(CuptiKernelRecord, stream) == 48, "");
static_assert(offsetof(CuptiKernelRecord, grid) == 52, "");
static_assert(offsetof(CuptiKernelRecord, shared) == 76, "");
static_assert(offsetof(CuptiKernelRecord, name) == 104, "");
enum { CuptiCopy = 1, CuptiFill = 2, CuptiKernel = 10 }; // kinds
enum { CuptiToCard = 1, CuptiFromCard = 2 };             // ways

struct CuptiApi { // 0: success
    int (*callbacks)(void (*give)(uint8_t **at, size_t *bytes, size_t *records),
                     void (*take)(void *context, uint32_t stream, uint8_t *at, size_t bytes,
                                  size_t valid));
    int (*enable)(int kind);
    int (*disable)(int kind);
    int (*flush)(uint32_t flag);
    int (*next)(uint8_t *at, size_t valid, CuptiRecord **record); // NULL: the first
    int (*words)(int code, const char **out);
};

double cuda_inside(Device *d, bool count); // DeviceApi.inside; NAN where it cannot be known
GanStatus cuda_work(Device *d, Arena *a, DeviceWorkVec *out); // DeviceApi.work
void cuda_busy_close(Cuda *c);

#endif
