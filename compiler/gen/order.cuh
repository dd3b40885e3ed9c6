// order.cuh - text put before the kernels of orders: the permutation that sorts a row (argsort) or
// the last indices of it, and a row permuted by them.
//
// A row that fits into shared memory is sorted there by one block (Batcher's bitonic network,
// 1968). A longer one is merge sorted: blocks sort tiles of it, and of two neighbouring sorted runs
// the block that completes its run last merges both. So no block waits for another, and any grid
// gives the same bits. All comparisons are of (key, position): no two elements are equal, so both
// sorts are stable.
#ifndef GAN_ORDER_CUH
#define GAN_ORDER_CUH

// Does element (a, i) come before (b, j)? NaN comes last.
template <typename T> GAN_FN bool gan_before(T a, uint32_t i, T b, uint32_t j) {
    const bool last = a != a, other_last = b != b;
    if (last || other_last)
        return last == other_last ? i < j : other_last;
    return a == b ? i < j : a < b;
}

// The first element of a row of n; its elements are `step` apart.
template <typename T, int FROM, int N>
GAN_FN T *gan_row_of(const gan_args<N> &w, int64_t row, int64_t n, int64_t step) {
    return (T *)w.at[FROM] + row / step * n * step + row % step;
}

// Elements [first, first + size) of a row, at most SIZE, to shared memory; NaN behind them.
template <int SIZE, typename T>
GAN_FN void gan_fetch(const T *x, int64_t step, uint32_t first, uint32_t size, T *key,
                      uint32_t *position) {
    for (uint32_t i = threadIdx.x; i < SIZE; i += GAN_ORDER_THREADS) {
        key[i] = i < size ? x[(first + i) * step] : (T)gan_f32_bits(0x7FC00000u);
        position[i] = first + i;
    }
}

// Sorts SIZE elements, a power of two, in shared memory. Every thread of the block calls it.
template <int SIZE, typename T> GAN_FN void gan_bitonic(T *key, uint32_t *position) {
    for (uint32_t run = 2; run <= SIZE; run *= 2) {
        for (uint32_t apart = run / 2; apart > 0; apart /= 2) {
            __syncthreads();
            for (uint32_t k = threadIdx.x; k < SIZE / 2; k += GAN_ORDER_THREADS) {
                // pair k: apart is a power of two
                const uint32_t a = 2 * k - (k & (apart - 1)), b = a + apart;
                const bool down = (a & run) != 0;
                const T key_a = key[a], key_b = key[b];
                const uint32_t position_a = position[a], position_b = position[b];
                if (gan_before(key_b, position_b, key_a, position_a) != down) {
                    key[a] = key_b, key[b] = key_a;
                    position[a] = position_b, position[b] = position_a;
                }
            }
        }
    }
    __syncthreads();
}

// SIZE, a power of two, is n or more.
template <typename T, int SIZE, int FROM, int TO, int NUMBERS, int N>
GAN_FN void gan_sort(const gan_args<N> &w) {
    const int64_t n = w.at[NUMBERS + GAN_ORDER_N], step = w.at[NUMBERS + GAN_ORDER_STEP];
    const int64_t last = w.at[NUMBERS + GAN_ORDER_LAST];
    __shared__ T key[SIZE];
    __shared__ uint32_t position[SIZE];
    for (int64_t row = blockIdx.x; row < w.at[NUMBERS + GAN_ORDER_LINES]; row += gridDim.x) {
        T *y = gan_row_of<T, TO>(w, row, last, step);
        gan_fetch<SIZE>(gan_row_of<T, FROM>(w, row, n, step), step, 0, (uint32_t)n, key, position);
        gan_bitonic<SIZE>(key, position);
        for (uint32_t i = threadIdx.x; i < last; i += GAN_ORDER_THREADS)
            y[i * step] = (T)position[n - last + i];
        __syncthreads(); // the next row is fetched
    }
}

// A row's sorted runs in the scratch memory: one of two buffers, which alternate from merge to
// merge.
template <typename T> struct gan_runs {
    T *key;
    uint32_t *position;
};

// A row of the result, which has indices from element `first` of the order on; NULL: not yet.
template <typename T> struct gan_result {
    T *y;
    int64_t step;
    uint32_t first;
};

// Element i of what a block sorts: to the other buffer or, at last, to the result.
template <typename T>
GAN_FN void gan_put(T key, uint32_t position, uint32_t i, gan_runs<T> to, gan_result<T> result) {
    if (result.y) {
        if (i >= result.first)
            result.y[(i - result.first) * result.step] = (T)position;
    } else {
        to.key[i] = key;
        to.position[i] = position;
    }
}

// How many of `size` sorted elements come before (x, i), by binary search.
template <typename T>
GAN_FN uint32_t gan_rank(const T *key, const uint32_t *position, uint32_t size, T x, uint32_t i) {
    uint32_t low = 0;
    for (uint32_t high = size; low < high;) {
        const uint32_t middle = (low + high) / 2;
        if (gan_before(key[middle], position[middle], x, i))
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

// Merges the runs [begin, middle) and [middle, end). Of both, windows of WINDOW elements are in
// shared memory; the first WINDOW of their merge are final, since nothing behind the windows can
// come before them. An element's place is its index in its own window and its rank in the other.
template <int WINDOW, typename T>
GAN_FN void gan_merge(gan_runs<T> from, gan_runs<T> to, gan_result<T> result, uint32_t begin,
                      uint32_t middle, uint32_t end, T *key, uint32_t *position) {
    __shared__ uint32_t taken; // elements of the first window that are final
    for (uint32_t a = begin, b = middle, at = begin; at < end;) {
        const uint32_t left = middle - a < WINDOW ? middle - a : WINDOW;
        const uint32_t right = end - b < WINDOW ? end - b : WINDOW;
        const uint32_t size = left + right < WINDOW ? left + right : WINDOW;
        for (uint32_t k = threadIdx.x; k < 2 * WINDOW; k += GAN_ORDER_THREADS) {
            const uint32_t i = k % WINDOW, source = (k < WINDOW ? a : b) + i;
            if (i < (k < WINDOW ? left : right)) {
                key[k] = gan_load_cg(from.key + source);
                position[k] = gan_load_cg(from.position + source);
            }
        }
        __syncthreads();
        for (uint32_t k = threadIdx.x; k < 2 * WINDOW; k += GAN_ORDER_THREADS) {
            const bool first = k < WINDOW;
            const uint32_t i = k % WINDOW, other = first ? WINDOW : 0;
            if (i < (first ? left : right)) {
                const uint32_t place = i + gan_rank(key + other, position + other,
                                                    first ? right : left, key[k], position[k]);
                if (place < size)
                    gan_put(key[k], position[k], at + place, to, result);
                if (place == size - 1)
                    taken = first ? i + 1 : size - (i + 1);
            }
        }
        __syncthreads();
        a += taken;
        b += size - taken;
        at += size;
    }
}

template <typename T, int FROM, int TO, int SCRATCH, int N>
GAN_FN void gan_sort_long(const gan_args<N> &w) {
    enum { TILE = GAN_ORDER_TILE, NUMBERS = SCRATCH + 2 };
    const int64_t step = w.at[NUMBERS + GAN_ORDER_STEP], rows = w.at[NUMBERS + GAN_ORDER_LINES];
    const uint32_t n = (uint32_t)w.at[NUMBERS + GAN_ORDER_N], tiles = (n + TILE - 1) / TILE;
    const uint32_t last = (uint32_t)w.at[NUMBERS + GAN_ORDER_LAST];
    T *const keys = (T *)w.at[SCRATCH];
    uint32_t *const positions = (uint32_t *)(keys + 2 * rows * n);
    uint32_t *const tickets = (uint32_t *)w.at[SCRATCH + 1];
    __shared__ T key[TILE];
    __shared__ uint32_t position[TILE];
    for (int64_t job = blockIdx.x; job < rows * tiles; job += gridDim.x) {
        const int64_t row = job / tiles;
        const uint32_t first = (uint32_t)(job % tiles) * TILE;
        const uint32_t size = n - first < TILE ? n - first : TILE;
        const gan_result<T> none = {},
                            result = {gan_row_of<T, TO>(w, row, last, step), step, n - last};
        gan_runs<T> from = {keys + row * n, positions + row * n};
        gan_runs<T> to = {from.key + rows * n, from.position + rows * n};
        gan_fetch<TILE>(gan_row_of<T, FROM>(w, row, n, step), step, first, size, key, position);
        gan_bitonic<TILE>(key, position);
        for (uint32_t i = threadIdx.x; i < size; i += GAN_ORDER_THREADS)
            gan_put(key[i], position[i], first + i, from, none);
        for (uint32_t run = TILE; run < n; run *= 2) {
            const uint32_t begin = first / (2 * run) * 2 * run;
            const uint32_t middle = n - begin < run ? n : begin + run;
            const uint32_t end = n - begin < 2 * run ? n : begin + 2 * run;
            if (middle < end) {
                if (!gan_is_last(tickets + row * tiles + middle / TILE, 2))
                    break; // the other run's block merges
            } else {       // a last run without another is copied to the other buffer
                __threadfence();
                __syncthreads();
            }
            gan_merge<TILE / 2>(from, to, 2 * run < n ? none : result, begin, middle, end, key,
                                position);
            const gan_runs<T> merged = to;
            to = from;
            from = merged;
        }
        __syncthreads(); // the next tile is fetched
    }
}

// One index a thread: y[i] = x[order[i]] or, BACK, y[order[i]] = x[i], for a permutation.
template <typename T, bool BACK, int FROM, int ORDER, int TO, int NUMBERS, int N>
GAN_FN void gan_arrange(const gan_args<N> &w) {
    const int64_t n = w.at[NUMBERS + GAN_ORDER_N], step = w.at[NUMBERS + GAN_ORDER_STEP];
    const int64_t last = w.at[NUMBERS + GAN_ORDER_LAST];
    const int64_t all = last * w.at[NUMBERS + GAN_ORDER_LINES];
    const int64_t stride = (int64_t)gridDim.x * GAN_ORDER_THREADS;
    for (int64_t k = (int64_t)blockIdx.x * GAN_ORDER_THREADS + threadIdx.x; k < all; k += stride) {
        const int64_t sample = k / (last * step), i = k / step % last;
        const int64_t row = sample * step + k % step;
        const int64_t there = (int64_t)gan_row_of<T, ORDER>(w, row, last, step)[i * step];
        if (there >= 0 && there < n) {
            gan_row_of<T, TO>(w, row, BACK ? n : last, step)[(BACK ? there : i) * step] =
                gan_row_of<T, FROM>(w, row, BACK ? last : n, step)[(BACK ? i : there) * step];
        }
    }
}

// The same back to rows of more elements, one a block: zeros, then y[order[i]] = x[i].
template <typename T, int FROM, int ORDER, int TO, int NUMBERS, int N>
GAN_FN void gan_spread(const gan_args<N> &w) {
    const int64_t n = w.at[NUMBERS + GAN_ORDER_N], step = w.at[NUMBERS + GAN_ORDER_STEP];
    const int64_t last = w.at[NUMBERS + GAN_ORDER_LAST];
    for (int64_t row = blockIdx.x; row < w.at[NUMBERS + GAN_ORDER_LINES]; row += gridDim.x) {
        T *const y = gan_row_of<T, TO>(w, row, n, step);
        for (int64_t i = threadIdx.x; i < n; i += GAN_ORDER_THREADS)
            y[i * step] = 0;
        __syncthreads();
        for (int64_t i = threadIdx.x; i < last; i += GAN_ORDER_THREADS) {
            const int64_t there = (int64_t)gan_row_of<T, ORDER>(w, row, last, step)[i * step];
            if (there >= 0 && there < n)
                y[there * step] = gan_row_of<T, FROM>(w, row, last, step)[i * step];
        }
    }
}

#endif
