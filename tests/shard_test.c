// shard_test.c - the mathematics does not depend on the number of ranks: models train on one, two
// and three ranks (threads of this process) to the same losses, gradients and weights. Built
// twice: two small models in the quick tier, the others in the long one.
#include "tail_models.h"
#include "ranks_run.h"

#include <setjmp.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include "arena_cases.h"

// --- models --------------------------------------------------------------------------------------

static const struct {
    const char *model, *set;
    int64_t batch;
} models[] = {
#ifdef ALL_MODELS // MODEL=dcgan.gan picks one
    {"aae3d.gan", "points=64 nz=8", 3},
    {"began.gan", "size=16 wide=3 nz=5", 5},
    {"biggan.gan", "levels=[2,2,1] attn=8 z_chunk=2 wide=2 kinds=3 shared=3 rounds=1", 3},
    {"cosmogan.gan", "size=32 flip=0.5", 4},
    {"cosmogan.gan", "size=32 mode=published", 3},
    {"cyclegan.gan", "size=32 blocks=1 pool=3", 3},
    {"d3gan.gan", NULL, 3},
    {"d3gan.gan", "variant=ddp", 4},
    {"dcgan.gan", NULL, 3},
    {"demo.gan", "c=8 nz=5", 5},
    {"munit.gan", "size=16 wide=2 blocks=1 scales=1", 3},
    {"pix2pix.gan", "size=32 wide=2", 3},
    {"progan.gan", "size=8 nz=5 wide=3 fade=3", 4},
    {"r3gan.gan", "size=8 full=4 wide=4 groups=2 nz=5 blocks=1", 3},
    {"sagan.gan", "size=16 attn=8 nz=5 wide=2 kinds=3", 3},
    {"sngan.gan", NULL, 3},
    {"wgan_gp.gan", "critic=1", 3},
#else
    {"acgan.gan", "nz=6 wide=2 kinds=3", 5},
    {"infogan.gan", "nz=4 kinds=3 wide=2", 3},
    {"stargan.gan", "size=16 depth=2 kinds=3 wide=2 blocks=1 rounds=1", 3},
    {"wavegan.gan", "slice=256 nz=5 wide=2 rounds=1", 3},
    {"d2gan_ring.gan", "nz=8 hidden=6", 7},
#endif
};

#ifdef ALL_MODELS
enum { STEPS = 1, FEWEST = 3 };
#else
enum { STEPS = 2, FEWEST = 2 };
#endif

static bool is_selected(const char *model) {
    const char *one = getenv("MODEL");
    return !one || !strcmp(one, model);
}

// One rank and `fewest` to three compute the same.
static void compare_ranks(Arena a, RanksOptions o, uint32_t fewest, double tolerance,
                          const char *what) {
    RanksRun one, more;
    ranks_run(&a, &o, &one);
    for (uint32_t ranks = fewest; ranks <= 3; ranks++) {
        o.parallel.ranks = ranks;
        ranks_run(&a, &o, &more);
        ranks_compare(&one, &more, tolerance, str_format(&a, "%s, %u ranks", what, ranks).ptr);
        ranks_free(&more);
    }
    ranks_free(&one);
}

static void models_do_not_depend_on_ranks(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
        Arena a = empty;
        if (!is_selected(models[i].model))
            continue;
        RanksOptions o = {.name = models[i].model,
                          .set = models[i].set,
                          .batch = models[i].batch,
                          .api = &device_ref,
                          .real = DtF64,
                          .steps = STEPS};
        o.text = ranks_model_text(&a, o.name);
        compare_ranks(a, o, FEWEST, 1e-9, o.name);
    }
}

#ifndef ALL_MODELS
// --- chunks --------------------------------------------------------------------------------------

// --deterministic=4: the same bits on 1, 2 and 4 ranks, and the plain step's result up to rounding.
static void check_chunks(const DeviceApi *api, Dtype real, double tolerance, uint32_t steps) {
    for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
        Arena a = empty;
        RanksOptions o = {.name = models[i].model,
                          .set = models[i].set,
                          .batch = 8,
                          .api = api,
                          .real = real,
                          .steps = steps,
                          .compiler = STR(TEST_DIR "/support/quick_cc"),
                          .cache = STR(BUILD_DIR "/tests/cache")};
        RanksRun plain, one, more;
        o.text = ranks_model_text(&a, o.name);
        ranks_run(&a, &o, &plain);
        o.parallel.chunks = 4;
        ranks_run(&a, &o, &one);
        ranks_compare(&plain, &one, tolerance, str_format(&a, "%s in chunks", o.name).ptr);
        for (uint32_t ranks = 2; ranks <= 4; ranks *= 2) {
            o.parallel.ranks = ranks;
            ranks_run(&a, &o, &more);
            ranks_compare(&one, &more, 0,
                          str_format(&a, "%s, chunks, %u ranks", o.name, ranks).ptr);
        }
    }
}

// The old value of a state is read after a reduction, when the state has already been updated.
static void chunks_read_a_state_before_it_is_set(void **state) {
    (void)state;
    static const char counted[] =
        "model counted\ndata x : float(3)\n"
        "net D(x: [3]) -> [] = x |> dense(1) |> squeeze\n"
        "step { state count = 1; before = count; count := count + 1; y = D(x)\n"
        "  update D minimize before*mean((y - before*mean(y))^2) using sgd(lr=0.1) }\n";
    Arena a = empty;
    RanksOptions o = {.name = "counted.gan",
                      .text = str_c(counted),
                      .batch = 8,
                      .api = &device_ref,
                      .real = DtF64,
                      .steps = 3};
    RanksRun plain, parts;
    ranks_run(&a, &o, &plain);
    o.parallel.chunks = 4;
    for (o.parallel.ranks = 1; o.parallel.ranks <= 2; o.parallel.ranks++) {
        ranks_run(&a, &o, &parts);
        ranks_compare(&plain, &parts, 1e-9, "a state in chunks");
    }
}

static void chunks_have_the_same_bits_on_any_number_of_ranks(void **state) {
    (void)state;
    check_chunks(&device_ref, DtF64, 1e-9, 2);
    check_chunks(&device_ref, DtF32, 1e-2, 2);
}

static void chunks_have_the_same_bits_on_the_cpu(void **state) {
    (void)state;
    check_chunks(&device_cpu, DtF32, 1e-2, 2);
}

// Replicated computation from equal values gives equal bits, although ranks with 3 and 2 samples
// have different kernels around it: ranks_run compares all final values of the ranks.
static void ranks_with_unequal_shares_have_equal_weights(void **state) {
    (void)state;
    Arena a = empty;
    RanksRun run;
    RanksOptions o = {.name = "infogan.gan",
                      .set = "nz=4 kinds=3 wide=2",
                      .batch = 5,
                      .parallel = {.ranks = 2},
                      .api = &device_cpu,
                      .real = DtF32,
                      .steps = 4,
                      .as_trained = true};
    o.text = ranks_model_text(&a, o.name);
    ranks_run(&a, &o, &run);
    ranks_free(&run);
}

static void accumulation_is_the_same_step(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
        Arena a = empty;
        RanksOptions o = {.name = models[i].model,
                          .set = models[i].set,
                          .batch = 12,
                          .api = &device_ref,
                          .real = DtF64,
                          .steps = 2};
        RanksRun plain, parts;
        o.text = ranks_model_text(&a, o.name);
        ranks_run(&a, &o, &plain);
        o.parallel.micro = 3;
        for (o.parallel.ranks = 1; o.parallel.ranks <= 2; o.parallel.ranks++) {
            ranks_run(&a, &o, &parts);
            ranks_compare(&plain, &parts, 1e-9, str_format(&a, "%s in parts", o.name).ptr);
        }
    }
}

// --- deferred tails ------------------------------------------------------------------------------

static void compare_deferred(const struct TailModel *m, RanksOptions o) {
    Arena a = empty;
    RanksRun plain, deferred;
    o.name = "tails.gan";
    o.text = str_format(&a, "%sstep {\n%s}\n", tail_model_head, m->step);
    o.batch = 6;
    o.as_trained = true;
    o.parallel.latency = 1e-4;
    o.parallel.bandwidth = o.real == DtF64 ? 2e6 : 1e6; // equally slow for both
    ranks_run(&a, &o, &plain);
    o.parallel.tail = true;
    ranks_run(&a, &o, &deferred);
    assert_int_equal(deferred.compiled.step.tail.n, m->tails);
    ranks_compare(&plain, &deferred, 0, m->step);
    ranks_free(&plain);
    ranks_free(&deferred);
}

static void a_block_may_defer_its_tail(void **state) {
    (void)state;
    for (uint32_t i = 0; i < TAIL_MODELS; i++)
        compare_deferred(&tail_models[i], (RanksOptions){.api = &device_ref,
                                                         .real = DtF64,
                                                         .steps = 5,
                                                         .parallel = {.ranks = 2}});
    for (uint32_t ranks = 2; ranks <= 3; ranks++)
        compare_deferred(&tail_models[1], (RanksOptions){.api = &device_cpu,
                                                         .real = DtF32,
                                                         .steps = 5,
                                                         .parallel = {.ranks = ranks}});
}

static void one_rank_defers_nothing(void **state) {
    (void)state;
    Arena a = empty;
    RanksRun run;
    RanksOptions o = {.name = "tails.gan",
                      .text =
                          str_format(&a, "%sstep {\n%s}\n", tail_model_head, tail_models[0].step),
                      .batch = 6,
                      .api = &device_ref,
                      .real = DtF64,
                      .steps = 1,
                      .parallel = {.tail = true},
                      .as_trained = true};
    ranks_run(&a, &o, &run);
    assert_int_equal(run.compiled.step.tail.n, 0);
    ranks_free(&run);
}

// --- squares about a mean ------------------------------------------------------------------------

// A mean a thousand times the deviation: the difference of sums of squares in f32 would lose it.
static void variances_are_as_exact_on_ranks(void **state) {
    (void)state;
    static const char far[] =
        "model far\ndata x : image(2, 4, 4) scale(-1, 1)\n"
        "net D(x: [2, 4, 4]) -> [] = (x + 1000) |> batch_norm(momentum=1) |> conv(4, k=3, pad=1)\n"
        "  |> leaky_relu(0.2) |> flatten |> dense(1) |> squeeze\n"
        "opt = sgd(lr=0.1)\nstep { update D minimize bce(D(x), 1) using opt }\n";
    Arena a = empty;
    RanksOptions o = {.name = "far.gan",
                      .text = str_c(far),
                      .batch = 8,
                      .api = &device_ref,
                      .real = DtF64,
                      .steps = 1};
    RanksRun exact, got;
    ranks_run(&a, &o, &exact);
    o.parallel.ranks = 3; // of 2, 3 and 3 samples
    ranks_run(&a, &o, &got);
    ranks_compare(&exact, &got, 1e-12, "f64");
    ranks_free(&got);
    o.real = DtF32;
    for (int cpu = 0; cpu <= 1; cpu++) {
        o.api = cpu ? &device_cpu : &device_ref;
        ranks_run(&a, &o, &got);
        ranks_compare(&exact, &got, 1e-3, o.api->name);
        ranks_free(&got);
    }
    ranks_free(&exact);
}

// Squares about another channel's mean are not variances.
static void variances_about_given_means_do_not_depend_on_ranks(void **state) {
    (void)state;
    static const char turned[] =
        "model turned\ndata x : float(1, 3)\n"
        "net D(x: [1, 3]) -> [] = x |> flatten |> dense(1) |> squeeze\n"
        "step { h = tanh(x + unsqueeze(arange(3), 0)); m = reshape(mean(h, batch), 3, 1)\n"
        "  v = mean((h - m)^2, batch)\n"
        "  update D minimize mean(D(x)*v[0, 2]) using sgd(lr=0.1) }\n";
    const RanksOptions o = {.name = "turned.gan",
                            .text = str_c(turned),
                            .batch = 6,
                            .api = &device_ref,
                            .real = DtF32,
                            .steps = 2};
    compare_ranks(empty, o, 2, 1e-5, "means of other channels");
}

// --- losses -------------------------------------------------------------------------------------

// Losses that combine samples of the batch other than by a final mean.
static void losses_over_the_batch_do_not_depend_on_ranks(void **state) {
    static const char *const loss[] = {"spectrum_loss(x, f)",
                                       "focal_frequency_loss(x, f)",
                                       "histogram_loss(x, f, bins=5, eps=1e-6)",
                                       "mean(rfft(mean(f, batch))^2)",
                                       "sliced_wasserstein(flatten(x), flatten(f), 4)",
                                       "mean(topk(all_gather(mean(f*rotate(x, 0.3), sample)), 3))"};
    (void)state;
    for (size_t i = 0; i < sizeof loss / sizeof *loss; i++) {
        Arena a = empty;
        RanksOptions o = {
            .name = "spectra.gan", .batch = 7, .api = &device_ref, .real = DtF64, .steps = 3};
        o.text = str_format(&a,
                            "model spectra\ndata x : image(1, 6, 6) scale(-1, 1)\n"
                            "net G(z: [3]) -> [1, 6, 6] = z |> dense(36) |> tanh |> "
                            "reshape(1, 6, 6)\nstep { f = G(normal(3))\n"
                            "  update G minimize %s using sgd(lr=0.1) }\n",
                            loss[i]);
        compare_ranks(a, o, 2, 1e-9, loss[i]);
    }
}

#endif

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(models_do_not_depend_on_ranks),
#ifndef ALL_MODELS
        cmocka_unit_test(chunks_read_a_state_before_it_is_set),
        cmocka_unit_test(chunks_have_the_same_bits_on_any_number_of_ranks),
        cmocka_unit_test(ranks_with_unequal_shares_have_equal_weights),
        cmocka_unit_test(chunks_have_the_same_bits_on_the_cpu),
        cmocka_unit_test(accumulation_is_the_same_step),
        cmocka_unit_test(a_block_may_defer_its_tail),
        cmocka_unit_test(one_rank_defers_nothing),
        cmocka_unit_test(variances_are_as_exact_on_ranks),
        cmocka_unit_test(variances_about_given_means_do_not_depend_on_ranks),
        cmocka_unit_test(losses_over_the_batch_do_not_depend_on_ranks),
#endif
    };
    return ARENA_CASES(tests, (size_t)1 << 33);
}
