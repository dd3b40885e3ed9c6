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

// The accumulator of sums of squared deviations from the mean: the count of terms n, a shift, and
// the sum and the sum of squares of the terms less the shift (shifted data: no cancellation for
// values far from zero). A thread's shift is its first term. Before a team adds its accumulators
// they get one shift, the mean of part 0's terms (gan_team::settle). Blocks leave mean and squares,
// and the last block's threads take the mean of a piece as the shift (gan_add_part).
//
// How near the mean m must a shift c be? Squares less n (c - m)^2 remain, so a rounding error is
// multiplied by 1 + n (c - m)^2 / squares. The mean c of k of the terms has k (c - m)^2 <= squares
// (they deviate that much themselves), whatever the terms are: at most 1 + n / k. That is the steps
// of a thread for its shift, the threads of a team, and the pieces that a thread adds; of terms in
// no special order it is about 2.
template <typename T> struct gan_count { typedef int type; };
template <> struct gan_count<double> { typedef long long type; };

template <typename T, int N> struct gan_moments {
    typename gan_count<T>::type n; // whole, and as wide as the others
    gan_pack<T, N> shift, sum, squares;
};

// What a block leaves of its terms.
template <typename T, int N> struct gan_part { gan_pack<T, N> mean, squares; };

GAN_FN float gan_quotient(float a, float b) {
    return gan_divf(a, b);
}
GAN_FN double gan_quotient(double a, double b) {
    return a / b;
}

// Element l of a term; the last one counts it.
template <typename T, int N> GAN_FN void gan_add_square(gan_moments<T, N> *a, int l, T x) {
    const T shift = a->n ? a->shift.at[l] : x, d = x - shift;
    a->shift.at[l] = shift;
    a->sum.at[l] += d;
    a->squares.at[l] = gan_fma(d, d, a->squares.at[l]);
    a->n += l == N - 1;
}

// Moves the shift.
template <typename T, int N> GAN_FN void gan_shift(gan_moments<T, N> *a, const gan_pack<T, N> &to) {
    for (int l = 0; l < N; l++) {
        const T d = a->shift.at[l] - to.at[l], sum = gan_fma((T)a->n, d, a->sum.at[l]);
        a->squares.at[l] = gan_fma(d, a->sum.at[l] + sum, a->squares.at[l]);
        a->sum.at[l] = sum;
        a->shift.at[l] = to.at[l];
    }
}

// A term's share of the mean: computed once for what follows.
template <typename T, int N> GAN_FN T gan_share(const gan_moments<T, N> &a) {
    return gan_quotient((T)1, (T)a.n);
}

template <typename T, int N> GAN_FN gan_pack<T, N> gan_mean(const gan_moments<T, N> &a, T share) {
    gan_pack<T, N> all;
    for (int l = 0; l < N; l++)
        all.at[l] = gan_fma(a.sum.at[l], share, a.shift.at[l]);
    return all;
}

// The squares about the mean, of one element or of all.
template <typename T, int N> GAN_FN T gan_squares(const gan_moments<T, N> &a, int l, T share) {
    const T mean = a.sum.at[l] * share, squares = gan_fma(-a.sum.at[l], mean, a.squares.at[l]);
    return squares < 0 ? 0 : squares;
}
template <typename T, int N> GAN_FN T gan_squares(const gan_moments<T, N> &a, int l) {
    return gan_squares(a, l, gan_share(a));
}
template <typename T, int N>
GAN_FN gan_pack<T, N> gan_squares(const gan_moments<T, N> &a, T share) {
    gan_pack<T, N> all;
    for (int l = 0; l < N; l++)
        all.at[l] = gan_squares(a, l, share);
    return all;
}
template <typename T, int N> GAN_FN gan_pack<T, N> gan_squares(const gan_moments<T, N> &a) {
    return gan_squares(a, gan_share(a));
}

template <typename T, int N> GAN_FN gan_part<T, N> gan_part_of(const gan_moments<T, N> &a) {
    const T share = gan_share(a);
    return {gan_mean(a, share), gan_squares(a, share)};
}

// Adds n terms by their mean and the squares about it.
template <typename T, int N, typename I>
GAN_FN void gan_add_part(gan_moments<T, N> *a, const gan_part<T, N> &x, I n) {
    for (int l = 0; l < N; l++) {
        const T shift = a->n ? a->shift.at[l] : x.mean.at[l], d = x.mean.at[l] - shift;
        a->shift.at[l] = shift;
        a->sum.at[l] = gan_fma((T)n, d, a->sum.at[l]);
        a->squares.at[l] += gan_fma((T)n * d, d, x.squares.at[l]);
    }
    a->n += n;
}

// A shuffle of a whole warp, for a type of any size: the value of lane ^ mask, or of the first of
// `width` lanes.
template <int WIDTH, typename T> GAN_FN T gan_shuffle(T x, int mask) {
    union {
        T x;
        uint32_t w[sizeof(T) / 4];
    } v;
    v.x = x;
    for (uint32_t i = 0; i < sizeof(T) / 4; i++)
        v.w[i] = WIDTH ? __shfl_sync(0xFFFFFFFFu, v.w[i], 0, WIDTH)
                       : __shfl_xor_sync(0xFFFFFFFFu, v.w[i], mask);
    return v.x;
}

// What is reduced together lies in shared memory, the K-th of the values in an array of its own:
// neighbouring threads access neighbouring elements.
template <int K, int COUNT, typename T> GAN_FN T &gan_slot(int at) {
    __shared__ T all[COUNT];
    return all[at];
}
template <int COUNT, int K, typename T, typename... U>
GAN_FN void gan_put_slot(int at, const T &mine, const U &...others) {
    gan_slot<K, COUNT, T>(at) = mine;
    if constexpr (sizeof...(others) > 0)
        gan_put_slot<COUNT, K + 1>(at, others...);
}
template <int COUNT, int K, typename Op, typename T, typename... U>
GAN_FN void gan_add_slot(int at, T &mine, U &...others) {
    mine = Op::of(mine, gan_slot<K, COUNT, T>(at));
    if constexpr (sizeof...(others) > 0)
        gan_add_slot<COUNT, K + 1, Op>(at, others...);
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

    // Gives the accumulators of a team one shift. Every thread of the block calls it, and join
    // after it.
    template <typename T, int N> static GAN_MEMBER void settle(gan_moments<T, N> *a) {
        if constexpr (SIZE > 1 && SIZE <= 32 && !ACROSS) {
            gan_shift(a, gan_shuffle<SIZE>(gan_mean(*a, gan_share(*a)), 0));
        } else if constexpr (SIZE > 1) {
            gan_pack<T, N> &mean = gan_slot<0, COUNT, gan_pack<T, N>>(unit());
            __syncthreads(); // all reads of the accumulators before are done
            if (part() == 0)
                mean = gan_mean(*a, gan_share(*a));
            __syncthreads();
            gan_shift(a, mean);
        }
    }

    // Reduces the values of each team, several at once; part 0 has the results. Every thread of
    // the block must call it. The tree depends on UNITS and SIZE alone: lanes of a warp by
    // shuffles, then warps in shared memory, up to SLOTS_A_ROUND by one thread.
    template <typename Op, typename... T> static GAN_MEMBER void join(T &...mine) {
#pragma unroll 1 // of dependent steps it would cost only compile time
        for (int mask = LANES / 2 * STRIDE; mask >= STRIDE; mask /= 2)
            ((mine = Op::of(mine, gan_shuffle<0>(mine, mask))), ...);
        join_slots<SIZE / LANES, Op>(mine...);
    }

  private:
    // Lanes of a warp in one team, and from one of them to the next.
    static constexpr int LANES = !ACROSS ? (SIZE < 32 ? SIZE : 32) : 32 % UNITS ? 1 : 32 / UNITS;
    static constexpr int STRIDE = ACROSS ? UNITS : 1;
    static constexpr int COUNT = SIZE / LANES * UNITS;
    static constexpr int SLOTS_A_ROUND = 16;

    // Reduces N slots in rounds, each of which leaves one of up to SLOTS_A_ROUND. How many there
    // are is known here, so the loop has no rest; three loads are in flight together.
    template <int N, typename Op, typename... T> static GAN_MEMBER void join_slots(T &...mine) {
        if constexpr (N > 1) {
            constexpr int LEFT = (N + SLOTS_A_ROUND - 1) / SLOTS_A_ROUND, ROUND = N / LEFT;
            static_assert(ROUND * LEFT == N, "teams have powers of two slots");
            const int slot = part() / LANES;
            __syncthreads(); // all reads of the round before are done
            if (slot < N && part() % LANES == 0)
                gan_put_slot<COUNT, 0>(slot * UNITS + unit(), mine...);
            __syncthreads();
            if (slot < LEFT) {
#pragma unroll(ROUND == SLOTS_A_ROUND ? 3 : ROUND - 1)
                for (int i = 1; i < ROUND; i++)
                    gan_add_slot<COUNT, 0, Op>((slot + i * LEFT) * UNITS + unit(), mine...);
            }
            join_slots<LEFT, Op>(mine...);
        }
    }
};

// The same of THREADS threads, where the text leaves open how many units and how many threads of a
// unit there are: 1 << shift of what comes first, of units where teams lie ACROSS. A sum is the
// same, bit by bit, as that of a gan_team of this shape.
template <int THREADS, bool ACROSS> struct gan_open_team {
    int shift;

    GAN_MEMBER int units() const {
        return ACROSS ? 1 << shift : THREADS >> shift;
    }
    GAN_MEMBER int size() const {
        return ACROSS ? THREADS >> shift : 1 << shift;
    }
    GAN_MEMBER uint32_t unit() const {
        return ACROSS ? first() : threadIdx.x >> shift;
    }
    GAN_MEMBER uint32_t part() const {
        return ACROSS ? threadIdx.x >> shift : first();
    }

    template <typename T, int N> GAN_MEMBER void settle(gan_moments<T, N> *a) const {
        gan_pack<T, N> &mean = gan_slot<0, COUNT, gan_pack<T, N>>(unit());
        __syncthreads(); // all reads of the accumulators before are done
        if (part() == 0)
            mean = gan_mean(*a, gan_share(*a));
        __syncthreads();
        gan_shift(a, mean);
    }

    template <typename Op, typename... T> GAN_MEMBER void join(T &...mine) const {
        const int inside = shift < 5 ? shift : 5,
                  lanes = ACROSS ? 5 - inside : inside; // 1 << lanes
        const int stride = ACROSS ? units() : 1, slot = part() >> lanes;
#pragma unroll 1
        for (int mask = (stride << lanes) / 2; mask >= stride; mask /= 2)
            ((mine = Op::of(mine, gan_shuffle<0>(mine, mask))), ...);
        const int slots = NARROW ? THREADS / WARP : size() >> lanes;
        if (!ACROSS && slots == 1)
            return;
        __syncthreads(); // all reads of the last time are done
        if (part() == slot << lanes)
            gan_put_slot<COUNT, 0>(slot * units() + unit(), mine...);
        __syncthreads();
        if (slot == 0) {
#pragma unroll(NARROW ? 3 : 1) // where their number is known
            for (int i = 1; i < slots; i++)
                gan_add_slot<COUNT, 0, Op>(i * units() + unit(), mine...);
        }
    }

  private:
    static constexpr int WARP = 32, COUNT = ACROSS ? 256 : WARP;
    static constexpr bool NARROW = ACROSS && THREADS > COUNT; // so each warp has all units

    GAN_MEMBER uint32_t first() const {
        return threadIdx.x & ((1u << shift) - 1);
    }
};

// The units of a block, where there are so many pieces, perhaps one: that has no inverse.
GAN_FN uint32_t gan_group_of(uint32_t block, uint32_t pieces, gan_divisor by) {
    const uint32_t group = gan_divide(block, by); // ahead of the choice, which is no branch then
    return pieces == 1 ? block : group;
}

// True in the last of `blocks` blocks to arrive: there gan_load_cg sees what all of them wrote
// before. The barrier puts the writes of a block before the fence of its first thread. atomicInc
// wraps the ticket to zero for the next launch.
GAN_FN bool gan_is_last(uint32_t *ticket, uint32_t blocks) {
    __shared__ uint32_t before;
    __syncthreads();
    if (threadIdx.x == 0) {
        __threadfence();
        before = atomicInc(ticket, blocks - 1);
        __threadfence();
    }
    __syncthreads();
    return before == blocks - 1;
}

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

// Partial results, in registers: of any number, where packs are of powers of two.
template <typename T, int N> struct gan_parts { T at[N]; };

// Those of a unit, of N pieces from `at` on, every by-th, their loads in flight together. Beyond
// the last piece it is that one's, again. Indices are summed before they are widened.
template <int N, typename T, typename I>
GAN_FN gan_parts<T, N> gan_load_parts(const T *p, I unit, I units, int at, int by, int last) {
    gan_parts<T, N> all;
#pragma unroll
    for (int k = 0; k < N; k++, at += by)
        all.at[k] = gan_load_cg(p + ((k && at > last ? last : at) * units + unit));
    return all;
}

#endif
