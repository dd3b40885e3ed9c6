// shim_models_test.c - every fused region of the shipped models, in training and in sampling, by
// its CUDA kernel on the emulator against the reference evaluator. Sizes are small, and odd where
// a model allows. The quick list is a few models in f32; the build's other program (ALL) is the
// rest, and 16-bit floats.
#include "shim.h"
#include "shim_device.h"
#include "trial.h"

#include <math.h>
#include <setjmp.h>

#include <cmocka.h>
#include "cases.h"
#include "interp.h"

#define MODELS ROOT_DIR "/models"

static Arena empty;

#define assert_ok(call)                                                                            \
    do {                                                                                           \
        if ((call) != GAN_OK)                                                                      \
            fail_msg("%s: %s", #call, gan_error());                                                \
    } while (0)

// --- one model -----------------------------------------------------------------------------------

static int64_t classes_of(const Module *m, const Slot *s) {
    const Field *f = &m->stream.at[s->stream].field.at[s->site];
    return f->kind == FieldLabel ? f->classes : 0;
}

static void fill_data(Arena a, Exec *e, const Module *m) {
    for (uint32_t i = 0; i < m->slot.n; i++) {
        const Slot *s = &m->slot.at[i];
        if (s->kind != SlotData)
            continue;
        size_t n = (size_t)(type_sample(&s->type) * (s->type.batched ? m->batch : 1));
        double *x = arena_array(&a, double, n);
        int64_t classes = classes_of(m, s);
        for (size_t k = 0; k < n; k++) {
            x[k] = test_number((uint64_t)i << 32 | k);
            x[k] = classes ? floor((x[k] + 1) / 2 * (double)classes) : x[k];
        }
        assert_ok(exec_slot_put(e, i, x, n));
    }
}

// Avoids overflow, which would make the comparison useless: a kernel's zero padding gives NaN where
// the evaluator gives infinity.
static void lower_scales(Exec *e, const Module *m) {
    const double low = 64;
    for (uint32_t i = 0; i < m->slot.n; i++)
        if (str_starts(m->slot.at[i].name, STR(SCALE_REPORT)))
            assert_ok(exec_slot_put(e, i, &low, 1));
}

static void run_model(Arena a, const char *model, const char *set, int64_t batch, Dtype real) {
    const DeviceOptions plain = {.threads = 1};
    const CompileOptions o = {.real = real, .dialect = &dialect_cuda};
    TrialOptions t = {.name = model, .batch = batch, .set = set};
    Compiled c = {0};
    Device *d;
    Exec *e;
    t.text = trial_read(&a, MODELS, str_c(model));
    c.module = *trial_module(&a, &t);
    assert_ok(compile_plans(&a, &c.module, &o, &c));
    assert_ok(device_shim.open(&plain, &d));
    assert_ok(exec_begin(&device_shim, d, &a, &c.module, &c.init, &e));
    assert_ok(exec_plans(e, &c.step, c.entry));
    Counters counters = {.seed = 1, .step = 1};
    assert_ok(exec_init(e, counters.seed));
    lower_scales(e, &c.module);
    fill_data(a, e, &c.module);
    assert_ok(exec_step(e, &counters, NULL));
    for (uint32_t i = 0; i < c.module.entry.n; i++)
        assert_ok(exec_entry(e, i, &counters, NULL));
    ShimCount n = shim_device_count(d);
    exec_close(e);
    device_shim.close(d);
    print_message("%s, batch %d, %s: %u regions and %u calls ran; %u are too large here\n", model,
                  (int)batch, dtype_name[real], n.regions, n.calls, n.large);
    assert_true(n.regions > n.large); // else the sizes in the lists are wrong
}

// --- the lists -----------------------------------------------------------------------------------

typedef struct ModelCase {
    const char *model, *set;
    int64_t batch;
} ModelCase;

static const ModelCase quick[] = {
    {"d2gan_ring.gan", "nz=7 hidden=19", 5},
    {"acgan.gan", "nz=6 wide=2 kinds=3", 3},
    {"began.gan", "size=16 wide=3 nz=5 speed=0.1", 3},
};

static const ModelCase sized[] = {
    // models whose widths or images can be reduced
    {"demo.gan", "c=5", 3},
    {"pix2pix.gan", "size=32 wide=2", 3},
    {"aae3d.gan", "points=37", 3},
    {"r3gan.gan", "size=8 full=4 wide=4 groups=2 nz=5 blocks=1", 3},
    {"sagan.gan", "size=16 attn=8 nz=5 wide=2 kinds=3", 3},
    {"biggan.gan", "levels=[2,2,1] attn=8 z_chunk=2 wide=2 kinds=3 shared=3 rounds=1", 3},
    {"stylegan2.gan", "size=8 nz=5 depth=2 wide=3 group=3", 3},
    {"progan.gan", "size=8 nz=5 wide=3 fade=3", 4}, // 1/4 - 1/4 is 0: a bias has the drift alone
    {"cosmogan.gan", "size=32", 2},
    {"cyclegan.gan", "size=32 blocks=1", 1},
};

static const ModelCase wide[] = {
    // at their published widths
    {"dcgan.gan", NULL, 2},
    {"sngan.gan", NULL, 2},
    {"wgan_gp.gan", "critic=1", 2},
    {"d3gan.gan", NULL, 2},
};

static void run_list(const ModelCase *list, size_t n, Dtype real) {
    if (!shim_device_works()) {
        print_message("no C++ compiler: CUDA kernels were not run\n");
        skip();
    }
    for (size_t i = 0; i < n; i++)
        run_model(empty, list[i].model, list[i].set, list[i].batch, real);
}
#define RUN(list, real) run_list(list, sizeof list / sizeof *list, real)

static void small_models_in_f32(void **state) {
    (void)state;
    RUN(quick, DtF32);
}
static void small_models_in_bf16(void **state) {
    (void)state;
    RUN(quick, DtBF16);
}
static void small_models_in_f16(void **state) {
    (void)state;
    RUN(quick, DtF16);
}
static void sized_models_in_f32(void **state) {
    (void)state;
    RUN(sized, DtF32);
}
static void sized_models_in_bf16(void **state) {
    (void)state;
    RUN(sized, DtBF16);
}
static void wide_models_in_f32(void **state) {
    (void)state;
    RUN(wide, DtF32);
}

int main(int argc, char **argv) {
    if (arena_init(&empty, 0) != GAN_OK)
        return 1;
    const struct CMUnitTest tests[] = {
#if ALL
        cmocka_unit_test(small_models_in_bf16),
        cmocka_unit_test(small_models_in_f16),
        cmocka_unit_test(sized_models_in_f32),
        cmocka_unit_test(sized_models_in_bf16),
        cmocka_unit_test(wide_models_in_f32),
#else
        cmocka_unit_test(small_models_in_f32),
#endif
    };
    (void)small_models_in_f32, (void)small_models_in_bf16, (void)small_models_in_f16;
    (void)sized_models_in_f32, (void)sized_models_in_bf16, (void)wide_models_in_f32;
    if (CASES_LISTED(tests))
        return 0;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
