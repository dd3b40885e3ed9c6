// step, dialect c. compiler/ir/prelude.h and compiler/gen/kernel_c.h stand before this text.
//
// a inputs and outputs, n and r numbers, i loop variables, j parts of indices, g bounds that
// hold, v values, p and y packs loaded and stored, s accumulators, q partial results

// sum squares
// a0 [B, 8, 16, 16] -> a1 [B, 8, 1, 1], a2 [B, 8, 1, 1]
// regions 0
void sum_squares_ae3a6120416fff6b(void *const *p, const gan_counters *c, int64_t lo, int64_t hi) {
    const int64_t *n = (const int64_t *)p[4];
    const int64_t n0 = n[0]; // extent of i1
    const int64_t n1 = n[1]; // stride
    const int64_t n2 = n[2]; // terms of a sum
    const float *a0 = (const float *)p[0];
    float *a1 = (float *)p[1];
    float *a2 = (float *)p[2];
    for (int64_t u = lo; u < hi; u++) {
        const int64_t i0 = u;
        double s0[2048];
        for (int64_t k = 0; k < 8; k++) s0[k] = 0;
        double s1[2048];
        for (int64_t k = 0; k < 8; k++) s1[k] = 0;
        for (int64_t i1 = 0; i1 < n0; i1++) {
            GAN_SIMD
            for (int64_t i2 = 0; i2 < 8; i2++) {
                const float v0 = a0[i0*n1 + i1*8 + i2];
                s0[i2] += v0;
                gan_add_square(&s1[i2], v0);
            }
        }
        for (int64_t i2 = 0; i2 < 8; i2++) {
            a1[i0*8 + i2] = s0[i2];
            a2[i0*8 + i2] = gan_squares(s1[i2], s0[i2], n2);
        }
    }
}

// mul add sqrt
// a0 [B, 8, 1, 1] -> a1 [B, 8, 1, 1]
// regions 1
void mul_add_sqrt_9124a35ff15412eb(void *const *p, const gan_counters *c, int64_t lo, int64_t hi) {
    const int64_t *n = (const int64_t *)p[3];
    const float r0 = gan_f32_bits((uint32_t)n[0]);
    const float r1 = gan_f32_bits((uint32_t)n[1]);
    const float *a0 = (const float *)p[0];
    float *a1 = (float *)p[1];
    GAN_SIMD
    for (int64_t i0 = lo; i0 < hi; i0++) {
        const float v0 = a0[i0];
        const float v2 = v0 * r0;
        const float v4 = v2 + r1;
        const float v5 = gan_sqrtf(v4);
        a1[i0] = v5;
    }
}

// mul sub div ge where sum
// a0 [B, 8, 16, 16], a1 [B, 8, 1, 1], a2 [B, 8, 1, 1] -> a3 [B, 1, 1, 1]
// regions 2
void mul_sub_div_ge_1710fcccbfe4c460(void *const *p, const gan_counters *c, int64_t lo, int64_t hi) {
    const int64_t *n = (const int64_t *)p[5];
    const int64_t n0 = n[0]; // extent of i1
    const int64_t n1 = n[1]; // stride
    const float r2 = gan_f32_bits((uint32_t)n[2]);
    const float *a0 = (const float *)p[0];
    const float *a1 = (const float *)p[1];
    const float *a2 = (const float *)p[2];
    float *a3 = (float *)p[3];
    for (int64_t u = lo; u < hi; u++) {
        const int64_t i0 = u;
        double s0 = 0;
        double l0[8];
        for (int l = 0; l < 8; l++) l0[l] = 0;
        for (int64_t i1 = 0; i1 < n0; i1++) {
            GAN_SIMD
            for (int l = 0; l < 8; l++) {
                const int64_t i2 = l;
                const float v1 = a0[i0*n1 + i1*8 + i2];
                const float v2 = a1[i0*8 + i2];
                const float v4 = v2 * r2;
                const float v5 = v1 - v4;
                const float v6 = a2[i0*8 + i2];
                const float v7 = v5 / v6;
                const float v9 = 0.0f >= v7 ? 0.0f : v7;
                l0[l] += v9;
            }
        }
        s0 += gan_sum_lanes(l0, 8);
        a3[i0] = s0;
    }
}

// reshape sum
// a0 [B, 1, 1, 1] -> a1 []
// regions 3
void sum_5c06071010370455(void *const *p, const gan_counters *c, int64_t lo, int64_t hi) {
    const int64_t *n = (const int64_t *)p[3];
    const int64_t n0 = n[0]; // extent of i0
    const float *a0 = (const float *)p[0];
    float *a1 = (float *)p[1];
    for (int64_t u = lo; u < hi; u++) {
        double s0 = 0;
        double l0[32];
        for (int l = 0; l < 32; l++) l0[l] = 0;
        int64_t j = 0;
        for (; j + 32 <= n0; j += 32) {
            GAN_SIMD
            for (int l = 0; l < 32; l++) {
                const int64_t i0 = j + l;
                const float v0 = a0[i0];
                l0[l] += v0;
            }
        }
        s0 += gan_sum_lanes(l0, 32);
        a1[0] = s0;
    }
}

// mul
// a0 [] -> a1 []
// regions 4
void mul_ee9cd4fcd0da5419(void *const *p, const gan_counters *c, int64_t lo, int64_t hi) {
    const int64_t *n = (const int64_t *)p[3];
    const float r0 = gan_f32_bits((uint32_t)n[0]);
    const float *a0 = (const float *)p[0];
    float *a1 = (float *)p[1];
    const float v0 = a0[0];
    const float v2 = v0 * r0;
    for (int64_t u = lo; u < hi; u++) {
        a1[0] = v2;
    }
}
