// cuda_busy.h - how long the card was at work (cuda_busy.c), and what it takes of CUPTI.
#ifndef GAN_CUDA_BUSY_H
#define GAN_CUDA_BUSY_H

#include "cuda_device.h"

// What CUPTI (13, 12) says of something that ran, whatever it was; there is more behind it.
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
