// roofline.c - measured peaks of this machine: multiply-adds in f32 and bf16, copy bandwidth. All
// cores, best of several.
//
// The f32 peak is the better of a large product by oneDNN and a register-only loop from our own
// compiler; bf16 needs the library. Bandwidth counts bytes read and written, by a copy too large
// for the caches.
#include "device.h"

#include <string.h>

static const char loop_text[] =
    "typedef float gan_f16v __attribute__((vector_size(64)));\n"
    "float gan_fma(long n, float x) {\n"
    "    gan_f16v a[12], m, s;\n"
    "    for (int i = 0; i < 16; i++) { m[i] = x; s[i] = 1e-9f; }\n"
    "    for (int k = 0; k < 12; k++) a[k] = m * (float)k;\n"
    "    for (long i = 0; i < n; i++)\n"
    "#pragma GCC unroll 12\n"
    "        for (int k = 0; k < 12; k++) a[k] = a[k] * m + s;\n"
    "    float sum = 0;\n"
    "    for (int k = 0; k < 12; k++) for (int i = 0; i < 16; i++) sum += a[k][i];\n"
    "    return sum;\n"
    "}\n";

enum { RUNS = 5, LOOPS = 4000000, FLOP_PER_LOOP = 12 * 16 * 2 };

typedef float FmaFn(long n, float x);

static double loop_rate(FmaFn *fma, int threads) {
    double best = 0;
    for (int run = 0; run < RUNS; run++) {
        double start = time_now();
        float sum = 0;
#pragma omp parallel for num_threads(threads) schedule(static, 1) reduction(+ : sum)
        for (int i = 0; i < threads; i++)
            sum += fma(LOOPS, 0.5f);
        double rate = 1e-9 * LOOPS * FLOP_PER_LOOP * threads / (time_now() - start);
        if (rate > best && sum > -1) // looked at, so that it is computed
            best = rate;
    }
    return best;
}

static GanStatus loop_peak(Device *d, double *gflops) {
    *gflops = 0;
    Jit *jit;
    JitCode *code = NULL;
    TRY(jit_open(&d->options, &jit));
    if (!jit)
        return GAN_OK;
    JitKernel kernel = {STR("gan_fma"), STR(loop_text)};
    GanStatus st = jit_load(jit, (Str){0}, &kernel, 1, &code);
    bool moved;
    if (st == GAN_OK)
        st = jit_improve(code, true, &moved);
    if (st == GAN_OK) {
        FmaFn *fma;
        void *at = jit_find(code, 0, "gan_fma");
        memcpy(&fma, &at, sizeof fma);
        *gflops = loop_rate(fma, d->threads);
    }
    jit_free(code);
    jit_close(jit);
    return st;
}

static GanStatus copy_rate(Device *d, double *gbs) {
    size_t n = (size_t)256 << 20, each = n / (size_t)d->threads & ~(size_t)63;
    void *from, *to;
    *gbs = 0;
    TRY(d->api->alloc(d, n, &from));
    GanStatus st = d->api->alloc(d, n, &to);
    for (int run = 0; st == GAN_OK && run <= RUNS; run++) {
        double start = time_now();
#pragma omp parallel for num_threads(d->threads) schedule(static, 1)
        for (int i = 0; i < d->threads; i++)
            memcpy((char *)to + each * (size_t)i, (char *)from + each * (size_t)i, each);
        double rate = 2e-9 * (double)each * d->threads / (time_now() - start);
        if (run && rate > *gbs) // the first one touches the pages
            *gbs = rate;
    }
    d->api->release(d, from);
    if (st == GAN_OK)
        d->api->release(d, to);
    return st;
}

GanStatus device_cpu_roofline(Device *d, Roofline *out) {
    double loop = 0, product = 0;
    TRY(loop_peak(d, &loop));
    TRY(dnn_peak(DtF32, &product));
    out->gflops_f32 = loop > product ? loop : product;
    TRY(dnn_peak(DtBF16, &out->gflops_bf16));
    out->gflops_f16 = out->gflops_f32; // whose products are made in f32
    return copy_rate(d, &out->gbs);
}
