// kernel_cuda.h - text put before the prelude and the kernels of the CUDA dialect: how a kernel is
// called, and the functions the emitter writes by name. NVRTC compiles it without any header.
//
// Keeps: every result is a function of shapes and inputs alone. Sums go through fixed trees, so
//        neither the number of blocks nor the order in which they run can be seen. Multiplications
//        and additions are contracted where the text says fmaf, and nowhere else: the same element
//        has the same bits in every kernel, and on the cpu (--fmad=false; -ffp-contract=off).
//
// --- how a kernel is called ----------------------------------------------------------------------
//
//   extern "C" __global__ void __launch_bounds__(T)
//       NAME(const gan_args<N> w, const gan_counters *c)
//   extern "C" __global__ void __launch_bounds__(T)
//       NAME_many(const gan_args<N> *each, const gan_counters *c)
//
//   w      the region's words: addresses of Region.arg; where the region has scratch, the addresses
//          of its scratch and of its tickets; then Region.number. N is Kernel.words, the same for
//          every region of the kernel. By value: 8*N bytes, aligned to 8.
//   c      in device memory, so that a captured graph never changes. Kernels that read none do
//          not declare it. The driver skips a parameter that is passed and not declared.
//   many   a kernel that some launch runs for several regions (Kernel.many): blockIdx.y is the
//          instance, each[blockIdx.y] its words, in device memory.
//   parts  horizontally fused kernels: the last word of a region selects its part, and unused words
//          before it are zero. All instances share one launch.
//   T      Kernel.threads, the size of a block; blocks are one-dimensional.
//   grid   x: Region.blocks. Of a NAME_many the largest of its instances, or fewer: loops are
//          grid-stride, any number of blocks gives the same bits.
//   shared Kernel.shared bytes of dynamic shared memory (generated kernels need none).
//   tickets Region.tickets words of 32 bits, zero before the first launch, private to the region
//          for as long as the program is loaded. A kernel leaves them zero. Scratch may be shared
//          with launches before and after.
//   memory addresses and sizes are multiples of 16 bytes: kernels over a flat range walk whole
//          packs, the last of which may reach into that padding. An output may be the memory of an
//          input of the same shape and element size (an optimizer updates its weight in place): no
//          pointer is restrict, and all loads of an element come before its store.
#ifndef GAN_KERNEL_CUDA_H
#define GAN_KERNEL_CUDA_H

#define GAN_MEMBER __device__ __forceinline__
#define GAN_FN static GAN_MEMBER
#define GAN_OWN_DIVISION
#ifdef __CUDACC_RTC__ // has no headers
typedef signed int int32_t;
typedef signed long long int64_t;
typedef unsigned short uint16_t;
typedef unsigned int uint32_t;
typedef unsigned long long uint64_t;
#define INFINITY __int_as_float(0x7F800000)
#endif

typedef struct gan_counters { // Counters of ir.h
    uint64_t seed;
    uint32_t step, round;
    int64_t sample0;
    double epoch, kimg;
} gan_counters;

template <int N> struct gan_args {
    union {
        uint64_t at[N];
        uint32_t half[2 * N]; // word i from half[2 * i] on: loaded without a conversion
    };
};

// The compiler knows that a kernel's own parameters point to global memory; for pointers that are
// loaded from memory this says so.
template <typename T> GAN_FN T *gan_global(uint64_t at) {
#ifdef __CUDACC_RTC__
    asm("" : "+l"(at)); // or NVRTC 13.0 never ends where a unit's pieces are joined
#endif
    return (T *)__cvta_global_to_generic(at);
}

// --- division and roots --------------------------------------------------------------------------
//
// What the compiler writes for a division is right everywhere, by a branch to a rare path: a
// hundred instructions more in every kernel, and registers kept for a call. These are right to the
// last bit where divisor, quotient and remainder are normal numbers (as the common path of CUDA's
// own division is; Markstein excepts divisors whose significand is all ones), and within 2 ulp
// elsewhere; a divisor above 2^126 counts as infinite, one below 2^-126 as zero, and a quotient of
// zero has no sign. Zeros, infinities and NaN come out as they should. The inverse is of the
// divisor alone: divisors that stay the same in a loop are inverted once (gan_divf_by).

#ifdef __CUDACC_RTC__
GAN_FN float gan_near_inverse(float x) { // 1 ulp; with subnormal numbers, seven times as long
    float r;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(x));
    return r;
}
#endif

struct gan_inverse {
    float near, nearer;
};
GAN_FN gan_inverse gan_inverse_of(float x) {
    const float near = gan_near_inverse(x);
    return {near, fmaf(fmaf(-x, near, 1.0f), near, near)};
}

// Markstein's: the remainder of a first quotient, which an fma gives exactly, corrects it.
GAN_FN float gan_divf_by(float a, float b, gan_inverse by) {
    const float q = a * by.nearer, exact = fmaf(fmaf(-b, q, a), by.nearer, q);
    return exact == exact ? exact : a * by.near; // NaN: something was zero or not finite
}

GAN_FN float gan_divf(float a, float b) {
    return gan_divf_by(a, b, gan_inverse_of(b));
}

GAN_FN float gan_sqrtf(float a) {
    const float r = rsqrtf(a), q = a * r;
    const float corrected = fmaf(fmaf(-q, q, a), 0.5f * r, q);
    return corrected == corrected || a < 0.0f ? corrected : a; // zero, infinity, NaN
}

// i / n for i below 2^31; the halves are fast_divisor(n) of base/integers.h.
struct gan_divisor {
    uint32_t factor, shift;
};
GAN_FN uint32_t gan_divide(uint32_t i, gan_divisor by) {
    return __umulhi(i, by.factor) >> by.shift;
}
GAN_FN uint32_t gan_divide(uint32_t i, uint64_t by) {
    return gan_divide(i, gan_divisor{(uint32_t)by, (uint32_t)(by >> 32)});
}

// a * b + c, rounded once: of the terms of products.
GAN_FN float gan_fma(float a, float b, float c) {
    return fmaf(a, b, c);
}
GAN_FN double gan_fma(double a, double b, double c) {
    return fma(a, b, c);
}

// --- packs ---------------------------------------------------------------------------------------

// A vector of N elements: up to 16 bytes in one access, more in several.
template <typename T, int N> struct alignas(sizeof(T) * N < 16 ? sizeof(T) * N : 16) gan_pack {
    T at[N];
};

template <typename T, int N> GAN_FN gan_pack<T, N> gan_all(T x) {
    gan_pack<T, N> all;
    for (int l = 0; l < N; l++)
        all.at[l] = x;
    return all;
}

template <int N, typename T> GAN_FN gan_pack<T, N> gan_load(const T *p) {
    return *(const gan_pack<T, N> *)p;
}

// The widest access for a type of this many bytes. Most elements are floats: as integers they would
// be moved to other registers.
template <int BYTES> struct gan_access { typedef float4 type; };
template <> struct gan_access<8> { typedef float2 type; };
template <> struct gan_access<4> { typedef float type; };
template <> struct gan_access<2> { typedef uint16_t type; };

// One load if `there`, else zero. The compiler would write a branch, which costs it as much time as
// ten instructions. Volatile: it must stay ahead of the stores.
#ifdef __CUDACC_RTC__
#define GAN_IF_THERE "{ .reg .pred there; setp.ne.u32 there, "
GAN_FN void gan_fetch_if(uint32_t there, const uint16_t *p, uint16_t *to) {
    asm volatile(GAN_IF_THERE "%1, 0; mov.u16 %0, 0; @there ld.global.u16 %0, [%2]; }"
                 : "=&h"(*to)
                 : "r"(there), "l"(__cvta_generic_to_global(p)));
}
GAN_FN void gan_fetch_if(uint32_t there, const float *p, float *to) {
    asm volatile(GAN_IF_THERE "%1, 0; mov.b32 %0, 0; @there ld.global.f32 %0, [%2]; }"
                 : "=&f"(*to)
                 : "r"(there), "l"(__cvta_generic_to_global(p)));
}
GAN_FN void gan_fetch_if(uint32_t there, const float2 *p, float2 *to) {
    asm volatile(GAN_IF_THERE "%2, 0; mov.b32 %0, 0; mov.b32 %1, 0; "
                              "@there ld.global.v2.f32 {%0, %1}, [%3]; }"
                 : "=&f"(to->x), "=&f"(to->y)
                 : "r"(there), "l"(__cvta_generic_to_global(p)));
}
GAN_FN void gan_fetch_if(uint32_t there, const float4 *p, float4 *to) {
    asm volatile(GAN_IF_THERE "%4, 0; mov.b32 %0, 0; mov.b32 %1, 0; mov.b32 %2, 0; "
                              "mov.b32 %3, 0; @there ld.global.v4.f32 {%0, %1, %2, %3}, [%5]; }"
                 : "=&f"(to->x), "=&f"(to->y), "=&f"(to->z), "=&f"(to->w)
                 : "r"(there), "l"(__cvta_generic_to_global(p)));
}
#else
template <typename T> GAN_FN void gan_fetch_if(uint32_t there, const T *p, T *to) {
    *to = T{};
    if (there)
        *to = *p;
}
#endif

template <typename T> GAN_FN T gan_load_if(bool there, const T *p) {
    typedef typename gan_access<sizeof(T) % 16 == 0 ? 16 : sizeof(T)>::type part;
    union {
        T x;
        part w[sizeof(T) / sizeof(part)];
    } v;
    for (uint32_t i = 0; i < sizeof(T) / sizeof(part); i++)
        gan_fetch_if(there, (const part *)p + i, &v.w[i]);
    return v.x;
}
template <int N, typename T> GAN_FN gan_pack<T, N> gan_load_if(bool there, const T *p) {
    return gan_load_if(there, (const gan_pack<T, N> *)p);
}

template <int N, typename T> GAN_FN void gan_store(T *p, const gan_pack<T, N> &x) {
    *(gan_pack<T, N> *)p = x;
}

#endif
