// swd_times.c - how long the sliced Wasserstein distance of two arrays takes, without reading them:
// the clock's and the processor's seconds, and the distance, one line a round.
//
//   build/tests/swd_times GENERATED.npy REAL.npy ROUNDS
#include "measure.h"
#include "device.h"

#include <stdio.h>
#include <time.h>

static double processor_time(void) {
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static GanStatus measure(Arena *a, char **file, int64_t rounds) {
    float *x[2];
    uint32_t rank[2];
    int64_t dim[2][DATA_MAX_RANK];
    SwdOptions o = {.product = dnn_product};
    SwdResult r;
    for (int i = 0; i < 2; i++)
        TRY(npy_read_f32(a, str_c(file[i]), &x[i], &rank[i], dim[i]));
    if (rank[0] != 2 || rank[1] != 2 || dim[0][1] != dim[1][1])
        return fail(GAN_ERR_INPUT, "expected arrays [n, d] of the same d");
    for (int64_t i = 0; i < rounds; i++) {
        double clock = time_now(), processor = processor_time();
        TRY(swd_measure(x[0], (size_t)dim[0][0], x[1], (size_t)dim[1][0],
                        (const uint32_t[]){1, 1, (uint32_t)dim[0][1]}, &o, &r));
        printf("%.6f %.6f %.9g\n", time_now() - clock, processor_time() - processor, r.pixels);
    }
    return GAN_OK;
}

int main(int argc, char **argv) {
    Arena a;
    int64_t rounds = 0;
    if (argc != 4 || !str_to_int(str_c(argv[3]), &rounds)) {
        fprintf(stderr, "usage: swd_times GENERATED.npy REAL.npy ROUNDS\n");
        return 2;
    }
    GanStatus st = arena_init(&a, 0);
    if (st == GAN_OK)
        st = measure(&a, argv + 1, rounds);
    if (st != GAN_OK)
        fprintf(stderr, "swd_times: %s\n", gan_error());
    arena_release(&a);
    return st == GAN_OK ? 0 : 1;
}
