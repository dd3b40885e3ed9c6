// division_test.c - division and square root of the CUDA dialect on the emulator, whose
// approximate instructions have the error bounds of a GPU's: correctly rounded where kernel_cuda.h
// says so, and IEEE results for zeros (but for their sign), infinities and NaN everywhere.
#include "gen.h"
#include "shim.h"

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

static void quotients_and_roots_are_correctly_rounded(void **state) {
    static float a[Pairs], b[Pairs], q[Pairs], r[Pairs];
    Arena arena;
    Shim *s;
    ShimCode *code;
    (void)state;
    assert_int_equal(arena_init(&arena, 0), GAN_OK);
    Text t = {.arena = &arena};
    text_put(&t, gen_prelude(&dialect_cuda));
    text_put(&t, STR(kernel));
    assert_int_equal(shim_compile(text_str(&t), (Str[]){STR("divide")}, 1, &code), GAN_OK);
    arena_release(&arena);
    if (!code)
        skip();
    fill(a, b);
    assert_int_equal(shim_open(1, &s), GAN_OK);
    void *at[4];
    for (int i = 0; i < 4; i++)
        at[i] = shim_alloc(s, sizeof a, 4);
    shim_put(s, at[0], a, sizeof a);
    shim_put(s, at[1], b, sizeof b);
    ShimFault fault =
        shim_launch(s, code, STR("divide"), (ShimSize){Pairs / Threads, 1, 1},
                    (ShimSize){Threads, 1, 1}, (void *[]){&at[0], &at[1], &at[2], &at[3]});
    assert_int_equal(fault, ShimFine);
    memcpy(q, at[2], sizeof q);
    memcpy(r, at[3], sizeof r);
    shim_close(s);
    shim_free(code);
    for (int i = 0; i < Pairs; i++) {
        assert_same("the quotient", a[i], b[i], q[i], a[i] / b[i]);
        assert_same("the root", a[i], 0, r[i], sqrtf(a[i]));
    }
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(quotients_and_roots_are_correctly_rounded),
    };
    if (CASES_LISTED(tests))
        return 0;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
