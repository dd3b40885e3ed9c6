// division_test.c - division and square root of the CUDA dialect on the emulator, whose
// approximate instructions have the error bounds of a GPU's: correctly rounded where kernel_cuda.h
// says so, and IEEE results for zeros (but for their sign), infinities and NaN everywhere. And
// division of indices by arguments, which is exact.
#include "gen.h"
#include "shim.h"

#include "integers.h"

#include <math.h>
#include <setjmp.h>
#include <string.h>

#include <cmocka.h>
#include "cases.h"

enum { Threads = 256, Pairs = 64 * Threads };

static const float special[] = {
    0, -0.0f, 1, -1, 3, 0x1p-100f, 0.1f, INFINITY, -INFINITY, NAN, 0x1.fffffcp60f, 0x1p-24f};
enum { Specials = sizeof special / sizeof *special };

static const char kernel[] =
    "extern \"C\" __global__ void divide(const float *a, const float *b, float *q, float *r) {\n"
    "    const int i = blockIdx.x * blockDim.x + threadIdx.x;\n"
    "    q[i] = gan_divf(a[i], b[i]);\n"
    "    r[i] = gan_sqrtf(a[i]);\n"
    "}\n";

static const char of_indices[] =
    "extern \"C\" __global__ void divide(const uint32_t *a, const uint64_t *by, uint32_t *q) {\n"
    "    const int i = blockIdx.x * blockDim.x + threadIdx.x;\n"
    "    q[i] = gan_divide(a[i], by[i]);\n"
    "}\n";

// Every pair of special values, then numbers of either sign from 2^-40 to 2^40.
static void fill(float *a, float *b) {
    uint64_t s = 1;
    for (int i = 0; i < Pairs; i++) {
        float *out[2] = {&a[i], &b[i]};
        for (int k = 0; k < 2; k++) {
            s = s * 6364136223846793005u + 1442695040888963407u;
            uint32_t u = (uint32_t)(s >> 32);
            float x = ldexpf((float)(u >> 9 | 1 << 23), (int)(u % 80) - 63);
            *out[k] = u & 128 ? -x : x;
        }
        if (i < Specials * Specials) {
            a[i] = special[i / Specials];
            b[i] = special[i % Specials];
        }
    }
}

static void assert_same(const char *what, float a, float b, float got, float want) {
    if (isnan(want) ? !isnan(got) : got != want)
        fail_msg("%s of %a and %a: %a instead of %a", what, a, b, got, want);
}

// The kernel `divide`; skips the test without a C++ compiler.
static ShimCode *compiled(const char *text) {
    Arena arena;
    ShimCode *code;
    assert_int_equal(arena_init(&arena, 0), GAN_OK);
    Text t = {.arena = &arena};
    text_put(&t, gen_prelude(&dialect_cuda));
    text_put(&t, str_c(text));
    assert_int_equal(shim_compile(text_str(&t), (Str[]){STR("divide")}, 1, &code), GAN_OK);
    arena_release(&arena);
    if (!code)
        skip();
    return code;
}

// What the kernel makes of blocks * threads pairs: their quotients, and the roots of the dividends.
static void divide(int blocks, int threads, const float *a, const float *b, float *q, float *r) {
    size_t bytes = sizeof(float) * (size_t)(blocks * threads);
    Shim *s;
    ShimCode *code = compiled(kernel);
    assert_int_equal(shim_open(1, &s), GAN_OK);
    void *at[4];
    for (int i = 0; i < 4; i++)
        at[i] = shim_alloc(s, bytes, 4);
    shim_put(s, at[0], a, bytes);
    shim_put(s, at[1], b, bytes);
    ShimFault fault =
        shim_launch(s, code, STR("divide"), (ShimSize){blocks, 1, 1}, (ShimSize){threads, 1, 1},
                    (void *[]){&at[0], &at[1], &at[2], &at[3]});
    assert_int_equal(fault, ShimFine);
    memcpy(q, at[2], bytes);
    memcpy(r, at[3], bytes);
    shim_close(s);
    shim_free(code);
}

static void quotients_and_roots_are_correctly_rounded(void **state) {
    static float a[Pairs], b[Pairs], q[Pairs], r[Pairs];
    (void)state;
    fill(a, b);
    divide(Pairs / Threads, Threads, a, b, q, r);
    for (int i = 0; i < Pairs; i++) {
        assert_same("the quotient", a[i], b[i], q[i], a[i] / b[i]);
        assert_same("the root", a[i], 0, r[i], sqrtf(a[i]));
    }
}

// Divisors and inverses that are subnormal count as zero.
static void divisors_without_a_normal_inverse_are_zero_or_infinite(void **state) {
    (void)state;
    static const struct {
        float a, b, q;
    } cases[] = {{3, 0x1p-126f, 0x1.8p127f}, {1, 0x1p-127f, INFINITY},  {-1, 0x1p-127f, -INFINITY},
                 {1, -0x1p-149f, -INFINITY}, {1, 0x1p126f, 0x1p-126f},  {1, 0x1p127f, 0},
                 {0x1p-127f, 1, 0x1p-127f},  {0x1p-149f, 1, 0x1p-149f}, {0, 0x1p-127f, NAN}};
    enum { N = sizeof cases / sizeof *cases };
    float a[N], b[N], q[N], r[N];
    for (int i = 0; i < N; i++)
        a[i] = cases[i].a, b[i] = cases[i].b;
    divide(1, N, a, b, q, r);
    for (int i = 0; i < N; i++)
        assert_same("the quotient", a[i], b[i], q[i], cases[i].q);
}

// Divisors of all sizes, each a little beside a power of two as well; dividends beside multiples of
// them, and the largest there is.
static void fill_indices(uint32_t *a, uint32_t *n) {
    uint64_t s = 1;
    for (int i = 0; i < Pairs; i++) {
        s = s * 6364136223846793005u + 1442695040888963407u;
        uint32_t bits = 1 + (uint32_t)(i / 16 % 30), most = INT32_MAX;
        n[i] = i & 1 ? (1u << bits) + (uint32_t)(i >> 1 & 1) : (uint32_t)(s >> 33) >> (30 - bits);
        n[i] = n[i] < 2 ? 2 : n[i];
        uint64_t near = (s >> 40) % (most / n[i] + 1) * n[i] + (uint64_t)(i >> 2 & 3);
        a[i] = near > most || (i >> 2 & 3) == 3 ? most : near ? (uint32_t)near - 1 : 0;
    }
}

static void indices_are_divided_exactly(void **state) {
    static uint32_t a[Pairs], n[Pairs], q[Pairs];
    static uint64_t by[Pairs];
    Shim *s;
    ShimCode *code = compiled(of_indices);
    (void)state;
    fill_indices(a, n);
    for (int i = 0; i < Pairs; i++)
        by[i] = (uint64_t)fast_divisor(n[i]);
    assert_int_equal(shim_open(1, &s), GAN_OK);
    void *at[] = {shim_alloc(s, sizeof a, 4), shim_alloc(s, sizeof by, 8),
                  shim_alloc(s, sizeof q, 4)};
    shim_put(s, at[0], a, sizeof a);
    shim_put(s, at[1], by, sizeof by);
    ShimFault fault = shim_launch(s, code, STR("divide"), (ShimSize){Pairs / Threads, 1, 1},
                                  (ShimSize){Threads, 1, 1}, (void *[]){&at[0], &at[1], &at[2]});
    assert_int_equal(fault, ShimFine);
    memcpy(q, at[2], sizeof q);
    shim_close(s);
    shim_free(code);
    for (int i = 0; i < Pairs; i++)
        if (q[i] != a[i] / n[i])
            fail_msg("%u / %u is %u", a[i], n[i], q[i]);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(quotients_and_roots_are_correctly_rounded),
        cmocka_unit_test(divisors_without_a_normal_inverse_are_zero_or_infinite),
        cmocka_unit_test(indices_are_divided_exactly),
    };
    if (CASES_LISTED(tests))
        return 0;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
