// fft.cuh - text put before the kernels of Fourier transforms: the sum that defines one, for
// machines without a library for it. A line of n costs n^2 multiply-adds; a frequency is added up
// in one order. Sizes and words: fft_words.h.
#ifndef GAN_FFT_CUH
#define GAN_FFT_CUH

template <typename T> struct alignas(2 * sizeof(T)) gan_complex { // moved in one access
    T re, im;
};

template <typename T> GAN_FN gan_complex<T> gan_times(gan_complex<T> a, gan_complex<T> b) {
    return {a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
}

template <typename T> GAN_FN gan_complex<T> gan_root(uint32_t k, uint32_t n, bool inverse) {
    const double turn = 2.0 * k / n; // half turns: CUDA's reduction of radians needs a stack
    return {(T)cospi(turn), (T)(inverse ? sinpi(turn) : -sinpi(turn))};
}

// Where the result is real: a frequency's contribution and that of its conjugate.
template <typename T> GAN_FN gan_complex<T> gan_for_two(gan_complex<T> x, uint32_t k, uint32_t n) {
    if (k == 0 || 2 * k == n)
        return {x.re, 0};
    return {2 * x.re, 2 * x.im};
}

// Results `first` and behind of one line, a thread each. Lines lie one behind the other, the parts
// of a number side by side.
template <typename T, bool REAL_IN, bool REAL_OUT, int N>
GAN_FN void gan_fft_line(const gan_args<N> &w, uint32_t line, uint32_t first,
                         const gan_complex<T> *fine, const gan_complex<T> *coarse,
                         gan_complex<T> *tile) {
    const uint32_t n = (uint32_t)w.at[GAN_FFT_N], half = n / 2 + 1, k = first + threadIdx.x;
    const uint32_t given = REAL_OUT ? half : n, made = REAL_IN ? half : n;
    const uint32_t in_parts = REAL_IN ? 1 : 2, out_parts = REAL_OUT ? 1 : 2;
    const T *in = (const T *)w.at[GAN_FFT_FROM] + line * (int64_t)given * in_parts;
    gan_complex<T> sum = {0, 0};
    uint32_t root = 0; // j*k modulo n
    for (uint32_t from = 0; from < given; from += GAN_FFT_TILE) {
        const uint32_t size = given - from < GAN_FFT_TILE ? given - from : GAN_FFT_TILE;
        __syncthreads(); // the last tile has been read
        for (uint32_t j = threadIdx.x; j < size; j += GAN_FFT_THREADS) {
            const T *x = in + (from + j) * in_parts;
            gan_complex<T> z = {x[0], REAL_IN ? (T)0 : x[in_parts - 1]};
            tile[j] = REAL_OUT ? gan_for_two(z, from + j, n) : z;
        }
        __syncthreads();
        gan_complex<T> some = {0, 0};
        for (uint32_t j = 0; j < size && k < n; j++) {
            const gan_complex<T> turn =
                gan_times(fine[root % GAN_FFT_FINE], coarse[root / GAN_FFT_FINE]);
            const gan_complex<T> z = gan_times(tile[j], turn);
            some = {some.re + z.re, some.im + z.im};
            root = root + k < n ? root + k : root + k - n;
        }
        sum = {sum.re + some.re, sum.im + some.im};
    }
    if (k < made) {
        T *out = (T *)w.at[GAN_FFT_TO] + (line * (int64_t)made + k) * out_parts;
        out[0] = sum.re;
        if (!REAL_OUT)
            out[out_parts - 1] = sum.im;
    }
}

// All lines, GAN_FFT_THREADS results of one at a time.
template <typename T, bool REAL_IN, bool REAL_OUT, int N>
GAN_FN void gan_fft(const gan_args<N> &w) {
    const uint32_t n = (uint32_t)w.at[GAN_FFT_N];
    const bool inverse = w.at[GAN_FFT_INVERSE] != 0;
    const uint32_t made = REAL_IN ? n / 2 + 1 : n;
    const uint32_t parts = (made + GAN_FFT_THREADS - 1) / GAN_FFT_THREADS;
    const uint32_t jobs = (uint32_t)w.at[GAN_FFT_LINES] * parts;
    __shared__ gan_complex<T> fine[GAN_FFT_FINE], coarse[GAN_FFT_COARSE], tile[GAN_FFT_TILE];
    for (uint32_t i = threadIdx.x; i < GAN_FFT_FINE; i += GAN_FFT_THREADS)
        fine[i] = gan_root<T>(i, n, inverse);
    for (uint32_t i = threadIdx.x; i * GAN_FFT_FINE < n; i += GAN_FFT_THREADS)
        coarse[i] = gan_root<T>(i * GAN_FFT_FINE, n, inverse);
    for (uint32_t job = blockIdx.x; job < jobs; job += gridDim.x) {
        gan_fft_line<T, REAL_IN, REAL_OUT>(w, job / parts, job % parts * GAN_FFT_THREADS, fine,
                                           coarse, tile);
    }
}

#endif
