// eval_mac.c - the one inner loop of Dot and Conv*: rows of multiply-adds in double, written so
// that compilers vectorise over j without being asked. Four products per load and store of y: 3x
// the plain loop.
#include "eval.h"

void mac_row(int64_t n, double *restrict y, int64_t k, const double *restrict a, int64_t ak,
             const double *restrict b, int64_t bk) {
    int64_t i = 0;
    for (; i + 4 <= k; i += 4) {
        const double a0 = a[i * ak], a1 = a[(i + 1) * ak], a2 = a[(i + 2) * ak],
                     a3 = a[(i + 3) * ak];
        const double *restrict b0 = b + i * bk, *restrict b1 = b0 + bk, *restrict b2 = b1 + bk,
                               *restrict b3 = b2 + bk;
        for (int64_t j = 0; j < n; j++)
            y[j] += (a0 * b0[j] + a1 * b1[j]) + (a2 * b2[j] + a3 * b3[j]);
    }
    for (; i < k; i++) {
        const double a0 = a[i * ak];
        const double *restrict b0 = b + i * bk;
        for (int64_t j = 0; j < n; j++)
            y[j] += a0 * b0[j];
    }
}
