// anchor.cuh - text put before the kernels of convolutions and products: one tiled product,
// C[m, n] = sum over k of A[m, k] * B[k, n], for operands that are found by axes.
//
// In:   a description P, whose constants are written out in the kernel's text, and the region's
//       words: where the operands lie, how far each axis goes and how far apart its elements are.
// Out:  C. Every element is added up in one order, which shapes alone decide.
//
// A block makes a tile of C, or, where the terms are split, its share of a tile: then the last
// block to end adds the shares, first to last. A tile of A and one of B are brought to shared
// memory for GAN_TERMS terms at a time, the next ones being on their way while these are
// multiplied; a thread has GAN_SQUARE by GAN_SQUARE elements of C, or several such squares.
//
// P says
//   in, out, sum         types of A and B, of C, and the one that is added up in
//   tile_m, tile_n       multiples of 64
//   apart, rows, columns, terms    how many axes g (a product of its own), m, n and k have
//   space                spatial axes of a convolution, 0 for a product
//   rows_space, ...      the axis of that list that is the first spatial one, or -1
//   bounded_a, _b, _c    an element is there only where its coordinates are inside the operand
//   phases               ConvDx: a residue of the stride is a product of its own
//   a_by_terms, b_by_terms         neighbouring threads load neighbouring k, not m or n
//   split                the terms may be split
//   at_a, at_b, at_c, at_parts, at_head, at_space, at_phases, at_apart, at_rows, at_columns,
//   at_terms             where in the words each part begins
#ifndef GAN_ANCHOR_CUH
#define GAN_ANCHOR_CUH

enum {
    GAN_THREADS = 256, // of a block, as 16 by 16
    GAN_TERMS = 16,
    GAN_SQUARE = 4,
    GAN_BAND = 16 * GAN_SQUARE,
};

// Words of each part, in order.
enum { GAN_ROWS, GAN_COLUMNS, GAN_K, GAN_CHUNK, GAN_TILES_M, GAN_TILES_N, GAN_SPLITS, GAN_JOBS };
enum { GAN_EXTENT, GAN_ORIGIN, GAN_STEP, GAN_SPACE_WORDS = 9 }; // each for A, B and C
enum { GAN_STRIDE, GAN_DILATION, GAN_BEFORE, GAN_KERNEL, GAN_PHASE_WORDS };
enum { GAN_APART_WORDS = 4 }; // extent, elements from one to the next in A, B and C
enum { GAN_AXIS_WORDS = 7 };

// An axis of a product: how many steps it has, and what one adds in each of its two operands.
struct gan_axis {
    uint32_t extent, magic, shift; // i / extent is i * magic >> shift, for every i below 2^31
    int32_t step[2];               // of the coordinate, where the axis is a spatial one
    int64_t stride[2];             // elements
};

template <int N> GAN_FN gan_axis gan_axis_at(const gan_args<N> &w, int at) {
    gan_axis a;
    a.extent = (uint32_t)w.at[at];
    a.magic = (uint32_t)w.at[at + 1];
    a.shift = (uint32_t)w.at[at + 2];
    a.step[0] = (int32_t)w.at[at + 3];
    a.step[1] = (int32_t)w.at[at + 4];
    a.stride[0] = (int64_t)w.at[at + 5];
    a.stride[1] = (int64_t)w.at[at + 6];
    return a;
}

// --- where elements are --------------------------------------------------------------------------

// A row, column or term in one operand: two of them together are an element.
template <int SPACE> struct gan_spot {
    int64_t at;                   // elements
    int32_t x[SPACE ? SPACE : 1]; // coordinates
};

// Number i of a list of axes, the last of which is the fastest, in operand SIDE of its two.
template <class P, int AXES, int FIRST, int SIDE, int N>
GAN_FN gan_spot<P::space> gan_spot_at(const gan_args<N> &w, int at, uint32_t i) {
    gan_spot<P::space> s = {};
#pragma unroll
    for (int k = AXES - 1; k >= 0; k--) {
        const gan_axis a = gan_axis_at(w, at + k * GAN_AXIS_WORDS);
        const uint32_t rest = (uint32_t)((uint64_t)i * a.magic >> a.shift);
        const uint32_t digit = i - rest * a.extent;
        s.at += digit * a.stride[SIDE];
        if (FIRST >= 0 && k >= FIRST && k < FIRST + P::space) {
            s.x[k - FIRST] += (int32_t)digit * a.step[SIDE];
        }
        i = rest;
    }
    return s;
}

// Operand X of the product g: its first element, and what its coordinates may be.
template <class P> struct gan_operand {
    gan_spot<P::space> first;
    int32_t extent[P::space ? P::space : 1];
};

template <class P, int N> GAN_FN gan_operand<P> gan_operand_at(const gan_args<N> &w, int x) {
    gan_operand<P> o = {};
#pragma unroll
    for (int d = 0; d < P::space; d++) {
        const int at = P::at_space + d * GAN_SPACE_WORDS + x;
        o.extent[d] = (int32_t)w.at[at + 3 * GAN_EXTENT];
        o.first.x[d] = (int32_t)w.at[at + 3 * GAN_ORIGIN];
        o.first.at += o.first.x[d] * (int64_t)w.at[at + 3 * GAN_STEP];
    }
    return o;
}

// Moves an operand along spatial axis d.
template <class P, int N>
GAN_FN void gan_move(const gan_args<N> &w, gan_operand<P> *o, int x, int d, int32_t by) {
    o->first.x[d] += by;
    o->first.at += by * (int64_t)w.at[P::at_space + d * GAN_SPACE_WORDS + x + 3 * GAN_STEP];
}

// ConvDx: of the positions that are `phase` modulo the stride. Those of the output's gradient that
// reach them do so through every s-th tap of the kernel from tap t on, where s = stride /
// gcd(stride, dilation); none does where there is no such t.
template <class P, int N>
GAN_FN void gan_phase(const gan_args<N> &w, gan_operand<P> o[3], uint32_t phase) {
#pragma unroll
    for (int d = P::space - 1; d >= 0; d--) {
        const int at = P::at_phases + d * GAN_PHASE_WORDS;
        const int32_t stride = (int32_t)w.at[at + GAN_STRIDE];
        const int32_t dilation = (int32_t)w.at[at + GAN_DILATION];
        const int32_t kernel = (int32_t)w.at[at + GAN_KERNEL];
        const int32_t mine = (int32_t)(phase % (uint32_t)stride);
        const int32_t from = mine + (int32_t)w.at[at + GAN_BEFORE];
        int32_t t = 0;
        while (t < kernel && (from - t * dilation) % stride != 0) {
            t++;
        }
        gan_move(w, &o[0], 0, d, t < kernel ? (from - t * dilation) / stride : -0x40000000);
        gan_move(w, &o[1], 1, d, t);
        gan_move(w, &o[2], 2, d, mine);
        phase /= (uint32_t)stride;
    }
}

template <class P, int N>
GAN_FN void gan_operands(const gan_args<N> &w, gan_operand<P> o[3], uint32_t g) {
#pragma unroll
    for (int x = 0; x < 3; x++) {
        o[x] = gan_operand_at<P>(w, x);
    }
#pragma unroll
    for (int k = P::apart - 1; k >= 0; k--) {
        const int at = P::at_apart + k * GAN_APART_WORDS;
        const uint32_t extent = (uint32_t)w.at[at], digit = g % extent;
        for (int x = 0; x < 3; x++) {
            o[x].first.at += digit * (int64_t)w.at[at + 1 + x];
        }
        g /= extent;
    }
    if (P::phases) {
        gan_phase<P>(w, o, g);
    }
}

template <int SPACE>
GAN_FN gan_spot<SPACE> gan_join(const gan_spot<SPACE> &a, const gan_spot<SPACE> &b) {
    gan_spot<SPACE> s = a;
    s.at += b.at;
#pragma unroll
    for (int d = 0; d < SPACE; d++) {
        s.x[d] += b.x[d];
    }
    return s;
}

template <class P, bool BOUNDED>
GAN_FN bool gan_inside(const gan_operand<P> &o, const gan_spot<P::space> &s) {
    bool inside = true;
#pragma unroll
    for (int d = 0; BOUNDED && d < P::space; d++) {
        inside = inside && (uint32_t)s.x[d] < (uint32_t)o.extent[d];
    }
    return inside;
}

// --- elements ------------------------------------------------------------------------------------

GAN_FN float gan_number(float x) {
    return x;
}
GAN_FN double gan_number(double x) {
    return x;
}
GAN_FN float gan_number(uint16_t x) {
    return gan_bf16_to_f32(x);
}
GAN_FN void gan_put(float *to, float x) {
    *to = x;
}
GAN_FN void gan_put(double *to, double x) {
    *to = x;
}
GAN_FN void gan_put(uint16_t *to, float x) {
    *to = gan_f32_to_bf16(x);
}

// The spots of numbers [from, from + COUNT) of a list, a thread a number: what is divided out of a
// number is divided once a block, not once a thread.
template <class P, int AXES, int FIRST, int SIDE, int COUNT, int N>
GAN_FN void gan_spots(const gan_args<N> &w, int at, uint32_t from, const gan_spot<P::space> &first,
                      gan_spot<P::space> *out) {
    const uint32_t i = threadIdx.x;
    static_assert(COUNT <= GAN_THREADS, "a thread a number");
    if (i < COUNT) {
        out[i] = gan_join(first, gan_spot_at<P, AXES, FIRST, SIDE>(w, at, from + i));
    }
}

// What a block knows of where its elements are, in shared memory. Rows and columns are those of A
// and B while terms are added up, then both those of C.
template <class P> struct gan_where {
    gan_spot<P::space> row[P::tile_m], column[P::tile_n];
    gan_spot<P::space> term[2][GAN_TERMS]; // of A and of B
};

template <class P, int N>
GAN_FN void gan_terms(const gan_args<N> &w, uint32_t from, gan_where<P> *at) {
    const gan_spot<P::space> none = {};
    gan_spots<P, P::terms, P::terms_space, 0, GAN_TERMS>(w, P::at_terms, from, none, at->term[0]);
    gan_spots<P, P::terms, P::terms_space, 1, GAN_TERMS>(w, P::at_terms, from, none, at->term[1]);
}

// Tile (m, n)'s rows in side SIDE_M of their operand, from `row` on, and its columns.
template <class P, int SIDE_M, int SIDE_N, int N>
GAN_FN void gan_lines(const gan_args<N> &w, uint32_t m, uint32_t n, const gan_spot<P::space> &row,
                      const gan_spot<P::space> &column, gan_where<P> *at) {
    gan_spots<P, P::rows, P::rows_space, SIDE_M, P::tile_m>(w, P::at_rows, m, row, at->row);
    gan_spots<P, P::columns, P::columns_space, SIDE_N, P::tile_n>(w, P::at_columns, n, column,
                                                                  at->column);
}

// One thread's part in bringing a tile of SIZE lines (rows of A, columns of B) to shared memory:
// several of them, one term each, or one line and several terms, so that neighbouring threads read
// what lies together.
template <class P, int SIZE, bool BY_TERMS, bool BOUNDED> struct gan_loader {
    enum {
        COUNT = SIZE * GAN_TERMS / GAN_THREADS, // elements a thread brings
        ACROSS = BY_TERMS ? GAN_TERMS : SIZE, // threads that lie together
        APART = GAN_THREADS / ACROSS,         // from one element of a thread to its next
    };
    const gan_spot<P::space> *lines; // several stay where they are: registers are for sums
    gan_spot<P::space> line;
    uint32_t left; // lines that are there
    typename P::sum next[COUNT];

    static GAN_MEMBER uint32_t near() {
        return threadIdx.x % ACROSS;
    }
    static GAN_MEMBER uint32_t far(int i) {
        return threadIdx.x / ACROSS + i * APART;
    }

    GAN_MEMBER void begin(const gan_spot<P::space> *all, uint32_t there) {
        lines = all;
        left = there;
        line = all[near()]; // of several terms
    }

    // The next terms, of which `more` are there; zeros behind them.
    GAN_MEMBER void fetch(const gan_operand<P> &o, const typename P::in *from,
                          const gan_spot<P::space> *terms, uint32_t more) {
#pragma unroll
        for (int i = 0; i < COUNT; i++) {
            const uint32_t term = BY_TERMS ? near() : far(i), l = BY_TERMS ? far(i) : near();
            const gan_spot<P::space> s = gan_join(BY_TERMS ? lines[l] : line, terms[term]);
            const bool here = l < left && term < more && gan_inside<P, BOUNDED>(o, s);
            next[i] = here ? gan_number(from[s.at]) : 0;
        }
    }

    GAN_MEMBER void store(typename P::sum (*tile)[SIZE + GAN_SQUARE]) const {
#pragma unroll
        for (int i = 0; i < COUNT; i++) {
            tile[BY_TERMS ? near() : far(i)][BY_TERMS ? far(i) : near()] = next[i];
        }
    }
};

// --- the product ---------------------------------------------------------------------------------

// A thread's elements of a tile: squares, one in each band of 64 rows and of 64 columns.
template <class P> struct gan_tile {
    typedef typename P::sum sum;
    enum {
        BANDS_M = P::tile_m / GAN_BAND,
        BANDS_N = P::tile_n / GAN_BAND,
        HEIGHT = BANDS_M * GAN_SQUARE,
        WIDTH = BANDS_N * GAN_SQUARE,
    };
    sum at[HEIGHT][WIDTH];

    static GAN_MEMBER uint32_t row(int i) {
        return i / GAN_SQUARE * GAN_BAND + threadIdx.x / 16 * GAN_SQUARE + i % GAN_SQUARE;
    }
    static GAN_MEMBER uint32_t column(int j) {
        return j / GAN_SQUARE * GAN_BAND + threadIdx.x % 16 * GAN_SQUARE + j % GAN_SQUARE;
    }

    GAN_MEMBER void multiply(const sum *a, const sum *b) {
        gan_pack<sum, GAN_SQUARE> x[BANDS_M], y[BANDS_N];
#pragma unroll
        for (int i = 0; i < BANDS_M; i++) {
            x[i] = gan_load<GAN_SQUARE>(a + row(i * GAN_SQUARE));
        }
#pragma unroll
        for (int j = 0; j < BANDS_N; j++) {
            y[j] = gan_load<GAN_SQUARE>(b + column(j * GAN_SQUARE));
        }
#pragma unroll
        for (int i = 0; i < HEIGHT; i++) {
#pragma unroll
            for (int j = 0; j < WIDTH; j++) {
                at[i][j] +=
                    x[i / GAN_SQUARE].at[i % GAN_SQUARE] * y[j / GAN_SQUARE].at[j % GAN_SQUARE];
            }
        }
    }

    // Keeps this block's share, and in the last block of the tile puts all of them together, first
    // to last. True where the tile is whole.
    GAN_MEMBER bool gather(sum *parts, uint32_t *ticket, uint32_t split, uint32_t splits) {
        const uint32_t size = P::tile_m * P::tile_n;
#pragma unroll
        for (int i = 0; i < HEIGHT; i++) {
#pragma unroll
            for (int j = 0; j < WIDTH; j++) {
                parts[split * size + row(i) * P::tile_n + column(j)] = at[i][j];
            }
        }
        if (!gan_is_last(ticket, splits)) {
            return false;
        }
        for (uint32_t s = 0; s < splits; s++) {
            const sum *part = parts + s * size;
#pragma unroll
            for (int i = 0; i < HEIGHT; i++) {
#pragma unroll
                for (int j = 0; j < WIDTH; j++) {
                    const sum x = gan_fetch(part + row(i) * P::tile_n + column(j));
                    at[i][j] = s == 0 ? x : at[i][j] + x;
                }
            }
        }
        return true;
    }
};

// Adds up terms [from, end) of the tile whose first row and column are m and n.
template <class P, int N>
GAN_FN void gan_add_up(const gan_args<N> &w, const gan_operand<P> o[3], uint32_t m, uint32_t n,
                       uint32_t from, uint32_t end, gan_where<P> *at, gan_tile<P> *c) {
    typedef typename P::sum sum;
    alignas(16) __shared__ sum a[GAN_TERMS][P::tile_m + GAN_SQUARE];
    alignas(16) __shared__ sum b[GAN_TERMS][P::tile_n + GAN_SQUARE];
    const typename P::in *at_a = (const typename P::in *)w.at[P::at_a];
    const typename P::in *at_b = (const typename P::in *)w.at[P::at_b];
    gan_loader<P, P::tile_m, P::a_by_terms, P::bounded_a> load_a;
    gan_loader<P, P::tile_n, P::b_by_terms, P::bounded_b> load_b;
    gan_lines<P, 0, 0>(w, m, n, o[0].first, o[1].first, at);
    gan_terms<P>(w, from, at);
    __syncthreads();
    load_a.begin(at->row, (uint32_t)w.at[P::at_head + GAN_ROWS] - m);
    load_b.begin(at->column, (uint32_t)w.at[P::at_head + GAN_COLUMNS] - n);
    for (uint32_t k = from;; k += GAN_TERMS) {
        if (k < end) {
            load_a.fetch(o[0], at_a, at->term[0], end - k);
            load_b.fetch(o[1], at_b, at->term[1], end - k);
        }
#pragma unroll 4 // all of them compile four times as long
        for (int t = 0; t < GAN_TERMS && k > from; t++) {
            c->multiply(a[t], b[t]);
        }
        if (k >= end) {
            break;
        }
        __syncthreads(); // the last terms have been multiplied, the next ones fetched
        load_a.store(a);
        load_b.store(b);
        gan_terms<P>(w, k + GAN_TERMS, at);
        __syncthreads();
    }
}

template <class P, int N>
GAN_FN void gan_put_tile(const gan_args<N> &w, const gan_operand<P> &o, uint32_t m, uint32_t n,
                         gan_where<P> *at, const gan_tile<P> &c) {
    const uint32_t rows = (uint32_t)w.at[P::at_head + GAN_ROWS] - m;
    const uint32_t columns = (uint32_t)w.at[P::at_head + GAN_COLUMNS] - n;
    typename P::out *to = (typename P::out *)w.at[P::at_c];
    gan_spot<P::space> second[gan_tile<P>::WIDTH];
    const gan_spot<P::space> none = {};
    gan_lines<P, 1, 1>(w, m, n, o.first, none, at);
    __syncthreads();
#pragma unroll
    for (int j = 0; j < gan_tile<P>::WIDTH; j++) {
        second[j] = at->column[gan_tile<P>::column(j)];
    }
#pragma unroll
    for (int i = 0; i < gan_tile<P>::HEIGHT; i++) {
        const uint32_t row = gan_tile<P>::row(i);
        const gan_spot<P::space> first = at->row[row];
#pragma unroll
        for (int j = 0; j < gan_tile<P>::WIDTH; j++) {
            const uint32_t column = gan_tile<P>::column(j);
            const gan_spot<P::space> s = gan_join(first, second[j]);
            if (row < rows && column < columns && gan_inside<P, P::bounded_c>(o, s)) {
                gan_put(to + s.at, c.at[i][j]);
            }
        }
    }
}

// All tiles, a job a block: the splits of a tile, then its neighbour of other columns, then rows.
template <class P, int N> GAN_FN void gan_product(const gan_args<N> &w) {
    const uint32_t terms = (uint32_t)w.at[P::at_head + GAN_K];
    const uint32_t chunk = (uint32_t)w.at[P::at_head + GAN_CHUNK];
    const uint32_t tiles_m = (uint32_t)w.at[P::at_head + GAN_TILES_M];
    const uint32_t tiles_n = (uint32_t)w.at[P::at_head + GAN_TILES_N];
    const uint32_t splits = (uint32_t)w.at[P::at_head + GAN_SPLITS];
    const uint32_t jobs = (uint32_t)w.at[P::at_head + GAN_JOBS];
    __shared__ gan_where<P> at;
    for (uint32_t job = blockIdx.x; job < jobs; job += gridDim.x) {
        __syncthreads(); // the last job's elements have been put
        const uint32_t split = job % splits, tile = job / splits;
        const uint32_t n = tile % tiles_n * P::tile_n;
        const uint32_t m = tile / tiles_n % tiles_m * P::tile_m;
        const uint32_t from = split * chunk, end = from + chunk < terms ? from + chunk : terms;
        gan_operand<P> o[3];
        gan_tile<P> c = {};
        gan_operands<P>(w, o, tile / tiles_n / tiles_m);
        gan_add_up<P>(w, o, m, n, from, end, &at, &c);
        bool whole = true;
        if (P::split) {
            typename P::sum *parts = (typename P::sum *)w.at[P::at_parts];
            uint32_t *tickets = (uint32_t *)w.at[P::at_parts + 1];
            whole = c.gather(parts + (size_t)tile * splits * P::tile_m * P::tile_n, tickets + tile,
                             split, splits);
        }
        if (whole) {
            gan_put_tile<P>(w, o[2], m, n, &at, c);
        }
    }
}

#endif
