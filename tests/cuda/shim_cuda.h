// shim_cuda.h - the prelude of kernel text on the CPU: the CUDA C++ keywords and functions that
// the dialect uses, as C++17. The functions named shim_ are in shim_run.c and shim_memory.c.
#include <math.h>
#include <stddef.h>
#include <stdint.h>

#define __global__
#define __device__
#define __host__
#define __constant__ const
#define __grid_constant__
#define __forceinline__ inline
#define __noinline__ __attribute__((noinline))
#define __launch_bounds__(...)
#define __align__(n) alignas(n)
// Thread-local data of the compiled text is one range of memory: the shim takes it for the block's.
#define __shared__ thread_local
#define SHIM_FOUND __attribute__((visibility("default")))
#define SHIM_UNSEEN __attribute__((no_sanitize("thread")))

struct uint3 {
    unsigned x, y, z;
};
struct dim3 {
    unsigned x, y, z;
};
struct shim_position {
    uint3 thread, block;
    dim3 threads, blocks;
};
extern "C" {
SHIM_FOUND shim_position shim_here; // set whenever a thread goes on
void shim_barrier(int line);
void shim_warp_sync(int line, unsigned mask);
unsigned long long shim_shuffle(int line, unsigned mask, unsigned long long bits, int from);
unsigned shim_ballot(int line, unsigned mask, int vote);
unsigned shim_match(int line, unsigned mask, unsigned x);
int shim_lane(void);
void shim_atomic(const void *at, unsigned long size);
void shim_fence(void);
void shim_vector(const void *at, unsigned long size, int write);
SHIM_FOUND void *shim_shared_memory(void) {
    static thread_local char any;
    return &any;
}
}
SHIM_UNSEEN static inline uint3 shim_thread() {
    return shim_here.thread;
}
SHIM_UNSEEN static inline uint3 shim_block() {
    return shim_here.block;
}
SHIM_UNSEEN static inline dim3 shim_threads() {
    return shim_here.threads;
}
SHIM_UNSEEN static inline dim3 shim_blocks() {
    return shim_here.blocks;
}
#define threadIdx shim_thread()
#define blockIdx shim_block()
#define blockDim shim_threads()
#define gridDim shim_blocks()
#define warpSize 32

// --- vectors: a copy is one access, which must be aligned --------------------------------------

#define SHIM_VECTOR(name, size, fields, ...)                                                       \
    struct alignas(size) name {                                                                    \
        fields;                                                                                    \
        name() = default;                                                                          \
        SHIM_UNSEEN name(const name &o) {                                                          \
            *this = o;                                                                             \
        }                                                                                          \
        SHIM_UNSEEN name &operator=(const name &o) {                                               \
            shim_vector(&o, size, 0);                                                              \
            shim_vector(this, size, 1);                                                            \
            __VA_ARGS__;                                                                           \
            return *this;                                                                          \
        }                                                                                          \
    };
#define SHIM_VECTOR2(name, T)                                                                      \
    SHIM_VECTOR(name, 2 * sizeof(T), T x; T y, x = o.x, y = o.y)                                   \
    SHIM_UNSEEN static inline name make_##name(T x, T y) {                                         \
        name v;                                                                                    \
        v.x = x, v.y = y;                                                                          \
        return v;                                                                                  \
    }
#define SHIM_VECTOR4(name, T)                                                                      \
    SHIM_VECTOR(name, 4 * sizeof(T), T x; T y; T z; T w, x = o.x, y = o.y, z = o.z, w = o.w)       \
    SHIM_UNSEEN static inline name make_##name(T x, T y, T z, T w) {                               \
        name v;                                                                                    \
        v.x = x, v.y = y, v.z = z, v.w = w;                                                        \
        return v;                                                                                  \
    }
SHIM_VECTOR2(float2, float)
SHIM_VECTOR4(float4, float)
SHIM_VECTOR2(double2, double)
SHIM_VECTOR2(int2, int)
SHIM_VECTOR4(int4, int)
SHIM_VECTOR2(uint2, unsigned)
SHIM_VECTOR4(uint4, unsigned)
SHIM_VECTOR2(ushort2, unsigned short)
SHIM_VECTOR4(ushort4, unsigned short)

// --- threads of a block --------------------------------------------------------------------------

#define __syncthreads() shim_barrier(__LINE__)
#define __syncwarp(...) shim_warp_sync(__LINE__, shim_mask(__VA_ARGS__))
#define __ballot_sync(mask, vote) shim_ballot(__LINE__, mask, (vote) != 0)
#define __match_any_sync(mask, x) shim_match(__LINE__, mask, x)
#define __any_sync(mask, vote) (shim_ballot(__LINE__, mask, (vote) != 0) != 0)
#define __all_sync(mask, vote) (shim_ballot(__LINE__, mask, (vote) != 0) == (mask))
#define __shfl_sync(...) shim_shfl<0>(__LINE__, __VA_ARGS__)
#define __shfl_up_sync(...) shim_shfl<1>(__LINE__, __VA_ARGS__)
#define __shfl_down_sync(...) shim_shfl<2>(__LINE__, __VA_ARGS__)
#define __shfl_xor_sync(...) shim_shfl<3>(__LINE__, __VA_ARGS__)
static inline unsigned shim_mask(unsigned mask = 0xffffffffu) {
    return mask;
}
static inline void __threadfence() {
    shim_fence();
}
static inline void __threadfence_block() {}

template <int kind, class T>
SHIM_UNSEEN static inline T shim_shfl(int line, unsigned mask, T x, int by, int width = 32) {
    static_assert(sizeof(T) <= 8, "a shuffle moves 4 or 8 bytes");
    int lane = shim_lane(), first = lane & ~(width - 1), from = lane;
    if (kind == 0)
        from = first + (by & (width - 1));
    if (kind == 1)
        from = lane - by < first ? lane : lane - by;
    if (kind == 2)
        from = lane + by >= first + width ? lane : lane + by;
    if (kind == 3)
        from = (lane ^ by) >= first + width ? lane : lane ^ by;
    unsigned long long bits = 0;
    __builtin_memcpy(&bits, &x, sizeof x);
    bits = shim_shuffle(line, mask, bits, from);
    __builtin_memcpy(&x, &bits, sizeof x);
    return x;
}

// --- atomics: one thread runs at a time, so plain steps between two switches are one ------------

#define SHIM_ATOMIC(name, value)                                                                   \
    template <class T, class U> SHIM_UNSEEN static inline T name(T *at, U with) {                  \
        shim_atomic(at, sizeof *at);                                                               \
        T old = *at, x = (T)with;                                                                  \
        *at = (value);                                                                             \
        return old;                                                                                \
    }
SHIM_ATOMIC(atomicAdd, old + x)
SHIM_ATOMIC(atomicMax, old > x ? old : x)
SHIM_ATOMIC(atomicMin, old < x ? old : x)
SHIM_ATOMIC(atomicOr, old | x)
SHIM_ATOMIC(atomicAnd, old &x)
SHIM_ATOMIC(atomicExch, x)
SHIM_ATOMIC(atomicInc, (old >= x ? 0 : old + 1))
template <class T> SHIM_UNSEEN static inline T atomicCAS(T *at, T expected, T x) {
    shim_atomic(at, sizeof *at);
    T old = *at;
    *at = old == expected ? x : old;
    return old;
}

// --- functions -----------------------------------------------------------------------------------

template <class T> static inline T __ldcg(const T *at) {
    return *at;
}
template <class T> static inline T __ldg(const T *at) {
    return *at;
}
template <class T> SHIM_UNSEEN static inline T shim_bits(const void *from) {
    T to;
    __builtin_memcpy(&to, from, sizeof to);
    return to;
}
static inline int __float_as_int(float x) {
    return shim_bits<int>(&x);
}
static inline unsigned __float_as_uint(float x) {
    return shim_bits<unsigned>(&x);
}
static inline float __int_as_float(int x) {
    return shim_bits<float>(&x);
}
static inline float __uint_as_float(unsigned x) {
    return shim_bits<float>(&x);
}
static inline long long __double_as_longlong(double x) {
    return shim_bits<long long>(&x);
}
static inline double __longlong_as_double(long long x) {
    return shim_bits<double>(&x);
}
static inline unsigned __umulhi(unsigned a, unsigned b) {
    return (unsigned)((unsigned long long)a * b >> 32);
}
static inline int __popc(unsigned x) {
    return __builtin_popcount(x);
}
static inline int __clz(int x) {
    return x ? __builtin_clz((unsigned)x) : 32;
}
static inline int __ffs(int x) {
    return __builtin_ffs(x);
}
static inline void *__cvta_global_to_generic(unsigned long long at) {
    return (void *)at;
}
static inline float __fmaf_rn(float a, float b, float c) {
    return __builtin_fmaf(a, b, c);
}
// With the maximum error a GPU's may have: results computed from them must not depend on it.
static inline float shim_off(float x) {
    return x > 0x1p-100f && x < 0x1p100f ? __uint_as_float(__float_as_uint(x) + 1) : x;
}
// Renamed: a newer math.h declares them too.
static inline double shim_cospi(double x) {
    return cos(3.14159265358979323846 * x);
}
static inline double shim_sinpi(double x) {
    return sin(3.14159265358979323846 * x);
}
#define cospi shim_cospi
#define sinpi shim_sinpi
static inline float rsqrtf(float x) {
    return shim_off(1 / __builtin_sqrtf(x));
}
// Subnormal numbers are zero, as argument and as result.
static inline float shim_flush(float x) {
    return x > -0x1p-126f && x < 0x1p-126f ? x * 0 : x;
}
static inline float gan_near_inverse(float x) {
    const float flushed = shim_flush(x);
    return shim_flush(x < 0 ? -shim_off(-1 / flushed) : shim_off(1 / flushed));
}
static inline double rsqrt(double x) {
    return 1 / __builtin_sqrt(x);
}

template <class T> static inline T min(T a, T b) {
    return b < a ? b : a;
}
template <class T> static inline T max(T a, T b) {
    return a < b ? b : a;
}
// --- calling a kernel with the arguments of cuLaunchKernel --------------------------------------

template <unsigned... i> struct shim_list {};
template <unsigned n, unsigned... i> struct shim_count : shim_count<n - 1, n - 1, i...> {};
template <unsigned... i> struct shim_count<0, i...> { typedef shim_list<i...> list; };
template <class... A, unsigned... i>
SHIM_UNSEEN static void shim_call(void (*kernel)(A...), void *const *p, shim_list<i...>) {
    kernel(*(A *)p[i]...);
}
template <class... A> SHIM_UNSEEN static void shim_enter(void (*kernel)(A...), void *const *p) {
    shim_call(kernel, p, typename shim_count<sizeof...(A)>::list());
}
#define SHIM_KERNEL(name)                                                                          \
    extern "C" SHIM_FOUND SHIM_UNSEEN void shim_kernel_##name(void *const *p) {                    \
        shim_enter(name, p);                                                                       \
    }
