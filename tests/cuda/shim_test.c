// shim_test.c - the emulator detects what it promises: small kernels, each with one planted bug
// beside the same kernel without, run in several orders of threads.
#include "shim.h"

#include <setjmp.h>
#include <string.h>

#include <cmocka.h>
#include "cases.h"

#define assert_ok(call)                                                                            \
    do {                                                                                           \
        if ((call) != GAN_OK)                                                                      \
            fail_msg("%s: %s", #call, gan_error());                                                \
    } while (0)

enum { Threads = 64, Blocks = 3, Seeds = 4, N = Threads * Blocks, Counts = Blocks + 1 };

// Every kernel gets (const float *x, float *y, unsigned *count): x and y of N elements, Counts
// words `count`, 0.
typedef struct Planted {
    const char *name, *text;
    ShimFault fault;  // found in every order of threads
    const char *says; // part of the message
} Planted;

#define KERNEL(name, body)                                                                         \
    "extern \"C\" __global__ void " name "(const float *x, float *y, unsigned *count) {\n"         \
    "    int t = threadIdx.x, b = blockIdx.x, n = blockDim.x, i = b * n + t;\n" body "}\n"

static const Planted planted[] = {
    {"turn", // through shared memory, all well
     KERNEL("turn", "    __shared__ float s[64];\n"
                    "    s[t] = x[i];\n"
                    "    __syncthreads();\n"
                    "    y[i] = s[63 - t];\n"),
     ShimFine, ""},
    {"turn_without_barrier",
     KERNEL("turn_without_barrier", "    __shared__ float s[64];\n"
                                    "    s[t] = x[i];\n"
                                    "    y[i] = s[63 - t];\n"),
     ShimUnwritten, ""}, // or a race, whichever comes first: see finds()
    {"turn_twice_with_one_barrier",
     KERNEL("turn_twice_with_one_barrier", "    __shared__ float s[64];\n"
                                           "    for (int k = 0; k < 2; k++) {\n"
                                           "        s[t] = x[i];\n"
                                           "        __syncthreads();\n"
                                           "        y[i] = s[63 - t];\n"
                                           "    }\n"),
     ShimRace, "with no barrier between\n  line "},
    {"shared_is_not_zero",
     KERNEL("shared_is_not_zero", "    __shared__ float s[64];\n"
                                  "    if (t == 0) s[t] = x[i];\n"
                                  "    __syncthreads();\n"
                                  "    y[i] = s[t];\n"),
     ShimUnwritten, ": y[i] = s[t];"},
    {"one_past_the_end", KERNEL("one_past_the_end", "    y[i] = x[i + 1];\n"), ShimOutOfBounds,
     "4 bytes at 768 of 768 in global memory are read\n  line "},
    {"one_before_the_start", KERNEL("one_before_the_start", "    y[i - 1] = x[i];\n"),
     ShimOutOfBounds, "4 bytes at -4 of 768 in global memory are written"},
    {"past_a_shared_array",
     KERNEL("past_a_shared_array", "    __shared__ float s[64];\n"
                                   "    s[t + (b == 2)] = x[i];\n"
                                   "    __syncthreads();\n"
                                   "    y[i] = s[t];\n"),
     ShimOutOfBounds, "index 64 is outside its array"},
    {"nothing_there", KERNEL("nothing_there", "    y[i] = *(const float *)(t * 8ll);\n"),
     ShimOutOfBounds, "where nothing is"},
    {"vector_not_aligned",
     KERNEL("vector_not_aligned", "    if (t < 8) {\n"
                                  "        float4 v = *(const float4 *)(x + i + 1);\n"
                                  "        y[i] = v.x + v.w;\n"
                                  "    }\n"),
     ShimMisaligned, ""},
    {"pack_not_aligned",
     KERNEL("pack_not_aligned", "    struct alignas(16) pack { float at[4]; };\n"
                                "    if (t < 8) {\n"
                                "        pack v = *(const pack *)(x + i + 1);\n"
                                "        y[i] = v.at[0] + v.at[3];\n"
                                "    }\n"),
     ShimMisaligned, "is not aligned to its type"},
    {"two_blocks_at_one_element", KERNEL("two_blocks_at_one_element", "    y[t] = x[i];\n"),
     ShimRace, "written by another block"},
    {"reads_another_blocks_result",
     KERNEL("reads_another_blocks_result", "    y[i] = x[i];\n"
                                           "    y[i] += y[(i + n) % (n * gridDim.x)];\n"),
     ShimUnwritten, ""},
    {"counts_without_atomics", KERNEL("counts_without_atomics", "    count[0] += 1;\n"), ShimRace,
     ""},
    {"counts", KERNEL("counts", "    y[atomicAdd(count, 1)] = x[i];\n"), ShimFine, ""},
    {"barrier_for_some", KERNEL("barrier_for_some", "    if (t < 32) __syncthreads();\n"),
     ShimDivergent, "divergent barrier: thread 0 waits at line "},
    {"two_barriers",
     KERNEL("two_barriers", "    if (t < 32)\n"
                            "        __syncthreads();\n"
                            "    else\n"
                            "        __syncthreads();\n"),
     ShimDivergent, "at line"},
    {"shuffle_for_some",
     KERNEL("shuffle_for_some", "    float v = x[i];\n"
                                "    if (t % 32 < 16) v += __shfl_down_sync(0xffffffffu, v, 8);\n"
                                "    y[i] = v;\n"),
     ShimDivergent, "some never come"},
    {"shuffle_from_outside_the_mask",
     KERNEL("shuffle_from_outside_the_mask",
            "    float v = x[i];\n"
            "    if (t % 32 < 16) v += __shfl_down_sync(0xffffu, v, 8);\n"
            "    y[i] = v;\n"),
     ShimDivergent, "which the mask 0000ffff leaves out"},
    {"warps_in_step",
     KERNEL("warps_in_step", "    __shared__ float s[64];\n"
                             "    s[t] = x[i];\n"
                             "    __syncwarp();\n"
                             "    y[i] = s[t ^ 1];\n"),
     ShimFine, ""},
    {"two_warps_in_step",
     KERNEL("two_warps_in_step", "    __shared__ float s[64];\n"
                                 "    s[t] = x[i];\n"
                                 "    __syncwarp();\n"
                                 "    s[t ^ 32] = x[i];\n"
                                 "    __syncthreads();\n"
                                 "    y[i] = s[t];\n"),
     ShimRace, ""},
    {"shuffles_order_nothing",
     KERNEL("shuffles_order_nothing", "    __shared__ float s[64];\n"
                                      "    s[t] = x[i];\n"
                                      "    s[t ^ 1] = __shfl_xor_sync(0xffffffffu, x[i], 1);\n"
                                      "    __syncthreads();\n"
                                      "    y[i] = s[t];\n"),
     ShimRace, ""},
    {"last_block_adds",
     KERNEL("last_block_adds", "    __shared__ int last;\n"
                               "    y[i] = x[i];\n"
                               "    __threadfence();\n"
                               "    __syncthreads();\n"
                               "    if (t == 0) last = atomicAdd(count, 1) == gridDim.x - 1;\n"
                               "    __syncthreads();\n"
                               "    if (last && t == 0)\n"
                               "        for (int k = 1; k < n * gridDim.x; k++) y[0] += y[k];\n"),
     ShimFine, ""},
    {"last_block_adds_without_fence",
     KERNEL("last_block_adds_without_fence",
            "    __shared__ int last;\n"
            "    y[i] = x[i];\n"
            "    __syncthreads();\n"
            "    if (t == 0) last = atomicAdd(count, 1) == gridDim.x - 1;\n"
            "    __syncthreads();\n"
            "    if (last && t == 0)\n"
            "        for (int k = 1; k < n * gridDim.x; k++) y[0] += y[k];\n"),
     ShimRace, "another block"},
    {"last_block_adds_too_early",
     KERNEL("last_block_adds_too_early",
            "    __shared__ int last;\n"
            "    y[i] = x[i];\n"
            "    __threadfence();\n"
            "    if (t == 0) last = atomicAdd(count, 1) == gridDim.x - 1;\n"
            "    __syncthreads();\n"
            "    if (last && t == 0)\n"
            "        for (int k = 1; k < n * gridDim.x; k++) y[0] += y[k];\n"),
     ShimRace, "another block"},
    {"third_block_reads_the_first", // the second hands on what the first has handed to it
     KERNEL("third_block_reads_the_first", "    if (t == 0) {\n"
                                           "        unsigned k = atomicAdd(count, 1);\n"
                                           "        if (k) atomicAdd(count + k, 1);\n"
                                           "        if (k == 0) y[0] = x[0];\n"
                                           "        if (k == 2) y[0] += x[1];\n"
                                           "        __threadfence();\n"
                                           "        atomicAdd(count + k + 1, 1);\n"
                                           "    }\n"),
     ShimFine, ""},
    {"second_block_hands_on_without_fence",
     KERNEL("second_block_hands_on_without_fence", "    if (t == 0) {\n"
                                                   "        unsigned k = atomicAdd(count, 1);\n"
                                                   "        if (k) atomicAdd(count + k, 1);\n"
                                                   "        if (k == 0) y[0] = x[0];\n"
                                                   "        if (k == 2) y[0] += x[1];\n"
                                                   "        if (k != 1) __threadfence();\n"
                                                   "        atomicAdd(count + k + 1, 1);\n"
                                                   "    }\n"),
     ShimRace, "another block"},
};
enum { PlantedCount = sizeof planted / sizeof *planted };

static ShimCode *code; // all of them; NULL without a compiler

static int compile_all(void **state) {
    Arena arena;
    Str name[PlantedCount];
    (void)state;
    assert_ok(arena_init(&arena, 0));
    Text t = {.arena = &arena};
    for (int i = 0; i < PlantedCount; i++) {
        name[i] = str_c(planted[i].name);
        text_put(&t, str_c(planted[i].text));
    }
    assert_ok(shim_compile(text_str(&t), name, PlantedCount, &code));
    arena_release(&arena);
    if (!code)
        print_message("no C++ compiler: kernels were not run\n");
    return 0;
}

static int free_all(void **state) {
    (void)state;
    shim_free(code);
    return 0;
}

typedef struct Outcome {
    ShimFault fault;
    char said[512];
    float y[N];
    unsigned count;
} Outcome;

static Outcome run(int which, uint64_t seed) {
    Outcome out;
    Shim *s;
    float x[N];
    for (int i = 0; i < N; i++)
        x[i] = (float)(i + 1);
    assert_ok(shim_open(seed, &s));
    void *dx = shim_alloc(s, sizeof x, 4), *dy = shim_alloc(s, sizeof x, 4),
         *dc = shim_alloc(s, Counts * sizeof(unsigned), 4);
    shim_put(s, dx, x, sizeof x);
    shim_put(s, dc, (unsigned[Counts]){0}, Counts * sizeof(unsigned));
    out.fault = shim_launch(s, code, str_c(planted[which].name), (ShimSize){Blocks, 1, 1},
                            (ShimSize){Threads, 1, 1}, (void *[]){&dx, &dy, &dc});
    snprintf(out.said, sizeof out.said, "%s", shim_said(s));
    memcpy(out.y, dy, sizeof out.y);
    memcpy(&out.count, dc, sizeof out.count);
    shim_close(s);
    return out;
}

static int find(const char *name) {
    for (int i = 0; i < PlantedCount; i++)
        if (!strcmp(planted[i].name, name))
            return i;
    fail_msg("no kernel %s", name);
    return -1;
}

// --- the cases -----------------------------------------------------------------------------------

// Unordered accesses show as a race, or as a read that came before the write: the order decides.
static bool finds(ShimFault want, ShimFault got) {
    return got == want || (want == ShimUnwritten && got == ShimRace);
}

static void planted_mistakes_are_found(void **state) {
    (void)state;
    if (!code)
        skip();
    for (int i = 0; i < PlantedCount; i++) {
        for (uint64_t seed = 1; seed <= Seeds; seed++) {
            Outcome o = run(i, seed);
            if (!finds(planted[i].fault, o.fault) || !strstr(o.said, planted[i].says))
                fail_msg("%s, seed %d: fault %d, \"%s\"; wanted fault %d, \"%s\"", planted[i].name,
                         (int)seed, (int)o.fault, o.said, (int)planted[i].fault, planted[i].says);
        }
    }
}

static void good_kernels_compute(void **state) {
    (void)state;
    if (!code)
        skip();
    Outcome turn = run(find("turn"), 1), step = run(find("warps_in_step"), 1),
            sum = run(find("last_block_adds"), 1), count = run(find("counts"), 1);
    for (int i = 0; i < N; i++) {
        assert_int_equal((int)turn.y[i], i / Threads * Threads + Threads - i % Threads);
        assert_int_equal((int)step.y[i], (i ^ 1) + 1);
    }
    assert_int_equal((int)sum.y[0], N * (N + 1) / 2);
    assert_int_equal(count.count, N);
}

// Another seed is another order: who counts first differs. The same seed is the same.
static void orders_follow_the_seed(void **state) {
    (void)state;
    if (!code)
        skip();
    int k = find("counts");
    Outcome a = run(k, 1), b = run(k, 1), c = run(k, 2);
    assert_memory_equal(a.y, b.y, sizeof a.y);
    assert_memory_not_equal(a.y, c.y, sizeof a.y);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(planted_mistakes_are_found),
        cmocka_unit_test(good_kernels_compute),
        cmocka_unit_test(orders_follow_the_seed),
    };
    if (CASES_LISTED(tests))
        return 0;
    return cmocka_run_group_tests(tests, compile_all, free_all);
}
