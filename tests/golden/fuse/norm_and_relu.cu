// step, dialect cuda. compiler/ir/prelude.h and compiler/gen/kernel_cuda.h stand before this text.
//
// a inputs and outputs, n and r numbers, i loop variables, j parts of indices, g bounds that
// hold, v values, p and y packs loaded and stored, s accumulators, q partial results

// sum squares mul add sqrt
// a0 [B, 8, 16, 16] -> a1 [B, 8, 1, 1], a2 [B, 8, 1, 1]
// regions 0
extern "C" __global__ void __launch_bounds__(256)
sum_squares_mul_add_50dd306cb8c76d60(const gan_args<9> w) {
    const uint32_t n0 = (uint32_t)w.half[6]; // units
    const int n1 = (int)w.half[8]; // stride
    const int n2 = (int)w.half[10]; // steps of a unit
    const int n3 = (int)w.half[12]; // stride
    const float r4 = gan_f32_bits((uint32_t)w.half[14]);
    const float r5 = gan_f32_bits((uint32_t)w.half[16]);
    const float *a0 = (const float *)w.at[0];
    float *a1 = (float *)w.at[1];
    float *a2 = (float *)w.at[2];
    const gan_team<4, 64, true> team = {}; // 4 units a block, 64 threads each
    const uint32_t unit = blockIdx.x * 4 + team.unit();
    const bool active = unit < n0;
    const uint32_t u = active ? unit : 0;
    const int i1 = (int)(u % 2) * 4;
    const int i0 = (int)(u / 2);
    const int j0 = i0*n1 + i1;
    gan_pack<float, 4> s0 = {};
    gan_moments<float, 4> s1 = {};
    #pragma unroll 4
    for (int i2 = active ? team.part() : n2; i2 < n2; i2 += 64) {
        const gan_pack<float, 4> p0 = gan_load<4>(&a0[i0*n3 + i2*n1 + i1]);
        #pragma unroll
        for (int l = 0; l < 4; l++) {
            s0.at[l] += p0.at[l];
            gan_add_square(&s1, l, p0.at[l]);
        }
    }
    team.settle(&s1);
    team.join<gan_sum>(s0, s1.sum, s1.squares, s1.n);
    if (active && team.part() == 0) {
        gan_store(&a1[j0], s0);
        gan_pack<float, 4> y0;
        #pragma unroll
        for (int l = 0; l < 4; l++) {
            const float v1 = gan_squares(s1, l);
            const float v3 = v1 * r4;
            const float v5 = v3 + r5;
            const float v6 = gan_sqrtf(v5);
            y0.at[l] = v6;
        }
        gan_store(&a2[j0], y0);
    }
}

// mul sub div ge where sum
// a0 [B, 8, 16, 16], a1 [B, 8, 1, 1], a2 [B, 8, 1, 1] -> a3 [B, 1, 1, 1]
// regions 1
extern "C" __global__ void __launch_bounds__(256)
mul_sub_div_ge_6de3642dba8aa30e(const gan_args<14> w) {
    const uint32_t n0 = (uint32_t)w.half[12]; // units
    const uint32_t n1 = (uint32_t)w.half[14]; // pieces of a unit
    const gan_divisor n2 = {w.half[16], w.half[17]}; // 1 / n1
    const int n3 = (int)w.half[18]; // steps of a unit
    const int n4 = (int)w.half[20]; // steps of a piece
    const int n5 = (int)w.half[22]; // stride
    const int n6 = (int)w.half[24]; // stride
    const float r7 = gan_f32_bits((uint32_t)w.half[26]);
    const float *a0 = (const float *)w.at[0];
    const float *a1 = (const float *)w.at[1];
    const float *a2 = (const float *)w.at[2];
    float *a3 = (float *)w.at[3];
    float *q0 = (float *)w.at[4];
    uint32_t *tickets = (uint32_t *)w.at[5];
    const gan_team<8, 32, false> team = {}; // 8 units a block, 32 threads each
    const uint32_t group = gan_divide(blockIdx.x, n2);
    const uint32_t piece = blockIdx.x - group * n1;
    const uint32_t unit = group * 8 + team.unit();
    const bool active = unit < n0;
    const uint32_t u = active ? unit : 0;
    const int i0 = (int)u;
    float s0 = 0;
    const int begin = piece * n4;
    const int end = begin + n4 < n3 ? begin + n4 : n3;
    #pragma unroll 1
    for (int r = active ? begin + team.part() : end; r < end; r += 32) {
        const int i2 = (r % 2) * 4;
        const int i1 = r / 2;
        const int j0 = i0*n5 + i2;
        const gan_pack<float, 4> p1 = gan_load<4>(&a0[i0*n6 + i1*n5 + i2]);
        const gan_pack<float, 4> p2 = gan_load<4>(&a1[j0]);
        const gan_pack<float, 4> p6 = gan_load<4>(&a2[j0]);
        #pragma unroll
        for (int l = 0; l < 4; l++) {
            const float v4 = p2.at[l] * r7;
            const float v5 = p1.at[l] - v4;
            const float v7 = gan_divf(v5, p6.at[l]);
            const float v9 = 0.0f >= v7 ? 0.0f : v7;
            s0 += v9;
        }
    }
    // split reduction: the last block reduces the partial results of all
    #pragma unroll 1
    for (bool last = false;;) {
        team.join<gan_sum>(s0);
        if (last) {
            if (active && team.part() == 0) {
                a3[i0] = s0;
            }
            break;
        }
        if (active && team.part() == 0) {
            q0[piece * n0 + u] = s0;
        }
        last = gan_is_last(tickets + group, n1);
        if (!last)
            break;
        s0 = 0;
        const int last_piece = n1 - 1;
        #pragma unroll 1
        for (int at = active ? team.part() : n1; at <= last_piece; at += 128) {
            const auto t0 = gan_load_parts<4>(q0, u, n0, at, 32, last_piece);
            #pragma unroll
            for (int k = 0, p = at; k < 4; k++, p += 32) {
                if (p > last_piece)
                    break;
                s0 = gan_sum::of(s0, t0.at[k]);
            }
        }
    }
}

// reshape sum
// a0 [B, 1, 1, 1] -> a1 []
// regions 2
extern "C" __global__ void __launch_bounds__(256)
sum_1d8d7415bd73af55(const gan_args<4> w) {
    const uint32_t n0 = (uint32_t)w.half[4]; // units
    const int n1 = (int)w.half[6]; // steps of a unit
    const float *a0 = (const float *)w.at[0];
    float *a1 = (float *)w.at[1];
    const gan_team<8, 32, false> team = {}; // 8 units a block, 32 threads each
    const uint32_t unit = blockIdx.x * 8 + team.unit();
    const bool active = unit < n0;
    float s0 = 0;
    #pragma unroll 4
    for (int r = active ? team.part() : n1; r < n1; r += 32) {
        const int i0 = r * 4;
        const gan_pack<float, 4> p0 = gan_load<4>(&a0[i0]);
        #pragma unroll
        for (int l = 0; l < 4; l++) {
            s0 += p0.at[l];
        }
    }
    team.join<gan_sum>(s0);
    if (active && team.part() == 0) {
        a1[0] = s0;
    }
}

// mul
// a0 [] -> a1 []
// regions 3
extern "C" __global__ void __launch_bounds__(256)
mul_890f287fb64be28d(const gan_args<4> w) {
    const uint32_t n0 = (uint32_t)w.half[4]; // units
    const float r1 = gan_f32_bits((uint32_t)w.half[6]);
    const float *a0 = (const float *)w.at[0];
    float *a1 = (float *)w.at[1];
    const uint32_t u = blockIdx.x * 256 + threadIdx.x;
    if (u < n0) {
        const float v0 = a0[0];
        const float v2 = v0 * r1;
        a1[0] = v2;
    }
}
