// order.cuh - text put before the kernels of orders: where the numbers of a line stand, and what lies there. Short lines are
// sorted in shared memory (Batcher's bitonic network, 1968), a block each; of a long one each number is compared with all
// others, n^2 comparisons. Both say the same places: no two numbers are equal, for the first of equal ones is the lesser.
#ifndef GAN_ORDER_CUH
#define GAN_ORDER_CUH

template <typename T> GAN_FN bool gan_before(T a, uint32_t i, T b, uint32_t j) {
    const bool last = a != a, other_last = b != b;
    if (last || other_last) {
        return last == other_last ? i < j : other_last;
    }
    return a == b ? i < j : a < b;
}

// Numbers of a line, at this distance from one another.
template <typename T, int FROM, int N>
GAN_FN T *gan_line(const gan_args<N> &w, int64_t line, int64_t n, int64_t step) {
    return (T *)w.at[FROM] + line / step * n * step + line % step;
}

// SIZE, a power of two, is n or more. Numbers from n on are NaN behind all others.
template <typename T, int SIZE, int FROM, int TO, int NUMBERS, int N>
GAN_FN void gan_sort(const gan_args<N> &w) {
    const int64_t n = w.at[NUMBERS + GAN_ORDER_N], step = w.at[NUMBERS + GAN_ORDER_STEP];
    __shared__ T key[SIZE];
    __shared__ uint32_t place[SIZE];
    for (int64_t line = blockIdx.x; line < w.at[NUMBERS + GAN_ORDER_LINES]; line += gridDim.x) {
        const T *x = gan_line<T, FROM>(w, line, n, step);
        T *y = gan_line<T, TO>(w, line, n, step);
        for (uint32_t i = threadIdx.x; i < SIZE; i += GAN_ORDER_THREADS) {
            key[i] = i < n ? x[i * step] : (T)gan_f32_bits(0x7FC00000u);
            place[i] = i;
        }
        for (uint32_t run = 2; run <= SIZE; run *= 2) {
            for (uint32_t apart = run / 2; apart > 0; apart /= 2) {
                __syncthreads();
                for (uint32_t k = threadIdx.x; k < SIZE / 2; k += GAN_ORDER_THREADS) {
                    const uint32_t a = k / apart * 2 * apart + k % apart, b = a + apart;
                    const bool down = (a & run) != 0;
                    const T x_a = key[a], x_b = key[b];
                    const uint32_t p_a = place[a], p_b = place[b];
                    if (gan_before(x_b, p_b, x_a, p_a) != down) {
                        key[a] = x_b, key[b] = x_a;
                        place[a] = p_b, place[b] = p_a;
                    }
                }
            }
        }
        __syncthreads();
        for (uint32_t i = threadIdx.x; i < n; i += GAN_ORDER_THREADS) {
            y[i * step] = (T)place[i];
        }
        __syncthreads(); // the next line's numbers come
    }
}

// How many stand before it is a number's place in the order.
template <typename T, int FROM, int TO, int NUMBERS, int N>
GAN_FN void gan_sort_long(const gan_args<N> &w) {
    const int64_t n = w.at[NUMBERS + GAN_ORDER_N], step = w.at[NUMBERS + GAN_ORDER_STEP];
    const int64_t parts = (n + GAN_ORDER_THREADS - 1) / GAN_ORDER_THREADS;
    __shared__ T tile[GAN_ORDER_TILE];
    for (int64_t job = blockIdx.x; job < w.at[NUMBERS + GAN_ORDER_LINES] * parts; job += gridDim.x) {
        const T *x = gan_line<T, FROM>(w, job / parts, n, step);
        const uint32_t i = (uint32_t)(job % parts * GAN_ORDER_THREADS) + threadIdx.x;
        const T mine = i < n ? x[i * step] : (T)0;
        int64_t before = 0;
        for (int64_t from = 0; from < n; from += GAN_ORDER_TILE) {
            const uint32_t size = (uint32_t)(n - from < GAN_ORDER_TILE ? n - from : GAN_ORDER_TILE);
            __syncthreads(); // the last tile has been read
            for (uint32_t j = threadIdx.x; j < size; j += GAN_ORDER_THREADS) {
                tile[j] = x[(from + j) * step];
            }
            __syncthreads();
            for (uint32_t j = 0; j < size; j++) {
                before += gan_before(tile[j], (uint32_t)from + j, mine, i);
            }
        }
        if (i < n) {
            gan_line<T, TO>(w, job / parts, n, step)[before * step] = (T)i;
        }
    }
}

// One number a thread.
template <typename T, bool BACK, int FROM, int PLACES, int TO, int NUMBERS, int N>
GAN_FN void gan_arrange(const gan_args<N> &w) {
    const int64_t n = w.at[NUMBERS + GAN_ORDER_N], step = w.at[NUMBERS + GAN_ORDER_STEP];
    const int64_t all = n * w.at[NUMBERS + GAN_ORDER_LINES];
    const int64_t stride = (int64_t)gridDim.x * GAN_ORDER_THREADS;
    for (int64_t k = (int64_t)blockIdx.x * GAN_ORDER_THREADS + threadIdx.x; k < all; k += stride) {
        const int64_t sample = k / (n * step), i = k / step % n, line = sample * step + k % step;
        const int64_t there = (int64_t)gan_line<T, PLACES>(w, line, n, step)[i * step];
        if (there >= 0 && there < n) {
            gan_line<T, TO>(w, line, n, step)[(BACK ? there : i) * step] =
                gan_line<T, FROM>(w, line, n, step)[(BACK ? i : there) * step];
        }
    }
}

#endif
