// anchor.cuh - text put before the kernels of convolutions and products: one tiled product,
// C[m, n] = sum over k of A[m, k] * B[k, n], for operands that are found by axes.
//
// In:   a shape P, whose constants are written out in the kernel's text, and the region's words:
//       where the operands lie, how far each axis goes and how far apart its elements are.
// Out:  C. Every element is summed in one order, which follows from shapes alone.
//
// A block computes a tile of C, or, where the terms are split (split-K), its share of a tile: then
// the last block to finish adds the shares, first to last. A tile of A and one of B are loaded to
// shared memory, GAN_TERMS terms at a time, the next ones being loaded while these are multiplied;
// a thread computes a square of GAN_SQUARE by GAN_SQUARE elements of C. Larger tiles where there
// are enough of them would be faster, and one more text to compile in every model, for machines
// without a library.
//
// A kernel is the product of one gan_shape, P, which says what its text depends on; all else is
// among the words, so one text serves every layer of its types.
//
// Sizes and words: anchor_words.h.
#ifndef GAN_ANCHOR_CUH
#define GAN_ANCHOR_CUH

template <typename IN, typename OUT, typename SUM, int SPACE> struct gan_shape {
    typedef IN in;   // type of A and B
    typedef OUT out; // of C
    typedef SUM sum; // the one that is added up in
    enum {
        space = SPACE, // spatial axes of a convolution, 0 for a product
    };
};

// An axis of a product: how many steps it has, and what one adds in each of its two operands.
struct gan_axis {
    uint32_t extent;
    uint64_t by;       // what gan_divide divides by it with; not of 1
    int32_t step[2];   // of the coordinate, where the axis is a spatial one
    int64_t stride[2]; // elements
};

template <int N> GAN_FN gan_axis gan_axis_at(const gan_args<N> &w, int at) {
    gan_axis a;
    a.extent = (uint32_t)w.at[at];
    a.by = (uint64_t)w.at[at + 1];
    a.step[0] = (int32_t)w.at[at + 2];
    a.step[1] = (int32_t)w.at[at + 3];
    a.stride[0] = (int64_t)w.at[at + 4];
    a.stride[1] = (int64_t)w.at[at + 5];
    return a;
}

struct gan_list {
    int at, n, space;
};

template <int N> GAN_FN gan_list gan_list_at(const gan_args<N> &w, int which) {
    const int at = GAN_LISTS + which * GAN_LIST_WORDS;
    return {(int)w.at[at], (int)w.at[at + 1], (int)w.at[at + 2]};
}

// --- where elements are --------------------------------------------------------------------------

// A row, column or term in one operand: two of them together are an element. Aligned, so that it
// moves in one access.
template <int SPACE> struct alignas(16) gan_spot {
    int64_t at;                   // elements
    int32_t x[SPACE ? SPACE : 1]; // coordinates
};

// Number i of a list of axes, the last of which is the fastest, in operand `side` of its two.
template <class P, int N>
GAN_FN gan_spot<P::space> gan_spot_at(const gan_args<N> &w, const gan_list &l, int side,
                                      uint32_t i) {
    gan_spot<P::space> s = {};
#pragma unroll 1
    for (int k = l.n - 1; k >= 0; k--) {
        const gan_axis a = gan_axis_at(w, l.at + k * GAN_AXIS_WORDS);
        const uint32_t rest = a.extent > 1 ? gan_divide(i, a.by) : i;
        const uint32_t digit = i - rest * a.extent;
        s.at += digit * (side ? a.stride[1] : a.stride[0]);
#pragma unroll
        for (int d = 0; d < P::space; d++)
            if (l.space >= 0 && k == l.space + d)
                s.x[d] = (int32_t)digit * (side ? a.step[1] : a.step[0]);
        i = rest;
    }
    return s;
}

// An operand of one product: its first element, and what its coordinates may be.
template <class P> struct gan_operand {
    gan_spot<P::space> first;
    int32_t extent[P::space ? P::space : 1];
};

// Where what is said of spatial axis d begins.
GAN_FN int gan_space_at(int d) {
    return GAN_SPACE + d * GAN_SPACE_WORDS;
}

// ConvDx: how far operand x is moved along spatial axis d for the positions that are `mine` modulo
// the stride. Those of the output's gradient that reach them do so through every s-th tap of the
// kernel from tap t on, where s = stride / gcd(stride, dilation); none does where there is no t.
template <int N> GAN_FN int32_t gan_phase(const gan_args<N> &w, int x, int d, int32_t mine) {
    const int at = gan_space_at(d);
    const int32_t stride = (int32_t)w.at[at + GAN_STRIDE];
    const int32_t dilation = (int32_t)w.at[at + GAN_DILATION];
    const int32_t kernel = (int32_t)w.at[at + GAN_KERNEL];
    const int32_t from = mine + (int32_t)w.at[at + GAN_BEFORE];
    int32_t t = 0;
    while (t < kernel && (from - t * dilation) % stride != 0)
        t++;
    const int32_t first = t < kernel ? (from - t * dilation) / stride : -0x40000000;
    return x == 0 ? first : x == 1 ? t : mine;
}

// Operand x of product g, to shared memory: axes are numbered there as they come, not each with
// code of its own.
template <class P, int N>
GAN_FN void gan_operand_at(const gan_args<N> &w, int x, uint32_t g, gan_operand<P> *out) {
    const gan_list apart = gan_list_at(w, GAN_OF_G);
    int64_t first = 0;
#pragma unroll 1
    for (int k = apart.n - 1; k >= 0; k--) {
        const int at = apart.at + k * GAN_AXIS_WORDS;
        const uint32_t extent = (uint32_t)w.at[at], digit = g % extent;
        first += digit * (int64_t)w.at[at + 1 + x];
        g /= extent;
    }
#pragma unroll 1
    for (int d = P::space - 1; d >= 0; d--) {
        const int at = gan_space_at(d);
        int32_t origin = (int32_t)w.at[at + x + GAN_ORIGIN];
        if (w.at[GAN_PHASES]) {
            const uint32_t stride = (uint32_t)w.at[at + GAN_STRIDE];
            origin += gan_phase(w, x, d, (int32_t)(g % stride));
            g /= stride;
        }
        first += origin * (int64_t)w.at[at + x + GAN_STEP];
        out->first.x[d] = origin;
        out->extent[d] = (int32_t)w.at[at + x + GAN_EXTENT];
    }
    out->first.at = first;
}

// The element of a line and a term, or of a row and a column.
template <int SPACE>
GAN_FN gan_spot<SPACE> gan_join(const gan_spot<SPACE> &a, const gan_spot<SPACE> &b) {
    gan_spot<SPACE> s = a;
    s.at += b.at;
#pragma unroll
    for (int d = 0; d < SPACE; d++)
        s.x[d] += b.x[d];
    return s;
}

template <class P> GAN_FN bool gan_inside(const gan_operand<P> &o, const gan_spot<P::space> &s) {
    bool inside = true;
#pragma unroll
    for (int d = 0; d < P::space; d++)
        inside = inside && (uint32_t)s.x[d] < (uint32_t)o.extent[d];
    return inside;
}

// --- elements ------------------------------------------------------------------------------------

struct gan_bf16 {
    uint16_t bits;
};
struct gan_f16 {
    uint16_t bits;
};
GAN_FN float gan_number(float x) {
    return x;
}
GAN_FN double gan_number(double x) {
    return x;
}
GAN_FN float gan_number(gan_bf16 x) {
    return gan_bf16_to_f32(x.bits);
}
GAN_FN float gan_number(gan_f16 x) {
    return gan_f16_to_f32(x.bits);
}
GAN_FN void gan_put(float *to, float x) {
    *to = x;
}
GAN_FN void gan_put(double *to, double x) {
    *to = x;
}
GAN_FN void gan_put(gan_bf16 *to, float x) {
    to->bits = gan_f32_to_bf16(x);
}
GAN_FN void gan_put(gan_f16 *to, float x) {
    to->bits = gan_f32_to_f16(x);
}

// What a block knows of where its elements are, in shared memory: what is divided out of a number
// is divided once a block, a thread a number, not once a thread.
template <class P> struct gan_where {
    enum { LINES = 4 * GAN_TILE };
    gan_operand<P> operand[3]; // A, B and C
    gan_spot<P::space> spot[LINES + 2 * GAN_TERMS];

    // Rows in A (side 0) and in C (1), columns in B and in C, terms in A and in B.
    GAN_MEMBER const gan_spot<P::space> *rows(int side) const {
        return spot + side * GAN_TILE;
    }
    GAN_MEMBER const gan_spot<P::space> *columns(int side) const {
        return spot + (2 + side) * GAN_TILE;
    }
    GAN_MEMBER const gan_spot<P::space> *terms(int side) const {
        return spot + LINES + side * GAN_TERMS;
    }

    // Finds the terms from k on, and, where these are the `first`, the lines of the tile at row m
    // and column n. One text for all: it is long, and compiling six of it takes a third longer.
    template <int N>
    GAN_MEMBER void find(const gan_args<N> &w, bool first, uint32_t m, uint32_t n, uint32_t k) {
#pragma unroll 1
        for (uint32_t i = threadIdx.x + (first ? 0 : LINES); i < LINES + 2 * GAN_TERMS;
             i += GAN_THREADS) {
            const bool term = i >= LINES, row = i < 2 * GAN_TILE;
            const uint32_t j = i % (2 * GAN_TILE);
            const uint32_t count = term ? GAN_TERMS : GAN_TILE;
            const uint32_t side = j >= count, from = term ? k : row ? m : n;
            const gan_list list = gan_list_at(w, term ? GAN_OF_K : row ? GAN_OF_M : GAN_OF_N);
            gan_spot<P::space> s = gan_spot_at<P>(w, list, side, from + j - side * count);
            if (row || !(term || side)) // columns of C are counted from its rows
                s = gan_join(s, operand[row ? 2 * side : 1].first);
            spot[i] = s;
        }
    }
};

// One thread's part in bringing a tile's lines (rows of A, columns of B) to shared memory:
// several lines, one term each, or one line and several terms, so that neighbouring threads read
// what lies together.
template <class P> struct gan_loader {
    enum {
        COUNT = GAN_TILE * GAN_TERMS / GAN_THREADS, // elements a thread brings
        WIDTH = GAN_TILE + GAN_SQUARE,              // of a term in the tile
    };
    uint32_t line, term;           // of the thread's first element,
    uint32_t next_line, next_term; // and from one to the next
    uint32_t left;                 // lines that are there
    typename P::sum next[COUNT];

    GAN_MEMBER void begin(bool by_terms, uint32_t there) {
        line = by_terms ? threadIdx.x / GAN_TERMS : threadIdx.x % GAN_TILE;
        term = by_terms ? threadIdx.x % GAN_TERMS : threadIdx.x / GAN_TILE;
        next_line = by_terms ? GAN_THREADS / GAN_TERMS : 0;
        next_term = by_terms ? 0 : GAN_THREADS / GAN_TILE;
        left = there;
    }

    // The next terms, of which `more` are there; zeros behind them.
    GAN_MEMBER void fetch(const gan_operand<P> &o, const typename P::in *from,
                          const gan_spot<P::space> *lines, const gan_spot<P::space> *terms,
                          uint32_t more) {
#pragma unroll
        for (int i = 0; i < COUNT; i++) {
            const uint32_t l = line + i * next_line, t = term + i * next_term;
            const gan_spot<P::space> s = gan_join(lines[l], terms[t]);
            const bool here = l < left && t < more && gan_inside(o, s);
            next[i] = here ? gan_number(from[s.at]) : 0;
        }
    }

    GAN_MEMBER void store(typename P::sum (*tile)[WIDTH]) const {
#pragma unroll
        for (int i = 0; i < COUNT; i++)
            tile[term + i * next_term][line + i * next_line] = next[i];
    }
};

// --- the product ---------------------------------------------------------------------------------

// A thread's elements of a tile: a square.
template <class P> struct gan_square {
    typedef typename P::sum sum;
    typedef gan_pack<sum, GAN_SQUARE> side;
    side at[GAN_SQUARE];

    // The first of its rows, and of its columns.
    static GAN_MEMBER uint32_t row() {
        return threadIdx.x / 16 * GAN_SQUARE;
    }
    static GAN_MEMBER uint32_t column() {
        return threadIdx.x % 16 * GAN_SQUARE;
    }

    GAN_MEMBER void multiply(const sum *a, const sum *b) {
        const side x = gan_load<GAN_SQUARE>(a + row()), y = gan_load<GAN_SQUARE>(b + column());
#pragma unroll
        for (int i = 0; i < GAN_SQUARE; i++) {
#pragma unroll
            for (int l = 0; l < GAN_SQUARE; l++)
                at[i].at[l] = gan_fma(x.at[i], y.at[l], at[i].at[l]);
        }
    }

    // Brings the tile to shared memory, row by row.
    GAN_MEMBER void lay(sum *whole) const {
#pragma unroll
        for (int i = 0; i < GAN_SQUARE; i++)
            gan_store(whole + (row() + i) * GAN_TILE + column(), at[i]);
    }
};

// What a block has in shared memory besides.
template <class P> union gan_shared {
    typedef typename P::sum sum;
    struct { // while terms are added up
        sum a[GAN_TERMS][GAN_TILE + GAN_SQUARE], b[GAN_TERMS][GAN_TILE + GAN_SQUARE];
    } terms;
    sum tile[GAN_TILE * GAN_TILE]; // then
};

// Adds up terms [from, end) of the tile whose first row and column are m and n, and leaves it in
// shared memory. From there on thread t of a block has elements t, t + GAN_THREADS, ... of it.
template <class P, int N>
GAN_FN void gan_add_up(const gan_args<N> &w, uint32_t m, uint32_t n, uint32_t from, uint32_t end,
                       gan_where<P> *at, gan_shared<P> *shared) {
    gan_square<P> c = {};
    const typename P::in *at_a = (const typename P::in *)w.at[w.at[GAN_A]];
    const typename P::in *at_b = (const typename P::in *)w.at[w.at[GAN_B]];
    gan_loader<P> load_a, load_b;
    load_a.begin(w.at[GAN_A_BY_TERMS], (uint32_t)w.at[GAN_ROWS] - m);
    load_b.begin(w.at[GAN_B_BY_TERMS], (uint32_t)w.at[GAN_COLUMNS] - n);
    for (uint32_t k = from;; k += GAN_TERMS) {
        at->find(w, k == from, m, n, k);
        __syncthreads();
        if (k < end) {
            load_a.fetch(at->operand[0], at_a, at->rows(0), at->terms(0), end - k);
            load_b.fetch(at->operand[1], at_b, at->columns(0), at->terms(1), end - k);
        }
#pragma unroll 4 // unrolled fully it takes four times as long to compile
        for (int t = 0; t < GAN_TERMS && k > from; t++)
            c.multiply(shared->terms.a[t], shared->terms.b[t]);
        __syncthreads(); // the previous terms have been multiplied, the next ones loaded
        if (k >= end)
            break;
        load_a.store(shared->terms.a);
        load_b.store(shared->terms.b);
    }
    c.lay(shared->tile);
    __syncthreads();
}

// Keeps this block's share of a tile of SIZE sums, and in the last block of it adds up all of them,
// first to last. True where the tile is whole.
template <class P, int SIZE>
GAN_FN bool gan_gather(typename P::sum *parts, uint32_t *ticket, uint32_t split, uint32_t splits,
                       typename P::sum *tile) {
#pragma unroll 1
    for (uint32_t e = threadIdx.x; e < SIZE; e += GAN_THREADS)
        parts[split * SIZE + e] = tile[e];
    if (!gan_is_last(ticket, splits))
        return false;
#pragma unroll 1
    for (uint32_t e = threadIdx.x; e < SIZE; e += GAN_THREADS) {
        typename P::sum all = gan_load_cg(parts + e);
#pragma unroll 4
        for (uint32_t s = 1; s < splits; s++)
            all += gan_load_cg(parts + s * SIZE + e);
        tile[e] = all;
    }
    return true;
}

template <class P, int N>
GAN_FN void gan_put_tile(const gan_args<N> &w, uint32_t m, uint32_t n, const gan_where<P> *at,
                         const typename P::sum *tile) {
    const uint32_t rows = (uint32_t)w.at[GAN_ROWS] - m, columns = (uint32_t)w.at[GAN_COLUMNS] - n;
    typename P::out *to = (typename P::out *)w.at[w.at[GAN_C]];
#pragma unroll 1
    for (uint32_t i = 0; i < GAN_TILE * GAN_TILE / GAN_THREADS; i++) {
        const uint32_t e = threadIdx.x + i * GAN_THREADS;
        const uint32_t row = e / GAN_TILE, column = e % GAN_TILE;
        const gan_spot<P::space> s = gan_join(at->rows(1)[row], at->columns(1)[column]);
        if (row < rows && column < columns && gan_inside(at->operand[2], s))
            gan_put(to + s.at, tile[e]);
    }
}

// All tiles, a job a block: the splits of a tile, then its neighbour of other columns, then rows.
template <class P, int N> GAN_FN void gan_product(const gan_args<N> &w) {
    typedef typename P::sum sum;
    const uint32_t terms = (uint32_t)w.at[GAN_K], chunk = (uint32_t)w.at[GAN_CHUNK];
    const uint32_t tiles_m = (uint32_t)w.at[GAN_TILES_M], tiles_n = (uint32_t)w.at[GAN_TILES_N];
    const uint32_t splits = (uint32_t)w.at[GAN_SPLITS], jobs = (uint32_t)w.at[GAN_JOBS];
    __shared__ gan_where<P> at;
    alignas(16) __shared__ gan_shared<P> shared;
    for (uint32_t job = blockIdx.x; job < jobs; job += gridDim.x) {
        __syncthreads(); // the last job's elements have been put
        const uint32_t split = job % splits, tile = job / splits;
        const uint32_t n = tile % tiles_n * GAN_TILE;
        const uint32_t m = tile / tiles_n % tiles_m * GAN_TILE;
        const uint32_t from = split * chunk, end = from + chunk < terms ? from + chunk : terms;
        if (threadIdx.x < 3)
            gan_operand_at(w, (int)threadIdx.x, tile / tiles_n / tiles_m, &at.operand[threadIdx.x]);
        __syncthreads();
        gan_add_up<P>(w, m, n, from, end, &at, &shared);
        if (splits > 1) {
            const uint32_t parts = (uint32_t)w.at[GAN_C] + 1;
            sum *mine = (sum *)w.at[parts] + (size_t)tile * splits * GAN_TILE * GAN_TILE;
            uint32_t *ticket = (uint32_t *)w.at[parts + 1] + tile;
            if (!gan_gather<P, GAN_TILE * GAN_TILE>(mine, ticket, split, splits, shared.tile))
                continue;
        }
        gan_put_tile<P>(w, m, n, &at, shared.tile);
    }
}

#endif
