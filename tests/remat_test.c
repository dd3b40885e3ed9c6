// remat_test.c - a step that computes again what it cannot hold has the same bits as one that
// holds it: losses, gradients, weights and state, on ref and cpu, on one rank and on several; and
// takes less memory for it. Built twice: small models in the quick tier, the others in a long list.
#include "ranks_run.h"

#include <math.h>
#include <setjmp.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include "arena_cases.h"

#define MODELS ROOT_DIR "/models"

static Arena empty;

static Str read_model(Arena *a, const char *name) {
    Str text;
    assert_int_equal(file_read(a, path_join(a, STR(MODELS), str_c(name)), &text), GAN_OK);
    return text;
}

static const struct {
    const char *model, *set;
} models[] = {
#ifdef ALL_MODELS // MODEL=dcgan.gan picks one
    {"aae3d.gan", "points=64 nz=8"},
    {"began.gan", "size=16 wide=3 nz=5"},
    {"biggan.gan", "levels=[2,2,1] at=8 part=2 wide=2 kinds=3 shared=3 rounds=1"},
    {"cosmogan.gan", "size=32 flip=0.5"},
    {"cyclegan.gan", "size=32 blocks=1 pool=3"},
    {"d3gan.gan", "nz=5 ngf=4 ndf=4"},
    {"dcgan.gan", NULL},
    {"pix2pix.gan", "size=32 wide=2"},
    {"sagan.gan", "size=16 at=8 nz=5 wide=2 kinds=3"},
    {"sngan.gan", NULL},
    {"stargan.gan", "size=16 depth=2 kinds=3 wide=2 blocks=1 rounds=1"},
    {"stylegan2.gan", "size=16 wide=4 nz=5"},
    {"wgan_gp.gan", "critic=1"},
#else
    {"acgan.gan", "nz=6 wide=2 kinds=3"},
    {"demo.gan", "c=8 nz=5"},
    {"infogan.gan", "nz=4 kinds=3 wide=2"},
    {"r3gan.gan", "size=8 full=4 wide=4 groups=2 nz=5 blocks=1"},
    {"wavegan.gan", "slice=256 nz=5 wide=2 rounds=1"},
#endif
};

enum { Models = sizeof models / sizeof *models };

// At least `least` of the models can do with less.
static void same_bits(RanksOptions *o, uint32_t least) {
    uint32_t some = 0;
    for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
        const char *one = getenv("MODEL");
        Arena a = empty;
        RanksRun held, again;
        if (one && strcmp(one, models[i].model))
            continue;
        o->name = models[i].model;
        o->set = models[i].set;
        o->text = read_model(&a, o->name);
        o->squeezed = false;
        ranks_run(&a, o, &held);
        o->squeezed = true;
        ranks_run(&a, o, &again);
        const Plan *p = &held.compiled.step, *q = &again.compiled.step;
        ranks_compare(&held, &again, 0, str_format(&a, "%s, computed again", o->name).ptr);
        assert_true(q->remade->held == p->work_bytes);
        assert_true((q->work_bytes < p->work_bytes) == (q->remade->launches > 0));
        some += q->remade->launches > 0;
        assert_true(q->gflop_model == p->gflop_model);
        assert_true(fabs(q->gflop - p->gflop - q->remade->gflop) <= 1e-9 * p->gflop);
        ranks_free(&again);
        ranks_free(&held);
    }
    if (some < least && !getenv("MODEL"))
        fail_msg("%u models compute something again, not %u", some, least);
}

static void the_bits_are_the_same_on_ref(void **state) {
    (void)state;
    same_bits(&(RanksOptions){.batch = 2, .api = &device_ref, .real = DtF64, .steps = 2}, Models);
}

static void the_bits_are_the_same_on_the_cpu(void **state) {
    (void)state;
    same_bits(&(RanksOptions){.batch = 4, .api = &device_cpu, .real = DtF32, .steps = 2}, Models);
}

static void the_bits_are_the_same_in_halves(void **state) {
    (void)state;
    same_bits(&(RanksOptions){.batch = 4, .api = &device_cpu, .real = DtBF16, .steps = 2}, Models);
}

static void the_bits_are_the_same_on_ranks(void **state) {
    (void)state;
    same_bits(&(RanksOptions){.batch = 4,
                              .api = &device_cpu,
                              .real = DtF32,
                              .steps = 4,
                              .parallel = {.ranks = 2, .tail = true},
                              .as_trained = true},
              Models);
}

static void the_bits_are_the_same_in_chunks(void **state) {
    (void)state;
    same_bits(&(RanksOptions){.batch = 8,
                              .api = &device_cpu,
                              .real = DtF32,
                              .steps = 2,
                              .parallel = {.ranks = 2, .chunks = 4}},
              1);
}

static void the_bits_are_the_same_in_parts(void **state) {
    (void)state;
    same_bits(&(RanksOptions){.batch = 8,
                              .api = &device_cpu,
                              .real = DtF32,
                              .steps = 2,
                              .parallel = {.ranks = 1, .micro = 2}},
              1);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_bits_are_the_same_on_ref),
        cmocka_unit_test(the_bits_are_the_same_on_the_cpu),
        cmocka_unit_test(the_bits_are_the_same_in_halves),
        cmocka_unit_test(the_bits_are_the_same_on_ranks),
        cmocka_unit_test(the_bits_are_the_same_in_chunks),
        cmocka_unit_test(the_bits_are_the_same_in_parts),
    };
    return ARENA_CASES(tests, &empty, (size_t)1 << 33);
}
