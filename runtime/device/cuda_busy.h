// cuda_busy.h - GPU busy time (cuda_busy.c), and the part of CUPTI that it uses.
#ifndef GAN_CUDA_BUSY_H
#define GAN_CUDA_BUSY_H

#include "cuda_device.h"

// The fields that every activity record of CUPTI 12 and 13 begins with; more follow.
typedef struct CuptiRecord {
    uint32_t kind; // CUpti_ActivityKind
    uint32_t about[3];
    uint64_t start, end; // ns
} CuptiRecord;
enum { CuptiCopy = 1, CuptiFill = 2, CuptiKernel = 10 }; // kinds

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
void cuda_busy_close(Cuda *c);

#endif
