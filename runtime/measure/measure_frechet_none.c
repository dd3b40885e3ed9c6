// measure_frechet_none.c - built without OpenBLAS: Frechet distances are refused, and the message
// says what to install.
#include "measure.h"

GanStatus feature_frechet_ready(void) {
    return fail(GAN_ERR_INPUT,
                "Frechet distances (FID) need OpenBLAS, and this program was built without it: "
                "install libopenblas-dev and build again; KID, precision and recall do "
                "without");
}

GanStatus feature_frechet(const float *a, size_t na, const float *b, size_t nb, uint32_t d,
                          int threads, double *out) {
    (void)a, (void)na, (void)b, (void)nb, (void)d, (void)threads;
    *out = 0;
    return feature_frechet_ready();
}
