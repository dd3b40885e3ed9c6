// dnn_none.c - replaces onednn.c in builds without oneDNN: no anchor is prepared, plain.c runs them
// all.
#include "device.h"

GanStatus dnn_open(Dnn **out) {
    *out = NULL;
    return GAN_OK;
}

void dnn_close(Dnn *d) {
    (void)d;
}

void dnn_set_cache_only(Dnn *d) {
    (void)d;
}

void dnn_block(Dnn *d, uint32_t block) {
    (void)d, (void)block;
}

GanStatus dnn_prepare(Dnn *d, const Plan *p, uint32_t id, Memory m, DnnCall **out) {
    (void)d, (void)p, (void)id, (void)m;
    *out = NULL;
    return GAN_OK;
}

GanStatus dnn_ready(Dnn *d) {
    (void)d;
    return GAN_OK;
}

GanStatus dnn_run(Dnn *d, const DnnCall *call) {
    (void)d, (void)call;
    bug("a call was prepared without the library");
}

int dnn_vector_level(void) {
    return 1;
}

Str dnn_version(Arena *a) {
    (void)a;
    return (Str){0};
}

GanStatus dnn_peak(Dtype type, double *gflops) {
    (void)type;
    *gflops = 0;
    return GAN_OK;
}

GanStatus dnn_product(const float *a, const float *b, size_t m, size_t n, size_t k, float *c) {
    for (size_t i = 0; i < m; i++)
        for (size_t j = 0; j < n; j++) {
            float sum = 0;
            for (size_t t = 0; t < k; t++)
                sum += a[i * k + t] * b[j * k + t];
            c[i * n + j] = sum;
        }
    return GAN_OK;
}
