// grouped.cuh - text put before the kernels of convolutions: those of several groups.
//
// A group's rows, columns and terms are few, and a library's kernels for a group at a time leave
// most of a card idle. Here a tile's columns are neighbouring channels of C, of whatever group each
// is, and all accesses are of quads, four channels that lie side by side: of one group where it is
// DEEP, else of four groups that have one channel each (depthwise).
//
// In:   words as those of gan_product, of one axis apart: the groups. GAN_COLUMNS counts the
//       channels of all groups.
// Out:  C. Every element is summed in one order, which follows from shapes alone.
#ifndef GAN_GROUPED_CUH
#define GAN_GROUPED_CUH

template <class P> struct gan_quad : gan_pack<typename P::sum, GAN_SQUARE> {
    // Four neighbouring elements; zeros where they are not `there`.
    static GAN_MEMBER gan_quad load(bool there, const typename P::in *from) {
        const auto x = gan_load_if(there, (const gan_pack<typename P::in, GAN_SQUARE> *)from);
        gan_quad q;
#pragma unroll
        for (int l = 0; l < GAN_SQUARE; l++)
            q.at[l] = gan_number(x.at[l]);
        return q;
    }

    GAN_MEMBER void put(typename P::out *to) const {
        gan_pack<typename P::out, GAN_SQUARE> x;
#pragma unroll
        for (int l = 0; l < GAN_SQUARE; l++)
            gan_put(&x.at[l], this->at[l]);
        gan_store(to, x);
    }
};

// The axes of a convolution's channels: of the groups, and of one group's in A or B (`deep`) and in
// C (`wide`); and the axes of its taps, which are before one of the former.
struct gan_channels {
    int64_t group[3]; // from a group to the next in A, B and C: elements
    gan_axis deep, wide;
    gan_list taps;
    uint32_t count; // of taps
};

template <int N> GAN_FN gan_channels gan_channels_of(const gan_args<N> &w, int deep, int wide) {
    const gan_list d = gan_list_at(w, deep), e = gan_list_at(w, wide);
    const int apart = gan_list_at(w, GAN_OF_G).at;
    gan_channels c;
#pragma unroll
    for (int x = 0; x < 3; x++)
        c.group[x] = (int64_t)w.at[apart + 1 + x];
    c.deep = gan_axis_at(w, d.at + (d.n - 1) * GAN_AXIS_WORDS);
    c.wide = gan_axis_at(w, e.at + (e.n - 1) * GAN_AXIS_WORDS);
    c.taps = {d.at, d.n - 1, d.space};
    c.count = 1;
    for (int k = 0; k < c.taps.n; k++)
        c.count *= (uint32_t)w.at[c.taps.at + k * GAN_AXIS_WORDS];
    return c;
}

// --- forwards and to the input -------------------------------------------------------------------

template <class P> struct gan_grouped_shared {
    enum { WIDTH = GAN_TILE + GAN_SQUARE };
    gan_operand<P> operand[3];
    gan_spot<P::space> line[2][GAN_TILE], tap[2][GAN_TAPS]; // in A and in C, in A and in B
    alignas(16) typename P::sum weight[GAN_STAGE][WIDTH];   // terms, columns
};

// Brings the weights of the terms from k on, and of the columns from n on. Neighbouring threads
// read what lies together.
template <class P, bool DEEP, int N>
GAN_FN void gan_grouped_stage(const gan_args<N> &w, const gan_channels &c, uint32_t n, uint32_t k,
                              gan_grouped_shared<P> *s) {
    const typename P::in *from = (const typename P::in *)w.at[w.at[GAN_B]];
    const uint32_t columns = (uint32_t)w.at[GAN_COLUMNS], terms = (uint32_t)w.at[GAN_K];
    const bool by_terms = w.at[GAN_B_BY_TERMS];
#pragma unroll 1
    for (uint32_t i = threadIdx.x; i < GAN_STAGE * GAN_TILE; i += GAN_THREADS) {
        const uint32_t row = by_terms ? i % GAN_STAGE : i / GAN_TILE;
        const uint32_t column = by_terms ? i / GAN_STAGE : i % GAN_TILE;
        const uint32_t term = k + row, channel = n + column;
        const uint32_t tap = DEEP ? gan_divide(term, c.deep.by) : term;
        const uint32_t group = DEEP ? gan_divide(channel, c.wide.by) : channel;
        typename P::sum x = 0;
        if (term < terms && channel < columns && gan_inside(s->operand[1], s->tap[1][tap]))
            x = gan_number(from[s->tap[1][tap].at + group * c.group[1] +
                                (channel - group * c.wide.extent) * c.wide.stride[0] +
                                (term - tap * c.deep.extent) * c.deep.stride[1]]);
        s->weight[row][column] = x;
    }
}

// A thread's four rows of A and its columns' quad of channels, from term to term.
template <class P, bool DEEP> struct gan_grouped_walk {
    uint32_t row;           // the first of them
    bool there[GAN_SQUARE]; // the row is
    int64_t at[GAN_SQUARE]; // of the tap
    bool here[GAN_SQUARE];
    uint32_t tap, channel;

    // The next term, or quad of terms.
    GAN_MEMBER void next(const gan_channels &c, const gan_grouped_shared<P> &s,
                         const typename P::in *from, gan_quad<P> out[GAN_SQUARE]) {
        if (channel == 0) {
#pragma unroll
            for (int i = 0; i < GAN_SQUARE; i++) {
                const gan_spot<P::space> x = gan_join(s.line[0][row + i], s.tap[0][tap]);
                at[i] = x.at;
                here[i] = there[i] && gan_inside(s.operand[0], x);
            }
        }
#pragma unroll
        for (int i = 0; i < GAN_SQUARE; i++)
            out[i] = gan_quad<P>::load(here[i], from + at[i] + channel);
        channel += DEEP ? GAN_SQUARE : 1;
        if (channel == c.deep.extent) {
            channel = 0;
            tap++;
        }
    }
};

// A thread's square: its rows by the quad of columns.
template <class P, bool DEEP>
GAN_FN void gan_grouped_multiply(const gan_quad<P> x[GAN_SQUARE], const typename P::sum *weight,
                                 gan_quad<P> sum[GAN_SQUARE]) {
    enum { WIDTH = gan_grouped_shared<P>::WIDTH };
#pragma unroll
    for (int j = 0; j < (DEEP ? GAN_SQUARE : 1); j++) {
        const auto y = gan_load<GAN_SQUARE>(weight + j * WIDTH);
#pragma unroll
        for (int i = 0; i < GAN_SQUARE; i++) {
#pragma unroll
            for (int l = 0; l < GAN_SQUARE; l++)
                sum[i].at[l] = gan_fma(x[i].at[DEEP ? j : l], y.at[l], sum[i].at[l]);
        }
    }
}

// One tile, of rows from m and columns from n on.
template <class P, bool DEEP, int N>
GAN_FN void gan_grouped_tile(const gan_args<N> &w, const gan_channels &c, uint32_t m, uint32_t n,
                             gan_grouped_shared<P> *s) {
    const uint32_t rows = (uint32_t)w.at[GAN_ROWS], columns = (uint32_t)w.at[GAN_COLUMNS];
    const uint32_t terms = (uint32_t)w.at[GAN_K], step = DEEP ? GAN_SQUARE : 1;
    const uint32_t row = threadIdx.x / 16 * GAN_SQUARE, column = threadIdx.x % 16 * GAN_SQUARE;
    const uint32_t channel = n + column;
    const uint32_t group = DEEP ? gan_divide(channel, c.wide.by) : channel;
    const typename P::in *from = (const typename P::in *)w.at[w.at[GAN_A]] + group * c.group[0];
    typename P::out *to = (typename P::out *)w.at[w.at[GAN_C]] + group * c.group[2] +
                          (channel - group * c.wide.extent);
    gan_grouped_walk<P, DEEP> walk;
    gan_quad<P> sum[GAN_SQUARE] = {}, x[GAN_SQUARE];
    walk.row = row;
    walk.tap = walk.channel = 0;
    for (int i = 0; i < GAN_SQUARE; i++)
        walk.there[i] = m + row + i < rows && channel < columns;
    for (uint32_t k = 0; k < terms; k += GAN_STAGE) {
        const uint32_t end = terms - k < GAN_STAGE ? terms - k : GAN_STAGE;
        __syncthreads(); // the last weights have been used
        gan_grouped_stage<P, DEEP>(w, c, n, k, s);
        __syncthreads();
#pragma unroll 1 // as fast as with the next quads in flight, in half the text
        for (uint32_t q = 0; q < end; q += step) {
            walk.next(c, *s, from, x);
            gan_grouped_multiply<P, DEEP>(x, &s->weight[q][column], sum);
        }
    }
#pragma unroll
    for (int i = 0; i < GAN_SQUARE; i++) {
        const gan_spot<P::space> at = s->line[1][row + i];
        if (walk.there[i] && gan_inside(s->operand[2], at))
            sum[i].put(to + at.at);
    }
}

// All tiles, a job a block: neighbouring columns, then rows, then residues of the stride.
template <class P, bool DEEP, int N> GAN_FN void gan_grouped(const gan_args<N> &w) {
    const gan_channels c = gan_channels_of(w, GAN_OF_K, GAN_OF_N);
    const uint32_t tiles_m = (uint32_t)w.at[GAN_TILES_M], tiles_n = (uint32_t)w.at[GAN_TILES_N];
    const uint32_t jobs = (uint32_t)w.at[GAN_JOBS];
    const uint32_t groups = (uint32_t)w.at[gan_list_at(w, GAN_OF_G).at];
    const gan_list rows = gan_list_at(w, GAN_OF_M);
    __shared__ gan_grouped_shared<P> s;
    for (uint32_t job = blockIdx.x; job < jobs; job += gridDim.x) {
        const uint32_t n = job % tiles_n * GAN_TILE, m = job / tiles_n % tiles_m * GAN_TILE;
        __syncthreads(); // the last tile is done
        if (threadIdx.x < 3)
            gan_operand_at(w, (int)threadIdx.x, job / tiles_n / tiles_m * groups,
                           &s.operand[threadIdx.x]);
        __syncthreads();
        for (uint32_t i = threadIdx.x; i < 2 * (GAN_TILE + c.count); i += GAN_THREADS) {
            const bool line = i < 2 * GAN_TILE;
            const uint32_t j = line ? i : i - 2 * GAN_TILE, size = line ? GAN_TILE : c.count;
            const uint32_t side = j >= size, at = j - side * size;
            gan_list list = rows; // a reference to either of the two would be one to local memory
            if (!line)
                list = c.taps;
            gan_spot<P::space> x = gan_spot_at<P>(w, list, (int)side, line ? m + at : at);
            if (line || side) // a tap in A is counted from its row
                x = gan_join(x, s.operand[line ? 2 * side : 1].first);
            if (line)
                s.line[side][at] = x;
            else
                s.tap[side][at] = x;
        }
        __syncthreads();
        gan_grouped_tile<P, DEEP>(w, c, m, n, &s);
    }
}

// --- to the weights ------------------------------------------------------------------------------

template <class P, bool DEEP> struct gan_grouped_weights_shared {
    enum { SUMS = DEEP ? GAN_SQUARE : 1 }; // quads of a thread
    gan_operand<P> operand[3];
    gan_spot<P::space> term[2][GAN_STAGE]; // in A and in B
    alignas(16) typename P::sum tile[SUMS * GAN_SQUARE * GAN_THREADS];
};

// A thread's part of C: a tap, and a quad of channels of B by one of A (DEEP), or a quad of groups.
struct gan_grouped_unit {
    uint32_t tap, deep, wide, group; // channels
    bool active;
};

template <bool DEEP, int N>
GAN_FN gan_grouped_unit gan_grouped_unit_of(const gan_args<N> &w, const gan_channels &c,
                                            uint32_t i) {
    gan_grouped_unit u = {};
    u.active = i < (uint32_t)w.at[GAN_ROWS];
    i = u.active ? i : 0;
    if (DEEP) {
        const uint32_t deep = c.deep.extent / GAN_SQUARE, wide = c.wide.extent / GAN_SQUARE;
        u.deep = i % deep * GAN_SQUARE;
        u.wide = i / deep % wide * GAN_SQUARE;
        u.tap = i / deep / wide % c.count;
        u.group = i / deep / wide / c.count;
    } else {
        const uint32_t quads = (uint32_t)w.at[gan_list_at(w, GAN_OF_G).at] / GAN_SQUARE;
        u.group = i % quads * GAN_SQUARE;
        u.tap = i / quads;
    }
    return u;
}

// Adds up terms [from, end) of a unit.
template <class P, bool DEEP, int N>
GAN_FN void gan_grouped_add_up(const gan_args<N> &w, const gan_channels &c,
                               const gan_grouped_unit &u, uint32_t from, uint32_t end,
                               gan_grouped_weights_shared<P, DEEP> *s, gan_quad<P> *sum) {
    const gan_list terms = gan_list_at(w, GAN_OF_K);
    gan_spot<P::space> tap = gan_spot_at<P>(w, c.taps, 0, u.tap);
    tap = gan_join(tap, s->operand[1].first);
    const typename P::in *a = (const typename P::in *)w.at[w.at[GAN_A]] + s->operand[0].first.at +
                              u.group * c.group[0] + u.wide;
    const typename P::in *b =
        (const typename P::in *)w.at[w.at[GAN_B]] + u.group * c.group[1] + u.deep;
    for (uint32_t k = from; k < end; k += GAN_STAGE) {
        const uint32_t more = end - k < GAN_STAGE ? end - k : GAN_STAGE;
        __syncthreads(); // the last terms have been used
        if (threadIdx.x < 2 * GAN_STAGE) {
            const uint32_t side = threadIdx.x / GAN_STAGE, at = threadIdx.x % GAN_STAGE;
            s->term[side][at] = gan_spot_at<P>(w, terms, (int)side, k + at);
        }
        __syncthreads();
#pragma unroll 4
        for (uint32_t i = 0; i < more; i++) {
            const gan_spot<P::space> spot = gan_join(tap, s->term[1][i]);
            const bool there = u.active && gan_inside(s->operand[1], spot);
            const auto x = gan_quad<P>::load(there, a + s->term[0][i].at);
            const auto y = gan_quad<P>::load(there, b + spot.at);
#pragma unroll
            for (int j = 0; j < (DEEP ? GAN_SQUARE : 1); j++) {
#pragma unroll
                for (int l = 0; l < GAN_SQUARE; l++)
                    sum[j].at[l] = gan_fma(x.at[DEEP ? j : l], y.at[l], sum[j].at[l]);
            }
        }
    }
}

template <class P, bool DEEP, int N>
GAN_FN void gan_grouped_put(const gan_args<N> &w, const gan_channels &c, const gan_grouped_unit &u,
                            const gan_operand<P> &o, const gan_quad<P> *sum) {
    typename P::out *to = (typename P::out *)w.at[w.at[GAN_C]] + o.first.at + u.group * c.group[2] +
                          gan_spot_at<P>(w, c.taps, 1, u.tap).at;
#pragma unroll
    for (int l = 0; l < GAN_SQUARE; l++)
        if (DEEP)
            sum[l].put(to + (u.wide + l) * c.wide.stride[1] + u.deep);
        else
            gan_put(to + l * c.group[2], sum[0].at[l]);
}

// All units, GAN_THREADS of them a tile, the splits of a tile a job each, as in gan_product.
template <class P, bool DEEP, int N> GAN_FN void gan_grouped_weights(const gan_args<N> &w) {
    typedef gan_grouped_weights_shared<P, DEEP> shared;
    const gan_channels c = gan_channels_of(w, GAN_OF_N, GAN_OF_M);
    const uint32_t terms = (uint32_t)w.at[GAN_K], chunk = (uint32_t)w.at[GAN_CHUNK];
    const uint32_t splits = (uint32_t)w.at[GAN_SPLITS], jobs = (uint32_t)w.at[GAN_JOBS];
    enum { SIZE = shared::SUMS * GAN_SQUARE * GAN_THREADS };
    __shared__ shared s;
    for (uint32_t job = blockIdx.x; job < jobs; job += gridDim.x) {
        const uint32_t split = job % splits, tile = job / splits;
        const uint32_t from = split * chunk, end = from + chunk < terms ? from + chunk : terms;
        gan_quad<P> sum[shared::SUMS] = {};
        __syncthreads(); // the last tile is done
        if (threadIdx.x < 3)
            gan_operand_at(w, (int)threadIdx.x, 0, &s.operand[threadIdx.x]);
        __syncthreads();
        const gan_grouped_unit u =
            gan_grouped_unit_of<DEEP>(w, c, tile * GAN_THREADS + threadIdx.x);
        gan_grouped_add_up<P, DEEP>(w, c, u, from, end, &s, sum);
        if (splits > 1) {
            const uint32_t parts = (uint32_t)w.at[GAN_C] + 1;
            auto *mine = (typename P::sum *)w.at[parts] + (size_t)tile * splits * SIZE;
            typename P::sum *own = s.tile + threadIdx.x; // every GAN_THREADS-th is this thread's
#pragma unroll
            for (int e = 0; e < shared::SUMS * GAN_SQUARE; e++)
                own[e * GAN_THREADS] = sum[e / GAN_SQUARE].at[e % GAN_SQUARE];
            if (!gan_gather<P, SIZE>(mine, (uint32_t *)w.at[parts + 1] + tile, split, splits,
                                     s.tile))
                continue;
#pragma unroll
            for (int e = 0; e < shared::SUMS * GAN_SQUARE; e++)
                sum[e / GAN_SQUARE].at[e % GAN_SQUARE] = own[e * GAN_THREADS];
        }
        if (u.active)
            gan_grouped_put<P, DEEP>(w, c, u, s.operand[2], sum);
    }
}

#endif
