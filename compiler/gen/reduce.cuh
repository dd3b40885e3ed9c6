// reduce.cuh - text put behind kernel_cuda.h: reductions by threads, by the teams of a block, and
// by blocks. Every tree is fixed, so a sum has the same bits whatever the number of blocks.
#ifndef GAN_REDUCE_CUH
#define GAN_REDUCE_CUH

// A maximum and its index; the lowest index of equal values.
template <typename T, typename I> struct gan_best {
    T value;
    I at;
};

template <typename T, typename I> GAN_FN gan_best<T, I> gan_best_of(T value, I at) {
    return {value, at};
}
template <typename T, typename I, int N>
GAN_FN gan_pack<gan_best<T, I>, N> gan_best_of(gan_pack<T, N> value, gan_pack<I, N> at) {
    gan_pack<gan_best<T, I>, N> all;
    for (int l = 0; l < N; l++)
        all.at[l] = {value.at[l], at.at[l]};
    return all;
}

template <typename T, typename I> GAN_FN void gan_split(gan_best<T, I> x, T *value, I *at) {
    *value = x.value;
    *at = x.at;
}
template <typename T, typename I, int N>
GAN_FN void gan_split(gan_pack<gan_best<T, I>, N> x, gan_pack<T, N> *value, gan_pack<I, N> *at) {
    for (int l = 0; l < N; l++)
        gan_split(x.at[l], &value->at[l], &at->at[l]);
}

struct gan_sum {
    template <typename T> static GAN_MEMBER T of(T a, T b) {
        return a + b;
    }
    template <typename T, int N>
    static GAN_MEMBER gan_pack<T, N> of(gan_pack<T, N> a, gan_pack<T, N> b) {
        for (int l = 0; l < N; l++)
            a.at[l] += b.at[l];
        return a;
    }
};

// Is a greater than b? A NaN is greater than any number, so that it propagates. gan_exceeds is
// false where both are NaN: it keeps the first of equal values. gan_beats breaks ties by index: of
// a at x and b at y the lower one wins.
template <typename T> GAN_FN bool gan_greater(T a, T b) {
    return (a > b) | (a != a);
}
template <typename T> GAN_FN bool gan_exceeds(T a, T b) {
    return !(a <= b) & (b == b);
}
template <typename T, typename I> GAN_FN bool gan_beats(T a, I x, T b, I y) {
    return (a > b) | ((a == b) & (x < y)) | ((a != a) & ((b == b) | (x < y)));
}

struct gan_max {
    template <typename T> static GAN_MEMBER T of(T a, T b) {
        return gan_greater(b, a) ? b : a;
    }
    template <typename T, int N>
    static GAN_MEMBER gan_pack<T, N> of(gan_pack<T, N> a, gan_pack<T, N> b) {
        for (int l = 0; l < N; l++)
            a.at[l] = of(a.at[l], b.at[l]);
        return a;
    }
    template <typename T, typename I>
    static GAN_MEMBER gan_best<T, I> of(gan_best<T, I> a, gan_best<T, I> b) {
        return gan_beats(b.value, b.at, a.value, a.at) ? b : a;
    }
};

// The accumulator of a sum of squared deviations from the mean: the count n, the first term as the
// shift, and the sum and the sum of squares of the terms less the shift (shifted data: no
// cancellation for values far from zero). gan_center turns the latter two into the mean, less the
// shift, and the sum of squares about it, which is what gan_chan merges. An outlier as the shift
// costs one thread's precision among many.
template <typename T> struct gan_count { typedef int type; };
template <> struct gan_count<double> { typedef long long type; };

template <typename T> struct gan_moments {
    typename gan_count<T>::type n; // whole, and as wide as the others
    T shift, sum, squares;         // sum: gan_center makes it the mean
};

GAN_FN float gan_quotient(float a, float b) {
    return gan_divf(a, b);
}
GAN_FN double gan_quotient(double a, double b) {
    return a / b;
}

template <typename T> GAN_FN void gan_add_square(gan_moments<T> *a, T x) {
    a->shift = a->n ? a->shift : x;
    a->n++;
    const T d = x - a->shift;
    a->sum += d;
    a->squares = gan_fma(d, d, a->squares);
}

template <typename T> GAN_FN gan_moments<T> gan_center(const gan_moments<T> &a) {
    const T mean = gan_quotient(a.sum, (T)(a.n ? a.n : 1)), squares = a.squares - a.sum * mean;
    return {a.n, a.shift, mean, squares < 0 ? 0 : squares};
}
template <typename T, int N> GAN_FN gan_pack<T, N> gan_center(gan_pack<T, N> a) {
    for (int l = 0; l < N; l++)
        a.at[l] = gan_center(a.at[l]);
    return a;
}

template <typename T, int N>
GAN_FN gan_pack<T, N> gan_squares(const gan_pack<gan_moments<T>, N> &a) {
    gan_pack<T, N> all;
    for (int l = 0; l < N; l++)
        all.at[l] = a.at[l].squares;
    return all;
}

// Merges two settled accumulators: Chan, Golub and LeVeque 1983, for parts of any size.
struct gan_chan {
    template <typename T> static GAN_MEMBER gan_moments<T> of(gan_moments<T> a, gan_moments<T> b) {
        const T share = gan_quotient((T)b.n, (T)(a.n + b.n ? a.n + b.n : 1)),
                d = b.shift - a.shift + (b.sum - a.sum);
        if (!a.n)
            return b;
        return {a.n + b.n, a.shift, a.sum + d * share,
                a.squares + b.squares + d * d * ((T)a.n * share)};
    }
    template <typename T, int N>
    static GAN_MEMBER gan_pack<T, N> of(gan_pack<T, N> a, const gan_pack<T, N> &b) {
        for (int l = 0; l < N; l++)
            a.at[l] = of(a.at[l], b.at[l]);
        return a;
    }
};

// __shfl_xor_sync of a whole warp, for a type of any size: the value of lane ^ mask.
template <typename T> GAN_FN T gan_shfl_xor(T x, int mask) {
    union {
        T x;
        uint32_t w[sizeof(T) / 4];
    } v;
    v.x = x;
    for (uint32_t i = 0; i < sizeof(T) / 4; i++)
        v.w[i] = __shfl_xor_sync(0xFFFFFFFFu, v.w[i], mask);
    return v.x;
}

// A thread block of UNITS units with SIZE threads each, a team. Consecutive threads belong to one
// unit, or, where teams lie ACROSS, to consecutive units: either way their accesses coalesce.
template <int UNITS, int SIZE, bool ACROSS> struct gan_team {
    static GAN_MEMBER uint32_t unit() {
        return ACROSS ? threadIdx.x % UNITS : threadIdx.x / SIZE;
    }
    static GAN_MEMBER uint32_t part() {
        return ACROSS ? threadIdx.x / UNITS : threadIdx.x % SIZE;
    }

    // Reduces the values of each team; part 0 has the result. Every thread of the block must call
    // it. The tree depends on SIZE alone. Unrolling dependent steps costs only compile time.
    template <typename Op, typename T> static GAN_MEMBER T join(T mine) {
        if constexpr (SIZE > 1 && ACROSS) {
            return through_memory<Op>(mine);
        } else {
#pragma unroll 1
            for (int mask = (SIZE < 32 ? SIZE : 32) / 2; mask > 0; mask /= 2)
                mine = Op::of(mine, gan_shfl_xor(mine, mask));
            if constexpr (SIZE > 32)
                mine = over_warps<Op>(mine);
            return mine;
        }
    }

  private:
    // A tree in shared memory: halves the parts until one is left.
    template <typename Op, typename T> static GAN_MEMBER T through_memory(T mine) {
        __shared__ T all[UNITS * SIZE];
#pragma unroll 1
        for (uint32_t n = SIZE; n > 1; n = (n + 1) / 2) {
            const uint32_t half = (n + 1) / 2;
            __syncthreads(); // all reads of the round before are done
            all[threadIdx.x] = mine;
            __syncthreads();
            if (part() + half < n)
                mine = Op::of(mine, all[threadIdx.x + half * UNITS]);
        }
        return mine;
    }

    // Each warp's result to shared memory; the first thread of a unit reduces them.
    template <typename Op, typename T> static GAN_MEMBER T over_warps(T mine) {
        __shared__ T all[UNITS * SIZE / 32];
        __syncthreads();
        if (threadIdx.x % 32 == 0)
            all[threadIdx.x / 32] = mine;
        __syncthreads();
#pragma unroll 1
        for (int i = 1; i < SIZE / 32 && part() == 0; i++)
            mine = Op::of(mine, all[threadIdx.x / 32 + i]);
        return mine;
    }
};

// True in the last of `blocks` blocks to arrive: there gan_load_cg sees what all of them wrote
// before. atomicInc wraps the ticket to zero for the next launch.
GAN_FN bool gan_is_last(uint32_t *ticket, uint32_t blocks) {
    __shared__ uint32_t before;
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0) {
        before = atomicInc(ticket, blocks - 1);
        __threadfence();
    }
    __syncthreads();
    return before == blocks - 1;
}

// The widest access for a type of this many bytes.
template <int BYTES> struct gan_access { typedef uint4 type; };
template <> struct gan_access<8> { typedef uint2 type; };
template <> struct gan_access<4> { typedef uint32_t type; };

// Another block's result, by ld.global.cg: from L2, because L1 is not coherent between
// multiprocessors. Results are contiguous from an address aligned to 16 bytes.
template <typename T> GAN_FN T gan_load_cg(const T *p) {
    typedef typename gan_access<sizeof(T) % 16 == 0 ? 16 : sizeof(T)>::type part;
    union {
        T x;
        part w[sizeof(T) / sizeof(part)];
    } v;
    for (uint32_t i = 0; i < sizeof(T) / sizeof(part); i++)
        v.w[i] = __ldcg((const part *)p + i);
    return v.x;
}

#endif
