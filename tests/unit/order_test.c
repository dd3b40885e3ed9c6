// order_test.c - sorting of lines against the definition: an element's position is the number of
// elements that come before it. Every length up to the longest of one algorithm and some of the
// others, all of a line and its last few, ties, both zeros, infinities and NaN.
#include "device.h"
#include "integers.h"
#include "order_line.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "cases.h"
#include <math.h>

enum { LONGEST = 700 };

static const float special[] = {0.0f, -0.0f, INFINITY, -INFINITY, NAN, -NAN, 1.0f, -1.0f};

// Every third number is one of those above; the others take few values or many.
static void fill(float *x, int64_t n, uint64_t *seed) {
    for (int64_t i = 0; i < n; i++) {
        *seed = *seed * 6364136223846793005u + 1442695040888963407u;
        uint32_t draw = (uint32_t)(*seed >> 40);
        x[i] = draw % 3 == 0 ? special[draw / 3 % 8]
               : n % 2 == 0  ? (float)(draw % 7) - 3
                             : (float)draw / (1 << 23) - 1;
    }
}

static bool comes_before(const float *x, int64_t j, int64_t i) {
    float a = x[j], b = x[i];
    if (isnan(a) || isnan(b))
        return isnan(a) && isnan(b) ? j < i : isnan(b);
    return a == b ? j < i : a < b;
}

static void check_line(OrderRun *run, int64_t n, int64_t k, uint64_t *seed) {
    static float x[LONGEST], y[LONGEST + 1];
    void *room = mem_alloc_aligned(round_up(order_room(n), 64), 64);
    fill(x, n, seed);
    y[k] = -1;
    run(x, y, n, k, room);
    mem_free_aligned(room);
    assert_true(y[k] == -1);
    for (int64_t i = 0; i < n; i++) {
        int64_t place = k - n;
        for (int64_t j = 0; j < n; j++)
            place += comes_before(x, j, i);
        if (place >= 0 && y[place] != (float)i)
            fail_msg("of the last %lld of %lld numbers: number %lld is %g, should be %lld",
                     (long long)k, (long long)n, (long long)place, (double)y[place], (long long)i);
    }
}

static void check_all(OrderRun *run) {
    uint64_t seed = 1;
    for (int64_t n = 1; n <= LONGEST; n += n < 280 ? 1 : 60) {
        const int64_t last[] = {1, 8, n / 8, n / 4, n / 2, n};
        for (size_t i = 0; i < sizeof last / sizeof *last; i++)
            if (last[i] > 0 && last[i] <= n)
                check_line(run, n, last[i], &seed);
    }
}

static void sorted_positions_equal_the_definition(void **state) {
    (void)state;
    check_all(order_run);
}

#ifdef GAN_VECTOR_LEVELS
extern OrderRun order_run_v3, order_run_v4;

static void every_level_of_instructions_agrees(void **state) {
    (void)state;
    if (dnn_vector_level() >= 3)
        check_all(order_run_v3);
    if (dnn_vector_level() >= 4)
        check_all(order_run_v4);
}
#endif

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sorted_positions_equal_the_definition),
#ifdef GAN_VECTOR_LEVELS
        cmocka_unit_test(every_level_of_instructions_agrees),
#endif
    };
    if (CASES_LISTED(tests))
        return 0;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
